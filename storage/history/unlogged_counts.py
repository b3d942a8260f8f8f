"""Counts what comes to nothing that is in the log, and writes that to the log once a second (count_records.py)."""

from __future__ import annotations

from collections.abc import Callable

from storage.history.count_records import CountRow, encode_counts
from storage.history.file_names import NO_WRITER, FileNames, NamedActor, NamingLog
from storage.record import Kind

EVERY_MS = 1_000
ROWS_MAX = 1_000  # that are gathered; clients choose how many publish to how many exchanges

_Key = tuple[NamedActor | None, str, int]  # who, exchange, what


class _Sum:
    __slots__ = ("body_bytes", "messages", "routing_key")

    def __init__(self) -> None:
        self.messages = self.body_bytes = 0
        self.routing_key = ""


class UnloggedCounts:
    """See the module. Fulfils broker/unlogged.py, UnloggedCounter."""

    def __init__(self, log: NamingLog, names: FileNames, wall_ms: Callable[[], int]) -> None:
        self._log = log
        self._names = names
        self._wall_ms = wall_ms
        self._sums: dict[_Key, _Sum] = {}
        self._since_ms = wall_ms()
        self._told_in = 0  # the last file with a record of ours

    def count(
        self, what: int, actor: NamedActor | None, exchange: str, routing_key: str, messages: int, body_bytes: int
    ) -> None:
        key = actor, exchange, what
        found = self._sums.get(key)
        if found is None:
            if len(self._sums) >= ROWS_MAX:
                self.tell()
            if not self._sums:
                self._since_ms = self._wall_ms()
            found = self._sums[key] = _Sum()
        found.messages += messages
        found.body_bytes += body_bytes
        found.routing_key = routing_key

    def tick(self) -> None:
        """Tell what was counted if it is time, and in each file that somebody counts."""
        is_due = not 0 <= self._wall_ms() - self._since_ms < EVERY_MS  # the clock may have been put back
        if (self._sums and is_due) or self._told_in != self._log.gathering_file:
            self.tell()

    def tell(self) -> None:
        sums, self._sums = self._sums, {}
        if self._log.failed is not None:
            return
        rows = [
            CountRow(
                0 if actor is None else self._names.number_of(actor),
                what, one.messages, one.body_bytes, exchange, one.routing_key,
            )
            for (actor, exchange, what), one in sums.items()
        ]  # fmt: skip
        span_ms = max(0, self._wall_ms() - self._since_ms) if rows else 0
        payload = encode_counts(min(span_ms, (1 << 32) - 1), rows)
        self._told_in = self._log.append_lazy(Kind.COUNTS, NO_WRITER, 0, [payload]).file_number
