# SPDX-License-Identifier: Apache-2.0
"""onnx2tf for benchmarks: an environment of its own, which is made here, and its file for a model."""

import os
import pathlib
import shutil
import subprocess
import sys

from bench.measure import ROOT

PEER = "onnx2tf==2.6.9"


def add_arguments(parser):
    parser.add_argument("--env", default=str(ROOT / "build/onnx2tf"), help="the environment of onnx2tf")
    parser.add_argument("--base", default="python3.12", help="the Python that onnx2tf's environment is made with")


def install(options):
    """Its program, in an environment that holds nothing else."""
    program = pathlib.Path(options.env) / "bin" / "onnx2tf"
    if not program.exists():
        print(f"installing {PEER} into {options.env}", file=sys.stderr, flush=True)
        if shutil.which(options.base) is None:
            sys.exit(f"there is no {options.base}: {PEER} needs a Python 3.12, say which by --base")
        subprocess.run([options.base, "-m", "venv", options.env], check=True)
        subprocess.run([program.parent / "pip", "install", "--quiet", PEER], check=True)
    return program.resolve()


def alone():
    """A namespace without network, where that is allowed: onnx2tf downloads test data otherwise."""
    return ["unshare", "--net"] if os.geteuid() == 0 else []


def model_files(path):
    """The model and the file of its weights."""
    return [path, *(other for other in path.parent.glob(f"{path.name}.data"))]


def convert(program, model, out, run, edit=None):
    """The float file that it makes of a copy of the model, because it overwrites its input, or None; and what `run` gives.

    `run(command, folder)` runs the command in the folder; `edit(copy)` changes the copy first.
    """
    copy = out.parent / f"{out.name}-copy"
    copy.mkdir()
    try:
        for path in model_files(model):
            shutil.copy(path, copy / path.name)
        if edit:
            edit(copy / model.name)
        done = run([program, "-i", copy / model.name, "-o", out, "-n"], copy)
    finally:
        shutil.rmtree(copy)
    return next(iter(sorted(out.glob("*float32.tflite"))), None), done
