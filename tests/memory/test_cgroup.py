# SPDX-License-Identifier: Apache-2.0
"""Under a memory limit of the kernel's, with the page cache charged to it: a conversion neither dies nor needs more.

`bench/scale.py cgroup` does the same with 8 GB.
"""

import pytest

from bench.cgroup import MemoryLimit, Unavailable, evict
from tests.support import converter

MIB = 2**20


@pytest.mark.parametrize("limit", [64, 24])
@pytest.mark.parametrize("options", [["--plain"], []], ids=["plain", "transposed"])
def test_the_page_cache_is_charged_too(options, limit, tmp_path):
    model, output = tmp_path / "m.onnx", tmp_path / "m.tflite"
    converter.run("make-model", "conv-stack", "--size=256M", "--external", "--quiet", "-o", model, *options, check=True)
    evict(model, f"{model}.data")
    try:
        with MemoryLimit(limit * MIB) as group:
            done = converter.run("convert", model, "-o", output, preexec_fn=group.enter)
            most, met = group.figures()
    except Unavailable as reason:
        pytest.skip(str(reason))
    assert done.returncode == 0, f"{done.returncode} {done.stderr}"
    assert output.stat().st_size > 255 * MIB
    # The files are larger than the limit, so it was met; else nothing was tested.
    assert most <= limit * MIB and met > 0, (most, met)
