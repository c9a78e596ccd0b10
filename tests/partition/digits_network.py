# SPDX-License-Identifier: Apache-2.0
"""A network of four stages of convolution, normalisation, ReLU and max pooling, trained here by Adam, and its ONNX model."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

# Channels of the four stages and of the last convolution; pools of 2 x 2 with these strides; Tanh behind this stage.
CHANNELS, STRIDES, TANH_BEHIND = (1, 8, 12, 16, 20, 10), (2, 2, 2, 1), 1
SHAPE = (1, 1, 16, 24)  # an image of 8 x 8 whose pixels are there 2 x 3 times
EPSILON = 1e-5


def patches(x):
    """Windows of 3 x 3 with a border of zeros: [n, h, w, c] to [n, h, w, 9 * c]."""
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return windows.transpose(0, 1, 2, 4, 5, 3).reshape(*x.shape[:3], -1)


class Convolution:
    """3 x 3, without a bias: what follows normalises."""

    def __init__(self, inputs, outputs, rng):
        self.of = {"w": rng.normal(size=(9 * inputs, outputs)).astype(np.float32) * np.sqrt(2 / (9 * inputs))}

    def forward(self, x, training):
        self.shape, self.x = x.shape, patches(x)
        return self.x @ self.of["w"]

    def backward(self, back):
        gradients = {"w": self.x.reshape(-1, self.x.shape[-1]).T @ back.reshape(-1, back.shape[-1])}
        n, h, w, c = self.shape
        windows = (back @ self.of["w"].T).reshape(n, h, w, 3, 3, c)
        padded = np.zeros((n, h + 2, w + 2, c), np.float32)
        for y in range(3):
            for x in range(3):
                padded[:, y : y + h, x : x + w] += windows[:, :, :, y, x]
        return padded[:, 1:-1, 1:-1], gradients

    def node(self, name, value, weights):
        weights[f"w{name}"] = self.of["w"].reshape(3, 3, self.shape[-1], -1).transpose(3, 2, 0, 1)
        names = {"name": f"conv{name}", "pads": [1, 1, 1, 1]}
        return helper.make_node("Conv", [value, f"w{name}"], [f"conv{name}"], **names)


class Normalisation:
    """By channel: of the batch in training, of what training has seen afterwards."""

    def __init__(self, channels):
        self.of = {"scale": np.ones(channels, np.float32), "shift": np.zeros(channels, np.float32)}
        self.mean, self.variance = np.zeros(channels, np.float32), np.ones(channels, np.float32)

    def forward(self, x, training):
        mean, variance = self.mean, self.variance
        if training:
            mean, variance = x.mean((0, 1, 2)), x.var((0, 1, 2))
            self.mean, self.variance = 0.9 * self.mean + 0.1 * mean, 0.9 * self.variance + 0.1 * variance
        self.deviation = np.sqrt(variance + EPSILON)
        self.x = (x - mean) / self.deviation
        return self.x * self.of["scale"] + self.of["shift"]

    def backward(self, back):
        gradients = {"scale": (back * self.x).sum((0, 1, 2)), "shift": back.sum((0, 1, 2))}
        count = back.size // back.shape[-1]
        inner = back - gradients["shift"] / count - self.x * (gradients["scale"] / count)
        return inner * self.of["scale"] / self.deviation, gradients

    def node(self, name, value, weights):
        given = {"scale": self.of["scale"], "shift": self.of["shift"], "mean": self.mean, "variance": self.variance}
        weights.update({f"{of}{name}": array for of, array in given.items()})
        inputs = [value, *(f"{of}{name}" for of in given)]
        return helper.make_node("BatchNormalization", inputs, [f"norm{name}"], name=f"norm{name}", epsilon=EPSILON)


class Function:
    """ReLU or Tanh."""

    def __init__(self, function):
        self.of, self.function = {}, function

    def forward(self, x, training):
        self.y = np.maximum(x, 0) if self.function == "Relu" else np.tanh(x)
        return self.y

    def backward(self, back):
        return back * ((self.y > 0) if self.function == "Relu" else 1 - self.y**2), {}

    def node(self, name, value, weights):
        return helper.make_node(self.function, [value], [f"{self.function}{name}"], name=f"{self.function}{name}")


class Pool:
    """The largest of 2 x 2. With stride 1 the last row and column are there twice, so that the size stays."""

    def __init__(self, stride):
        self.of, self.stride = {}, stride

    def windows(self, x):
        if self.stride == 1:
            x = np.pad(x, ((0, 0), (0, 1), (0, 1), (0, 0)), mode="edge")
        h, w = x.shape[1] - 1, x.shape[2] - 1
        step = self.stride
        return np.stack([x[:, i : i + h : step, j : j + w : step] for i in (0, 1) for j in (0, 1)], -1)

    def forward(self, x, training):
        self.shape = x.shape
        windows = self.windows(x)
        self.first = windows.argmax(-1)
        return windows.max(-1)

    def backward(self, back):
        n, h, w, c = self.shape
        out, step = np.zeros((n, h + 1, w + 1, c), np.float32), self.stride
        for place in range(4):
            i, j = divmod(place, 2)
            given = out[:, i : i + step * back.shape[1] : step, j : j + step * back.shape[2] : step]
            given += back * (self.first == place)
        if step == 1:  # what was there twice
            out[:, h - 1] += out[:, h]
            out[:, :, w - 1] += out[:, :, w]
        return out[:, :h, :w], {}

    def node(self, name, value, weights):
        end = 2 - self.stride
        how = {"kernel_shape": [2, 2], "strides": [self.stride] * 2, "pads": [0, 0, end, end]}
        return helper.make_node("MaxPool", [value], [f"pool{name}"], name=f"pool{name}", **how)


class Network:
    def __init__(self, seed=3):
        rng = np.random.default_rng(seed)
        self.layers = []
        for stage, stride in enumerate(STRIDES):
            self.layers += [Convolution(*CHANNELS[stage : stage + 2], rng), Normalisation(CHANNELS[stage + 1])]
            self.layers += [Function("Relu"), Pool(stride)]
            if stage == TANH_BEHIND:
                self.layers.append(Function("Tanh"))
        self.layers.append(Convolution(*CHANNELS[4:], rng))
        self.moments, self.steps = {}, 0

    def scores(self, images, training=False):
        """images: [n, 16, 24, 1] from 0 to 1."""
        x = images
        for layer in self.layers:
            x = layer.forward(x, training)
        return x.mean((1, 2))

    def step(self, images, labels, rate):
        scores = self.scores(images, training=True)
        chance = np.exp(scores - scores.max(1, keepdims=True))
        back = (chance / chance.sum(1, keepdims=True) - np.eye(10, dtype=np.float32)[labels]) / len(images)
        back = np.broadcast_to(back[:, None, None] / 6, (len(images), 2, 3, 10)).astype(np.float32)
        self.steps += 1
        for place, layer in reversed(list(enumerate(self.layers))):
            back, gradients = layer.backward(back)
            for name, gradient in gradients.items():
                mean, square = self.moments.get((place, name), (0, 0))
                mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
                self.moments[place, name] = mean, square
                correction = np.sqrt(1 - 0.999**self.steps) / (1 - 0.9**self.steps)
                layer.of[name] -= (rate * correction * mean / (np.sqrt(square) + 1e-8)).astype(np.float32)

    def train(self, images, labels, epochs):
        rng = np.random.default_rng(2)
        for epoch in range(epochs):
            order = rng.permutation(len(images))
            for batch in np.array_split(order, len(images) // 40):
                self.step(images[batch], labels[batch], 0.01 * (1 - epoch / epochs))

    def save(self, path):
        """Takes an image [1, 1, 16, 24] from 0 to 1, and gives the chances of the ten digits."""
        nodes, weights, value = [], {}, "image"
        for place, layer in enumerate(self.layers):
            nodes.append(layer.node(f"{place}", value, weights))
            value = nodes[-1].output[0]
        nodes += [
            helper.make_node("AveragePool", [value], ["mean"], name="mean", kernel_shape=[2, 3]),
            helper.make_node("Flatten", ["mean"], ["scores"], name="scores"),
            helper.make_node("Softmax", ["scores"], ["chances"], name="chances", axis=1),
        ]
        graph = helper.make_graph(
            nodes,
            "digits",
            [helper.make_tensor_value_info("image", TensorProto.FLOAT, SHAPE)],
            [helper.make_tensor_value_info("chances", TensorProto.FLOAT, [1, 10])],
            [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
        )
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
        return path
