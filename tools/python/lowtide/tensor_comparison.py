# SPDX-License-Identifier: Apache-2.0
"""The inner tensors of a .tflite file, and its operators one by one, against values of the ONNX model."""

from __future__ import annotations

import math
from collections.abc import Mapping

from . import memory
from .border import Border
from .by_operator import ByOperator, Match, OperatorResult, Reference
from .difference import Sum
from .runner import Runner
from .samples import AnySamples
from .tflite_graph import TfliteGraph
from .tolerances import Tolerances
from .verification_result import TensorResult


def uncompared_count(tflite: TfliteGraph, matched: Mapping[int, Match]) -> int:
    """How many tensors that operators make are no value of the ONNX model."""
    made = [i for op in tflite.operators for i in op.outputs if i >= 0]
    return sum(i not in matched for i in made)


def compare_operators(finder: ByOperator, samples: AnySamples, tolerances: Tolerances) -> list[TensorResult]:
    """Each operator, given ONNX Runtime's values."""

    def judged(result: OperatorResult) -> TensorResult:
        return TensorResult(
            result.tensor,
            result.value,
            result.dtype,
            result.difference,
            tolerances.judge(result.difference, result.dtype, result.quantized, result.rounded),
            result.kinds,
        )

    return [judged(result) for result in finder.compare(samples)]


def compare_tensors(
    finder: ByOperator,
    tflite: TfliteGraph,
    reference: Runner,
    tested: Runner,
    samples: AnySamples,
    border: Border,
    tolerances: Tolerances,
    limit: int,
) -> list[TensorResult]:
    """Each inner tensor of one run, in parts whose values take `limit` bytes."""
    wanted = [i for group in finder.groups for i in group.outputs]
    names = {i: tflite.values[i].name for i in wanted}
    sums = {i: Sum() for i in wanted}
    fetch = Reference(reference).fetch
    sizes = ((i, 8 * math.prod(n or 1 for n in tflite.values[i].tensor.shape)) for i in wanted)
    for part in memory.in_groups(sizes, limit):
        for sample in samples:
            expected = fetch(sample, [finder.matches[i].value for i in part])
            got = tested.run(border.given(sample, tested.inputs), [names[i] for i in part])
            for i in part:
                finder.difference(finder.matches[i], expected[finder.matches[i].value], got[names[i]], sums[i])
    out = []
    for i in wanted:
        result, value = sums[i].result(), tflite.values[i]
        dtype = finder.dtype(i).name
        problem = tolerances.judge(result, dtype, tflite.is_quantized(i), tflite.is_rounded(i))
        out.append(TensorResult(value.name, finder.matches[i].value, dtype, result, problem))
    return out
