"""links/backoff.py."""

from __future__ import annotations

from links.backoff import Backoff


def test_each_failure_doubles_the_delay_up_to_a_minute() -> None:
    backoff = Backoff(5.0, lambda: 0.5)
    assert [backoff.failed() for _ in range(6)] == [5.0, 10.0, 20.0, 40.0, 60.0, 60.0]
    backoff.worked()
    assert backoff.failed() == 5.0


def test_a_longer_delay_than_a_minute_stays() -> None:
    backoff = Backoff(300.0, lambda: 0.5)
    assert [backoff.failed(), backoff.failed()] == [300.0, 300.0]


def test_many_links_do_not_begin_again_at_once() -> None:
    assert Backoff(4.0, lambda: 0.0).failed() == 3.0
    assert Backoff(4.0, lambda: 1.0).failed() == 5.0


def test_no_delay_is_no_next_try() -> None:
    assert Backoff(0.0, lambda: 0.5).failed() is None
