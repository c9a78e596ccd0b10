# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's fused transformer operators (com.microsoft), as its optimiser writes them."""

import numpy as np

from tests.support.case import Case, i64

MS = {"com.microsoft": 1}
X = "float[2,3,8] x"
Y = "float[2,3,8] y"
IDS = "int32[2,5] i"
TABLES = {"w": (11, 8), "p": (7, 8), "s": (3, 8), "g": (8,), "b": (8,)}
# Each as u8 with a scale (w1) and a zero point (w0) of its own.
QUANTIZED_TABLES = {
    name: value
    for at, (letter, shape) in enumerate(TABLES.items())
    for name, value in (
        (letter, np.random.default_rng(at).integers(0, 256, shape).astype(np.uint8)),
        (f"{letter}1", np.float32(0.01 + at / 300)),
        (f"{letter}0", np.uint8(110 + 9 * at)),
    )
}
WORDS = np.array([[0, 10, 3, 7, 2], [4, 4, 9, 1, 5]], np.int32)
SEGMENTS = np.array([[0, 1, 2, 2, 0], [1, 1, 0, 2, 1]], np.int32)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 2]], np.int32)
CACHES = {"c": (9, 4), "s": (9, 4)}
A = "float[2,5,7] x"
TOKENS = np.sin(np.arange(70, dtype=np.float32)).reshape(2, 5, 7)
QKV = "float[2,5,6] q, float[2,7,6] k, float[2,7,10] v"
QKV_VALUES = {
    name: np.sin(np.arange(np.prod(shape), dtype=np.float32) * step).reshape(shape)
    for name, shape, step in [("q", (2, 5, 6), 1), ("k", (2, 7, 6), 2), ("v", (2, 7, 10), 3)]
}
KEY_MASK = np.array([[1, 0, 1, 1, 0, 0, 1], [0, 1, 1, 1, 1, 2, 0]], np.int32)
GQA = "float[2,3,64] q, float[2,3,32] k, float[2,3,32] v"
GQA_ONE = "float[2,1,64] q, float[2,1,32] k, float[2,1,32] v"
WIDE_CACHES = {"c": (9, 8), "s": (9, 8)}

CASES = [
    Case(
        "skip_layer_norm/plain",
        f"{X}, float[2,3,8] s",
        "y = com.microsoft.SkipLayerNormalization(x, s, g)",
        {"g": (8,)},
        opsets=MS,
        outputs=Y,
    ),
    Case(
        "skip_layer_norm/all",
        f"{X}, float[2,3,8] s",
        "y, , , t = com.microsoft.SkipLayerNormalization<epsilon=0.01>(x, s, g, b, c)",
        {"g": (8,), "b": (8,), "c": (8,)},
        opsets=MS,
        outputs=f"{Y}, float[2,3,8] t",
    ),
    Case(
        "skip_layer_norm/skip_of_one_batch",
        f"{X}, float[1,3,8] s",
        "y = com.microsoft.SkipLayerNormalization(x, s, g, b)",
        {"g": (8,), "b": (8,)},
        opsets=MS,
        outputs=Y,
    ),
    Case(
        "skip_layer_norm/skip_without_batch",
        X,
        "y = com.microsoft.SkipLayerNormalization(x, s, g, , c)",
        {"s": (3, 8), "g": (8,), "c": (8,)},
        opsets=MS,
        outputs=Y,
    ),
    Case(
        "skip_layer_norm/dynamic",
        "float[N,S,8] x, float[N,S,8] s",
        "y = com.microsoft.SkipLayerNormalization(x, s, g)",
        {"g": (8,)},
        opsets=MS,
        outputs="float[N,S,8] y",
        shapes={"x": (2, 5, 8), "s": (2, 5, 8)},
    ),
    Case(
        "skip_layer_norm/half",
        "float16[2,3,8] x, float16[2,3,8] s",
        "y, , , t = com.microsoft.SkipLayerNormalization(x, s, g)",
        {"g": np.linspace(-1, 1, 8).astype(np.float16)},
        opsets=MS,
        outputs="float16[2,3,8] y, float16[2,3,8] t",
        tolerance=2e-3,
    ),
    Case(
        "skip_simplified_layer_norm/plain",
        f"{X}, float[2,3,8] s",
        "y = com.microsoft.SkipSimplifiedLayerNormalization(x, s, g)",
        {"g": (8,)},
        opsets=MS,
        outputs=Y,
    ),
    Case(
        "skip_simplified_layer_norm/all",
        f"{X}, float[2,3,8] s",
        "y, , , t = com.microsoft.SkipSimplifiedLayerNormalization<epsilon=0.01>(x, s, g, c)",
        {"g": (8,), "c": (8,)},
        opsets=MS,
        outputs=f"{Y}, float[2,3,8] t",
    ),
    Case(
        "simplified_layer_norm/last_axis",
        X,
        "y = SimplifiedLayerNormalization(x, g)",
        {"g": (8,)},
        outputs=Y,
        foreign=True,
    ),
    Case(
        "simplified_layer_norm/two_axes",
        X,
        "y, i = SimplifiedLayerNormalization<axis=1, epsilon=0.1, stash_type=1>(x, g)",
        {"g": (3, 8)},
        outputs=f"{Y}, float[2,1,1] i",
        foreign=True,
    ),
    Case(
        "embed_layer_norm/all",
        f"{IDS}, int32[2,5] t, int32[2,5] m",
        "y, n, e = com.microsoft.EmbedLayerNormalization<epsilon=0.01, mask_index_type=1>(i, t, w, p, s, g, b, m)",
        TABLES,
        opsets=MS,
        outputs="float[2,5,8] y, int32[2] n, float[2,5,8] e",
        feeds={"i": WORDS, "t": SEGMENTS, "m": MASK},
    ),
    Case(
        "embed_layer_norm/no_segments",
        IDS,
        "y, n = com.microsoft.EmbedLayerNormalization(i, , w, p, , g, b)",
        {k: v for k, v in TABLES.items() if k != "s"},
        opsets=MS,
        outputs="float[2,5,8] y, int32[2] n",
        feeds={"i": WORDS},
    ),
    Case(
        "embed_layer_norm/position_ids",
        f"{IDS}, int32[1,5] q",
        "y, n = com.microsoft.EmbedLayerNormalization(i, , w, p, , g, b, , q)",
        {k: v for k, v in TABLES.items() if k != "s"},
        opsets=MS,
        outputs="float[2,5,8] y, int32[2] n",
        feeds={"i": WORDS, "q": np.array([[6, 0, 2, 2, 5]], np.int32)},
    ),
    Case(
        "embed_layer_norm/lengths_for_attention",
        "int32[N,S] i, int32[N,S] m, int32[P,T] q",
        """e, n = com.microsoft.EmbedLayerNormalization(i, , w, p, , g, b, m, q)
            y = com.microsoft.Attention<num_heads=2>(e, a, z, n)""",
        {**{k: v for k, v in TABLES.items() if k != "s"}, "a": (8, 24), "z": (24,)},
        opsets=MS,
        outputs="float[N,S,8] y",
        feeds={"i": WORDS, "m": MASK, "q": np.array([[6, 0, 2, 2, 5]], np.int32)},
    ),
    Case(
        "embed_layer_norm/dynamic",
        "int32[N,S] i, int32[N,S] t",
        "y, n = com.microsoft.EmbedLayerNormalization(i, t, w, p, s, g, b)",
        TABLES,
        opsets=MS,
        outputs="float[N,S,8] y, int32[N] n",
        feeds={"i": WORDS, "t": SEGMENTS},
    ),
    Case(
        "q_embed_layer_norm/all",
        f"{IDS}, int32[2,5] t, int32[2,5] m",
        "y, n = com.microsoft.QEmbedLayerNormalization<epsilon=0.01>"
        "(i, t, w, p, s, g, b, m, w1, p1, s1, g1, b1, w0, p0, s0, g0, b0)",
        QUANTIZED_TABLES,
        opsets=MS,
        outputs="float[2,5,8] y, int32[2] n",
        feeds={"i": WORDS, "t": SEGMENTS, "m": MASK},
    ),
    Case(
        "q_embed_layer_norm/no_segments",
        IDS,
        "y, n = com.microsoft.QEmbedLayerNormalization(i, , w, p, , g, b, , w1, p1, , g1, b1, w0, p0, , g0, b0)",
        {k: v for k, v in QUANTIZED_TABLES.items() if k[0] != "s"},
        opsets=MS,
        outputs="float[2,5,8] y, int32[2] n",
        feeds={"i": WORDS},
    ),
    Case(
        "ms_rotary_embedding/3d",
        "float[2,5,24] x",
        "y = com.microsoft.RotaryEmbedding(x, p, c, s)",
        {**CACHES, "p": np.array([[0, 1, 2, 3, 8], [4, 5, 6, 7, 1]], np.int64)},
        opsets=MS,
        outputs="float[2,5,24] y",
    ),
    Case(
        "ms_rotary_embedding/from_position",
        "float[2,5,24] x, int64[1] p",
        "y = com.microsoft.RotaryEmbedding<interleaved=1>(x, p, c, s)",
        CACHES,
        opsets=MS,
        outputs="float[2,5,24] y",
        feeds={"x": np.linspace(-1, 1, 240).reshape(2, 5, 24).astype(np.float32), "p": i64(3)},
    ),
    Case(
        "ms_rotary_embedding/4d",
        "float[2,3,5,8] x",
        "y = com.microsoft.RotaryEmbedding(x, p, c, s)",
        {**CACHES, "p": i64(2)},
        opsets=MS,
        outputs="float[2,3,5,8] y",
    ),
    Case(
        "ms_rotary_embedding/4d_one_position",
        "float[2,3,1,8] x",
        "y = com.microsoft.RotaryEmbedding(x, p, c, s)",
        {**CACHES, "p": np.array([[4], [7]], np.int64)},
        opsets=MS,
        outputs="float[2,3,1,8] y",
    ),
    Case(
        "ms_rotary_embedding/partial",
        "float[2,5,24] x",
        "y = com.microsoft.RotaryEmbedding<num_heads=2, rotary_embedding_dim=8, scale=2.0>(x, p, c, s)",
        {**CACHES, "p": i64(1)},
        opsets=MS,
        outputs="float[2,5,24] y",
    ),
    Case(
        "ms_rotary_embedding/dynamic",
        "float[N,S,24] x",
        "y = com.microsoft.RotaryEmbedding(x, p, c, s)",
        {**CACHES, "p": i64(1)},
        opsets=MS,
        outputs="float[N,S,24] y",
        shapes={"x": (2, 5, 24)},
    ),
    *(
        Case(
            f"ms_attention/{name}",
            f"{A}{inputs}",
            f"y = com.microsoft.Attention<num_heads=2{attributes}>({arguments})",
            {"w": (7, 18), "b": (18,)},
            opsets=MS,
            outputs="float[2,5,6] y",
            feeds=feeds and {"x": TOKENS, **feeds},
        )
        for name, inputs, attributes, arguments, feeds in [
            ("plain", "", "", "x, w, b", None),
            ("scale", "", ", scale=0.3", "x, w, b", None),
            ("unidirectional", "", ", unidirectional=1", "x, w, b", None),
            ("mask_2d", ", int32[2,5] m", "", "x, w, b, m", {"m": MASK}),
            ("mask_filter", ", int32[2,5] m", ", mask_filter_value=-2.5", "x, w, b, m", {"m": MASK}),
            ("mask_unidirectional", ", int32[2,5] m", ", unidirectional=1", "x, w, b, m", {"m": MASK[:, ::-1].copy()}),
            ("mask_of_one", ", int32[2,1] m", "", "x, w, b, m", {"m": np.zeros((2, 1), np.int32)}),
            ("mask_3d", ", int32[2,5,5] m", "", "x, w, b, m", {"m": np.tri(5, dtype=np.int32)[None] * MASK[:, None]}),
            ("lengths", ", int32[2] m", "", "x, w, b, m", {"m": np.array([3, 5], np.int32)}),
            ("ends_and_starts", ", int32[4] m", "", "x, w, b, m", {"m": np.array([3, 5, 1, 2], np.int32)}),
            ("attention_bias", ", float[2,2,5,5] a", "", "x, w, b, , , a", None),
            (
                "attention_bias_mask",
                ", int32[2,5] m, float[1,1,5,5] a",
                "",
                "x, w, b, m, , a",
                {"m": MASK, "a": np.linspace(-2, 2, 25, dtype=np.float32).reshape(1, 1, 5, 5)},
            ),
        ]
    ),
    # ONNX Runtime 1.31 crashes without a bias, though it declares it optional.
    Case(
        "ms_attention/no_bias",
        A,
        "y = com.microsoft.Attention<num_heads=2>(x, w)",
        {"w": (7, 18), "zero": np.zeros(18, np.float32)},
        opsets=MS,
        outputs="float[2,5,6] y",
        same_as="y = com.microsoft.Attention<num_heads=2>(x, w, zero)",
    ),
    Case(
        "ms_attention/do_rotary",
        A,
        "y = com.microsoft.Attention<num_heads=2, do_rotary=1>(x, w, b)",
        {"w": (7, 18), "b": (18,)},
        opsets=MS,
        outputs="float[2,5,6] y",
    ),
    Case(
        "ms_attention/hidden_sizes",
        A,
        "y = com.microsoft.Attention<num_heads=2, qkv_hidden_sizes=[6,6,10]>(x, w, b)",
        {"w": (7, 22), "b": (22,)},
        opsets=MS,
        outputs="float[2,5,10] y",
    ),
    Case(
        "ms_attention/past",
        f"{A}, float[2,2,2,4,3] p",
        "y, n = com.microsoft.Attention<num_heads=2, unidirectional=1>(x, w, b, , p)",
        {"w": (7, 18), "b": (18,)},
        opsets=MS,
        outputs="float[2,5,6] y, float[2,2,2,9,3] n",
    ),
    Case(
        "ms_attention/dynamic",
        "float[N,S,7] x, int32[N,S] m",
        "y = com.microsoft.Attention<num_heads=2, unidirectional=1>(x, w, b, m)",
        {"w": (7, 18), "b": (18,)},
        opsets=MS,
        outputs="float[N,S,6] y",
        feeds={"x": TOKENS, "m": MASK},
    ),
    Case(
        "ms_attention/dynamic_past",
        "float[N,S,7] x, int32[N,T] m, float[2,N,2,P,3] p",
        "y, n = com.microsoft.Attention<num_heads=2, unidirectional=1>(x, w, b, m, p)",
        {"w": (7, 18), "b": (18,)},
        opsets=MS,
        outputs="float[N,S,6] y, float[2,N,2,T,3] n",
        feeds={
            "x": TOKENS,
            "m": np.array([[1] * 8 + [0], [0, 0] + [1] * 7], np.int32),
            "p": np.cos(np.arange(96, dtype=np.float32)).reshape(2, 2, 2, 4, 3),
        },
    ),
    Case(  # the first call
        "ms_attention/past_of_no_token",
        "float[N,S,7] x, float[2,N,2,P,3] p",
        "y, n = com.microsoft.Attention<num_heads=2, unidirectional=1>(x, w, b, , p)",
        {"w": (7, 18), "b": (18,)},
        opsets=MS,
        outputs="float[N,S,6] y, float[2,N,2,T,3] n",
        feeds={"x": TOKENS, "p": np.zeros((2, 2, 2, 0, 3), np.float32)},
    ),
    *(
        Case(
            f"multi_head_attention/{name}",
            f"{QKV}{inputs}",
            f"y = com.microsoft.MultiHeadAttention<num_heads=2{attributes}>({arguments})",
            {"b": (22,)},
            opsets=MS,
            outputs="float[2,5,10] y",
            feeds=feeds and {**QKV_VALUES, **feeds},
        )
        for name, inputs, attributes, arguments, feeds in [
            ("plain", "", "", "q, k, v", None),
            ("bias_scale", "", ", scale=0.7", "q, k, v, b", None),
            ("mask_2d", ", int32[2,7] m", "", "q, k, v, b, m", {"m": KEY_MASK}),
            ("mask_filter", ", int32[2,7] m", ", mask_filter_value=-1.5", "q, k, v, , m", {"m": KEY_MASK}),
            ("lengths", ", int32[2] m", "", "q, k, v, b, m", {"m": np.array([3, 6], np.int32)}),
            ("attention_bias", ", float[1,2,5,7] a", "", "q, k, v, , , a", None),
            ("unidirectional_unequal", "", ", unidirectional=1", "q, k, v", None),
        ]
    ),
    Case(
        "multi_head_attention/unidirectional",
        "float[2,5,6] q, float[2,5,6] k, float[2,5,10] v, int32[2,5] m",
        "y = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>(q, k, v, , m)",
        opsets=MS,
        outputs="float[2,5,10] y",
        feeds={
            "q": QKV_VALUES["q"],
            "k": QKV_VALUES["k"][:, :5].copy(),
            "v": QKV_VALUES["v"][:, 2:].copy(),
            "m": MASK[:, ::-1].copy(),
        },
    ),
    Case(
        "multi_head_attention/past",
        "float[2,5,6] q, float[2,7,6] k, float[2,7,6] v, float[2,2,4,3] ok, float[2,2,4,3] ov",
        "y, nk, nv = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v, b, , , ok, ov)",
        {"b": (18,)},
        opsets=MS,
        outputs="float[2,5,6] y, float[2,2,11,3] nk, float[2,2,11,3] nv",
    ),
    Case(
        "multi_head_attention/past_unidirectional",
        "float[2,5,6] q, float[2,5,6] k, float[2,5,6] v, float[2,2,4,3] ok, float[2,2,4,3] ov",
        "y, nk, nv = com.microsoft.MultiHeadAttention<num_heads=2, unidirectional=1>(q, k, v, , , , ok, ov)",
        opsets=MS,
        outputs="float[2,5,6] y, float[2,2,9,3] nk, float[2,2,9,3] nv",
    ),
    # ONNX Runtime's CPU provider has no kernel for packed inputs.
    Case(
        "multi_head_attention/packed_keys_values",
        "float[2,5,6] q, float[2,7,2,2,3] p, int32[2,7] m",
        "y = com.microsoft.MultiHeadAttention<num_heads=2>(q, p, , , m)",
        {"f": i64(2, 7, 6), "one": i64(1, 1)},
        opsets=MS,
        outputs="float[2,5,6] y",
        same_as="""a, c = Split<axis=3>(p, one) k = Reshape(a, f) v = Reshape(c, f)
                    y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v, , m)""",
    ),
    *(
        Case(
            f"multi_head_attention/packed{name}",
            "float[2,5,2,3,4] p",
            f"y, nk, nv = com.microsoft.MultiHeadAttention<num_heads=2{attributes}>(p{arguments})",
            {"f": i64(2, 5, 8), "one": i64(1, 1, 1), **bias},
            opsets=MS,
            outputs="float[2,5,8] y, float[2,2,5,4] nk, float[2,2,5,4] nv",
            same_as=f"""a, c, d = Split<axis=3>(p, one) q = Reshape(a, f) k = Reshape(c, f) v = Reshape(d, f)
                       y, nk, nv = com.microsoft.MultiHeadAttention<num_heads=2{attributes}>(q, k, v{arguments[4:]})""",
        )
        for name, attributes, arguments, bias in [
            ("", "", "", {}),
            ("_bias", ", unidirectional=1", ", , , b", {"b": (24,)}),
        ]
    ),
    Case(
        "multi_head_attention/packed_dynamic",
        "float[N,S,2,3,4] p",
        "y = com.microsoft.MultiHeadAttention<num_heads=2>(p)",
        {"f": i64(0, 0, 8), "one": i64(1, 1, 1)},
        opsets=MS,
        outputs="float[N,S,8] y",
        shapes={"p": (2, 5, 2, 3, 4)},
        same_as="""a, c, d = Split<axis=3>(p, one) q = Reshape(a, f) k = Reshape(c, f) v = Reshape(d, f)
                    y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v)""",
    ),
    Case(
        "multi_head_attention/keys_by_heads",
        "float[2,5,6] q, float[2,2,7,3] k, float[2,2,7,3] v",
        "y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v)",
        opsets=MS,
        outputs="float[2,5,6] y",
    ),
    Case(  # an encoder's cache has its keys and values with their biases
        "multi_head_attention/keys_by_heads_bias",
        "float[2,5,6] q, float[2,2,7,3] k, float[2,2,7,3] v",
        "y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v, b)",
        {"b": (18,)},
        opsets=MS,
        outputs="float[2,5,6] y",
    ),
    Case(
        "multi_head_attention/dynamic",
        "float[N,S,6] q, float[N,L,6] k, float[N,L,10] v, int32[N,L] m",
        "y = com.microsoft.MultiHeadAttention<num_heads=2>(q, k, v, b, m)",
        {"b": (22,)},
        opsets=MS,
        outputs="float[N,S,10] y",
        feeds={**QKV_VALUES, "m": KEY_MASK},
    ),
    *(
        Case(
            f"group_query_attention/{name}",
            f"{GQA}{inputs}",
            f"y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2{attributes}>({arguments})",
            {
                "l": np.array(lengths, np.int32),
                "t": np.array([total], np.int32),
                **WIDE_CACHES,
                "h": np.array([-1, 0.5, 2, 0], np.float32),
                "p": i64(3, 1, 4, 0, 5, 2).reshape(2, 3),
            },
            opsets=MS,
            outputs=f"float[2,3,64] y, float[2,2,{rows},16] nk, float[2,2,{rows},16] nv",
        )
        for name, inputs, attributes, arguments, lengths, total, rows in [
            ("prompt", "", "", "q, k, v, , , l, t", [2, 2], 3, 3),
            ("prompt_rotary", "", ", do_rotary=1", "q, k, v, , , l, t, c, s", [2, 2], 3, 3),
            ("prompt_scale_softcap", "", ", scale=0.6, softcap=1.5", "q, k, v, , , l, t", [2, 2], 3, 3),
            ("prompt_window", "", ", local_window_size=2", "q, k, v, , , l, t", [2, 2], 3, 3),
            ("prompt_positions", "", ", do_rotary=1", "q, k, v, , , l, t, c, s, p", [2, 2], 3, 3),
            ("prompt_bias", ", float[2,4,3,3] a", ", softcap=1.5", "q, k, v, , , l, t, , , , a", [2, 2], 3, 3),
            ("prompt_sinks", "", "", "q, k, v, , , l, t, , , , , h", [2, 2], 3, 3),
            ("prompt_smooth_softmax", "", ", smooth_softmax=1", "q, k, v, , , l, t", [2, 2], 3, 3),
            (
                "prompt_bias_in_buffer",
                ", float[2,2,7,16] ok, float[2,2,7,16] ov, float[1,1,3,3] a",
                "",
                "q, k, v, ok, ov, l, t, , , , a",
                [2, 2],
                3,
                7,
            ),
            # The second entry has one token and padding.
            ("padded_prompt", "", "", "q, k, v, , , l, t", [2, 0], 3, 3),
            ("padded_prompt_sinks", "", "", "q, k, v, , , l, t, , , , , h", [2, 0], 3, 3),
            ("padded_prompt_bias", ", float[2,4,3,3] a", "", "q, k, v, , , l, t, , , , a", [2, 1], 3, 3),
            ("padded_prompt_window", "", ", local_window_size=1, softcap=9.0", "q, k, v, , , l, t", [2, 0], 3, 3),
            (
                "padded_prompt_in_buffer",
                ", float[2,2,7,16] ok, float[2,2,7,16] ov",
                "",
                "q, k, v, ok, ov, l, t",
                [0, 1],
                3,
                7,
            ),
            ("prompt_in_buffer", ", float[2,2,7,16] ok, float[2,2,7,16] ov", "", "q, k, v, ok, ov, l, t", [2, 2], 3, 7),
        ]
    ),
    *(
        Case(
            f"group_query_attention/{name}",
            f"{GQA_ONE}, float[2,2,{past},16] ok, float[2,2,{past},16] ov",
            f"y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2{attributes}>({arguments})",
            {
                "l": np.array(lengths, np.int32),
                "t": np.array([total], np.int32),
                **WIDE_CACHES,
                "h": np.array([-1, 0.5, 2, 0], np.float32),
                "p": i64(7, 2).reshape(2, 1),
                "a": np.sin(np.arange(48, dtype=np.float32)).reshape(2, 4, 1, 6),
            },
            opsets=MS,
            outputs=f"float[2,1,64] y, float[2,2,{rows},16] nk, float[2,2,{rows},16] nv",
        )
        for name, past, attributes, arguments, lengths, total, rows in [
            ("token", 5, "", "q, k, v, ok, ov, l, t", [5, 5], 6, 6),
            ("token_of_unequal_pasts", 5, "", "q, k, v, ok, ov, l, t", [5, 3], 6, 6),
            ("token_rotary", 5, ", do_rotary=1, rotary_interleaved=1", "q, k, v, ok, ov, l, t, c, s", [5, 3], 6, 6),
            ("token_positions", 5, ", do_rotary=1", "q, k, v, ok, ov, l, t, c, s, p", [5, 3], 6, 6),
            ("token_bias", 5, "", "q, k, v, ok, ov, l, t, , , , a", [5, 3], 6, 6),
            (
                "token_bias_sinks_in_buffer",
                8,
                ", local_window_size=3",
                "q, k, v, ok, ov, l, t, , , , a, h",
                [5, 3],
                6,
                8,
            ),
            ("token_in_buffer", 8, "", "q, k, v, ok, ov, l, t", [5, 3], 6, 8),
            ("token_window", 5, ", local_window_size=3", "q, k, v, ok, ov, l, t", [5, 4], 6, 6),
        ]
    ),
    Case(
        "group_query_attention/packed_rotary",
        "float[2,3,128] q",
        "y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2, do_rotary=1>(q, , , , , l, t, c, s)",
        {"l": np.array([2, 2], np.int32), "t": np.array([3], np.int32), **WIDE_CACHES},
        opsets=MS,
        outputs="float[2,3,64] y, float[2,2,3,16] nk, float[2,2,3,16] nv",
    ),
    Case(
        "group_query_attention/lengths_of_the_run",
        f"{GQA_ONE}, float[2,2,5,16] ok, float[2,2,5,16] ov, int32[2] l",
        "y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2>(q, k, v, ok, ov, l, t)",
        {"t": np.array([6], np.int32)},
        opsets=MS,
        outputs="float[2,1,64] y, float[2,2,6,16] nk, float[2,2,6,16] nv",
        ranges={"l": (2, 6)},
    ),
    Case(
        "group_query_attention/padding_of_the_run",
        f"{GQA}, int32[2] l",
        "y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2, do_rotary=1>(q, k, v, , , l, t, c, s)",
        {"t": np.array([3], np.int32), **WIDE_CACHES},
        opsets=MS,
        outputs="float[2,3,64] y, float[2,2,3,16] nk, float[2,2,3,16] nv",
        ranges={"l": (0, 3)},
    ),
    Case(
        "group_query_attention/more_tokens",
        "float[1,3,64] q, float[1,3,32] k, float[1,3,32] v, float[1,2,4,16] ok, float[1,2,4,16] ov",
        """y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2, do_rotary=1, local_window_size=5>
            (q, k, v, ok, ov, l, t, c, s)""",
        {"l": np.array([6], np.int32), "t": np.array([7], np.int32), **WIDE_CACHES},
        opsets=MS,
        outputs="float[1,3,64] y, float[1,2,7,16] nk, float[1,2,7,16] nv",
    ),
    Case(
        "group_query_attention/total_of_the_run",
        f"{GQA}, int32[1] t",
        "y = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2>(q, k, v, , , l, t)",
        {"l": np.array([2, 2], np.int32)},
        opsets=MS,
        outputs="float[2,3,64] y",
        feeds={},
    ),
    Case(
        "group_query_attention/dynamic_batch",
        "float[N,1,64] q, float[N,1,32] k, float[N,1,32] v, float[N,2,5,16] ok, float[N,2,5,16] ov, int32[N] l",
        "y, nk, nv = com.microsoft.GroupQueryAttention<num_heads=4, kv_num_heads=2, do_rotary=1>(q, k, v, ok, ov, l, t, c, s)",
        {"t": np.array([6], np.int32), **WIDE_CACHES},
        opsets=MS,
        outputs="float[N,1,64] y, float[N,2,6,16] nk, float[N,2,6,16] nv",
        ranges={"l": (2, 6)},
        shapes={"q": (3, 1, 64), "k": (3, 1, 32), "v": (3, 1, 32), "ok": (3, 2, 5, 16), "ov": (3, 2, 5, 16), "l": (3,)},
    ),
    # What PyTorch's exporter wrote before ONNX had these operators.
    *(
        Case(
            f"ms_grid_sample/{mode}_{padding}",
            "float[2,3,5,7] x, float[2,4,6,2] g",
            f'y = com.microsoft.GridSample<mode="{mode}", padding_mode="{padding}", align_corners={corners}>(x, g)',
            opsets=MS,
            outputs="float[2,3,4,6] y",
            ranges={"g": (-1.3, 1.3)},
        )
        for mode, padding, corners in [("bilinear", "zeros", 0), ("nearest", "border", 1), ("bicubic", "reflection", 1)]
    ),
    Case("ms_trilu/upper", "float[2,5,7] x", "y = com.microsoft.Trilu(x)", opsets=MS, outputs="float[2,5,7] y"),
    Case(
        "ms_trilu/lower_diagonal",
        "float[2,5,7] x, int64 k",
        "y = com.microsoft.Trilu<upper=0>(x, k)",
        opsets=MS,
        outputs="float[2,5,7] y",
    ),
    Case(
        "ms_gather_nd/rows",
        "float[3,5,7] x",
        "y = com.microsoft.GatherND(x, i)",
        {"i": i64(2, 4, 0, 1, 1, 3).reshape(3, 2)},
        opsets=MS,
        outputs="float[3,7] y",
    ),
    # The delta may be missing.
    Case(
        "ms_range/without_delta",
        "int64 a, int64[1] b",
        "y = com.microsoft.Range(a, b)",
        opsets=MS,
        outputs="int64[N] y",
        feeds={"a": np.array(3), "b": i64(8)},
    ),
    Case(
        "ms_range/floats",
        "float a, float b",
        "y = com.microsoft.Range(a, b, d)",
        {"d": np.float32(-0.5)},
        opsets=MS,
        outputs="float[N] y",
        feeds={"a": np.array(3.3, np.float32), "b": np.array(-2, np.float32)},
    ),
    Case(
        "ms_range/constants",
        "int32[3] x",
        "r = com.microsoft.Range(a, b) y = Add(x, r)",
        {"a": np.int32(2), "b": np.int32(5)},
        opsets=MS,
        outputs="int32[3] y",
    ),
]
