# SPDX-License-Identifier: Apache-2.0
"""verify and calibrate over folders of pieces: what they find, and what they say of wrong ones."""

import errno
import json
import os

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import lowtide
import lowtide.ranges
from lowtide.__main__ import main
from tests.partition import models
from tests.partition.test_pieces import partition
from tests.support import converter, json_schema

RANGES = json.loads((converter.ROOT / "schemas/ranges.schema.json").read_text())
# All but Sin.
TARGET = {
    "format": "lowtide-target",
    "version": 1,
    "name": "tiny",
    "writes": "onnx",
    "operators": [{"op": op} for op in ("Conv", "Relu", "MaxPool", "GlobalAveragePool", "Add")],
}


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setenv("LOWTIDE", str(converter.program()))


def divided(mixed, folder, *options):
    """The model and its pieces."""
    path = mixed.save(folder / "m.onnx")
    partition(path, folder / "pieces", *(options or mixed.options))
    return path, folder / "pieces"


@pytest.fixture
def mixed(tmp_path):
    return divided(models.convolutions(), tmp_path)


@pytest.fixture
def in_onnx(tmp_path):
    target = tmp_path / "tiny.json"
    target.write_text(json.dumps(TARGET))
    return divided(models.convolutions(), tmp_path, "--target", target, "--prefer", "coverage")


def with_other_weights(path, name):
    """A model that differs in one weight."""
    model = onnx.load(path)
    for tensor in model.graph.initializer:
        if tensor.name == name:
            tensor.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(tensor) * np.float32(1.5), name))
    out = path.with_name("other.onnx")
    onnx.save(model, out)
    return out


# ---- verify -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [None, "600M"])
def test_pieces_are_compared_with_the_model(mixed, limit):
    found = lowtide.verify(*mixed, random=3, rtol=1e-5, by_tensor=True, max_rss=limit)
    assert found.passed and found.samples == 3 and found.uncompared == 0
    assert [of.name for of in found.outputs] == ["y"] and found.outputs[0].dtype == "float32"
    assert {of.name for of in found.tensors} == {"b", "c", "f"} - ({"f"} if len(found.tensors) == 2 else set())
    assert found.tflite == "3 pieces, 2 in LiteRT, 1 in ONNX Runtime" and "ONNX Runtime" in found.onnx
    assert json.loads(json.dumps(found.values(), allow_nan=False))["passed"]


def test_the_first_value_that_differs(mixed):
    path, pieces = mixed
    found = lowtide.verify(with_other_weights(path, "v"), pieces, by_tensor=True)
    assert not found.passed and found.first_difference.name == "y"
    found = lowtide.verify(with_other_weights(path, "w"), pieces, by_tensor=True)
    assert not found.passed and found.first_difference.name == "b"


def test_strings_are_equal_or_not(tmp_path):
    words = models.answers()
    path, pieces = divided(words, tmp_path)
    found = lowtide.verify(path, pieces, inputs=words.feed)
    assert found.passed and [of.dtype for of in found.outputs] == ["string", "float32"]
    other = models.answers()
    other.nodes[-1] = models.node(
        "LabelEncoder",
        "best",
        "y",
        domain="ai.onnx.ml",
        keys_int64s=[0, 1, 3],
        values_strings=["ebb", "high", "slack"],
        default_string="low",
    )
    found = lowtide.verify(other.save(tmp_path / "other.onnx"), pieces, inputs=words.feed)
    assert not found.passed and found.first_difference.name == "y"
    assert "of the strings differ" in found.first_difference.problem


def test_pieces_in_the_place_of_the_model(in_onnx, tmp_path):
    """For models that do not fit: the reference runs in pieces."""
    path, pieces = in_onnx
    done = lowtide.convert(path, tmp_path / "m.tflite")
    assert lowtide.verify(pieces, done.output, rtol=1e-5, random=2).passed
    assert lowtide.verify(pieces, pieces, by_tensor=True, rtol=0, atol=0).passed
    assert not lowtide.verify(
        pieces, lowtide.convert(with_other_weights(path, "v"), tmp_path / "o.tflite").output
    ).passed


def test_dynamic_dimensions(tmp_path):
    path, pieces = divided(models.borders(), tmp_path)
    assert lowtide.verify(path, pieces, shape={"x": [5, 3, 4]}, by_tensor=True).passed
    with pytest.raises(lowtide.Usage, match=r"input 'x' is float32\[batch, 3, 4\], not \[5, 3, 5\]"):
        lowtide.verify(path, pieces, shape={"x": [5, 3, 5]})


@pytest.mark.parametrize(
    "options, status, words",
    [
        (["{model}", "{pieces}", "--by-op"], 2, "by_op is for a .tflite file and its ONNX model"),
        (["{model}", "{pieces}", "--layout", "x=nhwc"], 2, "layout is for .tflite files"),
        (["{model}", "{model}"], 2, "is neither a .tflite file nor a folder of pieces"),
        (["{model}", "{empty}"], 3, "manifest.json"),
        (["{model}", "{none}"], 3, "cannot be opened"),
        (["{renamed}", "{pieces}"], 8, "the output 'z' of the model is not there; its outputs are 'y'"),
        (["{retyped}", "{pieces}"], 2, "the output 'y' is float32, and float64 in the model"),
        (
            ["{model}", "{pieces}", "--rtol", "0", "--atol", "0", "--min-snr", "400"],
            12,
            "'y' (float32): signal-to-noise",
        ),
    ],
)
def test_wrong_use_of_verify(mixed, tmp_path, capsys, options, status, words):
    path, pieces = mixed
    (tmp_path / "empty").mkdir()
    renamed = models.convolutions()
    renamed.nodes[-1].output[0], renamed.outputs[0].name = "z", "z"
    retyped = models.convolutions()
    retyped.nodes[-1].output[0] = "before"
    retyped.nodes.append(models.node("Cast", "before", "y", to=11))
    retyped.outputs[0].type.tensor_type.elem_type = 11
    places = {
        "model": path,
        "pieces": pieces,
        "empty": tmp_path / "empty",
        "none": tmp_path / "none",
        "renamed": renamed.save(tmp_path / "renamed.onnx"),
        "retyped": retyped.save(tmp_path / "retyped.onnx"),
    }
    assert main(["verify", *(text.format(**places) for text in options)]) == status
    text = capsys.readouterr().err
    assert words in text and text.count("\n") == 1


# ---- calibrate --------------------------------------------------------------------------------------------------------


def samples(count):
    rng = np.random.default_rng(count)
    return [{"x": rng.normal(size=(2, 3, 9, 11)).astype(np.float32)} for _ in range(count)]


def assert_ranges_agree(found, expected):
    assert found["min"] == pytest.approx(expected["min"], abs=1e-5)
    assert found["max"] == pytest.approx(expected["max"], abs=1e-5)
    assert found["elements"] == expected["elements"]
    np.testing.assert_allclose(found.get("channel_mean", []), expected.get("channel_mean", []), atol=1e-5)


def test_ranges_of_pieces_have_the_names_of_the_model(in_onnx, tmp_path):
    path, pieces = in_onnx
    found = lowtide.calibrate_pieces(pieces, tmp_path / "ranges", samples=samples(5))
    assert sorted(file.name for file in (tmp_path / "ranges").iterdir()) == ["0.ranges.json", "2.ranges.json"]
    assert list(found.pieces) == ["0.onnx", "2.onnx"] and found.samples == 5 and found.content is None
    whole = lowtide.calibrate(path, samples=samples(5), choose="none").content["tensors"]
    seen = set()
    for name, of in found.pieces.items():
        content = json.loads((tmp_path / "ranges" / f"{name[0]}.ranges.json").read_text())
        assert json_schema.faults(content, RANGES, "ranges") == [] and content == of.content
        for tensor, ranges in content["tensors"].items():
            assert_ranges_agree(ranges, {**whole[tensor], "channel_mean": ranges.get("channel_mean", [])})
            seen.add(tensor)
        done = lowtide.convert(
            pieces / name,
            tmp_path / f"{name}.tflite",
            quantize="int8",
            ranges=tmp_path / "ranges" / f"{name[0]}.ranges.json",
            require_integer=True,
        )
        assert done.report["integers"]["float_islands"] == []
    assert seen == set(whole)


def test_ranges_of_the_model_by_way_of_its_pieces(in_onnx, tmp_path):
    path, pieces = in_onnx
    out = tmp_path / "m.ranges.json"
    found = lowtide.calibrate_pieces(pieces, out, samples=samples(3), model=path, max_rss="600M")
    whole = lowtide.calibrate(path, samples=samples(3), choose="none").content
    content = json.loads(out.read_text())
    assert json_schema.faults(content, RANGES, "ranges") == [] and content == found.content
    assert {**content, "tensors": None} == {**whole, "tensors": None}
    assert set(content["tensors"]) == set(whole["tensors"])
    for name, of in whole["tensors"].items():
        assert_ranges_agree(content["tensors"][name], of)
    lowtide.convert(path, tmp_path / "m.tflite", quantize="int8", ranges=out)
    assert lowtide.verify(path, tmp_path / "m.tflite", inputs=samples(1), min_snr=20).passed


def test_weights_in_place(tmp_path):
    """A division for memory alone: nothing is copied, and the ranges are those of the whole model."""
    path, pieces = tmp_path / "m.onnx", tmp_path / "pieces"
    converter.run("make-model", "conv-stack", "--size", "1M", "-o", path, "-q")
    partition(path, pieces, "--target", "onnx", "--weights", "in-place", "--max-piece", "500K")
    assert lowtide.verify(path, pieces, by_tensor=True, rtol=1e-5).passed
    with lowtide.Runner(path) as runner:
        shape = runner.inputs["input"].shape
    given = [{"input": np.random.default_rng(i).normal(size=shape).astype(np.float32)} for i in range(3)]
    found = lowtide.calibrate_pieces(pieces, samples=given, model=path, max_rss="600M")
    whole = lowtide.calibrate(path, samples=given, choose="none").content["tensors"]
    assert len(found.pieces) > 1 and set(found.content["tensors"]) == set(whole)
    for name, of in whole.items():
        assert_ranges_agree(found.content["tensors"][name], of)
    with pytest.raises(lowtide.Unsupported, match="divide the model with --weights copy"):
        lowtide.calibrate_pieces(pieces, samples=given)


def test_layers_of_three_pieces_that_mean_several_axes(tmp_path):
    """The third piece brought back the means that the first two do not agree on."""
    generator = np.random.default_rng(1)
    shapes = {"a": (64, 64, 3, 3), "b": (64, 64), "c": (64, 64, 3, 3)}
    nodes = [
        onnx.helper.make_node("Conv", ["x", "a"], ["p"]),
        onnx.helper.make_node("MatMul", ["x", "b"], ["q"]),
        onnx.helper.make_node("Conv", ["x", "c"], ["r"]),
    ]
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 64, 3, 64])],
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "pqr"],
        [numpy_helper.from_array(generator.random(shape, np.float32), name) for name, shape in shapes.items()],
    )
    path, pieces = tmp_path / "m.onnx", tmp_path / "pieces"
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8), path)
    partition(path, pieces, "--target", "onnx", "--max-piece", "230K")
    given = [{"x": generator.random((1, 64, 3, 64), np.float32)}]
    found = lowtide.calibrate_pieces(pieces, samples=given, model=path)
    alone = lowtide.calibrate_pieces(pieces, samples=given)
    assert [one.content["tensors"]["x"]["channel_axis"] for one in alone.pieces.values()] == [1, 3, 1]
    assert "channel_axis" not in found.content["tensors"]["x"]


def test_pieces_that_take_strings(tmp_path):
    """All pieces are .onnx, and the first one, which is not in the target, takes strings."""
    target = tmp_path / "tiny.json"
    target.write_text(json.dumps({**TARGET, "operators": [{"op": op} for op in ("Gather", "MatMul", "Tanh")]}))
    words = models.words()
    path, pieces = divided(words, tmp_path, "--target", target, *words.options)
    found = lowtide.calibrate_pieces(pieces, samples=[words.feed], model=path)
    assert list(found.pieces) == ["0.onnx", "1.onnx"] and {"rows", "a", "y"} <= set(found.content["tensors"])


def test_the_command(in_onnx, tmp_path, capsys):
    path, pieces = in_onnx
    (tmp_path / "samples").mkdir()
    for i, sample in enumerate(samples(4)):
        np.savez(tmp_path / f"samples/{i}.npz", **sample)
    given = ["--samples", str(tmp_path / "samples")]
    assert main(["calibrate", f"{pieces}/", *given]) == 0
    assert "pieces.ranges/0.ranges.json: " in capsys.readouterr().out
    assert (tmp_path / "pieces.ranges/2.ranges.json").is_file()
    assert main(["calibrate", str(pieces), *given, "--of", str(path)]) == 0
    assert f"{tmp_path / 'm.ranges.json'}: " in capsys.readouterr().out and (tmp_path / "m.ranges.json").is_file()


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["{tflite}"], 8, "0.tflite is converted already: its inner tensors are no values of the model"),
        (["{none}"], 8, "no piece is in the target"),
        (["{pieces}", "--of", "{other}"], 8, "which has no value"),
        (["{pieces}", "--of", "{missing}"], 3, "cannot be opened"),
        (["{pieces}", "--of", "{model}", "--choose", "int8"], 2, "are not tried on the pieces of a model"),
        (["{pieces}", "--of", "{model}", "--correct-layers"], 2, "are not tried on the pieces of a model"),
        (["{model}", "--of", "{model}"], 2, "--of is for folders of pieces"),
        (["{empty}"], 3, "manifest.json"),
        (["{pieces}", "-o", "{model}"], 4, "cannot be made"),
        (["{pieces}", "--samples", "{empty}"], 3, "has no file *.npz"),
    ],
)
def test_wrong_use_of_calibrate(in_onnx, tmp_path, capsys, arguments, status, words):
    path, pieces = in_onnx
    for name, options in (("tflite", ()), ("none", [f"--exclude-op={of['op']}" for of in TARGET["operators"]])):
        partition(path, tmp_path / name, "--exclude-op", "Sin", "--prefer", "coverage", *options)
    other = models.trees()
    np.savez(tmp_path / "s.npz", **samples(1)[0])
    (tmp_path / "empty").mkdir()
    names = {name: tmp_path / name for name in ("tflite", "none", "missing", "empty", "pieces")}
    names |= {"model": path, "other": other.save(tmp_path / "other.onnx")}
    given = [] if "--samples" in arguments else ["--samples", str(tmp_path / "s.npz")]
    before = path.read_bytes()
    assert main(["calibrate", *(text.format(**names) for text in arguments), *given]) == status
    text = capsys.readouterr().err
    assert words in text and text.count("\n") == 1 and path.read_bytes() == before


@pytest.mark.parametrize("output", ["ranges", "new/folder/ranges"])
def test_a_calibration_that_fails_leaves_nothing(in_onnx, tmp_path, output, monkeypatch):
    bad = [*samples(2), {"x": np.zeros((2, 3), np.float32)}]
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(lowtide.Usage, match="input 'x' is"):
        lowtide.calibrate_pieces(in_onnx[1], tmp_path / output, samples=bad)
    assert sorted(tmp_path.rglob("*")) == before
    text, calls = lowtide.ranges.ranges_text, []

    def full(content):
        calls.append(content)
        if len(calls) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return text(content)

    monkeypatch.setattr("lowtide.ranges.ranges_text", full)
    with pytest.raises(lowtide.Io, match=r"2\.ranges\.json: cannot be written: No space left on device"):
        lowtide.calibrate_pieces(in_onnx[1], tmp_path / output, samples=samples(2))
    assert sorted(tmp_path.rglob("*")) == before and len(calls) == 2


def test_a_calibration_that_fails_keeps_what_is_there(in_onnx, tmp_path):
    (tmp_path / "ranges").mkdir()
    (tmp_path / "ranges/0.ranges.json").write_text("old")
    bad = [*samples(2), {"x": np.zeros((2, 3), np.float32)}]
    with pytest.raises(lowtide.Usage):
        lowtide.calibrate_pieces(in_onnx[1], tmp_path / "ranges", samples=bad)
    assert [path.read_text() for path in (tmp_path / "ranges").iterdir()] == ["old"]


def test_a_folder_is_not_for_calibrate(in_onnx):
    with pytest.raises(lowtide.Usage, match="is a folder; calibrate_pieces is for"):
        lowtide.calibrate(in_onnx[1], samples=samples(1))
    with pytest.raises(lowtide.Unsupported, match="no samples"):
        lowtide.calibrate_pieces(in_onnx[1], samples=[])
    with pytest.raises(TypeError, match="PathLike"):
        lowtide.calibrate_pieces(3, samples=samples(1))
