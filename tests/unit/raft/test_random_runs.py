"""Members lose messages, and what is not fsynced, at random: they never contradict each other, and go on when they may."""

from __future__ import annotations

from random import Random

import pytest

from raft.core.errors import BadChange, Busy, ChangePending, NotLeader
from raft.core.membership import AddLearner, Promote, RemoveMember, members_of
from raft.core.messages import MemberId, Membership, Message, NodeId, member_id, node_of
from raft.core.ready import Role
from raft.core.settings import Settings
from tests.unit.raft.world import World

SEEDS = 200
STEPS = 2500
TINY = Settings(
    append_bytes_max=100,
    window_bytes_max=300,
    window_messages_max=4,
    uncommitted_bytes_max=400,
    apply_bytes_max=100,
    snapshot_chunk_bytes=16,
    promote_lag_entries=2,
)


class Chaos:
    """One seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.world = World(TINY, self.random.random, self.post)
        self.network: list[Message] = []
        self.cut: set[tuple[NodeId, NodeId]] = set()
        self.loss = self.random.choice([0.0, 0.0, 0.05, 0.2])
        self.again = self.random.choice([0.0, 0.1])
        self.shuffle = self.random.choice([0.0, 0.1, 1.0])
        self.crashes = self.random.choice([0.0, 0.01, 0.03])
        self.proposed = 0
        self.tokens = 0
        self.spare = 0
        voters = self.random.choice([1, 2, 3, 3, 3, 5])
        members = tuple(member_id(node, 1) for node in range(1, voters + 1))
        for member in members:
            self.world.add(member, Membership(members))
        if voters < 5 and self.random.random() < 0.5:
            self.spare = member_id(voters + 1, 1)
            self.world.add(self.spare, Membership(()))
        self.tell_trust()

    def post(self, message: Message) -> None:
        if (node_of(message.sender), node_of(message.to)) in self.cut or self.random.random() < self.loss:
            return
        self.network.append(message)
        if self.random.random() < self.again:
            self.network.append(message)

    def tell_trust(self) -> None:
        """The failure detectors of nodes: both directions are needed."""
        for member, one in self.world.members.items():
            if one.core is None:
                continue
            for other, another in self.world.members.items():
                if other == member:
                    continue
                a, b = node_of(member), node_of(other)
                alive = another.core is not None and (a, b) not in self.cut and (b, a) not in self.cut
                (one.core.trust if alive else one.core.suspect)(b, self.world.now)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            self.one_step()

    def one_step(self) -> None:
        dice = self.random.random()
        if dice < self.crashes:
            self.crash_or_start()
        elif dice < self.crashes + 0.01:
            self.partition()
        elif dice < self.crashes + 0.02:
            self.tell_trust()  # the failure detectors notice late what was cut or crashed
        elif dice < 0.14:
            self.ask()
        elif dice < 0.44:
            self.write()
        elif dice < 0.49:
            self.world.now += self.random.random() * 0.2
            self.tick()
        else:
            self.deliver()
        for member in self.running():
            if self.random.random() < 0.8:
                self.world.take_ready(member)

    def running(self) -> list[MemberId]:
        return [member for member, one in self.world.members.items() if one.core is not None]

    def members(self) -> list[MemberId]:
        """Those that run, without those that were removed: they may not know, and go on asking for votes in vain."""
        statuses = [self.world.members[member].running().status() for member in self.running()]
        leader = max(statuses, key=lambda one: (one.role is Role.LEADER, one.term))
        if leader.role is not Role.LEADER:
            return self.running()
        leaders = {one.member for one in statuses if one.role is Role.LEADER}
        belong = leaders | set(members_of(leader.membership))
        return [one for one in sorted(belong) if self.world.members[one].core is not None]

    def tick(self) -> None:
        for member in self.running():
            core = self.world.members[member].running()
            if core.deadline is not None and core.deadline <= self.world.now:
                core.tick(self.world.now)

    def deliver(self) -> None:
        if self.network:
            index = self.random.randrange(len(self.network)) if self.random.random() < self.shuffle else 0
            message = self.network.pop(index)
            core = self.world.members[message.to].core
            if core is not None:
                core.step(message, self.world.now)

    def write(self) -> None:
        waiting = [member for member in self.running() if self.world.members[member].writes]
        if waiting:
            self.world.write(self.random.choice(waiting))

    def crash_or_start(self) -> None:
        one = self.world.members[self.random.choice(list(self.world.members))]
        if one.core is None:
            self.world.start(one.id)
        else:
            for write in list(one.writes)[: self.random.randrange(3)]:  # fsynced, but nobody was told
                if write.install is not None:
                    break
                one.store.write(write.ready.facts, write.ready.entries)
            for token in [token for token, (asked, _) in self.world.reads.items() if asked == one.id]:
                del self.world.reads[token]
            one.crash()

    def partition(self) -> None:
        nodes = [node_of(member) for member in self.world.members]
        self.cut = {(a, b) for a in nodes for b in nodes if a != b and self.random.random() < 0.3}
        if self.random.random() < 0.5:
            self.cut = set()

    def ask(self) -> None:
        member = self.random.choice(self.running() or [0])
        if not member:
            return
        core = self.world.members[member].running()
        dice = self.random.random()
        try:
            if dice < 0.5:
                self.proposed += 1
                core.propose(
                    [b"%d.%d" % (self.proposed, n) for n in range(self.random.choice([1, 1, 5]))], self.world.now
                )
            elif dice < 0.7:
                self.tokens += 1
                self.world.reads[self.tokens] = (member, self.world.ledger.committed)
                try:
                    core.read(self.tokens, self.world.now)
                except NotLeader:
                    del self.world.reads[self.tokens]
            elif dice < 0.8:
                self.world.save_snapshot(member, self.random.choice([0, 3]))
            elif dice < 0.87:
                voters = core.status().membership.voters
                core.transfer(self.random.choice(voters or (member,)), self.world.now)
            else:
                self.change(member)
        except (NotLeader, Busy, ChangePending, BadChange):
            pass

    def change(self, member: MemberId) -> None:
        core = self.world.members[member].running()
        known = members_of(core.status().membership)
        other = self.spare or self.random.choice(list(self.world.members))
        if other not in known:
            core.change(AddLearner(other, self.random.random() < 0.7), self.world.now)
        elif other in core.status().membership.learners:
            core.change(Promote(other), self.world.now)
        elif len(known) > 2:
            core.change(RemoveMember(other), self.world.now)

    def heal(self) -> None:
        """Everybody runs and hears each other."""
        self.cut = set()
        self.loss = self.again = self.shuffle = self.crashes = 0.0
        for member, one in self.world.members.items():
            if one.core is None:
                self.world.start(member)
        self.tell_trust()

    def settle(self) -> None:
        """Until nobody has anything to do, not even later."""
        for _ in range(20_000):
            busy = bool(self.network)
            self.deliver()
            for member in self.running():
                busy = self.world.take_ready(member) is not None or busy
                while self.world.members[member].writes:
                    self.world.write(member)
                    busy = True
            if busy:
                continue
            deadlines = [self.world.members[member].running().deadline for member in self.members()]
            waiting = [deadline for deadline in deadlines if deadline is not None]
            if not waiting:
                return
            self.world.now = max(self.world.now, min(waiting))
            self.tick()
        raise AssertionError("the group does not come to rest")


@pytest.mark.parametrize("first", range(0, SEEDS, 20))
def test_nothing_is_ever_contradicted_and_a_healed_group_agrees_and_sleeps(first: int) -> None:
    for seed in range(first, first + 20):
        run_seed(seed)


def run_seed(seed: int) -> World:
    chaos = Chaos(seed)
    chaos.run(STEPS)
    chaos.world.check_logs()
    chaos.heal()
    chaos.settle()
    world = chaos.world
    world.check_logs()
    leaders = [one for one in world.members.values() if one.running().status().role is Role.LEADER]
    assert leaders, f"seed {seed}: nobody leads"
    leader = max(leaders, key=lambda one: one.running().status().term)
    index = leader.running().propose([b"the end"], world.now)[0]
    chaos.settle()
    for member in members_of(leader.running().status().membership):
        one = world.members[member]
        assert one.running().status().commit >= index, f"seed {seed}: {member} missed the end"
        assert one.applied == leader.applied, f"seed {seed}: {member} and {leader.id} applied different commands"
    assert not world.reads, f"seed {seed}: reads {sorted(world.reads)} were never answered"
    return world
