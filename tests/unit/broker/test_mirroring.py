"""Policies and declarations of RabbitMQ 3.x that have queues mirrored: what they are mapped to, and what is told of it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import DeclareQueue
from broker.catalog.known_by_all import KnownByAll
from broker.catalog.mirrored_queues import MirroringTold, as_replicated, stays_alone, told_of
from broker.errors import PreconditionFailed
from broker.operations.import_plan import ImportChecks, ImportPlan
from broker.records import NodeRecord, PolicyRecord, QueueRecord, VhostRecord
from tests.unit.broker.catalog_at_once import CatalogAtOnce
from tests.unit.broker.test_definitions import reader

NO_CHECKS = ImportChecks(lambda record: None, lambda record: None, lambda users: None)
ALL = {"ha-mode": "all"}
BEFORE = "mirroring wanted, not active: it was there before its policy, and is to be converted"


class Mirrored:
    """A cluster of three disk nodes and one that keeps its catalog in memory, with a policy."""

    def __init__(self, definition: dict[str, Any] | None = None, apply_to: str = "all") -> None:
        self.catalog = Catalog()
        self.catalog.apply(commands.PutVhost(VhostRecord("/")))
        for number, kind in enumerate(("disk", "disk", "disk", "ram"), 1):
            self.catalog.apply(commands.AddNode(NodeRecord(f"n{number}", number, 1, f"n{number}:1", kind=kind)))
        if definition is not None:
            self.put(definition, apply_to)

    def put(self, definition: dict[str, Any], apply_to: str = "all") -> None:
        self.catalog.apply(commands.PutPolicy(PolicyRecord("/", "ha", "^m", apply_to, 0, definition)))

    def wish(self, name: str = "m", **how: Any) -> DeclareQueue:
        return as_replicated(self.catalog, DeclareQueue("/", name, home="n1", **how))

    def declare(self, name: str = "m", **how: Any) -> QueueRecord:
        record: QueueRecord = self.catalog.apply(self.wish(name, **how))
        return record

    def told(self, record: QueueRecord) -> MirroringTold | None:
        return told_of(self.catalog, record, self.catalog.effective(record))


@pytest.mark.parametrize(
    ("definition", "size", "nodes"),
    [
        (ALL, 3, None),
        ({"ha-mode": "exactly", "ha-params": 2}, 2, None),
        ({"ha-mode": "nodes", "ha-params": ["rabbit@n2", "n3"]}, 2, ["n2", "n3"]),
        ({"ha-mode": "nodes", "ha-params": ["rabbit@old1", "rabbit@old2", "rabbit@old3"]}, 3, None),
        ({**ALL, "ha-sync-mode": "automatic", "ha-promote-on-failure": "always", "max-length": 5}, 3, None),
    ],
)
def test_a_queue_that_is_declared_under_the_policy_is_a_quorum_queue_with_as_many_members(
    definition: dict[str, Any], size: int, nodes: list[str] | None
) -> None:
    record = Mirrored(definition).declare()
    assert record.kind == "quorum"
    assert record.arguments["x-quorum-initial-group-size"] == size
    assert record.arguments.get("x-ha-nodes") == nodes
    assert record.arguments["x-delivery-limit"] == -1


def test_one_that_the_policy_does_not_name_stays_as_it_is() -> None:
    mirrored = Mirrored(ALL)
    record = mirrored.declare("other")
    assert (record.kind, record.arguments) == ("classic", {"x-queue-type": "classic"})
    assert mirrored.told(record) is None


@pytest.mark.parametrize(
    "again", [{}, {"arguments": {"x-queue-type": "classic"}}, {"arguments": {"x-queue-mode": "lazy"}}]
)
def test_declared_again_as_a_classic_queue_it_is_as_it_should_be_also_without_the_policy(again: dict[str, Any]) -> None:
    mirrored = Mirrored(ALL)
    record = mirrored.declare(**again)
    for _ in range(2):
        assert mirrored.declare(**again) == record
        assert mirrored.declare() == record
        mirrored.catalog.apply(commands.DeletePolicy("/", "ha"))
    assert mirrored.told(record) == MirroringTold("all", True, "")


def test_more_nodes_or_another_mode_leave_what_is_declared_equivalent() -> None:
    mirrored = Mirrored(ALL)
    record = mirrored.declare()
    mirrored.catalog.apply(commands.AddNode(NodeRecord("n5", 5, 1, "n5:1")))
    mirrored.put({"ha-mode": "exactly", "ha-params": 2})
    assert mirrored.declare() == record


def test_arguments_that_differ_are_still_told() -> None:
    mirrored = Mirrored(ALL)
    mirrored.declare()
    with pytest.raises(PreconditionFailed, match="inequivalent arg 'x-max-length'"):
        mirrored.declare(arguments={"x-max-length": 5})


@pytest.mark.parametrize(
    ("how", "why"),
    [
        ({"durable": False}, "it is not durable"),
        ({"exclusive": True, "owner": "1"}, "it is exclusive"),
        ({"auto_delete": True}, "it is auto-delete"),
        ({"arguments": {"x-max-priority": 5}}, "quorum queues have no 'x-max-priority'"),
    ],
)
def test_what_quorum_queues_lack_has_it_stay_a_classic_one_with_a_notice(how: dict[str, Any], why: str) -> None:
    mirrored = Mirrored(ALL)
    assert stays_alone(mirrored.catalog, DeclareQueue("/", "m", **how)) == f"mirroring wanted, not active: {why}"
    record = mirrored.declare(**how)
    assert record.kind == "classic"
    assert mirrored.told(record) == MirroringTold("all", False, f"mirroring wanted, not active: {why}")


def test_a_policy_for_classic_queues_only_leaves_them_classic() -> None:
    mirrored = Mirrored(ALL, "classic_queues")
    record = mirrored.declare()
    assert record.kind == "classic"
    told = mirrored.told(record)
    assert told is not None and "policy 'ha' would not apply to it as a quorum queue" in told.notice


def test_one_that_was_there_before_the_policy_says_that_it_is_not_mirrored_and_is_declared_again_as_it_is() -> None:
    mirrored = Mirrored()
    record = mirrored.declare()
    mirrored.put(ALL)
    assert mirrored.told(record) == MirroringTold("all", False, BEFORE)
    assert mirrored.declare() == record
    mirrored.catalog.apply(commands.DeleteQueue("/", "m"))
    assert mirrored.declare().kind == "quorum"


def test_the_argument_of_times_without_policies_asks_for_it_too() -> None:
    mirrored = Mirrored()
    assert mirrored.declare(arguments={"x-ha-policy": "all"}).arguments["x-quorum-initial-group-size"] == 3
    named = {"x-ha-policy": "nodes", "x-ha-policy-params": ["rabbit@n3"]}
    record = mirrored.declare("named", arguments=named)
    assert (record.kind, record.arguments["x-ha-nodes"]) == ("quorum", ["n3"])
    assert mirrored.declare("odd", arguments={"x-ha-policy": 7}).kind == "classic"


@pytest.mark.parametrize("kind", ["quorum", "stream"])
def test_what_is_replicated_already_needs_no_change(kind: str) -> None:
    mirrored = Mirrored(ALL)
    record = mirrored.declare(arguments={"x-queue-type": kind})
    assert (record.kind, record.arguments) == (kind, {"x-queue-type": kind})
    assert mirrored.told(record) == MirroringTold("all", True, "")


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        ({"ha-mode": "odd"}, "'ha-mode': it is one of all, exactly, nodes, not odd"),
        ({"ha-mode": "exactly"}, "'exactly' needs ha-params with a number above 0"),
        ({"ha-mode": "exactly", "ha-params": True}, "'exactly' needs ha-params with a number above 0"),
        ({"ha-mode": "nodes", "ha-params": []}, "'nodes' needs ha-params with a list of names"),
        ({"ha-mode": "nodes", "ha-params": [5]}, "'nodes' needs ha-params with a list of names"),
        ({"ha-mode": "all", "ha-params": 2}, "'ha-params': only the modes exactly and nodes have parameters"),
        ({"ha-sync-mode": "often"}, "'ha-sync-mode': it is one of manual, automatic"),
        ({"ha-sync-batch-size": 0}, "'ha-sync-batch-size': it is a number above 0"),
        ({"ha-promote-on-shutdown": "never"}, "'ha-promote-on-shutdown': it is one of when-synced, always"),
        ({"ha-mode": "all", "odd": 1}, "'odd' is not a recognised policy setting"),
    ],
)
def test_a_policy_that_means_nothing_is_refused_with_what_is_wrong(definition: dict[str, Any], text: str) -> None:
    with pytest.raises(PreconditionFailed, match=text):
        Mirrored(definition)


def test_such_a_policy_is_set_once_all_nodes_know_it() -> None:
    catalog, behind = Mirrored().catalog, ["n3"]
    metadata = KnownByAll(CatalogAtOnce(catalog), catalog, lambda version: behind)
    policy = commands.PutPolicy(PolicyRecord("/", "ha", "", "all", 0, ALL))
    error = metadata.submit(policy).error
    assert error is not None and "not known that n3 do" in error.text
    assert (
        metadata.submit(commands.PutPolicy(PolicyRecord("/", "other", "", "all", 0, {"max-length": 5}))).error is None
    )
    behind.clear()
    assert metadata.submit(policy).error is None


def test_an_import_declares_mirrored_queues_as_quorum_queues_and_tells_of_those_that_stay_alone() -> None:
    catalog = Mirrored().catalog
    document = {
        "policies": [{"vhost": "/", "name": "ha", "pattern": "^m", "definition": {**ALL, "ha-sync-mode": "automatic"}}],
        "queues": [
            {
                "vhost": "/",
                "name": "m1",
                "durable": True,
                "auto_delete": False,
                "arguments": {"x-queue-type": "classic"},
            },
            {"vhost": "/", "name": "m2", "durable": True, "auto_delete": False, "arguments": {"x-max-priority": 3}},
            {"vhost": "/", "name": "other", "durable": True, "auto_delete": False, "arguments": {}},
        ],
    }
    plan = ImportPlan(catalog, reader(catalog), NO_CHECKS, json.dumps(document).encode(), None)
    for _ in plan.steps():
        pass
    for wanted in plan.wanted:
        catalog.apply(wanted.command)
    assert [(record.name, record.kind) for record in catalog.queues("/")] == [
        ("m1", "quorum"), ("m2", "classic"), ("other", "classic"),
    ]  # fmt: skip
    assert [one.text for one in plan.report.remarks] == [
        "policy 'ha': 'ha-sync-mode' is kept without effect: members catch up by themselves, and the queue goes on meanwhile",
        "queue 'm2': mirroring wanted, not active: quorum queues have no 'x-max-priority'",
    ]
