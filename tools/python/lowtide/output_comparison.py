# SPDX-License-Identifier: Apache-2.0
"""The outputs of an ONNX model and of its .tflite file, over all samples."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from . import small_floats
from .border import Border
from .difference import Difference, Sum
from .element_types import shifted
from .matching import unstored
from .port import Array, Port
from .runner import Runner
from .samples import AnySamples
from .tolerances import Tolerances
from .verification_result import TensorResult


class _OutputSum:
    """An output: in its own type, and as real numbers where one side has integers with a scale and the other one floats.

    Floats that a DEQUANTIZE gives count in steps too.
    """

    def __init__(self, port: Port, border: Border) -> None:
        self._own, self._real = Sum(), Sum()
        self._has_real = False
        self._port, self._value = port, border.value(port.name)
        self._step, self._grid = border.step(port.name), border.grid(port.name, port.dtype)

    def refuse(self, reason: str) -> None:
        self._own.refuse(reason)

    def add(self, expected: Array, got: Array) -> None:
        """Two arrays of one shape whose element types can stand for each other."""
        if self._port.bits_of:
            self._own.add(
                small_floats.in_order(expected, self._port.bits_of), small_floats.in_order(got, self._port.bits_of)
            )
        elif expected.dtype.kind in "OSU":
            self._own.add_texts(expected, got)
        elif self._grid is not None:
            scale, zero = self._grid
            self._add_real((expected.astype(np.float64) - zero) * scale, got, scale)
        elif got.dtype.kind in "iu" and self._value.quantization is not None:
            scale, zero = self._value.quantization.over(got.ndim)
            if expected.dtype.kind == "f":
                # Not clipped to the type: what is outside of its range is an error as well.
                self._add_real(expected, (got.astype(np.float64) - zero) * scale, scale)
            else:
                self._own.add(shifted(expected, got.dtype.name), got, scale, zero)
        elif expected.dtype.kind == "f" and self._step is not None:
            self._add_real(expected, got, self._step)
        elif expected.dtype.kind in "iu" and expected.dtype != got.dtype:
            self._own.add(shifted(expected, got.dtype.name), got)
        else:
            self._own.add(expected, got)

    def _add_real(self, expected: Array, got: Array, scale: Any) -> None:
        self._has_real = True
        self._real.add(expected, got.astype(np.float32))
        self._own.add(_levels(expected, scale), _levels(got, scale), scale)

    def result(self) -> Difference:
        own = self._own.result()
        is_real = self._has_real and not own.mismatch
        return dataclasses.replace(self._real.result(), steps=own.steps) if is_real else own


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
    sums = {name: _OutputSum(reference.outputs[name], border) for name in names}
    types = {name: tested.outputs[name].dtype.name for name in names}
    for sample in samples:
        expected = reference.run(sample)
        got = tested.run(border.given(sample, tested.inputs))
        for name, total in sums.items():
            shape = expected[name].shape
            if reason := border.unlike(name, shape, got[name].shape):
                total.refuse(reason)
                continue
            total.add(expected[name], unstored(got[name], border.order(name, shape, got[name].shape), shape))
    out = []
    for name, total in sums.items():
        result = total.result()
        problem = tolerances.judge(result, types[name], border.is_quantized(name), border.is_rounded(name))
        out.append(TensorResult(name, name, types[name], result, problem))
    return out
