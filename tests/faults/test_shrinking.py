# SPDX-License-Identifier: Apache-2.0
"""Another process cuts a file while it is converted, at many moments: there is the complete output, or one line of error
and the old one. Never a SIGBUS, never a file with zeros in the place of weights."""

import os
import random
import shutil
import subprocess
import time

import pytest

from tests.faults import fault
from tests.support import converter

CUTS = 15  # that a conversion notices
ROUNDS = 40 * CUTS  # far more than it takes
MODELS = {
    "plain": ["conv-stack", "--plain", "--external"],
    "transposed": ["conv-stack", "--external"],
    "inline": ["conv-stack"],
    "matrices": ["matmul-stack", "--external"],
}


@pytest.mark.parametrize("io", fault.IO)
@pytest.mark.parametrize("kind", MODELS)
def test_cut_by_another_process(kind, io, tmp_path, record_property):
    model = tmp_path / "m.onnx"
    subprocess.run([converter.program(), "make-model", *MODELS[kind], "--size=24M", "--quiet", "-o", model], check=True)
    data = tmp_path / "m.onnx.data" if "--external" in MODELS[kind] else model
    stored = tmp_path / "stored"
    shutil.copy(data, stored)
    output = tmp_path / "m.tflite"
    command = [converter.program(), "convert", model, "-o", output, "--quiet", "--io", io]
    begun = time.monotonic()
    subprocess.run(command, check=True)
    latest = time.monotonic() - begun
    good = output.read_bytes()
    moments, refused = random.Random(5), 0
    for _ in range(ROUNDS):
        output.write_bytes(fault.OLD)
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        time.sleep(moments.uniform(0, latest))
        os.truncate(data, moments.choice([0, 5000, data.stat().st_size // 3]))
        _, err = process.communicate(timeout=fault.HANGS)
        if process.returncode == 0:
            assert output.read_bytes() == good and not err
            latest *= 0.9  # the speed of a machine changes: the moments stay within the conversion
        else:
            refused += 1
            latest *= 1.05
            # I/O, or malformed: cut before it was opened
            assert process.returncode in (4, 6), (process.returncode, err)
            assert len(err.splitlines()) == 1 and err.startswith("lowtide: "), err
            assert output.read_bytes() == fault.OLD
        assert not [path.name for path in tmp_path.iterdir() if ".lowtide-" in path.name]
        shutil.copy(stored, data)
        if refused == CUTS:
            break
    assert refused == CUTS, (refused, latest)
    record_property("faults injected and survived", refused)
