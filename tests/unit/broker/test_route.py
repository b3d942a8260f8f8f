"""Routing: examples by name, and any catalog against its dumb twin."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import (
    Bind,
    DeclareExchange,
    DeclareQueue,
    DeleteExchange,
    DeletePolicy,
    DeleteQueue,
    PutPolicy,
    PutVhost,
    Unbind,
)
from broker.errors import NotFound, PreconditionFailed
from broker.records import BindingRecord, ExchangeRecord, PolicyRecord, VhostRecord
from broker.routing.route import route, route_many
from tests.unit.broker.catalog_twin import Twin


def catalog_with(*queues: str) -> Catalog:
    catalog = Catalog()
    catalog.apply(PutVhost(VhostRecord("/")))
    for queue in queues:
        catalog.apply(DeclareQueue("/", queue))
    return catalog


def add_exchange(catalog: Catalog, name: str, kind: str, **properties: Any) -> None:
    catalog.apply(DeclareExchange(ExchangeRecord("/", name, kind, **properties)))


def bind(catalog: Catalog, source: str, destination: str, key: str = "", kind: str = "queue", **arguments: Any) -> None:
    named = {name.replace("_", "-"): value for name, value in arguments.items()}
    catalog.apply(Bind(BindingRecord("/", source, destination, kind, key, named)))


def test_the_default_exchange_leads_to_the_queue_of_that_name() -> None:
    catalog = catalog_with("a", "b")
    assert route(catalog, "/", "", "a") == ["a"]
    assert route(catalog, "/", "", "c") == []
    assert route_many(catalog, "/", "", ["b", "a", "b", "c"]) == ["b", "a"]


def test_a_vhost_that_is_not_there() -> None:
    with pytest.raises(NotFound, match="no vhost 'nope'"):
        route(catalog_with(), "nope", "", "a")


def test_a_queue_comes_once_however_often_it_is_bound() -> None:
    catalog = catalog_with("a", "b")
    add_exchange(catalog, "other", "fanout")
    for key in ("#", "x.*", "*.y"):
        bind(catalog, "amq.topic", "a", key)
    bind(catalog, "amq.topic", "other", "#", kind="exchange")
    bind(catalog, "other", "a")
    bind(catalog, "other", "b")
    assert route(catalog, "/", "amq.topic", "x.y") == ["a", "b"]


def test_exchanges_bound_in_a_circle() -> None:
    catalog = catalog_with("a", "b", "c")
    for number, queue in enumerate("abc"):
        add_exchange(catalog, f"x{number}", "fanout")
        bind(catalog, f"x{number}", queue)
    for number in range(3):
        bind(catalog, f"x{number}", f"x{(number + 1) % 3}", kind="exchange")
    assert route(catalog, "/", "x1", "") == ["b", "c", "a"]


def test_an_exchange_that_was_deleted_and_declared_again_can_be_bound_as_before() -> None:
    catalog = catalog_with("a", "b")
    for _ in range(2):
        add_exchange(catalog, "other", "fanout")
        assert route(catalog, "/", "other", "") == []
        for queue in ("a", "b"):
            bind(catalog, "other", queue)
        assert sorted(route(catalog, "/", "other", "")) == ["a", "b"]
        catalog.apply(DeleteExchange("/", "other"))


def test_alternate_exchanges_form_a_chain_and_may_form_a_circle() -> None:
    catalog = catalog_with("a", "k")
    add_exchange(catalog, "first", "direct", arguments={"alternate-exchange": "second"})
    add_exchange(catalog, "second", "direct", arguments={"alternate-exchange": "third"})
    assert route(catalog, "/", "first", "k") == []  # the third does not exist yet
    add_exchange(catalog, "third", "direct", arguments={"alternate-exchange": "first"})
    assert route(catalog, "/", "first", "k") == []
    bind(catalog, "third", "a", "k")
    assert route(catalog, "/", "first", "k") == ["a"]
    bind(catalog, "first", "k", "k")
    assert route(catalog, "/", "first", "k") == ["k"]


def test_the_default_exchange_as_alternate() -> None:
    catalog = catalog_with("k")
    add_exchange(catalog, "x", "direct", arguments={"alternate-exchange": ""})
    assert route(catalog, "/", "x", "k") == ["k"]


def test_an_alternate_exchange_from_a_policy_comes_and_goes_with_it() -> None:
    catalog = catalog_with("a")
    add_exchange(catalog, "x", "direct")
    bind(catalog, "amq.fanout", "a")
    assert route(catalog, "/", "x", "k") == []
    catalog.apply(PutPolicy(PolicyRecord("/", "p", "^x$", "exchanges", 0, {"alternate-exchange": "amq.fanout"})))
    assert route(catalog, "/", "x", "k") == ["a"]
    catalog.apply(DeletePolicy("/", "p"))
    assert route(catalog, "/", "x", "k") == []


HEADERS: dict[str, Any] = {"a": 1, "b": "two", "x-c": True}


@pytest.mark.parametrize(
    ("arguments", "matched"),
    [
        ({}, True),
        ({"x_match": "any"}, False),
        ({"a": 1, "b": "two"}, True),
        ({"a": 1, "b": "three"}, False),
        ({"x_match": "any", "a": 1, "b": "three"}, True),
        ({"a": None, "b": None}, True),
        ({"a": None, "z": None}, False),
        ({"a": True}, False),
        ({"a": 1.0}, False),
        ({"a": 1, "x_c": False}, True),
        ({"x_match": "all-with-x", "a": 1, "x_c": False}, False),
        ({"x_match": "all-with-x", "a": 1, "x_c": True}, True),
        ({"x_match": "any", "x_c": True}, False),
        ({"x_match": "any-with-x", "x_c": True}, True),
    ],
)
def test_headers(arguments: dict[str, Any], matched: bool) -> None:
    catalog = catalog_with("a")
    bind(catalog, "amq.headers", "a", **arguments)
    assert route(catalog, "/", "amq.headers", "", lambda: HEADERS) == (["a"] if matched else [])


def test_headers_are_decoded_only_when_asked_for_and_once_for_all_bindings() -> None:
    catalog = catalog_with("a", "b")
    asked = []

    def headers() -> dict[str, Any] | None:
        asked.append(1)
        return None

    route(catalog, "/", "amq.headers", "", headers)
    route(catalog, "/", "amq.fanout", "", headers)
    assert not asked
    bind(catalog, "amq.headers", "a", x_match="any", a=1)
    bind(catalog, "amq.headers", "b")
    assert route(catalog, "/", "amq.headers", "", headers) == ["b"]
    assert len(asked) == 1


def test_headers_bindings_go_one_by_one() -> None:
    catalog = catalog_with("a")
    bind(catalog, "amq.match", "a", a=1)
    bind(catalog, "amq.match", "a", a=2)
    catalog.apply(Unbind(BindingRecord("/", "amq.match", "a", "queue", "", {"a": 1})))
    assert route(catalog, "/", "amq.match", "", lambda: {"a": 1}) == []
    assert route(catalog, "/", "amq.match", "", lambda: {"a": 2}) == ["a"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"x_match": "foo"}, 'Invalid x-match field value <<"foo">>; expected all, any, all-with-x, or any-with-x'),
        ({"x_match": 1}, "Invalid x-match field type signedint (value 1); expected longstr"),
    ],
)
def test_impossible_conditions(arguments: dict[str, Any], text: str) -> None:
    catalog = catalog_with("a")
    with pytest.raises(PreconditionFailed) as refused:
        bind(catalog, "amq.headers", "a", **arguments)
    assert refused.value.text == text
    bind(catalog, "amq.direct", "a", **arguments)  # elsewhere it is an argument like any other


EXCHANGES = st.sampled_from(["d", "f", "t", "h", "t2"])
QUEUES = st.sampled_from(["q1", "q2", "q3"])
KEYS = st.sampled_from(["a", "b", "a.b", "", "q1", "*.b", "#", "a.#"])
ARGUMENTS: st.SearchStrategy[dict[str, Any]] = st.just({}) | st.fixed_dictionaries(
    {"x-match": st.sampled_from(["all", "any", "any-with-x", "all-with-x"])},
    optional={"a": st.sampled_from([None, 1, 2]), "x-b": st.sampled_from([None, 1])},
)
DECLARED_EXCHANGES = st.builds(
    lambda name, auto_delete, alternate: ExchangeRecord(
        "/",
        name,
        {"d": "direct", "f": "fanout", "t": "topic", "h": "headers"}[name[0]],
        auto_delete=auto_delete,
        arguments={} if alternate is None else {"alternate-exchange": alternate},
    ),
    EXCHANGES,
    st.booleans(),
    st.none() | EXCHANGES | st.just(""),
)
BINDINGS = st.one_of(
    st.builds(lambda s, d, k, a: BindingRecord("/", s, d, "queue", k, a), EXCHANGES, QUEUES, KEYS, ARGUMENTS),
    st.builds(lambda s, d, k, a: BindingRecord("/", s, d, "exchange", k, a), EXCHANGES, EXCHANGES, KEYS, ARGUMENTS),
)
STEPS = st.one_of(
    DECLARED_EXCHANGES.map(DeclareExchange),
    QUEUES.map(lambda name: DeclareQueue("/", name)),
    BINDINGS.map(Bind),
    BINDINGS.map(Bind),
    BINDINGS.map(Bind),
    BINDINGS.map(Unbind),
    QUEUES.map(lambda name: DeleteQueue("/", name)),
    EXCHANGES.map(lambda name: DeleteExchange("/", name)),
)


def follow(twin: Twin, catalog: Catalog, command: Any) -> None:
    """The same command for both, where the twin allows it."""
    if isinstance(command, DeclareExchange):
        if command.record.name not in twin.exchanges:
            twin.exchanges[command.record.name] = command.record
            catalog.apply(command)
    elif isinstance(command, DeclareQueue):
        if command.name not in twin.queues:
            twin.queues.append(command.name)
        catalog.apply(command)
    elif isinstance(command, Bind):
        binding = command.record
        there = twin.queues if binding.destination_kind == "queue" else twin.exchanges
        if binding.source in twin.exchanges and binding.destination in there:
            twin.bind(binding)
            catalog.apply(command)
        else:
            with pytest.raises(NotFound):
                catalog.apply(command)
    elif isinstance(command, Unbind):
        there_was = command.record in twin.bindings
        twin.unbind(command.record)
        assert catalog.apply(command) is there_was
    elif isinstance(command, DeleteQueue):
        record = catalog.apply(command)
        assert (record is not None) == (command.name in twin.queues)
        if record is not None:
            twin.delete_queue(command.name)
    else:
        record = catalog.apply(command)
        assert (record is not None) == (command.name in twin.exchanges)
        if record is not None:
            twin.delete_exchange(command.name)


@settings(max_examples=150, deadline=None)
@given(st.lists(STEPS, min_size=8, max_size=40))
def test_any_catalog_routes_as_its_twin(steps: list[Any]) -> None:
    catalog, twin = catalog_with(), Twin()
    for step in steps:
        follow(twin, catalog, step)
    assert sorted(map(repr, catalog.bindings("/"))) == sorted(map(repr, twin.bindings))
    assert {x.name for x in catalog.exchanges("/") if not x.name.startswith("amq.")} == set(twin.exchanges)
    headers = {"a": 1, "x-b": 1}
    for exchange in [*twin.exchanges, ""]:
        for keys in (["a"], ["a.b"], [""], ["q1"], ["b", "q2", "a"]):
            found = route_many(catalog, "/", exchange, keys, lambda: headers)
            assert len(found) == len(set(found))
            assert set(found) == twin.route(exchange, keys, headers), (exchange, keys)
    for record in catalog.bindings("/"):
        assert record in catalog.bindings_of_source("/", record.source)
        assert record in catalog.bindings_of_destination("/", record.destination_kind, record.destination)
