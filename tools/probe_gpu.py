#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Asks LiteRT's GPU delegate about small models of one operator, and compares its answers with the rules in
tools/lowtide/targets/gpu.json.

    build/venv/bin/python tools/probe_gpu.py             all operators (about three minutes)
    build/venv/bin/python tools/probe_gpu.py --ops ADD,GATHER
    build/venv/bin/python tools/probe_gpu.py --show GATHER     print every answer

The delegate runs on SwiftShader (docs/gpu.md says what to install). Forms that the delegate refuses without a reason, or
that end the process, are kernels' own limits and are not judged. Exit status 1: a rule and an answer differ.
"""

import argparse
import importlib
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from gpu_probe import forms, rules  # noqa: E402
from kernel_probe.one_op import build  # noqa: E402

from tests.support import gpu  # noqa: E402

RULES = ROOT / "tools/lowtide/targets/gpu.json"
FAMILIES = "elementwise shapes slices gathers constants reductions convolutions products images others"


def ask(asked):
    """[(form, answer)]: answers as gpu.load_all gives them."""
    with tempfile.TemporaryDirectory(prefix="lowtide-gpu-") as folder:
        files = []
        for i, (op, _, inputs, outputs, options, version) in enumerate(asked):
            files.append(pathlib.Path(folder) / f"{i}.tflite")
            files[-1].write_bytes(build(op, inputs, outputs, options, version)[0])
        return list(zip(asked, gpu.load_all(files)))


def measure(ops):
    first = [form for form in forms.all_forms() if not ops or form[0] in ops]
    answers = ask(first)
    # Versions, by the last form of each operator that is taken.
    taken = {form[0]: form for form, answer in answers if answer.taken}
    versions = [
        (op, f"{text}, version {version}", *rest, version)
        for op, text, *rest, _ in taken.values()
        for version in range(2, forms.MOST_VERSIONS + 1)
    ]
    return answers + ask(versions)


def main():
    parser = argparse.ArgumentParser(description="Compare the rules of the GPU with the delegate's answers.")
    parser.add_argument("--ops", default="", help="only these, with commas between")
    parser.add_argument("--show", metavar="OP", help="print every answer about an operator")
    arguments = parser.parse_args()
    if missing := gpu.absent():
        sys.exit(f"tools/probe_gpu.py: {missing}")
    for family in FAMILIES.split():
        importlib.import_module(f"kernel_probe.{family}")  # fills kernel_probe.case.CASES
    ops = set((arguments.show or arguments.ops).split(",")) - {""}
    description = json.loads(RULES.read_text())
    differing = judged = 0
    for (op, text, inputs, outputs, _, version), answer in measure(ops):
        refusal = rules.refusal(description, op, inputs, outputs, version)
        if arguments.show:
            print(op, text, "/ taken" if answer.taken else f"/ {answer.reason or 'no reason'}", "/", refusal or "")
        if not answer.taken and not answer.reason:
            continue
        judged += 1
        if answer.taken != (refusal is None):
            differing += 1
            print(f"{op} {text}: the delegate {answer.reason or 'takes it'}; by the rules: {refusal or 'taken'}")
    print(f"{judged} forms, {differing} answers differ from {RULES.relative_to(ROOT)}")
    sys.exit(1 if differing else 0)


if __name__ == "__main__":
    main()
