"""tests/sim/watch.py: a leader that goes back through its log for who installs a snapshot, and takes none of it."""

from __future__ import annotations

import pytest

from raft.core.messages import Append, Membership, SnapshotMeta
from tests.sim.invariants import WALKED_BACK_MAX, Violation
from tests.sim.layers import layer_of
from tests.sim.world import World

GROUP, FOLLOWER, LEADER = 1, 2, 77


class Walked:
    """A member that hears appends."""

    def __init__(self) -> None:
        self.world: World = layer_of("engine").world(layer_of("engine").draw(1))
        self.world.form()
        self.site = self.world.sites[FOLLOWER]
        driver = self.world.driver(self.site, GROUP)
        assert driver is not None
        self.driver = driver
        self.installs(True)

    def installs(self, is_it: bool) -> None:
        self.driver.installing = SnapshotMeta(1000, 1, Membership((self.driver.me,)), 0) if is_it else None

    def hears(self, *previous: int, term: int = 1) -> None:
        assert self.site.process is not None
        for index in previous:
            append = Append(self.driver.me, LEADER, term, index, 1, 0)
            self.world.watch.heard(self.site.process, [(GROUP, append)])


def test_who_goes_back_entry_by_entry_is_found() -> None:
    walked = Walked()
    walked.hears(*range(100, 99 - WALKED_BACK_MAX, -1))
    with pytest.raises(Violation, match="who_installs_is_not_walked_back"):
        walked.hears(10)


def test_who_asks_at_one_place_again_and_again_is_not() -> None:
    walked = Walked()
    walked.hears(100, 101, 102, 60, *[40] * 50)
    for term in range(2, 20):
        walked.hears(100, 60, 40, term=term)
    for _ in range(10):
        walked.hears(100, 90, 80, term=20)
        walked.installs(False)
        walked.hears(90, term=20)
        walked.installs(True)
