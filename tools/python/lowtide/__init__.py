# SPDX-License-Identifier: Apache-2.0
"""Lowtide: converts ONNX models to TFLite in little memory, and runs both.

`convert`, `inspect` and `check` call the program `lowtide`, which the package carries. `Runner` runs a model in LiteRT
or ONNX Runtime. Errors are `Error`, with one subclass a kind. docs/python.md is the guide.
"""

from __future__ import annotations

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
from .port import Port
from .program import find_program
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
