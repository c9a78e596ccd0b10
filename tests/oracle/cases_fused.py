# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's fused Conv, Gemm and MatMul (com.microsoft)."""

from tests.support.case import Case

MS = {"com.microsoft": 1}
CASES = [
    Case(
        "fused_conv/relu",
        "float[1,3,7,9] x",
        'y = com.microsoft.FusedConv<activation="Relu", pads=[1,1,1,1]>(x, w, b)',
        {"w": (4, 3, 3, 3), "b": (4,)},
        opsets=MS,
        outputs="float[1,4,7,9] y",
    ),
    Case(
        "fused_conv/leaky_relu",
        "float[1,3,7,9] x",
        'y = com.microsoft.FusedConv<activation="LeakyRelu", activation_params=[0.2]>(x, w)',
        {"w": (4, 3, 3, 2)},
        opsets=MS,
        outputs="float[1,4,5,8] y",
    ),
    Case(
        "fused_conv/clip",
        "float[1,3,7,9] x",
        'y = com.microsoft.FusedConv<activation="Clip", activation_params=[-0.3, 0.4]>(x, w)',
        {"w": (4, 3, 3, 2)},
        opsets=MS,
        outputs="float[1,4,5,8] y",
    ),
    Case(
        "fused_conv/hard_sigmoid",
        "float[1,3,7,9] x",
        'y = com.microsoft.FusedConv<activation="HardSigmoid", activation_params=[0.3, 0.4]>(x, w)',
        {"w": (4, 3, 3, 2)},
        opsets=MS,
        outputs="float[1,4,5,8] y",
    ),
    Case(
        "fused_conv/sum_then_relu",
        "float[1,3,7,9] x, float[1,4,5,8] z",
        'y = com.microsoft.FusedConv<activation="Relu">(x, w, b, z)',
        {"w": (4, 3, 3, 2), "b": (4,)},
        opsets=MS,
        outputs="float[1,4,5,8] y",
    ),
    Case(
        "fused_gemm/leaky_relu",
        "float[3,5] x",
        'y = com.microsoft.FusedGemm<activation="LeakyRelu", activation_alpha=0.1, transB=1, alpha=0.5>(x, w, b)',
        {"w": (4, 5), "b": (4,)},
        opsets=MS,
        outputs="float[3,4] y",
    ),
    Case(
        "fused_matmul/trans_alpha",
        "float[2,5,3] x, float[2,4,5] w",
        "y = com.microsoft.FusedMatMul<transA=1, transB=1, alpha=0.125>(x, w)",
        opsets=MS,
        outputs="float[2,3,4] y",
    ),
    Case(
        "fused_matmul/trans_batch",
        "float[3,2,5] x, float[4,2,5] w",
        "y = com.microsoft.FusedMatMul<transBatchA=1, transBatchB=1, transB=1>(x, w)",
        opsets=MS,
        outputs="float[2,3,4] y",
    ),
    Case(
        "fused_matmul/constant",
        "float[2,3,5] x",
        "y = com.microsoft.FusedMatMul<transB=1>(x, w)",
        {"w": (4, 5)},
        opsets=MS,
        outputs="float[2,3,4] y",
    ),
    Case(
        "transpose_matmul/trans_alpha",
        "float[2,5,3] x, float[2,4,5] w",
        "y = com.microsoft.TransposeMatMul<transA=1, transB=1, alpha=0.125>(x, w)",
        opsets=MS,
        outputs="float[2,3,4] y",
    ),
    *(
        Case(
            f"fused_gemm/{name.lower()}",
            "float[3,5] x",
            f'y = com.microsoft.FusedGemm<activation="{name}"{parameters}>(x, w, b)',
            {"w": (5, 4), "b": (4,)},
            opsets=MS,
            outputs="float[3,4] y",
        )
        for name, parameters in [
            ("Elu", ", activation_alpha=0.7"),
            ("Selu", ", activation_alpha=1.3, activation_gamma=1.1"),
            ("Softplus", ""),
            ("Softsign", ""),
            ("ThresholdedRelu", ", activation_alpha=0.4"),
            ("HardSigmoid", ", activation_alpha=0.3, activation_beta=0.4"),
        ]
    ),
]
