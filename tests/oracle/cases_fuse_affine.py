# SPDX-License-Identifier: Apache-2.0
"""Scales, shifts and biases that go into the weights of a layer behind or before them, and near misses that must not."""

import numpy as np

from tests.support.case import Case, f32

SUMS = [
    Case(
        f"fuse/sum_bias_{name}",
        "float[2,3,5,7] x, float[2,6,5,7] z",
        f"a = Conv(x, v) c = Conv(z, w) s = Add(a, c) t = {add} y = Relu(t)",
        {"v": (4, 3, 1, 1), "w": (4, 6, 1, 1), "t0": (4, 1, 1)},
        outputs=outputs,
    )
    for name, add, outputs in (
        ("added", "Add(s, t0)", "y"),
        ("subtracted", "Sub(s, t0)", "y"),
        ("first", "Sub(t0, s)", "y"),
        ("seen", "Add(s, t0)", "y, s"),
    )
]

AFFINE = [
    Case(
        "fuse/affine_one_factor",
        "float[3,5] x",
        "m = Mul(x, s) y = Gemm(m, w, b)",
        {"s": f32(0.3), "w": (5, 4), "b": (4,)},
    ),
    Case("fuse/affine_one_shift", "float[3,5] x", "m = Sub(x, s) y = MatMul(m, w)", {"s": f32(0.3), "w": (5, 4)}),
    Case(
        "fuse/affine_quotient_of_difference",
        "float[3,5] x",
        "m = Sub(x, t) n = Div(m, s) y = Gemm(n, w, b)",
        {"t": (5,), "s": f32(0.3, -2, 1.5, 4, 0.7), "w": (5, 4), "b": (4,)},
    ),
    Case("fuse/affine_constant_first", "float[3,5] x", "m = Sub(t, x) y = MatMul(m, w)", {"t": (5,), "w": (5, 4)}),
    # The network's input, in ONNX's axis order.
    *(
        Case(
            f"fuse/affine_image_{name}",
            "float[2,3,5,7] x",
            f"m = Sub(x, t) n = Div(m, s) y = Conv{attributes}(n, w, b)",
            {"t": (3, 1, 1), "s": f32(0.3, -2, 1.5).reshape(3, 1, 1), "w": (4, 3, 2, 3), "b": (4,)},
        )
        for name, attributes in (("plain", ""), ("padded", "<pads=[0,1,1,1]>"))
    ),
    Case(
        "fuse/affine_image_columns",
        "float[2,3,5,7] x",
        "m = Mul(x, s) y = Conv(m, w)",
        {"s": (7,), "w": (4, 3, 2, 3)},
    ),
    # The digits of x + t are lost in W x + W t.
    Case(
        "fuse/affine_large_shift",
        "float[3,5] x",
        "a = Add(x, t) y = MatMul(a, w)",
        {"t": np.full(5, -1000.05, np.float32), "w": (5, 4)},
        ranges={"x": (1000, 1000.1)},
    ),
]

CASES = SUMS + AFFINE
