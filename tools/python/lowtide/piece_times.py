# SPDX-License-Identifier: Apache-2.0
"""What was done with the pieces of a model, and how long it took."""

from __future__ import annotations

import collections
import dataclasses
import time
from typing import Any

# The trace has the newest ones only: a process may run a model for months.
_MOST_EVENTS = 100_000


@dataclasses.dataclass
class PieceTotals:
    """Of one piece: seconds by what was done with it, its runs, and the bytes that the last one made."""

    load: float = 0.0
    run: float = 0.0
    check: float = 0.0
    runs: int = 0
    made_bytes: int = 0


class PieceTimes:
    """Totals for each piece, and the newest events. Several threads may note different pieces."""

    def __init__(self, pieces: int) -> None:
        self._start = time.perf_counter()
        self.totals = [PieceTotals() for _ in range(pieces)]
        # what, piece, begin on the clock of perf_counter, seconds, bytes: plain tuples, because each run makes two
        self._events: collections.deque[tuple[str, int, float, float, int]] = collections.deque(maxlen=_MOST_EVENTS)

    def loaded(self, piece: int, begun: float, weight_bytes: int) -> None:
        """`begun`: time.perf_counter() before."""
        self.totals[piece].load += self._note("load", piece, begun, weight_bytes)

    def ran(self, piece: int, begun: float, made_bytes: int) -> None:
        totals = self.totals[piece]
        totals.run += self._note("run", piece, begun, made_bytes)
        totals.runs += 1
        totals.made_bytes = made_bytes

    def checked(self, piece: int, begun: float, made_bytes: int) -> None:
        self.totals[piece].check += self._note("check", piece, begun, made_bytes)

    def _note(self, what: str, piece: int, begun: float, count: int) -> float:
        seconds = time.perf_counter() - begun
        self._events.append((what, piece, begun, seconds, count))
        return seconds

    def trace_events(self) -> list[dict[str, Any]]:
        """For https://ui.perfetto.dev: each piece is a thread."""
        return [
            {
                "ph": "X",
                "name": what,
                "pid": 1,
                "tid": piece,
                "ts": (begin - self._start) * 1e6,
                "dur": seconds * 1e6,
                "args": {"bytes": count},
            }
            for what, piece, begin, seconds, count in list(self._events)
        ]
