"""One pass over a file of a log, for the messages that it counts and does not have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from analytics.file_window import FileWindow, looked_through
from analytics.inputs import LogFile
from analytics.named_actors import NamedActors, connection_of
from native.columns import rows_of
from native.log_columns import counts
from native.log_tables import COUNTS
from storage.history.name_records import ActorRow
from storage.record import Kind


class CountedAs(NamedTuple):
    """What is summed up."""

    what: int  # native/log_columns.py, UNLOGGED
    exchange: str
    client: ActorRow | None  # the connection that published; None: no client did, or the file does not name it


@dataclass(slots=True)
class CountedSum:
    messages: int = 0
    body_bytes: int = 0
    peak: float = 0.0  # messages a second
    first: int | None = None  # µs: when the first record was written that counts some
    last: int | None = None
    routing_key: str = ""  # of the last of them

    def add(self, other: CountedSum) -> None:
        """`other` was counted later."""
        self.messages += other.messages
        self.body_bytes += other.body_bytes
        self.peak = max(self.peak, other.peak)
        self.first = other.first if self.first is None else self.first
        self.last = self.last if other.last is None else other.last
        self.routing_key = other.routing_key


@dataclass(slots=True)
class FileCounts(FileWindow):
    """What one file has. Plain values: it travels between processes."""

    is_counted: bool = False  # whether its node counted at all when it wrote this
    sums: dict[CountedAs, CountedSum] = field(default_factory=dict)


def look_for_counts(file: LogFile, *, tail: bool) -> FileCounts:
    seen = FileCounts(file)
    actors = NamedActors()
    for piece, _, _ in looked_through(seen, tail=tail):
        seen.is_counted |= Kind.COUNTS in piece.kinds()
        actors.read(piece)
        for row in rows_of(COUNTS, counts(piece.buffer, piece.base, piece.records)):
            client = connection_of(actors.owners_at(row["offset"], row["actor"]))
            key = CountedAs(row["what"], row["exchange"].decode("utf-8", "surrogateescape"), client)
            seen.sums.setdefault(key, CountedSum()).add(_sum_of(row))
    return seen


def _sum_of(row: dict[str, Any]) -> CountedSum:
    messages, key = row["messages"], row["routing_key"].decode("utf-8", "surrogateescape")
    peak = messages * 1_000 / max(row["span_ms"], 1_000)
    return CountedSum(messages, row["body_bytes"], peak, row["time"], row["time"], key)
