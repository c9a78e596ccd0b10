# SPDX-License-Identifier: Apache-2.0
"""What numbers of a tensor may be off, and whether they are."""

from __future__ import annotations

import dataclasses
import math
import numbers
from typing import Any

from .difference import Difference
from .errors import Usage

# Integers made from floats by a good calibration are 15 to 30 dB from the floats; below this, one prediction in three changes.
CALIBRATED_SNR = 15.0


@dataclasses.dataclass(frozen=True)
class Tolerances:
    """What a tensor must keep to; None is no bound. A bound that is negative, infinite or NaN is a Usage error.

    Attributes
    ----------
    rtol, atol : float
        Tensors of floats: in each sample, the largest error is at most atol + rtol * (largest magnitude of ONNX Runtime's tensor).
    min_snr : float or None
        Tensors of floats and quantized ones: least signal-to-noise ratio in dB. Where it is given, `rtol`, `atol` and
        `max_steps` bound nothing.
    max_steps : int
        Quantized tensors, floats that a DEQUANTIZE gives, and other 8-bit and 16-bit integers: most steps that an element is off. For
        such floats it is enough to keep to `rtol` and `atol`. Integers of 32 and 64 bits and booleans must be equal.
    min_equal : float or None
        Integers: least share of equal elements. Where it is given, it alone bounds integers without a scale that are computed from
        quantized tensors: classes and places, of which steps say nothing.
    calibrated_snr : float or None
        Tensors that are computed from integers where the ONNX model computes in floats: a signal-to-noise ratio in dB that is enough.
    """

    rtol: float = 1e-3
    atol: float = 1e-5
    min_snr: float | None = None
    max_steps: int = 1
    min_equal: float | None = None
    calibrated_snr: float | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_bound(field.name, getattr(self, field.name))

    def judge(self, difference: Difference, dtype: str, is_quantized: bool, is_rounded: bool = False) -> str:
        """Why a tensor is outside; empty if it is not. `is_rounded`: its numbers depend on those of quantized tensors."""
        if difference.mismatch:
            return difference.mismatch
        if difference.not_finite:
            return f"{difference.not_finite} elements are NaN or infinite on one side only"
        least, steps = self.min_equal, difference.steps
        if least is not None and steps is not None and steps.equal < least:
            unequal = f"{steps.equal:.4%} of the elements equal, less than {least:.4%}"
        else:
            unequal = ""
        if least is not None and steps is not None and is_rounded and not is_quantized:
            return unequal
        return self._judge_errors(difference, dtype, is_quantized) or unequal

    def _judge_errors(self, difference: Difference, dtype: str, is_quantized: bool) -> str:
        is_float = dtype.startswith(("float", "bfloat", "complex"))
        if not is_float and difference.steps is None and difference.elements:
            return f"{dtype} was not compared in steps"  # no bound of floats is one for integers
        if self.min_snr is not None and (is_float or is_quantized):
            return too_noisy(difference, self.min_snr)
        problem = ""
        if difference.steps is not None:
            most = self.max_steps if is_quantized or dtype in ("int8", "uint8", "int16", "uint16") else 0
            if difference.steps.largest > most:
                problem = f"{difference.steps.largest} steps off, more than {most}"
        if is_float and (problem or difference.steps is None):
            floats = self._judge_floats(difference)
            problem = floats and (problem or floats)
        if problem and is_quantized and self.calibrated_snr is not None:
            noise = too_noisy(difference, self.calibrated_snr)
            return noise and f"{problem}; {noise}"
        return problem

    def _judge_floats(self, difference: Difference) -> str:
        # Each sample by its own magnitude: the largest error and the largest share may be of two.
        beyond = [(e - (self.atol + self.rtol * m), e, m) for e, m in difference.extremes]
        over, error, magnitude = max(beyond, default=(0.0, 0.0, 0.0))
        if over <= 0:
            return ""
        share = error / magnitude if magnitude > 0 else math.inf
        return f"largest error {error:.3g}, {share:.2g} of the largest magnitude"


def _check_bound(name: str, value: Any) -> None:
    """Nothing is less than NaN or more than it: as a bound it would let everything pass."""
    if value is None and name in ("min_snr", "min_equal", "calibrated_snr"):
        return
    kind: Any = numbers.Integral if name == "max_steps" else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind):
        words = "an int" if name == "max_steps" else "a number"
        raise TypeError(f"{name} must be {words}, not {type(value).__name__}")
    most = 1.0 if name == "min_equal" else math.inf
    if not (0 <= value <= most and value < math.inf):
        raise Usage(f"{name} is {value}, but must be " + ("from 0 to 1" if most == 1 else "0 or more, and finite"))


def too_noisy(difference: Difference, least: float) -> str:
    return f"signal-to-noise {difference.snr_db:.1f} dB, less than {least:g}" if difference.snr_db < least else ""
