"""Cases of the operators that move, choose, join or repeat elements: every type that a kernel copies, every rank,
both index types, constants and run-time values for the indices."""

import itertools

import numpy as np

from .case import ALL, RANKS, NotDefined, case, data, grid, index, shape_of, variant
from .one_op import DTYPES, FLOATS, Tensor

INDEX_FORMS = [(d, fixed) for d in ("I32", "I64", "I16", "U32") for fixed in (True, False)]
FIRST = RANKS[1:]


def at_least(rank, minimum):
    if rank < minimum:
        raise NotDefined


def index_forms(op, name, make):
    """`make(index dtype, constant?)`: which types an index operand may have, as a constant and as a run-time value."""
    for dtype, fixed in INDEX_FORMS:
        case(op, "index", (name, dtype, "constant" if fixed else "at run time"), lambda d=dtype, f=fixed: make(d, f))


def reversed_axes(rank):
    return list(range(rank))[::-1]


def transpose(dtype, perm, index_dtype="I32", fixed=True):
    x = data(dtype, shape_of(len(perm)), "big")
    return [x, index(perm, index_dtype, fixed)], [Tensor(x.value.transpose(perm), dtype)], ("TransposeOptions", {})


grid("TRANSPOSE", lambda d, r: transpose(d, reversed_axes(r)))
index_forms("TRANSPOSE", "perm", lambda d, f: transpose("F32", [2, 0, 3, 1], d, f))
for r in range(2, 9):
    for text, perm in (("rotates left", list(range(1, r)) + [0]), ("rotates right", [r - 1] + list(range(r - 1))),
                       ("swaps the last two", list(range(r - 2)) + [r - 1, r - 2]), ("evens, then odds", list(range(0, r, 2)) + list(range(1, r, 2)))):
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
    return ([x, index(wanted, index_dtype, fixed)], [Tensor(x.value.reshape(target), dtype)], ("ReshapeOptions", {"newShape": wanted}))


grid("RESHAPE", reshape)
index_forms("RESHAPE", "shape", lambda d, f: reshape("F32", 3, d, f))
variant("RESHAPE", "-1 in the shape", lambda: reshape("F32", 3, fill=True))
variant("RESHAPE", "to rank 8", lambda: (lambda x: ([x, index(shape_of(8))], [Tensor(x.value.reshape(shape_of(8)), "F32")], None))(
    data("F32", (np.prod(shape_of(8)),))))
variant("RESHAPE", "to a scalar", lambda: (lambda x: ([x, index(np.zeros(0, np.int32))], [Tensor(x.value.reshape(()), "F32")],
                                                       ("ReshapeOptions", {"newShape": []})))(data("F32", (1, 1))))
variant("RESHAPE", "no elements [0,3] to [3,0]", lambda: ([data("F32", (0, 3)), index([3, 0])], [data("F32", (3, 0))], None))
variant("RESHAPE", "no shape operand, newShape only", lambda: (lambda x: ([x], [Tensor(x.value.reshape(2, 3), "F32")],
                                                                            ("ReshapeOptions", {"newShape": [2, 3]})))(data("F32", (3, 2))))


def squeeze(dtype, rank):
    at_least(rank, 1)
    shape = shape_of(rank - 1)
    x = data(dtype, shape + (1,), "big")
    return [x], [Tensor(x.value.reshape(shape), dtype)], ("SqueezeOptions", {"squeezeDims": [rank - 1]})


grid("SQUEEZE", squeeze)
variant("SQUEEZE", "axis -2", lambda: (lambda x: ([x], [Tensor(x.value[:, 0], "F32")], ("SqueezeOptions", {"squeezeDims": [-2]})))(data("F32", (3, 1, 2))))
variant("SQUEEZE", "no axes given", lambda: (lambda x: ([x], [Tensor(x.value.squeeze(), "F32")], ("SqueezeOptions", {"squeezeDims": []})))(data("F32", (1, 3, 1, 2))))


def expand_dims(dtype, rank, index_dtype="I32", fixed=True, axis=None):
    x = data(dtype, shape_of(rank), "big")
    axis = rank // 2 if axis is None else axis
    return [x, index([axis], index_dtype, fixed)], [Tensor(np.expand_dims(x.value, axis), dtype)], ("ExpandDimsOptions", {})


grid("EXPAND_DIMS", expand_dims)
index_forms("EXPAND_DIMS", "axis", lambda d, f: expand_dims("F32", 3, d, f))
variant("EXPAND_DIMS", "axis -1", lambda: expand_dims("F32", 3, axis=-1))

# ---- Join and part ----------------------------------------------------------------------------------------------


def concatenation(dtype, rank, axis=None, count=3, activation=0, empty=False, fixed=False):
    at_least(rank, 1)
    axis = rank // 2 if axis is None else axis
    xs = []
    for i in range(count):
        shape = list(shape_of(rank))
        shape[axis] = 0 if empty and i == 1 else i + 1
        xs.append(data(dtype, shape, "big", seed=str(i), fixed=fixed and i == 1))
    joined = np.concatenate([x.value for x in xs], axis)
    return xs, [Tensor(joined if not activation else np.maximum(joined, 0), dtype)], (
        "ConcatenationOptions", {"axis": axis, "fusedActivationFunction": activation})


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
    return ([x, index(stored or sizes, index_dtype, fixed), index(axis, "I32", True)], parts, ("SplitVOptions", {"numSplits": len(sizes)}))


grid("SPLIT", split)
index_forms("SPLIT", "axis", lambda d, f: split("F32", 3, d, f))
variant("SPLIT", "axis -1", lambda: split("F32", 3, axis=-1))
grid("SPLIT_V", split_v)
index_forms("SPLIT_V", "sizes", lambda d, f: split_v("F32", 3, d, f))
variant("SPLIT_V", "axis -1", lambda: split_v("F32", 3, axis=-1))
variant("SPLIT_V", "size -1 (the rest)", lambda: split_v("F32", 3, stored=(1, -1, 2)))
variant("SPLIT_V", "size 0", lambda: split_v("F32", 3, sizes=(1, 0, 5)))

# ---- Slices -----------------------------------------------------------------------------------------------------


def slice_(dtype, rank, index_dtype="I32", fixed=True, rest=False, empty=False):
    at_least(rank, 1)
    x = data(dtype, shape_of(rank), "big")
    begin = [i % 2 for i in range(rank)]
    size = [n - b if i % 3 else max(1, n - b - 1) for i, (n, b) in enumerate(zip(x.value.shape, begin))]
    if empty:
        size[0] = 0
    y = x.value[tuple(slice(b, b + s) for b, s in zip(begin, size))]
    stored = [-1 if rest and i == rank - 1 else s for i, s in enumerate(size)]
    return [x, index(begin, index_dtype, fixed), index(stored, index_dtype, fixed)], [Tensor(y, dtype)], ("SliceOptions", {})


grid("SLICE", slice_)
index_forms("SLICE", "begin and size", lambda d, f: slice_("F32", 3, d, f))
variant("SLICE", "size -1 (the rest)", lambda: slice_("F32", 3, rest=True))
variant("SLICE", "size 0", lambda: slice_("F32", 3, empty=True))


def strided(dtype, shape, begin, end, stride, index_dtype="I32", fixed=True, want=None, **masks):
    x = data(dtype, shape, "big")
    if want is None:
        want = tuple(slice(None if masks.get("beginMask", 0) >> i & 1 else b, None if masks.get("endMask", 0) >> i & 1 else e, s)
                     for i, (b, e, s) in enumerate(zip(begin, end, stride)))
    operands = [index(v, index_dtype, fixed) for v in (begin, end, stride)]
    return [x] + operands, [Tensor(x.value[want], dtype)], ("StridedSliceOptions", masks)


def strided_grid(dtype, rank, sign=1, index_dtype="I32", fixed=True):
    at_least(rank, 1)
    shape = shape_of(rank)
    if sign > 0:
        return strided(dtype, shape, [i % 2 for i in range(rank)], list(shape), [1 + (i + 1) % 2 for i in range(rank)], index_dtype, fixed)
    return strided(dtype, shape, [-1] * rank, [0] * rank, [-1 - i % 2 for i in range(rank)], index_dtype, fixed, endMask=2**rank - 1)


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
    "negative stride down to 0 by end -n-1": lambda: strided("F32", (3, 5), [2, 4], [-4, -6], [-1, -1], want=(slice(N, N, -1), slice(N, N, -1))),
    "fewer indices than the rank": lambda: strided("F32", (3, 5, 4), [1], [3], [1]),
    "shrinkAxisMask": lambda: strided("F32", (3, 5, 4), [0, 2, 0], [3, 3, 4], [1, 1, 2], want=(slice(N), 2, slice(0, 4, 2)), shrinkAxisMask=2),
    "shrinkAxisMask at a negative index": lambda: strided("F32", (3, 5), [0, -2], [3, -1], [1, 1], want=(slice(N), -2), shrinkAxisMask=2),
    "shrinkAxisMask to a scalar": lambda: strided("F32", (3, 5), [1, 2], [2, 3], [1, 1], want=(1, 2), shrinkAxisMask=3),
    "newAxisMask": lambda: strided("F32", (3, 5), [0, 0, 1], [3, 1, 4], [1, 1, 1], want=(slice(N), N, slice(1, 4)), newAxisMask=2),
    "ellipsisMask": lambda: strided("F32", (3, 5, 4), [1, 0, 1], [3, 0, 3], [1, 1, 1], want=(slice(1, 3), ..., slice(1, 3)), ellipsisMask=2),
    "offset (end counts from begin)": lambda: strided("F32", (6, 5), [1, 2], [3, 2], [1, 1], want=(slice(1, 4), slice(2, 4)), offset=True),
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
variant("DYNAMIC_UPDATE_SLICE", "a start past the end is clamped", lambda: dynamic_update_slice("F32", 3, start=[9, -3, 2]))

# ---- Pads and repeats -------------------------------------------------------------------------------------------


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
    variant(name, "negative paddings (crops)", lambda n=name: (lambda x: (
        [x, index([[-1, 0], [0, -2]])] + ([Tensor(0.0, "F32", True)] if n == "PADV2" else []), [Tensor(x.value[1:, :-2], "F32")],
        (("PadOptions", {}) if n == "PAD" else ("PadV2Options", {}))))(data("F32", (3, 5))))
grid("MIRROR_PAD", lambda d, r: mirror_pad(d, r, 0))
for r in FIRST:
    variant("MIRROR_PAD", f"symmetric, rank {r}", lambda r=r: mirror_pad("F32", r, 1))
index_forms("MIRROR_PAD", "paddings", lambda d, f: mirror_pad("F32", 3, 0, d, f))


def tile(dtype, rank, index_dtype="I32", fixed=True, zero=False):
    x = data(dtype, shape_of(rank) if rank < 7 else (2,) * rank, "big")
    times = [0 if zero and i == 1 else 1 + i % 3 if i < 5 else 1 + i % 2 for i in range(rank)]
    return [x, index(np.array(times, int), index_dtype, fixed)], [Tensor(np.tile(x.value, times), dtype)], ("TileOptions", {})


grid("TILE", tile)
index_forms("TILE", "multiples", lambda d, f: tile("F32", 3, d, f))
variant("TILE", "0 times", lambda: tile("F32", 3, zero=True))


def broadcast_to(dtype, rank, index_dtype="I32", fixed=True, source=None):
    full = shape_of(rank)
    x = data(dtype, tuple(n if i % 2 else 1 for i, n in enumerate(full)) if source is None else source, "big")
    return ([x, index(np.array(full, int), index_dtype, fixed)], [Tensor(np.broadcast_to(x.value, full), dtype)], ("BroadcastToOptions", {}))


grid("BROADCAST_TO", broadcast_to)
index_forms("BROADCAST_TO", "shape", lambda d, f: broadcast_to("F32", 3, d, f))
for r in FIRST:
    variant("BROADCAST_TO", f"scalar to rank {r}", lambda r=r: broadcast_to("F32", r, source=()))
    variant("BROADCAST_TO", f"last axis to rank {r}", lambda r=r: broadcast_to("F32", r, source=shape_of(r)[-1:]))
for d in ("I32", "I64"):
    case("BROADCAST_ARGS", "index", ("shapes", d, "constant"), lambda d=d: ([index([3, 1], d), index([2, 1, 5], d)], [Tensor([2, 3, 5], d)], None))
    case("BROADCAST_ARGS", "index", ("shapes", d, "at run time"), lambda d=d: (
        [index([3, 1], d, False), index([2, 1, 5], d, False)], [Tensor([2, 3, 5], d)], None))

# ---- Gather, scatter --------------------------------------------------------------------------------------------


def gather(dtype, rank, index_dtype="I32", fixed=True, axis=None, at=((1, 0), (2, 2)), batch=0):
    at_least(rank, 1)
    axis = rank // 2 if axis is None else axis
    shape = list(shape_of(rank))
    shape[axis] = 3
    x = data(dtype, shape, "big")
    return ([x, index(at, index_dtype, fixed)], [Tensor(np.take(x.value, np.array(at, int), axis), dtype)],
            ("GatherOptions", {"axis": axis, "batchDims": batch}))


grid("GATHER", gather)
index_forms("GATHER", "indices", lambda d, f: gather("F32", 3, d, f))
for a in (0, 2, -1):
    variant("GATHER", f"axis {a}", lambda a=a: gather("F32", 3, axis=a))
variant("GATHER", "scalar index", lambda: gather("F32", 3, at=1))
variant("GATHER", "scalar index from a vector", lambda: gather("F32", 1, at=1))
variant("GATHER", "no indices", lambda: gather("F32", 3, at=np.zeros((0,), int)))
variant("GATHER", "negative index (must be refused or count from the end)", lambda: gather("F32", 3, at=(-1, 0)))
variant("GATHER", "index past the end at run time (must be refused)",
        lambda: ([data("F32", (3, 2)), index([0, 7], "I32", False)], [data("F32", (2, 2))], ("GatherOptions", {"axis": 0})))
for axis, batch in ((1, 1), (2, 1), (2, 2)):
    def batched(axis=axis, batch=batch):
        x = data("F32", (3, 2, 5, 4), "big")
        at = np.random.default_rng(1).integers(0, x.value.shape[axis], (3, 2, 6)[:batch] + (6,))
        y = np.empty(x.value.shape[:axis] + (6,) + x.value.shape[axis + 1:], np.float32)
        for b in np.ndindex(*x.value.shape[:batch]):
            y[b] = np.take(x.value[b], at[b], axis - batch)
        return [x, index(at)], [Tensor(y, "F32")], ("GatherOptions", {"axis": axis, "batchDims": batch})
    variant("GATHER", f"axis {axis}, batchDims {batch}", batched)


def gather_nd(dtype, rank, index_dtype="I32", fixed=True, depth=None, index_rank=2):
    at_least(rank, 1)
    depth = (rank + 1) // 2 if depth is None else depth
    x = data(dtype, shape_of(rank), "big")
    rng = np.random.default_rng(rank)
    at = np.stack([rng.integers(0, n, (4, 2, 3)[:index_rank - 1]) for n in x.value.shape[:depth]], -1)
    return [x, index(at, index_dtype, fixed)], [Tensor(x.value[tuple(np.moveaxis(at, -1, 0))], dtype)], ("GatherNdOptions", {})


grid("GATHER_ND", gather_nd)
index_forms("GATHER_ND", "indices", lambda d, f: gather_nd("F32", 3, d, f))
for r in FIRST:
    variant("GATHER_ND", f"index as deep as rank {r}", lambda r=r: gather_nd("F32", r, depth=r))
for r in (1, 3, 4):
    variant("GATHER_ND", f"indices of rank {r}", lambda r=r: gather_nd("F32", 3, depth=2, index_rank=r))
variant("GATHER_ND", "negative index (must be refused or count from the end)", lambda: (lambda x: (
    [x, index([[-1]])], [Tensor(x.value[[-1]], "F32")], ("GatherNdOptions", {})))(data("F32", (3, 2))))


def scatter_nd(dtype, rank, index_dtype="I32", fixed=True, depth=None, twice=False):
    at_least(rank, 1)
    depth = (rank + 1) // 2 if depth is None else depth
    shape = shape_of(rank)
    count = int(np.prod(shape[:depth]))
    flat = np.random.default_rng(rank).permutation(count)[:max(1, count // 2)]
    if twice:
        flat[1] = flat[0]
    at = np.stack(np.unravel_index(flat, shape[:depth]), -1)
    update = data(dtype, (len(at),) + tuple(shape[depth:]), "small" if twice else "big")
    y = np.zeros(shape, update.value.dtype)
    np.add.at(y, tuple(at.T), update.value)
    return ([index(at, index_dtype, fixed), update, index(np.array(shape), index_dtype, True)], [Tensor(y, dtype)], ("ScatterNdOptions", {}))


grid("SCATTER_ND", scatter_nd)
index_forms("SCATTER_ND", "indices and shape", lambda d, f: scatter_nd("F32", 3, d, f))
variant("SCATTER_ND", "an index twice adds up", lambda: scatter_nd("F32", 3, depth=2, twice=True))
for r in FIRST:
    variant("SCATTER_ND", f"index as deep as rank {r}", lambda r=r: scatter_nd("F32", r, depth=r))

# ---- Order, constants, questions about shape ----------------------------------------------------------------------


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
    return ([x, index(lengths, index_dtype, fixed)], [Tensor(y, dtype)], ("ReverseSequenceOptions", {"seqDim": seq, "batchDim": batch}))


grid("REVERSE_SEQUENCE", reverse_sequence)
index_forms("REVERSE_SEQUENCE", "lengths", lambda d, f: reverse_sequence("F32", 3, d, f))
variant("REVERSE_SEQUENCE", "seqDim 0, batchDim 1", lambda: reverse_sequence("F32", 3, seq=0, batch=1))


def one_hot(dtype, rank, index_dtype="I32", fixed=False, axis=-1, bad=False):
    at = index(np.random.default_rng(rank).integers(0, 5, shape_of(rank)), index_dtype, fixed)
    if bad:
        at.value.ravel()[:2] = -1, 7
    on, off = data(dtype, (), "big", seed="on", fixed=True), data(dtype, (), "big", seed="off", fixed=True)
    if dtype == "BOOL":
        on.value, off.value = np.array(True), np.array(False)
    y = np.where(np.expand_dims(at.value, axis) == np.arange(5).reshape((5,) + (1,) * (rank - axis if axis >= 0 else 0)), on.value, off.value)
    return [at, index(5), on, off], [Tensor(y, dtype)], ("OneHotOptions", {"axis": axis})


grid("ONE_HOT", one_hot, ranks=range(8))
index_forms("ONE_HOT", "indices", lambda d, f: one_hot("F32", 2, d, f))
variant("ONE_HOT", "axis 0", lambda: one_hot("F32", 2, axis=0))
variant("ONE_HOT", "axis 1", lambda: one_hot("F32", 2, axis=1))
variant("ONE_HOT", "indices out of range give off everywhere", lambda: one_hot("F32", 2, bad=True))


def range_(dtype, rank, fixed=True):
    if dtype == "BOOL":
        raise NotDefined
    start, limit, delta = (Tensor(v, dtype, fixed) for v in (2, 7, 1.5 if dtype in ("F32", "F16", "BF16", "F64") else 2))
    return [start, limit, delta], [Tensor(np.arange(start.value, limit.value, delta.value), dtype)], ("RangeOptions", {})


grid("RANGE", range_, ranks=(0,))
variant("RANGE", "at run time, I32", lambda: range_("I32", 0, False))
variant("RANGE", "at run time, I64", lambda: range_("I64", 0, False))
variant("RANGE", "downwards", lambda: ([Tensor(v, "I32", True) for v in (7, 1, -2)], [Tensor([7, 5, 3], "I32")], ("RangeOptions", {})))
variant("RANGE", "empty", lambda: ([Tensor(v, "I32", True) for v in (7, 1, 2)], [Tensor(np.zeros(0), "I32")], ("RangeOptions", {})))


def fill(dtype, rank, index_dtype="I32", fixed=True):
    value = data(dtype, (), "big")
    return ([index(np.array(shape_of(rank), int), index_dtype, fixed), value], [Tensor(np.full(shape_of(rank), value.value), dtype)], ("FillOptions", {}))


grid("FILL", fill)
index_forms("FILL", "dims", lambda d, f: fill("F32", 3, d, f))
variant("FILL", "no elements", lambda: ([index([0, 3]), data("F32", ())], [data("F32", (0, 3))], ("FillOptions", {})))
for out, code in (("I32", 2), ("I64", 4)):
    for r in RANKS:
        variant("SHAPE", f"to {out}, rank {r}", lambda o=out, c=code, r=r: (
            [data("F32", shape_of(r))], [Tensor(np.array(shape_of(r), int), o)], ("ShapeOptions", {"outType": c})))
grid("SHAPE", lambda d, r: ([data(d, shape_of(r))], [Tensor(np.array(shape_of(r), int), "I32")], ("ShapeOptions", {"outType": 2})))
grid("RANK", lambda d, r: ([data(d, shape_of(r))], [Tensor(r, "I32")], ("RankOptions", {})))


def where(dtype, rank):
    at_least(rank, 1)
    x = data(dtype, shape_of(rank))
    return [x], [Tensor(np.argwhere(x.value), "I64")], ("WhereOptions", {})


grid("WHERE", where)
variant("WHERE", "rank 0", lambda: ([Tensor(True, "BOOL")], [Tensor(np.zeros((1, 0)), "I64")], ("WhereOptions", {})))
variant("WHERE", "nothing true", lambda: ([Tensor([False, False], "BOOL")], [Tensor(np.zeros((0, 1)), "I64")], ("WhereOptions", {})))


def matrix_diag(dtype, rank):
    at_least(rank, 1)
    x = data(dtype, shape_of(rank), "big")
    return [x], [Tensor(np.eye(x.value.shape[-1], dtype=x.value.dtype) * x.value[..., None], dtype)], ("MatrixDiagOptions", {})


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
    return ([index(at, index_dtype, fixed), index(np.array(shape_of(rank)), index_dtype, True), values, default], [Tensor(y, dtype)],
            ("SparseToDenseOptions", {"validateIndices": False}))


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

# ---- Types ------------------------------------------------------------------------------------------------------
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
TWINS = {"F32": "I32", "F16": "I16", "BF16": "I16", "F64": "I64", "I8": "U8", "U8": "I8", "I16": "U16", "U16": "I16", "I32": "F32", "U32": "I32",
         "I64": "F64", "U64": "I64"}


def bitcast(source, target, shape):
    x = data(source, shape, "big")
    stored = x.value.astype(DTYPES[source][1]).reshape(shape or (1,)).view(DTYPES[target][1])
    return [x], [Tensor(stored.reshape(shape if stored.size == x.value.size else shape + (stored.size // x.value.size,)), target)], ("BitcastOptions", {})


def bitcast_grid(dtype, rank):
    if dtype not in TWINS:
        raise NotDefined
    return bitcast(dtype, TWINS[dtype], shape_of(rank))


grid("BITCAST", bitcast_grid)
for source, target in (("I64", "I32"), ("F32", "U8"), ("F64", "U32"), ("I16", "I8")):
    variant("BITCAST", f"{source} to {target}, one axis more", lambda s=source, t=target: bitcast(s, t, (3, 4)))
