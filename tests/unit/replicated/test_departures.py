"""A member that its queue's record does not name: its log is deleted on the group's word, and only then."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from broker.pending import Pending
from broker.records import QueueRecord
from raft.core.membership import members_of
from raft.core.messages import Membership, NodeId, member_id, node_of
from replicated.departures import Departures, goes_on_without
from replicated.local_members import QUEUE_GROUPS
from tests.unit.quorum.clients import Clients, Publisher
from tests.unit.quorum.nodes import Cluster
from tests.unit.quorum.test_driver import numbered


def log_of(cluster: Cluster, node: NodeId, record: QueueRecord) -> Any:
    """None: it has none."""
    return cluster.nodes[node].store.stores.get(QUEUE_GROUPS + record.id)


def asked_to(pending: Any) -> None:
    pending.then(lambda _: None, lambda error: pytest.fail(str(error)))


def test_a_voter_keeps_its_log_at_a_start_whose_catalog_does_not_name_it_yet() -> None:
    """Its catalog is on disk behind its log: the command that named the member was applied before the kill, and not kept. With
    the log a majority would have gone: two of the four that had acknowledged what was confirmed."""
    clients = Clients(4)
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3])
    leader = cluster.leader(record)
    publisher = Publisher(clients, 1, record)
    told: list[QueueRecord] = []
    for node in cluster.alive():
        node.set_members = lambda record, members, formed, anew: told.append(  # the catalog has no majority
            replace(record, members=members, formed=formed)
        )
    asked_to(leader.kind.administration.add_member(leader.queue(record), 4))
    cluster.run(3)
    cluster.nodes[4].kind.members.changed(told[-1])
    cluster.run(3)
    status = leader.queue(record).route.driver.core.status()  # type: ignore[union-attr]
    assert sorted(map(node_of, status.membership.voters)) == [1, 2, 3, 4]
    leader.set_members = lambda record, members, formed, anew: None
    publisher.publish(5)
    cluster.run(1)
    last = log_of(cluster, 4, record).last_index()
    cluster.nodes[4].kill()
    cluster.restart(4)
    assert [node_of(member) for member in cluster.nodes[4].queue(record).record.members] == [1, 2, 3]
    kept = log_of(cluster, 4, record)
    assert kept is not None and kept.last_index() == last
    cluster.run(5)
    cluster.nodes[next(node for node in (1, 2, 3) if node != leader.number)].kill()
    publisher.publish(5)
    cluster.run(3)
    assert publisher.confirmed == numbered(10)
    driver = cluster.nodes[4].queue(record).route.driver
    assert driver is not None and driver.me in driver.core.status().membership.voters


def removed_while_down() -> tuple[Clients, QueueRecord]:
    """Node 3 was killed, and the group has removed its member meanwhile."""
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    assert cluster.leader(record).number == 1
    cluster.nodes[3].kill()
    kind, queue = clients.of(1, record)
    asked_to(kind.administration.remove_member(queue, 3))
    cluster.run(4)
    assert [node_of(member) for member in cluster.records[record.id].members] == [1, 2]
    return clients, record


def test_a_member_that_was_removed_while_its_node_was_down_goes_once_the_leader_says_so() -> None:
    clients, record = removed_while_down()
    cluster = clients.cluster
    cluster.restart(3)
    assert log_of(cluster, 3, record) is not None
    cluster.run(3)
    assert log_of(cluster, 3, record) is None
    assert cluster.nodes[3].queue(record).member is None


def test_nothing_goes_as_long_as_the_catalog_may_be_older_than_the_process() -> None:
    clients, record = removed_while_down()
    cluster = clients.cluster
    node = cluster.restart(3)
    node.incarnation_of = lambda number: node.incarnation - 1
    cluster.run(5)
    assert log_of(cluster, 3, record) is not None
    node.incarnation_of = cluster.incarnation_of
    cluster.run(3)
    assert log_of(cluster, 3, record) is None


def test_nothing_goes_as_long_as_nobody_leads_the_group() -> None:
    clients, record = removed_while_down()
    cluster = clients.cluster
    cluster.nodes[1].kill()
    cluster.restart(3)
    cluster.run(5)
    assert log_of(cluster, 3, record) is not None
    cluster.restart(1)
    cluster.run(8)
    assert log_of(cluster, 3, record) is None


ONE, TWO, THREE = (member_id(node, 7) for node in (1, 2, 3))


def figures(**said: Any) -> dict[str, Any]:
    raft = {"role": "leader", "term": 5, "change_pending": False, "membership": [[ONE, TWO], [], []]}
    return {"raft": raft | said}


def test_the_word_of_a_leader_of_the_members_term_counts() -> None:
    assert goes_on_without(figures(), 3, term=5)
    assert goes_on_without(figures(), 3, term=4)


@pytest.mark.parametrize(
    "said",
    [
        None,
        {},
        {"raft": {}},
        {"raft": None},
        figures(role="follower"),
        figures(change_pending=True),
        figures(membership=[[ONE, TWO, THREE], [], []]),
        figures(membership=[[ONE, TWO], [THREE], [THREE]]),
        figures(membership=[[ONE, TWO], [member_id(3, 9)], []]),
        figures(membership="none"),
    ],
)
def test_nothing_else_does(said: dict[str, Any] | None) -> None:
    assert not goes_on_without(said, 3, term=5)


def test_a_leader_of_an_earlier_term_is_not_believed() -> None:
    """A later one may have added the member since."""
    assert not goes_on_without(figures(), 3, term=6)


def test_what_a_node_says_of_itself_is_what_is_read() -> None:
    clients = Clients()
    cluster = clients.cluster
    record = cluster.declare("q", [1, 2], home=1)
    leader = cluster.leader(record)
    told: list[Any] = []
    cluster.nodes[3].kind.administration.figures(cluster.nodes[3].queue(record), leader.number).then(
        told.append, lambda error: None
    )
    cluster.run(1)
    assert goes_on_without(told[0], 3, told[0]["raft"]["term"])
    assert not goes_on_without(told[0], 2, told[0]["raft"]["term"])
    status = leader.queue(record).route.driver.core.status()  # type: ignore[union-attr]
    assert members_of(status.membership) == record.members


class Node3:
    """It has a log of a queue whose record names nodes 1 and 2; figures come when the test says so. It is that queue, too."""

    deleted = False

    def __init__(self) -> None:
        self.linked = {1, 2}
        self.asked: list[NodeId] = []
        self.answers: list[Pending[dict[str, Any] | None]] = []
        self.dropped: list[Any] = []
        self.has = True
        self.named: list[NodeId] = [1, 2]
        core = SimpleNamespace(status=lambda: SimpleNamespace(membership=Membership((ONE, TWO, THREE))))
        self.driver = SimpleNamespace(core=core, leader_node=1)
        self.route = SimpleNamespace(driver=self.driver)
        ports: Any = SimpleNamespace(
            node=3, incarnation=4, calls=SimpleNamespace(connected=lambda node: node in self.linked)
        )
        members: Any = SimpleNamespace(
            has_log=lambda queue: self.has, term_on_disk=lambda queue: 5, drop=self.dropped.append
        )
        self.departures: Departures[Any] = Departures(ports, members, lambda node: 4, self.figures)
        self.departures.begin(self)

    def member_nodes(self) -> list[NodeId]:
        return self.named

    def figures(self, queue: Any, node: NodeId) -> Pending[dict[str, Any] | None]:
        self.asked.append(node)
        self.answers.append(Pending())
        return self.answers[-1]


def test_the_log_goes_with_the_answer_and_only_once() -> None:
    node = Node3()
    node.departures.begin(node)
    assert node.asked == [1], "that it is not named is heard with each change of the record"
    node.departures.tick()
    for answer in node.answers:
        answer.resolve(figures())
    assert node.dropped == [node]


@pytest.mark.parametrize("change", ["named again", "deleted", "no log"])
def test_what_changes_while_a_leader_is_asked_counts_more_than_its_answer(change: str) -> None:
    """A member that was added again lost the log that it had acknowledged."""
    node = Node3()
    if change == "named again":
        node.named = [1, 2, 3]
    node.deleted = change == "deleted"
    node.has = change != "no log"
    node.answers[0].resolve(figures())
    assert node.dropped == []
    node.departures.tick()
    assert len(node.asked) == 1, "it is not asked any more"


def test_where_the_leader_cannot_be_reached_the_others_are_asked_in_turn() -> None:
    node = Node3()
    node.driver.leader_node = 2
    node.linked = {1, 4}
    node.named = [1, 4]
    for _ in range(3):
        node.departures.tick()
    assert node.asked == [1, 4, 1, 4]
    node.linked = set()
    node.departures.tick()
    assert len(node.asked) == 4


def test_who_led_when_that_was_heard_last_is_asked_first_though_nothing_else_names_it() -> None:
    node = Node3()
    node.departures.forget(node)
    node.asked.clear()
    node.driver.leader_node = 4
    node.linked = {1, 2, 3, 4}
    node.departures.begin(node)
    for _ in range(3):
        node.departures.tick()
    assert node.asked == [4, 1, 2, 4]


def test_a_member_that_cannot_take_part_leaves_when_a_node_that_the_record_names_says_so() -> None:
    """It is damaged or quarantined, so it has heard of no leader."""
    node = Node3()
    node.departures.forget(node)
    node.asked.clear()
    node.route.driver = None
    node.departures.begin(node)
    node.departures.tick()
    assert node.asked == [1, 2]
    node.answers[-1].resolve(figures())
    assert node.dropped == [node]


def test_a_leader_of_old_that_lives_is_not_asked_for_ever() -> None:
    """Nobody tells a member that was removed who leads now: it stayed for ever, and what its clients published waited."""
    node = Node3()
    node.departures.tick()
    node.answers[0].resolve(figures(role="follower"))
    assert node.asked == [1, 2]
    node.answers[1].resolve(figures())
    assert node.dropped == [node]
