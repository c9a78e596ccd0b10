# SPDX-License-Identifier: Apache-2.0
"""Products of a value with itself."""

import numpy as np

from tests.support.case import Case

# A TRANSPOSE's result times itself: XNNPACK transposes both operands as it wants the right one (plain/squares.cc). The
# extents are equal, because the numbers are wrong then and nothing fails.
CASES = [
    Case(
        "plain/square_of_heads", "float[2,5,5,3] x", "t = Transpose<perm=[0,3,1,2]>(x) y = MatMul(t, t)", tolerance=1e-5
    ),
    Case(
        "plain/square_of_three_axes",
        "float[3,2,3] x",
        'y = Einsum<equation="ibj,jbk->bik">(x, x)',
        tolerance=1e-5,
    ),
    Case("plain/square_of_five_axes", "float[2,2,3,5,3] x", "t = Transpose<perm=[0,1,3,2,4]>(x) y = MatMul(t, t)"),
    Case("plain/square_of_images", "float[1,3,6,6] x", "c = Conv(x, w) y = MatMul(c, c)", {"w": (4, 3, 1, 1)}),
    Case(
        "plain/square_of_open_extents",
        "float[N,H,M,3] x",
        "t = Transpose<perm=[0,2,1,3]>(x) y = MatMul(t, t)",
        shapes={"x": (2, 3, 5, 3)},
    ),
    Case(
        "plain/square_of_equal_transposes",
        "float[2,5,5,3] x",
        "t = Transpose<perm=[0,3,1,2]>(x) u = Transpose<perm=[0,3,1,2]>(x) y = MatMul(t, u)",
    ),
    Case(
        "plain/square_that_is_squared",
        "float[2,5,5,3] x",
        "t = Transpose<perm=[0,3,1,2]>(x) m = MatMul(t, t) y = MatMul(m, m)",
    ),
    Case(
        "plain/squares_of_one_transpose",
        "float[2,5,5,3] x",
        "t = Transpose<perm=[0,3,1,2]>(x) m = MatMul(t, t) y = MatMul(m, t)",
    ),
    Case(
        "plain/square_of_integers",
        "float[1,3,8,3] x",
        "q = QuantizeLinear(x, s, z) d = DequantizeLinear(q, s, z) t = Transpose<perm=[0,2,1,3]>(d) "
        "u = QuantizeLinear(t, s, z) v = DequantizeLinear(u, s, z) m = MatMul(v, v) "
        "n = QuantizeLinear(m, r, z) y = DequantizeLinear(n, r, z)",
        {"s": np.float32(0.01), "r": np.float32(0.03), "z": np.int8(0)},
        steps=1,
    ),
    Case(
        "plain/square_in_a_branch",
        "float[3,8,3] x, bool c",
        "y = If (c) <then_branch = b () => (float[8,3,3] p) { t = Transpose<perm=[1,0,2]>(x) p = MatMul(t, t) }, "
        "else_branch = e () => (float[8,3,3] q) { u = Transpose<perm=[1,0,2]>(x) q = Add(u, u) }>",
        feeds={"x": np.arange(72, dtype=np.float32).reshape(3, 8, 3) / 72, "c": np.array(True)},
    ),
]
