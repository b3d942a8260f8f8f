"""links/federation/node_federation.py: on which node of a cluster a link runs, and what it leaves behind when it ends there."""

from __future__ import annotations

from itertools import pairwise

import pytest

from broker.catalog.commands.catalog_commands import DeleteVhost
from links.federation import node_federation
from links.federation.federation_status import LinkState
from tests.unit.links.federation_world import MOMENT_S, Cluster, FederatedClusters

OTHER = "leveret@other"


def federated(count: int = 1) -> tuple[FederatedClusters, Cluster, Cluster]:
    """Exchanges x0 and on of `down`, each with queue q bound with key k, are federated from those of `up`."""
    net = FederatedClusters("up", "down")
    up, down = net.clusters["up"], net.clusters["down"]
    down.here.declare("q")
    for number in range(count):
        down.here.declare_exchange(f"x{number}", "topic")
        down.here.bind("q", f"x{number}", "k")
    down.federate("up", pattern="^x[0-9]+$")
    return net, up, down


def exchanges(down: Cluster) -> set[str]:
    """Those whose links run here."""
    return {one.name for one in down.federation.facts()}


def test_a_node_without_a_majority_runs_none() -> None:
    net, _, down = federated()
    net.run()
    assert exchanges(down) == {"x0"}
    down.nodes = []
    net.run(3)
    assert exchanges(down) == set()


def test_many_links_begin_over_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy over 2,000 queues began 2,000 links in one turn of the event loop, 0.7 s."""
    monkeypatch.setattr(node_federation, "BEGUN_AT_ONCE", 2)
    net, _, down = federated(7)
    counts = [len(exchanges(down))]
    while counts[-1] < 7:
        net.clock.advance(0.005)
        counts.append(len(exchanges(down)))
        assert len(counts) < 0.5 / 0.005, "soon one behind the other"
    assert max(later - before for before, later in pairwise(counts)) <= 4, "two looks may come in one moment"
    net.run()
    assert set(down.states()) == {LinkState.RUNNING}


def test_many_links_end_over_several_turns_and_their_claims_are_released_behind_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A policy that ended 2,000 links did so in one turn of the event loop, 0.3 s."""
    monkeypatch.setattr(node_federation, "ENDED_AT_ONCE", 2)
    net, up, down = federated(7)
    net.run(3)
    assert len(down.states()) == 7
    down.world.submit(down.unpolicy())
    counts = [len(exchanges(down))]
    while counts[-1] > 0:
        net.clock.advance(0.005)
        counts.append(len(exchanges(down)))
        assert len(list(down.world.catalog.claims())) >= counts[-1], "a link runs without its claim"
        assert len(counts) < 0.5 / 0.005, "soon one behind the other"
    assert max(before - later for before, later in pairwise(counts)) <= 4, "two looks may come in one moment"
    net.run(3)
    assert list(down.world.catalog.claims()) == []
    assert not [one.name for one in up.world.catalog.queues("/")], "what nobody wants leaves nothing behind"


def test_links_that_another_node_may_run_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many they are: it may have begun them a second later."""
    monkeypatch.setattr(node_federation, "ENDED_AT_ONCE", 2)
    net, _, down = federated(7)
    net.run(3)
    down.nodes = [OTHER]
    counts = [len(exchanges(down))]
    while counts[-1] > 0:
        net.clock.advance(0.005)
        counts.append(len(exchanges(down)))
    assert set(counts) == {7, 0}


@pytest.mark.parametrize("kind", ["exchanges", "queues"])
def test_a_link_that_another_node_is_to_run_takes_nothing_of_the_upstream_with_it(kind: str) -> None:
    net, up, down = federated()
    up.here.declare("q")
    if kind == "queues":
        down.federate("up", pattern="^q$", apply_to="queues")
    net.run()
    assert down.states() == [LinkState.RUNNING]
    queues = [one.name for one in up.world.catalog.queues("/")]
    down.nodes = [OTHER]
    net.run(3)
    assert down.states() == []
    assert down.links[-1].status().state is LinkState.SHUTDOWN
    assert [one.name for one in up.world.catalog.queues("/")] == queues


def test_a_queue_s_link_runs_where_its_queue_is_led_and_follows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    net, up, down = federated()
    up.here.declare("q")
    led = type(down.world.broker.queue("/", "q"))
    monkeypatch.setattr(led, "accounted_here", False)
    down.federate("up", pattern="^q$", apply_to="queues")
    net.run(6)
    assert down.states() == []
    monkeypatch.setattr(led, "accounted_here", True)  # nothing is declared, nobody came or went
    net.run(6)
    assert down.states() == [LinkState.RUNNING]


def test_no_moment_without_bindings_when_the_node_of_a_link_begins_again() -> None:
    """The start fills a new exchange at the upstream and deletes the one before: an empty one would lose what comes then."""
    net, up, down = federated()
    net.run()
    down.federation.stop()
    down.begin_again()
    for number in range(200):
        net.clock.advance(MOMENT_S)
        up.here.publish("x0", "k", b"%d" % number)
    net.run()
    assert down.here.bodies_of("q") == [b"%d" % number for number in range(200)]


def test_what_waits_at_the_upstream_of_a_node_that_stops_comes_when_it_is_there_again() -> None:
    net, up, down = federated()
    net.run()
    down.federation.stop()
    up.here.publish("x0", "k", b"waits")
    net.run(3)
    assert (down.states(), down.here.bodies_of("q")) == ([], [])
    down.begin_again()
    net.run()
    assert down.here.bodies_of("q") == [b"waits"]


def test_nothing_is_begun_by_a_node_that_stops() -> None:
    net, _, down = federated()
    down.federation.stop()
    down.here.declare_exchange("x1", "topic")
    net.run(10)
    assert (down.states(), len(down.links)) == ([], 0)


def test_a_link_is_restarted_by_its_name_in_its_vhost_and_no_other() -> None:
    net, _, down = federated()
    net.run()
    (found,) = down.federation.facts()
    assert not down.federation.restart("other", found.id)
    assert not down.federation.restart("/", "00000000")
    assert down.links[-1].status().restarts == 0
    assert down.federation.restart("/", found.id)
    net.run()
    assert (down.states(), down.links[-1].status().restarts) == ([LinkState.RUNNING], 1)


def test_a_node_that_has_stopped_begins_none_whatever_is_declared_then() -> None:
    net, _, down = federated()
    net.run()
    down.federation.stop()
    down.here.declare_exchange("x9", "topic")
    down.federate("up", pattern="^x")
    down.here.bind("q", "x0", "later")
    net.run(5)
    assert (exchanges(down), list(down.world.catalog.claims())) == (set(), [])


def test_a_vhost_that_goes_takes_its_links_with_it() -> None:
    net, _, down = federated(2)
    net.run()
    down.here.bind("q", "x0", "later")
    down.world.submit(DeleteVhost("/"))
    net.run(5)
    assert (exchanges(down), list(down.world.catalog.claims())) == (set(), [])
