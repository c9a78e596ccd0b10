"""GridSample, AffineGrid, Col2Im, MaxUnpool, DeformConv, RoiAlign: images sampled and put together.

Positions beyond the image, and on its borders, decide these: grids reach from -1.6 to 1.6.
"""

import numpy as np

from case import Case

CASES = []

for mode, modern in (("bilinear", "linear"), ("nearest", "nearest"), ("bicubic", "cubic")):
    for padding in ("zeros", "border", "reflection"):
        for corners in (0, 1):
            attributes = f'padding_mode="{padding}", align_corners={corners}'
            CASES.append(Case(f"grid_sample/{mode}_{padding}_corners_{corners}", "float[2,3,5,7] x, float[2,4,6,2] g",
                              f'y = GridSample<mode="{mode}", {attributes}>(x, g)', opset=16, ranges={"g": (-1.6, 1.6)}))
            if mode != "bicubic":
                CASES.append(Case(f"grid_sample/3d_{mode}_{padding}_corners_{corners}",
                                  "float[2,3,4,5,6] x, float[2,2,3,4,3] g",
                                  f'y = GridSample<mode="{modern}", {attributes}>(x, g)', opset=20, ranges={"g": (-1.6, 1.6)}))
CASES += [
    Case("grid_sample/far_away", "float[1,3,5,7] x, float[1,4,6,2] g", "y = GridSample(x, g)", opset=20,
         ranges={"g": (-1e12, 1e12)}),
    Case("grid_sample/one_image_then_conv", "float[1,3,5,7] x, float[1,4,6,2] g",
         'c = Conv(x, w) s = GridSample<mode="bilinear">(c, g) y = Conv(s, v)', {"w": (4, 3, 1, 1), "v": (2, 4, 3, 3)}, opset=16),
    Case("grid_sample/dynamic_batch", "float[N,3,5,7] x, float[N,4,6,2] g", 'y = GridSample<mode="bilinear">(x, g)', opset=16,
         shapes={"x": (3, 3, 5, 7), "g": (3, 4, 6, 2)}),
    Case("affine_grid/2d", "float[2,2,3] t", "y = AffineGrid(t, s)", {"s": np.array([2, 3, 5, 7], np.int64)}, opset=20),
    Case("affine_grid/2d_corners", "float[2,2,3] t", "y = AffineGrid<align_corners=1>(t, s)",
         {"s": np.array([2, 3, 5, 7], np.int64)}, opset=20),
    Case("affine_grid/3d", "float[2,3,4] t", "y = AffineGrid(t, s)", {"s": np.array([2, 3, 4, 5, 6], np.int64)}, opset=20),
    Case("col2im/overlapping", "float[2,18,50] x", "y = Col2Im(x, image, block)",
         {"image": np.array([6, 12], np.int64), "block": np.array([2, 3], np.int64)}, opset=18, outputs="float[2,3,6,12] y"),
    Case("col2im/strides_pads_dilations", "float[2,12,16] x",
         "y = Col2Im<strides=[2,3], pads=[1,0,2,1], dilations=[1,2]>(x, image, block)",
         {"image": np.array([5, 13], np.int64), "block": np.array([2, 2], np.int64)}, opset=18, outputs="float[2,3,5,13] y"),
    Case("max_unpool/of_max_pool", "float[2,3,6,8] x",
         "p, i = MaxPool<kernel_shape=[2,2], strides=[2,2]>(x) y = MaxUnpool<kernel_shape=[2,2], strides=[2,2]>(p, i)"),
    Case("deform_conv/pads_strides_bias_mask", "float[2,3,7,9] x, float[2,18,4,5] o, float[2,9,4,5] m",
         "y = DeformConv<pads=[1,1,1,1], strides=[2,2]>(x, w, o, b, m)", {"w": (4, 3, 3, 3), "b": (4,)}, opset=19,
         ranges={"o": (-3, 3)}),
    Case("deform_conv/groups_offset_groups_dilations", "float[2,6,8,9] x, float[2,24,6,5] o",
         "y = DeformConv<group=3, offset_group=2, dilations=[2,2], pads=[0,0,0,0]>(x, w, o)", {"w": (6, 2, 2, 3)}, opset=19,
         ranges={"o": (-2, 2)}),
]
for mode in ("avg", "max"):
    for version, transform in ((10, ""), (16, 'coordinate_transformation_mode="half_pixel", '),
                               (16, 'coordinate_transformation_mode="output_half_pixel", ')):
        name = f"roi_align/{mode}_{transform.split('=')[1][1:-3] if transform else 'opset_10'}"
        CASES.append(Case(name, "float[2,3,9,11] x, float[5,4] r, int64[5] i",
                          f'y = RoiAlign<{transform}mode="{mode}", output_height=3, output_width=4, sampling_ratio=2, spatial_scale=0.5>(x, r, i)',
                          opset=version, feeds=None, ranges={"i": (0, 2), "r": (-4, 24)}))
