# SPDX-License-Identifier: Apache-2.0
"""What a case is, and the numbers that cases are made of."""

import dataclasses
import math
import zlib
from collections.abc import Callable

import numpy as np

from .one_op import DTYPES, FLOATS, Tensor

ALL = ("F32", "F16", "BF16", "F64", "I4", "I8", "U8", "I16", "U16", "I32", "U32", "I64", "U64", "BOOL")
RANKS = range(9)
FIRST = RANKS[1:]
INDEX_FORMS = [(d, fixed) for d in ("I32", "I64", "I16", "U32") for fixed in (True, False)]
SIZES = (3, 2, 5, 4, 6, 7, 2, 3)


class NotDefined(Exception):
    """The operation has no meaning for the type or rank that a grid asks for."""


@dataclasses.dataclass
class Case:
    """One model to run. `group` says which table of the results it belongs to, `key` where in it."""

    op: str
    group: str
    key: tuple
    make: Callable  # () -> (inputs, outputs, options)


CASES = []


def case(op, group, key, make):
    CASES.append(Case(op, group, key if isinstance(key, tuple) else (key,), make))


def variant(op, text, make):
    """A form of an operator that a table of types and ranks does not show."""
    case(op, "variant", text, make)


def grid(op, make, dtypes=ALL, ranks=RANKS):
    """One case for each type and rank; `make(dtype, rank)`."""
    for dtype in dtypes:
        for rank in ranks:
            case(op, "grid", (dtype, rank), lambda d=dtype, r=rank: make(d, r))


def at_least(rank, minimum):
    if rank < minimum:
        raise NotDefined


def index_forms(op, name, make):
    """`make(index dtype, constant?)`: which types an index operand may have, as a constant and as a run-time value."""
    for dtype, fixed in INDEX_FORMS:
        case(op, "index", (name, dtype, "constant" if fixed else "at run time"), lambda d=dtype, f=fixed: make(d, f))


def shape_of(rank):
    return SIZES[:rank]


def axes_of(rank):
    """Axes worth trying as 'the' axis of an operator: the first, a middle one, and the last counted from the end."""
    return sorted({0, rank // 2, -1}) if rank else []


def signed(dtype):
    return dtype[0] in "FBI" and dtype != "BOOL"


def numbers(dtype, shape, span="small", lo=-4.0, hi=4.0, seed=""):
    """Random numbers, the same in every run.

    Floats lie in [lo, hi]. Integers: `small` within [-10, 10], `mid` below the root of the type's range, so that
    products fit, `big` in half of the range, so that a kernel that computes in a narrower type is found out.
    """
    rng = np.random.default_rng(zlib.crc32(f"{dtype}{shape}{span}{seed}".encode()))
    wide = DTYPES[dtype][2]
    if dtype == "BOOL":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype == "C64":
        return (rng.uniform(lo, hi, shape) + 1j * rng.uniform(lo, hi, shape)).astype(wide)
    if dtype in FLOATS:
        values = np.asarray(rng.uniform(lo, hi, shape))
        return values.astype(DTYPES[dtype][1]).astype(wide)
    bits = 4 if dtype == "I4" else np.iinfo(wide).bits
    limit = {"small": min(10, 2 ** (bits - 2) - 1), "mid": math.isqrt(2 ** (bits - 2)) - 1, "big": 2 ** (bits - 2) - 1}[
        span
    ]
    if not signed(dtype):
        limit *= 2
    return rng.integers(
        -limit if signed(dtype) else 0,
        limit,
        shape,
        endpoint=True,
        dtype=np.int64 if bits < 64 or signed(dtype) else np.uint64,
    ).astype(wide)


def data(dtype, shape, span="small", lo=-4.0, hi=4.0, seed="", fixed=False):
    return Tensor(numbers(dtype, tuple(shape), span, lo, hi, seed), dtype, fixed)


def index(values, dtype="I32", fixed=True):
    return Tensor(np.asarray(values), dtype, fixed)
