"""Where nodes have contents beside the records of classic queues, and who of a group's voters was read."""

from __future__ import annotations

from pathlib import Path

from analytics.inputs import LogFile, segment_group
from analytics.jobs.kept_contents import (
    KeptEntries,
    KnownVoters,
    listed_members,
    quorum_segments,
    store_files,
    store_ids,
    unread_voters,
)
from raft.core import packs
from raft.core.messages import EntryKind, Membership
from raft.store.group_log import GroupLog
from raft.store.group_records import GroupIdentity, encode_identity
from raft.store.groups_file import GroupsFile
from storage.history.name_records import NameRow, encode_name
from storage.names import STORE_PERSISTENT, group_kept_log, group_segment, store_file
from storage.os_disk import OsDisk
from storage.record import Kind
from storage.record import encode as encode_record
from tests.unit.analytics.test_queue_history import piece

FIRST, SECOND, STREAM, STRANGER = (1 << 32 | number for number in (1, 2, 3, 4))
FILE = LogFile("n1", "/nowhere", "log/1.log", 1, 100, is_last=True)


def entries(group: int, index: int, term: int = 1, count: int = 1) -> list[bytes]:
    payload = packs.encode([b"data"] * count)
    return encode_record(Kind.RAFT_ENTRIES, group, index, [payload], flags=EntryKind.COMMAND, term=term)  # type: ignore[return-value]


def named(group: int, kind: str) -> list[bytes]:
    return encode_record(Kind.NAME, 0, group, [encode_name(NameRow(kind, "/", "q"))])  # type: ignore[return-value]


def identity(group: int, member: int, kind: str = "quorum") -> GroupIdentity:
    return GroupIdentity(group, member, "//q", kind, Membership((1, 2, 3)))


def belongs(group: int, member: int, kind: str = "quorum") -> list[bytes]:
    return encode_record(Kind.RAFT_GROUP, group, 0, [encode_identity(identity(group, member, kind))])  # type: ignore[return-value]


def test_entries_that_follow_on_each_other_are_one_range_of_their_queue_and_term() -> None:
    kept = KeptEntries(FILE, None)
    kept.note(piece(named(FIRST, "quorum"), named(SECOND, "quorum"), named(STREAM, "stream")))
    kept.note(
        piece(
            entries(FIRST, 1, count=3), entries(FIRST, 4), entries(FIRST, 5, term=2), entries(SECOND, 6, term=2),
            entries(FIRST, 7, term=2), entries(STREAM, 8), entries(STRANGER, 9), entries(FIRST, 8, term=2),
            entries(FIRST, 6, term=2),
        )
    )  # fmt: skip
    assert kept.ranges() == {(FIRST, 1): [(1, 5)], (FIRST, 2): [(5, 9)], (SECOND, 2): [(6, 7)]}


def test_records_of_classic_queues_among_entries_are_none() -> None:
    kept = KeptEntries(FILE, None)
    queue = FIRST.to_bytes(8, "little")
    deleted = encode_record(Kind.CLASSIC_QUEUE_DELETED, 0, 1, [queue])
    kept.note(piece(named(FIRST, "quorum"), entries(FIRST, 1), deleted))  # type: ignore[arg-type]
    assert kept.ranges() == {(FIRST, 1): [(1, 2)]}


def test_a_segment_is_of_one_group_whatever_lies_in_it() -> None:
    """A file of the log that was kept for it has records of all."""
    kept = KeptEntries(FILE, FIRST)
    kept.note(piece(named(SECOND, "quorum"), belongs(FIRST, 2), entries(FIRST, 1), entries(SECOND, 1)))
    assert (kept.ranges(), kept.members) == ({(FIRST, 1): [(1, 2)]}, [])


def test_of_a_file_that_no_start_reads_only_who_belongs_to_the_groups_counts() -> None:
    kept = KeptEntries(FILE, None)
    facts = encode_record(Kind.RAFT_FACTS, FIRST, 0, [], term=3)
    found = piece(belongs(FIRST, 2), belongs(STREAM, 3, "stream"), facts, entries(FIRST, 1))  # type: ignore[arg-type]
    kept.note(found, is_kept=False)
    assert (kept.ranges(), kept.members) == ({}, [KnownVoters(FIRST, 2, 0, (1, 2, 3))])


def test_contents_of_a_shared_store_are_told_by_their_ids() -> None:
    stored = [encode_record(Kind.CLASSIC_STORED, 1 << 60 | at, 2 * at, [b"content"]) for at in (3, 4)]
    other = encode_record(Kind.CLASSIC_SETTLE, 9, 9, [bytes(8)])
    assert list(store_ids(piece(stored[0], other, stored[1]))) == [(1 << 60 | 3, 6), (1 << 60 | 4, 8)]  # type: ignore[arg-type]


def test_voters_of_whom_nothing_was_read_are_counted_as_the_newest_word_of_them_says() -> None:
    known = [
        KnownVoters(FIRST, 1, 5, (1, 2, 3)), KnownVoters(FIRST, 2, 9, (1, 2, 4, 5)), KnownVoters(FIRST, 7, 99, ()),
        KnownVoters(SECOND, 1, 0, ()), KnownVoters(STRANGER, 1, 0, (1,)),
    ]  # fmt: skip
    for order in (known, known[::-1]):
        assert unread_voters(order) == {FIRST: 2, SECOND: 1, STRANGER: 0}


def test_who_belongs_to_quorum_queues_is_what_the_list_of_groups_says_last(tmp_path: Path) -> None:
    """Of other groups, and of one that cannot be read, it says nothing."""
    directory = tmp_path / "n1"
    (directory / "raft").mkdir(parents=True)
    log = GroupLog(identity(FIRST, 2))
    log.memberships.append((7, Membership((1, 2))))
    stream = GroupLog(identity(STREAM, 3, "stream"))
    states = {SECOND: GroupLog(identity(SECOND, 2)).encode()[:-1], STREAM: stream.encode(), FIRST: log.encode()}
    GroupsFile(generation=1, states=states).save(OsDisk(str(directory)))
    assert listed_members(str(directory)) == [KnownVoters(FIRST, 2, 7, (1, 2))]
    assert listed_members(str(tmp_path)) == []


def test_segments_of_quorum_queues_are_those_of_their_groups_each_with_the_log_that_was_kept_for_it(
    tmp_path: Path,
) -> None:
    directory = tmp_path / "n1"
    (directory / "raft").mkdir(parents=True)
    states = {FIRST: GroupLog(identity(FIRST, 2)).encode(), STREAM: GroupLog(identity(STREAM, 1, "stream")).encode()}
    GroupsFile(generation=1, states=states).save(OsDisk(str(directory)))
    wanted = [group_segment(FIRST, 3), group_segment(FIRST, 4), group_kept_log(FIRST, 4), group_segment(FIRST, 10)]
    others = [group_segment(SECOND, 3), group_segment(STREAM, 3), group_kept_log(FIRST, 5), "raft/noise.seg"]
    for size, name in enumerate([*wanted[::-1], *others], 1):
        (directory / name).write_bytes(bytes(size))
    found = quorum_segments([("n1", str(directory))])
    assert [(one.name, one.number, one.size) for one in found] == list(
        zip(wanted, (3, 4, 4, 10), (4, 3, 2, 1), strict=True)
    )
    assert {(one.node, one.directory, one.is_last, segment_group(one)) for one in found} == {
        ("n1", str(directory), False, FIRST)
    }
    assert segment_group(FILE) is None


def test_files_of_a_shared_store_are_found_in_their_order(tmp_path: Path) -> None:
    directory = tmp_path / "n1"
    (directory / STORE_PERSISTENT).mkdir(parents=True)
    for number in (11, 2):
        (directory / store_file(STORE_PERSISTENT, number)).write_bytes(bytes(number))
    (directory / STORE_PERSISTENT / "other").write_bytes(b"x")
    names = [store_file(STORE_PERSISTENT, number) for number in (2, 11)]
    assert store_files([("one", str(directory)), ("two", str(tmp_path))]) == [
        LogFile("one", str(directory), name, number, number, is_last=False)
        for name, number in zip(names, (2, 11), strict=True)
    ]
