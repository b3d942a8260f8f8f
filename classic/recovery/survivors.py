"""Which messages of one queue live after a crash, as its index segments and the log say together.

    published   by the log                                          lives if it is in one of these two
    moved       the index has the contents: moved out of the log
    settled     by the log, or by a segment                         and not here
    known       the index has an entry, even if nothing of it       says no more than where the next sequence is: none is
                became durable                                      given twice

A settlement that only a segment knows is written to the log again, as the segment may be deleted before the log file that has
the publish.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from classic.recovery.logged_queues import LoggedQueue
from classic.store.index_entries import IN_BODY, IN_LOG, PERSISTENT, Fields
from classic.store.node_storage import NodeStorage
from classic.store.queue_index import Segment
from classic.store.salvage import Damage
from classic.store.segment_reader import read_segment
from classic.stored_run import LEVEL_SHIFT
from native.content import count as count_messages
from native.sequence_set import Range, SequenceSet
from storage import names
from storage.errors import Corrupt

if TYPE_CHECKING:
    from classic.queue import ClassicQueue


@dataclass(slots=True, frozen=True)
class DamagedSegment:
    """An index segment that cannot be read as a whole, and of which a copy is kept."""

    segment: Segment
    name: str
    data: bytes
    damages: list[Damage]
    unheld: list[Range]  # messages whose entries can be read, and whose contents do not hold them


class Survivors:
    """`read_segment` for each segment, then `mark_ready`; `living` and `moved` are complete from then on."""

    def __init__(self, storage: NodeStorage, queue: ClassicQueue, logged: LoggedQueue) -> None:
        self.living = SequenceSet()
        self.moved = SequenceSet()
        self._known = SequenceSet()
        self._published = logged.published
        self._settled = logged.settled
        self._storage = storage
        self._queue = queue
        self._index = queue.backing.index

    def read_segment(self, segment: Segment) -> DamagedSegment | None:
        """Which messages a segment has the contents of, and which are settled. Returns what is to be repaired, if anything."""
        name = names.index_segment(self._index.directory, segment.number)
        data = self._storage.disk.read_file(name)
        loaded = read_segment(data, self._queue.record.id, segment.number)
        may_repair = not loaded.damages or self._storage.damaged(name, loaded.damages)
        whole = not loaded.damages and len(data) >= segment.index_size
        segment.index_size = len(data)
        self._add_settled(loaded.settled)
        unheld: list[Range] = []
        for fields in loaded.entries:
            unheld += self._add_entry(segment.number, fields, whole)
        if segment.first < segment.end:
            self._known.add(segment.first, segment.end)  # also what cannot be read any more
        return DamagedSegment(segment, name, data, loaded.damages, unheld) if may_repair and not whole else None

    def _add_settled(self, settled: list[Range]) -> None:
        for first, end in settled:
            self._settled.add(first, end)
            for again in self._published.intersect(first, end):
                self._storage.settle(self._queue, *again)  # the log may not know

    def _add_entry(self, number: int, fields: Fields, whole: bool) -> list[Range]:
        """Returns which of the entry's messages its content does not hold. `whole`: nothing of the segment is damaged, so
        messages that were left out of a content are known to be settled."""
        first, count, left_out, _, kind, flags = fields[:6]
        begin, end = first + left_out, first + count
        self._known.add(first, end)
        if kind == IN_LOG or not flags & PERSISTENT:
            return []
        held = end if whole else self._end_of_content(number, fields)
        self.moved.add(begin, held)
        return [(held, end)] if held < end else []

    def _end_of_content(self, number: int, fields: Fields) -> int:
        """A content ends with the last message that lived when it was written. The record that says the ones behind it were
        settled may be damaged."""
        if fields[4] == IN_BODY:
            with suppress(
                Corrupt, FileNotFoundError
            ):  # then the messages are lost, which is reported when one is asked for
                content = self._storage.files.payload(
                    names.body_file(self._index.directory, number), fields[9], fields[8]
                )
                return fields[0] + fields[2] + count_messages(content)
        return fields[0] + fields[1]

    def mark_ready(self) -> None:
        """Make all that lives ready, and have new sequences begin behind all that were ever given."""
        used = [end for found in (self._published, self._settled, self._known) for _, end in found.ranges()]
        self.living = self._published.copy()
        for first, end in self.moved.ranges():
            self.living.add(first, end)
        for first, end in self._settled.ranges():
            self.living.remove(first, end)
        for level in self._queue.levels:
            top = level.base + (1 << LEVEL_SHIFT)
            for first, end in self.living.intersect(level.base, top):
                level.ready.add(first, end)
                self._queue.redelivered.add(first, end)
            level.next_sequence = max([level.base, *(end for end in used if level.base < end <= top)])
