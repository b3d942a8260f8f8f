"""What readers of a stream may be given: from where they asked to begin on, every message at its offset, one after the other.

Where a reader begins depends on when its stream was asked, and on what its node knew then. So each reading remembers what
clients had been told when it was asked for, and where the stream ended when it was answered. Only retention may have a reader
pass over messages, to where the stream began at some time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from tests.sim.brokers import invariants
from tests.sim.brokers.stream_book import StoredChunk, StreamBook
from wire.amqp.tables import Timestamp


class Beginning(NamedTuple):
    """Where a reader wants to begin."""

    kind: str  # first, last, next, offset, time
    number: int = 0  # offset, or seconds since 1970

    @property
    def argument(self) -> int | str:
        """x-stream-offset."""
        if self.kind == "time":
            return Timestamp(self.number)
        return self.number if self.kind == "offset" else self.kind


@dataclass
class Reading:
    """One subscription, as its node serves it."""

    book: StreamBook
    who: str
    beginning: Beginning
    told: int  # of the stream when it was asked for
    answered_end: int | None = None  # of the stream when it was answered
    next: int | None = None  # offset that is to come; None: nothing has come
    is_over: bool = False

    def answered(self) -> None:
        self.answered_end = self.book.end

    def gives(self, offset: int, body: bytes) -> None:
        """The next message."""
        book, about = self.book, self.book.about
        known = book.messages[offset] if offset < book.end else b""
        invariants.offset_names_one_message(about, self.who, offset, body, known)
        if self.next is None:
            invariants.readers_begin_where_they_asked(
                about, self.who, self.beginning, offset, self.told, self.may_begin(offset)
            )
        else:
            invariants.readers_miss_nothing(about, self.who, self.next, offset, self._was_first(offset, self.next))
            if offset != self.next:
                book.count("stream reader passed by retention")
        self.next = offset + 1

    @property
    def is_at_end(self) -> bool:
        """Whether it has been given all that there is for it."""
        if self.next is None:
            return self.answered_end == self.book.end
        return self.next == self.book.end

    def _was_first(self, offset: int, wanted: int) -> bool:
        """Whether what was to come was removed, up to this offset."""
        return offset > wanted and offset in self.book.firsts

    def may_begin(self, offset: int) -> bool:
        if self.answered_end is None:
            return False  # nothing is delivered before the answer
        return _MAY_BEGIN[self.beginning.kind](self, offset)

    def _at_first(self, offset: int) -> bool:
        return offset in self.book.firsts

    def _at_last(self, offset: int) -> bool:
        """The first message of a chunk, from that on which holds the last one that clients had been told of."""
        is_first_of_a_chunk = any(chunk.first_offset == offset for chunk in self.book.chunks)
        return is_first_of_a_chunk and self._is_between(self._chunk_with(self.told - 1), offset)

    def _at_next(self, offset: int) -> bool:
        return self._is_between(self.told, offset)

    def _at_offset(self, offset: int) -> bool:
        wanted = self.beginning.number
        if wanted < self.told:
            return offset == wanted or self._was_first(offset, wanted)
        return self._was_first(offset, wanted) or (offset <= wanted and self._is_between(self.told, offset))

    def _at_time(self, offset: int) -> bool:
        """The first chunk that is not older; behind the end, where the next one comes."""
        found = next((one for one in self.book.chunks if one.time_ms >= self.beginning.number * 1000), None)
        if found is None:
            return self._is_between(self.told, offset)
        if offset >= found.first_offset:
            return offset == found.first_offset or self._was_first(offset, found.first_offset)
        return found.first_offset >= self.told and self._is_between(self.told, offset)

    def _is_between(self, low: int, offset: int) -> bool:
        """Not before this, and nothing is missed that was stored after the answer."""
        assert self.answered_end is not None, f"{self.who} was not answered"
        return low <= offset <= self.answered_end or self._was_first(offset, low)

    def _chunk_with(self, offset: int) -> int:
        """Where it begins. 0: there is none."""
        holds: Callable[[StoredChunk], bool] = lambda one: one.first_offset <= offset < one.end  # noqa: E731
        return next((one.first_offset for one in self.book.chunks if holds(one)), 0)


_MAY_BEGIN: dict[str, Callable[[Reading, int], bool]] = {
    "first": Reading._at_first,
    "last": Reading._at_last,
    "next": Reading._at_next,
    "offset": Reading._at_offset,
    "time": Reading._at_time,
}
