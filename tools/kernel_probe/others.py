# SPDX-License-Identifier: Apache-2.0
"""Cases of StableHLO's gather and pad, of Fourier transforms, and of NaN and infinity."""

import numpy as np

from .case import at_least, data, grid, index, shape_of, variant
from .elementwise import sigmoid
from .one_op import Tensor

# ---- StableHLO ------------------------------------------------------------------------------------------


def stablehlo_pad(dtype, rank, low=1, high=2, interior=0):
    at_least(rank, 1)
    x, fill = (
        data(dtype, shape_of(rank) if rank < 6 else (2,) * rank, "big"),
        data(dtype, (), "big", seed="f", fixed=True),
    )
    spaced = np.full([n + (n - 1) * interior for n in x.value.shape], fill.value)
    spaced[(slice(None, None, interior + 1),) * rank] = x.value
    y = np.pad(spaced, [(max(low, 0), max(high, 0))] * rank, constant_values=fill.value)
    y = y[(slice(max(-low, 0), -max(-high, 0) or None),) * rank]
    return (
        [x, fill],
        [Tensor(y, dtype)],
        (
            "StablehloPadOptions",
            {"edgePaddingLow": [low] * rank, "edgePaddingHigh": [high] * rank, "interiorPadding": [interior] * rank},
        ),
    )


grid("STABLEHLO_PAD", stablehlo_pad)
variant("STABLEHLO_PAD", "negative at the end (crops)", lambda: stablehlo_pad("F32", 2, 0, -1))
variant("STABLEHLO_PAD", "negative at the start (crops)", lambda: stablehlo_pad("F32", 2, -1, 1))
variant("STABLEHLO_PAD", "interior 2", lambda: stablehlo_pad("F32", 2, 1, 1, 2))


def stablehlo_gather(dtype, rank, index_dtype="I32"):
    """Whole rows of axis 0 by a list of indices."""
    at_least(rank, 1)
    x, at = data(dtype, shape_of(rank), "big"), [2, 0, 2, 1]
    return (
        [x, Tensor(np.array(at)[:, None], index_dtype)],
        [Tensor(x.value[at], dtype)],
        (
            "StablehloGatherOptions",
            {
                "offsetDims": list(range(1, rank)),
                "collapsedSliceDims": [0],
                "startIndexMap": [0],
                "indexVectorDim": 1,
                "sliceSizes": [1, *x.value.shape[1:]],
            },
        ),
    )


grid("STABLEHLO_GATHER", stablehlo_gather)
variant("STABLEHLO_GATHER", "I64 indices", lambda: stablehlo_gather("F32", 2, "I64"))


# ---- Fourier ------------------------------------------------------------------------------------------


def rfft2d(shape, lengths):
    x = data("F32", shape)
    return [x, index(lengths)], [Tensor(np.fft.rfft2(x.value, lengths), "C64")], ("Rfft2dOptions", {})


for shape, lengths in (
    ((4, 8), (4, 8)),
    ((3, 4, 8), (4, 8)),
    ((2, 3, 4, 8), (4, 8)),
    ((1, 16), (1, 16)),
    ((4, 6), (4, 6)),
    ((3, 5), (4, 8)),
    ((8, 16), (4, 8)),
):
    variant("RFFT2D", f"{list(shape)} with lengths {list(lengths)}", lambda s=shape, n=lengths: rfft2d(s, n))


def of_complex(function, rank):
    x = data("C64", shape_of(rank))
    return [x], [Tensor(function(x.value), "F32")], None


for name, f in (("REAL", np.real), ("IMAG", np.imag), ("COMPLEX_ABS", np.abs)):
    grid(name, lambda d, r, f=f: of_complex(f, r), dtypes=("C64",))


def rfft2d_grid(dtype, rank):
    at_least(rank, 2)
    return rfft2d(shape_of(rank - 2) + (4, 8), (4, 8))


grid("RFFT2D", rfft2d_grid, dtypes=("F32",))

# ---- NaN and infinity: what numpy does ------------------------------------------------------------------------------------------
ODD = np.array([np.nan, 1, np.nan, -np.inf, np.inf, 2, -0.0], np.float32)
EVEN = np.array([1, np.nan, np.nan, 3, np.nan, np.inf, 0.0], np.float32)


def two(function, out="F32"):
    with np.errstate(all="ignore"):
        return [Tensor(ODD, "F32"), Tensor(EVEN, "F32")], [Tensor(function(ODD, EVEN), out)], None


for op, f, out in (
    ("MAXIMUM", np.maximum, "F32"),
    ("MINIMUM", np.minimum, "F32"),
    ("EQUAL", np.equal, "BOOL"),
    ("NOT_EQUAL", np.not_equal, "BOOL"),
    ("LESS", np.less, "BOOL"),
    ("GREATER_EQUAL", np.greater_equal, "BOOL"),
    ("ADD", np.add, "F32"),
    ("MUL", np.multiply, "F32"),
    ("DIV", np.divide, "F32"),
):
    variant(op, "NaN and infinities on either side, as numpy", lambda f=f, o=out: two(f, o))
for op, f in (
    ("RELU", lambda x: np.maximum(x, 0)),
    ("RELU6", lambda x: np.clip(x, 0, 6)),
    ("ABS", np.abs),
    ("SIGN", np.sign),
    ("FLOOR", np.floor),
    ("ROUND", np.round),
    ("EXP", np.exp),
    ("TANH", np.tanh),
    ("LOGISTIC", sigmoid),
    ("SQRT", np.sqrt),
    ("LOG", np.log),
):

    def one(f=f):
        with np.errstate(all="ignore"):
            return [Tensor(ODD, "F32")], [Tensor(f(ODD), "F32")], None

    variant(op, "NaN and infinities, as numpy", one)
for op, f in (("REDUCE_MAX", np.max), ("REDUCE_MIN", np.min), ("SUM", np.sum)):
    variant(
        op,
        "NaN in a row, as numpy",
        lambda f=f: (lambda x: ([Tensor(x, "F32"), index([1])], [Tensor(f(x, 1), "F32")], ("ReducerOptions", {})))(
            np.array([[1, np.nan, 2], [np.nan, 1, 2], [1, 2, np.nan], [1, 2, 3]], np.float32)
        ),
    )
for value, text in ((3e9, "3e9"), (-3e9, "-3e9"), (np.nan, "NaN"), (np.inf, "infinity")):
    if np.isfinite(value):
        variant(
            "CAST",
            f"F32 {text} to I32 saturates",
            lambda v=value: ([Tensor([v, 1], "F32")], [Tensor([np.clip(v, -(2**31), 2**31 - 1), 1], "I32")], None),
        )
    variant(
        "CAST",
        f"F32 {text} to BOOL is true",
        lambda v=value: ([Tensor([v, 0], "F32")], [Tensor([True, False], "BOOL")], None),
    )
variant(
    "CAST", "I64 2^32 + 5 to I32 keeps the low bits", lambda: ([Tensor([2**32 + 5], "I64")], [Tensor([5], "I32")], None)
)
variant(
    "CAST", "I32 300 to U8 keeps the low bits", lambda: ([Tensor([300, -1], "I32")], [Tensor([44, 255], "U8")], None)
)
variant(
    "CAST", "F32 0.5 to BOOL is true", lambda: ([Tensor([0.5, -0.0], "F32")], [Tensor([True, False], "BOOL")], None)
)
for kind, zero in (("DIV", "DivOptions"), ("FLOOR_DIV", "FloorDivOptions"), ("FLOOR_MOD", "FloorModOptions")):
    variant(
        kind,
        "I32 by 0 (any result, no crash)",
        lambda z=zero: (
            [Tensor([4, 5], "I32"), Tensor([2, 0], "I32")],
            [Tensor([0, 0], "I32", tolerance=1e10)],
            (z, {}),
        ),
    )
