"""broker/login/log_throttle.py: one line per key and interval, with the count of what was suppressed."""

from __future__ import annotations

from broker.login.log_throttle import KEYS_MAX, LogThrottle


def test_a_key_is_logged_once_per_interval_with_what_was_suppressed() -> None:
    throttle = LogThrottle(10)
    assert [throttle.may_log("a", now) for now in (0, 1, 9.9)] == [0, None, None]
    assert throttle.may_log("b", 1) == 0
    assert [throttle.may_log("a", now) for now in (10, 11, 30)] == [2, None, 1]


def test_ever_new_keys_cost_no_memory() -> None:
    throttle = LogThrottle(10)
    for number in range(KEYS_MAX + 100):
        assert throttle.may_log(str(number), 0) == 0
    assert len(throttle._logged) == KEYS_MAX
