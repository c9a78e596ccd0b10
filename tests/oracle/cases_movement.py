# SPDX-License-Identifier: Apache-2.0
"""Picking and placing by index or condition: GatherElements, GatherND, Scatter*, OneHot, Where, NonZero, Compress,
Trilu, EyeLike, Unique, ReverseSequence, CenterCropPad, Dropout, and rarer forms of Constant, Pad and Tile.

Indices may be negative. Of an index that comes twice without a reduction the last update counts, as in ONNX Runtime.
"""

import itertools

import numpy as np

from tests.support.case import Case, f32, i64

CASES = []


def case(name, inputs, body, weights=None, **more):
    CASES.append(Case(f"movement/{name}", inputs, body, weights or {}, **more))


# GatherElements, GatherND
for axis, dims in {0: "5,4,6", 1: "3,7,6", 2: "3,4,2", -1: "3,4,8"}.items():
    size = (3, 4, 6)[axis]
    case(
        f"gather_elements/axis_{axis}",
        f"float[3,4,6] x, int64[{dims}] i",
        f"y = GatherElements<axis={axis}>(x, i)",
        ranges={"i": (-size, size)},
    ) if axis != 0 else case(
        "gather_elements/axis_0", "float[3,4,6] x, int64[5,4,6] i", "y = GatherElements(x, i)", ranges={"i": (-3, 3)}
    )
case(
    "gather_elements/smaller_indices",
    "float[3,4,6] x, int32[2,5,4] i",
    "y = GatherElements<axis=1>(x, i)",
    ranges={"i": (-4, 4)},
    outputs="float[2,5,4] y",
)
case(
    "gather_elements/constant_indices",
    "float[3,4] x",
    "y = GatherElements<axis=1>(x, k)",
    {"k": i64(0, -1, 3, -4, 2, 1).reshape(3, 2)},
)
case("gather_elements/1d", "float[7] x, int64[3] i", "y = GatherElements(x, i)", ranges={"i": (-7, 7)})
PLACES = i64(2, 0, 0, -1, 1, 3, 0, 0, 2, 0).reshape(5, 2)
CORNERS = i64(2, 0, 0, -1, 1, 3, 0, 0, 2, 0, -3, 1, 1, 1, 2, 2, 0, 3, 1, 0).reshape(5, 2, 2)
case("gather_nd/rows", "float[3,4,6] x", "y = GatherND(x, k)", {"k": i64(2, 0, -1).reshape(3, 1)})
case("gather_nd/elements", "float[3,4,6] x", "y = GatherND(x, k)", {"k": i64(2, 3, 5, 0, -1, -6).reshape(2, 3)})
case("gather_nd/of_constants", "float[5,6] x", "g = GatherND(t, k) y = Add(x, g)", {"t": (3, 4, 6), "k": PLACES})
case("gather_nd/of_constant_elements", "float[5,2] x", "g = GatherND(t, k) y = Add(x, g)", {"t": (3, 4), "k": CORNERS})
# Indices that are never negative need no correction; the last ones may be.
LARGEST = "a = ArgMax<axis=1>(x) row = Div(a, width) "
for name, column in (
    ("remainder", "column = Mod(a, width)"),
    ("difference", "whole = Mul(row, width) column = Sub(a, whole)"),
    (
        "floored",
        "rest = Mod(a, width) whole = Sub(a, rest) row2 = Div(whole, width) m = Mul(row2, width) column = Sub(a, m)",
    ),
    ("that_may_be_negative", "column = Sub(row, width)"),
):
    case(
        f"gather_nd/place_of_the_largest_{name}",
        "float[4,77] x, float[7,11,3] t",
        LARGEST + column + " p = Concat<axis=1>(row, column) y = GatherND(t, p)",
        {"width": i64(11).reshape(())},
    )
case("gather_nd/run_time", "float[3,4,6] x, int64[2,5,2] i", "y = GatherND(x, i)", ranges={"i": (-3, 3)})
case("gather_nd/batch_1", "float[3,4,6] x, int64[3,5,1] i", "y = GatherND<batch_dims=1>(x, i)", ranges={"i": (-4, 4)})
case(
    "gather_nd/batch_2", "float[3,4,6,2] x, int64[3,4,5,1] i", "y = GatherND<batch_dims=2>(x, i)", ranges={"i": (-6, 6)}
)
case(
    "gather_nd/batch_constant",
    "float[2,4,6] x",
    "y = GatherND<batch_dims=1>(x, k)",
    {"k": i64(3, -1, 0, 2).reshape(2, 2)},
)

# Scatter
case("scatter_nd/rows", "float[5,4] x, float[2,4] u", "y = ScatterND(x, k, u)", {"k": i64(3, -5).reshape(2, 1)})
case(
    "scatter_nd/elements",
    "float[5,4] x, float[3] u",
    "y = ScatterND(x, k, u)",
    {"k": i64(3, 0, 1, -1, -1, 2).reshape(3, 2)},
)
case(
    "scatter_nd/run_time_indices",
    "float[5,4] x, float[1,4] u, int64[1,1] i",
    "y = ScatterND(x, i, u)",
    ranges={"i": (-5, 5)},
)
case(
    "scatter_nd/blocks", "float[5,4,3] x, float[2,1,4,3] u", "y = ScatterND(x, k, u)", {"k": i64(4, 2).reshape(2, 1, 1)}
)
for reduction in ("add", "mul", "max", "min"):
    case(
        f"scatter_nd/{reduction}",
        "float[5,4] x, float[3,4] u",
        f'y = ScatterND<reduction="{reduction}">(x, k, u)',
        {"k": i64(3, 1, 3).reshape(3, 1)},
        opset=18,
    )
    case(
        f"scatter_elements/{reduction}",
        "float[5,4] x, float[5,3] u",
        f'y = ScatterElements<axis=1, reduction="{reduction}">(x, k, u)',
        {"k": i64(*([3, 1, 3] * 5)).reshape(5, 3)},
        opset=18,
    )
for dtype in ("int32", "int64", "bool", "uint8", "double", "float16"):
    case(
        f"scatter_nd/{dtype}",
        f"{dtype}[5,4] x, {dtype}[2,4] u",
        "y = ScatterND(x, k, u)",
        {"k": i64(3, 1).reshape(2, 1)},
    )
case(
    "scatter_elements/axis_0",
    "float[5,4] x, float[2,3] u",
    "y = ScatterElements(x, k, u)",
    {"k": i64(1, 0, 4, -1, 2, -5).reshape(2, 3)},
)
case(
    "scatter_elements/axis_1",
    "float[3,5,2] x, float[3,2,2] u, int64[3,2,2] i",
    "y = ScatterElements<axis=1>(x, i, u)",
    feeds={
        "x": np.arange(30, dtype=np.float32).reshape(3, 5, 2),
        "u": -np.arange(12, dtype=np.float32).reshape(3, 2, 2),
        "i": np.array([0, -1, 3, 2] * 3).reshape(3, 2, 2),
    },
)
case(
    "scatter/opset_9",
    "float[3,5] x, float[3,2] u",
    "y = Scatter<axis=1>(x, k, u)",
    {"k": i64(1, 0, 4, 2, 2, 3).reshape(3, 2)},
    opset=9,
)
# Places that are named twice: of tokens that were punished twice, for example. Infinities and -0 stay what they are.
UPDATES = np.float32([[1, np.inf, -0.0, 4], [5, -np.inf, 7, 8], [9, 10, 11, 12]])
for name, inputs, more in (
    ("constants", "float[5,4] x, float[3,4] u", dict(weights={"k": i64(3, 1, 3).reshape(3, 1)})),
    (
        "run_time",
        "float[5,4] x, float[3,4] u, int64[3,1] k",
        dict(feeds={"x": np.ones((5, 4), np.float32), "u": UPDATES, "k": i64(-2, 1, 3).reshape(3, 1)}),
    ),
    (
        "open_number",
        "float[5,4] x, float[N,4] u, int64[N,1] k",
        dict(feeds={"x": np.ones((5, 4), np.float32), "u": UPDATES, "k": i64(-2, 1, 3).reshape(3, 1)}),
    ),
    (
        "no_update",
        "float[5,4] x, float[N,4] u, int64[N,1] k",
        dict(feeds={"x": np.ones((5, 4), np.float32), "u": np.zeros((0, 4), np.float32), "k": i64().reshape(0, 1)}),
    ),
):
    case(f"scatter_nd/twice_{name}", inputs, "y = ScatterND(x, k, u)", **more)
for dtype in ("float", "int32", "int64", "bool", "uint8", "float16"):
    case(
        f"scatter_elements/twice_{dtype}",
        f"{dtype}[3,5] x, {dtype}[3,4] u, int64[3,4] i",
        "y = ScatterElements<axis=1>(x, i, u)",
        ranges={"i": (-5, 5)},
    )
case(
    "scatter_elements/twice_constants",
    "float[3,5] x, float[2,4] u",
    "y = ScatterElements<axis=1>(x, k, u)",
    {"k": i64(1, 0, 1, 4, -1, 4, 2, 2).reshape(2, 4)},
)
# x[:, 2:4] = u, as the exporters write it.
for name, inputs, body, more in (
    ("box", "float[2,5,3] x, float[2,2,3] u", "", dict(weights={"k": i64(*([2] * 3 + [3] * 3) * 2).reshape(2, 2, 3)})),
    ("box_from_the_end", "int64[3,5] x, int64[2,1] u", "", dict(weights={"k": i64(-2, -2).reshape(2, 1)})),
    (
        "row",
        "float[2,5,3] x, float[2,1,3] u",
        "s = Shape(u) k = Expand(c, s) ",
        dict(weights={"c": i64(4).reshape(1, 1, 1)}),
    ),
    (
        "row_at_run_time",
        "float[2,5,3] x, float[2,1,3] u, int64[1,1,1] c",
        "s = Shape(u) k = Expand(c, s) ",
        dict(
            feeds={
                "x": np.arange(30, dtype=np.float32).reshape(2, 5, 3),
                "u": -np.ones((2, 1, 3), np.float32),
                "c": i64(-2).reshape(1, 1, 1),
            }
        ),
    ),
):
    case(f"scatter_elements/{name}", inputs, f"{body}y = ScatterElements<axis=1>(x, k, u)", **more)
case(
    "scatter_elements/one_number",
    "float[3,5] x, int64[3,4] i",
    "s = Shape(i) u = Expand(c, s) y = ScatterElements<axis=1>(x, i, u)",
    {"c": f32(2.5)},
    ranges={"i": (0, 5)},
)
case(
    "scatter_nd/after_conv",
    "float[1,3,5,6] x, float[1,3,4] u",
    "c = Conv(x, w) y = ScatterND(c, k, u)",
    {"w": (2, 3, 3, 3), "k": i64(0, 1).reshape(1, 2)},
)

# OneHot, Where, NonZero, Compress, Trilu, EyeLike
VALUES = np.array([-1, 2.5], np.float32)
for axis in (-1, 0, 1, -2):
    case(
        f"one_hot/axis_{axis}",
        "int64[3,4] i",
        f"y = OneHot<axis={axis}>(i, d, v)",
        {"d": np.int64(5), "v": VALUES},
        ranges={"i": (-7, 7)},
    )
case(
    "one_hot/depth_list",
    "int32[4] i",
    "y = OneHot(i, d, v)",
    {"d": np.array([5], np.int32), "v": VALUES},
    ranges={"i": (0, 5)},
)
case(
    "one_hot/float_indices",
    "float[4] i",
    "y = OneHot(i, d, v)",
    {"d": np.float32(5), "v": VALUES},
    feeds={"i": np.array([0, 4, -1, 2], np.float32)},
)
case(
    "one_hot/float_indices_that_are_not_whole",
    "float[7] x",
    "y = OneHot(x, d, v)",
    {"d": np.float32(3), "v": f32(0, 1)},
    feeds={"x": f32(1.5, 2, -1.5, -1, 0.25, -0.0, 1e9)},
    outputs="float[7,3] y",
)
# Outside the range, but equal to indices in it modulo 2^32.
case(
    "one_hot/far_indices",
    "int64[7] x",
    "y = OneHot(x, d, v)",
    {"d": np.int64(4), "v": f32(0, 1)},
    feeds={"x": i64(2**32 + 1, 2**40, -(2**32) + 2, 1, 7, -2, -7)},
)
case(
    "one_hot/far_float_indices",
    "float[4] x",
    "y = OneHot(x, d, v)",
    {"d": np.float32(4), "v": f32(0, 1)},
    feeds={"x": f32(2**33, 2**32, 1, -(2.0**34))},
    outputs="float[4,4] y",
)
case(
    "one_hot/of_arg_max",
    "float[5,4] x",
    "a = ArgMax<axis=1, keepdims=0>(x) y = OneHot(a, d, v)",
    {"d": np.int64(4), "v": f32(0, 1)},
)
case(
    "one_hot/run_time_values",
    "int64[4] i, float[2] v",
    "y = OneHot(i, d, v)",
    {"d": np.int64(6)},
    ranges={"i": (-6, 6)},
)
case("where/broadcast", "bool[3,1,5] c, float[4,1] a, float[2,1,1,5] b", "y = Where(c, a, b)")
case("where/scalar", "bool[3,4] c, float[3,4] a", "y = Where(c, a, k)", {"k": np.float32(-np.inf)})
case(
    "where/nan_stays_out",
    "bool[3,4] c, float[3,4] a",
    "n = Div(z, z) w = Where(c, a, n) y = IsNaN(w)",
    {"z": np.float32(0)},
    outputs="bool[3,4] y",
)
for dtype in ("int32", "int64", "double"):
    case(f"where/{dtype}", f"bool[3,4] c, {dtype}[3,1] a, {dtype}[4] b", "y = Where(c, a, b)")
for dtype in ("float", "int32", "int64", "bool", "uint8"):
    case(f"non_zero/{dtype}", f"{dtype}[3,4,2] x", "y = NonZero(x)", ranges={"x": (0, 2)}, outputs="int64[3,A] y")
case(
    "non_zero/constant",
    "float[7,2] x",
    "o = ConstantOfShape<value = int64[1] {1}>(s) n = NonZero(o) t = Transpose(n) q = Squeeze(t, l1) y = Gather(x, q)",
    {"s": i64(5), "l1": i64(1)},
    outputs="float[5,2] y",
)
case(
    "compress/axis_1",
    "float[3,4,2] x",
    "y = Compress<axis=1>(x, k)",
    {"k": np.array([True, False, True])},
    outputs="float[3,2,2] y",
)
case(
    "compress/flat",
    "float[3,4] x",
    "y = Compress(x, k)",
    {"k": np.array([True, False, False, True, True])},
    outputs="float[3] y",
)
case(
    "compress/condition_longer_than_an_unknown_axis",
    "float[A,3] x",
    "y = Compress<axis=0>(x, k)",
    {"k": np.array([False, True, True, False, True])},
    outputs="float[B,3] y",
    shapes={"x": (2, 3)},
)
case("compress/run_time", "float[3,4] x, bool[4] c", "y = Compress<axis=-1>(x, c)", outputs="float[3,A] y")
# ONNX Runtime takes a condition of any rank, and counts its elements.
case("compress/mask", "float[3,5] x", "k = Greater(x, z) y = Compress(x, k)", {"z": f32(0)}, outputs="float[A] y")
case("compress/condition_of_rank_2", "float[3,5] x, bool[1,4] c", "y = Compress<axis=1>(x, c)", outputs="float[3,A] y")
case("compress/condition_of_rank_0", "float[3,5] x, bool c", "y = Compress<axis=1>(x, c)", outputs="float[3,A] y")
case(
    "compress/mask_of_unknown_extents",
    "float[N,M] x, bool[M,N] c",
    "y = Compress(x, c)",
    shapes={"x": (3, 5), "c": (5, 3)},
    outputs="float[A] y",
)
for k in (None, -1, 0, 2, 9, -9):
    for upper in (0, 1):
        if k is None:
            case(f"trilu/upper_{upper}", "float[2,4,5] x", f"y = Trilu<upper={upper}>(x)", opset=14)
        else:
            case(
                f"trilu/upper_{upper}_k_{k}",
                "float[4,5] x",
                f"y = Trilu<upper={upper}>(x, k)",
                {"k": np.int64(k)},
                opset=14,
            )
case("trilu/int64", "int64[4,5] x", "y = Trilu(x)", opset=14)
# The number of a row and k must not wrap around.
for upper, k in ((0, 2**31 - 1), (1, -(2**63)), (1, 2**63 - 1)):
    case(
        f"trilu/upper_{upper}_far_k_{k}",
        "float[4,5] x",
        f"y = Trilu<upper={upper}>(x, k)",
        {"k": np.int64(k)},
        opset=14,
    )
case(
    "trilu/far_run_time_k",
    "float[4,5] x, int64 k",
    "y = Trilu(x, k)",
    opset=14,
    feeds={"x": np.arange(20, dtype=np.float32).reshape(4, 5), "k": np.array(2**31 - 1)},
)
case("trilu/bool_run_time_k", "bool[4,5] x, int64 k", "y = Trilu(x, k)", opset=14, ranges={"k": (-1, 3)})
case("eye_like/plain", "float[4,5] x", "y = EyeLike(x)")
case("eye_like/k_dtype", "float[4,5] x", "y = EyeLike<k=-2, dtype=7>(x)")
case("eye_like/wide", "int32[3,6] x", "y = EyeLike<k=2>(x)")
case("eye_like/uint64", "float[A,6] x", "y = EyeLike<k=1, dtype=13>(x)", shapes={"x": (3, 6)})
case("eye_like/beyond", "float[3,6] x", f"y = EyeLike<k={2**40}>(x)")
case("eye_like/far_before", "float[A,6] x", f"y = EyeLike<k={-(2**63)}>(x)", shapes={"x": (3, 6)})

# Unique
case(
    "unique/unsorted",
    "float[9] x",
    "y, a, b, c = Unique<sorted=0>(x)",
    feeds={"x": np.array([2, 1, 1, 3, 4, 3, 2, 7, 1], np.float32)},
    opset=11,
    outputs="float[A] y, int64[B] a, int64[9] b, int64[D] c",
)
case(
    "unique/sorted",
    "float[9] x",
    "y, a, b, c = Unique(x)",
    feeds={"x": np.array([2, -1, -1, 3, 4, 3, 2, 7, -1], np.float32)},
    opset=11,
    outputs="float[A] y, int64[B] a, int64[9] b, int64[D] c",
)
case(
    "unique/sorted_int64_matrix",
    "int64[3,4] x",
    "y, , b = Unique(x)",
    ranges={"x": (-3, 3)},
    opset=11,
    outputs="int64[A] y, int64[12] b",
)

# ReverseSequence, CenterCropPad, Dropout, Squeeze, Slice
case(
    "reverse_sequence/time_first",
    "float[5,3,2] x, int64[3] n",
    "y = ReverseSequence<time_axis=0, batch_axis=1>(x, n)",
    ranges={"n": (0, 6)},
)
case(
    "reverse_sequence/batch_first",
    "float[3,5,2] x",
    "y = ReverseSequence<time_axis=1, batch_axis=0>(x, n)",
    {"n": i64(5, 1, 3)},
)
case("center_crop_pad/both", "float[7,4,5] x", "y = CenterCropPad(x, s)", {"s": i64(4, 9, 5)}, opset=18)
case("center_crop_pad/axes", "float[2,7,4] x", "y = CenterCropPad<axes=[1,-1]>(x, s)", {"s": i64(10, 1)}, opset=18)
case("dropout/opset_7", "float[2,3] x", "y = Dropout<ratio=0.3>(x)", opset=7)
# In inference ONNX Runtime fills the mask with zeros before opset 12, and with ones since.
for opset in (7, 10, 12):
    outputs = f"y, {'float' if opset < 10 else 'bool'}[2,3] m"
    case(f"dropout/mask_opset_{opset}", "float[2,3] x", "y, m = Dropout(x)", opset=opset, outputs=outputs)
# A set of axes may list one again; steps beyond the axis and beyond 32 bits take one element.
case("squeeze/axis_twice", "float[2,1,3,1] x", "y = Squeeze(x, a)", {"a": i64(1, -3, 1)})
case("squeeze/axis_twice_opset_11", "float[2,1,3,1] x", "y = Squeeze<axes=[3,-1]>(x)", opset=11)
for step in (-(2**31), -(2**63), 2**31, 2**63 - 1):
    case(
        f"slice/step_{step}",
        "float[2,5] x",
        "y = Slice(x, s, e, a, t)",
        {"s": i64(1 if step > 0 else -2), "e": i64(99 if step > 0 else -99), "a": i64(1), "t": i64(step)},
    )
case(
    "dropout/mask",
    "float[2,3] x",
    "y, m = Dropout(x, r, t)",
    {"r": np.float32(0.5), "t": np.array(False)},
    outputs="y, m",
)

# Constants, rarer pads and tiles
case("pad/run_time_value", "float[3,4] x, float v", "y = Pad(x, p, v)", {"p": i64(1, 0, 2, 3)})
case(
    "pad/run_time_pads",
    "float[3,4] x, int64[4] p",
    "y = Pad(x, p)",
    feeds={"x": np.arange(12, dtype=np.float32).reshape(3, 4), "p": i64(1, 0, 2, 3)},
    outputs="float[A,B] y",
)
for mode, pads in [
    ("reflect", (1, 0, 2, 3)),
    ("edge", (4, 0, 2, 9)),
    ("edge", (-1, 2, 3, -2)),
    ("wrap", (3, 0, 1, 4)),
    ("wrap", (-1, 3, 2, -1)),
    ("reflect", (-1, 2, 1, -2)),
]:
    case(
        f"pad/run_time_{mode}_{'_'.join(map(str, pads)).replace('-', 'm')}",
        "float[3,5] x, int64[4] p",
        f'y = Pad<mode="{mode}">(x, p)',
        opset=19,
        feeds={"x": np.arange(15, dtype=np.float32).reshape(3, 5), "p": i64(*pads)},
        outputs="float[A,B] y",
    )
case(
    "pad/run_time_reflect_of_an_image",
    "float[1,3,6,7] x, int64[4] p, int64[2] a",
    'c = Conv(x, w) y = Pad<mode="reflect">(c, p, , a)',
    {"w": (4, 3, 2, 3)},
    opset=18,
    feeds={
        "x": np.random.default_rng(8).normal(size=(1, 3, 6, 7)).astype(np.float32),
        "p": i64(1, 3, 2, 0),
        "a": i64(-1, 2),
    },
    outputs="float[1,4,A,B] y",
)
case(
    "gather_elements/other_dimensions",
    "float[A,4,B] x, int32[C,5,D] i",
    "y = GatherElements<axis=1>(x, i)",
    feeds={
        "x": np.random.default_rng(8).normal(size=(3, 4, 6)).astype(np.float32),
        "i": np.random.default_rng(9).integers(-4, 4, (2, 5, 4)).astype(np.int32),
    },
    outputs="float[C,5,D] y",
)
case(
    "gather_elements/a_fixed_dimension",
    "float[A,4,6] x, int64[2,5,B] i",
    "y = GatherElements<axis=1>(x, i)",
    feeds={
        "x": np.random.default_rng(8).normal(size=(3, 4, 6)).astype(np.float32),
        "i": np.random.default_rng(9).integers(-4, 4, (2, 5, 4)),
    },
    outputs="float[2,5,B] y",
)
case("pad/reflect_beyond", "float[2,3] x", 'y = Pad<mode="reflect">(x, p)', {"p": i64(0, 2, 0, 2)})
case("pad/wrap_beyond", "float[2,3] x", 'y = Pad<mode="wrap">(x, p)', {"p": i64(0, 3, 0, 2)}, opset=19)
case("pad/edge_negative", "float[5,6] x", 'y = Pad<mode="edge">(x, p)', {"p": i64(-1, 2, 3, -2)})
case("pad/reflect_negative", "float[5,6] x", 'y = Pad<mode="reflect">(x, p)', {"p": i64(-1, 2, 2, -2)})
# The border of a long axis is gathered alone.
for mode in ("reflect", "edge", "wrap"):
    case(f"pad/long_{mode}", "float[3,5000] x", f'y = Pad<mode="{mode}">(x, p)', {"p": i64(1, 7, 0, 5)}, opset=19)
case("pad/long_at_the_end", "int64[3,5000,2] x", 'y = Pad<mode="reflect">(x, p)', {"p": i64(0, 0, 0, 0, 9, 0)})
case("pad/long_beyond", "float[2,5000] x", 'y = Pad<mode="wrap">(x, p)', {"p": i64(0, 9000, 0, 3)}, opset=19)
case("pad/long_negative", "float[2,5000] x", 'y = Pad<mode="edge">(x, p)', {"p": i64(0, -3, 0, 7)})
case("pad/edge_of_millions", "float[1,2000000] x", 'y = Pad<mode="edge">(x, p)', {"p": i64(0, 2, 0, 3)})
case("pad/int64_value", "int64[3,4] x", "y = Pad(x, p, v)", {"p": i64(1, 0, 2, 3), "v": np.int64(-9)})
case(
    "expand/run_time",
    "float[3,1] x, int64[3] s",
    "y = Expand(x, s)",
    feeds={"x": np.arange(3, dtype=np.float32).reshape(3, 1), "s": i64(2, 1, 4)},
    outputs="float[A,B,C] y",
)
case(
    "tile/run_time",
    "float[3,2] x, int64[2] r",
    "y = Tile(x, r)",
    feeds={"x": np.arange(6, dtype=np.float32).reshape(3, 2), "r": i64(2, 3)},
    outputs="float[A,B] y",
)
case(
    "reshape/run_time_zero_copies",
    "float[3,4,2] x, int64[3] s",
    "y = Reshape(x, s)",
    feeds={"x": np.arange(24, dtype=np.float32).reshape(3, 4, 2), "s": i64(0, 2, -1)},
    outputs="float[A,B,C] y",
)
case(
    "slice/run_time",
    "float[7,6] x, int64[1] b, int64[1] e",
    "y = Slice(x, b, e, a)",
    {"a": i64(1)},
    feeds={"x": np.arange(42, dtype=np.float32).reshape(7, 6), "b": i64(-4), "e": i64(2**63 - 1)},
    outputs="float[7,A] y",
)
case("split/num_outputs_uneven", "float[7,2] x", "a, b, c = Split<num_outputs=3>(x)", opset=18, outputs="a, b, c")
for length in (7, 6, 5, 3):
    case(
        f"split/num_outputs_of_{length}_at_run_time",
        "float[2,N,3] x",
        "a, b, c = Split<num_outputs=3, axis=-2>(x) s = Shape(c) y = Concat<axis=1>(c, a, b)",
        opset=18,
        shapes={"x": (2, length, 3)},
        outputs="float[2,A,3] a, float[2,B,3] c, int64[3] s, float[2,C,3] y",
    )
case(
    "split/run_time_sizes",
    "float[7,2] x, int64[2] s",
    "a, b = Split(x, s)",
    feeds={"x": np.arange(14, dtype=np.float32).reshape(7, 2), "s": i64(3, 4)},
    outputs="float[A,2] a, float[B,2] b",
)
case(
    "range/empty_at_run_time",
    "int64 n",
    "r = Range(k, n, d) s = Shape(r) y = Identity(s)",
    {"k": np.int64(5), "d": np.int64(1)},
    feeds={"n": np.array(3)},
    outputs="int64[1] y",
)
case(
    "range/float_run_time",
    "float n",
    "y = Range(k, n, d)",
    {"k": np.float32(0.5), "d": np.float32(0.75)},
    feeds={"n": np.array(4, np.float32)},
    outputs="float[A] y",
)

# What only the run knows: axes, steps, sizes
X76 = np.arange(42, dtype=np.float32).reshape(7, 6)
case(
    "slice/run_time_axes",
    "float[7,6] x, int64[2] b, int64[2] e, int64[2] a, int64[2] s",
    "y = Slice(x, b, e, a, s)",
    feeds={"x": X76, "b": i64(-1, -1000), "e": i64(-1000, 5), "a": i64(1, 0), "s": i64(-2, 3)},
    outputs="float[A,B] y",
)
for start in (4, 9, -3, -9, -1, 0):
    case(
        f"slice/backward_from_run_time_start_{start}",
        "float[7,6] x, int64[2] b",
        "y = Slice(x, b, e, a, s)",
        {"e": i64(-(2**63), 5), "a": i64(1, 0), "s": i64(-2, 2)},
        feeds={"x": X76, "b": i64(start, -1000)},
        outputs="float[A,B] y",
    )
    case(
        f"slice/backward_from_{start}_of_unknown_size",
        "float[7,N] x",
        "y = Slice(x, b, e, a, s)",
        {"b": i64(start), "e": i64(-(2**63)), "a": i64(1), "s": i64(-2)},
        feeds={"x": X76},
        outputs="float[7,B] y",
    )
case(
    "slice/run_time_steps",
    "float[7,6] x, int64[1] s",
    "y = Slice(x, b, e, a, s)",
    {"b": i64(-9), "e": i64(-(2**63)), "a": i64(1)},
    feeds={"x": X76, "s": i64(-1)},
    outputs="float[7,A] y",
)
case(
    "squeeze/run_time_axes",
    "float[1,3,1,4] x, int64[2] a",
    "y = Squeeze(x, a)",
    feeds={"x": np.arange(12, dtype=np.float32).reshape(1, 3, 1, 4), "a": i64(-2, 0)},
    outputs="float[A,B] y",
)
case(
    "pad/run_time_axes",
    "float[3,4,2] x, int64[4] p, int64[2] a",
    "y = Pad(x, p, , a)",
    opset=18,
    feeds={"x": np.arange(24, dtype=np.float32).reshape(3, 4, 2), "p": i64(1, 0, 2, 3), "a": i64(-1, 0)},
    outputs="float[A,4,B] y",
)
# ONNX leaves it open what an axis that is listed twice means; the last pads count, as for ONNX Runtime.
case(
    "pad/run_time_axis_listed_twice",
    "float[2,3] x, int64[4] p, int64[2] a",
    "y = Pad(x, p, , a)",
    opset=18,
    feeds={"x": np.arange(6, dtype=np.float32).reshape(2, 3), "p": i64(1, 2, 0, 3), "a": i64(1, -1)},
    outputs="float[A,B] y",
)
# Where one side crops more than there is, it crops of what the other adds.
for name, x in {"known": "float[3,5] x", "symbolic": "float[N,5] x", "empty": "float[N,5] x"}.items():
    case(
        f"pad/crops_of_what_it_adds_{name}",
        x,
        "y = Pad(x, p, v)",
        {"p": i64(6, -7, -4, 9) if name != "empty" else i64(2, 0, -1, 0), "v": np.float32(0.5)},
        feeds={"x": np.ones((0 if name == "empty" else 3, 5), np.float32)},
        outputs="float[A,B] y",
    )
case(
    "pad/crops_of_what_it_adds_at_run_time",
    "float[3,5] x, int64[4] p",
    "y = Pad(x, p)",
    feeds={"x": np.ones((3, 5), np.float32), "p": i64(6, -7, -4, 9)},
    outputs="float[A,B] y",
)
case(
    "slice/disputed_end_of_run_time_axes",
    "float[7,6] x, int64[2] a",
    "y = Slice(x, b, e, a, s)",
    {"b": i64(1, 3), "e": i64(5, 2**63 - 1), "s": i64(2, -1)},
    feeds={"x": X76, "a": i64(1, 0)},
    outputs="float[A,B] y",
)
case(
    "pad/run_time_negative",
    "float[3,4] x, int64[4] p",
    "y = Pad(x, p, v)",
    {"v": np.float32(0.5)},
    feeds={"x": np.arange(12, dtype=np.float32).reshape(3, 4), "p": i64(-1, 2, 3, -2)},
    outputs="float[A,B] y",
)
case(
    "pad/by_a_difference_of_extents",
    "float[5] x, float[N] z",
    "s = Shape(z) d = Sub(s, four) p = Concat<axis=0>(one, d) y = Pad(x, p)",
    {"four": i64(4), "one": i64(1)},
    shapes={"z": (3,)},
    outputs="float[A] y",
)
case(
    "pad/by_extents_alone",
    "float[5] x, float[N] z",
    "s = Shape(z) d = Add(s, four) p = Concat<axis=0>(s, d) y = Pad(x, p)",
    {"four": i64(4)},
    shapes={"z": (3,)},
    outputs="float[A] y",
)
# As TensorFlow's SAME: differences, but none below 0.
case(
    "pad/to_whole_strides",
    "float[7,N] x",
    """s = Shape(x) n = Gather(s, one) a = Add(n, one) b = Div(a, two) c = Sub(b, one) d = Mul(c, two) e = Add(d, five)
    f = Sub(e, n) t = Max(f, zero) l = Div(t, two) r = Sub(t, l) p = Concat<axis=0>(zero, l, zero, r) y = Pad(x, p)""",
    {"zero": i64(0), "one": i64(1), "two": i64(2), "five": i64(5)},
    shapes={"x": (7, 4)},
    outputs="float[A,B] y",
)
case(
    "center_crop_pad/run_time",
    "float[7,4,5] x, int64[2] s",
    "y = CenterCropPad<axes=[0,2]>(x, s)",
    opset=18,
    feeds={"x": np.arange(140, dtype=np.float32).reshape(7, 4, 5), "s": i64(4, 8)},
    outputs="float[A,4,B] y",
)

# Scatter into a box, infinities, caches
# Kernels of maxima, minima and products take f32 and i32. Rows without an update keep their number.
for reduction, (dtype, number) in itertools.product(
    ("max", "min", "mul"),
    (("int64", np.int64), ("double", np.float64), ("int8", np.int8), ("uint8", np.uint8), ("int16", np.int16)),
):
    numbers = (np.arange(15) * 37 % 23 - (0 if dtype == "uint8" else 11)).astype(number)
    for operator, indices, more in (
        ("Elements", i64(3, 1, 3, 0, 0, 0).reshape(2, 3), "axis=1, "),
        ("ND", i64(0, 3, 1, 1, 0, 3, 0, 3, 1, 0, 1, 3).reshape(6, 2), ""),
    ):
        case(
            f"scatter_{operator.lower()}/{reduction}_{dtype}",
            f"{dtype}[2,4] x, {dtype}[{'2,3' if more else '6'}] u",
            f'y = Scatter{operator}<{more}reduction="{reduction}">(x, k, u)',
            {"k": indices},
            opset=18,
            feeds={"x": numbers[:8].reshape(2, 4), "u": numbers[8:14].reshape((2, 3) if more else 6)},
        )
case(
    "scatter_nd/box",
    "float[5,4,3] x, float[2,2,3] u",
    "y = ScatterND(x, k, u)",
    {"k": i64(1, 2, 1, 3, 2, 2, 2, 3).reshape(2, 2, 2)},
)
case(
    "scatter_nd/box_out_of_order",
    "float[5,4] x, float[2,4] u",
    "y = ScatterND(x, k, u)",
    {"k": i64(2, 1).reshape(2, 1)},
)
case(
    "scatter_nd/max_of_infinities",
    "float[4] x, float[3] u",
    'y = ScatterND<reduction="max">(x, k, u) z = Exp(y)',
    {"k": i64(1, 0, 1).reshape(3, 1)},
    opset=18,
    feeds={"x": np.array([-np.inf, -np.inf, 1, -np.inf], np.float32), "u": np.array([-np.inf, 2, -np.inf], np.float32)},
    outputs="z",
)
case(
    "unsqueeze/run_time_axes",
    "float[3,4] x, int64[2] a",
    "y = Unsqueeze(x, a)",
    feeds={"x": np.arange(12, dtype=np.float32).reshape(3, 4), "a": i64(-1, 0)},
    outputs="float[A,B,C,D] y",
)
case(
    "unsqueeze/run_time_axis_without_axes",
    "float[3,4] x, int64 a",
    "y = Unsqueeze(x, a)",
    feeds={"x": np.arange(12, dtype=np.float32).reshape(3, 4), "a": i64(-2).reshape(())},
    outputs="float[A,B,C] y",
)
for axis in (0, 1, -1):
    for order in (0, 1):
        case(
            f"unique/axis_{axis}_sorted_{order}",
            "float[3,5,4] x",
            f"y, a, b, c = Unique<axis={axis}, sorted={order}>(x)",
            opset=11,
            feeds={
                "x": np.random.default_rng(3)
                .integers(-1, 1, (3, 5, 4))
                .astype(np.float32)[:, [0, 1, 0, 2, 1]][[1, 0, 1]][:, :, [0, 3, 0, 1]]
            },
            outputs="float[P,Q,R] y, int64[B] a, int64[C] b, int64[D] c",
        )
