# SPDX-License-Identifier: Apache-2.0
"""What verify found: of each tensor, and of the whole."""

from __future__ import annotations

import dataclasses
from typing import Any

from .difference import Difference


@dataclasses.dataclass(frozen=True)
class TensorResult:
    """An output or an inner tensor over all samples.

    Attributes
    ----------
    name : str
        Its name in the .tflite file.
    value : str
        The ONNX value that it was compared with.
    dtype : str
        Its element type in the .tflite file.
    difference : Difference
    problem : str
        Why it is outside of the tolerances; empty if it is not.
    operators : str
        With by_op: the builtins that computed it.
    """

    name: str
    value: str
    dtype: str
    difference: Difference
    problem: str
    operators: str = ""

    def values(self) -> dict[str, Any]:
        """For JSON."""
        out = {
            "name": self.name,
            "value": self.value,
            "dtype": self.dtype,
            **self.difference.values(),
            "problem": self.problem,
        }
        if self.operators:
            out["operators"] = self.operators
        return out


@dataclasses.dataclass(frozen=True)
class Verification:
    """What `verify` found.

    Attributes
    ----------
    passed : bool
        Whether everything that was compared is within the tolerances.
    samples : int
    onnx, tflite : str
        How the models were run.
    outputs : list of TensorResult
    tensors : list of TensorResult
        With by_tensor and by_op, in the order in which the .tflite file computes them.
    uncompared : int
        With by_tensor and by_op: tensors that are no value of the ONNX model.
    first_difference : TensorResult or None
        The first of `tensors`, or else of `outputs`, that is outside of the tolerances. By operator, outputs
        that one of them gives are not judged: single steps of early operators grow on the way.
    spread : bool
        Outputs are more steps off than the tolerance, and the operators, judged one by one, are not: rounding that spreads.
    """

    passed: bool
    samples: int
    onnx: str
    tflite: str
    outputs: list[TensorResult]
    tensors: list[TensorResult]
    uncompared: int
    first_difference: TensorResult | None
    spread: bool = False

    def integers(self) -> dict[str, Any] | None:
        """All integer tensors together: how many, of how many elements, their shares and the most steps."""
        found = [tensor.difference for tensor in self.tensors if tensor.difference.steps is not None]
        elements = sum(difference.elements for difference in found)
        if elements == 0:
            return None
        steps = [
            (difference.elements / elements, difference.steps) for difference in found if difference.steps is not None
        ]
        return {
            "tensors": len(found),
            "elements": elements,
            "equal": sum(weight * each.equal for weight, each in steps),
            "within_1": sum(weight * each.within_1 for weight, each in steps),
            "within_2": sum(weight * each.within_2 for weight, each in steps),
            "largest": max(each.largest for _, each in steps),
        }

    def values(self) -> dict[str, Any]:
        """For JSON: infinite numbers are None."""
        first = self.first_difference
        return {
            "passed": self.passed,
            "samples": self.samples,
            "onnx": self.onnx,
            "tflite": self.tflite,
            "outputs": [tensor.values() for tensor in self.outputs],
            "tensors": [tensor.values() for tensor in self.tensors],
            "integers": self.integers(),
            "uncompared": self.uncompared,
            "first_difference": None if first is None else first.name,
            "spread": self.spread,
        }
