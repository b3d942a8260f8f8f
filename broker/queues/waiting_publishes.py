"""Publishes that wait until it is clear which queue gets them: in their order, and not without end."""

from __future__ import annotations

from collections.abc import Callable

from broker.errors import ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run

HELD_BYTES_MAX = 64 << 20

OnPublish = Callable[[Run, Receipt | None], None]


class WaitingPublishes:
    """See the module. Of one queue."""

    def __init__(self) -> None:
        self._held: list[tuple[Run, Receipt | None]] = []
        self._bytes = 0

    def hold(self, run: Run, receipt: Receipt | None) -> None:
        """Raises ResourceExhausted when too much waits already and nobody asked for a receipt."""
        if self._bytes + len(run.content) > HELD_BYTES_MAX:
            if receipt is None:
                raise ResourceExhausted(f"{self._bytes} bytes wait already for a queue that is being converted")
            receipt.refused()
            return
        self._bytes += len(run.content)
        self._held.append((run, receipt))

    def give_to(self, publish: OnPublish) -> None:
        """It is clear now."""
        held, self._held, self._bytes = self._held, [], 0
        for run, receipt in held:
            try:
                publish(run, receipt)
            except ResourceExhausted:
                if receipt is not None:
                    receipt.give_up()
