# SPDX-License-Identifier: Apache-2.0
"""The files and reports that the program writes, and the pages that describe them."""

import json
import pathlib
import random
import re
import subprocess

import numpy as np
import onnx
import pytest
from ai_edge_litert import schema_py_generated as schema
from onnx import TensorProto, helper, numpy_helper

from tests.support import converter, json_schema, judge
from tests.support.litert import Litert

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module", autouse=True)
def program():
    return converter.program()


def network(path, rows=64):
    """x[3,5] -> MatMul -> Relu -> Add -> y, with two weights."""
    rng = np.random.default_rng(0)
    weights = {"w": rng.uniform(-1, 1, (5, rows)), "b": rng.uniform(-1, 1, rows)}
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["m"]),
        helper.make_node("Relu", ["m"], ["r"]),
        helper.make_node("Add", ["r", "b"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, rows])],
        [numpy_helper.from_array(array.astype(np.float32), name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), path)
    return path


def inspect(path):
    return converter.run("inspect", "--json", path)


def test_report_is_as_its_schema_says(tmp_path):
    rules = json.loads((ROOT / "schemas/report.schema.json").read_text())
    converted, refused, listed = rules["oneOf"]
    assert {*converted["required"], *refused["required"], *listed["required"]} == {*rules["properties"]}
    for options in ([], ["--dry-run"]):
        report = tmp_path / "report.json"
        done = converter.convert(network(tmp_path / "m.onnx"), tmp_path / "m.tflite", [f"--report={report}", *options])
        found = json.loads(report.read_text())
        assert json_schema.faults(found, rules) == []
        assert sorted(found) == sorted(converted["required"])
        assert found["input_bytes"] == (tmp_path / "m.onnx").stat().st_size
        assert abs(found["peak_rss"] - done.peak_rss) < 2**20
    assert found["dry_run"] and found["output_bytes"] == (tmp_path / "m.tflite").stat().st_size


def test_error_page_has_the_table_of_the_program():
    code = re.findall(r'CodeRow\{Code::\w+, "([a-z-]+)", (\d+)\}', (ROOT / "stream/error.cc").read_text())
    page = re.findall(r"^\| ([a-z-]+) \| (\d+) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert len(code) == 11 and page == code


def test_defaults_of_options_are_those_of_the_schema():
    """The reader names the fields that a file leaves out because they have their default."""
    tables = re.findall(
        r"^table (\w+Options) \{(.*?)\}", (ROOT / "schemas/tflite.fbs").read_text(), re.MULTILINE | re.DOTALL
    )
    wanted = {
        (table, field, {"true": "1", "INT32": "2"}.get(value, value))
        for table, body in tables
        for field, value in re.findall(r"(\w+):\w+ = (\w+)", body)
    }
    rows = set(re.findall(r'\{"(\w+)", "(\w+)", (\d+)\}', (ROOT / "stream/tflite/options.cc").read_text()))
    assert wanted and rows == wanted


def test_default_output_is_in_the_models_folder(tmp_path, program):
    model = network(tmp_path / "some.net.onnx")
    assert converter.run("convert", model, "--quiet").returncode == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["some.net.onnx", "some.net.tflite"]


@pytest.mark.parametrize("external", [False, True])
def test_both_forms_run_and_are_aligned(external, tmp_path):
    model, output = network(tmp_path / "m.onnx"), tmp_path / "m.tflite"
    assert converter.convert(model, output, ["--external-buffers"] if external else []).status == "converted"
    data = output.read_bytes()
    root = schema.Model.GetRootAs(data, 0)
    payloads = 0
    for i in range(1, root.BuffersLength()):
        buffer = root.Buffers(i)
        if buffer.Offset() > 1:
            assert buffer.Offset() % 16 == 0 and buffer.Offset() + buffer.Size() + 16 <= len(data)
            payloads += 1
    metadata = {root.Metadata(i).Name() for i in range(root.MetadataLength())}
    assert (
        (payloads > 0) == external
        and (b"buffer_location" in metadata) == external
        and b"min_runtime_version" in metadata
    )
    assert root.Buffers(0).DataLength() == 0 and root.Buffers(0).Size() == 0
    x = np.random.default_rng(1).uniform(-1, 1, (3, 5)).astype(np.float32)
    expected = judge.reference(model, {"x": x})["y"]
    with Litert() as litert:
        for plain in (True, False):
            np.testing.assert_allclose(litert.run(output, {"x": x}, plain)["y"], expected, atol=1e-5)


def test_constant_without_elements(tmp_path):
    """The target shape of a reshape to a scalar is a tensor of no elements; for the runtime it must be a constant all the same."""
    graph = helper.make_graph(
        [helper.make_node("Reshape", ["x", "s"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [])],
        [numpy_helper.from_array(np.zeros(0, np.int64), "s")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), tmp_path / "m.onnx")
    for options in ([], ["--external-buffers"]):
        assert converter.convert(tmp_path / "m.onnx", tmp_path / "m.tflite", options).status == "converted"
        with Litert() as litert:
            y = litert.run(tmp_path / "m.tflite", {"x": np.array([7], np.float32)}, True)["y"]
        assert y.shape == () and y == 7


def test_inspect_lists_what_is_there(tmp_path):
    model = network(tmp_path / "m.onnx")
    assert converter.convert(model, tmp_path / "m.tflite").status == "converted"
    ours, theirs = (json.loads(inspect(path).stdout) for path in (model, tmp_path / "m.tflite"))
    assert ours["format"] == "ONNX" and ours["totals"] == {"Add": 1, "MatMul": 1, "Relu": 1}
    assert [(c["name"], c["shape"], c["bytes"]) for c in ours["graphs"][0]["constants"]] == [
        ("w", [5, 64], 1280),
        ("b", [64], 256),
    ]
    assert theirs["format"] == "TFLite" and sum(theirs["totals"].values()) == len(theirs["graphs"][0]["operators"])
    for listing in (ours, theirs):
        graph = listing["graphs"][0]
        assert [(t["name"], t["dtype"], t["shape"]) for t in graph["inputs"] + graph["outputs"]] == [
            ("x", "f32", [3, 5]),
            ("y", "f32", [3, 64]),
        ]


def test_listing_into_a_closed_pipe(tmp_path, program):
    model = network(tmp_path / "m.onnx", rows=3)
    for _ in range(3):
        done = subprocess.run(
            ["bash", "-c", f"set -o pipefail; '{program}' inspect '{model}' | true"],
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode in (0, 141) and done.stderr == ""


def test_damaged_tflite_files_are_refused_or_listed(tmp_path):
    """Cut anywhere and with bytes changed: an error or a listing, never a crash."""
    model = network(tmp_path / "m.onnx", rows=8)
    assert converter.convert(model, tmp_path / "good.tflite").status == "converted"
    good = (tmp_path / "good.tflite").read_bytes()
    rng = random.Random(7)
    damaged = [good[: rng.randrange(len(good))] for _ in range(100)]
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.choice([1, 2, 8])):
            data[rng.randrange(len(data))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        damaged.append(bytes(data))
    refused = 0
    for data in damaged:
        (tmp_path / "bad.tflite").write_bytes(data)
        done = inspect(tmp_path / "bad.tflite")
        assert done.returncode in (0, 6, 7, 8), (done.returncode, done.stderr)
        if done.returncode:
            assert "bad.tflite" in done.stderr and len(done.stderr.splitlines()) == 1
            refused += 1
        else:
            json.loads(done.stdout)
    assert refused > 100
