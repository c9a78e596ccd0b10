# SPDX-License-Identifier: Apache-2.0
"""Whether the numbers of a tensor are those of a value, or a multiple of them."""

from __future__ import annotations

import numpy as np

from .difference import Difference
from .port import Array

# A tensor that has no value's name is a value if it is as close as this: floats, and quantized ones.
CLOSE_DB = 60.0
CLOSE_QUANTIZED_DB, _CLOSE_EQUAL = 20.0, 0.95


def closeness(difference: Difference) -> tuple[float, bool, bool]:
    """Signal-to-noise ratio of a tensor and a value; whether it is close, and whether no other order of the elements could be."""
    score, steps = difference.snr_db, difference.steps
    if steps is None:
        return score, score >= CLOSE_DB, score >= CLOSE_DB
    near, equal = score >= CLOSE_QUANTIZED_DB, steps.equal >= _CLOSE_EQUAL
    return score, near or equal, near and equal


def says_little(array: Array) -> bool:
    """Whether all elements are equal; a single one says little if it is zero."""
    return bool(array.size > 0 and np.all(array == array.flat[0]) and (array.size > 1 or array.flat[0] == 0))


def is_multiple(want: Array, real: Array, enough: float) -> bool:
    """Whether `real` is not `want` but a constant times it, or one for each index of an axis, within `enough` decibels."""
    if _decibels(want, real) >= enough:
        return False
    axes = [None, *(axis for axis in range(real.ndim) if 1 < real.shape[axis] < real.size)]
    return any(_decibels(want * _factors(want, real, axis), real) >= enough for axis in axes)


def _factors(want: Array, real: Array, axis: int | None) -> Array:
    """The factors, one or one for each index of an axis, by which `want` comes closest to `real`."""
    others = tuple(i for i in range(want.ndim) if i != axis)
    squares = np.sum(want * want, axis=others, keepdims=True)
    factors: Array = np.sum(want * real, axis=others, keepdims=True) / np.where(squares == 0, 1, squares)
    return factors


def _decibels(want: Array, real: Array) -> float:
    with np.errstate(all="ignore"):
        error = real - want
        noise, signal = float(np.sum(error * error)), float(np.sum(real * real))
    if not np.isfinite(noise) or not np.isfinite(signal) or signal == 0:
        return -np.inf
    return np.inf if noise == 0 else 10 * float(np.log10(signal / noise))
