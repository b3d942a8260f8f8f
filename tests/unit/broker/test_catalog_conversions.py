"""A classic queue's place in the catalog is taken by the quorum queue that was declared for it; and what that looks like to who
has missed it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import (
    Bind,
    ConvertQueue,
    DeclareQueue,
    DeleteQueue,
    JoinNode,
    PutPolicy,
    PutVhost,
)
from broker.catalog.mirrored_queues import as_converted, as_replicated
from broker.catalog.parts.catalog_conversions import Converted
from broker.errors import AccessRefused, PreconditionFailed
from broker.names import becoming_queue
from broker.records import BindingRecord, NodeRecord, PolicyRecord, QueueRecord, VhostRecord
from node.catalog.difference import difference

MEMBERS = (1, 2, 3)


@pytest.fixture
def catalog() -> Catalog:
    """With a classic queue on n1, bound to amq.direct."""
    made = Catalog()
    made.apply(PutVhost(VhostRecord("/")))
    for number in MEMBERS:
        made.apply(JoinNode(NodeRecord(f"n{number}", 0, 7, f"n{number}:1"), f"j{number}", 1))
    made.apply(DeclareQueue("/", "q", "classic", arguments={"x-message-ttl": 1000}, home="n1"))
    made.apply(Bind(BindingRecord("/", "amq.direct", "q", "queue", "k")))
    return made


def record_of(catalog: Catalog, name: str) -> QueueRecord:
    found = catalog.queue("/", name)
    assert found is not None, f"there is no queue {name}"
    return found


def becoming(catalog: Catalog) -> QueueRecord:
    wish = as_converted(catalog, record_of(catalog, "q"))
    catalog.apply(wish)
    return record_of(catalog, becoming_queue("q"))


def converted(catalog: Catalog) -> Converted:
    other = becoming(catalog)
    result = catalog.apply(ConvertQueue("/", "q", record_of(catalog, "q").id, other.id))
    assert isinstance(result, Converted)
    return result


def test_the_other_queue_has_the_name_and_the_bindings_and_is_the_one_it_was(catalog: Catalog) -> None:
    bindings, before = list(catalog.bindings("/")), record_of(catalog, "q")
    result = converted(catalog)
    assert result.before == before
    assert result.now == record_of(catalog, "q")
    assert (result.now.kind, result.now.name) == ("quorum", "q")
    assert list(catalog.bindings("/")) == bindings
    assert [one.name for one in catalog.queues("/")] == ["q"] and catalog.queue_of_id(before.id) is None


def test_who_declares_it_as_the_classic_queue_that_it_was_finds_it_as_it_should_be(catalog: Catalog) -> None:
    converted(catalog)
    wish = DeclareQueue("/", "q", arguments={"x-message-ttl": 1000, "x-queue-type": "classic"}, home="n2")
    assert catalog.declared_queue(as_replicated(catalog, wish)) == record_of(catalog, "q")


def test_nothing_is_converted_when_one_of_the_two_is_another_queue_by_now(catalog: Catalog) -> None:
    other, before = becoming(catalog), record_of(catalog, "q")
    assert catalog.apply(ConvertQueue("/", "q", before.id + 100, other.id)) is None
    assert catalog.apply(ConvertQueue("/", "q", before.id, other.id + 100)) is None
    assert record_of(catalog, "q") == before


@pytest.mark.parametrize("gone", ["q", becoming_queue("q")])
def test_nothing_is_converted_when_one_of_the_two_is_gone_or_was_converted_already(catalog: Catalog, gone: str) -> None:
    """All nodes carry the command out, late as it comes: what fails on one of them fails on all."""
    other, before = becoming(catalog), record_of(catalog, "q")
    convert = ConvertQueue("/", "q", before.id, other.id)
    catalog.apply(DeleteQueue("/", gone, record_of(catalog, gone).id))
    left = list(catalog.queues("/"))
    assert catalog.apply(convert) is None
    assert list(catalog.queues("/")) == left
    catalog.apply(DeclareQueue("/", "q", "classic", arguments={"x-message-ttl": 1000}, home="n1"))
    result = converted(catalog)
    assert catalog.apply(ConvertQueue("/", "q", result.before.id, result.now.id)) is None
    assert record_of(catalog, "q") == result.now


def test_policies_know_it_by_its_later_name(catalog: Catalog) -> None:
    other = becoming(catalog)
    catalog.apply(PutPolicy(PolicyRecord("/", "p", "^q$", "queues", 0, {"max-length": 9})))
    assert catalog.effective(other).max_length == 9


def test_clients_do_not_bind_it(catalog: Catalog) -> None:
    other = becoming(catalog)
    with pytest.raises(AccessRefused, match="is converted to"):
        catalog.apply(Bind(BindingRecord("/", "amq.direct", other.name, "queue", "k")))


@pytest.mark.parametrize(
    ("arguments", "home", "why"),
    [
        ({"x-max-priority": 3}, "n1", "quorum queues have no 'x-max-priority'"),
        ({}, "gone", "its home 'gone' is none of the nodes"),
        ({"x-ha-policy": "nodes", "x-ha-policy-params": ["n2", "n3"]}, "n1", "its home 'n1' is none of the nodes"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    catalog: Catalog, arguments: dict[str, object], home: str, why: str
) -> None:
    catalog.apply(DeclareQueue("/", "other", "classic", arguments=arguments, home=home))
    with pytest.raises(PreconditionFailed, match=why):
        as_converted(catalog, record_of(catalog, "other"))


def test_who_has_missed_it_is_told_of_it_as_of_a_conversion(catalog: Catalog) -> None:
    other = becoming(catalog)
    before = list(catalog.records())
    former = record_of(catalog, "q")
    catalog.apply(ConvertQueue("/", "q", former.id, other.id))
    told = list(difference(before, catalog.records()))
    assert told[0] == (ConvertQueue("/", "q", former.id, other.id), Converted(former, record_of(catalog, "q")))
    assert len(told) == 2, "and of its members, which may be others"


def test_who_has_missed_all_of_it_is_told_first_of_the_queue_that_was_declared_for_it(catalog: Catalog) -> None:
    """Consumers of the classic queue are the other one's then, and are not told that theirs is gone."""
    before, former = list(catalog.records()), record_of(catalog, "q")
    result = converted(catalog)
    beside = replace(result.now, name=becoming_queue("q"), was=0)
    told = list(difference(before, catalog.records()))
    assert [outcome for _, outcome in told] == [beside, Converted(former, result.now), result.now]
    assert isinstance(told[0][0], DeclareQueue) and told[0][0].name == beside.name
    assert told[1][0] == ConvertQueue("/", "q", former.id, result.now.id)


def test_a_queue_that_was_declared_again_under_the_name_is_no_conversion(catalog: Catalog) -> None:
    before, former = list(catalog.records()), record_of(catalog, "q")
    converted(catalog)
    catalog.apply(DeleteQueue("/", "q", record_of(catalog, "q").id))
    catalog.apply(DeclareQueue("/", "q", "classic", home="n1"))
    told = [type(command) for command, _ in difference(before, catalog.records())]
    assert DeleteQueue in told and ConvertQueue not in told and record_of(catalog, "q").id != former.id
