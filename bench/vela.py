#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Vela, the compiler of Arm's Ethos-U, takes of quantized and of calibrated models: Lowtide's files and onnx2tf's.

    python -m bench.vela --vela PROGRAM [--onnx2tf PROGRAM] [--only TEXT] [--page]

The quantized models are those of ../shared/models/onnx_quant; the networks of bench/calibration.py are calibrated with the same crops of
photographs. Files have 8-bit inputs and outputs (--io int8) where the model quantizes them, and pictures with channels last. onnx2tf 2.6.9 is asked for integers by tensor
(-oiqt -qt per-tensor), with the same samples; where it writes no integer file, its float file is judged.
--page writes the table into docs/npu.md. Vela (ethos-u-vela 5.2.0) and onnx2tf are programs of environments of their own.
"""

import argparse
import collections
import pathlib
import re
import shutil
import subprocess

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from bench import page
from bench.calibration import ACCELERATORS, MODELS, NETWORKS, Data, foreign_environment, lowtide, vela
from bench.measure import ROOT

PAGE = ROOT / "docs/npu.md"
BEGIN, END = "<!-- written by python -m bench.vela -->", "<!-- end of what is written -->"
CRASHED = "no result"
KINDS = 4  # operators that are listed with a reason


class Subject:
    """A model: what Lowtide is told, and samples for onnx2tf."""

    def __init__(self, title, model, options=None, samples=None):
        self.title, self.model, self.options, self.samples = title, model, options or {}, samples

    def inputs(self):
        """{name: (type, shape)}; unknown extents are 1."""
        graph = onnx.load(self.model, load_external_data=False).graph
        constants = {of.name for of in graph.initializer}
        return {
            of.name: (
                helper.tensor_dtype_to_np_dtype(of.type.tensor_type.elem_type),
                tuple(dim.dim_value or 1 for dim in of.type.tensor_type.shape.dim),
            )
            for of in graph.input
            if of.name not in constants
        }


def shared_models():
    for path in sorted((MODELS / "onnx_quant").glob("*.onnx")):
        subject = Subject(path.stem, path)
        inputs = subject.inputs()
        rng = np.random.default_rng(1)
        subject.samples = [
            {
                name: rng.random(shape).astype(dtype)
                if dtype.kind == "f"
                else rng.integers(0, 100, shape).astype(dtype)
                for name, (dtype, shape) in inputs.items()
            }
            for _ in range(4)
        ]
        pictures = {name: "nhwc" for name, (_, shape) in inputs.items() if len(shape) == 4 and shape[1] == 3}
        subject.options = {"shape": {name: shape for name, (_, shape) in inputs.items()}, "layout": pictures}
        yield subject


def calibrated_networks(folder, text):
    for key, network in NETWORKS.items():
        title = f"{network.title}, calibrated"
        if text not in title:
            continue
        place = folder / key
        place.mkdir(parents=True, exist_ok=True)
        model, ranges = network.model(place), place / "ranges.json"
        data = Data(model, network.prepare)
        samples = list(data(24, "left", 1))
        if not ranges.exists():
            lowtide.calibrate(model, ranges, samples=samples)
        options = {"quantize": "int8", "ranges": ranges, "layout": {} if data.last else {data.name: "nhwc"}}
        yield Subject(title, model, options, samples)


def by_onnx2tf(program, subject, folder):
    """Its file, and what it is: integers, floats, or why there is none."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.copy(subject.model, folder / "model.onnx")  # it overwrites its input
    arguments = [program, "-i", "model.onnx", "-o", "out", "-n"]
    fixed = [f"{name}:{','.join(map(str, shape))}" for name, (_, shape) in subject.inputs().items() if shape]
    arguments += ["-ois", *fixed] if fixed else []
    integers = ["-oiqt", "-qt", "per-tensor", "-iqd", "int8", "-oqd", "int8"]
    for i, name in enumerate(subject.samples[0]):
        values = np.concatenate([sample[name] for sample in subject.samples])
        if values.ndim == 4:
            values = values.transpose(0, 2, 3, 1)
        np.save(folder / f"{i}.npy", values)
        channels = values.shape[-1] if values.ndim == 4 else 1
        integers += ["-cind", name, f"{i}.npy", str([[[[0.0] * channels]]]), str([[[[1.0] * channels]]])]
    for command in (arguments + integers, arguments):
        with open(folder / "log.txt", "a") as log:
            limit = ["timeout", "600"]
            subprocess.run(
                [*limit, *map(str, command)],
                cwd=folder,
                env=foreign_environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        for pattern, kind in (("*full_integer_quant.tflite", "integers"), ("*float32.tflite", "floats")):
            files = sorted((folder / "out").glob(pattern))
            if files:
                return files[0], kind
    return None, "none"


def by_lowtide(subject, folder, **more):
    folder.mkdir(parents=True, exist_ok=True)
    done = lowtide.convert(subject.model, folder / "model.tflite", **subject.options, **more)
    return done.output, done.report


def summary(found):
    """Why operators stay on the CPU, by reason: how many of which kinds, for which accelerator."""
    out = []
    for reason in sorted({reason for accelerator in found for _, _, reason in found[accelerator]}):
        counts = {
            accelerator: collections.Counter(
                {
                    kind: sum(n for n, of, why in found[accelerator] if (of, why) == (kind, reason))
                    for _, kind, why in found[accelerator]
                    if why == reason
                }
            )
            for accelerator in found
        }
        shown = {}
        for accelerator, kinds in counts.items():
            if not kinds:
                continue
            listed = [f"{n} {kind}" for kind, n in kinds.most_common(KINDS) if kind]
            rest = kinds.total() - sum(n for _, n in kinds.most_common(KINDS))
            text = ", ".join(listed + ([f"{rest} more"] if rest else []))
            shown.setdefault(text, []).append(accelerator.split("-")[1].upper())
        for text, accelerators in shown.items():
            before = [accelerators[0]] * (len(accelerators) == 1) + [text] * (text != "")
            out.append(": ".join([*([", ".join(before)] if before else []), reason]))
    return "; ".join(out).replace("|", "\\|")


def split(lines):
    """(count, kind, reason) of what bench.calibration.vela() says; a reason without the name of a tensor."""
    for line in lines:
        found = re.match(r"(\d+) (\w+): (.*)", line)
        count, kind, reason = (int(found[1]), found[2], found[3]) if found else (0, "", line)
        # Names of tensors are left out: equal reasons are counted together.
        yield count, kind, re.sub(r" ?\([^()]*\)$| on tensor \S+|(?<=tensor )\S+ (?=with missing)", "", reason)


def row(title, writer, file, program, folder):
    if file is None:
        return f"| {title} | {writer} | | | | | no file |"
    found = vela(program, file, folder)
    cells = []
    for accelerator in ACCELERATORS:
        cpu, npu, _ = found[accelerator]
        cells += [CRASHED if npu is None else str(npu), CRASHED if cpu is None else str(cpu)]
    reasons = {accelerator: list(split(found[accelerator][2])) for accelerator in ACCELERATORS}
    return f"| {title} | {writer} | " + " | ".join([*cells, summary(reasons)]) + " |"


def judged(subject, options):
    folder = options.folder / "vela" / subject.title.replace(" ", "_").replace(",", "")
    lines = []
    border = {"io": "int8"}
    try:
        plain, report = by_lowtide(subject, folder / "plain", **border)
    except lowtide.Usage:  # an output is not quantized in the model
        border = {}
        plain, report = by_lowtide(subject, folder / "plain")
    lines.append(row(subject.title, "Lowtide", plain, options.vela, folder / "plain"))
    if report["integers"]["float_islands"]:
        tables, report = by_lowtide(subject, folder / "tables", tables=True, **border)
        if report["integers"]["tables"]:
            lines.append(row(subject.title, "Lowtide --tables", tables, options.vela, folder / "tables"))
    if options.onnx2tf:
        file, kind = by_onnx2tf(options.onnx2tf, subject, folder / "onnx2tf")
        lines.append(row(subject.title, f"onnx2tf, {kind}", file, options.vela, folder / "onnx2tf"))
    print("\n".join(lines), flush=True)
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vela", required=True, help="the program of ethos-u-vela")
    parser.add_argument("--onnx2tf", help="the program of onnx2tf; without it its rows are left out")
    parser.add_argument("--only", default="", help="models with this text in their title")
    parser.add_argument("--page", action="store_true", help=f"write the table into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build/calibration")
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    onnxruntime.set_default_logger_severity(3)  # one model has its weights among its inputs: a warning for each
    lines = [
        "| model | file | U55: NPU | CPU | U85: NPU | CPU | what stays on the CPU, and why |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines))
    for subject in [*shared_models(), *calibrated_networks(options.folder, options.only)]:
        if options.only in subject.title:
            lines += judged(subject, options)
    if options.page:
        page.write(PAGE, BEGIN, END, "\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
