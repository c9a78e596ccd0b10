# SPDX-License-Identifier: Apache-2.0
"""What ONNX Runtime's optimiser writes of diffusion models for GPUs (com.microsoft). Its CPU provider has no kernels for
it: equal graphs of other operators are the judge."""

import numpy as np

from tests.support.case import Case, i64

MS = {"com.microsoft": 1}
CASES = []


def diffusion(name, inputs, body, same_as, weights, outputs, **more):
    CASES.append(Case(f"diffusion/{name}", inputs, body, weights, opsets=MS, outputs=outputs, same_as=same_as, **more))


# One group is one instance: [2,5,7,6] by 3 groups is [2,3,70].
BY_GROUPS = (
    "c = Transpose<perm=[0,3,1,2]>({0}) p = Reshape(c, h) m = InstanceNormalization<epsilon=0.01>(p, o, e) r = Reshape(m, k)"
    " t = Transpose<perm=[0,2,3,1]>(r) u = Mul(t, g) n = Add(u, b)"
)
NORM = {
    "g": (6,),
    "b": (6,),
    "h": i64(2, 3, 70),
    "k": i64(2, 6, 5, 7),
    "o": np.ones(3, np.float32),
    "e": np.zeros(3, np.float32),
}
X = "float[2,5,7,6] x"
Y = "float[2,5,7,6] y"
diffusion(
    "group_norm",
    X,
    "y = com.microsoft.GroupNorm<groups=3, activation=0, epsilon=0.01>(x, g, b)",
    BY_GROUPS.format("x") + " y = Identity(n)",
    NORM,
    Y,
)
diffusion(
    "group_norm_swish",
    X,
    "y = com.microsoft.GroupNorm<groups=3, activation=1, epsilon=0.01>(x, g, b)",
    BY_GROUPS.format("x") + " l = Sigmoid(n) y = Mul(n, l)",
    NORM,
    Y,
)
diffusion(
    "group_norm_channels_first",
    "float[2,6,5,7] x",
    "y = com.microsoft.GroupNorm<groups=3, activation=0, epsilon=0.01, channels_last=0>(x, g, b)",
    "w = Transpose<perm=[0,2,3,1]>(x) " + BY_GROUPS.format("w") + " y = Transpose<perm=[0,3,1,2]>(n)",
    NORM,
    "float[2,6,5,7] y",
)
for name, skip, lifted in [
    ("", "float[2,5,7,6] s", "Identity(s)"),
    ("_flat", "float[2,6] s", "Reshape(s, f)"),
    ("_of_an_image", "float[2,1,1,6] s", "Identity(s)"),
]:
    diffusion(
        "skip_group_norm" + name,
        f"{X}, {skip}",
        "y, a = com.microsoft.SkipGroupNorm<groups=3, activation=0, epsilon=0.01>(x, g, b, s, d)",
        f"q = {lifted} v = Add(x, q) a = Add(v, d) " + BY_GROUPS.format("a") + " y = Identity(n)",
        {**NORM, "d": (6,), "f": i64(2, 1, 1, 6)},
        f"{Y}, float[2,5,7,6] a",
    )
diffusion(
    "bias_add",
    "float[2,5,6] x, float[2,5,6] s",
    "y = com.microsoft.BiasAdd(x, b, s)",
    "a = Add(x, b) y = Add(a, s)",
    {"b": (6,)},
    "float[2,5,6] y",
)
diffusion(
    "bias_split_gelu",
    "float[2,5,6] x",
    "y = com.microsoft.BiasSplitGelu(x, b)",
    "a = Add(x, b) l, r = Split<axis=2>(a) t = com.microsoft.Gelu(r) y = Mul(l, t)",
    {"b": (6,)},
    "float[2,5,3] y",
    ranges={"x": (-3, 3)},
)
diffusion(
    "gemm_fast_gelu",
    "float[2,3,5] x",
    "y = com.microsoft.GemmFastGelu(x, w, b)",
    "a = MatMul(x, w) y = com.microsoft.FastGelu(a, b)",
    {"w": (5, 7), "b": (7,)},
    "float[2,3,7] y",
)
diffusion(
    "nhwc_conv",
    "float[2,7,9,6] x",
    "y = com.microsoft.NhwcConv<strides=[2,1], pads=[1,0,1,0], group=2>(x, w, b)",
    "a = Transpose<perm=[0,3,1,2]>(x) c = Transpose<perm=[0,3,1,2]>(w)"
    " d = Conv<strides=[2,1], pads=[1,0,1,0], group=2>(a, c, b) y = Transpose<perm=[0,2,3,1]>(d)",
    {"w": (4, 3, 2, 3), "b": (4,)},
    "float[2,4,8,4] y",
)
diffusion(
    "nhwc_fused_conv",
    "float[2,7,9,6] x, float[2,5,8,4] z",
    'y = com.microsoft.NhwcFusedConv<activation="Relu">(x, w, b, z)',
    "a = Transpose<perm=[0,3,1,2]>(x) d = Conv(a, w, b) e = Transpose<perm=[0,2,3,1]>(d) s = Add(e, z) y = Relu(s)",
    {"w": (4, 6, 3, 2), "b": (4,)},
    "float[2,5,8,4] y",
)
diffusion(
    "bias_softmax",
    "float[2,3,5,7] x, float[2,1,1,7] m",
    "y = com.microsoft.BiasSoftmax<axis=3, is_inner_broadcast=1>(x, m)",
    "a = Add(x, m) y = Softmax<axis=3>(a)",
    {},
    "float[2,3,5,7] y",
)
diffusion(
    "bias_softmax_of_two_axes",
    "float[2,3,5,7] x, float[5,7] m",
    "y = com.microsoft.BiasSoftmax<axis=2, is_inner_broadcast=0>(x, m)",
    "a = Add(x, m) f = Reshape(a, v) t = Softmax<axis=2>(f) y = Reshape(t, w)",
    {"v": i64(2, 3, 35), "w": i64(2, 3, 5, 7)},
    "float[2,3,5,7] y",
)
