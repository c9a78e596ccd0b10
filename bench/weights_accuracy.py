#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What smaller weights cost: each model is converted with --weights f16, int8 and int4, run by LiteRT (XNNPACK, what a user
gets) on random inputs, and compared with ONNX Runtime on the floats.

    python -m bench.weights_accuracy MODEL.onnx ... [--shape INPUT=1,3,64,64] [--inputs 8]

Prints a Markdown table: the file's size in units of the float file's, the signal-to-noise ratio in dB over all outputs and
inputs (20 dB is an error of a tenth of the signal, 40 dB of a hundredth), and how often the largest element along the
axis of classes is the same. Images are random with the spectrum of photographs, other inputs uniform, in [-1, 1) unless
--range says otherwise. The Python that runs this needs onnxruntime and ai-edge-litert (build/venv/bin/python).
"""

import argparse
import pathlib
import sys
import tempfile

import numpy as np

from tests.support import converter, judge
from tests.support.inputs import load_structure, random_inputs
from tests.support.litert import Litert

MODES = ("float", "f16", "int8", "int4")


def channel_axis(shape):
    """Of an image's batch: the shorter of the two axes that it can be."""
    return 1 if shape[1] <= shape[-1] else -1


def photograph(shape, low, high, rng):
    """Noise whose amplitude falls with the frequency."""
    if channel_axis(shape) == -1:
        return photograph((shape[0], shape[3], shape[1], shape[2]), low, high, rng).transpose(0, 2, 3, 1)
    vertical, horizontal = np.fft.fftfreq(shape[-2])[:, None], np.fft.rfftfreq(shape[-1])
    spectrum = np.fft.rfft2(rng.standard_normal(shape)) / (0.5 / max(shape[-2:]) + np.hypot(vertical, horizontal))
    image = np.fft.irfft2(spectrum, shape[-2:])
    return (low + (high - low) * np.clip(0.5 + image / (4 * image.std()), 0, 1)).astype(np.float32)


def make_inputs(structure, shapes, ranges, seed):
    arrays = random_inputs(structure, shapes, ranges, seed)
    rng = np.random.default_rng(seed)
    for name, array in arrays.items():
        if array.ndim == 4 and array.dtype == np.float32 and array.shape[channel_axis(array.shape)] in (1, 3):
            arrays[name] = photograph(array.shape, *ranges.get(name, (-1, 1)), rng)
    return arrays


def class_axis(array):
    """Where an output's classes would be; None where it has none."""
    if array.dtype.kind != "f" or array.ndim < 2:
        return None
    axis = channel_axis(array.shape) if array.ndim == 4 else -1
    return axis if array.shape[axis] > 1 else None


class Tally:
    def __init__(self):
        self.signal = self.noise = self.same = self.picks = 0.0

    def add(self, expected, actual):
        for name, e in expected.items():
            a = actual[name]
            if e.dtype.kind != "f" or e.shape != a.shape:
                continue
            finite = np.isfinite(e) & np.isfinite(a)
            e64, a64 = np.where(finite, e, 0).astype(np.float64), np.where(finite, a, 0).astype(np.float64)
            power = np.mean(e64**2)
            if power > 0:  # each output counts alike
                self.signal += 1
                self.noise += np.mean((a64 - e64) ** 2) / power
            axis = class_axis(e)
            if axis is not None:
                same = e.argmax(axis) == a.argmax(axis)
                self.same += same.sum()
                self.picks += same.size

    def __str__(self):
        ratio = 10 * np.log10(self.signal / self.noise) if self.noise > 0 else float("inf")
        top = f"{100 * self.same / self.picks:.1f} %" if self.picks else "-"
        return f"{min(ratio, 150):.0f} dB, {top}"


def row(model, shapes, ranges, inputs, litert, folder):
    structure = load_structure(model)
    own = {name: dims for name, dims in shapes.items() if name in {i.name for i in structure.graph.input}}
    flags = [f"--shape={name}={','.join(map(str, dims))}" for name, dims in own.items()]
    feeds = [make_inputs(structure, own, ranges, seed) for seed in range(inputs)]
    expected = [judge.reference(model, arrays) for arrays in feeds]
    cells, float_bytes = [], 0
    for mode in MODES:
        path = pathlib.Path(folder) / "model.tflite"
        conversion = converter.convert(model, path, ["--weights", mode, *flags])
        if conversion.status != "converted":
            sys.exit(f"{model}: {conversion.reason}")
        tally = Tally()
        for arrays, wanted in zip(feeds, expected):
            tally.add(wanted, litert.run(path, arrays, True))
        size = path.stat().st_size
        float_bytes = float_bytes or size
        cells.append(str(tally) if mode == "float" else f"{size / float_bytes:.2f}, {tally}")
    return f"| {model.stem} | {float_bytes / 1e6:.1f} | " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=1,3,64,64", help="fix an input's shape")
    parser.add_argument("--range", action="append", default=[], metavar="INPUT=LOW:HIGH", help="values of an input")
    parser.add_argument("--inputs", type=int, default=8, help="how many inputs (default: 8)")
    args = parser.parse_args()
    shapes, ranges = judge.parse_shapes(args.shape), judge.parse_ranges(args.range)
    print("| model | MB, float | float | " + " | ".join(MODES[1:]) + " |\n|---|---:|" + "---|" * len(MODES), flush=True)
    with Litert(300.0) as litert, tempfile.TemporaryDirectory(prefix="lowtide-weights-") as folder:
        for model in args.models:
            print(row(model, shapes, ranges, args.inputs, litert, folder), flush=True)


if __name__ == "__main__":
    main()
