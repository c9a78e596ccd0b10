# SPDX-License-Identifier: Apache-2.0
"""Names, order and types of inputs and outputs stay ONNX's own, and options of the command do what they say."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import converter, judge
from tests.support.case import Case, i64, judge_case
from tests.support.tflite_file import read_tflite


def save(path, nodes, inputs, outputs, initializers=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(initializers))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


@pytest.mark.parametrize(
    "name", ["a/b:0", "with space", "serving_default_x:0", "ünïcode", "-1", "x" * 300, 'quote"\\', "y;z"]
)
def test_names_of_inputs_and_outputs_are_kept(name, tmp_path, litert, lowtide):
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", [name], [name + "_out"])],
        [value(name, [2, 3])],
        [value(name + "_out", [2, 3])],
    )
    verdict = judge.judge(path, litert=litert)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize(
    ("dims", "declared", "signature"),
    [([6], [1, 5], [1, 5]), ([6], [1, "k"], [1, -1]), (["n"], [1, 5], [1, 5])],
    ids=["declared", "named", "of a dynamic input"],
)
def test_declared_output_shape(dims, declared, signature, tmp_path, litert, lowtide):
    """The number of positions follows from no input; what the model declares of it is kept."""
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("NonZero", ["x"], ["n"]), helper.make_node("Cast", ["n"], ["y"], to=TensorProto.FLOAT)],
        [value("x", dims)],
        [value("y", declared)],
    )
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"
    (output,) = read_tflite(tmp_path / "m.tflite").outputs
    assert list(output.shape) == signature
    arrays = {"x": np.array([1, 0, 2, 3, 4, 5], np.float32)}
    verdict = judge.judge_file(path, tmp_path / "m.tflite", arrays=arrays, litert=litert)
    assert verdict.passed, str(verdict)


def test_declared_output_shape_that_contradicts_a_dynamic_input(tmp_path, lowtide):
    path = save(tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", ["n"])], [value("y", [5])])
    assert converter.convert(path, tmp_path / "m.tflite").status == "converted"
    (output,) = read_tflite(tmp_path / "m.tflite").outputs
    assert list(output.shape) == [-1]


def test_initializer_that_is_an_input_too_is_a_constant(tmp_path, litert, lowtide):
    """Before IR version 4 every initializer was listed as an input, with the value as its default."""
    weight = numpy_helper.from_array(np.ones((2, 3), np.float32), "w")
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Add", ["x", "w"], ["y"])],
        [value("x", [2, 3]), value("w", [2, 3])],
        [value("y", [2, 3])],
        [weight],
    )
    verdict = judge.judge(path, litert=litert)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("dtype", ["FLOAT", "FLOAT16", "DOUBLE", "INT8", "UINT8", "INT16", "INT32", "INT64", "BOOL"])
def test_types_of_inputs_and_outputs_are_kept(dtype, tmp_path, litert, lowtide):
    kind = getattr(TensorProto, dtype)
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        [value("x", [2, 3, 4], kind)],
        [value("y", [6, 4], kind)],
        [numpy_helper.from_array(i64(6, 4), "s")],
    )
    verdict = judge.judge(path, litert=litert)
    assert verdict.passed, str(verdict)


def test_shape_option_fixes_dynamic_dimensions(tmp_path, litert, lowtide):
    path = save(
        tmp_path / "m.onnx",
        [helper.make_node("Relu", ["x"], ["y"])],
        [value("x", ["N", 3, "H"])],
        [value("y", ["N", 3, "H"])],
    )
    verdict = judge.judge(path, shapes={"x": (2, 3, 5)}, litert=litert)
    assert verdict.passed, str(verdict)


def test_shape_option_must_agree_with_fixed_dimensions(tmp_path, lowtide):
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", ["N", 3])], [value("y", ["N", 3])]
    )
    for option in ("--shape=x=2,4", "--shape=x=2", "--shape=nothing=2,3", "--shape=x=2,-3", "--shape=x"):
        done = converter.convert(path, tmp_path / "m.tflite", [option])
        assert done.status == "refused", (option, done)


def test_layout_option_turns_input_and_output(tmp_path, litert, lowtide):
    case = Case("layout", "float[1,3,7,9] x", "y = Conv(x, w)", {"w": (4, 3, 3, 2)})
    assert judge_case(case, tmp_path, litert).passed
    model, tflite = tmp_path / "model.onnx", tmp_path / "nhwc.tflite"
    done = converter.convert(model, tflite, ["--layout=x=nhwc", "--layout=y=nhwc"])
    assert done.status == "converted", done
    file = read_tflite(tflite)
    assert [(p.name, p.shape) for p in file.inputs + file.outputs] == [("x", (1, 7, 9, 3)), ("y", (1, 5, 8, 4))]
    assert file.operators["TRANSPOSE"] == 0
    x = np.random.default_rng(0).uniform(-1, 1, (1, 3, 7, 9)).astype(np.float32)
    expected = judge.reference(model, {"x": x})["y"]
    actual = litert.run(tflite, {"x": np.ascontiguousarray(x.transpose(0, 2, 3, 1))}, True)["y"]
    np.testing.assert_allclose(actual.transpose(0, 3, 1, 2), expected, atol=1e-5)


def test_dry_run_writes_nothing(tmp_path, lowtide):
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])]
    )
    done = converter.run("convert", path, "-o", tmp_path / "m.tflite", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx"]


def test_all_unsupported_nodes_are_listed_at_once(tmp_path, lowtide):
    nodes = [
        helper.make_node("FirstUnknown", ["x"], ["a"], name="node_one", domain="somewhere"),
        helper.make_node("Relu", ["a"], ["b"], name="node_two"),
        helper.make_node("SecondUnknown", ["b"], ["y"], name="node_three", domain="somewhere"),
    ]
    graph = helper.make_graph(nodes, "g", [value("x", [2, 3])], [value("y", [2, 3])])
    path = tmp_path / "m.onnx"
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13), helper.make_opsetid("somewhere", 1)]), path
    )
    done = converter.convert(path, tmp_path / "m.tflite")
    assert done.status == "refused", done
    for word in ("FirstUnknown", "SecondUnknown", "node_one", "node_three"):
        assert word in done.reason
    refused, not_judged = done.reason.split("could not be judged")
    assert "node_two" not in refused and "node_two" in not_judged


def test_peak_rss_is_printed(tmp_path, lowtide):
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])]
    )
    done = converter.convert(path, tmp_path / "m.tflite")
    assert done.status == "converted", done
    assert done.peak_rss and 2**20 < done.peak_rss < 2**28, done.stdout + done.stderr


def test_two_runs_give_the_same_bytes(tmp_path, lowtide):
    case = Case(
        "bytes",
        "float[1,3,7,9] x",
        "a = Conv(x, w) r = Relu(a) y = Conv<group=2>(r, v)",
        {"w": (4, 3, 3, 2), "v": (6, 2, 3, 3)},
    )
    onnx.save(case.model(), tmp_path / "m.onnx")
    seen = set()
    for options in ([], [], ["--threads=1"], ["--threads=2"], ["--max-rss=24M"], ["--max-rss=256M"]):
        output = tmp_path / "m.tflite"
        done = converter.convert(tmp_path / "m.onnx", output, options)
        assert done.status == "converted", done
        seen.add(output.read_bytes())
        output.unlink()
    assert len(seen) == 1


@pytest.mark.parametrize("kind", ["onnx", "tflite"])
def test_inspect(kind, tmp_path, lowtide):
    path = save(
        tmp_path / "m.onnx", [helper.make_node("Relu", ["x"], ["y"])], [value("x", [2, 3])], [value("y", [2, 3])]
    )
    if kind == "tflite":
        assert converter.convert(path, tmp_path / "m.tflite").status == "converted"
        path = tmp_path / "m.tflite"
    text = converter.run("inspect", path)
    assert text.returncode == 0 and re.search("relu", text.stdout, re.IGNORECASE), text
    listing = converter.run("inspect", path, "--json")
    assert listing.returncode == 0 and re.search("relu", json.dumps(json.loads(listing.stdout)), re.IGNORECASE)
