"""How the doctor (storage/doctor.py) reads the files of groups. All of them are replaced or written as a whole, so whatever is
wrong with one is damage. Which must be there is looked at by raft/store/missing_files.py."""

from __future__ import annotations

from collections.abc import Iterator

from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from raft.core.packs import lengths_in
from raft.store import groups_file, snapshots
from raft.store.group_log import GroupLog
from raft.store.group_records import decode_member, read_identity
from raft.store.kept_logs import verify_entries
from raft.store.missing_files import missing_files
from storage import doctor, snapshot_file
from storage.disk import Disk
from storage.errors import Corrupt, TornTail
from storage.names import KEPT_SUFFIX, RAFT_GROUPS, SEGMENT_SUFFIX, SNAPSHOT_SUFFIX, group_file_of
from storage.record import Kind
from storage.segment import Segment

GROUPS_NAMES = {name.rpartition("/")[2] for name in RAFT_GROUPS}


def dump_groups(disk: Disk, name: str) -> Iterator[doctor.Row]:
    found = groups_file.decode(name, snapshot_file.load(disk, name))
    yield {"generation": found.generation, "first_file": found.first_file, "next_number": found.next_number}
    for group, state in found.states.items():
        log = GroupLog.decode(state)
        yield {
            "group": group,
            "name": log.identity.name,
            "machine": log.identity.machine,
            "member": log.identity.member,
            "term": log.facts.term,
            "vote": log.facts.vote,
            "snapshot": log.snapshot.meta.index,
            "snapshot_file": log.snapshot.file,
            "first": log.first,
            "last": log.last,
            "voters": log.memberships[-1][1].voters,
            "learners": log.memberships[-1][1].learners,
            "segments": [row._asdict() for row in found.segments[group]],
        }


def verify_groups(disk: Disk, name: str) -> Iterator[doctor.Finding]:
    found = groups_file.decode(name, snapshot_file.load(disk, name))
    for group, state in found.states.items():
        try:
            GroupLog.decode(state)
        except BadBytes as error:
            yield doctor.Finding(name, 0, len(state), True, f"group {group}: {error}")


def verify_segment(disk: Disk, name: str) -> Iterator[doctor.Finding]:
    group = group_of(name, SEGMENT_SUFFIX)
    try:
        segment = Segment(disk, name)
    except TornTail as error:  # it took its name when it was sealed
        raise Corrupt(name, error.whole, error.size - error.whole, "its end is not what was written") from error
    try:
        kept = name.removesuffix(SEGMENT_SUFFIX) + KEPT_SUFFIX
        verify_entries(disk, group, (name, kept), segment.records())
        if not segment.sealed:
            yield doctor.Finding(name, 0, 0, True, "its end is missing")
    finally:
        segment.close()


def verify_snapshot(disk: Disk, name: str) -> Iterator[doctor.Finding]:
    snapshots.read_whole(disk, name, group_of(name, SNAPSHOT_SUFFIX))
    yield from ()


def describe_group(payload: memoryview) -> doctor.Row:
    reader = ByteReader(payload)
    identity = read_identity(0, reader)
    reader.must_end()
    return {"member": identity.member, "name": identity.name, "machine": identity.machine}


def describe_entries(payload: memoryview) -> doctor.Row:
    lengths = lengths_in(payload)
    return {"entries": len(lengths), "bytes": sum(lengths)}


def register_description(kind: Kind, what: doctor.Describe) -> None:
    """What a record says, or that its bytes are none: that is a ValueError to the doctor."""

    def described(payload: memoryview) -> doctor.Row:
        try:
            return what(payload)
        except BadBytes as error:
            raise ValueError(str(error)) from error

    doctor.describe(kind, described)


def group_of(name: str, suffix: str) -> int:
    found = group_file_of(name, suffix)
    assert found is not None, f"{name} was claimed by its name"
    return found[0]


doctor.register_list(missing_files)
doctor.register(doctor.Format("groups", lambda name: name in GROUPS_NAMES, dump_groups, verify_groups))
doctor.register(
    doctor.Format(
        "group segment",
        lambda name: group_file_of(name, SEGMENT_SUFFIX) is not None,
        doctor.dump_records,
        verify_segment,
    )
)
doctor.register(
    doctor.Format(
        "group snapshot",
        lambda name: group_file_of(name, SNAPSHOT_SUFFIX) is not None,
        doctor.dump_records,
        verify_snapshot,
    )
)
doctor.register(
    doctor.Format(
        "kept log",
        lambda name: group_file_of(name, KEPT_SUFFIX) is not None,
        doctor.dump_records,
        doctor.verify_log_file,
    )
)
register_description(Kind.RAFT_GROUP, describe_group)
register_description(Kind.RAFT_FACTS, lambda payload: {"vote": decode_member(payload)})
register_description(Kind.RAFT_RENUMBERED, lambda payload: {"member": decode_member(payload)})
register_description(Kind.RAFT_ENTRIES, describe_entries)
