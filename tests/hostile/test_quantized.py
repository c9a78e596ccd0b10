# SPDX-License-Identifier: Apache-2.0
"""Scales, zero points and axes that cannot be: each is refused with the node and the value, and no file is written."""

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from tests.hostile.refusal import refuse_model

SUBNORMAL = np.float32(1e-40)


def model(text, **values):
    graph = onnx.parser.parse_graph("g " + text)
    for name, value in values.items():
        graph.initializer.append(numpy_helper.from_array(np.asarray(value), name))
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("scale", [-0.5, np.nan, np.inf, 0.0, SUBNORMAL], ids=str)
@pytest.mark.parametrize("operator", ["QuantizeLinear", "DequantizeLinear"])
def test_scale_of_data(operator, scale, tmp_path):
    given, made = ("float", "uint8") if operator == "QuantizeLinear" else ("uint8", "float")
    text = f"({given}[2,3] x) => ({made}[2,3] y) {{ y = {operator}(x, s, z) }}"
    refuse_model(model(text, s=np.float32(scale), z=np.uint8(3)), tmp_path, "malformed", [operator, "'s'"])


# Below 0 is not among them: quantizers to 4 bits write that (qdq/weights_of_scales_below_0).
@pytest.mark.parametrize("scale", [np.nan, np.inf], ids=str)
def test_scale_of_a_channel(scale, tmp_path):
    text = "(float[1,2,5,7] x) => (float[1,3,3,5] y) { w = DequantizeLinear<axis=0>(q, s) y = Conv(x, w) }"
    scales = np.array([0.1, scale, 0.2], np.float32)
    made = model(text, q=np.ones((3, 2, 3, 3), np.int8), s=scales)
    refuse_model(made, tmp_path, "malformed", ["DequantizeLinear", "element 1"])


@pytest.mark.parametrize(
    "values, words",
    [
        ({"s": np.ones(4, np.float32), "z": np.zeros(4, np.int8)}, "4 scales for an axis of 3 elements"),
        ({"s": np.ones(3, np.float32), "z": np.zeros(2, np.int8)}, "3 scales, but 2 zero points"),
    ],
    ids=["scales", "zero_points"],
)
def test_counts(values, words, tmp_path):
    text = "(float[1,2,5,7] x) => (float[1,3,3,5] y) { w = DequantizeLinear<axis=0>(q, s, z) y = Conv(x, w) }"
    refuse_model(model(text, q=np.ones((3, 2, 3, 3), np.int8), **values), tmp_path, "malformed", [words])


def test_axis(tmp_path):
    text = "(float[1,2,5,7] x) => (float[1,3,3,5] y) { w = DequantizeLinear<axis=4>(q, s) y = Conv(x, w) }"
    made = model(text, q=np.ones((3, 2, 3, 3), np.int8), s=np.ones(3, np.float32))
    refuse_model(made, tmp_path, "malformed", ["axis"])


def test_zero_points_of_a_convolution(tmp_path):
    text = "(uint8[1,3,7,9] x) => (uint8[1,4,7,9] y) { y = QLinearConv<pads=[1,1,1,1]>(x, s, z, w, t, a, u, b) }"
    values = {"s": np.float32(0.01), "z": np.uint8(3), "w": np.ones((4, 3, 3, 3), np.int8), "u": np.float32(0.1)}
    values |= {"t": np.full(4, 0.01, np.float32), "a": np.zeros(3, np.int8), "b": np.uint8(1)}
    refuse_model(model(text, **values), tmp_path, "malformed", ["3 zero points for an axis of 4 elements"])
