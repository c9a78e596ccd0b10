# SPDX-License-Identifier: Apache-2.0
"""lowtide calibrate MODEL.onnx: finds the ranges of tensors, for the conversion to int8."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import NoReturn

from . import memory
from .calibration import calibrate
from .errors import Usage
from .onnx_session import LEVELS
from .run_command import begin_log, end_of_output

_SHOWN = 10


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Usage(f"{message} (try lowtide calibrate --help)")


def parser() -> argparse.ArgumentParser:
    """The command's options."""
    out = _Parser(
        prog="lowtide calibrate",
        description="Run samples through an ONNX model and write the range of every tensor",
        epilog="example: lowtide calibrate model.onnx --samples photographs/ -o ranges.json",
        allow_abbrev=False,
    )
    out.add_argument("model", metavar="MODEL.onnx", help="the ONNX model")
    out.add_argument(
        "--samples",
        metavar="DIR|FILE.npz",
        required=True,
        help="a folder with one sample in each .npz file, or one file with samples along a first axis",
    )
    out.add_argument("-o", "--output", metavar="FILE", help="the file to write (default: MODEL.ranges.json)")
    out.add_argument(
        "--max-rss", metavar="SIZE", help="memory that model and tensors may take; K, M, G are powers of 1024"
    )
    out.add_argument("--threads", type=int, metavar="INT", help="threads of one operator (default: 2)")
    out.add_argument("--optimization", choices=tuple(LEVELS), help="optimisation level of ONNX Runtime")
    out.add_argument("--quiet", action="store_true", help="print nothing")
    out.add_argument("--verbose", action="store_true", help="print what the runtime logs, and all names")
    return out


def main(argv: Sequence[str]) -> int:
    """``lowtide calibrate``; errors are raised."""
    arguments = parser().parse_args(argv)
    begin_log(arguments.verbose)
    output = arguments.output
    if output is None:
        stem, extension = os.path.splitext(arguments.model)
        output = (stem if extension == ".onnx" else arguments.model) + ".ranges.json"
    found = calibrate(
        arguments.model,
        output,
        samples=arguments.samples,
        max_rss=arguments.max_rss,
        threads=arguments.threads,
        optimization=arguments.optimization,
    )
    if not arguments.quiet:
        print(
            f"{output}: {len(found.content['tensors'])} tensors, {found.samples} "
            f"sample{'s' if found.samples > 1 else ''}, {found.runs} run{'s' if found.runs > 1 else ''} of each, "
            f"peak RSS {memory.in_mib(memory.resident()[2])}"
        )
        if found.unseen:
            shown = found.unseen if arguments.verbose else found.unseen[:_SHOWN]
            more = f" and {len(found.unseen) - len(shown)} more" if len(found.unseen) > len(shown) else ""
            print(f"note: no finite value in any sample: {', '.join(map(repr, shown))}{more}")
    end_of_output()
    return 0
