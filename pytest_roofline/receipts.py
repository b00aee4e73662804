"""When the ids of an engine in another process were received: what closes the window of a remote audit.

Its device cannot be drained from here and its passes cannot be seen. What can be is the answer: work whose ids have
come is done. Pure, but for the clock that is handed in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.ledger import Ledger, count_ids

NOT_SEEN = (
    "passes and device of the other process: a remote audit has the closed window, the ids and the limit",
    "whether the work was done: outputs of another process cannot be poisoned, nor its weights be changed",
    "clocks, compilations and device events of the other process",
)
UNRECEIVED = "when the ids came: pass what the engine yields through audit.received(...)"
SEVERAL = "when the ids of several timed stretches came: state the one that counts with audit.window()"


class Receipts:
    """The ids that came, each with its moment."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._times_s: list[float] = []
        self._counts: list[int] = []

    @property
    def total(self) -> int:
        """All ids that came."""
        return sum(self._counts)

    def of(self, ids: Iterable[Any]) -> Iterator[Any]:
        """The same items; each is taken down when it has come. RooflineUsageError for an item that is no ids."""
        for item in ids:
            at_s = self._clock()
            count = count_ids(item)
            if count is None:
                raise RooflineUsageError(
                    f"audit.received was given a {type(item).__name__}; what it takes down are ids: an int, an integer "
                    "array, or lists of them, for each item"
                )
            self._times_s.append(at_s)
            self._counts.append(count)
            yield item

    def close(self, ledger: Ledger) -> Ledger:
        """The ledger whose window ends when as many ids as were claimed have come since its start, or the last one.

        Ids that came later belong to something else (a second run that checks the first): they accuse nobody.
        """
        window, bounds = ledger.window, ledger.bounds
        if not self._times_s:
            return replace(ledger, not_checked=(*NOT_SEEN, UNRECEIVED))
        if window is None or len(bounds) != 1:
            return replace(ledger, not_checked=(*NOT_SEEN, SEVERAL))
        (start_s, stop_s), wanted = bounds[0], math.ceil(ledger.tokens_claimed)
        seen, last_s = 0, stop_s
        for at_s, count in zip(self._times_s, self._counts, strict=True):
            if at_s >= start_s and seen < wanted:
                seen, last_s = seen + count, at_s
        given = ledger.ids_seen
        return replace(
            ledger,
            ids_seen=min(seen, wanted) if given is None else min(given, max(seen, 0)),
            window=replace(window, leftover_s=max(0.0, last_s - stop_s), unforced_s=0.0, is_by_receipt=True),
            not_checked=NOT_SEEN,
        )
