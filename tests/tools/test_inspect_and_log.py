# SPDX-License-Identifier: Apache-2.0
"""inspect --json as its schema says, with numbers as numbers; log lines by level, to stderr and to a file."""

import json
import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.report.models import report_of
from tests.support import converter, json_schema

SCHEMA = json.loads((converter.ROOT / "schemas/inspect.schema.json").read_text())


@pytest.fixture
def model(tmp_path):
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1], auto_pad="NOTSET", name="first"),
        helper.make_node("LeakyRelu", ["c"], ["l"], alpha=0.1),
        helper.make_node("Clip", ["l", "", ""], ["k"]),
        helper.make_node("Constant", [], ["many"], value_ints=list(range(20))),
        helper.make_node("Constant", [], ["few"], value_floats=[0.5, float("inf"), 0.1]),
        helper.make_node("Softmax", ["k"], ["y"], axis=-1),
    ]
    weight = numpy_helper.from_array(np.ones((2, 3, 3, 3), np.float32), "w")
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 5, 7])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 2, 5, 7])],
        [weight],
    )
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(made, {"key": "12"})
    onnx.save(made, tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def listing(path):
    out = json.loads(converter.run("inspect", "--json", path).stdout)
    assert json_schema.faults(out, SCHEMA, "listing") == []
    return out


def attributes(found):
    return {op["op"]: op["attributes"] for op in found["graphs"][0]["operators"]}


def test_numbers_of_an_onnx_model_are_numbers(model):
    made = onnx.load(model)
    made.graph.node.extend(
        [
            helper.make_node("Constant", [], ["texts"], value_strings=["a", "b"]),
            helper.make_node("Lists", [], ["many_others"], domain="my.ops", ints=list(range(20))),
            helper.make_node("Lists", [], ["few_others"], domain="my.ops", floats=[0.5, float("inf"), 0.1]),
        ]
    )
    made.opset_import.append(helper.make_opsetid("my.ops", 1))
    onnx.save(made, model)
    found = listing(model)
    facts = found["facts"]
    assert (facts["IR version"], facts["opset ai.onnx"], facts["external bytes"]) == (8, 17, 0)
    assert facts["file bytes"] == model.stat().st_size and facts["metadata key"] == "12"
    by_output = {op["outputs"][0]: op["attributes"] for op in found["graphs"][0]["operators"]}
    assert by_output["c"] == {"auto_pad": "NOTSET", "pads": [1, 1, 1, 1]}
    assert by_output["l"] == {"alpha": 0.1} and by_output["y"] == {"axis": -1}
    assert by_output["many_others"] == {"ints": "[20 elements]"}
    assert by_output["few_others"] == {"floats": [0.5, "inf", 0.1]}
    assert by_output["texts"] == {"value_strings": ["a", "b"]}
    # Lists of numbers of a Constant are read as its other form, whose elements stay in the file.
    assert by_output["many"] == {"value": "i64[20]"} and by_output["few"] == {"value": "f32[3]"}
    assert found["graphs"][0]["inputs"][0]["shape"] == ["batch", 3, 5, 7]


def test_names_of_dimensions_that_look_like_numbers(tmp_path):
    """In the listing, and in the page and the report, which print numbers themselves."""
    shape = ["007", 3, "1e3", "12"]
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy"]
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", values[:1], values[1:])
    opsets = [helper.make_opsetid("", 17)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=8), tmp_path / "m.onnx")
    assert listing(tmp_path / "m.onnx")["graphs"][0]["inputs"][0]["shape"] == shape
    done = converter.run("inspect", "m.onnx", "--html", "i.html", cwd=tmp_path)
    assert done.returncode == 0 and report_of(tmp_path / "i.html")["graphs"][0]["tensors"][0]["shape"] == shape
    done = converter.run("convert", "m.onnx", "--report", "r.json", cwd=tmp_path)
    assert done.returncode == 0, done
    assert json.loads((tmp_path / "r.json").read_text())["graphs"][0]["tensors"][0]["shape"] == shape


def test_options_that_inspect_cannot_follow(model, tmp_path):
    done = converter.run("inspect", model, "--html", "page.htm", cwd=tmp_path)
    assert done.returncode == 2 and "page.htm must end in .html [" in done.stderr, done
    assert converter.run("convert", model, "-o", tmp_path / "m.tflite").returncode == 0
    done = converter.run("inspect", "--custom", "m.tflite", "--follow-links", ".", cwd=tmp_path)
    assert done.returncode == 2 and "--custom and --follow-links exclude each other" in done.stderr, done


def test_numbers_of_a_tflite_model_are_numbers(model, tmp_path):
    assert converter.convert(model, tmp_path / "m.tflite").status == "converted"
    found = listing(tmp_path / "m.tflite")
    assert found["facts"]["schema version"] == 3
    assert found["facts"]["file bytes"] == (tmp_path / "m.tflite").stat().st_size
    conv = attributes(found)["CONV_2D"]
    assert (conv["stride_w"], conv["padding"], conv["fused_activation_function"]) == (1, "SAME", "NONE")
    assert attributes(found)["LEAKY_RELU"]["alpha"] == 0.1
    assert all(isinstance(constant["bytes"], int) for constant in found["graphs"][0]["constants"])


def test_the_schema_refuses_what_is_wrong(model):
    found = listing(model)
    assert json_schema.faults(found | {"format": "other"}, SCHEMA, "listing")
    assert json_schema.faults(found | {"facts": {"a": [1]}}, SCHEMA, "listing")
    assert json_schema.faults({k: v for k, v in found.items() if k != "totals"}, SCHEMA, "listing")


def test_the_text_form_is_as_before(model):
    text = converter.run("inspect", model).stdout
    assert '  c = Conv(x, w) auto_pad="NOTSET" pads=[1,1,1,1]  # first\n' in text
    assert "alpha=0.1" in text and "value=i64[20]" in text and "  IR version: 8\n" in text


# ---- log lines -------------------------------------------------------------------------------------------------------

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (debug|info|warning|error) .+")


def levels(path):
    found = [LINE.fullmatch(line) for line in path.read_text().splitlines()]
    assert all(found), path.read_text()
    return [match[1] for match in found]


def test_a_log_file(model, tmp_path):
    log = tmp_path / "log.txt"
    done = converter.run("convert", model, "-o", tmp_path / "m.tflite", "--log", log)
    assert done.returncode == 0 and done.stderr == "", done
    assert levels(log).count("info") == 2 and levels(log).count("debug") > 10
    text = log.read_text()
    assert "read " in text and "settle_layouts" in text and "peak RSS" in text
    # Appended, by other commands and for errors too; with --quiet as well.
    before = len(levels(log))
    assert converter.run("check", model, tmp_path / "m.tflite", "--log", log, "-q").returncode == 0
    assert len(levels(log)) > before and "0 differences of the graph" in log.read_text()
    failed = converter.run("convert", tmp_path / "absent.onnx", "--log", log, "-q")
    assert failed.returncode == 3 and failed.stderr.count("\n") == 1
    assert levels(log)[-1] == "error" and "absent.onnx" in log.read_text().splitlines()[-1]


def test_verbose_says_what_is_done(model, tmp_path):
    done = converter.run("convert", model, "-o", tmp_path / "m.tflite", "-v")
    assert "read " in done.stderr and "settle_layouts" in done.stderr and "wrote " in done.stderr, done
    plain = converter.run("convert", model, "-o", tmp_path / "m.tflite")
    assert plain.stderr == "" and plain.returncode == 0


def test_a_log_that_cannot_be_written(model, tmp_path):
    done = converter.run("convert", model, "-o", tmp_path / "m.tflite", "--log", tmp_path / "absent/x")
    assert done.returncode == 3 and f"the folder '{tmp_path}/absent' does not exist" in done.stderr, done
    assert not (tmp_path / "absent").exists()
    done = converter.run("convert", model, "-o", tmp_path / "m.tflite", "--log", "/proc/self/log.txt")
    assert done.returncode == 7 and "no log is written to /proc/self" in done.stderr, done
    both = tmp_path / "r.json"
    done = converter.run("convert", model, "-o", tmp_path / "m.tflite", "--log", both, "--report", both)
    assert done.returncode == 2 and "is the report" in done.stderr and levels(both) == ["error"], done
    done = converter.run("convert", model, "-o", tmp_path / "m.tflite", "--log", tmp_path)
    assert done.returncode == 7 and "a folder, not a file" in done.stderr, done
    before = model.read_bytes()
    done = converter.run("convert", model, "-o", tmp_path / "m.tflite", "--log", model)
    assert done.returncode == 2 and "exists and is not a log of lowtide" in done.stderr, done
    done = converter.run("convert", model, "-o", tmp_path / "m.tflite", "--log", tmp_path / "m.tflite")
    assert done.returncode == 2 and "is the output" in done.stderr, done
    assert model.read_bytes() == before and levels(tmp_path / "m.tflite") == ["error"]


def test_names_do_not_break_lines_of_the_log(model, tmp_path):
    path = tmp_path / "a\nb\x1b[31m.onnx"
    model.rename(path)
    log = tmp_path / "log.txt"
    assert converter.run("convert", path, "-o", tmp_path / "m.tflite", "--log", log).returncode == 0
    assert len(levels(log)) > 10 and "\x1b" not in log.read_text()


def test_merge_logs(model, tmp_path):
    log = tmp_path / "log.txt"
    done = converter.run("merge", f"a={model}", f"b={model}", "-o", tmp_path / "m.tflite", "--log", log)
    assert done.returncode == 0, done
    assert log.read_text().count("info converted ") == 2 and "stored with an equal one" in log.read_text()
