"""A snapshot on its way from a leader to a follower, chunk by chunk.

    leader     SnapshotSend     what was sent and acknowledged; the next chunk waits for the node's SnapshotPace
    follower   SnapshotIntake   what has come

Chunks are kept only in order and without gaps. Chunks of one snapshot from one member continue each other, whatever happened
in between; those of another member do not, for its bytes may be other ones even if they mean the same.
"""

from __future__ import annotations

from typing import NamedTuple

from raft.core.messages import MemberId, SnapshotChunk, SnapshotMeta

FIRST_CHUNK_BYTES = 4_096  # the state of a short queue, mostly


class SnapshotPace:
    """Rate limit for all snapshots that a node sends: they share the loop, the disk and the network with clients, who are to
    notice little of it.

    Each chunk reserves its time on one time line, before it is read. A sender that is late catches up by one chunk only, so a
    loop that is busy with clients sends less.
    """

    __slots__ = ("_free_at", "_seconds_per_byte")

    def __init__(self, bytes_per_s: int) -> None:
        """0: as fast as followers take it."""
        self._seconds_per_byte = 1 / bytes_per_s if bytes_per_s else 0.0
        self._free_at = 0.0

    def reserve(self, size: int, now: float) -> float:
        """Returns when a chunk of this size may be sent."""
        seconds = size * self._seconds_per_byte
        at = max(self._free_at, now - seconds)
        self._free_at = at + seconds
        return at

    def release(self, size: int) -> None:
        """A chunk was so much shorter than what it had reserved."""
        self._free_at -= size * self._seconds_per_byte


class Reserved(NamedTuple):
    """By one chunk, of the node's pace."""

    at: float  # not sent before
    size: int


class SnapshotSend:
    """How far it was sent to a follower. acknowledged <= sent <= end, as soon as that is known: when its last part was read.

    It begins with a question: where does the follower want to go on? A follower that has part of it, or all, is not sent that
    again. Questions are also how the leader goes on when nothing was heard for a while.

    The length of a snapshot is known only once its end was read. So chunks begin small and double: the many small snapshots
    that a node sends at once, when another one comes back without its disk, neither leave in one burst nor reserve the time
    of a large one each.
    """

    __slots__ = ("_chunk_bytes", "acknowledged", "asked", "end", "meta", "must_ask", "repeated", "reserved", "sent")

    def __init__(self, meta: SnapshotMeta) -> None:
        self.meta = meta
        self.end: int | None = None
        self.sent = self.acknowledged = 0
        self.must_ask = True
        self.asked = False  # nothing is sent before the answer
        self.repeated = -1  # the offset that was last gone back to
        self._chunk_bytes = FIRST_CHUNK_BYTES  # of the next one, at most
        self.reserved: Reserved | None = None  # for the next chunk

    def question(self) -> None:
        """Where does it want to go on? Is being asked now."""
        self.must_ask = False
        self.asked = True

    def wanted(self, offset: int) -> None:
        """The follower wants to go on there. If that is where it was before, something was lost: go back, but once only,
        because every chunk behind a lost one brings the same answer. Any other offset that was not asked for is stale: each
        one that was believed brought another chunk, whose answer was as old when it came."""
        if self.end is not None:
            offset = min(offset, self.end)
        if self.asked:
            self.sent = offset
        elif offset == self.acknowledged and offset != self.repeated:
            self.sent = self.repeated = offset
        elif not self.acknowledged < offset <= self.sent:
            return
        self.asked = False
        self.acknowledged = offset

    def may_send(self, window_bytes: int) -> bool:
        """Whether the follower has room for more; when is another question."""
        return not self.asked and self.sent != self.end and self.sent - self.acknowledged < window_bytes

    def reserve(self, pace: SnapshotPace, chunk_bytes_max: int, now: float) -> Reserved:
        """The place of the next chunk in the node's pace, kept until that was read."""
        if self.reserved is None:
            size = min(self._chunk_bytes, chunk_bytes_max)
            self.reserved = Reserved(pace.reserve(size, now), size)
            self._chunk_bytes = 2 * size
        return self.reserved

    def was_read(self, size: int, last: bool) -> None:
        """So many bytes from `sent` on, which go to the follower now."""
        self.sent += size
        self.reserved = None
        if last:
            self.end = self.sent


class SnapshotIntake:
    """How far it has come to a follower."""

    __slots__ = ("complete", "index", "next_offset", "sender", "term")

    def __init__(self, chunk: SnapshotChunk) -> None:
        self.sender: MemberId = chunk.sender
        self.index = chunk.meta.index
        self.term = chunk.meta.term
        self.next_offset = 0
        self.complete = False

    def continues(self, chunk: SnapshotChunk) -> bool:
        """Whether the chunk belongs to the same bytes."""
        return (self.sender, self.index, self.term) == (chunk.sender, chunk.meta.index, chunk.meta.term)

    def take(self, chunk: SnapshotChunk) -> bool:
        """Whether it is the next one; if not, it is dropped, and `next_offset` says what is wanted."""
        if self.complete or chunk.offset != self.next_offset:
            return False
        self.next_offset += len(chunk.data)
        self.complete = chunk.last
        return True
