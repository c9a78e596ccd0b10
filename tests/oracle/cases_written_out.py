# SPDX-License-Identifier: Apache-2.0
"""Activations that exporters write out: in half precision, without a factor that a tool moved, PReLU as a sum; and near
misses. And flattens of images behind which other ops than the layer stand.
"""

import numpy as np

from tests.support.case import Case

CASES = []
X = "[1,4,3,5]"
RANGES = {"x": (-4, 4)}

# Constants that are rounded to halves.
ROUNDED = {
    "gelu_div": (
        "d = Div(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h)",
        {"r": 2**0.5, "o": 1, "h": 0.5},
    ),
    "gelu_mul": (
        "d = Mul(x, r) e = Erf(d) a = Add(e, o) m = Mul(x, a) y = Mul(m, h)",
        {"r": 0.5**0.5, "o": 1, "h": 0.5},
    ),
    "gelu_tanh": (
        "p = Mul(x, x) q = Mul(p, x) c = Mul(q, k) s = Add(x, c) d = Mul(s, r) e = Tanh(d) a = Add(e, o) m = Mul(x, h) "
        "y = Mul(m, a)",
        {"k": 0.044715, "r": (2 / np.pi) ** 0.5, "o": 1, "h": 0.5},
    ),
    "hard_swish": (
        "a = Add(x, t) c = Clip(a, z, s) m = Mul(c, q) y = Mul(m, x)",
        {"t": 3, "z": 0, "s": 6, "q": 1 / 6},
    ),
    "hard_swish_of_attribute": ("h = HardSigmoid<alpha=0.16662598, beta=0.5>(x) y = Mul(h, x)", {}),
}
for name, (body, numbers) in ROUNDED.items():
    weights = {k: np.float16(v) for k, v in numbers.items()}
    CASES.append(
        Case(
            f"written_out/{name}_f16",
            f"float16{X} x",
            body,
            weights,
            ranges=RANGES,
            outputs=f"float16{X} y",
            tolerance=1e-3,
        )
    )
# In a model of floats such a number means itself.
CASES.append(
    Case(
        "written_out/hard_swish_near_f32",
        f"float{X} x",
        ROUNDED["hard_swish"][0],
        {k: np.float32(np.float16(v)) for k, v in ROUNDED["hard_swish"][1].items()},
        ranges=RANGES,
    )
)
