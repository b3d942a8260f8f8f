"""What becomes of messages that are in no log, so that their number at least can be: `history.level = "full"`."""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol

from broker.actors import LogActor


class Unlogged(IntEnum):
    """Why the log does not have a message. The log has these numbers: one is never given to another reason."""

    UNROUTABLE = 1  # no queue for it, and dropped
    RETURNED = 2  # the same, and given back to its publisher (mandatory)
    REFUSED = 3  # by a classic queue at its length limit
    TRANSIENT = 4  # a classic queue has it in memory: it is not persistent, or the queue not durable
    HANDED_AT_ONCE = 5  # a consumer that does not acknowledge took it before it was in its classic queue
    DEAD_UNROUTABLE = 6  # a dead letter for which its exchange had no queue


class UnloggedCounter(Protocol):
    """Fulfilled by storage/history/unlogged_counts.py."""

    def count(
        self, what: int, actor: LogActor | None, exchange: str, routing_key: str, messages: int, body_bytes: int
    ) -> None:
        """Once for each queue concerned, if there is one. `actor` is who published them; None: no client did."""
