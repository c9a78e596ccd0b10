# SPDX-License-Identifier: Apache-2.0
"""ONNX's own node suite: convert each case, run it in LiteRT, compare with the outputs that the case gives.

    python -m tests.conformance.run_nodes [--check | --update] [--filter TEXT] [--mode given|frozen] [--verbose]

Two modes. `given`: every input of the case is a run-time input. `frozen`: all inputs but the first become
initializers, as exporters write them (axes, shapes, repeats, weights). A case with one input is the same in both.

Outcomes: pass; refused (lowtide said why); wrong (another answer, name, type or shape, or a file that LiteRT does
not run); crash (of lowtide or of LiteRT); timeout. A refusal is allowed, the last three are not: `--check` fails
on each of them, and when a case of passing.txt does not pass any more. `disputed` is what would be wrong by the case's data
where the operator's own text and ONNX Runtime say otherwise: the few cases are named in disputed.txt with the reason. `--update` rewrites passing.txt and
docs/operators.md. The last line is `N passed, N failed`; refusals are not counted as failures.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import os
import pathlib
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import numpy_helper

from tests.conformance import operators_page
from tests.support import converter, judge
from tests.support.compare import ElementTolerance
from tests.support.inputs import run_time_inputs
from tests.support.litert import Litert
from tests.support.tflite_file import read_tflite

HERE = pathlib.Path(__file__).resolve().parent
NODES = pathlib.Path(onnx.__file__).parent / "backend/test/data/node"
MODES = ("given", "frozen")
PASSING = HERE / "passing.txt"
DISPUTED = HERE / "disputed.txt"
TIME_LIMIT = 10.0
BAD = ("wrong", "crash", "timeout")


@dataclasses.dataclass(frozen=True)
class Outcome:
    mode: str
    case: str
    status: str
    reason: str = ""


def load_value(path, value_info):
    """One .pb of a data set. Sequences and optionals come back as None: LiteRT has neither."""
    if not value_info.type.HasField("tensor_type"):
        return None
    return np.asarray(numpy_helper.to_array(onnx.load_tensor(str(path))))


def load_case(case):
    folder = NODES / case
    model = onnx.load(str(folder / "model.onnx"))
    data = folder / "test_data_set_0"
    inputs = {v.name: load_value(data / f"input_{i}.pb", v) for i, v in enumerate(model.graph.input)}
    outputs = {v.name: load_value(data / f"output_{i}.pb", v) for i, v in enumerate(model.graph.output)}
    return model, inputs, outputs


def freeze(model, inputs):
    """A copy of `model` in which all inputs but the first are initializers; None when there is nothing to freeze."""
    constants = {name: array for name, array in list(inputs.items())[1:] if array is not None}
    if not constants:
        return None
    frozen = onnx.ModelProto()
    frozen.CopyFrom(model)
    frozen.ir_version = max(frozen.ir_version, 4)  # before 4 an initializer had to be an input as well
    for value in list(frozen.graph.input):
        if value.name in constants:
            frozen.graph.input.remove(value)
            frozen.graph.initializer.append(numpy_helper.from_array(constants[value.name], value.name))
    return frozen


def judge_case(mode, case, model, inputs, expected, litert):
    with tempfile.TemporaryDirectory(prefix="lowtide-node-") as folder:
        source, tflite = pathlib.Path(folder) / "model.onnx", pathlib.Path(folder) / "model.tflite"
        onnx.save(model, str(source))
        conversion = converter.convert(source, tflite, ["--quiet"], TIME_LIMIT)
        reason = conversion.reason.replace(str(source), "model.onnx")
        if conversion.status != "converted":
            status = {"refused": "refused", "broken": "crash"}[conversion.status]
            return Outcome(mode, case, "timeout" if "needs more than" in reason else status, reason)
        untranslatable = [name for name, value in (inputs | expected).items() if value is None]
        if untranslatable:
            return Outcome(mode, case, "wrong", f"converted, although {untranslatable[0]} is no tensor")
        specs = run_time_inputs(model)
        file = read_tflite(tflite)
        fault = judge.interface_fault(file, specs, expected) or judge.declared_shape_fault(file, expected)
        if fault:
            return Outcome(mode, case, "wrong", fault)
        arrays = {spec.name: inputs[spec.name] for spec in specs}
        verdict = judge.judge_outputs(tflite, arrays, expected, ElementTolerance(), litert)
        return Outcome(mode, case, verdict.status, verdict.reason)


_litert = None


def run_case(case, modes):
    """Both modes of one case; in a pool process, which keeps a LiteRT child of its own."""
    global _litert
    if _litert is None:
        _litert = Litert(TIME_LIMIT)
    model, inputs, expected = load_case(case)
    frozen = freeze(model, inputs)
    outcomes = []
    if "given" in modes or frozen is None:
        given = judge_case("given", case, model, inputs, expected, _litert)
        outcomes += [dataclasses.replace(given, mode=mode) for mode in modes if mode == "given" or frozen is None]
    if "frozen" in modes and frozen is not None:
        outcomes.append(judge_case("frozen", case, frozen, inputs, expected, _litert))
    return outcomes


def run_all(cases, modes, jobs):
    outcomes = []
    show = sys.stderr.isatty()
    with concurrent.futures.ProcessPoolExecutor(jobs) as pool:
        futures = [pool.submit(run_case, case, modes) for case in cases]
        for count, future in enumerate(concurrent.futures.as_completed(futures), 1):
            outcomes += future.result()
            if show and count % 20 == 0:
                print(f"\r{count}/{len(cases)}", end="", file=sys.stderr, flush=True)
    if show:
        print("\r" + " " * 20 + "\r", end="", file=sys.stderr)
    return sorted(outcomes, key=lambda o: (MODES.index(o.mode), o.case))


def read_list(path):
    if not path.is_file():
        return []
    return [line.strip() for line in path.read_text().splitlines() if line.strip() and not line.startswith("#")]


def summary(outcomes):
    for mode in MODES:
        counts = collections.Counter(o.status for o in outcomes if o.mode == mode)
        total = sum(counts.values())
        if total:
            parts = ", ".join(f"{counts[s]} {s}" for s in ("pass", "refused", "disputed", *BAD))
            print(f"{mode}: {parts} of {total} ({100 * counts['pass'] / total:.1f} % pass)")


def main():
    parser = argparse.ArgumentParser(description="Run ONNX's node suite through lowtide and LiteRT.")
    parser.add_argument(
        "--check", action="store_true", help="fail when a listed case does not pass, or on a wrong answer"
    )
    parser.add_argument("--update", action="store_true", help="rewrite passing.txt and docs/operators.md")
    parser.add_argument("--filter", default="", help="only cases whose name contains this")
    parser.add_argument("--mode", choices=MODES, help="only this mode")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--verbose", action="store_true", help="print the refusals too")
    args = parser.parse_args()
    if args.update and (args.filter or args.mode):
        parser.error("--update needs the whole suite")
    converter.program()

    start = time.monotonic()
    modes = (args.mode,) if args.mode else MODES
    cases = [case for case in read_list(HERE / "cases.txt") if args.filter in case]
    disputed = {line.split()[0] for line in read_list(DISPUTED)}
    outcomes = [
        dataclasses.replace(o, status="disputed") if o.status == "wrong" and o.case in disputed else o
        for o in run_all(cases, modes, args.jobs)
    ]
    bad = [o for o in outcomes if o.status in BAD]
    for o in outcomes:
        if o.status in BAD or (args.verbose and o.status in ("refused", "disputed")):
            print(f"{o.status}: {o.mode} {o.case}: {o.reason}")

    ran = {f"{o.mode} {o.case}" for o in outcomes}
    passed = [f"{o.mode} {o.case}" for o in outcomes if o.status == "pass"]
    lost = [entry for entry in read_list(PASSING) if entry in ran and entry not in set(passed)]
    unknown = [entry for entry in read_list(PASSING) if entry.split()[-1] not in set(read_list(HERE / "cases.txt"))]
    if args.update:
        PASSING.write_text(
            "# Cases of the node suite that pass, `mode case` a line: written by run_nodes.py --update.\n"
            + "".join(entry + "\n" for entry in passed)
        )
        operators_page.write(converter.ROOT / "docs/operators.md", outcomes, NODES)
        lost = unknown = []
    for entry in lost:
        print(f"lost: {entry} is in passing.txt and does not pass")
    for entry in unknown:
        print(f"unknown: {entry} is in passing.txt and no case")
    summary(outcomes)
    print(f"{time.monotonic() - start:.0f} s")
    failed = {f"{o.mode} {o.case}" for o in bad} | set(lost) | set(unknown)
    print(f"{len(passed)} passed, {len(failed)} failed")
    return 1 if args.check and failed else 0


if __name__ == "__main__":
    sys.exit(main())
