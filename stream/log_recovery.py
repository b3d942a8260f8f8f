"""What a start makes of the files of a stream's log: what is whole, what was torn by a crash, what is damaged.

Segments but the last were fsynced as a whole before the next one was made. So each is judged by the checkpoint that follows it;
what is wrong with it is damage.

The last segment may end in an unfinished write. Each of its frames says up to where the file had been fsynced when it was
written: what is unreadable behind the highest of these claims was never promised by this file, and is cut. What is unreadable
before it, or before the entry that the caller knows to be durable, is damage. It is reported, and never cut here: the owner
keeps a copy, and gives up all behind the damage when it begins another member (StreamLog.truncate).

Reading is bounded: of each segment its checkpoint and the end of its index, of the last one the heads of its frames, and the
data of messages behind the highest claim.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from raft.core import membership
from raft.core.errors import BadBytes
from raft.core.messages import Membership
from storage.disk import Disk
from storage.errors import Corrupt
from storage.names import CHUNKS_SUFFIX, OFFSETS_SUFFIX, TEMPORARY_SUFFIX, chunks_file, numbers_in, offsets_file
from stream.chunk import CHUNK_HEADER_BYTES, must_be_sound, read_header
from stream.framing import FrameHeads, durable_behind
from stream.segment_file import StreamSegment, open_segment
from stream.segment_tail import FoundEntries


@dataclass(slots=True)
class FoundLog:
    """A log as it was found. With damage, it ends before that."""

    segments: list[StreamSegment] = field(default_factory=list)  # without gaps; none: nothing of the log can be used
    memberships: list[tuple[int, Membership]] = field(
        default_factory=list
    )  # by the index from which on they are in force
    damage: Corrupt | None = None
    torn_bytes: int = 0  # of an unfinished write, which were cut


def find_log(disk: Disk, directory: str, durable_index: int = 0) -> FoundLog:
    """`durable_index`: an entry that is known to have been fsynced here; 0: none. Raises DiskFull, DiskFailed."""
    found = FoundLog()
    numbers = _clean(disk, directory)
    for first_index in numbers:
        try:
            found.segments.append(open_segment(disk, directory, first_index))
        except Corrupt as error:
            found.damage = error
            break
    _forget_replaced(disk, directory, found.segments)
    _check_sealed(found)
    if found.segments:
        _read_last(found, durable_index)
    return found


def delete_segments(disk: Disk, directory: str, first_indexes: Sequence[int]) -> None:
    """One after another, so that a crash leaves all behind some place of this order."""
    for first_index in first_indexes:
        for name in (offsets_file(directory, first_index), chunks_file(directory, first_index)):
            with suppress(FileNotFoundError):
                disk.delete(name)
        disk.sync_dir(directory)


def first_indexes(disk: Disk, directory: str) -> list[int]:
    """Of the segments whose files are there, ascending."""
    return numbers_in(disk.list(directory), CHUNKS_SUFFIX)


def _clean(disk: Disk, directory: str) -> list[int]:
    """Delete what crashes have left; return the first indexes of the segments."""
    names = disk.list(directory)
    segments = numbers_in(names, CHUNKS_SUFFIX)
    left = [f"{directory}/{name}" for name in names if name.endswith(TEMPORARY_SUFFIX)]
    left += [offsets_file(directory, first) for first in numbers_in(names, OFFSETS_SUFFIX) if first not in segments]
    for name in left:
        disk.delete(name)
    return segments


def _forget_replaced(disk: Disk, directory: str, segments: list[StreamSegment]) -> None:
    """A snapshot was installed, and what it replaced was not deleted yet."""
    begin = max((at for at, segment in enumerate(segments) if segment.checkpoint.begins_log), default=0)
    delete_segments(disk, directory, [segment.first_index for segment in segments[:begin]])
    del segments[:begin]


def _check_sealed(found: FoundLog) -> None:
    """Let each segment end where the following checkpoint says, up to the first that cannot."""
    for at in range(len(found.segments) - 1):
        try:
            found.segments[at].end_before(found.segments[at + 1].checkpoint)
        except Corrupt as error:
            found.damage = error
            del found.segments[at + 1 :]
            break
    for segment in found.segments:
        found.memberships.append((segment.checkpoint.membership_index, segment.checkpoint.membership))
    found.memberships = sorted(dict(found.memberships).items())


def _read_last(found: FoundLog, durable_index: int) -> None:
    """Of the last segment nothing is known but what it says itself."""
    segment = found.segments[-1]
    file, size = segment.file, segment.file.size()
    entries = FoundEntries(segment.checkpoint, segment.start)
    problem = entries.read(FrameHeads(file, size, segment.number))
    durable = entries.durable
    if found.damage is not None:  # whatever follows, this segment was sealed
        durable = size
    elif problem is not None:
        durable = max(durable, durable_behind(file, problem.position, size, segment.number))
    count = _sound_count(segment, entries, durable)
    segment.take(entries, count)
    found.memberships += decoded(entries.memberships, segment.last_index)
    if problem is not None and problem.position < durable:
        found.damage = found.damage or Corrupt(
            segment.name, problem.position, durable - problem.position, problem.reason
        )
    elif segment.last_index < durable_index:
        text = f"entry {durable_index} had been fsynced, and the last that is here is {segment.last_index}"
        found.damage = Corrupt(segment.name, segment.tail.end, size - segment.tail.end, text)
    if found.damage is None:
        found.torn_bytes = size - segment.tail.end
        segment.truncate(count)


def decoded(memberships: Sequence[tuple[int, bytes]], last_index: int) -> list[tuple[int, Membership]]:
    """Memberships of entries up to this one."""
    return [(index, membership.decode(data)) for index, data in memberships if index <= last_index]


def _sound_count(segment: StreamSegment, entries: FoundEntries, durable: int) -> int:
    """How many of the entries are whole with their data, which is looked at where it was not durable."""
    rows, ends = entries.rows, [row.position for row in entries.rows[1:]] + [entries.tail.end]
    for number, (row, end) in enumerate(zip(rows, ends, strict=False)):  # without rows there is one end
        if row.position >= durable and row.chunk_bytes:
            chunk = memoryview(segment.file.read_at(end - row.chunk_bytes, row.chunk_bytes))
            try:
                must_be_sound(read_header(chunk), chunk[CHUNK_HEADER_BYTES:])
            except BadBytes:
                return number
    return len(rows)
