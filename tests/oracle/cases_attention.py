# SPDX-License-Identifier: Apache-2.0
"""Attention and RotaryEmbedding: heads of their own, shared heads, masks, caches."""

import numpy as np

from tests.support.case import Case

Q4, K4, V4 = "float[2,4,5,6] q", "float[2,4,7,6] k", "float[2,4,7,3] v"
# Which keys each of five queries may look at; the third may look at none.
ALLOWED = np.array([[1, 0, 1, 1, 0, 1, 1], [0, 1, 0, 0, 0, 0, 1], [0] * 7, [1] * 7, [0, 0, 0, 1, 1, 0, 0]], bool)
ADDED = np.where(ALLOWED, np.linspace(-1, 2, 35).reshape(5, 7), -np.inf).astype(np.float32)
OPEN = ALLOWED[[0, 1, 3, 3, 4]]


def masked(name, attributes="", mask="bool[5,7] m", fed=None, call="y = Attention{}(q, k, v, m)", **how):
    feeds = None
    if fed is not None:
        rng = np.random.default_rng(5)
        feeds = {
            n: rng.normal(size=s).astype(np.float32) for n, s in zip("qkv", ((2, 4, 5, 6), (2, 4, 7, 6), (2, 4, 7, 3)))
        }
        feeds |= fed
    inputs = ", ".join(filter(None, (Q4, K4, V4, mask)))
    return Case(
        f"attention/{name}", inputs, call.format(f"<{attributes}>" if attributes else ""), feeds=feeds, opset=24, **how
    )


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
    # The scores are capped before the mask is added (ONNX since 1.22, ONNX Runtime).
    masked("softcap_mask", "softcap=1.5", "float[5,7] m"),
    masked("softcap_flags", "softcap=1.5", fed={"m": OPEN}),
    masked("softcap_causal", "softcap=1.5, is_causal=1", "", call="y = Attention{}(q, k, v)"),
    # Numbers of any type are added.
    *(
        masked(f"mask_{kind}", mask=f"{kind}[5,7] m", fed={"m": (3 * OPEN).astype(kind)})
        for kind in ("int32", "int64", "uint8")
    ),
    masked("mask_int32_constant", mask="", weights={"m": (3 * OPEN - 1).astype(np.int32)}),
    # A query that may look at no key gets zeros.
    masked("closed_row", fed={"m": ALLOWED}),
    masked("closed_row_added", mask="float[5,7] m", fed={"m": ADDED}),
    masked("closed_row_of_lowest_numbers", mask="float[5,7] m", fed={"m": np.maximum(ADDED, np.finfo(np.float32).min)}),
    masked("closed_row_constant", mask="", weights={"m": ALLOWED}),
    masked("closed_row_added_constant", mask="", weights={"m": ADDED}),
    # Halves are no type to compute in: they could not hold what stands for minus infinity.
    masked("closed_row_softmax_in_float16", "softmax_precision=10", fed={"m": ALLOWED}),
    masked("closed_row_softmax_in_bfloat16", "softmax_precision=16", fed={"m": ALLOWED}),
    masked("closed_row_causal", "is_causal=1", fed={"m": ALLOWED}),
    masked("closed_row_added_causal", "is_causal=1", "float[5,7] m", fed={"m": ADDED}),
    masked("open_rows_constant", mask="", weights={"m": OPEN}),
    *(
        masked(
            f"scores_of_mode_{mode}_{what}",
            f"{attributes}qk_matmul_output_mode={mode}",
            f"{kind}[5,7] m",
            fed={"m": mask},
            call="y, , , s = Attention{}(q, k, v, m)",
            outputs="float[2,4,5,3] y, float[2,4,5,7] s",
        )
        for mode, attributes, what, kind, mask in (
            (0, "softcap=1.5, ", "flags", "bool", ALLOWED),
            (0, "softcap=1.5, ", "added", "float", ADDED),
            (3, "softcap=1.5, ", "flags", "bool", ALLOWED),
            (3, "softcap=1.5, ", "added", "float", ADDED),
            (2, "", "added", "float", ADDED),
            (1, "", "disputed", "float", ADDED),
            (2, "softcap=1.5, ", "disputed", "float", ADDED),
        )
    ),
    # The queries are the last of the keys that are there: of 5 and of 7 here, and of 2, so that three see no key.
    *(
        masked(
            f"cache_of_the_caller_{name}",
            attributes,
            "int64[2] n" if "m" not in call else "float[5,7] m, int64[2] n",
            fed={"n": np.array(lengths)} | ({"m": ADDED} if "m" in call else {}),
            call=call,
        )
        for name, attributes, lengths, call in (
            ("any", "", (3, 7), "y = Attention{}(q, k, v, , , , n)"),
            ("causal", "is_causal=1", (5, 7), "y = Attention{}(q, k, v, , , , n)"),
            ("causal_short", "is_causal=1", (2, 7), "y = Attention{}(q, k, v, , , , n)"),
            ("causal_mask", "is_causal=1", (6, 7), "y = Attention{}(q, k, v, m, , , n)"),
        )
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
    Case(
        "rotary_embedding/interleaved_2",
        "float[2,3,5,8] x",
        "y = RotaryEmbedding<interleaved=2>(x, c, s)",
        {"c": (2, 5, 4), "s": (2, 5, 4)},
        opset=23,
    ),
]
