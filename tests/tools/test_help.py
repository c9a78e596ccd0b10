# SPDX-License-Identifier: Apache-2.0
"""Help and usage errors: what a user reads who does not know the program, or who mistypes a word."""

import json
import re
import shlex

import onnx
import pytest
from onnx import TensorProto, helper

from tests.tools.test_command_line import run

COMMANDS = ["convert", "merge", "check", "extract", "partition", "inspect", "make-model", "ops", "doctor"]


@pytest.fixture
def model(tmp_path):
    image = helper.make_tensor_value_info("images", TensorProto.FLOAT, ["batch", 3, 4, 5])
    scores = helper.make_tensor_value_info("scores", TensorProto.FLOAT, None)
    graph = helper.make_graph([helper.make_node("Relu", ["images"], ["scores"])], "g", [image], [scores])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "m.onnx")
    return tmp_path


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_ends_with_examples_that_parse(command, tmp_path):
    words = [command] if command else []
    done = run(tmp_path, *words, "--help")
    assert (done.returncode, done.stderr) == (0, ""), done
    assert run(tmp_path, "help", *words).stdout == run(tmp_path, *words, "-h").stdout == done.stdout
    lines = done.stdout.splitlines()
    assert all(len(line) <= 90 for line in lines), [line for line in lines if len(line) > 90]
    assert "\n\n\n" not in done.stdout
    examples = [line for line in lines[lines.index("Examples:") + 1 :] if line]
    assert examples and all(line.startswith("  lowtide ") for line in examples), examples
    for line in examples:
        arguments = shlex.split(re.split(r"  writes|  all| [|>] ", line)[0])[1:]
        shown = run(tmp_path, *arguments)
        # The files of the examples do not exist; an argument that is wrong would be status 2.
        needs_no_file = "--help" in arguments or arguments[0] in ("make-model", "ops") or arguments == ["doctor"]
        assert shown.returncode == (0 if needs_no_file else 3), (line, shown)
        if arguments[0] == "make-model":
            break  # one small model is enough


def test_help_of_shared_options_is_the_command_s(tmp_path):
    """merge and check take no TFLite models, merge no --weights in-place."""
    texts = {name: " ".join(run(tmp_path, name, "--help").stdout.split()) for name in ("convert", "merge", "check")}
    shown = {name: ("where the model is TFLite" in text, "in-place: " in text) for name, text in texts.items()}
    assert shown == {"convert": (True, True), "merge": (False, False), "check": (False, True)}


def test_version(tmp_path):
    for option in ("--version", "-V"):
        done = run(tmp_path, option)
        assert done.returncode == 0 and re.fullmatch(r"lowtide \d+\.\d+\.\d+\n", done.stdout), done


@pytest.mark.parametrize(
    "arguments, line",
    [
        (["convert", "--ouput", "x.tflite", "m.onnx"], "unknown option '--ouput'; did you mean '--output'?"),
        (["convert", "--ouput=x.tflite", "m.onnx"], "unknown option '--ouput'; did you mean '--output'?"),
        (["convert", "m.onnx", "--weight", "f16"], "unknown option '--weight'; did you mean '--weights'?"),
        (["convert", "m.onnx", "--verify"], "unknown option '--verify'; did you mean '--verify-output'?"),
        (["convert", "m.onnx", "-verbose"], "unknown option '-verbose'; did you mean '--verbose'?"),
        (["convert", "m.onnx", "--zzz"], "unknown option '--zzz' (see lowtide convert --help)"),
        (["convert", "m.onnx", "-x"], "unknown option '-x' (see lowtide convert --help)"),
        (["inspect", "m.onnx", "--jsno"], "unknown option '--jsno'; did you mean '--json'?"),
        (["--verison"], "unknown option '--verison'; did you mean '--version'?"),
        (["--quiet", "convert", "m.onnx"], "option '--quiet' must follow the command: lowtide convert --quiet"),
        (["conver", "m.onnx"], "unknown command 'conver'; did you mean 'convert'?"),
        (["Convert", "m.onnx"], "unknown command 'Convert'; did you mean 'convert'?"),
        (["verfy", "m.onnx"], "unknown command 'verfy'; did you mean 'verify'?"),
        (["transmogrify"], "doctor; of the Python package: calibrate, run, verify)"),
        (["help", "chekc"], "unknown command 'chekc'; did you mean 'check'?"),
        (["m.onnx"], "unknown command 'm.onnx'; to convert a model: lowtide convert m.onnx"),
        (["convert", "m.onnx", "m.tflite"], "unexpected argument 'm.tflite'; the output is given as -o m.tflite"),
        (["inspect", "m.onnx", "n.onnx"], "unexpected argument 'n.onnx' (usage: lowtide inspect FILE [OPTIONS])"),
        (["extract", "m.onnx", "--to", ",", "-o", "e.onnx"], "--to: ',' has an empty name"),
        (["convert", "m.onnx", "--outputs", "y,", "-o", "e.tflite"], "--outputs: 'y,' has an empty name"),
        (["ops", "Conv", "Relu"], "unexpected argument 'Relu' (usage: lowtide ops [OPERATOR] [OPTIONS])"),
        (["extract", "m.onnx"], "(usage: lowtide extract MODEL --to NAME,... --output FILE [OPTIONS])"),
        (["check", "m.onnx"], "TFLITE is missing (usage: lowtide check MODEL TFLITE [OPTIONS])"),
        (
            ["make-model", "unet"],
            "option '--output' is missing (usage: lowtide make-model KIND --output FILE [OPTIONS])",
        ),
        (["convert", "m.onnx", "-o"], "option '--output' needs a value: --output FILE"),
        (["convert", "m.onnx", "-o", "a", "-o", "b"], "option '--output' is given more than once"),
        (["convert", "m.onnx", "--weights", "fp16"], "'fp16' is not one of f16, float, "),
        (["convert", "m.onnx", "--weights", "fp16"], "did you mean 'f16'?"),
        (["convert", "m.onnx", "--dump-after", "lowr"], "unknown pass 'lowr'; did you mean 'lower'? (passes: lower, "),
        (
            ["convert", "m.onnx", "--shape", "image=1,3,4,5"],
            "m.onnx: --shape: the model has no input 'image'; did you mean 'images'? (inputs: images)",
        ),
        (["convert", "m.onnx", "--shape", "data=1,3,4,5"], "--shape: the model has no input 'data' (inputs: images)"),
        (
            ["convert", "m.onnx", "--layout", "score=nhwc"],
            "--layout: the model has no input or output 'score'; did you mean 'scores'? (inputs: images; outputs: scores)",
        ),
        (["make-model", "u-net", "-o", "n.onnx"], "did you mean 'unet'?"),
    ],
)
def test_a_wrong_word_names_the_right_one(arguments, line, model):
    done = run(model, *arguments)
    assert done.returncode == 2 and line in done.stderr, done
    assert (
        done.stderr.startswith("lowtide: ") and done.stderr.endswith(" [usage]\n") and done.stderr.count("\n") == 1
    ), done
    assert [p.name for p in model.iterdir()] == ["m.onnx"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["--layout", "images=NHWC"],
        ["--layout", "scores=Nchw"],
        ["--max-rss", "0.5G"],
        ["--max-rss", "64MiB"],
        ["--max-rss", "65536k"],
        ["--max-rss=67108864"],
        ["--shape=images=2,3,4,5"],
    ],
)
def test_ways_to_write_a_value(arguments, model):
    done = run(model, "convert", "m.onnx", *arguments)
    assert done.returncode == 0, done


def test_fractions_of_a_size(model):
    sizes = {"0.5G": 2**29, "1.5M": 3 * 2**19, "2097152": 2**21, "64MB": 2**26}
    for text, size in sizes.items():
        done = run(model, "convert", "m.onnx", "--max-rss", text, "--report", "r.json")
        if done.returncode == 0:
            assert json.loads((model / "r.json").read_text())["max_rss"] == size
        else:  # too small for any model, and named as it was understood
            assert done.returncode == 9 and f"--max-rss {size / 2**20:.1f} MiB" in done.stderr, done
