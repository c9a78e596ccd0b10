# SPDX-License-Identifier: Apache-2.0
"""Builtins that become several ONNX nodes, operator by operator. LiteRT is the judge. All dimensions differ."""

import numpy as np
import pytest

from tests.raised.judge_raised import agrees, operators
from tests.raised.tflite_models import Model
from tests.support import converter

X = np.random.default_rng(9).standard_normal((3, 4, 5)).astype(np.float32)


def judge(m, tmp_path, outputs, values=None):
    m.write(tmp_path / "m.tflite", outputs if isinstance(outputs, list) else [outputs])
    return agrees(tmp_path / "m.tflite", values=values)


@pytest.mark.parametrize("condition", [(3, 4, 5), (3,), ()], ids=["each", "rows", "one"])
@pytest.mark.parametrize("kind", ["f32", "i32", "i8", "i16", "bool"])
def test_select(condition, kind, tmp_path):
    m = Model()
    y = m.op(
        "SELECT", [m.input(condition, "bool"), m.input((3, 4, 5), kind), m.input((3, 4, 5), kind)], (3, 4, 5), kind
    )
    judge(m, tmp_path, y)


def test_norm_of_the_last_axis(tmp_path):
    m = Model()
    y = m.op("L2_NORMALIZATION", [m.input((3, 4, 5))], (3, 4, 5), options=("L2NormOptions", {}))
    judge(m, tmp_path, y)
    small = X.copy()
    small[1] *= 1e-8
    small[2] = 0
    judge(m, tmp_path, y, [small])


@pytest.mark.parametrize("kind", ["i8", "u8"])
def test_norm_of_integers(kind, tmp_path):
    m = Model()
    zero = 0 if kind == "i8" else 128
    x = m.input((3, 4, 5), kind, scale=0.03, zero=zero + 5)
    y = m.op("L2_NORMALIZATION", [x], (3, 4, 5), kind, ("L2NormOptions", {}), version=2, scale=1 / 128, zero=zero)
    judge(m, tmp_path, y)


@pytest.mark.parametrize("activation", [0, 1, 3])
@pytest.mark.parametrize("padding", [0, 1])
def test_pool_of_squares(padding, activation, tmp_path):
    m = Model()
    fields = {"padding": padding, "strideH": 2, "strideW": 1, "filterHeight": 3, "filterWidth": 2}
    fields["fusedActivationFunction"] = activation
    shape = (2, 4, 6, 3) if padding == 0 else (2, 3, 5, 3)
    judge(m, tmp_path, m.op("L2_POOL_2D", [m.input((2, 7, 6, 3))], shape, options=("Pool2DOptions", fields)))


@pytest.mark.parametrize("kind", ["f32", "i32", "i64"])
def test_zeros_rank_and_sums(kind, tmp_path):
    m = Model()
    x = m.input((3, 4), kind)
    y = m.op("ADD_N", [x, x, m.input((3, 4), kind)], (3, 4), kind) if kind != "i64" else x
    zeros = m.op("ZEROS_LIKE", [x], (3, 4), kind)
    joined = m.op("CONCATENATION", [y, zeros], (3, 8), kind, ("ConcatenationOptions", {"axis": 1}))
    judge(m, tmp_path, [joined, m.op("RANK", [x], (), "i32")])


@pytest.mark.parametrize("shapes", [([3, 1, 5], [4, 1]), ([4, 1], [3, 4, 5]), ([2, 7], [2, 7])])
def test_shapes_that_broadcast(shapes, tmp_path):
    m = Model()
    given = [m.input((len(shape),), "i32") for shape in shapes]
    y = m.op("BROADCAST_ARGS", given, (max(map(len, shapes)),), "i32")
    judge(m, tmp_path, y, [np.array(shape, np.int32) for shape in shapes])


@pytest.mark.parametrize(
    ("low", "high", "bits", "narrow"), [(-2, 2, 8, False), (-1.3, 0.4, 4, False), (0, 1, 8, False), (-3, 0, 5, False)]
)
def test_fake_quantization(low, high, bits, narrow, tmp_path):
    m = Model()
    fields = {"min": low, "max": high, "numBits": bits, "narrowRange": narrow}
    y = m.op("FAKE_QUANT", [m.input((3, 4, 5))], (3, 4, 5), options=("FakeQuantOptions", fields))
    judge(m, tmp_path, y, [2 * X])


@pytest.mark.parametrize("kind", ["f32", "i32", "i64", "i8"])
def test_matrix_diagonal(kind, tmp_path):
    m = Model()
    judge(m, tmp_path, m.op("MATRIX_DIAG", [m.input((2, 3, 5), kind)], (2, 3, 5, 5), kind))


@pytest.mark.parametrize("shape", [(2, 3, 5), (2, 5, 3), (2, 4, 4)])
def test_diagonal_of_a_matrix(shape, tmp_path):
    m = Model()
    diagonal = m.input((2, min(shape[1:])))
    judge(m, tmp_path, m.op("MATRIX_SET_DIAG", [m.input(shape), diagonal], shape))


@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("kind", ["f32", "i32"])
def test_sums_of_segments(computed, kind, tmp_path):
    m = Model()
    segments = [0, 0, 1, 1, 2]
    data = m.input((5, 2, 3), kind)
    listed = m.input((5,), "i32") if computed else m.constant(segments, "i32")
    y = m.op("SEGMENT_SUM", [data, listed], (3, 2, 3), kind)
    if computed:
        m.graph.tensors[y].shapeSignature = [-1, 2, 3]
    numbers = np.random.default_rng(3).integers(-9, 9, (5, 2, 3)).astype(np.float32 if kind == "f32" else np.int32)
    judge(m, tmp_path, y, [numbers, np.array(segments, np.int32)] if computed else [numbers])


@pytest.mark.parametrize("kind", ["f32", "i32", "i64"])
def test_buckets(kind, tmp_path):
    m = Model()
    y = m.op("BUCKETIZE", [m.input((3, 4), kind)], (3, 4), "i32", ("BucketizeOptions", {"boundaries": [-0.5, 1, 1, 3]}))
    judge(m, tmp_path, y)
    if kind == "f32":
        values = np.array([[-0.5, 1, 3, np.nan], [np.inf, -np.inf, 0.999, -0.0], [2.5, 3.5, -0.6, 1e30]], np.float32)
        judge(m, tmp_path, y, [values])


@pytest.mark.parametrize(
    ("indices", "shape"),
    [([[1, 2], [4, 0], [3, 6]], [5, 7]), ([1, 4, 6], [9]), (3, [5])],
    ids=["rows", "list", "one"],
)
@pytest.mark.parametrize("computed", [False, True])
def test_sparse_to_dense(indices, shape, computed, tmp_path):
    m = Model()
    places = np.array(indices, np.int32)
    listed = m.input(places.shape, "i32") if computed else m.constant(places, "i32")
    values = m.input(places.shape[:1])
    rest = m.constant(-1.5)
    y = m.op("SPARSE_TO_DENSE", [listed, m.constant(shape, "i32"), values, rest], shape)
    numbers = np.arange(1, 1 + max(1, values and len(np.atleast_1d(places))), dtype=np.float32)
    numbers = numbers.reshape(places.shape[:1])
    judge(m, tmp_path, y, [places, numbers] if computed else [numbers])


@pytest.mark.parametrize(
    ("rows", "height", "columns", "width"), [(1, 1, 8, 8), (1, 1, 5, 8), (3, 4, 11, 8), (6, 4, 9, 16)]
)
@pytest.mark.parametrize("part", ["COMPLEX_ABS", "REAL", "IMAG"])
def test_fourier_transform(rows, height, columns, width, part, tmp_path):
    m = Model()
    shape = (2, height, width // 2 + 1)
    bins = m.op("RFFT2D", [m.input((2, rows, columns)), m.constant([height, width], "i32")], shape, "c64")
    flat = m.op("RESHAPE", [bins, m.constant([2 * height, shape[2]], "i32")], (2 * height, shape[2]), "c64")
    judge(m, tmp_path, m.op(part, [flat], (2 * height, shape[2])))


@pytest.mark.parametrize("moved", ["RESHAPE", "EXPAND_DIMS", "SQUEEZE"])
def test_complex_numbers_have_the_shape_that_their_operator_gives(moved, tmp_path):
    """Whatever the file says, which here has as many elements."""
    m = Model()
    bins = m.op("RFFT2D", [m.input((1, 4, 16)), m.constant([4, 16], "i32")], (1, 4, 9), "c64")
    inputs, options, shape = {
        "RESHAPE": ([bins, m.constant([3, 12], "i32")], ("ReshapeOptions", {}), (3, 12)),
        "EXPAND_DIMS": ([bins, m.constant(-1, "i32")], ("ExpandDimsOptions", {}), (1, 4, 9, 1)),
        "SQUEEZE": ([bins], ("SqueezeOptions", {"squeezeDims": [0]}), (4, 9)),
    }[moved]
    t = m.op(moved, inputs, (18, 2), "c64", options)
    judge(m, tmp_path, m.op("REAL", [t], shape))


def test_complex_outputs_are_refused(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op("RFFT2D", [m.input((1, 8)), m.constant([1, 8], "i32")], (1, 5), "c64")])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "complex numbers, is an output" in done.stderr, done.stderr


@pytest.mark.parametrize("padding", [0, 1])
def test_volume_transposed(padding, tmp_path):
    m = Model()
    x, weights = m.input((1, 3, 5, 4, 2)), m.constant(np.random.default_rng(2).standard_normal((3, 2, 3, 4, 2)))
    shape = (1, 6, 5, 8, 4) if padding == 0 else (1, 7, 6, 9, 4)
    fields = {"padding": padding, "strideD": 2, "strideH": 1, "strideW": 2}
    inputs = [m.constant(shape, "i32"), weights, x]
    judge(m, tmp_path, m.op("CONV_3D_TRANSPOSE", inputs, shape, options=("Conv3DOptions", fields)))


@pytest.mark.parametrize("kind", ["i32", "i64"])
def test_mean_of_integers_rounds_towards_zero(kind, tmp_path):
    m = Model()
    y = m.op("MEAN", [m.input((3, 4, 5), kind), m.constant([1, -1], "i32")], (3,), kind, ("ReducerOptions", {}))
    numbers = np.random.default_rng(4).integers(-99, 99, (3, 4, 5)).astype({"i32": np.int32, "i64": np.int64}[kind])
    judge(m, tmp_path, y, [numbers])


@pytest.mark.parametrize(
    ("masks", "begin", "end", "stride", "shape"),
    [
        ({}, [1, 2, 0], [3, 4, 5], [1, 1, 2], (2, 2, 3)),
        ({"beginMask": 2, "endMask": 4}, [1, 2, 1], [3, -1, 2], [1, 2, 1], (2, 2, 4)),
        ({"shrinkAxisMask": 3}, [-1, 2, 1], [0, 3, 9], [1, 1, 1], (4,)),
        ({}, [1, -2], [3, 9], [1, 1], (2, 2, 5)),
        ({"shrinkAxisMask": 1}, [2], [3], [1], (4, 5)),
    ],
)
def test_slice_whose_places_are_computed(masks, begin, end, stride, shape, tmp_path):
    m = Model()
    places = [m.input((len(begin),), "i32"), m.input((len(end),), "i32"), m.constant(stride, "i32")]
    y = m.op("STRIDED_SLICE", [m.input((3, 4, 5)), *places], shape, options=("StridedSliceOptions", masks))
    m.graph.tensors[y].shapeSignature = [-1] * len(shape)
    judge(m, tmp_path, y, [np.array(begin, np.int32), np.array(end, np.int32), X])


def test_slice_of_the_first_axes(tmp_path):
    m = Model()
    lists = [m.constant(one, "i32") for one in ([1], [3], [1])]
    y = m.op("STRIDED_SLICE", [m.input((3, 4, 5)), *lists], (2, 4, 5), options=("StridedSliceOptions", {}))
    judge(m, tmp_path, y)


@pytest.mark.parametrize(("axis", "batch"), [(2, 1), (3, 1), (3, 2), (-1, 0)])
def test_gather_behind_a_batch(axis, batch, tmp_path):
    m = Model()
    data = (2, 3, 4, 5)
    places = np.random.default_rng(6).integers(0, data[axis], (*data[:batch], 6, 7)[: batch + 2])
    at = axis % 4
    shape = (*data[:at], *places.shape[batch:], *data[at + 1 :])
    fields = {"axis": axis, "batchDims": batch}
    y = m.op("GATHER", [m.input(data), m.constant(places, "i32")], shape, options=("GatherOptions", fields))
    judge(m, tmp_path, y)


@pytest.mark.parametrize("kind", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
def test_size_that_is_computed(kind, tmp_path):
    m = Model()
    table = "ResizeBilinearOptions" if kind == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    x = m.input((1, 4, 5, 3))
    y = m.op(kind, [x, m.input((2,), "i32")], (1, 8, 10, 3), options=(table, {}))
    m.graph.tensors[y].shapeSignature = [1, -1, -1, 3]
    image = np.random.default_rng(1).standard_normal((1, 4, 5, 3)).astype(np.float32)
    judge(m, tmp_path, y, [image, np.array([8, 10], np.int32)])


def refused(m, tmp_path, output):
    m.write(tmp_path / "m.tflite", [output])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode != 0 and not (tmp_path / "m.onnx").exists()
    return done.stderr


def test_narrow_integers_without_a_scale(tmp_path):
    """LiteRT's kernels multiply by the scale that the file does not have."""
    m = Model()
    y = m.op("MEAN", [m.input((3, 4), "i8"), m.constant([1], "i32")], (3,), "i8", ("ReducerOptions", {}))
    assert "the mean of i8 without a scale" in refused(m, tmp_path, y)
    m = Model()
    fields = {"padding": 1, "strideH": 1, "strideW": 1, "filterHeight": 2, "filterWidth": 2}
    fields["fusedActivationFunction"] = 1
    y = m.op("MAX_POOL_2D", [m.input((1, 4, 5, 3), "i8")], (1, 3, 4, 3), "i8", options=("Pool2DOptions", fields))
    assert "i8 without a scale" in refused(m, tmp_path, y)


def test_type_of_places_that_the_option_does_not_name(tmp_path):
    m = Model()
    options = ("ArgMaxOptions", {"outputType": 2})
    y = m.op("ARG_MAX", [m.input((4, 5)), m.constant(1, "i32")], (4,), "i64", options=options)
    assert "option output_type is 2" in refused(m, tmp_path, y)


@pytest.mark.parametrize("stride", [1, 2])
def test_dilated_convolution_of_an_open_size(stride, tmp_path):
    m = Model()
    x, weights = m.input((1, 7, 9, 3)), m.constant(np.random.default_rng(2).standard_normal((4, 3, 2, 3)))
    m.graph.tensors[x].shapeSignature = [1, -1, -1, 3]
    fields = {"padding": 0, "strideH": stride, "strideW": stride, "dilationHFactor": 2, "dilationWFactor": 3}
    shape = (1, 7, 9, 4) if stride == 1 else (1, 4, 5, 4)
    y = m.op("CONV_2D", [x, weights, m.constant(np.ones(4))], shape, options=("Conv2DOptions", fields))
    m.graph.tensors[y].shapeSignature = [1, -1, -1, 4]
    if stride == 1:
        judge(m, tmp_path, y)
    else:
        assert "SAME with strides and dilations" in refused(m, tmp_path, y)


@pytest.mark.parametrize("kind", ["i8", "u16", "i32", "i64"])
def test_and_of_integers(kind, tmp_path):
    m = Model()
    y = m.op("STABLEHLO_AND", [m.input((3, 5), kind), m.constant(np.full((3, 5), 6), kind)], (3, 5), kind)
    judge(m, tmp_path, y)


def test_shift_left(tmp_path):
    m = Model()
    x, places = m.input((3, 5), "i32"), m.constant([[0, 1, 5, 30, 31]] * 3, "i32")
    y = m.op("STABLEHLO_SHIFT_LEFT", [x, places], (3, 5), "i32")
    numbers = np.random.default_rng(4).integers(-99, 99, (3, 5)).astype(np.int32)
    judge(m, tmp_path, y, [numbers])


@pytest.mark.parametrize("opset", [17, 18])
def test_equal_parts_of_an_open_axis(opset, tmp_path):
    m = Model()
    x = m.input((6, 5))
    m.graph.tensors[x].shapeSignature = [-1, 5]
    options = ("SplitOptions", {"numSplits": 3})
    parts = m.op("SPLIT", [m.constant(0, "i32"), x], [(2, 5)] * 3, options=options, outputs=3)
    for part in parts:
        m.graph.tensors[part].shapeSignature = [-1, 5]
    m.write(tmp_path / "m.tflite", parts)
    agrees(tmp_path / "m.tflite", ["--opset", opset])


def test_product_whose_sizes_are_open(tmp_path):
    m = Model()
    a, b = m.input((3, 5)), m.input((4, 5))
    for x in (a, b):
        m.graph.tensors[x].shapeSignature = [-1, 5]
    y = m.op("FULLY_CONNECTED", [a, b], (3, 4), options=("FullyConnectedOptions", {}))
    m.graph.tensors[y].shapeSignature = [-1, -1]
    judge(m, tmp_path, y)


@pytest.mark.parametrize("kind", ["f32", "i32"])
def test_lookup_power_and_fill(kind, tmp_path):
    m = Model()
    rows = m.op("EMBEDDING_LOOKUP", [m.constant([3, 0, 3], "i32"), m.input((4, 5), kind)], (3, 5), kind)
    squared = m.op("POW", [rows, m.constant(np.full((3, 5), 2), kind)], (3, 5), kind)
    number = m.op("RESHAPE", [m.input((1,), kind), m.constant(np.zeros(0), "i32")], (), kind)
    filled = m.op("FILL", [m.constant([2, 7], "i32"), number], (2, 7), kind)
    judge(m, tmp_path, [squared, filled])


@pytest.mark.parametrize("kind", ["f32", "i32"])
def test_range_that_is_computed(kind, tmp_path):
    m = Model()
    x, none = m.input((2,), kind), m.constant(np.zeros(0), "i32")
    ends = [m.op("SLICE", [x, m.constant([i], "i32"), m.constant([1], "i32")], (1,), kind) for i in (0, 1)]
    ends = [m.op("RESHAPE", [end, none], (), kind) for end in ends]
    y = m.op("RANGE", [*ends, m.constant(2, kind)], (4,), kind)
    m.graph.tensors[y].shapeSignature = [-1]
    judge(m, tmp_path, y, [np.array([3, 10], np.float32 if kind == "f32" else np.int32)])


# By how LiteRT counts, in f32, and ONNX, in f64: 3 and 4; 9 and 9; 7 and 8; none.
RANGES = [(0, 0.3, 0.1), (9, 0, -1), (0, -0.7, -0.1), (2, 2, 0.5)]


@pytest.mark.parametrize("ends", RANGES)
@pytest.mark.parametrize("is_known", [False, True])
def test_the_number_of_elements_of_a_range_of_floats(ends, is_known, tmp_path):
    m = Model()
    inputs = [m.constant(end) if is_known else m.input(()) for end in ends]
    y = m.op("RANGE", inputs, (3,))
    m.graph.tensors[y].shapeSignature = [-1]
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite", values=[] if is_known else [np.array(end, np.float32) for end in ends])


def test_activations_and_places(tmp_path):
    m = Model()
    x = m.input((3, 4))
    limited = m.op("RELU_0_TO_1", [x], (3, 4))
    is_above = m.op("GREATER", [x, m.constant(0.0)], (3, 4), "bool")
    assert "Clip" in operators(judge(m, tmp_path, [limited, is_above]))


def test_places_of_true(tmp_path):
    m = Model()
    y = m.op("WHERE", [m.input((3, 4), "bool")], (6, 2), "i64")
    m.graph.tensors[y].shapeSignature = [-1, 2]
    values = np.array([[1, 0, 0, 1], [0, 1, 1, 0], [1, 0, 1, 0]], bool)
    judge(m, tmp_path, y, [values])


@pytest.mark.parametrize(("batch", "sequence"), [(0, 1), (1, 0)])
def test_reversed_sequences(batch, sequence, tmp_path):
    m = Model()
    shape = (3, 4, 5)
    lengths = m.constant([2, 3, 1, 2][: shape[batch]], "i32")
    options = ("ReverseSequenceOptions", {"batchDim": batch, "seqDim": sequence})
    judge(m, tmp_path, m.op("REVERSE_SEQUENCE", [m.input(shape), lengths], shape, options=options))
