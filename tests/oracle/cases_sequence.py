# SPDX-License-Identifier: Apache-2.0
"""Sequences whose elements are known at conversion: nothing of them is left in the file."""

import numpy as np

from tests.support.case import Case, i64

CASES = []


def sequence(name, inputs, body, weights=None, opset=13, **more):
    CASES.append(Case("sequence/" + name, inputs, body, weights or {}, opset=opset, **more))


def chain(name, count, operator="Sin"):
    """Nodes from `name`0 to `name` with that number."""
    return " ".join(f"{name}{i + 1} = {operator}({name}{i})" for i in range(count))


X = "float[5,7,3] x"
POSITIONS = {"zero": np.array(0, np.int64), "one": np.array(1, np.int64), "last": np.array(-1, np.int64)}
AT = {k: POSITIONS[k] for k in ("one", "last")}
sequence(
    "split_in_ones",
    X,
    "s = SplitToSequence(x) a = SequenceAt(s, one) b = SequenceAt(s, last) y = Sub(a, b)",
    AT,
    outputs="float[1,7,3] y",
)
sequence(
    "unbind",
    X,
    "s = SplitToSequence<axis=1, keepdims=0>(x) a = SequenceAt(s, one) b = SequenceAt(s, last) y = Sub(a, b)",
    AT,
    outputs="float[5,3] y",
)
sequence(
    "split_by_size",
    X,
    "s = SplitToSequence<axis=1>(x, n) y = SequenceAt(s, last)",
    {"n": np.array(3, np.int64), "last": AT["last"]},
    outputs="float[5,1,3] y",
)
sequence(
    "split_by_sizes",
    X,
    "s = SplitToSequence<axis=-2>(x, n) y = SequenceAt(s, one)",
    {"n": i64(2, 4, 1), "one": AT["one"]},
    outputs="float[5,4,3] y",
)
sequence(
    "split_keeps_axis_with_sizes",
    X,
    "s = SplitToSequence<axis=1, keepdims=0>(x, n) y = SequenceAt(s, one)",
    {"n": np.array(2, np.int64), "one": AT["one"]},
    outputs="float[5,2,3] y",
    same_as="b = Constant<value_ints=[2]>() e = Constant<value_ints=[4]>() a = Constant<value_ints=[1]>() y = Slice(x, b, e, a)",
)
sequence(
    "construct_and_join",
    "float[2,3] a, float[2,4] b",
    "s = SequenceConstruct(a, b) y = ConcatFromSequence<axis=1>(s)",
    outputs="float[2,7] y",
)
sequence(
    "construct_and_stack",
    "float[2,3] a, float[2,3] b",
    "s = SequenceConstruct(a, b, a) y = ConcatFromSequence<axis=-1, new_axis=1>(s)",
    outputs="float[2,3,3] y",
)
sequence(
    "insert",
    "float[2,3] a, float[2,3] b",
    "e = SequenceEmpty() s = SequenceInsert(e, a) t = SequenceInsert(s, b, zero) u = SequenceInsert(t, a, last) y = ConcatFromSequence<axis=0>(u)",
    {k: POSITIONS[k] for k in ("zero", "last")},
    outputs="float[6,3] y",
)
sequence(
    "erase_and_count",
    X,
    "s = SplitToSequence(x) t = SequenceErase(s, one) u = SequenceErase(t) n = SequenceLength(u) "
    "f = Cast<to=1>(n) j = ConcatFromSequence<axis=2>(u) y = Mul(j, f)",
    {"one": AT["one"]},
    outputs="float[1,7,9] y",
)
sequence(
    "shuffled_channels",
    "float[2,6,5,7] x",
    "s = SplitToSequence<axis=1>(x, n) a = SequenceAt(s, zero) b = SequenceAt(s, one) y = Concat<axis=1>(b, a)",
    {"n": i64(2, 4), "zero": POSITIONS["zero"], "one": AT["one"]},
    outputs="float[2,6,5,7] y",
)
sequence(
    "map",
    "float[2,3] a, float[2,4] b, float[2,1] c",
    "s = SequenceConstruct(a, b) t = SequenceMap<body = f (float[2,N] v, float[2,1] w) => (float[2,N] r) { r = Mul(v, w) }>(s, c) y = ConcatFromSequence<axis=1>(t)",
    opset=17,
    outputs="float[2,7] y",
    same_as="j = Concat<axis=1>(a, b) y = Mul(j, c)",
)
sequence(
    "element_that_the_run_names",
    "float[2,3] a, float[2,4] b, int64 n",
    "s = SequenceConstruct(a, b) y = SequenceAt(s, n)",
    outputs="float[2,N] y",
    feeds={"a": np.zeros((2, 3), np.float32), "b": np.zeros((2, 4), np.float32), "n": np.array(1, np.int64)},
)
sequence(
    "list_that_a_loop_fills",
    "float[2,3] a",
    "e = SequenceEmpty() s = Loop<body = f (int64 i, bool c, seq(float[2,3]) p) => (bool d, seq(float[2,3]) q) "
    "{ d = Identity(c) f = Cast<to=1>(i) m = Mul(a, f) q = SequenceInsert(p, m) }>(n, t, e) y = ConcatFromSequence<axis=0>(s)",
    {"n": np.array(3, np.int64), "t": np.array(True)},
    outputs="float[6,3] y",
)
sequence(
    "map_of_too_many_nodes",
    "float[150,3] x",
    f"s = SplitToSequence(x) t = SequenceMap<body = f (float[1,3] v0) => (float[1,3] v140) {{ {chain('v', 140)} }}>(s) "
    "y = ConcatFromSequence<axis=0>(t)",
    opset=17,
    outputs="float[150,3] y",
)
# With 900 turns, three of these loops are more than a Loop has that can become a WHILE; six with 2200 turns are too many.
LONG = f"Loop<body = b (int64 j, bool k, float[N,2] v0) => (bool h, float[N,2] v8) {{ h = Identity(k) {chain('v', 8, 'Identity')} }}>"
sequence(
    "list_that_long_loops_fill",
    "float[1,2] x",
    "e = SequenceConstruct(x) s = Loop<body = f (int64 i, bool c, seq(float[1,2]) p) => (bool d, seq(float[1,2]) q) "
    f"{{ d = Identity(c) a = SequenceAt(p, last) r = {LONG}(n, , a) m = Sin(r) q = SequenceInsert(p, m) }}>(three, t, e) "
    "y = ConcatFromSequence<axis=0>(s)",
    {"n": np.array(900), "three": np.array(3), "t": np.array(True), "last": AT["last"]},
    outputs="float[4,2] y",
)
for name, turns in (("long", 900), ("too_long", 2200)):
    sequence(
        f"map_of_{name}_loops",
        "float[6,2] x",
        f"s = SplitToSequence(x) t = SequenceMap<body = f (float[1,2] a) => (float[1,2] m) {{ r = {LONG}(n, , a) m = Sin(r) }}>(s) "
        "y = ConcatFromSequence<axis=0>(t)",
        {"n": np.array(turns)},
        opset=17,
        outputs="float[6,2] y",
        same_as="y = Sin(x)",
    )
sequence(
    "optional",
    "float[2,3] a, float[2,3] b",
    "o = Optional(a) h = OptionalHasElement(o) p = OptionalGetElement(o) s = SequenceConstruct(p, b) "
    "q = Optional(s) t = OptionalGetElement(q) f = Cast<to=1>(h) c = ConcatFromSequence<axis=0>(t) y = Add(c, f)",
    opset=18,
    outputs="float[4,3] y",
)
# Lists that a loop fills: how often it runs is known at run time only.
GROWING = "Loop<body = f (int64 i, bool c, seq(float[K,3]) p) => (bool d, seq(float[L,3]) q)"
ROWS = "m = Shape<end=1>(x) l = Squeeze(m) e = SequenceEmpty()"
T = {"t": np.array(True)}


def growing(name, inputs, body, weights=None, opset=17, **more):
    sequence("grown/" + name, inputs, body, T | (weights or {}), opset=opset, **more)


for axis, shape in ((0, "T,2,3"), (1, "2,T,3"), (-1, "2,3,T")):
    growing(
        f"stacked_{axis}",
        "float[T,2,3] x",
        f"{ROWS} s = Loop<body = f (int64 i, bool c, seq(float[2,3]) p) => (bool d, seq(float[2,3]) q) "
        "{ d = Identity(c) g = Gather(x, i) h = Tanh(g) q = SequenceInsert(p, h) }>(l, t, e) "
        f"y = ConcatFromSequence<axis={axis}, new_axis=1>(s)",
        outputs=f"float[{shape}] y",
        shapes={"x": [5, 2, 3]},
    )
for turns in (0, 1, 4):
    growing(
        f"of_different_sizes_{turns}",
        "float[T,3] x, int64 n",
        f"{ROWS} a = SequenceConstruct(x) s = {GROWING} "
        "{ d = Identity(c) j = Add(i, one) u = Unsqueeze(j, zeros) w = Slice(x, zeros, u, zeros) q = SequenceInsert(p, w) }>(n, t, a) "
        "y = ConcatFromSequence<axis=0>(s)",
        {"one": POSITIONS["one"], "zeros": i64(0)},
        outputs="float[N,3] y",
        feeds={"x": np.arange(18, dtype=np.float32).reshape(6, 3), "n": np.array(turns)},
    )
growing(
    "by_columns_with_a_state",
    "float[2,T] x",
    "m = Shape<start=1>(x) l = Squeeze(m) e = SequenceEmpty() z = Mul(x, zero) h0 = ReduceSum(z, ones) "
    "h, s, r = Loop<body = f (int64 i, bool c, float[2,1] v, seq(float[2,1]) p) => (bool d, float[2,1] k, seq(float[2,1]) q, float[2,1] o) "
    "{ d = Identity(c) u = Unsqueeze(i, zeros) g = Gather<axis=1>(x, u) a = Mul(v, half) b = Add(a, g) k = Tanh(b) q = SequenceInsert(p, k) o = Neg(g) }>(l, t, h0, e) "
    "y = ConcatFromSequence<axis=1>(s) n = SequenceLength(s) w = SequenceAt(s, last)",
    {"zero": np.float32(0), "half": np.float32(0.5), "zeros": i64(0), "ones": i64(1), "last": AT["last"]},
    outputs="float[2,T] y, float[2,1] h, float[T,2,1] r, int64 n, float[2,1] w",
    shapes={"x": [2, 5]},
)
growing(
    "from_its_last_element",
    "float[2,3] x, int64 n",
    "e = SequenceConstruct(x) s = Loop<body = f (int64 i, bool c, seq(float[2,3]) p) => (bool d, seq(float[2,3]) q) "
    "{ d = Identity(c) a = SequenceAt(p, last) g = Sin(a) q = SequenceInsert(p, g) }>(n, t, e) "
    "y = ConcatFromSequence<axis=0, new_axis=1>(s) w = SequenceAt(s, n)",
    {"last": AT["last"]},
    outputs="float[N,2,3] y, float[2,3] w",
    feeds={"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3), "n": np.array(4)},
)
# The number of elements is the size of the axis, if each has one place of it.
for name, join, shape in (
    ("until_it_is_long", "axis=1, new_axis=1", "2,4,3"),
    ("until_it_is_long_by_rows", "axis=0", "M,3"),
    ("of_another_length_than_the_axis", "axis=1", "2,M"),
):
    sizes = "1,3" if "rows" in name else "2,3"
    growing(
        name,
        f"float[{sizes}] x, int64 n",
        f"e = SequenceEmpty() s, z = Loop<body = f (int64 i, bool c, seq(float[{sizes}]) p, float[{sizes}] v) => (bool d, seq(float[{sizes}]) q, float[{sizes}] r) "
        f"{{ r = Sin(v) q = SequenceInsert(p, r) k = SequenceLength(p) d = Less(k, n) }}>(, t, e, x) y = ConcatFromSequence<{join}>(s)",
        outputs=f"float[{shape}] y",
        feeds={"x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)[: int(sizes[0])], "n": np.array(3)},
    )
growing(
    "twice_in_a_turn_by_two_loops",
    "float[T,3] x",
    f"{ROWS} s = {GROWING} {{ d = Identity(c) g = Gather(x, i) h = Unsqueeze(g, zeros) p1 = SequenceInsert(p, h) k = Neg(h) q = SequenceInsert(p1, k) }}>(l, t, e) "
    f"o = {GROWING} {{ d = Identity(c) g = Gather(x, i) h = Unsqueeze(g, zeros) q = SequenceInsert(p, h) }}>(l, t, s) y = ConcatFromSequence<axis=0>(o)",
    {"zeros": i64(0)},
    outputs="float[N,3] y",
    shapes={"x": [4, 3]},
)
growing(
    "by_a_loop_in_a_loop",
    "float[T,3] x",
    f"{ROWS} s = {GROWING} {{ d = Identity(c) q = Loop<body = g (int64 j, bool b, seq(float[M,3]) v) => (bool w, seq(float[N,3]) z) "
    "{ w = Identity(b) a = Gather(x, i) k = Gather(x, j) h = Add(a, k) u = Unsqueeze(h, zeros) z = SequenceInsert(v, u) }>(l, t, p) }>(l, t, e) "
    "y = ConcatFromSequence<axis=0>(s)",
    {"zeros": i64(0)},
    outputs="float[N,3] y",
    shapes={"x": [4, 3]},
)
for kind, axis, of_row in (
    ("joined", "axis=0", "u = Unsqueeze(g, zeros)"),
    ("stacked", "axis=1, new_axis=1", "u = Sin(g)"),
):
    element = "1,3" if kind == "joined" else "3"
    growing(
        f"in_some_turns_{kind}",
        "float[T,3] x",
        f"{ROWS} s = Loop<body = f (int64 i, bool c, seq(float[{element}]) p) => (bool d, seq(float[{element}]) q) "
        f"{{ d = Identity(c) g = Gather(x, i) {of_row} v = ReduceSum<keepdims=0>(u) k = Greater(v, nought) "
        f"q = If (k) <then_branch = a () => (seq(float[{element}]) q1) {{ q1 = SequenceInsert(p, u) }}, else_branch = b () => (seq(float[{element}]) q2) {{ q2 = Identity(p) }}> }}>(l, t, e) "
        f"y = ConcatFromSequence<{axis}>(s)",
        {"zeros": i64(0), "nought": np.float32(0)},
        outputs="float[N,3] y" if kind == "joined" else "float[3,N] y",
        feeds={"x": np.array([[1, 2, 3], [-1, -2, -3], [-1, 0.5, 0], [2, -1, -0.5]], np.float32)},
    )
growing(
    "of_a_state_that_grows",
    "float[T,3] x",
    f"{ROWS} h0 = Slice(x, zeros, ones, zeros) s, h = Loop<body = f (int64 i, bool c, seq(float[K,3]) p, float[M,3] v) => (bool d, seq(float[L,3]) q, float[N,3] w) "
    "{ d = Identity(c) q = SequenceInsert(p, v) g = Gather(x, i) u = Unsqueeze(g, zeros) w = Concat<axis=0>(v, u) }>(l, t, e, h0) "
    "y = ConcatFromSequence<axis=0>(s)",
    {"zeros": i64(0), "ones": i64(1)},
    outputs="float[N,3] y, float[O,3] h",
    shapes={"x": [4, 3]},
)
for taken in (True, False):
    growing(
        f"of_two_branches_{taken}",
        "float[2,3] x, float[2,3] v, bool c",
        "s = If (c) <then_branch = a () => (seq(float[2,3]) q1) { q1 = SequenceConstruct(x, v) }, else_branch = b () => (seq(float[2,3]) q2) { n = Neg(x) q2 = SequenceConstruct(v, n) }> "
        "y = ConcatFromSequence<axis=0>(s)",
        outputs="float[4,3] y",
        feeds={
            "x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
            "v": np.ones((2, 3), np.float32),
            "c": np.array(taken),
        },
    )
growing(
    "of_branches_of_different_lengths",
    "float[2,3] x, bool c",
    "s = If (c) <then_branch = a () => (seq(float[2,3]) q1) { q1 = SequenceConstruct(x, x) }, else_branch = b () => (seq(float[2,3]) q2) { q2 = SequenceConstruct(x) }> "
    "y = ConcatFromSequence<axis=0>(s)",
    outputs="float[N,3] y",
    feeds={"x": np.zeros((2, 3), np.float32), "c": np.array(True)},
)
growing(
    "of_a_fixed_length",
    "float[2,3] x, float[2,3] v, int64 n",
    "e = SequenceConstruct(x, v) s = Loop<body = f (int64 i, bool c, seq(float[2,3]) p) => (bool d, seq(float[2,3]) q) "
    "{ d = Identity(c) a = SequenceAt(p, zero) b = SequenceAt(p, one) k = SequenceErase(p, zero) g = Sub(a, b) q = SequenceInsert(k, g) }>(n, t, e) "
    "y = ConcatFromSequence<axis=0>(s)",
    {k: POSITIONS[k] for k in ("zero", "one")},
    outputs="float[4,3] y",
    feeds={
        "x": np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3),
        "v": np.ones((2, 3), np.float32),
        "n": np.array(5),
    },
)
# An axis of unknown size in pieces of one, as repeat_interleave has it.
for keeps in (0, 1):
    growing(
        f"of_pieces_{keeps}",
        "float[2,T,3] x",
        f"m = Shape<start=1, end=2>(x) l = Squeeze(m) e = SequenceEmpty() k = SplitToSequence<axis=1, keepdims={keeps}>(x) n = SequenceLength(k) "
        f"s = Loop<body = f (int64 i, bool c, seq(float[{'2,K,3' if keeps else '2,3'}]) p) => (bool d, seq(float[{'2,L,3' if keeps else '2,3'}]) q) "
        "{ d = Identity(c) g = SequenceAt(k, i) h = Cos(g) q = SequenceInsert(p, h) }>(n, t, e) "
        f"y = ConcatFromSequence<axis=1, new_axis={1 - keeps}>(s) w = SequenceAt(k, last) o = ConcatFromSequence<axis=1, new_axis={1 - keeps}>(k)",
        {"last": AT["last"]},
        outputs=f"float[2,T,3] y, float[{'2,1,3' if keeps else '2,3'}] w, float[2,T,3] o",
        shapes={"x": [2, 5, 3]},
    )
growing(
    "repeated",
    "float[T,3] x, int64[T] r",
    f"{ROWS} o = ConstantOfShape<value = int64[1] {{1}}>(m) k = SplitToSequence(x, o) j = SplitToSequence(r, o) "
    "s = Loop<body = f (int64[1] i, bool c, seq(float[K,3]) p) => (bool d, seq(float[L,3]) q) "
    "{ d = Identity(c) g = SequenceAt(k, i) h = SequenceAt(j, i) a = Concat<axis=0>(h, three) b = Expand(g, a) q = SequenceInsert(p, b) }>(m, t, e) "
    "y = ConcatFromSequence<axis=0>(s)",
    {"three": i64(3)},
    outputs="float[N,3] y",
    feeds={"x": np.arange(12, dtype=np.float32).reshape(4, 3), "r": i64(2, 1, 3, 1)},
)
sequence(
    "alike_element_that_the_run_names",
    "float[2,3] a, float[2,3] b, int64 n",
    "s = SequenceConstruct(a, b) y = SequenceAt(s, n)",
    outputs="float[2,3] y",
    feeds={"a": np.zeros((2, 3), np.float32), "b": np.ones((2, 3), np.float32), "n": np.array(-1, np.int64)},
)
growing(
    "from_the_front",
    "float[2,3] x, int64 n",
    "e = SequenceEmpty() s = Loop<body = f (int64 i, bool c, seq(float[2,3]) p) => (bool d, seq(float[2,3]) q) "
    "{ d = Identity(c) g = Sin(x) q = SequenceInsert(p, g, zero) }>(n, t, e) y = ConcatFromSequence<axis=0>(s)",
    {"zero": POSITIONS["zero"]},
    outputs="float[N,3] y",
    feeds={"x": np.zeros((2, 3), np.float32), "n": np.array(2)},
)
# Graphs of IF and WHILE have no access to the values around them: the elements of a sequence become inputs.
LOOP = "Loop<body = f (int64 i, bool d, float[2,3] p) => (bool o, float[2,3] q)"
for name, body in {
    "taken_in_a_branch": "y = If (c) <then_branch = f () => (float[2,3] r) { r = SequenceAt(s, one) }, else_branch = g () => (float[2,3] v) { v = Neg(a) }>",
    "counted_in_a_branch": "m = If (c) <then_branch = f () => (int64 r) { r = SequenceLength(s) }, else_branch = g () => (int64 v) { v = Identity(one) }> "
    "f = Cast<to=1>(m) y = Mul(a, f)",
    "taken_in_a_loop": f"y = {LOOP} {{ o = Identity(d) e = SequenceAt(s, one) q = Sub(e, p) }}>(n, , a)",
    "empty_in_a_branch_of_a_loop": f"z = SequenceEmpty() y = {LOOP} {{ o = Identity(d) q = If (c) <then_branch = h () => (float[2,3] r) "
    "{ e = SequenceAt(s, one) r = Sub(e, p) }, else_branch = g () => (float[2,3] v) { j = SequenceInsert(z, p) k = SequenceInsert(j, a) v = SequenceAt(k, one) }> }>(n, , a)",
}.items():
    for taken in (True, False):
        sequence(
            f"{name}_{taken}",
            "float[2,3] a, float[2,3] b, bool c, int64 n",
            f"s = SequenceConstruct(a, b) {body}",
            {"one": AT["one"]},
            opset=16,
            feeds={
                "a": np.arange(6, dtype=np.float32).reshape(2, 3),
                "b": np.full((2, 3), 1.5, np.float32),
                "c": np.array(taken),
                "n": np.array(3),
            },
            outputs="float[2,3] y",
        )
