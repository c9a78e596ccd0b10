# SPDX-License-Identifier: Apache-2.0
"""Signals that wait until a step is complete.

A Python handler, that of Ctrl-C for instance, may raise between any two instructions: also where ``subprocess.Popen`` has
started a child and its caller does not have it yet. Nothing could end that child then, and in a notebook, where Python
goes on, it would run to its end. While a module of C is loaded, such as numpy.random, the exception may be lost.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def held_signals() -> Iterator[None]:
    """Python's signal handlers are called when the block has ended, in the order in which the signals came.

    Python calls handlers in its main thread only, so in others there is nothing to hold. Signals without a handler in
    Python do what they always do.

    Raises
    ------
    BaseException
        What a handler raises, after the block.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handlers: dict[int, Callable[[int, types.FrameType | None], Any]] = {}
    came: list[tuple[int, types.FrameType | None]] = []
    try:
        for number in sorted(map(int, signal.valid_signals()), reverse=True):
            handler = signal.getsignal(number)
            if callable(handler):
                handlers[number] = handler
                signal.signal(number, lambda *signal_and_frame: came.append(signal_and_frame))
        yield
    finally:
        for number, handler in handlers.items():  # SIGINT's comes last: it may raise from here on
            signal.signal(number, handler)
        for number, frame in came:
            handlers[number](number, frame)
