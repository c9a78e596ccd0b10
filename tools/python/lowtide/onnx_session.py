# SPDX-License-Identifier: Apache-2.0
"""A model in ONNX Runtime.

Measured with onnxruntime 1.31.1 and 400 MB of weights in convolutions (docs/python.md has the table): a model with its
weights inside takes 870 MB of anonymous memory; a skeleton (onnx_header.py) with prepacked weights 420 MB; a skeleton
without prepacking, at an optimisation level below "all", 25 MB, because kernels read weights from the mapped file.

On x86 processors without VNNI its products of u8 data and i8 weights add pairs in 16 bits and saturate (onnx_products.py): of a MobileNetV2 58 % of the
scores were within two steps of what the model says. The option session.x64quantprecision makes them exact. Where they are exact anyway it is not asked for.
Where weights or constants that ONNX Runtime takes for equal have one zero point, the option makes it fail. Then the level is "basic", at which these products are computed in floats.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from . import memory, onnx_products, small_floats
from .errors import Budget, RuntimeMissing, Unsupported
from .held_signals import held_signals
from .onnx_header import Places, Skeleton, read_skeleton
from .onnx_rules import unsafe_rules
from .port import Array, Extent, Port, dtype_of
from .runtime_log import captured

# ONNX Runtime's names of element types; types without an entry cannot be handed over as arrays.
_ELEMENTS = {
    "float": "float32",
    "double": "float64",
    "float16": "float16",
    "int8": "int8",
    "int16": "int16",
    "int32": "int32",
    "int64": "int64",
    "uint8": "uint8",
    "uint16": "uint16",
    "uint32": "uint32",
    "uint64": "uint64",
    "bool": "bool",
    "string": "object",
    "complex64": "complex64",
    "complex128": "complex128",
}
LEVELS = {
    "none": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}

# What a session takes besides weights: measured 22 to 25 MiB for the library, and room for activations.
_ROOM = 32 << 20


@dataclasses.dataclass(frozen=True)
class _Form:
    """One way to load a model: optimisation level, and whether kernels keep weights in an order of their own."""

    level: str
    prepack: bool

    def text(self) -> str:
        where = "weights prepacked in memory" if self.prepack else "weights read from the mapped file"
        return f"ONNX Runtime, optimisation level {self.level}, {where}"


def _import() -> Any:
    try:
        with held_signals():  # while a module of C is loaded, what a handler raises may be lost
            import onnxruntime
    except ImportError as error:
        import sys

        raise RuntimeMissing(
            f"running an .onnx file needs the package onnxruntime, which {sys.executable} cannot import ({error}): "
            "pip install 'lowtide[run]', or pip install onnxruntime"
        ) from error
    return onnxruntime


def _port(argument: Any, ranked: frozenset[str]) -> Port:
    """`ranked`: whose shapes the model declares. ONNX Runtime reports an undeclared shape as that of a scalar."""
    kind = str(argument.type)
    element = kind[len("tensor(") : -1] if kind.startswith("tensor(") else ""
    shape: tuple[Extent, ...] | None = tuple(n if isinstance(n, (int, str)) else None for n in argument.shape)
    if not shape and argument.name not in ranked:
        shape = None
    if element in small_floats.NAMES:
        return Port(argument.name, np.dtype(np.uint8), shape, element)
    if element not in _ELEMENTS:
        raise Unsupported(f"{argument.name!r} is {kind}, which ONNX Runtime does not give as an array")
    return Port(argument.name, dtype_of(_ELEMENTS[element], repr(argument.name)), shape)


def _bits(value: Any) -> Array:
    """A tensor of 8-bit floats, of which ONNX Runtime gives only some types as an array."""
    shape = value.shape()
    bits = np.empty(shape, np.uint8)
    ctypes.memmove(bits.ctypes.data, value.data_ptr(), bits.nbytes)
    return bits


def _words(error: Exception) -> str:
    """What ONNX Runtime says, on one line."""
    return " ".join(str(error).split())


class OnnxSession:
    """`port.Session` over ONNX Runtime.

    Parameters
    ----------
    path : str
        The .onnx file.
    max_rss : int or None
        Anonymous memory that the session may take, in bytes.
    threads : int
        Threads of one operator.
    optimization : str or None
        "none", "basic", "extended", "all"; None is the highest whose memory fits.
    profile : str or None
        Prefix of the profile's name.
    places : Places or None
        Where its external data is, if not beside it.
    """

    def __init__(
        self,
        path: str,
        *,
        max_rss: int | None,
        threads: int,
        optimization: str | None,
        profile: str | None = None,
        places: Places | None = None,
    ) -> None:
        self._path, self._threads, self._profile, self._places = path, threads, profile, places
        self._limit = max_rss
        self._exact = optimization is None  # who asks for a level gets what ONNX Runtime gives at it
        self._runtime = _import()
        skeleton = self._skeleton()
        self._tensors = skeleton.tensors
        self._disabled = unsafe_rules(path, skeleton.model)
        self._extra: tuple[str, ...] = ()
        self._session, self._form = self._load(skeleton, self._forms(skeleton, optimization))
        self._inputs = {a.name: _port(a, skeleton.ranked) for a in self._session.get_inputs()}
        self._outputs = {a.name: _port(a, skeleton.ranked) for a in self._session.get_outputs()}

    def _skeleton(self, outputs: Sequence[str] = ()) -> Skeleton:
        return read_skeleton(self._path, outputs, self._places)

    @property
    def inputs(self) -> Mapping[str, Port]:
        return self._inputs

    @property
    def outputs(self) -> Mapping[str, Port]:
        return self._outputs

    @property
    def tensors(self) -> Sequence[str]:
        return self._tensors

    @property
    def choice(self) -> str:
        return self._form.text()

    def _forms(self, skeleton: Skeleton, optimization: str | None) -> list[_Form]:
        """What to try, from the fastest to the one with the least memory."""
        full = _Form(optimization or "all", True)
        # At "all", weights of convolutions are put in another order whatever prepacking says.
        lean = [_Form(level, False) for level in ("extended", "none") if optimization in (None, level)]
        if optimization in ("basic", "all"):
            lean = [_Form(optimization, False)]
        limit = self._limit if self._limit is not None else memory.available() // 2
        if 2 * skeleton.weight_bytes + _ROOM <= limit:  # while it loads, what is put in another order is there twice
            return [full, *lean]
        return lean

    def _load(self, skeleton: Skeleton, forms: list[_Form]) -> tuple[Any, _Form]:
        took = 0
        for form in forms:
            memory.trim()  # else memory that others have freed before would count as given back by this session
            before = memory.resident()[0]
            session, form = self._create(skeleton, form)
            memory.trim()  # what loading needed and has freed
            took = memory.resident()[0] - before
            if self._limit is None or took <= self._limit:
                return session, form
            del session
            memory.trim()
        assert self._limit is not None
        raise Budget(
            f"{self._path}: ONNX Runtime takes {memory.in_mib(took)} of memory after loading, more than max_rss = "
            f"{memory.in_mib(self._limit)}",
            file=self._path,
        )

    def _create(self, skeleton: Skeleton, form: _Form) -> tuple[Any, _Form]:
        """A session, and its form: another level than asked for where products of integers cannot be exact at that one."""
        if not self._exact or form.level in ("none", "basic") or onnx_products.exact(self._runtime):
            return self._open(skeleton, form), form
        try:
            return self._open(skeleton, form, "session.x64quantprecision"), form
        except Unsupported:
            form = dataclasses.replace(form, level="basic")
            return self._open(skeleton, form), form

    def _open(self, skeleton: Skeleton, form: _Form, *switches: str) -> Any:
        runtime = self._runtime
        options = runtime.SessionOptions()
        options.intra_op_num_threads, options.inter_op_num_threads = self._threads, 1
        options.use_deterministic_compute = True
        options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, LEVELS[form.level])
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", "/")
        # Else bytes that say so would be taken for a file of its own format, whose weights nobody has checked.
        options.add_session_config_entry("session.load_model_format", "ONNX")
        for switch in (*switches, *(() if form.prepack else ("session.disable_prepacking",))):
            options.add_session_config_entry(switch, "1")
        if self._profile is not None:
            options.enable_profiling, options.profile_file_prefix = True, self._profile
        with captured(log_failures=not switches):  # with them another attempt follows
            try:
                return runtime.InferenceSession(
                    skeleton.model, options, providers=["CPUExecutionProvider"], disabled_optimizers=self._disabled
                )
            except Exception as error:  # the classes of its exceptions move between versions
                raise Unsupported(
                    f"{self._path}: ONNX Runtime does not load the model: {_words(error)}", file=self._path
                ) from error

    def inner_ports(self, names: Sequence[str]) -> dict[str, Port]:
        """Element types and shapes of inner tensors as ONNX Runtime infers them; without what is no array."""
        skeleton = self._skeleton(names)
        session = self._open(skeleton, _Form("none", False))
        found = {}
        for argument in session.get_outputs():
            with contextlib.suppress(Unsupported):
                port = _port(argument, skeleton.ranked)
                if not port.bits_of:  # inner tensors of .tflite files are their numbers, where they are at all
                    found[argument.name] = port
        del session
        memory.trim()
        return {name: found[name] for name in names if name in found}

    def _expose(self, names: tuple[str, ...]) -> None:
        """Loads the model again with inner tensors as outputs, unless it has them.

        What fails leaves a session that the next run loads anew.
        """
        if self._session is not None and set(names) <= set(self._extra):
            return
        skeleton = self._skeleton(names)  # a file that is gone, or another one now, is found while there is a session
        self._session, self._extra = None, ()  # before the next one: not both at once
        memory.trim()
        self._session, _ = self._load(skeleton, [self._form])
        self._extra = names

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        self._expose(tuple(name for name in outputs if name not in self._outputs))
        with captured():
            try:
                arrays = self._arrays(inputs, list(outputs))
            except Exception as error:
                raise Unsupported(
                    f"{self._path}: ONNX Runtime cannot run the model: {_words(error)}", file=self._path
                ) from error
        for name, value in zip(outputs, arrays):
            if not hasattr(value, "dtype"):
                raise Unsupported(f"{name!r} is not an array, but {type(value).__name__}")
        return dict(zip(outputs, arrays))

    def _arrays(self, inputs: Mapping[str, Array], outputs: list[str]) -> list[Any]:
        ports = (*self._inputs.values(), *self._outputs.values())
        if not any(port.bits_of for port in ports):
            return list(self._session.run(outputs, dict(inputs)))
        factory = self._runtime.OrtValue
        values = {}
        for name, array in inputs.items():
            element = self._inputs[name].bits_of
            if element:
                values[name] = factory.ortvalue_from_numpy_with_onnx_type(array, small_floats.NUMBERS[element])
            else:
                values[name] = factory.ortvalue_from_numpy(array)
        made = self._session.run_with_ort_values(outputs, values)
        small = {name for name in outputs if name in self._outputs and self._outputs[name].bits_of}
        return [_bits(value) if name in small else value.numpy() for name, value in zip(outputs, made)]

    def end_profile(self) -> str:
        """Path of the profile that `profile` asked for."""
        self._expose(self._extra)
        return str(self._session.end_profiling())

    def close(self) -> None:
        if self._session is not None:
            self._session = None
            memory.trim()
