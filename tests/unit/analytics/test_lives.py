"""What is noted of lives step by step: who did what to which messages, and when."""

from __future__ import annotations

from analytics.fold.lives import DELIVERED, PUBLISHED, RETURNED, LifeState, LifeStep, Lives, PublishedRun

ENTRY, OFFSET = 17, 9
RUN = PublishedRun(100, 3, 30, actor=4)


def test_steps_say_of_which_messages_when_and_who() -> None:
    lives = Lives(with_steps=True)
    lives.published(ENTRY, OFFSET, RUN, RUN._replace(at=101, messages=2, actor=5))
    lives.handed_out(ENTRY, OFFSET, 1, 1, 110, "c1")
    lives.came_back(ENTRY, OFFSET, 1, 1, "nacked", 120)
    lives.ended(ENTRY, OFFSET, 1, 1, LifeState.EXPIRED, 130)
    lives.ended(ENTRY, OFFSET, 2, 1, LifeState.PURGED, 140, "purger")
    assert lives.take_steps() == [
        LifeStep(ENTRY, OFFSET, 0, 3, PUBLISHED, 100, 4),
        LifeStep(ENTRY, OFFSET, 3, 2, PUBLISHED, 101, 5),
        LifeStep(ENTRY, OFFSET, 1, 1, DELIVERED, 110, "c1"),
        LifeStep(ENTRY, OFFSET, 1, 1, RETURNED, 120, "c1", "nacked"),
        LifeStep(ENTRY, OFFSET, 1, 1, "expired", 130),
        LifeStep(ENTRY, OFFSET, 2, 1, "purged", 140, "purger"),
    ]
    assert lives.take_steps() == []


def test_a_run_that_one_consumer_has_at_once_has_both_steps() -> None:
    lives = Lives(with_steps=True)
    lives.published_to(ENTRY, OFFSET, RUN, "c1")
    lives.ended(ENTRY, OFFSET, 0, 3, LifeState.ACKED, 130)
    assert lives.take_steps() == [
        LifeStep(ENTRY, OFFSET, 0, 3, PUBLISHED, 100, 4),
        LifeStep(ENTRY, OFFSET, 0, 3, DELIVERED, 100, "c1"),
        LifeStep(ENTRY, OFFSET, 0, 3, "acked", 130, "c1"),
    ]


def test_only_what_goes_on_has_not_ended() -> None:
    assert {state for state in LifeState if not state.has_ended} == {LifeState.READY, LifeState.OUT, LifeState.KEPT}


def test_times_are_told_where_both_ends_are_known() -> None:
    lives = Lives()
    lives.published(ENTRY, OFFSET, RUN)
    lives.handed_out(ENTRY, OFFSET, 0, 1, 107, "c1")
    lives.ended(ENTRY, OFFSET, 0, 1, LifeState.ACKED, None)
    (life,) = lives.take_ended()
    assert (life.wait_ms, life.hold_ms) == (7, None)
