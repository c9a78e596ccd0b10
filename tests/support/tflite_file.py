# SPDX-License-Identifier: Apache-2.0
"""What a .tflite file says about itself: operators, and the names, types and order of inputs and outputs.

Read with the schema classes that ai-edge-litert ships, never with ours. The file is mapped, so a file of many
gigabytes costs nothing; only its flatbuffer part is touched.
"""

import collections
import dataclasses
import mmap

import ml_dtypes
import numpy as np
from ai_edge_litert import schema_py_generated as schema


def _names(enum):
    return {value: name for name, value in vars(enum).items() if isinstance(value, int)}


_OPERATORS = _names(schema.BuiltinOperator)

# The Python bindings of LiteRT hand 4-bit and 8-bit float tensors over as int8; the type in the file is the truth.
DTYPES = {
    schema.TensorType.FLOAT32: np.dtype(np.float32),
    schema.TensorType.FLOAT16: np.dtype(np.float16),
    schema.TensorType.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
    schema.TensorType.FLOAT64: np.dtype(np.float64),
    schema.TensorType.INT8: np.dtype(np.int8),
    schema.TensorType.INT16: np.dtype(np.int16),
    schema.TensorType.INT32: np.dtype(np.int32),
    schema.TensorType.INT64: np.dtype(np.int64),
    schema.TensorType.UINT8: np.dtype(np.uint8),
    schema.TensorType.UINT16: np.dtype(np.uint16),
    schema.TensorType.UINT32: np.dtype(np.uint32),
    schema.TensorType.UINT64: np.dtype(np.uint64),
    schema.TensorType.BOOL: np.dtype(np.bool_),
    schema.TensorType.STRING: np.dtype(object),
    schema.TensorType.COMPLEX64: np.dtype(np.complex64),
    schema.TensorType.COMPLEX128: np.dtype(np.complex128),
    schema.TensorType.INT2: np.dtype(ml_dtypes.int2),
    schema.TensorType.INT4: np.dtype(ml_dtypes.int4),
    schema.TensorType.UINT4: np.dtype(ml_dtypes.uint4),
    schema.TensorType.FLOAT8_E4M3FN: np.dtype(ml_dtypes.float8_e4m3fn),
    schema.TensorType.FLOAT8_E5M2: np.dtype(ml_dtypes.float8_e5m2),
}


@dataclasses.dataclass
class Port:
    """One input or output of the main subgraph. `shape` is the signature: -1 stands for a dynamic dimension."""

    name: str
    index: int
    dtype: np.dtype
    shape: tuple


@dataclasses.dataclass
class TfliteFile:
    inputs: list  # Ports, in the order of the subgraph
    outputs: list
    signature_inputs: list  # (name, tensor index), in the order of the SignatureDef
    signature_outputs: list
    operators: collections.Counter  # builtin names, custom ones as CUSTOM:name, over all subgraphs
    inner_transposes: (
        int  # TRANSPOSE of the main subgraph that neither read one of its inputs nor write one of its outputs
    )


def _text(value):
    return value.decode("utf-8", "replace") if value else ""


def _port(subgraph, index):
    tensor = subgraph.Tensors(index)
    signature = tensor.ShapeSignature if tensor.ShapeSignatureLength() else tensor.Shape
    length = tensor.ShapeSignatureLength() or tensor.ShapeLength()
    return Port(_text(tensor.Name()), index, DTYPES[tensor.Type()], tuple(signature(i) for i in range(length)))


def _operator(model, code_index):
    code = model.OperatorCodes(code_index)
    builtin = max(code.BuiltinCode(), code.DeprecatedBuiltinCode())
    if builtin == schema.BuiltinOperator.CUSTOM:
        return "CUSTOM:" + _text(code.CustomCode())
    return _OPERATORS.get(builtin, f"BUILTIN_{builtin}")


def _inner_transposes(model):
    main = model.Subgraphs(0)
    border = {main.Inputs(i) for i in range(main.InputsLength())} | {
        main.Outputs(i) for i in range(main.OutputsLength())
    }
    count = 0
    for o in range(main.OperatorsLength()):
        operator = main.Operators(o)
        if _operator(model, operator.OpcodeIndex()) == "TRANSPOSE":
            count += operator.Inputs(0) not in border and operator.Outputs(0) not in border
    return count


def _signature(model):
    """The (name, tensor index) lists of the first SignatureDef of the main subgraph; empty lists without one."""
    for d in range(model.SignatureDefsLength()):
        definition = model.SignatureDefs(d)
        if definition.SubgraphIndex() == 0:
            inputs = [definition.Inputs(i) for i in range(definition.InputsLength())]
            outputs = [definition.Outputs(i) for i in range(definition.OutputsLength())]
            return tuple([(_text(e.Name()), e.TensorIndex()) for e in entries] for entries in (inputs, outputs))
    return [], []


def read_tflite(path):
    with open(path, "rb") as file:
        data = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if data[4:8] != b"TFL3":
        raise ValueError(f"{path}: not a TFLite file")
    model = schema.Model.GetRootAs(data, 0)
    operators = collections.Counter()
    for s in range(model.SubgraphsLength()):
        subgraph = model.Subgraphs(s)
        for o in range(subgraph.OperatorsLength()):
            operators[_operator(model, subgraph.Operators(o).OpcodeIndex())] += 1
    main = model.Subgraphs(0)
    signature_inputs, signature_outputs = _signature(model)
    return TfliteFile(
        inputs=[_port(main, main.Inputs(i)) for i in range(main.InputsLength())],
        outputs=[_port(main, main.Outputs(i)) for i in range(main.OutputsLength())],
        signature_inputs=signature_inputs,
        signature_outputs=signature_outputs,
        operators=operators,
        inner_transposes=_inner_transposes(model),
    )
