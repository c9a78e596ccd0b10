# SPDX-License-Identifier: Apache-2.0
"""lowtide ops and lowtide doctor."""

import json
import re
import resource
import subprocess

import pytest

from tests.support import converter

TABLE = (converter.ROOT / "layout/lower/table.cc").read_text()
ROWS = re.findall(r'ROW\("([^"]*)", "(\w+)"', TABLE)


def names():
    return [f"{domain}.{operator}" if domain else operator for domain, operator in ROWS]


def test_ops_lists_the_table():
    done = converter.run("ops")
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines()] == names()


def test_ops_json():
    values = json.loads(converter.run("ops", "--json").stdout)
    newest = int(re.search(r"kNewestOpset = (\d+)", (converter.ROOT / "layout/lower/since.h").read_text())[1])
    assert values["newest_opset"] == newest
    assert [(row["domain"], row["operator"]) for row in values["operators"]] == [(d or "ai.onnx", o) for d, o in ROWS]
    rows = {(row["domain"], row["operator"]): row for row in values["operators"]}
    assert "CONV_2D" in rows["ai.onnx", "Conv"]["builtins"]
    assert rows["ai.onnx", "Gelu"]["since"] == 20
    assert rows["ai.onnx", "Concat"]["most_inputs"] is None
    assert rows["ai.onnx", "If"]["builtins"] is None
    assert rows["ai.onnx", "GatherND"]["newer_attributes"] == {"batch_dims": 12}


@pytest.mark.parametrize(
    "name, found",
    [("conv", ["Conv"]), ("GELU", ["Gelu", "com.microsoft.Gelu"]), ("com.microsoft.gelu", ["com.microsoft.Gelu"])],
)
def test_one_operator(name, found):
    done = converter.run("ops", name)
    assert [line.split()[0] for line in done.stdout.splitlines() if not line.startswith(" ")] == found


def test_an_unknown_operator():
    done = converter.run("ops", "Cnv")
    assert done.returncode == 2 and "did you mean 'Conv'?" in done.stderr


def test_doctor_finds_nothing(tmp_path):
    done = converter.run("doctor", tmp_path)
    assert (done.returncode, done.stderr) == (0, ""), done
    assert list(tmp_path.iterdir()) == []
    values = json.loads(converter.run("doctor", "--json", tmp_path).stdout)
    assert values["problems"] == []
    assert {
        "lowtide",
        "kernel",
        "memory",
        "cgroup limit",
        "disk space",
        "reflinks",
        "openat2",
        "MADV_POPULATE_READ",
    } <= set(values["findings"])


def test_doctor_names_problems(tmp_path):
    done = converter.run("doctor", tmp_path / "absent")
    assert done.returncode == 3 and "cannot be written" in done.stdout and done.stderr.endswith("[not-found]\n")

    def small_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    done = subprocess.run(
        [converter.program(), "doctor", tmp_path, "--json"], preexec_fn=small_files, capture_output=True, text=True
    )
    assert done.returncode == 5
    assert [problem["name"] for problem in json.loads(done.stdout)["problems"]] == ["file size"]
