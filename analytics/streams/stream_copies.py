"""All that nodes have of their streams: in the log, in segments that were moved out of it, and in snapshots."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from analytics.fold.stream_log import StreamLog, folded_stream
from analytics.inputs import LogFile, SnapshotFile, segment_files, snapshots_of
from analytics.queue_events import STANDING_PLACE, STREAM, QueueEvent, fold_order
from analytics.read_snapshots import snapshot_said
from analytics.streams.stream_look import (
    FileStreams,
    LoggedReader,
    LoggedStreamEntry,
    ReaderKey,
    look_for_streams,
)
from raft.core.errors import BadBytes
from raft.store.group_log import GroupLog
from raft.store.group_records import GroupIdentity, encode_identity
from raft.store.groups_file import load as load_groups
from storage.os_disk import OsDisk
from storage.record import Kind

LOGGED_LATER = 1  # what a node's own log says of its member is younger than what this says

Each = Callable[[Callable[[LogFile], FileStreams], Sequence[LogFile]], list[FileStreams]]


class StreamOnNode(NamedTuple):
    """A node's member of a stream, as the node's list of groups has it."""

    node: str
    directory: str
    identity: GroupIdentity
    term: int

    def events(self) -> Iterator[QueueEvent]:
        """What the log has said once, in files that are gone by now."""
        group, data = self.identity.group, encode_identity(self.identity)
        said = QueueEvent(group, STANDING_PLACE, self.term, Kind.RAFT_GROUP, None, LOGGED_LATER, data, node=self.node)
        yield said
        yield said._replace(kind=Kind.RAFT_FACTS)

    def segments(self) -> list[LogFile]:
        return segment_files(Path(self.directory), self.identity.group)


class EntryCopy(NamedTuple):
    """One node's copy of an entry."""

    node: str
    is_archived: bool
    entry: LoggedStreamEntry


@dataclass(slots=True)
class StreamCopies:
    """Of one stream."""

    group: int
    name: str
    entries: list[EntryCopy] = field(default_factory=list)
    standing: list[QueueEvent] = field(default_factory=list)
    snapshots: list[SnapshotFile] = field(default_factory=list)
    readers: list[LoggedReader] = field(default_factory=list)  # consumers that still read

    def folded(self) -> StreamLog:
        states = [said for file in self.snapshots for said in snapshot_said(file) or ()]
        entries = [copy.entry.event(self.group, copy.node) for copy in self.entries]
        return folded_stream(sorted([*self.standing, *states, *entries], key=fold_order))


class StreamsRead(NamedTuple):
    """Of all streams, by name; and what was read for that."""

    streams: list[StreamCopies]
    files: list[LogFile]
    seen: list[FileStreams]


def read_streams(
    files: Sequence[LogFile], each: Each, *, tail: bool, only: Container[int] | None = None
) -> StreamsRead:
    """`files`: of the logs. `each` does something with each of several files, wherever that is done. `only`: the groups of
    the streams whose segments are read, too; None: of all."""
    directories = sorted({(file.node, file.directory) for file in files})
    members = [one for one in stream_members(directories) if only is None or one.identity.group in only]
    looked_at, seen = _looked_at(files, members, each, tail=tail)
    found = {member.identity.group: StreamCopies(member.identity.group, member.identity.name) for member in members}
    for file in seen:
        for group, name in file.names.items():
            found.setdefault(group, StreamCopies(group, name))
    for member in members:
        found[member.identity.group].standing += member.events()
    _share_out(seen, found)
    for _, directory in directories:
        for snapshot in snapshots_of(Path(directory)):
            if snapshot.group in found:
                found[snapshot.group].snapshots.append(snapshot)
    return StreamsRead(sorted(found.values(), key=attrgetter("name", "group")), looked_at, seen)


def _looked_at(
    files: Sequence[LogFile], members: Sequence[StreamOnNode], each: Each, *, tail: bool
) -> tuple[list[LogFile], list[FileStreams]]:
    """All files, and what they have. A running node puts segments in the place of others: what is left of these is in new ones,
    which are there before the old ones go."""
    looked_at: list[LogFile] = []
    seen: list[FileStreams] = []
    known: set[tuple[str, str]] = set()
    new = [*files, *(file for member in members for file in member.segments())]
    while new:
        looked_at += new
        seen += each(partial(look_for_streams, tail=tail), new)
        known |= {(file.directory, file.name) for file in new}
        segments = (file for member in members for file in member.segments())
        new = [file for file in segments if (file.directory, file.name) not in known]
    return looked_at, seen


def stream_members(directories: Iterable[tuple[str, str]]) -> list[StreamOnNode]:
    """Those that the lists of groups of these nodes have."""
    return [member for node, directory in directories for member in _members_of(node, directory)]


def _members_of(node: str, directory: str) -> list[StreamOnNode]:
    """What is not to be read says nothing."""
    found = []
    for state in load_groups(OsDisk(directory, read_only=True))[0].states.values():
        with suppress(BadBytes):
            log = GroupLog.decode(state)
            if log.identity.machine == STREAM:
                found.append(StreamOnNode(node, directory, log.identity, log.facts.term))
    return found


def _share_out(seen: Iterable[FileStreams], found: dict[int, StreamCopies]) -> None:
    for file in seen:
        for group, entries in file.entries.items():
            copies = found[group].entries
            copies += [EntryCopy(file.file.node, file.is_archived, entry) for entry in entries]
        for event in file.standing:
            if event.queue in found:
                found[event.queue].standing.append(event)
    for reader in _still_reading(seen):
        if reader.stream in found:
            found[reader.stream].readers.append(reader)


def _still_reading(seen: Iterable[FileStreams]) -> list[LoggedReader]:
    """On each node those of its last process that have not left, in the order in which they came."""
    nodes: dict[str, dict[ReaderKey, LoggedReader]] = {}
    for one in seen:
        nodes.setdefault(one.file.node, {}).update(one.readers)
    found: list[LoggedReader] = []
    for readers in nodes.values():
        last = max((key.incarnation for key in readers), default=0)
        found += [one for key, one in sorted(readers.items()) if key.incarnation == last and not one.has_left]
    return found
