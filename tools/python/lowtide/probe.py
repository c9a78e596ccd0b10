# SPDX-License-Identifier: Apache-2.0
"""Types of values that a model does not declare, from one run of it in ONNX Runtime: lowtide partition --probe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from .command_options import CommandParser
from .errors import Usage
from .onnx_session import OnnxSession
from .port import Array, Port
from .program import run_program
from .samples import array_names, read_arrays

_NAMES = {
    "float16": "f16",
    "float32": "f32",
    "float64": "f64",
    "int8": "i8",
    "uint8": "u8",
    "int16": "i16",
    "uint16": "u16",
    "int32": "i32",
    "uint32": "u32",
    "int64": "i64",
    "uint64": "u64",
    "bool": "bool",
}


# Options of lowtide partition that have a value.
_WITH_VALUES = (
    "costs",
    "errors",
    "exclude-node",
    "exclude-op",
    "follow-links",
    "max-piece",
    "max-pieces",
    "max-rss",
    "max-zstd-ratio",
    "output",
    "penalty",
    "prefer",
    "probe",
    "target",
    "value",
    "weights",
)


def _text(array: Array, port: Port | None) -> str | None:
    """f32[1,n,?]: the rank of the array, and the extents that ONNX Runtime infers for every run."""
    if array.dtype.name not in _NAMES:
        return None
    extents = ["?"] * array.ndim
    if port is not None and port.shape is not None and len(port.shape) == array.ndim:
        extents = [str(extent) if isinstance(extent, int) else "?" for extent in port.shape]
    return f"{_NAMES[array.dtype.name]}[{','.join(extents)}]"


def _undeclared(model: str, options: Sequence[str]) -> list[str]:
    finished = run_program(["partition", model, *options, "--dry-run", "--json"])
    return list(json.loads(finished.stdout)["undeclared"])


def declarations(model: str, feed: str, options: Sequence[str]) -> list[str]:
    """Options --value for the values whose types decide what may be in the target.

    Parameters
    ----------
    model : str
        The ONNX model.
    feed : str
        Arrays by input name (.npz).
    options : sequence of str
        Those of lowtide partition without its output.

    Raises
    ------
    Error
        As the program and `OnnxSession` do; Usage where the feed lacks an input.
    """
    found: list[str] = []
    asked: set[str] = set()
    given = array_names(feed)
    arrays: dict[str, Array] = {}
    session: OnnxSession | None = None
    try:
        while True:
            names = [name for name in _undeclared(model, [*options, *found]) if name not in asked]
            if not names:
                return found
            if session is None:
                session = OnnxSession(model, max_rss=None, threads=2, optimization="none")
                _check_feed(feed, given, session.inputs)
                arrays = read_arrays(feed, session.inputs)
            asked.update(names)
            ports = session.inner_ports(names)
            outputs = [name for name in names if name in ports or name in session.outputs]
            for name, array in session.run(arrays, outputs).items():
                text = _text(array, ports.get(name, session.outputs.get(name)))
                if text is not None:
                    found.append(f"--value={name}={text}")
    finally:
        if session is not None:
            session.close()


def _parser() -> CommandParser:
    """The options of lowtide partition, as far as they decide which argument is the model; others are the program's to judge."""
    out = CommandParser("partition", description="", example="")
    out.add_argument("model", metavar="MODEL")
    for name in _WITH_VALUES:
        out.add_argument(f"--{name}", action="append")
    return out


def _without(argv: Sequence[str], names: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The arguments without some options and their values, and without some flags."""
    out: list[str] = []
    rest = iter(argv)
    for text in rest:
        if text in names:
            next(rest, None)
        elif text not in flags and not any(text.startswith(name + "=") for name in names):
            out.append(text)
    return out


def with_declarations(argv: Sequence[str]) -> list[str]:
    """The arguments of lowtide partition with --value for each type that --probe found.

    Raises
    ------
    Error
        As `declarations`; Usage for --probe without a file, and without a model.
    """
    given, _ = _parser().parse_known(_without(argv, ["-o"], []))
    for name in given.probe[:-1]:
        raise Usage(f"--probe {name}: is given twice")
    kept = _without(argv, ["--probe"], [])
    # The runs for types have errors in a form of their own.
    options = _without(kept, ["-o", "--output", "--errors"], ["--dry-run", "--json", "--quiet", "-q", given.model])
    return [*kept, *declarations(given.model, given.probe[-1], options)]


def _check_feed(feed: str, arrays: Sequence[str], inputs: Mapping[str, Port]) -> None:
    for name in inputs:
        if name not in arrays:
            raise Usage(f"--probe {feed}: has no array for the input {name!r}")
    for name in arrays:
        if name not in inputs:
            raise Usage(f"--probe {feed}: the model has no input {name!r} (it has: {', '.join(inputs)})")
