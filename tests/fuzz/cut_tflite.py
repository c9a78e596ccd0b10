# SPDX-License-Identifier: Apache-2.0
"""Small TFLite files from large ones: windows of their operators.

What a window reads from outside becomes an input. Constants above KEPT bytes become buffers outside of the flatbuffer that
all lie over the same bytes behind it, so that a file with large weights stays small.
"""

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

KEPT = 256
WINDOW = 8
ALIGNMENT = 16


def with_subgraphs(model):
    """Whether an operator names a subgraph: a window would lose it."""
    return len(model.subgraphs) > 1


def window(model, first, count):
    """A model of these operators of the first subgraph."""
    graph = model.subgraphs[0]
    operators = graph.operators[first : first + count]
    made = {index for operator in operators for index in operator.outputs}
    read = {index for operator in operators for index in operator.inputs if index >= 0}
    later = {index for operator in graph.operators[first + count :] for index in operator.inputs}
    is_constant = {index for index in read if model.buffers[graph.tensors[index].buffer].data is not None}
    inputs = sorted(index for index in read - made - is_constant if not graph.tensors[index].isVariable)
    outputs = sorted(index for index in made if index in later or index in graph.outputs) or sorted(made)
    used = sorted(made | read)
    place = {index: number for number, index in enumerate(used)}
    codes = sorted({operator.opcodeIndex for operator in operators})
    out = schema.ModelT()
    out.version, out.buffers = 3, [schema.BufferT()]
    out.operatorCodes = [model.operatorCodes[code] for code in codes]
    cut = schema.SubGraphT()
    cut.name, cut.tensors, cut.operators = "main", [], []
    for index in used:
        tensor = clone(schema.TensorT, graph.tensors[index])
        data = model.buffers[tensor.buffer].data
        tensor.buffer = 0
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.asarray(data, np.uint8)
            out.buffers.append(buffer)
            tensor.buffer = len(out.buffers) - 1
        cut.tensors.append(tensor)
    for operator in operators:
        moved = clone(schema.OperatorT, operator)
        moved.opcodeIndex = codes.index(operator.opcodeIndex)
        moved.inputs = [place.get(index, -1) for index in operator.inputs]
        moved.outputs = [place[index] for index in operator.outputs]
        moved.intermediates = None
        cut.operators.append(moved)
    cut.inputs, cut.outputs = [place[i] for i in inputs], [place[i] for i in outputs]
    out.subgraphs = [cut]
    return out


def clone(kind, value):
    out = kind()
    out.__dict__.update(value.__dict__)
    return out


def packed(model):
    """The file. Its large constants lie over each other behind the flatbuffer."""
    large = [buffer for buffer in model.buffers if buffer.data is not None and len(buffer.data) > KEPT]
    sizes = [len(buffer.data) for buffer in large]
    tail = bytes(max(large, key=lambda buffer: len(buffer.data)).data) if large else b""

    def pack(offset):
        for buffer, size in zip(large, sizes, strict=True):
            buffer.data, buffer.offset, buffer.size = None, offset, size
        builder = flatbuffers.Builder(1024)
        builder.Finish(model.Pack(builder), b"TFL3")
        return bytes(builder.Output())

    text = pack(2)  # 0 and 1 are no offsets, and would be left out
    offset = -(-len(text) // ALIGNMENT) * ALIGNMENT
    return pack(offset).ljust(offset, b"\0") + tail


def windows(path, largest):
    """The files of all windows that are not larger."""
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    if with_subgraphs(model):
        return
    for first in range(0, len(model.subgraphs[0].operators), WINDOW // 2):
        for count in (WINDOW, 2):
            data = packed(window(model, first, count))
            if len(data) <= largest:
                yield data
                break
