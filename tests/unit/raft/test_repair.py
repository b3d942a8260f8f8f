"""Bit rot under running nodes: whoever meets it, the member becomes another one and is repaired, without an operator."""

from __future__ import annotations

from itertools import repeat
from random import Random

from raft.core.errors import Damaged, ReadmittedEarly
from raft.core.messages import Membership, member_id
from raft.driver import SnapshotRules
from raft.store.store_limits import StoreLimits
from storage.names import LOG_DIRECTORY, QUARANTINE_DIRECTORY, RAFT_DIRECTORY
from tests.raft_node.register import put
from tests.sim.disk import Fault, SimDisk, no_faults
from tests.unit.raft.groups_world import Node, World

TINY = StoreLimits(
    segment_entries_max=64, log_files_kept=1, entries_kept=0, memory_bytes_max=2_048, compaction_interval_ms=1
)
NEVER = SnapshotRules(entries_max=1 << 30)


def write(world: World, keys: range, *, in_log: bool = True) -> None:
    leader = world.leader()
    for number in keys:
        leader.propose(put(b"%d" % number, b"value %d " % number * 10, in_log=in_log))
        world.run(0.01)


def rot(disk: SimDisk, directory: str, suffix: str, *, newest: bool = False) -> str:
    """Turn bits of a file around in all of its middle. Returns its name."""
    files = sorted(name for name in disk.list(directory) if name.endswith(suffix))
    name = f"{directory}/{files[-1 if newest else 0]}"
    size = len(disk.content(name).rstrip(b"\0"))
    for at in range(size // 4, size // 2, 16):
        disk.flip_bit(name, at * 8)
    return name


def must_be_repaired(world: World, node: Node, old: int) -> None:
    """The node has a later member that votes, and everything that the others have."""
    world.run(6.0)
    new = node.driver().me
    assert new > old
    voters = world.leader().driver().core.status().membership.voters
    assert new in voters and old not in voters and len(voters) == len(world.nodes)
    assert (node.number, new) in world.repaired
    assert len({one.machine().digest() for one in world.nodes.values()}) == 1
    assert any(
        f"Its member {node.number}.0 is {node.number}.{new & 0xFFFFFFFF} from now on" in one for one in world.findings
    )


def test_a_log_file_that_has_rotted_before_its_entries_are_moved_out() -> None:
    """No log file was ever let go again on that node: the work that met the damage ended all such work."""
    world = World(limits=TINY, rules=NEVER, file_bytes_max=8_192)
    write(world, range(60))
    victim = world.others(world.leader().number)[0]
    old = victim.driver().me
    rot(victim.disk, LOG_DIRECTORY, ".log")
    write(world, range(60, 300))
    must_be_repaired(world, victim, old)
    assert victim.store.failed is None
    write(world, range(300, 500))
    assert len([name for name in victim.disk.list(LOG_DIRECTORY) if name.endswith(".log")]) <= 5


def test_a_segment_of_a_follower_that_has_rotted_before_it_is_compacted() -> None:
    world = World(limits=TINY, rules=SnapshotRules(entries_max=100), file_bytes_max=8_192)
    write(world, range(200))
    victim = world.others(world.leader().number)[0]
    old = victim.driver().me
    rot(victim.disk, RAFT_DIRECTORY, ".seg")
    for turn in range(8):
        write(world, range(0, 200, 2))  # half of what each segment holds dies
        victim.store.tick((turn + 1) * 10_000)
    must_be_repaired(world, victim, old)
    assert victim.store.failed is None
    assert victim.disk.list(QUARANTINE_DIRECTORY), "what is given up lies in the quarantine"


def test_a_member_that_was_removed_in_order_leaves_no_copies() -> None:
    world = World(limits=TINY, rules=SnapshotRules(entries_max=100), file_bytes_max=8_192)
    write(world, range(200))
    for node in world.nodes.values():
        node.store.tick(10_000)
    victim = world.others(world.leader().number)[0]
    old = victim.driver().me
    assert [name for name in victim.disk.list(RAFT_DIRECTORY) if name.endswith(".seg")]
    victim.groups.damaged(victim.driver().group, ReadmittedEarly("it was removed", old + 1))
    world.run(5.0)
    assert victim.driver().me > old + 1
    assert not [name for name in victim.disk.files() if name.startswith(QUARANTINE_DIRECTORY)]


def test_a_segment_of_the_leader_that_has_rotted_before_a_client_reads() -> None:
    world = World(limits=TINY, rules=NEVER, file_bytes_max=8_192)
    write(world, range(200))
    victim = world.leader()
    old = victim.driver().me
    rot(victim.disk, RAFT_DIRECTORY, ".seg")
    read_all(victim)
    must_be_repaired(world, victim, old)
    assert victim is not world.leader()
    for number in range(200):
        assert victim.machine().get(b"%d" % number) == world.leader().machine().get(b"%d" % number)


def read_all(node: Node) -> None:
    """As a client's reads do, until one meets damage."""
    for number in range(200):
        try:
            node.machine().get(b"%d" % number)
        except Damaged as error:
            node.groups.damaged(1, error)
            return
    raise AssertionError("nothing that was read is damaged")


def test_a_leaders_snapshot_that_has_rotted_before_it_is_sent() -> None:
    """It was sent again and again, and refused each time: the checksums were looked at by who received it, only."""
    world = World(limits=TINY, rules=SnapshotRules(entries_max=100), file_bytes_max=8_192)
    write(world, range(30), in_log=False)
    away = world.others(world.leader().number)[0]
    away.kill()
    write(world, range(400), in_log=False)
    victim = world.leader()
    old = victim.driver().me
    rot(victim.disk, RAFT_DIRECTORY, ".snap", newest=True)
    world.restart(away.number)
    must_be_repaired(world, victim, old)


def test_a_snapshot_that_has_rotted_before_a_start() -> None:
    """The process ended at every start, because its machine could not be restored."""
    world = World(limits=TINY, rules=SnapshotRules(entries_max=100), file_bytes_max=8_192)
    write(world, range(250), in_log=False)
    victim = world.others(world.leader().number)[0]
    old = victim.driver().me
    victim.kill()
    rot(victim.disk, RAFT_DIRECTORY, ".snap", newest=True)
    back = world.restart(victim.number)
    world.run(6.0)
    assert back.driver().me > old
    assert len({one.machine().digest() for one in world.nodes.values()}) == 1


def test_a_wiped_node_with_its_clock_set_back_hears_which_number_it_had() -> None:
    """Its member had a lower number than the one that was lost, so that no leader ever took it in."""
    world = World(limits=TINY)
    write(world, range(10))
    victim = world.others(world.leader().number)[0]
    victim.kill()
    world.restart(victim.number, SimDisk()).create(1, 500, Membership(()))
    world.run(3.0)
    assert member_id(victim.number, 500) in world.leader().driver().core.status().membership.voters
    world.nodes[victim.number].kill()
    world.replicas = repeat(70)
    back = world.restart(victim.number, SimDisk())
    back.create(1, 60, Membership(()))
    must_be_taken_in(world, back, member_id(victim.number, 501))


def must_be_taken_in(world: World, node: Node, member: int) -> None:
    world.run(6.0)
    assert node.driver().me == member
    assert member in world.leader().driver().core.status().membership.voters
    assert len({one.machine().digest() for one in world.nodes.values()}) == 1


def test_a_disk_that_confirmed_an_fsync_and_lost_it_is_found_by_the_leader() -> None:
    """The leader counted on what the member had acknowledged, and took its refusals for old news: it was fed nothing until
    somebody else led."""
    world = World()
    write(world, range(3))
    victim = world.others(world.leader().number)[0]
    old = victim.driver().me
    victim.disk.settle()
    victim.disk.faults = lambda call: Fault.LIE if call.operation == "sync" else None
    write(world, range(3, 6))
    acknowledged = next(one for one in world.leader().driver().core.status().followers if one.member == old).match
    disk = victim.disk
    victim.kill()
    disk.crash(Random(1))
    disk.faults = no_faults
    back = world.restart(victim.number, disk)
    assert back.driver().me == old
    assert back.driver().core.status().last < acknowledged
    must_be_repaired(world, back, old)
    assert back.groups.forgetful_members == 1
    assert any(
        f"acknowledged entry {acknowledged} of term" in one and "Its disk confirmed an fsync and lost" in one
        for one in world.findings
    )
