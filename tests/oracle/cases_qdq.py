# SPDX-License-Identifier: Apache-2.0
"""Operators between DequantizeLinear and QuantizeLinear, which become integer kernels: every kernel, with scales and zero
points of its own, in the types that it takes; and forms that must stay float. Integers may be one step off: kernels
round products twice, or halves in another way than ONNX (docs/integer-models.md)."""

import ml_dtypes
import numpy as np

from tests.support.case import Case

CASES = []
rng = np.random.default_rng(13)
f = lambda *values: np.array(values[0] if len(values) == 1 else values, np.float32)  # noqa: E731
TYPES = {"int8": np.int8, "uint8": np.uint8, "int16": np.int16}
ZERO = {"int8": 11, "uint8": 121, "int16": 0}
RESULT_ZERO = {"int8": -9, "uint8": 99, "int16": 0}
LOW = {"int8": -128, "uint8": 0, "int16": -3000}
HIGH = {"int8": 128, "uint8": 256, "int16": 3000}


def qdq(name, op, shapes, output, dtype="int8", weights=None, scales=None, result=0.0513, zero=None, opset=21, **more):
    """`op` reads a, b, ... (floats of `shapes`) and gives y's floats as r; y is quantized to `result`."""
    kind = TYPES[dtype]
    scales = scales or [0.0371, 0.0231, 0.0117]
    values = dict(weights or {})
    body, inputs, ranges = "", [], {}
    for i, shape in enumerate(shapes):
        letter = "abc"[i]
        inputs.append(f"{dtype}{shape} {letter}q")
        values |= {
            f"s{letter}": f(scales[i]),
            f"z{letter}": np.array(ZERO[dtype] + (3 * i if dtype != "int16" else 0), kind),
        }
        body += f"{letter} = DequantizeLinear({letter}q, s{letter}, z{letter}) "
        ranges[f"{letter}q"] = (LOW[dtype], HIGH[dtype])
    values |= {"sy": f(result), "zy": np.array(RESULT_ZERO[dtype] if zero is None else zero, kind)}
    body += f"{op} y = QuantizeLinear(r, sy, zy)"
    more.setdefault("steps", 1)
    CASES.append(
        Case(
            f"qdq/{name}",
            ", ".join(inputs),
            body,
            values,
            opset=opset,
            outputs=f"{dtype}{output} y",
            ranges=ranges,
            **more,
        )
    )


def weights_of(shape, dtype=np.int8, axis=None, zero=0, scale=0.0071):
    """w by DequantizeLinear: by tensor, or along `axis`."""
    low, high = (np.iinfo(dtype).min, np.iinfo(dtype).max + 1)
    count = 1 if axis is None else shape[axis]
    values = {
        "wq": rng.integers(low, high, shape).astype(dtype),
        "sw": f(scale) if axis is None else (scale * (1 + np.arange(count) / 3)).astype(np.float32),
        "zw": np.array(zero, dtype) if axis is None else np.full(count, zero, dtype),
    }
    text = f"w = DequantizeLinear<axis={axis or 0}>(wq, sw, zw) "
    return text, values


def bias_of(channels, scale):
    """v by DequantizeLinear of int32 at the given scales."""
    return "v = DequantizeLinear<axis=0>(vq, sv) ", {
        "vq": rng.integers(-900, 900, channels).astype(np.int32),
        "sv": np.broadcast_to(np.asarray(scale, np.float32), (channels,)).copy() if np.ndim(scale) else f(scale),
    }


# ---- products ----

for dtype in ("int8", "uint8"):
    for weights, zero in (("int8", 0), ("int8", 5), ("uint8", 128), ("uint8", 77)):
        text, values = weights_of((6, 4, 3, 2), TYPES[weights], zero=zero)
        bias_text, bias = bias_of(6, 0.0371 * 0.0071)
        qdq(
            f"conv_{dtype}_{weights}_zero_{zero}",
            text + bias_text + "r = Conv<pads=[1,0,1,1], strides=[2,1]>(a, w, v)",
            ["[1,4,9,8]"],
            "[1,6,5,8]",
            dtype,
            values | bias,
            result=0.11,
        )
    text, values = weights_of((6, 4, 3, 2), axis=0)
    bias_text, bias = bias_of(6, 0.0371 * values["sw"])
    qdq(
        f"conv_by_channel_{dtype}",
        text + bias_text + "c = Conv(a, w, v) r = Relu(c)",
        ["[2,4,9,8]"],
        "[2,6,7,7]",
        dtype,
        values | bias,
        result=0.13,
    )
    qdq(f"conv_no_bias_{dtype}", text + "r = Conv(a, w)", ["[1,4,9,8]"], "[1,6,7,7]", dtype, values, result=0.13)
    text, values = weights_of((6, 1, 3, 2), axis=0)
    qdq(f"depthwise_{dtype}", text + "r = Conv<group=6>(a, w)", ["[1,6,9,8]"], "[1,6,7,7]", dtype, values, result=0.05)
    text, values = weights_of((6, 2, 3, 2), axis=0)
    qdq(f"groups_{dtype}", text + "r = Conv<group=2>(a, w)", ["[1,4,9,8]"], "[1,6,7,7]", dtype, values, result=0.07)
    text, values = weights_of((4, 6, 3, 2))
    qdq(
        f"conv_transpose_{dtype}",
        text + "r = ConvTranspose<strides=[2,1]>(a, w)",
        ["[1,4,5,6]"],
        "[1,6,11,7]",
        dtype,
        values,
        result=0.09,
    )
    text, values = weights_of((7, 5), axis=1)
    qdq(f"matmul_{dtype}", text + "r = MatMul(a, w)", ["[3,7]"], "[3,5]", dtype, values, result=0.04)
    text, values = weights_of((5, 7), axis=0)
    bias_text, bias = bias_of(5, 0.0371 * values["sw"])
    qdq(
        f"gemm_{dtype}",
        text + bias_text + "r = Gemm<transB=1>(a, w, v)",
        ["[3,7]"],
        "[3,5]",
        dtype,
        values | bias,
        result=0.04,
    )
    text, values = weights_of((7, 5), axis=1)
    flatten = "t = Flatten(a) u = QuantizeLinear(t, sa, za) d = DequantizeLinear(u, sa, za) "
    qdq(
        f"flatten_matmul_{dtype}", text + flatten + "r = MatMul(d, w)", ["[3,1,7]"], "[3,5]", dtype, values, result=0.04
    )
    qdq(f"batch_matmul_{dtype}", "r = MatMul(a, b)", ["[2,3,7]", "[2,7,5]"], "[2,3,5]", dtype, result=0.05)

# A bias at another scale than data times weights, one in floats, and a channel of scale 0.
text, values = weights_of((6, 4, 3, 2), axis=0)
bias_text, bias = bias_of(6, 0.001)
qdq(
    "bias_of_another_scale",
    text + bias_text + "r = Conv(a, w, v)",
    ["[1,4,9,8]"],
    "[1,6,7,7]",
    weights=values | bias,
    result=0.13,
)
qdq(
    "bias_in_floats",
    text + "r = Conv(a, w, v)",
    ["[1,4,9,8]"],
    "[1,6,7,7]",
    weights=values | {"v": f(1, -2, 0.3, 0.04, 5, 0)},
    result=0.13,
)
zeros = values | {"sw": values["sw"] * (np.arange(6) != 2)}
qdq("channel_of_scale_0", text + "r = Conv(a, w)", ["[1,4,9,8]"], "[1,6,7,7]", weights=zeros, result=0.13)
# The scale that the channel gets is that of its bias too.
qdq(
    "channel_of_scale_0_with_bias",
    text + "r = Conv(a, w, v)",
    ["[1,4,9,8]"],
    "[1,6,7,7]",
    weights=zeros | {"v": f(0.1, -0.2, 0.0185, 0.04, 0.05, 0)},
    result=0.004,
)
text, values = weights_of((6, 4, 3, 2), axis=0, zero=3)
signs = values | {"sw": values["sw"] * np.where(np.arange(6) % 3 == 1, -1, 1).astype(np.float32)}
qdq("weights_of_scales_below_0", text + "r = Conv(a, w)", ["[1,4,9,8]"], "[1,6,7,7]", weights=signs, result=0.13)
qdq(
    "batch_normalisation_behind_conv",
    text + "c = Conv(a, w) n = BatchNormalization(c, g, e, m, n0) r = Relu(n)",
    ["[1,4,9,8]"],
    "[1,6,7,7]",
    weights=values
    | {
        "g": rng.uniform(0.5, 2, 6).astype(np.float32),
        "e": rng.normal(size=6).astype(np.float32),
        "m": rng.normal(size=6).astype(np.float32) / 9,
        "n0": rng.uniform(0.5, 2, 6).astype(np.float32),
    },
    result=0.13,
)
qdq("zero_points_by_channel", text + "r = Conv(a, w)", ["[1,4,9,8]"], "[1,6,7,7]", weights=values, result=0.13)
text, values = weights_of((6, 4, 3, 2), axis=0)
qdq("conv_int16", text + "r = Conv(a, w)", ["[1,4,9,8]"], "[1,6,7,7]", "int16", values, result=0.3)
# Zero points of channels of zeros, and of those whose weights minus them fit 8 bits: an integer kernel all the same.
empty = {**values, "wq": values["wq"].copy(), "zw": np.array([0, -127, 0, 100, 0, 0], np.int8)}
empty["wq"][1], empty["wq"][3] = -127, np.clip(empty["wq"][3], -28, 127)
qdq("channels_of_zeros", text + "r = Conv(a, w)", ["[1,4,9,8]"], "[1,6,7,7]", weights=empty, result=0.13)
qdq("channels_of_zeros_16", text + "r = Conv(a, w)", ["[1,4,9,8]"], "[1,6,7,7]", "int16", weights=empty, result=0.13)
unsigned = empty | {"wq": np.clip(values["wq"].astype(np.int16) + 128, 12, 226).astype(np.uint8)}
unsigned["zw"] = np.array([128, 99, 127, 140, 128, 111], np.uint8)
qdq("channels_of_bytes", text + "r = Conv(a, w)", ["[1,4,9,8]"], "[1,6,7,7]", "uint8", weights=unsigned, result=0.13)

# ---- elementwise ----

for dtype in ("int8", "uint8"):
    for op in ("Add", "Sub", "Mul"):
        qdq(f"{op.lower()}_{dtype}", f"r = {op}(a, b)", ["[2,3,5]", "[3,1]"], "[2,3,5]", dtype)
        qdq(
            f"{op.lower()}_number_{dtype}",
            f"r = {op}(a, k)",
            ["[2,3,5]"],
            "[2,3,5]",
            dtype,
            {"k": f(-0.7)},
            steps=2 if op == "Sub" else 1,
        )
    qdq(f"div_stays_float_{dtype}", "r = Div(a, b)", ["[2,3,5]", "[3,1]"], "[2,3,5]", dtype)
    for name, op in (
        ("relu", "r = Relu(a)"),
        ("clip", "r = Clip(a, l, h)"),
        ("leaky_relu", "r = LeakyRelu<alpha=0.13>(a)"),
        ("prelu", "p = DequantizeLinear(pq, sp) r = PRelu(a, p)"),
        ("hard_swish", "r = HardSwish(a)"),
        ("gelu", "r = Gelu(a)"),
        ("tanh", "r = Tanh(a)"),
        ("exp", "r = Exp(a)"),
        ("abs", "r = Abs(a)"),
        ("sqrt_stays_float", "m = Abs(a) r = Sqrt(m)"),
    ):
        more = {"l": f(0), "h": f(6), "pq": np.array([[7], [-90], [120]], np.int8), "sp": f(0.002)}
        qdq(f"{name}_{dtype}", op, ["[2,3,5]"], "[2,3,5]", dtype, more, result=0.019)
    qdq(
        f"sigmoid_{dtype}",
        "r = Sigmoid(a)",
        ["[2,3,5]"],
        "[2,3,5]",
        dtype,
        result=1 / 256,
        zero=-128 if dtype == "int8" else 0,
    )
    qdq(f"sigmoid_other_scale_{dtype}", "r = Sigmoid(a)", ["[2,3,5]"], "[2,3,5]", dtype, result=0.0031)
    qdq(
        f"softmax_{dtype}",
        "r = Softmax<axis=-1>(a)",
        ["[2,3,5]"],
        "[2,3,5]",
        dtype,
        result=1 / 256,
        zero=-128 if dtype == "int8" else 0,
    )
    qdq(
        f"log_softmax_{dtype}",
        "r = LogSoftmax<axis=-1>(a)",
        ["[2,3,5]"],
        "[2,3,5]",
        dtype,
        result=16 / 256,
        zero=127 if dtype == "int8" else 255,
    )

# ---- pools, means, sizes ----

SIZE = {"size": np.array([1, 3, 14, 16], np.int64)}
for dtype in ("int8", "uint8"):
    same = {"result": 0.0371, "zero": ZERO[dtype]}
    qdq(f"average_pool_{dtype}", "r = AveragePool<kernel_shape=[3,2]>(a)", ["[1,3,7,8]"], "[1,3,5,7]", dtype, **same)
    qdq(f"average_pool_rescaled_{dtype}", "r = AveragePool<kernel_shape=[3,2]>(a)", ["[1,3,7,8]"], "[1,3,5,7]", dtype)
    qdq(f"max_pool_{dtype}", "r = MaxPool<kernel_shape=[3,2]>(a)", ["[1,3,7,8]"], "[1,3,5,7]", dtype)
    qdq(f"global_average_pool_{dtype}", "r = GlobalAveragePool(a)", ["[1,3,7,8]"], "[1,3,1,1]", dtype, result=0.012)
    qdq(
        f"reduce_max_{dtype}",
        "r = ReduceMax<keepdims=0>(a, k)",
        ["[2,3,5]"],
        "[2,5]",
        dtype,
        {"k": np.array([1], np.int64)},
    )
    qdq(
        f"resize_nearest_{dtype}",
        'r = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(a, , , size)',
        ["[1,3,7,8]"],
        "[1,3,14,16]",
        dtype,
        SIZE,
    )
    qdq(
        f"resize_linear_{dtype}",
        'r = Resize<mode="linear">(a, , , size)',
        ["[1,3,7,8]"],
        "[1,3,14,16]",
        dtype,
        SIZE,
        **same,
    )

qdq(
    "resize_linear_int16",
    'r = Resize<mode="linear">(a, , , size)',
    ["[1,3,7,8]"],
    "[1,3,17,21]",
    "int16",
    {"size": np.array([1, 3, 17, 21], np.int64)},
    result=0.0371,
    zero=0,
)

# ---- elements that are only moved: exact where nothing is rescaled ----

MOVES = {
    "transpose": ("r = Transpose<perm=[2,0,1]>(a)", ["[2,3,5]"], "[5,2,3]", {}),
    "reshape": ("r = Reshape(a, k)", ["[2,3,5]"], "[6,5]", {"k": np.array([6, 5], np.int64)}),
    "slice": (
        "r = Slice(a, k, e)",
        ["[4,6,5]"],
        "[3,4,4]",
        {"k": np.array([1, 2, 0], np.int64), "e": np.array([4, 6, 4], np.int64)},
    ),
    "pad": ("r = Pad(a, k)", ["[2,3,5]"], "[3,3,8]", {"k": np.array([1, 0, 1, 0, 0, 2], np.int64)}),
    "pad_number": (
        "r = Pad(a, k, p)",
        ["[2,3,5]"],
        "[3,3,8]",
        {"k": np.array([1, 0, 1, 0, 0, 2], np.int64), "p": f(0.37)},
    ),
    "gather": ("r = Gather<axis=1>(a, k)", ["[2,3,5]"], "[2,2,5]", {"k": np.array([2, 0], np.int64)}),
    "tile": ("r = Tile(a, k)", ["[2,3,5]"], "[2,6,15]", {"k": np.array([1, 2, 3], np.int64)}),
    "depth_to_space": ("r = DepthToSpace<blocksize=2>(a)", ["[1,8,3,5]"], "[1,2,6,10]", {}),
    "unsqueeze": ("r = Unsqueeze(a, k)", ["[2,3,5]"], "[2,1,3,5]", {"k": np.array([1], np.int64)}),
    "squeeze": ("r = Squeeze(a, k)", ["[2,1,5]"], "[2,5]", {"k": np.array([1], np.int64)}),
    "expand": ("r = Expand(a, k)", ["[2,1,5]"], "[3,2,4,5]", {"k": np.array([3, 2, 4, 5], np.int64)}),
    "where": ("r = Where(k, a, p)", ["[2,3,5]"], "[2,3,5]", {"k": np.arange(15).reshape(3, 5) % 2 == 0, "p": f(0)}),
    "reverse": (
        "r = Slice(a, k, e, x, t)",
        ["[2,3,5]"],
        "[2,3,5]",
        {name: np.array([value], np.int64) for name, value in (("k", -1), ("e", -6), ("x", 2), ("t", -1))},
    ),
    "gather_nd": ("r = GatherND(a, k)", ["[2,3,5]"], "[2,5]", {"k": np.array([[1, 2], [0, 1]], np.int64)}),
    "space_to_depth": ("r = SpaceToDepth<blocksize=2>(a)", ["[1,3,4,6]"], "[1,12,2,3]", {}),
    "reflect": ('r = Pad<mode="reflect">(a, k)', ["[2,3,5]"], "[2,5,6]", {"k": np.array([0, 1, 0, 0, 1, 1], np.int64)}),
    "maximum": ("r = Max(a, k)", ["[2,3,5]"], "[2,3,5]", {"k": f(-0.5)}),
}
for name, (op, shapes, output, values) in MOVES.items():
    for dtype in ("int8", "uint8"):
        qdq(f"{name}_{dtype}", op, shapes, output, dtype, values, result=0.0371, zero=ZERO[dtype], steps=0)
    qdq(f"{name}_rescaled", op, shapes, output, "uint8", values)
qdq("concat", "r = Concat<axis=1>(a, b)", ["[2,3,5]", "[2,4,5]"], "[2,7,5]")
qdq("split_and_add", "p, q = Split<axis=1, num_outputs=2>(a) r = Add(p, q)", ["[2,6,5]"], "[2,3,5]", "uint8")

# ---- chains ----

text, values = weights_of((6, 4, 3, 2), axis=0)
qdq(
    "moved_between_products",
    text
    + "c = Conv(a, w) cq = QuantizeLinear(c, sc, zc) cm = MaxPool<kernel_shape=[2,2]>(cq) cr = Reshape(cm, k) "
    + "cd = DequantizeLinear(cr, sc, zc) r = Relu(cd)",
    ["[1,4,9,8]"],
    "[6,36]",
    "uint8",
    values | {"sc": f(0.13), "zc": np.uint8(100), "k": np.array([6, 36], np.int64)},
    result=0.13,
    steps=2,
)
qdq(
    "uint16_round_trip",
    "e = QuantizeLinear(a, se, ze) g = DequantizeLinear(e, se, ze) h = QuantizeLinear(g, se, ze) r = DequantizeLinear(h, se, ze)",
    ["[2,3,5]"],
    "[2,3,5]",
    "uint8",
    {"se": f(0.001), "ze": np.uint16(31720)},
)
# No kernel rescales integers of 16 bits with a zero point: they are floats in between.
CASES.append(
    Case(
        "qdq/int16_zero_point_to_other_scales",
        "int16[3,5,4] x",
        "d = DequantizeLinear(x, sx, zx) r = Slice(d, one, most, one) y = QuantizeLinear(r, sy, zy)",
        {
            "sx": f(0.0003),
            "zx": np.int16(-120),
            "sy": f(0.0007),
            "zy": np.int16(1331),
            "one": np.array([1], np.int64),
            "most": np.array([4], np.int64),
        },
        opset=21,
        outputs="int16[3,3,4] y",
        ranges={"x": (-3000, 3000)},
    )
)
CASES.append(
    Case(
        "qdq/int16_zero_point_of_the_second",
        "int16[3,5,4] x, int16[5,1] w",
        "d = DequantizeLinear(x, sx, zx) e = DequantizeLinear(w, sw, zw) r = Sub(d, e) y = QuantizeLinear(r, sy, zx)",
        {
            "sx": f(0.0003),
            "zx": np.int16(0),
            "sw": f(0.0004),
            "zw": np.int16(1410),
            "sy": f(0.0007),
        },
        opset=21,
        outputs="int16[3,5,4] y",
        ranges={"x": (-3000, 3000), "w": (-3000, 3000)},
    )
)
# The integer kernel's positions are off by more and more along a long axis.
CASES.append(
    Case(
        "qdq/resize_linear_long_axis",
        "int8[1,2,3,700] x",
        'd = DequantizeLinear(x, s, z) r = Resize<mode="linear">(d, "", "", sizes) y = QuantizeLinear(r, s, z)',
        {"s": f(0.007), "z": np.int8(-3), "sizes": np.array([1, 2, 3, 1100], np.int64)},
        outputs="int8[1,2,3,1100] y",
        ranges={"x": (-128, 128)},
        steps=1,
    )
)
# What rounds to zero from below is +0 as an integer, and so is what is dequantized: its reciprocal is +infinity.
for dtype, zero in (("int8", 0), ("int8", 3), ("uint8", 7)):
    CASES.append(
        Case(
            f"qdq/sign_of_zero_{dtype}_{zero}",
            "float[2,3] x",
            "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) r = Div(one, d) y = Sign(r)",
            {"s": f(1), "z": np.dtype(dtype).type(zero), "one": np.ones((2, 3), np.float32)},
            feeds={"x": np.array([[-0.3, 0.3, -2], [2, 0, -0.04]], np.float32)},
            outputs="float[2,3] y",
        )
    )
# Plain integers are reshaped, then dequantized, sliced and reshaped: three changes of grid at one place.
CASES.append(
    Case(
        "qdq/plain_integers_are_reshaped",
        "uint8[2,3,5] aq, uint8[2,4,5] bq",
        "c = com.microsoft.QLinearConcat<axis=1>(sy, zy, aq, sa, za, bq, sb, zb) d = Reshape(c, k) "
        "e = DequantizeLinear(d, sy, zy) g = Slice(e, b, t) r = Reshape(g, l)",
        {
            "sa": f(0.0371),
            "za": np.uint8(121),
            "sb": f(0.0231),
            "zb": np.uint8(99),
            "sy": f(0.0513),
            "zy": np.uint8(7),
            "k": np.array([7, 10], np.int64),
            "b": np.array([1, 2], np.int64),
            "t": np.array([5, 8], np.int64),
            "l": np.array([3, 8], np.int64),
        },
        opsets={"com.microsoft": 1},
        outputs="float[3,8] r",
        ranges={"aq": (0, 256), "bq": (0, 256)},
        tolerance=0.06,  # one step of 0.0513 in about 10
    )
)
# The limit 6 is between two steps of the data: MAX_POOL_2D with RELU6 on integers would give a step in its place.
CASES.append(
    Case(
        "qdq/limit_between_two_steps",
        "int8[1,3,7,8] x",
        "d = DequantizeLinear(x, s, z) p = MaxPool<kernel_shape=[2,2]>(d) r = Clip(p, l, h)",
        {"s": f(0.0731), "z": np.int8(11), "l": f(0), "h": f(6)},
        outputs="float[1,3,6,7] r",
        ranges={"x": (-128, 128)},
        tolerance=1e-6,
    )
)

# ---- data of 16 bits: sums that fit 32 bits, and sums that do not ----

text, values = weights_of((6, 4, 3, 2), axis=0)
large_text, large = weights_of((6, 256, 3, 2), axis=0)
bias_text, bias = bias_of(6, 0.0371 * 0.0071)
qdq("conv_int16_wide_sums", large_text + "r = Conv(a, w)", ["[1,256,9,8]"], "[1,6,7,7]", "int16", large, result=1.3)
qdq(
    "conv_int16_bias",
    text + bias_text + "r = Conv(a, w, v)",
    ["[1,4,9,8]"],
    "[1,6,7,7]",
    "int16",
    values | bias,
    result=0.3,
)
fc_text, fc = weights_of((5, 7), axis=0)
bias_text, bias = bias_of(5, 0.0371 * 0.0071)
qdq(
    "gemm_int16",
    fc_text + bias_text + "r = Gemm<transB=1>(a, w, v)",
    ["[3,7]"],
    "[3,5]",
    "int16",
    fc | bias,
    result=0.2,
)
up_text, up = weights_of((4, 6, 3, 2), axis=1)
qdq(
    "conv_transpose_int16",
    up_text + "r = ConvTranspose<strides=[2,1]>(a, w)",
    ["[1,4,5,8]"],
    "[1,6,11,9]",
    "int16",
    up,
    result=0.2,
)

# FULLY_CONNECTED without a bias sums data of 16 bits in 32 bits, and these sums are 25000 * 100 * 1024.
qdq(
    "matmul_int16_wide_sums",
    "w = DequantizeLinear(wq, sw) r = MatMul(a, w)",
    ["[2,1024]"],
    "[2,3]",
    "int16",
    {"wq": np.full((1024, 3), 100, np.int8), "sw": f(1)},
    scales=[1],
    result=1e5,
    feeds={"aq": np.full((2, 1024), 25000, np.int16)},
)

# ---- what 32 bits do not hold stays float: sums, products, multiples of a large scale, floats ----

# Floats add up multiples of 256 exactly.
long = {"aq": np.full((1, 2, 300, 301), 25600, np.int16)}
qdq(
    "average_pool_int16_long",
    "r = AveragePool<kernel_shape=[300,301]>(a)",
    ["[1,2,300,301]"],
    "[1,2,1,1]",
    "int16",
    scales=[1 / 32],
    result=1 / 32,
    feeds=long,
)
qdq(
    "global_average_pool_int16_long",
    "r = GlobalAveragePool(a)",
    ["[1,2,300,301]"],
    "[1,2,1,1]",
    "int16",
    scales=[1 / 32],
    result=1 / 16,
    feeds=long,
)
ends = np.array([32767, -32768, 30000, -20000, 5, -7], np.int16)
qdq(
    "mul_int16_large_factor",
    "b = DequantizeLinear(bq, sb) r = Mul(a, b)",
    ["[6]"],
    "[6]",
    "int16",
    {"bq": np.array([30000, 20000, -30000, 100, 10, 1], np.int16), "sb": f(2)},
    scales=[1 / 128],
    result=1 / 128,
    feeds={"aq": ends},
)
for dtype, scale in (("int16", 2**-18), ("int8", 2**-26)):
    qdq(
        f"rescaled_far_{dtype}",
        "t = Add(a, a) u = QuantizeLinear(t, su, zu) r = DequantizeLinear(u, su, zu)",
        ["[6]"],
        "[6]",
        dtype,
        {"su": f(0.25), "zu": TYPES[dtype](0)},
        scales=[0.125],
        result=scale,
        zero=0,
        feeds={"aq": (ends >> (8 if dtype == "int8" else 0)).astype(TYPES[dtype])},
    )
CASES.append(
    Case(
        "qdq/large_floats_to_int16",
        "float[7] x",
        "e = Exp(x) q = QuantizeLinear(e, s, z) a = DequantizeLinear(q, s, z) r = Add(a, a) y = QuantizeLinear(r, t, z)",
        {"s": f(0.001), "t": f(0.002), "z": np.int16(0)},
        outputs="int16[7] y",
        opset=21,
        feeds={"x": f(11.5, 15, 20.7, 69, 90, -1, 0.5)},
        steps=1,
    )
)
# A bias that fills 32 bits leaves no room for the sums.
text, values = weights_of((2, 3, 2, 2), scale=0.1)
qdq(
    "bias_that_fills_32_bits",
    text + "v = DequantizeLinear(vq, sv) r = Conv(a, w, v)",
    ["[1,3,6,7]"],
    "[1,2,5,6]",
    "uint8",
    values | {"vq": np.array([2**31 - 1, -(2**31)], np.int32), "sv": f(0.00371)},
    result=2,
)


# Integers of an input that are moved before a DequantizeLinear says their scale: the input has the scale then.
MOVED = {
    "transpose": ("t = Transpose<perm=[2,0,1]>(x)", "[5,2,3]", {}),
    "reshape": ("t = Reshape(x, k)", "[6,5]", {"k": np.array([6, 5], np.int64)}),
    "slice": ("t = Slice(x, b, e)", "[2,2,4]", {"b": np.array([0, 1, 0]), "e": np.array([2, 3, 4])}),
    "gather": ("t = Gather<axis=1>(x, i)", "[2,4,5]", {"i": np.array([2, 0, 0, 1])}),
    "tile": ("t = Tile(x, n)", "[2,6,5]", {"n": np.array([1, 2, 1])}),
    "pad": ("t = Pad(x, p)", "[2,4,6]", {"p": np.array([0, 0, 1, 0, 1, 0])}),
    "pad_value": ("t = Pad(x, p, v)", "[2,4,6]", {"p": np.array([0, 0, 1, 0, 1, 0]), "v": np.array(7, np.int8)}),
    "concat": ("t = Concat<axis=1>(x, x)", "[2,6,5]", {}),
    "twice": ("u = Transpose<perm=[0,2,1]>(x) t = Reshape(u, k)", "[10,3]", {"k": np.array([10, 3])}),
}
for moved, (text, shape, values) in MOVED.items():
    CASES.append(
        Case(
            f"qdq/moved_before/{moved}",
            "int8[2,3,5] x",
            f"{text} a = DequantizeLinear(t, sa, za) r = Relu(a) y = QuantizeLinear(r, sy, zy)",
            {"sa": f(0.0371), "za": np.array(11, np.int8), "sy": f(0.0513), "zy": np.array(-9, np.int8)} | values,
            outputs=f"int8{shape} y",
            ranges={"x": (-128, 128)},
            opset=21,
            steps=1,
        )
    )
# Two scales for one tensor: neither is the input's.
CASES.append(
    Case(
        "qdq/moved_before/two_scales",
        "int8[2,3,5] x",
        "t = Transpose<perm=[2,0,1]>(x) a = DequantizeLinear(t, sa, za) b = DequantizeLinear(t, sb, za) "
        "r = Add(a, b) y = QuantizeLinear(r, sy, zy)",
        {"sa": f(0.0371), "sb": f(0.02), "za": np.array(11, np.int8), "sy": f(0.0713), "zy": np.array(-9, np.int8)},
        outputs="int8[5,2,3] y",
        ranges={"x": (-128, 128)},
        opset=21,
        steps=1,
    )
)

# Zero points that are no integers of the constant's type: the constant is floats. XNNPACK loaded no file with such one,
# and zeros around it were wrong.
for dtype, zero in (("int8", 200), ("uint8", -20)):
    for around, shape in (("", "[3,5]"), ("_padded", "[3,7]")):
        values = {
            "w": rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, (3, 5)).astype(dtype),
            "z": np.float32(zero),
            "sw": f(0.0137),
        }
        text = "c = Cast<to=1>(w) u = Sub(c, z) w1 = Mul(u, sw) "
        if around:
            text, values = text + "w2 = Pad(w1, p) ", values | {"p": np.array([0, 1, 0, 1])}
        text += f"r = Add(a, {'w2' if around else 'w1'})"
        qdq(f"zero_point_outside_of_{dtype}{around}", text, [shape], shape, weights=values)

# Clip to 0..1, whose own kernel is not right for integers: its limits on the grid of the result, where this one goes on.
for dtype in TYPES:
    for scale, zero in ((0.0371, ZERO[dtype]), (0.0513, 0), (1 / 255, {"int8": -128, "uint8": 0, "int16": 0}[dtype])):
        limits = {"low": f(0), "high": f(1)}
        name = f"clip_to_one_{dtype}_{scale:.4f}"
        text = "r = Clip(a, low, high)"
        qdq(name, text, ["[2,3,4]"], "[2,3,4]", dtype, limits, result=scale, zero=zero)
text, values = weights_of((6, 4, 3, 2))
qdq(
    "conv_and_clip_to_one",
    text + "c = Conv(a, w) r = Clip(c, low, high)",
    ["[1,4,9,8]"],
    "[1,6,7,7]",
    weights=values | {"low": f(0), "high": f(1)},
    result=0.0113,
)

# Weights that are computed from integers by products, or moved: test_integer_weights.py wants all of these in integers. A negative
# factor takes 128 from an integer of -128, which no kernel has: there are none.
FACTORS = f(1, 0.5, -0.7, 2, 0, -1)


def weights_without_the_least(shape, axis=None, **more):
    weights_text, integers = weights_of(shape, axis=axis, **more)
    if integers["wq"].dtype == np.int8:
        integers["wq"] = np.maximum(integers["wq"], -127)
    return weights_text, integers


for dtype in ("int8", "uint8", "int16"):
    for axis in (None, 0):
        by = "tensor" if axis is None else "channel"
        text, values = weights_without_the_least((6, 4, 3, 2), axis)
        norm = {"g": FACTORS, "h": f(0.1, -0.2, 0.3, 0.4, -3, 0), "m": f(1, 0, -1, 2, 1, 0), "u": f(1, 2, 0.5, 1, 1, 3)}
        for name, more, behind in (
            ("normalised", norm, "n = BatchNormalization(c, g, h, m, u) r = Relu(n)"),
            ("times_factors", {"k": FACTORS.reshape(6, 1, 1)}, "r = Mul(c, k)"),
            ("divided", {"k": f(1, 0.5, -0.7, 2, 3, -1).reshape(6, 1, 1)}, "r = Div(c, k)"),
        ):
            body = text + f"c = Conv(a, w) {behind}"
            name = f"weights/{name}_by_{by}_{dtype}"
            qdq(name, body, ["[1,4,9,8]"], "[1,6,7,7]", dtype, values | more, result=0.17)
for weights, zero, axis in (("int8", 0, 0), ("int8", 5, None), ("uint8", 128, 0), ("uint8", 77, None)):
    text, values = weights_of((6, 4, 3, 2), TYPES[weights], axis=axis, zero=zero)
    values["wq"] = np.maximum(values["wq"], np.iinfo(TYPES[weights]).min + 1)
    second = {"vq": values["wq"][:2, :, ::-1].copy(), "sv": f(0.0032), "zv": np.array(zero, TYPES[weights])}
    for name, more, body, channels in (
        ("negated_first", {}, "n = Neg(w) r = Conv(a, n)", 6),
        ("gathered", {"i": np.array([5, 0, 0, 2])}, "n = Gather<axis=0>(w, i) r = Conv(a, n)", 4),
        ("joined_same", {}, "n = Concat<axis=2>(w, w) p = Pad(a, q) r = Conv(p, n)", 6),
        ("joined", second, "v = DequantizeLinear(vq, sv, zv) n = Concat<axis=0>(w, v) r = Conv(a, n)", 8),
    ):
        if name == "joined" and zero not in (0, 128):  # two scales are two for each channel, with a zero point each
            continue
        if name == "joined_same":
            more = {"q": np.array([0, 0, 3, 0, 0, 0, 0, 0])}
        name = f"weights/{name}_{weights}_zero_{zero}"
        qdq(name, text + body, ["[1,4,9,8]"], f"[1,{channels},7,7]", "uint8", values | more, result=0.17)
    # More than four groups are one.
    text, values = weights_of((6, 2, 3, 2), TYPES[weights], axis=None if axis is None else 1, zero=zero)
    body = text + "r = ConvTranspose<strides=[2,1], group=6>(a, w)"
    name = f"weights/groups_transposed_{weights}_zero_{zero}"
    qdq(name, body, ["[1,6,5,6]"], "[1,12,11,7]", "int8", values, result=0.05)
# The scale of zeros is free: at that of the model, their bias would be rounded by many steps of the result.
text = "w = DequantizeLinear<axis=0>(wq, sw, zw) "
for dtype in TYPES:
    bias = {"v": f(0.1, -0.2, 0.0185, 0.04, 0.05, 0)}
    some = {"wq": (np.arange(144) * 37 % 255 - 127).astype(np.int8).reshape(6, 4, 3, 2), "zw": np.zeros(6, np.int8)}
    some["wq"][2] = 0
    some["sw"] = f(0.0071, 0.0092, 3, 0.0013, 0, 0.0021)
    whole = {"wq": some["wq"], "zw": np.int8(0)}
    norm = {"g": np.zeros(6, np.float32), "m": f(1, 0, -1, 2, 1, 0), "u": f(1, 2, 0.5, 1, 1, 3)}
    for name, zeros, behind in (
        ("zeros_in_channels", some, "r = Conv(a, w, v)"),
        ("zeros", whole | {"sw": f(0)}, "r = Conv(a, w, v)"),
        ("times_0", whole | {"sw": f(0.3)} | norm, "c = Conv(a, w) r = BatchNormalization(c, g, v, m, u)"),
    ):
        qdq(f"weights/{name}_{dtype}", text + behind, ["[1,4,9,8]"], "[1,6,7,7]", dtype, zeros | bias, result=0.002)
text, values = weights_without_the_least((6, 4, 3, 2), 0)
values["sw"] = values["sw"] * f(1, -1, 1, -1, -1, 1)
qdq("weights/negative_scales", text + "r = Conv(a, w)", ["[1,4,9,8]"], "[1,6,7,7]", "int8", values, result=0.17)

# Ops that are products, and constants of fewer bits than the data: test_integer_weights.py wants these in integers too.
for dtype in TYPES:
    for name, body, values in (
        ("negated", "r = Neg(a)", {}),
        ("divided", "r = Div(a, k)", {"k": f(6)}),
        ("divided_by_less_than_0", "r = Div(a, k)", {"k": f([-0.7])}),
        ("times_number", "r = Mul(a, k)", {"k": f(0.4)}),
        ("plus_number", "r = Add(a, k)", {"k": f(0.5)}),
        ("number_minus", "r = Sub(k, a)", {"k": f(1)}),
        ("plus_int8", "k = DequantizeLinear(v, u) r = Add(a, k)", {"v": np.int8([-128, 3, 127, 9]), "u": f(0.01)}),
    ):
        qdq(f"products/{name}_{dtype}", body, ["[2,3,4]"], "[2,3,4]", dtype, values)
    # The result has the shape of the divisor.
    repeating = {"k": np.full((3, 1), -1.5, np.float32)}
    qdq(f"products/divided_and_repeated_{dtype}", "r = Div(a, k)", ["[2,1,4]"], "[2,3,4]", dtype, repeating)
    # More than 256 steps of the result.
    for name, body, far in (
        ("plus", "r = Add(a, k)", -21),
        ("from", "r = Sub(k, a)", 17),
        ("minus", "r = Sub(a, k)", 14),
    ):
        scales = [0.0371 if dtype == "int16" else 1.3]
        qdq(f"products/{name}_far_number_{dtype}", body, ["[7,3,4]"], "[7,3,4]", dtype, {"k": f(far)}, scales)
    if dtype != "int16":
        words = {"v": np.array([-8, 3, 7, 0], ml_dtypes.int4), "u": f(0.1)}
        body = "k = DequantizeLinear(v, u) r = Mul(a, k)"
        qdq(f"products/times_int4_{dtype}", body, ["[2,3,4]"], "[2,3,4]", dtype, words)

# A step of the sums is 13 steps of the result.
one_each = np.eye(4, dtype=np.int8)[[0, 1, 2, 3, 1, 0]].reshape(6, 4, 1, 1) * np.array([1, -1], np.int8).repeat(
    3
).reshape(6, 1, 1, 1)
coarse = {"wq": one_each, "sw": f(1), "zw": np.int8(0), "v": f(0.01, -0.012, 0.3, 0.04, 0, -0.1)}
qdq(
    "coarse_bias_stays_float",
    "w = DequantizeLinear(wq, sw, zw) r = Conv(a, w, v)",
    ["[1,4,9,8]"],
    "[1,6,9,8]",
    weights=coarse,
    result=0.0029,
)

# No kernel computes: conversions of floats are exact.
CASES.append(
    Case(
        "qdq/chosen_only",
        "float[1,4,6,5] x",
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) p = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1]>(d) "
        "e = Concat<axis=1>(p, d) t = QuantizeLinear(e, s, z) y = DequantizeLinear(t, s, z)",
        {"s": f(0.03), "z": np.uint8(2)},
        outputs="float[1,8,6,5] y",
        ranges={"x": (-3, 9)},
    )
)
