# SPDX-License-Identifier: Apache-2.0
"""What the program says of files: wrong formats, names with control characters, refused nodes, terminals."""

import gzip
import io
import json
import os
import pathlib
import pty
import re
import subprocess
import zipfile

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from tests.hostile.good_tflite import good_tflite, pack
from tests.support import converter, json_schema
from tests.tools.test_command_line import run

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCHEMA = json.loads((ROOT / "schemas/report.schema.json").read_text())
HINT = "with '--custom-ops allow' it becomes a custom operator"


def value(name, shape=(1, 3, 4, 5)):
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


def save(path, nodes, inputs, outputs, initializers=(), ir_version=8, opset=17):
    graph = helper.make_graph(nodes, "g", inputs, outputs, list(initializers))
    imports = [helper.make_opsetid("", opset), helper.make_opsetid("com.acme", 1)]
    onnx.save(helper.make_model(graph, opset_imports=imports, ir_version=ir_version), path)


def relu(path):
    save(path, [helper.make_node("Relu", ["x"], ["y"])], [value("x")], [value("y")])
    return path


def archive(name):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as content:
        content.writestr(name, b"some bytes")
    return file.getvalue()


FORMATS = {
    "gzip": (gzip.compress(b"some bytes"), "a gzip file, not an ONNX model; decompress it first"),
    "bzip2": (b"BZh91AY&SY" + bytes(40), "a bzip2 file"),
    "xz": (b"\xfd7zXZ\0" + bytes(40), "an xz file"),
    "lz4": (b"\x04\x22\x4d\x18" + bytes(40), "an lz4 file"),
    "7z": (b"7z\xbc\xaf\x27\x1c" + bytes(40), "a 7z archive"),
    "zstd": (b"\x28\xb5\x2f\xfd" + bytes(40), "zstd data, not an ONNX model; its name must end in .zst"),
    "zip": (archive("model.onnx"), "a zip archive, not an ONNX model; extract the model first"),
    "pytorch": (archive("net/data.pkl"), "a PyTorch file, not an ONNX model; export the model with torch.onnx.export"),
    "old pytorch": (bytes.fromhex("80028a0a6cfc9c46f9206aa85019") + b".", "a PyTorch file"),
    "safetensors": ((64).to_bytes(8, "little") + b'{"w": {}}', "a safetensors file, not an ONNX model"),
    "gguf": (b"GGUF\3\0\0\0" + bytes(40), "a GGUF model"),
    "hdf5": (b"\x89HDF\r\n\x1a\n" + bytes(40), "an HDF5 file"),
    "html": (b"<!DOCTYPE html><html>", "an HTML page"),
    "ort": (b"\x18\0\0\0ORTM" + bytes(40), "a model in ONNX Runtime's own format"),
    "elf": (b"\x7fELF\2\1\1" + bytes(40), "a program or a library (ELF), not an ONNX model"),
    "empty": (b"", "empty"),
}
TEXTS = {
    "text": ("This is no model; it has three dots ...\n", "text"),
    "other letters": ("Žádný model\n", "text"),
    "JSON": ('\n{"weights": []}\n', "JSON"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_another_format_is_named(name, tmp_path):
    content, words = FORMATS[name]
    (tmp_path / "m.onnx").write_bytes(content)
    done = run(tmp_path, "convert", "m.onnx")
    assert done.returncode == 6 and f"m.onnx: the file is {words}" in done.stderr and done.stderr.count("\n") == 1, done


@pytest.mark.parametrize("command", ["convert", "inspect"])
@pytest.mark.parametrize("name", ["m.onnx", "m.tflite"])
@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_called_one(text, name, command, tmp_path):
    content, kind = TEXTS[text]
    (tmp_path / name).write_text(content)
    done = run(tmp_path, command, name, *(["-o", "o.tflite"] if command == "convert" else []))
    words = f"lowtide: {name}: not an ONNX or TFLite model (it looks like {kind}) [malformed]\n"
    assert (done.returncode, done.stderr) == (6, words), done


def test_the_direction_is_that_of_the_content(tmp_path):
    (tmp_path / "m.onnx").write_bytes(pack(good_tflite()))
    done = run(tmp_path, "convert", "m.onnx")
    assert done.returncode == 2 and "the output m.onnx is the input; give another name with -o" in done.stderr, done
    done = run(tmp_path, "convert", "m.onnx", "-o", "n.tflite")
    assert done.returncode == 2 and "m.onnx is a TFLite model and becomes ONNX" in done.stderr, done
    assert "-o n.onnx" in done.stderr
    done = run(tmp_path, "convert", "m.onnx", "-o", "n.onnx", "--dim", "n=2")
    assert done.returncode == 2 and "--dim is for ONNX models" in done.stderr, done
    relu(tmp_path / "r.onnx")
    done = run(tmp_path, "convert", "r.onnx", "--opset", "18")
    assert done.returncode == 2 and "--opset and --external-data are for TFLite models" in done.stderr, done


# Options that a TFLite model takes.
OF_TFLITE = {
    *("--help", "--output", "--shape", "--layout", "--signature", "--opset", "--external-data", "--custom-ops"),
    *("--dry-run", "--max-rss", "--threads", "--max-zstd-ratio", "--quiet", "--verbose", "--log", "--errors"),
    "--progress-fd",
}
# Values of the others, where the parser checks them.
VALUES = {"--weights": "f16", "--quantize": "int8", "--equalize": "none", "--correct": "none", "--io": "int8"}
VALUES |= {"--for": "gpu", "--zstd-level": "5", "--const": "x=1", "--dim": "n=2"}


def test_each_option_is_taken_or_refused(tmp_path):
    """Of TFLite models: whoever adds an option to the parser must say in convert_to_onnx.cc what becomes of it."""
    (tmp_path / "m.tflite").write_bytes(pack(good_tflite()))
    text = run(tmp_path, "convert", "--help").stdout
    options = dict(re.findall(r"^  (?:-\w, )?(--[a-z0-9-]+)(.*)$", text, re.MULTILINE))
    assert len(options) > 40 and set(options) >= OF_TFLITE
    for name, rest in options.items():
        if name in OF_TFLITE:
            continue
        has_value = re.match(r" \S", rest) is not None  # the description is two spaces behind
        given = [name, VALUES.get(name, "value")] if has_value else [name]
        done = run(tmp_path, "convert", "m.tflite", "-o", "o.onnx", *given)
        words = f"lowtide: {name}"
        assert done.returncode == 2 and done.stderr.startswith(words) and "is for ONNX models" in done.stderr, done
    done = run(tmp_path, "convert", "m.tflite", "-o", "o.onnx", "--io", "pread")
    assert done.returncode == 2 and "--io pread is for ONNX models" in done.stderr, done
    assert [path.name for path in tmp_path.iterdir()] == ["m.tflite"]


def test_brackets_in_a_name(tmp_path):
    (tmp_path / "a [malformed].onnx").write_bytes(b"\x3a\xff\x01" + bytes(20))
    done = run(tmp_path, "convert", "a [malformed].onnx", "--errors", "json")
    message = json.loads(done.stderr)["message"]
    assert message.startswith("a [malformed].onnx: ") and not message.endswith("]"), message


def test_a_tflite_model_is_not_called_the_output(tmp_path):
    relu(tmp_path / "n.tflite")
    done = run(tmp_path, "convert", "n.tflite")
    assert done.returncode == 2 and "the output n.tflite is the input; give another name with -o" in done.stderr, done
    done = run(tmp_path, "inspect", "n.tflite")  # by its content
    assert done.returncode == 0 and done.stdout.startswith("ONNX\n"), done
    done = run(tmp_path, "check", "n.tflite", "n.tflite")
    assert done.returncode == 6 and "the file is an ONNX model, not a TFLite model" in done.stderr, done


@pytest.mark.parametrize("suffix", ["gz", "bz2", "xz", "lz4", "zip", "zstd", "ZST"])
def test_a_compression_that_is_not_done_is_refused(suffix, tmp_path):
    relu(tmp_path / "m.onnx")
    done = run(tmp_path, "convert", "m.onnx", "-o", f"m.tflite.{suffix}")
    assert done.returncode == 2 and "-o m.tflite.zst" in done.stderr, done
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(("output", "instead"), [("n.onnx", "n.tflite"), ("n.onnx.zst", "n.tflite.zst")])
def test_a_name_of_the_other_format_is_refused(output, instead, tmp_path):
    relu(tmp_path / "m.onnx")
    done = run(tmp_path, "convert", "m.onnx", "-o", output)
    assert done.returncode == 2 and f"a TFLite model, not what its name says: -o {instead}" in done.stderr, done
    assert [p.name for p in tmp_path.iterdir()] == ["m.onnx"]


def test_control_characters_in_names_are_escaped(tmp_path):
    model = relu(tmp_path / "a\nb\x1b[31m.onnx")
    for arguments in (
        ["convert", model.name],
        ["check", model.name, "a\nb\x1b[31m.tflite"],
        ["make-model", "conv-stack", "--size", "64K", "-o", "c\nd.onnx"],
        ["convert", "absent\nfile.onnx"],
        ["convert", model.name, "--ou\ntput"],
    ):
        done = run(tmp_path, *arguments)
        assert "\x1b" not in done.stdout + done.stderr, done
        assert r"\x0a" in done.stdout + done.stderr, done
        assert len(done.stdout.splitlines()) <= 3 and len(done.stderr.splitlines()) <= 1, done


def frobnicate(path, counts):
    nodes, outputs = [], []
    for operator, count in counts.items():
        for i in range(count):
            nodes.append(
                helper.make_node(operator, ["x"], [f"{operator}_{i}_out"], f"{operator}_{i}", domain="com.acme")
            )
            outputs.append(value(nodes[-1].output[0], None))
    save(path, nodes, [value("x")], outputs)


def test_refused_nodes_are_grouped(tmp_path):
    frobnicate(tmp_path / "m.onnx", {"A": 2, "B": 25, "C": 1})
    done = run(tmp_path, "convert", "m.onnx", "--report", "r.json")
    lines = done.stderr.splitlines()
    assert (
        done.returncode == 8
        and lines[0] == "lowtide: m.onnx: 28 nodes cannot be converted, for 3 reasons [unsupported]"
    ), done
    assert [line for line in lines if re.match("  [^ ]", line)] == [
        f"  com.acme.{name}: the operator is not known; {HINT} ({count})"
        for name, count in {"B": "25 nodes", "A": "2 nodes", "C": "1 node"}.items()
    ]
    assert lines[2:13] == [f"    B_{i}" for i in range(10)] + ["    and 15 more"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m.onnx", "r.json"]
    report = json.loads((tmp_path / "r.json").read_text())
    assert json_schema.faults(report, SCHEMA) == []
    assert report["refused_nodes"] == len(report["refused"]) == 28
    assert report["refused"][2] == {
        "node": "B_0",
        "operator": "com.acme.B",
        "place": "",
        "reason": "the operator is not known",
        "hint": HINT,
    }


def test_a_graph_for_one_kind_of_processor(tmp_path):
    node = helper.make_node("ReorderInput", ["x"], ["y"], "first", domain="com.microsoft.nchwc", channels_last=0)
    save(tmp_path / "m.onnx", [node], [value("x")], [value("y", None)])
    done = run(tmp_path, "convert", "m.onnx")
    assert done.returncode == 8 and "convert the model from before, or let ONNX Runtime save it with" in done.stderr


def test_nodes_that_could_not_be_judged_are_named(tmp_path):
    nodes = [
        helper.make_node("A", ["x"], ["a"], "first", domain="com.acme"),
        helper.make_node("Relu", ["a"], ["y"], "behind"),
    ]
    save(tmp_path / "m.onnx", nodes, [value("x")], [value("y", None)])
    done = run(tmp_path, "convert", "m.onnx", "--report", "r.json")
    assert done.returncode == 8 and done.stderr.splitlines() == [
        f"lowtide: m.onnx: node 'first' (com.acme.A): the operator is not known; {HINT} [unsupported]",
        "  1 node behind it could not be judged",
        "    behind (Relu)",
    ], done
    report = json.loads((tmp_path / "r.json").read_text())
    assert json_schema.faults(report, SCHEMA) == []
    assert report["not_judged_nodes"] == 1 and report["not_judged"] == [{"node": "behind", "operator": "Relu"}]


def test_one_refused_node_is_one_line(tmp_path):
    frobnicate(tmp_path / "m.onnx", {"A": 1})
    done = run(tmp_path, "convert", "m.onnx", "--report", "r.json")
    assert (
        done.returncode == 8
        and done.stderr
        == f"lowtide: m.onnx: node 'A_0' (com.acme.A): the operator is not known; {HINT} [unsupported]\n"
    ), done
    report = json.loads((tmp_path / "r.json").read_text())
    assert json_schema.faults(report, SCHEMA) == []
    assert [node["node"] for node in report["refused"]] == ["A_0"]


def test_many_reasons_do_not_fill_the_screen(tmp_path):
    frobnicate(tmp_path / "m.onnx", {f"Op{i}": 1 + (i == 29) for i in range(30)})
    done = run(tmp_path, "convert", "m.onnx")
    lines = done.stderr.splitlines()
    assert lines[1].startswith("  com.acme.Op29: ") and len(lines) == 1 + 20 + 21 + 1, done
    assert lines[-1] == "  and 10 more reasons, for 10 nodes; 'lowtide convert --report FILE' lists all nodes", done


def test_a_success_report_follows_the_schema(tmp_path):
    relu(tmp_path / "m.onnx")
    assert run(tmp_path, "convert", "m.onnx", "--report", "r.json").returncode == 0
    report = json.loads((tmp_path / "r.json").read_text())
    assert json_schema.faults(report, SCHEMA) == []
    assert json_schema.faults({k: v for k, v in report.items() if k != "output_bytes"}, SCHEMA)


def test_the_ratio_is_printed_where_it_says_something(tmp_path):
    relu(tmp_path / "m.onnx")
    assert "the model's bytes" not in run(tmp_path, "convert", "m.onnx").stdout
    assert run(tmp_path, "make-model", "conv-stack", "--size", "64M", "-o", "n.onnx").returncode == 0
    assert re.search(r" file\), 0\.\d{4} x the model's bytes\n$", run(tmp_path, "convert", "n.onnx").stdout)


def test_initializers_are_no_inputs_of_old_files(tmp_path):
    weight = numpy_helper.from_array(np.ones((8, 3, 1, 1), np.float32), "w")
    conv = [helper.make_node("Conv", ["x", "w"], ["y"])]
    for ir_version in (3, 8):
        save(
            tmp_path / "m.onnx",
            conv,
            [value("x"), value("w", (8, 3, 1, 1))],
            [value("y", None)],
            [weight],
            ir_version,
            8,
        )
        listing = json.loads(run(tmp_path, "inspect", "--json", "m.onnx").stdout)["graphs"][0]
        names = [tensor["name"] for tensor in listing["inputs"]]
        # From version 4 on the initializer is the default of an input.
        assert names == (["x"] if ir_version == 3 else ["x", "w"]), (ir_version, names)
        assert [tensor["name"] for tensor in listing["constants"]] == ["w"]


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    folder = tmp_path_factory.mktemp("large")
    assert run(folder, "make-model", "conv-stack", "--size", "256M", "-o", "m.onnx").returncode == 0
    return folder


@pytest.mark.parametrize(
    "variables, rewrites",
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": ""}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ["convert", "m.onnx", "-o", "m.tflite.zst", "--zstd-level", "6", "--threads", "1"],
        ["make-model", "conv-stack", "--size", "256M", "-o", "n.onnx"],
    ],
)
def test_a_terminal_that_cannot_do_it_gets_plain_text(variables, rewrites, command, large):
    ours, its = pty.openpty()
    environment = {k: v for k, v in os.environ.items() if k not in ("TERM", "NO_COLOR")} | variables
    process = subprocess.Popen(
        [converter.program(), *command], cwd=large, stdout=subprocess.DEVNULL, stderr=its, env=environment
    )
    os.close(its)
    seen = b""
    try:
        while piece := os.read(ours, 4096):
            seen += piece
    except OSError:  # the end of a terminal
        pass
    os.close(ours)
    assert process.wait(timeout=120) == 0
    plain = seen.replace(b"\r\n", b"\n")
    assert (b"\r" in plain) == rewrites and (rewrites or b"\x1b" not in plain), seen[:200]


@pytest.mark.parametrize("suffix", ["tflite", "tflite.zst"])
@pytest.mark.parametrize(
    "kind", [["conv-stack", "--size", "4M"], ["one-tensor", "--size", "32M"], ["many-nodes", "--nodes", "3000"]]
)
def test_check_runs_in_the_memory_of_convert(kind, suffix, tmp_path):
    assert run(tmp_path, "make-model", *kind, "-o", "m.onnx").returncode == 0
    refused = run(tmp_path, "convert", "m.onnx", "-o", f"m.{suffix}", "--max-rss", "1M")
    assert refused.returncode == 9, refused
    least = re.search(r"--max-rss (\d+M) is enough", refused.stderr)[1]
    assert run(tmp_path, "convert", "m.onnx", "-o", f"m.{suffix}", "--max-rss", least).returncode == 0
    done = run(tmp_path, "check", "m.onnx", f"m.{suffix}", "--max-rss", least)
    assert done.returncode == 0, done
    peak = float(re.search(r"peak RSS ([0-9.]+) MiB", done.stdout)[1])
    assert peak <= int(least[:-1]), (peak, least)
