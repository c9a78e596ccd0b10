# SPDX-License-Identifier: Apache-2.0
"""lowtide calibrate tries settings on samples that it holds back, and lowtide convert follows the best."""

import json

import numpy as np
import pytest
from onnx import helper

import lowtide
from lowtide import choice
from tests.python import models
from tests.support import converter, json_schema

node = helper.make_node
RNG = np.random.default_rng(21)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    tensors = {
        "a": RNG.normal(size=(8, 3, 3, 3)).astype(np.float32) * np.geomspace(0.01, 3, 8).reshape(8, 1, 1, 1),
        "p": RNG.normal(size=8),
        "b": RNG.normal(size=(5, 8, 1, 1)) / np.geomspace(0.01, 3, 8).reshape(1, 8, 1, 1),
    }
    nodes = [node("Conv", ["x", "a", "p"], ["n"]), node("Relu", ["n"], ["m"]), node("Conv", ["m", "b"], ["y"])]
    ports = [models.value("x", "float32", [1, 3, 9, 10])], [models.value("y", "float32", [1, 5, 7, 8])]
    tensors = {name: of.astype(np.float32) for name, of in tensors.items()}
    return models.save(tmp_path_factory.mktemp("choice") / "m.onnx", nodes, *ports, tensors)


def samples(count):
    """One value in a thousand is far away, so that ranges differ."""
    rng = np.random.default_rng(4)
    out = [rng.normal(size=(1, 3, 9, 10)).astype(np.float32) for _ in range(count)]
    for of in out:
        of.reshape(-1)[rng.integers(of.size)] *= 20
    return [{"x": of} for of in out]


@pytest.fixture(scope="module")
def calibrated(model, tmp_path_factory):
    ranges = tmp_path_factory.mktemp("ranges") / "r.json"
    seen = []
    found = lowtide.calibrate(model, ranges, samples=samples(9), choice_progress=lambda *of: seen.append(of))
    assert seen[0] == (0, 12) and seen[-1] == (12, 12) and found.note is None
    return ranges


def test_the_best_of_all_settings_is_written(calibrated):
    content = json.loads(calibrated.read_text())
    schema = json.loads((converter.ROOT / "schemas/ranges.schema.json").read_text())
    assert json_schema.faults(content, schema, "ranges") == []
    chosen = content["choice"]
    assert chosen["samples"] == 2 and len(chosen["decibels"]) == 12
    best = " ".join(f"{key}={chosen[key]}" for key in choice.SETTINGS)
    assert chosen["decibels"][best] == max(chosen["decibels"].values()) > min(chosen["decibels"].values()) + 5


def test_samples_held_back_join_the_ranges(model, calibrated):
    content = json.loads(calibrated.read_text())
    del content["choice"]
    assert content == lowtide.calibrate(model, samples=samples(9), choose="none").content


def converted(model, folder, ranges, **options):
    return lowtide.convert(model, folder / "m.tflite", quantize="int8", ranges=ranges, **options).output.read_bytes()


def test_convert_follows_the_file_unless_told_otherwise(model, calibrated, tmp_path):
    content = json.loads(calibrated.read_text())
    for setting in choice.settings():
        content["choice"] |= setting
        (tmp_path / "r.json").write_text(json.dumps(content))
        followed = converted(model, tmp_path, tmp_path / "r.json")
        assert followed == converted(model, tmp_path, calibrated, **setting), setting
        other = {"equalize": "none" if setting["equalize"] == "channels" else "channels"}
        assert followed != converted(model, tmp_path, tmp_path / "r.json", **other)
    # What is best for another type says nothing; the defaults hold.
    content["choice"] |= {"quantize": "int16x8", "range": "minmax", "equalize": "none", "correct": "none"}
    (tmp_path / "r.json").write_text(json.dumps(content))
    default = {"range": "mse", "equalize": "channels", "correct": "means"}
    assert converted(model, tmp_path, tmp_path / "r.json") == converted(model, tmp_path, calibrated, **default)


def test_sixteen_bits(model):
    chosen = lowtide.calibrate(model, samples=samples(4), choose="int16x8").content["choice"]
    assert chosen["quantize"] == "int16x8" and max(chosen["decibels"].values()) > 15


def test_where_there_is_no_choice(model, tmp_path):
    found = lowtide.calibrate(model, samples=samples(3))
    assert "choice" not in found.content and found.note == "fewer than 4 samples: no settings were tried"
    found = lowtide.calibrate(model, samples=samples(4), choose="none")
    assert "choice" not in found.content and found.note is None
    arg_max = models.save(
        tmp_path / "a.onnx",
        [node("ArgMax", ["x"], ["y"], axis=1)],
        [models.value("x", "float32", [2, 5])],
        [models.value("y", "int64", [2, 1])],
    )
    given = [{"x": RNG.random((2, 5)).astype(np.float32)} for _ in range(4)]
    assert "no output of floats" in lowtide.calibrate(arg_max, samples=given).note
    with pytest.raises(lowtide.Usage, match="choose must be one of none, int8, int16x8, not 'int4'"):
        lowtide.calibrate(model, samples=samples(4), choose="int4")


def test_a_model_that_cannot_be_quantized(tmp_path):
    path = models.save(
        tmp_path / "u.onnx",
        [node("QuantizeLinear", ["x", "s"], ["q"]), node("DequantizeLinear", ["q", "s"], ["y"])],
        [models.value("x", "float32", [2, 5])],
        [models.value("y", "float32", [2, 5])],
        {"s": np.float32(0.5)},
    )
    given = [{"x": RNG.random((2, 5)).astype(np.float32)} for _ in range(4)]
    found = lowtide.calibrate(path, samples=given)
    assert "choice" not in found.content and "the model is quantized already" in found.note
    with pytest.raises(lowtide.Usage, match="the model is quantized already"):
        lowtide.calibrate(path, samples=given, choose="int8")


def detections(folder, outputs):
    """Rows of 200 above a threshold: how many they are depends on the data, and on rounding."""
    rng = np.random.default_rng(61)
    tensors = {
        "w": rng.normal(size=(16, 16)) / 4,
        "scores": rng.normal(size=(16, 1)) / 4,
        "boxes": rng.normal(size=(16, 4)) / 4,
        "t": np.array(0.5),
    }
    tensors = {name: of.astype(np.float32) for name, of in tensors.items()} | {"one": np.array([1]), "z": np.array([0])}
    nodes = [
        node("MatMul", ["x", "w"], ["h"]),
        node("Relu", ["h"], ["r"]),
        node("MatMul", ["r", "scores"], ["s"]),
        node("Squeeze", ["s", "one"], ["s1"]),
        node("Greater", ["s1", "t"], ["g"]),
        node("NonZero", ["g"], ["n"]),
        node("Squeeze", ["n", "z"], ["i"]),
        node("Gather", ["r", "i"], ["d"]),
        node("MatMul", ["d", "boxes"], ["y"]),
    ]
    values = {"y": models.value("y", "float32", ["K", 4]), "s": models.value("s", "float32", [200, 1])}
    ports = [models.value("x", "float32", [200, 16])], [values[name] for name in outputs]
    return models.save(folder / "d.onnx", nodes, *ports, tensors)


def rows(*sizes):
    rng = np.random.default_rng(3)
    return [{"x": (size * rng.normal(size=(200, 16))).astype(np.float32)} for size in sizes]


def test_outputs_whose_extents_depend_on_the_data(tmp_path):
    given = rows(*[1] * 12)
    figures = lowtide.calibrate(detections(tmp_path, "ys"), samples=given).content["choice"]["decibels"]
    alone = lowtide.calibrate(detections(tmp_path, "s"), samples=given).content["choice"]["decibels"]
    # Equalization divides the channels for the boxes too.
    assert all(figures[of] == alone[of] > 30 for of in alone if "equalize=none" in of)
    found = lowtide.calibrate(detections(tmp_path, "y"), samples=given)
    assert "choice" not in found.content and "other extents, which depend on the data" in found.note


def test_samples_without_detections(tmp_path):
    given = rows(1, 0.01, 1, 0.01, 1, 1, 1, 0.01)
    chosen = lowtide.calibrate(detections(tmp_path, "ys"), samples=given, correct_layers=True).content["choice"]
    assert len(chosen["decibels"]) == 13


def test_notes_name_no_temporary_file(tmp_path):
    found = lowtide.calibrate(detections(tmp_path, "y"), samples=rows(*[0.01] * 4))
    assert found.note.startswith("no settings were tried: ranges.json: the tensor 'y' had no finite value")


WRONG = {
    "range": ({"range": "most"}, "choice.range: 'most' is no method"),
    "equalize": ({"equalize": "all"}, "choice.equalize: 'all' is not one of channels, none"),
    "number": ({"correct": 1}, "choice.correct: 1 is not what stands here"),
    "unknown": ({"best": "mse"}, "'best' is not known"),
    "list": ({"samples": [1]}, "choice.samples: a list is not what stands here"),
    "missing": ({"correct": ...}, "choice: 'correct' is missing"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_choices(model, calibrated, tmp_path, name):
    change, words = WRONG[name]
    content = json.loads(calibrated.read_text())
    content["choice"] |= change
    content["choice"] = {key: of for key, of in content["choice"].items() if of is not ...}
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(lowtide.Malformed, match=words):
        converted(model, tmp_path, tmp_path / "r.json")
    assert not (tmp_path / "m.tflite").exists()


def test_a_choice_behind_the_tensors(model, calibrated, tmp_path):
    content = json.loads(calibrated.read_text())
    content["choice"] = content.pop("choice")
    (tmp_path / "r.json").write_text(json.dumps(content))
    with pytest.raises(lowtide.Malformed, match="'choice' must stand before 'tensors'"):
        converted(model, tmp_path, tmp_path / "r.json")
