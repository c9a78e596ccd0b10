"""MatMulInteger, ConvInteger, QLinearMatMul, QLinearConv: exact integers, also in sums that floats do not hold."""

import numpy as np

from case import Case

rng = np.random.default_rng(7)
U = lambda *shape: rng.integers(0, 256, shape).astype(np.uint8)  # noqa: E731
I = lambda *shape: rng.integers(-128, 128, shape).astype(np.int8)  # noqa: E731, E741
u8, i8 = {"ranges": {"x": (0, 256)}}, {"ranges": {"x": (-128, 128)}}
f = lambda *values: np.array(values if len(values) > 1 else values[0], np.float32)  # noqa: E731

CASES = [
    Case("matmul_integer/plain", "uint8[3,5] x", "y = MatMulInteger(x, w)", {"w": U(5, 4)}, **u8),
    Case("matmul_integer/zero_points", "uint8[2,3,5] x", "y = MatMulInteger(x, w, a, b)",
         {"w": I(5, 4), "a": np.uint8(117), "b": np.int8(-7)}, **u8),
    Case("matmul_integer/long_sums", "uint8[3,1000] x", "y = MatMulInteger(x, w, a)", {"w": U(1000, 4), "a": np.uint8(3)}, **u8),
    Case("matmul_integer/two_inputs", "uint8[2,3,300] x, uint8[2,300,4] w", "y = MatMulInteger(x, w)",
         ranges={"x": (0, 256), "w": (0, 256)}),
    Case("conv_integer/zero_point_pads", "uint8[1,3,7,9] x", "y = ConvInteger<pads=[1,0,1,1], strides=[2,1]>(x, w, z)",
         {"w": U(4, 3, 3, 2), "z": np.uint8(121)}, **u8),
    Case("conv_integer/long_sums", "uint8[1,70,5,6] x", "y = ConvInteger(x, w, z)", {"w": U(4, 70, 3, 2), "z": np.uint8(5)}, **u8),
    Case("qlinear_matmul/plain", "uint8[3,5] x", "y = QLinearMatMul(x, s, z, w, t, a, u, b)",
         {"s": f(0.013), "z": np.uint8(121), "w": U(5, 4), "t": f(0.007), "a": np.uint8(99), "u": f(0.02), "b": np.uint8(130)}, **u8),
    Case("qlinear_conv/bias_scales_by_channel", "uint8[1,3,7,9] x", "y = QLinearConv<pads=[1,0,1,1]>(x, s, z, w, t, a, u, b, c)",
         {"s": f(0.013), "z": np.uint8(121), "w": I(4, 3, 3, 2), "t": f(0.007, 0.003, 0.009, 0.011), "a": np.zeros(4, np.int8),
          "u": f(0.05), "b": np.uint8(130), "c": np.array([100, -2000, 30, 999], np.int32)}, **u8),
]
