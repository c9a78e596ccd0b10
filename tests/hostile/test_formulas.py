# SPDX-License-Identifier: Apache-2.0
"""Formulas of dimensions that a short file makes long: squared, added and compared again and again.

Each file is converted or refused, in time and memory that grow with the file and not with what the formula says.
"""

import resource
import time

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.hostile.refusal import is_sanitized, run

NODES = 3000
# What the next element of a chain is, of the last two.
STEPS = {
    "squares": ("Mul", "{0}", "{0}"),
    "sums": ("Add", "{0}", "{1}"),
    "products": ("Mul", "{0}", "{1}"),
    "quotients": ("Div", "{0}", "{1}"),
    "maxima": ("Max", "{0}", "{1}"),
    "squares of sums": [("Add", "{0}", "{1}"), ("Mul", "{0}", "{0}")],
    "maxima of sums": [("Add", "{0}", "{1}"), ("Max", "{0}", "{1}"), ("Min", "{0}", "{1}")],
    "quotients of products": [("Mul", "{0}", "{1}"), ("Div", "{0}", "{1}"), ("Add", "{0}", "{1}")],
}


def chain(steps, used):
    """y = x reshaped or expanded to a shape whose element is at the end of the chain."""
    steps = steps if isinstance(steps, list) else [steps]
    make = helper.make_node
    nodes = [make("Shape", ["x"], ["s"])]
    nodes += [make("Gather", ["s", f"i{i}"], [f"c{i}"], axis=0) for i in range(2)]
    last = ["c1", "c0"]
    for i in range(NODES):
        operator, a, b = steps[i % len(steps)]
        nodes.append(make(operator, [a.format(*last), b.format(*last)], [f"d{i}"]))
        last = [f"d{i}", last[0]]
    if used:
        nodes.append(make("Concat", [last[0], last[1], "i1"], ["shape"], axis=0))
        nodes.append(make("Expand", ["one", "shape"], ["y"]))
    else:
        nodes.append(make("Cast", [last[0]], ["y"], to=TensorProto.FLOAT))
    constants = {"i0": np.array([0], np.int64), "i1": np.array([1], np.int64), "one": np.ones((1, 1, 1), np.float32)}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["h", "w"])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)


@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
@pytest.mark.parametrize("name", STEPS)
def test_formula(name, used, tmp_path, record_property):
    path = tmp_path / "formula.onnx"
    path.write_bytes(chain(STEPS[name], used).SerializeToString())
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = run(["convert", path, "-o", tmp_path / "m.tflite"])
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode in (0, 6, 8), done
    assert "too long" not in done.stderr, done.stderr
    if not is_sanitized():
        assert after.ru_utime - before.ru_utime < 20, (after.ru_utime - before.ru_utime, time.perf_counter() - begin)
    record_property("hostile files refused", int(done.returncode != 0))
