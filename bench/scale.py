#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How memory and time go with the size of a model: measures, and writes docs/memory.md's tables and picture.

    python -m bench.scale sizes  [--kind plain|transposed] [--sizes 16M,256M,1G,4G,16G,200G-sparse] [--rounds 3] [--folder DIR]
    python -m bench.scale nodes  [--kind convolutions|mixed] [--counts 1000,3000,10000,30000,100000] [--files 1]
    python -m bench.scale cgroup [--size 8G] [--limit 64M]
    python -m bench.scale plot

`sizes`: peak RSS, time, and time in units of `cp` of the same files (the model and its weights), in turns, the inputs
dropped from the page cache before each turn. It takes twice the disk of the largest size. `nodes`: models that are
nothing but nodes; the mixed ones are of more operators, with names as exporters write them (mixed_nodes.py, needs onnx). `cgroup`: conversions under a memory limit of the kernel's, in turns with conversions without one.

Figures go to docs/memory.json as they are measured, so that a part can be measured again by itself; every command writes
the tables anew, and `plot` the picture (it needs matplotlib: pip install -r bench/requirements.txt).
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys

from bench.cgroup import MemoryLimit, evict
from bench.measure import run_once, seconds

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOWTIDE = pathlib.Path(os.environ.get("LOWTIDE", ROOT / "build/release/lowtide"))
FIGURES, PAGE, PICTURE = ROOT / "docs/memory.json", ROOT / "docs/memory.md", ROOT / "docs/memory.svg"
MIB = 2**20


def load():
    return json.loads(FIGURES.read_text()) if FIGURES.exists() else {}


def record(part, key, figures):
    """Keeps one row of figures, and shows it."""
    everything = load()
    everything.setdefault(part, {})[key] = figures
    FIGURES.write_text(json.dumps(everything, indent=1) + "\n")
    print(part, key, figures, flush=True)


def in_bytes(text):
    number, unit = re.fullmatch(r"(\d+)([KMGT]?)", text).groups()
    return int(number) << {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}[unit]


def make(model, kind, *options):
    subprocess.run([LOWTIDE, "make-model", kind, "-o", model, "--quiet", *options], check=True)
    return sorted(model.parent.glob(f"{model.name}*"))


def remove(*paths):
    for path in paths:
        path.unlink(missing_ok=True)


def conversion(model, result, report=None):
    return [LOWTIDE, "convert", "--quiet", model, "-o", result, *(["--report", report] if report else [])]


def peak(report):
    return json.loads(report.read_text())["peak_rss"]


def measure_size(folder, kind, size, rounds):
    model, result, report = folder / "size.onnx", folder / "size.tflite", folder / "size.json"
    number, _, sparse = size.partition("-")
    needed = 0 if sparse else 2 * in_bytes(number)
    free = shutil.disk_usage(folder).free
    if free < needed + (1 << 30):
        sys.exit(f"{folder} has {free >> 20} MiB free, {size} takes {needed >> 20} and some")
    inputs = make(
        model,
        "conv-stack",
        "--size",
        number,
        "--external",
        *(["--plain"] if kind == "plain" else []),
        *(["--sparse"] if sparse else []),
    )
    copies = [path.with_name(path.name + ".copy") for path in inputs]
    copy = [
        "sh",
        "-c",
        'while [ $# -gt 0 ]; do cp -- "$1" "$2" || exit 1; shift 2; done',
        "sh",
        *(path for pair in zip(inputs, copies) for path in pair),
    ]
    ours, theirs, peaks = [], [], []
    for turn in range(rounds):
        for who in ("us", "cp") if turn % 2 == 0 else ("cp", "us"):
            if who == "us":
                ours.append(seconds(conversion(model, result, report), [result, *copies], inputs, cold=True))
                peaks.append(peak(report))
            else:
                theirs.append(seconds(copy, [result, *copies], inputs, cold=True))
    weights = sum(path.stat().st_size for path in inputs)
    remove(result, report, *copies, *inputs)
    record(
        f"sizes {kind}",
        size,
        {
            "bytes": weights,
            "peak_rss": max(peaks),
            "seconds": statistics.median(ours),
            "cp_seconds": statistics.median(theirs),
            "ratio": statistics.median(a / b for a, b in zip(ours, theirs)),
            "rounds": rounds,
        },
    )


def measure_nodes(folder, kind, count, files, rounds):
    model, result, report = folder / "nodes.onnx", folder / "nodes.tflite", folder / "nodes.json"
    if kind == "mixed":
        from bench import mixed_nodes

        mixed_nodes.write(model, count)
        inputs = [model]
    else:
        inputs = make(model, "many-nodes", "--nodes", str(count), "--files", str(files))
    # The peak is in the report, which lists each node and tensor; the time is that of the conversion alone.
    run_once(conversion(model, result, report), [result], inputs, cold=False)
    taken = [run_once(conversion(model, result), [result], inputs, cold=False) for _ in range(rounds)]
    record(
        f"nodes {kind}",
        str(count),
        {
            "peak_rss": peak(report),
            "seconds": statistics.median(wall for wall, _ in taken),
            "cpu_seconds": statistics.median(cpu for _, cpu in taken),
            "files": files,
            "rounds": rounds,
        },
    )
    remove(result, report, *inputs)


def measure_cgroup(folder, kind, size, limit, rounds):
    model, result = folder / "cgroup.onnx", folder / "cgroup.tflite"
    inputs = make(model, "conv-stack", "--size", size, "--external", *(["--plain"] if kind == "plain" else []))
    times, most = {None: [], limit: []}, {}
    for _ in range(rounds):
        for bound in times:
            evict(*inputs)
            with MemoryLimit(bound) as group:
                times[bound].append(
                    seconds(
                        [
                            sys.executable,
                            "-c",
                            ENTER,
                            group.procs(),
                            LOWTIDE,
                            "convert",
                            "--quiet",
                            model,
                            "-o",
                            result,
                        ],
                        [result],
                        inputs,
                        cold=True,
                    )
                )
                most[bound] = group.figures()
    remove(result, *inputs)
    record(
        "cgroup",
        f"{kind} {size}",
        {
            "limit": limit,
            "most_charged": most[limit][0],
            "times_met": most[limit][1],
            "seconds": statistics.median(times[limit]),
            "ratio": statistics.median(a / b for a, b in zip(times[limit], times[None])),
            "rounds": rounds,
        },
    )


# Enters the cgroup and becomes the program.
ENTER = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid())); os.execv(sys.argv[2], sys.argv[2:])"


def mib(count):
    return f"{count / MIB:.1f} MiB"


def short(value):
    """Three digits, as people write them."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def size_name(key):
    number, _, sparse = key.partition("-")
    return f"{number[:-1]} {number[-1]}iB" + (", sparse" if sparse else "")


def tables(everything):
    lines = []
    for kind in ("plain", "transposed"):
        rows = everything.get(f"sizes {kind}", {})
        if not rows:
            continue
        lines += [f"| weights, {kind} | peak RSS | seconds | in units of `cp` |", "|---|---|---|---|"]
        for key, row in sorted(rows.items(), key=lambda item: item[1]["bytes"]):
            lines.append(
                f"| {size_name(key)} | {mib(row['peak_rss'])} | {short(row['seconds'])} | {row['ratio']:.2f} |"
            )
        lines.append("")
    for kind in ("convolutions", "mixed"):
        rows = sorted((int(count), row) for count, row in everything.get(f"nodes {kind}", {}).items())
        if not rows:
            continue
        lines += [
            f"| nodes, {kind} | peak RSS | for each node more than the first | CPU seconds | for each node |",
            "|---|---|---|---|---|",
        ]
        first_count, first = rows[0]
        for count, row in rows:
            grown = (row["peak_rss"] - first["peak_rss"]) / (count - first_count) if count > first_count else None
            lines.append(
                f"| {count:,} | {mib(row['peak_rss'])} | {f'{grown:,.0f} bytes' if grown else ''} "
                f"| {short(row['cpu_seconds'])} | {row['cpu_seconds'] / count * 1e6:.0f} µs |"
            )
        lines.append("")
    rows = everything.get("cgroup", {})
    if rows:
        lines += [
            "| under a limit of | weights | most that was charged | seconds | in units of no limit |",
            "|---|---|---|---|---|",
        ]
        for key, row in sorted(rows.items()):
            lines.append(
                f"| {mib(row['limit'])} | {key} | {mib(row['most_charged'])} | {short(row['seconds'])} | {row['ratio']:.2f} |"
            )
        lines.append("")
    return "\n".join(lines)


def write_page():
    begin, end = "<!-- figures of bench/scale.py -->\n", "<!-- end -->"
    before, rest = PAGE.read_text().split(begin)
    PAGE.write_text(before + begin + "\n" + tables(load()) + "\n" + end + rest.split(end, 1)[1])


def plot():
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "lowtide", "svg.fonttype": "none", "font.size": 10})
    import matplotlib.pyplot as plt
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    everything = load()
    figure, (memory, time) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
    for kind, color in (("plain", "#1f6f8b"), ("transposed", "#c8553d")):
        rows = sorted(everything.get(f"sizes {kind}", {}).items(), key=lambda item: item[1]["bytes"])
        real = [row for key, row in rows if "-" not in key]
        sparse = [row for key, row in rows if "-" in key]
        if not real:
            continue
        x = [row["bytes"] for row in real]
        memory.plot(x, [row["peak_rss"] / MIB for row in real], "o-", color=color, label=f"{kind} weights")
        time.plot(x, [row["seconds"] for row in real], "o-", color=color, label=f"{kind} weights")
        if kind == "plain":
            time.plot(x, [row["cp_seconds"] for row in real], "--", color="#777777", label="cp of the same files")
        for row in sparse:
            memory.plot([row["bytes"]], [row["peak_rss"] / MIB], "D", mfc="white", color=color, label=f"{kind}, sparse")
            time.plot([row["bytes"]], [row["seconds"]], "D", mfc="white", color=color, label=f"{kind}, sparse")
    sizes = sorted({row["bytes"] for rows in everything.values() for row in rows.values() if "bytes" in row})
    memory.plot(sizes, [size / MIB for size in sizes], ":", color="#777777", label="the weights themselves")
    names = {"16M": 24, "256M": 28, "4G": 32, "16G": 34, "200G": None}
    ticks = {
        (200 << 30 if power is None else 1 << power): name.replace("M", " MiB").replace("G", " GiB")
        for name, power in names.items()
    }
    for axes in (memory, time):
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.xaxis.set_major_locator(FixedLocator(list(ticks)))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: ticks.get(int(value), "")))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.grid(True, which="major", color="#e4e4e4", linewidth=0.8)
        axes.set_axisbelow(True)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xlabel("weights")
        axes.legend(frameon=False, fontsize=8, loc="upper left")
    memory.set_ylim(4, 8e5)  # the legends stand above the lines
    time.set_ylim(top=2e3)
    memory.set_title("Peak resident memory, MiB", loc="left", fontsize=10)
    time.set_title("Time, seconds", loc="left", fontsize=10)
    figure.savefig(PICTURE, metadata={"Date": None}, facecolor="white")
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    parts = {name: commands.add_parser(name) for name in ("sizes", "nodes", "cgroup", "plot")}
    for name in ("sizes", "nodes", "cgroup"):
        parts[name].add_argument("--rounds", type=int, default=3)
        parts[name].add_argument("--folder", type=pathlib.Path, default=ROOT / "build/scale")
    for name in ("sizes", "cgroup"):
        parts[name].add_argument("--kind", choices=["plain", "transposed"], default="plain")
    parts["sizes"].add_argument("--sizes", default="16M,256M,1G,4G,16G,200G-sparse")
    parts["nodes"].add_argument("--kind", choices=["convolutions", "mixed"], default="convolutions")
    parts["nodes"].add_argument("--counts", default="1000,3000,10000,30000,100000")
    parts["nodes"].add_argument("--files", type=int, default=1)
    parts["cgroup"].add_argument("--size", default="8G")
    parts["cgroup"].add_argument("--limit", default="64M")
    options = parser.parse_args()
    if options.command == "plot":
        plot()
    else:
        folder = options.folder.resolve()
        folder.mkdir(parents=True, exist_ok=True)
    if options.command == "sizes":
        for size in options.sizes.split(","):
            measure_size(folder, options.kind, size, options.rounds)
    if options.command == "nodes":
        for count in options.counts.split(","):
            measure_nodes(folder, options.kind, int(count), options.files, options.rounds)
    if options.command == "cgroup":
        measure_cgroup(folder, options.kind, options.size, in_bytes(options.limit), options.rounds)
    write_page()


if __name__ == "__main__":
    main()
