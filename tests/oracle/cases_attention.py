# SPDX-License-Identifier: Apache-2.0
"""Attention and RotaryEmbedding: heads of their own, shared heads, masks, caches."""

import numpy as np

from tests.support.case import Case

Q4, K4, V4 = "float[2,4,5,6] q", "float[2,4,7,6] k", "float[2,4,7,3] v"
QS, KS, VS = "float[2,6,5,4] q", "float[2,2,7,4] k", "float[2,2,7,3] v"  # six heads share two

CASES = [
    Case("attention/4d", f"{Q4}, {K4}, {V4}", "y = Attention(q, k, v)", opset=23),
    Case("attention/scale_softcap", f"{Q4}, {K4}, {V4}", "y = Attention<scale=0.3, softcap=2.0>(q, k, v)", opset=23),
    Case("attention/causal", f"{Q4}, {K4}, {V4}", "y = Attention<is_causal=1>(q, k, v)", opset=23),
    Case("attention/mask", f"{Q4}, {K4}, {V4}, float[5,7] m", "y = Attention(q, k, v, m)", opset=23),
    Case("attention/mask_by_head", f"{Q4}, {K4}, {V4}, float[2,4,5,7] m", "y = Attention(q, k, v, m)", opset=23),
    Case("attention/shared_heads", f"{QS}, {KS}, {VS}", "y = Attention(q, k, v)", opset=23),
    Case(
        "attention/shared_heads_causal_mask", f"{QS}, {KS}, {VS}, float[5,7] m", "y = Attention(q, k, v, m)", opset=23
    ),
    Case(
        "attention/3d",
        "float[2,5,24] q, float[2,7,24] k, float[2,7,12] v",
        "y = Attention<q_num_heads=4, kv_num_heads=4>(q, k, v)",
        opset=23,
    ),
    Case(
        "attention/dynamic_batch",
        "float[N,5,24] q, float[N,7,24] k, float[N,7,12] v",
        "y = Attention<q_num_heads=4, kv_num_heads=4>(q, k, v)",
        opset=23,
        shapes={"q": (3, 5, 24), "k": (3, 7, 24), "v": (3, 7, 12)},
    ),
    Case(
        "attention/past",
        f"{Q4}, {K4}, {V4}, float[2,4,3,6] pk, float[2,4,3,3] pv",
        "y, nk, nv = Attention<is_causal=1>(q, k, v, , pk, pv)",
        opset=23,
        outputs="y, nk, nv",
    ),
    Case(
        "rotary_embedding/4d",
        "float[2,3,5,8] x",
        "y = RotaryEmbedding(x, c, s, p)",
        {"c": (9, 4), "s": (9, 4), "p": np.array([[0, 1, 2, 3, 8], [4, 5, 6, 7, 1]], np.int64)},
        opset=23,
    ),
    Case(
        "rotary_embedding/3d_interleaved",
        "float[2,5,24] x",
        "y = RotaryEmbedding<num_heads=3, interleaved=1>(x, c, s)",
        {"c": (2, 5, 4), "s": (2, 5, 4)},
        opset=23,
    ),
    Case(
        "rotary_embedding/partial",
        "float[2,3,5,8] x",
        "y = RotaryEmbedding<rotary_embedding_dim=4>(x, c, s)",
        {"c": (2, 5, 2), "s": (2, 5, 2)},
        opset=23,
    ),
]
