# SPDX-License-Identifier: Apache-2.0
"""bench/compare.py: the ratios, the page's table, and a run of `limit` with a model of 1 MiB."""

import os
import pathlib
import subprocess
import sys

import pytest

from bench.compare import BEGIN, END, Ratio, write_row

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_ratios_are_of_the_least_times_and_of_the_rounds():
    ours, theirs = [(4.0, 9.0), (2.0, 1.0), (3.0, 5.0)], [(1.0, 3.0), (2.0, 1.0), (2.0, 1.0)]
    ratio = Ratio(ours, theirs)
    assert (ratio.least, ratio.median, ratio.low, ratio.high) == (2.0, 1.5, 1.0, 4.0)
    assert Ratio(ours, theirs, 1).least == 1.0
    assert ratio.cell() == "2.00, 1.50"


def test_a_row_replaces_the_one_of_the_same_title(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}{END}after\n")
    for title, seconds in (("plain, 1M", "1"), ("cold, 1M", "2"), ("plain, 1M", "3")):
        write_row(page, "a machine", title, [seconds] * 8)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}") and text.endswith(f"{END}after\n")
    assert [line for line in text.splitlines() if "1M" in line] == [
        "| cold, 1M | " + " | ".join("2" * 8) + " |",
        "| plain, 1M | " + " | ".join("3" * 8) + " |",
    ]


@pytest.mark.parametrize("state", [[], ["--cold"]])
def test_limit_writes_its_row(tmp_path, state):
    page = tmp_path / "page.md"
    page.write_text(BEGIN + END)
    command = [sys.executable, ROOT / "bench/compare.py", "limit", "--size", "1M", "--rounds", "2", *state]
    environment = {**os.environ, "LOWTIDE": os.environ.get("LOWTIDE", str(ROOT / "build/release/lowtide"))}
    run = subprocess.run(
        [*command, "--folder", tmp_path / "files", "--write", page],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert run.returncode == 0, run.stderr
    assert "pread / ideal" in run.stdout and "others used" in run.stdout
    row = [line for line in page.read_text().splitlines() if line.startswith("| plain weights, 1M")]
    assert len(row) == 1 and row[0].count("|") == 10
    assert not list((tmp_path / "files").glob("*.tflite*")) and not list((tmp_path / "files").glob("*.copy"))
