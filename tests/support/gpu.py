# SPDX-License-Identifier: Apache-2.0
"""LiteRT's GPU delegate on a GPU in software: which operators it takes, and what it computes.

    python -m tests.support.gpu MODEL.tflite...

The delegate is WebGPU's in the ai-edge-litert wheel; the Vulkan driver is SwiftShader, which Debian's package `chromium`
holds (with `libvulkan1`). `absent()` says what is missing. The delegate runs in a child process: a driver may crash, and
the delegate tells its decision only in what it prints.
"""

import ctypes
import dataclasses
import os
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile

import numpy as np

from tests.support.tflite_file import read_tflite

ROOT = pathlib.Path(__file__).resolve().parents[2]
DRIVER = pathlib.Path(os.environ.get("LOWTIDE_VULKAN_DRIVER", "/usr/lib/chromium/vk_swiftshader_icd.json"))

F32, ANY, HALF = "f32", "any", "half"  # precisions: see delegate(), half_on_processor()
_FORCE_FP16 = 4  # TFLITE_XNNPACK_DELEGATE_FLAG_FORCE_FP16

_HEADER = "Following operations are not supported by GPU delegate:"
_BEGIN, _LOADED = "@@ a file", "@@ loaded"
_SPLIT = re.compile(
    r"^(No|\d+) operations will run on the GPU, and (?:all|the remaining) (\d+) operations", re.MULTILINE
)


@dataclasses.dataclass
class Delegation:
    """What the delegate took of a file. `reasons`: its own lines "OPERATOR: reason", each once, not counted."""

    taken: int
    operators: int
    reasons: tuple = ()
    fault: str = ""  # why the delegate gave up, where it gave no decision, or what running gave instead of results
    outputs: dict | None = None  # {name: array} where inputs were given and the file was taken whole

    @property
    def whole(self):
        return self.taken == self.operators and not self.fault

    def __str__(self):
        count = "whole" if self.whole else f"{self.taken} of {self.operators}"
        return f"{count} ({self.fault})" if self.fault else count


def absent():
    """What is missing to ask the delegate, as one line; None when all is there."""
    if not DRIVER.is_file():
        return f"no SwiftShader: {DRIVER} is not there (apt-get install chromium libvulkan1)"
    try:
        ctypes.CDLL("libvulkan.so.1")
    except OSError:
        return "no Vulkan loader: libvulkan.so.1 is not there (apt-get install libvulkan1)"
    return None


def _last_line(log):
    lines = [line.strip() for line in log.splitlines() if line.strip() and not line.startswith(("INFO", "WARNING"))]
    return lines[-1][:200] if lines else "nothing printed"


def half_on_processor(path, inputs, seconds=300):
    """{name: array} of a run in 16 bits on the processor (XNNPACK's FORCE_FP16), or why there is none: what a GPU that
    computes in 16 bits may give. SwiftShader has no arithmetic of 16 bits."""
    answer, log = _asked(path, inputs, HALF, seconds)
    return answer.get("outputs") or answer.get("fault") or _last_line(log)


def _asked(path, inputs, precision, seconds):
    """What the child answers, {} where it does not, and what it prints."""
    with tempfile.TemporaryDirectory(prefix="lowtide-gpu-") as folder:
        asked, answered = pathlib.Path(folder) / "asked", pathlib.Path(folder) / "answered"
        asked.write_bytes(pickle.dumps((os.path.abspath(path), inputs, precision)))
        environment = {
            **os.environ,
            "VK_ICD_FILENAMES": str(DRIVER),
            "VK_DRIVER_FILES": str(DRIVER),
            "XDG_RUNTIME_DIR": folder,
            "PYTHONPATH": str(ROOT),
        }
        try:
            done = subprocess.run(
                [sys.executable, "-m", "tests.support.gpu", "--child", str(asked), str(answered)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=seconds,
                env=environment,
                cwd=ROOT,
            )
        except subprocess.TimeoutExpired:
            return {"fault": f"no answer after {seconds} s"}, ""
        return (pickle.loads(answered.read_bytes()) if answered.is_file() else {}), done.stdout.decode(
            "utf-8", "replace"
        )


def delegate(path, inputs=None, f32=True, seconds=300):
    """Gives the file to the delegate, alone: no operator may stay on the processor. With `inputs` {name: array}, a
    file that is taken whole is run. `f32`: computed in 32 bits; otherwise the delegate may use 16."""
    operators = sum(read_tflite(path).operators.values())
    answer, log = _asked(path, inputs, F32 if f32 else ANY, seconds)
    reasons, taken = (), None
    if "static-sized tensors with a graph that has dynamic-sized tensors" in log:
        return Delegation(0, operators, fault="tensors of unknown size")
    if _HEADER in log:
        said = log.split(_HEADER, 1)[1]
        found = _SPLIT.search(said)
        if found:
            reasons = tuple(line.strip() for line in said[: found.start()].splitlines() if line.strip())
            taken = 0 if found[1] == "No" else int(found[1])
    if answer.get("loaded"):
        return Delegation(operators, operators, reasons, answer.get("fault", ""), answer.get("outputs"))
    if taken is not None and taken < operators:
        return Delegation(taken, operators, reasons)
    return Delegation(taken or 0, operators, reasons, answer.get("fault") or _last_line(log))


@dataclasses.dataclass
class Answer:
    """Whether the delegate takes a file whole, and its first reason where it does not and says why."""

    taken: bool
    reason: str = ""


def load_all(paths, at_once=60):
    """Only loads, many files in one process: an Answer each. A file that ends the process gets one without a reason."""
    answers = []
    while len(answers) < len(paths):
        part = [os.path.abspath(path) for path in paths[len(answers) : len(answers) + at_once]]
        with tempfile.TemporaryDirectory(prefix="lowtide-gpu-") as folder:
            environment = {
                **os.environ,
                "VK_ICD_FILENAMES": str(DRIVER),
                "VK_DRIVER_FILES": str(DRIVER),
                "XDG_RUNTIME_DIR": folder,
                "PYTHONPATH": str(ROOT),
            }
            done = subprocess.run(
                [sys.executable, "-m", "tests.support.gpu", "--load", *part],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=600,
                env=environment,
                cwd=ROOT,
            )
        parts = done.stdout.decode("utf-8", "replace").split(_BEGIN)[1:]
        for log in parts:
            said = log.split(_HEADER, 1)[1] if _HEADER in log else ""
            found = _SPLIT.search(said)
            lines = [line.strip() for line in said[: found.start()].splitlines() if line.strip()] if found else []
            answers.append(Answer(_LOADED in log, lines[0] if lines else ""))
        if not parts:
            raise RuntimeError(f"the delegate does not start: {_last_line(done.stdout.decode('utf-8', 'replace'))}")
    return answers


def _load(paths):
    """In the child of load_all."""
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator

    for path in paths:
        os.write(1, f"\n{_BEGIN}\n".encode())  # not buffered, as what the delegate prints
        try:
            CompiledModel.from_file(path, hardware_accel=HardwareAccelerator.GPU)
            os.write(1, f"\n{_LOADED}\n".encode())
        except Exception:  # the reason is in what the delegate printed
            continue
    os._exit(0)


def _run(asked):
    """In the child."""
    from ai_edge_litert.compiled_model import CompiledModel
    from ai_edge_litert.hardware_accelerator import HardwareAccelerator
    from ai_edge_litert.options import CpuOptions, GpuOptions, Options

    path, inputs, precision = asked
    if precision == HALF:
        options = Options(
            hardware_accelerators=HardwareAccelerator.CPU, cpu_options=CpuOptions(xnnpack_flags=_FORCE_FP16)
        )
    else:
        enforced = GpuOptions(enforce_f32=precision == F32)
        options = Options(hardware_accelerators=HardwareAccelerator.GPU, gpu_options=enforced)
    model = CompiledModel.from_file(path, options=options)
    if inputs is None:
        return None
    key = "serving_default"
    wanted = model.get_input_tensor_details(key)
    fed = {name: model.create_input_buffer_by_name(key, name) for name in wanted}
    details = model.get_output_tensor_details(key)
    got = {name: model.create_output_buffer_by_name(key, name) for name in details}
    for name, buffer in fed.items():
        buffer.write(np.ascontiguousarray(inputs[name], np.dtype(wanted[name]["dtype"])))
    model.run_by_name(key, fed, got)
    return {
        name: got[name].read(int(np.prod(of["shape"])), np.dtype(of["dtype"])).reshape(of["shape"])
        for name, of in details.items()
    }


def _child(asked, answered):
    answer = {"loaded": False}
    try:
        asked = pickle.loads(pathlib.Path(asked).read_bytes())
        _run((asked[0], None, asked[2]))
        answer["loaded"] = True
        answer["outputs"] = _run(asked)
    except Exception as error:  # whatever LiteRT raises is the answer
        answer["fault"] = f"{type(error).__name__}: {error}".replace("\n", " ")[:200]
    pathlib.Path(answered).write_bytes(pickle.dumps(answer))
    sys.stdout.flush()
    os._exit(0)  # destructors of drivers have nothing to say that matters here


def main():
    if sys.argv[1:2] == ["--child"]:
        _child(*sys.argv[2:])
    if sys.argv[1:2] == ["--load"]:
        _load(sys.argv[2:])
    if reason := absent():
        sys.exit(reason)
    for path in sys.argv[1:]:
        answer = delegate(path)
        print(f"{path}: {answer}", *(f"    {reason}" for reason in answer.reasons), sep="\n")


if __name__ == "__main__":
    main()
