# SPDX-License-Identifier: Apache-2.0
"""Resident memory does not depend on the bytes of weights: the promise of the name, measured on the built program.

The peak is read from the kernel, by lowtide itself (VmHWM) and, against lowtide, by this test from /proc while it runs.
The 8 GB runs stand in the benchmark; here the largest file has half a gigabyte.
"""

import os
import pathlib
import re
import subprocess
import threading
import time

import pytest

from tests.support import converter

MIB = 2**20
LIMIT = 32 * MIB
SPREAD = 4 * MIB


def make(kind, size, path, *options):
    converter.run("make-model", kind, "-o", path, f"--size={size}", "--quiet", *options, check=True)
    return path


def measured(model, output, *options, prefix=()):
    """(peak that lowtide prints, peak that /proc shows) in bytes."""
    process = subprocess.Popen(
        [*prefix, str(converter.program()), "convert", str(model), "-o", str(output), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    seen = [0]

    def watch():
        while process.poll() is None:
            try:
                found = re.search(r"VmHWM:\s+(\d+) kB", pathlib.Path(f"/proc/{process.pid}/status").read_text())
            except OSError:
                return
            if found:
                seen[0] = max(seen[0], int(found[1]) * 1024)
            time.sleep(0.005)

    watcher = threading.Thread(target=watch)
    watcher.start()
    out, err = process.communicate(timeout=600)
    watcher.join()
    assert process.returncode == 0, err
    done = converter.Conversion("converted", stdout=out, stderr=err)
    assert done.peak_rss, out + err
    return done.peak_rss, seen[0]


@pytest.fixture(scope="module", autouse=True)
def program():
    converter.program()


def check(printed, seen):
    assert printed <= LIMIT, f"lowtide says {printed / MIB:.1f} MiB"
    assert seen <= LIMIT, f"/proc says {seen / MIB:.1f} MiB"


def test_peak_is_the_same_for_every_size(tmp_path):
    peaks = {}
    for size in ("16M", "128M", "512M"):
        model, output = make("conv-stack", size, tmp_path / "m.onnx", "--external"), tmp_path / "m.tflite"
        printed, seen = measured(model, output)
        check(printed, seen)
        peaks[size] = printed
        for path in tmp_path.iterdir():
            path.unlink()
    print({size: f"{peak / MIB:.1f} MiB" for size, peak in peaks.items()})
    assert max(peaks.values()) - min(peaks.values()) <= SPREAD, peaks


@pytest.mark.parametrize("layout", ["inline", "external"])
def test_duc_shaped_260_mb(layout, tmp_path):
    model = make("duc", "248M", tmp_path / "m.onnx", *(["--external"] if layout == "external" else []))
    printed, seen = measured(model, tmp_path / "m.tflite")
    print(f"{printed / MIB:.1f} MiB printed, {seen / MIB:.1f} MiB seen")
    check(printed, seen)


def test_under_an_address_space_limit(tmp_path):
    model = make("conv-stack", "600M", tmp_path / "m.onnx", "--external")
    measured(model, tmp_path / "m.tflite", prefix=["prlimit", f"--as={512 * MIB}"])
    assert os.path.getsize(tmp_path / "m.tflite") > 600 * MIB * 0.95


def test_smaller_weights_take_no_more(tmp_path):
    model = make("conv-stack", "128M", tmp_path / "m.onnx", "--external")
    peaks = {}
    for mode in ("float", "f16", "int8", "int4"):
        printed, seen = measured(model, tmp_path / "m.tflite", "--weights", mode)
        check(printed, seen)
        peaks[mode] = printed
    print({mode: f"{peak / MIB:.1f} MiB" for mode, peak in peaks.items()})
    assert max(peaks.values()) - peaks["float"] <= 2 * MIB, peaks


def test_a_budget_that_is_too_small_names_a_sufficient_one(tmp_path):
    model = make("conv-stack", "16M", tmp_path / "m.onnx")
    done = converter.convert(model, tmp_path / "m.tflite", ["--max-rss=1M"])
    assert done.status == "refused" and re.search(r"\d+(\.\d+)? ?(K|M|KiB|MiB|MB)", done.reason), done
