# SPDX-License-Identifier: Apache-2.0
"""Cases of resizing, of blocks moved between space, depth and batch, and of windows."""

import numpy as np

from .case import NotDefined, at_least, data, grid, index, index_forms, shape_of, variant
from .convolutions import SUMS, wide
from .one_op import FLOATS, Tensor


def source_positions(n_in, n_out, align, half):
    scale = (n_in - 1) / (n_out - 1) if align and n_out > 1 else n_in / n_out
    at = np.arange(n_out)
    return np.float32(at + 0.5) * np.float32(scale) - np.float32(0.5) if half else np.float32(at) * np.float32(scale)


def bilinear_axis(x, axis, n_out, align, half):
    at = source_positions(x.shape[axis], n_out, align, half).astype(np.float64)
    low = np.floor(at)
    high = np.clip(low + 1, 0, x.shape[axis] - 1).astype(int)
    weight = at - low
    low = np.clip(low, 0, x.shape[axis] - 1).astype(int)
    w = weight.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return np.take(x, low, axis) * (1 - w) + np.take(x, high, axis) * w


def nearest_index(n_in, n_out, align, half):
    scale = np.float32((n_in - 1) / (n_out - 1)) if align and n_out > 1 else np.float32(n_in) / np.float32(n_out)
    at = (np.arange(n_out, dtype=np.float32) + np.float32(0.5 if half else 0.0)) * scale
    picked = np.floor(at + np.float32(0.5)) if align else np.floor(at)  # align: halves go up
    return np.clip(picked, 0, n_in - 1).astype(int)


def resize(op, dtype="F32", shape=(2, 5, 7, 3), size=(8, 12), align=False, half=False, size_dtype="I32", fixed=True):
    if dtype == "BOOL" and op == "RESIZE_BILINEAR":
        raise NotDefined
    x = data(dtype, shape)
    if op == "RESIZE_BILINEAR":
        y = bilinear_axis(bilinear_axis(wide(x), 1, size[0], align, half), 2, size[1], align, half)
        kind = "ResizeBilinearOptions"
    else:
        y = x.value[:, nearest_index(shape[1], size[0], align, half)][
            :, :, nearest_index(shape[2], size[1], align, half)
        ]
        kind = "ResizeNearestNeighborOptions"
    return (
        [x, index(size, size_dtype, fixed)],
        [Tensor(y, dtype, tolerance=SUMS.get(dtype))],
        (kind, {"alignCorners": align, "halfPixelCenters": half}),
    )


for name in ("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"):
    grid(name, lambda d, r, n=name: resize(n, d), ranks=(4,))
    index_forms(name, "size", lambda d, f, n=name: resize(n, size_dtype=d, fixed=f))
    for text, shape, size in (
        ("5x7 to 8x12", (2, 5, 7, 3), (8, 12)),
        ("twice", (2, 5, 7, 3), (10, 14)),
        ("three times", (1, 5, 7, 3), (15, 21)),
        ("half", (1, 8, 12, 3), (4, 6)),
        ("down 9x11 to 4x3", (1, 9, 11, 3), (4, 3)),
        ("to 1x1", (1, 5, 7, 3), (1, 1)),
        ("from 1x1", (1, 1, 1, 3), (4, 5)),
        ("same size", (1, 5, 7, 3), (5, 7)),
        ("37x53 to 101x211", (1, 37, 53, 2), (101, 211)),
    ):
        for align, half in ((False, False), (True, False), (False, True), (True, True)):
            variant(
                name,
                f"{text}" + ", alignCorners" * align + ", halfPixelCenters" * half,
                lambda n=name, s=shape, z=size, a=align, h=half: resize(n, "F32", s, z, a, h),
            )


def space_to_depth(dtype, rank, block=2):
    if rank != 4:
        raise NotDefined
    x = data(dtype, (2, 4, 6, 3), "big")
    n, h, w, c = x.value.shape
    y = (
        x.value.reshape(n, h // block, block, w // block, block, c)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(n, h // block, w // block, block * block * c)
    )
    return [x], [Tensor(y, dtype)], ("SpaceToDepthOptions", {"blockSize": block})


def depth_to_space(dtype, rank, block=2):
    if rank != 4:
        raise NotDefined
    x = data(dtype, (2, 3, 5, 4 * block * block), "big")
    n, h, w, c = x.value.shape
    y = (
        x.value.reshape(n, h, w, block, block, c // block // block)
        .transpose(0, 1, 3, 2, 4, 5)
        .reshape(n, h * block, w * block, c // block // block)
    )
    return [x], [Tensor(y, dtype)], ("DepthToSpaceOptions", {"blockSize": block})


grid("SPACE_TO_DEPTH", space_to_depth, ranks=(4,))
grid("DEPTH_TO_SPACE", depth_to_space, ranks=(4,))
variant("DEPTH_TO_SPACE", "block 3", lambda: depth_to_space("F32", 4, 3))
variant("DEPTH_TO_SPACE", "block 1", lambda: depth_to_space("F32", 4, 1))


def space_to_batch(dtype, rank, index_dtype="I32", fixed=True):
    """Rank 3 has one spatial axis, rank 4 two; deeper ones are asked for as well."""
    at_least(rank, 3)
    spatial = rank - 2
    sizes, blocks = (4, 6, 2, 4, 2, 2)[:spatial], (2, 3, 2, 2, 1, 1)[:spatial]
    pads = [
        [
            i % 2,
            (
                blocks[i] - i % 2
                if (blocks[i] - i % 2) % blocks[i] == 0
                else (blocks[i] - (sizes[i] + i % 2) % blocks[i]) % blocks[i]
            ),
        ]
        for i in range(spatial)
    ]
    x = data(dtype, (3,) + sizes + (5,), "big")
    v = np.pad(x.value, [(0, 0)] + pads + [(0, 0)])
    shape = [3] + [q for n, b in zip(v.shape[1:-1], blocks) for q in (n // b, b)] + [5]
    perm = [2 * i + 2 for i in range(spatial)] + [0] + [2 * i + 1 for i in range(spatial)] + [2 * spatial + 1]
    y = (
        v.reshape(shape)
        .transpose(perm)
        .reshape((3 * int(np.prod(blocks)),) + tuple(n // b for n, b in zip(v.shape[1:-1], blocks)) + (5,))
    )
    return (
        [x, index(blocks, index_dtype, fixed), index(pads, index_dtype, fixed)],
        [Tensor(y, dtype)],
        ("SpaceToBatchNDOptions", {}),
    )


def batch_to_space(dtype, rank, index_dtype="I32", fixed=True):
    at_least(rank, 3)
    spatial = rank - 2
    sizes, blocks, crops = (
        (4, 3, 2, 2, 2, 2)[:spatial],
        (2, 3, 2, 2, 1, 1)[:spatial],
        [[0, 1], [1, 0], [0, 0], [0, 0], [0, 0], [0, 0]][:spatial],
    )
    n = int(np.prod(blocks))
    x = data(dtype, (2 * n,) + sizes + (5,), "big")
    v = x.value.reshape(tuple(blocks) + (2,) + sizes + (5,))
    perm = [spatial] + [q for i in range(spatial) for q in (spatial + 1 + i, i)] + [2 * spatial + 1]
    y = v.transpose(perm).reshape((2,) + tuple(s * b for s, b in zip(sizes, blocks)) + (5,))
    y = y[(slice(None),) + tuple(slice(a, y.shape[i + 1] - b) for i, (a, b) in enumerate(crops))]
    return (
        [x, index(blocks, index_dtype, fixed), index(crops, index_dtype, fixed)],
        [Tensor(y, dtype)],
        ("BatchToSpaceNDOptions", {}),
    )


grid("SPACE_TO_BATCH_ND", space_to_batch)
grid("BATCH_TO_SPACE_ND", batch_to_space)
index_forms("SPACE_TO_BATCH_ND", "block and paddings", lambda d, f: space_to_batch("F32", 4, d, f))
index_forms("BATCH_TO_SPACE_ND", "block and crops", lambda d, f: batch_to_space("F32", 4, d, f))


def reduce_window(dtype, rank, function=1):
    at_least(rank, 1)
    if dtype == "BOOL" and function < 5 or dtype != "BOOL" and function >= 5:
        raise NotDefined
    x = data(dtype, tuple(n + 2 for n in shape_of(rank)) if rank < 5 else (3,) * rank)
    window = [1 + i % 2 for i in range(rank)]
    strides, dilations = [1 + (i + 1) % 2 for i in range(rank)], [1 + i % 3 % 2 for i in range(rank)]
    reduce = {1: np.sum, 2: np.prod, 3: np.min, 4: np.max, 5: np.all, 6: np.any}[function]
    start = {1: 0, 2: 1, 3: 100, 4: 0 if dtype[0] == "U" else -100, 5: True, 6: False}[function]
    if dtype == "I4":
        start = {3: 7, 4: -8}.get(function, start)
    v = np.lib.stride_tricks.sliding_window_view(x.value, [(w - 1) * d + 1 for w, d in zip(window, dilations)])
    v = v[tuple(slice(None, None, s) for s in strides) + tuple(slice(None, None, d) for d in dilations)]
    y = reduce(
        v.astype(np.float64) if dtype in FLOATS else v,
        axis=tuple(range(rank, 2 * rank)),
        **({"dtype": x.value.dtype} if function < 3 and dtype not in FLOATS else {}),
    )
    operands = [x, Tensor(start, dtype, True)] + [index(v, "I64") for v in (window, strides, dilations)]
    return operands, [Tensor(y, dtype)], ("ReduceWindowOptions", {"reduceFunction": function})


grid("REDUCE_WINDOW", reduce_window)
for code, name in ((2, "MUL"), (3, "MINIMUM"), (4, "MAXIMUM")):
    for rank in (1, 3, 5):
        variant("REDUCE_WINDOW", f"{name}, rank {rank}", lambda c=code, r=rank: reduce_window("F32", r, c))
for code, name in ((5, "ALL"), (6, "ANY")):
    variant("REDUCE_WINDOW", f"{name} of BOOL", lambda c=code: reduce_window("BOOL", 3, c))
