# SPDX-License-Identifier: Apache-2.0
"""NON_MAX_SUPPRESSION_V4 and _V5 to ONNX. LiteRT is the judge."""

import numpy as np
import pytest

from tests.raised.judge_raised import agrees
from tests.raised.tflite_models import Model
from tests.support import converter

BOXES, MOST = 60, 9


def boxes(seed=0, count=BOXES):
    """Many overlap; the corners of some are in the other order."""
    random = np.random.default_rng(seed)
    centre, half = random.random((count, 2)), random.random((count, 2)) * 0.2 + 0.05
    made = np.concatenate([centre - half, centre + half], axis=1).astype(np.float32)
    made[::7] = made[::7][:, [2, 3, 0, 1]]
    return made


def suppression(m, version, count=BOXES, most=MOST, overlap=0.4, score=0.2, sigma=0.0, kind="f32"):
    inputs = [m.input((count, 4), kind), m.input((count,), kind)]
    inputs += [m.constant(most, "i32"), m.constant(overlap), m.constant(score)]
    if version == 4:
        return m.op("NON_MAX_SUPPRESSION_V4", inputs, [(most,), ()], "i32", outputs=2)
    inputs.append(m.constant(sigma))
    return m.op("NON_MAX_SUPPRESSION_V5", inputs, [(most,), (most,), ()], ["i32", "f32", "i32"], outputs=3)


def judge(tmp_path, values, version, **fields):
    m = Model()
    m.write(tmp_path / "m.tflite", suppression(m, version, count=len(values[0]), **fields))
    agrees(tmp_path / "m.tflite", values=values)


@pytest.mark.parametrize("version", [4, 5])
@pytest.mark.parametrize("seed", range(3))
def test_random_boxes(version, seed, tmp_path):
    scores = np.random.default_rng(seed).permutation(BOXES).astype(np.float32) / BOXES
    judge(tmp_path, [boxes(seed), scores], version)


@pytest.mark.parametrize("version", [4, 5])
def test_fewer_boxes_than_places(version, tmp_path):
    scores = np.linspace(0.1, 0.9, 6, dtype=np.float32)
    judge(tmp_path, [boxes(1, 6), scores], version, most=11)


def test_no_box_is_good_enough(tmp_path):
    judge(tmp_path, [boxes(2), np.full(BOXES, 0.2, np.float32)], 5)


@pytest.mark.parametrize("overlap", [0.5, 1.0, 1e-30])
def test_an_overlap_that_equals_the_threshold(overlap, tmp_path):
    """Halves, equal boxes, and neighbours that touch; a box that equals a better one is suppressed at 1.0 too."""
    square = [0, 0, 1, 1]
    places = np.array([square, [0, 0, 1, 0.5], [0, 1, 1, 2], square, [0, 0, 0.5, 1], [0.25, 1.5, 1, 2.5]], np.float32)
    scores = np.array([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], np.float32)
    judge(tmp_path, [places, scores], 5, overlap=overlap, score=-1.0)


def test_a_score_that_equals_the_threshold(tmp_path):
    scores = np.linspace(0, 1, BOXES, dtype=np.float32)
    judge(tmp_path, [boxes(4), scores], 4, score=float(scores[50]), overlap=0.9, most=20)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"sigma": 0.5}, "sigma is not 0"),
        ({"overlap": 0.0}, "the threshold of overlaps is 0"),
        ({"overlap": 1.5}, "the threshold of overlaps is 1.5"),
        ({"overlap": float("nan")}, "the threshold of overlaps is nan"),
        ({"score": float("nan")}, "the threshold of scores is no number"),
        ({"most": 0}, "at most 0 boxes"),
        ({"kind": "i8"}, "boxes or scores of"),
        ({"count": 0}, "there are no boxes"),
    ],
)
def test_refused(fields, reason, tmp_path):
    m = Model()
    m.write(tmp_path / "m.tflite", suppression(m, 5, **fields))
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and reason in done.stderr, done.stderr
    assert "NON_MAX_SUPPRESSION_V5" in done.stderr and not (tmp_path / "m.onnx").exists()


def test_a_threshold_that_is_computed_is_refused(tmp_path):
    m = Model()
    inputs = [m.input((7, 4)), m.input((7,)), m.constant(3, "i32"), m.input(()), m.constant(0.1)]
    m.write(tmp_path / "m.tflite", m.op("NON_MAX_SUPPRESSION_V4", inputs, [(3,), ()], "i32", outputs=2))
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 8 and "the threshold of overlaps is known at run time only" in done.stderr


@pytest.mark.parametrize("shape", [(8, 4), (7, 5), (7,)])
def test_shapes_that_do_not_fit_are_malformed(shape, tmp_path):
    m = Model()
    inputs = [m.input(shape), m.input((7,)), m.constant(3, "i32"), m.constant(0.5), m.constant(0.1)]
    m.write(tmp_path / "m.tflite", m.op("NON_MAX_SUPPRESSION_V4", inputs, [(3,), ()], "i32", outputs=2))
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 6 and "do not fit" in done.stderr, (done.returncode, done.stderr)
