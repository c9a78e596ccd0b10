# SPDX-License-Identifier: Apache-2.0
"""Builds a TFLite model of one operator with the schema classes that the runtime ships, and runs it.

The trap: Python hands neither bfloat16 nor 4-bit tensors to the interpreter, so an operand of such a type is fed as
float32 through a CAST, and a result is read through one. CAST itself is probed on its own.

Values travel as numpy arrays of a type that holds them exactly and computes well ("wide": float32 for the 16-bit
floats, int32 for the 4-bit integers), next to the name of the tensor's type.
"""

import dataclasses

import flatbuffers
import ml_dtypes
import numpy as np
from ai_edge_litert import schema_py_generated as schema

# name: (TensorType, numpy type of the stored form, numpy type of the wide form)
DTYPES = {
    "F32": ("FLOAT32", np.float32, np.float32),
    "F16": ("FLOAT16", np.float16, np.float32),
    "BF16": ("BFLOAT16", ml_dtypes.bfloat16, np.float32),
    "F64": ("FLOAT64", np.float64, np.float64),
    "I4": ("INT4", ml_dtypes.int4, np.int32),
    "I8": ("INT8", np.int8, np.int8),
    "U8": ("UINT8", np.uint8, np.uint8),
    "I16": ("INT16", np.int16, np.int16),
    "U16": ("UINT16", np.uint16, np.uint16),
    "I32": ("INT32", np.int32, np.int32),
    "U32": ("UINT32", np.uint32, np.uint32),
    "I64": ("INT64", np.int64, np.int64),
    "U64": ("UINT64", np.uint64, np.uint64),
    "BOOL": ("BOOL", np.bool_, np.bool_),
    "C64": ("COMPLEX64", np.complex64, np.complex64),
}
FLOATS = ("F32", "F16", "BF16", "F64")
DEQUANTIZE_VERSION = 5  # the first that takes scales by channel
THROUGH_CAST = ("BF16", "I4")
TOLERANCE = {"F32": 2e-5, "F16": 1e-2, "BF16": 8e-2, "F64": 1e-9, "C64": 1e-4}


@dataclasses.dataclass
class Tensor:
    """An operand or an expected result. `fixed` operands are constants of the model."""

    value: np.ndarray
    dtype: str
    fixed: bool = False
    tolerance: float | None = None
    scale: float | np.ndarray | None = None  # given: quantized, and `value` holds the stored numbers
    zero_point: int | np.ndarray = 0
    axis: int = 0  # that several scales count along
    dequantized: bool = False  # a constant that the operator sees as float32, through a DEQUANTIZE
    variable: bool = False  # the operator's own state, zero at the start
    steps: int = 1  # by how many units a quantized result may be off

    def __post_init__(self):
        self.value = np.asarray(self.value).astype(DTYPES[self.dtype][2])


def stored(tensor):
    """The bytes of a constant."""
    if tensor.dtype == "I4":
        nibbles = np.append(tensor.value.ravel(), [0] * (tensor.value.size % 2)).astype(np.uint8) & 15
        return (nibbles[0::2] | nibbles[1::2] << 4).tobytes()
    return np.ascontiguousarray(tensor.value.astype(DTYPES[tensor.dtype][1])).tobytes()


class ModelBuilder:
    def __init__(self):
        self.model = schema.ModelT()
        self.model.version, self.model.subgraphs = 3, []
        self.model.operatorCodes, self.model.buffers = [], [schema.BufferT()]
        self.new_graph()

    def new_graph(self):
        """What is added from here on goes into another subgraph; the first is the model's own."""
        self.graph = schema.SubGraphT()
        self.graph.tensors, self.graph.operators, self.graph.inputs, self.graph.outputs = [], [], [], []
        self.model.subgraphs.append(self.graph)

    def tensor(self, shape, dtype, data=None, scale=None, zero_point=0, axis=0):
        t = schema.TensorT()
        t.shape, t.type = list(shape), getattr(schema.TensorType, DTYPES[dtype][0])
        t.name, t.hasRank = f"t{len(self.graph.tensors)}", True
        if scale is not None:
            t.quantization = schema.QuantizationParametersT()
            t.quantization.scale = np.atleast_1d(scale).astype(np.float32)
            t.quantization.zeroPoint = np.broadcast_to(zero_point, np.shape(np.atleast_1d(scale))).astype(np.int64)
            t.quantization.quantizedDimension = axis
        if data is not None:
            buffer = schema.BufferT()
            buffer.data = np.frombuffer(data, np.uint8)
            self.model.buffers.append(buffer)
            t.buffer = len(self.model.buffers) - 1
        self.graph.tensors.append(t)
        return len(self.graph.tensors) - 1

    def operator(self, name, inputs, outputs, options=None, version=1):
        code = schema.OperatorCodeT()
        code.builtinCode, code.version = getattr(schema.BuiltinOperator, name), version
        code.deprecatedBuiltinCode = min(code.builtinCode, 127)
        self.model.operatorCodes.append(code)
        op = schema.OperatorT()
        op.opcodeIndex, op.inputs, op.outputs = len(self.model.operatorCodes) - 1, inputs, outputs
        if options:
            kind, fields = options[:2]
            table = getattr(schema, kind + "T")()
            for field, value in fields.items():
                if not hasattr(table, field):
                    raise KeyError(f"{kind} has no {field}")
                setattr(table, field, value)
            if hasattr(schema.BuiltinOptions, kind):
                op.builtinOptionsType, op.builtinOptions = getattr(schema.BuiltinOptions, kind), table
            else:
                op.builtinOptions2Type, op.builtinOptions2 = getattr(schema.BuiltinOptions2, kind), table
        self.graph.operators.append(op)

    def cast(self, source, shape, from_dtype, to_dtype):
        result = self.tensor(shape, to_dtype)
        kinds = {"inDataType": from_dtype, "outDataType": to_dtype}
        options = {k: getattr(schema.TensorType, DTYPES[v][0]) for k, v in kinds.items()}
        self.operator("CAST", [source], [result], ("CastOptions", options))
        return result

    def bytes(self):
        builder = flatbuffers.Builder(4096)
        builder.Finish(self.model.Pack(builder), b"TFL3")
        return bytes(builder.Output())


def make_first_dimension_dynamic(graph):
    """Declares what is not constant with 1 as its first dimension, and -1 in the signature: the caller resizes it."""
    for t in graph.tensors:
        if t.buffer == 0 and not t.isVariable and len(t.shape) and t.shape[0] > 1:
            t.shapeSignature, t.shape = [-1, *t.shape[1:]], [1, *t.shape[1:]]


def build(op, inputs, outputs, options=None, version=1, dynamic=False):
    """The model's bytes and what to feed it. `inputs` holds a Tensor, or None for an absent optional operand.

    `options` is (table, fields), and a third part holds the functions that fill the other subgraphs (IF, WHILE).
    """
    b, feed, operands, results = ModelBuilder(), [], [], []
    for t in inputs:
        if t is None:
            operands.append(-1)
        elif t.variable:
            operands.append(b.tensor(t.value.shape, t.dtype))
            b.graph.tensors[-1].isVariable = True
        elif t.fixed:
            constant = b.tensor(t.value.shape, t.dtype, stored(t), t.scale, t.zero_point, t.axis)
            if t.dequantized:
                quantized, constant = constant, b.tensor(t.value.shape, "F32")
                b.operator("DEQUANTIZE", [quantized], [constant], ("DequantizeOptions", {}), DEQUANTIZE_VERSION)
            operands.append(constant)
        else:
            through = t.dtype in THROUGH_CAST
            entry = b.tensor(t.value.shape, "F32" if through else t.dtype, None, t.scale, t.zero_point)
            feed.append(t.value.astype(np.float32 if through else DTYPES[t.dtype][1]))
            b.graph.inputs.append(entry)
            operands.append(b.cast(entry, t.value.shape, "F32", t.dtype) if through else entry)
    casts_after = []
    for t in outputs:
        results.append(b.tensor(t.value.shape, t.dtype, None, t.scale, t.zero_point))
        casts_after.append(t.dtype in THROUGH_CAST)
    b.operator(op, operands, results, options, version)
    for t, result, through in zip(outputs, results, casts_after):
        b.graph.outputs.append(b.cast(result, t.value.shape, t.dtype, "F32") if through else result)
    if dynamic:
        make_first_dimension_dynamic(b.graph)
    for body in options[2] if options and len(options) > 2 else ():
        b.new_graph()
        body(b)
    return b.bytes(), feed


def difference(got, want):
    """None if the result is right, else what is wrong with it."""
    if tuple(got.shape) != tuple(want.value.shape):
        return f"shape {list(got.shape)} instead of {list(want.value.shape)}"
    stored_type = np.float32 if want.dtype in THROUGH_CAST else DTYPES[want.dtype][1]
    if got.dtype != stored_type:
        return f"type {got.dtype} instead of {np.dtype(stored_type)}"
    if want.scale is not None:
        off = np.abs(got.astype(np.int64) - want.value.astype(np.int64)).max(initial=0)
        return None if off <= want.steps else f"{off} units off"
    if want.dtype not in TOLERANCE and want.tolerance is None:
        return None if np.array_equal(got, want.value) else "values"
    tolerance = want.tolerance or TOLERANCE[want.dtype]
    wide = np.complex128 if want.dtype == "C64" else np.float64
    g, w = got.astype(wide), want.value.astype(wide)
    finite = w[np.isfinite(w)]
    atol = (
        tolerance
        * max(1.0, float(np.abs(finite).max()) if finite.size else 1.0)
        * (0.1 if want.tolerance is None else 1)
    )
    if np.allclose(g, w, rtol=tolerance, atol=atol, equal_nan=True):
        return None
    return f"values off by {np.nanmax(np.abs(g - w)):.3g}"


def result(interpreter, detail, want):
    """One output. Python cannot fetch a tensor without elements ("Invalid tensor size"); its shape is all there is."""
    if want.value.size == 0 and 0 in detail["shape"]:
        return np.zeros(detail["shape"], detail["dtype"])
    return interpreter.get_tensor(detail["index"])


def run(interpreter_class, resolver, op, inputs, outputs, options, version, dynamic=False):
    """('right' | 'refused' | 'WRONG', reason)."""
    content, feed = build(op, inputs, outputs, options, version, dynamic)
    try:
        interpreter = interpreter_class(model_content=content, experimental_op_resolver_type=resolver, num_threads=1)
        if dynamic:
            for detail, value in zip(interpreter.get_input_details(), feed):
                interpreter.resize_tensor_input(detail["index"], value.shape)
        interpreter.allocate_tensors()
        for detail, value in zip(interpreter.get_input_details(), feed):
            interpreter.set_tensor(detail["index"], value)
        interpreter.invoke()
        got = [result(interpreter, d, t) for d, t in zip(interpreter.get_output_details(), outputs)]
    except (RuntimeError, ValueError) as error:
        return "refused", str(error)
    wrong = [d for d in map(difference, got, outputs) if d]
    return ("WRONG", wrong[0]) if wrong else ("right", "")
