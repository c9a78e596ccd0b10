# SPDX-License-Identifier: Apache-2.0
"""lowtide run, and the command `lowtide` of the package."""

import io
import json
import subprocess
import sys
import zipfile

import numpy as np
import pytest
from onnx import helper

import lowtide
from lowtide import stored_arrays
from tests.python import models

A = np.random.default_rng(1).random((8, 5), dtype=np.float32)


@pytest.fixture
def both(tmp_path):
    path = models.product(tmp_path / "m.onnx", A, rows="n")
    return path, models.converted(path)


@pytest.fixture
def command(environment, tmp_path):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-m", "lowtide", *map(str, arguments)],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=600,
        )

    return run


def test_arrays_in_and_out(both, command, tmp_path):
    x = np.random.default_rng(0).random((3, 8), dtype=np.float32)
    np.savez(tmp_path / "x.npz", x=x)
    for path in both:
        done = command("run", path, "--inputs", "x.npz", "--save", "y.npz", "--repeat", "2", "--threads", "1")
        assert done.returncode == 0 and done.stderr == "", done.stderr
        assert "y  float32[3, 5]  min" in done.stdout and "(shortest of 2)" in done.stdout and "peak RSS" in done.stdout
        with np.load(tmp_path / "y.npz") as got:
            np.testing.assert_allclose(got["y"], np.maximum(x @ A, 0), rtol=1e-5)


def test_random_arrays(both, command):
    outputs = [
        json.loads(command("run", path, "--shape", "x=4,8", "--seed", "7", "--json").stdout)["outputs"]["y"]
        for path in both
    ]
    assert outputs[0]["shape"] == [4, 5] and outputs[0]["mean"] == pytest.approx(outputs[1]["mean"], rel=1e-5)
    done = command("run", both[0])
    assert "dynamic dimensions are 1 here, see --shape" in done.stdout and "y  float32[1, 5]" in done.stdout


def test_profile(both, command):
    of_onnx = json.loads(command("run", both[0], "--profile", "--json").stdout)
    assert {"MatMul", "FusedGemm", "FusedMatMul"} & {row["operator"] for row in of_onnx["operators"]}
    for path in both:
        text = command("run", path, "--profile").stdout
        assert "loading: at most" in text and "running: at most" in text


def test_inner_tensors_and_options(both, command):
    done = command("run", both[0], "--outputs", "h", "--optimization", "basic")
    assert "h  float32[1, 5]" in done.stdout and "level basic" in done.stdout
    done = command("run", both[1], "--kernels", "reference", "--max-rss", "1G")
    assert "reference kernels" in done.stdout


@pytest.mark.parametrize("name", ["file", "allow_pickle", "arr_0", "../x", "a/b", "x.npy", "ünï"])
def test_saved_arrays_have_the_names_of_outputs(name, command, tmp_path):
    models.save(
        tmp_path / "m.onnx",
        [helper.make_node("Neg", ["x"], [name]), helper.make_node("Abs", ["x"], ["y"])],
        [models.value("x", "float32", [2, 3])],
        [models.value(name, "float32", [2, 3]), models.value("y", "float32", [2, 3])],
    )
    x = A[:2, :3]
    np.savez(tmp_path / "x.npz", x=x)
    done = command("run", "m.onnx", "--inputs", "x.npz", "--save", "y.npz")
    assert done.returncode == 0 and done.stderr == "", done
    with np.load(tmp_path / "y.npz", allow_pickle=False) as got:
        assert sorted(got.files) == sorted([name, "y"])
        np.testing.assert_array_equal(got[name], -x, strict=True)


def test_saved_strings_are_no_pickles(command, tmp_path):
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    models.save(
        tmp_path / "m.onnx", nodes, [models.value("x", "string", [2, 1])], [models.value("y", "string", [2, 1])]
    )
    x = np.array([["ä"], ["bc"]])
    np.savez(tmp_path / "x.npz", x=x)
    assert command("run", "m.onnx", "--inputs", "x.npz", "--save", "y.npz").returncode == 0
    with np.load(tmp_path / "y.npz", allow_pickle=False) as got:
        np.testing.assert_array_equal(got["y"], x, strict=True)
    np.savez(tmp_path / "x.npz", x=np.array([0x110000, 0x41], np.uint32).view("<U1").reshape(2, 1))
    done = command("run", "m.onnx", "--inputs", "x.npz")
    assert done.returncode == 2 and "x.npz: input 'x' has a character 0x110000" in done.stderr


@pytest.mark.parametrize(
    "name, array, words",
    [
        ("y", np.array(["a", "b\0"], object), "ends in a zero byte"),
        ("y", np.array([b"a", b"\xff"], object), "not UTF-8"),
        ("a\0b", np.zeros(2), "can be called"),
        ("\ud800", np.zeros(2), "can be called"),
        ("n" * 70000, np.zeros(2), "can be called"),
    ],
)
def test_what_an_archive_cannot_hold(name, array, words, tmp_path):
    with pytest.raises(lowtide.Unsupported, match=words) as caught:
        stored_arrays.write_arrays(str(tmp_path / "y.npz"), {name: array})
    assert len(str(caught.value)) < 1000 and list(tmp_path.iterdir()) == []


def test_json_has_finite_numbers_only(command, tmp_path):
    """A mean is a number although the sum is none."""
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    models.save(tmp_path / "m.onnx", nodes, [models.value("x", "float64", [3])], [models.value("y", "float64", [3])])
    for values, mean in (([1.7e308, 1.7e308, 1.7e308], 1.7e308), ([np.inf, 1, 3], 2), ([np.inf, np.nan, np.nan], None)):
        np.savez(tmp_path / "x.npz", x=np.array(values))
        done = command("run", "m.onnx", "--inputs", "x.npz", "--json")
        assert done.returncode == 0 and done.stderr == "", done
        of = json.loads(done.stdout, parse_constant=pytest.fail)["outputs"]["y"]
        assert of.get("mean") == (mean if mean is None else pytest.approx(mean))
        assert of.get("not_finite", 0) == 3 - np.isfinite(values).sum()


def test_an_array_that_does_not_fit_is_not_read(both, environment, tmp_path):
    """Packed, 2^29 floats take 2 MB; in memory they would take 2 GiB."""
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<f4", "fortran_order": False, "shape": (1 << 29,)})
    with (
        zipfile.ZipFile(tmp_path / "x.npz", "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x.npy", "w", force_zip64=True) as member,
    ):
        member.write(header.getvalue())
        for _ in range(1 << 7):
            member.write(bytes(1 << 24))
    script = (
        "import sys; from lowtide.__main__ import main; from lowtide.memory import resident; status = main(sys.argv[1:]); "
        "sys.exit(status if resident()[2] < 400 << 20 else 99)"
    )
    for arguments in (["run", both[0]], ["verify", *both]):
        done = subprocess.run(
            [sys.executable, "-c", script, *map(str, arguments), "--inputs", tmp_path / "x.npz"],
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        assert done.returncode == 2 and "input 'x' is float32[n, 8], not [536870912]" in done.stderr, done
        assert f"{tmp_path / 'x.npz'}: " in done.stderr and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments", [["run", "m.onnx"], ["run", "m.tflite", "--json"], ["verify", "m.onnx", "m.tflite"], ["doctor"]]
)
def test_standard_output_on_a_full_disk(arguments, both, environment, tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "lowtide", *arguments],
            env=environment,
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert done.returncode == 4 and done.stderr == (
        "lowtide: standard output cannot be written: No space left on device [io]\n"
    )


def test_the_error_is_the_last_line(both, command):
    """When LiteRT's CompiledModel is unloaded, it writes lines to standard error itself."""
    x = np.zeros((1, 8), np.float32)
    np.savez(both[1].with_name("x.npz"), x=x)
    done = command("run", "m.tflite", "--inputs", "x.npz", "--cache", "packed", "--shape", "x=1,8")
    assert done.returncode == 2 and done.stderr.endswith("[usage]\n") and done.stderr.count("\n") == 1
    done = command("run", "m.tflite", "--inputs", "x.npz", "--cache", "packed", "--save", "/dev/full")
    assert done.returncode == 4 and done.stderr.endswith("[io]\n") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    "arguments, status, words",
    [
        (["run"], 2, "FILE is missing (usage: lowtide run FILE [OPTIONS])"),
        (["run", "m.onnx", "--sideways"], 2, "unknown option '--sideways' (see lowtide run --help)"),
        (["run", "none.onnx"], 3, "none.onnx: cannot be opened"),
        (["run", "m.onnx", "--inputs", "none.npz"], 3, "none.npz: cannot be read"),
        (["run", "m.onnx", "--inputs", "m.onnx"], 2, "m.onnx: is not an .npz file"),
        (["run", "m.onnx", "--shape", "z=1"], 2, "no input is called 'z'"),
        (["run", "m.onnx", "--shape", "x=a"], 2, "--shape: 'x=a' is not INPUT=EXTENTS such as x=1,3,512,512"),
        (["run", "m.onnx", "--shape", "x=-1,8"], 2, "--shape: 'x=-1,8' is not INPUT=EXTENTS"),
        (["run", "m.onnx", "--shape", "8"], 2, "--shape: '8' is not INPUT=EXTENTS"),
        (["run", "m.onnx", "--shape", "x=999999999999999999,8"], 2, "no array has as many elements"),
        (["run", "m.onnx", "--shape", "x=9999999999999,8"], 9, "not enough memory"),
        (["run", "m.onnx", "--shape", "x=2,8", "--shape", "x=4,8"], 2, "--shape x is given twice"),
        (["run", "m.onnx", "--save", "a.npz", "--save=b.npz"], 2, "option '--save' is given more than once"),
        (["run", "m.onnx", "--save="], 2, "--save: the value is empty"),
        (["run", "m.tflite", "--cache", ""], 2, "--cache: the value is empty"),
        (["calibrate", "m.onnx", "--samples", "a", "--samples", "a"], 2, "option '--samples' is given more than once"),
        (["run", "m.onnx", "--seed", "-1"], 2, "--seed: '-1' is not a whole number of at least 0"),
        (["run", "m.onnx", "--outputs", "z"], 2, "no output or inner tensor"),
        (["run", "m.onnx", "--repeat", "0"], 2, "--repeat: '0' is not a whole number of at least 1"),
        (["run", "m.onnx", "--kernels", "builtin"], 2, "kernels is not for .onnx files"),
        (["run", "m.onnx", "--save", "no/such/folder.npz"], 3, "the folder 'no/such' does not exist"),
        (["run", "--repat", "2"], 2, "unknown option '--repat'; did you mean '--repeat'?"),
        (["run", "m.onnx", "-repeat", "2"], 2, "unknown option '-repeat'; did you mean '--repeat'?"),
        (["run", "m.onnx", "m.tflite"], 2, "unexpected argument 'm.tflite' (usage: lowtide run FILE [OPTIONS])"),
        (["run", "m.onnx", "--threads"], 2, "option '--threads' needs a value"),
        (["run", "m.onnx", "--json=yes"], 2, "option '--json' takes no value"),
        (["run", "m.onnx", "--max-rss", "1X"], 2, "--max-rss: '1X' is not a size such as 64M or 0.5G"),
        (["calibrate", "m.onnx", "--sample", "x"], 2, "unknown option '--sample'; did you mean '--samples'?"),
        (
            ["calibrate", "m.onnx"],
            2,
            "option '--samples' is missing (usage: lowtide calibrate MODEL.onnx|DIR --samples",
        ),
        (["verify", "m.onnx"], 2, "MODEL.tflite|DIR is missing (usage: lowtide verify MODEL.onnx MODEL.tflite|DIR"),
        (["run", "m.onnx", "--max-rss", "1K"], 9, "more than max_rss"),
    ],
)
def test_errors(arguments, status, words, both, command):
    done = command(*arguments)
    kind = lowtide.errors.BY_STATUS[status].kind
    assert done.returncode == status and done.stdout == ""
    assert done.stderr.startswith("lowtide: ") and words in done.stderr and done.stderr.endswith(f"[{kind}]\n")
    assert done.stderr.count("\n") == 1


def test_a_run_over_the_limit_says_so(both, command):
    """The limit is checked after loading; the values of a run come later."""
    for path in both:
        done = command("run", path, "--max-rss", "32M", "--shape", "x=1000000,8")
        assert done.returncode == 0 and "more than --max-rss 32M" in done.stdout, done
        assert "more than" not in command("run", path, "--max-rss", "32M").stdout


def test_other_commands_are_the_program(both, command, program, tmp_path):
    assert command("--version").stdout == subprocess.run([program, "--version"], capture_output=True, text=True).stdout
    assert command("convert", "m.onnx", "-o", "c.tflite").returncode == 0
    assert (tmp_path / "c.tflite").read_bytes() == both[1].read_bytes()
    assert command("convert", "none.onnx").returncode == 3
    assert command().returncode == 2


def test_the_program_alone_names_the_package(program):
    done = subprocess.run([program, "run", "m.onnx"], capture_output=True, text=True)
    assert done.returncode == 2 and "pip install 'lowtide[run]'" in done.stderr


def test_a_pipe_that_nobody_reads(both, environment):
    done = subprocess.run(
        ["bash", "-c", '"$1" -m lowtide run "$2" | true; echo ${PIPESTATUS[0]}', "bash", sys.executable, both[0]],
        env=environment,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.stdout.strip() in ("0", "141") and "Traceback" not in done.stderr
