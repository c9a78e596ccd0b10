# SPDX-License-Identifier: Apache-2.0
"""What --weights must write: a quantizer of numpy's own, and what a .tflite file holds.

The file is read with the schema classes that ai-edge-litert ships. Nothing here knows how Lowtide works.
"""

import dataclasses

import ml_dtypes
import numpy as np
from ai_edge_litert import schema_py_generated as schema

OPERATORS = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
TYPES = {
    schema.TensorType.FLOAT32: np.dtype(np.float32),
    schema.TensorType.FLOAT16: np.dtype(np.float16),
    schema.TensorType.INT8: np.dtype(np.int8),
    schema.TensorType.INT4: np.dtype(ml_dtypes.int4),
}


@dataclasses.dataclass
class Quantized:
    values: np.ndarray  # int8, whatever the bits
    scales: np.ndarray

    def floats(self, axis):
        """What the stored numbers stand for, as f32."""
        shape = [-1 if i == axis else 1 for i in range(self.values.ndim)]
        return self.values.astype(np.float32) * self.scales.reshape(shape)


def quantized(weights, axis, bits):
    """Symmetric, one scale for each index of `axis`, the narrow range, ties to even."""
    top = np.float32(2 ** (bits - 1) - 1)
    largest = np.abs(weights).max(tuple(i for i in range(weights.ndim) if i != axis))
    scales = largest / top
    scales = np.where(scales < np.finfo(np.float32).tiny, np.float32(1), scales).astype(np.float32)
    values = np.rint(weights / scales.reshape([-1 if i == axis else 1 for i in range(weights.ndim)]))
    assert np.abs(values).max() <= top
    return Quantized(values.astype(np.int8), scales)


@dataclasses.dataclass
class Stored:
    """A constant of numbers, with its users' names as (operator, input)."""

    name: str
    dtype: np.dtype
    values: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray
    axis: int
    users: list
    graph: int


def _bytes(file, model, tensor):
    buffer = model.Buffers(tensor.Buffer())
    if buffer.Offset() > 1:
        return file[buffer.Offset() : buffer.Offset() + buffer.Size()]
    return buffer.DataAsNumpy().tobytes() if buffer.DataLength() else b""


def _values(data, dtype, shape):
    count = int(np.prod(shape))
    if dtype != np.dtype(ml_dtypes.int4):
        return np.frombuffer(data, dtype, count).reshape(shape)
    packed = np.frombuffer(data, np.uint8)
    assert len(packed) == (count + 1) // 2
    nibbles = np.stack([packed & 15, packed >> 4], 1).reshape(-1)[:count].astype(np.int8)
    return np.where(nibbles > 7, nibbles - 16, nibbles).astype(np.int8).reshape(shape)


def stored(path):
    """All constants of the types above, over all subgraphs."""
    file = path.read_bytes()
    model = schema.Model.GetRootAs(file, 0)
    out = []
    for g in range(model.SubgraphsLength()):
        graph = model.Subgraphs(g)
        users = {}
        for o in range(graph.OperatorsLength()):
            operator = graph.Operators(o)
            code = model.OperatorCodes(operator.OpcodeIndex())
            kind = OPERATORS[max(code.BuiltinCode(), code.DeprecatedBuiltinCode())]
            for i in range(operator.InputsLength()):
                users.setdefault(operator.Inputs(i), []).append((kind, i))
        for t in range(graph.TensorsLength()):
            tensor = graph.Tensors(t)
            data = _bytes(file, model, tensor)
            if not data or tensor.Type() not in TYPES:
                continue
            dtype, q = TYPES[tensor.Type()], tensor.Quantization()
            out.append(
                Stored(
                    tensor.Name().decode(),
                    dtype,
                    _values(data, dtype, [tensor.Shape(i) for i in range(tensor.ShapeLength())]),
                    q.ScaleAsNumpy() if q and q.ScaleLength() else np.zeros(0, np.float32),
                    q.ZeroPointAsNumpy() if q and q.ZeroPointLength() else np.zeros(0, np.int64),
                    q.QuantizedDimension() if q else 0,
                    users.get(t, []),
                    g,
                )
            )
    return out


def operator_version(path, kind):
    """The versions in which the file names an operator."""
    model = schema.Model.GetRootAs(path.read_bytes(), 0)
    codes = (model.OperatorCodes(i) for i in range(model.OperatorCodesLength()))
    return {c.Version() for c in codes if OPERATORS[max(c.BuiltinCode(), c.DeprecatedBuiltinCode())] == kind}
