# SPDX-License-Identifier: Apache-2.0
"""calibrate: runs samples through an ONNX model and keeps the range of every tensor.

Tensors that are observed are outputs of the model and stay in memory until the run is over. So they are taken in groups
that fit, with one run of each sample for each group.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Callable, Union

from . import choice, layers, memory
from .channel_axes import channel_axes
from .errors import Malformed, RuntimeMissing, Unsupported, Usage
from .model_files import model_files
from .onnx_graph import Graph, graph_hash, read_graph
from .onnx_header import Places
from .port import Array, Port
from .ranges import FORMAT, VERSION, TensorRange, check_ranges_path, write_ranges
from .runner import Runner
from .samples import AnySamples, GivenSamples, Sample, Samples, StoredSamples, sample_files

PathLike = Union[str, "os.PathLike[str]"]

# What observed tensors may take where nobody says.
_LIMIT = 512 << 20
# ONNX Runtime's tensor, and the copy that Python gets.
_COPIES = 2


@dataclasses.dataclass(frozen=True)
class Calibration:
    """What `calibrate` found.

    Attributes
    ----------
    samples : int
        How many were run.
    runs : int
        Runs of each sample: groups of tensors that fitted into memory.
    content : dict
        The ranges file (docs/ranges-file.md).
    unseen : list of str
        Tensors of floats that had no finite value in any sample, and are not in the file's `tensors`.
    note : str or None
        Why the file says nothing of the best settings, where "none" was not asked for.
    """

    samples: int
    runs: int
    content: dict[str, Any]
    unseen: list[str]
    note: str | None = None


def observed(graph: Graph) -> list[str]:
    """Inputs, and what nodes compute from them, in the model's order; not what is constant."""
    moving = dict.fromkeys(graph.inputs)
    for node in graph.nodes:
        # Branches and loop bodies use values of the graph without naming them here; so does a generator of numbers.
        if any(name in moving for name in node.inputs) or node.operator in _WITHOUT_INPUTS:
            moving.update(dict.fromkeys(name for name in node.outputs if name))
    return list(moving)


_WITHOUT_INPUTS = {"If", "Loop", "Scan", "RandomNormal", "RandomUniform"}


def _bytes(port: Port, symbols: Mapping[str, int], unknown: int) -> int:
    """Bytes of a tensor; extents that only a run knows count as `unknown` elements together."""
    count = port.dtype.itemsize
    if port.shape is None:
        return unknown
    for extent in port.shape:
        if isinstance(extent, str) and extent in symbols:
            extent = symbols[extent]
        if not isinstance(extent, int):
            return unknown
        count *= extent
    return count


def _symbols(ports: Mapping[str, Port], sample: Sample) -> dict[str, int]:
    return {
        extent: n
        for name, port in ports.items()
        for extent, n in zip(port.shape or (), sample[name].shape)
        if isinstance(extent, str)
    }


class _Observer:
    """Runs samples for groups of tensors."""

    def __init__(
        self, runner: Runner, samples: AnySamples | choice.Part, limit: int, progress: Callable[[int, int], None]
    ) -> None:
        self._runner, self._samples, self._limit, self._progress = runner, samples, limit, progress
        self._groups: list[list[str]] = []

    @property
    def groups(self) -> int:
        """How many groups were observed."""
        return len(self._groups)

    def groups_of(self, ports: Mapping[str, Port]) -> list[list[str]]:
        """Tensors in groups that fit, in the model's order."""
        symbols = _symbols(self._runner.inputs, next(iter(self._samples)))
        known = [n for n in (_bytes(port, symbols, -1) for port in ports.values()) if n >= 0]
        unknown = max(known, default=1 << 20)
        sizes = ((name, _COPIES * _bytes(port, symbols, unknown)) for name, port in ports.items())
        return memory.in_groups(sizes, self._limit)

    def observe(self, names: list[str], ranges: dict[str, TensorRange]) -> None:
        """Runs all samples for a group; two halves of it if it turns out not to fit."""
        for done, sample in enumerate(self._samples, 1):
            size = self._run(sample, names, ranges)
            # If a later sample needs more than the first one, the group stays as it is: it has been counted.
            if done == 1 and len(names) > 1 and size > self._limit:
                break
            self._progress(self.groups, done)
        else:
            self._groups.append(names)
            return
        for name in names:
            ranges[name].reset()
        half = len(names) // 2
        for part in (names[:half], names[half:]):
            self.observe(part, ranges)

    def add(self, samples: choice.Part, ranges: dict[str, TensorRange]) -> None:
        """Runs more samples, for the groups that were observed."""
        for names in self._groups:
            for sample in samples:
                self._run(sample, names, ranges)

    def _run(self, sample: Sample, names: list[str], ranges: dict[str, TensorRange]) -> int:
        size = 0
        inner = [name for name in names if name not in sample]
        arrays = self._runner.run(sample, inner) if inner else {}
        for name in names:
            array = sample[name] if name in sample else arrays.pop(name)
            size += _COPIES * array.nbytes
            ranges[name].add(array)
        return size


def _content(graph: Graph, ranges: Mapping[str, TensorRange], samples: int) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": graph_hash(graph),
        "samples": samples,
        "unseen": sorted(name for name, found in ranges.items() if not found.seen),
        "tensors": {name: found.values() for name, found in ranges.items() if found.seen},
    }


def files_read(model: str, samples: object) -> Iterator[str]:
    """The files of a model, and of samples where they are in files."""
    yield from model_files(model)
    if isinstance(samples, (str, os.PathLike)):
        yield from sample_files(samples)


def _nothing(group: int, sample: int) -> None:
    del group, sample


def calibrate(
    model: PathLike,
    output: PathLike | None = None,
    *,
    samples: PathLike | Sequence[Mapping[str, Array]] | StoredSamples,
    max_rss: int | str | None = None,
    threads: int | None = None,
    optimization: str | None = None,
    choose: str | None = None,
    correct_layers: bool = False,
    progress: Callable[[int, int], None] | None = None,
    choice_progress: Callable[[int, int], None] | None = None,
    _places: Places | None = None,
    _axes: Mapping[str, int] | None = None,
) -> Calibration:
    """Finds the ranges of the tensors of an ONNX model.

    ONNX Runtime runs the samples one after the other. Memory does not grow with their number.

    Parameters
    ----------
    model : path
        The .onnx file.
    output : path, optional
        Where to write the ranges (docs/ranges-file.md).
    samples : path or sequence of mappings
        A folder of .npz files (one sample each), an .npz file, or arrays by input name for each sample.
    max_rss : int or str, optional
        Memory that the model and the observed tensors may take, in bytes or as "512M". Observed tensors get half.
    threads : int, optional
        Threads of one operator.
    optimization : str, optional
        Of ONNX Runtime: "none", "basic", "extended" or "all".
    choose : str, optional
        "int8" (the default) or "int16x8": one of four samples is held back, all settings of `convert` are tried on
        those with LiteRT, and the file says which is best. "none" does without. With fewer than four samples, without
        LiteRT, or for a model that cannot be quantized there is no choice, and `Calibration.note` says why.
    correct_layers : bool
        Measure what `convert` needs to correct one layer after the other (`correct="layers"`), with the best settings,
        and choose it if it is better. It takes a conversion and some runs for each layer.
    progress : callable, optional
        Called after each run with the number of the group and of the sample.
    choice_progress : callable, optional
        Called with the number of settings that were tried, and of all; then with the number of layers, and of all.

    Returns
    -------
    Calibration

    Raises
    ------
    Error
        If the model or a sample cannot be run. Samples that do not fit: the message names the file, the input and both
        shapes. There is no output then.
    TypeError
        For an argument of a wrong type.
    """
    path = os.fspath(model)
    if not isinstance(path, str):
        raise TypeError(f"model must be a str or os.PathLike of str, not {type(model).__name__}")
    if os.path.isdir(path):
        raise Usage(f"{path}: is a folder; calibrate_pieces is for those of lowtide partition", file=path)
    if choose not in (None, "none", *choice.TYPES):
        raise Usage(f"choose must be one of none, {', '.join(choice.TYPES)}, not {choose!r}")
    if correct_layers and choose == "none":
        raise Usage("correct_layers needs the choice of settings: choose must be int8 or int16x8")
    limit = None if max_rss is None else memory.size("max_rss", max_rss)
    half = None if limit is None else max(limit // 2, 1)
    if output is not None:
        check_ranges_path(os.fspath(output), files_read(path, samples))
    graph = read_graph(path)
    axes = channel_axes(graph, set(observed(graph))) if _axes is None else _axes
    with Runner(path, max_rss=half, threads=threads, optimization=optimization, _places=_places) as runner:
        given: AnySamples
        if isinstance(samples, (str, os.PathLike)):
            given = Samples(samples, runner.inputs)
        elif isinstance(samples, StoredSamples):
            given = samples
        else:
            given = GivenSamples(list(samples), runner.inputs)
        if given.count == 0:
            raise Unsupported(f"{path}: no samples: there are no ranges without any", file=path)
        candidates = observed(graph)
        ports = dict(runner.inputs)
        ports.update(runner.inner_ports([name for name in candidates if name in graph.producer]))
        floats = {name: ports[name] for name in candidates if name in ports and ports[name].dtype.kind == "f"}
        ranges = {name: TensorRange(axes.get(name)) for name in floats}
        if correct_layers and given.count < choice.EVERY:
            raise Usage(
                f"correct_layers needs {choice.EVERY} samples or more, because one of {choice.EVERY} is held back"
            )
        chooses = choose != "none" and given.count >= choice.EVERY
        first = choice.Part(given, held_back=False) if chooses else given
        observer = _Observer(runner, first, _LIMIT if half is None else half, progress or _nothing)
        if floats:
            for group in observer.groups_of(floats):
                observer.observe(group, ranges)
        content = _content(graph, ranges, given.count)
        found: choice.Choice | str
        note = None if chooses or choose == "none" else f"fewer than {choice.EVERY} samples: no settings were tried"
        if chooses:
            try:
                found = choice.choose(
                    path,
                    content,
                    choose or "int8",
                    given,
                    runner,
                    max_rss=half,
                    threads=threads,
                    with_layers=correct_layers,
                    progress=choice_progress or _nothing,
                )
            except (RuntimeMissing, Unsupported, Malformed, Usage) as error:
                if choose is not None or correct_layers:
                    raise
                found = f"no settings were tried: {error}"
            observer.add(choice.Part(given, held_back=True), ranges)
            content = _content(graph, ranges, given.count)
            if isinstance(found, str):
                note = found
            else:
                content = {**layers.with_shifts(content, found.shifts), "choice": found.content}
    unseen = content["unseen"]
    if output is not None:
        write_ranges(os.fspath(output), content)
    return Calibration(given.count, observer.groups, content, unseen, note)
