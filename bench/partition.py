# SPDX-License-Identifier: Apache-2.0
"""Divides every shared model, runs the pieces, and compares them with ONNX Runtime on the whole model.

    python -m bench.partition [--models FOLDER]... [--out TABLE.md] [--only NAME] [-- OPTIONS OF lowtide partition]

Each row: pieces, the share of the work that is in the target, and how far the results are from ONNX Runtime's, in parts
of their range. `alternate` in the place of options excludes every second operator, by name.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime

from tests.oracle import real_models
from tests.support import converter

sys.path.insert(0, str(converter.ROOT / "tools/python"))

LIMIT = 1e-5  # of the range of an output


def inputs_of(model, shapes, ranges, seed=5):
    """Random arrays for the inputs of a model; dimensions that nobody fixes are 1."""
    rng = np.random.default_rng(seed)
    constants = {tensor.name for tensor in model.graph.initializer}
    feed = {}
    for value in model.graph.input:
        if value.name in constants:
            continue
        kind = value.type.tensor_type
        dtype = onnx.helper.tensor_dtype_to_np_dtype(kind.elem_type)
        shape = shapes.get(value.name) or [dim.dim_value or 1 for dim in kind.shape.dim]
        low, high = ranges.get(value.name, (0, 2 if dtype.kind in "iu" else 1))
        if dtype.kind == "b":
            feed[value.name] = rng.integers(0, 2, shape).astype(bool)
        elif dtype.kind in "iu":
            feed[value.name] = rng.integers(int(low), int(high), shape).astype(dtype)
        else:
            feed[value.name] = rng.uniform(low, high, shape).astype(dtype)
    return feed


def whole(path, feed):
    """What ONNX Runtime computes, without and with its optimisations: their distance is what the model leaves open."""
    results = []
    for level in ("ORT_DISABLE_ALL", "ORT_ENABLE_ALL"):
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, level)
        options.log_severity_level = 4
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
        results.append(dict(zip(names, session.run(names, feed))))
    return results


def distance(found, expected):
    """The largest difference in parts of the range; infinite where types, shapes or whole numbers differ."""
    if found.dtype.kind != expected.dtype.kind or found.shape != expected.shape:
        return float("inf")
    if expected.dtype.kind not in "fc":
        return 0.0 if np.array_equal(found, expected) else float("inf")
    if not np.array_equal(np.isfinite(found), np.isfinite(expected)):
        return float("inf")
    finite = np.isfinite(expected)
    if not finite.any():
        return 0.0
    a, b = found[finite].astype(np.float64), expected[finite].astype(np.float64)
    return float(np.abs(a - b).max() / max(np.ptp(b), np.abs(b).max(), 1e-30))


def operators(model):
    return sorted(
        {(node.domain + "." if node.domain not in ("", "ai.onnx") else "") + node.op_type for node in model.graph.node}
    )


def judged(path, folder, options, expectation):
    """(pieces, share of the work in the target, distance, what went wrong)."""
    model = onnx.load(path, load_external_data=False)
    if options == ["alternate"]:
        options = [f"--exclude-op={name}" for name in operators(model)[::2]]
    made = divided(path, folder, options)
    if made.returncode != 0:
        return "-", "-", float("inf"), made.stderr.strip().splitlines()[0]
    pieces, worst, wrong = run(path, folder, model, expectation)
    return pieces, share(made), worst, wrong


def divided(path, folder, options):
    return converter.run("partition", path, "-o", folder, *options, cpu_seconds=120, errors="replace")


def share(made):
    return re.search(r"(\d+) % of the work", made.stdout)[1]


def run(path, folder, model, expectation):
    """(pieces, distance, what went wrong)."""
    import lowtide

    feed = inputs_of(model, expectation.shapes if expectation else {}, expectation.ranges if expectation else {})
    plain, optimised = whole(path, feed)
    try:
        with lowtide.Runner(folder) as runner:
            found = runner.run(feed)
            pieces = str(len(runner.pieces_profile()))
    except lowtide.Error as error:
        return "?", float("inf"), " ".join(str(error).split())[:300]
    if list(found) != list(plain):
        return pieces, float("inf"), "other outputs"
    worst = max((min(distance(found[n], plain[n]), distance(found[n], optimised[n])) for n in plain), default=0.0)
    allowed = max(LIMIT, max((2 * distance(optimised[n], plain[n]) for n in plain), default=0.0))
    return pieces, worst, "" if worst <= allowed else f"{worst:.1e} off, more than {allowed:.1g}"


def each_model(module, folders, only, options):
    """The last line with tabs that `python -m MODULE --one MODEL` prints, for each model: (name, cells or None, what it said).

    A process of its own for each: a runtime that crashes takes down only itself.
    """
    folders = [pathlib.Path(f) for f in folders] or [real_models.FOLDER, real_models.FOLDER.parent / "onnx_quant"]
    for path in sorted(path for folder in folders for path in folder.glob("*.onnx") if only in path.name):
        command = [sys.executable, "-m", module, "--one", str(path), "--", *options]
        done = subprocess.run(command, cwd=converter.ROOT, capture_output=True, text=True, timeout=900)
        lines = [line for line in done.stdout.splitlines() if "\t" in line]
        yield path.name, lines, done.stderr.strip()[-200:]


def parsed_arguments(description, options_help):
    """Of a command that has a row for each model (each_model)."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", action="append", default=[], help="folders; default: ../shared/models")
    parser.add_argument("--only", default="", help="models whose names contain this")
    parser.add_argument("--out", help="write the table to this file")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("options", nargs="*", help=options_help)
    return parser.parse_args()


def main():
    arguments = parsed_arguments(__doc__, "for lowtide partition, behind --")
    expected = {row.model: row for row in real_models.expectations()}
    if arguments.one:
        path = pathlib.Path(arguments.one)
        with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
            print("\t".join(map(str, judged(path, folder + "/p", arguments.options, expected.get(path.name)))))
        return
    rows, good = [], 0
    for name, lines, said in each_model("bench.partition", arguments.models, arguments.only, arguments.options):
        pieces, share_of, worst, wrong = lines[-1].split("\t") if lines else ("-", "-", "inf", said)
        good += wrong == ""
        rows.append(f"| {name} | {pieces} | {share_of} % | {float(worst):.1e} | {wrong} |")
        print(rows[-1], flush=True)
    summary = f"{good} of {len(rows)} run in pieces equal to ONNX Runtime"
    print(summary)
    if arguments.out:
        head = ["| model | pieces | work in TFLite | distance | |", "|---|---|---|---|---|"]
        pathlib.Path(arguments.out).write_text("\n".join([*head, *rows, "", summary, ""]))


if __name__ == "__main__":
    main()
