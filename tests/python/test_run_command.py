# SPDX-License-Identifier: Apache-2.0
"""lowtide run, and the command `lowtide` of the package."""

import json
import subprocess
import sys

import numpy as np
import pytest

import lowtide
from tests.python import models

A = np.random.default_rng(1).random((8, 5), dtype=np.float32)


@pytest.fixture
def both(tmp_path):
    path = models.product(tmp_path / "m.onnx", A, rows="n")
    return path, models.converted(path)


@pytest.fixture
def command(environment, tmp_path):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "lowtide", *map(str, arguments)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


def test_arrays_in_and_out(both, command, tmp_path):
    x = np.random.default_rng(0).random((3, 8), dtype=np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    for path in both:
        done = command("run", path, "--inputs", "x.npz", "--save", "y.npz", "--repeat", "2", "--threads", "1")
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert "y  float32[3, 5]  min" in done.stdout and "(shortest of 2)" in done.stdout and "peak RSS" in done.stdout
        with np.load(tmp_path / "y.npz") as got:
            np.testing.assert_allclose(got["y"], np.maximum(x @ A, 0), rtol=1e-5)


def test_random_arrays(both, command):
    outputs = [
        json.loads(command("run", path, "--shape", "x=4,8", "--seed", "7", "--json").stdout)["outputs"]["y"]
        for path in both
    ]
    assert outputs[0]["shape"] == [4, 5] and outputs[0]["mean"] == pytest.approx(outputs[1]["mean"], rel=1e-5)
    done = command("run", both[0])
    assert "dynamic dimensions are 1 here, see --shape" in done.stdout and "y  float32[1, 5]" in done.stdout


def test_profile(both, command):
    of_onnx = json.loads(command("run", both[0], "--profile", "--json").stdout)
    assert {"MatMul", "FusedGemm", "FusedMatMul"} & {row["operator"] for row in of_onnx["operators"]}
    for path in both:
        text = command("run", path, "--profile").stdout
        assert "loading: at most" in text and "running: at most" in text


def test_inner_tensors_and_options(both, command):
    done = command("run", both[0], "--outputs", "h", "--optimization", "basic")
    assert "h  float32[1, 5]" in done.stdout and "level basic" in done.stdout
    done = command("run", both[1], "--kernels", "reference", "--max-rss", "1G")
    assert "reference kernels" in done.stdout


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["run"], 2, "arguments are required: FILE"),
        (["run", "m.onnx", "--sideways"], 2, "--sideways"),
        (["run", "none.onnx"], 3, "none.onnx: cannot be opened"),
        (["run", "m.onnx", "--inputs", "none.npz"], 3, "none.npz: cannot be read"),
        (["run", "m.onnx", "--inputs", "m.onnx"], 2, "m.onnx: is not an .npz file"),
        (["run", "m.onnx", "--shape", "z=1"], 2, "no input is called 'z'"),
        (["run", "m.onnx", "--shape", "x=a"], 2, "is not a list of extents"),
        (["run", "m.onnx", "--shape", "x=-1,8"], 2, "negative"),
        (["run", "m.onnx", "--shape", "x=99999999999999999999,8"], 2, "no array has as many elements"),
        (["run", "m.onnx", "--shape", "x=999999999,999999999"], 9, "not enough memory"),
        (["run", "m.onnx", "--seed", "-1"], 2, "seed: -1 is negative"),
        (["run", "m.onnx", "--outputs", "z"], 2, "no output or inner tensor"),
        (["run", "m.onnx", "--repeat", "0"], 2, "--repeat must be 1 or more"),
        (["run", "m.onnx", "--kernels", "builtin"], 2, "kernels is not for .onnx files"),
        (["run", "m.onnx", "--save", "no/such/folder.npz"], 4, "cannot be written"),
        (["run", "m.onnx", "--max-rss", "1K"], 9, "more than max_rss"),
    ],
)
def test_errors(arguments, status, words, both, command):
    done = command(*arguments)
    kind = lowtide.errors.BY_STATUS[status].kind
    assert done.returncode == status and done.stdout == ""
    assert done.stderr.startswith("lowtide: ") and words in done.stderr and done.stderr.endswith(f"[{kind}]\n")
    assert done.stderr.count("\n") == 1


def test_other_commands_are_the_program(both, command, program, tmp_path):
    assert command("--version").stdout == subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    assert command("convert", "m.onnx", "-o", "c.tflite").returncode == 0
    assert (tmp_path / "c.tflite").read_bytes() == both[1].read_bytes()
    assert command("convert", "none.onnx").returncode == 3
    assert command().returncode == 2


def test_the_program_alone_names_the_package(program):
    done = subprocess.run([program, "run", "m.onnx"], capture_output=True, text=True)
    assert done.returncode == 2 and "pip install 'lowtide[run]'" in done.stderr


def test_a_pipe_that_nobody_reads(both, environment):
    done = subprocess.run(
        ["bash", "-c", '"$1" -m lowtide run "$2" | true; echo ${PIPESTATUS[0]}', "bash", sys.executable, both[0]],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout.strip() in ("0", "141") and "Traceback" not in done.stderr
