# SPDX-License-Identifier: Apache-2.0
"""A network trained here on scikit-learn's 1,797 labelled digits: what calibration keeps of its accuracy."""

import numpy as np
import pytest
from onnx import helper

import lowtide
from tests.python import models

datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed (tests/requirements.txt)")

TRAINED, CALIBRATED = 1200, 32


def patches(images):
    """3 x 3 windows with a border of zeros: [n, c, h, w] to [n, h, w, c * 9]."""
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    return windows.transpose(0, 2, 3, 1, 4, 5).reshape(*windows.shape[:1], *windows.shape[2:4], -1)


class Cnn:
    """conv 1 -> 8, ReLU, largest of 2 x 2, conv 8 -> 16, ReLU, product 256 -> 10; Adam on the cross entropy."""

    def __init__(self):
        rng = np.random.default_rng(3)
        shapes = {"w1": (9, 8), "b1": (8,), "w2": (72, 16), "b2": (16,), "w3": (256, 10), "b3": (10,)}
        self.of = {name: rng.normal(size=shape) * np.sqrt(2 / shape[0]) for name, shape in shapes.items()}
        self.of |= {name: np.zeros(shapes[name]) for name in ("b1", "b2", "b3")}
        self.moments = {name: (np.zeros(shape), np.zeros(shape)) for name, shape in shapes.items()}
        self.steps = 0

    def gradients(self, images, labels):
        """images: [n, 1, 8, 8] from 0 to 1."""
        of, n = self.of, len(images)
        p1 = patches(images)
        r1 = np.maximum(p1 @ of["w1"] + of["b1"], 0)  # [n, 8, 8, 8]
        blocks = r1.reshape(n, 4, 2, 4, 2, 8).transpose(0, 1, 3, 5, 2, 4).reshape(n, 4, 4, 8, 4)
        first = np.eye(4)[blocks.argmax(-1)]
        p2 = patches((blocks * first).sum(-1).transpose(0, 3, 1, 2))
        r2 = np.maximum(p2 @ of["w2"] + of["b2"], 0)  # [n, 4, 4, 16]
        flat = r2.transpose(0, 3, 1, 2).reshape(n, -1)
        scores = flat @ of["w3"] + of["b3"]
        chance = np.exp(scores - scores.max(1, keepdims=True))
        back = (chance / chance.sum(1, keepdims=True) - np.eye(10)[labels]) / n
        out = {"w3": flat.T @ back, "b3": back.sum(0)}
        back = (back @ of["w3"].T).reshape(n, 16, 4, 4).transpose(0, 2, 3, 1) * (r2 > 0)
        out |= {"w2": p2.reshape(-1, 72).T @ back.reshape(-1, 16), "b2": back.sum((0, 1, 2))}
        windows = (back @ of["w2"].T).reshape(n, 4, 4, 8, 3, 3)
        padded = np.zeros((n, 6, 6, 8))
        for y in range(3):
            for x in range(3):
                padded[:, y : y + 4, x : x + 4] += windows[..., y, x]
        back = (padded[:, 1:5, 1:5, :, None] * first).reshape(n, 4, 4, 8, 2, 2).transpose(0, 1, 4, 2, 5, 3)
        back = back.reshape(n, 8, 8, 8) * (r1 > 0)
        return out | {"w1": p1.reshape(-1, 9).T @ back.reshape(-1, 8), "b1": back.sum((0, 1, 2))}

    def step(self, images, labels):
        self.steps += 1
        for name, gradient in self.gradients(images, labels).items():
            mean, square = self.moments[name]
            mean += 0.1 * (gradient - mean)
            square += 0.001 * (gradient**2 - square)
            correction = np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
            self.of[name] -= 0.004 * correction * mean / (np.sqrt(square) + 1e-8)

    def save(self, path):
        """Takes pixels from 0 to 16: the first convolution divides."""
        of = {name: array.astype(np.float32) for name, array in self.of.items()}
        of["w1"] = (of["w1"] / 16).T.reshape(8, 1, 3, 3)
        of["w2"] = of["w2"].T.reshape(16, 8, 3, 3)
        nodes = [
            helper.make_node("Conv", ["pixels", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c1"], ["r1"]),
            helper.make_node("MaxPool", ["r1"], ["m1"], kernel_shape=[2, 2], strides=[2, 2]),
            helper.make_node("Conv", ["m1", "w2", "b2"], ["c2"], pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["c2"], ["r2"]),
            helper.make_node("Flatten", ["r2"], ["f"]),
            helper.make_node("Gemm", ["f", "w3", "b3"], ["scores"]),
        ]
        ports = [models.value("pixels", "float32", [1, 1, 8, 8])], [models.value("scores", "float32", [1, 10])]
        return models.save(path, nodes, *ports, of)


@pytest.fixture(scope="module")
def digits():
    found = datasets.load_digits()
    order = np.random.default_rng(1).permutation(len(found.images))
    return found.images[order, None].astype(np.float32), found.target[order]


@pytest.fixture(scope="module")
def model(digits, tmp_path_factory):
    images, labels = digits
    cnn, rng = Cnn(), np.random.default_rng(2)
    for _ in range(20):
        order = rng.permutation(TRAINED)
        for batch in np.split(order, TRAINED // 40):
            cnn.step(images[batch].astype(np.float64) / 16, labels[batch])
    return cnn.save(tmp_path_factory.mktemp("digits") / "digits.onnx")


def accuracy(model, digits):
    """On the digits that training did not use."""
    pairs = list(zip(digits[0][TRAINED:], digits[1][TRAINED:], strict=True))
    with lowtide.Runner(model) as runner:
        right = sum(runner.run({"pixels": image[None]})["scores"].argmax() == label for image, label in pairs)
    return right / len(pairs)


def integers(model, folder, samples):
    """The file of 8 bits with the ranges of `samples`; no operator is left in floats."""
    lowtide.calibrate(model, folder / "r.json", samples=[{"pixels": of} for of in samples])
    done = lowtide.convert(model, folder / "m.tflite", quantize="int8", ranges=folder / "r.json", require_integer=True)
    assert done.report["integers"]["float_islands"] == []
    return done.output


def test_calibrated_digits_are_read_as_well_as_with_floats(digits, model, tmp_path):
    floats = accuracy(model, digits)
    calibrated = accuracy(integers(model, tmp_path, digits[0][:CALIBRATED, None]), digits)
    # Without data: numbers from 0 to 1, where the pixels are from 0 to 16.
    noise = np.random.default_rng(4).random((CALIBRATED, 1, 1, 8, 8), np.float32)
    uncalibrated = accuracy(integers(model, tmp_path, noise), digits)
    print(f"accuracy: floats {floats:.1%}, calibrated {calibrated:.1%}, uncalibrated {uncalibrated:.1%}")
    assert floats > 0.96
    assert calibrated >= floats - 0.01
    assert uncalibrated < calibrated - 0.1
