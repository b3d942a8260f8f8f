"""What reaches no queue is counted, if anybody counts: who published it, to which exchange, with which key."""

from __future__ import annotations

import pytest

from broker.actors import LogActor
from broker.unlogged import Unlogged
from tests.unit.broker.broker_world import Client, World


class Counted:
    """Fulfils UnloggedCounter."""

    def __init__(self) -> None:
        self.told: list[tuple[int, str, str, int, int]] = []
        self.actors: list[LogActor | None] = []

    def count(
        self, what: int, actor: LogActor | None, exchange: str, routing_key: str, messages: int, body_bytes: int
    ) -> None:
        self.told.append((what, exchange, routing_key, messages, body_bytes))
        self.actors.append(actor)


@pytest.fixture
def counted() -> Counted:
    return Counted()


@pytest.fixture
def client(counted: Counted) -> Client:
    world = World()
    world.broker.unlogged = counted
    return world.client()


def test_what_no_queue_gets_is_counted_with_its_channel_returned_or_not(client: Client, counted: Counted) -> None:
    client.publish("amq.direct", "none", b"ab", b"c")
    client.publish("", "no-queue", b"d", mandatory=True)
    assert counted.told == [
        (Unlogged.UNROUTABLE, "amq.direct", "none", 2, 3),
        (Unlogged.RETURNED, "", "no-queue", 1, 1),
    ]
    assert counted.actors == [client.session.actor] * 2


def test_what_a_queue_gets_is_not_counted(client: Client, counted: Counted) -> None:
    client.declare("q")
    client.publish("", "q", b"a")
    assert client.bodies_of("q") == [b"a"]
    assert counted.told == []


def test_a_dead_letter_without_a_queue_is_counted_and_nobody_has_published_it(client: Client, counted: Counted) -> None:
    client.declare_exchange("graves")
    client.declare("q", dead_letter_exchange="graves", dead_letter_routing_key="dead")
    client.publish("", "q", b"abc")
    client.get("q")
    client.reject(1)
    client.world.end_turn()
    assert counted.told == [(Unlogged.DEAD_UNROUTABLE, "graves", "dead", 1, 3)]
    assert counted.actors == [None]


def test_where_nobody_counts_nothing_else_changes() -> None:
    client = World().client()
    client.publish("amq.direct", "none", b"a", mandatory=True)
    assert client.returns == [(312, "NO_ROUTE", b"a")]
