# SPDX-License-Identifier: Apache-2.0
"""A model whose 8-bit products ONNX Runtime computes exactly on every processor.

On x86-64 without VNNI, ONNX Runtime adds pairs of products of uint8 data and int8 weights in 16 bits, which saturate: its
results are wrong there (docs of onnxruntime, "Quantize ONNX models", U8S8). Products of uint8 by uint8 are exact. So int8
weights and their zero points are moved up by 128, which changes no product of (w - zero point).
"""

import numpy as np
import onnx
import onnx.shape_inference
from onnx import TensorProto, helper, numpy_helper

# Operator: inputs with data, with weights, with the zero points of the weights. All weights of an operator share a type.
SLOTS = {
    ("", "ConvInteger"): (0, [1], [3]),
    ("", "MatMulInteger"): (0, [1], [3]),
    ("", "QLinearConv"): (0, [3], [5]),
    ("", "QLinearMatMul"): (0, [3], [5]),
    ("com.microsoft", "DynamicQuantizeLSTM"): (None, [1, 2], [9, 11]),
    ("com.microsoft", "DynamicQuantizeMatMul"): (None, [1], [3]),
    ("com.microsoft", "MatMulIntegerToFloat"): (0, [1], [5]),
    ("com.microsoft", "QAttention"): (0, [1], [7]),
    ("com.microsoft", "QGemm"): (0, [3], [5]),
    ("com.microsoft", "QLinearConv"): (0, [3], [5]),
}


def exact_products(model):
    """A copy of the model (a message); the model itself where nothing is to be changed."""
    if not any((node.domain, node.op_type) in SLOTS for node in model.graph.node):
        return model
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    types = _types(copy)
    nodes, moved = [], {}

    def up(name):
        """The value, 128 higher, as uint8; of an absent zero point 128."""
        if name in moved:
            return moved[name]
        made = moved[name] = f"{name}/up"
        if not name:
            nodes.append(_constant(made, np.uint8(128)))
            return made
        nodes.append(_constant(f"{made}/by", np.int32(128)))
        nodes.append(helper.make_node("Cast", [name], [f"{made}/wide"], to=TensorProto.INT32))
        nodes.append(helper.make_node("Add", [f"{made}/wide", f"{made}/by"], [f"{made}/sum"]))
        nodes.append(helper.make_node("Cast", [f"{made}/sum"], [made], to=TensorProto.UINT8))
        return made

    for node in copy.graph.node:
        data, weights, zero_points = SLOTS.get((node.domain, node.op_type), (None, [], []))
        saturates = data is None or types.get(node.input[data]) != TensorProto.INT8  # int8 by int8 is exact as it is
        if weights and saturates and types.get(node.input[weights[0]]) == TensorProto.INT8:
            while len(node.input) <= max(zero_points):
                node.input.append("")
            for slot in weights + zero_points:
                node.input[slot] = up(node.input[slot])
        nodes.append(node)
    del copy.graph.node[:]
    copy.graph.node.extend(nodes)
    return copy


def _types(model):
    inferred = onnx.shape_inference.infer_shapes(model).graph
    values = [*inferred.input, *inferred.output, *inferred.value_info]
    return {v.name: v.type.tensor_type.elem_type for v in values} | {t.name: t.data_type for t in inferred.initializer}


def _constant(name, value):
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.asarray(value)))
