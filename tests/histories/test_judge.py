"""The judge must find what it is there to find, and must not blame the broker for what clients cannot know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.histories.judge import judge
from tests.histories.records import (
    Acknowledged,
    Attempted,
    Confirmed,
    Delivered,
    Drained,
    History,
    Left,
    Record,
    Refused,
    Rejected,
    Requeued,
    Settled,
    WentBack,
)
from tests.histories.rules import QueueRules, Rules

RULES = Rules((QueueRules("q", frozenset({"p"})),))
LIMITED = Rules(
    (
        QueueRules("q", frozenset({"p"}), dead_letters_to="dead", at_least_once=True, delivery_limit=1),
        QueueRules("dead", may_hold_twice=True),
    )
)
SHORT_LIVED = Rules(
    (QueueRules("q", frozenset({"p"}), dead_letters_to="dead", expires_s=1.0), QueueRules("dead", may_hold_twice=True))
)
AT_LEAST_ONCE = Rules(
    (
        QueueRules("q", frozenset({"p"}), dead_letters_to="dead", at_least_once=True),
        QueueRules("dead", may_hold_twice=True),
    )
)
AT_MOST_ONCE = Rules((QueueRules("q", frozenset({"p"}), dead_letters_to="dead"), QueueRules("dead")))
EMPTY = [Drained(99.0, "q", "n1", 0)]
BOTH_EMPTY = [*EMPTY, Drained(99.0, "dead", "n1", 0)]


def sent(*numbers: int, confirmed: bool = True) -> History:
    found: History = []
    for number in numbers:
        found.append(Attempted(number / 100, "p", number))
        if confirmed:
            found.append(Confirmed(number / 100 + 0.001, "p", number))
    return found


def got(
    delivery: int,
    number: int,
    *,
    queue: str = "q",
    at: float = 0.0,
    again: int = 0,
    flagged: bool | None = None,
    failures: int = 0,
    deaths: tuple[tuple[str, str], ...] = (),
    consumer: str = "c",
) -> Delivered:
    redelivered = bool(again) if flagged is None else flagged
    at = at or 1.0 + delivery
    return Delivered(at, delivery, queue, consumer, "p", number, redelivered, failures, again, deaths)


def acked(delivery: int, *, sure: bool = False) -> list[Record]:
    answered: list[Record] = [Acknowledged(1.5 + delivery, delivery)]
    return [*answered, Settled(1.6 + delivery, delivery)] if sure else answered


def failed(delivery: int) -> list[Record]:
    return [Requeued(1.5 + delivery, delivery), Settled(1.6 + delivery, delivery)]


TWENTY_TIMES = Rules((QueueRules("q", frozenset({"p"}), delivery_limit=20),))
RIGHT: dict[str, tuple[Rules, History]] = {
    "all came, in order": (RULES, [*sent(1, 2), got(1, 1), got(2, 2), *acked(1, sure=True), *acked(2), *EMPTY]),
    "what was not confirmed is not there": (RULES, [*sent(1, confirmed=False), *EMPTY]),
    "what was refused is there all the same": (
        RULES, [*sent(1, confirmed=False), Refused(0.5, "p", 1), got(1, 1), *acked(1), *EMPTY]
    ),
    "an acknowledgement that was lost with its connection": (
        RULES, [*sent(1), got(1, 1), *acked(1), got(2, 1, again=1), *acked(2, sure=True), *EMPTY]
    ),
    "a delivery that was decided first and came last": (
        RULES, [*sent(1), got(1, 1, again=1), *acked(1, sure=True), got(2, 1, again=0, at=9.0), *EMPTY]
    ),
    "what came back is out of order": (
        RULES, [*sent(1, 2), got(1, 1), Requeued(2.1, 1), got(2, 2), *acked(2), got(3, 1, again=1), *acked(3), *EMPTY]
    ),
    "what went back unseen comes later to another": (
        RULES, [*sent(1, 2), got(1, 2), *acked(1), Left(2.5, "q", "b", 10), got(2, 1), *acked(2), *EMPTY]
    ),
    "failed as often as the limit allows, and gone with a consumer that did not see it": (
        TWENTY_TIMES, [*sent(1), got(1, 1, again=19, failures=19), *failed(1), Left(3.0, "q", "b", 1), *EMPTY]
    ),
    "two consumers, each in order": (
        RULES, [*sent(1, 2), got(1, 2, consumer="b"), *acked(1), got(2, 1), *acked(2), *EMPTY]
    ),
    "rejected, and found where dead letters go": (
        AT_LEAST_ONCE,
        [*sent(1), got(1, 1), Rejected(2.1, 1), got(2, 1, queue="dead", deaths=(("q", "rejected"),)), *acked(2), *BOTH_EMPTY],
    ),
    "dead-lettered twice, at least once": (
        AT_LEAST_ONCE,
        [
            *sent(1), got(1, 1), Rejected(2.1, 1),
            got(2, 1, queue="dead", deaths=(("q", "rejected"),)), *acked(2, sure=True),
            got(3, 1, queue="dead", deaths=(("q", "rejected"),)), *acked(3), *BOTH_EMPTY,
        ],
    ),
    "rejected, and lost on the way, at most once": (AT_MOST_ONCE, [*sent(1), got(1, 1), Rejected(2.1, 1), *BOTH_EMPTY]),
    "rejected where nobody wants dead letters": (RULES, [*sent(1), got(1, 1), Rejected(2.1, 1), *EMPTY]),
    "expired after its time": (
        SHORT_LIVED,
        [*sent(1), got(1, 1, queue="dead", at=1.2, deaths=(("q", "expired"),)), *acked(1), *BOTH_EMPTY],
    ),
    "failed as often as the limit allows, and once more": (
        LIMITED,
        [
            *sent(1), got(1, 1), *failed(1), got(2, 1, again=1, failures=1), *failed(2),
            got(3, 1, queue="dead", deaths=(("q", "delivery_limit"),)), *acked(3), *BOTH_EMPTY,
        ],
    ),
}  # fmt: skip
WRONG: dict[str, tuple[Rules, History, str]] = {
    "confirmed and never seen": (RULES, [*sent(1, 2), got(1, 1), *acked(1), *EMPTY], "1 confirmed messages are lost: p:2"),
    "delivered to a client that died, and never again": (RULES, [*sent(1), got(1, 1), *EMPTY], "lost: p:1"),
    "rejected and in neither queue, at least once": (
        AT_LEAST_ONCE, [*sent(1), got(1, 1), Rejected(2.1, 1), *BOTH_EMPTY], "lost: p:1"
    ),
    "gone to the dead letters by itself": (AT_MOST_ONCE, [*sent(1), *BOTH_EMPTY], "lost: p:1"),
    "never sent": (RULES, [got(1, 7), *EMPTY], "that nobody sent: p:7"),
    "delivered before it was sent": (RULES, [got(1, 1, at=0.001), *sent(1), *acked(1), *EMPTY], "before they were sent"),
    "sent elsewhere": (
        Rules((*RULES.queues, QueueRules("other", frozenset({"o"})))),
        [*sent(1), got(1, 1), *acked(1), got(2, 1, queue="other"), *EMPTY, Drained(99.0, "other", "n1", 0)],
        "other: 1 messages were delivered that were not sent here",
    ),
    "refused for certain and there": (
        RULES, [*sent(1, confirmed=False), Refused(0.5, "p", 1, certain=True), got(1, 1), *acked(1), *EMPTY],
        "refused for certain",
    ),
    "again after a committed acknowledgement": (
        RULES, [*sent(1), got(1, 1), *acked(1, sure=True), got(2, 1, again=1), *acked(2), *EMPTY],
        "again after their acknowledgement",
    ),
    "again after a committed acknowledgement, by the clock": (
        RULES, [*sent(1), got(1, 1), *acked(1, sure=True), got(2, 1, flagged=True), *acked(2), *EMPTY], "again after their"
    ),
    "twice as if for the first time": (
        RULES, [*sent(1), got(1, 1), *acked(1), got(2, 1), *acked(2), *EMPTY], "without the flag"
    ),
    "out of order": (
        RULES, [*sent(1, 2), got(1, 2), *acked(1), got(2, 1), *acked(2), *EMPTY], "c got p:1 after 2"
    ),
    "out of order more often than went back": (
        RULES,
        [*sent(1, 2, 3, 4), got(1, 2), got(2, 1), got(3, 4), got(4, 3), Left(1.0, "q", "b", 1),
         *acked(1), *acked(2), *acked(3), *acked(4), *EMPTY],
        "2 messages came out of order, and 1 of them",
    ),
    "a whole run behind a later message, and one went back": (
        RULES,
        [*sent(1, 2, 3), got(1, 3), Left(2.5, "q", "b", 1), got(2, 1), got(3, 2), *acked(1), *acked(2), *acked(3), *EMPTY],
        "2 messages came out of order, and 1 of them",
    ),
    "every pair the wrong way round, and who left had gone before they were sent": (
        RULES,
        [Left(-6.0, "q", "b", 10), *sent(*range(1, 21)),
         *[got(at, at + 1 if at % 2 else at - 1) for at in range(1, 21)],
         *[one for at in range(1, 21) for one in acked(at)], *EMPTY],
        "10 messages came out of order, and 10 of them",
    ),
    "out of order, and somebody left long afterwards": (
        RULES,
        [*sent(1, 2), got(1, 2), got(2, 1), *acked(1), *acked(2), Left(9.0, "q", "b", 10), *EMPTY],
        "1 messages came out of order, and 1 of them",
    ),
    "out of order, and another message went back": (
        Rules(RULES.queues, knows_what_went_back=True),
        [*sent(1, 2, 3), got(1, 3), WentBack(2.5, "q", "p", 1), got(2, 1), got(3, 2), *acked(1), *acked(2), *acked(3), *EMPTY],
        "2 messages came out of order, and 1 of them cannot have gone back unseen: c got p:2 after 3",
    ),
    "delivered once of the times that a limit allows, and never again": (
        TWENTY_TIMES, [*sent(1), got(1, 1), Left(2.5, "q", "c", 1), *EMPTY], "lost: p:1"
    ),
    "dead-lettered as rejected by nobody": (
        AT_LEAST_ONCE, [*sent(1), got(1, 1, queue="dead", deaths=(("q", "rejected"),)), *acked(1), *BOTH_EMPTY],
        "no client has rejected",
    ),
    "expired too early": (
        SHORT_LIVED,
        [*sent(1), got(1, 1, queue="dead", at=0.9, deaths=(("q", "expired"),)), *acked(1), *BOTH_EMPTY],
        "it lived 0.890 s of 1.000",
    ),
    "expired without a time to live": (
        AT_MOST_ONCE, [*sent(1), got(1, 1, queue="dead", deaths=(("q", "expired"),)), *acked(1), *BOTH_EMPTY], "no time to live"
    ),
    "beyond a limit that is not set": (
        AT_MOST_ONCE,
        [*sent(1), got(1, 1, queue="dead", deaths=(("q", "delivery_limit"),)), *acked(1), *BOTH_EMPTY],
        "there is no limit",
    ),
    "among the dead letters without a reason": (
        AT_MOST_ONCE, [*sent(1), got(1, 1, queue="dead"), *acked(1), *BOTH_EMPTY], "without a reason"
    ),
    "handed out beyond the limit": (
        LIMITED,
        [*sent(1), got(1, 1), *failed(1), got(2, 1, again=1, failures=2), *acked(2), *BOTH_EMPTY],
        "after more than 1 failures",
    ),
    "failed more often than the limit allows": (
        LIMITED,
        [*sent(1), got(1, 1), *failed(1), got(2, 1, again=1), *failed(2), got(3, 1, again=2), *failed(3),
         got(4, 1, again=3), *acked(4), *BOTH_EMPTY],
        "failed more than 2 times",
    ),
    "not drained": (RULES, [Drained(99.0, "q", "n2", 3)], "did not drain on n2: 3 messages are left"),
    "nobody could drain it": (RULES, [], "was never drained"),
    "from a queue that nobody knows": (RULES, [*sent(1), got(1, 1, queue="x"), *EMPTY], "deliveries came from x"),
}  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_what_keeps_all_promises_is_right(name: str) -> None:
    rules, history = RIGHT[name]
    assert judge(history, rules) == []


def test_where_clocks_were_set_a_time_to_live_may_seem_shorter() -> None:
    rules, records, _ = WRONG["expired too early"]
    assert judge(records, replace(rules, clocks_keep_time=False)) == []


@pytest.mark.parametrize("name", WRONG)
def test_what_breaks_a_promise_is_found(name: str) -> None:
    rules, history, expected = WRONG[name]
    wrong = judge(history, rules)
    assert any(expected in one for one in wrong), wrong


@pytest.mark.parametrize(
    "history",
    [
        [*sent(1), *sent(1)],
        [Confirmed(1.0, "p", 1)],
        [*sent(1), got(1, 1), got(1, 1)],
        [*sent(1), got(1, 1), *acked(1), *acked(1)],
        [Acknowledged(1.0, 7)],
        [*sent(1), got(1, 1), Settled(2.0, 1)],
    ],
)
def test_records_that_contradict_each_other_are_no_fault_of_the_broker(history: History) -> None:
    with pytest.raises(ValueError):
        judge(history, RULES)


def test_a_publisher_that_connected_anew_feeds_the_same_queues() -> None:
    history: History = [
        Attempted(0.1, "p/2", 1),
        Confirmed(0.2, "p/2", 1),
        Delivered(0.3, 1, "q", "c", "p/2", 1),
        Acknowledged(0.4, 1),
        *EMPTY,
    ]
    assert judge(history, RULES) == []
