# SPDX-License-Identifier: Apache-2.0
"""Gemm and MatMul: FULLY_CONNECTED takes the weight as [out, in] and a bias of one dimension, BATCH_MATMUL takes the rest."""

import numpy as np

from tests.support.case import Case

CASES = []


def gemm(name, attributes, a, b, c=None, c_at_run_time=False, **more):
    inputs, weights, names = f"float[{a}] x", {"b": b}, "x, b"
    if c is not None:
        names += ", c"
        if c_at_run_time:
            inputs += f", float[{','.join(map(str, c))}] c"
        else:
            weights["c"] = c
    CASES.append(Case("gemm/" + name, inputs, f"y = Gemm{attributes and f'<{attributes}>'}({names})", weights, **more))


gemm("plain", "", "5,7", (7, 3))
gemm("trans_b", "transB=1", "5,7", (3, 7))
gemm("trans_a", "transA=1", "7,5", (7, 3))
gemm("trans_both", "transA=1, transB=1", "7,5", (3, 7))
gemm("alpha", "alpha=0.5", "5,7", (7, 3))
gemm("alpha_beta", "alpha=0.5, beta=-2.0, transB=1", "5,7", (3, 7), (3,))
gemm("beta_zero", "beta=0.0", "5,7", (7, 3), (3,))
gemm("alpha_zero", "alpha=0.0", "5,7", (7, 3), (3,))
for shape in ((3,), (1, 3), (5, 1), (5, 3), (1, 1), (1,), ()):
    name = "x".join(map(str, shape)) or "scalar"
    gemm(f"c_{name}", "transB=1", "5,7", (3, 7), np.float32(0.75) if shape == () else shape)
    if shape:
        gemm(f"c_{name}_at_run_time", "alpha=0.5, beta=2.0", "5,7", (7, 3), shape, c_at_run_time=True)
for opset in (7, 9, 11):
    gemm(f"opset_{opset}", "transB=1", "5,7", (3, 7), (3,), opset=opset)
CASES += [
    Case("gemm/all_at_run_time", "float[5,7] x, float[7,3] b, float[3] c", "y = Gemm<alpha=0.5>(x, b, c)"),
    Case("gemm/all_at_run_time_transposed", "float[7,5] x, float[3,7] b", "y = Gemm<transA=1, transB=1>(x, b)"),
    Case("gemm/nothing_to_sum", "float[5,K] x, float[0,3] b", "y = Gemm(x, b)", shapes={"x": (5, 0), "b": (0, 3)}),
    Case("matmul/nothing_to_sum", "float[5,K] x, float[0,3] b", "y = MatMul(x, b)", shapes={"x": (5, 0), "b": (0, 3)}),
    Case(
        "matmul/six_axes_of_unknown_batches",
        "float[A,5,1,1,2,3] x, float[B,5,4,1,3,6] z",
        "y = MatMul(x, z)",
        shapes={"x": (1, 5, 1, 1, 2, 3), "z": (7, 5, 4, 1, 3, 6)},
        outputs="float[C,5,4,1,2,6] y",
    ),
    Case("gemm/weight_first", "float[7,5] x", "y = Gemm(b, x)", {"b": (3, 7)}),
    Case("gemm/then_relu", "float[5,7] x", "g = Gemm<transB=1>(x, b, c) y = Relu(g)", {"b": (3, 7), "c": (3,)}),
    Case(
        "gemm/dynamic_batch",
        "float[N,7] x",
        "y = Gemm<transB=1>(x, b, c)",
        {"b": (3, 7), "c": (3,)},
        shapes={"x": (5, 7)},
    ),
    Case("gemm/float64", "double[5,7] x", "y = Gemm(x, b)", {"b": np.random.default_rng(1).uniform(-1, 1, (7, 3))}),
    Case(
        "gemm/two_layers",
        "float[5,7] x",
        "h = Gemm<transB=1>(x, b, c) r = Relu(h) y = Gemm(r, d, e)",
        {"b": (3, 7), "c": (3,), "d": (3, 4), "e": (4,)},
    ),
    Case(
        "gemm/shared_weight",
        "float[5,7] x, float[2,3] z",
        "y = Gemm(x, b) v = Gemm<transB=1>(z, b)",
        {"b": (7, 3)},
        outputs="y, v",
    ),
]


def matmul(name, a, b, **more):
    """Three cases: both at run time, the second constant, the first constant."""
    CASES.append(Case(f"matmul/{name}", f"float[{a}] a, float[{b}] b", "y = MatMul(a, b)", **more))
    dims = {n: tuple(map(int, t.split(","))) for n, t in (("a", a), ("b", b))}
    CASES.append(Case(f"matmul/{name}_constant_b", f"float[{a}] a", "y = MatMul(a, b)", {"b": dims["b"]}, **more))
    CASES.append(Case(f"matmul/{name}_constant_a", f"float[{b}] b", "y = MatMul(a, b)", {"a": dims["a"]}, **more))


matmul("2d", "5,7", "7,3")
matmul("3d_2d", "2,5,7", "7,3")
matmul("2d_3d", "5,7", "2,7,3")
matmul("3d", "2,5,7", "2,7,3")
matmul("3d_broadcast_a", "1,5,7", "2,7,3")
matmul("3d_broadcast_b", "2,5,7", "1,7,3")
matmul("4d", "2,4,5,7", "2,4,7,3")
matmul("4d_broadcast", "2,1,5,7", "1,4,7,3")
matmul("4d_2d", "2,4,5,7", "7,3")
matmul("4d_3d", "2,4,5,7", "4,7,3")
matmul("5d", "2,3,4,5,7", "2,3,4,7,6")
matmul("5d_broadcast", "2,1,4,5,7", "3,1,7,6")
matmul("6d_2d", "2,1,3,4,5,7", "7,6")
matmul("vector_matrix", "7", "7,3")
matmul("matrix_vector", "5,7", "7")
matmul("vector_vector", "7", "7")
matmul("batch_vector", "2,5,7", "7")
matmul("vector_batch", "7", "2,7,3")
matmul("one_row", "1,7", "7,3")
matmul("one_column", "5,7", "7,1")
CASES += [
    Case("matmul/opset_7", "float[2,5,7] a", "y = MatMul(a, b)", {"b": (7, 3)}, opset=7),
    Case("matmul/opset_9", "float[2,5,7] a", "y = MatMul(a, b)", {"b": (7, 3)}, opset=9),
    Case("matmul/then_add", "float[2,5,7] a", "m = MatMul(a, b) y = Add(m, c)", {"b": (7, 3), "c": (3,)}),
    Case("matmul/then_add_first", "float[2,5,7] a", "m = MatMul(a, b) y = Add(c, m)", {"b": (7, 3), "c": (3,)}),
    Case(
        "matmul/then_add_that_is_no_bias",
        "float[2,5,7] a",
        "m = MatMul(a, b) y = Add(m, c)",
        {"b": (7, 3), "c": (5, 1)},
    ),
    Case(
        "matmul/then_add_then_relu",
        "float[2,5,7] a",
        "m = MatMul(a, b) n = Add(m, c) y = Relu(n)",
        {"b": (7, 3), "c": (3,)},
    ),
    Case("matmul/transposed_b", "float[2,5,7] a, float[2,3,7] b", "t = Transpose<perm=[0,2,1]>(b) y = MatMul(a, t)"),
    Case("matmul/transposed_a", "float[2,7,5] a, float[2,7,3] b", "t = Transpose<perm=[0,2,1]>(a) y = MatMul(t, b)"),
    Case("matmul/int32", "int32[5,7] a, int32[7,3] b", "y = MatMul(a, b)", ranges={"a": (-9, 9), "b": (-9, 9)}),
    Case("matmul/float64", "double[5,7] a, double[7,3] b", "y = MatMul(a, b)"),
    Case("matmul/dynamic_batch", "float[N,5,7] a", "y = MatMul(a, b)", {"b": (7, 3)}, shapes={"a": (4, 5, 7)}),
    Case(
        "matmul/head_split",
        "float[2,5,12] x",
        "q = MatMul(x, wq) k = MatMul(x, wk) qr = Reshape(q, s) kr = Reshape(k, s) qt = Transpose<perm=[0,2,1,3]>(qr) "
        "kt = Transpose<perm=[0,2,3,1]>(kr) y = MatMul(qt, kt)",
        {"wq": (12, 12), "wk": (12, 12), "s": np.array([2, 5, 3, 4])},
    ),
]


# Products of constants are computed once.
def constants(name, body, **weights):
    return Case(f"matmul/constants_{name}", "float[1] x", body + " y = Mul(c, x)", weights)


CASES += [
    constants("plain", "c = MatMul(a, b)", a=(5, 7), b=(7, 3)),
    constants("batches", "c = MatMul(a, b)", a=(2, 1, 5, 7), b=(4, 7, 3)),
    constants("transposed", "t = Transpose<perm=[0,2,1]>(a) c = MatMul(t, b)", a=(2, 7, 5), b=(2, 7, 3)),
    constants("right_transposed", "t = Transpose<perm=[0,2,1]>(b) c = MatMul(a, t)", a=(2, 5, 7), b=(2, 3, 7)),
    constants("gemm", "c = Gemm<alpha=0.5, beta=2.0, transB=1>(a, b, d)", a=(5, 7), b=(3, 7), d=(3,)),
    constants(
        "network", "h = MatMul(a, b) r = Relu(h) m = MatMul(r, d) c = Sigmoid(m)", a=(19, 2), b=(2, 501), d=(501, 3)
    ),
    constants("large", "c = MatMul(a, b)", a=(600, 2), b=(2, 500)),  # larger than its operands: left to the run
]
