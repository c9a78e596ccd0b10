# SPDX-License-Identifier: Apache-2.0
"""verify: a .tflite file, or a divided model, against the ONNX model that it was made from, by the numbers of both runtimes."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Union

from . import memory
from .border import Border
from .by_operator import ByOperator, Reference
from .errors import Usage
from .litert_session import chosen_signature
from .matching import Candidates, check_names
from .onnx_graph import Graph, read_graph
from .output_comparison import compare_outputs
from .pieces_verification import check_ports, compare, in_groups
from .port import Array
from .random_samples import RandomSamples, resolved_shapes
from .runner import Runner, model_kind
from .samples import AnySamples, GivenSamples, Samples
from .tensor_comparison import compare_operators, compare_tensors, uncompared_count
from .tflite_graph import TfliteGraph
from .tflite_header import Header, Signature, read_header
from .tolerances import CALIBRATED_SNR, Tolerances, too_noisy
from .verification_result import TensorResult, Verification

PathLike = Union[str, "os.PathLike[str]"]
# Samples for the ONNX model, with shapes for random numbers that are known from elsewhere.
_ChosenSamples = Callable[[Runner, Mapping[str, Sequence[int]]], AnySamples]
# What values of one run may take where nobody says.
_LIMIT = 512 << 20


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
    known: Mapping[str, Sequence[int]],
) -> AnySamples:
    """`known`: shapes for random numbers where nobody gives another."""
    if inputs is not None:
        if random is not None:
            raise Usage("inputs and random are two kinds of samples: give one")
        if shape:
            raise Usage("shape is for random numbers, and inputs has the arrays")
        if isinstance(inputs, (str, os.PathLike)):
            return Samples(inputs, runner.inputs)
        given = [inputs] if isinstance(inputs, Mapping) else list(inputs)
        if not given:
            raise Usage("inputs has no samples: nothing would be compared")
        return GivenSamples(given, runner.inputs)
    count = 1 if random is None else random
    if isinstance(count, bool) or not isinstance(count, int):
        raise TypeError(f"random must be an int, not {type(count).__name__}")
    if count < 1:
        raise Usage(f"random is {count}, but must be 1 or more")
    shapes = resolved_shapes(runner.inputs, {**known, **(shape or {})}, model)[0]
    return RandomSamples(count, seed, runner.inputs, shapes)


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
    signature: str | None = None,
    by_tensor: bool = False,
    by_op: bool = False,
    rtol: float | None = None,
    atol: float | None = None,
    min_snr: float | None = None,
    max_steps: int | None = None,
    min_equal: float | None = None,
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
        Samples: a folder or an .npz file (docs/calibration.md), or arrays by input name. Random numbers without it.
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
    signature : str, optional
        Which signature of the .tflite file the model became, where it has several, as those that `merge` makes.
    by_tensor : bool
        Compare inner tensors as well; of a folder of pieces, the values that pass between them.
    by_op : bool
        Compare each operator, given ONNX Runtime's values. Not for folders of pieces.
    rtol, atol, min_snr, max_steps, min_equal
        The attributes of `Tolerances`, with its defaults. Where none of the first four is given, files that compute in integers are judged
        as docs/verify.md says: operator by operator, or, if the ONNX model computes in floats, by 15 dB.
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
    _check_kinds(names, kinds, by_tensor=by_tensor, by_op=by_op, layout=layout, signature=signature)
    limit = None if max_rss is None else memory.size("max_rss", max_rss)
    is_stated = any(bound is not None for bound in (rtol, atol, min_snr, max_steps))
    tolerances = Tolerances(
        rtol=Tolerances.rtol if rtol is None else rtol,
        atol=Tolerances.atol if atol is None else atol,
        min_snr=min_snr,
        max_steps=Tolerances.max_steps if max_steps is None else max_steps,
        min_equal=min_equal,
    )
    runtimes = _Runtimes(names, kinds, limit, kernels, optimization, threads, signature)

    def chosen_samples(reference: Runner, known: Mapping[str, Sequence[int]]) -> AnySamples:
        return _chosen_samples(inputs, random, seed, shape, reference, names[0], known)

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
    signature: str | None

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
        return Runner(
            self.names[1],
            max_rss=self.third,
            threads=self.threads,
            kernels=self.kernels,
            optimization=self.optimization if self.kinds[1] == "pieces" else None,
            signature=self.signature,
        )


def _of_file(
    runtimes: _Runtimes,
    chosen_samples: _ChosenSamples,
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
    signature = chosen_signature(tflite, header.signatures, runtimes.signature)
    is_main = signature.subgraph == 0
    if not is_main and (by_op or by_tensor):
        raise Usage(
            f"{tflite}: only the main subgraph gives inner tensors, not signature {signature.key!r}: its outputs alone can be "
            "compared",
            file=tflite,
        )
    with TfliteGraph(tflite, signature.subgraph) as parts, runtimes.reference() as reference:
        is_whole = runtimes.kinds[0] == "onnx"
        graph = read_graph(model) if is_whole else Graph([], list(reference.inputs), list(reference.outputs), {})
        check_names(tflite, signature, graph)
        if is_whole and not is_stated and not graph.is_quantized:
            tolerances = dataclasses.replace(tolerances, calibrated_snr=CALIBRATED_SNR)
        border = Border(signature, parts, layouts, graph, reference.inputs, reference.outputs)
        unranked = [name for name, port in reference.inputs.items() if port.shape is None]
        samples = border.samples(chosen_samples(reference, border.onnx_shapes(unranked)))
        with runtimes.tested() as tested:
            choice = tested.choice
            outputs = compare_outputs(reference, tested, samples, border, tolerances)
        tensors: list[TensorResult] = []
        uncompared = 0
        by_operators: set[str] = set()  # outputs that an operator in `tensors` computes
        # Rounding of early operators spreads: what is asked is whether each operator rounds right.
        outside = [output for output in outputs if output.problem]
        is_spread = bool(outside) and is_whole and is_main and graph.is_quantized
        is_spread = is_spread and not (is_stated or by_op or by_tensor)
        is_spread = is_spread and all(_may_be_spread(output, border) for output in outside)
        if by_op or by_tensor or is_spread:
            tensors, uncompared, by_operators = _inner(
                graph,
                parts,
                header,
                signature,
                reference,
                samples,
                border,
                tolerances,
                runtimes,
                [output.name for output in outputs if output.difference.mismatch],
                by_op=by_op or is_spread,
            )
        onnx = reference.choice
    is_spread = is_spread and not any(tensor.problem for tensor in tensors)
    is_spread = is_spread and all(output.name in by_operators for output in outside)
    if is_spread:
        outputs = [dataclasses.replace(output, problem="") for output in outputs]
    # What no operator gives from samples, such as a constant, is judged as it is.
    judged = [*tensors, *(output for output in outputs if not (by_op and output.name in by_operators))]
    first = next((tensor for tensor in judged if tensor.problem), None)
    return Verification(first is None, samples.count, onnx, choice, outputs, tensors, uncompared, first, is_spread)


def _may_be_spread(output: TensorResult, border: Border) -> bool:
    """Whether single steps of operators before it can explain how far an output is off."""
    difference = output.difference
    return border.is_quantized(output.name) and difference.not_finite == 0 and not too_noisy(difference, CALIBRATED_SNR)


def _check_kinds(
    names: tuple[str, str],
    kinds: tuple[str, str],
    *,
    by_tensor: bool,
    by_op: bool,
    layout: Mapping[str, str] | None,
    signature: str | None,
) -> None:
    if kinds[0] == "tflite":
        raise Usage(f"{names[0]}: is a TFLite file; the ONNX model comes first", file=names[0])
    if kinds[1] == "onnx":
        raise Usage(f"{names[1]}: is neither a .tflite file nor a folder of pieces", file=names[1])
    if signature is not None and kinds[1] == "pieces":
        raise Usage("signature is for .tflite files, not for folders of pieces")
    if by_op and "pieces" in kinds:
        raise Usage(
            "by_op is for a .tflite file and its ONNX model, not for folders of pieces; by_tensor compares the values between them"
        )
    if by_tensor and kinds == ("pieces", "tflite"):
        raise Usage("by_tensor needs the ONNX model itself, not its pieces: they have other inner tensors")
    if layout and kinds[1] == "pieces":
        raise Usage("layout is for .tflite files: a folder of pieces has ONNX's order of axes")


def _of_pieces(
    runtimes: _Runtimes, chosen_samples: _ChosenSamples, tolerances: Tolerances, by_tensor: bool
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
        samples = chosen_samples(reference, {})
        outputs = results(list(reference.outputs))
        tensors: list[TensorResult] = []
        uncompared = 0
        if by_tensor:
            known = set(reference.tensors)
            seams = tested.inner_ports([name for name in tested.tensors if name in known])
            uncompared = len(tested.tensors) - len(seams)
            for group in in_groups(seams, runtimes.values_limit):
                tensors += results(group)
        first = next((tensor for tensor in [*tensors, *outputs] if tensor.problem), None)
        return Verification(
            first is None, samples.count, reference.choice, tested.choice, outputs, tensors, uncompared, first
        )


def _inner(
    graph: Graph,
    parts: TfliteGraph,
    header: Header,
    signature: Signature,
    reference: Runner,
    samples: AnySamples,
    border: Border,
    tolerances: Tolerances,
    runtimes: _Runtimes,
    mismatched: Sequence[str],
    *,
    by_op: bool,
) -> tuple[list[TensorResult], int, set[str]]:
    """Tensors or operators; how many tensors are no value; the outputs that are among them. `mismatched` outputs are left out."""
    sample = next(iter(samples))
    expected = reference.run(sample)
    shapes = {name: array.shape for name, array in (*sample.items(), *expected.items()) if name not in mismatched}
    finder = ByOperator(
        graph,
        parts,
        header,
        Candidates(graph, parts, signature),
        Reference(reference),
        border.matches(shapes),
        border.as_file,
        kernels=runtimes.kernels,
        threads=runtimes.threads,
        limit=runtimes.values_limit,
    )
    with finder:
        finder.find(samples)
        rest = uncompared_count(parts, finder.matches)
        made = {i for group in finder.groups for i in group.outputs}
        outputs = {name for name, tensor in signature.outputs if tensor.index in made and name not in mismatched}
        if by_op:
            return compare_operators(finder, samples, tolerances), rest, outputs
        with runtimes.tested() as tested:
            limit = runtimes.values_limit
            return compare_tensors(finder, parts, reference, tested, samples, border, tolerances, limit), rest, outputs
