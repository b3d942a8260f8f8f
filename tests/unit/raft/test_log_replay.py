"""Whatever happens to a node, its groups are afterwards what they were, or say that they are not."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from raft.core.messages import Membership, member_id
from tests.unit.raft.store_world import TINY, World, cut_off

GROUPS = (7, 8, 9)


class Walk:
    """Random operations on a few groups of one node, and on a donor that is always a little ahead."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        limits = replace(TINY, entries_kept=seed % 3, log_files_kept=seed // 3 % 3)
        self.world = World(limits=limits).open()
        self.committed = dict.fromkeys(GROUPS, 0)
        self.term = dict.fromkeys(GROUPS, 1)
        for group in GROUPS:
            self.world.create(group)
        self.world.settle()

    def step(self) -> None:
        random, world = self.random, self.world
        group = random.choice(GROUPS)
        if world.history[group][-1][1] is None:
            world.create(group)
            self.committed[group], self.term[group] = 0, 1
            return
        choice = random.random()
        if choice < 0.45:
            self.append(group)
        elif choice < 0.53:
            self.term[group] += 1
            world.facts(group, self.term[group], random.choice((0, member_id(2, 1))))
        elif choice < 0.68:
            world.settle()
            self.commit(group)
        elif choice < 0.78:
            self.snapshot(group)
        elif choice < 0.81:
            self.install(group)
        elif choice < 0.86:
            world.store.tick(1_000_000)
        elif choice < 0.87:
            world.remove(group)
        elif choice < 0.92:
            world.check_now()
        elif choice < 0.96:
            self.restart(crash=True)
        else:
            self.restart(crash=False)

    def commit(self, group: int) -> None:
        self.committed[group] = self.random.randint(self.committed[group], self.world.now(group).last)

    def append(self, group: int) -> None:
        random, now = self.random, self.world.now(group)
        first = now.last + 1
        if random.random() < 0.2 and now.last > self.committed[group]:
            first = random.randint(self.committed[group] + 1, now.last)
            self.term[group] += 1
        elif random.random() < 0.1:
            self.term[group] += 1
        membership = None
        if random.random() < 0.15:
            membership = Membership((member_id(1, 1),), (member_id(2, random.randrange(9)),))
        datas = [random.randbytes(random.choice((0, 3, 30, 90))) for _ in range(random.randint(1, 6))]
        self.world.append(group, first, self.term[group], datas, membership)

    def snapshot(self, group: int) -> None:
        self.world.settle()
        now = self.world.now(group)
        low = now.snapshot.index + 1
        if low > self.committed[group]:
            return
        index = self.random.randint(low, self.committed[group])
        candidates = sorted({*now.live, *range(now.first, index + 1)})
        chance = self.random.choice((0.0, 0.2, 0.9))
        live = [one for one in candidates if self.random.random() < chance]
        assert self.world.snapshot(group, index, live, self.random.randbytes(self.random.choice((0, 10, 400))))

    def install(self, group: int) -> None:
        self.world.settle()
        now = self.world.now(group)
        donor = World(node=2).open()
        donor.create(group)
        index = self.committed[group] + self.random.randint(1, 12)
        self.term[group] += 1
        donor.append(group, 1, self.term[group], [self.random.randbytes(20) for _ in range(index)])
        donor.settle()
        live = [one for one in range(1, index + 1) if self.random.random() < 0.4]
        assert donor.snapshot(group, index, live, self.random.randbytes(300))
        donor.settle()
        assert self.world.install(group, donor), (now, self.world.findings)
        self.committed[group] = index

    def restart(self, crash: bool) -> None:
        world = self.world
        durable = world.log.durable
        if crash:
            world.disk.crash(self.random)
        else:
            world.disk.kill()
        opened = world.reopened()
        world.check_recovered(durable, opened)
        self.world = opened
        for group in GROUPS:
            if opened.history[group][-1][1] is not None:
                assert opened.now(group).last >= self.committed[group]
                now = opened.now(group)  # of an earlier group, perhaps, whose removal was lost
                self.committed[group] = max(self.committed[group], now.snapshot.index)
                terms = (now.facts.term, now.snapshot.term, *(term for term, _, _ in now.entries))
                self.term[group] = max(self.term[group], *terms) + 1
        assert not world.findings, world.findings


@pytest.mark.parametrize("seed", range(60))
def test_groups_are_what_they_were(seed: int) -> None:
    walk = Walk(seed)
    for _ in range(120):
        walk.step()
    walk.restart(crash=True)
    walk.world.check_now()


def test_a_start_can_be_cut_off_anywhere() -> None:
    """Recovery is idempotent: power may go at each of its steps."""
    for seed in range(4):
        walk = Walk(100 + seed)
        for _ in range(80):
            walk.step()
        disk, durable = walk.world.disk, walk.world.log.durable
        disk.crash(Random(seed))
        for call in range(1, 10_000):
            twin = disk.copy()
            if cut_off(walk.world, twin, call):
                break
            twin.faults = lambda call: None
            twin.crash(Random(call))
            opened = World(
                twin, walk.world.limits, history=dict(walk.world.history), replicas=walk.world.replicas
            ).open()
            walk.world.check_recovered(durable, opened)
        assert call > 10
