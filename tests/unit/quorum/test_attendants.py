"""Consumers on a node without a member are sent what they are given by the leader's node: quorum/leading.py."""

from __future__ import annotations

import pytest

from broker.records import QueueRecord
from quorum.fifo.commands import ConsumerKey, Piece
from quorum.fifo.effects import Deliver
from quorum.leading import Leading
from tests.unit.quorum.clients import Clients, Publisher, Taker

LEADS, SERVED = 1, 4  # nodes


@pytest.fixture
def clients() -> Clients:
    return Clients(4)


@pytest.fixture
def record(clients: Clients) -> QueueRecord:
    record = clients.cluster.declare("q", [1, 2, 3], home=LEADS)
    assert clients.cluster.leader(record).number == LEADS
    return record


def leading_of(clients: Clients, record: QueueRecord) -> Leading:
    leading = clients.of(LEADS, record)[1].leading
    assert isinstance(leading, Leading)
    return leading


def test_when_a_link_that_was_full_has_room_again_all_comes_that_was_not_sent_and_what_is_published_then(
    clients: Clients, record: QueueRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a moment: its node asks again only every second."""
    taker = Taker(clients, SERVED, record)
    publisher = Publisher(clients, LEADS, record)
    clients.cluster.run(2)
    leading = leading_of(clients, record)
    with monkeypatch.context() as patch:
        patch.setattr(clients.cluster.nodes[LEADS].calls, "writable", lambda node: node != SERVED)
        for _ in range(3):
            publisher.publish()
            clients.cluster.loop.run_for(0.01)
        assert taker.bodies == []
    leading.writable(SERVED)
    clients.cluster.loop.run_for(0.01)
    assert taker.bodies == publisher.all
    publisher.publish()
    clients.cluster.loop.run_for(0.01)
    assert taker.bodies == publisher.all
    clients.cluster.close()


def test_behind_what_was_taken_away_before_it_was_sent_the_next_message_comes_at_once(
    clients: Clients, record: QueueRecord
) -> None:
    """It came when its node asked again, up to a second later."""
    taker = Taker(clients, SERVED, record)
    clients.cluster.run(2)
    (subscription,) = taker.queue.consumers.subscriptions.values()
    key = ConsumerKey(*clients.of(SERVED, record)[0].key, subscription.number)
    machine = clients.of(LEADS, record)[1].member.machine
    machine.state.consumers.all[key].next_id += 1  # as if it had been given one that was taken away since
    leading_of(clients, record).deliver(Deliver(key, subscription.next_id, Piece(1, 0, 0, 1), 0, 0))
    bodies = Publisher(clients, LEADS, record).publish()
    clients.cluster.loop.run_for(0.01)
    assert taker.bodies == bodies
    clients.cluster.close()


def test_a_consumer_goes_on_when_what_was_on_its_way_to_its_node_was_given_to_another_one_meanwhile(
    clients: Clients,
) -> None:
    """Its node took what came next for proof that something was lost, and asked again, for ever: hundreds of times a second.
    It was given nothing any more."""
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=LEADS, **{"x-consumer-disconnected-timeout": 1000})
    assert cluster.leader(record).number == LEADS
    taker = Taker(clients, SERVED, record)
    cluster.run(2)
    for node in (1, 2, 3):
        cluster.cut(node, SERVED)
    publisher = Publisher(clients, LEADS, record)
    lost = publisher.publish(2)
    cluster.run(5)
    other = Taker(clients, LEADS, record)
    cluster.run(1)
    assert other.bodies == lost
    other.cancel()
    cluster.heal()
    cluster.run(3)
    calls = cluster.nodes[SERVED].calls
    asked = calls._asked
    bodies = publisher.publish(3)
    cluster.run(0.1)
    assert taker.got == [(body, False) for body in bodies]
    cluster.run(3)
    assert calls._asked - asked < 10
    cluster.close()
