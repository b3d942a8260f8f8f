"""What waits for a client that cannot be written to may be given to somebody else meanwhile."""

from __future__ import annotations

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
