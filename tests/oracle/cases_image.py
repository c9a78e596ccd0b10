# SPDX-License-Identifier: Apache-2.0
"""GridSample, AffineGrid, Col2Im, MaxUnpool, DeformConv, RoiAlign, MaxRoiPool: images sampled and put together.

Positions beyond the image, and on its borders, decide these: grids reach from -1.6 to 1.6.
"""

import numpy as np
import onnx
import onnx.parser

from tests.support import judge
from tests.support.case import Case, f32, i64

CASES = []

for mode, modern in (("bilinear", "linear"), ("nearest", "nearest"), ("bicubic", "cubic")):
    for padding in ("zeros", "border", "reflection"):
        for corners in (0, 1):
            attributes = f'padding_mode="{padding}", align_corners={corners}'
            CASES.append(
                Case(
                    f"grid_sample/{mode}_{padding}_corners_{corners}",
                    "float[2,3,5,7] x, float[2,4,6,2] g",
                    f'y = GridSample<mode="{mode}", {attributes}>(x, g)',
                    opset=16,
                    ranges={"g": (-1.6, 1.6)},
                )
            )
            if mode != "bicubic":
                CASES.append(
                    Case(
                        f"grid_sample/3d_{mode}_{padding}_corners_{corners}",
                        "float[2,3,4,5,6] x, float[2,2,3,4,3] g",
                        f'y = GridSample<mode="{modern}", {attributes}>(x, g)',
                        opset=20,
                        ranges={"g": (-1.6, 1.6)},
                    )
                )
CASES += [
    Case(
        "grid_sample/far_away",
        "float[1,3,5,7] x, float[1,4,6,2] g",
        "y = GridSample(x, g)",
        opset=20,
        ranges={"g": (-1e12, 1e12)},
    ),
    Case(
        "grid_sample/one_image_then_conv",
        "float[1,3,5,7] x, float[1,4,6,2] g",
        'c = Conv(x, w) s = GridSample<mode="bilinear">(c, g) y = Conv(s, v)',
        {"w": (4, 3, 1, 1), "v": (2, 4, 3, 3)},
        opset=16,
    ),
    Case(
        "grid_sample/dynamic_batch",
        "float[N,3,5,7] x, float[N,4,6,2] g",
        'y = GridSample<mode="bilinear">(x, g)',
        opset=16,
        shapes={"x": (3, 3, 5, 7), "g": (3, 4, 6, 2)},
    ),
    Case("affine_grid/2d", "float[2,2,3] t", "y = AffineGrid(t, s)", {"s": np.array([2, 3, 5, 7], np.int64)}, opset=20),
    Case(
        "affine_grid/2d_corners",
        "float[2,2,3] t",
        "y = AffineGrid<align_corners=1>(t, s)",
        {"s": np.array([2, 3, 5, 7], np.int64)},
        opset=20,
    ),
    Case(
        "affine_grid/3d", "float[2,3,4] t", "y = AffineGrid(t, s)", {"s": np.array([2, 3, 4, 5, 6], np.int64)}, opset=20
    ),
    Case(
        "col2im/overlapping",
        "float[2,18,50] x",
        "y = Col2Im(x, image, block)",
        {"image": np.array([6, 12], np.int64), "block": np.array([2, 3], np.int64)},
        opset=18,
        outputs="float[2,3,6,12] y",
    ),
    Case(
        "col2im/strides_pads_dilations",
        "float[2,12,16] x",
        "y = Col2Im<strides=[2,3], pads=[1,0,2,1], dilations=[1,2]>(x, image, block)",
        {"image": np.array([5, 13], np.int64), "block": np.array([2, 2], np.int64)},
        opset=18,
        outputs="float[2,3,5,13] y",
    ),
    Case(
        "max_unpool/of_max_pool",
        "float[2,3,6,8] x",
        "p, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(p, i)",
    ),
    Case(
        "deform_conv/pads_strides_bias_mask",
        "float[2,3,7,9] x, float[2,18,4,5] o, float[2,9,4,5] m",
        "y = DeformConv<pads=[1,1,1,1], strides=[2,2]>(x, w, o, b, m)",
        {"w": (4, 3, 3, 3), "b": (4,)},
        opset=19,
        ranges={"o": (-3, 3)},
    ),
    Case(
        "deform_conv/groups_offset_groups_dilations",
        "float[2,6,8,9] x, float[2,24,6,5] o",
        "y = DeformConv<group=3, offset_group=2, dilations=[2,2], pads=[0,0,0,0]>(x, w, o)",
        {"w": (6, 2, 2, 3)},
        opset=19,
        ranges={"o": (-2, 2)},
    ),
]
for mode in ("avg", "max"):
    for version, transform in (
        (10, ""),
        (16, 'coordinate_transformation_mode="half_pixel", '),
        (16, 'coordinate_transformation_mode="output_half_pixel", '),
    ):
        name = f"roi_align/{mode}_{transform.split('=')[1][1:-3] if transform else 'opset_10'}"
        CASES.append(
            Case(
                name,
                "float[2,3,9,11] x, float[5,4] r, int64[5] i",
                f'y = RoiAlign<{transform}mode="{mode}", output_height=3, output_width=4, sampling_ratio=2, spatial_scale=0.5>(x, r, i)',
                opset=version,
                feeds=None,
                ranges={"i": (0, 2), "r": (-4, 24)},
            )
        )

OUTSIDE = {"g": (-1.9, 1.9)}
CASES += [
    Case(
        "grid_sample/defaults_opset_16",
        "float[2,3,5,7] x, float[2,4,6,2] g",
        "y = GridSample(x, g)",
        opset=16,
        ranges=OUTSIDE,
    ),
    Case(
        "grid_sample/defaults_opset_20",
        "float[2,3,5,7] x, float[2,4,6,2] g",
        "y = GridSample(x, g)",
        opset=20,
        ranges=OUTSIDE,
    ),
    Case(
        "grid_sample/opset_22",
        "float[2,3,5,7] x, float[2,4,6,2] g",
        'y = GridSample<mode="cubic">(x, g)',
        opset=22,
        ranges=OUTSIDE,
    ),
    Case(
        "grid_sample/far_outside",
        "float[2,3,5,7] x, float[2,4,6,2] g",
        'y = GridSample<padding_mode="reflection">(x, g)',
        opset=16,
        ranges={"g": (-9, 9)},
    ),
    Case(
        "grid_sample/ties",
        "float[1,2,4,6] x, float[1,5,7,2] g",
        'y = GridSample<mode="nearest", align_corners=1>(x, g)',
        opset=16,
        feeds={
            "x": np.arange(48, dtype=np.float32).reshape(1, 2, 4, 6),
            "g": np.linspace(-1, 1, 70, dtype=np.float32).reshape(1, 5, 7, 2).round(1),
        },
    ),
    Case(
        "grid_sample/one_pixel",
        "float[1,2,1,6] x, float[1,5,7,2] g",
        'y = GridSample<padding_mode="border", align_corners=1>(x, g)',
        opset=16,
        ranges=OUTSIDE,
    ),
    Case("grid_sample/constant_grid", "float[2,3,5,7] x", "y = GridSample(x, g)", {"g": (2, 4, 6, 2)}, opset=16),
    Case(
        "grid_sample/infinite_beside_the_edge",
        "float[1,1,2,3] x, float[1,1,2,2] g",
        "y = GridSample(x, g)",
        opset=16,
        feeds={"x": f32(np.inf, 1, 2, 3, 4, 5).reshape(1, 1, 2, 3), "g": f32(-1.9, -1, -0.9, -1.9).reshape(1, 1, 2, 2)},
    ),
    Case(
        "grid_sample/dynamic",
        "float[N,3,H,W] x, float[N,P,Q,2] g",
        'y = GridSample<padding_mode="border">(x, g)',
        opset=16,
        ranges=OUTSIDE,
        shapes={"x": [2, 3, 5, 7], "g": [2, 4, 6, 2]},
    ),
    Case(
        "grid_sample/dynamic_reflection",
        "float[N,3,H,W] x, float[N,P,Q,2] g",
        'y = GridSample<padding_mode="reflection", align_corners=1>(x, g)',
        opset=16,
        ranges=OUTSIDE,
        shapes={"x": [2, 3, 5, 7], "g": [2, 4, 6, 2]},
    ),
    Case(
        "grid_sample/between_convolutions",
        "float[1,3,7,9] x, float[1,4,6,2] g",
        "a = Conv(x, w) b = GridSample(a, g) y = Conv(b, v)",
        {"w": (4, 3, 3, 2), "v": (5, 4, 2, 3)},
        opset=16,
        ranges=OUTSIDE,
    ),
]

CASES += [
    Case(
        "affine_grid/size_of_another",
        "float[2,2,3] t, float[2,3,H,W] x",
        "s = Shape(x) g = AffineGrid(t, s) y = GridSample(x, g)",
        opset=20,
        outputs="float[2,3,H,W] y",
        shapes={"x": [2, 3, 5, 7]},
    ),
]
for mode in ("avg", "max"):
    CASES.append(
        Case(
            f"roi_align/{mode}_dynamic_image",
            "float[2,3,H,W] x, float[R,4] r, int64[R] i",
            f'y = RoiAlign<mode="{mode}", output_height=3, output_width=4, sampling_ratio=2, spatial_scale=0.5>(x, r, i)',
            opset=16,
            ranges={"i": (0, 2), "r": (-4, 24)},
            shapes={"x": [2, 3, 9, 11], "r": [5, 4], "i": [5]},
        )
    )

BOXES = f32(
    0, 1, 2, 8, 6, 1, -3, -2, 4, 20, 0, 5, 5, 5, 5, 1, 14, 3, 19, 9, 0, 2.5, 0.5, 10.5, 7.5, 1, 30, 30, 40, 40
).reshape(6, 5)
for name, attributes in {
    "whole": "pooled_shape=[3,4]",
    "scaled": "pooled_shape=[2,3], spatial_scale=0.5",
    "one": "pooled_shape=[1,1]",
}.items():
    CASES.append(
        Case(
            f"max_roi_pool/{name}",
            "float[2,3,9,11] x, float[6,5] r",
            f"y = MaxRoiPool<{attributes}>(x, r)",
            opset=11,
            feeds={"x": np.random.default_rng(5).normal(size=(2, 3, 9, 11)).astype(np.float32), "r": BOXES},
        )
    )


def in_doubles(given, _):
    """What f32 gives: ONNX Runtime has no kernel for f64."""
    text = """<ir_version: 8, opset_import: ["": 11]> g (float[2,3,9,11] x, float[6,5] r) => (float[6,3,2,3] y) {
        y = MaxRoiPool<pooled_shape=[2,3], spatial_scale=0.5>(x, r) }"""
    model = onnx.parser.parse_model(text).SerializeToString()
    made = judge.reference(model, {name: array.astype(np.float32) for name, array in given.items()})
    return {"y": made["y"].astype(np.float64)}


CASES.append(
    Case(
        "max_roi_pool/double",
        "double[2,3,9,11] x, double[6,5] r",
        "y = MaxRoiPool<pooled_shape=[2,3], spatial_scale=0.5>(x, r)",
        opset=11,
        feeds={"x": np.random.default_rng(5).normal(size=(2, 3, 9, 11)), "r": BOXES.astype(np.float64)},
        numpy=in_doubles,
    )
)
CASES.append(
    Case(
        "max_roi_pool/one_image",
        "float[1,3,9,11] x, float[6,5] r",
        "y = MaxRoiPool<pooled_shape=[3,2]>(x, r)",
        opset=11,
        feeds={
            "x": np.random.default_rng(5).normal(size=(1, 3, 9, 11)).astype(np.float32),
            "r": BOXES * f32(0, 1, 1, 1, 1),
        },
    )
)
CASES.append(
    Case(
        "max_unpool/windows_overlap",
        "float[2,3,7,9] x",
        "p, i = MaxPool<kernel_shape=[3,3], strides=[2,2]>(x) y = MaxUnpool<kernel_shape=[3,3], strides=[2,2]>(p, i)",
    )
)

# Indices of windows that overlap, though the attributes of MaxUnpool say nothing of it.
for dtype in ("float", "float16"):
    CASES.append(
        Case(
            f"max_unpool/of_an_overlapping_pool_{dtype}",
            f"{dtype}[2,3,6,8] x",
            "p, i = MaxPool<kernel_shape=[3,3]>(x) y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(p, i)",
        )
    )

# sampling_ratio 0: as many samples as a bin has elements; regions of all sizes, one of them turned inside out.
REGIONS = f32(
    1, 2, 8, 6, -3, -2, 4, 20, 5, 5, 5, 5, 14, 3, 19, 9, 2.5, 0.5, 10.5, 7.5, 0, 0, 22, 18, 7, 7, 3, 3
).reshape(7, 4)
for mode in ("avg", "max"):
    for transform in ("half_pixel", "output_half_pixel"):
        CASES.append(
            Case(
                f"roi_align/{mode}_{transform}_samples_by_size",
                "float[2,3,9,11] x, float[7,4] r, int64[7] i",
                f'y = RoiAlign<mode="{mode}", coordinate_transformation_mode="{transform}", output_height=2, output_width=3, spatial_scale=0.5>(x, r, i)',
                opset=16,
                feeds={
                    "x": np.random.default_rng(5).normal(size=(2, 3, 9, 11)).astype(np.float32),
                    "r": REGIONS,
                    "i": i64(0, 1, 1, 0, 1, 0, 1),
                },
            )
        )
CASES.append(
    Case(
        "roi_align/opset_10_samples_by_size",
        "float[2,3,9,11] x, float[R,4] r, int64[R] i",
        "y = RoiAlign<output_height=2, output_width=3>(x, r, i)",
        opset=10,
        feeds={
            "x": np.random.default_rng(5).normal(size=(2, 3, 9, 11)).astype(np.float32),
            "r": REGIONS,
            "i": i64(0, 1, 1, 0, 1, 0, 1),
        },
    )
)
