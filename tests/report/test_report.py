# SPDX-License-Identifier: Apache-2.0
"""What a report says, that it is JSON whatever names a model has, and what it costs."""

import json
import pathlib
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.report.models import TEXT_NAMES, hostile_model, report_of
from tests.support import converter, json_schema

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "schemas/report.schema.json").read_text())
MIB = 2**20


def convert(folder, *options, model="m.onnx"):
    done = converter.run("convert", model, "-o", "m.tflite", *options, cwd=folder)
    assert done.returncode == 0, done
    return done


def read(path):
    report = report_of(path) if path.suffix == ".html" else json.loads(path.read_text(encoding="utf-8"))
    assert json_schema.faults(report, SCHEMA) == []
    return report


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """The ResNet101-DUC network, with reports in all forms."""
    folder = tmp_path_factory.mktemp("duc")
    assert converter.run("make-model", "duc", "-o", "m.onnx", cwd=folder).returncode == 0
    for name in ("r.json", "r.html", "r.nodes.json"):
        convert(folder, "--report", name)
    return folder


def small_model(folder):
    """Conv -> BatchNormalization -> Relu, a cancelled pair of transposes, shape arithmetic that folds, and a value that
    two users need in different orders."""
    rng = np.random.default_rng(0)
    weights = {
        "k": rng.uniform(-1, 1, (4, 3, 3, 3)).astype(np.float32),
        "scale": rng.uniform(0.5, 1, 4).astype(np.float32),
        "shift": rng.uniform(-1, 1, 4).astype(np.float32),
        "mean": rng.uniform(-1, 1, 4).astype(np.float32),
        "var": rng.uniform(0.5, 1, 4).astype(np.float32),
        "zero": np.array([0], np.int64),
        "rest": np.array([-1], np.int64),
    }
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["c"], name="the_conv", pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["c", "scale", "shift", "mean", "var"], ["b"], name="the_norm"),
        helper.make_node("Relu", ["b"], ["r"], name="the_relu"),
        helper.make_node("Shape", ["r"], ["s"], name="the_shape"),
        helper.make_node("Gather", ["s", "zero"], ["g"], name="the_gather"),
        helper.make_node("Concat", ["g", "rest"], ["t"], name="the_concat", axis=0),
        helper.make_node("Reshape", ["r", "t"], ["y"], name="the_reshape"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 6, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 120])],
        initializer=[numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.producer_name, model.producer_version = "a tester", "3"
    onnx.save(model, folder / "m.onnx")


def test_what_became_of_each_node(tmp_path):
    small_model(tmp_path)
    convert(tmp_path, "--report", "r.json", "--verify-output")
    report = read(tmp_path / "r.json")
    assert report["version"] == 1 and report["kind"] == "conversion"
    command = ["convert", "m.onnx", "-o", "m.tflite", "--report", "r.json", "--verify-output"]
    assert report["command_line"] == ["lowtide", *command]
    assert report["versions"]["opsets"] == {"ai.onnx": 17} and report["versions"]["producer"] == "a tester 3"
    assert report["operators_before"]["Conv"] == 1 and sum(report["operators_before"].values()) == 7
    assert sum(report["operators_after"].values()) == report["operators"]
    graph = report["graphs"][0]
    fates = {node["name"]: node.get("became", "operators") for node in graph["nodes"]}
    assert fates == {
        "the_conv": "operators",
        "the_norm": "operators",
        "the_relu": "operators",
        "the_shape": "folded",
        "the_gather": "folded",
        "the_concat": "folded",
        "the_reshape": "operators",
    }
    conv = next(op for op in graph["operators"] if op["op"] == "CONV_2D")
    assert [graph["nodes"][n]["name"] for n in conv["nodes"]] == ["the_conv", "the_norm", "the_relu"]
    # What is in the ONNX order for Reshape is in TFLite's for the convolution.
    assert len(report["kept_transposes"]) == report["transposes"] > 0
    before_reshape = report["kept_transposes"][-1]
    assert before_reshape["permutation"] == [0, 3, 1, 2] and before_reshape["bytes"] == 4 * 120
    assert (before_reshape["stored_for"]["op"], before_reshape["wanted_by"]["op"]) == ("CONV_2D", "RESHAPE")
    largest = report["largest_tensors"][0]
    assert largest["bytes"] == 432, largest
    stored, changed = largest["recipe"].split(", ", 1)
    assert stored.startswith("f32[4,3,3,3] from m.onnx at byte "), stored
    assert changed == "axes permuted to 0,2,3,1, multiplied with a constant [4,1,1,1]"
    assert report["verified_tensors"] == len(report["digests"]) > 0


def test_tensors_are_those_of_the_file(network):
    graph = read(network / "r.json")["graphs"][0]
    listed = json.loads(converter.run("inspect", "--json", "m.tflite", cwd=network).stdout)["graphs"][0]
    names = [tensor["name"] for tensor in graph["tensors"]]
    assert len(set(names)) == len(names)
    assert [names[i] for i in graph["inputs"]] == [tensor["name"] for tensor in listed["inputs"]]
    for op, other in zip(graph["operators"], listed["operators"], strict=True):
        assert op["op"] == other["op"]
        assert [names[i] for i in op["outputs"]] == other["outputs"]
        assert [names[i] if i >= 0 else "" for i in op["inputs"]] == other["inputs"]
    constants = {tensor["name"]: tensor["bytes"] for tensor in listed["constants"]}
    for tensor in graph["tensors"]:
        assert (
            tensor["name"] not in constants
            or tensor.get("bytes", constants[tensor["name"]]) == constants[tensor["name"]]
        )
    recipe = read(network / "r.json")["largest_tensors"][0]["recipe"]
    assert re.match(r"f32\[304,2048,3,3\] from m.onnx at byte \d+, axes permuted to 0,2,3,1", recipe), recipe
    # What the nodes became adds up: no Conv, no normalization, no activation is lost.
    assert all("became" not in node for node in graph["nodes"] if node["operator"] != "Transpose")


def test_memory_over_time(network):
    report = read(network / "r.json")
    samples = report["memory"]["samples"]
    assert 10 < len(samples) <= 1000
    assert [s[0] for s in samples] == sorted(s[0] for s in samples) and samples[-1][0] <= report["seconds"]
    highest = max(anonymous + file for _, anonymous, file in samples)
    assert 0 < highest <= report["peak_rss"] <= report["memory"]["limit"]
    phases = {phase["name"]: phase for phase in report["phases"]}
    assert {"read", "lower", "fuse", "settle_layouts", "plan", "writing"} <= phases.keys()
    assert phases["writing"]["bytes"] >= report["payload_bytes"]
    assert all(phase["begin"] + phase["seconds"] <= report["seconds"] for phase in phases.values())


def test_long_conversions_keep_at_most_a_thousand_samples(tmp_path):
    done = converter.run("make-model", "conv-stack", "--size", "3G", "--sparse", "-o", "m.onnx", cwd=tmp_path)
    assert done.returncode == 0, done
    done = converter.run("convert", "m.onnx", "-o", "m.tflite", "--report", "r.json", "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done
    assert 0 < len(read(tmp_path / "r.json")["memory"]["samples"]) <= 1000


def test_the_page_has_the_json(network):
    page, plain = read(network / "r.html"), read(network / "r.json")
    assert page.keys() == plain.keys() and page["graphs"] == plain["graphs"]
    text = (network / "r.html").read_text()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    assert re.fullmatch(
        r"default-src 'none'; script-src 'sha256-[\w+/]{43}='; style-src 'sha256-[\w+/]{43}='; base-uri 'none'; form-action 'none'",
        policy,
    )
    assert not re.search(r"(src|href)=\"?(https?:)?//", text), "nothing is loaded"


def test_node_data(network):
    data = json.loads((network / "r.nodes.json").read_text())
    graph = read(network / "r.json")["graphs"][0]
    assert list(data) == [graph["name"]]
    results = data[graph["name"]]["results"]
    made = [graph["tensors"][i]["name"] for op in graph["operators"] for i in op["outputs"]]
    assert list(results) == made
    conv = next(op for op in graph["operators"] if op["op"] == "CONV_2D")
    weights = sum(graph["tensors"][i].get("bytes", 0) for i in conv["inputs"] if i >= 0)
    assert results[graph["tensors"][conv["outputs"][0]]["name"]] == {"value": weights}


def test_refused_nodes_are_in_both_forms(tmp_path):
    nodes = [helper.make_node("Octopus", ["x"], ["y"], name="</script>", domain="sea")]
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 4]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", value[:1], value[1:])
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("sea", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    for name in ("r.json", "r.html", "r.nodes.json"):
        done = converter.run("convert", "m.onnx", "--report", name, cwd=tmp_path)
        assert done.returncode == 8, done
    assert sorted(path.name for path in tmp_path.iterdir()) == ["m.onnx", "r.html", "r.json"]
    for name in ("r.json", "r.html"):
        report = read(tmp_path / name)
        assert report["kind"] == "refusal" and report["refused"][0]["operator"] == "sea.Octopus"
        assert report["operators_before"] == {"sea.Octopus": 1}


def test_inspection(network):
    for model in ("m.onnx", "m.tflite"):
        done = converter.run("inspect", model, "--html", "i.html", cwd=network)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done
        report = read(network / "i.html")
        listed = json.loads(converter.run("inspect", model, "--json", cwd=network).stdout)
        assert report["format"] == listed["format"] and report["facts"] == {
            name: str(value) for name, value in listed["facts"].items()
        }
        assert [op["op"] for op in report["graphs"][0]["operators"]] == [
            op["op"] for op in listed["graphs"][0]["operators"]
        ]
    both = converter.run("inspect", "m.tflite", "--html", "i.html", "--json", cwd=network)
    assert json.loads(both.stdout) == listed


# ---- Bad input ----


def test_paths_are_refused_before_the_work(tmp_path):
    small_model(tmp_path)
    before = (tmp_path / "m.onnx").read_bytes()
    (tmp_path / "link.html").symlink_to("m.onnx")
    (tmp_path / "folder.html").mkdir()
    for command, status, words in (
        (["convert", "m.onnx", "--report", "r.txt"], 2, "must end in .json, .html or .nodes.json"),
        (["convert", "m.onnx", "--report", "link.html"], 2, "is the input or the output"),
        (["convert", "m.onnx", "--report", "folder.html"], 7, "folder.html: the output is a folder"),
        (["convert", "m.onnx", "--report", "absent/r.html"], 3, "absent/r.html: the folder 'absent' does not exist"),
        (["convert", "m.onnx", "--report", "/proc/self/r.html"], 7, "no output is written to /proc/self"),
        (["inspect", "m.onnx", "--html", "r.json"], 2, "must end in .html"),
        (["inspect", "m.onnx", "--html", "link.html"], 2, "is the model"),
        (["inspect", "m.onnx", "--html", "absent/r.html"], 3, "absent/r.html: the folder 'absent' does not exist"),
    ):
        done = converter.run(*command, cwd=tmp_path)
        assert (
            done.returncode == status and words in done.stderr and done.stderr.count("\n") == 1 and not done.stdout
        ), (command, done)
    assert (tmp_path / "m.onnx").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.html", "link.html", "m.onnx"]


def test_a_page_never_replaces_weights(tmp_path):
    small_model(tmp_path)
    model = onnx.load(tmp_path / "m.onnx")
    onnx.save(model, tmp_path / "m.onnx", save_as_external_data=True, location="w.html", size_threshold=0)
    before = (tmp_path / "w.html").read_bytes()
    for command in (["convert", "m.onnx", "--report", "w.html"], ["inspect", "m.onnx", "--html", "w.html"]):
        done = converter.run(*command, cwd=tmp_path)
        assert done.returncode == 2 and "holds weights of the model" in done.stderr, done
    assert (tmp_path / "w.html").read_bytes() == before


def test_hostile_names(tmp_path):
    (tmp_path / "m.onnx").write_bytes(hostile_model())
    for name in ("r.json", "r.html", "r.nodes.json"):
        convert(tmp_path, "--report", name)
    report = read(tmp_path / "r.html")
    assert report["graphs"] == read(tmp_path / "r.json")["graphs"]
    assert "<" not in (tmp_path / "r.json").read_text()
    names = {node["name"] for node in report["graphs"][0]["nodes"]}
    wanted = {name.replace("\0", "\\x00") for name in TEXT_NAMES}  # as in the TFLite file
    assert wanted <= names
    data = json.loads((tmp_path / "r.nodes.json").read_text(), object_pairs_hook=lambda pairs: pairs)
    keys = [key for key, _ in data[0][1][0][1]]
    assert len(keys) == len(set(keys)) and wanted <= set(keys)
    for model in ("m.onnx", "m.tflite"):
        done = converter.run("inspect", model, "--html", "i.html", cwd=tmp_path)
        assert done.returncode == 0, done
        read(tmp_path / "i.html")


def test_an_empty_graph(tmp_path):
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])
    graph = helper.make_graph([], "nothing", [value], [value])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    convert(tmp_path, "--report", "r.html")
    assert read(tmp_path / "r.html")["operators_before"] == {}
    assert converter.run("inspect", "m.onnx", "--html", "i.html", cwd=tmp_path).returncode == 0
    assert read(tmp_path / "i.html")["graphs"][0]["operators"] == []


def test_reports_do_not_change_the_result(tmp_path):
    small_model(tmp_path)
    convert(tmp_path)
    right = (tmp_path / "m.tflite").read_bytes()
    for name in ("r.json", "r.html", "r.nodes.json"):
        convert(tmp_path, "--report", name)
        assert (tmp_path / "m.tflite").read_bytes() == right


# ---- What it costs ----


def test_size_and_memory_of_a_network(network):
    assert (network / "r.html").stat().st_size < 5e6
    nodes = read(network / "r.json")["nodes"]
    peaks = {name: [] for name in ("r.json", "r.html", "none")}
    for _ in range(3):
        for name, found in peaks.items():
            done = convert(network, *([] if name == "none" else ["--report", name]))
            found.append(float(re.search(r"peak RSS ([0-9.]+) MiB", done.stdout)[1]) * MIB)
    for name in ("r.json", "r.html"):
        assert min(peaks[name]) - min(peaks["none"]) < 2 * MIB + 200 * nodes, peaks


def test_size_and_memory_of_100_000_nodes(tmp_path):
    nodes = 100_000
    done = converter.run("make-model", "many-nodes", "--nodes", str(nodes), "-o", "m.onnx", cwd=tmp_path)
    assert done.returncode == 0, done
    peaks = []
    for options in ([], ["--report", "r.html"]):
        done = converter.run("convert", "m.onnx", "-o", "m.tflite", *options, cwd=tmp_path, cpu_seconds=600)
        assert done.returncode == 0, done
        peaks.append(float(re.search(r"peak RSS ([0-9.]+) MiB", done.stdout)[1]) * MIB)
    assert (tmp_path / "r.html").stat().st_size < 60e6
    assert peaks[1] - peaks[0] < 2 * MIB + 200 * nodes, peaks
    report = report_of(tmp_path / "r.html")
    assert len(report["graphs"][0]["nodes"]) == nodes and len(report["kept_transposes"]) == 2
