"""Commands of the catalog that say when and for whom: written once all nodes read that, and never before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from broker.catalog.catalog import Catalog
from broker.catalog.commands.catalog_commands import AddNode, DeclareQueue, NodeStarted
from broker.catalog.commands.metadata_entry import ENTRY_NEWEST, ENTRY_OLDEST, METADATA_GROUP, WhenAndWho, decode_whole
from broker.records import NodeRecord
from node.catalog.entry_versions import EntryVersions
from node.catalog.metadata_machine import CatalogMachine
from raft.core.messages import Entry, EntryKind, NodeId
from tests.sim.disk import SimDisk
from tests.unit.node.metadata_world import MetadataNode, MetadataWorld

SAID = WhenAndWho(1_700_000_000_000, 7)


class OlderMachine(CatalogMachine):
    """Of a build that reads the oldest version only."""

    def apply(self, entries: Sequence[Entry]) -> Any:
        assert all(entry.data[0] == ENTRY_OLDEST for entry in entries), "an older node is given what it cannot read"
        return super().apply(entries)


class World(MetadataWorld):
    """Nodes of which some are of an older build."""

    def __init__(self, older: Sequence[NodeId] = ()) -> None:
        self.older = set(older)
        super().__init__()
        for node in self.alive():
            self.begun(node)

    def start(self, number: NodeId, disk: SimDisk) -> MetadataNode:
        node = super().start(number, disk)
        node.metadata.when_and_who = lambda: SAID
        if number in self.older:
            node.metadata.machine.__class__ = OlderMachine
        else:
            node.metadata.entry_versions.told = self.told
        return node

    def told(self, number: NodeId, incarnation: int) -> int:
        is_newer = number not in self.older and incarnation == self.nodes[number].incarnation
        return ENTRY_NEWEST if is_newer else ENTRY_OLDEST

    def begun(self, node: MetadataNode) -> None:
        node.submit(NodeStarted(f"n{node.number}", 1, node.incarnation))
        self.run(1.0)

    def declare_everywhere(self) -> list[WhenAndWho | None]:
        """A queue through each node; what the log says of these declarations."""
        names = [self.new_name() for _ in self.alive()]
        for node, name in zip(self.alive(), names, strict=True):
            node.submit(DeclareQueue("/", name))
            self.run(0.5)
        store = self.leader_node().store.group(METADATA_GROUP)
        entries = store.entries(store.first_index(), store.last_index() + 1, 1 << 30)
        read = [decode_whole(entry.data) for entry in entries if entry.kind == EntryKind.COMMAND]
        said = {command.name: said for _, said, command in read if isinstance(command, DeclareQueue)}
        assert all(node.metadata.halted is None for node in self.alive())
        return [said[name] for name in names]


def test_a_command_says_when_and_for_whom_where_all_nodes_read_it() -> None:
    assert World().declare_everywhere() == [SAID] * 3


def test_an_older_node_meets_nothing_that_it_cannot_read() -> None:
    world = World(older=[3])
    assert world.declare_everywhere() == [None] * 3
    world.nodes[3].kill()
    assert world.declare_everywhere() == [None] * 2, "it may come back as it was"
    world.older.clear()
    world.restart(3)
    assert world.declare_everywhere() == [None] * 3, (
        "an older process may have taken older nodes in until it was followed"
    )
    world.begun(world.node(3))
    assert world.declare_everywhere() == [SAID] * 3


def test_a_node_that_starts_again_goes_on_with_what_the_log_shows_it() -> None:
    """Whoever wrote it knew of all; this node need not hear from one that is down."""
    world = World()
    assert world.declare_everywhere() == [SAID] * 3
    follower = world.follower().number
    gone = next(number for number in world.nodes if number not in (follower, world.leader_node().number))
    world.nodes[follower].kill()
    world.nodes[gone].kill()
    world.older.add(gone)  # as far as anybody has heard since
    world.restart(follower)
    world.run(1.0)
    assert world.declare_everywhere() == [SAID] * 2


def test_nothing_is_taken_for_granted_of_an_empty_catalog_or_another_process() -> None:
    catalog = Catalog()
    versions = EntryVersions(catalog)
    versions.told = lambda node, incarnation: ENTRY_NEWEST if incarnation == 5 else ENTRY_OLDEST
    assert versions.writable() == ENTRY_OLDEST
    catalog.apply(AddNode(NodeRecord("n1", 0, 1, "n1:1")))
    assert versions.writable() == ENTRY_OLDEST
    catalog.apply(NodeStarted("n1", 1, 5))
    assert versions.writable() == ENTRY_NEWEST
    catalog.apply(AddNode(NodeRecord("n2", 0, 1, "n2:1")))
    assert versions.writable() == ENTRY_NEWEST, "nobody joins who does not read it"


def test_nodes_that_may_not_read_a_version_are_named_until_all_are_known_to() -> None:
    catalog = Catalog()
    versions = EntryVersions(catalog)
    told: dict[NodeId, int] = {}
    versions.told = lambda node, incarnation: told.get(node, ENTRY_OLDEST)
    for number in range(3):
        catalog.apply(AddNode(NodeRecord(f"n{number}", number, 1, f"n{number}:1")))
    first, second, third = (node.number for node in catalog.nodes.values())
    told |= {first: ENTRY_NEWEST, second: ENTRY_NEWEST - 1}
    assert (versions.behind(ENTRY_NEWEST), versions.behind(ENTRY_NEWEST - 1)) == (["n1", "n2"], ["n2"])
    told |= {second: ENTRY_NEWEST, third: ENTRY_NEWEST}
    assert versions.behind(ENTRY_NEWEST) == []
    told.clear()
    assert versions.behind(ENTRY_NEWEST) == [], "it has been seen that all read it"


def test_a_version_that_only_others_know_is_not_written() -> None:
    versions = EntryVersions(Catalog())
    versions.met(ENTRY_NEWEST + 1)
    assert versions.writable() == ENTRY_NEWEST
