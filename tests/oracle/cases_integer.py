# SPDX-License-Identifier: Apache-2.0
"""MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv: exact integers, also in sums that floats do not hold."""

import numpy as np

from tests.support.case import Case

rng = np.random.default_rng(7)
U = lambda *shape: rng.integers(0, 256, shape).astype(np.uint8)  # noqa: E731
I = lambda *shape: rng.integers(-128, 128, shape).astype(np.int8)  # noqa: E731, E741
u8, i8 = {"ranges": {"x": (0, 256)}}, {"ranges": {"x": (-128, 128)}}
f = lambda *values: np.array(values if len(values) > 1 else values[0], np.float32)  # noqa: E731

CASES = [
    Case("matmul_integer/plain", "uint8[3,5] x", "y = MatMulInteger(x, w)", {"w": U(5, 4)}, **u8),
    Case(
        "matmul_integer/zero_points",
        "uint8[2,3,5] x",
        "y = MatMulInteger(x, w, a, b)",
        {"w": I(5, 4), "a": np.uint8(117), "b": np.int8(-7)},
        **u8,
    ),
    Case(
        "matmul_integer/long_sums",
        "uint8[3,1000] x",
        "y = MatMulInteger(x, w, a)",
        {"w": U(1000, 4), "a": np.uint8(3)},
        **u8,
    ),
    Case(
        "matmul_integer/two_inputs",
        "uint8[2,3,300] x, uint8[2,300,4] w",
        "y = MatMulInteger(x, w)",
        ranges={"x": (0, 256), "w": (0, 256)},
    ),
    Case(
        "conv_integer/zero_point_pads",
        "uint8[1,3,7,9] x",
        "y = ConvInteger<pads=[1,0,1,1], strides=[2,1]>(x, w, z)",
        {"w": U(4, 3, 3, 2), "z": np.uint8(121)},
        **u8,
    ),
    Case(
        "conv_integer/long_sums",
        "uint8[1,70,5,6] x",
        "y = ConvInteger(x, w, z)",
        {"w": U(4, 70, 3, 2), "z": np.uint8(5)},
        **u8,
    ),
    Case(
        "qlinear_matmul/plain",
        "uint8[3,5] x",
        "y = QLinearMatMul(x, s, z, w, t, a, u, b)",
        {
            "s": f(0.013),
            "z": np.uint8(121),
            "w": U(5, 4),
            "t": f(0.007),
            "a": np.uint8(99),
            "u": f(0.02),
            "b": np.uint8(130),
        },
        **u8,
    ),
    Case(
        "qlinear_conv/bias_scales_by_channel",
        "uint8[1,3,7,9] x",
        "y = QLinearConv<pads=[1,0,1,1]>(x, s, z, w, t, a, u, b, c)",
        {
            "s": f(0.013),
            "z": np.uint8(121),
            "w": I(4, 3, 3, 2),
            "t": f(0.007, 0.003, 0.009, 0.011),
            "a": np.zeros(4, np.int8),
            "u": f(0.05),
            "b": np.uint8(130),
            "c": np.array([100, -2000, 30, 999], np.int32),
        },
        steps=1,
        **u8,
    ),
    # Operands at the ends of their ranges: sums that pass 2^24 by far, and of both signs.
    Case(
        "matmul_integer/longest_sums",
        "uint8[2,5000] x",
        "y = MatMulInteger(x, w, a)",
        {"w": np.full((5000, 3), 255, np.uint8), "a": np.uint8(0)},
        feeds={"x": np.full((2, 5000), 255, np.uint8)},
    ),
    Case(
        "matmul_integer/longest_sums_signed",
        "int8[2,5000] x, int8[5000,3] w",
        "y = MatMulInteger(x, w)",
        feeds={"x": np.full((2, 5000), -128, np.int8), "w": np.tile(np.array([-128, 127, -1], np.int8), (5000, 1))},
    ),
    Case(
        "matmul_integer/zero_points_at_run_time",
        "uint8[2,3,700] x, int8[700,4] w, uint8 a, int8[4] b",
        "y = MatMulInteger(x, w, a, b)",
        ranges={"x": (0, 256), "w": (-128, 128), "a": (0, 256), "b": (-128, 128)},
    ),
    Case(
        "matmul_integer/zero_points_by_column",
        "int8[3,300] x",
        "y = MatMulInteger(x, w, a, b)",
        {"w": I(300, 4), "a": np.int8(-128), "b": I(4)},
        **i8,
    ),
    Case(
        "matmul_integer/vectors",
        "uint8[300] x, uint8[300] w",
        "y = MatMulInteger(x, w)",
        ranges={"x": (0, 256), "w": (0, 256)},
        outputs="int32 y",
        numpy=lambda arrays, _: {"y": np.matmul(arrays["x"].astype(np.int32), arrays["w"].astype(np.int32))},
    ),
    Case(
        "matmul_integer/batches",
        "uint8[2,1,3,600] x, uint8[5,600,4] w",
        "y = MatMulInteger(x, w)",
        ranges={"x": (0, 256), "w": (0, 256)},
    ),
    Case(
        "conv_integer/many_taps",
        "uint8[1,2,21,23] x",
        "y = ConvInteger(x, w, z, v)",
        {"w": U(3, 2, 17, 19), "z": np.uint8(5), "v": np.uint8(200)},
        **u8,
    ),
    Case(
        "conv_integer/groups_of_long_sums",
        "uint8[1,140,5,6] x",
        "y = ConvInteger<group=2>(x, w, z)",
        {"w": U(4, 70, 3, 2), "z": np.uint8(5)},
        **u8,
    ),
    Case(
        "conv_integer/one_axis",
        "uint8[2,3,17] x",
        "y = ConvInteger<pads=[1,2], dilations=[2]>(x, w, z)",
        {"w": U(4, 3, 3), "z": np.uint8(100)},
        **u8,
    ),
    Case(
        "qlinear_matmul/long_sums",
        "uint8[3,2000] x",
        "y = QLinearMatMul(x, s, z, w, t, a, u, b)",
        {
            "s": f(0.013),
            "z": np.uint8(121),
            "w": I(2000, 7),
            "t": np.linspace(0.001, 0.009, 7).astype(np.float32),
            "a": np.zeros(7, np.int8),
            "u": f(1.1),
            "b": np.uint8(130),
        },
        **u8,
    ),
    *(
        Case(
            f"qlinear_matmul/two_inputs{name}",
            f"{kind}8[2,3,{terms}] x, {kind}8[2,{terms},4] v",
            "y = QLinearMatMul(x, s, z, v, t, a, u, b)",
            {"s": f(0.013), "z": zero(11), "t": f(0.007), "a": zero(99), "u": f(0.02), "b": zero(5)},
            shapes={"x": (2, 3, 5), "v": (2, 5, 4)} if terms == "K" else {},
            ranges={"x": of, "v": of},
            steps=1,
        )
        for name, kind, zero, terms, of in [
            ("", "int", np.int8, 5, (-128, 128)),
            ("_of_open_size", "int", np.int8, "K", (-128, 128)),
            ("_unsigned_of_open_size", "uint", np.uint8, "K", (0, 256)),
        ]
    ),
    Case(
        "qlinear_matmul/two_inputs_of_two_types",
        "uint8[2,3,5] x, int8[5,4] v",
        "y = QLinearMatMul(x, s, z, v, t, a, u, b)",
        {"s": f(0.013), "z": np.uint8(131), "t": f(0.007), "a": np.int8(-9), "u": f(0.02), "b": np.uint8(99)},
        ranges={"x": (0, 256), "v": (-128, 128)},
        steps=1,
    ),
    *(
        Case(
            f"qlinear_matmul/{name}",
            f"int8{list(x)} x",
            "y = QLinearMatMul(x, s, z, w, t, a, u, b)",
            {
                "s": f(0.03),
                "z": np.int8(-7),
                "w": I(*w),
                "t": np.array([0.02], np.float32),
                "a": np.int8(3),
                "u": f(0.9),
                "b": np.array([-9], np.int8),
            },
            **i8,
        )
        for name, x, w in [
            ("vector_by_vector", (5,), (5,)),
            ("vector_by_matrix", (5,), (5, 4)),
            ("matrix_by_vector", (3, 5), (5,)),
            ("matrix_by_matrices", (3, 5), (2, 5, 4)),
        ]
    ),
    Case(
        "qlinear_matmul/saturates",
        "int8[3,5] x",
        "y = QLinearMatMul(x, s, z, w, t, a, u, b)",
        {"s": f(0.5), "z": np.int8(-7), "w": I(5, 4), "t": f(0.5), "a": np.int8(3), "u": f(0.02), "b": np.int8(-9)},
        **i8,
    ),
    # All factors are powers of two: every second result is halfway between two steps.
    Case(
        "qlinear_matmul/halves",
        "int8[1,1] x",
        "y = QLinearMatMul(x, s, z, w, t, a, u, b)",
        {
            "s": f(0.5),
            "z": np.int8(0),
            "w": np.arange(-31, 33, dtype=np.int8).reshape(1, 64),
            "t": f(0.25),
            "a": np.int8(0),
            "u": f(0.25),
            "b": np.int8(3),
        },
        feeds={"x": np.array([[1]], np.int8)},
        steps=1,
    ),
    Case(
        "qlinear_conv/long_sums",
        "uint8[1,64,7,9] x",
        "y = QLinearConv<pads=[1,1,1,1], strides=[2,1]>(x, s, z, w, t, a, u, b, c)",
        {
            "s": f(0.013),
            "z": np.uint8(121),
            "w": I(5, 64, 3, 3),
            "t": np.linspace(0.001, 0.009, 5).astype(np.float32),
            "a": np.zeros(5, np.int8),
            "u": f(0.7),
            "b": np.uint8(130),
            "c": rng.integers(-100000, 100000, 5).astype(np.int32),
        },
        **u8,
    ),
    Case(
        "qlinear_conv/depthwise",
        "uint8[1,6,7,9] x",
        "y = QLinearConv<group=6>(x, s, z, w, t, a, u, b)",
        {
            "s": f(0.013),
            "z": np.uint8(121),
            "w": U(6, 1, 3, 2),
            "t": f(0.007),
            "a": np.uint8(120),
            "u": f(0.05),
            "b": np.uint8(3),
        },
        **u8,
    ),
    Case(
        "matmul_integer_to_float/bias",
        "uint8[3,300] x",
        "y = com.microsoft.MatMulIntegerToFloat(x, w, s, t, z, a, c)",
        {
            "w": I(300, 4),
            "s": f(0.013),
            "t": f(0.007, 0.001, 0.002, 0.03),
            "z": np.uint8(121),
            "a": np.zeros(4, np.int8),
            "c": f(1, -2, 3, 4),
        },
        outputs="float[3,4] y",
        opsets={"com.microsoft": 1},
        **u8,
    ),
    Case(
        "dynamic_quantize_matmul/bias",
        "float[2,3,300] x",
        "y = com.microsoft.DynamicQuantizeMatMul(x, w, t, a, c)",
        {"w": I(300, 4), "t": f(0.007, 0.001, 0.002, 0.03), "a": np.zeros(4, np.int8), "c": f(1, -2, 3, 4)},
        outputs="float[2,3,4] y",
        opsets={"com.microsoft": 1},
        ranges={"x": (-3, 5)},
    ),
    Case(
        "dynamic_quantize_matmul/zero_point",
        "float[3,30] x",
        "y = com.microsoft.DynamicQuantizeMatMul(x, w, t, a)",
        {"w": U(30, 4), "t": f(0.007), "a": np.uint8(130)},
        outputs="float[3,4] y",
        opsets={"com.microsoft": 1},
        ranges={"x": (2, 5)},
    ),
]
