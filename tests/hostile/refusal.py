# SPDX-License-Identifier: Apache-2.0
"""What the program must do with a broken file: print one line that names the file and what is wrong, exit with the status of
that kind of error (docs/errors.md), write and leave no file, and neither crash nor hang nor use much memory."""

import functools

from tests.support import converter

STATUS = {
    "usage": 2,
    "not-found": 3,
    "io": 4,
    "no-space": 5,
    "malformed": 6,
    "unsafe-path": 7,
    "unsupported": 8,
    "budget": 9,
}
CPU_SECONDS, SANITIZED_CPU_SECONDS = 2, 20  # none takes more than a fifth of it
ADDRESS_SPACE = 2**30


@functools.cache
def is_sanitized():
    return b"__asan_init" in converter.program().read_bytes()


def run(command):
    limits = (
        {"cpu_seconds": SANITIZED_CPU_SECONDS}
        if is_sanitized()
        else {"cpu_seconds": CPU_SECONDS, "address_space": ADDRESS_SPACE}
    )
    return converter.run(*command, errors="surrogateescape", **limits)


def _refused(done, path, kind, words):
    lines = done.stderr.splitlines()
    # Behind a refused node, nodes that could not be judged are named in lines of their own.
    behind = lines[1:] if done.returncode == STATUS["unsupported"] else []
    assert len(lines) - len(behind) == 1, f"not one line (status {done.returncode}): {done.stderr[:2000]!r}"
    if behind:
        assert "could not be judged" in behind[0] and all(text.startswith("    ") for text in behind[1:]), behind
    line = lines[0]
    kinds = (kind,) if isinstance(kind, str) else kind
    assert any(done.returncode == STATUS[k] and line.endswith(f"[{k}]") for k in kinds), (
        f"status {done.returncode}, {kind} is expected: {line}"
    )
    assert line.isprintable(), ascii(line)
    for word in (path.name, *words):
        assert word in line, f"no {word!r} in: {line}"
    assert len(line) < 2000, f"a line of {len(line)} letters"
    print(line)


def refuse(path, kind, words=(), options=()):
    """`convert` refuses it."""
    output = path.parent / "out"
    output.mkdir(exist_ok=True)
    done = run(["convert", path, "-o", output / "m.tflite", *options])
    _refused(done, path, kind, words)
    assert not done.stdout and not list(output.iterdir())


def refuse_to_raise(path, kind, words=()):
    """`convert` refuses this TFLite file."""
    output = path.parent / "out"
    output.mkdir(exist_ok=True)
    done = run(["convert", path, "-o", output / "m.onnx"])
    _refused(done, path, kind, words)
    assert not done.stdout and not list(output.iterdir())


def refuse_model(model, folder, kind, words=()):
    """`convert` refuses this ModelProto, written as it is."""
    path = folder / "broken.onnx"
    path.write_bytes(model.SerializeToString())
    refuse(path, kind, words)


def refuse_to_list(path, kind, words=()):
    """`inspect` refuses it."""
    done = run(["inspect", path])
    _refused(done, path, kind, words)
    assert not done.stdout


class BrokenFiles:
    """A table of broken files: functions that damage a valid model, each with the error that it must give."""

    def __init__(self):
        self.rows = []

    def __call__(self, kind, *words):
        def register(damage):
            self.rows.append((damage, kind, words))
            return damage

        return register

    def ids(self):
        return [damage.__name__ for damage, _, _ in self.rows]
