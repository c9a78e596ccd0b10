# SPDX-License-Identifier: Apache-2.0
"""layout/core/kernel_limits.inc against the installed runtime: a few operators of each family are measured again.

`python tools/probe_kernels.py --check` does it for all of them.
"""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPERATORS = "ATAN2,BATCH_MATMUL,BITWISE_XOR,CONV_2D,GATHER,MEAN,PAD,SELECT_V2,SPLIT,STRIDED_SLICE,TRANSPOSE,WHERE"


def test_table_matches_the_runtime():
    pytest.importorskip("ai_edge_litert")
    command = [sys.executable, str(ROOT / "tools" / "probe_kernels.py"), "--check", "--ops", OPERATORS]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
