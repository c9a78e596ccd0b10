# SPDX-License-Identifier: Apache-2.0
"""Hard swish as exporters write it, and near misses: what becomes HARD_SWISH, and what must not."""

import numpy as np

from tests.support.case import Case

N = {
    "three": np.float32(3),
    "two": np.float32(2),
    "six": np.float32(6),
    "zero": np.float32(0),
    "sixth": np.float32(1 / 6),
    "half": np.float32(0.5),
    "one": np.float32(1),
}
FORMS = {
    "clip_div_mul": "a = Add(x, three) c = Clip(a, zero, six) d = Div(c, six) y = Mul(x, d)",
    "clip_mul_div": "a = Add(three, x) c = Clip(a, zero, six) m = Mul(c, x) y = Div(m, six)",
    "clip_mul_sixth": "a = Add(x, three) c = Clip(a, zero, six) m = Mul(x, c) y = Mul(m, sixth)",
    "hard_sigmoid": "h = HardSigmoid<alpha=0.16666667, beta=0.5>(x) y = Mul(x, h)",
    "hard_sigmoid_default": "h = HardSigmoid(x) y = Mul(x, h)",
    "written_out": "p = Mul(x, sixth) a = Add(p, half) c = Clip(a, zero, one) y = Mul(c, x)",
    "other_offset": "a = Add(x, two) c = Clip(a, zero, six) d = Div(c, six) y = Mul(x, d)",
    "other_factor": "t = Tanh(x) a = Add(x, three) c = Clip(a, zero, six) d = Div(c, six) y = Mul(t, d)",
    "used_twice": "a = Add(x, three) c = Clip(a, zero, six) d = Div(c, six) m = Mul(x, d) y = Add(m, d)",
}
CASES = [
    Case(
        f"hard_swish/{name}",
        "float[2,3,4,5] x",
        body,
        {k: v for k, v in N.items() if k in body.replace(",", " ").replace("(", " ").replace(")", " ").split()},
        ranges={"x": (-6, 6)},
    )
    for name, body in FORMS.items()
]
