# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX: slices and shapes that the model computes. LiteRT is the judge."""

import itertools

import numpy as np
import onnxruntime
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

from tests.raised.judge_raised import agrees, agrees_at, raised, result
from tests.raised.tflite_models import Model


def random(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(("begin", "end"), [(-9, -99), (3, 2**31 - 1), (-9, 2**31 - 1)])
def test_a_walk_back_without_elements(begin, end, tmp_path):
    """From before the first element ONNX walks from the first one, and ONNX Runtime takes the largest end for -1."""
    m = Model()
    lists = [m.constant([n], "i32") for n in (begin, end, -1)]
    made = m.op("STRIDED_SLICE", [m.input((5,)), *lists], (0,), options=("StridedSliceOptions", {}))
    m.write(tmp_path / "m.tflite", [made])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize(
    ("masks", "stride"),
    [
        *itertools.product([{}, {"beginMask": 1}, {"endMask": 1}], [None, -2]),
        ({"shrinkAxisMask": 2}, -2),
    ],
)
def test_slices_whose_lists_are_computed(masks, stride, tmp_path):
    """All places from before the first element to behind the last one, along the first axis of two."""
    m = Model()
    x = m.input((4, 3))
    lists = [m.input((2,), "i32"), m.input((2,), "i32")]
    lists.append(m.input((2,), "i32") if stride is None else m.constant([stride, 1], "i32"))
    shape = (4,) if "shrinkAxisMask" in masks else (4, 3)
    y = m.op("STRIDED_SLICE", [x, *lists], shape, options=("StridedSliceOptions", masks))
    m.write(tmp_path / "m.tflite", [y])
    model = raised(tmp_path / "m.tflite")
    names = [port.name for port in model.graph.input]
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    interpreter = Interpreter(str(tmp_path / "m.tflite"))
    interpreter.allocate_tensors()
    data = random(4, 3)
    for begin, end, step in itertools.product(
        range(-6, 7), [*range(-6, 7), 2**31 - 1], (1, 2, -1, -3) if stride is None else [0]
    ):
        values = [data, np.int32([begin, -1]), np.int32([end, 99])] + [np.int32([step, 1])] * (stride is None)
        for detail, value in zip(interpreter.get_input_details(), values, strict=True):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        wanted = result(interpreter, interpreter.get_output_details()[0])
        (made,) = session.run(None, dict(zip(names, values, strict=True)))
        assert made.shape == wanted.shape and np.array_equal(made, wanted), (begin, end, step)


# Each: the masks, the shape of the result, and begins, ends and strides for a place that is given at run time.
OTHER_AXES = {
    "x[..., i]": ({"ellipsisMask": 1, "shrinkAxisMask": 2}, lambda i: ([0, i], [0, i + 1], [1, 1])),
    "x[..., i:, i, None]": (
        {"ellipsisMask": 1, "endMask": 2, "shrinkAxisMask": 4, "newAxisMask": 8},
        lambda i: ([0, i, i, 0], [0, 0, i + 1, 0], [1, 1, 1, 1]),
    ),
    "x[:, i, ..., i:]": (
        {"beginMask": 1, "endMask": 9, "shrinkAxisMask": 2, "ellipsisMask": 4},
        lambda i: ([0, i, 0, i], [0, i + 1, 0, 0], [1, 1, 1, 1]),
    ),
    "x[None, i:, i]": (
        {"newAxisMask": 1, "endMask": 2, "shrinkAxisMask": 4},
        lambda i: ([0, i, i], [0, 0, i + 1], [1, 1, 1]),
    ),
    "x[::i, 1:4:2]": ({"beginMask": 1, "endMask": 1}, lambda i: ([0, 1], [0, 4], [2 if i > 0 else -1, 2])),
    "x[..., ::i]": ({"ellipsisMask": 1, "beginMask": 2, "endMask": 2}, lambda i: ([0, 0], [0, 0], [1, i or 1])),
}


@pytest.mark.parametrize("form", OTHER_AXES)
def test_computed_lists_that_name_other_axes(form, tmp_path):
    """What an index stands for follows from the masks, which are known."""
    masks, lists_for = OTHER_AXES[form]
    m = Model()
    x = m.input((4, 5, 6, 7))
    computed = 3 if "::i" in form else 2
    lists = [m.input((len(lists_for(0)[0]),), "i32") for _ in range(computed)]
    lists += [m.constant(known, "i32") for known in lists_for(0)[computed:]]
    y = m.op("STRIDED_SLICE", [x, *lists], (1,), options=("StridedSliceOptions", masks), version=4)
    m.write(tmp_path / "m.tflite", [y])
    data = random(4, 5, 6, 7)
    runs = [[data, *(np.int32(numbers) for numbers in lists_for(i)[:computed])] for i in (-3, -1, 0, 2)]
    agrees_at(tmp_path / "m.tflite", runs)


@pytest.mark.parametrize("shape", [(1, 3, 1, 5), (2, 3, 1, 5), (1, 3, 4, 5)])
def test_a_shape_of_computed_length(shape, tmp_path):
    """As of a squeeze of the axes that have one element. The file says how many axes are left."""
    m = Model()
    size = m.op("SHAPE", [m.input(shape)], (4,), "i32", options=("ShapeOptions", {"outType": schema.TensorType.INT32}))
    kept = m.op("NOT_EQUAL", [size, m.input((1,), "i32")], (4,), "bool")
    places = m.op("WHERE", [kept], (len(shape), 1), "i64")
    left = [extent for extent in shape if extent != 1]
    listed = m.op("GATHER_ND", [size, places], (len(left),), "i32")
    y = m.op("RESHAPE", [0, listed], left, options=("ReshapeOptions", {}))
    m.write(tmp_path / "m.tflite", [m.op("ABS", [y], left)])
    agrees(tmp_path / "m.tflite", values=[random(*shape), np.int32([1])])


@pytest.mark.parametrize("is_open", [False, True], ids=["known", "open"])
@pytest.mark.parametrize("activation", [1, 2, 3], ids=["RELU", "RELU_N1_TO_1", "RELU6"])
@pytest.mark.parametrize(("kind", "dtype"), [*itertools.product(["ADD", "SUB", "MUL"], ["i32", "i64"]), ("DIV", "i32")])
def test_an_activation_of_arithmetic_on_shapes(kind, dtype, activation, is_open, tmp_path):
    """What is known of the result holds for the result of the activation."""
    m = Model()
    x = m.input((2, 9, 4, 1))
    if is_open:
        m.graph.tensors[x].shapeSignature = [-1, 9, -1, 1]
    out_type = {"i32": schema.TensorType.INT32, "i64": schema.TensorType.INT64}[dtype]
    size = m.op("SHAPE", [x], (4,), dtype, options=("ShapeOptions", {"outType": out_type}))
    about_0 = m.op("ADD", [size, m.constant([-5, -3, -4, -2], dtype)], (4,), dtype, options=("AddOptions", {}))
    other = m.constant([1, 3, 2 if kind == "DIV" else -2, 1], dtype)
    fields = {"fusedActivationFunction": activation}
    y = m.op(kind, [about_0, other], (4,), dtype, options=(f"{kind.capitalize()}Options", fields))
    # A shape of it, too.
    wide = m.op("MAXIMUM", [y, m.constant([2] * 4, dtype)], (4,), dtype)
    filled = m.op("FILL", [wide, m.constant(3.0)], (2, 9, 4, 2))
    m.graph.tensors[filled].shapeSignature = [-1] * 4
    m.write(tmp_path / "m.tflite", [m.op("CAST", [y], (4,)), filled])
    agrees(tmp_path / "m.tflite")


def test_an_activation_of_what_wraps(tmp_path):
    """2^31 wraps to the least number before the activation makes 0 of it."""
    m = Model()
    size = m.op("SHAPE", [m.input((3, 2))], (2,), "i32", options=("ShapeOptions", {"outType": schema.TensorType.INT32}))
    fields = {"fusedActivationFunction": 3}
    y = m.op("MUL", [size, m.constant([1, 2**30], "i32")], (2,), "i32", options=("MulOptions", fields))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")
