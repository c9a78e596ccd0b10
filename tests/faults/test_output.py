# SPDX-License-Identifier: Apache-2.0
"""The output: complete or not there. An existing file is replaced only when the new one is complete."""

import os
import re
import signal
import subprocess
import time

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.faults import fault
from tests.support import converter
from tests.support.tflite_file import read_tflite

MIB = 2**20


@pytest.fixture(scope="module", autouse=True)
def program():
    converter.program()


@pytest.fixture(autouse=True, params=fault.IO)
def io(request, monkeypatch):
    """Everything here runs in both ways of reading."""
    convert = converter.convert
    monkeypatch.setattr(
        converter,
        "convert",
        lambda model, output, options=(): convert(model, output, [*options, "--io", request.param]),
    )


def save(path, operator="MatMul", size=1024):
    """y = x @ w with 4 MiB of weights."""
    weight = numpy_helper.from_array(np.ones((size, 1024), np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node(operator, ["x", "w"], ["y"], name="the_node")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, size])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 1024])],
        initializer=[weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def one_line(done):
    assert done.status == "refused", f"{done.status}: {done.reason}"
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, lines
    return lines[0]


def test_existing_output_is_replaced(tmp_path):
    output = tmp_path / "m.tflite"
    output.write_bytes(b"old")
    model = save(tmp_path / "m.onnx")
    assert converter.convert(model, output).status == "converted"
    assert read_tflite(output).outputs[0].name == "y"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "m.tflite"]


def test_existing_output_survives_a_failure(tmp_path):
    output = tmp_path / "m.tflite"
    output.write_bytes(b"old")
    model = save(tmp_path / "m.onnx", "Unknown")
    assert converter.convert(model, output).status == "refused"
    assert output.read_bytes() == b"old"


def test_output_is_not_the_input(tmp_path):
    model = save(tmp_path / "m.onnx")
    before = model.read_bytes()
    for output in (model, tmp_path / "link.onnx"):
        if output != model:
            os.link(model, output)
        done = converter.convert(model, output)
        assert done.status == "refused", done
        assert model.read_bytes() == before


def test_external_data_is_not_overwritten(tmp_path):
    model = tmp_path / "m.onnx"
    onnx.save(onnx.load(save(model)), model, save_as_external_data=True, location="weights.bin", size_threshold=0)
    before = (tmp_path / "weights.bin").read_bytes()
    assert converter.convert(model, tmp_path / "weights.bin").status == "refused"
    assert (tmp_path / "weights.bin").read_bytes() == before


@pytest.mark.parametrize("output", ["/proc/m.tflite", "/nowhere/at/all/m.tflite"])
def test_folder_that_cannot_be_written(output, tmp_path):
    model = save(tmp_path / "m.onnx")
    if output.startswith("/nowhere"):
        output = str(tmp_path) + output
    done = converter.run("convert", model, "-o", output)
    assert done.returncode > 1 and done.returncode != 11
    assert len(done.stderr.strip().splitlines()) == 1 and "m.tflite" in done.stderr


def in_a_mount(command, folder, options):
    """Runs `command` with a mount on `folder`, in a namespace of its own: its exit status, its error, what is in the folder."""
    script = f"mount {options} {folder} || exit 77; {command}; status=$?; ls -A {folder}; exit $status"
    done = subprocess.run(
        ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "sh", "-c", script],
        capture_output=True,
        text=True,
        timeout=600,
    )
    if done.returncode in (1, 77) and "lowtide" not in done.stderr:
        pytest.skip(f"no mount namespace here: {done.stderr.strip()}")
    return done.returncode, done.stderr.strip().splitlines(), done.stdout.split()


def test_folder_that_is_read_only(tmp_path):
    model = save(tmp_path / "m.onnx")
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "m.tflite").write_bytes(b"old")
    status, error, names = in_a_mount(
        f"{converter.program()} convert {model} -o {folder}/m.tflite", folder, f"--bind -o ro {folder}"
    )
    assert status == 3 and len(error) == 1 and "m.tflite" in error[0], error
    assert names == ["m.tflite"] and (folder / "m.tflite").read_bytes() == b"old"


def test_output_that_is_a_folder(tmp_path):
    """A file of the model's name is written into it; where that is a folder too, nothing is."""
    model = save(tmp_path / "m.onnx")
    (tmp_path / "out/m.tflite").mkdir(parents=True)
    one_line(converter.convert(model, tmp_path / "out"))
    assert not list((tmp_path / "out/m.tflite").iterdir())


def test_file_size_limit(tmp_path):
    """RLIMIT_FSIZE sends a signal by default; it must end as an error like a full disk."""
    model = save(tmp_path / "m.onnx")
    folder = tmp_path / "out"
    folder.mkdir()
    done = subprocess.run(
        ["prlimit", f"--fsize={MIB}", converter.program(), "convert", model, "-o", folder / "m.tflite"],
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode > 1, done
    assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    assert not list(folder.iterdir())


def test_full_disk(tmp_path):
    model = save(tmp_path / "m.onnx")
    folder = tmp_path / "small"
    folder.mkdir()
    status, error, names = in_a_mount(
        f"{converter.program()} convert {model} -o {folder}/m.tflite", folder, "-t tmpfs -o size=2m none"
    )
    assert status == 5 and len(error) == 1 and "m.tflite" in error[0], error
    assert names == []


def test_full_disk_of_a_compressed_output(tmp_path):
    """Its space is not reserved; what the error calls free is counted without the output itself."""
    model = tmp_path / "m.onnx"
    assert converter.run("make-model", "conv-stack", "--size", "8M", "-o", model).returncode == 0
    folder = tmp_path / "small"
    folder.mkdir()
    status, error, names = in_a_mount(
        f"{converter.program()} convert {model} -o {folder}/m.tflite.zst", folder, "-t tmpfs -o size=2m none"
    )
    assert status == 5 and len(error) == 1, error
    free = int(re.search(r"the disk has (\d+) bytes free", error[0])[1])
    assert 2 * MIB * 0.9 < free <= 2 * MIB, error
    assert names == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(number, tmp_path):
    model = save(tmp_path / "m.onnx", size=65536)
    folder = tmp_path / "out"
    folder.mkdir()
    for delay in (0.0, 0.01, 0.03, 0.06, 0.1):
        process = subprocess.Popen(
            [converter.program(), "convert", model, "-o", folder / "m.tflite"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        time.sleep(delay)
        process.send_signal(number)
        _, err = process.communicate(timeout=600)
        left = sorted(p.name for p in folder.iterdir())
        if process.returncode == 0:  # it was done before the signal came
            assert left == ["m.tflite"]
        elif process.returncode == -number:  # before the program could listen
            assert left == [], (delay, left)
        else:
            assert left == [] and len(err.strip().splitlines()) == 1, (delay, left, err)
        for path in folder.iterdir():
            path.unlink()
