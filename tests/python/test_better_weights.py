# SPDX-License-Identifier: Apache-2.0
"""convert --quantize: channels that are equalized and biases that are corrected, judged by ONNX Runtime's floats."""

import numpy as np
import pytest
from onnx import helper

import lowtide
from tests.python import models

node = helper.make_node


def weights(rng, *shape):
    return (rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)


def sample(seed, offset=0.0):
    return {"x": (np.random.default_rng(seed).normal(size=(2, 6, 11, 13)) + offset).astype(np.float32)}


def judged(model, tmp_path, offset=0.0, **options):
    """Signal to noise of the output in dB, and the largest mean error of a channel by the output's spread."""
    ranges = tmp_path / "r.json"
    lowtide.calibrate(model, ranges, samples=[sample(i, offset) for i in range(5)])
    done = lowtide.convert(model, tmp_path / "m.tflite", quantize="int8", ranges=ranges, **options)
    assert done.report["integers"]["float_islands"] == []
    with lowtide.Runner(model) as reference, lowtide.Runner(done.output) as tested:
        given = [sample(i, offset) for i in range(50, 58)]
        expected = np.stack([reference.run(of)["y"] for of in given]).astype(np.float64)
        got = np.stack([tested.run(of)["y"] for of in given])
    error = expected - got
    bias = np.abs(error.mean(axis=(0, 1, 3, 4))).max() / expected.std()
    return 10 * np.log10(np.square(expected).sum() / np.square(error).sum()), bias


CHAINS = {
    # name: nodes, weights' shapes, channels between
    "conv": (
        [node("Conv", ["x", "a", "p"], ["m"], pads=[1] * 4), node("Conv", ["m", "b"], ["y"])],
        (8, 6, 3, 3),
        (5, 8, 1, 1),
    ),
    "relu": (
        [
            node("Conv", ["x", "a", "p"], ["n"]),
            node("Relu", ["n"], ["m"]),
            node("Conv", ["m", "b"], ["y"], pads=[2, 1, 0, 1]),
        ],
        (8, 6, 3, 3),
        (5, 8, 3, 3),
    ),
    "depthwise": (
        [
            node("Conv", ["x", "a", "p"], ["n"]),
            node("Relu", ["n"], ["m"]),
            node("Conv", ["m", "b"], ["y"], group=8, pads=[1] * 4),
        ],
        (8, 6, 1, 1),
        (8, 1, 3, 3),
    ),
    "groups": (
        [node("Conv", ["x", "a", "p"], ["m"], group=2), node("Conv", ["m", "b"], ["y"])],
        (8, 3, 3, 3),
        (7, 8, 1, 1),
    ),
    # What does not keep proportions, and a tensor that others read too: nothing is scaled.
    "clip": (
        [
            node("Conv", ["x", "a", "p"], ["n"]),
            node("Clip", ["n", "low", "high"], ["m"]),
            node("Conv", ["m", "b"], ["y"]),
        ],
        (8, 6, 1, 1),
        (5, 8, 1, 1),
    ),
    "two_readers": (
        [
            node("Conv", ["x", "a", "p"], ["m"]),
            node("Conv", ["m", "b"], ["o"]),
            node("Conv", ["m", "c"], ["q"]),
            node("Add", ["o", "q"], ["y"]),
        ],
        (8, 6, 1, 1),
        (5, 8, 1, 1),
    ),
}


def chain(name, path):
    """Channels between the convolutions are up to a thousand times apart; what reads them makes up for it."""
    nodes, first, second = CHAINS[name]
    rng = np.random.default_rng(3)
    spread = np.array([1, 0.002, 3, 0.01, 1.5, 0.05, 0.004, 0.7], np.float32)
    back = spread.reshape(-1, 1, 1, 1) if second[1] == 1 else spread.reshape(1, -1, 1, 1)
    tensors = {
        "a": weights(rng, *first) * spread.reshape(-1, 1, 1, 1),
        "p": rng.normal(size=8).astype(np.float32) * spread,
        "b": weights(rng, *second) / back,
        "c": weights(rng, *second) / back,
        "low": np.float32(0),
        "high": np.float32(0.5),
    }
    used = {i for of in nodes for i in of.input}
    ports = [models.value("x", "float32", [2, 6, 11, 13])], [models.value("y", "float32", None)]
    return models.save(path, nodes, *ports, {k: v for k, v in tensors.items() if k in used})


@pytest.mark.parametrize("name", CHAINS)
def test_channels_between_two_convolutions(name, tmp_path):
    model = chain(name, tmp_path / "m.onnx")
    plain, _ = judged(model, tmp_path, equalize="none")
    better, _ = judged(model, tmp_path)
    print(name, plain, better)
    if name in ("clip", "two_readers"):
        assert better == plain
    else:
        assert better > plain + 8 and better > 28


def test_what_is_equalized_is_the_same_network(tmp_path):
    model = chain("relu", tmp_path / "m.onnx")
    lowtide.calibrate(model, tmp_path / "r.json", samples=[sample(0)])
    done = lowtide.convert(model, tmp_path / "m.tflite", quantize="int8", ranges=tmp_path / "r.json", keep_float="*")
    with lowtide.Runner(model) as reference, lowtide.Runner(done.output) as tested:
        np.testing.assert_allclose(tested.run(sample(9))["y"], reference.run(sample(9))["y"], rtol=1e-4, atol=1e-4)


LAYERS = {
    "conv": ([node("Conv", ["x", "w", "b"], ["y"])], {"w": (7, 6, 3, 3), "b": (7,)}),
    "no_bias": ([node("Conv", ["x", "w"], ["y"], strides=[2, 2])], {"w": (7, 6, 3, 3)}),
    "groups": ([node("Conv", ["x", "w", "b"], ["y"], group=3)], {"w": (9, 2, 3, 3), "b": (9,)}),
    "depthwise": ([node("Conv", ["x", "w", "b"], ["y"], group=6)], {"w": (6, 1, 3, 3), "b": (6,)}),
    "multiplier": ([node("Conv", ["x", "w"], ["y"], group=6)], {"w": (12, 1, 3, 3)}),
}


@pytest.mark.parametrize("name", LAYERS)
def test_biases(name, tmp_path):
    """With one scale for all channels and data far from 0, rounded weights move the results on average."""
    nodes, shapes = LAYERS[name]
    rng = np.random.default_rng(5)
    tensors = {k: weights(rng, *s) if len(s) > 1 else rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
    tensors["w"][0] *= 20  # the others are coarse
    ports = [models.value("x", "float32", [2, 6, 11, 13])], [models.value("y", "float32", None)]
    model = models.save(tmp_path / "m.onnx", nodes, *ports, tensors)
    given = {"offset": 3.0, "range": "minmax", "per_tensor": True}
    _, plain = judged(model, tmp_path, correct="none", **given)
    _, better = judged(model, tmp_path, **given)
    print(name, plain, better)
    assert better < plain / 2 and better < 0.01


def test_biases_of_products(tmp_path):
    rng = np.random.default_rng(6)
    tensors = {"w": weights(rng, 9, 40).T.copy(), "b": rng.normal(size=9).astype(np.float32)}
    tensors["w"][:, 2] *= 30
    ports = [models.value("x", "float32", [64, 40])], [models.value("y", "float32", [64, 9])]
    model = models.save(tmp_path / "m.onnx", [node("Gemm", ["x", "w", "b"], ["y"])], *ports, tensors)
    given = [{"x": (np.random.default_rng(i).normal(size=(64, 40)) + 2).astype(np.float32)} for i in range(6)]
    lowtide.calibrate(model, tmp_path / "r.json", samples=given[:4])
    bias = {}
    for how in ("none", "means"):
        done = lowtide.convert(
            model, tmp_path / "m.tflite", quantize="int8", ranges=tmp_path / "r.json", per_tensor=True, correct=how
        )
        with lowtide.Runner(model) as reference, lowtide.Runner(done.output) as tested:
            error = [reference.run(of)["y"] - tested.run(of)["y"] for of in given[4:]]
        bias[how] = np.abs(np.mean(error, axis=(0, 1)))
    assert bias["means"].max() < bias["none"].max() / 2
