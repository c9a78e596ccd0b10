#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What LiteRT's GPU delegate takes of converted models, and why not all: on SwiftShader, a GPU in software.

    bench/gpu.py MODEL.onnx|MODEL.tflite ... [--shape INPUT=1,3,64,64] [--range INPUT=0:2] [--run] [--option=--x=y]
                 [--beside PROGRAM]

An ONNX model is converted first, with its dynamic dimensions as --shape says or as tests/oracle/real_models.tsv lists them. --run
runs what the delegate takes whole and compares with ONNX Runtime: the largest error, in units of the output's range. --beside is
another lowtide, an older one, whose files are judged beside. --option goes to `lowtide convert`.

Prints a Markdown table, and how many models have each reason of the delegate. It needs Debian's packages chromium and
libvulkan1 (docs/gpu.md), and the Python that runs it needs ai-edge-litert, onnx and onnxruntime (build/venv/bin/python).
"""

import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

if not __package__:  # run by its path: again as a module, so that the others of this package are found
    root = str(pathlib.Path(__file__).resolve().parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    os.execv(sys.executable, [sys.executable, "-m", "bench.gpu", *sys.argv[1:]])

from tests.oracle.real_models import expectations
from tests.support import converter, gpu, judge
from tests.support.compare import RangeTolerance, compare
from tests.support.inputs import load_structure, random_inputs

# A reason without what differs from tensor to tensor: its name at the end or in quotes.
_TENSOR = re.compile(r'( "[^"]*")|((?<=less than 5\.) .*$)|((?<=is not supported\.) .*$)')


def kind_of(reason):
    return _TENSOR.sub("", reason).rstrip(". ")


def known_shapes(model):
    """(shapes, ranges) of a model of the collection; both empty for others."""
    for row in expectations():
        if row.model == model.name:
            return row.shapes, row.ranges
    return {}, {}


def tflite_of(model, folder, shapes, options, program=None):
    """The file to judge, or the reason why there is none."""
    if model.suffix == ".tflite":
        return model, ""
    output = folder / f"{model.stem}.tflite"
    flags = [f"--shape={name}={','.join(map(str, dims))}" for name, dims in shapes.items()]
    if program:
        command = [program, "convert", str(model), "-o", str(output), "-q", *flags]
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        return (output, "") if done.returncode == 0 else (None, done.stderr.strip()[:200])
    done = converter.convert(model, output, [*flags, *options])
    return (output, "") if done.status == "converted" else (None, done.reason[:200])


def error_on_gpu(model, tflite, shapes, ranges):
    """The largest error of a run on the GPU in units of an output's range, as text."""
    structure = load_structure(model)
    arrays = random_inputs(structure, shapes, ranges)
    answer = gpu.delegate(tflite, arrays)
    if answer.outputs is None:
        return answer.fault or "not run"
    expected = judge.reference(model, arrays)
    differences = [compare(value, answer.outputs[name], RangeTolerance()) for name, value in expected.items()]
    return f"{max(d.relative for d in differences):.1e}" + (" WRONG" if any(d.fault for d in differences) else "")


def judge_model(model, folder, options):
    """One row: what is taken of ours, of the other program's, the error, the reasons."""
    shapes, ranges = known_shapes(model)
    shapes, ranges = {**shapes, **options.shapes}, {**ranges, **options.ranges}
    tflite, refused = tflite_of(model, folder, shapes, options.option)
    if tflite is None:
        return None, f"refused: {refused}", "", ""
    ours = gpu.delegate(tflite)
    error = (
        error_on_gpu(model, tflite, shapes, ranges) if options.run and ours.whole and model.suffix == ".onnx" else ""
    )
    beside = ""
    if options.beside and model.suffix == ".onnx":
        other, refused = tflite_of(model, folder, shapes, [], options.beside)
        beside = str(gpu.delegate(other)) if other else f"refused: {refused}"
    return ours, str(ours), beside, error


def main():
    parser = argparse.ArgumentParser(description="Ask LiteRT's GPU delegate what it takes of converted models.")
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=1,3,64,64")
    parser.add_argument("--range", action="append", default=[], metavar="INPUT=LOW:HIGH")
    parser.add_argument("--option", action="append", default=[], help="passed on to lowtide convert, as --option=--x=y")
    parser.add_argument("--run", action="store_true", help="run what is taken whole, and compare with ONNX Runtime")
    parser.add_argument("--beside", metavar="PROGRAM", help="another lowtide, to compare with")
    options = parser.parse_args()
    options.shapes, options.ranges = judge.parse_shapes(options.shape), judge.parse_ranges(options.range)
    if missing := gpu.absent():
        sys.exit(f"bench/gpu.py: {missing}")
    print("| model | operators on the GPU | " + ("beside | " if options.beside else "") + "error |")
    print("| --- | ---: | " + ("---: | " if options.beside else "") + "---: |")
    reasons, whole, judged = collections.Counter(), 0, 0
    for model in options.models:
        with tempfile.TemporaryDirectory(prefix="lowtide-gpu-") as folder:
            ours, cell, beside, error = judge_model(model, pathlib.Path(folder), options)
        judged += 1
        if ours:
            whole += ours.whole
            reasons.update({kind_of(reason) for reason in ours.reasons})
        print(f"| {model.stem} | {cell} | " + (f"{beside} | " if options.beside else "") + f"{error} |", flush=True)
    print(f"\n{whole} of {judged} whole. Models with a reason:\n")
    for reason, count in reasons.most_common():
        print(f"* {reason}: {count}")


if __name__ == "__main__":
    main()
