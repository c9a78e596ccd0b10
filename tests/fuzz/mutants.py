# SPDX-License-Identifier: Apache-2.0
"""Variations of the operator cases, each run by ONNX Runtime and, converted, by LiteRT: what differs?

    python -m tests.fuzz.mutants [--count 20000] [--seed 1] [--jobs 2] [--filter conv/] [--models DIR] [--only NUMBER] [--keep DIR]

A mutant is a seed with one to four changes (mutation/, one idea a file): of nodes, of data, operators before and behind,
a second model behind it, the whole in a branch, a loop or a function, quantized, with dynamic dimensions. Some are converted with other
settings. A seed is a case of tests/oracle or, with --models, a few nodes of a real model. What ONNX Runtime refuses counts for nothing.
The rest must convert and agree, or be refused with a reason. Mutant N of a seed number is always the same, as long as the cases
are: `--only N` shows it again.

Prints what is wrong and what is refused, gathered by operator and reason; the last lines count. Exit status 1 if
something is wrong that explained.txt does not name. Slow on purpose, and no part of the check: about 25 mutants a second
of one core.
"""

import argparse
import collections
import contextlib
import json
import os
import pathlib
import re
import select
import signal
import sys
import tempfile
import time

import numpy as np
import onnx

from tests.fuzz.mutation import containers, data, mutant, neighbours, operators, quantized, settings
from tests.fuzz.mutation.mutant import Mutant, Unfit, all_operators
from tests.fuzz.mutation.seeds import SeedPool
from tests.support import converter, judge
from tests.support.compare import RangeTolerance
from tests.support.inputs import run_time_inputs
from tests.support.litert import Litert
from tests.support.tflite_file import read_tflite

HANG = 60  # seconds without a line
EXPLAINED = pathlib.Path(__file__).parent / "explained.txt"
UNSUPPORTED = 8  # exit status: valid, and without an exact form
BAD = ("wrong", "crash", "broken", "timeout", "misnamed")

# How often each change is tried.
CHANGES = {
    operators.attribute: 6, operators.explicit_default: 1, operators.negative_axis: 1, operators.opset: 2,
    operators.translated: 2, operators.drop_input: 1, operators.empty_inputs: 1, operators.more_outputs: 1,
    operators.fewer_outputs: 1, operators.small_constant: 4, operators.length: 1,
    data.dimension: 4, data.rank: 1, data.element_type: 2, data.other_float: 2, data.freeze: 1, data.thaw: 2, data.special: 2,
    data.written_otherwise: 2,
    neighbours.before: 4, neighbours.behind: 4, neighbours.fan_out: 2, neighbours.residual: 1, neighbours.chain: 3,
    containers.in_branch: 1, containers.in_loop: 1, containers.in_scan: 1, containers.in_function: 1,
}  # fmt: skip
CHANGES = [change for change, times in CHANGES.items() for _ in range(times)]


def made_of(number, seed, pool):
    """The mutant of this number, and whether a change applied."""
    rng = np.random.default_rng((seed, number))
    made = Mutant(pool.seeds[int(rng.integers(len(pool.seeds)))], rng, pool)
    if made.chance(0.08):
        with contextlib.suppress(Unfit):
            quantized.quantize(made)
    for _ in range(int(rng.integers(1, 5)) - (made.steps > 0)):
        with contextlib.suppress(Unfit):
            made.pick(CHANGES)(made)
    settings.choose(made)
    mutant.finish(made)
    return made


def judged(made, folder, litert):
    """Status and reason."""
    path, tflite = folder / "model.onnx", folder / "model.tflite"
    onnx.save(made.model, path)
    operators_used = set(all_operators(made.model))
    try:
        expected = judge.reference(str(path), made.feeds)
    except Exception as error:  # whatever it is, ONNX Runtime does not run the model
        return "invalid", str(error)[:200]
    if any(not isinstance(of, np.ndarray) for of in expected.values()):
        return "invalid", "sequences"
    try:
        setting = made.setting(made, expected, folder)
    except Unfit:
        setting = settings.plain(made, expected, folder)
    made.say("setting", *(option.replace(f"{folder}/", "") for option in setting.options))
    done = converter.convert(path, tflite, setting.options)
    if done.status != "converted":
        named = done.status != "refused" or done.exit_status == UNSUPPORTED
        return done.status if named else "misnamed", done.reason
    fed = {name: of for name, of in (made.feeds | setting.fed).items() if name not in setting.gone}
    names = setting.outputs or [output.name for output in made.model.graph.output]
    expected = {name: (expected | setting.expected)[name] for name in names}
    file = read_tflite(tflite)
    specs = [spec for spec in run_time_inputs(made.model) if spec.name not in setting.gone]
    if setting.name == "gpu":  # takes and gives i32 for i64, which it says
        narrowed = [port.name for port in (*file.inputs, *file.outputs) if port.dtype == np.int32]
        fed, expected = (
            {n: of.astype(np.int32) if n in narrowed and of.dtype == np.int64 else of for n, of in values.items()}
            for values in (fed, expected)
        )
    elif not setting.fixed and setting.name != "outputs":
        fault = judge.interface_fault(file, specs, names)
        if fault:
            return "wrong", fault
    fault = judge.declared_shape_fault(file, expected)
    if fault:
        return "wrong", fault
    # Integer kernels may be one step off, docs/integer-models.md.
    steps = any("Quantize" in kind or kind.startswith("QLinear") for kind in operators_used)
    tolerance = RangeTolerance(max(made.relative, setting.relative), int(steps))
    verdict = judge.judge_outputs(tflite, fed, expected, tolerance, litert)
    return verdict.status, verdict.reason


def worker(args, pool, first, tell):
    """Judges mutants from `first` on; `tell` is given a dictionary before and behind each."""
    with tempfile.TemporaryDirectory(prefix="lowtide-mutant-") as name, Litert(time_limit=30) as litert:
        folder = pathlib.Path(name)
        for number in range(first, args.count, args.jobs):
            tell({"begin": number})
            line = {"end": number, "status": "unfit"}
            try:
                made = made_of(number, args.seed, pool)
                line |= {"case": made.name}
                if made.changes:
                    line["status"], line["reason"] = judged(made, folder, litert)
                    line["reason"] = line["reason"].replace(str(folder) + "/", "")
                    line |= {"changes": made.changes}
            except Exception as error:  # a mutant that cannot be made
                line |= {"status": "unfit", "reason": f"{type(error).__name__}: {error}"[:200]}
            tell(line)


class Child:
    """A process that judges every `jobs`-th mutant, and starts again behind one that ends or hangs it.

    It is forked from a process that has the seeds and has not used ONNX Runtime, which has threads.
    """

    def __init__(self, args, pool, first):
        self.args, self.pool, self.next = args, pool, first
        self.start()

    def start(self):
        self.at, self.heard = None, time.monotonic()
        read, write = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what ONNX Runtime says of invalid models
            with os.fdopen(write, "w") as out:
                worker(self.args, self.pool, self.next, lambda line: print(json.dumps(line), file=out, flush=True))
            os._exit(0)
        os.close(write)
        self.pipe = os.fdopen(read)

    def line(self):
        """What the child says; None before the end of a mutant. Call it when there is something to read, or after HANG seconds."""
        text = self.pipe.readline() if self.heard + HANG > time.monotonic() else ""
        self.heard = time.monotonic()
        if text:
            line = json.loads(text)
            if "begin" in line:
                self.at = line["begin"]
                return None
            self.next = line["end"] + self.args.jobs
            return line
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self.pipe.close()
        if self.next >= self.args.count:
            return None
        self.next = self.at + self.args.jobs
        died = {"end": self.at, "status": "died", "reason": "ONNX Runtime, or this tool"}
        self.start()
        return died


def all_lines(args, pool):
    children = [Child(args, pool, first) for first in range(args.jobs)]
    while children:
        ready, _, _ = select.select([child.pipe for child in children], [], [], 1)
        for child in [c for c in children if c.pipe in ready or c.heard + HANG < time.monotonic()]:
            if line := child.line():
                yield line
            if child.pipe.closed:
                children.remove(child)


def gathered(lines, status):
    """{reason without numbers and names: lines}"""
    out = collections.defaultdict(list)
    for line in lines:
        if line["status"] == status:
            reason = re.sub(r"'[^']*'|-?\d+(\.\d+)?(e[-+]?\d+)?", "*", line.get("reason", ""))
            out[reason[:160]].append(line)
    return sorted(out.items(), key=lambda item: -len(item[1]))


def show(args):
    made = made_of(args.only, args.seed, SeedPool(args.filter, args.models))
    print(made.name, made.changes)
    print(onnx.printer.to_text(made.model.graph))
    args.keep.mkdir(parents=True, exist_ok=True)
    np.savez(args.keep / "inputs.npz", **made.feeds)
    with Litert(time_limit=30) as litert:
        print(*judged(made, args.keep, litert), sep=": ")
    print(made.changes[-1])
    for name, of in made.feeds.items():
        print(name, of.dtype, of.shape, of.reshape(-1)[:12].tolist())


def main():
    parser = argparse.ArgumentParser(description="Run variations of the operator cases.")
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--filter", default="")
    parser.add_argument("--models", type=pathlib.Path, help="a folder of models, whose nodes are seeds too")
    parser.add_argument("--only", type=int)
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("build/mutant"))
    args = parser.parse_args()
    converter.program()
    if args.only is not None:
        return show(args)
    reasons = [line.split("\t") for line in EXPLAINED.read_text().splitlines() if line and line[0] != "#"]
    lines = []
    for line in all_lines(args, SeedPool(args.filter, args.models)):
        what = f"{line.get('case')} {line.get('changes')}"
        known = [of[2] for of in reasons if re.search(of[0], line.get("reason", "")) and re.search(of[1], what)]
        if line["status"] in BAD and line["status"] != "broken" and known:
            line["status"], line["reason"] = "explained", known[0]
        lines.append(line)
        if line["status"] in (*BAD, "died"):
            print(line["end"], line["status"], what, line["reason"][:300], flush=True)
    bad = 0
    for status in (*BAD, "explained", "refused"):
        for reason, of in gathered(lines, status):
            bad += len(of) if status in BAD else 0
            print(f"{status} {len(of)}: {reason}  e.g. {[line['end'] for line in of[:4]]} {of[0].get('case')}")
    counts = collections.Counter(line["status"] for line in lines)
    print(", ".join(f"{n} {status}" for status, n in sorted(counts.items())))
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
