# SPDX-License-Identifier: Apache-2.0
"""Cases of recurrent layers and of non-maximum suppression."""

import numpy as np

from .case import data, index, numbers, variant
from .elementwise import sigmoid
from .one_op import Tensor

# ---- Recurrent layers: the state is a variable of the model, zero at the start ----------------------------------------


def lstm(
    time_major=False, peephole=False, bias=True, coupled=False, clip=0.0, projection=False, state_from_outside=False
):
    steps, batch, n_in, units = 4, 3, 5, 6
    n_out = 2 if projection else units

    def weight(name, *shape):
        return data("F32", shape, lo=-0.7, hi=0.7, seed=name, fixed=True)

    x = data("F32", (steps, batch, n_in) if time_major else (batch, steps, n_in))
    gates = "ifco"
    w, r = {g: weight("w" + g, units, n_in) for g in gates}, {g: weight("r" + g, units, n_out) for g in gates}
    p = {g: weight("p" + g, units) for g in "ifo"}
    b = {g: weight("b" + g, units) for g in gates}
    out_w = weight("projection", n_out, units)
    h, c = np.zeros((batch, n_out)), np.zeros((batch, units))
    sequence = x.value.astype(np.float64) if time_major else x.value.astype(np.float64).swapaxes(0, 1)
    rows = []
    for step in sequence:

        def sum_of(g):
            return step @ w[g].value.T + h @ r[g].value.T + (b[g].value if bias else 0)

        f = sigmoid(sum_of("f") + (p["f"].value * c if peephole else 0))
        i = 1 - f if coupled else sigmoid(sum_of("i") + (p["i"].value * c if peephole else 0))
        c = f * c + i * np.tanh(sum_of("c"))
        c = np.clip(c, -clip, clip) if clip else c
        o = sigmoid(sum_of("o") + (p["o"].value * c if peephole else 0))
        h = o * np.tanh(c)
        h = h @ out_w.value.T if projection else h
        rows.append(h)
    y = np.stack(rows, 0 if time_major else 1)
    operands = (
        [x]
        + [None if coupled and g == "i" else w[g] for g in gates]
        + [None if coupled and g == "i" else r[g] for g in gates]
    )
    operands += [p[g] if peephole and not (coupled and g == "i") else None for g in "ifo"]
    operands += [
        None if coupled and g == "i" else b[g] if bias else Tensor(np.zeros(units), "F32", True) for g in gates
    ]
    operands += [out_w if projection else None, None]
    operands += [Tensor(np.zeros((batch, n)), "F32", variable=not state_from_outside) for n in (n_out, units)]
    operands += [None] * 4
    return (
        operands,
        [Tensor(y, "F32", tolerance=2e-5)],
        (
            "UnidirectionalSequenceLSTMOptions",
            {"fusedActivationFunction": 4, "cellClip": clip, "timeMajor": time_major},
        ),
    )


for text, how in {
    "batch first": {},
    "time first": dict(time_major=True),
    "peepholes": dict(peephole=True),
    "zero bias": dict(bias=False),
    "input gate coupled to the forget gate": dict(coupled=True),
    "cell clipped at 0.3": dict(clip=0.3),
    "projection": dict(projection=True),
    "state from outside (not a variable)": dict(state_from_outside=True),
}.items():
    variant("UNIDIRECTIONAL_SEQUENCE_LSTM", text, lambda h=how: lstm(**h))


def rnn(activation, function, time_major=False):
    x = data("F32", (4, 3, 5) if time_major else (3, 4, 5))
    w, r, b = (data("F32", s, lo=-0.5, hi=0.5, seed=str(s), fixed=True) for s in ((6, 5), (6, 6), (6,)))
    h, rows = np.zeros((3, 6)), []
    for step in x.value if time_major else x.value.swapaxes(0, 1):
        h = function(step @ w.value.T + h @ r.value.T + b.value)
        rows.append(h)
    return (
        [x, w, r, b, Tensor(np.zeros((3, 6)), "F32", variable=True)],
        [Tensor(np.stack(rows, 0 if time_major else 1), "F32")],
        ("SequenceRNNOptions", {"timeMajor": time_major, "fusedActivationFunction": activation}),
    )


for text, code, f in (("TANH", 4, np.tanh), ("RELU", 1, lambda x: np.maximum(x, 0)), ("no activation", 0, lambda x: x)):
    for time_major in (False, True):
        variant(
            "UNIDIRECTIONAL_SEQUENCE_RNN",
            text + (", time first" if time_major else ""),
            lambda c=code, f=f, t=time_major: rnn(c, f, t),
        )


# ---- Non-maximum suppression ------------------------------------------------------------------------------------------


def overlap(a, b):
    (ya, xa, yb, xb), (yc, xc, yd, xd) = (
        [min(v[0], v[2]), min(v[1], v[3]), max(v[0], v[2]), max(v[1], v[3])] for v in (a, b)
    )
    inner = max(0.0, min(yb, yd) - max(ya, yc)) * max(0.0, min(xb, xd) - max(xa, xc))
    union = (yb - ya) * (xb - xa) + (yd - yc) * (xd - xc) - inner
    return inner / union if union > 0 else 0.0


def suppression(op, limit=6, flipped=False, threshold=0.3, fixed_limit=True, equal=False):
    corner, size = numbers("F32", (12, 2), lo=0, hi=3, seed="c"), numbers("F32", (12, 2), lo=1, hi=3, seed="s")
    boxes = np.concatenate([corner, corner + size], 1)
    if flipped:
        boxes[::2] = boxes[::2][:, [2, 3, 0, 1]]
    scores = np.full(12, 0.5, np.float32) if equal else numbers("F32", (12,), lo=0, hi=1, seed="score")
    kept = []
    for i in np.argsort(-scores, kind="stable"):
        if scores[i] > threshold and len(kept) < limit and all(overlap(boxes[i], boxes[j]) <= 0.4 for j in kept):
            kept.append(int(i))
    places = Tensor(kept + [0] * (limit - len(kept)), "I32")
    operands = [
        Tensor(boxes, "F32"),
        Tensor(scores, "F32"),
        index(limit, fixed=fixed_limit),
        Tensor(0.4, "F32", True),
        Tensor(threshold, "F32", True),
    ]
    if op == "NON_MAX_SUPPRESSION_V4":
        return operands, [places, Tensor(len(kept), "I32")], ("NonMaxSuppressionV4Options", {})
    picked = Tensor([*scores[kept], *[0] * (limit - len(kept))], "F32")
    return (
        operands + [Tensor(0.0, "F32", True)],
        [places, picked, Tensor(len(kept), "I32")],
        ("NonMaxSuppressionV5Options", {}),
    )


for name in ("NON_MAX_SUPPRESSION_V4", "NON_MAX_SUPPRESSION_V5"):
    for text, how in {
        "fewer boxes than the limit, rest 0": dict(limit=9),
        "limit reached": dict(limit=2),
        "corners in either order": dict(flipped=True),
        "limit at run time": dict(fixed_limit=False),
        "equal scores: the lower index first": dict(equal=True),
        "no box above the threshold": dict(threshold=2.0),
    }.items():
        variant(name, text, lambda h=how, n=name: suppression(n, **h))
