# SPDX-License-Identifier: Apache-2.0
"""--max-rss is kept, and where it is too small, the number that the error names is enough: really, by running again."""

import re
import subprocess

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.support import converter

MIB = 2**20
MODELS = {
    "duc": ["duc", "--size=40M", "--sparse"],
    "deeplab inline": ["deeplab", "--size=30M"],
    "unet": ["unet", "--size=30M", "--sparse"],
    "convolutions": ["conv-stack", "--size=40M", "--sparse"],
    "plain": ["conv-stack", "--size=40M", "--sparse", "--plain"],
}


@pytest.fixture(scope="module", params=MODELS)
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    converter.run("make-model", *MODELS[request.param], "--quiet", "-o", path, check=True)
    return path


def named(done):
    """The budget that a refusal names, in MiB."""
    assert done.status == "refused" and "[budget]" in done.reason, done
    return int(re.search(r"--max-rss (\d+)M is enough", done.reason)[1])


def convert_within(model, output, mib, *options):
    done = converter.convert(model, output, [f"--max-rss={mib}M", *options])
    assert done.status == "converted", (mib, done.reason)
    assert done.peak_rss <= mib * MIB, (mib, done.peak_rss / MIB)
    return output.read_bytes()


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_the_limit_in_the_error_is_enough(model, threads, tmp_path):
    output = tmp_path / "m.tflite"
    options = [f"--threads={threads}"]
    enough = named(converter.convert(model, output, ["--max-rss=1M", *options]))
    small = convert_within(model, output, enough, *options)
    # And the smallest one: well below it, nothing does.
    assert abs(named(converter.convert(model, output, [f"--max-rss={enough - 3}M", *options])) - enough) <= 1
    assert small == convert_within(model, output, 64, *options)


def test_a_float_cnn_within_16_mib(model, tmp_path):
    convert_within(model, tmp_path / "m.tflite", 16)


def test_a_window_of_compressed_data_counts(tmp_path):
    """Long windows are what zstd's --long makes: 64 MiB of them must fit."""
    model = tmp_path / "m.onnx"
    weight = numpy_helper.from_array(np.random.default_rng(1).integers(0, 9, (2048, 2048)).astype(np.float32), "w")
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 2048])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 2048])],
        initializer=[weight],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), model)
    compressed = tmp_path / "m.onnx.zst"
    with open(model, "rb") as file:  # from a pipe, so that the window is not cut to the size of the file
        subprocess.run(["zstd", "-q", "--long=26", "-o", compressed], stdin=file, check=True)
    enough = named(converter.convert(compressed, tmp_path / "m.tflite", ["--max-rss=16M"]))
    assert enough > 16
    convert_within(compressed, tmp_path / "m.tflite", enough)
