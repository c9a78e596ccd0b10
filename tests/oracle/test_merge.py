# SPDX-License-Identifier: Apache-2.0
"""lowtide merge: each signature of the one file gives what the separate conversion gives, in both of LiteRT's runtimes."""

import json
import re
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.oracle.test_interface import value
from tests.support import converter, json_schema, judge
from tests.support.limits import limited
from tests.support.tflite_file import read_tflite

RNG = np.random.default_rng(7)

# Runs signatures of a file in another process: {signature: {input: array}} -> {signature: {output: array}}.
_CHILD = """
import pickle, sys
import numpy as np
path, runtime, calls = sys.argv[1], sys.argv[2], pickle.load(sys.stdin.buffer)
out = {}
if runtime == "interpreter":
    from ai_edge_litert.interpreter import Interpreter
    interpreter = Interpreter(path)
    for key, arrays in calls.items():
        runner = interpreter.get_signature_runner(None if key == "" else key)
        out[key] = {name: np.array(array) for name, array in runner(**arrays).items()}
else:
    from ai_edge_litert.compiled_model import CompiledModel
    model = CompiledModel.from_file(path)
    for key, arrays in calls.items():
        signatures = model.get_signature_list()
        index = list(signatures).index(key) if key else 0
        name_of = list(signatures)[index]
        inputs, outputs = model.create_input_buffers(index), model.create_output_buffers(index)
        for name, buffer in zip(signatures[name_of]["inputs"], inputs):
            buffer.write(np.ascontiguousarray(arrays[name]))
        model.run_by_index(index, inputs, outputs)
        details = model.get_output_tensor_details(name_of)
        out[key] = {
            name: buffer.read(int(np.prod(details[name]["shape"])), np.dtype(details[name]["dtype"])).reshape(details[name]["shape"])
            for name, buffer in zip(signatures[name_of]["outputs"], outputs)
        }
sys.stdout.buffer.write(pickle.dumps(out))
"""  # fmt: skip


def run_signatures(path, runtime, calls):
    import pickle

    done = subprocess.run(
        [*limited(120, None), sys.executable, "-c", _CHILD, str(path), runtime],
        input=pickle.dumps(calls),
        capture_output=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr.decode(errors="replace")[-2000:]
    return pickle.loads(done.stdout)


def graph(path, nodes, inputs, outputs, constants):
    made = helper.make_graph(nodes, path.stem, inputs, outputs, [numpy_helper.from_array(a, n) for n, a in constants])
    onnx.save(helper.make_model(made, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


@pytest.fixture
def pair(tmp_path):
    """An encoder and a decoder that share their largest weight; the decoder has branches."""
    shared = RNG.uniform(-1, 1, (64, 32)).astype(np.float32)
    own = RNG.uniform(-1, 1, (32, 5)).astype(np.float32)
    encode = graph(
        tmp_path / "encode.onnx",
        [
            helper.make_node("MatMul", ["x", "table"], ["h"]),
            helper.make_node("Relu", ["h"], ["state"]),
        ],
        [value("x", [3, 64])],
        [value("state", [3, 32])],
        [("table", shared)],
    )
    then = helper.make_graph([helper.make_node("Exp", ["u"], ["t"])], "then", [], [value("t", [3, 5])])
    other = helper.make_graph([helper.make_node("Neg", ["u"], ["e"])], "else", [], [value("e", [3, 5])])
    decode = graph(
        tmp_path / "decode.onnx",
        [
            helper.make_node("MatMul", ["tokens", "embedding"], ["g"]),
            helper.make_node("Add", ["g", "state"], ["s"]),
            helper.make_node("MatMul", ["s", "own"], ["u"]),
            helper.make_node("If", ["flag"], ["y"], then_branch=then, else_branch=other),
        ],
        [value("tokens", [3, 64]), value("state", [3, 32]), value("flag", [], TensorProto.BOOL)],
        [value("y", [3, 5]), value("s", [3, 32])],
        [("embedding", shared), ("own", own)],
    )
    return encode, decode


def merged(tmp_path, *arguments, status=0):
    done = converter.run("merge", *arguments, "-o", tmp_path / "m.tflite")
    assert done.returncode == status, done
    return done


def calls():
    return {
        "encode": {"x": RNG.normal(size=(3, 64)).astype(np.float32)},
        "decode": {
            "tokens": RNG.normal(size=(3, 64)).astype(np.float32),
            "state": RNG.normal(size=(3, 32)).astype(np.float32),
            "flag": np.array(True),
        },
    }


@pytest.mark.parametrize("order", [("encode", "decode"), ("decode", "encode")])
@pytest.mark.parametrize("options", [[], ["--external-buffers"], ["--weights", "int8"]])
@pytest.mark.parametrize("runtime", ["interpreter", "compiled"])
def test_signatures_give_what_separate_conversions_give(order, options, runtime, pair, tmp_path, lowtide):
    models = dict(zip(("encode", "decode"), pair, strict=True))
    done = merged(tmp_path, *(f"{name}={models[name]}" for name in order), *options)
    for name, arrays in calls().items():
        assert converter.convert(models[name], tmp_path / f"{name}.tflite", options).status == "converted"
        for flag in (True, False) if name == "decode" else (True,):
            if name == "decode":
                arrays["flag"] = np.array(flag)
            got = run_signatures(tmp_path / "m.tflite", runtime, {name: arrays})[name]
            alone = run_signatures(tmp_path / f"{name}.tflite", runtime, {"": arrays})[""]
            expected = judge.reference(models[name], arrays)
            assert set(got) == set(alone) == set(expected)
            for output, array in got.items():
                np.testing.assert_array_equal(array, alone[output])
                if "int8" not in options:
                    np.testing.assert_allclose(array, expected[output], rtol=1e-4, atol=1e-4)
    sizes = [(tmp_path / f"{name}.tflite").stat().st_size for name in ("encode", "decode")]
    assert (tmp_path / "m.tflite").stat().st_size < sum(sizes) - (1500 if "int8" in options else 8000)
    assert "are stored with an equal one" in done.stdout


def test_equal_bytes_only(tmp_path, lowtide):
    """One bit decides; a type and a size that are the same do not."""
    weight = RNG.uniform(-1, 1, (64, 64)).astype(np.float32)
    near = weight.copy()
    near.view(np.uint32)[63, 63] ^= 1
    paths = []
    for number, array in enumerate((weight, near, weight.reshape(32, 128))):
        paths.append(
            graph(
                tmp_path / f"{number}.onnx",
                [helper.make_node("Add", ["x", "w"], ["y"])],
                [value("x", array.shape)],
                [value("y", array.shape)],
                [("w", array)],
            )
        )
    merged(tmp_path, f"a={paths[0]}", f"b={paths[1]}")
    two = (tmp_path / "m.tflite").stat().st_size
    merged(tmp_path, f"a={paths[0]}", f"b={paths[2]}")  # another shape of the same bytes
    one = (tmp_path / "m.tflite").stat().st_size
    assert two - one >= weight.nbytes - 200
    done = converter.run("merge", f"a={paths[0]}", f"b={paths[1]}", f"c={paths[2]}", "-o", tmp_path / "m.tflite")
    assert "1 constants, 16.4 kB, are stored with an equal one" in done.stdout, done
    for name, array in (("a", weight), ("b", near), ("c", weight.reshape(32, 128))):
        x = RNG.normal(size=array.shape).astype(np.float32)
        got = run_signatures(tmp_path / "m.tflite", "interpreter", {name: {"x": x}})[name]["y"]
        np.testing.assert_array_equal(got, x + array)


def test_memory_does_not_depend_on_weights(tmp_path, lowtide):
    for size in ("64M", "256M"):
        made = converter.run(
            "make-model", "matmul-stack", "--size", size, "-o", tmp_path / f"{size}.onnx", "--external"
        )
        assert made.returncode == 0, made
    peaks = {}
    for size in ("64M", "256M"):
        path = tmp_path / f"{size}.onnx"
        done = converter.run("merge", f"a={path}", f"b={path}", "-o", tmp_path / "m.tflite")
        assert done.returncode == 0, done
        found = converter._PEAK.search(done.stdout)
        peaks[size] = float(found[1])
        assert found[2] == "MiB" and peaks[size] < 36
        weights = (tmp_path / f"{size}.onnx.data").stat().st_size
        assert (tmp_path / "m.tflite").stat().st_size < weights * 1.05 + 100_000
    assert peaks["256M"] < peaks["64M"] + 3


def test_options_are_of_one_model(tmp_path, lowtide):
    a = graph(tmp_path / "a.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n", 3])], [value("y", ["n", 3])], [])  # fmt: skip
    b = graph(
        tmp_path / "b.onnx",
        [helper.make_node("Neg", ["x"], ["h"]), helper.make_node("Add", ["h", "c"], ["y"])],
        [value("x", ["n", 3]), value("c", [3])],
        [value("y", ["n", 3])],
        [],
    )
    merged(tmp_path, f"a={a}", f"b={b}", "--dim=a:n=2", "--shape=b:x=5,3", "--const=b:c=1,2,3", "--outputs=b:y,b:h")
    listing = json.loads(converter.run("inspect", "--json", tmp_path / "m.tflite").stdout)
    assert [[t["shape"] for t in g["inputs"]] for g in listing["graphs"]] == [[[2, 3]], [[5, 3]]]
    assert len(listing["graphs"][1]["outputs"]) == 2
    x = RNG.normal(size=(5, 3)).astype(np.float32)
    got = run_signatures(tmp_path / "m.tflite", "interpreter", {"b": {"x": x}})["b"]
    np.testing.assert_array_equal(got["y"], np.float32([1, 2, 3]) - x)


def test_the_report_has_all_models(pair, tmp_path, lowtide):
    report = tmp_path / "report.json"
    done = merged(tmp_path, f"encode={pair[0]}", f"decode={pair[1]}", f"--report={report}", "--verify-output")
    values = json.loads(report.read_text())
    schema = json.loads((converter.ROOT / "schemas/report.schema.json").read_text())
    assert json_schema.faults(values, schema) == []
    operators = {node["operator"] for graph in values["graphs"] for node in graph["nodes"]}
    assert operators >= {"MatMul", "Exp", "Neg", "If"}, operators
    assert [(m["signature"], m["input"], m["nodes"]) for m in values["models"]] == [
        ("encode", str(pair[0]), 2),
        ("decode", str(pair[1]), 4),
    ]
    assert values["operators_before"] == {"Add": 1, "Exp": 1, "If": 1, "MatMul": 3, "Neg": 1, "Relu": 1}
    assert values["nodes"] == 6 and values["output_bytes"] == (tmp_path / "m.tflite").stat().st_size
    assert {digest["tensor"] for digest in values["digests"]} and "1 constants, 8.2 kB" in done.stdout
    assert sum(values["operators_after"].values()) == values["operators"] == sum(
        len(graph["operators"]) for graph in values["graphs"]
    )  # fmt: skip
    page = tmp_path / "report.html"
    merged(tmp_path, f"encode={pair[0]}", f"decode={pair[1]}", f"--report={page}")
    assert "signature" in page.read_text()


def test_a_dry_run_writes_nothing(pair, tmp_path, lowtide):
    planned = merged(tmp_path, f"encode={pair[0]}", f"decode={pair[1]}", "--dry-run").stdout
    assert not (tmp_path / "m.tflite").exists()
    written = merged(tmp_path, f"encode={pair[0]}", f"decode={pair[1]}").stdout
    size = re.compile(r"operators, .*")
    assert size.findall(planned) == size.findall(written) != []


def test_refused_nodes_are_reported(pair, tmp_path, lowtide):
    foreign = graph(
        tmp_path / "foreign.onnx",
        [helper.make_node("Unknown", ["x"], ["y"], "odd", domain="org.example")],
        [value("x", [2, 3])],
        [value("y", [2, 3])],
        [],
    )
    report = tmp_path / "report.json"
    done = merged(tmp_path, f"a={pair[0]}", f"b={foreign}", f"--report={report}", status=8)
    values = json.loads(report.read_text())
    assert values["kind"] == "refusal" and values["input"] == str(foreign), done
    assert [node["operator"] for node in values["refused"]] == ["org.example.Unknown"]
    assert not (tmp_path / "m.tflite").exists()


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["encode={encode}"], "merge needs two models or more"),
        (["{encode}", "decode={decode}"], "is not of the form SIGNATURE=MODEL.onnx"),
        (["=a", "b=c"], "'=a' is not of the form SIGNATURE=MODEL.onnx"),
        (["a={encode}", "a={decode}"], "two models are called 'a'"),
        (["a={encode}", "b={decode}", "--shape=x=1,2"], "--shape x=1,2: say of which model, as a:x=1,2 (models: a, b)"),
        (["encode={encode}", "decode={decode}", "--dim=encod:n=1"], "did you mean 'encode'? (models: encode, decode)"),
        (["a={encode}", "b={decode}", "--weights=in-place"], "--weights in-place is for single models"),
        (["a={encode}", "b={decode}", "--shape=b:nothing=1"], "the model has no input 'nothing'"),
        (["a={encode}", "b={decode}", "--layout=b:y=flat"], "{decode}: --layout y: the axis order 'flat'"),
    ],
)
def test_what_is_refused(arguments, words, pair, tmp_path, lowtide):
    places = {"encode": pair[0], "decode": pair[1]}
    arguments = [argument.format(**places) for argument in arguments]
    done = converter.run("merge", *arguments, "-o", tmp_path / "m.tflite")
    assert done.returncode == 2 and words.format(**places) in done.stderr and done.stderr.count("\n") == 1, done
    assert not (tmp_path / "m.tflite").exists()


def test_the_output_may_be_neither_model(pair, tmp_path, lowtide):
    before = pair[0].read_bytes()
    done = converter.run("merge", f"a={pair[0]}", f"b={pair[1]}", "-o", pair[0])
    assert done.returncode == 2 and "is the input; give another name" in done.stderr and pair[0].read_bytes() == before


def test_the_file_has_both_signatures(pair, tmp_path, lowtide):
    from ai_edge_litert.interpreter import Interpreter

    merged(tmp_path, f"encode={pair[0]}", f"decode={pair[1]}")
    signatures = Interpreter(str(tmp_path / "m.tflite")).get_signature_list()
    assert {key: sorted(s["inputs"]) for key, s in signatures.items()} == {
        "encode": ["x"],
        "decode": ["flag", "state", "tokens"],
    }
    assert [p.name for p in read_tflite(tmp_path / "m.tflite").inputs] == ["x"]
    zipped = converter.run("merge", f"encode={pair[0]}", f"decode={pair[1]}", "-o", tmp_path / "m.tflite.zst", "-q")
    assert zipped.returncode == 0 and zipped.stdout == ""


def test_a_signature_that_begins_as_another(tmp_path, lowtide):
    """Options are for the model of the longest signature that fits."""
    path = graph(tmp_path / "m.onnx", [helper.make_node("Neg", ["x"], ["y"])], [value("x", ["n", 3])], [value("y", ["n", 3])], [])  # fmt: skip
    shapes = ["--shape", "a:b:x=5,3", "--shape", "a:x=2,3"]
    done = converter.run("merge", f"a={path}", f"a:b={path}", *shapes, "-o", tmp_path / "m.tflite")
    assert done.returncode == 0, done.stderr
    listed = converter.run("inspect", tmp_path / "m.tflite").stdout
    assert "f32[2,3]" in listed and "f32[5,3]" in listed
