# SPDX-License-Identifier: Apache-2.0
"""Values that the conversion makes are quantized too: those between the parts of a node, and multiples of ONNX's values."""

import numpy as np
import pytest
from onnx import helper

import lowtide
from tests.python import models

node = helper.make_node
WIDTH, HEADS, LENGTH, CHANNELS = 16, 2, 13, 8
RNG = np.random.default_rng(17)


def matrix(*shape):
    return RNG.normal(size=shape) / np.sqrt(shape[0])


def filters(made, read, size):
    return RNG.normal(size=(made, read, size, size)) / np.sqrt(read * size * size)


TENSORS = {
    **{f"w{name}": matrix(WIDTH, WIDTH) for name in "qkvo"},
    "b": 0.2 * RNG.normal(size=WIDTH),
    "g": RNG.uniform(0.5, 1.5, WIDTH),
    "root": np.array(np.sqrt(WIDTH / HEADS)),
    "first": filters(CHANNELS, 3, 3),
    "less": filters(4, CHANNELS, 1),
    "more": 3 * filters(CHANNELS, 4, 1),
    "last": filters(5, CHANNELS, 1),
    "gamma": RNG.uniform(0.5, 1.5, CHANNELS),
    "beta": 0.1 * RNG.normal(size=CHANNELS),
    "mean": 0.1 * RNG.normal(size=CHANNELS),
    "variance": RNG.uniform(0.5, 1.5, CHANNELS),
}
SHAPES = {"heads": np.array([1, LENGTH, HEADS, WIDTH // HEADS]), "joined": np.array([1, LENGTH, WIDTH])}


def attention():
    nodes = []
    for name in "qkv":
        nodes += [
            node("MatMul", ["x", f"w{name}"], [name + "0"]),
            node("Add", [name + "0", "b"], [name + "1"]),
            node("Reshape", [name + "1", "heads"], [name + "2"]),
            node("Transpose", [name + "2"], [name], perm=[0, 2, 3, 1] if name == "k" else [0, 2, 1, 3]),
        ]
    return [
        *nodes,
        node("MatMul", ["q", "k"], ["s"]),
        node("Div", ["s", "root"], ["a"]),
        node("Softmax", ["a"], ["p"], axis=-1),
        node("MatMul", ["p", "v"], ["o"]),
        node("Transpose", ["o"], ["t"], perm=[0, 2, 1, 3]),
        node("Reshape", ["t", "joined"], ["o2"]),
        node("MatMul", ["o2", "wo"], ["y"]),
    ]


def between_convolutions(*nodes):
    first = [node("Conv", ["x", "first"], ["c"], pads=[1, 1, 1, 1])]
    return [*first, *nodes, node("Conv", ["r", "last"], ["y"])]


SQUEEZE_EXCITE = [
    node("Relu", ["c"], ["c2"]),
    node("GlobalAveragePool", ["c2"], ["pooled"]),
    node("Conv", ["pooled", "less"], ["z1"]),
    node("Relu", ["z1"], ["z2"]),
    node("Conv", ["z2", "more"], ["z3"]),
    node("HardSigmoid", ["z3"], ["z4"], alpha=1 / 6),
    node("Mul", ["c2", "z4"], ["r"]),
]
NORMALIZED = [
    node("Relu", ["c"], ["c2"]),
    node("BatchNormalization", ["c2", "gamma", "beta", "mean", "variance"], ["n"]),
    node("Relu", ["n"], ["r"]),
]
THREE = [node("Relu", ["c"], ["c2"]), node("Tanh", ["c"], ["c3"])]
TOKENS, IMAGE = [1, LENGTH, WIDTH], [1, 3, 8, 6]
# Nodes, the input's shape, the output's shape, and how many operators may stay in floats.
NETS = {
    "scores divided behind the product": (attention(), TOKENS, TOKENS, 0),
    "hard sigmoid": (between_convolutions(*SQUEEZE_EXCITE), IMAGE, [1, 5, 8, 6], 0),
    "normalization between ReLUs": (between_convolutions(*NORMALIZED), IMAGE, [1, 5, 8, 6], 0),
    "sum of three": (between_convolutions(*THREE, node("Sum", ["c", "c2", "c3"], ["r"])), IMAGE, [1, 5, 8, 6], 0),
    "mean of three": (between_convolutions(*THREE, node("Mean", ["c", "c2", "c3"], ["r"])), IMAGE, [1, 5, 8, 6], 0),
}


def converted(folder, nodes, shape, result, **options):
    """The report's part on integers, and decibels."""
    used = {name for one in nodes for name in one.input}
    tensors = {name: of.astype(np.float32) for name, of in TENSORS.items()} | SHAPES
    ports = [models.value("x", "float32", shape)], [models.value("y", "float32", result)]
    model = models.save(folder / "m.onnx", nodes, *ports, {name: of for name, of in tensors.items() if name in used})
    rng = np.random.default_rng(4)
    samples = [{"x": rng.normal(size=shape).astype(np.float32)} for _ in range(8)]
    lowtide.calibrate(model, folder / "r.json", samples=samples, choose="none")
    done = lowtide.convert(model, folder / "m.tflite", quantize="int8", ranges=folder / "r.json", **options)
    found = lowtide.verify(model, done.output, inputs=samples[:3])
    return done.report["integers"], found.outputs[0].difference.snr_db


@pytest.mark.parametrize("name", NETS)
def test_they_are_in_integers(name, tmp_path):
    nodes, shape, result, floats = NETS[name]
    integers, decibels = converted(tmp_path, nodes, shape, result)
    assert len(integers["float_islands"]) == floats
    assert decibels > 28
    if floats == 0:
        converted(tmp_path, nodes, shape, result, require_integer=True, io="int8")


def read_by_layer(integers, kind):
    return [island for island in integers["float_islands"] if island["operator"] == kind]


def test_layers_behind_a_normalization_in_floats(tmp_path):
    """Its gamma and beta stay where they are: what is between them has no range, so the layer would read floats."""
    tokens = [
        node("MatMul", ["x", "wq"], ["h"]),
        node("LayerNormalization", ["h", "g", "b"], ["n"], axis=-1),
        node("MatMul", ["n", "wv"], ["y"]),
    ]
    integers, decibels = converted(tmp_path, tokens, TOKENS, TOKENS)
    assert not read_by_layer(integers, "FULLY_CONNECTED") and decibels > 30
    image = between_convolutions(node("InstanceNormalization", ["c", "gamma", "beta"], ["r"]))
    integers, decibels = converted(tmp_path, image, IMAGE, [1, 5, 8, 6])
    assert not read_by_layer(integers, "CONV_2D") and decibels > 30
