# SPDX-License-Identifier: Apache-2.0
"""One call of convert or merge: the model as a file, the child, its progress, and the report."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import tempfile
from collections.abc import Iterator
from typing import Any, Callable, Protocol, runtime_checkable

from .arguments import PathLike, checked_mapping, checked_path, checked_text, positional, to_arguments
from .errors import Internal, RefusedNode, Unsupported, Usage
from .events import Done, Progress, parse_event
from .output_path import temporary_folder, writing
from .program import Child, child_of, examine, find_program, run_child


@runtime_checkable
class SerializableModel(Protocol):
    """What is taken of an `onnx.ModelProto`."""

    def SerializeToString(self) -> bytes:
        """The model as the bytes of an .onnx file."""


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What a conversion did.

    Attributes
    ----------
    output : pathlib.Path or None
        The file that was written; None with `dry_run`.
    report : dict
        The figures of the report (schemas/report.schema.json), with `peak_rss` of the program in bytes and much else.
    listing : str
        The graph after the pass `dump_after`; empty without it.
    """

    output: pathlib.Path | None
    report: dict[str, Any]
    listing: str = ""


@contextlib.contextmanager
def _as_file(model: object, output: PathLike | None) -> Iterator[str]:
    """The path of a model; one that is in memory is written beside the output for as long as the program reads it."""
    if isinstance(model, (str, os.PathLike)):
        yield checked_path("model", model)
        return
    if not isinstance(model, SerializableModel):
        raise TypeError(f"model must be a path (str or os.PathLike) or an onnx.ModelProto, not {type(model).__name__}")
    if output is None:
        raise TypeError("output is needed: the model has no name of its own")
    out = checked_path("output", output)
    if os.path.isdir(out) or out.endswith("/"):
        raise Usage(f"{out}: is a folder, and the model has no name of its own: give the name of a file", file=out)
    folder = os.path.dirname(os.path.abspath(out))
    content = model.SerializeToString()
    with writing(out):
        number, path = tempfile.mkstemp(dir=folder, prefix=".lowtide-", suffix=".onnx")
    try:
        with writing(path), open(number, "wb") as file:
            file.write(content)
        yield path
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)


def _add_nodes(error: Unsupported, report: PathLike) -> None:
    """Takes the refused nodes from the report, which the program writes for them too."""
    if error.nodes or not os.path.isfile(report) or not os.fspath(report).endswith(".json"):
        return
    values = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))
    names = [field.name for field in dataclasses.fields(RefusedNode)]
    error.nodes = tuple(
        RefusedNode(**{name: node[name] for name in names if name in node}) for node in values.get("refused") or ()
    )
    if len(error.nodes) == 1:
        node = error.nodes[0]
        error.node, error.operator, error.reason, error.hint = node.node, node.operator, node.reason, node.hint
    error.file = error.file or values.get("input")


class WritingCall:
    """One call of a command that writes a TFLite file; another thread may interrupt its child."""

    command: str

    def __init__(self, options: dict[str, Any], progress: Callable[[Progress], None] | None) -> None:
        if progress is not None and not callable(progress):
            raise TypeError(f"progress must be callable, not {type(progress).__name__}")
        self._options, self._progress = options, progress
        self._extra = to_arguments(options)
        self._program = examine(find_program())
        if progress is not None and "progress-fd" not in self._program.options:
            raise Usage(
                f"progress is not offered by {self._program.path} (version {self._program.version}): "
                f"its {self.command} has no --progress-fd"
            )
        self._done: Done | None = None
        self._child: Child | None = None
        self._stopped = False

    def _models(self, stack: contextlib.ExitStack) -> list[str]:
        """The models as arguments; files that are made for them live as long as `stack`."""
        raise NotImplementedError

    def interrupt(self) -> None:
        self._stopped = True
        if self._child is not None:
            self._child.interrupt()

    def _on_line(self, line: bytes) -> None:
        try:
            event = parse_event(line)
        except ValueError as error:
            raise Internal(f"the program wrote a line to --progress-fd that cannot be read: {error}") from error
        if isinstance(event, Progress) and self._progress is not None:
            self._progress(event)
        if isinstance(event, Done):
            self._done = event

    def run(self) -> Conversion:
        with contextlib.ExitStack() as stack:
            arguments = [self.command, *self._models(stack), "--quiet", *self._extra]
            report = self._options["report"]
            # The figures come with the last line of --progress-fd; a program that has none writes them to a file.
            listens = "progress-fd" in self._program.options
            if report is None and not listens:
                report = os.path.join(stack.enter_context(temporary_folder()), "report.json")
                arguments.append(f"--report={report}")
            self._child = child_of(self._program, arguments)
            if self._stopped:
                self._child.interrupt()
            try:
                finished = run_child(self._child, self._on_line if listens else None)
            except Unsupported as error:
                if report is not None:
                    _add_nodes(error, report)
                raise
            if self._done is not None:
                values = self._done.report
            elif report is not None:
                values = json.loads(pathlib.Path(report).read_text(encoding="utf-8"))
            else:
                raise Internal("the program did not write the line 'done' to --progress-fd")
        output = None if self._options["dry_run"] else pathlib.Path(values["output"])
        return Conversion(output, values, finished.stdout if self._options.get("dump_after") is not None else "")


class ConvertCall(WritingCall):
    command = "convert"

    def __init__(self, model: object, options: dict[str, Any], progress: Callable[[Progress], None] | None) -> None:
        if not isinstance(model, (str, os.PathLike, SerializableModel)):
            raise TypeError(
                f"model must be a path (str or os.PathLike) or an onnx.ModelProto, not {type(model).__name__}"
            )
        self._model = model
        super().__init__(options, progress)

    def _models(self, stack: contextlib.ExitStack) -> list[str]:
        return [positional(stack.enter_context(_as_file(self._model, self._options["output"])))]


class MergeCall(WritingCall):
    command = "merge"

    def __init__(self, models: object, options: dict[str, Any], progress: Callable[[Progress], None] | None) -> None:
        self._given = [
            checked_text("a key of models", name) + "=" + checked_path(f"models[{name!r}]", path)
            for name, path in checked_mapping("models", models).items()
        ]
        super().__init__(options, progress)

    def _models(self, stack: contextlib.ExitStack) -> list[str]:
        return self._given
