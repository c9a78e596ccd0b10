# SPDX-License-Identifier: Apache-2.0
"""Resize and Upsample, DepthToSpace and SpaceToDepth.

TFLite resizes with half_pixel_centers, align_corners, or neither (asymmetric); its nearest rounds differently from
each of ONNX's nearest_modes. Sizes that are no multiples show the difference.
"""

import dataclasses
import re

import numpy as np

from tests.support.case import Case, f32, i64

CASES = []


def resize(name, dims, attributes, scales=None, sizes=None, opset=13, roi=None, axes=None, **more):
    weights = {}
    if roi is not None:
        weights["r"] = np.array(roi, np.float32)
    if scales is not None:
        weights["k"] = np.array(scales, np.float32)
    if sizes is not None:
        weights["n"] = np.array(sizes, np.int64)
    attributes = f"<{attributes}>" if attributes else ""
    arguments = f"x, {'r' if roi is not None else ''}, {'k' if scales is not None else ''}" + (
        ", n" if sizes is not None else ""
    )
    CASES.append(
        Case("resize/" + name, f"float[{dims}] x", f"y = Resize{attributes}({arguments})", weights, opset=opset, **more)
    )


UP, DOWN, ODD = ([1, 1, 2, 3], (1, 3, 10, 18)), ([1, 1, 0.5, 0.5], (1, 3, 4, 5)), ([1, 1, 1.6, 2.4], (1, 3, 8, 14))
for transform in ("half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"):
    opset = 19 if transform == "half_pixel_symmetric" else 13
    how = f'coordinate_transformation_mode="{transform}"'
    for size, dims, (scales, sizes) in (("up", "1,3,5,6", UP), ("down", "1,3,8,10", DOWN), ("odd", "1,3,5,6", ODD)):
        resize(f"linear_{transform}_{size}_scales", dims, f'mode="linear", {how}', scales, opset=opset)
        resize(f"linear_{transform}_{size}_sizes", dims, f'mode="linear", {how}', sizes=sizes, opset=opset)
        for nearest in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
            resize(
                f"nearest_{nearest}_{transform}_{size}_scales",
                dims,
                f'mode="nearest", nearest_mode="{nearest}", {how}',
                scales,
                opset=opset,
            )
        resize(
            f"nearest_floor_{transform}_{size}_sizes",
            dims,
            f'mode="nearest", nearest_mode="floor", {how}',
            sizes=sizes,
            opset=opset,
        )
        resize(f"cubic_{transform}_{size}_scales", dims, f'mode="cubic", {how}', scales, opset=opset)
resize(
    "nearest_tf_half_pixel_for_nn",
    "1,3,5,6",
    'mode="nearest", coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor"',
    UP[0],
    opset=11,
    roi=[],
)
resize("defaults", "1,3,5,6", "", UP[0])
resize(
    "nearest_opset_11",
    "1,3,5,6",
    'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"',
    UP[0],
    opset=11,
    roi=[],
)
resize(
    "linear_opset_11", "1,3,5,6", 'mode="linear", coordinate_transformation_mode="half_pixel"', UP[0], opset=11, roi=[]
)
resize(
    "linear_opset_11_align_corners",
    "1,3,5,6",
    'mode="linear", coordinate_transformation_mode="align_corners"',
    UP[0],
    opset=11,
    roi=[],
)
for mode in ("nearest", "linear"):
    CASES.append(
        Case(
            f"resize/{mode}_opset_10",
            "float[1,3,5,6] x",
            f'y = Resize<mode="{mode}">(x, k)',
            {"k": f32(*UP[0])},
            opset=10,
        )
    )
    CASES.append(
        Case(
            f"resize/{mode}_opset_10_down",
            "float[1,3,8,10] x",
            f'y = Resize<mode="{mode}">(x, k)',
            {"k": f32(*DOWN[0])},
            opset=10,
        )
    )
resize(
    "crop_and_resize",
    "1,3,5,6",
    'mode="linear", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=0.5',
    sizes=(1, 3, 7, 8),
    roi=[0, 0, 0.2, 0.1, 1, 1, 1.1, 0.8],
)
# The positions depend on extents that only the run knows, whatever tells the sizes.
for mode in ("nearest", "linear", "cubic"):
    for name, given in {"sizes": i64(1, 3, 7, 8), "scales": f32(1, 1, 2, 0.5)}.items():
        CASES.append(
            Case(
                f"resize/crop_{mode}_dynamic_{name}",
                "float[1,3,H,W] x",
                f'y = Resize<mode="{mode}", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=0.5>'
                f"(x, r, {', n' if name == 'sizes' else 'n'})",
                {"r": f32(0, 0, 0.2, 0.1, 1, 1, 1.1, 0.8), "n": given},
                shapes={"x": (1, 3, 5, 6)},
                outputs="float[1,3,A,B] y",
            )
        )
# The positions are infinite or, as differences of such numbers, no numbers at all: all are outside.
for mode in ("nearest", "linear", "cubic"):
    CASES.append(
        Case(
            f"resize/crop_of_the_largest_region_{mode}",
            "float[1,3,5,6] x",
            f'y = Resize<mode="{mode}", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=0.5>'
            "(x, r, , n)",
            {"r": f32(0, 0, 3e38, -3e38, 1, 1, -3e38, 3e38), "n": i64(1, 3, 7, 8)},
            numpy=lambda inputs, weights: {"y": np.full((1, 3, 7, 8), 0.5, np.float32)},
        )
    )
CASES.append(
    Case(
        "resize/crop_and_resize_of_integers",
        "int32[1,3,5,6] x",
        'y = Resize<mode="nearest", coordinate_transformation_mode="tf_crop_and_resize", extrapolation_value=-2.5>(x, r, , n)',
        {"r": f32(0, 0, 0.2, 0.1, 1, 1, 1.1, 0.8), "n": i64(1, 3, 7, 8)},
        opset=13,
    )
)
resize("cubic_coefficient", "1,3,5,6", 'mode="cubic", cubic_coeff_a=-0.5', UP[0])
resize("cubic_exclude_outside", "1,3,5,6", 'mode="cubic", exclude_outside=1', UP[0])
resize("linear_antialias_down", "1,3,8,10", 'mode="linear", antialias=1', DOWN[0], opset=18)
resize("cubic_antialias_down", "1,3,8,10", 'mode="cubic", antialias=1', DOWN[0], opset=18)
resize("antialias_up_changes_nothing", "1,3,5,6", 'mode="linear", antialias=1', UP[0], opset=18)
resize("axes", "1,3,5,6", 'mode="linear", axes=[2,3]', [2, 3], opset=18)
resize("axes_swapped", "1,3,5,6", 'mode="nearest", nearest_mode="floor", axes=[3,2]', [3, 2], opset=18)
resize("axes_sizes", "1,3,5,6", 'mode="nearest", nearest_mode="floor", axes=[2,3]', sizes=(10, 18), opset=18)
resize(
    "keep_aspect_ratio_not_larger",
    "1,3,5,6",
    'mode="nearest", nearest_mode="floor", axes=[2,3], keep_aspect_ratio_policy="not_larger"',
    sizes=(11, 20),
    opset=18,
)
resize(
    "keep_aspect_ratio_not_smaller",
    "1,3,5,6",
    'mode="nearest", nearest_mode="floor", axes=[2,3], keep_aspect_ratio_policy="not_smaller"',
    sizes=(11, 20),
    opset=18,
)
resize("one_axis_only", "1,3,5,6", 'mode="linear"', [1, 1, 1, 2.5])
resize("nothing", "1,3,5,6", 'mode="linear"', [1, 1, 1, 1])
resize(
    "channels_too",
    "1,2,5,6",
    'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"',
    [1, 2, 1, 2],
)
resize("to_one_pixel", "1,3,5,6", 'mode="linear", coordinate_transformation_mode="align_corners"', sizes=(1, 3, 1, 1))
resize(
    "to_one_pixel_pytorch",
    "1,3,5,6",
    'mode="linear", coordinate_transformation_mode="pytorch_half_pixel"',
    sizes=(1, 3, 1, 1),
)
resize("from_one_pixel", "2,3,1,1", 'mode="linear"', sizes=(2, 3, 5, 7))
resize("1d_linear", "2,3,7", 'mode="linear"', [1, 1, 2])
resize(
    "1d_nearest",
    "2,3,7",
    'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"',
    [1, 1, 3],
)
resize("2d_linear", "5,7", 'mode="linear"', [2, 3])
resize(
    "3d_nearest",
    "1,2,3,4,5",
    'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"',
    [1, 1, 2, 3, 2],
)
resize("3d_linear", "1,2,3,4,5", 'mode="linear"', [1, 1, 2, 3, 2])
resize("opset_17", "1,3,5,6", 'mode="linear"', UP[0], opset=17)
resize("opset_21", "1,3,5,6", 'mode="linear"', UP[0], opset=21)
CASES += [
    Case("resize/nhwc", "float[1,5,6,3] x", 'y = Resize<mode="linear">(x, , k)', {"k": f32(1, 2, 3, 1)}),
    Case(
        "resize/between_convolutions",
        "float[1,3,7,9] x",
        'a = Conv(x, w) b = Resize<mode="linear">(a, , k) y = Conv(b, v)',
        {"w": (4, 3, 3, 2), "k": f32(1, 1, 2, 2), "v": (5, 4, 2, 3)},
    ),
    Case(
        "resize/sizes_from_another_branch",
        "float[1,3,7,9] x",
        "a = Conv(x, w) p = MaxPool<kernel_shape=[2,2], strides=[2,2]>(a) s = Shape(a) h = Slice(s, two, four) q = Shape(p) c = Slice(q, zero, two) "
        't = Concat<axis=0>(c, h) r = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(p, , , t) y = Add(r, a)',
        {"w": (4, 3, 2, 2), "zero": i64(0), "two": i64(2), "four": i64(4)},
        outputs="float[1,4,6,8] y",
    ),
    Case(
        "resize/int32",
        "int32[1,3,5,6] x",
        'y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , k)',
        {"k": f32(1, 1, 2, 3)},
    ),
    Case(
        "resize/uint8",
        "uint8[1,3,5,6] x",
        'y = Resize<mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor">(x, , k)',
        {"k": f32(1, 1, 2, 3)},
    ),
]
for mode in ("nearest", "linear"):
    for size, scales in {"integer": UP[0], "odd": ODD[0]}.items():
        CASES.append(
            Case(
                f"upsample/{mode}_{size}_opset_9",
                "float[1,3,5,6] x",
                f'y = Upsample<mode="{mode}">(x, k)',
                {"k": f32(*scales)},
                opset=9,
            )
        )
        CASES.append(
            Case(
                f"upsample/{mode}_{size}_opset_7",
                "float[1,3,5,6] x",
                f'y = Upsample<mode="{mode}", scales=[{",".join(str(float(s)) for s in scales)}]>(x)',
                opset=7,
            )
        )
CASES.append(Case("upsample/default_mode", "float[1,3,5,6] x", "y = Upsample(x, k)", {"k": f32(1, 1, 2, 3)}, opset=9))

for block in (2, 3):
    for mode in ("DCR", "CRD"):
        CASES.append(
            Case(
                f"depth_to_space/{mode.lower()}_block_{block}",
                f"float[2,{2 * block * block},3,5] x",
                f'y = DepthToSpace<blocksize={block}, mode="{mode}">(x)',
            )
        )
    CASES.append(
        Case(
            f"space_to_depth/block_{block}",
            f"float[2,3,{2 * block},{4 * block}] x",
            f"y = SpaceToDepth<blocksize={block}>(x)",
        )
    )
CASES += [
    Case("depth_to_space/opset_7", "float[2,12,3,5] x", "y = DepthToSpace<blocksize=2>(x)", opset=7),
    Case(
        "depth_to_space/after_conv",
        "float[1,3,5,6] x",
        "c = Conv(x, w) y = DepthToSpace<blocksize=2>(c)",
        {"w": (8, 3, 3, 2)},
    ),
    Case(
        "depth_to_space/crd_after_conv",
        "float[1,3,5,6] x",
        'c = Conv(x, w) y = DepthToSpace<blocksize=2, mode="CRD">(c)',
        {"w": (8, 3, 3, 2)},
    ),
    Case(
        "space_to_depth/before_conv",
        "float[1,3,8,6] x",
        "c = SpaceToDepth<blocksize=2>(x) y = Conv(c, w)",
        {"w": (5, 12, 3, 2)},
    ),
]

# Sizes that only the run knows, taken from another tensor: kernels where they agree for all sizes, else computed positions.
BODY = """s = Shape(x) t = Shape(z) n = Slice(s, zero, two) p = Slice(t, two, four) sizes = Concat<axis=0>(n, p)
          y = Resize<{}>(x, , , sizes)"""
BOUNDS = {name: i64(value) for name, value in (("zero", 0), ("two", 2), ("four", 4))}
for name, attributes in [
    ("nearest_asymmetric_floor", 'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"'),
    ("nearest_default", 'mode="nearest"'),
    ("nearest_ceil_corners", 'mode="nearest", coordinate_transformation_mode="align_corners", nearest_mode="ceil"'),
    ("nearest_prefer_ceil", 'mode="nearest", nearest_mode="round_prefer_ceil"'),
    ("linear", 'mode="linear"'),
    ("linear_pytorch", 'mode="linear", coordinate_transformation_mode="pytorch_half_pixel"'),
    ("linear_corners", 'mode="linear", coordinate_transformation_mode="align_corners"'),
    ("linear_symmetric", 'mode="linear", coordinate_transformation_mode="half_pixel_symmetric"'),
    ("linear_asymmetric", 'mode="linear", coordinate_transformation_mode="asymmetric"'),
]:
    for size in ((7, 11), (1, 9), (3, 4)):
        CASES.append(
            Case(
                f"resize/run_time_{name}_{size[0]}x{size[1]}",
                "float[1,3,H,W] x, float[1,2,P,Q] z",
                BODY.format(attributes),
                BOUNDS,
                opset=19,
                outputs="float[1,3,P,Q] y",
                shapes={"x": (1, 3, 5, 6), "z": (1, 2, *size)},
            )
        )
# An axis whose extent turns out to stay is left alone, though the formula moves by half a pixel.
CASES.append(
    Case(
        "resize/run_time_size_that_stays",
        "float[1,3,H,W] x, float[1,2,P,Q] z",
        BODY.format(
            'mode="nearest", nearest_mode="ceil", coordinate_transformation_mode="tf_half_pixel_for_nn"',
        ),
        BOUNDS,
        opset=19,
        outputs="float[1,3,P,Q] y",
        shapes={"x": (1, 3, 5, 6), "z": (1, 2, 5, 8)},
    )
)
for name, attributes in (
    ("nearest", 'mode="nearest"'),
    ("linear", 'mode="linear"'),
    ("pytorch", 'mode="linear", coordinate_transformation_mode="pytorch_half_pixel"'),
):
    CASES.append(
        Case(
            f"resize/run_time_twice_{name}",
            "float[1,3,H,W] x",
            f"y = Resize<{attributes}>(x, , scales)",
            {"scales": f32(1, 1, 2, 2)},
            opset=19,
            outputs="float[1,3,P,Q] y",
            shapes={"x": (1, 3, 5, 6)},
        )
    )

# Axes too long for a matrix: taps are gathered one after the other.
for name, attributes in (
    ("cubic", 'mode="cubic"'),
    ("linear", 'mode="linear"'),
    ("antialias", 'mode="linear", antialias=1'),
):
    for size in (1100, 300):
        CASES.append(
            Case(
                f"resize/long_axis_{name}_to_{size}",
                "float[1,2,5,700] x",
                f"y = Resize<{attributes}>(x, , , sizes)",
                {"sizes": i64(1, 2, 9, size)},
                opset=19,
            )
        )

# Many taps: products of blocks of the axis.
for name, dims, sizes, attributes in (
    ("last", "1,3,5,2500", (1, 3, 5, 224), 'mode="linear", antialias=1'),
    ("cubic", "1,3,5,4000", (1, 3, 5, 224), 'mode="cubic", antialias=1'),
    ("exclude_outside", "1,3,5,2500", (1, 3, 5, 224), 'mode="cubic", antialias=1, exclude_outside=1'),
    ("height", "1,3,2500,6", (1, 3, 224, 6), 'mode="linear", antialias=1'),
    ("depth", "1,2,2500,3,4", (1, 2, 224, 3, 4), 'mode="linear", antialias=1'),
):
    CASES.append(
        Case(
            f"resize/many_taps_{name}",
            f"float[{dims}] x",
            f"y = Resize<{attributes}>(x, , , sizes)",
            {"sizes": i64(*sizes)},
            opset=19,
        )
    )

CASES.append(
    Case(
        "resize/many_taps_of_any_batch",
        "float[N,3,2500,6] x",
        'y = Resize<mode="linear", antialias=1, axes=[2]>(x, , , sizes)',
        {"sizes": i64(224)},
        opset=19,
        outputs="float[N,3,224,6] y",
        shapes={"x": (2, 3, 2500, 6)},
    )
)

# Axes whose positions are too many for a list in memory: a kernel that agrees, or positions that recipes compute.
FLOOR = 'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"'
for name, dims, attributes, scales in (
    ("nearest_up", "1,3,400", FLOOR, (1, 1, 300)),
    ("nearest_image", "1,2,5,70001", FLOOR, (1, 1, 2, 3)),
    ("nearest_down", "1,3,90000", 'mode="nearest"', (1, 1, 1 / 300)),
    ("nearest_odd", "1,3,70001", 'mode="nearest"', (1, 1, 1.7)),
    ("nearest_scale_beside_2", "1,3,100000", FLOOR, (1, 1, 2.000003)),
    ("linear_up", "1,3,400", 'mode="linear"', (1, 1, 300)),
    ("linear_down", "1,3,120000", 'mode="linear"', (1, 1, 1 / 300)),
    ("linear_half", "1,1,1000000", 'mode="linear"', (1, 1, 0.5)),
    ("linear_scale_beside_2", "1,3,100000", 'mode="linear"', (1, 1, 2.000003)),
    ("cubic_up", "1,2,3,400", 'mode="cubic"', (1, 1, 2, 200)),
):
    CASES.append(
        Case(
            f"resize/long_list_{name}",
            f"float[{dims}] x",
            f"y = Resize<{attributes}>(x, , scales)",
            {"scales": f32(*scales)},
            opset=19,
        )
    )
CASES.append(
    Case("upsample/long_list", "float[1,3,400] x", 'y = Upsample<mode="nearest">(x, k)', {"k": f32(1, 1, 300)}, opset=9)
)


# ---- The same with operands that are inputs of the model ----

CHOSEN = (
    r"resize/((linear|cubic|nearest_(floor|round_prefer_floor))_(?!align).*_(odd|down)_(scales|sizes)|linear_.*_up_scales"
    r"|nearest_(ceil|round_prefer_ceil)_half_pixel_odd_scales|nearest_round_prefer_floor_align_corners_(odd|up)_scales"
    r"|linear_align_corners_(odd|up|down)_sizes|nearest_floor_align_corners_odd_sizes|nearest_tf_half_pixel_for_nn"
    r"|defaults|.*_opset_1[01].*|crop_and_resize|cubic_(coefficient|exclude_outside)|axes.*|keep_aspect.*|one_axis_only"
    r"|nothing|channels_too|(to|from)_one_pixel.*|1d_.*|[23]d_.*|nhwc|int32)|upsample/.*_opset_9"
)


def with_operands_as_inputs(case):
    arrays = case.constants()
    operands = {name: array for name, array in arrays.items() if name in ("k", "n", "r") and array.size}
    types = {"float32": "float", "int64": "int64"}
    extra = "".join(f", {types[array.dtype.name]}[{len(array)}] {name}" for name, array in operands.items())
    dims = [int(n) for n in case.inputs.split("[")[1].split("]")[0].split(",")]
    x = np.random.default_rng(len(case.name)).uniform(-9, 9, dims)
    feeds = {"x": x.astype(np.int32 if case.inputs.startswith("int32") else np.float32), **operands}
    output = f"{case.inputs.split('[')[0]}[{','.join(chr(65 + i) for i in range(len(dims)))}] y"
    return dataclasses.replace(
        case,
        name=case.name + "_at_run_time",
        inputs=case.inputs + extra,
        weights={name: array for name, array in arrays.items() if name not in operands},
        feeds=feeds,
        outputs=output,
    )


CASES += [with_operands_as_inputs(case) for case in CASES if re.fullmatch(CHOSEN, case.name)]


def with_lists_of_two_axes(case):
    """ONNX Runtime does not ask for regions and scales to be lists."""
    lists = {name: array[None] for name, array in case.feeds.items() if name in ("k", "r")}
    return dataclasses.replace(
        case,
        name=case.name.removesuffix("_at_run_time") + "_by_lists_of_two_axes",
        inputs=re.sub(r"\[(\d+)\] ([kr])\b", r"[1,\1] \2", case.inputs),
        feeds=case.feeds | lists,
    )


TWO_AXES = ("resize/crop_and_resize_at_run_time", "resize/linear_half_pixel_up_scales_at_run_time")
CASES += [with_lists_of_two_axes(case) for case in CASES if case.name in TWO_AXES]
