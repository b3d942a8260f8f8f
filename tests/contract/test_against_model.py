"""A queue of every kind beside a list that cannot be wrong: random clients, priorities, times to live and limits.

Who gets a message is the queue's choice among those with room; all else is not. So the model follows what was delivered, in
the order it was, and holds each delivery to be the one that was due.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from broker.queues.consumer import Consumer
from broker.queues.queue_type import DeathReason, Outcome, Slice
from tests.contract.kinds import Kind, kinds_for
from tests.contract.world import World, bodies_of, part

STEP_MS = 1_000  # times to live end between two of them, or at once; never at the very millisecond that it is
CONSUMERS_MAX = 4
BODY_BYTES = 4  # all alike: of a part of a run a queue may say what its messages have on average


@dataclass
class Expected:
    """A message as it should be."""

    number: int
    level: int
    expires_at: int | None
    redelivered: bool = False

    @property
    def place(self) -> tuple[int, int]:
        return -self.level, self.number


@dataclass
class Out:
    """A message that somebody holds."""

    message: Expected
    consumer: Consumer | None
    piece: Slice


class Recorder:
    """Takes what consumers are given. Fulfils DeliverySink; one for each consumer, all telling the machine."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.writable = True

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        assert self.writable, "a delivery to a sink that is not writable"
        self.machine.delivered(consumer, piece, content)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        raise AssertionError("nobody deletes the queue")


class Machine(RuleBasedStateMachine):
    """One queue and its model. `kind` is set for each kind by the test."""

    kind: Kind
    arguments: st.SearchStrategy[dict[str, Any]]

    @initialize(data=st.data())
    def open(self, data: st.DataObject) -> None:
        self.world = World()
        self.world.opened = self.kind.open(self.world, Path())
        self.given = data.draw(self.arguments)
        self.queue = self.world.queue(x_dead_letter_exchange="dlx", **self.given)
        self.consumers: list[Consumer] = []
        self.ready: list[Expected] = []
        self.out: list[Out] = []
        self.acknowledged = 0
        self.published = 0
        self.dead: list[tuple[DeathReason, int]] = []
        self.publishing_at: int | None = None  # a message of no life at all is alive while it is published

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.world.opened.close()

    # what the queue does

    def delivered(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        before = consumer.outstanding - (0 if consumer.no_ack else piece.count)
        assert consumer in self.consumers, f"{consumer.tag} is not a consumer of this queue"
        if consumer.prefetch and not consumer.no_ack:
            assert consumer.outstanding <= consumer.prefetch, f"{before} + {piece.count} of {consumer.prefetch}"
        higher = [other for other in self.consumers if other.priority > consumer.priority and other.room()]
        assert not higher, f"{higher[0].tag} has a higher priority, and room"
        for offset, body in enumerate(bodies_of(piece, content)):
            message = self.take(body, piece)
            if not consumer.no_ack:
                self.out.append(Out(message, consumer, part(piece, offset, 1)))
            elif self.kind.node_acknowledges:
                self.acknowledged += 1

    def take(self, body: bytes, piece: Slice) -> Expected:
        """The message that is due, which this must be."""
        self.expire()
        assert self.ready, f"{body!r} was delivered, and nothing is ready"
        message = self.ready.pop(0)
        assert body == b"%04d" % message.number, f"{body!r} was delivered before {message.number}"
        assert piece.redelivered == message.redelivered, f"{message.number} is marked {piece.redelivered}"
        return message

    def expire(self) -> None:
        """Only what stands at the head of its priority."""
        now = self.world.now if self.publishing_at is None else self.publishing_at
        for level in {message.level for message in self.ready}:
            for message in [waiting for waiting in self.ready if waiting.level == level]:
                if message.expires_at is None or message.expires_at > now:
                    break
                self.ready.remove(message)
                self.dead.append((DeathReason.EXPIRED, message.number))

    # what clients do

    @rule(
        count=st.integers(1, 5),
        priority=st.integers(0, 3),
        expiration_ms=st.one_of(st.none(), st.sampled_from([0, 500, 2_500])),
        confirm=st.booleans(),
        persistent=st.booleans(),
    )
    def publish(self, count: int, priority: int, expiration_ms: int | None, confirm: bool, persistent: bool) -> None:
        now = self.world.now
        lives = [ttl for ttl in (expiration_ms, self.given.get("x_message_ttl")) if ttl is not None]
        expires_at = now + min(lives) if lives else None
        level = min(priority, self.given.get("x_max_priority", 0))
        numbers = range(self.published, self.published + count)
        self.published += count
        self.ready += [Expected(number, level, expires_at) for number in numbers]
        self.ready.sort(key=lambda message: message.place)
        self.publishing_at = now - 1
        tags = self.world.publish(
            self.queue, *[b"%04d" % number for number in numbers], confirm=confirm, priority=priority,
            expiration_ms=expiration_ms, persistent=persistent,
        )  # fmt: skip
        self.world.turn()
        self.publishing_at = None
        if expiration_ms == 0:
            self.world.pass_time(1)
        assert set(tags) <= set(self.world.answers.accepted), "a publish was not confirmed"

    @precondition(lambda self: len(self.consumers) < CONSUMERS_MAX)
    @rule(prefetch=st.integers(0, 4), no_ack=st.booleans(), priority=st.integers(0, 1), writable=st.booleans())
    def consume(self, prefetch: int, no_ack: bool, priority: int, writable: bool) -> None:
        sink = Recorder(self)
        sink.writable = writable
        tag = f"c{len(self.consumers)}"
        consumer = Consumer(tag, self.queue, sink, no_ack=no_ack, prefetch=prefetch, priority=priority)
        self.consumers.append(consumer)
        self.queue.consume(consumer, self.world.now)
        self.world.turn()

    @precondition(lambda self: self.consumers)
    @rule(index=st.integers(0, CONSUMERS_MAX))
    def cancel(self, index: int) -> None:
        consumer = self.consumers.pop(index % len(self.consumers))
        self.queue.cancel(consumer, self.world.now)
        self.world.turn()

    @precondition(lambda self: self.consumers)
    @rule(index=st.integers(0, CONSUMERS_MAX), writable=st.booleans())
    def change_sink(self, index: int, writable: bool) -> None:
        sink = self.consumers[index % len(self.consumers)].sink
        assert isinstance(sink, Recorder)
        sink.writable = writable
        self.world.wake(self.queue)
        self.world.turn()

    @precondition(lambda self: self.out)
    @rule(first=st.integers(0, 20), count=st.integers(1, 6), outcome=st.sampled_from(Outcome))
    def settle(self, first: int, count: int, outcome: Outcome) -> None:
        first %= len(self.out)
        settled = self.out[first : first + count]
        del self.out[first : first + count]
        for one in settled:
            self.back(one.message, outcome)
        for one in settled:
            self.world.settle(one.consumer, one.piece, outcome)
        self.world.turn()

    def back(self, message: Expected, outcome: Outcome) -> None:
        if outcome is Outcome.ACKNOWLEDGED:
            self.acknowledged += 1
        elif outcome is Outcome.REJECTED:
            self.dead.append((DeathReason.REJECTED, message.number))
        else:
            message.redelivered |= outcome is not Outcome.RETURNED
            self.ready.append(message)
            self.ready.sort(key=lambda one: one.place)

    @rule(no_ack=st.booleans())
    def get(self, no_ack: bool) -> None:
        found = self.world.get(self.queue, no_ack)
        self.expire()
        assert (found is None) == (not self.ready)
        if found is not None:
            body, got = found
            message = self.take(body, got.piece)
            remaining = len(self.ready)
            self.expire()  # the next one may be dead: whether it is counted is the queue's choice
            assert len(self.ready) <= got.remaining <= remaining
            if not no_ack:
                self.out.append(Out(message, None, got.piece))
            elif self.kind.node_acknowledges:
                self.acknowledged += 1
        self.world.wake(self.queue)
        self.world.turn()

    @rule()
    def purge(self) -> None:
        assert self.world.purge(self.queue) == len(self.ready)
        self.ready.clear()
        self.world.turn()

    @rule(steps=st.integers(1, 3))
    def wait(self, steps: int) -> None:
        self.world.pass_time(steps * STEP_MS)

    # what holds after each step

    @invariant()
    def all_is_where_it_should_be(self) -> None:
        if not hasattr(self, "world"):
            return
        self.expire()
        figures = self.queue.statistics()
        assert (self.queue.ready_count, figures.ready) == (len(self.ready), len(self.ready))
        assert figures.unacknowledged == len(self.out)
        assert (figures.published, figures.acknowledged) == (self.published, self.acknowledged)
        assert figures.consumers == self.queue.consumer_count == len(self.consumers)
        assert figures.ready_bytes == len(self.ready) * BODY_BYTES
        assert figures.unacknowledged_bytes == len(self.out) * BODY_BYTES

    @invariant()
    def nobody_waits_for_what_is_ready(self) -> None:
        if hasattr(self, "world") and self.ready:
            waiting = [consumer.tag for consumer in self.consumers if consumer.room()]
            assert not waiting, f"{waiting} have room, and {len(self.ready)} messages are ready"

    @invariant()
    def who_died_was_to_die(self) -> None:
        if hasattr(self, "world"):
            died = sorted((reason, int(body)) for reason, _, _, body, _ in self.world.dead)
            assert died == sorted(self.dead)


@pytest.mark.parametrize("kind", kinds_for("test_a_queue_does_what_the_list_does"), ids=lambda kind: kind.name)
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(st.just({}), id="plain"),
        pytest.param(st.fixed_dictionaries({"x_max_priority": st.integers(1, 3)}), id="priorities"),
        pytest.param(st.just({"x_message_ttl": 1_500}), id="ttl"),
    ],
)
def test_a_queue_does_what_the_list_does(kind: Kind, arguments: st.SearchStrategy[dict[str, Any]]) -> None:
    machine = type("MachineOfThisKind", (Machine,), {"kind": kind, "arguments": arguments})
    run_state_machine_as_test(machine, settings=settings(max_examples=40, stateful_step_count=30, deadline=None))


# ------------------------------------------------------------------------- length limits

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("publish"), st.integers(1, 3)),
        st.tuples(st.just("get"), st.just(1)),
        st.tuples(st.sampled_from(Outcome), st.integers(0, 9)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("kind", kinds_for("test_no_message_is_lost_or_doubled_by_a_limit"), ids=lambda kind: kind.name)
@pytest.mark.parametrize("overflow", ["drop-head", "reject-publish", "reject-publish-dlx"])
@settings(max_examples=40, deadline=None)
@given(steps=STEPS, length_max=st.integers(0, 4), bytes_max=st.one_of(st.none(), st.integers(0, 6)))
def test_no_message_is_lost_or_doubled_by_a_limit(
    kind: Kind, overflow: str, steps: list[tuple[str | Outcome, int]], length_max: int, bytes_max: int | None
) -> None:
    """What becomes of each is one of: ready, out, acknowledged, dead, refused."""
    world = World()
    world.opened = kind.open(world, Path())
    limits: dict[str, Any] = {"x_max_length": length_max}
    if bytes_max is not None:
        limits["x_max_length_bytes"] = bytes_max
    queue = world.queue(x_overflow=overflow, x_dead_letter_exchange="dlx", **limits)
    published, refused, acknowledged = 0, set[int](), set[int]()
    out: list[tuple[int, Slice]] = []
    for step, number in steps:
        if step == "publish":
            for _ in range(number):
                (tag,) = world.publish(queue, b"%d" % published, confirm=True)
                world.turn()
                if tag in world.answers.refused:
                    refused.add(published)
                published += 1
        elif step == "get":
            found = world.get(queue, no_ack=False)
            if found is not None:
                out.append((int(found[0]), found[1].piece))
        elif out:
            assert isinstance(step, Outcome)
            which, piece = out.pop(number % len(out))
            if step is Outcome.ACKNOWLEDGED:
                acknowledged.add(which)
            world.settle(None, piece, step)
        world.turn()
        if overflow == "drop-head":  # with the others what is requeued stays, for its publisher was told so
            assert queue.ready_count <= length_max
    dead = [int(body) for _, _, _, body, _ in world.dead]
    ready = [int(body) for body in world.drain(queue)]
    assert ready == sorted(ready)
    if overflow == "reject-publish":
        dead += sorted(refused)
    found_all = sorted([*dead, *ready, *acknowledged, *(which for which, _ in out)])
    assert found_all == list(range(published))
    assert overflow == "drop-head" or refused <= set(dead)
    world.opened.close()
