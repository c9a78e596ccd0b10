# SPDX-License-Identifier: Apache-2.0
"""The commands of README.md and docs: blocks marked `sh` run, in the order of their page, in a folder of their own.

Blocks without a mark are not run: they build, install or need a mirror, and the check does those itself. Pages whose blocks
are Python too have their own test (tests/python/test_docs.py).
"""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.support import converter

ROOT = converter.ROOT
OWN_TEST = {"partition.md", "python.md", "verify.md", "calibration.md"}
PAGES = [page for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))] if page.name not in OWN_TEST]


def blocks(page):
    return re.findall(r"^```sh\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)


def commands(page):
    return [line for block in blocks(page) for line in block.splitlines() if line.strip() and not line.startswith("#")]


@pytest.fixture
def tour(tmp_path):
    """A folder with the command `lowtide` of the package on the path, as after pip install."""
    shim = tmp_path / "bin/lowtide"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m lowtide "$@"\n')
    shim.chmod(0o755)
    python = tmp_path / "bin/python3"  # with the packages of the tests
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    (tmp_path / "work").mkdir()
    return tmp_path / "work", {
        **os.environ,
        "PATH": os.pathsep.join([str(shim.parent), os.environ["PATH"]]),
        "PYTHONPATH": str(ROOT / "tools/python"),
        "LOWTIDE": str(converter.program()),
        "LOWTIDE_SOURCE": str(ROOT),
    }


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page)], ids=lambda page: page.name)
def test_every_command_runs(page, tour):
    folder, environment = tour
    for command in commands(page):
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, timeout=600
        )
        assert done.returncode == 0, f"{command}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


def test_the_readme_has_a_tour():
    assert len(commands(ROOT / "README.md")) >= 8


def test_links_lead_somewhere():
    for page in [
        *PAGES,
        *(ROOT / "docs" / name for name in sorted(OWN_TEST)),
        ROOT / "CONTRIBUTING.md",
        ROOT / "tests/README.md",
    ]:
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in link:
                assert (pathlib.Path(page).parent / link).exists(), f"{page.name}: {link}"
