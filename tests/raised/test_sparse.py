# SPDX-License-Identifier: Apache-2.0
"""DENSIFY and sparse weights of FULLY_CONNECTED to ONNX. LiteRT is the judge; a dense copy of the weights is the judge of
forms that LiteRT's FULLY_CONNECTED does not take. Hostile lists are refused."""

import itertools

import numpy as np
import onnx
import onnxruntime
import pytest
from ai_edge_litert import schema_py_generated as schema

from tests.raised.judge_raised import agrees, raised
from tests.raised.tflite_models import TYPES, Model
from tests.support import converter

WIDTHS = {
    np.int32: (schema.SparseIndexVector.Int32Vector, schema.Int32VectorT),
    np.uint16: (schema.SparseIndexVector.Uint16Vector, schema.Uint16VectorT),
    np.uint8: (schema.SparseIndexVector.Uint8Vector, schema.Uint8VectorT),
}


def numbers_of(values, width):
    kind, table = WIDTHS[width]
    made = table()
    made.values = np.asarray(values, width)
    return kind, made


def compressed(dense, order, blocks, level, width):
    """(values, levels) of `dense`; `blocks` are {axis: size}; all levels but `level` are dense."""
    rank = dense.ndim
    split = []  # each axis, and its places in a block
    for axis, size in enumerate(dense.shape):
        split += [size // blocks.get(axis, 1), blocks.get(axis, 1)]
    inner = [2 * axis + 1 for axis in sorted(blocks)]
    rest = [2 * axis + 1 for axis in range(rank) if axis not in blocks]
    turned = dense.reshape(split).transpose([2 * axis for axis in order] + inner + rest)
    turned = turned.reshape(turned.shape[: rank + len(blocks)])
    levels = []
    for size in turned.shape:
        made = schema.DimensionMetadataT()
        made.format, made.denseSize = schema.DimensionType.DENSE, size
        levels.append(made)
    rows = turned.reshape(int(np.prod(turned.shape[:level])), turned.shape[level], -1)
    segments, indices, values = [0], [], []
    for row in rows:
        places = [place for place in range(len(row)) if np.any(row[place])]
        indices += places
        values += [row[place] for place in places]
        segments.append(len(indices))
    levels[level].format, levels[level].denseSize = schema.DimensionType.SPARSE_CSR, 0
    levels[level].arraySegmentsType, levels[level].arraySegments = numbers_of(segments, width)
    levels[level].arrayIndicesType, levels[level].arrayIndices = numbers_of(indices, width)
    return np.concatenate(values) if values else np.zeros(0, dense.dtype), levels


def sparse(m, dense, kind="f32", order=None, blocks=None, level=None, width=np.int32, **quantization):
    """A constant; the last axis of the shape is compressed unless `level` says otherwise."""
    blocks, order = blocks or {}, order or list(range(dense.ndim))
    dense = np.asarray(dense, TYPES[kind][1])
    values, levels = compressed(dense, order, blocks, dense.ndim - 1 if level is None else level, width)
    index = m.constant(values, kind, **quantization)
    tensor = m.graph.tensors[index]
    tensor.shape, tensor.sparsity = list(dense.shape), schema.SparsityParametersT()
    tensor.sparsity.traversalOrder = list(order) + [dense.ndim + i for i in range(len(blocks))]
    tensor.sparsity.blockMap, tensor.sparsity.dimMetadata = sorted(blocks), levels
    return index


def holes(*shape, seed=0, blocks=None):
    """Numbers of which most are zeros; some rows are empty, and whole blocks."""
    random = np.random.default_rng(seed)
    dense = random.integers(-90, 90, shape).astype(np.float32)
    dense[random.random(shape) < 0.6] = 0
    dense[1] = 0
    for axis, size in (blocks or {}).items():
        keep = random.random(shape[axis] // size) < 0.5
        keep[0] = True
        dense = dense * np.repeat(keep, size).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return dense


def weights(m, kind="f32", rank=2, **form):
    shape = (8, 12) if rank == 2 else (4, 3, 2, 6)
    return sparse(m, holes(*shape, blocks=form.get("blocks")), kind, **form), shape


def densified(m, index, shape, kind="f32", **quantization):
    return m.op("DENSIFY", [index], shape, kind, ("DensifyOptions", {}), **quantization)


FORMS = {
    "rows": {},
    "columns": {"order": [1, 0]},
    "first_level": {"level": 0},
    "first_level_of_columns": {"order": [1, 0], "level": 0},
    "blocks_in_a_row": {"blocks": {1: 4}},
    "blocks_of_rows": {"blocks": {0: 2}},
    "blocks": {"blocks": {0: 2, 1: 3}},
    "blocks_by_columns": {"blocks": {0: 2, 1: 3}, "order": [1, 0]},
    "blocks_first_level": {"blocks": {0: 4, 1: 4}, "level": 0},
    "narrow": {"width": np.uint16},
    "narrowest": {"width": np.uint8},
    "images": {"rank": 4},
    "images_turned": {"rank": 4, "order": [0, 3, 1, 2], "level": 1},
    "images_blocks": {"rank": 4, "blocks": {0: 2, 3: 2}, "level": 2},
}


@pytest.mark.parametrize("form", FORMS)
def test_densify(form, tmp_path):
    m = Model()
    index, shape = weights(m, **FORMS[form])
    dense = densified(m, index, shape)
    y = m.op("ADD", [m.input(shape), dense], shape, options=("AddOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("kind", ["f16", "i8"])
def test_densify_of_other_types(kind, tmp_path):
    m = Model()
    quantization = {"scale": 0.25, "zero": 0} if kind == "i8" else {}
    index, shape = weights(m, kind, blocks={1: 4}, **quantization)
    dense = densified(m, index, shape, kind, **quantization)
    numbers = m.op("DEQUANTIZE", [dense], shape, options=("DequantizeOptions", {}))
    y = m.op("ADD", [m.input(shape), numbers], shape, options=("AddOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("form", ["rows", "blocks_in_a_row", "columns"])
def test_fully_connected(form, tmp_path):
    """LiteRT has kernels for the first two."""
    m = Model()
    index, (units, columns) = weights(m, **FORMS[form])
    y = m.op("FULLY_CONNECTED", [m.input((3, columns)), index], (3, units), options=("FullyConnectedOptions", {}))
    m.write(tmp_path / "m.tflite", [y])
    if form != "columns":
        agrees(tmp_path / "m.tflite")
        return
    raised(tmp_path / "m.tflite")
    x = np.random.default_rng(1).standard_normal((3, columns)).astype(np.float32)
    (made,) = onnxruntime.InferenceSession(str(tmp_path / "m.onnx")).run(None, {"x0": x})
    assert np.allclose(made, x @ holes(units, columns).T, atol=1e-3)


def test_convolution_of_densified_weights_is_one_node(tmp_path):
    m = Model()
    index, shape = weights(m, rank=4)
    fields = {"padding": 0, "strideH": 1, "strideW": 1}
    y = m.op("CONV_2D", [m.input((2, 5, 7, 6)), densified(m, index, shape), m.constant(np.ones(4))], (2, 5, 7, 4),
             options=("Conv2DOptions", fields))  # fmt: skip
    m.write(tmp_path / "m.tflite", [y])
    model = agrees(tmp_path / "m.tflite")
    assert "Conv" in [node.op_type for node in model.graph.node]


@pytest.mark.parametrize("rows", [7, 300])
def test_large_rows_are_read_in_pieces(rows, tmp_path):
    """More than fits into what is read at once, of the lists and of the dense bytes."""
    m = Model()
    random = np.random.default_rng(2)
    dense = random.integers(1, 90, (rows, 20001)).astype(np.float32) * (random.random((rows, 20001)) < 0.3)
    index = sparse(m, dense)
    m.write(tmp_path / "m.tflite", [densified(m, index, dense.shape)])
    model = raised(tmp_path / "m.tflite")
    (kept,) = [onnx.numpy_helper.to_array(one) for one in model.graph.initializer]
    assert np.array_equal(kept, dense)


def change(name):
    """A change of the tensor's lists, by name."""

    def segments(tensor, change):
        level = next(one for one in tensor.sparsity.dimMetadata if one.format == schema.DimensionType.SPARSE_CSR)
        level.arraySegments.values = np.asarray(change(level.arraySegments.values.copy()), np.int32)

    def indices(tensor, change):
        level = next(one for one in tensor.sparsity.dimMetadata if one.format == schema.DimensionType.SPARSE_CSR)
        level.arrayIndices.values = np.asarray(change(level.arrayIndices.values.copy()), np.int32)

    def put(place, value):
        def changed(values):
            values[place] = value
            return values

        return changed

    def swapped(values):
        values[[0, 1]] = values[[1, 0]]
        return values

    def level(tensor, number, **fields):
        for key, value in fields.items():
            setattr(tensor.sparsity.dimMetadata[number], key, value)

    def order(tensor, values):
        tensor.sparsity.traversalOrder = values

    def blocks(tensor, values):
        tensor.sparsity.blockMap = values

    return {
        "index_too_large": lambda t: indices(t, put(-1, 12)),
        "index_negative": lambda t: indices(t, put(0, -1)),
        "indices_fall": lambda t: indices(t, swapped),
        "indices_equal": lambda t: indices(t, put(1, 0)),
        "index_missing": lambda t: indices(t, lambda values: values[:-1]),
        "segments_begin_late": lambda t: segments(t, put(0, 1)),
        "segments_fall": lambda t: segments(t, put(2, 0)),
        "segments_negative": lambda t: segments(t, put(3, -5)),
        "segments_too_large": lambda t: segments(t, put(-1, 10**9)),
        "segments_end_early": lambda t: segments(t, put(-1, 3)),
        "segment_missing": lambda t: segments(t, lambda values: values[:-1]),
        "segment_too_many": lambda t: segments(t, lambda values: [*values, values[-1]]),
        "segments_none": lambda t: segments(t, lambda values: values[:0]),
        "rows_differ": lambda t: level(t, 0, denseSize=7),
        "rows_negative": lambda t: level(t, 0, denseSize=-8),
        "order_twice": lambda t: order(t, [0, 0]),
        "order_outside": lambda t: order(t, [0, 2]),
        "order_short": lambda t: order(t, [0]),
        "order_negative": lambda t: order(t, [-1, 1]),
        "block_without_level": lambda t: blocks(t, [1]),
        "levels_missing": lambda t: t.sparsity.dimMetadata.pop(),
        "shape_larger": lambda t: setattr(t, "shape", [8, 13, 2]),
        "shape_huge": lambda t: setattr(t, "shape", [2**31 - 1, 2**31 - 1]),
    }[name]


# (form, change, status, part of the message)
HOSTILE = [
    *((name, 6) for name in (
        "index_too_large", "index_negative", "indices_fall", "indices_equal", "index_missing", "segments_begin_late",
        "segments_fall", "segments_negative", "segments_too_large", "segments_end_early", "segment_missing",
        "segment_too_many", "segments_none", "rows_differ", "rows_negative", "order_twice", "order_outside",
        "order_short", "order_negative", "block_without_level", "levels_missing", "shape_larger", "shape_huge",
    )),
]  # fmt: skip


@pytest.mark.parametrize(("name", "status"), HOSTILE, ids=[name for name, _ in HOSTILE])
def test_hostile_lists(name, status, tmp_path):
    m = Model()
    index, shape = weights(m)
    change(name)(m.graph.tensors[index])
    m.write(tmp_path / "m.tflite", [densified(m, index, m.graph.tensors[index].shape)])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == status and f"c{index}" in done.stderr, (done.returncode, done.stderr)
    assert done.stderr.count("\n") == 1 and not (tmp_path / "m.onnx").exists()


def test_several_compressed_levels_are_refused(tmp_path):
    m = Model()
    index, shape = weights(m)
    levels = m.graph.tensors[index].sparsity.dimMetadata
    levels[0].format, levels[0].denseSize = schema.DimensionType.SPARSE_CSR, 0
    levels[0].arraySegmentsType, levels[0].arraySegments = numbers_of([0, 8], np.int32)
    levels[0].arrayIndicesType, levels[0].arrayIndices = numbers_of(range(8), np.int32)
    m.write(tmp_path / "m.tflite", [densified(m, index, shape)])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "several of its levels are compressed" in done.stderr, done.stderr


def test_a_compressed_block_is_refused(tmp_path):
    m = Model()
    index, shape = weights(m, blocks={1: 4})
    levels = m.graph.tensors[index].sparsity.dimMetadata
    for key in ("format", "arraySegmentsType", "arraySegments", "arrayIndicesType", "arrayIndices"):
        setattr(levels[2], key, getattr(levels[1], key))
    m.write(tmp_path / "m.tflite", [densified(m, index, shape)])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "blocks of which only some places are stored" in done.stderr, done.stderr


def test_other_kernels_do_not_take_sparse_tensors(tmp_path):
    m = Model()
    index, shape = weights(m)
    m.write(tmp_path / "m.tflite", [m.op("ADD", [m.input(shape), index], shape, options=("AddOptions", {}))])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and f"tensor 'c{index}' is stored as a sparse one" in done.stderr, done.stderr


def test_densify_of_a_dense_tensor_is_malformed(tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", [densified(m, m.constant(np.ones((2, 3))), (2, 3))])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 6 and "is no sparse tensor" in done.stderr, done.stderr


def test_helper_keeps_the_numbers():
    """The blocks and orders of this file's own helper, against a walk over all places."""
    dense = holes(4, 6, blocks={1: 3})
    values, levels = compressed(dense, [1, 0], {1: 3}, 0, np.int32)
    made, at = np.zeros_like(dense), iter(values)
    for column, row in itertools.product(levels[0].arrayIndices.values, range(4)):
        for place in range(3):
            made[row, 3 * column + place] = next(at)
    assert np.array_equal(made, dense)
