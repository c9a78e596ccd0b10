# SPDX-License-Identifier: Apache-2.0
"""What is in a TFLite file of custom operators, read with LiteRT's schema classes and flatbuffers' own reader."""

import dataclasses

from ai_edge_litert import schema_py_generated as schema
from flatbuffers import flexbuffers


@dataclasses.dataclass
class Custom:
    name: str
    version: int
    options: bytes
    inputs: list
    outputs: list

    def value(self):
        return flexbuffers.Loads(self.options)


def read(path):
    return schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes()))


def customs(path):
    """All custom operators of the main graph, with their tensors as the schema's objects."""
    model = read(path)
    graph = model.subgraphs[0]
    out = []
    for op in graph.operators:
        code = model.operatorCodes[op.opcodeIndex]
        if code.builtinCode != schema.BuiltinOperator.CUSTOM:
            continue
        assert code.deprecatedBuiltinCode == schema.BuiltinOperator.CUSTOM
        assert op.customOptionsFormat == schema.CustomOptionsFormat.FLEXBUFFERS
        tensors = [[None if i < 0 else graph.tensors[i] for i in ids] for ids in (op.inputs, op.outputs)]
        out.append(Custom(code.customCode.decode(), code.version, bytes(op.customOptions), *tensors))
    return out


def builtins(path):
    """The names of the main graph's other operators."""
    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if isinstance(number, int)}
    model = read(path)
    codes = [model.operatorCodes[op.opcodeIndex].builtinCode for op in model.subgraphs[0].operators]
    return [names[code] for code in codes if code != schema.BuiltinOperator.CUSTOM]
