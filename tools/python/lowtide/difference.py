# SPDX-License-Identifier: Apache-2.0
"""How far two arrays are apart, summed over samples in memory that does not depend on their number."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from .port import Array

_BLOCK = 1 << 18  # elements that are compared at once: their float64 copies take 2 MiB each


@dataclasses.dataclass(frozen=True)
class Steps:
    """Integers: how many steps of the type they are apart.

    Attributes
    ----------
    equal, within_1, within_2 : float
        Share of the elements, 0 to 1.
    largest : int
        Most steps that an element is off.
    """

    equal: float
    within_1: float
    within_2: float
    largest: int


@dataclasses.dataclass(frozen=True)
class Difference:
    """One tensor of both models, over all samples.

    Attributes
    ----------
    elements : int
        How many were compared.
    max_abs, mean_abs : float
        Absolute error. Infinite if one side is NaN or infinite where the other is not.
    max_rel, mean_rel : float
        Error as a share of the largest magnitude that ONNX Runtime's tensor has in that sample.
    snr_db : float
        ONNX Runtime's values squared, over the errors squared, in decibels. Infinite if there are no errors.
    not_finite : int
        Elements where one side is NaN or infinite and the other is something else.
    steps : Steps or None
        For integer types.
    argmax : float or None
        How often the largest element is at the same place: along the last axis, for rank 4 and more along axis 1
        of ONNX's order. None where there is nothing to choose from.
    mismatch : str
        Why there is nothing to compare: another element type, or another number of elements. Empty if there is; else all
        errors are infinite.
    extremes : tuple of (float, float)
        The largest error of a sample and the largest magnitude in it, of each sample, without those for which another
        sample has a larger error and a smaller magnitude: these can never be the ones that exceed a tolerance.
    """

    elements: int
    max_abs: float
    mean_abs: float
    max_rel: float
    mean_rel: float
    snr_db: float
    not_finite: int
    steps: Steps | None
    argmax: float | None
    mismatch: str
    extremes: tuple[tuple[float, float], ...]

    def values(self) -> dict[str, Any]:
        """For JSON, which has no infinity: None there. Without what `problem` says."""
        out = dataclasses.asdict(self)
        del out["mismatch"], out["extremes"]
        return {
            name: None if isinstance(number, float) and not math.isfinite(number) else number
            for name, number in out.items()
        }


class Sum:
    """Adds up the differences of samples; `arrays` counts them."""

    def __init__(self) -> None:
        self.arrays = 0
        self._elements = self._not_finite = 0
        self._max_abs = self._max_rel = 0.0
        self._sum_abs = self._sum_rel = 0.0
        self._signal = self._noise = np.longdouble(0)
        self._counts = [0, 0, 0]
        self._largest = 0
        self._integers = False
        self._same, self._choices = 0, 0
        self._mismatch = ""
        self._extremes: list[tuple[float, float]] = []

    def add_texts(self, expected: Array, got: Array) -> None:
        """Compares two arrays of strings, of the same shape: what is not equal is one step off."""
        unequal = np.asarray(expected != got).astype(np.int64)
        self.add(np.zeros_like(unequal), unequal)

    def refuse(self, reason: str) -> None:
        """A sample in which there is nothing to compare, and why."""
        self.arrays += 1
        self._mismatch = self._mismatch or reason

    def add(self, expected: Array, got: Array, scale: Array | float = 1.0, zero: Array | float = 0.0) -> None:
        """Compares two arrays of the same shape.

        Both floats, or both integers of one kind: `scale` and `zero` (broadcast over the array) give the real value of
        an integer, scale * (q - zero).
        """
        if expected.shape != got.shape:
            raise ValueError(f"{expected.shape} and {got.shape}")
        self.arrays += 1
        self._integers = self._integers or expected.dtype.kind in "iub"
        self._add_argmax(expected, got)
        whole = np.isscalar(scale) and np.isscalar(zero)
        expected, got = expected.reshape(-1), got.reshape(-1)
        if not whole:
            scale = np.broadcast_to(scale, expected.shape).reshape(-1)
            zero = np.broadcast_to(zero, expected.shape).reshape(-1)
        largest, errors, maximum = 0.0, 0.0, 0.0
        for begin in range(0, expected.size, _BLOCK):
            part = slice(begin, begin + _BLOCK)
            s, z = (scale, zero) if whole else (scale[part], zero[part])  # type: ignore[index]
            magnitude, total, most = self._add_block(expected[part], got[part], s, z)
            largest, errors, maximum = max(largest, magnitude), errors + total, max(maximum, most)
        self._elements += expected.size
        self._max_abs = max(self._max_abs, maximum)
        self._add_extreme(maximum, largest)
        self._sum_abs += errors
        if maximum > 0:
            self._max_rel = max(self._max_rel, maximum / largest if largest > 0 else math.inf)
            self._sum_rel += errors / largest if largest > 0 else math.inf

    @np.errstate(invalid="ignore", over="ignore")
    def _add_block(self, expected: Array, got: Array, scale: Any, zero: Any) -> tuple[float, float, float]:
        """Largest magnitude, sum of errors, largest error."""
        if self._integers:
            steps = _distance(expected, got)
            for i in range(3):
                self._counts[i] += int(np.count_nonzero(steps <= i))
            self._largest = max(self._largest, int(steps.max(initial=0)))
            reference = (expected.astype(np.float64) - zero) * np.asarray(scale, np.float64)
            error = steps * np.asarray(scale, np.float64)
        else:
            wide = np.complex128 if expected.dtype.kind == "c" else np.float64
            reference, other = expected.astype(wide), got.astype(wide)
            same = (reference == other) | (np.isnan(reference) & np.isnan(other))
            broken = ~same & ~(np.isfinite(reference) & np.isfinite(other))
            error = np.where(same | broken, 0.0, np.abs(reference - other))
            self._not_finite += int(np.count_nonzero(broken))
            reference = np.where(np.isfinite(reference), np.abs(reference), 0.0)
        magnitude = np.abs(reference)
        # Squares of float64 leave its range from both sides, and no signal or no noise would be a finding.
        square = np.longdouble if expected.dtype.itemsize > 4 else np.float64
        self._signal += np.sum(np.square(magnitude, dtype=square))
        self._noise += np.sum(np.square(error, dtype=square))
        largest_error = float(error.max(initial=0.0))
        if self._not_finite:
            largest_error = math.inf
        return float(magnitude.max(initial=0.0)), float(error.sum()), largest_error

    def _add_extreme(self, error: float, magnitude: float) -> None:
        """Keeps the samples of which none has both a larger error and a smaller magnitude."""
        if any(e >= error and m <= magnitude for e, m in self._extremes):
            return
        self._extremes = [(e, m) for e, m in self._extremes if e > error or m < magnitude] + [(error, magnitude)]

    def _add_argmax(self, expected: Array, got: Array) -> None:
        if expected.ndim == 0 or expected.dtype.kind not in "iuf":
            return
        axis = 1 if expected.ndim >= 4 else -1
        if expected.shape[axis] < 2 or expected.size == 0:
            return
        same = np.argmax(expected, axis=axis) == np.argmax(got, axis=axis)
        self._same += int(np.count_nonzero(same))
        self._choices += same.size

    def result(self) -> Difference:
        """What all samples gave."""
        count = max(self._elements, 1)
        infinite = self._not_finite > 0 or bool(self._mismatch)
        noise = np.longdouble(math.inf) if infinite else self._noise
        equal, within_1, within_2 = (number / count if self._elements else 1.0 for number in self._counts)
        return Difference(
            elements=self._elements,
            max_abs=math.inf if self._mismatch else self._max_abs,
            mean_abs=math.inf if infinite else self._sum_abs / count,
            max_rel=math.inf if infinite else self._max_rel,
            mean_rel=math.inf if infinite else self._sum_rel / count,
            snr_db=_decibels(self._signal, noise),
            not_finite=self._not_finite,
            steps=Steps(equal, within_1, within_2, self._largest) if self._integers else None,
            argmax=self._same / self._choices if self._choices else None,
            mismatch=self._mismatch,
            extremes=tuple(self._extremes),
        )


def _distance(a: Array, b: Array) -> Array:
    """How far integers of one kind are apart: up to 2^64 - 1, which int64 does not hold. Modulo 2^64 the subtraction is exact."""
    distance: Array = np.maximum(a, b).astype(np.uint64) - np.minimum(a, b).astype(np.uint64)
    return distance


def _decibels(signal: np.longdouble, noise: np.longdouble) -> float:
    if noise == 0:
        return math.inf
    if signal == 0 or np.isinf(noise):
        return -math.inf
    return 10 * float(np.log10(signal / noise))
