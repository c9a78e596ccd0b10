# SPDX-License-Identifier: Apache-2.0
"""How near is near enough: one answer against the expected one."""

import dataclasses

import ml_dtypes
import numpy as np


@dataclasses.dataclass(frozen=True)
class RangeTolerance:
    """The error relative to the spread of the expected output; rounding of the output's own type comes on top.

    An output in [1000, 1001] has a spread of 1 but cannot be more precise than float32, hence the
    second term. A constant output is measured against its magnitude.
    """

    relative: float = 1e-4
    steps: int = (
        0  # how far integers may be off: 1 for what integer kernels compute, whose rounding differs from ONNX's
    )

    def allowed(self, expected, epsilon):
        finite = expected[np.isfinite(expected)]
        if finite.size == 0:
            return 0.0, 1.0
        magnitude = float(np.max(np.abs(finite)))
        spread = float(np.max(finite) - np.min(finite)) or magnitude or 1.0
        return self.relative * spread + 4 * epsilon * magnitude, spread


@dataclasses.dataclass(frozen=True)
class ElementTolerance:
    """The node suite's measure: |error| <= atol + rtol * |expected| for each element."""

    rtol: float = 1e-3
    atol: float = 1e-4
    steps: int = 0

    def allowed(self, expected, epsilon):
        del epsilon
        return self.atol + self.rtol * np.abs(expected), 1.0


@dataclasses.dataclass
class Difference:
    """`fault` is None when the answer is right; `error` is the largest absolute error, `relative` that over the range."""

    fault: str | None
    error: float = 0.0
    relative: float = 0.0


def is_float(dtype):
    # ml_dtypes' own types have kind 'V' (or 'f'); numpy's issubdtype does not know them.
    return dtype.kind in "fc" or dtype.name.startswith(("bfloat", "float"))


def is_small_float(dtype):
    """Of 8 or 4 bits: TFLite files have u8 with the same bits in its place, one element a byte."""
    return dtype.name.startswith(("float8", "float4"))


def stored_dtype(dtype):
    """What an input or output of an ONNX type is in the TFLite file."""
    return np.dtype(np.uint8) if is_small_float(dtype) else dtype


def _compare_bits(expected, actual):
    """All NaN are alike."""
    e, a = expected.astype(np.float32), actual.view(expected.dtype).astype(np.float32)
    wrong = (expected.view(np.uint8) != actual) & ~(np.isnan(e) & np.isnan(a))
    if not np.any(wrong):
        return Difference(None)
    where = np.unravel_index(int(np.argmax(wrong)), e.shape)
    return Difference(
        f"{np.count_nonzero(wrong)} of {e.size} elements differ, the first at {[int(i) for i in where]}: "
        f"{a[where]}, expected {e[where]}"
    )


def _epsilon(dtype):
    if dtype == np.float64:  # computed in float32 by every kernel there is
        return float(np.finfo(np.float32).eps)
    return float(ml_dtypes.finfo(dtype).eps)


def compare(expected, actual, tolerance):
    expected, actual = np.asarray(expected), np.asarray(actual)
    if stored_dtype(expected.dtype) != actual.dtype:
        return Difference(f"is {actual.dtype}, expected {stored_dtype(expected.dtype)}")
    if expected.shape != actual.shape:
        return Difference(f"has shape {list(actual.shape)}, expected {list(expected.shape)}")
    if is_small_float(expected.dtype):
        return _compare_bits(expected, actual)
    if not is_float(expected.dtype):
        differs = expected != actual
        if tolerance.steps and expected.dtype.kind in "iu":
            differs = np.abs(expected.astype(np.int64) - actual.astype(np.int64)) > tolerance.steps
        wrong = int(np.count_nonzero(differs))
        if wrong == 0:
            return Difference(None)
        where = np.unravel_index(int(np.argmax(differs)), expected.shape)
        return Difference(
            f"{wrong} of {expected.size} elements differ, the first at {[int(i) for i in where]}: "
            f"{actual[where]}, expected {expected[where]}"
        )
    if expected.dtype.kind == "c":
        expected, actual = (np.stack([a.real, a.imag]) for a in (expected, actual))
    epsilon = _epsilon(expected.dtype)
    e, a = expected.astype(np.float64), actual.astype(np.float64)
    same_kind = (np.isnan(e) == np.isnan(a)) & ((np.isinf(e) | np.isinf(a)) <= (e == a))
    if not np.all(same_kind):
        where = np.unravel_index(int(np.argmin(same_kind)), e.shape)
        return Difference(
            f"NaN or infinity at {[int(i) for i in where]}: {a[where]}, expected {e[where]}", float("inf"), float("inf")
        )
    if e.size == 0:
        return Difference(None)
    with np.errstate(invalid="ignore"):
        gap = np.where(np.isfinite(e), np.abs(a - e), 0.0)
    allowed, scale = tolerance.allowed(e, epsilon)
    allowed = np.where(np.isfinite(e), allowed, 0.0)
    error = float(np.max(gap))
    if np.all(gap <= allowed):
        return Difference(None, error, error / scale)
    where = np.unravel_index(int(np.argmax(gap - allowed)), e.shape)
    return Difference(
        f"off by {gap[where]:.3g} at {[int(i) for i in where]}: {a[where]:.7g}, expected {e[where]:.7g}",
        error,
        error / scale,
    )
