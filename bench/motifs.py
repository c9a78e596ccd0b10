#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Finds what takes a conversion more than linear time: random motifs of nodes, repeated, then four times as often.

    python -m bench.motifs [--seeds 0-199] [--repeat 1500] [--above 2] [--folder DIR]
    python -m bench.motifs --seeds 65 --repeat 4000 --keep model.onnx

A motif is one to three operators as exporters write them (OPERATORS). Its copies stand one behind the other, beside each
other before one Concat, or as the steps of an unrolled loop over slices of the input; each may also use values from far
before. Printed are the motifs for which the CPU seconds of a node grow by more than the factor `--above`, those that are not
converted, and a last line with their numbers. The program is $LOWTIDE, or the one of the release build.
"""

import argparse
import math
import os
import pathlib
import random
import resource
import subprocess
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[1]
LOWTIDE = pathlib.Path(os.environ.get("LOWTIDE", ROOT / "build/release/lowtide"))
SHAPE = [2, 6, 4, 8]
TIMES = 4
SECONDS = 300  # of CPU for one conversion
LEAST = 0.02  # seconds: what is below is the start of the program
OPTIONS = [[], [], ["--for", "gpu"], ["--layout", "x=nhwc"]]


class Writer:
    """A graph that grows by nodes; equal constants are one initializer."""

    def __init__(self, seed):
        self.nodes, self.constants = [], {}
        self.random, self.numbers = random.Random(seed), np.random.default_rng(seed)

    def __call__(self, kind, *inputs, outputs=1, **attributes):
        names = [f"{kind}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attributes))
        return names[0] if outputs == 1 else names

    def constant(self, array):
        array = np.asarray(array)
        key = (array.dtype.str, array.shape, array.tobytes())
        return self.constants.setdefault(key, (f"constant_{len(self.constants)}", array))[0]

    def ints(self, *values):
        return self.constant(np.array(values, np.int64))

    def number(self, value):
        return self.constant(np.float32(value))

    def weight(self, *shape):
        return self.constant(self.numbers.standard_normal(shape, np.float32))

    def reshape(self, value, *shape):
        return self("Reshape", value, self.ints(*shape))

    def model(self, shape, outputs):
        graph = helper.make_graph(
            self.nodes,
            "motifs",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
            [numpy_helper.from_array(array, name) for name, array in self.constants.values()],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


OPERATORS = {}


def operator(function):
    """A function of the writer, a value of SHAPE, and the values before it (the last one first); the result has SHAPE."""
    OPERATORS[function.__name__] = function
    return function


for kind in ("Relu", "Sigmoid", "Erf"):
    OPERATORS[kind.lower()] = lambda g, x, before, kind=kind: g(kind, x)


@operator
def add_channels(g, x, before):
    return g("Add", x, g.weight(1, 6, 1, 1))


@operator
def multiply_last(g, x, before):
    return g("Mul", x, g.weight(8))


@operator
def scale(g, x, before):
    return g("Mul", x, g.number(1.5))


@operator
def residual(g, x, before):
    return g("Add", x, before[min(len(before) - 1, g.random.choice([1, 2, 5]))])


@operator
def first_value(g, x, before):
    return g("Mul", x, before[-1])


@operator
def channels_last(g, x, before):
    y = g(g.random.choice(["Sigmoid", "Relu", "Tanh"]), g("Transpose", x, perm=[0, 2, 3, 1]))
    return g("Transpose", y, perm=[0, 3, 1, 2])


@operator
def swapped_axes(g, x, before):
    y = g("Add", g("Transpose", x, perm=[0, 1, 3, 2]), g.weight(4))
    return g("Transpose", y, perm=[0, 1, 3, 2])


@operator
def merged_axes(g, x, before):
    return g.reshape(g(g.random.choice(["Sigmoid", "Relu"]), g.reshape(x, 12, 32)), *SHAPE)


@operator
def merged_but_last(g, x, before):
    return g.reshape(g("Mul", g.reshape(x, 2, 24, 8), g.weight(8)), *SHAPE)


@operator
def merged_sum(g, x, before):
    other = g.reshape(g("Relu", before[0]), 2, 24, 8)
    return g.reshape(g("Add", g.reshape(x, 2, 24, 8), other), *SHAPE)


@operator
def five_axes(g, x, before):
    y = g("Mul", g.reshape(x, 2, 3, 2, 4, 8), g.reshape(before[0], 2, 3, 2, 4, 8))
    return g.reshape(y, *SHAPE)


@operator
def windows(g, x, before):
    y = g("Transpose", g.reshape(x, 2, 6, 2, 2, 4, 2), perm=[0, 2, 4, 3, 5, 1])
    y = g("Transpose", g("Softmax", y, axis=-1), perm=[0, 5, 1, 3, 2, 4])
    return g.reshape(y, *SHAPE)


@operator
def convolution(g, x, before):
    size = g.random.choice([1, 3])
    return g("Conv", x, g.weight(6, 6, size, size), g.weight(6), pads=[size // 2] * 4)


@operator
def batch_normalization(g, x, before):
    return g("BatchNormalization", x, *(g.constant(g.numbers.uniform(0.5, 1, 6).astype(np.float32)) for _ in range(4)))


@operator
def product(g, x, before):
    return g("MatMul", x, g.weight(8, 8))


@operator
def attention(g, x, before):
    scores = g("MatMul", x, g("Transpose", x, perm=[0, 1, 3, 2]))
    return g("MatMul", g("Softmax", scores, axis=-1), x)


@operator
def layer_normalization(g, x, before):
    centred = g("Sub", x, g("ReduceMean", x, axes=[-1]))
    variance = g("ReduceMean", g("Mul", centred, centred), axes=[-1])
    return g("Div", centred, g("Sqrt", g("Add", variance, g.number(1e-5))))


@operator
def group_normalization(g, x, before):
    ones, zeros = g.constant(np.ones(3, np.float32)), g.constant(np.zeros(3, np.float32))
    y = g.reshape(g("InstanceNormalization", g.reshape(x, 2, 3, -1), ones, zeros), *SHAPE)
    return g("Add", g("Mul", y, g.weight(6, 1, 1)), g.weight(6, 1, 1))


@operator
def softmax(g, x, before):
    return g("Softmax", x, axis=g.random.choice([1, 3]))


@operator
def padded_and_cut(g, x, before):
    y = g("Pad", x, g.ints(0, 0, 1, 1, 0, 0, 1, 1))
    return g("Slice", y, g.ints(1, 1), g.ints(5, 9), g.ints(2, 3))


@operator
def halves(g, x, before):
    axis = g.random.choice([1, 3])
    a, b = g("Split", x, outputs=2, axis=axis)
    return g("Concat", b, a, axis=axis)


@operator
def rotated(g, x, before):
    a = g("Slice", x, g.ints(0), g.ints(3), g.ints(3))
    b = g("Slice", x, g.ints(3), g.ints(8), g.ints(3))
    return g("Concat", g("Neg", b), a, axis=3)


@operator
def gathered(g, x, before):
    return g("Gather", x, g.ints(3, 1, 0, 2), axis=2)


@operator
def one_channel(g, x, before):
    a = g("Gather", x, g.constant(np.int64(1)), axis=1)
    return g("Add", x, g("Unsqueeze", g("Relu", a), g.ints(1)))


@operator
def reversed_rows(g, x, before):
    return g("Slice", x, g.ints(-1), g.ints(-100), g.ints(2), g.ints(-1))


@operator
def selected(g, x, before):
    return g("Where", g("Greater", x, g.number(0)), x, g.number(0.1))


@operator
def clipped(g, x, before):
    return g("Clip", x, g.number(0), g.number(6))


@operator
def swish(g, x, before):
    return g("Mul", x, g("Sigmoid", x))


@operator
def gelu(g, x, before):
    y = g("Add", g("Erf", g("Div", x, g.number(1.41421356))), g.number(1))
    return g("Mul", g("Mul", x, y), g.number(0.5))


@operator
def quantized(g, x, before):
    grid = g.number(0.05), g.constant(np.int8(3))
    return g("DequantizeLinear", g("QuantizeLinear", x, *grid), *grid)


@operator
def truncated(g, x, before):
    return g("Cast", g("Cast", x, to=TensorProto.INT32), to=TensorProto.FLOAT)


@operator
def own_shape(g, x, before):
    return g("Reshape", g("Relu", x), g("Shape", x))


@operator
def squeeze_and_excite(g, x, before):
    return g("Mul", x, g("Sigmoid", g("Conv", g("GlobalAveragePool", x), g.weight(6, 6, 1, 1))))


@operator
def shuffled(g, x, before):
    y = g("DepthToSpace", g("Conv", x, g.weight(24, 6, 1, 1)), blocksize=2)
    return g("MaxPool", y, kernel_shape=[2, 2], strides=[2, 2])


@operator
def resized(g, x, before):
    y = g("Resize", x, "", g.constant(np.array([1, 1, 2, 2], np.float32)), mode="nearest")
    return g("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2])


@operator
def expanded(g, x, before):
    return g("Add", x, g("Expand", g("ReduceMax", x, axes=[1]), g.ints(*SHAPE)))


@operator
def recurrent(g, x, before):
    y = g.reshape(x, 12, 4, 8)
    y, *_ = g("LSTM", y, g.weight(1, 32, 8), g.weight(1, 32, 8), outputs=3, hidden_size=8)
    return g.reshape(y, *SHAPE)


@operator
def cumulative(g, x, before):
    return g("CumSum", x, g.constant(np.int64(2)))


@operator
def scattered(g, x, before):
    return g("ScatterND", x, g.ints([0, 1], [1, 2]), g.weight(2, 4, 8))


# These write extents into the model, so the batch must be known.
FIXED = {
    *("merged_axes", "merged_but_last", "merged_sum", "five_axes", "windows", "expanded", "group_normalization"),
    *("recurrent", "scattered"),
}


def motif_of(seed):
    """Names of operators, how its copies stand, and whether the batch is open."""
    choice = random.Random(seed)
    names = choice.choices(sorted(OPERATORS), k=choice.choice([1, 1, 2, 2, 3]))
    form = choice.choice(["chain", "chain", "branches", "steps"])
    return names, form, choice.random() < 0.2 and not FIXED.intersection(names)


def build(names, form, repeat, is_open=False, seed=0):
    """A model of `repeat` copies of a motif."""
    g = Writer(seed)
    shape, ends = ["batch" if is_open else SHAPE[0], *SHAPE[1:]], []
    value, before = "x", []
    for i in range(repeat):
        if form == "branches":
            value, before = g("Add", "x", g.number(i)), []
        elif form == "steps":
            step = g("Slice", "x", g.ints(6 * i), g.ints(6 * i + 6), g.ints(1))
            value = g("Add", step, value) if i else step
        for name in names:
            before.insert(0, value)
            value = OPERATORS[name](g, value, before)
            del before[8:-1]  # the last few, and the first
        ends.append(value)
    if form == "steps":
        shape[1] = 6 * repeat
    return g.model(shape, [value if form == "chain" else g("Concat", *ends, axis=1)])


def cpu_seconds(path, options):
    """Of a conversion of which nothing is written, and what it says if it fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [LOWTIDE, "convert", path, "--dry-run", "--quiet", "--max-rss", "2G", *options]
    done = subprocess.run(["prlimit", f"--cpu={SECONDS}", *command], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (
        after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime,
        done.stderr.strip() if done.returncode else "",
    )


def growth(seed, repeat, folder):
    """By how much a node of TIMES as many copies takes longer (infinite: it was not converted), and a line on it."""
    options, seconds, nodes = random.Random(-seed).choice(OPTIONS), [], []
    names, form, is_open = motif_of(seed)
    for count in (repeat, TIMES * repeat):
        model = build(names, form, count, is_open, seed)
        path = folder / "motif.onnx"
        onnx.save(model, path)
        took, error = cpu_seconds(path, options)
        if error:
            return math.inf, f"{seed}: {', '.join(names)} {' '.join(options)}: {error.splitlines()[0][:300]}"
        seconds.append(took)
        nodes.append(len(model.graph.node))
    factor = seconds[1] / max(seconds[0], LEAST) / (nodes[1] / nodes[0])
    times = " and ".join(f"{took:.2f} s for {count:,}" for took, count in zip(seconds, nodes, strict=True))
    words = f"{form}{' of an open batch' if is_open else ''}: {', '.join(names)} {' '.join(options)}"
    return factor, f"{seed}: {factor:.1f} ({times} nodes) {words}".rstrip()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-199", metavar="FIRST-LAST")
    parser.add_argument("--repeat", type=int, default=1500, metavar="N")
    parser.add_argument("--above", type=float, default=2, metavar="FACTOR")
    parser.add_argument("--folder", type=pathlib.Path, metavar="DIR", help="for the models (default: a temporary one)")
    parser.add_argument("--keep", metavar="FILE", help="write the model of the first seed, and convert nothing")
    arguments = parser.parse_args()
    first, _, last = arguments.seeds.partition("-")
    if arguments.keep:
        names, form, is_open = motif_of(int(first))
        model = build(names, form, arguments.repeat, is_open, int(first))
        onnx.save(model, arguments.keep)
        print(f"{arguments.keep}: {len(model.graph.node)} nodes, {form} of {', '.join(names)}")
        return
    seeds, factors = range(int(first), int(last or first) + 1), []
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        for seed in seeds:
            factor, line = growth(seed, arguments.repeat, pathlib.Path(folder))
            factors.append(factor)
            if factor > arguments.above:
                print(line, flush=True)
    refused = factors.count(math.inf)
    grown = sum(arguments.above < factor < math.inf for factor in factors)
    print(f"{len(factors)} motifs tried, {refused} not converted, {grown} grow by more than {arguments.above:g}")


if __name__ == "__main__":
    main()
