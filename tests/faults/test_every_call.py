# SPDX-License-Identifier: Apache-2.0
"""Every call that a conversion makes on its files goes wrong once: fails, does half of what it is asked for, is the
last before a SIGKILL, or finds an input changed. Each time there is the old output or the complete new one, at most one
line of error with the right exit status, and no temporary file.
"""

import json
import shutil

import pytest

from tests.faults import fault
from tests.faults.fault import INPUTS, OLD, Bench, all_of

IO, NO_SPACE, MALFORMED = 4, 5, 6
WRITING = ("create", "pwrite", "write", "fallocate", "ftruncate")


# Calls without which it goes on: advice, the closing of what was read, the first of two ways to make an unnamed file,
# mapping, because what is not mapped is read; the closing of a temporary that is deleted.
def may_pass(call):
    return (
        call.name in ("close", "create", "mmap")
        and not call.is_output
        or call.name == "close"
        and call.path.endswith(" (deleted)")
        or call.name == "sync_file_range"
        or call.name == "fstat"
        and call.is_output
    )


@pytest.fixture(scope="module", params=fault.IO)
def plain(request, tmp_path_factory):
    made = Bench(tmp_path_factory.mktemp("faults"), ("--io", request.param))
    assert len(made.calls) > 60, made.calls
    assert any(call.name == "mmap" for call in made.calls) == (request.param == "mmap")
    return made


WAYS = {
    "plain": (),
    "report": ("--report", "r.json", "--max-rss", "16M"),
    "verified": ("--verify-output",),
    "compressed": (),
    "external": ("--external-buffers",),
    "in place": ("--weights", "in-place"),
}


@pytest.fixture(scope="module", params=WAYS)
def bench(request, plain, tmp_path_factory):
    """Other ways of writing too, of which only the calls on what is written are tried: what is read is the same."""
    if request.param == "plain":
        return plain
    made = Bench(
        tmp_path_factory.mktemp("faults"),
        (*plain.options, *WAYS[request.param]),
        "m.tflite.zst" if request.param == "compressed" else "m.tflite",
    )
    made.calls = [call for call in made.calls if ".lowtide-" in call.path or call.name == "rename"]
    assert len(made.calls) > 6, made.calls
    return made


def check(bench, run, call, error):
    """`call` failed with `error`."""
    expected_names = {*INPUTS, bench.output}
    if run.status == 0:
        assert may_pass(call), "it says that nothing was wrong"
        assert run.output == bench.good and not run.stderr
        if "--report" in bench.options:
            json.loads((run.folder / "r.json").read_text())
            expected_names.add("r.json")
    else:
        wanted = NO_SPACE if error == "ENOSPC" and (call.name in WRITING or call.is_output) else IO
        assert run.status == wanted, (run.status, run.stderr)
        assert len(run.stderr.splitlines()) == 1 and run.stderr.startswith("lowtide: "), run.stderr
        # That the report can be written is tried before the work; it is written after the output.
        first = next(other.number for other in bench.calls if other.is_output and "r.json" not in other.path)
        is_of_report = call.name != "fstat" and "r.json" in call.path and call.number > first
        assert run.output == (bench.good if is_of_report else OLD)
    assert run.names == expected_names
    shutil.rmtree(run.folder)


@pytest.mark.parametrize("error", ["EIO", "ENOSPC"])
def test_every_call_fails(bench, error, record_property):
    def one(call):
        # On a busy machine the calls may come in another order now and then: the fault is for this one.
        for turn in range(5):
            run = bench.run(f"{error}{call.number}-{turn}", f"{call.number}:{error}")
            if run.calls[call.number - 1].name == call.name:
                break
        assert run.calls[call.number - 1].name == call.name, "the calls are not those of the first run"
        check(bench, run, call, error)

    all_of(one, bench.calls)
    record_property("faults injected and survived", len(bench.calls))


def test_disk_stays_full(bench, record_property):
    writing = [call for call in bench.calls if call.name in WRITING]

    def one(call):
        check(bench, bench.run(f"full{call.number}", f"{call.number}+:ENOSPC"), call, "ENOSPC")

    all_of(one, writing)
    record_property("faults injected and survived", len(writing))


# close is not made again after EINTR, on Linux; the others of these two sets are never interrupted.
@pytest.mark.parametrize(
    "fault, names",
    [
        (
            "EINTR",
            {
                "open",
                "create",
                "openat",
                "openat2",
                "read",
                "pread",
                "write",
                "pwrite",
                "fallocate",
                "ftruncate",
                "close",
            },
        ),
        ("short", {"read", "pread", "write", "pwrite"}),
    ],
)
def test_interrupted_and_short_calls_are_retried(bench, fault, names, record_property):
    calls = [call for call in bench.calls if call.name in names]

    def one(call):
        run = bench.run(f"{fault}{call.number}", f"{call.number}:{fault}")
        assert run.status == 0 and not run.stderr, (run.status, run.stderr)
        assert run.output == bench.good
        shutil.rmtree(run.folder)

    all_of(one, calls)
    record_property("faults injected and survived", len(calls))


def test_killed_before_every_call(bench, record_property):
    """What is left is removed by the next run."""

    def one(call):
        run = bench.run(f"kill{call.number}", f"{call.number}:kill")
        assert run.status == -9
        assert run.output in (OLD, bench.good)
        left = run.names - {*INPUTS, bench.output, "r.json"}
        assert len(left) <= 1, left
        after = bench.again(run.folder)
        assert after.status == 0 and after.output == bench.good
        assert after.names <= {*INPUTS, bench.output, "r.json"}
        shutil.rmtree(run.folder)

    all_of(one, bench.calls)
    record_property("kills survived", len(bench.calls))


@pytest.mark.parametrize("target", INPUTS)
@pytest.mark.parametrize("change", ["truncate", "touch", "append", "replace"])
def test_input_changes(plain, target, change, record_property):
    """At every fourth call, in turn with the other tests."""
    bench = plain
    offset = (INPUTS.index(target) + len(change)) % 4
    calls = bench.calls[offset::4]
    # Its size and time are noted at the second fstat after it was opened. The model is opened twice: a look at its first
    # bytes tells its format.
    looks = [call.number for call in bench.calls if call.name == "fstat" and call.path.endswith(target)]
    opened = looks[3 if target == "m.onnx" else 1]
    read_last = max(
        call.number for call in bench.calls if call.path.endswith(target) and call.name in ("pread", "fstat", "mmap")
    )

    def one(call):
        name = f"{change}{target}{call.number}"
        folder = bench.root / name
        shutil.copytree(bench.model, folder)
        (folder / bench.output).write_bytes(OLD)
        shutil.copy2(folder / target, folder / (target + ".other"))
        run = bench.again(folder, f"{call.number}:{change}", target)
        if run.status == 0:
            assert run.output == bench.good
            # A file that was replaced is still read by its descriptor.
            assert call.number <= opened or call.number > read_last or change == "replace", "the change was not seen"
        else:
            assert run.status == IO or (run.status == MALFORMED and call.number <= opened), (run.status, run.stderr)
            assert len(run.stderr.splitlines()) == 1 and target in run.stderr, run.stderr
            assert run.output == OLD
        assert run.names <= {*INPUTS, bench.output, "r.json", target + ".other"}
        shutil.rmtree(run.folder)

    all_of(one, calls)
    record_property("faults injected and survived", len(calls))


@pytest.mark.parametrize("target", INPUTS)
def test_mapped_pages_disappear(plain, target, record_property):
    """The file is cut behind a call that mapped a part of it: what comes next is SIGBUS."""
    bench = plain
    calls = [call for call in bench.calls if call.name == "mmap" and call.path.endswith(target)]
    assert bool(calls) == ("mmap" in bench.options and not target.endswith(".zst"))

    def one(call):
        name = f"shrink{target}{call.number}"
        run = bench.run(name, f"{call.number}:shrink", target)
        assert run.status == IO, (run.status, run.stderr)
        assert len(run.stderr.splitlines()) == 1 and target in run.stderr, run.stderr
        assert run.output == OLD and run.names <= {*INPUTS, bench.output}
        shutil.rmtree(run.folder)

    all_of(one, calls)
    record_property("faults injected and survived", len(calls))


@pytest.mark.parametrize("file", ["m.onnx", "m.tflite"])
def test_inspected_file_shrinks(file, tmp_path, record_property):
    bench = Bench(tmp_path)
    (bench.model / "listed.tflite").write_bytes(bench.good)
    listed = {"m.onnx": "m.onnx", "m.tflite": "listed.tflite"}[file]
    calls = bench.run("count", command=["inspect", listed]).calls
    assert calls

    def one(call):
        run = bench.run(f"{call.number}", f"{call.number}:truncate", listed, command=["inspect", listed])
        assert run.status in (
            (IO, MALFORMED) if any(c.name in ("pread", "mmap") for c in calls[call.number - 1 :]) else (0, IO)
        ), (run.status, run.stderr)
        assert len(run.stderr.splitlines()) == (run.status != 0)

    all_of(one, calls)
    record_property("faults injected and survived", len(calls))
