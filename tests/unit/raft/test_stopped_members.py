"""raft/stopped_members.py: who has to hear of members that take no part any more, and until when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from raft.core.messages import (
    Append,
    AppendReply,
    LeaderCheck,
    LeaderLookup,
    MatchCheck,
    Message,
    Replaced,
    SnapshotChunk,
    TransferNow,
    VoteRequest,
    member_id,
)
from raft.core.ready import Role
from raft.stopped_members import StoppedMembers, answer_for_another

HERE, OTHER = 1, 2
OLD, NEW, PEER = member_id(HERE, 7), member_id(HERE, 8), member_id(OTHER, 7)


class OneDriver:
    """As much of a driver as is looked at."""

    group = 5

    def __init__(self, me: int = OLD) -> None:
        self.me = me
        self.halted: str | None = None
        self.leader_node = 0
        self.leader = 0
        self.standing = SimpleNamespace(term=4, role=Role.FOLLOWER)
        self.halts: list[tuple[str, float]] = []

    def halt(self, reason: str, now: float) -> None:
        self.halted = reason
        self.halts.append((reason, now))


class Stopped:
    def __init__(self) -> None:
        self.drivers: dict[int, Any] = {}
        self.sent: list[tuple[int, Message]] = []
        self.members = StoppedMembers(HERE, self.drivers, lambda group, message: self.sent.append((group, message)))


@pytest.fixture
def stopped() -> Stopped:
    return Stopped()


# ------------------------------------------------------------------------- halted


def test_a_halted_member_says_so_again_while_nobody_leads_or_it_does(stopped: Stopped) -> None:
    driver: Any = OneDriver()
    stopped.members.halt(driver, "cannot go on", 1.0)
    for now, leader in ((2.0, 0), (3.0, HERE)):
        driver.leader_node = leader
        stopped.members.look_after_halted(now)
    assert driver.halts == [("cannot go on", 1.0), ("cannot go on", 2.0), ("cannot go on", 3.0)]
    driver.leader_node = OTHER
    stopped.members.look_after_halted(4.0)
    assert len(driver.halts) == 3, "another member leads, whom the others follow"


def test_a_halted_member_that_was_removed_says_nothing_more(stopped: Stopped) -> None:
    driver: Any = OneDriver()
    stopped.members.halt(driver, "cannot go on", 1.0)
    stopped.members.removed(driver.group)
    stopped.members.look_after_halted(2.0)
    assert driver.halts == [("cannot go on", 1.0)]


# ------------------------------------------------------------------------- given up


def test_the_others_hear_of_a_member_that_was_given_up_until_one_of_theirs_leads(stopped: Stopped) -> None:
    old, new = OneDriver(), OneDriver(NEW)
    stopped.members.give_up(old)  # type: ignore[arg-type]
    assert stopped.members.look_after_given_up([OTHER]) == [] and stopped.sent == [], "there is no new member yet"
    stopped.drivers[5] = new
    assert stopped.members.look_after_given_up([OTHER]) == []
    assert stopped.sent == [(5, Replaced(member_id(OTHER, 0), NEW, 4, OLD))]
    stopped.sent.clear()
    new.leader, new.standing.role = PEER, Role.LEARNER
    assert stopped.members.look_after_given_up([OTHER]) == [], "it does not vote yet"
    new.standing.role = Role.FOLLOWER
    assert stopped.members.look_after_given_up([OTHER]) == [new]
    assert stopped.members.look_after_given_up([OTHER]) == [], "once"
    assert stopped.sent == []


def test_a_member_that_was_given_up_is_not_taken_for_its_successor(stopped: Stopped) -> None:
    """It is there until the store has made the new one."""
    old = OneDriver()
    old.leader = PEER
    stopped.drivers[5] = old
    stopped.members.give_up(old)  # type: ignore[arg-type]
    assert stopped.members.look_after_given_up([OTHER]) == []
    old.leader = 0
    assert stopped.members.look_after_given_up([OTHER]) == []
    assert stopped.sent == []


ASKED = (Append, SnapshotChunk, MatchCheck, VoteRequest, LeaderCheck, LeaderLookup, TransferNow)


def message_of(kind: type[Any]) -> Any:
    """Any of its kind, to the member that was here before."""
    message = kind.__new__(kind)
    for name, value in (("to", OLD), ("sender", PEER), ("term", 4)):
        object.__setattr__(message, name, value)
    return message


@pytest.mark.parametrize("kind", ASKED, ids=lambda kind: kind.__name__)
def test_whoever_asks_a_member_that_is_no_more_is_told_who_lives_here_now(kind: type[Any]) -> None:
    driver: Any = OneDriver(NEW)
    assert answer_for_another(driver, message_of(kind)) == Replaced(PEER, NEW, 4, OLD)


def test_an_answer_to_a_member_that_is_no_more_is_not_answered() -> None:
    driver: Any = OneDriver(NEW)
    assert answer_for_another(driver, message_of(AppendReply)) is None
