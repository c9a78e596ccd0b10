# SPDX-License-Identifier: Apache-2.0
"""lowtide run MODEL: runs a model, or a folder of pieces, once or more, and shows outputs, time and memory."""

from __future__ import annotations

import argparse
import collections
import json
import logging
import os
import pathlib
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from . import memory
from .command_options import CommandParser, by_name, given_shape, given_size, one_of, whole_number
from .errors import Io, Usage
from .litert_session import KERNELS
from .model_files import model_files
from .onnx_session import LEVELS
from .output_path import check_output_path, print_output, temporary_folder
from .port import Array
from .random_samples import generator, random_sample, resolved_shapes
from .runner import Runner, model_kind
from .runtime_log import end_of_output
from .samples import read_arrays
from .stored_arrays import write_arrays

_SLOWEST = 20


def parser() -> CommandParser:
    """The command's options."""
    out = CommandParser(
        "run",
        description="Run a .tflite or .onnx model, or a folder of pieces, and show its outputs, time and memory",
        example="lowtide run model.tflite --inputs x.npz --save y.npz --max-rss 512M",
    )
    out.add_argument(
        "model", metavar="FILE", help="the model (.tflite or .onnx), or a folder that lowtide partition made"
    )
    out.add_argument("--inputs", metavar="FILE", help="arrays by input name (.npz); random numbers without it")
    out.add_argument(
        "--seed", type=whole_number(0), metavar="INT", default=0, help="of the random numbers (default: 0)"
    )
    out.add_argument(
        "--shape",
        type=given_shape,
        metavar="INPUT=1,3,512,512",
        action="append",
        default=[],
        help="shape of a dynamic input that gets random numbers; may be repeated",
    )
    out.add_argument(
        "--outputs", metavar="NAME", action="append", help="this output or inner tensor only; may be repeated"
    )
    out.add_argument("--save", metavar="FILE", help="write the outputs to this file (.npz)")
    out.add_argument(
        "--repeat", type=whole_number(1), metavar="INT", default=1, help="runs; the shortest time is shown (default: 1)"
    )
    out.add_argument(
        "--profile",
        action="store_true",
        help="show memory while loading and running, for .onnx the operators that take longest, for pieces their times",
    )
    out.add_argument("--trace", metavar="FILE", help="write times of pieces as trace events, for ui.perfetto.dev")
    out.add_argument(
        "--max-rss", type=given_size, metavar="SIZE", help="memory that the model may take; K, M, G are powers of 1024"
    )
    out.add_argument("--threads", type=whole_number(1), metavar="INT", help="threads of one operator (default: 2)")
    out.add_argument("--cache", metavar="DIR", help="keep packed weights in this folder for the next time (.tflite)")
    out.add_argument("--kernels", **one_of(KERNELS), help="kernels of LiteRT (.tflite)")
    out.add_argument("--optimization", **one_of(tuple(LEVELS)), help="optimisation level of ONNX Runtime (.onnx)")
    out.add_argument("--signature", metavar="NAME", help="which signature to run (.tflite)")
    out.add_argument("--json", action="store_true", help="print JSON")
    out.add_argument("--verbose", action="store_true", help="print what the runtimes log")
    return out


class _Samples:
    """Highest anonymous and file-backed memory while a phase lasts, sampled each 10 ms."""

    def __init__(self) -> None:
        self.anonymous, self.file = memory.resident()[:2]
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def _watch(self) -> None:
        while not self._end.wait(0.01):
            self._sample()

    def _sample(self) -> None:
        anonymous, file, _ = memory.resident()
        self.anonymous, self.file = max(self.anonymous, anonymous), max(self.file, file)

    def __enter__(self) -> _Samples:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._thread.join()
        self._sample()

    def values(self) -> dict[str, int]:
        return {"peak_anonymous": self.anonymous, "peak_file": self.file}


def _inputs(arguments: argparse.Namespace, runner: Runner) -> tuple[dict[str, Array], list[str]]:
    """The arrays, and lines on what was assumed."""
    if arguments.inputs is not None:
        if arguments.shape:
            raise Usage("--shape is for random numbers, and --inputs has the arrays")
        return read_arrays(arguments.inputs, runner.inputs), []
    shapes, lines = resolved_shapes(runner.inputs, by_name("--shape", arguments.shape), arguments.model)
    return random_sample(runner.inputs, shapes, generator(arguments.seed)), lines


def _files_read(arguments: argparse.Namespace) -> Iterator[str]:
    yield from model_files(arguments.model)
    if arguments.inputs is not None:
        yield arguments.inputs


def _operators(path: str) -> list[dict[str, Any]]:
    """Time of operators from ONNX Runtime's profile, the longest first."""
    times: dict[str, list[int]] = collections.defaultdict(lambda: [0, 0])
    try:
        events = json.loads(pathlib.Path(path).read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError) as error:  # ONNX Runtime does not say that it could not write all of it
        raise Io(f"{path}: ONNX Runtime's profile cannot be read: {error}; is the disk full?", file=path) from error
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            entry = times[event["args"]["op_name"]]
            entry[0] += event["dur"]
            entry[1] += 1
    slowest = sorted(times.items(), key=lambda item: -item[1][0])[:_SLOWEST]
    return [
        {"operator": name, "seconds": microseconds / 1e6, "calls": calls} for name, (microseconds, calls) in slowest
    ]


def _described(array: Array) -> dict[str, Any]:
    values: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    if array.size and array.dtype.kind in "biuf":
        numbers = array.astype(np.float64)
        finite = numbers[np.isfinite(numbers)]
        if finite.size:
            # The sum of float64 may leave its range, which the mean does not.
            values.update(
                min=float(finite.min()), max=float(finite.max()), mean=float(finite.mean(dtype=np.longdouble))
            )
        if finite.size < numbers.size:
            values["not_finite"] = int(numbers.size - finite.size)
    return values


def _text(values: dict[str, Any]) -> list[str]:
    seconds = values["seconds"]
    lines = [
        f"{values['model']}: {values['choice']}",
        *values["notes"],
        f"loaded in {seconds['load']:.3f} s, ran in {seconds['run']:.4f} s"
        + (f" (shortest of {values['runs']})" if values["runs"] > 1 else ""),
    ]
    for name, output in values["outputs"].items():
        line = f"  {name}  {output['dtype']}[{', '.join(map(str, output['shape']))}]"
        if "mean" in output:
            line += f"  min {output['min']:.6g}  max {output['max']:.6g}  mean {output['mean']:.6g}"
        if "not_finite" in output:
            line += f"  {output['not_finite']} not finite"
        lines.append(line)
    for phase, used in values.get("memory", {}).items():
        lines.append(
            f"{phase}: at most {memory.in_mib(used['peak_anonymous'])} anonymous, {memory.in_mib(used['peak_file'])} file"
        )
    for piece in values.get("pieces", []):
        lines.append(
            f"  piece {piece['piece']:<3} {piece['runtime']:<6} {piece['nodes']:5} nodes  load {piece['load_seconds'] * 1e3:9.3f} ms  "
            f"run {piece['run_seconds'] * 1e3:9.3f} ms  check {piece['check_seconds'] * 1e3:9.3f} ms  {piece['made_bytes']} bytes made"
        )
    for operator in values.get("operators", []):
        lines.append(f"  {operator['seconds'] * 1e3:10.3f} ms  {operator['operator']}  ({operator['calls']} calls)")
    lines.append(f"peak RSS {memory.in_mib(values['peak_rss'])}")
    return lines


def _untyped(outputs: Mapping[str, Array]) -> list[str]:
    """A line for each output whose type an .npz file does not keep."""
    return [
        f"note: {name!r} is saved as bytes, because an .npz file has no {array.dtype.name}: numpy.load(FILE)[{name!r}]"
        f".view(ml_dtypes.{array.dtype.name})"
        for name, array in outputs.items()
        if array.dtype.isbuiltin == 2
    ]


def _over_limit(limit: str | None, before: int, *phases: _Samples) -> list[str]:
    """A line where the model took more than --max-rss: what is checked is the memory that it keeps after loading."""
    peak = max(phase.anonymous for phase in phases) - before
    if limit is None or peak <= memory.size("max_rss", limit):
        return []
    return [f"note: it took up to {memory.in_mib(peak)} while it was loaded and ran, more than --max-rss {limit}"]


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Runs the command; what it found as values for JSON."""
    kind = model_kind(arguments.model)
    is_onnx, is_divided = kind == "onnx", kind == "pieces"
    if arguments.trace is not None and not is_divided:
        raise Usage("--trace is for folders of pieces")
    outputs_to = [path for path in (arguments.save, arguments.trace) if path is not None]
    for path in outputs_to:
        check_output_path(path, _files_read(arguments))
    if len({os.path.realpath(path) for path in outputs_to}) < len(outputs_to):
        raise Usage(f"--save and --trace are one file, {arguments.trace}")
    with temporary_folder() as folder:
        profile = os.path.join(folder, "profile") if arguments.profile and is_onnx else None
        begun, before = time.perf_counter(), memory.resident()[0]
        with _Samples() as loading:
            runner = Runner(
                arguments.model,
                max_rss=arguments.max_rss,
                threads=arguments.threads,
                cache=arguments.cache,
                kernels=arguments.kernels,
                optimization=arguments.optimization,
                signature=arguments.signature,
                profile=profile,
            )
        load = time.perf_counter() - begun
        with runner:
            inputs, notes = _inputs(arguments, runner)
            times = []
            with _Samples() as running:
                for _ in range(arguments.repeat):
                    begun = time.perf_counter()
                    outputs = runner.run(inputs, arguments.outputs)
                    times.append(time.perf_counter() - begun)
            notes += _over_limit(arguments.max_rss, before, loading, running)
            values: dict[str, Any] = {
                "model": arguments.model,
                "choice": runner.choice,
                "notes": notes,
                "runs": arguments.repeat,
                "seconds": {"load": load, "run": min(times)},
                "outputs": {name: _described(array) for name, array in outputs.items()},
            }
            if arguments.profile:
                values["memory"] = {"loading": loading.values(), "running": running.values()}
            if is_divided and (arguments.profile or arguments.trace is not None):
                values["pieces"] = runner.pieces_profile(arguments.trace)
            if profile is not None:
                values["operators"] = _operators(runner.end_profile())
        if arguments.save is not None:
            write_arrays(arguments.save, outputs)
            notes += _untyped(outputs)
    values["peak_rss"] = memory.resident()[2]
    return values


def begin_log(verbose: bool) -> None:
    """What the package and the runtimes log goes to standard error: errors only, or everything."""
    logging.basicConfig(
        level=logging.DEBUG if verbose else logging.ERROR, format="%(name)s: %(message)s", stream=sys.stderr
    )


def main(argv: Sequence[str]) -> int:
    """``lowtide run``; errors are raised."""
    arguments = parser().parse(argv)
    begin_log(arguments.verbose)
    values = run(arguments)
    print_output(json.dumps(values, indent=2, allow_nan=False) if arguments.json else "\n".join(_text(values)))
    end_of_output()
    return 0
