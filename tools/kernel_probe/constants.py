# SPDX-License-Identifier: Apache-2.0
"""Cases of the operators that make values from shapes and numbers, ask for shapes, and change types."""

import numpy as np

from .case import ALL, RANKS, NotDefined, at_least, case, data, grid, index, index_forms, shape_of, variant
from .one_op import DTYPES, FLOATS, Tensor


def one_hot(dtype, rank, index_dtype="I32", fixed=False, axis=-1, bad=False):
    at = index(np.random.default_rng(rank).integers(0, 5, shape_of(rank)), index_dtype, fixed)
    if bad:
        at.value.ravel()[:2] = -1, 7
    on, off = data(dtype, (), "big", seed="on", fixed=True), data(dtype, (), "big", seed="off", fixed=True)
    if dtype == "BOOL":
        on.value, off.value = np.array(True), np.array(False)
    y = np.where(
        np.expand_dims(at.value, axis) == np.arange(5).reshape((5,) + (1,) * (rank - axis if axis >= 0 else 0)),
        on.value,
        off.value,
    )
    return [at, index(5), on, off], [Tensor(y, dtype)], ("OneHotOptions", {"axis": axis})


grid("ONE_HOT", one_hot, ranks=range(8))
index_forms("ONE_HOT", "indices", lambda d, f: one_hot("F32", 2, d, f))
variant("ONE_HOT", "axis 0", lambda: one_hot("F32", 2, axis=0))
variant("ONE_HOT", "axis 1", lambda: one_hot("F32", 2, axis=1))
variant("ONE_HOT", "indices out of range give off everywhere", lambda: one_hot("F32", 2, bad=True))


def range_(dtype, rank, fixed=True):
    if dtype == "BOOL":
        raise NotDefined
    start, limit, delta = (
        Tensor(v, dtype, fixed) for v in (2, 7, 1.5 if dtype in ("F32", "F16", "BF16", "F64") else 2)
    )
    return (
        [start, limit, delta],
        [Tensor(np.arange(start.value, limit.value, delta.value), dtype)],
        ("RangeOptions", {}),
    )


grid("RANGE", range_, ranks=(0,))
variant("RANGE", "at run time, I32", lambda: range_("I32", 0, False))
variant("RANGE", "at run time, I64", lambda: range_("I64", 0, False))
variant(
    "RANGE",
    "downwards",
    lambda: ([Tensor(v, "I32", True) for v in (7, 1, -2)], [Tensor([7, 5, 3], "I32")], ("RangeOptions", {})),
)
variant(
    "RANGE",
    "empty",
    lambda: ([Tensor(v, "I32", True) for v in (7, 1, 2)], [Tensor(np.zeros(0), "I32")], ("RangeOptions", {})),
)


def fill(dtype, rank, index_dtype="I32", fixed=True):
    value = data(dtype, (), "big")
    return (
        [index(np.array(shape_of(rank), int), index_dtype, fixed), value],
        [Tensor(np.full(shape_of(rank), value.value), dtype)],
        ("FillOptions", {}),
    )


grid("FILL", fill)
index_forms("FILL", "dims", lambda d, f: fill("F32", 3, d, f))
variant("FILL", "no elements", lambda: ([index([0, 3]), data("F32", ())], [data("F32", (0, 3))], ("FillOptions", {})))
for out, code in (("I32", 2), ("I64", 4)):
    for r in RANKS:
        variant(
            "SHAPE",
            f"to {out}, rank {r}",
            lambda o=out, c=code, r=r: (
                [data("F32", shape_of(r))],
                [Tensor(np.array(shape_of(r), int), o)],
                ("ShapeOptions", {"outType": c}),
            ),
        )
grid(
    "SHAPE",
    lambda d, r: (
        [data(d, shape_of(r))],
        [Tensor(np.array(shape_of(r), int), "I32")],
        ("ShapeOptions", {"outType": 2}),
    ),
)
grid("RANK", lambda d, r: ([data(d, shape_of(r))], [Tensor(r, "I32")], ("RankOptions", {})))


def where(dtype, rank):
    at_least(rank, 1)
    x = data(dtype, shape_of(rank))
    return [x], [Tensor(np.argwhere(x.value), "I64")], ("WhereOptions", {})


grid("WHERE", where)
variant("WHERE", "rank 0", lambda: ([Tensor(True, "BOOL")], [Tensor(np.zeros((1, 0)), "I64")], ("WhereOptions", {})))
variant(
    "WHERE",
    "nothing true",
    lambda: ([Tensor([False, False], "BOOL")], [Tensor(np.zeros((0, 1)), "I64")], ("WhereOptions", {})),
)


# ---- Types ------------------------------------------------------------------------------------------
for source in ALL:
    for target in ALL:

        def cast(source=source, target=target):
            x = data(source, (3, 5), "small", lo=0.0 if target[0] == "U" or target == "BOOL" else -7.5, hi=7.5)
            if target[0] == "U" or (target == "I4"):
                x.value = np.abs(x.value) % 8 if x.value.dtype != bool else x.value
            y = x.value.astype(bool) if target == "BOOL" else x.value
            if source in FLOATS and target not in FLOATS and target != "BOOL":
                y = np.trunc(y).astype(np.int64)
            return [x], [Tensor(y, target)], None

        case("CAST", "cast", (source, target), cast)
TWINS = {
    "F32": "I32",
    "F16": "I16",
    "BF16": "I16",
    "F64": "I64",
    "I8": "U8",
    "U8": "I8",
    "I16": "U16",
    "U16": "I16",
    "I32": "F32",
    "U32": "I32",
    "I64": "F64",
    "U64": "I64",
}


def bitcast(source, target, shape):
    x = data(source, shape, "big")
    stored = x.value.astype(DTYPES[source][1]).reshape(shape or (1,)).view(DTYPES[target][1])
    return (
        [x],
        [
            Tensor(
                stored.reshape(shape if stored.size == x.value.size else shape + (stored.size // x.value.size,)), target
            )
        ],
        ("BitcastOptions", {}),
    )


def bitcast_grid(dtype, rank):
    if dtype not in TWINS:
        raise NotDefined
    return bitcast(dtype, TWINS[dtype], shape_of(rank))


grid("BITCAST", bitcast_grid)
for source, target in (("I64", "I32"), ("F32", "U8"), ("F64", "U32"), ("I16", "I8")):
    variant("BITCAST", f"{source} to {target}, one axis more", lambda s=source, t=target: bitcast(s, t, (3, 4)))
