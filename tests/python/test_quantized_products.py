# SPDX-License-Identifier: Apache-2.0
"""convert --quantize: Neg, and Div by constants, are products of integers between operators in integers, and stay what they
are beside floats."""

import numpy as np
import pytest
from onnx import helper

import lowtide
from tests.python import models
from tests.python.test_quantize import noise

node = helper.make_node
SHAPE = [1, 4, 6, 5]
TENSORS = {
    "w": np.random.default_rng(3).normal(size=(4, 4, 3, 3), scale=1 / 6).astype(np.float32),
    "v": np.random.default_rng(4).normal(size=(4, 4, 1, 1), scale=1 / 2).astype(np.float32),
    "number": np.float32(3),
    "list": np.array([0.5, -0.7, 1.2, 0.9], np.float32).reshape(4, 1, 1),
}
OPS = {
    "negated": [node("Neg", ["c"], ["n"])],
    "divided by a list": [node("Relu", ["c"], ["m"]), node("Div", ["m", "list"], ["n"])],
    "both": [node("Relu", ["c"], ["m"]), node("Div", ["m", "list"], ["d"]), node("Neg", ["d"], ["n"])],
}
FIRST = node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1])
LAST = [node("Add", ["n", "x"], ["s"]), node("Conv", ["s", "v"], ["y"])]


def quantized(folder, nodes, form="int8", **options):
    ports = [[models.value(name, "float32", SHAPE)] for name in "xy"]
    model = models.save(folder / "m.onnx", nodes, *ports, TENSORS)
    samples = [{"x": np.random.default_rng(i).normal(size=SHAPE).astype(np.float32)} for i in range(3)]
    lowtide.calibrate(model, folder / "r.json", samples=samples, choose="none")
    done = lowtide.convert(
        model, folder / "m.tflite", quantize=form, ranges=folder / "r.json", correct="none", **options
    )
    return model, done, samples[0]["x"]


def islands(done):
    return [island["operator"] for island in done.report["integers"]["float_islands"]]


@pytest.mark.parametrize("form", ["int8", "int16x8"])
@pytest.mark.parametrize("name", ["negated", "divided by a list", "both"])
def test_between_operators_in_integers(tmp_path, name, form):
    model, done, x = quantized(tmp_path, [FIRST, *OPS[name], *LAST], form)
    assert islands(done) == []
    for kernels in ("xnnpack", "builtin"):
        assert noise(model, done.output, kernels, x) > 30, kernels


@pytest.mark.parametrize("name", ["negated", "both"])
def test_at_the_border_of_a_model_of_integers(tmp_path, name):
    ending = [*OPS[name][:-1], node(OPS[name][-1].op_type, OPS[name][-1].input, ["y"])]
    _, done, _ = quantized(tmp_path, [FIRST, *ending], io="int8", require_integer=True)
    assert islands(done) == []


def test_an_image_divided_by_a_number_in_a_model_of_integers(tmp_path):
    nodes = [
        node("Div", ["x", "number"], ["d"]),
        node("MaxPool", ["d"], ["p"], kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Conv", ["p", "w"], ["e"], pads=[1, 1, 1, 1]),
        node("Add", ["e", "p"], ["y"]),
    ]
    model, done, x = quantized(tmp_path, nodes, require_integer=True)
    assert islands(done) == []
    assert noise(model, done.output, "xnnpack", x) > 30


@pytest.mark.parametrize("after", ["Sin", "Identity"])
def test_what_nothing_else_rounds_stays_float(tmp_path, after):
    """A sine has no integer kernel, and the output is in floats."""
    _, done, _ = quantized(tmp_path, [FIRST, node("Neg", ["c"], ["n"]), node(after, ["n"], ["y"])])
    assert "NEG" in islands(done)


def test_between_functions_in_floats(tmp_path):
    nodes = [FIRST, node("Sin", ["c"], ["m"]), node("Div", ["m", "list"], ["n"]), node("Cos", ["n"], ["y"])]
    _, done, _ = quantized(tmp_path, nodes)
    assert "DIV" in islands(done)
