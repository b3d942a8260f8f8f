"""storage/history/column_reader.py: it reads what a doctor reads, and tells damage from a torn end as a start does."""

from __future__ import annotations

from pathlib import Path

import pytest

from native.columns import rows_of
from native.log_columns import Found
from native.log_tables import RECORDS
from storage import doctor
from storage.disk import File
from storage.history import column_reader
from storage.history.column_reader import ColumnReader, DamagedRange, durable_end
from storage.names import log_file
from storage.os_disk import OsDisk
from storage.record import CLEAN_END, Kind
from storage.wal.facts import load_or_create
from storage.wal.log_core import LogCore, LogEnd
from storage.wal.writer import LogWriter
from tests.sim.clock import SimLoop
from tests.unit.storage.log_world import KIND, LOG_ID


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A log of several files; the last of them has room that was never written."""
    disk = OsDisk(str(tmp_path))
    core = LogCore(LOG_ID, LogEnd(0, 0, 0), 1000)
    log = LogWriter(
        core, disk, SimLoop(), load_or_create(disk, LOG_ID), on_failed=pytest.fail, commit_inline_bytes_max=None
    )
    for index in range(10):
        log.append(KIND, 3, index, [bytes([index + 1]) * 200])
        log.commit_now()
    log.close()
    return tmp_path


def read(
    directory: Path, number: int, *, is_followed: bool = False
) -> tuple[list[dict[str, object]], list[DamagedRange]]:
    disk = OsDisk(str(directory), read_only=True)
    reader = ColumnReader(disk, log_file(number), is_followed=is_followed)
    rows = [row for piece in reader.pieces() for row in rows_of(RECORDS, piece.records)]
    return rows, reader.damage


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_its_rows_are_those_of_a_dump(directory: Path) -> None:
    for path in sorted((directory / "log").iterdir()):
        rows, damage = read(directory, int(path.stem))
        dumped = list(doctor.dump(str(path)))
        assert [(row["offset"], row["size"]) for row in rows] == [(row["offset"], row["size"]) for row in dumped]
        assert damage == []


def test_records_longer_than_a_piece_come_whole(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = read(directory, 1)
    monkeypatch.setattr(column_reader, "PIECE_BYTES", 100)
    assert read(directory, 1) == whole


def test_what_is_written_between_two_looks_is_no_damage(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first finds nothing yet, the second one a mark behind that."""
    whole, look, looks = read(directory, 1), ColumnReader._read, [CLEAN_END]

    def early(reader: ColumnReader, file: File, size: int) -> tuple[bytes, Found]:
        buffer, found = look(reader, file, size)
        return buffer, (0, found[1], 0, looks.pop(), *found[4:]) if looks else found

    monkeypatch.setattr(ColumnReader, "_read", early)
    assert read(directory, 1) == whole
    assert not looks


@pytest.mark.parametrize("number", [1, 2])
def test_every_flipped_byte_costs_its_commit_and_is_found_as_the_doctor_finds_it(directory: Path, number: int) -> None:
    path = directory / log_file(number)
    healthy = path.read_bytes()
    used = len(healthy.rstrip(b"\0"))
    whole, _ = read(directory, number)
    marks = [row["offset"] for row in whole if row["kind"] == 1]
    for at in range(72, used, 7):
        flip(path, at)
        rows, damage = read(directory, number)
        judged = [(found.offset, found.length, not found.damage) for found in doctor.verify(str(path))]
        assert [(found.offset, found.length, found.torn) for found in damage] == judged
        assert len(damage) == 1 and damage[0].offset <= at < damage[0].offset + damage[0].length
        lost = [row for row in whole if row not in rows]
        assert all(damage[0].offset <= row["offset"] < damage[0].offset + damage[0].length for row in lost)  # type: ignore[operator]
        assert damage[0].torn == (at >= marks[-1])  # type: ignore[operator]
        path.write_bytes(healthy)


def test_in_a_file_that_another_one_follows_nothing_is_a_torn_end(directory: Path) -> None:
    path = directory / log_file(1)
    flip(path, len(path.read_bytes().rstrip(b"\0")) - 1)
    assert [found.torn for found in read(directory, 1)[1]] == [True]
    assert [found.torn for found in read(directory, 1, is_followed=True)[1]] == [False]


def test_an_unreadable_head_costs_a_file_alone_all_it_has_and_a_known_log_its_first_commit(directory: Path) -> None:
    path = directory / log_file(1)
    flip(path, 40)
    rows, damage = read(directory, 1)
    assert rows == [] and len(damage) == 1
    disk = OsDisk(str(directory), read_only=True)
    reader = ColumnReader(disk, log_file(1), column_reader.FilePlace(0, LOG_ID, 1))
    rows = [row for piece in reader.pieces() for row in rows_of(RECORDS, piece.records)]
    assert rows[0]["kind"] == 1 and [found.offset for found in reader.damage] == [0]


@pytest.mark.parametrize("at", [3, 40])
def test_an_unreadable_head_of_the_last_file_is_damage_and_no_end_of_what_is_durable(directory: Path, at: int) -> None:
    """No mark of such a file counts, so all of it was passed over without a word."""
    name = log_file(last_begun(directory))
    flip(directory / name, at)
    reader = ColumnReader(OsDisk(str(directory), read_only=True), name, until_durable=True)
    used = len((directory / name).read_bytes().rstrip(b"\0"))
    assert list(reader.pieces()) == []
    assert [(one.offset, one.length, one.torn) for one in reader.damage] == [(0, used, False)]


def test_a_file_that_grows_is_read_on_from_its_place(directory: Path, tmp_path: Path) -> None:
    whole, _ = read(directory, 1)
    path = directory / log_file(1)
    healthy = path.read_bytes()
    seen: list[dict[str, object]] = []
    place = None
    for length in [*range(0, len(healthy), 50), len(healthy)]:
        path.write_bytes(healthy[:length])
        reader = ColumnReader(OsDisk(str(directory), read_only=True), log_file(1), place)
        seen += [row for piece in reader.pieces() for row in rows_of(RECORDS, piece.records)]
        place = reader.place if reader.place.base else None
    assert seen == whole


def test_columns_of_the_doctor_are_for_files_of_records(directory: Path) -> None:
    reader = doctor.columns(str(directory / log_file(1)))
    assert sum(piece.records[0] for piece in reader.pieces()) == len(list(doctor.dump(str(directory / log_file(1)))))
    for name in ("log.facts", "notes.txt"):
        (directory / name).touch()
        with pytest.raises(ValueError, match="no file of records"):
            doctor.columns(str(directory / name))


def last_begun(directory: Path) -> int:
    return max(
        number for number in (int(path.stem) for path in (directory / "log").iterdir()) if read(directory, number)[0]
    )


def test_a_log_is_durable_as_far_as_its_last_mark_says(directory: Path) -> None:
    disk = OsDisk(str(directory), read_only=True)
    last = last_begun(directory)
    end = durable_end(disk, log_file(last))
    rows, _ = read(directory, last)
    assert 0 < end <= rows[-1]["offset"]  # type: ignore[operator]
    reader = ColumnReader(disk, log_file(last), end=end)
    cut = [row for piece in reader.pieces() for row in rows_of(RECORDS, piece.records)]
    assert cut == [row for row in rows if row["offset"] < end]  # type: ignore[operator]
    assert reader.damage == []


def test_records_that_no_mark_vouches_for_are_not_durable(directory: Path) -> None:
    disk = OsDisk(str(directory), read_only=True)
    last = last_begun(directory)
    rows, _ = read(directory, last)
    marks = [row["offset"] for row in rows if row["kind"] == Kind.MARK]
    path = directory / log_file(last)
    content = path.read_bytes()
    path.write_bytes(content[: marks[-1]])  # type: ignore[misc]
    assert durable_end(disk, log_file(last)) < marks[-1]  # type: ignore[operator]
    path.write_bytes(content[: marks[0]])  # type: ignore[misc]
    assert durable_end(disk, log_file(last)) == 0


@pytest.mark.parametrize("piece_bytes", [1, 300, 1 << 20])
def test_reading_as_far_as_it_is_durable_needs_no_end(directory: Path, piece_bytes: int) -> None:
    """Of each length that a crash may leave, and whichever byte of the last file is damaged."""
    disk = OsDisk(str(directory), read_only=True)
    name = log_file(last_begun(directory))
    path = directory / name
    healthy = path.read_bytes()
    used = len(healthy.rstrip(b"\0"))
    damaged = [healthy[:at] + bytes([healthy[at] ^ 1]) + healthy[at + 1 :] for at in range(72, used, 11)]
    for content in [*(healthy[:length] for length in range(0, used, 29)), *damaged, healthy]:
        path.write_bytes(content)
        two = ColumnReader(disk, name, end=durable_end(disk, name), piece_bytes=piece_bytes)
        one = ColumnReader(disk, name, until_durable=True, piece_bytes=piece_bytes)
        both = [[row for piece in reader.pieces() for row in rows_of(RECORDS, piece.records)] for reader in (two, one)]
        assert both[0] == both[1] and (two.place, two.damage) == (one.place, one.damage)
