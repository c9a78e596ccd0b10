# SPDX-License-Identifier: Apache-2.0
"""Lowtide: converts ONNX models to TFLite in little memory, and runs both.

`convert`, `inspect` and `check` call the program `lowtide`, which the package carries. `Runner` runs a model in LiteRT
or ONNX Runtime. Errors are `Error`, with one subclass a kind. docs/python.md is the guide.

Calling the program needs nothing but Python's own library: numpy is imported with the first use of `Runner` or `Port`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .commands import Conversion, check, convert, convert_async, inspect
from .errors import (
    Budget,
    Different,
    Error,
    Internal,
    Interrupted,
    Io,
    Killed,
    Malformed,
    NoSpace,
    NotFound,
    ProgramMissing,
    RefusedNode,
    RuntimeMissing,
    UnsafePath,
    Unsupported,
    Usage,
)
from .events import Progress
from .program import find_program

if TYPE_CHECKING:
    from .port import Port
    from .runner import Runner

__all__ = [
    "Budget",
    "Conversion",
    "Different",
    "Error",
    "Internal",
    "Interrupted",
    "Io",
    "Killed",
    "Malformed",
    "NoSpace",
    "NotFound",
    "Port",
    "ProgramMissing",
    "Progress",
    "RefusedNode",
    "Runner",
    "RuntimeMissing",
    "UnsafePath",
    "Unsupported",
    "Usage",
    "check",
    "convert",
    "convert_async",
    "find_program",
    "inspect",
]


def __getattr__(name: str) -> Any:
    if name in ("Port", "Runner"):
        from .requirements import need_numpy

        need_numpy()
        from . import port, runner

        return runner.Runner if name == "Runner" else port.Port
    raise AttributeError(f"module 'lowtide' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
