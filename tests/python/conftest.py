# SPDX-License-Identifier: Apache-2.0
"""The package under test runs the program that the other suites run."""

import os
import sys

import pytest

from tests.python import integer_models, models
from tests.support import converter


@pytest.fixture(autouse=True)
def program(monkeypatch):
    path = str(converter.program())
    monkeypatch.setenv("LOWTIDE", path)
    return path


@pytest.fixture
def environment(program):
    """For children of a test: Python that finds the package."""
    return {**os.environ, "PYTHONPATH": str(converter.ROOT / "tools/python"), "LOWTIDE": program}


@pytest.fixture
def python(environment):
    """Runs a script in a Python of its own; its standard output, or the error."""
    import subprocess

    def run(script, *arguments, **how):
        how = {"timeout": 300, **how}
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments)], env=environment, capture_output=True, text=True, **how
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


@pytest.fixture
def net(tmp_path):
    path = models.image_net(tmp_path / "net.onnx")
    return path, models.converted(path)


@pytest.fixture
def integers(tmp_path):
    return integer_models.onnx_model(tmp_path / "q.onnx")
