# SPDX-License-Identifier: Apache-2.0
"""A model in LiteRT.

Two interfaces of its package are used, with the same kernels and the same numbers. Interpreter takes every element
type, outputs whose shape only the run knows, and gives inner tensors. CompiledModel has XNNPACK's weight cache
(weight_cache.py) and reads constants in other files.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import warnings
from collections.abc import Mapping, Sequence
from typing import Any, Callable

import numpy as np

from . import memory
from .errors import Budget, RuntimeMissing, Unsupported, Usage
from .held_signals import held_signals
from .other_files import open_regular
from .output_path import temporary_folder, writing
from .port import Array, Port, dtype_of, unknown_name
from .runtime_log import captured
from .tflite_header import TYPE_NAMES, Signature, Tensor, read_header
from .weight_cache import CachePlace, cache_place

KERNELS = ("xnnpack", "builtin", "reference")

# From so many bytes of constants on, packed weights go to a file unless max_rss has room for them in memory.
CACHE_FROM = 64 << 20
# What LiteRT takes besides weights: measured 16 MiB for CompiledModel, and room for activations.
_ROOM = 32 << 20
_LITTLE_TYPES = ("int2", "int4", "uint4")


@dataclasses.dataclass(frozen=True)
class _Form:
    """One way to load a model."""

    kernels: str
    threads: int
    cached: bool = False

    def text(self) -> str:
        if self.kernels != "xnnpack":
            return f"LiteRT, {self.kernels} kernels, {_counted(self.threads)}, weights read from the mapped file"
        return "LiteRT, XNNPACK, " + ("packed weights in a mapped file" if self.cached else "packed weights in memory")


def _counted(threads: int) -> str:
    return "1 thread" if threads == 1 else f"{threads} threads"


def _import() -> tuple[Any, Any, Any]:
    """Modules interpreter, compiled_model and options of ai_edge_litert."""
    try:
        with held_signals():  # while a module of C is loaded, what a handler raises may be lost
            from ai_edge_litert import compiled_model, interpreter, options
    except ImportError as error:
        raise RuntimeMissing(
            f"running a .tflite file needs the package ai-edge-litert, which {sys.executable} cannot import ({error}): "
            "pip install 'lowtide[run]', or pip install ai-edge-litert"
        ) from error
    return interpreter, compiled_model, options


def _port(name: str, tensor: Tensor) -> Port:
    return Port(name, dtype_of(TYPE_NAMES.get(tensor.type), repr(name)), tensor.shape)


def chosen_signature(path: str, signatures: Sequence[Signature], key: str | None) -> Signature:
    """The signature of a name; without a name the only one, or "serving_default".

    Raises
    ------
    Usage
        If there is none of the name, or if one of several is to be named.
    """
    every = {signature.key: signature for signature in signatures}
    if key is not None:
        if key not in every:
            raise unknown_name("signature", key, every)
        return every[key]
    if len(every) > 1 and "serving_default" not in every:
        raise Usage(f"{path}: has {len(every)} signatures, name one: {', '.join(map(repr, every))}", file=path)
    return every["serving_default"] if len(every) > 1 else signatures[0]


class _Interpreted:
    """A model in Interpreter."""

    def __init__(self, module: Any, path: str, signature: Signature, kernels: str, threads: int, keep: bool) -> None:
        resolver = {"xnnpack": "BUILTIN", "builtin": "BUILTIN_WITHOUT_DEFAULT_DELEGATES", "reference": "BUILTIN_REF"}

        def make() -> Any:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # keeping all tensors is meant
                return module.Interpreter(
                    model_path=path,
                    num_threads=threads,
                    experimental_preserve_all_tensors=keep,
                    experimental_op_resolver_type=getattr(module.OpResolverType, resolver[kernels]),
                )

        self._model = make()
        self._signature = signature
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._is_planned = False
        if signature.subgraph == 0:
            try:
                self._model.allocate_tensors()
                self._is_planned = True
            except RuntimeError:
                # Extents that are not fixed are 1 in the file, which some kernels refuse: the first run has the true ones.
                if all(isinstance(extent, int) for _, tensor in signature.inputs for extent in tensor.shape):
                    raise
                self._model = make()
            for _, tensor in signature.inputs:
                self._shapes[tensor.index] = self._shape(tensor.index)

    def _shape(self, index: int) -> tuple[int, ...]:
        return tuple(int(n) for n in self._model._get_tensor_details(index, 0)["shape"])

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, tuple[Tensor, np.dtype[Any]]]) -> dict[str, Array]:
        self._model.reset_all_variables()
        if self._signature.subgraph != 0:
            runner = self._model.get_signature_runner(self._signature.key)
            every = runner(**{name: _handed_over(array) for name, array in inputs.items()})
            return {name: _taken(every[name], dtype) for name, (_, dtype) in outputs.items()}
        for name, tensor in self._signature.inputs:
            if self._shapes[tensor.index] != inputs[name].shape:
                self._model.resize_tensor_input(tensor.index, inputs[name].shape)
                self._shapes[tensor.index] = inputs[name].shape
                self._is_planned = False
        if not self._is_planned:
            self._model.allocate_tensors()
            self._is_planned = True
        for name, tensor in self._signature.inputs:
            self._model.set_tensor(tensor.index, _handed_over(inputs[name]))
        self._model.invoke()
        return {name: self._tensor(tensor, dtype) for name, (tensor, dtype) in outputs.items()}

    def _tensor(self, tensor: Tensor, dtype: np.dtype[Any]) -> Array:
        try:
            return _taken(self._model.get_tensor(tensor.index), dtype)
        except ValueError:  # "Invalid tensor size": asked only then, because that takes longer than a small model
            shape = self._shape(tensor.index)
            if 0 not in shape:
                raise
            return np.empty(shape, dtype)


def _handed_over(array: Array) -> Array:
    """As the bindings of Interpreter take it: 4-bit and 8-bit float types as (u)int8, and C's long for 64 bits."""
    if array.dtype.isbuiltin == 1 and array.dtype.char not in "qQ":
        return array  # the name of a type takes longer to make than a small model to run
    name = array.dtype.name
    if array.dtype.char in "qQ":  # C's long long, as ONNX Runtime gives it: refused, although it has 64 bits as well
        return array.view(name)
    if name in _LITTLE_TYPES:
        return array.astype(np.uint8 if name == "uint4" else np.int8)
    return array.view(np.int8) if name.startswith("float8") else array


def _taken(array: Array, dtype: np.dtype[Any]) -> Array:
    if array.dtype == dtype:
        return np.array(array)
    return array.view(dtype) if dtype.name.startswith("float8") else array.astype(dtype)


class _Compiled:
    """A model in CompiledModel.

    Its arrays travel as bytes: the interface has no 64-bit, 16-bit and unsigned 32-bit types.
    """

    def __init__(
        self, modules: tuple[Any, Any, Any], path: str, signature: Signature, kernels: str, threads: int, cache: str
    ) -> None:
        _, compiled, options = modules
        mode = {"xnnpack": "XNNPACK", "builtin": "BUILTIN", "reference": "REFERENCE"}[kernels]
        cpu = options.CpuOptions(
            num_threads=threads, kernel_mode=options.CpuKernelMode[mode], xnnpack_weight_cache_path=cache
        )
        self._model = compiled.CompiledModel.from_file(path, options=options.Options(cpu_options=cpu))
        self._signature = signature
        self._index = self._model.get_signature_index(signature.key) if signature.key else 0
        by_index = self._model.get_signature_by_index(self._index)
        self._inputs: list[str] = by_index["inputs"]
        self._outputs: list[str] = by_index["outputs"]
        self._key: str = by_index["key"]
        self._shapes = {
            name: tuple(details["shape"]) for name, details in self._model.get_input_tensor_details(self._key).items()
        }

    def run(self, inputs: Mapping[str, Array], outputs: Mapping[str, tuple[Tensor, np.dtype[Any]]]) -> dict[str, Array]:
        for i, name in enumerate(self._inputs):
            if self._shapes[name] != inputs[name].shape:
                self._model.resize_input_tensor(i, inputs[name].shape, self._index)
                self._shapes[name] = inputs[name].shape
        given = self._model.create_input_buffers(self._index)
        for name, buffer in zip(self._inputs, given):
            buffer.write(inputs[name].reshape(-1).view(np.uint8))
        results = self._model.create_output_buffers(self._index)
        self._model.run_by_index(self._index, given, results)
        details = self._model.get_output_tensor_details(self._key)
        out = {}
        for name, (_, dtype) in outputs.items():
            shape = tuple(details[name]["shape"])
            count = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            out[name] = results[self._outputs.index(name)].read(count, np.uint8).view(dtype).reshape(shape)
        return out


class LitertSession:
    """`port.Session` over LiteRT.

    Parameters
    ----------
    path : str
        The .tflite file.
    max_rss : int or None
        Anonymous memory that the session may take, in bytes.
    threads : int
        Threads of one operator.
    kernels : str or None
        "xnnpack", "builtin", "reference"; None is XNNPACK where its packed weights fit, else builtin.
    cache : str or None
        Folder in which weight caches are kept for the next time.
    signature : str or None
        Which one; None is the only one, or "serving_default".
    files : frozenset of str or None
        Of a piece: the other files that its manifest lists. None lets it read any below its folder.
    """

    def __init__(
        self,
        path: str,
        *,
        max_rss: int | None,
        threads: int,
        kernels: str | None,
        cache: str | None,
        signature: str | None,
        files: frozenset[str] | None = None,
    ) -> None:
        self._path, self._threads, self._limit, self._cache = path, threads, max_rss, cache
        self._modules = _import()
        self._header = header = read_header(path, files)
        self._signature = chosen_signature(path, header.signatures, signature)
        self._inputs = {name: _port(name, tensor) for name, tensor in self._signature.inputs}
        self._outputs = {name: _port(name, tensor) for name, tensor in self._signature.outputs}
        if len(self._inputs) < len(self._signature.inputs) or len(self._outputs) < len(self._signature.outputs):
            raise Unsupported(f"{path}: two inputs or two outputs have the same name", file=path)
        self._computed = {name: (tensor, self._outputs[name].dtype) for name, tensor in self._signature.outputs}
        inner = header.tensors[self._signature.subgraph]
        self._inner = {tensor.name: tensor for tensor in inner if tensor.name and tensor.name not in self._outputs}
        self._pinned = kernels is not None
        self._place: CachePlace | None = None
        self._keeps = False  # whether the model that is loaded keeps its inner tensors
        self._model: Any = None
        self._form = self._load(self._forms(kernels))

    @property
    def inputs(self) -> Mapping[str, Port]:
        return self._inputs

    @property
    def outputs(self) -> Mapping[str, Port]:
        return self._outputs

    @property
    def tensors(self) -> Sequence[str]:
        return list(self._inner)

    @property
    def choice(self) -> str:
        return self._form.text()

    # ---- Choosing --------------------------------------------------------------------------------------------------

    def _compilable(self) -> str:
        """Why CompiledModel cannot run the model; empty if it can."""
        if self._header.has_state:
            return "it has variable tensors, which are to be reset before each run"
        for port in (*self._inputs.values(), *self._outputs.values()):
            if port.dtype == np.dtype(object) or port.dtype.name in _LITTLE_TYPES:
                return f"{port.name!r} is {port.dtype.name}"
            if 0 in (port.shape or ()):
                return f"{port.name!r} has no elements"  # and so no buffer
        # It makes the buffers of outputs before the run.
        return next(
            (
                f"the shape of output {port.name!r} is known to the run only"
                for port in self._outputs.values()
                if None in (port.shape or ())
            ),
            "",
        )

    def _forms(self, kernels: str | None) -> list[_Form]:
        """What to try, from the fastest to the one with the least memory."""
        if self._header.external_files:
            why = self._compilable()
            if why:
                raise Unsupported(
                    f"{self._path}: {why}; LiteRT's CompiledModel cannot do that, and nothing else reads its "
                    "weights in other files",
                    file=self._path,
                )
        weights = self._header.constant_bytes
        fits, may_copy = self._room_for_a_copy()
        if kernels in ("builtin", "reference"):
            return [self._unpacked(kernels)]
        if (self._cache is not None or not may_copy) and not self._compilable():
            self._place = cache_place(self._path, self._header, self._cache)
        can_file = self._place is not None
        forms = [_Form("xnnpack", self._threads, True)] if can_file else []
        if fits or (kernels == "xnnpack" and not can_file and self._limit is None):
            forms.append(_Form("xnnpack", self._threads))
        if kernels is None:
            forms.append(self._unpacked("builtin"))
        if not forms:
            raise Budget(
                f"{self._path}: XNNPACK packs {memory.in_mib(weights)} of weights, more than max_rss = "
                f"{memory.in_mib(self._limit or 0)} has room for, and a file for them fits on no disk or cannot be used; "
                "give kernels=None or 'builtin'",
                file=self._path,
            )
        return forms

    def _room_for_a_copy(self) -> tuple[bool, bool]:
        """Whether a copy of the weights fits in memory, and whether one should be made: not of large ones unasked."""
        limit = self._limit if self._limit is not None else memory.available() // 2
        fits = self._header.constant_bytes + _ROOM <= limit
        return fits, fits and (self._limit is not None or self._header.constant_bytes < CACHE_FROM)

    def _unpacked(self, kernels: str) -> _Form:
        """Kernels that read weights where they are; with more than one thread those of convolutions copy them."""
        return _Form(kernels, self._threads if self._room_for_a_copy()[1] else 1)

    def _load(self, forms: list[_Form]) -> _Form:
        self._unload()
        self._keeps = False
        took = 0
        for form in forms:
            before = memory.resident()[0]
            self._model = self._create(form)
            memory.trim()
            took = memory.resident()[0] - before
            if self._limit is None or took <= self._limit:
                return form
            self._unload()
        assert self._limit is not None
        raise Budget(
            f"{self._path}: LiteRT takes {memory.in_mib(took)} of memory after loading, more than max_rss = "
            f"{memory.in_mib(self._limit)}",
            file=self._path,
        )

    def _create(self, form: _Form) -> Any:
        if form.cached:
            return self._create_cached()
        if self._header.external_files:
            return self._loaded(
                lambda: _Compiled(self._modules, self._path, self._signature, form.kernels, form.threads, "")
            )
        return self._loaded(
            lambda: _Interpreted(self._modules[0], self._path, self._signature, form.kernels, form.threads, False)
        )

    def _create_cached(self) -> Any:
        def create(cache: str) -> Any:
            return self._loaded(
                lambda: _Compiled(self._modules, self._path, self._signature, "xnnpack", self._threads, cache)
            )

        place = self._place
        assert place is not None
        if place.kept is not None and place.kept.exists():
            return create(str(place.kept))
        # The file is mapped once the model is loaded, so it needs no name then, and goes with the process.
        with temporary_folder(".lowtide-cache-", str(place.folder)) as private:
            new = os.path.join(private, "weights.xnnpack")
            model = create(new)
            if place.kept is not None and os.path.exists(new):
                with writing(str(place.kept)):
                    os.replace(new, place.kept)
            return model

    def _loaded(self, create: Callable[[], Any]) -> Any:
        with captured() as errors:
            try:
                return create()
            except Exception as error:
                raise Unsupported(
                    f"{self._path}: LiteRT does not load the model: {_words(error, errors())}", file=self._path
                ) from error

    # ---- Running ---------------------------------------------------------------------------------------------------

    def _unload(self) -> None:
        if self._model is not None:
            with captured():
                self._model = None
            memory.trim()

    def _keep_tensors(self) -> None:
        """Loads the model so that all its inner tensors are kept."""
        if self._header.external_files:
            raise Unsupported(
                f"{self._path}: inner tensors cannot be read from a model with weights in other files", file=self._path
            )
        if self._signature.subgraph != 0:
            raise Unsupported(
                f"{self._path}: only the main subgraph gives inner tensors, not signature {self._signature.key!r}",
                file=self._path,
            )
        form = self._interpretable("inner tensors need")
        self._unload()
        self._model = self._loaded(
            lambda: _Interpreted(self._modules[0], self._path, self._signature, form.kernels, form.threads, True)
        )
        self._form, self._keeps = form, True

    def _interpretable(self, need: str) -> _Form:
        """The form as Interpreter can have it, which takes no packed weights from a file."""
        form = dataclasses.replace(self._form, cached=False)
        if form.kernels == "xnnpack" and not self._room_for_a_copy()[0]:
            if self._pinned:
                raise Budget(
                    f"{self._path}: {need} weights packed in memory, "
                    f"{memory.in_mib(self._header.constant_bytes)}, for which there is no room; give kernels='builtin'",
                    file=self._path,
                )
            form = self._unpacked("builtin")
        os.close(open_regular(self._path))  # LiteRT's own error would not say that the file is missing
        return form

    def _model_for(self, inputs: Mapping[str, Array]) -> Any:
        """The model that is loaded, or one for this run: CompiledModel has no buffers without elements."""
        empty = next((name for name, array in inputs.items() if array.size == 0), None)
        if empty is None or not isinstance(self._model, _Compiled):
            return self._model
        if self._header.external_files:
            raise Unsupported(
                f"{self._path}: input {empty!r} has no elements; LiteRT's CompiledModel cannot do that, and nothing else "
                "reads weights in other files",
                file=self._path,
            )
        form = self._interpretable(f"input {empty!r}, which has no elements, needs")
        return self._loaded(
            lambda: _Interpreted(self._modules[0], self._path, self._signature, form.kernels, form.threads, False)
        )

    def _inner_one(self, name: str) -> tuple[Tensor, np.dtype[Any]]:
        tensor = self._inner[name]
        return tensor, _port(name, tensor).dtype

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        wanted = {name: self._computed.get(name) or self._inner_one(name) for name in outputs}
        if not self._keeps and not all(name in self._computed for name in outputs):
            self._keep_tensors()
        if self._model is None:  # it could not be loaded with its inner tensors
            self._form = self._load([self._form])
        model = self._model_for(inputs)
        with captured() as errors:
            try:
                return dict(model.run(inputs, wanted))
            except Exception as error:
                raise Unsupported(
                    f"{self._path}: LiteRT cannot run the model: {_words(error, errors())}", file=self._path
                ) from error

    def close(self) -> None:
        self._unload()


def _words(error: Exception, lines: list[str]) -> str:
    """What LiteRT says, on one line; its exceptions often only say that there is an error, and where is in the log."""
    text = " ".join(str(error).split())
    return "; ".join(dict.fromkeys([text, *lines]))
