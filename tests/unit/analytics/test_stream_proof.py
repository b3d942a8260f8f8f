"""Whether what streams have promised is accounted for, of logs that are whole and of logs that were tampered with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from analytics.inputs import log_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_MISSING, EXIT_UNKNOWN
from analytics.jobs.proof import ProofRow, code_of
from analytics.streams.stream_proof import stream_proofs
from raft.core.messages import EntryKind, Membership, SnapshotMeta
from raft.store.group_records import GroupIdentity, encode_identity
from raft.store.snapshots import write as write_snapshot
from storage.names import ARCHIVE_DIRECTORY, LOG_DIRECTORY, RAFT_DIRECTORY, log_file
from storage.os_disk import OsDisk
from storage.record import Kind
from storage.record import encode as encode_record
from stream.chunks.entries import ChunkEntry, LogEntry, RetentionCut, StoredOffsets, WriterPosition, encode
from stream.group.machine import StreamMachine
from tests.ledger.plain_proof import looked_at
from tests.unit.analytics.test_pursuit import log
from tests.unit.analytics.test_streams import GROUP, NAMED, START, chunk, entries

MEMBERSHIP = Membership((1, 2, 3))
NODES = {1: "n1", 2: "n2", 3: "n3"}
# Entry by entry from 2 on, behind that of a new leader. Offsets 0 to 11, of which retention cuts the first five.
WHOLE: tuple[LogEntry, ...] = (
    chunk(0, 5, publishers=[("till", 5)], ends_segment=True),
    chunk(5, 3, publishers=[("till", 8)]),
    StoredOffsets(START, (("bill", 6),)),
    RetentionCut(START, 5),
    chunk(8, 2, publishers=[("till", 11)]),
    chunk(10, 2),
)
FIRST = 2
Logs = dict[str, list[LogEntry | None]]  # None: that entry is missing


def record(kind: Kind, index: int = 0, payload: bytes = b"", term: int = 1) -> list[bytes]:
    return [bytes(part) for part in encode_record(kind, GROUP, index, [payload], term=term)]


def belongs(member: int) -> list[bytes]:
    identity = GroupIdentity(GROUP, member, "//s", "stream", MEMBERSHIP)
    return [*record(Kind.RAFT_GROUP, payload=encode_identity(identity)), *record(Kind.RAFT_FACTS)]


def write(data: Path, logs: Logs, first: int = FIRST) -> None:
    """The log of each node, an entry in a record. That it goes on in another file says that the first one is durable."""
    for member, node in NODES.items():
        if node in logs:
            begun = [NAMED, belongs(member), *([entries(1, kind=EntryKind.NOOP)] if first == FIRST else [])]
            log(data / node, 1, *begun, *(entries(first + at, one) for at, one in enumerate(logs[node]) if one))
            log(data / node, 2, NAMED)


def all_of(said: Sequence[LogEntry | None]) -> Logs:
    return {node: list(said) for node in NODES.values()}


def save_snapshot(data: Path, node: str, said: Sequence[LogEntry], number: int = 1) -> None:
    """As a member has it that has applied these entries."""
    machine = StreamMachine()
    for index, one in enumerate(said, FIRST):
        machine.apply(index, encode(one))
    meta = SnapshotMeta(machine.applied, 1, MEMBERSHIP, machine.version)
    (data / node / RAFT_DIRECTORY).mkdir(parents=True, exist_ok=True)
    live, state = machine.live_entries(), machine.snapshot()
    write_snapshot(OsDisk(str(data / node)), GROUP, number, meta, live, state)


def proved(data: Path) -> ProofRow:
    (row,) = stream_proofs(log_files([str(data)]), looked_at, tail=True)
    return row


def accounts(row: ProofRow) -> tuple[int, int, int, int, int]:
    return row.promised, row.cut, row.present, row.unknown, row.missing


def test_each_offset_is_cut_or_present(tmp_path: Path) -> None:
    write(tmp_path, all_of(WHOLE))
    row = proved(tmp_path)
    assert (row.name, row.why, accounts(row), code_of(row)) == ("//s", None, (12, 5, 7, 0, 0), EXIT_HOLDS)


def test_snapshots_that_say_the_same_prove_the_same(tmp_path: Path) -> None:
    write(tmp_path, all_of(WHOLE))
    save_snapshot(tmp_path, "n2", WHOLE[:2])
    save_snapshot(tmp_path, "n2", WHOLE, number=2)
    assert (proved(tmp_path).why, code_of(proved(tmp_path))) == (None, EXIT_HOLDS)


def test_what_was_said_again_counts_once(tmp_path: Path) -> None:
    """A chunk that is out of its place, for a leader lost what was before it, and one that had been stored already."""
    first, lost, again = (WriterPosition(1, 1, number) for number in (2, 6, 4))
    said = (
        chunk(0, 2, writers=[first]), chunk(4, 2, writers=[lost]), chunk(2, 2, writers=[again]),
        chunk(2, 2, writers=[again]), chunk(4, 2, writers=[lost]),
    )  # fmt: skip
    write(tmp_path, all_of(said))
    assert (proved(tmp_path).why, accounts(proved(tmp_path))) == (None, (6, 0, 6, 0, 0))


def test_below_a_snapshot_only_entries_that_count_have_to_be_there(tmp_path: Path) -> None:
    """Compaction has taken what retention cut."""
    write(tmp_path, all_of(WHOLE[1:]), first=FIRST + 1)
    assert "entries 1 to 2 are missing" in (proved(tmp_path).why or "")
    save_snapshot(tmp_path, "n1", WHOLE[:4])
    assert (proved(tmp_path).why, accounts(proved(tmp_path))) == (None, (12, 5, 7, 0, 0))


def test_what_a_snapshot_tells_of_and_no_node_has_is_missing(tmp_path: Path) -> None:
    write(tmp_path, all_of([*WHOLE[:4], None, WHOLE[5]]))
    save_snapshot(tmp_path, "n1", WHOLE)
    row = proved(tmp_path)
    assert (accounts(row), row.first_missing, code_of(row)) == ((12, 5, 5, 0, 2), [8, 9], EXIT_MISSING)


def test_what_a_snapshot_has_cut_is_told_from_what_is_missing_right_behind_it(tmp_path: Path) -> None:
    """Nothing before the last chunk was read: all of it was taken for cut."""
    write(tmp_path, all_of(WHOLE[5:]), first=FIRST + 5)
    save_snapshot(tmp_path, "n1", WHOLE)
    row = proved(tmp_path)
    assert (accounts(row), row.first_missing) == ((12, 5, 2, 0, 5), [5, 6, 7, 8, 9])


def test_what_is_cut_later_is_told_from_what_is_missing_right_behind_it(tmp_path: Path) -> None:
    """The snapshot tells of messages of which retention cuts some then, and none of them was read."""
    write(tmp_path, all_of(WHOLE[2:]), first=FIRST + 2)
    save_snapshot(tmp_path, "n1", WHOLE[:2])
    row = proved(tmp_path)
    assert (accounts(row), row.first_missing) == ((12, 5, 4, 0, 3), [5, 6, 7])


def test_what_is_archived_only_is_missing(tmp_path: Path) -> None:
    """No start of a node reads it there."""
    write(tmp_path, all_of(WHOLE))
    for node in NODES.values():
        (tmp_path / node / LOG_DIRECTORY).rename(tmp_path / node / ARCHIVE_DIRECTORY)
    row = proved(tmp_path)
    assert (accounts(row), row.first_missing, code_of(row)) == ((12, 5, 0, 0, 7), list(range(5, 12)), EXIT_MISSING)


def test_what_another_member_may_have_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, {"n1": [*WHOLE[:4], None, WHOLE[5]]})
    save_snapshot(tmp_path, "n1", WHOLE)
    row = proved(tmp_path)
    assert (row.unknown, row.missing, row.why) == (2, 0, "2 members were not read, which may have these")


def test_what_no_majority_is_known_to_have_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, {"n1": list(WHOLE)})
    row = proved(tmp_path)
    assert (row.unknown, code_of(row)) == (12, EXIT_UNKNOWN)
    assert "not known to be committed" in (row.why or "")


def test_a_deleted_stream_has_taken_its_messages_with_it(tmp_path: Path) -> None:
    write(tmp_path, all_of(WHOLE))
    for node in NODES.values():
        log(tmp_path / node, 2, record(Kind.RAFT_GROUP_REMOVED))
    row = proved(tmp_path)
    assert (accounts(row), row.purged, code_of(row)) == ((12, 5, 0, 0, 0), 7, EXIT_HOLDS)


# tampered with


def lose_a_chunk(logs: Logs) -> None:
    for said in logs.values():
        said[4] = None


def give_an_offset_twice(logs: Logs) -> None:
    for said in logs.values():
        said[4] = chunk(7, 2, publishers=[("till", 11)])


def change_a_body(logs: Logs) -> None:
    logs["n2"][4] = chunk(8, 2, body=b"x", publishers=[("till", 11)])


def damage_a_body(logs: Logs) -> None:
    whole = WHOLE[4]
    assert isinstance(whole, ChunkEntry)
    logs["n3"][4] = whole._replace(chunk=bytes(whole.chunk)[:-1] + b"x")


def take_a_publisher_back(logs: Logs) -> None:
    for said in logs.values():
        said[4] = chunk(8, 2, publishers=[("till", 7)])


def cut_without_saying_so(logs: Logs) -> None:
    for said in logs.values():
        said[3] = StoredOffsets(START, ())


def leave_out_the_offset_of_a_reader(logs: Logs) -> None:
    for said in logs.values():
        said[2] = StoredOffsets(START, (("bill", 5),))


def leave_out_offsets(logs: Logs) -> None:
    for said in logs.values():
        said[5] = chunk(11, 2)


@pytest.mark.parametrize(
    ("mutate", "why"),
    [
        (lose_a_chunk, "entries 6 to 6 are missing"),
        (give_an_offset_twice, "entry 6 gives offset 7 again"),
        (change_a_body, "entry 6 of n2 differs from that of n1"),
        (damage_a_body, "n3 has an entry 6 of which the checksum of the chunk at offset 8 differs"),
        (take_a_publisher_back, "publisher 'till' goes back from number 8 to 7 at entry 6"),
        (cut_without_saying_so, "begins with offset 5, and no entry has cut the messages from offset 0 on"),
        (leave_out_the_offset_of_a_reader, "was made of other entries than the log has"),
        (leave_out_offsets, "the chunk at offset 11 does not follow on what is before it"),
    ],
)
def test_a_log_that_was_tampered_with_proves_nothing(tmp_path: Path, mutate: Callable[[Logs], None], why: str) -> None:
    logs = all_of(WHOLE)
    mutate(logs)
    write(tmp_path, logs)
    if mutate in (cut_without_saying_so, leave_out_the_offset_of_a_reader):
        save_snapshot(tmp_path, "n1", WHOLE)
    row = proved(tmp_path)
    assert (why in (row.why or ""), code_of(row)) == (True, EXIT_UNKNOWN), row.why


def test_a_file_that_is_missing_behind_the_last_that_tells_of_it_may_have_had_its_end(tmp_path: Path) -> None:
    """What came last lay in it, and nothing behind it says so: all that was read before was called all there was."""
    write(tmp_path, all_of(WHOLE))
    log(tmp_path / "n2", 3, NAMED)
    assert proved(tmp_path).why is None
    (tmp_path / "n2" / log_file(2)).unlink()
    row = proved(tmp_path)
    why = "file 2 of the log of n2 is missing, and may have had the last entries"
    assert (row.why, code_of(row)) == (why, EXIT_UNKNOWN)
    log(tmp_path / "n2", 3, NAMED, record(Kind.RAFT_COMMIT, FIRST + len(WHOLE) - 1))
    assert (proved(tmp_path).why, accounts(proved(tmp_path))) == (None, (12, 5, 7, 0, 0))
