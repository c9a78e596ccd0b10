#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""An experiment of the thesis that this project started from: four networks, 100 random inputs each, ONNX Runtime on the model
against LiteRT on the converted file; errors, sizes, memory, latency.

    python -m bench.evaluation [--inputs 100] [--folder DIR]      writes docs/evaluation.md

AlexNet and Tiny YOLOv2 are built here with their published shapes and random weights (He's initialisation, so that no layer
vanishes), ResNet101-DUC by `lowtide make-model`; the speech command classifier is trained, and skipped where ../shared/models
is absent. Needs onnx, onnxruntime and ai-edge-litert (build/venv/bin/python).
"""

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from bench.measure import LOWTIDE, ROOT, machine

sys.path.insert(0, str(ROOT / "tools/python"))
os.environ.setdefault("LOWTIDE", str(LOWTIDE))
import lowtide  # noqa: E402

MODELS = pathlib.Path(os.environ.get("LOWTIDE_MODELS", ROOT / "../shared/models"))
SPEECH = MODELS / "onnx/onnx2tflite__speech_command_classifier_trained.onnx"


class Network:
    """A chain of nodes: each takes the value of the one before."""

    def __init__(self, name, shape, seed):
        self.name, self.value = name, "input"
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights = [], []
        self.inputs = [helper.make_tensor_value_info("input", TensorProto.FLOAT, shape)]

    def weight(self, name, array):
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), name))
        return name

    def add(self, kind, *operands, **attributes):
        output = f"{kind.lower()}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, [self.value, *operands], [output], name=output, **attributes))
        self.value = output

    def conv(self, outputs, inputs, kernel, bias=True, group=1, **attributes):
        number = len(self.nodes)
        fan = inputs // group * kernel * kernel
        filters = self.rng.standard_normal((outputs, inputs // group, kernel, kernel)) * np.sqrt(2 / fan)
        operands = [self.weight(f"w{number}", filters)]
        if bias:
            operands.append(self.weight(f"b{number}", self.rng.uniform(-0.1, 0.1, outputs)))
        self.add("Conv", *operands, group=group, kernel_shape=[kernel, kernel], **attributes)

    def normalise(self, channels):
        number = len(self.nodes)
        ranges = {"scale": (0.8, 1.2), "shift": (-0.2, 0.2), "mean": (-0.1, 0.1), "variance": (0.8, 1.2)}
        self.add(
            "BatchNormalization",
            *(self.weight(f"{name}{number}", self.rng.uniform(*of, channels)) for name, of in ranges.items()),
        )

    def dense(self, outputs, inputs):
        number = len(self.nodes)
        matrix = self.rng.standard_normal((outputs, inputs)) * np.sqrt(2 / inputs)
        bias = self.rng.uniform(-0.1, 0.1, outputs)
        self.add("Gemm", self.weight(f"w{number}", matrix), self.weight(f"b{number}", bias), transB=1)

    def write(self, path):
        output = helper.make_empty_tensor_value_info(self.value)
        graph = helper.make_graph(self.nodes, self.name, self.inputs, [output], self.weights)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
        model = onnx.shape_inference.infer_shapes(model)
        onnx.checker.check_model(model)
        onnx.save(model, path)


def alexnet(path):
    """Krizhevsky, Sutskever, Hinton (2012), as in ONNX's model zoo: groups, local response normalisation."""
    net = Network("alexnet", [1, 3, 224, 224], 1)
    normalise = {"size": 5, "alpha": 1e-4, "beta": 0.75, "bias": 1.0}
    pool = {"kernel_shape": [3, 3], "strides": [2, 2]}
    net.conv(96, 3, 11, strides=[4, 4])
    net.add("Relu")
    net.add("LRN", **normalise)
    net.add("MaxPool", **pool)
    net.conv(256, 96, 5, group=2, pads=[2, 2, 2, 2])
    net.add("Relu")
    net.add("LRN", **normalise)
    net.add("MaxPool", **pool)
    for outputs, inputs, group in ((384, 256, 1), (384, 384, 2), (256, 384, 2)):
        net.conv(outputs, inputs, 3, group=group, pads=[1, 1, 1, 1])
        net.add("Relu")
    net.add("MaxPool", pads=[0, 0, 1, 1], **pool)
    net.add("Flatten")
    for outputs, inputs in ((4096, 256 * 6 * 6), (4096, 4096)):
        net.dense(outputs, inputs)
        net.add("Relu")
    net.dense(1000, 4096)
    net.add("Softmax", axis=1)
    net.write(path)


def tiny_yolo_v2(path):
    """Redmon, Farhadi (2016), as in ONNX's model zoo: 20 classes, 5 anchors."""
    net = Network("tiny_yolo_v2", [1, 3, 416, 416], 2)
    channels = [3, 16, 32, 64, 128, 256, 512, 1024, 1024]
    for i in range(8):
        net.conv(channels[i + 1], channels[i], 3, bias=False, auto_pad="SAME_UPPER")
        net.normalise(channels[i + 1])
        net.add("LeakyRelu", alpha=0.1)
        if i < 6:
            step = 2 if i < 5 else 1
            net.add("MaxPool", kernel_shape=[2, 2], strides=[step, step], auto_pad="SAME_UPPER")
    net.conv(125, 1024, 1)
    net.write(path)


def duc(path):
    command = [LOWTIDE, "make-model", "duc", "--input-size", "224", "--quiet", "-o", path]
    subprocess.run(command, check=True)


def latency(model, tflite, rounds):
    """Median milliseconds of both runtimes, two threads each, in turns."""
    seconds = [[], []]
    with lowtide.Runner(model, threads=2) as first, lowtide.Runner(tflite, threads=2) as second:
        rng = np.random.default_rng(17)
        for _ in range(rounds + 1):
            for kept, runner in zip(seconds, (first, second), strict=True):
                feeds = {name: rng.random(of.shape, np.float32) for name, of in runner.inputs.items()}
                begin = time.perf_counter()
                runner.run(feeds)
                kept.append(time.perf_counter() - begin)
    return [1000 * statistics.median(of[1:]) for of in seconds]


# What the thesis states for the largest error of its own converter.
NETWORKS = (
    ("AlexNet", alexnet, "1.2e-8"),
    ("Tiny YOLOv2", tiny_yolo_v2, "2.1e-5"),
    ("ResNet101-DUC, 224 x 224", duc, "1.8e-8"),
    ("Speech command classifier (trained)", None, "3.6e-6"),
)


def row(name, build, stated, folder, inputs):
    model = SPEECH
    if build:
        model = folder / f"{build.__name__}.onnx"
        if not model.exists():
            build(model)
    tflite = folder / f"{model.stem}.tflite"
    report = lowtide.convert(model, tflite).report
    found = lowtide.verify(model, tflite, random=inputs)
    of = [result.difference for result in found.outputs]
    times = latency(model, tflite, 10)
    print(f"{name}: {'passed' if found.passed else 'NOT within the tolerances of lowtide verify'}", file=sys.stderr)
    cells = [
        name,
        f"{max(o.max_abs for o in of):.1e}",
        f"{max(o.mean_abs for o in of):.1e}",
        f"{max(o.max_rel for o in of):.1e}",
        stated,
        f"{min(1 if o.argmax is None else o.argmax for o in of):.0%}",
        f"{model.stat().st_size / 1e6:.1f}",
        f"{tflite.stat().st_size / 1e6:.1f}",
        f"{report['nodes']}",
        f"{report['operators']}",
        f"{report['peak_rss'] / 2**20:.1f}",
        f"{times[1] / times[0]:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--inputs", type=int, default=100, help="random inputs of each network")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/evaluation")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    rows = []
    for name, build, stated in NETWORKS:
        if build is None and not SPEECH.exists():
            print(f"skipped {name}: {SPEECH} is absent", file=sys.stderr)
            continue
        rows.append(row(name, build, stated, options.folder.resolve(), options.inputs))
    text = f"""# Evaluation

<!-- Written by `python -m bench.evaluation`; change that file, not this one. -->

This page repeats an experiment of the thesis that this project started from, which is not part of this repository: {options.inputs} random
inputs for each network, the ONNX model in ONNX Runtime, the converted file in LiteRT with XNNPACK. AlexNet, Tiny YOLOv2 and ResNet101-DUC have
their published shapes and random weights; the speech classifier is trained. The relative error is a share of the largest magnitude of the
output; the column "thesis" has the largest error that the thesis gives for its own converter. "Same class" is how often both have the largest
element at the same place. Latency is LiteRT's median time divided by ONNX Runtime's, two threads each, measured alternately, so that other work
on the machine affects both.

| network | largest error | mean error | largest, relative | thesis | same class | ONNX, MB | TFLite, MB | nodes | operators | peak RSS, MiB | latency, LiteRT / ONNX Runtime |
|---|---|---|---|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

Measured on {time.strftime("%Y-%m-%d")} with lowtide {lowtide.__version__}; figures of other pages are of other days. On this machine:

```
{machine(options.folder)}
```
"""
    (ROOT / "docs/evaluation.md").write_text(text)


if __name__ == "__main__":
    main()
