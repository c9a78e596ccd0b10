# SPDX-License-Identifier: Apache-2.0
"""A PAD before a convolution or pool with VALID becomes its pads, where both mean the same. LiteRT is the judge."""

import numpy as np
import pytest

from tests.raised.judge_raised import agrees, agrees_at, operators
from tests.raised.test_quantized import optimized
from tests.raised.tflite_models import Model

SAME, VALID = 0, 1
NONE, RELU = 0, 1
IMAGE, SIDES = (2, 7, 9, 3), ((0, 0), (1, 2), (0, 3), (0, 0))
SCALES = {"scale": 0.05, "zero": 7}
LOWEST = float(np.finfo(np.float32).min)


def padded_shape(shape, sides):
    return tuple(size + sum(pads) for size, pads in zip(shape, sides, strict=True))


def pad(m, x, shape=IMAGE, sides=SIDES, kind="f32", value=None, value_scales=None, **quantization):
    """PAD, or PADV2 with a value."""
    inputs = [x, m.constant(sides, "i32")]
    if value is not None:
        inputs.append(m.constant([value], kind, **(quantization if value_scales is None else value_scales)))
    return m.op("PADV2" if value is not None else "PAD", inputs, padded_shape(shape, sides), kind, **quantization)


def convolved(m, x, shape, kind="f32", padding=VALID, depthwise=False, activation=NONE):
    """A convolution of 3 x 2 with strides 2 and 1, of an image of that shape."""
    random = np.random.default_rng(3)
    channels, filters = shape[3], shape[3] * 2 if depthwise else 5
    weights = (1, 3, 2, filters) if depthwise else (filters, 3, 2, channels)
    if kind == "f32":
        inputs = [x, m.constant(random.standard_normal(weights)), m.constant(random.standard_normal(filters))]
    else:
        each = {"scale": np.linspace(0.01, 0.03, filters), "zero": 0, "axis": 3 if depthwise else 0}
        bias = {"scale": each["scale"] * 0.05, "zero": 0}
        inputs = [
            x,
            m.constant(random.integers(-127, 128, weights), "i8", **each),
            m.constant(random.integers(-900, 900, filters), "i32", **bias),
        ]
    height, width = (shape[1] - 3) // 2 + 1, shape[2] - 1
    if padding == SAME:
        height, width = -(-shape[1] // 2), shape[2]
    fields = {"padding": padding, "strideH": 2, "strideW": 1, "fusedActivationFunction": activation}
    fields |= {"dilationHFactor": 1, "dilationWFactor": 1}
    name = "DEPTHWISE_CONV_2D" if depthwise else "CONV_2D"
    table = "DepthwiseConv2DOptions" if depthwise else "Conv2DOptions"
    scales = {} if kind == "f32" else {"scale": 0.2, "zero": -3}
    return m.op(name, inputs, (shape[0], height, width, filters), kind, options=(table, fields), **scales)


def pooled(m, kind, x, shape, dtype="f32", **quantization):
    """A pool of 4 x 5 with strides 2 and 3: larger than the pads."""
    fields = {"padding": VALID, "strideH": 2, "strideW": 3, "filterHeight": 4, "filterWidth": 5}
    made = (shape[0], (shape[1] - 4) // 2 + 1, (shape[2] - 5) // 3 + 1, shape[3])
    return m.op(kind, [x], made, dtype, options=("Pool2DOptions", fields), **quantization)


def node(model, kind):
    return next(one for one in model.graph.node if one.op_type == kind)


def attribute(model, kind, name):
    return next((list(a.ints) or a.i for a in node(model, kind).attribute if a.name == name), None)


@pytest.mark.parametrize("depthwise", [False, True])
@pytest.mark.parametrize("value", [None, 0.0])
def test_of_a_convolution(depthwise, value, tmp_path):
    m = Model()
    x = pad(m, m.input(IMAGE), value=value)
    m.write(tmp_path / "m.tflite", [convolved(m, x, padded_shape(IMAGE, SIDES), depthwise=depthwise, activation=RELU)])
    made = agrees(tmp_path / "m.tflite")
    assert "Pad" not in operators(made) and attribute(made, "Conv", "pads") == [1, 0, 2, 3]


def test_of_a_volume(tmp_path):
    sides = ((0, 0), (1, 0), (2, 1), (0, 3), (0, 0))
    m = Model()
    shape = padded_shape((2, 4, 5, 6, 3), sides)
    x = pad(m, m.input((2, 4, 5, 6, 3)), (2, 4, 5, 6, 3), sides)
    weights = m.constant(np.random.default_rng(1).standard_normal((2, 3, 2, 3, 4)))
    fields = {"padding": VALID, "strideD": 1, "strideH": 1, "strideW": 2}
    fields |= {"dilationDFactor": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    made = (2, shape[1] - 1, shape[2] - 2, (shape[3] - 2) // 2 + 1, 4)
    m.write(tmp_path / "m.tflite", [m.op("CONV_3D", [x, weights], made, options=("Conv3DOptions", fields))])
    model = agrees(tmp_path / "m.tflite")
    assert "Pad" not in operators(model) and attribute(model, "Conv", "pads") == [1, 2, 0, 0, 1, 3]


@pytest.mark.parametrize("depthwise", [False, True])
def test_of_integers(depthwise, tmp_path):
    """The zero point is the zero that PAD fills in; ONNX Runtime computes the convolution in integers."""
    m = Model()
    x = pad(m, m.input(IMAGE, "i8", **SCALES), kind="i8", **SCALES)
    m.write(tmp_path / "m.tflite", [convolved(m, x, padded_shape(IMAGE, SIDES), "i8", depthwise=depthwise)])
    assert "Pad" not in operators(agrees(tmp_path / "m.tflite"))
    assert "QLinearConv" in optimized(tmp_path / "m.onnx", keeps_int8=True)


def test_of_an_open_image(tmp_path):
    m = Model()
    x = m.open_input((2, -1, 9, 3))
    shape = padded_shape((2, 1, 9, 3), SIDES)
    y = convolved(m, pad(m, x, (2, 1, 9, 3)), shape)
    m.graph.tensors[y].shapeSignature = [2, -1, *m.graph.tensors[y].shape[2:]]
    m.write(tmp_path / "m.tflite", [y])
    random = np.random.default_rng(4)
    runs = [[random.standard_normal((2, height, 9, 3)).astype(np.float32)] for height in (4, 7)]
    assert "Pad" not in operators(agrees_at(tmp_path / "m.tflite", runs))


def test_of_each_that_reads_it(tmp_path):
    m = Model()
    x, shape = pad(m, m.input(IMAGE)), padded_shape(IMAGE, SIDES)
    outputs = [convolved(m, x, shape), pooled(m, "AVERAGE_POOL_2D", x, shape)]
    m.write(tmp_path / "m.tflite", outputs)
    made = agrees(tmp_path / "m.tflite")
    assert "Pad" not in operators(made)
    assert attribute(made, "AveragePool", "pads") == [1, 0, 2, 3]
    assert attribute(made, "AveragePool", "count_include_pad") == 1


def test_of_an_average_pool_of_integers(tmp_path):
    m = Model()
    x = pad(m, m.input(IMAGE, "i8", **SCALES), kind="i8", **SCALES)
    m.write(tmp_path / "m.tflite", [pooled(m, "AVERAGE_POOL_2D", x, padded_shape(IMAGE, SIDES), "i8", **SCALES)])
    assert "Pad" not in operators(agrees(tmp_path / "m.tflite"))


@pytest.mark.parametrize("value", [LOWEST, -np.inf])
def test_of_a_maximum_below_all_numbers(value, tmp_path):
    m = Model()
    y = pooled(m, "MAX_POOL_2D", pad(m, m.input(IMAGE), value=value), padded_shape(IMAGE, SIDES))
    m.write(tmp_path / "m.tflite", [y])
    made = agrees(tmp_path / "m.tflite")
    assert "Pad" not in operators(made) and attribute(made, "MaxPool", "pads") == [1, 0, 2, 3]


@pytest.mark.parametrize(("kind", "least"), [("i8", -128), ("u8", 0)])
def test_of_a_maximum_of_integers(kind, least, tmp_path):
    m = Model()
    x = pad(m, m.input(IMAGE, kind, **SCALES), kind=kind, value=least, **SCALES)
    m.write(tmp_path / "m.tflite", [pooled(m, "MAX_POOL_2D", x, padded_shape(IMAGE, SIDES), kind, **SCALES)])
    assert "Pad" not in operators(agrees(tmp_path / "m.tflite"))


def test_zeros_of_a_maximum_behind_relu(tmp_path):
    m = Model()
    x = m.op("RELU", [m.input(IMAGE)], IMAGE)
    m.write(tmp_path / "m.tflite", [pooled(m, "MAX_POOL_2D", pad(m, x), padded_shape(IMAGE, SIDES))])
    assert "Pad" not in operators(agrees(tmp_path / "m.tflite"))


def test_zeros_of_a_maximum_stay(tmp_path):
    """They are larger than the negative numbers of the image."""
    m = Model()
    m.write(tmp_path / "m.tflite", [pooled(m, "MAX_POOL_2D", pad(m, m.input(IMAGE)), padded_shape(IMAGE, SIDES))])
    values = [-1 - np.random.default_rng(2).random(IMAGE, np.float32)]
    assert "Pad" in operators(agrees(tmp_path / "m.tflite", values=values))


@pytest.mark.parametrize(
    "sides",
    [((0, 0), (1, 2), (0, 3), (0, 1)), ((1, 0), (1, 2), (0, 3), (0, 0))],
    ids=["channels", "batch"],
)
def test_pads_of_other_axes_stay(sides, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [convolved(m, pad(m, m.input(IMAGE), sides=sides), padded_shape(IMAGE, sides))])
    assert "Pad" in operators(agrees(tmp_path / "m.tflite"))


def test_other_values_stay(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [convolved(m, pad(m, m.input(IMAGE), value=1.5), padded_shape(IMAGE, SIDES))])
    assert "Pad" in operators(agrees(tmp_path / "m.tflite"))


def test_another_integer_than_the_zero_point_stays(tmp_path):
    m = Model()
    x = pad(m, m.input(IMAGE, "i8", **SCALES), kind="i8", value=8, **SCALES)
    m.write(tmp_path / "m.tflite", [convolved(m, x, padded_shape(IMAGE, SIDES), "i8")])
    assert "Pad" in operators(agrees(tmp_path / "m.tflite"))


def test_same_stays(tmp_path):
    """Its pads are those of the padded image."""
    m = Model()
    y = convolved(m, pad(m, m.input(IMAGE)), padded_shape(IMAGE, SIDES), padding=SAME)
    m.write(tmp_path / "m.tflite", [y])
    assert "Pad" in operators(agrees(tmp_path / "m.tflite"))


def test_pads_as_large_as_the_window_of_a_pool_stay(tmp_path):
    sides = ((0, 0), (4, 0), (0, 0), (0, 0))
    m = Model()
    y = pooled(m, "AVERAGE_POOL_2D", pad(m, m.input(IMAGE), sides=sides), padded_shape(IMAGE, sides))
    m.write(tmp_path / "m.tflite", [y])
    assert "Pad" in operators(agrees(tmp_path / "m.tflite"))


@pytest.mark.parametrize("also", ["output", "reader"])
def test_one_that_others_read_stays(also, tmp_path):
    m = Model()
    shape = padded_shape(IMAGE, SIDES)
    x = pad(m, m.input(IMAGE))
    other = x if also == "output" else m.op("NEG", [x], shape)
    m.write(tmp_path / "m.tflite", [convolved(m, x, shape), other])
    assert operators(agrees(tmp_path / "m.tflite")).count("Pad") == 1


def test_inside_of_a_condition_and_a_body(tmp_path):
    """The condition of a loop is written twice, and both have the pads."""
    m = Model()
    shape, x, count = (1, 5, 6, 3), m.input((1, 5, 6, 3)), m.constant(0, "i32")
    weights = np.random.default_rng(6).standard_normal((3, 3, 2, 3)) * 0.2
    fields = {"padding": VALID, "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}
    sides = ((0, 0), (1, 1), (1, 0), (0, 0))

    def step(image):
        inputs = [pad(m, image, shape, sides), m.constant(weights), m.constant([0.1, 0, -0.1])]
        return m.op("CONV_2D", inputs, shape, options=("Conv2DOptions", fields))

    with m.subgraph() as condition:
        number, image = m.input((), "i32"), m.input(shape)
        peak = m.op("REDUCE_MAX", [step(image), m.constant([0, 1, 2, 3], "i32")], ())
        small = m.op("LESS", [peak, m.constant(1e6)], (), "bool")
        few = m.op("LESS", [number, m.constant(3, "i32")], (), "bool")
        m.outputs([m.op("LOGICAL_AND", [small, few], (), "bool")])
    with m.subgraph() as body:
        number, image = m.input((), "i32"), m.input(shape)
        m.outputs([m.op("ADD", [number, m.constant(1, "i32")], (), "i32"), step(image)])
    loop = {"condSubgraphIndex": condition, "bodySubgraphIndex": body}
    made = m.op("WHILE", [count, x], [(), shape], ["i32", "f32"], options=("WhileOptions", loop), outputs=2)
    m.write(tmp_path / "m.tflite", made)
    model = agrees(tmp_path / "m.tflite")

    def all_operators(graph):
        for one in graph.node:
            yield one.op_type
            for field in one.attribute:
                yield from all_operators(field.g)

    kinds = list(all_operators(model.graph))
    assert kinds.count("Conv") == 3 and "Pad" not in kinds
