# SPDX-License-Identifier: Apache-2.0
"""Many nodes, many initializers, many files: memory and time go with the nodes, and few files are open at once.

`bench/scale.py nodes` does the same with up to 100,000.
"""

import resource

import numpy as np
import onnx
import pytest
from ai_edge_litert.interpreter import Interpreter
from onnx import TensorProto, helper

from tests.support import converter

KIB, MIB = 2**10, 2**20


def make(folder, nodes, *options):
    model = folder / "m.onnx"
    converter.run("make-model", "many-nodes", "--nodes", nodes, "--quiet", "-o", model, *options, check=True)
    return model


def test_a_node_takes_less_than_one_and_a_half_kib(tmp_path):
    peaks = {}
    for nodes in (4000, 12000):
        done = converter.convert(make(tmp_path, nodes), tmp_path / "m.tflite")
        assert done.status == "converted", done.reason
        peaks[nodes] = done.peak_rss
    assert (peaks[12000] - peaks[4000]) / 8000 < 1.5 * KIB, peaks


def test_more_files_than_may_be_open(tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    for folder, options in ((one, []), (many, ["--files", "150"])):
        folder.mkdir()
        model = make(folder, 2000, *options)
        done = converter.run(
            "convert",
            model,
            "-o",
            folder / "m.tflite",
            "--threads=4",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        )
        assert done.returncode == 0, done.stderr
    assert len(list(many.glob("m.onnx.data.*"))) == 150
    assert (one / "m.tflite").read_bytes() == (many / "m.tflite").read_bytes()


@pytest.mark.parametrize(("attribute", "dtype"), [("value_floats", np.float32), ("value_ints", np.int64)])
def test_lists_of_numbers_stay_in_the_file(attribute, dtype, tmp_path):
    """A Constant may have its elements as a list of numbers, as many as any weight."""
    count = 3_000_000
    numbers = np.random.default_rng(5).integers(-1000, 1000, count).astype(dtype)
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    nodes = [
        helper.make_node("Constant", [], ["c"], **{attribute: numbers.tolist()}),
        helper.make_node("Reshape", ["c", "shape"], ["m"]),
        helper.make_node("Gather", ["m", "at"], ["y"], axis=0),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("at", TensorProto.INT64, [2])],
        [helper.make_tensor_value_info("y", kind, [2, 1000])],
        [helper.make_tensor("shape", TensorProto.INT64, [2], [count // 1000, 1000])],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    done = converter.convert(tmp_path / "m.onnx", tmp_path / "m.tflite", ["--max-rss", "24M"])
    assert done.status == "converted", done.reason
    assert done.peak_rss < 24 * MIB
    runner = Interpreter(str(tmp_path / "m.tflite")).get_signature_runner()
    (found,) = runner(at=np.array([1, 2998], np.int64)).values()
    np.testing.assert_array_equal(found, numbers.reshape(-1, 1000)[[1, 2998]])
