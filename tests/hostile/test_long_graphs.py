# SPDX-License-Identifier: Apache-2.0
"""Graphs of thousands of nodes for which a pass once took time that grew with the square of their number."""

import onnx
import pytest

from bench import motifs
from tests.support import converter

CPU_SECONDS = 3  # each takes less than a third of it; it took more before


@pytest.mark.parametrize(
    ("names", "form", "repeat", "options"),
    [
        (["merged_axes"], "chain", 8000, []),
        (["merged_sum"], "chain", 9000, ["--layout", "x=nhwc"]),
        (["five_axes"], "chain", 12000, []),
        (["gelu", "own_shape"], "chain", 4000, ["--layout", "x=nhwc"]),
        (["erf"], "chain", 12000, []),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else str(value),
)
def test_time_grows_with_the_nodes(names, form, repeat, options, tmp_path):
    path = tmp_path / "m.onnx"
    onnx.save(motifs.build(names, form, repeat), path)
    done = converter.run("convert", path, "--dry-run", "--max-rss", "2G", *options, cpu_seconds=CPU_SECONDS)
    assert done.returncode == 0, done.stderr[:500]


def test_a_node_of_many_attributes(tmp_path):
    """Whether a list of numbers is a Constant's is looked up in the node: once, not for each attribute."""
    node = onnx.NodeProto(op_type="Constant", output=["y"])
    for _ in range(60_000):
        node.attribute.add(name="value_ints", type=onnx.AttributeProto.INTS, ints=[1])
    model = onnx.ModelProto(ir_version=8, opset_import=[onnx.helper.make_opsetid("", 17)])
    model.graph.name = "g"
    model.graph.node.append(node)
    model.graph.output.append(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [1]))
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    done = converter.run("convert", path, "--dry-run", cpu_seconds=CPU_SECONDS)
    assert done.returncode == 6 and "is given twice" in done.stderr, done.stderr[:500]
