# SPDX-License-Identifier: Apache-2.0
"""Every command and every snippet of the pages on the package and its commands runs, in the order of the page."""

import os
import re
import subprocess
import sys

import pytest

from tests.support import converter

PAGES = ["python", "verify", "calibration", "partition"]


def blocks(page):
    text = (converter.ROOT / f"docs/{page}.md").read_text()
    return re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


# The commands that build and install the wheel are test_wheel.py's.
INSTALLING = "pip wheel"


@pytest.fixture
def folder(tmp_path, program):
    subprocess.run(
        [program, "make-model", "conv-stack", "--size", "1M", "-o", tmp_path / "model.onnx", "--quiet"], check=True
    )
    shim = tmp_path / "bin/lowtide"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lowtide "$@"\n')
    shim.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("page", PAGES)
def test_the_page_is_true(folder, environment, page):
    path = os.pathsep.join([str(folder / "bin"), os.path.dirname(sys.executable), environment["PATH"]])
    assert {language for language, _ in blocks(page)} == {"python", "sh"}
    for language, text in blocks(page):
        if INSTALLING in text:
            continue
        if "model.tflite" in text and "convert" not in text:
            assert (folder / "model.tflite").is_file()
        command = [sys.executable, "-c", text] if language == "python" else ["bash", "-e", "-c", text]
        done = subprocess.run(
            command, cwd=folder, env={**environment, "PATH": path}, capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
        assert done.stdout or "asyncio" in text
