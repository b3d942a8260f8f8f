"""A run as a queue keeps it: where its messages stand in the queue, and where their bytes are.

    alpha   content in memory                                    `content` is set
    beta    content in the log, position in memory               `content` is None, `location` says where to read it

A run is stored once and never changes place; parts of it may be ready, out, or gone. `Part` is consecutive messages of one
run that are ready.
"""

from __future__ import annotations

from native.content import skip
from storage.wal import Location


class StoredRun:
    """Messages first .. first + count of one queue."""

    __slots__ = (
        "body_bytes", "content", "content_at", "count", "exchange", "expires_at", "first", "location", "persistent",
        "priority", "routing_key",
    )  # fmt: skip

    def __init__(
        self,
        first: int,
        count: int,
        exchange: str,
        routing_key: str,
        content: bytes | None,
        body_bytes: int,
        persistent: bool,
        priority: int,
        expires_at: int | None,
    ) -> None:
        self.first = first
        self.count = count
        self.exchange = exchange
        self.routing_key = routing_key
        self.content = content
        self.body_bytes = body_bytes  # of all messages of the run
        self.persistent = persistent
        self.priority = priority
        self.expires_at = expires_at
        self.location: Location | None = None  # of the log record's payload
        self.content_at = 0  # where in that payload the content begins

    @property
    def end(self) -> int:
        return self.first + self.count


class Part:
    """Messages of a run that are ready: `sequence` and the `count` from there on. Their bytes begin at `position`."""

    __slots__ = ("body_bytes", "count", "position", "redelivered", "run", "sequence")

    def __init__(
        self, run: StoredRun, sequence: int, count: int, position: int | None, body_bytes: int, redelivered: bool
    ) -> None:
        assert run.first <= sequence and sequence + count <= run.end, (
            f"messages {sequence} to {sequence + count} do not lie in the run {run.first} to {run.end}"
        )
        self.run = run
        self.sequence = sequence
        self.count = count
        self.position = position  # None until somebody has to know
        self.body_bytes = body_bytes
        self.redelivered = redelivered

    def find_position(self, content: bytes) -> int:
        if self.position is None:
            self.position = skip(content, 0, self.sequence - self.run.first)
        return self.position
