# SPDX-License-Identifier: Apache-2.0
"""What a user writes; test_types.py checks its types with mypy --strict."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

import lowtide


def show(progress: lowtide.Progress) -> None:
    print(f"{progress.phase}: {progress.done} of {progress.total} bytes, {progress.resident} resident")


def converted(model: pathlib.Path) -> pathlib.Path:
    try:
        done = lowtide.convert(model, model.with_suffix(".tflite"), max_rss="64M", shape={"x": (1, 3)}, progress=show)
    except lowtide.Unsupported as error:
        for node in error.nodes:
            print(f"{node.node} ({node.operator}): {node.reason} {node.hint}")
        raise
    except lowtide.Killed as error:
        sys.exit(f"ended by signal {error.signal}")
    except lowtide.Error as error:
        sys.exit(f"{error.file or model}: {error} [{error.kind}]")
    assert done.output is not None
    peak: int = done.report["peak_rss"]
    print(peak)
    return done.output


async def in_the_background(model: str) -> lowtide.Conversion:
    return await lowtide.convert_async(model, threads=2)


def results(model: pathlib.Path) -> dict[str, npt.NDArray[Any]]:
    with lowtide.Runner(model, max_rss=1 << 29, threads=2, cache=None) as runner:
        inputs = {}
        for name, port in runner.inputs.items():
            shape = tuple(extent if isinstance(extent, int) else 1 for extent in port.shape or ())  # None: any rank
            inputs[name] = np.zeros(shape, port.dtype)
        return runner.run(inputs, outputs=list(runner.outputs))
