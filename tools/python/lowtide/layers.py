# SPDX-License-Identifier: Apache-2.0
"""Biases that are corrected one layer after the other: by how much the means of each layer's data are off.

Rounded weights move the results of a layer on average, and the layers behind get them. With the layers before a layer
corrected, LiteRT runs the network of integers, and what the mean of each channel of the layer's data is off then is its
shift; `convert --correct layers` takes off the bias what the layer makes of it. All layers at once would not do: each
would correct what the one before has corrected already.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Callable

import numpy as np

from .commands import convert
from .output_path import temporary_folder
from .port import Array
from .ranges import write_ranges
from .runner import Runner
from .samples import Sample
from .tflite_graph import Operator, TfliteGraph, Value

# Means do not need more samples than these, and each layer takes a run of each.
MOST_SAMPLES = 32
_LAYERS = {"CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"}
# Behind the name of a tensor whose channels are scaled (layout/quantize/equalize.h).
_SCALED = "/scaled"


def _has_same_channels(graph: TfliteGraph, operator: Operator) -> bool:
    """Whether an operator's data has the channels of its result."""

    def longer(tensor: int) -> list[int | None]:
        return [extent for extent in graph.values[tensor].tensor.shape if extent != 1]

    if operator.kind == "RESHAPE":
        return longer(operator.inputs[0]) == longer(operator.outputs[0])
    return operator.kind in ("PAD", "TRANSPOSE")


def _read_tensors(path: str, known: Mapping[str, Any]) -> dict[str, Value]:
    """What layers read, in the order in which it is computed: tensors of a .tflite file, by ONNX's names.

    The channels are along the last axis.
    """
    out: dict[str, Value] = {}

    def named(tensor: int) -> str:
        name = graph.values[tensor].name
        return name if name in known else name.removesuffix(_SCALED)

    with TfliteGraph(path) as graph:
        for operator in graph.operators:
            if operator.kind not in _LAYERS:
                continue
            read = tensor = operator.inputs[0]
            while named(tensor) not in known:
                maker = graph.makers.get(tensor)
                if maker is None or not _has_same_channels(graph, maker):
                    break
                tensor = maker.inputs[0]
                if maker.kind == "PAD":
                    read = tensor
            name = named(tensor)
            means = known.get(name, {}).get("channel_mean", [])
            if means and graph.values[read].tensor.shape[-1] == len(means):
                out.setdefault(name, graph.values[read])
    return out


def with_shifts(content: dict[str, Any], shifts: Mapping[str, list[float]]) -> dict[str, Any]:
    """A ranges file with `channel_shift` of tensors."""
    tensors = dict(content["tensors"])
    for name, shift in shifts.items():
        tensors[name] = {**tensors[name], "channel_shift": shift}
    return {**content, "tensors": tensors}


class _First:
    """At most `MOST_SAMPLES` samples, read anew each time: they may be large."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        self._samples = samples

    def __iter__(self) -> Iterator[Sample]:
        return itertools.islice(iter(self._samples), MOST_SAMPLES)


class _Channels:
    """Of a tensor over all samples: the mean and the largest magnitude by channel."""

    def __init__(self) -> None:
        self._sum, self._count, self.most = np.zeros(1), 0, np.zeros(1)

    @property
    def is_empty(self) -> bool:
        """No sample had elements, as where nothing was detected."""
        return self._count == 0

    def add(self, array: Array, value: Value) -> None:
        if array.size == 0:
            return
        floats = array.astype(np.float64).reshape(-1, array.shape[-1])
        if value.quantization is not None:
            scale, zero = value.quantization.over(2)
            floats = (floats - zero) * scale
        self._sum = self._sum + floats.sum(axis=0)
        self._count += len(floats)
        self.most = np.maximum(self.most, np.abs(floats).max(axis=0))

    def mean(self) -> Array:
        return np.asarray(self._sum / self._count)


class _Network:
    """Files of one network with the settings, and their runs."""

    def __init__(self, folder: str, model: str, content: dict[str, Any], settings: dict[str, Any], **runner: Any):
        self._model, self._content, self._settings, self._runner = model, content, settings, runner
        self._ranges, self.tflite = os.path.join(folder, "ranges.json"), os.path.join(folder, "model.tflite")

    def convert(self, shifts: Mapping[str, list[float]], **options: Any) -> None:
        """With corrected biases; shifts may be of some layers only."""
        write_ranges(self._ranges, with_shifts(self._content, shifts))
        correct = "layers" if shifts else "means"
        convert(self._model, self.tflite, ranges=self._ranges, correct=correct, **self._settings, **options)

    def channels(self, samples: Iterable[Sample], tensors: Mapping[str, Value]) -> dict[str, _Channels]:
        """Of the tensors, which have names of ONNX's here."""
        out = {name: _Channels() for name in tensors}
        with Runner(self.tflite, **self._runner) as runner:
            for sample in samples:
                arrays = runner.run(sample, [tensor.name for tensor in tensors.values()])
                for name, tensor in tensors.items():
                    out[name].add(arrays[tensor.name], tensor)
        return out


def _factors(known: Mapping[str, Any], found: _Channels) -> Array:
    """ONNX's values over those of the file of floats, whose channels may be scaled (--equalize channels)."""
    most = np.maximum(np.abs(known["channel_min"]), np.abs(known["channel_max"]))
    return np.asarray(np.divide(most, found.most, out=np.ones_like(most), where=found.most > 0))


def measure(
    model: str,
    content: dict[str, Any],
    settings: dict[str, Any],
    samples: Iterable[Sample],
    *,
    max_rss: int | None,
    threads: int | None,
    progress: Callable[[int, int], None],
) -> dict[str, list[float]]:
    """By how much the means of what layers read are off, each with the layers before it corrected.

    Parameters
    ----------
    content : dict
        A ranges file of the same samples.
    settings : dict
        Options of `convert`: quantize, range and equalize.
    samples : iterable
        It is iterated once for each layer. At most `MOST_SAMPLES` of them are run for each layer.
    progress : callable
        Takes how many layers are done, and of how many.

    Returns
    -------
    dict
        `channel_shift` of tensors, in the units of ONNX's values.
    """
    given = _First(samples)
    known = content["tensors"]
    with temporary_folder("lowtide-calibrate-") as folder:
        network = _Network(folder, model, content, settings, max_rss=max_rss, threads=threads)
        network.convert({}, keep_float="*")
        floats = network.channels(given, _read_tensors(network.tflite, known))
        network.convert({})
        order = [name for name in _read_tensors(network.tflite, known) if name in floats]
        shifts: dict[str, list[float]] = {}
        for done, name in enumerate(order):
            progress(done, len(order))
            network.convert(shifts)
            tensor = _read_tensors(network.tflite, known)[name]
            found = network.channels(given, {name: tensor})[name]
            if found.is_empty or floats[name].is_empty:
                continue
            off = (found.mean() - floats[name].mean()) * _factors(known[name], floats[name])
            shifts[name] = [float(shift) for shift in off]
        progress(len(order), len(order))
    return shifts
