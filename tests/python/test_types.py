# SPDX-License-Identifier: Apache-2.0
"""mypy --strict on the package and on a user's file; and what mypy must find wrong in such a file."""

import subprocess
import sys

import pytest

from tests.support import converter

pytest.importorskip("mypy", reason="mypy is not installed (tests/requirements.txt)")
ROOT = converter.ROOT


def mypy(tmp_path, *arguments):
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file", ROOT / "pyproject.toml", "--cache-dir", tmp_path, *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_package_and_a_users_file(tmp_path):
    status, text = mypy(tmp_path, "tools/python/lowtide", "tests/python/example_of_a_user.py")
    assert status == 0, text
    assert (ROOT / "tools/python/lowtide/py.typed").is_file()
    wrong = tmp_path / "wrong.py"
    wrong.write_text(
        "import lowtide\nlowtide.convert('m.onnx', threads='2')\nlowtide.Runner('m').run({'x': 3})\n"
        "x: int = lowtide.convert('m.onnx').output\n"
    )
    status, text = mypy(tmp_path, wrong)
    assert status == 1 and "Found 3 errors" in text, text
