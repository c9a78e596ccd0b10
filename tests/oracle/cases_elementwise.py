# SPDX-License-Identifier: Apache-2.0
"""Arithmetic, comparison, logic, activations, Clip, Cast, Where: element by element, with broadcasting both ways.

int64 and float64 have few kernels; LiteRT 2.3.0 crashes or errs on unquantized int8 arithmetic. Integer division
rounds toward zero in ONNX, Mod follows the divisor (fmod=1: the dividend), Round goes to the even neighbour.
"""

import numpy as np

from tests.support.case import Case, f32

CASES = []

SHAPES = {
    "same": ("2,3,4,5", "2,3,4,5"),
    "scalar_b": ("2,3,4,5", ""),
    "scalar_a": ("", "2,3,4,5"),
    "last_b": ("2,3,4,5", "5"),
    "last_a": ("5", "2,3,4,5"),
    "channel_b": ("2,3,4,5", "3,1,1"),
    "channel_a": ("1,3,1,1", "2,3,4,5"),
    "both": ("2,1,4,1", "1,3,1,5"),
    "ranks_differ": ("4,1", "2,3,1,5"),
    "5d": ("2,3,4,5,6", "4,1,6"),
    "6d": ("2,1,3,4,5,2", "3,1,1,2"),
}


def typed(dtype, dims):
    return f"{dtype}[{dims}]" if dims else dtype  # "float[]" would be a tensor of unknown rank


def binary(operator, dtype="float", attributes="", shapes=SHAPES, ranges=None, suffix="", **more):
    for name, (a, b) in shapes.items():
        case = f"{operator.lower()}/{dtype}_{name}{suffix}"
        ab = {"a": ranges, "b": ranges} if isinstance(ranges, tuple) else ranges or {}
        body = f"y = {operator}{attributes and f'<{attributes}>'}(a, b)"
        CASES.append(Case(case, f"{typed(dtype, a)} a, {typed(dtype, b)} b", body, ranges=ab, **more))


FEW = {k: SHAPES[k] for k in ("same", "channel_b", "both")}
for operator in ("Add", "Sub", "Mul"):
    binary(operator)
    for dtype in ("int32", "int64", "double"):
        binary(operator, dtype, shapes=FEW, ranges=(-1000, 1000))
    for dtype in ("int8", "uint8", "int16", "uint16", "uint32"):
        binary(operator, dtype, shapes=FEW, ranges=(0, 11), opset=14)
    binary(operator, "float16", shapes=FEW)
    binary(operator, "int64", shapes={"large": ("2,3,4", "4")}, ranges=(2**31, 2**31 + 1000))
binary("Div", ranges={"b": (0.5, 2)})
for dtype in ("int32", "int64"):
    binary("Div", dtype, shapes=FEW, ranges={"a": (-100, 100), "b": (1, 9)})
    binary(
        "Div", dtype, shapes={"same": ("2,3,4", "2,3,4")}, ranges={"a": (-100, 100), "b": (-9, -1)}, suffix="_negative"
    )
binary("Div", "double", shapes=FEW, ranges={"b": (0.5, 2)})
binary("Div", "uint8", shapes=FEW, ranges={"a": (0, 250), "b": (1, 9)}, opset=14)
binary("Pow", ranges={"a": (0.2, 3), "b": (-2, 2)})
binary("Pow", "int32", shapes=FEW, ranges={"a": (-5, 5), "b": (0, 4)})
binary("Pow", "int64", shapes=FEW, ranges={"a": (-5, 5), "b": (0, 4)})
for exponent in (2, 0.5, -1, 3, 1, 0):
    CASES.append(
        Case(
            f"pow/constant_{exponent}",
            "float[2,3,4] x",
            "y = Pow(x, e)",
            {"e": np.float32(exponent)},
            ranges={"x": (0.2, 3)},
        )
    )
CASES.append(Case("pow/square_of_negative", "float[2,3,4] x", "y = Pow(x, e)", {"e": np.float32(2)}))
CASES.append(Case("pow/integer_exponent", "float[2,3,4] x", "y = Pow(x, e)", {"e": np.int64(3)}, opset=15))
binary("Mod", "int32", shapes=FEW, ranges={"a": (-50, 50), "b": (1, 9)})
binary("Mod", "int32", shapes={"same": ("2,3,4", "2,3,4")}, ranges={"a": (-50, 50), "b": (-9, -1)}, suffix="_negative")
binary("Mod", "int64", shapes=FEW, ranges={"a": (-50, 50), "b": (1, 9)})
binary("Mod", "int32", "fmod=1", shapes=FEW, ranges={"a": (-50, 50), "b": (1, 9)}, suffix="_fmod")
binary("Mod", "float", "fmod=1", shapes=FEW, ranges={"a": (-50, 50), "b": (1, 9)}, suffix="_fmod")
for operator in ("Equal", "Greater", "Less", "GreaterOrEqual", "LessOrEqual"):
    if operator != "Equal":  # two random floats are never equal
        binary(operator, shapes=SHAPES if operator == "Less" else FEW)
        binary(operator, "double", shapes=FEW)
    for dtype in ("int32", "int64"):
        binary(operator, dtype, shapes=FEW, ranges=(0, 4))
binary("Equal", "bool", shapes=FEW)
CASES.append(
    Case(
        "equal/float",
        "float[2,3,4] a, float[3,1] b",
        "p = Round(a) q = Round(b) y = Equal(p, q)",
        ranges={"a": (-2, 2), "b": (-2, 2)},
    )
)
binary("Greater", shapes=FEW, opset=9, suffix="_opset_9")
for operator in ("And", "Or", "Xor"):
    binary(operator, "bool")
CASES.append(Case("not/bool", "bool[2,3,4] x", "y = Not(x)"))
for operator in ("Add", "Mul", "Sub", "Div"):
    binary(operator, shapes=FEW, opset=7, ranges={"b": (0.5, 2)}, suffix="_opset_7")
    CASES.append(Case(f"{operator.lower()}/constant", "float[2,3,4,5] x", f"y = {operator}(x, k)", {"k": (3, 1, 1)}))
    CASES.append(
        Case(
            f"{operator.lower()}/constant_first",
            "float[2,3,4,5] x",
            f"y = {operator}(k, x)",
            {"k": (3, 1, 1)},
            ranges={"x": (0.5, 2)},
        )
    )
    CASES.append(
        Case(
            f"{operator.lower()}/same_input_twice",
            "float[2,3,4] x",
            f"a = {operator}(x, x) y = Add(a, x)",
            ranges={"x": (1, 2)},
        )
    )
    CASES.append(
        Case(f"{operator.lower()}/constant_grows_the_output", "float[3,1] x", f"y = {operator}(x, k)", {"k": (2, 1, 4)})
    )

# More than two inputs.
for operator in ("Sum", "Mean", "Max", "Min"):
    family = operator.lower()
    CASES += [
        Case(f"{family}/one_input", "float[2,3,4] a", f"y = {operator}(a)"),
        Case(f"{family}/two_inputs", "float[2,3,4] a, float[2,3,4] b", f"y = {operator}(a, b)"),
        Case(f"{family}/three_inputs", "float[2,3,4] a, float[2,3,4] b, float[2,3,4] c", f"y = {operator}(a, b, c)"),
        Case(f"{family}/broadcast", "float[2,1,4] a, float[3,1] b, float[4] c", f"y = {operator}(a, b, c)"),
        Case(f"{family}/with_a_constant", "float[2,3,4] a, float[2,3,4] b", f"y = {operator}(a, k, b)", {"k": (3, 1)}),
        Case(f"{family}/opset_8", "float[2,3,4] a, float[4] b", f"y = {operator}(a, b)", opset=8),
    ]
for operator in ("Max", "Min"):
    for dtype in ("int32", "int64", "double", "uint8", "float16"):
        ranges = {} if dtype in ("double", "float16") else {"a": (0, 90), "b": (0, 90)}
        CASES.append(
            Case(
                f"{operator.lower()}/{dtype}",
                f"{dtype}[2,3,4] a, {dtype}[3,1] b",
                f"y = {operator}(a, b)",
                ranges=ranges,
            )
        )

UNARY = {
    "Abs": (-3, 3),
    "Neg": (-3, 3),
    "Sqrt": (0, 9),
    "Exp": (-3, 3),
    "Log": (0.1, 9),
    "Floor": (-9, 9),
    "Ceil": (-9, 9),
    "Round": (-9, 9),
    "Sign": (-3, 3),
    "Reciprocal": (0.3, 4),
    "Sin": (-4, 4),
    "Cos": (-4, 4),
    "Erf": (-3, 3),
    "Relu": (-3, 3),
    "Sigmoid": (-9, 9),
    "Tanh": (-4, 4),
    "Softplus": (-9, 9),
    "Softsign": (-4, 4),
    "Identity": (-3, 3),
    "HardSwish": (-5, 5),
    "Mish": (-6, 6),
    "Selu": (-4, 4),
    "Elu": (-4, 4),
    "LeakyRelu": (-4, 4),
    "HardSigmoid": (-5, 5),
    "Celu": (-4, 4),
    "ThresholdedRelu": (-4, 4),
}
for operator, span in UNARY.items():
    for dims in ("2,3,4,5", "7", "2,3,4,5,6"):
        CASES.append(
            Case(
                f"{operator.lower()}/{dims.count(',') + 1}d",
                f"float[{dims}] x",
                f"y = {operator}(x)",
                opset=18,
                ranges={"x": span},
            )
        )
    CASES.append(Case(f"{operator.lower()}/scalar", "float x", f"y = {operator}(x)", opset=18, ranges={"x": span}))
    CASES.append(
        Case(
            f"{operator.lower()}/between_convolutions",
            "float[1,3,7,9] x",
            f"a = Conv(x, w) b = {operator}(a) y = Conv(b, v)"
            if operator not in ("Sqrt", "Log", "Reciprocal")
            else f"a = Conv(x, w) p = Sigmoid(a) b = {operator}(p) y = Conv(b, v)",
            {"w": (4, 3, 3, 2), "v": (5, 4, 2, 3)},
            opset=18,
        )
    )
ALPHA = [
    ("elu", "Elu<alpha=0.3>"),
    ("leakyrelu", "LeakyRelu<alpha=0.3>"),
    ("selu", "Selu<alpha=1.2, gamma=0.7>"),
    ("celu", "Celu<alpha=0.6>"),
    ("hardsigmoid", "HardSigmoid<alpha=0.3, beta=0.4>"),
    ("thresholdedrelu", "ThresholdedRelu<alpha=0.6>"),
    ("elu_zero", "Elu<alpha=0.0>"),
    ("leakyrelu_zero", "LeakyRelu<alpha=0.0>"),
    ("leakyrelu_large", "LeakyRelu<alpha=2.0>"),
    ("leakyrelu_negative", "LeakyRelu<alpha=-0.5>"),
]
for name, operator in ALPHA:
    CASES.append(Case(f"{name}/attributes", "float[2,3,4,5] x", f"y = {operator}(x)", ranges={"x": (-4, 4)}))
for operator in (
    "Relu",
    "Sigmoid",
    "Tanh",
    "Exp",
    "Sqrt",
    "Abs",
    "Neg",
    "Floor",
    "Erf",
    "Softplus",
    "LeakyRelu",
    "Elu",
):
    CASES.append(
        Case(
            f"{operator.lower()}/float64",
            "double[2,3,4] x",
            f"y = {operator}(x)",
            ranges={"x": (0.1, 3)},
            same_as=f"a = Cast<to=1>(x) b = {operator}(a) y = Cast<to=11>(b)",
        )
    )
    CASES.append(
        Case(
            f"{operator.lower()}/float16",
            "float16[2,3,4] x",
            f"y = {operator}(x)",
            ranges={"x": (0.1, 3)},
            same_as=f"a = Cast<to=1>(x) b = {operator}(a) y = Cast<to=10>(b)",
        )
    )
for operator in ("Abs", "Neg", "Sign"):
    for dtype in ("int32", "int64", "int8"):
        CASES.append(
            Case(f"{operator.lower()}/{dtype}", f"{dtype}[2,3,4] x", f"y = {operator}(x)", ranges={"x": (-9, 9)})
        )
CASES += [
    Case("relu/int32", "int32[2,3,4] x", "y = Relu(x)", opset=14, ranges={"x": (-9, 9)}),
    Case("relu/opset_7", "float[2,3,4] x", "y = Relu(x)", opset=7),
    Case(
        "round/halves",
        "float[10] x",
        "y = Round(x)",
        feeds={"x": f32(-2.5, -1.5, -0.5, 0.5, 1.5, 2.5, 3.5, 0.49, -0.51, 7)},
    ),
    Case("neg/negative_zero_and_infinity", "float[4] x", "y = Neg(x)", feeds={"x": f32(0, np.inf, -np.inf, np.nan)}),
    Case("relu/nan_and_infinity", "float[3] x", "y = Relu(x)", feeds={"x": f32(-np.inf, np.inf, 3)}),
    *(
        Case(
            f"{operator.lower()}/nan_and_a_constant",
            "float[5] x",
            f"y = {operator}(x, c) z = {operator}(c, x)",
            {"c": f32(1, -1, 0, 2, -2)},
            outputs="y, z",
            feeds={"x": f32(np.nan, -3, np.nan, 3, np.inf)},
        )
        for operator in ("Max", "Min")
    ),
    Case(
        "clip/nan",
        "float[5] x",
        "y = Clip(x, low, high) z = Clip(x, low) u = Clip(x, , high)",
        {"low": np.float32(-0.5), "high": np.float32(0.25)},
        outputs="y, z, u",
        feeds={"x": f32(np.nan, -3, 0.1, np.nan, 3)},
    ),
    Case("sigmoid/saturates", "float[5] x", "y = Sigmoid(x)", feeds={"x": f32(-100, -20, 0, 20, 100)}),
    Case("softplus/saturates", "float[5] x", "y = Softplus(x)", feeds={"x": f32(-100, -20, 0, 20, 100)}),
    Case("exp/large", "float[4] x", "y = Exp(x)", feeds={"x": f32(-80, 0, 40, 1)}),
    Case("gelu/none", "float[2,3,4] x", "y = Gelu(x)", opset=20, ranges={"x": (-4, 4)}),
    Case("gelu/tanh", "float[2,3,4] x", 'y = Gelu<approximate="tanh">(x)', opset=20, ranges={"x": (-4, 4)}),
    Case(
        "gelu/written_out",
        "float[2,3,4] x",
        "d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h)",
        {"r": np.float32(np.sqrt(2)), "o": np.float32(1), "h": np.float32(0.5)},
        ranges={"x": (-4, 4)},
    ),
    Case("swish/written_out", "float[2,3,4] x", "s = Sigmoid(x) y = Mul(x, s)", ranges={"x": (-4, 4)}),
    Case("dropout/inference", "float[2,3,4] x", "y = Dropout(x)"),
    Case("dropout/opset_7", "float[2,3,4] x", "y = Dropout<ratio=0.4>(x)", opset=7),
    Case("dropout/opset_10", "float[2,3,4] x", "y = Dropout<ratio=0.4>(x)", opset=10),
    Case("dropout/with_mask", "float[2,3,4] x", "y, m = Dropout(x)", outputs="y, m"),
    Case(
        "dropout/training_mode_false",
        "float[2,3,4] x",
        "y = Dropout(x, r, t)",
        {"r": np.float32(0.5), "t": np.array(False)},
    ),
    Case("identity/twice", "float[2,3,4] x", "a = Identity(x) y = Identity(a)"),
    Case(
        "identity/two_outputs_of_one_value",
        "float[2,3,4] x",
        "a = Relu(x) y = Identity(a) z = Identity(a)",
        outputs="y, z",
    ),
]
for dims in ("3,1,1", "1", "1,3,1,1", "4,5", "5", "2,3,4,5"):
    CASES.append(
        Case(
            f"prelu/slope_{dims.replace(',', 'x')}",
            "float[2,3,4,5] x",
            "y = PRelu(x, s)",
            {"s": tuple(map(int, dims.split(",")))},
            ranges={"x": (-4, 4)},
        )
    )
CASES += [
    Case("prelu/after_conv", "float[1,3,7,9] x", "c = Conv(x, w) y = PRelu(c, s)", {"w": (4, 3, 3, 2), "s": (4, 1, 1)}),
    Case("prelu/slope_at_run_time", "float[2,3,4,5] x, float[3,1,1] s", "y = PRelu(x, s)"),
    Case(
        "prelu/slope_larger_than_an_unknown_axis",
        "float[2,H,3] x",
        "y = PRelu(x, s)",
        {"s": (4, 1)},
        shapes={"x": (2, 1, 3)},
    ),
    Case("prelu/opset_7", "float[2,3,4,5] x", "y = PRelu(x, s)", {"s": (3, 1, 1)}, opset=7),
    Case("clip/opset_6_attributes", "float[2,3,4] x", "y = Clip<min=-0.5, max=0.25>(x)", opset=6 + 1),
    Case("clip/opset_6_min_only", "float[2,3,4] x", "y = Clip<min=-0.5>(x)", opset=9),
    Case("clip/opset_6_no_limit", "float[2,3,4] x", "y = Clip(x)", opset=9),
    Case("clip/no_limit", "float[2,3,4] x", "y = Clip(x)"),
    Case("clip/min_only", "float[2,3,4] x", "y = Clip(x, a)", {"a": np.float32(-0.25)}),
    Case("clip/max_only", "float[2,3,4] x", "y = Clip(x, , b)", {"b": np.float32(0.25)}),
    Case(
        "clip/relu6",
        "float[2,3,4] x",
        "y = Clip(x, a, b)",
        {"a": np.float32(0), "b": np.float32(6)},
        ranges={"x": (-9, 9)},
    ),
    Case(
        "clip/relu_n1_to_1",
        "float[2,3,4] x",
        "y = Clip(x, a, b)",
        {"a": np.float32(-1), "b": np.float32(1)},
        ranges={"x": (-9, 9)},
    ),
    Case(
        "clip/0_to_1",
        "float[2,3,4] x",
        "y = Clip(x, a, b)",
        {"a": np.float32(0), "b": np.float32(1)},
        ranges={"x": (-9, 9)},
    ),
    Case("clip/min_above_max", "float[2,3,4] x", "y = Clip(x, a, b)", {"a": np.float32(2), "b": np.float32(1)}),
    Case(
        "clip/limits_at_run_time",
        "float[2,3,4] x, float a, float b",
        "y = Clip(x, a, b)",
        ranges={"a": (-1, -0.5), "b": (0.1, 0.5)},
    ),
    Case(
        "clip/int32",
        "int32[2,3,4] x",
        "y = Clip(x, a, b)",
        {"a": np.int32(-3), "b": np.int32(5)},
        ranges={"x": (-9, 9)},
    ),
    Case(
        "clip/int64",
        "int64[2,3,4] x",
        "y = Clip(x, a, b)",
        {"a": np.int64(-3), "b": np.int64(5)},
        ranges={"x": (-9, 9)},
    ),
    Case("clip/int8", "int8[2,3,4] x", "y = Clip(x, a, b)", {"a": np.int8(-3), "b": np.int8(5)}, ranges={"x": (-9, 9)}),
    Case("clip/float64", "double[2,3,4] x", "y = Clip(x, a, b)", {"a": np.float64(-0.3), "b": np.float64(0.5)}),
    Case("where/same", "bool[2,3,4] c, float[2,3,4] a, float[2,3,4] b", "y = Where(c, a, b)"),
    Case("where/broadcast_condition", "bool[3,1] c, float[2,3,4] a, float[2,3,4] b", "y = Where(c, a, b)"),
    Case("where/broadcast_all", "bool[2,1,1] c, float[3,1] a, float[4] b", "y = Where(c, a, b)"),
    Case("where/scalars", "bool[2,3,4] c", "y = Where(c, a, b)", {"a": np.float32(0), "b": np.float32(-1e9)}),
    Case("where/5d", "bool[2,3,4,5,6] c, float[2,3,4,5,6] a, float[6] b", "y = Where(c, a, b)"),
    Case("where/int64", "bool[2,3,4] c, int64[2,3,4] a, int64[4] b", "y = Where(c, a, b)"),
    Case("where/opset_9", "bool[2,3,4] c, float[2,3,4] a, float[4] b", "y = Where(c, a, b)", opset=9),
    Case("where/after_compare", "float[2,3,4] a, float[4] b", "g = Greater(a, b) y = Where(g, a, b)"),
]

# Cast: to integers it cuts toward zero.
NUMBER = {
    "float": 1,
    "uint8": 2,
    "int8": 3,
    "uint16": 4,
    "int16": 5,
    "int32": 6,
    "int64": 7,
    "bool": 9,
    "float16": 10,
    "double": 11,
    "uint32": 12,
}
for source in ("float", "int32", "int64", "double", "bool", "uint8", "float16"):
    for target, number in NUMBER.items():
        if source == target:
            continue
        signed = "u" not in source + target and source != "bool"
        CASES.append(
            Case(
                f"cast/{source}_to_{target}",
                f"{source}[2,3,4] x",
                f"y = Cast<to={number}>(x)",
                ranges={"x": (0, 2) if target == "bool" else (-9, 9) if signed else (0, 9)},
            )
        )
CASES += [
    Case("cast/there_and_back", "float[2,3,4] x", "i = Cast<to=6>(x) y = Cast<to=1>(i)", ranges={"x": (-9, 9)}),
    Case("cast/same_type", "float[2,3,4] x", "y = Cast<to=1>(x)"),
    Case("cast/half_values", "float[6] x", "y = Cast<to=6>(x)", feeds={"x": f32(-1.5, -0.5, 0.5, 1.5, 2.5, -2.9)}),
    Case("cast/float_to_bool_near_zero", "float[4] x", "y = Cast<to=9>(x)", feeds={"x": f32(0.25, 0, -0.5, 3)}),
    Case("cast/opset_9", "float[2,3,4] x", "y = Cast<to=6>(x)", opset=9, ranges={"x": (-9, 9)}),
    Case("cast/opset_19", "float[2,3,4] x", "y = Cast<to=6>(x)", opset=19, ranges={"x": (-9, 9)}),
]

# 4 bits keep the low bits of integers and of rounded floats. Beyond 4 bits a float has no defined result, and ONNX
# Runtime rounds ties away from 0.
FOUR_BITS = {"int4": 22, "uint4": 21}
WORDS = {"int64": (7, np.int64), "uint64": (13, np.uint64), "uint8": (2, np.uint8), "uint16": (4, np.uint16)}
WORDS |= {"uint32": (12, np.uint32), "int8": (3, np.int8)}
REALS = f32(0.4, 1.6, -0.6, -1.4, -2.7, 6.4, 0, 5)
for kind, number in FOUR_BITS.items():
    least = -8 if kind == "int4" else 0
    for name, (word, dtype) in WORDS.items():
        values = np.array([0, 1, 7, 8, 13, 15, 17, 200, -1, -3, -8, -9]).astype(dtype)
        to_word = f"q = Cast<to={number}>(x) y = Cast<to={word}>(q)"
        outputs = f"{name}[12] y"
        CASES.append(
            Case(f"cast/{name}_{kind}_{name}", f"{name}[12] x", to_word, opset=21, feeds={"x": values}, outputs=outputs)
        )
    for other, to_other in FOUR_BITS.items():
        through = f"q = Cast<to={number}>(x) o = Cast<to={to_other}>(q) y = Cast<to=6>(o)"
        words = {"x": np.int32([0, 1, 7, -8, -3, 15, 9])}
        CASES.append(Case(f"cast/{kind}_{other}", "int32[7] x", through, opset=21, feeds=words, outputs="int32[7] y"))
    for source, real in (("float", 1), ("float16", 10), ("double", 11)):
        rounded = f"r = Cast<to={real}>(x) q = Cast<to={number}>(r) y = Cast<to=1>(q)"
        CASES.append(
            Case(f"cast/{source}_{kind}", "float[8] x", rounded, opset=21, feeds={"x": REALS}, outputs="float[8] y")
        )
    CASES.append(
        Case(
            f"cast/constants_{kind}",
            "float[8] x",
            f"q = Cast<to={number}>(c) f = Cast<to=1>(q) y = Add(x, f)",
            {"c": REALS},
            opset=21,
            outputs="float[8] y",
        )
    )
    CASES.append(
        Case(
            f"cast/ties_{kind}",
            "float[6] x",
            f"q = Cast<to={number}>(x) k = Cast<to={number}>(c) a = Cast<to=1>(q) b = Cast<to=1>(k)",
            {"c": f32(0.5, 1.5, 2.5, 3.5, 6.5)},
            opset=21,
            outputs="float[6] a, float[5] b",
            feeds={"x": f32(0.5, 1.5, 2.5, -0.5, -1.5, -2.5)},
            numpy=lambda arrays, weights, least=least: {
                "a": ((np.rint(arrays["x"]) - least) % 16 + least).astype(np.float32),
                "b": np.rint(weights["c"]),
            },
        )
    )
