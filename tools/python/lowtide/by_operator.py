# SPDX-License-Identifier: Apache-2.0
"""Every operator of a .tflite file alone: it is given ONNX Runtime's values, and its results are compared with them.

A step in one early element of a quantized network spreads over all that follows. So the sharp test of a kernel gives
it the other runtime's integers. Each operator is cut out of the file (tflite_graph.py). Where a tensor between two
operators is no value of the ONNX model, they are one group.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .closeness import CLOSE_DB, CLOSE_QUANTIZED_DB, closeness, is_multiple, says_little
from .difference import Difference, Sum
from .element_types import SHIFTS, inner_unlike
from .errors import Unsupported
from .matching import Candidates, Order, group_of, has_same_axes, orders, other_extents, stored
from .onnx_graph import Graph
from .operator_runs import Group, OperatorRuns
from .port import Array, dtype_of
from .runner import Runner
from .samples import AnySamples, GivenSamples, Sample
from .tflite_graph import TfliteGraph
from .tflite_header import TYPE_NAMES, Header

# Samples that are looked at where one leaves a choice.
_TRIED = 4
_RESHAPES = {"RESHAPE", "SQUEEZE", "EXPAND_DIMS"}


@dataclasses.dataclass(frozen=True)
class Match:
    """A tensor of the .tflite file that is a value of the ONNX model.

    Attributes
    ----------
    tensor : int
        Index in the main subgraph.
    value : str
        ONNX's name.
    order : tuple of int
        Axes of the ONNX value in the order in which the tensor has them.
    """

    tensor: int
    value: str
    order: Order


@dataclasses.dataclass(frozen=True)
class OperatorResult:
    """A tensor that a group of operators computed.

    Attributes
    ----------
    operators : tuple of int
        Indices in the .tflite file.
    kinds : str
        Their builtins, such as "CONV_2D" or "DEQUANTIZE+LOGISTIC+QUANTIZE".
    tensor, value : str
        Its name, and that of the ONNX value that it was compared with.
    dtype : str
        Its element type.
    quantized : bool
        Whether it stands for real numbers that were rounded to steps.
    rounded : bool
        Whether its numbers depend on such tensors.
    difference : Difference
    """

    operators: tuple[int, ...]
    kinds: str
    tensor: str
    value: str
    dtype: str
    quantized: bool
    rounded: bool
    difference: Difference


class Reference:
    """Values of the ONNX model for a sample, each run giving as many as are asked for."""

    def __init__(self, runner: Runner) -> None:
        self._runner = runner

    def fetch(self, sample: Sample, names: Iterable[str]) -> dict[str, Array]:
        out = {}
        wanted = []
        for name in dict.fromkeys(names):
            if name in sample:
                out[name] = sample[name]
            else:
                wanted.append(name)
        if wanted:
            out.update(self._runner.run(sample, wanted))
        return out


class ByOperator:
    """Compares operators and finds which tensors are which values.

    Parameters
    ----------
    graph, tflite, header
        Both models.
    candidates : Candidates
    reference : Reference
    border : dict of int to Match
        Inputs and outputs of the .tflite file.
    as_file : callable
        Border.as_file: gives a value of the border, by its name, the element type that the file has.
    kernels, threads
        As for Runner.
    limit : int
        Bytes that values of ONNX Runtime may take, and that constants of operators that are kept open may have.
    """

    def __init__(
        self,
        graph: Graph,
        tflite: TfliteGraph,
        header: Header,
        candidates: Candidates,
        reference: Reference,
        border: dict[int, Match],
        as_file: Callable[[str, Array], Array],
        *,
        kernels: str | None,
        threads: int | None,
        limit: int,
    ) -> None:
        self._graph, self._tflite, self._header = graph, tflite, header
        self._candidates, self._reference, self._limit = candidates, reference, limit
        self._runs = OperatorRuns(tflite, header, kernels, threads, limit)
        inputs = {
            port.index for signature in header.signatures if signature.subgraph == 0 for _, port in signature.inputs
        }
        self._outputs = {i: match for i, match in border.items() if i not in inputs}
        self._inputs = {i: match for i, match in border.items() if i in inputs}
        self._as_file = as_file
        self._samples: AnySamples = GivenSamples([], {})
        # Names of the values that are looked at now; a sample's place -> the sample, and those values in it.
        self._chunk: list[str] = []
        self._elsewhere: dict[int, tuple[Sample, dict[str, Array]]] = {}
        self.matches: dict[int, Match] = dict(self._inputs)
        self.groups: list[Group] = []
        # (tensor, shape of the ONNX value) -> the tensor's shape
        self._shapes: dict[tuple[int, tuple[int, ...]], tuple[int, ...]] = {}

    def close(self) -> None:
        self._runs.close()

    def __enter__(self) -> ByOperator:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- Arrays as the .tflite file has them ---------------------------------------------------------------------------

    def dtype(self, tensor: int) -> np.dtype[Any]:
        value = self._tflite.values[tensor]
        return dtype_of(TYPE_NAMES.get(value.tensor.type), repr(value.name))

    def _stored(self, match: Match, array: Array, shape: Sequence[int] | None = None) -> Array:
        value = self._tflite.values[match.tensor]
        if shape is None:
            shape = self._shape_for(match, array)
        if match.tensor in self._inputs or match.tensor in self._outputs:
            array = self._as_file(match.value, array)
        return stored(array, match.order, shape, value, self.dtype(match.tensor))

    def _shape_for(self, match: Match, array: Array) -> tuple[int, ...]:
        """The shape in which an input of a group is given: as it was computed, or the file's with dynamic extents filled in."""
        seen = self._shapes.get((match.tensor, array.shape))
        if seen is not None:
            return seen
        shape = filled([array.shape[i] for i in match.order], self._tflite.values[match.tensor].tensor.shape)
        if shape is None:
            raise Unsupported(
                f"{self._tflite.path}: tensor {self._tflite.values[match.tensor].name!r} has dynamic extents that "
                f"{list(array.shape)} of the ONNX value does not tell; give samples of one shape",
                file=self._tflite.path,
            )
        return shape

    def difference(self, match: Match, expected: Array, got: Array, into: Sum) -> None:
        """Adds the difference of a tensor and the ONNX value, in the tensor's steps if it is quantized."""
        value = self._tflite.values[match.tensor]
        if expected.size != got.size:
            into.refuse(other_extents(expected.shape, got.shape))
            return
        if (
            expected.dtype.kind in "iub"
            and got.dtype.kind in "iub"
            and (expected.dtype.name, got.dtype.name) not in SHIFTS
        ):
            # In a type that holds both: in the tensor's own one, integers that do not fit would wrap to those that are there.
            wide = np.promote_types(expected.dtype, got.dtype)
            expected, got = expected.astype(wide), got.astype(wide)
            want = np.ascontiguousarray(expected.transpose(match.order)).reshape(got.shape)
        else:
            want = self._stored(match, expected, got.shape)
        scale, zero = (1.0, 0.0)
        if value.quantization is not None and want.dtype.kind in "iu":
            scale, zero = value.quantization.over(got.ndim)
        into.add(want, got, scale, zero)

    # ---- Finding values ------------------------------------------------------------------------------------------------

    def find(self, samples: AnySamples) -> None:
        """Finds `matches` and `groups` with the first sample; with more of them where its numbers leave a choice."""
        sample = next(iter(samples))
        self._samples = samples
        for chunk in self._chunks():
            names = [name for op in chunk for i in op_tensors(self._tflite, op) for name in self._names(i)]
            self._chunk, self._elsewhere = names, {}
            values = self._reference.fetch(sample, names)
            for op in chunk:
                self._find_of(op, sample, values)
        self._chunk, self._elsewhere = [], {}
        self._merge_outputs()

    def _names(self, tensor: int) -> list[str]:
        if tensor in self.matches:
            return [self.matches[tensor].value]
        if tensor < 0 or self._tflite.values[tensor].constant:
            return []
        return list(self._candidates.of(tensor))

    def _chunks(self) -> Iterator[list[int]]:
        """Operators in their order, in parts whose values fit, in as many samples as may be looked at."""
        chunk: list[int] = []
        size = 0
        limit = self._limit // min(max(self._samples.count, 1), _TRIED)
        for operator in self._tflite.operators:
            count = sum(
                self._bytes([i]) * max(len(self._names(i)), 1)
                for i in op_tensors(self._tflite, operator.index)
                if not self._tflite.values[i].constant
            )
            if chunk and size + count > limit:
                yield chunk
                chunk, size = [], 0
            chunk.append(operator.index)
            size += count
        if chunk:
            yield chunk

    def _value(self, sample: Sample, values: dict[str, Array], name: str) -> Array:
        if name not in values:
            values.update(self._reference.fetch(sample, [name]))
        return values[name]

    def _find_of(self, op: int, sample: Sample, values: dict[str, Array]) -> None:
        for tensor in self._tflite.operators[op].outputs:
            if tensor in self.matches or tensor < 0:
                continue
            names = self._candidates.of(tensor)
            found = group_of(self._tflite, tensor, self.matches) if names else None
            if found is None or not found[1]:
                continue
            group = Group(tuple(found[0]), tuple(found[1]), (tensor,))
            got = self._run(group, sample, values)
            if tensor in self._outputs:
                match: Match | None = self._outputs[tensor]
            else:
                match = self._match(op, group, got, sample, values)
            if match is not None:
                self._accept(match, group)
                self._shapes[tensor, self._value(sample, values, match.value).shape] = got.shape

    def _run(self, group: Group, sample: Sample, values: dict[str, Array]) -> Array:
        """The only output of a group, given ONNX Runtime's values."""
        inputs = {
            i: self._stored(self.matches[i], self._value(sample, values, self.matches[i].value)) for i in group.inputs
        }
        return self._runs.run(group, inputs)[group.outputs[0]]

    def _others(self, group: Group, names: Iterable[str]) -> Iterator[tuple[Sample, dict[str, Array]]]:
        """The samples after the first in which a choice may be decided, with values and the inputs of a group.

        They are kept for the chunk, as all of its values are: the model is run once for it, not for each tensor.
        """
        names = [*(self.matches[i].value for i in group.inputs), *names]
        for at in range(1, min(self._samples.count, _TRIED)):
            if at not in self._elsewhere:
                sample = next(itertools.islice(iter(self._samples), at, None))
                self._elsewhere[at] = sample, self._reference.fetch(sample, [*self._chunk, *names])
            sample, values = self._elsewhere[at]
            missing = [name for name in names if name not in values]
            values.update(self._reference.fetch(sample, missing))
            yield sample, values

    def _match(self, op: int, group: Group, got: Array, sample: Sample, values: dict[str, Array]) -> Match | None:
        """What the output of a group is, `got` being its numbers in the first sample."""
        tensor = group.outputs[0]
        if says_little(got):
            # Zeros are close to any value that is zero, to any multiple of it, and in any order.
            for other, fetched in self._others(group, self._candidates.of(tensor)):
                numbers = self._run(group, other, fetched)
                if not says_little(numbers):
                    sample, values, got = other, fetched, numbers
                    break
        match = self._closest(tensor, self._possible(op, tensor, got.shape, sample, values), got, values)
        if match is None or self._is_multiple(match, values[match.value], got):
            return None
        return self._settled(group, match, got, values) if self._samples.count > 1 else match

    def _settled(self, group: Group, best: Match, got: Array, values: dict[str, Array]) -> Match:
        """The best match, or another one that is as close in the sample it was found in and remains so in others."""
        tensor, least = best.tensor, min(self._score(best, got, values), CLOSE_DB)
        if least == -np.inf:
            return best
        left = [best]
        for name in dict.fromkeys((best.value, *self._candidates.of(tensor))):
            # Those alone whose axes the extents say: others are guesses, which one sample more does not settle.
            if name in values and has_same_axes(values[name].shape, got.shape):
                shape = values[name].shape
                left += [match for order in orders(shape, got.shape) if (match := Match(tensor, name, order)) != best]
        left = [match for match in left if match == best or self._score(match, got, values) >= least]
        for sample, fetched in self._others(group, [match.value for match in left]) if len(left) > 1 else ():
            numbers = self._run(group, sample, fetched)
            scores = {match: self._score(match, numbers, fetched) for match in left}
            highest = min(max(scores.values()), CLOSE_DB)
            left = [match for match in left if scores[match] >= highest]
            if len(left) == 1:
                break
        # Where numbers do not say it, the order is that of the group's inputs.
        shape = values[left[0].value].shape
        taken = {_axes(self.matches[i].order, shape) for i in group.inputs if len(self.matches[i].order) == len(shape)}
        return next((m for m in left if m.value == left[0].value and _axes(m.order, shape) in taken), left[0])

    def _score(self, match: Match, got: Array, values: dict[str, Array]) -> float:
        """How close a match is in one sample; -inf if it cannot be one."""
        if inner_unlike(values[match.value], self._tflite, match.tensor):
            return -np.inf
        total = Sum()
        self.difference(match, values[match.value], got, total)
        score, close, _ = closeness(total.result())
        return score if close else -np.inf

    def _reshaped(self, op: int, tensor: int) -> Match | None:
        """A reshape's result as the elements of its input: in their order, which an order of axes may not be able to say.

        A flattened image with channels last is such a result; the weights of the product behind it are in that order.
        """
        operator = self._tflite.operators[op]
        if operator.kind not in _RESHAPES or operator.inputs[0] not in self.matches:
            return None
        return dataclasses.replace(self.matches[operator.inputs[0]], tensor=tensor)

    def _accept(self, match: Match, group: Group) -> None:
        self.matches[match.tensor] = match
        self.groups.append(group)

    def _closest(
        self, tensor: int, possible: Iterable[tuple[Match, bool]], got: Array, values: dict[str, Array]
    ) -> Match | None:
        """The match in which the numbers are closest; None if they are not close and the tensor has no value's name.

        `possible` says of each match whether its order of axes is a guess: neither a name nor being close is enough for such a one.
        """
        best: Match | None = None
        best_score, best_is_close, is_settled = -np.inf, False, False
        for match, is_guess in possible:
            named = self._candidates.is_named(tensor, match.value)
            if (
                best is not None
                and not (named or match.value == best.value)
                and (is_settled or self._is_multiple(best, values[best.value], got))
            ):
                break
            total = Sum()
            self.difference(match, values[match.value], got, total)
            score, close, is_sure = closeness(total.result())
            if is_guess and not is_sure:
                continue
            if (close or named) and (close, score) > (best_is_close, best_score):
                best, best_score, best_is_close = match, score, close
                is_settled = is_sure or (close and named)
            if best_score >= CLOSE_DB:
                break
        return best

    def _is_multiple(self, match: Match, expected: Array, got: Array) -> bool:
        """Whether a tensor is its value times a constant, or times one for each index of an axis.

        A scale that is applied later in the ONNX model may have been drawn into weights that come earlier. Then the tensor is
        no value, and is inside of the group that ends behind the scale.
        """
        if expected.dtype.kind != "f" or got.size == 0:
            return False
        value = self._tflite.values[match.tensor]
        real = got.astype(np.float64)
        if got.dtype.kind in "iu":
            if value.quantization is None:
                return False
            scale, zero = value.quantization.over(got.ndim)
            real = (real - zero) * scale
        want = expected.astype(np.float64).transpose(match.order).reshape(got.shape)
        return is_multiple(want, real, CLOSE_DB if got.dtype.kind == "f" else CLOSE_QUANTIZED_DB)

    def _possible(
        self, op: int, tensor: int, shape: Sequence[int], sample: Sample, values: dict[str, Array]
    ) -> Iterator[tuple[Match, bool]]:
        """What a tensor may be, the likeliest first, and whether the order of axes is a guess; values are fetched when their turn comes."""

        def matches(found: Mapping[str, bool]) -> Iterator[tuple[Match, bool]]:
            for name, is_reshaped in found.items():
                if inner_unlike(self._value(sample, values, name), self._tflite, tensor):
                    continue
                source = self._value(sample, values, name).shape
                is_guess = is_reshaped or not has_same_axes(source, shape)
                for order in orders(source, shape):
                    yield Match(tensor, name, order), is_guess

        same = self._reshaped(op, tensor)
        yield from matches(self._candidates.of(tensor))
        if same is not None:
            self._value(sample, values, same.value)
            yield same, False
        # An activation that was drawn into the operator: the tensor has kept the name from before it.
        behind = self._candidates.behind_name(tensor)
        values.update(self._reference.fetch(sample, [name for name in behind if name not in values]))
        yield from matches(behind)

    def _merge_outputs(self) -> None:
        """One group for tensors that the same operators compute."""
        merged: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
        for group in self.groups:
            merged.setdefault((group.operators, group.inputs), []).extend(group.outputs)
        self.groups = [Group(ops, inputs, tuple(outputs)) for (ops, inputs), outputs in merged.items()]

    # ---- Comparing -----------------------------------------------------------------------------------------------------

    def compare(self, samples: AnySamples) -> list[OperatorResult]:
        """All groups over all samples, in the file's order."""
        sums: dict[int, Sum] = {i: Sum() for group in self.groups for i in group.outputs}
        for chunk in self._group_chunks():
            names = [self.matches[i].value for group in chunk for i in (*group.inputs, *group.outputs)]
            for sample in samples:
                values = self._reference.fetch(sample, names)
                for group in chunk:
                    inputs = {i: self._stored(self.matches[i], values[self.matches[i].value]) for i in group.inputs}
                    for i, got in self._runs.run(group, inputs).items():
                        self.difference(self.matches[i], values[self.matches[i].value], got, sums[i])
        assert all(total.arrays == samples.count for total in sums.values())
        return [self._result(group, i, sums[i]) for group in self.groups for i in group.outputs]

    def _result(self, group: Group, tensor: int, total: Sum) -> OperatorResult:
        value = self._tflite.values[tensor]
        dtype = self.dtype(tensor)
        return OperatorResult(
            group.operators,
            "+".join(self._tflite.operators[op].kind for op in group.operators),
            value.name,
            self.matches[tensor].value,
            dtype.name,
            self._tflite.is_quantized(tensor),
            self._tflite.is_rounded(tensor),
            total.result(),
        )

    def _group_chunks(self) -> Iterator[list[Group]]:
        """Groups in their order, in parts whose values fit."""
        chunk: list[Group] = []
        seen: set[int] = set()
        size = 0
        for group in self.groups:
            own = {*group.inputs, *group.outputs}
            if chunk and size + self._bytes(own - seen) > self._limit:
                yield chunk
                chunk, seen, size = [], set(), 0
            chunk.append(group)
            size += self._bytes(own - seen)
            seen |= own
        if chunk:
            yield chunk

    def _bytes(self, tensors: Iterable[int]) -> int:
        """What ONNX Runtime's values for tensors take, with the copy that Python gets."""
        return sum(8 * _elements(self._tflite.values[i].tensor.shape) for i in tensors)


def op_tensors(tflite: TfliteGraph, operator: int) -> list[int]:
    """Inputs and outputs of an operator that are there."""
    found = tflite.operators[operator]
    return [i for i in dict.fromkeys((*found.inputs, *found.outputs)) if i >= 0]


def _axes(order: Order, shape: Sequence[int]) -> Order:
    """An order without the axes of extent 1."""
    return tuple(axis for axis in order if shape[axis] != 1)


def _elements(shape: Sequence[int | None]) -> int:
    return int(np.prod([1 if n is None else n for n in shape], dtype=np.int64))


def filled(moved: Sequence[int], shape: Sequence[int | None]) -> tuple[int, ...] | None:
    """A shape with dynamic extents, filled in from an array's extents in its order; None if they do not tell."""
    if len(moved) == len(shape) and all(b is None or a == b for a, b in zip(moved, shape)):
        return tuple(moved)
    known, count = _elements(shape), _elements(moved)
    if shape.count(None) > 1 or known == 0 or count % known != 0:
        return None
    out = tuple(count // known if n is None else n for n in shape)
    return out if _elements(out) == count else None
