# SPDX-License-Identifier: Apache-2.0
"""Model-local functions: attributes that refer to the call's, defaults, nested calls, outputs that are inputs, graphs in
a body, opset imports of a function's own; and the functions that are refused.

ONNX Runtime runs most of them; where it refuses an import that differs from the model's, an equal model without
functions is asked.
"""

import numpy as np
import onnx
import onnx.parser
import pytest

from tests.support import converter, judge

HEAD = '<ir_version: 10, opset_import: ["": 18, "local": 1]>'


def save(tmp_path, text, name="model.onnx"):
    path = tmp_path / name
    onnx.save(onnx.parser.parse_model(text), path)
    return path


RUNS = {
    "attributes_and_defaults": """
        g (float[2,3] x, float[3] w) => (float[2,3] y, float[2,3] z) { y, t = local.f <a=0.3> (x, w)  z, u = local.f <b=0.5, a=0.1> (t, w) }
        <domain: "local", opset_import: ["": 18]>
        f <a, b: float = 2.0> (p, q) => (r, s) { t = LeakyRelu <alpha: float = @a> (p) s = Elu <alpha: float = @b> (t) r = Add(s, q) }""",
    "nested_calls_and_equal_names": """
        g (float[2,3] x) => (float[2,3] y) { t = local.f (x) y = local.g (t) }
        <domain: "local", opset_import: ["": 18, "local": 1]>
        f (x) => (y) { t = local.g (x) y = Mul(t, x) }
        <domain: "local", opset_import: ["": 18]>
        g (x) => (y) { t = Sigmoid(x) y = Add(t, x) }""",
    "input_handed_on": """
        g (float[2,3] x) => (float[2,3] y, float[2,3] z) { y, z = local.f (x) }
        <domain: "local", opset_import: ["": 18]>
        f (p) => (p, q) { q = Neg(p) }""",
    "optional_input_and_output_absent": """
        g (float[2,3] x) => (float[2,3] y) { y = local.f (x) }
        <domain: "local", opset_import: ["": 18]>
        f (p, lo, hi) => (q, r) { q = Clip(p, lo, hi) r = Neg(q) }""",
    "graphs_in_a_body": """
        g (float[2,3] x) => (float[2,3] y) { t = Neg(x) y = local.f (x, t) }
        <domain: "local", opset_import: ["": 18]>
        f (p, t) => (q) {
          yes = Constant <value = bool {1}> ()
          q = If (yes) <then_branch = a () => (u) { x = Add(p, t) u = Abs(x) }, else_branch = b () => (v) { v = Identity(p) }>
        }""",
}


# What ONNX Runtime does not load.
EXPECTED = {"input_handed_on": lambda x: {"y": x, "z": -x}, "optional_input_and_output_absent": lambda x: {"y": x}}


@pytest.mark.parametrize("name", RUNS)
def test_runs(name, tmp_path, litert, lowtide):
    how = {}
    if name in EXPECTED:
        x = np.random.default_rng(1).uniform(-2, 2, (2, 3)).astype(np.float32)
        how = {"arrays": {"x": x}, "expected": EXPECTED[name](x)}
    verdict = judge.judge(save(tmp_path, HEAD + RUNS[name]), litert=litert, **how)
    assert verdict.passed, str(verdict)


def test_a_function_has_its_own_opset(tmp_path, litert, lowtide):
    model = save(
        tmp_path,
        HEAD
        + """
        g (float[2,3,4] x) => (float[2,3,4] y) { y = local.f (x) }
        <domain: "local", opset_import: ["": 11]>
        f (p) => (q) { q = Softmax <axis = 1> (p) }""",
    )
    x = np.random.default_rng(1).uniform(-2, 2, (2, 3, 4)).astype(np.float32)
    flat = np.exp(x).reshape(2, 12)
    expected = (flat / flat.sum(1, keepdims=True)).reshape(2, 3, 4)
    verdict = judge.judge(model, arrays={"x": x}, expected={"y": expected}, litert=litert)
    assert verdict.passed, str(verdict)


REFUSED = {
    "itself": (
        "calls itself",
        """
        g (float[2] x) => (float[2] y) { y = local.f (x) }
        <domain: "local", opset_import: ["": 18, "local": 1]> f (p) => (q) { q = local.f (p) }""",
    ),
    "circle": (
        "calls itself",
        """
        g (float[2] x) => (float[2] y) { y = local.f (x) }
        <domain: "local", opset_import: ["": 18, "local": 1]> f (p) => (q) { q = local.h (p) }
        <domain: "local", opset_import: ["": 18, "local": 1]> h (p) => (q) { q = local.f (p) }""",
    ),
    "too_many_inputs": (
        "2 inputs",
        """
        g (float[2] x) => (float[2] y) { y = local.f (x, x) }
        <domain: "local", opset_import: ["": 18]> f (p) => (q) { q = Neg (p) }""",
    ),
    "unknown_attribute": (
        "no attribute 'c'",
        """
        g (float[2] x) => (float[2] y) { y = local.f <c = 1> (x) }
        <domain: "local", opset_import: ["": 18]> f (p) => (q) { q = Neg (p) }""",
    ),
    "attribute_of_another_type": (
        "type",
        """
        g (float[2] x) => (float[2] y) { y = local.f <a = 1> (x) }
        <domain: "local", opset_import: ["": 18]> f <a> (p) => (q) { q = LeakyRelu <alpha: float = @a> (p) }""",
    ),
    "name_from_outside": (
        "'x', which has no producer in it",
        """
        g (float[2] x) => (float[2] y) { y = local.f (x) }
        <domain: "local", opset_import: ["": 18]> f (p) => (q) { q = Add (p, x) }""",
    ),
    "expands_without_measure": (
        "expand to more than",
        "g (float[2] x) => (float[2] y) { y = local.f0 (x) }"
        + "".join(
            f'<domain: "local", opset_import: ["": 18, "local": 1]> f{i} (p) => (q) {{ t = local.f{i + 1} (p) q = local.f{i + 1} (t) }}\n'
            for i in range(30)
        )
        + '<domain: "local", opset_import: ["": 18]> f30 (p) => (q) { q = Neg (p) }',
    ),
    "too_deep": (
        "deep",
        "g (float[2] x) => (float[2] y) { y = local.f0 (x) }"
        + "".join(
            f'<domain: "local", opset_import: ["": 18, "local": 1]> f{i} (p) => (q) {{ q = local.f{i + 1} (p) }}\n'
            for i in range(80)
        )
        + '<domain: "local", opset_import: ["": 18]> f80 (p) => (q) { q = Neg (p) }',
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name, tmp_path, lowtide):
    words, text = REFUSED[name]
    conversion = converter.convert(save(tmp_path, HEAD + text), tmp_path / "model.tflite")
    assert conversion.status == "refused", str(conversion)
    assert words in conversion.reason
