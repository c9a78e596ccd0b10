# SPDX-License-Identifier: Apache-2.0
"""The judges judged: each kind of fault, in files made by hand, must be seen and named."""

import stat

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.support import converter, judge, limits
from tests.support.compare import ElementTolerance, RangeTolerance, compare
from tests.support.handmade import BOOL, F32, INT8, INT32, op, write
from tests.support.inputs import random_inputs
from tests.support.litert import Litert, RuntimeCrash, RuntimeRefusal, RuntimeTimeout
from tests.support.tflite_file import read_tflite

SHAPE = [2, 3]


def value(name, shape=SHAPE, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def save(folder, nodes, inputs, outputs):
    path = folder / "model.onnx"
    graph = helper.make_graph(nodes, "g", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


@pytest.fixture
def subtract(tmp_path):
    """y = a - b, z = a + b: order of inputs and of outputs both matter."""
    nodes = [helper.make_node("Sub", ["a", "b"], ["y"]), helper.make_node("Add", ["a", "b"], ["z"])]
    return save(tmp_path, nodes, [value("a"), value("b")], [value("y"), value("z")])


TENSORS = [("a", F32, SHAPE), ("b", F32, SHAPE), ("y", F32, SHAPE), ("z", F32, SHAPE)]
RIGHT = [op("SUB", [0, 1], [2]), op("ADD", [0, 1], [3])]


def test_right_file_passes(subtract, tmp_path, litert):
    file = write(tmp_path / "m.tflite", TENSORS, RIGHT, [0, 1], [2, 3])
    verdict = judge.judge_file(subtract, file, litert=litert)
    assert verdict.passed, verdict
    assert verdict.operators == {"SUB": 1, "ADD": 1}
    assert len(verdict.errors) == 4  # two outputs on two backends
    assert "0 of them TRANSPOSE" in judge.report(verdict)


def test_wrong_values_are_detected(subtract, tmp_path, litert):
    file = write(tmp_path / "m.tflite", TENSORS, [op("SUB", [1, 0], [2]), RIGHT[1]], [0, 1], [2, 3])
    verdict = judge.judge_file(subtract, file, litert=litert)
    assert verdict.status == "wrong" and "output 'y' off by" in verdict.reason


def test_swapped_inputs_are_detected(subtract, tmp_path, litert):
    file = write(tmp_path / "m.tflite", TENSORS, RIGHT, [1, 0], [2, 3])
    verdict = judge.judge_file(subtract, file, litert=litert)
    assert verdict.status == "wrong" and "inputs are ['b', 'a']" in verdict.reason


def test_swapped_outputs_are_detected(subtract, tmp_path, litert):
    file = write(tmp_path / "m.tflite", TENSORS, RIGHT, [0, 1], [3, 2])
    verdict = judge.judge_file(subtract, file, litert=litert)
    assert verdict.status == "wrong" and "outputs are ['z', 'y']" in verdict.reason


def test_wrong_names_are_detected(subtract, tmp_path, litert):
    tensors = [("a", F32, SHAPE), ("b:0", F32, SHAPE), *TENSORS[2:]]
    file = write(tmp_path / "m.tflite", tensors, RIGHT, [0, 1], [2, 3])
    assert "inputs are ['a', 'b:0']" in judge.judge_file(subtract, file, litert=litert).reason


def test_wrong_signature_is_detected(subtract, tmp_path, litert):
    crossed = ([("a", 1), ("b", 0)], [("y", 2), ("z", 3)])
    file = write(tmp_path / "m.tflite", TENSORS, RIGHT, [0, 1], [2, 3], signature=crossed)
    assert "the signature's inputs" in judge.judge_file(subtract, file, litert=litert).reason


def test_missing_signature_is_detected(subtract, tmp_path, litert):
    file = write(tmp_path / "m.tflite", TENSORS, RIGHT, [0, 1], [2, 3], signature=([], []))
    assert "the signature's inputs" in judge.judge_file(subtract, file, litert=litert).reason


def test_wrong_input_type_and_shape_are_detected(subtract, tmp_path, litert):
    tensors = [("a", INT32, SHAPE), *TENSORS[1:]]
    file = write(tmp_path / "m.tflite", tensors, RIGHT, [0, 1], [2, 3])
    assert "input 'a' is int32, expected float32" in judge.judge_file(subtract, file, litert=litert).reason
    tensors = [("a", F32, [3, 2]), *TENSORS[1:]]
    file = write(tmp_path / "m.tflite", tensors, RIGHT, [0, 1], [2, 3])
    assert "input 'a' has shape [3, 2]" in judge.judge_file(subtract, file, litert=litert).reason


def test_wrong_output_shape_is_detected(subtract, tmp_path, litert):
    tensors = [("a", F32, SHAPE), ("b", F32, SHAPE), ("y", F32, SHAPE), ("z", F32, [3, 2])]
    reshape = op("RESHAPE", [0], [3], options="ReshapeOptions", newShape=[3, 2])
    file = write(tmp_path / "m.tflite", tensors, [RIGHT[0], reshape], [0, 1], [2, 3])
    assert "output 'z' has shape [3, 2]" in judge.judge_file(subtract, file, litert=litert).reason


def test_declared_output_shape_must_hold(tmp_path, litert):
    model = save(tmp_path, [helper.make_node("Add", ["a", "a"], ["y"])], [value("a", ["n", 3])], [value("y", ["n", 3])])
    tensors = [("a", F32, [-1, 3]), ("y", F32, [2, 3])]
    file = write(tmp_path / "m.tflite", tensors, [op("ADD", [0, 0], [1])], [0], [1])
    verdict = judge.judge_file(model, file, shapes={"a": [7, 3]}, litert=litert)
    assert verdict.status == "wrong" and "declared as [2, 3]" in verdict.reason


def test_transposes_at_the_border_are_told_from_those_inside(tmp_path):
    def transpose(source, target):
        return op("TRANSPOSE", [source, 5], [target], options="TransposeOptions")

    tensors = [(name, F32, SHAPE) for name in "abcde"] + [("perm", INT32, [2])]
    inside = [transpose(0, 1), transpose(1, 2), op("ADD", [2, 2], [3]), transpose(3, 4)]
    file = read_tflite(write(tmp_path / "m.tflite", tensors, inside, [0], [4]))
    assert (file.operators["TRANSPOSE"], file.inner_transposes) == (3, 1)


def test_file_that_litert_refuses_is_wrong(subtract, tmp_path, litert):
    tensors = [*TENSORS[:3], ("z", BOOL, SHAPE)]
    file = write(tmp_path / "m.tflite", tensors, RIGHT, [0, 1], [2, 3])
    verdict = judge.judge_file(subtract, file, litert=litert)
    assert verdict.status == "wrong"


def test_dynamic_dimension(tmp_path, litert):
    model = save(tmp_path, [helper.make_node("Add", ["a", "a"], ["y"])], [value("a", ["n", 3])], [value("y", ["n", 3])])
    tensors = [("a", F32, [-1, 3]), ("y", F32, [-1, 3])]
    dynamic = write(tmp_path / "d.tflite", tensors, [op("ADD", [0, 0], [1])], [0], [1])
    assert judge.judge_file(model, dynamic, shapes={"a": [7, 3]}, litert=litert).passed
    tensors = [("a", F32, [7, 3]), ("y", F32, [7, 3])]
    frozen = write(tmp_path / "f.tflite", tensors, [op("ADD", [0, 0], [1])], [0], [1])
    assert judge.judge_file(model, frozen, shapes={"a": [7, 3]}, fixed=("a",), litert=litert).passed
    # A fixed batch was not requested, and --shape must not give a dynamic one.
    assert judge.judge_file(model, frozen, shapes={"a": [7, 3]}, litert=litert).status == "wrong"
    assert judge.judge_file(model, dynamic, shapes={"a": [7, 3]}, fixed=("a",), litert=litert).status == "wrong"


def crashing(path):
    # LiteRT 2.3.0 aborts in unquantized int8 additions.
    tensors = [("a", INT8, SHAPE), ("y", INT8, SHAPE)]
    return write(path, tensors, [op("ADD", [0, 0], [1])], [0], [1])


def endless(path):
    """while (x == x) x = x * x"""
    condition = ([("p", F32, [1]), ("go", BOOL, [1])], [op("EQUAL", [0, 0], [1], options="EqualOptions")], [0], [1])
    body = ([("p", F32, [1]), ("q", F32, [1])], [op("MUL", [0, 0], [1])], [0], [1])
    loop = op("WHILE", [0], [1], options="WhileOptions", condSubgraphIndex=1, bodySubgraphIndex=2)
    return write(path, [("a", F32, [1]), ("y", F32, [1])], [loop], [0], [1], more_subgraphs=[condition, body])


def test_crash_is_reported_and_the_next_model_runs(tmp_path):
    good = write(tmp_path / "g.tflite", TENSORS, RIGHT, [0, 1], [2, 3])
    bad = crashing(tmp_path / "c.tflite")
    one = np.ones(SHAPE, np.float32)
    with Litert(10) as runtime:
        with pytest.raises(RuntimeCrash, match="SIG"):
            runtime.run(bad, {"a": np.ones(SHAPE, np.int8)}, False)
        assert np.all(runtime.run(good, {"a": one, "b": one}, False)["z"] == 2)


def test_timeout_is_reported_and_the_next_model_runs(tmp_path):
    good = write(tmp_path / "g.tflite", TENSORS, RIGHT, [0, 1], [2, 3])
    one = np.ones(SHAPE, np.float32)
    with Litert(5) as runtime:
        runtime.run(good, {"a": one, "b": one}, False)
        runtime.time_limit = 1
        with pytest.raises(RuntimeTimeout):
            runtime.run(endless(tmp_path / "e.tflite"), {"a": np.ones(1, np.float32)}, False)
        runtime.time_limit = 10
        assert np.all(runtime.run(good, {"a": one, "b": one}, False)["z"] == 2)


def test_garbage_is_refused_by_litert(tmp_path):
    file = write(tmp_path / "g.tflite", TENSORS, RIGHT, [0, 1], [2, 3])
    file.write_bytes(b"\x1c\0\0\0TFLX" + b"\xff" * 200)
    with Litert(10) as runtime, pytest.raises(RuntimeRefusal, match="not a TFLite file"):
        runtime.run(file, {}, False)


# The comparison itself.


def test_compare_types_and_shapes_are_exact():
    x = np.ones((2, 3), np.float32)
    assert "is float64" in compare(x, x.astype(np.float64), RangeTolerance()).fault
    assert "shape [6]" in compare(x, x.reshape(6), RangeTolerance()).fault
    assert compare(np.float32(3), np.ones((1,), np.float32) * 3, RangeTolerance()).fault


def test_compare_integers_are_exact():
    x = np.array([1, 2**53 + 1], np.int64)
    assert compare(x, x.copy(), RangeTolerance()).fault is None
    assert "1 of 2" in compare(x, x - [0, 1], RangeTolerance()).fault
    flags = np.array([True, False])
    assert compare(flags, ~flags, RangeTolerance()).fault


def test_compare_non_finite_positions():
    x = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    assert compare(x, x.copy(), RangeTolerance()).fault is None
    for i, other in [(0, np.nan), (1, 1), (2, -np.inf), (3, 0), (0, np.inf), (2, np.nan)]:
        y = x.copy()
        y[i] = other
        assert f"at [{i}]" in compare(x, y, RangeTolerance()).fault
        assert compare(x, y, ElementTolerance()).fault


@pytest.mark.parametrize("scale", [1e-6, 1, 1e6])
def test_compare_is_relative_to_the_range(scale):
    x = np.linspace(-scale, scale, 7, dtype=np.float32)
    near, far = x.copy(), x.copy()
    near[3] += 0.9e-4 * 2 * scale
    far[3] += 1.2e-4 * 2 * scale
    assert compare(x, near, RangeTolerance()).fault is None
    assert compare(x, far, RangeTolerance()).fault
    assert compare(x, far, RangeTolerance()).relative == pytest.approx(1.2e-4, rel=1e-2)


def test_compare_elementwise():
    x = np.array([0, 100], np.float32)
    assert compare(x, x + np.float32([0.9e-4, 0.09]), ElementTolerance()).fault is None
    assert compare(x, x + np.float32([1.2e-4, 0]), ElementTolerance()).fault
    assert compare(x, x + np.float32([0, 0.11]), ElementTolerance()).fault


def test_compare_empty_and_narrow_types():
    import ml_dtypes

    assert compare(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32), RangeTolerance()).fault is None
    x = np.array([1.5, 2], ml_dtypes.bfloat16)
    assert compare(x, x.copy(), RangeTolerance()).fault is None
    assert compare(x, x + ml_dtypes.bfloat16(0.25), RangeTolerance()).fault
    n = np.array([1, -2], ml_dtypes.int4)
    assert compare(n, n.copy(), RangeTolerance()).fault is None
    assert compare(n, n[::-1], RangeTolerance()).fault


# Inputs.


def test_inputs_are_seeded_and_leave_initializers_out(tmp_path):
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "w"], ["y"])],
        "g",
        [value("a", ["n", 3]), value("w", [3])],
        [value("y", ["n", 3])],
        initializer=[helper.make_tensor("w", TensorProto.FLOAT, [3], [1, 2, 3])],
    )
    model = helper.make_model(graph)
    first, again = random_inputs(model), random_inputs(model)
    assert list(first) == ["a"] and first["a"].shape == (2, 3)
    assert np.array_equal(first["a"], again["a"])
    assert not np.array_equal(first["a"], random_inputs(model, seed=1)["a"])
    assert random_inputs(model, {"a": [4, 3]}, {"a": (5, 6)})["a"].min() >= 5


# How the program's exits are judged, with shell scripts in its place.


@pytest.fixture
def pretend(tmp_path, monkeypatch):
    def make(script):
        program = tmp_path / "lowtide"
        program.write_text("#!/bin/sh\n" + script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("LOWTIDE", str(program))
        folder = tmp_path / "out"
        folder.mkdir(exist_ok=True)
        return converter.convert(tmp_path / "m.onnx", folder / "m.tflite", cpu_seconds=1)

    return make


def test_conversion_outcomes(pretend):
    done = pretend('echo "peak RSS 12.5 MiB (anonymous 8, file 4.5)"; touch "$4"')
    assert done.status == "converted" and done.peak_rss == int(12.5 * 2**20)


@pytest.mark.parametrize(
    "script, status, reason",
    [
        ("echo 'm.onnx: node 7 (Foo): unknown' >&2; exit 3", "refused", "node 7 (Foo)"),
        ("exit 0", "broken", "without an output file"),
        ("exit 3", "broken", "without an error message"),
        ("echo vector out of range >&2; exit 1", "broken", "exit status 1: vector"),
        ("echo 'a pass went wrong [internal]' >&2; exit 11", "broken", "exit status 11"),
        ("kill -SEGV $$", "broken", "SIGSEGV"),
        ("while :; do :; done", "broken", "more than 1 s of CPU time"),
        ("exec sleep 1000", "broken", "more than 3 s"),
        ('echo no >&2; touch "$4"; exit 8', "broken", "left m.tflite behind"),
        ('echo no >&2; touch "$4.tmp"; exit 8', "broken", "left m.tflite.tmp behind"),
    ],
)
def test_failures_of_the_program(pretend, script, status, reason, monkeypatch):
    if "sleep" in script:
        monkeypatch.setattr(limits, "hang", lambda _cpu_seconds: 3)
    done = pretend(script)
    assert done.status == status and reason in done.reason


def test_missing_program(monkeypatch, tmp_path):
    monkeypatch.setenv("LOWTIDE", str(tmp_path / "nothing"))
    with pytest.raises(FileNotFoundError, match="not built"):
        converter.program()
