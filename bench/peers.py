# SPDX-License-Identifier: Apache-2.0
"""Lowtide compared with onnx2tf on the same models, in one run: peak memory, time, size, operators, latency.

    bench/compare.py peers [MODEL ...] [--env DIR] [--base PYTHON3.12] [--limit 20G] [--write docs/performance.md]

MODEL: a kind of `lowtide make-model`, with a size if wanted (unet, deeplab, duc, conv-stack:1G), or an ONNX file. onnx2tf
2.6.9 is installed by this command into an environment of its own (--env, default build/onnx2tf), which needs a Python
3.12 (--base). It is given a copy of the model, because it overwrites its input, and runs in a folder of its own without
network. What grows above --limit is killed, so that the machine is not.

Memory is the sum of the resident pages of all processes of the tree, sampled every 20 ms, and so a little less than the
true peak; Lowtide's is the kernel's VmHWM. Times are of one run each: read the ratio. Latency: LiteRT, 2 threads, XNNPACK,
median of 7, alternately. Needs psutil and ai-edge-litert (bench/requirements.txt, tests/requirements.txt).
"""

import argparse
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from bench import onnx2tf, page
from bench.measure import LOWTIDE, ROOT, latencies, operators

try:
    import psutil
except ImportError:
    sys.exit("psutil is missing: pip install -r bench/requirements.txt")

BEGIN, END = "<!-- bench/peers.py writes from here -->\n", "<!-- to here -->\n"


def tree_bytes(root):
    total = 0
    for process in [root, *root.children(recursive=True)]:
        try:
            total += process.memory_info().rss
        except psutil.Error:
            pass  # it has just ended
    return total


def measure(command, folder, limit):
    """Seconds, peak bytes of the process tree, and the exit status; None as status: killed at the limit."""
    begun = time.monotonic()
    child = subprocess.Popen(
        [*onnx2tf.alone(), *map(str, command)],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    peak, status = 0, 0
    try:
        root = psutil.Process(child.pid)
        while child.poll() is None:
            peak = max(peak, tree_bytes(root))
            if peak > limit:
                os.killpg(child.pid, 9)
                child.wait()
                return time.monotonic() - begun, peak, None
            time.sleep(0.02)
        status = child.returncode
    except psutil.NoSuchProcess:
        status = child.wait()
    finally:
        if child.poll() is None:
            os.killpg(child.pid, 9)
    return time.monotonic() - begun, peak, status


def model_file(name, folder):
    if pathlib.Path(name).is_file():
        return pathlib.Path(name).resolve()
    kind, _, size = name.partition(":")
    path = folder / f"{kind}{size}.onnx"
    if not path.exists():
        sized = ["--size", size] if size else []
        subprocess.run([LOWTIDE, "make-model", kind, "--quiet", "-o", path, *sized], check=True)
    return path


def ours(model, folder, limit):
    result, report = folder / "ours.tflite", folder / "report.json"
    seconds, _, status = measure(
        [LOWTIDE, "convert", "--quiet", "--report", report, model, "-o", result], folder, limit
    )
    if status != 0:
        sys.exit(f"{model}: lowtide ended with status {status}")
    return {"seconds": seconds, "peak": json.loads(report.read_text())["peak_rss"], "status": status, "file": result}


def theirs(program, model, folder, limit):
    file, (seconds, peak, status) = onnx2tf.convert(
        program, model, folder / "theirs", lambda command, where: measure(command, where, limit)
    )
    return {"seconds": seconds, "peak": peak, "status": status, "file": file}


def row(name, model, run, latency):
    size = sum(path.stat().st_size for path in onnx2tf.model_files(model))
    cells = [name, f"{size / 1e6:.0f} MB", f"{run['peak'] / 2**20:,.0f} MiB", f"{run['seconds']:.1f} s"]
    if run["status"] is None:
        return cells[:2] + [f"killed at {run['peak'] / 2**30:.0f} GiB", cells[3], "-", "-", "-"]
    if run["file"] is None:
        return cells + ["no float model", "-", "-"]
    counts = operators(run["file"])
    cells += [f"{run['file'].stat().st_size / 1e6:.0f} MB", f"{sum(counts.values())} / {counts.get('TRANSPOSE', 0)}"]
    if latency is None:
        return cells + ["not run"]
    return cells + ["LiteRT refuses it" if math.isnan(latency) else f"{latency * 1000:.0f} ms"]


def compare(name, program, options, folder):
    model = model_file(name, folder)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        scratch = pathlib.Path(scratch)
        runs = [ours(model, scratch, options.limit), theirs(program, model, scratch, options.limit)]
        files = [run["file"] for run in runs if run["file"]]
        times = iter(latencies(files, options.python, 7) if files[0].stat().st_size < options.latency_up_to else [])
        title = model.stem if pathlib.Path(name).is_file() else name
        return [
            row(f"{title}, {who}", model, run, next(times, None) if run["file"] else None)
            for who, run in zip(("Lowtide", "onnx2tf"), runs)
        ]


def table(rows):
    head = ["model", "ONNX", "peak RSS", "time", "TFLite", "operators / TRANSPOSE", "latency"]
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def byte_count(text):
    return int(float(text.rstrip("KMG")) * {"K": 2**10, "M": 2**20, "G": 2**30}.get(text[-1], 1))


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", default=["unet", "deeplab", "duc", "conv-stack:1G"])
    onnx2tf.add_arguments(parser)
    parser.add_argument("--python", default=sys.executable, help="a Python with ai-edge-litert")
    parser.add_argument("--limit", type=byte_count, default=byte_count("20G"))
    parser.add_argument(
        "--latency-up-to", type=byte_count, default=byte_count("600M"), help="larger models are not run"
    )
    parser.add_argument("--folder", default=str(ROOT / "build/peers"))
    parser.add_argument("--write", type=pathlib.Path, help="put the table into this page, between its marks")
    options = parser.parse_args(arguments)
    folder = pathlib.Path(options.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    program = onnx2tf.install(options)
    rows = []
    for name in options.models:
        rows += compare(name, program, options, folder)
        print(table(rows[-2:]), flush=True)
    if options.write:
        page.write(options.write, BEGIN, END, table(rows))
