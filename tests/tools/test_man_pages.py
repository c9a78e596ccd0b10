# SPDX-License-Identifier: Apache-2.0
"""The manual pages: that they format without a warning, and that they tell what --help and docs/errors.md tell."""

import re
import shutil
import subprocess

import pytest

from tests.support import converter
from tests.tools.test_help import COMMANDS


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    share = tmp_path_factory.mktemp("share")
    done = converter.run("generate-docs", share)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return share / "man/man1"


def formatted(page):
    if shutil.which("man") is None:
        pytest.skip("man is not installed")
    environment = {"LC_ALL": "C.UTF-8", "MANWIDTH": "100", "MAN_KEEP_FORMATTING": "", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["man", "--warnings", "-l", page], env=environment, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    text = re.sub(".\b", "", done.stdout)
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


def test_one_page_a_command(pages):
    assert {page.name for page in pages.iterdir()} == {"lowtide.1", *(f"lowtide-{name}.1" for name in COMMANDS)}


def test_no_warnings(pages):
    if shutil.which("groff") is None:
        pytest.skip("groff is not installed")
    for page in sorted(pages.iterdir()):
        done = subprocess.run(["groff", "-ww", "-man", "-Tutf8", page], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), page


@pytest.mark.parametrize("command", COMMANDS)
def test_a_page_has_what_help_has(command, pages):
    text = formatted(pages / f"lowtide-{command}.1")
    lines = converter.run(command, "--help").stdout.splitlines()
    options = {name for line in lines for name in re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)", line)}
    assert len(options) >= 3
    assert not {name for name in options if not re.search(rf"{name}\b", text)}
    assert re.search(r"\bNAME\n +lowtide-" + command + " +- +", text)
    examples = [line for line in lines[lines.index("Examples:") + 1 :] if line]
    assert all(line.strip() in text for line in examples)
    first = next(line for line in lines if line.startswith("Usage: "))
    assert first.removeprefix("Usage: ") in text


def test_exit_statuses(pages):
    documented = re.findall(r"^\| ([a-z-]+) \| (\d+) \|", (converter.ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert len(documented) >= 11
    text = re.sub(r"\s+", " ", formatted(pages / "lowtide.1"))
    for name, status in documented:
        assert re.search(rf" {status} [^(]*(\([^)]*\)[^(]*)?\({name}\)", text), (name, status)
    for command in COMMANDS:
        assert f"lowtide-{command}(1)" in text


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    done = converter.run("generate-docs", tmp_path / "file")
    assert done.returncode == 3 and done.stderr.endswith("[not-found]\n"), done
