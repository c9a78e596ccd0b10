# SPDX-License-Identifier: Apache-2.0
"""Moving elements: Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Concat, Split, Slice, Gather, Pad, Expand, Tile,
and what computes shapes: Shape, Size, Constant, ConstantOfShape, Range.

Axes, pads and starts moved from attributes to inputs over the opsets. Slice clamps its ends and may run backwards.
"""

import itertools

import numpy as np

from tests.support.case import Case, i64

CASES = []


def simple(name, dims, body, weights=None, dtype="float", **more):
    CASES.append(Case(name, f"{dtype}[{dims}] x", body, weights or {}, **more))


# Reshape and its kin
for name, shape in {
    "plain": (6, 20),
    "minus_one": (4, -1),
    "zero_copies": (0, 12, 5),
    "zero_and_minus_one": (0, -1),
    "to_5d": (2, 3, 2, 2, 5),
    "flat": (-1,),
    "ones": (1, 2, 1, 60),
    "same": (2, 3, 4, 5),
}.items():
    for opset in (7, 13, 21):
        simple(f"reshape/{name}_opset_{opset}", "2,3,4,5", "y = Reshape(x, s)", {"s": i64(*shape)}, opset=opset)
simple("reshape/scalar", "1,1", "y = Reshape(x, s)", {"s": i64()})
simple("reshape/allowzero_without_zero", "2,3,4", "y = Reshape<allowzero=1>(x, s)", {"s": i64(4, 6)}, opset=14)
simple(
    "reshape/by_shape_of_itself",
    "2,3,4,5",
    "s = Shape(x) a = Gather<axis=0>(s, zero) u = Unsqueeze(a, ax) t = Concat<axis=0>(u, m) y = Reshape(x, t)",
    {"zero": np.int64(0), "ax": i64(0), "m": i64(-1)},
    outputs="float[2,60] y",
)
CASES.append(
    Case(
        "reshape/dynamic_batch",
        "float[N,3,4,5] x",
        "y = Reshape(x, s)",
        {"s": i64(-1, 60)},
        shapes={"x": (6, 3, 4, 5)},
        outputs="float[N,60] y",
    )
)
CASES.append(
    Case(
        "reshape/dynamic_batch_by_shape",
        "float[N,3,4,5] x",
        "s = Shape(x) a = Slice(s, b, e) t = Concat<axis=0>(a, m) y = Reshape(x, t)",
        {"b": i64(0), "e": i64(1), "m": i64(60)},
        shapes={"x": (6, 3, 4, 5)},
        outputs="float[N,60] y",
    )
)
for dtype in ("int32", "int64", "bool", "double", "uint8", "float16"):
    simple(f"reshape/{dtype}", "2,3,4", "y = Reshape(x, s)", {"s": i64(4, 6)}, dtype=dtype)
for axis in (0, 1, 2, 3, 4, -1, -3):
    simple(f"flatten/axis_{axis}", "2,3,4,5", f"y = Flatten<axis={axis}>(x)")
simple("flatten/default", "2,3,4,5", "y = Flatten(x)", opset=7)
simple("flatten/1d", "7", "y = Flatten<axis=0>(x)")
for axes in ((1,), (1, 3), (3, 1)):
    name = "_".join(map(str, axes))
    simple(f"squeeze/axes_{name}_opset_13", "2,1,3,1", "y = Squeeze(x, a)", {"a": i64(*axes)})
    simple(f"squeeze/axes_{name}_opset_11", "2,1,3,1", f"y = Squeeze<axes=[{','.join(map(str, axes))}]>(x)", opset=11)
simple("squeeze/negative", "2,1,3,1", "y = Squeeze(x, a)", {"a": i64(-1, -3)})
simple("squeeze/all", "2,1,3,1", "y = Squeeze(x)")
simple("squeeze/opset_7", "2,1,3,1", "y = Squeeze<axes=[1]>(x)", opset=7)
for axes in ((0,), (1, 3), (-1,), (4, 0), (-1, 0)):
    name = "_".join(map(str, axes))
    simple(f"unsqueeze/axes_{name}_opset_13", "2,3,4", "y = Unsqueeze(x, a)", {"a": i64(*axes)})
    simple(f"unsqueeze/axes_{name}_opset_11", "2,3,4", f"y = Unsqueeze<axes=[{','.join(map(str, axes))}]>(x)", opset=11)
for rank, dims in ((2, "2,3"), (3, "2,3,4"), (4, "2,3,4,5")):
    for perm in itertools.permutations(range(rank)):
        simple(f"transpose/{''.join(map(str, perm))}", dims, f"y = Transpose<perm=[{','.join(map(str, perm))}]>(x)")
simple("transpose/default_reverses", "2,3,4", "y = Transpose(x)")
simple("transpose/5d", "2,3,4,5,6", "y = Transpose<perm=[4,0,2,1,3]>(x)")
simple("transpose/6d", "2,3,1,4,5,2", "y = Transpose<perm=[5,0,3,1,2,4]>(x)")
simple("transpose/6d_that_merges", "2,3,2,4,5,2", "y = Transpose<perm=[3,4,5,0,1,2]>(x)")
for dtype in ("int32", "int64", "bool", "double", "uint8", "float16"):
    simple(f"transpose/{dtype}", "2,3,4", "y = Transpose<perm=[2,0,1]>(x)", dtype=dtype)

# Concat and Split
for axis in (0, 1, 2, 3, -1, -3):
    second = [2, 3, 4, 5]
    second[axis] += 2
    dims = ",".join(map(str, second))
    CASES.append(Case(f"concat/axis_{axis}", f"float[2,3,4,5] a, float[{dims}] b", f"y = Concat<axis={axis}>(a, b)"))
CASES += [
    Case("concat/three", "float[2,3] a, float[2,4] b, float[2,1] c", "y = Concat<axis=1>(a, b, c)"),
    Case("concat/one", "float[2,3] a", "y = Concat<axis=1>(a)"),
    Case("concat/with_a_constant", "float[2,3] a", "y = Concat<axis=1>(a, k)", {"k": (2, 4)}),
    Case("concat/same_twice", "float[2,3] a", "y = Concat<axis=0>(a, a)"),
    Case("concat/5d", "float[2,3,4,5,6] a, float[2,3,7,5,6] b", "y = Concat<axis=2>(a, b)"),
    Case("concat/empty_part", "float[2,3] a", "y = Concat<axis=0>(a, k)", {"k": np.zeros((0, 3), np.float32)}),
    Case("concat/opset_7", "float[2,3] a, float[2,4] b", "y = Concat<axis=1>(a, b)", opset=7),
]
for dtype in ("int32", "int64", "bool", "double", "uint8", "float16"):
    CASES.append(Case(f"concat/{dtype}", f"{dtype}[2,3] a, {dtype}[2,4] b", "y = Concat<axis=1>(a, b)"))
for axis in (0, 1, 2, -1):
    size = {0: 4, 1: 6, 2: 5, -1: 5}[axis]
    parts = (1, size - 1)
    CASES += [
        Case(
            f"split/axis_{axis}_opset_13",
            "float[4,6,5] x",
            f"y, z = Split<axis={axis}>(x, s)",
            {"s": i64(*parts)},
            outputs="y, z",
        ),
        Case(
            f"split/axis_{axis}_opset_11",
            "float[4,6,5] x",
            f"y, z = Split<axis={axis}, split=[{parts[0]},{parts[1]}]>(x)",
            opset=11,
            outputs="y, z",
        ),
    ]
CASES += [
    Case("split/equal", "float[2,6,5] x", "y, z, u = Split<axis=1>(x)", outputs="y, z, u"),
    Case("split/equal_opset_7", "float[2,6,5] x", "y, z = Split<axis=1>(x)", outputs="y, z", opset=7),
    Case("split/default_axis", "float[6,5] x", "y, z = Split(x)", outputs="y, z"),
    Case(
        "split/num_outputs_uneven",
        "float[2,7] x",
        "y, z, u = Split<axis=1, num_outputs=3>(x)",
        outputs="y, z, u",
        opset=18,
    ),
    Case("split/part_unused", "float[2,6,5] x", "y, z, u = Split<axis=1>(x)", outputs="z"),
    Case(
        "split/channels_after_conv",
        "float[2,3,7,9] x",
        "c = Conv(x, w) a, b = Split<axis=1>(c, s) g = Sigmoid(b) y = Conv(a, v) z = Conv(g, u)",
        {"w": (4, 3, 3, 2), "s": i64(1, 3), "v": (5, 1, 2, 3), "u": (2, 3, 1, 2)},
        outputs="y, z",
    ),
    Case("split/int64", "int64[2,6] x", "y, z = Split<axis=1>(x)", outputs="y, z"),
]

# Slice
SLICES = {
    "one_axis": ((1,), (3,), (1,), None),
    "two_axes": ((1, 0), (3, 4), (1, 2), None),
    "negative_starts": ((-3,), (-1,), (2,), None),
    "negative_axis": ((1,), (4,), (-1,), None),
    "end_clamped": ((1,), (1000,), (2,), None),
    "int64_max": ((1,), (2**63 - 1,), (1,), None),
    "start_clamped": ((-1000,), (2,), (2,), None),
    "steps": ((0, 1), (6, 7), (2, 3), (2, 3)),
    "reverse": ((-1,), (-1000,), (2,), (-1,)),
    "reverse_int64_min": ((-1,), (-(2**63),), (3,), (-1,)),
    "reverse_steps": ((5,), (0,), (2,), (-2,)),
    "reverse_two": ((3, -1), (0, -6), (1, 3), (-1, -2)),
    "reverse_from_behind_the_end": ((1000,), (1,), (2,), (-1,)),
}
for name, (starts, ends, axes, steps) in SLICES.items():
    weights = {"b": i64(*starts), "e": i64(*ends), "a": i64(*axes), **({"s": i64(*steps)} if steps else {})}
    simple(f"slice/{name}", "2,4,6,7", f"y = Slice(x, b, e, a{', s' if steps else ''})", weights)
    simple(
        f"slice/{name}_int32_indices",
        "2,4,6,7",
        f"y = Slice(x, b, e, a{', s' if steps else ''})",
        {k: np.clip(v, -(2**31), 2**31 - 1).astype(np.int32) for k, v in weights.items()},
    )
    simple(
        f"slice/{name}_after_conv",
        "1,3,8,9",
        f"c = Conv(x, w) y = Slice(c, b, e, a{', s' if steps else ''})",
        {"w": (4, 3, 3, 3), **weights},
    )
    if not steps:
        join = lambda values: ",".join(map(str, values))  # noqa: E731
        simple(
            f"slice/{name}_opset_7",
            "2,4,6,7",
            f"y = Slice<axes=[{join(axes)}], starts=[{join(starts)}], ends=[{join(ends)}]>(x)",
            opset=7,
        )
simple(
    "slice/disputed_end",
    "5,3",
    "y = Slice(x, b, e, a, s)",
    {"b": i64(3), "e": i64(2**31 - 1), "a": i64(0), "s": i64(-1)},
)
# XNNPACK takes an end of 0 for the end of an axis of unknown size.
for begin in (0, 3, -2):
    CASES.append(
        Case(
            f"slice/empty_of_unknown_size_from_{begin}",
            "float[2,N,M] x",
            "y = Slice(x, b, e, a)",
            {"b": i64(begin, 1), "e": i64(0, -1), "a": i64(1, 2)},
            shapes={"x": (2, 6, 5)},
        )
    )
simple("slice/default_axes", "2,4,6", "y = Slice(x, b, e)", {"b": i64(0, 1), "e": i64(1, 3)})
simple("slice/default_axes_opset_9", "2,4,6", "y = Slice<starts=[0,1], ends=[1,3]>(x)", opset=9)
CASES.append(
    Case(
        "slice/from_the_lowest_number_opset_9",
        "float[N,4,6] x",
        f"y = Slice<starts=[{-(2**63)},{-(2**63)},0], ends=[2,{2**63 - 1},{-(2**63)}]>(x) z = Slice<starts=[{-(2**63)},1], ends=[-1,3]>(x)",
        opset=9,
        outputs="y, z",
        shapes={"x": (3, 4, 6)},
    )
)
simple("slice/5d", "2,3,4,5,6", "y = Slice(x, b, e, a)", {"b": i64(1, 2), "e": i64(3, 5), "a": i64(1, 4)})
simple("slice/6d", "2,3,4,2,3,5", "y = Slice(x, b, e, a)", {"b": i64(1, 2), "e": i64(3, 5), "a": i64(1, 5)})
for dtype in ("int32", "int64", "bool", "double", "uint8", "float16"):
    simple(
        f"slice/{dtype}",
        "5,7",
        "y = Slice(x, b, e, a, s)",
        {"b": i64(-1), "e": i64(-6), "a": i64(1), "s": i64(-2)},
        dtype=dtype,
    )
simple(
    "slice/focus",
    "1,3,8,10",
    "a = Slice(x, b, e, h, s) y = Slice(a, b, e, w, s)",
    {"b": i64(1), "e": i64(2**63 - 1), "h": i64(2), "w": i64(3), "s": i64(2)},
)

# Gather
for axis in (0, 1, 2, -1):
    size = (4, 5, 6)[axis]
    for name, indices in {
        "vector": i64(2, 0, 3, 3),
        "scalar": np.int64(1),
        "matrix": i64(0, 2, 1, 1, 3, 0).reshape(2, 3),
        "negative": i64(-1, -size, 1),
        "int32": np.array([1, 0], np.int32),
        "negative_scalar": np.int64(-1),
    }.items():
        simple(f"gather/axis_{axis}_{name}", "4,5,6", f"y = Gather<axis={axis}>(x, i)", {"i": indices})
CASES += [
    Case("gather/default_axis", "float[4,5] x", "y = Gather(x, i)", {"i": i64(1, 3)}, opset=7),
    Case("gather/embedding", "int64[2,3] i", "y = Gather(t, i)", {"t": (5, 7)}),
    Case("gather/embedding_int32", "int32[2,3] i", "y = Gather(t, i)", {"t": (5, 7)}),
    Case(
        "gather/negative_at_run_time", "float[4,5,6] x, int64[3] i", "y = Gather<axis=1>(x, i)", ranges={"i": (-5, 5)}
    ),
    Case(
        "gather/negative_at_run_time_int32",
        "float[4,5,6] x, int32[3] i",
        "y = Gather<axis=2>(x, i)",
        ranges={"i": (-6, 6)},
    ),
    Case(
        "gather/channels_after_conv",
        "float[2,3,7,9] x",
        "c = Conv(x, w) y = Gather<axis=1>(c, i)",
        {"w": (4, 3, 3, 2), "i": i64(3, 0)},
    ),
    Case(
        "gather/scalar_channel_after_conv",
        "float[2,3,7,9] x",
        "c = Conv(x, w) y = Gather<axis=1>(c, i)",
        {"w": (4, 3, 3, 2), "i": np.int64(2)},
    ),
]
for dtype in ("int32", "int64", "bool", "double", "uint8", "float16"):
    simple(f"gather/of_{dtype}", "4,5", "y = Gather<axis=1>(x, i)", {"i": i64(3, 0)}, dtype=dtype)

# Pad
PADS = {
    "2d": ("3,4", (1, 0, 2, 3)),
    "spatial": ("2,3,4,5", (0, 0, 1, 2, 0, 0, 3, 1)),
    "channels": ("2,3,4,5", (0, 1, 0, 0, 0, 2, 0, 0)),
    "all": ("2,3,4,5", (1, 1, 1, 1, 1, 2, 3, 4)),
    "3d": ("3,4,5", (0, 1, 2, 0, 2, 1)),
}
for name, (dims, pads) in PADS.items():
    text = ",".join(map(str, pads))
    simple(f"pad/constant_{name}", dims, "y = Pad(x, p)", {"p": i64(*pads)})
    simple(f"pad/value_{name}", dims, 'y = Pad<mode="constant">(x, p, v)', {"p": i64(*pads), "v": np.float32(-1.5)})
    simple(f"pad/value_{name}_opset_7", dims, f"y = Pad<pads=[{text}], value=2.5>(x)", opset=7)
    for mode in ("reflect", "edge"):
        if mode == "reflect" and name == "all":
            continue  # as wide as the tensor itself
        simple(f"pad/{mode}_{name}", dims, f'y = Pad<mode="{mode}">(x, p)', {"p": i64(*pads)})
        simple(f"pad/{mode}_{name}_opset_9", dims, f'y = Pad<mode="{mode}", pads=[{text}]>(x)', opset=9)
    simple(f"pad/wrap_{name}_opset_18", dims, 'y = Pad<mode="wrap">(x, p)', {"p": i64(*pads)}, opset=18)
    simple(f"pad/wrap_{name}", dims, 'y = Pad<mode="wrap">(x, p)', {"p": i64(*pads)}, opset=19)
simple("pad/negative_crops", "4,6", "y = Pad(x, p)", {"p": i64(-1, 0, 0, -2)})
simple("pad/negative_and_positive", "4,6", "y = Pad(x, p, v)", {"p": i64(-1, 2, 3, -2), "v": np.float32(7)})
simple("pad/nothing", "4,6", "y = Pad(x, p)", {"p": i64(0, 0, 0, 0)})
simple("pad/axes_opset_18", "2,3,4,5", "y = Pad(x, p, , a)", {"p": i64(1, 2, 3, 0), "a": i64(3, 1)}, opset=18)
simple(
    "pad/negative_axes_opset_18",
    "2,3,4,5",
    "y = Pad(x, p, v, a)",
    {"p": i64(1, 2), "v": np.float32(3), "a": i64(-2)},
    opset=18,
)
simple("pad/5d", "2,3,4,5,6", "y = Pad(x, p)", {"p": i64(0, 0, 1, 2, 0, 0, 0, 1, 0, 3)})
simple("pad/reflect_wide", "2,7", 'y = Pad<mode="reflect">(x, p)', {"p": i64(0, 6, 0, 5)})
simple("pad/edge_wide", "2,3", 'y = Pad<mode="edge">(x, p)', {"p": i64(0, 7, 0, 5)})
simple(
    "pad/minus_infinity",
    "3,4",
    "y = Pad(x, p, v) z = Exp(y)",
    {"p": i64(1, 0, 2, 3), "v": np.float32(-np.inf)},
    outputs="z",
)
for dtype in ("int32", "int64", "uint8", "double", "bool"):
    simple(f"pad/{dtype}", "3,4", "y = Pad(x, p)", {"p": i64(1, 0, 2, 3)}, dtype=dtype)
simple(
    "pad/reflect_before_conv",
    "1,3,7,9",
    'p = Pad<mode="reflect">(x, q) y = Conv(p, w)',
    {"q": i64(0, 0, 1, 1, 0, 0, 1, 1), "w": (4, 3, 3, 3)},
)
simple(
    "pad/edge_before_pool",
    "1,3,7,9",
    'p = Pad<mode="edge">(x, q) y = MaxPool<kernel_shape=[3,2]>(p)',
    {"q": i64(0, 0, 1, 1, 0, 0, 1, 1)},
)
simple(
    "pad/zero_before_max_pool",
    "1,3,7,9",
    "p = Pad(x, q) y = MaxPool<kernel_shape=[3,2]>(p)",
    {"q": i64(0, 0, 1, 1, 0, 0, 1, 1)},
    ranges={"x": (-9, -1)},
)

# Expand and Tile
for name, (dims, shape) in {
    "last": ("2,3,1", (2, 3, 4)),
    "first": ("3,4", (2, 3, 4)),
    "both_ways": ("3,1", (2, 1, 4)),
    "one_keeps": ("3,4", (1, 1)),
    "scalar": ("1", (2, 3)),
    "5d": ("2,1,4,1,3", (2, 5, 4, 6, 3)),
}.items():
    simple(f"expand/{name}", dims, "y = Expand(x, s)", {"s": i64(*shape)})
for dtype in ("int32", "int64", "bool", "double"):
    simple(f"expand/{dtype}", "3,1", "y = Expand(x, s)", {"s": i64(2, 3, 4)}, dtype=dtype)
for name, (dims, repeats) in {
    "1d": ("3", (4,)),
    "2d": ("2,3", (3, 2)),
    "3d": ("2,3,4", (1, 2, 3)),
    "once": ("2,3", (1, 1)),
    "4d": ("2,3,4,5", (2, 1, 1, 3)),
}.items():
    simple(f"tile/{name}", dims, "y = Tile(x, r)", {"r": i64(*repeats)})
simple("tile/opset_7", "2,3", "y = Tile(x, r)", {"r": i64(3, 2)}, opset=7)
for dtype in ("int32", "int64", "bool", "double"):
    simple(f"tile/{dtype}", "2,3", "y = Tile(x, r)", {"r": i64(3, 2)}, dtype=dtype)
simple(
    "tile/channels_after_conv", "1,3,7,9", "c = Conv(x, w) y = Tile(c, r)", {"w": (4, 3, 3, 2), "r": i64(1, 2, 1, 3)}
)

# Shapes and constants
simple("shape/whole", "2,3,4", "y = Shape(x)")
simple("shape/start_end", "2,3,4,5", "y = Shape<start=1, end=-1>(x)", opset=15)
simple("shape/start_negative", "2,3,4,5", "y = Shape<start=-2>(x)", opset=15)
simple("size/plain", "2,3,4", "y = Size(x)")
CASES += [
    Case("shape/dynamic_batch", "float[N,3,4] x", "y = Shape(x)", shapes={"x": (6, 3, 4)}),
    Case(
        "shape/arithmetic",
        "float[2,3,8,10] x",
        "s = Shape(x) h = Gather(s, two) q = Div(h, k) u = Unsqueeze(q, z) w = Slice(s, three, four) t = Concat<axis=0>(six, u, w) y = Reshape(x, m)"
        ' r = Resize<mode="nearest">(x, , , s) v = Add(y, o)',
        {
            "two": np.int64(2),
            "k": np.int64(4),
            "z": i64(0),
            "three": i64(3),
            "four": i64(4),
            "six": i64(-1),
            "m": i64(6, 80),
            "o": np.float32(1),
        },
        outputs="v, t, r",
    ),
    Case("constant/value", "float[2,3] x", "c = Constant<value = float[3] {1.0, -2.0, 0.5}>() y = Add(x, c)"),
    Case("constant/value_float", "float[2,3] x", "c = Constant<value_float = 1.5>() y = Add(x, c)"),
    Case("constant/value_floats", "float[2,3] x", "c = Constant<value_floats = [1.5, 2.0, -1.0]>() y = Add(x, c)"),
    Case("constant/value_int", "int64[2,3] x", "c = Constant<value_int = 7>() y = Add(x, c)"),
    Case("constant/value_ints", "int64[2,3] x", "c = Constant<value_ints = [7, -1, 2]>() y = Add(x, c)"),
    Case(
        "constant/as_output", "float[2,3] x", "y = Relu(x) z = Constant<value = float[2] {1.0, -2.0}>()", outputs="y, z"
    ),
    Case(
        "constant/initializer_as_output", "float[2,3] x", "y = Relu(x) z = Identity(k)", {"k": (4, 5)}, outputs="y, z"
    ),
    Case(
        "constant_of_shape/default",
        "float[2,3] x",
        "c = ConstantOfShape(s) y = Add(x, c)",
        {"s": i64(4, 2, 3)},
        outputs="float[4,2,3] y",
    ),
    Case(
        "constant_of_shape/value",
        "float[2,3] x",
        "c = ConstantOfShape<value = float[1] {2.5}>(s) y = Mul(x, c)",
        {"s": i64(2, 3)},
        outputs="float[2,3] y",
    ),
    Case(
        "constant_of_shape/int64",
        "int64[2,3] x",
        "c = ConstantOfShape<value = int64[1] {5}>(s) y = Add(x, c)",
        {"s": i64(2, 3)},
        outputs="int64[2,3] y",
    ),
    Case(
        "constant_of_shape/as_weight",
        "float[1,3,7,9] x",
        "w = ConstantOfShape<value = float[1] {0.25}>(s) y = Conv(x, w)",
        {"s": i64(4, 3, 3, 2)},
        outputs="float[1,4,5,8] y",
    ),
    Case(
        "constant_of_shape/of_the_input",
        "float[2,3] x",
        "s = Shape(x) c = ConstantOfShape<value = float[1] {1.0}>(s) y = Sub(c, x)",
        outputs="float[2,3] y",
    ),
    Case(
        "range/constant",
        "float[5] x",
        "r = Range(a, b, d) y = Mul(x, r)",
        {"a": np.float32(1), "b": np.float32(11), "d": np.float32(2)},
        outputs="float[5] y",
    ),
    Case(
        "range/backwards",
        "int64[3] x",
        "r = Range(a, b, d) y = Mul(x, r)",
        {"a": np.int64(9), "b": np.int64(0), "d": np.int64(-3)},
        outputs="int64[3] y",
    ),
    Case(
        "range/of_the_largest_numbers",
        "int64 x",
        "r = Range(a, b, d) y = Max(x, r)",
        {"a": np.int64(-(2**63)), "b": np.int64(2**63 - 1), "d": np.int64(2**62)},
        outputs="int64[A] y",
    ),
    Case(
        "range/disputed_count",
        "int64 x",
        "r = Range(a, b, d) y = Max(x, r)",
        {"a": np.int64(2**62), "b": np.int64(2**62 + 3), "d": np.int64(1)},
        outputs="int64[A] y",
    ),
    Case(
        "range/limit_that_is_reached_in_f32_only",  # -0.7 + 26 * 1.3 is 33.1
        "float x",
        "r = Range(a, b, d) y = Mul(x, r)",
        {"a": np.float32(-0.7), "b": np.float32(33.1), "d": np.float32(1.3)},
        outputs="float[A] y",
    ),
    *(  # more elements than a file stores; RANGE counts in f32, where 1.9 goes into the second one less often
        Case(
            f"range/long_{name}",
            "float x",
            "r = Range(a, b, d) q = Cast<to=1>(r) y = Mul(x, q)",
            {key: dtype(number) for key, number in zip("abd", numbers, strict=True)},
            outputs="float[A] y",
        )
        for name, dtype, numbers in [
            ("float", np.float32, (0, 100000, 1)),
            ("float_count", np.float32, (0.9, 131973, 1.9)),
            ("float_backwards", np.float32, (70000.5, -30000, -0.75)),
            ("float64", np.float64, (100000, 0, -1)),
            ("float64_fractions", np.float64, (0, 1, 1e-5)),
        ]
    ),
    Case(
        "range/up_to_a_difference_below_0",
        "float[N] x",
        "s = Shape(x) q = Squeeze(s) d = Sub(q, five) y = Range(zero, d, one)",
        {"five": np.int64(5), "zero": np.int64(0), "one": np.int64(1)},
        shapes={"x": (3,)},
        outputs="int64[A] y",
    ),
    Case(
        "range/of_shape",
        "float[2,5] x",
        "s = Shape(x) n = Gather(s, one) r = Range(zero, n, one) f = Cast<to=1>(r) y = Add(x, f)",
        {"zero": np.int64(0), "one": np.int64(1)},
        outputs="float[2,5] y",
    ),
    *(  # (0.3 - 0) / 0.1 is 3 in f32, and more in f64, in which ONNX Runtime counts
        Case(
            f"range/floats_at_run_time_{name}",
            "float a, float b, float c" if name == "all" else "float b",
            "y = Range(a, b, c)",
            {} if name == "all" else {"a": np.float32(start), "c": np.float32(step)},
            feeds={
                key: np.array(number, np.float32)
                for key, number in zip("abc", (start, end, step), strict=True)
                if name == "all" or key == "b"
            },
            outputs="float[K] y",
        )
        for name, start, end, step in [("up", 0, 0.3, 0.1), ("down", 1, 0.3, -0.1), ("all", -29.3, -21.7, 0.4)]
    ),
    *(  # the count needs all digits of f64
        Case(
            f"range/float64_{name}",
            "double x",
            "r = Range(a, b, c) y = Add(r, x)",
            {key: np.float64(number) for key, number in zip("abc", numbers, strict=True)},
            outputs="double[K] y",
        )
        for name, numbers in {
            "tenths": (1.0, 1.3, 0.1),
            "hundred": (100, 100.3, 0.1),
            "down": (1.3, 1.0, -0.1),
            "empty": (1, 0, 0.1),
        }.items()
    ),
    Case(
        "range/float64_of_large_numbers",
        "float x",
        "r = Range(a, b, c) f = Cast<to=1>(r) s = Shape(r) y = Mul(f, x)",
        {"a": np.float64(2**24), "b": np.float64(2**24 + 5), "c": np.float64(1)},
        outputs="float[K] y, int64[1] s",
    ),
    Case(
        "range/float64_of_integers_at_run_time",
        "int64 a, int64 b",
        "p = Cast<to=11>(a) q = Cast<to=11>(b) r = Range(p, q, d) y = Cast<to=7>(r)",
        {"d": np.float64(2)},
        feeds={"a": np.array(2**24 + 1), "b": np.array(2**24 + 8)},
        outputs="int64[K] y",
    ),
    Case(
        "range/float64_at_run_time",
        "double b",
        "y = Range(a, b, d)",
        {"a": np.float64(1), "d": np.float64(0.1)},
        feeds={"b": np.array(1.3)},
        outputs="double[K] y",
    ),
    Case(
        "range/at_run_time",
        "int32 n",
        "y = Range(a, n, d)",
        {"a": np.int32(0), "d": np.int32(2)},
        feeds={"n": np.array(9, np.int32)},
        outputs="int32[K] y",
    ),
]

# Numbers that are computed from extents may be negative, unlike extents.
for name, compared in {
    "less": "Less(d, m)",
    "greater": "Greater(d, m)",
    "greater_or_equal": "GreaterOrEqual(d, m)",
}.items():
    CASES.append(
        Case(
            f"shape/difference_{name}",
            "float[N] x",
            f"s = Shape(x) d = Sub(s, ten) y = {compared}",
            {"ten": i64(10), "m": i64(-1)},
            opset=16,
            shapes={"x": (3,)},
            outputs="bool[1] y",
        )
    )
for name, body in {
    "quotient": "q = Div(d, three) t = Add(q, five)",
    "quotient_of_one_less": "e = Add(d, nine) q = Div(e, five) t = Add(q, three)",
    "divisor": "q = Div(nine, d) t = Add(q, five)",
}.items():
    CASES.append(
        Case(
            f"shape/{name}_of_a_difference",
            "float[N] x",
            f"s = Shape(x) d = Sub(s, ten) {body} y = ConstantOfShape(t)",
            {"ten": i64(10), "three": i64(3), "five": i64(5), "nine": i64(9)},
            shapes={"x": (3,)},
            outputs="float[A] y",
        )
    )
CASES += [
    Case(
        "range/to_a_negative_difference",
        "float[N] x",
        "s = Shape(x) q = Squeeze(s) d = Sub(q, ten) r = Range(zero, d, one) c = Shape(r) t = Add(c, five)"
        " y = ConstantOfShape(t)",
        {"ten": np.int64(10), "zero": np.int64(0), "one": np.int64(1), "five": i64(5)},
        shapes={"x": (3,)},
        outputs="float[A] y",
    ),
    Case(
        "reshape/list_by_an_extent",
        "float[N,N] x, float[M] z",
        "s = Shape(x) l = Shape(z) r = Reshape(s, l) t = Expand(r, two) y = ConstantOfShape(t)",
        {"two": i64(2)},
        shapes={"x": (3, 3), "z": (2,)},
        outputs="float[A,B] y",
    ),
    # Extents that only values tell, of which some are made of the result.
    Case(
        "slice/cut_map_with_two_users",
        "float[1,3,H,W] x",
        """c = Conv(x, v) s = Slice(c, b, e, a) p = Softmax<axis=3>(s) q = Conv(s, w)""",
        {
            "v": np.linspace(-1, 1, 3, dtype=np.float32).reshape(1, 3, 1, 1),
            "w": np.linspace(-1, 2, 18, dtype=np.float32).reshape(2, 1, 3, 3),
            "b": i64(2, 2),
            "e": i64(-1, -1),
            "a": i64(2, 3),
        },
        shapes={"x": (1, 3, 11, 12)},
        outputs="float[1,1,A,B] p, float[1,2,C,D] q",
    ),
    # A part of an axis may have no element, and so have parts of it.
    Case(
        "slice/first_of_the_rest",
        "float[N,3] x",
        "t = Slice(x, one, far, ax) u = Slice(t, zero, one, ax) s = Shape(u) f = Cast<to=1>(s) g = Gather(f, zero)"
        " y = Mul(x, g)",
        {"zero": i64(0), "one": i64(1), "far": i64(2**63 - 1), "ax": i64(0)},
        shapes={"x": (1, 3)},
        outputs="float[A,B] y",
    ),
    Case(
        "slice/last_of_the_rest",
        "float[N,3] x",
        "t = Slice(x, one, far, ax) u = Slice(t, last, far, ax) v = Slice(t, zero, last, ax) s = Shape(u) r = Shape(v)"
        " d = Concat<axis=0>(s, r) e = Add(d, one) y = ConstantOfShape(e)",
        {"zero": i64(0), "one": i64(1), "last": i64(-1), "far": i64(2**63 - 1), "ax": i64(0)},
        shapes={"x": (1, 3)},
        outputs="float[A,B,C,D] y",
    ),
    Case(
        "reshape/turned_map_that_is_an_output",
        "float[A,B,2] x, float[7,1,8,2] y",
        """r = Reshape(x, a) t = Transpose<perm=[0,2,1,3]>(r) w = Transpose<perm=[0,1,3,2]>(t) m = MatMul(y, w)
        c = Transpose<perm=[0,2,1,3]>(m) z = Reshape(c, b)""",
        {"a": i64(7, 0, 1, -1), "b": i64(7, -1, 8)},
        shapes={"x": (7, 3, 2)},
        outputs="float[7,1,C,D] t, float[7,E,8] z",
    ),
    Case(
        "squeeze/five_axes_of_one",
        "float[1,1,1,1,1] x",
        "e = Exp(x) y = Squeeze(e, ax)",
        {"ax": i64(0)},
        outputs="float[1,1,1,1] y",
    ),
]
