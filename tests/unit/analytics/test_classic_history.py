"""The history of a classic queue, kind by kind of its records, and what a fold has to tell before it was given any."""

from __future__ import annotations

import gc

import pytest

from analytics.fold.folded_history import QueueHistory
from analytics.fold.lives import DELIVERED, PUBLISHED, RETURNED, LifeState
from analytics.fold.queue_history import HistoryFold, folded, uncollected
from analytics.queue_events import QueueEvent
from broker.queues.queue_type import BackReason
from classic.store.log_records import (
    BY_ACTORS,
    DIED_EACH,
    Checkpoint,
    DoneReason,
    encode_checkpoint,
    encode_death,
    encode_part,
    encode_published,
    encode_reasoned,
    encode_settled,
)
from native.sequence_set import SequenceSet
from storage.record import Kind

QUEUE = 7


def ranges(*pairs: tuple[int, int]) -> SequenceSet:
    made = SequenceSet()
    for first, end in pairs:
        made.add(first, end)
    return made


def event(kind: Kind, data: bytes, first: int = 0, at: int = 1) -> QueueEvent:
    return QueueEvent(QUEUE, at, 0, kind, at * 1_000, first, data)


def published(first: int, count: int, flags: int = 0, origin: bytes = b"", at: int = 1) -> QueueEvent:
    head = encode_published([(QUEUE, first)], 4, count, 10 * count, None, "x", "k", flags, origin)
    return event(Kind.CLASSIC_PUBLISH, head, first, at)


def counts(history: QueueHistory) -> dict[LifeState, int]:
    found = dict.fromkeys((life.state for life in history.lives), 0)
    for life in history.lives:
        found[life.state] += life.count
    return found


def test_what_a_purge_of_an_earlier_build_took_was_purged() -> None:
    gone = event(Kind.CLASSIC_PURGE, encode_settled(QUEUE, ranges((0, 2), (3, 4))))
    assert counts(folded([published(0, 5), gone])) == {LifeState.PURGED: 3, LifeState.READY: 2}


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Kind.CLASSIC_PUBLISH, encode_published([(QUEUE, 9)], 4, 1, 10, None, "exchange", "key")),
        (
            Kind.CLASSIC_PUBLISH,
            encode_published(
                [(QUEUE, 9)], 4, 1, 10, None, "x", "k", DIED_EACH | BY_ACTORS,
                encode_death(8, (1, 2, 3), 1) + encode_part(5, 6, 1),
            ),
        ),
        (Kind.CLASSIC_SETTLE, encode_settled(QUEUE, ranges((0, 1)))),
        (Kind.CLASSIC_PURGE, encode_settled(QUEUE, ranges((0, 1)))),
        (Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 5, DoneReason.ACKNOWLEDGED, ranges((0, 1)))),
        (Kind.CLASSIC_OUT, encode_reasoned(QUEUE, 5, 0, ranges((0, 1)))),
        (Kind.CLASSIC_BACK, encode_reasoned(QUEUE, 5, BackReason.NACKED, ranges((0, 1)))),
        (Kind.CLASSIC_CHECKPOINT, encode_checkpoint(Checkpoint(QUEUE, 1, 1, [9], [(0, 1)], [(1, 2)]))),
    ],
)  # fmt: skip
def test_a_record_that_is_cut_off_anywhere_ends_no_fold_and_what_comes_behind_it_counts(
    kind: Kind, data: bytes
) -> None:
    gone = event(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 5, DoneReason.EXPIRED, ranges((1, 2))), at=3)
    for size in range(len(data)):
        history = folded([published(0, 3), event(kind, data[:size], 9, at=2), gone])
        assert counts(history).get(LifeState.EXPIRED) == 1, size
        assert sum(life.count for life in history.lives) in (3, 4), size


def test_messages_that_each_died_in_a_place_of_its_own_are_lives_of_their_own() -> None:
    deaths = [(8, (4, 0, 0), 1), (1 << 32, (5, 6, 7), 0)]
    origin = b"".join(encode_death(*one) for one in deaths)
    lives = folded([published(3, 2, DIED_EACH, origin)]).lives
    assert [(life.entry, life.first, life.count, life.publish.died_in) for life in lives] == [
        (3, 0, 1, deaths[0]),
        (3, 1, 1, deaths[1]),
    ]
    assert {(life.publish.messages, life.publish.body_bytes) for life in lives} == {(1, 10)}


def test_each_step_is_told_with_who_did_it_if_steps_are_asked_for() -> None:
    found = [
        published(0, 3, BY_ACTORS, encode_part(4, 1, 3)),
        event(Kind.CLASSIC_OUT, encode_reasoned(QUEUE, 5, 0, ranges((0, 1))), at=2),
        event(Kind.CLASSIC_BACK, encode_reasoned(QUEUE, 5, BackReason.NACKED, ranges((0, 1))), at=3),
        event(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 6, DoneReason.ACKNOWLEDGED, ranges((0, 1))), at=4),
        event(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 9, DoneReason.PURGED, ranges((1, 2))), at=5),
        event(Kind.CLASSIC_DONE, encode_reasoned(QUEUE, 0, DoneReason.EXPIRED, ranges((2, 3))), at=6),
    ]
    steps = folded(found, with_steps=True).steps
    assert [(one.first, one.messages, one.what, one.consumer, one.at) for one in steps] == [
        (0, 3, PUBLISHED, 4, 1), (0, 1, DELIVERED, 5, 2), (0, 1, RETURNED, 5, 3), (0, 1, LifeState.ACKED, 6, 4),
        (1, 1, LifeState.PURGED, 9, 5), (2, 1, LifeState.EXPIRED, None, 6),
    ]  # fmt: skip
    assert folded(found).steps == []


def test_a_fold_that_was_given_nothing_has_nothing_to_tell() -> None:
    fold = HistoryFold(with_steps=True)
    assert (fold.take_steps(), fold.take_ended(), fold.going_on()) == ([], [], [])
    fold.end(is_whole=True)
    assert fold.history == QueueHistory()


def test_nothing_is_collected_while_lives_are_made_and_all_is_as_before_then() -> None:
    assert gc.isenabled()
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled(), "who has turned it off already wants it so"
    assert gc.isenabled()
