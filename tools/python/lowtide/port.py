# SPDX-License-Identifier: Apache-2.0
"""Inputs and outputs of a model, and arrays checked against them.

The runtimes check little: LiteRT's CompiledModel takes an array that is too short and leaves the rest of its buffer as
it was, and both take big-endian bytes as if they were little-endian. So everything is checked here, and nothing is
converted but the order in memory.
"""

from __future__ import annotations

import dataclasses
import difflib
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Union

import numpy as np
import numpy.typing as npt

from .errors import Unsupported, Usage

Array = npt.NDArray[Any]
Extent = Union[int, str, None]


@dataclasses.dataclass(frozen=True)
class Port:
    """An input or output.

    Attributes
    ----------
    name : str
    dtype : numpy.dtype
        `object` for strings; types of the package ml_dtypes where numpy has none (bfloat16, int4, ...).
    shape : tuple of int, str or None, or None
        A name or None is a dimension that is not fixed; a name that is there twice is one number. None in place of the
        tuple: the model does not say how many dimensions there are.
    bits_of : str
        Of an .onnx file: the float of 8 bits, by ONNX's name ("float8e4m3fn"), whose bits the uint8 elements are. Else empty.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[Extent, ...] | None
    bits_of: str = ""

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.dtype.name}[...]"
        return f"{self.dtype.name}[{', '.join('?' if n is None else str(n) for n in self.shape)}]"


class Session(Protocol):
    """A model in a runtime. A folder of pieces and custom operators implement this too.

    `run` takes arrays that `checked_inputs` has let through, and names that `inputs`, `outputs` or `tensors` have.
    """

    @property
    def inputs(self) -> Mapping[str, Port]:
        """In the model's order."""

    @property
    def outputs(self) -> Mapping[str, Port]:
        """In the model's order."""

    @property
    def tensors(self) -> Sequence[str]:
        """Names of the inner tensors that `run` can return."""

    @property
    def choice(self) -> str:
        """In words: runtime, kernels, and where weights are."""

    def run(self, inputs: Mapping[str, Array], outputs: Sequence[str]) -> dict[str, Array]:
        """Arrays of their own, by name, in the order of `outputs`."""

    def close(self) -> None:
        """Gives everything back; may be called twice."""


def dtype_of(name: str | None, what: str) -> np.dtype[Any]:
    """The dtype of a name, from numpy or ml_dtypes.

    Raises
    ------
    Unsupported
        If there is none, or ml_dtypes is not installed.
    """
    if name is None:
        raise Unsupported(f"{what} has a type that no array has")
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        import ml_dtypes
    except ImportError:
        raise Unsupported(f"{what} is {name}, which needs the package ml_dtypes: pip install ml_dtypes") from None
    dtype: np.dtype[Any] = np.dtype(getattr(ml_dtypes, name))
    return dtype


def unknown_name(what: str, name: str, names: Iterable[str]) -> Usage:
    """The error for a name that a model does not have."""
    names = list(dict.fromkeys(names))
    near = difflib.get_close_matches(name, names, 1)
    if near:
        return Usage(f"no {what} is called {name!r}; did you mean {near[0]!r}?")
    shown = ", ".join(map(repr, names[:10])) + (f", ... ({len(names)} in all)" if len(names) > 10 else "")
    return Usage(f"no {what} is called {name!r}; there are {shown or 'none'}")


def _byte_order(dtype: np.dtype[Any]) -> str:
    order = dtype.byteorder
    if order == "=":
        order = "<" if sys.byteorder == "little" else ">"
    return {"<": "little", ">": "big"}.get(order, "")


def _native(dtype: np.dtype[Any]) -> np.dtype[Any]:
    try:
        return dtype.newbyteorder("=")
    except TypeError:  # numpy's StringDType has no order of bytes
        return dtype


def _check_dtype(port: Port, dtype: np.dtype[Any]) -> None:
    native, is_text = _native(dtype), port.dtype == np.dtype(object) and dtype.kind == "U"
    if dtype == port.dtype or (is_text and dtype == native):
        return
    if is_text or native == port.dtype:
        raise Usage(
            f"input {port.name!r} has {_byte_order(dtype)}-endian bytes; give array.astype({port.dtype.name!r})",
            input=port.name,
        )
    raise Usage(f"input {port.name!r} is {port.dtype.name}, not {dtype.name}", input=port.name)


def _checked_texts(name: str, array: Array) -> Array:
    """Strings as objects. ONNX Runtime calls str() on other objects, and crashes at code points that are not Unicode."""
    if array.dtype.kind == "U" and array.dtype.itemsize:
        codes = np.ascontiguousarray(array).reshape(-1).view(np.uint32)
        if codes.size and codes.max() > sys.maxunicode:
            raise Usage(f"input {name!r} has a character {codes.max():#x}, which Unicode does not have", input=name)
    texts = array.astype(object)
    for text in texts.flat:
        if not isinstance(text, str):
            raise TypeError(f"input {name!r} must have elements of str, not {type(text).__name__}")
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise Usage(f"input {name!r} has a string that cannot be UTF-8: {error}", input=name) from error
    return texts


def _check_shape(port: Port, shape: Sequence[int], symbols: dict[str, tuple[int, str]]) -> None:
    if port.shape is None:
        return
    fits = len(port.shape) == len(shape) and all(
        not isinstance(extent, int) or extent == given for extent, given in zip(port.shape, shape)
    )
    if not fits:
        raise Usage(f"input {port.name!r} is {port}, not {list(shape)}", input=port.name)
    for extent, given in zip(port.shape, shape):
        if isinstance(extent, str):
            first, where = symbols.setdefault(extent, (given, port.name))
            if first != given:
                raise Usage(
                    f"dimension {extent!r} is {given} in input {port.name!r}, but {first} in {where!r}", input=port.name
                )


def checked_inputs(ports: Mapping[str, Port], given: Mapping[str, Any]) -> dict[str, Array]:
    """The arrays in the order of the ports, contiguous, or an error.

    Raises
    ------
    TypeError
        If a value is not a numpy array, or an element of an array of objects not a str.
    Usage
        If a name, dtype, byte order or shape is not the model's, or strings are not Unicode.
    """
    if not isinstance(given, Mapping):
        raise TypeError(f"inputs must be a mapping of str to numpy.ndarray, not {type(given).__name__}")
    for name, array in given.items():
        if name in ports and (not isinstance(array, np.ndarray) or isinstance(array, np.ma.MaskedArray)):
            raise TypeError(f"input {name!r} must be a numpy.ndarray, not {type(array).__name__}")
    check_types(ports, given)
    arrays = {}
    for name, port in ports.items():
        array = _checked_texts(name, given[name]) if port.dtype == np.dtype(object) else given[name]
        # ascontiguousarray makes one dimension of none.
        arrays[name] = np.ascontiguousarray(array).reshape(array.shape)
    return arrays


class Typed(Protocol):
    """An array, or what is known of one before it is read."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its elements."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""


def check_types(ports: Mapping[str, Port], given: Mapping[str, Typed]) -> None:
    """That there is an array for each input, of its element type and its shape.

    Raises
    ------
    Usage
        If a name, dtype, byte order or shape is not the model's.
    """
    for name in given:
        if name not in ports:
            raise unknown_name("input", str(name), ports)
    missing = [name for name in ports if name not in given]
    if missing:
        raise Usage(f"no array for input {', '.join(map(repr, missing))}", input=missing[0])
    symbols: dict[str, tuple[int, str]] = {}
    for name, port in ports.items():
        _check_dtype(port, given[name].dtype)
        _check_shape(port, given[name].shape, symbols)


def checked_outputs(session: Session, wanted: Iterable[str] | None) -> list[str]:
    """The names of the outputs to compute: all of the model's for None.

    Raises
    ------
    Usage
        For a name that is neither an output nor an inner tensor.
    """
    if wanted is None:
        return list(session.outputs)
    if isinstance(wanted, str):
        raise TypeError("outputs must be a sequence of str, not a str")
    names = list(dict.fromkeys(wanted))
    inner: frozenset[str] | None = None
    for name in names:
        if name not in session.outputs:
            inner = frozenset(session.tensors) if inner is None else inner
            if name not in inner:
                raise unknown_name("output or inner tensor", str(name), [*session.outputs, *session.tensors])
    return names
