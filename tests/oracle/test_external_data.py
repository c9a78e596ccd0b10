# SPDX-License-Identifier: Apache-2.0
"""Weights in a file beside the model: they are read, whatever the working folder, and an error names what is missing."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.external_data_helper import set_external_data

from tests.support import judge


@pytest.fixture
def external(tmp_path):
    """A convolution whose weight and bias are in `weights.bin`, with a gap between them."""
    rng = np.random.default_rng(3)
    tensors = {"w": rng.uniform(-1, 1, (4, 3, 3, 2)).astype(np.float32), "b": rng.uniform(-1, 1, 4).astype(np.float32)}
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w", "b"], ["y"], name="first")],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 7, 9])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 4, 5, 8])],
        initializer=[numpy_helper.from_array(array, name) for name, array in tensors.items()],
    )
    data = b""
    for tensor in graph.initializer:
        set_external_data(tensor, "weights.bin", offset=len(data), length=len(tensor.raw_data))
        data += tensor.raw_data + b"gap!" * 5
        tensor.ClearField("raw_data")
    (tmp_path / "weights.bin").write_bytes(data)
    path = tmp_path / "model.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def test_external_data_is_read(external, litert, lowtide):
    verdict = judge.judge(external, litert=litert)
    assert verdict.passed, str(verdict)


def test_external_data_is_found_beside_the_model(external, litert, lowtide, tmp_path_factory, monkeypatch):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    verdict = judge.judge(external, litert=litert)
    assert verdict.passed, str(verdict)


@pytest.mark.parametrize("damage", ["missing", "short"])
def test_missing_external_data_is_an_error(external, lowtide, damage):
    data = external.with_name("weights.bin")
    if damage == "missing":
        data.unlink()
    else:
        data.write_bytes(data.read_bytes()[:-30])
    verdict = judge.judge(external)
    assert verdict.status == "refused" and "weights.bin" in verdict.reason, str(verdict)
