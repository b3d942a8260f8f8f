"""Exchanges of the type x-delayed-message: what waits, in which queue, and how it goes on (waiting itself: test_holding.py)."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.definitions.definitions_writer import exported_vhost
from broker.catalog.holding_queues import HoldingMetadata
from broker.catalog.known_by_all import KnownByAll
from broker.errors import AccessRefused, BrokerError, PreconditionFailed
from broker.exchanges.delayed_exchange import DELAY_MS_MAX, delay_ms_of
from broker.pending import Pending
from broker.queues.queue_type import DeadMessage
from broker.records import BindingRecord, ExchangeRecord
from broker.routing.asked import Asked
from broker.routing.release import Releases
from broker.routing.route import route
from native.content import encode, one
from tests.unit.broker.broker_world import World
from tests.unit.broker.catalog_at_once import CatalogAtOnce
from wire.amqp.tables import Timestamp, decode_properties, encode_properties

HOLDING = "amq.delayed.later"
DIRECT = {"x-delayed-type": "direct"}


class Declared:
    """What is declared through the door that delayed exchanges need, and exchange `later` with queue `q`."""

    def __init__(self) -> None:
        self.catalog = Catalog()
        self.kept = CatalogAtOnce(self.catalog)
        self.behind: list[str] = []  # nodes that may be of an earlier version
        holding = HoldingMetadata(self.kept, self.catalog, "n1")
        self.metadata = KnownByAll(holding, self.catalog, lambda version: self.behind)
        for command in default_commands("hash"):
            self.kept.submit(command)
        self.done(self.later())
        self.done(commands.DeclareQueue("/", "q"))
        self.done(commands.Bind(BindingRecord("/", "later", "q", "queue", "key")))

    @staticmethod
    def later(arguments: dict[str, Any] | None = None) -> commands.DeclareExchange:
        return commands.DeclareExchange(
            ExchangeRecord("/", "later", "x-delayed-message", arguments=arguments or DIRECT)
        )

    def done(self, command: commands.Command) -> None:
        assert answer(self.metadata.submit(command)) is None

    def refused(self, command: commands.Command) -> str:
        error = answer(self.metadata.submit(command))
        assert error is not None
        return str(error)


def answer(pending: Pending[Any]) -> BrokerError | None:
    assert pending.answered
    return pending.error


@pytest.fixture
def declared() -> Declared:
    return Declared()


def test_none_is_declared_while_a_node_may_not_know_the_type_and_what_is_declared_stays(declared: Declared) -> None:
    declared.behind.append("n3")
    declared.done(declared.later())  # that is there
    another = commands.DeclareExchange(ExchangeRecord("/", "another", "x-delayed-message", arguments=DIRECT))
    assert "it is not known that n3 do: start and update" in declared.refused(another)
    assert declared.catalog.queue("/", "amq.delayed.another") is None
    declared.behind.clear()
    declared.done(another)


def props_of(**headers: Any) -> bytes:
    return encode_properties({"headers": headers})


@pytest.mark.parametrize(
    ("delay", "waits"),
    [
        (1, 1), (2**33, 2**33), (DELAY_MS_MAX, DELAY_MS_MAX), ("250", 250), ("+7", 7), (1.9, 1), (Decimal("3.5"), 3),
        (0, None), (-1, None), (DELAY_MS_MAX + 1, None), ("-5", None), ("5s", None), ("", None), ("9" * 30, None),
        (0.5, None), (float("nan"), None), (float("inf"), None), (True, None), (None, None), ({}, None), ([5], None),
        (Timestamp(5), None), (b"5", None),
    ],
)  # fmt: skip
def test_how_long_a_message_waits(delay: Any, waits: int | None) -> None:
    assert delay_ms_of({"x-delay": delay}) == waits


def test_what_has_no_header_does_not_wait() -> None:
    assert delay_ms_of(None) is None
    assert delay_ms_of({}) is None


def test_its_queue_comes_with_the_exchange_and_goes_with_it(declared: Declared) -> None:
    record = declared.catalog.queue("/", HOLDING)
    assert record is not None
    assert (record.kind, record.durable, record.home) == ("quorum", True, "n1")
    declared.done(commands.DeleteExchange("/", "later"))
    assert declared.catalog.queue("/", HOLDING) is None
    assert declared.catalog.exchange("/", "later") is None


def test_its_arguments_say_on_how_many_nodes_messages_wait() -> None:
    declared = Declared()
    wish = ExchangeRecord("/", "wide", "x-delayed-message", arguments={**DIRECT, "x-quorum-initial-group-size": 5})
    declared.done(commands.DeclareExchange(wish))
    record = declared.catalog.queue("/", "amq.delayed.wide")
    assert record is not None
    assert record.arguments == {"x-queue-type": "quorum", "x-quorum-initial-group-size": 5}


def test_one_in_use_keeps_its_queue(declared: Declared) -> None:
    assert "in use" in declared.refused(commands.DeleteExchange("/", "later", if_unused=True))
    assert declared.catalog.queue("/", HOLDING) is not None


def test_its_queue_is_not_deleted_while_it_is_there(declared: Declared) -> None:
    assert "keeps the delayed messages of exchange 'later'" in declared.refused(commands.DeleteQueue("/", HOLDING))


def test_declared_again_it_gets_the_queue_that_it_has_lost(declared: Declared) -> None:
    declared.catalog.namespace("/").remove_queue(HOLDING)
    declared.done(declared.later())
    assert declared.catalog.queue("/", HOLDING) is not None


@pytest.mark.parametrize("arguments", [{"x-delayed-type": "nothing"}, {"x-delayed-type": "x-recent-history"}])
def test_what_is_refused_leaves_no_queue_behind(declared: Declared, arguments: dict[str, Any]) -> None:
    wish = ExchangeRecord("/", "other", "x-delayed-message", arguments=arguments)
    assert "must be an existing exchange type" in declared.refused(commands.DeclareExchange(wish))
    assert declared.catalog.queue("/", "amq.delayed.other") is None


def test_declared_again_with_another_type_it_is_refused(declared: Declared) -> None:
    assert "inequivalent arg 'x-delayed-type'" in declared.refused(declared.later({"x-delayed-type": "fanout"}))


def test_a_name_that_leaves_its_queue_none_is_refused(declared: Declared) -> None:
    wish = ExchangeRecord("/", "x" * 250, "x-delayed-message", arguments=DIRECT)
    assert "longer than 255" in declared.refused(commands.DeclareExchange(wish))


def test_arguments_and_bindings_are_those_of_the_type_by_which_it_routes(declared: Declared) -> None:
    hashing = {"x-delayed-type": "x-consistent-hash"}
    declared.done(commands.DeclareExchange(ExchangeRecord("/", "h", "x-delayed-message", arguments=hashing)))
    assert declared.refused(commands.Bind(BindingRecord("/", "h", "q", "queue", "no weight")))
    declared.done(commands.Bind(BindingRecord("/", "h", "q", "queue", "1")))


def test_definitions_have_the_exchange_and_not_its_queue(declared: Declared) -> None:
    parts = {part: list(items) for part, items in exported_vhost(declared.catalog, "/").items()}
    assert [one["name"] for one in parts["exchanges"]] == ["later"]
    assert [one["name"] for one in parts["queues"]] == ["q"]


def test_what_is_to_wait_goes_to_its_queue_and_the_rest_where_it_is_bound(declared: Declared) -> None:
    def found(exchange: str, **headers: Any) -> list[str]:
        return route(declared.catalog, "/", exchange, "key", Asked(props_of(**headers)))

    assert found("later") == found("later", **{"x-delay": -5}) == ["q"]
    assert found("later", **{"x-delay": 5}) == [HOLDING]
    declared.done(commands.Bind(BindingRecord("/", "amq.fanout", "later", "exchange", "")))
    declared.done(commands.Bind(BindingRecord("/", "amq.fanout", "q", "queue", "")))
    assert sorted(found("amq.fanout", **{"x-delay": 5})) == [HOLDING, "q"]


def test_no_name_and_no_binding_leads_to_its_queue(declared: Declared) -> None:
    assert route(declared.catalog, "/", "", HOLDING) == []
    with pytest.raises(AccessRefused):
        declared.catalog.check_binding(BindingRecord("/", "amq.fanout", HOLDING, "queue", ""), None)


def asks(vhost: str, props: bytes | None) -> Asked:
    return Asked(props)


def release(declared: Declared, props: bytes) -> tuple[dict[str, Any], list[str], Any]:
    holding = declared.catalog.queue("/", HOLDING)
    assert holding is not None
    message = DeadMessage("elsewhere", "key", encode(props, b"body"), True, (7, 9, 0))
    [found] = Releases(declared.catalog, asks).runs(holding, [message])
    assert found is not None
    run, targets, members = found
    assert members == [0]
    props, body, _ = one(run.content, 0)
    assert body == b"body"
    return decode_properties(props), targets, run


def test_it_goes_on_from_the_exchange_at_which_it_waited_with_its_own_properties(declared: Declared) -> None:
    said = {"headers": {"x-delay": 5, "a": "b"}, "priority": 3, "expiration": "100", "message_id": "m"}
    properties, targets, run = release(declared, encode_properties(said))
    assert properties == {**said, "headers": {"x-delay": -5, "a": "b"}}
    assert targets == ["q"]
    assert (run.exchange, run.routing_key, run.persistent) == ("later", "key", True)
    assert (run.priority, run.expiration_ms, run.died_in.queue_id) == (3, 100, declared.catalog.queue("/", HOLDING).id)


@pytest.mark.parametrize("header", ["CC", "BCC"])
def test_further_keys_count_and_only_those_that_are_said_stay(declared: Declared, header: str) -> None:
    declared.done(commands.DeclareQueue("/", "other"))
    declared.done(commands.Bind(BindingRecord("/", "later", "other", "queue", "further")))
    properties, targets, _ = release(declared, props_of(**{"x-delay": 5, header: ["further"]}))
    assert targets == ["q", "other"]
    assert ("BCC" in properties["headers"], "CC" in properties["headers"]) == (False, header == "CC")


def test_what_no_one_can_keep_is_refused_and_not_lost() -> None:
    """The exchange is there, and its queue is not: who publishes must not be told that the message is kept."""
    world = World()
    client = world.client()
    client.declare_exchange("later", "x-delayed-message", arguments=DIRECT)
    publish: Callable[..., None] = client.publish
    publish("later", "key", b"now")
    with pytest.raises(PreconditionFailed, match="declare the exchange again"):
        publish("later", "key", b"kept", headers={"x-delay": 5})
