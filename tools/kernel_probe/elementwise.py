# SPDX-License-Identifier: Apache-2.0
"""Cases of the operators that work element by element, with two-way broadcasting where they take two operands."""

import math

import numpy as np

from .case import ALL, RANKS, NotDefined, case, data, grid, shape_of, signed, variant
from .one_op import FLOATS, Tensor

ERF = np.vectorize(math.erf, otypes=[np.float64])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gelu(x):
    return x * 0.5 * (1 + ERF(x / math.sqrt(2)))


def gelu_tanh(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def result(x, dtype):
    with np.errstate(all="ignore"):
        return Tensor(x, dtype)


# Over integers these would need a scale: that is the quantized kernels' business.
OF_REALS = ("EXP", "LOG", "SQRT", "RSQRT", "SIN", "COS", "LOGISTIC", "TANH", "ELU", "HARD_SWISH", "GELU", "LEAKY_RELU")


def unary(op, function, options=None, lo=-4.0, hi=4.0, span="small"):
    def make(dtype, rank):
        x = data(dtype, shape_of(rank), span, lo, hi)
        if not signed(dtype) and dtype != "BOOL" and lo > 0:
            x.value = x.value + x.value.dtype.type(1)
        elif dtype not in FLOATS and dtype != "BOOL" and lo > 0:
            x.value = np.abs(x.value) + x.value.dtype.type(1)
        if dtype == "BOOL" and op not in ("LOGICAL_NOT", "ZEROS_LIKE") or dtype not in FLOATS and op in OF_REALS:
            raise NotDefined
        with np.errstate(all="ignore"):
            return [x], [result(function(x.value), dtype)], options

    grid(op, make)
    main = "BOOL" if op == "LOGICAL_NOT" else "F32"
    variant(op, "no elements [0,3]", lambda: ([data(main, (0, 3))], [data(main, (0, 3))], options))


unary("ABS", np.abs, ("AbsOptions", {}), span="big")
unary("NEG", np.negative, ("NegOptions", {}), span="big")
unary("SIGN", np.sign, ("SignOptions", {}))
unary("EXP", np.exp, ("ExpOptions", {}))
unary("LOG", np.log, lo=0.1)
unary("SQRT", np.sqrt, lo=0.1)
unary("RSQRT", lambda x: 1 / np.sqrt(x), lo=0.1)
unary("SIN", np.sin)
unary("COS", np.cos, ("CosOptions", {}))
unary("SQUARE", np.square, ("SquareOptions", {}), span="mid")
unary("FLOOR", np.floor)
unary("CEIL", np.ceil)
unary("ROUND", np.round)
unary("LOGISTIC", sigmoid)
unary("TANH", np.tanh)
unary("RELU", lambda x: np.maximum(x, 0))
unary("RELU6", lambda x: np.clip(x, 0, 6), lo=-9, hi=9)
unary("RELU_N1_TO_1", lambda x: np.clip(x, -1, 1) if x.dtype.kind in "fi" else np.minimum(x, 1))
unary("RELU_0_TO_1", lambda x: np.clip(x, 0, 1))
unary("ELU", lambda x: np.where(x > 0, x, np.expm1(x)))
unary("HARD_SWISH", lambda x: x * np.clip(x + 3, 0, 6) / 6, ("HardSwishOptions", {}))
unary("GELU", gelu, ("GeluOptions", {"approximate": False}))
unary("LEAKY_RELU", lambda x: np.where(x > 0, x, x * 0.25), ("LeakyReluOptions", {"alpha": 0.25}))
unary("LOGICAL_NOT", np.logical_not, ("LogicalNotOptions", {}))
unary("ZEROS_LIKE", np.zeros_like, ("ZerosLikeOptions", {}))

for name, f, kind in (("alpha 2.5 (above 1)", 2.5, "LEAKY_RELU"), ("alpha -0.5 (negative)", -0.5, "LEAKY_RELU")):
    variant(
        kind,
        name,
        lambda a=f: (
            lambda x: (
                [x],
                [Tensor(np.where(x.value > 0, x.value, x.value * a), "F32")],
                ("LeakyReluOptions", {"alpha": a}),
            )
        )(data("F32", (3, 5))),
    )
variant(
    "GELU",
    "approximate (tanh)",
    lambda: (lambda x: ([x], [Tensor(gelu_tanh(x.value), "F32")], ("GeluOptions", {"approximate": True})))(
        data("F32", (3, 5))
    ),
)
variant(
    "ROUND",
    "halves go to the even neighbour",
    lambda: (
        [Tensor([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5], "F32")],
        [Tensor([-2, -2, -0.0, 0, 2, 2, 4], "F32")],
        None,
    ),
)

# ---- Two operands -----------------------------------------------------------------------------------------------


def pattern_shapes(rank, pattern):
    full = shape_of(rank)
    return {
        "two-way": (
            tuple(n if i % 2 else 1 for i, n in enumerate(full)),
            tuple(1 if i % 2 else n for i, n in enumerate(full)),
        ),
        "scalar right": (full, ()),
        "scalar left": ((), full),
        "last axis": (full, full[-1:]),
        "axis 1": (full, tuple(n if i == 1 else 1 for i, n in enumerate(full))),
        "one element": (full, (1,)),
    }[pattern]


PATTERNS = ("two-way", "scalar right", "scalar left", "last axis", "axis 1", "one element")
FUSED = {
    "RELU": (1, lambda x: np.maximum(x, 0)),
    "RELU_N1_TO_1": (2, lambda x: np.clip(x, -1, 1)),
    "RELU6": (3, lambda x: np.clip(x, 0, 6)),
    "TANH": (4, np.tanh),
}


def operands(op, dtype, shape_a, shape_b, span, positive):
    a, b = data(dtype, shape_a, span, seed="a"), data(dtype, shape_b, span, seed="b")
    if positive:  # a divisor or an exponent
        if dtype in FLOATS:
            b.value = np.abs(b.value) + b.value.dtype.type(0.5)
            if op == "POW":
                a.value = np.abs(a.value) + a.value.dtype.type(0.5)
        else:
            small = data(dtype, shape_b, "small", seed="b").value
            b.value = (
                small % 3
                if op in ("POW", "RIGHT_SHIFT", "STABLEHLO_SHIFT_LEFT")
                else np.abs(small) + small.dtype.type(1)
            )
            if op == "POW":
                a.value = a.value % a.value.dtype.type(5 if dtype != "I4" else 2)
    if op in ("SUB", "SQUARED_DIFFERENCE") and not signed(dtype):
        top = b.value.max() if b.value.size else 0
        a.value = (
            a.value + np.asarray(top, a.value.dtype)
            if span != "big"
            else a.value // 2 + np.asarray(np.iinfo(a.value.dtype).max // 2, a.value.dtype)
        )
        b.value = b.value if span != "big" else b.value // 2
    return a, b


def binary(
    op, function, options=None, out=None, span="small", positive=False, dtypes=ALL, patterns=PATTERNS, bools=False
):
    def make(dtype, shape_a, shape_b):
        if dtype == "BOOL" and not bools:
            raise NotDefined
        a, b = operands(op, dtype, shape_a, shape_b, span, positive)
        with np.errstate(all="ignore"):
            return [a, b], [result(function(a.value, b.value), out or dtype)], options

    grid(op, lambda dtype, rank: make(dtype, shape_of(rank), shape_of(rank)), dtypes)
    for dtype in dtypes:
        for rank in RANKS[1:]:
            for pattern in patterns:
                case(
                    op,
                    "broadcast",
                    (dtype, rank, pattern),
                    lambda d=dtype, r=rank, p=pattern: make(d, *pattern_shapes(r, p)),
                )
    main = "F32" if "F32" in dtypes else "I32" if "I32" in dtypes else "BOOL"
    variant(op, "no elements [0,3] with [0,3]", lambda: make(main, (0, 3), (0, 3)))
    if patterns:
        variant(op, "no elements [0,3] with [3]", lambda: make(main, (0, 3), (3,)))
        variant(op, "no elements [0,3] with [1,1]", lambda: make(main, (0, 3), (1, 1)))
    return make


def fusable(op, function, kind):
    make = binary(op, function, (kind, {}), span="mid" if op == "MUL" else "big", positive=op == "DIV")
    for activation, (code, clamp) in FUSED.items():
        for dtype in ("F32", "I32", "I64", "I16"):
            if activation == "TANH" and dtype != "F32":
                continue

            def fused(d=dtype, c=code, f=clamp):
                (a, b), (y,), _ = make(d, (3, 2, 5, 4), (3, 2, 5, 4))
                if d != "F32":
                    a.value, b.value = a.value % 11 - a.value.dtype.type(5), b.value % 3 + b.value.dtype.type(1)
                with np.errstate(all="ignore"):
                    y = function(a.value, b.value)
                return [a, b], [Tensor(f(y), d)], (kind, {"fusedActivationFunction": c})

            variant(op, f"fused {activation}, {dtype}", fused)


def truncated_division(a, b):
    if a.dtype.kind == "f":
        return a / b
    return np.where((a < 0) != (b < 0), -(abs(a) // abs(b)), abs(a) // abs(b)) if a.dtype.kind == "i" else a // b


fusable("ADD", np.add, "AddOptions")
fusable("SUB", np.subtract, "SubOptions")
fusable("MUL", np.multiply, "MulOptions")
fusable("DIV", truncated_division, "DivOptions")
binary("MAXIMUM", np.maximum, ("MaximumMinimumOptions", {}), span="big")
binary("MINIMUM", np.minimum, ("MaximumMinimumOptions", {}), span="big")
binary("POW", np.power, ("PowOptions", {}), positive=True)
binary("FLOOR_DIV", np.floor_divide, ("FloorDivOptions", {}), span="big", positive=True)
binary("FLOOR_MOD", np.mod, ("FloorModOptions", {}), span="big", positive=True)
binary("SQUARED_DIFFERENCE", lambda a, b: np.square(a - b), ("SquaredDifferenceOptions", {}))
binary("ATAN2", np.arctan2, ("ATan2Options", {}))
for name, kind, f in (
    ("EQUAL", "Equal", np.equal),
    ("NOT_EQUAL", "NotEqual", np.not_equal),
    ("LESS", "Less", np.less),
    ("LESS_EQUAL", "LessEqual", np.less_equal),
    ("GREATER", "Greater", np.greater),
    ("GREATER_EQUAL", "GreaterEqual", np.greater_equal),
):
    binary(
        name,
        f,
        (kind + "Options", {}),
        out="BOOL",
        bools="EQUAL" in name and "_EQUAL" not in name or name == "NOT_EQUAL",
    )
    for d in ("I32", "I64", "I16"):  # neighbours that only a narrower type cannot tell apart

        def near(f=f, d=d, kind=kind):
            top = np.iinfo(Tensor([0], d).value.dtype).max
            a, b = Tensor([top - 1, top, top - 2, 5], d), Tensor([top, top - 1, top - 2, 4], d)
            return [a, b], [Tensor(f(a.value, b.value), "BOOL")], (kind + "Options", {})

        variant(name, f"neighbours at the top of {d}", near)
binary("LOGICAL_AND", np.logical_and, ("LogicalAndOptions", {}), dtypes=("BOOL",), bools=True)
binary("LOGICAL_OR", np.logical_or, ("LogicalOrOptions", {}), dtypes=("BOOL",), bools=True)
INTEGERS = tuple(d for d in ALL if d not in FLOATS and d != "BOOL")
binary("BITWISE_XOR", np.bitwise_xor, ("BitwiseXorOptions", {}), span="big", dtypes=INTEGERS + ("BOOL",), bools=True)
binary("RIGHT_SHIFT", np.right_shift, ("RightShiftOptions", {}), span="big", positive=True, dtypes=INTEGERS)
# StableHLO's operators take operands of one shape.
binary("STABLEHLO_ADD", np.add, span="big", patterns=())
binary("STABLEHLO_MULTIPLY", np.multiply, span="mid", patterns=())
binary("STABLEHLO_MAXIMUM", np.maximum, span="big", patterns=())
binary("STABLEHLO_MINIMUM", np.minimum, span="big", patterns=())
binary("STABLEHLO_AND", np.bitwise_and, span="big", patterns=(), dtypes=INTEGERS + ("BOOL",), bools=True)
binary(
    "STABLEHLO_SHIFT_LEFT",
    np.left_shift,
    ("StablehloShiftLeftOptions", {}),
    positive=True,
    patterns=(),
    dtypes=INTEGERS,
)

for name, f, kind in (
    ("FLOOR_MOD", np.mod, "FloorMod"),
    ("FLOOR_DIV", np.floor_divide, "FloorDiv"),
    ("DIV", truncated_division, "Div"),
):
    for d in ("F32", "I32", "I16", "I8", "I64"):

        def signs(f=f, d=d, kind=kind):
            a, b = Tensor([7, -7, 7, -7, 6, -6], d), Tensor([3, 3, -3, -3, 3, 3], d)
            return [a, b], [Tensor(f(a.value, b.value), d)], (kind + "Options", {})

        variant(name, f"operands of both signs, {d}", signs)
variant(
    "FLOOR_DIV",
    "F32 1.0 by 0.1 is 9, as in Python: the exact quotient is rounded down, not the rounded quotient",
    lambda: (
        [Tensor([0.6, 1.0], "F32"), Tensor([0.2, 0.1], "F32")],
        [Tensor(np.floor_divide(np.float32([0.6, 1.0]), np.float32([0.2, 0.1])), "F32")],
        ("FloorDivOptions", {}),
    ),
)
for d in ("I32", "F32"):
    variant(
        "POW",
        f"{d} negative base, exponents 0 to 3",
        lambda d=d: (
            [Tensor([-3, -3, -2, -2], d), Tensor([0, 1, 2, 3], d)],
            [Tensor([1, -3, 4, -8], d)],
            ("PowOptions", {}),
        ),
    )
variant(
    "POW",
    "I32 negative exponent",
    lambda: ([Tensor([2, 1, -1], "I32"), Tensor([-1, -2, -3], "I32")], [Tensor([0, 1, -1], "I32")], ("PowOptions", {})),
)

# ---- Three operands and more -----------------------------------------------------------------------------------


def select(op, kind, dtype, shapes):
    c = data("BOOL", shapes[0])
    a, b = data(dtype, shapes[1], "big", seed="a"), data(dtype, shapes[2], "big", seed="b")
    return [c, a, b], [Tensor(np.where(c.value, a.value, b.value), dtype)], (kind, {})


for name, kind in (("SELECT", "SelectOptions"), ("SELECT_V2", "SelectV2Options")):
    grid(name, lambda d, r, n=name, k=kind: select(n, k, d, [shape_of(r)] * 3))
    for rank in RANKS[1:]:
        full = shape_of(rank)
        even, odd = pattern_shapes(rank, "two-way")
        third = tuple(n if i == rank - 1 else 1 for i, n in enumerate(full))
        for text, shapes in (
            ("two-way", [even, odd, full]),
            ("three-way", [even, odd, third]),
            ("scalar right", [full, (), full]),
            ("scalar left", [(), full, full]),
            ("last axis", [full, full[-1:], full]),
            ("both scalars", [full, (), ()]),
        ):
            for d in ALL:
                case(name, "broadcast", (d, rank, text), lambda s=shapes, n=name, k=kind, d=d: select(n, k, d, s))
variant(
    "SELECT",
    "condition [3] with operands [3,2,5] (chooses along axis 0)",
    lambda: (
        lambda c, a, b: (
            [c, a, b],
            [Tensor(np.where(c.value[:, None, None], a.value, b.value), "F32")],
            ("SelectOptions", {}),
        )
    )(data("BOOL", (3,)), data("F32", (3, 2, 5), seed="a"), data("F32", (3, 2, 5), seed="b")),
)


def add_n(dtype, rank):
    if dtype == "BOOL":
        raise NotDefined
    xs = [data(dtype, shape_of(rank), "small", seed=s) for s in "abc"]
    return xs, [Tensor(xs[0].value + xs[1].value + xs[2].value, dtype)], ("AddNOptions", {})


grid("ADD_N", add_n)


def prelu(dtype, shape_x, shape_slope, fixed):
    if dtype == "BOOL":
        raise NotDefined
    x, slope = data(dtype, shape_x), data(dtype, shape_slope, seed="s", fixed=fixed)
    return [x, slope], [Tensor(np.where(x.value >= 0, x.value, x.value * slope.value), dtype)], None


grid("PRELU", lambda d, r: prelu(d, shape_of(r), shape_of(r)[-1:], True))
for rank in RANKS[1:]:
    for pattern in PATTERNS:
        if pattern != "scalar left":
            case(
                "PRELU",
                "broadcast",
                ("F32", rank, pattern),
                lambda r=rank, p=pattern: prelu("F32", *pattern_shapes(r, p), True),
            )
variant("PRELU", "slope is not a constant", lambda: prelu("F32", (3, 2, 5, 4), (4,), False))
