#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Lowtide with others, alternately, in one run: only ratios mean something on a shared machine.

    bench/compare.py cp --size 8G [--kind plain|transposed|matrices] [--rounds 5] [--seed 1] [--cold] [--folder DIR]
    bench/compare.py limit --size 4G [--kind plain|transposed|matrices] [--rounds 5] [--seed 1] [--cold] [--folder DIR]
                           [--write docs/performance.md]
    bench/compare.py peers [MODEL ...] [--base PYTHON3.12] ...
    bench/compare.py quality MODEL.onnx ... --onnx2tf PATH [--python PATH] [--rounds 7]

`cp`: the time of a conversion, in units of `cp` of the same files (the model and its external data). `plain` weights need
no transpose (1x1 kernels), `transposed` ones all do (3x3), `matrices` are products with matrices of 256 MiB. Before each
turn the disk is left in peace: what was written is synced, the outputs are removed. With --cold the inputs are dropped
from the page cache too (no root needed).

`limit`: the same compared with a bound that does not depend on the disk: bench/limit/ideal_copier.cc, a small program that only
copies the bytes, as fast as this system can. It is compiled here (c++, or $CXX). Alternately: the ideal copier in its two
forms (mapped windows, and pread into a small buffer; the one with the lower minimum is "the ideal"), the conversion with
--io mmap, with --io pread, and `cp`. With --write the row of this kind, size and state is put into the page's table, and
the machine above it.

Both run the programs of a round in random order (--seed), because what ran before changes how long the next one takes,
and print two ratios: of the minimum times (use this one when other work runs on the machine) and the median of the ratios per round.
A virtual machine that reports free memory to its host gets it back at 0.1 to 2 s/GB, whatever the program; only about
1 GiB waits unreported. The machine's description says when that is so: use sizes below 1G there.

`quality`: operators, TRANSPOSEs, and LiteRT's latency with 2 threads (median, alternately) of both converters' results.
onnx2tf is to be found in an environment of its own (`python3.12 -m venv ENV && ENV/bin/pip install onnx2tf==2.6.9`, then
--onnx2tf ENV/bin/onnx2tf); it is given a copy of the model, because it overwrites its input. The Python that runs this
needs ai-edge-litert (build/venv/bin/python).
"""

import argparse
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

if not __package__:  # run by its path: again as a module, so that the others of this package are found
    root = str(pathlib.Path(__file__).resolve().parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    os.execv(sys.executable, [sys.executable, "-m", "bench.compare", *sys.argv[1:]])

from bench.measure import (
    LOWTIDE,
    ROOT,
    OthersWork,
    latencies,
    load,
    machine,
    operators,
    reports_free_pages,
    run_once,
)
from bench.page import between, write

KINDS = {"plain": ["conv-stack", "--plain"], "transposed": ["conv-stack"], "matrices": ["matmul-stack"]}


class Files:
    """A model of one kind and size, and what the programs that are compared make of it."""

    def __init__(self, options):
        self.folder = pathlib.Path(options.folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.model = self.folder / f"compare-{options.kind}-{options.size}.onnx"
        if not self.model.exists():
            subprocess.run(
                [
                    LOWTIDE,
                    "make-model",
                    *KINDS[options.kind],
                    "--size",
                    options.size,
                    "--external",
                    "--quiet",
                    "-o",
                    self.model,
                ],
                check=True,
            )
        self.inputs = [self.model, pathlib.Path(f"{self.model}.data")]
        self.copies = [path.with_suffix(path.suffix + ".copy") for path in self.inputs]
        self.result = self.model.with_suffix(".tflite")
        self.outputs = [self.result, *self.copies]
        self.options = options
        free, needed = shutil.disk_usage(self.folder).free, 2 * sum(path.stat().st_size for path in self.inputs)
        if free < needed:
            sys.exit(f"{self.folder} has {free >> 20} MiB free, {needed >> 20} are needed")

    def convert(self, io="mmap"):
        return [
            LOWTIDE,
            "convert",
            "--quiet",
            self.model,
            "-o",
            self.result,
            "--threads",
            str(self.options.threads),
            "--io",
            io,
        ]

    def copy(self):
        script = 'cp -- "$1" "$2" && cp -- "$3" "$4"'
        return ["sh", "-c", script, "sh", self.inputs[0], self.copies[0], self.inputs[1], self.copies[1]]

    def run(self, command):
        return run_once(command, self.outputs, self.inputs, self.options.cold)

    def remove_outputs(self):
        for path in self.outputs:
            path.unlink(missing_ok=True)

    def title(self):
        return f"{self.options.kind} weights, {self.options.size}, {'cold' if self.options.cold else 'warm'}"


def in_turns(files, commands, options):
    """Wall and CPU seconds of each command in each round, the commands of a round in random order."""
    order, draw = list(commands), random.Random(options.seed)
    times = {name: [] for name in commands}
    for turn in range(options.rounds):
        draw.shuffle(order)
        for name in order:
            times[name].append(files.run(commands[name]))
        print(
            f"round {turn + 1}: "
            + "   ".join(f"{name} {runs[-1][0]:6.2f} s ({runs[-1][1]:.2f} of CPU)" for name, runs in times.items())
            + f"   {load()}",
            flush=True,
        )
    files.remove_outputs()
    return times


class Ratio:
    """Of two programs' times: `least` of their least ones, `median` (and `low`, `high`) of the rounds'."""

    def __init__(self, ours, theirs, which=0):
        pairs = [a[which] / b[which] for a, b in zip(ours, theirs)]
        self.least = min(run[which] for run in ours) / min(run[which] for run in theirs)
        self.median, self.low, self.high = statistics.median(pairs), min(pairs), max(pairs)

    def __str__(self):
        return f"{self.least:.2f} (least), {self.median:.2f} (median of rounds; {self.low:.2f} to {self.high:.2f})"

    def cell(self):
        return f"{self.least:.2f}, {self.median:.2f}"


def begin(options):
    files = Files(options)
    print(machine(files.folder))
    if reports_free_pages() and sum(path.stat().st_size for path in files.inputs) >= 1 << 30:
        print("note: this size is above what waits unreported; use --size 512M or less")
    return files


def compare_cp(options):
    files = begin(options)
    others = OthersWork()
    times = in_turns(files, {"convert": files.convert(), "cp": files.copy()}, options)
    print(f"{files.title()}: convert / cp = {Ratio(times['convert'], times['cp'])}; others used {others}")


def ideal_copier(folder):
    program = folder / "ideal_copier"
    source = ROOT / "bench/limit/ideal_copier.cc"
    subprocess.run([os.environ.get("CXX", "c++"), "-O2", "-o", program, source], check=True)
    return program


def compare_limit(options):
    files = begin(options)
    copier, cold = ideal_copier(files.folder), ["cold"] if options.cold else []
    forms = {f"ideal {form}": [copier, files.inputs[1], files.copies[1], form, *cold] for form in ("mmap", "pread")}
    conversions = {form: files.convert(form) for form in ("mmap", "pread")}
    others = OthersWork()
    times = in_turns(files, {**forms, **conversions, "cp": files.copy()}, options)
    used = str(others)
    ideal = min(forms, key=lambda form: min(times[form]))
    print(
        f"{files.title()}, {options.threads} threads, others used {used}; seconds, least and median: "
        + ", ".join(
            f"{name} {min(runs)[0]:.3f} {statistics.median(wall for wall, _ in runs):.3f}"
            for name, runs in times.items()
        )
    )
    pairs = [("mmap", ideal), ("pread", ideal), ("mmap", "cp"), ("pread", "cp"), ("mmap", "pread")]
    found = [Ratio(times[ours], times[theirs]) for ours, theirs in pairs]
    for (ours, theirs), ratio in zip(pairs, found):
        print(f"  {ours} / {theirs} = {ratio}, in CPU time {Ratio(times[ours], times[theirs], 1)}")
    if options.write:
        ideal_seconds = f"{ideal.split()[1]}, {min(times[ideal])[0]:.2f} s"
        cells = [str(options.rounds), ideal_seconds, *(ratio.cell() for ratio in found), used]
        write_row(options.write, machine(files.folder, with_load=False), files.title(), cells)


BEGIN, END = "<!-- bench/compare.py limit writes from here -->\n", "<!-- bench/compare.py limit: to here -->\n"
COLUMNS = ["weights", "rounds", "the ideal", "mmap / ideal", "pread / ideal", "mmap / cp", "pread / cp", "mmap / pread"]
COLUMNS.append("other work")


def write_row(page, where, title, cells):
    """Puts a row into the table between the marks, in the place of an older one of the same title."""
    _, old, _ = between(page, BEGIN, END)
    rows = dict(
        line.strip("| \n").split(" | ", 1) for line in old.splitlines() if line.startswith("| ") and "---" not in line
    )
    rows.pop(COLUMNS[0], None)
    rows[title] = " | ".join(cells)
    head = f"| {' | '.join(COLUMNS)} |\n|---{'|---:' * (len(COLUMNS) - 1)}|\n"
    table = head + "".join(f"| {name} | {row} |\n" for name, row in sorted(rows.items()))
    text = "Each cell has two ratios: of the minimum times, and the median of the ratios per round. *Other work* is the share of the processors that other programs used"
    write(page, BEGIN, END, f"{text} during the runs. On: {' '.join(where.splitlines())}.\n\n{table}")


def compare_quality(options):
    print(f"{'model':24} {'converter':10} {'operators':>9} {'TRANSPOSE':>9} {'latency':>9}")
    for model in map(pathlib.Path, options.models):
        with tempfile.TemporaryDirectory() as folder:
            ours = pathlib.Path(folder) / "ours.tflite"
            subprocess.run([LOWTIDE, "convert", "--quiet", model, "-o", ours], check=True)
            copy = pathlib.Path(folder) / model.name
            shutil.copy(model, copy)
            subprocess.run(
                [options.onnx2tf, "-i", copy, "-o", pathlib.Path(folder) / "theirs", "-n"],
                cwd=folder,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=options.timeout,
            )
            theirs = sorted((pathlib.Path(folder) / "theirs").glob("*float32.tflite"))
            files = [("lowtide", ours)] + [("onnx2tf", path) for path in theirs[:1]]
            times = latencies([path for _, path in files], options.python, options.rounds)
            for (name, path), latency in zip(files, times):
                counts = operators(path)
                speed = (
                    f"{latency * 1000:7.1f} ms   x {latency / times[0]:.2f}"
                    if latency == latency
                    else "LiteRT does not run it"
                )
                print(
                    f"{model.stem:24} {name:10} {sum(counts.values()):9} {counts.get('TRANSPOSE', 0):9} {speed}",
                    flush=True,
                )
            if not theirs:
                print(f"{model.stem:24} onnx2tf    made no float32 model")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name, run, summary in (
        ("cp", compare_cp, "conversion time in units of cp"),
        ("limit", compare_limit, "conversion time in units of an ideal copier, both ways of reading"),
    ):
        command = commands.add_parser(name, help=summary)
        command.add_argument("--size", default="8G")
        command.add_argument("--kind", choices=KINDS, default="plain")
        command.add_argument("--rounds", type=int, default=5)
        command.add_argument("--threads", type=int, default=2)
        command.add_argument("--seed", type=int, default=1, help="of the order in which the programs of a round run")
        command.add_argument("--cold", action="store_true")
        command.add_argument("--folder", default="build/compare")
        if run is compare_limit:
            command.add_argument("--write", type=pathlib.Path, help="put the row into this page's table")
        command.set_defaults(run=run)
    quality = commands.add_parser("quality", help="operators, transposes and latency compared with onnx2tf's")
    quality.add_argument("models", nargs="+")
    quality.add_argument("--onnx2tf", required=True, help="its program")
    quality.add_argument("--python", default=sys.executable, help="a Python with ai-edge-litert")
    quality.add_argument("--rounds", type=int, default=7)
    quality.add_argument("--timeout", type=int, default=600, help="seconds that onnx2tf may take")
    quality.set_defaults(run=compare_quality)
    commands.add_parser("peers", help="memory, time and graphs compared with onnx2tf's: bench/peers.py", add_help=False)
    options, rest = parser.parse_known_args()
    if options.command == "peers":
        from bench import peers  # needs psutil, which the others do not

        return peers.main(rest)
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    return options.run(options)


if __name__ == "__main__":
    main()
