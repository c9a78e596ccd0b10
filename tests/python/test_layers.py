# SPDX-License-Identifier: Apache-2.0
"""calibrate --correct-layers and convert --correct layers: errors that add up from layer to layer, judged by ONNX Runtime."""

import json

import numpy as np
import pytest
from onnx import helper

import lowtide
from lowtide import layers, ranges
from lowtide.__main__ import main
from tests.python import models
from tests.support import converter, json_schema

node = helper.make_node
DEPTH = 7


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Convolutions with a ReLU between, one by channels, one strided with a border, and a product; a few weights are large."""
    rng = np.random.default_rng(8)
    nodes, tensors, value = [], {}, "x"
    for i in range(DEPTH):
        inputs, kernel = (6 if i == 0 else 9), (3 if i in (0, 3, 5) else 1)
        of = rng.normal(size=(9, 1 if i == 3 else inputs, kernel, kernel)) / np.sqrt(inputs * kernel * kernel)
        of += 0.6 / (of.shape[1] * kernel * kernel)
        of.reshape(9, -1)[:, 0] *= 12  # the others of the row are coarse
        tensors[f"w{i}"] = of
        nodes.append(
            node(
                "Conv",
                [value, f"w{i}", f"b{i}"],
                [f"c{i}"],
                pads=[1 if i == 5 else 0] * 4,
                group=9 if i == 3 else 1,
                strides=[2, 2] if i == 5 else [1, 1],
            )
        )
        tensors[f"b{i}"] = 0.1 * rng.normal(size=9)
        nodes.append(node("Relu", [f"c{i}"], [f"r{i}"]))
        value = f"r{i}"
    tensors |= {"wf": rng.normal(size=(9, 5)), "bf": rng.normal(size=5)}
    nodes += [
        node("GlobalAveragePool", [value], ["pool"]),
        node("Flatten", ["pool"], ["flat"]),
        node("Gemm", ["flat", "wf", "bf"], ["y"]),
    ]
    ports = [models.value("x", "float32", [1, 6, 13, 16])], [models.value("y", "float32", [1, 5])]
    tensors = {name: of.astype(np.float32) for name, of in tensors.items()}
    return models.save(tmp_path_factory.mktemp("layers") / "m.onnx", nodes, *ports, tensors)


def samples(seed, count):
    rng = np.random.default_rng(seed)
    return [{"x": (rng.normal(size=(1, 6, 13, 16)) + 1.5).astype(np.float32)} for _ in range(count)]


@pytest.fixture(scope="module")
def calibrated(model, tmp_path_factory):
    path, seen = tmp_path_factory.mktemp("ranges") / "r.json", []
    lowtide.calibrate(
        model, path, samples=samples(1, 12), correct_layers=True, choice_progress=lambda *of: seen.append(of)
    )
    assert (12, 12) in seen and seen[-1][0] == seen[-1][1] >= DEPTH - 1
    return path


def off(model, tflite):
    """By how much the outputs' means are off, in units of their spread: the largest. On the samples that the shifts are of."""
    with lowtide.Runner(model) as reference, lowtide.Runner(tflite) as tested:
        pairs = [(reference.run(of)["y"], tested.run(of)["y"]) for of in samples(1, 12)]
    expected, got = (np.concatenate(of).astype(np.float64) for of in zip(*pairs, strict=True))
    return np.abs((got - expected).mean(axis=0)).max() / expected.std(axis=0).mean()


@pytest.mark.parametrize("equalize", ["channels", "none"])
def test_means_stay_where_they_are(model, tmp_path, equalize):
    settings = {"quantize": "int8", "range": "mse", "equalize": equalize}
    content = lowtide.calibrate(model, samples=samples(1, 12), choose="none").content
    progress = {"progress": lambda done, of: None}
    shifts = layers.measure(str(model), content, settings, samples(1, 12), max_rss=None, threads=1, **progress)
    ranges.write_ranges(str(tmp_path / "r.json"), layers.with_shifts(content, shifts))
    found = {}
    for correct in ("none", "means", "layers"):
        done = lowtide.convert(model, tmp_path / "m.tflite", ranges=tmp_path / "r.json", correct=correct, **settings)
        assert done.report["integers"]["float_islands"] == []
        found[correct] = off(model, done.output)
    print(equalize, found)
    assert found["layers"] < found["means"] / (3 if equalize == "none" else 1) and found["layers"] < found["none"] / 5


def test_the_ranges_file(model, calibrated):
    content = json.loads(calibrated.read_text())
    schema = json.loads((converter.ROOT / "schemas/ranges.schema.json").read_text())
    assert json_schema.faults(content, schema, "ranges") == []
    shifts = {name: of["channel_shift"] for name, of in content["tensors"].items() if "channel_shift" in of}
    assert {f"r{i}" for i in range(DEPTH - 1)} <= shifts.keys()
    assert all(len(of) == len(content["tensors"][name]["channel_mean"]) for name, of in shifts.items())
    assert len(content["choice"]["decibels"]) == 13
    # Otherwise the file is as it is without.
    plain = lowtide.calibrate(model, samples=samples(1, 12)).content
    for of in content["tensors"].values():
        of.pop("channel_shift", None)
    assert plain["tensors"] == content["tensors"]


def test_convert_follows_the_choice(model, calibrated, tmp_path):
    content = json.loads(calibrated.read_text())
    files = []
    for correct, options in (("layers", {}), ("means", {"correct": "layers"}), ("means", {})):
        content["choice"]["correct"] = correct
        (tmp_path / "r.json").write_text(json.dumps(content))
        done = lowtide.convert(model, tmp_path / "m.tflite", quantize="int8", ranges=tmp_path / "r.json", **options)
        files.append(done.output.read_bytes())
    assert files[0] == files[1] != files[2]


def test_what_it_needs(model, tmp_path, capsys):
    with pytest.raises(lowtide.Usage, match="correct_layers needs 4 samples or more"):
        lowtide.calibrate(model, samples=samples(1, 3), correct_layers=True)
    with pytest.raises(lowtide.Usage, match="correct_layers needs the choice of settings"):
        lowtide.calibrate(model, samples=samples(1, 4), correct_layers=True, choose="none")
    np.savez(tmp_path / "s.npz", x=np.stack([of["x"] for of in samples(1, 3)]))
    assert main(["calibrate", str(model), "--samples", str(tmp_path / "s.npz"), "--correct-layers"]) == 2
    assert "needs 4 samples or more" in capsys.readouterr().err
