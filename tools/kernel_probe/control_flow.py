# SPDX-License-Identifier: Apache-2.0
"""Cases of IF and WHILE: conditions, state of several types, shapes that change from turn to turn."""

import numpy as np

from .case import data, variant
from .one_op import Tensor


def graph(inputs, outputs, operators):
    """A subgraph. `inputs` and `outputs` name tensors; `operators` are (builtin, inputs, (result, shape, dtype), options).

    An input is (name, shape, dtype); an operand is a name, or a numpy array for a constant.
    """

    def fill(b):
        ids = {name: b.tensor(shape, dtype) for name, shape, dtype in inputs}
        b.graph.inputs = list(ids.values())
        for builtin, operands, (name, shape, dtype), options in operators:
            given = [
                ids[o] if isinstance(o, str) else b.tensor(o.value.shape, o.dtype, o.value.tobytes()) for o in operands
            ]
            ids[name] = b.tensor(shape, dtype)
            b.operator(builtin, given, [ids[name]], options)
        b.graph.outputs = [ids[name] for name in outputs]

    return fill


ONE, TWO = Tensor([1.0], "F32"), Tensor([2.0], "F32")
AXIS_0 = ("ConcatenationOptions", {"axis": 0})


def choice(condition, grows=False, passes=False, rank_1=False):
    x = data("F32", (3, 2))
    entry = [("x", (3, 2), "F32")]
    then = graph(entry, ["y"], [("ADD", ["x", ONE], ("y", (3, 2), "F32"), ("AddOptions", {}))])
    if passes:
        other, y = graph(entry, ["x"], []), x.value
    elif grows:
        other, y = (
            graph(entry, ["y"], [("CONCATENATION", ["x", "x"], ("y", (6, 2), "F32"), AXIS_0)]),
            np.concatenate([x.value, x.value]),
        )
    else:
        other, y = graph(entry, ["y"], [("MUL", ["x", TWO], ("y", (3, 2), "F32"), ("MulOptions", {}))]), x.value * 2
    y = x.value + 1 if condition else y
    flag = Tensor([condition] if rank_1 else condition, "BOOL")
    return [flag, x], [Tensor(y, "F32")], ("IfOptions", {"thenSubgraphIndex": 1, "elseSubgraphIndex": 2}, [then, other])


for condition in (True, False):
    variant("IF", f"condition {condition}", lambda c=condition: choice(c))
    variant("IF", f"condition {condition}, branches of different shapes", lambda c=condition: choice(c, grows=True))
    variant(
        "IF",
        f"condition {condition}, a branch that passes its input through",
        lambda c=condition: choice(c, passes=True),
    )
    variant("IF", f"condition {condition}, of shape [1]", lambda c=condition: choice(c, rank_1=True))


def loop(turns, counter="I32", grows=False, counter_shape=(1,), constant_start=False, swap=False):
    """while i < turns: i, x = i + 1, x + 1 (or x joined with itself, or two values that change places)."""
    i = Tensor(np.zeros(counter_shape), counter, fixed=constant_start)
    x, z = data("F32", (3, 2)), data("F32", (3, 2), seed="z")
    state = [("i", counter_shape, counter), ("x", (3, 2), "F32"), ("z", (3, 2), "F32")]
    end, one = Tensor(np.full(counter_shape, turns), counter), Tensor(np.ones(counter_shape), counter)
    test = graph(state, ["more"], [("LESS", ["i", end], ("more", counter_shape, "BOOL"), ("LessOptions", {}))])
    step = ("ADD", ["i", one], ("i2", counter_shape, counter), ("AddOptions", {}))
    want_x, want_z = x.value, z.value
    if grows:
        body = graph(state, ["i2", "x2", "z"], [step, ("CONCATENATION", ["x", "z"], ("x2", (), "F32"), AXIS_0)])
        want_x = np.concatenate([x.value] + [z.value] * turns)
    elif swap:
        copies = [("MUL", [n, ONE], (n + "2", (3, 2), "F32"), ("MulOptions", {})) for n in "xz"]
        body = graph(
            state,
            ["i2", "z2", "x2"] if swap == "copied" else ["i2", "z", "x"],
            [step] + (copies if swap == "copied" else []),
        )
        want_x, want_z = (z.value, x.value) if turns % 2 else (x.value, z.value)
    else:
        body = graph(state, ["i2", "x2", "z"], [step, ("ADD", ["x", ONE], ("x2", (3, 2), "F32"), ("AddOptions", {}))])
        want_x = x.value + np.float32(turns)
    ended = Tensor(np.full(counter_shape, max(turns, 0)), counter)
    return (
        [i, x, z],
        [ended, Tensor(want_x, "F32"), Tensor(want_z, "F32")],
        ("WhileOptions", {"condSubgraphIndex": 1, "bodySubgraphIndex": 2}, [test, body]),
    )


for text, how in {
    "5 turns": dict(turns=5),
    "no turn": dict(turns=0),
    "I64 counter": dict(turns=5, counter="I64"),
    "scalar counter": dict(turns=5, counter_shape=()),
    "counter starts as a constant": dict(turns=5, constant_start=True),
    "a value that grows each turn": dict(turns=4, grows=True),
    "two values change places, 3 turns": dict(turns=3, swap=True),
    "two copied values change places, 3 turns": dict(turns=3, swap="copied"),
    "F32 counter": dict(turns=5, counter="F32"),
    "1000 turns": dict(turns=1000),
}.items():
    variant("WHILE", text, lambda h=how: loop(**h))
