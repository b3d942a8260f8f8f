"""The end of a turn, driven by hand: what is done in it, in which order, and when it comes."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from broker.background_work import BackgroundWork, Unsliced
from broker.turns import DELIVERIES_MIN, Turns

NOW = 1_700_000_000_000


class Loop:
    """The event loop and what is seen of it: `done` is what happened, in order."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], None]] = []
        self.done: list[str] = []
        self.turns = Turns(self.soon.append, lambda: NOW)

    def round(self) -> list[str]:
        """One round of the loop; what happened in it."""
        calls, self.soon[:] = list(self.soon), []
        for call in calls:
            call()
        return self.take()

    def take(self) -> list[str]:
        done, self.done = self.done, []
        return done

    def queue(self, name: str, pumped: Callable[[], None] = lambda: None) -> Any:  # what Turns need of a queue
        return Queue(self, name, pumped)

    def session(self, name: str) -> Session:
        return Session(self, name)

    def client(self, name: str, proceeds: list[Callable[[], None]] | None = None, again: int = 0) -> Client:
        return Client(self, name, proceeds or [], again)


class Queue:
    """Notes that it was pumped."""

    def __init__(self, loop: Loop, name: str, pumped: Callable[[], None]) -> None:
        self.record = SimpleNamespace(label=f"queue '{name}'")
        self._loop, self._name, self._pumped = loop, name, pumped

    def pump(self, now: int) -> None:
        assert now == NOW
        self._loop.done.append(f"pump {self._name}")
        self._pumped()


class Session:
    """Notes that its client was told."""

    def __init__(self, loop: Loop, name: str) -> None:
        self._loop, self._name = loop, name

    def flush_confirms(self) -> None:
        self._loop.done.append(f"confirm {self._name}")


class Client:
    """Notes that it was written to. `proceeds` is what input that was held back does, one in each turn."""

    def __init__(self, loop: Loop, name: str, proceeds: list[Callable[[], None]], again: int) -> None:
        self._loop, self._name, self._proceeds, self._again = loop, name, proceeds, again

    def proceed(self, now: int) -> bool:
        if not self._proceeds:
            return False
        self._proceeds.pop(0)()
        return True

    def flush(self) -> bool:
        self._loop.done.append(f"flush {self._name}")
        self._again -= 1
        return self._again >= 0


def test_queues_are_pumped_then_publishers_told_then_clients_written_to() -> None:
    loop = Loop()
    loop.turns.write(loop.client("a"))
    loop.turns.confirm(loop.session("s"))
    loop.turns.wake(loop.queue("q"))
    assert loop.done == []
    assert loop.round() == ["pump q", "confirm s", "flush a"]
    assert not loop.soon, "nothing is left to be done"


def test_a_turn_is_asked_for_once_however_much_there_is_to_do() -> None:
    loop = Loop()
    queue = loop.queue("q")
    for _ in range(3):
        loop.turns.wake(queue)
        loop.turns.request()
    assert len(loop.soon) == 1
    assert loop.round() == ["pump q"]


@pytest.mark.parametrize("what", ["a queue is woken", "a publisher is answered", "a client has something to read"])
def test_whatever_happens_outside_of_a_turn_asks_for_one(what: str) -> None:
    """A publisher whose receipts came with a commit of the log, and nothing else, was never told."""
    loop = Loop()
    if what == "a queue is woken":
        loop.turns.wake(loop.queue("q"))
    elif what == "a publisher is answered":
        loop.turns.confirm(loop.session("s"))
    else:
        loop.turns.write(loop.client("c"))
    assert len(loop.soon) == 1 and len(loop.round()) == 1


def test_what_is_caused_within_a_turn_asks_for_no_other() -> None:
    loop = Loop()
    session, client = loop.session("s"), loop.client("c")

    def pumped() -> None:
        loop.turns.confirm(session)
        loop.turns.write(client)

    loop.turns.wake(loop.queue("q", lambda: loop.turns.wake(loop.queue("next", pumped))))
    assert loop.round() == ["pump q", "pump next", "confirm s", "flush c"]
    assert not loop.soon


def test_an_end_that_nobody_has_asked_for_is_none() -> None:
    """A round of all groups ends one, if there is something to be told; two would write to each client twice."""
    loop = Loop()
    loop.turns.wake(loop.queue("q"))
    loop.turns.end_requested()
    assert loop.take() == ["pump q"]
    loop.turns._woken[loop.queue("unasked")] = None
    assert loop.round() == []


def test_a_turn_that_waits_for_more_input_ends_when_the_loop_has_polled_once_more() -> None:
    loop = Loop()
    loop.turns.begin()
    loop.turns.wake(loop.queue("q"))
    loop.turns.end_behind_input()
    assert loop.round() == [], "this round began before the sockets were looked at"
    assert loop.round() == ["pump q"]
    assert not loop.soon


def test_a_turn_that_waits_for_more_input_ends_with_that() -> None:
    loop = Loop()
    loop.turns.begin()
    loop.turns.wake(loop.queue("q"))
    loop.turns.end_behind_input()
    loop.round()
    loop.turns.begin()
    loop.turns.end()
    assert loop.take() == ["pump q"]
    assert loop.round() == []


def test_what_a_batch_of_input_causes_is_done_at_its_end_and_not_again() -> None:
    loop = Loop()
    loop.turns.begin()
    loop.turns.wake(loop.queue("q"))
    assert not loop.soon, "the batch has an end of its own"
    loop.turns.end()
    assert loop.take() == ["pump q"]
    loop.turns.request()
    loop.turns.begin()
    loop.turns.wake(loop.queue("r"))
    loop.turns.end()
    assert loop.take() == ["pump r"]
    assert loop.round() == [], "what was asked for before has been done"


def test_a_queue_that_a_pump_wakes_is_pumped_before_anybody_is_written_to() -> None:
    """A dead letter arrives in another queue."""
    loop = Loop()
    graves = loop.queue("graves")
    loop.turns.write(loop.client("a"))
    loop.turns.wake(loop.queue("q", lambda: loop.turns.wake(graves)))
    assert loop.round() == ["pump q", "pump graves", "flush a"]


def test_input_that_was_held_back_is_delivered_and_confirmed_before_it_is_written() -> None:
    loop = Loop()
    queue, session = loop.queue("q"), loop.session("s")

    def publish() -> None:
        loop.turns.wake(queue)
        loop.turns.confirm(session)

    loop.turns.write(loop.client("a", [publish]))
    loop.turns.write(loop.client("b"))
    assert loop.round() == ["pump q", "confirm s", "flush a", "flush b"]


def test_a_client_that_has_room_again_waits_for_the_next_turn() -> None:
    """Others come first."""
    loop = Loop()
    loop.turns.write(loop.client("a", again=2))
    assert [loop.round() for _ in range(3)] == [["flush a"]] * 3
    assert not loop.soon


def test_a_queue_that_is_woken_while_clients_are_written_to_has_the_next_turn() -> None:
    """It was forgotten until something else asked for a turn."""
    loop = Loop()
    queue, client = loop.queue("q"), loop.client("a")
    loop.turns.write(client)
    flush = client.flush
    client.flush = lambda: loop.turns.wake(queue) or flush()  # type: ignore[method-assign]
    assert loop.round() == ["flush a"]
    assert loop.round() == ["pump q"]


def test_a_publisher_that_is_answered_while_clients_are_written_to_is_told_in_the_next_turn() -> None:
    loop = Loop()
    session, client = loop.session("s"), loop.client("a")
    loop.turns.write(client)
    flush = client.flush
    client.flush = lambda: loop.turns.confirm(session) or flush()  # type: ignore[method-assign]
    assert loop.round() == ["flush a"]
    assert loop.round() == ["confirm s"]


def test_what_is_deleted_or_closed_before_the_end_is_left_out() -> None:
    loop = Loop()
    queue, session = loop.queue("q"), loop.session("s")
    loop.turns.wake(queue)
    loop.turns.confirm(session)
    loop.turns.forget_queue(queue)
    loop.turns.forget_publisher(session)
    assert loop.round() == []


def test_a_queue_that_was_asked_for_messages_is_pumped_before_and_once() -> None:
    loop = Loop()
    queue = loop.queue("q")
    loop.turns.wake(queue)
    loop.turns.deliver_from(queue, NOW)
    loop.turns.deliver_from(queue, NOW)
    assert loop.take() == ["pump q"]
    assert loop.round() == []


def test_each_step_has_a_budget_of_its_own() -> None:
    loop = Loop()
    budgets: Iterator[int] = iter(range(10))
    work = Unsliced()
    work.turn_ended = lambda: loop.done.append(f"budget {next(budgets)}")  # type: ignore[method-assign]
    loop.turns = Turns(loop.soon.append, lambda: NOW, work)
    loop.turns.wake(loop.queue("q"))
    assert loop.round() == ["budget 0", "pump q", "budget 1"]


def test_queues_that_a_full_turn_has_no_room_for_are_pumped_in_later_turns_and_in_none_before() -> None:
    """A thousand were pumped in each turn, to find out that it was full: 9 times for each message that was delivered."""
    loop = Loop()
    seconds = itertools.count()
    work = BackgroundWork(loop.soon.append, lambda: next(seconds))
    loop.turns = Turns(loop.soon.append, lambda: NOW, work)
    queues = [loop.queue(f"{number}", lambda: work.in_turn(DELIVERIES_MIN)) for number in range(2 * DELIVERIES_MIN)]
    for queue in queues:
        loop.turns.wake(queue)
    names = [f"pump {number}" for number in range(2 * DELIVERIES_MIN)]
    refused = DELIVERIES_MIN + 1  # the one for which the clock was looked at
    assert loop.round() == names[:refused]
    loop.turns.wake(loop.queue("woken later"))
    assert loop.round() == [*names[refused:], "pump woken later"]
    assert not loop.soon


def fault() -> None:
    raise RuntimeError("a fault of ours")


def test_a_queue_that_fails_takes_the_turn_from_no_other() -> None:
    loop = Loop()
    for queue in (loop.queue("a"), loop.queue("bad", fault), loop.queue("c"), loop.queue("d")):
        loop.turns.wake(queue)
    loop.turns.confirm(loop.session("s"))
    loop.turns.write(loop.client("x"))
    with pytest.raises(RuntimeError, match="a fault of ours"):
        loop.round()
    assert loop.take() == ["pump a", "pump bad"]
    assert loop.round() == ["pump c", "pump d", "confirm s", "flush x"]
    assert loop.soon == [], "the bad one is not asked again"


def test_a_publisher_that_cannot_be_told_takes_the_turn_from_no_other() -> None:
    loop = Loop()
    bad = loop.session("bad")
    bad.flush_confirms = fault  # type: ignore[method-assign]
    for session in (loop.session("a"), bad, loop.session("c")):
        loop.turns.confirm(session)
    loop.turns.write(loop.client("x"))
    with pytest.raises(RuntimeError):
        loop.round()
    assert loop.take() == ["confirm a"]
    assert loop.round() == ["confirm c", "flush x"]


def test_a_client_that_cannot_be_written_to_takes_the_turn_from_no_other() -> None:
    loop = Loop()
    eager, bad, held, last = (
        loop.client("eager", again=1),
        loop.client("bad"),
        loop.client("held", [fault]),
        loop.client("last"),
    )
    bad.flush = fault  # type: ignore[assignment,method-assign]
    for client in (eager, bad, last):
        loop.turns.write(client)
    with pytest.raises(RuntimeError):
        loop.round()
    assert loop.take() == ["flush eager"]
    assert loop.round() == ["flush last", "flush eager"]
    loop.turns.write(held)
    loop.turns.write(last)
    with pytest.raises(RuntimeError):
        loop.round()
    assert loop.round() == ["flush last"], "and the one whose input failed is not asked again"


def test_a_turn_in_which_nobody_was_woken_gives_the_next_one_a_budget_of_its_own_too() -> None:
    work = BackgroundWork(lambda _: None, lambda: 0.0, steps_max=1)
    turns = Turns(lambda _: None, lambda: NOW, work)
    for _ in range(2):
        now = turns.begin()
        assert (work.in_turn(), work.in_turn()) == (True, False)
        turns.end(now)


def test_a_turn_around_some_work_ends_right_behind_it_without_a_round_of_the_loop() -> None:
    loop = Loop()
    queue, session = loop.queue("q"), loop.session("s")

    def work() -> None:
        loop.turns.wake(queue)
        loop.turns.confirm(session)
        loop.done.append("worked")

    loop.turns.around(work)
    assert loop.take() == ["worked", "pump q", "confirm s"]
    assert loop.soon == []
    loop.turns.wake(queue)
    assert loop.round() == ["pump q"], "whatever comes later asks for a round again"


def test_a_turn_behind_some_work_ends_at_once_too() -> None:
    loop = Loop()
    session = loop.session("s")
    loop.turns.behind(lambda: loop.turns.confirm(session))
    assert (loop.take(), loop.soon) == (["confirm s"], [])


def test_work_within_a_turn_does_not_end_it() -> None:
    loop = Loop()
    session = loop.session("s")
    now = loop.turns.begin()
    loop.turns.behind(lambda: loop.turns.confirm(session))
    assert loop.take() == []
    loop.turns.end(now)
    assert loop.take() == ["confirm s"]


def test_work_within_work_that_ends_its_turn_leaves_the_end_to_that() -> None:
    loop = Loop()
    session = loop.session("s")

    def work() -> None:
        loop.turns.behind(lambda: loop.turns.confirm(session))
        loop.done.append("worked")

    loop.turns.around(work)
    assert loop.take() == ["worked", "confirm s"]


def test_work_that_causes_nothing_ends_no_turn() -> None:
    loop = Loop()
    loop.turns.now = 1
    loop.turns.around(lambda: None)
    assert (loop.turns.now, loop.soon) == (1, [])


def test_what_was_caused_by_work_that_failed_has_its_turn_in_the_next_round() -> None:
    loop = Loop()
    queue = loop.queue("q")

    def work() -> None:
        loop.turns.wake(queue)
        raise RuntimeError

    with pytest.raises(RuntimeError):
        loop.turns.around(work)
    assert loop.take() == []
    assert loop.round() == ["pump q"]
    loop.turns.wake(queue)
    assert loop.round() == ["pump q"], "whatever comes later asks for a round again"
