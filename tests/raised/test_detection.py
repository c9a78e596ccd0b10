# SPDX-License-Identifier: Apache-2.0
"""TFLite_Detection_PostProcess: LiteRT's own kernel is the judge. Boxes, classes, scores and their number are equal."""

import numpy as np
import pytest

from tests.raised.judge_raised import raised, run_litert, run_onnx
from tests.raised.tflite_models import Model
from tests.support import converter

BOXES = 1000
DEFAULTS = {
    "max_detections": 20,
    "max_classes_per_detection": 1,
    "nms_score_threshold": 0.3,
    "nms_iou_threshold": 0.5,
    "num_classes": 7,
    "y_scale": 10.0,
    "x_scale": 9.0,
    "h_scale": 5.0,
    "w_scale": 4.0,
}
REGULAR = {"use_regular_nms": True, "detections_per_class": 6}


def anchors():
    random = np.random.default_rng(3)
    return np.concatenate([random.random((BOXES, 2)), 0.05 + 0.3 * random.random((BOXES, 2))], 1).astype(np.float32)


def detector(path, options, coordinates=4, background=1, shapes=None):
    """The shapes in the file are wrong by default, as those of TensorFlow's models are: the kernel sets them."""
    options = DEFAULTS | options
    m = Model()
    encodings = m.input((1, BOXES, coordinates))
    scores = m.input((1, BOXES, options["num_classes"] + background))
    outputs = m.custom(
        "TFLite_Detection_PostProcess", [encodings, scores, m.constant(anchors())], shapes or [()] * 4, options
    )
    m.write(path, outputs)
    return options


def numbers(options, seed, coordinates=4, background=1, levels=None):
    random = np.random.default_rng(seed)
    scores = random.random((1, BOXES, options["num_classes"] + background)).astype(np.float32)
    if levels:
        scores = np.floor(scores * levels).astype(np.float32) / np.float32(levels)
    return [random.standard_normal((1, BOXES, coordinates)).astype(np.float32) * 2, scores]


def same(path, values, filled):
    """`filled` is how many numbers of a detection's classes the kernel writes, of how many. Returns the count."""
    names, values, wanted = run_litert(path, values)
    made = run_onnx(path.with_suffix(".onnx"), names, values)
    count = int(wanted[3][1][0])
    for name, expected, _ in wanted:
        got = made[name]
        assert got.shape == expected.shape and got.dtype == expected.dtype, (name, got.shape, expected.shape)
        if expected.shape == (1,):
            assert got[0] == count
            continue
        written, width = filled
        got, expected = (x.reshape(-1, width, *x.shape[2:]) for x in (got, expected))
        assert np.array_equal(got[:count, :written], expected[:count, :written]), name
        assert not got[count:].any() and not got[:, written:].any()
    return count


@pytest.mark.parametrize("background", [0, 1])
@pytest.mark.parametrize("classes", [1, 2, 9])
def test_fast(classes, background, tmp_path):
    path = tmp_path / "m.tflite"
    options = detector(path, {"max_classes_per_detection": classes}, background=background)
    model = raised(path)
    assert [d.dim_value for d in model.graph.output[0].type.tensor_type.shape.dim] == [1, 20 * classes, 4]
    for seed in range(3):
        values = numbers(options, seed, background=background)
        assert same(path, values, (min(classes, 7), classes)) == 20


@pytest.mark.parametrize("classes", [1, 3])
def test_regular(classes, tmp_path):
    path = tmp_path / "m.tflite"
    options = detector(path, REGULAR | {"max_classes_per_detection": classes})
    raised(path)
    for seed in range(3):
        # The rows behind the detections are the kernel's own; it does not write those of further classes.
        assert same(path, numbers(options, seed), (1, 1)) == 20


@pytest.mark.parametrize("form", [{}, REGULAR], ids=["fast", "regular"])
def test_fewer_detections_than_asked_for(form, tmp_path):
    path = tmp_path / "m.tflite"
    options = detector(path, form | {"nms_score_threshold": 0.9985})
    raised(path)
    counts = [same(path, numbers(options, seed), (1, 1)) for seed in range(4)]
    assert 0 < max(counts) < 20


@pytest.mark.parametrize("form", [{}, REGULAR], ids=["fast", "regular"])
def test_no_detection_at_all(form, tmp_path):
    path = tmp_path / "m.tflite"
    options = detector(path, form | {"nms_score_threshold": 2.0})
    raised(path)
    assert same(path, numbers(options, 1), (1, 1)) == 0


def test_a_score_that_equals_the_threshold_counts(tmp_path):
    path = tmp_path / "m.tflite"
    options = detector(path, {"nms_score_threshold": 0.75, "max_detections": 400})
    raised(path)
    values = numbers(options, 2)
    values[1][:] = np.where(values[1] > 0.6, np.float32(0.75), 0)
    values[1][0, :, 1:] *= np.arange(BOXES)[:, None] % 3 == 0
    assert same(path, values, (1, 1)) > 20


@pytest.mark.parametrize("iou", [0.2, 1.0])
def test_equal_scores_are_taken_in_the_order_of_the_boxes(iou, tmp_path):
    path = tmp_path / "m.tflite"
    options = detector(path, {"nms_iou_threshold": iou, "max_detections": 150})
    raised(path)
    assert same(path, numbers(options, 4, levels=16), (1, 1)) > 20


def test_encodings_with_key_points(tmp_path):
    path = tmp_path / "m.tflite"
    options = detector(path, {}, coordinates=10)
    raised(path)
    same(path, numbers(options, 5, coordinates=10), (1, 1))


@pytest.mark.parametrize("form", [{}, REGULAR], ids=["fast", "regular"])
def test_integers(form, tmp_path):
    path = tmp_path / "m.tflite"
    options = DEFAULTS | form
    m = Model()
    encodings = m.input((1, BOXES, 4), "u8", scale=0.07, zero=131)
    scores = m.input((1, BOXES, 8), "u8", scale=1 / 256, zero=0)
    places = m.constant(np.clip(anchors() / 0.006, 1, 255), "u8", scale=0.006, zero=0)
    m.write(path, m.custom("TFLite_Detection_PostProcess", [encodings, scores, places], [()] * 4, options))
    raised(path)
    random = np.random.default_rng(6)
    values = [random.integers(0, 256, (1, BOXES, n), dtype=np.uint8) for n in (4, 8)]
    if form:  # the order of equal scores is that of a partial sort
        values[1][:] = 0
        values[1][0, random.permutation(BOXES)[:180], random.integers(1, 8, 180)] = 76 + np.arange(180)
    assert same(path, values, (1, 1)) == 20


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"nms_iou_threshold": 0.0}, "nms_iou_threshold is 0"),
        ({"max_detections": -3}, "option max_detections is -3"),
        ({"num_classes": 9}, "8 scores do not fit 9 classes"),
        ({"y_scale": 0.0}, "a scale is 0"),
        ({"x_scale": "wide"}, "option x_scale is no number"),
    ],
)
def test_options_that_the_kernel_refuses(change, reason, tmp_path):
    path = tmp_path / "m.tflite"
    m = Model()
    inputs = [m.input((1, 5, 4)), m.input((1, 5, 8)), m.constant(anchors()[:5])]
    m.write(path, m.custom("TFLite_Detection_PostProcess", inputs, [()] * 4, DEFAULTS | change))
    done = converter.run("convert", path, "-o", tmp_path / "m.onnx")
    assert done.returncode != 0 and reason in done.stderr and not (tmp_path / "m.onnx").exists(), done.stderr
