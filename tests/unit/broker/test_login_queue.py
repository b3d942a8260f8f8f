"""broker/login/login_queue.py: whose password is checked next, under floods, by a clock of the test's own."""

from __future__ import annotations

import pytest

from broker.login import login_queue
from broker.login.login_queue import SOURCES_MAX, Full, LoginLimits, LoginQueue

CHECK_S = 0.025


def drain(queue: LoginQueue[str]) -> list[str]:
    """In the order of checks; all of them are right, so nobody is slowed down."""
    taken = []
    while (next_one := queue.take(0.0)) is not None:
        taken.append(next_one[1])
    return taken


def test_a_source_that_asks_for_much_delays_another_one_by_one_check() -> None:
    queue: LoginQueue[str] = LoginQueue()
    for number in range(100):
        queue.offer("flood", f"u{number}", f"flood {number}")
    queue.offer("client", "app", "client")
    assert drain(queue)[:3] == ["flood 0", "client", "flood 1"]


def test_a_flood_against_one_user_delays_another_user_of_the_same_source_by_one_check() -> None:
    queue: LoginQueue[str] = LoginQueue()
    for number in range(10):
        queue.offer("nat", "guest", f"guest {number}")
    queue.offer("nat", "app", "app")
    assert drain(queue)[:3] == ["guest 0", "app", "guest 1"]


def test_256_users_of_one_source_are_all_checked_without_a_pause() -> None:
    queue: LoginQueue[str] = LoginQueue()
    for number in range(256):
        queue.offer("nat", f"u{number}", f"u{number}")
    now, checked = 0.0, 0
    while (taken := queue.take(now)) is not None:
        queue.checked(taken[0], True, now, now + CHECK_S)
        now += CHECK_S
        checked += 1
    assert checked == 256 and not len(queue)
    assert now == pytest.approx(256 * CHECK_S)


def checks_in(queue: LoginQueue[str], source: str, seconds: float, start: float = 0.0) -> int:
    """How many wrong passwords of a source that always has more are checked in this time."""
    now, checked = start, 0
    while now < start + seconds:
        queue.offer(source, f"u{checked}", "wrong")
        while (taken := queue.take(now)) is None:
            at = queue.next_at()
            assert at is not None and at > now, "it waits for nothing"
            now = at
        queue.checked(source, False, now, now + CHECK_S)
        now += CHECK_S
        checked += 1
        assert taken == (source, "wrong")
    return checked


def test_a_source_whose_passwords_are_wrong_is_slowed_down_and_forgiven() -> None:
    limits = LoginLimits(failures_free=10, failure_forgiven_s=6.0, spacing_s=0.5)
    queue: LoginQueue[str] = LoginQueue(limits)
    assert checks_in(queue, "guesser", 10.0) <= 10 + 10.0 / 0.5 + 3
    an_hour_later = 3_600.0
    assert 10 <= checks_in(queue, "guesser", 10 * 2 * CHECK_S, an_hour_later) <= 11, "ten are free again"


def test_a_source_that_is_slowed_down_holds_up_no_other() -> None:
    queue: LoginQueue[str] = LoginQueue(LoginLimits(failures_free=0, spacing_s=5.0))
    queue.checked("guesser", False, 0.0, 0.0)
    queue.offer("guesser", "u", "wrong")
    assert queue.take(1.0) is None and queue.next_at() == 5.0
    queue.offer("client", "app", "right")
    assert queue.next_at() == 0.0
    assert queue.take(1.0) == ("client", "right")
    assert queue.take(5.0) == ("guesser", "wrong")


def test_guessing_from_many_sources_takes_half_of_the_time_at_most() -> None:
    queue: LoginQueue[str] = LoginQueue()
    now = busy = 0.0
    for number in range(200):
        queue.offer(f"source {number}", "u", "wrong")
    while (at := queue.next_at()) is not None:
        now = max(now, at)
        taken = queue.take(now)
        assert taken is not None
        queue.checked(taken[0], False, now, now + CHECK_S)
        now += CHECK_S
        busy += CHECK_S
    assert busy / now <= 0.51


def test_what_waits_is_bounded_for_a_user_and_for_a_source() -> None:
    queue: LoginQueue[str] = LoginQueue(LoginLimits(waiting_per_source=5, waiting_per_user=2))
    queue.offer("s", "guest", "1")
    queue.offer("s", "guest", "2")
    with pytest.raises(Full, match="2 passwords for one user"):
        queue.offer("s", "guest", "3")
    for user in "abc":
        queue.offer("s", user, user)
    with pytest.raises(Full, match="5 logins from one address"):
        queue.offer("s", "d", "d")
    assert queue.offer("t", "guest", "other") is None
    assert len(queue) == 6


def test_a_full_queue_has_the_greediest_source_give_up_its_newest() -> None:
    queue: LoginQueue[str] = LoginQueue(LoginLimits(waiting=4))
    for number in range(4):
        queue.offer("flood", "u", str(number))
    assert queue.offer("a", "u", "a") == "3"
    assert queue.offer("b", "u", "b") == "2"
    with pytest.raises(Full, match="4 logins are waiting"):
        queue.offer("flood", "u", "more")
    assert sorted(drain(queue)) == ["0", "1", "a", "b"]


def test_failures_of_ever_new_sources_cost_no_more_memory() -> None:
    queue: LoginQueue[str] = LoginQueue()
    for number in range(SOURCES_MAX + 10):
        queue.checked(str(number), False, 0.0, 0.0)
    assert len(queue._failures) == SOURCES_MAX


def test_of_too_many_sources_that_fail_those_are_forgotten_that_failed_longest_ago(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The newest were, and whoever came behind so many others guessed as fast as it liked."""
    monkeypatch.setattr(login_queue, "SOURCES_MAX", 2)
    queue: LoginQueue[str] = LoginQueue(LoginLimits(failures_free=1, spacing_s=5.0))
    for source in ("old", "other", "newest", "newest"):
        queue.checked(source, False, 0.0, 0.0)
    queue.offer("newest", "user", "guess")
    assert queue.take(4.9) is None and queue.take(5.0) == ("newest", "guess")


def test_a_full_queue_takes_nothing_from_a_source_that_would_then_wait_for_no_more_than_the_other() -> None:
    queue: LoginQueue[str] = LoginQueue(LoginLimits(waiting=3))
    for source, item in (("a", "1"), ("a", "2"), ("b", "3")):
        queue.offer(source, "user", item)
    with pytest.raises(Full):
        queue.offer("b", "user", "4")
    assert queue.offer("c", "user", "5") == "2"
