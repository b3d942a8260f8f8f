"""front/slices.py: the loop is held for so long at a time, and no longer and no shorter."""

from __future__ import annotations

import asyncio
from itertools import count, pairwise

import pytest

from front.slices import SLICE_S, in_slices, made_in_slices

EACH = 10  # items that take a slice


@pytest.fixture(autouse=True)
def looks_take_time(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks = count()
    monkeypatch.setattr("front.slices.perf_counter", lambda: next(ticks) * SLICE_S / EACH)


def test_every_slice_is_as_long_as_the_first() -> None:
    """After the first one the loop was given away between any two items: a list of 100,000 queues took ten times as long."""
    seen: list[int] = []
    seen_by_others: list[int] = []

    async def others() -> None:
        while len(seen) < 100:
            seen_by_others.append(len(seen))
            await asyncio.sleep(0)

    async def run() -> None:
        beside = asyncio.ensure_future(others())
        async for item in made_in_slices(iter(range(100))):
            seen.append(item)
        await beside

    asyncio.run(run())
    assert seen == list(range(100))
    steps = [after - before for before, after in pairwise(seen_by_others)]
    assert steps and min(steps) >= EACH - 1 and max(steps) <= EACH


def test_what_is_gone_through_may_change_meanwhile() -> None:
    items = list(range(30))
    seen: list[int] = []

    async def run() -> None:
        async for item in in_slices(items):
            seen.append(item)
            items.clear()

    asyncio.run(run())
    assert seen == list(range(30))
