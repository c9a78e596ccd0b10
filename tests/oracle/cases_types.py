# SPDX-License-Identifier: Apache-2.0
"""Element types that no kernel takes, ranks above the kernels' highest, and broadcasting that kernels cannot do: what
legalise makes of them. Results are those of the type that ONNX names, also where it wraps.
"""

import numpy as np

from tests.support.case import Case, f32, i64


def words(dtype):
    """Twelve numbers at the ends of the range, of its halves, and between."""
    top = 1 << (np.dtype(dtype).itemsize * 8 - 1)
    return np.array(
        [0, 1, 3, 1000003, top // 3, top - 1, top, top + 1, top + top // 7, 2 * top - 3, 2 * top - 2, 2 * top - 1],
        dtype,
    )


CASES = []


def rank_case(name, dims, body, weights=None, **more):
    CASES.append(Case(f"rank/{name}", f"float[{dims}] x", body, weights or {}, **more))


SEVEN, EIGHT = "2,3,1,4,2,3,2", "2,1,3,2,2,3,1,2"
for operator in ("Sum", "Mean", "Max", "Min", "Prod", "L2", "LogSumExp"):
    ranges = {"x": (0.5, 1.5)}
    rank_case(
        f"reduce_{operator.lower()}_two_apart",
        SEVEN,
        f"y = Reduce{operator}<axes=[1,5], keepdims=0>(x)",
        opset=11,
        ranges=ranges,
    )
    rank_case(
        f"reduce_{operator.lower()}_keepdims", EIGHT, f"y = Reduce{operator}<axes=[2,3,-1]>(x)", opset=11, ranges=ranges
    )
    rank_case(f"reduce_{operator.lower()}_all", SEVEN, f"y = Reduce{operator}<keepdims=0>(x)", opset=11, ranges=ranges)
    rank_case(
        f"reduce_{operator.lower()}_an_axis_of_one",
        SEVEN,
        f"y = Reduce{operator}<axes=[2], keepdims=0>(x)",
        opset=11,
        ranges=ranges,
    )
for axis in (0, 3, 6):
    rank_case(f"concat_{axis}", SEVEN, f"a = Neg(x) y = Concat<axis={axis}>(x, a)")
    rank_case(f"softmax_{axis}", SEVEN, f"y = Softmax<axis={axis}>(x)")
    rank_case(f"log_softmax_{axis}", SEVEN, f"y = LogSoftmax<axis={axis}>(x)")
rank_case("split", "2,3,1,4,2,3,2", "y, z = Split<axis=3>(x)", outputs="y, z")
rank_case("split_unequal", "2,3,1,4,2,3,2", "y, z = Split<axis=3>(x, s)", {"s": i64(1, 3)}, outputs="y, z")
for rank, dims, pads in (
    (6, "2,3,4,1,2,3", (0, 1, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0)),
    (7, SEVEN, (1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0)),
):
    rank_case(f"pad_{rank}d", dims, "y = Pad(x, p)", {"p": i64(*pads)})
    rank_case(f"pad_{rank}d_value", dims, "y = Pad(x, p, v)", {"p": i64(*pads), "v": np.float32(2.5)})
rank_case("pad_every_second_of_6", "2,3,4,2,2,3", "y = Pad(x, p)", {"p": i64(0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0)})
rank_case("matmul", "2,3,1,2,4,5", "y = MatMul(x, w)", {"w": (2, 3, 1, 2, 5, 3)})
rank_case("matmul_broadcast", "2,3,2,4,5", "y = MatMul(x, w)", {"w": (1, 3, 2, 5, 3)})
NINE = "2,1,3,2,1,2,3,1,2"
rank_case("relu_of_nine", NINE, "y = Relu(x)")
rank_case("add_of_nine", NINE, "y = Add(x, k)", {"k": (2, 1, 3, 2, 1, 2, 3, 1, 2)})
rank_case("add_broadcast_of_nine", NINE, "y = Add(x, k)", {"k": (3, 2, 1, 2, 3, 1, 1)})
rank_case("transpose_of_nine", NINE, "y = Transpose<perm=[5,6,7,8,0,1,2,3,4]>(x)")
rank_case(
    "quantize_of_nine",
    NINE,
    "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) y = Add(d, k)",
    {"s": np.float32(0.013), "z": np.int8(3), "k": (3, 2, 1, 2, 3, 1, 1)},
)
CASES.append(
    Case(
        "rank/transpose_of_nine_integers",
        f"uint8[{NINE}] x",
        "d = DequantizeLinear(x, s, z) t = Transpose<perm=[5,6,7,8,0,1,2,3,4]>(d) y = QuantizeLinear(t, u, z)",
        {"s": np.float32(0.02), "u": np.float32(0.03), "z": np.uint8(119)},
        ranges={"x": (0, 256)},
        steps=1,
    )
)
CASES.append(
    Case("rank/where_of_nine", f"bool[{NINE}] c, float[{NINE}] x", "y = Where(c, x, z)", {"z": np.float32(0.5)})
)
CASES.append(Case("rank/prelu_of_five", "float[2,3,4,2,3] x", "y = PRelu(x, s)", {"s": (3, 1, 1, 1)}))
CASES.append(
    Case(
        "rank/reduce_of_dynamic_batch",
        "float[N,3,1,4,2,3,2] x",
        "y = ReduceSum<keepdims=0>(x, a)",
        {"a": i64(1, 5)},
        shapes={"x": (5, 3, 1, 4, 2, 3, 2)},
    )
)


def moved(arrays, _weights):
    x = arrays["x"]
    c = np.concatenate([x[:, 1:], x[:, :1]], 1)
    p = np.pad(c, ((0, 0), (1, 0), (0, 1)))
    return {"y": np.take(p, [3, 0, 2], 2)[None]}


# Chains: what stands between two narrowed ops is not widened and narrowed again, and the answer is the same.
CASES += [
    Case(
        "types/double_chain",
        "double[2,3,4] x, double[4] w",
        "a = Mul(x, w) b = Transpose<perm=[2,0,1]>(a) c = Sigmoid(b) y = ReduceMean<axes=[1]>(c)",
    ),
    Case(
        "types/double_constant",
        "double[2,3] x",
        "y = MatMul(x, w)",
        {"w": np.random.default_rng(3).uniform(-1, 1, (3, 5))},
    ),
    Case(
        "types/double_conv",
        "double[1,3,7,9] x",
        "c = Conv(x, w) y = Relu(c)",
        {"w": np.random.default_rng(3).uniform(-1, 1, (4, 3, 3, 2))},
        same_as="f = Cast<to=1>(x) g = Cast<to=1>(w) c = Conv(f, g) r = Relu(c) y = Cast<to=11>(r)",
    ),
    Case(
        "types/half_network",
        "float16[1,3,8,9] x",
        "c = Conv(x, w) r = Relu(c) p = MaxPool<kernel_shape=[2,2]>(r) y = Softmax<axis=1>(p)",
        {"w": np.random.default_rng(3).uniform(-1, 1, (4, 3, 3, 2)).astype(np.float16)},
        same_as="f = Cast<to=1>(x) g = Cast<to=1>(w) c = Conv(f, g) r = Relu(c) p = MaxPool<kernel_shape=[2,2]>(r) s = Softmax<axis=1>(p) y = Cast<to=10>(s)",
    ),
    Case(
        "types/half_rounds_where_the_model_casts",
        "float[5] x",
        "h = Cast<to=10>(x) y = Cast<to=1>(h)",
        feeds={"x": f32(0.1, 1 / 3, 70000, 1e-8, -2.0005)},
    ),
    *[
        Case(
            f"types/statistics_in_{name}",
            "float[2,8] x",
            f"y = LayerNormalization<stash_type={number}>(x, s)",
            {"s": np.ones(8, np.float32)},
            opset=17,
            outputs="float[2,8] y",
            ranges={"x": (-600, 600)},  # whose squares are beyond float16
            foreign=number == 10,  # which ONNX Runtime takes, and ONNX's checker does not
        )
        for name, number in (("float16", 10), ("bfloat16", 16))
    ],
    # As CAST does: the type that ONNX gives the second operand counts, an input's, a constant's, or a result's.
    *[
        Case(
            f"types/half_rounds_where_the_model_casts_like_{what}",
            inputs,
            f"{like} c = CastLike(x, l) y = Cast<to=1>(c)",
            weights,
            opset=24,
            outputs="float[5] y",
            feeds={"x": f32(0.1, 1 / 3, 70000, 1e-8, -2.0005), **fed},
        )
        for what, inputs, like, weights, fed in (
            ("an_input", "float[5] x, float16[2] l", "", {}, {"l": np.ones(2, np.float16)}),
            ("a_constant", "float[5] x", "", {"l": np.ones(2, np.float16)}, {}),
            ("a_result", "float[5] x, float16[2] k", "m = Mul(k, k) l = Relu(m)", {}, {"k": np.ones(2, np.float16)}),
            ("a_cast", "float[5] x", "l = Cast<to=10>(x)", {}, {}),
            (
                "a_branch",
                "float[5] x, float16[2] k, bool b",
                """l = If(b) <then_branch = t () => (float16[2] p) { p = Mul(k, k) },
                              else_branch = e () => (float16[2] q) { q = Neg(k) }>""",
                {},
                {"k": np.ones(2, np.float16), "b": np.array(True)},
            ),
            (
                "a_branch_of_no_declared_type",
                "float[5] x, float16[2] k, bool b",
                "l = If(b) <then_branch = t () => (p) { p = Mul(k, k) }, else_branch = e () => (q) { q = Neg(k) }>",
                {},
                {"k": np.ones(2, np.float16), "b": np.array(True)},
            ),
            (
                "an_element",
                "float[5] x, float16[2] k",
                "s = SequenceConstruct(k, k) l = SequenceAt(s, n)",
                {"n": np.array(1)},
                {"k": np.ones(2, np.float16)},
            ),
            (
                "an_inserted_element",
                "float[5] x, float16[2] k",
                "e = SequenceEmpty<dtype=10>() s = SequenceInsert(e, k) l = ConcatFromSequence<axis=0>(s)",
                {},
                {"k": np.ones(2, np.float16)},
            ),
            (
                "floats",
                "float[5] x, float16[2] k",
                "m = Mul(k, k) l = Cast<to=1>(m)",
                {},
                {"k": np.ones(2, np.float16)},
            ),
        )
    ],
    Case(
        "types/half_stays_where_the_model_casts_like_a_half",
        "float16[4] x, float16[1] l",
        "s = Mul(x, x) c = CastLike(s, l) y = Mul(c, x)",
        opset=24,
        outputs="float16[4] y",
    ),
    Case(
        "types/integers_cast_like_float16",
        "int64[3] x, float16[1] l",
        "c = CastLike(x, l) y = Cast<to=7>(c)",
        opset=24,
        outputs="int64[3] y",
        feeds={"x": i64(2049, 4099, 5), "l": np.ones(1, np.float16)},
    ),
    Case(
        "types/half_only_moved",
        "float16[2,3,4] x",
        "t = Transpose<perm=[1,2,0]>(x) y = Reshape(t, s)",
        {"s": i64(4, 6)},
    ),
    Case("types/half_constant_output", "float16[2] x", "y = Add(x, k)", {"k": np.array([0.1, 2], np.float16)}),
    *[
        Case(
            f"types/{name}_moves",
            f"{name}[2,3,4] x",
            "a, b = Split<axis=1>(x, s) c = Concat<axis=1>(b, a) p = Pad(c, q) g = Gather<axis=2>(p, i) "
            "u = Unsqueeze(g, z) e = Expand(u, f) y = Slice(e, n, m)",
            {
                "s": i64(1, 2),
                "q": i64(0, 1, 0, 0, 0, 1),
                "i": i64(3, 0, 2),
                "z": i64(0),
                "f": i64(2, 1, 1, 1),
                "n": i64(0),
                "m": i64(1),
            },
            feeds={
                "x": np.arange(24).reshape(2, 3, 4).astype({"double": np.float64, "bool": np.bool_}.get(name, name))
            },
            outputs=f"{name}[1,2,4,3] y",
            numpy=moved,
        )
        for name in ("double", "int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64", "bool")
    ],
    *[
        Case(
            f"types/{name}_arithmetic",
            f"{name}[2,3] x, {name}[3] k",
            "a = Mul(x, k) b = Sub(a, x) c = Max(b, k) y = Min(c, x)",
            opset=14,
            feeds={"x": np.array([[200, 3, 90], [7, 100, 255]]).astype(name), "k": np.array([3, 90, 2]).astype(name)},
            numpy=lambda arrays, _: {
                "y": np.minimum(np.maximum(arrays["x"] * arrays["k"] - arrays["x"], arrays["k"]), arrays["x"])
            },
        )
        for name in ("int8", "uint8", "int16", "uint16", "uint32", "int64", "uint64")
    ],
    Case(
        "types/uint64_beyond_63_bits",
        "uint64[3] x, uint64[3] k",
        "m = Max(x, k) l = Less(x, k) f = Cast<to=1>(x) s = Add(x, k)",
        opset=13,
        outputs="uint64[3] m, bool[3] l, float[3] f, uint64[3] s",
        feeds={"x": np.array([2**63 + 5, 7, 2**64 - 1], np.uint64), "k": np.array([3, 2**63, 2**64 - 2], np.uint64)},
        numpy=lambda arrays, _: {
            "m": np.maximum(arrays["x"], arrays["k"]),
            "l": arrays["x"] < arrays["k"],
            "f": arrays["x"].astype(np.float32),
            "s": arrays["x"] + arrays["k"],
        },
    ),
    Case(
        "types/uint64_to_float16",
        "uint64[4] x",
        "y = Cast<to=10>(x)",
        feeds={"x": np.array([2**63, 2**63 + 2**62, 65519, 2049], np.uint64)},
    ),
    *(
        Case(
            f"types/{dtype.__name__}_quotients",
            f"{dtype.__name__}[12,12] x, {dtype.__name__}[12,12] k",
            "q = Div(x, k) r = Mod(x, k) f = Mod<fmod=1>(x, k)",
            outputs=", ".join(f"{dtype.__name__}[12,12] {name}" for name in "qrf"),
            feeds={"x": words(dtype)[:, None].repeat(12, 1), "k": np.maximum(words(dtype)[None].repeat(12, 0), 1)},
            numpy=lambda a, _: {"q": a["x"] // a["k"], "r": a["x"] % a["k"], "f": a["x"] % a["k"]},
        )
        for dtype in (np.uint32, np.uint64)
    ),
    Case(
        "types/uint64_shifted_right",
        "uint64[12,64] x, uint64[64] k",
        'y = BitShift<direction="RIGHT">(x, k)',
        outputs="uint64[12,64] y",
        feeds={"x": words(np.uint64)[:, None].repeat(64, 1), "k": np.arange(64, dtype=np.uint64)},
        numpy=lambda a, _: {"y": a["x"] >> a["k"]},
    ),
    Case(
        "types/float_to_uint64_beyond_63_bits",
        "float[5] x",
        "y = Cast<to=13>(x)",
        outputs="uint64[5] y",
        feeds={"x": np.float32([2.0**63, 1.5 * 2.0**63, 2.0**64 - 2.0**40, 2.0**62 + 2.0**40, 7.9])},
        numpy=lambda a, _: {"y": a["x"].astype(np.uint64)},
    ),
    Case(
        "types/uint32_beyond_31_bits",
        "uint32[3] x, uint32[3] k",
        "m = Max(x, k) l = Less(x, k) a = ArgMax<axis=0, keepdims=0>(x)",
        opset=13,
        outputs="uint32[3] m, bool[3] l, int64 a",
        feeds={"x": np.array([2**31 + 5, 7, 2**32 - 1], np.uint32), "k": np.array([3, 2**31, 2**32 - 2], np.uint32)},
        numpy=lambda arrays, _: {
            "m": np.maximum(arrays["x"], arrays["k"]),
            "l": arrays["x"] < arrays["k"],
            "a": np.int64(2),
        },
    ),
    Case("types/atan_broadcast_of_dynamic", "float[N,3] x", "y = Atan(x)", shapes={"x": (4, 3)}),
]


def top_k_of(largest):
    """k = 3 along axis 1, of equal elements the first."""

    def answer(fed, _):
        x = fed["x"].astype(object)  # exact in every type
        order = np.array(
            [
                [sorted(range(x.shape[1]), key=lambda i: (-row[i] if largest else row[i], i)) for row in block.T]
                for block in x
            ]
        )[:, :, :3]
        at = order.transpose(0, 2, 1).astype(np.int64)
        return {"v": np.take_along_axis(fed["x"], at, 1), "i": at}

    return answer


for dtype in (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64):
    limits, name = np.iinfo(dtype), np.dtype(dtype).name
    some = np.array([limits.min, limits.max, 0, 1, limits.max - 1, limits.max // 2, limits.max // 2 + 1], dtype)
    fed = {"x": np.stack([np.stack([some, np.roll(some, 2)], 1), np.stack([some[::-1], np.full_like(some, 5)], 1)])}
    for largest in (0, 1):
        CASES.append(
            Case(
                f"types/top_k_{'largest' if largest else 'smallest'}_{name}",
                f"{name}[2,7,2] x",
                f"v, i = TopK<axis=1, largest={largest}>(x, k)",
                {"k": i64(3)},
                opset=24,
                outputs=f"{name}[2,3,2] v, int64[2,3,2] i",
                feeds=fed,
                numpy=top_k_of(largest),
            )
        )

# CASTs there and back, between ops that are computed in f32: only what is seen stays.
CASES += [
    Case(
        "casts/there_and_back",
        "float[2,3,5] x",
        "d = Cast<to=11>(x) a = Add(d, c) f = Cast<to=1>(a) n = Neg(f) e = Cast<to=11>(n) y = Mul(e, c)",
        {"c": np.linspace(-2.0, 3.0, 5)},
        outputs="double[2,3,5] y",
    ),
    Case("casts/seen", "float[2,3] x", "d = Cast<to=11>(x) y = Cast<to=1>(d)", outputs="y, d"),
    Case("casts/an_input_that_is_an_output", "float[2,3] x", "d = Cast<to=11>(x) y = Cast<to=1>(d)"),
    Case(
        "casts/integers_to_floats",
        "int8[2,3] x",
        "d = Cast<to=7>(x) f = Cast<to=1>(d) y = Mul(f, f)",
        outputs="float[2,3] y",
        ranges={"x": (-128, 128)},
    ),
    Case(
        "casts/of_a_condition",
        "float[2,3] x",
        "g = Greater(x, z) i = Cast<to=7>(g) b = Cast<to=9>(i) y = Where(b, x, z)",
        {"z": f32(0.25)},
    ),
    # Not the same: f32 has fewer numbers, and i32 has no halves.
    Case(
        "casts/narrower",
        "double[2,3] x",
        "f = Cast<to=1>(x) d = Cast<to=11>(f) y = Cast<to=1>(d)",
        outputs="float[2,3] y, double[2,3] d",
    ),
    Case("casts/integers_between", "float[2,3] x", "i = Cast<to=6>(x) y = Cast<to=1>(i)", ranges={"x": (-9, 9)}),
]
