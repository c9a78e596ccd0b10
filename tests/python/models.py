# SPDX-License-Identifier: Apache-2.0
"""Small models for the tests of the Python package, made with the package `onnx`."""

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

import lowtide

ELEMENTS = {
    "float32": T.FLOAT,
    "float16": T.FLOAT16,
    "float64": T.DOUBLE,
    "int8": T.INT8,
    "int16": T.INT16,
    "int32": T.INT32,
    "int64": T.INT64,
    "uint8": T.UINT8,
    "uint32": T.UINT32,
    "bool": T.BOOL,
    "string": T.STRING,
}


def value(name, dtype, shape):
    return helper.make_tensor_value_info(name, ELEMENTS[dtype], shape)


def save(path, nodes, inputs, outputs, initializers=(), opset=17):
    tensors = [numpy_helper.from_array(array, name) for name, array in dict(initializers).items()]
    graph = helper.make_graph(nodes, "g", inputs, outputs, tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8), path)
    return path


def converted(path, **options):
    return lowtide.convert(path, path.with_suffix(".tflite"), **options).output


def identity(path, dtype, shape=(2, 3), to=(3, 2)):
    """Reshape of any element type."""
    return save(
        path,
        [helper.make_node("Reshape", ["x", "to"], ["y"])],
        [value("x", dtype, shape)],
        [value("y", dtype, to)],
        {"to": np.array(to)},
    )


def product(path, weights, rows=2):
    """h = x * weights, y = Relu(h), for `rows` rows; a str is a dynamic number of them."""
    k, n = weights.shape
    return save(
        path,
        [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])],
        [value("x", "float32", [rows, k])],
        [value("y", "float32", [rows, n])],
        {"w": weights},
    )


def two_products(path, first, second, rows=2):
    """hidden = Relu(x * first), and next to it, so that nothing is fused away, y = hidden * second + hidden * hidden."""
    k, n = first.shape
    nodes = [
        helper.make_node("MatMul", ["x", "a"], ["before"]),
        helper.make_node("Relu", ["before"], ["hidden"]),
        helper.make_node("MatMul", ["hidden", "b"], ["p"]),
        helper.make_node("Mul", ["hidden", "hidden"], ["q"]),
        helper.make_node("Add", ["p", "q"], ["y"]),
    ]
    return save(
        path, nodes, [value("x", "float32", [rows, k])], [value("y", "float32", [rows, n])], {"a": first, "b": second}
    )


def non_zero(path):
    return save(
        path,
        [helper.make_node("NonZero", ["x"], ["y"])],
        [value("x", "float32", [2, 3])],
        [value("y", "int64", [2, "count"])],
    )


IMAGE_NET = np.random.default_rng(3)


def image_net(path, *, scale=1.0):
    """Two convolutions in NCHW with an activation, and a mean: what settles layouts."""
    first, second = (IMAGE_NET.random(shape).astype(np.float32) - 0.5 for shape in ((8, 3, 3, 3), (4, 8, 1, 1)))
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Conv", ["r", "b"], ["d"]),
        helper.make_node("Sigmoid", ["d"], ["s"]),
        helper.make_node("GlobalAveragePool", ["s"], ["y"]),
    ]
    return save(
        path,
        nodes,
        [value("x", "float32", [1, 3, 6, 6])],
        [value("s", "float32", [1, 4, 6, 6]), value("y", "float32", [1, 4, 1, 1])],
        {"a": first * scale, "b": second},
    )


def decibels(expected, found):
    """Signal to noise; infinite where there is no error."""
    expected = np.asarray(expected, np.float64)
    error = expected - np.asarray(found, np.float64).reshape(expected.shape)
    with np.errstate(divide="ignore"):
        return 10 * np.log10(np.square(expected).sum() / np.square(error).sum())
