"""ONNX Runtime's fused transformer operators (com.microsoft), as its optimiser writes them."""

import numpy as np

from case import Case, i64

MS = {"com.microsoft": 1}
X = "float[2,3,8] x"
Y = "float[2,3,8] y"
IDS = "int32[2,5] i"
TABLES = {"w": (11, 8), "p": (7, 8), "s": (3, 8), "g": (8,), "b": (8,)}
WORDS = np.array([[0, 10, 3, 7, 2], [4, 4, 9, 1, 5]], np.int32)
SEGMENTS = np.array([[0, 1, 2, 2, 0], [1, 1, 0, 2, 1]], np.int32)
MASK = np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 2]], np.int32)
CACHES = {"c": (9, 4), "s": (9, 4)}

CASES = [
    Case("skip_layer_norm/plain", f"{X}, float[2,3,8] s", "y = com.microsoft.SkipLayerNormalization(x, s, g)", {"g": (8,)},
         opsets=MS, outputs=Y),
    Case("skip_layer_norm/all", f"{X}, float[2,3,8] s",
         "y, , , t = com.microsoft.SkipLayerNormalization<epsilon=0.01>(x, s, g, b, c)", {"g": (8,), "b": (8,), "c": (8,)},
         opsets=MS, outputs=f"{Y}, float[2,3,8] t"),
    Case("skip_layer_norm/skip_of_one_batch", f"{X}, float[1,3,8] s", "y = com.microsoft.SkipLayerNormalization(x, s, g, b)",
         {"g": (8,), "b": (8,)}, opsets=MS, outputs=Y),
    Case("skip_layer_norm/skip_without_batch", X, "y = com.microsoft.SkipLayerNormalization(x, s, g, , c)",
         {"s": (3, 8), "g": (8,), "c": (8,)}, opsets=MS, outputs=Y),
    Case("skip_layer_norm/dynamic", "float[N,S,8] x, float[N,S,8] s", "y = com.microsoft.SkipLayerNormalization(x, s, g)",
         {"g": (8,)}, opsets=MS, outputs="float[N,S,8] y", shapes={"x": (2, 5, 8), "s": (2, 5, 8)}),
    Case("skip_layer_norm/half", "float16[2,3,8] x, float16[2,3,8] s",
         "y, , , t = com.microsoft.SkipLayerNormalization(x, s, g)", {"g": np.linspace(-1, 1, 8).astype(np.float16)},
         opsets=MS, outputs="float16[2,3,8] y, float16[2,3,8] t", tolerance=2e-3),
    Case("skip_simplified_layer_norm/plain", f"{X}, float[2,3,8] s",
         "y = com.microsoft.SkipSimplifiedLayerNormalization(x, s, g)", {"g": (8,)}, opsets=MS, outputs=Y),
    Case("skip_simplified_layer_norm/all", f"{X}, float[2,3,8] s",
         "y, , , t = com.microsoft.SkipSimplifiedLayerNormalization<epsilon=0.01>(x, s, g, c)", {"g": (8,), "c": (8,)},
         opsets=MS, outputs=f"{Y}, float[2,3,8] t"),
    Case("simplified_layer_norm/last_axis", X, "y = SimplifiedLayerNormalization(x, g)", {"g": (8,)}, outputs=Y, foreign=True),
    Case("simplified_layer_norm/two_axes", X, "y, i = SimplifiedLayerNormalization<axis=1, epsilon=0.1, stash_type=1>(x, g)",
         {"g": (3, 8)}, outputs=f"{Y}, float[2,1,1] i", foreign=True),
    Case("embed_layer_norm/all", f"{IDS}, int32[2,5] t, int32[2,5] m",
         "y, n, e = com.microsoft.EmbedLayerNormalization<epsilon=0.01, mask_index_type=1>(i, t, w, p, s, g, b, m)", TABLES,
         opsets=MS, outputs="float[2,5,8] y, int32[2] n, float[2,5,8] e", feeds={"i": WORDS, "t": SEGMENTS, "m": MASK}),
    Case("embed_layer_norm/no_segments", IDS, "y, n = com.microsoft.EmbedLayerNormalization(i, , w, p, , g, b)",
         {k: v for k, v in TABLES.items() if k != "s"}, opsets=MS, outputs="float[2,5,8] y, int32[2] n", feeds={"i": WORDS}),
    Case("embed_layer_norm/position_ids", f"{IDS}, int32[1,5] q",
         "y, n = com.microsoft.EmbedLayerNormalization(i, , w, p, , g, b, , q)",
         {k: v for k, v in TABLES.items() if k != "s"}, opsets=MS, outputs="float[2,5,8] y, int32[2] n",
         feeds={"i": WORDS, "q": np.array([[6, 0, 2, 2, 5]], np.int32)}),
    Case("embed_layer_norm/dynamic", "int32[N,S] i, int32[N,S] t",
         "y, n = com.microsoft.EmbedLayerNormalization(i, t, w, p, s, g, b)", TABLES, opsets=MS,
         outputs="float[N,S,8] y, int32[N] n", feeds={"i": WORDS, "t": SEGMENTS}),
    Case("ms_rotary_embedding/3d", "float[2,5,24] x", "y = com.microsoft.RotaryEmbedding(x, p, c, s)",
         {**CACHES, "p": np.array([[0, 1, 2, 3, 8], [4, 5, 6, 7, 1]], np.int64)}, opsets=MS, outputs="float[2,5,24] y"),
    Case("ms_rotary_embedding/from_position", "float[2,5,24] x, int64[1] p",
         "y = com.microsoft.RotaryEmbedding<interleaved=1>(x, p, c, s)", CACHES, opsets=MS, outputs="float[2,5,24] y",
         feeds={"x": np.linspace(-1, 1, 240).reshape(2, 5, 24).astype(np.float32), "p": i64(3)}),
    Case("ms_rotary_embedding/4d", "float[2,3,5,8] x", "y = com.microsoft.RotaryEmbedding(x, p, c, s)",
         {**CACHES, "p": i64(2)}, opsets=MS, outputs="float[2,3,5,8] y"),
    Case("ms_rotary_embedding/4d_one_position", "float[2,3,1,8] x", "y = com.microsoft.RotaryEmbedding(x, p, c, s)",
         {**CACHES, "p": np.array([[4], [7]], np.int64)}, opsets=MS, outputs="float[2,3,1,8] y"),
    Case("ms_rotary_embedding/partial", "float[2,5,24] x",
         "y = com.microsoft.RotaryEmbedding<num_heads=2, rotary_embedding_dim=8, scale=2.0>(x, p, c, s)",
         {**CACHES, "p": i64(1)}, opsets=MS, outputs="float[2,5,24] y"),
    Case("ms_rotary_embedding/dynamic", "float[N,S,24] x", "y = com.microsoft.RotaryEmbedding(x, p, c, s)",
         {**CACHES, "p": i64(1)}, opsets=MS, outputs="float[N,S,24] y", shapes={"x": (2, 5, 24)}),
]
