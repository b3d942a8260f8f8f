"""How much of a member's log a snapshot would free, about.

A snapshot frees what came since the one before it and is not referred to any more, what that one referred to and this one does
not, and what was kept below that one for slow followers. A queue that is consumed and not published to writes next to nothing:
without the second, its messages would stay in the log long after they were acknowledged.
"""

from __future__ import annotations


class LogGrowth:
    """Since the newest snapshot. `held_bytes` everywhere: what the machine refers to now."""

    __slots__ = ("_kept_bytes", "entry_bytes", "held_before", "snapshot_index")

    def __init__(self, snapshot_index: int, held_bytes: int) -> None:
        self.begin(snapshot_index, held_bytes, kept_bytes=0)

    def begin(self, snapshot_index: int, held_bytes: int, kept_bytes: int) -> None:
        """There is a snapshot, and below it so much is kept for slow followers at most."""
        self.snapshot_index = snapshot_index
        self.entry_bytes = 0  # of commands since
        self.held_before = held_bytes  # by the machine, then
        self._kept_bytes = kept_bytes

    def not_freed(self, room_bytes: int) -> None:
        """The snapshot was not kept, and what it would have freed is still there."""
        self._kept_bytes = room_bytes

    def dead_bytes(self, held_bytes: int) -> int:
        """What nobody refers to any more."""
        dead = self.entry_bytes + self.held_before - held_bytes
        return dead if dead > 0 else 0

    def room_bytes(self, held_bytes: int) -> int:
        """What a snapshot would free that keeps nothing for slow followers."""
        return self.dead_bytes(held_bytes) + self._kept_bytes
