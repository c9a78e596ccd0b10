# SPDX-License-Identifier: Apache-2.0
"""The command `lowtide` of the Python package.

Commands that need a runtime are Python; everything else is the program, which takes the place of this process.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from collections.abc import Sequence
from typing import Callable, NoReturn

from .errors import Budget, Error, Internal, Interrupted
from .program import examine, find_program


def _run(argv: Sequence[str]) -> int:
    from .requirements import need_numpy

    need_numpy()
    from .run_command import main as run_main

    return run_main(argv)


def _verify(argv: Sequence[str]) -> int:
    from .requirements import need_numpy

    need_numpy()
    from .verify_command import main as verify_main

    return verify_main(argv)


def _calibrate(argv: Sequence[str]) -> int:
    from .requirements import need_numpy

    need_numpy()
    from .calibrate_command import main as calibrate_main

    return calibrate_main(argv)


def _partition(argv: Sequence[str]) -> int:
    """The program's command; with --probe the types of values are found here first."""
    if not any(text == "--probe" or text.startswith("--probe=") for text in argv):
        _become_program(["partition", *argv])
    from .requirements import need_numpy

    need_numpy()
    from .probe import with_declarations

    _become_program(["partition", *with_declarations(argv)])


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


def _fail(error: Error) -> int:
    if runtime_log := sys.modules.get("lowtide.runtime_log"):  # most commands need no runtime
        runtime_log.restore()
    sys.stderr.write(f"lowtide: {error} [{error.kind}]\n")
    if runtime_log:
        runtime_log.end_of_output()  # the line is the last one, whatever the runtimes say when they are unloaded
    return error.status if error.status is not None else 11


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the exit status of docs/errors.md."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments and arguments[0] in COMMANDS:
            status = COMMANDS[arguments[0]](arguments[1:])
            sys.stdout.flush()
            return status
        _become_program(arguments)
    except Error as error:
        return _fail(error)
    except KeyboardInterrupt:
        return _fail(Interrupted("interrupted"))
    except BrokenPipeError:  # `lowtide run ... | head`: end as others do then
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGPIPE)
        return 1
    except MemoryError as error:
        return _fail(Budget(f"there is not enough memory: {_line(error)}; give smaller inputs or shapes"))
    except Exception as error:  # a bug: one line as for every error, and all of it with --verbose
        logging.getLogger("lowtide").debug("unexpected", exc_info=True)
        return _fail(Internal(f"{type(error).__name__}: {_line(error)}; this is a bug in Lowtide: please report it"))


if __name__ == "__main__":
    sys.exit(main())
