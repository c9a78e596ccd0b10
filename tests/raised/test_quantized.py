# SPDX-License-Identifier: Apache-2.0
"""Quantized TFLite models become QDQ: ONNX Runtime finds integer kernels, and its integers agree with LiteRT's."""

import collections

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from tests.raised.judge_raised import MODELS, agrees, operators, raised, run_litert, run_onnx
from tests.raised.round_trips import operators_of
from tests.raised.tflite_models import Model
from tests.support import converter
from tests.support.tflite_file import read_tflite

X = {"scale": 0.05, "zero": 3}
Y = {"scale": 0.3, "zero": -7}


def weights(*shape, kind=np.int8):
    info = np.iinfo(kind)
    return np.random.default_rng(7).integers(info.min, info.max, shape, endpoint=True)


def bias(count):
    return np.random.default_rng(8).integers(-3000, 3000, count)


def conv(m, x, activation=0, per_channel=True, **output):
    scales = {"scale": [0.01, 0.02, 0.005, 0.03, 0.015]} if per_channel else {"scale": 0.02}
    w = m.constant(weights(5, 3, 2, 3), "i8", **scales)
    b = m.constant(bias(5), "i32", scale=np.asarray(scales["scale"]) * X["scale"])
    fields = {"padding": 0, "strideH": 2, "strideW": 1, "fusedActivationFunction": activation}
    return m.op("CONV_2D", [x, w, b], (1, 4, 8, 5), "i8", ("Conv2DOptions", fields), version=3, **(Y | output))


def optimized(path, keeps_int8=False):
    """The operators that ONNX Runtime makes of the model beside `path`."""
    options = onnxruntime.SessionOptions()
    if keeps_int8:
        options.add_session_config_entry("session.qdqisint8allowed", "1")
    options.log_severity_level = 3
    options.optimized_model_filepath = str(path.with_suffix(".optimized.onnx"))
    onnxruntime.InferenceSession(str(path.with_suffix(".onnx")), options)
    return operators(onnx.load(path.with_suffix(".optimized.onnx")))


@pytest.mark.parametrize("activation", [0, 1, 3])
@pytest.mark.parametrize("per_channel", [False, True])
def test_convolution(activation, per_channel, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [conv(m, m.input((1, 7, 8, 3), "i8", **X), activation, per_channel)])
    agrees(tmp_path / "m.tflite")


def test_activation_that_the_integers_show_is_left_out(tmp_path):
    m = Model()
    x = m.input((1, 7, 8, 3), "i8", **X)
    y = conv(m, x, 3, scale=6 / 255, zero=-128)
    m.write(tmp_path / "m.tflite", [y])
    assert not {"Clip", "Relu"} & set(operators(agrees(tmp_path / "m.tflite")))


def test_uint8_depthwise(tmp_path):
    m = Model()
    x = m.input((1, 7, 8, 3), "u8", scale=0.05, zero=120)
    w = m.constant(weights(1, 3, 2, 6, kind=np.uint8), "u8", scale=0.02, zero=131)
    b = m.constant(bias(6), "i32", scale=0.001)
    fields = {"padding": 0, "strideH": 1, "strideW": 2, "depthMultiplier": 2}
    y = m.op(
        "DEPTHWISE_CONV_2D", [x, w, b], (1, 7, 4, 6), "u8", ("DepthwiseConv2DOptions", fields), scale=0.2, zero=128
    )
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")
    assert "QLinearConv" in optimized(tmp_path / "m.tflite")


@pytest.mark.parametrize("shape", [(4, 30), (2, 3, 5, 6)])
def test_fully_connected(shape, tmp_path):
    m = Model()
    columns = 30 if len(shape) == 2 else 15
    rows = int(np.prod(shape)) // columns
    w = m.constant(weights(7, columns), "i8", scale=0.01)
    b = m.constant(bias(7), "i32", scale=0.0005)
    y = m.op(
        "FULLY_CONNECTED",
        [m.input(shape, "i8", **X), w, b],
        (rows, 7),
        "i8",
        ("FullyConnectedOptions", {}),
        version=4,
        **Y,
    )
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")
    assert "QGemm" in optimized(tmp_path / "m.tflite")


def test_the_bias_scale_of_the_file_is_not_used(tmp_path):
    """The kernels take the product of the other scales."""
    m = Model()
    w = m.constant(weights(5, 3, 2, 3), "i8", scale=0.02)
    b = m.constant(bias(5), "i32", scale=77.0)
    fields = {"padding": 1, "strideH": 1, "strideW": 1}
    x = m.input((1, 7, 8, 3), "i8", **X)
    y = m.op("CONV_2D", [x, w, b], (1, 5, 7, 5), "i8", ("Conv2DOptions", fields), version=3, **Y)
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


def test_moves_keep_the_integers(tmp_path):
    m = Model()
    x = m.input((1, 4, 6, 3), "i8", **X)
    pooled = m.op(
        "MAX_POOL_2D",
        [x],
        (1, 2, 3, 3),
        "i8",
        ("Pool2DOptions", {"padding": 1, "strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}),
        version=2,
        **X,
    )
    padded = m.op(
        "PAD", [pooled, m.constant([[0, 0], [1, 0], [0, 2], [0, 0]], "i32")], (1, 3, 5, 3), "i8", version=2, **X
    )
    joined = m.op(
        "CONCATENATION", [padded, padded], (1, 3, 5, 6), "i8", ("ConcatenationOptions", {"axis": 3}), version=2, **X
    )
    flat = m.op("RESHAPE", [joined, m.constant([9, 10], "i32")], (9, 10), "i8", **X)
    m.write(tmp_path / "m.tflite", [flat])
    agrees(tmp_path / "m.tflite")
    names, values, wanted = run_litert(tmp_path / "m.tflite")
    made = run_onnx(tmp_path / "m.onnx", names, values)
    assert np.array_equal(made[wanted[0][0]], wanted[0][1])


def test_a_scale_for_each_channel_survives_blocks(tmp_path):
    """The axes in between are others."""
    m = Model()
    channels = {"scale": (0.05, 0.3, 0.007), "zero": (0, 0, 0), "axis": 3}
    lists = [m.constant([2, 3], "i32"), m.constant([[0, 0], [1, 2]], "i32")]
    y = m.op("SPACE_TO_BATCH_ND", [m.input((1, 4, 6, 3), "i8", **channels), *lists], (6, 2, 3, 3), "i8", **channels)
    m.write(tmp_path / "m.tflite", [m.op("DEQUANTIZE", [y], (6, 2, 3, 3), version=5)])
    agrees(tmp_path / "m.tflite")


def test_arithmetic_on_scales_of_their_own(tmp_path):
    m = Model()
    a, b = m.input((4, 6), "i8", **X), m.input((4, 6), "i8", scale=0.02, zero=-9)
    outputs = [
        m.op("ADD", [a, b], (4, 6), "i8", ("AddOptions", {"fusedActivationFunction": 1}), version=2, **Y),
        m.op("MUL", [a, b], (4, 6), "i8", ("MulOptions", {}), version=2, **Y),
        m.op("LOGISTIC", [a], (4, 6), "i8", version=2, scale=1 / 256, zero=-128),
        m.op("TANH", [a], (4, 6), "i8", version=2, scale=1 / 128, zero=0),
        m.op("QUANTIZE", [a], (4, 6), "i8", version=1, **Y),
        m.op("DEQUANTIZE", [b], (4, 6), version=2),
    ]
    m.write(tmp_path / "m.tflite", outputs)
    agrees(tmp_path / "m.tflite")


def test_int16_needs_opset_21(tmp_path):
    m = Model()
    x = m.input((4, 6), "i16", scale=0.001)
    m.write(
        tmp_path / "m.tflite",
        [m.op("ADD", [x, x], (4, 6), "i16", ("AddOptions", {"potScaleInt16": False}), version=3, scale=0.002)],
    )
    model = agrees(tmp_path / "m.tflite")
    assert model.opset_import[0].version == 21
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "n.onnx", "--opset", "17")
    assert done.returncode == 8 and "--opset 21" in done.stderr


@pytest.mark.parametrize("per_channel", [False, True])
@pytest.mark.parametrize("product", [False, True])
def test_int16_data_with_a_bias_of_64_bits(product, per_channel, tmp_path):
    m = Model()
    x = m.input((4, 30) if product else (1, 7, 8, 3), "i16", scale=0.001)
    scales = [0.01, 0.02, 0.005, 0.03, 0.015] if per_channel else 0.02
    w = m.constant(weights(*((5, 30) if product else (5, 3, 2, 3))), "i8", scale=scales)
    b = m.constant(bias(5) * 30, "i64", scale=np.asarray(scales) * 0.001)
    if product:
        options = ("FullyConnectedOptions", {})
        y = m.op("FULLY_CONNECTED", [x, w, b], (4, 5), "i16", options, version=4, scale=0.01)
    else:
        options = ("Conv2DOptions", {"padding": 1, "strideH": 1, "strideW": 1})
        y = m.op("CONV_2D", [x, w, b], (1, 5, 7, 5), "i16", options, version=4, scale=0.01)
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


def test_hybrid_weights_are_dequantized(tmp_path):
    """LiteRT rounds the data as it runs, so numpy is the judge."""
    m = Model()
    integers = weights(7, 6)
    w = m.constant(integers, "i8", scale=0.01)
    y = m.op("FULLY_CONNECTED", [m.input((4, 6)), w, -1], (4, 7), options=("FullyConnectedOptions", {}), version=3)
    m.write(tmp_path / "m.tflite", [y])
    raised(tmp_path / "m.tflite")
    x = np.random.default_rng(3).standard_normal((4, 6)).astype(np.float32)
    made = run_onnx(tmp_path / "m.onnx", ["x0"], [x])
    assert np.allclose(made[f"t{y}"], x @ (integers * np.float32(0.01)).T, atol=1e-5)


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_weights_with_a_scale_for_each_block(kind, tmp_path):
    """Judged by numpy: LiteRT rounds the data as it runs."""
    random = np.random.default_rng(3)
    units, columns, size = 6, 64, 32
    integers = random.integers(-8, 7, (units, columns), endpoint=True)
    scales = random.uniform(0.01, 0.2, (units, columns // size)).astype(np.float16 if kind == "f16" else np.float32)
    m = Model()
    x = m.input((3, columns))
    factors = m.constant(scales, kind)
    nibbles = (integers & 15).astype(np.uint8).reshape(-1, 2)
    w = m.constant(nibbles[:, 0] | nibbles[:, 1] << 4, "u8")
    tensor = m.graph.tensors[w]
    tensor.shape, tensor.type = [units, columns], schema.TensorType.INT4
    tensor.quantization = schema.QuantizationParametersT()
    tensor.quantization.detailsType = schema.QuantizationDetails.BlockwiseQuantization
    details = tensor.quantization.details = schema.BlockwiseQuantizationT()
    details.scales, details.zeroPoints, details.blockSize = factors, -1, size
    m.write(tmp_path / "m.tflite", [m.op("FULLY_CONNECTED", [x, w], (3, units), options=("FullyConnectedOptions", {}))])
    model = raised(tmp_path / "m.tflite")
    assert model.opset_import[0].version == 21
    assert onnx.TensorProto.INT4 in [made.data_type for made in model.graph.initializer]
    values = random.standard_normal((3, columns)).astype(np.float32)
    (made,) = run_onnx(tmp_path / "m.onnx", ["x0"], [values]).values()
    weights = integers * np.repeat(scales.astype(np.float64), size, axis=1)
    assert np.allclose(made, values @ weights.T, rtol=0, atol=1e-4)


UINT8 = [
    "coral__deeplab_mobilenet_edgetpu_slim_cityscapes_quant",
    "coral__deeplabv3_mnv2_dm05_pascal_quant",
    "coral__mobilenet_v1_0.25_128_quant",
    "coral__mobilenet_v2_1.0_224_quant",
    "onnx2tflite__cifar10_model",
]


@pytest.mark.skipif(not MODELS.is_dir(), reason="../shared/models is absent")
@pytest.mark.parametrize("name", UINT8)
def test_uint8_networks_are_computed_on_integers(name, tmp_path):
    """Each convolution and product is a node on integers after ONNX Runtime's optimisation, with no transpose between."""
    path = tmp_path / "m.tflite"
    path.write_bytes((MODELS / f"{name}.tflite").read_bytes())
    model = raised(path)
    kinds, _ = operators_of(path)
    made = collections.Counter(optimized(path))
    assert made["QLinearConv"] == kinds["CONV_2D"] + kinds["DEPTHWISE_CONV_2D"] > 0
    assert made["QGemm"] == kinds["FULLY_CONNECTED"] and not {"Conv", "Gemm", "MatMul"} & set(made)
    # At the input; in front of a flattening.
    assert operators(model).count("Transpose") == 1 + kinds["FULLY_CONNECTED"]


@pytest.mark.parametrize("kind", ["u8", "i8"])
@pytest.mark.parametrize("shape", [(1, 3, 5, 4), (3, 5, 4)])
@pytest.mark.parametrize("is_first", [False, True])
def test_a_product_that_flattens_comes_back(kind, shape, is_first, tmp_path):
    """Of u8 as it was; of i8, which LiteRT's GPU delegate computes wrongly, behind a RESHAPE. Right in all modes."""
    m = Model()
    random = np.random.default_rng(5)
    x = m.input(shape, kind, scale=0.05, zero=3)
    if not is_first:
        x = m.op("RELU", [x], shape, kind, scale=0.05, zero=3)
    rows, columns, units = (shape[0], int(np.prod(shape[1:])), 7)
    low, high, zero = (0, 255, 100) if kind == "u8" else (-127, 127, 0)
    weights = m.constant(random.integers(low, high, (units, columns)), kind, scale=0.01, zero=zero)
    bias = m.constant(random.integers(-900, 900, units), "i32", scale=0.0005)
    made = m.op(
        "FULLY_CONNECTED",
        [x, weights, bias],
        [rows, units],
        kind,
        ("FullyConnectedOptions", {}),
        version=4,
        scale=0.2,
        zero=9,
    )
    path, back = tmp_path / "m.tflite", tmp_path / "back.tflite"
    m.write(path, [made])
    agrees(path)
    done = converter.run("convert", tmp_path / "m.onnx", "-o", back)
    assert done.returncode == 0, done.stderr
    wanted = {"FULLY_CONNECTED": 1} | ({} if is_first else {"RELU": 1}) | ({} if kind == "u8" else {"RESHAPE": 1})
    assert read_tflite(back).operators == wanted
    for resolver in (
        OpResolverType.BUILTIN_REF,
        OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES,
        OpResolverType.BUILTIN,
    ):
        results = []
        for file in (path, back):
            interpreter = Interpreter(str(file), experimental_op_resolver_type=resolver)
            interpreter.allocate_tensors()
            (detail,) = interpreter.get_input_details()
            values = np.random.default_rng(1).integers(0, 128, shape).astype(detail["dtype"])
            interpreter.set_tensor(detail["index"], values)
            interpreter.invoke()
            results.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
        assert np.ptp(results[0].astype(int)) > 20 and np.array_equal(*results)


def ints(m, values):
    return m.constant(values, "i32")


BOX, WINDOW = (2, 4, 6, 3), {"strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2, "padding": 1}
# Kernels that take the data's integers for those of the result: (inputs, shape of the result, options).
IGNORED_SCALES = {
    "RESHAPE": (lambda m, x: [x, ints(m, [6, 24])], (6, 24), None),
    "TRANSPOSE": (lambda m, x: [x, ints(m, [2, 0, 3, 1])], (6, 2, 3, 4), None),
    "SLICE": (lambda m, x: [x, ints(m, [0, 1, 2, 0]), ints(m, [2, 3, 4, 2])], (2, 3, 4, 2), None),
    "REVERSE_V2": (lambda m, x: [x, ints(m, [2])], BOX, None),
    "PAD": (lambda m, x: [x, ints(m, [[0, 1], [0, 0], [2, 0], [0, 0]])], (3, 4, 8, 3), None),
    "GATHER": (lambda m, x: [x, ints(m, [1, 0, 1])], (3, 4, 6, 3), ("GatherOptions", {})),
    "TILE": (lambda m, x: [x, ints(m, [1, 2, 1, 1])], (2, 8, 6, 3), None),
    "SPACE_TO_DEPTH": (lambda m, x: [x], (2, 2, 3, 12), ("SpaceToDepthOptions", {"blockSize": 2})),
    "RESIZE_BILINEAR": (lambda m, x: [x, ints(m, [7, 9])], (2, 7, 9, 3), ("ResizeBilinearOptions", {})),
    "MAX_POOL_2D": (lambda m, x: [x], (2, 2, 3, 3), ("Pool2DOptions", WINDOW)),
    "AVERAGE_POOL_2D": (lambda m, x: [x], (2, 2, 3, 3), ("Pool2DOptions", WINDOW | {"fusedActivationFunction": 1})),
    "MAXIMUM": (lambda m, x: [x, m.input(BOX, "i8", scale=0.01, zero=5)], BOX, ("MaximumMinimumOptions", {})),
}


@pytest.mark.parametrize("kind", IGNORED_SCALES)
def test_a_kernel_that_does_not_look_at_the_scale_of_its_data(kind, tmp_path):
    m = Model()
    inputs, shape, options = IGNORED_SCALES[kind]
    version = 1 if kind == "RESHAPE" else 2
    y = m.op(kind, inputs(m, m.input(BOX, "i8", **X)), shape, "i8", options, version=version, **Y)
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


def test_blocks_of_the_batch_with_two_scales_are_refused_as_by_litert(tmp_path):
    m = Model()
    inputs = [m.input((1, 4, 6, 3), "i8", **X), ints(m, [2, 3]), ints(m, [[0, 0], [0, 0]])]
    m.write(tmp_path / "m.tflite", [m.op("SPACE_TO_BATCH_ND", inputs, (6, 2, 2, 3), "i8", version=2, **Y)])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "different scales" in done.stderr


@pytest.mark.parametrize("kind", ["CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"])
def test_scales_of_weights_along_another_axis_are_refused(kind, tmp_path):
    """LiteRT takes scale i for output channel i, whatever the axis is."""
    m = Model()
    scales = {"scale": [0.01, 0.02, 0.005], "axis": 1 if kind == "FULLY_CONNECTED" else 3}
    x = m.input((4, 3) if kind == "FULLY_CONNECTED" else (1, 7, 8, 3), "i8", **X)
    w = m.constant(weights(*((5, 3) if kind == "FULLY_CONNECTED" else (5, 3, 2, 3))), "i8", **scales)
    fields = {"padding": 0, "strideH": 1, "strideW": 1}
    if kind == "CONV_2D":
        y = m.op(kind, [x, w], (1, 7, 8, 5), "i8", ("Conv2DOptions", fields), version=3, **Y)
    elif kind == "TRANSPOSE_CONV":
        options = ("TransposeConvOptions", fields)
        y = m.op(kind, [ints(m, [1, 7, 8, 5]), w, x], (1, 7, 8, 5), "i8", options, version=3, **Y)
    else:
        y = m.op(kind, [x, w], (4, 5), "i8", ("FullyConnectedOptions", {}), version=4, **Y)
    m.write(tmp_path / "m.tflite", [y])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "another axis than that of the output channels" in done.stderr


def test_softmax_of_u8_counts_from_zero(tmp_path):
    m = Model()
    x = m.input((4, 6), "u8", scale=0.05, zero=120)
    m.write(tmp_path / "m.tflite", [m.op("SOFTMAX", [x], (4, 6), "u8", ("SoftmaxOptions", {"beta": 1.0}), **X)])
    agrees(tmp_path / "m.tflite")


def test_one_hot_of_quantized_integers(tmp_path):
    m = Model()
    values = [m.constant(value, "i8", **X) for value in (90, -20)]
    inputs = [m.input((3, 2), "i32"), ints(m, 5), *values]
    m.write(tmp_path / "m.tflite", [m.op("ONE_HOT", inputs, (3, 2, 5), "i8", ("OneHotOptions", {"axis": -1}), **X)])
    agrees(tmp_path / "m.tflite")
