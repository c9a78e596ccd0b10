# SPDX-License-Identifier: Apache-2.0
"""What calibration keeps of a tensor: least, largest, a histogram, means by channel. docs/ranges-file.md has the file.

Bins have a width of 2^e and edges at its multiples, so when a range outgrows 2048 bins, two become one and nothing is
lost. The result does not depend on the order of the samples, nor the memory on their number.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .errors import Io, Malformed, NotFound
from .output_path import check_output_path, replacing, writing
from .port import Array

BINS = 2048
FORMAT, VERSION = "lowtide-ranges", 1
_BLOCK = 1 << 18  # elements at once
_FINEST = -1074  # the exponent of the least float64
_MASK = 64  # numbers that are as large may be masks of attention


class Histogram:
    """Counts of values in at most `BINS` bins: bin i has [i * 2^exponent, (i + 1) * 2^exponent)."""

    def __init__(self) -> None:
        self.exponent = _FINEST
        self.first = 0
        self.counts: Array = np.zeros(BINS, np.int64)
        self.low, self.high = math.inf, -math.inf

    def add(self, values: Array, low: float, high: float) -> None:
        """Counts finite values of float64, of which the least and the largest are given."""
        self._reach(min(low, self.low), max(high, self.high))
        width = math.ldexp(1.0, self.exponent) if self.exponent > -1022 else 0.0
        scaled = values / width if width else np.ldexp(values, -self.exponent)
        places = np.floor(scaled).astype(np.int64) - self.first
        self.counts += np.bincount(places, minlength=BINS)

    def _reach(self, low: float, high: float) -> None:
        exponent = max(self.exponent, _exponent(low, high))
        if self.low <= self.high:
            self._coarsen(exponent)
        self.exponent = exponent
        first = _bin(low, exponent)
        if self.low <= self.high and first != self.first:
            moved = np.zeros(BINS, np.int64)
            shift = self.first - first
            moved[shift:] = self.counts[: BINS - shift]
            self.counts = moved
        self.first = first
        self.low, self.high = low, high

    def _coarsen(self, exponent: int) -> None:
        """Joins bins until their width is 2^exponent."""
        steps = exponent - self.exponent
        if steps == 0:
            return
        places = (self.first + np.arange(BINS)) >> min(steps, 62)
        first = int(places[0])
        joined = np.zeros(BINS, np.int64)
        np.add.at(joined, places - first, self.counts)
        self.counts, self.first = joined, first

    def values(self) -> dict[str, Any]:
        """For JSON: bins from the first that has a value to the last."""
        used = np.flatnonzero(self.counts)
        begin, end = int(used[0]), int(used[-1]) + 1
        return {
            "low": math.ldexp(self.first + begin, self.exponent),
            "width": math.ldexp(1.0, self.exponent),
            "counts": [int(n) for n in self.counts[begin:end]],
        }


def _bin(value: float, exponent: int) -> int:
    mantissa, power = math.frexp(value)  # value = mantissa * 2^power; a float has 53 bits
    shift = power - 53 - exponent
    whole = int(math.ldexp(mantissa, 53))
    return whole << shift if shift >= 0 else whole >> min(-shift, 2000)


def _exponent(low: float, high: float) -> int:
    """The least exponent at which the values from low to high are in at most BINS bins."""
    largest = max(abs(low), abs(high))
    if largest == 0:
        return _FINEST
    # At this width bin numbers are exact in float64.
    exponent = max(math.frexp(largest)[1] - 53, _FINEST)
    if high > low:
        exponent = max(exponent, math.frexp(high - low)[1] - 13)
    while _bin(high, exponent) - _bin(low, exponent) >= BINS:
        exponent += 1
    return exponent


class TensorRange:
    """What is kept of one tensor.

    Attributes
    ----------
    low, high : float
        Least and largest finite value; infinite if there was none.
    inner_low, inner_high : float
        The same of the values whose magnitude is less than that of a mask.
    elements, not_finite : int
        How many were seen, and how many of them were NaN or infinite.
    """

    def __init__(self, channel_axis: int | None = None) -> None:
        self._axis = channel_axis
        self.reset()

    def reset(self) -> None:
        """Forgets everything."""
        self.low, self.high = math.inf, -math.inf
        self.inner_low, self.inner_high = math.inf, -math.inf
        self.elements = self.not_finite = 0
        self._histogram = Histogram()
        self._sums: Array | None = None
        self._lows: Array | None = None
        self._highs: Array | None = None
        self._count = 0

    @property
    def seen(self) -> bool:
        """Whether there was a finite value."""
        return self.low <= self.high

    def add(self, array: Array) -> None:
        """Takes the values of a sample."""
        self.elements += array.size
        flat = array.reshape(-1)
        for begin in range(0, flat.size, _BLOCK):
            values = flat[begin : begin + _BLOCK].astype(np.float64)
            finite = np.isfinite(values)
            if not finite.all():
                self.not_finite += int(values.size - np.count_nonzero(finite))
                values = values[finite]
            if values.size:
                low, high = float(values.min()), float(values.max())
                self._histogram.add(values, low, high)
                self.low, self.high = min(self.low, low), max(self.high, high)
                if low <= -_MASK or high >= _MASK:
                    inner = values[np.abs(values) < _MASK]
                    low, high = float(inner.min(initial=math.inf)), float(inner.max(initial=-math.inf))
                self.inner_low, self.inner_high = min(self.inner_low, low), max(self.inner_high, high)
        if self._axis is not None and -array.ndim <= self._axis < array.ndim and array.size:
            self._add_channels(array)

    def _add_channels(self, array: Array) -> None:
        assert self._axis is not None
        axis = self._axis = self._axis % array.ndim
        others = tuple(i for i in range(array.ndim) if i != axis)
        with np.errstate(all="ignore"):  # of what is not finite there are no means
            sums = np.asarray(array.sum(axis=others, dtype=np.float64))
        if self._sums is not None and self._sums.shape != sums.shape:
            return
        lows, highs = np.asarray(array.min(axis=others)), np.asarray(array.max(axis=others))
        self._sums = sums if self._sums is None else self._sums + sums
        self._lows = lows if self._lows is None else np.minimum(self._lows, lows)
        self._highs = highs if self._highs is None else np.maximum(self._highs, highs)
        self._count += array.size // array.shape[axis]

    def values(self) -> dict[str, Any]:
        """For JSON."""
        out: dict[str, Any] = {
            "elements": self.elements,
            "histogram": self._histogram.values(),
            "max": self.high,
            "min": self.low,
        }
        if self.inner_low <= self.inner_high and (self.inner_low, self.inner_high) != (self.low, self.high):
            out["inner_min"], out["inner_max"] = self.inner_low, self.inner_high
        if self.not_finite:
            out["not_finite"] = self.not_finite
        if self._sums is not None and np.isfinite(self._sums).all():
            out["channel_axis"] = self._axis
            out["channel_mean"] = [float(number) for number in self._sums / self._count]
            if self._lows is not None and self._highs is not None:
                out["channel_min"] = [float(number) for number in self._lows]
                out["channel_max"] = [float(number) for number in self._highs]
        return out


def ranges_text(content: dict[str, Any]) -> str:
    """A ranges file: JSON with sorted keys, each tensor on lines of its own, lists on one line."""
    lines = ["{"]
    for key in sorted(content):
        if key != "tensors":
            lines.append(f"  {json.dumps(key)}: {json.dumps(content[key], sort_keys=True, allow_nan=False)},")
    lines.append('  "tensors": {')
    names = sorted(content["tensors"])
    for name in names:
        entry = content["tensors"][name]
        lines.append(f"    {json.dumps(name)}: {{")
        inner = [
            f"      {json.dumps(key)}: {json.dumps(entry[key], sort_keys=True, allow_nan=False)}"
            for key in sorted(entry)
        ]
        lines.append(",\n".join(inner))
        lines.append("    }" + ("," if name != names[-1] else ""))
    return "\n".join([*lines, "  }", "}"]) + "\n"


def check_ranges_path(path: str, inputs: Iterable[str] = ()) -> None:
    """Before hours of runs: whether `write_ranges` can write there, and not over one of the inputs.

    Raises
    ------
    Io, NotFound, UnsafePath, Usage
        As `check_output_path`.
    """
    if os.path.isdir(path):
        raise Io(f"{path}: is a folder, and ranges are written to a file", file=path)
    check_output_path(path, inputs)


def write_ranges(path: str, content: dict[str, Any]) -> None:
    """Writes a ranges file, which replaces an old one when it is complete.

    Raises
    ------
    Io, NotFound, UnsafePath
        If it cannot be written.
    """
    write_every_range({path: content})


def write_every_range(contents: Mapping[str, dict[str, Any]]) -> None:
    """Writes ranges files by their paths, as `write_ranges` does: no old one is replaced before all are complete.

    Raises
    ------
    Io, NotFound, UnsafePath
        If one cannot be written.
    """
    with contextlib.ExitStack() as stack:
        files = {path: stack.enter_context(replacing(path)) for path in contents}
        for path, file in files.items():
            with writing(path):
                file.write(ranges_text(contents[path]).encode("utf-8", "surrogateescape"))
                file.flush()


def read_ranges(path: str) -> dict[str, Any]:
    """Reads a ranges file; only its frame is checked.

    Raises
    ------
    NotFound, Malformed
        If there is no such file, or if it is not a ranges file.
    """
    try:
        with open(path, encoding="utf-8") as file:
            content = json.load(file)
    except OSError as error:
        raise NotFound(f"{path}: cannot be read: {error.strerror}", file=path) from error
    except ValueError as error:
        raise Malformed(f"{path}: is not JSON: {error}", file=path) from error
    if not isinstance(content, dict) or content.get("format") != FORMAT or not isinstance(content.get("tensors"), dict):
        raise Malformed(f"{path}: is not a file of lowtide calibrate", file=path)
    if content.get("version") != VERSION:
        raise Malformed(
            f"{path}: version {content.get('version')} of the format, and this program knows {VERSION}", file=path
        )
    return content
