# SPDX-License-Identifier: Apache-2.0
"""Functions of one number that are composed of others: where plain formulas cancel (near 0), overflow, or saturate.

The ranges are wide and the tolerance tight: of a function that is 1e-5 near 0 and 1 elsewhere a wrong half would pass.
"""

import math

import numpy as np

from tests.support.case import Case, f32

CASES = []

NEAR_ZERO = f32(0, 1e-30, -1e-30, 1e-12, -1e-12, 1e-7, -1e-7, 1e-5, 3e-5, -3e-4, 9.99e-4, 1.01e-3, -1e-3, 5e-3)
SPREAD = np.linspace(-4, 4, 201).astype(np.float32)


def reference(function):
    def numpy(arrays, _weights):
        with np.errstate(all="ignore"):
            return {"y": function(arrays["x"].astype(np.float64)).astype(np.float32)}

    return numpy


def case(operator, name, x, function=None, opset=20, tolerance=2e-6, attributes=""):
    CASES.append(
        Case(
            f"{operator.lower()}/{name}",
            f"float[{len(x)}] x",
            f"y = {operator}{attributes}(x)",
            opset=opset,
            feeds={"x": np.asarray(x, np.float32)},
            tolerance=tolerance,
            numpy=function and reference(function),
        )
    )


erf = np.vectorize(math.erf, otypes=[np.float64])
FUNCTIONS = {
    "Erf": (erf, f32(4.1, 6, 30, 1e4, -4.1, -6, -30, -1e4, np.inf, -np.inf)),
    "Tan": (np.tan, f32(1.5, -1.5, 3)),
    "Asin": (np.arcsin, f32(1, -1, 0.9999999, -0.9999, 0.5)),
    "Atan": (np.arctan, f32(1e6, -1e6, 1e30, np.inf, -np.inf)),
    "Sinh": (np.sinh, f32(10, -10)),
    "Asinh": (np.arcsinh, f32(4095, 4097, -4097, 1e10, -1e20, 1e38, -1e38, np.inf)),  # XNNPACK's LOG of 3e38 is inf
    "Softplus": (lambda x: np.logaddexp(0, x), f32(20, 88, 89, 1000, -20, -88, -1000)),
    "Softsign": (lambda x: x / (1 + np.abs(x)), f32(1e10, -1e10)),
    "Mish": (lambda x: x * np.tanh(np.logaddexp(0, x)), f32(20, 21, 50, 89, 1000, -20, -88, -1000)),
    "Celu": (lambda x: np.maximum(x, 0) + np.minimum(np.expm1(np.minimum(x, 0)), 0), f32(100, 1000, -100, -1000)),
    "Gelu": (lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), f32(10, 100, -10, -100)),
}
# Next to 0 these are differences of numbers next to 1: right to 1e-7, of values up to 0.005.
ROUNDED_NEAR_ONE = {"Erf": 2e-5, "Asinh": 5e-5}
for operator, (function, far) in FUNCTIONS.items():
    spread = SPREAD / 4 if operator in ("Asin", "Tan") else SPREAD
    case(operator, "spread", spread, function)
    case(operator, "near_zero", NEAR_ZERO, function, tolerance=ROUNDED_NEAR_ONE.get(operator, 2e-6))
    for name, part in (("far", np.abs(far) < 1e5), ("very_far", np.isfinite(far) & (np.abs(far) >= 1e5))):
        if part.any():
            case(operator, name, far[part], function)
case("Erf", "infinities", f32(np.inf, -np.inf, 0), erf)
case("Atan", "infinities", f32(np.inf, -np.inf, 0), np.arctan)
case("Acos", "spread", SPREAD / 4, np.arccos)
case("Acos", "near_one", f32(1, 0.99999, 0.9999999, -1, -0.99999, -0.9999999), np.arccos)
case("Acos", "near_one_alone", f32(1, 0.99999, 0.9999999), np.arccos, tolerance=1e-5)
case("Cosh", "spread", SPREAD, np.cosh)
case("Cosh", "large", f32(80, -80, 88, 89, -89), np.cosh, tolerance=1e-5)
case("Sinh", "large", f32(80, -80, 88, 89, -89), np.sinh, tolerance=1e-5)
case("Acosh", "spread", np.linspace(1, 9, 101), np.arccosh)
case("Acosh", "near_one", f32(1, 1.0000001, 1.00001, 1.001), np.arccosh, tolerance=1e-5)
case("Acosh", "large", f32(4095, 4097, 1e10, 1e20, 1e38), np.arccosh)
case("Acosh", "outside", f32(3, 0.5, 0, -0.5, -1, -1.5, -3000, -1e6, -1e20, -np.inf), np.arccosh)
case("Atanh", "spread", SPREAD / 4.1, np.arctanh)
case("Atanh", "near_zero", NEAR_ZERO, np.arctanh, tolerance=5e-5)
case("Atanh", "near_one", f32(0.9999, 0.999999, -0.99999), np.arctanh)
case(
    "Elu",
    "alpha",
    f32(-1000, -100, -3, -1e-4, 0, 2, 1000),
    lambda x: np.where(x < 0, 0.3 * np.expm1(np.minimum(x, 0)), x),
    attributes="<alpha=0.3>",
)
case(
    "Selu",
    "far",
    f32(-1000, -3, -1e-4, 0, 2, 100),
    lambda x: 1.0507009873554805 * np.where(x < 0, 1.6732632423543772 * np.expm1(np.minimum(x, 0)), x),
)
case(
    "Celu",
    "alpha",
    f32(-1000, -3, -1e-4, 0, 2, 100),
    lambda x: np.where(x < 0, 0.6 * np.expm1(np.minimum(x, 0) / 0.6), x),
    attributes="<alpha=0.6>",
)
case(
    "Celu",
    "alpha_above_one",
    f32(-1000, -3, -1e-4, 0, 2, 100, 3e38),
    lambda x: np.where(x < 0, 1.3 * np.expm1(np.minimum(x, 0) / 1.3), x),
    attributes="<alpha=1.3>",
)
case(
    "Elu",
    "alpha_above_one",
    f32(-1000, -100, -3, -1e-4, 0, 2, 100),
    lambda x: np.where(x < 0, 1.7 * np.expm1(np.minimum(x, 0)), x),
    attributes="<alpha=1.7>",
)
case(
    "Elu",
    "alpha_negative",
    f32(-1000, -100, -3, -1e-4, 0, 2, 100),
    lambda x: np.where(x < 0, -0.3 * np.expm1(np.minimum(x, 0)), x),
    attributes="<alpha=-0.3>",
)
case(
    "Celu",
    "alpha_negative",
    f32(-3, -1, -1e-4, 0, 2, 5),
    lambda x: np.maximum(x, 0) + np.minimum(-0.7 * np.expm1(x / -0.7), 0),
    attributes="<alpha=-0.7>",
)
case(
    "ReduceLogSumExp",
    "large",
    f32(1000, 1001, 999),
    lambda x: np.array([np.logaddexp.reduce(x)]),
    attributes="<keepdims=1>",
)
case(
    "ReduceLogSumExp",
    "very_negative",
    f32(-1000, -1001, -999),
    lambda x: np.array([np.logaddexp.reduce(x)]),
    attributes="<keepdims=1>",
)
case(
    "ReduceLogSumExp",
    "an_infinity",
    f32(-np.inf, 2, 3),
    lambda x: np.array([np.logaddexp.reduce(x)]),
    attributes="<keepdims=1>",
)

# Shrink, Hardmax, Swish, infinities and NaN, and com.microsoft's activations.
CASES += [
    Case("shrink/float", "float[2,3,4] x", "y = Shrink<lambd=0.8, bias=0.3>(x)", ranges={"x": (-3, 3)}),
    Case("shrink/no_bias", "float[2,3,4] x", "y = Shrink<lambd=0.8>(x)", ranges={"x": (-3, 3)}),
    Case("shrink/int8", "int8[2,3,4] x", "y = Shrink<lambd=1.5, bias=1.5>(x)", ranges={"x": (-9, 9)}),
    *[
        Case(f"hardmax/axis_{axis}_opset_{opset}", "float[2,3,4] x", f"y = Hardmax<axis={axis}>(x)", opset=opset)
        for axis in (0, 1, 2)
        for opset in (11, 13)
    ],
    Case(
        "hardmax/ties_take_the_first",
        "float[2,3] x",
        "y = Hardmax(x)",
        feeds={"x": f32(1, 3, 3, 2, 2, 1).reshape(2, 3)},
    ),
    Case("is_inf/both", "float[5] x", "y = IsInf(x)", opset=10, feeds={"x": f32(np.inf, -np.inf, np.nan, 3e38, 0)}),
    Case(
        "is_inf/positive",
        "float[5] x",
        "y = IsInf<detect_negative=0>(x)",
        opset=10,
        feeds={"x": f32(np.inf, -np.inf, np.nan, 3e38, 0)},
    ),
    Case(
        "is_inf/negative",
        "float[5] x",
        "y = IsInf<detect_positive=0>(x)",
        opset=10,
        feeds={"x": f32(np.inf, -np.inf, np.nan, 3e38, 0)},
    ),
    Case(
        "is_inf/neither",
        "float[5] x",
        "y = IsInf<detect_positive=0, detect_negative=0>(x)",
        opset=10,
        feeds={"x": f32(np.inf, -np.inf, np.nan, 3e38, 0)},
    ),
    Case("is_nan/float", "float[5] x", "y = IsNaN(x)", feeds={"x": f32(np.inf, -np.inf, np.nan, 3e38, 0)}),
    *[
        Case(
            f"microsoft/{name}",
            f"float[2,3,5] x{', float[5] b' if two else ''}",
            f"y = com.microsoft.{op}{attributes}(x{', b' if two else ''})",
            opsets={"com.microsoft": 1},
            outputs="float[2,3,5] y",
            ranges={"x": (-4, 4)},
        )
        for name, op, attributes, two in (
            ("gelu", "Gelu", "", False),
            ("bias_gelu", "BiasGelu", "", True),
            ("fast_gelu", "FastGelu", "", False),
            ("fast_gelu_bias", "FastGelu", "", True),
            ("quick_gelu", "QuickGelu", "", False),
            ("quick_gelu_alpha", "QuickGelu", "<alpha=1.1>", False),
        )
    ],
]

# Integers that wrap, and divisions and remainders of negative numbers.
i32 = {
    "a": np.array([-(2**31), 2**31 - 1, -7, 7, -7, 7, 0, 5], np.int32),
    "b": np.array([3, -5, 3, -3, -3, 3, -4, 5], np.int32),
}
i64 = {"a": i32["a"].astype(np.int64) * 2**20, "b": i32["b"].astype(np.int64)}
CASES += [
    *[
        Case(f"mod/edges_{name}_fmod_{fmod}", f"{name}[8] a, {name}[8] b", f"y = Mod<fmod={fmod}>(a, b)", feeds=feeds)
        for name, feeds in (("int32", i32), ("int64", i64))
        for fmod in (0, 1)
    ],
    Case("div/edges_int32", "int32[8] a, int32[8] b", "y = Div(a, b)", feeds=i32),
    # Constants of 64 bits, too.
    Case(
        "add/constants_wrap_in_64_bits",
        "int64[1] x",
        "s = Add(l, k) m = Mul(l, k) n = Neg(l) c = Concat<axis=0>(s, m, n) y = Add(c, x)",
        {"l": np.array([2**62, 2**62, 2**63 - 1]), "k": np.array([2**62, 3, 5])},
    ),
    Case(
        "mod/float_fmod_edges",
        "float[6] a, float[6] b",
        "y = Mod<fmod=1>(a, b)",
        feeds={"a": f32(-1e-10, 1e-10, -7.5, 7.5, 1e8, -3), "b": f32(5, -5, 2, -2, 3, 7)},
    ),
    *[
        Case(
            f"{op.lower()}/wraps_{name}",
            f"{name}[4] a, {name}[4] b",
            f"y = {op}(a, b)",
            opset=14,
            feeds={"a": np.array([100, 127, 0, 3], name), "b": np.array([100, 127, 5, 7], name)},
        )
        for op in ("Add", "Sub", "Mul")
        for name in ("int8", "uint8")
    ],
    *[
        Case(
            f"{op.lower()}/int64_beyond_32_bits",
            "int64[3] x",
            f"y = {op}(x)",
            feeds={"x": np.array([-(2**40), 2**40, 0])},
        )
        for op in ("Abs", "Sign", "Neg")
    ],
    *[
        Case(
            f"{op.lower().replace('arg', 'arg_')}/int64_beyond_32_bits",
            "int64[2,3] x",
            f"y = {op}<axis=1, select_last_index={last}>(x)".replace("select_last_index=0", "keepdims=0"),
            feeds={"x": np.array([[2**40, 2**40 + 1, 2**40 + 1], [1, -(2**40), -(2**40)]])},
        )
        for op, last in (("ArgMax", 0),)
    ],
    *[
        Case(
            f"{op.lower()}/float_exponent_{name}",
            f"{name}[4] x, float[4] e",
            f"y = {op}(x, e)",
            opset=15,
            feeds={"x": np.array([2, 3, 9, 4], dtype), "e": f32(2, 3, 0.5, -1)},
        )
        for op in ("Pow",)
        for name, dtype in (("int32", np.int32), ("float", np.float32))
    ],
    *[
        Case(
            f"pow/constant_{exponent}_int64",
            "int64[4] x",
            "y = Pow(x, e)",
            {"e": np.int64(exponent)},
            opset=15,
            feeds={"x": np.array([2**9, -3, 0, 7])},
        )
        for exponent in (1, 2, 3, 5)
    ],
    *[
        Case(
            f"pow/constant_float_9_{name}",
            f"{name}[4] x",
            "y = Pow(x, e)",
            {"e": np.float32(9)},
            opset=15,
            feeds={"x": np.array([7, -3, 0, most], name)},
        )
        for name, most in (("int32", 10), ("int64", 57))
    ],
    *[
        Case(
            f"bitshift/{direction.lower()}_{name}",
            f"{name}[4] x, {name}[4] s",
            f'y = BitShift<direction="{direction}">(x, s)',
            opset=11,
            numpy=lambda arrays, _, f=f: {"y": f(arrays["x"], arrays["s"])},
            feeds={"x": np.array([200, 1, 77, 255], name), "s": np.array([1, 7, 0, 3], name)},
        )
        for direction, f in (("LEFT", np.left_shift), ("RIGHT", np.right_shift))
        for name in ("uint8", "uint16", "uint32")
    ],
    *[
        Case(
            f"bit_cast/{source}_to_{target}",
            f"{source}[3,4,5] x",
            f"y = BitCast<to={number}>(x)",
            opset=26,
            outputs=f"{target}[3,4,5] y",
            foreign=True,  # newer than the ONNX that checks here
            ranges={"x": (1, 100)},
        )
        for source, target, number in (
            ("float", "int32", 6),
            ("int32", "float", 1),
            ("float", "uint32", 12),
            ("int8", "uint8", 2),
            ("uint16", "int16", 5),
            ("int64", "uint64", 13),
            ("float16", "int16", 5),
        )
    ],
    *[
        Case(
            f"bitwise/{op.lower()}_{name}",
            f"{name}[2,3] x, {name}[3] s",
            f"y = Bitwise{op}(x, s)",
            opset=18,
            numpy=lambda arrays, _, f=f: {"y": f(arrays["x"], arrays["s"])},
            feeds={"x": np.array([[-100, 100, 77], [3, 0, -1]]).astype(name), "s": np.array([15, -6, 85]).astype(name)},
        )
        for op, f in (("And", np.bitwise_and), ("Or", np.bitwise_or), ("Xor", np.bitwise_xor))
        for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
    ],
    *[
        Case(
            f"bitwise/not_{name}",
            f"{name}[3] x",
            "y = BitwiseNot(x)",
            opset=18,
            numpy=lambda arrays, _: {"y": ~arrays["x"]},
            feeds={"x": np.array([-100, 100, 7]).astype(name)},
        )
        for name in ("int8", "uint8", "int32", "uint32", "int64")
    ],
]
