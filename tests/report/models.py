# SPDX-License-Identifier: Apache-2.0
"""Models whose names are hostile, and what is found in a report of them."""

import json
import re

import numpy as np
from onnx import TensorProto, helper, numpy_helper

RUNS = "window.ran = true"
# Text that protobuf's writer takes.
TEXT_NAMES = [
    f"</script><script>{RUNS}</script>",
    f"<img src=x onerror='{RUNS}'>",
    f"<!--<script>{RUNS}",
    f'"><svg onload={RUNS}>',
    f"${{{RUNS}}}`'\"\\",
    f"javascript:{RUNS}",
    "&lt;script&gt;&#60;b&#62;",
    "{{REPORT}}{{SCRIPT}}",
    "__proto__",
    "constructor/toString.hasOwnProperty",
    "right\u202eotfel\u202c",
    "\u2066isolate\u2069\u200f",
    "zero\u200bwidth\ufeff\u2060",
    "line\u2028end\u2029",
    "escape\x1b[2J\x07",
    "nul\0inside",
    "c1\x9b31\x7f",
    "tag\U000e0041\U000e007f",
    "\u05e9\u05dc\u05d5\u05dd \u4f60\u597d \U0001f600",
    "n" * 65536,
]
# Bytes that are no text, of the length of what they replace.
BYTE_NAMES = [b"\xff\xfe\xc3\x28QQ", b"\xed\xa0\x80\xed\xb0\x80", b"half\xe2\x82"]


def hostile_model():
    """A chain of operators, none of which is merged with another: each has a hostile name, and a hostile result."""
    names = [*TEXT_NAMES, *(f"ZZZZZ{i}" for i in range(len(BYTE_NAMES)))]
    weights = numpy_helper.from_array(np.eye(4, dtype=np.float32) * 2, f"weights</script><script>{RUNS}</script>")
    nodes, last = [], "in"
    for i, name in enumerate(names):
        nodes.append(helper.make_node(("Sigmoid", "Tanh")[i % 2], [last], [name], name=name))
        last = name
    nodes.append(helper.make_node("MatMul", [last, weights.name], ["out"], name="<b>last</b>"))
    graph = helper.make_graph(
        nodes,
        "</title><h1>graph",
        [helper.make_tensor_value_info("in", TensorProto.FLOAT, [2, 4])],
        [helper.make_tensor_value_info("out", TensorProto.FLOAT, [2, 4])],
        initializer=[weights],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.producer_name = f"</script><script>{RUNS}</script>"
    raw = model.SerializeToString()
    for i, name in enumerate(BYTE_NAMES):
        raw = raw.replace(f"ZZZZZ{i}".encode(), name)
    return raw


def report_of(page):
    """The JSON inside of a page; of the page's own text nothing may be lost."""
    text = page.read_text(encoding="utf-8")
    found = re.findall(r'<script type="application/json" id="report">(.*?)</script>', text, re.DOTALL)
    assert len(found) == 1 and text.rstrip().endswith("</html>") and text.count("</script>") == 2
    assert "<" not in found[0]
    return json.loads(found[0])
