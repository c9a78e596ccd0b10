# SPDX-License-Identifier: Apache-2.0
"""A model that `lowtide partition` has divided, piece after piece.

Values go from piece to piece by name, and are freed after their last use. Pieces that do not need each other run at
once. A piece is loaded when it is needed; with a limit of memory pieces run one after the other, and those that were
not used for the longest time are closed for it.
"""

from __future__ import annotations

import concurrent.futures
import json
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import memory
from .errors import Budget, Malformed, Unsupported
from .litert_session import LitertSession
from .manifest import NAME, Manifest, Piece, check_file, check_in_place, read_manifest
from .onnx_header import Places
from .onnx_session import OnnxSession
from .output_path import check_output_path, replacing
from .piece_times import PieceTimes
from .port import Array, Port, Session
from .runtime_log import captured

# Pieces that run at once; each of them has threads of its own besides.
_AT_ONCE = 4


def parent_of(folder: str) -> str:
    """The folder that holds a folder of pieces, wherever it is."""
    return os.path.dirname(os.path.realpath(folder))


def places_of(manifest: Manifest, piece: Piece) -> Places:
    """The files that a piece may read its weights from: only what the manifest lists has been checked."""
    if manifest.in_place:
        return Places(parent_of(manifest.folder), frozenset(file.name for file in manifest.in_place))
    return Places(manifest.folder, frozenset(file.name for file in piece.data))


class PiecesSession:
    """`port.Session` over a folder of pieces.

    Parameters
    ----------
    folder : str
        With manifest.json.
    max_rss : int or None
        Anonymous memory that all pieces together may take, in bytes. If given, each piece is loaded once at the start.
    threads : int
        Threads of one operator.
    kernels, optimization : str or None
        As of LitertSession and OnnxSession.
    cache : str or None
        As of LitertSession.
    """

    def __init__(
        self,
        folder: str,
        *,
        max_rss: int | None,
        threads: int,
        kernels: str | None = None,
        optimization: str | None = None,
        cache: str | None = None,
    ) -> None:
        self._manifest: Manifest = read_manifest(folder)
        self._limit, self._threads = max_rss, threads
        self._kernels, self._optimization, self._cache = kernels, optimization, cache
        self._times = PieceTimes(len(self._manifest.pieces))
        self._pool: concurrent.futures.ThreadPoolExecutor | None = None
        self._sessions: dict[int, Session] = {}  # by piece; the one used last is the last
        self._taken: dict[int, int] = {}  # bytes
        files = {file.name: file for piece in self._manifest.pieces for file in (piece.file, *piece.data)}
        for file in files.values():
            check_file(folder, file)
        for file in self._manifest.in_place:
            check_in_place(parent_of(folder), file)
        self._mapped = [os.path.join(folder, name) for name in files]
        self._mapped += [os.path.join(parent_of(folder), file.name) for file in self._manifest.in_place]
        self._dtypes = {
            name: port.dtype
            for ports in (self._manifest.values, self._manifest.outputs, self._manifest.inputs)
            for name, port in ports.items()
        }
        self._needed_for: dict[frozenset[str], frozenset[int]] = {}
        last = {name: value.last_user for name, value in self._manifest.values.items()}
        self._waves = self._find_waves()
        wave_of = {index: wave for wave, indices in enumerate(self._waves) for index in indices}
        self._freed: list[list[str]] = [[] for _ in self._waves]
        users = {name: [i for i, piece in enumerate(self._manifest.pieces) if name in piece.inputs] for name in last}
        for name, indices in users.items():
            if name not in self._manifest.outputs:
                self._freed[max(wave_of[index] for index in indices)].append(name)
        if max_rss is not None:
            for index in range(len(self._manifest.pieces)):
                self._session(index)

    def _find_waves(self) -> list[list[int]]:
        """Pieces that run at once, because none of them needs another; with a limit of memory one after the other."""
        if self._limit is not None:
            return [[index] for index in range(len(self._manifest.pieces))]
        maker: dict[str, int] = {}  # name -> wave
        waves: list[list[int]] = []
        for index, piece in enumerate(self._manifest.pieces):
            wave = max((maker[name] + 1 for name in piece.inputs if name in maker), default=0)
            maker.update(dict.fromkeys(piece.outputs, wave))
            if wave == len(waves):
                waves.append([])
            waves[wave].append(index)
        return waves

    @property
    def inputs(self) -> Mapping[str, Port]:
        return self._manifest.inputs

    @property
    def outputs(self) -> Mapping[str, Port]:
        return self._manifest.outputs

    @property
    def tensors(self) -> Sequence[str]:
        return [name for name in self._manifest.values if name not in self._manifest.outputs]

    def inner_ports(self, names: Sequence[str]) -> dict[str, Port]:
        """Element types and shapes of values between pieces, as the manifest has them."""
        values = self._manifest.values
        return {name: Port(name, values[name].dtype, values[name].shape) for name in names if name in values}

    @property
    def choice(self) -> str:
        runtimes = [piece.runtime for piece in self._manifest.pieces]
        counts = [
            f"{runtimes.count(name)} in {text}" for name, text in (("tflite", "LiteRT"), ("onnx", "ONNX Runtime"))
        ]
        return f"{len(runtimes)} piece{'s' if len(runtimes) != 1 else ''}, {', '.join(counts)}"

    # ---- Loading ----

    def _session(self, index: int) -> Session:
        if index in self._sessions:
            self._sessions[index] = self._sessions.pop(index)
            return self._sessions[index]
        begun = time.perf_counter()
        session = self._loaded(index)
        try:
            self._check_ports(index, session)
        except BaseException:
            session.close()
            raise
        self._sessions[index] = session
        self._times.loaded(index, begun, self._manifest.pieces[index].weight_bytes)
        return session

    def _loaded(self, index: int) -> Session:
        """In what the other pieces leave; they are closed one by one if that is too little."""
        while True:
            left = None if self._limit is None else self._limit - sum(self._taken.values())
            try:
                if left is not None and left <= 0:
                    raise Budget("no memory is left")
                before = memory.resident()[0]
                session = self._opened(self._manifest.pieces[index], left)
                self._taken[index] = max(0, memory.resident()[0] - before)
                return session
            except Budget as error:
                if not self._sessions:
                    raise Budget(f"{self._manifest.folder}: piece {index} does not fit: {error}") from error
                self._close(next(iter(self._sessions)))

    def _opened(self, piece: Piece, left: int | None) -> Session:
        path = os.path.join(self._manifest.folder, piece.file.name)
        if piece.runtime == "tflite":
            return LitertSession(
                path,
                max_rss=left,
                threads=self._threads,
                kernels=self._kernels,
                signature=None,
                cache=self._cache,
                files=frozenset(file.name for file in piece.data),
            )
        return OnnxSession(
            path,
            max_rss=left,
            threads=self._threads,
            optimization=self._optimization,
            places=places_of(self._manifest, piece),
        )

    def _close(self, index: int) -> None:
        self._sessions.pop(index).close()
        self._taken.pop(index, None)
        memory.trim()

    def _check_ports(self, index: int, session: Session) -> None:
        """A piece takes and makes what the manifest says."""
        piece = self._manifest.pieces[index]
        for what, names, ports in (("input", piece.inputs, session.inputs), ("output", piece.outputs, session.outputs)):
            if set(names) != set(ports):
                other = sorted(set(names) ^ set(ports))[0]
                raise self._malformed(f"piece {index} and the manifest do not have the same {what}s: {other!r}")
            for name in names:
                if ports[name].dtype != self._dtypes[name]:
                    raise self._malformed(
                        f"{name!r} is {ports[name].dtype.name} in piece {index}, and {self._dtypes[name].name} in the manifest"
                    )

    def _malformed(self, text: str) -> Malformed:
        return Malformed(f"{self._manifest.folder}: {text}", file=self._manifest.folder)

    # ---- Running ----

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        values: dict[str, Array] = dict(inputs)
        extents: dict[str, tuple[int, str]] = {}
        for name, port in self._manifest.inputs.items():
            self._check_shape(name, port.shape, inputs[name], extents)
        # Once for all pieces: to redirect what runtimes print takes longer than to run a small piece.
        with captured():
            self._run_pieces(values, set(outputs), extents)
        # An output that is an input: an array of its own, as of any session.
        return {name: np.array(values[name]) if name in inputs else values[name] for name in outputs}

    def _run_pieces(self, values: dict[str, Array], wanted: set[str], extents: dict[str, tuple[int, str]]) -> None:
        needed = self._needed(frozenset(wanted))
        for wave, freed in zip(self._waves, self._freed):
            indices = [index for index in wave if index in needed]
            for index, made in zip(indices, self._made(indices, values)):
                begun = time.perf_counter()
                for name, array in made.items():
                    values[name] = self._checked(index, name, array, extents)
                self._times.checked(index, begun, sum(array.nbytes for array in made.values()))
            for name in freed:
                if name not in wanted:
                    values.pop(name, None)

    def _made(self, indices: Sequence[int], values: Mapping[str, Array]) -> list[dict[str, Array]]:
        """What the pieces of a wave make."""
        sessions = [self._session(index) for index in indices]
        if len(indices) == 1:
            self._make_room(self._manifest.pieces[indices[0]])
        if len(indices) < 2:
            return [self._made_by(index, session, values) for index, session in zip(indices, sessions)]
        if self._pool is None:
            self._pool = concurrent.futures.ThreadPoolExecutor(_AT_ONCE, "lowtide-piece")
        calls = [self._pool.submit(self._made_by, index, session, values) for index, session in zip(indices, sessions)]
        concurrent.futures.wait(calls)  # all of them, so that none runs on behind an error
        return [call.result() for call in calls]

    def _made_by(self, index: int, session: Session, values: Mapping[str, Array]) -> dict[str, Array]:
        begun = time.perf_counter()
        given = {name: values[name] for name in session.inputs}
        outputs = self._manifest.pieces[index].outputs
        made = session.run(given, [name for name in session.outputs if name in outputs])
        self._times.ran(index, begun, sum(array.nbytes for array in made.values()))
        return made

    def _make_room(self, piece: Piece) -> None:
        """Lets mapped weights of other pieces go, so that resident memory stays below the limit with the piece's."""
        if self._limit is None:
            return
        anonymous, mapped, _ = memory.resident()
        if anonymous + mapped + piece.weight_bytes > self._limit:
            memory.release_mapped(self._mapped)

    def _needed(self, wanted: frozenset[str]) -> frozenset[int]:
        """Pieces without which the outputs cannot be made."""
        known = self._needed_for.get(wanted)
        if known is not None:
            return known
        names, needed = set(wanted), set()
        for index in range(len(self._manifest.pieces) - 1, -1, -1):
            piece = self._manifest.pieces[index]
            if names & set(piece.outputs):
                needed.add(index)
                names |= set(piece.inputs)
        self._needed_for = {wanted: frozenset(needed)}  # of the last run: mostly all runs want the same
        return self._needed_for[wanted]

    def _checked(self, index: int, name: str, array: Array, extents: dict[str, tuple[int, str]]) -> Array:
        dtype = self._dtypes[name]
        is_text = dtype == np.dtype(object) and array.dtype.kind in "OU"
        if array.dtype != dtype and not is_text:
            raise Unsupported(f"piece {index} makes {name!r} as {array.dtype.name}, and the manifest says {dtype.name}")
        value = self._manifest.values.get(name)
        if value is not None:
            self._check_shape(name, value.shape, array, extents)
        return array if array.flags.c_contiguous else np.ascontiguousarray(array).reshape(array.shape)

    def _check_shape(
        self, name: str, shape: Sequence[Any] | None, array: Array, extents: dict[str, tuple[int, str]]
    ) -> None:
        if shape is None:
            return
        fits = len(shape) == array.ndim and all(
            not isinstance(extent, int) or extent == given for extent, given in zip(shape, array.shape)
        )
        if not fits:
            wanted = ", ".join("?" if extent is None else str(extent) for extent in shape)
            raise Unsupported(f"{name!r} has the shape {list(array.shape)}, and the pieces were made for [{wanted}]")
        for extent, given in zip(shape, array.shape):
            if isinstance(extent, str):
                first, where = extents.setdefault(extent, (given, name))
                if first != given:
                    raise Unsupported(f"dimension {extent!r} is {given} in {name!r}, but {first} in {where!r}")

    # ---- What it took ----

    def profile(self) -> list[dict[str, Any]]:
        """For each piece the seconds that loading, running and checking its results took, and bytes."""
        rows = []
        for index, (piece, totals) in enumerate(zip(self._manifest.pieces, self._times.totals)):
            row: dict[str, Any] = {
                "piece": index,
                "runtime": piece.runtime,
                "in_target": piece.in_target,
                "nodes": piece.nodes,
                "node_names": list(self._manifest.node_names[index]),
                "load_seconds": totals.load,
                "run_seconds": totals.run,
                "check_seconds": totals.check,
                "runs": totals.runs,
                "weight_bytes": piece.weight_bytes,
                "made_bytes": totals.made_bytes,
            }
            rows.append(row)
        return rows

    def write_trace(self, path: str) -> None:
        """Trace events for https://ui.perfetto.dev: each piece is a thread.

        Raises
        ------
        NotFound, Io, UnsafePath
            If the file cannot be written.
        Usage
            If it is a file of the pieces.
        """
        check_output_path(path, [os.path.join(self._manifest.folder, NAME), *self._mapped])
        events: list[dict[str, Any]] = [
            {"ph": "M", "name": "thread_name", "pid": 1, "tid": i, "args": {"name": f"piece {i} ({piece.runtime})"}}
            for i, piece in enumerate(self._manifest.pieces)
        ]
        events += self._times.trace_events()
        with replacing(path) as file:
            file.write(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}, allow_nan=False).encode())

    def close(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None
        for index in list(self._sessions):
            self._close(index)
