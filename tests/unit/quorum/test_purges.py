"""quorum/purges.py: what is said of a purge, and what its client is told."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from broker.actors import ActorKind, LogActor
from broker.errors import ResourceExhausted
from broker.queues.holding_contract import WaitingPlace
from quorum.fifo.commands import ConsumerKey, Op, Purge, PurgeOnce, Withdraw
from quorum.fifo.results import Purged, ResultCode
from quorum.purges import Purges

PLACE = WaitingPlace(5, 9, 0)


class Queue:
    """Notes what is said; the test answers."""

    def __init__(self) -> None:
        self.said: list[tuple[Op, Callable[[Any], None]]] = []
        self.woken = 0
        self.times: list[Callable[[int], None]] = []
        self.numbers = iter(range(1, 100))
        self.record = SimpleNamespace(label="queue 'q'")
        self.session = SimpleNamespace(
            new_number=lambda: next(self.numbers),
            consumer_key=lambda number: ConsumerKey(1, 1, number),
            say=lambda op, asker: self.said.append((op, asker)),
            flush=lambda: None,
        )
        host: Any = SimpleNamespace(call_after=self.call_after, wake=self.wake)
        self.purges = Purges(self, host)  # type: ignore[arg-type]
        self.told: list[int | str] = []
        self.purgers: list[tuple[int, LogActor | None]] = []

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]:
        self.times.append(call)
        return lambda: None

    def wake(self, queue: Any) -> None:
        self.woken += 1

    def say_who(self, number: int, actor: LogActor | None) -> None:
        assert len(self.said) == len(self.purgers), "who purges is said before the purge"
        self.purgers.append((number, actor))

    def took_too_long(self) -> ResourceExhausted:
        return ResourceExhausted("it took too long")

    def not_heard(self) -> ResourceExhausted:
        return ResourceExhausted("not heard")

    def purge(self, by: LogActor | None = None) -> None:
        self.purges.purge(0, by).then(self.told.append, lambda error: self.told.append(error.text))

    def withdraw(self) -> None:
        self.purges.withdraw(PLACE, 0).then(self.told.append, lambda error: self.told.append(error.text))

    def answered_up_to(self) -> list[int]:
        return [op.answered for op, _ in self.said if isinstance(op, PurgeOnce | Withdraw)]


def test_who_purges_is_said_with_the_number_of_the_purge() -> None:
    queue, ann = Queue(), LogActor(ActorKind.CONNECTION, user="ann")
    queue.purge(ann)
    queue.purge()
    assert queue.purgers == [(1, ann), (2, None)]


def test_a_purge_says_which_was_the_first_that_has_no_answer() -> None:
    """What the group remembers of those from there on it must not forget."""
    queue = Queue()
    for _ in range(3):
        queue.purge()
    assert queue.answered_up_to() == [1, 1, 1]
    queue.said[1][1](Purged(5))
    queue.purge()
    queue.said[0][1](Purged(4))
    queue.purge()
    assert queue.answered_up_to()[3:] == [1, 3]
    assert queue.told == [5, 4]


def test_a_group_that_does_not_know_them_is_asked_the_old_way_soon_and_for_those_only_that_wait() -> None:
    queue = Queue()
    queue.purge()
    queue.purge()
    queue.times[0](0)
    assert queue.told == ["it took too long"]
    queue.said[0][1](ResultCode.UNKNOWN)
    assert (len(queue.said), queue.woken) == (2, 0), "its client was told already"
    queue.said[1][1](ResultCode.UNKNOWN)
    assert (queue.said[2][0], queue.woken) == (Purge(), 1)
    queue.said[2][1](Purged(7))
    queue.purge()
    assert queue.said[3][0] == Purge()
    assert queue.told[1:] == [7]


def test_of_purges_and_messages_taken_out_the_group_remembers_what_has_no_answer_and_no_more() -> None:
    """One that is said again because its answer was lost would have been told nothing, and its client waited for ever."""
    queue = Queue()
    queue.withdraw()
    queue.withdraw()
    queue.purge()
    queue.said[1][1](Purged(1))
    queue.withdraw()
    queue.said[0][1](ResultCode.UNKNOWN)
    queue.withdraw()
    assert queue.answered_up_to() == [1, 1, 1, 1, 3]
    assert queue.told[0] == 1
    assert "update all nodes" in str(queue.told[1])


def test_a_node_that_the_group_takes_for_gone_is_told_so() -> None:
    queue = Queue()
    queue.purge()
    queue.said[0][1](ResultCode.GONE)
    assert queue.told == ["not heard"]
