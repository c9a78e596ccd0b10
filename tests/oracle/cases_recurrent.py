# SPDX-License-Identifier: Apache-2.0
"""LSTM, GRU and RNN in every form, and If, Loop and Scan whose course only the run knows.

Recurrent operators: steps 4, batch 3, 5 inputs, 2 hidden. Sequences longer than 32 steps, and those of unknown
length, become a loop.
"""

import numpy as np

from tests.support.case import Case, f32, i64

CASES = []

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def recurrent(
    name,
    op,
    attributes="",
    *,
    directions=1,
    slots=(),
    outputs="y, h",
    steps="4",
    batch="3",
    lengths=None,
    weights=None,
    **more,
):
    """`slots`: names of the optional inputs B, lens, h0, c0, P that are given; lens is a constant when `lengths` is."""
    gates, hidden, d = GATES[op], 2, directions
    given = {"W": (d, gates * hidden, 5), "R": (d, gates * hidden, hidden)}
    inputs, names = [f"float[{steps},{batch},5] x"], ["x", "W", "R"]
    for slot in ("B", "lens", "h0") + (("c0", "P") if op == "LSTM" else ()):
        names.append(slot if slot in slots else "")
        if slot not in slots:
            continue
        if slot in ("h0", "c0"):
            inputs.append(f"float[{d},{batch},{hidden}] {slot}")
        elif slot != "lens":
            given[slot] = (d, {"B": 2 * gates, "P": 3}[slot] * hidden)
        elif lengths is not None:
            given[slot] = np.array(lengths, np.int32)
        else:
            inputs.append(f"int32[{batch}] lens")
    while not names[-1]:
        names.pop()
    if op == "LSTM" and outputs == "y, h":
        outputs = "y, h, c"
    text = f"{outputs} = {op}<hidden_size={hidden}{', ' + attributes if attributes else ''}>({', '.join(names)})"
    CASES.append(
        Case(
            f"recurrent/{op.lower()}_{name}",
            ", ".join(inputs),
            text,
            {**given, **(weights or {})},
            opset=14,
            outputs=", ".join(filter(None, outputs.split(", "))),
            **more,
        )
    )


ALL = ("B", "h0", "c0")
for op in GATES:
    both = dict(directions=2, slots=ALL)
    recurrent("plain", op)
    recurrent("with_states", op, slots=ALL)
    recurrent("reverse", op, 'direction="reverse"', slots=ALL)
    recurrent("bidirectional", op, 'direction="bidirectional"', **both)
    recurrent("one_step", op, slots=ALL, steps="1")
    recurrent("only_last", op, slots=("B",), outputs=", h")
    recurrent("only_sequence", op, slots=("B",), outputs="y")
    recurrent("clip", op, "clip=0.3", slots=ALL)
    recurrent("lengths", op, 'direction="bidirectional"', directions=2, slots=ALL + ("lens",), lengths=[2, 4, 1])
    recurrent("lengths_with_an_empty_one", op, 'direction="reverse"', slots=ALL + ("lens",), lengths=[3, 0, 4])
    recurrent("full_lengths", op, slots=ALL + ("lens",), lengths=[4, 4, 4])
    recurrent("lengths_without_states", op, slots=("lens",), lengths=[1, 3, 4])
    recurrent(
        "lengths_of_the_run",
        op,
        'direction="bidirectional"',
        directions=2,
        slots=("B", "lens"),
        ranges={"lens": (0, 5)},
    )
    recurrent("dynamic_batch", op, slots=("B",), batch="N", shapes={"x": (4, 6, 5)})
    recurrent(
        "dynamic_batch_and_states",
        op,
        slots=ALL,
        batch="N",
        shapes={"x": (4, 6, 5), "h0": (1, 6, 2), "c0": (1, 6, 2)}
        if op == "LSTM"
        else {"x": (4, 6, 5), "h0": (1, 6, 2)},
    )
    recurrent("dynamic_steps", op, 'direction="bidirectional"', **both, steps="T", shapes={"x": (7, 3, 5)})
    recurrent("dynamic_steps_one", op, slots=ALL, steps="T", shapes={"x": (1, 3, 5)})
    recurrent(
        "dynamic_steps_and_batch",
        op,
        'direction="reverse"',
        slots=("B",),
        steps="T",
        batch="N",
        shapes={"x": (6, 4, 5)},
    )
    recurrent(
        "dynamic_steps_and_lengths",
        op,
        'direction="bidirectional"',
        directions=2,
        slots=("B", "lens"),
        steps="T",
        shapes={"x": (5, 3, 5)},
        ranges={"lens": (0, 6)},
    )
    recurrent("many_steps", op, slots=ALL, steps="70")
recurrent("peepholes", "LSTM", slots=ALL + ("P",))
recurrent(
    "peepholes_bidirectional_clip", "LSTM", 'direction="bidirectional", clip=0.4', directions=2, slots=ALL + ("P",)
)
recurrent("peepholes_without_states", "LSTM", slots=("P",))
recurrent("peepholes_and_input_forget", "LSTM", "input_forget=1", slots=ALL + ("P",))
recurrent("input_forget", "LSTM", "input_forget=1", slots=ALL)
recurrent("only_cell", "LSTM", slots=("B",), outputs=", , c")
recurrent("linear_before_reset", "GRU", "linear_before_reset=1", slots=ALL)
recurrent(
    "linear_before_reset_bidirectional",
    "GRU",
    'linear_before_reset=1, direction="bidirectional"',
    directions=2,
    slots=ALL,
)
recurrent("linear_before_reset_without_bias", "GRU", "linear_before_reset=1", slots=("h0",))
recurrent("linear_before_reset_without_state", "GRU", "linear_before_reset=1", slots=("B",))
recurrent("linear_before_reset_many_steps", "GRU", "linear_before_reset=1", slots=("B",), steps="33")
for text, constants in {
    "Relu": "",
    "Sigmoid": "",
    "Softsign": "",
    "Softplus": "",
    "Affine": "0.6:0.2",
    "LeakyRelu": "0.3:",
    "ThresholdedRelu": "0.2:",
    "ScaledTanh": "0.7:1.3",
    "HardSigmoid": "0.3:0.6",
    "Elu": "0.8:",
}.items():
    alpha, _, beta = constants.partition(":")
    lists = (f", activation_alpha=[{alpha}]" if alpha else "") + (f", activation_beta=[{beta}]" if beta else "")
    recurrent("activation_" + text.lower(), "RNN", f'activations=["{text}"]{lists}', slots=ALL)
recurrent(
    "activations",
    "GRU",
    'activations=["HardSigmoid", "Softsign"], activation_alpha=[0.25], activation_beta=[0.4]',
    slots=ALL,
)
recurrent(
    "activations",
    "LSTM",
    'activations=["HardSigmoid", "Elu", "ScaledTanh"], activation_alpha=[0.25, 0.9, 1.1], activation_beta=[0.4, 0.8]',
    slots=ALL,
)
recurrent(
    "activations_of_two_directions",
    "LSTM",
    'direction="bidirectional", activations=["Sigmoid", "Tanh", "Relu", "Sigmoid", "Softsign", "Tanh"]',
    directions=2,
    slots=ALL,
)
# ONNX Runtime takes zeros for constants that are not listed, the standard has other values: refused.
for text in ("Affine", "ScaledTanh", "ThresholdedRelu"):
    recurrent(f"disputed_{text.lower()}", "RNN", f'activations=["{text}"]', slots=ALL)
# layout 1, which ONNX Runtime does not know.
CASES.append(
    Case(
        "recurrent/lstm_batch_first",
        "float[3,4,5] x, float[3,2,2] h0, float[3,2,2] c0",
        'y, h, c = LSTM<hidden_size=2, direction="bidirectional", layout=1>(x, W, R, B, , h0, c0)',
        {"W": (2, 8, 5), "R": (2, 8, 2), "B": (2, 16)},
        opset=14,
        outputs="y, h, c",
        same_as="t = Transpose<perm=[1,0,2]>(x) i = Transpose<perm=[1,0,2]>(h0) j = Transpose<perm=[1,0,2]>(c0) "
        'p, q, r = LSTM<hidden_size=2, direction="bidirectional">(t, W, R, B, , i, j) y = Transpose<perm=[2,0,1,3]>(p) '
        "h = Transpose<perm=[1,0,2]>(q) c = Transpose<perm=[1,0,2]>(r)",
    )
)
CASES.append(
    Case(
        "recurrent/gru_batch_first_reverse_lengths",
        "float[3,4,5] x",
        'y, h = GRU<hidden_size=2, direction="reverse", layout=1>(x, W, R, B, n)',
        {"W": (1, 6, 5), "R": (1, 6, 2), "B": (1, 12), "n": np.array([4, 1, 2], np.int32)},
        opset=14,
        outputs="y, h",
        same_as='t = Transpose<perm=[1,0,2]>(x) p, q = GRU<hidden_size=2, direction="reverse">(t, W, R, B, n) '
        "y = Transpose<perm=[2,0,1,3]>(p) h = Transpose<perm=[1,0,2]>(q)",
    )
)
for op in GATES:
    CASES.append(
        Case(
            f"recurrent/{op.lower()}_opset_7",
            "float[4,3,5] x",
            f"y, h = {op}<hidden_size=2>(x, w, r)",
            {"w": (1, 2 * GATES[op], 5), "r": (1, 2 * GATES[op], 2)},
            opset=7,
            outputs="y, h",
        )
    )
CASES.append(
    Case(
        "recurrent/lstm_weights_of_the_run",
        "float[4,3,5] x, float[2,8,5] w, float[2,8,2] r, float[2,16] b",
        'y, h, c = LSTM<hidden_size=2, direction="bidirectional">(x, w, r, b)',
        outputs="y, h, c",
        opset=14,
    )
)
CASES.append(
    Case(
        "recurrent/stacked_with_convolution",
        "float[2,3,4,6] x",
        "c = Conv<pads=[1,1,1,1]>(x, k) t = Transpose<perm=[3,0,1,2]>(c) s = Reshape(t, shape) a, , = LSTM<hidden_size=2>(s, w, r) "
        "q = Squeeze(a, one) b, , = LSTM<hidden_size=2>(q, v, r) y = Identity(b)",
        {"k": (5, 3, 3, 3), "shape": i64(6, 2, 20), "w": (1, 8, 20), "v": (1, 8, 2), "r": (1, 8, 2), "one": i64(1)},
        opset=14,
    )
)


def control(name, inputs, body, outputs, weights=None, **more):
    CASES.append(Case("control/" + name, inputs, body, weights or {}, opset=16, outputs=outputs, **more))


for flag in (False, True):
    known = {"feeds": {"x": f32(1, -2, 3, -4, 5, -6).reshape(2, 3), "p": np.array(flag)}}
    control(
        f"if_{flag}",
        "float[2,3] x, bool p",
        "y = If (p) <then_branch = a () => (float[2,3] u) { u = Neg(x) }, else_branch = b () => (float[2,3] v) { v = Abs(x) }>",
        "y",
        **known,
    )
    control(
        f"if_{flag}_different_shapes",
        "float[2,3] x, bool p",
        "q = If (p) <then_branch = a () => (float[2,3] u) { u = Neg(x) }, else_branch = b () => (float[4,3] v) { v = Concat<axis=0>(x, x) }> y = Relu(q)",
        "float[n,3] y",
        **known,
    )
    control(
        f"if_{flag}_passes_through",
        "float[2,3] x, bool p",
        "y, z = If (p) <then_branch = a () => (float[2,3] u, float[2,3] s) { u = Identity(x) s = Identity(x) }, "
        "else_branch = b () => (float[2,3] v, float[2,3] t) { v = Identity(k) t = Abs(x) }>",
        "float[2,3] y, float[2,3] z",
        {"k": (2, 3)},
        **known,
    )
    for found in (0, 1):
        control(
            f"if_{flag}_tail_of_{found and 'places' or 'no_places'}",
            "float[5] x, bool p",
            "w = NonZero(x) y = If (p) <then_branch = a () => (float[1,k] u) { l = Slice(w, f, z, f) s = Shape(l) u = ConstantOfShape<value=float[1] {7}>(s) }, "
            "else_branch = b () => (float[1,k] v) { v = Cast<to=1>(w) }>",
            "float[1,k] y",
            {"f": i64(1), "z": i64(2**31 - 1)},
            feeds={"x": np.full(5, found, np.float32), "p": np.array(flag)},
        )
    control(
        f"if_{flag}_nested",
        "float[2,3] x, bool p",
        "s = ReduceSum<keepdims=0>(x) n = Less(s, zero) y = If (p) <then_branch = a () => (float[2,3] u) { "
        "u = If (n) <then_branch = c () => (float[2,3] e) { e = Mul(x, k) }, else_branch = d () => (float[2,3] f) { f = Add(x, k) }> }, "
        "else_branch = b () => (float[2,3] v) { v = Div(x, k) }>",
        "y",
        {"zero": np.float32(0), "k": (2, 3)},
        **known,
    )
    control(
        f"if_{flag}_with_weights",
        "float[2,3,7,9] x, bool p",
        "c = Conv(x, w) y = If (p) <then_branch = a () => (float[2,5,4,7] u) { u = Conv(c, v) }, else_branch = b () => (float[2,5,4,7] m) { "
        "d = Conv(c, v) m = Relu(d) }>",
        "y",
        {"w": (4, 3, 3, 2), "v": (5, 4, 2, 2)},
        feeds={"x": np.random.default_rng(1).uniform(-1, 1, (2, 3, 7, 9)).astype(np.float32), "p": np.array(flag)},
    )
    control(
        f"if_{flag}_shapes",
        "float[N,3] x, bool p",
        "y, z = If (p) <then_branch = a () => (int64[2] u, int64 s) { u = Shape(x) s = Size(x) }, else_branch = b () => (int64[2] v, int64 t) { "
        "q = Shape(x) v = Add(q, one) t = Identity(k) }>",
        "int64[2] y, int64 z",
        {"one": i64(1), "k": np.array(7)},
        **known,
    )
    control(
        f"if_{flag}_same_value_twice",
        "float[2,3] x, bool p",
        "y, z = If (p) <then_branch = a () => (float[2,3] u, float[2,3] s) { u = Neg(x) s = Identity(u) }, "
        "else_branch = b () => (float[2,3] v, float[2,3] t) { v = Identity(k) t = Identity(k) }>",
        "float[2,3] y, float[2,3] z",
        {"k": (2, 3)},
        **known,
    )
    control(
        f"if_{flag}_dynamic_batch",
        "float[N,3] x, bool p",
        "y = If (p) <then_branch = a () => (float[N,2] u) { u = MatMul(x, w) }, else_branch = b () => (float[N,2] v) { s = Shape(x) "
        "n = Slice(s, zero, one) t = Concat<axis=0>(n, two) v = ConstantOfShape(t) }>",
        "float[N,2] y",
        {"w": (3, 2), "zero": i64(0), "one": i64(1), "two": i64(2)},
        **known,
    )

LOOP = "l = Loop (n, more, x) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t) { o = Identity(c) t = Mul(s, k) }> y = Identity(l)"
for n in (0, 1, 5):
    fed = {"feeds": {"x": f32(1, -2, 3, -4, 5, -6).reshape(2, 3), "n": np.array(n)}}
    shape_x = "float[2,3] x, int64 n"
    more = {"more": np.array(True), "k": (2, 3)}
    control(f"loop_of_{n}", shape_x, LOOP, "float[2,3] y", more, **fed)
    control(
        f"loop_of_{n}_counts",
        shape_x,
        "y = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t) { o = Identity(c) f = Cast<to=1>(i) t = Add(s, f) }>",
        "float[2,3] y",
        **fed,
    )
    control(
        f"loop_of_{n}_grows",
        shape_x,
        "y = Loop (n, , x) <body = b (int64 i, bool c, float[m,3] s) => (bool o, float[q,3] t) { o = Identity(c) t = Concat<axis=0>(s, k) }>",
        "float[q,3] y",
        {"k": (1, 3)},
        **fed,
    )
    control(
        f"loop_of_{n}_exchanges",
        shape_x,
        "y, z = Loop (n, , x, k) <body = b (int64 i, bool c, float[2,3] s, float[2,3] t) => (bool o, float[2,3] u, float[2,3] v) { "
        "o = Identity(c) u = Identity(t) v = Identity(s) }>",
        "float[2,3] y, float[2,3] z",
        {"k": (2, 3)},
        **fed,
    )
    control(
        f"loop_of_{n}_gathers",
        shape_x,
        "y, z, w = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t, float[2,3] u, int64 v) { "
        "o = Identity(c) t = Add(s, k) u = Neg(s) v = Identity(i) }>",
        "float[2,3] y, float[q,2,3] z, int64[q] w",
        {"k": (2, 3)},
        **fed,
    )
    some = (
        "y, {} w = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t, float[2,3] u, int64 v) {{ "
        "o = Identity(c) t = Add(s, k) u = Neg(s) v = Identity(i) }}>"
    )
    control(
        f"loop_of_{n}_gathers_some",
        shape_x,
        some.format(","),
        "float[2,3] y, int64[q] w",
        {"k": (2, 3)},
        same_as=some.format("z,"),
        **fed,
    )
    control(
        f"loop_of_{n}_until",
        shape_x,
        "y, z = Loop (n, more, x) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t, float r) { "
        "t = Add(s, k) r = ReduceSum<keepdims=0>(t) o = Less(r, limit) }>",
        "float[2,3] y, float[q] z",
        {"k": np.ones((2, 3), np.float32), "more": np.array(True), "limit": np.float32(10)},
        **fed,
    )
    control(
        f"loop_of_{n}_constant_state",
        shape_x,
        "y, z = Loop (n, , x, k) <body = b (int64 i, bool c, float[2,3] s, float[2,3] m) => (bool o, float[2,3] t, float[2,3] e) { "
        "o = Constant<value = bool {1}>() t = Add(s, m) e = Identity(v) }>",
        "float[2,3] y, float[2,3] z",
        {"k": (2, 3), "v": (2, 3)},
        **fed,
    )
    control(
        f"loop_of_{n}_grows_from_nothing",
        shape_x + ", float[m,3] e",
        "y = Loop (n, , e) <body = b (int64 i, bool c, float[p,3] s) => (bool o, float[q,3] t) { o = Identity(c) r = Gather(x, one) t = Concat<axis=0>(s, r) }>",
        "float[q,3] y",
        {"one": i64(1)},
        feeds={**fed["feeds"], "e": np.zeros((0, 3), np.float32)},
    )
    # The last element of a state, and what follows the first one, while the state has none.
    for what, first in {"last": -1, "tail": 1}.items():
        for start in ("nothing", "some"):
            control(
                f"loop_of_{n}_{what}_of_{start}",
                "int64 n, float[m] e",
                "y = Loop (n, , e) <body = b (int64 i, bool c, float[p] s) => (bool o, float[q] t) { o = Identity(c) l = Slice(s, f, z) "
                "k = Shape(l) r = ConstantOfShape(k) a = ReduceSum(r) h = Cast<to=1>(k) g = Add(h, a) t = Concat<axis=0>(s, g) }>",
                "float[q] y",
                {"f": i64(first), "z": i64(2**31 - 1)},
                feeds={"n": np.array(n), "e": np.zeros(2 if start == "some" else 0, np.float32)},
            )
    control(
        f"loop_of_{n}_nested",
        shape_x,
        "y = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t) { o = Identity(c) "
        "t = Loop (i, , s) <body = d (int64 j, bool e, float[2,3] p) => (bool f, float[2,3] q) { f = Identity(e) q = Mul(p, k) }> }>",
        "float[2,3] y",
        {"k": (2, 3)},
        **fed,
    )
    # The inner body calls its values as the outer one does.
    control(
        f"loop_of_{n}_nested_same_names",
        shape_x,
        "y = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t) { "
        "m = Loop (i, , s) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t) { o = Identity(c) t = Mul(s, k) }> "
        "o = Identity(c) t = Add(m, k) }>",
        "float[2,3] y",
        {"k": (2, 3)},
        **fed,
    )
    # As tf2onnx writes them: the body takes its trip as a list of one element.
    control(
        f"loop_of_{n}_with_listed_trip",
        shape_x,
        "y, z = Loop (n, more, x) <body = b (int64[1] i, bool c, float[2,3] s) => (bool o, float[2,3] t, float[1,3] r) { o = Identity(c) e = Add(i, one) "
        "f = Cast<to=1>(e) t = Mul(s, f) d = Mod(i, two) r = Gather(s, d) }>",
        "float[2,3] y, float[q,1,3] z",
        {"more": np.array(True), "one": i64(1), "two": i64(2)},
        **fed,
    )
control(
    "loop_too_long_for_unrolling",
    "float[2,3] x",
    "y, z = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t, float[3] r) { o = Identity(c) a = Mul(s, k) "
    "t = Sin(a) r = Gather(t, zero) }>",
    "float[2,3] y, float[9000,3] z",
    {"k": f32(1.5, -2, 1.75, -1.5, 2, -1.25).reshape(2, 3), "n": np.array(9000), "zero": np.array(0)},
)
# Loops of which each could be unrolled, but not both.
control(
    "loops_too_long_together",
    "float[2,3] x",
    "y = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t) { o = Identity(c) "
    "t = Loop (m, , s) <body = d (int64 j, bool e, float[2,3] p) => (bool f, float[2,3] q) { f = Identity(e) a = Mul(p, k) q = Sin(a) }> }>",
    "float[2,3] y",
    {"k": f32(1.5, -2, 1.75, -1.5, 2, -1.25).reshape(2, 3), "n": np.array(200), "m": np.array(250)},
)
control(
    "scan_in_a_loop_too_long_together",
    "float[2] x, float[90,2] r",
    "y = Loop (n, , x) <body = b (int64 i, bool c, float[2] s) => (bool o, float[2] t) { o = Identity(c) "
    "t = Scan (s, r) <num_scan_inputs=1, body = d (float[2] p, float[2] v) => (float[2] q) { a = Mul(p, k) m = Add(a, v) q = Sin(m) }> }>",
    "float[2] y",
    {"k": f32(1.5, -2), "n": np.array(120)},
)
for n in (0, 3):
    known = {"n": np.array(n), "k": (2, 3)}
    control(
        f"loop_of_known_{n}_gathers",
        "float[2,3] x",
        "y, z = Loop (n, , x) <body = b (int64 i, bool c, float[2,3] s) => (bool o, float[2,3] t, float[3,2] u) { "
        "o = Identity(c) t = Add(s, k) u = Transpose(s) }>",
        f"float[2,3] y, float[{n},3,2] z",
        known,
    )
    control(
        f"scan_of_{n}",
        f"float[2] h, float[{n},2] x",
        "y, z = Scan (h, x) <num_scan_inputs=1, body = b (float[2] s, float[2] r) => (float[2] t, float[2] u) { t = Add(s, r) u = Neg(t) }>",
        f"float[2] y, float[{n},2] z",
        numpy=None if n else lambda given, _: {"y": given["h"], "z": np.zeros((0, 2), np.float32)},
    )  # ONNX Runtime scans no empty axis
    fed = {"feeds": {"x": f32(1, -2, 3, -4, 5, -6).reshape(2, 3), "n": np.array(n)}}
    control(
        f"loop_of_{n}_around_if",
        "float[N,3] x, int64 n",
        "w = Neg(x) y = Loop (n, , x) <body = b (int64 i, bool c, float[N,3] s) => (bool o, float[N,3] t) { o = Identity(c) d = Less(i, one) "
        "t = If (d) <then_branch = e () => (float[N,3] u) { u = Add(s, w) }, else_branch = f () => (float[N,3] v) { q = Shape(w) "
        "m = ConstantOfShape <value = float[1] {0.5}> (q) v = Mul(s, m) }> }>",
        "float[N,3] y",
        {"one": np.array(1)},
        **fed,
    )
for flag in (False, True):
    control(
        f"if_{flag}_around_recurrent_loop",
        "float[T,2,5] x, bool p",
        "y = If (p) <then_branch = a () => (float[T,1,2,3] u) { u = LSTM<hidden_size=3>(x, w, r) }, "
        'else_branch = b () => (float[T,1,2,3] v) { v = LSTM<hidden_size=3, direction="reverse">(x, w, r) }>',
        "float[T,1,2,3] y",
        {"w": (1, 12, 5), "r": (1, 12, 3)},
        feeds={"x": np.random.default_rng(2).uniform(-1, 1, (4, 2, 5)).astype(np.float32), "p": np.array(flag)},
    )
control(
    "if_of_different_ranks",
    "float[2,3] x, bool p",
    "q = If (p) <then_branch = a () => (float[2,3] u) { u = Neg(x) }, else_branch = b () => (float[6] v) { v = Reshape(x, s) }> y = Size(q)",
    "int64 y",
    {"s": i64(6)},
    feeds={"x": np.ones((2, 3), np.float32), "p": np.array(True)},
)
control(
    "loop_of_rows_of_unknown_length",
    "float[5] x, int64 n",
    "y, z = Loop (n, , x) <body = b (int64 i, bool c, float[5] s) => (bool o, float[5] t, int64[1,q] r) { o = Identity(c) t = Neg(s) r = NonZero(s) }>",
    "float[5] y, int64[m,1,q] z",
    feeds={"x": f32(1, 0, 2, 0, 3), "n": np.array(3)},
)
control(
    "loops_one_after_the_other",
    "float[T,1,5] x",
    "a = LSTM<hidden_size=3>(x, w, r) q = Squeeze(a, one) b, c = GRU<hidden_size=2>(q, v, u) y = Identity(b)",
    "float[T,1,1,2] y",
    {"w": (1, 12, 5), "r": (1, 12, 3), "v": (1, 6, 3), "u": (1, 6, 2), "one": i64(1)},
    shapes={"x": (6, 1, 5)},
)
control(
    "while_without_a_limit",
    "float[2] x",
    "y = Loop ( , more, x) <body = b (int64 i, bool c, float[2] s) => (bool o, float[2] t) { t = Add(s, s) r = ReduceMax<keepdims=0>(t) o = Less(r, limit) }>",
    "float[2] y",
    {"more": np.array(True), "limit": np.float32(100)},
    feeds={"x": f32(1, 3)},
)

SCAN = (
    "y, z = Scan (h, x) <num_scan_inputs=1{0}, body = b (float[2] s, float[3,2] r) => (float[2] t, float[2] u) {{ q = ReduceSum<keepdims=0>(r, zero) t = Add(s, q) "
    "u = Mul(t, k) }}>"
)
for name, attributes, dims, result in (
    ("forward", "", "T,3,2", "T,2"),
    ("reverse", ", scan_input_directions=[1], scan_output_directions=[1]", "T,3,2", "T,2"),
    ("axes", ", scan_input_axes=[1], scan_output_axes=[-1]", "3,T,2", "2,T"),
):
    for steps in ("T", "5"):
        control(
            f"scan_{name}_{'dynamic' if steps == 'T' else 'static'}",
            f"float[2] h, float[{dims.replace('T', steps)}] x",
            SCAN.format(attributes),
            f"float[2] y, float[{result.replace('T', steps)}] z",
            {"zero": i64(0), "k": (2,)},
            shapes={"x": tuple(5 if d == "T" else int(d) for d in dims.split(","))} if steps == "T" else {},
        )


# ---- DynamicQuantizeLSTM ----


def dynamic_lstm(name, dtype, attributes="", directions=1, by_column=False, slots="", zero=0, steps=4, **more):
    """One row, so that ONNX Runtime has one scale of h whatever its threads. Weights of i8 are short: its products saturate on
    processors without VNNI."""
    rng = np.random.default_rng(17)
    hidden, inputs = 6, 5
    low, high = (-63, 64) if dtype == np.int8 else (0, 256)
    parameters = (directions, 4 * hidden) if by_column else (directions,)
    given = {}
    for letter, rows in (("W", inputs), ("R", hidden)):
        given[letter] = rng.integers(low, high, (directions, rows, 4 * hidden)).astype(dtype)
        given[f"{letter}s"] = rng.uniform(0.002, 0.01, parameters).astype(np.float32)
        given[f"{letter}z"] = np.full(parameters, zero, dtype)
    given |= {"B": (directions, 8 * hidden), "P": (directions, 3 * hidden)}
    states = f", float[{directions},1,{hidden}] h0, float[{directions},1,{hidden}] c0" if "h0" in slots else ""
    optional = ", ".join(slot if slot in slots.split() else "" for slot in ("B", "lens", "h0", "c0", "P"))
    text = f"y, h, c = com.microsoft.DynamicQuantizeLSTM<hidden_size={hidden}{attributes}>"
    CASES.append(
        Case(
            f"recurrent/dynamic_lstm_{name}",
            f"float[{steps},1,{inputs}] x{states}",
            f"{text}(x, W, R, {optional}, Ws, Wz, Rs, Rz)",
            {name: value for name, value in given.items() if name not in ("B", "P") or name in slots.split()},
            opset=14,
            opsets={"com.microsoft": 1},
            outputs=f"float[{steps},{directions},1,{hidden}] y, float[{directions},1,{hidden}] h, float[{directions},1,{hidden}] c",
            **more,
        )
    )


dynamic_lstm("plain", np.int8)
dynamic_lstm("by_column", np.int8, by_column=True, slots="B h0 c0")
dynamic_lstm("zero_points", np.uint8, zero=131, slots="B")
dynamic_lstm("bidirectional", np.int8, ', direction="bidirectional", clip=0.7', directions=2, slots="B h0 c0 P")
dynamic_lstm("loop", np.uint8, ', direction="reverse"', zero=128, slots="B h0 c0", steps=37)
recurrent("two_activations_of_one_direction", "RNN", 'activations=["Relu", "Sigmoid"]', slots=ALL)
CASES.append(
    Case(  # of rows that UNPACK would refuse
        "control/scan_of_nothing",
        "float[N] h, float[3,N,M] x",
        "y, z = Scan (h, x) <num_scan_inputs=1, body = b (float[N] s, float[N,M] r) => (float[N] t, float[N,M] u) "
        "{ t = Neg(s) u = Neg(r) }>",
        outputs="float[N] y, float[3,N,M] z",
        feeds={"h": np.zeros(2, np.float32), "x": np.zeros((3, 2, 0), np.float32)},
    )
)
CASES.append(
    Case(  # the first axis of what the branch gets is the second one of the input, and no batch
        "control/scan_of_nothing_in_a_branch",
        "bool c, float[3,S,2] x",
        "y = Transpose<perm=[1,0,2]>(x) z = If (c) <then_branch = a () => (float[K,L] t) { i = ReduceSum<keepdims=0>(y, two) "
        "f, t = Scan (i, y) <num_scan_inputs=1, scan_input_axes=[2], body = b (float[S,3] s, float[S,3] e) => "
        "(float[S,3] n, float[S,3] r) { n = Add(s, e) r = Identity(n) }> }, "
        "else_branch = o () => (float[K,L] u) { u = Identity(y) }>",
        {"two": i64(2)},
        outputs="float[P,Q,R] z",
        feeds={"c": np.array(True), "x": np.zeros((3, 0, 2), np.float32)},
    )
)
# UNPACK has no 64 bits.
CASES.append(
    Case(
        "control/scan_of_large_integers",
        "int64[2] h, int64[3,2] x",
        "y, z = Scan (h, x) <num_scan_inputs=1, body = b (int64[2] s, int64[2] r) => (int64[2] t, int64[2] u) "
        "{ t = Add(s, r) u = Neg(t) }>",
        outputs="int64[2] y, int64[3,2] z",
        feeds={"h": i64(1, 2), "x": i64(2**40, 1, 2, -(2**33), 5, 6).reshape(3, 2)},
    )
)
