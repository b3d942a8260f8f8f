"""Going through many things on the event loop a few at a time, so that clients are served in between.

Works share what the loop is held for: of several that are under way one has a slice in each round of the loop, in turn. A
hundred lists that are asked for at once would hold it for a hundred slices otherwise.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from time import perf_counter
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")

SLICE_S = 0.002  # so long the loop is held at a time: a publisher beside it hardly notices


class _Rounds:
    """Of one event loop, which it does not keep: which work goes on in its next round."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._is_taken = False  # the next round

    async def pause(self) -> None:
        """Until it is the caller's turn again: in the next round where nobody else goes on in it."""
        if not self._is_taken:
            self._take()
            await asyncio.sleep(0)
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        await turn

    def _take(self) -> None:
        self._is_taken = True
        asyncio.get_running_loop().call_soon(self._begin)

    def _begin(self) -> None:
        """Whoever has waited longest goes on in the round behind this one."""
        self._is_taken = False
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():  # else who waited was ended
                turn.set_result(None)
                self._take()
                return


_rounds: WeakKeyDictionary[asyncio.AbstractEventLoop, _Rounds] = WeakKeyDictionary()


async def _pause() -> None:
    loop = asyncio.get_running_loop()
    rounds = _rounds.get(loop)
    if rounds is None:
        rounds = _rounds[loop] = _Rounds()
    await rounds.pause()


async def in_slices(items: Iterable[T]) -> AsyncIterator[T]:
    """Each of the items that there are now. Some of them may be gone when their turn comes."""
    async for item in made_in_slices(iter(tuple(items))):
        yield item


async def made_in_slices(items: Iterator[T]) -> AsyncIterator[T]:
    """Each of the items, which are made on the way."""
    until = perf_counter() + SLICE_S
    for item in items:
        if perf_counter() >= until:
            await _pause()
            until = perf_counter() + SLICE_S
        yield item


async def step_by_step(steps: Iterator[Any], duty: float = 1.0) -> float:
    """Takes all steps, which get `duty` of the time: pauses are in between. Returns how long they took without the pauses."""
    took_s, begun = 0.0, perf_counter()
    for _ in steps:
        taken_s = perf_counter() - begun
        if taken_s >= SLICE_S:
            took_s += taken_s
            await (asyncio.sleep(taken_s / duty - taken_s) if duty < 1.0 else _pause())
            begun = perf_counter()
    return took_s + perf_counter() - begun
