# SPDX-License-Identifier: Apache-2.0
"""Cases of the quantized kernels that are not products: operands and results with scales, in int8, uint8 and int16.

A quantized result is right if it is within one unit of the float result, rounded; int16 kernels that look a function
up in a table get 16 units of 65536.
"""

import numpy as np

from .case import NotDefined, case, data, grid, numbers, shape_of, variant
from .elementwise import FUSED, gelu, sigmoid
from .one_op import Tensor
from .reductions import softmax

TYPES = {"I8": (-128, 127), "U8": (0, 255), "I16": (-32768, 32767)}
SHAPE = (3, 2, 5, 4)


def real(t):
    """The numbers that a quantized tensor stands for."""
    shape = [1] * t.value.ndim
    if np.ndim(t.scale):
        shape[t.axis] = -1
    return (t.value.astype(np.float64) - np.reshape(t.zero_point, shape if np.ndim(t.zero_point) else ())) * np.reshape(
        np.float32(t.scale), shape if np.ndim(t.scale) else ()
    ).astype(np.float64)


def quantized(dtype, values, scale=None, zero=None, steps=1, symmetric=False, headroom=1.0):
    """Floats to stored numbers; scale and zero point from the range unless given. Headroom keeps scales from being equal by chance."""
    low, high = TYPES[dtype]
    if scale is None:
        values_given, values = values, np.append(values, [values.min() * headroom, values.max() * headroom])
        top = float(np.abs(values).max()) or 1.0
        if dtype == "I16" or symmetric:
            scale, zero = np.float32(top / high), 0
        else:
            a, b = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
            scale = np.float32((b - a) / (high - low))
            zero = int(np.clip(round(low - a / scale), low, high))
        values = values_given
    return Tensor(
        np.clip(np.round(values / np.float64(scale)) + zero, low, high),
        dtype,
        scale=scale,
        zero_point=zero,
        steps=steps,
    )


def operand(dtype, shape=SHAPE, lo=-4.0, hi=4.0, seed="", **how):
    return quantized(dtype, numbers("F32", tuple(shape), lo=lo, hi=hi, seed=seed).astype(np.float64), **how)


def quantized_case(op, form, make):
    for dtype in TYPES:
        case(op, "quantized", (form, dtype), lambda d=dtype: make(d))


FIXED = {
    "LOGISTIC": {"I8": (1 / 256, -128), "U8": (1 / 256, 0), "I16": (1 / 32768, 0)},
    "TANH": {"I8": (1 / 128, 0), "U8": (1 / 128, 128), "I16": (1 / 32768, 0)},
    "SOFTMAX": {"I8": (1 / 256, -128), "U8": (1 / 256, 0), "I16": (1 / 32768, 0)},
    "LOG_SOFTMAX": {"I8": (16 / 256, 127), "U8": (16 / 256, 255)},
    "L2_NORMALIZATION": {"I8": (1 / 128, 0), "U8": (1 / 128, 128), "I16": (1 / 32768, 0)},
}


def fixed_scale(op, dtype):
    """Kernels that write into one scale only, whatever the result's range."""
    scale = FIXED.get(op, {}).get(dtype)
    return dict(zip(("scale", "zero"), scale)) if scale else {}


def unary(op, function, options=None, lo=-4.0, hi=4.0, steps=1):
    def make(dtype, headroom):
        x = operand(dtype, lo=lo, hi=hi)
        result = dict(steps=16 if dtype == "I16" else steps, headroom=headroom) | fixed_scale(op, dtype)
        return [x], [quantized(dtype, function(real(x)), **result)], options

    quantized_case(op, "scales differ", lambda d: make(d, 1.3))
    if op not in FIXED:
        quantized_case(op, "result fills its range", lambda d: make(d, 1.0))


unary("ABS", np.abs, ("AbsOptions", {}))
unary("NEG", np.negative, ("NegOptions", {}))
unary("SQUARE", np.square, ("SquareOptions", {}))
unary("EXP", np.exp, ("ExpOptions", {}), hi=2)
unary("LOG", np.log, lo=0.5)
unary("SQRT", np.sqrt, lo=0.5)
unary("RSQRT", lambda x: 1 / np.sqrt(x), lo=0.5)
unary("SIN", np.sin)
unary("FLOOR", np.floor)
unary("LOGISTIC", sigmoid)
unary("TANH", np.tanh)
unary("RELU", lambda x: np.maximum(x, 0))
unary("RELU6", lambda x: np.clip(x, 0, 6), lo=-9, hi=9)
unary("RELU_N1_TO_1", lambda x: np.clip(x, -1, 1))
unary("RELU_0_TO_1", lambda x: np.clip(x, 0, 1))
unary("ELU", lambda x: np.where(x > 0, x, np.expm1(x)))
unary("HARD_SWISH", lambda x: x * np.clip(x + 3, 0, 6) / 6, ("HardSwishOptions", {}), steps=2)
unary("GELU", gelu, ("GeluOptions", {}))
unary("LEAKY_RELU", lambda x: np.where(x > 0, x, x * 0.25), ("LeakyReluOptions", {"alpha": 0.25}))
unary("SOFTMAX", softmax, ("SoftmaxOptions", {"beta": 1.0}))
unary("LOG_SOFTMAX", lambda x: np.log(softmax(x)), ("LogSoftmaxOptions", {}))
unary("L2_NORMALIZATION", lambda x: x / np.sqrt((x * x).sum(-1, keepdims=True)), ("L2NormOptions", {}))
quantized_case(
    "QUANTIZE",
    "from one scale to another",
    lambda d: (
        lambda x: ([x], [quantized(d, real(x), scale=0.1, zero=0 if d == "I16" else 7)], ("QuantizeOptions", {}))
    )(operand(d)),
)
for source, target in (("U8", "I8"), ("I8", "U8"), ("I8", "I16"), ("I16", "I8")):
    variant(
        "QUANTIZE",
        f"{source} to {target}, scales differ",
        lambda s=source, t=target: (lambda x: ([x], [quantized(t, real(x))], ("QuantizeOptions", {})))(operand(s)),
    )
for target in TYPES:
    variant(
        "DEQUANTIZE",
        f"{target} constant by channel",
        lambda t=target: (lambda w: ([w], [Tensor(real(w), "F32")], ("DequantizeOptions", {})))(
            Tensor(numbers(t, SHAPE, "big"), t, True, scale=np.float32([0.5, 0.25, 2]), zero_point=np.zeros(3), axis=0)
        ),
    )


def binary(
    op,
    function,
    kind,
    shape_b=SHAPE,
    form="",
    positive=False,
    activation=0,
    clamp=lambda x: x,
    same_scale=False,
    out=None,
):
    def make(dtype):
        a = operand(dtype, seed="a")
        b = operand(
            dtype,
            shape_b,
            lo=0.5 if positive else -3.0,
            hi=3.0,
            seed="b",
            **(dict(scale=a.scale, zero=a.zero_point) if same_scale else {}),
        )
        y = clamp(function(real(a), real(b)))
        if out:
            return [a, b], [Tensor(y, out)], (kind, {})
        how = dict(scale=a.scale, zero=a.zero_point) if same_scale else {}
        fields = {"fusedActivationFunction": activation} if activation else {}
        if op in ("ADD", "SUB") and dtype == "I16":
            fields["potScaleInt16"] = False
        return [a, b], [quantized(dtype, y, **how)], (kind, fields)

    quantized_case(op, form or "scales differ", make)


for op, f, kind in (
    ("ADD", np.add, "AddOptions"),
    ("SUB", np.subtract, "SubOptions"),
    ("MUL", np.multiply, "MulOptions"),
    ("DIV", np.divide, "DivOptions"),
):
    binary(op, f, kind, positive=op == "DIV")
    binary(op, f, kind, (2, 1, 4), "broadcast", positive=op == "DIV")
    for name in ("RELU", "RELU6", "RELU_N1_TO_1"):
        code, clamp = FUSED[name]
        binary(op, f, kind, form=f"fused {name}", positive=op == "DIV", activation=code, clamp=clamp)
binary("SQUARED_DIFFERENCE", lambda a, b: (a - b) ** 2, "SquaredDifferenceOptions")
for op, f in (("MAXIMUM", np.maximum), ("MINIMUM", np.minimum)):
    binary(op, f, "MaximumMinimumOptions", form="one scale", same_scale=True)
    binary(op, f, "MaximumMinimumOptions")
for op, f, kind in (
    ("EQUAL", np.equal, "Equal"),
    ("LESS", np.less, "Less"),
    ("GREATER_EQUAL", np.greater_equal, "GreaterEqual"),
):
    binary(op, f, kind + "Options", form="one scale", same_scale=True, out="BOOL")


def prelu(dtype):
    x, slope = operand(dtype), operand(dtype, (4,), lo=0.1, hi=0.5, seed="s")
    slope.fixed = True
    return [x, slope], [quantized(dtype, np.where(real(x) >= 0, real(x), real(x) * real(slope)))], None


quantized_case("PRELU", "scales differ", prelu)


# ---- Reductions ------------------------------------------------------------------------------------------
for op, f in (
    ("SUM", np.sum),
    ("MEAN", np.mean),
    ("REDUCE_MAX", np.max),
    ("REDUCE_MIN", np.min),
    ("REDUCE_PROD", np.prod),
):

    def reduced(dtype, f=f, op=op, same=False):
        x = operand(dtype, lo=0.5 if op == "REDUCE_PROD" else -4.0, hi=1.5 if op == "REDUCE_PROD" else 4.0)
        how = dict(scale=x.scale, zero=x.zero_point) if same else {}
        return (
            [x, Tensor([1, 2], "I32", True)],
            [quantized(dtype, f(real(x), (1, 2)), steps=4 if dtype == "I16" else 1, headroom=1.3, **how)],
            ("ReducerOptions", {}),
        )

    quantized_case(op, "scales differ", reduced)
    quantized_case(op, "one scale", lambda d, r=reduced: r(d, same=True))
quantized_case(
    "ARG_MAX",
    "any scale",
    lambda d: (
        lambda x: (
            [x, Tensor(3, "I32", True)],
            [Tensor(np.argmax(x.value, 3), "I32")],
            ("ArgMaxOptions", {"outputType": 2}),
        )
    )(operand(d)),
)


# ---- Movement: one scale on both sides ------------------------------------------------------------------------------------------


def moved(op, form, function, operands=(), options=None):
    def make(dtype):
        x = operand(dtype)
        y = function(real(x))
        how = dict(scale=x.scale, zero=x.zero_point)
        return [x] + [Tensor(v, "I32", True) for v in operands], [quantized(dtype, y, **how)], options

    quantized_case(op, form, make)


moved("RESHAPE", "one scale", lambda x: x.reshape(6, 20), [[6, 20]], None)
moved("TRANSPOSE", "one scale", lambda x: x.transpose(0, 2, 3, 1), [[0, 2, 3, 1]], ("TransposeOptions", {}))
moved(
    "STRIDED_SLICE",
    "one scale",
    lambda x: x[:, :, 1:4],
    [[0, 0, 1, 0], [3, 2, 4, 4], [1, 1, 1, 1]],
    ("StridedSliceOptions", {}),
)
moved("SLICE", "one scale", lambda x: x[:, :, 1:4], [[0, 0, 1, 0], [3, 2, 3, 4]], ("SliceOptions", {}))
moved(
    "PAD",
    "one scale",
    lambda x: np.pad(x, ((0, 0), (1, 2), (2, 0), (0, 0))),
    [[[0, 0], [1, 2], [2, 0], [0, 0]]],
    ("PadOptions", {}),
)
moved("GATHER", "one scale", lambda x: x[:, :, [3, 0]], [[3, 0]], ("GatherOptions", {"axis": 2}))
moved("TILE", "one scale", lambda x: np.tile(x, (1, 2, 1, 3)), [[1, 2, 1, 3]], ("TileOptions", {}))
moved(
    "MIRROR_PAD",
    "one scale",
    lambda x: np.pad(x, ((0, 0), (1, 0), (2, 1), (0, 0)), mode="reflect"),
    [[[0, 0], [1, 0], [2, 1], [0, 0]]],
    ("MirrorPadOptions", {"mode": 0}),
)
moved(
    "DEPTH_TO_SPACE",
    "one scale",
    lambda x: x.reshape(3, 2, 5, 2, 2, 1).transpose(0, 1, 3, 2, 4, 5).reshape(3, 4, 10, 1),
    [],
    ("DepthToSpaceOptions", {"blockSize": 2}),
)
moved(
    "RESIZE_NEAREST_NEIGHBOR",
    "one scale",
    lambda x: x.repeat(2, 1).repeat(2, 2),
    [[4, 10]],
    ("ResizeNearestNeighborOptions", {}),
)


def resize_bilinear(dtype):
    """To sizes that are no multiples: kernels of integers keep 10 bits of a position, which is much too little for 16 bits of data."""
    x = operand(dtype)
    rows = real(x)
    for axis, size in ((1, 3), (2, 7)):
        extent = rows.shape[axis]
        at = np.arange(size) * extent / size
        low = at.astype(int)
        part = (at - low).reshape([-1 if i == axis else 1 for i in range(4)])
        rows = rows.take(low, axis) * (1 - part) + rows.take(np.minimum(low + 1, extent - 1), axis) * part
    return (
        [x, Tensor([3, 7], "I32", True)],
        [quantized(dtype, rows, scale=x.scale, zero=x.zero_point)],
        ("ResizeBilinearOptions", {}),
    )


quantized_case("RESIZE_BILINEAR", "one scale", resize_bilinear)


def concatenation(dtype, same):
    a = operand(dtype, seed="a")
    b = operand(dtype, lo=-2, hi=6, seed="b", **(dict(scale=a.scale, zero=a.zero_point) if same else {}))
    y = np.concatenate([real(a), real(b)], 3)
    return (
        [a, b],
        [quantized(dtype, y, **(dict(scale=a.scale, zero=a.zero_point) if same else {}))],
        ("ConcatenationOptions", {"axis": 3}),
    )


quantized_case("CONCATENATION", "one scale", lambda d: concatenation(d, True))
quantized_case("CONCATENATION", "scales differ", lambda d: concatenation(d, False))


# ---- QUANTIZE and DEQUANTIZE ------------------------------------------------------------------------------------------


def integer_range(dtype, rank):
    if dtype not in ("I4", "I8", "U8", "I16"):
        raise NotDefined
    bits = {"I4": 4, "I16": 16}.get(dtype, 8)
    low, high = (0, 255) if dtype == "U8" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    zero = {"I8": 3, "U8": 101}.get(dtype, 0)
    return low, high, 0.25, zero


def quantize(dtype, rank):
    low, high, scale, zero = integer_range(dtype, rank)
    x = data("F32", shape_of(rank), lo=-9, hi=9)
    q = np.clip(np.round(x.value / np.float32(scale)) + zero, low, high)
    return [x], [Tensor(q, dtype, scale=scale, zero_point=zero)], ("QuantizeOptions", {})


def dequantize(dtype, rank):
    low, high, scale, zero = integer_range(dtype, rank)
    q = numbers(dtype, shape_of(rank), "big")
    operand = Tensor(q, dtype, fixed=dtype == "I4", scale=scale, zero_point=zero)
    return [operand], [Tensor((q.astype(np.float64) - zero) * scale, "F32")], ("DequantizeOptions", {})


grid("QUANTIZE", quantize)
grid("DEQUANTIZE", dequantize)
variant(
    "DEQUANTIZE",
    "F16 constant to F32",
    lambda: (lambda x: ([x], [Tensor(x.value, "F32")], ("DequantizeOptions", {})))(data("F16", (3, 5), fixed=True)),
)
variant(
    "DEQUANTIZE",
    "F16 to F32 at run time",
    lambda: (lambda x: ([x], [Tensor(x.value, "F32")], ("DequantizeOptions", {})))(data("F16", (3, 5))),
)
variant(
    "FAKE_QUANT",
    "8 bits, -6 to 6",
    lambda: (
        lambda x: (
            [x],
            [
                Tensor(
                    np.clip(np.round((x.value + 6.0235295) / (12 / 255)), 0, 255) * (12 / 255) - 6.0235295,
                    "F32",
                    tolerance=0.03,
                )
            ],
            ("FakeQuantOptions", {"min": -6.0, "max": 6.0, "numBits": 8}),
        )
    )(data("F32", (3, 5), lo=-5, hi=5)),
)
