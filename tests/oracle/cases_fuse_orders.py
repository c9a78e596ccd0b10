# SPDX-License-Identifier: Apache-2.0
"""What moves between axis orders: pixel shuffles, flattens before matrices, reshapes around norms, and all that stands
between two convolutions."""

import numpy as np

from tests.oracle.cases_fuse import LN, LNW, W, X
from tests.support.case import Case, f32, i64


def shuffle(name, perm, apart, together, channels=12, more="", x="float[1,3,5,7] x", weights=None, **how):
    return Case(
        f"fuse/shuffle_{name}",
        x,
        f"c = Conv(x, w, b) {more or 'd = Identity(c)'} "
        f"r = Reshape(d, apart) t = Transpose<perm={perm}>(r) y = Reshape(t, together)",
        {
            "w": (channels, 3, 2, 2),
            "b": (channels,),
            "apart": i64(*apart),
            "together": i64(*together),
            **(weights or {}),
        },
        **how,
    )


SHUFFLE = [
    shuffle("pytorch", "[0,1,4,2,5,3]", (1, 3, 2, 2, 4, 6), (1, 3, 8, 12)),
    # A bias of as many channels as are known at run time only.
    Case(
        "fuse/shuffle_as_depth_to_space",
        "float[1,3,5,7] x",
        'c = Conv(x, v, b) r = Relu(c) y = DepthToSpace<blocksize=2, mode="CRD">(r)',
        {"v": (12, 3, 2, 2), "b": (12,)},
    ),
    Case(
        "fuse/shuffle_bias_at_run_time",
        "float[1,2,3,5] x, float[C] b",
        "m = MatMul(x, w) a = Add(m, b) p = Reshape(a, r) t = Transpose<perm=[0,1,4,2,5,3]>(p) y = Reshape(t, s)",
        {"w": (5, 12), "r": i64(1, 2, 3, 3, 2, 2), "s": i64(1, 4, 6, 3)},
        feeds={
            "x": np.linspace(-1, 1, 30, dtype=np.float32).reshape(1, 2, 3, 5),
            "b": np.arange(12, dtype=np.float32),
        },
        outputs="float[1,4,6,3] y",
    ),
    shuffle("dcr", "[0,3,4,1,5,2]", (1, 2, 2, 3, 4, 6), (1, 3, 8, 12)),
    shuffle("channel_in_the_middle", "[0,2,4,1,5,3]", (1, 2, 3, 2, 4, 6), (1, 3, 8, 12)),
    shuffle("columns_first", "[0,1,4,3,5,2]", (1, 3, 2, 2, 4, 6), (1, 3, 8, 12)),
    shuffle("three_by_two", "[0,1,4,2,5,3]", (1, 2, 3, 2, 4, 6), (1, 2, 12, 12)),
    shuffle("swapped", "[0,1,4,3,5,2]", (1, 2, 3, 2, 4, 6), (1, 2, 8, 18)),
    shuffle("wrong_perm", "[0,1,2,4,3,5]", (1, 3, 2, 2, 4, 6), (1, 3, 8, 12)),
    shuffle("wrong_order", "[0,1,4,2,3,5]", (1, 3, 2, 2, 4, 6), (1, 3, 8, 12)),
    shuffle("together_otherwise", "[0,1,4,2,5,3]", (1, 3, 2, 2, 4, 6), (1, 3, 16, 6)),
    shuffle("relu", "[0,1,4,2,5,3]", (1, 3, 2, 2, 4, 6), (1, 3, 8, 12), more="d = Relu(c)"),
    shuffle(
        "prelu",
        "[0,1,4,2,5,3]",
        (1, 3, 2, 2, 4, 6),
        (1, 3, 8, 12),
        more="d = PRelu(c, slope)",
        weights={"slope": (12, 1, 1)},
    ),
    shuffle(
        "scaled_per_channel",
        "[0,1,4,2,5,3]",
        (1, 3, 2, 2, 4, 6),
        (1, 3, 8, 12),
        more="e = Relu(c) d = Mul(e, slope)",
        weights={"slope": (12, 1, 1)},
    ),
    shuffle(
        "residual",
        "[0,1,4,2,5,3]",
        (1, 3, 2, 2, 4, 6),
        (1, 3, 8, 12),
        more="e = Conv(x, u) d = Add(e, c)",
        weights={"u": (12, 3, 2, 2)},
    ),
    shuffle(
        "residual_of_input",
        "[0,1,4,2,5,3]",
        (1, 3, 2, 2, 4, 6),
        (1, 3, 8, 12),
        x="float[1,3,5,7] x, float[1,12,4,6] z",
        more="d = Add(z, c)",
    ),
    shuffle("residual_twice", "[0,1,4,2,5,3]", (1, 3, 2, 2, 4, 6), (1, 3, 8, 12), more="d = Add(c, c)"),
    shuffle(
        "gate",
        "[0,1,4,2,5,3]",
        (1, 3, 2, 2, 4, 6),
        (1, 3, 8, 12),
        x="float[1,3,5,7] x, float[1,1,4,6] z",
        more="d = Mul(z, c)",
    ),
    shuffle("seen", "[0,1,4,2,5,3]", (1, 3, 2, 2, 4, 6), (1, 3, 8, 12), outputs="y, c"),
    shuffle("batch", "[0,1,4,2,5,3]", (2, 3, 2, 2, 4, 6), (2, 3, 8, 12), x="float[2,3,5,7] x"),
    shuffle("softmax_before", "[0,1,4,2,5,3]", (1, 3, 2, 2, 4, 6), (1, 3, 8, 12), more="d = Softmax<axis=1>(c)"),
    Case(
        "fuse/shuffle_shared_weights",
        "float[1,3,5,7] x, float[1,3,5,7] z",
        "c = Conv(x, w, b) e = Conv(z, w, b) r = Reshape(c, apart) t = Transpose<perm=[0,1,4,2,5,3]>(r) p = Reshape(t, together)",
        {"w": (12, 3, 2, 2), "b": (12,), "apart": i64(1, 3, 2, 2, 4, 6), "together": i64(1, 3, 8, 12)},
        outputs="p, e",
    ),
    Case(
        "fuse/shuffle_grouped",
        "float[1,6,5,7] x",
        "c = Conv<group=2>(x, w, b) r = Reshape(c, apart) t = Transpose<perm=[0,1,4,2,5,3]>(r) y = Reshape(t, together)",
        {"w": (12, 3, 2, 2), "b": (12,), "apart": i64(1, 3, 2, 2, 4, 6), "together": i64(1, 3, 8, 12)},
    ),
    Case(
        "fuse/shuffle_depthwise",
        "float[1,12,5,7] x",
        "c = Conv<group=12>(x, w, b) r = Reshape(c, apart) t = Transpose<perm=[0,1,4,2,5,3]>(r) y = Reshape(t, together)",
        {"w": (12, 1, 2, 2), "b": (12,), "apart": i64(1, 3, 2, 2, 4, 6), "together": i64(1, 3, 8, 12)},
    ),
    Case(
        "fuse/shuffle_of_input",
        "float[1,12,4,6] x",
        "r = Reshape(x, apart) t = Transpose<perm=[0,1,4,2,5,3]>(r) y = Reshape(t, together)",
        {"apart": i64(1, 3, 2, 2, 4, 6), "together": i64(1, 3, 8, 12)},
    ),
    Case(
        "fuse/shuffle_channels_last",
        "float[1,4,6,12] x",
        "r = Reshape(x, apart) t = Transpose<perm=[0,1,3,2,4,5]>(r) y = Reshape(t, together)",
        {"apart": i64(1, 4, 6, 2, 2, 3), "together": i64(1, 8, 12, 3)},
    ),
    Case(
        "fuse/shuffle_int",
        "int32[1,4,6,12] x",
        "r = Reshape(x, apart) t = Transpose<perm=[0,1,3,2,4,5]>(r) y = Reshape(t, together)",
        {"apart": i64(1, 4, 6, 2, 2, 3), "together": i64(1, 8, 12, 3)},
    ),
    Case(
        "fuse/shuffle_int16",
        "int16[1,4,6,12] x",
        "r = Reshape(x, apart) t = Transpose<perm=[0,1,3,2,4,5]>(r) y = Reshape(t, together)",
        {"apart": i64(1, 4, 6, 2, 2, 3), "together": i64(1, 8, 12, 3)},
    ),
    Case(
        "fuse/shuffle_operator_crd",
        "float[1,3,5,7] x",
        'c = Conv(x, w, b) d = Relu(c) y = DepthToSpace<blocksize=2, mode="CRD">(d)',
        {"w": (12, 3, 2, 2), "b": (12,)},
    ),
]

FLATTEN = [
    Case(
        "fuse/flatten_gemm",
        X,
        "c = Conv(x, w, b) f = Flatten(c) y = Gemm<transB=1>(f, v, u)",
        {**W, "v": (6, 160), "u": (6,)},
    ),
    Case(
        "fuse/flatten_relu",
        X,
        "c = Conv(x, w, b) r = Relu(c) f = Flatten(r) y = Gemm<transB=1>(f, v, u)",
        {**W, "v": (6, 160), "u": (6,)},
    ),
    Case(
        "fuse/flatten_then_relu",
        X,
        "c = Conv(x, w, b) f = Flatten(c) r = Relu(f) y = MatMul(r, v)",
        {**W, "v": (160, 6)},
    ),
    Case(
        "fuse/flatten_batch",
        "float[2,3,7,9] x",
        "c = Conv(x, w, b) p = MaxPool<kernel_shape=[2,1]>(c) f = Flatten(p) y = Gemm(f, v)",
        {**W, "v": (128, 6)},
    ),
    Case(
        "fuse/flatten_two_heads",
        X,
        "c = Conv(x, w, b) f = Flatten(c) p = MatMul(f, v) q = MatMul(f, u)",
        {**W, "v": (160, 6), "u": (160, 2)},
        outputs="p, q",
    ),
    Case(
        "fuse/flatten_heads_share",
        X,
        "c = Conv(x, w, b) f = Flatten(c) p = MatMul(f, v) n = Neg(f) q = MatMul(n, v)",
        {**W, "v": (160, 6)},
        outputs="p, q",
    ),
    Case(
        "fuse/flatten_seen",
        X,
        "c = Conv(x, w, b) f = Flatten(c) y = MatMul(f, v)",
        {**W, "v": (160, 6)},
        outputs="y, f",
    ),
    Case(
        "fuse/flatten_dynamic",
        "float[N,3,7,9] x",
        "c = Conv(x, w, b) f = Flatten(c) y = Gemm<transB=1>(f, v)",
        {**W, "v": (6, 160)},
        shapes={"N": 2},
        outputs="float[N,6] y",
    ),
    Case(
        "fuse/flatten_all",
        "float[2,3,7,9] x",
        "c = Conv(x, w, b) f = Reshape(c, t) y = MatMul(f, v)",
        {**W, "t": i64(1, 320), "v": (320, 6)},
    ),
    Case(
        "fuse/flatten_pairs",
        "float[2,3,7,9] x",
        "c = Conv(x, w, b) f = Reshape(c, t) y = MatMul(f, v)",
        {**W, "t": i64(4, 80), "v": (80, 6)},
    ),
    Case(
        "fuse/flatten_halfway",
        X,
        "c = Conv(x, w, b) f = Reshape(c, t) y = MatMul(f, v)",
        {**W, "t": i64(1, 4, 40), "v": (40, 6)},
    ),
    Case(
        "fuse/flatten_1d",
        "float[2,3,9] x",
        "c = Conv(x, w, b) f = Flatten(c) y = MatMul(f, v)",
        {"w": (4, 3, 2), "b": (4,), "v": (32, 6)},
    ),
    Case(
        "fuse/flatten_3d",
        "float[1,3,4,5,6] x",
        "c = Conv(x, w, b) f = Flatten(c) y = MatMul(f, v)",
        {"w": (4, 3, 2, 2, 2), "b": (4,), "v": (4 * 3 * 4 * 5, 6)},
    ),
    Case(
        "fuse/flatten_global_pool",
        X,
        "c = Conv(x, w, b) g = GlobalAveragePool(c) f = Flatten(g) y = MatMul(f, v)",
        {**W, "v": (4, 6)},
    ),
    Case(
        "fuse/flatten_rows",
        "float[2,3,7] x",
        "f = Flatten(x) y = Gemm<transB=1>(f, v, u)",
        {"v": (6, 21), "u": (6,)},
    ),
    Case(
        "fuse/flatten_ones",
        "float[2,7,1,1] x",
        "f = Flatten(x) y = Gemm<transB=1>(f, v, u)",
        {"v": (6, 7), "u": (6,)},
    ),
    Case(
        "fuse/flatten_at_run_time",
        "float[2,3,7] x, float[21,6] v",
        "f = Flatten(x) y = MatMul(f, v)",
    ),
    Case(
        "fuse/unflatten_conv",
        "float[2,6] x",
        "m = MatMul(x, v) f = Reshape(m, t) y = Conv(f, w, b)",
        {**W, "v": (6, 189), "t": i64(2, 3, 7, 9)},
    ),
]

TOKENS = {"w": (5, 3, 2, 2), "b": (5,), "t": i64(2, 5, 24)}
# The norm of q.
RLN = LN.replace("(x", "(q")
REGION = [
    Case(
        "fuse/tokens",
        "float[2,3,5,7] x",
        f"c = Conv(x, w, b) f = Reshape(c, t) q = Transpose<perm=[0,2,1]>(f) {RLN} y = MatMul(l, u)",
        {**TOKENS, **LNW, "u": (5, 9)},
    ),
    Case(
        "fuse/tokens_exit",
        "float[2,3,5,7] x",
        f"c = Conv(x, w, b) f = Reshape(c, t) q = Transpose<perm=[0,2,1]>(f) {RLN} y = MatMul(l, u)",
        {**TOKENS, **LNW, "u": (5, 9)},
        outputs="y, d",
    ),
    Case(
        "fuse/tokens_and_back",
        "float[2,3,5,7] x",
        f"c = Conv(x, w, b) f = Reshape(c, t) q = Transpose<perm=[0,2,1]>(f) {RLN} k = MatMul(l, u) i = Transpose<perm=[0,2,1]>(k) y = Reshape(i, back)",
        {**TOKENS, **LNW, "u": (5, 9), "back": i64(2, 9, 4, 6)},
    ),
    Case(
        "fuse/region_back",
        "float[2,3,5] x",
        f"q = Reshape(x, flat) {RLN} y = Reshape(l, back)",
        {**LNW, "flat": i64(6, 5), "back": i64(2, 3, 5)},
    ),
    Case(
        "fuse/region_other_shape",
        "float[2,3,5] x",
        f"q = Reshape(x, flat) {RLN} y = Reshape(l, back)",
        {**LNW, "flat": i64(6, 5), "back": i64(3, 10)},
    ),
    Case(
        "fuse/region_exit",
        "float[2,3,5] x",
        f"q = Reshape(x, flat) {RLN} y = Reshape(l, back)",
        {**LNW, "flat": i64(6, 5), "back": i64(2, 3, 5)},
        outputs="y, n",
    ),
    Case(
        "fuse/region_transpose_exit",
        "float[2,3,5] x",
        f"q = Reshape(x, flat) {RLN} y = Reshape(l, back) o = Transpose<perm=[1,0]>(n)",
        {**LNW, "flat": i64(6, 5), "back": i64(2, 3, 5)},
        outputs="y, o",
    ),
    Case(
        "fuse/region_other_operand",
        "float[2,3,5] x, float[6,5] z",
        "q = Reshape(x, flat) a = Add(q, z) r = Tanh(a) y = Reshape(r, back)",
        {"flat": i64(6, 5), "back": i64(2, 3, 5)},
    ),
    Case(
        "fuse/region_matrix_constant",
        "float[2,3,5] x",
        "q = Reshape(x, flat) a = Mul(q, k) r = Tanh(a) y = Reshape(r, back)",
        {"flat": i64(6, 5), "back": i64(2, 3, 5), "k": (6, 5)},
    ),
    Case(
        "fuse/region_widens",
        "float[2,3,1] x",
        "q = Reshape(x, flat) a = Mul(q, k) r = Tanh(a) y = Reshape(r, back)",
        {"flat": i64(6, 1), "back": i64(2, 3, 5), "k": (5,)},
    ),
    Case(
        "fuse/region_softmax_5d",
        "float[2,3,2,4,5] x",
        "q = Reshape(x, flat) a = Softmax<axis=-1>(q) r = Tanh(a) y = Reshape(r, back)",
        {"flat": i64(48, 5), "back": i64(4, 3, 4, 5)},
    ),
    Case(
        "fuse/region_sum_6d",
        "float[2,1,3,2,4,5] x",
        "q = Reshape(x, flat) a = ReduceSum(q, last) d = Sub(q, a) y = Reshape(d, back)",
        {"flat": i64(48, 5), "back": i64(4, 3, 4, 5), "last": i64(-1)},
    ),
    Case(
        "fuse/region_first_axis",
        "float[2,3,5] x",
        "q = Reshape(x, flat) a = ReduceSum(q, first) d = Sub(q, a) y = Reshape(d, back)",
        {"flat": i64(6, 5), "back": i64(2, 3, 5), "first": i64(0)},
    ),
    Case(
        "fuse/region_prelu",
        "float[2,3,5] x",
        "q = Reshape(x, flat) a = PRelu(q, k) y = Reshape(a, back)",
        {"flat": i64(6, 5), "back": i64(2, 3, 5), "k": (5,)},
    ),
    Case(
        "fuse/region_where",
        "float[2,3,5] x",
        "q = Reshape(x, flat) c = Greater(q, z) a = Where(c, q, k) y = Reshape(a, back)",
        {"flat": i64(6, 5), "back": i64(2, 3, 5), "k": (5,), "z": np.float32(0.1)},
    ),
    Case(
        "fuse/region_dynamic",
        "float[N,3,5] x",
        "q = Reshape(x, flat) a = Tanh(q) s = Softmax<axis=-1>(a) y = Reshape(s, back)",
        {"flat": i64(-1, 5), "back": i64(-1, 3, 5)},
        shapes={"N": 2},
        outputs="float[N,3,5] y",
    ),
    Case(
        "fuse/reshape_chain",
        "float[2,3,4] x",
        "a = Reshape(x, s1) b = Squeeze(a) c = Unsqueeze(b, ax) y = Reshape(c, s2)",
        {"s1": i64(1, 6, 4), "ax": i64(0, 2), "s2": i64(2, 3, 4)},
        outputs="y, b",
    ),
    Case(
        "fuse/reshape_read_after_an_addition",
        "float[2,3,4] x",
        "a = Tanh(x) b = Reshape(a, s1) c = Add(b, k) d = Mul(c, c) y = Reshape(b, s2)",
        {"s1": i64(6, 4), "s2": i64(6, 1, 4), "k": (6, 1)},
        outputs="y, d",
    ),
    Case(
        "fuse/reshape_there_and_back",
        "float[2,3,4] x",
        "a = Reshape(x, s1) y = Reshape(a, s2)",
        {"s1": i64(6, 4), "s2": i64(2, 3, 4)},
    ),
]

# Between two convolutions everything may change its order.
CC = {"w": (6, 3, 3, 2), "v": (4, 6, 2, 3)}
ORDER = [
    Case(f"fuse/order_{name}", X, f"c = Conv(x, w) {body} y = Conv(d, v)", {**CC, **more})
    for name, body, more in [
        ("slice", "d = Slice(c, at, to, ax)", {"at": i64(1, 2), "to": i64(4, 7), "ax": i64(2, 3)}),
        (
            "slice_stride",
            "d = Slice(c, at, to, ax, st)",
            {"at": i64(-1, 0), "to": i64(-9, 7), "ax": i64(2, 3), "st": i64(-1, 2)},
        ),
        (
            "slice_channels",
            "e = Concat<axis=1>(c, c) d = Slice(e, at, to, ax)",
            {"at": i64(3), "to": i64(9), "ax": i64(1)},
        ),
        ("pad", "d = Pad(c, p, k)", {"p": i64(0, 0, 1, 2, 0, 0, 3, 0), "k": np.float32(0.5)}),
        ("pad_reflect", 'd = Pad<mode="reflect">(c, p)', {"p": i64(0, 0, 1, 2, 0, 0, 3, 0)}),
        ("softmax_channels", "d = Softmax<axis=1>(c)", {}),
        ("softmax_rows", "d = Softmax<axis=2>(c)", {}),
        ("softmax_columns", "d = Softmax<axis=3>(c)", {}),
        ("log_softmax", "d = LogSoftmax<axis=1>(c)", {}),
        ("reduce_keep", "m = ReduceMean<axes=[2]>(c) d = Sub(c, m)", {}),
        ("reduce_drop", "m = ReduceMax<axes=[1], keepdims=0>(c) n = Unsqueeze(m, ax) d = Mul(c, n)", {"ax": i64(1)}),
        ("reduce_all", "m = ReduceSum<keepdims=0>(c) d = Mul(c, m)", {}),
        ("row_constant", "d = Add(c, k)", {"k": (5, 1)}),
        ("column_constant", "d = Add(c, k)", {"k": (8,)}),
        ("matrix_constant", "d = Add(k, c)", {"k": (6, 1, 8)}),
        ("vector_value", "m = ReduceMean<axes=[0,1,2], keepdims=0>(c) d = Add(c, m)", {}),
        ("matrix_value", "m = ReduceMean<axes=[0,1], keepdims=0>(c) d = Mul(m, c)", {}),
        ("split", "e, f = Split<axis=1>(c, k) g = Relu(f) d = Concat<axis=1>(g, e)", {"k": i64(2, 4)}),
        ("split_even", "e, f, g = Split<axis=1>(c) h = Tanh(f) d = Concat<axis=1>(g, h, e)", {}),
        ("split_rows", "e, f = Split<axis=2>(c, k) g = Relu(f) d = Concat<axis=2>(g, e)", {"k": i64(2, 3)}),
        ("top_k", "e, i = TopK<axis=1>(c, k) d = Concat<axis=1>(e, e)", {"k": i64(3)}),
        ("arg_max", "i = ArgMax<axis=1>(c) f = Cast<to=1>(i) d = Add(c, f)", {}),
        ("cumsum", "d = CumSum(c, k)", {"k": np.int64(1)}),
        ("gather_channels", "d = Gather<axis=1>(c, k)", {"k": i64(5, 3, 1, 0, 2, 4)}),
        (
            "gather_drops",
            "g = Gather<axis=1>(c, k) h = Unsqueeze(g, ax) d = Add(c, h)",
            {"k": np.int64(2), "ax": i64(1)},
        ),
        ("expand", "m = ReduceMean<axes=[2,3]>(c) e = Expand(m, k) d = Mul(c, e)", {"k": i64(1, 6, 5, 8)}),
        ("tile", "d = Tile(c, k)", {"k": i64(1, 1, 2, 3)}),
        ("where", "k = Greater(c, z) d = Where(k, c, r)", {"z": np.float32(0), "r": (6, 1, 1)}),
        ("prelu", "d = PRelu(c, k)", {"k": (6, 1, 1)}),
        ("instance_norm", "d = InstanceNormalization(c, g, b)", {"g": (6,), "b": (6,)}),
        ("transpose", "t = Transpose<perm=[0,1,3,2]>(c) r = Relu(t) d = Transpose<perm=[0,1,3,2]>(r)", {}),
        ("transpose_stays", "d = Transpose<perm=[0,1,3,2]>(c)", {}),
        (
            "transpose_shared",
            "t = Transpose<perm=[0,2,3,1]>(c) a = Relu(t) b = Softmax<axis=-1>(t) s = Mul(a, b) d = Transpose<perm=[0,3,1,2]>(s)",
            {},
        ),
        (
            "several_orders",
            "t = Transpose<perm=[0,1,3,2]>(c) m = MatMul(c, t) n = ReduceMean<axes=[2,3]>(m) d = Mul(n, c)",
            {},
        ),
        ("squeeze_excite", "m = GlobalAveragePool(c) s = Sigmoid(m) d = Mul(s, c)", {}),
        ("resize", 'd = Resize<mode="nearest">(c, , k)', {"k": f32(1, 1, 2, 3)}),
        (
            "fake_quantized",
            "q = QuantizeLinear(c, s, z) d = DequantizeLinear(q, s, z)",
            {"s": np.float32(0.05), "z": np.uint8(120)},
        ),
        (
            "fake_quantized_relu",
            "r = Relu(c) q = QuantizeLinear(r, s, z) d = DequantizeLinear(q, s, z)",
            {"s": np.float32(0.05), "z": np.int8(-128)},
        ),
        (
            "per_axis_quantized",
            "q = QuantizeLinear<axis=1>(c, s, z) d = DequantizeLinear<axis=1>(q, s, z)",
            {"s": f32(0.05, 0.03, 0.02, 0.04, 0.06, 0.07), "z": np.array([0, 3, -5, 7, 1, 2], np.int8)},
        ),
    ]
] + [
    Case(
        "fuse/order_exits",
        X,
        "c = Conv(x, w) r = Relu(c) y = Conv(r, v) z = Softmax<axis=1>(r)",
        CC,
        outputs="y, z, r, c",
    ),
    Case(
        "fuse/order_output_twice",
        X,
        "c = Conv(x, w) y = Identity(c) z = Identity(c)",
        {"w": (6, 3, 3, 2)},
        outputs="y, z, c",
    ),
    Case("fuse/order_input_is_output", X, "y = Conv(x, w) z = Identity(x)", {"w": (6, 3, 3, 2)}, outputs="y, z"),
    Case(
        "fuse/order_transposed_outputs",
        X,
        "c = Conv(x, w) y = Transpose<perm=[0,2,3,1]>(c) z = Transpose<perm=[0,2,3,1]>(c)",
        {"w": (6, 3, 3, 2)},
        outputs="y, z",
    ),
    Case(
        "fuse/order_constant_output",
        X,
        "y = Conv(x, w) z = Identity(k)",
        {"w": (6, 3, 3, 2), "k": (2, 5)},
        outputs="y, z",
    ),
    Case(
        "fuse/order_concat_of_two",
        X,
        "c = Conv(x, w) e = Conv(x, w2) f = Concat<axis=1>(c, e) g = Concat<axis=1>(x2, f) y = Softmax<axis=1>(g)",
        {"w": (6, 3, 3, 2), "w2": (2, 3, 3, 2), "x2": (1, 4, 5, 8)},
    ),
    Case(
        "fuse/order_concat_same_twice",
        X,
        "c = Conv(x, w) e = Concat<axis=2>(c, c) f = Concat<axis=2>(e, c, e) y = Relu(f)",
        {"w": (6, 3, 3, 2)},
    ),
    Case(
        "fuse/order_dynamic",
        "float[N,3,H,W] x",
        "c = Conv(x, w) s = Softmax<axis=1>(c) r = Mul(s, c) y = Conv(r, v)",
        CC,
        shapes={"N": 2, "H": 8, "W": 11},
        outputs="float[N,4,Q,R] y",
    ),
    Case("fuse/order_pooled", X, "c = Conv(x, w) y = ReduceMean<axes=[2,3], keepdims=0>(c)", {"w": (6, 3, 3, 2)}),
    Case(
        "fuse/order_pooled_rows",
        X,
        "c = Conv(x, w) y = ReduceMax<axes=[3], keepdims=0>(c) z = ReduceSum<keepdims=0>(c, a)",
        {"w": (6, 3, 3, 2), "a": i64(1, 2)},
        outputs="y, z",
    ),
    Case(
        "fuse/order_distribution",
        "float[2,3,7,9] x",
        "c = Conv(x, w) r = Reshape(c, a) t = Transpose<perm=[0,2,1,3]>(r) s = Softmax<axis=1>(t) y = Conv(s, k)",
        {"w": (12, 3, 3, 2), "a": i64(0, 4, 3, -1), "k": (5, 3, 1, 1)},
    ),
    *(
        Case(
            f"fuse/order_pixelwise_{name}",
            "float[2,3,7,9] x",
            f"c = Conv(x, w) t = Transpose<perm=[{perm}]>(c) d = Conv<{how}>(t, k) r = Relu(d) "
            f"u = Transpose<perm=[{back}]>(r) y = Conv(u, v)",
            {"w": (6, 3, 3, 2), "k": filters, "v": (7, 4, 2, 3)},
        )
        for name, perm, back, how, filters in [
            ("turned", "0,1,3,2", "0,1,3,2", "group=1", (4, 6, 1, 1)),
            ("groups", "0,1,3,2", "0,1,3,2", "group=2", (4, 3, 1, 1)),
            ("batch", "3,1,0,2", "2,1,3,0", "group=1", (4, 6, 1, 1)),
            ("not_one", "0,1,3,2", "0,1,3,2", "group=1", (4, 6, 2, 1)),
            ("stride", "0,1,3,2", "0,1,3,2", "strides=[2,1]", (4, 6, 1, 1)),
            ("padding", "0,1,3,2", "0,1,3,2", "pads=[1,0,0,2]", (4, 6, 1, 1)),
        ]
    ),
    Case("fuse/order_classes", X, "c = Conv(x, w) y = ArgMax<axis=1, keepdims=0>(c)", {"w": (6, 3, 3, 2)}),
    Case(
        "fuse/order_pooled_and_kept",
        X,
        "c = Conv(x, w) m = ReduceMean<axes=[2,3], keepdims=0>(c) s = Reshape(m, k) d = Mul(s, c) y = Conv(d, v)",
        {**CC, "k": i64(1, 6, 1, 1)},
    ),
    Case(
        "fuse/matmul_transposes",
        "float[2,3,4,5] x, float[2,3,6,5] z",
        "t = Transpose<perm=[0,1,3,2]>(z) m = MatMul(x, t) n = Transpose<perm=[0,1,3,2]>(m) y = MatMul(n, x)",
    ),
    Case(
        "fuse/matmul_same_twice",
        "float[2,5,4] x",
        "t = Transpose<perm=[0,2,1]>(x) y = MatMul(t, x) z = MatMul(x, t)",
        outputs="y, z",
    ),
    Case(
        "fuse/matmul_batch_transposed",
        "float[2,4,3,5] x, float[2,5,3,6] z",
        "a = Transpose<perm=[0,2,1,3]>(x) b = Transpose<perm=[0,2,1,3]>(z) m = MatMul(a, b) y = Transpose<perm=[0,2,1,3]>(m)",
    ),
    Case(
        "fuse/matmul_vector_batch",
        "float[2,3,4,5] x, float[5,6] z",
        "t = Transpose<perm=[0,2,1,3]>(x) y = MatMul(t, z)",
    ),
]


# What reduces over axes that a reshape merged: [2,6,5,8] in groups of channels, as whole images, per channel.
def merged(name, flat, body, weights=None, inputs="float[2,3,7,9] x", **how):
    return Case(
        f"fuse/merged_{name}",
        inputs,
        f"c = Conv(x, w) r = Reshape(c, flat) {body}",
        {"w": (6, 3, 3, 2), "v": (4, 6, 2, 3), "flat": i64(*flat), "whole": i64(0, 6, 5, 8), **(weights or {})},
        **how,
    )


BACK = " e = Reshape(n, whole) d = Mul(e, k) y = Conv(d, v)"
MERGED = [
    *(
        merged(
            f"group_norm_{groups}",
            (0, groups, -1),
            "n = InstanceNormalization(r, s, b)" + BACK,
            {"s": np.ones(groups, np.float32), "b": np.zeros(groups, np.float32), "k": (6, 1, 1)},
        )
        for groups in (1, 2, 3, 6)
    ),
    merged(
        "scaled_groups", (0, 3, -1), "n = InstanceNormalization(r, s, b)" + BACK, {"s": (3,), "b": (3,), "k": (6, 1, 1)}
    ),
    merged(
        "group_norm_dynamic",
        (0, 3, -1),
        "n = InstanceNormalization(r, s, b) e = Reshape(n, whole) y = Conv(e, v)",
        {"s": (3,), "b": (3,), "whole": i64(0, 6, -1, 8)},
        inputs="float[N,3,H,9] x",
        shapes={"N": 2, "H": 7},
        outputs="float[N,4,Q,6] y",
    ),
    merged(
        "volumes",
        (0, 3, -1),
        "n = InstanceNormalization(r, s, b) e = Reshape(n, whole) y = Conv(e, v)",
        {"w": (6, 3, 2, 1, 2), "v": (4, 6, 1, 2, 2), "s": (3,), "b": (3,), "whole": i64(2, 6, 4, 5, 3)},
        inputs="float[2,3,5,5,4] x",
    ),
    merged(
        "row_of_factors",
        (0, 3, -1),
        "m = ReduceMean<axes=[-1]>(r) a = Sub(r, m) n = Mul(a, t)" + BACK,
        {"t": (80,), "k": (6, 1, 1)},
    ),
    merged("global_pool", (0, 6, -1), "m = ReduceMean<axes=[2], keepdims=0>(r) y = MatMul(m, k)", {"k": (6, 7)}),
    merged("global_pool_kept", (0, 6, -1), "m = ReduceMax<axes=[2]>(r) n = Sub(r, m)" + BACK, {"k": (6, 1, 1)}),
    merged("one_group_dropped", (0, 1, -1), "m = ReduceSum(r, a) y = Relu(m)", {"a": i64(2)}),
    merged("two_axes", (0, 6, -1), "m = ReduceMean<axes=[1,2]>(r) n = Sub(r, m)" + BACK, {"k": (6, 1, 1)}),
    merged("other_axis", (0, 6, -1), "m = ReduceMean<axes=[1]>(r) n = Sub(r, m)" + BACK, {"k": (6, 1, 1)}),
    merged("seen", (0, 3, -1), "m = ReduceMean<axes=[2]>(r) n = Sub(r, m)" + BACK, {"k": (6, 1, 1)}, outputs="y, n, m"),
    merged(
        "softmax_too",
        (0, 3, -1),
        "m = ReduceMean<axes=[2]>(r) p = Softmax<axis=2>(r) n = Sub(p, m)" + BACK,
        {"k": (6, 1, 1)},
    ),
]


# Weights that are computed from weights: with more elements than are folded at once.
def standardised(name, body, **weights):
    return Case(
        f"fuse/standardised_{name}",
        "float[2,30,6,7] x",
        body + " y = Conv(x, k)",
        {"w": (300, 30, 3, 5), **weights},
        opset=17,
    )


STANDARDISED = [
    standardised(
        "by_hand",
        "m = ReduceMean<axes=[1,2,3]>(w) c = Sub(w, m) q = Mul(c, c) v = ReduceMean<axes=[1,2,3]>(q) e = Add(v, o) "
        "d = Sqrt(e) n = Div(c, d) k = Mul(n, g)",
        o=np.float32(1e-5),
        g=(300, 1, 1, 1),
    ),
    standardised(
        "batch_norm",
        "r = Reshape(w, a) n, p, q = BatchNormalization<training_mode=1>(r, g, b, old, old_variance) k = Reshape(n, t)",
        a=i64(1, 300, -1),
        t=i64(300, 30, 3, 5),
        g=(300,),
        b=(300,),
        old=(300,),
        old_variance=(300,),
    ),
    standardised("few_channels", "m = ReduceMean<axes=[0,2,3]>(w) k = Sub(w, m)"),
    standardised("mean_of_all", "m = ReduceMean<keepdims=0>(w) k = Sub(w, m)"),
]


# Tokens that become a map again, whose height and width are known at run time only.
MAPS = [
    # turned: width in front of height, which no order of axes says
    *(
        Case(
            f"fuse/tokens_to_map{name}",
            "float[2,3,H,W] x",
            "c = Conv(x, w) s = Shape<start=2, end=3>(c) e = Shape<start=3>(c) f = Reshape(c, flat) "
            "t = Transpose<perm=[0,2,1]>(f) l = MatMul(t, m) u = Transpose<perm=[0,2,1]>(l) "
            f"n = Concat<axis=0>(head, {sides}) r = Reshape(u, n) y = Conv(r, v)",
            {"w": (6, 3, 3, 2), "flat": i64(2, 6, -1), "m": (6, 5), "head": i64(2, 5), "v": (4, 5, 2, 3)},
            opset=15,
            shapes={"H": 8, "W": 11},
            outputs="float[2,4,P,Q] y",
        )
        for name, sides in (("", "s, e"), ("_turned", "e, s"))
    ),
    Case(
        "fuse/one_head",
        "float[2,7,6] x, float[2,1,5,8] q",
        "k = MatMul(x, w) r = Reshape(k, heads) t = Transpose<perm=[0,2,3,1]>(r) y = MatMul(q, t)",
        {"w": (6, 8), "heads": i64(2, 7, 1, 8)},
    ),
    Case(
        "fuse/one_token",
        "float[2,1,6] x, float[2,3,5,4] q",
        "k = MatMul(x, w) r = Reshape(k, heads) t = Transpose<perm=[0,2,3,1]>(r) y = MatMul(q, t)",
        {"w": (6, 12), "heads": i64(2, 1, 3, 4)},
    ),
    Case(
        "fuse/residuals_of_one_dimension",
        "float[2,3,20] x",
        "a = Conv(x, w) b = LeakyRelu(a) c = Conv<pads=[1,1]>(b, v) d = Add(a, c) e = LeakyRelu(d) "
        "f = Conv<pads=[2,2], dilations=[2]>(e, u) g = Add(d, f) h = Mul(g, k) y = Conv(h, z)",
        {"w": (5, 3, 4), "v": (5, 5, 3), "u": (5, 5, 3), "z": (4, 5, 2), "k": np.float32(0.3)},
    ),
    Case(
        "fuse/residuals_that_are_seen",
        "float[2,3,20] x",
        "a = Conv(x, w) b = LeakyRelu(a) c = Conv<pads=[1,1]>(b, v) d = Add(a, c) y = Conv(d, z)",
        {"w": (5, 3, 4), "v": (5, 5, 3), "z": (4, 5, 2)},
        outputs="y, d, a",
    ),
]

CASES = SHUFFLE + FLATTEN + REGION + ORDER + MERGED + STANDARDISED + MAPS
