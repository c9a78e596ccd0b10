# SPDX-License-Identifier: Apache-2.0
"""The exceptions: their table, their fields, and what becomes of the program's exit status and text."""

import pickle
import re

import pytest

import lowtide
from lowtide import __main__, errors, events
from lowtide.program import Finished, failure
from tests.support.converter import ROOT


def test_the_kinds_are_the_programs():
    rows = re.findall(r'CodeRow\{Code::\w+, "([a-z-]+)", (\d+)\}', (ROOT / "stream/error.cc").read_text())
    assert {name: int(status) for name, status in rows} == {kind: of.status for kind, of in errors.BY_KIND.items()}
    page = re.findall(r"^\| ([a-z-]+) \| (\d+) \|", (ROOT / "docs/errors.md").read_text(), re.MULTILINE)
    assert sorted(page) == sorted(rows)


def test_every_kind_is_in_the_package():
    for kind in (*errors.BY_KIND.values(), errors.Killed, errors.ProgramMissing, errors.RuntimeMissing):
        assert getattr(lowtide, kind.__name__) is kind and issubclass(kind, lowtide.Error)


def test_fields_survive_pickling():
    node = errors.RefusedNode("n", "Foo", "no kernel", "use Bar")
    error = errors.Unsupported("text", file="m.onnx", node="n", operator="Foo", byte=7, nodes=[node])
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is errors.Unsupported and str(copy) == "text"
    assert (copy.file, copy.node, copy.operator, copy.byte, copy.nodes) == ("m.onnx", "n", "Foo", 7, (node,))


@pytest.mark.parametrize(
    "status, text, kind, message",
    [
        (3, "lowtide: m.onnx: cannot be opened [not-found]\n", errors.NotFound, "m.onnx: cannot be opened"),
        (
            8,
            "lowtide: m: 2 nodes cannot be converted [unsupported]\n  Foo: bar (2 nodes)\n    a\n    b\n",
            errors.Unsupported,
            "m: 2 nodes cannot be converted\n  Foo: bar (2 nodes)\n    a\n    b",
        ),
        (
            12,
            "  tensor 'a' differs\nlowtide: m: it is not equal [different]\n",
            errors.Different,
            "  tensor 'a' differs\nm: it is not equal",
        ),
        (1, "Segmentation", errors.Internal, "the program ended with status 1: Segmentation"),
        (9, "", errors.Budget, "the program ended with status 9"),
    ],
)
def test_text_of_the_program(status, text, kind, message):
    error = failure(Finished(status, "", text))
    assert type(error) is kind and str(error) == message.strip()


@pytest.mark.parametrize(
    "signal, words", [(9, "ended by SIGKILL; the system does that when memory is short"), (11, "ended by SIGSEGV")]
)
def test_a_signal(signal, words):
    error = failure(Finished(-signal, "", ""))
    assert isinstance(error, errors.Killed) and error.signal == signal and words in str(error)


def test_lines_of_json():
    assert events.parse_event(
        b'{"event": "progress", "phase": "pour", "done": 1, "total": 4, "resident": 9, "later": true}'
    ) == events.Progress("pour", 1, 4, 9)
    assert events.parse_event('{"event": "done", "report": {"nodes": 3}}') == events.Done({"nodes": 3})
    assert events.parse_event('{"event": "an event of a later version"}') is None
    for line in ("", "[]", "nonsense", '{"event": "progress"}'):
        with pytest.raises(ValueError):
            events.parse_event(line)


def test_an_error_as_json():
    line = (
        '{"event": "error", "kind": "unsupported", "status": 8, "message": "2 nodes", "file": "m.onnx", "node": "a", '
        '"operator": "Foo", "opset": 17, "nodes": [{"node": "a", "operator": "Foo", "reason": "r", "hint": "h", '
        '"place": "p", "more": 1}]}'
    )
    error = failure(Finished(8, "", line + "\n"))
    assert isinstance(error, errors.Unsupported) and str(error) == "2 nodes"
    assert (error.file, error.node, error.operator, error.opset) == ("m.onnx", "a", "Foo", 17)
    assert error.nodes == (errors.RefusedNode("a", "Foo", "r", "h", "p"),)


@pytest.mark.parametrize(
    ("command", "as_json"),
    [("convert", True), ("partition", True), ("doctor", False), ("run", False), ("verify", False)],
)
def test_errors_found_before_the_program_are_json_too(command, as_json, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("LOWTIDE", str(tmp_path / "none"))
    arguments = [command, "m.onnx", "--errors", "json"]
    assert __main__._wants_json(arguments) == as_json and not __main__._wants_json(arguments[:2])
    assert not __main__._wants_json([])
    if command == "convert":
        assert __main__.main(arguments) != 0
        assert capsys.readouterr().err.startswith('{"')
