# SPDX-License-Identifier: Apache-2.0
"""The command line as a person meets it: what it says to wrong words, where it writes, and what a terminal shows."""

import fcntl
import json
import os
import pathlib
import pty
import re
import struct
import subprocess
import termios

import pytest

from tests.support import converter

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(folder, *arguments, **how):
    return converter.run(*arguments, cwd=folder, **how)


def shell(folder, command):
    return subprocess.run(
        ["bash", "-c", command.replace("lowtide", str(converter.program()))],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture
def folder(tmp_path):
    assert run(tmp_path, "make-model", "conv-stack", "--size", "1M", "-o", "m.onnx").returncode == 0
    return tmp_path


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], "a command is missing"),
        (["transmogrify"], "unknown command 'transmogrify'"),
        (["convert"], "MODEL is missing"),
        (["convert", "m.onnx", "--sideways"], "--sideways"),
        (["convert", "m.onnx", "-o", ""], "the file name is empty"),
        (["convert", "m.onnx", "--max-rss", "-5"], "'-5' is not a size such as 64M"),
        (["convert", "m.onnx", "--max-rss", "0"], "'0' is not a size"),
        (["convert", "m.onnx", "--max-rss", "64X"], "'64X' is not a size"),
        (["convert", "m.onnx", "--threads", "0"], "--threads"),
        (["convert", "m.onnx", "--shape", "input"], "NAME=VALUE"),
        (["convert", "m.onnx", "--shape", "input=1,-1"], "not a list of extents"),
        (["convert", "m.onnx", "--shape", "nobody=1"], "the model has no input 'nobody'"),
        (["convert", "m.onnx", "--layout", "input=sideways"], "neither nhwc nor nchw"),
        (["convert", "m.onnx", "--layout", "nobody=nhwc"], "the model has no input or output 'nobody'"),
        (["convert", "m.onnx", "--dump-after", "nothing"], "unknown pass 'nothing'"),
        (["convert", "m.onnx", "--quiet=1"], "option '--quiet' takes no value"),
        (["convert", "m.onnx", "--metadata=no"], "option '--metadata' takes no value"),
        (["convert", "m.onnx", "--dry-run=true"], "option '--dry-run' takes no value"),
        (["inspect", "m.onnx", "--json=no"], "option '--json' takes no value"),
        (["convert", "m.onnx", "--signature", ""], "the name is empty"),
        (["convert", "m.onnx", "--signature=", "--dry-run"], "--signature: the name is empty"),
        (["convert", "m.onnx", "--report=", "--dry-run"], "--report: the file name is empty"),
        (["convert", "--output=", "m.onnx"], "--output: the file name is empty"),
        (["convert", "m.onnx", "--max-rss=", "--dry-run"], "'' is not a size"),
        (["convert", "m.onnx", "--threads=", "2"], "'' is not a whole number"),
        (["convert", "m.onnx", "--weights=", "float"], "--weights: '' is not one of f16"),
        (["convert", "m.onnx", "--io=", "mmap"], "--io: '' is not one of int8"),
        (["convert", "m.onnx", "--for=", "gpu"], "--for: the value is empty"),
        (["convert", "m.onnx", "--range=", "mse"], "--range: the value is empty"),
        (["convert", "m.onnx", "--mean=", "--dry-run"], "--mean: the value is empty"),
        (["convert", "m.onnx", "--outputs=", "--dry-run"], "--outputs: the value is empty"),
        (["convert", "m.onnx", "--keep-float=", "--dry-run"], "--keep-float: the value is empty"),
        (["convert", "m.onnx", "--input-uint8", ""], "--input-uint8: the value is empty"),
        (["convert", "m.onnx", "--custom-ops=", "allow"], "--custom-ops: the value is empty"),
        (["convert", "m.onnx", "--sideways=", "m.onnx"], "unknown option '--sideways'"),
        (["convert", "m.onnx", "--quiet="], "option '--quiet' takes no value"),
        (["partition", "m.onnx", "--target=", "nnapi"], "--target: the value is empty"),
        (["partition", "m.onnx", "--exclude-op=", "--dry-run"], "--exclude-op: the value is empty"),
        (["extract", "m.onnx", "--to=", "-o", "n.onnx"], "--to: the value is empty"),
        (["convert", "m.onnx", "--zstd-level", "5"], "--zstd-level needs an output whose name ends in .tflite.zst"),
        (["convert", "m.onnx", "--quiet", "--verbose"], "'--quiet' and '--verbose' exclude each other"),
        (["make-model", "conv-stack", "--size", "0", "-o", "n.onnx"], "'0' is not a size"),
        (["make-model", "octopus", "-o", "n.onnx"], "'octopus' is not one of duc, deeplab, unet"),
        (["make-model", "unet", "--input-size", "0", "-o", "n.onnx"], "an input size of 0 is not between"),
    ],
)
def test_usage_errors(arguments, words, folder):
    done = run(folder, *arguments)
    assert done.returncode == 2 and words in done.stderr, done
    assert (
        done.stderr.startswith("lowtide: ") and done.stderr.endswith(" [usage]\n") and done.stderr.count("\n") == 1
    ), done
    assert [p.name for p in folder.iterdir()] == ["m.onnx"]


def test_report_never_replaces_a_model(folder):
    (folder / "linked.onnx").symlink_to("m.onnx")
    before = (folder / "m.onnx").read_bytes()
    for report in ("m.onnx", "./m.onnx", "linked.onnx", "m.tflite", "./m.tflite", folder / "m.tflite"):
        done = run(folder, "convert", "m.onnx", "--report", report)
        assert done.returncode == 2 and "is the input or the output" in done.stderr, (report, done)
    assert (folder / "m.onnx").read_bytes() == before and not (folder / "m.tflite").exists()
    assert run(folder, "convert", "m.onnx", "--report", ".").returncode == 7
    assert not (folder / "m.tflite").exists()


def test_closed_streams_do_not_become_files(folder):
    """The first files opened would have the numbers of the closed streams, and what is printed would go into them."""
    assert run(folder, "convert", "m.onnx", "-o", "right.tflite").returncode == 0
    right = (folder / "right.tflite").read_bytes()
    for closed in (">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"):
        done = shell(folder, f"lowtide convert m.onnx --verbose {closed}")
        assert done.returncode == 0, (closed, done)
        assert (folder / "m.tflite").read_bytes() == right, closed
    assert shell(folder, "lowtide convert absent.onnx 2>&-").returncode == 3


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full")
def test_output_that_cannot_be_printed(folder):
    for command in (
        "inspect m.onnx",
        "inspect --json m.onnx",
        "convert m.onnx",
        "convert m.onnx --dump-after lower",
        "convert m.onnx -o -",
        "ops",
        "--help",
    ):
        done = shell(folder, f"lowtide {command} >/dev/full")
        assert done.returncode == 5 and "standard output cannot be written: No space" in done.stderr, (command, done)


def test_dry_run_writes_nothing(folder):
    done = run(folder, "convert", "m.onnx", "--dry-run", "--report", "r.json")
    assert done.returncode == 0 and "(not written)" in done.stdout, done
    assert sorted(p.name for p in folder.iterdir()) == ["m.onnx", "r.json"]
    assert json.loads((folder / "r.json").read_text())["dry_run"] is True


def test_passes_are_those_of_the_page(folder):
    done = run(folder, "convert", "m.onnx", "--verbose", "--dry-run")
    passes = re.findall(r"^ *[0-9.]+ ms  (\w+):", done.stderr, re.MULTILINE)
    listed = re.search(r"after a pass:\n\n```\n((?:.+\n)+)```", (ROOT / "docs/architecture.md").read_text())[1]
    assert passes and passes == [line.split()[0] for line in listed.splitlines()]


def test_quiet_says_nothing(folder):
    done = run(folder, "convert", "m.onnx", "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done


@pytest.mark.parametrize("columns", [20, 60, 80, 200])
def test_progress_stays_on_one_line(columns, tmp_path):
    # Large enough to be seen several times.
    assert run(tmp_path, "make-model", "conv-stack", "--size", "256M", "-o", "m.onnx").returncode == 0
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    process = subprocess.Popen(
        [converter.program(), "convert", "m.onnx", "--threads", "1"],
        cwd=tmp_path,
        stderr=its,
        stdout=subprocess.DEVNULL,
    )
    os.close(its)
    seen = b""
    try:
        while piece := os.read(ours, 4096):
            seen += piece
    except OSError:  # the end of a terminal
        pass
    os.close(ours)
    assert process.wait(timeout=600) == 0
    shown = [line.replace("\x1b[K", "") for line in seen.decode().split("\r")]
    assert all(len(line) < columns and "\n" not in line for line in shown), shown
