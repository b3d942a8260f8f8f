"""node/rarely.py: told once in a while, with what was not told."""

from __future__ import annotations

from node.rarely import KEYS_MAX, Rarely


def test_each_key_is_told_once_in_the_interval_and_then_with_what_was_left_out() -> None:
    rarely = Rarely(10)
    assert [rarely.may_say("a", now) for now in (0, 1, 9.9)] == [0, None, None]
    assert rarely.may_say("b", 1) == 0
    assert [rarely.may_say("a", now) for now in (10, 11, 30)] == [2, None, 1]


def test_memory_is_bounded_whatever_the_keys() -> None:
    rarely = Rarely(10)
    for number in range(3 * KEYS_MAX):
        assert rarely.may_say(str(number), 0) == 0
    assert len(rarely._said) == KEYS_MAX
