"""Leaders spread over the nodes of a cluster, and handed back to a node that was away."""

from __future__ import annotations

from collections.abc import Sequence

from node.replicas.group_view import HEIR_LAG_ENTRIES
from raft.core.errors import RaftError
from raft.core.messages import NodeId, node_of
from raft.driver import Driver, GroupId
from raft.groups import Groups


def preferred_node(group: GroupId, nodes: Sequence[NodeId]) -> NodeId:
    """The node whose member should lead: all nodes lead about as many groups, whatever numbers the groups have."""
    mixed = (group * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
    return nodes[(mixed >> 32) % len(nodes)]


def hand_back(groups: Groups, nodes: Sequence[NodeId], count_max: int) -> None:
    """Hand over up to so many groups that another node should lead. `nodes` are those that leaders are to be spread over."""
    moved = 0
    for driver in groups.drivers():
        if moved == count_max:
            break
        if driver.leads:
            node = preferred_node(driver.group, nodes)
            moved += node != groups.node and groups.trusts(node) and _hand_to(groups, driver, node)


def _hand_to(groups: Groups, driver: Driver, node: NodeId) -> bool:
    """Only to a voter that has caught up: while a leadership is handed over, proposals are refused."""
    status = driver.core.status()
    heir = next((one for one in status.followers if node_of(one.member) == node), None)
    if heir is None or heir.member not in status.membership.voters or heir.match + HEIR_LAG_ENTRIES < status.last:
        return False
    try:
        groups.transfer(driver.group, heir.member)
    except RaftError:
        return False  # it leads no more, or has more urgent things to do
    return True
