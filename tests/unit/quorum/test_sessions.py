"""What is remembered of sessions and producers, and for how long."""

from __future__ import annotations

from quorum.fifo.commands import SessionKey
from quorum.fifo.producers import PRODUCERS_MAX, Producers
from quorum.fifo.results import Gap, ResultCode
from quorum.fifo.sessions import OVERTAKEN_MAX, SessionProgress, Sessions


def test_what_was_rejected_is_known_until_the_session_has_its_answer() -> None:
    session = SessionProgress()
    for accepted in (True, False, True, False):
        assert session.hear(session.next_sequence, 3, 1) is None
        session.enqueued(3, accepted)
    assert [session.hear(first, 3, 1) for first in (1, 4, 7, 10)] == [
        ResultCode.DUPLICATE,
        ResultCode.REJECTED,
        ResultCode.DUPLICATE,
        ResultCode.REJECTED,
    ]
    assert session.hear(14, 1, 7) == Gap(13)
    assert session.rejected.ranges() == [(10, 13)]


def test_a_run_that_is_cut_in_another_way_is_not_taken_for_a_new_one() -> None:
    session = SessionProgress()
    session.enqueued(5, True)
    assert session.hear(4, 5, 1) == Gap(6)


def test_each_number_begins_once_in_whatever_order() -> None:
    session = SessionProgress()
    order = [3, 1, 5, 4, 2, 9, 6]
    assert [session.begin(number) for number in order] == [True] * len(order)
    assert [session.begin(number) for number in order] == [False] * len(order)
    assert [session.begin(number) for number in (7, 8, 10)] == [True] * 3
    assert not session.overtaken


def test_numbers_that_never_come_are_forgotten_in_the_end() -> None:
    session = SessionProgress()
    session.begin(OVERTAKEN_MAX * 10)
    assert session.overtaken.count == OVERTAKEN_MAX
    assert not session.begin(1)


def test_a_life_that_is_over_does_not_come_back() -> None:
    sessions = Sessions()
    assert sessions.of(2, 1) is sessions.of(2, 1)
    first = sessions.of(2, 1)
    sessions.of(2, 3)
    sessions.of(4, 1)
    assert sessions.end(SessionKey(2, 2)) == [SessionKey(2, 1)]
    assert sessions.of(2, 2) is None
    assert sessions.of(2, 1) is None
    assert sessions.of(2, 3) is not first
    assert sessions.end(SessionKey(2, 1)) == []
    assert sessions.gone == {2: 2}


def test_the_producer_that_is_silent_longest_is_forgotten_first() -> None:
    producers = Producers()
    for number in range(PRODUCERS_MAX):
        producers.say(b"%d" % number, 5)
    producers.say(b"0", 6)
    producers.say(b"another", 1)
    assert len(producers.highest) == PRODUCERS_MAX
    assert not producers.has_said(b"1", 5)
    assert producers.has_said(b"0", 6)
    assert not producers.has_said(b"0", 7)
    assert producers.has_said(b"another", 0)
