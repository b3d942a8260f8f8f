"""Every prefix and every flipped bit of a small file of each kind, at a start after a crash.

What must hold each time: no message comes back that was not published to its queue, or that was acknowledged and whose
acknowledgement the damaged bytes do not hold; what the damaged bytes do not hold is all there; the damage is reported; the
damaged bytes are kept, in their place or in quarantine; a second start finds the same; and the queue goes on to work.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from storage import names
from tests.sim.disk import SimDisk
from tests.unit.classic.classic_world import World
from tests.unit.classic.small_files import LIMITS, RECORDS, Files, small_files

NEW = b"1000|after the start"


@pytest.fixture(scope="module")
def files() -> Files:
    return small_files()


def start(disk: SimDisk) -> World:
    return World(RECORDS, disk, LIMITS, log_file_bytes_max=700)


def bodies(world: World, queue: str) -> list[bytes]:
    return [body for body, _ in world.waiting(queue)]


def prefixes(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    """The damaged content, and between which bytes something is wrong."""
    for length in range(len(content)):
        yield content[:length], length, len(content)


def flips(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    twin = bytearray(content)
    for bit in range(len(content) * 8):
        twin[bit // 8] ^= 1 << bit % 8
        yield bytes(twin), bit // 8, bit // 8 + 1
        twin[bit // 8] ^= 1 << bit % 8


DAMAGES = {"prefixes": prefixes, "flips": flips}


def check(files: Files, name: str, damaged: bytes, begin: int, end: int) -> None:
    disk = files.disk.copy()
    disk.overwrite(name, damaged)
    where = f"{name}, {len(damaged)} bytes, from {begin} to {end}"
    missing, back = files.concerned(name, begin, end)
    world = start(disk)
    found = {queue: bodies(world, queue) for queue in files.published}
    for queue, published in files.published.items():
        got, alive = found[queue], files.alive(queue)
        assert got == [body for body in published if body in got], f"{where}: {queue} has {got}"
        assert set(got) <= {*alive, *back}, f"{where}: {queue} has {set(got) - {*alive, *back}}"
        assert set(alive) <= {*got, *missing}, f"{where}: {queue} lost {set(alive) - {*got, *missing}}"
    assert world.kind.findings, f"{where}: was not noticed"
    kept = [f"{names.QUARANTINE_DIRECTORY}/{one}" for one in disk.list(names.QUARANTINE_DIRECTORY)]
    assert [disk.content(one) for one in kept] == [damaged], f"{where}: in quarantine are {kept}"
    disk.kill()
    again = start(disk)
    assert {queue: bodies(again, queue) for queue in files.published} == found, f"{where}: a second start differs"
    again.tick()
    again.publish(["q"], [NEW], confirm=1_000)
    again.loop.run_soon()
    assert 1_000 in again.confirmed.accepted
    assert bodies(again, "q") == [*found["q"], NEW]


@pytest.mark.parametrize("kind", ["index", "body", "store"])
@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_costs_what_it_hits_and_no_more(files: Files, kind: str, damage: str) -> None:
    name: str = getattr(files, kind)
    for damaged, begin, end in DAMAGES[damage](files.disk.content(name)):
        check(files, name, damaged, begin, end)
