# SPDX-License-Identifier: Apache-2.0
"""Graphs of thousands of nodes for which a pass once took time that grew with the square of their number."""

import onnx
import pytest

from bench import motifs
from tests.support import converter

CPU_SECONDS = 3  # each takes less than a third of it; it took more before


@pytest.mark.parametrize(
    ("names", "form", "repeat", "options"),
    [
        (["merged_axes"], "chain", 8000, []),
        (["merged_sum"], "chain", 9000, ["--layout", "x=nhwc"]),
        (["five_axes"], "chain", 12000, []),
        (["gelu", "own_shape"], "chain", 4000, ["--layout", "x=nhwc"]),
        (["erf"], "chain", 12000, []),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_time_grows_with_the_nodes(names, form, repeat, options, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(motifs.build(names, form, repeat), path)
    done = converter.run("convert", path, "--dry-run", "--max-rss", "2G", *options, cpu_seconds=CPU_SECONDS)
    assert done.returncode == 0, done.stderr[:500]
