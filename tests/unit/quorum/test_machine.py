"""What holds for the machine as a whole; each row of behaviour has its scenario in tests/scenarios/quorum."""

from __future__ import annotations

import pytest

from broker.queues.queue_type import Outcome
from quorum.fifo import movement
from quorum.fifo.commands import (
    Consume,
    DeadSettled,
    Piece,
    Policy,
    SessionKey,
    Settle,
    Tick,
    Upgrade,
    encode,
    entry_head,
)
from quorum.fifo.effects import Deliver
from quorum.fifo.machine import TIME_MS_MAX
from quorum.fifo.results import Gap, ResultCode, TakenMessage
from quorum.fifo.rules import DeadLetters, Rules
from quorum.fifo.versions import BOUNDED
from raft.core.messages import Entry, EntryKind
from tests.unit.quorum.queue_world import SESSION, QueueWorld, consumer, kinds, restored


def test_a_run_goes_out_whole_and_is_settled_by_ranges() -> None:
    world = QueueWorld()
    world.consume(prefetch=200)
    assert world.publish(100) is ResultCode.ACCEPTED
    assert world.take() == [Deliver(consumer(), 1, Piece(2, 9, 0, 100), 0, 0)]
    world.settle(11, 80)
    assert list(world.held()) == [*range(1, 11), *range(91, 101)]
    world.settle(1, 100)
    assert world.held() == {}
    assert list(world.machine.live_entries()) == []


def test_an_enqueuer_says_everything_once() -> None:
    world = QueueWorld()
    assert [world.publish(2), world.publish(3)] == [ResultCode.ACCEPTED, ResultCode.ACCEPTED]
    assert world.publish(2, sequence=1) is ResultCode.DUPLICATE
    assert world.publish(3, sequence=3) is ResultCode.DUPLICATE
    assert world.publish(1, sequence=9) == Gap(6)
    assert world.publish(5, sequence=4) == Gap(6)
    assert world.publish(1, session=SessionKey(2, 1)) is ResultCode.ACCEPTED
    assert world.ready() == [0, 1, 2, 3, 4, 16]
    assert world.machine.sessions() == [SESSION, SessionKey(2, 1)]


def test_a_get_that_is_said_again_takes_nothing_more() -> None:
    world = QueueWorld()
    world.publish(3)
    first = world.get(1)
    assert first == TakenMessage(1, Piece(1, 9, 0, 1), 0, 0, 2)
    assert world.get(1) == first
    world.settle(1, by=1)
    assert world.get(1) is None
    assert world.get(2, no_ack=True) == TakenMessage(1, Piece(1, 9, 1, 1), 0, 0, 1)
    assert world.get(2, no_ack=True) is None
    assert world.ready() == [2]


def test_a_consumer_overtaken_by_a_later_one_is_begun_all_the_same_but_only_once() -> None:
    world = QueueWorld()
    world.consume(3)
    world.consume(1)
    world.cancel(1)
    world.consume(1)
    assert [one.tag for one in world.machine.consumer_figures()] == ["c3"]


def test_messages_that_came_back_are_delivered_before_the_others() -> None:
    world = QueueWorld()
    world.consume(prefetch=2)
    world.publish(4)
    assert world.delivered() == [0, 1]
    world.settle(2, outcome=Outcome.REQUEUED)
    assert world.delivered() == [1]
    assert world.held() == {1: 0, 3: 1}


def test_members_that_have_done_other_things_have_other_digests() -> None:
    def played(*sizes: int, settled: int = 1) -> int:
        world = QueueWorld()
        world.consume(prefetch=1)
        for size in sizes:
            world.publish(size)
        world.settle(settled)
        return world.machine.digest

    assert played(1, 2) == played(1, 2)
    assert len({played(1, 2), played(2, 1), played(1, 1), played(1, 2, settled=2), played(1, 3)}) == 5


def test_entries_that_nobody_here_has_made_do_nothing_and_say_so() -> None:
    world = QueueWorld()
    world.publish(2)
    before = world.machine.state_digest()
    head = entry_head(world.now)
    good = encode(Tick())
    for data in (b"", b"\7" + head[1:], head[:4]):
        assert world.apply(data) == [ResultCode.UNKNOWN]
    for damaged in (b"\x63\0\0\0\0", b"\1\0\0\0\0", b"\2\0\0\0\0", b"\4\0\0\0\0", b"\7\1\0\0\0\0"):
        assert world.apply(head + good + damaged + good) == [None, ResultCode.UNKNOWN, None]
    for cut in (b"\1\0\0", b"\1\5\0\0\0", good[:-1]):
        assert world.apply(head + good + cut) == [None, ResultCode.UNKNOWN]
    assert world.ready() == [0, 1]
    world.machine.state.digest = 0
    assert world.machine.state_digest() != before  # entries were counted all the same


def test_numbers_beyond_all_measure_are_refused_or_cut() -> None:
    world = QueueWorld()
    beyond = (1 << 64) - 1
    world.consume(prefetch=1)
    assert world.say(Settle(consumer(), Outcome.ACKNOWLEDGED, [(beyond, 5)])) == [ResultCode.UNKNOWN]
    assert world.say(DeadSettled([(beyond, 5)])) == [None]
    assert world.publish(1, sequence=beyond) is ResultCode.UNKNOWN
    assert world.publish(0, sequence=1) is ResultCode.UNKNOWN
    assert world.publish(1, sequence=1, answered=beyond, expiration_ms=beyond - 1) is ResultCode.ACCEPTED
    assert world.say(Consume(consumer(beyond), "")) == [None]
    assert world.say(Consume(consumer(2), "")) == [None]
    assert world.say(Consume(consumer(beyond), "")) == [None]
    assert [one.tag for one in world.machine.consumer_figures()] == ["c1", ""]
    world.now = beyond
    world.publish(3, sequence=2)
    assert world.machine.state.now == TIME_MS_MAX
    restored(world.machine)


@pytest.mark.parametrize("limits", [{"max_length": 2}, {"max_length_bytes": 20}])
def test_more_than_may_be_dropped_in_one_entry_takes_several_ticks(
    monkeypatch: pytest.MonkeyPatch, limits: dict[str, int]
) -> None:
    """A policy for a long queue held the loop of every member for as long as it took to drop all that was beyond it."""
    monkeypatch.setattr(movement, "ROWS_MAX", 3)
    world = QueueWorld(Rules(dead_letters=DeadLetters.AT_MOST_ONCE))
    world.say(Upgrade(BOUNDED))
    for _ in range(12):
        world.publish(size=10)
    world.say(Policy(Rules(dead_letters=DeadLetters.AT_MOST_ONCE, **limits)))  # type: ignore[arg-type]
    assert world.dead() == [("maxlen", name) for name in range(3)]
    ticks = 0
    while world.machine.deadline is not None and world.machine.deadline <= world.now:
        again = restored(world.machine)
        assert again.deadline == world.machine.deadline
        world.say(Tick())
        ticks += 1
    assert ticks == 3
    assert world.dead() == [("maxlen", name) for name in range(3, 10)]
    assert world.machine.figures().ready == 2


def test_no_version_is_taken_back() -> None:
    world = QueueWorld()
    world.say(Upgrade(BOUNDED))
    assert world.say(Upgrade(BOUNDED - 1)) == [None]
    assert world.machine.version == BOUNDED


def test_before_version_7_all_beyond_the_limits_is_dropped_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members of earlier builds do so, and all have to do the same."""
    monkeypatch.setattr(movement, "ROWS_MAX", 3)
    world = QueueWorld()
    world.say(Upgrade(BOUNDED - 1))
    for _ in range(12):
        world.publish()
    world.say(Policy(Rules(max_length=2)))
    assert world.machine.figures().ready == 2


def test_more_than_may_expire_in_one_entry_takes_several_ticks_and_is_given_to_nobody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(movement, "EXPIRED_MAX", 3)
    world = QueueWorld(Rules(dead_letters=DeadLetters.AT_MOST_ONCE))
    for _ in range(10):
        world.publish(expiration_ms=50)
    world.publish()
    world.now += 60
    assert world.get(1) is not None  # three expire on the way, and all before it are passed over
    assert world.dead() == [("expired", name) for name in range(10)]

    for _ in range(10):
        world.publish(expiration_ms=50)
    world.now += 60
    ticks = 0
    while world.machine.deadline is not None and world.machine.deadline <= world.now:
        again = restored(world.machine)
        world.say(Tick())
        again.apply([Entry(world.index, 1, EntryKind.COMMAND, entry_head(world.now) + encode(Tick()))])
        assert again.state_digest() == world.machine.state_digest()
        ticks += 1
    assert ticks == 4
    assert world.dead() == [("expired", name) for name in range(11, 21)]

    for _ in range(10):
        world.publish(expiration_ms=50)
    world.publish()
    world.now += 60
    world.consume(2, 1)
    assert [kind for kind in kinds(world.take()) if kind == "Deliver"] == ["Deliver"]
    assert list(world.held(2).values()) == [31]
