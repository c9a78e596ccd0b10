# SPDX-License-Identifier: Apache-2.0
"""lowtide verify MODEL.onnx MODEL.tflite|DIR: compares the numbers of both runtimes."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from .command_options import (
    CommandParser,
    by_name,
    given_layout,
    given_shape,
    given_size,
    number,
    one_of,
    whole_number,
)
from .difference import Difference
from .errors import Different
from .litert_session import KERNELS
from .model_files import model_files
from .onnx_session import LEVELS
from .output_path import check_output_path, print_output, replacing
from .run_command import begin_log
from .runtime_log import end_of_output
from .samples import sample_files
from .tolerances import Tolerances
from .verification import verify
from .verification_result import TensorResult, Verification

_SHOWN = 40


def parser() -> CommandParser:
    """The command's options."""
    out = CommandParser(
        "verify",
        description="Compare a .tflite file in LiteRT, or a folder of lowtide partition, with its ONNX model in ONNX Runtime, "
        "by numbers",
        example="lowtide verify model.onnx model.tflite --random 10 --by-op",
    )
    out.add_argument("model", metavar="MODEL.onnx", help="the ONNX model, or a folder of its pieces")
    out.add_argument(
        "tflite",
        metavar="MODEL.tflite|DIR",
        help="what it was converted to, or a folder that lowtide partition has made",
    )
    out.add_argument("--inputs", metavar="DIR|FILE.npz", help="samples by input name; random numbers without it")
    out.add_argument("--random", type=whole_number(1), metavar="N", help="samples of random numbers (default: 1)")
    out.add_argument(
        "--seed", type=whole_number(0), metavar="INT", default=0, help="of the random numbers (default: 0)"
    )
    out.add_argument(
        "--shape",
        type=given_shape,
        metavar="INPUT=1,3,512,512",
        action="append",
        default=[],
        help="shape of a dynamic input that gets random numbers; may be repeated",
    )
    out.add_argument(
        "--layout",
        type=given_layout,
        metavar="NAME=nhwc",
        action="append",
        default=[],
        help="layout that an input or output was converted with, where its extents do not say it; may be repeated",
    )
    out.add_argument("--kernels", **one_of(KERNELS), help="kernels of LiteRT (default: xnnpack)")
    out.add_argument("--optimization", **one_of(tuple(LEVELS)), help="optimisation level of ONNX Runtime")
    out.add_argument("--signature", metavar="NAME", help="which signature of the .tflite file the model became")
    inner = out.add_mutually_exclusive_group()
    inner.add_argument(
        "--by-tensor", action="store_true", help="compare inner tensors as well; of a folder, the values between pieces"
    )
    inner.add_argument("--by-op", action="store_true", help="compare each operator, given ONNX Runtime's values")
    default = Tolerances()
    out.add_argument(
        "--rtol",
        type=number(),
        metavar="X",
        help=f"largest error of floats, as a share of the largest magnitude (default: {default.rtol:g})",
    )
    out.add_argument(
        "--atol",
        type=number(),
        metavar="X",
        help=f"errors of floats that are allowed besides (default: {default.atol:g})",
    )
    out.add_argument(
        "--min-snr",
        type=number(),
        metavar="DB",
        help="least signal-to-noise ratio of floats and quantized tensors, in place of --rtol, --atol and --max-steps",
    )
    out.add_argument(
        "--max-steps",
        type=whole_number(0),
        metavar="INT",
        help=f"most steps that a quantized element is off (default: {default.max_steps})",
    )
    out.add_argument(
        "--min-equal",
        type=number(1),
        metavar="SHARE",
        help="least share of equal elements of an integer tensor, 0 to 1; alone where quantized data gives classes or places",
    )
    out.add_argument(
        "--max-rss",
        type=given_size,
        metavar="SIZE",
        help="memory that models and values may take; K, M, G are powers of 1024",
    )
    out.add_argument("--threads", type=whole_number(1), metavar="INT", help="threads of one operator (default: 2)")
    out.add_argument("--json", metavar="FILE", help="write everything to this file; - is standard output")
    out.add_argument("--verbose", action="store_true", help="print what the runtimes log, and every tensor")
    return out


def _number(value: float, form: str) -> str:
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return format(value, form)


def difference_text(difference: Difference) -> str:
    """A difference on one line."""
    snr = (
        "equal"
        if math.isinf(difference.snr_db) and difference.snr_db > 0
        else f"{_number(difference.snr_db, '.1f')} dB"
    )
    parts = [
        f"error max {_number(difference.max_abs, '.3g')} mean {_number(difference.mean_abs, '.3g')}",
        f"relative max {_number(difference.max_rel, '.3g')} mean {_number(difference.mean_rel, '.3g')}",
        snr,
    ]
    if difference.steps is not None:
        steps = difference.steps
        parts.append(
            f"steps: {steps.equal:.4%} equal, {steps.within_1:.4%} within 1, {steps.within_2:.4%} within 2, "
            f"largest {steps.largest}"
        )
    if difference.argmax is not None:
        parts.append(f"arg-max {difference.argmax:.4%}")
    if difference.not_finite:
        parts.append(f"{difference.not_finite} not finite on one side")
    return ", ".join(parts)


def _line(result: TensorResult) -> str:
    where = f"{result.operators} -> {result.name}" if result.operators else result.name
    value = "" if result.value == result.name else f" (ONNX {result.value})"
    problem = f"  OUTSIDE: {result.problem}" if result.problem else ""
    return f"  {where}{value}  {result.dtype}: {difference_text(result.difference)}{problem}"


def text(found: Verification, every: bool) -> list[str]:
    """What the command prints."""
    by_op = any(result.operators for result in found.tensors)
    lines = [found.onnx, found.tflite, f"{found.samples} sample{'s' if found.samples > 1 else ''}", "outputs:"]
    lines += [_line(result) for result in found.outputs]
    if found.spread:
        lines.append("  more than a step off: single steps that spread, because each operator alone rounds right:")
    if found.tensors:
        outside = [result for result in found.tensors if result.problem]
        lines.append(
            f"{'operators, given the values of ONNX Runtime' if by_op else 'inner tensors'}: {len(found.tensors)} compared, "
            f"{len(outside)} outside of the tolerances, {found.uncompared} tensors are no value of the ONNX model"
        )
        integers = found.integers()
        if integers is not None:
            lines.append(
                f"  integers: {integers['tensors']} tensors, {integers['equal']:.4%} of {integers['elements']} elements equal, "
                f"{integers['within_1']:.4%} within 1 step, largest {integers['largest']}"
            )
        shown = found.tensors if every else outside[:_SHOWN]
        lines += [_line(result) for result in shown]
        if not every and len(outside) > len(shown):
            lines.append(f"  and {len(outside) - len(shown)} more (--verbose, --json)")
    return lines


def _write(path: str, values: dict[str, Any]) -> None:
    content = json.dumps(values, indent=2, allow_nan=False)
    if path == "-":
        print_output(content)
        return
    with replacing(path) as file:
        file.write(f"{content}\n".encode())


def _files_read(arguments: argparse.Namespace) -> Iterator[str]:
    for model in (arguments.model, arguments.tflite):
        yield from model_files(model)
    if arguments.inputs is not None:
        yield from sample_files(arguments.inputs)


def main(argv: Sequence[str]) -> int:
    """``lowtide verify``; errors are raised, Different among them."""
    arguments = parser().parse(argv)
    begin_log(arguments.verbose)
    if arguments.json not in (None, "-"):
        check_output_path(arguments.json, _files_read(arguments))
    found = verify(
        arguments.model,
        arguments.tflite,
        inputs=arguments.inputs,
        random=arguments.random,
        seed=arguments.seed,
        shape=by_name("--shape", arguments.shape),
        layout=by_name("--layout", arguments.layout),
        kernels=arguments.kernels,
        optimization=arguments.optimization,
        signature=arguments.signature,
        by_tensor=arguments.by_tensor,
        by_op=arguments.by_op,
        rtol=arguments.rtol,
        atol=arguments.atol,
        min_snr=arguments.min_snr,
        max_steps=arguments.max_steps,
        min_equal=arguments.min_equal,
        max_rss=arguments.max_rss,
        threads=arguments.threads,
    )
    if arguments.json is not None:
        _write(arguments.json, found.values())
    if arguments.json != "-":
        print_output("\n".join(text(found, arguments.verbose)))
    first = found.first_difference
    if first is not None:
        raise Different(f"{arguments.tflite}: {first.name!r} ({first.dtype}): {first.problem}", file=arguments.tflite)
    end_of_output()
    return 0
