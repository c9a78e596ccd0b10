# SPDX-License-Identifier: Apache-2.0
"""Small composed graphs: what settle_layouts and the fusions meet in real networks.

Each is an excerpt of a network with all dimensions different. Some have values that leave the graph in the middle,
or that are used by operators which want different axis orders.
"""

import numpy as np

from tests.oracle.cases_conv import norm_weights
from tests.support.case import Case, f32, i64

CASES = []


def graph(name, dims, body, weights=None, **more):
    CASES.append(Case("graph/" + name, f"float[{dims}] x", body, weights or {}, **more))


W = {"w": (4, 3, 3, 2)}
graph(
    "conv_reshape_transpose_softmax",
    "2,3,7,9",
    "c = Conv(x, w) r = Reshape(c, s) t = Transpose<perm=[0,2,1]>(r) y = Softmax<axis=-1>(t)",
    {**W, "s": i64(2, 4, -1)},
)
graph(
    "conv_transpose_reshape_detection_head",
    "2,3,7,9",
    "c = Conv(x, w) t = Transpose<perm=[0,2,3,1]>(c) y = Reshape(t, s)",
    {**W, "s": i64(2, -1, 2)},
)
graph(
    "two_heads_concatenated",
    "2,3,7,9",
    "a = Conv(x, w) at = Transpose<perm=[0,2,3,1]>(a) ar = Reshape(at, s) b = Conv<strides=[2,2]>(x, v) bt = Transpose<perm=[0,2,3,1]>(b) "
    "br = Reshape(bt, s) c = Concat<axis=1>(ar, br) y = Softmax<axis=2>(c)",
    {**W, "v": (6, 3, 3, 3), "s": i64(2, -1, 2)},
)
graph(
    "residual",
    "2,4,7,9",
    "a = Conv<pads=[1,1,1,1]>(x, w) r = Relu(a) b = Conv<pads=[1,1,1,1]>(r, v) s = Add(b, x) y = Relu(s)",
    {"w": (5, 4, 3, 3), "v": (4, 5, 3, 3)},
)
graph(
    "residual_with_projection",
    "2,3,8,10",
    "a = Conv<pads=[1,1,1,1], strides=[2,2]>(x, w) n = BatchNormalization(a, s, b, m, v) p = Conv<strides=[2,2]>(x, k) q = Add(n, p) y = Relu(q)",
    {"w": (4, 3, 3, 3), "k": (4, 3, 1, 1), **norm_weights(4)},
)
graph(
    "concat_channels",
    "2,3,7,9",
    "a = Conv(x, w) b = Conv(x, v) c = Concat<axis=1>(a, b) y = Conv(c, u)",
    {**W, "v": (5, 3, 3, 2), "u": (6, 9, 2, 3)},
)
graph(
    "concat_with_the_input",
    "2,3,7,9",
    "a = Conv<pads=[1,1,1,1]>(x, w) c = Concat<axis=1>(x, a) y = Conv(c, v)",
    {"w": (4, 3, 3, 3), "v": (5, 7, 2, 3)},
)
graph(
    "squeeze_and_excite",
    "2,6,7,9",
    "p = GlobalAveragePool(x) a = Conv(p, w) r = Relu(a) b = Conv(r, v) s = HardSigmoid(b) m = Mul(x, s) y = Conv(m, u)",
    {"w": (3, 6, 1, 1), "v": (6, 3, 1, 1), "u": (5, 6, 3, 2)},
)
graph(
    "squeeze_and_excite_with_gemm",
    "2,3,7,9",
    "c = Conv(x, w) p = GlobalAveragePool(c) f = Flatten(p) g = Gemm<transB=1>(f, a, b) r = Relu(g) h = Gemm<transB=1>(r, d, e) s = Sigmoid(h) "
    "u = Unsqueeze(s, axes) y = Mul(c, u)",
    {**W, "a": (3, 4), "b": (3,), "d": (4, 3), "e": (4,), "axes": i64(2, 3)},
)
graph(
    "flatten_gemm",
    "2,3,7,9",
    "c = Conv(x, w) r = Relu(c) f = Flatten(r) y = Gemm<transB=1>(f, a, b)",
    {**W, "a": (5, 160), "b": (5,)},
)
graph(
    "reshape_matmul",
    "2,3,7,9",
    "c = Conv(x, w) r = Reshape(c, s) m = MatMul(r, a) y = Add(m, b)",
    {**W, "s": i64(2, -1), "a": (160, 5), "b": (5,)},
)
graph(
    "flatten_two_gemms",
    "2,3,7,9",
    "c = Conv(x, w) f = Flatten(c) y = Gemm(f, a) z = Gemm<transB=1>(f, b)",
    {**W, "a": (160, 5), "b": (6, 160)},
    outputs="y, z",
)
graph(
    "flatten_gemm_and_output",
    "2,3,7,9",
    "c = Conv(x, w) f = Flatten(c) y = Gemm<transB=1>(f, a) z = Neg(f)",
    {**W, "a": (5, 160)},
    outputs="y, z",
)
graph("reshape_after_nchw_conv", "2,3,7,9", "c = Conv(x, w) y = Reshape(c, s)", {**W, "s": i64(2, 8, 20)})
graph("reshape_splits_channels", "2,3,7,9", "c = Conv(x, w) y = Reshape(c, s)", {**W, "s": i64(2, 2, 2, 5, 8)})
graph(
    "reshape_merges_space",
    "2,3,7,9",
    "c = Conv(x, w) r = Reshape(c, s) m = MatMul(r, a) b = Reshape(m, t) y = Conv(b, v)",
    {**W, "s": i64(2, 4, 40), "a": (40, 40), "t": i64(2, 4, 5, 8), "v": (3, 4, 2, 3)},
)
graph(
    "pixel_shuffle_written_out",
    "1,3,5,6",
    "c = Conv(x, w) r = Reshape(c, s) t = Transpose<perm=[0,1,4,2,5,3]>(r) y = Reshape(t, u)",
    {"w": (12, 3, 3, 2), "s": i64(1, 3, 2, 2, 3, 5), "u": i64(1, 3, 6, 10)},
)
graph(
    "channel_shuffle",
    "2,3,7,9",
    "c = Conv(x, w) r = Reshape(c, s) t = Transpose<perm=[0,2,1,3,4]>(r) b = Reshape(t, u) y = Conv(b, v)",
    {"w": (6, 3, 3, 2), "s": i64(2, 2, 3, 5, 8), "u": i64(2, 6, 5, 8), "v": (4, 6, 2, 3)},
)
graph(
    "conv_activation_written_out",
    "2,3,7,9",
    "c = Conv(x, w) s = Sigmoid(c) m = Mul(c, s) y = Conv(m, v)",
    {**W, "v": (5, 4, 2, 3)},
)
graph(
    "hard_swish_written_out",
    "2,3,7,9",
    "c = Conv(x, w) a = Add(c, three) k = Clip(a, zero, six) m = Mul(c, k) y = Div(m, six)",
    {**W, "three": np.float32(3), "zero": np.float32(0), "six": np.float32(6)},
)
graph(
    "per_channel_scale_of_input",
    "2,3,7,9",
    "s = Sub(x, m) d = Div(s, k) y = Conv(d, w)",
    {**W, "m": (1, 3, 1, 1), "k": f32(0.2, 0.3, 0.4).reshape(1, 3, 1, 1)},
)
graph(
    "nhwc_input",
    "2,7,9,3",
    "t = Transpose<perm=[0,3,1,2]>(x) c = Conv(t, w) r = Relu(c) y = Transpose<perm=[0,2,3,1]>(r)",
    W,
)
graph(
    "transpose_that_is_not_nhwc",
    "2,3,7,9",
    "c = Conv(x, w) t = Transpose<perm=[0,1,3,2]>(c) y = Conv(t, v)",
    {**W, "v": (5, 4, 3, 2)},
)
graph(
    "value_used_in_both_orders",
    "2,3,7,9",
    "c = Conv(x, w) r = Reshape(c, s) y = Softmax(r) z = Conv(c, v)",
    {**W, "s": i64(2, 4, 40), "v": (5, 4, 2, 3)},
    outputs="y, z",
)
graph(
    "middle_value_is_output",
    "2,3,7,9",
    "y = Conv(x, w) r = Relu(y) z = Conv(r, v)",
    {**W, "v": (5, 4, 2, 3)},
    outputs="y, z",
)
graph("input_is_output", "2,3,7,9", "y = Identity(x) z = Conv(x, w)", W, outputs="y, z")
graph("output_used_twice", "2,3,7,9", "y = Conv(x, w) z = Relu(y) u = Add(y, z)", W, outputs="y, z, u")
graph("unused_node", "2,3,7,9", "y = Conv(x, w) u = Relu(y) v = Softmax(u)", W)
graph(
    "aspp",
    "1,3,11,13",
    "a = Conv(x, w) b = Conv<dilations=[2,2], pads=[2,2,2,2]>(x, v) g = GlobalAveragePool(x) p = Conv(g, u) s = Shape(a) "
    'q = Slice(s, two, four) e = Concat<axis=0>(head, q) r = Resize<mode="linear">(p, , , e) c = Concat<axis=1>(a, b, r) y = Conv(c, k)',
    {
        "w": (4, 3, 1, 1),
        "v": (5, 3, 3, 3),
        "u": (6, 3, 1, 1),
        "two": i64(2),
        "four": i64(4),
        "head": i64(1, 6),
        "k": (2, 15, 1, 1),
    },
    outputs="float[1,2,11,13] y",
)
graph(
    "u_net",
    "1,3,12,16",
    "a = Conv<pads=[1,1,1,1]>(x, w1) ar = Relu(a) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(ar) b = Conv<pads=[1,1,1,1]>(p, w2) br = Relu(b) "
    "u = ConvTranspose<strides=[2,2]>(br, w3, b3) c = Concat<axis=1>(u, ar) d = Conv<pads=[1,1,1,1]>(c, w4) y = Sigmoid(d)",
    {"w1": (4, 3, 3, 3), "w2": (5, 4, 3, 3), "w3": (5, 6, 2, 2), "b3": (6,), "w4": (2, 10, 3, 3)},
)
graph(
    "duc_head",
    "1,3,7,9",
    "c = Conv<pads=[1,1,1,1]>(x, w) r = Reshape(c, s) t = Transpose<perm=[0,1,4,2,5,3]>(r) q = Reshape(t, u) y = Softmax<axis=1>(q)",
    {"w": (20, 3, 3, 3), "s": i64(1, 5, 2, 2, 7, 9), "u": i64(1, 5, 14, 18)},
)
graph("arg_max_head", "1,3,7,9", "c = Conv(x, w) y = ArgMax<axis=1, keepdims=0>(c)", {"w": (5, 3, 3, 2)})
graph(
    "separable_block",
    "1,4,8,10",
    "a = Conv<group=4, pads=[1,1,1,1], strides=[2,2]>(x, w) n = BatchNormalization(a, s, b, m, v) r = Clip(n, zero, six) y = Conv(r, p)",
    {"w": (4, 1, 3, 3), **norm_weights(4), "zero": np.float32(0), "six": np.float32(6), "p": (6, 4, 1, 1)},
)
graph(
    "self_attention",
    "2,5,12",
    "q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) qr = Reshape(q, s) kr = Reshape(k, s) vr = Reshape(v, s) qt = Transpose<perm=[0,2,1,3]>(qr) "
    "kt = Transpose<perm=[0,2,3,1]>(kr) vt = Transpose<perm=[0,2,1,3]>(vr) a = MatMul(qt, kt) d = Div(a, root) p = Softmax<axis=-1>(d) o = MatMul(p, vt) "
    "ot = Transpose<perm=[0,2,1,3]>(o) y = Reshape(ot, u)",
    {"wq": (12, 12), "wk": (12, 12), "wv": (12, 12), "s": i64(2, 5, 3, 4), "root": np.float32(2), "u": i64(2, 5, 12)},
)
graph(
    "mean_over_space_then_gemm",
    "2,3,7,9",
    "c = Conv(x, w) m = ReduceMean<axes=[2,3], keepdims=0>(c) y = Gemm<transB=1>(m, a, b)",
    {**W, "a": (5, 4), "b": (5,)},
)
graph(
    "1d_network",
    "2,3,20",
    "a = Conv<pads=[1,1], strides=[2]>(x, w) r = Relu(a) p = MaxPool<kernel_shape=[2], strides=[2]>(r) b = Conv(p, v) "
    "g = GlobalAveragePool(b) f = Flatten(g) y = Gemm(f, k)",
    {"w": (4, 3, 3), "v": (6, 4, 3), "k": (6, 5)},
)
graph(
    "3d_network",
    "1,2,6,8,10",
    "a = Conv<pads=[1,1,1,1,1,1]>(x, w) r = Relu(a) p = MaxPool<kernel_shape=[2,2,2], strides=[2,2,2]>(r) y = Conv(p, v)",
    {"w": (3, 2, 3, 3, 3), "v": (4, 3, 2, 3, 2)},
)
graph(
    "equal_dimensions_everywhere",
    "4,4,4,4",
    "c = Conv<pads=[1,1,1,1]>(x, w) r = Reshape(c, s) t = Transpose<perm=[0,2,1,3]>(r) y = Softmax<axis=1>(t)",
    {"w": (4, 4, 3, 3), "s": i64(4, 4, 4, 4)},
)
CASES += [
    Case(
        "graph/two_inputs_of_different_rank",
        "float[2,3,7,9] x, float[2,4] z",
        "c = Conv(x, w) u = Unsqueeze(z, a) y = Mul(c, u)",
        {**W, "a": i64(2, 3)},
    ),
    Case(
        "graph/order_of_inputs_is_kept",
        "float[2,3] zebra, float[2,3] apple, float[2,3] mango",
        "s = Sub(mango, zebra) y = Div(s, apple)",
        ranges={"apple": (1, 2)},
    ),
    Case("graph/unused_input", "float[2,3] x, float[5] unused", "y = Relu(x)"),
    Case("graph/constant_output_only", "float[2,3] x", "y = Mul(k, k)", {"k": (4, 5)}),
    Case(
        "graph/dynamic_batch_network",
        "float[N,3,8,10] x",
        "c = Conv(x, w) r = Relu(c) p = GlobalAveragePool(r) f = Flatten(p) y = Gemm<transB=1>(f, a, b)",
        {**W, "a": (5, 4), "b": (5,)},
        shapes={"x": (6, 3, 8, 10)},
    ),
    Case(
        "graph/dynamic_image",
        "float[1,3,H,W] x",
        "c = Conv<pads=[1,1,1,1]>(x, w) y = Relu(c)",
        {"w": (4, 3, 3, 3)},
        shapes={"x": (1, 3, 9, 11)},
    ),
]
