# SPDX-License-Identifier: Apache-2.0
"""Files that the package writes: never over what it reads, all of a file or nothing, and what comes back from an .npz file."""

import os
import resource
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto as T
from onnx import helper

import lowtide
from lowtide import model_files, output_path, ranges, run_command, stored_arrays
from lowtide.__main__ import main
from tests.python import models

RNG = np.random.default_rng(5)
W = RNG.random((8, 5), dtype=np.float32)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """m.onnx, m.tflite, ext.onnx with weights in w.data, pieces of it in place, x.npz, samples/, and links to m.onnx."""
    monkeypatch.chdir(tmp_path)
    path = models.product(tmp_path / "m.onnx", W)
    models.converted(path)
    nodes = [helper.make_node("Add", ["x", "w"], ["y"])]
    ports = [[models.value(name, "float32", [80, 500])] for name in ("x", "y")]
    large = models.save(tmp_path / "ext.onnx", nodes, *ports, {"w": RNG.random((80, 500), dtype=np.float32)})
    onnx.save(onnx.load(large), large, save_as_external_data=True, location="w.data", size_threshold=0)
    lowtide.convert("ext.onnx", "ext.tflite", weights="in-place")
    lowtide.partition("ext.onnx", "pieces", target="onnx", weights="in-place")
    lowtide.partition("m.onnx", "copies", target="onnx")
    os.mkdir("samples")
    for name in ("x.npz", "samples/0.npz"):
        np.savez(name, x=RNG.random((2, 8), dtype=np.float32))
    os.symlink("m.onnx", "link.onnx")
    os.link("m.onnx", "hard.onnx")
    return tmp_path


def contents(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    "command",
    [
        "run m.onnx --save m.onnx",
        "run m.onnx --save link.onnx",
        "run m.onnx --save hard.onnx",
        "run link.onnx --save m.onnx",
        "run m.tflite --save ./m.tflite",
        "run m.onnx --inputs x.npz --save x.npz",
        "run ext.onnx --save w.data",
        "run ext.tflite --save w.data",
        "run pieces --save pieces/manifest.json",
        "run pieces --trace pieces/0.onnx",
        "run pieces --save w.data",
        "verify m.onnx m.tflite --json m.onnx",
        "verify m.onnx m.tflite --json m.tflite",
        "verify m.onnx m.tflite --inputs samples --json samples/0.npz",
        "verify ext.onnx pieces --json w.data",
        "calibrate m.onnx --samples x.npz -o m.onnx",
        "calibrate m.onnx --samples x.npz -o x.npz",
        "calibrate m.onnx --samples samples -o samples/0.npz",
        "calibrate copies --of m.onnx --samples x.npz -o m.onnx",
        "calibrate copies --samples x.npz -o out",
    ],
)
def test_no_input_is_replaced(command, folder, capsys):
    os.mkdir("out")
    os.link("x.npz", "out/0.ranges.json")
    before = contents(folder)
    assert main(command.split()) == 2
    text = capsys.readouterr().err
    assert "is an input" in text and text.endswith("give another name [usage]\n") and text.count("\n") == 1
    assert contents(folder) == before


def test_files_of_models(folder):
    def names(path):
        return sorted({os.path.relpath(os.path.realpath(name)) for name in model_files.model_files(path)})

    assert names("m.onnx") == ["m.onnx"] and names("m.tflite") == ["m.tflite"]
    assert names("ext.onnx") == ["ext.onnx", "w.data"] and names("ext.tflite") == ["ext.tflite", "w.data"]
    assert names("copies") == ["copies/0.onnx", "copies/manifest.json"]
    assert names("pieces") == ["pieces/0.onnx", "pieces/manifest.json", "w.data"]


def test_functions_replace_no_input(folder):
    with pytest.raises(lowtide.Usage, match="is an input"):
        lowtide.calibrate("m.onnx", "link.onnx", samples="x.npz")
    with lowtide.Runner("pieces") as runner, pytest.raises(lowtide.Usage, match="is an input"):
        runner.pieces_profile("pieces/manifest.json")


def test_two_outputs_are_two_files(folder, capsys):
    assert main(["run", "pieces", "--save", "a", "--trace", "./a"]) == 2
    assert "--save and --trace are one file" in capsys.readouterr().err and not os.path.exists("a")


# ---- All or nothing ----------------------------------------------------------------------------------------------------


def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))


@pytest.mark.parametrize(
    "command", ["run wide.onnx --save old", "verify many.onnx many.tflite --json old", "run parts --trace old"]
)
def test_a_full_disk_leaves_the_old_file(command, folder, environment):
    models.product(folder / "wide.onnx", RNG.random((8, 2000), dtype=np.float32))
    names = [f"output_{i:02}" for i in range(20)]
    nodes = [helper.make_node("Neg", ["x"], [name]) for name in names]
    ports = [models.value(name, "float32", [2, 3]) for name in names]
    models.converted(models.save(folder / "many.onnx", nodes, [models.value("x", "float32", [2, 3])], ports))
    chain = [helper.make_node(("Relu", "Sin")[i % 2], [f"v{i}"], [f"v{i + 1}"]) for i in range(20)]
    ends = [[models.value(name, "float32", [2, 3])] for name in ("v0", "v20")]
    lowtide.partition(models.save(folder / "chain.onnx", chain, *ends), "parts", exclude_op="Sin", prefer="coverage")
    (folder / "old").write_text("old")
    (folder / "old").chmod(0o600)
    before = contents(folder)
    done = subprocess.run(
        [sys.executable, "-m", "lowtide", *command.split()],
        env=environment,
        preexec_fn=limit,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 4 and "old: cannot be written: File too large [io]" in done.stderr, done
    assert contents(folder) == before
    assert main(command.split()) == 0
    assert (folder / "old").read_bytes() != b"old" and (folder / "old").stat().st_mode & 0o777 == 0o600
    assert not list(folder.glob(".lowtide-*"))


def test_names_may_be_as_long_as_names_can_be(folder):
    for length, status in ((255, 0), (256, 3)):
        name = "n" * (length - 5) + ".json"
        assert main(["run", "m.onnx", "--save", name]) == status
        assert main(["verify", "m.onnx", "m.tflite", "--json", name]) == status
        assert main(["calibrate", "m.onnx", "--samples", "x.npz", "-o", name, "--quiet"]) == status
    with pytest.raises(lowtide.NotFound, match="File name too long"):
        output_path.check_output_path("n" * 256)


def test_a_link_is_replaced(folder):
    (folder / "target").write_text("old")
    for name, to in (("a", "target"), ("b", "nowhere/at/all")):
        os.symlink(to, name)
        run_command.main(["m.onnx", "--save", name])
        assert not os.path.islink(name) and np.load(name)["y"].shape == (2, 5)
    assert (folder / "target").read_text() == "old"
    os.symlink("target", "c")
    ranges.write_ranges("c", {"tensors": {}})
    assert not os.path.islink("c") and (folder / "target").read_text() == "old"


def test_folders_of_the_system(folder):
    """Nothing is written in this test, whatever the package does: in /proc nobody can, and for /dev only a name is asked for."""
    for write in (
        lambda path: run_command.main(["m.onnx", "--save", path]),
        lambda path: ranges.write_ranges(path, {}),
    ):
        with pytest.raises(lowtide.UnsafePath, match="a folder of the system"):
            write("/proc/self/a-name-that-is-not-there")
    os.symlink("/dev", "devices")
    for path in ("/dev/stdout", "/dev/../dev/x", "devices/x", "/proc/self/fd/1"):
        with pytest.raises(lowtide.UnsafePath, match="a folder of the system"):
            output_path._new_name(path)


def test_a_pipe_is_written_itself(folder, environment):
    os.mkfifo("pipe")
    done = subprocess.run(
        ["bash", "-c", '"$1" -m lowtide run m.onnx --save pipe >&2 & cat pipe > copy; wait $!', "bash", sys.executable],
        env=environment,
        capture_output=True,
        timeout=100,
    )
    assert done.returncode == 0 and np.load("copy")["y"].shape == (2, 5)


# ---- Types that numpy does not have ------------------------------------------------------------------------------------


@pytest.fixture
def halves(folder):
    """y = x of bfloat16, as .tflite."""
    ports = [helper.make_tensor_value_info(name, T.BFLOAT16, [2, 3]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [ports[0]], [ports[1]])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), "h.onnx")
    return str(lowtide.convert("h.onnx", "h.tflite").output)


def test_small_types_come_back(halves, capsys):
    import ml_dtypes

    x = np.arange(6).reshape(2, 3).astype(ml_dtypes.bfloat16)
    stored_arrays.write_arrays("in.npz", {"x": x})
    run_command.main([halves, "--inputs", "in.npz", "--save", "out.npz"])
    assert "note: 'y' is saved as bytes" in capsys.readouterr().out
    with np.load("out.npz") as got:
        np.testing.assert_array_equal(got["y"].view(ml_dtypes.bfloat16), x, strict=True)
    shutil.copy("out.npz", "again.npz")
    stored_arrays.write_arrays("again.npz", {"x": np.load("out.npz")["y"]})
    run_command.main([halves, "--inputs", "again.npz"])
    for other in (np.zeros((2, 3), "V1"), np.zeros((2, 3), np.int16), np.zeros((2, 3), [("a", "i2")])):
        np.savez("in.npz", x=other)
        with pytest.raises(lowtide.Usage, match="input 'x' is bfloat16, not"):
            run_command.main([halves, "--inputs", "in.npz"])
