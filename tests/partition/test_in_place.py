# SPDX-License-Identifier: Apache-2.0
"""--weights in-place: .onnx pieces read weights from the files of the model that was divided."""

import hashlib
import json
import os
import shutil

import numpy as np
import onnx
import pytest

import lowtide
from tests.partition import models
from tests.partition.test_pieces import agree, partition, read, whole
from tests.support import converter

OPTIONS = ("--weights", "in-place", "--target", "onnx")


@pytest.fixture(autouse=True)
def program(monkeypatch):
    monkeypatch.setenv("LOWTIDE", str(converter.program()))


def stack(folder, *options, size="256K"):
    path = folder / "m.onnx"
    assert converter.run("make-model", "conv-stack", "--size", size, *options, "-o", path, "-q").returncode == 0
    return path


def feed_of(path):
    with lowtide.Runner(path) as runner:
        port = runner.inputs["input"]
    return {"input": np.random.default_rng(3).random(port.shape, np.float32)}


def run(folder, feed, **how):
    with lowtide.Runner(folder, **how) as runner:
        return runner.run(feed)


def bytes_in(folder):
    return sum(entry.stat().st_size for entry in folder.iterdir())


@pytest.mark.parametrize("where", [(), ("--external",)])
def test_nothing_is_copied(where, tmp_path):
    """Weights inside the .onnx file stand at any offset; those beside it at multiples of a page."""
    path = stack(tmp_path, *where)
    shown = partition(path, tmp_path / "pieces", *OPTIONS, "--max-piece", "128K")
    manifest = read(tmp_path / "pieces")
    assert len(manifest["pieces"]) > 2 and all(piece["data"] == [] for piece in manifest["pieces"])
    file = "m.onnx.data" if where else "m.onnx"
    assert [entry["file"] for entry in manifest["in_place"]] == [file] and f"in place in {file}" in shown
    assert manifest["in_place"][0]["bytes"] == (tmp_path / file).stat().st_size
    assert bytes_in(tmp_path / "pieces") < 50_000
    feed = feed_of(path)
    agree(run(tmp_path / "pieces", feed), whole(path, feed))
    agree(run(tmp_path / "pieces", feed, max_rss="512M"), whole(path, feed))


def test_what_has_no_place_is_in_the_piece(tmp_path):
    """Small weights, and those that a piece for TFLite has in another order."""
    mixed = models.convolutions()
    path = mixed.save(tmp_path / "m.onnx")
    partition(path, tmp_path / "pieces", *mixed.options, "--weights", "in-place")
    manifest = read(tmp_path / "pieces")
    assert [piece["runtime"] for piece in manifest["pieces"]] == ["tflite", "onnx", "tflite"]
    assert "in_place" not in manifest
    agree(run(tmp_path / "pieces", mixed.feed), whole(path, mixed.feed))


def test_a_model_behind_a_link(tmp_path):
    """As in caches of models: the folder of pieces stands beside the link."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "here").mkdir()
    stack(tmp_path / "cache").rename(tmp_path / "cache/blob")
    (tmp_path / "here/m.onnx").symlink_to(tmp_path / "cache/blob")
    partition(tmp_path / "here/m.onnx", tmp_path / "here/pieces", *OPTIONS)
    feed = feed_of(tmp_path / "here/m.onnx")
    agree(run(tmp_path / "here/pieces", feed), whole(tmp_path / "cache/blob", feed))


def test_the_folder_may_move_with_the_model(tmp_path, monkeypatch):
    (tmp_path / "a").mkdir()
    path = stack(tmp_path / "a")
    partition(path, tmp_path / "a/pieces", *OPTIONS)
    feed = feed_of(path)
    right = whole(path, feed)
    (tmp_path / "a").rename(tmp_path / "b")
    agree(run(tmp_path / "b/pieces", feed), right)
    monkeypatch.chdir(tmp_path / "b/pieces")
    agree(run(".", feed), right)
    (tmp_path / "link").symlink_to(tmp_path / "b/pieces")
    agree(run(tmp_path / "link", feed), right)


def test_where_the_folder_must_be(tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "other").mkdir()
    path = stack(tmp_path / "model")
    done = converter.run("partition", path, "-o", tmp_path / "other/pieces", *OPTIONS)
    assert done.returncode == 2 and f"choose an output path in {tmp_path / 'model'}" in done.stderr, done
    assert list((tmp_path / "other").iterdir()) == []
    partition(path, tmp_path / "pieces", *OPTIONS)  # above it
    feed = feed_of(path)
    agree(run(tmp_path / "pieces", feed), whole(path, feed))


def test_a_compressed_model_has_no_place(tmp_path):
    path = stack(tmp_path)
    assert os.system(f"zstd -q {path}") == 0
    done = converter.run("partition", f"{path}.zst", *OPTIONS)
    assert done.returncode == 2 and "needs a model that is not compressed" in done.stderr


def test_memory_and_disk(tmp_path):
    path = stack(tmp_path, "--external", "--sparse", size="2G")
    shown = partition(path, tmp_path / "pieces", *OPTIONS, "--max-piece", "256M")
    assert len(read(tmp_path / "pieces")["pieces"]) > 6 and bytes_in(tmp_path / "pieces") < 100_000
    assert float(shown.split("peak RSS ")[1].split()[0]) <= 32, shown


# ---- Untrusted folders ----


@pytest.fixture
def pieces(tmp_path):
    path = stack(tmp_path)
    partition(path, tmp_path / "pieces", *OPTIONS)
    (tmp_path / "secret").write_bytes(b"x" * 300_000)
    return tmp_path / "pieces", feed_of(path)


def change_manifest(folder, change):
    manifest = json.loads((folder / "manifest.json").read_text())
    change(manifest)
    (folder / "manifest.json").write_text(json.dumps(manifest))


def named(name):
    def change(manifest):
        manifest["in_place"][0]["file"] = name

    return change


def with_data(manifest):
    manifest["pieces"][0]["data"] = [{"file": "x", "bytes": 1, "sha256": "0" * 64}]


def twice(manifest):
    manifest["in_place"] *= 2


BAD = {
    "above": (named("../m.onnx"), lowtide.UnsafePath, "not below the folder"),
    "absolute": (named("/etc/passwd"), lowtide.UnsafePath, "not below the folder"),
    "empty": (named(""), lowtide.UnsafePath, "not below the folder"),
    "backslash": (named("..\\m.onnx"), lowtide.UnsafePath, "not below the folder"),
    "missing": (named("n.onnx"), lowtide.NotFound, "keep it beside the folder of the pieces"),
    "a folder": (named("pieces"), lowtide.UnsafePath, "not a regular file"),
    "another file": (named("secret"), lowtide.Malformed, "and the manifest says"),
    "twice": (twice, lowtide.Malformed, "has 'm.onnx' twice"),
    "size": (lambda of: of["in_place"][0].update(bytes=7), lowtide.Malformed, "the manifest says 7"),
    "digest": (lambda of: of["in_place"][0].update(sha256="0" * 64), lowtide.Malformed, "another digest"),
    "no list": (lambda of: of.update(in_place={}), lowtide.Malformed, "in_place is not a list"),
    "more": (lambda of: of["in_place"][0].update(more=1), lowtide.Malformed, "unknown field 'more'"),
    "not listed": (lambda of: of.pop("in_place"), lowtide.UnsafePath, "which the manifest does not list"),
    "data too": (with_data, lowtide.Malformed, "both in place and in data"),
}


@pytest.mark.parametrize("case", BAD)
def test_manifests(case, pieces):
    change, kind, words = BAD[case]
    change_manifest(pieces[0], change)
    with pytest.raises(kind) as caught:
        run(*pieces)
    assert words in str(caught.value) and "\n" not in str(caught.value)


def test_a_piece_that_names_another_file(pieces):
    folder, feed = pieces
    piece = onnx.load(folder / "0.onnx", load_external_data=False)
    for tensor in piece.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                entry.value = "secret"
    onnx.save(piece, folder / "0.onnx")
    text = (folder / "0.onnx").read_bytes()

    def digest(manifest):
        manifest["pieces"][0].update(bytes=len(text), sha256=hashlib.sha256(text).hexdigest())

    change_manifest(folder, digest)
    with pytest.raises(lowtide.UnsafePath, match="'secret', which the manifest does not list"):
        run(folder, feed)


def test_other_weights_are_noticed(pieces):
    folder, feed = pieces
    path = folder.parent / "m.onnx"
    content = bytearray(path.read_bytes())
    content[-1000:] = bytes(1000)
    path.write_bytes(content)
    with pytest.raises(lowtide.Malformed, match="another digest"):
        run(folder, feed)


def test_large_files_are_known_by_samples(tmp_path):
    """The digest that the program writes is the one that the runner computes, and one run of it changed is noticed."""
    path = stack(tmp_path, "--external", size="80M")
    partition(path, tmp_path / "pieces", *OPTIONS)
    shutil.copytree(tmp_path / "pieces", tmp_path / "copy")
    feed = feed_of(path)
    agree(run(tmp_path / "pieces", feed), whole(path, feed))
    with open(tmp_path / "m.onnx.data", "r+b") as file:
        file.seek(-10, os.SEEK_END)
        file.write(b"0123456789")
    with pytest.raises(lowtide.Malformed, match="another digest"):
        run(tmp_path / "copy", feed)
