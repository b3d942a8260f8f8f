"""The life of the member on a node, through each state of the table in replicated/member.py."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from broker.records import QueueRecord
from quorum.fifo import commands
from quorum.fifo.commands import Upgrade
from raft.core.errors import Damaged, ReadmittedEarly, Superseded
from raft.core.messages import NodeId, member_id
from raft.groups import NoSuchGroup
from raft.stopped_members import old_disk
from replicated.member import MemberLife
from storage.errors import DiskFailed, DiskFull
from tests.unit.quorum.clients import Clients
from tests.unit.quorum.nodes import Cluster, QuorumNode


def lives(cluster: Cluster, record: QueueRecord) -> dict[NodeId, MemberLife]:
    return {node.number: node.queue(record).member_life for node in cluster.alive()}


def declared(nodes: int = 3) -> tuple[Cluster, QueueRecord]:
    cluster = Clients(nodes).cluster
    record = cluster.declare("q", [1, 2, 3], home=1)
    assert cluster.leader(record).number == 1
    return cluster, record


def test_members_serve_where_the_record_names_them() -> None:
    cluster, record = declared(nodes=4)
    serving = dict.fromkeys((1, 2, 3), MemberLife.SERVING)
    assert lives(cluster, record) == serving | {4: MemberLife.ABSENT}
    cluster.nodes[3].kill()
    cluster.restart(3)
    assert lives(cluster, record) == serving | {4: MemberLife.ABSENT}


def test_a_member_whose_number_cannot_be_kept_is_put_off_until_there_is_room() -> None:
    cluster, record = declared(nodes=4)
    node = cluster.nodes[4]

    def no_room(above: int) -> int:
        raise DiskFull("cannot write node.facts: No space left on device")

    new_replica, node.new_replica = node.new_replica, no_room
    node.kind.members.changed(replace(record, members=(*record.members, member_id(4, 9)), formed=1))
    cluster.run(3)
    assert node.queue(record).member_life is MemberLife.PUT_OFF
    node.new_replica = new_replica
    cluster.run(2)
    assert node.queue(record).member_life is MemberLife.SERVING


def test_a_member_that_cannot_be_read_is_damaged_until_another_one_begins() -> None:
    cluster, record = declared()
    node = cluster.nodes[3]
    queue = node.queue(record)
    before = node.store.group(queue.group).member
    lives_at_repair: list[MemberLife] = []

    def repair(*repair: Any) -> None:
        lives_at_repair.append(queue.member_life)
        QuorumNode._repair(node, *repair)

    vars(node)["_repair"] = repair
    node.groups.damaged(queue.group, Damaged("entry 1 cannot be read"))
    cluster.run(3)
    assert lives_at_repair == [MemberLife.DAMAGED]
    assert queue.member_life is MemberLife.SERVING
    assert node.store.group(queue.group).member != before


def test_a_member_that_was_removed_and_taken_in_again_before_its_node_heard_of_it_is_no_old_disk() -> None:
    """The leader speaks to a number that this very process has promised it, and no earlier one can have had."""
    cluster, record = declared()
    node = cluster.nodes[3]
    queue = node.queue(record)
    found: list[Damaged] = []

    def repair(group: int, damage: Damaged, lives_again: Any) -> None:
        found.append(damage)
        QuorumNode._repair(node, group, damage, lives_again)

    vars(node)["_repair"] = repair
    promised = node.kind.members.promise(queue)
    node.kind.members.promise(queue)  # to another who asked at the same time, and was refused
    for later in (promised, member_id(3, 4000)):
        before = node.store.group(queue.group).member
        node.groups.damaged(queue.group, old_disk(before, later))
        cluster.run(3)
        assert queue.member_life is MemberLife.SERVING and node.store.group(queue.group).member > later
    assert [type(damage) for damage in found] == [ReadmittedEarly, Superseded]
    assert "was removed, and" in str(found[0]) and "the disk is an old copy" in str(found[1])


def test_a_member_that_cannot_begin_from_what_it_has_is_damaged_until_another_one_begins() -> None:
    """Its snapshot, at a start."""
    cluster, record = declared()
    node = cluster.nodes[3]
    queue = node.queue(record)
    before = node.store.group(queue.group).member
    node.kind.members.drop(queue)
    assert queue.member_life is MemberLife.ABSENT
    add, lives_at_repair = node.groups.add, list[MemberLife]()

    def cannot_be_read(*member: Any) -> Any:
        vars(node.groups)["add"] = add
        raise Damaged("its snapshot cannot be read")

    def repair(*repair: Any) -> None:
        lives_at_repair.append(queue.member_life)
        QuorumNode._repair(node, *repair)

    vars(node.groups)["add"] = cannot_be_read
    vars(node)["_repair"] = repair
    node.kind.members.take_part(queue)
    cluster.run(3)
    assert lives_at_repair == [MemberLife.DAMAGED]
    assert queue.member_life is MemberLife.SERVING
    assert node.store.group(queue.group).member > before


def test_a_node_stops_whose_disk_fails_while_another_member_begins() -> None:
    cluster, record = declared()
    node = cluster.nodes[3]
    queue = node.queue(record)

    def disk_fails(*member: Any) -> Any:
        raise DiskFailed("cannot read the new member's segment: Input/output error")

    vars(node.groups)["add"] = disk_fails
    with pytest.raises(DiskFailed):
        node.groups.damaged(queue.group, Damaged("entry 1 cannot be read"))
        cluster.run(1)
    assert node.failures == ["cannot read the new member's segment: Input/output error"]
    assert queue.member_life is MemberLife.DAMAGED


def test_a_sole_member_that_is_damaged_does_not_go_on_in_this_process() -> None:
    """Some of what its sessions were told is not in it any more."""
    cluster = Clients(1).cluster
    record = cluster.declare("q", [1], home=1)
    assert cluster.leader(record).number == 1
    node, began_again = cluster.nodes[1], list[bool]()
    queue = node.queue(record)
    vars(node)["_repair"] = lambda group, damage, lives_again: began_again.append(lives_again())
    node.groups.damaged(queue.group, Damaged("entry 1 cannot be read"))
    cluster.run(1)
    assert began_again == [False]
    assert (queue.member_life, queue.member) == (MemberLife.DAMAGED, None)


def test_a_member_whose_machine_fails_is_quarantined() -> None:
    cluster, record = declared()
    cluster.expects_quarantine = True
    cluster.nodes[1].queue(record).route.propose_here([commands.encode(Upgrade(99))], lambda results, error: None)
    cluster.run(1)
    assert lives(cluster, record) == dict.fromkeys((1, 2, 3), MemberLife.QUARANTINED)


def quarantined() -> tuple[Cluster, QueueRecord, QuorumNode]:
    cluster, record = declared()
    cluster.expects_quarantine = True
    cluster.nodes[1].queue(record).route.propose_here([commands.encode(Upgrade(99))], lambda results, error: None)
    cluster.run(1)
    return cluster, record, cluster.nodes[3]


def test_a_quarantined_member_that_cannot_be_read_any_more_is_damaged_and_not_called_quarantined() -> None:
    cluster, record, node = quarantined()
    queue = node.queue(record)
    assert queue.quarantined is not None
    whys: list[str | None] = []
    vars(node)["_repair"] = lambda group, damage, lives_again: whys.append(queue.quarantined)
    node.groups.damaged(queue.group, Damaged("entry 1 cannot be read"))
    cluster.run(1)
    assert whys == [None] and queue.member_life is MemberLife.DAMAGED


def test_a_quarantined_member_that_is_dropped_takes_part_in_nothing() -> None:
    _, record, node = quarantined()
    queue = node.queue(record)
    node.kind.members.drop(queue)
    assert queue.member_life is MemberLife.ABSENT
    with pytest.raises(NoSuchGroup):
        node.groups.driver(queue.group)


def test_a_quarantined_member_does_not_begin_again_because_its_record_has_changed() -> None:
    _, record, node = quarantined()
    queue = node.queue(record)
    node.kind.members.changed(replace(record, formed=1))
    assert queue.member_life is MemberLife.QUARANTINED


def test_a_member_that_was_put_off_and_is_named_no_more_is_absent() -> None:
    cluster, record = declared(nodes=4)
    node = cluster.nodes[4]

    def no_room(above: int) -> int:
        raise DiskFull("cannot write node.facts: No space left on device")

    node.new_replica = no_room
    node.kind.members.changed(replace(record, members=(*record.members, member_id(4, 9)), formed=1))
    assert node.queue(record).member_life is MemberLife.PUT_OFF
    node.kind.members.changed(replace(record, formed=2))
    node.kind.members.begin_what_was_put_off()
    assert node.queue(record).member_life is MemberLife.ABSENT


@pytest.mark.parametrize(("members", "alone"), [([1], False), ([1, 2, 3], True)])
def test_a_damaged_member_begins_again_where_another_node_may_know_more(members: list[NodeId], alone: bool) -> None:
    """Of one whose record names this node alone the others of the cluster may have another record."""
    cluster = Clients(3).cluster
    record = cluster.declare("q", members, home=1)
    cluster.leader(record)
    node, began_again = cluster.nodes[1], list[bool]()
    node.alone = lambda: alone
    vars(node)["_repair"] = lambda group, damage, lives_again: node.store.repair(
        group, damage, lambda member: began_again.append(lives_again())
    )
    node.groups.damaged(node.queue(record).group, Damaged("entry 1 cannot be read"))
    cluster.run(1)
    assert began_again == [True]


def test_a_member_that_was_removed_is_absent() -> None:
    cluster, record = declared()
    leader = cluster.nodes[1]
    leader.kind.administration.remove_member(leader.queue(record), 3).then(lambda _: None, lambda _: None)
    cluster.run(5)
    assert lives(cluster, record) == dict.fromkeys((1, 2), MemberLife.SERVING) | {3: MemberLife.ABSENT}
