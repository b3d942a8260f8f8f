"""A member whose machine fails on what was committed: it is quarantined, its node lives, and other queues go on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker.records import QueueRecord
from quorum import driver
from quorum.fifo import commands
from quorum.fifo.commands import Upgrade
from quorum.fifo.machine import QueueMachine
from quorum.fifo.results import Result
from quorum.fifo.versions import VERSION_NEWEST
from raft.core.messages import Entry, NodeId
from replicated.member import MemberLife
from tests.raft_node.leaders import hand_back
from tests.unit.quorum.clients import Clients, Publisher, Taker

POISON = b"poison"


def poison(clients: Clients, record: QueueRecord) -> None:
    """As a leader of a later version would: nothing on its way is checked."""
    leader = clients.cluster.leader(record)
    leader.queue(record).route.propose_here([commands.encode(Upgrade(99))], lambda results, error: None)


class OlderMachine(QueueMachine):
    """One that does not know the newest version yet."""

    __slots__ = ()

    def _upgrade(self, version: int) -> Result:
        if version >= VERSION_NEWEST:
            raise ValueError(f"version {version} of a quorum queue is unknown here: update this node")
        return super()._upgrade(version)

    def restore(self, state: bytes, version: int) -> None:
        if version >= VERSION_NEWEST:
            raise ValueError(f"version {version} of a quorum queue is unknown here: update this node")
        super().restore(state, version)


class FailingMachine(QueueMachine):
    """One with a mistake."""

    __slots__ = ()

    def apply(self, entries: Sequence[Entry]) -> Sequence[list[Result]]:
        if any(POISON in entry.data for entry in entries):
            raise KeyError("a mistake")
        return super().apply(entries)


def test_an_entry_that_nobody_knows_quarantines_its_queue_on_all_nodes_and_no_other() -> None:
    """It ended every node at each start."""
    clients = Clients()
    cluster = clients.cluster
    cluster.expects_quarantine = True
    record, fine = cluster.declare("q", [1, 2, 3]), cluster.declare("fine", [1, 2, 3])
    before = Publisher(clients, 1, record)
    before.publish(3)
    cluster.run(1)
    assert before.confirmed == before.all
    poison(clients, record)
    cluster.run(4)
    assert {(node, name) for node, name, _ in cluster.quarantined} == {(1, "q"), (2, "q"), (3, "q")}
    text = (
        f"cannot be applied: ValueError: version 99 of a quorum queue is unknown here, 1 to {VERSION_NEWEST} are known"
    )
    assert all(text in why for _, _, why in cluster.quarantined)
    for number in (1, 2, 3):
        cluster.nodes[number].kill()
    cluster.quarantined.clear()
    for number in (1, 2, 3):
        cluster.restart(number)
    publisher, taker = Publisher(clients, 2, fine), Taker(clients, 3, fine)
    in_vain = Publisher(clients, 1, record)
    publisher.publish(5)
    in_vain.publish(1)
    cluster.run(3)
    assert {(node, name) for node, name, _ in cluster.quarantined} == {(1, "q"), (2, "q"), (3, "q")}
    assert taker.bodies == publisher.confirmed == publisher.all
    assert in_vain.confirmed == []
    for node in cluster.alive():
        assert node.queue(record).statistics().state == "quarantined"
        assert [queue.record.name for queue in node.kind.members.quarantined] == ["q"]
        assert not node.queue(record).route.leads
        node.kind.delete(node.queue(record), clients.now)
        assert node.kind.members.quarantined == []
    cluster.run(1)
    publisher.publish(5)
    cluster.run(1)
    assert publisher.confirmed == publisher.all


def with_an_older_node(monkeypatch: pytest.MonkeyPatch, number: NodeId) -> tuple[Clients, QueueRecord]:
    """A queue that nodes of this version lead and upgrade, as if all knew it."""
    clients = Clients()
    cluster = clients.cluster
    cluster.expects_quarantine = True
    for node in cluster.alive():
        node.kind.machine_version = VERSION_NEWEST - 1
    real = driver.QueueMachine
    home = next(node for node in (1, 2, 3) if node != number)
    record = QueueRecord("/", "none", "quorum", True, False, False, {}, 0)

    def machine_of(*_: Any) -> QueueMachine:
        return OlderMachine()

    monkeypatch.setattr(driver, "QueueMachine", machine_of)
    record = cluster.declare("q", [1, 2, 3], home=home)
    monkeypatch.setattr(driver, "QueueMachine", real)
    for node in cluster.alive():
        if node.number != number:
            member = node.queue(record).member
            assert member is not None
            member.machine.__class__ = QueueMachine
    return clients, record


def test_an_older_node_stops_following_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, record = with_an_older_node(monkeypatch, 3)
    cluster = clients.cluster
    assert cluster.leader(record).number == 1
    publisher, taker = Publisher(clients, 3, record), Taker(clients, 3, record)
    publisher.publish(3)
    cluster.run(1)
    leader = cluster.leader(record)
    leader.queue(record).route.propose_here([commands.encode(Upgrade(VERSION_NEWEST))], lambda results, error: None)
    cluster.run(1)
    assert [(node, name) for node, name, _ in cluster.quarantined] == [(3, "q")]
    publisher.publish(3)  # its clients are served by the others
    cluster.run(2)
    assert taker.bodies == publisher.confirmed == publisher.all
    cluster.nodes[2].kill()  # it still votes
    publisher.publish(3)
    cluster.run(2)
    assert taker.bodies == publisher.confirmed == publisher.all


def test_an_older_node_that_led_hands_over(monkeypatch: pytest.MonkeyPatch) -> None:
    clients, record = with_an_older_node(monkeypatch, 1)
    cluster = clients.cluster
    cluster.leader(record)
    hand_back(cluster.nodes[2].groups, [1], 1)
    hand_back(cluster.nodes[3].groups, [1], 1)
    cluster.run(1)
    assert cluster.leader(record).number == 1
    publisher, taker = Publisher(clients, 1, record), Taker(clients, 2, record)
    publisher.publish(3)
    cluster.run(1)
    cluster.nodes[1].queue(record).route.propose_here(
        [commands.encode(Upgrade(VERSION_NEWEST))], lambda results, error: None
    )
    publisher.publish(3)
    cluster.run(3)
    assert [(node, name) for node, name, _ in cluster.quarantined] == [(1, "q")]
    assert cluster.leader(record).number != 1
    assert taker.bodies == publisher.confirmed == publisher.all


def test_a_mistake_of_the_machine_quarantines_its_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "QueueMachine", FailingMachine)
    clients = Clients()
    cluster = clients.cluster
    cluster.expects_quarantine = True
    record, fine = cluster.declare("q", [1, 2, 3]), cluster.declare("fine", [1, 2, 3])
    cluster.run(1)
    poisoned, publisher = Publisher(clients, 2, record, POISON.decode()), Publisher(clients, 2, fine)
    poisoned.publish(1)
    publisher.publish(1)
    cluster.run(3)
    assert {(node, name) for node, name, _ in cluster.quarantined} == {(1, "q"), (2, "q"), (3, "q")}
    assert "KeyError: 'a mistake'" in cluster.quarantined[0][2]
    assert publisher.confirmed == publisher.all


def test_a_snapshot_of_a_later_version_quarantines_its_queue_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """It kept the node from starting."""
    clients = Clients()
    cluster = clients.cluster
    cluster.expects_quarantine = True
    record, fine = cluster.declare("q", [1, 2, 3]), cluster.declare("fine", [1, 2, 3])
    publisher = Publisher(clients, 1, record)
    publisher.publish(3)
    cluster.run(2)
    node = cluster.nodes[3]
    way_driver = node.queue(record).route.driver
    assert way_driver is not None
    way_driver.take_snapshot()
    cluster.run(0.5)
    node.kill()
    monkeypatch.setattr(driver, "QueueMachine", OlderMachine)
    cluster.restart(3)
    assert [(number, name) for number, name, _ in cluster.quarantined] == [(3, "q")]
    queue = cluster.nodes[3].queue(record)
    assert (queue.member_life, queue.member) == (MemberLife.QUARANTINED, None), "nobody is served by it"
    monkeypatch.undo()
    publisher.publish(3)
    others = Publisher(clients, 3, fine)
    others.publish(1)
    cluster.run(2)
    assert publisher.confirmed == publisher.all
    assert others.confirmed == others.all
    cluster.nodes[3].kill()
    cluster.quarantined.clear()
    cluster.restart(3)  # it was updated
    taker = Taker(clients, 3, record)
    cluster.run(2)
    assert cluster.quarantined == []
    assert cluster.nodes[3].queue(record).member is not None
    assert taker.bodies == publisher.all
