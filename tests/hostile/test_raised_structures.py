# SPDX-License-Identifier: Apache-2.0
"""Small TFLite files that expand, or whose subgraphs, states and scales contradict each other. The file alone is valid; the
way back refuses it in one line."""

import numpy as np
import pytest

from tests.hostile.refusal import refuse_to_raise, run
from tests.raised.test_control_flow import binary, if_options, while_options
from tests.raised.tflite_models import Model


def refused(m, output, kind, words, tmp_path):
    m.write(tmp_path / "m.tflite", output if isinstance(output, list) else [output])
    refuse_to_raise(tmp_path / "m.tflite", kind, words)


@pytest.mark.parametrize(
    ("shape", "scales", "axis"), [((1, 1, 1, 1, 3), (0.1, 0.2, 0.3), 4), ((1, 3), (0.1, 0.2, 0.3), 1)]
)
def test_scales_that_do_not_fit_the_shape_that_the_operator_gives(shape, scales, axis, tmp_path):
    m = Model()
    y = m.op("TANH", [m.input((5, 2), "i8", scale=0.1)], shape, "i8", scale=scales, axis=axis)
    refused(m, m.op("DEQUANTIZE", [y], (5, 2)), "unsupported", ("3 scales along axis", "[5,2]"), tmp_path)


def test_several_scales_of_a_scalar(tmp_path):
    m = Model()
    y = m.op("DEQUANTIZE", [m.input((), "i8", scale=(0.1, 0.2), axis=5)], ())
    refused(m, y, "malformed", ("2 scales, and no axis",), tmp_path)


@pytest.mark.parametrize("moved", ["RESHAPE", "SQUEEZE", "EXPAND_DIMS"])
def test_complex_numbers_behind_a_refused_operator(moved, tmp_path):
    m = Model()
    bins = m.op("RFFT2D", [m.input((4, 8)), m.input((2,), "i32")], (), "c64")
    inputs, options = {
        "RESHAPE": ([bins, m.constant([1], "i32")], ("ReshapeOptions", {})),
        "EXPAND_DIMS": ([bins, m.constant(0, "i32")], ("ExpandDimsOptions", {})),
        "SQUEEZE": ([bins], ("SqueezeOptions", {"squeezeDims": []})),
    }[moved]
    y = m.op("REAL", [m.op(moved, inputs, (1,), "c64", options)], (1,))
    refused(m, y, "unsupported", ("RFFT2D", "the size that is transformed"), tmp_path)


@pytest.mark.parametrize("part", ["input", "output", "type"])
def test_a_composite_whose_scales_are_not_its_decompositions(part, tmp_path):
    m = Model()
    given, wanted = {"scale": 0.1, "zero": 1}, {"scale": 0.2, "zero": 1}
    with m.subgraph() as number:
        inner = m.input((3, 4), "i8", **(wanted if part == "input" else given))
        m.outputs([m.op("ABS", [inner], (3, 4), "i8", **given)])
    options = ("StableHLOCompositeOptions", {"name": "abs", "decompositionSubgraphIndex": number})
    result = wanted if part == "output" else given
    kind = "u8" if part == "type" else "i8"
    y = m.op("STABLEHLO_COMPOSITE", [m.input((3, 4), "i8", **given)], (3, 4), kind, options=options, **result)
    words = "an input differs in scale" if part == "input" else "output 0 differs in type or scale"
    refused(m, y, "unsupported", (words,), tmp_path)


@pytest.mark.parametrize("size", [0, 2])
def test_a_branch_by_a_condition_of_other_size(size, tmp_path):
    m = Model()
    x, flag = m.input((3, 4)), m.input((size,), "bool")
    with m.subgraph() as yes:
        m.outputs([m.op("TANH", [m.input((3, 4))], (3, 4))])
    y = m.op("IF", [flag, x], (3, 4), options=if_options(yes, yes))
    refused(m, y, "malformed", (f"the condition has {size} elements in place of one",), tmp_path)


def test_loops_in_the_conditions_of_loops(tmp_path):
    """Each condition is written twice."""
    depth = 15
    m = Model()
    with m.subgraph() as body:
        m.outputs([binary(m, "ADD", m.input((), "i32"), m.constant(1, "i32"), (), "i32")])
    for i in range(depth):
        with m.subgraph():
            turn = m.input((), "i32")
            if i + 1 < depth:
                turn = m.op("WHILE", [turn], (), "i32", while_options(body + i + 2, body))
            m.outputs([binary(m, "LESS", turn, m.constant(9, "i32"), (), "bool")])
    y = m.op("WHILE", [m.input((), "i32")], (), "i32", while_options(body + 1, body))
    refused(m, y, "unsupported", ("written with more than 65536 ops",), tmp_path)


def test_calls_with_very_many_inputs(tmp_path):
    """Subgraphs that are called often, of which the last passes its input on 20000 times."""
    calls, inputs = 100, 20000
    m = Model()

    def level(called):
        flag, x = m.constant([True], "bool"), m.input((1,))
        for _ in range(calls):
            m.op("IF", [flag, x], (1,), options=if_options(called, called))
        m.outputs([x])

    y = m.op("IF", [m.input((1,), "bool"), m.input((1,))], (1,), options=if_options(1, 1))
    for called in (2, 3):
        with m.subgraph():
            level(called)
    with m.subgraph():
        x = m.input((1,))
        m.outputs([x])
        m.op("IF", [m.constant([True], "bool"), *[x] * inputs], (1,), options=if_options(4, 4))
    with m.subgraph():
        x = m.input((1,))
        m.graph.inputs = [x] * inputs
        m.outputs([x])
    m.write(tmp_path / "m.tflite", [y])
    assert run(["convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx"]).returncode in (6, 8)


def test_very_many_tensors_of_one_name(tmp_path):
    m = Model()
    y = m.input((2, 3))
    for _ in range(6000):
        y = m.op("ABS", [y], (2, 3))
        m.graph.tensors[y].name = "same"
    m.write(tmp_path / "m.tflite", [y])
    assert run(["convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx"]).returncode == 0


@pytest.mark.parametrize("shape", [(2**31 - 1,), (2**31 - 1,) * 3])
def test_zeros_that_are_not_in_the_file(shape, tmp_path):
    m = Model()
    y = m.op("ADD", [m.input((1,)), m.variable(shape)], shape, options=("AddOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    refuse_to_raise(tmp_path / "m.tflite", ("unsupported", "malformed"))


def test_a_diagonal_that_is_very_long(tmp_path):
    m = Model()
    shape = (2**30, 1)
    y = m.op("MATRIX_SET_DIAG", [m.input(shape), m.input((1,))], shape, options=("MatrixSetDiagOptions", {}))
    refused(m, y, "unsupported", ("constants that are not in the file",), tmp_path)


def test_numbers_beyond_32_bits(tmp_path):
    m = Model()
    last = m.constant([0, 2**63 - 1], "i64")
    segments = m.op("SEGMENT_SUM", [m.input((2, 3)), last], (1, 3), options=("SegmentSumOptions", {}))
    refused(m, segments, "malformed", ("segment 9223372036854775807",), tmp_path)
    for kind in ("SPACE_TO_BATCH_ND", "BATCH_TO_SPACE_ND"):
        m = Model()
        border = m.constant([[2**62, 2**62], [0, 0]], "i64")
        y = m.op(kind, [m.input((4, 6, 2, 3)), m.constant([2, 2], "i32"), border], (4, 6, 2, 3))
        refused(m, y, "malformed", ("a border has the size",), tmp_path)


@pytest.mark.parametrize("kind", ["DIV", "FLOOR_MOD"])
def test_the_least_integer_by_minus_one(kind, tmp_path):
    m = Model()
    least = binary(m, kind, m.constant([-(2**31), 5], "i32"), m.constant([-1, 2], "i32"), (2,), "i32")
    y = binary(m, "ADD", m.input((2,), "i32"), least, (2,), "i32")
    refused(m, y, "unsupported", ("the least i32 by -1",), tmp_path)


@pytest.mark.parametrize("listed", [3, 4])
def test_an_ellipsis_that_stands_for_no_axis(listed, tmp_path):
    """LiteRT takes an axis for it."""
    m = Model()
    lists = [m.constant([value] * listed, "i32") for value in (0, 1, 1)]
    fields = {"ellipsisMask": 1, "newAxisMask": 4 if listed == 4 else 0}
    y = m.op("STRIDED_SLICE", [m.input((4, 5)), *lists], (1, 1), options=("StridedSliceOptions", fields))
    refused(m, y, "unsupported", ("an ellipsis that stands for no axis",), tmp_path)


def test_a_quantized_lstm_without_the_scale_of_its_step(tmp_path):
    random = np.random.default_rng(0)
    m = Model()
    x = m.input((2, 3, 4), "i8", scale=0.02, zero=1)
    wide, narrow = {"scale": 0.01}, {"scale": 0.02, "zero": 2}
    inputs = [m.constant(random.integers(-9, 9, (5, 4)), "i8", **wide) for _ in range(4)]
    inputs += [m.constant(random.integers(-9, 9, (5, 5)), "i8", **wide) for _ in range(4)]
    inputs += [-1] * 3 + [m.constant(random.integers(-9, 9, 5), "i32") for _ in range(4)] + [-1] * 2
    inputs += [m.variable((2, 5), "i8", **narrow), m.variable((2, 5), "i16", scale=2**-11)]
    table = ("UnidirectionalSequenceLSTMOptions", {"fusedActivationFunction": 4})
    y = m.op("UNIDIRECTIONAL_SEQUENCE_LSTM", [x, *inputs], (2, 3, 5), "i8", table, **narrow)
    m.graph.operators[-1].intermediates = [-1] * 5
    refused(m, y, "malformed", ("its intermediate 4",), tmp_path)
