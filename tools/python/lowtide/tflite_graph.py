# SPDX-License-Identifier: Apache-2.0
"""Operators of a subgraph of a .tflite file, and files that have some of those of the main subgraph only.

`cut` makes a model of a few operators: the file with another list of operators, inputs and outputs. Nothing is
re-encoded. The new file has the flatbuffer at the same places and holes where constants are that the operators do not
use, so it takes no more disk than what they use, whatever the size of the model. What changes are numbers in place (a
length, positions of tables), and two vectors behind the flatbuffer.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any

import numpy as np

from .errors import Malformed, NotFound, Unsupported
from .other_files import open_regular
from .output_path import writing
from .port import Array
from .tflite_header import TYPE_NAMES, Table, Tensor, different, number_at, root_table, tensor_of

# Constants below this are copied with the flatbuffer around them.
_SMALL = 4096
_ALIGNMENT = 16
# XNNPACK reads so many bytes behind a constant.
_BEHIND = 64

# Slots of schemas/tflite.fbs.
_MODEL_CODES, _MODEL_GRAPHS, _MODEL_BUFFERS, _MODEL_SIGNATURES = 1, 2, 4, 7
_GRAPH_TENSORS, _GRAPH_INPUTS, _GRAPH_OUTPUTS, _GRAPH_OPERATORS = 0, 1, 2, 3
_TENSOR_SHAPE = 0
_BUFFER_DATA, _BUFFER_OFFSET, _BUFFER_SIZE = 0, 1, 2

# Operators whose results depend on the extents alone.
_EXTENTS = ("SHAPE", "RANK")
# Operators that keep numbers as they are, and their data in the first input.
_MOVES = ("EXPAND_DIMS", "RESHAPE", "SLICE", "SQUEEZE", "STRIDED_SLICE", "TRANSPOSE")
# Operators whose options name other subgraphs.
_WITH_GRAPHS = ("CALL", "CALL_ONCE", "IF", "WHILE", "STABLEHLO_COMPOSITE", "STABLEHLO_REDUCE", "STABLEHLO_WHILE")


@dataclasses.dataclass(frozen=True)
class Quantization:
    """real = scale * (q - zero); one number each, or arrays with the shape that broadcasts over the tensor."""

    scale: Array
    zero: Array
    axis: int

    def over(self, rank: int) -> tuple[Any, Any]:
        """Scale and zero point as they broadcast over a tensor of a rank."""
        if self.scale.size == 1:
            return float(self.scale[0]), float(self.zero[0])
        shape = [1] * rank
        shape[self.axis] = self.scale.size
        return self.scale.astype(np.float64).reshape(shape), self.zero.astype(np.float64).reshape(shape)


@dataclasses.dataclass(frozen=True)
class Value:
    """A tensor of the subgraph."""

    tensor: Tensor
    quantization: Quantization | None
    constant: bool
    variable: bool
    buffer: int

    @property
    def name(self) -> str:
        return self.tensor.name


@dataclasses.dataclass(frozen=True)
class Operator:
    """An operator: its builtin's name, and indices of tensors; -1 is an optional input that is not given.

    `activation` is the number of a fused one, 0 without; of SUB and DIV alone.
    """

    index: int
    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    activation: int = 0


@dataclasses.dataclass(frozen=True)
class _Constant:
    """Bytes of a buffer: where they are, and where the file says so."""

    begin: int
    size: int
    inline: bool
    offset_at: int = 0  # of Buffer.offset
    size_at: int = 0  # of Buffer.size


def _kinds() -> dict[int, str]:
    from ai_edge_litert import schema_py_generated as schema

    return {code: name for name, code in vars(schema.BuiltinOperator).items() if isinstance(code, int)}


class TfliteGraph:
    """A subgraph of a .tflite file. A context manager: the file is mapped meanwhile.

    Parameters
    ----------
    path : str
        The file.
    subgraph : int
        Its index; `cut` is for the main one, which is the first.

    Raises
    ------
    NotFound, Malformed
        If there is no such file, or if it is not a TFLite file.
    """

    def __init__(self, path: str, subgraph: int = 0) -> None:
        self.path, self._subgraph = path, subgraph
        try:
            self._file = open(open_regular(path), "rb")
            self._data = mmap.mmap(self._file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise NotFound(f"{path}: cannot be opened: {error}", file=path) from error
        try:
            self._read()
        except (struct.error, IndexError) as error:
            self.close()
            raise Malformed(f"{path}: the flatbuffer is damaged: {error}", file=path) from error
        except Malformed:
            self.close()
            raise

    def _read(self) -> None:
        self._model = model = root_table(self.path, self._data)
        graphs = list(model.tables(_MODEL_GRAPHS))
        self._graph = graphs[self._subgraph]
        self._constants: list[_Constant | None] = [self._constant(buffer) for buffer in model.tables(_MODEL_BUFFERS)]
        self._codes = codes = [max(code.number(3, "<i"), code.number(0, "<b")) for code in model.tables(_MODEL_CODES)]
        known = _kinds()
        self._tensor_tables = list(self._graph.tables(_GRAPH_TENSORS))
        self.values = [self._value(i, table) for i, table in enumerate(self._tensor_tables)]
        self.operators: list[Operator] = []
        self._code_of: list[int] = []
        for i, table in enumerate(self._graph.tables(_GRAPH_OPERATORS)):
            self._code_of.append(table.number(0, "<I"))
            code = codes[self._code_of[-1]]
            kind = known.get(code, f"operator {code}")
            activation = next((o.number(0, "<b") for o in table.children(4)), 0) if kind in ("SUB", "DIV") else 0
            self.operators.append(Operator(i, kind, table.integers(1), table.integers(2), activation))
            for index in (*self.operators[-1].inputs, *self.operators[-1].outputs):
                if not -1 <= index < len(self.values):
                    raise struct.error(f"operator {i} uses tensor {index}")
        self.makers = {i: op for op in self.operators for i in op.outputs}
        self._of_others = {
            tensor.number(2, "<I")
            for graph in different(graphs[1:])
            for tensor in different(graph.tables(_GRAPH_TENSORS))
        }

    def step(self, tensor: int) -> float | None:
        """What numbers of a tensor of floats are multiples of: the scale of the DEQUANTIZE that gives them; None without one."""
        while tensor in self.makers and self.makers[tensor].kind in _MOVES:
            tensor = self.makers[tensor].inputs[0]
        maker = self.makers.get(tensor)
        if maker is None or maker.kind != "DEQUANTIZE":
            return None
        quantization = self.values[maker.inputs[0]].quantization
        return float(quantization.scale[0]) if quantization is not None and quantization.scale.size == 1 else None

    def numbers(self, tensor: int) -> Array | None:
        """A constant in its shape; None if the tensor is none, or is of a type that numpy does not have, or if its bytes are not as many."""
        value = self.values[tensor]
        constant = self._constants[value.buffer] if value.buffer < len(self._constants) else None
        name = TYPE_NAMES.get(value.tensor.type) or ""
        if constant is None or name not in ("float32", "int32", "int64"):
            return None
        shape = [-1 if n is None else n for n in value.tensor.shape]
        dtype = np.dtype(name)
        if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != constant.size:
            return None
        numbers: Array = np.frombuffer(self._data[constant.begin : constant.begin + constant.size], dtype)
        return numbers.reshape(shape)

    def is_quantized(self, tensor: int) -> bool:
        """Whether a tensor stands for real numbers that were rounded to steps: it has a scale, or has floats computed from such tensors."""
        is_float = (TYPE_NAMES.get(self.values[tensor].tensor.type) or "").startswith("float")
        return self.is_rounded(tensor) if is_float else self.values[tensor].quantization is not None

    def is_rounded(self, tensor: int) -> bool:
        """Whether numbers of a tensor depend on numbers that were rounded to steps, such as the place of the largest one."""
        seen, left = set(), [tensor]
        while left:
            i = left.pop()
            if i in seen or i < 0 or self.values[i].constant:
                continue
            if self.values[i].quantization is not None:
                return True
            seen.add(i)
            if i in self.makers and self.makers[i].kind not in _EXTENTS:
                left += self.makers[i].inputs
        return False

    def _constant(self, buffer: Table) -> _Constant | None:
        begin, count = buffer.vector(_BUFFER_DATA, 1)
        if count:
            return _Constant(begin, count, True)
        offset, size = buffer.number(_BUFFER_OFFSET, "<Q"), buffer.number(_BUFFER_SIZE, "<Q")
        if offset <= 1 or not size:
            return None
        if offset + size > len(self._data):
            raise struct.error("a constant ends behind the file")
        return _Constant(offset, size, False, buffer.place(_BUFFER_OFFSET), buffer.place(_BUFFER_SIZE))

    def _value(self, index: int, table: Table) -> Value:
        tensor = tensor_of(index, table)
        buffer = table.number(2, "<I")
        constant = table.number(10, "<I") != 0 or (
            buffer < len(self._constants) and self._constants[buffer] is not None
        )
        quantization = None
        for parameters in table.children(4):
            scale = np.array(parameters.numbers(2, "f"), np.float32)
            zero = np.array(parameters.numbers(3, "q"), np.int64)
            if scale.size and zero.size in (0, 1, scale.size):
                every = np.broadcast_to(zero if zero.size else np.zeros(1, np.int64), scale.shape)
                quantization = Quantization(scale, every, parameters.number(6, "<i"))
        # An empty constant has no bytes: no extent can be computed for it, so it is one.
        empty = 0 in tensor.shape
        return Value(tensor, quantization, constant or empty, bool(table.number(5, "<b")), buffer)

    def close(self) -> None:
        self._data.close()
        self._file.close()

    def __enter__(self) -> TfliteGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- Cutting -----------------------------------------------------------------------------------------------------

    def constant_bytes(self, operators: Iterable[int]) -> int:
        """Bytes of the constants that operators use."""
        used = self._buffers_of(operators)
        return sum(constant.size for i, constant in enumerate(self._constants) if constant is not None and i in used)

    def _buffers_of(self, operators: Iterable[int]) -> set[int]:
        operators = list(operators)
        used = {self.values[i].buffer for op in operators for i in self.operators[op].inputs if i >= 0}
        return used | self._of_others if self._runs_graphs(operators) else used

    def _runs_graphs(self, operators: Iterable[int]) -> bool:
        return any(self.operators[op].kind in _WITH_GRAPHS for op in operators)

    def cut(
        self,
        output: str,
        operators: Sequence[int],
        inputs: Sequence[int],
        outputs: Sequence[int],
        shapes: Mapping[int, Sequence[int]] | None = None,
    ) -> None:
        """Writes a model of some operators.

        Its inputs and outputs have the names of their tensors; it has no signatures.

        Parameters
        ----------
        output : str
            The file to write, which is not there yet.
        operators : sequence of int
            Which ones, in the order of the file.
        inputs, outputs : sequence of int
            Tensors.
        shapes : mapping of int to sequence of int, optional
            Shapes of inputs in place of the file's: XNNPACK looks at them when it loads a model, and those of dynamic
            tensors may be too small for what follows.

        Raises
        ------
        Unsupported
            If the model has no inputs or no outputs of its own, whose lists could be replaced.
        Io
            If the file cannot be written.
        """
        used = self._buffers_of(operators)
        kept = [
            constant
            for i, constant in enumerate(self._constants)
            if constant is not None and (i in used or constant.size < _SMALL)
        ]
        dropped = [
            constant
            for i, constant in enumerate(self._constants)
            if constant is not None and constant.size >= _SMALL and i not in used
        ]
        outside = [constant for constant in self._constants if constant is not None and not constant.inline]
        end = min((constant.begin for constant in outside), default=len(self._data))
        patches: list[tuple[int, bytes]] = []
        # Aligned, and the holes are of constants inside of the flatbuffer.
        size = -(-end // _ALIGNMENT) * _ALIGNMENT
        for slot, list_of in ((_GRAPH_INPUTS, inputs), (_GRAPH_OUTPUTS, outputs)):
            place = self._graph.place(slot)
            if not place:
                raise Unsupported(f"{self.path}: the model has no inputs or no outputs", file=self.path)
            patches.append((place, struct.pack("<I", size - place)))
            patches.append((size, struct.pack(f"<I{len(list_of)}i", len(list_of), *list_of)))
            size += 4 + 4 * len(list_of)
        for tensor, shape in ({} if shapes is None else shapes).items():
            place = self._tensor_tables[tensor].place(_TENSOR_SHAPE)
            if place:
                patches.append((place, struct.pack("<I", size - place)))
                patches.append((size, struct.pack(f"<I{len(shape)}i", len(shape), *shape)))
                size += 4 + 4 * len(shape)
        patches += self._operator_list(operators)
        if not self._runs_graphs(operators):
            graphs, _ = self._model.vector(_MODEL_GRAPHS, 4)
            patches.append((graphs - 4, struct.pack("<I", 1)))
            codes, _ = self._model.vector(_MODEL_CODES, 4)
            patches += self._pointing(codes, len(self._codes), {self._code_of[op] for op in operators})
        tensors, _ = self._graph.vector(_GRAPH_TENSORS, 4)
        used_tensors = {*inputs, *(i for op in operators for i in self._tensors_of(op))}
        patches += self._pointing(tensors, len(self.values), used_tensors)
        signatures, _ = self._model.vector(_MODEL_SIGNATURES, 4)
        if signatures:
            patches.append((signatures - 4, bytes(4)))
        moves: list[tuple[int, _Constant]] = []
        for constant in dropped:
            if not constant.inline:
                patches += [(constant.size_at, bytes(8)), (constant.offset_at, bytes(8))]
        for constant in kept:
            if not constant.inline:
                size = -(-size // _ALIGNMENT) * _ALIGNMENT
                patches.append((constant.offset_at, struct.pack("<Q", size)))
                moves.append((size, constant))
                size += constant.size
        holes = sorted((constant.begin, constant.begin + constant.size) for constant in dropped if constant.inline)
        # A new file: a link that is there would be written through.
        with writing(output), open(output, "xb") as file:
            file.truncate(size + _BEHIND)
            at = 0
            for begin, stop in [*holes, (end, end)]:
                self._copy(file.fileno(), at, at, begin - at)
                at = max(at, stop)
            for place, constant in moves:
                self._copy(file.fileno(), place, constant.begin, constant.size)
            for place, content in patches:
                os.pwrite(file.fileno(), content, place)

    def _operator_list(self, operators: Sequence[int]) -> list[tuple[int, bytes]]:
        """The list of operators, shorter. A table is behind the entry that names it, so it is behind each earlier one."""
        first, _ = self._graph.vector(_GRAPH_OPERATORS, 4)
        patches = [(first - 4, struct.pack("<I", len(operators)))]
        for i, index in enumerate(sorted(operators)):
            old, new = first + 4 * index, first + 4 * i
            table = old + number_at(self._data, "<I", old)
            patches.append((new, struct.pack("<I", table - new)))
        return patches

    def _tensors_of(self, operator: int) -> Iterator[int]:
        found = self.operators[operator]
        return (i for i in (*found.inputs, *found.outputs) if i >= 0)

    def _pointing(self, first: int, count: int, used: set[int]) -> list[tuple[int, bytes]]:
        """A list of tables, as long as before, in which all that are not used are one that is.

        So nothing refers to constants that are not there, or to operators that the kernels do not have.
        """
        entries = list(struct.unpack_from(f"<{count}I", self._data, first))
        one = min(used)
        table = first + 4 * one + entries[one]
        for i in range(count):
            if i not in used:
                entries[i] = table - (first + 4 * i)
        return [(first, struct.pack(f"<{count}I", *entries))]

    def _copy(self, to: int, at: int, begin: int, count: int) -> None:
        """Copies bytes of the file in the kernel."""
        os.lseek(to, at, os.SEEK_SET)
        while count > 0:
            done = os.sendfile(to, self._file.fileno(), begin, count)
            if done == 0:
                raise Malformed(f"{self.path}: became shorter while it was read", file=self.path)
            begin, count = begin + done, count - done
