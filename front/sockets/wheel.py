"""Many coarse timers at the cost of one: what is due lies in slots of SLOT_S, and the driver looks at a slot at a time.

A node has thousands of connections, each with a heartbeat that is nearly always re-armed and rarely needs to be exact. Armed
again, a key is due at its new time only. A key that is disarmed or forgotten is referred to by nothing here: what a client may
choose for a heartbeat lies years ahead, and its connection must not stay in memory so long.
"""

from __future__ import annotations

from typing import Generic, TypeVar

SLOT_S = 0.1
# What is armed is due up to so much later: the rest of its slot, and the time until the driver looks.
LATENESS_S = 2 * SLOT_S

K = TypeVar("K")


class TimerWheel(Generic[K]):
    """Keys by when they are due. `now` is monotonic seconds."""

    __slots__ = ("_slot_of", "_slots", "_swept")

    def __init__(self, now: float) -> None:
        self._slots: dict[int, dict[K, None]] = {}
        self._slot_of: dict[K, int] = {}  # where each armed key lies
        self._swept = int(now / SLOT_S)  # every slot up to this one is empty

    def arm(self, key: K, when: float) -> None:
        """Due at `when` or up to a slot later, and at no other time."""
        self.disarm(key)
        slot = max(int(when / SLOT_S) + 1, self._swept + 1)
        self._slot_of[key] = slot
        self._slots.setdefault(slot, {})[key] = None

    def disarm(self, key: K) -> None:
        slot = self._slot_of.pop(key, None)
        if slot is None:
            return
        keys = self._slots[slot]
        del keys[key]
        if not keys:
            del self._slots[slot]

    def due(self, now: float) -> list[K]:
        """Keys whose time has come, once each."""
        current = int(now / SLOT_S)
        found: list[K] = []
        for slot in range(self._swept + 1, current + 1):
            found += self._slots.pop(slot, ())
        for key in found:
            del self._slot_of[key]
        self._swept = max(self._swept, current)
        return found
