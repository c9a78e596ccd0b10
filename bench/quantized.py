#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Quantized ONNX models in LiteRT's integer kernels against ONNX Runtime: sizes, operator by operator, and end to end.

    python -m bench.quantized [--only TEXT] [--crops 10] [--page]

Sizes are of the 16 models of ../shared/models/onnx_quant. Numbers are of two of them and of networks of floats that ONNX Runtime's
quantize_static made quantized (QDQ, u8 data, weights of 8 bits by channel), from crops of scikit-learn's photographs; other crops are the inputs.
--page writes the tables into docs/integer-models.md. Needs what tests/requirements.txt and bench/requirements.txt list.
"""

import argparse
import collections
import logging
import pathlib

import numpy as np
import onnx
import onnx.version_converter
import onnxruntime
from onnx import numpy_helper

from bench import page
from bench.calibration import MODELS, NETWORKS, Data, image_net, lowtide
from bench.measure import ROOT

PAGE = ROOT / "docs/integer-models.md"
BEGIN, END = "<!-- written by python -m bench.quantized -->", "<!-- end of these -->"
MOBILENET = "onnx_quant/ort__maui_mobilenet_qdq.onnx"
SLICE = "onnx_quant/ort__qdq_with_multi_consumer_dq_nodes.fixed.onnx"
WITHIN = 2  # steps
INEXACT = ("Add", "Softmax")  # ONNX Runtime's kernels of integers are a step off for single pairs of integers
BY_CHANNEL = 13  # the first opset whose DequantizeLinear has scales by channel


def quantized_statically(model, data, path):
    """By ONNX Runtime's own tool, as its documentation says for x86: u8 data, i8 weights by channel."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    class Reader(CalibrationDataReader):
        def __init__(self):
            self.samples = iter(data(24, "left", 1))

        def get_next(self):
            return next(self.samples, None)

    logging.disable(logging.WARNING)
    source = onnx.load(model)
    if source.opset_import[0].version < BY_CHANNEL:
        source = onnx.version_converter.convert_version(source, BY_CHANNEL)
    quantize_static(
        source,
        path,
        Reader(),
        quant_format=QuantFormat.QDQ,
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def photographs_for(model, prepare, count):
    return list(Data(model, prepare)(count, "right", 2))


def subjects(options):
    """(title, quantized model, inputs)"""
    count = options.crops
    if options.only in "MobileNetV2":
        yield "MobileNetV2", MODELS / MOBILENET, photographs_for(MODELS / MOBILENET, image_net, count)
    if options.only in "EdgeTPU slice":
        # A part from the middle of a network: what its first tensor has is random.
        (of,) = lowtide.Runner(MODELS / SLICE).inputs.items()
        rng = np.random.default_rng(1)
        samples = [{of[0]: rng.normal(0, 1.5, of[1].shape).astype(np.float32)} for _ in range(count)]
        yield "EdgeTPU slice", MODELS / SLICE, samples
    for key, network in NETWORKS.items():
        if network.quantized or options.only not in network.title:
            continue
        folder = options.folder / key
        folder.mkdir(parents=True, exist_ok=True)
        source, path = network.model(folder), folder / "static.onnx"
        if not path.exists():
            quantized_statically(source, Data(source, network.prepare), path)
        yield network.title, path, photographs_for(path, network.prepare, count)


def scales_of_outputs(model):
    """The steps in which outputs count: the scales of the DequantizeLinear nodes that give them, also through nodes that move elements."""
    graph = onnx.load(model, load_external_data=False).graph
    constants = {of.name: of for of in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}

    def constant(name):
        while name in producers and producers[name].op_type == "Identity":
            name = producers[name].input[0]
        return numpy_helper.to_array(constants[name] if name in constants else producers[name].attribute[0].t)

    out = {}
    for output in graph.output:
        name = output.name
        while name in producers and producers[name].op_type != "DequantizeLinear":
            name = producers[name].input[0]
        if name in producers:
            out[output.name] = float(constant(producers[name].input[1]).reshape(-1)[0])
    return out


def compared(a, b, scales):
    """[elements, equal, within WITHIN steps] of two lists of results."""
    total = np.zeros(3, np.int64)
    for left, right in zip(a, b, strict=True):
        for name, scale in scales.items():
            steps = np.abs(np.rint((left[name].astype(np.float64) - right[name].reshape(left[name].shape)) / scale))
            total += [steps.size, np.count_nonzero(steps == 0), np.count_nonzero(steps <= WITHIN)]
    return total


def results(path, samples, **how):
    with lowtide.Runner(path, **how) as runner:
        return [runner.run(sample) for sample in samples]


def percent(part, whole):
    return f"{100 * part / whole:.2f}"


def inexact_in_floats(model, path):
    """The model with results of its operators in INEXACT as outputs too, so that ONNX Runtime does not draw them together with QuantizeLinear."""
    changed = onnx.load(model)
    outputs = {of.name for of in changed.graph.output}
    for node in changed.graph.node:
        if node.op_type in INEXACT and node.output[0] not in outputs:
            changed.graph.output.append(onnx.ValueInfoProto(name=node.output[0]))
    changed = onnx.shape_inference.infer_shapes(changed)
    onnx.save(changed, path)
    return path


def end_to_end(title, model, tflite, samples, folder):
    """A row: LiteRT against ONNX Runtime's default session, that one against its unoptimized one, and XNNPACK against the default one of inexact_in_floats()."""
    scales = scales_of_outputs(model)
    default, plain = results(model, samples), results(model, samples, optimization="none")
    exact = results(inexact_in_floats(model, folder / "inexact_in_floats.onnx"), samples)
    xnnpack, builtin = (results(tflite, samples, kernels=kernels) for kernels in ("xnnpack", "builtin"))
    cells = []
    for one, other in ((default, xnnpack), (default, builtin), (default, plain), (exact, xnnpack)):
        count, equal, near = compared(one, other, scales)
        cells += [percent(equal, count), percent(near, count)]
    return f"| {title} | " + " | ".join(cells) + " |"


def by_operator(title, model, tflite, samples):
    """A row: every operator with ONNX Runtime's values for its inputs."""
    cells = []
    for kernels in ("xnnpack", "builtin"):
        found = lowtide.verify(model, tflite, inputs=samples, by_op=True, kernels=kernels)
        total, worst, by_kind = np.zeros(2), 0, collections.Counter()
        for tensor in found.tensors:
            steps = tensor.difference.steps
            if steps is None:
                continue
            total += [tensor.difference.elements, tensor.difference.elements * steps.equal]
            worst = max(worst, steps.largest)
            if steps.largest > 1:
                by_kind[tensor.operators] = max(by_kind[tensor.operators], steps.largest)
        cells += [f"{100 * total[1] / total[0]:.3f}", str(worst)]
        print(title, kernels, "more than one step:", dict(by_kind) or "none", flush=True)
    return f"| {title} | " + " | ".join(cells) + " |"


def sizes(folder):
    lines = [
        "| model | ONNX, KB | TFLite, KB | ratio | integer operators | in floats |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for path in sorted((MODELS / "onnx_quant").glob("*.onnx")):
        done = lowtide.convert(path, folder / "m.tflite")
        before, after, integers = path.stat().st_size, done.output.stat().st_size, done.report["integers"]
        islands = len(integers["float_islands"])
        lines.append(
            f"| {path.stem} | {before / 1e3:.1f} | {after / 1e3:.1f} | {after / before:.2f} | {integers['operators']} | {islands} |"
        )
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="networks with this text in their title")
    parser.add_argument("--crops", type=int, default=10, help="inputs of each network")
    parser.add_argument("--operator-crops", type=int, default=2, help="of them, for operator by operator; 0: not")
    parser.add_argument("--page", action="store_true", help=f"write the tables into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/calibration")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    options.folder.mkdir(parents=True, exist_ok=True)
    onnxruntime.set_default_logger_severity(3)  # one model has its weights among its inputs: a warning for each
    whole = [
        "| network | XNNPACK: equal, % | within 2 steps | built-in: equal | within 2 | ONNX Runtime unoptimized: equal | within 2 | "
        "XNNPACK, Add and Softmax of ONNX Runtime in floats: equal | within 2 |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    parts = [
        "| network | XNNPACK: equal, % | most steps | built-in: equal, % | most steps |",
        "|---|---:|---:|---:|---:|",
    ]
    for title, model, samples in subjects(options):
        shapes = {name: value.shape for name, value in samples[0].items()}
        tflite = lowtide.convert(model, options.folder / f"{model.stem}.tflite", shape=shapes).output
        whole.append(end_to_end(title, model, tflite, samples, options.folder))
        print(whole[-1], flush=True)
        if options.operator_crops:
            parts.append(by_operator(title, model, tflite, samples[: options.operator_crops]))
            print(parts[-1], flush=True)
    lines = [*sizes(options.folder), "", *parts, "", *whole]
    print("\n".join(lines))
    if options.page:
        page.write(PAGE, BEGIN, END, "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
