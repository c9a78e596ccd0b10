# SPDX-License-Identifier: Apache-2.0
"""Lowtide: converts ONNX models to TFLite in little memory, and runs both.

`convert`, `merge`, `partition`, `extract`, `inspect` and `check` call the program `lowtide`, which the package carries. `Runner` runs a model in LiteRT
or ONNX Runtime; `verify` compares a .tflite file with its ONNX model; `calibrate` finds the ranges of tensors, `calibrate_pieces`
those of a divided model. Errors are `Error`, with one subclass a kind. docs/python.md is the guide.

Calling the program needs nothing but Python's own library: numpy is imported with the first use of what runs models.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .commands import check, convert, convert_async, inspect, merge
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
from .parts import Partition, extract, partition
from .program import examine, find_program
from .writing_call import Conversion

if TYPE_CHECKING:
    from .calibration import Calibration, calibrate
    from .pieces_calibration import PiecesCalibration, calibrate_pieces
    from .port import Port
    from .runner import Runner
    from .verification import verify
    from .verification_result import Verification

__all__ = [
    "Budget",
    "Calibration",
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
    "Partition",
    "PiecesCalibration",
    "Port",
    "ProgramMissing",
    "Progress",
    "RefusedNode",
    "Runner",
    "RuntimeMissing",
    "UnsafePath",
    "Unsupported",
    "Usage",
    "Verification",
    "calibrate",
    "calibrate_pieces",
    "check",
    "convert",
    "convert_async",
    "extract",
    "find_program",
    "inspect",
    "merge",
    "partition",
    "verify",
]


# What needs numpy: name -> module.
_WITH_NUMPY = {
    "Calibration": "calibration",
    "PiecesCalibration": "pieces_calibration",
    "Port": "port",
    "Runner": "runner",
    "Verification": "verification_result",
    "calibrate": "calibration",
    "calibrate_pieces": "pieces_calibration",
    "verify": "verification",
}


def __getattr__(name: str) -> Any:
    if name in _WITH_NUMPY:
        import importlib

        from .requirements import need_numpy

        need_numpy()
        return getattr(importlib.import_module(f".{_WITH_NUMPY[name]}", __name__), name)
    if name == "__version__":
        # The program and the package are one distribution; in a source tree, which pip does not know, the program is asked.
        import importlib.metadata

        try:
            return importlib.metadata.version("lowtide")
        except importlib.metadata.PackageNotFoundError:
            return examine(find_program()).version
    raise AttributeError(f"module 'lowtide' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
