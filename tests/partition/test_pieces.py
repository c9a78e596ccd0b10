# SPDX-License-Identifier: Apache-2.0
"""Models of mixed operators in pieces, judged by ONNX Runtime on the whole model: 1e-5 of the range of an output, and
exactly where it is of integers or strings."""

import itertools
import json
import os
import signal
import subprocess
import time

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import lowtide
from tests.oracle.real_models import FOLDER
from tests.partition import models
from tests.support import converter, json_schema

SCHEMA = json.loads((converter.ROOT / "schemas/manifest.schema.json").read_text())
TOLERANCE = 1e-5


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setenv("LOWTIDE", str(converter.program()))


def partition(model, folder, *options):
    done = converter.run("partition", model, "-o", folder, *options)
    assert done.returncode == 0, done.stderr
    return done.stdout


def whole(path, feed):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_outputs()]
    return dict(zip(names, session.run(names, feed)))


def agree(found, expected, tolerance=TOLERANCE):
    assert list(found) == list(expected)
    for name, right in expected.items():
        array = found[name]
        assert array.shape == right.shape and array.dtype == right.dtype, name
        if right.dtype.kind != "f":
            np.testing.assert_array_equal(array, right, err_msg=name)
            continue
        span = max(float(np.ptp(right)), float(np.abs(right).max()), 1e-30)
        assert float(np.abs(array.astype(np.float64) - right).max()) <= tolerance * span, name


def read(folder):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert json_schema.faults(manifest, SCHEMA, "manifest") == []
    return manifest


@pytest.mark.parametrize("name", models.MIXED)
def test_mixed_models(name, tmp_path):
    mixed = models.MIXED[name]()
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", *mixed.options)
    manifest = read(tmp_path / "pieces")
    assert "".join(piece["runtime"][0] for piece in manifest["pieces"]) == mixed.pieces
    # Halves: TFLite computes in f32 between its borders, ONNX Runtime rounds after each operator.
    tolerance = 2e-3 if name == "halves" else TOLERANCE
    with lowtide.Runner(tmp_path / "pieces") as runner:
        for _ in range(2):
            agree(runner.run(mixed.feed), whole(path, mixed.feed), tolerance)
    for piece in manifest["pieces"]:
        if piece["runtime"] == "onnx":
            onnx.checker.check_model(str(tmp_path / "pieces" / piece["file"]))
    files = {piece["file"] for piece in manifest["pieces"]} | {
        data["file"] for piece in manifest["pieces"] for data in piece["data"]
    }
    assert {path.name for path in (tmp_path / "pieces").iterdir()} == files | {"manifest.json"}
    assert [node["op"].split(".")[-1] for node in manifest["nodes"]] == [node.op_type for node in mixed.nodes]


@pytest.mark.parametrize("prefer", ["cheap", "fewest", "coverage"])
@pytest.mark.parametrize("more", [(), ("--max-piece", "8K"), ("--penalty", "0"), ("--penalty", "1e-5")])
def test_every_division_computes_the_same(prefer, more, tmp_path):
    mixed = models.convolutions(options=("--exclude-op", "Sin"))
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", *mixed.options, "--prefer", prefer, *more)
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


@pytest.mark.parametrize("prefer", ["fewest", "coverage"])
def test_values_between_pieces_go_forward(prefer, tmp_path):
    """More pieces than the least that the exact method tries: seven units of each runtime in turn."""
    names = ["Relu", "Neg"] * 7
    mixed = models.Mixed(
        [models.node(name, f"v{i}", f"v{i + 1}") for i, name in enumerate(names)],
        [models.typed("v0", [3, 4])],
        [models.typed("v14", [3, 4])],
        {"v0": models.numbers(3, 4)},
    )
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", "--prefer", prefer, "--exclude-op", "Neg")
    assert len(read(tmp_path / "pieces")["pieces"]) == 14
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


def test_a_value_with_the_name_of_a_computed_one(tmp_path):
    """The shape of x is known, and what computes it gets another name: not that of an input, or of a value in a body."""
    then_body, else_body = (
        helper.make_graph(
            [models.node(op, "s,three", f"s_computed_{op}"), models.node("Add", f"s,s_computed_{op}", op)],
            op,
            [],
            [models.typed(op, [2], TensorProto.INT64)],
        )
        for op in ("Add", "Mul")
    )
    for body in (then_body, else_body):  # the second name that would be tried
        body.node[0].output[0] = body.node[1].input[1] = "s_computed_"
    mixed = models.Mixed(
        [
            models.node("Shape", "x", "s"),
            models.node("Add", "s_computed,s", "a"),
            helper.make_node("If", ["which"], ["b"], name="choice", then_branch=then_body, else_branch=else_body),
            models.node("Mul", "a,b", "y"),
        ],
        [
            models.typed("x", [2, 3]),
            models.typed("s_computed", [2], models.INT64),
            models.typed("which", [], models.BOOL),
        ],
        [models.typed("y", [2], models.INT64)],
        {"x": models.numbers(2, 3), "s_computed": np.array([10, 20]), "which": np.array(True)},
        [models.ints("three", 3)],
    )
    path = mixed.save(tmp_path / "m.onnx")
    for i, options in enumerate([("--target", "onnx"), ("--exclude-op", "Mul"), ("--exclude-op", "If")]):
        partition(path, tmp_path / f"p{i}", "--prefer", "fewest", *options)
        with lowtide.Runner(tmp_path / f"p{i}") as runner:
            for which in (True, False):
                feed = {**mixed.feed, "which": np.array(which)}
                agree(runner.run(feed), whole(path, feed))


def test_an_output_that_is_listed_twice(tmp_path):
    mixed = models.convolutions()
    mixed.outputs = [models.typed("c", [2, 4, 9, 11]), *mixed.outputs, models.typed("c", [2, 4, 9, 11])]
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", *mixed.options)
    assert [of["name"] for of in read(tmp_path / "pieces")["outputs"]] == ["c", "y"]
    with lowtide.Runner(tmp_path / "pieces") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


def random_sources():
    """Nodes that make r[5,7] of constants alone, other numbers each time."""

    def body(name):
        return helper.make_graph(
            [helper.make_node("RandomUniform", [], [name], shape=[5, 7])], name, [], [models.typed(name, [5, 7])]
        )

    return {
        "plain": helper.make_node("RandomUniform", [], ["r"], name="R", shape=[5, 7]),
        "body": helper.make_node("If", ["on"], ["r"], name="R", then_branch=body("r1"), else_branch=body("r2")),
        "function": helper.make_node("Noise", [], ["r"], name="R", domain="own"),
        "function in a function": helper.make_node("Outer", [], ["r"], name="R", domain="own"),
        "dropout": helper.make_node("Dropout", ["ones", "half", "on"], ["r"], name="R"),
    }


@pytest.mark.parametrize("source", random_sources())
def test_random_numbers_are_made_once(source, tmp_path):
    """They are added in one piece and subtracted in another one."""
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    random = helper.make_node("RandomUniform", [], ["r"], shape=[5, 7])
    functions = [
        helper.make_function("own", "Noise", [], ["r"], [random], imports),
        helper.make_function("own", "Outer", [], ["r"], [helper.make_node("Noise", [], ["r"], domain="own")], imports),
    ]
    nodes = [
        models.node("Neg", "x", "n"),
        random_sources()[source],
        models.node("Add", "n,r", "a"),
        models.node("MatMul", "a,same", "b"),
        models.node("Sub", "b,r", "y"),
    ]
    constants = {"on": np.array(True), "half": np.float32(0.5), "ones": np.ones((5, 7)), "same": np.eye(7)}
    graph = helper.make_graph(
        nodes,
        "g",
        [models.typed("x", [5, 7])],
        [models.typed("y", [5, 7])],
        [
            numpy_helper.from_array(np.asarray(array, bool if name == "on" else np.float32), name)
            for name, array in constants.items()
        ],
        value_info=[models.typed("r", [5, 7])],
    )
    onnx.save(helper.make_model(graph, functions=functions, opset_imports=imports, ir_version=8), tmp_path / "m.onnx")
    operators = [{"op": op} for op in ("Neg", "Add", "Sub", "If", "Dropout", "RandomUniform", "own.Noise", "own.Outer")]
    target = {"format": "lowtide-target", "version": 1, "name": "t", "writes": "onnx", "operators": operators}
    (tmp_path / "t.json").write_text(json.dumps(target))
    partition(tmp_path / "m.onnx", tmp_path / "p", "--target", tmp_path / "t.json", "--prefer", "fewest")
    manifest = read(tmp_path / "p")
    assert [piece["in_target"] for piece in manifest["pieces"]] == [True, False, True]
    assert "r" in {value["name"] for value in manifest["values"]}
    x = models.numbers(5, 7)
    with lowtide.Runner(tmp_path / "p") as runner:
        np.testing.assert_allclose(runner.run({"x": x})["y"], -x, atol=1e-5)


def test_one_runtime(tmp_path):
    mixed = models.convolutions()
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "all")
    assert [piece["file"] for piece in read(tmp_path / "all")["pieces"]] == ["0.tflite"]
    every = [f"--exclude-op={name}" for name in {node.op_type for node in mixed.nodes}]
    shown = partition(path, tmp_path / "none", *every)
    assert "note: nothing is in tflite" in shown
    assert [piece["file"] for piece in read(tmp_path / "none")["pieces"]] == ["0.onnx"]
    for folder in ("all", "none"):
        with lowtide.Runner(tmp_path / folder) as runner:
            agree(runner.run(mixed.feed), whole(path, mixed.feed))


def test_what_to_declare(tmp_path):
    """Of an operator that nobody knows."""
    mixed = models.inverse()
    mixed.value_info = []
    mixed.nodes[1].op_type = "Unheard"
    path = mixed.save(tmp_path / "m.onnx")
    shown = partition(path, tmp_path / "pieces", "--prefer", "fewest")
    assert "declare them with --value NAME=f32[1,n,?]: b\n" in shown
    assert [piece["runtime"] for piece in read(tmp_path / "pieces")["pieces"]] == ["tflite", "onnx"]
    reasons = {node["name"]: node["reason"] for node in read(tmp_path / "pieces")["nodes"]}
    assert reasons["Relu_c"] == "the type of its input 'b' is not known"
    partition(path, tmp_path / "more", "--prefer", "fewest", "--value", "b=f32[2,5,5]")
    assert [piece["runtime"] for piece in read(tmp_path / "more")["pieces"]] == ["tflite", "onnx", "tflite"]
    wrong = converter.run("partition", path, "-o", tmp_path / "wrong", "--value", "a=f64[2,5,5]")
    assert wrong.returncode == 2 and "'a' is declared to be f64, and is f32" in wrong.stderr
    assert not (tmp_path / "wrong").exists()


def test_a_wrong_declaration_is_an_error_and_no_wrong_result(tmp_path):
    mixed = models.inverse()
    mixed.value_info = []
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", "--prefer", "fewest", "--value", "b=f64[2,5,5]")
    with pytest.raises(lowtide.Error), lowtide.Runner(tmp_path / "pieces") as runner:
        runner.run(mixed.feed)
    partition(path, tmp_path / "shape", "--prefer", "fewest", "--value", "b=f32[2,5,6]")
    with pytest.raises(lowtide.Error), lowtide.Runner(tmp_path / "shape") as runner:
        runner.run(mixed.feed)


def test_the_certificate(tmp_path):
    mixed = models.convolutions()
    path = mixed.save(tmp_path / "m.onnx")
    shown = converter.run("partition", path, "--dry-run", *mixed.options).stdout
    assert "with all in tflite that it can run: 3 pieces" in shown and "Relu_b -> Sin_c -> Conv_d" in shown
    assert "1 x Sin: its operator is excluded by --exclude-op: Sin_c" in shown
    assert [entry.name for entry in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    "options, words",
    [
        (["--exclude-op", "Sinn"], "--exclude-op: the model has no 'Sinn'; did you mean 'Sin'?"),
        (["--exclude-node", "sin_c"], "--exclude-node: the model has no 'sin_c'; did you mean 'Sin_c'?"),
        (["--value", "nothing=f32[1]"], "--value nothing: no node makes a value of this name"),
        (["--exclude-op", "Sin", "--prefer", "fewest", "--max-pieces", "2"], "at least 3 pieces are needed"),
        (["--max-piece", "100"], "a limit of"),
        (["--penalty", "x"], "'x' is not a number from 0 to 1000"),
        (["--prefer", "best"], "'best' is not one of cheap, fewest, coverage"),
        (["-o", "/proc/pieces"], "/proc/pieces"),
        (["-o", "m.onnx"], "something that is no folder is there"),
        (["-o", "."], "the output needs a name of its own"),
        (["-o", "full"], "the folder is not empty"),
        (["-o", "no/folder"], "the folder 'no' does not exist"),
        (["--max-rss", "1M"], "--max-rss"),
    ],
)
def test_bad_options(options, words, tmp_path):
    models.convolutions().save(tmp_path / "m.onnx")
    (tmp_path / "full").mkdir()
    (tmp_path / "full/file").write_text("kept")
    done = converter.run("partition", "m.onnx", *options, cwd=tmp_path)
    assert done.returncode not in (0, 1, 11) and done.stderr.count("\n") == 1 and words in done.stderr, done
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["full", "m.onnx"]


def test_nothing_is_left_behind_after_an_interrupt(tmp_path):
    converter.run(
        "make-model", "conv-stack", "--size", "512M", "--external", "--sparse", "-o", tmp_path / "m.onnx", "-q"
    )
    before = sorted(entry.name for entry in tmp_path.iterdir())
    child = subprocess.Popen(
        [converter.program(), "partition", tmp_path / "m.onnx", "-o", tmp_path / "pieces", "--penalty", "0"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while time.monotonic() < end and child.poll() is None:
        if any(entry.name.startswith(".pieces.lowtide-") and os.listdir(entry) for entry in tmp_path.iterdir()):
            break
        time.sleep(0.001)
    child.send_signal(signal.SIGINT)
    child.wait(timeout=60)
    left = sorted(entry.name for entry in tmp_path.iterdir())
    assert left == before or (child.returncode == 0 and left == sorted([*before, "pieces"]))


def test_memory_is_not_that_of_the_weights(tmp_path):
    converter.run(
        "make-model", "conv-stack", "--size", "256M", "--external", "--sparse", "-o", tmp_path / "m.onnx", "-q"
    )
    shown = partition(tmp_path / "m.onnx", tmp_path / "pieces", "--max-piece", "100M", "--max-rss", "32M")
    assert len(read(tmp_path / "pieces")["pieces"]) > 2
    assert float(shown.split("peak RSS ")[1].split()[0]) <= 32, shown


def test_limited_memory_closes_pieces(tmp_path, monkeypatch):
    mixed = models.convolutions()
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", *mixed.options)
    with lowtide.Runner(tmp_path / "pieces", max_rss="512M") as runner:
        agree(runner.run(mixed.feed), whole(path, mixed.feed))
        profile = runner.pieces_profile(tmp_path / "trace.json")
        assert [row["runs"] for row in profile] == [1, 1, 1] and all(row["run_seconds"] > 0 for row in profile)
        assert set(runner.tensors) == {"b", "c", "f"} & set(runner.tensors) and "c" in runner.tensors
        assert list(runner.run(mixed.feed, ["c"])) == ["c"]
        assert [row["runs"] for row in runner.pieces_profile()] == [2, 2, 1]  # the last one is not needed
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert {event["name"] for event in trace["traceEvents"]} == {"thread_name", "load", "run", "check"}
    # Each piece takes a MiB. What small ones really take may be nothing: the runtime has freed memory of others.
    readings = itertools.count(100 << 20, 1 << 20)
    monkeypatch.setattr(lowtide.memory, "resident", lambda: (next(readings), 0, 0))
    with pytest.raises(lowtide.Budget, match="piece [0-9] does not fit"):
        lowtide.Runner(tmp_path / "pieces", max_rss="512K")


def test_pieces_that_do_not_need_each_other_run_at_once(tmp_path):
    """Three branches with a weight each, of which a piece holds one."""
    branches = [(f"x{i}", f"w{i}", f"a{i}", f"b{i}") for i in range(3)]
    nodes = []
    for x, w, a, b in branches:
        nodes += [models.node("MatMul", f"{x},{w}", a), models.node("ReduceMean", a, b, axes=[0])]
    mixed = models.Mixed(
        [*nodes, models.node("Add", "b0,b1", "c"), models.node("Mul", "c,b2", "y")],
        [models.typed(f"x{i}", [3 + i, 50]) for i in range(3)],
        [models.typed("y", [1, 40])],
        {f"x{i}": models.numbers(3 + i, 50) for i in range(3)},
        [models.weight(f"w{i}", 50, 40) for i in range(3)],
    )
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", "--target", "onnx", "--max-piece", "12K")
    with lowtide.Runner(tmp_path / "pieces") as runner:
        assert runner._session._waves == [[0, 1], [2]]
        for _ in range(20):
            agree(runner.run(mixed.feed), whole(path, mixed.feed))
        assert list(runner.run(mixed.feed, ["b1"])) == ["b1"]
    with lowtide.Runner(tmp_path / "pieces", max_rss="512M") as runner:
        assert runner._session._waves == [[0], [1], [2]]
        agree(runner.run(mixed.feed), whole(path, mixed.feed))


def test_outputs_of_small_floats_are_bits(tmp_path):
    mixed = models.eights()
    mixed.outputs.append(models.typed("q", [2, 4, 5, 8], TensorProto.FLOAT8E4M3FN))
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", *mixed.options)
    assert [of["dtype"] for of in read(tmp_path / "pieces")["outputs"]] == ["f32", "f8e4m3fn"]
    with lowtide.Runner(tmp_path / "pieces") as pieces, lowtide.Runner(path) as model:
        got, want = pieces.run(mixed.feed)["q"], model.run(mixed.feed)["q"]
    assert got.dtype == want.dtype == np.uint8
    np.testing.assert_array_equal(got, want)


# Samples of one call by rate; 0 where the rate is no input.
SILERO = {
    "silero-vad__silero_vad.onnx": {16000: 512, 8000: 256},
    "silero-vad__silero_vad_16k_op15.onnx": {16000: 512},
    "silero-vad__silero_vad_half.onnx": {0: 512},
}


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no real models in {FOLDER}: silero_vad is not divided")
@pytest.mark.parametrize("name", SILERO)
def test_voice_activity_over_several_calls(name, tmp_path):
    """silero_vad as it is: its If has branches of different ranks, which TFLite has not; each call takes the last one's state."""
    partition(FOLDER / name, tmp_path / "pieces", "--prefer", "coverage")
    assert {piece["runtime"] for piece in read(tmp_path / "pieces")["pieces"]} == {"tflite", "onnx"}
    rng = np.random.default_rng(3)
    with lowtide.Runner(tmp_path / "pieces") as runner:
        for rate, samples in SILERO[name].items():
            state = np.zeros((2, 1, 128), np.float32)
            for _ in range(3):
                feed = {"input": rng.uniform(-1, 1, (1, samples)).astype(np.float32), "state": state}
                feed |= {"sr": np.array(rate)} if rate else {}
                found, expected = runner.run(feed), whole(FOLDER / name, feed)
                agree(found, expected)
                state = expected["stateN"]


REAL = {
    "ort__mnist.onnx": "MaxPool",
    "onnx__light_squeezenet.onnx": "Concat",
    "ultraface__version-slim-320_without_postprocessing.onnx": "Transpose",
}


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"no real models in {FOLDER}: none is divided")
@pytest.mark.parametrize("name, excluded", REAL.items())
def test_real_models(name, excluded, tmp_path):
    partition(FOLDER / name, tmp_path / "pieces", "--exclude-op", excluded, "--prefer", "coverage")
    assert {piece["runtime"] for piece in read(tmp_path / "pieces")["pieces"]} == {"tflite", "onnx"}
    rng = np.random.default_rng(3)
    with lowtide.Runner(tmp_path / "pieces") as runner:
        feed = {}
        for port in runner.inputs.values():
            shape = [n if isinstance(n, int) else 1 for n in port.shape]
            feed[port.name] = rng.random(shape).astype(port.dtype)
        agree(runner.run(feed), whole(FOLDER / name, feed))
