# SPDX-License-Identifier: Apache-2.0
"""convert, inspect and check: arguments, results, errors, and what happens to the child."""

import asyncio
import inspect
import json
import os
import pathlib
import re
import subprocess
import threading

import numpy as np
import onnx
import pytest

import lowtide
from tests.python import models
from tests.support import converter

# Options that make no sense here: standard output is not the user's, and inspect always asks for JSON.
NOT_KEYWORDS = {"help", "quiet", "verbose", "json"}
# How the package runs the program; they are no options of the conversion.
OF_THE_CALL = {"progress-fd", "errors"}


@pytest.fixture
def model(tmp_path):
    return models.product(tmp_path / "m.onnx", np.arange(12, dtype=np.float32).reshape(3, 4))


def script(path, body):
    """A program that passes for lowtide: it answers --version, and for the rest does `body`."""
    path.write_text(f'#!/bin/bash\nif [ "$1" = --version ]; then echo lowtide 0.1.0; exit 0; fi\n{body}\n')
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("command", ["convert", "merge", "check", "inspect", "extract", "partition"])
def test_keywords_are_the_long_options(command, program):
    help_text = subprocess.run([program, command, "--help"], capture_output=True, text=True, check=True).stdout
    options = set(re.findall(r"^ +(?:-\w, ?)?--([a-z][a-z0-9-]*)", help_text, re.MULTILINE))
    parameters = set(inspect.signature(getattr(lowtide, command)).parameters)
    keywords = {
        name.rstrip("_").replace("_", "-") for name in parameters - {"model", "models", "tflite", "file", "progress"}
    }
    assert keywords == options - NOT_KEYWORDS - OF_THE_CALL


def test_convert_inspect_check(model, tmp_path):
    done = lowtide.convert(model, tmp_path / "out.tflite", max_rss="64M", threads=1, verify_output=True)
    assert done.output == tmp_path / "out.tflite" and done.output.is_file()
    assert done.report["output_bytes"] == done.output.stat().st_size and done.report["verified_tensors"] > 0
    assert done.listing == ""
    listing = lowtide.inspect(done.output)
    assert listing["format"] and listing["graphs"]
    assert lowtide.check(model, done.output) is None
    other = models.product(tmp_path / "other.onnx", np.ones((3, 4), np.float32))
    with pytest.raises(lowtide.Different, match="differs"):
        lowtide.check(other, done.output)


def test_the_same_bytes_as_the_program(model, tmp_path, program):
    lowtide.convert(model, tmp_path / "a.tflite", external_buffers=True)
    subprocess.run(
        [program, "convert", model, "-o", tmp_path / "b.tflite", "--quiet", "--external-buffers"], check=True
    )
    assert (tmp_path / "a.tflite").read_bytes() == (tmp_path / "b.tflite").read_bytes()


def test_merge(model, tmp_path, program):
    other = models.product(tmp_path / "other.onnx", np.full((3, 5), 2, np.float32))
    seen = []
    done = lowtide.merge(
        {"first": model, "second": other},
        tmp_path / "m.tflite",
        verify_output=True,
        report=tmp_path / "report.json",
        progress=seen.append,
    )
    assert done.output == tmp_path / "m.tflite" and done.report["verified_tensors"] == 2
    assert [graph["name"] for graph in lowtide.inspect(done.output)["graphs"]] and len(seen) > 0
    assert json.loads((tmp_path / "report.json").read_text())["output_bytes"] == done.output.stat().st_size
    subprocess.run(
        [program, "merge", f"first={model}", f"second={other}", "-o", tmp_path / "p.tflite", "-q"], check=True
    )
    assert (tmp_path / "p.tflite").read_bytes() == done.output.read_bytes()
    planned = lowtide.merge({"first": model, "second": other}, tmp_path / "none.tflite", dry_run=True)
    assert planned.output is None and not (tmp_path / "none.tflite").exists()
    with pytest.raises(lowtide.Usage, match="two models or more"):
        lowtide.merge({"first": model}, tmp_path / "none.tflite")
    with pytest.raises(TypeError, match=r"models\['first'\] must be a path"):
        lowtide.merge({"first": 3}, tmp_path / "none.tflite")


def test_constants_as_arrays(tmp_path):
    """An array of one dimension is the sequence of its numbers, exactly; one of none is a number."""
    nodes = [onnx.helper.make_node("Mul", ["x", "c"], ["t"]), onnx.helper.make_node("Add", ["t", "d"], ["y"])]
    inputs = [models.value(name, "float32", shape) for name, shape in (("x", [2]), ("c", [2]), ("d", []))]
    path = models.save(tmp_path / "m.onnx", nodes, inputs, [models.value("y", "float32", [2])])
    c, d, x = np.array([0.1, 3e38], np.float32), np.array(0.7, np.float32), np.array([3, 1], np.float32)
    for given in (c, c.tolist(), tuple(c)):
        lowtide.convert(path, tmp_path / "m.tflite", const={"c": given, "d": d})
        with lowtide.Runner(tmp_path / "m.tflite") as runner:
            np.testing.assert_array_equal(runner.run({"x": x})["y"], x * c + d)


def test_the_way_back(model, tmp_path):
    lowtide.convert(model, tmp_path / "m.tflite")
    seen = []
    done = lowtide.convert(
        tmp_path / "m.tflite", tmp_path / "back.onnx", opset=18, external_data=True, progress=seen.append
    )
    back = onnx.load(tmp_path / "back.onnx")
    assert done.output == tmp_path / "back.onnx" and back.opset_import[0].version == 18
    assert done.report["nodes"] == len(back.graph.node) and done.report["operators"] == 1 and seen
    assert done.report["payload_bytes"] >= 48  # twelve floats; so few stay in the file
    assert lowtide.convert(tmp_path / "m.tflite").output == tmp_path / "m.onnx"
    with pytest.raises(lowtide.Usage, match="--custom-ops-map is for ONNX models"):
        lowtide.convert(tmp_path / "m.tflite", tmp_path / "other.onnx", custom_ops_map=tmp_path / "map.json")


def test_extract_and_partition(model, tmp_path):
    part = lowtide.extract(model, tmp_path / "part.onnx", to=["y"], from_=["x"])
    assert part.read_bytes() and [value.name for value in onnx.load(part).graph.input] == ["x"]
    done = lowtide.partition(model, tmp_path / "pieces", prefer="fewest", max_rss="64M", penalty=2.5)
    assert [piece["file"] for piece in done.manifest["pieces"]] == ["0.tflite"] and "0  tflite" in done.listing
    x = np.ones([n or 1 for n in lowtide.Runner(done.output).inputs["x"].shape], np.float32)
    with lowtide.Runner(done.output) as pieces, lowtide.Runner(model) as whole:
        np.testing.assert_allclose(pieces.run({"x": x})["y"], whole.run({"x": x})["y"], rtol=1e-5)
    planned = lowtide.partition(model, exclude_op="MatMul", dry_run=True)
    assert planned.output is None and "--exclude-op" in planned.listing
    assert lowtide.partition(model).output == tmp_path / "m.pieces"
    with pytest.raises(lowtide.Usage, match="did you mean 'MatMul'"):
        lowtide.partition(model, tmp_path / "none", exclude_op="MatMull")


def test_names_by_default(model):
    assert lowtide.convert(str(model)).output == model.with_suffix(".tflite")


def test_dry_run_and_listing(model, tmp_path):
    done = lowtide.convert(model, tmp_path / "out.tflite", dry_run=True, dump_after="lower")
    assert done.output is None and not (tmp_path / "out.tflite").exists() and "FULLY_CONNECTED" in done.listing


def test_a_report_that_is_kept(model, tmp_path):
    done = lowtide.convert(model, report=tmp_path / "r.json")
    report = json.loads((tmp_path / "r.json").read_text())
    assert done.report.items() <= report.items() and report["graphs"]
    assert lowtide.convert(model, report=tmp_path / "r.html").report.keys() == done.report.keys()
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html>")
    lowtide.inspect(model, html=tmp_path / "i.html")
    assert (tmp_path / "i.html").is_file()


def test_options_with_values(tmp_path):
    path = models.product(tmp_path / "m.onnx", np.ones((3, 4), np.float32), rows="n")
    out = lowtide.convert(path, shape={"x": (5, 3)}, weights="float", threads=np.int64(1), max_rss=1 << 26).output
    with lowtide.Runner(out) as runner:
        assert runner.inputs["x"].shape == (5, 3)


def test_a_model_in_memory(model, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    out = lowtide.convert(onnx.load(model), folder / "m.tflite").output
    assert lowtide.check(model, out) is None
    assert [p.name for p in folder.iterdir()] == ["m.tflite"]
    with pytest.raises(TypeError, match="output is needed"):
        lowtide.convert(onnx.load(model))
    with pytest.raises(lowtide.NotFound, match="the folder '.*none' does not exist"):
        lowtide.convert(onnx.load(model), folder / "none/m.tflite")


def test_a_model_in_memory_and_a_folder(model, tmp_path):
    """The name of its temporary file would be the result's."""
    for folder in (tmp_path, f"{tmp_path}/none/"):
        with pytest.raises(lowtide.Usage, match="is a folder, and the model has no name of its own"):
            lowtide.convert(onnx.load(model), folder)
    assert list(tmp_path.glob("*.tflite")) == list(tmp_path.glob(".lowtide*")) == []


def test_the_shape_of_a_scalar(tmp_path):
    nodes = [onnx.helper.make_node("Neg", ["s"], ["y"])]
    ports = [[models.value(name, "float32", [])] for name in ("s", "y")]
    path = models.save(tmp_path / "m.onnx", nodes, *ports)
    with pytest.raises(lowtide.Usage, match=r"shape\['s'\] has no extents: leave out an input that is a scalar"):
        lowtide.convert(path, shape={"s": ()})


def test_a_name_like_an_option(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    models.product(tmp_path / "-m.onnx", np.ones((3, 4), np.float32))
    assert lowtide.convert("-m.onnx", "--out.tflite").output == pathlib.Path("--out.tflite")
    assert lowtide.inspect("--out.tflite")["graphs"]


@pytest.mark.parametrize(
    "call, kind, words",
    [
        (lambda m, t: lowtide.convert(t / "nothing.onnx"), lowtide.NotFound, "nothing.onnx: cannot be opened"),
        (lambda m, t: lowtide.convert(m, m), lowtide.Usage, "is the input"),
        (lambda m, t: lowtide.convert(m, threads=0), lowtide.Usage, "threads"),
        (lambda m, t: lowtide.convert(m, max_rss="lots"), lowtide.Usage, "is not a size"),
        (lambda m, t: lowtide.convert(m, shape={"nobody": [1]}), lowtide.Usage, "nobody"),
        (lambda m, t: lowtide.convert(m, t / "none/out.tflite"), lowtide.NotFound, "none"),
        (lambda m, t: lowtide.inspect(__file__), lowtide.Malformed, "test_commands.py"),
    ],
)
def test_errors_of_the_program(call, kind, words, model, tmp_path):
    before = sorted(tmp_path.iterdir())
    with pytest.raises(kind, match=words) as caught:
        call(model, tmp_path)
    assert "[" + caught.value.kind + "]" not in str(caught.value)
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("count", [1, 3])
def test_refused_nodes(count, tmp_path):
    nodes = [onnx.helper.make_node("Unknown", ["x"], [f"y{i}"], f"node{i}", domain="my.own") for i in range(count)]
    path = models.save(
        tmp_path / "m.onnx",
        nodes,
        [models.value("x", "float32", [2])],
        [models.value(f"y{i}", "float32", [2]) for i in range(count)],
    )
    for report in (None, tmp_path / "report.json"):
        with pytest.raises(lowtide.Unsupported) as caught:
            lowtide.convert(path, report=report)
        error = caught.value
        assert [node.node for node in error.nodes] == [f"node{i}" for i in range(count)]
        assert {node.operator for node in error.nodes} == {"my.own.Unknown"} and all(
            node.reason for node in error.nodes
        )
        assert error.file == str(path) and error.node == ("node0" if count == 1 else None)


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: lowtide.convert(3), "model must be a path"),
        (lambda: lowtide.convert(b"m.onnx"), "model must be a path"),
        (lambda: lowtide.convert("m.onnx", 3), "output must be a path"),
        (lambda: lowtide.convert("m.onnx", max_rss=1.5), "max_rss must be an int"),
        (lambda: lowtide.convert("m.onnx", threads="2"), "threads must be an int"),
        (lambda: lowtide.convert("m.onnx", threads=True), "threads must be an int"),
        (lambda: lowtide.convert("m.onnx", shape="x=1"), "shape must be a mapping"),
        (lambda: lowtide.convert("m.onnx", shape={"x": "1,2"}), "must be a sequence of int"),
        (lambda: lowtide.convert("m.onnx", shape={"x": [1.0]}), "must be an int"),
        (lambda: lowtide.convert("m.onnx", shape={1: [1]}), "a key of shape must be a str"),
        (lambda: lowtide.convert("m.onnx", const={"x": b"123"}), r"const\['x'\] must be an int, not bytes"),
        (lambda: lowtide.convert("m.onnx", const={"x": bytearray(b"1")}), "must be an int, not bytearray"),
        (lambda: lowtide.convert("m.onnx", const={"x": memoryview(b"1")}), "must be an int, not memoryview"),
        (lambda: lowtide.convert("m.onnx", const={"x": [b"1"]}), r"const\['x'\]\[0\] must be an int, not bytes"),
        (lambda: lowtide.convert("m.onnx", const={"x": np.zeros((1, 2))}), "not an array of 2 dimensions"),
        (lambda: lowtide.convert("m.onnx", const={"x": np.array(["1"])}), "must be an int, not str"),
        (lambda: lowtide.convert("m.onnx", mean=bytearray(b"1")), "mean must be an int, not bytearray"),
        (lambda: lowtide.convert("m.onnx", shape={"x": bytearray(b"1")}), "must be a sequence of int"),
        (lambda: lowtide.convert("m.onnx", layout={"x": 1}), "must be a str"),
        (lambda: lowtide.convert("m.onnx", weights_include=3), "weights_include must be"),
        (lambda: lowtide.convert("m.onnx", dry_run=1), "dry_run must be a bool"),
        (lambda: lowtide.convert("m.onnx", progress=3), "progress must be callable"),
        (lambda: lowtide.convert("m.onnx", sideways=True), "unexpected keyword"),
        (lambda: lowtide.inspect(None), "file must be a path"),
        (lambda: lowtide.check("m.onnx", None), "tflite must be a path"),
    ],
)
def test_wrong_types_raise_before_a_child_starts(call, words, tmp_path, monkeypatch):
    monkeypatch.setenv("LOWTIDE", str(script(tmp_path / "lowtide", f"touch {tmp_path}/started")))
    with pytest.raises(TypeError, match=words):
        call()
    assert not (tmp_path / "started").exists()


def test_nul_in_a_name():
    with pytest.raises(ValueError, match="NUL"):
        lowtide.inspect("a\0b")


# ---- The program file ------------------------------------------------------------------------------------------------


def test_a_missing_program(monkeypatch, tmp_path):
    monkeypatch.setenv("LOWTIDE", str(tmp_path / "none"))
    with pytest.raises(lowtide.ProgramMissing, match="LOWTIDE names no file") as caught:
        lowtide.inspect("m.onnx")
    assert isinstance(caught.value, lowtide.NotFound)


@pytest.mark.parametrize(
    "content, mode, words",
    [
        ("#!/bin/sh\necho something else 3.0\n", 0o755, "is not the program lowtide"),
        ("#!/bin/sh\nexit 3\n", 0o755, "is not the program lowtide"),
        ("\x7fELF nonsense", 0o755, "cannot be run"),
        ("#!/bin/sh\n", 0o644, "cannot be run"),
        ("#!/no/such/interpreter\n", 0o755, "cannot be run"),
    ],
)
def test_a_foreign_program(content, mode, words, monkeypatch, tmp_path):
    file = tmp_path / "lowtide"
    file.write_text(content)
    file.chmod(mode)
    monkeypatch.setenv("LOWTIDE", str(file))
    with pytest.raises(lowtide.ProgramMissing, match=words):
        lowtide.inspect("m.onnx")


def test_places_that_were_looked_at(monkeypatch, tmp_path):
    from lowtide import program as module

    monkeypatch.delenv("LOWTIDE")
    monkeypatch.setattr(module, "__file__", str(tmp_path / "lowtide/program.py"))
    monkeypatch.setattr(module, "_CHECKOUT", tmp_path)
    with pytest.raises(lowtide.ProgramMissing, match="lowtide/bin/lowtide"):
        lowtide.find_program()


def test_a_child_that_is_killed(model, monkeypatch, tmp_path):
    monkeypatch.setenv("LOWTIDE", str(script(tmp_path / "lowtide", "kill -9 $$")))
    with pytest.raises(lowtide.Killed) as caught:
        lowtide.convert(model)
    assert caught.value.signal == 9


def test_progress_that_is_not_offered(model, monkeypatch, tmp_path):
    monkeypatch.setenv("LOWTIDE", str(script(tmp_path / "lowtide", "exit 0")))
    with pytest.raises(lowtide.Usage, match="has no --progress-fd"):
        lowtide.convert(model, progress=print)


def test_lines_of_progress_reach_the_callback(model, monkeypatch, tmp_path):
    """The reading side alone, against a script that writes the lines."""
    body = r"""
case "$*" in *--help*) echo "  --progress-fd N"; exit 0;; esac
for a; do case "$a" in --progress-fd=*) fd=${a#*=};; esac; done
eval "exec 9>&$fd"
for i in 1 2 3; do printf '{"event": "progress", "phase": "pour", "done": %s, "total": 3, "resident": 5}\n' $i >&9; done
printf '{"event": "do' >&9; printf 'ne", "report": {"output": "m.tflite"}}\n' >&9
"""
    monkeypatch.setenv("LOWTIDE", str(script(tmp_path / "lowtide", body)))
    seen = []
    lowtide.convert(model, progress=seen.append)
    assert seen == [lowtide.Progress("pour", i, 3, 5) for i in (1, 2, 3)]

    def fails(_):
        raise KeyError("stop")

    with pytest.raises(KeyError):
        lowtide.convert(model, progress=fails)


# ---- Threads, forks, asyncio ------------------------------------------------------------------------------------------


def test_threads(model, tmp_path):
    results = []

    def work(i):
        results.append(lowtide.convert(model, tmp_path / f"{i}.tflite").output.read_bytes())

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 6 and len(set(results)) == 1


def test_after_a_fork(model, tmp_path, python):
    out = python(
        """
import os, sys, lowtide
lowtide.convert(sys.argv[1], sys.argv[2] + "/a.tflite")
pid = os.fork()
if pid == 0:
    lowtide.convert(sys.argv[1], sys.argv[2] + "/b.tflite")
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
""",
        model,
        tmp_path,
    )
    assert out.strip() == "7" and (tmp_path / "a.tflite").read_bytes() == (tmp_path / "b.tflite").read_bytes()


def test_asyncio(model, tmp_path):
    async def both():
        return await asyncio.gather(
            *(lowtide.convert_async(model, tmp_path / f"{i}.tflite", threads=1) for i in range(2))
        )

    assert [done.output.name for done in asyncio.run(both())] == ["0.tflite", "1.tflite"]

    async def wrong():
        await lowtide.convert_async(model, sideways=1)

    with pytest.raises(TypeError, match="sideways"):
        asyncio.run(wrong())


def test_the_standard_streams_may_be_closed(model, tmp_path, python):
    python(
        "import os, sys, lowtide; os.close(0); os.close(1); os.close(2); lowtide.convert(sys.argv[1]); os._exit(0)",
        model,
    )
    assert model.with_suffix(".tflite").is_file()


def test_no_descriptors_are_left(model):
    lowtide.convert(model)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        lowtide.convert(model)
        with pytest.raises(lowtide.Error):
            lowtide.convert("nothing.onnx")
    assert len(os.listdir("/proc/self/fd")) == before


def test_the_version_is_the_programs():
    assert converter.run("--version").stdout == f"lowtide {lowtide.__version__}\n"
