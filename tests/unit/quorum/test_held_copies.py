"""quorum/held_copies.py: copies in a group whose leader may be elsewhere, so that the member here is behind."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import Outcome
from native.content import encode
from quorum.fifo.commands import FIRST_ID, ConsumerKey, NodeDown, NodeUp, Op, Policy, Settle, Tick, Upgrade
from quorum.fifo.rules import DISCONNECTED_TIMEOUT_MS, Rules
from quorum.fifo.versions import VERSION_NEWEST
from quorum.held_copies import HeldCopies
from tests.unit.quorum.queue_world import SESSION, QueueWorld, consumer


class Group:
    """What is said to it is applied by the leader and answered at once, and by the member here when the test says so. Fulfils
    QuorumQueue and QueueSession, as far as copies need them."""

    def __init__(self) -> None:
        self.leader, self.here = QueueWorld(Rules()), QueueWorld(Rules())
        self.session: Any = self
        self.member: Any = SimpleNamespace(machine=self.here.machine)
        self.deleted = False
        self.is_behind = False
        self.ticks = 0
        self.is_flushed = True
        self._unseen: list[Callable[[QueueWorld], object]] = []
        self._asked: list[Callable[[], None]] = []

    def happens(self, what: Callable[[QueueWorld], Any]) -> Any:
        self._unseen.append(what)
        answer = what(self.leader)
        if not self.is_behind:
            self.catch_up()
        return answer

    def catch_up(self) -> None:
        unseen, self._unseen = self._unseen, []
        for what in unseen:
            what(self.here)

    def publish(self, run: Run, receipt: Receipt) -> None:
        self.happens(lambda world: world.publish(run.count))

    def new_number(self) -> int:
        return 1

    def consumer_key(self, number: int) -> ConsumerKey:
        return consumer(number)

    def say(self, op: Op, asker: Callable[[Any], None] | None = None) -> None:
        self.ticks += isinstance(op, Tick)
        self.is_flushed = False
        answer = self.happens(lambda world: world.say(op))
        if asker is not None:
            self._asked.append(lambda: asker(answer))

    def settle(self, number: int, first: int, count: int, outcome: Outcome) -> None:
        self.say(Settle(consumer(number), outcome, [(first, count)]))

    def flush(self) -> None:
        self.is_flushed = True

    def answer(self) -> None:
        asked, self._asked = self._asked, []
        for one in asked:
            one()


@pytest.fixture
def group() -> Group:
    return Group()


@pytest.fixture
def copies(group: Group) -> HeldCopies:
    """Of three messages."""
    made = HeldCopies(group)  # type: ignore[arg-type]
    made.begin(lambda _: None)
    content = b"".join(encode(b"\0\0", b"%d" % number) for number in range(3))
    assert made.add(Run("", "q", content, 3, 3, persistent=True), Receipt(None, 0, 2, 1)) == FIRST_ID  # type: ignore[arg-type]
    return made


def cut_off(group: Group) -> None:
    """For so long that the group takes back what this node holds."""
    group.happens(lambda world: world.say(NodeDown(SESSION)))
    group.happens(lambda world: world.wait(DISCONNECTED_TIMEOUT_MS))


def test_copies_are_as_expected_also_when_some_of_them_were_let_go(group: Group, copies: HeldCopies) -> None:
    assert copies.are_as_expected
    copies.settle(FIRST_ID, 2, Outcome.ACKNOWLEDGED)
    assert copies.are_as_expected


def test_what_is_settled_counts_as_held_until_the_member_here_has_seen_it(group: Group, copies: HeldCopies) -> None:
    group.is_behind = True
    copies.settle(FIRST_ID, 2, Outcome.ACKNOWLEDGED)
    assert copies.are_as_expected


def test_copies_that_the_group_has_taken_back_are_not_as_expected(group: Group, copies: HeldCopies) -> None:
    """Nor when they were handed out again, under other ids: what is settled then would be others."""
    cut_off(group)
    assert not copies.are_as_expected
    group.happens(lambda world: world.say(NodeUp(SESSION)))
    assert not copies.are_as_expected


def test_what_was_settled_before_it_was_handed_out_is_settled_again_at_the_end(
    group: Group, copies: HeldCopies
) -> None:
    """The group took this node for down for a moment, so the copies waited, and settling them did nothing. Who had acknowledged
    the message got it again."""
    group.happens(lambda world: world.say(NodeDown(SESSION)))
    content = b"".join(encode(b"\0\0", b"%d" % number) for number in range(3, 9))
    copies.add(Run("", "q", content, 6, 6, persistent=True), Receipt(None, 0, 5, 1))  # type: ignore[arg-type]
    for first, count in ((3, 2), (0, 1), (6, 1)):
        copies.settle(FIRST_ID + first, count, Outcome.ACKNOWLEDGED)
    group.happens(lambda world: world.say(NodeUp(SESSION)))
    assert copies.are_as_expected
    copies.close()
    (held,) = group.here.machine.state.consumers.all.values()
    assert [(one.first_id - FIRST_ID, one.end - FIRST_ID) for one in held.checked_out] == [(1, 3), (5, 6), (7, 9)]
    copies.end(lambda _: None)
    assert group.leader.machine.state.ready.count == 5


def test_copies_are_not_taken_for_others_that_were_handed_out_a_second_time(group: Group, copies: HeldCopies) -> None:
    """As many came since as were handed out again. They are on a majority, and the member here has not seen them: what it has
    seen are the numbers, of other copies."""
    cut_off(group)
    group.happens(lambda world: world.say(NodeUp(SESSION)))
    group.is_behind = True
    content = b"".join(encode(b"\0\0", b"%d" % number) for number in range(3, 6))
    copies.add(Run("", "q", content, 3, 3, persistent=True), Receipt(None, 0, 2, 1))  # type: ignore[arg-type]
    copies.settle(FIRST_ID, 3, Outcome.ACKNOWLEDGED)
    assert not copies.are_as_expected


def test_copies_that_the_member_here_has_not_seen_are_not_as_expected(group: Group, copies: HeldCopies) -> None:
    group.is_behind = True
    copies.add(Run("", "q", encode(b"\0\0", b"3"), 1, 1, persistent=True), Receipt(None, 0, 0, 1))  # type: ignore[arg-type]
    assert not copies.are_as_expected
    group.catch_up()
    assert copies.are_as_expected
    group.member = None
    assert not copies.are_as_expected


def test_the_end_is_told_when_the_member_here_has_seen_it(group: Group, copies: HeldCopies) -> None:
    """How many are ready then is read here. A leader elsewhere answers first, and what had come back was not seen: who had
    acknowledged it got it again."""
    ready: list[int] = []
    group.is_behind = True
    cut_off(group)
    copies.settle(FIRST_ID, 1, Outcome.ACKNOWLEDGED)
    copies.end(lambda _: ready.append(group.here.machine.state.ready.count))
    group.answer()
    group.answer()
    assert (ready, group.ticks) == ([], 2)
    group.catch_up()
    group.answer()
    assert ready == [3]
    group.answer()
    assert ready == [3]


@pytest.mark.parametrize("gone", ["queue", "member"])
def test_the_end_is_told_to_nobody_where_it_cannot_be_seen(group: Group, copies: HeldCopies, gone: str) -> None:
    ended: list[Any] = []
    copies.end(ended.append)
    if gone == "queue":
        group.deleted = True
    else:
        group.member = None
    group.answer()
    assert (ended, group.ticks) == ([], 0)


def test_copies_are_let_be_by_the_limits_of_the_queue_until_the_end(group: Group, copies: HeldCopies) -> None:
    group.happens(lambda world: world.say(Policy(Rules(max_length=1))))
    assert group.here.machine.state.ready.count == 0
    copies.close()
    copies.settle(FIRST_ID, 1, Outcome.ACKNOWLEDGED)
    assert group.here.machine.state.ready.count == 0, "nothing is handed out any more, and nothing dropped"
    assert copies.are_as_expected


def test_nothing_more_is_handed_out_behind_the_end(group: Group, copies: HeldCopies) -> None:
    """What comes then is for consumers of the queue, and would be marked as seen by one."""
    group.happens(lambda world: world.say(Upgrade(VERSION_NEWEST)))
    copies.close()
    group.happens(lambda world: world.publish(1))
    assert group.leader.machine.state.ready.count == 1


def test_all_that_is_said_leaves_at_once(group: Group, copies: HeldCopies) -> None:
    assert group.is_flushed, "that they are held"
    copies.settle(FIRST_ID, 1, Outcome.ACKNOWLEDGED)
    copies.flush()
    assert group.is_flushed, "what was let go"
    copies.close()
    group.is_behind = True
    copies.end(lambda _: None)
    assert group.is_flushed, "that no more are held"
    group.answer()
    assert group.is_flushed and group.ticks == 1, "what waits for the member here"
