# SPDX-License-Identifier: Apache-2.0
"""SIGKILL at random moments, and conversions to one output at once: there is the old output or a complete new one, and
what a killed conversion left is removed by the next."""

import random
import signal
import subprocess
import time

import pytest

from tests.faults import fault
from tests.support import converter

OLD = b"an output of long ago"
KILLS = 50


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """A model of 32 MB and one of 1 MB, and what becomes of them."""
    folder = tmp_path_factory.mktemp("kill")
    for name, size in (("large", "32M"), ("small", "1M")):
        subprocess.run(
            [converter.program(), "make-model", "conv-stack", "--size", size, "-o", folder / f"{name}.onnx", "--quiet"],
            check=True,
        )
        assert converter.convert(folder / f"{name}.onnx", folder / f"{name}.tflite").status == "converted"
    return folder


@pytest.fixture(autouse=True, params=fault.IO)
def io(request, monkeypatch):
    """Everything here runs in both ways of reading."""
    monkeypatch.setattr(fault, "CHOSEN", ("--io", request.param))


def convert(model, output):
    return subprocess.Popen(
        [converter.program(), "convert", model, "-o", output, "--quiet", *fault.CHOSEN],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )


def test_killed_at_random_moments(models, tmp_path, record_property):
    large, small = ((models / f"{name}.tflite").read_bytes() for name in ("large", "small"))
    output = tmp_path / "m.tflite"
    moments, killed, leftovers = random.Random(7), 0, 0
    whole = 0.5  # seconds that a conversion takes: less when one was done before its moment had come
    for _ in range(10 * KILLS):
        output.write_bytes(OLD)
        process = convert(models / "large.onnx", output)
        moment = moments.uniform(0, whole)
        try:
            process.wait(timeout=moment)
            whole = max(0.01, 0.8 * whole)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
        process.communicate()
        killed += process.returncode == -signal.SIGKILL
        assert output.read_bytes() in (OLD, large)
        left = sorted(p.name for p in tmp_path.iterdir() if p != output)
        leftovers += len(left)
        assert len(left) <= 1 and all(name.startswith(".m.tflite.lowtide-") for name in left), left
        # The next conversion to this output; one to another output is none of its business.
        if killed % 4 == 0:
            assert convert(models / "small.onnx", tmp_path / "other.tflite").wait() == 0
            assert sorted(p.name for p in tmp_path.iterdir()) == sorted([*left, "m.tflite", "other.tflite"])
            (tmp_path / "other.tflite").unlink()
        assert convert(models / "small.onnx", output).wait() == 0
        assert output.read_bytes() == small
        assert [p.name for p in tmp_path.iterdir()] == ["m.tflite"]
        if killed == KILLS:
            break
    assert killed == KILLS and leftovers > 0, (killed, leftovers)
    record_property("kills survived", killed)


def test_many_at_once(models, tmp_path):
    """All succeed, the last one wins, none takes another's temporary for a dead one."""
    outcomes = {(models / f"{name}.tflite").read_bytes() for name in ("large", "small")}
    output = tmp_path / "m.tflite"
    for _ in range(3):
        processes = [convert(models / f"{name}.onnx", output) for name in ("large", "small", "small") * 3]
        for process in processes:
            _, err = process.communicate(timeout=600)
            assert process.returncode == 0 and not err, err
        assert output.read_bytes() in outcomes
        assert [p.name for p in tmp_path.iterdir()] == ["m.tflite"]


def test_a_stopped_conversion_keeps_its_temporary(models, tmp_path):
    output = tmp_path / "m.tflite"
    waiting = convert(models / "large.onnx", output)
    # It has its size once it is locked; before that it may be taken for a dead one, and is made anew.
    while waiting.poll() is None and not any(p.stat().st_size > 0 for p in tmp_path.iterdir()):
        time.sleep(0.001)
    waiting.send_signal(signal.SIGSTOP)  # in the midst of its work, unless it is done
    held = sorted(p.name for p in tmp_path.iterdir())
    assert convert(models / "small.onnx", output).wait() == 0
    assert sorted({*held, "m.tflite"}) == sorted(p.name for p in tmp_path.iterdir())
    waiting.send_signal(signal.SIGCONT)
    _, err = waiting.communicate(timeout=600)
    assert waiting.returncode == 0 and not err, err
    assert [p.name for p in tmp_path.iterdir()] == ["m.tflite"]
    if held != ["m.tflite"]:
        assert output.read_bytes() == (models / "large.tflite").read_bytes()
