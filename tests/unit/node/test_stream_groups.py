"""A group of single active consumers with clients on several nodes, over calls between these."""

from __future__ import annotations

from functools import partial

import pytest

from broker.records import NodeRecord
from broker.stream_clients.consumer_groups import GroupConsumer, GroupKey
from broker.stream_clients.group_coordinator import KEPT_GONE_MS
from broker.stream_clients.node_groups import NodeGroups
from node.anywhere.stream_groups import RemoteGroups
from node.peers.calls import GROUPS, PeerCalls
from tests.unit.node.memory_calls import MemoryNetwork

KEY = GroupKey("/", "stream", "grüße")
NAMES = {"a": 1, "b": 2, "c": 3}


class Nodes:
    """Node a leads the stream. `told` has what consumers were told, who answer when the test says so."""

    def __init__(self) -> None:
        self.network = MemoryNetwork()
        self.leader = "a"
        self.now = 1
        self.groups: dict[str, NodeGroups] = {}
        self.calls: dict[str, PeerCalls] = {}
        self.told: list[tuple[str, bool]] = []
        records = {name: NodeRecord(name, number, 1, "") for name, number in NAMES.items()}
        for name, number in NAMES.items():
            calls = self.calls[name] = self.network.join(number)
            leads = partial(self._leads, name)
            groups = NodeGroups(name, lambda key: self.leader, leads, lambda: self.now)
            groups.elsewhere = RemoteGroups(calls, groups, name, lambda: records)
            self.groups[name] = groups
        self.network.connect_all()

    def _leads(self, name: str, key: GroupKey) -> int:
        return int(self.leader == name)

    def join(self, node: str) -> GroupConsumer:
        self.now += 1
        consumer = self.groups[node].join(KEY, 1, lambda active: self.told.append((node, active)))
        self.groups[node].started(KEY, consumer)
        self.network.run()
        return consumer

    def answer(self, node: str, consumer: GroupConsumer) -> None:
        self.groups[node].answered(KEY, consumer)
        self.network.run()

    def check(self) -> None:
        self.now += 1_000
        for groups in self.groups.values():
            groups.check()
        self.network.run()


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


def test_the_active_consumer_moves_from_one_node_to_another_by_way_of_the_leader(nodes: Nodes) -> None:
    old = nodes.join("b")
    nodes.answer("b", old)
    new = nodes.join("c")
    assert nodes.told == [("b", True), ("b", False)]
    nodes.answer("b", old)
    nodes.answer("c", new)
    assert nodes.told[2:] == [("c", True)]


def test_the_next_leader_learns_from_the_others_who_is_active(nodes: Nodes) -> None:
    old = nodes.join("b")
    nodes.answer("b", old)
    nodes.leader = "c"
    nodes.check()
    nodes.join("a")
    assert nodes.told == [("b", True), ("b", False)]


def test_what_a_link_has_lost_is_said_again(nodes: Nodes) -> None:
    nodes.network.disconnect(1, 2)
    nodes.join("b")
    assert nodes.told == []
    nodes.network.connect_all()
    nodes.check()
    assert nodes.told == [("b", True)]


def test_a_node_that_is_out_of_reach_for_long_leaves_its_place_to_others(nodes: Nodes) -> None:
    old = nodes.join("b")
    nodes.answer("b", old)
    new = nodes.join("c")
    assert nodes.told == [("b", True), ("b", False)]
    nodes.network.disconnect(1, 2)
    for _ in range(KEPT_GONE_MS // 1_000 + 1):
        nodes.check()
    assert nodes.told[2:] == [("c", True)]
    nodes.answer("c", new)
    assert len(nodes.told) == 3


def test_a_leader_that_the_catalog_does_not_know_is_waited_for(nodes: Nodes) -> None:
    nodes.leader = "gone"
    nodes.join("b")
    nodes.check()
    assert nodes.told == []
    nodes.leader = "a"
    nodes.check()
    assert nodes.told == [("b", True)]


KEY_BYTES = b"\1\0/" + b"\1\0s" + b"\1\0g"


@pytest.mark.parametrize(
    "payload",
    [b"", b"\3", b"\3" + KEY_BYTES + b"x", b"\2" + KEY_BYTES, b"\1" + KEY_BYTES, b"\3" + b"\1\0\xff" * 3],
)
def test_what_is_said_of_no_group_ends_the_link(nodes: Nodes, payload: bytes) -> None:
    nodes.calls["b"].tell(1, GROUPS, payload)
    nodes.network.run()
    assert len(nodes.network.bad) == 1


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_part_whose_count_is_wrong_ends_the_link(nodes: Nodes, count: int) -> None:
    two_consumers = bytes(17) * 2
    part = bytes(4) + count.to_bytes(4, "little") + two_consumers
    nodes.calls["b"].ask(1, GROUPS, b"\1" + KEY_BYTES + part, lambda answer: None)
    nodes.network.run()
    assert len(nodes.network.bad) == 1
