# SPDX-License-Identifier: Apache-2.0
"""Pieces by four ways of dividing, for every shared model and two targets, and whether the pieces compute the model.

    python -m bench.partition_table [--models FOLDER]... [--out TABLE.md] [--only NAME]

All ways get the same nodes for the target: those that `lowtide partition --prefer fewest` gives it. Nodes whose results
are known at conversion count nowhere.

* file: runs of nodes for one runtime, in the file's order.
* epochs: as TFLite's delegates divide a graph: what is ready for one runtime is taken until nothing of it is ready, beginning
  with the first node that is ready.
* ORT: pieces in the target only, by ONNX Runtime's own checker (check_onnx_model_mobile_usability).
* fewest, cheapest: `lowtide partition`, and of these pieces those in the target.

Both divisions of each target are run, and compared with ONNX Runtime on the whole model as bench/partition.py does.
"""

import argparse
import json
import pathlib
import sys
import tempfile

import onnx
from onnxruntime.tools.mobile_helpers import usability_checker

from bench.partition import divided, each_model, parsed_arguments, run, share
from tests.oracle import real_models
from tests.support import converter

sys.path.insert(0, str(converter.ROOT / "tools/python"))

TARGETS = ("tidl", "nnapi")
WAYS = ("fewest", "cheap")


def used(node):
    """Values that a node uses, those that its bodies take from outside included."""
    names = [name for name in node.input if name]
    for attribute in node.attribute:
        for body in [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]:
            own = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
            for inner in body.node:
                names += [name for name in used(inner) if name not in own]
                own.update(inner.output)
    return names


def reduced(model, manifest):
    """The nodes that are in a piece, in an order in which they run, with inputs that such nodes make, and of each whether the target runs it."""
    places = manifest["nodes"]
    nodes = list(model.graph.node)
    if [node.op_type for node in nodes] != [place["op"].split(".")[-1] for place in places]:
        raise ValueError("functions were inlined: nodes of the file and of the manifest differ")
    pairs = [(node, place["piece"]) for node, place in zip(nodes, places) if place["piece"] is not None]
    made = {name for node, _ in pairs for name in node.output}
    kept = []
    for node, _ in pairs:
        kept.append(onnx.helper.make_node(node.op_type, sorted(made & set(used(node))), list(node.output)))
        if node.op_type == "Transpose":  # ONNX Runtime's checker takes its first attribute to be this
            kept[-1].attribute.append(onnx.helper.make_attribute("perm", [0]))
    inside = [manifest["pieces"][piece]["in_target"] for _, piece in pairs]
    order = in_order(kept)
    return [kept[i] for i in order], [inside[i] for i in order]


def in_order(nodes):
    """Places of nodes, each behind those that it uses: files may have another order, which is kept as far as it can be."""
    maker = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    order, seen = [], set()
    pending = list(reversed(range(len(nodes))))
    while pending:
        i = pending[-1]
        before = [] if i in seen else [maker[name] for name in nodes[i].input if maker[name] not in seen]
        if before:
            pending += before
            continue
        pending.pop()
        if i not in seen:
            seen.add(i)
            order.append(i)
    return order


def by_file(inside):
    return 1 + sum(a != b for a, b in zip(inside, inside[1:])) if inside else 0


def by_epochs(nodes, inside):
    made = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    waits = [{made[name] for name in node.input if name in made} for node in nodes]
    left, done, epochs = list(range(len(nodes))), set(), 0
    while left:
        colour = inside[next(i for i in left if waits[i] <= done)]
        epochs, before = epochs + 1, -1
        while before != len(done):
            before = len(done)
            for i in left:
                if inside[i] == colour and waits[i] <= done:
                    done.add(i)
            left = [i for i in left if i not in done]
    return epochs


class _Allowed:
    """What usability_checker asks of a list of operators."""

    def __init__(self, nodes, inside):
        self._inside = {node.output[0]: of for node, of in zip(nodes, inside)}

    def is_op_supported(self, node):
        return self._inside[node.output[0]]


def by_onnxruntime(nodes, inside):
    graph = onnx.helper.make_graph(nodes, "g", [], [])
    return usability_checker.check_partitioning(graph, _Allowed(nodes, inside), False).num_partitions


def target_file(name, folder):
    """The shipped target without its limit of pieces: the fewest may be more."""
    content = json.loads((converter.ROOT / f"tools/lowtide/targets/{name}.json").read_text())
    content.pop("max_pieces", None)
    path = pathlib.Path(folder) / f"{name}.json"
    path.write_text(json.dumps(content))
    return path


def row(path, target, expectation):
    """Cells: share of the nodes, file, epochs, ORT, fewest, cheapest, work in the target, what went wrong."""
    model = onnx.load(path, load_external_data=False)
    cells, wrong, work = [], [], {}
    with tempfile.TemporaryDirectory(prefix="lowtide-") as folder:
        chosen = target_file(target, folder)
        for way in WAYS:
            pieces = pathlib.Path(folder) / way
            made = divided(path, pieces, ["--target", chosen if way == "fewest" else target, "--prefer", way])
            if made.returncode != 0:
                cells += ["-"] * (5 if way == "fewest" else 1)
                wrong.append(f"{way}: {made.stderr.strip().splitlines()[0].removeprefix(f'lowtide: {path}: ')}")
                continue
            manifest = json.loads((pieces / "manifest.json").read_text())
            if way == "fewest":
                nodes, inside = reduced(model, manifest)
                cells += [f"{sum(inside)}/{len(inside)}", by_file(inside), by_epochs(nodes, inside)]
                cells.append(by_onnxruntime(nodes, inside))
            count = [piece["in_target"] for piece in manifest["pieces"]]
            cells.append(f"{len(count)} ({sum(count)})")
            work[way] = share(made)
            said = run(path, pieces, model, expectation)[2]
            if said:
                wrong.append(f"{way}: {said}")
    return [*cells, " / ".join(f"{of} %" for of in work.values()), "; ".join(wrong)]


def never_more(cells):
    """Whether the fewest are no more than by any other way."""
    total, inside = (int(of.strip("()")) for of in cells[4].split())
    return total <= min(int(cells[1]), int(cells[2])) and inside <= int(cells[3])


def main():
    arguments = parsed_arguments(__doc__, argparse.SUPPRESS)
    if arguments.one:
        path = pathlib.Path(arguments.one)
        expected = {of.model: of for of in real_models.expectations()}.get(path.name)
        for target in TARGETS:
            print("\t".join(map(str, [target, *row(path, target, expected)])), flush=True)
        return
    rows, good, least, models = [], dict.fromkeys(TARGETS, 0), dict.fromkeys(TARGETS, 0), 0
    for name, lines, said in each_model("bench.partition_table", arguments.models, arguments.only, []):
        models += 1
        found = {line.split("\t")[0]: line.split("\t")[1:] for line in lines}
        for target in TARGETS:
            cells = found.get(target, ["-"] * 7 + [said or "no result"])
            good[target] += cells[-1] == ""
            least[target] += len(cells) == 8 and cells[0] != "-" and never_more(cells)
            rows.append(f"| {name} | {target} | {' | '.join(cells)} |")
            print(rows[-1], flush=True)
    summary = "\n".join(
        f"{target}: {good[target]} of {models} run in pieces equal to ONNX Runtime (both divisions); the fewest are no more "
        f"than by any other way in {least[target]}"
        for target in TARGETS
    )
    print(summary)
    if arguments.out:
        head = [
            "| model | target | nodes | file | epochs | ORT | fewest | cheapest | work | |",
            "|---|---|---|---|---|---|---|---|---|---|",
        ]
        pathlib.Path(arguments.out).write_text("\n".join([*head, *rows, "", summary, ""]))


if __name__ == "__main__":
    main()
