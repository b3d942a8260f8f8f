"""The sums of this node as they are now, for who asks: walked for anew unless they are known and walking takes long.

Sums are shown again for so long that walking takes at most DUTY of the time, however many ask.
"""

from __future__ import annotations

import asyncio
from time import perf_counter
from typing import TYPE_CHECKING

from front.slices import step_by_step
from front.web.samples.node_sums import NodeSums, walked
from front.web.samples.sampler import DUTY

if TYPE_CHECKING:
    from broker.broker import Broker


class FreshSums:
    """Of one node."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._sums = NodeSums()
        self._known_until = 0.0
        self._walking: asyncio.Task[NodeSums] | None = None

    async def sums(self) -> NodeSums:
        if self._walking is None:
            if perf_counter() < self._known_until:
                return self._sums
            self._walking = asyncio.get_running_loop().create_task(self._walk())
        return await asyncio.shield(self._walking)

    async def _walk(self) -> NodeSums:
        sums = NodeSums()
        try:
            took_s = await step_by_step(walked(self._broker, sums))
            self._sums, self._known_until = sums, perf_counter() + took_s / DUTY
            return sums
        finally:
            self._walking = None
