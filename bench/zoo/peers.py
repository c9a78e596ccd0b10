# SPDX-License-Identifier: Apache-2.0
"""CPU time of invoke beside other converters' files of the same networks: in turns in one process, ratios of medians; the
median of several processes, which differ by a twentieth from each other for small networks.

onnx2tf is given the small export of the older exporter; litert-torch builds the same module with the same weights in an
environment of its own. Each peer's file is kept beside the export; a peer that fails leaves a note and is not asked again.
"""

import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile

import onnx
from ai_edge_litert.interpreter import Interpreter
from onnxruntime.tools.onnx_model_utils import make_input_shape_fixed

from bench.measure import load, operators
from bench.zoo.table import NETWORKS
from tests.support import converter

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROCESSES, TURNS = 5, 7
# The sizes at which shared models with open sizes are compared. Left open, both files would run at extents of 1.
SIZES = {
    "basic-pitch__nmp": (1, 43844, 1),
    "magika__standard_v1": (1, 1536),
    "magika__standard_v2_1": (1, 4096),
    "onnx2tf__LSTM.tanh.bidirectional": (16, 1, 2),
    "openwakeword__embedding_model": (1, 76, 32, 1),
    "openwakeword__melspectrogram": (1, 1280),
    "ppocr__ch_PP-OCRv2_det_infer": (1, 3, 320, 480),
    "ppocr__ch_ppocr_mobile_v2.0_cls_infer": (1, 3, 48, 192),
}


def run(command, seconds, folder):
    """Whether a command ends well in time, without network where that is allowed; its last words otherwise."""
    alone = ["unshare", "--net"] if os.geteuid() == 0 else []
    try:
        done = subprocess.run(
            [*alone, *map(str, command)], cwd=folder, capture_output=True, text=True, errors="replace", timeout=seconds,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"no answer within {seconds} s"
    words = (done.stderr or done.stdout).strip().splitlines() or [""]
    return "" if done.returncode == 0 else f"exit status {done.returncode}: {words[-1][:200]}"


def onnx2tf(program, model, output, name):
    """`program`: onnx2tf of version 2.6.9. It overwrites its input, and so is given a copy."""
    del name
    with tempfile.TemporaryDirectory(prefix="lowtide-zoo-") as folder:
        copy = pathlib.Path(shutil.copy(model, folder))
        fault = run([program, "-i", copy, "-o", pathlib.Path(folder) / "out", "-n"], 240, folder)
        made = sorted((pathlib.Path(folder) / "out").glob("*float32.tflite"))
        if made:
            shutil.move(made[0], output)
        return fault or ("" if made else "no float model")


def litert_torch(python, model, output, name):
    del model
    return run([python, "-m", "bench.zoo.litert_torch", name, output], 240, ROOT)


PEERS = {"onnx2tf": onnx2tf, "litert-torch": litert_torch}
LITERT_TORCH = "litert-torch==0.10.0"  # the version that pages name


def peer_file(kind, program, model, name):
    """The peer's file, made once; None and a note beside it where there is none."""
    output = model.with_suffix(f".{kind}.tflite")
    note = output.with_suffix(".txt")
    if not output.exists() and not note.exists():
        fault = PEERS[kind](program, model, output, name)
        if fault:
            output.unlink(missing_ok=True)
            note.write_text(fault + "\n")
    return output if output.exists() else None


def times(files, threads):
    """Seconds of each file, of one process, or a text that says why it has none."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "bench/zoo/invoke_times.py"), str(threads), str(TURNS), *map(str, files)],
        capture_output=True, text=True,
    )  # fmt: skip
    return json.loads(done.stdout) if done.returncode == 0 else ["one of the files ends LiteRT's process"] * len(files)


def ratio(ours, theirs, threads):
    """Our time over theirs, and why there is none. The file that is run first changes with each process."""
    ratios = []
    for number in range(PROCESSES):
        turned = number % 2 == 1
        found = times([theirs, ours] if turned else [ours, theirs], threads)
        mine, other = reversed(found) if turned else found
        if isinstance(other, str):
            return None, other
        if isinstance(mine, str):
            return None, f"Lowtide's file: {mine}"
        ratios.append(mine / other)
    return statistics.median(ratios), ""


def count(file):
    try:
        totals = operators(file)
    except subprocess.CalledProcessError:  # two of onnx2tf's files read what nothing writes, or contradict themselves
        return "malformed"
    return f"{sum(totals.values())} / {totals.get('TRANSPOSE', 0)}"


def same_order(model, peer):
    """--layout for each input that the peer's file has with channels last."""
    try:
        shapes = [tuple(detail["shape"]) for detail in Interpreter(str(peer)).get_input_details()]
    except (RuntimeError, ValueError):
        return []
    out = []
    for port in onnx.load(model, load_external_data=False).graph.input:
        first = tuple(dim.dim_value for dim in port.type.tensor_type.shape.dim)
        last = (first[0], *first[2:], first[1]) if len(first) > 2 else first
        if last in shapes and first not in shapes:
            out += ["--layout", f"{port.name}=nhwc"]
    return out


def compare_one(name, model, programs):
    """Cells of a row, and the ratios {(peer, threads): ours over theirs}. Ours has the peer's order of axes at its inputs."""
    with tempfile.TemporaryDirectory(prefix="lowtide-zoo-") as folder:
        ours = pathlib.Path(folder) / "ours.tflite"
        if converter.convert(model, ours).status != "converted":
            return None, {}
        cells, ratios = [name, count(ours)], {}
        for kind, program in programs.items():
            file = peer_file(kind, program, model, name)
            if not file:
                cells += ["no file", "", ""]
                continue
            cells.append(count(file))
            if converter.convert(model, ours, same_order(model, file)).status != "converted":
                sys.exit(f"{model} is not converted with the inputs of {file}")
            for threads in (1, 2):
                found, fault = ratio(ours, file, threads)
                if found:
                    ratios[kind, threads] = found
                cells.append(fault or f"{found:.2f}")
        return cells, ratios


def model_of(folder, name):
    """The export of a network of the zoo, or any other model in the folder; None where there is none."""
    paths = [folder / f"{name}.{kind}onnx" for kind in ("script.small.", "dynamo.small.", "")]
    return next((path for path in paths if path.exists()), None)


def of_fixed_sizes(model):
    """The model itself, or a copy of it in the same folder whose one input has a shape of SIZES."""
    loaded = onnx.load(model)
    constants = {tensor.name for tensor in loaded.graph.initializer}
    inputs = [port for port in loaded.graph.input if port.name not in constants]
    if all(dim.dim_value > 0 for port in inputs for dim in port.type.tensor_type.shape.dim):
        return model
    if len(inputs) != 1 or model.stem not in SIZES:
        sys.exit(f"{model} has open sizes; name them in SIZES of bench/zoo/peers.py")
    make_input_shape_fixed(loaded.graph, inputs[0].name, SIZES[model.stem])
    copy = model.with_suffix(".fixed.onnx")
    onnx.save(loaded, copy)
    return copy


def marks(options):
    """Where the page has the table of these peers."""
    kinds = ", ".join(text.split("=", 1)[0] for text in options.peers)
    return f"<!-- python -m bench.zoo --peers {kinds} writes from here -->\n", f"<!-- to here: {kinds} -->\n"


def compare(options):
    programs = dict(text.split("=", 1) for text in options.peers)
    if unknown := set(programs) - set(PEERS):
        sys.exit(f"--peers: {', '.join(unknown)} is none of {', '.join(PEERS)}")
    rows, ratios = [], {}
    for name in options.names or NETWORKS:
        model = model_of(options.folder, name)
        if not model:
            continue
        cells, found = compare_one(name, of_fixed_sizes(model), programs)
        if cells:
            rows.append(cells)
            print(" | ".join(cells), flush=True)
            for key, ratio in found.items():
                ratios.setdefault(key, []).append(ratio)
    head = ["network", "Lowtide"]
    for kind in programs:
        head += [kind, "1 thread", "2 threads"]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    text = "".join("| " + " | ".join(cells) + " |\n" for cells in lines)
    for (kind, threads), values in ratios.items():
        mean = math.exp(sum(map(math.log, values)) / len(values))
        slower = sum(value > 1.03 for value in values)
        text += f"\nCompared with {kind}, {threads} thread(s): {len(values)} networks, geometric mean {mean:.2f}, worst {max(values):.2f}, {slower} above 1.03.\n"
    return text + f"\nMedians of {TURNS} turns of CPU time in each of {PROCESSES} processes; {load()} at the end.\n"
