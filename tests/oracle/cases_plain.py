# SPDX-License-Identifier: Apache-2.0
"""The forms that most runtimes take (layout/plain): lists of indices, slices, TILE, at most four axes."""

import numpy as np

from tests.support.case import Case, f32, i64

LOOK_UP = [
    Case(
        "plain/ids_of_two_axes",
        "int32[2,7] ids",
        "e = Gather(table, ids) y = Add(e, p)",
        {"table": (11, 5), "p": (7, 5)},
        ranges={"ids": (-11, 11)},
    ),
    Case(
        "plain/ids_dynamic",
        "int64[N,7] ids",
        "y = Gather(table, ids)",
        {"table": (11, 5)},
        shapes={"ids": (3, 7)},
        ranges={"ids": (-11, 11)},
    ),
    Case(
        "plain/ids_two_dynamic",
        "int64[N,M] ids",
        "y = Gather(table, ids)",
        {"table": (11, 5)},
        shapes={"ids": (3, 7)},
        ranges={"ids": (0, 11)},
    ),
    # -1 stands for no label: Clip leaves nothing below 0, so no index is made positive.
    Case(
        "plain/clamped_labels",
        "int64[2,7] labels",
        "c = Clip(labels, zero) y = Gather(table, c)",
        {"table": (5, 3), "zero": np.int64(0)},
        ranges={"labels": (-1, 5)},
    ),
    # 2^32 + 1 as a number of 32 bits is 1: such an index must not become a right one by its cast.
    Case(
        "plain/clamped_from_below",
        "int64[2,7] labels",
        "c = Clip(labels, least) n = Cast<to=6>(c) y = Gather(table, n)",
        {"table": (5, 3), "least": np.int64(1)},
        ranges={"labels": (-4, 5)},
    ),
    Case(
        "plain/places_looked_up",
        "float[3,7] x",
        "p = ArgMax<axis=1, keepdims=0>(x) y = Gather(table, p)",
        {"table": (7, 5)},
    ),
    # RoBERTa's token types: equal numbers, expanded and picked by position.
    Case(
        "plain/equal_numbers_picked",
        "int64[2,7] places, float[2,7,5] x",
        "t = GatherElements<axis=1>(types, places) e = Gather(table, t) y = Add(x, e)",
        {"types": np.full((2, 9), 3, np.int64), "table": (4, 5)},
        ranges={"places": (0, 9)},
    ),
    # As SAM 2's exporter computes how often to repeat: the extents of a one-hot table.
    Case(
        "plain/repeats_of_a_table",
        "float[2,3,5] x",
        "h = OneHot<axis=-1>(place, depth, values) r = Reshape(h, flat) t = Tile(x, r) y = Tanh(t)",
        {"place": i64(1), "depth": np.int64(3), "values": i64(1, 4), "flat": i64(-1)},
    ),
    # As exporters write BEiT's biases of places: rows and a column of a constant are replaced, and it is looked up.
    Case(
        "plain/rows_put_into_a_constant",
        "float[4,3,5] x",
        "r = ScatterND(c, rows, u) k = ScatterND(r, column, v) g = Gather(table, k) y = Add(x, g)",
        {
            "c": i64(*range(12)).reshape(4, 3),
            "rows": i64(1, 2).reshape(2, 1),
            "u": i64(20, 19, 18, 17, 16, 15).reshape(2, 3),
            "column": i64(0, 1, 1, 1, 2, 1, 3, 1).reshape(4, 2),
            "v": i64(12, 13, 14, 0),
            "table": (21, 5),
        },
    ),
    Case(
        "plain/box_put_into_a_constant",
        "float[3,4,5] x",
        "b = ScatterND(c, box, u) y = Mul(x, b)",
        {
            "c": (3, 4, 5),
            "box": i64(*(e for i in (1, 2) for j in (0, 1, 2) for k in (2, 3) for e in (i, j, k))).reshape(2, 3, 2, 3),
            "u": (2, 3, 2),
        },
    ),
    Case("plain/one_id", "int64 id, float[4,6,3] x", "y = Gather<axis=1>(x, id)", feeds=None, ranges={"id": (0, 6)}),
    Case("plain/constant_place", "float[4,6,3] x", "y = Gather<axis=1>(x, i)", {"i": np.int64(-2)}),
    Case(
        "plain/all_places",
        "float[2,3,5] x",
        "a = Gather<axis=1>(x, i) b = Gather<axis=1>(x, j) c = Gather<axis=1>(x, k) m = Mul(c, a) y = Sub(m, b)",
        {"i": np.int64(2), "j": np.int64(0), "k": np.int64(-2)},
    ),
    Case(
        "plain/all_places_of_four",
        "float[2,3,5,4] x",
        "a = Gather<axis=2>(x, i) b = Gather<axis=2>(x, j) c = Gather<axis=2>(x, k) d = Gather<axis=2>(x, l) "
        "e = Gather<axis=2>(x, m) f = Add(a, b) g = Sub(c, d) h = Mul(f, g) y = Add(h, e)",
        {"i": np.int64(0), "j": np.int64(1), "k": np.int64(3), "l": np.int64(2), "m": np.int64(4)},
    ),
    # A step of a recurrent network: one product of both operands.
    Case(
        "plain/products_joined",
        "float[3,5] x, float[3,7] h",
        "p = Gemm<transB=1>(x, w, c) q = Gemm(h, r, d) s = Add(q, p) y = Relu(s)",
        {"w": (13, 5), "c": (13,), "r": (7, 13), "d": (13,)},
    ),
    Case(
        "plain/products_joined_dynamic",
        "float[N,5] x, float[N,7] h",
        "p = MatMul(x, w) q = Gemm(h, r, d) s = Add(p, q) y = Tanh(s)",
        {"w": (5, 13), "r": (7, 13), "d": (13,)},
        shapes={"x": (2, 5), "h": (2, 7)},
    ),
    # GPU delegates misread the results of an UNPACK here (layout/plain/parts.h).
    Case(
        "plain/all_places_multiplied",
        "float[2,3,5] x",
        "a = Gather<axis=1>(x, i) b = Gather<axis=1>(x, j) c = Gather<axis=1>(x, k) m = Mul(a, b) y = Sub(m, c)",
        {"i": np.int64(2), "j": np.int64(0), "k": np.int64(-2)},
    ),
    Case(
        "plain/all_places_dynamic",
        "float[N,3,5] x",
        "a = Gather<axis=1>(x, i) b = Gather<axis=1>(x, j) c = Gather<axis=1>(x, k) m = Mul(a, b) y = Sub(m, c)",
        {"i": np.int64(2), "j": np.int64(0), "k": np.int64(1)},
        shapes={"x": (2, 3, 5)},
    ),
    # Boxes in numbers that the run counts, as torchvision writes its detectors: it may find none.
    *(
        Case(
            f"plain/all_places_of_{name}",
            "float[5,4] x, float[5] s",
            "o = Greater(s, h) n = NonZero(o) r = Squeeze(n, l0) b = Gather(x, r) a = Gather<axis=1>(b, i0) "
            "e = Gather<axis=1>(b, i1) f = Gather<axis=1>(b, i2) g = Gather<axis=1>(b, i3) w = Sub(f, a) "
            "q = Sub(g, e) v = Mul(w, q) y = Add(v, a)",
            {"h": f32(0.5), "l0": i64(0), **{f"i{i}": np.int64(i) for i in range(4)}},
            outputs="float[A] y",
            feeds={"x": np.arange(20, dtype=np.float32).reshape(5, 4) ** 2, "s": np.array(scores, np.float32)},
        )
        for name, scores in {"some_boxes": (0, 1, 1, 0, 1), "no_boxes": (0, 0, 0, 0, 0)}.items()
    ),
    Case("plain/constant_run", "float[4,6,3] x", "y = Gather<axis=1>(x, i)", {"i": i64(2, 3, 4)}),
    Case("plain/constant_table", "float[4,6,3] x", "y = Gather<axis=1>(x, i)", {"i": i64(2, 5, 0, 3).reshape(2, 2)}),
    Case(
        "plain/constant_place_dynamic",
        "float[N,6,M] x",
        "y = Gather<axis=1>(x, i)",
        {"i": np.int64(2)},
        shapes={"x": (4, 6, 3)},
    ),
    # UNPACK refuses data without elements: keys and values of no token.
    *(
        Case(
            f"plain/all_places_of_an_open_past_{tokens}",
            "float[2,N,2,P,3] p, float[N,2,4,3] k",
            "a = Gather(p, i) b = Gather(p, j) y = Concat<axis=2>(a, k) z = Concat<axis=2>(b, k)",
            {"i": np.int64(0), "j": np.int64(1)},
            outputs="float[N,2,T,3] y, float[N,2,T,3] z",
            shapes={"p": (2, 5, 2, tokens, 3), "k": (5, 2, 4, 3)},
        )
        for tokens in (0, 6)
    ),
    Case(  # of the batch, which is axis 0 of an input, there is a sample
        "plain/all_places_of_an_open_batch",
        "float[N,2,3] x",
        "a = Gather<axis=1>(x, i) b = Gather<axis=1>(x, j) y = Concat<axis=1>(a, b)",
        {"i": np.int64(0), "j": np.int64(1)},
        outputs="float[N,6] y",
        shapes={"x": (4, 2, 3)},
    ),
    # UNPACK has no 64 bits.
    *(
        Case(
            f"plain/all_places_of_{kind}",
            f"{kind}[2,3] x",
            "y = Gather(x, i) z = Gather(x, j)",
            {"i": np.int64(0), "j": np.int64(1)},
            outputs="y, z",
            feeds={"x": np.array(given, {"int64": np.int64, "uint64": np.uint64, "double": np.float64}[kind])},
        )
        for kind, given in {
            "int64": [[2**40 + 1, 2**33, 3], [4, -(2**35), 6]],
            "uint64": [[2**40 + 1, 2**33, 3], [4, 2**63, 6]],
            "double": [[1.0, 1e300, 1e-300], [-1e300, 2.0, 3.0]],
        }.items()
    ),
]

REVERSED = {"b": i64(-1), "e": i64(-(2**62)), "a": i64(0), "s": i64(-1)}

REPEAT = [
    Case(
        "plain/heads_repeated",
        "float[1,2,9,8] k",
        "u = Unsqueeze(k, a) e = Expand(u, s) y = Reshape(e, t)",
        {"a": i64(2), "s": i64(1, 2, 3, 9, 8), "t": i64(1, 6, 9, 8)},
    ),
    Case("plain/expand_lifts", "float[3,1] x", "y = Expand(x, s)", {"s": i64(2, 4, 3, 5)}),
    Case("plain/expand_bool", "bool[3,1] x", "y = Expand(x, s)", {"s": i64(4, 3, 5)}),
    Case(
        "plain/expand_beside_dynamic",
        "float[N,1,3] x",
        "y = Expand(x, s)",
        {"s": i64(1, 4, 3)},
        shapes={"x": (2, 1, 3)},
    ),
    Case("plain/expand_scalar", "float x", "y = Expand(x, s)", {"s": i64(4, 3)}),
]

AXES = [
    Case(
        "plain/windows",
        "float[2,21,15,4] x",
        "a = Reshape(x, s) t = Transpose<perm=[0,1,3,2,4,5]>(a) w = Reshape(t, n) m = MatMul(w, k) "
        "r = Reshape(m, u) b = Transpose<perm=[0,1,3,2,4,5]>(r) y = Reshape(b, v)",
        {
            "s": i64(2, 3, 7, 3, 5, 4),
            "n": i64(-1, 35, 4),
            "k": (4, 6),
            "u": i64(2, 3, 3, 7, 5, 6),
            "v": i64(2, 21, 15, 6),
        },
    ),
    Case(
        "plain/qkv_of_one",
        "float[1,7,12] x",
        "m = MatMul(x, w) r = Reshape(m, s) t = Transpose<perm=[2,0,3,1,4]>(r) q = Gather<axis=0>(t, i) "
        "k = Gather<axis=0>(t, j) v = Gather<axis=0>(t, l) z = Transpose<perm=[0,1,3,2]>(k) a = MatMul(q, z) "
        "p = Softmax<axis=-1>(a) y = MatMul(p, v)",
        {
            "w": (12, 30),
            "s": i64(1, 7, 3, 2, 5),
            "i": np.int64(0),
            "j": np.int64(1),
            "l": np.int64(2),
        },
    ),
    Case(
        "plain/qkv_of_two",
        "float[2,7,12] x",
        "m = MatMul(x, w) r = Reshape(m, s) t = Transpose<perm=[2,0,3,1,4]>(r) q = Gather<axis=0>(t, i) "
        "k = Gather<axis=0>(t, j) v = Gather<axis=0>(t, l) z = Transpose<perm=[0,1,3,2]>(k) a = MatMul(q, z) "
        "p = Softmax<axis=-1>(a) y = MatMul(p, v)",
        {
            "w": (12, 90),
            "s": i64(2, 7, 3, 6, 5),
            "i": np.int64(0),
            "j": np.int64(1),
            "l": np.int64(2),
        },
    ),
    Case(
        "plain/qkv_unbound",
        "float[2,7,12] x",
        "m = MatMul(x, w) r = Reshape(m, s) t = Transpose<perm=[2,0,3,1,4]>(r) q, k, v = Split<axis=0>(t) "
        "z = Transpose<perm=[0,1,2,4,3]>(k) a = MatMul(q, z) p = Softmax<axis=-1>(a) y = MatMul(p, v)",
        {"w": (12, 90), "s": i64(2, 7, 3, 6, 5)},
    ),
    Case(
        "plain/boxes",
        "float[1,21,9,6] x",
        "r = Reshape(x, s) t = Transpose<perm=[0,1,3,4,2]>(r) g = Sigmoid(t) a = Slice(g, z, two, last) "
        "m = Mul(a, scale) n = Add(m, grid) c = Slice(g, two, end, last) d = Concat<axis=-1>(n, c) y = Reshape(d, u)",
        {
            "s": i64(1, 3, 7, 9, 6),
            "z": i64(0),
            "two": i64(2),
            "end": i64(7),
            "last": i64(4),
            "scale": f32(1.5),
            "grid": (1, 3, 9, 6, 2),
            "u": i64(1, -1, 7),
        },
    ),
    Case(
        "plain/five_axes_of_one",
        "float[1,6,1,5,3] x",
        "e = Exp(x) s = Slice(e, z, two, axis) r = ReduceSum(s, a) y = Mul(r, half)",
        {"z": i64(1), "two": i64(5), "axis": i64(1), "a": i64(3), "half": np.float32(0.5)},
    ),
    Case(
        "plain/gather_of_five_axes",
        "float[2,3,4,5,6] x, int64[7] i",
        "e = Exp(x) y = Gather<axis=3>(e, i)",
        ranges={"i": (0, 5)},
    ),
    Case(
        "plain/six_axes_dynamic",
        "float[N,21,15,4] x",
        "a = Reshape(x, s) t = Transpose<perm=[0,1,3,2,4,5]>(a) y = Reshape(t, n)",
        {"s": i64(-1, 3, 7, 3, 5, 4), "n": i64(-1, 35, 4)},
        shapes={"x": (2, 21, 15, 4)},
    ),
]

FOLDED = [
    Case(
        "plain/first_state",
        "float[1,5] x",
        "p = MatMul(a, w) y = Add(x, p)",
        {"a": (1, 4), "w": (4, 5)},
    ),
    Case(
        "plain/one_hot_last",
        "int32[3,7] ids",
        "h = OneHot<axis=-1>(ids, depth, values) y = MatMul(h, w)",
        {"depth": np.int32(11), "values": f32(0.25, 2), "w": (11, 5)},
        ranges={"ids": (-11, 11)},
    ),
    # Token types as exporters write them: elements of a buffer of zeros, which pick rows of a table.
    Case(
        "plain/types_of_tokens",
        "float[2,7,5] x",
        "t = GatherElements<axis=1>(buffer, places) e = Gather(table, t) y = Add(x, e)",
        {"buffer": i64(*range(-9, 9)).reshape(2, 9) % 3, "places": i64(*range(14)).reshape(2, 7) % 9, "table": (3, 5)},
    ),
    Case(
        "plain/one_row",
        "float[2,150,300] x",
        "e = Gather(table, ids) s = Add(x, e) f = Gather<axis=1>(columns, jds) m = Mul(s, f) y = Sub(e, m)",
        {
            "table": (2, 300),
            "ids": np.ones((2, 150), np.int64),
            "columns": (150, 2),
            "jds": -np.ones(300, np.int64),
        },
    ),
    # An output, and an op whose other operand is smaller: the rows are needed as they are.
    Case(
        "plain/one_row_alone",
        "float[300] x",
        "e = Gather(table, ids) y = Add(x, e) z = Add(e, b)",
        {"table": (2, 300), "ids": np.ones((2, 150), np.int64), "b": (150, 1)},
    ),
    # Swin v2: places in a window go through a network of two layers, and pairs of places pick of the result.
    # The first layer of DETR's decoder: learned queries and themselves.
    Case(
        "plain/attention_of_constants",
        "float[1,7,5] x",
        "q = MatMul(a, w) k = MatMul(a, v) t = Transpose<perm=[0,2,1]>(k) s = MatMul(q, t) m = Add(s, mask) "
        "p = Softmax<axis=-1>(m) r = MatMul(p, u) y = Add(x, r)",
        {
            "a": (1, 7, 5),
            "w": (5, 6),
            "v": (5, 6),
            "u": (1, 7, 5),
            "mask": np.where(np.arange(49).reshape(7, 7) % 3 == 1, -np.inf, 0.5).astype(np.float32),
        },
    ),
    Case("plain/softmax_of_a_constant", "float[2,5,3] x", "p = Softmax<axis=1>(c) y = Mul(x, p)", {"c": (2, 5, 3)}),
    Case(
        "plain/biases_of_places",
        "float[3,4,9,9] x",
        "h = MatMul(places, w) g = Add(h, b) r = Relu(g) m = MatMul(r, v) f = Reshape(m, list) e = Gather(f, pairs) "
        "q = Reshape(e, square) t = Transpose<perm=[2,0,1]>(q) s = Sigmoid(t) k = Mul(s, sixteen) u = Unsqueeze(k, first) "
        "y = Add(x, u)",
        {
            "places": (1, 13, 13, 2),
            "w": (2, 401),
            "b": (401,),
            "v": (401, 4),
            "list": i64(-1, 4),
            "pairs": (i64(*range(81)) * 37) % 169,
            "square": i64(9, 9, -1),
            "sixteen": np.float32(16),
            "first": i64(0),
        },
    ),
    # A result that is larger than what it is made of: only a GPU's file has it as a constant.
    Case(
        "plain/biases_repeated",
        "float[1,5,140,140] x",
        "e = Gather<axis=1>(table, pairs) y = Add(x, e)",
        {"table": (5, 31), "pairs": (i64(*range(19600)) % 31).reshape(1, 140, 140)[0]},
    ),
    Case(
        "plain/nothing_of_it",
        "float[2,3] x, int64 rate",
        "z = Mul(rate, zero) c = Cast<to=1>(z) y = Add(x, c)",
        {"zero": np.int64(0)},
        ranges={"rate": (-9, 9)},
    ),
    Case("plain/turned_round", "float[3,2,7] x", "r = Slice(x, b, e, a, s) y = Tanh(r)", REVERSED),
    Case(
        "plain/turned_round_dynamic",
        "float[N,2,7] x",
        "r = Slice(x, b, e, a, s) y = Tanh(r)",
        REVERSED,
        shapes={"x": (3, 2, 7)},
    ),
    Case(
        "plain/turned_round_but_one",
        "float[3,2,7] x",
        "r = Slice(x, b, e, a, s) y = Tanh(r)",
        {**REVERSED, "b": i64(-2)},
    ),
    # One element, in front of which the slice begins: it is the first.
    Case(
        "plain/turned_round_from_before",
        "float[1,2,7] x",
        "r = Slice(x, b, e, a, s) y = Tanh(r)",
        {**REVERSED, "b": i64(-2)},
    ),
    Case(
        "plain/turned_round_twice",
        "float[3,2,7] x",
        "r = Slice(x, b, e, a, s) y = Tanh(r)",
        {"b": i64(-1, -1), "e": i64(-9, -9), "a": i64(0, 2), "s": i64(-1, -1)},
    ),
    # In as many operators: the axes that were dropped before come back.
    Case(
        "plain/below_the_highest",
        "float[2,3,7] x",
        "m = ReduceMax<keepdims=0>(x) f = Sub(m, range) g = Max(f, least) y = Max(x, g)",
        {"range": np.float32(0.5), "least": np.float32(0.125)},
    ),
    Case(
        "plain/reflected_signal",
        "float[2,11] x",
        'p = Pad<mode="reflect">(x, n) u = Unsqueeze(p, one) y = Conv<strides=[2]>(u, w)',
        {"n": i64(0, 2, 0, 3), "one": i64(1), "w": (4, 1, 5)},
    ),
]

# A model whose tensors are f16, which delegates take between CASTs.
HALF = [
    Case(
        "plain/model_in_half",
        "float16[1,3,9,8] x",
        "c = Conv<pads=[1,1,1,1]>(x, w, b) r = Relu(c) m = MatMul(r, k) y = Softmax<axis=-1>(m)",
        {
            "w": np.linspace(-1, 1, 108).reshape(4, 3, 3, 3).astype(np.float16),
            "b": np.linspace(0, 1, 4).astype(np.float16),
            "k": np.linspace(1, -1, 48).reshape(8, 6).astype(np.float16),
        },
    ),
]

# A row of minus infinity: nothing that attention may look at.
SCORES = np.linspace(-2, 3, 70, dtype=np.float32).reshape(1, 2, 5, 7)
SCORES[0, 1, 2] = -np.inf

# What --for gpu writes otherwise: test_for_gpu.py and test_gpu.py convert these with it.
FOR_GPU = [
    # As conditional DETR adds its points of reference to the first two of four numbers.
    Case(
        "plain/first_numbers_replaced",
        "float[1,7,4] x, float[1,7,2] u",
        "h = Tanh(x) r = ScatterND(h, places, u) y = Sigmoid(r)",
        {"places": np.stack(np.meshgrid([0], range(7), range(2), indexing="ij"), -1).astype(np.int64)},
        opset=16,
    ),
    # Learned queries, as of SigLIP's pooling; heads and rows differ.
    Case(
        "plain/constant_times",
        "float[1,4,7,5] x",
        "t = Tanh(x) s = MatMul(c, t) y = Sigmoid(s)",
        {"c": (1, 4, 3, 7)},
    ),
    Case(
        "plain/constant_times_transposed",
        "float[1,4,5,7] x",
        "n = Tanh(x) t = Transpose<perm=[0,1,3,2]>(n) s = MatMul(c, t) p = Softmax<axis=-1>(s) y = MatMul(p, n)",
        {"c": (1, 4, 3, 7)},
    ),
    Case(
        "plain/constant_row_times",
        "float[1,4,7,5] x",
        "t = Tanh(x) s = MatMul(c, t) y = Sigmoid(s)",
        {"c": (1, 4, 1, 7)},
    ),
    # In three axes the delegate would compute other numbers.
    Case(
        "plain/constant_times_of_three",
        "float[4,7,5] x",
        "t = Tanh(x) s = MatMul(c, t) y = Sigmoid(s)",
        {"c": (4, 3, 7)},
    ),
    # The delegate would multiply c into the weights, and write nothing to h.
    *(
        Case(
            f"plain/output_{op.lower()}ed_and_multiplied",
            "float[2,3,5] x",
            f"t = Tanh(x) h = {op}(t, c) y = MatMul(h, w)",
            {"c": (5,), "w": (5, 7)},
            outputs="float[2,3,5] h, float[2,3,7] y",
        )
        for op in ("Add", "Mul")
    ),
    # The delegate looks at neither attribute of CumSum, and sums wrongly along a first axis.
    *(
        Case(
            f"plain/sums_{name}",
            f"float[{shape}] x",
            f"t = Tanh(x) s = CumSum{attributes and f'<{attributes}>'}(t, axis) y = Sin(s)",
            {"axis": np.int32(axis)},
        )
        for name, shape, axis, attributes in (
            ("along_rows", "5,7", 0, ""),
            ("backwards", "2,3,7", 2, "reverse=1"),
            ("of_those_before", "2,3,7", 1, "exclusive=1"),
            ("of_those_behind", "2,3,5,7", -2, "exclusive=1,reverse=1"),
            ("of_one_batch", "1,3,5,7", 0, ""),
        )
    ),
    # RGB to BGR: the delegate turns channels round wrongly unless their number is a multiple of 4.
    Case(
        "plain/channels_turned_round",
        "float[2,3,5,7] x",
        "t = Tanh(x) r = Slice(t, b, e, a, s) y = Conv(r, w)",
        {"b": i64(-1), "e": i64(-9), "a": i64(1), "s": i64(-1), "w": (4, 3, 2, 2)},
    ),
    Case(
        "plain/columns_turned_round",
        "float[5,7] x",
        "t = Tanh(x) r = Slice(t, b, e, a, s) y = Sin(r)",
        {"b": i64(-1), "e": i64(-9), "a": i64(1), "s": i64(-1)},
    ),
    # As Phi-3 leaves nothing of a head unrotated.
    Case(
        "plain/nothing_beside",
        "float[1,4,7,6] x",
        "a = Slice(x, zero, six, last) b = Slice(x, six, far, last) s = Sin(a) c = Concat<axis=-1>(s, b) y = Tanh(c)",
        {"zero": i64(0), "six": i64(6), "far": i64(99), "last": i64(3)},
    ),
    Case(
        "plain/constant_times_batches",
        "float[2,7,5] x",
        "n = Tanh(x) s = MatMul(c, n) y = Sigmoid(s)",
        {"c": (3, 7)},
    ),
    Case(
        "plain/rows_replaced_between",
        "float[1,5,7] x, float[2,7] u",
        "h = Tanh(x) r = ScatterND(h, places, u) y = Sigmoid(r)",
        {"places": i64([0, 1], [0, 2])},
        opset=16,
    ),
    Case(
        "plain/clamped_input",
        "float[1,3,5,7] x",
        "c = Clip(x, zero, one) y = Mul(x, c)",
        {"zero": np.float32(0), "one": np.float32(1)},
        ranges={"x": (-2, 3)},
    ),
    Case("plain/hard_sigmoid", "float[1,3,5,7] x", "h = HardSigmoid<alpha=0.3,beta=0.4>(x) y = Mul(x, h)"),
    Case(
        "plain/transposed_relu",
        "float[1,3,5,7] x",
        "c = ConvTranspose<strides=[2,2]>(x, w, b) r = Relu(c) d = ConvTranspose<strides=[2,2]>(r, v) "
        "y = Clip(d, zero, six)",
        {"w": (3, 4, 3, 3), "b": (4,), "v": (4, 2, 2, 2), "zero": np.float32(0), "six": np.float32(6)},
    ),
    Case("plain/gated", "float[1,6,7,10] x", "a, b = Split<axis=1>(x) s = Sigmoid(a) y = Mul(b, s)"),
    Case(
        "plain/gated_unevenly",
        "float[2,5,9] x",
        "a, b, c = Split<axis=2>(x, sizes) e = Exp(a) m = Add(c, e) y = Concat<axis=2>(m, b)",
        {"sizes": i64(2, 5, 2)},
    ),
    Case(
        "plain/integers_apart",
        "int32[2,6,5] x",
        "a, b = Split<axis=1>(x) c = Cast<to=1>(a) d = Cast<to=1>(b) y = Mul(c, d)",
        ranges={"x": (-9, 9)},
    ),
    Case("plain/log_softmax", "float[2,7,5] x", "y = LogSoftmax<axis=-1>(x)", ranges={"x": (-90, 90)}),
    Case(
        "plain/response",
        "float[1,7,4,5] x",
        "y = LRN<size=5,alpha=0.3,beta=0.75,bias=1.5>(x)",
        ranges={"x": (-4, 4)},
    ),
    Case("plain/response_three", "float[2,6,4,5] x", "y = LRN<size=3,alpha=0.3,beta=0.5,bias=2.0>(x)"),
    # Constants with batches, which GPU delegates misread in tensors of fewer than four axes.
    Case(
        "plain/batches_of_a_constant",
        "float[2,7,5] x",
        "a = Add(x, p) b = Mul(a, q) c = Sub(r, b) e = Exp(c) y = Max(e, s)",
        {"p": (2, 7, 5), "q": (2, 1, 1), "r": (7, 5), "s": (2, 1, 5)},
    ),
    Case("plain/list_of_a_constant", "float[35] x", "a = Mul(x, p) e = Tanh(a) y = Add(e, q)", {"p": (35,), "q": (1,)}),
    Case(
        "plain/matrix_of_a_constant",
        "float[7,5] x",
        "a = Mul(x, p) g = Greater(a, q) y = Where(g, a, r)",
        {"p": (7, 1), "q": (7, 5), "r": (7, 5)},
    ),
    # Both operands are broadcast: one is a constant, the other is computed.
    Case(
        "plain/chosen_rows",
        "bool[1,2,7,1] c, float[1,2,1,5] x",
        "t = Tanh(x) s = Where(c, p, t) y = Sin(s)",
        {"p": (5,)},
    ),
    Case(
        "plain/chosen_by_fewer_axes",
        "bool[7,1] c, float[1,2,7,5] x",
        "t = Tanh(x) s = Where(c, t, p) y = Sin(s)",
        {"p": (1, 2, 7, 5)},
    ),
    Case(
        "plain/padded_integers",
        "int32[2,5,3] x",
        "p = Pad(x, n, v) y = Mul(p, p)",
        {"n": i64(0, 2, 1, 0, 3, 0), "v": np.int32(-7)},
        ranges={"x": (-9, 9)},
    ),
    Case("plain/reflected", "float[3,11] x", 'y = Pad<mode="reflect">(x, p)', {"p": i64(0, 2, 0, 3)}),
    Case("plain/reflected_batches", "float[2,9,5] x", 'y = Pad<mode="reflect">(x, p)', {"p": i64(0, 2, 0, 0, 3, 0)}),
    Case("plain/padded_batches", "float[2,9,5] x", "p = Pad(x, n) y = Relu(p)", {"n": i64(0, 2, 1, 0, 3, 0)}),
    Case("plain/padded_list", "float[11] x", "p = Pad(x, n, v) y = Mul(p, p)", {"n": i64(2, 3), "v": np.float32(-1.5)}),
    Case(
        "plain/floor_of_all",
        "float[1,3,7] x",
        "m = ReduceMax<keepdims=0>(x) f = Sub(m, range) y = Max(x, f)",
        {"range": np.float32(0.5)},
    ),
    Case(
        "plain/shuffled_input",
        "float[1,12,7,9] x",
        "r = Reshape(x, s) t = Transpose<perm=[0,1,4,2,5,3]>(r) y = Reshape(t, u)",
        {"s": i64(1, 3, 2, 2, 7, 9), "u": i64(1, 3, 14, 18)},
    ),
    Case(
        "plain/six_axes",
        "float[2,3,4,5,6,7] x",
        "e = Exp(x) y = Transpose<perm=[5,3,1,4,2,0]>(e)",
    ),
    Case(
        "plain/masked_rows",
        "float[1,2,5,7] s",
        "p = Softmax<axis=-1>(s) n = IsNaN(p) z = Where(n, zero, p) y = MatMul(z, v)",
        {"zero": np.float32(0), "v": (1, 2, 7, 3)},
        feeds={"s": SCORES},
    ),
    Case(
        "plain/a_masked_row",
        "float[1,2,3,7] s",
        "a = Add(s, mask) p = Softmax<axis=-1>(a) n = IsNaN(p) z = Where(n, zero, p) y = MatMul(z, v)",
        {
            "zero": np.float32(0),
            "mask": np.where(np.arange(3)[:, None] == 1, np.float32(-np.inf), np.float32(0)),
            "v": (1, 2, 7, 4),
        },
    ),
]

# --for gpu leaves their inputs i64: numbers that are computed, and are more than an index, may not fit 32 bits.
WIDE = [
    Case(
        f"plain/{name}",
        "int64[2,7] ids",
        f"e = Gather(table, ids) m = Mul(ids, far) {body} u = Unsqueeze(f, last) y = Mul(e, u)",
        {"table": (9, 5), "far": i64(1 << 30), "two": i64(2), "zero": i64(0), "last": i64(2)},
        ranges={"ids": (0, 9)},
    )
    for name, body in (
        ("products_compared", "q = Equal(m, zero) f = Cast<to=1>(q)"),
        ("products_below", "s = Sub(m, two) l = Less(s, zero) f = Cast<to=1>(l)"),
        ("products_as_numbers", "a = Add(m, two) f = Cast<to=1>(a)"),
    )
]

# Sums of ids, too, and what takes a negative product for 0.
WIDE += [
    Case(
        "plain/sums_as_numbers",
        "int64[2,7] ids, int64[7] more",
        "e = Gather(table, ids) s = Add(ids, more) t = Add(s, s) f = Cast<to=1>(t) u = Unsqueeze(f, last) y = Mul(e, u)",
        {"table": (9, 5), "last": i64(2)},
        ranges={"ids": (0, 9), "more": (2**30, 2**30 + 9)},
    ),
    Case(
        "plain/products_not_below_zero",
        "int64[2,3] ids, int64[3] more",
        "m = Mul(ids, more) l = Less(m, zero) w = Where(l, zero, m) y = Gather(table, w)",
        {"table": (9, 5), "zero": i64(0)},
        feeds={"ids": i64(1, 2, -65535, -1, 2, -65535).reshape(2, 3), "more": i64(3, 2, 65537)},
    ),
]

# 2^32 is 0 in 32 bits, so the smaller one of it and 2 is another. (Of 2^31 and 2 ONNX Runtime 1.31 takes 2^31.)
WIDE += [
    Case(
        "plain/products_clamped",
        "int64[2,7] ids",
        "m = Mul(ids, far) a = Min(m, two) y = Gather(table, a)",
        {"table": (9, 5), "far": i64(1 << 30), "two": i64(2)},
        feeds={"ids": i64(0, 4, 1, 8, 5, 6, 7, 8, 4, 0, 1, 1, 4, 6).reshape(2, 7)},
    )
]

# --for gpu takes i32 for their i64 inputs.
NARROWED = [
    Case(
        "plain/ids_of_64_bits",
        "int64[2,7] ids, int64[2,7] mask",
        "e = Gather(table, ids) c = Cast<to=1>(mask) u = Unsqueeze(c, last) y = Mul(e, u)",
        {"table": (11, 5), "last": i64(2)},
        ranges={"ids": (-11, 11), "mask": (0, 2)},
    ),
    # Positions as RoBERTa counts them: of the tokens that are not 1.
    Case(
        "plain/tokens_counted",
        "int64[2,7] ids",
        "e = Gather(table, ids) q = Equal(ids, one) n = Not(q) i = Cast<to=6>(n) s = CumSum(i, last) m = Mul(s, i) "
        "w = Cast<to=7>(m) p = Add(w, one) f = Gather(places, p) y = Add(e, f)",
        {"table": (11, 5), "places": (9, 5), "one": i64(1), "last": np.int32(1)},
        ranges={"ids": (0, 4)},
    ),
    # As OPT counts them: of a mask that is an input. Each sum is small, because it is looked up, or is as the one before.
    Case(
        "plain/mask_counted",
        "int64[2,7] mask, float[2,7,5] x",
        "s = CumSum(mask, last) m = Mul(s, mask) l = Sub(m, one) p = Add(l, two) e = Gather(places, p) y = Add(x, e)",
        {"places": (9, 5), "one": i64(1), "two": i64(2), "last": np.int32(1)},
        ranges={"mask": (0, 2)},
    ),
    # Labels of points as SAM's decoders use them: one more is put behind them, and they are compared and looked up.
    Case(
        "plain/labels_of_points",
        "int64[1,2,7] labels, float[1,2,8,5] x",
        "p = Pad(labels, n, none) u = Unsqueeze(p, last) q = Equal(u, none) w = Where(q, far, x) c = Clip(p, zero) "
        "e = Gather(table, c) g = GreaterOrEqual(p, zero) v = Unsqueeze(g, last) f = Cast<to=1>(v) m = Mul(e, f) "
        "y = Add(w, m)",
        {
            "n": i64(0, 0, 0, 0, 0, 1),
            "none": np.int64(-1),
            "last": i64(3),
            "zero": np.int64(0),
            "far": (5,),
            "table": (4, 5),
        },
        ranges={"labels": (-1, 4)},
    ),
    Case(
        "plain/mask_counted_backwards",
        "int64[2,7] mask, float[2,7,5] x",
        "s = CumSum<reverse=1>(mask, last) m = Mul(mask, s) e = Gather(places, m) y = Add(x, e)",
        {"places": (9, 5), "last": np.int32(1)},
        ranges={"mask": (0, 2)},
    ),
]

CASES = LOOK_UP + REPEAT + AXES + FOLDED + HALF + FOR_GPU + NARROWED + WIDE
