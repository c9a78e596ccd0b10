# SPDX-License-Identifier: Apache-2.0
"""The numbers of two models that have the same names, element types and orders of axes: a divided model and its ONNX model."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from . import memory
from .difference import Difference, Sum
from .errors import Unsupported, Usage
from .port import Array, Port
from .runner import Runner
from .samples import AnySamples


def check_ports(reference: Runner, tested: Runner, where: str) -> None:
    """That a divided model has the inputs and outputs of another model.

    Raises
    ------
    Unsupported
        If a name is not there.
    Usage
        If an element type is another one.
    """
    for what, wanted, found in (
        ("input", reference.inputs, tested.inputs),
        ("output", reference.outputs, tested.outputs),
    ):
        for name, port in wanted.items():
            if name not in found:
                has = ", ".join(map(repr, found)) or "none"
                raise Unsupported(
                    f"{where}: the {what} {name!r} of the model is not there; its {what}s are {has}", file=where
                )
            if found[name].dtype != port.dtype:
                raise Usage(
                    f"{where}: the {what} {name!r} is {found[name].dtype.name}, and {port.dtype.name} in the model"
                )


def compare(
    reference: Runner, tested: Runner, names: Sequence[str], samples: AnySamples
) -> dict[str, tuple[str, Difference]]:
    """Element type and difference of values by name, over all samples. Strings are 0 steps apart, or 1.

    Raises
    ------
    Usage
        If a value has another element type in the two models. Other extents are a difference.
    """
    sums = {name: Sum() for name in names}
    types: dict[str, str] = {}
    for sample in samples:
        expected, got = reference.run(sample, names), tested.run(sample, names)
        for name, total in sums.items():
            types[name] = _add(name, expected.pop(name), got.pop(name), total)
    return {name: (types[name], total.result()) for name, total in sums.items()}


def _add(name: str, expected: Array, got: Array, total: Sum) -> str:
    """Compares a value; the name of its element type."""
    are_strings = expected.dtype.kind in "OSU" and got.dtype.kind in "OSU"
    if expected.dtype != got.dtype and not are_strings:
        raise Usage(f"{name!r} is {expected.dtype.name} in the model and {got.dtype.name} in the pieces")
    if expected.shape != got.shape:
        total.refuse(f"{list(expected.shape)} in the model and {list(got.shape)} in the pieces")
    elif not are_strings:
        total.add(expected, got)
    else:
        total.add_texts(expected, got)
    return "string" if are_strings else expected.dtype.name


def in_groups(ports: Mapping[str, Port], limit: int) -> list[list[str]]:
    """Names of values of which both models' arrays fit into `limit` bytes; extents that are not known count as 1."""
    return memory.in_groups(
        (
            (name, 2 * port.dtype.itemsize * math.prod(n if isinstance(n, int) else 1 for n in port.shape or ()))
            for name, port in ports.items()
        ),
        limit,
    )
