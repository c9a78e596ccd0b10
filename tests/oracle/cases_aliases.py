# SPDX-License-Identifier: Apache-2.0
"""Values that are read again behind a RESHAPE whose result is written over: LiteRT's memory planner gets these wrong."""

from tests.support.case import Case, i64

W = {"s1": i64(6, 4), "s2": i64(6, 1, 4), "k": (6, 1), "q": (4,)}
HEAD = "t = Tanh(x) a = Mul(t, q) b = Reshape(a, s1) "
FORMS = {
    "read_later": HEAD + "c = Add(b, k) d = Mul(c, c) y = Tanh(a)",
    "two_reshapes": HEAD + "e = Reshape(b, s2) c = Sub(e, q) d = Mul(c, c) y = Tanh(a)",
    "two_readers": HEAD + "c = Add(b, k) d = Mul(c, c) e = Sub(a, q) y = Mul(e, a)",
    "softmax": HEAD + "c = Softmax<axis=1>(b) d = Mul(c, c) y = Tanh(a)",
    "reshaped_later": HEAD + "c = Add(b, k) d = Mul(c, c) y = Reshape(a, s2)",
}
CASES = [
    Case(
        f"aliases/{name}",
        "float[2,3,4] x",
        body,
        {
            key: value
            for key, value in W.items()
            if key in body.replace("(", " ").replace(")", " ").replace(",", " ").split()
        },
        outputs="y, d",
    )
    for name, body in FORMS.items()
]
