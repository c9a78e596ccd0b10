# SPDX-License-Identifier: Apache-2.0
"""A small valid TFLite model, made with the classes that ai-edge-litert ships, and the offsets that tests damage. Wrong
values are set before the model is packed; a wrong structure is written into the bytes."""

import struct

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema


def tensor(name, shape, buffer=0, kind=schema.TensorType.FLOAT32):
    made = schema.TensorT()
    made.name, made.shape, made.buffer, made.type = name, list(shape), buffer, kind
    return made


def operator(opcode, inputs, outputs):
    made = schema.OperatorT()
    made.opcodeIndex, made.inputs, made.outputs = opcode, list(inputs), list(outputs)
    return made


def opcode(code, name=None):
    made = schema.OperatorCodeT()
    made.builtinCode, made.deprecatedBuiltinCode, made.customCode, made.version = code, min(code, 127), name, 1
    return made


def buffer(data=None):
    made = schema.BufferT()
    if data is not None:
        made.data = np.frombuffer(data, np.uint8)
    return made


def signature(graph=0):
    made = schema.SignatureDefT()
    made.signatureKey, made.subgraphIndex = "serving_default", graph
    for ports, name, index in (("inputs", "x", 0), ("outputs", "y", 4)):
        port = schema.TensorMapT()
        port.name, port.tensorIndex = name, index
        setattr(made, ports, [port])
    return made


def good_tflite():
    """x[2,3] -> FULLY_CONNECTED(the_weights[4,3], the_bias[4]) -> t[2,4] -> NEG -> y[2,4], as objects."""
    random = np.random.default_rng(0)
    model = schema.ModelT()
    model.version, model.description = 3, "small"
    model.buffers = [
        buffer(),
        buffer(random.standard_normal(12).astype(np.float32).tobytes()),
        buffer(random.standard_normal(4).astype(np.float32).tobytes()),
        buffer(b"1.5.0\0\0\0"),
    ]
    model.operatorCodes = [opcode(schema.BuiltinOperator.FULLY_CONNECTED), opcode(schema.BuiltinOperator.NEG)]
    graph = schema.SubGraphT()
    graph.name = "main"
    graph.tensors = [
        tensor("x", (2, 3)),
        tensor("the_weights", (4, 3), 1),
        tensor("the_bias", (4,), 2),
        tensor("t", (2, 4)),
        tensor("y", (2, 4)),
    ]
    graph.inputs, graph.outputs = [0], [4]
    first = operator(0, (0, 1, 2), (3,))
    first.builtinOptionsType, first.builtinOptions = (
        schema.BuiltinOptions.FullyConnectedOptions,
        schema.FullyConnectedOptionsT(),
    )
    graph.operators = [first, operator(1, (3,), (4,))]
    model.subgraphs = [graph]
    model.signatureDefs = [signature()]
    note = schema.MetadataT()
    note.name, note.buffer = "min_runtime_version", 3
    model.metadata = [note]
    return model


def pack(model):
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytearray(builder.Output())


class Bytes:
    """The packed model, by place. A table is an object of the schema's classes; a slot is the number of a field."""

    def __init__(self, data):
        self.data = data
        self.root = schema.Model.GetRootAs(data, 0)
        self.graph = self.root.Subgraphs(0)

    def field(self, table, slot):
        """Where the field stands in the file."""
        inside = table._tab.Offset(4 + 2 * slot)
        assert inside, "the field is absent"
        return table._tab.Pos + inside

    def vector(self, table, slot):
        """Where the vector stands that the field refers to: its length, then its elements."""
        at = self.field(table, slot)
        return at + self.u32(at)

    def u32(self, at):
        return struct.unpack_from("<I", self.data, at)[0]

    def put(self, at, value, form="<I"):
        struct.pack_into(form, self.data, at, value)
