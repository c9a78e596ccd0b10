# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures of other files)
"""Where outputs, reports and logs go, and what is refused; compressed models on their way back to ONNX."""

import json
import os

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import converter
from tests.tools.test_command_line import folder, run, shell  # noqa: F401  (a fixture)


def names(place):
    return sorted(path.name for path in place.iterdir())


@pytest.mark.parametrize("options", [[], ["--external-data"], ["--dry-run"]], ids=["inline", "external", "dry"])
def test_a_compressed_model_becomes_onnx(options, tmp_path):
    """Its weights are read from memory of the reader as long as they are written."""
    assert run(tmp_path, "make-model", "conv-stack", "--size", "8M", "-o", "m.onnx").returncode == 0
    for name in ("m.tflite", "m.tflite.zst"):
        assert run(tmp_path, "convert", "m.onnx", "-o", name).returncode == 0
    for place, name in (("plain", "m.tflite"), ("packed", "m.tflite.zst")):
        (tmp_path / place).mkdir()
        done = run(tmp_path, "convert", name, "-o", f"{place}/b.onnx", *options)
        assert done.returncode == 0, done
    assert names(tmp_path / "plain") == names(tmp_path / "packed")
    for path in (tmp_path / "plain").iterdir():
        assert path.read_bytes() == (tmp_path / "packed" / path.name).read_bytes()
    assert bool(names(tmp_path / "plain")) == ("--dry-run" not in options)


@pytest.mark.parametrize("output", ["/proc/self/fd/1", "/dev/fd/1", "link.tflite", "/proc/x.tflite"])
def test_links_to_open_files_are_not_replaced(output, folder):
    """Not /dev/stdout itself: a program that is wrong would replace it, where root runs this test."""
    (folder / "link.tflite").symlink_to("/proc/self/fd/1")
    (folder / "out").write_text("precious")
    done = shell(folder, f"lowtide convert m.onnx -q -o {output} >> out")
    assert done.returncode == 7 and "; for standard output use -o - [unsafe-path]" in done.stderr, done
    assert (folder / "out").read_text() == "precious" and (folder / "link.tflite").is_symlink()
    for command in ("make-model conv-stack --size 64K", "extract m.onnx --to output", "merge a=m.onnx b=m.onnx"):
        done = shell(folder, f"lowtide {command} -o {output} >> out")
        assert done.returncode in (2, 7) and (folder / "link.tflite").is_symlink(), done
    assert names(folder) == ["link.tflite", "m.onnx", "out"]


def test_one_wording_for_what_cannot_be_written(folder):
    for option, name in (("-o", "n.tflite"), ("--report", "n.json"), ("--log", "n.txt")):
        done = run(folder, "convert", "m.onnx", option, f"absent/{name}")
        words = f"lowtide: absent/{name}: the folder 'absent' does not exist [not-found]\n"
        assert (done.returncode, done.stderr) == (3, words), done
        done = run(folder, "convert", "m.onnx", option, f"m.onnx/{name}")
        words = f"lowtide: m.onnx/{name}: cannot create a file in 'm.onnx': Not a directory [not-found]\n"
        assert (done.returncode, done.stderr) == (3, words), done
    assert names(folder) == ["m.onnx"]


def test_the_signature_of_a_tflite_model_has_a_name(folder):
    assert run(folder, "convert", "m.onnx").returncode == 0
    done = run(folder, "convert", "m.tflite", "-o", "b.onnx", "--signature", "")
    assert done.returncode == 2 and "--signature: the name is empty" in done.stderr, done
    done = run(folder, "convert", "m.tflite", "-o", "b.onnx", "--zstd-level", "5")
    assert done.returncode == 2 and "--zstd-level is for ONNX models" in done.stderr, done
    done = run(folder, "convert", "m.tflite", "-o", "b.tflite.zst")
    assert done.returncode == 2 and "becomes ONNX" in done.stderr and "-o b.onnx" in done.stderr, done


def test_the_log_of_a_model_that_becomes_onnx(folder):
    assert run(folder, "convert", "m.onnx").returncode == 0
    for log in ("b.onnx", "b.onnx.data"):
        done = run(folder, "convert", "m.tflite", "-o", "b.onnx", "--log", log)
        assert done.returncode == 2 and f"the log {log} is the output" in done.stderr, done
    done = run(folder, "convert", "m.tflite", "-o", "c.onnx", "--log", "log.txt", "--dry-run")
    text = (folder / "log.txt").read_text()
    assert done.returncode == 0 and "planned c.onnx" in text and "wrote" not in text, text
    assert run(folder, "convert", "m.tflite", "-o", "c.onnx", "--log", "log.txt").returncode == 0
    assert "wrote c.onnx" in (folder / "log.txt").read_text()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_nothing_is_called_done_whose_summary_is_lost(folder):
    for command in ("m.onnx -o m.tflite", "m.tflite -o b.onnx"):
        done = shell(folder, f"lowtide convert {command} --progress-fd 3 3>events >/dev/full")
        events = [json.loads(line)["event"] for line in (folder / "events").read_text().splitlines()]
        assert done.returncode == 5 and "done" not in events and events[-1] == "error", (done, events)


def test_bytes_of_files_in_place_are_input(folder):
    made = run(folder, "make-model", "conv-stack", "--size", "1M", "--external", "--plain", "-o", "p.onnx")
    assert made.returncode == 0
    assert run(folder, "convert", "p.onnx", "--weights", "in-place").returncode == 0
    done = shell(folder, "lowtide convert p.tflite -o b.onnx -q --progress-fd 3 3>events")
    report = json.loads((folder / "events").read_text().splitlines()[-1])["report"]
    sizes = sum((folder / name).stat().st_size for name in ("p.tflite", "p.onnx.data"))
    assert done.returncode == 0 and report["input_bytes"] == sizes, (report, sizes)


def test_tables_of_a_model_of_floats_are_noted(folder):
    done = run(folder, "convert", "m.onnx", "--tables")
    assert done.returncode == 0 and "note: --tables has no effect" in done.stdout, done


def addition(path, inputs, ir_version):
    """y = the inputs and the weight 'w' together; the weight is listed as an input too."""
    shape = [2, 3, 4, 5]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in (*inputs, "w", "y")]
    weight = numpy_helper.from_array(np.ones(shape, np.float32), "w")
    node = helper.make_node("Sum", [*inputs, "w"], ["y"])
    graph = helper.make_graph([node], "g", values[:-1], values[-1:], [weight])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=ir_version), path)


@pytest.mark.parametrize("ir_version", [3, 8])
@pytest.mark.parametrize("option", ["--mean", "--std"])
def test_an_initializer_is_no_second_input(option, ir_version, tmp_path):
    addition(tmp_path / "one.onnx", ["x"], ir_version)
    done = run(tmp_path, "convert", "one.onnx", option, "0.5")
    assert done.returncode == 0, done
    addition(tmp_path / "two.onnx", ["x", "z"], ir_version)
    done = run(tmp_path, "convert", "two.onnx", option, "0.5")
    assert done.returncode == 2 and f"{option} needs --input-uint8 INPUT" in done.stderr, done
    assert "(inputs: x, z)" in done.stderr


@pytest.mark.parametrize("ir_version", [3, 8])
def test_results_come_before_initializers(ir_version, tmp_path):
    addition(tmp_path / "m.onnx", ["x"], ir_version)
    done = run(tmp_path, "extract", "m.onnx", "--to", "nope", "-o", "p.onnx")
    assert done.returncode == 2 and "(values: y, x, w)" in done.stderr, done
    done = run(tmp_path, "extract", "m.onnx", "--from", "nope", "--to", "y", "-o", "p.onnx")
    assert done.returncode == 2 and "(values: x, y, w)" in done.stderr, done


def test_operators_in_floats_are_called_so(tmp_path):
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3]) for name in "xy"]
    nodes = [helper.make_node("Sin", ["x"], ["s"]), helper.make_node("Cos", ["s"], ["y"])]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    done = run(tmp_path, "convert", "m.onnx", "--require-integer")
    assert done.returncode == 8 and " operators are computed in floats" in done.stderr.splitlines()[0], done


def test_an_unknown_operator_is_one_sentence():
    done = converter.run("ops", "Cnv")
    assert "the operator 'Cnv' is not known; did you mean 'Conv'? (lowtide ops lists all)" in done.stderr, done


def test_readers_of_json_say_the_same(folder):
    (folder / "j.json").write_text("{")
    for options in (["--custom-ops-map", "j.json"], ["--for", "j.json"], ["--quantize", "int8", "--ranges", "j.json"]):
        done = run(folder, "convert", "m.onnx", *options, "--errors", "json")
        error = json.loads(done.stderr)
        assert error["file"] == "j.json" and "it is not JSON: line 1, column 2: " in error["message"], (options, done)
