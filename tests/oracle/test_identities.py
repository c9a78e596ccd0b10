# SPDX-License-Identifier: Apache-2.0
"""Operators that give an operand back are gone from the file, and what only looks like one is not: -0, NaN, infinities,
shapes that grow. Judged by ONNX Runtime, bit for bit."""

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import helper, numpy_helper

from tests.support import converter, judge
from tests.support.tflite_file import read_tflite

SPECIAL = np.array(
    [[-0.0, 0.0, 1.5, -2.5, np.inf], [-np.inf, np.nan, 1e-30, -1e30, 3.0], [0.25, -0.75, 7.0, -0.0, 2.0]], np.float32
)
# LiteRT's kernels give the largest number for infinities.
FLOATS = np.array(
    [[-0.0, 0.0, 1.5, -2.5, 9.0], [8.0, -4.0, 1e-30, -1e30, 3.0], [0.25, -0.75, 7.0, -0.0, 2.0]], np.float32
)
INTEGERS = np.array([[-5, 0, 7, 2, 1], [3, -1, 9, 8, -8], [4, 6, -7, 11, 12]], np.int32)
BOOLS = np.array([[1, 0, 0, 1, 1], [0, 0, 1, 1, 0], [1, 1, 1, 0, 0]], bool)
CONSTANTS = {
    "one": np.float32(1),
    "ones": np.ones((3, 5), np.float32),
    "wide": np.ones((2, 3, 5), np.float32),
    "nearly": np.array([1, 1, 1, 1, 1.0000001], np.float32),
    "zero": np.float32(0),
    "minus": np.float32(-0.0),
    "one_i": np.int32(1),
    "zeros_i": np.zeros(5, np.int32),
    "true": np.array(True),
    "false": np.zeros((3, 1), bool),
    "all": np.arange(3),
    "back": np.array([0, 2, 1]),
    "some": np.arange(2),
}

# name: what is computed of x, and data for it.
GONE = {
    "x * 1": ("Mul(x, one)", SPECIAL),
    "1 * x": ("Mul(one, x)", SPECIAL),
    "x * ones": ("Mul(x, ones)", SPECIAL),
    "x / 1": ("Div(x, one)", SPECIAL),
    "x - 0": ("Sub(x, zero)", SPECIAL),
    "x + -0": ("Add(x, minus)", SPECIAL),
    "integer * 1": ("Mul(x, one_i)", INTEGERS),
    "integer / 1": ("Div(x, one_i)", INTEGERS),
    "integer + 0": ("Add(x, zeros_i)", INTEGERS),
    "integer - 0": ("Sub(x, zeros_i)", INTEGERS),
    "x and true": ("And(x, true)", BOOLS),
    "x or false": ("Or(x, false)", BOOLS),
    "false or x": ("Or(false, x)", BOOLS),
    "x xor false": ("Xor(x, false)", BOOLS),
    "all of x": ("Gather(x, all)", SPECIAL),
    # ONNX Runtime's Where adds, and loses the sign of a zero.
    "x where true": ("Where(true, x, ones)", np.abs(FLOATS)),
    "x where not false": ("Where(false, ones, x)", np.abs(FLOATS)),
}
KEPT = {
    "x + 0": ("Add(x, zero)", FLOATS),
    "0 - x": ("Sub(zero, x)", FLOATS),
    "x - -0": ("Sub(x, minus)", FLOATS),
    "1 / x": ("Div(one, x)", np.abs(FLOATS) + 1),
    "x * nearly 1": ("Mul(x, nearly)", FLOATS),
    "x and false": ("And(x, false)", BOOLS),
    "x or true": ("Or(x, true)", BOOLS),
    "x xor true": ("Xor(x, true)", BOOLS),
    "another order": ("Gather(x, back)", FLOATS),
    "a part": ("Gather(x, some)", FLOATS),
    "a larger shape": ("Mul(x, wide)", FLOATS),
}


def converted(expression, data, tmp_path):
    """The operators of the file, counted; the numbers are judged."""
    kind = {np.float32: "float", np.int32: "int32", np.bool_: "bool"}[data.dtype.type]
    text = f"g ({kind}[3,5] x) => ({kind} o) {{ o = {expression} }}"
    graph = onnx.parser.parse_graph(text)
    used = {name for node in graph.node for name in node.input}
    graph.initializer.extend(numpy_helper.from_array(v, k) for k, v in CONSTANTS.items() if k in used)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model = onnx.shape_inference.infer_shapes(model)
    onnx.save(model, tmp_path / "m.onnx")
    done = converter.convert(tmp_path / "m.onnx", tmp_path / "m.tflite")
    assert done.status == "converted", done.reason
    expected = judge.reference(model.SerializeToString(), {"x": data})["o"]
    for got in outputs(tmp_path / "m.tflite", data):
        np.testing.assert_array_equal(got, expected)
        assert (np.signbit(got) == np.signbit(expected))[~np.isnan(expected)].all() if kind == "float" else True
    return read_tflite(tmp_path / "m.tflite").operators


def outputs(path, data):
    from ai_edge_litert.interpreter import Interpreter, OpResolverType

    for resolver in (OpResolverType.AUTO, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
        interpreter = Interpreter(str(path), experimental_op_resolver_type=resolver)
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], data)
        interpreter.invoke()
        yield interpreter.get_tensor(interpreter.get_output_details()[0]["index"])


@pytest.mark.parametrize("name", GONE)
def test_what_gives_an_operand_back_is_gone(name, tmp_path):
    expression, data = GONE[name]
    assert converted(expression, data, tmp_path) == converted("Identity(x)", data, tmp_path)


@pytest.mark.parametrize("name", KEPT)
def test_what_does_not_stays(name, tmp_path):
    expression, data = KEPT[name]
    converted(expression, data, tmp_path)
