# SPDX-License-Identifier: Apache-2.0
"""A network that an accelerator of integers runs but for one operator: trained on scikit-learn's labelled digits, divided
for the accelerator, its pieces calibrated and converted to int8, and run by the names of the values between them.

The description of a target has no word for "int8 only" of a model of floats: its `dtypes` are those of the ONNX model,
before anything is quantized. So the pieces of the target are .onnx files, and that they are integers throughout is asked of
`convert`: --require-integer, and --io int8 for their inputs and outputs.
"""

import json

import numpy as np
import onnxruntime
import pytest

import lowtide
from lowtide import ranges
from lowtide.matching import quantized
from lowtide.tflite_graph import TfliteGraph
from tests.partition.digits_network import Network
from tests.partition.test_pieces import partition, read
from tests.support import converter

datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed (tests/requirements.txt)")

TRAINED, CALIBRATED, UNSEEN = 1200, 48, 100
# A stage is one unit. Tanh, behind the second one, is what the accelerator lacks.
STAGE = ["Conv", "BatchNormalization", "Relu", "MaxPool"]
ACCELERATOR = {
    "format": "lowtide-target",
    "version": 1,
    "name": "stages",
    "source": "the accelerator study of docs/partition.md",
    "writes": "onnx",
    "patterns": [{"ops": STAGE}],
    "operators": [
        {
            "op": "Conv",
            "inputs": [{"at": 1, "constant": True}, {"at": 0, "rank": [4, 4]}],
            "attributes": [{"name": "group", "values": [1], "default": 1}],
        },
        {"op": "BatchNormalization", "only_in_pattern": True},
        {"op": "Relu", "only_in_pattern": True},
        {"op": "MaxPool", "only_in_pattern": True, "attributes": [{"name": "kernel_shape", "values": [2]}]},
        {"op": "AveragePool"},
        {"op": "Flatten"},
        {"op": "Softmax"},
    ],
}
# Of TFLite's schema: INT8, and INT32 for biases and shapes.
INTEGERS = {9, 2}


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setenv("LOWTIDE", str(converter.program()))


@pytest.fixture(scope="module")
def digits():
    """Images [n, 16, 24, 1] from 0 to 1, and labels."""
    found = datasets.load_digits()
    order = np.random.default_rng(1).permutation(len(found.images))
    images = np.kron(found.images[order] / 16, np.ones((1, 2, 3)))
    return images[..., None].astype(np.float32), found.target[order]


@pytest.fixture(scope="module")
def model(digits, tmp_path_factory):
    network = Network()
    network.train(digits[0][:TRAINED], digits[1][:TRAINED], 5)
    return network.save(tmp_path_factory.mktemp("digits") / "digits.onnx")


@pytest.fixture(scope="module")
def pieces(model):
    """The folder of pieces."""
    target, folder = model.with_name("stages.json"), model.with_name("pieces")
    target.write_text(json.dumps(ACCELERATOR))
    partition(model, folder, "--target", target, "--prefer", "coverage")
    return folder


def feed(image):
    return {"image": image.transpose(2, 0, 1)[None]}


class Integers:
    """A piece in int8: real numbers at its border, as the host of an accelerator quantizes them."""

    def __init__(self, path):
        self.runner = lowtide.Runner(path)
        with TfliteGraph(str(path)) as graph:
            self.scales = {value.name: value.quantization.over(1) for value in graph.values if value.quantization}
            self.dtypes = {value.tensor.type for value in graph.values}

    def run(self, values):
        ports = self.runner.inputs
        given = {name: quantized(values[name], *self.scales[name], ports[name].dtype) for name in ports}
        made = self.runner.run(given)
        return {
            name: ((array - self.scales[name][1]) * self.scales[name][0]).astype(np.float32)
            for name, array in made.items()
        }


def converted(folder, out):
    """The pieces in the order in which they run: those of the accelerator in int8 by the ranges in `out`, the others as they are."""
    found = []
    for piece in read(folder)["pieces"]:
        file = folder / piece["file"]
        if piece["in_target"]:
            file = out / f"{file.stem}.tflite"
            lowtide.convert(
                folder / piece["file"],
                file,
                quantize="int8",
                ranges=out / f"{file.stem}.ranges.json",
                require_integer=True,
                io="int8",
            )
        found.append(Integers(file) if piece["in_target"] else lowtide.Runner(file))
    return found


def agreement(model, images, run):
    """The share of images whose likeliest digit is that of ONNX Runtime on the whole model."""
    session = onnxruntime.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    return np.mean([session.run(None, feed(i))[0].argmax() == run(feed(i))["chances"].argmax() for i in images])


def by_names(pieces, values):
    for piece in pieces:
        ports = (piece.runner if isinstance(piece, Integers) else piece).inputs
        values = {**values, **piece.run({name: values[name] for name in ports})}
    return values


def test_the_division(model, pieces):
    manifest = read(pieces)
    assert [(piece["runtime"], piece["in_target"]) for piece in manifest["pieces"]] == [
        ("onnx", True),
        ("onnx", False),
        ("onnx", True),
    ]
    places = {node["name"]: node["piece"] for node in manifest["nodes"]}
    assert [node["op"] for node in manifest["nodes"][:8]] == STAGE * 2 and manifest["nodes"][8]["op"] == "Tanh"
    assert list(places.values()) == [0] * 8 + [1] + [2] * 12
    found = lowtide.verify(model, pieces, random=3, rtol=1e-5, by_tensor=True)
    assert found.passed and [of.name for of in found.tensors] == ["pool7", "Tanh8"]


def test_a_stage_goes_as_a_whole(model, tmp_path):
    """One operator of the first stage is excluded: none of the stage is in the accelerator, which has the others."""
    target = tmp_path / "stages.json"
    target.write_text(json.dumps(ACCELERATOR))
    options = ("--target", target, "--prefer", "coverage", "--exclude-node", "Relu2")
    partition(model, tmp_path / "pieces", *options)
    manifest = read(tmp_path / "pieces")
    inside = [manifest["pieces"][node["piece"]]["in_target"] for node in manifest["nodes"]]
    assert inside == [False] * 4 + [True] * 4 + [False] + [True] * 12


def without_data(folder, out):
    """Ranges files that say of every value that it is from -1 to 1, as fixed-point accelerators have it by default."""
    out.mkdir()
    for path in folder.iterdir():
        content = ranges.read_ranges(str(path))
        content.pop("choice", None)
        uniform = {"counts": [1] * 256, "low": -1.0, "width": 2.0**-7}
        for name in content["tensors"]:
            content["tensors"][name] = {"min": -1.0, "max": 1.0, "elements": 256, "histogram": uniform}
        ranges.write_ranges(str(out / path.name), content)


def test_calibrated_pieces_agree_with_onnx_runtime(model, pieces, digits, tmp_path):
    images, labels = digits
    unseen = images[TRAINED : TRAINED + UNSEEN]
    calibrated, uncalibrated = tmp_path / "calibrated", tmp_path / "uncalibrated"
    lowtide.calibrate_pieces(pieces, calibrated, samples=[feed(image) for image in images[:CALIBRATED]])
    without_data(calibrated, uncalibrated)
    shares = {}
    for folder in (calibrated, uncalibrated):
        integers = converted(pieces, folder)
        assert {dtype for piece in integers if isinstance(piece, Integers) for dtype in piece.dtypes} <= INTEGERS
        shares[folder.name] = agreement(model, unseen, lambda values, run=integers: by_names(run, values))
    with lowtide.Runner(pieces) as runner:
        floats = agreement(model, unseen, runner.run)
        right = np.mean([runner.run(feed(i))["chances"].argmax() == n for i, n in zip(unseen, labels[TRAINED:])])
    print(
        f"top-1 agreement with ONNX Runtime: calibrated {shares['calibrated']:.0%}, uncalibrated "
        f"{shares['uncalibrated']:.0%}, pieces of floats {floats:.0%} (of these {right:.0%} right)"
    )
    assert right > 0.95 and floats == 1
    assert shares["calibrated"] >= 0.98
    assert shares["uncalibrated"] < shares["calibrated"] - 0.1
