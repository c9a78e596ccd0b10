# SPDX-License-Identifier: Apache-2.0
"""TFLite files made by hand, to show that the judges catch what they must: wrong values, names, order, crashes."""

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

F32 = schema.TensorType.FLOAT32
INT8 = schema.TensorType.INT8
INT32 = schema.TensorType.INT32
BOOL = schema.TensorType.BOOL


def op(name, inputs, outputs, **attributes):
    return name, inputs, outputs, attributes


_OPTIONS = {"ADD": "AddOptions", "MUL": "MulOptions", "SUB": "SubOptions", "CAST": "CastOptions"}


def _tensor(name, dtype, shape, buffer=0):
    tensor = schema.TensorT()
    tensor.name, tensor.type, tensor.buffer = name.encode(), dtype, buffer
    tensor.shape = [abs(d) for d in shape]
    if any(d < 0 for d in shape):
        tensor.shapeSignature = list(shape)
    return tensor


def _maps(entries):
    result = []
    for name, index in entries:
        entry = schema.TensorMapT()
        entry.name, entry.tensorIndex = name.encode(), index
        result.append(entry)
    return result


def _subgraph(tensors, operators, inputs, outputs, codes):
    subgraph = schema.SubGraphT()
    subgraph.tensors, subgraph.inputs, subgraph.outputs = tensors, inputs, outputs
    subgraph.operators = []
    for name, ins, outs, attributes in operators:
        operator = schema.OperatorT()
        operator.opcodeIndex = codes.setdefault(name, len(codes))
        operator.inputs, operator.outputs = ins, outs
        option = attributes.pop("options", None) or _OPTIONS.get(name)
        if option:
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, option)
            operator.builtinOptions = getattr(schema, option + "T")()
            for key, value in attributes.items():
                setattr(operator.builtinOptions, key, value)
        subgraph.operators.append(operator)
    return subgraph


def write(path, tensors, operators, inputs, outputs, *, signature=None, more_subgraphs=()):
    """`tensors` [(name, dtype, shape)]; a negative dimension is dynamic. `signature` is (inputs, outputs) of
    (name, index) pairs, by default the tensors' own names. `more_subgraphs` are (tensors, operators, inputs, outputs)."""
    codes = {}
    model = schema.ModelT()
    model.version = 3
    model.buffers = [schema.BufferT()]
    model.subgraphs = [
        _subgraph([_tensor(*t) for t in ts], ops, ins, outs, codes)
        for ts, ops, ins, outs in [(tensors, operators, inputs, outputs), *more_subgraphs]
    ]
    model.operatorCodes = []
    for name in codes:
        code = schema.OperatorCodeT()
        code.builtinCode = getattr(schema.BuiltinOperator, name)
        code.deprecatedBuiltinCode, code.version = min(code.builtinCode, 127), 1
        model.operatorCodes.append(code)
    if signature is None:
        signature = ([(tensors[i][0], i) for i in inputs], [(tensors[i][0], i) for i in outputs])
    definition = schema.SignatureDefT()
    definition.signatureKey, definition.subgraphIndex = b"serving_default", 0
    definition.inputs, definition.outputs = _maps(signature[0]), _maps(signature[1])
    model.signatureDefs = [definition]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), file_identifier=b"TFL3")
    path.write_bytes(builder.Output())
    return path
