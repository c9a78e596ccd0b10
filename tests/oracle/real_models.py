# SPDX-License-Identifier: Apache-2.0
"""The collection of real models: where it is, and what is expected of each (real_models.tsv)."""

import dataclasses
import os
import pathlib

from tests.support import judge

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = pathlib.Path(os.environ.get("LOWTIDE_MODELS", ROOT / "../shared/models/onnx")).resolve()


@dataclasses.dataclass(frozen=True)
class Expectation:
    model: str
    status: str  # pass or refused
    shapes: dict
    ranges: dict
    names: str  # what the error of a refused model must name


def expectations():
    rows = []
    for line in pathlib.Path(__file__).with_name("real_models.tsv").read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        model, status, shapes, ranges, names = ("" if cell == "-" else cell for cell in line.split("\t"))
        assert status in ("pass", "refused"), line
        rows.append(
            Expectation(model, status, judge.parse_shapes(shapes.split()), judge.parse_ranges(ranges.split()), names)
        )
    return rows
