#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calibrated networks of 8 bits against their floats, and what compilers for NPUs take of them.

    python -m bench.calibration [--networks ultraface,yunet] [--vela PROGRAM] [--page]

Five networks of ../shared/models; the data are crops of scikit-learn's two photographs. Crops of the left halves calibrate, crops of the
right halves judge: the signal to noise of the worst output, LiteRT's integers against ONNX Runtime's floats.
--page writes the table into docs/calibration.md. Needs what tests/requirements.txt and bench/requirements.txt list; Vela
(ethos-u-vela 5.2.0) needs another numpy, so it is a program of an environment of its own.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from bench import page
from bench.measure import LOWTIDE, ROOT

sys.path.insert(0, str(ROOT / "tools/python"))
os.environ.setdefault("LOWTIDE", str(LOWTIDE))
import lowtide  # noqa: E402

MODELS = pathlib.Path(os.environ.get("LOWTIDE_MODELS", ROOT / "../shared/models"))
PAGE = ROOT / "docs/calibration.md"
BEGIN, END = "<!-- written by python -m bench.calibration -->", "<!-- end of what is written -->"
ACCELERATORS = ("ethos-u55-128", "ethos-u85-256")


def photographs():
    """Two of 427 x 640 pixels, RGB, from 0 to 255."""
    from sklearn.datasets import load_sample_images

    return [image.astype(np.float32) for image in load_sample_images().images]


def resized(image, height, width):
    """Bilinear, corner to corner."""
    ys, xs = np.linspace(0, image.shape[0] - 1, height), np.linspace(0, image.shape[1] - 1, width)
    top, left = ys.astype(int), xs.astype(int)
    bottom, right = np.minimum(top + 1, image.shape[0] - 1), np.minimum(left + 1, image.shape[1] - 1)
    down, along = (ys - top)[:, None, None], (xs - left)[None, :, None]
    upper = image[top][:, left] * (1 - along) + image[top][:, right] * along
    lower = image[bottom][:, left] * (1 - along) + image[bottom][:, right] * along
    return upper * (1 - down) + lower * down


def crops(count, half, seed, height, width):
    """Random squares of a half of the photographs, flipped, darker or brighter: arrays [1, 3, height, width] from 0 to 255."""
    rng, images = np.random.default_rng(seed), photographs()
    for i in range(count):
        image = images[i % 2]
        middle = image.shape[1] // 2
        part = image[:, :middle] if half == "left" else image[:, middle:]
        side = min(int(len(part) * rng.uniform(0.15, 0.95)), part.shape[1])
        y, x = rng.integers(0, len(part) - side + 1), rng.integers(0, part.shape[1] - side + 1)
        crop = part[y : y + side, x : x + side]
        if rng.random() < 0.5:
            crop = crop[:, ::-1]
        crop = np.clip((crop - 128) * rng.uniform(0.6, 1.3) + 128 + rng.uniform(-40, 40), 0, 255)
        yield resized(crop, height, width).transpose(2, 0, 1)[None].astype(np.float32)


def floats_of(source, path):
    """The floats of a quantized model: what quantizes activations is dropped, and weights are what they stand for."""
    model = onnx.load(source)
    constants = {of.name: numpy_helper.to_array(of) for of in model.graph.initializer}
    same, nodes = {}, []  # names of dropped results, and what stands for them
    for node in model.graph.node:
        inputs = [same.get(name, name) for name in node.input]
        if node.op_type in ("Identity", "Cast") and inputs[0] in constants:
            constants[node.output[0]] = constants[inputs[0]]
        elif node.op_type == "DequantizeLinear" and inputs[0] in constants:
            stored, scale = constants[inputs[0]], constants[inputs[1]].reshape(-1)
            zero = constants[inputs[2]].reshape(-1) if len(inputs) > 2 else np.zeros(1)
            shape = [-1 if axis == 0 else 1 for axis in range(max(stored.ndim, 1))]  # channels are along axis 0
            floats = (stored.astype(np.float64) - zero.reshape(shape)) * scale.reshape(shape)
            constants[node.output[0]] = floats.astype(np.float32).reshape(stored.shape)
        elif node.op_type in ("QuantizeLinear", "DequantizeLinear", "Cast"):
            same[node.output[0]] = inputs[0]
        else:
            copy = onnx.NodeProto()
            copy.CopyFrom(node)
            copy.input[:] = inputs
            nodes.append(copy)
    for of in model.graph.output:
        if of.name in same:
            nodes.append(helper.make_node("Identity", [same[of.name]], [of.name]))
    used = {name for node in nodes for name in node.input}
    weights = [numpy_helper.from_array(of, name) for name, of in constants.items() if name in used]
    inputs = [of for of in model.graph.input if of.name not in constants]
    graph = helper.make_graph(nodes, model.graph.name, inputs, list(model.graph.output), weights)
    made = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
    for of in made.graph.input:
        for extent in of.type.tensor_type.shape.dim:
            extent.dim_value = extent.dim_value or 1
    for of in made.graph.output:
        of.type.tensor_type.ClearField("shape")
    made = onnx.shape_inference.infer_shapes(made)
    onnx.checker.check_model(made)
    onnx.save(made, path)


def image_net(pixels):
    mean, deviation = np.array([0.485, 0.456, 0.406]), np.array([0.229, 0.224, 0.225])
    return ((pixels / 255 - mean.reshape(3, 1, 1)) / deviation.reshape(3, 1, 1)).astype(np.float32)


class Network:
    """file: below ../shared/models; prepare: pixels to the input; onnx2tf: decibels of its file, issue 13."""

    def __init__(self, title, file, prepare, least, onnx2tf, quantized=False):
        self.title, self.file, self.prepare, self.least, self.onnx2tf = title, file, prepare, least, onnx2tf
        self.quantized = quantized

    def model(self, folder):
        source = MODELS / self.file
        if not self.quantized:
            return source
        path = folder / f"{source.stem}.float.onnx"
        floats_of(source, path)
        return path


NETWORKS = {
    "mobilenet": Network(
        "MobileNetV2", "onnx_quant/ort__maui_mobilenet_qdq.onnx", image_net, 14.5, "10.2", quantized=True
    ),
    "ultraface": Network(
        "UltraFace RFB-320", "onnx/ultraface__version-RFB-320_simplified.onnx", lambda x: (x - 127) / 128, 20, "7.6"
    ),
    "yunet": Network("YuNet", "onnx/ipne__face_detection_yunet_120x160.onnx", lambda x: x[:, ::-1].copy(), 21, "4.8"),
    "deeplab": Network("DeepLabV3", "onnx/ipne__deeplab_v3_1_default_1.onnx", lambda x: x / 127.5 - 1, 24.5, "no file"),
    "person": Network("Person detector", "onnx/ipne__LightWeightPersonDetector.onnx", lambda x: x / 255, 21, "no file"),
}


class Data:
    """The samples of a model: channels where it wants them."""

    def __init__(self, model, prepare):
        self.prepare = prepare
        with lowtide.Runner(model) as runner:
            ((self.name, port),) = runner.inputs.items()
        self.last = port.shape[3] == 3
        self.size = port.shape[1:3] if self.last else port.shape[2:]

    def __call__(self, count, half, seed):
        for pixels in crops(count, half, seed, *self.size):
            values = self.prepare(pixels).astype(np.float32)
            yield {self.name: np.ascontiguousarray(values.transpose(0, 2, 3, 1)) if self.last else values}


def decibels(model, tflite, samples, kernels="xnnpack"):
    """Signal to noise by output."""
    signal, noise = Counter(), Counter()
    with lowtide.Runner(model) as reference, lowtide.Runner(tflite, kernels=kernels) as tested:
        for sample in samples:
            expected = reference.run(sample)
            for name, got in tested.run(sample).items():
                floats = expected[name].astype(np.float64)
                signal[name] += np.square(floats).sum()
                noise[name] += np.square(floats - got.reshape(floats.shape)).sum()
    return {name: 10 * np.log10(signal[name] / noise[name]) if noise[name] else np.inf for name in signal}


def foreign_environment():
    """For programs that have packages of their own."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def vela(program, tflite, folder):
    """By accelerator: operators left on the CPU and why, and how many the NPU takes."""
    out = {}
    for accelerator in ACCELERATORS:
        command = [program, tflite, "--accelerator-config", accelerator, "--output-dir", folder / accelerator]
        done = subprocess.run(map(str, command), capture_output=True, text=True, env=foreign_environment())
        text = done.stdout + done.stderr
        if done.returncode:
            said = [line for line in text.strip().splitlines() if not line.startswith("Warning: No ")]
            first = next((i for i, line in enumerate(said) if "Error: " in line), max(0, len(said) - 1))
            why = " ".join(line.strip() for line in said[first : first + 3]).split("Error: ")[-1]
            out[accelerator] = None, None, [why or f"it ends with {done.returncode} and no message"]
            continue
        count = {of: int(re.search(rf"{of} operators = (\d+)", text)[1]) for of in ("CPU", "NPU")}
        reasons = re.findall(r"operator: (\w+), ofm: .*\nReason: (.*)", text)
        of = Counter(f"{kind}: {why}" for kind, why in reasons)
        out[accelerator] = count["CPU"], count["NPU"], [f"{n} {line}" for line, n in of.items()]
    return out


def measured(key, network, options):
    """A row of figures."""
    folder = options.folder / key
    folder.mkdir(parents=True, exist_ok=True)
    model = network.model(folder)
    data = Data(model, network.prepare)
    ranges, begin = folder / "ranges.json", time.monotonic()
    calibrated = lowtide.calibrate(model, ranges, samples=list(data(24, "left", 1)), correct_layers=True)
    row = {"network": network.title, "least": network.least, "onnx2tf": network.onnx2tf}
    row["seconds"] = time.monotonic() - begin
    # The best without corrections layer by layer, which are beside it.
    tried = {of: value for of, value in calibrated.content["choice"]["decibels"].items() if "layers" not in of}
    settings = dict(of.split("=") for of in max(tried, key=tried.get).split())
    row["choice"] = ", ".join(settings.values())
    layered = {**settings, "correct": "layers"}
    done = lowtide.convert(model, folder / "layers.tflite", quantize="int8", ranges=ranges, **layered)
    row["layers"] = min(decibels(model, done.output, data(options.crops, "right", 2)).values())
    done = lowtide.convert(model, folder / "model.tflite", quantize="int8", ranges=ranges, **settings)
    integers = done.report["integers"]
    row["integer"], row["float"] = integers["operators"], len(integers["float_islands"])
    row["MB"] = done.output.stat().st_size / 1e6
    for kernels, count in (("xnnpack", options.crops), ("builtin", 4), ("reference", 1)):
        of = decibels(model, done.output, data(count, "right", 2), kernels)
        row[kernels] = min(of.values())
        print(network.title, kernels, {name: round(float(x), 2) for name, x in of.items()}, flush=True)
    for island in integers["float_islands"]:
        print(network.title, "float:", island["operator"], island["node"], island["reason"])
    if options.vela:
        # As cameras give pictures: channels last, integers.
        layout = {} if data.last else {data.name: "nhwc"}
        border = lowtide.convert(
            model, folder / "border.tflite", quantize="int8", ranges=ranges, io="int8", layout=layout
        ).output
        row["vela"] = vela(options.vela, border, folder)
        for accelerator, (_, _, reasons) in row["vela"].items():
            print(network.title, accelerator, *reasons or ["no reasons"], sep="\n  ")
    print({name: of for name, of in row.items() if name != "vela"}, flush=True)
    return row


def figure(value):
    return f"{value:.1f}" if np.isfinite(value) else "exact"


def table(rows):
    lines = [
        "| network | best settings held back | operators: integer, float | MB | signal to noise, dB | aim | --correct layers, dB | built-in, 4 crops, dB | "
        "reference, 1 crop, dB | onnx2tf 2.6.9, dB |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        cells = [row["network"], row["choice"], f"{row['integer']}, {row['float']}", f"{row['MB']:.2f}"]
        cells += [
            figure(row["xnnpack"]),
            f"{row['least']}",
            figure(row["layers"]),
            figure(row["builtin"]),
            figure(row["reference"]),
        ]
        lines.append("| " + " | ".join([*cells, row["onnx2tf"]]) + " |")
    return lines


def vela_table(rows):
    lines = ["| network | accelerator | NPU | CPU | why |", "|---|---|---|---|---|"]
    for row in rows:
        for accelerator, (cpu, npu, reasons) in row["vela"].items():
            count = [row["network"], accelerator, *("none" if of is None else str(of) for of in (npu, cpu))]
            lines.append("| " + " | ".join([*count, "; ".join(reasons).replace("|", "\\|")]) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--networks", default=",".join(NETWORKS), help="of these: " + ", ".join(NETWORKS))
    parser.add_argument("--crops", type=int, default=40, help="crops that judge with XNNPACK")
    parser.add_argument("--vela", help="the program of ethos-u-vela; without it that table is left out")
    parser.add_argument("--page", action="store_true", help=f"write the tables into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/calibration")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    onnxruntime.set_default_logger_severity(3)  # one model has its weights among its inputs: a warning for each
    rows = [measured(key, NETWORKS[key], options) for key in options.networks.split(",")]
    lines = table(rows) + (["", *vela_table(rows)] if options.vela else [])
    print("\n".join(lines))
    if options.page:
        page.write(PAGE, BEGIN, END, "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
