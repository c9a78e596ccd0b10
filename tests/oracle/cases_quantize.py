# SPDX-License-Identifier: Apache-2.0
"""QuantizeLinear and DequantizeLinear: whole tensors, along an axis, by blocks; ONNX's
integers are plain numbers to every operator between the two.
"""

import ml_dtypes
import numpy as np

from tests.support.case import Case, f32, i64

# Types of 8 bits with ONNX's numbers.
SMALL_FLOATS = {"float8e4m3fn": 17, "float8e4m3fnuz": 18, "float8e5m2": 19, "float8e5m2fnuz": 20}

CASES = []

SCALE, U8, I8 = np.float32(0.05), np.uint8(100), np.int8(-7)
X = {"x": (-9, 9)}
CASES += [
    Case("quantize/uint8", "float[2,3,4] x", "y = QuantizeLinear(x, s, z)", {"s": SCALE, "z": U8}, ranges=X),
    Case("quantize/int8", "float[2,3,4] x", "y = QuantizeLinear(x, s, z)", {"s": SCALE, "z": I8}, ranges=X),
    Case("quantize/no_zero_point", "float[2,3,4] x", "y = QuantizeLinear(x, s)", {"s": SCALE}, ranges=X),
    Case(
        "quantize/uint16",
        "float[2,3,4] x",
        "y = QuantizeLinear(x, s, z)",
        {"s": SCALE, "z": np.uint16(3000)},
        opset=21,
        ranges=X,
    ),
    Case(
        "quantize/int16_with_zero_point",
        "float[2,3,4] x",
        "y = QuantizeLinear(x, s, z)",
        {"s": SCALE, "z": np.int16(30)},
        opset=21,
        ranges=X,
    ),
    Case(
        "quantize/int16",
        "float[2,3,4] x",
        "y = QuantizeLinear(x, s, z)",
        {"s": SCALE, "z": np.int16(0)},
        opset=21,
        ranges=X,
    ),
    Case(
        "quantize/saturates",
        "float[4] x",
        "y = QuantizeLinear(x, s, z)",
        {"s": SCALE, "z": U8},
        feeds={"x": f32(1e6, -1e6, 12, -12)},
    ),
    Case(
        "quantize/nan_of_a_constant",
        "float[4] x",
        "q = QuantizeLinear(w, s, z) d = DequantizeLinear(q, s, z) y = Add(x, d)",
        {"w": f32(1, np.nan, -3, 1e6), "s": SCALE, "z": I8},
    ),
    Case(
        "quantize/int32",
        "int32[2,3] x",
        "y = QuantizeLinear(x, s, z)",
        {"s": np.float32(2.1), "z": I8},
        ranges={"x": (-300, 300)},
        numpy=lambda arrays, _: {"y": np.clip(np.round(arrays["x"] / np.float32(2.1)) - 7, -128, 127).astype(np.int8)},
    ),
    Case(
        "quantize/ties_along_axis",
        "float[1,9] x",
        "y = QuantizeLinear<axis=0>(x, s, z)",
        {"s": f32(0.5), "z": I8.reshape(1)},
        opset=21,
        feeds={"x": f32(0.25, 0.75, 1.25, 1.75, -0.25, -0.75, -1.25, -1.75, 0).reshape(1, 9)},
    ),
    Case(
        "quantize/along_axis",
        "float[2,3,4] x",
        "y = QuantizeLinear<axis=1>(x, s, z)",
        {"s": f32(0.1, 0.02, 0.5), "z": np.array([3, 0, -9], np.int8)},
        ranges=X,
    ),
    Case(
        "quantize/at_run_time",
        "float[2,3,4] x, float s, uint8 z",
        "y = QuantizeLinear(x, s, z)",
        ranges={**X, "s": (0.04, 0.2), "z": (10, 200)},
    ),
    Case("dequantize/uint8", "uint8[2,3,4] x", "y = DequantizeLinear(x, s, z)", {"s": SCALE, "z": U8}),
    Case(
        "dequantize/int32",
        "int32[2,3,4] x",
        "y = DequantizeLinear(x, s)",
        {"s": SCALE},
        ranges={"x": (-(2**30), 2**30)},
    ),
    Case(
        "dequantize/along_axis",
        "int8[2,3,4] x",
        "y = DequantizeLinear<axis=-2>(x, s, z)",
        {"s": f32(0.1, 0.02, 0.5), "z": np.array([3, 0, -9], np.int8)},
    ),
    Case(
        "dequantize/at_run_time",
        "int8[2,3,4] x, float[4] s",
        "y = DequantizeLinear<axis=2>(x, s)",
        ranges={"s": (0.04, 0.2)},
    ),
    Case(
        "dequantize/constant_weights",
        "float[1,3,7,9] x",
        "w = DequantizeLinear<axis=0>(q, s, z) y = Conv(x, w)",
        {
            "q": np.random.default_rng(2).integers(-128, 128, (4, 3, 3, 2)).astype(np.int8),
            "s": f32(0.1, 0.02, 0.5, 0.03),
            "z": np.zeros(4, np.int8),
        },
    ),
    Case(
        "dequantize/constant_blocks",
        "float[2,7] x",
        "w = DequantizeLinear<axis=0, block_size=3>(q, s, z) y = MatMul(x, w)",
        {
            "q": np.random.default_rng(2).integers(0, 256, (7, 5)).astype(np.uint8),
            "s": np.random.default_rng(3).uniform(0.01, 0.1, (3, 5)).astype(np.float32),
            "z": np.random.default_rng(4).integers(0, 256, (3, 5)).astype(np.uint8),
        },
        opset=21,
    ),
    Case(
        "dequantize/block_longer_than_the_axis",
        "float[1,3] s, int8[1,3] z",
        "y = DequantizeLinear<axis=0, block_size=2147483647>(q, s, z)",
        {"q": np.arange(-3, 3, dtype=np.int8).reshape(2, 3)},
        opset=21,
        outputs="float[2,3] y",
    ),
    Case(
        "dequantize/blocks_at_run_time",
        "int8[2,8,3] x",
        "y = DequantizeLinear<axis=1, block_size=4>(x, s)",
        {"s": np.random.default_rng(3).uniform(0.01, 0.1, (2, 2, 3)).astype(np.float32)},
        opset=21,
    ),
    Case(
        "dequantize/constant_small_int8",
        "float[2,3] x",
        "w = DequantizeLinear<axis=0>(q, s) y = MatMul(x, w)",
        {"q": np.array([[-8, 7], [3, -1], [0, 5]], np.int8), "s": f32(0.1, 0.02, 0.5)},
    ),
    Case(
        "qdq/pair",
        "float[2,3,4] x",
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)",
        {"s": SCALE, "z": U8},
        ranges=X,
    ),
    Case(
        "qdq/another_scale",
        "float[2,3,4] x",
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, t, z)",
        {"s": SCALE, "t": np.float32(0.5), "z": U8},
        ranges=X,
    ),
    Case(
        "qdq/also_an_output",
        "float[2,3,4] x",
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)",
        {"s": SCALE, "z": U8},
        ranges=X,
        outputs="q, y",
    ),
    Case(
        "qdq/moved_between",
        "float[2,3,4] x",
        "q = QuantizeLinear(x, s, z) t = Transpose<perm=[2,0,1]>(q) p = Pad(t, e) y = DequantizeLinear(p, s, z)",
        {"s": SCALE, "z": I8, "e": i64(0, 1, 0, 0, 0, 2)},
        ranges=X,
    ),
    Case(
        "qdq/integers_are_plain_numbers",
        "float[2,3,4] x",
        "q = QuantizeLinear(x, s, z) c = Cast<to=6>(q) m = Max(q, z) y = DequantizeLinear(m, s, z)",
        {"s": SCALE, "z": I8},
        ranges=X,
        outputs="c, y",
    ),
    Case(
        "qdq/convolution",
        "float[1,3,7,9] x",
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) w = DequantizeLinear<axis=0>(v, t, u) c = Conv(d, w) "
        "o = QuantizeLinear(c, r, z) y = DequantizeLinear(o, r, z)",
        {
            "v": np.random.default_rng(2).integers(-128, 128, (4, 3, 3, 2)).astype(np.int8),
            "t": f32(0.01, 0.002, 0.005, 0.003),
            "u": np.zeros(4, np.int8),
            "s": np.float32(0.02),
            "r": np.float32(0.07),
            "z": I8,
        },
        tolerance=0.01,
    ),
    Case("qdq/dynamic", "float[2,3,4] x", "y, s, z = DynamicQuantizeLinear(x)", ranges=X, outputs="y, s, z"),
    Case(
        "qdq/dynamic_all_positive",
        "float[2,3,4] x",
        "y, s, z = DynamicQuantizeLinear(x)",
        ranges={"x": (2, 9)},
        outputs="y, s, z",
    ),
    Case(
        "qdq/dynamic_zeros",
        "float[4] x",
        "y, s, z = DynamicQuantizeLinear(x)",
        feeds={"x": f32(0, 0, 0, 0)},
        outputs="y, s, z",
    ),
    # 37 numbers halfway between two steps: kernels work in vectors, and may treat the rest by other rules.
    Case(
        "quantize/halves",
        "float[37] x",
        "y = QuantizeLinear(x, s, z)",
        {"s": np.float32(0.5), "z": I8},
        feeds={"x": (np.arange(37, dtype=np.float32) - 18) / 2 + 0.25},
    ),
    # Multiplying by the inverse of 0.3 gives other quotients than dividing by it.
    Case(
        "quantize/quotients",
        "float[255] x",
        "y = QuantizeLinear(x, s, z)",
        {"s": np.float32(0.3), "z": np.int8(0)},
        feeds={"x": (np.arange(255, dtype=np.float32) - 127.5) * np.float32(0.3)},
    ),
    Case(
        "quantize/infinities",
        "float[4] x",
        "y = QuantizeLinear(x, s, z)",
        {"s": SCALE, "z": U8},
        feeds={"x": f32(np.inf, -np.inf, 3e38, -3e38)},
    ),
    Case(
        "quantize/float16",
        "float16[2,3,4] x",
        "y = QuantizeLinear(x, s, z)",
        {"s": np.float16(0.05), "z": U8},
        opset=21,
        ranges=X,
    ),
    Case(
        "quantize/output_dtype",
        "float[2,3,4] x",
        "y = QuantizeLinear<output_dtype=3>(x, s)",
        {"s": SCALE},
        opset=21,
        ranges=X,
    ),
    Case(
        "quantize/blocks_cut_off",
        "float[2,7,3] x",
        "y = QuantizeLinear<axis=1, block_size=4>(x, s, z)",
        {
            "s": np.random.default_rng(3).uniform(0.05, 0.1, (2, 2, 3)).astype(np.float32),
            "z": np.random.default_rng(4).integers(-9, 9, (2, 2, 3)).astype(np.int8),
        },
        opset=21,
        ranges=X,
    ),
    Case(
        "quantize/opset_10", "float[2,3,4] x", "y = QuantizeLinear(x, s, z)", {"s": SCALE, "z": I8}, opset=10, ranges=X
    ),
    # The schema's default, written out.
    Case(
        "quantize/precision_0",
        "float[2,3,4] x",
        "y = QuantizeLinear<precision=0, output_dtype=0>(x, s, z)",
        {"s": SCALE, "z": I8},
        opset=23,
        ranges=X,
    ),
    Case(
        "quantize/precision_float16",
        "float[255] x",
        "y = QuantizeLinear<precision=10>(x, s, z)",
        {"s": np.float32(0.3), "z": np.int16(0)},
        opset=23,
        feeds={"x": np.linspace(-400, 400, 255).astype(np.float32)},
        numpy=lambda arrays, _: {"y": np.rint((arrays["x"] / np.float32(0.3)).astype(np.float16)).astype(np.int16)},
    ),
    Case(
        "qdq/microsoft",
        "float[2,3,4] x",
        "q = com.microsoft.QuantizeLinear(x, s, z) y = com.microsoft.DequantizeLinear(q, s, z)",
        {"s": SCALE, "z": U8},
        ranges=X,
        opsets={"com.microsoft": 1},
        outputs="float[2,3,4] y",
    ),
    Case(
        "qdq/microsoft_along_axis",
        "float[2,3,4] x",
        "q = com.microsoft.QuantizeLinear<axis=1>(x, s, z) y = com.microsoft.DequantizeLinear<axis=1>(q, s, z)",
        {"s": f32(0.1, 0.02, 0.5), "z": np.array([3, 0, 99], np.uint8)},
        ranges=X,
        opsets={"com.microsoft": 1},
        outputs="float[2,3,4] y",
    ),
    Case(
        "qdq/halves_then_output",
        "float[37] x",
        "q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)",
        {"s": np.float32(0.5), "z": U8},
        outputs="q, y",
        feeds={"x": (np.arange(37, dtype=np.float32) - 18) / 2 + 0.25},
    ),
    Case(
        "qdq/convolution_between",
        "float[1,3,7,9] x",
        "q = QuantizeLinear(x, s, z) t = MaxPool<kernel_shape=[2,2]>(q) d = DequantizeLinear(t, s, z) y = Conv(d, w)",
        {"w": (4, 3, 3, 2), "s": np.float32(0.02), "z": I8},
        opset=13,
    ),
    Case(
        "dequantize/large_constant_blocks",
        "float[2,512] x",
        "w = DequantizeLinear<axis=0, block_size=64>(q, s, z) y = MatMul(x, w)",
        {
            "q": np.random.default_rng(2).integers(0, 256, (512, 257)).astype(np.uint8),
            "s": np.random.default_rng(3).uniform(0.01, 0.1, (8, 257)).astype(np.float32),
            "z": np.random.default_rng(4).integers(0, 256, (8, 257)).astype(np.uint8),
        },
        opset=21,
    ),
    Case(
        "dequantize/int32_along_axis",
        "int32[2,3,4] x",
        "y = DequantizeLinear<axis=0>(x, s)",
        {"s": f32(0.1, 0.02)},
        ranges={"x": (-(2**30), 2**30)},
    ),
    Case(
        "dequantize/float16",
        "int8[2,3,4] x",
        "y = DequantizeLinear(x, s, z)",
        {"s": np.float16(0.05), "z": I8},
        opset=21,
    ),
    Case(
        "qdq/dynamic_shape",
        "float[N,3,H,W] x",
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) c = Conv<pads=[1,1,1,1]>(d, w) y = QuantizeLinear<axis=1>(c, t, a)",
        {
            "w": (4, 3, 3, 3),
            "s": np.float32(0.02),
            "z": I8,
            "t": f32(0.1, 0.02, 0.5, 0.3),
            "a": np.array([3, 0, 99, 4], np.uint8),
        },
        shapes={"x": (2, 3, 7, 9)},
    ),
    Case(
        "qdq/dynamic_quantization_of_dynamic_shape",
        "float[N,L,5] x",
        "q, s, z = DynamicQuantizeLinear(x) m = MatMulInteger(q, w, z) f = Cast<to=1>(m) y = Mul(f, s)",
        # Of 7 bits: ONNX Runtime's products of u8 and i8 saturate on processors without VNNI.
        {"w": np.random.default_rng(2).integers(-64, 64, (5, 4)).astype(np.int8)},
        shapes={"x": (2, 3, 5)},
        ranges=X,
    ),
    Case(
        "dequantize/blocks_of_dynamic_batch",
        "int8[N,8,3] x, float[N,2,3] s",
        "y = DequantizeLinear<axis=1, block_size=4>(x, s)",
        opset=21,
        shapes={"x": (2, 8, 3), "s": (2, 2, 3)},
        ranges={"s": (0.04, 0.2)},
    ),
    Case(
        "quantize/uint4_odd_count",
        "float[3,5] x",
        "y = QuantizeLinear<output_dtype=21>(x, s) ",
        {"s": np.float32(0.9)},
        opset=21,
        ranges=X,
        outputs="uint4[3,5] y",
        numpy=lambda arrays, _: {"y": np.clip(np.rint(arrays["x"] / np.float32(0.9)), 0, 15).astype(ml_dtypes.uint4)},
    ),
    # No kernel moves u4.
    Case(
        "qdq/uint4_transposed",
        "float[2,3,5] x",
        "q = QuantizeLinear<output_dtype=21>(x, s) t = Transpose<perm=[2,0,1]>(q) y = DequantizeLinear(t, s)",
        {"s": np.float32(0.3)},
        opset=21,
        ranges=X,
        outputs="float[5,2,3] y",
    ),
    Case(
        "quantize/uint4_of_a_shape_of_the_run",
        "float[A,B] x",
        "q = Cast<to=21>(x) s = Shape(q) n = Size(q)",
        opset=21,
        shapes={"x": (2, 3)},
        outputs="int64[2] s, int64 n",
        numpy=lambda arrays, _: {"s": np.array([2, 3], np.int64), "n": np.array(6, np.int64)},
    ),
    *[
        Case(
            f"quantize/{kind}_gathered_in_a_loop",
            "float[A,B] x, int64 n",
            f"""q = Cast<to={number}>(x)
            last, all = Loop(n, go, q) <body = b (int64 i, bool g, {kind}[A,B] now) => (bool more, {kind}[A,B] t, {kind}[A,B] r) {{
                more = Identity(g)
                t = Identity(now)
                r = Identity(now)
            }}>
            y = Cast<to=1>(all)""",
            {"go": np.array(True)},
            opset=24,
            shapes={"x": (2, 3)},
            outputs="float[T,A,B] y",
            feeds={"x": np.float32([[1, 2, 4], [8, 1, 2]]), "n": np.array(2, np.int64)},
            numpy=lambda arrays, _: {"y": np.stack([arrays["x"]] * 2)},
        )
        for kind, number in (("uint4", 21), ("float8e8m0", 24))
    ],
    Case(
        "quantize/float8",
        "float[3,5] x",
        "y = QuantizeLinear<output_dtype=17>(x, s)",
        {"s": SCALE},
        opset=21,
        outputs="float8e4m3fn[3,5] y",
        numpy=lambda arrays, _: {"y": (arrays["x"] / np.float32(SCALE)).astype(ml_dtypes.float8_e4m3fn)},
    ),
    *(
        Case(
            f"quantize/{kind}_and_back",
            "float[3,5] x",
            f"z = Cast<to={number}>(zero) q = QuantizeLinear(x, s, z) y = DequantizeLinear(q, s, z)",
            {"s": np.float32(0.013), "zero": np.float32(0)},
            opset=21,
            ranges={"x": (-9, 9)},
        )
        for kind, number in SMALL_FLOATS.items()
    ),
    # As ModelOpt writes networks: activations by pairs, weights behind DequantizeLinear, moves between a pair.
    *(
        Case(
            f"quantize/{kind}_network",
            "float[1,4,11,5] x",
            f"""z = Cast<to={number}>(zero) w8 = Cast<to={number}>(w) v8 = Cast<to={number}>(v)
                q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) wd = DequantizeLinear<axis=0>(w8, t)
                c = Conv<pads=[1,1,1,1]>(d, wd) r = Relu(c) rq = QuantizeLinear(r, s, z)
                rt = Transpose<perm=[0,2,3,1]>(rq) rr = Reshape(rt, shape) rd = DequantizeLinear(rr, s, z)
                vd = DequantizeLinear(v8, s, z) y = MatMul(rd, vd)""",
            {
                # Powers of two: sums are exact, and a tie is one in both runtimes.
                "s": np.float32(2**-5),
                "t": np.float32([0.5, 0.25, 2, 1, 0.125, 4]),
                "zero": np.float32(0),
                "w": (6, 4, 3, 3),
                "v": (33, 7),
                "shape": np.array([-1, 33]),
            },
            opset=24,
            ranges={"x": (-5, 5)},
        )
        for kind, number in SMALL_FLOATS.items()
    ),
    Case(
        "quantize/float8_scales_by_blocks",
        "float[2,8,3] x",
        """w8 = Cast<to=17>(w) wd = DequantizeLinear<axis=1, block_size=4>(w8, s) y = Add(x, wd)""",
        {"w": (2, 8, 3), "s": np.float32(np.arange(1, 13).reshape(2, 2, 3) / 16)},
        opset=21,
    ),
    Case(
        "quantize/float8_moved_as_bits",
        "float8e4m3fn[3,5] x",
        "t = Transpose(x) y = Reshape(t, shape) f = Cast<to=1>(x)",
        {"shape": np.array([15])},
        opset=21,
        feeds={"x": np.arange(120, 135, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).reshape(3, 5)},
        outputs="float8e4m3fn[15] y, float[3,5] f",
        numpy=lambda arrays, _: {"y": arrays["x"].T.reshape(15), "f": arrays["x"].astype(np.float32)},
    ),
    Case(
        "quantize/float8_chosen_by_if",
        "float8e5m2[3,5] x, bool which",
        """y = If(which) <then_branch = g () => (float8e5m2[3,5] a) { a = Identity(x) },
                       else_branch = h () => (float8e5m2[3,5] b) { n = Cast<to=1>(x) m = Neg(n) b = Cast<to=19>(m) }>""",
        opset=21,
        feeds={
            "x": np.arange(110, 125, dtype=np.uint8).view(ml_dtypes.float8_e5m2).reshape(3, 5),
            "which": np.array(False),
        },
        outputs="float8e5m2[3,5] y",
        # Saturated: the infinity becomes the largest number.
        numpy=lambda arrays, _: {
            "y": np.clip(-arrays["x"].astype(np.float32), -57344, 57344).astype(ml_dtypes.float8_e5m2)
        },
    ),
    Case(
        "quantize/float4",
        "float[3,5] x",
        "q = QuantizeLinear<output_dtype=23>(x, s) y = Identity(q) f = DequantizeLinear(q, s)",
        {"s": SCALE},
        opset=23,
        ranges={"x": (-9, 9)},
        outputs="float4e2m1[3,5] y, float[3,5] f",
        numpy=lambda arrays, _: {
            "y": (q := (arrays["x"] / np.float32(SCALE)).astype(ml_dtypes.float4_e2m1fn)),
            "f": q.astype(np.float32) * np.float32(SCALE),
        },
    ),
    *(
        Case(
            f"quantize/float8e8m0_{mode}",
            "float[3,5] x",
            f'q = Cast<to=24, round_mode="{mode}">(x) y = Cast<to=1>(q)',
            opset=24,
            feeds={
                "x": np.float32(
                    [0, -0.0, 1, 1.25, 1.5, 1.75, 5, -3, 1e-45, 6e-39, 9e-39, 3.4e38, np.inf, -np.inf, np.nan]
                ).reshape(3, 5)
            },
            outputs="float[3,5] y",
        )
        for mode in ("up", "down", "nearest")
    ),
    Case(
        "quantize/float8_computed_on",
        "float8e4m3fn[3,5] x",
        "y = IsNaN(x)",
        opset=20,
        feeds={"x": np.arange(120, 135, dtype=np.uint8).view(ml_dtypes.float8_e4m3fn).reshape(3, 5)},
        numpy=lambda arrays, _: {"y": np.isnan(arrays["x"].astype(np.float32))},
    ),
    Case(
        "quantize/float8e8m0_unsaturated",
        "float[3,5] x",
        "q = Cast<to=24, saturate=0>(x) y = Cast<to=1>(q)",
        opset=24,
        outputs="float[3,5] y",
    ),
    Case(
        "quantize/precision_float64", "float[3,5] x", "y = QuantizeLinear<precision=11>(x, s)", {"s": SCALE}, opset=23
    ),
    Case(
        "dequantize/int32_with_zero_point",
        "int32[3,5] x",
        "y = DequantizeLinear(x, s, z)",
        {"s": SCALE, "z": np.int32(7)},
        numpy=lambda arrays, _: {"y": (arrays["x"] - 7).astype(np.float32) * np.float32(SCALE)},
    ),
]
