# SPDX-License-Identifier: Apache-2.0
"""The exceptions of the package: one subclass of Error for each kind that the program has (docs/errors.md).

`BY_STATUS` and `BY_KIND` are the table; a test compares it with stream/error.cc.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar


@dataclasses.dataclass(frozen=True)
class RefusedNode:
    """A node that cannot be converted, and why.

    Attributes
    ----------
    node, operator : str
        The node's name and its ONNX operator.
    reason : str
        What is not supported.
    hint : str
        What the user can do; empty where there is nothing.
    place : str
        The input or attribute that is refused; empty for the node as a whole.
    """

    node: str
    operator: str
    reason: str
    hint: str = ""
    place: str = ""


class Error(Exception):
    """Base of all errors of the package; `str(error)` is the message without the kind.

    What is not known of the place is None.

    Attributes
    ----------
    kind : str
        Name of the kind, such as "malformed".
    status : int or None
        Exit status of the program for this kind; None for errors that only Python has.
    file : str or None
        The file that the error is about.
    byte : int or None
        Offset in the file.
    node, operator, opset, input, attribute
        The node of the model, its operator and operator set version, and the part of it.
    reason, hint : str or None
        The message in two parts: what is wrong, and what to do.
    signal : int or None
        The signal that ended the program.
    """

    kind: ClassVar[str] = ""
    status: ClassVar[int | None] = None
    FIELDS: ClassVar[tuple[str, ...]] = (
        "file",
        "byte",
        "node",
        "operator",
        "opset",
        "input",
        "attribute",
        "reason",
        "hint",
        "signal",
    )

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        byte: int | None = None,
        node: str | None = None,
        operator: str | None = None,
        opset: int | None = None,
        input: str | None = None,
        attribute: str | None = None,
        reason: str | None = None,
        hint: str | None = None,
        signal: int | None = None,
    ) -> None:
        super().__init__(message)
        self.file = file
        self.byte = byte
        self.node = node
        self.operator = operator
        self.opset = opset
        self.input = input
        self.attribute = attribute
        self.reason = reason
        self.hint = hint
        self.signal = signal

    def __reduce__(self) -> tuple[Any, ...]:
        # Keyword arguments do not survive the default way of pickling exceptions.
        return _rebuild, (type(self), self.args, self.__dict__)


def _rebuild(kind: type[Error], args: tuple[Any, ...], fields: dict[str, Any]) -> Error:
    error = kind(*args)
    error.__dict__.update(fields)
    return error


class Usage(Error):
    """The arguments, or a value that does not fit the model."""

    kind = "usage"
    status = 2


class NotFound(Error):
    """A file that does not exist or may not be opened, or a folder that may not be written."""

    kind = "not-found"
    status = 3


class Io(Error):
    """Reading or writing failed, or an input changed while it was read."""

    kind = "io"
    status = 4


class NoSpace(Error):
    """The output does not fit on the disk."""

    kind = "no-space"
    status = 5


class Malformed(Error):
    """The file does not follow its format."""

    kind = "malformed"
    status = 6


class UnsafePath(Error):
    """A path that leaves the model's folder, a link, a device, or a folder that others may write."""

    kind = "unsafe-path"
    status = 7


class Unsupported(Error):
    """A valid model that cannot be converted or run.

    Attributes
    ----------
    nodes : tuple of RefusedNode
        Every node that is refused, in the order of the model. Empty if the error is not about nodes.
    """

    kind = "unsupported"
    status = 8

    def __init__(self, message: str, *, nodes: Sequence[RefusedNode] = (), **fields: Any) -> None:
        super().__init__(message, **fields)
        self.nodes: tuple[RefusedNode, ...] = tuple(nodes)


class Budget(Error):
    """The limit on memory, given by `max_rss` or by the system, is too small."""

    kind = "budget"
    status = 9


class Interrupted(Error):
    """The program was interrupted by SIGINT, SIGTERM or SIGHUP that did not come from this process."""

    kind = "interrupted"
    status = 10


class Internal(Error):
    """A bug in Lowtide, or a runtime that fails without a reason."""

    kind = "internal"
    status = 11


class Different(Error):
    """`check`: the TFLite file is not what the ONNX model converts to."""

    kind = "different"
    status = 12


class ProgramMissing(NotFound):
    """The program `lowtide` was not found, or the file is not that program."""


class RuntimeMissing(NotFound):
    """The Python package of a runtime (ai-edge-litert or onnxruntime) is not installed, or cannot be imported."""


class Killed(Error):
    """The program was ended by a signal, such as SIGKILL from the system when memory is short; see `signal`."""

    kind = "killed"


BY_STATUS: dict[int, type[Error]] = {
    kind.status: kind
    for kind in (
        Usage,
        NotFound,
        Io,
        NoSpace,
        Malformed,
        UnsafePath,
        Unsupported,
        Budget,
        Interrupted,
        Internal,
        Different,
    )
    if kind.status is not None
}
BY_KIND: dict[str, type[Error]] = {kind.kind: kind for kind in BY_STATUS.values()}

__all__: list[str] = [
    "BY_KIND",
    "BY_STATUS",
    "Budget",
    "Different",
    "Error",
    "Internal",
    "Interrupted",
    "Io",
    "Killed",
    "Malformed",
    "NoSpace",
    "NotFound",
    "ProgramMissing",
    "RefusedNode",
    "RuntimeMissing",
    "UnsafePath",
    "Unsupported",
    "Usage",
]
