"""node/replicas/places.py: whom a declaration makes members, and that the load is counted along."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.metadata import OnApplied
from broker.errors import BrokerError, ResourceExhausted
from broker.names import becoming_queue
from broker.pending import Pending
from broker.records import NodeRecord, PolicyRecord, VhostRecord
from node.replicas.places import PlacingMetadata, QueuePlaces
from raft.core.messages import MemberId, member_id, node_of, replica_of


class Applied:
    """A metadata port that applies at once."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self.listeners: list[OnApplied] = []

    def submit(self, command: commands.Command) -> Pending[Any]:
        result = self.catalog.apply(command)
        for listener in self.listeners:
            listener(command, result)
        return Pending.of(result)

    def subscribe(self, on_applied: OnApplied) -> None:
        self.listeners.append(on_applied)


class World:
    def __init__(self, nodes: int = 3, here: int = 1) -> None:
        self.catalog = Catalog()
        self.metadata = Applied(self.catalog)
        self.lost: set[int] = set()
        for command in default_commands("hash"):
            self.catalog.apply(command)
        for number in range(1, nodes + 1):
            self.add_node(NodeRecord(f"n{number}", 0, 100 + number, f"10.0.0.{number}:5681", zone=f"z{number}"))
        self.here = here
        self.places = self.made()

    def made(self) -> QueuePlaces:
        def trusts(node: int) -> bool:
            assert node != self.here, "a node reaches itself"
            return node not in self.lost

        return QueuePlaces(self.here, self.catalog, self.metadata, trusts)

    def add_node(self, record: NodeRecord) -> None:
        self.catalog.apply(commands.AddNode(record))

    def wish(self, name: str, vhost: str = "/", kind: str = "quorum", **arguments: Any) -> commands.DeclareQueue:
        given = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()} | {"x-queue-type": kind}
        return commands.DeclareQueue(vhost, name, durable=True, arguments=given, home="n1")

    def declare(self, name: str, vhost: str = "/", **arguments: Any) -> tuple[MemberId, ...]:
        wish = self.wish(name, vhost, **arguments)
        members = self.places.members_of(wish)
        self.metadata.submit(replace(wish, members=members))
        return members


def nodes_of(members: tuple[MemberId, ...]) -> list[int]:
    return [node_of(member) for member in members]


def test_founders_carry_the_numbers_of_their_nodes_disks() -> None:
    members = World().declare("q")
    assert nodes_of(members) == [1, 2, 3] and [replica_of(member) for member in members] == [101, 102, 103]


def test_a_queue_without_members_gets_none() -> None:
    world = World()
    assert world.places.members_of(world.wish("classic", kind="classic")) == ()
    assert world.places.members_of(world.wish("q", vhost="nowhere")) == ()


def test_a_queue_that_is_deleted_before_it_is_declared_again_has_members() -> None:
    """It was submitted while the node still knew the former one: it had none, and publishers were never answered."""
    world = World()
    founders = world.declare("q")
    wish = replace(world.wish("q"), members=world.places.members_of(world.wish("q")))
    world.metadata.submit(commands.DeleteQueue("/", "q"))
    again = world.metadata.submit(wish)
    record = world.catalog.queue("/", "q")
    assert record is not None and sorted(record.members) == sorted(founders), again
    world.metadata.submit(replace(wish, members=founders[:1]))
    assert world.catalog.queue("/", "q") == record, "one that is there keeps its members"


def test_a_queue_that_exists_may_be_declared_again_when_no_node_can_take_it() -> None:
    """It may be deleted meanwhile: with no members, nobody who published to the new one was answered."""
    world = World(nodes=2, here=3)
    world.declare("q")
    world.lost = {1, 2}
    world.add_node(replace(world.catalog.nodes["n2"], disk_id=777))
    record = world.catalog.queue("/", "q")
    assert record is not None and len(record.members) == 2
    founders = world.places.members_of(world.wish("q"))
    assert nodes_of(founders) == nodes_of(record.members)
    assert {replica_of(member) for member in founders} == {101, 777}, "on the disks that the nodes have now"


def test_another_kind_than_the_queue_that_exists_is_refused_when_no_node_can_take_it() -> None:
    world = World(nodes=2, here=3)
    world.declare("q", kind="classic")
    world.lost = {1, 2}
    with pytest.raises(ResourceExhausted):
        world.places.members_of(world.wish("q"))


def test_the_vhosts_default_kind_counts() -> None:
    world = World()
    world.catalog.apply(commands.PutVhost(VhostRecord("v", default_queue_type="quorum")))
    wish = commands.DeclareQueue("v", "q", durable=True, home="n1")
    assert len(world.places.members_of(wish)) == 3


def test_queues_go_where_the_fewest_are() -> None:
    world = World(nodes=5)
    members = [world.declare(f"q{number}", queue_leader_locator="balanced") for number in range(10)]
    assert Counter(node for one in members for node in nodes_of(one)) == dict.fromkeys(range(1, 6), 6)
    assert Counter(nodes_of(one)[0] for one in members) == dict.fromkeys(range(1, 6), 2)


def test_the_count_follows_what_is_deleted_and_moved_and_a_start_counts_anew() -> None:
    world = World(nodes=3)
    world.catalog.apply(commands.PutVhost(VhostRecord("v")))
    for number in range(3):
        world.declare(f"q{number}", quorum_initial_group_size=1)
        world.declare(f"v{number}", vhost="v", quorum_initial_group_size=1)
    record = world.catalog.queue("/", "q0")
    assert record is not None
    moved = (member_of(world, 2), member_of(world, 3))
    world.metadata.submit(commands.SetQueueMembers("/", "q0", record.id, moved))
    world.metadata.submit(commands.DeleteQueue("/", "q1", None))
    world.metadata.submit(commands.DeleteVhost("v"))
    for places in (world.places, world.made()):
        assert +places._members == Counter({1: 1, 2: 1, 3: 1})
        assert +places._leaders == Counter({1: 1, 2: 1})


def test_commands_about_queues_that_are_gone_count_nothing() -> None:
    """They come late: what this raised would end the node."""
    world = World(nodes=3)
    world.declare("q")
    world.metadata.submit(commands.DeleteQueue("/", "gone", 99))
    world.metadata.submit(commands.SetQueueMembers("/", "gone", 99, (member_of(world, 1),)))
    assert +world.places._members == Counter({1: 1, 2: 1, 3: 1})


def test_a_queue_that_exists_is_declared_again_without_a_node_that_was_removed() -> None:
    """Where no node can take it now: the catalog ignores the members, and a number that nobody has any more stops nothing."""
    world = World(nodes=3)
    world.declare("q")
    world.catalog.apply(commands.RemoveNode("n3"))
    world.lost, world.here = {1, 2}, 9
    assert sorted(nodes_of(world.made().members_of(world.wish("q")))) == [1, 2]


def member_of(world: World, number: int) -> MemberId:
    record = world.catalog.node_of_number(number)
    assert record is not None
    return member_id(number, record.disk_id)


def test_a_queue_goes_to_the_nodes_that_it_names_as_far_as_there_are_such() -> None:
    world = World(nodes=5)
    assert sorted(nodes_of(world.declare("named", ha_nodes=["n3", "n4", "n5"]))) == [3, 4, 5]
    assert sorted(nodes_of(world.declare("some", ha_nodes=["n5", "n9"]))) == [5]
    for number, names in enumerate(([], ["n8", "n9"], "n4")):
        assert len(nodes_of(world.declare(f"q{number}", ha_nodes=names))) == 3, names


@pytest.mark.parametrize("home", [1, 2, 3, 4, 5])
def test_what_a_classic_queue_is_to_become_has_its_first_member_beside_it(home: int) -> None:
    """Whatever node it is declared through, and however leaders are to be spread: who copies needs a member there."""
    world = World(nodes=5, here=4)
    for number in range(7):
        world.declare(f"q{number}")
    wish = world.wish(becoming_queue("q"), queue_leader_locator="balanced")
    members = nodes_of(world.places.members_of(replace(wish, home=f"n{home}")))
    assert (members[0], len(members)) == (home, 3)


def test_a_declaration_goes_on_with_its_members_and_other_commands_as_they_are() -> None:
    world = World()
    placing = PlacingMetadata(world.metadata, world.places)
    placing.submit(world.wish("q"))
    record = world.catalog.queue("/", "q")
    assert record is not None and sorted(nodes_of(record.members)) == [1, 2, 3]
    placing.submit(commands.DeleteQueue("/", "q"))
    assert world.catalog.queue("/", "q") is None
    heard: list[BrokerError] = []
    world.lost, world.here = {1, 2, 3}, 9
    PlacingMetadata(world.metadata, world.made()).submit(world.wish("q")).then(lambda _: None, heard.append)
    assert [type(one) for one in heard] == [ResourceExhausted]
    assert world.catalog.queue("/", "q") is None


def test_a_policy_spreads_leaders() -> None:
    world = World()
    world.catalog.apply(
        commands.PutPolicy(PolicyRecord("/", "spread", ".*", "queues", 0, {"queue-leader-locator": "balanced"}))
    )
    assert {nodes_of(world.declare(f"q{number}"))[0] for number in range(3)} == {1, 2, 3}


def test_without_a_reachable_disk_node_the_refusal_says_so() -> None:
    world = World(nodes=2, here=3)
    world.lost = {1, 2}
    with pytest.raises(ResourceExhausted, match="no disk node can take a queue now"):
        world.places.members_of(world.wish("q"))


def test_a_drained_node_gets_no_member_while_there_are_others() -> None:
    world = World(nodes=4)
    drained = replace(world.catalog.nodes["n2"], draining=True)
    world.metadata.submit(commands.PutNode(drained))
    assert nodes_of(world.declare("q")) == [1, 3, 4]


def test_a_stream_has_members_everywhere_or_as_many_as_it_asks_for() -> None:
    world = World(nodes=4)
    world.add_node(NodeRecord("ram", 0, 7, "ram:1", "ram"))
    assert nodes_of(world.declare("everywhere", kind="stream")) == [1, 2, 3, 4]
    assert len(world.declare("asked", kind="stream", initial_cluster_size=2)) == 2
