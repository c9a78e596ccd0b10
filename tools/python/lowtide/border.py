# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of an ONNX model and of its .tflite file: names, orders of axes, element types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .by_operator import Match
from .errors import Usage
from .matching import border_order, channels_first, channels_last, stored
from .port import Extent, Port, unknown_name
from .samples import Sample
from .tflite_graph import TfliteGraph, Value
from .tflite_header import Signature


class Border:
    """Inputs and outputs of both models: order of axes, element types."""

    def __init__(self, signature: Signature, graph: TfliteGraph, layouts: Mapping[str, str]) -> None:
        self._signature, self._graph, self._layouts = signature, graph, layouts
        names = [name for name, _ in (*signature.inputs, *signature.outputs)]
        for name, layout in layouts.items():
            if name not in names:
                raise unknown_name("input or output", name, names)
            if layout not in ("nhwc", "nchw"):
                raise Usage(f"--layout {name}={layout}: the order must be nhwc or nchw")

    def order(self, name: str, shape: Sequence[int], target: Sequence[Extent]) -> tuple[int, ...]:
        return border_order(name, shape, target, self._layouts.get(name))

    def onnx_shapes(self, names: Iterable[str]) -> dict[str, tuple[int, ...]]:
        """Shapes of inputs in the ONNX model by those of the .tflite file; dynamic extents are 1."""
        shapes = {}
        for name in names:
            stored = tuple(1 if n is None else n for n in self.value(name).tensor.shape)
            layout = self._layouts.get(name)
            if layout is not None and len(stored) >= 3:
                order = channels_first(len(stored)) if layout == "nhwc" else channels_last(len(stored))
                stored = tuple(stored[i] for i in order)
            shapes[name] = stored
        return shapes

    def _index(self, name: str) -> int:
        return next(t.index for n, t in (*self._signature.inputs, *self._signature.outputs) if n == name)

    def value(self, name: str) -> Value:
        return self._graph.values[self._index(name)]

    def step(self, name: str) -> float | None:
        return self._graph.step(self._index(name))

    def is_quantized(self, name: str) -> bool:
        return self._graph.is_quantized(self._index(name))

    def matches(self, shapes: Mapping[str, Sequence[int]]) -> dict[int, Match]:
        out = {}
        for name, tensor in (*self._signature.inputs, *self._signature.outputs):
            if name in shapes:
                out[tensor.index] = Match(tensor.index, name, self.order(name, shapes[name], tensor.shape))
        return out

    def given(self, sample: Sample, ports: Mapping[str, Port]) -> Sample:
        """A sample of the ONNX model as the .tflite file takes it."""
        out = {}
        for name, port in ports.items():
            array = sample[name]
            order = self.order(name, array.shape, port.shape or ())  # which a .tflite file always says
            out[name] = stored(array, order, [array.shape[i] for i in order], self.value(name), port.dtype)
        return out
