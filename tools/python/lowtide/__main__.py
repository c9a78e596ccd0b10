# SPDX-License-Identifier: Apache-2.0
"""The command `lowtide` of the Python package.

Commands that need a runtime are Python; everything else is the program, which takes the place of this process.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Callable, NoReturn

from .errors import Budget, Error, Internal, Interrupted
from .held_signals import held_signals
from .program import examine, find_program


def _imported(module: str) -> ModuleType:
    """A module that needs numpy. Signals wait: while a module of C is loaded, what a handler raises may be lost."""
    with held_signals():
        from .requirements import need_numpy

        need_numpy()
        return importlib.import_module(module, __package__)


def _run(argv: Sequence[str]) -> int:
    return int(_imported(".run_command").main(argv))


def _verify(argv: Sequence[str]) -> int:
    return int(_imported(".verify_command").main(argv))


def _calibrate(argv: Sequence[str]) -> int:
    return int(_imported(".calibrate_command").main(argv))


def _partition(argv: Sequence[str]) -> int:
    """The program's command; with --probe the types of values are found here first."""
    probes = any(text == "--probe" or text.startswith("--probe=") for text in argv)
    if not probes or "-h" in argv or "--help" in argv:
        _become_program(["partition", *argv])
    _become_program(["partition", *_imported(".probe").with_declarations(argv)])


# Command -> what runs it, and its line in the program's --help.
COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "calibrate": _calibrate,
    "partition": _partition,
    "run": _run,
    "verify": _verify,
}


def _doctor(argv: Sequence[str]) -> int:
    from .doctor_command import main as doctor_main

    return doctor_main(argv)


COMMANDS["doctor"] = _doctor


def _become_program(argv: Sequence[str]) -> NoReturn:
    path = str(examine(find_program()).path)
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(path, ["lowtide", *argv])


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:500] or type(error).__name__


def _wants_json(argv: Sequence[str]) -> bool:
    """Whether errors are to be JSON. Only the program's commands and partition have that option; some of their errors are found here, such as a missing program."""
    is_asked = "--errors=json" in argv or ("--errors", "json") in zip(argv, argv[1:])
    return is_asked and (argv[0] == "partition" or argv[0] not in COMMANDS)


def _fail(error: Error, as_json: bool) -> int:
    status = error.status if error.status is not None else 11
    line = f"lowtide: {error} [{error.kind}]"
    if as_json:
        from .events import error_line

        line = error_line(error, status)
    if runtime_log := sys.modules.get("lowtide.runtime_log"):  # most commands need no runtime
        runtime_log.restore()
    sys.stderr.write(f"{line}\n")
    if runtime_log:
        runtime_log.end_of_output()  # the line is the last one, whatever the runtimes say when they are unloaded
    return status


@contextlib.contextmanager
def _signals_as_ctrl_c() -> Iterator[None]:
    """SIGTERM and SIGHUP interrupt as Ctrl-C does, so that temporary folders go; a second one ends the process at once.

    KeyboardInterrupt it is, because nothing that handles errors takes it for one. A signal that the caller has ignored
    or handled, as nohup does, is left alone.
    """

    def interrupt(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ours = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) == signal.SIG_DFL]
    try:
        for number in ours:
            signal.signal(number, interrupt)
        yield
    finally:
        for number in ours:
            signal.signal(number, signal.SIG_DFL)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status of docs/errors.md."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        with _signals_as_ctrl_c():
            if arguments and arguments[0] in COMMANDS:
                status = COMMANDS[arguments[0]](arguments[1:])
                sys.stdout.flush()
                return status
            _become_program(arguments)
    except BrokenPipeError:  # `lowtide run ... | head`: end as others do then
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
        return 1
    except (Exception, KeyboardInterrupt) as error:
        return _fail(_as_error(error), _wants_json(arguments))


def _as_error(error: BaseException) -> Error:
    if isinstance(error, Error):
        return error
    if isinstance(error, KeyboardInterrupt):
        return Interrupted("interrupted")
    if isinstance(error, MemoryError):
        return Budget(f"there is not enough memory: {_line(error)}; give smaller inputs or shapes")
    # A bug: one line as for every error, and all of it with --verbose.
    logging.getLogger("lowtide").debug("unexpected", exc_info=True)
    return Internal(f"{type(error).__name__}: {_line(error)}; this is a bug in Lowtide: please report it")


if __name__ == "__main__":
    sys.exit(main())
