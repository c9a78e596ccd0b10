# SPDX-License-Identifier: Apache-2.0
"""Is a converted model right? LiteRT against ONNX Runtime on the same inputs.

    python -m tests.support.judge MODEL.onnx [--shape INPUT=1,3,64,64]... [--range INPUT=0:2]... [--seed N]

A library too. `judge(model)` converts and judges; `judge_file(model, tflite)` judges a file that is there already.
Both run LiteRT twice, with its plain kernels and with XNNPACK (what a user gets), each in a child process. Inputs
and outputs are matched by name through the signature; names, order, types and shapes must be ONNX's own.
"""

import argparse
import collections
import dataclasses
import pathlib
import sys
import tempfile

import onnx
import onnxruntime

from tests.support import converter
from tests.support.compare import RangeTolerance, compare, stored_dtype
from tests.support.exact_products import exact_products
from tests.support.inputs import load_structure, random_inputs, run_time_inputs
from tests.support.litert import Litert, RuntimeCrash, RuntimeRefusal, RuntimeTimeout
from tests.support.tflite_file import read_tflite

BACKENDS = {"kernels": False, "xnnpack": True}


@dataclasses.dataclass
class Verdict:
    """`status`: pass, refused (lowtide said why), wrong (the answer or the interface), crash, timeout, broken."""

    status: str
    reason: str = ""
    errors: dict = dataclasses.field(default_factory=dict)  # (backend, output name) -> compare.Difference
    operators: collections.Counter = dataclasses.field(default_factory=collections.Counter)
    inner_transposes: int = 0
    conversion: converter.Conversion | None = None

    @property
    def passed(self):
        return self.status == "pass"

    @property
    def worst(self):
        return max((d.relative for d in self.errors.values()), default=0.0)

    def __str__(self):
        return self.status + (f": {self.reason}" if self.reason else "")


def _exact(model):
    """What ONNX Runtime is given: a path, or the bytes of a model whose products saturate on no processor."""
    loaded = onnx.load_from_string(model) if isinstance(model, bytes) else load_structure(model)
    changed = exact_products(loaded)
    if changed is loaded:
        return model if isinstance(model, bytes) else str(model)
    if not isinstance(model, bytes):
        changed = exact_products(onnx.load(model))
    return changed.SerializeToString()


def reference(model, arrays):
    """
    `model` is a path or the serialized model. ONNX Runtime's answer, {output name: array}, without graph optimisations,
    which reorder sums, and with exact products of integers.
    """
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(_exact(model), options, providers=["CPUExecutionProvider"])
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, arrays), strict=True))


def interface_fault(file, specs, output_names, fixed=()):
    """What is wrong with names, order, types and shapes; None when all is as in ONNX.

    `specs` are the ONNX inputs; the inputs named in `fixed` had their dynamic dimensions fixed by --shape.
    """
    wanted = {"input": [s.name for s in specs], "output": list(output_names)}
    ports = {"input": file.inputs, "output": file.outputs}
    signatures = {"input": file.signature_inputs, "output": file.signature_outputs}
    for kind in ("input", "output"):
        names = [port.name for port in ports[kind]]
        if names != wanted[kind]:
            return f"{kind}s are {names}, expected {wanted[kind]}"
        if sorted(signatures[kind]) != sorted((p.name, p.index) for p in ports[kind]):
            return f"the signature's {kind}s are {signatures[kind]}, the graph's {[(p.name, p.index) for p in ports[kind]]}"
    for spec, port in zip(specs, file.inputs, strict=True):
        if port.dtype != stored_dtype(spec.dtype):
            return f"input '{spec.name}' is {port.dtype}, expected {stored_dtype(spec.dtype)}"
        if len(port.shape) != len(spec.dims):
            return f"input '{spec.name}' has shape {list(port.shape)}, expected {list(spec.dims)}"
        for have, want in zip(port.shape, spec.dims, strict=True):
            same = have == want if isinstance(want, int) else (have >= 0 if spec.name in fixed else have == -1)
            if not same:
                return f"input '{spec.name}' has shape {list(port.shape)}, expected {list(spec.dims)}"
    return None


def declared_shape_fault(file, expected):
    """A reader of the file must not be told another shape than the outputs have (-1 is dynamic)."""
    for port in file.outputs:
        shape = expected[port.name].shape
        if len(port.shape) != len(shape) or any(d not in (-1, n) for d, n in zip(port.shape, shape)):
            return f"output '{port.name}' is declared as {list(port.shape)} and is {list(shape)}"
    return None


def judge_outputs(tflite, arrays, expected, tolerance, litert, backends=BACKENDS):
    """Runs the file on each backend and compares with `expected` {name: array}; returns a Verdict."""
    errors = {}
    for backend, choice in backends.items():
        try:
            actual = litert.run(tflite, arrays, choice)
        except RuntimeCrash as error:
            return Verdict("crash", f"{backend}: {error}", errors)
        except RuntimeTimeout as error:
            return Verdict("timeout", f"{backend}: {error}", errors)
        except RuntimeRefusal as error:
            return Verdict("wrong", f"{backend}: LiteRT does not run the file: {error}", errors)
        for name, value in expected.items():
            errors[backend, name] = compare(value, actual[name], tolerance)
    for (backend, name), difference in errors.items():
        if difference.fault:
            return Verdict("wrong", f"{backend}: output '{name}' {difference.fault}", errors)
    return Verdict("pass", "", errors)


def judge_file(
    model_path,
    tflite,
    *,
    shapes=None,
    fixed=(),
    ranges=None,
    seed=0,
    arrays=None,
    expected=None,
    tolerance=RangeTolerance(),
    time_limit=60.0,
    litert=None,
):
    """Judges `tflite` as the conversion of `model_path`. `arrays` feeds given inputs instead of random ones, and
    `expected` {output: array} takes the place of ONNX Runtime's answer, where that has none."""
    model = load_structure(model_path)
    if arrays is None:
        arrays = random_inputs(model, shapes, ranges, seed)
    file = read_tflite(tflite)
    fault = interface_fault(file, run_time_inputs(model), [o.name for o in model.graph.output], fixed)
    if fault:
        return Verdict("wrong", fault, operators=file.operators, inner_transposes=file.inner_transposes)
    if expected is None:
        expected = reference(model_path, arrays)
    if litert:
        verdict = judge_outputs(tflite, arrays, expected, tolerance, litert)
    else:
        with Litert(time_limit) as own:
            verdict = judge_outputs(tflite, arrays, expected, tolerance, own)
    verdict.operators, verdict.inner_transposes = file.operators, file.inner_transposes
    fault = declared_shape_fault(file, expected)
    if verdict.passed and fault:
        verdict.status, verdict.reason = "wrong", fault
    return verdict


def judge(model_path, *, shapes=None, fix=True, options=(), **how):
    """Converts `model_path` and judges the outcome. `shapes` {input: dims} go to lowtide as --shape if `fix`."""
    shapes = shapes or {}
    fixed = tuple(shapes) if fix else ()
    flags = [f"--shape={name}={','.join(map(str, dims))}" for name, dims in shapes.items() if fix]
    with tempfile.TemporaryDirectory(prefix="lowtide-judge-") as folder:
        tflite = pathlib.Path(folder) / "model.tflite"
        conversion = converter.convert(model_path, tflite, [*flags, *options])
        if conversion.status != "converted":
            return Verdict(conversion.status, conversion.reason, conversion=conversion)
        verdict = judge_file(model_path, tflite, shapes=shapes, fixed=fixed, **how)
        verdict.conversion = conversion
        return verdict


def report(verdict):
    lines = []
    if verdict.conversion:
        peak = verdict.conversion.peak_rss
        lines.append(
            f"converted in {verdict.conversion.seconds:.2f} s, peak RSS "
            + (f"{peak / 2**20:.1f} MiB" if peak else "not printed")
        )
    if verdict.operators:
        lines.append(
            f"{sum(verdict.operators.values())} operators, {verdict.operators['TRANSPOSE']} of them TRANSPOSE"
            f" ({verdict.inner_transposes} between other operators)"
        )
        lines.append("  " + ", ".join(f"{name} {count}" for name, count in verdict.operators.most_common()))
    for (backend, name), d in verdict.errors.items():
        lines.append(
            f"  {backend:8} {name}: max abs error {d.error:.3g}, {d.relative:.3g} of the range"
            + (f"  WRONG: {d.fault}" if d.fault else "")
        )
    return "\n".join([*lines, str(verdict)])


def parse_shapes(texts):
    pairs = (text.rsplit("=", 1) for text in texts)
    return {name: [int(d) for d in dims.split(",") if d] for name, dims in pairs}


def parse_ranges(texts):
    pairs = (text.rsplit("=", 1) for text in texts)
    return {name: tuple(float(v) for v in span.split(":")) for name, span in pairs}


def main():
    parser = argparse.ArgumentParser(description="Convert a model and compare LiteRT with ONNX Runtime.")
    parser.add_argument("model", type=pathlib.Path)
    parser.add_argument("--tflite", type=pathlib.Path, help="judge this file instead of converting")
    parser.add_argument("--shape", action="append", default=[], metavar="INPUT=1,3,64,64", help="fix an input's shape")
    parser.add_argument(
        "--feed-shape",
        action="append",
        default=[],
        metavar="INPUT=1,3,64,64",
        help="feed this shape, but leave the model dynamic",
    )
    parser.add_argument("--range", action="append", default=[], metavar="INPUT=LOW:HIGH", help="values of an input")
    parser.add_argument("--option", action="append", default=[], help="passed on to lowtide convert, as --option=--x=y")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds for one LiteRT run")
    args = parser.parse_args()
    shapes, feed = parse_shapes(args.shape), parse_shapes(args.feed_shape)
    how = dict(ranges=parse_ranges(args.range), seed=args.seed, time_limit=args.time_limit)
    if args.tflite:
        verdict = judge_file(args.model, args.tflite, shapes={**shapes, **feed}, fixed=tuple(shapes), **how)
    else:
        verdict = judge(args.model, shapes=shapes or feed, fix=bool(shapes), options=args.option, **how)
    print(report(verdict))
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
