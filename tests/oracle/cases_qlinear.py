"""com.microsoft's operators on quantized integers, as ONNX Runtime's quantizer writes them."""

import numpy as np

from case import Case, f32

rng = np.random.default_rng(9)
U = lambda *shape: rng.integers(0, 256, shape).astype(np.uint8)  # noqa: E731
I = lambda *shape: rng.integers(-128, 128, shape).astype(np.int8)  # noqa: E731, E741
f = lambda value: np.array(value, np.float32)  # noqa: E731
u8, i8 = {"ranges": {"x": (0, 256), "v": (0, 256)}}, {"ranges": {"x": (-128, 128), "v": (-128, 128)}}
X = {"s": f(0.0371), "z": np.uint8(121)}
Y = {"u": f(0.0513), "b": np.uint8(99)}


def qlinear(name, inputs, body, weights, output, **more):
    CASES.append(Case("qlinear/" + name, inputs, body, weights, opsets={"com.microsoft": 1}, outputs=output, **more))


CASES = []
qlinear("add", "uint8[2,3,5] x, uint8[3,1] v", "y = com.microsoft.QLinearAdd(x, s, z, v, t, a, u, b)", {**X, **Y, "t": f(0.0231), "a": np.uint8(7)},
        "uint8[2,3,5] y", **u8)
qlinear("add_int8_one_zero_point_absent", "int8[2,3,5] x, int8[2,3,5] v", "y = com.microsoft.QLinearAdd(x, s, z, v, t, a, u)",
        {"s": f(0.0371), "z": np.int8(3), "t": f(0.0231), "a": np.int8(-9), "u": f(0.0513)}, "int8[2,3,5] y", **i8)
qlinear("mul", "uint8[2,3,5] x, uint8[3,1] v", "y = com.microsoft.QLinearMul(x, s, z, v, t, a, u, b)", {**X, **Y, "t": f(0.0231), "a": np.uint8(7)},
        "uint8[2,3,5] y", **u8)
qlinear("sigmoid", "uint8[2,3,5] x", "y = com.microsoft.QLinearSigmoid(x, s, z, u, b)", {**X, "u": f(1 / 256), "b": np.uint8(0)}, "uint8[2,3,5] y", **u8)
qlinear("leaky_relu", "int8[2,3,5] x", "y = com.microsoft.QLinearLeakyRelu<alpha=0.13>(x, s, z, u, b)",
        {"s": f(0.0371), "z": np.int8(11), "u": f(0.0213), "b": np.int8(-40)}, "int8[2,3,5] y", **i8)
qlinear("global_average_pool", "uint8[2,3,5,7] x", "y = com.microsoft.QLinearGlobalAveragePool(x, s, z, u, b)", {**X, **Y}, "uint8[2,3,1,1] y", **u8)
qlinear("global_average_pool_channels_last", "uint8[2,5,7,3] x", "y = com.microsoft.QLinearGlobalAveragePool<channels_last=1>(x, s, z, u, b)", {**X, **Y},
        "uint8[2,1,1,3] y", **u8)
qlinear("concat", "uint8[2,3,5] x, uint8[2,4,5] v", "y = com.microsoft.QLinearConcat<axis=1>(u, b, x, s, z, v, t, a)", {**X, **Y, "t": f(0.0231), "a": np.uint8(7)},
        "uint8[2,7,5] y", **u8)
qlinear("gemm", "uint8[5,300] x", "y = com.microsoft.QGemm<transB=1, alpha=0.5>(x, s, z, w, t, a, c, u, b)",
        {**X, "w": I(7, 300), "t": np.linspace(0.001, 0.009, 7).astype(np.float32), "a": np.zeros(7, np.int8), "c": rng.integers(-999, 999, 7).astype(np.int32),
         "u": f(0.53), "b": np.uint8(99)}, "uint8[5,7] y", **u8)
qlinear("gemm_to_floats", "uint8[300,5] x", "y = com.microsoft.QGemm<transA=1>(x, s, z, w, t, a)", {**X, "w": U(300, 7), "t": f(0.003), "a": np.uint8(3)},
        "float[5,7] y", **u8)
