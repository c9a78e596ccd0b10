# SPDX-License-Identifier: Apache-2.0
"""One exported network: converted, and each of its sizes against ONNX Runtime, in LiteRT's built-in kernels and in XNNPACK."""

import dataclasses
import functools
import hashlib
import json
import tempfile
from pathlib import Path

import numpy as np

from tests.support import converter, judge
from tests.support.tflite_file import read_tflite

# Which sizes a variant is run at; one with open sizes at both.
SIZES = {"small": ("small",), "second": ("second",), "dynamic": ("small", "second"), "large": ("large",)}


@dataclasses.dataclass
class Outcome:
    """`status`: right, wrong, refused (by lowtide alone), invalid (ONNX Runtime refuses it or answers with nothing but NaN),
    constant (right, but with these weights other inputs have the same outputs, so that says nothing)."""

    status: str
    reason: str = ""
    operators: int = 0
    transposes: int = 0
    peak: int = 0
    errors: dict = dataclasses.field(default_factory=dict)  # backend -> the largest error in units of the range


def expected_of(path, network, size, seed=0):
    """Inputs and ONNX Runtime's answers at a size, or the reason why there are none."""
    arrays = {given.name: given.array(network.size(size), seed) for given in network.all_inputs()}
    kept = {value.name for value in judge.load_structure(path).graph.input}
    arrays = {name: array for name, array in arrays.items() if name in kept}  # exporters leave out what is not used
    try:
        answers = judge.reference(path, arrays)
    except Exception as error:  # whatever ONNX Runtime raises is its answer
        return arrays, None, " ".join(str(error).split())
    undefined = [name for name, array in answers.items() if array.size and np.isnan(array).all()]
    return arrays, answers, f"each element of {undefined[0]} is NaN" if undefined else ""


@functools.cache
def _digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def judged_before(path, network, variant, litert):
    """judge_export, or what it said before of the same file, row and program: kept beside the file."""
    tables = Path(__file__).with_name("network.py")  # its inputs
    key = [*map(_digest, (converter.program(), path, tables)), repr(network)]
    kept = path.with_suffix(".json")
    if kept.exists():
        found = json.loads(kept.read_text())
        if found.pop("of") == key:
            return Outcome(**found)
    outcome = judge_export(path, network, variant, litert)
    kept.write_text(json.dumps({"of": key, **dataclasses.asdict(outcome)}))
    return outcome


def is_constant(path, network, size, expected):
    """Whether other inputs have the same outputs within a thousandth of the range: such a network proves nothing."""
    _, other, reason = expected_of(path, network, size, seed=1)
    if reason:
        return False
    return all(
        array.size == 0 or np.max(np.abs(array - other[name])) <= 1e-3 * (array.max() - array.min())
        for name, array in expected.items()
    )


def judge_export(path, network, variant, litert):
    """`litert` is a tests.support.litert.Litert."""
    answers = [expected_of(path, network, size) for size in SIZES[variant]]
    refused = next((reason for _, _, reason in answers if reason), "")
    with tempfile.TemporaryDirectory(prefix="lowtide-zoo-") as folder:
        tflite = Path(folder) / "model.tflite"
        conversion = converter.convert(path, tflite)
        if conversion.status != "converted":
            if refused:
                return Outcome("invalid", f"{conversion.reason} ONNX Runtime: {refused}")
            return Outcome("refused" if conversion.status == "refused" else "wrong", conversion.reason)
        file = read_tflite(tflite)
        found = Outcome(
            "right", "", sum(file.operators.values()), file.operators["TRANSPOSE"], conversion.peak_rss or 0
        )
        if refused:
            found.status, found.reason = "invalid", f"ONNX Runtime: {refused}"
            return found
        for size, (arrays, expected, _) in zip(SIZES[variant], answers):
            verdict = judge.judge_file(path, tflite, arrays=arrays, expected=expected, litert=litert)
            for (backend, _), difference in verdict.errors.items():
                found.errors[backend] = max(found.errors.get(backend, 0.0), difference.relative)
            if not verdict.passed:
                found.status, found.reason = "wrong", f"{size}: {verdict.reason}"
        first = SIZES[variant][0]
        if found.status == "right" and is_constant(path, network, first, answers[0][1]):
            found.status = "constant"
        return found
