"""Which messages of a queue are meant."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from analytics.fold.lives import Life
from storage.history.name_records import ActorRow

Place = list[int]  # a sequence of a classic queue; entry, run and how manieth of a quorum queue


class Choice(msgspec.Struct):
    """What is empty or None holds of all."""

    ends: list[str]  # of LifeState: how they left
    since: int | None = None  # ms: when they left; the last one is left out
    until: int | None = None
    after: Place = []
    routing_key: str | None = None
    consumer: str = ""  # who had them last: a tag, or a user

    def takes(self, life: Life) -> bool:
        """Without a look at who had it."""
        return self._leaves(life) and self.routing_key in (None, life.publish.routing_key)

    def may_take(self, life: Life) -> bool:
        """It is not taken, and would be if the log said with which key it was published."""
        return life.partial and self.routing_key not in (None, life.publish.routing_key) and self._leaves(life)

    def _leaves(self, life: Life) -> bool:
        return life.state in self.ends and self._is_within(life.ended_at)

    def _is_within(self, at: int | None) -> bool:
        if self.since is None and self.until is None:
            return True
        return at is not None and (self.since or 0) <= at and (self.until is None or at < self.until)

    def is_of(self, owners: Sequence[ActorRow]) -> bool:
        """Whether one of them, a consumer with those whom it belongs to, is the one that is meant."""
        return any(self.consumer in (row.tag, row.user) for row in owners)

    def first_behind(self, entry: int, offset: int, first: int, *, of_group: bool) -> int:
        """The first of a run from `first` on that lies behind the place at which an earlier replay ended."""
        if not self.after:
            return first
        if not of_group:
            return max(first, self.after[0] + 1 - entry)
        pos, off, nth = self.after
        if (entry, offset) == (pos, off):
            return max(first, nth + 1)
        return first if (entry, offset) > (pos, off) else 1 << 62
