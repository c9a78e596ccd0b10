# SPDX-License-Identifier: Apache-2.0
"""What docs/safety.md promises of links, and of temporaries that a killed run left."""

import os
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import converter
from tests.tools.test_command_line import run


@pytest.fixture
def model(tmp_path):
    """m.onnx with its weights in w.bin."""
    weight = numpy_helper.from_array(np.ones((8, 3, 1, 1), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 4, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8, 4, 5])],
        [weight],
    )
    folder = tmp_path / "model"
    folder.mkdir()
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8),
        folder / "m.onnx",
        save_as_external_data=True,
        location="w.bin",
        size_threshold=0,
    )
    return folder


def status(folder, *arguments):
    done = run(folder, "convert", *arguments)
    return done.returncode, done.stderr


def test_the_model_and_its_folder_may_be_links(model, tmp_path):
    (model / "linked.onnx").symlink_to("m.onnx")
    assert status(model, "linked.onnx") == (0, "")
    (tmp_path / "linked").symlink_to("model")
    assert status(tmp_path, "linked/m.onnx") == (0, "")
    os.link(model / "m.onnx", model / "hard.onnx")
    assert status(model, "hard.onnx") == (0, "")
    # Weights are looked for beside the name that was given, not beside what the link leads to.
    (tmp_path / "elsewhere.onnx").symlink_to("model/m.onnx")
    code, text = status(tmp_path, "elsewhere.onnx")
    assert code == 3 and "'w.bin' cannot be opened" in text, text


@pytest.mark.parametrize("where", ["inside", "outside"])
def test_external_data_are_no_links(where, model, tmp_path):
    target = (model if where == "inside" else tmp_path) / "target.bin"
    (model / "w.bin").rename(target)
    (model / "w.bin").symlink_to(target)
    code, text = status(model, "m.onnx")
    assert code == 7 and "a symbolic link" in text, text
    (model / "w.bin").unlink()
    os.link(target, model / "w.bin")
    code, text = status(model, "m.onnx")
    assert code == 7 and "a hard link" in text, text


def test_no_folder_on_the_way_to_external_data_is_a_link(model):
    loaded = onnx.load(model / "m.onnx", load_external_data=False)
    (model / "real").mkdir()
    (model / "w.bin").rename(model / "real/w.bin")
    (model / "linked").symlink_to("real")
    for folder, expected in {"real": 0, "linked": 7}.items():
        loaded.graph.initializer[0].external_data[0].value = f"{folder}/w.bin"
        (model / "m.onnx").write_bytes(loaded.SerializeToString())
        assert status(model, "m.onnx")[0] == expected, folder


def test_an_output_that_is_a_link_is_replaced(model, tmp_path):
    for name in ("m.tflite", "r.json"):
        (tmp_path / name).write_text("precious")
        (model / name).symlink_to(tmp_path / name)
    assert status(model, "m.onnx", "--report", "r.json")[0] == 0
    assert (tmp_path / "m.tflite").read_text() == (tmp_path / "r.json").read_text() == "precious"
    assert not (model / "m.tflite").is_symlink() and not (model / "r.json").is_symlink()


def test_the_next_run_to_the_same_output_removes_what_a_killed_one_left(model):
    """A run to another output in the folder does not, and one that lives is left alone."""
    dead, other = model / ".m.tflite.lowtide-1-0123abcd", model / ".n.tflite.lowtide-1-0123abcd"
    held = model / ".m.tflite.lowtide-2-0123abcd"
    for path in (dead, other, held):
        path.write_text("left")
    holder = subprocess.Popen(
        ["flock", held, "sh", "-c", "echo; read line"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    holder.stdout.readline()
    assert status(model, "m.onnx", "-o", "k.tflite")[0] == 0
    assert dead.exists() and other.exists() and held.exists()
    assert status(model, "m.onnx")[0] == 0
    assert not dead.exists() and other.exists() and held.exists()
    holder.communicate(b"\n")
    assert status(model, "m.onnx")[0] == 0
    assert not held.exists() and other.exists()
    assert status(model, "m.onnx", "-o", "n.tflite")[0] == 0
    assert not other.exists()


def test_a_kill_leaves_one_temporary_of_the_name(tmp_path):
    assert run(tmp_path, "make-model", "conv-stack", "--size", "512M", "-o", "m.onnx").returncode == 0
    process = subprocess.Popen(
        [converter.program(), "convert", "m.onnx"], cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while process.poll() is None and not list(tmp_path.glob(".m.tflite.lowtide-*")):
        pass
    process.kill()
    process.wait()
    left = [p.name for p in tmp_path.glob(".*")]
    assert len(left) <= 1 and all(name.startswith(f".m.tflite.lowtide-{process.pid}-") for name in left), left
    assert run(tmp_path, "convert", "m.onnx").returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.tflite"]
