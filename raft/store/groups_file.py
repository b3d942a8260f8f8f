"""What all groups on this node are, as of the end of a log file: then the files of the log up to that one are not needed.

Two copies of it are written in turn, each a storage/snapshot_file.py: damage to one costs nobody anything, unless the log
went on without what only that one knew. Payload, little endian:

    generation u64 | first_file u64 | next_number u64 | groups u32, and for each group:
    state size u32 | state | segments u32 | segments        (see raft/store/group_log.py and raft/store/group_records.py)

    state      group u64 | member u64 | name | machine | membership | term u32 | vote u64 | first u64 | last u64 | snapshot |
               runs u32 | first u64, term u32 of each run of one term | memberships u32 | index u64, membership of each
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from struct import Struct

from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from raft.store.group_records import SegmentRow, encode_segment, read_segment
from storage import snapshot_file
from storage.disk import Disk
from storage.errors import Corrupt, Exhausted
from storage.names import RAFT_GROUPS

_HEAD = Struct("<QQQI")
_COUNT = Struct("<I")


@dataclass(slots=True)
class GroupsFile:
    """`first_file` is the first of the log's files that is not told of here; `next_number` was given to no file yet."""

    generation: int = 0
    first_file: int = 1
    next_number: int = 1
    states: dict[int, bytes] = field(default_factory=dict)  # by group
    segments: dict[int, tuple[SegmentRow, ...]] = field(default_factory=dict)

    def save(self, disk: Disk) -> None:
        """Durably. Raises DiskFull and DiskFailed: then the copies that were there count."""
        parts = [_HEAD.pack(self.generation, self.first_file, self.next_number, len(self.states))]
        for group, state in self.states.items():
            segments = self.segments.get(group, ())
            parts += [_COUNT.pack(len(state)), state, _COUNT.pack(len(segments)), *map(encode_segment, segments)]
        snapshot_file.save(disk, RAFT_GROUPS[self.generation % 2], [b"".join(parts)])

    def replace_copies(self, disk: Disk, count: int) -> None:
        """Those that a start found damaged, durably, and first the one that is not the newest: what is damaged next may be the
        other one. Where there is no room now, the next `save` does it. Raises DiskFailed."""
        with suppress(Exhausted):
            for _ in range(count):
                replace(self, generation=self.generation + 1).save(disk)
                self.generation += 1


def load(disk: Disk) -> tuple[GroupsFile, list[Corrupt]]:
    """The newer copy that can be read, and what is wrong with those that cannot."""
    newest, damaged = GroupsFile(), []
    for name in RAFT_GROUPS:
        try:
            found = decode(name, snapshot_file.load(disk, name))
        except FileNotFoundError:
            continue
        except Corrupt as error:
            damaged.append(error)
            continue
        if found.generation > newest.generation:
            newest = found
    return newest, damaged


def decode(name: str, payload: bytes) -> GroupsFile:
    """Raises Corrupt."""
    reader = ByteReader(payload)
    found = GroupsFile()
    try:
        found.generation, found.first_file, found.next_number, count = reader.fields(_HEAD)
        for _ in range(count):
            state = reader.take(reader.u32())
            group = ByteReader(state).u64()
            found.states[group] = state
            found.segments[group] = tuple(read_segment(reader) for _ in range(reader.u32()))
        reader.must_end()
    except BadBytes as error:
        raise Corrupt(name, 0, len(payload), str(error)) from error
    return found
