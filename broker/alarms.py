"""Alarms hold publishers: while one is raised, whoever publishes is told and no longer read from. Consumers go on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class Alarm:
    kind: str  # memory, disk
    reason: str
    since: int


class Alarms:
    """`on_change` is called with the reason of the oldest alarm, or None, whenever publishers are to be held or let go."""

    def __init__(self, on_change: Callable[[str | None], None]) -> None:
        self._on_change = on_change
        self._raised: dict[str, Alarm] = {}

    @property
    def blocked_reason(self) -> str | None:
        return next((alarm.reason for alarm in self._raised.values()), None)

    def raised(self) -> list[Alarm]:
        return list(self._raised.values())

    def raise_alarm(self, kind: str, reason: str, now: int) -> None:
        """Raising again what is raised changes nothing."""
        if kind not in self._raised:
            self._raised[kind] = Alarm(kind, reason, now)
            if len(self._raised) == 1:
                self._on_change(reason)

    def clear_alarm(self, kind: str) -> None:
        if self._raised.pop(kind, None) is not None and not self._raised:
            self._on_change(None)
