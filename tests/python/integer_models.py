# SPDX-License-Identifier: Apache-2.0
"""A quantized ONNX model, and the same network by hand as a .tflite file of integer kernels.

    x [1,3,8,8] -Q-> q0 uint8 -Conv 3x3, Relu-> q1 uint8 -Conv 1x1-> q2 uint8 -DQ-> y [1,5,8,8]

The .tflite file has int8 with channels last, as the program writes it: an integer is 128 less than ONNX's.
"""

import flatbuffers
import numpy as np
import onnx
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto as T
from onnx import helper, numpy_helper

RNG = np.random.default_rng(7)
W1 = RNG.integers(-100, 101, (4, 3, 3, 3)).astype(np.int8)
W2 = RNG.integers(-100, 101, (5, 4, 1, 1)).astype(np.int8)
S1 = (0.002 + 0.001 * RNG.random(4)).astype(np.float32)
S2 = (0.004 + 0.001 * RNG.random(5)).astype(np.float32)
B1 = RNG.integers(-500, 500, 4).astype(np.int32)
B2 = RNG.integers(-500, 500, 5).astype(np.int32)
# Scale and zero point (of uint8) of q0, q1, q2.
ACTIVATIONS = [(np.float32(1 / 64), 20), (np.float32(1 / 50), 0), (np.float32(1 / 40), 130)]


def onnx_model(path):
    tensors = {"w1": W1, "w2": W2, "ws1": S1, "ws2": S2, "b1": B1, "b2": B2}
    nodes = []
    for i, (scale, zero) in enumerate(ACTIVATIONS):
        tensors |= {f"s{i}": np.array(scale), f"z{i}": np.array(zero, np.uint8)}
    tensors |= {f"bs{i + 1}": ACTIVATIONS[i][0] * ws for i, ws in enumerate((S1, S2))}

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], name=f"{kind}_{output}", **attributes))

    node("QuantizeLinear", ["x", "s0", "z0"], "q0")
    node("DequantizeLinear", ["q0", "s0", "z0"], "d0")
    for i in (1, 2):
        node("DequantizeLinear", [f"w{i}", f"ws{i}"], f"wf{i}", axis=0)
        node("DequantizeLinear", [f"b{i}", f"bs{i}"], f"bf{i}", axis=0)
        out = "c1" if i == 1 else "r2"
        node("Conv", [f"d{i - 1}", f"wf{i}", f"bf{i}"], out, **({"pads": [1, 1, 1, 1]} if i == 1 else {}))
        if i == 1:
            node("Relu", ["c1"], "r1")
        node("QuantizeLinear", [f"r{i}", f"s{i}", f"z{i}"], f"q{i}")
        node("DequantizeLinear", [f"q{i}", f"s{i}", f"z{i}"], "y" if i == 2 else f"d{i}")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", T.FLOAT, [1, 3, 8, 8])],
        [helper.make_tensor_value_info("y", T.FLOAT, [1, 5, 8, 8])],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in tensors.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


class Writer:
    """A .tflite file of quantized tensors."""

    def __init__(self):
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators = [], []
        self.buffers = [schema.BufferT()]
        self.codes = {}

    def tensor(self, name, dtype, shape, scale=None, zero=None, axis=0, data=None):
        tensor = schema.TensorT()
        tensor.name, tensor.shape = name.encode(), list(shape)
        tensor.type = getattr(schema.TensorType, np.dtype(dtype).name.upper())
        if scale is not None:
            tensor.quantization = schema.QuantizationParametersT()
            tensor.quantization.scale = np.atleast_1d(scale).astype(np.float32)
            tensor.quantization.zeroPoint = np.atleast_1d(zero).astype(np.int64) * np.ones(np.size(scale), np.int64)
            tensor.quantization.quantizedDimension = axis
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(np.ascontiguousarray(data).tobytes(), np.uint8)
            tensor.buffer = len(self.buffers)
            self.buffers.append(buffer)
        self.graph.tensors.append(tensor)
        return len(self.graph.tensors) - 1

    def op(self, kind, inputs, outputs, options=None, **values):
        operator = schema.OperatorT()
        operator.opcodeIndex = self.codes.setdefault(kind, len(self.codes))
        operator.inputs, operator.outputs = inputs, outputs
        if options:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, options)
            operator.builtinOptions = getattr(schema, options + "T")()
            for key, value in values.items():
                setattr(operator.builtinOptions, key, value)
        self.graph.operators.append(operator)

    def save(self, path, inputs, outputs):
        self.graph.inputs, self.graph.outputs = inputs, outputs
        model = schema.ModelT()
        model.version, model.subgraphs, model.buffers = 3, [self.graph], self.buffers
        model.operatorCodes = []
        for kind in self.codes:
            code = schema.OperatorCodeT()
            code.builtinCode = getattr(schema.BuiltinOperator, kind)
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
            code.version = {"CONV_2D": 3, "QUANTIZE": 2, "DEQUANTIZE": 2, "TRANSPOSE": 2}.get(kind, 1)
            model.operatorCodes.append(code)
        builder = flatbuffers.Builder(0)
        builder.Finish(model.Pack(builder), b"TFL3")
        path.write_bytes(builder.Output())
        return path


def tflite_model(path, *, names=("q0", "q1", "q2"), weights=W1, bias=B1):
    """`names` of the integer tensors; the second and third may be "LABEL/CONV_2D"."""
    to_last = (0, 2, 3, 1)
    out = Writer()
    places = [(scale, zero - 128) for scale, zero in ACTIVATIONS]
    x = out.tensor("x", "float32", (1, 3, 8, 8))
    last = out.tensor("nhwc", "int32", (4,), data=np.array(to_last, np.int32))
    first = out.tensor("nchw", "int32", (4,), data=np.array((0, 3, 1, 2), np.int32))
    q0 = out.tensor(names[0], "int8", (1, 3, 8, 8), *places[0])
    t0 = out.tensor("Conv_c1/TRANSPOSE", "int8", (1, 8, 8, 3), *places[0])
    q1 = out.tensor(names[1], "int8", (1, 8, 8, 4), *places[1])
    q2 = out.tensor(names[2], "int8", (1, 8, 8, 5), *places[2])
    t2 = out.tensor("DequantizeLinear_y/TRANSPOSE", "int8", (1, 5, 8, 8), *places[2])
    y = out.tensor("y", "float32", (1, 5, 8, 8))

    def weight(name, array, scale, bias, at):
        moved = array.transpose(0, 2, 3, 1)
        w = out.tensor(name, "int8", moved.shape, scale, 0, data=moved)
        b = out.tensor(name + "_bias", "int32", bias.shape, scale * at, 0, data=bias)
        return [w, b]

    out.op("QUANTIZE", [x], [q0], "QuantizeOptions")
    out.op("TRANSPOSE", [q0, last], [t0], "TransposeOptions")
    relu = schema.ActivationFunctionType.RELU
    for source, target, array, scale, shift, at, act in (
        (t0, q1, weights, S1, bias, places[0][0], relu),
        (q1, q2, W2, S2, B2, places[1][0], 0),
    ):
        out.op(
            "CONV_2D",
            [source, *weight(f"w{target}", array, scale, shift, at)],
            [target],
            "Conv2DOptions",
            strideW=1,
            strideH=1,
            fusedActivationFunction=act,
        )
    out.op("TRANSPOSE", [q2, first], [t2], "TransposeOptions")
    out.op("DEQUANTIZE", [t2], [y], "DequantizeOptions")
    return out.save(path, [x], [y])
