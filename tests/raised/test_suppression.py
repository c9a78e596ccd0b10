# SPDX-License-Identifier: Apache-2.0
"""NON_MAX_SUPPRESSION_V4 and _V5 to ONNX. LiteRT is the judge."""

import numpy as np
import pytest

from tests.raised.judge_raised import agrees, agrees_at, raised, run_onnx
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


@pytest.mark.parametrize("overlap", [0.0, -0.5])
def test_a_threshold_that_all_overlaps_reach(overlap, tmp_path):
    """The best box suppresses all others, also those that it does not touch."""
    scores = np.linspace(0.3, 0.9, BOXES, dtype=np.float32)
    judge(tmp_path, [boxes(5), scores], 5, overlap=overlap)


@pytest.mark.parametrize("version", [4, 5])
def test_computed_count_and_thresholds(version, tmp_path):
    m = Model()
    inputs = [m.input((BOXES, 4)), m.input((BOXES,)), m.input((), "i32"), m.input(()), m.input(())]
    if version == 4:
        made = m.op("NON_MAX_SUPPRESSION_V4", inputs, [(MOST,), ()], "i32", outputs=2)
    else:
        inputs.append(m.constant(0.0))
        made = m.op("NON_MAX_SUPPRESSION_V5", inputs, [(MOST,), (MOST,), ()], ["i32", "f32", "i32"], outputs=3)
    m.write(tmp_path / "m.tflite", made)
    places = boxes(6)
    places[:6] = [[0, 0, 1, 1], [0, 0, 1, 0.5], [0, 1, 1, 2], [0, 0, 1, 1], [0, 0, 0.5, 1], [0.25, 1.5, 1, 2.5]]
    scores = np.random.default_rng(6).permutation(BOXES).astype(np.float32) / BOXES
    scores[:6] += 1
    for most in (0, 1, 7, 100):
        for overlap in (0.0, -1.0, 0.25, 0.5, np.nextafter(np.float32(0.5), np.float32(1)), 1.0, 1e-30):
            for score in (0.3, float(scores[8]), 2.0):
                values = [places, scores, np.int32(most), np.float32(overlap), np.float32(score)]
                values = [np.asarray(value) for value in values]
                agrees(tmp_path / "m.tflite", values=values)


def test_a_computed_threshold_above_1_is_an_error(tmp_path):
    """LiteRT would select the best box again and again."""
    m = Model()
    inputs = [m.input((7, 4)), m.input((7,)), m.constant(3, "i32"), m.input(()), m.constant(0.1)]
    m.write(tmp_path / "m.tflite", m.op("NON_MAX_SUPPRESSION_V4", inputs, [(3,), ()], "i32", outputs=2))
    model = raised(tmp_path / "m.tflite")
    names = [port.name for port in model.graph.input]
    above = np.nextafter(np.float32(1), np.float32(2))
    with pytest.raises(Exception, match="iou_threshold"):
        run_onnx(tmp_path / "m.onnx", names, [boxes(0, 7), np.ones(7, np.float32), np.asarray(above)])


@pytest.mark.parametrize("shape", [(8, 4), (7, 5), (7,)])
def test_shapes_that_do_not_fit_are_malformed(shape, tmp_path):
    m = Model()
    inputs = [m.input(shape), m.input((7,)), m.constant(3, "i32"), m.constant(0.5), m.constant(0.1)]
    m.write(tmp_path / "m.tflite", m.op("NON_MAX_SUPPRESSION_V4", inputs, [(3,), ()], "i32", outputs=2))
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 6 and "do not fit" in done.stderr, (done.returncode, done.stderr)


def test_boxes_and_scores_of_an_open_number(tmp_path):
    """Two inputs have two symbols for it, which may be equal."""
    m = Model()
    boxes, scores = m.open_input((-1, 4)), m.open_input((-1,))
    numbers = [m.constant(3, "i32"), m.constant(0.4), m.constant(0.1)]
    y = m.op("NON_MAX_SUPPRESSION_V4", [boxes, scores, *numbers], [(3,), ()], ["i32", "i32"], outputs=2)
    m.write(tmp_path / "m.tflite", y)
    corners = np.random.default_rng(6).random((9, 4)).astype(np.float32)
    ranks = np.random.default_rng(7).random(9).astype(np.float32)
    agrees_at(tmp_path / "m.tflite", [[corners, ranks], [corners[:4], ranks[:4]]])


def test_boxes_and_scores_of_two_numbers_are_malformed(tmp_path):
    m = Model()
    numbers = [m.constant(3, "i32"), m.constant(0.4), m.constant(0.1)]
    y = m.op(
        "NON_MAX_SUPPRESSION_V4", [m.input((5, 4)), m.input((4,)), *numbers], [(3,), ()], ["i32", "i32"], outputs=2
    )
    m.write(tmp_path / "m.tflite", y)
    done = converter.run("convert", tmp_path / "m.tflite", "-o", tmp_path / "m.onnx")
    assert done.returncode == 6 and "boxes [5,4] and scores [4] do not fit" in done.stderr, done
