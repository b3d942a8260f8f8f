"""What a node says to a group: in portions, again where nothing is known of them, and always in order."""

from __future__ import annotations

from typing import Any

import pytest

from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import Outcome
from native.content import encode, messages
from quorum import session as sessions
from quorum.fifo.commands import (
    PRIORITY_DEFAULT,
    Enqueue,
    Op,
    Producer,
    Purge,
    SessionKey,
    Settle,
    Tick,
    decode_entry,
    entry_head,
)
from quorum.fifo.results import Gap, Purged, ResultCode
from quorum.session import JOINED_BYTES_MAX, QueueSession
from replicated.portions import AMPLE_BYTES, IN_FLIGHT_MAX, PORTION_BYTES_MAX, Owner, Portion

KEY = SessionKey(3, 7)
NO_PROPERTIES = b"\0\0"
PRIORITY_9 = b"\x08\x00\x09"
PRIORITY_0 = b"\x08\x00\x00"


@pytest.fixture
def pipelined(monkeypatch: pytest.MonkeyPatch) -> None:
    """However little there is, it does not wait for what is on its way."""
    monkeypatch.setattr(sessions, "AMPLE_BYTES", 0)


class Publisher:
    """Fulfils AnswersTo."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, bool]] = []

    def answered(self, receipt: Receipt) -> None:
        self.answers.append((receipt.first, receipt.taken))

    def given_up(self, receipt: Receipt) -> None:
        raise AssertionError("nobody gives up")


class Line(Owner):
    """Notes what is sent; the test answers."""

    def __init__(self) -> None:
        self.sent: list[tuple[Portion, int]] = []
        self.lost = 0
        self.publisher = Publisher()
        self.session = QueueSession(KEY, self)

    def send(self, portion: Portion, attempt: int) -> None:
        self.sent.append((portion, attempt))

    def enqueued(self, receipts: list[Receipt], result: Any) -> None:
        for receipt in receipts:
            if result in (ResultCode.ACCEPTED, ResultCode.DUPLICATE):
                receipt.accepted()
            else:
                receipt.refused()

    def lost_touch(self) -> None:
        self.lost += 1

    def publish(self, *bodies: bytes, tag: int = 1, key: str = "k", joined: bool = True, **properties: Any) -> None:
        props = properties.pop("props", NO_PROPERTIES)
        content = b"".join([encode(props, body) for body in bodies])
        run = Run("", key, content, len(bodies), sum(map(len, bodies)), **properties)
        self.session.enqueue(run, Receipt(self.publisher, tag, tag + len(bodies) - 1, 1), joined=joined)

    def publish_apart(self, *tags: int) -> None:
        """Each said at once, and so in a portion of its own where portions may overlap."""
        for tag in tags:
            self.publish(b"%d" % tag, tag=tag)
            self.session.flush()

    def ops(self, number: int = -1) -> list[Op]:
        return [op for _, op in decode_entry(entry_head(0) + b"".join(self.sent[number][0].ops))[1]]

    def answer(self, number: int, *results: Any) -> None:
        portion, attempt = self.sent[number]
        self.session.answered(portion, attempt, results or [ResultCode.ACCEPTED] * len(portion.askers))

    def open_again(self) -> None:
        self.session.open = True
        self.session.flush()


def bodies_of(portion: Portion) -> list[bytes]:
    data = entry_head(0) + b"".join(portion.ops)
    found: list[bytes] = []
    for _, op in decode_entry(data)[1]:
        assert isinstance(op, Enqueue)
        found += [body for _, body in messages(data, op.content[0], op.messages)]
    return found


def test_what_all_channels_say_in_a_turn_is_one_portion() -> None:
    line = Line()
    line.publish(b"a", b"b")
    line.publish(b"c", tag=3, key="other")
    line.session.settle(1, 1, 3, Outcome.ACKNOWLEDGED)
    line.session.flush()
    assert len(line.sent) == 1
    first, second, settle = line.ops()
    assert isinstance(first, Enqueue)
    assert isinstance(second, Enqueue)
    assert (first.sequence, first.messages, second.sequence, second.routing_key) == (1, 2, 3, "other")
    assert settle == Settle(line.session.consumer_key(1), Outcome.ACKNOWLEDGED, [(1, 3)])


def test_runs_that_agree_are_one_operation_and_each_publisher_is_answered() -> None:
    line = Line()
    for tag in range(1, 4):
        line.publish(b"%d" % tag, tag=tag)
    line.session.flush()
    (op,) = line.ops()
    assert isinstance(op, Enqueue)
    assert (op.messages, op.body_bytes, bodies_of(line.sent[0][0])) == (3, 3, [b"1", b"2", b"3"])
    line.answer(0)
    assert line.publisher.answers == [(1, True), (2, True), (3, True)]


def test_runs_are_not_joined_where_each_message_may_be_refused_nor_beyond_a_size() -> None:
    line = Line()
    line.publish(b"a", joined=False)
    line.publish(b"b", tag=2, joined=False)
    line.publish(b"x" * JOINED_BYTES_MAX, tag=3)
    line.publish(b"c", tag=4)
    line.session.flush()
    assert len(line.ops()) == 4


def test_a_message_without_priority_has_the_default_one_and_with_0_the_lowest() -> None:
    line = Line()
    line.publish(b"none")
    line.publish(b"nine", tag=2, props=PRIORITY_9, priority=9)
    line.publish(b"zero", tag=3, props=PRIORITY_0)
    line.publish(b"beyond", tag=4, props=PRIORITY_9, priority=200)
    line.session.flush()
    assert [op.priority for op in line.ops() if isinstance(op, Enqueue)] == [PRIORITY_DEFAULT, 9, 0, 31]


def test_neighbours_that_are_settled_alike_are_one_range() -> None:
    line = Line()
    for first in (1, 2, 3, 7):
        line.session.settle(1, first, 1, Outcome.ACKNOWLEDGED)
    line.session.settle(2, 1, 1, Outcome.REJECTED)
    line.session.flush()
    key = line.session.consumer_key
    assert line.ops() == [
        Settle(key(1), Outcome.ACKNOWLEDGED, [(1, 3), (7, 1)]),
        Settle(key(2), Outcome.REJECTED, [(1, 1)]),
    ]


def test_what_was_settled_before_something_else_is_said_before_it() -> None:
    line = Line()
    line.session.settle(1, 1, 1, Outcome.ACKNOWLEDGED)
    line.session.say(Purge())
    line.session.settle(1, 2, 1, Outcome.ACKNOWLEDGED)
    line.session.flush()
    assert [type(op) for op in line.ops()] == [Settle, Purge, Settle]


def test_while_a_portion_is_on_its_way_a_little_waits_and_much_does_not() -> None:
    line = Line()
    line.publish(b"1")
    line.session.flush()
    line.publish(b"2", tag=2)
    line.session.flush()
    line.publish(b"3", tag=3)
    line.session.flush()
    assert len(line.sent) == 1
    line.answer(0)
    assert bodies_of(line.sent[1][0]) == [b"2", b"3"]
    line.publish(b"x" * AMPLE_BYTES, tag=4)
    line.session.flush()
    assert len(line.sent) == 3


def test_what_consumers_settle_waits_for_publishes_but_not_for_each_other() -> None:
    line = Line()
    for first in (1, 2, 3):
        line.session.settle(1, first, 1, Outcome.ACKNOWLEDGED)
        line.session.flush()
    assert len(line.sent) == 3
    line.publish(b"a")
    line.session.flush()
    assert len(line.sent) == 3
    for number in range(3):
        line.answer(number, None)
    assert len(line.sent) == 4
    line.session.settle(1, 4, 1, Outcome.ACKNOWLEDGED)
    line.session.flush()
    assert len(line.sent) == 4


@pytest.mark.usefixtures("pipelined")
def test_while_the_pipeline_is_full_more_gathers_and_leaves_together() -> None:
    line = Line()
    for tag in range(1, IN_FLIGHT_MAX + 4):
        line.publish(b"%d" % tag, tag=tag)
        line.session.flush()
    assert len(line.sent) == IN_FLIGHT_MAX
    line.answer(0)
    assert len(line.sent) == IN_FLIGHT_MAX + 1
    assert bodies_of(line.sent[-1][0]) == [b"%d" % tag for tag in range(IN_FLIGHT_MAX + 1, IN_FLIGHT_MAX + 4)]


@pytest.mark.usefixtures("pipelined")
def test_a_portion_is_bounded_and_a_larger_message_travels_alone() -> None:
    line = Line()
    line.publish(b"x" * (PORTION_BYTES_MAX + 1))
    line.publish(b"y" * (PORTION_BYTES_MAX - 100), tag=2, key="y")
    line.publish(b"z" * 1000, tag=3, key="z")
    line.session.flush()
    assert [len(portion.askers) for portion, _ in line.sent] == [1, 1, 1]


@pytest.mark.usefixtures("pipelined")
def test_nobody_is_answered_before_those_who_said_something_earlier() -> None:
    line = Line()
    line.publish_apart(1, 2, 3)
    line.answer(2)
    line.answer(1)
    assert line.publisher.answers == []
    line.answer(0)
    assert line.publisher.answers == [(1, True), (2, True), (3, True)]


@pytest.mark.usefixtures("pipelined")
def test_what_failed_and_all_behind_it_is_said_again_in_order() -> None:
    line = Line()
    line.publish_apart(1, 2, 3)
    line.answer(0)
    line.session.failed(line.sent[1][1])
    assert (line.lost, line.session.open) == (1, False)
    line.answer(2)  # comes late: what it says does not count, for portion 1 was not applied before it
    line.open_again()
    assert [bodies_of(portion) for portion, _ in line.sent[3:]] == [[b"2"]]
    line.answer(3, ResultCode.DUPLICATE)
    again = line.sent[3:]
    assert [bodies_of(portion) for portion, _ in again] == [[b"2"], [b"3"]]
    assert [portion for portion, _ in again] == [portion for portion, _ in line.sent[1:3]]
    line.answer(4, ResultCode.DUPLICATE)
    assert line.publisher.answers == [(1, True), (2, True), (3, True)]
    assert line.session.idle


@pytest.mark.usefixtures("pipelined")
def test_what_was_answered_before_a_failure_in_front_of_it_is_said_again() -> None:
    """What it resulted in then rests on what was not applied."""
    line = Line()
    line.publish_apart(1, 2)
    line.answer(1)
    line.session.failed(line.sent[0][1])
    line.open_again()
    line.answer(2)
    assert line.publisher.answers == [(1, True)]
    assert [bodies_of(portion) for portion, _ in line.sent[2:]] == [[b"1"], [b"2"]]
    line.answer(3)
    assert line.publisher.answers == [(1, True), (2, True)]


@pytest.mark.usefixtures("pipelined")
def test_a_second_failure_of_the_same_attempt_is_no_other_one() -> None:
    line = Line()
    line.publish_apart(1, 2)
    attempt = line.sent[0][1]
    line.session.failed(attempt)
    line.open_again()
    line.session.failed(attempt)
    assert (line.lost, line.session.open, line.session.sent) == (1, True, 1)


@pytest.mark.usefixtures("pipelined")
def test_who_is_refused_because_of_what_went_before_waits_until_that_is_answered() -> None:
    """A leader that had room for one of two said yes to the first and no to the second, for ever (simulation, seed 30205)."""
    line = Line()
    line.publish_apart(1, 2, 3)
    for done in range(3):
        refused, first = len(line.sent) - 1, len(line.sent) - line.session.sent
        line.session.failed(line.sent[refused][1])
        line.answer(first)  # the answer of an attempt that is over
        assert line.publisher.answers == [(tag, True) for tag in range(1, done + 1)]
        line.open_again()
        assert line.session.sent == 1
        line.answer(len(line.sent) - 1, ResultCode.DUPLICATE)
        assert line.publisher.answers == [(tag, True) for tag in range(1, done + 2)]
    assert line.session.idle


@pytest.mark.usefixtures("pipelined")
def test_once_something_is_answered_behind_a_failure_portions_overlap_again() -> None:
    line = Line()
    line.publish_apart(*range(1, IN_FLIGHT_MAX + 2))
    line.session.failed(line.sent[0][1])
    line.open_again()
    assert line.session.sent == 1
    line.answer(len(line.sent) - 1)
    assert line.session.sent == IN_FLIGHT_MAX


@pytest.mark.usefixtures("pipelined")
def test_a_gap_means_that_something_before_it_is_missing() -> None:
    line = Line()
    line.publish_apart(1, 2)
    line.answer(1, Gap(1))
    line.open_again()
    assert line.publisher.answers == []
    line.answer(2)
    assert [bodies_of(portion) for portion, _ in line.sent[2:]] == [[b"1"], [b"2"]]


@pytest.mark.parametrize("results", [[], [ResultCode.ACCEPTED] * 3], ids=["fewer", "more"])
def test_an_answer_with_other_results_than_were_asked_for_answers_nobody(results: list[ResultCode]) -> None:
    """It was made by a node that knows something else, and is worth as much as none."""
    line = Line()
    line.publish(b"a", joined=False)
    line.publish(b"b", tag=2, joined=False)
    line.session.flush()
    portion, attempt = line.sent[0]
    line.session.answered(portion, attempt, results)
    assert (line.publisher.answers, line.lost, line.session.open) == ([], 1, False)
    line.open_again()
    line.answer(1)
    assert line.publisher.answers == [(1, True), (2, True)]


@pytest.mark.usefixtures("pipelined")
def test_without_a_leader_everything_gathers() -> None:
    line = Line()
    line.publish(b"1")
    line.session.flush()
    line.session.failed(0)
    line.publish(b"2", tag=2)
    line.session.flush()
    assert len(line.sent) == 1
    line.open_again()
    line.answer(1)
    assert [bodies_of(portion) for portion, _ in line.sent[1:]] == [[b"1"], [b"2"]]


def test_an_enqueue_says_up_to_where_its_session_has_answers() -> None:
    line = Line()
    line.publish(b"a", b"b")
    line.session.flush()
    line.answer(0)
    line.publish(b"c", tag=3)
    line.session.flush()
    (op,) = line.ops()
    assert isinstance(op, Enqueue)
    assert (op.sequence, op.answered) == (3, 3)


def test_refusals_reach_their_publishers() -> None:
    line = Line()
    line.publish(b"a", joined=False)
    line.publish(b"b", tag=2, joined=False)
    line.session.flush()
    line.answer(0, ResultCode.ACCEPTED, ResultCode.REJECTED)
    assert line.publisher.answers == [(1, True), (2, False)]


def test_whoever_asks_is_given_the_result() -> None:
    line = Line()
    told: list[Any] = []
    line.session.say(Purge(), told.append)
    line.session.say(Tick())
    line.session.flush()
    line.answer(0, Purged(4), None)
    assert told == [Purged(4)]


def test_what_an_answer_causes_to_be_said_is_said() -> None:
    line = Line()
    line.session.say(Purge(), lambda result: line.session.say(Tick()))
    line.session.flush()
    line.answer(0, Purged(4))
    assert line.ops() == [Tick()]


def test_bytes_and_messages_that_wait_are_counted() -> None:
    line = Line()
    line.publish(b"a" * 100, b"b" * 100)
    assert line.session.waiting_messages == 2
    assert line.session.waiting_bytes >= 200
    line.session.flush()
    assert line.session.waiting_messages == 2
    line.answer(0)
    assert (line.session.waiting_messages, line.session.waiting_bytes, line.session.idle) == (0, 0, True)


def test_a_closed_session_names_who_still_waited_and_hears_nothing_more() -> None:
    line = Line()
    told: list[Any] = []
    line.publish(b"a")
    line.session.flush()
    line.session.say(Purge(), told.append)
    waiting = line.session.close()
    assert len(waiting) == 2 and line.session.idle
    assert (line.session.waiting_bytes, line.session.waiting_messages) == (0, 0)
    line.answer(0)
    line.session.failed(line.sent[0][1])
    line.session.flush()
    assert (line.publisher.answers, told, len(line.sent), line.lost) == ([], [], 1, 0)


def test_ranges_of_a_settle_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SETTLE_RANGES_MAX", 3)
    line = Line()
    for first in range(1, 11, 2):
        line.session.settle(1, first, 1, Outcome.ACKNOWLEDGED)
    line.session.flush()
    assert [len(op.ranges) for op in line.ops() if isinstance(op, Settle)] == [3, 2]


def test_what_follows_a_numbered_message_does_not_join_it() -> None:
    """It would be taken for a part of what the number says was published before."""
    line = Line()
    content = encode(NO_PROPERTIES, b"numbered")
    line.session.enqueue(Run("", "k", content, 1, 8), None, joined=True, producer=Producer(b"p", 7))
    line.publish(b"plain")
    line.session.flush()
    said = [op for op in line.ops() if isinstance(op, Enqueue)]
    assert [op.producer for op in said] == [Producer(b"p", 7), None]
    assert bodies_of(line.sent[0][0]) == [b"numbered", b"plain"]


@pytest.mark.parametrize("expirations", [(60_000, None), (None, 60_000), (60_000, 1)])
def test_messages_with_another_expiration_do_not_join_and_each_keeps_its_own(
    expirations: tuple[int | None, int | None],
) -> None:
    line = Line()
    for expiration_ms in expirations:
        line.publish(b"a", expiration_ms=expiration_ms)
    line.session.flush()
    assert [op.expiration_ms for op in line.ops() if isinstance(op, Enqueue)] == list(expirations)
