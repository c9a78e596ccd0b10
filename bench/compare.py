#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares Lowtide with others, in turns, in one run: only ratios mean something on a shared machine.

    bench/compare.py cp --size 8G [--kind plain|transposed] [--rounds 5] [--cold] [--folder DIR]
    bench/compare.py peers [MODEL ...] [--base PYTHON3.12] ...
    bench/compare.py quality MODEL.onnx ... --onnx2tf PATH [--python PATH] [--rounds 7]

`cp`: the time of a conversion, in units of `cp` of the same files (the model and its external data). `plain` weights need
no transpose (1x1 kernels), `transposed` ones all do (3x3). Before each turn the disk is left in peace: what was written
is synced, the outputs are removed. With --cold the inputs are dropped from the page cache too (no root needed).

`quality`: operators, TRANSPOSEs, and LiteRT's latency with 2 threads (median, in turns) of both converters' results.
onnx2tf is to be found in an environment of its own (`python3.12 -m venv ENV && ENV/bin/pip install onnx2tf==2.6.9`, then
--onnx2tf ENV/bin/onnx2tf); it is given a copy of the model, because it overwrites its input. The Python that runs this
needs ai-edge-litert (build/venv/bin/python).
"""

import argparse
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOWTIDE = pathlib.Path(os.environ.get("LOWTIDE", ROOT / "build/release/lowtide"))


def drop_from_cache(path):
    descriptor = os.open(path, os.O_RDONLY)
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def warm(path):
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 22):
            pass


def seconds(command, outputs, inputs, cold):
    for path in outputs:
        path.unlink(missing_ok=True)
    os.sync()
    for path in inputs:
        drop_from_cache(path) if cold else warm(path)
    start = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.monotonic() - start


def compare_cp(options):
    folder = pathlib.Path(options.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    model = folder / f"compare-{options.kind}-{options.size}.onnx"
    plain = ["--plain"] if options.kind == "plain" else []
    if not model.exists():
        subprocess.run([LOWTIDE, "make-model", "conv-stack", "--size", options.size, "--external", "--quiet", "-o", model,
                        *plain], check=True)
    inputs = [model, pathlib.Path(f"{model}.data")]
    copies = [path.with_suffix(path.suffix + ".copy") for path in inputs]
    result = model.with_suffix(".tflite")
    free = shutil.disk_usage(folder).free
    needed = 2 * sum(path.stat().st_size for path in inputs)
    if free < needed:
        sys.exit(f"{folder} has {free >> 20} MiB free, {needed >> 20} are needed")

    def convert():
        return seconds([LOWTIDE, "convert", "--quiet", model, "-o", result, "--threads", str(options.threads)],
                       [result, *copies], inputs, options.cold)

    def copy():
        return seconds(["sh", "-c", 'cp -- "$1" "$2" && cp -- "$3" "$4"', "sh", inputs[0], copies[0], inputs[1], copies[1]],
                       [result, *copies], inputs, options.cold)

    ratios, ours, theirs = [], [], []
    for turn in range(options.rounds):
        # Who goes first changes, so that neither always meets the disk that the other has just left.
        pair = (convert(), copy()) if turn % 2 == 0 else tuple(reversed((copy(), convert())))
        ours.append(pair[0])
        theirs.append(pair[1])
        ratios.append(pair[0] / pair[1])
        print(f"round {turn + 1}: convert {pair[0]:6.2f} s   cp {pair[1]:6.2f} s   ratio {ratios[-1]:.2f}", flush=True)
    print(f"{options.kind} weights, {options.size}, {'cold' if options.cold else 'warm'}: convert / cp = "
          f"{statistics.median(ratios):.2f} (median of {options.rounds}; {min(ratios):.2f} to {max(ratios):.2f})")
    for path in [result, *copies]:
        path.unlink(missing_ok=True)


LATENCY = """
import sys, time, numpy as np
from ai_edge_litert.interpreter import Interpreter
files, rounds = sys.argv[2:], int(sys.argv[1])
runs = []
for file in files:
    try:
        it = Interpreter(file, num_threads=2)
        it.allocate_tensors()
        rng = np.random.default_rng(17)
        for d in it.get_input_details():
            it.set_tensor(d["index"], rng.random(d["shape"]).astype(d["dtype"]))
        it.invoke()
    except (RuntimeError, ValueError):
        it = None  # LiteRT does not run it
    runs.append((it, []))
for _ in range(rounds):
    for it, times in runs:
        start = time.monotonic()
        if it:
            it.invoke()
        times.append(time.monotonic() - start if it else float("nan"))
print(*(sorted(times)[len(times) // 2] for _, times in runs))
"""


def latencies(files, python, rounds):
    """Median seconds of each file in LiteRT, in turns; not a number where it does not run."""
    timing = subprocess.run([python, "-c", LATENCY, str(rounds), *files], capture_output=True, text=True)
    return [float(word) for word in timing.stdout.split()] or [float("nan")] * len(files)


def operators(tflite):
    listing = json.loads(subprocess.run([LOWTIDE, "inspect", "--json", tflite], check=True, capture_output=True).stdout)
    return listing["totals"]


def compare_quality(options):
    print(f"{'model':24} {'converter':10} {'operators':>9} {'TRANSPOSE':>9} {'latency':>9}")
    for model in map(pathlib.Path, options.models):
        with tempfile.TemporaryDirectory() as folder:
            ours = pathlib.Path(folder) / "ours.tflite"
            subprocess.run([LOWTIDE, "convert", "--quiet", model, "-o", ours], check=True)
            copy = pathlib.Path(folder) / model.name
            shutil.copy(model, copy)
            subprocess.run([options.onnx2tf, "-i", copy, "-o", pathlib.Path(folder) / "theirs", "-n"], cwd=folder,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=options.timeout)
            theirs = sorted((pathlib.Path(folder) / "theirs").glob("*float32.tflite"))
            files = [("lowtide", ours)] + [("onnx2tf", path) for path in theirs[:1]]
            times = latencies([path for _, path in files], options.python, options.rounds)
            for (name, path), latency in zip(files, times):
                counts = operators(path)
                speed = (f"{latency * 1000:7.1f} ms   x {latency / times[0]:.2f}" if latency == latency
                         else "LiteRT does not run it")
                print(f"{model.stem:24} {name:10} {sum(counts.values()):9} {counts.get('TRANSPOSE', 0):9} {speed}",
                      flush=True)
            if not theirs:
                print(f"{model.stem:24} onnx2tf    made no float32 model")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    cp = commands.add_parser("cp", help="conversion time in units of cp")
    cp.add_argument("--size", default="8G")
    cp.add_argument("--kind", choices=["plain", "transposed"], default="plain")
    cp.add_argument("--rounds", type=int, default=5)
    cp.add_argument("--threads", type=int, default=2)
    cp.add_argument("--cold", action="store_true")
    cp.add_argument("--folder", default="build/compare")
    cp.set_defaults(run=compare_cp)
    quality = commands.add_parser("quality", help="operators, transposes and latency beside onnx2tf's")
    quality.add_argument("models", nargs="+")
    quality.add_argument("--onnx2tf", required=True, help="its program")
    quality.add_argument("--python", default=sys.executable, help="a Python with ai-edge-litert")
    quality.add_argument("--rounds", type=int, default=7)
    quality.add_argument("--timeout", type=int, default=600, help="seconds that onnx2tf may take")
    quality.set_defaults(run=compare_quality)
    commands.add_parser("peers", help="memory, time and graphs beside onnx2tf's: bench/peers.py", add_help=False)
    options, rest = parser.parse_known_args()
    if options.command == "peers":
        import peers  # which uses this one

        return peers.main(rest)
    if rest:
        parser.error(f"unknown: {' '.join(rest)}")
    return options.run(options)


if __name__ == "__main__":
    main()
