"""replicated/leader_duties.py: when the catalog is told of the members that a group has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from broker.records import QueueRecord
from raft.core.messages import MemberId, Membership, member_id
from replicated.leader_duties import RECORD_MS, LeaderDuties

M1, M2, M3 = (member_id(node, 7) for node in (1, 2, 3))
NOW = 1_000_000


class World:
    """A group that is led here, and a catalog that takes what it is told at once. Nobody else is compared with."""

    def __init__(
        self, voters: tuple[MemberId, ...], recorded: tuple[MemberId, ...], *, formed: int, known: int
    ) -> None:
        """`formed`: where in its log the group got its members; `known`: the same as the catalog has it."""
        self.status = SimpleNamespace(membership=Membership(voters), change_pending=False, formed=formed)
        self.told: list[tuple[tuple[MemberId, ...], int, bool]] = []
        self.is_alone = False
        driver = SimpleNamespace(core=SimpleNamespace(formation=lambda: self.status))
        record = QueueRecord("/", "q", "quorum", True, False, False, {}, 1, members=recorded, formed=known)
        self.queue: Any = SimpleNamespace(record=record, route=SimpleNamespace(driver=driver))
        anything: Any = SimpleNamespace(wall_ms=lambda: NOW)
        catalog: Any = SimpleNamespace(alone=lambda: self.is_alone, set_members=self.set_members)
        self.duties = LeaderDuties(self.queue, anything, catalog, anything, lambda version: None)
        self.looked: list[int] = []
        self.duties.comparison.look = self.looked.append  # type: ignore[method-assign]

    def set_members(self, record: QueueRecord, members: tuple[MemberId, ...], formed: int, anew: bool) -> None:
        assert record is self.queue.record
        self.told.append((members, formed, anew))


def test_the_catalog_is_told_of_members_that_it_does_not_have() -> None:
    world = World((M3, M1), (M1, M2), formed=9, known=5)
    world.duties.check_record()
    assert world.told == [((M1, M3), 9, False)]


def test_nothing_is_told_of_what_the_catalog_has_or_what_is_not_committed() -> None:
    world = World((M2, M1), (M1, M2), formed=9, known=5)
    world.duties.check_record()
    world.status.membership, world.status.change_pending = Membership((M1, M2, M3)), True
    world.duties.check_record()
    assert world.told == []


def test_a_group_that_is_behind_the_catalog_tells_it_nothing_unless_it_is_all_that_is_left() -> None:
    world = World((M1,), (M1, M2), formed=3, known=5)
    world.duties.check_record()
    assert world.told == [], "another leader has gone on since"
    world.is_alone = True
    world.duties.check_record()
    assert world.told == [((M1,), 3, True)]


def test_the_record_is_looked_at_now_and_then_also_when_the_clock_is_set_back() -> None:
    world = World((M1,), (M2,), formed=9, known=5)
    for now, told in ((NOW, 1), (NOW + 1_000, 1), (NOW + RECORD_MS, 2), (NOW - 3_600_000, 3)):
        world.duties.check(now)
        assert len(world.told) == told
    assert len(world.looked) == 4, "members are compared each time it is time for that"
    world.duties.begin()
    assert world.looked[-1] == NOW
