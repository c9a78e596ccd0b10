# SPDX-License-Identifier: Apache-2.0
"""Pages of mapped files are let go without loss, and pieces of a model stay below max_rss one after the other."""

import ctypes
import mmap

import numpy as np
import pytest

from lowtide import memory
from tests.support import converter

SIZE = 64 << 20


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "weights"
    with open(path, "wb") as out:
        for i in range(SIZE >> 20):
            out.write(bytes([i]) * (1 << 20))
    return path


def mapped(path, protection):
    """A private mapping, all of it read."""
    with open(path, "rb") as opened:
        out = mmap.mmap(opened.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=protection)
    assert int(np.frombuffer(out, np.uint8)[:: mmap.PAGESIZE].astype(np.int64).sum()) == sum(range(64)) * 256
    return out


@pytest.mark.parametrize("protection", [mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE])
def test_pages_go_and_come_back(file, protection):
    content = mapped(file, protection)
    before = memory.resident()[1]
    memory.release_mapped([str(file)])
    assert before - memory.resident()[1] > SIZE // 2
    assert content[5 << 20] == 5 and content[SIZE - 1] == 63


def test_a_page_that_was_written_is_kept(file):
    content = mapped(file, mmap.PROT_READ | mmap.PROT_WRITE)
    content[9 << 20] = 77
    memory.release_mapped([str(file)])
    assert content[9 << 20] == 77


def test_other_files_are_left_alone(file, tmp_path):
    content = mapped(file, mmap.PROT_READ)
    before = memory.resident()[1]
    memory.release_mapped([str(tmp_path / "other")])
    assert abs(memory.resident()[1] - before) < SIZE // 2 and content[0] == 0


def test_pieces_stay_below_the_limit(python, tmp_path):
    """256 MiB of weights in pieces of 40 MiB: with Python and the runtime, which take some 120 MiB before, resident memory
    stays near the limit. Without release_mapped it is 390 MiB."""
    assert ctypes.sizeof(ctypes.c_void_p) == 8
    stack = tmp_path / "m.onnx"
    converter.run("make-model", "conv-stack", "--size", "256M", "--external", "--sparse", "-o", stack, "-q")
    options = ("--target", "onnx", "--max-piece", "40M", "--weights", "in-place")
    done = converter.run("partition", stack, "-o", tmp_path / "pieces", *options)
    assert done.returncode == 0, done.stderr
    script = """
import sys
import numpy as np
import lowtide
from lowtide import memory
with lowtide.Runner(sys.argv[1], max_rss="200M") as runner:
    feed = {name: np.zeros(port.shape, port.dtype) for name, port in runner.inputs.items()}
    for _ in range(3):
        runner.run(feed)
print(memory.resident()[2] >> 20)
"""
    assert int(python(script, tmp_path / "pieces")) <= 290
