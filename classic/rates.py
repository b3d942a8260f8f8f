"""How fast messages come and go: averages that forget, with time as an argument."""

from __future__ import annotations

HALF_LIFE_MS = 5_000
MEASURED_EVERY_MS = 100


class Rate:
    """Messages per second, as an average in which what is HALF_LIFE_MS old counts half."""

    __slots__ = ("_average", "count")

    def __init__(self) -> None:
        self.count = 0  # since the last measure; its owner adds to it
        self._average = 0.0

    @property
    def per_second(self) -> float:
        return self._average

    def measure(self, elapsed_ms: int) -> None:
        weight = 0.5 ** (elapsed_ms / HALF_LIFE_MS)
        self._average = self._average * weight + self.count * 1000 / elapsed_ms * (1 - weight)
        self.count = 0


class Rates:
    """The four rates of a queue: published, taken for delivery, handed out to be acknowledged, acknowledged."""

    __slots__ = ("_measured_at", "ack_egress", "ack_ingress", "egress", "ingress")

    def __init__(self, now: int) -> None:
        self.ingress = Rate()
        self.egress = Rate()
        self.ack_ingress = Rate()
        self.ack_egress = Rate()
        self._measured_at = now

    def maybe_measure(self, now: int) -> bool:
        """Measure if it is time to; a clock that was set back begins anew."""
        elapsed = now - self._measured_at
        if 0 <= elapsed < MEASURED_EVERY_MS:
            return False
        self._measured_at = now
        if elapsed < 0:
            return False
        for rate in (self.ingress, self.egress, self.ack_ingress, self.ack_egress):
            rate.measure(elapsed)
        return True
