#!/usr/bin/env python3
"""Compares Lowtide with others, in turns, in one run: only ratios mean something on a shared machine.

    bench/compare.py cp --size 8G [--kind plain|transposed] [--rounds 5] [--cold] [--folder DIR]

`cp`: the time of a conversion, in units of `cp` of the same files (the model and its external data). `plain` weights need
no transpose (1x1 kernels), `transposed` ones all do (3x3). Before each turn the disk is left in peace: what was written
is synced, the outputs are removed. With --cold the inputs are dropped from the page cache too (no root needed).
"""

import argparse
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
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
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
