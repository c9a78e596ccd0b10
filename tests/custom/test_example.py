# SPDX-License-Identifier: Apache-2.0
"""examples/custom_operators, built and run: through LiteRT's C API, and through its Python interpreter."""

import importlib.util
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from tests.custom import files, models
from tests.custom.test_convert import converted
from tests.custom.test_hostile import with_options

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples/custom_operators"


def litert():
    found = importlib.util.find_spec("ai_edge_litert")
    path = pathlib.Path(found.origin).parent / "libLiteRt.so" if found else None
    if path is None or not path.exists():
        pytest.skip("libLiteRt.so of ai-edge-litert is not installed: the example was not run")
    return path


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    folder = tmp_path_factory.mktemp("example")
    for command in (
        ["cmake", "-S", EXAMPLE, "-B", folder, f"-DLITERT={litert()}", "-DCMAKE_BUILD_TYPE=Release"],
        ["cmake", "--build", folder],
    ):
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0 and "warning:" not in done.stdout + done.stderr, done.stdout + done.stderr
    return folder


def given():
    return np.linspace(-4, 4, 30, dtype=np.float32).reshape(models.SHAPE)


def run_c(built, model, folder):
    given().tofile(folder / "x.bin")
    (folder / "y.bin").unlink(missing_ok=True)
    done = subprocess.run(
        [built / "host", model, folder / "x.bin", folder / "y.bin"], capture_output=True, text=True, timeout=60
    )
    result = np.fromfile(folder / "y.bin", np.float32).reshape(models.SHAPE) if (folder / "y.bin").exists() else None
    return done, result


def run_python(built, model, folder):
    np.save(folder / "x.npy", given())
    command = [sys.executable, EXAMPLE / "run.py", built / "libtflite_kernels.so", model, folder / "x.npy"]
    done = subprocess.run([*command, folder / "y.npy"], capture_output=True, text=True, timeout=60)
    return done, np.load(folder / "y.npy") if done.returncode == 0 else None


def clamped():
    first, second = models.LIMITS
    return np.clip(np.clip(given(), *first), *second)


@pytest.mark.parametrize("run", [run_c, run_python])
def test_two_nodes_with_different_attributes(run, built, tmp_path):
    out = converted(models.two_clamps(), tmp_path, "--custom-ops", "allow")
    done, result = run(built, out, tmp_path)
    assert done.returncode == 0, done
    np.testing.assert_array_equal(result, clamped())


@pytest.mark.parametrize("run", [run_c, run_python])
def test_atan(run, built, tmp_path):
    out = converted(models.atan(), tmp_path, "--custom-ops", "allow=Atan")
    assert [custom.name for custom in files.customs(out)] == ["Atan"]
    done, result = run(built, out, tmp_path)
    assert done.returncode == 0, done
    assert np.abs(result - np.arctan(given())).max() <= 1e-6


def test_a_kernel_that_fails_says_so(built, tmp_path):
    """LiteRT ignores the status: the output is NaN, and the host sees the flag."""
    model = models.model([models.node("Clamp", ["x"], ["y"], min=1.0)], [models.value("x")], [models.value("y")])
    out = converted(model, tmp_path, "--custom-ops", "allow")
    done, result = run_c(built, out, tmp_path)
    assert done.returncode == 3 and "a kernel failed 1 times; its outputs are NaN" in done.stderr, done
    assert np.isnan(result).all()
    done, _ = run_python(built, out, tmp_path)
    assert done.returncode != 0 and "RuntimeError" in done.stderr


def test_options_that_are_damaged_are_not_read(built, tmp_path):
    model = models.model(
        [models.node("Clamp", ["x"], ["y"], min=1.0, max=2.0)], [models.value("x")], [models.value("y")]
    )
    out = converted(model, tmp_path, "--custom-ops", "allow")
    for options in (b"\0\1", bytes([200, 9 << 2, 1]), bytes([1, 0, 10 << 2, 2, 10 << 2, 1])):
        done, result = run_c(built, with_options(out, options, tmp_path / "bad.tflite"), tmp_path)
        assert done.returncode == 3 and np.isnan(result).all(), done


def test_an_operator_without_a_kernel_fails_at_the_run(built, tmp_path):
    out = converted(models.five_unknown(), tmp_path, "--custom-ops", "allow")
    done, result = run_c(built, out, tmp_path)
    assert done.returncode == 1 and "running the model" in done.stderr and result is None, done
