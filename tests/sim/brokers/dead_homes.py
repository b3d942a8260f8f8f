"""What lies on the disk of a classic queue's home that stays away: whoever starts it again after the run would find it."""

from __future__ import annotations

from broker.catalog.policy import EffectiveArguments
from classic.queue import ClassicQueue
from classic.store.node_storage import ClassicLimits
from tests.sim.disk import SimDisk
from tests.unit.classic.classic_world import World


def bodies_on(disk: SimDisk, queue: ClassicQueue, limits: ClassicLimits) -> list[bytes]:
    """Of the messages of this queue, as its next start would have them. Nothing is too old there, nor too much."""
    levels = EffectiveArguments(max_priority=len(queue.levels) - 1)
    start = World([queue.record], disk.copy(), limits, effective=levels)
    return [body for body, _ in start.waiting(queue.record.name)]
