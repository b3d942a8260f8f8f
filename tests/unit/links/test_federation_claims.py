"""Which node runs links of exchanges: the one that holds a claim on them (links/federation/node_federation.py)."""

from __future__ import annotations

from broker.catalog.commands import catalog_commands as commands
from broker.errors import ResourceExhausted
from broker.records import ClaimRecord, NodeRecord
from links.federation.federation_status import LinkState
from links.federation.node_federation import CLAIMED_AS
from links.link_claims import LEASE_S, TAKE_S
from tests.unit.links.federation_world import Cluster, FederatedClusters


def federated() -> tuple[FederatedClusters, Cluster]:
    """`down` has exchange x from `up`."""
    net = FederatedClusters("up", "down")
    down = net.clusters["down"]
    down.here.declare_exchange("x", "topic")
    down.federate("up")
    net.run()
    assert down.states() == [LinkState.RUNNING]
    return net, down


def claim(down: Cluster) -> ClaimRecord | None:
    return next(iter(down.world.catalog.claims()), None)


def taken_by_another(down: Cluster) -> None:
    """As one that has not seen this node renew for long enough does."""
    held = claim(down)
    assert held is not None
    wish = ClaimRecord(held.kind, held.vhost, held.name, "other", held.epoch)
    down.world.submit(
        commands.AddNode(NodeRecord("other", 0, 2, "other:1")),
        commands.TakeClaim(wish, held.node, down.world.catalog.beat_of(held.node)),
    )


def test_a_link_runs_where_its_claim_is_held_and_ends_once_another_node_has_it() -> None:
    net, down = federated()
    held = claim(down)
    assert held is not None
    assert (held.kind, held.name, held.node) == (CLAIMED_AS, down.federation.facts()[0].id, down.broker.node)
    taken_by_another(down)
    net.run(0.1)
    assert down.states() == []
    net.run()
    assert down.states() == []


def test_a_drained_node_gives_its_claim_away_and_leaves_the_queue_at_the_upstream() -> None:
    net, down = federated()
    down.nodes[:] = ["other"]
    net.run()
    assert (down.states(), claim(down)) == ([], None)
    assert net.clusters["up"].here.declare("federation: x -> down", passive=True).ready == 0


def test_nothing_is_claimed_when_a_link_is_not_wanted_any_more() -> None:
    net, down = federated()
    down.world.submit(down.unpolicy())
    net.run()
    assert claim(down) is None


def test_a_link_ends_when_renewals_are_not_answered_and_begins_again_once_they_are() -> None:
    net, down = federated()
    down.world.metadata.refusal = ResourceExhausted("no majority")
    net.run(LEASE_S)
    assert down.states() == []
    down.world.metadata.refusal = None
    net.run(TAKE_S)
    assert down.states() == [LinkState.RUNNING]


def test_a_node_that_stops_gives_its_claims_away() -> None:
    _, down = federated()
    down.federation.stop()
    assert claim(down) is None
