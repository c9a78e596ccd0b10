# SPDX-License-Identifier: Apache-2.0
"""calibrate for a divided model: the ranges of its pieces, or those of the whole model by way of its pieces.

The samples run once through all pieces. What each piece takes is kept on disk, and is the samples of that piece. Its
values have the names of the model that was divided.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Mapping, Sequence
from typing import Any, Callable

from . import memory
from .calibration import Calibration, PathLike, calibrate, files_read, observed
from .channel_axes import channel_axes
from .errors import Io, Unsupported, Usage
from .manifest import Manifest, Piece, read_manifest
from .model_files import model_files
from .onnx_graph import Graph, graph_hash, read_graph
from .output_path import temporary_folder
from .pieces_session import places_of
from .port import Array
from .ranges import FORMAT, VERSION, check_ranges_path, write_every_range, write_ranges
from .runner import Runner
from .samples import AnySamples, GivenSamples, Samples, StoredSamples


@dataclasses.dataclass(frozen=True)
class PiecesCalibration:
    """What `calibrate_pieces` found.

    Attributes
    ----------
    samples : int
        How many were run.
    pieces : dict of str to Calibration
        By the name of the piece's file.
    content : dict or None
        With `model`: the ranges file of the whole model.
    """

    samples: int
    pieces: dict[str, Calibration]
    content: dict[str, Any] | None


def calibrate_pieces(
    folder: PathLike,
    output: PathLike | None = None,
    *,
    samples: PathLike | Sequence[Mapping[str, Array]],
    model: PathLike | None = None,
    max_rss: int | str | None = None,
    threads: int | None = None,
    optimization: str | None = None,
    choose: str | None = None,
    correct_layers: bool = False,
    progress: Callable[[int, int], None] | None = None,
    choice_progress: Callable[[int, int], None] | None = None,
) -> PiecesCalibration:
    """Finds the ranges of tensors in the pieces of a divided model.

    Without `model`, of each piece that is in the target, a ranges file for `convert`. With `model`, of all pieces, one
    ranges file for the model that was divided.

    Parameters
    ----------
    folder : path
        A folder that `partition` has made, for a target whose pieces are .onnx files.
    output : path, optional
        Without `model` the folder to write to, where piece 0.onnx becomes 0.ranges.json; with `model` the file.
    samples : path or sequence of mappings
        Of the whole model, as for `calibrate`.
    model : path, optional
        The model that was divided.
    max_rss, threads, optimization, progress, choice_progress
        As for `calibrate`.
    choose, correct_layers
        As for `calibrate`, for each piece on its own; not with `model`.

    Returns
    -------
    PiecesCalibration

    Raises
    ------
    Error, TypeError
        As `calibrate`. Unsupported: a piece is a .tflite file, which has other inner tensors; or the pieces are of
        another model.
    """
    path = os.fspath(folder)
    if model is not None and (choose not in (None, "none") or correct_layers):
        raise Usage("the best settings are not tried on the pieces of a model: leave choose and correct_layers out")
    limit = None if max_rss is None else memory.size("max_rss", max_rss)
    manifest = read_manifest(path)
    pieces = _pieces(path, manifest, whole=model is not None)
    if output is not None:
        _check_output(os.fspath(output), path, samples, pieces, model)
    graph = None if model is None else read_graph(os.fspath(model))
    # A piece does not show which axis the layers of other pieces mean.
    axes = None if graph is None else channel_axes(graph, set(observed(graph)))
    options: dict[str, Any] = {"max_rss": limit, "threads": threads, "optimization": optimization}
    found: dict[str, Calibration] = {}
    with temporary_folder() as temporary:
        stored = {
            piece.file.name: StoredSamples(os.path.join(temporary, str(i)), piece.inputs)
            for i, piece in enumerate(pieces)
        }
        count = _store(path, samples, stored, options)
        for piece in pieces:
            name = piece.file.name
            found[name] = calibrate(
                os.path.join(path, name),
                samples=stored[name],
                choose="none" if model is not None else choose,
                correct_layers=correct_layers,
                progress=progress,
                choice_progress=choice_progress,
                _places=places_of(manifest, piece),
                _axes=axes,
                **options,
            )
    if model is None or graph is None:
        if output is not None:
            _write_folder(os.fspath(output), {ranges_name(name): one.content for name, one in found.items()})
        return PiecesCalibration(count, found, None)
    content = _whole(graph, os.fspath(model), path, found, count)
    if output is not None:
        write_ranges(os.fspath(output), content)
    return PiecesCalibration(count, found, content)


def ranges_name(piece: str) -> str:
    """The name of a piece's ranges file."""
    return os.path.splitext(piece)[0] + ".ranges.json"


def _pieces(path: str, manifest: Manifest, *, whole: bool) -> list[Piece]:
    pieces = [piece for piece in manifest.pieces if whole or piece.in_target]
    if not pieces:
        raise Unsupported(f"{path}: no piece is in the target: there is nothing to calibrate", file=path)
    for piece in pieces:
        if piece.runtime != "onnx":
            raise Unsupported(
                f"{path}: {piece.file.name} is converted already: its inner tensors are no values of the model; divide "
                'the model with --target onnx, or for a target that has "writes": "onnx"',
                file=path,
            )
    if manifest.in_place and not whole:
        raise Unsupported(
            f"{path}: the weights of its pieces are in place, so that no piece can be converted by itself; divide the model "
            "with --weights copy",
            file=path,
        )
    return pieces


def _make_folder(path: str) -> list[str]:
    """Makes a folder and those above it; gives those that were not there, the lowest first."""
    missing = []
    above = os.path.abspath(path)
    while not os.path.lexists(above):
        missing.append(above)
        above = os.path.dirname(above)
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        _remove(missing)
        raise Io(f"{path}: cannot be made: {error.strerror}", file=path) from error
    return missing


def _remove(folders: Sequence[str]) -> None:
    """Removes folders as far as they are there and empty."""
    for folder in folders:
        with contextlib.suppress(OSError):
            os.rmdir(folder)


def _check_output(output: str, path: str, samples: object, pieces: Sequence[Piece], model: PathLike | None) -> None:
    """Before hours of runs: whether the results can be written, and not over what is read. Everything stays as it is."""
    inputs = itertools.chain(files_read(path, samples), [] if model is None else model_files(os.fspath(model)))
    if model is not None:
        check_ranges_path(output, inputs)
        return
    read = [*inputs]
    made = _make_folder(output)
    try:
        for piece in pieces:
            check_ranges_path(os.path.join(output, ranges_name(piece.file.name)), read)
    finally:
        _remove(made)


def _write_folder(path: str, contents: Mapping[str, dict[str, Any]]) -> None:
    """Ranges files by their names in the folder: all of them, or none."""
    made = _make_folder(path)
    try:
        write_every_range({os.path.join(path, name): content for name, content in contents.items()})
    except BaseException:
        _remove(made)
        raise


def _store(
    path: str,
    samples: PathLike | Sequence[Mapping[str, Array]],
    stored: Mapping[str, StoredSamples],
    options: Mapping[str, Any],
) -> int:
    """Runs the samples through all pieces, and keeps what the pieces take; how many samples there are."""
    with Runner(path, **options) as runner:
        given: AnySamples
        if isinstance(samples, (str, os.PathLike)):
            given = Samples(samples, runner.inputs)
        else:
            given = GivenSamples(list(samples), runner.inputs)
        if given.count == 0:
            raise Unsupported(f"{path}: no samples: there are no ranges without any", file=path)
        between = list(dict.fromkeys(n for store in stored.values() for n in store.names if n not in runner.inputs))
        for sample in given:
            values = {**sample, **(runner.run(sample, between) if between else {})}
            for store in stored.values():
                store.add(values)
        return given.count


def _whole(graph: Graph, model: str, path: str, found: Mapping[str, Calibration], count: int) -> dict[str, Any]:
    """The ranges of all pieces as those of the model that was divided."""
    tensors: dict[str, Any] = {}
    unseen: set[str] = set()
    for calibration in found.values():
        unseen.update(calibration.content["unseen"])
        tensors.update(calibration.content["tensors"])
    for name in [*tensors, *unseen]:
        if name not in graph.producer and name not in graph.inputs:
            raise Unsupported(f"{path}: its pieces are not of {model}, which has no value {name!r}", file=path)
    return {
        "format": FORMAT,
        "version": VERSION,
        "graph": graph_hash(graph),
        "samples": count,
        "unseen": sorted(unseen),
        "tensors": tensors,
    }
