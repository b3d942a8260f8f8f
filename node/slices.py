"""Going through many things on the event loop a few at a time, so that clients are served in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

SLICE_S = 0.002  # so long the loop is held at a time: a publisher beside it hardly notices


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Each of the items that there are now. Some of them may be gone when their turn comes."""
    until = perf_counter() + SLICE_S
    for item in tuple(items):
        if perf_counter() >= until:
            await asyncio.sleep(0)
            until = perf_counter() + SLICE_S
        yield item
