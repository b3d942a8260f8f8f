"""Numbers of actors are those of one process of a node: who of several somebody is says where the log names them."""

from __future__ import annotations

import pytest

from analytics.fold.lives import NODE_KILLED, LifeState
from analytics.fold.node_processes import PLACE_UNKNOWN, ClassicActor, NodeProcesses, ProcessBegin
from analytics.fold.queue_history import folded
from analytics.queue_events import QueueEvent
from classic.store.log_records import BY_ACTORS, DoneReason, encode_part, encode_published, encode_reasoned
from native.log_tables import FILE_BITS
from native.sequence_set import SequenceSet
from storage.record import Kind

QUEUE = 7
FIRST, SECOND = 1 << FILE_BITS | 500, 2 << FILE_BITS | 90
PROCESSES = NodeProcesses([ProcessBegin("n1", 22, FIRST), ProcessBegin("n1", 11, SECOND), ProcessBegin("n2", 33, 1)])


@pytest.mark.parametrize(
    ("node", "place", "incarnation"),
    [
        ("n1", FIRST - 1, None), ("n1", FIRST, 22), ("n1", SECOND - 1, 22), ("n1", SECOND, 11), ("n1", 9 << FILE_BITS, 11),
        ("n2", FIRST, 33), ("n3", SECOND, None),
    ],
)  # fmt: skip
def test_a_record_is_of_the_process_that_has_begun_last(node: str, place: int, incarnation: int | None) -> None:
    assert PROCESSES.at(node, place) == incarnation


def test_of_a_node_of_whose_processes_one_may_have_begun_anywhere_nothing_is_said() -> None:
    vague = NodeProcesses(
        [ProcessBegin("n1", 22, PLACE_UNKNOWN), ProcessBegin("n1", 11, SECOND), ProcessBegin("n2", 33, 1)]
    )
    assert (vague.at("n1", SECOND), vague.at("n2", SECOND)) == (None, 33)


def event(kind: Kind, place: int, data: bytes, first: int = 0) -> QueueEvent:
    return QueueEvent(QUEUE, place, 0, kind, 1_000, first, data, node="n1")


def published(place: int, first: int, actor: int) -> QueueEvent:
    head = encode_published([(QUEUE, first)], 4, 1, 5, None, "", "q", BY_ACTORS, encode_part(actor, 1, 1))
    return event(Kind.CLASSIC_PUBLISH, place, head, first)


def about(kind: Kind, place: int, sequence: int, actor: int, reason: int = 0) -> QueueEvent:
    which = SequenceSet()
    which.add(sequence, sequence + 1)
    return event(kind, place, encode_reasoned(QUEUE, actor, reason, which))


def test_actors_of_one_number_in_two_processes_are_two() -> None:
    """They were one, to whom all that both had done was put down."""
    acked = DoneReason.ACKNOWLEDGED
    told = [
        published(FIRST + 1, 0, 5),
        about(Kind.CLASSIC_DONE, FIRST + 2, 0, 6, acked),
        published(SECOND + 1, 1, 5),
        about(Kind.CLASSIC_DONE, SECOND + 2, 1, 6, acked),
    ]
    history = folded(told, processes=PROCESSES)
    assert [life.last_consumer for life in history.lives] == [("n1", 22, 6), ("n1", 11, 6)]
    assert [history.actor_of(life.last_consumer) for life in history.lives] == [6, 6]
    assert [(*(life.publish.process or ()), life.publish.actor) for life in history.lives] == [
        ("n1", 22, 5),
        ("n1", 11, 5),
    ]
    plain = folded(told)
    assert [(life.last_consumer, life.publish.process, life.publish.actor) for life in plain.lives] == [
        (6, None, 5)
    ] * 2


def test_who_had_a_message_before_its_node_was_killed_is_not_the_one_of_the_same_number_who_took_it_later() -> None:
    told = [
        published(FIRST + 1, 0, 5),
        about(Kind.CLASSIC_OUT, FIRST + 2, 0, 6),
        about(Kind.CLASSIC_DONE, SECOND + 2, 0, 6, DoneReason.ACKNOWLEDGED),
    ]
    (life,) = folded(told, processes=PROCESSES).lives
    assert (life.state, life.returned, life.times_out) == (LifeState.ACKED, {NODE_KILLED: 1}, 2)
    assert (life.first_consumer, life.last_consumer) == (ClassicActor("n1", 22, 6), ClassicActor("n1", 11, 6))


def test_what_nobody_did_has_no_process() -> None:
    told = [published(FIRST + 1, 0, 0), about(Kind.CLASSIC_DONE, FIRST + 2, 0, 0, DoneReason.EXPIRED)]
    (life,) = folded(told, processes=PROCESSES).lives
    assert (life.publish.process, life.publish.actor, life.last_consumer) == (None, None, None)
