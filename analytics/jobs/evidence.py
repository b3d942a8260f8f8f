"""What files say beside the lives of messages: whether records are missing, and what queues still have.

The records of a node's classic queues are counted without a gap, so a record that is missing is noticed, though not of which
queue it told. What a queue still has is looked for where a start of the node looks for it: contents in `log/`, and those that
have been moved to the files of the queue or to the shared store. Of quorum queues it is looked for in `log/` and in segments
(kept_contents.py). The archive does not count there, for no start reads it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path

from analytics.coverage import MissingFiles, cut_offs
from analytics.file_window import reader_of
from analytics.inputs import LogFile, export_of, segment_group, unless_deleted
from analytics.jobs.kept_contents import (
    GroupTerm,
    KeptEntries,
    KnownVoters,
    StoreId,
    listed_members,
    store_ids,
    unread_voters,
)
from analytics.jobs.proof import LogEvidence
from analytics.queue_events import COUNTED_KINDS
from classic.recovery import clean_stop
from classic.store.index_entries import IN_BODY, IN_LOG, PERSISTENT, Fields
from classic.store.manifest import has_files
from classic.store.manifest import load as load_manifest
from classic.store.salvage import scan_on
from classic.store.segment_reader import read_segment
from native.columns import rows_of, values
from native.log_columns import publishes
from native.log_tables import PUBLISHES, RECORDS
from native.sequence_set import Range, SequenceSet
from storage import names, snapshot_file
from storage.disk import Disk
from storage.errors import Corrupt
from storage.history.column_reader import ColumnPiece, ColumnReader
from storage.os_disk import OsDisk
from storage.record import Kind

FIRST_INDEX = 1
KIND, INDEX, WRITER = (
    next(at for at, one in enumerate(RECORDS) if one.name == name) for name in ("kind", "index", "writer")
)
GROUPS_GO_ON = (Kind.RAFT_ENTRIES, Kind.RAFT_COMMIT)


@dataclass(slots=True)
class FileEvidence:
    """One file of a node's log. Plain values: it travels between processes."""

    node: str
    number: int
    first: int | None = None  # index of the first record of a classic queue
    last: int | None = None
    gaps: list[str] = field(default_factory=list)
    stored: dict[int, list[Range]] = field(default_factory=dict)  # by queue, what was published into this file
    entries: dict[GroupTerm, list[Range]] = field(
        default_factory=dict
    )  # of quorum queues, where a start looks for them
    members: list[KnownVoters] = field(default_factory=list)  # that the node says it has
    contents: list[StoreId] = field(default_factory=list)  # of the shared store
    groups: set[int] = field(
        default_factory=set
    )  # whose entries it has, or says to be committed; where files are missing


def file_evidence(file: LogFile, *, tail: bool = False, with_groups: bool = False) -> FileEvidence:
    """Read one file, as far as it is known to be durable, with `tail` all of it. A file that a node has deleted meanwhile tells
    nothing. `with_groups`: say which groups it tells of."""
    found = FileEvidence(file.node, file.number)
    if file.name.startswith(names.STORE_PERSISTENT):
        _read_store(file, found)
    elif (group := segment_group(file)) is not None:
        _read_segment(file, group, found)
    else:
        _read_log(file, found, tail=tail, with_groups=with_groups)
    return found


def _read_store(file: LogFile, found: FileEvidence) -> None:
    with unless_deleted(file):
        for piece in ColumnReader(OsDisk(file.directory, read_only=True), file.name).pieces():
            found.contents += store_ids(piece)


def _read_segment(file: LogFile, group: int, found: FileEvidence) -> None:
    with unless_deleted(file):
        entries = KeptEntries(file, group)
        for piece in ColumnReader(OsDisk(file.directory, read_only=True), file.name, is_followed=True).pieces():
            entries.note(piece)
        found.entries = entries.ranges()


def _read_log(file: LogFile, found: FileEvidence, *, tail: bool, with_groups: bool) -> None:
    stored: dict[int, SequenceSet] = {}
    entries, is_kept = KeptEntries(file, None), file.name.startswith(names.LOG_DIRECTORY)
    with unless_deleted(file):
        reader, _ = reader_of(file, tail=tail)
        for piece in reader.pieces():
            _follow(found, piece)
            entries.note(piece, is_kept=is_kept)
            if is_kept:
                _note_stored(stored, piece)
            if with_groups:
                found.groups |= _groups_of(piece)
    found.stored = {queue: sequences.ranges() for queue, sequences in stored.items()}
    found.entries, found.members = entries.ranges(), entries.members


def _follow(found: FileEvidence, piece: ColumnPiece) -> None:
    rows, columns = piece.records
    kinds, indexes = (values(RECORDS[at], rows, columns[at]) for at in (KIND, INDEX))
    for kind, index in zip(kinds, indexes, strict=True):
        if kind in COUNTED_KINDS:
            if found.last is not None and index != found.last + 1:
                found.gaps.append(_gap(found.node, found.last, index))
            found.first = index if found.first is None else found.first
            found.last = index


def _groups_of(piece: ColumnPiece) -> set[int]:
    rows, columns = piece.records
    kinds, writers = (values(RECORDS[at], rows, columns[at]) for at in (KIND, WRITER))
    return {writer for kind, writer in zip(kinds, writers, strict=True) if kind in GROUPS_GO_ON}


def _gap(node: str, last: int, index: int) -> str:
    if index <= last:
        return f"record {index} of the classic queues of {node} is in the log twice"
    return f"records {last + 1} to {index - 1} of the classic queues of {node} are missing"


def _note_stored(stored: dict[int, SequenceSet], piece: ColumnPiece) -> None:
    for row in rows_of(PUBLISHES, publishes(piece.buffer, piece.base, piece.records, b"")):
        stored.setdefault(row["queue"], SequenceSet()).add(row["pos"], row["pos"] + row["count"])


def log_evidence(
    found: Iterable[FileEvidence],
    directories: Iterable[tuple[str, str]],
    changed: bool,
    missing: Iterable[MissingFiles] = (),
) -> LogEvidence:
    """All files, and what the queues of these data directories, each with its node, have moved out of the log. `missing`: files
    of these logs."""
    found, directories = list(found), list(directories)
    stored: dict[int, SequenceSet] = {}
    gaps: list[str] = []
    from_the_first = True
    lasts: dict[str, int] = {}
    for node, files in groupby(sorted(found, key=attrgetter("node", "number")), attrgetter("node")):
        last: int | None = None
        for file in files:
            gaps += file.gaps
            for queue, ranges in file.stored.items():
                _add(stored, queue, ranges)
            if file.first is None or file.last is None:
                continue
            if last is not None and file.first != last + 1:
                gaps.append(_gap(node, last, file.first))
            from_the_first &= last is not None or file.first == FIRST_INDEX
            last = file.last
        lasts[node] = last or 0
    exported, unlisted = [], []
    for node, directory in directories:
        if export_of(directory) is not None:
            exported.append(node)
        disk = OsDisk(directory, read_only=True)
        gaps += _end_missing(disk, node, lasts.get(node, 0))
        contents = {one for file in found if file.node == node for one in file.contents}
        try:
            for queue, ranges in moved_out(disk, contents):
                _add(stored, queue, ranges)
        except Corrupt:
            unlisted.append(node)
    members = [one for file in found for one in file.members]
    members += [one for _, directory in directories for one in listed_members(directory)]
    return LogEvidence(
        gaps, from_the_first, changed, stored, exported, unlisted, _entries(found), unread_voters(members),
        cut_offs(missing, ((one.node, one.number, one.groups) for one in found)),
    )  # fmt: skip


def _entries(found: Iterable[FileEvidence]) -> dict[GroupTerm, SequenceSet]:
    """Of all nodes."""
    entries: dict[GroupTerm, SequenceSet] = {}
    for file in found:
        for key, ranges in file.entries.items():
            for start, end in ranges:
                entries.setdefault(key, SequenceSet()).add(start, end)
    return entries


def _add(stored: dict[int, SequenceSet], queue: int, ranges: Iterable[Range]) -> None:
    sequences = stored.setdefault(queue, SequenceSet())
    for start, end in ranges:
        sequences.add(start, end)


def _end_missing(disk: Disk, node: str, last: int) -> Iterator[str]:
    """A node that was stopped in order has left how many records it had written. What is damaged says as little as after a
    crash, to a start as well."""
    with suppress(FileNotFoundError, Corrupt):
        next_index = clean_stop.decode(snapshot_file.load(disk, names.CLASSIC_CLEAN_STOP)).next_index
        if next_index > last + 1:
            yield _gap(node, last, next_index)


def moved_out(disk: Disk, contents: Container[StoreId]) -> Iterator[tuple[int, list[Range]]]:
    """Of each queue the messages whose contents lie in files of their own or in the shared store, which has these contents, and
    which are not settled there. Raises Corrupt where the list of these files is damaged, or gone: a start makes it anew."""
    if not disk.exists(names.CLASSIC_FILES) and has_files(disk):
        raise Corrupt(names.CLASSIC_FILES, 0, 0, "it is not there, and files of queues are")
    for queue, (directory, segments) in load_manifest(disk).queues.items():
        held = SequenceSet()
        for number in segments:
            with suppress(FileNotFoundError):
                loaded = read_segment(disk.read_file(names.index_segment(directory, number)), queue, number)
                bodies = _sound_bodies(disk, names.body_file(directory, number))
                for fields in loaded.entries:
                    _hold(held, fields, bodies, contents)
                for start, end in loaded.settled:
                    held.remove(start, end)
        yield queue, held.ranges()


def _hold(held: SequenceSet, fields: Fields, bodies: Mapping[int, int], contents: Container[StoreId]) -> None:
    first, count, left_out, _, kind, flags, _, _, size, place, place_2 = fields[:11]
    if kind == IN_LOG or not flags & PERSISTENT:
        return
    is_there = bodies.get(place) == size if kind == IN_BODY else (place, place_2) in contents
    if is_there:
        held.add(first + left_out, first + count)


def _sound_bodies(disk: Disk, name: str) -> dict[int, int]:
    """By its place in the file, the size of each content that a queue would give out: its checksum is right."""
    try:
        found, _ = scan_on(disk.read_file(name))
    except FileNotFoundError:
        return {}
    return {start: end - start for *_, start, end in found}


def state_of_files(directories: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Size and time of all that a node's queues are kept in: whether it is another one after reading says whether the node was
    at work."""
    found: dict[str, tuple[int, int]] = {}
    for directory in directories:
        for below in (names.LOG_DIRECTORY, names.CLASSIC_DIRECTORY, names.STORE_PERSISTENT, names.RAFT_DIRECTORY):
            for path in (Path(directory) / below).rglob("*"):
                with suppress(FileNotFoundError):
                    status = path.stat()
                    found[str(path)] = (status.st_size, status.st_mtime_ns)
    return found
