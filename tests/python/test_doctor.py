# SPDX-License-Identifier: Apache-2.0
"""`lowtide doctor` through Python: the program's findings and the packages."""

import json
import subprocess
import sys

import numpy as np
import pytest

from tests.support import converter


@pytest.fixture
def doctor(environment):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "lowtide", "doctor", *map(str, arguments)],
            env=environment,
            capture_output=True,
            text=True,
        )

    return run


def test_packages_are_added(doctor, tmp_path):
    done = doctor(tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done
    names = [line.split("  ")[0] for line in done.stdout.splitlines()]
    alone = converter.run("doctor", tmp_path).stdout.splitlines()
    assert names == [line.split("  ")[0] for line in alone] + ["python", "numpy", "ai-edge-litert", "onnxruntime"]


def test_json(doctor, tmp_path):
    values = json.loads(doctor("--json", tmp_path).stdout)
    assert values["findings"]["numpy"] == np.__version__ and values["problems"] == []


def test_problems_of_the_program_stay(doctor, tmp_path):
    done = doctor(tmp_path / "absent")
    assert done.returncode == 3 and done.stderr.endswith("[not-found]\n")
    assert doctor("--no-such-option").returncode == 2


def test_least_versions_are_those_of_the_package():
    sys.path.insert(0, str(converter.ROOT / "tools/python"))
    try:
        from lowtide import doctor_command
    finally:
        sys.path.pop(0)
    text = (converter.ROOT / "pyproject.toml").read_text()
    for name, least in doctor_command.PACKAGES.items():
        assert f'"{name}>={least}"' in text
    old = {**doctor_command.PACKAGES, "numpy": "9999.0"}
    doctor_command.PACKAGES, kept = old, doctor_command.PACKAGES
    try:
        assert [problem["name"] for problem in doctor_command.packages()[1]] == ["numpy"]
    finally:
        doctor_command.PACKAGES = kept
