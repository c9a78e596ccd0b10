# SPDX-License-Identifier: Apache-2.0
"""Small TFLite models of one or a few operators, made with the classes that ai-edge-litert ships."""

import contextlib

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers

TYPES = {
    "f32": (schema.TensorType.FLOAT32, np.float32),
    "f16": (schema.TensorType.FLOAT16, np.float16),
    "bf16": (schema.TensorType.BFLOAT16, np.uint16),  # its bits
    "i8": (schema.TensorType.INT8, np.int8),
    "u8": (schema.TensorType.UINT8, np.uint8),
    "i16": (schema.TensorType.INT16, np.int16),
    "u16": (schema.TensorType.UINT16, np.uint16),
    "i32": (schema.TensorType.INT32, np.int32),
    "u32": (schema.TensorType.UINT32, np.uint32),
    "i64": (schema.TensorType.INT64, np.int64),
    "c64": (schema.TensorType.COMPLEX64, np.complex64),
    "bool": (schema.TensorType.BOOL, np.bool_),
    "resource": (schema.TensorType.RESOURCE, None),
}


class Model:
    """Tensors are added by input(), constant() and op(), which return their indices; outputs are named at the end."""

    def __init__(self):
        self.model = schema.ModelT()
        self.model.version, self.model.operatorCodes = 3, []
        self.model.buffers = [schema.BufferT()]
        self.model.subgraphs = []
        self.graph = self.new_graph("main")

    def new_graph(self, name):
        graph = schema.SubGraphT()
        graph.name, graph.tensors, graph.operators, graph.inputs, graph.outputs = name, [], [], [], []
        self.model.subgraphs.append(graph)
        return graph

    @contextlib.contextmanager
    def subgraph(self):
        """Inside of it, tensors and operators belong to another subgraph, whose index it gives."""
        outer = self.graph
        self.graph = self.new_graph(f"subgraph{len(self.model.subgraphs)}")
        yield len(self.model.subgraphs) - 1
        self.graph = outer

    def outputs(self, tensors):
        self.graph.outputs = list(tensors)

    def tensor(self, name, shape, kind, scale=None, zero=0, axis=0, buffer=0):
        made = schema.TensorT()
        made.name, made.shape, made.type, made.buffer = name, list(shape), TYPES[kind][0], buffer
        if scale is not None:
            made.quantization = schema.QuantizationParametersT()
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            made.quantization.scale = scales
            made.quantization.zeroPoint = np.broadcast_to(np.asarray(zero, np.int64), scales.shape).copy()
            made.quantization.quantizedDimension = axis
        self.graph.tensors.append(made)
        return len(self.graph.tensors) - 1

    def input(self, shape, kind="f32", **quantization):
        prefix = "x" if self.graph is self.model.subgraphs[0] else f"{self.graph.name}_x"
        index = self.tensor(f"{prefix}{len(self.graph.inputs)}", shape, kind, **quantization)
        self.graph.inputs.append(index)
        return index

    def open_input(self, signature, kind="f32", **quantization):
        """A negative size is open; the file has 1 for it."""
        index = self.input([max(size, 1) for size in signature], kind, **quantization)
        self.graph.tensors[index].shapeSignature = list(signature)
        return index

    def variable(self, shape, kind="f32", **quantization):
        """Keeps its value between runs."""
        number = len(self.graph.tensors)
        index = self.tensor(f"s{number}", shape, kind, **quantization)
        self.graph.tensors[index].isVariable = True
        return index

    def constant(self, values, kind="f32", **quantization):
        values = np.asarray(values, TYPES[kind][1])
        buffer = schema.BufferT()
        buffer.data = np.frombuffer(values.tobytes(), np.uint8)
        self.model.buffers.append(buffer)
        number = len(self.graph.tensors)
        return self.tensor(f"c{number}", values.shape, kind, buffer=len(self.model.buffers) - 1, **quantization)

    def op(self, builtin, inputs, shape, kind="f32", options=None, outputs=1, version=1, **quantization):
        """`options` is the name of an options table with its fields, such as ("Pool2DOptions", {"strideW": 2})."""
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, builtin)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), version
        self.model.operatorCodes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs = len(self.model.operatorCodes) - 1, list(inputs)
        shapes = [shape] if outputs == 1 else shape
        kinds = [kind] if isinstance(kind, str) else kind
        made.outputs = [
            self.tensor(f"t{len(self.graph.tensors)}", shapes[i], kinds[i % len(kinds)], **quantization)
            for i in range(outputs)
        ]
        if options:
            table, fields = options
            filled = getattr(schema, table + "T")()
            for name, value in fields.items():
                assert hasattr(filled, name), name
                setattr(filled, name, value)
            if hasattr(schema.BuiltinOptions, table):
                made.builtinOptionsType, made.builtinOptions = getattr(schema.BuiltinOptions, table), filled
            else:
                made.builtinOptions2Type, made.builtinOptions2 = getattr(schema.BuiltinOptions2, table), filled
        self.graph.operators.append(made)
        return made.outputs[0] if outputs == 1 else list(made.outputs)

    def custom(self, name, inputs, shapes, options=b"", kind="f32", **quantization):
        """Its outputs' indices. `options` are bytes, or a dictionary for a flexbuffer map."""
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = schema.BuiltinOperator.CUSTOM
        code.customCode, code.version = name, 1
        self.model.operatorCodes.append(code)
        made = schema.OperatorT()
        made.opcodeIndex, made.inputs = len(self.model.operatorCodes) - 1, list(inputs)
        made.outputs = [self.tensor(f"t{len(self.graph.tensors)}", shape, kind, **quantization) for shape in shapes]
        data = flexbuffers.Dumps(options) if isinstance(options, dict) else options
        made.customOptions = np.frombuffer(bytes(data), np.uint8)
        self.graph.operators.append(made)
        return list(made.outputs)

    def write(self, path, outputs):
        self.outputs(outputs)
        builder = flatbuffers.Builder(1024)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        path.write_bytes(bytes(builder.Output()))
