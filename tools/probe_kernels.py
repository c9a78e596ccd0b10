#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures what the TFLite kernels of the installed ai-edge-litert accept and get right, and writes what it finds to
layout/core/kernel_limits.inc (which C++ includes) and docs/kernels.md.

Every form of every operator is a model of one operator (kernel_probe/), run in a child process and compared with numpy:
`right`, `refused` with the kernel's reason, WRONG (it runs and the result is not the operator's), CRASH. Quantized kernels
are run in LiteRT's three modes (XNNPACK, built-in, reference), all others in the first two.

    python tools/probe_kernels.py                      rewrite both files (about a minute)
    python tools/probe_kernels.py --check --ops ADD    measure some operators again and compare them with the file
    python tools/probe_kernels.py --show ADD           print every case of an operator
"""

import argparse
import importlib
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tools"))

from kernel_probe import tables  # noqa: E402
from kernel_probe.case import CASES, NotDefined  # noqa: E402
from kernel_probe.one_op import ModelBuilder, run, schema  # noqa: E402
from kernel_probe.runner import run_all  # noqa: E402

FAMILIES = (
    "elementwise shapes slices gathers constants reductions convolutions products images quantized quantized_products "
    "recurrent control_flow others"
)
for family in FAMILIES.split():
    importlib.import_module(f"kernel_probe.{family}")  # fills CASES

LATEST_VERSION = 24


MODES = {"built-in": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "XNNPACK": "BUILTIN", "reference": "BUILTIN_REF"}


def judge(versions, mode, dynamic=False):
    """For the child: loads the runtime and returns the function that runs a case."""

    def load():
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        resolver = getattr(OpResolverType, MODES[mode])

        def answer(case):
            try:
                inputs, outputs, options = case.make()
            except NotDefined:
                return "undefined", ""
            return run(Interpreter, resolver, case.op, inputs, outputs, options, versions.get(case.op, 1), dynamic)

        return answer

    return load


def registered_versions(mode="built-in"):
    """{builtin: highest version with a kernel} by loading a model that only names the operator."""
    names = [
        n
        for n in vars(schema.BuiltinOperator)
        if n.isupper() and n not in ("CUSTOM", "DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES")
    ]
    questions = [(name, version) for name in names for version in range(1, LATEST_VERSION + 1)]

    def load():
        from ai_edge_litert.interpreter import Interpreter, OpResolverType

        def known(question):
            builder = ModelBuilder()
            builder.operator(question[0], [], [], None, question[1])
            try:
                Interpreter(
                    model_content=builder.bytes(),
                    experimental_op_resolver_type=getattr(OpResolverType, MODES[mode]),
                )
            except (RuntimeError, ValueError) as error:
                return "Didn't find op" not in str(error), ""
            return True, ""

        return known

    found = {}
    for (name, version), (known, _) in zip(questions, run_all(questions, load)):
        if known:
            found[name] = version
    return found


def measure(cases, versions, mode="built-in"):
    """[(case, status, reason)], leaving broadcasts out for types that the kernel does not take at all."""
    load = judge(versions, mode)
    plain = [c for c in cases if c.group != "broadcast"]
    answers = {id(c): a for c, a in zip(plain, run_all(plain, load))}
    takes = {(c.op, c.key[0]) for c in plain if c.group == "grid" and answers[id(c)][0] == "right"}
    broadcasts = [c for c in cases if c.group == "broadcast" and (c.op, c.key[0]) in takes]
    answers |= {id(c): a for c, a in zip(broadcasts, run_all(broadcasts, load))}
    return [(c, *answers[id(c)]) for c in cases if id(c) in answers and answers[id(c)][0] != "undefined"]


def measure_dynamic(rows, cases, versions):
    """Each operator once more, with inputs whose first dimension is known only when the caller resizes them."""
    ranks = {row.op: (row.dtypes[0], max(row.min_rank, min(4, row.max_rank))) for row in rows}
    chosen = [c for c in cases if c.group == "grid" and ranks.get(c.op) == c.key and c.key[1] > 0]
    plain = run_all(chosen, judge(versions, "built-in", dynamic=True))
    delegated = run_all(chosen, judge(versions, "XNNPACK", dynamic=True))
    return [(c, *(a if a[0] != "right" else b)) for c, a, b in zip(chosen, plain, delegated)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--ops", help="only these, with commas between; nothing is written")
    parser.add_argument("--check", action="store_true", help="compare with the file instead of writing it")
    parser.add_argument("--show", metavar="OP", help="print every case of an operator")
    arguments = parser.parse_args()

    ops = set((arguments.show or arguments.ops or "").split(",")) - {""}
    cases = [c for c in CASES if not ops or c.op in ops]
    versions = registered_versions()
    results, delegated = measure(cases, versions), measure(cases, versions, "XNNPACK")
    reference = measure([c for c in cases if c.group == "quantized"], registered_versions("reference"), "reference")
    broken = [(c.op, c.group, c.key, why) for c, status, why in results if status == "BROKEN CASE"]
    if broken:
        sys.exit("\n".join(map(str, broken)))
    if arguments.show:
        with_delegates = {id(c): status for c, status, _ in delegated}
        in_reference = {id(c): status for c, status, _ in reference}
        for c, status, why in results:
            print(
                c.op,
                c.group,
                *c.key,
                status,
                "/",
                with_delegates.get(id(c), "not run"),
                "/",
                in_reference.get(id(c), "not run"),
                why.strip().replace("\n", " "),
            )
        return
    safest = tables.safest(results, delegated, reference)
    rows, quantized_rows = tables.rows(safest), tables.quantized_rows(safest)
    limits = ROOT / "layout/core/kernel_limits.inc"
    if arguments.check:
        differing = tables.differing_rows(rows, quantized_rows, limits.read_text(), ops)
        sys.exit("\n".join(differing) or 0)
    if ops:
        print(tables.inc_text(rows, quantized_rows))
        return
    limits.write_text(tables.inc_text(rows, quantized_rows))
    page = ROOT / "docs" / "kernels.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text(
        tables.page_text(rows, results, delegated, reference, measure_dynamic(rows, cases, versions), versions)
    )


if __name__ == "__main__":
    main()
