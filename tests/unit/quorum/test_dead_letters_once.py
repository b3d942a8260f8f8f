"""Dead letters at most once: in slices, in order, and no more of them than the node passes on."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest

from broker.background_work import BackgroundWork
from broker.queues.queue_type import DeathReason
from quorum import dead_letters_once
from tests.unit.quorum.clients import Clients, Publisher
from tests.unit.quorum.test_driver import numbered

TTL = {"x-message-ttl": 500, "x-dead-letter-exchange": "dlx"}


class World:
    """One node's queue, and slices of work that begin when they are asked for."""

    def __init__(self, **arguments: Any) -> None:
        self.soon: list[Callable[[], None]] = []
        self.clients = Clients()
        self.cluster = self.clients.cluster
        self.record = self.cluster.declare("q", [1], home=1, **arguments)
        self.cluster.leader(self.record)
        self.kind, self.queue = self.clients.of(1, self.record)
        self.host = self.clients.hosts[1]
        self.host.work = BackgroundWork(self.soon.append, lambda: 0.0, steps_max=1)  # type: ignore[assignment]

    def slice(self) -> bool:
        soon, self.soon[:] = list(self.soon), []
        for call in soon:
            call()
        return bool(soon)

    @property
    def dead(self) -> list[bytes]:
        return [body for _, body in self.host.dead]


def test_dead_letters_of_one_entry_are_published_in_slices_and_in_order() -> None:
    world = World(**TTL)
    publisher = Publisher(world.clients, 1, world.record)
    publisher.publish(9)
    publisher.publish(3)
    world.cluster.run(2)
    assert world.queue.ready_count == 0, "all of them have died"
    published = [len(world.dead)]
    while world.slice():
        published.append(len(world.dead))
    steps = [after - before for before, after in itertools.pairwise(published)]
    assert max(steps) <= dead_letters_once.PER_STEP and published[0] <= dead_letters_once.PER_STEP
    assert world.host.dead == [(DeathReason.EXPIRED, body) for body in numbered(12)]


def test_what_a_deleted_queue_had_buried_is_not_published() -> None:
    world = World(**TTL)
    Publisher(world.clients, 1, world.record).publish(9)
    world.cluster.run(2)
    begun = len(world.dead)
    assert begun < 9
    world.queue.close()
    while world.slice():
        pass
    assert len(world.dead) == begun


def test_nothing_more_is_buried_by_the_clock_while_too_much_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dead_letters_once, "WAITING_MAX", 3)
    monkeypatch.setattr(dead_letters_once, "TICKS_WAITING_MAX", 3)
    world = World(**TTL)
    publisher = Publisher(world.clients, 1, world.record)
    for _ in range(6):
        publisher.publish()
        world.cluster.run(0.02)
    world.cluster.run(2)
    while not world.kind.congested:  # each died alone, when its time had come
        publisher.publish()
        world.cluster.run(1)
    publisher.publish(5)
    world.cluster.run(2)
    assert world.queue.ready_count == 5, "they have expired, and wait"
    while world.slice():
        world.cluster.run(0.05)
    assert not world.kind.congested
    world.cluster.run(1)
    while world.slice():
        world.cluster.run(0.05)
    assert world.queue.ready_count == 0
    assert world.dead == numbered(publisher.next)


def test_what_was_passed_on_holds_publishers_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes that are never taken off again hold all publishers of the node for ever, once they are 64 MiB."""
    monkeypatch.setattr(dead_letters_once, "WAITING_BYTES_MAX", 1)
    world = World(**TTL)
    publisher = Publisher(world.clients, 1, world.record)
    for _ in range(4):
        publisher.publish(3)
        world.cluster.run(0.05)
    world.cluster.run(2)
    assert world.kind.congested, "whatever waits is too much here"
    for _ in range(40):
        world.slice()
        world.cluster.run(0.05)
    assert not world.kind.congested
    assert world.dead == numbered(12)
