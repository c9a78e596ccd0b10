# SPDX-License-Identifier: Apache-2.0
"""Holes of the input stay holes: a model that is far larger than the disk converts, in no time and in the usual memory."""

import re
import subprocess

import pytest

from tests.support import converter

MIB = 2**20


def stored(path):
    return path.stat().st_blocks * 512


def make(folder, size, *options):
    model = folder / "m.onnx"
    converter.run(
        "make-model", "conv-stack", "--sparse", f"--size={size}", "--quiet", "-o", model, *options, check=True
    )
    data = folder / "m.onnx.data"
    if stored(data) > data.stat().st_size / 2:
        pytest.skip("the filesystem of the temporary folder keeps no holes")
    return model


def test_more_than_the_disk_holds(tmp_path):
    done = converter.convert(make(tmp_path, "500G", "--plain"), tmp_path / "m.tflite")
    assert done.status == "converted", done.reason
    assert (tmp_path / "m.tflite").stat().st_size > 500 * 2**30 * 0.99
    assert stored(tmp_path / "m.tflite") < 100 * MIB
    assert done.peak_rss <= 32 * MIB


@pytest.mark.parametrize("options", [["--plain"], []], ids=["plain", "transposed"])
@pytest.mark.parametrize("threads", [1, 3])
def test_the_bytes_are_those_of_a_file_without_holes(options, threads, tmp_path):
    model = make(tmp_path, "40M", *options)
    from_holes, from_zeros = tmp_path / "holes.tflite", tmp_path / "zeros.tflite"
    arguments = ["--external-buffers", "--threads", threads]
    assert converter.convert(model, from_holes, arguments).status == "converted"
    data, full = tmp_path / "m.onnx.data", tmp_path / "full"
    subprocess.run(["cp", "--sparse=never", data, full], check=True)
    full.rename(data)
    assert converter.convert(model, from_zeros, arguments).status == "converted"
    assert from_holes.read_bytes() == from_zeros.read_bytes()
    assert stored(from_zeros) >= from_zeros.stat().st_size
    if options:
        assert stored(from_holes) < 4 * MIB


def test_data_must_fit_on_the_disk(tmp_path):
    """Transposed weights are written out, holes or not: that they do not fit is found at the start."""
    done = converter.convert(make(tmp_path, "500G"), tmp_path / "m.tflite", cpu_seconds=5)
    assert done.status == "refused" and "[no-space]" in done.reason, done.reason
    needed, free = map(int, re.search(r"(\d+) bytes are needed, and the disk has (\d+)", done.reason).groups())
    assert needed > 500 * 2**30 * 0.99 and free > 0
