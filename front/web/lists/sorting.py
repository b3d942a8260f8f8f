"""The part of a list that a page shows, as it would lie were all of it sorted: without sorting all of it, and in slices.

What is kept are the best so far, as many as the page reaches; each chunk is sorted by itself and merged with them. Of a page
near the end the others are kept: those that come last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from operator import itemgetter
from typing import Any, TypeVar

from front.slices import step_by_step

T = TypeVar("T")
SORTED_AT_ONCE = 1_000  # a millisecond
SORTED_AT_ONCE_MAX = 6_000
MERGES_MAX = 16  # of all that is kept, as long as a chunk is not too long for a turn
KEYS_AT_ONCE = 20  # each may take a walk over what a queue has in memory

_key_of = itemgetter(0)


async def sorted_part(items: Sequence[T], key: Callable[[T], Any], *, reverse: bool, start: int, end: int) -> list[T]:
    """`sorted(items, key=key, reverse=reverse)[start:end]`: equal ones stay in their order."""
    count = len(items)
    start, end = min(start, count), min(end, count)
    from_end = count - start < end
    keep = count - start if from_end else end
    kept: list[tuple[Any, T]] = []
    if start < end:
        await step_by_step(_select(items, key, reverse, -keep if from_end else keep, kept))
    first = count - keep if from_end else 0
    return [one for _, one in kept[start - first : end - first]]


def _select(
    items: Sequence[T], key: Callable[[T], Any], reverse: bool, keep: int, kept: list[tuple[Any, T]]
) -> Iterator[None]:
    """Into `kept`; `keep` below 0: the last ones."""
    part = slice(keep, None) if keep < 0 else slice(keep)
    at_once = max(SORTED_AT_ONCE, min(SORTED_AT_ONCE_MAX, abs(keep) // MERGES_MAX))
    for at in range(0, len(items), at_once):
        chunk: list[tuple[Any, T]] = []
        for first in range(at, min(at + at_once, len(items)), KEYS_AT_ONCE):
            chunk += [(key(one), one) for one in items[first : min(first + KEYS_AT_ONCE, at + at_once)]]
            yield
        chunk.sort(key=_key_of, reverse=reverse)
        yield
        kept[:] = sorted(kept + chunk, key=_key_of, reverse=reverse)[part]
        yield
