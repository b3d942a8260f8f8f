"""Whether every message that a stream has confirmed is accounted for: retention has cut it, it went with the stream, or a node
still has it where a start of the node would look for it, in its log or in segments.

What a stream has promised are the offsets that its log gives, from 0 on. A message is missing if a snapshot or the archive
tells of it, all members were read, and none has it. A log that contradicts itself proves nothing; nor do copies that differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from analytics.coverage import Coverage, CutOff, cut_offs
from analytics.file_window import coverage_of, missing_files
from analytics.fold.lives import LifeState
from analytics.fold.stream_log import StreamLog, ToldChunk
from analytics.inputs import LogFile, export_of
from analytics.jobs.evidence import state_of_files
from analytics.jobs.proof import COLUMN_OF, MISSING_NAMED, UNCOMMITTED, ProofRow
from analytics.streams.stream_copies import Each, EntryCopy, StreamCopies, read_streams


class ReadDoubts(NamedTuple):
    """Why what was not found may be there all the same."""

    damaged: Sequence[str] = ()  # files
    exported: Sequence[str] = ()  # nodes without their segments
    changed: bool = False  # files came or went while they were read
    cut_off: Sequence[CutOff] = ()  # logs of nodes, which may have had the last entries

    def reason(self, unread: int | None) -> str | None:
        """`unread`: members; None: nothing says who they are."""
        if self.damaged:
            return f"{self.damaged[0]} is damaged, and may have had these"
        if self.exported:
            return f"the export of {self.exported[0]} has no segments, where these may be: read its directory"
        if self.changed:
            return "the node's files changed while they were read: stop it, or read a copy"
        if unread is None:
            return "nothing that was read says who the members are, which may have these"
        return f"{unread} members were not read, which may have these" if unread else None


def stream_proofs(
    files: Sequence[LogFile], each: Each, *, tail: bool, asked_for: Collection[int] | None = None
) -> list[ProofRow]:
    """Of each stream, by name. `asked_for`: numbers of their groups; None: all."""
    directories = sorted({(file.node, file.directory) for file in files})
    before = state_of_files(directory for _, directory in directories)
    read = read_streams(files, each, tail=tail)
    covered = coverage_of(read.files, read.seen)
    exported = [node for node, directory in directories if export_of(directory) is not None]
    changed = before != state_of_files(directory for _, directory in directories)
    told = ((one.file.node, one.file.number, one.groups()) for one in read.seen)
    doubts = ReadDoubts(_damaged_files(covered), exported, changed, cut_offs(missing_files(files), told))
    return [prove_stream(one, doubts) for one in read.streams if asked_for is None or one.group in asked_for]


def prove_stream(copies: StreamCopies, doubts: ReadDoubts) -> ProofRow:
    """See the module."""
    log = copies.folded()
    counts = dict.fromkeys(set(COLUMN_OF.values()), 0)
    for chunk in log.chunks:
        counts[_column_of(chunk, log)] += chunk.messages
    missing = list(_missing(log, copies.entries))
    many = sum(chunk.messages for chunk in missing)
    why = next(_whys(copies.entries, log), None)
    why = why or next(filter(None, (one.why(copies.group) for one in doubts.cut_off)), None)
    if missing:
        why = why or doubts.reason(log.unread_members)
    if why is not None:
        counts["unknown"], missing = counts["unknown"] + many, []
    counts["present"] -= many
    return ProofRow(
        copies.name,
        copies.group,
        sum(chunk.messages for chunk in log.chunks),
        **counts,
        missing=sum(chunk.messages for chunk in missing),
        first_missing=_first_offsets(missing),
        why=why,
    )


def _column_of(chunk: ToldChunk, log: StreamLog) -> str:
    return COLUMN_OF[chunk.state if chunk.told_at <= log.committed else LifeState.UNKNOWN]


def _missing(log: StreamLog, copies: Iterable[EntryCopy]) -> Iterator[ToldChunk]:
    there = {(copy.entry.place, copy.entry.term) for copy in copies if not copy.is_archived and not copy.entry.fault}
    for chunk in log.chunks:
        if _column_of(chunk, log) == "present" and (chunk.entry, chunk.term) not in there:
            yield chunk


def _whys(copies: Sequence[EntryCopy], log: StreamLog) -> Iterator[str]:
    """Why nothing is proved, the most telling first."""
    yield from _differing(copies)
    yield from log.wrong
    yield from (f"{copy.node} has an entry {copy.entry.place} of which {copy.entry.fault}" for copy in _faulty(copies))
    if log.unknown is not None:
        yield log.unknown
    if any(chunk.told_at > log.committed for chunk in log.chunks):
        yield UNCOMMITTED


def _differing(copies: Iterable[EntryCopy]) -> Iterator[str]:
    """Members keep the same bytes for one entry of one term."""
    first: dict[tuple[int, int], EntryCopy] = {}
    for copy in copies:
        other = first.setdefault((copy.entry.place, copy.entry.term), copy)
        if (copy.entry.kind, copy.entry.head) != (other.entry.kind, other.entry.head):
            yield f"entry {copy.entry.place} of {copy.node} differs from that of {other.node}"


def _faulty(copies: Iterable[EntryCopy]) -> Iterator[EntryCopy]:
    return (copy for copy in copies if copy.entry.fault is not None)


def _first_offsets(missing: Iterable[ToldChunk]) -> list[int]:
    offsets = (offset for chunk in missing for offset in range(chunk.first_offset, chunk.next_offset))
    return [offset for offset, _ in zip(offsets, range(MISSING_NAMED), strict=False)]


def _damaged_files(covered: Coverage) -> list[str]:
    return [f"file {one.file} of {one.node}" for one in covered.damage if not one.torn]
