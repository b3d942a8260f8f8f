"""Works that are done in slices: whatever is asked in the midst of one, the answers hold, and no message has two fates."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.background_work import BackgroundWork
from broker.catalog.policy import EffectiveArguments
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import DeathReason, Got, Outcome, Slice
from broker.session.deliveries import Held
from broker.turns import DELIVERIES_MIN
from classic import deferred_work
from native.content import messages
from tests.unit.classic.classic_world import Sink, World, record_of

MANY = 100
DLX = EffectiveArguments(dead_letter_exchange="dlx")


class SlicedWorld(World):
    """A queue `q` on a node whose turns have room for a few steps only. `slice` is one more turn."""

    def __init__(
        self,
        effective: EffectiveArguments | None = None,
        steps_max: int | None = 2,
        clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self.soon: list[Callable[[], None]] = []
        super().__init__(
            [record_of("q", 1)],
            effective=effective,
            work=lambda: BackgroundWork(self.soon.append, clock, steps_max=steps_max),
        )
        self.queue = self.queues["q"]
        self.answers: list[Any] = []

    def slice(self) -> bool:
        soon = list(self.soon)
        self.soon.clear()
        for call in soon:
            call()
        self.loop.run_soon()
        return bool(soon)

    def finish(self) -> None:
        while self.slice() or self.host.woken:
            self.end_turn()

    def end_turn(self) -> None:
        self.host.work.turn_ended()
        self.turn()
        self.host.work.turn_ended()

    def fill(self, count: int = MANY, first: int = 0, **fields: Any) -> list[bytes]:
        bodies = [b"%d" % number for number in range(first, first + count)]
        for body in bodies:
            self.publish(["q"], [body], **fields)
            self.host.work.turn_ended()
        return bodies

    def hold(self, count: int) -> list[Slice]:
        """So many messages are out."""
        held = []
        for _ in range(count):
            self.host.work.turn_ended()
            got = self.get("q")
            assert got is not None
            held.append(got.piece)
        return held

    def settle(self, pieces: list[Slice], outcome: Outcome, *, together: bool = False) -> None:
        """As one method of a client does; `together`: of very many."""
        if together:
            held = [Held(piece, None, 1, 1, 1 + piece.count) for piece in pieces]
            self.queue.settle_all(held, outcome, self.now)
            return
        for piece in pieces:
            self.queue.settle(piece, outcome, self.now)

    def ask(self, answer: Pending[Any]) -> None:
        answer.then(self.answers.append, self.answers.append)


def body_of(got: Got | None) -> bytes:
    assert got is not None
    return messages(got.content[got.piece.position :], 0, 1)[0][1]


@pytest.mark.parametrize("together", [False, True])
def test_a_get_behind_many_that_come_back_takes_the_first_of_them(together: bool) -> None:
    world = SlicedWorld()
    world.fill()
    world.settle(world.hold(MANY), Outcome.REQUEUED, together=together)
    world.ask(world.queue.get(True, world.now))
    assert world.answers == [], "most of them are not back"
    world.finish()
    (got,) = world.answers
    assert (body_of(got), got.piece.redelivered, got.remaining) == (b"0", True, MANY - 1)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("outcome", [Outcome.REQUEUED, Outcome.RETURNED, Outcome.RELEASED])
def test_nothing_overtakes_messages_that_come_back(outcome: Outcome, together: bool) -> None:
    world = SlicedWorld()
    bodies = world.fill(MANY + 10)
    world.settle(world.hold(MANY)[::-1], outcome, together=together)
    sink = Sink()
    world.queue.consume(Consumer("c", world.queue, sink, prefetch=3), world.now)
    while world.slice():
        world.end_turn()
        assert [body for body, _ in sink.got] == bodies[: len(sink.got)]
    world.finish()
    assert [body for body, _ in sink.got] == bodies[:3]
    assert world.queue.ready_count == MANY + 7


def test_a_purge_behind_many_that_come_back_drops_and_counts_them_all() -> None:
    world = SlicedWorld()
    world.fill()
    world.settle(world.hold(MANY - 5), Outcome.REQUEUED)
    world.ask(world.queue.purge(world.now))
    world.finish()
    world.log.flush_lazy()
    world.loop.run_soon()
    assert (world.answers, world.queue.ready_count) == ([MANY], 0)


def test_who_asks_for_counts_hears_of_all_that_come_back() -> None:
    world = SlicedWorld()
    world.fill()
    world.settle(world.hold(MANY), Outcome.REQUEUED)
    asked = world.queue.used(world.now)
    assert asked is not None
    asked.then(lambda _: world.answers.append(world.queue.ready_count), world.answers.append)
    world.finish()
    assert world.answers == [MANY]


def test_what_is_given_back_later_comes_behind_what_was_put_off() -> None:
    world = SlicedWorld(DLX)
    world.fill()
    held = world.hold(MANY)
    world.settle(held[: MANY - 1], Outcome.REJECTED)
    world.host.work.turn_ended()
    world.settle(held[MANY - 1 :], Outcome.REJECTED)
    world.finish()
    assert [body for _, _, body in world.host.dead] == [b"%d" % number for number in range(MANY)]


def test_a_long_run_that_is_rejected_is_dead_lettered_in_order() -> None:
    world = SlicedWorld(DLX)
    bodies = [b"%d" % number for number in range(MANY)]
    world.publish(["q"], bodies)
    sink = Sink()
    world.queue.consume(Consumer("c", world.queue, sink, prefetch=0), world.now)
    world.end_turn()
    assert len(sink.pieces) == 1
    world.settle(sink.pieces, Outcome.REJECTED)
    assert 0 < len(world.host.dead) < MANY, "a part of it in this turn"
    world.finish()
    assert [body for _, _, body in world.host.dead] == bodies
    assert world.queue.statistics().unacknowledged == 0


def test_what_is_too_old_is_not_delivered_while_it_leaves() -> None:
    world = SlicedWorld(EffectiveArguments(dead_letter_exchange="dlx"))
    old = world.fill(expiration_ms=50)
    world.fill(1, first=MANY)
    world.now += 100
    world.ask(world.queue.get(True, world.now))
    assert world.answers == []
    world.finish()
    assert [body_of(got) for got in world.answers] == [b"%d" % MANY]
    assert [body for _, reason, body in world.host.dead if reason is DeathReason.EXPIRED] == old


def test_a_new_limit_holds_for_whoever_asks_behind_it() -> None:
    world = SlicedWorld(DLX)
    bodies = world.fill()
    world.queue.policy_changed(EffectiveArguments(max_length=2, dead_letter_exchange="dlx"), world.now)
    world.ask(world.queue.get(True, world.now))
    asked = world.queue.used(world.now)
    assert asked is not None
    asked.then(lambda _: world.answers.append(world.queue.ready_count), world.answers.append)
    world.finish()
    assert (body_of(world.answers[0]), world.answers[1]) == (bodies[-2], 1)
    assert [body for _, _, body in world.host.dead] == bodies[:-2]


def test_who_asks_while_the_turn_is_too_full_to_trim_is_answered_when_it_is_trimmed() -> None:
    world = SlicedWorld(EffectiveArguments(max_length=3))
    world.fill(3)
    world.end_turn()
    while world.host.work.in_turn():
        pass
    world.publish(["q"], [b"3"])
    world.ask(world.queue.get(True, world.now))
    asked = world.queue.used(world.now)
    assert asked is not None, "one message is too many"
    asked.then(lambda _: world.answers.append(world.queue.ready_count), world.answers.append)
    world.finish()
    assert (body_of(world.answers[0]), world.answers[1:]) == (b"1", [2])


def test_a_newer_message_does_not_overtake_what_comes_back_to_a_consumer_without_acknowledgements() -> None:
    world = SlicedWorld()
    bodies = world.fill(5)
    held = world.hold(5)
    sink = Sink()
    world.queue.consume(Consumer("c", world.queue, sink, no_ack=True), world.now)
    while world.host.work.in_turn():
        pass
    world.settle(held, Outcome.REQUEUED)
    world.publish(["q"], [b"newer"], persistent=False)
    world.finish()
    assert [body for body, _ in sink.got] == [*bodies, b"newer"]


def test_a_queue_that_is_deleted_answers_who_waited() -> None:
    world = SlicedWorld()
    world.fill()
    world.settle(world.hold(MANY), Outcome.REQUEUED)
    world.ask(world.queue.get(True, world.now))
    world.ask(world.queue.purge(world.now))
    world.kind.delete(world.queue, world.now)
    assert world.answers == [None, 0]
    world.finish()


def test_a_node_that_stops_notes_what_was_put_off() -> None:
    world = SlicedWorld()
    bodies = world.fill()
    held = world.hold(MANY)
    world.settle(held[:50], Outcome.ACKNOWLEDGED)
    world.settle(held[50:], Outcome.REQUEUED)
    world.restart()
    world.soon.clear()
    world.host.work.turn_ended()
    world.queue = world.queues["q"]
    seen = []
    for _ in range(50):
        world.host.work.turn_ended()
        got = world.get("q", no_ack=True)
        assert got is not None
        seen.append((body_of(got), got.piece.redelivered))
    assert seen == [(body, True) for body in bodies[50:]]
    assert world.queue.ready_count == 0


def test_a_message_that_may_not_wait_is_delivered_in_a_full_turn() -> None:
    world = SlicedWorld()
    sink = Sink()
    world.queue.consume(Consumer("c", world.queue, sink, prefetch=0), world.now)
    while world.host.work.in_turn():
        pass
    world.publish(["q"], [b"now"], expiration_ms=0)
    assert sink.got == [(b"now", False)]


def test_many_small_deliveries_take_several_turns() -> None:
    world = SlicedWorld(steps_max=5)
    bodies = world.fill(20)
    sink = Sink()
    world.queue.consume(Consumer("c", world.queue, sink, prefetch=0), world.now)
    world.end_turn()
    assert 0 < len(sink.got) < 20
    world.finish()
    assert [body for body, _ in sink.got] == bodies


def test_a_short_queue_is_delivered_in_one_turn_though_the_disk_is_slow() -> None:
    """Where a read took two milliseconds, a client that consumed from four messages and cancelled at once got two or three."""
    looked_at = itertools.count()
    world = SlicedWorld(steps_max=None, clock=lambda: next(looked_at))
    bodies = world.fill(DELIVERIES_MIN + 1)
    sink = Sink()
    world.queue.consume(Consumer("c", world.queue, sink, prefetch=100), world.now)
    world.turn()
    assert [body for body, _ in sink.got] == bodies[:DELIVERIES_MIN]
    world.finish()
    assert [body for body, _ in sink.got] == bodies


def test_one_delivery_of_each_of_very_many_queues_is_acknowledged_without_a_work_for_each() -> None:
    """A client that acknowledges what it has of a thousand queues made a thousand works, each of two steps."""
    world = SlicedWorld()
    world.fill(2)
    held = world.hold(2)
    while world.host.work.in_turn():
        pass
    world.settle(held[:1], Outcome.ACKNOWLEDGED, together=True)
    assert world.queue.out.count == 1
    assert not world.soon
    world.settle(held[1:], Outcome.REQUEUED, together=True)
    assert world.queue.ready_count == 0, "that may have to read the disk"


def test_a_queue_whose_deferred_work_is_done_is_pumped_once_and_by_the_turn() -> None:
    world = SlicedWorld(steps_max=5)
    world.fill(1)
    held = world.hold(1)
    world.publish(["q"], [b"newer"])
    sink = Sink()
    world.queue.consume(Consumer("c", world.queue, sink, prefetch=0), world.now)
    world.host.woken.clear()
    world.settle(held, Outcome.REQUEUED, together=True)
    world.slice()
    assert (sink.got, list(world.host.woken)) == ([], [world.queue])
    world.finish()
    assert [body for body, _ in sink.got] == [b"0", b"newer"]


def test_publishers_are_to_pause_when_a_queue_grows_faster_than_it_is_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_work, "GROWTH_MAX", 20)
    world = SlicedWorld()
    world.fill()
    world.queue.policy_changed(EffectiveArguments(max_length=1, dead_letter_exchange="dlx"), world.now)
    assert not world.kind.congested, "it is long, and does not grow"
    world.publish(["q"], [b"more"] * 200)
    assert world.kind.congested
    world.finish()
    assert not world.kind.congested


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 12)),
        st.tuples(st.just("publish and get in a full turn"), st.integers(1, 3)),
        st.tuples(st.just("publish mortal"), st.integers(1, 12)),
        st.tuples(st.just("get"), st.integers(1, 20)),
        st.tuples(st.just("settle"), st.sampled_from([Outcome.ACKNOWLEDGED, Outcome.REQUEUED, Outcome.REJECTED])),
        st.tuples(st.just("limit"), st.sampled_from([None, 1, 5])),
        st.tuples(st.just("purge"), st.just(0)),
        st.tuples(st.just("time"), st.integers(1, 60)),
        st.tuples(st.just("turn"), st.just(0)),
        st.tuples(st.just("slice"), st.integers(1, 3)),
    ),
    max_size=40,
)


@given(STEPS, st.booleans(), st.sampled_from([2, 5, 50]))
def test_every_message_has_one_fate_whatever_comes_between_the_slices(
    steps: list[tuple[str, Any]], buries: bool, steps_max: int
) -> None:
    exchange = "dlx" if buries else None
    world = SlicedWorld(EffectiveArguments(dead_letter_exchange=exchange), steps_max)
    published: list[bytes] = []
    held: dict[bytes, Slice] = {}
    acknowledged: list[bytes] = []
    purged: list[int] = []
    unanswered = Counter[str]()

    def got(one: Got | None) -> None:
        unanswered["get"] -= 1
        if one is not None:
            body = body_of(one)
            assert body not in held, f"{body!r} was delivered twice"
            held[body] = one.piece

    def counted(count: int) -> None:
        unanswered["purge"] -= 1
        purged.append(count)

    for step, value in steps:
        if step in ("publish", "publish mortal"):
            expiration = 30 if step.endswith("mortal") else None
            published += world.fill(value, first=len(published), expiration_ms=expiration)
        elif step == "get":
            for _ in range(value):
                unanswered["get"] += 1
                world.queue.get(False, world.now).then(got, world.answers.append)
        elif step == "settle":
            back, held = held, {}
            world.settle(list(back.values()), value)
            if value is Outcome.ACKNOWLEDGED:
                acknowledged += back
        elif step == "limit":
            world.queue.policy_changed(EffectiveArguments(max_length=value, dead_letter_exchange=exchange), world.now)
        elif step == "publish and get in a full turn":
            while world.host.work.in_turn():
                pass
            for _ in range(value):
                published.append(b"%d" % len(published))
                world.publish(["q"], published[-1:])
            unanswered["get"] += 1
            world.queue.get(False, world.now).then(got, world.answers.append)
        elif step == "purge":
            unanswered["purge"] += 1
            world.queue.purge(world.now).then(counted, world.answers.append)
        elif step == "time":
            world.now += value
        elif step == "turn":
            world.end_turn()
        else:
            for _ in range(value):
                world.slice()
    world.finish()
    world.log.flush_lazy()
    world.loop.run_soon()
    world.finish()
    assert world.answers == []
    assert not any(unanswered.values()), f"never answered: {unanswered}"
    dead = [body for _, _, body in world.host.dead]
    ready = [body for body, _ in waiting(world)]
    assert ready == sorted(ready, key=int), "out of order"
    known = [*held, *acknowledged, *dead, *ready]
    assert len(known) == len(set(known)), "two fates"
    if buries:
        assert len(published) == len(known) + sum(purged)
    else:  # what expired, was too much or was rejected is gone
        assert set(known) <= set(published)
    statistics = world.queue.statistics()
    assert (statistics.ready, statistics.unacknowledged) == (len(ready), len(held))


def waiting(world: SlicedWorld) -> list[tuple[bytes, bool]]:
    found: list[Any] = []
    world.queue.browse(0, 10_000, 0).then(found.append, found.append)
    return [(messages(one.content, 0, 1)[0][1], one.redelivered) for one in found[0]]


def test_queues_that_are_filled_in_one_turn_write_their_positions_over_several() -> None:
    """A fan-out to 500 queues took half a second of one turn."""
    world = SlicedWorld()
    world.queue.backing.page_out = written = Mock(wraps=world.queue.backing.page_out)  # type: ignore[method-assign]
    level = world.queue.levels[0]
    level._runs_limit = 4
    for number in range(4):
        world.publish(["q"], [b"%d" % number])
        world.host.work.turn_ended()
    while world.host.work.in_turn():
        pass  # others have used this turn up
    for number in range(4, 8):
        world.publish(["q"], [b"%d" % number])
    assert not written.called
    world.slice()
    assert written.call_count == 1 and len(level.q2) + len(level.q3) <= 4
