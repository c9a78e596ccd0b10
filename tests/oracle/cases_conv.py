# SPDX-License-Identifier: Apache-2.0
"""Conv, ConvTranspose, BatchNormalization, InstanceNormalization, LRN.

ONNX pads each side by a number; TFLite knows only SAME (which puts the odd element at the end, and depends on the
size) and VALID. So sizes are even and odd, pads symmetric and not, and kernels differ in each axis.
"""

import numpy as np

from tests.support.case import Case, f32

CASES = []


def conv(name, x, w, attributes="", bias=False, **more):
    weights = {"w": w}
    if bias:
        weights["b"] = (w[0],)
    body = f"y = Conv{attributes and f'<{attributes}>'}({'x, w, b' if bias else 'x, w'})"
    CASES.append(Case("conv/" + name, f"float[{','.join(map(str, x))}] x", body, weights, **more))


# 2-D
conv("plain", (2, 3, 7, 9), (4, 3, 3, 2))
conv("bias", (2, 3, 7, 9), (4, 3, 3, 2), "kernel_shape=[3,2]", bias=True)
conv("no_strides_attribute", (1, 3, 6, 8), (5, 3, 3, 3), "kernel_shape=[3,3], pads=[1,1,1,1]")
conv("pointwise", (2, 3, 7, 9), (4, 3, 1, 1), bias=True)
conv("pointwise_strides", (2, 3, 7, 9), (4, 3, 1, 1), "strides=[2,3]")
conv("strides", (1, 3, 10, 9), (4, 3, 3, 2), "strides=[2,3]")
conv("pads_symmetric_odd", (1, 3, 7, 9), (4, 3, 3, 5), "pads=[1,2,1,2]", bias=True)
conv("pads_asymmetric", (1, 3, 7, 9), (4, 3, 3, 2), "pads=[0,1,2,0]", bias=True)
conv("pads_larger_than_kernel", (1, 3, 5, 4), (2, 3, 3, 2), "pads=[4,3,5,6]")
conv("dilations", (1, 3, 11, 13), (4, 3, 3, 2), "dilations=[2,3]")
conv("dilations_pads", (1, 3, 11, 13), (4, 3, 3, 3), "dilations=[2,3], pads=[2,3,2,3]")
conv("dilations_strides", (1, 3, 15, 13), (4, 3, 3, 3), "dilations=[2,3], strides=[2,1], pads=[1,0,2,3]", bias=True)
conv("kernel_as_large_as_image", (2, 3, 7, 9), (4, 3, 7, 9), bias=True)
conv("one_channel", (2, 1, 7, 9), (4, 1, 3, 2))
for size in (8, 9):
    for stride in (1, 2, 3):
        for kernel in (2, 3, 4, 7):
            k = f"{kernel}_stride_{stride}_size_{size}"
            w = (2, 3, kernel, 3)
            half = kernel // 2
            conv(f"pad_half_kernel_{k}", (1, 3, size, 11), w, f"strides=[{stride},2], pads=[{half},1,{half},1]")
            conv(f"same_upper_kernel_{k}", (1, 3, size, 11), w, f'strides=[{stride},2], auto_pad="SAME_UPPER"')
            conv(f"same_lower_kernel_{k}", (1, 3, size, 11), w, f'strides=[{stride},2], auto_pad="SAME_LOWER"')
# ONNX Runtime refuses dilations with SAME; the pads that the specification asks for are spelled out for it.
for same, pads in (("SAME_UPPER", "2,1,2,2"), ("SAME_LOWER", "2,2,2,1")):
    conv(
        f"{same.lower()}_dilations",
        (1, 3, 9, 11),
        (4, 3, 3, 2),
        f'dilations=[2,3], auto_pad="{same}"',
        same_as=f"y = Conv<dilations=[2,3], pads=[{pads}]>(x, w)",
    )
conv("auto_pad_valid", (1, 3, 9, 11), (4, 3, 3, 2), 'strides=[2,2], auto_pad="VALID"')
conv("auto_pad_empty", (1, 3, 9, 11), (4, 3, 3, 2), 'pads=[1,0,0,1], auto_pad=""')
conv("auto_pad_notset", (1, 3, 9, 11), (4, 3, 3, 2), 'pads=[1,0,0,1], auto_pad="NOTSET"')
for opset in (7, 9, 11, 17, 19, 21, 22):
    conv(f"opset_{opset}", (1, 3, 7, 9), (4, 3, 3, 2), "pads=[1,1,1,1], strides=[2,1]", bias=True, opset=opset)
# Groups
conv("groups_2", (2, 4, 7, 9), (6, 2, 3, 2), "group=2", bias=True)
conv("groups_3_pads_strides", (1, 6, 8, 9), (9, 2, 3, 3), "group=3, pads=[1,0,1,2], strides=[2,1]", bias=True)
conv("groups_dilations", (1, 4, 11, 9), (6, 2, 3, 2), "group=2, dilations=[2,3], pads=[2,0,1,1]")
conv("depthwise", (2, 5, 7, 9), (5, 1, 3, 2), "group=5", bias=True)
conv("depthwise_multiplier", (2, 3, 7, 9), (6, 1, 3, 2), "group=3", bias=True)
conv("depthwise_multiplier_3_strides", (1, 2, 7, 9), (6, 1, 3, 2), "group=2, strides=[2,2], pads=[1,1,1,1]")
conv("depthwise_unequal_strides", (1, 5, 8, 9), (5, 1, 3, 3), "group=5, strides=[2,1], pads=[1,1,1,1]", bias=True)
conv("depthwise_dilations", (1, 5, 11, 13), (5, 1, 3, 3), "group=5, dilations=[2,3], pads=[2,3,2,3]")
conv("depthwise_dilations_strides", (1, 5, 11, 13), (5, 1, 3, 3), "group=5, dilations=[2,2], strides=[2,2]")
conv("depthwise_same_lower", (1, 5, 8, 9), (5, 1, 3, 4), 'group=5, strides=[2,1], auto_pad="SAME_LOWER"')
conv("depthwise_one_by_one", (1, 5, 8, 9), (5, 1, 1, 1), "group=5", bias=True)
# 1-D and 3-D
conv("1d", (2, 3, 9), (4, 3, 3), bias=True)
conv("1d_pads_strides", (2, 3, 10), (4, 3, 3), "pads=[2,1], strides=[2]", bias=True)
conv("1d_dilations", (2, 3, 13), (4, 3, 3), "dilations=[3], pads=[1,0]")
conv("1d_groups", (2, 4, 9), (6, 2, 3), "group=2", bias=True)
conv("1d_depthwise", (2, 5, 9), (5, 1, 3), "group=5, pads=[1,1]", bias=True)
conv("1d_same_lower", (2, 3, 10), (4, 3, 4), 'auto_pad="SAME_LOWER", strides=[3]')
conv("3d", (2, 3, 5, 6, 7), (4, 3, 2, 3, 3), bias=True)
conv("3d_pads_strides", (1, 3, 5, 6, 8), (4, 3, 3, 2, 3), "pads=[1,0,1,1,2,0], strides=[2,1,2]", bias=True)
conv("3d_dilations", (1, 2, 7, 6, 8), (3, 2, 3, 2, 2), "dilations=[2,1,3]")
conv("3d_same_upper", (1, 2, 6, 5, 8), (3, 2, 3, 2, 3), 'auto_pad="SAME_UPPER", strides=[2,2,1]')
# Windows of one slice, side by side, and of one column: CONV_2D.
conv("3d_slices", (2, 3, 5, 7, 9), (4, 3, 1, 3, 2), "pads=[0,1,0,0,2,1], strides=[1,2,1], dilations=[3,1,2]", bias=True)
conv("3d_slices_depthwise", (2, 4, 5, 7, 9), (4, 1, 1, 3, 2), "group=4", bias=True)
conv("3d_slices_groups", (2, 4, 5, 7, 9), (6, 2, 1, 3, 2), "group=2", bias=True)
conv("3d_patches", (2, 3, 6, 8, 10), (4, 3, 3, 2, 5), "strides=[3,2,5]", bias=True)
conv("3d_patches_that_overlap", (2, 3, 6, 8, 10), (4, 3, 2, 3, 5), "strides=[2,1,2], pads=[0,1,2,0,0,1]")
conv("3d_patches_with_a_rest", (2, 3, 7, 8, 10), (4, 3, 3, 2, 5), "strides=[3,2,5]")
conv("3d_patches_groups", (2, 4, 6, 8, 10), (6, 2, 3, 2, 5), "strides=[3,2,5], group=2")
conv(
    "3d_columns", (2, 3, 7, 5, 6), (4, 3, 3, 1, 1), "pads=[2,0,0,1,0,0], strides=[2,1,1], dilations=[2,1,1]", bias=True
)
conv("3d_columns_depthwise", (2, 4, 7, 5, 6), (8, 1, 3, 1, 1), "group=4, pads=[1,0,0,1,0,0]", bias=True)
conv("3d_pointwise", (2, 3, 7, 5, 6), (4, 3, 1, 1, 1), bias=True)
conv("3d_groups", (1, 4, 4, 5, 6), (6, 2, 2, 2, 3), "group=2", bias=True)
CASES += [
    Case(
        "conv/3d_frames",
        "float[N,6,3,8,10] x",
        "t = Transpose<perm=[0,2,1,3,4]>(x) c = Conv<strides=[2,4,5]>(t, w, b) r = Relu(c) s = Conv(r, v) y = Conv(s, u)",
        {"w": (4, 3, 2, 4, 5), "b": (4,), "v": (5, 4, 1, 2, 1), "u": (2, 5, 3, 1, 1)},
        shapes={"x": (2, 6, 3, 8, 10)},
    ),
    Case(
        "conv/3d_of_unknown_size",
        "float[1,3,D,H,10] x",
        "y = Conv(x, w)",
        {"w": (4, 3, 1, 2, 5)},
        shapes={"x": (1, 3, 6, 8, 10)},
    ),
    Case("conv/weights_at_run_time", "float[1,3,7,9] x, float[4,3,3,2] w", "y = Conv<pads=[1,0,1,1]>(x, w)"),
    Case("conv/bias_at_run_time", "float[1,3,7,9] x, float[4] b", "y = Conv(x, w, b)", {"w": (4, 3, 3, 2)}),
    Case(
        "conv/constant_input",
        "float[1,4,5,8] x",
        "c = Conv(k, w) y = Add(x, c)",
        {"k": (1, 3, 7, 9), "w": (4, 3, 3, 2)},
    ),
    Case(
        "conv/dynamic_batch",
        "float[N,3,7,9] x",
        "y = Conv<pads=[1,0,1,1]>(x, w)",
        {"w": (4, 3, 3, 2)},
        shapes={"x": (5, 3, 7, 9)},
    ),
    Case(
        "conv/float64",
        "double[1,3,7,9] x",
        "y = Conv(x, w)",
        {"w": np.random.default_rng(1).uniform(-1, 1, (4, 3, 3, 2))},
        same_as="a = Cast<to=1>(x) b = Cast<to=1>(w) c = Conv(a, b) y = Cast<to=11>(c)",
    ),
    Case(
        "conv/float16",
        "float16[1,3,7,9] x",
        "y = Conv(x, w)",
        {"w": np.random.default_rng(1).uniform(-1, 1, (4, 3, 3, 2)).astype(np.float16)},
        same_as="a = Cast<to=1>(x) b = Cast<to=1>(w) c = Conv(a, b) y = Cast<to=10>(c)",
    ),
]

# Chains that end in one operator.
for act in ("Relu", "LeakyRelu<alpha=0.2>", "Sigmoid", "Tanh", "HardSwish", "Clip", "Elu<alpha=1.5>"):
    name = act.split("<")[0].lower()
    extra = {"low": np.float32(0), "high": np.float32(6)} if act == "Clip" else {}
    arguments = "c, low, high" if act == "Clip" else "c"
    CASES.append(
        Case(
            f"conv/then_{name}",
            "float[2,3,7,9] x",
            f"c = Conv<pads=[1,1,1,1]>(x, w, b) y = {act}({arguments})",
            {"w": (4, 3, 3, 3), "b": (4,), **extra},
            opset=14,
        )
    )
CASES += [
    Case(
        "conv/then_clip_minus_1_1",
        "float[2,3,7,9] x",
        "c = Conv(x, w) y = Clip(c, low, high)",
        {"w": (4, 3, 3, 2), "low": np.float32(-1), "high": np.float32(1)},
    ),
    Case(
        "conv/after_pad",
        "float[1,3,7,9] x",
        "p = Pad(x, pads) y = Conv<strides=[2,1]>(p, w)",
        {"pads": np.array([0, 0, 1, 2, 0, 0, 3, 0]), "w": (4, 3, 3, 2)},
    ),
    Case(
        "conv/after_pad_with_value",
        "float[1,3,7,9] x",
        "p = Pad(x, pads, v) y = Conv(p, w)",
        {"pads": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "v": np.float32(0.5), "w": (4, 3, 3, 2)},
    ),
    Case(
        "conv/after_pad_and_pads",
        "float[1,3,7,9] x",
        "p = Pad(x, pads) y = Conv<pads=[1,0,0,1]>(p, w)",
        {"pads": np.array([0, 0, 1, 0, 0, 0, 2, 1]), "w": (4, 3, 3, 2)},
    ),
    Case(
        "conv/after_channel_pad",
        "float[1,3,7,9] x",
        "p = Pad(x, pads) y = Conv(p, w)",
        {"pads": np.array([0, 1, 0, 0, 0, 1, 0, 0]), "w": (4, 5, 3, 2)},
    ),
    Case(
        "conv/then_add_channel_bias",
        "float[1,3,7,9] x",
        "c = Conv(x, w) y = Add(c, b)",
        {"w": (4, 3, 3, 2), "b": (1, 4, 1, 1)},
    ),
    Case(
        "conv/then_mul_channel",
        "float[1,3,7,9] x",
        "c = Conv(x, w, b) y = Mul(c, s)",
        {"w": (4, 3, 3, 2), "b": (4,), "s": (4, 1, 1)},
    ),
    Case(
        "conv/then_add_that_is_no_bias",
        "float[1,3,7,9] x",
        "c = Conv(x, w) y = Add(c, b)",
        {"w": (4, 3, 3, 2), "b": (1, 1, 5, 1)},
    ),
    Case(
        "conv/shared_weights",
        "float[1,3,7,9] x, float[1,3,8,6] z",
        "y = Conv(x, w) v = Conv<strides=[2,2]>(z, w)",
        {"w": (4, 3, 3, 2)},
        outputs="y, v",
    ),
    Case(
        "conv/result_used_twice",
        "float[1,3,7,9] x",
        "c = Conv(x, w, b) y = Relu(c) v = Neg(c)",
        {"w": (4, 3, 3, 2), "b": (4,)},
        outputs="y, v",
    ),
]


def conv_transpose(name, x, w, attributes="", bias=0, **more):
    weights = {"w": w}
    if bias:
        weights["b"] = (bias,)
    body = f"y = ConvTranspose{attributes and f'<{attributes}>'}({'x, w, b' if bias else 'x, w'})"
    CASES.append(Case("conv_transpose/" + name, f"float[{','.join(map(str, x))}] x", body, weights, **more))


conv_transpose("plain", (2, 3, 5, 6), (3, 4, 3, 2))
# As NOTSET; ONNX's shape inference does not know it.
conv_transpose("auto_pad_empty", (2, 3, 5, 6), (3, 4, 3, 2), 'auto_pad=""', outputs="float[2,4,7,7] y")
conv_transpose("bias", (2, 3, 5, 6), (3, 4, 3, 2), bias=4)
for stride in (1, 2, 3):
    for kernel in (2, 3, 4):
        conv_transpose(
            f"kernel_{kernel}_stride_{stride}", (1, 3, 5, 6), (3, 4, kernel, 3), f"strides=[{stride},2]", bias=4
        )
        conv_transpose(
            f"pads_kernel_{kernel}_stride_{stride}",
            (1, 3, 5, 6),
            (3, 4, kernel, 3),
            f"strides=[{stride},2], pads=[1,1,1,1]",
        )
        for same in ("SAME_UPPER", "SAME_LOWER"):
            conv_transpose(
                f"{same.lower()}_kernel_{kernel}_stride_{stride}",
                (1, 3, 5, 6),
                (3, 4, kernel, 3),
                f'strides=[{stride},2], auto_pad="{same}"',
            )
conv_transpose("pads_asymmetric", (1, 3, 5, 6), (3, 4, 4, 3), "strides=[2,2], pads=[0,1,2,0]", bias=4)
conv_transpose("kernel_smaller_than_stride", (1, 3, 5, 6), (3, 4, 2, 1), "strides=[3,2]")
conv_transpose("output_padding", (1, 3, 5, 6), (3, 4, 3, 3), "strides=[2,3], output_padding=[1,2]", bias=4)
conv_transpose("output_padding_pads", (1, 3, 5, 6), (3, 4, 3, 3), "strides=[2,2], pads=[1,1,1,1], output_padding=[1,0]")
conv_transpose("output_shape", (1, 3, 5, 6), (3, 4, 3, 3), "strides=[2,2], output_shape=[10,11]")
conv_transpose("output_shape_odd_pads", (1, 3, 5, 6), (3, 4, 3, 3), "strides=[3,2], output_shape=[14,12]", bias=4)
conv_transpose(
    "output_shape_same_lower", (1, 3, 5, 6), (3, 4, 3, 3), 'strides=[3,2], output_shape=[14,12], auto_pad="SAME_LOWER"'
)
conv_transpose(
    "output_shape_same_upper", (1, 3, 5, 6), (3, 4, 3, 3), 'strides=[3,2], output_shape=[14,12], auto_pad="SAME_UPPER"'
)
conv_transpose("groups", (1, 4, 5, 6), (4, 3, 3, 2), "group=2, strides=[2,1]", bias=6)
conv_transpose(
    "groups_pads", (1, 6, 5, 4), (6, 2, 3, 3), "group=3, strides=[2,2], pads=[1,0,1,1], output_padding=[1,0]", bias=6
)
conv_transpose("depthwise", (1, 5, 4, 6), (5, 1, 4, 3), "group=5, strides=[2,2], pads=[1,1,1,0]")
conv_transpose("dilations", (1, 3, 5, 6), (3, 4, 3, 2), "dilations=[2,3]")
conv_transpose(
    "dilations_strides", (1, 3, 5, 6), (3, 4, 3, 2), "dilations=[2,1], strides=[2,3], pads=[1,0,0,1]", bias=4
)
conv_transpose("1d", (2, 3, 7), (3, 4, 3), "strides=[2], pads=[1,0], output_padding=[1]", bias=4)
conv_transpose("1d_groups", (2, 4, 7), (4, 3, 3), "strides=[2], group=2")
conv_transpose("3d", (1, 3, 4, 5, 3), (3, 2, 3, 2, 2), "strides=[2,1,2]", bias=2)
conv_transpose("3d_pads", (1, 3, 4, 5, 3), (3, 2, 3, 3, 2), "strides=[2,2,1], pads=[1,0,0,1,1,1]")
for opset in (7, 11, 22):
    conv_transpose(f"opset_{opset}", (1, 3, 5, 6), (3, 4, 3, 3), "strides=[2,2], pads=[1,1,1,1]", bias=4, opset=opset)
CASES += [
    Case(
        "conv_transpose/then_relu",
        "float[1,3,5,6] x",
        "c = ConvTranspose<strides=[2,2]>(x, w, b) y = Relu(c)",
        {"w": (3, 4, 3, 3), "b": (4,)},
    ),
    Case(
        "conv_transpose/weights_at_run_time",
        "float[1,3,5,6] x, float[3,4,3,2] w",
        "y = ConvTranspose<strides=[2,1]>(x, w)",
    ),
]


def norm_weights(channels, seed=0):
    rng = np.random.default_rng(seed)
    return {
        "s": rng.uniform(0.5, 2, channels).astype(np.float32),
        "b": rng.uniform(-1, 1, channels).astype(np.float32),
        "m": rng.uniform(-1, 1, channels).astype(np.float32),
        "v": rng.uniform(0.1, 3, channels).astype(np.float32),
    }


BN = "BatchNormalization<epsilon=0.01>"
for opset in (7, 9, 14, 15):
    CASES.append(
        Case(f"batch_norm/opset_{opset}", "float[2,3,5,4] x", f"y = {BN}(x, s, b, m, v)", norm_weights(3), opset)
    )
CASES += [
    Case("batch_norm/default_epsilon", "float[2,3,5,4] x", "y = BatchNormalization(x, s, b, m, v)", norm_weights(3)),
    Case(
        "batch_norm/momentum_is_for_training",
        "float[2,3,5,4] x",
        "y = BatchNormalization<momentum=0.3>(x, s, b, m, v)",
        norm_weights(3),
    ),
    # Statistics as outputs say that those of the batch are used, up to version 13.
    *(
        Case(
            f"batch_norm/of_the_batch_{opset}",
            "float[2,3,5,4] x",
            "y, m2, v2, sm, sv = BatchNormalization<epsilon=0.01, momentum=0.75>(x, s, b, m, v)",
            norm_weights(3),
            opset,
            outputs="float[2,3,5,4] y, float[3] m2, float[3] v2, float[3] sm, float[3] sv",
        )
        for opset in (7, 9, 13)
    ),
    Case(
        "batch_norm/of_the_batch_and_of_weights",
        "float[2,7,4,9] x",
        "n, m2, v2, sm, sv = BatchNormalization<epsilon=1e-8, momentum=1.0>(w, s, b, m, v) "
        "k = Reshape(n, shape) y = Conv(x, k)",
        {"w": (1, 5, 21), "shape": np.int64([5, 7, 1, 3]), **norm_weights(5)},
        11,
    ),
    Case("batch_norm/1d", "float[5] x", f"y = {BN}(x, s, b, m, v)", norm_weights(1)),
    Case("batch_norm/1d_open", "float[N] x", f"y = {BN}(x, s, b, m, v)", norm_weights(1), shapes={"x": (7,)}),
    Case("batch_norm/2d", "float[5,3] x", f"y = {BN}(x, s, b, m, v)", norm_weights(3)),
    Case("batch_norm/3d", "float[2,3,7] x", f"y = {BN}(x, s, b, m, v)", norm_weights(3)),
    Case("batch_norm/5d", "float[2,3,4,5,6] x", f"y = {BN}(x, s, b, m, v)", norm_weights(3)),
    Case(
        "batch_norm/after_conv",
        "float[2,3,7,9] x",
        f"c = Conv(x, w) y = {BN}(c, s, b, m, v)",
        {"w": (4, 3, 3, 2), **norm_weights(4)},
    ),
    Case(
        "batch_norm/after_conv_with_bias_then_relu",
        "float[2,3,7,9] x",
        f"c = Conv<pads=[1,1,1,1]>(x, w, k) n = {BN}(c, s, b, m, v) y = Relu(n)",
        {"w": (4, 3, 3, 3), "k": (4,), **norm_weights(4)},
    ),
    Case(
        "batch_norm/after_depthwise",
        "float[1,3,7,9] x",
        f"c = Conv<group=3>(x, w) y = {BN}(c, s, b, m, v)",
        {"w": (6, 1, 3, 2), **norm_weights(6)},
    ),
    Case(
        "batch_norm/after_grouped_conv",
        "float[1,4,7,9] x",
        f"c = Conv<group=2>(x, w) y = {BN}(c, s, b, m, v)",
        {"w": (6, 2, 3, 2), **norm_weights(6)},
    ),
    Case(
        "batch_norm/after_conv_transpose",
        "float[1,3,5,6] x",
        f"c = ConvTranspose<strides=[2,2]>(x, w) y = {BN}(c, s, b, m, v)",
        {"w": (3, 4, 3, 2), **norm_weights(4)},
    ),
    Case(
        "batch_norm/before_conv",
        "float[2,3,7,9] x",
        f"n = {BN}(x, s, b, m, v) y = Conv(n, w)",
        {"w": (4, 3, 3, 2), **norm_weights(3)},
    ),
    # With pads the shift does not move through the convolution: the padding is zero after the normalisation.
    Case(
        "batch_norm/before_conv_with_pads",
        "float[2,3,7,9] x",
        f"n = {BN}(x, s, b, m, v) y = Conv<pads=[1,1,1,1]>(n, w)",
        {"w": (4, 3, 3, 3), **norm_weights(3)},
    ),
    Case(
        "batch_norm/after_conv_used_twice",
        "float[2,3,7,9] x",
        f"c = Conv(x, w) y = {BN}(c, s, b, m, v) z = Relu(c)",
        {"w": (4, 3, 3, 2), **norm_weights(4)},
        outputs="y, z",
    ),
    Case(
        "batch_norm/after_gemm",
        "float[5,6] x",
        f"c = Gemm<transB=1>(x, w, k) y = {BN}(c, s, b, m, v)",
        {"w": (4, 6), "k": (4,), **norm_weights(4)},
    ),
    Case(
        "batch_norm/before_gemm",
        "float[5,6] x",
        f"n = {BN}(x, s, b, m, v) y = Gemm<transB=1>(n, w)",
        {"w": (4, 6), **norm_weights(6)},
    ),
    Case(
        "batch_norm/twice_after_conv",
        "float[2,3,7,9] x",
        f"c = Conv(x, w) n = {BN}(c, s, b, m, v) y = {BN}(n, s2, b2, m2, v2)",
        {"w": (4, 3, 3, 2), **norm_weights(4), **{k + "2": v for k, v in norm_weights(4, 1).items()}},
    ),
    Case(
        "batch_norm/statistics_at_run_time",
        "float[2,3,5,4] x, float[3] m",
        f"y = {BN}(x, s, b, m, v)",
        {k: v for k, v in norm_weights(3).items() if k != "m"},
    ),
]

SCALE = {"s": f32(0.5, 2, -1), "b": f32(1, -2, 0.25)}
CASES += [
    Case("instance_norm/4d", "float[2,3,5,4] x", "y = InstanceNormalization<epsilon=0.01>(x, s, b)", SCALE),
    Case("instance_norm/3d", "float[2,3,7] x", "y = InstanceNormalization(x, s, b)", SCALE),
    Case("instance_norm/5d", "float[2,3,4,5,6] x", "y = InstanceNormalization(x, s, b)", SCALE),
    Case(
        "instance_norm/after_conv",
        "float[2,4,7,9] x",
        "c = Conv(x, w) y = InstanceNormalization(c, s, b)",
        {"w": (3, 4, 3, 2), **SCALE},
    ),
]


def lrn_of(size, alpha=1e-4, beta=0.75, bias=1.0):
    """LRN by the specification's formula: ONNX Runtime refuses even sizes."""

    def compute(arrays, _):
        x = arrays["x"].astype(np.float64)
        squares = np.zeros_like(x)
        for c in range(x.shape[1]):
            low, high = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + size // 2)
            squares[:, c] = np.sum(x[:, low : high + 1] ** 2, axis=1)
        return {"y": (x / (bias + alpha / size * squares) ** beta).astype(np.float32)}

    return compute


for size in (1, 2, 3, 4, 5, 6):
    CASES.append(
        Case(
            f"lrn/size_{size}",
            "float[2,7,5,4] x",
            f"y = LRN<size={size}, alpha=0.3, beta=0.75, bias=1.5>(x)",
            ranges={"x": (-3, 3)},
            numpy=lrn_of(size, 0.3, 0.75, 1.5),
        )
    )
CASES += [
    Case("conv/no_channels", "float[1,0,4,5] x", "y = Conv(x, w, b)", {"w": (2, 0, 3, 2), "b": (2,)}),
    Case(
        "conv_transpose/no_channels", "float[1,0,4,5] x", "y = ConvTranspose(x, w, b)", {"w": (0, 2, 3, 2), "b": (2,)}
    ),
    Case("lrn/defaults", "float[2,7,5,4] x", "y = LRN<size=3>(x)", ranges={"x": (-30, 30)}),
    Case("lrn/beta_of_one", "float[2,7,5,4] x", "y = LRN<size=4, alpha=2.0, beta=1.0>(x)", numpy=lrn_of(4, 2, 1)),
    Case("lrn/wider_than_channels", "float[2,3,5,4] x", "y = LRN<size=9, alpha=0.5>(x)"),
    Case("lrn/3d", "float[2,7,5] x", "y = LRN<size=5, alpha=0.5>(x)", numpy=lrn_of(5, 0.5)),
]

# Heights and widths that only the run knows.
for name, operator, attributes in [
    ("conv/dynamic_size_pads", "Conv", "pads=[1,1,1,1]"),
    ("conv/dynamic_size_strides", "Conv", "pads=[1,0,1,2], strides=[2,3]"),
    ("conv/dynamic_size_same", "Conv", 'auto_pad="SAME_UPPER", strides=[2,2]'),
    ("conv_transpose/dynamic_size", "ConvTranspose", "strides=[2,2]"),
    ("conv_transpose/dynamic_size_pads", "ConvTranspose", "strides=[2,2], pads=[1,1,1,1], output_padding=[1,1]"),
]:
    CASES.append(
        Case(
            name,
            "float[1,3,H,W] x",
            f"y = {operator}<{attributes}>(x, w)",
            {"w": (3, 3, 3, 3)},
            opset=13,
            outputs="float[1,3,P,Q] y",
            shapes={"x": (1, 3, 8, 11)},
        )
    )
# The pads of SAME_LOWER depend on what the stride leaves of a size.
for name, dims, kernel, strides, size in [
    ("one_of_two", "H,7", (2, 3), "2,2", (9, 7)),
    ("none", "H,7", (2, 3), "2,2", (8, 7)),
    ("both_axes", "H,W", (4, 5), "2,3", (7, 11)),
    ("stride_beyond_the_kernel", "H,W", (2, 1), "3,2", (10, 8)),
    ("no_pads_beyond_the_kernel", "H,W", (2, 3), "3,5", (9, 10)),
    ("1d", "W", (4,), "3", (10,)),
    ("3d", "D,H,6", (3, 4, 2), "2,3,1", (7, 8, 6)),
]:
    CASES.append(
        Case(
            f"conv/same_lower_of_unknown_size_{name}",
            f"float[N,4,{dims}] x",
            f'c = Conv<auto_pad="SAME_LOWER", strides=[{strides}]>(x, w) y = Relu(c)',
            {"w": (3, 4, *kernel)},
            outputs=f"float[N,3,{','.join('PQR'[: len(size)])}] y",
            shapes={"x": (2, 4, *size)},
        )
    )
CASES += [
    Case(
        "conv_transpose/many_groups",
        "float[1,6,4,5] x",
        "y = ConvTranspose<group=6, strides=[2,2]>(x, w, b)",
        {"w": (6, 2, 3, 2), "b": (12,)},
    ),
    Case(
        "conv_transpose/groups_of_two",
        "float[1,12,4,5] x",
        "y = ConvTranspose<group=6, strides=[2,1], pads=[1,0,0,1]>(x, w)",
        {"w": (12, 3, 3, 2)},
    ),
]
