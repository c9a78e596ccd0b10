# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX: element types that ONNX Runtime converts, and has few other kernels for. LiteRT is the judge."""

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert import schema_py_generated as schema

from tests.raised.judge_raised import agrees, operators, raised, run_litert, run_onnx
from tests.raised.test_operators import refused
from tests.raised.tflite_models import Model

SHAPE = (4, 8)

# ---- bf16: computed in f32, moved as it is where that has a kernel ----

ONE_STEP = 2**-7  # of bf16, by the number


def judge_bfloat16(m, y, tmp_path):
    """Of results as f32 or truth values: after sums the last bit may differ."""
    m.write(tmp_path / "m.tflite", [y])
    model = raised(tmp_path / "m.tflite")
    names, values, ((name, wanted, _),) = run_litert(tmp_path / "m.tflite")
    made = run_onnx(tmp_path / "m.onnx", names, values)[name]
    assert made.shape == wanted.shape and made.dtype == wanted.dtype
    assert np.allclose(made, wanted, rtol=ONE_STEP, atol=ONE_STEP / 4)
    return operators(model)


def as_bfloat16(m, shape=SHAPE):
    return m.op("CAST", [m.input(shape)], shape, "bf16")


@pytest.mark.parametrize("builtin", ["NEG", "FLOOR", "ROUND", "TANH", "LOGISTIC"])
def test_one_bfloat16(builtin, tmp_path):
    m = Model()
    made = m.op(builtin, [as_bfloat16(m)], SHAPE, "bf16")
    types = judge_bfloat16(m, m.op("CAST", [made], SHAPE), tmp_path)
    assert types.count("Cast") == 4


@pytest.mark.parametrize("builtin", ["MAXIMUM", "MINIMUM", "ATAN2"])
def test_two_bfloat16(builtin, tmp_path):
    m = Model()
    made = m.op(builtin, [as_bfloat16(m), as_bfloat16(m)], SHAPE, "bf16")
    judge_bfloat16(m, m.op("CAST", [made], SHAPE), tmp_path)


def test_comparison_of_bfloat16(tmp_path):
    m = Model()
    judge_bfloat16(m, m.op("LESS", [as_bfloat16(m), as_bfloat16(m)], SHAPE, "bool"), tmp_path)


# An operator with its lists, the shape of the result, its options.
PADDED = ([[1, 0], [0, 2]], (5, 10))
MOVES = {
    "PAD": (*PADDED, None),
    "MIRROR_PAD": (*PADDED, ("MirrorPadOptions", {})),
    "TILE": ([2, 1], (8, 8), None),
    "RESHAPE": ([8, 4], (8, 4), ("ReshapeOptions", {})),
    "TRANSPOSE": ([1, 0], (8, 4), None),
    "GATHER": ([2, 0], (2, 8), ("GatherOptions", {})),
    "EXPAND_DIMS": (0, (1, 4, 8), None),
}


@pytest.mark.parametrize("builtin", MOVES)
def test_bfloat16_that_is_moved(builtin, tmp_path):
    m = Model()
    places, shape, options = MOVES[builtin]
    made = m.op(builtin, [as_bfloat16(m), m.constant(places, "i32")], shape, "bf16", options)
    types = judge_bfloat16(m, m.op("CAST", [made], shape), tmp_path)
    assert types.count("Cast") == (4 if builtin in ("PAD", "MIRROR_PAD", "TILE") else 2)


# ---- integers of 4 and 2 bits: moved as those of 8, but for Transpose ----


def packed(m, shape, bits, **quantization):
    """A constant of integers of so few bits."""
    numbers = np.random.default_rng(2).integers(0, 1 << bits, shape)
    parts = 8 // bits
    flat = np.append(np.ravel(numbers), [0] * (-numbers.size % parts)).astype(np.uint8).reshape(-1, parts)
    index = m.constant(np.bitwise_or.reduce(flat << np.arange(parts, dtype=np.uint8) * bits, axis=1), "u8")
    tensor = m.graph.tensors[index]
    tensor.shape, tensor.type = list(shape), {4: schema.TensorType.INT4, 2: schema.TensorType.INT2}[bits]
    if quantization:
        m.tensor("scales", (1,), "i8", **quantization)
        tensor.quantization = m.graph.tensors.pop().quantization
    return index


def moved(m, builtin, bits, inputs, shape, options, **quantization):
    """Their numbers plus an input, so that the file has no constant result."""
    made = m.op(builtin, inputs, shape, "i8", options, **quantization)
    m.graph.tensors[made].type = {4: schema.TensorType.INT4, 2: schema.TensorType.INT2}[bits]
    numbers = m.op("DEQUANTIZE" if quantization else "CAST", [made], shape)
    return m.op("ADD", [numbers, m.input(shape)], shape, options=("AddOptions", {}))


NARROW_MOVES = {
    **{name: MOVES[name] for name in ("RESHAPE", "TRANSPOSE", "GATHER", "EXPAND_DIMS")},
    "SQUEEZE": (None, (4, 8), ("SqueezeOptions", {"squeezeDims": [0]})),
    "CONCATENATION": (None, (8, 8), ("ConcatenationOptions", {"axis": 0})),
}


@pytest.mark.parametrize("quantization", [{"scale": 0.1}, {}], ids=["scale", "plain"])
@pytest.mark.parametrize("builtin", [*NARROW_MOVES, "SLICE", "EMBEDDING_LOOKUP"])
def test_integers_of_4_bits_that_are_moved(builtin, quantization, tmp_path):
    m = Model()
    table = packed(m, (1, *SHAPE) if builtin == "SQUEEZE" else SHAPE, 4, **quantization)
    if builtin == "SLICE":
        inputs, shape, options = [table, m.constant([1, 3], "i32"), m.constant([2, 5], "i32")], (2, 5), None
    elif builtin == "EMBEDDING_LOOKUP":
        inputs, shape, options = [m.constant([2, 0], "i32"), table], (2, 8), None
    else:
        places, shape, options = NARROW_MOVES[builtin]
        inputs = (
            [table, table if builtin == "CONCATENATION" else m.constant(places, "i32")] if shape != SHAPE else [table]
        )
    m.write(tmp_path / "m.tflite", [moved(m, builtin, 4, inputs, shape, options, **quantization)])
    agrees(tmp_path / "m.tflite")


def test_rows_that_end_within_a_byte_are_refused(tmp_path):
    m = Model()
    inputs = [packed(m, (3, 5), 4, scale=0.1), m.constant([2, 0], "i32")]
    m.write(tmp_path / "m.tflite", [moved(m, "GATHER", 4, inputs, (2, 5), ("GatherOptions", {}), scale=0.1)])
    refused(tmp_path / "m.tflite", "rows of integers of 4 bits that do not end at a byte")


# ---- opsets that types came with ----


def judge_2_bits(m, y, tmp_path):
    m.write(tmp_path / "m.tflite", [y])
    model = agrees(tmp_path / "m.tflite")
    assert [entry.version for entry in model.opset_import] == [25] and model.ir_version == 13
    return model


@pytest.mark.parametrize("builtin", ["DEQUANTIZE", "CAST"])
def test_integers_of_2_bits(builtin, tmp_path):
    m = Model()
    numbers = m.op(builtin, [packed(m, SHAPE, 2, scale=0.1)], SHAPE)
    judge_2_bits(m, m.op("ADD", [numbers, m.input(SHAPE)], SHAPE, options=("AddOptions", {})), tmp_path)


@pytest.mark.parametrize("builtin", ["RESHAPE", "EXPAND_DIMS"])
def test_integers_of_2_bits_that_are_moved(builtin, tmp_path):
    m = Model()
    places, shape, options = MOVES[builtin]
    inputs = [packed(m, SHAPE, 2, scale=0.1), m.constant(places, "i32")]
    judge_2_bits(m, moved(m, builtin, 2, inputs, shape, options, scale=0.1), tmp_path)


def test_weights_of_2_bits_stay_packed(tmp_path):
    m = Model()
    weights = packed(m, (3, 8), 2, scale=[0.1, 0.2, 0.3])
    product = m.op("FULLY_CONNECTED", [m.input((2, 8), "i8", scale=0.1), weights], (2, 3), "i8",
                   ("FullyConnectedOptions", {}), scale=0.1, zero=3)  # fmt: skip
    model = judge_2_bits(m, product, tmp_path)
    assert 6 in [len(tensor.raw_data) for tensor in model.graph.initializer]


def test_a_convolution_with_weights_of_2_bits_is_refused(tmp_path):
    m = Model()
    weights = packed(m, (3, 2, 2, 4), 2, scale=0.1)
    options = ("Conv2DOptions", {"padding": schema.Padding.VALID, "strideH": 1, "strideW": 1})
    y = m.op("CONV_2D", [m.input((1, 5, 6, 4)), weights, m.constant([1, 2, 3])], (1, 4, 5, 3), options=options)
    m.write(tmp_path / "m.tflite", [y])
    refused(tmp_path / "m.tflite", "weights of 2 bits, for which LiteRT has no kernel")


def test_floats_of_8_bits_ask_for_opset_19(tmp_path):
    m = Model()
    made = m.op("CAST", [m.input(SHAPE)], SHAPE, "u8")
    m.graph.tensors[made].type = schema.TensorType.FLOAT8_E4M3FN
    m.write(tmp_path / "m.tflite", [m.op("CAST", [made], SHAPE)])
    model = raised(tmp_path / "m.tflite")
    assert [entry.version for entry in model.opset_import] == [19]
    onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    assert onnx.TensorProto.FLOAT8E4M3FN in [node.attribute[0].i for node in model.graph.node]
