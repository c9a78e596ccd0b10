# SPDX-License-Identifier: Apache-2.0
"""Untrusted folders of pieces: each thing that is wrong is an error of one line, of the kind that it should be."""

import copy
import hashlib
import json
import os
import shutil

import numpy as np
import onnx
import pytest
from onnx import helper

import lowtide
from lowtide import tflite_header
from tests.partition import models
from tests.support import converter


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    mixed = models.convolutions()
    path = mixed.save(folder / "m.onnx")
    assert converter.run("partition", path, "-o", folder / "pieces", *mixed.options).returncode == 0
    return folder / "pieces", mixed


@pytest.fixture
def pieces(whole, tmp_path):
    shutil.copytree(whole[0], tmp_path / "pieces")
    return tmp_path / "pieces"


def put(*path_and_value):
    *path, value = path_and_value

    def change(manifest):
        at = manifest
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


def drop(*path):
    def change(manifest):
        at = manifest
        for key in path[:-1]:
            at = at[key]
        del at[path[-1]]

    return change


def value_named(name, field, value):
    def change(manifest):
        next(of for of in manifest["values"] if of["name"] == name)[field] = value

    return change


def cycle(manifest):
    """The first piece uses what the last one makes."""
    manifest["pieces"][0]["inputs"].append("y")


def without_producer(manifest):
    manifest["pieces"][1]["outputs"] = []


def made_twice(manifest):
    manifest["pieces"][2]["outputs"].append("b")


def reversed_pieces(manifest):
    manifest["pieces"].reverse()


MANIFESTS = {
    "version": (put("version", 2), lowtide.Malformed, "has version 2; this lowtide reads version 1"),
    "no version": (drop("version"), lowtide.Malformed, "has version None"),
    "format": (put("format", "other"), lowtide.Malformed, "is not the manifest of a divided model"),
    "unknown field": (put("more", 1), lowtide.Malformed, "unknown field 'more'"),
    "missing field": (drop("pieces", 0, "sha256"), lowtide.Malformed, "piece 0 has no field 'sha256'"),
    "pieces are no list": (put("pieces", {}), lowtide.Malformed, "pieces is not a list"),
    "piece is no object": (put("pieces", 0, 3), lowtide.Malformed, "piece 0 is not an object"),
    "name is no text": (put("pieces", 0, "file", 3), lowtide.Malformed, "is not a string"),
    "name above": (put("pieces", 0, "file", "../0.tflite"), lowtide.UnsafePath, "no plain name"),
    "name of a parent": (put("pieces", 0, "file", ".."), lowtide.UnsafePath, "no plain name"),
    "absolute name": (put("pieces", 0, "file", "/etc/passwd"), lowtide.UnsafePath, "no plain name"),
    "name in a folder": (put("pieces", 0, "file", "a/0.tflite"), lowtide.UnsafePath, "no plain name"),
    "empty name": (put("pieces", 0, "file", ""), lowtide.UnsafePath, "no plain name"),
    "name with a null": (put("pieces", 0, "file", "0.tflite\0"), lowtide.UnsafePath, "no plain name"),
    "name with a backslash": (put("pieces", 0, "file", "..\\0.tflite"), lowtide.UnsafePath, "no plain name"),
    "the manifest as a piece": (put("pieces", 0, "file", "manifest.json"), lowtide.UnsafePath, "no plain name"),
    "data above": (
        put("pieces", 0, "data", [{"file": "../x", "bytes": 1, "sha256": "0" * 64}]),
        lowtide.UnsafePath,
        "no plain name",
    ),
    "missing piece": (put("pieces", 0, "file", "9.tflite"), lowtide.NotFound, "9.tflite"),
    "digest": (put("pieces", 0, "sha256", "0" * 64), lowtide.Malformed, "another digest"),
    "short digest": (put("pieces", 0, "sha256", "0" * 63), lowtide.Malformed, "not 64 hexadecimal digits"),
    "no digest": (put("pieces", 0, "sha256", None), lowtide.Malformed, "is not a string"),
    "size": (put("pieces", 0, "bytes", 3), lowtide.Malformed, "the manifest says 3"),
    "negative size": (put("pieces", 0, "bytes", -1), lowtide.Malformed, "not a whole number"),
    "size is a truth": (put("pieces", 0, "bytes", True), lowtide.Malformed, "not a whole number"),
    "runtime": (put("pieces", 0, "runtime", "tensorrt"), lowtide.Malformed, "unknown runtime 'tensorrt'"),
    "other runtime": (put("pieces", 0, "runtime", "onnx"), lowtide.Malformed, "its file is '0.tflite'"),
    "cycle": (cycle, lowtide.Malformed, "uses 'y', which only a later piece makes"),
    "no producer": (without_producer, lowtide.Malformed, "which nothing makes"),
    "made twice": (made_twice, lowtide.Malformed, "which is there already"),
    "order": (reversed_pieces, lowtide.Malformed, "which only a later piece makes"),
    "other producer": (value_named("c", "producer", 0), lowtide.Malformed, "not those that values names"),
    "other last user": (value_named("b", "last_user", 0), lowtide.Malformed, "not those that values names"),
    "seam dtype": (value_named("c", "dtype", "f64"), lowtide.Malformed, "'c' is float32 in piece"),
    "unknown dtype": (value_named("c", "dtype", "f33"), lowtide.Malformed, "unknown dtype 'f33'"),
    "axis order": (value_named("c", "axis_order", "nhwc"), lowtide.Malformed, "unknown axis order 'nhwc'"),
    "shape": (value_named("c", "shape", [1, -2]), lowtide.Malformed, "neither an extent, nor a name, nor null"),
    "seam shape": (value_named("c", "shape", [2, 4, 9, 12]), lowtide.Unsupported, "the pieces were made for"),
    "seam rank": (value_named("c", "shape", [2, 4, 9]), lowtide.Unsupported, "the pieces were made for"),
    "value not listed": (put("values", []), lowtide.Malformed, "values does not have it"),
    "input dtype": (put("inputs", 0, "dtype", "f16"), lowtide.Usage, "input 'x' is float16"),
    "unknown output": (put("outputs", 0, "name", "z"), lowtide.Malformed, "no piece makes the output 'z'"),
    "input of a piece": (put("pieces", 0, "inputs", []), lowtide.Malformed, "do not have the same inputs"),
    "no pieces": (put("pieces", []), lowtide.Malformed, "there are no pieces"),
    "half a pair": (put("pieces", 0, "file", "\ud800.tflite"), lowtide.Malformed, "is not UTF-8"),
    "half a pair in a value": (value_named("c", "name", "\udfff"), lowtide.Malformed, "is not UTF-8"),
    "half a pair in a shape": (value_named("c", "shape", ["\ud800"] * 4), lowtide.Malformed, "is not UTF-8"),
}


def run(folder, feed):
    with lowtide.Runner(folder) as runner:
        runner.run(feed)


@pytest.mark.parametrize("case", MANIFESTS)
def test_manifests(case, pieces, whole):
    change, kind, words = MANIFESTS[case]
    manifest = json.loads((pieces / "manifest.json").read_text())
    before = copy.deepcopy(manifest)
    change(manifest)
    assert manifest != before
    (pieces / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(kind) as caught:
        run(pieces, whole[1].feed)
    assert words in str(caught.value) and "\n" not in str(caught.value)


TEXTS = {
    "empty": b"",
    "not JSON": b"{",
    "not UTF-8": b'{"format": "\xff"}',
    "a list": b"[]",
    "a field twice": b'{"format": "lowtide-manifest", "format": "lowtide-manifest"}',
    "deep": b"[" * 200_000,
    "no number": b'{"format": "lowtide-manifest", "version": NaN}',
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts(case, pieces, whole):
    (pieces / "manifest.json").write_bytes(TEXTS[case])
    with pytest.raises(lowtide.Malformed) as caught:
        run(pieces, whole[1].feed)
    assert "\n" not in str(caught.value)


def test_a_large_manifest(pieces, whole):
    with open(pieces / "manifest.json", "r+b") as file:
        file.truncate((64 << 20) + 1)
    with pytest.raises(lowtide.Malformed, match="larger than 64 MiB"):
        run(pieces, whole[1].feed)


@pytest.mark.parametrize("name", ["manifest.json", "0.tflite", "1.onnx"])
def test_links(name, pieces, whole, tmp_path):
    os.rename(pieces / name, tmp_path / name)
    os.symlink(tmp_path / name, pieces / name)
    with pytest.raises(lowtide.UnsafePath, match="symbolic link"):
        run(pieces, whole[1].feed)


def test_folders_and_pipes(pieces, whole):
    os.remove(pieces / "1.onnx")
    os.mkdir(pieces / "1.onnx")
    with pytest.raises(lowtide.UnsafePath, match="not a regular file"):
        run(pieces, whole[1].feed)
    os.rmdir(pieces / "1.onnx")
    os.mkfifo(pieces / "1.onnx")
    with pytest.raises(lowtide.UnsafePath, match="not a regular file"):
        run(pieces, whole[1].feed)


def test_a_changed_piece(pieces, whole):
    content = bytearray((pieces / "0.tflite").read_bytes())
    content[-20] ^= 1
    (pieces / "0.tflite").write_bytes(content)
    with pytest.raises(lowtide.Malformed, match="another digest"):
        run(pieces, whole[1].feed)


@pytest.mark.parametrize("is_link", [True, False])
def test_data_that_is_not_listed(is_link, tmp_path):
    """It has not been checked, and may be a link to any file of the user."""
    mixed = models.convolutions()
    path, folder = mixed.save(tmp_path / "m.onnx"), tmp_path / "pieces"
    model = onnx.load(path)
    model.graph.initializer.append(models.weight("big", 9, 11, 60))  # large enough to be in a file of its own
    model.graph.node.append(helper.make_node("ReduceSum", ["big"], ["total"], keepdims=0))
    model.graph.node.append(helper.make_node("Mul", ["x", "total"], ["more"], name="more"))
    model.graph.output.append(helper.make_tensor_value_info("more", onnx.TensorProto.FLOAT, None))
    onnx.save(model, path)
    assert converter.run("partition", path, "-o", folder, "--target", "onnx").returncode == 0
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["pieces"]) == 1
    (entry,) = manifest["pieces"][0]["data"]
    run(folder, mixed.feed)
    if is_link:
        os.rename(folder / entry["file"], tmp_path / "secret")
        os.symlink(tmp_path / "secret", folder / entry["file"])
    manifest["pieces"][0]["data"] = []
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(lowtide.UnsafePath, match="which the manifest does not list"):
        run(folder, mixed.feed)
    with pytest.raises(lowtide.UnsafePath, match="which the manifest does not list"):
        lowtide.calibrate_pieces(folder, samples=[mixed.feed])


def test_other_files_of_a_tflite_piece(tmp_path):
    """The program writes none; an untrusted piece may only name what the manifest lists."""
    x, y = models.typed("x", [3, 64]), models.typed("y", [3, 80])
    graph = helper.make_graph([models.node("MatMul", "x,w", "y")], "g", [x], [y], [models.weight("w", 64, 80)])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        tmp_path / "m.onnx",
        save_as_external_data=True,
        location="m.onnx.data",
    )
    path = tmp_path / "m.tflite"
    assert converter.run("convert", tmp_path / "m.onnx", "-o", path, "--weights", "in-place").returncode == 0
    assert tflite_header.read_header(str(path)).external_files == ["m.onnx.data"]
    folder = tmp_path / "pieces"
    assert converter.run("partition", tmp_path / "m.onnx", "-o", folder, "--prefer", "coverage").returncode == 0
    manifest = json.loads((folder / "manifest.json").read_text())
    (piece,) = manifest["pieces"]
    assert piece["runtime"] == "tflite"
    shutil.copy(path, folder / piece["file"])
    shutil.copy(tmp_path / "m.onnx.data", folder)
    piece.update(described(folder / piece["file"]))
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with lowtide.Runner(tmp_path / "m.onnx") as runner:
        feed = {name: np.ones(port.shape, port.dtype) for name, port in runner.inputs.items()}
        right = runner.run(feed)
    with pytest.raises(lowtide.UnsafePath, match="'m.onnx.data', which the manifest does not list"):
        run(folder, feed)
    piece["data"] = [{"file": "m.onnx.data", **described(folder / "m.onnx.data")}]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    with lowtide.Runner(folder) as runner:
        for name, array in runner.run(feed).items():
            np.testing.assert_allclose(array, right[name], rtol=1e-3, atol=1e-3)


def described(path):
    content = path.read_bytes()
    return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_a_folder_without_a_manifest(tmp_path):
    with pytest.raises(lowtide.NotFound, match=r"manifest\.json"):
        lowtide.Runner(tmp_path)


def test_options_of_single_models(pieces):
    with pytest.raises(lowtide.Usage, match="signature is not for folders of pieces"):
        lowtide.Runner(pieces, signature="x")


# ---- Models that are divided -------------------------------------------------------------------------------------------


def named_call(name):
    """A call, under this name, of a function that only ONNX Runtime could run."""
    of = [helper.make_opsetid("", 17), helper.make_opsetid("q", 1), helper.make_opsetid("d", 1)]
    body = [helper.make_node("Relu", ["u"], ["t"]), helper.make_node("Foo", ["t"], ["v"], domain="q", name="in")]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("F", ["a"], ["b"], domain="d", name=name),
        helper.make_node("Relu", ["b"], ["y"]),
    ]
    x, y, b = (models.typed(value, [3, 4]) for value in "xyb")
    function = helper.make_function("d", "F", ["u"], ["v"], body, of)
    graph = helper.make_graph(nodes, "g", [x], [y], value_info=[b])
    return helper.make_model(graph, functions=[function], opset_imports=of, ir_version=8)


def named_sum(name):
    """A call of a function that is found not to have a kernel at the end of a conversion."""
    of = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    body = [helper.make_node("Add", ["u", "w"], ["v"], name="in")]
    nodes = [
        helper.make_node("Relu", ["x"], ["a"]),
        helper.make_node("Relu", ["z"], ["b"]),
        helper.make_node("F", ["a", "b"], ["y"], domain="d", name=name),
    ]
    x, z = models.typed("x", [2, 1] * 4 + [2]), models.typed("z", [1, 2] * 4 + [1])
    function = helper.make_function("d", "F", ["u", "w"], ["v"], body, of)
    graph = helper.make_graph(nodes, "g", [x, z], [models.typed("y", [2] * 9)])
    return helper.make_model(graph, functions=[function], opset_imports=of, ir_version=8)


@pytest.mark.parametrize("number", [0, 99999999999])
@pytest.mark.parametrize("make", [named_call, named_sum])
def test_names_that_look_like_marks(make, number, tmp_path):
    """The end of a long label, which functions put in front of their names, is a mark of the division."""
    mark = f"\x1d{number}\x1d"
    onnx.save(make("L" * 100 + mark + "t" * (256 - len(mark))), tmp_path / "m.onnx")
    done = converter.run("partition", tmp_path / "m.onnx", "--dry-run", "--prefer", "coverage")
    assert done.returncode == 0 and "1 x d.F: " in done.stdout, done


def test_many_ways_to_a_constant(tmp_path):
    nodes = [models.node("Add", f"k{i},k{i}", f"k{i + 1}") for i in range(60)]
    nodes += [models.node("Foo", "x,k60", "y", domain="d")]
    of = [helper.make_opsetid("", 17), helper.make_opsetid("d", 1)]
    x, y = models.typed("x", [3, 4]), models.typed("y", [3, 4])
    graph = helper.make_graph(nodes, "g", [x], [y], [models.weight("k0", 3, 4)])
    onnx.save(helper.make_model(graph, opset_imports=of, ir_version=8), tmp_path / "m.onnx")
    done = converter.run("partition", tmp_path / "m.onnx", "-o", tmp_path / "pieces")
    assert done.returncode == 0, done


@pytest.mark.parametrize(
    "text, words",
    [
        ("(float[3,4] x) => (float[3,4] x) { }", "m.onnx: no output of the model is computed"),
        (
            "(x) => (b) { b = d.Foo (x) }",
            "m.onnx: the type of 'x' is not known, which the pieces need: declare it in the model",
        ),
        ("(float[3,4] x) => (b) { b = d.Foo (x) }", "give it as --value 'b=f32[1,3,?]'"),
    ],
)
def test_models_without_ends(text, words, tmp_path):
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17, "d": 1]> g {text}')
    onnx.save(model, tmp_path / "m.onnx")
    done = converter.run("partition", tmp_path / "m.onnx", "-o", tmp_path / "pieces")
    assert done.returncode not in (0, 1, 11) and words in done.stderr and "--to" not in done.stderr, done
    assert not (tmp_path / "pieces").exists()


@pytest.mark.parametrize("declared", ["seq(float[3,4]) s", "s"])
@pytest.mark.parametrize("options", [(), ("--target", "onnx")])
def test_a_sequence_at_an_end(declared, options, tmp_path):
    """Only tensors pass between pieces, and no folder could be run."""
    model = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]> g (float[3,4] x) => (float[3,4] y, {declared}) '
        "{ y = Relu (x) s = SequenceConstruct (x, y) }"
    )
    onnx.save(model, tmp_path / "m.onnx")
    done = converter.run("partition", tmp_path / "m.onnx", "-o", tmp_path / "pieces", *options)
    assert done.returncode == 8 and done.stderr.count("\n") == 1, done
    assert "m.onnx: the output 's' is no tensor" in done.stderr and "lowtide extract --to" in done.stderr
    assert not (tmp_path / "pieces").exists()


def test_a_sequence_as_an_input(tmp_path):
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (seq(float[3,4]) s, float[3,4] x) => (float[6,4] y, float[3,4] z) '
        "{ y = ConcatFromSequence <axis = 0> (s) z = Relu (x) }"
    )
    onnx.save(model, tmp_path / "m.onnx")
    done = converter.run("partition", tmp_path / "m.onnx", "-o", tmp_path / "pieces")
    assert done.returncode == 8 and "the input 's' is no tensor" in done.stderr, done


def test_a_sparse_output(tmp_path):
    """Its type is that of the initializer."""
    model = onnx.parser.parse_model(
        '<ir_version: 8, opset_import: ["": 17]> g (float[3,4] x) => (float[3,4] y, sp) { y = Relu (x) }'
    )
    values = helper.make_tensor("sp", onnx.TensorProto.FLOAT, [2], [1.5, 2.5])
    indices = helper.make_tensor("i", onnx.TensorProto.INT64, [2], [1, 7])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [3, 4]))
    onnx.save(model, tmp_path / "m.onnx")
    done = converter.run("partition", tmp_path / "m.onnx", "-o", tmp_path / "pieces")
    assert done.returncode == 0, done
