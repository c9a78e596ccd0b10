#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fuzzes at idle priority and keeps count.

    python -m tests.fuzz.run FOLDER [--cpu-hours 4] [--jobs 2] [--target NAME...] [--slice 1800] [--no-build]
    python -m tests.fuzz.run FOLDER --summary
    python -m tests.fuzz.run FOLDER --minimise [--target NAME...]

FOLDER keeps everything between runs: corpus/TARGET, artifacts/TARGET (findings), logs, and cpu.tsv, one line a slice.
A slice is one run of one target; the target that is furthest behind its share is next. CPU time is what the kernel
says of each process, so a busy machine only takes longer. A slice begins by running the corpus, so short slices find
nothing. libFuzzer adds inputs to the corpus and removes none: 57,000 inputs of `convert` took 23 CPU minutes, and 11,600
of them have the same coverage. --minimise keeps only such inputs.

The trap: libFuzzer's time limit is by the clock, and at idle priority the clock runs without us. So it gets a generous
one, and what looks slow is run again and counts when it takes more than 10 seconds of CPU.
"""

import argparse
import collections
import contextlib
import datetime
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import threading
import time

from tests.fuzz.corpus import OF_TARGET

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BUILD = ROOT / "build" / "fuzz" / "tests" / "fuzz"
TARGETS = sorted(path.stem.removesuffix("_fuzz") for path in HERE.glob("*_fuzz.cc"))
SHARE = collections.defaultdict(lambda: 1, convert=6, onnx_reader=2, **{"raise": 3}, zstd=0.5, external_data=0.5)
LARGEST = {
    "convert": 16384,
    "onnx_reader": 16384,
    "tflite_reader": 16384,
    "raise": 16384,
    "zstd": 4096,
    "external_data": 512,
}
SLOW = 10  # CPU seconds
LIMITS = ["-malloc_limit_mb=256", "-rss_limit_mb=1024", "-timeout=120", f"-report_slow_units={SLOW}"]
ENVIRONMENT = {
    "ASAN_OPTIONS": "quarantine_size_mb=32:malloc_context_size=12",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
}
EXECUTED = re.compile(r"^(?:stat::number_of_executed_units:\s*|#)(\d+)", re.MULTILINE)


class Work:
    def __init__(self, folder):
        self.folder = folder
        self.table = folder / "cpu.tsv"
        self.lock = threading.Lock()
        self.running = collections.Counter()
        self.processes = set()
        self.stopping = False
        self.begun = self.cpu()

    def place(self, kind, target):
        path = self.folder / kind / target
        path.mkdir(parents=True, exist_ok=True)
        return path

    def rows(self):
        if not self.table.is_file():
            return []
        return [line.split("\t") for line in self.table.read_text().splitlines()]

    def cpu(self):
        cpu = collections.Counter()
        for _, target, seconds, *_ in self.rows():
            cpu[target] += float(seconds)
        return cpu

    def next(self, targets, cpu_seconds):
        """The target furthest behind its share, or None when the time is used up."""
        with self.lock:
            cpu = self.cpu()
            if self.stopping or sum(cpu.values()) - sum(self.begun.values()) >= cpu_seconds:
                return None
            target = min(targets, key=lambda t: (self.running[t] > 0, (cpu[t] - self.begun[t]) / SHARE[t]))
            self.running[target] += 1
            return target

    def stop(self, *_):
        """After Ctrl-C or SIGTERM: libFuzzer ends at SIGINT, and what was done counts."""
        self.stopping = True
        for process in list(self.processes):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)  # -merge=1 has a child that does the work

    def execute(self, command, log):
        """Exit status and CPU seconds of a process and what it waited for."""
        with open(log, "wb") as out:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                process_group=0,  # no Ctrl-C of the terminal; in a session of its own, niceness would have no effect
                env={**os.environ, **ENVIRONMENT},
            )
        self.processes.add(process)
        _, status, usage = os.wait4(process.pid, 0)
        self.processes.discard(process)
        process.returncode = os.waitstatus_to_exitcode(status)
        return process.returncode, usage.ru_utime + usage.ru_stime

    def done(self, target, cpu, executions, outcome):
        with self.lock:
            self.running[target] -= 1
            now = datetime.datetime.now().isoformat(timespec="seconds")
            with open(self.table, "a") as table:
                table.write(f"{now}\t{target}\t{cpu:.1f}\t{executions}\t{outcome}\n")


def is_finding(work, target, artifact, log):
    # Looking for leaks would run it twice.
    status, cpu = work.execute([str(BUILD / f"fuzz_{target}"), *LIMITS, "-detect_leaks=0", str(artifact)], log)
    return status != 0 or cpu > SLOW


def run_slice(work, target, seconds):
    artifacts = work.place("artifacts", target)
    before = set(artifacts.iterdir())
    log = work.place("logs", target) / f"{datetime.datetime.now():%m%d-%H%M%S}-{threading.get_ident() % 1000}.log"
    command = [
        str(BUILD / f"fuzz_{target}"),
        *LIMITS,
        f"-max_total_time={seconds}",
        f"-max_len={LARGEST.get(target, 4096)}",
        "-print_final_stats=1",
        f"-artifact_prefix={artifacts}/",
    ]
    dictionary = HERE / f"{target}.dict"
    if dictionary.is_file():
        command.append(f"-dict={dictionary}")
    committed = BUILD / "corpus" / OF_TARGET.get(target, target)  # unpacked by CMake
    corpus = work.place("corpus", target)
    # The first slice puts what the committed corpus adds into FOLDER's.
    sources = (HERE / "found" / target, *([] if target in work.cpu() else [committed]))
    seeds = [str(path) for path in sources if path.is_dir()]
    status, cpu = work.execute([*command, str(corpus), *seeds], log)
    text = log.read_text(errors="replace")
    counted = EXECUTED.findall(text) or ["0"]
    for artifact in set(artifacts.iterdir()) - before:
        if artifact.name.startswith(("slow-unit-", "timeout-")) and not is_finding(
            work, target, artifact, log.with_suffix(".again")
        ):
            artifact.unlink(missing_ok=True)  # the other job sees it too
    new = sorted(path.name for path in set(artifacts.iterdir()) - before)
    return cpu, int(counted[-1]), ",".join(new) or ("ok" if status == 0 else f"status {status}")


def loop(work, targets, cpu_seconds, seconds):
    while target := work.next(targets, cpu_seconds):
        try:
            result = run_slice(work, target, seconds)
        except OSError as error:  # such as a program that is being linked
            result = (0.0, 0, str(error))
            time.sleep(30)
        work.done(target, *result)
        if result[2] != "ok":
            print(f"{target}: {result[2]}", flush=True)


def minimise(work, target):
    """Replaces a corpus by inputs of it that have the same coverage, small ones first."""
    corpus, kept = work.place("corpus", target), work.place("corpus", f"{target}.kept")
    before = len(list(corpus.iterdir()))
    log = work.place("logs", target) / f"{datetime.datetime.now():%m%d-%H%M%S}-minimise.log"
    command = [
        str(BUILD / f"fuzz_{target}"),
        *LIMITS,
        f"-max_len={LARGEST.get(target, 4096)}",
        "-merge=1",
        f"-artifact_prefix={work.place('artifacts', target)}/",
    ]
    status, cpu = work.execute([*command, str(kept), str(corpus)], log)
    if work.stopping or status != 0:
        shutil.rmtree(kept)
        print(f"{target}: not minimised: {'stopped' if work.stopping else log}", flush=True)
        return False
    old = corpus.with_name(f"{target}.old")
    corpus.rename(old)
    kept.rename(corpus)
    shutil.rmtree(old)
    print(f"{target}: {before} inputs, {len(list(corpus.iterdir()))} kept, {cpu:.0f} CPU seconds", flush=True)
    return True


def build():
    subprocess.run(["cmake", "--preset", "fuzz"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    programs = [f"fuzz_{target}" for target in TARGETS]
    subprocess.run(["cmake", "--build", "--preset", "fuzz", "--target", *programs], cwd=ROOT, check=True)


def make_seeds(folder):
    """Seeds of TFLite files are made by the release program."""
    subprocess.run(["cmake", "--preset", "release"], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["cmake", "--build", "--preset", "release"], cwd=ROOT, check=True)
    subprocess.run([sys.executable, "-m", "tests.fuzz.make_seeds", str(folder)], cwd=ROOT, check=True)


def summary(work):
    print(f"{'target':15} {'CPU hours':>9} {'executions':>12} {'corpus':>7} {'findings':>8}")
    executions, cpu = collections.Counter(), work.cpu()
    for _, target, _, count, *_ in work.rows():
        executions[target] += int(count)
    for target in TARGETS:
        corpus, artifacts = (len(list(work.place(kind, target).iterdir())) for kind in ("corpus", "artifacts"))
        print(f"{target:15} {cpu[target] / 3600:9.2f} {executions[target]:12,} {corpus:7} {artifacts:8}")
    print(f"{'total':15} {sum(cpu.values()) / 3600:9.2f} {sum(executions.values()):12,}")


def main():
    parser = argparse.ArgumentParser(description="Fuzz at idle priority and keep count.")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cpu-hours", type=float, default=4)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--target", nargs="+", choices=TARGETS, default=TARGETS)
    parser.add_argument("--slice", type=int, default=1800, help="seconds of one run of one target")
    parser.add_argument("--no-build", action="store_true", help="start from the committed corpus; make no other seeds")
    parser.add_argument("--summary", action="store_true", help="print the counts and do nothing")
    parser.add_argument("--minimise", action="store_true", help="remove inputs of the corpus that add no coverage")
    args = parser.parse_args()
    work = Work(args.folder.resolve())
    if not args.summary:
        if not args.no_build:
            build()
            if not (work.folder / "corpus").is_dir():
                make_seeds(work.folder / "corpus")
        os.nice(19)
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, work.stop)
        if args.minimise:
            return not all(minimise(work, target) for target in args.target)
        threads = [
            threading.Thread(target=loop, args=(work, args.target, args.cpu_hours * 3600, args.slice))
            for _ in range(args.jobs)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    summary(work)
    return any(any(work.place("artifacts", target).iterdir()) for target in TARGETS)


if __name__ == "__main__":
    sys.exit(main())
