"""Exchanges of the type x-federation-upstream: what goes to the cluster that declared one, and what would be dropped there."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.catalog.commands.catalog_commands import DeclareExchange
from broker.catalog.known_by_all import KnownByAll
from broker.errors import PreconditionFailed
from broker.exchanges.federation_upstream import has_seen, may_travel
from broker.records import ExchangeRecord
from tests.unit.broker.broker_world import Client, World

HERE = {"cluster-name": "down", "vhost": "/"}
ARGUMENTS = {
    "x-max-hops": 2,
    "x-downstream-name": "down",
    "x-downstream-vhost": "/",
    "x-internal-purpose": "federation",
}


def hop(cluster: str, vhost: str = "/") -> dict[str, Any]:
    return {"cluster-name": cluster, "vhost": vhost, "uri": "amqp://x", "redelivered": False}


@pytest.fixture
def client() -> Client:
    """Publishes to `x`, whose messages pass the exchange of a link on their way to `q`."""
    found = World().client()
    found.declare_exchange("x", "fanout")
    found.declare_exchange("up", "x-federation-upstream", arguments=ARGUMENTS)
    found.declare("q")
    found.bind("q", "up", "")
    found.world.answer(found.session.topology.bind_exchange("up", "x", "", {}, found.world.now))
    return found


@pytest.mark.parametrize(
    ("travelled", "arrives"),
    [
        (None, True),
        ([], True),
        ([hop("other")], True),
        ([hop("one"), hop("two")], False),
        ([hop("down")], False),
        ([hop("down", "another")], True),
        (["no table", {"vhost": "/"}], False),
        (["no table"], True),
        ("no list", True),
        ({"cluster-name": "down", "vhost": "/"}, True),
    ],
)
def test_a_message_goes_on_until_it_has_come_too_far_or_was_there(
    client: Client, travelled: Any, arrives: bool
) -> None:
    headers = {"other": 1} if travelled is None else {"x-received-from": travelled}
    client.publish("x", "", b"m", headers=headers)
    client.publish("x", "", b"without headers")
    assert client.bodies_of("q") == ([b"m"] if arrives else []) + [b"without headers"]


@pytest.mark.parametrize("arguments", [{}, {"x-max-hops": "2"}, {"x-max-hops": True}])
def test_how_far_a_message_may_come_has_to_be_said(client: Client, arguments: dict[str, Any]) -> None:
    with pytest.raises(PreconditionFailed, match="Argument x-max-hops"):
        client.declare_exchange("odd", "x-federation-upstream", arguments=arguments)


def test_none_is_declared_while_a_node_may_not_know_the_type() -> None:
    """It could not go on with what the catalog says then."""
    world, behind = World(), ["n3"]
    metadata = KnownByAll(world.metadata, world.catalog, lambda version: behind)
    command = DeclareExchange(ExchangeRecord("/", "up", "x-federation-upstream", arguments=ARGUMENTS))
    refused = metadata.submit(command).error
    assert refused is not None and "it is not known that n3 do" in refused.text
    assert world.catalog.exchange("/", "up") is None
    behind.clear()
    assert metadata.submit(command).error is None


def test_one_that_is_there_is_not_declared_with_other_hops(client: Client) -> None:
    client.declare_exchange("up", "x-federation-upstream", arguments=ARGUMENTS)
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-max-hops'"):
        client.declare_exchange("up", "x-federation-upstream", arguments=ARGUMENTS | {"x-max-hops": 3})


def test_delayed_messages_are_not_routed_by_it(client: Client) -> None:
    with pytest.raises(PreconditionFailed, match="x-delayed-type"):
        client.declare_exchange(
            "later", "x-delayed-message", arguments=ARGUMENTS | {"x-delayed-type": "x-federation-upstream"}
        )


CLUSTERS = st.sampled_from(["a", "b", "c"])


@given(st.lists(CLUSTERS), st.integers(-1, 5), CLUSTERS)
def test_what_may_travel_has_come_over_fewer_links_and_never_from_there(
    path: list[str], max_hops: int, to: str
) -> None:
    entries = [hop(one) for one in path]
    assert has_seen(entries, to, "/") == (to in path)
    assert may_travel(entries, max_hops, to, "/") == (len(path) < max_hops and to not in path)
