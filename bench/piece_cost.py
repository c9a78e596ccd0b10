# SPDX-License-Identifier: Apache-2.0
"""What Runner costs for each piece, besides the runtimes.

    python -m bench.piece_cost [--pieces 64] [--rounds 300]

A chain of tiny operators is divided so that each is a piece, in LiteRT and ONNX Runtime by turns. Runner and a bare
loop over the same sessions run in turns; the difference is Runner's own cost: checks of the values, and the record of
what ran.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from ai_edge_litert import interpreter
from onnx import TensorProto, helper

from tests.support import converter

sys.path.insert(0, str(converter.ROOT / "tools/python"))

SHAPE = [3, 5]


def make_pieces(folder, count):
    nodes = [
        helper.make_node("Relu" if i % 2 else "Tanh", [f"v{i}"], [f"v{i + 1}"], name=f"node{i}") for i in range(count)
    ]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, SHAPE) for name in ("v0", f"v{count}")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:])
    opset = helper.make_opsetid("", 17)
    onnx.save(helper.make_model(graph, opset_imports=[opset], ir_version=8), folder / "chain.onnx")
    pieces = folder / "pieces"
    made = converter.run(
        "partition", folder / "chain.onnx", "-o", pieces, "--prefer", "coverage", "--exclude-op", "Tanh"
    )
    if made.returncode != 0:
        sys.exit(made.stderr)
    return pieces


def bare_calls(pieces):
    """One function for each piece, which calls its runtime and does nothing else."""
    calls = []
    for piece in json.loads((pieces / "manifest.json").read_text())["pieces"]:
        path = str(pieces / piece["file"])
        if piece["runtime"] == "onnx":
            session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
            name = session.get_inputs()[0].name
            calls.append(lambda value, session=session, name=name: session.run(None, {name: value})[0])
        else:
            model = interpreter.Interpreter(path, num_threads=1)
            model.allocate_tensors()
            ends = model.get_input_details()[0]["index"], model.get_output_details()[0]["index"]
            calls.append(lambda value, model=model, ends=ends: invoke(model, ends, value))
    return calls


def invoke(model, ends, value):
    model.set_tensor(ends[0], value)
    model.invoke()
    return model.get_tensor(ends[1])


def through(calls, value):
    for call in calls:
        value = call(value)
    return value


def seconds(call):
    begun = time.perf_counter()
    call()
    return time.perf_counter() - begun


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pieces", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    import lowtide

    with tempfile.TemporaryDirectory() as folder:
        pieces = make_pieces(pathlib.Path(folder), options.pieces)
        calls = bare_calls(pieces)
        feed = {"v0": np.random.default_rng(1).uniform(-1, 1, SHAPE).astype(np.float32)}
        with lowtide.Runner(pieces, threads=1) as runner:
            found = runner.run(feed)[f"v{options.pieces}"]
            np.testing.assert_allclose(found, through(calls, feed["v0"]), atol=1e-6)
            ours, bare = [], []
            for _ in range(options.rounds):
                ours.append(seconds(lambda: runner.run(feed)))
                bare.append(seconds(lambda: through(calls, feed["v0"])))
    ours, bare = (statistics.median(times) / len(calls) * 1e6 for times in (ours, bare))
    print(f"{len(calls)} pieces: {ours:.1f} us a piece, bare {bare:.1f} us; Runner's own cost {ours - bare:.1f} us")


if __name__ == "__main__":
    main()
