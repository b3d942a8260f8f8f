"""Alarms: one reason at a time, and the end is told once."""

from __future__ import annotations

from broker.alarms import Alarm, Alarms


def test_the_oldest_alarm_gives_the_reason_until_it_is_cleared() -> None:
    alarms = Alarms(lambda: None)
    assert alarms.blocked_reason is None
    alarms.raise_alarm("memory", "low on memory", 1)
    alarms.raise_alarm("disk", "low on disk", 2)
    assert alarms.blocked_reason == "low on memory"
    alarms.clear_alarm("memory")
    assert alarms.blocked_reason == "low on disk"
    assert alarms.raised() == [Alarm("disk", "low on disk", 2)]


def test_the_end_is_told_when_the_last_alarm_is_cleared() -> None:
    ends: list[bool] = []
    alarms = Alarms(lambda: ends.append(True))
    alarms.clear_alarm("memory")
    alarms.raise_alarm("memory", "low on memory", 1)
    alarms.raise_alarm("disk", "low on disk", 1)
    alarms.clear_alarm("disk")
    assert ends == []
    alarms.clear_alarm("memory")
    alarms.clear_alarm("memory")
    assert (ends, alarms.blocked_reason) == ([True], None)


def test_raising_again_changes_nothing() -> None:
    alarms = Alarms(lambda: None)
    alarms.raise_alarm("memory", "low on memory", 1)
    alarms.raise_alarm("memory", "another reason", 9)
    assert alarms.raised() == [Alarm("memory", "low on memory", 1)]
