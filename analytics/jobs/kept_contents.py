"""Where nodes have contents of messages beside the records of classic queues: entries of quorum queues, and shared stores.

A start of a node finds an entry of a quorum queue in `log/` or in a segment of its group. Of copies of one index those of
another term are other messages, so entries are told by term. A content of the shared store is found by its id, which the index
of its queue has. What is counted here has a right checksum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from analytics.inputs import LogFile, segment_files
from analytics.queue_events import QUORUM, FileEvents, QueueEvent, QueueName
from native.columns import Table, numbers, values
from native.log_tables import EVENTS, RECORDS
from native.sequence_set import Range, SequenceSet
from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from raft.core.messages import MemberId
from raft.store.group_log import GroupLog
from raft.store.group_records import read_identity
from raft.store.groups_file import load as load_groups
from storage.history.column_reader import ColumnPiece
from storage.names import STORE_PERSISTENT, STORE_SUFFIX, number_of
from storage.os_disk import OsDisk
from storage.record import Kind

GroupTerm = tuple[int, int]  # of entries
StoreId = tuple[int, int]
_EVENT = {one.name: at for at, one in enumerate(EVENTS)}
_RECORD = {one.name: at for at, one in enumerate(RECORDS)}


class KeptEntries:
    """The entries of quorum queues in one file, piece by piece."""

    def __init__(self, file: LogFile, group: int | None) -> None:
        """`group`: whose segment it is; None: it is a file of the log, which names its groups."""
        self._said = FileEvents(file.number, is_segment=group is not None)
        self._group = group
        self._quorum = set[int]() if group is None else {group}
        self._found: dict[GroupTerm, SequenceSet] = {}
        self.members: list[KnownVoters] = []

    def note(self, piece: ColumnPiece, *, is_kept: bool = True) -> None:
        """`is_kept`: a start would look here; else only who belongs to the groups is noted."""
        said = self._said.said(piece)
        if self._group is None:
            self._quorum |= {one.queue for one in said if isinstance(one, QueueName) and one.kind == QUORUM}
            self.members += [_member(one) for one in said if isinstance(one, QueueEvent) and self._is_member(one)]
        if not (self._quorum and is_kept):
            return
        for group, term, first, end in _runs(self._said.events(piece)):
            if group in self._quorum:
                self._found.setdefault((group, term), SequenceSet()).add(first, end)

    def _is_member(self, event: QueueEvent) -> bool:
        return event.kind == Kind.RAFT_GROUP and event.queue in self._quorum

    def ranges(self) -> dict[GroupTerm, list[Range]]:
        return {key: entries.ranges() for key, entries in self._found.items()}


def _member(event: QueueEvent) -> KnownVoters:
    """What a record says that could be read: events of no others come of it."""
    identity = read_identity(event.queue, ByteReader(event.data))
    return KnownVoters(identity.group, identity.member, 0, tuple(identity.membership.voters))


def _runs(made: Table) -> Iterator[tuple[int, int, int, int]]:
    """Group, term, first and end of entries that stand one behind the other."""
    columns = (numbers(EVENTS[_EVENT[name]], made[1][_EVENT[name]]) for name in ("kind", "queue", "term", "place"))
    run: tuple[int, int, int, int] | None = None
    for kind, group, term, place in zip(*columns, strict=True):
        if kind != Kind.RAFT_ENTRIES:
            continue
        if run is not None and run[0] == group and run[1] == term and run[3] == place:
            run = (group, term, run[2], place + 1)
            continue
        if run is not None:
            yield run
        run = (group, term, place, place + 1)
    if run is not None:
        yield run


def store_ids(piece: ColumnPiece) -> Iterator[StoreId]:
    """Of the contents in a piece of a file of the shared store."""
    rows, columns = piece.records
    kinds, writers, indexes = (
        values(RECORDS[at], rows, columns[at]) for at in (_RECORD["kind"], _RECORD["writer"], _RECORD["index"])
    )
    for kind, writer, index in zip(kinds, writers, indexes, strict=True):
        if kind == Kind.CLASSIC_STORED:
            yield writer, index


class KnownVoters(NamedTuple):
    """What a node says of its member of a quorum queue."""

    group: int
    member: MemberId
    as_of: int  # the entry that says who belongs to the group; 0: the group began so
    voters: tuple[MemberId, ...]  # none: it joined later, and does not say


def listed_members(directory: str) -> list[KnownVoters]:
    """Those of a node's list of groups, which is as of some end of a file of the log. What is not to be read says nothing."""
    found = []
    for state in load_groups(OsDisk(directory, read_only=True))[0].states.values():
        with suppress(BadBytes):
            log = GroupLog.decode(state)
            index, membership = log.memberships[-1]
            if log.identity.machine == QUORUM:
                found.append(KnownVoters(log.identity.group, log.identity.member, index, tuple(membership.voters)))
    return found


def unread_voters(members: Iterable[KnownVoters]) -> dict[int, int]:
    """By group, how many voters are on nodes that were not read. A group of which nothing says who they are has one."""
    newest: dict[int, KnownVoters] = {}
    read: dict[int, set[MemberId]] = {}
    for one in members:
        read.setdefault(one.group, set()).add(one.member)
        if one.group not in newest or (bool(one.voters), one.as_of) > (
            bool(newest[one.group].voters),
            newest[one.group].as_of,
        ):
            newest[one.group] = one
    return {group: len({*one.voters} - read[group]) if one.voters else 1 for group, one in newest.items()}


def quorum_segments(directories: Iterable[tuple[str, str]]) -> list[LogFile]:
    """Those that these data directories, each with its node, have of quorum queues."""
    return [
        file
        for _, directory in directories
        for one in listed_members(directory)
        for file in segment_files(Path(directory), one.group)
    ]


def store_files(directories: Iterable[tuple[str, str]]) -> list[LogFile]:
    """Files of the shared stores of these data directories. They are no files of a log, and read like some."""
    found = []
    for node, directory in directories:
        for path in sorted(Path(directory, STORE_PERSISTENT).glob(f"*{STORE_SUFFIX}")):
            number = number_of(path.name, STORE_SUFFIX)
            with suppress(FileNotFoundError):
                name, size = str(path.relative_to(directory)), path.stat().st_size
                found.append(LogFile(node, directory, name, number or 0, size, is_last=False))
    return found
