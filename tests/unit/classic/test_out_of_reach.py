"""For a while no file descriptor is left: what is on disk is out of reach. Nothing is lost, and all goes on later."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from broker.catalog.policy import EffectiveArguments
from broker.messages.browsed import Browsed
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Got, Outcome, Slice
from native.content import messages
from storage.names import CLASSIC_CLEAN_STOP
from tests.sim.disk import Fault, no_faults
from tests.unit.classic.classic_world import Sink, World, record_of

COUNT = 40
SIZES = {"in the log": 10, "beside the index": 20, "in the store": 120}
SIZE = pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)


def body(number: int, size: int) -> bytes:
    return b"%d|" % number + b"x" * size


def numbers(bodies: list[bytes]) -> list[int]:
    return [int(one.partition(b"|")[0]) for one in bodies]


def world_with(size: int, effective: EffectiveArguments | None = None) -> World:
    """A queue with most of its messages, and of their positions, on disk only."""
    world = World([record_of("q", 1), record_of("passing", 2)], effective=effective)
    for number in range(COUNT):
        world.publish(["q"], [body(number, size)], confirm=number)
        world.loop.run_soon()
    world.tick(30 if size == SIZES["in the log"] else 3)
    if size != SIZES["in the log"]:
        while world.log.files().start < 4:  # move it out
            world.publish(["passing"], [b"p" * 150])
            while (got := world.get("passing")) is not None:
                world.queues["passing"].settle(got.piece, Outcome.ACKNOWLEDGED, world.now)
            world.tick()
    level = world.queues["q"].levels[0]
    assert level.delta_count and level.ram_count < COUNT / 2
    return world


@contextmanager
def no_descriptors(world: World, deletes: bool = False) -> Iterator[None]:
    """Those that were open are used by others now. What waits is said once, but for a queue that is deleted."""
    storage = world.kind._storage
    storage.files.close()
    for name in list(storage.loaded._loaded):
        storage.loaded.drop(name)
    world.disk.faults = lambda call: Fault.EMFILE
    yield
    world.disk.faults = no_faults
    assert storage.failed is None, storage.failed
    if not deletes:
        said = [finding for finding in storage.findings if "no file descriptor is left to read" in finding]
        assert len(said) == 1, f"it is said once: {storage.findings}"


@SIZE
def test_consumers_are_given_the_rest_in_order_when_there_are_descriptors(size: int) -> None:
    world = world_with(size)
    sink = Sink()
    with no_descriptors(world):
        world.queues["q"].consume(Consumer("c", world.queues["q"], sink), world.now)
        world.turn()
        world.tick(5)
        before = len(sink.got)
        assert before < COUNT and world.queues["q"].ready_count == COUNT - before
        world.publish(["q"], [body(COUNT, size)])
        world.tick(2)
        assert len(sink.got) == before
    world.tick(2)
    assert numbers([one for one, _ in sink.got]) == list(range(COUNT + 1))


@SIZE
def test_a_get_waits_and_so_do_a_browse_and_a_purge(size: int) -> None:
    world = world_with(size)
    queue = world.queues["q"]
    got: list[Got | None] = []
    browsed: list[list[Browsed]] = []
    purged: list[int] = []
    with no_descriptors(world):
        while len(got) < COUNT:
            before = len(got)
            queue.get(False, world.now).then(got.append, lambda error: pytest.fail(str(error)))
            if len(got) == before:
                break
        taken = len(got)
        assert None not in got and taken < COUNT
        queue.browse(0, COUNT, world.now).then(browsed.append, lambda error: pytest.fail(str(error)))
        queue.purge(world.now).then(purged.append, lambda error: pytest.fail(str(error)))
        world.tick(3)
        assert (len(got), browsed, purged) == (taken, [], [])
    world.tick(3)
    contents = [messages(one.content[one.piece.position :], 0, 1)[0][1] for one in got if one is not None]
    assert numbers(contents) == list(range(taken + 1))
    assert len(browsed[0]) == COUNT - taken - 1
    assert purged == [COUNT - taken - 1]


def holder_of(world: World, count: int) -> list[Slice]:
    pieces = []
    for _ in range(count):
        got = world.get("q")
        assert got is not None
        pieces.append(got.piece)
    return pieces


def test_what_is_rejected_is_dead_lettered_when_it_can_be_read() -> None:
    world = world_with(120, EffectiveArguments(dead_letter_exchange="dlx"))
    queue = world.queues["q"]
    pieces = holder_of(world, 5)
    with no_descriptors(world):
        for piece in pieces:
            queue.settle(piece, Outcome.REJECTED, world.now)
        world.tick(2)
        assert world.host.dead == [] and queue.out.count == 5
    world.tick(2)
    assert numbers([one for _, _, one in world.host.dead]) == [0, 1, 2, 3, 4]
    assert queue.out.count == 0


def test_what_dies_of_age_is_dead_lettered_when_it_can_be_read() -> None:
    world = world_with(120, EffectiveArguments(dead_letter_exchange="dlx", message_ttl_ms=60_000))
    with no_descriptors(world):
        world.now += 60_000
        world.tick(3)
        assert len(world.host.dead) < COUNT
    world.tick(30)
    assert numbers([one for _, _, one in world.host.dead]) == list(range(COUNT))


def test_a_message_whose_time_is_over_does_not_ring_without_end() -> None:
    """Its timer would be due again at once, for as long as it cannot be read."""
    world = world_with(120, EffectiveArguments(dead_letter_exchange="dlx", message_ttl_ms=60_000))
    with no_descriptors(world):
        world.now += 60_000
        world.tick()
        world.turn()
        assert world.queues["q"].ready_count and not [when for when, _ in world.host.calls if when <= world.now]
    world.tick(30)
    assert not world.queues["q"].ready_count


@SIZE
def test_what_comes_back_comes_back_when_it_can(size: int) -> None:
    """Also where its place is among messages whose positions are on disk only."""
    world = world_with(size)
    queue = world.queues["q"]
    pieces = holder_of(world, COUNT - 5)
    for piece in pieces[10:]:
        queue.settle(piece, Outcome.RETURNED, world.now)
    world.tick(30)
    with no_descriptors(world):
        for piece in pieces[:10]:
            queue.settle(piece, Outcome.RETURNED, world.now)
        world.get("q", no_ack=False)
        while world.get("q") is not None:
            pass
        world.tick(2)
    world.stop()
    world.start()
    assert numbers([one for one, _ in world.waiting("q")]) == list(range(COUNT))


def test_a_stop_without_descriptors_loses_nothing() -> None:
    world = world_with(120, EffectiveArguments(dead_letter_exchange="dlx"))
    queue = world.queues["q"]
    acknowledged, *rejected = holder_of(world, 5)
    with no_descriptors(world):
        for piece in rejected:
            queue.settle(piece, Outcome.REJECTED, world.now)
        queue.settle(acknowledged, Outcome.ACKNOWLEDGED, world.now)
        world.kind.stop(world.now)
    world.log.close()
    world.disk.kill()
    world.start()
    assert numbers([one for one, _ in world.waiting("q")]) == list(range(1, COUNT))


def test_a_queue_that_is_deleted_gives_up_its_contents_when_its_index_can_be_read() -> None:
    world = world_with(120)
    store = world.kind._storage.store
    assert store.contents
    with no_descriptors(world, deletes=True):
        world.records = [record for record in world.records if record.name != "q"]
        world.kind.delete(world.queues.pop("q"), world.now)
        world.tick(2)
        assert store.contents
    world.publish(["passing"], [b"p"])
    world.tick(5)
    world.publish(["passing"], [b"p"])
    world.tick(2)
    assert not store.contents and not world.kind._storage.undeleted
    assert not [name for name in world.disk.list("classic") if name.endswith("-1")]


def test_a_stop_before_a_deleted_queues_files_could_go_vouches_for_nothing() -> None:
    world = world_with(120)
    world.records = [record for record in world.records if record.name != "q"]
    storage = world.kind._storage
    storage.files.close()
    for name in list(storage.loaded._loaded):
        storage.loaded.drop(name)
    world.disk.faults = lambda call: Fault.EMFILE if call.name.endswith(".idx") else None
    world.kind.delete(world.queues.pop("q"), world.now)
    world.kind.stop(world.now)
    assert not world.disk.exists(CLASSIC_CLEAN_STOP)
    assert any("is deleted, could not be deleted yet" in finding for finding in storage.findings)
    world.disk.faults = no_faults
    world.log.close()
    world.disk.kill()
    world.start()
    assert not world.kind._storage.store.contents
