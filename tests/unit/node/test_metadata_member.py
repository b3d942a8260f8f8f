"""How a node begins its member of the metadata group, and how one that keeps the catalog alone comes back from any loss."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import (
    AddNode,
    DeclareQueue,
    NodeStarted,
    PutNode,
    SetClusterId,
    encode_record,
)
from broker.catalog.commands.metadata_entry import METADATA_GROUP
from broker.records import NodeRecord, QueueRecord
from node.catalog.catalog_store import HEAD_KEY, key_of
from node.catalog.metadata_member import APPLY_BYTES_MAX, MetadataMember, keeps_catalog_alone, settle_number
from node.identity import DISK, RAM, KnownNode, NodeIdentity, Place
from raft.core.errors import Damaged
from raft.core.messages import Entry, Membership, NodeId, VoteRequest, member_id
from raft.core.ready import Role
from raft.group_owners import GroupOwners
from raft.transport import encode_batches
from storage.errors import NoDescriptors
from storage.lmdb_store import MemoryStore
from storage.names import LOG_DIRECTORY, RAFT_DIRECTORY
from tests.sim.disk import SimDisk
from tests.unit.node.metadata_world import STORE_S, MetadataNode, MetadataWorld, Told, described
from tests.unit.raft import groups_world

PLACE = Place("0123", 1, "n1", DISK, disk_id=10, incarnation=1, founds=True, others=())
OTHER = KnownNode(2, "n2", "n2:1", DISK)


class Alone(MetadataNode):
    """A process that begins its member as a node does; after a loss its disk has a new number."""

    def __init__(self, world: AloneWorld, number: NodeId, disk: SimDisk, incarnation: int) -> None:
        super().__init__(world, number, disk, incarnation)
        if self.store.renumbered or world.lost:
            world.place = replace(world.place, disk_id=world.place.disk_id + 1, founds=False)
        self.place = replace(world.place, incarnation=incarnation)
        self.member = MetadataMember(self.place, self.store, self.metadata.machine, world.new_replica)
        owners = GroupOwners()
        self.groups._on_damaged = owners.damaged
        self.member.begin()
        self.member.take_part(self.groups, owners)

    def _take_part(self, group: int) -> None:
        """Its member does."""


class AloneWorld(MetadataWorld):
    """One node. `lost`: the next start finds that its log has lost something."""

    def __init__(self, place: Place = PLACE, store: MemoryStore | None = None) -> None:
        self.place = place
        self.lost = False
        self.stores = {place.number: store or MemoryStore()}
        self._numbers = count()
        groups_world.World.__init__(self, 0, groups=0)
        self.begun = self.start(place.number, SimDisk())

    def start(self, number: NodeId, disk: SimDisk) -> Alone:
        before = self.nodes.get(number)
        node = self.nodes[number] = Alone(self, number, disk, before.incarnation + 1 if before else 1)
        self.begun = node
        return node

    def enter(self) -> list[Told]:
        """What a node says first."""
        node = self.begun
        commands: list[Any] = []
        if not node.metadata.catalog.cluster_id:
            commands += default_commands("hash") if not node.metadata.catalog.vhosts else []
            commands += [AddNode(NodeRecord("n1", 0, node.place.disk_id, "n1:1")), SetClusterId("0123")]
        commands.append(NodeStarted("n1", node.place.disk_id, node.incarnation))
        return [Told(node.metadata.insist(command)) for command in commands]

    def again(self, harm: Callable[[SimDisk], None] = lambda disk: None) -> Alone:
        """Killed, harmed, and started again."""
        self.begun.kill()
        harm(self.begun.disk)
        self.restart(self.begun.number)
        told = self.enter()
        self.run(1.0)
        assert all(one.answered and one.error is None for one in told), "the node does not get into its own cluster"
        return self.begun

    def declare(self, name: str) -> QueueRecord:
        told = self.begun.submit(DeclareQueue("/", name, home="n1"))
        self.run(0.5)
        assert isinstance(told.value, QueueRecord), told.error
        return told.value


def founded() -> AloneWorld:
    world = AloneWorld()
    world.enter()
    world.run(1.0)
    for number in range(5):
        world.declare(f"q{number}")
    return world


def rot(disk: SimDisk) -> None:
    """One bit in the midst of what the log holds."""
    name = f"{LOG_DIRECTORY}/{min(disk.list(LOG_DIRECTORY))}"
    disk.flip_bit(name, len(disk.content(name).rstrip(b"\0")) * 4)


def lose_log(disk: SimDisk) -> None:
    for directory in (LOG_DIRECTORY, RAFT_DIRECTORY):
        for name in disk.list(directory):
            disk.delete(f"{directory}/{name}")


def lose_end(disk: SimDisk) -> None:
    """A disk that lied about its last commits: what is missing looks as if it had never been written."""
    name = f"{LOG_DIRECTORY}/{max(disk.list(LOG_DIRECTORY))}"
    content = disk.content(name).rstrip(b"\0")
    disk.overwrite(name, content[: len(content) * 2 // 3])


def test_a_disk_that_has_forgotten_its_member_takes_another_number_and_no_other_does() -> None:
    disk = SimDisk()
    NodeIdentity.begin(disk, "n1", DISK, 1, bytes).found("0123")

    def start(*groups: int, lost: bool = False) -> tuple[bool, bool]:
        """Whether its member is gone, and whether the disk has another number."""
        identity = NodeIdentity.begin(disk, "n1", DISK, 1, bytes)
        before, store = identity.disk_id, SimpleNamespace(stores=dict.fromkeys(groups))
        is_gone = settle_number(identity, store, lost=lost)  # type: ignore[arg-type]
        return is_gone, identity.disk_id != before

    assert start() == (False, False), "the first start of all"
    assert start(METADATA_GROUP) == (False, False)
    assert start(7) == (True, True)
    assert start(METADATA_GROUP) == (False, False)
    assert start(METADATA_GROUP, lost=True) == (False, True)


def test_a_new_node_founds_its_cluster_and_finds_it_again() -> None:
    world = founded()
    status = world.begun.metadata.status()
    assert (status.leader, status.voters) == ("n1", ("n1",))
    assert world.begun.store.group(METADATA_GROUP).member == member_id(1, 10)
    again = world.again()
    assert again.store.group(METADATA_GROUP).member == member_id(1, 10)
    assert [queue.name for queue in again.metadata.catalog.queues("/")] == [f"q{number}" for number in range(5)]


@pytest.mark.parametrize("harm", [rot, lose_log, lose_end], ids=["rot", "lost log", "lost end"])
def test_a_node_that_is_alone_goes_on_with_what_its_store_has_whatever_its_log_has_lost(
    harm: Callable[[SimDisk], None],
) -> None:
    world = founded()
    before = world.begun.metadata.catalog
    queues, position = list(before.queues("/")), world.begun.metadata.machine.position
    world.lost = True
    again = world.again(harm)
    world.lost = False
    assert list(again.metadata.catalog.queues("/")) == queues
    assert again.store.group(METADATA_GROUP).member > member_id(1, 10)
    assert again.metadata.machine.position.applied > position.applied
    assert world.declare("next").id == queues[-1].id + 1
    for _ in range(2):
        now = described(again.metadata.catalog)["records"]
        again = world.again()
        assert len(described(again.metadata.catalog)["records"]) == len(now)
    assert described(world.stored(1)) == described(again.metadata.catalog)


@pytest.mark.parametrize("harm", [rot, lose_log], ids=["rot", "lost log"])
def test_a_node_whose_catalog_has_not_heard_of_the_others_yet_founds_nothing_without_them(
    harm: Callable[[SimDisk], None],
) -> None:
    """There were two metadata groups then: its own, and that of the others, who had told it of themselves only."""
    world = founded()
    world.begun.kill()
    harm(world.begun.disk)
    world.lost = True
    world.place = replace(world.place, founds=False, others=(OTHER,))
    world.restart(1)
    assert world.begun.member.alone, "the catalog is behind"
    world.run(5.0)
    assert world.begun.metadata.status().role is Role.LEARNER
    (_, membership), *_ = reversed(world.begun.store.group(METADATA_GROUP).memberships())
    assert world.begun.store.group(METADATA_GROUP).member not in membership.voters


def test_a_member_that_is_damaged_while_it_runs_is_followed_by_another_at_once() -> None:
    world = founded()
    member = world.begun.store.group(METADATA_GROUP).member
    world.begun.groups.damaged(METADATA_GROUP, Damaged("a segment cannot be read", 3))
    world.run(0.5)
    assert world.begun.store.group(METADATA_GROUP).member > member
    world.declare("next")
    again = world.again()
    assert again.metadata.catalog.queue("/", "next") is not None


def test_a_node_whose_repaired_member_cannot_begin_for_lack_of_descriptors_stops() -> None:
    world = AloneWorld(replace(PLACE, founds=False, others=(OTHER,)))
    groups = world.begun.groups

    def lacks_descriptors(*_: Any) -> None:
        raise NoDescriptors("cannot open a snapshot")

    vars(groups)["add"] = lacks_descriptors
    groups.damaged(METADATA_GROUP, Damaged("a segment cannot be read", 1))
    with pytest.raises(NoDescriptors):
        world.run(0.5)
    assert groups.failed == "cannot open a snapshot"


def test_a_catalog_from_before_there_were_clusters_is_founded_upon() -> None:
    catalog, store = Catalog(), MemoryStore()
    for command in (*default_commands("other"), DeclareQueue("/", "old"), DeclareQueue("/", "older")):
        catalog.apply(command)
    store.commit([(key_of(record), encode_record(record)) for record in catalog.records()])
    world = AloneWorld(store=store)
    world.enter()
    world.run(1.0)
    found = world.begun.metadata.catalog
    assert [queue.name for queue in found.queues("/")] == ["old", "older"]
    assert found.users["guest"].password_hash == "other" and found.cluster_id == "0123"
    assert world.declare("new").id == 3
    assert store.get(HEAD_KEY) is not None
    assert len(list(world.again().metadata.catalog.queues("/"))) == 3


def test_a_node_that_is_not_alone_begins_as_a_learner_that_nobody_knows() -> None:
    for place in (
        replace(PLACE, number=2, founds=False, others=(OTHER,)),
        replace(PLACE, founds=False, others=(OTHER,)),
    ):
        world = AloneWorld(place)
        store = world.begun.store.group(METADATA_GROUP)
        assert store.member == member_id(place.number, 10)
        assert [membership for _, membership in store.memberships()] == [Membership(())]


def test_a_ram_node_begins_in_memory_and_gives_up_what_it_had_as_a_disk_node() -> None:
    world = founded()
    world.place = replace(PLACE, kind=RAM, disk_id=11, founds=False)
    world.begun.kill()
    world.restart(1)
    assert METADATA_GROUP not in world.begun.store.stores
    driver = world.begun.groups.driver(METADATA_GROUP)
    assert (driver.me, driver.applied) == (member_id(1, 11), 0)


def test_a_ram_node_that_others_know_a_later_member_of_goes_on_as_a_still_later_one() -> None:
    """Its clock was set back, and its directory is another one. It has no log to be repaired, and ended with an error."""
    world = founded()
    world.place = replace(PLACE, kind=RAM, disk_id=11, founds=False)
    world.begun.kill()
    world.restart(1)
    groups = world.begun.groups
    groups.add_node(2)
    asked = VoteRequest(member_id(1, 50), member_id(2, 10), 3, 0, 0, pre=True, transfer=False)
    (letter,) = encode_batches([(METADATA_GROUP, [asked])])
    groups.receive(2, letter)
    assert groups.failed is None
    assert member_id(1, 50) < groups.driver(METADATA_GROUP).me


def test_a_start_knows_that_its_log_has_more_than_its_store() -> None:
    world = founded()
    assert not world.begun.member.catalog_is_behind
    world.begun.submit(DeclareQueue("/", "last", home="n1"))
    while world.begun.metadata.catalog.queue("/", "last") is None:
        world.run(STORE_S / 4)
    world.begun.kill()
    assert world.stored(1).queue("/", "last") is None
    world.restart(1)
    assert world.begun.member.catalog_is_behind
    world.enter()
    world.run(1.0)
    assert not world.begun.member.catalog_is_behind
    assert world.begun.metadata.catalog.queue("/", "last") is not None


def test_who_keeps_the_catalog_alone() -> None:
    catalog = Catalog()
    assert keeps_catalog_alone(PLACE, catalog)
    assert keeps_catalog_alone(replace(PLACE, founds=False), catalog), (
        "its facts are all that is left, and know of nobody"
    )
    assert not keeps_catalog_alone(replace(PLACE, founds=False, others=(OTHER,)), catalog)
    catalog.apply(AddNode(NodeRecord("n1", 0, 10, "n1:1")))
    catalog.apply(AddNode(NodeRecord("n2", 0, 10, "n2:1", RAM)))
    assert keeps_catalog_alone(replace(PLACE, others=(OTHER,)), catalog)
    assert not keeps_catalog_alone(replace(PLACE, kind=RAM), catalog)
    catalog.apply(PutNode(NodeRecord("n2", 0, 10, "n2:1", DISK)))
    assert not keeps_catalog_alone(PLACE, catalog)


def test_what_was_decided_while_a_node_was_away_is_applied_a_little_at_a_time() -> None:
    """16,000 declarations in one turn took 370 ms."""
    world = founded()
    machine, counts = world.begun.metadata.machine, list[int]()
    apply = machine.apply

    def counted(entries: Sequence[Entry]) -> Sequence[Any]:
        counts.append(sum(len(entry.data) for entry in entries))
        return apply(entries)

    machine.apply = counted  # type: ignore[method-assign]
    told = [world.begun.submit(DeclareQueue("/", f"{number:0>200}", home="n1")) for number in range(2_000)]
    world.run(5.0)
    assert all(one.answered and one.error is None for one in told)
    assert sum(counts) > 5 * APPLY_BYTES_MAX and max(counts) <= APPLY_BYTES_MAX
