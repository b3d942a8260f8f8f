"""Files at rest that are cut off, or have a bit flipped: reported, never a crash, never a message that was not published."""

from __future__ import annotations

import random

import pytest

from storage import names
from storage.names import BODY_SUFFIX, INDEX_SUFFIX, STORE_SUFFIX
from tests.sim.disk import SimDisk
from tests.unit.classic.classic_world import World, record_of

RECORD = record_of("q", 1)
IMITATION = b"\x14\x01" + bytes(30) + b"\x17\x01" + b"\xff" * 20 + bytes(16)


def body(number: int) -> bytes:
    return b"%d|" % number + (IMITATION * 2 if number % 3 == 0 else b"small")


@pytest.fixture(scope="module")
def crashed() -> SimDisk:
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


def test_what_was_moved_out_is_all_there_after_a_crash(crashed: SimDisk) -> None:
    assert files_of(crashed, INDEX_SUFFIX) and files_of(crashed, BODY_SUFFIX) and files_of(crashed, STORE_SUFFIX)
    numbers, world = start_and_read(crashed.copy())
    assert numbers == list(range(40))
    assert not world.kind.findings


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, BODY_SUFFIX, STORE_SUFFIX])
def test_every_prefix_of_a_file_is_reported_and_the_rest_is_served(crashed: SimDisk, suffix: str) -> None:
    name = files_of(crashed, suffix)[0]
    whole = crashed.content(name)
    for length in range(0, len(whole), 9):
        disk = crashed.copy()
        disk.overwrite(name, whole[:length])
        numbers, world = start_and_read(disk)
        assert set(numbers) <= set(range(40))
        assert world.kind.findings, f"{name} cut to {length} bytes was not noticed"
        assert len(numbers) < 40 or suffix == INDEX_SUFFIX


@pytest.mark.parametrize("suffix", [INDEX_SUFFIX, BODY_SUFFIX, STORE_SUFFIX])
def test_a_flipped_bit_never_makes_a_message(crashed: SimDisk, suffix: str) -> None:
    chance = random.Random(suffix)
    for name in files_of(crashed, suffix)[:3]:
        for bit in chance.sample(range(len(crashed.content(name)) * 8), 40):
            disk = crashed.copy()
            disk.flip_bit(name, bit)
            numbers, world = start_and_read(disk)
            assert set(numbers) <= set(range(40))
            assert world.kind.findings, f"bit {bit} of {name} was not noticed"
            world.publish(["q"], [b"77|small"], confirm=1_000)  # life goes on
            world.loop.run_soon()
            assert 1_000 in world.confirmed.accepted


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


def test_a_damaged_clean_stop_costs_nothing_but_time(crashed: SimDisk) -> None:
    _, world = start_and_read(crashed.copy())
    world.stop()
    world.disk.flip_bit(names.CLASSIC_CLEAN_STOP, 400)
    numbers, world = start_and_read(world.disk)
    assert numbers == list(range(40))
    assert len(world.kind.findings) == 1


def test_a_missing_index_segment_is_reported(crashed: SimDisk) -> None:
    disk = crashed.copy()
    disk.delete(files_of(crashed, INDEX_SUFFIX)[0])
    numbers, world = start_and_read(disk)
    assert len(numbers) < 40
    assert any("missing" in finding for finding in world.kind.findings)
