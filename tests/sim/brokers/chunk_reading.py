"""What readers of whole chunks may be given: from the chunk on that holds the place which they asked for, one after the other,
for credit. Who wants some messages only may be given other chunks too, and must be given each that has one of them.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

from broker.queues.stream_contract import MessageFilter
from stream.chunks.chunk import read_header
from tests.sim.brokers import invariants
from tests.sim.brokers.stream_book import StoredChunk
from tests.sim.brokers.stream_reading import Reading


@dataclass
class ChunkReading(Reading):
    """One subscription, as its node serves it."""

    wanted: MessageFilter | None = None
    credit: int = 0  # as its node knows it
    is_answered_late: bool = False  # nobody says when its place was found: with the first chunk at the latest
    is_without_member: bool = False  # its node has none of the stream

    def gives_chunk(self, last_chunk: int, chunk: bytes) -> int:
        """The next one. Returns the offset behind it."""
        book, about, header = self.book, self.book.about, read_header(chunk)
        invariants.chunks_come_for_credit(about, self.who, self.credit)
        self.credit -= 1
        at = bisect_left(book.chunks, header.first_offset, key=lambda one: one.first_offset)
        known = book.chunks[at].chunk if at < len(book.chunks) else b""
        invariants.offset_names_one_chunk(about, self.who, header.first_offset, chunk, known)
        invariants.last_chunk_is_committed(
            about, self.who, header.first_offset, last_chunk, book.chunks[-1].first_offset
        )
        if self.next is None:
            self._begins(at)
        else:
            self._goes_on(at, self.next)
        if self.is_without_member:
            book.count("chunk given by a node without a member")
        self.next = header.next_offset
        return self.next

    def _begins(self, at: int) -> None:
        chunk = self.book.chunks[at]
        if self.answered_end is None and self.is_answered_late:
            self.answered()
        invariants.readers_begin_where_they_asked(
            self.book.about, self.who, self.beginning, chunk.first_offset, self.told, self._may_begin_with(at)
        )
        if self.beginning.kind == "offset" and chunk.first_offset < self.beginning.number < chunk.end:
            self.book.count("chunk reader begins within a chunk")

    def _goes_on(self, at: int, wanted: int) -> None:
        book, first = self.book, self.book.chunks[at].first_offset
        passed = book.chunks[self._at(wanted) : at]
        missed = [one for one in passed if self._wants(one)]
        was_removed = bool(missed) and any(missed[-1].end <= one <= first for one in book.firsts)
        is_right = first >= wanted and (was_removed or not missed)
        invariants.readers_miss_nothing(book.about, self.who, wanted, first, is_right)
        if was_removed:
            book.count("chunk reader passed by retention")
        elif passed:
            book.count("chunk without what is wanted is passed over")

    def _at(self, offset: int) -> int:
        """The place of the first chunk that does not begin before it."""
        return bisect_left(self.book.chunks, offset, key=lambda one: one.first_offset)

    @property
    def is_at_end(self) -> bool:
        low = max(self._low(), self.book.first)
        return not any(self._wants(one) for one in self.book.chunks[self._at(low) :])

    def _low(self) -> int:
        """What begins before this need not come any more."""
        if self.next is not None:
            return self.next
        end = self.answered_end
        if end is None:  # who is answered late may have been shown the end, perhaps that of now
            end = self.book.end if self.is_answered_late else 0
        lows = {"first": 0, "offset": min(self.beginning.number, end)}
        return lows.get(self.beginning.kind, end)

    # Where it may begin

    def _may_begin_with(self, at: int) -> bool:
        """Or with one before it, behind which there is nothing that it wants."""
        while not self._may_begin_at(self.book.chunks[at]):
            at -= 1
            if at < 0 or self._wants(self.book.chunks[at]):
                return False
        return True

    def _may_begin_at(self, chunk: StoredChunk) -> bool:
        if self.beginning.kind != "offset":
            return self.may_begin(chunk.first_offset)
        wanted, first = self.beginning.number, chunk.first_offset
        if first <= wanted < chunk.end or self._was_first(first, wanted):
            return True
        return self.told <= wanted and first <= wanted and self._is_between(self.told, first)

    def _wants(self, chunk: StoredChunk) -> bool:
        wanted = self.wanted
        if wanted is None:
            return True
        has_value = any(value.encode() in chunk.values for value in wanted.values)
        return has_value or (wanted.match_unfiltered and None in chunk.values)
