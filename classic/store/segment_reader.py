"""What an index segment's file says, as far as it can be read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field

from classic.store.index_entries import (
    IN_LOG,
    IN_STORE,
    Fields,
    Malformed,
    Name,
    decode_ranges,
    make_run,
    read_block,
)
from classic.store.salvage import Damage, scan_on
from classic.stored_run import StoredRun
from native.sequence_set import Range
from storage.record import HEADER_BYTES, Kind


@dataclass(slots=True)
class Loaded:
    """A segment's entries, one for each run, in order."""

    firsts: list[int]
    entries: list[Fields]
    names: list[Name]
    settled: list[Range]
    damages: list[Damage] = field(default_factory=list)

    def run(self, at: int) -> StoredRun:
        return make_run(self.entries[at], self.names[self.entries[at][3]])

    def find(self, first: int) -> StoredRun | None:
        at = bisect_left(self.firsts, first)
        return self.run(at) if at < len(self.firsts) and self.firsts[at] == first else None


def read_segment(data: bytes, queue_id: int, number: int) -> Loaded:
    """The entries in an index file's bytes."""
    records, damages = scan_on(data)
    by_first: dict[int, Fields] = {}
    all_names: list[Name] = []
    settled: list[Range] = []
    view = memoryview(data)
    for kind, _, _, writer, index, start, end in records:
        try:
            if (writer, index) != (queue_id, number):
                raise Malformed(f"a record of queue {writer}, segment {index}")
            if kind == Kind.CLASSIC_INDEX:
                block_names, entries = read_block(view[start:end])
                names_before = len(all_names)
                all_names += block_names
                _add(by_first, entries, names_before, len(block_names))
            elif kind == Kind.CLASSIC_INDEX_SETTLED:
                settled += decode_ranges(view[start:end])
            else:
                raise Malformed(f"a record of kind {kind}")
        except Malformed as error:
            damages.append(Damage(start - HEADER_BYTES, end - start + HEADER_BYTES, str(error)))
    firsts = sorted(by_first)
    return Loaded(firsts, [by_first[first] for first in firsts], all_names, settled, damages)


def _add(by_first: dict[int, Fields], entries: Iterator[Fields], names_before: int, name_count: int) -> None:
    for fields in entries:
        first, count, left_out, name, kind = fields[:5]
        if not (count > 0 and left_out < count and name < name_count and IN_LOG <= kind <= IN_STORE):
            raise Malformed(f"an entry says {fields}")
        known = by_first.get(first)
        if known is None or kind != IN_LOG or known[4] == IN_LOG:
            by_first[first] = (*fields[:3], name + names_before, *fields[4:])
