# SPDX-License-Identifier: Apache-2.0
"""Cases of matrix products."""

import itertools

from .case import NotDefined, at_least, case, data, grid, shape_of, variant
from .convolutions import ACTIVATIONS, CLAMPS, SUMS, wide
from .one_op import Tensor


def fully_connected(
    dtype="F32",
    shape=(3, 5),
    out=4,
    bias=True,
    keep=False,
    fixed=True,
    activation=0,
    weight_dtype=None,
    flatten=None,
    bias_shape=None,
):
    if dtype == "BOOL":
        raise NotDefined
    depth = flatten or shape[-1]
    x, w = data(dtype, shape), data(weight_dtype or dtype, (out, depth), seed="w", fixed=fixed)
    rows = wide(x).reshape(-1, depth)
    y = rows @ wide(w).T
    operands = [x, w]
    if bias:
        b = data("F32" if weight_dtype else dtype, bias_shape or (out,), seed="b", fixed=fixed)
        operands.append(b)
        y = y + wide(b).reshape(-1)
    else:
        operands.append(None)
    y = y.reshape(shape[:-1] + (out,)) if keep else y
    return (
        operands,
        [Tensor(CLAMPS[activation](y), dtype, tolerance=SUMS.get(dtype))],
        ("FullyConnectedOptions", {"keepNumDims": keep, "fusedActivationFunction": activation}),
    )


def fully_connected_grid(dtype, rank):
    at_least(rank, 1)
    return fully_connected(dtype, shape_of(rank), keep=True)


grid("FULLY_CONNECTED", fully_connected_grid)
for text, how in {
    "matrix without keepNumDims": {},
    "rank 4 without keepNumDims": dict(shape=(3, 2, 5, 4)),
    "rank 1 without keepNumDims": dict(shape=(5,)),
    "flattens [2,3,4] to rows of 12": dict(shape=(2, 3, 4), flatten=12),
    "no bias": dict(bias=False),
    "weights and bias at run time": dict(fixed=False),
    "no rows": dict(shape=(0, 5)),
    "one output": dict(out=1),
    "one row": dict(shape=(1, 5)),
    "F16 weights": dict(weight_dtype="F16"),
    "bias of shape [1,4]": dict(bias_shape=(1, 4)),
}.items():
    variant("FULLY_CONNECTED", text, lambda h=how: fully_connected(**h))
for code, name in ACTIVATIONS.items():
    variant("FULLY_CONNECTED", f"fused {name}", lambda c=code: fully_connected(activation=c))


def batch_matmul(dtype="F32", batch_a=(), batch_b=(), m=3, k=5, n=4, adj_x=False, adj_y=False, fixed=False, out=None):
    if dtype == "BOOL":
        raise NotDefined
    a, b = (
        data(dtype, batch_a + ((k, m) if adj_x else (m, k)), seed="a"),
        data(dtype, batch_b + ((n, k) if adj_y else (k, n)), seed="b", fixed=fixed),
    )
    y = (wide(a).swapaxes(-1, -2) if adj_x else wide(a)) @ (wide(b).swapaxes(-1, -2) if adj_y else wide(b))
    return [a, b], [Tensor(y, out or dtype)], ("BatchMatMulOptions", {"adjX": adj_x, "adjY": adj_y})


def batch_matmul_grid(dtype, rank):
    at_least(rank, 2)
    return batch_matmul(dtype, shape_of(rank - 2), shape_of(rank - 2))


grid("BATCH_MATMUL", batch_matmul_grid)
for rank in range(2, 9):
    full = shape_of(rank - 2)
    even, odd = (
        tuple(n if i % 2 else 1 for i, n in enumerate(full)),
        tuple(1 if i % 2 else n for i, n in enumerate(full)),
    )
    for text, a, b in (
        ("two-way", even, odd),
        ("matrix right", full, ()),
        ("matrix left", (), full),
        ("last batch axis", full, full[-1:]),
        ("ones right", full, (1,) * len(full)),
    ):
        for dtype in ("F32", "I32", "I16", "I8", "F16", "BF16"):
            case("BATCH_MATMUL", "broadcast", (dtype, rank, text), lambda d=dtype, a=a, b=b: batch_matmul(d, a, b))
for x, y in itertools.product((False, True), repeat=2):
    for fixed in (False, True):
        for batches in ((), (2,), (2, 3)):
            variant(
                "BATCH_MATMUL",
                f"adjX {x}, adjY {y}, batch {list(batches)}" + (", right is constant" if fixed else ""),
                lambda x=x, y=y, f=fixed, q=batches: batch_matmul("F32", q, q, adj_x=x, adj_y=y, fixed=f),
            )
    variant(
        "BATCH_MATMUL",
        f"adjX {x}, adjY {y}, batch [2,1] with [1,3]",
        lambda x=x, y=y: batch_matmul("F32", (2, 1), (1, 3), adj_x=x, adj_y=y),
    )
variant(
    "BATCH_MATMUL",
    "vector right",
    lambda: ([data("F32", (3, 5)), data("F32", (5,))], [data("F32", (3,))], ("BatchMatMulOptions", {})),
)
variant("BATCH_MATMUL", "one row, one column", lambda: batch_matmul(m=1, n=1))
variant("BATCH_MATMUL", "I8 to I32", lambda: batch_matmul("I8", (2,), (2,), out="I32"))
variant("BATCH_MATMUL", "no rows", lambda: batch_matmul(m=0))
variant("BATCH_MATMUL", "depth 0", lambda: batch_matmul(k=0))
variant("BATCH_MATMUL", "batch 0", lambda: batch_matmul(batch_a=(0,), batch_b=(0,)))
