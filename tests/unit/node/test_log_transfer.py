"""node/exporting/: which files an export has, how a transfer goes on, and what is left of a record without its contents."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import pytest

from broker.catalog.commands.metadata_entry import METADATA_GROUP
from broker.operations.entry_words import WITHHELD
from front.grpc.log_service import LogBegin, LogPart, LogUnread, LogWhole, WantedFile
from native import content
from native.columns import rows_of
from native.log_columns import publishes
from native.log_tables import PUBLISHES
from node.commands.wal_dump import dump_rows
from node.exporting.file_feed import withheld_pieces
from node.exporting.log_listing import DurableEnd, list_log
from node.exporting.log_rows import Row
from node.exporting.pace import BURST_S, Pace
from node.exporting.queue_rows import QueueRows
from node.exporting.transfer import transfer
from storage.history.column_reader import ColumnReader
from storage.names import group_snapshot, log_file
from storage.os_disk import OsDisk
from storage.record import Kind
from tests.unit.node.log_to_export import QUORUM_GROUP, LogToExport

SECRET, SHOWN = b"SECRET", b"SHOWN"


@pytest.fixture
def world(tmp_path: Path) -> Iterator[LogToExport]:
    made = LogToExport(tmp_path)
    yield made
    made.log.close()


class Received(NamedTuple):
    parts: list[LogPart]
    data: bytes

    @property
    def last(self) -> LogPart:
        return self.parts[-1]


def receive(world: LogToExport, wanted: WantedFile, *, without_bodies: bool = False) -> Received:
    steps = list(transfer(world.disk, wanted, world.durable, without_bodies=without_bodies))
    parts = [step.part for step in steps if step.part is not None]
    return Received(parts, b"".join(part for part in parts if isinstance(part, bytes)))


# ------------------------------------------------------------------ which files there are


def test_the_listing_ends_where_the_log_is_durable_and_each_file_where_its_last_record_does(world: LogToExport) -> None:
    world.publish(12)
    world.archive(1)
    found = list_log(world.disk, world.durable)
    numbers = [file.name for file in found.log]
    assert numbers == [f"archive/{1:020d}.log", *(log_file(number) for number in range(2, world.durable.file + 1))]
    assert [file.open for file in found.log] == [False] * (len(numbers) - 1) + [True]
    assert found.log[-1].size == world.durable.offset
    for file in found.log:
        assert (world.root / file.name).read_bytes()[file.size :].strip(b"\0") == b""
    assert found.gaps == []


def test_times_of_a_file_are_those_of_its_first_mark_and_of_its_successors(world: LogToExport) -> None:
    world.publish(12)
    files = list_log(world.disk, world.durable).log
    assert [one.last_us for one in files[:-1]] == [other.first_us for other in files[1:]]
    assert files[-1].last_us == 0 < files[0].first_us


def test_files_that_are_missing_between_others_are_named(world: LogToExport) -> None:
    world.publish(16)
    (world.root / log_file(2)).unlink()
    assert list_log(world.disk, world.durable).gaps == [(2, 2)]


def test_a_file_that_was_prepared_and_not_begun_is_not_listed(world: LogToExport) -> None:
    world.publish()
    (world.root / log_file(world.durable.file + 1)).write_bytes(bytes(100))
    assert [file.open for file in list_log(world.disk, world.durable).log] == [True]


def test_snapshots_come_first_and_each_once(world: LogToExport) -> None:
    world.publish()
    for name in (group_snapshot(7, 1), group_snapshot(7, 2), group_snapshot(7, 1).replace("raft/", "archive/")):
        (world.root / name).parent.mkdir(exist_ok=True)
        (world.root / name).write_bytes(b"snapshot")
    found = list_log(world.disk, world.durable).snapshots
    assert [file.name for file in found] == [group_snapshot(7, 1).replace("raft/", "archive/"), group_snapshot(7, 2)]


# ------------------------------------------------------------------ transfers


def test_a_file_comes_as_it_is_with_the_checksum_of_all_of_it(world: LogToExport) -> None:
    world.publish(12)
    there = (world.root / log_file(1)).read_bytes()
    received = receive(world, WantedFile(log_file(1)))
    assert there.startswith(received.data) and there[len(received.data) :].strip(b"\0") == b""
    assert received.parts[0] == LogBegin(log_file(1), 0)
    assert received.last == LogWhole(len(received.data), sha256(received.data).digest(), open=False)


@pytest.mark.parametrize("without_bodies", [False, True])
def test_a_transfer_that_was_cut_off_anywhere_goes_on_there(world: LogToExport, without_bodies: bool) -> None:
    world.every_kind()
    whole = receive(world, WantedFile(log_file(1)), without_bodies=without_bodies).data
    for cut in (1, 31, 100, len(whole) // 2, len(whole) - 1, len(whole)):
        wanted = WantedFile(log_file(1), cut, sha256(whole[:cut]).digest())
        received = receive(world, wanted, without_bodies=without_bodies)
        assert received.parts[0] == LogBegin(log_file(1), cut)
        assert received.data == whole[cut:]
        assert received.last == LogWhole(len(whole), sha256(whole).digest(), open=world.durable.file == 1)


def test_the_file_that_is_written_goes_on_where_it_had_ended(world: LogToExport) -> None:
    world.publish()
    before = receive(world, WantedFile(log_file(1)))
    assert isinstance(before.last, LogWhole) and before.last.open
    world.publish()
    received = receive(world, WantedFile(log_file(1), before.last.size, before.last.sha256))
    assert received.parts[0] == LogBegin(log_file(1), before.last.size)
    assert before.data + received.data == receive(world, WantedFile(log_file(1))).data


@pytest.mark.parametrize("offset", [5, 10_000_000])
def test_a_receiver_that_has_something_else_begins_again(world: LogToExport, offset: int) -> None:
    world.publish()
    received = receive(world, WantedFile(log_file(1), offset, sha256(b"something else").digest()))
    assert received.parts[0] == LogBegin(log_file(1), 0)
    assert received.data == receive(world, WantedFile(log_file(1))).data


def test_a_file_is_found_where_it_has_moved_to(world: LogToExport) -> None:
    world.publish(12)
    world.archive(1)
    assert receive(world, WantedFile(log_file(1))).parts[0] == LogBegin(f"archive/{1:020d}.log", 0)


@pytest.mark.parametrize("name", [log_file(9), group_snapshot(7, 1), "node.facts", "../secrets", "log/../node.facts"])
def test_what_is_not_there_or_none_of_the_log_is_gone(world: LogToExport, name: str) -> None:
    world.publish()
    assert receive(world, WantedFile(name)).parts == [LogUnread(name, "the node has deleted it", gone=True)]


def test_a_file_that_is_deleted_while_it_is_read_comes_to_its_end(world: LogToExport) -> None:
    world.publish(12)
    steps = transfer(world.disk, WantedFile(log_file(1)), world.durable, without_bodies=False)
    first = [next(steps) for _ in range(2)]
    (world.root / log_file(1)).unlink()
    assert isinstance(first[1].part, bytes)
    assert isinstance(list(steps)[-1].part, LogWhole)


# ------------------------------------------------------------------ contents withheld


def withheld(world: LogToExport, target: Path) -> Path:
    """All files of the log without contents, in a directory of their own."""
    (target / "log").mkdir(parents=True)
    for file in list_log(world.disk, world.durable).log:
        (target / file.name).write_bytes(receive(world, WantedFile(file.name), without_bodies=True).data)
    return target


def test_no_content_and_no_hash_is_left_and_all_else_is(world: LogToExport, tmp_path: Path) -> None:
    world.every_kind()
    files = sorted((withheld(world, tmp_path / "export") / "log").iterdir())
    data = b"".join(path.read_bytes() for path in files)
    assert data.count(SECRET) == 0
    assert data.count(SHOWN) == 7  # exchange and key of the classic and of two quorum publishes, who leads


def test_records_without_contents_are_whole_and_say_what_they_said(world: LogToExport, tmp_path: Path) -> None:
    world.every_kind()
    before = list(dump_rows(world.root))
    after = list(dump_rows(withheld(world, tmp_path / "export")))
    assert not [row for row in after if "finding" in row]
    assert [without_commands(row) for row in after] == [without_commands(row) for row in before]
    told = [row["commands"] for row in after if "commands" in row]
    assert [one["command"] for one in told[0]] == [
        WITHHELD,
        "declare queue 'q' in vhost '/', durable",
    ]


def without_commands(row: Row) -> Row:
    """A command that is withheld cannot be described. Records of later builds may."""
    return {name: value for name, value in row.items() if name != "commands"}


def test_runs_are_still_found_with_their_figures(world: LogToExport, tmp_path: Path) -> None:
    world.every_kind()

    def runs(root: Path) -> list[Row]:
        found = []
        for file in list_log(world.disk, world.durable).log:
            for piece in ColumnReader(OsDisk(str(root), read_only=True), file.name).pieces():
                groups = QUORUM_GROUP.to_bytes(8, "little")
                found += rows_of(PUBLISHES, publishes(piece.buffer, piece.base, piece.records, groups))
        return found

    without = withheld(world, tmp_path / "export")
    assert len(runs(world.root)) == 3
    assert runs(without) == runs(world.root)
    (piece,) = list(ColumnReader(OsDisk(str(without), read_only=True), log_file(1)).pieces())[:1]
    run = rows_of(PUBLISHES, publishes(piece.buffer, piece.base, piece.records, b""))[0]
    stored = content.messages(piece.buffer, run["content_at"] - piece.base, run["count"])
    assert [(len(props), len(body)) for props, body in stored] == [(20, 11)] * 3
    assert not any(props.strip(b"\0") or body.strip(b"\0") for props, body in stored)


def test_bytes_that_are_no_record_are_withheld(world: LogToExport) -> None:
    world.publish(4)
    path = world.root / log_file(1)
    data = bytearray(path.read_bytes())
    at = data.index(SECRET)
    data[at] ^= 1  # the record is damaged, and the rest of its content still there
    path.write_bytes(data)
    made = b"".join(withheld_pieces(world.disk, log_file(1), len(data)))
    assert len(made) == len(data)
    assert SECRET[1:] not in made
    assert made.count(SHOWN) == data.count(SHOWN) - 2


def test_whatever_byte_is_damaged_no_content_comes_out(world: LogToExport) -> None:
    world.every_kind()
    for number in range(1, world.durable.file + 1):
        path = world.root / log_file(number)
        whole = path.read_bytes()
        for at in range(0, len(whole.rstrip(b"\0")), 13):
            data = bytearray(whole)
            data[at] ^= 1
            path.write_bytes(data)
            made = b"".join(withheld_pieces(world.disk, log_file(number), len(data)))
            assert len(made) == len(data) and SECRET not in made, f"byte {at} of file {number}"
        path.write_bytes(whole)


def test_a_record_that_is_longer_than_a_piece_is_withheld_as_a_whole(world: LogToExport) -> None:
    world.write(200, 0, 0, [SECRET * 100_000])
    made = b"".join(
        withheld_pieces(world.disk, log_file(1), world.log.durable_end[1] or world.disk.open(log_file(1)).size())
    )
    assert SECRET not in made and len(made) > 600_000


def test_a_snapshot_of_the_catalog_is_left_out_without_bodies(world: LogToExport) -> None:
    name = group_snapshot(METADATA_GROUP, 1)
    world.publish()
    (world.root / name).parent.mkdir()
    (world.root / name).write_bytes(b"SECRET hash")
    (part,) = receive(world, WantedFile(name), without_bodies=True).parts
    assert isinstance(part, LogUnread) and "hashes" in part.reason and not part.gone
    assert receive(world, WantedFile(name)).data == b"SECRET hash"


@pytest.mark.parametrize("without_bodies", [False, True])
def test_a_snapshot_of_a_queue_has_no_bodies_and_comes_as_it_is(world: LogToExport, without_bodies: bool) -> None:
    name = group_snapshot(QUORUM_GROUP, 1)
    world.publish()
    (world.root / name).parent.mkdir()
    (world.root / name).write_bytes(b"what its machine is")
    assert receive(world, WantedFile(name), without_bodies=without_bodies).data == b"what its machine is"


# ------------------------------------------------------------------ pace and rows


def test_all_who_read_together_keep_to_one_rate() -> None:
    pace, now = Pace(1000), 50.0
    for _ in range(40):
        now += pace.take(100, now)
    assert now - 50.0 == pytest.approx(4.0 - BURST_S)


def test_time_without_readers_is_not_saved_up() -> None:
    pace = Pace(1000)
    pace.take(100, 0.0)
    assert pace.take(1000, 500.0) == pytest.approx(1.0 - BURST_S)


def test_rows_of_a_queue_are_those_that_name_its_number(world: LogToExport) -> None:
    world.every_kind()
    for name in ("q", "//q"):
        chosen = QueueRows(name)
        rows = [row for row in dump_rows(world.root) if chosen.has(row)]
        assert [(row["kind"], row["writer"] or row["index"]) for row in rows] == [
            (Kind.NAME.name, QUORUM_GROUP),
            (Kind.RAFT_ENTRIES.name, QUORUM_GROUP),
        ]


def test_what_is_not_durable_is_no_part_of_an_export(world: LogToExport) -> None:
    world.publish()
    early = DurableEnd(1, world.durable.offset - 40)
    assert list_log(world.disk, early).log[0].size == early.offset
    (whole,) = [
        step.part
        for step in transfer(world.disk, WantedFile(log_file(1)), early, without_bodies=False)
        if isinstance(step.part, LogWhole)
    ]
    assert whole.size == early.offset
