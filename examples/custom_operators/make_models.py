# SPDX-License-Identifier: Apache-2.0
"""Writes clamp.onnx (two nodes of one operator with different attributes), atan.onnx, and x.npy, an input of both."""

import numpy as np
import onnx
from onnx import TensorProto, helper

SHAPE = [2, 3, 5]


def save(path, nodes, known=()):
    values = {name: helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("x", "y", *known)}
    graph = helper.make_graph(
        nodes, "example", [values["x"]], [values["y"]], value_info=[values[name] for name in known]
    )
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("my.ops", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=8), path)


def clamp(given, result, low, high):
    return helper.make_node("Clamp", [given], [result], result, domain="my.ops", min=low, max=high)


save("clamp.onnx", [clamp("x", "a", -1.0, 2.0), clamp("a", "y", 0.0, 0.5)], ["a"])
save("atan.onnx", [helper.make_node("Atan", ["x"], ["y"], "arc")])
np.save("x.npy", np.linspace(-4, 4, 30, dtype=np.float32).reshape(SHAPE))
np.load("x.npy").tofile("x.bin")
