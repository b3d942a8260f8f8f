"""Rate-limited logging: one line per key and interval, and it counts what was suppressed."""

from __future__ import annotations

from collections import OrderedDict

KEYS_MAX = 1_000  # whoever makes up new keys all the time is logged each time, and costs no memory


class LogThrottle:
    """For each key once in `interval_s`."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._logged: OrderedDict[str, tuple[float, int]] = OrderedDict()  # when, and how many were suppressed since

    def may_log(self, key: str, now: float) -> int | None:
        """How many were suppressed since the last line, if this one may be logged; None: it may not."""
        at, suppressed = self._logged.get(key, (None, 0))
        if at is not None and now < at + self._interval_s:
            self._logged[key] = at, suppressed + 1
            return None
        self._logged[key] = now, 0
        self._logged.move_to_end(key)
        while len(self._logged) > KEYS_MAX:
            self._logged.popitem(last=False)
        return suppressed
