"""Damage to queues' files, one story each: what is lost is said, what is damaged is kept, and the node goes on.

Every prefix and every flipped bit of small files is tried in test_every_damage.py.
"""

from __future__ import annotations

import pytest

from broker.queues.queue_type import Outcome
from classic.queue import ClassicQueue
from classic.recovery.segment_repair import replace_file
from storage import names
from storage.names import BODY_SUFFIX, INDEX_SUFFIX, STORE_SUFFIX
from storage.record import Kind, scan
from tests.sim.disk import Call, Fault, SimDisk
from tests.unit.classic.classic_world import World, record_of
from tests.unit.classic.small_files import LAST, Builder, Files, bodies, quarantine, small_files, start

RECORD = record_of("q", 1)
IMITATION = b"\x14\x01" + bytes(30) + b"\x17\x01" + b"\xff" * 20 + bytes(16)


def body(number: int) -> bytes:
    return b"%d|" % number + (IMITATION * 2 if number % 3 == 0 else b"small")


@pytest.fixture(scope="module")
def crashed() -> SimDisk:
    """40 messages over several segments and files of the store, and nothing of them in the log."""
    world = World([RECORD])
    for number in range(40):
        world.publish(["q"], [body(number)], confirm=number)
        world.loop.run_soon()
    other = record_of("other", 2)
    world.stop()
    world.records.append(other)
    world.start()
    for number in range(200):  # the log rolls, and what lives in its old files is moved out
        world.publish(["other"], [body(number)])
        world.loop.run_soon()
        assert world.get("other", no_ack=True) is not None
        world.tick()
    world.tick(5)
    assert world.log.files().start > 3
    world.disk.kill()
    return world.disk


@pytest.fixture(scope="module")
def small() -> Files:
    return small_files()


def files_of(disk: SimDisk, suffix: str) -> list[str]:
    directories = [f"classic/{one}" for one in disk.list("classic") if names.is_queue_directory(one)]
    return [
        f"{directory}/{name}"
        for directory in [*directories, names.STORE_PERSISTENT]
        for name in disk.list(directory)
        if name.endswith(suffix)
    ]


def start_and_read(disk: SimDisk) -> tuple[list[int], World]:
    """What is left, in a world that goes on."""
    world = World([RECORD, record_of("other", 2)], disk)
    numbers = []
    for found, _ in world.waiting("q"):
        number = int(found.partition(b"|")[0])
        assert found == body(number), "a message that nobody published"
        numbers.append(number)
    assert numbers == sorted(set(numbers))
    return numbers, world


def queue_of(world: World, name: str) -> ClassicQueue:
    return world.queues[name]


def consume_all(world: World, name: str) -> list[bytes]:
    """Take and acknowledge what waits, and let the log know."""
    got = []
    while (one := world.get(name)) is not None:
        got.append(bytes(one.content))
        world.queues[name].settle(one.piece, Outcome.ACKNOWLEDGED, world.now)
    world.tick(5)
    return got


def record_spans(disk: SimDisk, name: str, kind: Kind) -> list[tuple[int, int]]:
    data = disk.content(name)
    records, stop, _ = scan(data, 0, len(data), len(data))
    assert stop == len(data)
    return [(record[5] - 32, record[6]) for record in records if record[0] == kind]


def test_what_was_moved_out_is_all_there_after_a_crash(crashed: SimDisk) -> None:
    assert files_of(crashed, INDEX_SUFFIX) and files_of(crashed, BODY_SUFFIX) and files_of(crashed, STORE_SUFFIX)
    numbers, world = start_and_read(crashed.copy())
    assert numbers == list(range(40))
    assert not world.kind.findings


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, BODY_SUFFIX, STORE_SUFFIX])
def test_each_file_of_many_may_be_empty_and_the_others_are_served(crashed: SimDisk, suffix: str) -> None:
    for name in files_of(crashed, suffix):
        disk = crashed.copy()
        disk.overwrite(name, b"")
        numbers, world = start_and_read(disk)
        assert 20 <= len(numbers) < 40
        assert world.kind.findings


def test_a_lost_manifest_is_made_again_from_the_files(crashed: SimDisk) -> None:
    disk = crashed.copy()
    disk.flip_bit(names.CLASSIC_FILES, 300)
    numbers, world = start_and_read(disk)
    assert numbers == list(range(40))
    assert len(world.kind.findings) == 1


def test_a_missing_manifest_deletes_nothing(crashed: SimDisk) -> None:
    """Absence is no proof: with no manifest at all, every file would count as one that nobody vouches for."""
    disk = crashed.copy()
    disk.delete(names.CLASSIC_FILES)
    numbers, world = start_and_read(disk)
    assert numbers == list(range(40))
    assert any("is missing" in finding for finding in world.kind.findings)


def test_messages_that_no_content_holds_stay_away_when_their_settlement_is_damaged(small: Files) -> None:
    """The last message of a run was acknowledged before the run was moved out, so its content ends before it. Taken for
    living, because the record that says so was damaged, it ended the first delivery in a ValueError; and after the index had
    been cut at the damage, the next start did not even know that something was missing."""
    spans = record_spans(small.disk, small.index, Kind.CLASSIC_INDEX_SETTLED)
    disk = small.disk.copy()
    disk.overwrite(small.index, disk.content(small.index)[: spans[0][0]])
    for _ in range(3):
        world = start(disk)
        found = bodies(world, "q")
        assert b"1|" in found[0] and not any(one.startswith(b"7|") for one in found)
        disk.kill()


def test_a_settlement_behind_a_damaged_block_still_counts(small: Files) -> None:
    disk = small.disk.copy()
    disk.flip_bit(small.index, 40 * 8)
    assert bodies(start(disk), "q") == small.alive("q")


def test_a_repaired_index_is_not_damaged_at_the_next_start(small: Files) -> None:
    disk = small.disk.copy()
    disk.flip_bit(small.index, 40 * 8)
    assert len(start(disk).kind.findings) == 1
    disk.kill()
    world = start(disk)
    assert world.kind.findings == []
    assert bodies(world, "q") == small.alive("q")


def test_one_copy_is_kept_however_often_the_node_starts(small: Files) -> None:
    disk = small.disk.copy()
    disk.flip_bit(small.store, 50 * 8)
    for _ in range(5):
        assert start(disk).kind.findings
        disk.kill()
    assert quarantine(disk) == [disk.content(small.store)]


def test_damage_is_kept_when_its_file_is_deleted_because_nothing_in_it_lives(small: Files) -> None:
    disk = small.disk.copy()
    disk.flip_bit(small.body, 50 * 8)
    damaged = disk.content(small.body)
    world = start(disk)
    consume_all(world, "q")
    consume_all(world, "r")
    world.tick(30)
    assert not disk.exists(small.body)
    assert quarantine(disk) == [damaged]


def test_a_start_needs_no_room_for_a_copy(small: Files) -> None:
    """A full disk is when nobody wants a node that does not start."""
    for name in (small.index, small.body, small.store):
        disk = small.disk.copy()
        disk.flip_bit(name, 50 * 8)
        damaged = disk.content(name)

        def no_room(call: Call) -> Fault | None:
            wanted = names.QUARANTINE_DIRECTORY in call.name or call.name.endswith(f"{INDEX_SUFFIX}.tmp")
            return Fault.ENOSPC if wanted and call.operation in ("create", "write") else None

        disk.faults = no_room
        world = start(disk)
        got = bodies(world, "q")
        assert got and set(got) <= set(small.published["q"])
        assert any("no room" in finding for finding in world.kind.findings)
        assert disk.content(name).startswith(damaged), "what cannot be copied is not written over"
        assert quarantine(disk) == []


def test_a_missing_index_segment_is_reported_and_the_bodies_beside_it_are_kept(small: Files) -> None:
    disk = small.disk.copy()
    held = disk.content(small.body)
    disk.delete(small.index)
    world = start(disk)
    assert bodies(world, "q") == [small.published["q"][-1]]
    assert any("is missing" in finding for finding in world.kind.findings)
    assert quarantine(disk) == [held]


def test_a_missing_directory_ends_no_start(small: Files) -> None:
    disk = small.disk.copy()
    directory = small.index.rpartition("/")[0]
    for name in disk.list(directory):
        disk.delete(f"{directory}/{name}")
    disk.remove_dir(directory)
    world = start(disk)
    assert bodies(world, "q") == [small.published["q"][-1]]
    assert any(directory in finding and "is missing" in finding for finding in world.kind.findings)


def test_no_place_in_a_lost_body_file_is_used_again(crashed: SimDisk) -> None:
    """An entry that points to a lost content must not find another one there."""
    disk = crashed.copy()
    name = files_of(crashed, BODY_SUFFIX)[-1]
    size = len(disk.content(name))
    disk.delete(name)
    numbers, world = start_and_read(disk)
    assert len(numbers) < 40 and any("is missing" in finding for finding in world.kind.findings)
    index = queue_of(world, "q").backing.index
    segment = index.segments[names.number_of(name, BODY_SUFFIX) or 0]
    place = index.keep_body(segment.first, b"content")
    index.flush_bodies()
    assert place.offset > size
    assert disk.content(name)[:size] == bytes(size)


def test_no_sequence_of_a_lost_segment_is_given_again(small: Files) -> None:
    """What the log knows to be settled under it would settle the new message too, at the next start."""
    disk = small.disk.copy()
    expected = queue_of(start(disk), "q").next_sequences
    for damaged in (b"", bytes(200)):
        disk = small.disk.copy()
        disk.overwrite(small.index, damaged)
        assert queue_of(start(disk), "q").next_sequences == expected


def test_an_index_that_is_missing_after_a_clean_stop_ends_no_start() -> None:
    """A start after a clean stop reads no index before it needs to page in; a missing one ended it."""
    world = World([RECORD, record_of("other", 2)])
    for number in range(40):
        world.publish(["q"], [body(number)], confirm=number)
        world.loop.run_soon()
    world.tick(3)
    world.stop()
    disk = world.disk
    missing = files_of(disk, INDEX_SUFFIX)[2]
    disk.delete(missing)
    numbers, world = start_and_read(disk)
    assert 20 <= len(numbers) < 40
    assert any(missing in finding for finding in world.kind.findings)


def test_what_is_written_behind_a_cut_off_index_after_a_clean_stop_is_not_lost() -> None:
    """Behind a gap no reader may get to it, and the log lets go of it."""
    builder = Builder()
    files = builder.build(clean=True)
    files.disk.overwrite(files.index, files.disk.content(files.index)[:-10])
    builder.world.start()
    builder.publish(["q"], [b"100|new"])
    builder.roll_log()
    assert builder.world.confirmed.accepted >= {builder.confirmed - 1}
    files.disk.kill()
    assert bodies(start(files.disk), "q")[-2:] == [LAST, b"100|new"]


def test_nothing_is_written_behind_an_index_that_was_damaged_after_a_clean_stop() -> None:
    """Such a start reads no index. Behind a record whose length is wrong no reader gets to what follows, and the log would let
    go of it."""
    builder = Builder()
    files = builder.build(clean=True)
    content = bytearray(files.disk.content(files.index))
    last, _ = max(span for kind in Kind for span in record_spans(files.disk, files.index, kind))
    content[last + 4 : last + 8] = (len(content) * 3).to_bytes(4, "little")
    files.disk.overwrite(files.index, bytes(content))
    builder.world.start()
    builder.publish(["q"], [b"100|new"])
    for number in range(60):
        builder.world.publish(["passing"], [b"%d|passing by" % number])
        builder.world.loop.run_soon()
        builder.world.tick()
    assert builder.world.confirmed.accepted >= {builder.confirmed - 1}
    assert any("is not as the last stop left it" in finding for finding in builder.world.kind.findings)
    assert quarantine(files.disk) == [bytes(content)]
    files.disk.kill()
    assert bodies(start(files.disk), "q")[-2:] == [LAST, b"100|new"]


def test_a_body_file_that_is_missing_after_a_clean_stop_does_not_end_the_moving_out() -> None:
    builder = Builder()
    files = builder.build(clean=True)
    files.disk.delete(files.body)
    builder.world.start()
    builder.publish(["q"], [b"100|new"])
    builder.roll_log()
    assert bodies(builder.world, "q")[-2:] == [LAST, b"100|new"]
    assert any(f"{files.body} is missing" in finding for finding in builder.world.kind.findings)


def test_a_clean_stop_that_was_damaged_is_kept_for_a_human(crashed: SimDisk) -> None:
    _, world = start_and_read(crashed.copy())
    world.stop()
    disk = world.disk
    disk.flip_bit(names.CLASSIC_CLEAN_STOP, 400)
    damaged = disk.content(names.CLASSIC_CLEAN_STOP)
    numbers, world = start_and_read(disk)
    assert numbers == list(range(40))
    assert len(world.kind.findings) == 1
    assert quarantine(disk) == [damaged]
    assert not disk.exists(names.CLASSIC_CLEAN_STOP)


def test_a_file_is_replaced_whole_or_not_at_all() -> None:
    disk = SimDisk()
    disk.overwrite("file", b"before")
    disk.overwrite("file.tmp", b"of an earlier attempt")
    replace_file(disk, "file", [b"aft", b"er"])
    assert disk.content("file") == b"after" and not disk.exists("file.tmp")
