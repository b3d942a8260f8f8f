"""Queues with x-delayed-messages: what waits for them, in which queue, and how it goes on (waiting itself: test_holding.py)."""

from __future__ import annotations

from typing import Any

import pytest

from broker.catalog.arguments import check_policy_definition
from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.definitions.definitions_writer import exported_vhost
from broker.catalog.holding_queues import HoldingMetadata
from broker.catalog.known_by_all import KnownByAll
from broker.errors import AccessRefused, PreconditionFailed
from broker.exchanges.delayed_exchange import DELAY_MS_MAX
from broker.exchanges.delaying_queue import is_to_wait, wait_ms_of
from broker.queues.queue_type import DeadMessage
from broker.records import BindingRecord
from broker.routing.asked import Asked
from broker.routing.release import Releases
from broker.routing.route import route
from broker.routing.targets import Router
from native.content import encode, one
from tests.unit.broker.broker_world import World
from tests.unit.broker.catalog_at_once import CatalogAtOnce
from tests.unit.broker.test_delayed_exchange import answer, asks, props_of
from wire.amqp.tables import Timestamp, decode_properties, encode_properties

HOLDING = "amq.delayed-queue.q"
DELAYING = {"x-queue-type": "quorum", "x-delayed-messages": True}
NOW_S = 1_700_000_000
NOW_MS = NOW_S * 1000


class Declared:
    """Queue `q`, which delays, and `plain`, which does not; both bound to amq.direct by `key`."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        kept = CatalogAtOnce(self.catalog)
        self.behind: list[str] = []  # nodes that may be of an earlier version
        self.metadata = KnownByAll(HoldingMetadata(kept, self.catalog, "n1"), self.catalog, lambda version: self.behind)
        for command in default_commands("hash"):
            kept.submit(command)
        for name, arguments in (("q", DELAYING), ("plain", {})):
            self.done(commands.DeclareQueue("/", name, arguments=arguments))
            self.done(commands.Bind(BindingRecord("/", "amq.direct", name, "queue", "key")))

    def done(self, command: commands.Command) -> None:
        assert answer(self.metadata.submit(command)) is None

    def refused(self, command: commands.Command) -> str:
        error = answer(self.metadata.submit(command))
        assert error is not None
        return str(error)

    def found(
        self, exchange: str = "amq.direct", key: str = "key", *, waited: bool = False, **headers: Any
    ) -> list[str]:
        asked = Asked(props_of(**headers))
        asked.has_waited = waited
        return route(self.catalog, "/", exchange, key, asked)


@pytest.fixture
def declared() -> Declared:
    return Declared()


@pytest.mark.parametrize(
    ("headers", "waits_ms"),
    [
        ({"x-delay": 5}, 5),
        ({"x-deliver-at": NOW_MS + 5}, 5),
        ({"x-deliver-at": str(NOW_MS + 5)}, 5),
        ({"x-deliver-at": float(NOW_MS + 5)}, 5),
        ({"x-deliver-at": Timestamp(NOW_S + 5)}, 5_000),
        ({"x-deliver-at": NOW_MS + DELAY_MS_MAX}, DELAY_MS_MAX),
        ({"x-delay": 7, "x-deliver-at": NOW_MS + 5}, 7),
        ({"x-delay": -7, "x-deliver-at": NOW_MS + 5}, 5),
    ],
)
def test_how_long_a_message_waits(headers: dict[str, Any], waits_ms: int) -> None:
    assert is_to_wait(headers)
    assert wait_ms_of(headers, NOW_MS) == waits_ms


@pytest.mark.parametrize("at", [NOW_MS, NOW_MS - 1, NOW_MS + DELAY_MS_MAX + 1, Timestamp(NOW_S), 1])
def test_what_is_past_or_too_far_off_goes_on_at_once(at: Any) -> None:
    assert wait_ms_of({"x-deliver-at": at}, NOW_MS) == 0


@pytest.mark.parametrize("at", [0, -NOW_MS, 1 << 63, "soon", True, None, {}, [NOW_MS], b"5", Timestamp(1 << 60)])
def test_what_is_no_time_is_none(at: Any) -> None:
    assert not is_to_wait({"x-deliver-at": at})
    assert wait_ms_of({"x-deliver-at": at}, NOW_MS) == 0


def test_what_has_no_headers_does_not_wait() -> None:
    assert not is_to_wait(None)
    assert wait_ms_of(None, NOW_MS) == 0


@pytest.mark.parametrize("headers", [{"x-delay": 5}, {"x-deliver-at": 1}])
def test_what_is_to_wait_goes_to_its_queue_and_to_others_at_once(declared: Declared, headers: dict[str, Any]) -> None:
    assert declared.found(**headers) == [HOLDING, "plain"]
    assert declared.found("", "q", **headers) == [HOLDING]
    assert declared.found("", "plain", **headers) == ["plain"]


def test_what_has_waited_or_is_not_to_wait_goes_there_at_once(declared: Declared) -> None:
    assert declared.found() == declared.found(**{"x-delay": -5}) == ["q", "plain"]
    assert declared.found(waited=True, **{"x-delay": 5}) == ["q", "plain"]


def test_headers_are_looked_at_only_where_a_queue_delays_by_them(declared: Declared) -> None:
    for key, is_looked_at in (("q", True), ("plain", False), ("none", False)):
        asked = Asked()
        route(declared.catalog, "/", "", key, asked)
        assert asked.by_headers == is_looked_at


def test_no_name_and_no_binding_leads_to_the_queue_in_which_they_wait(declared: Declared) -> None:
    assert declared.found("", HOLDING) == []
    with pytest.raises(AccessRefused, match="keeps the delayed messages of queue 'q'"):
        declared.catalog.check_binding(BindingRecord("/", "amq.fanout", HOLDING, "queue", ""), None)


def test_its_holding_queue_comes_with_the_queue_and_goes_with_it(declared: Declared) -> None:
    record = declared.catalog.queue("/", HOLDING)
    assert record is not None
    assert (record.kind, record.durable, record.home) == ("quorum", True, "n1")
    assert "keeps the delayed messages of queue 'q'" in declared.refused(commands.DeleteQueue("/", HOLDING))
    declared.done(commands.DeleteQueue("/", "q"))
    assert [one.name for one in declared.catalog.queues("/")] == ["plain"]
    assert not declared.catalog.namespace("/").delaying


def test_one_of_another_id_keeps_its_holding_queue(declared: Declared) -> None:
    declared.done(commands.DeleteQueue("/", "q", 1_000))
    assert declared.catalog.queue("/", HOLDING) is not None


def test_its_arguments_say_on_how_many_nodes_messages_wait(declared: Declared) -> None:
    wish = {**DELAYING, "x-quorum-initial-group-size": 5}
    declared.done(commands.DeclareQueue("/", "wide", arguments=wish))
    record = declared.catalog.queue("/", "amq.delayed-queue.wide")
    assert record is not None
    assert record.arguments == {"x-queue-type": "quorum", "x-quorum-initial-group-size": 5}


def test_declared_again_it_gets_the_holding_queue_that_it_has_lost(declared: Declared) -> None:
    declared.catalog.namespace("/").remove_queue(HOLDING)
    declared.done(commands.DeclareQueue("/", "q", arguments=DELAYING))
    assert declared.catalog.queue("/", HOLDING) is not None


def test_declared_again_without_the_argument_it_is_refused(declared: Declared) -> None:
    wish = commands.DeclareQueue("/", "q", arguments={"x-queue-type": "quorum"})
    assert "inequivalent arg 'x-delayed-messages'" in declared.refused(wish)


@pytest.mark.parametrize(
    ("name", "arguments", "why"),
    [
        ("other", {"x-delayed-messages": True}, "of queue type rabbit_classic_queue"),
        ("other", {"x-delayed-messages": True, "x-queue-type": "odd"}, "unsupported queue type 'odd'"),
        ("other", {**DELAYING, "x-max-length": -1}, "value_negative"),
        ("x" * 240, DELAYING, "longer than 255"),
    ],
)
def test_what_is_refused_leaves_no_holding_queue(
    declared: Declared, name: str, arguments: dict[str, Any], why: str
) -> None:
    before = list(declared.catalog.queues("/"))
    assert why in declared.refused(commands.DeclareQueue("/", name, arguments=arguments))
    assert list(declared.catalog.queues("/")) == before


def test_none_is_declared_while_a_node_may_not_know_it_and_what_is_declared_stays(declared: Declared) -> None:
    declared.behind.append("n3")
    declared.done(commands.DeclareQueue("/", "q", arguments=DELAYING))
    refused = declared.refused(commands.DeclareQueue("/", "other", arguments=DELAYING))
    assert refused.startswith("queues with x-delayed-messages can be declared once all nodes know of them")
    declared.done(commands.DeclareQueue("/", "other", arguments={**DELAYING, "x-delayed-messages": False}))


def test_definitions_have_the_queue_and_not_its_holding_queue(declared: Declared) -> None:
    exported = list(exported_vhost(declared.catalog, "/")["queues"])
    assert [(one["name"], one["arguments"]) for one in exported] == [
        ("q", DELAYING), ("plain", {"x-queue-type": "classic"}),
    ]  # fmt: skip


def test_a_policy_does_not_switch_it_on() -> None:
    with pytest.raises(PreconditionFailed, match="'delayed-messages' is not a recognised policy setting"):
        check_policy_definition("policy 'p'", {"delayed-messages": True}, operator=False)


def released(
    declared: Declared, said: dict[str, Any], exchange: str = "elsewhere"
) -> tuple[dict[str, Any], list[str], Any]:
    holding = declared.catalog.queue("/", HOLDING)
    assert holding is not None
    message = DeadMessage(exchange, "its key", encode(encode_properties(said), b"body"), True, (7, 9, 0))
    [(run, targets, _)] = Releases(declared.catalog, asks).runs(holding, [message])
    props, body, _ = one(run.content, 0)
    assert body == b"body"
    return decode_properties(props), targets, run


def test_it_goes_to_the_queue_with_exchange_key_and_properties_as_they_were_published(declared: Declared) -> None:
    said = {"headers": {"x-delay": 5, "CC": ["plain"]}, "priority": 3, "expiration": "100", "message_id": "m"}
    properties, targets, run = released(declared, said)
    assert properties == {**said, "headers": {"x-delay": -5, "CC": ["plain"]}}
    assert targets == ["q"]
    assert (run.exchange, run.routing_key, run.persistent) == ("elsewhere", "its key", True)
    assert (run.priority, run.expiration_ms) == (3, 100)


@pytest.mark.parametrize(("at", "negative"), [(NOW_MS, -NOW_MS), (Timestamp(NOW_S), -NOW_MS), (str(NOW_MS), -NOW_MS)])
def test_the_time_that_it_has_waited_for_is_negative(declared: Declared, at: Any, negative: int) -> None:
    properties, targets, _ = released(declared, {"headers": {"x-deliver-at": at}})
    assert (properties["headers"], targets) == ({"x-deliver-at": negative}, ["q"])
    assert not is_to_wait(properties["headers"])


def test_what_it_has_not_waited_for_stays(declared: Declared) -> None:
    properties, _, _ = released(declared, {"headers": {"x-delay": 5, "x-deliver-at": NOW_MS}})
    assert properties["headers"] == {"x-delay": -5, "x-deliver-at": NOW_MS}


def test_those_published_to_several_exchanges_keep_theirs(declared: Declared) -> None:
    holding = declared.catalog.queue("/", HOLDING)
    assert holding is not None
    content = encode(props_of(**{"x-delay": 5}), b"")
    messages = [DeadMessage(exchange, "k", content, True) for exchange in ("a", "b", "a")]
    found = Releases(declared.catalog, asks).runs(holding, messages)
    assert [(group.run.exchange, group.run.count, group.members) for group in found] == [
        ("a", 2, [0, 2]),
        ("b", 1, [1]),
    ]


def test_it_goes_nowhere_once_the_queue_is_gone(declared: Declared) -> None:
    holding = declared.catalog.queue("/", HOLDING)
    assert holding is not None
    declared.done(commands.DeleteQueue("/", "q"))
    message = DeadMessage("", "q", encode(props_of(**{"x-delay": 5}), b""), True)
    assert [group.queues for group in Releases(declared.catalog, asks).runs(holding, [message])] == [[]]


def test_what_no_one_can_keep_is_refused_and_not_lost(declared: Declared) -> None:
    """The queue is there, and its holding queue is not: who publishes must not be told that the message is kept."""
    connection = World().connection()
    connection.login = declared.catalog.users["guest"]
    router = Router(declared.catalog, {}, asks, connection)
    target = router.target("", "q", mandatory=False, immediate=False)
    with pytest.raises(PreconditionFailed, match="queue 'q' in vhost '/' is not there: declare the queue again"):
        router.for_message(target, target.keys, props_of(**{"x-delay": 5}))
