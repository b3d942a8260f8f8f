"""What a classic queue has after any end of the node: seeded work on tiny files, cut at any call of the disk.

Held against a model: what was confirmed and not acknowledged is there, once and in order; nothing is there that was not
published; after a clean stop the queue is what it was.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from broker.history_level import HistoryLevel
from broker.queues.queue_type import Outcome, Slice
from native.content import messages
from tests.sim.disk import Call, Fault
from tests.unit.classic.classic_world import World, record_of

NAMES = ("a", "b", "c")


class PowerCut(BaseException):
    """The machine is off."""


@dataclass
class Model:
    """What one queue may and must have."""

    waiting: list[int] = field(default_factory=list)  # in order
    out: dict[int, Slice] = field(default_factory=dict)
    persistent: set[int] = field(default_factory=set)
    acknowledged: set[int] = field(default_factory=set)  # since the last tick; a crash may bring them back


class Story:
    """One seed's work."""

    def __init__(self, seed: int, history: HistoryLevel = HistoryLevel.BASIC) -> None:
        self.chance = random.Random(seed)
        self.world = World([record_of(name, number) for number, name in enumerate(NAMES, 1)], history=history)
        self.models = {name: Model() for name in NAMES}
        self.next = 0
        self.starts = 0
        self.paged = self.moved = self.stored = 0

    def body(self, number: int) -> bytes:
        """Some are large, so that they go to the store; some look like our own framing."""
        tail = (b"", b"x" * 30, b"y" * 150, bytes(64), b"\xff" * 70, (b"\x10\x01" + bytes(30)) * 3)[number % 6]
        return b"%d|" % number + tail

    def step(self) -> None:
        chance, world = self.chance, self.world
        action = chance.random()
        name = chance.choice(NAMES)
        model = self.models[name]
        if action < 0.35:
            self.publish()
        elif action < 0.55:
            self.take(name, chance.randrange(1, 6))
        elif action < 0.75 and model.out:
            self.settle(name, Outcome.ACKNOWLEDGED, chance.randrange(1, 5))
        elif action < 0.8 and model.out:
            self.settle(name, Outcome.REQUEUED, chance.randrange(1, 3))
        elif action < 0.805:
            self.purge(name)
        elif action < 0.9:
            world.loop.run_soon()
        else:
            self.tick()
        self.paged += any(level.delta_count for queue in world.queues.values() for level in queue.levels)
        self.moved += any(
            segment.body_size for q in world.queues.values() for segment in q.backing.index.segments.values()
        )
        self.stored += bool(world.kind._storage.store.contents)

    def publish(self) -> None:
        chance = self.chance
        count, persistent = chance.choice((1, 1, 1, 2, 4)), chance.random() < 0.85
        names = chance.sample(NAMES, chance.choice((1, 1, 2, 3)))
        numbers = list(range(self.next, self.next + count))
        self.next += count
        for name in names:
            self.models[name].waiting += numbers
            if persistent:
                self.models[name].persistent.update(numbers)
        confirm = numbers[0] if chance.random() < 0.7 else None
        self.world.publish(names, [self.body(number) for number in numbers], persistent, confirm)

    def tick(self) -> None:
        """What was acknowledged or purged before it is in the log behind it, and stays away whatever happens. What could not be
        read was not purged: it is there again after the next start."""
        log = self.world.log
        self.world.tick()
        if log.failed is None and not log.gathering_bytes and not self.world.kind.findings:
            for model in self.models.values():
                model.acknowledged.clear()

    def take(self, name: str, count: int) -> None:
        model = self.models[name]
        for _ in range(count):
            got = self.world.get(name)
            if got is None:
                assert not model.waiting
                return
            body = messages(got.content[got.piece.position :], 0, 1)[0][1]
            number = model.waiting.pop(0)
            assert body == self.body(number), self.world.kind.findings
            model.out[number] = got.piece

    def purge(self, name: str) -> None:
        model = self.models[name]
        model.acknowledged.update(model.waiting)
        model.waiting.clear()
        self.world.queues[name].purge(self.world.now)

    def settle(self, name: str, outcome: Outcome, count: int) -> None:
        model = self.models[name]
        for number in self.chance.sample(sorted(model.out), min(count, len(model.out))):
            piece = model.out.pop(number)
            if outcome is Outcome.ACKNOWLEDGED:
                model.acknowledged.add(number)
            else:
                model.waiting = sorted([*model.waiting, number])
            self.world.queues[name].settle(piece, outcome, self.world.now)

    def crash(self) -> None:
        self.world.disk.faults = lambda call: None
        if self.chance.random() < 0.3:
            self.world.disk.kill()
        else:
            self.world.disk.crash(self.chance)
        self.world.start()
        self.starts += 1
        assert not self.world.kind.findings, self.world.kind.findings
        for name, model in self.models.items():
            found = self.found(name)
            alive = {*model.waiting, *model.out} & model.persistent
            must = {number for number in alive if number in self.world.confirmed.accepted}
            may = alive | (model.acknowledged & model.persistent)
            assert must <= set(found), f"{name} lost {sorted(must - set(found))} after start {self.starts}"
            assert set(found) <= may, f"{name} has {sorted(set(found) - may)} after start {self.starts}"
            assert all(marked for _, marked in self.world.waiting(name)), "survivors of a crash are marked"
            # Whatever is not there now was not confirmed, and will not come back.
            self.models[name] = Model(found, {}, set(found), set())

    def clean_restart(self) -> None:
        self.world.restart()
        self.starts += 1
        assert not self.world.kind.findings, self.world.kind.findings
        for name, model in self.models.items():
            expected = sorted((set(model.waiting) | set(model.out)) & model.persistent)
            assert self.found(name) == expected, f"{name} after clean start {self.starts}"
            assert self.world.queues[name].ready_count == len(expected)
            self.models[name] = Model(expected, {}, set(expected), set())

    def found(self, name: str) -> list[int]:
        bodies = [body for body, _ in self.world.waiting(name)]
        numbers = [int(body.partition(b"|")[0]) for body in bodies]
        assert numbers == sorted(set(numbers)), f"{name} has {numbers}"
        assert [self.body(number) for number in numbers] == bodies
        return numbers


def give_back(story: Story) -> None:
    """What sessions do before a clean stop."""
    for name, model in story.models.items():
        for number, piece in model.out.items():
            story.world.queues[name].settle(piece, Outcome.REQUEUED, story.world.now)
            model.waiting.append(number)
        model.out.clear()
        model.waiting.sort()


@pytest.mark.parametrize("seed", range(25))
def test_nothing_confirmed_is_lost_and_nothing_is_invented_whenever_the_power_goes(seed: int) -> None:
    story = Story(seed)
    live_and_die(story, 6)
    assert story.paged and story.starts == 6


def live_and_die(story: Story, times: int) -> None:
    """Lives that end in order or with the power."""
    for _ in range(times):
        life = story.chance.random()
        if life < 0.3:
            for _ in range(story.chance.randrange(150)):
                story.step()
            give_back(story)
            story.clean_restart()
            continue
        cut_at = story.world.disk.calls + story.chance.randrange(1, 250)

        def cut(call: Call, at: int = cut_at) -> Fault | None:
            if call.number >= at:
                raise PowerCut
            return None

        story.world.disk.faults = cut
        with suppress(PowerCut):
            for _ in range(400):
                story.step()
        story.crash()


def test_the_stories_see_paging_moving_out_and_the_store() -> None:
    story = Story(7)
    for _ in range(500):
        story.step()
    assert story.paged and story.moved and story.stored


@pytest.mark.parametrize("seed", range(6))
def test_a_start_that_is_cut_off_changes_nothing(seed: int) -> None:
    story = Story(1000 + seed)
    for _ in range(300):
        story.step()
    story.world.disk.crash(story.chance)
    before = story.world.disk.calls
    for after in range(1, 120, 7):
        limit = story.world.disk.calls + after

        def cut(call: Call, at: int = limit) -> Fault | None:
            if call.number >= at:
                raise PowerCut
            return None

        story.world.disk.faults = cut
        with suppress(PowerCut):
            story.world.start()
        story.world.disk.faults = lambda call: None
        story.world.disk.crash(story.chance)
    assert story.world.disk.calls > before
    story.crash()
