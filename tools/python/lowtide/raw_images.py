# SPDX-License-Identifier: Apache-2.0
"""Inputs that take raw images: `convert --input-uint8` made integers from 0 to 255 of them, and (x - mean) / std is in the .tflite file.

The ONNX model accepts the floats that result. So samples are made of integers: what ONNX Runtime is given is (q - mean) / std exactly, and
the .tflite file gets q. Mean and std are read from the file's own operators, CAST, SUB and DIV, up to the tensor NAME/normalized.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from .errors import Usage
from .matching import Order
from .port import Array, Port
from .random_samples import RandomSamples
from .samples import AnySamples, ChangedSamples, Sample
from .tflite_graph import TfliteGraph
from .tflite_header import TYPE_NAMES

# A sample that a user has normalized in another order of rounding is so near to the integer, in steps.
_NEAR = 0.01


@dataclasses.dataclass(frozen=True)
class RawImage:
    """(q - mean) / std; `mean` and `std` have one element, or one for each index of `axis` of the tensor as it is stored.

    If nothing reads the input (`is_read` is False), the file has neither, and any integers will do.
    """

    mean: Array
    std: Array
    axis: int
    is_read: bool = True

    def _over(self, numbers: Array, order: Order) -> Array:
        shape = [1] * len(order)
        if numbers.size > 1:
            shape[order[self.axis]] = numbers.size
        return numbers.reshape(shape)

    def floats(self, integers: Array, order: Order, dtype: np.dtype[np.generic]) -> Array:
        """What the file's operators compute of integers, in ONNX's order of axes; `order` has the tensor's axes in ONNX's."""
        off = integers.astype(np.float32) - self._over(self.mean, order)
        floats: Array = (off / self._over(self.std, order)).astype(dtype)
        return floats

    def integers(self, name: str, floats: Array, order: Order) -> Array:
        """The integers that floats are made of.

        Raises
        ------
        Usage
            If they are made of none.
        """
        if not self.is_read:
            return np.zeros(floats.shape, np.uint8)
        mean, std = (self._over(numbers, order).astype(np.float64) for numbers in (self.mean, self.std))
        exact = floats.astype(np.float64) * std + mean
        with np.errstate(invalid="ignore"):
            whole = np.rint(exact)
            # Floats of 16 bits have fewer digits than a step of a large image.
            near = np.maximum(_NEAR, np.abs(floats) * np.abs(std) * float(np.finfo(floats.dtype).eps))
            fits = (np.abs(exact - whole) <= near) & (whole >= 0) & (whole <= 255)
        if not np.all(fits):
            raise Usage(
                f"input {name!r} of the TFLite file accepts integers q from 0 to 255 (convert --input-uint8); a sample has floats "
                "that are not (q - mean) / std of such an integer",
                input=name,
            )
        return whole.astype(np.uint8)


def raw_image(tflite: TfliteGraph, tensor: int, port: Port, name: str) -> RawImage | None:
    """What stands between an input of integers and ONNX's floats; None if the input is no raw image.

    Raises
    ------
    Usage
        If the input is one by its type, but what it is normalized with is not in the file.
    """
    value = tflite.values[tensor]
    is_raw = TYPE_NAMES.get(value.tensor.type) == "uint8" and value.quantization is None
    if not is_raw or port.dtype.name not in ("float32", "float16"):
        return None
    found = _chain(tflite, tensor, f"{name}/normalized")
    if found is None:
        raise Usage(
            f"{tflite.path}: the input {name!r} is uint8 without a scale, and {port.dtype.name} in the ONNX model; the file does not "
            "have the operators that normalize it, as convert --input-uint8 writes them",
            file=tflite.path,
            input=name,
        )
    return found


def _chain(tflite: TfliteGraph, tensor: int, last: str) -> RawImage | None:
    rank = len(tflite.values[tensor].tensor.shape)
    axes = list(range(rank))  # of the input, in the order in which the tensor in question has them
    numbers = {"SUB": np.zeros(1, np.float32), "DIV": np.ones(1, np.float32)}
    axis, done, first = 0, "", tensor
    while tflite.values[tensor].name != last:
        users = [op for op in tflite.operators if tensor in op.inputs]
        if not users and tensor == first:
            return RawImage(numbers["SUB"], numbers["DIV"], axis, is_read=False)
        if len(users) != 1 or len(users[0].outputs) != 1:
            return None
        op = users[0]
        if op.kind == "TRANSPOSE":
            order = tflite.numbers(op.inputs[1])
            if order is None or sorted(order.reshape(-1).tolist()) != list(range(rank)):
                return None
            axes = [axes[int(i)] for i in order.reshape(-1)]
        elif op.kind in ("SUB", "DIV") and op.inputs[0] == tensor and done in ("", "SUB") and op.kind != done:
            constant = tflite.numbers(op.inputs[1])
            if constant is None or constant.dtype != np.float32 or constant.ndim > rank:
                return None
            wide = [rank - constant.ndim + i for i, n in enumerate(constant.shape) if n != 1]
            if len(wide) > 1 or constant.size == 0 or not np.all(np.isfinite(constant)):
                return None
            if wide:
                axis = axes[wide[0]]
            numbers[op.kind], done = constant.reshape(-1), op.kind
        elif op.kind != "CAST" or done:
            return None
        tensor = op.outputs[0]
        if op.activation:
            break  # the model's first node is fused into this operator, whose result has that node's name
    if np.any(numbers["DIV"] == 0):
        return None
    return RawImage(numbers["SUB"], numbers["DIV"], axis)


def image_samples(
    samples: AnySamples, images: Mapping[str, RawImage], order_of: Callable[[str, Sequence[int]], Order]
) -> AnySamples:
    """Samples whose raw images are of whole integers: random ones become such, given ones must be such if anything reads them.

    Parameters
    ----------
    samples : samples
        Of the ONNX model; random numbers from 0 to 1 stand for 0 to 255.
    images : mapping of str to RawImage
    order_of : callable
        From an input's name and the shape of an array to the order in which the tensor has its axes.
    """
    if not images:
        return samples
    is_random = isinstance(samples, RandomSamples)

    def change(sample: Sample) -> Sample:
        out = dict(sample)
        for name, image in images.items():
            if not image.is_read:
                continue
            given = sample[name]
            order = order_of(name, given.shape)
            if is_random:
                whole: Array = np.clip(np.floor(given.astype(np.float64) * 256), 0, 255).astype(np.uint8)
            else:
                whole = image.integers(name, given, order)
            out[name] = image.floats(whole, order, given.dtype)
        return out

    return ChangedSamples(samples, change)
