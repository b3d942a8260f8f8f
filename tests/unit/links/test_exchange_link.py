"""Exchange links between clusters in memory: what comes, how far, and which bindings go up (links/federation/)."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from broker.messages.message import Run
from links.amqp.events import Delivered
from links.federation.federation_status import LinkState
from native.content import encode
from tests.unit.links.federation_world import MOMENT_S, Cluster, FederatedClusters
from wire.amqp.tables import encode_properties

MOMENTS_OF_A_START = 30


def federated(**terms: Any) -> tuple[FederatedClusters, Cluster, Cluster]:
    """`down` has exchange x from `up`, and queue q bound with key k."""
    net = FederatedClusters("up", "down")
    up, down = net.clusters["up"], net.clusters["down"]
    down.here.declare_exchange("x", "topic")
    down.here.declare("q")
    down.here.bind("q", "x", "k")
    down.federate("up", **terms)
    net.run()
    assert down.states() == [LinkState.RUNNING], [one.status() for one in down.links]
    return net, up, down


def test_what_is_bound_here_comes_from_there() -> None:
    net, up, down = federated()
    up.publish("k", b"wanted")
    up.publish("other", b"not wanted")
    net.run()
    assert down.here.bodies_of("q") == [b"wanted"]
    assert up.here.declare("federation: x -> down", passive=True).ready == 0


def test_names_and_arguments_at_the_upstream_are_those_of_rabbitmq() -> None:
    _, up, _ = federated(expires=60_000, message_ttl=1000, max_hops=3)
    queue = up.world.catalog.queue("/", "federation: x -> down")
    exchange = up.world.catalog.exchange("/", "federation: x -> down A")
    assert queue is not None
    assert exchange is not None
    assert queue.durable
    assert queue.arguments == {
        "x-expires": 60_000, "x-message-ttl": 1000, "x-internal-purpose": "federation", "x-queue-type": "classic",
    }  # fmt: skip
    assert (exchange.kind, exchange.durable, exchange.internal, exchange.auto_delete) == (
        "x-federation-upstream", True, True, True,
    )  # fmt: skip
    assert exchange.arguments == {
        "x-max-hops": 3, "x-downstream-name": "down", "x-downstream-vhost": "/", "x-internal-purpose": "federation",
    }  # fmt: skip
    (copied,) = [one for one in up.world.catalog.bindings_of_source("/", "x") if one.destination_kind == "exchange"]
    assert copied.arguments == {
        "x-bound-from": [{"cluster-name": "down", "vhost": "/", "exchange": "/:x A", "hops": 3}],
    }  # fmt: skip


def test_a_message_says_where_it_comes_from_and_not_whose_it_was() -> None:
    net, up, down = federated()
    up.publish("k", b"m", user_id="guest", headers={"a": 1})
    net.run()
    found = down.here.properties_of("q")
    assert "user_id" not in found
    hop = {"uri": "amqp://up", "exchange": "x", "redelivered": False, "cluster-name": "up", "vhost": "/"}
    assert found["headers"] == {"a": 1, "x-received-from": [hop]}


def test_a_user_is_named_where_the_upstream_is_trusted() -> None:
    net, up, down = federated(trust_user_id=True)
    up.publish("k", b"m", user_id="guest")
    net.run()
    assert down.here.properties_of("q")["user_id"] == "guest"


def test_bindings_follow_and_those_that_agree_are_one() -> None:
    net, up, down = federated()
    down.here.declare("r")
    down.here.bind("r", "x", "k")
    down.here.bind("r", "x", "n")
    net.run()
    assert {key for _, key in up.copied_keys()} == {"k", "n"}
    down.here.delete("q")
    net.run()
    assert {key for _, key in up.copied_keys()} == {"k", "n"}
    down.here.delete("r")
    net.run()
    assert up.copied_keys() == set()


def test_what_waits_while_the_link_is_down_comes_later_and_no_binding_is_left_over() -> None:
    net, up, down = federated(reconnect_delay=60)
    down.upstreams[-1].cut()
    up.publish("k", b"waits")
    down.here.bind("q", "x", "new")
    down.here.session.topology.unbind_queue("q", "x", "k", {}, down.world.now)
    net.run()
    assert (down.states(), down.here.bodies_of("q")) == ([LinkState.ERROR], [])
    net.run(61, step=1.0)
    assert (down.states(), down.here.bodies_of("q")) == ([LinkState.RUNNING], [])
    assert up.copied_keys() == {("federation: x -> down B", "new")}


@pytest.mark.parametrize("starts_before", [0, 1])
def test_a_start_that_was_cut_short_leaves_neither_gap_nor_leftovers(starts_before: int) -> None:
    """Wherever it was cut, and which of both exchanges the start before has used: whatever is half done, bindings are there."""
    for cut_at in range(1, MOMENTS_OF_A_START):
        net, up, down = federated()
        down.here.bind("q", "x", "old")
        net.run()
        for _ in range(starts_before):
            down.links[-1].restart()
            net.run()
        down.links[-1].restart()
        net.clock.advance(cut_at * MOMENT_S)
        down.here.session.topology.unbind_queue("q", "x", "old", {}, down.world.now)
        down.here.bind("q", "x", "new")
        down.links[-1].restart()
        for number in range(2 * MOMENTS_OF_A_START):
            net.clock.advance(MOMENT_S)
            up.publish("k", b"%d" % number)
        net.run(5)
        assert set(map(int, down.here.bodies_of("q"))) == set(range(2 * MOMENTS_OF_A_START)), f"cut at {cut_at}"
        assert sorted(key for _, key in up.copied_keys()) == ["k", "new"], f"cut at {cut_at}"


def test_an_internal_exchange_that_was_deleted_is_noticed() -> None:
    net, up, down = federated()
    up.here.session.topology.delete_exchange("federation: x -> down A", if_unused=False, now=up.world.now)
    net.run(100, step=1.0)
    up.publish("k", b"m")
    net.run()
    assert (down.states(), down.here.bodies_of("q")) == ([LinkState.RUNNING], [b"m"])


def test_a_link_that_is_not_wanted_leaves_nothing_at_the_upstream() -> None:
    net, up, down = federated()
    down.world.submit(down.unpolicy())
    net.run()
    assert down.states() == []
    assert [one.name for one in up.world.catalog.queues("/")] == []
    assert up.copied_keys() == set()


def test_a_link_that_is_not_wanted_while_it_binds_leaves_nothing_either() -> None:
    net, up, down = federated()
    down.here.bind("q", "x", "another")
    while not down.links[-1].is_asking:
        net.clock.advance(MOMENT_S)
    down.world.submit(down.unpolicy())
    net.run()
    assert [one.name for one in up.world.catalog.queues("/")] == []
    assert down.links[-1].status().state is LinkState.SHUTDOWN


def test_a_link_that_is_to_leave_its_queue_does() -> None:
    net, up, down = federated(resource_cleanup_mode="never")
    down.world.submit(down.unpolicy())
    net.run()
    assert [one.name for one in up.world.catalog.queues("/")] == ["federation: x -> down"]


def test_a_limit_that_is_changed_restarts_the_link_and_loses_nothing() -> None:
    net, up, down = federated()
    down.federate("up", expires=1000)
    up.publish("k", b"m")
    net.run()
    assert (down.states(), down.here.bodies_of("q")) == ([LinkState.RUNNING], [b"m"])
    assert [one.status().state for one in down.links] == [LinkState.SHUTDOWN, LinkState.RUNNING]


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_every_message_is_settled(ack_mode: str) -> None:
    net, up, down = federated(ack_mode=ack_mode)
    for number in range(50):
        up.publish("k", b"%d" % number)
    net.run()
    assert down.here.bodies_of("q") == [b"%d" % number for number in range(50)]
    statistics = up.world.broker.queue("/", "federation: x -> down").statistics()
    assert (statistics.ready, statistics.unacknowledged) == (0, 0)
    assert down.federation.facts()[0].passed_on == 50


def test_what_is_refused_here_comes_again_after_a_pause() -> None:
    net, up, down = federated()
    down.here.declare("full", max_length=1, overflow="reject-publish")
    down.here.bind("full", "x", "f")
    net.run()
    up.publish("f", b"1")
    up.publish("f", b"2")
    net.run(1)
    assert down.here.bodies_of("full") == [b"1"]
    net.run(10)
    assert down.here.bodies_of("full") == [b"2"]


@pytest.mark.parametrize(("expiration", "is_published"), [(b"1000", True), (b"soon", False)])
def test_what_nobody_may_publish_here_is_not_and_the_link_is_told(expiration: bytes, is_published: bool) -> None:
    net, _, down = federated()
    content = encode(encode_properties({}), b"m")
    run = Delivered(1, b"", 1, False, b"x", b"k", 1, content, 1, False, 0, expiration, None, 0)
    assert down.open_downstream(down.links[-1]).publish(b"x", b"k", content, 1, run, 0) == is_published
    net.run()
    assert down.states() == [LinkState.RUNNING]


def test_what_comes_over_a_link_is_as_persistent_and_urgent_as_it_was_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """A message that is not persistent any more is lost with the next start of the node."""
    _, _, down = federated()
    end, published = down.open_downstream(down.links[-1]), list[Run]()
    monkeypatch.setattr(end._session.publisher, "publish", lambda run, now: published.append(run))
    for persistent, priority in ((True, 7), (False, 0)):
        content = encode(encode_properties({}), b"m")
        run = Delivered(1, b"", 1, False, b"x", b"k", 1, content, 1, persistent, priority, b"1000", None, 0)
        assert end.publish(b"y", b"l", content, 1, run, 5)
    assert [(one.persistent, one.priority, one.expiration_ms, one.look) for one in published] == [
        (True, 7, 1000, 5), (False, 0, 1000, 5),
    ]  # fmt: skip
    assert {(one.exchange, one.routing_key, one.mandatory) for one in published} == {("y", "l", False)}


@pytest.mark.parametrize(
    ("max_hops", "seed", "different"),
    [*((max_hops, seed, 40) for max_hops in (1, 2, 5) for seed in range(3)), (2, 3, 1000)],
)
def test_in_a_ring_of_three_each_message_comes_once_and_bindings_are_equal_after_rest(
    max_hops: int, seed: int, different: int
) -> None:
    """Bindings come and go, of so many keys, and links break: messages after the last break come once."""
    random = Random(seed)
    keys = [f"k{number}" for number in range(different)]
    names = ("a", "b", "c")
    net = FederatedClusters(*names)
    bound: dict[str, set[str]] = {name: set() for name in names}
    for at, name in enumerate(names):
        cluster = net.clusters[name]
        cluster.here.declare_exchange("x", "direct")
        cluster.here.declare("q")
        cluster.federate(names[at - 1], max_hops=max_hops, reconnect_delay=1)
    for number in range(max(1000, 3 * different)):
        name = random.choice(names)
        change_binding(net.clusters[name], bound[name], random.choice(keys))
        if number % 100 == 0 and net.clusters[name].upstreams:
            net.clusters[name].upstreams[-1].cut()
        if number % 20 == 0:
            net.run(0.1)
    net.run(100, step=1.0)
    for at, name in enumerate(names):
        down = [names[(at + hop) % 3] for hop in range(1, min(max_hops, 2) + 1)]
        wanted = set().union(*(bound[one] for one in down))
        copied = net.clusters[name].copied_keys()
        assert {key for _, key in copied} == wanted, f"at {name}"
        assert len({exchange for exchange, _ in copied}) <= 1
    assert_each_comes_once(net, bound, keys, min(max_hops, 2))


def change_binding(cluster: Cluster, bound: set[str], key: str) -> None:
    topology, world = cluster.here.session.topology, cluster.world
    if key in bound:
        world.answer(topology.unbind_queue("q", "x", key, {}, world.now))
    else:
        world.answer(topology.bind_queue("q", "x", key, {}, world.now))
    bound ^= {key}


def assert_each_comes_once(net: FederatedClusters, bound: dict[str, set[str]], keys: list[str], hops: int) -> None:
    names = tuple(net.clusters)
    for cluster in net.clusters.values():
        cluster.here.bodies_of("q")
    for name in names:
        for key in keys:
            net.clusters[name].publish(key, f"{name} {key}".encode())
    net.run(5)
    for at, name in enumerate(names):
        sources = [names[at - hop] for hop in range(hops + 1)]
        expected = sorted(f"{source} {key}".encode() for source in sources for key in bound[name])
        assert sorted(net.clusters[name].here.bodies_of("q")) == expected, f"at {name}"
