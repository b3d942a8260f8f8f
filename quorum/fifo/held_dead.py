"""Dead messages that are kept until they have arrived where dead letters go (at-least-once)."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge

from broker.queues.queue_type import DeathReason
from quorum.fifo.checked_out import CheckedOut, HandedOut
from quorum.fifo.commands import FIRST_ID
from quorum.fifo.effects import Dead
from quorum.fifo.stored import StoredMessages


class HeldDead:
    """They have ids as a consumer's messages have; what died of different reasons is kept apart."""

    __slots__ = ("by_reason", "next_id")

    def __init__(self) -> None:
        self.next_id = FIRST_ID
        self.by_reason = {reason: CheckedOut() for reason in DeathReason}

    @property
    def count(self) -> int:
        return sum([one.count for one in self.by_reason.values()])  # asked often, of most queues for nothing

    @property
    def size(self) -> int:
        return sum(checked_out.size for checked_out in self.by_reason.values())

    def add(self, reason: DeathReason, stored: StoredMessages, now: int) -> None:
        self.by_reason[reason].add(self.next_id, stored, now)
        self.next_id += stored.length

    def take(self, first: int, length: int) -> None:
        """They have arrived."""
        for checked_out in self.by_reason.values():
            checked_out.take(first, length)

    def after(self, from_id: int, limit: int) -> list[Dead]:
        """The first ones of this id and above, `limit` messages at most."""
        found: list[Dead] = []
        by_id = (_named(reason, checked_out.from_id(from_id)) for reason, checked_out in self.by_reason.items())
        for first_id, reason, held in merge(*by_id):
            stored = held.stored
            if stored.length > limit:
                stored = stored.part(0, limit)
            found.append(Dead(first_id, reason, stored.piece, stored.delivery_count, stored.acquired_count))
            limit -= stored.length
            if not limit:
                break
        return found


def _named(reason: DeathReason, rows: Iterator[HandedOut]) -> Iterator[tuple[int, DeathReason, HandedOut]]:
    return ((held.first_id, reason, held) for held in rows)
