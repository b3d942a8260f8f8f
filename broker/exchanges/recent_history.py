"""What x-recent-history exchanges remember: the last messages that were published to each, for what is bound to it later.

It is kept in the memory of the node that took the publishes, and a new binding is given what the node remembers on which it was
made. An exchange that is deleted, or whose node stops, is forgotten.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from weakref import WeakKeyDictionary

from broker.exchanges.bindings import RecentHistoryBindings
from broker.messages.message import Run
from broker.messages.run_parts import one_by_one, part
from native.content import one, skip

HISTORY_BYTES_MAX = 64 << 20  # of one exchange, whatever its length: not four of the largest messages
RUN_BYTES = 256  # of memory for a run of one message, beside its content and its routing key


class RecentHistory:
    """Of one exchange: the newest runs, the first one cut."""

    def __init__(self) -> None:
        self.runs: deque[Run] = deque()
        self._count = 0
        self._bytes = 0

    def add(self, run: Run, length: int) -> None:
        """`length` messages are remembered."""
        run = _without_first(run, max(0, run.count - length))
        self.runs.append(run)
        self._count += run.count
        self._bytes += _bytes_of(run)
        while self._count > length or self._bytes > HISTORY_BYTES_MAX:
            first = self.runs.popleft()
            self._count -= first.count
            self._bytes -= _bytes_of(first)
            missing = length - self._count
            if missing > 0 and self._bytes + _bytes_of(first) <= HISTORY_BYTES_MAX:
                first = _without_first(first, first.count - missing)
                self.runs.appendleft(first)
                self._count += first.count
                self._bytes += _bytes_of(first)


def _bytes_of(run: Run) -> int:
    return RUN_BYTES + len(run.routing_key) + len(run.content)


def _without_first(run: Run, count: int) -> Run:
    return part(run, skip(run.content, 0, count), len(run.content), run.count - count)


def each_of(run: Run) -> Iterator[tuple[Run, bytes]]:
    """Its messages one by one, with their properties."""
    for message, _ in one_by_one(run, None, 1):
        yield message, one(message.content, 0)[0]


class Histories:
    """Of all exchanges, as long as they are declared."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[RecentHistoryBindings, RecentHistory] = WeakKeyDictionary()

    def add(self, exchange: RecentHistoryBindings, run: Run) -> None:
        history = self._of.get(exchange)
        if history is None:
            history = self._of[exchange] = RecentHistory()
        history.add(run, exchange.length)

    def of(self, exchange: object) -> Iterable[Run]:
        """The oldest first; nothing for an exchange that remembers nothing."""
        history = self._of.get(exchange) if isinstance(exchange, RecentHistoryBindings) else None
        return list(history.runs) if history is not None else ()
