# SPDX-License-Identifier: Apache-2.0
"""Interrupts from Python at any moment: no child, no temporary and no half-written model stays.

The child is interrupted while it writes: the model has 256 MiB of weights, which are transposed.
"""

import asyncio
import os
import pathlib
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import lowtide
from tests.python import models
from tests.support import converter

# The tests may run in the background of a shell that ignores SIGINT there, which Python would leave as it is.
CONVERT = """
import signal, sys, lowtide
signal.signal(signal.SIGINT, signal.default_int_handler)
print("go", flush=True)
lowtide.convert(sys.argv[1], sys.argv[2], threads=1)
"""


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    path = tmp_path_factory.mktemp("large") / "m.onnx"
    subprocess.run(
        [converter.program(), "make-model", "conv-stack", "--size", "256M", "-o", path, "--quiet"], check=True
    )
    yield path
    path.unlink()


def children_of(pid):
    """Ids of the processes whose parent is `pid`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            if int(stat.rpartition(")")[2].split()[1]) == pid:
                found.append(int(entry.name))
    return found


def command_of(pid):
    """Its command line; empty when it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


def is_running(pid):
    try:
        return (pathlib.Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_until(condition, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.01)
    return False


def start(environment, large, folder, script=CONVERT, **how):
    process = subprocess.Popen(
        [sys.executable, "-c", script, large, folder / "out.tflite"],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **how,
    )
    assert process.stdout.readline() == "go\n"
    return process


def test_ctrl_c_that_only_python_gets(environment, large, tmp_path, record_property):
    rng = random.Random(0)
    tries = 50
    for i in range(tries):
        folder = tmp_path / str(i)
        folder.mkdir()
        process = start(environment, large, folder)
        wait_until(lambda: children_of(process.pid), 20)
        time.sleep(rng.uniform(0, 0.25))
        children = children_of(process.pid)
        process.send_signal(signal.SIGINT)
        begun = time.monotonic()
        _, error = process.communicate(timeout=600)
        # At the end of the interpreter Python no longer raises it: the signal ends the process, or comes too late.
        assert "KeyboardInterrupt" in error or process.returncode in (0, -signal.SIGINT), error
        assert time.monotonic() - begun < 20
        # A program that Python asked for its version at that moment ends with Python, a moment after it.
        assert wait_until(lambda: not any(map(is_running, children)), 5)
        # The conversion may have ended just before; what must never stay is a temporary.
        wanted = [["out.tflite"]] if process.returncode == 0 else [[], ["out.tflite"]]
        assert wait_until(lambda: [p.name for p in folder.iterdir()] in wanted, 5), sorted(folder.iterdir())
    record_property("kills survived", tries)


INTERRUPTED_AT_ITS_START = """
import os, signal, subprocess, sys, lowtide
signal.signal(signal.SIGINT, signal.default_int_handler)
lowtide.__version__  # asks the program, which is not what is interrupted here

class Interrupted(subprocess.Popen):
    def __init__(self, *arguments, **how):
        super().__init__(*arguments, **how)
        os.kill(os.getpid(), signal.SIGINT)  # the child runs, and its caller does not have this object yet

subprocess.Popen = Interrupted
print("go", flush=True)
try:
    lowtide.convert(sys.argv[1], sys.argv[2], threads=1)
except KeyboardInterrupt:
    print("interrupted", flush=True)
sys.stdin.read()
"""


def test_ctrl_c_while_the_child_is_started(environment, large, tmp_path):
    """In a Python that goes on, as in Jupyter, whose end would end the child."""
    process = start(environment, large, tmp_path, script=INTERRUPTED_AT_ITS_START, stdin=subprocess.PIPE)
    assert process.stdout.readline() == "interrupted\n"
    assert children_of(process.pid) == []
    assert list(tmp_path.iterdir()) == []
    process.communicate(timeout=600)
    assert process.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_parent_takes_the_child_along(number, environment, large, tmp_path, record_property):
    process = start(environment, large, tmp_path)
    wait_until(lambda: list(tmp_path.iterdir()), 20)
    children = children_of(process.pid)
    process.send_signal(number)
    process.communicate(timeout=600)
    assert wait_until(lambda: not any(map(is_running, children)), 20)
    # A conversion that was ready at that moment has its name.
    assert [p.name for p in tmp_path.iterdir()] in ([], ["out.tflite"])
    record_property("kills survived", 1)


def test_a_cancelled_task(large, tmp_path):
    async def cancelled():
        others = children_of(os.getpid())  # of tests that ran before in this process
        task = asyncio.ensure_future(lowtide.convert_async(large, tmp_path / "out.tflite", threads=1))
        while not list(tmp_path.iterdir()) and not task.done():
            await asyncio.sleep(0.01)
        children = [child for child in children_of(os.getpid()) if child not in others]
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return children

    children = asyncio.run(cancelled())
    assert children and not any(map(is_running, children))
    assert list(tmp_path.iterdir()) == []


def test_a_time_limit_of_asyncio(large, tmp_path):
    async def limited():
        await asyncio.wait_for(lowtide.convert_async(large, tmp_path / "out.tflite"), 0.05)

    with pytest.raises(asyncio.TimeoutError):
        asyncio.run(limited())
    # Where the machine is slow to say that the time is over, the conversion has ended.
    assert [path.name for path in tmp_path.iterdir()] in ([], ["out.tflite"])


def test_a_signal_to_the_child_alone(large, tmp_path):
    result = []

    def work():
        try:
            lowtide.convert(large, tmp_path / "out.tflite", threads=1)
        except lowtide.Error as error:
            result.append(error)

    before = set(children_of(os.getpid()))
    thread = threading.Thread(target=work)
    thread.start()
    wait_until(lambda: list(tmp_path.iterdir()), 20)
    for child in set(children_of(os.getpid())) - before:
        os.kill(child, signal.SIGTERM)
    thread.join()
    assert not result or isinstance(result[0], lowtide.Interrupted)
    assert bool(result) != (tmp_path / "out.tflite").exists()


def test_a_child_that_does_not_end_is_killed(tmp_path, environment):
    program = tmp_path / "lowtide"
    program.write_text(
        "#!/bin/bash\ntrap '' INT TERM\nif [ \"$1\" = --version ]; then echo lowtide 0.1.0; exit 0; fi\n"
        'case "$*" in *--help*) exit 0;; esac\nwhile true; do sleep 0.05; done\n'
    )
    program.chmod(0o755)
    process = subprocess.Popen(
        [sys.executable, "-c", CONVERT, "m.onnx", "out.tflite"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**environment, "LOWTIDE": str(program)},
    )
    assert process.stdout.readline() == "go\n"
    wait_until(lambda: any(command_of(c) and "0.05" not in command_of(c) for c in children_of(process.pid)), 20)
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=600)
    assert "KeyboardInterrupt" in error


# The moment between the redirection and the body of the context, which an interrupt meets now and then.
AT_A_REDIRECTION = """
import sys
from lowtide import __main__, runtime_log

def interrupted(_):
    runtime_log.captured().__enter__()
    raise KeyboardInterrupt

__main__.COMMANDS["run"] = interrupted
sys.exit(__main__.main(["run"]))
"""


def test_an_interrupt_while_the_log_is_redirected_is_said(environment):
    done = subprocess.run(
        [sys.executable, "-c", AT_A_REDIRECTION], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (10, "", "lowtide: interrupted [interrupted]\n")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("is_ignored", [False, True])
def test_signals_of_commands_in_python(number, is_ignored, environment, tmp_path):
    """They remove temporary folders, and the last line says it. What is ignored, as by nohup, stays so."""
    models.product(tmp_path / "m.onnx", np.ones((8, 5), np.float32))
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def set_signals():  # whatever this run of the tests ignores
        for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(one, signal.SIG_IGN if one == number and is_ignored else signal.SIG_DFL)

    process = subprocess.Popen(
        [sys.executable, "-m", "lowtide", "run", "m.onnx", "--profile", "--repeat", "1000000000"],
        cwd=tmp_path,
        env={**environment, "TMPDIR": str(temporary)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=set_signals,
    )
    try:
        assert wait_until(lambda: list(temporary.glob("lowtide-*/*")), 60)
        process.send_signal(number)
        if is_ignored:
            time.sleep(0.5)
            assert process.poll() is None
            process.send_signal(signal.SIGTERM if number == signal.SIGINT else signal.SIGINT)
        out, error = process.communicate(timeout=60)
    finally:
        process.kill()  # it would run for hours
    assert (process.returncode, out, error) == (10, "", "lowtide: interrupted [interrupted]\n")
    assert [path.name for path in temporary.iterdir()] in ([], [".ses"])  # onnxruntime makes that when it is imported


# As modules of C do that are loaded.
LOST_WHILE_IMPORTING = """
import contextlib, importlib, os, signal, sys
from lowtide import __main__

def lossy(name, package):
    with contextlib.suppress(KeyboardInterrupt):
        os.kill(os.getpid(), int(sys.argv[1]))
        for _ in range(1000):
            pass
    return {".run_command": sys}[name]

importlib.import_module = lossy
sys.exit(__main__.main(["run"]))
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_during_an_import_is_not_lost(number, environment):
    done = subprocess.run(
        [sys.executable, "-c", LOST_WHILE_IMPORTING, str(int(number))],
        env=environment,
        capture_output=True,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert (done.returncode, done.stdout, done.stderr) == (10, "", "lowtide: interrupted [interrupted]\n")
