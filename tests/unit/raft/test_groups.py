"""Whole nodes, with real cores and stores, in one thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from unittest.mock import patch

import pytest

from node.peers.link import LinkLimits
from raft.core.errors import BadBytes, Damaged, NotLeader, RaftError, TooLarge, Unknown
from raft.core.membership import AddLearner, RemoveMember
from raft.core.messages import AppendReply, Entry, Membership, NodeId, member_id
from raft.core.settings import Settings
from raft.driver import Driver, SnapshotRules
from raft.groups import ROUND_GROUPS_MAX, SNAPSHOTS_FOR_ROOM_MAX, NoSuchGroup
from raft.store.store_limits import StoreLimits
from raft.transport import LETTER_BYTES, encode_batches
from storage.record import PAYLOAD_BYTES_MAX
from tests.raft_node.register import Outcome, put
from tests.sim.disk import Fault, SimDisk, fault_on
from tests.unit.raft.groups_world import DELAY_S, Answers, Node, World

SMALL = StoreLimits(segment_entries_max=64, log_files_kept=0, entries_kept=0, memory_bytes_max=4_096)


def digests(world: World, group: int = 1) -> set[str]:
    return {node.machine(group).digest() for node in world.nodes.values() if node.alive}


def test_what_is_proposed_in_one_round_is_committed_and_answered_in_order() -> None:
    world = World()
    leader = world.leader()
    first, second = leader.propose(put(b"a", b"1"), put(b"a", b"2")), leader.propose(put(b"a", b"3"))
    assert not first.told
    world.run(0.1)
    assert first.results == [[[Outcome(True, 1)], [Outcome(True, 2)]]]
    assert second.results == [[[Outcome(True, 3)]]]
    assert len(digests(world)) == 1


def test_a_round_asks_the_log_for_one_commit_and_sends_each_peer_one_letter() -> None:
    world = World(groups=20)
    for group in range(1, 21):
        world.leader(group)
    world.run(2.0)
    node = world.nodes[1]
    led = [group for group in range(1, 21) if node.driver(group).leads]
    assert len(led) > 1, "the leaders do not spread"
    commits, letters = node.log.statistics()["commits"], world.letters
    with patch.object(node.log, "schedule_commit") as scheduled:
        answers = [node.propose(put(b"k", b"v"), group=group) for group in led]
        world.loop.run_soon()
    assert scheduled.call_count == 0, "it is made in the round, and the loop need not come to it again"
    assert node.log.statistics()["commits"] == commits + 1
    assert world.letters == letters + 2
    world.run(0.1)
    assert all(answer.results for answer in answers)


def test_a_follower_answers_in_the_turn_in_which_it_reads_and_before_it_applies() -> None:
    world = World()
    leader = world.leader()
    leader.propose(put(b"a", b"1"))
    world.run(3 * DELAY_S)  # committed, and the followers will hear of it with the next entry
    follower = world.others(leader.number)[0]
    machine, order, carry = follower.machine(), [], world.carry
    apply = machine.apply

    def applied(entries: Sequence[Entry]) -> Sequence[list[Outcome]]:
        order.append(f"applies {[entry.index for entry in entries]}")
        return apply(entries)

    def sent(sender: Node, to: NodeId, letter: bytes) -> None:
        if sender is follower:
            order.append(f"answers, durable up to {follower.store.group(1).last_index()}")
        carry(sender, to, letter)

    machine.apply = applied  # type: ignore[method-assign]
    world.carry = sent  # type: ignore[method-assign]
    before = follower.store.group(1).last_index()
    leader.propose(put(b"a", b"2"))
    world.run(1.5 * DELAY_S)
    assert order == [f"answers, durable up to {before + 1}", f"applies [{before}]"]


def noting(order: list[str]) -> Callable[[Callable[[], None]], None]:
    def around(run: Callable[[], None]) -> None:
        run()
        order.append("behind")

    return around


def test_whoever_listens_is_called_behind_the_round_in_which_others_were_told() -> None:
    world = World()
    leader = world.leader()
    order: list[str] = []
    leader.groups.around_round = noting(order)
    leader.groups.propose(1, [put(b"a", b"1")], lambda results, error: order.append("told"))
    world.run(3 * DELAY_S)
    assert order[-2:] == ["told", "behind"]


def test_a_group_of_one_member_is_answered_in_the_round_that_took_the_proposal_and_needs_no_other() -> None:
    world = World(count=1)
    leader = world.leader()
    world.run(0.1)
    order: list[str] = []
    leader.groups.around_round = noting(order)
    leader.groups.propose(1, [put(b"a", b"1")], lambda results, error: order.append("told"))
    world.run(0.1)
    assert order == ["told", "behind"]
    assert leader.driver(1).core.deadline is None, "there is nobody to be told of the commit"


def test_what_is_proposed_by_who_was_answered_has_a_round_of_its_own() -> None:
    world = World(count=1)
    leader = world.leader()
    world.run(0.1)
    order: list[str] = []
    leader.groups.around_round = noting(order)

    def told(results: Sequence[object] | None, error: RaftError | None) -> None:
        order.append("told")
        if order.count("told") < 3:
            leader.groups.propose(1, [put(b"a", b"1")], told)

    leader.groups.propose(1, [put(b"a", b"1")], told)
    world.run(0.1)
    assert order == ["told", "behind"] * 3


def test_idle_groups_send_nothing_but_the_nodes_signs_of_life() -> None:
    world = World(groups=50)
    for group in range(1, 51):
        world.leader(group)
    world.run(3.0)
    before = world.letters
    world.run(10.0)
    pings_and_pongs = 3 * 2 * 2 * 10 / 0.25
    assert world.letters - before <= pings_and_pongs * 1.05
    assert all(driver.core.deadline is None for node in world.nodes.values() for driver in node.groups.drivers())


def test_a_killed_leader_is_followed_by_another_within_the_election_time() -> None:
    world = World()
    leader = world.leader()
    answer = leader.propose(put(b"a", b"1"))
    world.run(0.1)
    assert answer.results
    leader.kill()
    began = world.loop.time()
    follower = world.leader()
    assert follower is not leader
    assert world.loop.time() - began < 1.0
    follower.propose(put(b"a", b"2"))
    world.run(0.1)
    assert {node.machine().get(b"a") for node in world.others(leader.number)} == {(2, b"2")}


def test_a_restarted_node_catches_up_from_its_disk_and_the_others() -> None:
    world = World()
    leader = world.leader()
    for number in range(20):
        leader.propose(put(b"%d" % number, b"x"))
    world.run(0.1)
    victim = world.others(leader.number)[0]
    victim.kill()
    for number in range(20):
        leader.propose(put(b"%d" % number, b"y"))
    world.run(0.5)
    world.restart(victim.number)
    world.run(2.0)
    assert len(digests(world)) == 1


def test_who_proposes_to_a_follower_is_told_who_leads() -> None:
    world = World()
    leader = world.leader()
    follower = world.others(leader.number)[0]
    answer = follower.propose(put(b"a", b"1"))
    world.run(0.1)
    (error,) = answer.errors
    assert isinstance(error, NotLeader)
    assert error.leader == leader.driver().me
    assert follower.driver().leader_node == leader.number


def test_a_leader_that_is_cut_off_tells_who_waits_that_it_does_not_know() -> None:
    world = World()
    leader = world.leader()
    world.cut = lambda sender, receiver: leader.number in (sender, receiver)
    world.run(0.3)
    answer, read = leader.propose(put(b"a", b"1")), leader.read()
    world.run(3.0)
    (error,) = answer.errors
    assert isinstance(error, Unknown)
    assert isinstance(read[0], NotLeader)
    assert not leader.driver().leads
    other = next(node for node in world.others(leader.number) if node.driver().leads)
    other.propose(put(b"a", b"2"))
    world.run(0.1)
    world.cut = lambda sender, receiver: False
    world.run(3.0)
    assert len(digests(world)) == 1
    assert leader.machine().get(b"a") == (1, b"2")


def test_reads_of_one_round_are_answered_behind_what_was_committed_before() -> None:
    world = World()
    leader = world.leader()
    leader.propose(put(b"a", b"1"))
    reads = [leader.read() for _ in range(5)]
    world.run(0.1)
    assert reads == [[None]] * 5
    assert leader.machine().get(b"a") == (1, b"1")


def test_a_read_of_a_follower_is_sent_to_the_leader() -> None:
    world = World()
    leader = world.leader()
    read = world.others(leader.number)[0].read()
    world.run(0.1)
    (error,) = read
    assert isinstance(error, NotLeader)
    assert error.leader == leader.driver().me


@pytest.mark.parametrize("in_log", [False, True])
def test_snapshots_and_a_follower_that_was_away_for_longer_than_the_log(in_log: bool) -> None:
    world = World(rules=SnapshotRules(entries_max=50), limits=SMALL, file_bytes_max=8_192)
    leader = world.leader()
    victim = world.others(leader.number)[0]
    victim.kill()
    for number in range(400):
        leader.propose(put(b"%d" % (number % 37), b"value %d" % number, in_log=in_log))
        world.run(0.01)
    assert leader.driver().core.status().snapshot >= 350
    world.restart(victim.number)
    world.run(5.0)
    assert len(digests(world)) == 1
    assert world.nodes[victim.number].machine().get(b"1") == leader.machine().get(b"1")
    world.nodes[victim.number].kill()
    world.restart(victim.number)  # and what was installed is what it begins with
    world.run(2.0)
    assert len(digests(world)) == 1


def test_a_snapshot_stands_for_what_was_applied_and_not_for_what_the_log_has_besides() -> None:
    """The entries in between are not committed yet; whoever begins with the snapshot is given them afterwards."""
    world = World()
    leader = world.leader()
    leader.propose(put(b"a", b"1"))
    world.run(0.1)
    driver = leader.driver()
    applied = driver.applied
    world.cut = lambda sender, receiver: leader.number in (sender, receiver)
    leader.propose(put(b"a", b"2"), put(b"a", b"3"))
    world.run(0.1)
    assert leader.store.group(1).last_index() == applied + 2
    driver.take_snapshot()
    world.run(0.1)
    assert (leader.store.group(1).snapshot().index, driver.applied) == (applied, applied)
    world.cut = lambda sender, receiver: False
    world.run(3.0)
    leader.kill()
    world.restart(leader.number)
    world.run(3.0)
    assert len(digests(world)) == 1
    assert [node.machine().get(b"a") for node in world.nodes.values()] == [(3, b"3")] * 3


def test_a_slow_receiver_of_a_snapshot_is_not_sent_back_to_its_begin_by_every_new_one() -> None:
    """A snapshot is taken every 50 ms, and to send one takes 320."""
    settings = Settings(snapshot_chunk_bytes=32, snapshot_window_chunks=1)
    world = World(rules=SnapshotRules(entries_max=50), limits=SMALL, file_bytes_max=8_192, settings=settings)
    leader = world.leader()
    victim = world.others(leader.number)[0]
    victim.kill()
    number = 0

    def go_on(milliseconds: int) -> None:
        nonlocal number
        for _ in range(milliseconds):
            number += 1
            leader.propose(put(b"%d" % (number % 37), b"value %d" % number))
            world.run(0.001)

    go_on(300)
    world.restart(victim.number)
    go_on(1_000)
    status = leader.driver().core.status()
    assert min(follower.match for follower in status.followers) > number - 100, "one never received its snapshot"


@pytest.mark.parametrize(("groups", "seconds"), [(1, 0.2), (3, 0.6)])
def test_all_snapshots_of_a_node_together_are_sent_at_its_pace(groups: int, seconds: float) -> None:
    settings = Settings(snapshot_chunk_bytes=500)
    world = World(groups=groups, limits=SMALL, settings=settings, rules=SnapshotRules(20), snapshot_bytes_per_s=100_000)
    leader, victim = world.nodes[1], world.nodes[2]
    world.run(0.5)
    for group in range(1, groups + 1):
        leads = world.leader(group)
        if leads is not leader:
            leads.groups.transfer(group, leader.driver(group).me)
    world.run(0.5)
    victim.kill()
    for group in range(1, groups + 1):
        for number in range(40):
            leader.propose(put(b"%d" % number, bytes(500)), group=group)
            world.run(0.01)
    node, sent = world.restart(victim.number), 0.0
    while min(node.driver(group).applied for group in range(1, groups + 1)) < 40:
        world.run(0.01)
        sent += 0.01
    assert seconds <= sent <= seconds * 1.5


def test_a_wiped_member_returns_as_a_learner_and_is_promoted() -> None:
    world = World()
    leader = world.leader()
    for number in range(30):
        leader.propose(put(b"%d" % number, b"x"))
    world.run(0.1)
    victim = world.others(leader.number)[0]
    old = victim.driver().me
    victim.kill()
    leader.propose(put(b"a", b"while it was away"))
    world.run(0.5)
    node = world.restart(victim.number, SimDisk())
    new = member_id(victim.number, 77)
    node.create(1, 77, Membership(()))
    world.run(5.0)
    assert new in leader.driver().core.status().membership.voters
    assert old not in leader.driver().core.status().membership.voters
    assert len(digests(world)) == 1


def test_a_leader_that_is_back_at_once_with_an_empty_disk_is_not_followed_any_more() -> None:
    world = World()
    leader = world.leader()
    leader.propose(put(b"a", b"1"))
    world.run(0.1)
    leader.kill()
    world.restart(leader.number, SimDisk()).create(1, 77, Membership(()))
    world.run(5.0)
    assert world.leader().number != leader.number
    assert member_id(leader.number, 77) in world.leader().driver().core.status().membership.voters
    assert len(digests(world)) == 1


def test_the_membership_is_changed_and_the_change_is_answered() -> None:
    world = World()
    leader = world.leader()
    victim = world.others(leader.number)[0].driver().me
    removed, added = Answers(), Answers()
    leader.groups.change(1, RemoveMember(victim), removed)
    world.run(0.1)
    assert removed.results == [[None]]
    leader.groups.change(1, AddLearner(member_id(9, 1)), added)
    world.run(0.1)
    assert added.results == [[None]]
    assert leader.driver().core.status().membership.learners == (member_id(9, 1),)


def test_a_leadership_is_handed_over() -> None:
    world = World()
    leader = world.leader()
    follower = world.others(leader.number)[0]
    leader.groups.transfer(1, follower.driver().me)
    world.run(0.5)
    assert world.leader() is follower
    assert not leader.driver().leads


def test_a_disk_that_fails_ends_the_node_and_tells_who_waits() -> None:
    world = World()
    leader = world.leader()
    leader.disk.faults = fault_on("sync", Fault.EIO)
    first = leader.propose(put(b"a", b"1"))
    world.loop.run_for(0.1)
    second = leader.propose(put(b"a", b"2"))
    world.loop.run_for(0.1)
    assert leader.groups.failed is not None
    assert first.errors and second.errors
    assert leader.failures


def test_a_member_that_cannot_read_its_log_becomes_another_one_and_is_repaired_by_the_others() -> None:
    world = World(count=5, limits=SMALL)
    leader = world.leader()
    for number in range(300):
        leader.propose(put(b"%d" % number, bytes(100)))
        world.run(0.002)
    victim = world.others(leader.number)[0]
    other = next(node for node in world.others(victim.number) if node is not leader)
    old = victim.driver().me
    leader.groups.transfer(1, old)
    world.run(0.5)
    assert victim.driver().leads
    entry = put(b"100", bytes(100))
    logs = [f"log/{name}" for name in victim.disk.list("log") if name.endswith(".log")]
    log = next(name for name in logs if entry in victim.disk.content(name))
    victim.disk.flip_bit(log, 8 * victim.disk.content(log).index(entry))
    other.kill()
    world.restart(other.number, SimDisk()).create(1, 5, Membership(()))  # the leader has to read its whole log for it
    world.run(6.0)
    assert [error.index > 0 for error in world.damaged] == [True]
    new = victim.driver().me
    assert new > old
    voters = world.leader().driver().core.status().membership.voters
    assert new in voters
    assert old not in voters
    assert len(digests(world)) == 1


def test_who_follows_a_member_that_was_given_up_is_told_and_the_new_one_counts_when_it_votes() -> None:
    """Nothing is asked of the group meanwhile, and the leader's node answers: nobody would suspect it."""
    world = World()
    leader = world.leader()
    leader.propose(put(b"a", b"1"))
    world.run(1.0)
    old = leader.driver().me
    leader.groups.damaged(1, Damaged("a segment is damaged"))
    world.run(5.0)
    new = leader.driver().me
    assert new > old
    assert world.leader().number != leader.number
    voters = world.leader().driver().core.status().membership.voters
    assert (new in voters, old in voters) == (True, False)
    assert world.repaired == [(leader.number, new)]
    assert len(digests(world)) == 1


def test_what_a_stranger_says_is_refused() -> None:
    world = World()
    node = world.nodes[1]
    with pytest.raises(BadBytes):
        node.groups.receive(2, b"\x01garbage")
    with pytest.raises(BadBytes):
        node.groups.receive(2, b"")
    with pytest.raises(NoSuchGroup, match="group 99"):
        node.propose(b"x", group=99)


def test_no_node_speaks_for_a_member_of_another() -> None:
    world = World()
    node = world.nodes[1]
    me, other = node.driver().me, world.nodes[3].driver().me
    (letter,) = encode_batches([(1, [AppendReply(me, other, 1, True, 1, 1)])])
    with pytest.raises(BadBytes, match="node 2 sends what member"):
        node.groups.receive(2, letter)
    node.groups.receive(3, letter)


def test_what_is_for_a_member_of_another_node_is_refused_and_ends_no_member_here() -> None:
    """A node that was told a wrong address speaks to somebody else: that one's member is not an old copy of the other's."""
    world = World()
    node, other = world.nodes[1], world.nodes[3].driver().me
    for to in (world.nodes[2].driver().me, member_id(2, 99)):
        (letter,) = encode_batches([(1, [AppendReply(to, other, 1, True, 1, 1)])])
        with pytest.raises(BadBytes, match="node 3 sends what member"):
            node.groups.receive(3, letter)
    world.run(0.1)
    assert world.damaged == []


def test_a_command_that_no_letter_could_carry_is_refused_and_others_go_on() -> None:
    """It went to all nodes before anybody's log was asked: beyond the size of a record each of them failed, and beyond the size
    of a message between nodes the stream ended whenever it was sent."""
    world = World(settings=Settings(entry_bytes_max=1_000))
    leader = world.leader()
    large, others = leader.propose(put(b"a", bytes(1_000))), leader.propose(*[put(b"a", bytes(900))] * 5)
    world.run(0.2)
    assert [type(error) for error in large.errors] == [TooLarge]
    assert "at most 1000" in str(large.errors[0])
    assert len(others.results[0]) == 5
    assert len(digests(world)) == 1


def test_the_largest_entry_fits_into_a_message_between_nodes() -> None:
    limits = LinkLimits()
    assert Settings().entry_bytes_max + LETTER_BYTES + limits.write_bytes < limits.message_bytes_max
    assert Settings().entry_bytes_max <= PAYLOAD_BYTES_MAX // 2


def test_a_removed_group_answers_nobody_and_closes_who_waits() -> None:
    world = World(groups=2)
    leader = world.leader(2)
    answer = leader.propose(put(b"a", b"1"), group=2)
    leader.groups.remove(2)
    assert answer.errors
    world.run(1.0)
    with pytest.raises(NoSuchGroup):
        leader.propose(put(b"a", b"1"), group=2)


def test_a_group_that_is_removed_by_who_was_answered_asks_for_no_round_and_no_time() -> None:
    world = World(groups=2)
    leader = world.leader(2)
    driver, told = leader.driver(2), []

    def removed(results: object, error: RaftError | None) -> None:
        told.append((results, error))
        leader.groups.remove(2)

    leader.groups.propose(2, [put(b"a", b"1")], removed)
    world.run(3 * DELAY_S)
    assert told
    assert driver.core.deadline is not None
    assert driver.heap_deadline is None and not driver.waking


def test_a_node_that_is_added_is_asked_for_a_sign_of_life_without_waiting_for_one_of_its_own() -> None:
    world = World(count=1)
    asked: list[NodeId] = []
    world.carry = lambda sender, to, letter: asked.append(to)  # type: ignore[method-assign]
    world.run(5.0)
    world.nodes[1].groups.add_node(2)
    world.run(0.001)
    assert asked == [2]


def test_a_mistake_in_a_round_ends_the_nodes_part() -> None:
    world = World()
    leader = world.leader()
    answer = leader.propose(put(b"a", b"1"))
    with patch.object(Driver, "begin", side_effect=ZeroDivisionError), pytest.raises(ZeroDivisionError):
        world.run(0.1)
    leader.groups.fail("and it fails once more")
    assert leader.failures == ["a fault of this node: ZeroDivisionError()"]
    assert answer.errors


def test_a_node_on_an_old_copy_of_its_disk_gives_up_the_member_that_was_replaced_since() -> None:
    """Found by the simulator (seed 329): the leader fed a member that the copy knew nothing of, and nobody answered."""
    world = World(limits=SMALL)
    leader = world.leader()
    leader.propose(put(b"k", b"1"))
    world.run(0.5)
    victim = world.others(leader.number)[0]
    copy = victim.disk.copy()
    victim.kill()
    world.restart(victim.number, SimDisk()).create(1, 5, Membership(()))
    world.run(3.0)
    later = world.nodes[victim.number].driver().me
    assert later in leader.driver().core.status().membership.voters
    world.nodes[victim.number].kill()
    back = world.restart(victim.number, copy)
    assert back.driver().me < later, "the copy has what lived here before"
    world.run(6.0)
    voters = leader.driver().core.status().membership.voters
    assert len(voters) == 3
    assert back.driver().me in voters
    assert back.driver().me > later
    assert len(digests(world)) == 1


def test_what_many_groups_say_leaves_in_portions_so_that_others_work_meanwhile() -> None:
    world = World(groups=4 * ROUND_GROUPS_MAX)
    world.run(1.0)
    node = world.leader(1)
    led = [driver.group for driver in node.groups.drivers() if driver.leads]
    answers = [node.propose(put(b"key", b"value"), group=group) for group in led]
    commits, sent_before = node.log.statistics()["commits"], world.letters
    world.loop.run_soon()
    portions = -(-len(led) // ROUND_GROUPS_MAX)
    assert portions > 1, f"only {len(led)} groups are led by one node"
    assert world.letters - sent_before >= 2 * portions, f"{len(led)} groups spoke in fewer than {portions} portions"
    assert node.log.statistics()["commits"] == commits + 1, "portions that follow each other share one"
    world.run(0.1)
    assert all(answer.results for answer in answers)


def test_a_few_groups_at_a_time_give_room() -> None:
    world = World(groups=2 * SNAPSHOTS_FOR_ROOM_MAX)
    with patch.object(Driver, "give_room", side_effect=[False, *[True] * SNAPSHOTS_FOR_ROOM_MAX]) as asked:
        world.nodes[1].groups.give_room()
    assert asked.call_count == 1 + SNAPSHOTS_FOR_ROOM_MAX
