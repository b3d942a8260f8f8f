"""A learner's log in memory: it follows a real cluster, through entries and snapshots, and answers like any other."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from raft.core.errors import Compacted
from raft.core.live_entries import NONE_LIVE
from raft.core.membership import AddLearner
from raft.core.messages import Entry, EntryKind, Membership, SnapshotChunk, SnapshotMeta, member_id
from raft.core.ready import Facts
from raft.driver import SnapshotRules
from raft.store.memory_log_store import MemoryLogStore
from raft.store.snapshots import SnapshotStream, write
from tests.raft_node.register import Register, put
from tests.sim.disk import SimDisk
from tests.unit.raft.groups_world import Node, World

META = SnapshotMeta(12, 3, Membership((1, 2), (9,)), 1)


def entries(first: int, last: int, term: int = 1) -> list[Entry]:
    return [Entry(index, term, EntryKind.COMMAND, b"%d" % index * 10) for index in range(first, last + 1)]


def learner() -> MemoryLogStore:
    return MemoryLogStore(7, pytest.fail)


def stream_of(meta: SnapshotMeta, state: bytes, group: int = 7) -> bytes:
    """As a leader sends it."""
    disk = SimDisk()
    disk.make_dir("raft")
    stream = SnapshotStream(
        disk, group, write(disk, group, 1, meta, NONE_LIVE, [state]), NONE_LIVE, lambda low, high: []
    )
    return stream.read(0, stream.measured())[0]


def installed(store: MemoryLogStore, stream: bytes, meta: SnapshotMeta = META) -> bytes | None:
    states: list[bytes | None] = []
    for at in range(0, len(stream), 100):
        store.receive(SnapshotChunk(9, 1, 3, meta, at, stream[at : at + 100], at + 100 >= len(stream)))
    store.install(meta, states.append)
    return states[0]


def test_entries_take_the_place_of_others_and_are_cut_by_bytes() -> None:
    store = learner()
    assert (store.first_index(), store.last_index(), store.facts()) == (1, 0, Facts(0, 0))
    assert store.append(Facts(1, 0), entries(1, 10)) == 0
    store.append(Facts(2, 5), entries(6, 7, term=2))
    assert (store.last_index(), store.term(5), store.term(6), store.facts()) == (7, 1, 2, Facts(2, 5))
    assert [entry.index for entry in store.entries(3, 8, 25)] == [3, 4]
    assert [entry.index for entry in store.entries(3, 8, 1)] == [3]
    with pytest.raises(AssertionError, match="a gap"):
        store.append(None, entries(9, 9))


def test_a_local_snapshot_shortens_the_log_and_an_older_one_does_nothing() -> None:
    store = learner()
    store.append(Facts(1, 0), entries(1, 20))
    kept: list[bool] = []
    for index in (12, 5, 30):
        store.save_snapshot(SnapshotMeta(index, 1, META.membership, 1), [b"state"], None, kept.append)
    assert kept == [True, False, False]
    assert (store.first_index(), store.last_index(), store.snapshot().index, store.term(12)) == (13, 20, 12, 1)
    for index in (1, 12):
        with pytest.raises(Compacted):
            store.entries(index, 14, 100)
    with pytest.raises(Compacted):
        store.term(11)


def test_what_the_leader_sends_is_all_that_there_is_then() -> None:
    store = learner()
    store.append(Facts(1, 0), entries(1, 3))
    assert installed(store, stream_of(META, b"state" * 99)) == b"state" * 99
    assert (store.snapshot(), store.first_index(), store.last_index(), store.term(12)) == (META, 13, 12, 3)
    assert list(store.memberships()) == [(12, META.membership)]


@pytest.mark.parametrize(
    "harm",
    [
        lambda stream: stream[:-1],
        lambda stream: stream[:40] + b"?" + stream[41:],
        lambda stream: stream + b"more",
        lambda stream: stream_of(META, b"state", group=8),
        lambda stream: stream_of(META.__class__(13, 3, META.membership, 1), b"state"),
        lambda stream: b"",
    ],
    ids=["cut", "flipped", "longer", "of another group", "another one", "nothing"],
)
def test_what_is_not_this_snapshot_is_told_and_not_taken(harm: Callable[[bytes], bytes]) -> None:
    found: list[str] = []
    store = MemoryLogStore(7, found.append)
    store.append(Facts(1, 0), entries(1, 3))
    assert installed(store, harm(stream_of(META, b"state"))) is None
    assert store.last_index() == 3 and "cannot be used" in found[0]


@pytest.mark.parametrize("entries_max", [10, 10_000])
def test_a_learner_in_memory_follows_a_cluster_and_its_next_process_does_so_again(entries_max: int) -> None:
    world = World(rules=SnapshotRules(entries_max=entries_max))
    leader = world.leader()
    for number in range(50):
        leader.propose(put(b"k%d" % (number % 7), b"%d" % number))
        world.run(0.02)
    world.run(2.0)
    world.nodes[4] = world.start(4, SimDisk())

    def join(node: Node, replica: int) -> Register:
        machine = Register(lambda index: b"")
        node.groups.add(1, member_id(4, replica), MemoryLogStore(1, pytest.fail), machine, world.settings, world.rules)
        world.connect_all()
        return machine

    machine = join(world.nodes[4], 100)
    leader.groups.change(1, AddLearner(member_id(4, 100), promote=False), lambda results, error: None)
    world.run(3.0)
    assert machine.digest() == leader.machine().digest()
    world.nodes[4].kill()
    leader.propose(put(b"meanwhile", b"1"))
    world.run(1.0)
    machine = join(world.start(4, SimDisk()), 101)
    world.run(3.0)
    assert machine.digest() == leader.machine().digest()
    assert leader.driver().core.status().membership.learners == (member_id(4, 101),)
