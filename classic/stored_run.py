"""A run as a queue keeps it: where its messages stand in the queue, and where their bytes are.

    alpha   content and position in memory               `content` is set
    beta    content on disk, position in memory          `content` is None
    gamma   content on disk, position in both            and `indexed`
    delta   both on disk only                            there is no StoredRun

A run is stored once and never changes place. Which of its messages are ready, and which are out, is not said here but by
the sets of sequences of its queue; so a run that was paged out and read back is as good as the first one.
"""

from __future__ import annotations

from typing import NamedTuple

from native.content import skip
from storage.wal import Location

LEVEL_SHIFT = 48  # sequences of priority p begin at p << LEVEL_SHIFT, so one number says both


class InBody(NamedTuple):
    """Where a content lies in the body file beside the index segment that its run belongs to."""

    offset: int
    size: int


class InStore(NamedTuple):
    """The id of a content in the node's shared store: where in the log it was first written, which nothing else shares.
    File 0 is the transient store, whose contents were never in the log."""

    file_number: int
    offset: int

    @property
    def transient(self) -> bool:
        return self.file_number == 0


Where = Location | InBody | InStore


class StoredRun:
    """Messages first .. first + count of one queue."""

    __slots__ = (
        "body_bytes", "content", "content_at", "content_first", "count", "cursor", "cursor_at", "exchange", "expires_at",
        "first", "indexed", "persistent", "priority", "ready", "routing_key", "where",
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
        where: Where | None = None,
        content_at: int = 0,
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
        self.where = where  # None: nowhere but in memory
        self.content_at = content_at  # where in the log record's payload the content begins
        self.content_first = first  # the message that the content begins with: what died first may have been left out
        self.indexed = False  # an index segment knows it
        self.ready = 0  # how many of its messages are ready, kept by the queue that holds it
        self.cursor = first  # a message whose place in the content is known,
        self.cursor_at = 0  # and the place

    @property
    def end(self) -> int:
        return self.first + self.count

    def bytes_of(self, first: int, end: int) -> int:
        """Body bytes of a part of the run. Where sizes differ only the sum over all parts is exact; that is enough for
        figures, and limits in bytes make every run one message."""
        return self.body_bytes * (end - self.first) // self.count - self.body_bytes * (first - self.first) // self.count

    def loaded(self, content: bytes, content_first: int) -> None:
        """The content is in memory again."""
        self.content = content
        self.content_first = self.cursor = content_first
        self.cursor_at = 0

    def position_of(self, sequence: int, content: bytes) -> int:
        """Where in its content a message begins. Going on from the message asked for last costs least."""
        if self.cursor == sequence:
            return self.cursor_at
        if self.cursor < sequence:
            at = skip(content, self.cursor_at, sequence - self.cursor)
        else:
            at = skip(content, 0, sequence - self.content_first)
        self.cursor, self.cursor_at = sequence, at
        return at
