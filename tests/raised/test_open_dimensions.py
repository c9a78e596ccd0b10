# SPDX-License-Identifier: Apache-2.0
"""TFLite to ONNX: operators whose data have several open dimensions. LiteRT is the judge, at two sizes or more."""

import numpy as np
import pytest

from tests.raised.judge_raised import agrees_at, operators
from tests.raised.tflite_models import TYPES, Model


def random(*shape):
    return np.random.default_rng(5).standard_normal(shape).astype(np.float32)


KEEP = ("FullyConnectedOptions", {"keepNumDims": True})


@pytest.mark.parametrize("weights", ["f32", "f16", "hybrid", "i8"])
@pytest.mark.parametrize("signature", [(-1, -1, 6), (-1, 3, -1, 6)], ids=str)
def test_a_product_of_data_with_two_open_dimensions(weights, signature, tmp_path):
    """The shape of the result is read from that of the data."""
    m = Model()
    shape = [max(size, 1) for size in signature]
    numbers = np.random.default_rng(4).integers(-100, 100, (4, 6))
    if weights == "i8":
        x = m.open_input(signature, "i8", scale=0.05, zero=3)
        matrix = m.constant(numbers, "i8", scale=np.linspace(0.01, 0.02, 4), zero=[0] * 4)
        bias = m.constant([5, -700, 30, 1000], "i32", scale=np.linspace(0.01, 0.02, 4) * 0.05, zero=[0] * 4)
        y = m.op("FULLY_CONNECTED", [x, matrix, bias], [*shape[:-1], 4], "i8", KEEP, scale=0.2, zero=-7)
    else:
        x, bias = m.open_input(signature), m.constant([0.5, -0.25, 0, 1])
        matrix = m.constant(numbers, "i8", scale=0.01) if weights == "hybrid" else m.constant(numbers / 64, weights)
        if weights == "f16":
            matrix = m.op("DEQUANTIZE", [matrix], (4, 6))
        y = m.op("FULLY_CONNECTED", [x, matrix, bias], [*shape[:-1], 4], options=KEEP)
    m.write(tmp_path / "m.tflite", [y])
    runs = []
    for size in (2, 5):
        data = random(*[size if open < 0 else open for open in signature])
        runs.append([(data * 40).clip(-128, 127).astype(np.int8) if weights == "i8" else data])
    # LiteRT rounds the data of a hybrid.
    model = agrees_at(tmp_path / "m.tflite", runs, tolerance=2e-2 if weights == "hybrid" else 1e-4)
    assert operators(model).count("Transpose") == 0


@pytest.mark.parametrize("kind", ["f32", "i32"])
def test_depth_of_open_images(kind, tmp_path):
    m = Model()
    options = ("DepthToSpaceOptions", {"blockSize": 2})
    y = m.op("DEPTH_TO_SPACE", [m.open_input((-1, -1, -1, 12), kind)], (1, 2, 2, 3), kind, options)
    m.write(tmp_path / "m.tflite", [y])
    runs = [[(random(*shape, 12) * 99).astype(TYPES[kind][1])] for shape in ((2, 4, 5), (1, 3, 7))]
    agrees_at(tmp_path / "m.tflite", runs)


@pytest.mark.parametrize("kind", ["f32", "i8", "i32"])
@pytest.mark.parametrize("signature", [(-1, -1, 3), (-1, -1, -1, 3), (2, -1, 4, 3)], ids=str)
def test_blocks_of_open_images(signature, kind, tmp_path):
    """Padded by 1 before and behind, divided into blocks, put together again, and cut."""
    m = Model()
    block = (2, 3)[: len(signature) - 2]
    scale = {"scale": 0.1, "zero": 3} if kind == "i8" else {}
    x = m.open_input(signature, kind, **scale)
    lists = [m.constant(block, "i32"), m.constant([[1, 1]] * len(block), "i32")]
    parts = m.op("SPACE_TO_BATCH_ND", [x, *lists], [1] * len(signature), kind, **scale)
    lists = [m.constant(block, "i32"), m.constant([[0, 1]] * len(block), "i32")]
    whole = m.op("BATCH_TO_SPACE_ND", [parts, *lists], [1] * len(signature), kind, **scale)
    m.write(tmp_path / "m.tflite", [parts, whole])
    runs = []
    for sizes in (2, 4, 4, 3), (2, 6, 10, 3):
        open_sizes = [*sizes[: len(signature) - 1], 3]
        shape = [size if known < 0 else known for size, known in zip(open_sizes, signature, strict=True)]
        runs.append([(random(*shape) * 20).astype({"f32": np.float32, "i8": np.int8, "i32": np.int32}[kind])])
    agrees_at(tmp_path / "m.tflite", runs)


def computed_borders(m, size, before):
    """A list of `before`, and what the size lacks to the next multiple of 4."""
    mod = m.op("FLOOR_MOD", [size, m.constant(4, "i32")], (), "i32")
    rest = m.op("SUB", [m.constant(4, "i32"), mod], (), "i32", ("SubOptions", {}))
    rest = m.op("FLOOR_MOD", [rest, m.constant(4, "i32")], (), "i32")
    listed = m.op(
        "PACK", [m.constant(before, "i32"), rest], (2,), "i32", ("PackOptions", {"valuesCount": 2, "axis": 0})
    )
    return m.op("RESHAPE", [listed, m.constant([1, 2], "i32")], (1, 2), "i32")


@pytest.mark.parametrize("given", [False, True], ids=["from the shape", "given"])
def test_blocks_with_computed_borders(given, tmp_path):
    """As TensorFlow writes a dilated convolution over an open time. What is given says nothing at conversion time."""
    m = Model()
    x = m.open_input((-1, -1, 3))
    if given:
        size = m.input((), "i32")
    else:
        shape = m.op("SHAPE", [x], (3,), "i32", ("ShapeOptions", {"outType": 2}))
        size = m.op("GATHER", [shape, m.constant(1, "i32")], (), "i32", ("GatherOptions", {}))
    block = m.constant([4], "i32")
    parts = m.op("SPACE_TO_BATCH_ND", [x, block, computed_borders(m, size, 4)], (4, 1, 3))
    wide = m.op("MUL", [parts, m.constant([1, 2, 3])], (4, 1, 3), options=("MulOptions", {}))
    y = m.op("BATCH_TO_SPACE_ND", [wide, block, computed_borders(m, size, 0)], (1, 1, 3))
    m.write(tmp_path / "m.tflite", [y])
    agrees_at(tmp_path / "m.tflite", [[random(2, time, 3)] + [np.array(time, np.int32)] * given for time in (9, 12, 6)])


@pytest.mark.parametrize("kind", ["f32", "i8", "i16"])
def test_an_open_axis_that_is_mirrored_with_its_border(kind, tmp_path):
    m = Model()
    scale = {"scale": 0.1, "zero": 3} if kind == "i8" else {}
    x = m.open_input((-1, -1, -1, 2), kind, **scale)
    pads = m.constant([[0, 0], [2, 1], [0, 3], [1, 0]], "i32")
    y = m.op("MIRROR_PAD", [x, pads], (1, 4, 4, 3), kind, ("MirrorPadOptions", {"mode": 1}), **scale)
    m.write(tmp_path / "m.tflite", [y])
    dtype = {"f32": np.float32, "i8": np.int8, "i16": np.int16}[kind]
    agrees_at(tmp_path / "m.tflite", [[(random(*shape, 2) * 30).astype(dtype)] for shape in ((2, 5, 4), (1, 2, 3))])


@pytest.mark.parametrize("kind", ["f32", "i32"])
@pytest.mark.parametrize("signature", [(-1,), (-1, 2, -1)], ids=str)
def test_a_diagonal_matrix_of_an_open_size(signature, kind, tmp_path):
    m = Model()
    x = m.open_input(signature, kind)
    y = m.op("MATRIX_DIAG", [x], (*[1] * len(signature), 1), kind, options=("MatrixDiagOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    dtype = np.float32 if kind == "f32" else np.int32
    runs = [[(random(*[size if n < 0 else n for n in signature]) * 9).astype(dtype)] for size in (4, 7)]
    agrees_at(tmp_path / "m.tflite", runs)


@pytest.mark.parametrize("signature", [(2, -1, -1), (2, -1, 5), (2, 5, -1)], ids=str)
def test_the_diagonal_of_a_matrix_of_an_open_size(signature, tmp_path):
    """It may have more rows, more columns, or the same number of both."""
    m = Model()
    x, diagonal = m.open_input(signature), m.open_input((2, -1))
    y = m.op("MATRIX_SET_DIAG", [x, diagonal], (2, 1, 1), options=("MatrixSetDiagOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    runs = []
    for sizes in ((2, 4, 7), (2, 5, 5), (2, 8, 3)):
        shape = [size if known < 0 else known for size, known in zip(sizes, signature, strict=True)]
        runs.append([random(*shape), random(2, min(shape[1:]))])
    agrees_at(tmp_path / "m.tflite", runs)


def test_an_open_number_of_segments(tmp_path):
    m = Model()
    x, segments = m.open_input((-1, 3)), m.open_input((-1,), "i32")
    y = m.op("SEGMENT_SUM", [x, segments], (1, 3), options=("SegmentSumOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    runs = [[random(len(listed), 3), np.int32(listed)] for listed in ([0, 0, 1, 2], [0], [0, 1, 2, 2, 2, 3])]
    agrees_at(tmp_path / "m.tflite", runs)


@pytest.mark.parametrize("reshaped", ["RESHAPE", "EXPAND_DIMS", "SQUEEZE"])
def test_spectra_of_open_frames(reshaped, tmp_path):
    """Two open axes in front of the transform, and what TensorFlow writes around it."""
    m = Model()
    x = m.open_input((-1, -1, 8))
    wide = m.op("EXPAND_DIMS", [x, m.constant(2, "i32")], (1, 1, 1, 8), options=("ExpandDimsOptions", {}))
    made = m.op("RFFT2D", [wide, m.constant([1, 8], "i32")], (1, 1, 1, 5), "c64", options=("Rfft2dOptions", {}))
    if reshaped == "SQUEEZE":
        inputs, shape, options = [made], (1, 1, 5), ("SqueezeOptions", {"squeezeDims": [2]})
    elif reshaped == "EXPAND_DIMS":
        inputs, shape, options = [made, m.constant(1, "i32")], (1, 1, 1, 1, 5), ("ExpandDimsOptions", {})
    else:
        size = m.op("SHAPE", [x], (3,), "i32", ("ShapeOptions", {"outType": 2}))
        sizes = m.op("GATHER", [size, m.constant([1, 0], "i32")], (2,), "i32", ("GatherOptions", {}))
        fields = ("ConcatenationOptions", {"axis": 0})
        listed = m.op("CONCATENATION", [sizes, m.constant([5], "i32")], (3,), "i32", fields)
        inputs, shape, options = [made, listed], (1, 1, 5), ("ReshapeOptions", {})
    made = m.op(reshaped, inputs, shape, "c64", options=options)
    m.write(tmp_path / "m.tflite", [m.op("COMPLEX_ABS", [made], shape)])
    agrees_at(tmp_path / "m.tflite", [[random(2, 3, 8)], [random(1, 5, 8)]])
