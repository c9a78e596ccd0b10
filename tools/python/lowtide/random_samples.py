# SPDX-License-Identifier: Apache-2.0
"""Random inputs of a model, and the shapes that they have."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.random  # noqa: F401 - numpy would load it at its first use, when an interrupt may come, which its C code loses

from . import small_floats
from .errors import Usage
from .port import Array, Port, unknown_name

_MOST_ELEMENTS = 2**60 - 1  # of 8 bytes


def random_sample(
    ports: Mapping[str, Port], shapes: Mapping[str, Sequence[int]], rng: np.random.Generator
) -> dict[str, Array]:
    """Floats from 0 to 1, 8-bit integers of the whole range, other integers 0 and 1.

    Raises
    ------
    Usage
        For an input of strings.
    """
    out = {}
    for name, port in ports.items():
        shape = tuple(shapes[name])
        _check_random_shape(name, shape)
        if port.dtype.kind in "OSU":
            raise Usage(f"input {name!r} is of strings, which have no random values: give arrays", input=name)
        if port.bits_of:
            out[name] = small_floats.random_bits(port.bits_of, shape, rng)
        elif port.dtype.name in ("int8", "uint8"):
            limits = np.iinfo(port.dtype)
            out[name] = rng.integers(limits.min, limits.max + 1, shape, port.dtype)
        elif port.dtype.kind in "biu":
            out[name] = rng.integers(0, 2, shape).astype(port.dtype)
        else:
            out[name] = np.asarray(rng.random(shape)).astype(port.dtype)
    return out


def generator(seed: int) -> np.random.Generator:
    """Random numbers.

    Raises
    ------
    Usage
    """
    if seed < 0:
        raise Usage(f"seed: {seed} is negative; give 0 or more")
    return np.random.default_rng(seed)


def resolved_shapes(
    ports: Mapping[str, Port], given: Mapping[str, Sequence[int]] | None, model: str
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Shapes for random inputs, and lines on dynamic extents that became 1.

    Raises
    ------
    Usage
        For a name that is no input, or a shape that does not fit.
    """
    given = {} if given is None else given
    for name in given:
        if name not in ports:
            raise unknown_name("input", name, ports)
    shapes, lines = {}, []
    for name, port in ports.items():
        if port.shape is None:
            if name not in given:
                raise Usage(
                    f"{model}: input {name!r} is {port}: the model does not say how many dimensions it has; give its shape "
                    f"(--shape {name}=EXTENTS), or arrays",
                    input=name,
                )
            shapes[name] = tuple(given[name])
            continue
        shape = tuple(given.get(name, [n if isinstance(n, int) else 1 for n in port.shape]))
        if len(shape) != len(port.shape) or any(isinstance(n, int) and n != m for n, m in zip(port.shape, shape)):
            raise Usage(f"{model}: input {name!r} is {port}, not {list(shape)}", input=name)
        if name not in given and shape != port.shape:
            lines.append(f"input {name!r} is {port}; dynamic dimensions are 1 here, see --shape")
        shapes[name] = shape
    return shapes, lines


def _check_random_shape(name: str, shape: Sequence[int]) -> None:
    """That numpy can count the bytes; whether there is memory for them shows when they are made.

    Raises
    ------
    Usage
    """
    if math.prod(max(n, 1) for n in shape) > _MOST_ELEMENTS:
        raise Usage(f"input {name!r}: no array has as many elements as {list(shape)}; give a smaller shape", input=name)


class RandomSamples:
    """The same random samples each time that they are gone through."""

    def __init__(self, count: int, seed: int, ports: Mapping[str, Port], shapes: Mapping[str, Sequence[int]]) -> None:
        generator(seed)  # for its error
        self.count, self._seed, self._ports, self._shapes = count, seed, ports, shapes

    def __iter__(self) -> Iterator[dict[str, Array]]:
        rng = generator(self._seed)
        for _ in range(self.count):
            yield random_sample(self._ports, self._shapes, rng)
