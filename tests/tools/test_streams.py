# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: F811  (fixtures of other files)
"""Folders, several models, standard input and output, short options, and links inside a folder that is named."""

import json
import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from tests.support import converter
from tests.tools.test_command_line import folder, run, shell  # noqa: F401  (a fixture)
from tests.tools.test_links_and_leftovers import model  # noqa: F401  (a fixture)


def names(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


@pytest.fixture
def expected(folder):
    assert run(folder, "convert", "m.onnx", "-o", "expected.tflite", "-q").returncode == 0
    data = (folder / "expected.tflite").read_bytes()
    (folder / "expected.tflite").unlink()
    return data


# ---- folders and several models --------------------------------------------------------------------------------------


def test_an_output_folder(folder, expected):
    (folder / "out").mkdir()
    done = run(folder, "convert", "m.onnx", "-o", "out")
    assert done.returncode == 0 and "out/m.tflite" in done.stdout, done
    assert (folder / "out/m.tflite").read_bytes() == expected
    assert run(folder, "convert", "m.onnx", "-o", "out/").returncode == 0
    missing = run(folder, "convert", "m.onnx", "-o", "absent/")
    assert missing.returncode == 3 and "absent" in missing.stderr and missing.stderr.count("\n") == 1, missing
    assert names(folder) == ["m.onnx", "out/m.tflite"]


def test_several_models(folder, expected):
    shutil.copy(folder / "m.onnx", folder / "n.onnx")
    (folder / "out").mkdir()
    done = run(folder, "convert", "m.onnx", "n.onnx", "-o", "out")
    assert done.returncode == 0 and done.stdout.count("peak RSS") == 2, done
    assert (folder / "out/m.tflite").read_bytes() == (folder / "out/n.tflite").read_bytes() == expected
    assert run(folder, "convert", "m.onnx", "n.onnx", "--quiet").returncode == 0
    assert names(folder) == ["m.onnx", "m.tflite", "n.onnx", "n.tflite", "out/m.tflite", "out/n.tflite"]


def test_of_several_models_the_others_are_converted(folder):
    (folder / "bad.onnx").write_bytes(b"this is no model")
    done = run(folder, "convert", "bad.onnx", "m.onnx", "absent.onnx")
    assert done.returncode == 6 and done.stderr.count("\n") == 2, done
    assert "bad.onnx" in done.stderr and "absent.onnx" in done.stderr and (folder / "m.tflite").is_file()
    lines = run(folder, "convert", "bad.onnx", "absent.onnx", "--errors=json").stderr.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["malformed", "not-found"], lines


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["m.onnx", "n.onnx", "-o", "x.tflite"], "2 models need a folder as output, and x.tflite is none; make it first"),
        (["m.onnx", "n.onnx", "-o", "m.onnx"], "2 models need a folder as output, and m.onnx is none ["),
        (["m.onnx", "n.onnx", "-o", "-"], "2 models need a folder as output"),
        (["m.onnx", "sub/m.onnx", "-o", "."], "m.onnx and sub/m.onnx have one output: ./m.tflite"),
        (["m.onnx", "m.onnx"], "m.onnx and m.onnx have one output"),
        (["m.onnx", "n.onnx", "--report", "r.json"], "--report takes one model"),
        (["m.onnx", "n.onnx", "--progress-fd", "1"], "--progress-fd takes one model"),
        (["-"], "a model from standard input has no name: name the output with -o FILE"),
        (["-", "-o", "."], "a model from standard input has no name"),
        (["m.onnx", "-o", "-", "--dump-after", "lower"], "--dump-after prints to standard output, as -o - does"),
        (["m.onnx", "-o", "-", "--weights", "in-place"], "--weights in-place needs files with names"),
        (["m.onnx", "--follow-links", ".", "--weights", "in-place"], "exclude each other"),
    ],
)  # fmt: skip
def test_what_does_not_go_together(arguments, words, folder):
    done = run(folder, "convert", *arguments)
    assert done.returncode == 2 and words in done.stderr and done.stderr.count("\n") == 1, done
    assert names(folder) == ["m.onnx"]


# ---- standard input and output ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command",
    [
        "cat m.onnx | lowtide convert - -o - > out.tflite",
        "lowtide convert - -o - < m.onnx > out.tflite",
        "lowtide convert m.onnx -o - | cat > out.tflite",
        "cat m.onnx | lowtide convert - -o out.tflite",
        "zstd -q -c m.onnx | lowtide convert - -o out.tflite",
        "zstd -q -c m.onnx > m.onnx.zst; lowtide convert - -o out.tflite < m.onnx.zst; rm m.onnx.zst",
        "(sleep 0.2; cat m.onnx) | lowtide convert - --threads 1 --verify-output -o - | cat > out.tflite",
    ],
)
def test_streams_give_the_same_bytes(command, folder, expected):
    if "zstd" in command and shutil.which("zstd") is None:
        pytest.skip("no zstd")
    done = shell(folder, f"set -e -o pipefail; {command}")
    assert done.returncode == 0, done
    assert (folder / "out.tflite").read_bytes() == expected
    # The summary is on standard error where the file is on standard output.
    summary = done.stderr if "-o -" in command else done.stdout
    assert "peak RSS" in summary and (done.stdout if "-o -" in command else done.stderr) == "", done
    assert names(folder) == ["m.onnx", "out.tflite"]


def test_temporaries_are_where_tmpdir_says_and_go(folder, expected, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("temporaries")
    done = shell(folder, f"export TMPDIR={elsewhere}; cat m.onnx | lowtide convert - -o - --quiet > out.tflite")
    assert done.returncode == 0 and done.stderr == "", done
    assert (folder / "out.tflite").read_bytes() == expected and names(elsewhere) == []


def test_memory_does_not_grow_with_what_a_pipe_brings(tmp_path):
    made = run(tmp_path, "make-model", "conv-stack", "--size", "256M", "-o", "large.onnx", "--quiet")
    assert made.returncode == 0, made
    done = shell(tmp_path, "cat large.onnx | lowtide convert - -o out.tflite")
    peak = converter._PEAK.search(done.stdout)
    assert done.returncode == 0 and float(peak[1]) < 33 and peak[2] == "MiB", done


@pytest.mark.parametrize(
    "command, status, words",
    [
        ("echo this is no model | lowtide convert - -o m.tflite", 6, "lowtide: standard input: "),
        ("lowtide convert - -o m.tflite < /dev/null", 6, "standard input: the file is empty"),
        ("head -c 1000 m.onnx | lowtide convert - -o m.tflite", 6, "standard input"),
        ("lowtide convert - -o m.tflite < .", 7, "standard input: a folder, not a file"),
        ("lowtide extract - --to y -o p.onnx < m.onnx", 2, "so it cannot be standard input; give a file"),
        ("lowtide partition - < m.onnx", 2, "so it cannot be standard input; give a file"),
        ("lowtide convert m.onnx -o - > /dev/full", 5, "standard output cannot be written"),
        ("lowtide convert absent.onnx -o -", 3, "absent.onnx"),
    ],
)
def test_streams_that_fail(command, status, words, folder):
    done = shell(folder, command)
    assert done.returncode == status and words in done.stderr and done.stdout == "", done
    assert names(folder) == ["m.onnx"]


def test_external_data_of_standard_input_is_refused(model):
    done = shell(model, "cat m.onnx | lowtide convert - -o m.tflite")
    assert done.returncode == 7 and "has external data, but the model has no folder" in done.stderr, done


def test_a_reader_that_leaves(tmp_path):
    """SIGPIPE, as of any program; nothing is left where temporaries are."""
    run(tmp_path, "make-model", "conv-stack", "--size", "8M", "-o", "large.onnx", "--quiet")
    temporaries = tmp_path / "temporaries"
    temporaries.mkdir()
    child = subprocess.Popen(
        [converter.program(), "convert", "large.onnx", "-o", "-", "-q"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        env=os.environ | {"TMPDIR": str(temporaries)},
    )
    child.stdout.read(1000)
    child.stdout.close()
    assert child.wait(60) == -signal.SIGPIPE and names(temporaries) == []


def test_a_file_that_is_called_dash(folder, expected):
    (folder / "m.onnx").rename(folder / "-")
    assert run(folder, "convert", "./-", "-o", "./m.tflite").returncode == 0
    assert (folder / "m.tflite").read_bytes() == expected


# ---- short options ---------------------------------------------------------------------------------------------------


def test_short_options(folder):
    assert run(folder, "convert", "m.onnx", "-q").stdout == ""
    assert "settle_layouts" in run(folder, "convert", "m.onnx", "-v").stderr
    assert run(folder, "-V").stdout == run(folder, "--version").stdout
    assert run(folder, "help", "convert").stdout == run(folder, "convert", "--help").stdout
    assert run(folder, "help").stdout == run(folder, "-h").stdout
    assert run(folder, "check", "m.onnx", "m.tflite", "-q").stdout == ""
    assert run(folder, "convert", "m.onnx", "-q", "-v").returncode == 2
    assert run(folder, "convert", "m.onnx", "--max-rss", "0.5G", "--layout", "input=NHWC", "-q").returncode == 0


# ---- links -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def hub(model, tmp_path):
    """The layout of a hub's cache: files of a snapshot are links to blobs."""
    cache = tmp_path / "models--a--b"
    (cache / "blobs").mkdir(parents=True)
    (cache / "snapshots/1234").mkdir(parents=True)
    for number, name in enumerate(("m.onnx", "w.bin")):
        (model / name).rename(cache / f"blobs/{number}")
        (cache / "snapshots/1234" / name).symlink_to(f"../../blobs/{number}")
    return cache


def convert_linked(folder, follow):
    return run(folder, "convert", "snapshots/1234/m.onnx", "-o", "m.tflite", "-q", "--follow-links", follow)


def test_links_of_a_hub_are_followed(hub):
    refused = run(hub, "convert", "snapshots/1234/m.onnx", "-o", "m.tflite")
    assert refused.returncode == 7 and "--follow-links" in refused.stderr, refused
    for follow in (".", hub, "snapshots/.."):
        done = convert_linked(hub, follow)
        assert (done.returncode, done.stderr) == (0, ""), done
    partition = ["partition", "-o", "pieces", "--target", "onnx"]
    for command in (["check", "m.tflite"], ["inspect"], ["extract", "--to", "y", "-o", "part.onnx"], partition):
        done = run(hub, command[0], "snapshots/1234/m.onnx", *command[1:], "--follow-links", ".")
        assert done.returncode == 0, done
    done = run(hub, "partition", "snapshots/1234/m.onnx", "--weights", "in-place", "--follow-links", ".")
    assert done.returncode == 2 and "exclude each other" in done.stderr, done


def test_links_that_lead_out_are_refused(hub, tmp_path):
    link = hub / "snapshots/1234/w.bin"
    secret = tmp_path / "secret.bin"
    shutil.copy(hub / "blobs/1", secret)
    cases = {
        "../../../secret.bin": "leads out of the folder",
        str(secret): "leads out of the folder",
        str(hub / "blobs/1"): "leads out of the folder",  # absolute, although it is inside
        "w.bin": "too many symbolic links",
        "../../blobs": "not a regular file",
        "../../blobs/9": "cannot be opened",
    }
    for target, words in cases.items():
        link.unlink()
        link.symlink_to(target)
        done = convert_linked(hub, ".")
        assert done.returncode in (3, 7) and words in done.stderr, (target, done)
    # Two links, the second of which leads out.
    link.unlink()
    link.symlink_to("../../blobs/through")
    (hub / "blobs/through").symlink_to("../../secret.bin")
    assert "leads out of the folder" in convert_linked(hub, ".").stderr


def test_the_folder_must_hold_the_model(hub):
    done = convert_linked(hub, "blobs")
    assert done.returncode == 7 and "is not inside 'blobs'" in done.stderr, done
    done = convert_linked(hub, "absent")
    assert done.returncode == 3 and "--follow-links: the folder 'absent' does not exist" in done.stderr, done
    assert convert_linked(hub, "snapshots/1234").returncode == 7  # the blobs are outside


def test_locations_are_still_checked(hub, tmp_path):
    path = hub / "blobs/0"
    data = path.read_bytes()
    assert data.count(b"w.bin") == 1
    path.write_bytes(data.replace(b"w.bin", b"../wb"))
    assert "leads out of the model's folder" in convert_linked(hub, ".").stderr
    assert pathlib.Path(tmp_path / "models--a--b/m.tflite").exists() is False
