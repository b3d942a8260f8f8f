"""What a client holds, or what waits for it, may be given to somebody else while its node is cut off."""

from __future__ import annotations

import pytest

from tests.unit.quorum.clients import Clients, Publisher, Taker


def test_a_slow_client_is_not_given_what_another_one_has_acknowledged_since() -> None:
    """Its node was cut off, so the group gave the message to another consumer, whose acknowledgement is committed."""
    clients = Clients(3)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=2, **{"x-consumer-disconnected-timeout": 1000})
    cluster.leader(record)
    slow = Taker(clients, 1, record, settles=False, prefetch=1)
    cluster.run(1)
    slow.writable = False
    Publisher(clients, 2, record).publish()
    cluster.run(1)
    cluster.cut(1, 2)
    cluster.cut(1, 3)
    cluster.run(5)
    quick = Taker(clients, 2, record)
    cluster.run(2)
    assert quick.settled == [b"0"]
    cluster.heal()
    cluster.run(2)
    slow.writable = True
    clients.hosts[1].wake(slow.queue)
    cluster.run(1)
    assert slow.bodies == []
    cluster.close()


@pytest.mark.parametrize("node", [1, 4])
def test_a_client_that_still_holds_what_was_taken_away_is_given_no_more_than_its_prefetch(node: int) -> None:
    """The group counts it no more, the client does: it takes 2, holds 2, and its node, with a member or without, comes back."""
    clients = Clients(4)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=2, **{"x-consumer-disconnected-timeout": 1000})
    cluster.leader(record)
    holder = Taker(clients, node, record, settles=False, prefetch=2)
    cluster.run(1)
    publisher = Publisher(clients, 2, record)
    for _ in range(2):
        publisher.publish()
        cluster.run(0.5)
    assert holder.bodies == [b"0", b"1"]
    for other in {1, 2, 3, 4} - {node}:
        cluster.cut(node, other)
    cluster.run(5)
    quick = Taker(clients, 2, record)
    cluster.run(2)
    assert quick.settled == [b"0", b"1"]
    quick.cancel()
    publisher.publish(3)
    cluster.heal()
    cluster.run(5)
    assert (holder.bodies, holder.consumer.outstanding) == ([b"0", b"1"], 2)
    kept = holder.held.pop()
    holder.settle_all()
    cluster.run(1)
    assert (holder.bodies, holder.consumer.outstanding) == ([b"0", b"1", b"2"], 2)
    holder.held.append(kept)
    holder.settle_all()
    cluster.run(1)
    assert holder.bodies == [b"0", b"1", b"2", b"3", b"4"]
    cluster.close()
