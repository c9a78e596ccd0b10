# SPDX-License-Identifier: Apache-2.0
"""Floats of 8 bits, of which numpy has none: arrays hold their bits as uint8, as .tflite files do."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from .port import Array

# Further apart than any two numbers.
_NAN = 1 << 12


@dataclasses.dataclass(frozen=True)
class _Format:
    number: int  # TensorProto.DataType
    one: int  # the bits of 1
    largest: int  # the highest bits of a magnitude that is a number, or infinite
    has_sign: bool = True


# By ONNX's names.
_FORMATS = {
    "float8e4m3fn": _Format(17, 0x38, 0x7E),
    "float8e4m3fnuz": _Format(18, 0x40, 0x7F),
    "float8e5m2": _Format(19, 0x3C, 0x7C),
    "float8e5m2fnuz": _Format(20, 0x40, 0x7F),
    "float8e8m0": _Format(24, 127, 254, has_sign=False),
}
NAMES = frozenset(_FORMATS)
NUMBERS = {name: form.number for name, form in _FORMATS.items()}


def random_bits(name: str, shape: Sequence[int], rng: np.random.Generator) -> Array:
    """Numbers from 0 to 1."""
    bits: Array = np.asarray(rng.integers(0, _FORMATS[name].one, shape, np.uint8, endpoint=True))
    return bits


def in_order(bits: Array, name: str) -> Array:
    """Integers in the order of the numbers: neighbours are one step apart, zeros of both signs are equal, and so are all NaN."""
    form = _FORMATS[name]
    wide = bits.astype(np.int64)
    if not form.has_sign:
        return np.where(wide > form.largest, _NAN, wide)
    magnitude = wide & 0x7F
    is_nan = (magnitude > form.largest) | ((form.largest == 0x7F) & (wide == 0x80))
    return np.where(is_nan, _NAN, np.where(wide < 0x80, magnitude, -magnitude))
