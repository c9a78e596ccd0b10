# SPDX-License-Identifier: Apache-2.0
"""The outputs of an ONNX model and of its .tflite file, over all samples."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from . import small_floats
from .border import Border
from .difference import Difference, Sum
from .matching import stored, unstored
from .port import Array
from .runner import Runner
from .samples import AnySamples
from .tflite_graph import Value
from .tolerances import Tolerances
from .verification_result import TensorResult


class _OutputSum:
    """An output: in its own type, and as real numbers where it is quantized and ONNX's is not. Floats that a DEQUANTIZE gives count in steps too."""

    def __init__(self, value: Value, step: float | None) -> None:
        self._own, self._real = Sum(), Sum()
        self._has_real = False
        self._quantization, self._value, self._step = value.quantization, value, step

    def add(self, expected: Array, got: Array) -> None:
        is_integer = got.dtype.kind in "iu" and self._quantization is not None
        if not is_integer and self._step is None:
            self._own.add(expected.astype(got.dtype) if expected.dtype.kind != "f" else expected, got)
            return
        scale: Any = self._step
        zero: Any = 0.0
        if is_integer and self._quantization is not None:
            scale, zero = self._quantization.over(got.ndim)
        if expected.dtype.kind == "f":
            # Not clipped to the type: what is outside of its range is an error as well.
            self._has_real = True
            real = (got.astype(np.float64) - zero) * scale if is_integer else got
            self._real.add(expected, real.astype(np.float32))
            self._own.add(_levels(expected, scale), _levels(real, scale), scale)
            return
        expected = stored(expected, tuple(range(expected.ndim)), expected.shape, self._value, got.dtype)
        self._own.add(expected, got, scale, zero)

    def result(self) -> Difference:
        own = self._own.result()
        return dataclasses.replace(self._real.result(), steps=own.steps) if self._has_real else own


def _levels(real: Array, scale: Any) -> Array:
    """Real numbers in steps, rounded as QuantizeLinear does it."""
    with np.errstate(invalid="ignore", over="ignore"):
        steps: Array = np.rint(real.astype(np.float64) / scale)
    whole: Array = np.clip(np.nan_to_num(steps), -(2.0**53), 2.0**53).astype(np.int64)
    return whole


def compare_outputs(
    reference: Runner, tested: Runner, samples: AnySamples, border: Border, tolerances: Tolerances
) -> list[TensorResult]:
    """The outputs that both models have."""
    # Those that the TFLite file keeps itself are no outputs of it.
    names = [name for name in reference.outputs if name in tested.outputs]
    sums = {name: _OutputSum(border.value(name), border.step(name)) for name in names}
    types = {}
    for sample in samples:
        expected = reference.run(sample)
        got = tested.run(border.given(sample, tested.inputs))
        for name, total in sums.items():
            array = got[name]
            order = border.order(name, expected[name].shape, array.shape)
            want, have = expected[name], unstored(array, order, expected[name].shape)
            if element := reference.outputs[name].bits_of:
                want, have = small_floats.in_order(want, element), small_floats.in_order(have, element)
            total.add(want, have)
            types[name] = array.dtype.name
    out = []
    for name, total in sums.items():
        result = total.result()
        problem = tolerances.judge(result, types[name], border.is_quantized(name))
        out.append(TensorResult(name, name, types[name], result, problem))
    return out
