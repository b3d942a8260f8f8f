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


def test_of_many_works_one_has_a_slice_in_each_round() -> None:
    """A hundred lists at once held the loop for a hundred slices in each round."""
    rounds = 0
    held: list[tuple[int, str]] = []

    async def work(name: str) -> None:
        async for item in made_in_slices(iter(range(8 * EACH))):
            if item >= 2 * EACH:  # the first slice has nothing to wait for
                held.append((rounds, name))

    async def run() -> None:
        nonlocal rounds
        works = [asyncio.ensure_future(work(name)) for name in "abcde"]
        while not all(one.done() for one in works):
            await asyncio.sleep(0)
            rounds += 1

    asyncio.run(run())
    in_round: dict[int, set[str]] = {}
    for number, name in held:
        in_round.setdefault(number, set()).add(name)
    assert max(map(len, in_round.values())) == 1
    assert {name for names in in_round.values() for name in names} == set("abcde")


def test_works_that_are_ended_while_they_wait_hold_up_no_others() -> None:
    seen: list[int] = []

    async def work(count: int) -> None:
        async for item in made_in_slices(iter(range(count * EACH))):
            seen.append(item)

    async def run() -> None:
        works = [asyncio.ensure_future(work(10_000)) for _ in range(5)]
        last = asyncio.ensure_future(work(20))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        for one in works:
            one.cancel()
        async with asyncio.timeout(10):
            await last

    asyncio.run(run())
    assert seen.count(20 * EACH - 1) == 1
