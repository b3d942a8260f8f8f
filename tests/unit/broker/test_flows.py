"""Where the messages of a session went: counted by targets, folded when these go, and bounded whatever a client does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import DeleteVhost, PutVhost
from broker.counting import flows
from broker.counting.counters import Counters
from broker.counting.ended_traffic import NOWHERE, EndedTraffic
from broker.counting.flows import FlowCounts, Flows
from broker.records import VhostRecord
from broker.routing.targets import Target


def target(exchange: str, *queues: str, published: int) -> Target:
    found = Target(exchange, ("key",), False, 1)
    opened: Any = tuple(SimpleNamespace(record=SimpleNamespace(name=name)) for name in queues)
    kind: Any = None
    found.groups, found.queue_count, found.published = ((kind, opened),), len(queues), published
    return found


def test_targets_in_use_and_those_that_went_are_counted_once() -> None:
    session, one = Flows(), target("x", "a", "b", published=2)
    session.fold(target("x", "a", published=3))
    for _ in range(2):
        counts = session.counts([one])
        assert (counts.published["x"], counts.routed["x"]) == (5, 7)
        assert counts.into == {("x", "a"): 5, ("x", "b"): 2}


def test_a_client_that_names_ever_new_exchanges_and_queues_fills_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flows, "ROUTES_MAX", 3)
    session = Flows()
    for number in range(10):
        session.fold(target(f"x{number}", f"q{number}", published=1))
    session.fold(target("x0", *(f"q{number}" for number in range(flows.QUEUES_OF_TARGET_MAX + 1)), published=1))
    counts = session.counts(())
    assert (len(counts.published), len(counts.into), counts.published["x0"]) == (3, 3, 2)


class Ended:
    def __init__(self) -> None:
        self.catalog = Catalog()
        for command in default_commands("hash"):
            self.catalog.apply(command)
        self.catalog.apply(PutVhost(VhostRecord("v")))
        self.ended = EndedTraffic(self.catalog)

    def publish(self, exchange: str, count: int, vhost: str = "v") -> None:
        counts = FlowCounts()
        counts.add(target(exchange, "q", published=count))
        self.ended.published(vhost, counts)

    def end(self, vhost: str, published: int) -> None:
        connection: Any = SimpleNamespace(
            protocol="AMQP 0-9-1", vhost=vhost, statistics=lambda: {"bytes_in": 5 * published, "bytes_out": 1}
        )
        self.ended.session_ended(connection, Counters(published=published))
        self.ended.connection_ended(connection)


def test_what_gone_clients_did_is_kept_by_vhost_and_a_deleted_vhost_leaves_its_sums_to_the_node() -> None:
    world = Ended()
    world.end("v", 2)
    world.end("/", 3)
    assert {vhost: counted.published for (_, vhost), counted in world.ended.counters.items()} == {"v": 2, "/": 3}
    world.ended.vhost_deleted("v")
    world.catalog.apply(DeleteVhost("v"))
    world.end("v", 4)
    assert {vhost: counted.published for (_, vhost), counted in world.ended.counters.items()} == {NOWHERE: 6, "/": 3}
    assert world.ended.bytes == {NOWHERE: (30, 2), "/": (15, 1)}


def test_exchanges_that_are_gone_are_forgotten() -> None:
    world = Ended()
    world.publish("amq.fanout", 1)
    for number in range(50):
        world.publish(f"gone{number}", 1)
    world.publish("", 2)
    assert world.ended.exchanges["v"] == {"amq.fanout": (1, 1), "": (2, 2)}
    world.ended.exchange_deleted("v", "amq.fanout")
    assert "amq.fanout" not in world.ended.exchanges["v"]
