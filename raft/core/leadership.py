"""What only a leader keeps, and forgets when it leads no more; and what it says first.

The first entry of a term, of the kind NOOP, has these data, little endian; none in logs of before:

    member u64 | time_ms u64     who leads the term, and when it began by the wall clock of its node, ms since 1970

They are for readers of the log. Members pass over them.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import NamedTuple

from raft.core.messages import MemberId, NodeId
from raft.core.progress import Progress
from raft.core.reads import Reads

_TERM_BEGUN = Struct("<QQ")


class TermBegun(NamedTuple):
    """The data of the first entry of a term."""

    leader: MemberId
    time_ms: int

    def encode(self) -> bytes:
        return _TERM_BEGUN.pack(*self)

    @classmethod
    def decode(cls, data: bytes) -> TermBegun | None:
        """None: who led the term is not said."""
        return cls(*_TERM_BEGUN.unpack(data)) if len(data) == _TERM_BEGUN.size else None


class Transfer(NamedTuple):
    """The leadership is being handed over; nothing is taken meanwhile."""

    to: MemberId
    until: float
    told: bool  # it has caught up and was told to stand for election


class Leadership:
    """One member's, of one term."""

    __slots__ = (
        "chunk_at", "first_index", "leaving", "must_send", "news_at", "progress", "prompted", "reads", "replaced", "transfer",
        "uncommitted", "uncommitted_bytes",
    )  # fmt: skip

    first_index: int  # of the first entry of this term: what is committed by counting lies there or behind
    must_send: bool  # something may be there for a follower; looked at when a Ready is made, so that messages are few
    news_at: float | None  # when followers are told of a commit, if no entries took it along before
    chunk_at: float | None  # when the next chunk of a snapshot may be sent
    prompted: set[NodeId]  # nodes that are told of what is committed in the next Ready
    leaving: bool  # it removed itself and that is committed: it leads until a majority knows
    replaced: dict[MemberId, MemberId]  # old member: the new one that lives in its place and is to be taken in

    def __init__(self, first_index: int) -> None:
        self.first_index = first_index
        self.must_send = True
        self.news_at = self.chunk_at = None
        self.prompted = set()
        self.leaving = False
        self.replaced = {}
        self.progress: dict[MemberId, Progress] = {}
        self.reads = Reads()
        self.transfer: Transfer | None = None
        self.uncommitted: deque[tuple[int, int]] = deque()  # (last index, bytes) of each proposal that waits
        self.uncommitted_bytes = 0

    def took(self, last: int, size: int) -> None:
        """A proposal, which followers are to have, if there are any."""
        if self.progress:
            self.must_send = True
        self.uncommitted.append((last, size))
        self.uncommitted_bytes += size

    def committed(self, index: int) -> None:
        while self.uncommitted and self.uncommitted[0][0] <= index:
            self.uncommitted_bytes -= self.uncommitted.popleft()[1]

    def deadline(self) -> float | None:
        """The earliest time at which something is to be done even if nothing happens."""
        earliest = self.news_at
        if self.chunk_at is not None and (earliest is None or self.chunk_at < earliest):
            earliest = self.chunk_at
        for one in self.progress.values():
            at = one.resend_at
            if at is not None and (earliest is None or at < earliest):
                earliest = at
        if self.transfer is not None and (earliest is None or self.transfer.until < earliest):
            earliest = self.transfer.until
        return earliest
