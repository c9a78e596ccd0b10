# SPDX-License-Identifier: Apache-2.0
"""Runs of some operators of a .tflite file, cut out of it (tflite_graph.py)."""

from __future__ import annotations

import dataclasses
import os

from .errors import Unsupported
from .output_path import temporary_folder, writing
from .port import Array
from .runner import Runner
from .tflite_graph import TfliteGraph
from .tflite_header import Header

# What an open operator takes besides its constants.
_OPEN = 256 << 10


@dataclasses.dataclass(frozen=True)
class Group:
    """Operators that are run as one: indices of operators and of tensors."""

    operators: tuple[int, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]


class OperatorRuns:
    """Runs of groups, each in a file of its own; constants of those that stay open have at most `limit` bytes."""

    def __init__(
        self, tflite: TfliteGraph, header: Header, kernels: str | None, threads: int | None, limit: int
    ) -> None:
        self._tflite, self._kernels, self._threads, self._limit = tflite, kernels, threads, limit
        self._folder = temporary_folder()
        for name in {os.path.normpath(name) for name in header.external_files}:
            source = os.path.abspath(os.path.join(os.path.dirname(tflite.path), name))
            if os.path.isfile(source):  # a link to a folder would lead links below it out of this one
                with writing(self._folder.name):
                    target = os.path.join(self._folder.name, name)
                    os.makedirs(os.path.dirname(target), exist_ok=True)
                    os.symlink(source, target)
        self._open: dict[Group, Runner] = {}
        self._open_bytes = 0
        self._count = 0

    def run(self, group: Group, inputs: dict[int, Array]) -> dict[int, Array]:
        """Results by tensor; `inputs` are as the tensors are stored."""
        runner = self._open.get(group)
        if runner is None:
            runner = self._load(group, {i: array.shape for i, array in inputs.items()})
            size = _OPEN + self._tflite.constant_bytes(group.operators)
            if self._open_bytes + size <= self._limit:
                self._open[group] = runner
                self._open_bytes += size
        values = self._tflite.values
        try:
            results = runner.run({values[i].name: array for i, array in inputs.items()})
        finally:
            if group not in self._open:
                runner.close()
        return {i: results[values[i].name] for i in group.outputs}

    def _load(self, group: Group, shapes: dict[int, tuple[int, ...]]) -> Runner:
        self._count += 1
        # Beside the links: with the random name of the folder it is none of theirs.
        path = os.path.join(self._folder.name, f"{os.path.basename(self._folder.name)}-{self._count}.tflite")
        self._tflite.cut(path, group.operators, group.inputs, group.outputs, shapes)
        try:
            return Runner(path, kernels=self._kernels, threads=self._threads)
        except Unsupported as error:
            message = str(error).replace(path, self._tflite.path)
            raise Unsupported(
                f"{message}; operators {', '.join(map(str, group.operators))} alone", file=self._tflite.path
            ) from error
        finally:
            os.unlink(path)  # it is mapped

    def close(self) -> None:
        for runner in self._open.values():
            runner.close()
        self._folder.cleanup()
