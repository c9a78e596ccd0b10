# SPDX-License-Identifier: Apache-2.0
"""Names that are not valid text, or that control the terminal: a model may have them, and what is printed and written about it is
text all the same."""

import json

import pytest

from tests.hostile.good_model import good_model, node
from tests.hostile.refusal import refuse, run

# Of equal length with what they replace, since protobuf's writer takes only text.
NAMES = {
    "no UTF-8": b"\xff\xfe\xc3\x28",
    "half a letter": b"ab\xe2\x82",
    "surrogate": b"\xed\xa0\x80x",
    "too long a form": b"\xc0\xafab",
    "escape sequence": b"\x1b[2J",
    "newline": b"a\nb\r",
    "NUL": b"a\0b\0",
    "bell": b"\x07\x08\x0b\x7f",
    "C1 control": b"\xc2\x9b31",
    "quotes": b"'\"\\\\",
}


def renamed(name):
    model = good_model()
    model.graph.input[0].name = node(model, "the_conv").input[0] = "QQQQ"
    node(model, "the_gemm").name = "ZZZZ"
    return model.SerializeToString().replace(b"QQQQ", name).replace(b"ZZZZ", name)


def is_text(raw):
    return all(letter.isprintable() or letter == "\n" for letter in raw.decode())


@pytest.mark.parametrize("case", NAMES)
def test_output_is_printable_text(case, tmp_path):
    path = tmp_path / "model.onnx"
    path.write_bytes(renamed(NAMES[case]))
    report = tmp_path / "report.json"
    for command in (
        ["inspect", path],
        ["inspect", "--json", path],
        ["convert", path, "-o", tmp_path / "m.tflite", "--report", report, "--verbose"],
        ["convert", path, "-o", tmp_path / "m.tflite", "--dump-after", "lower"],
        ["inspect", tmp_path / "m.tflite"],
        ["inspect", "--json", tmp_path / "m.tflite"],
    ):
        done = run(command)
        assert done.returncode == 0, (command, done.stderr)
        for said in (done.stdout, done.stderr):
            assert is_text(said.encode(errors="surrogateescape")), said
        if "--json" in command:
            json.loads(done.stdout)
    json.loads(report.read_bytes().decode())


@pytest.mark.parametrize("case", NAMES)
def test_errors_are_one_line_of_text(case, tmp_path, record_property):
    path = tmp_path / "model.onnx"
    path.write_bytes(renamed(NAMES[case]).replace(b"the_bias", b"the_bia?", 1))
    refuse(path, "malformed")
    record_property("hostile files refused", 1)


def test_very_long_names(tmp_path):
    model = good_model()
    model.graph.input[0].name = node(model, "the_conv").input[0] = "n" * 1_000_000
    path = tmp_path / "long.onnx"
    path.write_bytes(model.SerializeToString())
    done = run(["convert", path, "-o", tmp_path / "m.tflite"])
    assert done.returncode == 0, done.stderr
    assert (
        json.loads(run(["inspect", "--json", tmp_path / "m.tflite"]).stdout)["graphs"][0]["inputs"][0]["name"]
        == "n" * 1_000_000
    )


def with_outputs(model, names):
    """The model with a Neg for each of these names of results."""
    placeholders = {f"{index}" * (len(name)): name for index, name in zip("QRS", names)}
    for placeholder in placeholders:
        model.graph.node.add(op_type="Neg", input=[model.graph.input[0].name], output=[placeholder])
    raw = model.SerializeToString()
    for placeholder, name in placeholders.items():
        raw = raw.replace(placeholder.encode(), name)
    return raw


def test_names_stay_apart(tmp_path):
    """A zero byte is written as \\x00: two names must not become one by it."""
    path = tmp_path / "apart.onnx"
    path.write_bytes(with_outputs(good_model(), [b"a\0bc", rb"a\x00bcd"]))
    refuse(path, "malformed")


@pytest.mark.parametrize("name", [rb"a\x00bc", rb"a\x5cbc", rb"a\b"])
def test_names_without_zero_bytes_stay(name, tmp_path):
    path = tmp_path / "kept.onnx"
    model = good_model()
    placeholder = "Q" * len(name)
    model.graph.input[0].name = node(model, "the_conv").input[0] = placeholder
    path.write_bytes(model.SerializeToString().replace(placeholder.encode(), name))
    done = run(["convert", path, "-o", tmp_path / "m.tflite"])
    assert done.returncode == 0, done.stderr
    listed = json.loads(run(["inspect", "--json", tmp_path / "m.tflite"]).stdout)
    assert listed["graphs"][0]["inputs"][0]["name"] == name.decode()
