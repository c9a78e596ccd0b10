# SPDX-License-Identifier: Apache-2.0
"""Variations of the operator cases, each run by ONNX Runtime and, converted, by LiteRT: what differs?

    python -m tests.fuzz.mutants [--count 20000] [--seed 1] [--jobs 2] [--filter conv/] [--only NUMBER] [--keep DIR]

A mutant is a case of tests/oracle with one to three changes: an attribute, the opset, a dimension, a small constant, an
element type, a constant that becomes an input, an input that becomes a constant, a dimension that becomes dynamic, a
special number in the data. What ONNX Runtime refuses counts for nothing. The rest must convert and agree, or be
refused with a reason. Mutant N of a seed is always the same, as long as the cases are: `--only N` shows it again.

Prints what is wrong and what is refused, gathered by operator and reason; the last line counts. Exit status 1 if
something is wrong that explained.txt does not name. Slow on purpose, and no part of the check: about 25 mutants a second
of one core.
"""

import argparse
import collections
import contextlib
import json
import pathlib
import re
import select
import subprocess
import sys
import tempfile
import threading

import numpy as np
import onnx
from onnx import AttributeProto, helper, numpy_helper

from tests.support import converter, judge
from tests.support.compare import RangeTolerance, is_float
from tests.support.inputs import random_array, random_inputs
from tests.support.litert import Litert

HANG = 60  # seconds without a line
EXPLAINED = pathlib.Path(__file__).parent / "explained.txt"
OPSETS = (7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22)
SMALL = (-3, -2, -1, 0, 1, 2, 3, 4, 5)
FACTORS = (0.0, -1.0, 0.5, 1.0, 2.0, 1e-3, 10.0)
# No NaN and no infinities: LiteRT's kernels clamp them or lose them (docs/kernels.md).
SPECIAL = (-0.0, 0.0, 0.5, 1.5, -2.5, 1e4, -1e-30, 127.0, -129.0, 2147483648.0)
TYPES = (np.float16, np.float32, np.float64, np.int8, np.uint8, np.int16, np.int32, np.int64, np.bool_)
WORDS = {
    "auto_pad": ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"),
    "mode": ("nearest", "linear", "cubic", "constant", "edge", "reflect", "wrap", "DCR", "CRD", "bilinear", "bicubic", "avg", "max"),
    "coordinate_transformation_mode": (
        "half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric", "tf_crop_and_resize",
    ),
    "nearest_mode": ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"),
    "keep_aspect_ratio_policy": ("stretch", "not_larger", "not_smaller"),
    "padding_mode": ("zeros", "border", "reflection"),
    "reduction": ("none", "add", "mul", "min", "max", "mean", "sum"),
    "direction": ("forward", "reverse", "bidirectional", "LEFT", "RIGHT"),
    "approximate": ("none", "tanh"),
}  # fmt: skip


class Unfit(Exception):
    """The change does not apply to the model."""


class Mutant:
    """A model and data for it, changed in place."""

    def __init__(self, case, rng, vocabulary):
        self.model, self.rng, self.vocabulary = case.model(), rng, vocabulary
        if case.feeds:
            self.feeds = {name: np.asarray(of) for name, of in case.feeds.items()}
        else:
            self.feeds = random_inputs(self.model, case.shapes, case.ranges, int(rng.integers(1 << 30)))
        self.changes = []

    def pick(self, of):
        of = list(of)
        if not of:
            raise Unfit
        return of[int(self.rng.integers(len(of)))]

    def say(self, *text):
        self.changes.append(" ".join(map(str, text)))

    # ---- attributes ----

    def attribute(self):
        node = self.pick(self.model.graph.node)
        what = self.pick(("change", "change", "change", "remove", "add"))
        if what == "remove":
            gone = self.pick(node.attribute)
            self.say("remove", node.op_type, gone.name)
            node.attribute.remove(gone)
            return
        if what == "add":
            known = self.vocabulary[node.op_type]
            name = self.pick(name for name in sorted(known) if all(a.name != name for a in node.attribute))
            node.attribute.append(known[name])
            self.say("add", node.op_type, name)
            if self.rng.random() < 0.5:
                return
            changed = node.attribute[-1]
        else:
            changed = self.pick(node.attribute)
        self.change(changed)
        self.say("change", node.op_type, helper.printable_attribute(changed))

    def change(self, attribute):
        kind = attribute.type
        if kind == AttributeProto.INT:
            attribute.i = int(self.number(attribute.i))
        elif kind == AttributeProto.FLOAT:
            attribute.f = float(attribute.f * self.pick(FACTORS)) if self.rng.random() < 0.5 else self.pick(FACTORS)
        elif kind == AttributeProto.INTS and attribute.ints:
            at = int(self.rng.integers(len(attribute.ints)))
            what = self.rng.random()
            if what < 0.1:
                del attribute.ints[at]
            elif what < 0.2:
                attribute.ints.append(int(self.pick(SMALL)))
            else:
                attribute.ints[at] = int(self.number(attribute.ints[at]))
        elif kind == AttributeProto.FLOATS and attribute.floats:
            attribute.floats[int(self.rng.integers(len(attribute.floats)))] = self.pick(FACTORS)
        elif kind == AttributeProto.STRING:
            attribute.s = self.pick(WORDS.get(attribute.name, ("NOTSET",))).encode()
        else:
            raise Unfit

    def number(self, old):
        return self.pick((old + 1, old - 1, -old, self.pick(SMALL)))

    # ---- the model ----

    def opset(self):
        for opset in self.model.opset_import:
            if opset.domain == "":
                opset.version = self.pick(OPSETS)
                self.say("opset", opset.version)

    def drop_input(self):
        node = self.pick(node for node in self.model.graph.node if len(node.input) > 1)
        at = int(self.rng.integers(1, len(node.input)))
        self.say("drop input", at, "of", node.op_type)
        if at == len(node.input) - 1 and self.rng.random() < 0.5:
            del node.input[at]
        else:
            node.input[at] = ""

    def constant(self):
        """An element of a small constant."""
        old = self.pick(i for i in self.model.graph.initializer if 0 < np.prod(i.dims, dtype=np.int64) <= 64)
        array = numpy_helper.to_array(old).copy()
        at = int(self.rng.integers(array.size))
        if array.dtype.kind in "iu":
            number = int(self.number(int(array.reshape(-1)[at])))
            array.reshape(-1)[at] = np.clip(number, np.iinfo(array.dtype).min, np.iinfo(array.dtype).max)
        elif is_float(array.dtype):
            array.reshape(-1)[at] = self.pick(SPECIAL) if self.rng.random() < 0.3 else self.pick(FACTORS)
        elif array.dtype == np.bool_:
            array.reshape(-1)[at] = not array.reshape(-1)[at]
        else:
            raise Unfit
        self.say("constant", old.name, "=", array.reshape(-1).tolist() if array.size < 9 else "...")
        old.CopyFrom(numpy_helper.from_array(array, old.name))

    def length(self):
        """A list of integers becomes longer or shorter."""
        old = self.pick(i for i in self.model.graph.initializer if len(i.dims) == 1 and 0 < i.dims[0] < 9)
        array = numpy_helper.to_array(old)
        array = array[:-1] if self.rng.random() < 0.5 else np.concatenate([array, array[:1]])
        self.say("constant", old.name, "=", array.tolist())
        old.CopyFrom(numpy_helper.from_array(array, old.name))

    def dimension(self):
        """An extent of an input; if other inputs and constants have it too, of all of them."""
        name = self.pick(name for name, of in self.feeds.items() if of.ndim)
        axis = int(self.rng.integers(self.feeds[name].ndim))
        old = self.feeds[name].shape[axis]
        new = max(0, int(self.pick((old + 1, old - 1, 1, 2, old * 2, 0 if self.rng.random() < 0.3 else old + 2))))
        everywhere = self.rng.random() < 0.5
        for one, of in list(self.feeds.items()):
            if one != name and not everywhere:
                continue
            shape = tuple(new if n == old and (everywhere or a == axis) else n for a, n in enumerate(of.shape))
            self.feed(one, of.dtype, shape)
        self.say("extent", axis, "of", name, "=", new)

    def feed(self, name, dtype, shape):
        if np.prod(shape, dtype=np.int64) > 1 << 16:
            raise Unfit
        old = self.feeds[name].reshape(-1)
        # The values stay what the case wants: indices in range, lists of axes.
        count = int(np.prod(shape, dtype=np.int64))
        array = np.resize(old, count) if old.size else random_array(dtype, (count,), 0, 3, self.rng)
        self.feeds[name] = array.astype(dtype).reshape(shape)

    def element_type(self):
        """Of all inputs and constants of a type."""
        kinds = {of.dtype for of in self.feeds.values()}
        old, new = self.pick(sorted(kinds, key=str)), np.dtype(self.pick(TYPES))
        for name, of in self.feeds.items():
            if of.dtype == old:
                self.feeds[name] = of.astype(new)
        for tensor in self.model.graph.initializer:
            array = numpy_helper.to_array(tensor)
            if array.dtype == old and old.kind not in "iu":
                tensor.CopyFrom(numpy_helper.from_array(array.astype(new), tensor.name))
        self.say("type", old, "->", new)

    def freeze(self):
        name = self.pick(self.feeds)
        if len(self.feeds) < 2:
            raise Unfit
        self.model.graph.initializer.append(numpy_helper.from_array(self.feeds.pop(name), name))
        self.say("constant:", name)

    def thaw(self):
        tensor = self.pick(i for i in self.model.graph.initializer if np.prod(i.dims, dtype=np.int64) < 4096)
        self.feeds[tensor.name] = numpy_helper.to_array(tensor)
        self.model.graph.initializer.remove(tensor)
        self.say("input:", tensor.name)

    def special(self):
        name = self.pick(name for name, of in self.feeds.items() if of.size and is_float(of.dtype))
        array = self.feeds[name].copy()
        for _ in range(int(self.rng.integers(1, 4))):
            with np.errstate(over="ignore"):
                array.reshape(-1)[int(self.rng.integers(array.size))] = self.pick(SPECIAL)
        self.feeds[name] = array
        self.say("special numbers in", name)

    def finish(self, dynamic):
        """Declares inputs and outputs as they have become; dimensions are dynamic if wanted."""
        graph = self.model.graph
        del graph.value_info[:], graph.input[:]
        for number, (name, of) in enumerate(self.feeds.items()):
            kind = helper.np_dtype_to_tensor_dtype(of.dtype)
            shape = [f"d{number}_{a}" if dynamic and self.rng.random() < 0.6 else n for a, n in enumerate(of.shape)]
            graph.input.append(helper.make_tensor_value_info(name, kind, shape))
        for output in graph.output:
            output.type.Clear()
        with contextlib.suppress(Exception):
            inferred = onnx.shape_inference.infer_shapes(self.model, data_prop=True)
            for output, known in zip(graph.output, inferred.graph.output, strict=True):
                output.CopyFrom(known)
        if any(not output.type.tensor_type.elem_type for output in graph.output):
            raise Unfit
        if dynamic:
            self.say("dynamic")


CHANGES = (
    *[Mutant.attribute] * 6, *[Mutant.constant] * 4, Mutant.opset, Mutant.opset, Mutant.drop_input, Mutant.length,
    *[Mutant.dimension] * 3, Mutant.element_type, Mutant.freeze, Mutant.thaw, Mutant.thaw, Mutant.special, Mutant.special,
)  # fmt: skip


def vocabulary(cases):
    """{operator: {attribute: one of its values}}, from all cases."""
    out = collections.defaultdict(dict)
    for case in cases:
        for node in case.model().graph.node:
            for attribute in node.attribute:
                if attribute.type != AttributeProto.GRAPH:
                    out[node.op_type].setdefault(attribute.name, attribute)
    return out


def mutant(number, seed, cases, words):
    """The mutant of this number; None where no change applied."""
    rng = np.random.default_rng((seed, number))
    case = cases[int(rng.integers(len(cases)))]
    made = Mutant(case, rng, words)
    for _ in range(int(rng.integers(1, 4))):
        with contextlib.suppress(Unfit):
            made.pick(CHANGES)(made)
    try:
        made.finish(dynamic=rng.random() < 0.25)
    except Unfit:
        return case, None
    return case, made if made.changes else None


def judged(made, folder, litert):
    """Status and reason."""
    path, tflite = folder / "model.onnx", folder / "model.tflite"
    onnx.save(made.model, path)
    try:
        expected = judge.reference(str(path), made.feeds)
    except Exception as error:  # whatever it is, ONNX Runtime does not run the model
        return "invalid", str(error)[:200]
    if any(not isinstance(of, np.ndarray) for of in expected.values()):
        return "invalid", "sequences"
    done = converter.convert(path, tflite)
    if done.status != "converted":
        return done.status, done.reason
    # Integer kernels may be one step off, docs/integer-models.md.
    steps = any("Quantize" in node.op_type or node.op_type.startswith("QLinear") for node in made.model.graph.node)
    verdict = judge.judge_outputs(tflite, made.feeds, expected, RangeTolerance(1e-4, int(steps)), litert)
    return verdict.status, verdict.reason


def worker(seed, first, last, step, only):
    from tests.oracle.all_cases import CASES

    cases = [case for case in CASES if only in case.name and not case.same_as and not case.numpy]
    words = vocabulary(cases)
    with tempfile.TemporaryDirectory(prefix="lowtide-mutant-") as name, Litert(time_limit=30) as litert:
        folder = pathlib.Path(name)
        for number in range(first, last, step):
            print(json.dumps({"begin": number}), flush=True)
            line = {"end": number, "status": "unfit"}
            try:
                case, made = mutant(number, seed, cases, words)
                line |= {"case": case.name}
                if made:
                    line |= {"changes": made.changes}
                    line["status"], line["reason"] = judged(made, folder, litert)
                    line["reason"] = line["reason"].replace(str(folder) + "/", "")
                    line["operators"] = sorted({node.op_type for node in made.model.graph.node})
            except Exception as error:  # a mutant that cannot be made
                line |= {"status": "unfit", "reason": f"{type(error).__name__}: {error}"[:200]}
            print(json.dumps(line), flush=True)


class Child:
    """A process that judges every `step`-th mutant, and starts again behind one that ends or hangs it."""

    def __init__(self, arguments, first):
        self.arguments, self.next = arguments, first
        self.start()

    def start(self):
        a = self.arguments
        self.at = None
        command = [sys.executable, "-m", "tests.fuzz.mutants", "--worker", str(self.next), "--count", str(a.count)]
        command += ["--seed", str(a.seed), "--jobs", str(a.jobs), "--filter", a.filter]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def lines(self):
        """Until all is judged."""
        while self.next < self.arguments.count:
            ready, _, _ = select.select([self.process.stdout], [], [], HANG)
            text = self.process.stdout.readline() if ready else ""
            if text:
                line = json.loads(text)
                if "begin" in line:
                    self.at = line["begin"]
                    continue
                self.next = line["end"] + self.arguments.jobs
                yield line
                continue
            self.process.kill()
            self.process.wait()
            if self.at is None and ready:
                raise SystemExit(f"the worker ends before its first mutant, with {self.process.returncode}")
            yield {"end": self.at, "status": "died" if ready else "hangs", "reason": "ONNX Runtime, or this tool"}
            self.next = self.at + self.arguments.jobs
            self.start()
        self.process.wait()


def gathered(lines, status):
    """{reason without numbers and names: lines}"""
    out = collections.defaultdict(list)
    for line in lines:
        if line["status"] == status:
            reason = re.sub(r"'[^']*'|-?\d+(\.\d+)?(e[-+]?\d+)?", "*", line.get("reason", ""))
            out[reason[:160]].append(line)
    return sorted(out.items(), key=lambda item: -len(item[1]))


def show(seed, number, only, keep):
    from tests.oracle.all_cases import CASES

    cases = [case for case in CASES if only in case.name and not case.same_as and not case.numpy]
    case, made = mutant(number, seed, cases, vocabulary(cases))
    print(case.name, made.changes if made else "no change applied")
    if made is None:
        return
    print(onnx.printer.to_text(made.model.graph))
    keep.mkdir(parents=True, exist_ok=True)
    np.savez(keep / "inputs.npz", **made.feeds)
    with Litert(time_limit=30) as litert:
        print(*judged(made, keep, litert), sep=": ")
    for name, of in made.feeds.items():
        print(name, of.dtype, of.shape, of.reshape(-1)[:12].tolist())


def main():
    parser = argparse.ArgumentParser(description="Run variations of the operator cases.")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--filter", default="")
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("build/mutant"))
    parser.add_argument("--worker", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    converter.program()
    if args.worker is not None:
        return worker(args.seed, args.worker, args.count, args.jobs, args.filter)
    if args.only is not None:
        return show(args.seed, args.only, args.filter, args.keep)

    lines, lock = [], threading.Lock()

    def follow(first):
        for line in Child(args, first).lines():
            with lock:
                lines.append(line)
                if line["status"] in ("wrong", "crash", "broken", "timeout", "died", "hangs"):
                    print(
                        line["end"],
                        line["status"],
                        line.get("case"),
                        line.get("changes"),
                        line["reason"][:300],
                        flush=True,
                    )

    threads = [threading.Thread(target=follow, args=(i,)) for i in range(args.jobs)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    explained = [line.split("\t") for line in EXPLAINED.read_text().splitlines() if line and line[0] != "#"]
    for line in lines:
        what = f"{line.get('case')} {line.get('changes')}"
        known = any(re.search(of[0], line.get("reason", "")) and re.search(of[1], what) for of in explained)
        if line["status"] in ("wrong", "crash", "timeout") and known:
            line["status"] = "explained"
    bad = 0
    for status in ("wrong", "crash", "broken", "timeout", "refused"):
        for reason, of in gathered(lines, status):
            bad += 0 if status == "refused" else len(of)
            print(f"{status} {len(of)}: {reason}  e.g. {[line['end'] for line in of[:4]]} {of[0].get('case')}")
    counts = collections.Counter(line["status"] for line in lines)
    print(", ".join(f"{n} {status}" for status, n in sorted(counts.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
