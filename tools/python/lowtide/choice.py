# SPDX-License-Identifier: Apache-2.0
"""Which settings of ``convert --quantize`` suit a network: all are tried on samples that calibration did not use.

No setting is best for every network: corrected biases help most of them and harm some, and the best range depends on the
tails of the data. Each setting is converted and run by LiteRT; the measure is the worst output's signal to noise
against ONNX Runtime's floats. Outputs whose extents depend on the data (detections above a threshold) may have others in
integers than in floats. Those are compared in no setting.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import math
import os
from collections.abc import Iterator
from typing import Any, Callable

import numpy as np

from . import layers
from .commands import convert
from .difference import Sum
from .errors import Error
from .output_path import temporary_folder
from .port import Array
from .ranges import write_ranges
from .runner import Runner
from .samples import AnySamples, Sample
from .stored_arrays import write_arrays

TYPES = ("int8", "int16x8")
# The first of equals is taken, so the defaults of convert come first.
SETTINGS = {
    "range": ("mse", "percentile:99.99", "minmax"),
    "equalize": ("channels", "none"),
    "correct": ("means", "none"),
}
# One of so many samples is held back.
EVERY = 4
_MOST = 300.0  # decibels of a file that is exact


class Part:
    """Samples of which some are left out."""

    def __init__(self, samples: AnySamples, held_back: bool) -> None:
        self._samples, self._held_back = samples, held_back
        held = samples.count // EVERY
        self.count = held if held_back else samples.count - held

    def __iter__(self) -> Iterator[Sample]:
        for i, sample in enumerate(self._samples):
            if (i % EVERY == EVERY - 1) == self._held_back:
                yield sample


def settings() -> Iterator[dict[str, str]]:
    """All combinations, the defaults first."""
    for values in itertools.product(*SETTINGS.values()):
        yield dict(zip(SETTINGS, values))


def count() -> int:
    """How many `settings` there are."""
    return math.prod(len(values) for values in SETTINGS.values())


def _spelled(setting: dict[str, str]) -> str:
    return " ".join(f"{key}={value}" for key, value in setting.items())


@dataclasses.dataclass(frozen=True)
class Choice:
    """The best settings, for the ranges file (docs/ranges-file.md), and `channel_shift` by tensor if it was measured."""

    content: dict[str, Any]
    shifts: dict[str, list[float]]


class _Expected:
    """What the float model gives for the samples, on disk: memory does not grow with their number."""

    def __init__(self, folder: str, reference: Runner, samples: Part) -> None:
        self._folder, self.names = folder, [n for n, port in reference.outputs.items() if port.dtype.kind == "f"]
        for i, sample in enumerate(samples):
            outputs = reference.run(sample, self.names)
            # By number: names of tensors are no names of files.
            write_arrays(self._path(i), {str(j): outputs[name] for j, name in enumerate(self.names)})

    def _path(self, i: int) -> str:
        return os.path.join(self._folder, f"{i}.npz")

    def of(self, i: int) -> dict[str, Array]:
        with np.load(self._path(i)) as stored:
            return {name: stored[str(j)] for j, name in enumerate(self.names)}


def _decibels(
    tflite: str, expected: _Expected, samples: Part, max_rss: int | None, threads: int | None
) -> dict[str, float]:
    """Of the outputs that have the expected extents in all samples."""
    sums = {name: Sum() for name in expected.names}
    with Runner(tflite, max_rss=max_rss, threads=threads) as tested:
        for i, sample in enumerate(samples):
            outputs = tested.run(sample)
            for name, floats in expected.of(i).items():
                if name not in sums:
                    continue
                if outputs[name].shape == floats.shape:
                    sums[name].add(floats, outputs[name])
                else:
                    del sums[name]
    return {name: max(-_MOST, min(_MOST, total.result().snr_db)) for name, total in sums.items()}


@contextlib.contextmanager
def _without_path(folder: str) -> Iterator[None]:
    """Errors name files without a folder that is gone when they are read."""
    try:
        yield
    except Error as error:
        error.args = tuple(str(of).replace(folder + os.sep, "") for of in error.args)
        if error.file is not None:
            error.file = error.file.removeprefix(folder + os.sep)
        raise


def choose(
    model: str,
    content: dict[str, Any],
    quantize: str,
    samples: AnySamples,
    reference: Runner,
    *,
    max_rss: int | None,
    threads: int | None,
    with_layers: bool,
    progress: Callable[[int, int], None],
) -> Choice | str:
    """Tries all settings.

    Parameters
    ----------
    content : dict
        Ranges of the samples that are not held back.
    quantize : str
        One of `TYPES`.
    reference : Runner
        The model in ONNX Runtime.
    with_layers : bool
        Try the best setting with biases corrected one layer after the other too (layers.py).
    progress : callable
        Takes how many settings are done, and of how many; then how many layers.

    Returns
    -------
    Choice or str
        A str says why there is none: the model has no output of floats that can be compared.

    Raises
    ------
    Error
        If the model cannot be converted, or LiteRT is not there.
    """
    held = Part(samples, held_back=True)
    tried: dict[str, dict[str, float]] = {}  # by setting, of each output
    same: dict[bytes, dict[str, float]] = {}
    with temporary_folder("lowtide-calibrate-") as folder, _without_path(folder):
        ranges, tflite = os.path.join(folder, "ranges.json"), os.path.join(folder, "model.tflite")
        write_ranges(ranges, content)
        expected = _Expected(folder, reference, held)
        if not expected.names:
            return "the model has no output of floats: no settings were tried"

        def attempt(setting: dict[str, str]) -> None:
            convert(model, tflite, quantize=quantize, ranges=ranges, threads=threads, **setting)  # type: ignore[arg-type]
            digest = _digest(tflite)
            if digest not in same:
                same[digest] = _decibels(tflite, expected, held, max_rss, threads)
            tried[_spelled(setting)] = same[digest]

        for done, setting in enumerate(settings()):
            progress(done, count())
            attempt(setting)
        progress(count(), count())
        compared = set.intersection(*(set(of) for of in tried.values()))
        if not compared:
            return "no setting is the best: in integers all outputs have other extents, which depend on the data"

        def worst(of: dict[str, float]) -> float:
            return round(min(of.get(name, -_MOST) for name in compared), 2)

        best = max(settings(), key=lambda setting: worst(tried[_spelled(setting)]))
        shifts: dict[str, list[float]] = {}
        if with_layers:
            chosen = {"quantize": quantize, "range": best["range"], "equalize": best["equalize"]}
            used = Part(samples, held_back=False)
            shifts = layers.measure(model, content, chosen, used, max_rss=max_rss, threads=threads, progress=progress)
        if shifts:
            write_ranges(ranges, layers.with_shifts(content, shifts))
            corrected = {**best, "correct": "layers"}
            attempt(corrected)
            best = max(best, corrected, key=lambda setting: worst(tried[_spelled(setting)]))
        decibels = {name: worst(of) for name, of in tried.items()}
    return Choice({"quantize": quantize, **best, "samples": held.count, "decibels": decibels}, shifts)


def _digest(path: str) -> bytes:
    out = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            out.update(block)
    return out.digest()
