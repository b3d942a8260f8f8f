"""Going through many things on the event loop a few at a time, so that clients are served in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from time import perf_counter
from typing import Any, TypeVar

T = TypeVar("T")

SLICE_S = 0.002  # so long the loop is held at a time: a publisher beside it hardly notices


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Each of the items that there are now. Some of them may be gone when their turn comes."""
    async for item in made_in_slices(iter(tuple(items))):
        yield item


async def made_in_slices(items: Iterator[T]) -> AsyncIterator[T]:
    """Each of the items, which are made on the way."""
    until = perf_counter() + SLICE_S
    for item in items:
        if perf_counter() >= until:
            await asyncio.sleep(0)
            until = perf_counter() + SLICE_S
        yield item


async def step_by_step(steps: Iterator[Any], duty: float = 1.0) -> float:
    """Takes all steps, which get `duty` of the time: pauses are in between. Returns how long they took without the pauses."""
    took_s, begun = 0.0, perf_counter()
    for _ in steps:
        taken_s = perf_counter() - begun
        if taken_s >= SLICE_S:
            took_s += taken_s
            await asyncio.sleep(taken_s / duty - taken_s)
            begun = perf_counter()
    return took_s + perf_counter() - begun
