"""Every prefix and every flipped bit of a small file of each kind.

What must hold at each start: no message comes back that was not published to its queue, or that was acknowledged and whose
acknowledgement the damaged bytes do not hold; what the damaged bytes do not hold is all there; the damage is reported; the
damaged file is kept; a second start finds the same; and the queue goes on to work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from classic.recovery import clean_stop
from classic.store import manifest
from storage import names
from storage.errors import Corrupt
from tests.unit.classic.small_files import Files, bodies, quarantine, small_files, start

NEW = b"1000|after the start"
Damaged = tuple[bytes, int, int]  # the content, and between which bytes something is wrong


@pytest.fixture(scope="module")
def crashed() -> Files:
    return small_files()


@pytest.fixture(scope="module")
def stopped() -> Files:
    return small_files(clean=True)


def prefixes(content: bytes) -> Iterator[Damaged]:
    for length in range(len(content)):
        yield content[:length], length, len(content)


def flips(content: bytes) -> Iterator[Damaged]:
    return (flip(content, bit) for bit in range(len(content) * 8))


def flip_in_each_byte(content: bytes) -> Iterator[Damaged]:
    """Another bit each time."""
    return (flip(content, byte * 8 + byte % 8) for byte in range(len(content)))


def flip(content: bytes, bit: int) -> Damaged:
    twin = bytearray(content)
    twin[bit // 8] ^= 1 << bit % 8
    return bytes(twin), bit // 8, bit // 8 + 1


WAYS = {"prefixes": prefixes, "flips": flips}


def check(files: Files, name: str, damaged: Damaged) -> None:
    """Start with a damaged file, and start again, and see that what must hold does."""
    content, begin, end = damaged
    disk = files.disk.copy()
    disk.overwrite(name, content)
    where = f"{name}, {len(content)} bytes, wrong from {begin} to {end}"
    missing, back = files.concerned(name, begin, end)
    world = start(disk)
    found = {queue: bodies(world, queue) for queue in files.published}
    for queue, published in files.published.items():
        got, alive = found[queue], files.alive(queue)
        assert got == [body for body in published if body in got], f"{where}: {queue} has {got}"
        assert set(got) <= {*alive, *back}, f"{where}: {queue} has {set(got) - {*alive, *back}}"
        assert set(alive) <= {*got, *missing}, f"{where}: {queue} lost {set(alive) - {*got, *missing}}"
    assert world.kind.findings, f"{where}: was not noticed"
    assert quarantine(disk) == [content], f"{where}: {disk.list(names.QUARANTINE_DIRECTORY)} are kept"
    disk.kill()
    again = start(disk)
    assert {queue: bodies(again, queue) for queue in files.published} == found, f"{where}: a second start differs"
    again.tick()
    again.publish(["q"], [NEW], confirm=1_000)
    again.loop.run_soon()
    assert 1_000 in again.confirmed.accepted
    assert again.queues["q"].ready_count == len(found["q"]) + 1


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", ["index", "body", "store"])
def test_damage_after_a_crash_costs_what_it_hits_and_no_more(crashed: Files, kind: str, way: str) -> None:
    name: str = getattr(crashed, kind)
    for damaged in WAYS[way](crashed.disk.content(name)):
        check(crashed, name, damaged)


@pytest.mark.parametrize("way", WAYS)
def test_a_damaged_manifest_costs_nothing(crashed: Files, way: str) -> None:
    for damaged in WAYS[way](crashed.disk.content(names.CLASSIC_FILES)):
        check(crashed, names.CLASSIC_FILES, damaged)


@pytest.mark.parametrize("way", [prefixes, flip_in_each_byte])
def test_a_damaged_clean_stop_costs_nothing_but_time(stopped: Files, way: Callable[[bytes], Iterator[Damaged]]) -> None:
    for damaged in way(stopped.disk.content(names.CLASSIC_CLEAN_STOP)):
        check(stopped, names.CLASSIC_CLEAN_STOP, damaged)


def test_no_flipped_bit_of_a_clean_stop_or_a_manifest_is_read(stopped: Files) -> None:
    for name, load in ((names.CLASSIC_CLEAN_STOP, clean_stop.take), (names.CLASSIC_FILES, manifest.load)):
        disk = stopped.disk.copy()
        for content, _, _ in flips(disk.content(name)):
            disk.overwrite(name, content)
            with pytest.raises(Corrupt):
                load(disk)


def test_an_index_that_is_shorter_than_the_clean_stop_left_it_is_read_as_after_a_crash(stopped: Files) -> None:
    for damaged in prefixes(stopped.disk.content(stopped.index)):
        check(stopped, stopped.index, damaged)


def test_damage_to_an_index_since_the_clean_stop_costs_what_it_hits_and_no_more_once_everything_is_read(
    stopped: Files,
) -> None:
    """A start after a clean stop reads no index. Until the next start what an index does not know any more is out of reach, and
    nothing goes that may still have it; what was published meanwhile is not written behind the damage."""
    name = stopped.index
    for content, begin, end in flip_in_each_byte(stopped.disk.content(name)):
        disk, where = stopped.disk.copy(), f"{name}, wrong at {begin}"
        disk.overwrite(name, content)
        missing, back = stopped.concerned(name, begin, end)
        world = start(disk)
        for queue in stopped.published:
            got, alive = bodies(world, queue), stopped.alive(queue)
            assert got == [body for body in alive if body in got], f"{where}: {queue} has {got}"
            assert got == alive or (world.kind.findings and quarantine(disk) == [content]), f"{where}: not noticed"
        world.publish(["q"], [NEW], confirm=1_000)
        world.loop.run_soon()
        world.tick(20)
        assert 1_000 in world.confirmed.accepted
        disk.kill()
        again = start(disk)
        for queue in stopped.published:
            got, alive = bodies(again, queue), [*stopped.alive(queue), *([NEW] if queue == "q" else [])]
            assert set(got) <= {*alive, *back}, f"{where}: {queue} has {set(got) - {*alive, *back}}"
            assert set(alive) <= {*got, *missing}, f"{where}: {queue} lost {set(alive) - {*got, *missing}}"


@pytest.mark.parametrize("way", [prefixes, flip_in_each_byte])
@pytest.mark.parametrize("kind", ["body", "store"])
def test_a_content_that_was_damaged_since_the_clean_stop_is_missed_when_somebody_asks_for_it(
    stopped: Files, kind: str, way: Callable[[bytes], Iterator[Damaged]]
) -> None:
    """A start after a clean stop reads no contents."""
    name: str = getattr(stopped, kind)
    for content, begin, end in way(stopped.disk.content(name)):
        disk = stopped.disk.copy()
        disk.overwrite(name, content)
        missing, _ = stopped.concerned(name, begin, end)
        world = start(disk)
        for queue in stopped.published:
            got, alive = bodies(world, queue), stopped.alive(queue)
            assert got == [body for body in alive if body in got]
            assert set(alive) <= {*got, *missing}, f"{name}, {begin} to {end}: lost {set(alive) - {*got, *missing}}"
            if got != alive:
                assert world.kind.findings and quarantine(disk) == [content]
        world.tick()
        disk.kill()
        start(disk)
