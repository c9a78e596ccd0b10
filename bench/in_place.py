#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What --weights in-place costs on a large model, and whether its answer is right.

    python -m bench.in_place [--size 4G] [--folder DIR]      needs onnxruntime and ai-edge-litert (build/venv/bin/python)

Prints the time of the conversion, with the inputs dropped from the page cache, the new bytes on the disk, and the largest
difference of LiteRT's CompiledModel from ONNX Runtime, in units of the output's range.
"""

import argparse
import json
import pathlib
import subprocess
import sys

from bench.measure import LOWTIDE, ROOT, seconds

RUN = """
import pathlib, sys
import numpy as np
model, folder = sys.argv[1:]
inputs = dict(np.load(folder + "/inputs.npz"))
if model.endswith(".onnx"):
    import onnxruntime
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    outputs = dict(zip((o.name for o in session.get_outputs()), session.run(None, inputs)))
else:
    from tests.support import compiled_model
    outputs = compiled_model.run(model, inputs, "BUILTIN", 2)
np.savez(folder + "/outputs.npz", **outputs)
"""


def answer(model, inputs, folder):
    """The outputs, worked out in a process of its own: each runtime holds the weights."""
    import numpy

    numpy.savez(folder / "inputs.npz", **inputs)
    subprocess.run([sys.executable, "-c", RUN, model, folder], check=True, stderr=subprocess.DEVNULL, cwd=ROOT)
    return dict(numpy.load(folder / "outputs.npz"))


def main():
    import numpy
    import onnx

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", default="4G")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/in_place")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    model, report = folder / "in_place.onnx", folder / "report.json"
    if not model.exists():
        subprocess.run(
            [
                LOWTIDE,
                "make-model",
                "conv-stack",
                "--plain",
                "--external",
                "--size",
                options.size,
                "--input-size",
                "3",
                "--quiet",
                "-o",
                model,
            ],
            check=True,
        )
    weights = pathlib.Path(f"{model}.data")
    before = set(folder.iterdir())
    result = folder / "in_place.tflite"
    taken = seconds(
        [LOWTIDE, "convert", "--quiet", "--weights", "in-place", "--report", report, model, "-o", result],
        [result],
        [model, weights],
        cold=True,
    )
    new = sum(path.stat().st_blocks * 512 for path in {result} | (set(folder.iterdir()) - before - {report}))
    inputs = {
        value.name: numpy.random.default_rng(17).random(
            [d.dim_value for d in value.type.tensor_type.shape.dim], numpy.float32
        )
        for value in onnx.load(model, load_external_data=False).graph.input
    }
    expected, got = answer(model, inputs, folder), answer(result, inputs, folder)
    worst = max(
        float(numpy.max(numpy.abs(got[name] - value))) / float(numpy.ptp(value)) for name, value in expected.items()
    )
    print(
        f"{weights.stat().st_size / 1e9:.2f} GB of weights: {taken:.2f} s, {new:,} new bytes, peak RSS "
        f"{json.loads(report.read_text())['peak_rss'] / 2**20:.1f} MiB, CompiledModel within {worst:.1e} of ONNX Runtime"
    )


if __name__ == "__main__":
    main()
