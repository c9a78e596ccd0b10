# SPDX-License-Identifier: Apache-2.0
"""Cases of gather and scatter, of reversed order, and of the operators that place values: one-hot, diagonals, dilation."""

import numpy as np

from .case import FIRST, at_least, data, grid, index, index_forms, shape_of, variant
from .one_op import Tensor


def gather(dtype, rank, index_dtype="I32", fixed=True, axis=None, at=((1, 0), (2, 2)), batch=0):
    at_least(rank, 1)
    axis = rank // 2 if axis is None else axis
    shape = list(shape_of(rank))
    shape[axis] = 3
    x = data(dtype, shape, "big")
    return (
        [x, index(at, index_dtype, fixed)],
        [Tensor(np.take(x.value, np.array(at, int), axis), dtype)],
        ("GatherOptions", {"axis": axis, "batchDims": batch}),
    )


grid("GATHER", gather)
index_forms("GATHER", "indices", lambda d, f: gather("F32", 3, d, f))
for a in (0, 2, -1):
    variant("GATHER", f"axis {a}", lambda a=a: gather("F32", 3, axis=a))
variant("GATHER", "scalar index", lambda: gather("F32", 3, at=1))
variant("GATHER", "scalar index from a vector", lambda: gather("F32", 1, at=1))
variant("GATHER", "no indices", lambda: gather("F32", 3, at=np.zeros((0,), int)))
variant("GATHER", "negative index (must be refused or count from the end)", lambda: gather("F32", 3, at=(-1, 0)))
variant(
    "GATHER",
    "index past the end at run time (must be refused)",
    lambda: ([data("F32", (3, 2)), index([0, 7], "I32", False)], [data("F32", (2, 2))], ("GatherOptions", {"axis": 0})),
)
for axis, batch in ((1, 1), (2, 1), (2, 2)):

    def batched(axis=axis, batch=batch):
        x = data("F32", (3, 2, 5, 4), "big")
        at = np.random.default_rng(1).integers(0, x.value.shape[axis], (3, 2, 6)[:batch] + (6,))
        y = np.empty(x.value.shape[:axis] + (6,) + x.value.shape[axis + 1 :], np.float32)
        for b in np.ndindex(*x.value.shape[:batch]):
            y[b] = np.take(x.value[b], at[b], axis - batch)
        return [x, index(at)], [Tensor(y, "F32")], ("GatherOptions", {"axis": axis, "batchDims": batch})

    variant("GATHER", f"axis {axis}, batchDims {batch}", batched)


def gather_nd(dtype, rank, index_dtype="I32", fixed=True, depth=None, index_rank=2):
    at_least(rank, 1)
    depth = (rank + 1) // 2 if depth is None else depth
    x = data(dtype, shape_of(rank), "big")
    rng = np.random.default_rng(rank)
    at = np.stack([rng.integers(0, n, (4, 2, 3)[: index_rank - 1]) for n in x.value.shape[:depth]], -1)
    return (
        [x, index(at, index_dtype, fixed)],
        [Tensor(x.value[tuple(np.moveaxis(at, -1, 0))], dtype)],
        ("GatherNdOptions", {}),
    )


grid("GATHER_ND", gather_nd)
index_forms("GATHER_ND", "indices", lambda d, f: gather_nd("F32", 3, d, f))
for r in FIRST:
    variant("GATHER_ND", f"index as deep as rank {r}", lambda r=r: gather_nd("F32", r, depth=r))
for r in (1, 3, 4):
    variant("GATHER_ND", f"indices of rank {r}", lambda r=r: gather_nd("F32", 3, depth=2, index_rank=r))
variant(
    "GATHER_ND",
    "negative index (must be refused or count from the end)",
    lambda: (lambda x: ([x, index([[-1]])], [Tensor(x.value[[-1]], "F32")], ("GatherNdOptions", {})))(
        data("F32", (3, 2))
    ),
)


def scatter_nd(dtype, rank, index_dtype="I32", fixed=True, depth=None, twice=False):
    at_least(rank, 1)
    depth = (rank + 1) // 2 if depth is None else depth
    shape = shape_of(rank)
    count = int(np.prod(shape[:depth]))
    flat = np.random.default_rng(rank).permutation(count)[: max(1, count // 2)]
    if twice:
        flat[1] = flat[0]
    at = np.stack(np.unravel_index(flat, shape[:depth]), -1)
    update = data(dtype, (len(at),) + tuple(shape[depth:]), "small" if twice else "big")
    y = np.zeros(shape, update.value.dtype)
    np.add.at(y, tuple(at.T), update.value)
    return (
        [index(at, index_dtype, fixed), update, index(np.array(shape), index_dtype, True)],
        [Tensor(y, dtype)],
        ("ScatterNdOptions", {}),
    )


grid("SCATTER_ND", scatter_nd)
index_forms("SCATTER_ND", "indices and shape", lambda d, f: scatter_nd("F32", 3, d, f))
variant("SCATTER_ND", "an index twice adds up", lambda: scatter_nd("F32", 3, depth=2, twice=True))
for r in FIRST:
    variant("SCATTER_ND", f"index as deep as rank {r}", lambda r=r: scatter_nd("F32", r, depth=r))


# ---- Order ------------------------------------------------------------------------------------------


def reverse(dtype, rank, index_dtype="I32", fixed=True, axes=None):
    at_least(rank, 1)
    axes = [rank // 2] if axes is None else axes
    x = data(dtype, shape_of(rank), "big")
    return [x, index(axes, index_dtype, fixed)], [Tensor(np.flip(x.value, axes), dtype)], ("ReverseV2Options", {})


grid("REVERSE_V2", reverse)
index_forms("REVERSE_V2", "axes", lambda d, f: reverse("F32", 3, d, f))
for axes in ([0, 1], [0, 2], [0, 1, 2], [-1]):
    variant("REVERSE_V2", f"axes {axes} of rank 3", lambda a=axes: reverse("F32", 3, axes=a))


def reverse_sequence(dtype, rank, index_dtype="I32", fixed=True, seq=1, batch=0):
    at_least(rank, 2)
    x = data(dtype, (3, 4, 5, 2, 3, 2, 2, 2)[:rank], "big")
    n = x.value.shape
    lengths = [1 + (i * 2) % n[seq] for i in range(n[batch])]
    y = x.value.copy()
    for i, length in enumerate(lengths):
        part = np.moveaxis(y, (batch, seq), (0, 1))
        part[i, :length] = part[i, :length][::-1].copy()
    return (
        [x, index(lengths, index_dtype, fixed)],
        [Tensor(y, dtype)],
        ("ReverseSequenceOptions", {"seqDim": seq, "batchDim": batch}),
    )


grid("REVERSE_SEQUENCE", reverse_sequence)
index_forms("REVERSE_SEQUENCE", "lengths", lambda d, f: reverse_sequence("F32", 3, d, f))
variant("REVERSE_SEQUENCE", "seqDim 0, batchDim 1", lambda: reverse_sequence("F32", 3, seq=0, batch=1))


def matrix_diag(dtype, rank):
    at_least(rank, 1)
    x = data(dtype, shape_of(rank), "big")
    return (
        [x],
        [Tensor(np.eye(x.value.shape[-1], dtype=x.value.dtype) * x.value[..., None], dtype)],
        ("MatrixDiagOptions", {}),
    )


def matrix_set_diag(dtype, rank):
    at_least(rank, 2)
    x = data(dtype, shape_of(rank), "big")
    n = min(x.value.shape[-2:])
    diagonal = data(dtype, x.value.shape[:-2] + (n,), "big", seed="d")
    y = x.value.copy()
    y[..., range(n), range(n)] = diagonal.value
    return [x, diagonal], [Tensor(y, dtype)], ("MatrixSetDiagOptions", {})


grid("MATRIX_DIAG", matrix_diag, ranks=range(8))
grid("MATRIX_SET_DIAG", matrix_set_diag)


def sparse_to_dense(dtype, rank, index_dtype="I32", fixed=True):
    at_least(rank, 1)
    at = np.stack(np.unravel_index(np.arange(0, int(np.prod(shape_of(rank))), 2), shape_of(rank)), -1)
    values, default = data(dtype, (len(at),), "big"), data(dtype, (), "big", seed="d", fixed=True)
    y = np.full(shape_of(rank), default.value)
    y[tuple(at.T)] = values.value
    return (
        [index(at, index_dtype, fixed), index(np.array(shape_of(rank)), index_dtype, True), values, default],
        [Tensor(y, dtype)],
        ("SparseToDenseOptions", {"validateIndices": False}),
    )


grid("SPARSE_TO_DENSE", sparse_to_dense)
index_forms("SPARSE_TO_DENSE", "indices and shape", lambda d, f: sparse_to_dense("F32", 3, d, f))


def dilate(dtype, rank):
    at_least(rank, 1)
    x = data(dtype, shape_of(rank) if rank < 5 else (2,) * rank, "big")
    steps = [1 + i % 3 for i in range(rank)]
    pad_value = data(dtype, (), "big", seed="p", fixed=True)
    y = np.full([(n - 1) * s + 1 for n, s in zip(x.value.shape, steps)], pad_value.value)
    y[tuple(slice(None, None, s) for s in steps)] = x.value
    return [x, index(steps), pad_value], [Tensor(y, dtype)], ("DilateOptions", {})


grid("DILATE", dilate)


def embedding_lookup(dtype, rank, index_dtype="I32"):
    at_least(rank, 2)
    x = data(dtype, shape_of(rank), "big")
    return [index([2, 0, 1, 2], index_dtype, False), x], [Tensor(x.value[[2, 0, 1, 2]], dtype)], None


grid("EMBEDDING_LOOKUP", embedding_lookup)
