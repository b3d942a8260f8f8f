"""Many coarse timers at the cost of one: what is due lies in slots of SLOT_S, and the driver looks at a slot at a time.

A node has thousands of connections, each with a heartbeat that is nearly always re-armed and rarely needs to be exact. Armed
again, a key is due at its new time only: entries carry a serial, and the older ones are passed over.
"""

from __future__ import annotations

from typing import Generic, TypeVar

SLOT_S = 0.1
# What is armed is due up to so much later: the rest of its slot, and the time until the driver looks.
LATENESS_S = 2 * SLOT_S

K = TypeVar("K")


class TimerWheel(Generic[K]):
    """Keys by when they are due. `now` is monotonic seconds."""

    __slots__ = ("_serials", "_slots", "_swept")

    def __init__(self, now: float) -> None:
        self._slots: dict[int, list[tuple[K, int]]] = {}
        self._serials: dict[K, int] = {}
        self._swept = int(now / SLOT_S)  # every slot up to this one is empty

    def arm(self, key: K, when: float) -> None:
        """Due at `when` or up to a slot later, and at no other time."""
        serial = self._serials.get(key, 0) + 1
        self._serials[key] = serial
        slot = max(int(when / SLOT_S) + 1, self._swept + 1)
        self._slots.setdefault(slot, []).append((key, serial))

    def disarm(self, key: K) -> None:
        if key in self._serials:
            self._serials[key] += 1

    def forget(self, key: K) -> None:
        """The key will not be used again."""
        self._serials.pop(key, None)

    def due(self, now: float) -> list[K]:
        """Keys whose time has come, once each."""
        current = int(now / SLOT_S)
        found = []
        for slot in range(self._swept + 1, current + 1):
            for key, serial in self._slots.pop(slot, ()):
                if self._serials.get(key) == serial:
                    found.append(key)
        self._swept = max(self._swept, current)
        return found
