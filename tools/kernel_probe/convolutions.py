# SPDX-License-Identifier: Apache-2.0
"""Cases of convolutions and pools, against plain numpy windows."""

import itertools

import numpy as np

from .case import NotDefined, data, grid, index, variant
from .one_op import FLOATS, Tensor

SAME, VALID = 0, 1
SUMS = {"F32": 5e-5, "F16": 2e-2, "BF16": 2e-1, "F64": 1e-8}  # absolute, or relative to the largest result
CLAMPS = {
    0: lambda x: x,
    1: lambda x: np.maximum(x, 0),
    2: lambda x: np.clip(x, -1, 1),
    3: lambda x: np.clip(x, 0, 6),
    4: np.tanh,
}
ACTIVATIONS = {1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}


def same_pads(size, kernel, stride, dilation=1):
    """TensorFlow's SAME: ceil(size / stride) outputs, the odd pad at the end."""
    out = -(-size // stride)
    total = max(0, (out - 1) * stride + (kernel - 1) * dilation + 1 - size)
    return total // 2, total - total // 2


def windows(x, kernel, strides, dilations, padding, fill):
    """x [n, spatial..., c] -> [n, out..., kernel..., c], padded with `fill`."""
    d = len(kernel)
    if padding == SAME:
        pads = [same_pads(x.shape[1 + i], kernel[i], strides[i], dilations[i]) for i in range(d)]
        x = np.pad(x, [(0, 0)] + pads + [(0, 0)], constant_values=fill)
    span = [(k - 1) * r + 1 for k, r in zip(kernel, dilations)]
    w = np.lib.stride_tricks.sliding_window_view(x, span, tuple(range(1, d + 1)))  # n, out..., c, span...
    w = w[
        (slice(None),)
        + tuple(slice(None, None, s) for s in strides)
        + (slice(None),)
        + tuple(slice(None, None, r) for r in dilations)
    ]
    return np.moveaxis(w, d + 1, -1)


def convolution(x, w, strides, dilations, padding, groups=1):
    """x [n, spatial..., c], w [out, kernel..., c / groups]."""
    kernel = w.shape[1:-1]
    v = windows(x, kernel, strides, dilations, padding, 0)
    d = len(kernel)
    parts = []
    for g in range(groups):
        part = v[..., g * w.shape[-1] : (g + 1) * w.shape[-1]]
        filters = w[g * (len(w) // groups) : (g + 1) * (len(w) // groups)]
        parts.append(np.tensordot(part, filters, (tuple(range(d + 1, 2 * d + 2)), tuple(range(1, d + 2)))))
    return np.concatenate(parts, -1)


def wide(t):
    return t.value.astype(np.float64) if t.dtype in FLOATS else t.value.astype(np.int64)


def conv_2d(
    dtype="F32",
    shape=(2, 7, 9, 6),
    filters=(8, 3, 2),
    strides=(1, 1),
    dilations=(1, 1),
    padding=VALID,
    groups=1,
    bias=True,
    fixed=True,
    activation=0,
    bias_dtype=None,
    weight_dtype=None,
):
    if dtype == "BOOL":
        raise NotDefined
    x = data(dtype, shape)
    w = data(weight_dtype or dtype, (filters[0],) + filters[1:] + (shape[-1] // groups,), seed="w", fixed=fixed)
    y = convolution(wide(x), wide(w), strides, dilations, padding, groups)
    operands = [x, w]
    if bias:
        b = data(bias_dtype or dtype, (filters[0],), seed="b", fixed=fixed)
        operands.append(b)
        y = y + wide(b)
    options = {
        "padding": padding,
        "strideH": strides[0],
        "strideW": strides[1],
        "dilationHFactor": dilations[0],
        "dilationWFactor": dilations[1],
        "fusedActivationFunction": activation,
    }
    return operands, [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))], ("Conv2DOptions", options)


grid("CONV_2D", lambda d, r: conv_2d(d), ranks=(4,))
CONV_VARIANTS = {
    "stride 2x3": dict(strides=(2, 3)),
    "dilation 2x3": dict(dilations=(2, 3)),
    "SAME, even size, stride 2": dict(padding=SAME, strides=(2, 2), shape=(1, 8, 10, 6)),
    "SAME, dilation 2x3": dict(padding=SAME, dilations=(2, 3)),
    "SAME, stride 2, dilation 2": dict(padding=SAME, strides=(2, 2), dilations=(2, 2)),
    "stride 2, dilation 2": dict(strides=(2, 2), dilations=(2, 2)),
    "1x1": dict(filters=(8, 1, 1)),
    "1x1 stride 2": dict(filters=(8, 1, 1), strides=(2, 2)),
    "kernel of the input's size": dict(filters=(8, 7, 9)),
    "no bias": dict(bias=False),
    "weights and bias at run time": dict(fixed=False),
    "one channel": dict(shape=(2, 7, 9, 1)),
    "batch 0": dict(shape=(0, 7, 9, 6)),
}
for text, how in CONV_VARIANTS.items():
    variant("CONV_2D", text, lambda h=how: conv_2d(**h))
for code, name in ACTIVATIONS.items():
    variant("CONV_2D", f"fused {name}", lambda c=code: conv_2d(activation=c))
for groups in (2, 3, 6):
    filters = (12, 3, 2)
    variant("CONV_2D", f"{groups} groups", lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2)))
    variant("CONV_2D", f"{groups} groups, no bias", lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2), bias=False))
    variant(
        "CONV_2D",
        f"{groups} groups, SAME, stride 2",
        lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2), padding=SAME, strides=(2, 2)),
    )
    variant(
        "CONV_2D",
        f"{groups} groups, dilation 2",
        lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2), dilations=(2, 2)),
    )
    variant("CONV_2D", f"{groups} groups, 1x1", lambda g=groups: conv_2d(groups=g, filters=(12, 1, 1)))
    variant("CONV_2D", f"{groups} groups, RELU6", lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2), activation=3))
    variant(
        "CONV_2D",
        f"{groups} groups, weights at run time",
        lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2), fixed=False),
    )
variant("CONV_2D", "F32 input with F16 weights", lambda: conv_2d(weight_dtype="F16", bias_dtype="F32"))
variant("CONV_2D", "no bias operand but -1", lambda: (lambda o: (o[0] + [None], o[1], o[2]))(conv_2d(bias=False)))


def depthwise(
    dtype="F32",
    shape=(2, 7, 9, 6),
    kernel=(3, 2),
    multiplier=1,
    strides=(1, 1),
    dilations=(1, 1),
    padding=VALID,
    bias=True,
    fixed=True,
    activation=0,
    stored_multiplier=None,
):
    if dtype == "BOOL":
        raise NotDefined
    x = data(dtype, shape)
    w = data(dtype, (1,) + kernel + (shape[-1] * multiplier,), seed="w", fixed=fixed)
    as_groups = np.moveaxis(wide(w), -1, 0).transpose(0, 2, 3, 1)  # [c * m, kh, kw, 1]
    y = convolution(wide(x), as_groups, strides, dilations, padding, shape[-1])
    operands = [x, w]
    if bias:
        b = data(dtype, (shape[-1] * multiplier,), seed="b", fixed=fixed)
        operands.append(b)
        y = y + wide(b)
    options = {
        "padding": padding,
        "strideH": strides[0],
        "strideW": strides[1],
        "dilationHFactor": dilations[0],
        "dilationWFactor": dilations[1],
        "fusedActivationFunction": activation,
        "depthMultiplier": multiplier if stored_multiplier is None else stored_multiplier,
    }
    return (
        operands,
        [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))],
        ("DepthwiseConv2DOptions", options),
    )


grid("DEPTHWISE_CONV_2D", lambda d, r: depthwise(d), ranks=(4,))
for text, how in CONV_VARIANTS.items():
    how = {("kernel" if k == "filters" else k): (v[1:] if k == "filters" else v) for k, v in how.items()}
    variant("DEPTHWISE_CONV_2D", text, lambda h=how: depthwise(**h))
for code, name in ACTIVATIONS.items():
    variant("DEPTHWISE_CONV_2D", f"fused {name}", lambda c=code: depthwise(activation=c))
variant("DEPTHWISE_CONV_2D", "multiplier 3", lambda: depthwise(multiplier=3))
variant("DEPTHWISE_CONV_2D", "multiplier 3, one channel", lambda: depthwise(multiplier=3, shape=(2, 7, 9, 1)))
variant("DEPTHWISE_CONV_2D", "multiplier 3, dilation 2", lambda: depthwise(multiplier=3, dilations=(2, 2)))
variant("DEPTHWISE_CONV_2D", "multiplier 3, written as 0", lambda: depthwise(multiplier=3, stored_multiplier=0))


def scatter_convolution(x, w, out_spatial, strides, pads_before, dilations=None):
    """Transposed convolution: x [n, s..., c], w [out, k..., c] -> [n, out_spatial..., out]."""
    d = len(strides)
    dilations = dilations or (1,) * d
    y = np.zeros((x.shape[0],) + tuple(out_spatial) + (w.shape[0],), x.dtype)
    for at in itertools.product(*(range(n) for n in x.shape[1:-1])):
        for k in itertools.product(*(range(n) for n in w.shape[1:-1])):
            place = tuple(a * s + j * r - p for a, s, j, r, p in zip(at, strides, k, dilations, pads_before))
            if all(0 <= q < n for q, n in zip(place, out_spatial)):
                y[(slice(None),) + place] += x[(slice(None),) + at] @ w[(slice(None),) + k].T
    return y


def transpose_conv(
    dtype="F32",
    shape=(2, 4, 5, 3),
    filters=(7, 3, 2),
    strides=(2, 3),
    padding=VALID,
    extra=(0, 0),
    bias=False,
    activation=0,
    fixed=True,
    shape_fixed=True,
    shape_dtype="I32",
):
    if dtype == "BOOL":
        raise NotDefined
    x, w = data(dtype, shape), data(dtype, filters + (shape[-1],), seed="w", fixed=fixed)
    kernel = filters[1:]
    if padding == SAME:
        out = [n * s - e for n, s, e in zip(shape[1:3], strides, extra)]
        before = [same_pads(o, k, s)[0] for o, k, s in zip(out, kernel, strides)]
    else:
        out = [(n - 1) * s + k + e for n, s, k, e in zip(shape[1:3], strides, kernel, extra)]
        before = [0, 0]
    y = scatter_convolution(wide(x), wide(w), out, strides, before)
    operands = [index([shape[0]] + out + [filters[0]], shape_dtype, shape_fixed), w, x]
    if bias:
        b = data(dtype, (filters[0],), seed="b", fixed=True)
        operands.append(b)
        y = y + wide(b)
    return (
        operands,
        [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))],
        (
            "TransposeConvOptions",
            {"padding": padding, "strideH": strides[0], "strideW": strides[1], "fusedActivationFunction": activation},
        ),
    )


grid("TRANSPOSE_CONV", lambda d, r: transpose_conv(d), ranks=(4,))
for text, how in {
    "VALID": {},
    "SAME": dict(padding=SAME),
    "SAME, kernel smaller than stride": dict(padding=SAME, filters=(7, 1, 2), strides=(2, 3)),
    "SAME, kernel 4 stride 2": dict(padding=SAME, filters=(7, 4, 4), strides=(2, 2)),
    "stride 1": dict(strides=(1, 1)),
    "VALID, one more row and column than needed (output_padding)": dict(extra=(1, 2)),
    "SAME, one row less than n * stride": dict(padding=SAME, extra=(1, 1)),
    "VALID, kernel smaller than stride": dict(filters=(7, 1, 1), strides=(3, 3)),
    "bias": dict(bias=True),
    "bias, RELU": dict(bias=True, activation=1),
    "RELU6 without bias": dict(activation=3),
    "RELU without bias": dict(activation=1),
    "TANH": dict(activation=4),
    "weights at run time": dict(fixed=False),
    "shape at run time": dict(shape_fixed=False),
    "shape as I64": dict(shape_dtype="I64"),
}.items():
    variant("TRANSPOSE_CONV", text, lambda h=how: transpose_conv(**h))


def conv_3d(
    dtype="F32",
    shape=(2, 5, 6, 7, 4),
    filters=(8, 3, 2, 2),
    strides=(1, 1, 1),
    dilations=(1, 1, 1),
    padding=VALID,
    bias=True,
    activation=0,
    groups=1,
    fixed=True,
):
    """The filter is [kd, kh, kw, in, out]."""
    if dtype == "BOOL":
        raise NotDefined
    x, w = data(dtype, shape), data(dtype, filters[1:] + (shape[-1] // groups, filters[0]), seed="w", fixed=fixed)
    y = convolution(wide(x), np.moveaxis(wide(w), -1, 0), strides, dilations, padding, groups)
    operands = [x, w]
    if bias:
        b = data(dtype, (filters[0],), seed="b", fixed=fixed)
        operands.append(b)
        y = y + wide(b)
    return (
        operands,
        [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))],
        (
            "Conv3DOptions",
            dict(
                padding=padding,
                strideD=strides[0],
                strideH=strides[1],
                strideW=strides[2],
                dilationDFactor=dilations[0],
                dilationHFactor=dilations[1],
                dilationWFactor=dilations[2],
                fusedActivationFunction=activation,
            ),
        ),
    )


def conv_3d_transpose(
    dtype="F32",
    shape=(2, 3, 4, 5, 4),
    filters=(6, 3, 2, 2),
    strides=(1, 2, 3),
    padding=VALID,
    bias=False,
    extra=0,
    activation=0,
    dilations=(1, 1, 1),
):
    """The filter is [kd, kh, kw, out, in]."""
    if dtype == "BOOL":
        raise NotDefined
    x, w = data(dtype, shape), data(dtype, filters[1:] + (filters[0], shape[-1]), seed="w", fixed=True)
    kernel = filters[1:]
    if padding == SAME:
        out = [n * s for n, s in zip(shape[1:4], strides)]
        before = [same_pads(o, k, s)[0] for o, k, s in zip(out, kernel, strides)]
    else:
        out = [(n - 1) * s + (k - 1) * r + 1 + extra for n, s, k, r in zip(shape[1:4], strides, kernel, dilations)]
        before = [0, 0, 0]
    y = scatter_convolution(wide(x), np.moveaxis(wide(w), 3, 0), out, strides, before, dilations)
    operands = [index([shape[0]] + out + [filters[0]]), w, x]
    if bias:
        b = data(dtype, (filters[0],), seed="b", fixed=True)
        operands.append(b)
        y = y + wide(b)
    return (
        operands,
        [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))],
        (
            "Conv3DOptions",
            dict(
                padding=padding,
                strideD=strides[0],
                strideH=strides[1],
                strideW=strides[2],
                dilationDFactor=dilations[0],
                dilationHFactor=dilations[1],
                dilationWFactor=dilations[2],
                fusedActivationFunction=activation,
            ),
        ),
    )


grid("CONV_3D", lambda d, r: conv_3d(d), ranks=(5,))
grid("CONV_3D_TRANSPOSE", lambda d, r: conv_3d_transpose(d), ranks=(5,))
for text, how in {
    "stride 1x2x3": dict(strides=(1, 2, 3)),
    "dilation 2x1x3": dict(dilations=(2, 1, 3)),
    "SAME": dict(padding=SAME),
    "SAME, stride 2, dilation 1": dict(padding=SAME, strides=(2, 2, 2)),
    "no bias": dict(bias=False),
    "RELU": dict(activation=1),
    "RELU6": dict(activation=3),
    "TANH": dict(activation=4),
    "2 groups": dict(groups=2),
    "weights at run time": dict(fixed=False),
}.items():
    variant("CONV_3D", text, lambda h=how: conv_3d(**h))
for text, how in {
    "VALID": {},
    "SAME": dict(padding=SAME),
    "bias": dict(bias=True),
    "one more than needed": dict(extra=1),
    "RELU": dict(activation=1),
    "bias, RELU6": dict(bias=True, activation=3),
    "stride 1": dict(strides=(1, 1, 1)),
    "dilation 2": dict(strides=(1, 1, 1), dilations=(2, 2, 2)),
    "SAME, stride 2, kernel 3": dict(padding=SAME, filters=(6, 3, 3, 3), strides=(2, 2, 2)),
}.items():
    variant("CONV_3D_TRANSPOSE", text, lambda h=how: conv_3d_transpose(**h))


def pool(op, dtype="F32", shape=(2, 7, 9, 5), kernel=(3, 2), strides=(2, 1), padding=VALID, activation=0):
    if dtype == "BOOL":
        raise NotDefined
    x = data(dtype, shape)
    axes, one = (3, 4), (1, 1)
    with np.errstate(all="ignore"):
        if op == "MAX_POOL_2D":
            lowest = -np.inf if dtype in FLOATS else np.iinfo(x.value.dtype).min
            y = windows(x.value, kernel, strides, one, padding, lowest).max(axes)
        else:
            v = wide(x) ** 2 if op == "L2_POOL_2D" else wide(x)
            total = windows(v, kernel, strides, one, padding, 0).sum(axes)
            count = windows(np.ones_like(v), kernel, strides, one, padding, 0).sum(axes)
            mean = total / count
            y = (
                np.sqrt(mean)
                if op == "L2_POOL_2D"
                else mean
                if dtype in FLOATS
                else np.floor(np.abs(mean) + 0.5) * np.sign(mean)
            )
    return (
        [x],
        [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))],
        (
            "Pool2DOptions",
            dict(
                padding=padding,
                strideH=strides[0],
                strideW=strides[1],
                filterHeight=kernel[0],
                filterWidth=kernel[1],
                fusedActivationFunction=activation,
            ),
        ),
    )


for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
    grid(name, lambda d, r, n=name: pool(n, d), ranks=(4,))
    for text, how in {
        "SAME (padding does not count)": dict(padding=SAME),
        "SAME, even size, stride 2": dict(padding=SAME, shape=(1, 8, 10, 5), strides=(2, 2)),
        "kernel of the input's size": dict(kernel=(7, 9)),
        "kernel 1, stride 3": dict(kernel=(1, 1), strides=(3, 3)),
        "SAME, kernel larger than the input": dict(padding=SAME, kernel=(11, 13), strides=(1, 1)),
        "kernel 40x40 of 64x64 (more than 255 values)": dict(kernel=(40, 40), shape=(1, 64, 64, 3), strides=(7, 9)),
        "300 channels": dict(shape=(1, 7, 9, 300)),
    }.items():
        variant(name, text, lambda h=how, n=name: pool(n, **h))
    for code, activation_name in ACTIVATIONS.items():
        variant(name, f"fused {activation_name}", lambda c=code, n=name: pool(n, activation=c))
