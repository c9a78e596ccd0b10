# SPDX-License-Identifier: Apache-2.0
"""Weights are stored in the order in which ONNX's operator reads them; those that several operators share, as the heads of
detectors do, once."""

import numpy as np
import pytest

from tests.raised.judge_raised import agrees, operators, raised
from tests.raised.tflite_models import Model

VALID = 0
FIELDS = {"padding": VALID, "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}


@pytest.mark.parametrize("shared", ["tensor", "buffer", "bytes"])
@pytest.mark.parametrize("integers", [False, True])
def test_of_two_convolutions(shared, integers, tmp_path):
    m = Model()
    random = np.random.default_rng(7)
    scales = {"scale": np.linspace(0.01, 0.02, 6), "zero": 0, "axis": 0} if integers else {}
    values, kind = random.integers(-9, 9, (6, 3, 2, 5)), "i8" if integers else "f32"

    def weights():
        return m.constant(values, kind, **scales)

    first, bias = weights(), m.constant(random.standard_normal(6))
    second = first if shared == "tensor" else weights()
    if shared == "buffer":
        m.graph.tensors[second].buffer = m.graph.tensors[first].buffer
    outputs = []
    for one, (height, width) in ((first, (7, 9)), (second, (4, 5))):
        x = m.input((2, height, width, 5))
        shape = (2, height - 2, width - 1, 6)
        outputs.append(m.op("CONV_2D", [x, one, bias], shape, options=("Conv2DOptions", FIELDS)))
    m.write(tmp_path / "m.tflite", outputs)
    # LiteRT's kernel for floats and integer weights rounds its data.
    model = (raised if integers else agrees)(tmp_path / "m.tflite")
    assert sum(list(one.dims) == [6, 5, 3, 2] for one in model.graph.initializer) == 1


def test_product_by_a_constant_with_its_axes_exchanged(tmp_path):
    """The constant is stored as the product reads it."""
    m = Model()
    b = m.constant(np.random.default_rng(2).standard_normal((2, 7, 4)))
    options = ("BatchMatMulOptions", {"adjY": True})
    m.write(tmp_path / "m.tflite", [m.op("BATCH_MATMUL", [m.input((2, 5, 4)), b], (2, 5, 7), options=options)])
    assert operators(agrees(tmp_path / "m.tflite")) == ["MatMul"]
