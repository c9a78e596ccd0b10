# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX: where LiteRT's kernels compute something else than the ONNX operator of the same name."""

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from tests.raised.judge_raised import agrees, agrees_at, operators, raised, run_litert, run_onnx
from tests.raised.test_operators import refused
from tests.raised.tflite_models import TYPES, Model

MOST_OF_RANGE = 0.02  # of hybrids, whose data are rounded to 8 bits

# ---- RESIZE_NEAREST_NEIGHBOR ----

FORMS = {"plain": {}, "corners": {"alignCorners": True}, "half": {"halfPixelCenters": True}}
SIZES = [(112, 16), (112, 8), (8, 47), (14, 2), (2, 41), (41, 82), (57, 228), (120, 40), (5, 1), (1, 5), (7, 7)]


def nearest(path, sizes, kind, form, open_sizes=()):
    """Rows from the first size to the second; `open_sizes` are left open in the file."""
    (rows, made), columns = sizes, 3
    m = Model()
    x = m.input((1, rows, columns, 2), kind)
    size = m.input((2,), "i32") if "result" in open_sizes else m.constant([made, columns], "i32")
    options = ("ResizeNearestNeighborOptions", FORMS[form])
    y = m.op("RESIZE_NEAREST_NEIGHBOR", [x, size], (1, made, columns, 2), kind, options, version=3)
    if "image" in open_sizes:
        m.graph.tensors[x].shapeSignature = [1, -1, columns, 2]
    if open_sizes:
        m.graph.tensors[y].shapeSignature = [1, -1, -1, 2]
    m.write(path, [y])
    values = [np.arange(rows * columns * 2).reshape(1, rows, columns, 2).astype(TYPES[kind][1])]
    return values + ([np.array([made, columns], np.int32)] if "result" in open_sizes else [])


@pytest.mark.parametrize("kind", ["f32", "i8", "i16", "i32"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_rows_of_the_nearest_place(sizes, form, kind, tmp_path):
    agrees(tmp_path / "m.tflite", values=nearest(tmp_path / "m.tflite", sizes, kind, form))


@pytest.mark.parametrize("kind", ["f32", "u8"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("open_sizes", [("image",), ("result",), ("image", "result")], ids="-".join)
@pytest.mark.parametrize("sizes", SIZES[:4], ids=str)
def test_rows_of_the_nearest_place_that_are_computed(sizes, open_sizes, form, kind, tmp_path):
    values = nearest(tmp_path / "m.tflite", sizes, kind, form, open_sizes)
    assert "Gather" in operators(agrees(tmp_path / "m.tflite", values=values))


@pytest.mark.parametrize(
    ("sizes", "form"), [((7, 14), "plain"), ((7, 14), "half"), ((7, 21), "plain"), ((28, 7), "half")]
)
def test_whole_factors_are_a_resize(sizes, form, tmp_path):
    values = nearest(tmp_path / "m.tflite", sizes, "f32", form)
    model = agrees(tmp_path / "m.tflite", values=values)
    assert "Resize" in operators(model) and "Gather" not in operators(model)


@pytest.mark.parametrize("factor", [2, 3])
def test_an_image_of_any_size_that_grows_by_a_factor(factor, tmp_path):
    """By 2 it is a Resize, which computes without an error."""
    m = Model()
    x = m.input((1, 5, 7, 2))
    m.graph.tensors[x].shapeSignature = [1, -1, -1, 2]
    shape = m.op("SHAPE", [x], (4,), "i32", ("ShapeOptions", {"outType": schema.TensorType.INT32}))
    lists = [m.constant(one, "i32") for one in ([1], [3], [1])]
    extents = m.op("STRIDED_SLICE", [shape, *lists], (2,), "i32", ("StridedSliceOptions", {}))
    size = m.op("MUL", [extents, m.constant([factor, factor], "i32")], (2,), "i32", ("MulOptions", {}))
    options = ("ResizeNearestNeighborOptions", {})
    y = m.op("RESIZE_NEAREST_NEIGHBOR", [x, size], (1, 5 * factor, 7 * factor, 2), options=options)
    m.graph.tensors[y].shapeSignature = [1, -1, -1, 2]
    m.write(tmp_path / "m.tflite", [y])
    model = agrees(tmp_path / "m.tflite")
    assert ("Resize" in operators(model)) == (factor == 2)


# ---- RESIZE_BILINEAR of 16 bits, which counts places in units of 2^-10 ----


def bilinear(m, x, sizes, form):
    """Columns from 4 to 7."""
    options = ("ResizeBilinearOptions", FORMS[form])
    y = m.op("RESIZE_BILINEAR", [x, sizes], (2, 1, 7, 3), "i16", options, version=3, scale=0.02)
    m.graph.tensors[y].shapeSignature = [2, -1, 7, 3]
    return y


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("sizes", [(33, 257), (100, 37), (9, 31), (5, 5), (1, 6), (6, 1)], ids=str)
def test_rows_between_rows_of_16_bits(sizes, form, tmp_path):
    """To the last step, where it is not a Resize."""
    m = Model()
    x = m.input((2, sizes[0], 4, 3), "i16", scale=0.02)
    m.write(tmp_path / "m.tflite", [bilinear(m, x, m.constant([sizes[1], 7], "i32"), form)])
    steps = 1 if "Resize" in operators(raised(tmp_path / "m.tflite")) else 0
    names, values, ((name, wanted, _),) = run_litert(tmp_path / "m.tflite")
    made = run_onnx(tmp_path / "m.onnx", names, values)[name]
    assert np.abs(made.astype(np.int64) - wanted).max() <= steps


def test_rows_of_16_bits_behind_the_image(tmp_path):
    """Rounded steps lead there. LiteRT reads what stands behind, and the ONNX model the last row."""
    m = Model()
    x = m.input((2, 33, 4, 3), "i16", scale=0.02)
    m.write(tmp_path / "m.tflite", [bilinear(m, x, m.constant([1000, 7], "i32"), "plain")])
    raised(tmp_path / "m.tflite")
    names, values, ((name, wanted, _),) = run_litert(tmp_path / "m.tflite")
    made = run_onnx(tmp_path / "m.onnx", names, values)[name]
    inside = 33 * 1024 // 34 + 1
    assert np.array_equal(made[:, :inside], wanted[:, :inside])
    assert np.array_equal(made[:, inside:], np.broadcast_to(made[:, -1:], made[:, inside:].shape))


def test_steps_that_are_not_rounded_are_a_resize(tmp_path):
    m = Model()
    options = ("ResizeBilinearOptions", FORMS["half"])
    inputs = [m.input((2, 5, 6, 3), "i16", scale=0.02), m.constant([10, 24], "i32")]
    y = m.op("RESIZE_BILINEAR", inputs, (2, 10, 24, 3), "i16", options, version=3, scale=0.02)
    m.write(tmp_path / "m.tflite", [y])
    assert "Resize" in operators(agrees(tmp_path / "m.tflite"))


@pytest.mark.parametrize(("factor", "form"), [(2, "plain"), (2, "half"), (3, "plain"), (1024, "half")])
def test_open_images_of_16_bits(factor, form, tmp_path):
    m = Model()
    x = m.open_input((1, -1, -1, 3), "i16", scale=0.02)
    shape = m.op("SHAPE", [x], (4,), "i32", ("ShapeOptions", {"outType": schema.TensorType.INT32}))
    lists = [m.constant(one, "i32") for one in ([1], [3], [1])]
    extents = m.op("STRIDED_SLICE", [shape, *lists], (2,), "i32", ("StridedSliceOptions", {}))
    size = m.op("MUL", [extents, m.constant([factor, factor], "i32")], (2,), "i32", ("MulOptions", {}))
    options = ("ResizeBilinearOptions", FORMS[form])
    y = m.op("RESIZE_BILINEAR", [x, size], (1, 1, 1, 3), "i16", options, version=3, scale=0.02)
    m.graph.tensors[y].shapeSignature = [1, -1, -1, 3]
    m.write(tmp_path / "m.tflite", [y])
    if factor != 2:
        return refused(tmp_path / "m.tflite", "the size of an image of 16 bits is known at run time only")
    random = np.random.default_rng(3)
    agrees_at(
        tmp_path / "m.tflite",
        [[random.integers(-9999, 9999, (1, *size, 3)).astype(np.int16)] for size in ((5, 4), (3, 7))],
    )


# ---- hybrids ----

X = np.random.default_rng(1).uniform(-2, 2, (3, 16)).astype(np.float32)
WEIGHTS = np.random.default_rng(2).integers(-128, 127, (5, 16), endpoint=True).astype(np.int8)
SCALES = np.float32([0.01, 0.02, 0.013, 0.017, 0.025])
WINDOW = {"padding": 0, "strideH": 1, "strideW": 1, "dilationHFactor": 1, "dilationWFactor": 1}


def hybrid(m, builtin, weights, kind, **quantization):
    """[3, 16] by [5, 16]."""
    if builtin == "CONV_2D":
        w = m.constant(weights.reshape(5, 1, 1, 16), kind, **quantization)
        inputs = [m.input((3, 1, 1, 16)), w, m.constant(np.zeros(5))]
        return X.reshape(3, 1, 1, 16), m.op(builtin, inputs, (3, 1, 1, 5), options=("Conv2DOptions", WINDOW), version=2)
    x = m.input((3, 16))
    if builtin == "FULLY_CONNECTED":
        inputs = [x, m.constant(weights, kind, **quantization), -1]
        return X, m.op(builtin, inputs, (3, 5), options=("FullyConnectedOptions", {}), version=3)
    inputs = [x, m.constant(weights.T.copy(), kind, **quantization)]
    return X, m.op(builtin, inputs, (3, 5), options=("BatchMatMulOptions", {}), version=4)


def agrees_as_hybrid(path, x, wanted):
    """With LiteRT and with numpy; ONNX Runtime rounds the data of some products, too."""
    raised(path)
    names, values, ((name, expected, _),) = run_litert(path, [x])
    made = run_onnx(path.with_suffix(".onnx"), names, values)[name]
    assert made.shape == expected.shape
    assert np.abs(made - expected).max() <= MOST_OF_RANGE * np.ptp(expected)
    assert np.abs(made.reshape(wanted.shape) - wanted).max() <= MOST_OF_RANGE * np.ptp(wanted)


@pytest.mark.parametrize("zero", [0, 25])
@pytest.mark.parametrize("kind", ["i8", "u8"])
@pytest.mark.parametrize("builtin", ["FULLY_CONNECTED", "CONV_2D", "BATCH_MATMUL"])
def test_a_hybrid_reads_signed_weights_without_a_zero_point(builtin, kind, zero, tmp_path):
    if builtin == "BATCH_MATMUL" and kind == "u8":
        pytest.skip("LiteRT has no such kernel")
    m = Model()
    x, y = hybrid(m, builtin, WEIGHTS.view(TYPES[kind][1]), kind, scale=0.01, zero=zero)
    m.write(tmp_path / "m.tflite", [y])
    agrees_as_hybrid(tmp_path / "m.tflite", x, X @ (WEIGHTS * np.float32(0.01)).T)


@pytest.mark.parametrize("builtin", ["FULLY_CONNECTED", "CONV_2D"])
def test_zero_points_by_channel_of_a_hybrid(builtin, tmp_path):
    m = Model()
    x, y = hybrid(m, builtin, WEIGHTS, "i8", scale=SCALES, zero=[1, 20, -30, 40, 5])
    m.write(tmp_path / "m.tflite", [y])
    agrees_as_hybrid(tmp_path / "m.tflite", x, X @ (WEIGHTS * SCALES[:, None]).T)


def test_unsigned_weights_of_a_hybrid_convolution_with_several_scales_are_refused(tmp_path):
    m = Model()
    _, y = hybrid(m, "CONV_2D", WEIGHTS.view(np.uint8), "u8", scale=SCALES)
    m.write(tmp_path / "m.tflite", [y])
    refused(tmp_path / "m.tflite", "LiteRT's kernel takes the first")


def test_unsigned_weights_without_a_hybrid_kernel_are_refused(tmp_path):
    m = Model()
    _, y = hybrid(m, "BATCH_MATMUL", WEIGHTS.view(np.uint8), "u8", scale=0.01)
    m.write(tmp_path / "m.tflite", [y])
    refused(tmp_path / "m.tflite", "LiteRT has no kernel")


@pytest.mark.parametrize("is_adjoint", [False, True])
@pytest.mark.parametrize("along_columns", [True, False])
def test_scales_of_a_hybrid_matrix(along_columns, is_adjoint, tmp_path):
    """Scale i is that of column i of the result."""
    m = Model()
    weights = np.stack([WEIGHTS, WEIGHTS[::-1]])  # [2, columns, 16]
    stored = weights if is_adjoint else weights.transpose(0, 2, 1).copy()
    axis = (1 if is_adjoint else 2) if along_columns else (2 if is_adjoint else 1)
    scales = SCALES if along_columns else np.linspace(0.01, 0.02, 16, dtype=np.float32)
    w = m.constant(stored, "i8", scale=scales, axis=axis)
    options = ("BatchMatMulOptions", {"adjY": is_adjoint})
    m.write(
        tmp_path / "m.tflite", [m.op("BATCH_MATMUL", [m.input((2, 3, 16)), w], (2, 3, 5), options=options, version=4)]
    )
    if not along_columns:
        return refused(tmp_path / "m.tflite", "another axis than that of the output channels")
    x = np.stack([X, -X])
    agrees_as_hybrid(tmp_path / "m.tflite", x, x @ (weights * SCALES[:, None]).transpose(0, 2, 1))


def test_scales_of_an_integer_matrix_are_refused(tmp_path):
    m = Model()
    w = m.constant(WEIGHTS.T.copy(), "i8", scale=SCALES, axis=1)
    x = m.input((3, 16), "i8", scale=0.05, zero=3)
    m.write(tmp_path / "m.tflite", [m.op("BATCH_MATMUL", [x, w], (3, 5), "i8", ("BatchMatMulOptions", {}), scale=0.2)])
    refused(tmp_path / "m.tflite", "LiteRT's kernel takes the first")


def nibbles(m, integers, **quantization):
    """A constant of 4 bits."""
    flat = np.append(np.ravel(integers) & 15, [0] * (integers.size % 2)).astype(np.uint8)
    index = m.constant(flat[0::2] | flat[1::2] << 4, "u8", **quantization)
    m.graph.tensors[index].shape, m.graph.tensors[index].type = list(integers.shape), schema.TensorType.INT4
    return index


def test_narrow_weights_with_a_zero_point_are_refused(tmp_path):
    m = Model()
    w = nibbles(m, WEIGHTS % 8, scale=0.1, zero=2)
    options = ("FullyConnectedOptions", {})
    m.write(
        tmp_path / "m.tflite", [m.op("FULLY_CONNECTED", [m.input((3, 16)), w], (3, 5), options=options, version=10)]
    )
    refused(tmp_path / "m.tflite", "weights of 4 bits with a zero point")


# ---- EMBEDDING_LOOKUP ----


@pytest.mark.parametrize("result", ["f32", "f16"])
@pytest.mark.parametrize("kind", ["i8", "u8"])
@pytest.mark.parametrize("scale", [0.01, SCALES], ids=["one", "rows"])
def test_rows_of_a_table_of_integers(scale, kind, result, tmp_path):
    m = Model()
    table = m.constant(WEIGHTS.view(TYPES[kind][1]), kind, scale=scale)
    m.write(
        tmp_path / "m.tflite", [m.op("EMBEDDING_LOOKUP", [m.input((3,), "i32"), table], (3, 16), result, version=3)]
    )
    agrees(tmp_path / "m.tflite", values=[np.array([4, 0, 3], np.int32)])


@pytest.mark.parametrize("columns", [4, 5])
def test_rows_of_nibbles(columns, tmp_path):
    """A row that begins within a byte is read from that byte on."""
    m = Model()
    table = nibbles(m, WEIGHTS[:, :columns] % 16 - 8, scale=SCALES)
    places = m.input((3,), "i32")
    m.write(tmp_path / "m.tflite", [m.op("EMBEDDING_LOOKUP", [places, table], (3, columns), version=4)])
    if columns % 2:
        return refused(tmp_path / "m.tflite", "do not end at a byte")
    agrees(tmp_path / "m.tflite", values=[np.array([4, 1, 3], np.int32)])


def test_a_table_with_a_zero_point_is_refused(tmp_path):
    m = Model()
    table = m.constant(WEIGHTS, "i8", scale=0.01, zero=5)
    m.write(tmp_path / "m.tflite", [m.op("EMBEDDING_LOOKUP", [m.input((3,), "i32"), table], (3, 16), version=3)])
    refused(tmp_path / "m.tflite", "a table with a zero point")


# ---- divisions, comparisons, conversions ----


def test_quotients_of_floats_are_those_of_doubles(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op("FLOOR_DIV", [m.input((1000,)), m.constant(np.float32(0.1))], (1000,))])
    agrees(tmp_path / "m.tflite", values=[np.arange(-500, 500, dtype=np.float32) / np.float32(10)])


@pytest.mark.parametrize("kind", ["i8", "i16", "i32"])
def test_quotients_at_the_ends_of_the_range(kind, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op("FLOOR_DIV", [m.input((6, 1), kind), m.input((5,), kind)], (6, 5), kind)])
    dtype = TYPES[kind][1]
    low, high = np.iinfo(dtype).min, np.iinfo(dtype).max
    values = [
        np.array([[low], [low + 1], [-7], [7], [high - 1], [high]], dtype),
        np.array([2, 3, -2, 100, -100], dtype),
    ]
    agrees(tmp_path / "m.tflite", values=values)


@pytest.mark.parametrize("builtin", ["LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL", "EQUAL"])
def test_comparisons_of_16_bits_with_two_scales(builtin, tmp_path):
    """LiteRT orders the integers as they are stored, and looks at scales for equality only."""
    m = Model()
    inputs = [m.input((6,), "i16", scale=0.05), m.input((6,), "i16", scale=0.1)]
    m.write(tmp_path / "m.tflite", [m.op(builtin, inputs, (6,), "bool")])
    agrees(tmp_path / "m.tflite", values=[np.int16([2, 2, 4, 10, -4, 0]), np.int16([1, 2, 2, 6, -2, 0])])


# ONNX Runtime's Max, Min and Clip look at the low halves.
WIDE = np.int64([2**31, 5, -(2**31) - 7, 2**33 + 1, -3, 2**63 - 1, -(2**63)])


@pytest.mark.parametrize("builtin", ["MAXIMUM", "MINIMUM"])
def test_extremes_of_64_bits(builtin, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op(builtin, [m.input((3, 7), "i64"), m.input((7,), "i64")], (3, 7), "i64")])
    others = np.int64([[31, 2**32 + 4, 31, 7, 2**40, 0, 0], [-(2**31), 6, 1, 2**33, -4, -1, -1], WIDE])
    agrees(tmp_path / "m.tflite", values=[others, WIDE])


@pytest.mark.parametrize("activation", [1, 2, 3])
def test_limits_of_64_bits(activation, tmp_path):
    m = Model()
    options = ("AddOptions", {"fusedActivationFunction": activation})
    m.write(tmp_path / "m.tflite", [m.op("ADD", [m.input((7,), "i64"), m.input((7,), "i64")], (7,), "i64", options)])
    agrees(tmp_path / "m.tflite", values=[WIDE, np.zeros(7, np.int64)])


@pytest.mark.parametrize("quantization", [{}, {"scale": 0.1}], ids=str)
@pytest.mark.parametrize("kind", ["i8", "i16"])
def test_the_least_integer_is_its_own_negation(kind, quantization, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op("NEG", [m.input((5,), kind, **quantization)], (5,), kind, **quantization)])
    low, high = np.iinfo(TYPES[kind][1]).min, np.iinfo(TYPES[kind][1]).max
    model = agrees(tmp_path / "m.tflite", values=[np.array([low, low + 1, 0, 7, high], TYPES[kind][1])])
    assert operators(model) == ["Neg"]


@pytest.mark.parametrize(
    ("kind", "slope"), [("i8", "u8"), ("i8", "i16"), ("i16", "i16"), ("i16", "u8"), ("u8", "i8"), ("f32", "i8")]
)
def test_a_slope_that_is_read_as_another_type_is_refused(kind, slope, tmp_path):
    m = Model()
    data = {} if kind == "f32" else {"scale": 0.05}
    inputs = [m.input((3, 40), kind, **data), m.constant(np.arange(40), slope, scale=0.01)]
    m.write(tmp_path / "m.tflite", [m.op("PRELU", inputs, (3, 40), kind, **data)])
    read = "i8" if kind == "i16" else kind
    refused(tmp_path / "m.tflite", f"a slope of {slope} for data of {kind}, which LiteRT's kernel reads as {read}")


FAR = [np.nan, np.inf, -np.inf, 9.3e18, -9.3e18, 1e10, -1e10, 2147483648, -129.5, 255.7, 127.6, 2.9, -2.9, -0.5]


@pytest.mark.parametrize("is_constant", [False, True])
@pytest.mark.parametrize("kind", ["i8", "u8", "i16", "u16", "i32", "u32", "i64"])
def test_floats_beyond_the_range_of_integers(kind, is_constant, tmp_path):
    """NaN becomes the largest integer, at run time and where the converter computes the result."""
    m = Model()
    numbers = np.array(FAR, np.float32)
    x = m.input((len(FAR),))
    cast = m.op("CAST", [m.constant(numbers) if is_constant else x], (len(FAR),), kind)
    m.write(tmp_path / "m.tflite", [cast, m.op("SHAPE", [x], (1,), "i32", ("ShapeOptions", {"outType": 2}))])
    model = agrees(tmp_path / "m.tflite", values=[numbers])
    assert ("Where" in operators(model)) == (not is_constant)


@pytest.mark.parametrize("builtin", ["ARG_MAX", "ARG_MIN"])
@pytest.mark.parametrize("axis", [0, -1])
def test_first_of_truth_values(axis, builtin, tmp_path):
    m = Model()
    options = (f"Arg{builtin[4:].title()}Options", {"outputType": schema.TensorType.INT32})
    inputs = [m.input((5, 7), "bool"), m.constant(axis, "i32")]
    m.write(tmp_path / "m.tflite", [m.op(builtin, inputs, (7,) if axis == 0 else (5,), "i32", options)])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("kind", ["i8", "i16"])
def test_a_product_along_no_axis_keeps_the_integers(kind, tmp_path):
    m = Model()
    inputs = [m.input((6, 3), kind, scale=0.05), m.constant(np.zeros(0), "i32")]
    y = m.op("REDUCE_PROD", inputs, (6, 3), kind, ("ReducerOptions", {}), scale=0.1)
    m.write(tmp_path / "m.tflite", [y])
    names, values, ((name, expected, _),) = run_litert(tmp_path / "m.tflite")
    raised(tmp_path / "m.tflite")
    assert np.array_equal(run_onnx(tmp_path / "m.onnx", names, values)[name], expected)
    assert np.array_equal(values[0], expected)


@pytest.mark.parametrize("builtin", ["CONV_2D", "TRANSPOSE_CONV", "FULLY_CONNECTED"])
@pytest.mark.parametrize("named", [0, schema.TensorType.INT32])
def test_a_bias_that_is_read_with_other_bits(named, builtin, tmp_path):
    """Without quantized_bias_type the kernel reads 64 bits of each number."""
    m = Model()
    bias = m.constant(np.arange(-900, 900, 360), "i32", scale=0.01 * 0.0005)
    table = {"CONV_2D": "Conv2DOptions", "TRANSPOSE_CONV": "TransposeConvOptions"}.get(builtin, "FullyConnectedOptions")
    fields = {"quantizedBiasType": named} | ({} if builtin == "FULLY_CONNECTED" else {"strideH": 1, "strideW": 1})
    if builtin == "FULLY_CONNECTED":
        x, shape = m.input((3, 16), "i16", scale=0.0005), (3, 5)
        inputs = [x, m.constant(WEIGHTS, "i8", scale=0.01, zero=3), bias]
    else:
        x, shape = m.input((3, 1, 1, 16), "i16", scale=0.0005), (3, 1, 1, 5)
        inputs = [x, m.constant(WEIGHTS.reshape(5, 1, 1, 16), "i8", scale=np.full(5, 0.01)), bias]
        if builtin == "TRANSPOSE_CONV":
            inputs = [m.constant(shape, "i32"), inputs[1], x, bias]
    version = 5 if builtin == "TRANSPOSE_CONV" else 8
    y = m.op(builtin, inputs, shape, "i16", (table, fields), version=version, scale=0.004)
    m.write(tmp_path / "m.tflite", [y])
    if named == 0:
        return refused(tmp_path / "m.tflite", "LiteRT's kernel reads 64 bits")
    agrees(tmp_path / "m.tflite")


def test_strides_that_must_be_known(tmp_path):
    m = Model()
    lists = [m.input((2,), "i32") for _ in range(3)]
    y = m.op("STRIDED_SLICE", [m.input((4, 5)), *lists], (5,), options=("StridedSliceOptions", {"shrinkAxisMask": 1}))
    m.write(tmp_path / "m.tflite", [y])
    refused(tmp_path / "m.tflite", "strides of STRIDED_SLICE known at run time only")


# ---- MUL of i16 with a result of 8 bits: the high bits of a product of fractions ----


def product_of_fractions(path, kind, scale, result_scale, zero=0):
    m = Model()
    parts = [m.input((4, 6), "i16", scale=scale, zero=zero) for _ in range(2)]
    m.write(path, [m.op("MUL", parts, (4, 6), kind, ("MulOptions", {}), scale=result_scale, zero=3)])


@pytest.mark.parametrize("kind", ["i8", "u8"])
def test_a_product_of_fractions_of_16_bits(kind, tmp_path):
    product_of_fractions(tmp_path / "m.tflite", kind, 1 / 32768, 1 / 128)
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize(("scale", "result_scale", "zero"), [(1 / 4096, 1 / 16, 0), (1 / 32768, 1 / 128, 5)])
@pytest.mark.parametrize("kind", ["i8", "u8"])
def test_a_product_of_16_bits_by_other_scales_is_refused(kind, scale, result_scale, zero, tmp_path):
    product_of_fractions(tmp_path / "m.tflite", kind, scale, result_scale, zero)
    refused(tmp_path / "m.tflite", "integers with a scale, which LiteRT's kernel does not look at")


@pytest.mark.parametrize("computed", [False, True], ids=["known axes", "computed axes"])
@pytest.mark.parametrize("keep", [False, True])
def test_a_sum_of_integers_wraps(computed, keep, tmp_path):
    m = Model()
    x = m.input((4, 5, 3), "i32")
    axes = m.input((2,), "i32") if computed else m.constant([0, -1], "i32")
    y = m.op("SUM", [x, axes], (1, 5, 1) if keep else (5,), "i32", options=("ReducerOptions", {"keepDims": keep}))
    m.write(tmp_path / "m.tflite", [y])
    numbers = np.random.default_rng(3).integers(-(2**31), 2**31, (4, 5, 3)).astype(np.int32)
    numbers[:, 0], numbers[:, 1] = 2**30, -(2**30)
    agrees(tmp_path / "m.tflite", values=[numbers] + [np.int32([0, 2])] * computed)
