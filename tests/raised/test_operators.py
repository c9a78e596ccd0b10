# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX, operator by operator: every trap has a case. LiteRT is the judge. All dimensions differ."""

import subprocess

import numpy as np
import onnx
import pytest

from tests.raised.judge_raised import agrees, operators, raised, refused, run_litert, run_onnx
from tests.raised.tflite_models import Model
from tests.support import converter

CASES = {}


def case(function):
    CASES[function.__name__] = function
    return function


def random(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


SAME, VALID = 0, 1
NONE, RELU, RELU_N1_TO_1, RELU6 = 0, 1, 2, 3


def conv(
    m, x, shape, filters=5, kernel=(3, 2), stride=(2, 1), dilation=(1, 1), padding=SAME, activation=NONE, bias=True
):
    weights = m.constant(random(filters, *kernel, 3))
    inputs = [x, weights, m.constant(random(filters)) if bias else -1]
    fields = {"padding": padding, "strideH": stride[0], "strideW": stride[1], "fusedActivationFunction": activation}
    fields |= {"dilationHFactor": dilation[0], "dilationWFactor": dilation[1]}
    return m.op("CONV_2D", inputs, shape, options=("Conv2DOptions", fields))


@case
def conv_same_uneven_pads(m):
    return [conv(m, m.input((2, 7, 8, 3)), (2, 4, 8, 5))]


@case
def conv_valid_dilated_relu6(m):
    x = m.input((2, 9, 8, 3))
    return [conv(m, x, (2, 5, 7, 5), stride=(1, 1), dilation=(2, 1), padding=VALID, activation=RELU6)]


@case
def conv_relu_n1_to_1(m):
    return [conv(m, m.input((1, 7, 8, 3)), (1, 4, 8, 5), activation=RELU_N1_TO_1)]


@case
def conv_in_groups(m):
    x = m.input((1, 6, 5, 6))
    options = ("Conv2DOptions", {"padding": VALID, "strideH": 1, "strideW": 1})
    return [m.op("CONV_2D", [x, m.constant(random(4, 3, 2, 3)), m.constant(random(4))], (1, 4, 4, 4), options=options)]


@case
def depthwise_with_multiplier(m):
    x = m.input((2, 7, 6, 3))
    fields = {"padding": SAME, "strideH": 2, "strideW": 2, "depthMultiplier": 2, "fusedActivationFunction": RELU}
    inputs = [x, m.constant(random(1, 3, 4, 6)), m.constant(random(6))]
    return [m.op("DEPTHWISE_CONV_2D", inputs, (2, 4, 3, 6), options=("DepthwiseConv2DOptions", fields))]


@pytest.mark.parametrize(
    ("size", "made", "kernel", "stride", "padding"),
    [
        (4, 8, 3, 2, SAME),
        (4, 7, 3, 2, SAME),
        (4, 9, 3, 2, VALID),
        (5, 15, 4, 3, SAME),
        (3, 8, 2, 3, VALID),
        (4, 4, 5, 1, SAME),
    ],
)
def test_transpose_conv(size, made, kernel, stride, padding, tmp_path):
    m = Model()
    shape = m.constant([2, made, made, 5], "i32")
    x, weights = m.input((2, size, size, 3)), m.constant(random(5, kernel, kernel, 3))
    fields = {"padding": padding, "strideH": stride, "strideW": stride}
    y = m.op("TRANSPOSE_CONV", [shape, weights, x], (2, made, made, 5), options=("TransposeConvOptions", fields))
    m.write(tmp_path / "m.tflite", [y])
    assert "Slice" not in operators(agrees(tmp_path / "m.tflite"))


@pytest.mark.parametrize("kind", ["RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"])
@pytest.mark.parametrize(
    "form", [{}, {"alignCorners": True}, {"halfPixelCenters": True}], ids=["plain", "corners", "half"]
)
@pytest.mark.parametrize("size", [(9, 11), (3, 2)])
def test_resize(kind, form, size, tmp_path):
    m = Model()
    table = "ResizeBilinearOptions" if kind == "RESIZE_BILINEAR" else "ResizeNearestNeighborOptions"
    y = m.op(kind, [m.input((2, 5, 4, 3)), m.constant(size, "i32")], (2, *size, 3), options=(table, form))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


# Types for which ONNX Runtime has no kernel of the operator that fits.
MOVES = {
    "PAD": (["i16"], (3, 5, 9, 14)),
    "MIRROR_PAD": (["i16"], (3, 5, 9, 14)),
    "REDUCE_MAX": (["i16"], (2, 12)),
    "RESIZE_NEAREST_NEIGHBOR": (["i16", "u16", "i32", "u32", "bool"], (2, 9, 11, 12)),
    "SPACE_TO_DEPTH": (["i32", "i64"], (2, 2, 3, 48)),
    "DEPTH_TO_SPACE": (["i32", "i64"], (2, 8, 12, 3)),
    "MAX_POOL_2D": (["i16"], (2, 2, 3, 12)),
}
WINDOW = {"padding": VALID, "strideH": 2, "strideW": 2, "filterHeight": 2, "filterWidth": 2}
PADS = ("i32", [[0, 1], [1, 0], [2, 1], [0, 2]])
SECOND = {"RESIZE_NEAREST_NEIGHBOR": ("i32", [9, 11]), "RESIZE_BILINEAR": ("i32", [9, 11])}
SECOND |= {"PAD": PADS, "MIRROR_PAD": PADS, "REDUCE_MAX": ("i32", [1, 2])}
MOVE_OPTIONS = {
    "PAD": ("PadOptions", {}),
    "MIRROR_PAD": ("MirrorPadOptions", {"mode": 0}),
    "REDUCE_MAX": ("ReducerOptions", {}),
    "RESIZE_NEAREST_NEIGHBOR": ("ResizeNearestNeighborOptions", {}),
    "RESIZE_BILINEAR": ("ResizeBilinearOptions", {}),
    "SPACE_TO_DEPTH": ("SpaceToDepthOptions", {"blockSize": 2}),
    "DEPTH_TO_SPACE": ("DepthToSpaceOptions", {"blockSize": 2}),
    "MAX_POOL_2D": ("Pool2DOptions", WINDOW),
    "AVERAGE_POOL_2D": ("Pool2DOptions", WINDOW),
}


def moved(kind, dtype, shape, path):
    m = Model()
    second = [m.constant(SECOND[kind][1], SECOND[kind][0])] if kind in SECOND else []
    m.write(path, [m.op(kind, [m.input((2, 4, 6, 12), dtype), *second], shape, dtype, options=MOVE_OPTIONS[kind])])


@pytest.mark.parametrize("kind, dtype", [(kind, dtype) for kind, (types, _) in MOVES.items() for dtype in types])
def test_integers_without_a_scale_are_moved(kind, dtype, tmp_path):
    moved(kind, dtype, MOVES[kind][1], tmp_path / "m.tflite")
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("form", [{}, {"alignCorners": True}, {"halfPixelCenters": True}])
def test_integers_of_64_bits_are_resized(form, tmp_path):
    """LiteRT's kernel does not take them, so it judges the low halves. All bits are moved."""

    def write(kind):
        m = Model()
        inputs = [m.input((1, 3, 4, 2), kind), m.constant([7, 5], "i32")]
        y = m.op("RESIZE_NEAREST_NEIGHBOR", inputs, (1, 7, 5, 2), kind, options=("ResizeNearestNeighborOptions", form))
        m.write(tmp_path / f"{kind}.tflite", [y])

    write("i32"), write("i64")
    values = np.arange(24, dtype=np.int32).reshape(1, 3, 4, 2)
    names, _, ((name, wanted, _),) = run_litert(tmp_path / "i32.tflite", [values])
    raised(tmp_path / "i64.tflite")
    wide = values + (np.int64(1) << 60) * (1 - 2 * (values % 2))
    made = run_onnx(tmp_path / "i64.onnx", names, [wide])[name]
    assert np.array_equal(made, wide.reshape(-1)[wanted])


@pytest.mark.parametrize("dtype", ["i8", "u8", "i16"])
@pytest.mark.parametrize("kind, shape", [("RESIZE_BILINEAR", (2, 9, 11, 12)), ("AVERAGE_POOL_2D", (2, 2, 3, 12))])
def test_integers_without_a_scale_that_the_kernel_rounds_are_refused(kind, shape, dtype, tmp_path):
    moved(kind, dtype, shape, tmp_path / "m.tflite")
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode != 0 and "without a scale" in done.stderr


NARROW = [
    ("MUL", "i8"),
    ("DIV", "u8"),
    ("DIV", "i16"),
    ("NOT_EQUAL", "i16"),
    ("EXP", "i8"),
    ("GELU", "i16"),
    ("TANH", "u8"),
]


@pytest.mark.parametrize("kind, dtype", NARROW)
def test_narrow_integers_without_a_scale_are_refused(kind, dtype, tmp_path):
    m = Model()
    inputs = [m.input((2, 3, 5), dtype) for _ in range(2 if kind in ("MUL", "DIV", "NOT_EQUAL") else 1)]
    m.write(tmp_path / "m.tflite", [m.op(kind, inputs, (2, 3, 5), "bool" if kind == "NOT_EQUAL" else dtype)])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode != 0 and f"{dtype} without a scale" in done.stderr


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_relu_behind_wide_integers(dtype, tmp_path):
    m = Model()
    inputs = [m.input((2, 3, 5), dtype), m.input((2, 3, 5), dtype)]
    options = ("AddOptions", {"fusedActivationFunction": RELU})
    m.write(tmp_path / "m.tflite", [m.op("ADD", inputs, (2, 3, 5), dtype, options=options)])
    agrees(tmp_path / "m.tflite")


@case
def blocks(m):
    x = m.input((2, 4, 6, 8))
    deep = m.op("SPACE_TO_DEPTH", [x], (2, 2, 3, 32), options=("SpaceToDepthOptions", {"blockSize": 2}))
    wide = m.op("DEPTH_TO_SPACE", [x], (2, 8, 12, 2), options=("DepthToSpaceOptions", {"blockSize": 2}))
    return [deep, wide]


@case
def dilation_by_blocks(m):
    x = m.input((1, 7, 8, 3))
    block = m.constant([2, 3], "i32")
    batch = m.op("SPACE_TO_BATCH_ND", [x, block, m.constant([[1, 2], [0, 1]], "i32")], (6, 5, 3, 3))
    y = conv(m, batch, (6, 3, 2, 5), stride=(1, 1), padding=VALID)
    return [m.op("BATCH_TO_SPACE_ND", [y, block, m.constant([[0, 1], [1, 0]], "i32")], (1, 5, 5, 5))]


@pytest.mark.parametrize("keep", [False, True])
def test_fully_connected_of_four_axes(keep, tmp_path):
    m = Model()
    fields = {"keepNumDims": keep, "fusedActivationFunction": RELU}
    x = conv(m, m.input((2, 7, 8, 3)), (2, 4, 8, 5))
    weights = m.constant(random(7, 5 if keep else 160))
    shape = (2, 4, 8, 7) if keep else (2, 7)
    y = m.op("FULLY_CONNECTED", [x, weights, m.constant(random(7))], shape, options=("FullyConnectedOptions", fields))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("activation", [NONE, RELU])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("unknown", [0, 1, 2])
def test_a_product_of_three_axes_takes_its_weights_as_they_are_and_comes_back(unknown, bias, activation, tmp_path):
    m = Model()
    x = m.input((2, 3, 5))
    options = ("FullyConnectedOptions", {"keepNumDims": True, "fusedActivationFunction": activation})
    inputs = [x, m.constant(random(7, 5)), *([m.constant(random(7))] if bias else [])]
    y = m.op("FULLY_CONNECTED", inputs, (2, 3, 7), options=options)
    for tensor, last in ((x, 5), (y, 7)):
        m.graph.tensors[tensor].shapeSignature = [*[-1] * unknown, *[2, 3][unknown:], last]
    m.write(tmp_path / "m.tflite", [y])
    model = agrees(tmp_path / "m.tflite")
    (stored,) = (list(one.dims) for one in model.graph.initializer if len(one.dims) == 2)
    # A Reshape cannot give back two unknown dimensions: a MatMul keeps them, with its weights transposed.
    assert stored == ([5, 7] if unknown == 2 else [7, 5])
    done = converter.run("convert", tmp_path / "m.onnx", "-o", tmp_path / "back.tflite")
    assert done.returncode == 0 and "1 operators" in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("shape", [(0, 3), (2, 0, 3), (0, 2, 3)])
@pytest.mark.parametrize("kind", ["f32", "i8"])
@pytest.mark.parametrize("keep", [False, True])
def test_fully_connected_without_elements(keep, kind, shape, tmp_path):
    m = Model()
    scale = {} if kind == "f32" else {"scale": 0.1}
    weights = m.constant(np.arange(12).reshape(4, 3), kind, **scale)
    options = ("FullyConnectedOptions", {"keepNumDims": keep})
    made = (*shape[:-1], 4) if keep else (0, 4)
    y = m.op("FULLY_CONNECTED", [m.input(shape, kind, **scale), weights, -1], made, kind, options=options, **scale)
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


@case
def batch_matmul_adjoint(m):
    a, b = m.input((2, 3, 5)), m.input((2, 7, 3))
    return [m.op("BATCH_MATMUL", [a, b], (2, 5, 7), options=("BatchMatMulOptions", {"adjX": True, "adjY": True}))]


@pytest.mark.parametrize(
    ("begin", "end", "stride", "masks", "shape"),
    [
        ([1, 0, -2], [4, 5, 7], [2, 1, 1], {}, (2, 5, 2)),
        ([9, 1, 0], [9, 3, 0], [1, 1, 2], {"beginMask": 1, "endMask": 5}, (5, 2, 4)),
        ([4, -1, 0], [0, 0, 7], [-2, 1, 3], {"endMask": 1, "shrinkAxisMask": 2}, (3, 3)),
        ([-3, 0, 6], [99, 6, -99], [1, 5, -3], {}, (3, 2, 3)),
    ],
)
def test_strided_slice(begin, end, stride, masks, shape, tmp_path):
    m = Model()
    lists = [m.constant(values, "i32") for values in (begin, end, stride)]
    y = m.op("STRIDED_SLICE", [m.input((5, 6, 7)), *lists], shape, options=("StridedSliceOptions", masks))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


@case
def slices(m):
    x = m.input((5, 6, 7))
    y = m.op("SLICE", [x, m.constant([1, 0, 3], "i32"), m.constant([2, -1, 4], "i32")], (2, 6, 4))
    return [m.op("REVERSE_V2", [y, m.constant([1], "i32")], (2, 6, 4))]


@case
def gathers(m):
    x = m.input((2, 3, 5))
    plain = m.op(
        "GATHER", [x, m.constant([[4, 0], [1, 1]], "i32")], (2, 3, 2, 2), options=("GatherOptions", {"axis": 2})
    )
    places = m.constant([[2, 0, 1, 1], [0, 0, 2, 1]], "i32")
    fields = {"axis": 1, "batchDims": 1}
    batched = m.op("GATHER", [x, places], (2, 4, 5), options=("GatherOptions", fields))
    points = m.op("GATHER_ND", [x, m.constant([[1, 2], [0, 1], [1, 0]], "i32")], (3, 5))
    return [plain, batched, points]


@case
def gather_by_narrow_places(m):
    return [m.op("GATHER", [m.input((4, 3)), m.constant([3, 0], "i16")], (2, 3), options=("GatherOptions", {}))]


@pytest.mark.parametrize("mode", [0, 1], ids=["reflect", "symmetric"])
def test_mirror_pad(mode, tmp_path):
    m = Model()
    pads = m.constant([[1, 0], [2, 1], [0, 3]], "i32")
    y = m.op("MIRROR_PAD", [m.input((3, 4, 5)), pads], (4, 7, 8), options=("MirrorPadOptions", {"mode": mode}))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


@case
def pads(m):
    x = m.input((3, 4))
    sides = m.constant([[1, 0], [2, 3]], "i32")
    return [m.op("PAD", [x, sides], (4, 9)), m.op("PADV2", [x, sides, m.constant(1.5)], (4, 9))]


@pytest.mark.parametrize("kind", ["ARG_MAX", "ARG_MIN"])
@pytest.mark.parametrize("index", ["i32", "i64"])
def test_arg(kind, index, tmp_path):
    m = Model()
    number = {"i32": 2, "i64": 4}[index]
    options = (kind.title().replace("_", "") + "Options", {"outputType": number})
    y = m.op(kind, [m.input((4, 5, 6)), m.constant(1, "i32")], (4, 6), index, options=options)
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("opset", [17, 18, 21])
def test_reductions(opset, tmp_path):
    m = Model()
    x, axes = m.input((4, 5, 6)), m.constant([0, -1], "i32")
    kept = ("ReducerOptions", {"keepDims": True})
    outputs = [m.op(kind, [x, axes], (5,), options=("ReducerOptions", {})) for kind in ("SUM", "MEAN", "REDUCE_MAX")]
    outputs += [m.op(kind, [x, axes], (1, 5, 1), options=kept) for kind in ("REDUCE_MIN", "REDUCE_PROD")]
    m.write(tmp_path / "m.tflite", outputs)
    agrees(tmp_path / "m.tflite", ["--opset", opset])


@case
def logical_reductions(m):
    x, axes = m.input((4, 5), "bool"), m.constant([1], "i32")
    return [
        m.op(kind, [x, axes], (4,), "bool", options=("ReducerOptions", {})) for kind in ("REDUCE_ANY", "REDUCE_ALL")
    ]


@case
def softmax_with_beta(m):
    x = m.input((4, 5))
    return [m.op("SOFTMAX", [x], (4, 5), options=("SoftmaxOptions", {"beta": 0.5})), m.op("LOG_SOFTMAX", [x], (4, 5))]


@case
def top_k(m):
    return m.op("TOPK_V2", [m.input((4, 7)), m.constant(3, "i32")], [(4, 3), (4, 3)], ["f32", "i32"], outputs=2)


@case
def cumulative_sum(m):
    fields = {"exclusive": True, "reverse": True}
    return [m.op("CUMSUM", [m.input((4, 5)), m.constant(1, "i32")], (4, 5), options=("CumsumOptions", fields))]


@case
def one_hot_of_negative_indices(m):
    places = m.input((5,), "i32")
    shifted = m.op("SUB", [places, m.constant(2, "i32")], (5,), "i32", options=("SubOptions", {}))
    rest = [m.constant(3, "i32"), m.constant(2.5), m.constant(-1.5)]
    return [m.op("ONE_HOT", [shifted, *rest], (5, 3), options=("OneHotOptions", {"axis": -1}))]


@case
def one_hot_of_a_number(m):
    """ONNX's indices have an axis."""
    rest = [m.constant(3, "i32"), m.constant(2.5), m.constant(-1.5)]
    one, kind = m.input((), "i32"), m.input((), "i64")
    small = [m.constant(5, "i32"), m.constant(7, "i8"), m.constant(-7, "i8")]
    return [
        m.op("ONE_HOT", [one, *rest], (3,), options=("OneHotOptions", {"axis": -1})),
        m.op("ONE_HOT", [kind, *small], (5,), "i8", options=("OneHotOptions", {"axis": 0})),
    ]


@case
def dropped_axes_whose_begin_is_open(m):
    """LiteRT takes their first element."""
    lists = [m.constant(values, "i32") for values in ([2, -3, 1], [3, -2, 4], [1, 1, 1])]
    masks = {"beginMask": 3, "shrinkAxisMask": 3}
    return [m.op("STRIDED_SLICE", [m.input((4, 5, 6)), *lists], (3,), options=("StridedSliceOptions", masks))]


@case
def reversed_sequences(m):
    x, out = m.input((2, 3, 4, 5)), []
    for sequence, batch in ((1, 0), (0, 1), (3, 1), (2, 3), (0, 2)):
        extents = (2, 3, 4, 5)
        lengths = [1 + i % extents[sequence] for i in range(extents[batch])]
        fields = {"seqDim": sequence, "batchDim": batch}
        inputs = [x, m.constant(lengths, "i32")]
        out.append(m.op("REVERSE_SEQUENCE", inputs, extents, options=("ReverseSequenceOptions", fields)))
    return out


@case
def packs_and_splits(m):
    a, b = m.input((4, 6)), m.input((4, 6))
    packed = m.op("PACK", [a, b], (4, 2, 6), options=("PackOptions", {"axis": 1, "valuesCount": 2}))
    parts = m.op("UNPACK", [packed], [(4, 6)] * 2, options=("UnpackOptions", {"axis": 1, "num": 2}), outputs=2)
    split = m.op(
        "SPLIT", [m.constant(1, "i32"), a], [(4, 2)] * 3, options=("SplitOptions", {"numSplits": 3}), outputs=3
    )
    sizes = m.constant([1, 5], "i32")
    uneven = m.op(
        "SPLIT_V",
        [b, sizes, m.constant(1, "i32")],
        [(4, 1), (4, 5)],
        options=("SplitVOptions", {"numSplits": 2}),
        outputs=2,
    )
    joined = m.op("CONCATENATION", [split[2], uneven[1]], (4, 7), options=("ConcatenationOptions", {"axis": -1}))
    return [*parts, *split, *uneven, joined]


# One of the sizes may be -1: what the others leave.
@pytest.mark.parametrize("given", [(2, 1, 4), (2, -1, 4), (-1, 1, 3)])
@pytest.mark.parametrize("unknown", [False, True])
def test_split_into_sizes_that_are_computed(given, unknown, tmp_path):
    m = Model()
    x, axis = m.input((3, 7)), m.constant(1, "i32")
    zeros = m.constant([0, 0, 0], "i32")
    sizes = m.op("ADD", [m.input((3,), "i32"), zeros], (3,), "i32", options=("AddOptions", {}))
    shapes = [(3, 1), (3, 1), (3, 1)]
    parts = m.op("SPLIT_V", [x, sizes, axis], shapes, options=("SplitVOptions", {"numSplits": 3}), outputs=3)
    for part in [*parts, *([x] if unknown else [])]:
        m.graph.tensors[part].shapeSignature = [3, -1]
    m.write(tmp_path / "m.tflite", parts)
    agrees(tmp_path / "m.tflite", values=[random(3, 7), np.array(given, np.int32)])


def test_comparison_of_integers_of_16_bits(tmp_path):
    m = Model()
    a, b = m.input((4, 1, 6), "i16"), m.input((3, 6), "i16")
    kinds = ("EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    m.write(tmp_path / "m.tflite", [m.op(kind, [a, b], (4, 3, 6), "bool") for kind in kinds])
    agrees(tmp_path / "m.tflite")


@case
def shapes(m):
    x = m.input((4, 1, 6))
    flat = m.op("RESHAPE", [x, m.constant([-1, 3], "i32")], (8, 3))
    thin = m.op("SQUEEZE", [x], (4, 6), options=("SqueezeOptions", {"squeezeDims": [1]}))
    thick = m.op("EXPAND_DIMS", [x, m.constant(-1, "i32")], (4, 1, 6, 1))
    turned = m.op("TRANSPOSE", [x, m.constant([2, 0, 1], "i32")], (6, 4, 1))
    tiled = m.op("TILE", [x, m.constant([1, 3, 2], "i32")], (4, 3, 12))
    wide = m.op("BROADCAST_TO", [x, m.constant([2, 4, 5, 6], "i32")], (2, 4, 5, 6), version=2)
    return [flat, thin, thick, turned, tiled, wide]


UNARY = ["ABS", "NEG", "EXP", "SIN", "COS", "FLOOR", "CEIL", "ROUND", "SIGN", "SQUARE", "TANH", "LOGISTIC", "ELU"]
UNARY += ["RELU", "RELU6", "RELU_N1_TO_1", "HARD_SWISH"]


@pytest.mark.parametrize("opset", [17, 20])
def test_unary(opset, tmp_path):
    m = Model()
    x = m.input((4, 5))
    outputs = [m.op(kind, [x], (4, 5)) for kind in UNARY]
    outputs.append(m.op("LEAKY_RELU", [x], (4, 5), options=("LeakyReluOptions", {"alpha": 0.3})))
    outputs.append(m.op("PRELU", [x, m.constant(random(5))], (4, 5)))
    outputs += [m.op("GELU", [x], (4, 5), options=("GeluOptions", {"approximate": form})) for form in (False, True)]
    positive = m.op("ADD", [outputs[0], m.constant(0.1)], (4, 5), options=("AddOptions", {}))
    outputs += [m.op(kind, [positive], (4, 5)) for kind in ("SQRT", "RSQRT", "LOG")]
    m.write(tmp_path / "m.tflite", outputs)
    agrees(tmp_path / "m.tflite", ["--opset", opset])


@case
def binary(m):
    a, b = m.input((4, 1, 6)), m.input((3, 6))
    outputs = []
    for kind in ("ADD", "SUB", "MUL", "DIV"):
        options = (kind.title() + "Options", {"fusedActivationFunction": RELU6})
        outputs.append(m.op(kind, [a, b], (4, 3, 6), options=options))
    outputs += [
        m.op(kind, [a, b], (4, 3, 6)) for kind in ("MAXIMUM", "MINIMUM", "SQUARED_DIFFERENCE", "FLOOR_DIV", "FLOOR_MOD")
    ]
    compared = [
        m.op(kind, [a, b], (4, 3, 6), "bool")
        for kind in ("EQUAL", "NOT_EQUAL", "LESS", "LESS_EQUAL", "GREATER", "GREATER_EQUAL")
    ]
    joined = m.op("LOGICAL_OR", [compared[2], compared[0]], (4, 3, 6), "bool")
    chosen = m.op("SELECT_V2", [m.op("LOGICAL_NOT", [joined], (4, 3, 6), "bool"), a, b], (4, 3, 6))
    return [*outputs, *compared, joined, chosen]


@case
def integer_division_rounds_down(m):
    a = m.op("SUB", [m.input((4, 5), "i32"), m.constant(2, "i32")], (4, 5), "i32", options=("SubOptions", {}))
    b = m.constant([3, -3, 2, -2, 1], "i32")
    kinds = ("FLOOR_DIV", "FLOOR_MOD")
    return [m.op(kind, [a, b], (4, 5), "i32") for kind in kinds]


@case
def casts(m):
    x = m.input((4, 5))
    whole = m.op("CAST", [x], (4, 5), "i32", options=("CastOptions", {"inDataType": 0, "outDataType": 2}))
    truth = m.op("CAST", [x], (4, 5), "bool", options=("CastOptions", {"inDataType": 0, "outDataType": 6}))
    back = m.op("CAST", [whole], (4, 5), "f32", options=("CastOptions", {"inDataType": 2, "outDataType": 0}))
    return [whole, truth, back]


@case
def casts_that_saturate(m):
    far = m.op("MUL", [m.input((4, 5)), m.constant(3e9)], (4, 5), options=("MulOptions", {}))
    return [
        m.op("CAST", [far], (4, 5), kind, options=("CastOptions", {"inDataType": 0, "outDataType": number}))
        for kind, number in (("i32", 2), ("i8", 9), ("u8", 3))
    ]


@case
def local_response_normalization(m):
    fields = {"radius": 2, "bias": 1.5, "alpha": 0.3, "beta": 0.6}
    options = ("LocalResponseNormalizationOptions", fields)
    return [m.op("LOCAL_RESPONSE_NORMALIZATION", [m.input((2, 3, 4, 7))], (2, 3, 4, 7), options=options)]


@case
def conv_3d(m):
    fields = {"padding": SAME, "strideD": 1, "strideH": 2, "strideW": 1, "fusedActivationFunction": RELU}
    weights, bias = m.constant(random(2, 3, 2, 3, 4)), m.constant(random(4))
    x = m.input((2, 5, 7, 6, 3))
    return [m.op("CONV_3D", [x, weights, bias], (2, 5, 4, 6, 4), options=("Conv3DOptions", fields))]


@pytest.mark.parametrize(
    ("masks", "lists", "shape"),
    [
        ({"ellipsisMask": 2}, [(1, 0, 2), (4, 0, 5), (2, 1, 1)], (2, 6, 3)),
        ({"ellipsisMask": 1, "shrinkAxisMask": 2}, [(0, 3), (0, 4), (1, 1)], (5, 6)),
        ({"newAxisMask": 2}, [(1, 0, 2), (4, 0, 5), (1, 1, 1)], (3, 1, 3, 7)),
        ({"newAxisMask": 5, "ellipsisMask": 2}, [(0, 0, 0, 1), (0, 0, 0, 6), (1, 1, 1, 2)], (1, 5, 6, 1, 3)),
        (
            {"newAxisMask": 9, "shrinkAxisMask": 2, "endMask": 4},
            [(0, 2, 1, 0), (0, 3, 0, 0), (1, 1, 3, 1)],
            (1, 2, 1, 7),
        ),
    ],
)
def test_strided_slice_with_other_axes(masks, lists, shape, tmp_path):
    m = Model()
    constants = [m.constant(values, "i32") for values in lists]
    y = m.op("STRIDED_SLICE", [m.input((5, 6, 7)), *constants], shape, options=("StridedSliceOptions", masks))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


def test_permutation_that_counts_from_the_end(tmp_path):
    m = Model()
    x = m.op("TRANSPOSE", [m.input((2, 5, 7, 3)), m.constant([0, -1, 1, 2], "i32")], (2, 3, 5, 7))
    m.write(tmp_path / "m.tflite", [m.op("ABS", [x], (2, 3, 5, 7))])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("begin", [1, -4, 99])
def test_update_of_a_slice(axis, begin, tmp_path):
    m = Model()
    part = [5, 6, 7]
    part[axis] = 3
    at = m.op("ADD", [m.input((3,), "i32"), m.constant([0, 0, 0], "i32")], (3,), "i32", options=("AddOptions", {}))
    y = m.op("DYNAMIC_UPDATE_SLICE", [m.input((5, 6, 7)), m.input(part), at], (5, 6, 7))
    m.write(tmp_path / "m.tflite", [y])
    begins = np.zeros(3, np.int32)
    begins[axis] = begin
    agrees(tmp_path / "m.tflite", values=[begins, random(5, 6, 7), random(*part)])


# Several axes are smaller, and sizes are known at run time only.
@pytest.mark.parametrize("unknown", [(), (0,), (1, 2), (0, 1, 2)])
@pytest.mark.parametrize("begin", [(1, 2, 3), (-2, 99, 2), (0, 0, 0)])
def test_update_of_a_block(unknown, begin, tmp_path):
    m = Model()
    at = m.op("ADD", [m.input((3,), "i32"), m.constant([0, 0, 0], "i32")], (3,), "i32", options=("AddOptions", {}))
    whole, part = m.input((5, 6, 7)), m.input((3, 2, 4))
    y = m.op("DYNAMIC_UPDATE_SLICE", [whole, part, at], (5, 6, 7))
    for tensor in (whole, part, y):
        shape = m.graph.tensors[tensor].shape
        m.graph.tensors[tensor].shapeSignature = [-1 if i in unknown else shape[i] for i in range(3)]
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite", values=[np.array(begin, np.int32), random(5, 6, 7), random(3, 2, 4)])


@pytest.mark.parametrize("kind", ["f32", "i32", "i64", "i8", "u8"])
def test_scatter(kind, tmp_path):
    m = Model()
    places = m.constant([[1, 2], [4, 0], [1, 2], [0, 1]], "i32")
    y = m.op("SCATTER_ND", [places, m.input((4, 7), kind), m.constant([5, 3, 7], "i32")], (5, 3, 7), kind)
    m.write(tmp_path / "m.tflite", [y])
    numbers = (
        np.random.default_rng(1)
        .integers(0, 60, (4, 7))
        .astype(random(1).dtype if kind == "f32" else f"{'u' if kind[0] == 'u' else ''}int{kind[1:]}")
    )
    agrees(tmp_path / "m.tflite", values=[numbers])


@pytest.mark.parametrize("kind", ["SUM", "MEAN", "REDUCE_MAX", "REDUCE_MIN", "REDUCE_PROD"])
def test_axes_that_the_model_computes(kind, tmp_path):
    m = Model()
    y = m.op(
        kind, [m.input((2, 3, 5)), m.input((2,), "i32")], (1, 3, 1), options=("ReducerOptions", {"keepDims": True})
    )
    m.graph.tensors[y].shapeSignature = [-1, -1, -1]
    m.write(tmp_path / "m.tflite", [y])
    model = agrees(tmp_path / "m.tflite", values=[random(2, 3, 5), np.asarray([0, -1], np.int32)])
    assert model.opset_import[0].version == (17 if kind == "SUM" else 18)
    if kind != "SUM":
        done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx", "--opset", 17)
        assert done.returncode == 8 and "use --opset 18" in done.stderr


@pytest.mark.parametrize("kind", ["MAXIMUM", "MINIMUM"])
def test_narrow_integers(kind, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op(kind, [m.input((3, 5), "i16"), m.input((3, 5), "i16")], (3, 5), "i16")])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("kind", ["f32", "i32", "i64", "i8", "bool"])
def test_one_hot_values(kind, tmp_path):
    m = Model()
    values = [m.constant(n, kind) for n in (1, 0)]
    inputs = [m.input((3, 4), "i32"), m.constant(5, "i32"), *values]
    m.write(tmp_path / "m.tflite", [m.op("ONE_HOT", inputs, (3, 4, 5), kind, options=("OneHotOptions", {"axis": -1}))])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("builtin", ["FLOOR_DIV", "FLOOR_MOD"])
def test_kernels_that_do_not_look_at_scales(builtin, tmp_path):
    """They divide the integers as they are stored, whose quotient stands for no quotient."""
    m = Model()
    inputs = [m.input((5,), "i8", scale=0.5, zero=3), m.input((5,), "i8", scale=0.25)]
    m.write(tmp_path / "m.tflite", [m.op(builtin, inputs, (5,), "i8", scale=0.5)])
    refused(tmp_path / "m.tflite", "LiteRT's kernel does not look at")


@pytest.mark.parametrize(("zero", "scale", "fits"), [(0, 0.5, True), (3, 0.5, False), (0, 0.25, False)])
@pytest.mark.parametrize("kind", ["i8", "i16"])
def test_negated_integers(kind, zero, scale, fits, tmp_path):
    """LiteRT negates them as they are stored."""
    m = Model()
    x = m.input((50,), kind, scale=0.5, zero=zero)
    m.write(tmp_path / "m.tflite", [m.op("NEG", [x], (50,), kind, scale=scale, zero=zero)])
    if fits:
        values = np.arange(-25, 25).astype(np.int8 if kind == "i8" else np.int16)
        agrees(tmp_path / "m.tflite", values=[values])
    else:
        refused(tmp_path / "m.tflite", "LiteRT's kernel does not look at")


@pytest.mark.parametrize("builtin", ["REDUCE_PROD", "REDUCE_MAX"])
def test_reductions_of_truth_values(builtin, tmp_path):
    m = Model()
    y = m.op(builtin, [m.input((3, 4), "bool"), m.constant([1], "i32")], (3,), "bool", options=("ReducerOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    refused(tmp_path / "m.tflite", "input 0 is bool")


@pytest.mark.parametrize(("kind", "other"), [("i8", "u8"), ("u8", "i8"), ("i32", "i32")])
def test_bits_of_another_integer(kind, other, tmp_path):
    m = Model()
    y = m.op("BITCAST", [m.input((3, 5), kind)], (3, 5), other, options=("BitcastOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize(
    ("kind", "other"), [("f32", "i32"), ("i32", "f32"), ("f32", "u32"), ("f16", "i16"), ("i16", "f16")]
)
def test_bits_of_another_kind_of_number(kind, other, tmp_path):
    m = Model()
    y = m.op("BITCAST", [m.input((3, 5), kind)], (3, 5), other, options=("BitcastOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    model = agrees(tmp_path / "m.tflite")
    assert operators(model) == ["BitCast"] and model.opset_import[0].version == 26


@pytest.mark.parametrize(("kind", "other"), [("bool", "u8"), ("u8", "bool")])
def test_bits_of_truth_values_are_refused(kind, other, tmp_path):
    m = Model()
    y = m.op("BITCAST", [m.input((3, 5), kind)], (3, 5), other, options=("BitcastOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and f"the bits of {kind} as {other}" in done.stderr, done.stderr


def test_bits_of_floats_need_their_opset(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op("BITCAST", [m.input((3, 5))], (3, 5), "i32", options=("BitcastOptions", {}))])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx", "--opset", "21")
    assert done.returncode == 8 and "BITCAST" in done.stderr and "use --opset 26" in done.stderr, done.stderr


def test_arc_tangent(tmp_path):
    m = Model()
    x = m.input((3, 5))
    m.write(tmp_path / "m.tflite", [m.op("ATAN2", [x, m.constant(np.ones((3, 5)))], (3, 5))])
    assert operators(agrees(tmp_path / "m.tflite")) == ["Atan"]


def test_arc_tangent_of_two_tensors(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op("ATAN2", [m.input((9, 9)), m.input((9, 9))], (9, 9))])
    agrees(tmp_path / "m.tflite")
    numbers = np.array([-np.inf, -3, -1e-30, -0.0, 0.0, 1e-30, 2, np.inf, np.nan], np.float32)
    y, x = np.meshgrid(numbers, numbers, indexing="ij")
    names, values, ((name, expected, _),) = run_litert(tmp_path / "m.tflite", [y, x])
    made = run_onnx(tmp_path / "m.onnx", names, values)[name]
    assert np.allclose(made, expected, rtol=1e-6, atol=0, equal_nan=True)
    is_number = ~np.isnan(expected)
    assert np.array_equal(np.signbit(made)[is_number], np.signbit(expected)[is_number])


def test_compressed_by_another_name(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [m.op("ABS", [m.input((3, 5))], (3, 5))])
    subprocess.run(["zstd", "-q", tmp_path / "m.tflite", "-o", tmp_path / "model.zst"], check=True)
    done = converter.run("convert", tmp_path / "model.zst")
    assert done.returncode == 0, done.stderr
    assert operators(onnx.load(tmp_path / "model.onnx")) == ["Abs"]


@pytest.mark.parametrize("name", CASES)
def test_case(name, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", CASES[name](m))
    agrees(tmp_path / "m.tflite")


def test_no_transposes_between_convolutions(tmp_path):
    m = Model()
    x = conv(m, m.input((1, 7, 8, 3)), (1, 4, 8, 3), filters=3)
    x = m.op("PAD", [x, m.constant([[0, 0], [1, 1], [2, 0], [0, 0]], "i32")], (1, 6, 10, 3))
    y = conv(m, x, (1, 3, 10, 3), filters=3)
    y = m.op("LOGISTIC", [y], (1, 3, 10, 3))
    y = m.op("ADD", [y, m.constant(random(3))], (1, 3, 10, 3), options=("AddOptions", {}))
    y = m.op("CONCATENATION", [y, y], (1, 3, 10, 6), options=("ConcatenationOptions", {"axis": 3}))
    y = m.op("MEAN", [y, m.constant([1, 2], "i32")], (1, 6), options=("ReducerOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    assert operators(agrees(tmp_path / "m.tflite")).count("Transpose") == 1


def test_half_precision_weights_stay_in_the_file(tmp_path):
    m = Model()
    weights = m.op("DEQUANTIZE", [m.constant(random(5, 3, 2, 3), "f16")], (5, 3, 2, 3))
    bias = m.op("DEQUANTIZE", [m.constant(random(5), "f16")], (5,))
    fields = {"padding": VALID, "strideH": 1, "strideW": 1}
    y = m.op("CONV_2D", [m.input((1, 6, 5, 3)), weights, bias], (1, 4, 4, 5), options=("Conv2DOptions", fields))
    m.write(tmp_path / "m.tflite", [y])
    model = agrees(tmp_path / "m.tflite")
    assert sorted(tensor.data_type for tensor in model.graph.initializer) == [10, 10]


def test_external_data(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [conv(m, m.input((1, 7, 8, 3)), (1, 4, 8, 64), filters=64)])
    agrees(tmp_path / "m.tflite", ["--external-data"])
    assert (tmp_path / "m.onnx.data").stat().st_size == 64 * 3 * 2 * 3 * 4


def test_layout(tmp_path):
    m = Model()
    y = conv(m, m.input((1, 7, 8, 3)), (1, 4, 8, 5))
    m.write(tmp_path / "m.tflite", [y])
    model = raised(tmp_path / "m.tflite", ["--layout", "x0=nchw", "--layout", f"t{y}=nchw"])
    assert "Transpose" not in operators(model)
    names, values, wanted = run_litert(tmp_path / "m.tflite")
    made = run_onnx(tmp_path / "m.onnx", names, [values[0].transpose(0, 3, 1, 2)])
    assert np.allclose(made[f"t{y}"], wanted[0][1].transpose(0, 3, 1, 2), atol=1e-5)
