# SPDX-License-Identifier: Apache-2.0
"""Runs cases in child processes: a kernel may crash, and then only its own case is lost.

Each child takes the list of cases where the last one stopped and reports one line a case through a pipe. A case that
kills its child is run once more alone: if it survives that, an earlier case of the batch has spoilt the memory and the
batch is run in halves until the culprit is found.
"""

import os
import pickle
import select
import signal
import struct

TIMEOUT_SECONDS = 60


def child(cases, pipe, judge):
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    run = judge()
    for case in cases:
        try:
            answer = run(case)
        except Exception as error:  # a mistake in a case must not look like the kernel's
            answer = ("BROKEN CASE", f"{type(error).__name__}: {error}")
        line = pickle.dumps(answer)
        os.write(pipe, struct.pack("<I", len(line)) + line)
    os._exit(0)


def read_exactly(pipe, n):
    data = b""
    while len(data) < n:
        if not select.select([pipe], [], [], TIMEOUT_SECONDS)[0]:
            raise TimeoutError
        chunk = os.read(pipe, n - len(data))
        if not chunk:
            return None
        data += chunk
    return data


def run_batch(cases, judge):
    """Answers up to the first case that kills the child, and how it died (None if it did not)."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(out)
        child(cases, into, judge)
    os.close(into)
    answers, death = [], None
    try:
        while len(answers) < len(cases):
            head = read_exactly(out, 4)
            if head is None:
                break
            answers.append(pickle.loads(read_exactly(out, struct.unpack("<I", head)[0])))
    except TimeoutError:
        os.kill(pid, signal.SIGKILL)
        death = "hangs"
    os.close(out)
    _, status = os.waitpid(pid, 0)
    if len(answers) < len(cases):
        signalled = os.WIFSIGNALED(status)
        death = death or (signal.Signals(os.WTERMSIG(status)).name if signalled else f"exit {os.WEXITSTATUS(status)}")
    return answers, death


def run_all(cases, judge):
    """One answer a case. `judge()` is called in the child and returns the function that runs a case."""
    answers = []
    while len(answers) < len(cases):
        got, death = run_batch(cases[len(answers) :], judge)
        first = len(answers)
        answers += got
        if death is None:
            continue
        guilty = len(answers)
        alone, alone_death = run_batch(cases[guilty : guilty + 1], judge)
        if alone_death:
            answers.append(("CRASH", alone_death))
            continue
        # An innocent case died of memory that an earlier one spoilt: the neighbours of the same batch are suspects.
        answers += alone
        for i in range(max(first, guilty - 40), guilty):
            _, repeated_death = run_batch([cases[i]] * 8, judge)
            if repeated_death:
                answers[i] = ("CRASH", f"spoils memory ({repeated_death})")
    return answers
