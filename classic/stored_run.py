"""A run as a queue keeps it: where its messages stand in the queue, and where their bytes are.

    alpha   content and position in memory               `content` is set
    beta    content on disk, position in memory          `content` is None
    gamma   content on disk, position in both            and `indexed`
    delta   both on disk only                            there is no StoredRun

A run is stored once and never changes place. Which of its messages are ready, and which are out, is not said here but by
the sets of sequences of its queue; so a run that was paged out and read back is as good as the first one.
"""

from __future__ import annotations

from array import array
from itertools import accumulate
from struct import Struct
from typing import NamedTuple

from native.content import count as count_messages
from native.content import messages, skip
from storage.wal.log_core import Location

LEVEL_SHIFT = 48  # sequences of priority p begin at p << LEVEL_SHIFT, so one number says both


_LENGTHS = Struct("<II")  # of a message's properties and body, as native/content.py has them


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
        "first", "indexed", "persistent", "priority", "ready", "routing_key", "sizes", "where",
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
        self.content_first = first  # the message that the content begins with: what had died at either end is left out
        self.indexed = False  # an index segment knows it
        self.ready = 0  # how many of its messages are ready, kept by the queue that holds it
        self.sizes: array[int] | None = None  # body bytes before each message of the content; None: not asked for yet
        self.cursor = first  # a message whose place in the content is known,
        self.cursor_at = 0  # and the place

    @property
    def end(self) -> int:
        return self.first + self.count

    def bytes_of(self, first: int, end: int) -> int:
        """Body bytes of a part of the run: exact where sizes are known (`learn_sizes`) or do not differ. Otherwise only the
        sum over all parts is."""
        if end - first == self.count:
            return self.body_bytes
        if self.sizes:
            return self.sizes[end - self.content_first] - self.sizes[first - self.content_first]
        return self.body_bytes * (end - self.first) // self.count - self.body_bytes * (first - self.first) // self.count

    def learn_sizes(self, content: bytes) -> None:
        """Find out the size of each body, if they differ. To be done once."""
        self.sizes = array("Q")
        props_len, body_len = _LENGTHS.unpack_from(content)
        if self.count > 1 and (
            (_LENGTHS.size + props_len + body_len) * self.count != len(content)
            or body_len * self.count != self.body_bytes
        ):
            bodies = (len(body) for _, body in messages(content, 0, count_messages(content)))
            self.sizes.extend(accumulate(bodies, initial=0))

    def moved(self, where: Where, content_first: int) -> None:
        """The content lies somewhere else now, without the messages at its begin that were done with."""
        if self.sizes and content_first != self.content_first:
            del self.sizes[: content_first - self.content_first]
        self.where, self.content_first, self.indexed = where, content_first, True

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


def is_too_old(run: StoredRun | None, now: int) -> bool:
    """Whether it had to be delivered before now."""
    return run is not None and run.expires_at is not None and run.expires_at < now
