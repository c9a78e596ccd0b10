# SPDX-License-Identifier: Apache-2.0
"""What fuses into its neighbours, and near misses that must not: each rule's pattern as exporters write it."""

import numpy as np

from tests.support.case import Case, f32, i64

# Batch normalisation as an inference graph has it.
BN = {"bg": (4,), "bb": (4,), "bm": (4,), "bv": np.array([0.5, 1.5, 2.0, 0.25], np.float32)}
W = {"w": (4, 3, 3, 2), "b": (4,)}
X = "float[1,3,7,9] x"
S, T = f32(0.7, -1.3, 0.2, 2.1).reshape(4, 1, 1), f32(-0.4, 0.6, 1.1, -0.9).reshape(1, 4, 1, 1)
INF = float("inf")

CONV = [
    Case(
        "fuse/conv_bn_relu", X, "c = Conv(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) y = Relu(n)", {**W, **BN}
    ),
    Case(
        "fuse/conv_bn_relu6",
        X,
        "c = Conv(x, w) n = BatchNormalization(c, bg, bb, bm, bv) y = Clip(n, lo, hi)",
        {"w": (4, 3, 3, 2), **BN, "lo": np.float32(0), "hi": np.float32(6)},
    ),
    Case(
        "fuse/conv_relu_bn", X, "c = Conv(x, w, b) r = Relu(c) y = BatchNormalization(r, bg, bb, bm, bv)", {**W, **BN}
    ),
    # A convolution of one dimension has RESHAPEs around it.
    Case(
        "fuse/conv_1d_bn_relu",
        "float[2,3,17] x",
        "c = Conv<pads=[1,1]>(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) y = Relu(n)",
        {"w": (4, 3, 3), "b": (4,), **BN},
    ),
    Case(
        "fuse/conv_1d_bn_relu_pool_conv",
        "float[2,3,17] x",
        "c = Conv<pads=[1,1]>(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) r = Relu(n) "
        "p = MaxPool<kernel_shape=[2], strides=[2]>(r) y = Conv(p, v)",
        {"w": (4, 3, 3), "b": (4,), "v": (5, 4, 3), **BN},
    ),
    Case(
        "fuse/conv_1d_depthwise_bn",
        "float[2,4,17] x",
        "c = Conv<group=4>(x, w) n = BatchNormalization(c, bg, bb, bm, bv) y = Relu(n)",
        {"w": (4, 1, 3), **BN},
    ),
    Case(
        "fuse/conv_transpose_1d_bn",
        "float[2,3,17] x",
        "c = ConvTranspose<strides=[2]>(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) y = LeakyRelu(n)",
        {"w": (3, 4, 3), "b": (4,), **BN},
    ),
    Case(
        "fuse/conv_1d_two_uses",
        "float[2,3,17] x",
        "c = Conv(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) r = Relu(n) y = Add(r, c)",
        {"w": (4, 3, 3), "b": (4,), **BN},
    ),
    Case(
        "fuse/conv_1d_scale_along_length",
        "float[2,3,8] x",
        "c = Conv(x, w, b) y = Mul(c, s)",
        {"w": (4, 3, 3), "b": (4,), "s": (6,)},
    ),
    Case(
        "fuse/product_reshape_bias_relu",
        "float[2,3,5] x",
        "c = MatMul(x, w) r = Reshape(c, s) a = Add(r, b) y = Relu(a)",
        {"w": (5, 12), "s": i64(2, 9, 4), "b": (4,)},
    ),
    Case(
        "fuse/product_reshape_bias_of_columns",
        "float[2,3,5] x",
        "c = MatMul(x, w) r = Reshape(c, s) a = Add(r, b) y = Relu(a)",
        {"w": (5, 12), "s": i64(6, 12), "b": (1, 12)},
    ),
    Case(
        "fuse/conv_1d_global_pool",
        "float[2,3,17] x",
        "c = Conv(x, w, b) r = Relu(c) g = GlobalAveragePool(r) f = Flatten(g) y = Gemm(f, v)",
        {"w": (4, 3, 3), "b": (4,), "v": (4, 5)},
    ),
    Case(
        "fuse/bn_relu_conv",
        "float[1,4,7,9] x",
        "n = BatchNormalization(x, bg, bb, bm, bv) r = Relu(n) y = Conv<pads=[1,1,1,1]>(r, w)",
        {"w": (5, 4, 3, 3), **BN},
    ),
    Case(
        "fuse/bn_conv_padded",
        "float[1,4,7,9] x",
        "n = BatchNormalization(x, bg, bb, bm, bv) y = Conv<pads=[1,1,1,1]>(n, w, b)",
        {"w": (5, 4, 3, 3), "b": (5,), **BN},
    ),
    Case(
        "fuse/bn_conv_valid",
        "float[1,4,7,9] x",
        "n = BatchNormalization(x, bg, bb, bm, bv) y = Conv(n, w, b)",
        {"w": (5, 4, 3, 3), "b": (5,), **BN},
    ),
    Case(
        "fuse/bn_conv_grouped",
        "float[1,4,7,9] x",
        "n = BatchNormalization(x, bg, bb, bm, bv) y = Conv<group=2>(n, w, b)",
        {"w": (6, 2, 3, 3), "b": (6,), **BN},
    ),
    Case(
        "fuse/bn_conv_depthwise",
        "float[1,4,7,9] x",
        "n = BatchNormalization(x, bg, bb, bm, bv) y = Conv<group=4>(n, w, b)",
        {"w": (8, 1, 3, 3), "b": (8,), **BN},
    ),
    Case(
        "fuse/conv_grouped_bn",
        "float[1,6,7,9] x",
        "c = Conv<group=2>(x, w, b) y = BatchNormalization(c, bg, bb, bm, bv)",
        {"w": (4, 3, 3, 2), "b": (4,), **BN},
    ),
    Case(
        "fuse/conv_depthwise_bn",
        "float[1,2,7,9] x",
        "c = Conv<group=2>(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) y = Relu(n)",
        {"w": (4, 1, 3, 2), "b": (4,), **BN},
    ),
    Case(
        "fuse/conv_transpose_bn",
        X,
        "c = ConvTranspose<strides=[2,3]>(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) y = Relu(n)",
        {"w": (3, 4, 3, 2), "b": (4,), **BN},
    ),
    Case(
        "fuse/conv3d_bn",
        "float[1,3,5,6,7] x",
        "c = Conv(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) y = Relu(n)",
        {"w": (4, 3, 3, 2, 2), "b": (4,), **BN},
    ),
    Case(
        "fuse/conv1d_bn",
        "float[2,3,9] x",
        "c = Conv(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) y = Relu(n)",
        {"w": (4, 3, 2), "b": (4,), **BN},
    ),
    Case(
        "fuse/gemm_bn",
        "float[2,5] x",
        "c = Gemm<transB=1>(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) y = Relu(n)",
        {"w": (4, 5), "b": (4,), **BN},
    ),
    Case(
        "fuse/bn_gemm",
        "float[2,4] x",
        "n = BatchNormalization(x, bg, bb, bm, bv) y = Gemm<transB=1>(n, w, b)",
        {"w": (5, 4), "b": (5,), **BN},
    ),
    Case(
        "fuse/bn_of_two_users",
        X,
        "c = Conv(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) r = Relu(n) y = Add(r, c)",
        {**W, **BN},
    ),
    Case(
        "fuse/bn_output_too",
        X,
        "c = Conv(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) y = Relu(n)",
        {**W, **BN},
        outputs="y, c, n",
    ),
    Case(
        "fuse/bn_after_residual",
        X,
        "c = Conv(x, w, b) d = Conv(x, v) s = Add(c, d) n = BatchNormalization(s, bg, bb, bm, bv) y = Relu(n)",
        {**W, "v": (4, 3, 3, 2), **BN},
    ),
    Case(
        "fuse/two_bns_one_weight",
        X,
        "c = Conv(x, w, b) d = Conv(x2, w, b) m = Mul(c, s) n = Add(d, t) y = Sub(m, n)",
        {**W, "s": S, "t": T, "x2": (1, 3, 7, 9)},
    ),
    Case(
        "fuse/shared_weights",
        X + ", float[1,3,7,9] x2",
        "c = Conv(x, w, b) d = Conv(x2, w, b) m = Mul(c, s) y = Sub(m, d)",
        {**W, "s": S},
    ),
    Case("fuse/conv_mul_add", X, "c = Conv(x, w, b) m = Mul(c, s) y = Add(m, t)", {**W, "s": S, "t": T}),
    Case("fuse/mul_before_add", X, "c = Conv(x, w) a = Add(c, t) y = Mul(s, a)", {"w": (4, 3, 3, 2), "s": S, "t": T}),
    Case("fuse/sub_const_first", X, "c = Conv(x, w, b) y = Sub(t, c)", {**W, "t": T}),
    Case("fuse/sub_const_second", X, "c = Conv(x, w, b) y = Sub(c, t)", {**W, "t": T}),
    Case(
        "fuse/div_const_first",
        "float[1,3,7,9] x",
        "c = Conv(x, w, b) e = Exp(c) d = Conv(e, v) y = Div(t, d)",
        {**W, "t": T, "v": np.full((4, 4, 1, 1), 0.3, np.float32)},
    ),
    Case("fuse/div_const_second", X, "c = Conv(x, w, b) y = Div(c, s)", {**W, "s": S}),
    Case(
        "fuse/div_by_zero",
        X,
        "c = Conv(x, w, b) d = Div(c, s) y = Clip(d, lo, hi)",
        {**W, "s": f32(1, 0, 2, -3).reshape(4, 1, 1), "lo": np.float32(-50), "hi": np.float32(50)},
    ),
    Case("fuse/add_broadcasts_to_more", X, "c = Conv(x, w, b) y = Add(c, t)", {**W, "t": (2, 4, 1, 1)}),
    Case(
        "fuse/mul_broadcasts_channels",
        "float[1,3,7,9] x",
        "c = Conv(x, w, b) y = Mul(c, t)",
        {"w": (1, 3, 3, 2), "b": (1,), "t": (1, 5, 1, 1)},
    ),
    Case("fuse/mul_per_column", X, "c = Conv(x, w, b) y = Mul(c, t)", {**W, "t": (8,)}),
    Case("fuse/add_per_row", X, "c = Conv(x, w, b) y = Add(c, t)", {**W, "t": (5, 1)}),
    Case("fuse/mul_square_extents", "float[1,3,6,5] x", "c = Conv(x, w, b) y = Mul(c, t)", {**W, "t": (4,)}),
    Case(
        "fuse/scalar_chain",
        X,
        "c = Conv(x, w, b) m = Mul(c, s) a = Add(t, m) d = Div(a, s) y = Sub(d, t)",
        {**W, "s": np.float32(0.3), "t": f32(1.7)},
    ),
    Case("fuse/act_between", X, "c = Conv(x, w, b) r = Relu(c) m = Mul(r, s) y = Add(m, t)", {**W, "s": S, "t": T}),
    Case(
        "fuse/two_acts",
        X,
        "c = Conv(x, w, b) r = Relu(c) s = Clip(r, lo, hi) y = Relu(s)",
        {**W, "lo": np.float32(-1), "hi": np.float32(1)},
    ),
    Case(
        "fuse/clip6_then_clip1",
        X,
        "c = Conv(x, w, b) r = Clip(c, z, six) y = Clip(r, lo, hi)",
        {**W, "lo": np.float32(-1), "hi": np.float32(1), "z": np.float32(0), "six": np.float32(6)},
    ),
    Case("fuse/mul_by_itself", X, "c = Conv(x, w, b) y = Mul(c, c)", W),
    Case(
        "fuse/computed_bias",
        X + ", float[4] bias",
        "c = Conv(x, w, bias) m = Mul(c, s) y = Add(m, t)",
        {"w": (4, 3, 3, 2), "s": S, "t": T},
    ),
    Case(
        "fuse/computed_weights",
        X + ", float[4,3,3,2] w",
        "c = Conv(x, w, b) m = Mul(c, s) y = Add(m, t)",
        {"b": (4,), "s": S, "t": T},
    ),
    Case(
        "fuse/conv_add_infinite_mask",
        X,
        "c = Conv(x, w, b) y = Add(c, t)",
        {**W, "t": f32(0, -INF, 1, 0).reshape(1, 4, 1, 1)},
    ),
    Case(
        "fuse/add_mask_relu",
        "float[2,3,5] x, float[2,3,5] z",
        "s = Add(x, z) m = Add(s, t) y = Relu(m)",
        {"t": f32(0, -INF, 1, INF, 2)},
    ),
    Case(
        "fuse/add_mask_relu6",
        "float[2,3,5] x, float[2,3,5] z",
        "m = Add(x, t) r = Clip(m, lo, hi) y = Add(r, z)",
        {"t": f32(0, -INF, 1, INF, 2), "lo": np.float32(0), "hi": np.float32(6)},
    ),
    Case(
        "fuse/dynamic_batch_bn",
        "float[N,3,7,9] x",
        "c = Conv<pads=[1,1,1,1]>(x, w, b) n = BatchNormalization(c, bg, bb, bm, bv) y = Relu(n)",
        {**W, **BN},
        shapes={"N": 2},
        outputs="float[N,4,7,10] y",
    ),
    Case(
        "fuse/double",
        "double[3,5] x",
        "c = MatMul(x, w) m = Mul(c, s) y = Add(m, s)",
        {"w": np.linspace(-1, 1, 20).reshape(5, 4), "s": np.array([0.3, -2, 1.1, 4])},
    ),
    Case(
        "fuse/half",
        "float16[1,3,7,9] x",
        "c = Conv(x, w) m = Mul(c, s) r = Add(m, s) y = Relu(r)",
        {"w": np.linspace(-1, 1, 72).reshape(4, 3, 3, 2).astype(np.float16), "s": S.astype(np.float16)},
        tolerance=1e-2,
    ),
]

PAD = [
    Case(
        f"fuse/pad_conv_{name}",
        X,
        "p = Pad(x, pads, v) y = Conv<" + attributes + ">(p, w)",
        {"w": (4, 3, 3, 3), "pads": i64(*pads), "v": np.float32(value)},
    )
    for name, attributes, pads, value in [
        ("same", "pads=[0,0,0,0]", [0, 0, 1, 1, 0, 0, 1, 1], 0),
        ("same_strided", "strides=[2,2]", [0, 0, 1, 1, 0, 0, 1, 1], 0),  # 7x9, stride 2: (1,1)
        ("not_zero", "pads=[0,0,0,0]", [0, 0, 1, 1, 0, 0, 1, 1], 0.5),
        ("asymmetric", "pads=[0,0,0,0]", [0, 0, 2, 0, 0, 0, 0, 2], 0),
        ("before_only", "strides=[2,2]", [0, 0, 1, 1, 0, 0, 0, 0], 0),
        ("more", "pads=[0,0,0,0]", [0, 0, 2, 2, 0, 0, 2, 2], 0),
        ("and_own_pads", "pads=[1,1,1,1]", [0, 0, 1, 0, 0, 0, 0, 1], 0),
        ("batch", "pads=[0,0,0,0]", [1, 0, 1, 1, 0, 0, 1, 1], 0),
        ("dilated", "dilations=[2,2]", [0, 0, 2, 2, 0, 0, 2, 2], 0),
        ("negative", "pads=[0,0,0,0]", [0, 0, -1, 1, 0, 0, 1, 1], 0),
        ("own_same", 'auto_pad="SAME_LOWER"', [0, 0, 1, 0, 0, 0, 0, 1], 0),
    ]
] + [
    Case(
        "fuse/pad_conv_channels",
        X,
        "p = Pad(x, pads) y = Conv(p, w)",
        {"w": (4, 4, 3, 3), "pads": i64(0, 1, 1, 1, 0, 0, 1, 1)},
    ),
    Case(
        "fuse/pad_depthwise",
        X,
        "p = Pad(x, pads) y = Conv<group=3>(p, w)",
        {"w": (6, 1, 3, 3), "pads": i64(0, 0, 1, 1, 0, 0, 1, 1)},
    ),
    Case(
        "fuse/pad_even_strided",
        "float[1,3,8,10] x",
        "p = Pad(x, pads) y = Conv<strides=[2,2]>(p, w)",
        {"w": (4, 3, 3, 3), "pads": i64(0, 0, 0, 0, 0, 0, 1, 1)},
    ),
    Case(
        "fuse/pad_two_users",
        X,
        "p = Pad(x, pads) c = Conv(p, w) s = Slice(p, at, to, ax) y = Add(c, s)",
        {"w": (3, 3, 3, 3), "pads": i64(0, 0, 1, 1, 0, 0, 1, 1), "at": i64(1, 1), "to": i64(8, 10), "ax": i64(2, 3)},
    ),
    Case(
        "fuse/pad_max_pool_zero",
        X,
        "p = Pad(x, pads) y = MaxPool<kernel_shape=[3,3]>(p)",
        {"pads": i64(0, 0, 1, 1, 0, 0, 1, 1)},
        ranges={"x": (-3, -1)},
    ),
    Case(
        "fuse/pad_max_pool_lowest",
        X,
        "p = Pad(x, pads, v) y = MaxPool<kernel_shape=[3,3]>(p)",
        {"pads": i64(0, 0, 1, 1, 0, 0, 1, 1), "v": np.float32(-INF)},
        ranges={"x": (-3, -1)},
    ),
    Case(
        "fuse/max_pool_padded",
        X,
        "y = MaxPool<kernel_shape=[3,3], pads=[1,1,1,1], strides=[2,2]>(x)",
        {},
        ranges={"x": (-3, -1)},
    ),
    Case(
        "fuse/pad_average_pool",
        X,
        "p = Pad(x, pads) y = AveragePool<kernel_shape=[3,3]>(p)",
        {"pads": i64(0, 0, 1, 1, 0, 0, 1, 1)},
    ),
    Case(
        "fuse/pad_pad",
        "float[2,3,5] x",
        "p = Pad(x, one) y = Pad(p, two)",
        {"one": i64(0, 1, 2, 1, 0, 0), "two": i64(1, 0, 1, 0, 2, 1)},
    ),
    Case(
        "fuse/pad_pad_other_value",
        "float[2,3,5] x",
        "p = Pad(x, one, v) y = Pad(p, two)",
        {"one": i64(0, 1, 2, 1, 0, 0), "two": i64(1, 0, 1, 0, 2, 1), "v": np.float32(2)},
    ),
    Case(
        "fuse/pad_pad_negative",
        "float[2,3,5] x",
        "p = Pad(x, one) y = Pad(p, two)",
        {"one": i64(0, 1, 2, 1, 0, 0), "two": i64(0, -1, -3, 0, 2, 1)},
    ),
    Case(
        "fuse/pad_pad_reflect",
        "float[2,3,5] x",
        'p = Pad(x, one) y = Pad<mode="reflect">(p, two)',
        {"one": i64(0, 1, 2, 1, 0, 0), "two": i64(0, 1, 1, 0, 2, 1)},
    ),
]

GX = "float[2,3,5] x"
ROOT, HALF, ONE, TANH, CUBIC = (
    np.float32(2**0.5),
    np.float32(0.5),
    np.float32(1),
    np.float32((2 / np.pi) ** 0.5),
    np.float32(0.044715),
)
G = {"r": ROOT, "h": HALF, "o": ONE}
BEND = "d = Div(x, r) e = Erf(d) a = Add(e, o) "
TG = {"k": TANH, "c": CUBIC, "h": HALF, "o": ONE, "three": np.float32(3)}
TBEND = "p = Pow(x, three) q = Mul(c, p) s = Add(x, q) m = Mul(k, s) e = Tanh(m) a = Add(o, e) "
GELU = [
    Case(f"fuse/gelu_{name}", GX, body, {**G, **more}, outputs=outputs)
    for name, body, more, outputs in [
        ("erf_half_last", BEND + "f = Mul(x, a) y = Mul(f, h)", {}, "y"),
        ("erf_half_first", BEND + "f = Mul(h, x) y = Mul(f, a)", {}, "y"),
        ("erf_half_of_bend", BEND + "f = Mul(a, h) y = Mul(x, f)", {}, "y"),
        (
            "erf_times_root",
            "d = Mul(i, x) e = Erf(d) a = Add(o, e) f = Mul(a, x) y = Mul(h, f)",
            {"i": np.float32(0.70710677)},
            "y",
        ),
        ("erf_divided_by_two", BEND + "f = Mul(x, a) y = Div(f, two)", {"two": np.float32(2)}, "y"),
        ("erf_seen", BEND + "f = Mul(x, a) y = Mul(f, h)", {}, "y, e"),
        ("erf_product_seen", BEND + "f = Mul(x, a) y = Mul(f, h)", {}, "y, f"),
        ("near_root", BEND + "f = Mul(x, a) y = Mul(f, h)", {"r": np.float32(1.5)}, "y"),
        ("near_one", BEND + "f = Mul(x, a) y = Mul(f, h)", {"o": np.float32(1.01)}, "y"),
        ("near_half", BEND + "f = Mul(x, a) y = Mul(f, h)", {"h": np.float32(0.49)}, "y"),
        ("root_first", "d = Div(r, x2) e = Erf(d) a = Add(e, o) f = Mul(x, a) y = Mul(f, h)", {"x2": (2, 3, 5)}, "y"),
        (
            "relu_inside",
            "n = Mul(x, i) d = Relu(n) e = Erf(d) a = Add(e, o) f = Mul(x, a) y = Mul(f, h)",
            {"i": np.float32(0.70710677)},
            "y",
        ),
        ("relu_in_the_end", BEND + "f = Mul(x, a) g = Mul(f, h) y = Relu(g)", {}, "y"),
        ("half_relu", BEND + "f = Mul(h, x) g = Relu(f) y = Mul(g, a)", {}, "y"),
        ("vector_half", BEND + "f = Mul(x, a) y = Mul(f, h)", {"h": f32(0.5, 0.5, 0.5, 0.5, 0.25)}, "y"),
        ("larger_half", BEND + "f = Mul(x, a) y = Mul(f, h)", {"h": f32(0.5).reshape(1, 1, 1, 1)}, "y"),
        ("other_x", "z = Neg(x) " + BEND + "f = Mul(z, a) y = Mul(f, h)", {}, "y"),
        ("bend_squared", BEND + "f = Mul(a, a) g = Mul(f, x) y = Mul(g, h)", {}, "y"),
    ]
] + [
    Case(f"fuse/gelu_tanh_{name}", GX, body, {**TG, **more})
    for name, body, more in [
        ("half_last", TBEND + "f = Mul(x, a) y = Mul(f, h)", {}),
        ("half_first", TBEND + "f = Mul(x, h) y = Mul(a, f)", {}),
        ("half_of_bend", TBEND + "f = Mul(h, a) y = Mul(f, x)", {}),
        (
            "products",
            "g = Mul(x, x) p = Mul(g, x) q = Mul(p, c) s = Add(q, x) m = Mul(s, k) e = Tanh(m) a = Add(e, o) f = Mul(x, a) y = Mul(f, h)",
            {},
        ),
        ("other_cubic", TBEND + "f = Mul(x, a) y = Mul(f, h)", {"c": np.float32(0.05)}),
        ("other_root", TBEND + "f = Mul(x, a) y = Mul(f, h)", {"k": np.float32(0.75)}),
        ("fourth_power", TBEND + "f = Mul(x, a) y = Mul(f, h)", {"three": np.float32(4)}),
        (
            "relu_of_cube",
            "p = Pow(x, three) q = Mul(c, p) g = Relu(q) s = Add(x, g) m = Mul(k, s) e = Tanh(m) a = Add(o, e) f = Mul(x, a) y = Mul(f, h)",
            {},
        ),
    ]
]

LN = "m = ReduceMean<axes=[-1]>(x) d = Sub(x, m) s = Mul(d, d) v = ReduceMean<axes=[-1]>(s) e = Add(v, eps) r = Sqrt(e) n = Div(d, r) g = Mul(n, gamma) l = Add(g, beta) "
LNW = {"eps": np.float32(1e-5), "gamma": (5,), "beta": (5,)}
AFFINE = [
    Case("fuse/norm_linear", "float[2,3,5] x", LN + "p = MatMul(l, w) y = Add(p, b)", {**LNW, "w": (5, 7), "b": (7,)}),
    Case(
        "fuse/norm_two_linears",
        "float[2,3,5] x",
        LN + "p = MatMul(l, w) q = MatMul(l, u)",
        {**LNW, "w": (5, 7), "u": (5, 4)},
        outputs="p, q",
    ),
    Case(
        "fuse/norm_shared_weights",
        "float[2,3,5] x",
        LN + "p = MatMul(l, w) q = MatMul(x, w) y = Add(p, q)",
        {**LNW, "w": (5, 7)},
    ),
    Case(
        "fuse/norm_one_cannot",
        "float[2,3,5] x",
        LN + "p = MatMul(l, w) q = Softmax(l)",
        {**LNW, "w": (5, 7)},
        outputs="p, q",
    ),
    Case("fuse/norm_seen", "float[2,3,5] x", LN + "p = MatMul(l, w)", {**LNW, "w": (5, 7)}, outputs="p, l"),
    Case("fuse/norm_scale_seen", "float[2,3,5] x", LN + "p = MatMul(l, w)", {**LNW, "w": (5, 7)}, outputs="p, g"),
    Case(
        "fuse/norm_reshaped",
        "float[2,3,5] x",
        LN + "f = Reshape(l, t) y = Gemm<transB=1>(f, w, b)",
        {**LNW, "t": i64(6, 5), "w": (7, 5), "b": (7,)},
    ),
    Case(
        "fuse/norm_reshaped_otherwise",
        "float[2,3,5] x",
        LN + "f = Reshape(l, t) y = MatMul(f, w)",
        {**LNW, "t": i64(2, 15), "w": (15, 4)},
    ),
    Case(
        "fuse/norm_reshaped_seen",
        "float[2,3,5] x",
        LN + "f = Reshape(l, t) y = Gemm<transB=1>(f, w, b)",
        {**LNW, "t": i64(6, 5), "w": (7, 5), "b": (7,)},
        outputs="y, f",
    ),
    Case("fuse/norm_relu_linear", "float[2,3,5] x", LN + "f = Relu(l) y = MatMul(f, w)", {**LNW, "w": (5, 4)}),
    Case("fuse/norm_square", "float[2,5,5] x", LN + "y = MatMul(l, l)", LNW),
    Case("fuse/norm_right_operand", "float[2,5,5] x", LN + "y = MatMul(w, l)", {**LNW, "w": (7, 5)}),
    Case(
        "fuse/affine_conv_1x1_padded",
        "float[1,4,7,9] x",
        "m = Mul(x, s) a = Add(m, t) y = Conv<pads=[1,1,1,1]>(a, w, b)",
        {"s": S, "t": T, "w": (5, 4, 1, 1), "b": (5,)},
    ),
    Case(
        "fuse/affine_conv_1x1",
        "float[1,4,7,9] x",
        "m = Mul(x, s) a = Add(t, m) y = Conv(a, w, b)",
        {"s": S, "t": T, "w": (5, 4, 1, 1), "b": (5,)},
    ),
    Case(
        "fuse/affine_conv_same",
        "float[1,4,7,9] x",
        'm = Mul(x, s) a = Add(t, m) y = Conv<auto_pad="SAME_UPPER">(a, w)',
        {"s": S, "t": T, "w": (5, 4, 3, 3)},
    ),
    # Products of a factor and a weight that no float holds, though those with x are small.
    Case(
        "fuse/affine_huge_factor",
        "float[2,5] x",
        "m = Mul(x, s) y = MatMul(m, w)",
        {"s": f32(1e30, 2, 3, 4, 5), "w": np.linspace(-1e30, 1e30, 35, dtype=np.float32).reshape(5, 7)},
        feeds={"x": np.full((2, 5), 1e-30, np.float32)},
    ),
    Case(
        "fuse/scale_huge_factor",
        "float[2,5] x",
        "m = MatMul(x, w) y = Mul(m, s)",
        {"s": f32(1e30, 2, 3), "w": np.linspace(-1e9, 1e9, 15, dtype=np.float32).reshape(5, 3)},
        feeds={"x": np.linspace(1e-31, 1e-30, 10, dtype=np.float32).reshape(2, 5)},
    ),
    Case("fuse/affine_per_column", "float[1,4,7,5] x", "m = Mul(x, s) y = Conv(m, w)", {"s": (5,), "w": (5, 4, 1, 1)}),
    Case("fuse/affine_linear_per_row", "float[5,5] x", "m = Mul(x, s) y = MatMul(m, w)", {"s": (5, 1), "w": (5, 7)}),
    Case(
        "fuse/affine_conv_transpose",
        "float[1,4,7,9] x",
        "m = Mul(x, s) a = Add(t, m) y = ConvTranspose(a, w)",
        {"s": S, "t": T, "w": (4, 5, 3, 2)},
    ),
    Case(
        "fuse/affine_conv_pad",
        "float[1,4,7,9] x",
        "m = Mul(x, s) a = Add(t, m) p = Pad(a, pads) y = Conv(p, w)",
        {"s": S, "t": T, "w": (5, 4, 3, 3), "pads": i64(0, 0, 1, 1, 0, 0, 1, 1)},
    ),
    Case("fuse/affine_broadcast", "float[1,1,5] x", "a = Add(x, t) y = MatMul(a, w)", {"t": (2, 3, 1), "w": (5, 4)}),
    Case(
        "fuse/affine_infinite",
        "float[3,4] x",
        "a = Add(x, t) p = MatMul(a, w) y = Clip(p, lo, hi)",
        {
            "t": f32(0, INF, 0, 1),
            "w": np.abs(np.linspace(0.1, 1, 28, dtype=np.float32).reshape(4, 7)),
            "lo": np.float32(-9),
            "hi": np.float32(9),
        },
    ),
    # Numbers that overflow, vanish or lose their digits where constants are computed with each other first.
    Case(
        "fuse/affine_huge_shift",
        "float[2,5] x",
        "a = Add(x, t) y = MatMul(a, w)",
        {"t": np.full(5, 1e38, np.float32), "w": np.full((5, 3), 10, np.float32)},
        feeds={"x": np.full((2, 5), -1e38, np.float32)},
    ),
    Case(
        "fuse/affine_cancelled_shift",
        "float[2,5] x",
        "a = Add(x, t) y = MatMul(a, w)",
        {"t": np.full(5, -1e7, np.float32), "w": (5, 3)},
        feeds={"x": 1e7 + np.arange(10, dtype=np.float32).reshape(2, 5)},
    ),
    Case(
        "fuse/scale_shift_rounds",
        "float[2,5] x",
        "p = MatMul(x, w) a = Add(p, t) y = Sub(a, t)",
        {"t": np.full(3, 1.5 * 2**23, np.float32), "w": (5, 3)},
    ),
    Case(
        "fuse/scale_vanishing_factor",
        "float[2,5] x",
        "p = MatMul(x, w) s = Mul(p, c) y = Mul(s, d)",
        {"w": np.full((5, 3), 1e-20, np.float32), "c": f32(1e-30, 2e-30, 3e-30), "d": f32(1e30, 2e30, 3e30)},
        feeds={"x": np.linspace(1e20, 2e20, 10, dtype=np.float32).reshape(2, 5)},
    ),
    Case(
        "fuse/scale_upwards_huge_factor",
        "float[2,5] x, float[2,3] z",
        "p = MatMul(x, w) s = Mul(p, z) y = Mul(s, d)",
        {"w": (5, 3), "d": np.float32(1e30)},
        feeds={
            "x": np.linspace(1e20, 2e20, 10, dtype=np.float32).reshape(2, 5),
            "z": np.linspace(1e-30, 2e-30, 6, dtype=np.float32).reshape(2, 3),
        },
    ),
    Case(
        "fuse/small_factor_huge_scale",
        "float[1,3,5,7] x",
        "q = Mul(x, x) m = ReduceMean<axes=[2,3]>(q) v = Add(m, e) r = Sqrt(v) s = Reciprocal(r) "
        "t = Mul(s, c) p = Mul(x, t) y = Mul(p, k)",
        {
            "e": np.float32(1),
            "c": f32(1e30, 2e30, 3e30).reshape(1, 3, 1, 1),
            "k": f32(1e16, 2e16, 3e16).reshape(1, 3, 1, 1),
        },
        feeds={"x": np.linspace(-1e-20, 1e-20, 105, dtype=np.float32).reshape(1, 3, 5, 7)},
    ),
    Case(
        "fuse/add_mask_nan",
        "float[2,5] x",
        "m = Add(x, t) y = Sub(s, m)",
        {"t": f32(0, -INF, INF, 2, -INF), "s": f32(1, 2, INF, 3, 4)},
        feeds={"x": f32(2, INF, -INF, np.nan, np.nan, 1, -INF, INF, 5, 7).reshape(2, 5)},
    ),
]

QKV = {"wq": (6, 6), "wk": (6, 6), "bq": (6,), "d": np.float32(1.7), "t": i64(2, 4, 3, 2)}
HEADS = (
    "q = MatMul(x, wq) q1 = Add(q, bq) k = MatMul(x, wk) q2 = Reshape(q1, t) k2 = Reshape(k, t) "
    "q3 = Transpose<perm=[0,2,1,3]>(q2) k3 = Transpose<perm=[0,2,3,1]>(k2) "
)
AX = "float[2,4,6] x"
ATTENTION = [
    Case("fuse/attention_div", AX, HEADS + "s = MatMul(q3, k3) z = Div(s, d) y = Softmax<axis=-1>(z)", QKV),
    Case("fuse/attention_mul", AX, HEADS + "s = MatMul(q3, k3) z = Mul(d, s) y = Softmax<axis=-1>(z)", QKV),
    Case(
        "fuse/attention_vector",
        AX,
        HEADS + "s = MatMul(q3, k3) z = Mul(s, f) y = Softmax<axis=-1>(z)",
        {**QKV, "f": (4,)},
    ),
    Case(
        "fuse/attention_one_element",
        AX,
        HEADS + "s = MatMul(q3, k3) z = Mul(s, f) y = Softmax<axis=-1>(z)",
        {**QKV, "f": f32(0.6).reshape(1, 1, 1, 1)},
    ),
    Case(
        "fuse/attention_mask_first",
        AX,
        HEADS + "s = MatMul(q3, k3) a = Add(s, mask) z = Div(a, d) y = Softmax<axis=-1>(z)",
        {**QKV, "mask": (4, 4)},
    ),
    Case(
        "fuse/attention_mask_after",
        AX,
        HEADS + "s = MatMul(q3, k3) z = Div(s, d) a = Add(z, mask) y = Softmax<axis=-1>(a)",
        {**QKV, "mask": np.triu(np.full((4, 4), -INF, np.float32), 1)},
    ),
    Case(
        "fuse/attention_shared_q",
        AX,
        HEADS + "s = MatMul(q3, k3) z = Div(s, d) y = Softmax<axis=-1>(z)",
        QKV,
        outputs="y, q1",
    ),
    Case(
        "fuse/attention_scores_seen",
        AX,
        HEADS + "s = MatMul(q3, k3) z = Div(s, d) y = Softmax<axis=-1>(z)",
        QKV,
        outputs="y, s",
    ),
    Case(
        "fuse/attention_q_with_itself",
        AX,
        "q = MatMul(x, wq) k = Transpose<perm=[0,2,1]>(q) s = MatMul(q, k) y = Div(s, d)",
        QKV,
    ),
    Case(
        "fuse/attention_one_projection",
        AX,
        "q = MatMul(x, wq) k = MatMul(x2, wq) k1 = Transpose<perm=[0,2,1]>(k) s = MatMul(q, k1) y = Div(s, d)",
        {**QKV, "x2": (2, 4, 6)},
    ),
    Case(
        "fuse/attention_relu_q",
        AX,
        "q = MatMul(x, wq) q1 = Relu(q) k = Transpose<perm=[0,2,1]>(x) s = MatMul(q1, k) y = Mul(s, d)",
        {**QKV, "d": np.float32(-2)},
    ),
    Case(
        "fuse/attention_const_over_scores",
        AX,
        HEADS + "s = MatMul(q3, k3) e = Exp(s) z = Div(d, e) y = Softmax<axis=-1>(z)",
        QKV,
    ),
    Case(
        "fuse/scale_dynamic",
        "float[N,4,6] x",
        "q = MatMul(x, wq) k = Transpose<perm=[0,2,1]>(x) s = MatMul(q, k) y = Div(s, d)",
        QKV,
        shapes={"N": 3},
        outputs="float[N,4,4] y",
    ),
]

HX = "float[2,3,4,5] x"
ROWS = {"s": i64(6, 20), "w": (7, 20), "b": (7,), "o": i64(2, 3, 7)}
JX = "float[2,12] a, float[2,20] x"
JOINED = "p = Reshape(a, s) q = Reshape(x, t) "
PARTS = {"s": i64(2, 3, 4), "t": i64(2, 5, 4), "o": i64(2, 8, 2, 2)}
RESHAPES = [
    # A RESHAPE of attention's heads that merges axes gets the leading axes of the one behind the product.
    Case("fuse/heads_product", HX, "t = Reshape(x, s) p = Gemm<transB=1>(t, w, b) r = Relu(p) y = Reshape(r, o)", ROWS),
    Case(
        "fuse/heads_two_products",
        HX,
        "t = Reshape(x, s) p = Gemm<transB=1>(t, w) q = Gemm<transB=1>(t, v) e = Softmax<axis=1>(q) "
        "y = Reshape(p, o) z = Reshape(e, u)",
        {**ROWS, "v": (9, 20), "u": i64(2, 3, 9)},
        outputs="y, z",
    ),
    Case(
        "fuse/heads_sum_of_two",
        HX + ", float[2,3,4,5] x2",
        "t = Reshape(x, s) t2 = Reshape(x2, s) a = Add(t, t2) m = Mul(a, v) d = ReduceMean<axes=[1]>(m) "
        "c = Sub(m, d) p = Gemm<transB=1>(c, w, b) y = Reshape(p, o)",
        {**ROWS, "v": (1, 20)},
    ),
    Case(
        "fuse/heads_open_batch",
        "float[N,3,4,5] x",
        "t = Reshape(x, s) p = Gemm<transB=1>(t, w, b) y = Reshape(p, o)",
        {**ROWS, "s": i64(-1, 20), "o": i64(-1, 3, 7)},
        shapes={"N": 2},
        outputs="float[N,3,7] y",
    ),
    Case(
        "fuse/heads_other_rows",  # the RESHAPEs behind differ
        HX,
        "t = Reshape(x, s) p = Gemm<transB=1>(t, w, b) y = Reshape(p, o) z = Reshape(p, u)",
        {**ROWS, "u": i64(3, 2, 7)},
        outputs="y, z",
    ),
    Case(
        "fuse/heads_columns_split",  # the one behind does not keep the last axis
        HX,
        "t = Reshape(x, s) p = Gemm<transB=1>(t, w) y = Reshape(p, o)",
        {**ROWS, "w": (14, 20), "o": i64(2, 3, 2, 7)},
    ),
    Case(
        "fuse/heads_rows_are_output",
        HX,
        "t = Reshape(x, s) p = Gemm<transB=1>(t, w, b) y = Reshape(p, o)",
        ROWS,
        outputs="y, p",
    ),
    # Parts that are reshaped before and behind their Concat get the last shape at once.
    Case("fuse/joined_split", JX, JOINED + "c = Concat<axis=1>(p, q) y = Reshape(c, o)", PARTS),
    Case(
        "fuse/joined_lifted", JX, JOINED + "c = Concat<axis=1>(p, q) y = Reshape(c, o)", {**PARTS, "o": i64(2, 8, 4, 1)}
    ),
    Case("fuse/joined_merged", JX, JOINED + "c = Concat<axis=1>(p, q) y = Reshape(c, o)", {**PARTS, "o": i64(16, 4)}),
    Case(
        "fuse/joined_constant",
        "float[2,20] x",
        "q = Reshape(x, t) c = Concat<axis=1>(k, q) y = Reshape(c, o)",
        {**PARTS, "k": (2, 3, 4)},
    ),
    Case(
        "fuse/joined_part_used",
        JX,
        JOINED + "c = Concat<axis=1>(p, q) y = Reshape(c, o) z = Exp(p)",
        PARTS,
        outputs="y, z",
    ),
    Case(
        "fuse/joined_open",
        "float[N,12] a, float[N,20] x",
        JOINED + "c = Concat<axis=1>(p, q) y = Reshape(c, o)",
        {"s": i64(-1, 3, 4), "t": i64(-1, 5, 4), "o": i64(-1, 8, 2, 2)},
        shapes={"N": 3},
        outputs="float[N,8,2,2] y",
    ),
]

CASES = CONV + PAD + GELU + AFFINE + ATTENTION + RESHAPES
