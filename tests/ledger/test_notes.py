"""What is compared, and what is found."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from analytics.fold.lives import LifeState
from tests.ledger.notes import Notes, Told, compared

QUEUE, BODY = "orders", "1.7"
AT = 1_700_000_000.0
TOLD = Told(LifeState.ACKED, 2, Counter({"nacked": 1}), int(AT * 1_000), "")


def notes() -> Notes:
    made = Notes()
    made.published(QUEUE, BODY, (AT - 0.01, AT + 0.01))
    made.handed_out(QUEUE, BODY)
    made.came_back(QUEUE, BODY, "nacked")
    made.handed_out(QUEUE, BODY)
    made.ended(QUEUE, BODY, LifeState.ACKED)
    return made


def found(*told: Told) -> list[str]:
    return compared(notes(), {QUEUE: {BODY: list(told)}}, 0.1)


def test_what_the_log_tells_as_the_clients_do_is_no_difference() -> None:
    assert found(TOLD) == []


def test_a_time_may_be_as_early_as_a_commit_may_have_begun() -> None:
    early = {QUEUE: {BODY: [replace(TOLD, published_at=int(AT * 1_000) - 200)]}}
    assert compared(notes(), early, 0.3) == []


def test_each_difference_has_a_sentence() -> None:
    assert found() == ["orders: 1.7 is in the log 0 times"]
    assert found(TOLD, TOLD) == ["orders: 1.7 is in the log 2 times"]
    assert found(replace(TOLD, state=LifeState.EXPIRED)) == ["orders: 1.7: it is acked, the log says expired"]
    assert found(replace(TOLD, times_out=3)) == ["orders: 1.7: it was out 2 times, the log says 3"]
    assert "it came back" in found(replace(TOLD, returned=Counter()))[0]
    assert "it was published between" in found(replace(TOLD, published_at=int(AT * 1_000) + 200))[0]
    assert "it was published between" in found(replace(TOLD, published_at=int(AT * 1_000) - 200))[0]
    assert found(replace(TOLD, unknown="a gap")) == ["orders: 1.7: the log does not know: a gap"]
    strange = compared(notes(), {QUEUE: {BODY: [TOLD], "9.9": [TOLD]}}, 0.1)
    assert strange == ["orders: 9.9 is in the log, and nobody published it"]


def test_what_was_settled_right_before_a_kill_may_be_there_again() -> None:
    made = notes()
    made.node_killed({(QUEUE, BODY)})
    assert compared(made, {QUEUE: {BODY: [replace(TOLD, times_out=0, returned=Counter())]}}, 0.1) == []
    made.taken_after_kill(QUEUE, BODY)
    assert made.messages[QUEUE][BODY].times_out == 3
    assert compared(made, {QUEUE: {BODY: [replace(TOLD, times_out=1, returned=Counter())]}}, 0.1) == []
    assert compared(made, {QUEUE: {BODY: [replace(TOLD, times_out=0)]}}, 0.1) != []
