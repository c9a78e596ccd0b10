# SPDX-License-Identifier: Apache-2.0
"""Pools of .tflite models as ONNX."""

import pytest

from tests.raised.judge_raised import agrees, refused
from tests.raised.tflite_models import Model

SAME, VALID, RELU = 0, 1, 1


@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D"])
@pytest.mark.parametrize("padding", [SAME, VALID])
def test_pool(kind, padding, tmp_path):
    m = Model()
    fields = {"padding": padding, "strideH": 2, "strideW": 3, "filterHeight": 3, "filterWidth": 4}
    fields["fusedActivationFunction"] = RELU
    shape = (2, 4, 3, 3) if padding == SAME else (2, 3, 2, 3)
    y = m.op(kind, [m.input((2, 7, 8, 3))], shape, options=("Pool2DOptions", fields))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


def pool_of_open_image(kind, window, stride, size, path):
    """With SAME, of an image whose height is open."""
    m = Model()
    x = m.input((1, *size, 2))
    made = tuple(-(-n // s) for n, s in zip(size, stride, strict=True))
    fields = {"padding": SAME, "strideH": stride[0], "strideW": stride[1]}
    fields |= {"filterHeight": window[0], "filterWidth": window[1]}
    y = m.op(kind, [x], (1, *made, 2), options=("Pool2DOptions", fields))
    for tensor in (x, y):
        m.graph.tensors[tensor].shapeSignature = [1, -1, *m.graph.tensors[tensor].shape[2:]]
    m.write(path, [y])


@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"])
@pytest.mark.parametrize("height", [6, 7])
@pytest.mark.parametrize(
    ("window", "stride", "width"),
    [
        ((1, 1), (2, 2), 6),
        ((1, 3), (2, 2), 6),
        ((3, 1), (2, 2), 5),
        ((2, 2), (2, 3), 8),
    ],
)
def test_a_pool_of_an_image_of_open_height(window, stride, width, height, kind, tmp_path):
    """A window of one element has no pads; those of others ONNX Runtime finds where they are not negative."""
    pool_of_open_image(kind, window, stride, (height, width), tmp_path / "m.tflite")
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("kind", ["AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"])
@pytest.mark.parametrize(("window", "stride", "width"), [((2, 2), (3, 2), 6), ((3, 1), (2, 2), 6), ((2, 2), (2, 3), 6)])
def test_pads_that_onnx_runtime_would_make_negative(window, stride, width, kind, tmp_path):
    """In the open axis, or in the other one, whose pads it computes too."""
    pool_of_open_image(kind, window, stride, (7, width), tmp_path / "m.tflite")
    refused(tmp_path / "m.tflite", "negative pads of a size known at run time only; fix the inputs' open dimensions")
    agrees(tmp_path / "m.tflite", ["--shape", f"x0=1,7,{width},2"])
