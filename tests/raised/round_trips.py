# SPDX-License-Identifier: Apache-2.0
"""There and back: counts, and what went wrong.

    python -m tests.raised.round_trips nodes  [--filter TEXT] [--every N] [--jobs N]    # ONNX -> TFLite -> ONNX, the node suite
    python -m tests.raised.round_trips models [--filter TEXT]                           # the same, the shared models
    python -m tests.raised.round_trips tflite [--filter TEXT]                           # TFLite -> ONNX -> TFLite

ONNX Runtime runs the model and what came back on the same inputs. Of the node suite those cases are taken that convert
(tests/conformance/passing.txt); the outputs that a case gives are right too. Outcomes: pass;
refused (the way back has no form for an operator; it says which); known (a difference that is explained below); wrong. The way from TFLite compares operators: at most
1.1 times as many, and as many that compute on integers, by kind.
"""

import argparse
import collections
import concurrent.futures
import math
import os
import pathlib
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from ai_edge_litert import schema_py_generated as schema
from onnx.reference import ReferenceEvaluator

from tests.conformance import run_nodes
from tests.raised.judge_raised import check
from tests.support import converter
from tests.support.compare import ElementTolerance, RangeTolerance, compare, is_small_float
from tests.support.inputs import random_inputs

SHARED = converter.ROOT.parent / "shared/models"
MOST_OPERATORS = 1.1
LIMIT = 60.0
KNOWN = {
    "ort__bert_toy_optimized": "a random mask, up to 4, adds 30,000 to numbers around 1, whose last digits are lost",
    "ort__maui_mobilenet_qdq": "one step of the last scale: integer kernels round differently",
    "silero-vad__silero_vad_openvino_16k": "a single number of 1.4e-4, rounded differently by 9e-8",
    # From TFLite: operators.
    "litert__qwen_fc_blockwise_quantized": "the kernel that takes blocks of weights rounds its data, and the reference kernel is wrong",
    "coral__movenet_single_pose_lightning_ptq": "indices that are remainders: those counted from the end are provided for",
    "tflm__micro_speech_quantized": "its FULLY_CONNECTED of i8 flattens an image, which GPU delegates compute wrongly: a RESHAPE "
    "does; and of one channel, CONV_2D is what DEPTHWISE_CONV_2D is",
}
# Types that numpy and ONNX Runtime do not exchange: onnx's own evaluator runs models that have them outside.
NOT_EXCHANGED = {
    onnx.TensorProto.BFLOAT16,
    onnx.TensorProto.INT4,
    onnx.TensorProto.UINT4,
    onnx.TensorProto.FLOAT8E4M3FN,
    onnx.TensorProto.FLOAT8E4M3FNUZ,
    onnx.TensorProto.FLOAT8E5M2,
    onnx.TensorProto.FLOAT8E5M2FNUZ,
    onnx.TensorProto.FLOAT8E8M0,
    onnx.TensorProto.FLOAT4E2M1,
}


def session(path):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def outputs_of(path, inputs):
    """By name. Inputs that the model does not have are left out: some are not used."""
    model = onnx.load(str(path))
    # What came back has their bits.
    bits = {port.name for port in model.graph.input if port.type.tensor_type.elem_type == onnx.TensorProto.UINT8}
    inputs = {
        name: value.view(np.uint8) if name in bits and is_small_float(value.dtype) else value
        for name, value in inputs.items()
    }
    types = {port.type.tensor_type.elem_type for port in [*model.graph.input, *model.graph.output]}
    if types & NOT_EXCHANGED:
        names = [port.name for port in model.graph.output]
        known = {port.name for port in model.graph.input}
        values = ReferenceEvaluator(model).run(names, {name: v for name, v in inputs.items() if name in known})
        return dict(zip(names, values, strict=True))
    runtime = session(path)
    known = {port.name for port in runtime.get_inputs()}
    names = [port.name for port in runtime.get_outputs()]
    values = runtime.run(names, {name: value for name, value in inputs.items() if name in known})
    return dict(zip(names, values, strict=True))


def there_and_back(source, folder):
    """What came back, or (None, status, reason)."""
    tflite, back = folder / "there.tflite", folder / "back.onnx"
    for start, end in ((source, tflite), (tflite, back)):
        done = converter.convert(start, end, ["--quiet"], LIMIT)
        if done.status != "converted":
            reason = done.reason.replace(str(folder), "")
            is_way_back = end is back
            return (
                None,
                ("refused" if done.status == "refused" and is_way_back else "skipped" if not is_way_back else "wrong"),
                reason,
            )
    return back, "", ""


def agrees(source, inputs, expected, tolerance):
    """(status, reason). `expected` is what to expect where ONNX Runtime does not run the source."""
    with tempfile.TemporaryDirectory(prefix="lowtide-trip-") as folder:
        try:
            wanted = outputs_of(source, inputs)
        except Exception as error:
            if expected is None:
                return "skipped", f"ONNX Runtime does not run it: {error}"
            wanted = expected
        back, status, reason = there_and_back(source, pathlib.Path(folder))
        if back is None:
            return status, reason
        try:
            check(back)
            made = outputs_of(back, inputs)
        except Exception as error:
            return "wrong", str(error).replace("\n", " ")[:200]
        for name, value in wanted.items():
            if name not in made:
                return "wrong", f"output {name} is missing"
            fault = compare(value, made[name], tolerance).fault
            # Of some cases ONNX Runtime computes something else than the case expects, and than ONNX's text says.
            if fault and (expected is None or compare(expected[name], made[name], tolerance).fault):
                return "wrong", f"output {name} {fault}"
    return "pass", ""


def node_trip(entry):
    mode, case = entry.split()
    model, inputs, expected = run_nodes.load_case(case)
    if mode == "frozen":
        model = run_nodes.freeze(model, inputs) or model
    with tempfile.TemporaryDirectory(prefix="lowtide-trip-") as folder:
        source = pathlib.Path(folder) / "model.onnx"
        onnx.save(model, str(source))
        return entry, *agrees(source, inputs, expected, ElementTolerance())


def known(path, reason):
    """The outcome of a model that differs."""
    if path.stem in KNOWN:
        return path.stem, "known", f"{KNOWN[path.stem]}: {reason}"
    return path.stem, "wrong", reason


def model_trip(path):
    model = onnx.load(path)
    status, reason = agrees(path, random_inputs(model), None, RangeTolerance(steps=2))
    return known(path, reason) if status == "wrong" else (path.stem, status, reason)


def is_one(model, tensor):
    """Whether an 8-bit constant of one element stands for 1."""
    data, grid = model.buffers[tensor.buffer].data, tensor.quantization
    if data is None or math.prod(tensor.shape) != 1 or len(data) != 1 or grid is None or grid.scale is None:
        return False
    steps = int(data.view("int8" if tensor.type == schema.TensorType.INT8 else "uint8")[0]) - int(grid.zeroPoint[0])
    return steps * float(grid.scale[0]) == 1


def operators_of(path):
    """All operators by kind, and those that compute on integers of 8 or 16 bits with a scale."""
    model = schema.ModelT.InitFromPackedBuf(path.read_bytes(), 0)
    names = {value: name for name, value in vars(schema.BuiltinOperator).items() if isinstance(value, int)}
    narrow = {schema.TensorType.INT8, schema.TensorType.UINT8, schema.TensorType.INT16}
    kinds, integers = collections.Counter(), collections.Counter()
    for graph in model.subgraphs:
        for operator in graph.operators or []:
            code = model.operatorCodes[operator.opcodeIndex]
            kind = names[max(code.builtinCode, code.deprecatedBuiltinCode)]
            # A hybrid's weights come back as the DEQUANTIZE of a constant.
            if kind == "DEQUANTIZE" and model.buffers[graph.tensors[operator.inputs[0]].buffer].data is not None:
                continue
            tensors = [graph.tensors[i] for i in [*operator.inputs, *operator.outputs] if i >= 0]
            # A QUANTIZE to another scale comes back as the product with 1, which XNNPACK computes more exactly.
            if kind == "MUL" and len(tensors) == 3 and is_one(model, tensors[1]):
                kind = "QUANTIZE"
            kinds[kind] += 1
            data = [t for t in (tensors[0], tensors[-1]) if t.type in narrow and t.quantization is not None]
            if len(data) == 2:
                integers[kind] += 1
    return kinds, integers


# What computes on integers; ops that only move elements may be fewer or more.
KERNELS = (
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "FULLY_CONNECTED",
    "TRANSPOSE_CONV",
    "ADD",
    "MUL",
    "AVERAGE_POOL_2D",
    "MEAN",
    "SOFTMAX",
    "LOGISTIC",
)


def tflite_trip(path):
    with tempfile.TemporaryDirectory(prefix="lowtide-trip-") as name:
        folder = pathlib.Path(name)
        middle, back = folder / "there.onnx", folder / "back.tflite"
        for start, end in ((path, middle), (middle, back)):
            done = converter.convert(start, end, ["--quiet"], LIMIT)
            if done.status != "converted":
                return path.stem, ("refused" if end is middle else "wrong"), done.reason
        before, integers = operators_of(path)
        after, integers_after = operators_of(back)
        lost = [
            f"{kind} {integers[kind]} -> {integers_after[kind]}"
            for kind in KERNELS
            if integers[kind] != integers_after[kind]
        ]
        ratio = sum(after.values()) / sum(before.values())
        counts = f"{sum(before.values())} -> {sum(after.values())} operators"
        if ratio > MOST_OPERATORS or lost:
            more = [f"{kind} +{n}" for kind, n in (after - before).most_common(6)]
            return known(path, f"{counts}; integer kernels: {', '.join(lost) or 'equal'}; {', '.join(more)}")
        return path.stem, "pass", counts


def run(function, items, jobs):
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        return list(pool.map(function, items, chunksize=8 if len(items) > 100 else 1))


def items_of(way, text, every):
    if way == "nodes":
        return [entry for entry in run_nodes.read_list(run_nodes.PASSING) if text in entry][::every], node_trip
    folder, ending, function = ("tflite", "tflite", tflite_trip) if way == "tflite" else ("onnx*", "onnx", model_trip)
    return [path for path in sorted(SHARED.glob(f"{folder}/*.{ending}")) if text in path.name][::every], function


def main():
    parser = argparse.ArgumentParser(description="Round trips between ONNX and TFLite.")
    parser.add_argument("way", choices=("nodes", "models", "tflite"))
    parser.add_argument("--filter", default="", help="only names that contain this")
    parser.add_argument("--every", type=int, default=1, help="each Nth only")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--verbose", action="store_true", help="print all")
    args = parser.parse_args()
    start = time.monotonic()
    items, function = items_of(args.way, args.filter, args.every)
    outcomes = run(function, items, args.jobs)
    for name, status, reason in outcomes:
        if args.verbose or status == "wrong":
            print(f"{status}: {name}: {reason}")
    counts = collections.Counter(status for _, status, _ in outcomes)
    print(f"{time.monotonic() - start:.0f} s: " + ", ".join(f"{n} {status}" for status, n in sorted(counts.items())))
    return 1 if counts["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
