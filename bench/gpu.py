#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How many operators of converted models LiteRT's GPU delegate accepts, and why not all: on SwiftShader, a GPU in software.

    bench/gpu.py MODEL.onnx|MODEL.tflite|FOLDER ... [--shape INPUT=1,3,64,64] [--range INPUT=0:2] [--option=--x=y]
                 [--run] [--half] [--no-peer] [--torch PYTHON] [--beside PROGRAM] [--folder DIR] [--jobs 2] [--kept] [--write docs/gpu-models.md]

A row for each network: Lowtide's file by default and with --for gpu, and onnx2tf's file: whole, or how many of its operators.
--torch names the Python of an environment with litert-torch (bench/zoo/litert_torch.py): then its file of each network of the
zoo too, which it makes of the same module with the same weights, and which is kept beside the export.
Dynamic dimensions are fixed as --shape says, or as tests/oracle/real_models.tsv lists them. --option goes to `lowtide convert`.
--run runs what is taken whole, with --for gpu, and compares with ONNX Runtime: the largest error, in units of the output's
range, where f32 is enforced. --beside is another lowtide, an older one. The last column is the number of TRANSPOSEs in each file.

What is found about a file is kept in --folder, for this program and these options, so a run that was ended goes on when the
command is given again. --kept runs nothing: the tables are of what is kept, and what is not kept is "not asked".

--half writes another table (docs/gpu.md): errors with f32 enforced, without, and on the processor in f16, of a model's file and of one
with --weights f16.

Under the table: how many networks are whole (those with control flow, 3-D convolutions, inputs of five axes, integers, and those that are refused are aside,
and listed), networks of which another converter's file has the larger share of operators on the GPU, and how many networks have each
reason of the delegate. --write puts it all into a page, between its marks.

onnx2tf is installed by this command into an environment of its own (--env, --base: a Python 3.12), and its files are kept
in --folder (default build/gpu). Needed are Debian's packages chromium and libvulkan1 (docs/gpu.md), and in the Python that
runs this ai-edge-litert, onnx and onnxruntime (build/venv/bin/python).
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import hashlib
import json
import math
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

if not __package__:  # run by its path: again as a module, so that the others of this package are found
    root = str(pathlib.Path(__file__).resolve().parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    os.execv(sys.executable, [sys.executable, "-m", "bench.gpu", *sys.argv[1:]])

import numpy as np
import onnx

from bench import onnx2tf, page
from bench.measure import ROOT
from bench.transposes import transposes
from bench.zoo import peers
from tests.oracle.real_models import expectations
from tests.support import converter, gpu, judge
from tests.support.compare import RangeTolerance, compare
from tests.support.inputs import load_structure, random_inputs
from tests.support.tflite_file import read_tflite

BEGIN, END = "<!-- written by bench/gpu.py -->", "<!-- end of what is written -->"
DEFAULT, FOR_GPU, PEER, TORCH, BESIDE = "by default", "`--for gpu`", "onnx2tf", "litert-torch", "beside"
HALF_COLUMNS = ["network", "`enforce_f32=True`", "`enforce_f32=False`", "in f16 on the processor"]
HALF_BEGIN, HALF_END = "<!-- written by bench/gpu.py --half -->", "<!-- end of what is written with --half -->"
ASIDE = {
    **dict.fromkeys(("WHILE", "IF", "CALL_ONCE"), "control flow"),
    **dict.fromkeys(("CONV_3D", "CONV_3D_TRANSPOSE"), "3-D convolutions"),
    **dict.fromkeys(("QUANTIZE", "DEQUANTIZE"), "integers"),
}
MOST_AXES = 4  # of what the application hands over: no form of the operators changes that
# A reason without what differs from tensor to tensor: names at the end or in quotes, and sizes.
_TENSOR = re.compile(r'( "[^"]*")|((?<=less than 5\.) .*$)|((?<=is not supported\.) .*$)')


def kind_of(reason):
    return _TENSOR.sub("", reason).rstrip(". ")


def known_shapes(model):
    """(shapes, ranges) of a shared model; both empty for others."""
    for row in expectations():
        if row.model == model.name:
            return row.shapes, row.ranges
    return {}, {}


def shape_flags(shapes):
    return [f"--shape={name}={','.join(map(str, dims))}" for name, dims in shapes.items()]


def by_program(program, model, output, shapes):
    command = [program, "convert", str(model), "-o", str(output), "-q", *shape_flags(shapes)]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return (output, "") if done.returncode == 0 else (None, done.stderr.strip()[:200])


def by_lowtide(model, output, shapes, options):
    done = converter.convert(model, output, [*shape_flags(shapes), *options])
    return (output, "") if done.status == "converted" else (None, done.reason[:200])


def fix_shapes(shapes):
    def edit(copy):
        if not shapes:
            return
        model = onnx.load(copy, load_external_data=False)
        for given in model.graph.input:
            for dim, extent in zip(given.type.tensor_type.shape.dim, shapes.get(given.name, ())):
                dim.dim_value = extent
        onnx.save(model, copy)

    return edit


def by_onnx2tf(program, model, shapes, folder, seconds):
    """Its file, kept from an earlier run if the model has not changed since. One that took longer than it may is tried
    again where it may take longer now."""
    out = folder / model.stem
    tried = out / "tried"
    ended = float(tried.read_text() or "inf") if tried.exists() else 0
    if ended < seconds or tried.stat().st_mtime < model.stat().st_mtime:
        ended = float("inf")
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)

        def run(command, where):
            nonlocal ended
            environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            with open(out / "log", "w") as log:
                try:
                    subprocess.run(
                        [*onnx2tf.alone(), *map(str, command)], cwd=where, env=environment, timeout=seconds,
                        stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                    )  # fmt: skip
                except subprocess.TimeoutExpired:
                    log.write(f"no answer after {seconds} s\n")
                    ended = seconds

        onnx2tf.convert(program, model, out / "files", run, fix_shapes(shapes))
        tried.write_text("" if math.isinf(ended) else str(ended))
    made = sorted((out / "files").glob("*float32.tflite"))
    if made and math.isinf(ended):
        return made[0], ""
    return None, "it makes no float file" if math.isinf(ended) else f"no answer after {ended:g} s"


def by_litert_torch(python, model):
    """Its file of a network of the zoo, small, whose name the export of PyTorch's older exporter has."""
    name = model.name.removesuffix(".script.small.onnx")
    if name == model.name:
        return None, "not of the zoo"
    made = peers.peer_file(TORCH, python, model, name)
    return made, "" if made else "no file"


def arrays_for(tflite, model, shapes, ranges):
    """Random inputs, as the model takes them and in the types of the file: --for gpu takes ids as i32. Integers
    without a given range are 0 or 1: ids, masks, and types of tokens may be."""
    structure = load_structure(model)
    whole = {
        given.name: (0, 2)
        for given in structure.graph.input
        if np.issubdtype(onnx.helper.tensor_dtype_to_np_dtype(given.type.tensor_type.elem_type), np.integer)
    }
    arrays = random_inputs(structure, shapes, {**whole, **ranges})
    wanted = {port.name: port.dtype for port in read_tflite(tflite).inputs}
    return arrays, {name: value.astype(wanted.get(name, value.dtype)) for name, value in arrays.items()}


NOT_ASKED = "not asked"


class Kept:
    """What was found about one model, in a file: a value for each key. A key holds all that the value depends on."""

    def __init__(self, model, options):
        folder = options.folder / "kept"
        folder.mkdir(parents=True, exist_ok=True)
        where = hashlib.sha256(str(model.resolve()).encode()).hexdigest()[:8]
        self.path, self.only, self.model = folder / f"{model.stem}-{where}.json", options.kept, model
        self.values = json.loads(self.path.read_text()) if self.path.exists() else {}
        self.about = f"{model.stat().st_mtime_ns} {options.shape} {options.range}"

    def get(self, key, find, default=NOT_ASKED):
        """The value that is kept, else what `find()` gives, which is kept then; `default` where nothing is to be asked."""
        key = f"{key} | {self.about}"
        if key not in self.values:
            if self.only:
                return default
            self.values[key] = find()
            part = self.path.with_suffix(".part")
            part.write_text(json.dumps(self.values, indent=1))
            part.replace(self.path)
        return self.values[key]


def program_key(program):
    return hashlib.sha256(pathlib.Path(program).read_bytes()).hexdigest()[:16]


class Row:
    """One network: a Delegation, or the reason why there is none, for each file; errors; why it is aside."""

    def __init__(self, model, folder, options, peer):
        self.name, self.answers, self.moves, self.error, self.aside = model.stem, {}, {}, "", None
        self.seconds = options.gpu_seconds
        shapes, ranges = known_shapes(model)
        shapes, ranges = {**shapes, **options.shapes}, {**ranges, **options.ranges}
        self.kept = Kept(model, options)
        if model.suffix == ".tflite":
            self.judge(DEFAULT, "", lambda: (model, ""))
            return
        ours = folder / "for.tflite"
        lowtide = f"{options.program_key} {options.option}"

        def for_gpu():
            return by_lowtide(model, ours, shapes, ["--for=gpu", *options.option])

        self.judge(DEFAULT, lowtide, lambda: by_lowtide(model, folder / "default.tflite", shapes, options.option))
        self.judge(FOR_GPU, lowtide, for_gpu)
        if self.is_whole(FOR_GPU) and options.run:

            def error():
                if not ours.exists():
                    for_gpu()
                arrays, typed = arrays_for(ours, model, shapes, ranges)
                return error_of(judge.reference(model, arrays), gpu.delegate(ours, typed, seconds=self.seconds))

            self.error = self.kept.get(f"error {lowtide} {self.seconds}", error)
        if peer:
            self.judge(
                PEER, onnx2tf.PEER,
                lambda: by_onnx2tf(peer, model, shapes, options.folder / "onnx2tf", options.seconds),
            )  # fmt: skip
        if options.torch:
            self.judge(TORCH, peers.LITERT_TORCH, lambda: by_litert_torch(options.torch, model))
        if options.beside:
            self.judge(
                BESIDE, program_key(options.beside),
                lambda: by_program(options.beside, model, folder / "beside.tflite", shapes),
            )  # fmt: skip

    def judge(self, column, maker, make):
        """Asks the delegate about the file that `make()` makes, or takes what is kept of it."""

        def find():
            file, reason = make()
            if file is None:
                return {"reason": reason}
            found = dataclasses.asdict(gpu.delegate(file, seconds=self.seconds))
            content = read_tflite(file)
            kinds = [ASIDE[op] for op in content.operators if op in ASIDE]
            if any(len(port.shape) > MOST_AXES for port in (*content.inputs, *content.outputs)):
                kinds.append("inputs or outputs of five axes")
            return {"found": {**found, "outputs": None}, "aside": kinds[:1], "moves": transposes(file)}

        value = self.kept.get(f"{column} {maker}", find, {"reason": NOT_ASKED})
        if "found" in value:
            found = value["found"]
            self.answers[column] = gpu.Delegation(**{**found, "reasons": tuple(found["reasons"])})
            self.moves[column] = value["moves"]
        else:
            self.answers[column] = value["reason"]
        if column == DEFAULT:
            self.aside = value["aside"][0] if value.get("aside") else None if "found" in value else "refused"

    def answer(self, column):
        found = self.answers.get(column)
        return found if isinstance(found, gpu.Delegation) else None

    def is_whole(self, column):
        return bool(self.answer(column) and self.answer(column).whole)

    def share(self, column):
        found = self.answer(column)
        return found.taken / found.operators if found and found.operators else None

    def cell(self, column):
        found = self.answers.get(column)
        if found is None or isinstance(found, str):
            return NOT_ASKED if found == NOT_ASKED else found and f"none: {found.splitlines()[0]}" or ""
        return f"whole, {found.operators}" if found.whole else str(found)

    def moved(self, columns):
        """The number of TRANSPOSEs in each file."""
        return ", ".join(str(self.moves[column][0]) if column in self.moves else "-" for column in columns)


def error_of(expected, answer, tolerance=RangeTolerance()):
    """The largest error of a run in units of an output's range, as text. `answer`: a Delegation, or the outputs."""
    outputs = answer.outputs if isinstance(answer, gpu.Delegation) else answer
    if not isinstance(outputs, dict):
        return str(outputs or answer.fault or "not run")
    if all(value.size == 0 or value.min() == value.max() for value in expected.values()):
        return "constant"  # with random weights: nothing can be said
    differences = [compare(value, outputs[name], tolerance) for name, value in expected.items()]
    return f"{max(d.relative for d in differences):.0e}" + (" WRONG" if any(d.fault for d in differences) else "")


def half_rows(model, folder, options):
    """Errors of one model, with weights as they are and in f16, in the three precisions."""
    shapes, ranges = known_shapes(model)
    shapes, ranges = {**shapes, **options.shapes}, {**ranges, **options.ranges}
    for weights in ("stored", "f16"):
        made = by_lowtide(
            model, folder / f"{weights}.tflite", shapes, ["--for=gpu", f"--weights={weights}", *options.option]
        )
        name = model.stem if weights == "stored" else f"{model.stem}, `--weights f16`"
        if made[0] is None:
            yield [name, f"none: {made[1]}", "", ""]
            continue
        arrays, typed = arrays_for(made[0], model, shapes, ranges)
        expected = judge.reference(model, arrays)
        loose = RangeTolerance(float("inf"))
        yield [
            name,
            error_of(expected, gpu.delegate(made[0], typed), loose),
            error_of(expected, gpu.delegate(made[0], typed, False), loose),
            error_of(expected, gpu.half_on_processor(made[0], typed), loose),
        ]


def line(cells):
    return f"| {' | '.join(cells)} |"


def summary(rows, columns):
    """Lines under the table."""
    out = []
    counted = [row for row in rows if not row.aside]
    whole = []
    for column in columns:
        asked = [row for row in counted if row.answers.get(column) != NOT_ASKED]
        if asked:
            count = sum(row.is_whole(column) for row in asked)
            of = "" if len(asked) == len(counted) else f" of {len(asked)}"
            whole.append(f"{count}{of} ({count / len(asked):.0%}) {column}")
    aside = [f"{row.name} ({row.aside})" for row in rows if row.aside]
    out.append(
        f"Accepted as a whole, of {len(counted)} networks: {', '.join(whole)}."
        + (f" Not counted: {', '.join(aside)}." if aside else "")
    )
    for other in (PEER, TORCH):
        if other not in columns:
            continue
        less = [
            f"{row.name} ({row.share(FOR_GPU):.0%}, {row.share(other):.0%})"
            for row in rows
            if row.share(FOR_GPU) is not None and row.share(other) is not None and row.share(FOR_GPU) < row.share(other)
        ]
        out.append(
            f"Networks with a smaller share of operators on the GPU with `--for gpu` than in {other}'s file: {', '.join(less) or 'none'}."
        )
    wrong = [row.name for row in rows if row.error and not re.fullmatch(r"[0-9.e+-]+|constant|" + NOT_ASKED, row.error)]
    if any(row.error for row in rows):
        out.append(f"Accepted as a whole, but with other results than ONNX Runtime: {', '.join(wrong) or 'none'}.")
    return "\n\n".join(out)


def reasons_table(rows, columns):
    """How many networks have a reason, by file."""
    counts = collections.defaultdict(collections.Counter)
    for row in rows:
        for column in columns:
            if found := row.answer(column):
                for reason in {kind_of(reason) for reason in found.reasons}:
                    counts[reason][column] += 1
    order = sorted(counts, key=lambda reason: ([-counts[reason][column] for column in columns], reason))
    lines = [line(["reason: networks", *columns]), line(["---", *["---:"] * len(columns)])]
    return "\n".join([*lines, *(line([reason, *(str(counts[reason][c] or "-") for c in columns)]) for reason in order)])


def write_half(models, options):
    lines = [line(HALF_COLUMNS), line(["---", *["---:"] * (len(HALF_COLUMNS) - 1)])]
    print("\n".join(lines), flush=True)
    for model in models:
        with tempfile.TemporaryDirectory(prefix="lowtide-gpu-") as folder:
            for cells in half_rows(model, pathlib.Path(folder), options):
                lines.append(line(cells))
                print(lines[-1], flush=True)
    if options.write:
        page.write(options.write, HALF_BEGIN, HALF_END, "\n".join(lines))


def judged(model, options, peer):
    with tempfile.TemporaryDirectory(prefix="lowtide-gpu-") as folder:
        return Row(model, pathlib.Path(folder), options, peer)


def all_models(given):
    for path in given:
        yield from sorted(path.glob("*.onnx")) if path.is_dir() else [path]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="+", type=pathlib.Path, help="files, or folders of ONNX files")
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=1,3,64,64")
    parser.add_argument("--range", action="append", default=[], metavar="INPUT=LOW:HIGH")
    parser.add_argument("--option", action="append", default=[], help="passed on to lowtide convert, as --option=--x=y")
    parser.add_argument("--run", action="store_true", help="run what is taken whole, and compare with ONNX Runtime")
    parser.add_argument("--half", action="store_true", help="the table of errors in half precision")
    parser.add_argument("--no-peer", action="store_true", help="without onnx2tf")
    parser.add_argument("--torch", metavar="PYTHON", help="of an environment with litert-torch, to compare with")
    parser.add_argument("--beside", metavar="PROGRAM", help="another lowtide, to compare with")
    parser.add_argument(
        "--folder", type=pathlib.Path, default=ROOT / "build/gpu", help="where onnx2tf's files are kept"
    )
    parser.add_argument("--jobs", type=int, default=2, help="models at a time")
    parser.add_argument("--seconds", type=int, default=900, help="that onnx2tf may take for one model")
    parser.add_argument("--gpu-seconds", type=int, default=120, help="that the delegate may take for one file")
    parser.add_argument("--kept", action="store_true", help="only what is kept in --folder: ask and run nothing")
    parser.add_argument("--write", type=pathlib.Path, help="put the tables into this page, between its marks")
    onnx2tf.add_arguments(parser)
    options = parser.parse_args()
    options.shapes, options.ranges = judge.parse_shapes(options.shape), judge.parse_ranges(options.range)
    options.folder = options.folder.resolve()
    options.program_key = program_key(converter.program())
    if missing := gpu.absent():
        sys.exit(f"bench/gpu.py: {missing}")
    models = list(all_models(options.models))
    only_files = all(model.suffix == ".tflite" for model in models)
    peer = None if options.no_peer or only_files or options.half else onnx2tf.install(options)
    columns = (
        [DEFAULT]
        if only_files
        else [
            DEFAULT,
            FOR_GPU,
            *([PEER] if peer else []),
            *([TORCH] if options.torch else []),
            *([BESIDE] if options.beside else []),
        ]
    )
    if options.half:
        return write_half(models, options)
    errors = ["error"] if options.run else []
    lines = [line(["network", *columns, *errors, "transposes"]), line(["---", *["---:"] * len([*columns, *errors, 1])])]
    print("\n".join(lines), flush=True)
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for row in pool.map(lambda model: judged(model, options, peer), models):
            rows.append(row)
            lines.append(line([row.name, *map(row.cell, columns), *(row.error for _ in errors), row.moved(columns)]))
            print(lines[-1], flush=True)
    text = "\n\n".join(["\n".join(lines), summary(rows, columns), reasons_table(rows, columns)])
    print(text[len("\n".join(lines)) :])
    if options.write:
        page.write(options.write, BEGIN, END, text)


if __name__ == "__main__":
    main()
