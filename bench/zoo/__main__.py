# SPDX-License-Identifier: Apache-2.0
"""Exports the zoo, converts it and judges it: is anything refused or wrong, with how many operators, in how much memory?

    python -m bench.zoo FOLDER [NAME ...] [--exporter both] [--size small] [--torch PYTHON] [--page] [--peers ...]

FOLDER (say build/zoo) gets a file a network, exporter and variant; what is there is not exported again, and not judged again by
the same program. --torch is a Python with bench/zoo/requirements.txt, default this one; without --torch and without torch here, what
is in FOLDER is judged. --page writes the table into docs/zoo.md. --peers onnx2tf=PROGRAM or --peers litert-torch=PYTHON writes a table of its
own instead, CPU time compared with files of onnx2tf 2.6.9 or of litert-torch; NAME may then be any FOLDER/NAME.onnx whose sizes are fixed,
or given in bench/zoo/peers.py.
"""

import argparse
import importlib.util
import pathlib
import statistics
import subprocess
import sys

from bench import page
from bench.zoo import peers
from bench.zoo.judge import judged_before
from bench.zoo.table import NETWORKS
from tests.support.litert import Litert

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/zoo.md"
BEGIN, END = "<!-- python -m bench.zoo writes from here -->\n", "<!-- to here: judged -->\n"
EXPORTERS = ("script", "dynamo")
UNTRIED = "not exported yet"


def export(options):
    python = options.torch or (sys.executable if importlib.util.find_spec("torch") else None)
    if python is None:
        print("no torch here and no --torch: what was exported before is judged", flush=True)
        return
    names = [name for name in options.names if name in NETWORKS]
    if options.names and not names:
        return
    command = [python, "-m", "bench.zoo.export", options.folder, *names]
    subprocess.run([*command, "--exporter", options.exporter, "--size", options.size], check=True, cwd=ROOT)


def judge_all(options):
    """{(network, exporter, variant): Outcome, or the text why it is not exported}"""
    outcomes = {}
    with Litert(120) as litert:
        for name in options.names or NETWORKS:
            network = NETWORKS[name]
            if options.size == "large" and not network.large:
                continue
            for exporter in EXPORTERS if options.exporter == "both" else (options.exporter,):
                for variant in ("large",) if options.size == "large" else network.variants():
                    path = options.folder / f"{name}.{exporter}.{variant}.onnx"
                    reason = path.with_suffix(".txt")
                    if path.exists():
                        found = judged_before(path, network, variant, litert)
                        print(f"{path.stem}: {found.status} {worst(found):.1e} {found.reason[:300]}", flush=True)
                    else:
                        found = reason.read_text().strip() if reason.exists() else UNTRIED
                    outcomes[name, exporter, variant] = found
    return outcomes


def worst(outcome):
    return max(outcome.errors.values(), default=0.0)


def cells_of(outcomes, name, exporter):
    """The cells of a row: counts of both variants, and the worst over all sizes."""
    mine = {variant: found for (n, e, variant), found in outcomes.items() if (n, e) == (name, exporter)}
    judged = [found for found in mine.values() if not isinstance(found, str)]
    if not judged:
        return None
    counts = {
        variant: f"{f.operators} / {f.transposes}"
        for variant, f in mine.items()
        if not isinstance(f, str) and f.operators
    }
    peak = max(found.peak for found in judged)
    errors = [
        f"{max(found.errors[backend] for found in judged if backend in found.errors):.0e}"
        if any(backend in found.errors for found in judged)
        else "-"
        for backend in ("kernels", "xnnpack")
    ]
    status = next((found.status for found in judged if found.status != "right"), "")
    fixed = next((counts[v] for v in ("small", "large") if v in counts), "-")
    missing = "not exported" if isinstance(mine.get("dynamic"), str) else "-" if "dynamic" in mine else ""
    return [name, exporter, fixed, counts.get("dynamic", missing), f"{peak / 2**20:.0f} MiB", *errors, status]


def table(outcomes):
    head = "| network | exporter | operators / TRANSPOSE | with open sizes | peak RSS | kernels | XNNPACK | |\n"
    lines = [head, "|---|---|---:|---:|---:|---:|---:|---|\n"]
    for name in NETWORKS:
        for exporter in EXPORTERS:
            cells = cells_of(outcomes, name, exporter)
            if cells:
                lines.append("| " + " | ".join(cells) + " |\n")
    return "".join(lines)


def totals(outcomes):
    """What is judged of what is exported, and the reason of each refusal."""
    judged = {key: found for key, found in outcomes.items() if not isinstance(found, str)}
    count = {
        s: sum(f.status == s for f in judged.values()) for s in ("right", "constant", "wrong", "refused", "invalid")
    }
    names = len({name for name, _, _ in judged})
    both = len({n for n, e, _ in judged if e == "script"} & {n for n, e, _ in judged if e == "dynamo"})
    opened = len({n for n, _, v in judged if v == "dynamic"})
    errors = [worst(found) for found in judged.values() if found.errors]
    lines = [
        f"{names} networks, {both} of them by both exporters, {opened} with open sizes too: {len(judged)} files, of which "
        f"{count['right']} convert and are right, {count['constant']} are right but constant, {count['wrong']} are wrong, {count['refused']} are refused by Lowtide alone, "
        f"and {count['invalid']} are refused by ONNX Runtime, or NaN in it.",
        f"Worst error of those that are right: {max((worst(f) for f in judged.values() if f.status == 'right'), default=0):.1e} "
        f"of the range, median {statistics.median(errors) if errors else 0:.0e}.",
    ]
    rest = {key: found for key, found in judged.items() if found.status not in ("right", "constant")}
    lines += [f"\n* {'.'.join(key)}: {found.status}: {found.reason[:400]}" for key, found in rest.items()]
    absent = {".".join(key): found for key, found in outcomes.items() if isinstance(found, str)}
    untried = [name for name, reason in absent.items() if reason == UNTRIED]
    refused = [name for name in absent if name not in untried]
    lines += [f"\nPyTorch's exporters refuse {len(refused)}: {', '.join(refused)}."] if refused else []
    lines += [f"\nNot exported yet: {len(untried)}."] if untried else []
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--exporter", choices=[*EXPORTERS, "both"], default="both")
    parser.add_argument("--size", choices=["small", "large"], default="small")
    parser.add_argument("--torch", metavar="PYTHON", help="a Python with bench/zoo/requirements.txt")
    parser.add_argument("--page", action="store_true", help="write docs/zoo.md")
    parser.add_argument(
        "--peers", action="append", default=[], metavar="PROGRAM", help="onnx2tf=PROGRAM or litert-torch=PYTHON"
    )
    options = parser.parse_args()
    options.folder = options.folder.resolve()
    unknown = [name for name in options.names if name not in NETWORKS]
    if unknown and not all(options.peers and peers.model_of(options.folder, name) for name in unknown):
        sys.exit(f"no network {', '.join(unknown)}; there are {', '.join(NETWORKS)}")
    export(options)
    if options.peers:
        text = peers.compare(options)
        begin, end = peers.marks(options)
    else:
        outcomes = judge_all(options)
        text = f"{totals(outcomes)}\n{table(outcomes)}"
        begin, end = BEGIN, END
    print(text)
    if options.page:
        page.write(PAGE, begin, end, text)


if __name__ == "__main__":
    main()
