"""node/commands/survival.py: who goes on alone, with what, and what is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import (
    AddNode,
    DeclareExchange,
    DeclareQueue,
    SetClusterId,
    SetQueueMembers,
)
from broker.records import ExchangeRecord, NodeRecord
from node.commands.survival import SHOWN_MAX, CannotSurvive, Plan, carry_out, plan_of, survive
from raft.core.messages import member_id


def catalog_of_three() -> Catalog:
    catalog = Catalog()
    for command in (*default_commands("hash"), SetClusterId("c1")):
        catalog.apply(command)
    for number, kind in enumerate(("disk", "disk", "disk", "ram"), 1):
        catalog.apply(AddNode(NodeRecord(f"n{number}", 0, 100, f"n{number}:1", kind)))
    quorum = {"x-queue-type": "quorum"}
    members = tuple(member_id(node, 100) for node in (1, 2, 3))
    catalog.apply(DeclareQueue("/", "orders", arguments=quorum, home="n2", members=members))
    catalog.apply(DeclareQueue("/", "elsewhere", arguments=quorum, home="n2", members=members[1:]))
    catalog.apply(DeclareQueue("/", "log", arguments={"x-queue-type": "stream"}, home="n2", members=members))
    for node in (1, 2, 4):
        catalog.apply(DeclareQueue("/", f"classic.{node}", home=f"n{node}"))
    moved = catalog.queue("/", "orders")
    assert moved is not None
    catalog.apply(SetQueueMembers("/", "orders", moved.id, (*members[:2], member_id(3, 107)), formed=40))
    return catalog


def test_the_node_goes_on_with_what_it_has_and_the_rest_is_named_and_removed() -> None:
    catalog = catalog_of_three()
    plan = plan_of(catalog, 1)
    said = "\n".join(plan.sentences())
    assert "Removed for good: n2, n3" in said
    assert "2 replicated queues go on" in said
    assert "queue 'classic.2' in vhost '/'" in said and "queue 'elsewhere' in vhost '/'" in said
    assert plan_of(catalog, 1) == plan, "nothing was changed by looking"
    carry_out(catalog, plan)
    assert set(catalog.nodes) == {"n1", "n4"}
    assert {record.name for record in catalog.queues("/")} == {"orders", "log", "classic.1", "classic.4"}
    orders = catalog.queue("/", "orders")
    assert orders is not None
    # Not 40: what is left may end before the entry 40 that the record speaks of, and begins anew below it.
    assert (orders.members, orders.formed) == ((member_id(1, 100),), 1)


def test_a_queue_of_delayed_messages_is_removed_where_what_needs_it_stays() -> None:
    """Deleting such a queue is refused otherwise, and the command ended with that."""
    catalog = catalog_of_three()
    quorum = {"x-queue-type": "quorum"}
    here, gone = (member_id(1, 100),), (member_id(2, 100),)
    delayed = {"x-delayed-type": "direct"}
    catalog.apply(DeclareExchange(ExchangeRecord("/", "later", "x-delayed-message", arguments=delayed)))
    catalog.apply(DeclareQueue("/", "slow", arguments={**quorum, "x-delayed-messages": True}, home="n1", members=here))
    holding = {"amq.delayed.later", "amq.delayed-queue.slow"}
    for name in holding:
        catalog.apply(DeclareQueue("/", name, arguments=quorum, home="n2", members=gone))
    carry_out(catalog, plan_of(catalog, 1))
    left = {record.name for record in catalog.queues("/")}
    assert ("slow" in left, left & holding) == (True, set())


def test_who_cannot_go_on_alone_is_told_why(tmp_path: Path) -> None:
    catalog = catalog_of_three()
    with pytest.raises(CannotSurvive, match="is no disk node of its cluster"):
        plan_of(catalog, 4)
    carry_out(catalog, plan_of(catalog, 1))
    with pytest.raises(CannotSurvive, match="is the only disk node already"):
        plan_of(catalog, 1)
    with pytest.raises(CannotSurvive, match="is no data directory of a node"):
        survive(tmp_path, confirm="n1")


def test_many_lost_queues_are_counted_and_some_are_named() -> None:
    catalog = catalog_of_three()
    for number in range(2 * SHOWN_MAX):
        catalog.apply(DeclareQueue("/", f"q{number}", home="n3"))
    plan: Plan = plan_of(catalog, 1)
    assert f"{2 * SHOWN_MAX + 2} queues were only on removed nodes" in plan.sentences()[-1]
    assert plan.sentences()[-1].count("vhost") == SHOWN_MAX
