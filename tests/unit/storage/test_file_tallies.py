"""storage/archive/file_tallies.py: a summary of what was counted as it was written is what reading the file would tell."""

from __future__ import annotations

from random import Random

import pytest

from classic.store.log_records import encode_published
from storage import snapshot_file
from storage.archive import file_tallies
from storage.archive.summary import Summary, summarise
from storage.history.name_records import NameRow, encode_name
from storage.names import archived, archived_summary, log_file
from storage.record import Kind
from tests.sim.disk import Call
from tests.unit.storage.log_world import Log
from tests.unit.storage.test_archive import KIND, ArchivedLog


def append_some(log: Log, random: Random) -> None:
    """Records of several kinds and writers, some in parts, some larger than what a file holds."""
    for index in range(random.randrange(1, 6)):
        queue = random.randrange(4)
        body = bytes(random.choice((0, 10, 100, 1_000, 80_000)))
        publish = encode_published([(queue, 3), (9, 1)], 4, 1, len(body), None, "", "orders")
        kind, parts = random.choice(
            (
                (Kind.CLASSIC_PUBLISH, [publish, body[:7], memoryview(body)[7:]]),
                (Kind.NAME, [encode_name(NameRow("classic", "/", f"queue {queue}"))]),
                (KIND, [bytearray(body)]),
                (Kind.RAFT_ENTRIES, [body]),
            )
        )
        log.writer.append(kind, queue, index, parts)
    log.loop.run_soon()


def stored_summary(world: ArchivedLog, number: int) -> Summary:
    beside = archived_summary(log_file(number))
    return Summary.decode(beside, snapshot_file.load(world.disk, beside))


def reads_of(world: ArchivedLog) -> list[str]:
    """Which files are read from now on."""
    names: list[str] = []

    def note(call: Call) -> None:
        if call.operation == "read":
            names.append(call.name)

    world.disk.faults = note
    return names


@pytest.mark.parametrize("seed", range(20))
def test_what_was_counted_is_what_reading_tells(seed: int) -> None:
    world, random = ArchivedLog(), Random(seed)
    log = world.open()
    while log.core.file_number < 5:
        append_some(log, random)
        world.clock.advance(random.randrange(3))
    written = {number: summarise(world.disk.open(log_file(number))) for number in range(1, 5)}
    log.writer.release(5)
    read = reads_of(world)
    world.archive.tidy()
    told = {number: stored_summary(world, number) for number in world.kept}
    assert world.kept and told == {number: written[number] for number in world.kept}
    assert not [name for name in read if name in map(archived, map(log_file, world.kept))]


def test_a_file_that_another_process_wrote_is_read() -> None:
    world = ArchivedLog()
    log = world.open()
    world.fill(log, 3)
    log.writer.close()
    world.archive = ArchivedLog(world.disk).archive
    log = world.open()
    world.fill(log, 2)
    log.writer.release(log.core.file_number)
    read = reads_of(world)
    world.archive.tidy()
    assert world.kept == [1, 2, 3, 4, 5]
    assert {name for name in read if name.endswith(".log")} == {archived(log_file(number)) for number in (1, 2, 3, 4)}


def test_of_too_many_the_oldest_are_forgotten_and_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_tallies, "ROWS_MAX", 2)  # a file of this log has one writer, and no queue that it tells of
    world = ArchivedLog()
    log = world.open()
    world.fill(log, 5)
    wanted = {number: summarise(world.disk.open(log_file(number))) for number in range(1, 6)}
    log.writer.release(log.core.file_number)
    read = reads_of(world)
    world.archive.tidy()
    assert {number: stored_summary(world, number) for number in world.kept} == {
        number: wanted[number] for number in world.kept
    }
    assert {name for name in read if name.endswith(".log")} == {
        archived(log_file(number)) for number in world.kept[:-2]
    }


def test_a_file_that_is_shorter_than_what_was_counted_is_read() -> None:
    world = ArchivedLog()
    log = world.open()
    world.fill(log, 2)
    log.writer.release(log.core.file_number)
    name = archived(log_file(1))
    whole = summarise(world.disk.open(name))
    world.disk.overwrite(name, world.disk.content(name)[:-1])
    world.archive.tidy()
    found = stored_summary(world, 1)
    assert not found.whole and found.end < whole.end
