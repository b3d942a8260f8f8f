"""What happens again and again is told once in a while, and how often it was not told is told then."""

from __future__ import annotations

from collections import OrderedDict

KEYS_MAX = 1_000  # whoever makes up new ones all the time is told of each time, and costs no memory


class Rarely:
    """For each key once in `interval_s`."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._said: OrderedDict[str, tuple[float, int]] = OrderedDict()  # when, and how often not since

    def may_say(self, key: str, now: float) -> int | None:
        """How often this was left unsaid since the last time, if it may be said now."""
        at, unsaid = self._said.get(key, (None, 0))
        if at is not None and now < at + self._interval_s:
            self._said[key] = at, unsaid + 1
            return None
        self._said[key] = now, 0
        self._said.move_to_end(key)
        while len(self._said) > KEYS_MAX:
            self._said.popitem(last=False)
        return unsaid
