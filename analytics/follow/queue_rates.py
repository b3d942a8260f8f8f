"""Of several nodes' logs what came to each queue, and left it, since it was asked last."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import NamedTuple

from analytics.follow.log_tail import LogTail, Moves
from analytics.inputs import LogFile
from analytics.queue_events import QUORUM


class QueueRate(NamedTuple):
    """In a second, on average; `name` with the virtual host."""

    name: str
    published: float
    bytes: float
    acked: float
    returned: float
    gone: float


RATE_COLUMNS = [("name", "string"), *((name, "double") for name in QueueRate._fields[1:])]


class QueueRates:
    """See the module. The first look finds where the logs end, and no rates."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._tails: dict[str, LogTail] = {}  # by node
        self._told: dict[int, Moves] = {}  # by queue, in all
        self._looked_at = 0.0

    @property
    def missed(self) -> int:
        """Files of logs that were deleted unread."""
        return sum(tail.missed for tail in self._tails.values())

    @property
    def damaged(self) -> int:
        """Places of logs that could not be read."""
        return sum(tail.damaged for tail in self._tails.values())

    def look(self, files: Sequence[LogFile]) -> list[QueueRate]:
        """Those of queues in which something happened; where most was published comes first."""
        now, before = self._clock(), self._looked_at
        self._looked_at = now
        for node, some in groupby(files, attrgetter("node")):
            self._tails.setdefault(node, LogTail()).look(list(some))
        seconds = max(now - before, 1e-3)
        found = [
            self._rate(queue, seconds) for queue in {queue for tail in self._tails.values() for queue in tail.total}
        ]
        return sorted((rate for rate in found if any(rate[1:])), key=lambda rate: (-rate.published, rate.name))

    def _rate(self, queue: int, seconds: float) -> QueueRate:
        named = next((tail.names[queue] for tail in self._tails.values() if queue in tail.names), None)
        each = [tail.total[queue] for tail in self._tails.values() if queue in tail.total]
        # Members of a quorum queue have the same entries, some earlier than others; a classic queue is on one node.
        total = _furthest(each) if named is not None and named.kind == QUORUM else _sum(each)
        moved = [now - before for now, before in zip(total, self._told.get(queue, Moves()), strict=True)]
        self._told[queue] = total
        return QueueRate(str(queue) if named is None else named.name, *(round(one / seconds, 1) for one in moved))


def _furthest(each: Iterable[Moves]) -> Moves:
    return Moves(*map(max, zip(*each, strict=True)))


def _sum(each: Iterable[Moves]) -> Moves:
    return Moves(*map(sum, zip(*each, strict=True)))
