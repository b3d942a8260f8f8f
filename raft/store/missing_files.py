"""Which files of groups are not there, for the doctor (storage/doctor.py), though the files of groups name them.

A segment and a copy of the file of groups are never deleted before the lists that count have let go of them: what is named and
missing is lost. A snapshot goes as soon as the log has the next one, which the file of groups may not know of yet: it is missed
where none with a higher number is there.
"""

from __future__ import annotations

from collections.abc import Iterator

from raft.core.errors import BadBytes
from raft.store import groups_file
from raft.store.group_log import GroupLog
from raft.store.group_records import SegmentRow
from raft.store.groups_file import GroupsFile
from storage import fact_file
from storage.disk import size_of
from storage.doctor import Finding
from storage.errors import Corrupt
from storage.names import (
    LOG_FACTS,
    RAFT_DIRECTORY,
    RAFT_GROUPS,
    SEGMENT_SUFFIX,
    SNAPSHOT_SUFFIX,
    group_file_of,
    group_segment,
    group_snapshot,
)
from storage.os_disk import OsDisk


def missing_files(disk: OsDisk) -> Iterator[Finding]:
    """See the module, and register_list of the doctor."""
    found, _ = groups_file.load(disk)
    if not found.generation:
        yield from _without_any_list(disk)
        return
    yield from _missing_copies(disk, found)
    for group, state in found.states.items():
        try:
            log = GroupLog.decode(state)
        except BadBytes:
            continue  # it is found in the file of groups
        title = f"group {group} ('{log.identity.name}')"
        for row in found.segments[group]:
            yield from _segment(disk, group, title, row)
        yield from _snapshot(disk, group, title, log.snapshot.file)


def _without_any_list(disk: OsDisk) -> Iterator[Finding]:
    groups = {group for suffix in (SEGMENT_SUFFIX, SNAPSHOT_SUFFIX) for group, _ in _files(disk, suffix)}
    for name in RAFT_GROUPS if groups else ():
        if not disk.exists(name):
            why = (
                f"it is missing, and no copy of it is left: nothing says what the files of {len(groups)} groups are. The next "
                f"start puts them into the quarantine, and this node has none of these groups any more"
            )
            yield Finding(disk.path(name), 0, 0, True, why)


def _missing_copies(disk: OsDisk, found: GroupsFile) -> Iterator[Finding]:
    """Both are written in turn, so there are two from the second time on. Where the log has let go of more than this copy tells
    of, there was a second time."""
    other = RAFT_GROUPS[(found.generation + 1) % 2]
    if not disk.exists(other) and (found.generation > 1 or _log_begins_at(disk) > found.first_file):
        why = "it is missing, one of two copies: what only this one told of groups and the log has let go of is lost"
        yield Finding(disk.path(other), 0, 0, True, why)


def _log_begins_at(disk: OsDisk) -> int:
    """The first file of the log; 0: unknown."""
    try:
        return int((fact_file.load(disk, LOG_FACTS) or {}).get("first_file", 0))
    except Corrupt:
        return 0


def _segment(disk: OsDisk, group: int, title: str, row: SegmentRow) -> Iterator[Finding]:
    entries = f"entries of {title} from {row.first} to {row.last}"
    for name in row.files(group):
        if not disk.exists(name):
            why = f"the file is missing: {entries} that were in it are lost on this node"
            yield Finding(disk.path(name), 0, 0, True, why)
        elif name == group_segment(group, row.number) and (size := size_of(disk, name)) != row.file_size:
            offset, length = min(size, row.file_size), abs(size - row.file_size)
            sizes = f"{row.file_size} bytes were written, {size} are there"
            why = f"{sizes}: {entries} that are damaged in it are lost on this node"
            yield Finding(disk.path(name), offset, length, True, why)


def _snapshot(disk: OsDisk, group: int, title: str, number: int) -> Iterator[Finding]:
    there = [one for of, one in _files(disk, SNAPSHOT_SUFFIX) if of == group and one >= number]
    if number and not there:
        name = disk.path(group_snapshot(group, number))
        yield Finding(
            name, 0, 0, True, f"the file is missing: what {title} was before its log begins is lost on this node"
        )


def _files(disk: OsDisk, suffix: str) -> list[tuple[int, int]]:
    """Group and number of those that are there."""
    found = (group_file_of(name, suffix) for name in disk.list(RAFT_DIRECTORY))
    return [one for one in found if one is not None]
