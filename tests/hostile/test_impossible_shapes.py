# SPDX-License-Identifier: Apache-2.0
"""Shapes that are known only at run time, and that no run can make fit: such models are refused with both numbers, since
LiteRT would only find out when it runs. Models that some input can run are converted."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from tests.hostile.refusal import refuse_model
from tests.support import converter, judge
from tests.support.litert import Litert, RuntimeRefusal

ZEROS = {
    "w57": (5, 7),
    "w67": (6, 7),
    "w87": (8, 7),
    "w47": (4, 7),
    "w76": (7, 6),
    "c3": (3,),
    "c5": (5,),
    "c6": (6,),
    "c55": (5, 5),
    "c1": (1,),
}


def model(inputs, body, outputs, opset=17):
    graph = onnx.parser.parse_graph(f"g ({inputs}) => ({outputs}) {{ {body} }}")
    for name, shape in ZEROS.items():
        if name in body:
            graph.initializer.append(numpy_helper.from_array(np.ones(shape, np.float32), name))
    for node in graph.node:
        node.name = "n_" + node.output[0]
    for output in graph.output:
        output.type.tensor_type.elem_type = 1
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


X = "float[2,12] x, int64[2] s"
R = "r = Reshape(x, s) "

# Each with the words of the message; the node of the message stands first.
IMPOSSIBLE = {
    "two depths": (
        X,
        R + "a = MatMul(r, w57) b = MatMul(r, w67)",
        "a, b",
        ("n_b", "must be 6 for this node and 5 for node 'n_a'"),
    ),
    "two Gemms": (X, R + "a = Gemm(r, w57) b = Gemm(r, w67)", "a, b", ("n_b", "6", "5", "n_a")),
    "a depth and a sum": (X, R + "a = MatMul(r, w57) b = Add(r, c6)", "a, b", ("n_b", "1 or 6", "5", "n_a")),
    "a sum at run time": (X + ", float[6] y", R + "a = MatMul(r, w87) b = Mul(r, y)", "a, b", ("n_b", "1 or 6", "8")),
    "a depth that does not divide": (X, R + "a = MatMul(r, w57)", "a", ("n_a", "5", "24 elements")),
    "too many elements": (X, R + "a = Add(r, c55)", "a", ("n_a", "1 or 5, 1 or 5", "24 elements")),
    "transposed": (
        X,
        R + "t = Transpose<perm=[1,0]>(r) a = MatMul(r, w57) b = MatMul(w76, t)",
        "a, b",
        ("n_b", "6", "5"),
    ),
    "two reshaped": (
        X + ", float[2,12] z, int64[2] u",
        R + "q = Reshape(z, u) a = MatMul(r, w47) b = MatMul(q, w67) c = Add(r, q)",
        "a, b, c",
        ("n_c", "4", "n_a", "6", "n_b"),
    ),
    "joined with a constant": (
        X,
        R + "a = Concat<axis=0>(r, w57) b = MatMul(r, w67)",
        "a, b",
        ("n_b", "6", "7", "n_a"),
    ),
    "joined with another one": (
        X + ", float[2,12] z",
        R + "q = Reshape(z, s) c = Concat<axis=0>(r, q) a = MatMul(q, w47) b = MatMul(c, w67)",
        "a, b",
        ("4", "6"),
    ),
    "indices of non-zeros": (
        "float[2,12] x",
        "r = NonZero(x) q = Cast<to=1>(r) a = MatMul(q, w57) b = MatMul(q, w67)",
        "a, b",
        ("n_b", "6", "5"),
    ),
    "a dynamic input": ("float[N,M] x", "a = MatMul(x, w57) b = MatMul(x, w67)", "a, b", ("n_b", "6", "5")),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_no_run_can_succeed(name, tmp_path):
    inputs, body, outputs, words = IMPOSSIBLE[name]
    refuse_model(model(inputs, body, outputs), tmp_path, "malformed", (words[0], "no run can", *words[1:]))


# Dimensions that are not known may fit: no fault of the model.
UNDECIDED = {
    "a repeated label": ("float[3,N] x", 'y = Einsum<equation="ii">(x)', "y", "a repeated label"),
    "coordinates of boxes": (
        "float[1,N,M] b, float[1,2,N] s, int64[1] k",
        "y = NonMaxSuppression(b, s, k)",
        "y",
        "boxes must have shape",
    ),
    "an affine matrix": (
        "float[1,N,3] t",
        "s = Constant<value_ints=[1,2,4,5]>() y = AffineGrid(t, s)",
        "y",
        "does not fit a size of 4 elements",
    ),
}


@pytest.mark.parametrize("name", UNDECIDED)
def test_what_may_fit_is_unsupported(name, tmp_path):
    inputs, body, outputs, words = UNDECIDED[name]
    refuse_model(model(inputs, body, outputs, opset=20), tmp_path, "unsupported", (words, "--shape"))


ONES = np.ones

# Each with inputs that run.
POSSIBLE = {
    "sums that meet in one": (
        "float[2,15] x, int64[2] s",
        R + "a = Add(r, c3) b = Add(r, c5)",
        "a, b",
        {"x": ONES((2, 15), np.float32), "s": np.array([30, 1])},
    ),
    "a depth that divides": (X, R + "a = MatMul(r, w67)", "a", {"x": ONES((2, 12), np.float32), "s": np.array([4, 6])}),
    "a depth and a sum of it": (
        X,
        R + "a = MatMul(r, w67) b = Add(r, c6)",
        "a, b",
        {"x": ONES((2, 12), np.float32), "s": np.array([4, 6])},
    ),
    "one element": (
        "float[1,1] x, int64[2] s",
        R + "a = Add(r, c55)",
        "a",
        {"x": ONES((1, 1), np.float32), "s": np.array([1, 1])},
    ),
    "one name for two sizes": (
        "float[N,N] x",
        "a = MatMul(x, w57) t = Transpose<perm=[1,0]>(x) b = MatMul(t, w67)",
        "a, b",
        {"x": ONES((6, 5), np.float32)},
    ),
}


@pytest.mark.parametrize("name", POSSIBLE)
def test_what_may_run_is_converted(name, tmp_path):
    inputs, body, outputs, arrays = POSSIBLE[name]
    path, tflite = tmp_path / "model.onnx", tmp_path / "model.tflite"
    onnx.save(model(inputs, body, outputs), path)
    conversion = converter.convert(path, tflite)
    assert conversion.status == "converted", conversion.reason
    expected = judge.reference(path, arrays)
    with Litert() as litert:
        actual = litert.run(tflite, arrays, False)
    for output, value in expected.items():
        assert np.allclose(actual[output], value)


# The rank of the result is that of axes of which each is listed once. ONNX does not say what a second time means.
@pytest.mark.parametrize(
    ("inputs", "body"),
    [
        ("float[2,3,4] x, int64[2] s", "r = ReduceSum<keepdims=0>(x, s) a = Softmax<axis=0>(r)"),
        ("float[1,2,3,1] x, int64[2] s", "r = Squeeze(x, s) a = Softmax<axis=1>(r)"),
        ("float[3,2] x, int64[2] s", "r = Unsqueeze(x, s) a = Softmax<axis=1>(r)"),
    ],
)
def test_an_axis_listed_twice_at_run_time_is_no_answer(inputs, body, tmp_path):
    path, tflite = tmp_path / "model.onnx", tmp_path / "model.tflite"
    made = model(inputs, body, "a")
    onnx.save(made, path)
    assert converter.convert(path, tflite).status == "converted"
    extents = [dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim]
    feeds = {"x": np.ones(extents, np.float32), "s": np.array([0, 0], np.int64)}
    with Litert() as litert, pytest.raises(RuntimeRefusal, match="RESHAPE"):
        litert.run(tflite, feeds, False)


BRANCH = """
    r = Reshape(x, s)
    y = If (c) <
        then_branch = g1 () => (float[A,7] t) { t = MatMul(r, w57) },
        else_branch = g2 () => (float[A,7] e) { e = MatMul(r, w67) }
    >"""


def test_branches_are_not_compared(tmp_path):
    """One of the two runs."""
    path = tmp_path / "model.onnx"
    onnx.save(model("float[2,15] x, int64[2] s, bool c", BRANCH, "y"), path)
    conversion = converter.convert(path, tmp_path / "model.tflite")
    assert conversion.status == "converted", conversion.reason
