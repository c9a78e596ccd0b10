# SPDX-License-Identifier: Apache-2.0
"""The JSON lines of the program, defined in this one place.

``lowtide convert --progress-fd N`` writes to the file descriptor N, one JSON object a line:

    {"event": "progress", "phase": "writing", "done": 1048576, "total": 4194304, "resident": 9437184}
    {"event": "done", "report": {...}}                        the last line of a conversion that succeeds
    {"event": "error", "kind": "malformed", "status": 6, "message": "...", ...}     of one that fails

``--errors json`` writes the last of these forms to stderr in place of the text. Keys may be added, so unknown keys and
unknown events are ignored.
"""

from __future__ import annotations

import dataclasses
import json
from typing import Any, Union

from .errors import BY_KIND, Error, Internal, RefusedNode, Unsupported


@dataclasses.dataclass(frozen=True)
class Progress:
    """How far a conversion is.

    Attributes
    ----------
    phase : str
        What the program does now.
    done, total : int
        Bytes of this phase. `total` is 0 where it is not known.
    resident : int
        Resident memory of the program in bytes.
    """

    phase: str
    done: int
    total: int
    resident: int


@dataclasses.dataclass(frozen=True)
class Done:
    """The end of a conversion that succeeded; `report` has the figures of what ``--report`` writes."""

    report: dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Failed:
    """The end of a conversion that failed; `exception()` is the error to raise.

    Attributes
    ----------
    kind, status, message
        As in docs/errors.md. The other fields are None where they are not known.
    nodes : tuple of RefusedNode
        Every node that is refused.
    """

    kind: str
    status: int
    message: str
    file: str | None = None
    byte: int | None = None
    node: str | None = None
    operator: str | None = None
    opset: int | None = None
    input: str | None = None
    attribute: str | None = None
    reason: str | None = None
    hint: str | None = None
    nodes: tuple[RefusedNode, ...] = ()

    def exception(self) -> Error:
        """The exception of this kind with all fields."""
        fields = {name: getattr(self, name) for name in Error.FIELDS if name != "signal"}
        kind = BY_KIND.get(self.kind, Internal)
        if issubclass(kind, Unsupported):
            return kind(self.message, nodes=self.nodes, **fields)
        return kind(self.message, **fields)


Event = Union[Progress, Done, Failed]


def error_line(error: Error, status: int) -> str:
    """An error that Python has found as the line of ``--errors json``."""
    values: dict[str, Any] = {"event": "error", "kind": error.kind, "status": status, "message": str(error)}
    values.update((name, getattr(error, name)) for name in Error.FIELDS if getattr(error, name) is not None)
    if isinstance(error, Unsupported) and error.nodes:
        values["nodes"] = [dataclasses.asdict(node) for node in error.nodes]
    return json.dumps(values)


def _known(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    names = {field.name for field in dataclasses.fields(cls)}
    return {name: value for name, value in values.items() if name in names}


def parse_event(line: str | bytes) -> Event | None:
    """The event in a line; None for an event that this version does not know.

    Raises
    ------
    ValueError
        If the line is not a JSON object of a known form.
    """
    values = json.loads(line)
    if not isinstance(values, dict):
        raise ValueError("not a JSON object")
    event = values.get("event")
    try:
        if event == "progress":
            return Progress(**_known(Progress, values))
        if event == "done":
            return Done(**_known(Done, values))
        if event == "error":
            known = _known(Failed, values)
            known["nodes"] = tuple(RefusedNode(**_known(RefusedNode, node)) for node in values.get("nodes") or ())
            return Failed(**known)
    except TypeError as error:
        raise ValueError(f"an event '{event}' without a field that it must have: {error}") from None
    return None
