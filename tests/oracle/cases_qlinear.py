# SPDX-License-Identifier: Apache-2.0
"""com.microsoft's operators on quantized integers, as ONNX Runtime's quantizer writes them."""

import numpy as np

from tests.support.case import Case

rng = np.random.default_rng(9)
U = lambda *shape: rng.integers(0, 256, shape).astype(np.uint8)  # noqa: E731
I = lambda *shape: rng.integers(-128, 128, shape).astype(np.int8)  # noqa: E731, E741
f = lambda value: np.array(value, np.float32)  # noqa: E731
u8, i8 = {"ranges": {"x": (0, 256), "v": (0, 256)}}, {"ranges": {"x": (-128, 128), "v": (-128, 128)}}
X = {"s": f(0.0371), "z": np.uint8(121)}
Y = {"u": f(0.0513), "b": np.uint8(99)}


def qlinear(name, inputs, body, weights, output, **more):
    CASES.append(Case("qlinear/" + name, inputs, body, weights, opsets={"com.microsoft": 1}, outputs=output, **more))


CASES = []
qlinear(
    "add",
    "uint8[2,3,5] x, uint8[3,1] v",
    "y = com.microsoft.QLinearAdd(x, s, z, v, t, a, u, b)",
    {**X, **Y, "t": f(0.0231), "a": np.uint8(7)},
    "uint8[2,3,5] y",
    **u8,
)
qlinear(
    "add_int8_one_zero_point_absent",
    "int8[2,3,5] x, int8[2,3,5] v",
    "y = com.microsoft.QLinearAdd(x, s, z, v, t, a, u)",
    {"s": f(0.0371), "z": np.int8(3), "t": f(0.0231), "a": np.int8(-9), "u": f(0.0513)},
    "int8[2,3,5] y",
    **i8,
)
qlinear(
    "mul",
    "uint8[2,3,5] x, uint8[3,1] v",
    "y = com.microsoft.QLinearMul(x, s, z, v, t, a, u, b)",
    {**X, **Y, "t": f(0.0231), "a": np.uint8(7)},
    "uint8[2,3,5] y",
    **u8,
)
qlinear(
    "sigmoid",
    "uint8[2,3,5] x",
    "y = com.microsoft.QLinearSigmoid(x, s, z, u, b)",
    {**X, "u": f(1 / 256), "b": np.uint8(0)},
    "uint8[2,3,5] y",
    **u8,
)
qlinear(
    "leaky_relu",
    "int8[2,3,5] x",
    "y = com.microsoft.QLinearLeakyRelu<alpha=0.13>(x, s, z, u, b)",
    {"s": f(0.0371), "z": np.int8(11), "u": f(0.0213), "b": np.int8(-40)},
    "int8[2,3,5] y",
    **i8,
    steps=1,
)
qlinear(
    "global_average_pool",
    "uint8[2,3,5,7] x",
    "y = com.microsoft.QLinearGlobalAveragePool(x, s, z, u, b)",
    {**X, **Y},
    "uint8[2,3,1,1] y",
    **u8,
)
qlinear(
    "global_average_pool_channels_last",
    "uint8[2,5,7,3] x",
    "y = com.microsoft.QLinearGlobalAveragePool<channels_last=1>(x, s, z, u, b)",
    {**X, **Y},
    "uint8[2,1,1,3] y",
    **u8,
    steps=1,
)
for name, parameters in [("", "s, z, u, b"), ("_parameters_at_run_time", "s, z, v, b")]:
    qlinear(
        "global_average_pool_dynamic" + name,
        "uint8[2,3,H,W] x, float v",
        f"y = com.microsoft.QLinearGlobalAveragePool(x, {parameters})",
        {**X, **Y},
        "uint8[2,3,1,1] y",
        shapes={"x": (2, 3, 5, 7)},
        ranges={"x": (0, 256), "v": (0.05, 0.06)},
        steps=1,
    )
qlinear(
    "concat",
    "uint8[2,3,5] x, uint8[2,4,5] v",
    "y = com.microsoft.QLinearConcat<axis=1>(u, b, x, s, z, v, t, a)",
    {**X, **Y, "t": f(0.0231), "a": np.uint8(7)},
    "uint8[2,7,5] y",
    **u8,
    steps=1,
)
qlinear(
    "gemm",
    "uint8[5,300] x",
    "y = com.microsoft.QGemm<transB=1, alpha=0.5>(x, s, z, w, t, a, c, u, b)",
    {
        **X,
        "w": I(7, 300),
        "t": np.linspace(0.001, 0.009, 7).astype(np.float32),
        "a": np.zeros(7, np.int8),
        "c": rng.integers(-999, 999, 7).astype(np.int32),
        "u": f(0.53),
        "b": np.uint8(99),
    },
    "uint8[5,7] y",
    **u8,
)
qlinear(
    "gemm_to_floats",
    "uint8[300,5] x",
    "y = com.microsoft.QGemm<transA=1>(x, s, z, w, t, a)",
    {**X, "w": U(300, 7), "t": f(0.003), "a": np.uint8(3)},
    "float[5,7] y",
    **u8,
)

for name, attributes, shape in [
    ("", "kernel_shape=[2,3], strides=[2,1]", "2,3,3,7"),
    ("_pads", "kernel_shape=[3,2], pads=[1,0,0,1]", "2,3,5,9"),
    ("_counted_pads", "kernel_shape=[3,2], pads=[1,0,0,1], count_include_pad=1", "2,3,5,9"),
    ("_ceil", "kernel_shape=[3,2], strides=[2,2], ceil_mode=1", "2,3,3,5"),
    ("_counted_ceil", "kernel_shape=[3,2], strides=[2,2], ceil_mode=1, count_include_pad=1", "2,3,3,5"),
]:
    qlinear(
        f"average_pool{name}",
        "uint8[2,3,6,9] x",
        f"y = com.microsoft.QLinearAveragePool<{attributes}>(x, s, z, u, b)",
        {**X, **Y},
        f"uint8[{shape}] y",
        **u8,
    )
qlinear(
    "average_pool_channels_last",
    "int8[2,6,9,3] x",
    "y = com.microsoft.QLinearAveragePool<kernel_shape=[1,2], channels_last=1>(x, s, z, s, b)",
    {"s": f(0.5), "z": np.int8(4), "b": np.int8(-7)},
    "int8[2,6,8,3] y",
    **i8,
    steps=1,
)
qlinear(
    "softmax",
    "uint8[2,3,5] x",
    "y = com.microsoft.QLinearSoftmax<opset=13, axis=1>(x, s, z, u, b)",
    {"s": f(0.0171), "z": np.uint8(121), "u": f(1 / 256), "b": np.uint8(0)},
    "uint8[2,3,5] y",
    **u8,
)
qlinear(
    "softmax_of_a_matrix",
    "int8[2,3,5] x",
    "y = com.microsoft.QLinearSoftmax<opset=11, axis=1>(x, s, z, u, b)",
    {"s": f(0.0171), "z": np.int8(-3), "u": f(1 / 255), "b": np.int8(-128)},
    "int8[2,3,5] y",
    **i8,
)
# One element has it all: 254 steps of 1 / 255 in ONNX Runtime.
qlinear(
    "softmax_saturated",
    "uint8[2,3,5] x",
    "y = com.microsoft.QLinearSoftmax<opset=13>(x, s, z, u, b)",
    {**X, "s": f(0.9), "u": f(1 / 255), "b": np.uint8(0)},
    "uint8[2,3,5] y",
    **u8,
)
qlinear(
    "where",
    "bool[3,5] k, uint8[2,3,5] x, uint8[5] v",
    "y = com.microsoft.QLinearWhere(k, x, s, z, v, t, a, u, b)",
    {**X, **Y, "t": f(0.0231), "a": np.uint8(7)},
    "uint8[2,3,5] y",
    **u8,
)
qlinear(
    "conv",
    "uint8[2,3,7,9] x",
    "y = com.microsoft.QLinearConv(x, s, z, w, t, a, u, b, c)",
    {
        **X,
        "w": I(4, 3, 3, 2),
        "t": np.linspace(0.001, 0.004, 4).astype(np.float32),
        "a": np.zeros(4, np.int8),
        "c": rng.integers(-999, 999, 4).astype(np.int32),
        "u": f(0.0813),
        "b": np.uint8(99),
    },
    "uint8[2,4,5,8] y",
    **u8,
)
qlinear(
    "conv_channels_last",
    "uint8[2,7,9,6] x",
    "y = com.microsoft.QLinearConv<channels_last=1, group=2, strides=[2,1], pads=[1,0,1,0]>(x, s, z, w, t, a, u, b)",
    {**X, "w": I(4, 3, 3, 2), "t": f(0.002), "a": np.int8(0), "u": f(0.0813), "b": np.uint8(99)},
    "uint8[2,4,8,4] y",
    **u8,
)
qlinear(
    "nhwc_max_pool",
    "uint8[2,7,9,3] x",
    "y = com.microsoft.NhwcMaxPool<kernel_shape=[3,2], strides=[2,1], pads=[1,0,1,1]>(x)",
    {},
    "uint8[2,4,9,3] y",
    **u8,
)
qlinear(
    "nhwc_max_pool_dilated",
    "int8[2,11,3] x",
    "y = com.microsoft.NhwcMaxPool<kernel_shape=[3], dilations=[2]>(x)",
    {},
    "int8[2,7,3] y",
    **i8,
)
QA = {"w": I(7, 18), "c": np.linspace(-1, 1, 18).astype(np.float32), "s": f(0.0171), "z": np.uint8(121)}
for name, arguments, weights, more in [
    ("", "x, w, c, s, t, , z, a", {"t": f(0.003), "a": np.int8(0)}, ""),
    (
        "_columns",
        "x, w, c, s, t, , z, a",
        {"t": np.linspace(0.001, 0.004, 18).astype(np.float32), "a": np.zeros(18, np.int8)},
        ", unidirectional=1",
    ),
    (
        "_mask",
        "x, w, c, s, t, m, z",
        {"t": f(0.003), "m": np.array([[1, 1, 1, 0, 1], [0, 1, 1, 1, 1]], np.int32)},
        ", mask_filter_value=-3.5",
    ),
    ("_scale", "x, w, c, s, t, , z, a", {"t": f(0.003), "a": np.int8(0)}, ", scale=0.31"),
]:
    qlinear(
        "attention" + name,
        "uint8[2,5,7] x",
        f"y = com.microsoft.QAttention<num_heads=2{more}>({arguments})",
        {**QA, **weights},
        "float[2,5,6] y",
        **u8,
    )
qlinear(
    "attention_past",
    "uint8[2,5,7] x, float[2,2,2,4,3] p",
    "y, n = com.microsoft.QAttention<num_heads=2, unidirectional=1>(x, w, c, s, t, , z, a, p)",
    {**QA, "t": f(0.003), "a": np.int8(0)},
    "float[2,5,6] y, float[2,2,2,9,3] n",
    **u8,
)

# Halves everywhere and odd zero points: Add, Mul and AveragePool round them with the zero point, the others without it.
HALF = {"s": f(0.5), "z": np.uint8(21), "t": f(0.5), "a": np.uint8(14), "u": f(2), "b": np.uint8(99)}
for name, body, outputs in [
    ("add", "QLinearAdd(x, s, z, v, t, a, u, b)", "uint8[3,50] y"),
    ("mul", "QLinearMul(x, s, z, v, t, a, u, b)", "uint8[3,50] y"),
    ("concat", "QLinearConcat<axis=1>(u, b, x, s, z, v, t, a)", "uint8[3,100] y"),
    ("leaky_relu", "QLinearLeakyRelu<alpha=0.5>(x, s, z, u, b)", "uint8[3,50] y"),
    ("where", "QLinearWhere(k, x, s, z, v, t, a, u, b)", "uint8[3,50] y"),
]:
    qlinear(
        f"halves_{name}",
        "uint8[3,50] x, uint8[3,50] v",
        f"y = com.microsoft.{body}",
        {**HALF, "k": rng.integers(0, 2, (3, 50)).astype(bool)},
        outputs,
        **u8,
        steps=1,
    )
COLUMNS = {"t": np.linspace(0.001, 0.009, 7).astype(np.float32), "a": np.zeros(7, np.int8)}
for name, attributes, weights in [
    ("", "transB=1", {"w": I(7, 300), **COLUMNS, "c": rng.integers(-9999, 9999, 7).astype(np.int32)}),
    ("_not_transposed", "alpha=1.0", {"w": I(300, 7), **COLUMNS, "c": rng.integers(-9999, 9999, 7).astype(np.int32)}),
    (
        "_bias_of_two_axes",
        "transB=1",
        {"w": I(7, 300), **COLUMNS, "c": rng.integers(-999, 999, (1, 7)).astype(np.int32)},
    ),
    ("_weights_with_a_zero_point", "transB=1", {"w": U(7, 300), "t": f(0.003), "a": np.uint8(3)}),
]:
    qlinear(
        "gemm_in_integers" + name,
        "uint8[5,300] x",
        f"y = com.microsoft.QGemm<{attributes}>(x, s, z, w, t, a, {'c' if 'c' in weights else ''}, u, b)",
        {**X, **weights, "u": f(0.53), "b": np.uint8(99)},
        "uint8[5,7] y",
        **u8,
        steps=1,
    )
qlinear(
    "softmax_of_the_default_axis",
    "int8[2,3,5] x",
    "y = com.microsoft.QLinearSoftmax<opset=11>(x, s, z, u, b)",
    {"s": f(0.0171), "z": np.int8(-3), "u": f(1 / 255), "b": np.int8(-128)},
    "int8[2,3,5] y",
    **i8,
)
