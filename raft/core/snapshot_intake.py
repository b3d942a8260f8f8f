"""A follower takes a snapshot, chunk by chunk.

Chunks are kept only in order and without gaps. Chunks of one snapshot from one member continue each other, whatever happened
in between; those of another member do not, for its bytes may be other ones even if they mean the same.
"""

from __future__ import annotations

from raft.core.messages import MemberId, SnapshotChunk


class SnapshotIntake:
    """How far a snapshot has come."""

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
