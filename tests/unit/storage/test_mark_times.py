"""A mark says when it was made. Logs of before that are read as they are, and are gone on with."""

from __future__ import annotations

from pathlib import Path

from storage import doctor
from storage.names import log_file
from storage.record import MARK_BYTES, MARK_BYTES_MIN
from tests.sim.disk import SimDisk
from tests.unit.storage.log_world import Entry, Log, open_log, recover

# Six records of 60 bytes in three files, written by 0152610, closed and recovered: the last commit holds a mark alone.
OLD_LOG = Path(__file__).parent / "old_files" / "marks_of_64_bytes"
OLD_ENTRIES: list[Entry] = [(7, index, bytes([index + 1]) * 60) for index in range(6)]
OLD_END = (3, 168, 7)


def old_disk() -> SimDisk:
    disk = SimDisk()
    recover(disk)
    for path in sorted(OLD_LOG.rglob("*")):
        if path.is_file():
            disk.overwrite(str(path.relative_to(OLD_LOG)), path.read_bytes())
    return disk


def test_a_log_with_marks_of_64_bytes_is_read_and_gone_on_with() -> None:
    disk = old_disk()
    log = Log(disk, recover(disk))
    assert (log.recovered.entries, log.recovered.damage, log.recovered.torn_bytes) == (OLD_ENTRIES, [], 0)
    assert log.recovered.end[:3] == OLD_END
    entries = [*OLD_ENTRIES, log.append(6, b"of the new release")]
    log.writer.close()
    disk.kill()
    assert recover(disk).entries == entries


def test_damage_in_an_old_file_costs_what_lies_before_its_next_mark() -> None:
    for number, at in ((1, 200), (2, 400)):
        disk = old_disk()
        disk.flip_bit(log_file(number), at * 8)
        found = recover(disk, salvage=True)
        assert len(found.damage) == 1 and found.damage[0].file_number == number
        assert found.entries == [entry for entry in OLD_ENTRIES if entry in found.entries]
        assert len(found.entries) >= len(OLD_ENTRIES) - 1


def test_a_mark_of_64_bytes_that_ends_its_file_vouches_for_what_is_before_it() -> None:
    disk = old_disk()
    end = OLD_END[1]
    assert len(disk.content(log_file(3))) == end, "the last mark is the last thing in the file"
    disk.flip_bit(log_file(2), 600 * 8)
    found = recover(disk, salvage=True)
    assert [(damage.file_number, damage.offset) for damage in found.damage] == [(2, 544)]


def test_the_doctor_shows_when_each_mark_was_made_and_nothing_for_old_ones() -> None:
    assert {row["time_us"] for row in doctor.dump(str(OLD_LOG / log_file(1))) if row["kind"] == "MARK"} == {0}


def test_marks_say_the_time_at_which_their_commit_was_begun() -> None:
    log = open_log(file_bytes_max=1 << 20)
    starts = []
    for index in range(3):
        log.loop.clock.advance(0.25)
        starts.append(log.loop.clock.wall_us())
        log.append(index, b"x")
        log.loop.run_soon()
    rows = [row for row in doctor.dump_records(log.disk, log_file(1)) if row["kind"] == "MARK"]
    assert [row["time_us"] for row in rows] == starts
    assert MARK_BYTES - MARK_BYTES_MIN == 8


def test_looking_at_the_log_begins_no_commit() -> None:
    """An idle node looks each tick which files it has: the next commit would say when the last one was done."""
    log = open_log(file_bytes_max=1 << 20)
    log.loop.clock.advance(60)
    assert log.writer.files() == range(1, 2) and log.writer.writing_file == 1
    log.loop.clock.advance(60)
    log.append(1, b"x")
    log.loop.run_soon()
    times = [row["time_us"] for row in doctor.dump_records(log.disk, log_file(1)) if row["kind"] == "MARK"]
    assert times == [log.loop.clock.wall_us()]
