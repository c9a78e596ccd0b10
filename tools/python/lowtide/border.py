# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of an ONNX model and of its .tflite file: names, orders of axes, element types."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .by_operator import Match
from .element_types import is_float, unlike
from .errors import Usage
from .matching import Order, border_order, channels_first, channels_last, other_extents, stored
from .onnx_graph import Graph
from .port import Array, Extent, Port, unknown_name
from .raw_images import RawImage, image_samples, raw_image
from .samples import AnySamples, Sample
from .tflite_graph import TfliteGraph, Value
from .tflite_header import TYPE_NAMES, Signature


class Border:
    """Inputs and outputs of both models: order of axes, element types.

    Parameters
    ----------
    signature : Signature
    graph : TfliteGraph
        The subgraph that the signature is of.
    layouts : mapping of str to str
        "nhwc" or "nchw" for inputs and outputs where the user says it.
    onnx : Graph
        The ONNX model.
    inputs, outputs : mapping of str to Port
        What ONNX Runtime says of them.

    Raises
    ------
    Usage
        If a layout is of no input or output, or if an input has an element type that the ONNX model's cannot be given as.
    """

    def __init__(
        self,
        signature: Signature,
        graph: TfliteGraph,
        layouts: Mapping[str, str],
        onnx: Graph,
        inputs: Mapping[str, Port],
        outputs: Mapping[str, Port],
    ) -> None:
        self._signature, self._graph, self._layouts, self._onnx = signature, graph, layouts, onnx
        names = [name for name, _ in (*signature.inputs, *signature.outputs)]
        for name, layout in layouts.items():
            if name not in names:
                raise unknown_name("input or output", name, names)
            if layout not in ("nhwc", "nchw"):
                raise Usage(f"--layout {name}={layout}: the order must be nhwc or nchw")
        # Of an input and an output of one name, the input.
        self._indices = {name: tensor.index for name, tensor in (*signature.outputs, *signature.inputs)}
        self._images: dict[str, RawImage] = {}
        self._unlike: dict[str, str] = {}
        for name, tensor in signature.inputs:
            image = raw_image(graph, tensor.index, inputs[name], name)
            if image is not None:
                self._images[name] = image
            elif reason := self._unlike_type(inputs[name], tensor.index):
                raise Usage(f"{graph.path}: the input {name!r} is {reason}", file=graph.path, input=name)
        for name, tensor in signature.outputs:
            if name in outputs and (reason := self._unlike_type(outputs[name], tensor.index)):
                self._unlike[name] = reason

    def _unlike_type(self, port: Port, tensor: int) -> str:
        kind = TYPE_NAMES.get(self._graph.values[tensor].tensor.type) or ""
        return unlike(port, self._graph, tensor, self._grid(port.name, port.dtype, kind) is not None)

    def _grid(self, name: str, dtype: np.dtype[Any], kind: str) -> tuple[float, float] | None:
        return self._onnx.grid(name) if dtype.kind in "iu" and is_float(kind) else None

    def unlike(self, name: str, source: Sequence[int], target: Sequence[Extent]) -> str:
        """Why an output cannot be compared: its element type, or its extents. Empty if it can."""
        reason = self._unlike.get(name, "")
        if not reason and border_order(name, source, target, self._layouts.get(name)) is None:
            reason = other_extents(source, target)
        return reason

    def order(self, name: str, source: Sequence[int], target: Sequence[Extent]) -> Order:
        order = border_order(name, source, target, self._layouts.get(name))
        if order is None:
            raise Usage(f"{name!r} is {other_extents(source, target)}", input=name)
        return order

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

    def value(self, name: str) -> Value:
        return self._graph.values[self._indices[name]]

    def step(self, name: str) -> float | None:
        return self._graph.step(self._indices[name])

    def grid(self, name: str, dtype: np.dtype[Any]) -> tuple[float, float] | None:
        """Scale and zero point of the ONNX model's integers where the file has floats in their place (`--io float`)."""
        return self._grid(name, dtype, TYPE_NAMES.get(self.value(name).tensor.type) or "")

    def is_quantized(self, name: str) -> bool:
        return self._graph.is_quantized(self._indices[name])

    def is_rounded(self, name: str) -> bool:
        return self._graph.is_rounded(self._indices[name])

    def matches(self, shapes: Mapping[str, Sequence[int]]) -> dict[int, Match]:
        out = {}
        for name, tensor in (*self._signature.inputs, *self._signature.outputs):
            if name in shapes:
                out[tensor.index] = Match(tensor.index, name, self.order(name, shapes[name], tensor.shape))
        return out

    def samples(self, samples: AnySamples) -> AnySamples:
        """Samples of the ONNX model as both models can be given them: raw images are of whole integers."""

        def order_of(name: str, shape: Sequence[int]) -> Order:
            return self.order(name, shape, self.value(name).tensor.shape)

        return image_samples(samples, self._images, order_of)

    def as_file(self, name: str, array: Array) -> Array:
        """An input in ONNX's order of axes with the element type that the file has, where a scale alone does not say it."""
        if name in self._images:
            order = self.order(name, array.shape, self.value(name).tensor.shape)
            return self._images[name].integers(name, array, order)
        grid = self.grid(name, array.dtype)
        if grid is not None:
            scale, zero = grid
            real: Array = ((array.astype(np.float64) - zero) * scale).astype(np.float32)
            return real
        return array

    def given(self, sample: Sample, ports: Mapping[str, Port]) -> Sample:
        """A sample of the ONNX model as the .tflite file takes it."""
        out = {}
        for name, port in ports.items():
            array = self.as_file(name, sample[name])
            order = self.order(name, array.shape, port.shape or ())  # which a .tflite file always says
            out[name] = stored(array, order, [array.shape[i] for i in order], self.value(name), port.dtype)
        return out
