# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX: element types and shapes at the border of what an operator takes."""

import numpy as np
import pytest

from tests.raised.judge_raised import agrees, raised, run_onnx
from tests.raised.test_operators import refused
from tests.raised.tflite_models import Model

# Operators whose nodes ONNX Runtime has for floats only, or for numbers only.
OTHER_TYPES = [
    ("GELU", "i32"),
    ("GELU", "bool"),
    ("ELU", "i32"),
    ("HARD_SWISH", "i64"),
    ("FLOOR", "i32"),
    ("EXP", "i64"),
    ("RSQRT", "i32"),
    ("LESS", "bool"),
    ("POW", "u32"),
]


@pytest.mark.parametrize("kind, dtype", OTHER_TYPES)
def test_types_that_an_operator_has_no_kernel_for_are_refused(kind, dtype, tmp_path):
    m = Model()
    inputs = [m.input((2, 3), dtype) for _ in range(2 if kind in ("LESS", "POW") else 1)]
    m.write(tmp_path / "m.tflite", [m.op(kind, inputs, (2, 3), "bool" if kind == "LESS" else dtype)])
    refused(tmp_path / "m.tflite", f"powers of {dtype}" if kind == "POW" else f"input 0 is {dtype}")


def test_remainders_of_halves(tmp_path):
    """LiteRT has no kernel of this type: numpy is the judge."""
    m = Model()
    inputs = [m.input((2, 3), "f16"), m.input((2, 3), "f16")]
    m.write(tmp_path / "m.tflite", [m.op("FLOOR_MOD", inputs, (2, 3), "f16")])
    raised(tmp_path / "m.tflite")
    a, b = np.float16([[5, -5, 4.5], [-4, 0, 7]]), np.float16([[3, 3, -2], [-2, 3, 7]])
    (made,) = run_onnx(tmp_path / "m.onnx", ["x0", "x1"], [a, b]).values()
    assert np.array_equal(made, np.mod(a, b))


@pytest.mark.parametrize("kind", ["MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_ANY"])
def test_reductions_of_no_elements_are_refused(kind, tmp_path):
    m = Model()
    dtype = "bool" if kind == "REDUCE_ANY" else "f32"
    inputs = [m.input((2, 0), dtype), m.constant([1], "i32")]
    m.write(tmp_path / "m.tflite", [m.op(kind, inputs, (2,), dtype, ("ReducerOptions", {}))])
    refused(tmp_path / "m.tflite", "an axis without elements")


@pytest.mark.parametrize("kind", ["SUM", "MEAN", "REDUCE_MAX"])
def test_the_axes_of_a_scalar_do_not_matter(kind, tmp_path):
    m = Model()
    m.write(
        tmp_path / "m.tflite", [m.op(kind, [m.input(()), m.constant([0], "i32")], (), "f32", ("ReducerOptions", {}))]
    )
    agrees(tmp_path / "m.tflite", values=[np.array(3.5, np.float32)])


@pytest.mark.parametrize("dtype", ["i8", "u32"])
def test_places_of_integers_that_are_not_zero(dtype, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op("WHERE", [m.input((4, 3), dtype)], (0, 2), "i64")])
    m.graph.tensors[-1].shapeSignature = [-1, 2]
    m.write(tmp_path / "m.tflite", [len(m.graph.tensors) - 1])
    values = [np.array([[0, 1, 2], [3, 0, 0], [0, 0, 5], [1, 1, 0]], np.int8 if dtype == "i8" else np.uint32)]
    agrees(tmp_path / "m.tflite", values=values)


def test_reshape_to_a_scalar_as_old_files_say_it(tmp_path):
    m = Model()
    m.write(
        tmp_path / "m.tflite", [m.op("RESHAPE", [m.input((1, 1))], (), options=("ReshapeOptions", {"newShape": [0]}))]
    )
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("builtin", ["SLICE", "PAD"])
def test_lists_without_axes_of_a_scalar(builtin, tmp_path):
    m = Model()
    none = m.constant(np.zeros((0, 2) if builtin == "PAD" else (0,)), "i32")
    m.write(tmp_path / "m.tflite", [m.op(builtin, [m.input(()), none, none][: 2 if builtin == "PAD" else 3], ())])
    agrees(tmp_path / "m.tflite", values=[np.array(3.5, np.float32)])


def test_indices_of_16_bits(tmp_path):
    m = Model()
    x, count = m.input((3, 7)), m.constant(2, "i32")
    m.write(tmp_path / "m.tflite", m.op("TOPK_V2", [x, count], [(3, 2), (3, 2)], ["f32", "i16"], outputs=2))
    agrees(tmp_path / "m.tflite")


def slice_by_offsets(path, begin, offset, stride, **masks):
    m = Model()
    lists = [m.constant([one, 0], "i32") for one in (begin, offset)] + [m.constant([stride, 1], "i32")]
    m.model.buffers[m.graph.tensors[lists[1]].buffer].data = np.array([offset, 3], np.int32).view(np.uint8)
    taken = -(-offset // stride)
    options = ("StridedSliceOptions", {"offset": True, **masks})
    y = m.op(
        "STRIDED_SLICE", [m.input((5, 3)), *lists], (3,) if masks.get("shrinkAxisMask") else (taken, 3), "f32", options
    )
    m.write(path, [y])


@pytest.mark.parametrize("masks", [{}, {"beginMask": 1}, {"shrinkAxisMask": 1}], ids=str)
@pytest.mark.parametrize(("begin", "offset", "stride"), [(0, 5, 1), (1, 4, 2), (-3, 2, 1), (2, 3, 1)])
def test_ends_that_count_from_the_begins(begin, offset, stride, masks, tmp_path):
    slice_by_offsets(tmp_path / "m.tflite", begin, offset, stride, **masks)
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize(
    ("begin", "offset", "stride", "mask"), [(3, 3, 1, 0), (-9, 2, 1, 0), (4, -2, -1, 0), (0, 2, 1, 1)]
)
def test_offsets_outside_of_the_data_are_refused(begin, offset, stride, mask, tmp_path):
    slice_by_offsets(tmp_path / "m.tflite", begin, offset, stride, endMask=mask)
    refused(tmp_path / "m.tflite", f"option offset with {offset} elements from place {begin} of an axis of 5")


def test_a_dropped_axis_whose_begin_is_before_it(tmp_path):
    m = Model()
    lists = [m.constant(values, "i32") for values in ([0, -7, -1], [4, 5, 6], [1, 1, 1])]
    options = ("StridedSliceOptions", {"shrinkAxisMask": 6})
    m.write(tmp_path / "m.tflite", [m.op("STRIDED_SLICE", [m.input((4, 5, 6)), *lists], (4,), options=options)])
    agrees(tmp_path / "m.tflite")


# Of each: the shapes of its data, its lists of integers, and the shape of its result.
WITHOUT_OPTIONS = {
    "RESIZE_BILINEAR": ([(1, 3, 4, 2)], [[5, 7]], (1, 5, 7, 2)),
    "RESIZE_NEAREST_NEIGHBOR": ([(1, 3, 4, 2)], [[5, 7]], (1, 5, 7, 2)),
    "STRIDED_SLICE": ([(3, 4)], [[1, 0], [3, 4], [1, 2]], (2, 2)),
    "CONCATENATION": ([(3, 4), (2, 4)], [], (5, 4)),
    "SOFTMAX": ([(3, 4)], [], (3, 4)),
    "LEAKY_RELU": ([(3, 4)], [], (3, 4)),
    "FULLY_CONNECTED": ([(3, 4), (5, 4), (5,)], [], (3, 5)),
    "BUCKETIZE": ([(3, 4)], [], (3, 4)),
}


@pytest.mark.parametrize("builtin", WITHOUT_OPTIONS)
def test_options_without_a_table_are_zeros(builtin, tmp_path):
    m = Model()
    data, lists, shape = WITHOUT_OPTIONS[builtin]
    inputs = [m.input(one) for one in data] + [m.constant(one, "i32") for one in lists]
    m.write(tmp_path / "m.tflite", [m.op(builtin, inputs, shape, "i32" if builtin == "BUCKETIZE" else "f32")])
    agrees(tmp_path / "m.tflite")


def test_one_hot_without_a_table_of_options(tmp_path):
    m = Model()
    inputs = [m.input((2,), "i32"), m.constant(3, "i32"), m.constant(1.5), m.constant(-1.0)]
    m.write(tmp_path / "m.tflite", [m.op("ONE_HOT", inputs, (3, 2))])
    agrees(tmp_path / "m.tflite")
