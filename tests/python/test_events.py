# SPDX-License-Identifier: Apache-2.0
"""What the program writes for programs (--errors json, --progress-fd), read by the package's own reader."""

import json
import os
import signal
import subprocess
import sys

import numpy as np
import onnx
import pytest

import lowtide
from lowtide.events import Done, Failed, Progress, parse_event
from tests.python import models


@pytest.fixture
def model(tmp_path):
    return models.product(tmp_path / "m.onnx", np.arange(12, dtype=np.float32).reshape(3, 4))


def run(program, *arguments, **how):
    return subprocess.run([program, *map(str, arguments)], capture_output=True, text=True, timeout=120, **how)


def error_of(done):
    *_, last = done.stderr.splitlines()
    event = parse_event(last)
    assert isinstance(event, Failed) and event.status == done.returncode
    assert lowtide.errors.BY_KIND[event.kind].status == done.returncode
    return event


@pytest.mark.parametrize("arguments, kind", [
    (["convert", "none.onnx"], "not-found"),
    (["convert", "m.onnx", "--sideways"], "usage"),
    (["convert", "m.onnx", "--threads", "0"], "usage"),
    (["convert", "m.onnx", "-o", "m.onnx"], "usage"),
    (["convert", "cut.onnx"], "malformed"),
    (["inspect", "cut.onnx"], "malformed"),
    (["check", "m.onnx", "cut.onnx"], "malformed"),
])  # fmt: skip
def test_errors_as_json(arguments, kind, model, program, tmp_path):
    (tmp_path / "cut.onnx").write_bytes(model.read_bytes()[:-20])
    text = run(program, *arguments, cwd=tmp_path)
    for form in (["--errors", "json"], ["--errors=json"]):
        event = error_of(run(program, *arguments, *form, cwd=tmp_path))
        assert event.kind == kind
        assert text.stderr.strip().endswith(f"lowtide: {event.message} [{kind}]")
        assert event.file is None or event.file in arguments
    assert run(program, *arguments, "--errors=text", cwd=tmp_path).stderr == text.stderr


def test_the_place_of_an_error(tmp_path):
    """The node and its operator arrive in Python."""
    node = onnx.helper.make_node("Concat", ["x", "x"], ["y"], "the node", axis=7)
    path = models.save(
        tmp_path / "m.onnx", [node], [models.value("x", "float32", [2, 3])], [models.value("y", "float32", [2, 6])]
    )
    with pytest.raises(lowtide.Error) as caught:
        lowtide.convert(path)
    assert (caught.value.file, caught.value.node, caught.value.operator) == (str(path), "the node", "Concat")


def test_the_byte_of_an_error(tmp_path):
    path = tmp_path / "m.onnx"
    path.write_bytes(b"\x08\x08" + b"\x3a\xff\x01" + b"nonsense")
    with pytest.raises(lowtide.Malformed) as caught:
        lowtide.convert(path)
    assert caught.value.file == str(path) and isinstance(caught.value.byte, int)


def test_names_from_files_are_escaped(tmp_path, program):
    node = onnx.helper.make_node("Unknown", ["x"], ["y"], 'a\nb"\x1b[31m\u0085', domain="my.own")
    path = models.save(
        tmp_path / "m.onnx", [node], [models.value("x", "float32", [2])], [models.value("y", "float32", [2])]
    )
    done = run(program, "convert", path, "--errors=json")
    assert done.stderr.count("\n") == 1 and "\x1b" not in done.stderr and "\u0085" not in done.stderr
    assert error_of(done).node == node.name and error_of(done).nodes[0].node == node.name


def lines_of(program, *arguments, **how):
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [program, *map(str, arguments), f"--progress-fd={writing}"], pass_fds=[writing], stderr=subprocess.PIPE, **how
    )
    os.close(writing)
    with open(reading, "rb") as file:
        lines = file.read().splitlines()
    child.communicate(timeout=120)
    return child.returncode, [parse_event(line) for line in lines]


def test_lines_of_a_conversion(program, tmp_path):
    subprocess.run(
        [program, "make-model", "conv-stack", "--size=64M", "-o", tmp_path / "m.onnx", "--quiet"], check=True
    )
    status, events = lines_of(program, "convert", tmp_path / "m.onnx", "--quiet", "--report", tmp_path / "r.json")
    assert status == 0
    *progress, done = events
    assert progress and all(isinstance(event, Progress) for event in progress)
    report = json.loads((tmp_path / "r.json").read_text())
    assert isinstance(done, Done) and done.report.items() <= report.items() and done.report["peak_rss"] > 0
    for event in progress:
        assert event.phase and 0 <= event.done <= event.total and event.resident > 1 << 20
    for one, other in zip(progress, progress[1:]):
        assert one.phase != other.phase or one.done <= other.done
    (tmp_path / "m.onnx").unlink()


def test_lines_of_a_failure(program, tmp_path):
    status, events = lines_of(program, "convert", tmp_path / "none.onnx", "--quiet")
    assert status == 3 and [type(event) for event in events] == [Failed] and events[0].kind == "not-found"


def test_a_reader_that_is_gone(program, tmp_path):
    subprocess.run(
        [program, "make-model", "conv-stack", "--size=64M", "-o", tmp_path / "m.onnx", "--quiet"], check=True
    )
    reading, writing = os.pipe()
    child = subprocess.Popen(
        [program, "convert", tmp_path / "m.onnx", "--quiet", "--progress-fd", str(writing)], pass_fds=[writing]
    )
    os.close(writing)
    os.close(reading)
    assert child.wait(timeout=120) == -signal.SIGPIPE
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    "number, words", [("99", "descriptor 99 is not open"), ("0", "descriptor 0 is not open"), ("-1", "-1")]
)
def test_a_descriptor_that_cannot_be_written(number, words, model, program):
    done = run(
        program,
        "convert",
        model,
        f"--progress-fd={number}",
        stdin=subprocess.DEVNULL if number != "0" else open("/dev/null"),
    )
    assert done.returncode == 2 and words in done.stderr


def test_progress_from_python(program, tmp_path):
    subprocess.run(
        [program, "make-model", "conv-stack", "--size=64M", "-o", tmp_path / "m.onnx", "--quiet"], check=True
    )
    seen = []
    done = lowtide.convert(tmp_path / "m.onnx", tmp_path / "out.tflite", progress=seen.append)
    assert done.output.is_file() and seen and all(isinstance(event, lowtide.Progress) for event in seen)
    done.output.unlink()

    def stop(_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        lowtide.convert(tmp_path / "m.onnx", tmp_path / "out.tflite", progress=stop)
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def test_a_parent_that_is_killed_while_it_follows(program, environment, tmp_path):
    subprocess.run(
        [program, "make-model", "conv-stack", "--size=64M", "-o", tmp_path / "m.onnx", "--quiet"], check=True
    )
    script = (
        "import os, sys, lowtide\nlowtide.convert(sys.argv[1], sys.argv[2], progress=lambda _: os.kill(os.getpid(), 9))"
    )
    (tmp_path / "out").mkdir()
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path / "m.onnx", tmp_path / "out/m.tflite"], env=environment
    )
    assert done.returncode == -signal.SIGKILL
    for _ in range(200):
        if [path.name for path in (tmp_path / "out").iterdir()] in ([], ["m.tflite"]):
            break
        signal.sigtimedwait([], 0.05)
    assert [path.name for path in (tmp_path / "out").iterdir()] in ([], ["m.tflite"])
