# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX: operators whose data have several open dimensions. LiteRT is the judge, at two sizes or more."""

import numpy as np
import pytest

from tests.raised.judge_raised import agrees_at, operators
from tests.raised.tflite_models import Model


def random(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


KEEP = ("FullyConnectedOptions", {"keepNumDims": True})


@pytest.mark.parametrize("weights", ["f32", "f16", "hybrid", "i8"])
@pytest.mark.parametrize("signature", [(-1, -1, 6), (-1, 3, -1, 6)], ids=str)
def test_a_product_of_data_with_two_open_dimensions(weights, signature, tmp_path):
    """The shape of the result is read from that of the data."""
    m = Model()
    shape = [max(size, 1) for size in signature]
    numbers = np.random.default_rng(4).integers(-100, 100, (4, 6))
    if weights == "i8":
        x = m.open_input(signature, "i8", scale=0.05, zero=3)
        matrix = m.constant(numbers, "i8", scale=np.linspace(0.01, 0.02, 4), zero=[0] * 4)
        bias = m.constant([5, -700, 30, 1000], "i32", scale=np.linspace(0.01, 0.02, 4) * 0.05, zero=[0] * 4)
        y = m.op("FULLY_CONNECTED", [x, matrix, bias], [*shape[:-1], 4], "i8", KEEP, scale=0.2, zero=-7)
    else:
        x, bias = m.open_input(signature), m.constant([0.5, -0.25, 0, 1])
        matrix = m.constant(numbers, "i8", scale=0.01) if weights == "hybrid" else m.constant(numbers / 64, weights)
        if weights == "f16":
            matrix = m.op("DEQUANTIZE", [matrix], (4, 6))
        y = m.op("FULLY_CONNECTED", [x, matrix, bias], [*shape[:-1], 4], options=KEEP)
    m.write(tmp_path / "m.tflite", [y])
    runs = []
    for size in (2, 5):
        data = random(*[size if open < 0 else open for open in signature])
        runs.append([(data * 40).clip(-128, 127).astype(np.int8) if weights == "i8" else data])
    # LiteRT rounds the data of a hybrid.
    model = agrees_at(tmp_path / "m.tflite", runs, tolerance=2e-2 if weights == "hybrid" else 1e-4)
    assert operators(model).count("Transpose") == 0
