"""What is asked of a group again, as long as it says that it may be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from broker.errors import ResourceExhausted
from broker.pending import Pending
from front.answers import answered

PATIENCE_S = 5.0
AGAIN_S = 0.1
SEEN_S = 2.0  # until a change of members by another node is in the record of the queue
PLANS_MAX = 5  # of one move, while other nodes that leave take the places that were chosen


async def patiently(ask: Callable[[], Pending[None]]) -> None:
    """Raises the BrokerError that is the answer. Who is told to try again does so."""
    loop = asyncio.get_running_loop()
    until = loop.time() + PATIENCE_S
    while True:
        try:
            async with asyncio.timeout_at(until):
                return await answered(ask())
        except ResourceExhausted:
            if loop.time() + AGAIN_S > until:
                raise
        except TimeoutError as error:
            raise ResourceExhausted(
                f"nobody has answered within {PATIENCE_S:g} s; what was asked may be done yet"
            ) from error
        await asyncio.sleep(AGAIN_S)
