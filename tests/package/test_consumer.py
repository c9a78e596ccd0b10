# SPDX-License-Identifier: Apache-2.0
"""find_package(Lowtide): a project of its own is built from the installed tree, and converts a model."""

import json
import pathlib
import re
import shutil
import subprocess

import onnx
import pytest
from onnx import TensorProto, helper

from tests.support import converter

HERE = pathlib.Path(__file__).resolve().parent
BUILD = converter.ROOT / "build/release"


def run(*command, **how):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, **how)
    assert done.returncode == 0, f"{command}\n{done.stdout[-4000:]}\n{done.stderr[-4000:]}"
    return done


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    if not (BUILD / "liblowtide.a").is_file() or shutil.which("cmake") is None:
        pytest.skip("build/release/liblowtide.a is not built")
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


@pytest.fixture(scope="module")
def consumer(installed, tmp_path_factory):
    build = tmp_path_factory.mktemp("build")
    run("cmake", "-S", HERE / "consumer", "-B", build, f"-DCMAKE_PREFIX_PATH={installed}", "-DCMAKE_BUILD_TYPE=Release")
    run("cmake", "--build", build)
    return build / "consumer"


def test_what_is_installed(installed):
    files = {str(path.relative_to(installed)) for path in installed.rglob("*") if path.is_file()}
    assert {"bin/lowtide", "include/lowtide/lowtide.h", "share/man/man1/lowtide.1"} <= files
    assert {name for name in files if name.startswith("include/")} == {"include/lowtide/lowtide.h"}
    assert run(installed / "bin/lowtide", "--version").stdout.startswith("lowtide ")


def test_users_get_no_flags_and_no_folders(installed):
    (targets,) = installed.rglob("cmake/Lowtide/Lowtide.cmake")
    text = "".join(path.read_text() for path in targets.parent.iterdir())
    assert str(converter.ROOT) not in text
    assert not re.search(r"-W(error|all|extra|shadow)|-fsanitize", text)
    assert "INTERFACE_COMPILE_OPTIONS" not in text


def test_it_converts(consumer, tmp_path):
    run(converter.program(), "make-model", "unet", "--size", "4M", "-o", tmp_path / "m.onnx", "--quiet")
    run(converter.program(), "convert", tmp_path / "m.onnx", "-o", tmp_path / "program.tflite", "--quiet")
    done = run(consumer, tmp_path / "m.onnx", tmp_path / "library.tflite")
    size, listing = done.stdout.split("\n", 1)
    assert int(size.split()[0]) == (tmp_path / "library.tflite").stat().st_size
    assert json.loads(listing)["format"] == "TFLite"
    assert "writing" in done.stderr.split()
    assert (tmp_path / "library.tflite").read_bytes() == (tmp_path / "program.tflite").read_bytes()


def test_errors(consumer, tmp_path):
    def status_and_text(model, output):
        done = subprocess.run([consumer, model, output], capture_output=True, text=True)
        return done.returncode, done.stderr

    assert status_and_text(tmp_path / "absent.onnx", tmp_path / "o.tflite")[0] == 3
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2])
    nodes = [helper.make_node("Frobnicate", ["x"], ["y"], domain="com.acme")]
    onnx.save(
        helper.make_model(
            helper.make_graph(nodes, "g", [x], [y]),
            opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)],
            ir_version=8,
        ),
        tmp_path / "m.onnx",
    )
    status, text = status_and_text(tmp_path / "m.onnx", tmp_path / "o.tflite")
    assert status == 8 and "com.acme.Frobnicate: the operator is not known" in text
    assert status_and_text(tmp_path / "m.onnx", tmp_path / "m.onnx")[0] == 2
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]
