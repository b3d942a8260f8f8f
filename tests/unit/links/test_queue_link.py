"""Queue links between clusters in memory: when they take messages, and when they do not (links/federation/)."""

from __future__ import annotations

import pytest

from broker.records import QueueRecord
from links.amqp.conversation import ChannelRefused
from links.federation.federation_status import LinkState
from links.federation.queue_link import QueueLinkTerms, queue_steps
from links.federation.upstream import read_upstream
from tests.unit.links.federation_world import Cluster, FederatedClusters


def federated(**terms: object) -> tuple[FederatedClusters, Cluster, Cluster]:
    """Queue q of `down` takes from that of `up`."""
    net = FederatedClusters("up", "down")
    up, down = net.clusters["up"], net.clusters["down"]
    up.here.declare("q")
    down.here.declare("q")
    down.federate("up", pattern="^q$", apply_to="queues", **terms)
    net.run()
    assert down.states() == [LinkState.RUNNING]
    return net, up, down


def test_messages_stay_until_a_consumer_here_waits() -> None:
    net, up, down = federated()
    up.here.publish("", "q", b"1", b"2")
    net.run()
    assert down.here.declare("q", passive=True).ready == 0
    down.here.consume("q", no_ack=True)
    net.run()
    assert down.here.bodies == [b"1", b"2"]
    assert down.here.properties[0]["headers"]["x-received-from"] == [
        {"uri": "amqp://up", "queue": "q", "redelivered": False, "visit-count": 1}
    ]


def test_no_more_is_taken_than_consumers_here_want() -> None:
    net, up, down = federated(prefetch_count=2)
    up.here.publish("", "q", *[b"%d" % number for number in range(100)])
    down.here.consume("q", prefetch=1)
    net.run()
    there = up.here.declare("q", passive=True).ready
    assert len(down.here.bodies) == 1
    assert there > 90
    down.here.ack(1)
    net.run()
    assert down.here.bodies == [b"0", b"1"]


def test_own_consumers_of_the_upstream_go_first() -> None:
    net, up, down = federated()
    down.here.consume("q", no_ack=True)
    up.here.consume("q", no_ack=True)
    net.run()
    up.here.publish("", "q", b"1")
    net.run()
    assert (up.here.bodies, down.here.bodies) == ([b"1"], [])


@pytest.mark.parametrize("consuming", ["up", "down"])
def test_messages_of_two_queues_that_are_each_other_s_upstream_go_where_consumers_are(consuming: str) -> None:
    net, up, down = federated()
    up.federate("down", pattern="^q$", apply_to="queues")
    net.run()
    up.here.publish("", "q", b"1")
    down.here.publish("", "q", b"2")
    here = net.clusters[consuming].here
    here.consume("q", no_ack=True)
    net.run()
    assert sorted(here.bodies) == [b"1", b"2"]


def test_a_queue_that_the_upstream_does_not_have_is_declared_there() -> None:
    net = FederatedClusters("up", "down")
    up, down = net.clusters["up"], net.clusters["down"]
    down.here.declare("q", max_length=5)
    down.federate("up", pattern="^q$", apply_to="queues", queue="other")
    net.run()
    found = up.world.catalog.queue("/", "other")
    assert found is not None
    assert found.arguments["x-max-length"] == 5


def test_a_queue_that_is_there_is_taken_as_it_is() -> None:
    """Declared as the one here it was refused for its arguments, and the link never began."""
    net = FederatedClusters("up", "down")
    up, down = net.clusters["up"], net.clusters["down"]
    up.here.declare("q", max_length=5)
    down.here.declare("q")
    down.federate("up", pattern="^q$", apply_to="queues")
    net.run()
    assert down.states() == [LinkState.RUNNING]
    assert up.here.declare("q", passive=True).name == "q"


@pytest.mark.parametrize("code", [403, 405])
def test_a_queue_that_may_not_be_looked_at_is_not_declared(code: int) -> None:
    record = QueueRecord("/", "q", "classic", True, False, False, {}, 1, "n1")
    steps = queue_steps(QueueLinkTerms(read_upstream("up", {"uri": "amqp://up"}), record))
    for _ in range(2):
        assert steps.send(None)[1] == "channel.open"
    assert steps.send({})[1] == "queue.declare"
    with pytest.raises(ChannelRefused):
        steps.throw(ChannelRefused(code, "refused"))


def test_a_link_that_broke_takes_up_where_it_was() -> None:
    net, up, down = federated(reconnect_delay=1)
    down.here.consume("q", no_ack=True)
    net.run()
    down.upstreams[-1].cut()
    up.here.publish("", "q", b"1")
    net.run(3)
    assert down.here.bodies == [b"1"]


def test_a_queue_that_goes_takes_its_link_with_it() -> None:
    net, _, down = federated()
    down.here.delete("q")
    net.run()
    assert (down.states(), down.links[-1].status().state) == ([], LinkState.SHUTDOWN)
