# SPDX-License-Identifier: Apache-2.0
"""UNSORTED_SEGMENT_*, SCATTER_ND, UNIQUE, BITWISE_XOR and RIGHT_SHIFT to ONNX. LiteRT is the judge. All dimensions differ."""

import numpy as np
import onnxruntime
import pytest

from tests.raised.judge_raised import agrees, raised, run_litert
from tests.raised.tflite_models import TYPES, Model
from tests.support import converter

SEGMENTS = [4, 0, -1, 2, 4, 0, 4]  # row 2 belongs to none; 1, 3 and 5 are empty


def opset(model):
    return next(one.version for one in model.opset_import if not one.domain)


@pytest.mark.parametrize("kind", ["f32", "i32"])
@pytest.mark.parametrize(
    "builtin",
    ["UNSORTED_SEGMENT_SUM", "UNSORTED_SEGMENT_PROD", "UNSORTED_SEGMENT_MAX", "UNSORTED_SEGMENT_MIN"],
)
@pytest.mark.parametrize("computed", [False, True])
def test_segments(builtin, kind, computed, tmp_path):
    m = Model()
    data = m.input((7, 2, 3), kind)
    segments = m.input((7,), "i32") if computed else m.constant(SEGMENTS, "i32")
    y = m.op(builtin, [data, segments, m.constant([6], "i32")], (6, 2, 3), kind)
    m.write(tmp_path / "m.tflite", [y])
    numbers = np.random.default_rng(3).integers(-9, 9, (7, 2, 3)).astype(TYPES[kind][1])
    values = [numbers, np.array(SEGMENTS, np.int32)] if computed else [numbers]
    model = agrees(tmp_path / "m.tflite", values=values)
    assert opset(model) == (18 if builtin[-3:] in ("MAX", "MIN") else 17)


def test_segments_of_numbers(tmp_path):
    m = Model()
    y = m.op("UNSORTED_SEGMENT_SUM", [m.input((7,)), m.constant(SEGMENTS, "i32"), m.constant(6, "i32")], (6,))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


def test_a_segment_beyond_the_last_is_an_error(tmp_path):
    m = Model()
    y = m.op("UNSORTED_SEGMENT_SUM", [m.input((3, 2)), m.input((3,), "i32"), m.constant([6], "i32")], (6, 2))
    m.write(tmp_path / "m.tflite", [y])
    raised(tmp_path / "m.tflite")
    values = [np.ones((3, 2), np.float32), np.array([0, 6, 1], np.int32)]
    with pytest.raises(RuntimeError):
        run_litert(tmp_path / "m.tflite", values)
    session = onnxruntime.InferenceSession(str(tmp_path / "m.onnx"))
    with pytest.raises(Exception, match="indices"):
        session.run(None, dict(zip(["x0", "x1"], values, strict=True)))


@pytest.mark.parametrize("kind", ["f32", "i32", "i8"])
@pytest.mark.parametrize(
    ("places", "reduced"),
    [([[1, 2], [4, 0], [0, 1]], "ScatterND"), ([[1, 2], [4, 0], [1, 2]], "ScatterElements"), (None, "ScatterND")],
    ids=["apart", "shared", "computed"],
)
def test_scatter_nd(places, reduced, kind, tmp_path):
    """Only those that share a place need an order of additions; a place of all axes is one of elements."""
    m = Model()
    updates = m.input((3, 7), kind)
    indices = m.input((3, 2), "i32") if places is None else m.constant(places, "i32")
    y = m.op("SCATTER_ND", [indices, updates, m.constant([5, 3, 7], "i32")], (5, 3, 7), kind)
    m.write(tmp_path / "m.tflite", [y])
    numbers = np.random.default_rng(1).integers(0, 60, (3, 7)).astype(TYPES[kind][1])
    values = [numbers] if places else [numbers, np.array([[4, 2], [0, 0], [4, 2]], np.int32)]
    model = agrees(tmp_path / "m.tflite", values=values)
    assert reduced in [node.op_type for node in model.graph.node]


def test_scatter_of_elements(tmp_path):
    m = Model()
    places = m.constant([[[1, 2], [4, 0]], [[1, 2], [0, 1]]], "i32")
    y = m.op("SCATTER_ND", [places, m.input((2, 2)), m.constant([5, 3], "i32")], (5, 3))
    m.write(tmp_path / "m.tflite", [y])
    agrees(tmp_path / "m.tflite")


@pytest.mark.parametrize("place", [-1, 5])
def test_scatter_outside_is_refused(place, tmp_path):
    m = Model()
    places = m.constant([[0, 2], [place, 0]], "i32")
    y = m.op("SCATTER_ND", [places, m.input((2,)), m.constant([5, 3], "i32")], (5, 3))
    m.write(tmp_path / "m.tflite", [y])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and f"the index {place} is outside of an axis of 5 elements" in done.stderr


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("kind", ["f32", "i32", "i64", "i8", "u8", "i16"])
def test_unique(kind, index, tmp_path):
    m = Model()
    options = ("UniqueOptions", {"idxOutType": TYPES[index][0]})
    outputs = m.op("UNIQUE", [m.input((7,), kind)], [(5,), (7,)], [kind, index], options, outputs=2)
    m.write(tmp_path / "m.tflite", outputs)
    agrees(tmp_path / "m.tflite", values=[np.array([5, 3, 5, 1, 9, 3, 7], TYPES[kind][1])])


@pytest.mark.parametrize("kind", ["i8", "u8", "i16", "u16", "i32", "u32"])
@pytest.mark.parametrize("builtin", ["BITWISE_XOR", "RIGHT_SHIFT"])
@pytest.mark.parametrize("shape", [(7, 5), (5,)])
def test_bits(builtin, kind, shape, tmp_path):
    m = Model()
    y = m.op(builtin, [m.input((7, 5), kind), m.input(shape, kind)], (7, 5), kind)
    m.write(tmp_path / "m.tflite", [y])
    random, limits = np.random.default_rng(2), np.iinfo(TYPES[kind][1])
    numbers = random.integers(limits.min, limits.max, (7, 5), endpoint=True).astype(limits.dtype)
    numbers[0, :2] = limits.min, limits.max
    least = max(limits.min, -3)  # negative places, and more than the type has
    others = random.integers(least, 40, shape).astype(limits.dtype)
    others[..., 0] = limits.max
    agrees(tmp_path / "m.tflite", values=[numbers, others])


def test_opset_of_bits(tmp_path):
    m = Model()
    x = m.input((7, 5), "i32")
    m.write(tmp_path / "m.tflite", [m.op("BITWISE_XOR", [x, x], (7, 5), "i32")])
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx", "--opset", "17")
    assert done.returncode == 8 and "BITWISE_XOR" in done.stderr and "use --opset 18" in done.stderr
