# SPDX-License-Identifier: Apache-2.0
"""Cases of the operators that reorder, reshape, join and part tensors.

Every type that a kernel copies, every rank; shape and axis operands of each type, as constants and at run time.
"""

import itertools

import numpy as np

from .case import at_least, case, data, grid, index, index_forms, shape_of, variant
from .one_op import Tensor


def reversed_axes(rank):
    return list(range(rank))[::-1]


def transpose(dtype, perm, index_dtype="I32", fixed=True):
    x = data(dtype, shape_of(len(perm)), "big")
    return [x, index(perm, index_dtype, fixed)], [Tensor(x.value.transpose(perm), dtype)], ("TransposeOptions", {})


grid("TRANSPOSE", lambda d, r: transpose(d, reversed_axes(r)))
index_forms("TRANSPOSE", "perm", lambda d, f: transpose("F32", [2, 0, 3, 1], d, f))
for r in range(2, 9):
    for text, perm in (
        ("rotates left", list(range(1, r)) + [0]),
        ("rotates right", [r - 1] + list(range(r - 1))),
        ("swaps the last two", list(range(r - 2)) + [r - 1, r - 2]),
        ("evens, then odds", list(range(0, r, 2)) + list(range(1, r, 2))),
    ):
        variant("TRANSPOSE", f"rank {r} {text}", lambda p=perm: transpose("F32", p))


def every_transpose(rank):
    """All permutations of one rank would be many models; chained by reshapes they would test the reshapes. So: one case each."""
    for perm in itertools.permutations(range(rank)):
        case("TRANSPOSE", "permutations", (rank, perm), lambda p=perm: transpose("F32", list(p)))


for r in (2, 3, 4, 5):
    every_transpose(r)


def reshape(dtype, rank, index_dtype="I32", fixed=True, fill=False):
    x = data(dtype, shape_of(rank), "big")
    target = [x.value.size] if rank != 1 else [1, x.value.size, 1]
    wanted = [-1 if fill and n == x.value.size else n for n in target]
    return (
        [x, index(wanted, index_dtype, fixed)],
        [Tensor(x.value.reshape(target), dtype)],
        ("ReshapeOptions", {"newShape": wanted}),
    )


grid("RESHAPE", reshape)
index_forms("RESHAPE", "shape", lambda d, f: reshape("F32", 3, d, f))
variant("RESHAPE", "-1 in the shape", lambda: reshape("F32", 3, fill=True))
variant(
    "RESHAPE",
    "to rank 8",
    lambda: (lambda x: ([x, index(shape_of(8))], [Tensor(x.value.reshape(shape_of(8)), "F32")], None))(
        data("F32", (np.prod(shape_of(8)),))
    ),
)
variant(
    "RESHAPE",
    "to a scalar",
    lambda: (
        lambda x: (
            [x, index(np.zeros(0, np.int32))],
            [Tensor(x.value.reshape(()), "F32")],
            ("ReshapeOptions", {"newShape": []}),
        )
    )(data("F32", (1, 1))),
)
variant(
    "RESHAPE", "no elements [0,3] to [3,0]", lambda: ([data("F32", (0, 3)), index([3, 0])], [data("F32", (3, 0))], None)
)
variant(
    "RESHAPE",
    "no shape operand, newShape only",
    lambda: (lambda x: ([x], [Tensor(x.value.reshape(2, 3), "F32")], ("ReshapeOptions", {"newShape": [2, 3]})))(
        data("F32", (3, 2))
    ),
)


def squeeze(dtype, rank):
    at_least(rank, 1)
    shape = shape_of(rank - 1)
    x = data(dtype, shape + (1,), "big")
    return [x], [Tensor(x.value.reshape(shape), dtype)], ("SqueezeOptions", {"squeezeDims": [rank - 1]})


grid("SQUEEZE", squeeze)
variant(
    "SQUEEZE",
    "axis -2",
    lambda: (lambda x: ([x], [Tensor(x.value[:, 0], "F32")], ("SqueezeOptions", {"squeezeDims": [-2]})))(
        data("F32", (3, 1, 2))
    ),
)
variant(
    "SQUEEZE",
    "no axes given",
    lambda: (lambda x: ([x], [Tensor(x.value.squeeze(), "F32")], ("SqueezeOptions", {"squeezeDims": []})))(
        data("F32", (1, 3, 1, 2))
    ),
)


def expand_dims(dtype, rank, index_dtype="I32", fixed=True, axis=None):
    x = data(dtype, shape_of(rank), "big")
    axis = rank // 2 if axis is None else axis
    return (
        [x, index([axis], index_dtype, fixed)],
        [Tensor(np.expand_dims(x.value, axis), dtype)],
        ("ExpandDimsOptions", {}),
    )


grid("EXPAND_DIMS", expand_dims)
index_forms("EXPAND_DIMS", "axis", lambda d, f: expand_dims("F32", 3, d, f))
variant("EXPAND_DIMS", "axis -1", lambda: expand_dims("F32", 3, axis=-1))


# ---- Join and part ------------------------------------------------------------------------------------------


def concatenation(dtype, rank, axis=None, count=3, activation=0, empty=False, fixed=False):
    at_least(rank, 1)
    axis = rank // 2 if axis is None else axis
    xs = []
    for i in range(count):
        shape = list(shape_of(rank))
        shape[axis] = 0 if empty and i == 1 else i + 1
        xs.append(data(dtype, shape, "big", seed=str(i), fixed=fixed and i == 1))
    joined = np.concatenate([x.value for x in xs], axis)
    return (
        xs,
        [Tensor(joined if not activation else np.maximum(joined, 0), dtype)],
        ("ConcatenationOptions", {"axis": axis, "fusedActivationFunction": activation}),
    )


grid("CONCATENATION", concatenation)
for a in (0, 1, 2, -1, -3):
    variant("CONCATENATION", f"axis {a}", lambda a=a: concatenation("F32", 3, a))
variant("CONCATENATION", "one input", lambda: concatenation("F32", 3, 1, 1))
variant("CONCATENATION", "70 inputs", lambda: concatenation("F32", 2, 1, 70))
variant("CONCATENATION", "one input is empty", lambda: concatenation("F32", 3, 1, empty=True))
variant("CONCATENATION", "one input is a constant", lambda: concatenation("F32", 3, 1, fixed=True))
variant("CONCATENATION", "fused RELU", lambda: concatenation("F32", 3, 1, activation=1))


def pack(dtype, rank, axis=None):
    axis = rank // 2 if axis is None else axis
    xs = [data(dtype, shape_of(rank), "big", seed=s) for s in "abc"]
    return xs, [Tensor(np.stack([x.value for x in xs], axis), dtype)], ("PackOptions", {"valuesCount": 3, "axis": axis})


def unpack(dtype, rank, axis=None):
    at_least(rank, 1)
    axis = rank // 2 if axis is None else axis
    x = data(dtype, shape_of(rank), "big")
    parts = [Tensor(np.take(x.value, i, axis), dtype) for i in range(x.value.shape[axis])]
    return [x], parts, ("UnpackOptions", {"num": len(parts), "axis": axis})


grid("PACK", pack)
grid("UNPACK", unpack)
for a in (0, -1):
    variant("PACK", f"axis {a}", lambda a=a: pack("F32", 3, a))
    variant("UNPACK", f"axis {a}", lambda a=a: unpack("F32", 3, a))


def split(dtype, rank, index_dtype="I32", fixed=True, axis=None):
    at_least(rank, 1)
    axis = rank // 2 if axis is None else axis
    shape = list(shape_of(rank))
    shape[axis] = 6
    x = data(dtype, shape, "big")
    parts = [Tensor(p, dtype) for p in np.split(x.value, 3, axis)]
    return [index(axis, index_dtype, fixed), x], parts, ("SplitOptions", {"numSplits": 3})


def split_v(dtype, rank, index_dtype="I32", fixed=True, axis=None, sizes=(1, 3, 2), stored=None):
    at_least(rank, 1)
    axis = rank // 2 if axis is None else axis
    shape = list(shape_of(rank))
    shape[axis] = sum(sizes)
    x = data(dtype, shape, "big")
    parts = [Tensor(p, dtype) for p in np.split(x.value, np.cumsum(sizes)[:-1], axis)]
    return (
        [x, index(stored or sizes, index_dtype, fixed), index(axis, "I32", True)],
        parts,
        ("SplitVOptions", {"numSplits": len(sizes)}),
    )


grid("SPLIT", split)
index_forms("SPLIT", "axis", lambda d, f: split("F32", 3, d, f))
variant("SPLIT", "axis -1", lambda: split("F32", 3, axis=-1))
grid("SPLIT_V", split_v)
index_forms("SPLIT_V", "sizes", lambda d, f: split_v("F32", 3, d, f))
variant("SPLIT_V", "axis -1", lambda: split_v("F32", 3, axis=-1))
variant("SPLIT_V", "size -1 (the rest)", lambda: split_v("F32", 3, stored=(1, -1, 2)))
variant("SPLIT_V", "size 0", lambda: split_v("F32", 3, sizes=(1, 0, 5)))
