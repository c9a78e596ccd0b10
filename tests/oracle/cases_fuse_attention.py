# SPDX-License-Identifier: Apache-2.0
"""What fuses in attention: factors that move up to weights, rotary tables, roots, guards against NaN, shared heads; and near misses."""

import numpy as np

from tests.support.case import Case, f32, i64

INF = float("inf")


def scaled(name, body, weights=None, inputs="float[2,7,6] x", **how):
    return Case(f"fuse/scaled_{name}", inputs, body, {"s": np.float32(0.3), **(weights or {})}, **how)


W = {"w": (6, 8), "v": (6, 8), "heads": i64(2, 7, 2, 4), "rows": i64(2, 7, 8)}
LINEAR = "a = MatMul(x, w) "
TURN = "r = Reshape(a, heads) t = Transpose<perm=[0,2,1,3]>(r) "
ROTARY = (
    "l = Slice(t, n0, n2, n3) h = Slice(t, n2, n4, n3) m = Neg(h) e = Concat<axis=-1>(m, l) "
    "p = Mul(t, cos) q = Mul(e, sin) z = Add(p, q) "
)
TABLES = {"cos": (7, 4), "sin": (7, 4), "n0": i64(0), "n2": i64(2), "n3": i64(3), "n4": i64(4)}
SCALED = [
    scaled("through_heads", LINEAR + TURN + "y = Mul(t, s)", W),
    scaled("through_rotary", LINEAR + TURN + ROTARY + "y = Mul(z, s)", {**W, **TABLES}),
    scaled("rotary_of_input", ROTARY + "y = Mul(z, s)", TABLES, inputs="float[2,3,7,4] t"),
    scaled("through_split", LINEAR + "b, c = Split<axis=2>(a) d = Add(b, c) y = Div(d, s)", W),
    scaled("one_part_of_split", LINEAR + "b, c = Split<axis=2>(a) d = Mul(b, s) y = Concat<axis=1>(c, d)", W),
    scaled("seen", LINEAR + TURN + "z = Mul(t, s) y = Add(z, t)", W),
    scaled("product_with_itself", LINEAR + "b = Mul(a, a) y = Mul(b, s)", W),
    scaled("sum_of_both", LINEAR + "b = MatMul(x, v) c = Mul(a, b) d = Add(c, a) y = Mul(d, s)", W),
    scaled("chain", LINEAR + "b = MatMul(a, u) d = Add(a, b) y = Mul(d, s)", {**W, "u": (8, 8)}),
    scaled("gate", LINEAR + "g = Sigmoid(x) b = MatMul(g, v) c = Mul(b, a) y = Mul(c, s)", W),
    scaled("behind_tile", LINEAR + "b = Tile(a, k) y = Mul(b, s)", {**W, "k": i64(1, 3, 1)}),
    scaled(
        "keys",
        "a = Mul(x, s) b = Mul(k, s) t = Transpose<perm=[0,2,1]>(b) y = MatMul(a, t)",
        inputs="float[2,7,6] x, float[2,5,6] k",
    ),
    scaled(
        "keys_only",
        "a = MatMul(x, w) b = Mul(k, s) t = Transpose<perm=[0,2,1]>(b) y = MatMul(a, t)",
        W,
        inputs="float[2,7,6] x, float[2,5,8] k",
    ),
    scaled("with_itself", "b = Mul(x, s) y = MatMul(x, b)", inputs="float[2,6,6] x"),
]


# A table of sines that two products share, and two that do not agree.
def negated(name, body, **weights):
    return Case(
        f"fuse/negated_{name}",
        "float[2,3,7,2] a, float[2,3,7,2] b, float[2,5,7,2] c, float[2,5,7,2] d",
        body,
        {"sin": (7, 4), **weights},
    )


NEGATED = [
    negated("shared", "n = Neg(b) e = Concat<axis=-1>(n, a) m = Neg(d) f = Concat<axis=-1>(m, c) "
            "p = Mul(e, sin) q = Mul(f, sin) y = Concat<axis=1>(p, q)"),
    negated("other_half", "n = Neg(b) e = Concat<axis=-1>(n, a) m = Neg(d) f = Concat<axis=-1>(c, m) "
            "p = Mul(e, sin) q = Mul(f, sin) y = Concat<axis=1>(p, q)"),
    negated("table_seen", "n = Neg(b) e = Concat<axis=-1>(n, a) p = Mul(e, sin) q = Concat<axis=-1>(c, d) "
            "r = Mul(q, sin) y = Concat<axis=1>(p, r)"),
    negated("part_seen", "n = Neg(b) e = Concat<axis=-1>(n, a) p = Mul(sin, e) y = Concat<axis=1>(p, c2, e)",
            c2=(2, 1, 7, 4)),
    negated("other_axis", "n = Neg(b) e = Concat<axis=1>(n, a, c) y = Mul(e, k)", k=(11, 1, 1)),
    negated("scalar_table", "n = Neg(b) e = Concat<axis=1>(n, a, c) y = Mul(e, k)", k=(1,)),
]  # fmt: skip


def root(name, body, inputs="float[3,5] x", **how):
    return Case(f"fuse/root_{name}", inputs, body, {"e": np.float32(1e-5), "one": np.float32(1)}, **how)


MEAN = "q = Mul(x, x) m = ReduceMean<axes=[1]>(q) "
# Near where the RSQRT of XNNPACK is NaN.
SMALL = {"x": np.array([[0.5, 4e-38, 4, 9, 11], [1e-30, 1e30, 2, 3, INF], [7, 1e-37, 5, 6, 8]], np.float32)}
ROOTS = [
    root("norm", MEAN + "v = Add(m, e) d = Sqrt(v) r = Div(one, d) y = Mul(x, r)"),
    root("reciprocal", MEAN + "v = Add(e, m) d = Sqrt(v) r = Reciprocal(d) y = Mul(x, r)"),
    root("division", MEAN + "v = Add(m, e) d = Sqrt(v) y = Div(x, d)"),
    root("power", MEAN + "v = Add(m, e) r = Pow(v, k) y = Mul(x, r)".replace("k", "minus_half")),
    root("division_of_row", MEAN + "v = Add(m, e) d = Sqrt(v) y = Div(one, d)"),
    root("without_epsilon", "d = Sqrt(x) y = Div(one, d)", feeds=SMALL),
    root("power_of_small", "y = Pow(x, minus_half)", feeds=SMALL),
    root(
        "large_gamma",
        MEAN + "v = Add(m, e) d = Sqrt(v) r = Div(one, d) n = Mul(x, r) y = Mul(n, large)",
        feeds={"x": np.linspace(1e-4, 3e-3, 15, dtype=np.float32).reshape(3, 5)},
    ),
    root("seen", MEAN + "v = Add(m, e) d = Sqrt(v) r = Div(x, d) y = Add(r, d)"),
]
for case in ROOTS:
    if "minus_half" in case.body:
        case.weights["minus_half"] = np.float32(-0.5)
    if "large" in case.body:
        case.weights["large"] = np.float32(1e37)


def guard(name, mask, body="a = Add(c, mask) ", **how):
    return Case(
        f"fuse/guard_{name}",
        "float[2,3,4] q, float[2,4,5] k",
        "c = MatMul(q, k) " + body + "p = Softmax<axis=-1>(a) n = IsNaN(p) y = Where(n, zero, p)",
        {"zero": np.float32(0), "mask": mask},
        **how,
    )


OPEN = f32(0, 0, -INF, -INF, 0, 0, 0, 0, -INF, -INF, 0, -INF, 0, -INF, -INF).reshape(3, 5)
CLOSED = OPEN.copy()
CLOSED[1] = -INF
ZEROS = {"q": np.zeros((2, 3, 4), np.float32), "k": np.ones((2, 4, 5), np.float32)}
GUARDS = [
    guard("each_row_open", OPEN),
    guard("a_row_closed", CLOSED),
    guard("column", f32(0, -INF, 0).reshape(3, 1)),
    guard("no_mask", f32(1), body="a = Mul(c, mask) "),
    guard("nan_mask", f32(np.nan)),
    # Scores that are NaN though q and k are finite.
    guard("divided_by_zero", f32(0), body="a = Div(c, mask) ", feeds=ZEROS),
    guard("times_infinity", f32(INF), body="a = Mul(c, mask) ", feeds=ZEROS),
    Case(
        "fuse/guard_infinite_keys",
        "float[2,3,4] q",
        "c = MatMul(q, k) p = Softmax<axis=-1>(c) n = IsNaN(p) y = Where(n, zero, p)",
        {
            "zero": np.float32(0),
            "k": np.where(np.arange(20) == 7, INF, np.linspace(-1, 1, 20)).astype(np.float32).reshape(4, 5),
        },
        feeds={"q": ZEROS["q"]},
    ),
    Case(
        "fuse/guard_computed_mask",
        "float[2,3,5] c, float[3,5] m",
        "a = Add(c, m) p = Softmax<axis=-1>(a) n = IsNaN(p) y = Where(n, zero, p)",
        {"zero": np.float32(0)},
        feeds={"c": np.linspace(-1, 1, 30, dtype=np.float32).reshape(2, 3, 5), "m": OPEN},
    ),
    # Rows without an open key in a mask that is an input, and in one of f64.
    *(
        Case(
            f"fuse/guard_input_with_a_row_closed_{kind}",
            f"{kind}[2,3,5] c, {kind}[3,5] m",
            "a = Add(c, m) p = Softmax<axis=-1>(a) n = IsNaN(p) y = Where(n, zero, p)",
            {"zero": dtype(0)},
            feeds={"c": np.linspace(-1, 1, 30, dtype=dtype).reshape(2, 3, 5), "m": CLOSED.astype(dtype)},
        )
        for kind, dtype in (("float", np.float32), ("double", np.float64))
    ),
    Case(
        "fuse/guard_transposed",
        "float[2,3,5] c",
        "a = Add(c, mask) p = Softmax<axis=0>(a) r = Reshape(p, s) n = IsNaN(r) y = Where(n, zero, r)",
        {"zero": np.float32(0), "mask": CLOSED, "s": i64(6, 5)},
    ),
    Case(
        "fuse/guard_a_row_closed_double",
        "double[2,3,5] c",
        "a = Add(c, mask) p = Softmax<axis=-1>(a) n = IsNaN(p) y = Where(n, zero, p)",
        {"zero": np.float64(0), "mask": CLOSED.astype(np.float64)},
    ),
]


# Heads of keys that several heads of queries share, as exporters repeat them.
def shared(name, k, shape, heads, body, q="float[2,6,7,5] q", axis=2, outputs="y", **how):
    return Case(
        f"fuse/grouped_queries_{name}",
        f"{k} k, {q}",
        f"u = Unsqueeze(k, axis) e = Expand(u, shape) r = Reshape(e, heads) {body}",
        {"axis": i64(axis), "shape": i64(*shape), "heads": i64(*heads)},
        opset=13,
        outputs=outputs,
        **how,
    )


SCORES = "t = Transpose<perm=[0,1,3,2]>(r) y = MatMul(q, t)"
GROUPED = [
    shared("scores", "float[2,3,4,5]", (2, 3, 2, 4, 5), (2, 6, 4, 5), SCORES),
    shared("values", "float[2,3,4,5]", (2, 3, 2, 4, 5), (2, 6, 4, 5), "y = MatMul(q, r)", q="float[2,6,7,4] q"),
    shared("one_head", "float[2,1,4,5]", (2, 1, 6, 4, 5), (2, 6, 4, 5), SCORES),
    shared("one_query", "float[1,3,4,5]", (1, 3, 2, 4, 5), (1, 6, 4, 5), SCORES, q="float[1,6,1,5] q"),
    shared("three_axes", "float[3,4,5]", (3, 2, 4, 5), (6, 4, 5), "y = MatMul(q, r)", q="float[6,7,4] q", axis=1),
    *(
        shared(
            name,
            "float[1,3,S,5]",
            (1, 3, 2, 1, 1),
            (1, 6, -1, 5),
            SCORES,
            q=f"float[1,6,{rows},5] q",
            shapes={"S": 4},
            outputs=f"float[1,6,{rows},S] y",
        )
        for name, rows in (("cache", 1), ("prompt", "S"))
    ),
    # Near misses: heads repeated as a whole, each key repeated, keys on the left, queries that broadcast, and the
    # repetition seen by others.
    shared("whole", "float[2,3,4,5]", (2, 2, 3, 4, 5), (2, 6, 4, 5), SCORES, axis=1),
    shared("keys", "float[2,6,2,5]", (2, 6, 2, 2, 5), (2, 6, 4, 5), SCORES, axis=3),
    shared("left", "float[2,3,4,5]", (2, 3, 2, 4, 5), (2, 6, 4, 5), "y = MatMul(r, q)", q="float[2,6,5,7] q"),
    shared("one_batch", "float[2,3,4,5]", (2, 3, 2, 4, 5), (2, 6, 4, 5), SCORES, q="float[6,7,5] q"),
    shared("broadcast", "float[2,3,4,5]", (2, 3, 2, 4, 5), (2, 6, 4, 5), SCORES, q="float[2,1,7,5] q"),
    # How often is known at run time only, though the RESHAPE tells.
    Case(
        "fuse/grouped_queries_shape_at_run_time",
        "float[2,3,4,5] k, float[2,1,7,5] q, int64[5] shape",
        f"u = Unsqueeze(k, axis) e = Expand(u, shape) r = Reshape(e, heads) {SCORES}",
        {"axis": i64(2), "heads": i64(2, 6, 4, 5)},
        feeds={
            "k": np.linspace(-1, 1, 120, dtype=np.float32).reshape(2, 3, 4, 5),
            "q": np.linspace(-2, 1, 70, dtype=np.float32).reshape(2, 1, 7, 5),
            "shape": i64(2, 3, 2, 4, 5),
        },
    ),
    # In a branch, where the rows of four heads cannot be counted: queries of two prompts.
    Case(
        "fuse/grouped_queries_in_a_branch",
        "float[B,6,S,5] p, float[B,6,T,5] o, float[B,3,4,5] k, bool c",
        """q = Concat<axis=2>(p, o)
           y = If(c) <then_branch = g () => (float[B,6,M,4] a) {
               u = Unsqueeze(k, axis) e = Expand(u, shape) r = Reshape(e, heads)
               t = Transpose<perm=[0,1,3,2]>(r) a = MatMul(q, t) },
           else_branch = h () => (float[B,6,M,4] d) {
               f = Slice(q, first, width, last) d = Neg(f) }>""",
        {
            "axis": i64(2),
            "shape": i64(1, 1, 2, 1, 1),
            "heads": i64(-1, 6, 4, 5),
            "first": i64(0),
            "width": i64(4),
            "last": i64(3),
        },
        shapes={"B": 2, "S": 3, "T": 7},
        outputs="float[B,6,M,4] y",
    ),
    shared("seen", "float[2,3,4,5]", (2, 3, 2, 4, 5), (2, 6, 4, 5), SCORES, outputs="y, r"),
]


def packed(name, perm, kept, parts="abc", batch=1, **how):
    """Queries, keys and values of one product, as PyTorch's MultiheadAttention takes them apart."""
    gathers = " ".join(f"{part} = Gather<axis=0>(q, i{place})" for place, part in enumerate("abc") if part in parts)
    return Case(
        "fuse/packed_" + name,
        f"float[5,{batch},12] x",
        f"r = Reshape(x, apart) v = Transpose<perm={list(perm)}>(r) q = Reshape(v, kept) {gathers}",
        {"apart": i64(1, 5, batch, 3, 4), "kept": i64(*kept)} | {f"i{i}": i64(i).reshape(()) for i in range(3)},
        outputs=", ".join(parts) + how.pop("also", ""),
        **how,
    )


PACKED = [
    packed("heads", (3, 1, 2, 0, 4), (3, 5, 1, 4)),
    packed("two_heads", (3, 1, 2, 0, 4), (3, 5, 1, 4), parts="ac"),
    packed("batches", (3, 1, 2, 0, 4), (3, 5, 2, 4), batch=2),
    # Near misses: parts that move, rows and batches that are merged, and the axis of parts that is merged too.
    packed("moved", (3, 2, 1, 0, 4), (3, 2, 5, 4), batch=2),
    packed("merged", (3, 1, 2, 0, 4), (3, 10, 4), batch=2),
    packed("merged_parts", (0, 1, 2, 3, 4), (5, 3, 4)),
    packed("seen", (3, 1, 2, 0, 4), (3, 5, 1, 4), also=", v"),
]

CASES = SCALED + NEGATED + ROOTS + GUARDS + GROUPED + PACKED
