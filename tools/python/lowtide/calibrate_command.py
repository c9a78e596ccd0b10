# SPDX-License-Identifier: Apache-2.0
"""lowtide calibrate MODEL.onnx|DIR: finds the ranges of tensors, for the conversion to int8."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

from . import memory
from .calibration import Calibration, calibrate
from .choice import SETTINGS
from .command_options import CommandParser, given_size, one_of, whole_number
from .errors import Usage
from .onnx_session import LEVELS
from .output_path import print_output
from .pieces_calibration import PiecesCalibration, calibrate_pieces, ranges_name
from .run_command import begin_log
from .runtime_log import end_of_output

_SHOWN = 10


def parser() -> CommandParser:
    """The command's options."""
    out = CommandParser(
        "calibrate",
        description="Run samples through an ONNX model, or through a folder of lowtide partition, and write the range of every tensor",
        example="lowtide calibrate model.onnx --samples photographs/ -o ranges.json",
    )
    out.add_argument("model", metavar="MODEL.onnx|DIR", help="the ONNX model, or a folder of its pieces")
    out.add_argument(
        "--samples",
        metavar="DIR|FILE.npz",
        required=True,
        help="a folder with one sample in each .npz file, or one file with samples along a first axis",
    )
    out.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="the file to write (default: MODEL.ranges.json); of a folder, the folder for a file for each piece (default: DIR.ranges)",
    )
    out.add_argument(
        "--of",
        metavar="MODEL.onnx",
        help="of a folder: write one file, for this model, which the folder has the pieces of",
    )
    out.add_argument(
        "--max-rss",
        type=given_size,
        metavar="SIZE",
        help="memory that model and tensors may take; K, M, G are powers of 1024",
    )
    out.add_argument("--threads", type=whole_number(1), metavar="INT", help="threads of one operator (default: 2)")
    out.add_argument("--optimization", **one_of(tuple(LEVELS)), help="optimisation level of ONNX Runtime")
    out.add_argument(
        "--choose",
        **one_of(("int8", "int16x8", "none")),
        help="hold a quarter of the samples back, and try on them which settings of convert --quantize are best for this type "
        "(default: int8, with four samples or more)",
    )
    out.add_argument(
        "--correct-layers",
        action="store_true",
        help="measure what convert --correct layers needs, and choose it if it is better (a conversion and some runs for each layer)",
    )
    out.add_argument("--quiet", action="store_true", help="print nothing")
    out.add_argument("--verbose", action="store_true", help="print what the runtime logs, and all names")
    return out


class _Progress:
    """The line of progress: settings, and after them layers."""

    def __init__(self) -> None:
        self._what = "settings tried"

    def __call__(self, done: int, total: int) -> None:
        if sys.stderr.isatty():
            text = f"{self._what}: {done} of {total}" if done < total else ""
            print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
        if done == total:
            self._what = "layers corrected"


def _print_choice(found: Calibration) -> None:
    if found.note:
        print_output(f"note: {found.note}")
    chosen = found.content.get("choice")
    if chosen:
        figures = chosen["decibels"]
        best = " ".join(f"{key}={chosen[key]}" for key in SETTINGS)
        held = "1 sample" if chosen["samples"] == 1 else f"{chosen['samples']} samples"
        print_output(
            f"best of {len(figures)} settings for {chosen['quantize']}, on {held} held back: {best}, {figures[best]:.1f} dB "
            f"(the worst: {min(figures.values()):.1f})"
        )


def _output(arguments: argparse.Namespace) -> str:
    if arguments.output is not None:
        return str(arguments.output)
    if arguments.of is None and os.path.isdir(arguments.model):
        return os.path.normpath(str(arguments.model)) + ".ranges"
    named = str(arguments.model if arguments.of is None else arguments.of)
    stem, extension = os.path.splitext(named)
    return (stem if extension == ".onnx" else named) + ".ranges.json"


def _print(output: str, found: Calibration, every: bool) -> None:
    print_output(
        f"{output}: {len(found.content['tensors'])} tensors, {found.samples} "
        f"sample{'s' if found.samples > 1 else ''}, {found.runs} run{'s' if found.runs > 1 else ''} of each, "
        f"peak RSS {memory.in_mib(memory.resident()[2])}"
    )
    _print_choice(found)
    _print_unseen(found.unseen, every)


def _print_unseen(unseen: Sequence[str], every: bool) -> None:
    if unseen:
        shown = unseen if every else unseen[:_SHOWN]
        more = f" and {len(unseen) - len(shown)} more" if len(unseen) > len(shown) else ""
        print_output(f"note: no finite value in any sample: {', '.join(map(repr, shown))}{more}")


def main(argv: Sequence[str]) -> int:
    """``lowtide calibrate``; errors are raised."""
    arguments = parser().parse(argv)
    begin_log(arguments.verbose)
    output = _output(arguments)
    options: dict[str, Any] = {
        "samples": arguments.samples,
        "max_rss": arguments.max_rss,
        "threads": arguments.threads,
        "optimization": arguments.optimization,
        "choose": arguments.choose,
        "correct_layers": arguments.correct_layers,
        "choice_progress": None if arguments.quiet else _Progress(),
    }
    if os.path.isdir(arguments.model):
        pieces = calibrate_pieces(arguments.model, output, model=arguments.of, **options)
        if not arguments.quiet:
            _print_pieces(output, pieces, arguments.verbose)
    elif arguments.of is not None:
        raise Usage("--of is for folders of pieces")
    else:
        found = calibrate(arguments.model, output, **options)
        if not arguments.quiet:
            _print(output, found, arguments.verbose)
    end_of_output()
    return 0


def _print_pieces(output: str, found: PiecesCalibration, every: bool) -> None:
    if found.content is None:
        for name, piece in found.pieces.items():
            _print(os.path.join(output, ranges_name(name)), piece, every)
        return
    print_output(
        f"{output}: {len(found.content['tensors'])} tensors, {found.samples} sample{'s' if found.samples > 1 else ''}, "
        f"{len(found.pieces)} pieces, peak RSS {memory.in_mib(memory.resident()[2])}"
    )
    _print_unseen(found.content["unseen"], every)
