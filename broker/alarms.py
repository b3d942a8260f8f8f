"""Alarms hold publishers: who publishes while one is raised is told, once, and no longer read from. Consumers go on.

A connection that only consumed since, or publishes nothing now, stays free: its acknowledgements are what makes room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

DISK_ALARM = "disk"


@dataclass(slots=True, frozen=True)
class ResourceAlarm:
    kind: str  # memory, disk; of another node with "@" and its number behind it
    reason: str
    since: int


class Alarms:
    """`on_cleared` is called when one is gone; `on_changed` with the kind of one that comes or goes, and its reason or None."""

    def __init__(
        self, on_cleared: Callable[[], None], on_changed: Callable[[str, str | None], None] = lambda kind, reason: None
    ) -> None:
        self.blocked_reason: str | None = None  # of the oldest alarm; read for every run that is published
        self._on_cleared = on_cleared
        self._on_changed = on_changed
        self._raised: dict[str, ResourceAlarm] = {}

    def raised(self) -> list[ResourceAlarm]:
        return list(self._raised.values())

    def reason_of(self, kind: str) -> str | None:
        """Of the oldest alarm of this kind, of any node; None: there is none."""
        return next((alarm.reason for alarm in self._raised.values() if alarm.kind.partition("@")[0] == kind), None)

    def raise_alarm(self, kind: str, reason: str, now: int) -> None:
        """Raising again what is raised changes nothing."""
        if kind not in self._raised:
            self._raised[kind] = ResourceAlarm(kind, reason, now)
            self._note()
            self._on_changed(kind, reason)

    def clear_alarm(self, kind: str) -> None:
        if self._raised.pop(kind, None) is not None:
            self._note()
            self._on_changed(kind, None)
            self._on_cleared()

    def _note(self) -> None:
        self.blocked_reason = next((alarm.reason for alarm in self._raised.values()), None)
