# SPDX-License-Identifier: Apache-2.0
"""Constructs that are easily converted into a model that runs and answers wrongly: attributes that must not be ignored,
pads that look like SAME, element order across reshapes, windows of even size, constants that look redundant.
"""

import numpy as np

from tests.oracle.cases_conv import lrn_of
from tests.support.case import Case

CONV = {"w": (4, 3, 3, 2)}

LARGE_MASK = np.triu(np.full((300, 300), -np.inf, np.float32), 1)

CASES = [
    # Softmax has an axis; before opset 13 it flattens the axes from there on.
    *[
        Case(
            f"pitfall/softmax_opset_{opset}_axis_{axis}",
            "float[2,3,4,5] x",
            f"y = Softmax<axis={axis}>(x)",
            opset=opset,
            ranges={"x": (-3, 3)},
        )
        for opset in (11, 13)
        for axis in (0, 1, 2, 3, -2)
    ],
    *[
        Case(
            f"pitfall/softmax_opset_{opset}_over_channels",
            "float[2,3,7,9] x",
            "c = Conv(x, w) y = Softmax<axis=1>(c)",
            CONV,
            opset=opset,
        )
        for opset in (11, 13)
    ],
    # Pools round up with ceil_mode, and have dilations.
    Case(
        "pitfall/max_pool_ceil_mode",
        "float[1,3,8,10] x",
        "y = MaxPool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x)",
    ),
    Case("pitfall/max_pool_dilations", "float[1,3,11,13] x", "y = MaxPool<kernel_shape=[3,2], dilations=[2,3]>(x)"),
    Case(
        "pitfall/max_pool_dilations_pads_strides",
        "float[1,3,12,13] x",
        "y = MaxPool<kernel_shape=[3,2], dilations=[2,3], pads=[2,1,0,1], strides=[2,1]>(x)",
    ),
    Case(
        "pitfall/average_pool_ceil_mode",
        "float[1,3,8,10] x",
        "y = AveragePool<kernel_shape=[3,3], strides=[2,2], ceil_mode=1>(x)",
    ),
    Case(
        "pitfall/average_pool_ceil_mode_count_include_pad",
        "float[1,3,8,10] x",
        "y = AveragePool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1], ceil_mode=1, count_include_pad=1>(x)",
        opset=19,
    ),
    Case(
        "pitfall/average_pool_dilations",
        "float[1,3,11,13] x",
        "y = AveragePool<kernel_shape=[3,2], dilations=[2,3]>(x)",
        opset=19,
    ),
    # Pads that look like SAME and are not: SAME puts 2 before and 3 behind here, the model has 3 and 3.
    Case(
        "pitfall/conv_pad_3_kernel_7_stride_2_even_size",
        "float[1,3,12,14] x",
        "y = Conv<kernel_shape=[7,7], strides=[2,2], pads=[3,3,3,3]>(x, w, b)",
        {"w": (4, 3, 7, 7), "b": (4,)},
    ),
    Case(
        "pitfall/max_pool_pad_3_kernel_7_stride_2_even_size",
        "float[1,3,12,14] x",
        "y = MaxPool<kernel_shape=[7,7], strides=[2,2], pads=[3,3,3,3]>(x)",
    ),
    Case(
        "pitfall/max_pool_pad_1_kernel_3_stride_2_even_size",
        "float[1,3,12,14] x",
        "y = MaxPool<kernel_shape=[3,3], strides=[2,2], pads=[1,1,1,1]>(x)",
    ),
    Case(
        "pitfall/max_pool_pads_of_negative_values",
        "float[1,3,12,14] x",
        "y = MaxPool<kernel_shape=[7,7], strides=[2,2], pads=[3,3,3,3]>(x)",
        ranges={"x": (-9, -3)},
    ),
    # Optional attributes that are absent.
    Case(
        "pitfall/conv_without_strides",
        "float[1,3,7,9] x",
        "y = Conv<kernel_shape=[3,2], pads=[1,1,1,0], dilations=[1,1], group=1>(x, w)",
        CONV,
    ),
    Case("pitfall/conv_without_any_attribute", "float[1,3,7,9] x", "y = Conv(x, w)", CONV),
    Case("pitfall/max_pool_without_strides", "float[1,3,7,9] x", "y = MaxPool<kernel_shape=[3,2]>(x)"),
    Case("pitfall/average_pool_without_strides", "float[1,3,7,9] x", "y = AveragePool<kernel_shape=[3,2]>(x)"),
    Case("pitfall/gemm_without_trans_b", "float[5,7] x", "y = Gemm(x, w, b)", {"w": (7, 3), "b": (3,)}),
    Case("pitfall/gemm_with_trans_b", "float[5,7] x", "y = Gemm<transB=1>(x, w, b)", {"w": (3, 7), "b": (3,)}),
    # A Reshape reads elements in NCHW order, also behind a convolution that is computed in NHWC.
    Case(
        "pitfall/reshape_after_conv",
        "float[2,3,7,9] x",
        "c = Conv(x, w) y = Reshape(c, s)",
        {**CONV, "s": np.array([2, 8, 20])},
    ),
    Case("pitfall/flatten_after_conv", "float[2,3,7,9] x", "c = Conv(x, w) y = Flatten(c)", CONV),
    Case(
        "pitfall/flatten_gemm_after_conv",
        "float[2,3,7,9] x",
        "c = Conv(x, w) f = Flatten(c) y = Gemm<transB=1>(f, v)",
        {**CONV, "v": (6, 160)},
    ),
    # An even window reaches one channel further up than down.
    *[
        Case(
            f"pitfall/lrn_size_{size}",
            "float[2,7,5,4] x",
            f"y = LRN<size={size}, alpha=0.3, beta=0.75, bias=1.5>(x)",
            ranges={"x": (-3, 3)},
            numpy=lrn_of(size, 0.3, 0.75, 1.5),
        )
        for size in (2, 4, 6)
    ],
    # A zero input still takes part: its shape may be the larger one, and NaN + 0 is NaN.
    Case(
        "pitfall/sum_with_a_zero_input",
        "float[2,3,4] a, float[2,3,4] b",
        "y = Sum(a, z, b)",
        {"z": np.zeros((2, 3, 4), np.float32)},
    ),
    Case(
        "pitfall/sum_with_a_zero_input_that_broadcasts",
        "float[3,1] a",
        "y = Sum(a, z)",
        {"z": np.zeros((2, 1, 4), np.float32)},
    ),
    Case(
        "pitfall/sum_with_a_zero_at_run_time",
        "float[2,3,4] a, float[4] b",
        "y = Sum(a, b)",
        feeds={"a": np.linspace(-1, 1, 24, dtype=np.float32).reshape(2, 3, 4), "b": np.zeros(4, np.float32)},
    ),
    Case("pitfall/sum_with_one_input", "float[2,3,4] a", "y = Sum(a)"),
    # In float64 2^53 + 1 is 2^53.
    Case(
        "pitfall/table_of_neighbours_above_2_to_the_53",
        "int64[3,5] i",
        "y = Gather(t, i)",
        {"t": np.array([2**53, 2**53 + 1], np.int64)},
        ranges={"i": (0, 2)},
    ),
    Case(
        "pitfall/pads_of_neighbours_above_2_to_the_53",
        "int64[3] x",
        "p = Pad(x, n, a) y = Pad(p, n, b)",
        {"n": np.array([1, 2]), "a": np.array(2**53), "b": np.array(2**53 + 1)},
    ),
    # Masks that are not small, of which one closes a row; weights of that size are not read.
    Case(
        "pitfall/large_mask_in_an_output",
        "float[2,300,300] x",
        "y = Add(x, k)",
        {"k": LARGE_MASK},
    ),
    Case(
        "pitfall/large_mask_that_closes_a_row",
        "float[2,300,300] x",
        "a = Add(x, k) p = Softmax<axis=-1>(a) n = IsNaN(p) y = Where(n, z, p)",
        {"k": np.where(np.arange(300)[:, None] == 3, np.float32(-np.inf), LARGE_MASK), "z": np.float32(0)},
    ),
    Case("pitfall/sum_with_one_input_in_the_middle", "float[2,3,7,9] x", "c = Conv(x, w) s = Sum(c) y = Relu(s)", CONV),
]
