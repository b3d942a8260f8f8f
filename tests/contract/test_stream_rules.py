"""What holds for streams, beside the rules of the suite that they keep (stream_rules.py)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from broker.errors import NotSupported, PreconditionFailed
from broker.queues.queue_type import Outcome, Queue
from broker.queues.shared_limit import SharedLimit
from broker.queues.stream_contract import StreamContract
from tests.contract import test_queue_type
from tests.contract.kinds import KINDS, Kind
from tests.contract.stream_rules import STREAM_RULES
from tests.contract.test_queue_type import numbered
from tests.contract.world import START, Taker, World
from wire.amqp.tables import Timestamp


@pytest.fixture(params=[kind for kind in KINDS if kind.keeps is STREAM_RULES], ids=lambda kind: kind.name)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    kind: Kind = request.param
    world = World()
    world.opened = kind.open(world, tmp_path)
    yield world
    world.opened.close()


def filled(world: World, *runs: int) -> Queue:
    """A stream with runs of so many messages, one chunk each, a second apart."""
    queue = world.queue()
    first = 0
    for count in runs:
        world.publish(queue, *numbered(count, first))
        world.turn()
        world.pass_time(1_000)
        first += count
    return queue


def read(world: World, queue: Queue, offset: Any = "first", **properties: Any) -> Taker:
    arguments = {} if offset is None else {"x-stream-offset": offset}
    _, taker = world.consumer(queue, f"c{offset}", arguments=arguments, **properties)
    world.wake(queue)
    world.turn()
    return taker


def offsets(taker: Taker) -> list[int]:
    found: list[int] = []
    for piece in taker.pieces:
        assert piece.offset is not None
        found += range(piece.offset, piece.offset + piece.count)
    return found


def test_each_rule_that_they_keep_is_one_of_the_suite() -> None:
    assert set(vars(test_queue_type)) >= STREAM_RULES


def test_every_consumer_reads_everything_in_order_and_takes_nothing_away(world: World) -> None:
    queue = filled(world, 3, 1_000, 1)
    for _ in range(2):
        taker = read(world, queue)
        assert taker.bodies == numbered(1_004)
        assert offsets(taker) == list(range(1_004))
        assert not any(taker.redelivered)
    assert queue.ready_count == 1_004


def test_large_and_empty_bodies_come_back_byte_for_byte(world: World) -> None:
    queue = world.queue()
    bodies = [b"", b"x" * 255, b"y" * 256, bytes(range(256)) * 8_000, b""]
    world.publish(queue, *bodies)
    world.turn()
    assert read(world, queue).bodies == bodies


@pytest.mark.parametrize("outcome", Outcome)
def test_whatever_is_settled_gives_credit_and_nothing_comes_again(world: World, outcome: Outcome) -> None:
    queue = filled(world, 5)
    consumer, taker = world.consumer(queue, prefetch=2)
    world.wake(queue)
    world.turn()
    for _ in range(3):
        world.settle_all(consumer, taker, outcome)
        world.turn()
    assert taker.bodies == numbered(5)
    assert not any(taker.redelivered) and not world.dead


def test_a_message_is_read_once_it_is_published(world: World) -> None:
    queue = filled(world, 2)
    taker = read(world, queue, None)
    assert taker.bodies == []
    world.publish(queue, b"2", b"3")
    world.turn()
    assert (taker.bodies, offsets(taker)) == ([b"2", b"3"], [2, 3])


@pytest.mark.parametrize(
    ("offset", "first"),
    [
        ("first", 0), ("last", 9), ("next", 10), (None, 10), (0, 0), (-3, 0), (1, 1), (4, 4), (8, 8), (9, 9), (10, 10),
        (99, 10), (1 << 62, 10), ("1h", 0), ("1500m", 0), ("1s", 10),
        (Timestamp(0), 0), (Timestamp(START // 1000), 0), (Timestamp(START // 1000 + 1), 3),
        (Timestamp(START // 1000 + 2), 9), (Timestamp(START // 1000 + 3), 10),
    ],
)  # fmt: skip
def test_a_reader_begins_where_it_asks_to_message_by_message(world: World, offset: Any, first: int) -> None:
    queue = filled(world, 3, 6, 1)
    world.pass_time(5_000)
    taker = read(world, queue, offset)
    world.publish(queue, b"10")
    world.turn()
    assert offsets(taker) == list(range(first, 11))
    assert taker.bodies == numbered(11)[first:]


@pytest.mark.parametrize("offset", ["", "firs", "5x", "-5m", 1.5, True, b"first"])
def test_where_nothing_can_begin_is_said(world: World, offset: Any) -> None:
    queue = filled(world, 1)
    with pytest.raises(PreconditionFailed, match="x-stream-offset"):
        world.consumer(queue, arguments={"x-stream-offset": offset})
    assert queue.consumer_count == 0


def test_a_limit_of_the_channel_holds_for_all_its_readers_and_all_of_them_go_on(world: World) -> None:
    queues = [filled(world, 4), filled(world, 4)]
    shared = SharedLimit()
    shared.limit = 3
    readers = [world.consumer(queue, tag, shared=shared) for queue, tag in zip(queues, "ab", strict=True)]
    for _ in range(4):
        for queue in queues:
            world.wake(queue)
        world.turn()
        assert sum(consumer.outstanding for consumer, _ in readers) <= 3
        for consumer, taker in readers:
            world.settle_all(consumer, taker)
        world.turn()
    assert [taker.bodies for _, taker in readers] == [numbered(4), numbered(4)]


def test_an_empty_stream_is_read_from_its_first_message_on_wherever_one_begins(world: World) -> None:
    queue = world.queue()
    takers = [read(world, queue, offset) for offset in ("first", "last", None, 5, Timestamp(0))]
    world.publish(queue, b"0")
    world.turn()
    assert [taker.bodies for taker in takers] == [[b"0"]] * 5


def test_what_a_stream_cannot_do_is_refused(world: World) -> None:
    queue = filled(world, 1)
    with pytest.raises(NotSupported, match=r"basic\.get not supported"):
        world.get(queue)
    with pytest.raises(NotSupported, match="purge not supported"):
        world.purge(queue)
    with pytest.raises(NotSupported, match="automatic acknowledgement not supported"):
        world.consumer(queue, no_ack=True)
    with pytest.raises(PreconditionFailed, match="prefetch count is not set"):
        world.consumer(queue, prefetch=0)
    assert queue.ready_count == 1


def test_who_browses_sees_any_part_of_it(world: World) -> None:
    queue = filled(world, 3, 4)
    assert [one.content[-1:] for one in world.browse(queue)] == numbered(7)
    assert [one.content[-1:] for one in world.browse(queue, skip=2, limit=3)] == [b"2", b"3", b"4"]
    assert world.browse(queue, skip=7) == []


@pytest.mark.parametrize(
    ("begin", "first"),
    [
        ("first", 0),
        ("last", 5),
        ("next", 7),
        (4, 4),
        (-1, 0),
        (99, 7),
        (Timestamp(START // 1000 + 1), 3),
        (Timestamp(START // 1000 + 60), 7),
        ("1h", 0),
    ],
)
def test_who_browses_from_a_place_sees_what_a_consumer_would_and_its_offsets(
    world: World, begin: Any, first: int
) -> None:
    stream = cast(StreamContract, filled(world, 3, 2, 2))
    found = world.answer(stream.browse_from(begin, 100, world.now))
    assert [one.content[-1:] for one in found] == numbered(7 - first, first)
    assert [one.offset for one in found] == list(range(first, 7))
    assert found[:2] == world.answer(stream.browse_from(begin, 2, world.now))


@pytest.mark.parametrize("begin", ["soon", True, 1.5, None, [1]])
def test_who_browses_from_what_is_no_place_is_told_what_is_one(world: World, begin: Any) -> None:
    stream = cast(StreamContract, filled(world, 1))
    if begin is None:  # as a consumer that does not say
        assert world.answer(stream.browse_from(begin, 1, world.now)) == []
        return
    with pytest.raises(
        PreconditionFailed, match="neither an offset nor a timestamp, first, last, next, or an age as 5m"
    ):
        stream.browse_from(begin, 1, world.now)


def test_retention_removes_whole_segments_and_whoever_stood_there_goes_on_at_the_first_that_is_kept(
    world: World,
) -> None:
    queue = world.queue(x_stream_max_segment_size_bytes=2_000, x_max_length_bytes=5_000)
    slow, taker = world.consumer(queue, prefetch=1)
    for number in range(10):
        world.publish(queue, b"%d" % number * 1_000)
        world.turn()
    assert taker.bodies == [b"0" * 1_000]
    for _ in range(3):
        world.pass_time(1_000)
        world.opened.let_disk_finish()
    kept = queue.ready_count
    assert 3 <= kept <= 6, "two or three segments of two messages, and what is in the open one"
    again = read(world, queue)
    assert offsets(again) == list(range(10 - kept, 10))
    for _ in range(10):
        world.settle_all(slow, taker)
        world.turn()
    assert offsets(taker) == [0, *range(10 - kept, 10)]


def test_what_is_too_old_goes_and_the_last_segment_stays(world: World) -> None:
    queue = world.queue(x_stream_max_segment_size_bytes=1_000, x_max_age="10s")
    for _ in range(4):
        world.publish(queue, b"x" * 1_000)
        world.turn()
        world.pass_time(4_000)
    for _ in range(3):  # one decision at a time
        world.pass_time(20_000)
    assert queue.ready_count == 1
    assert offsets(read(world, queue)) == [3]
