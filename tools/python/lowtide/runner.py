# SPDX-License-Identifier: Apache-2.0
"""Runner: a .tflite or .onnx model, or a folder of pieces, behind one interface."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from . import memory
from .errors import Malformed, Usage
from .litert_session import KERNELS, LitertSession
from .onnx_header import Places
from .onnx_session import LEVELS, OnnxSession
from .other_files import open_regular
from .pieces_session import PiecesSession
from .port import Array, Port, Session, checked_inputs, checked_outputs

LOGGER = logging.getLogger("lowtide")


def default_threads() -> int:
    """As the program: 2, or 1 on a machine with one processor."""
    return min(2, os.cpu_count() or 1)


def model_kind(path: str) -> str:
    """ "tflite" by the identifier in the file, else "onnx": that format has none. "pieces" for a folder."""
    if os.path.isdir(path):
        return "pieces"
    with open(open_regular(path), "rb") as file:
        head = file.read(8)
    if head[4:8] == b"TFL3":
        return "tflite"
    if path.endswith(".tflite"):
        raise Malformed(f"{path}: not a TFLite file", file=path)
    return "onnx"


class Runner:
    """Runs a model on the CPU.

    A .tflite file runs in LiteRT (package ai-edge-litert), an .onnx file in ONNX Runtime (package onnxruntime). How
    weights are kept is chosen by what fits; `choice` tells it. Each run is on its own: variable tensors of a .tflite
    file are reset before it. A folder that `partition` has made runs piece after piece: values that pass between its
    pieces are inner tensors. A Runner may be used from several threads; its runs come one after the other.

    Parameters
    ----------
    path : str or os.PathLike
        The model, or a folder of pieces with manifest.json.
    max_rss : int or str, optional
        Memory that the model may take in this process, in bytes or as "512M". Anonymous memory counts: pages of
        mapped files come on top, and the system takes them back when memory is short. By default half of what the
        machine, or the control group, has left, and no copy of large weights is made in LiteRT. How weights are kept
        is chosen by it, and loading that takes more is an error; a run that takes more is a warning in the log.
    threads : int, optional
        Threads of one operator; 2 by default.
    cache : str or os.PathLike, optional
        A folder that keeps XNNPACK's packed weights for the next time (.tflite only). By default they are in a file
        without a name that goes with the Runner, where they are in a file at all.
    kernels : str, optional
        .tflite only: "xnnpack", "builtin" or "reference".
    optimization : str, optional
        .onnx only: "none", "basic", "extended" or "all", as ONNX Runtime computes at that level. Without it, also products of u8
        data and i8 weights are exact, which saturate in ONNX Runtime on x86 processors without VNNI.
    signature : str, optional
        .tflite only: which signature to run.
    profile : str, optional
        .onnx only: prefix of the name of ONNX Runtime's profile; `end_profile` writes it.

    Raises
    ------
    NotFound, Malformed, Unsupported, Budget, UnsafePath, Usage
        As the kinds of docs/errors.md say. Budget: `max_rss` is too small.
    RuntimeMissing
        If the runtime's package is not installed; the message has the command that installs it.

    Examples
    --------
    >>> with lowtide.Runner("model.tflite", max_rss="512M") as runner:
    ...     y = runner.run({"x": x})["y"]
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_rss: int | str | None = None,
        threads: int | None = None,
        cache: str | os.PathLike[str] | None = None,
        kernels: str | None = None,
        optimization: str | None = None,
        signature: str | None = None,
        profile: str | None = None,
        _places: Places | None = None,  # of a piece by itself: where its weights are
    ) -> None:
        self._lock = threading.Lock()
        self._session: Session | None = None
        name = os.fspath(path)
        if not isinstance(name, str):
            raise TypeError(f"path must be a str or os.PathLike of str, not {type(path).__name__}")
        limit = None if max_rss is None else memory.size("max_rss", max_rss)
        self._path, self._limit, self._warned, self._before = name, limit, False, memory.resident()[0]
        count = default_threads() if threads is None else threads
        if isinstance(count, bool) or not isinstance(count, int):
            raise TypeError(f"threads must be an int, not {type(count).__name__}")
        if count < 1:
            raise Usage(f"threads is {count}, but must be 1 or more")
        kind = model_kind(name)
        _check_choice("kernels", kernels, KERNELS)
        _check_choice("optimization", optimization, tuple(LEVELS))
        for_tflite: dict[str, object] = {"kernels": kernels, "signature": signature, "cache": cache}
        for_onnx: dict[str, object] = {"optimization": optimization, "profile": profile}
        for_neither: dict[str, object] = {"signature": signature, "profile": profile}
        foreign = {"tflite": for_onnx, "onnx": for_tflite, "pieces": for_neither}[kind]
        for option, value in foreign.items():
            if value is not None:
                others = "folders of pieces" if kind == "pieces" else f".{kind} files"
                raise Usage(f"{name}: {option} is not for {others}")
        if kind == "pieces":
            self._session = PiecesSession(
                name,
                max_rss=limit,
                threads=count,
                kernels=kernels,
                optimization=optimization,
                cache=None if cache is None else os.fspath(cache),
            )
        elif kind == "tflite":
            self._session = LitertSession(
                name,
                max_rss=limit,
                threads=count,
                kernels=kernels,
                signature=signature,
                cache=None if cache is None else os.fspath(cache),
            )
        else:
            self._session = OnnxSession(
                name, max_rss=limit, threads=count, optimization=optimization, profile=profile, places=_places
            )
        LOGGER.debug("%s: %s", name, self._session.choice)

    def _open(self) -> Session:
        if self._session is None:
            raise Usage("the Runner is closed")
        return self._session

    @property
    def inputs(self) -> Mapping[str, Port]:
        """Inputs by name, in the model's order; a `Port` has dtype and shape."""
        return self._open().inputs

    @property
    def outputs(self) -> Mapping[str, Port]:
        """Outputs by name, in the model's order."""
        return self._open().outputs

    @property
    def tensors(self) -> Sequence[str]:
        """Names of the inner tensors that `run` can return beside the outputs."""
        return self._open().tensors

    @property
    def choice(self) -> str:
        """In words: the runtime, its kernels or optimisation level, and where weights are."""
        return self._open().choice

    def run(self, inputs: Mapping[str, Array], outputs: Iterable[str] | None = None) -> dict[str, Array]:
        """Runs the model once.

        Parameters
        ----------
        inputs : mapping of str to numpy.ndarray
            One array for each input, of its dtype, byte order and shape. Only the order in memory may be any.
        outputs : iterable of str, optional
            Which outputs or inner tensors (`tensors`); by default all outputs. The first run with inner tensors loads
            the model again, and from then on LiteRT keeps all of them in memory at once.

        Returns
        -------
        dict of str to numpy.ndarray
            Arrays of their own, in the order of `outputs`.

        Raises
        ------
        TypeError
            If a value is not a numpy array.
        Usage
            If a name, dtype, byte order or shape is not the model's.
        Unsupported
            If the runtime fails; the message has its words.
        """
        with self._lock:
            session = self._open()
            names = checked_outputs(session, outputs)
            results = session.run(checked_inputs(session.inputs, inputs), names)
            self._watch_memory()
            return results

    def inner_ports(self, names: Iterable[str]) -> dict[str, Port]:
        """Element types and shapes of inner tensors, found without a run (.onnx files and folders of pieces).

        Tensors that are no arrays, such as sequences, are left out. Extents that are not known before a run are names
        or None.
        """
        with self._lock:
            session = self._open()
            if not isinstance(session, (OnnxSession, PiecesSession)):
                raise Usage("a .tflite file has the shapes of its tensors: see lowtide.inspect")
            return session.inner_ports(list(names))

    def _watch_memory(self) -> None:
        """Activations are seen only when the model has run; what the caller has allocated meanwhile counts too."""
        if self._limit is None or self._warned:
            return
        took = memory.resident()[0] - self._before
        if took > self._limit:
            self._warned = True
            LOGGER.warning(
                "%s: %s of memory in use after a run, more than max_rss = %s",
                self._path,
                memory.in_mib(took),
                memory.in_mib(self._limit),
            )

    def pieces_profile(self, trace: str | os.PathLike[str] | None = None) -> list[dict[str, Any]]:
        """Of a folder of pieces: for each piece the time to load it, to run it and to check its results, and bytes.

        `trace` is a file that gets the same as trace events, which https://ui.perfetto.dev shows.
        """
        session = self._open()
        if not isinstance(session, PiecesSession):
            raise Usage("the model is not a folder of pieces")
        if trace is not None:
            session.write_trace(os.fspath(trace))
        return session.profile()

    def end_profile(self) -> str:
        """Ends profiling and returns the path of ONNX Runtime's profile (JSON, trace events)."""
        session = self._open()
        if not isinstance(session, OnnxSession):
            raise Usage("LiteRT's package gives no times of operators")
        return session.end_profile()

    def close(self) -> None:
        """Gives memory and files back; a second call does nothing."""
        with self._lock:
            session, self._session = self._session, None
            if session is not None:
                session.close()

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lowtide.Runner: {self._session.choice if self._session else 'closed'}>"


def _check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    if value is not None and value not in choices:
        raise Usage(f"{name} is {value!r}, but must be one of {', '.join(choices)}")
