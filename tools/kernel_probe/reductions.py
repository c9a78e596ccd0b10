# SPDX-License-Identifier: Apache-2.0
"""Cases of the operators that reduce, scan, search or sort along axes."""

import numpy as np

from .case import ALL, NotDefined, at_least, data, grid, index, index_forms, shape_of, variant
from .one_op import FLOATS, Tensor


def reduce(op, function, dtype, rank, axes=None, keep=False, index_dtype="I32", fixed=True, shape=None, span="small"):
    axes = list(range(0, rank, 2)) if axes is None else axes
    x = data(dtype, shape_of(rank) if shape is None else shape, span, lo=0.7, hi=1.3)
    if op == "REDUCE_PROD" and dtype not in FLOATS and dtype != "BOOL":
        x.value = (
            (x.value % 2 + 1).astype(x.value.dtype)
            if x.value.size < 30
            else np.where(np.arange(x.value.size).reshape(x.value.shape) % 1013, 1, 3)
        )
        x = Tensor(x.value, dtype)
    wide = x.value.astype(np.float64) if dtype in FLOATS else x.value
    with np.errstate(all="ignore"):
        y = function(wide, tuple(axes), keep) if axes else function(wide[None], (0,), False)
    return (
        [x, index(np.array(axes, int), index_dtype, fixed)],
        [Tensor(y, dtype)],
        ("ReducerOptions", {"keepDims": keep}),
    )


def reducer(op, function, dtypes=ALL, span="small"):
    def make(dtype, rank, **how):
        if dtype == "BOOL" and op not in ("REDUCE_ANY", "REDUCE_ALL"):
            raise NotDefined
        return reduce(op, function, dtype, rank, span=span, **how)

    main = "BOOL" if dtypes[0] == "BOOL" else "F32"
    grid(op, make, dtypes)
    index_forms(op, "axes", lambda d, f: make(main, 3, index_dtype=d, fixed=f))
    for axes in (
        [0],
        [1],
        [2],
        [3],
        [0, 1],
        [1, 2],
        [2, 3],
        [0, 3],
        [1, 3],
        [0, 1, 2],
        [0, 2, 3],
        [1, 2, 3],
        [0, 1, 2, 3],
        [-1],
        [-2, -1],
        [3, 1],
        [],
    ):
        for keep in (False, True):
            variant(
                op,
                f"axes {axes} of rank 4" + (", keepDims" if keep else ""),
                lambda a=axes, k=keep: make(main, 4, axes=a, keep=k),
            )
    for rank in (5, 6, 7, 8):
        for axes in ([1, 3], [0, rank - 1], [-1]):
            variant(op, f"axes {axes} of rank {rank}", lambda a=axes, r=rank: make(main, r, axes=a))
    variant(op, "no elements, [0,3] along axis 1", lambda: make(main, 2, axes=[1], shape=(0, 3)))
    if op in ("SUM", "REDUCE_PROD", "REDUCE_ANY", "REDUCE_ALL"):
        variant(op, "over an empty axis, [0,3] along axis 0", lambda: make(main, 2, axes=[0], shape=(0, 3)))


def mean(x, axes, keep):
    return (
        x.mean(axes, keepdims=keep) if x.dtype.kind == "f" else np.trunc(x.mean(axes, keepdims=keep, dtype=np.float64))
    )


reducer("SUM", lambda x, a, k: x.sum(a, keepdims=k, dtype=x.dtype))
reducer("MEAN", mean)
reducer("REDUCE_PROD", lambda x, a, k: x.prod(a, keepdims=k, dtype=x.dtype))
reducer("REDUCE_MAX", lambda x, a, k: x.max(a, keepdims=k), span="big")
reducer("REDUCE_MIN", lambda x, a, k: x.min(a, keepdims=k), span="big")
reducer("REDUCE_ANY", lambda x, a, k: x.any(a, keepdims=k), ("BOOL",))
reducer("REDUCE_ALL", lambda x, a, k: x.all(a, keepdims=k), ("BOOL",))
for dtype in ("I32", "I64"):
    variant(
        "SUM",
        f"{dtype}, sums above 2^24 (a float could not hold them)",
        lambda d=dtype: (lambda x: ([x, index([1])], [Tensor(x.value.sum(1), d)], ("ReducerOptions", {})))(
            Tensor([[2**24, 1, 1], [2**25 + 1, 3, 5]], d)
        ),
    )
variant(
    "SUM",
    "I64, sums above 2^53",
    lambda: (lambda x: ([x, index([1])], [Tensor(x.value.sum(1), "I64")], ("ReducerOptions", {})))(
        Tensor([[2**53, 1, 1], [2**55 + 1, 3, 5]], "I64")
    ),
)
variant(
    "MEAN",
    "I32, negative quotient: which way it is rounded (towards zero)",
    lambda: ([Tensor([[-7, 0], [7, 0]], "I32"), index([1])], [Tensor([-3, 3], "I32")], ("ReducerOptions", {})),
)
variant(
    "SUM",
    "F32, 100000 times 0.1: accumulates accurately enough for 1e-4",
    lambda: (
        [Tensor(np.full((1, 100000), 0.1), "F32"), index([1])],
        [Tensor([10000.0], "F32", tolerance=1e-4)],
        ("ReducerOptions", {}),
    ),
)
variant(
    "MEAN",
    "F32, axes [1,2] of [1,250,400,3], 100000 values a channel",
    lambda: (
        lambda x: (
            [x, index([1, 2])],
            [Tensor(x.value.astype(np.float64).mean((1, 2)), "F32", tolerance=1e-4)],
            ("ReducerOptions", {}),
        )
    )(data("F32", (1, 250, 400, 3), lo=0, hi=1)),
)
INFINITE = [[-np.inf, -1], [np.inf, 1], [-np.inf, -np.inf], [np.inf, np.inf]]
for op, f in (("REDUCE_MAX", np.max), ("REDUCE_MIN", np.min)):
    variant(
        op,
        "negative infinity and infinity",
        lambda f=f: ([Tensor(INFINITE, "F32"), index([1])], [Tensor(f(INFINITE, 1), "F32")], ("ReducerOptions", {})),
    )


def arg(op, function, dtype, rank, axis=None, out="I32", index_dtype="I32", fixed=True, ties=False):
    at_least(rank, 1)
    axis = rank // 2 if axis is None else axis
    x = data(dtype, shape_of(rank), "big")
    if ties:
        x.value = x.value > 0
        x = Tensor(x.value, dtype)
    code = 2 if out == "I32" else 4
    return (
        [x, index(axis, index_dtype, fixed)],
        [Tensor(function(x.value, axis), out)],
        ("ArgMaxOptions" if op == "ARG_MAX" else "ArgMinOptions", {"outputType": code}),
    )


for op, function in (("ARG_MAX", np.argmax), ("ARG_MIN", np.argmin)):
    grid(op, lambda d, r, o=op, f=function: arg(o, f, d, r))
    index_forms(op, "axis", lambda d, f, o=op, g=function: arg(o, g, "F32", 3, index_dtype=d, fixed=f))
    for axis in (0, 1, 2, -1, -3):
        variant(op, f"axis {axis}", lambda a=axis, o=op, f=function: arg(o, f, "F32", 3, a))
    variant(op, "to I64", lambda o=op, f=function: arg(o, f, "F32", 3, out="I64"))
    variant(op, "among equals the first", lambda o=op, f=function: arg(o, f, "F32", 3, ties=True))
    variant(
        op,
        "among equals the first, last axis of 37",
        lambda o=op, f=function: (
            lambda x: (
                [x, index(1)],
                [Tensor(f(x.value, 1), "I32")],
                (o.title().replace("_", "") + "Options", {"outputType": 2}),
            )
        )(Tensor(np.random.default_rng(3).integers(0, 3, (9, 37)), "F32")),
    )


def cumsum(dtype, rank, axis=None, exclusive=False, reverse=False, index_dtype="I32", fixed=True):
    at_least(rank, 1)
    if dtype == "BOOL":
        raise NotDefined
    axis = rank // 2 if axis is None else axis
    x = data(dtype, shape_of(rank))
    y = np.flip(x.value, axis) if reverse else x.value
    y = np.cumsum(y, axis, dtype=x.value.dtype) - (y if exclusive else y * 0)
    return (
        [x, index(axis, index_dtype, fixed)],
        [Tensor(np.flip(y, axis) if reverse else y, dtype)],
        ("CumsumOptions", {"exclusive": exclusive, "reverse": reverse}),
    )


grid("CUMSUM", cumsum)
index_forms("CUMSUM", "axis", lambda d, f: cumsum("F32", 3, index_dtype=d, fixed=f))
for axis in (0, 2, -1, -2):
    for exclusive in (False, True):
        for backwards in (False, True):
            variant(
                "CUMSUM",
                f"axis {axis}" + ", exclusive" * exclusive + ", reverse" * backwards,
                lambda a=axis, e=exclusive, b=backwards: cumsum("F32", 3, a, e, b),
            )


def topk(dtype, rank, k_dtype="I32", fixed=True, ties=False, k=2):
    at_least(rank, 1)
    x = data(dtype, shape_of(rank)[:-1] + (7,), "big")
    if ties:
        x = Tensor(np.round(x.value), dtype)
    order = np.argsort(
        (
            -x.value.astype(np.float64)
            if dtype in FLOATS
            else np.iinfo(x.value.dtype).max - x.value.astype(object)
            if dtype != "BOOL"
            else ~x.value
        ),
        axis=-1,
        kind="stable",
    )[..., :k]
    return (
        [x, index(k, k_dtype, fixed)],
        [Tensor(np.take_along_axis(x.value, order, -1), dtype), Tensor(order, "I32")],
        ("TopKV2Options", {}),
    )


grid("TOPK_V2", topk)
index_forms("TOPK_V2", "k", lambda d, f: topk("F32", 3, d, f))
variant("TOPK_V2", "among equals the lower index first", lambda: topk("F32", 3, ties=True, k=7))
variant("TOPK_V2", "k = 0", lambda: topk("F32", 2, k=0))
variant("TOPK_V2", "k = the whole axis", lambda: topk("F32", 2, k=7))


def unique(dtype, rank, out="I32"):
    if rank != 1:
        raise NotDefined
    x = data(dtype, (20,), "small")
    if dtype in FLOATS:
        x = Tensor(np.round(x.value), dtype)
    values, first, inverse = np.unique(x.value, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.argsort(order)
    return (
        [x],
        [Tensor(values[order], dtype), Tensor(place[inverse], out)],
        ("UniqueOptions", {"idxOutType": 2 if out == "I32" else 4}),
    )


grid("UNIQUE", unique, ranks=(1,))
variant("UNIQUE", "indices as I64", lambda: unique("F32", 1, "I64"))


def segment_sum(dtype, rank, index_dtype="I32", ids=(0, 0, 1, 2, 2)):
    at_least(rank, 1)
    if dtype == "BOOL":
        raise NotDefined
    x = data(dtype, (5,) + shape_of(rank)[1:])
    ids = list(ids)
    y = np.zeros((ids[-1] + 1,) + x.value.shape[1:], x.value.dtype)
    np.add.at(y, ids, x.value)
    return [x, index(ids, index_dtype)], [Tensor(y, dtype)], ("SegmentSumOptions", {})


grid("SEGMENT_SUM", segment_sum)
variant("SEGMENT_SUM", "a segment without elements", lambda: segment_sum("F32", 2, ids=(0, 0, 2, 2, 3)))
for name, kind, ufunc in (
    ("UNSORTED_SEGMENT_SUM", "Sum", np.add),
    ("UNSORTED_SEGMENT_PROD", "Prod", np.multiply),
    ("UNSORTED_SEGMENT_MAX", "Max", np.maximum),
    ("UNSORTED_SEGMENT_MIN", "Min", np.minimum),
):

    def unsorted(dtype, rank, kind=kind, ufunc=ufunc):
        at_least(rank, 1)
        if dtype == "BOOL":
            raise NotDefined
        x = data(dtype, (5,) + shape_of(rank)[1:])
        ids = [2, 0, 1, 2, 0]
        y = np.stack(
            [ufunc.reduce(x.value[[i for i, v in enumerate(ids) if v == s]], 0, dtype=x.value.dtype) for s in range(3)]
        )
        return [x, index(ids), index(3)], [Tensor(y, dtype)], (f"UnsortedSegment{kind}Options", {})

    grid(name, unsorted)


def bucketize(dtype, rank):
    x = data(dtype, shape_of(rank))
    return (
        [x],
        [Tensor(np.searchsorted([-2.0, 0.5, 3.0], x.value, side="right"), "I32")],
        ("BucketizeOptions", {"boundaries": [-2.0, 0.5, 3.0]}),
    )


grid("BUCKETIZE", bucketize)


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def soft(dtype, rank, beta=1.0, log=False):
    if dtype not in FLOATS:
        raise NotDefined
    at_least(rank, 1)
    x = data(dtype, shape_of(rank))
    wide = x.value.astype(np.float64)
    y = np.log(softmax(wide)) if log else softmax(wide * beta)
    return [x], [Tensor(y, dtype)], ("LogSoftmaxOptions", {}) if log else ("SoftmaxOptions", {"beta": beta})


grid("SOFTMAX", soft)
grid("LOG_SOFTMAX", lambda d, r: soft(d, r, log=True))
variant("SOFTMAX", "beta 2.5", lambda: soft("F32", 3, 2.5))
for name, f in (("SOFTMAX", softmax), ("LOG_SOFTMAX", lambda x: np.log(softmax(x)))):
    variant(
        name,
        "values around 1e4 do not overflow",
        lambda n=name, f=f: (
            lambda x: (
                [Tensor(x, "F32")],
                [Tensor(f(x.astype(np.float64)), "F32")],
                ("SoftmaxOptions", {"beta": 1.0}) if n == "SOFTMAX" else ("LogSoftmaxOptions", {}),
            )
        )(np.array([[1e4, 1e4 + 1, 1e4 - 2], [-1e4, -1e4 + 3, -1e4]], np.float32)),
    )
    variant(
        name,
        "no elements [0,3]",
        lambda n=name: (
            [data("F32", (0, 3))],
            [data("F32", (0, 3))],
            ("SoftmaxOptions", {"beta": 1.0}) if n == "SOFTMAX" else ("LogSoftmaxOptions", {}),
        ),
    )


def l2_normalization(dtype, rank):
    at_least(rank, 1)
    if dtype not in FLOATS:
        raise NotDefined
    x = data(dtype, shape_of(rank))
    wide = x.value.astype(np.float64)
    return [x], [Tensor(wide / np.sqrt((wide * wide).sum(-1, keepdims=True)), dtype)], ("L2NormOptions", {})


grid("L2_NORMALIZATION", l2_normalization)


def local_response_normalization(dtype, rank, radius=1):
    if rank != 4 or dtype not in FLOATS:
        raise NotDefined
    x = data(dtype, (2, 3, 4, 7))
    square = np.pad(x.value.astype(np.float64) ** 2, ((0, 0),) * 3 + ((radius, radius),))
    total = sum(square[..., i : i + 7] for i in range(2 * radius + 1))
    return (
        [x],
        [Tensor(x.value / (1.5 + 0.3 * total) ** 0.75, dtype)],
        ("LocalResponseNormalizationOptions", {"radius": radius, "bias": 1.5, "alpha": 0.3, "beta": 0.75}),
    )


grid("LOCAL_RESPONSE_NORMALIZATION", local_response_normalization, ranks=(4,))
variant("LOCAL_RESPONSE_NORMALIZATION", "radius 3", lambda: local_response_normalization("F32", 4, 3))
