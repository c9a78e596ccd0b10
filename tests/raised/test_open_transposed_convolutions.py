# SPDX-License-Identifier: Apache-2.0
"""TRANSPOSE_CONV and CONV_3D_TRANSPOSE of images with open sizes. LiteRT is the judge, at three sizes."""

import numpy as np
import pytest

from tests.raised.judge_raised import agrees_at, operators
from tests.raised.tflite_models import Model

SAME, VALID = 0, 1
RELU = 1


def random(*shape, seed=5):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def extent(m, shape, axis, stride, more):
    """stride * size + more, of a size that is known at run time only."""
    size = m.op("GATHER", [shape, m.constant(axis, "i32")], (), "i32", ("GatherOptions", {}))
    size = m.op("MUL", [size, m.constant(stride, "i32")], (), "i32", ("MulOptions", {}))
    return m.op("ADD", [size, m.constant(more, "i32")], (), "i32", ("AddOptions", {}))


def made_shape(m, x, rank, strides, more, channels):
    shape = m.op("SHAPE", [x], (rank,), "i32", ("ShapeOptions", {"outType": 2}))
    sizes = [extent(m, shape, 0, 1, 0)]
    sizes += [extent(m, shape, 1 + i, stride, more) for i, stride in enumerate(strides)]
    sizes.append(m.constant(channels, "i32"))
    return m.op("PACK", sizes, (rank,), "i32", ("PackOptions", {"valuesCount": rank, "axis": 0}))


def transposed(m, shape, x, kernel, stride, padding, is_quantized):
    fields = {"padding": padding, "strideH": stride, "strideW": stride, "fusedActivationFunction": RELU}
    if is_quantized:
        numbers = np.random.default_rng(3).integers(-90, 90, (5, kernel, kernel, 3))
        weights = m.constant(numbers, "i8", scale=[0.01] * 5, zero=[0] * 5)
        bias = m.constant([500, -30, 0, 200, 9], "i32", scale=[0.0005] * 5, zero=[0] * 5)
        quantization = {"scale": 0.1, "zero": -100}
        options = ("TransposeConvOptions", fields)
        return m.op("TRANSPOSE_CONV", [shape, weights, x, bias], (1, 1, 1, 5), "i8", options, version=3, **quantization)
    inputs = [shape, m.constant(random(5, kernel, kernel, 3)), x, m.constant(random(5, seed=2))]
    return m.op("TRANSPOSE_CONV", inputs, (1, 1, 1, 5), options=("TransposeConvOptions", fields), version=3)


def images(is_quantized):
    sizes = [(1, 4, 5), (2, 7, 3), (1, 1, 2)]
    if not is_quantized:
        return [random(*size, 3) for size in sizes]
    return [(random(*size, 3) * 50).clip(-128, 127).astype(np.int8) for size in sizes]


# What the result is larger than the image times the stride.
@pytest.mark.parametrize(
    ("more", "kernel", "stride", "padding"),
    [
        (0, 3, 2, SAME),
        (-1, 3, 2, SAME),
        (1, 3, 2, VALID),
        (0, 4, 3, SAME),
        (0, 2, 3, VALID),
        (0, 5, 1, SAME),
        (-1, 2, 3, SAME),
    ],
)
@pytest.mark.parametrize("is_quantized", [False, True], ids=["f32", "i8"])
def test_a_result_that_follows_the_image(more, kernel, stride, padding, is_quantized, tmp_path):
    """The pads do not depend on the size."""
    m = Model()
    scale = {"scale": 0.05, "zero": 0} if is_quantized else {}
    x = m.open_input((-1, -1, -1, 3), "i8" if is_quantized else "f32", **scale)
    shape = made_shape(m, x, 4, (stride, stride), more, 5)
    m.write(tmp_path / "m.tflite", [transposed(m, shape, x, kernel, stride, padding, is_quantized)])
    model = agrees_at(tmp_path / "m.tflite", [[image] for image in images(is_quantized)])
    assert "Pad" not in operators(model) and operators(model).count("ConvTranspose") == 1


@pytest.mark.parametrize("is_quantized", [False, True], ids=["f32", "i8"])
@pytest.mark.parametrize(("kernel", "stride", "padding"), [(3, 2, SAME), (3, 2, VALID), (2, 3, VALID), (4, 1, SAME)])
def test_a_result_of_a_given_shape(kernel, stride, padding, is_quantized, tmp_path):
    """Which may be smaller than what ConvTranspose makes, or larger, where the bias is what is left."""
    m = Model()
    scale = {"scale": 0.05, "zero": 0} if is_quantized else {}
    shape, x = m.input((4,), "i32"), m.open_input((-1, -1, -1, 3), "i8" if is_quantized else "f32", **scale)
    m.write(tmp_path / "m.tflite", [transposed(m, shape, x, kernel, stride, padding, is_quantized)])
    runs = []
    for image in images(is_quantized):
        # All sizes that LiteRT takes.
        for more in range(stride):
            least = [stride * (size - 1) + (kernel if padding == VALID else 1) for size in image.shape[1:3]]
            runs.append([np.int32([image.shape[0], *(size + more for size in least), 5]), image])
    agrees_at(tmp_path / "m.tflite", runs)


@pytest.mark.parametrize("padding", [SAME, VALID])
def test_volumes(padding, tmp_path):
    m = Model()
    x = m.open_input((-1, -1, -1, 3, 4))
    shape = m.op("SHAPE", [x], (5,), "i32", ("ShapeOptions", {"outType": 2}))
    more = 1 if padding == VALID else 0
    sizes = [extent(m, shape, 0, 1, 0), extent(m, shape, 1, 2, more), extent(m, shape, 2, 2, more)]
    sizes += [m.constant(6 + more, "i32"), m.constant(2, "i32")]
    made = m.op("PACK", sizes, (5,), "i32", ("PackOptions", {"valuesCount": 5, "axis": 0}))
    fields = {"padding": padding, "strideD": 2, "strideH": 2, "strideW": 2}
    inputs = [made, m.constant(random(3, 3, 3, 2, 4)), x]
    y = m.op("CONV_3D_TRANSPOSE", inputs, (1, 1, 1, 1, 2), options=("Conv3DOptions", fields | DILATIONS))
    m.write(tmp_path / "m.tflite", [y])
    agrees_at(tmp_path / "m.tflite", [[random(2, 3, 4, 3, 4)], [random(1, 5, 2, 3, 4)]])


DILATIONS = {"dilationDFactor": 1, "dilationHFactor": 1, "dilationWFactor": 1}
