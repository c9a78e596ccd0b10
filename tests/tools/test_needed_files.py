# SPDX-License-Identifier: Apache-2.0
"""No output replaces a file that the same command reads: weights beside the model, another model, the file of an option."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import converter


def product(path, external=None):
    weight = np.arange(35, dtype=np.float32).reshape(7, 5)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 5])],
        [numpy_helper.from_array(weight, "w")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.save(model, path, save_as_external_data=external is not None, location=external, size_threshold=0)


def refused(folder, *arguments):
    """The message, of a command that leaves all files as they are."""
    before = {path: path.read_bytes() for path in folder.iterdir()}
    done = converter.run(*arguments, cwd=folder)
    assert done.returncode == 2 and done.stderr.count("\n") == 1, done
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    return done.stderr


@pytest.mark.parametrize(
    "options",
    [["extract", "--to", "y"], ["extract", "--to", "y", "--external-data"], ["convert"]],
    ids=["extract", "extract with data", "convert"],
)
def test_weights_of_the_model(options, tmp_path):
    product(tmp_path / "m.onnx", external="w.bin")
    command, *rest = options
    assert "w.bin" in refused(tmp_path, command, "m.onnx", *rest, "-o", "w.bin")


def test_a_model_that_is_converted_later(tmp_path):
    """m.lite is a TFLite model by its content, so its output would be m.onnx."""
    product(tmp_path / "other.onnx")
    assert converter.run("convert", "other.onnx", "-o", "m.lite", cwd=tmp_path).returncode == 0
    product(tmp_path / "m.onnx")
    assert "the output m.onnx of m.lite is another input" in refused(tmp_path, "convert", "m.lite", "m.onnx")


@pytest.mark.parametrize("end", [["-o", "read"], ["-o", "n.tflite", "--report", "read"]])
def test_files_of_options(end, tmp_path):
    product(tmp_path / "m.onnx")
    (tmp_path / "read").write_text("a\nb\nc\nd\ne\n")
    np.save(tmp_path / "x.npy", np.ones((3, 7), np.float32))
    message = refused(tmp_path, "convert", "m.onnx", "--labels", "read", *end)
    assert "read is a file that an option reads" in message
    constant = [word.replace("read", "x.npy") for word in end]
    assert "x.npy is a file that an option reads" in refused(
        tmp_path, "convert", "m.onnx", "--const", "x=x.npy", *constant
    )
