"""One group's log as a core: what the records of the node's log, one after another, make of it.

The same steps are taken when a record is appended and when it is read at a start, so both come to the same. Nothing here
touches a disk. Entries themselves are not kept, only where their packs lie:

    first .. last   the entries that can be read; first <= snapshot's index + 1
    rows            those of them whose packs lie in the node's log; they begin somewhere, and end at `last`
    segments        the packs that were moved out of the log. The newest segment that has an index counts, and any row
                    counts more; so an entry that was overwritten is hidden for ever, wherever it lies
    live            entries below `first` that the machine still refers to
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator
from operator import attrgetter
from struct import Struct

from raft.core.byte_reader import ByteReader, encode_membership
from raft.core.errors import BadBytes, Compacted
from raft.core.live_entries import NONE_LIVE, LiveEntries
from raft.core.messages import MemberId, Membership
from raft.core.ready import Facts
from raft.store.group_records import (
    GroupIdentity,
    SegmentRow,
    StoredSnapshot,
    encode_identity,
    encode_snapshot,
    nothing_yet,
    read_identity,
    read_snapshot,
)
from raft.store.store_limits import StoreLimits
from storage.wal.log_core import Location

_STATE = Struct("<IQQQ")
_COUNT = Struct("<I")
_TERM = Struct("<QI")
_INDEX = Struct("<Q")


class Rows:
    """Packs in the node's log, ascending both in index and in place."""

    __slots__ = ("file", "first", "kind", "offset", "size", "term")

    def __init__(self) -> None:
        self.first = array("Q")
        self.file = array("Q")
        self.offset = array("Q")
        self.size = array("I")
        self.term = array("I")
        self.kind = array("B")

    def __len__(self) -> int:
        return len(self.first)

    def add(self, first: int, term: int, kind: int, location: Location) -> None:
        self.first.append(first)
        self.term.append(term)
        self.kind.append(kind)
        self.file.append(location.file_number)
        self.offset.append(location.offset)
        self.size.append(location.size)

    def find(self, index: int) -> int:
        """The row whose pack may hold an index, -1 if it is before them all."""
        return bisect_right(self.first, index) - 1

    def location(self, at: int) -> Location:
        return Location(self.file[at], self.offset[at], self.size[at])

    def part(self, start: int, stop: int) -> Rows:
        """A copy of some."""
        twin = Rows()
        for name in self.__slots__:
            setattr(twin, name, getattr(self, name)[start:stop])
        return twin

    def keep(self, start: int, stop: int) -> None:
        """Forget all but some."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name)[start:stop])


class GroupLog:
    """See the module."""

    __slots__ = (
        "_term_firsts",
        "_terms",
        "facts",
        "first",
        "identity",
        "last",
        "live",
        "memberships",
        "rows",
        "segments",
        "snapshot",
    )

    def __init__(self, identity: GroupIdentity) -> None:
        self.identity = identity
        self.facts = Facts(0, 0)
        self.live: LiveEntries = NONE_LIVE
        self.segments: tuple[SegmentRow, ...] = ()
        self.begin_behind(nothing_yet(identity))

    # what records do

    def begin_behind(self, stored: StoredSnapshot) -> None:
        """The log is what a snapshot stands for, and nothing else. Whoever calls sets `live`, and which `segments` count."""
        meta = stored.meta
        self.snapshot = stored
        self.first, self.last = meta.index + 1, meta.index
        self.rows: Rows | None = None
        self.memberships: list[tuple[int, Membership]] = [(meta.index, meta.membership)]
        self._term_firsts = array("Q", [meta.index])
        self._terms = array("Q", [meta.term])

    def problem(self, first: int, term: int) -> str | None:
        """Why entries cannot stand at `first`; None when they can."""
        if first == self.last + 1 and term == self._terms[-1]:
            return None  # as nearly always: a snapshot reaches no further than the last, which is of the last term
        if first > self.last + 1:
            return f"entry {first} follows {self.last}: something in between is missing"
        if first <= self.snapshot.meta.index:
            return f"entry {first} is overwritten, and snapshot {self.snapshot.meta.index} stands for it"
        if term < self.term(first - 1):
            return f"entry {first} of term {term} follows one of term {self.term(first - 1)}"
        return None

    def append(self, first: int, count: int, term: int, kind: int, location: Location) -> None:
        """Entries, at a place of the log; those from `first` on that were there before are gone."""
        problem = self.problem(first, term)
        assert problem is None, f"group {self.identity.group}: {problem}"
        if first <= self.last:
            self.truncate(first)
        if self._terms[-1] != term:
            self._term_firsts.append(first)
            self._terms.append(term)
        if self.rows is None:
            self.rows = Rows()
        self.rows.add(first, term, kind, location)
        self.last = first + count - 1

    def note_membership(self, index: int, membership: Membership) -> None:
        """The entry that was just appended is this membership."""
        assert index > self.memberships[-1][0], f"membership {index} behind {self.memberships[-1][0]}"
        self.memberships.append((index, membership))

    def truncate(self, index: int) -> None:
        """The entry at this index and all behind it are gone."""
        self.last = index - 1
        while self.memberships[-1][0] >= index:
            self.memberships.pop()
        while len(self._terms) > 1 and self._term_firsts[-1] >= index:
            self._term_firsts.pop()
            self._terms.pop()
        if self.rows is not None:
            self.rows.keep(0, self.rows.find(index - 1) + 1)
            if not self.rows:
                self.rows = None

    def snapshot_taken(self, stored: StoredSnapshot, live: LiveEntries) -> None:
        """One of this member's own machine. The caller asserts that it is newer."""
        index = stored.meta.index
        assert self.snapshot.meta.index < index <= self.last, f"snapshot {index} of a log up to {self.last}"
        assert self.first <= stored.first_index <= index + 1, f"the log would begin at {stored.first_index}"
        self.snapshot, self.live = stored, live
        self.first = stored.first_index
        behind = [one for one in self.memberships if one[0] > index]
        self.memberships = [(index, stored.meta.membership), *behind]
        drop = bisect_right(self._term_firsts, self.first - 1) - 1
        if drop > 0:
            self._term_firsts, self._terms = self._term_firsts[drop:], self._terms[drop:]

    def snapshot_installed(self, stored: StoredSnapshot, live: LiveEntries) -> None:
        """One of the leader's. Segments are numbered in the order in which they are made: those from before are gone."""
        came = {row.number: row for row in stored.segments}
        lowest = stored.file
        self.segments = tuple(
            sorted({**came, **{row.number: row for row in self.segments if row.number > lowest}}.values())
        )
        self.live = live
        self.begin_behind(stored)

    def renumbered(self, member: MemberId, last: int) -> None:
        """This member lost something, and is another one from now on. Entries up to `last` are kept."""
        self.identity = self.identity._replace(member=member)
        self.facts = Facts(self.facts.term, 0)
        if last < self.snapshot.meta.index:
            self.live, self.segments = NONE_LIVE, ()
            self.begin_behind(nothing_yet(self.identity))
        elif last < self.last:
            self.truncate(last + 1)

    def moved_out(self, file_number: int, rows: tuple[SegmentRow, ...]) -> None:
        """What counts of the log's files up to this one is in segments now."""
        self.segments = (*self.segments, *rows)
        if self.rows is not None:
            self.rows.keep(bisect_right(self.rows.file, file_number), len(self.rows))
            if not self.rows:
                self.rows = None

    # questions

    def first_of_recent(self, index: int, limits: StoreLimits) -> int:
        """The first of the entries up to this index that are within what is kept for followers; `index + 1`: none is."""
        first = max(self.first, index + 1 - limits.entries_kept)
        bytes_left = limits.bytes_kept
        for start, end, size in self._places_before(index + 1, limits.segment_bytes_max):
            bytes_left -= size
            if bytes_left < 0:
                return max(first, end)
            if start <= first:
                break
        return first

    def _places_before(self, end: int, kept_log_bytes: int) -> Iterator[tuple[int, int, int]]:
        """Packs of the log and segments, from the last one on: first entry, the one behind the last, and bytes."""
        rows = self.rows
        for at in range(rows.find(end - 1) if rows is not None else -1, -1, -1):
            assert rows is not None, f"row {at} of none"
            yield rows.first[at], end, rows.size[at]
            end = rows.first[at]
        for row in sorted(self.segments, key=attrgetter("last"), reverse=True):
            if row.first < end:
                yield row.first, min(end, row.last + 1), kept_log_bytes if row.keeps_log else row.file_size
                end = min(end, row.first)

    def term(self, index: int) -> int:
        """Raises Compacted."""
        assert index <= self.last, f"term of entry {index}, and the last is {self.last}"
        if index >= self._term_firsts[-1] and index >= self.first:
            return self._terms[-1]
        if index == self.snapshot.meta.index:
            return self.snapshot.meta.term
        if index < self.first - 1:
            raise Compacted(index, self.first)
        at = bisect_right(self._term_firsts, index) - 1
        return self._terms[at] if at >= 0 else 0

    def counts(self, index: int) -> bool:
        """Whether somebody may still ask for this entry."""
        return self.first <= index <= self.last or index in self.live

    # the state at the end of a log file, for the file of all groups

    def encode(self) -> bytes:
        """All but where entries lie: that changes while the state at the end of a log file does not."""
        parts = [
            _INDEX.pack(self.identity.group),
            encode_identity(self.identity),
            _STATE.pack(self.facts.term, self.facts.vote, self.first, self.last),
            encode_snapshot(self.snapshot),
            _COUNT.pack(len(self._terms)),
            *map(_TERM.pack, self._term_firsts, self._terms),
            _COUNT.pack(len(self.memberships)),
        ]
        for index, membership in self.memberships:
            parts.append(_INDEX.pack(index) + encode_membership(membership))
        return b"".join(parts)

    @classmethod
    def decode(cls, data: bytes) -> GroupLog:
        """Without rows, live entries and segments. Raises BadBytes."""
        reader = ByteReader(data)
        log = cls(read_identity(reader.u64(), reader))
        term, vote, first, last = reader.fields(_STATE)
        log.facts = Facts(term, vote)
        log.snapshot = read_snapshot(reader)
        log.first, log.last = first, last
        runs = [reader.fields(_TERM) for _ in range(reader.u32())]
        log._term_firsts, log._terms = array("Q", [one[0] for one in runs]), array("Q", [one[1] for one in runs])
        log.memberships = [(reader.u64(), reader.membership()) for _ in range(reader.u32())]
        reader.must_end()
        if not runs or not log.memberships or not 1 <= first <= log.snapshot.meta.index + 1 or last < first - 1:
            raise BadBytes(f"a log from {first} to {last} with snapshot {log.snapshot.meta.index} is none")
        return log
