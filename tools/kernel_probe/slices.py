# SPDX-License-Identifier: Apache-2.0
"""Cases of slices, pads and repeats."""

import numpy as np

from .case import FIRST, at_least, case, data, grid, index, index_forms, shape_of, variant
from .one_op import Tensor


def slice_(dtype, rank, index_dtype="I32", fixed=True, rest=False, empty=False):
    at_least(rank, 1)
    x = data(dtype, shape_of(rank), "big")
    begin = [i % 2 for i in range(rank)]
    size = [n - b if i % 3 else max(1, n - b - 1) for i, (n, b) in enumerate(zip(x.value.shape, begin))]
    if empty:
        size[0] = 0
    y = x.value[tuple(slice(b, b + s) for b, s in zip(begin, size))]
    stored = [-1 if rest and i == rank - 1 else s for i, s in enumerate(size)]
    return (
        [x, index(begin, index_dtype, fixed), index(stored, index_dtype, fixed)],
        [Tensor(y, dtype)],
        ("SliceOptions", {}),
    )


grid("SLICE", slice_)
index_forms("SLICE", "begin and size", lambda d, f: slice_("F32", 3, d, f))
variant("SLICE", "size -1 (the rest)", lambda: slice_("F32", 3, rest=True))
variant("SLICE", "size 0", lambda: slice_("F32", 3, empty=True))


def strided(dtype, shape, begin, end, stride, index_dtype="I32", fixed=True, want=None, **masks):
    x = data(dtype, shape, "big")
    if want is None:
        want = tuple(
            slice(None if masks.get("beginMask", 0) >> i & 1 else b, None if masks.get("endMask", 0) >> i & 1 else e, s)
            for i, (b, e, s) in enumerate(zip(begin, end, stride))
        )
    operands = [index(v, index_dtype, fixed) for v in (begin, end, stride)]
    return [x] + operands, [Tensor(x.value[want], dtype)], ("StridedSliceOptions", masks)


def strided_grid(dtype, rank, sign=1, index_dtype="I32", fixed=True):
    at_least(rank, 1)
    shape = shape_of(rank)
    if sign > 0:
        return strided(
            dtype,
            shape,
            [i % 2 for i in range(rank)],
            list(shape),
            [1 + (i + 1) % 2 for i in range(rank)],
            index_dtype,
            fixed,
        )
    return strided(
        dtype,
        shape,
        [-1] * rank,
        [0] * rank,
        [-1 - i % 2 for i in range(rank)],
        index_dtype,
        fixed,
        endMask=2**rank - 1,
    )


grid("STRIDED_SLICE", strided_grid)
index_forms("STRIDED_SLICE", "begin, end, strides", lambda d, f: strided_grid("F32", 3, 1, d, f))
for r in FIRST:
    variant("STRIDED_SLICE", f"rank {r}, negative strides with endMask", lambda r=r: strided_grid("F32", r, -1))
N = None
for text, make in {
    "begin and end past the ends are clamped": lambda: strided("F32", (3, 5), [-9, -9], [9, 9], [1, 1]),
    "negative begin and end": lambda: strided("F32", (3, 5), [-3, -4], [-1, -1], [1, 2]),
    "empty result": lambda: strided("F32", (3, 5), [2, 0], [1, 5], [1, 1]),
    "beginMask": lambda: strided("F32", (3, 5), [1, 2], [3, 4], [1, 1], beginMask=2),
    "negative stride down to 0 by end -n-1": lambda: strided(
        "F32", (3, 5), [2, 4], [-4, -6], [-1, -1], want=(slice(N, N, -1), slice(N, N, -1))
    ),
    "fewer indices than the rank": lambda: strided("F32", (3, 5, 4), [1], [3], [1]),
    "shrinkAxisMask": lambda: strided(
        "F32", (3, 5, 4), [0, 2, 0], [3, 3, 4], [1, 1, 2], want=(slice(N), 2, slice(0, 4, 2)), shrinkAxisMask=2
    ),
    "shrinkAxisMask at a negative index": lambda: strided(
        "F32", (3, 5), [0, -2], [3, -1], [1, 1], want=(slice(N), -2), shrinkAxisMask=2
    ),
    "shrinkAxisMask to a scalar": lambda: strided("F32", (3, 5), [1, 2], [2, 3], [1, 1], want=(1, 2), shrinkAxisMask=3),
    "newAxisMask": lambda: strided(
        "F32", (3, 5), [0, 0, 1], [3, 1, 4], [1, 1, 1], want=(slice(N), N, slice(1, 4)), newAxisMask=2
    ),
    "ellipsisMask": lambda: strided(
        "F32", (3, 5, 4), [1, 0, 1], [3, 0, 3], [1, 1, 1], want=(slice(1, 3), ..., slice(1, 3)), ellipsisMask=2
    ),
    "offset (end counts from begin)": lambda: strided(
        "F32", (6, 5), [1, 2], [3, 2], [1, 1], want=(slice(1, 4), slice(2, 4)), offset=True
    ),
}.items():
    variant("STRIDED_SLICE", text, make)


def dynamic_update_slice(dtype, rank, index_dtype="I32", fixed=True, start=None):
    at_least(rank, 1)
    x = data(dtype, shape_of(rank), "big")
    update = data(dtype, [max(1, n - 1) for n in shape_of(rank)], "big", seed="u")
    begin = start or [i % 2 for i in range(rank)]
    y = x.value.copy()
    clamped = [min(max(b, 0), n - u) for b, n, u in zip(begin, x.value.shape, update.value.shape)]
    y[tuple(slice(b, b + n) for b, n in zip(clamped, update.value.shape))] = update.value
    return [x, update, index(begin, index_dtype, fixed)], [Tensor(y, dtype)], ("DynamicUpdateSliceOptions", {})


grid("DYNAMIC_UPDATE_SLICE", dynamic_update_slice)
index_forms("DYNAMIC_UPDATE_SLICE", "start", lambda d, f: dynamic_update_slice("F32", 3, d, f))
variant(
    "DYNAMIC_UPDATE_SLICE", "a start past the end is clamped", lambda: dynamic_update_slice("F32", 3, start=[9, -3, 2])
)


# ---- Pads and repeats ------------------------------------------------------------------------------------------


def pads(rank):
    return [[i % 2 + 1, (i + 1) % 3] for i in range(rank)]


def pad(op, dtype, rank, index_dtype="I32", fixed=True, widths=None):
    x = data(dtype, shape_of(rank) if rank < 7 else (2,) * rank, "big")
    widths = np.zeros((0, 2), int) if rank == 0 else np.array(widths or pads(rank))
    operands = [x, index(widths, index_dtype, fixed)]
    kind = {"PAD": "PadOptions", "PADV2": "PadV2Options"}.get(op, "MirrorPadOptions")
    if op == "PADV2":
        fill = data(dtype, (), "big", seed="v", fixed=True)
        y = np.pad(x.value, widths, constant_values=fill.value) if rank else x.value
        return operands + [fill], [Tensor(y, dtype)], (kind, {})
    return operands, [Tensor(np.pad(x.value, widths) if rank else x.value, dtype)], (kind, {})


def mirror_pad(dtype, rank, mode, index_dtype="I32", fixed=True):
    at_least(rank, 1)
    x = data(dtype, [n + 1 for n in shape_of(rank)] if rank < 7 else (3,) * rank, "big")
    widths = np.array(pads(rank))
    y = np.pad(x.value, widths, mode=("reflect", "symmetric")[mode])
    return [x, index(widths, index_dtype, fixed)], [Tensor(y, dtype)], ("MirrorPadOptions", {"mode": mode})


for name in ("PAD", "PADV2"):
    grid(name, lambda d, r, n=name: pad(n, d, r))
    index_forms(name, "paddings", lambda d, f, n=name: pad(n, "F32", 4, d, f))
    variant(
        name,
        "negative paddings (crops)",
        lambda n=name: (
            lambda x: (
                [x, index([[-1, 0], [0, -2]])] + ([Tensor(0.0, "F32", True)] if n == "PADV2" else []),
                [Tensor(x.value[1:, :-2], "F32")],
                (("PadOptions", {}) if n == "PAD" else ("PadV2Options", {})),
            )
        )(data("F32", (3, 5))),
    )
grid("MIRROR_PAD", lambda d, r: mirror_pad(d, r, 0))
for r in FIRST:
    variant("MIRROR_PAD", f"symmetric, rank {r}", lambda r=r: mirror_pad("F32", r, 1))
index_forms("MIRROR_PAD", "paddings", lambda d, f: mirror_pad("F32", 3, 0, d, f))


def tile(dtype, rank, index_dtype="I32", fixed=True, zero=False):
    x = data(dtype, shape_of(rank) if rank < 7 else (2,) * rank, "big")
    times = [0 if zero and i == 1 else 1 + i % 3 if i < 5 else 1 + i % 2 for i in range(rank)]
    return (
        [x, index(np.array(times, int), index_dtype, fixed)],
        [Tensor(np.tile(x.value, times), dtype)],
        ("TileOptions", {}),
    )


grid("TILE", tile)
index_forms("TILE", "multiples", lambda d, f: tile("F32", 3, d, f))
variant("TILE", "0 times", lambda: tile("F32", 3, zero=True))


def broadcast_to(dtype, rank, index_dtype="I32", fixed=True, source=None):
    full = shape_of(rank)
    x = data(dtype, tuple(n if i % 2 else 1 for i, n in enumerate(full)) if source is None else source, "big")
    return (
        [x, index(np.array(full, int), index_dtype, fixed)],
        [Tensor(np.broadcast_to(x.value, full), dtype)],
        ("BroadcastToOptions", {}),
    )


grid("BROADCAST_TO", broadcast_to)
index_forms("BROADCAST_TO", "shape", lambda d, f: broadcast_to("F32", 3, d, f))
for r in FIRST:
    variant("BROADCAST_TO", f"scalar to rank {r}", lambda r=r: broadcast_to("F32", r, source=()))
    variant("BROADCAST_TO", f"last axis to rank {r}", lambda r=r: broadcast_to("F32", r, source=shape_of(r)[-1:]))
for d in ("I32", "I64"):
    case(
        "BROADCAST_ARGS",
        "index",
        ("shapes", d, "constant"),
        lambda d=d: ([index([3, 1], d), index([2, 1, 5], d)], [Tensor([2, 3, 5], d)], None),
    )
    case(
        "BROADCAST_ARGS",
        "index",
        ("shapes", d, "at run time"),
        lambda d=d: ([index([3, 1], d, False), index([2, 1, 5], d, False)], [Tensor([2, 3, 5], d)], None),
    )
