"""links/federation/wanted_links.py: which exchanges and queues are federated, and from where."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import (
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    PutPolicy,
    SetParameter,
)
from broker.names import becoming_queue
from broker.records import ExchangeRecord, ParameterRecord, PolicyRecord, QueueRecord
from links.federation.upstream import UPSTREAM, UPSTREAM_SET
from links.federation.wanted_links import PURPOSE, WantedLink, wanted_links

EVERY = {"federation-upstream-set": "all"}


class Wishes:
    """Exchange `x` and queue `q`, under policies and with upstreams of a test."""

    def __init__(self, policy: dict[str, Any] = EVERY, **upstreams: dict[str, Any]) -> None:
        self.catalog = Catalog()
        for command in default_commands("hash"):
            self.catalog.apply(command)
        self.exchange("x")
        self.queue("q")
        self.catalog.apply(PutPolicy(PolicyRecord("/", "fed", ".*", "all", 0, policy)))
        for name, terms in upstreams.items():
            self.put(UPSTREAM, name, {"uri": f"amqp://{name}", **terms})

    def put(self, component: str, name: str, value: Any) -> None:
        self.catalog.apply(SetParameter(ParameterRecord("/", component, name, value)))

    def exchange(self, name: str, **given: Any) -> None:
        self.catalog.apply(DeclareExchange(ExchangeRecord("/", name, "topic", **given)))

    def queue(self, name: str, kind: str = "classic", **given: Any) -> QueueRecord:
        record = self.catalog.apply(DeclareQueue("/", name, kind, home="n1", **given))
        assert isinstance(record, QueueRecord)
        return record

    def links(self) -> list[WantedLink]:
        return [one for one in wanted_links(self.catalog) if one is not None]

    def found(self) -> set[tuple[str, str, str, str]]:
        """Kind, name, upstream, and the name there; of what the tests declare."""
        keys = [one.key for one in self.links()]
        return {(one.kind, one.name, one.upstream, one.name_there) for one in keys if not one.name.startswith("amq.")}


def test_each_is_federated_from_each_upstream_under_the_name_that_it_has_there() -> None:
    wishes = Wishes(a={}, b={"exchange": "other-x", "queue": "other-q"})
    assert wishes.found() == {
        ("exchange", "x", "a", "x"),
        ("queue", "q", "a", "q"),
        ("exchange", "x", "b", "other-x"),
        ("queue", "q", "b", "other-q"),
    }


@pytest.mark.parametrize(
    ("policy", "upstreams"),
    [
        ({"federation-upstream": "a1"}, {"a1"}),
        ({"federation-upstream": "none"}, set()),
        ({"federation-upstream-pattern": "^a"}, {"a1", "a2"}),
        ({"federation-upstream-set": "all"}, {"a1", "a2", "b"}),
        ({"federation-upstream-set": "some"}, {"a2", "b"}),
        ({"federation-upstream-set": "none"}, set()),
        ({"max-length": 5}, set()),
    ],
)
def test_a_policy_names_upstreams_in_one_of_three_ways(policy: dict[str, Any], upstreams: set[str]) -> None:
    wishes = Wishes(policy, a1={}, a2={}, b={})
    wishes.put(UPSTREAM_SET, "some", [{"upstream": "a2"}, {"upstream": "b"}, {"upstream": "none"}])
    assert {one.key.upstream for one in wishes.links()} == upstreams


def test_an_entry_of_a_set_says_otherwise_than_its_upstream() -> None:
    wishes = Wishes({"federation-upstream-set": "some"}, a={"exchange": "of-a", "max-hops": 2})
    wishes.put(UPSTREAM_SET, "some", [{"upstream": "a", "exchange": "of-the-set"}])
    (link,) = [one for one in wishes.links() if one.key.name == "x"]
    assert link.upstream is not None
    assert (link.key.name_there, link.upstream.exchange, link.upstream.max_hops) == ("of-the-set", "of-the-set", 2)


@pytest.mark.parametrize("value", ["a", {"upstream": "a"}, ["a", 5, {}, {"upstream": 5}, {"exchange": "x"}]])
def test_a_set_that_is_none_names_nobody(value: Any) -> None:
    wishes = Wishes({"federation-upstream-set": "some"}, a={})
    wishes.put(UPSTREAM_SET, "some", value)
    assert wishes.links() == []


def test_an_upstream_that_is_none_is_said_with_each_that_should_come_from_it() -> None:
    wishes = Wishes()
    wishes.put(UPSTREAM, "bad", {"uri": "amqp://h", "prefetch-count": "many"})
    (link,) = [one for one in wishes.links() if one.key.name == "q"]
    assert (link.upstream, link.key.name_there) == (None, "q")
    assert link.objection.startswith("not a valid upstream: prefetch-count")


def test_what_is_there_for_links_or_for_the_broker_or_one_connection_is_not_federated() -> None:
    """It would be federated in a circle, or hold its messages where nobody else can take them."""
    wishes = Wishes(a={})
    before = wishes.found()
    wishes.exchange("internal", internal=True)
    wishes.exchange("for-links", arguments={PURPOSE: "federation"})
    wishes.queue("queue-for-links", arguments={PURPOSE: "federation"})
    wishes.queue("stream", "stream", arguments={"x-queue-type": "stream"})
    wishes.queue("mine", exclusive=True, owner="n1/1")
    wishes.queue(becoming_queue("q"), "quorum", arguments={"x-queue-type": "quorum"})
    assert wishes.found() == before
    assert not [one for one in wishes.links() if one.key.kind == "queue" and one.key.name != "q"]


def test_what_goes_while_the_others_are_looked_at_is_not_wanted() -> None:
    wishes = Wishes(a={})
    looked_at = wanted_links(wishes.catalog)
    assert next(looked_at) is None
    wishes.catalog.apply(DeleteExchange("/", "x"))
    assert "x" not in {one.key.name for one in looked_at if one is not None}


def test_a_link_is_good_for_a_queue_whose_members_change_and_not_for_another_one_of_its_name() -> None:
    wishes = Wishes(a={})
    (before,) = [one for one in wishes.links() if one.key.name == "q"]
    (exchange,) = [one for one in wishes.links() if one.key.name == "x"]
    record = before.record
    assert isinstance(record, QueueRecord)
    assert before.is_as(replace(before, record=replace(record, home="n2")))
    assert not before.is_as(replace(before, record=replace(record, id=record.id + 1)))
    assert not before.is_as(replace(before, upstream=None, objection="why"))
    assert exchange.is_as(replace(exchange))
    assert not exchange.is_as(replace(exchange, record=ExchangeRecord("/", "x", "fanout")))
