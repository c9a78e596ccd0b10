# SPDX-License-Identifier: Apache-2.0
"""ONNX models with operators that TFLite lacks."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

DOMAIN = "my.ops"
SHAPE = (2, 3, 5)
LIMITS = ((-1.0, 2.0), (0.0, 0.5))  # of the two Clamp nodes


def value(name, shape=SHAPE, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def model(nodes, inputs, outputs, value_info=(), initializers=(), opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers), value_info=list(value_info))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 3)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def node(op, inputs, outputs, name=None, **attributes):
    return helper.make_node(op, inputs, outputs, name, domain=DOMAIN, **attributes)


def two_clamps():
    nodes = [
        node("Clamp", ["x"], ["a"], "first", min=LIMITS[0][0], max=LIMITS[0][1]),
        node("Clamp", ["a"], ["y"], "second", min=LIMITS[1][0], max=LIMITS[1][1]),
    ]
    return model(nodes, [value("x")], [value("y")], [value("a")])


def atan():
    return model([helper.make_node("Atan", ["x"], ["y"], "arc")], [value("x")], [value("y", None)])


def five_unknown():
    """Five operators in a row, none of which is known."""
    names = ["x", "a", "b", "c", "d", "y"]
    nodes = [node(op, [names[i]], [names[i + 1]], f"node_{op}") for i, op in enumerate(["A", "B", "C", "D", "E"])]
    return model(nodes, [value("x")], [value("y")], [value(name) for name in names[1:-1]])


# Every type that an attribute can have, but graphs.
ATTRIBUTES = {
    "f": 0.1,
    "i": -(2**40),
    "s": "text ü",
    "bytes": b"\xff\x00\xfe",
    "t": numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "t"),
    "floats": [0.5, -1.25e20, 3.0],
    "ints": [1, -(2**33), 7, 0, 5],
    "strings": ["a", "", "ccc"],
    "tensors": [
        numpy_helper.from_array(np.array([[2**40], [-3]], np.int64)),
        numpy_helper.from_array(np.array(True)),
        numpy_helper.from_array(np.array([1.5, -2], np.float16)),
    ],
}


def all_attributes():
    one = node("Everything", ["x"], ["y"], "everything", **ATTRIBUTES)
    sparse = helper.make_sparse_tensor(
        numpy_helper.from_array(np.array([1.5, 2.5], np.float32), "sparse"),
        numpy_helper.from_array(np.array([1, 11], np.int64)),
        [3, 4],
    )
    one.attribute.append(helper.make_attribute("sparse", sparse))
    one.attribute.append(helper.make_attribute("sparses", [sparse, sparse]))
    one.attribute.append(
        helper.make_attribute("type", helper.make_tensor_type_proto(TensorProto.INT64, [2, "n", None]))
    )
    one.attribute.append(
        helper.make_attribute(
            "types", [helper.make_tensor_type_proto(TensorProto.FLOAT, [4]), helper.make_tensor_type_proto(9, None)]
        )
    )
    for name in ("no_floats", "no_ints", "no_strings"):
        empty = onnx.AttributeProto(name=name)
        empty.type = getattr(onnx.AttributeProto, name.removeprefix("no_").upper())
        one.attribute.append(empty)
    text = onnx.AttributeProto(name="words", type=onnx.AttributeProto.TENSOR)
    text.t.CopyFrom(helper.make_tensor("words", TensorProto.STRING, [2], [b"one", b"two"]))
    one.attribute.append(text)
    return model([one], [value("x")], [value("y")])
