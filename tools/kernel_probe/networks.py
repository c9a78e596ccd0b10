"""Cases of convolutions, pools, matrix products, image operators and recurrent layers, against plain numpy loops."""

import itertools

import numpy as np

from .case import ALL, NotDefined, case, data, grid, index, numbers, shape_of, variant
from .movement import at_least, index_forms
from .one_op import FLOATS, Tensor

SAME, VALID = 0, 1
SUMS = {"F32": 5e-5, "F16": 2e-2, "BF16": 2e-1, "F64": 1e-8}  # absolute, or relative to the largest result
CLAMPS = {0: lambda x: x, 1: lambda x: np.maximum(x, 0), 2: lambda x: np.clip(x, -1, 1), 3: lambda x: np.clip(x, 0, 6), 4: np.tanh}
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
    w = w[(slice(None),) + tuple(slice(None, None, s) for s in strides) + (slice(None),) + tuple(slice(None, None, r) for r in dilations)]
    return np.moveaxis(w, d + 1, -1)


def convolution(x, w, strides, dilations, padding, groups=1):
    """x [n, spatial..., c], w [out, kernel..., c / groups]."""
    kernel = w.shape[1:-1]
    v = windows(x, kernel, strides, dilations, padding, 0)
    d = len(kernel)
    parts = []
    for g in range(groups):
        part = v[..., g * w.shape[-1]:(g + 1) * w.shape[-1]]
        filters = w[g * (len(w) // groups):(g + 1) * (len(w) // groups)]
        parts.append(np.tensordot(part, filters, (tuple(range(d + 1, 2 * d + 2)), tuple(range(1, d + 2)))))
    return np.concatenate(parts, -1)


def wide(t):
    return t.value.astype(np.float64) if t.dtype in FLOATS else t.value.astype(np.int64)


def conv_2d(dtype="F32", shape=(2, 7, 9, 6), filters=(8, 3, 2), strides=(1, 1), dilations=(1, 1), padding=VALID, groups=1,
            bias=True, fixed=True, activation=0, bias_dtype=None, weight_dtype=None):
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
    options = {"padding": padding, "strideH": strides[0], "strideW": strides[1], "dilationHFactor": dilations[0],
               "dilationWFactor": dilations[1], "fusedActivationFunction": activation}
    return operands, [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))], ("Conv2DOptions", options)


grid("CONV_2D", lambda d, r: conv_2d(d), ranks=(4,))
CONV_VARIANTS = {
    "stride 2x3": dict(strides=(2, 3)), "dilation 2x3": dict(dilations=(2, 3)), "SAME, even size, stride 2": dict(padding=SAME, strides=(2, 2), shape=(1, 8, 10, 6)),
    "SAME, dilation 2x3": dict(padding=SAME, dilations=(2, 3)), "SAME, stride 2, dilation 2": dict(padding=SAME, strides=(2, 2), dilations=(2, 2)),
    "stride 2, dilation 2": dict(strides=(2, 2), dilations=(2, 2)),
    "1x1": dict(filters=(8, 1, 1)), "1x1 stride 2": dict(filters=(8, 1, 1), strides=(2, 2)), "kernel of the input's size": dict(filters=(8, 7, 9)),
    "no bias": dict(bias=False), "weights and bias at run time": dict(fixed=False),
    "one channel": dict(shape=(2, 7, 9, 1)), "batch 0": dict(shape=(0, 7, 9, 6)),
}
for text, how in CONV_VARIANTS.items():
    variant("CONV_2D", text, lambda h=how: conv_2d(**h))
for code, name in ACTIVATIONS.items():
    variant("CONV_2D", f"fused {name}", lambda c=code: conv_2d(activation=c))
for groups in (2, 3, 6):
    filters = (12, 3, 2)
    variant("CONV_2D", f"{groups} groups", lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2)))
    variant("CONV_2D", f"{groups} groups, no bias", lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2), bias=False))
    variant("CONV_2D", f"{groups} groups, SAME, stride 2", lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2), padding=SAME, strides=(2, 2)))
    variant("CONV_2D", f"{groups} groups, dilation 2", lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2), dilations=(2, 2)))
    variant("CONV_2D", f"{groups} groups, 1x1", lambda g=groups: conv_2d(groups=g, filters=(12, 1, 1)))
    variant("CONV_2D", f"{groups} groups, RELU6", lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2), activation=3))
    variant("CONV_2D", f"{groups} groups, weights at run time", lambda g=groups: conv_2d(groups=g, filters=(12, 3, 2), fixed=False))
variant("CONV_2D", "F32 input with F16 weights", lambda: conv_2d(weight_dtype="F16", bias_dtype="F32"))
variant("CONV_2D", "no bias operand but -1", lambda: (lambda o: (o[0] + [None], o[1], o[2]))(conv_2d(bias=False)))


def depthwise(dtype="F32", shape=(2, 7, 9, 6), kernel=(3, 2), multiplier=1, strides=(1, 1), dilations=(1, 1), padding=VALID,
              bias=True, fixed=True, activation=0, stored_multiplier=None):
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
    options = {"padding": padding, "strideH": strides[0], "strideW": strides[1], "dilationHFactor": dilations[0],
               "dilationWFactor": dilations[1], "fusedActivationFunction": activation,
               "depthMultiplier": multiplier if stored_multiplier is None else stored_multiplier}
    return operands, [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))], ("DepthwiseConv2DOptions", options)


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


def transpose_conv(dtype="F32", shape=(2, 4, 5, 3), filters=(7, 3, 2), strides=(2, 3), padding=VALID, extra=(0, 0), bias=False,
                   activation=0, fixed=True, shape_fixed=True, shape_dtype="I32"):
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
    return operands, [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))], ("TransposeConvOptions", {
        "padding": padding, "strideH": strides[0], "strideW": strides[1], "fusedActivationFunction": activation})


grid("TRANSPOSE_CONV", lambda d, r: transpose_conv(d), ranks=(4,))
for text, how in {
    "VALID": {}, "SAME": dict(padding=SAME), "SAME, kernel smaller than stride": dict(padding=SAME, filters=(7, 1, 2), strides=(2, 3)),
    "SAME, kernel 4 stride 2": dict(padding=SAME, filters=(7, 4, 4), strides=(2, 2)), "stride 1": dict(strides=(1, 1)),
    "VALID, one more row and column than needed (output_padding)": dict(extra=(1, 2)),
    "SAME, one row less than n * stride": dict(padding=SAME, extra=(1, 1)),
    "VALID, kernel smaller than stride": dict(filters=(7, 1, 1), strides=(3, 3)),
    "bias": dict(bias=True), "bias, RELU": dict(bias=True, activation=1), "RELU6 without bias": dict(activation=3),
    "RELU without bias": dict(activation=1), "TANH": dict(activation=4),
    "weights at run time": dict(fixed=False), "shape at run time": dict(shape_fixed=False), "shape as I64": dict(shape_dtype="I64"),
}.items():
    variant("TRANSPOSE_CONV", text, lambda h=how: transpose_conv(**h))


def conv_3d(dtype="F32", shape=(2, 5, 6, 7, 4), filters=(8, 3, 2, 2), strides=(1, 1, 1), dilations=(1, 1, 1), padding=VALID, bias=True,
            activation=0, groups=1, fixed=True):
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
    return operands, [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))], ("Conv3DOptions", dict(
        padding=padding, strideD=strides[0], strideH=strides[1], strideW=strides[2], dilationDFactor=dilations[0],
        dilationHFactor=dilations[1], dilationWFactor=dilations[2], fusedActivationFunction=activation))


def conv_3d_transpose(dtype="F32", shape=(2, 3, 4, 5, 4), filters=(6, 3, 2, 2), strides=(1, 2, 3), padding=VALID, bias=False, extra=0,
                      activation=0, dilations=(1, 1, 1)):
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
    return operands, [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))], ("Conv3DOptions", dict(
        padding=padding, strideD=strides[0], strideH=strides[1], strideW=strides[2], dilationDFactor=dilations[0],
        dilationHFactor=dilations[1], dilationWFactor=dilations[2], fusedActivationFunction=activation))


grid("CONV_3D", lambda d, r: conv_3d(d), ranks=(5,))
grid("CONV_3D_TRANSPOSE", lambda d, r: conv_3d_transpose(d), ranks=(5,))
for text, how in {"stride 1x2x3": dict(strides=(1, 2, 3)), "dilation 2x1x3": dict(dilations=(2, 1, 3)), "SAME": dict(padding=SAME),
                  "SAME, stride 2, dilation 1": dict(padding=SAME, strides=(2, 2, 2)), "no bias": dict(bias=False), "RELU": dict(activation=1),
                  "RELU6": dict(activation=3), "TANH": dict(activation=4), "2 groups": dict(groups=2), "weights at run time": dict(fixed=False)}.items():
    variant("CONV_3D", text, lambda h=how: conv_3d(**h))
for text, how in {"VALID": {}, "SAME": dict(padding=SAME), "bias": dict(bias=True), "one more than needed": dict(extra=1), "RELU": dict(activation=1),
                  "bias, RELU6": dict(bias=True, activation=3), "stride 1": dict(strides=(1, 1, 1)), "dilation 2": dict(strides=(1, 1, 1), dilations=(2, 2, 2)),
                  "SAME, stride 2, kernel 3": dict(padding=SAME, filters=(6, 3, 3, 3), strides=(2, 2, 2))}.items():
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
            y = np.sqrt(mean) if op == "L2_POOL_2D" else mean if dtype in FLOATS else np.floor(np.abs(mean) + 0.5) * np.sign(mean)
    return [x], [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))], ("Pool2DOptions", dict(
        padding=padding, strideH=strides[0], strideW=strides[1], filterHeight=kernel[0], filterWidth=kernel[1], fusedActivationFunction=activation))


for name in ("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"):
    grid(name, lambda d, r, n=name: pool(n, d), ranks=(4,))
    for text, how in {"SAME (padding does not count)": dict(padding=SAME), "SAME, even size, stride 2": dict(padding=SAME, shape=(1, 8, 10, 5), strides=(2, 2)),
                      "kernel of the input's size": dict(kernel=(7, 9)), "kernel 1, stride 3": dict(kernel=(1, 1), strides=(3, 3)),
                      "SAME, kernel larger than the input": dict(padding=SAME, kernel=(11, 13), strides=(1, 1)),
                      "kernel 40x40 of 64x64 (more than 255 values)": dict(kernel=(40, 40), shape=(1, 64, 64, 3), strides=(7, 9)),
                      "300 channels": dict(shape=(1, 7, 9, 300))}.items():
        variant(name, text, lambda h=how, n=name: pool(n, **h))
    for code, activation_name in ACTIVATIONS.items():
        variant(name, f"fused {activation_name}", lambda c=code, n=name: pool(n, activation=c))

# ---- Matrix products --------------------------------------------------------------------------------------------


def fully_connected(dtype="F32", shape=(3, 5), out=4, bias=True, keep=False, fixed=True, activation=0, weight_dtype=None, flatten=None,
                    bias_shape=None):
    if dtype == "BOOL":
        raise NotDefined
    depth = flatten or shape[-1]
    x, w = data(dtype, shape), data(weight_dtype or dtype, (out, depth), seed="w", fixed=fixed)
    rows = wide(x).reshape(-1, depth)
    y = rows @ wide(w).T
    operands = [x, w]
    if bias:
        b = data("F32" if weight_dtype else dtype, bias_shape or (out,), seed="b", fixed=fixed)
        operands.append(b)
        y = y + wide(b).reshape(-1)
    else:
        operands.append(None)
    y = y.reshape(shape[:-1] + (out,)) if keep else y
    return operands, [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))], ("FullyConnectedOptions", {"keepNumDims": keep, "fusedActivationFunction": activation})


def fully_connected_grid(dtype, rank):
    at_least(rank, 1)
    return fully_connected(dtype, shape_of(rank), keep=True)


grid("FULLY_CONNECTED", fully_connected_grid)
for text, how in {"matrix without keepNumDims": {}, "rank 4 without keepNumDims": dict(shape=(3, 2, 5, 4)), "rank 1 without keepNumDims": dict(shape=(5,)),
                  "flattens [2,3,4] to rows of 12": dict(shape=(2, 3, 4), flatten=12),
                  "no bias": dict(bias=False), "weights and bias at run time": dict(fixed=False), "no rows": dict(shape=(0, 5)),
                  "one output": dict(out=1), "one row": dict(shape=(1, 5)), "F16 weights": dict(weight_dtype="F16"),
                  "bias of shape [1,4]": dict(bias_shape=(1, 4))}.items():
    variant("FULLY_CONNECTED", text, lambda h=how: fully_connected(**h))
for code, name in ACTIVATIONS.items():
    variant("FULLY_CONNECTED", f"fused {name}", lambda c=code: fully_connected(activation=c))


def batch_matmul(dtype="F32", batch_a=(), batch_b=(), m=3, k=5, n=4, adj_x=False, adj_y=False, fixed=False, out=None):
    if dtype == "BOOL":
        raise NotDefined
    a, b = data(dtype, batch_a + ((k, m) if adj_x else (m, k)), seed="a"), data(dtype, batch_b + ((n, k) if adj_y else (k, n)), seed="b", fixed=fixed)
    y = (wide(a).swapaxes(-1, -2) if adj_x else wide(a)) @ (wide(b).swapaxes(-1, -2) if adj_y else wide(b))
    return [a, b], [Tensor(y, out or dtype)], ("BatchMatMulOptions", {"adjX": adj_x, "adjY": adj_y})


def batch_matmul_grid(dtype, rank):
    at_least(rank, 2)
    return batch_matmul(dtype, shape_of(rank - 2), shape_of(rank - 2))


grid("BATCH_MATMUL", batch_matmul_grid)
for rank in range(2, 9):
    full = shape_of(rank - 2)
    even, odd = tuple(n if i % 2 else 1 for i, n in enumerate(full)), tuple(1 if i % 2 else n for i, n in enumerate(full))
    for text, a, b in (("two-way", even, odd), ("matrix right", full, ()), ("matrix left", (), full), ("last batch axis", full, full[-1:]),
                       ("ones right", full, (1,) * len(full))):
        for dtype in ("F32", "I32", "I16", "I8", "F16", "BF16"):
            case("BATCH_MATMUL", "broadcast", (dtype, rank, text), lambda d=dtype, a=a, b=b: batch_matmul(d, a, b))
for x, y in itertools.product((False, True), repeat=2):
    for fixed in (False, True):
        for batches in ((), (2,), (2, 3)):
            variant("BATCH_MATMUL", f"adjX {x}, adjY {y}, batch {list(batches)}" + (", right is constant" if fixed else ""),
                    lambda x=x, y=y, f=fixed, q=batches: batch_matmul("F32", q, q, adj_x=x, adj_y=y, fixed=f))
    variant("BATCH_MATMUL", f"adjX {x}, adjY {y}, batch [2,1] with [1,3]", lambda x=x, y=y: batch_matmul("F32", (2, 1), (1, 3), adj_x=x, adj_y=y))
variant("BATCH_MATMUL", "vector right", lambda: ([data("F32", (3, 5)), data("F32", (5,))], [data("F32", (3,))], ("BatchMatMulOptions", {})))
variant("BATCH_MATMUL", "one row, one column", lambda: batch_matmul(m=1, n=1))
variant("BATCH_MATMUL", "I8 to I32", lambda: batch_matmul("I8", (2,), (2,), out="I32"))
variant("BATCH_MATMUL", "no rows", lambda: batch_matmul(m=0))
variant("BATCH_MATMUL", "depth 0", lambda: batch_matmul(k=0))
variant("BATCH_MATMUL", "batch 0", lambda: batch_matmul(batch_a=(0,), batch_b=(0,)))

# ---- Images -----------------------------------------------------------------------------------------------------


def source_positions(n_in, n_out, align, half):
    scale = (n_in - 1) / (n_out - 1) if align and n_out > 1 else n_in / n_out
    at = np.arange(n_out)
    return np.float32(at + 0.5) * np.float32(scale) - np.float32(0.5) if half else np.float32(at) * np.float32(scale)


def bilinear_axis(x, axis, n_out, align, half):
    at = source_positions(x.shape[axis], n_out, align, half).astype(np.float64)
    low = np.floor(at)
    high = np.clip(low + 1, 0, x.shape[axis] - 1).astype(int)
    weight = at - low
    low = np.clip(low, 0, x.shape[axis] - 1).astype(int)
    w = weight.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return np.take(x, low, axis) * (1 - w) + np.take(x, high, axis) * w


def nearest_index(n_in, n_out, align, half):
    scale = np.float32((n_in - 1) / (n_out - 1)) if align and n_out > 1 else np.float32(n_in) / np.float32(n_out)
    at = (np.arange(n_out, dtype=np.float32) + np.float32(0.5 if half else 0.0)) * scale
    picked = np.floor(at + np.float32(0.5)) if align else np.floor(at)  # align: halves go up
    return np.clip(picked, 0, n_in - 1).astype(int)


def resize(op, dtype="F32", shape=(2, 5, 7, 3), size=(8, 12), align=False, half=False, size_dtype="I32", fixed=True):
    if dtype == "BOOL" and op == "RESIZE_BILINEAR":
        raise NotDefined
    x = data(dtype, shape)
    if op == "RESIZE_BILINEAR":
        y = bilinear_axis(bilinear_axis(wide(x), 1, size[0], align, half), 2, size[1], align, half)
        kind = "ResizeBilinearOptions"
    else:
        y = x.value[:, nearest_index(shape[1], size[0], align, half)][:, :, nearest_index(shape[2], size[1], align, half)]
        kind = "ResizeNearestNeighborOptions"
    return [x, index(size, size_dtype, fixed)], [Tensor(y, dtype, tolerance=SUMS.get(dtype))], (kind, {"alignCorners": align, "halfPixelCenters": half})


for name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
    grid(name, lambda d, r, n=name: resize(n, d), ranks=(4,))
    index_forms(name, "size", lambda d, f, n=name: resize(n, size_dtype=d, fixed=f))
    for text, shape, size in (("5x7 to 8x12", (2, 5, 7, 3), (8, 12)), ("twice", (2, 5, 7, 3), (10, 14)), ("three times", (1, 5, 7, 3), (15, 21)), ("half", (1, 8, 12, 3), (4, 6)),
                              ("down 9x11 to 4x3", (1, 9, 11, 3), (4, 3)), ("to 1x1", (1, 5, 7, 3), (1, 1)), ("from 1x1", (1, 1, 1, 3), (4, 5)),
                              ("same size", (1, 5, 7, 3), (5, 7)), ("37x53 to 101x211", (1, 37, 53, 2), (101, 211))):
        for align, half in ((False, False), (True, False), (False, True), (True, True)):
            variant(name, f"{text}" + ", alignCorners" * align + ", halfPixelCenters" * half,
                    lambda n=name, s=shape, z=size, a=align, h=half: resize(n, "F32", s, z, a, h))


def space_to_depth(dtype, rank, block=2):
    if rank != 4:
        raise NotDefined
    x = data(dtype, (2, 4, 6, 3), "big")
    n, h, w, c = x.value.shape
    y = x.value.reshape(n, h // block, block, w // block, block, c).transpose(0, 1, 3, 2, 4, 5).reshape(n, h // block, w // block, block * block * c)
    return [x], [Tensor(y, dtype)], ("SpaceToDepthOptions", {"blockSize": block})


def depth_to_space(dtype, rank, block=2):
    if rank != 4:
        raise NotDefined
    x = data(dtype, (2, 3, 5, 4 * block * block), "big")
    n, h, w, c = x.value.shape
    y = x.value.reshape(n, h, w, block, block, c // block // block).transpose(0, 1, 3, 2, 4, 5).reshape(n, h * block, w * block, c // block // block)
    return [x], [Tensor(y, dtype)], ("DepthToSpaceOptions", {"blockSize": block})


grid("SPACE_TO_DEPTH", space_to_depth, ranks=(4,))
grid("DEPTH_TO_SPACE", depth_to_space, ranks=(4,))
variant("DEPTH_TO_SPACE", "block 3", lambda: depth_to_space("F32", 4, 3))
variant("DEPTH_TO_SPACE", "block 1", lambda: depth_to_space("F32", 4, 1))


def space_to_batch(dtype, rank, index_dtype="I32", fixed=True):
    """Rank 3 has one spatial axis, rank 4 two; deeper ones are asked for as well."""
    at_least(rank, 3)
    spatial = rank - 2
    sizes, blocks = (4, 6, 2, 4, 2, 2)[:spatial], (2, 3, 2, 2, 1, 1)[:spatial]
    pads = [[i % 2, blocks[i] - i % 2 if (blocks[i] - i % 2) % blocks[i] == 0 else (blocks[i] - (sizes[i] + i % 2) % blocks[i]) % blocks[i]] for i in range(spatial)]
    x = data(dtype, (3,) + sizes + (5,), "big")
    v = np.pad(x.value, [(0, 0)] + pads + [(0, 0)])
    shape = [3] + [q for n, b in zip(v.shape[1:-1], blocks) for q in (n // b, b)] + [5]
    perm = [2 * i + 2 for i in range(spatial)] + [0] + [2 * i + 1 for i in range(spatial)] + [2 * spatial + 1]
    y = v.reshape(shape).transpose(perm).reshape((3 * int(np.prod(blocks)),) + tuple(n // b for n, b in zip(v.shape[1:-1], blocks)) + (5,))
    return [x, index(blocks, index_dtype, fixed), index(pads, index_dtype, fixed)], [Tensor(y, dtype)], ("SpaceToBatchNDOptions", {})


def batch_to_space(dtype, rank, index_dtype="I32", fixed=True):
    at_least(rank, 3)
    spatial = rank - 2
    sizes, blocks, crops = (4, 3, 2, 2, 2, 2)[:spatial], (2, 3, 2, 2, 1, 1)[:spatial], [[0, 1], [1, 0], [0, 0], [0, 0], [0, 0], [0, 0]][:spatial]
    n = int(np.prod(blocks))
    x = data(dtype, (2 * n,) + sizes + (5,), "big")
    v = x.value.reshape(tuple(blocks) + (2,) + sizes + (5,))
    perm = [spatial] + [q for i in range(spatial) for q in (spatial + 1 + i, i)] + [2 * spatial + 1]
    y = v.transpose(perm).reshape((2,) + tuple(s * b for s, b in zip(sizes, blocks)) + (5,))
    y = y[(slice(None),) + tuple(slice(a, y.shape[i + 1] - b) for i, (a, b) in enumerate(crops))]
    return [x, index(blocks, index_dtype, fixed), index(crops, index_dtype, fixed)], [Tensor(y, dtype)], ("BatchToSpaceNDOptions", {})


grid("SPACE_TO_BATCH_ND", space_to_batch)
grid("BATCH_TO_SPACE_ND", batch_to_space)
index_forms("SPACE_TO_BATCH_ND", "block and paddings", lambda d, f: space_to_batch("F32", 4, d, f))
index_forms("BATCH_TO_SPACE_ND", "block and crops", lambda d, f: batch_to_space("F32", 4, d, f))


def reduce_window(dtype, rank, function=1):
    at_least(rank, 1)
    if dtype == "BOOL" and function < 5 or dtype != "BOOL" and function >= 5:
        raise NotDefined
    x = data(dtype, tuple(n + 2 for n in shape_of(rank)) if rank < 5 else (3,) * rank)
    window = [1 + i % 2 for i in range(rank)]
    strides, dilations = [1 + (i + 1) % 2 for i in range(rank)], [1 + i % 3 % 2 for i in range(rank)]
    reduce = {1: np.sum, 2: np.prod, 3: np.min, 4: np.max, 5: np.all, 6: np.any}[function]
    start = {1: 0, 2: 1, 3: 100, 4: 0 if dtype[0] == "U" else -100, 5: True, 6: False}[function]
    if dtype == "I4":
        start = {3: 7, 4: -8}.get(function, start)
    v = np.lib.stride_tricks.sliding_window_view(x.value, [(w - 1) * d + 1 for w, d in zip(window, dilations)])
    v = v[tuple(slice(None, None, s) for s in strides) + tuple(slice(None, None, d) for d in dilations)]
    y = reduce(v.astype(np.float64) if dtype in FLOATS else v, axis=tuple(range(rank, 2 * rank)), **({"dtype": x.value.dtype} if function < 3 and dtype not in FLOATS else {}))
    operands = [x, Tensor(start, dtype, True)] + [index(v, "I64") for v in (window, strides, dilations)]
    return operands, [Tensor(y, dtype)], ("ReduceWindowOptions", {"reduceFunction": function})


grid("REDUCE_WINDOW", reduce_window)
for code, name in ((2, "MUL"), (3, "MINIMUM"), (4, "MAXIMUM")):
    for rank in (1, 3, 5):
        variant("REDUCE_WINDOW", f"{name}, rank {rank}", lambda c=code, r=rank: reduce_window("F32", r, c))
for code, name in ((5, "ALL"), (6, "ANY")):
    variant("REDUCE_WINDOW", f"{name} of BOOL", lambda c=code: reduce_window("BOOL", 3, c))

# ---- Quantization as operators: the type is the quantized side's ---------------------------------------------------


def quantized(dtype, rank):
    if dtype not in ("I4", "I8", "U8", "I16"):
        raise NotDefined
    bits = {"I4": 4, "I16": 16}.get(dtype, 8)
    low, high = (0, 255) if dtype == "U8" else (-2 ** (bits - 1), 2 ** (bits - 1) - 1)
    zero = {"I8": 3, "U8": 101}.get(dtype, 0)
    return low, high, 0.25, zero


def quantize(dtype, rank):
    low, high, scale, zero = quantized(dtype, rank)
    x = data("F32", shape_of(rank), lo=-9, hi=9)
    q = np.clip(np.round(x.value / np.float32(scale)) + zero, low, high)
    return [x], [Tensor(q, dtype, scale=scale, zero_point=zero)], ("QuantizeOptions", {})


def dequantize(dtype, rank):
    low, high, scale, zero = quantized(dtype, rank)
    q = numbers(dtype, shape_of(rank), "big")
    operand = Tensor(q, dtype, fixed=dtype == "I4", scale=scale, zero_point=zero)
    return [operand], [Tensor((q.astype(np.float64) - zero) * scale, "F32")], ("DequantizeOptions", {})


grid("QUANTIZE", quantize)
grid("DEQUANTIZE", dequantize)
variant("DEQUANTIZE", "F16 constant to F32", lambda: (lambda x: ([x], [Tensor(x.value, "F32")], ("DequantizeOptions", {})))(data("F16", (3, 5), fixed=True)))
variant("DEQUANTIZE", "F16 to F32 at run time", lambda: (lambda x: ([x], [Tensor(x.value, "F32")], ("DequantizeOptions", {})))(data("F16", (3, 5))))
variant("FAKE_QUANT", "8 bits, -6 to 6", lambda: (lambda x: ([x], [Tensor(np.clip(np.round((x.value + 6.0235295) / (12 / 255)), 0, 255) * (12 / 255) - 6.0235295, "F32", tolerance=0.03)],
                                                               ("FakeQuantOptions", {"min": -6.0, "max": 6.0, "numBits": 8})))(data("F32", (3, 5), lo=-5, hi=5)))

# ---- Fourier ----------------------------------------------------------------------------------------------------


def rfft2d(shape, lengths):
    x = data("F32", shape)
    return [x, index(lengths)], [Tensor(np.fft.rfft2(x.value, lengths), "C64")], ("Rfft2dOptions", {})


for shape, lengths in (((4, 8), (4, 8)), ((3, 4, 8), (4, 8)), ((2, 3, 4, 8), (4, 8)), ((1, 16), (1, 16)), ((4, 6), (4, 6)), ((3, 5), (4, 8)), ((8, 16), (4, 8))):
    variant("RFFT2D", f"{list(shape)} with lengths {list(lengths)}", lambda s=shape, n=lengths: rfft2d(s, n))
def of_complex(function, rank):
    x = data("C64", shape_of(rank))
    return [x], [Tensor(function(x.value), "F32")], None


for name, f in (("REAL", np.real), ("IMAG", np.imag), ("COMPLEX_ABS", np.abs)):
    grid(name, lambda d, r, f=f: of_complex(f, r), dtypes=("C64",))


def rfft2d_grid(dtype, rank):
    at_least(rank, 2)
    return rfft2d(shape_of(rank - 2) + (4, 8), (4, 8))


grid("RFFT2D", rfft2d_grid, dtypes=("F32",))
