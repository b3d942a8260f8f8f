"""A run that is divided: its messages and its receipt stay together."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, replace

from broker.messages.confirms import ConfirmTracker, Receipt
from broker.messages.message import DiedIn, Run
from broker.messages.run_parts import one_by_one
from broker.queues.queue_type import DeathReason
from broker.session.transactions import Completion
from native.content import encode, messages

BODIES = [b"a", b"bbb", b""]


def run_of(bodies: list[bytes]) -> Run:
    content = b"".join([encode(b"\0\0", body) for body in bodies])
    return Run("x", "k", content, len(bodies), sum(map(len, bodies)), persistent=True)


def tracker() -> ConfirmTracker:
    return ConfirmTracker(lambda: None)


def owed_by(parts: list[tuple[Run, Receipt | None]]) -> list[Receipt]:
    owed = [one for _, one in parts if one is not None]
    assert len(owed) == len(parts)
    return owed


def test_each_message_becomes_a_run_with_its_own_bytes_and_tag() -> None:
    parts = list(one_by_one(run_of(BODIES), tracker().expect(3, 1), 1))
    assert [[body for _, body in messages(run.content, 0, run.count)] for run, _ in parts] == [[one] for one in BODIES]
    assert [run.body_bytes for run, _ in parts] == [1, 3, 0]
    assert [(one.first, one.last) for one in owed_by(parts)] == [(1, 1), (2, 2), (3, 3)]


def test_nobody_waits_for_what_nobody_waited_for() -> None:
    assert [owed for _, owed in one_by_one(run_of(BODIES), None, 2)] == [None, None, None]


def test_a_run_of_one_message_keeps_its_receipt() -> None:
    run, receipt = run_of([b"a"]), tracker().expect(1, 2)
    assert list(one_by_one(run, receipt, 1)) == [(run, receipt)]


def test_the_refusal_of_one_message_is_a_nack_for_it_alone() -> None:
    confirms = tracker()
    first, second, third = owed_by(list(one_by_one(run_of(BODIES), confirms.expect(3, 1), 1)))
    first.accepted()
    second.refused()
    assert confirms.take() == []
    third.accepted()
    assert confirms.take() == [(1, 1, False, True), (2, 2, False, False), (3, 3, False, True)]


def test_a_part_that_gets_lost_leaves_the_run_without_an_answer() -> None:
    confirms = tracker()
    *most, _ = owed_by(list(one_by_one(run_of(BODIES), confirms.expect(3, 1), 1)))
    for part in most:
        part.accepted()
    assert (confirms.take(), confirms.unanswered_count) == ([], 3)


def test_other_queues_answer_for_the_whole_run() -> None:
    confirms = tracker()
    whole = confirms.expect(3, 3)
    parts = owed_by(list(one_by_one(run_of(BODIES), whole, 2)))
    for part in parts:
        part.accepted()
        part.accepted()
    assert confirms.take() == []
    whole.refused()
    assert confirms.take() == [(1, 3, False, False)]


def test_what_parts_still_answer_after_their_run_was_given_up_is_told_to_nobody() -> None:
    confirms = tracker()
    whole = confirms.expect(3, 1)
    parts = owed_by(list(one_by_one(run_of(BODIES), whole, 1)))
    parts[0].accepted()
    whole.give_up()
    whole.give_up()
    parts[1].accepted()
    parts[2].accepted()
    assert confirms.take() == [(1, 3, False, False)]


def test_a_transaction_counts_a_run_that_was_refused_in_part() -> None:
    refusals: list[int] = []
    completion = Completion(refusals.append)
    first, second, third = owed_by(list(one_by_one(run_of(BODIES), completion.expect(3, 1), 1)))
    for answer in (first.accepted, second.refused, third.refused):
        answer()
    completion.close()
    assert refusals == [1]


def test_a_run_with_another_content_is_the_same_in_all_else() -> None:
    values = {field.name: f"its {field.name}" for field in fields(Run)}
    run = Run(**values)  # type: ignore[arg-type]  # each with a value of its own
    assert run.with_content(b"another") == replace(run, content=b"another")


class Places(tuple[tuple[int, int, int], ...]):
    """Looked up one by one."""

    __slots__ = ()

    def __iter__(self) -> Iterator[tuple[int, int, int]]:
        raise AssertionError("all places are walked over to tell one")


def test_where_one_of_many_has_died_is_told_without_a_walk_over_all() -> None:
    """A run of 1,024 delayed messages took 5 ms of a leader's loop so, a fifth of all that it did for them."""
    places = [(nth, 0, 0) for nth in range(1_024)]
    died_in = DiedIn(7, places[0], DeathReason.EXPIRED, Places(places[1:]))
    assert [died_in.of_message(nth).position for nth in range(1_024)] == places
