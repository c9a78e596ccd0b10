# SPDX-License-Identifier: Apache-2.0
"""A small valid model, and the parts of it that tests damage."""

import numpy as np
from onnx import TensorProto, helper, numpy_helper


def good_model():
    """the_input[1,3,7,9] -> Conv -> Reshape -> Gemm -> y, with inline weights."""
    rng = np.random.default_rng(0)
    weights = {
        "the_kernel": rng.uniform(-1, 1, (4, 3, 3, 2)),
        "the_matrix": rng.uniform(-1, 1, (5, 160)),
        "the_bias": rng.uniform(-1, 1, 5),
    }
    initializers = [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()]
    initializers.append(numpy_helper.from_array(np.array([1, -1], np.int64), "shape"))
    nodes = [
        helper.make_node("Conv", ["the_input", "the_kernel"], ["conv_out"], name="the_conv", kernel_shape=[3, 2]),
        helper.make_node("Reshape", ["conv_out", "shape"], ["r"], name="the_reshape"),
        helper.make_node("Gemm", ["r", "the_matrix", "the_bias"], ["y"], name="the_gemm", transB=1),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("the_input", TensorProto.FLOAT, [1, 3, 7, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 5])],
        initializer=initializers,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


def initializer(model, name):
    return next(t for t in model.graph.initializer if t.name == name)


def node(model, name):
    return next(n for n in model.graph.node if n.name == name)


def attribute(model, name, which, value):
    """Sets an attribute of a node."""
    changed = node(model, name)
    kept = [a for a in changed.attribute if a.name != which]
    del changed.attribute[:]
    changed.attribute.extend([*kept, helper.make_attribute(which, value)])
