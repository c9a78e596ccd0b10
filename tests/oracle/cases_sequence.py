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
