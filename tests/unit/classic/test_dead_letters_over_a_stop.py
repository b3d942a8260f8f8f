"""Dead letters of one classic queue to another, while the node stops and while it starts: none is lost in between."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from broker.background_work import BackgroundWork
from broker.catalog.policy import EffectiveArguments
from broker.errors import ResourceExhausted
from broker.messages.message import Run
from broker.queues.queue_type import DeadMessage, DeathReason, Outcome, Queue, Slice
from broker.records import QueueRecord
from native.content import messages
from tests.unit.classic.classic_world import Host, World, record_of

MANY = 60
DLX = EffectiveArguments(dead_letter_exchange="dlx")
SHORT = EffectiveArguments(dead_letter_exchange="dlx", max_length=5)


class DeadLetterWorld(World):
    """A queue whose dead letters go to the queue `dead`, as the broker passes them on: to the queues that are open, and not
    again where that fails. Turns have room for two steps."""

    def __init__(self, source: str = "q") -> None:
        self.soon: list[Callable[[], None]] = []
        self.source = source
        super().__init__(
            [record_of(name, number) for number, name in enumerate(sorted((source, "dead")), 1)],
            effective=DLX,
            work=lambda: BackgroundWork(self.soon.append, lambda: 0.0, steps_max=2),
        )

    def new_host(self) -> Host:
        return PassingOn(self)

    def effective_of(self, record: QueueRecord) -> EffectiveArguments:
        return self.effective if record.name == self.source else EffectiveArguments()

    def hold(self, count: int) -> list[Slice]:
        held = []
        for _ in range(count):
            self.host.work.turn_ended()
            got = self.get(self.source)
            assert got is not None
            held.append(got.piece)
        return held

    def fill(self, count: int = MANY, expiration_ms: int | None = None) -> None:
        for number in range(count):
            self.host.work.turn_ended()
            self.publish([self.source], [b"%d" % number], expiration_ms=expiration_ms)
        self.log.flush_lazy()
        self.loop.run_soon()

    def settle(self, pieces: list[Slice], outcome: Outcome) -> None:
        for piece in pieces:
            self.queues[self.source].settle(piece, outcome, self.now)

    def finish(self) -> None:
        while self.soon or self.host.woken:
            soon, self.soon[:] = list(self.soon), []
            for call in soon:
                call()
            self.loop.run_soon()
            self.host.work.turn_ended()
            self.turn()

    def restart(self) -> None:
        """What is put off and not done yet is for nobody."""
        self.stop()
        self.finish()
        self.start()

    def bodies(self, name: str) -> list[bytes]:
        self.host.work.turn_ended()
        found = []
        while (got := self.get(name, no_ack=True)) is not None:
            self.host.work.turn_ended()
            found.append(messages(got.content[got.piece.position :], 0, 1)[0][1])
        return found


class PassingOn(Host):
    def __init__(self, world: DeadLetterWorld) -> None:
        super().__init__(work=world.work())
        self._world = world

    def dead_letter(self, queue: Queue, reason: DeathReason, dead: Sequence[DeadMessage], now: int) -> None:
        target = self._world.queues.get("dead")
        for _, key, content, persistent, _ in dead:
            run = Run("dlx", key, content, 1, len(messages(content, 0, 1)[0][1]), persistent=persistent)
            if target is not None:
                with suppress(ResourceExhausted):
                    self._world.kind.publish([target], run, None, now)


ALL = [b"%d" % number for number in range(MANY)]


def test_what_was_rejected_and_not_passed_on_when_the_node_stopped_comes_back() -> None:
    world = DeadLetterWorld()
    world.fill()
    world.settle(world.hold(MANY), Outcome.REJECTED)
    passed_on = world.queues["dead"].ready_count
    assert passed_on < MANY, "most of it is put off"
    world.restart()
    world.finish()
    got = world.get("q")
    assert got is not None
    assert got.piece.redelivered
    world.settle([got.piece], Outcome.RETURNED)
    dead, back = world.bodies("dead"), world.bodies("q")
    assert len(dead) == passed_on
    assert dead + back == ALL


@pytest.mark.parametrize("full", [False, True])
def test_what_comes_back_beyond_a_limit_when_the_node_stops_is_dead_lettered_after_the_start(full: bool) -> None:
    world = DeadLetterWorld()
    world.fill()
    held = world.hold(MANY)
    world.queues["q"].policy_changed(SHORT, world.now)
    world.effective = SHORT
    world.finish()
    while full and world.host.work.in_turn():
        pass
    world.settle(held, Outcome.REQUEUED)
    world.host.work.turn_ended()
    world.restart()
    world.finish()
    assert world.queues["q"].ready_count == 5
    assert sorted(world.bodies("dead") + world.bodies("q"), key=int) == ALL


def test_trimming_that_is_under_way_when_the_node_stops_goes_on_after_the_start() -> None:
    world = DeadLetterWorld()
    world.fill()
    world.host.work.turn_ended()
    world.queues["q"].policy_changed(SHORT, world.now)
    world.effective = SHORT
    left = world.queues["q"].ready_count
    assert 5 < left < MANY
    world.stop()
    world.finish()
    assert world.queues["q"].ready_count == left, "nothing leaves a queue that is stopped"
    world.start()
    world.finish()
    assert (world.bodies("dead"), world.bodies("q")) == (ALL[:-5], ALL[-5:])


@pytest.mark.parametrize("source", ["a source", "z source"])
@pytest.mark.parametrize("in_order", [False, True])
def test_what_expired_while_the_node_was_down_is_dead_lettered_whichever_queue_is_opened_first(
    source: str, in_order: bool
) -> None:
    world = DeadLetterWorld(source)
    world.fill(expiration_ms=500)
    if in_order:
        world.stop()
    else:
        world.disk.kill()
    world.now += 1_000
    world.soon.clear()
    world.start()
    world.finish()
    assert (world.bodies("dead"), world.queues[source].ready_count) == (ALL, 0)
