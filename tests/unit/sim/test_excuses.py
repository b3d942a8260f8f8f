"""What the simulation excuses in queues: single messages that somebody saw leave, and never all that are beside them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from broker.messages.message import Run
from broker.queues.queue_type import DeathReason
from classic.queue import ClassicQueue
from classic.store.backing import QueueBacking
from native.content import encode
from native.sequence_set import SequenceSet
from tests.histories.records import Acknowledged, Attempted, Confirmed, Delivered, History
from tests.histories.rules import QueueRules, Rules
from tests.sim.brokers.classics import ON_DISK, ClassicBook
from tests.sim.brokers.invariants import About
from tests.sim.brokers.losses import judged_elsewhere, lost
from tests.sim.brokers.plan import BrokerShape
from tests.sim.invariants import Violation
from tests.sim.plan import Ask, Plan
from tests.sim.run import Outcome, run
from tests.unit.classic.classic_world import TINY, World, record_of

SECONDS = 24.0
LOST_EACH = 5
JUDGED = "loss in a classic queue judged"


def outcome_of(queue: str, *, purged_at_s: float | None = None, **shape: Any) -> Outcome:
    """A message every moment, and two consumers."""
    asks = [Ask(round(0.3 + 0.1 * at, 3), 1, 0, "publish", queue, 20) for at in range(80)]
    asks += [Ask(0.2 + 2 * at, taker, 0, "consume", queue, 0) for at in range(3) for taker in (1, 2)]
    if purged_at_s is not None:
        asks.append(Ask(purged_at_s, 2, 0, "purge", queue, 0))
    asks.sort(key=lambda ask: ask.at)
    world = BrokerShape(seconds=SECONDS, groups=0, queues="plain", classics=queue, publishers=1, takers=2, **shape)
    return run(Plan(1, world, (), tuple(asks), "brokers"))


def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """Classic queues lose what nobody takes at once, now and then."""
    published = ClassicQueue.published

    def forgets(queue: Any, run: Any, level: Any, now: int) -> None:
        published(queue, run, level, now)
        if run.first % LOST_EACH == 0 and level.head() is run:
            level.drop(run.count)

    monkeypatch.setattr(ClassicQueue, "published", forgets)


WORLDS: dict[str, dict[str, Any]] = {
    "with consumers that acknowledge nothing": {"queue": "classic-plain", "no_ack": 1},
    "purged": {"queue": "classic-plain", "purged_at_s": 3.0},
    "with a limit that drops": {"queue": "classic-short"},
    "where all expires": {"queue": "classic-fleeting"},
}


@pytest.mark.parametrize("world", WORLDS)
def test_a_queue_that_may_lose_some_is_judged_for_all_others(world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = outcome_of(**WORLDS[world])
    assert outcome.is_good, outcome.message
    assert outcome.counted[JUDGED] > 40
    forgetful(monkeypatch)
    found = outcome_of(**WORLDS[world])
    assert found.invariant == "histories_are_right"
    assert "confirmed messages are lost" in found.message


def test_a_wrong_count_of_purged_messages_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert outcome_of("classic-plain", purged_at_s=3.0).checked["purges_are_counted"] == 1
    purged = QueueBacking.purged
    monkeypatch.setattr(
        QueueBacking, "purged", lambda backing, queue, ranges, count, by: purged(backing, queue, ranges, count + 1, by)
    )
    assert outcome_of("classic-plain", purged_at_s=3.0).invariant == "purges_are_counted"


# Losses


def confirmed(*numbers: int) -> History:
    history: History = []
    for number in numbers:
        history += [Attempted(number, "p", number, expires_s=1.0), Confirmed(number + 0.1, "p", number)]
    return history


def test_only_what_is_seen_to_go_may_be_nowhere() -> None:
    """Though the queue expires its messages, and loses some in the eyes of who sees nothing of its inside."""
    rules = Rules((QueueRules("q", frozenset({"p"}), expires_s=1.0),))
    history = [*confirmed(1, 2, 3), Delivered(5.0, 1, "q", "c", "p", 3), Acknowledged(5.1, 1)]
    assert list(lost(history, rules, {})) == ["q: 2 confirmed messages are lost: p:1, p:2"]
    assert list(lost(history, rules, {"q": {("p", 1): "expired"}})) == ["q: 1 confirmed messages are lost: p:2"]
    assert list(lost(history, rules, {"q": {("p", 1): "expired", ("p", 2): "purged"}})) == []
    assert list(lost(history, judged_elsewhere(rules), {})) == []


def test_what_left_the_target_of_dead_letters_may_be_nowhere() -> None:
    source = QueueRules("q", frozenset({"p"}), dead_letters_to="dead", at_least_once=True)
    rules = Rules((source, QueueRules("dead")))
    assert list(lost(confirmed(1, 2), rules, {"dead": {("p", 1): "purged"}})) == [
        "q: 1 confirmed messages are lost: p:2"
    ]


# The book of a classic queue


class Books:
    """One book, and the queue that a process has."""

    def __init__(self, *, drops: bool = False) -> None:
        self.late: list[bytes] = []
        self.book = ClassicBook(About("q", {}), 1, self.late.append, lambda _: True, drops=drops)
        self.start(0)

    def start(self, count: int) -> None:
        """A process that finds so many messages, from 0 on."""
        ready = SequenceSet()
        if count:
            ready.add(0, count)
        queue = SimpleNamespace(levels=[SimpleNamespace(ready=ready)], out=SequenceSet())
        self.book.begins_again(cast(ClassicQueue, queue))

    def take(self, first: int, count: int, *, persistent: bool = True) -> None:
        content = b"".join(encode(b"", body_of(sequence)) for sequence in range(first, first + count))
        self.book.takes(Run("", "q", content, count, 0, persistent=persistent), first)

    def hand_out(self, *sequences: int) -> None:
        self.book.hands_out(0, [body_of(sequence) for sequence in sequences], {})


def body_of(sequence: int) -> bytes:
    return b"p:%d:" % (sequence + 1)


def bodies(*sequences: int) -> Sequence[bytes]:
    return [body_of(sequence) for sequence in sequences]


def test_only_what_no_file_gave_may_come_behind_others() -> None:
    books = Books()
    books.take(0, 6)
    books.book.is_out_of_reach([(0, 2)])
    books.hand_out(2, 4)
    books.start(2)
    books.hand_out(0, 1)
    assert books.late == bodies(0, 1)
    assert not books.book.gone
    with pytest.raises(Violation, match="first_deliveries_are_in_order"):
        books.hand_out(3)


def test_only_what_died_may_come_behind_others_after_a_start() -> None:
    books = Books()
    books.take(0, 4)
    books.book.dies(bodies(0), DeathReason.EXPIRED)
    books.hand_out(2)
    books.start(2)
    books.hand_out(0)
    with pytest.raises(Violation, match="first_deliveries_are_in_order"):
        books.hand_out(1)


def test_what_a_limit_dropped_may_be_nowhere_where_the_queue_has_one() -> None:
    for drops in (False, True):
        books = Books(drops=drops)
        books.take(0, 2)
        books.book.dies(bodies(0), DeathReason.MAXLEN)
        assert list(books.book.gone) == (bodies(0) if drops else [])


def test_a_start_drops_what_was_there_and_is_not_persistent() -> None:
    books = Books()
    books.take(0, 3)
    books.take(3, 1, persistent=False)
    books.start(4)
    assert not books.book.gone, "it came after that process had read the disk"
    books.take(4, 1, persistent=False)
    books.start(3)
    assert list(books.book.gone) == bodies(3)


def test_what_lies_on_the_disk_of_a_home_that_stays_away_is_not_lost() -> None:
    """And what should lie there, and does not, is."""
    home = World([record_of("q", 1)])
    books = Books()
    for sequence, persistent in ((0, True), (1, True), (2, False)):
        home.publish(["q"], bodies(sequence), persistent=persistent, confirm=sequence)
        books.take(sequence, 1, persistent=persistent)
    home.tick()
    books.take(3, 1)
    books.book.begins_again(home.queues["q"])
    home.disk.kill()
    gone = books.book.may_be_nowhere(home.disk, TINY)
    assert gone == {body_of(0): ON_DISK, body_of(1): ON_DISK, body_of(2): "transient"}
    assert not books.book.may_be_nowhere(None, TINY)
