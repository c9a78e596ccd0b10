# SPDX-License-Identifier: Apache-2.0
"""Shapes computed inside the graph, as exporters write them, over dimensions that are known only at run time.

Each chain stands once with dynamic and once with fixed inputs; with fixed ones nothing may be left of it.
"""

import numpy as np

from tests.support.case import Case, i64

CASES = []


def chain(name, inputs, sizes, body, weights=None, outputs="y", **more):
    """`inputs` holds {letter} for a dynamic dimension; `sizes` gives its run-time value."""
    fixed, dynamic = inputs, inputs
    for letter, value in sizes.items():
        fixed = fixed.replace("{" + letter + "}", str(value))
        dynamic = dynamic.replace("{" + letter + "}", letter)
    shapes = {}
    for one in fixed.split("] "):
        if "[" in one:
            dims = tuple(int(d) for d in one.split("[")[1].split(",") if d)
            rest = fixed.split(one + "] ")[1]
            shapes[rest.split(",")[0].strip()] = dims

    def spelled(text, values):
        for letter in sizes:
            text = text.replace("{" + letter + "}", str(values(letter)))
        return text

    CASES.append(
        Case(
            f"symbolic/{name}",
            dynamic,
            body,
            weights or {},
            shapes=shapes,
            outputs=spelled(outputs, lambda k: k),
            **more,
        )
    )
    CASES.append(
        Case(f"symbolic/{name}_fixed", fixed, body, weights or {}, outputs=spelled(outputs, lambda k: sizes[k]), **more)
    )


ZERO, ONE, TWO, THREE = (np.int64(v) for v in range(4))
NUMBERS = {
    "zero": ZERO,
    "one": ONE,
    "two": TWO,
    "three": THREE,
    "l0": i64(0),
    "l1": i64(1),
    "l2": i64(2),
    "l3": i64(3),
    "m1": i64(-1),
}

# More axes than the kernel takes, and one without elements: LiteRT's RESHAPE takes a -1 beside a 0 for 0.
chain(
    "concat_of_7_axes_without_elements",
    "float[{n},2,0,3,5,2,4] a, float[1,2,0,3,5,2,4] b",
    {"n": 2},
    "y = Concat<axis=0>(a, b)",
)

# PyTorch: x.view(x.size(0), -1)
chain(
    "view_batch",
    "float[{N},3,4,5] x",
    {"N": 6},
    "s = Shape(x) n = Gather<axis=0>(s, zero) u = Unsqueeze(n, l0) t = Concat<axis=0>(u, m1) y = Reshape(x, t)",
    NUMBERS,
    outputs="float[{N},60] y",
)
# PyTorch: F.interpolate(x, (2h, 2w)) as torch.cat([shape[:2], [h*2, w*2]])
chain(
    "interpolate_twice",
    "float[1,3,{H},{W}] x",
    {"H": 4, "W": 5},
    "s = Shape(x) h = Gather<axis=0>(s, two) w = Gather<axis=0>(s, three) h2 = Mul(h, two) w2 = Mul(w, two)"
    " hu = Unsqueeze(h2, l0) wu = Unsqueeze(w2, l0) f = Slice(s, l0, l2) t = Concat<axis=0>(f, hu, wu)"
    ' y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , , t)',
    NUMBERS,
    outputs="float[1,3,A,B] y",
)
# PyTorch: attention heads over a dynamic batch and sequence
chain(
    "attention_heads",
    "float[{N},{S},12] x",
    {"N": 2, "S": 5},
    "s = Shape(x) n = Gather<axis=0>(s, zero) t = Gather<axis=0>(s, one) nu = Unsqueeze(n, l0) tu = Unsqueeze(t, l0)"
    " f = Concat<axis=0>(nu, tu, l3, four) h = Reshape(x, f) p = Transpose<perm=[0,2,1,3]>(h)"
    " q = Transpose<perm=[0,2,3,1]>(h) a = MatMul(p, q) b = Softmax<axis=-1>(a) c = MatMul(b, p)"
    " d = Transpose<perm=[0,2,1,3]>(c) g = Concat<axis=0>(nu, tu, twelve) y = Reshape(d, g)",
    {**NUMBERS, "four": i64(4), "twelve": i64(12)},
    outputs="float[{N},{S},12] y",
)
# (h + w + k + 1)^8 mod 7 + 1 has more terms than a polynomial may have. ones: [1, 1]
chain(
    "eighth_power",
    "float[{H},{W},{K}] x",
    {"H": 2, "W": 3, "K": 4},
    "s = Shape(x) h = Slice(s, l0, l1) w = Slice(s, l1, l2) k = Slice(s, l2, l3) a = Add(h, w) b = Add(a, k)"
    " c = Add(b, l1) p = Mul(c, c) q = Mul(p, p) r = Mul(q, q) m = Mod(r, l7) n = Add(m, l1)"
    " t = Concat<axis=0>(n, h) e = Expand(v, t) u = Concat<axis=0>(h, n) g = Reshape(e, u) z = ReduceSum<keepdims=0>(x)"
    " y = Add(g, z)",
    {**NUMBERS, "l7": i64(7), "v": (1, 1)},
    outputs="float[{H},N] y",
)
# TF: Shape -> Cast -> StridedSlice -> Concat -> Cast -> Reshape
chain(
    "tensorflow_reshape",
    "float[{N},3,4] x",
    {"N": 6},
    "s = Shape(x) c = Cast<to=6>(s) n = Slice(c, l0, l1) q = Squeeze(n, l0) u = Unsqueeze(q, l0) t = Concat<axis=0>(u, k)"
    " d = Cast<to=7>(t) y = Reshape(x, d)",
    {**NUMBERS, "k": np.array([2, 6], np.int32)},
    outputs="float[{N},2,6] y",
)
# Paddle: sizes by Shape, Slice, Cast, Concat; H/32 rounds down
chain(
    "paddle_like_another",
    "float[1,3,{H},{W}] x, float[1,3,{P},{Q}] z",
    {"H": 4, "W": 5, "P": 8, "Q": 10},
    "s = Shape(z) c = Cast<to=6>(s) hw = Slice(c, l2, l4) i = Cast<to=7>(hw) o = Shape(x) f = Slice(o, l0, l2)"
    ' t = Concat<axis=0>(f, i) r = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , , t)'
    " y = Add(r, z)",
    {**NUMBERS, "l4": i64(4)},
    outputs="float[1,3,{P},{Q}] y",
)
chain(
    "halves_by_slicing",
    "float[2,{C},5] x",
    {"C": 6},
    "s = Shape(x) c = Gather<axis=0>(s, one) h = Div(c, two) u = Unsqueeze(h, l0) a = Slice(x, l0, u, l1)"
    " e = Unsqueeze(c, l0) b = Slice(x, u, e, l1) y = Concat<axis=1>(b, a)",
    NUMBERS,
    outputs="float[2,{C},5] y",
)
chain(
    "positions",
    "int64[{N},{S}] i",
    {"N": 2, "S": 5},
    "s = Shape(i) t = Gather<axis=0>(s, one) r = Range(zero, t, one) p = Gather<axis=0>(k, r) e = Gather<axis=0>(w, i) y = Add(e, p)",
    {**NUMBERS, "k": (16, 4), "w": (9, 4)},
    ranges={"i": (0, 9)},
    outputs="float[{N},{S},4] y",
)
chain(
    "positions_sliced",
    "float[{N},{S},4] x",
    {"N": 2, "S": 5},
    "s = Shape(x) t = Gather<axis=0>(s, one) u = Unsqueeze(t, l0) p = Slice(k, l0, u, l1) y = Add(x, p)",
    {**NUMBERS, "k": (1, 16, 4)},
    outputs="float[{N},{S},4] y",
)
chain(
    "causal_mask",
    "float[{N},{S},{S}] x",
    {"N": 2, "S": 5},
    "s = Shape(x) t = Slice(s, l1, l3) o = ConstantOfShape<value = float[1] {1.0}>(t) m = Trilu<upper=0>(o) b = Cast<to=9>(m) y = Where(b, x, k)",
    {**NUMBERS, "k": np.float32(-9)},
    opset=14,
    outputs="float[{N},{S},{S}] y",
)
chain(
    "expand_as",
    "float[{N},1,4] x, float[{N},{S},4] z",
    {"N": 2, "S": 5},
    "s = Shape(z) e = Expand(x, s) y = Mul(e, z)",
    outputs="float[{N},{S},4] y",
)
chain(
    "expand_ones",
    "float[1,1,4] x, float[{N},{S},4] z",
    {"N": 2, "S": 5},
    "s = Shape(z) f = Slice(s, l0, l2) t = Concat<axis=0>(f, k) e = Expand(x, t) y = Concat<axis=-1>(e, z)",
    {**NUMBERS, "k": i64(1)},
    outputs="float[{N},{S},8] y",
)
chain(
    "expand_where_minus_one",
    "float[1,4] x, float[{N},3] z",
    {"N": 2},
    "s = Shape(z) n = Gather<axis=0>(s, zero) u = Unsqueeze(n, l0) t = Concat<axis=0>(u, m1) a = ConstantOfShape<value = int64[1] {1}>(l2)"
    " q = Equal(t, m1) w = Where(q, a, t) y = Expand(x, w)",
    NUMBERS,
    outputs="float[{N},4] y",
)
chain("flatten", "float[{N},{C},3,4] x", {"N": 2, "C": 5}, "y = Flatten<axis=2>(x)", outputs="float[A,12] y")
chain("flatten_batch", "float[{N},{C},3,4] x", {"N": 2, "C": 5}, "y = Flatten(x)", outputs="float[{N},A] y")
chain(
    "squeeze_and_back",
    "float[{N},1,{S},4] x",
    {"N": 2, "S": 5},
    "a = Squeeze(x, l1) b = Relu(a) y = Unsqueeze(b, u)",
    {**NUMBERS, "u": i64(0, -1)},
    outputs="float[1,{N},{S},4,1] y",
)
chain(
    "split",
    "float[{N},6,{S}] x",
    {"N": 2, "S": 5},
    "y, z = Split<axis=1>(x)",
    outputs="float[{N},3,{S}] y, float[{N},3,{S}] z",
)
chain("split_dynamic_axis", "float[3,{S}] x", {"S": 8}, "y, z = Split<axis=1>(x)", outputs="float[3,A] y, float[3,A] z")
chain(
    "tile_by_shape",
    "float[1,4] x, float[{N},3] z",
    {"N": 5},
    "s = Shape(z) n = Slice(s, l0, l1) t = Concat<axis=0>(n, l1) y = Tile(x, t)",
    NUMBERS,
    outputs="float[{N},4] y",
)
chain(
    "gather_last",
    "float[{N},{S},4] x",
    {"N": 2, "S": 5},
    "y = Gather<axis=1>(x, k)",
    {"k": np.int64(-1)},
    outputs="float[{N},4] y",
)
chain(
    "gather_elements",
    "float[{N},6] x, int64[{N},3] i",
    {"N": 4},
    "y = GatherElements<axis=1>(x, i)",
    ranges={"i": (-6, 6)},
    outputs="float[{N},3] y",
)
chain(
    "gather_nd_batch",
    "float[{N},6,3] x, int64[{N},2,1] i",
    {"N": 4},
    "y = GatherND<batch_dims=1>(x, i)",
    ranges={"i": (-6, 6)},
    outputs="float[{N},2,3] y",
)
chain(
    "scatter_nd",
    "float[{N},6] x, float[2,6] u",
    {"N": 4},
    "y = ScatterND(x, k, u)",
    {"k": i64(3, 1).reshape(2, 1)},
    outputs="float[{N},6] y",
)
chain(
    "scatter_elements",
    "float[{N},6] x, float[{N},2] u",
    {"N": 4},
    "s = Shape(u) c = ConstantOfShape<value = int64[1] {0}>(s) i = Add(c, k) y = ScatterElements<axis=1>(x, i, u)",
    {"k": i64(4, -5)},
    outputs="float[{N},6] y",
)
chain(
    "scatter_elements_of_a_row",
    "float[{N},5,6] x, float[{N},1,6] u",
    {"N": 4},
    "s = Shape(u) k = Expand(c, s) y = ScatterElements<axis=1>(x, k, u)",
    {"c": i64(3)},
    outputs="float[{N},5,6] y",
)
chain(
    "pad_edge",
    "float[1,2,{H},{W}] x",
    {"H": 4, "W": 5},
    'y = Pad<mode="edge">(x, p)',
    {"p": i64(0, 0, 2, 3, 0, 0, 1, 2)},
    outputs="float[1,2,A,B] y",
)
chain(
    "pad_reflect",
    "float[1,2,{H},{W}] x",
    {"H": 4, "W": 5},
    'y = Pad<mode="reflect">(x, p)',
    {"p": i64(0, 0, 2, 3, 0, 0, 1, 2)},
    outputs="float[1,2,A,B] y",
)
chain(
    "pad_to_multiple",
    "float[1,2,{H},{W}] x",
    {"H": 5, "W": 6},
    "s = Shape(x) h = Slice(s, l2, l3) r = Mod(h, four) d = Sub(four, r) e = Mod(d, four) t = Concat<axis=0>(z, e, l0) y = Pad(x, t)",
    {**NUMBERS, "four": i64(4), "z": i64(0, 0, 0, 0, 0, 0)},
    outputs="float[1,2,A,{W}] y",
)
chain(
    "slice_middle",
    "float[{N},{S},4] x",
    {"N": 2, "S": 7},
    "y = Slice(x, l1, m1, l1)",
    NUMBERS,
    outputs="float[{N},A,4] y",
)
chain(
    "slice_last_two",
    "float[{N},{S},4] x",
    {"N": 2, "S": 7},
    "y = Slice(x, k, e, l1)",
    {**NUMBERS, "k": i64(-2), "e": i64(2**63 - 1)},
    outputs="float[{N},2,4] y",
)
chain(
    "slice_backwards",
    "float[{N},{S},4] x",
    {"N": 2, "S": 7},
    "y = Slice(x, m1, e, l1, m1)",
    {**NUMBERS, "e": i64(-(2**63))},
    outputs="float[{N},{S},4] y",
)
chain(
    "slice_every_other",
    "float[{N},{S},4] x",
    {"N": 2, "S": 7},
    "y = Slice(x, l0, e, l1, l2)",
    {**NUMBERS, "e": i64(2**31 - 1)},
    outputs="float[{N},A,4] y",
)
# Lists of a length that is known at run time only. Another list of the node, which has the same length, tells it.
NUMBERED = np.arange(120, dtype=np.float32).reshape(4, 5, 6)
for name, opset, inputs, body, weights, feeds, outputs in (
    (
        "slice_starts_and_ends",
        13,
        "float[4,5,6] x, int64[N] a, int64[N] b",
        "y = Slice(x, a, b, k)",
        {"k": i64(1, 2)},
        {"x": NUMBERED, "a": i64(1, 2), "b": i64(4, -1)},
        "float[4,A,B] y",
    ),
    (
        "slice_starts",
        13,
        "float[4,5,6] x, int64[N] a",
        "y = Slice(x, a, b, k)",
        {"b": i64(4), "k": i64(1)},
        {"x": NUMBERED, "a": i64(1)},
        "float[4,A,6] y",
    ),
    (
        "slice_starts_and_steps",
        13,
        "float[4,5,6] x, int64[N] a, int64[2] k, int64[M] s",
        "y = Slice(x, a, b, k, s)",
        {"b": i64(4, 5)},
        {"x": NUMBERED, "a": i64(1, 0), "k": i64(0, 2), "s": i64(1, 2)},
        "float[A,B,C] y",
    ),
    (
        "pad_axes",
        18,
        "float[4,5,6] x, int64[4] p, int64[N] k",
        "y = Pad(x, p, , k)",
        {},
        {"x": NUMBERED, "p": i64(1, 2, -1, 3), "k": i64(2, 1)},
        "float[A,B,C] y",
    ),
    (
        "affine_grid_size",
        20,
        "float[2,2,3] x, int64[N] s",
        "y = AffineGrid(x, s)",
        {},
        {"x": NUMBERED.ravel()[:12].reshape(2, 2, 3), "s": i64(2, 3, 4, 5)},
        "float[A,B,C,2] y",
    ),
):
    CASES.append(Case(f"symbolic/length_of_{name}", inputs, body, weights, opset=opset, outputs=outputs, feeds=feeds))
# ONNX Runtime takes a list of pads with an axis of 1 before it.
CASES.append(
    Case(
        "symbolic/pads_of_rank_2",
        "float[4,5,6] x, int64[1,6] p",
        "y = Pad(x, p)",
        outputs="float[A,B,C] y",
        feeds={"x": NUMBERED, "p": i64(1, 2, -1, 3, 0, 0).reshape(1, 6)},
    )
)
chain(
    "size_as_divisor",
    "float[{N},3] x",
    {"N": 4},
    "n = Size(x) f = Cast<to=1>(n) y = Div(x, f)",
    outputs="float[{N},3] y",
)
chain(
    "channels_first_and_back",
    "float[{N},3,{H},{W}] x",
    {"N": 2, "H": 4, "W": 5},
    "s = Shape(x) n = Slice(s, l0, l2) t = Concat<axis=0>(n, m1) a = Reshape(x, t) b = Softmax<axis=-1>(a) y = Reshape(b, s)",
    NUMBERS,
    outputs="float[{N},3,{H},{W}] y",
)
chain(
    "channel_shuffle",
    "float[{N},6,{H},{W}] x",
    {"N": 2, "H": 4, "W": 5},
    "s = Shape(x) n = Gather<axis=0>(s, zero) h = Gather<axis=0>(s, two) w = Gather<axis=0>(s, three) nu = Unsqueeze(n, l0)"
    " hu = Unsqueeze(h, l0) wu = Unsqueeze(w, l0) t = Concat<axis=0>(nu, l2, l3, hu, wu) a = Reshape(x, t)"
    " b = Transpose<perm=[0,2,1,3,4]>(a) u = Concat<axis=0>(nu, m1, hu, wu) y = Reshape(b, u)",
    NUMBERS,
    outputs="float[{N},6,{H},{W}] y",
)
chain(
    "one_hot_depth",
    "int64[{N}] i, float[3,{D}] z",
    {"N": 4, "D": 5},
    "s = Shape(z) d = Gather<axis=0>(s, one) y = OneHot(i, d, v)",
    {**NUMBERS, "v": np.array([0, 1], np.float32)},
    ranges={"i": (-5, 5)},
    outputs="float[{N},{D}] y",
)
chain(
    "compress_and_where", "float[{N},3] x, bool[{N}] c", {"N": 6}, "y = Compress<axis=0>(x, c)", outputs="float[A,3] y"
)
chain("non_zero", "int64[{N},3] x", {"N": 4}, "y = NonZero(x)", ranges={"x": (0, 2)}, outputs="int64[2,A] y")
# A wrapped border, and windows with gaps, of extents that are known at run time only.
chain(
    "pad_wrap",
    "float[1,2,{H},{W}] x",
    {"H": 4, "W": 5},
    'y = Pad<mode="wrap">(x, p)',
    {"p": i64(0, 0, 2, 3, 0, 0, 1, 2)},
    outputs="float[1,2,A,B] y",
    opset=19,
)
chain(
    "pad_wrap_beyond_and_crop",
    "float[2,{H},{W}] x",
    {"H": 4, "W": 3},
    'y = Pad<mode="wrap">(x, p)',
    {"p": i64(0, -1, 7, 0, 5, 4)},
    outputs="float[2,A,B] y",
    opset=19,
)
for name, attributes in {
    "": "kernel_shape=[3,2], dilations=[2,3]",
    "_pads": "kernel_shape=[3,3], dilations=[2,3], pads=[2,1,0,2]",
    "_strides": "kernel_shape=[3,2], dilations=[2,3], strides=[2,3]",
    "_ceil": "kernel_shape=[3,2], dilations=[2,3], strides=[3,2], pads=[1,1,0,1], ceil_mode=1",
}.items():
    for kind in ("float", "int8"):
        chain(
            f"max_pool_dilations{name}_{kind}",
            kind + "[2,3,{H},{W}] x",
            {"H": 12, "W": 14},
            f"y = MaxPool<{attributes}>(x)",
            outputs=kind + "[2,3,A,B] y",
        )
chain(
    "max_pool_dilations_one_axis",
    "float[2,3,11,{W}] x",
    {"W": 14},
    "r = Relu(x) y = MaxPool<kernel_shape=[3,3], dilations=[2,1], pads=[1,1,1,1], strides=[2,2]>(r)",
    outputs="float[2,3,A,B] y",
)
chain(
    "max_pool_dilations_short",
    "float[2,3,{W}] x",
    {"W": 4},
    "y = MaxPool<kernel_shape=[3], dilations=[2], strides=[3]>(x)",
    outputs="float[2,3,A] y",
)
# The product of an extent and a scale is rounded as f32.
for name, attributes in {
    "nearest": 'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"',
    "linear": 'mode="linear", coordinate_transformation_mode="pytorch_half_pixel"',
    "cubic": 'mode="cubic", coordinate_transformation_mode="half_pixel"',
    "nearest_align_corners": 'mode="nearest", coordinate_transformation_mode="align_corners"',
}.items():
    chain(
        f"resize_{name}_fractional_scales",
        "float[1,2,{H},{W}] x",
        {"H": 6, "W": 10},
        f"y = Resize<{attributes}>(x, , k)",
        {"k": np.float32([1, 1, 1.5, 0.7])},
        outputs="float[1,2,A,B] y",
    )
chain(
    "resize_fractional_scale_of_one_axis",
    "float[{N},2,7,{W}] x",
    {"N": 2, "W": 10},
    'y = Resize<mode="linear", coordinate_transformation_mode="half_pixel">(x, , k)',
    {"k": np.float32([1, 1, 2, 1.3])},
    outputs="float[{N},2,14,A] y",
)
chain(
    "upsample_fractional_scales",
    "float[1,2,{H},{W}] x",
    {"H": 6, "W": 10},
    'y = Upsample<mode="linear">(x, k)',
    {"k": np.float32([1, 1, 1.5, 2.3])},
    outputs="float[1,2,A,B] y",
    opset=9,
)
# Pads that are known at run time only leave the channels open, which the weights know.
for group, filters in ((6, (6, 1, 3, 3)), (2, (4, 3, 3, 3))):
    CASES.append(
        Case(
            f"symbolic/grouped_conv_of_run_time_pads_{group}",
            "float[1,6,H,W] x, int64[8] p",
            f"b = Pad(x, p) r = Relu(b) y = Conv<group={group}, strides=[2,2]>(r, w)",
            {"w": filters},
            feeds={
                "x": np.sin(np.arange(6 * 5 * 7, dtype=np.float32)).reshape(1, 6, 5, 7),
                "p": i64(0, 0, 1, 0, 0, 0, 1, 2),
            },
            outputs=f"float[1,{filters[0]},A,B] y",
        )
    )
# Exporters write "None" for any open axis: it is no name, and the axes differ.
CASES.append(
    Case(
        "symbolic/axes_named_none",
        "float[1,3,None,None] x",
        'c = Conv<strides=[2,2], pads=[1,1,1,1]>(x, w) s = Shape(x) hw = Slice(s, l2, l4) t = Concat<axis=0>(n, hw) y = Resize<mode="linear">(c, , , t)',
        {"w": (5, 3, 3, 3), "l2": i64(2), "l4": i64(4), "n": i64(1, 5)},
        outputs="float[1,5,A,B] y",
        shapes={"x": (1, 3, 8, 12)},
    )
)
# A bound that is one of a joined list is taken from where it comes from, as in the masks of GPT-2.
chain(
    "bounds_of_two_axes_in_one_list",
    "float[{N},2,{P},4] a, float[{N},2,{S},4] b",
    {"N": 2, "P": 5, "S": 3},
    "k = Concat<axis=2>(a, b) sk = Shape(k) sb = Shape(b) t = Slice(sk, l2, l3) s = Slice(sb, l2, l3) p = Sub(t, s) "
    "f = Concat<axis=0>(p, l0) e = Concat<axis=0>(t, t) y = Slice(m, f, e, axes)",
    {**NUMBERS, "m": (1, 1, 16, 16), "axes": i64(2, 3)},
    outputs="float[1,1,A,B] y",
)
# Extents in 32 bits wrap, which no formula of extents says; a list that has such an element is computed at run time.
chain(
    "extents_wrap_in_32_bits",
    "float[{N},4096] x",
    {"N": 3},
    "s = Shape(x) i = Cast<to=6>(s) m = Mul(i, k) a = Slice(m, l1, l2) w = Cast<to=7>(m) b = Slice(w, l1, l2) y = Add(b, l1)",
    {**NUMBERS, "k": np.int32([1, 1000000])},
    outputs="int32[1] a, int64[1] y",
)
# The extent that -1 stands for is no number here, and so the RESHAPE has two open extents, as in Swin's windows. The
# product must not be computed in the shape of the second RESHAPE, whose extent would be read from its own result.
for first in ("matmul", "softmax"):
    step = {"matmul": "b = MatMul(a, w)", "softmax": "b = Softmax<axis=-1>(a)"}[first]
    chain(
        f"two_open_extents_before_{first}",
        "float[{N},16,2,6] x, float[{M},5] z",
        {"N": 3, "M": 3},
        f"t = Shape(z) m = Slice(t, l0, l1) q = Concat<axis=0>(m, k16, m1) a = Reshape(x, q) {step} y = Reshape(b, k)",
        {**NUMBERS, "k16": i64(16), "k": i64(-1, 4, 4, 12), **({"w": (12, 12)} if first == "matmul" else {})},
        outputs="float[A,4,4,12] y",
        opset=17,
    )
