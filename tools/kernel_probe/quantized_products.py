# SPDX-License-Identifier: Apache-2.0
"""Cases of quantized convolutions and products, and of float ones with small weights: hybrid kernels, and weights behind
a DEQUANTIZE.
"""

import numpy as np

from .case import numbers, variant
from .convolutions import SAME, VALID, convolution, scatter_convolution, windows
from .one_op import Tensor
from .quantized import operand, quantized, quantized_case, real


def weights(dtype, shape, axis=None, seed="w", bits=8):
    """Symmetric int8 (uint8 for the old scheme) weights, by tensor or along an axis."""
    w = numbers("F32", shape, seed=seed).astype(np.float64)
    if dtype == "U8":
        t = quantized("U8", w)
    else:
        top = (
            np.abs(w).max(tuple(i for i in range(w.ndim) if i != axis), keepdims=True)
            if axis is not None
            else np.abs(w).max()
        )
        scale = (top / (2 ** (bits - 1) - 1)).astype(np.float32)
        t = Tensor(
            np.round(w / scale),
            "I4" if bits == 4 else "I8",
            scale=scale.ravel() if axis is not None else float(scale),
            axis=axis or 0,
        )
    t.fixed = True
    return t


def bias(x, w, n, dtype, bias_type=None):
    scale = np.float32(x.scale) * np.atleast_1d(np.float32(w.scale))
    b = numbers("F32", (n,), seed="b").astype(np.float64)
    return Tensor(
        np.round(b / scale),
        bias_type or ("I64" if dtype == "I16" else "I32"),
        True,
        scale=scale if len(scale) > 1 else float(scale[0]),
        zero_point=0,
    )


PRODUCTS = {
    "CONV_2D": (
        (2, 7, 9, 4),
        (6, 3, 2, 4),
        0,
        6,
        lambda x, w: convolution(x, w, (2, 1), (1, 1), VALID),
        ("Conv2DOptions", {"padding": VALID, "strideH": 2, "strideW": 1}),
    ),
    "CONV_2D, SAME": (
        (2, 7, 9, 4),
        (6, 3, 2, 4),
        0,
        6,
        lambda x, w: convolution(x, w, (2, 1), (1, 1), SAME),
        ("Conv2DOptions", {"padding": SAME, "strideH": 2, "strideW": 1}),
    ),
    "CONV_2D, 2 groups": (
        (2, 7, 9, 4),
        (6, 3, 2, 2),
        0,
        6,
        lambda x, w: convolution(x, w, (1, 1), (1, 1), VALID, 2),
        ("Conv2DOptions", {"padding": VALID, "strideH": 1, "strideW": 1}),
    ),
    "CONV_2D, dilation 2": (
        (2, 7, 9, 4),
        (6, 3, 2, 4),
        0,
        6,
        lambda x, w: convolution(x, w, (1, 1), (2, 2), VALID),
        ("Conv2DOptions", {"padding": VALID, "strideH": 1, "strideW": 1, "dilationHFactor": 2, "dilationWFactor": 2}),
    ),
    "DEPTHWISE_CONV_2D": (
        (2, 7, 9, 4),
        (1, 3, 2, 4),
        3,
        4,
        lambda x, w: convolution(x, w.transpose(3, 1, 2, 0), (1, 1), (1, 1), VALID, 4),
        ("DepthwiseConv2DOptions", {"padding": VALID, "strideH": 1, "strideW": 1, "depthMultiplier": 1}),
    ),
    "FULLY_CONNECTED": ((5, 32), (6, 32), 0, 6, lambda x, w: x @ w.T, ("FullyConnectedOptions", {})),
    "FULLY_CONNECTED, keepNumDims": (
        (2, 5, 32),
        (6, 32),
        0,
        6,
        lambda x, w: x @ w.T,
        ("FullyConnectedOptions", {"keepNumDims": True}),
    ),
    "TRANSPOSE_CONV": (
        (2, 4, 5, 3),
        (6, 3, 2, 3),
        0,
        6,
        lambda x, w: scatter_convolution(x, w, (9, 10), (2, 2), (0, 0)),
        ("TransposeConvOptions", {"padding": VALID, "strideH": 2, "strideW": 2}),
    ),
}


def product(name, dtype, per_channel, weight_bits=8, bias_type=None, with_bias=True, said=False):
    shape, filters, axis, n, function, options = PRODUCTS[name]
    x, w = operand(dtype, shape), weights(dtype, filters, axis if per_channel else None, bits=weight_bits)
    y = function(real(x), real(w))
    operands = [x, w]
    if with_bias:
        b = bias(x, w, n, dtype, bias_type)
        operands.append(b)
        y = y + real(b)
    if name == "TRANSPOSE_CONV":
        operands = [Tensor(y.shape, "I32", True), w, x] + operands[2:]
    if said:
        options = (options[0], options[1] | {"quantizedBiasType": 2})
    return operands, [quantized(dtype, y)], options


def hybrid(name, per_channel, weight_bits=8, behind_dequantize=False, half=False):
    """Float data with quantized weights. The kernel may quantize the data as well, so the result is near, not equal."""
    shape, filters, axis, n, function, options = PRODUCTS[name]
    x = Tensor(numbers("F32", shape), "F32")
    w = (
        Tensor(numbers("F16", filters, seed="w"), "F16", True)
        if half
        else weights("I8", filters, axis if per_channel else None, bits=weight_bits)
    )
    w.dequantized = behind_dequantize
    b = Tensor(numbers("F32", (n,), seed="b"), "F32", True)
    y = function(x.value.astype(np.float64), w.value.astype(np.float64) if half else real(w)) + b.value
    operands = [Tensor(y.shape, "I32", True), w, x, b] if name == "TRANSPOSE_CONV" else [x, w, b]
    return operands, [Tensor(y, "F32", tolerance=5e-5 if behind_dequantize else 2e-2)], options


for name in PRODUCTS:
    op, form = name.split(", ")[0], name.partition(", ")[2]
    for per_channel in (False, True):
        how = ("by channel" if per_channel else "by tensor") + (f", {form}" if form else "")
        quantized_case(op, how, lambda d, n=name, p=per_channel: product(n, d, p))
        variant(op, f"float data, int8 weights {how} (hybrid, near)", lambda n=name, p=per_channel: hybrid(n, p))
        variant(op, f"float data, int4 weights {how} (hybrid, near)", lambda n=name, p=per_channel: hybrid(n, p, 4))
        variant(
            op,
            f"float data, int8 weights {how} behind a DEQUANTIZE",
            lambda n=name, p=per_channel: hybrid(n, p, behind_dequantize=True),
        )
        variant(
            op,
            f"float data, int4 weights {how} behind a DEQUANTIZE",
            lambda n=name, p=per_channel: hybrid(n, p, 4, behind_dequantize=True),
        )
        variant(op, f"int8 data, int4 weights {how}", lambda n=name, p=per_channel: product(n, "I8", p, 4))
    variant(
        op,
        "float data, float16 weights behind a DEQUANTIZE" + (f", {form}" if form else ""),
        lambda n=name: hybrid(n, False, behind_dequantize=True, half=True),
    )
    if not form:
        quantized_case(op, "by channel, no bias", lambda d, n=name: product(n, d, True, with_bias=False))
        variant(op, "int16 data with an int32 bias", lambda n=name: product(n, "I16", True, bias_type="I32"))
        if op != "DEPTHWISE_CONV_2D":
            variant(
                op,
                "int16 data with an int32 bias, quantizedBiasType INT32",
                lambda n=name: product(n, "I16", True, bias_type="I32", said=True),
            )


def batch_matmul(dtype, adj=False):
    a, b = operand(dtype, (2, 3, 5), seed="a"), operand(dtype, (2, 4, 5) if adj else (2, 5, 4), seed="b")
    y = real(a) @ (real(b).swapaxes(1, 2) if adj else real(b))
    return [a, b], [quantized(dtype, y)], ("BatchMatMulOptions", {"adjY": adj})


quantized_case("BATCH_MATMUL", "by tensor", batch_matmul)
quantized_case("BATCH_MATMUL", "by tensor, adjY", lambda d: batch_matmul(d, True))


def pool(op, dtype):
    x = operand(dtype, (2, 7, 9, 5))
    v = windows(real(x), (3, 2), (2, 1), (1, 1), VALID, 0)
    y = v.max((3, 4)) if op == "MAX_POOL_2D" else v.mean((3, 4))
    return (
        [x],
        [quantized(dtype, y, scale=x.scale, zero=x.zero_point)],
        ("Pool2DOptions", dict(padding=VALID, strideH=2, strideW=1, filterHeight=3, filterWidth=2)),
    )


for name in ("MAX_POOL_2D", "AVERAGE_POOL_2D"):
    quantized_case(name, "one scale", lambda d, n=name: pool(n, d))
