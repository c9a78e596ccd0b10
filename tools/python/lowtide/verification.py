# SPDX-License-Identifier: Apache-2.0
"""verify: a .tflite file, or a divided model, against the ONNX model that it was made from, by the numbers of both runtimes."""

from __future__ import annotations

import dataclasses
import math
import numbers
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Union

import numpy as np

from . import memory, small_floats
from .by_operator import ByOperator, Match, OperatorResult, Reference
from .difference import Difference, Sum
from .errors import Usage
from .matching import Candidates, border_order, check_names, stored, unstored
from .onnx_graph import Graph, read_graph
from .pieces_verification import check_ports, compare, in_groups
from .port import Array, Extent, Port, unknown_name
from .runner import Runner, model_kind
from .samples import AnySamples, GivenSamples, RandomSamples, Sample, Samples
from .tflite_graph import TfliteGraph, Value
from .tflite_header import Header, Signature, read_header

PathLike = Union[str, "os.PathLike[str]"]
# What values of one run may take where nobody says.
_LIMIT = 512 << 20
# Integers made from floats by a good calibration are 15 to 30 dB from the floats; below this, one prediction in three changes.
CALIBRATED_SNR = 15.0


@dataclasses.dataclass(frozen=True)
class Tolerances:
    """What a tensor must keep to; None is no bound. A bound that is negative, infinite or NaN is a Usage error.

    Attributes
    ----------
    rtol, atol : float
        Tensors of floats: the largest error is at most atol + rtol * (largest magnitude of ONNX Runtime's tensor).
    min_snr : float or None
        Tensors of floats and quantized ones: least signal-to-noise ratio in dB. Where it is given, `rtol`, `atol` and
        `max_steps` bound nothing.
    max_steps : int
        Quantized tensors, floats that a DEQUANTIZE gives, and other 8-bit and 16-bit integers: most steps that an element is off. For
        such floats it is enough to keep to `rtol` and `atol`. Integers of 32 and 64 bits and booleans must be equal.
    min_equal : float
        Integers: least share of equal elements.
    calibrated_snr : float or None
        Tensors that are computed from integers where the ONNX model computes in floats: a signal-to-noise ratio in dB that is enough.
    """

    rtol: float = 1e-3
    atol: float = 1e-5
    min_snr: float | None = None
    max_steps: int = 1
    min_equal: float = 0.0
    calibrated_snr: float | None = None

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            _check_bound(field.name, getattr(self, field.name))

    def judge(self, difference: Difference, dtype: str, is_quantized: bool) -> str:
        """Why a tensor is outside; empty if it is not."""
        if difference.not_finite:
            return f"{difference.not_finite} elements are NaN or infinite on one side only"
        problem = self._judge_errors(difference, dtype, is_quantized)
        if not problem and difference.steps is not None and difference.steps.equal < self.min_equal:
            return f"{difference.steps.equal:.4%} of the elements equal, less than {self.min_equal:.4%}"
        return problem

    def _judge_errors(self, difference: Difference, dtype: str, is_quantized: bool) -> str:
        is_float = dtype.startswith(("float", "complex"))
        if self.min_snr is not None and (is_float or is_quantized):
            return _too_noisy(difference, self.min_snr)
        problem = ""
        if difference.steps is not None:
            most = self.max_steps if is_quantized or dtype in ("int8", "uint8", "int16", "uint16") else 0
            if difference.steps.largest > most:
                problem = f"{difference.steps.largest} steps off, more than {most}"
        if is_float and (problem or difference.steps is None):
            floats = self._judge_floats(difference)
            problem = floats and (problem or floats)
        if problem and is_quantized and self.calibrated_snr is not None:
            noise = _too_noisy(difference, self.calibrated_snr)
            return noise and f"{problem}; {noise}"
        return problem

    def _judge_floats(self, difference: Difference) -> str:
        if difference.max_abs <= self.atol or difference.max_rel <= self.rtol:
            return ""
        largest = difference.max_abs / difference.max_rel if math.isfinite(difference.max_rel) else 0.0
        if difference.max_abs <= self.atol + self.rtol * largest:
            return ""
        return f"largest error {difference.max_abs:.3g}, {difference.max_rel:.2g} of the largest magnitude"


def _check_bound(name: str, value: Any) -> None:
    """Nothing is less than NaN or more than it: as a bound it would let everything pass."""
    if value is None and name in ("min_snr", "calibrated_snr"):
        return
    kind: Any = numbers.Integral if name == "max_steps" else numbers.Real
    if isinstance(value, bool) or not isinstance(value, kind):
        words = "an int" if name == "max_steps" else "a number"
        raise TypeError(f"{name} must be {words}, not {type(value).__name__}")
    most = 1.0 if name == "min_equal" else math.inf
    if not (0 <= value <= most and value < math.inf):
        raise Usage(f"{name} is {value}, but must be " + ("from 0 to 1" if most == 1 else "0 or more, and finite"))


def _too_noisy(difference: Difference, least: float) -> str:
    return f"signal-to-noise {difference.snr_db:.1f} dB, less than {least:g}" if difference.snr_db < least else ""


@dataclasses.dataclass(frozen=True)
class TensorResult:
    """An output or an inner tensor over all samples.

    Attributes
    ----------
    name : str
        Its name in the .tflite file.
    value : str
        The ONNX value that it was compared with.
    dtype : str
        Its element type in the .tflite file.
    difference : Difference
    problem : str
        Why it is outside of the tolerances; empty if it is not.
    operators : str
        With by_op: the builtins that computed it.
    """

    name: str
    value: str
    dtype: str
    difference: Difference
    problem: str
    operators: str = ""

    def values(self) -> dict[str, Any]:
        """For JSON."""
        out = {
            "name": self.name,
            "value": self.value,
            "dtype": self.dtype,
            **self.difference.values(),
            "problem": self.problem,
        }
        if self.operators:
            out["operators"] = self.operators
        return out


@dataclasses.dataclass(frozen=True)
class Verification:
    """What `verify` found.

    Attributes
    ----------
    passed : bool
        Whether everything that was compared is within the tolerances.
    samples : int
    onnx, tflite : str
        How the models were run.
    outputs : list of TensorResult
    tensors : list of TensorResult
        With by_tensor and by_op, in the order in which the .tflite file computes them.
    uncompared : int
        With by_tensor and by_op: tensors that are no value of the ONNX model.
    first_difference : TensorResult or None
        The first of `tensors`, or else of `outputs`, that is outside of the tolerances. By operator, outputs are not
        judged: single steps of early operators grow on the way.
    spread : bool
        Outputs are more steps off than the tolerance, and the operators, judged one by one, are not: rounding that spreads.
    """

    passed: bool
    samples: int
    onnx: str
    tflite: str
    outputs: list[TensorResult]
    tensors: list[TensorResult]
    uncompared: int
    first_difference: TensorResult | None
    spread: bool = False

    def integers(self) -> dict[str, Any] | None:
        """All integer tensors together: how many, of how many elements, their shares and the most steps."""
        found = [tensor.difference for tensor in self.tensors if tensor.difference.steps is not None]
        elements = sum(difference.elements for difference in found)
        if elements == 0:
            return None
        steps = [
            (difference.elements / elements, difference.steps) for difference in found if difference.steps is not None
        ]
        return {
            "tensors": len(found),
            "elements": elements,
            "equal": sum(weight * each.equal for weight, each in steps),
            "within_1": sum(weight * each.within_1 for weight, each in steps),
            "within_2": sum(weight * each.within_2 for weight, each in steps),
            "largest": max(each.largest for _, each in steps),
        }

    def values(self) -> dict[str, Any]:
        """For JSON: infinite numbers are None."""
        first = self.first_difference
        return {
            "passed": self.passed,
            "samples": self.samples,
            "onnx": self.onnx,
            "tflite": self.tflite,
            "outputs": [tensor.values() for tensor in self.outputs],
            "tensors": [tensor.values() for tensor in self.tensors],
            "integers": self.integers(),
            "uncompared": self.uncompared,
            "first_difference": None if first is None else first.name,
            "spread": self.spread,
        }


class _Border:
    """Inputs and outputs of both models: order of axes, element types."""

    def __init__(self, signature: Signature, graph: TfliteGraph, layouts: Mapping[str, str]) -> None:
        self._signature, self._graph, self._layouts = signature, graph, layouts
        names = [name for name, _ in (*signature.inputs, *signature.outputs)]
        for name, layout in layouts.items():
            if name not in names:
                raise unknown_name("input or output", name, names)
            if layout not in ("nhwc", "nchw"):
                raise Usage(f"--layout {name}={layout}: the order must be nhwc or nchw")

    def order(self, name: str, shape: Sequence[int], target: Sequence[Extent]) -> tuple[int, ...]:
        return border_order(name, shape, target, self._layouts.get(name))

    def _index(self, name: str) -> int:
        return next(t.index for n, t in (*self._signature.inputs, *self._signature.outputs) if n == name)

    def value(self, name: str) -> Value:
        return self._graph.values[self._index(name)]

    def step(self, name: str) -> float | None:
        return self._graph.step(self._index(name))

    def is_quantized(self, name: str) -> bool:
        return self._graph.is_quantized(self._index(name))

    def matches(self, shapes: Mapping[str, Sequence[int]]) -> dict[int, Match]:
        out = {}
        for name, tensor in (*self._signature.inputs, *self._signature.outputs):
            if name in shapes:
                out[tensor.index] = Match(tensor.index, name, self.order(name, shapes[name], tensor.shape))
        return out

    def given(self, sample: Sample, ports: Mapping[str, Port]) -> Sample:
        """A sample of the ONNX model as the .tflite file takes it."""
        out = {}
        for name, port in ports.items():
            array = sample[name]
            order = self.order(name, array.shape, port.shape)
            out[name] = stored(array, order, [array.shape[i] for i in order], self.value(name), port.dtype)
        return out


class _OutputSum:
    """An output: in its own type, and as real numbers where it is quantized and ONNX's is not. Floats that a DEQUANTIZE gives count in steps too."""

    def __init__(self, value: Value, step: float | None) -> None:
        self._own, self._real = Sum(), Sum()
        self._has_real = False
        self._quantization, self._value, self._step = value.quantization, value, step

    def add(self, expected: Array, got: Array) -> None:
        is_integer = got.dtype.kind in "iu" and self._quantization is not None
        if not is_integer and self._step is None:
            self._own.add(expected.astype(got.dtype) if expected.dtype.kind != "f" else expected, got)
            return
        scale: Any = self._step
        zero: Any = 0.0
        if is_integer and self._quantization is not None:
            scale, zero = self._quantization.over(got.ndim)
        if expected.dtype.kind == "f":
            # Not clipped to the type: what is outside of its range is an error as well.
            self._has_real = True
            real = (got.astype(np.float64) - zero) * scale if is_integer else got
            self._real.add(expected, real.astype(np.float32))
            self._own.add(_levels(expected, scale), _levels(real, scale), scale)
            return
        expected = stored(expected, tuple(range(expected.ndim)), expected.shape, self._value, got.dtype)
        self._own.add(expected, got, scale, zero)

    def result(self) -> Difference:
        own = self._own.result()
        return dataclasses.replace(self._real.result(), steps=own.steps) if self._has_real else own


def _levels(real: Array, scale: Any) -> Array:
    """Real numbers in steps, rounded as QuantizeLinear does it."""
    with np.errstate(invalid="ignore", over="ignore"):
        steps: Array = np.rint(real.astype(np.float64) / scale)
    whole: Array = np.clip(np.nan_to_num(steps), -(2.0**53), 2.0**53).astype(np.int64)
    return whole


def _outputs(
    reference: Runner, tested: Runner, samples: AnySamples, border: _Border, tolerances: Tolerances
) -> list[TensorResult]:
    # Those that the TFLite file keeps itself are no outputs of it.
    names = [name for name in reference.outputs if name in tested.outputs]
    sums = {name: _OutputSum(border.value(name), border.step(name)) for name in names}
    types = {}
    for sample in samples:
        expected = reference.run(sample)
        got = tested.run(border.given(sample, tested.inputs))
        for name, total in sums.items():
            array = got[name]
            order = border.order(name, expected[name].shape, array.shape)
            want, have = expected[name], unstored(array, order, expected[name].shape)
            if element := reference.outputs[name].bits_of:
                want, have = small_floats.in_order(want, element), small_floats.in_order(have, element)
            total.add(want, have)
            types[name] = array.dtype.name
    out = []
    for name, total in sums.items():
        result = total.result()
        problem = tolerances.judge(result, types[name], border.is_quantized(name))
        out.append(TensorResult(name, name, types[name], result, problem))
    return out


def _uncompared(tflite: TfliteGraph, matched: Mapping[int, Match]) -> int:
    made = [i for op in tflite.operators for i in op.outputs if i >= 0]
    return sum(i not in matched for i in made)


def _by_op(finder: ByOperator, samples: AnySamples, tolerances: Tolerances) -> list[TensorResult]:
    def judged(result: OperatorResult) -> TensorResult:
        return TensorResult(
            result.tensor,
            result.value,
            result.dtype,
            result.difference,
            tolerances.judge(result.difference, result.dtype, result.quantized),
            result.kinds,
        )

    return [judged(result) for result in finder.compare(samples)]


def _by_tensor(
    finder: ByOperator,
    tflite: TfliteGraph,
    reference: Runner,
    tested: Runner,
    samples: AnySamples,
    border: _Border,
    tolerances: Tolerances,
    limit: int,
) -> list[TensorResult]:
    wanted = [i for group in finder.groups for i in group.outputs]
    names = {i: tflite.values[i].name for i in wanted}
    sums = {i: Sum() for i in wanted}
    fetch = Reference(reference).fetch
    for part in _parts(tflite, wanted, limit):
        for sample in samples:
            expected = fetch(sample, [finder.matches[i].value for i in part])
            got = tested.run(border.given(sample, tested.inputs), [names[i] for i in part])
            for i in part:
                finder.difference(finder.matches[i], expected[finder.matches[i].value], got[names[i]], sums[i])
    out = []
    for i in wanted:
        result, value = sums[i].result(), tflite.values[i]
        dtype = finder.dtype(i).name
        is_quantized = tflite.is_quantized(i)
        problem = tolerances.judge(result, dtype, is_quantized)
        out.append(TensorResult(value.name, finder.matches[i].value, dtype, result, problem))
    return out


def _parts(tflite: TfliteGraph, tensors: Sequence[int], limit: int) -> list[list[int]]:
    parts: list[list[int]] = [[]]
    size = 0
    for i in tensors:
        count = 8 * math.prod(1 if n is None else n for n in tflite.values[i].tensor.shape)
        if parts[-1] and size + count > limit:
            parts.append([])
            size = 0
        parts[-1].append(i)
        size += count
    return parts


def resolved_shapes(
    ports: Mapping[str, Port], given: Mapping[str, Sequence[int]] | None, model: str
) -> tuple[dict[str, tuple[int, ...]], list[str]]:
    """Shapes for random inputs, and lines on dynamic extents that became 1.

    Raises
    ------
    Usage
        For a name that is no input, or a shape that does not fit.
    """
    given = {} if given is None else given
    for name in given:
        if name not in ports:
            raise unknown_name("input", name, ports)
    shapes, lines = {}, []
    for name, port in ports.items():
        shape = tuple(given.get(name, [n if isinstance(n, int) else 1 for n in port.shape]))
        if len(shape) != len(port.shape) or any(isinstance(n, int) and n != m for n, m in zip(port.shape, shape)):
            raise Usage(f"{model}: input {name!r} is {port}, not {list(shape)}", input=name)
        if name not in given and shape != port.shape:
            lines.append(f"input {name!r} is {port}; dynamic dimensions are 1 here, see --shape")
        shapes[name] = shape
    return shapes, lines


def _path(name: str, value: object) -> str:
    path = os.fspath(value) if isinstance(value, (str, os.PathLike)) else None
    if not isinstance(path, str):
        raise TypeError(f"{name} must be a str or os.PathLike of str, not {type(value).__name__}")
    return path


def _chosen_samples(
    inputs: PathLike | Mapping[str, Array] | Sequence[Mapping[str, Array]] | None,
    random: int | None,
    seed: int,
    shape: Mapping[str, Sequence[int]] | None,
    runner: Runner,
    model: str,
) -> AnySamples:
    if inputs is not None:
        if random is not None:
            raise Usage("inputs and random are two kinds of samples: give one")
        if shape:
            raise Usage("shape is for random numbers, and inputs has the arrays")
        if isinstance(inputs, (str, os.PathLike)):
            return Samples(inputs, runner.inputs)
        return GivenSamples([inputs] if isinstance(inputs, Mapping) else list(inputs), runner.inputs)
    count = 1 if random is None else random
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"random must be an int, not {type(count).__name__}")
    if count < 1:
        raise Usage(f"random is {count}, but must be 1 or more")
    return RandomSamples(count, seed, runner.inputs, resolved_shapes(runner.inputs, shape, model)[0])


def verify(
    model: PathLike,
    tflite: PathLike,
    *,
    inputs: PathLike | Mapping[str, Array] | Sequence[Mapping[str, Array]] | None = None,
    random: int | None = None,
    seed: int = 0,
    shape: Mapping[str, Sequence[int]] | None = None,
    layout: Mapping[str, str] | None = None,
    kernels: str | None = None,
    optimization: str | None = None,
    by_tensor: bool = False,
    by_op: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    min_snr: float | None = None,
    max_steps: int | None = None,
    min_equal: float = Tolerances.min_equal,
    max_rss: int | str | None = None,
    threads: int | None = None,
) -> Verification:
    """Runs an ONNX model in ONNX Runtime and its .tflite file in LiteRT, and compares the numbers.

    The keywords are the long options of ``lowtide verify``. Inputs and outputs are matched by their names; the .tflite
    file may have them in ONNX's order of axes or with channels last. Folders of pieces, which `partition` makes, take
    the place of either model: they run piece after piece.

    Parameters
    ----------
    model : path
        The ONNX model, or its pieces.
    tflite : path
        The .tflite file, or a folder of pieces.
    inputs : path, mapping, or sequence of mappings, optional
        Samples: a folder or an .npz file (docs/quantization.md), or arrays by input name. Random numbers without it.
    random : int, optional
        How many random samples; 1 by default.
    seed : int
        Of the random numbers.
    shape : mapping of str to sequence of int, optional
        Shapes of dynamic inputs that get random numbers; other dynamic dimensions are 1.
    layout : mapping of str to str, optional
        "nhwc" for an input or output that was converted with it, where its extents do not say it.
    kernels : str, optional
        "xnnpack", "builtin" or "reference". By default XNNPACK, and the builtin ones where its weights do not fit.
    optimization : str, optional
        Of ONNX Runtime: "none", "basic", "extended" or "all". By default the highest whose memory fits.
    by_tensor : bool
        Compare inner tensors as well; of a folder of pieces, the values that pass between them.
    by_op : bool
        Compare each operator, given ONNX Runtime's values. Not for folders of pieces.
    rtol, atol, min_snr, max_steps, min_equal
        The attributes of `Tolerances`, with its defaults. Where none of the first four is given, files that compute in integers are judged
        as docs/quantization.md says: operator by operator, or, if the ONNX model computes in floats, by 15 dB.
    max_rss : int or str, optional
        Memory that both models and the values to compare may take, in bytes or as "512M".
    threads : int, optional
        Threads of one operator.

    Returns
    -------
    Verification
        What was found; `passed` says whether it is within the tolerances.

    Raises
    ------
    Error
        If a model cannot be run, or if the models' inputs and outputs are not the same.
    TypeError
        For an argument of a wrong type.
    """
    names = (_path("model", model), _path("tflite", tflite))
    if by_tensor and by_op:
        raise Usage("by_tensor and by_op are two comparisons: give one")
    kinds = (model_kind(names[0]), model_kind(names[1]))
    _check_kinds(names, kinds, by_tensor=by_tensor, by_op=by_op, layout=layout)
    limit = None if max_rss is None else memory.size("max_rss", max_rss)
    is_stated = any(bound is not None for bound in (rtol, atol, min_snr, max_steps))
    tolerances = Tolerances(
        rtol=Tolerances.rtol if rtol is None else rtol,
        atol=Tolerances.atol if atol is None else atol,
        min_snr=min_snr,
        max_steps=Tolerances.max_steps if max_steps is None else max_steps,
        min_equal=min_equal,
    )
    runtimes = _Runtimes(names, kinds, limit, kernels, optimization, threads)

    def chosen_samples(reference: Runner) -> AnySamples:
        return _chosen_samples(inputs, random, seed, shape, reference, names[0])

    if kinds[1] == "pieces":
        return _of_pieces(runtimes, chosen_samples, tolerances, by_tensor)
    layouts = {} if layout is None else layout
    return _of_file(
        runtimes, chosen_samples, tolerances, layouts, by_tensor=by_tensor, by_op=by_op, is_stated=is_stated
    )


@dataclasses.dataclass(frozen=True)
class _Runtimes:
    """How the two models are run. `limit` is for both of them and the values, a third each."""

    names: tuple[str, str]
    kinds: tuple[str, str]
    limit: int | None
    kernels: str | None
    optimization: str | None
    threads: int | None

    @property
    def third(self) -> int | None:
        return None if self.limit is None else max(self.limit // 3, 1)

    @property
    def values_limit(self) -> int:
        third = self.third
        return _LIMIT if third is None else third

    def reference(self) -> Runner:
        return Runner(self.names[0], max_rss=self.third, threads=self.threads, optimization=self.optimization)

    def tested(self) -> Runner:
        optimization = self.optimization if self.kinds[1] == "pieces" else None
        return Runner(
            self.names[1], max_rss=self.third, threads=self.threads, kernels=self.kernels, optimization=optimization
        )


def _of_file(
    runtimes: _Runtimes,
    chosen_samples: Callable[[Runner], AnySamples],
    tolerances: Tolerances,
    layouts: Mapping[str, str],
    *,
    by_tensor: bool,
    by_op: bool,
    is_stated: bool,
) -> Verification:
    """A .tflite file: its outputs, and its tensors or operators where they are asked for or tell whether rounding spreads."""
    model, tflite = runtimes.names
    header = read_header(tflite)
    signature = header.signatures[0]
    if signature.subgraph != 0:
        raise Usage(f"{tflite}: its first signature is not of the main subgraph", file=tflite)
    with TfliteGraph(tflite) as parts, runtimes.reference() as reference:
        is_whole = runtimes.kinds[0] == "onnx"
        graph = read_graph(model) if is_whole else Graph([], list(reference.inputs), list(reference.outputs), {})
        check_names(tflite, signature, graph)
        if is_whole and not is_stated and not graph.is_quantized:
            tolerances = dataclasses.replace(tolerances, calibrated_snr=CALIBRATED_SNR)
        samples = chosen_samples(reference)
        border = _Border(signature, parts, layouts)
        with runtimes.tested() as tested:
            choice = tested.choice
            outputs = _outputs(reference, tested, samples, border, tolerances)
        tensors: list[TensorResult] = []
        uncompared = 0
        # Rounding of early operators spreads: what is asked is whether each operator rounds right.
        outside = [output for output in outputs if output.problem]
        is_spread = bool(outside) and is_whole and graph.is_quantized and not (is_stated or by_op or by_tensor)
        is_spread = is_spread and all(_may_be_spread(output, border) for output in outside)
        if by_op or by_tensor or is_spread:
            tensors, uncompared = _inner(
                graph, parts, header, reference, samples, border, tolerances, runtimes, by_op=by_op or is_spread
            )
        onnx = reference.choice
    is_spread = is_spread and not any(tensor.problem for tensor in tensors)
    if is_spread:
        outputs = [dataclasses.replace(output, problem="") for output in outputs]
    judged = tensors if by_op else [*tensors, *outputs]
    first = next((tensor for tensor in judged if tensor.problem), None)
    return Verification(first is None, samples.count, onnx, choice, outputs, tensors, uncompared, first, is_spread)


def _may_be_spread(output: TensorResult, border: _Border) -> bool:
    """Whether single steps of operators before it can explain how far an output is off."""
    difference = output.difference
    return (
        border.is_quantized(output.name) and difference.not_finite == 0 and not _too_noisy(difference, CALIBRATED_SNR)
    )


def _check_kinds(
    names: tuple[str, str],
    kinds: tuple[str, str],
    *,
    by_tensor: bool,
    by_op: bool,
    layout: Mapping[str, str] | None,
) -> None:
    if kinds[0] == "tflite":
        raise Usage(f"{names[0]}: is a TFLite file; the ONNX model comes first", file=names[0])
    if kinds[1] == "onnx":
        raise Usage(f"{names[1]}: is neither a .tflite file nor a folder of pieces", file=names[1])
    if by_op and "pieces" in kinds:
        raise Usage(
            "by_op is for a .tflite file and its ONNX model, not for folders of pieces; by_tensor compares the values between them"
        )
    if by_tensor and kinds == ("pieces", "tflite"):
        raise Usage("by_tensor needs the ONNX model itself, not its pieces: they have other inner tensors")
    if layout and kinds[1] == "pieces":
        raise Usage("layout is for .tflite files: a folder of pieces has ONNX's order of axes")


def _of_pieces(
    runtimes: _Runtimes, chosen_samples: Callable[[Runner], AnySamples], tolerances: Tolerances, by_tensor: bool
) -> Verification:
    """A folder of pieces: its outputs, and with `by_tensor` the values that pass between pieces."""

    def results(names: Sequence[str]) -> list[TensorResult]:
        out = []
        for name, (dtype, difference) in compare(reference, tested, names, samples).items():
            problem = tolerances.judge(difference, dtype, False)
            if dtype == "string" and difference.steps is not None and difference.steps.largest:
                problem = f"{1 - difference.steps.equal:.4%} of the strings differ"
            out.append(TensorResult(name, name, dtype, difference, problem))
        return out

    with runtimes.reference() as reference, runtimes.tested() as tested:
        check_ports(reference, tested, runtimes.names[1])
        samples = chosen_samples(reference)
        outputs = results(list(reference.outputs))
        tensors: list[TensorResult] = []
        uncompared = 0
        if by_tensor:
            known = set(reference.tensors)
            seams = tested.inner_ports([name for name in tested.tensors if name in known])
            uncompared = len(tested.tensors) - len(seams)
            for group in in_groups(seams, runtimes.values_limit) if seams else []:
                tensors += results(group)
        first = next((tensor for tensor in [*tensors, *outputs] if tensor.problem), None)
        return Verification(
            first is None, samples.count, reference.choice, tested.choice, outputs, tensors, uncompared, first
        )


def _inner(
    graph: Graph,
    parts: TfliteGraph,
    header: Header,
    reference: Runner,
    samples: AnySamples,
    border: _Border,
    tolerances: Tolerances,
    runtimes: _Runtimes,
    *,
    by_op: bool,
) -> tuple[list[TensorResult], int]:
    sample = next(iter(samples))
    expected = reference.run(sample)
    shapes = {name: array.shape for name, array in (*sample.items(), *expected.items())}
    finder = ByOperator(
        graph,
        parts,
        header,
        Candidates(graph, parts, header.signatures[0]),
        Reference(reference),
        border.matches(shapes),
        kernels=runtimes.kernels,
        threads=runtimes.threads,
        limit=runtimes.values_limit,
    )
    with finder:
        finder.find(sample)
        uncompared = _uncompared(parts, finder.matches)
        if by_op:
            return _by_op(finder, samples, tolerances), uncompared
        with runtimes.tested() as tested:
            limit = runtimes.values_limit
            return _by_tensor(finder, parts, reference, tested, samples, border, tolerances, limit), uncompared
