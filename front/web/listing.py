"""Lists as every path answers them: matched, sorted and cut to a page before anything is shown, in slices of the event loop.

    match   what has the name that is asked for
    sort    by the order of the list; by `sort`, which may name any field that is shown, what is shown is made first
    cut     to the page
    show    what is left, with those `columns` that are asked for

Nothing holds the loop: sorting goes in chunks that are merged as far as the page reaches.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Generic, TypeVar

import msgspec

from front.slices import made_in_slices
from front.web.paging import Page, page_asked_for
from front.web.request import Request, Response, json_response

T = TypeVar("T")
Json = dict[str, Any]
SORTED_AT_ONCE = 1_000  # a millisecond


@dataclass(slots=True, frozen=True)
class ListOf(Generic[T]):
    """How things of one kind are listed."""

    show: Callable[[T], Json | None]  # None: it has gone meanwhile
    order: Callable[[T], Any]  # a key
    name: Callable[[T], str]  # that pages are filtered by
    # Called with those that are about to be shown: what is known of them elsewhere is fetched once for all.
    prepare: Callable[[list[T]], Awaitable[None]] | None = None


async def listed(request: Request, found: Iterable[T], kind: ListOf[T]) -> Response:
    """Raises HttpError."""
    page, columns = page_asked_for(request), columns_asked_for(request)
    everything = [one async for one in made_in_slices(iter(found))]
    matching = everything if page is None or page.matches is None else await _matching(everything, kind, page)
    if page is not None:
        page.check_in_range(len(matching))
    shown = await _shown(request, matching, kind, page)
    if columns:
        shown = [with_columns(one, columns) async for one in made_in_slices(iter(shown))]
    if page is not None:
        return json_response(page.answer(shown, len(everything), len(matching)))
    pieces = [msgspec.json.encode(one) async for one in made_in_slices(iter(shown))]
    return Response(200, b"[" + b",".join(pieces) + b"]")


async def _matching(everything: list[T], kind: ListOf[T], page: Page) -> list[T]:
    assert page.matches is not None, "nothing to match by"
    matches = page.matches
    found = ((one, matches(kind.name(one))) for one in everything)
    return [one async for one, is_wanted in made_in_slices(found) if is_wanted]


async def _shown(request: Request, matching: list[T], kind: ListOf[T], page: Page | None) -> list[Json]:
    reverse, column = request.asks("sort_reverse"), request.asked("sort")
    start, end = (0, len(matching)) if page is None else (page.end - page.size, page.end)
    if not column:
        chosen = [one async for one in _sorted(matching, kind.order, reverse, end)][start:]
        return await _made(chosen, kind)
    made = await _made([one async for one in _sorted(matching, kind.order, False, len(matching))], kind)
    path = column.split(".")
    return [one async for one in _sorted(made, lambda one: _sort_key(value_at(one, path)), reverse, end)][start:]


async def _made(chosen: list[T], kind: ListOf[T]) -> list[Json]:
    if kind.prepare is not None:
        await kind.prepare(chosen)
    return [one async for one in made_in_slices(map(kind.show, chosen)) if one is not None]


async def _sorted(items: list[T], key: Callable[[T], Any], reverse: bool, end: int) -> AsyncIterator[T]:
    """The first `end` of them. Equal ones stay in their order."""
    starts = range(0, len(items), SORTED_AT_ONCE)
    chunks = (sorted(items[at : at + SORTED_AT_ONCE], key=key, reverse=reverse) for at in starts)
    sorted_chunks = [chunk async for chunk in made_in_slices(chunks)]
    merged: Iterator[T] = heapq.merge(*sorted_chunks, key=key, reverse=reverse)
    async for one in made_in_slices(islice(merged, end)):
        yield one


def columns_asked_for(request: Request) -> list[list[str]]:
    """Each as the path to it; none: all."""
    given = request.asked("columns")
    return [one.split(".") for one in given.split(",") if one] if given else []


def with_columns(item: Json, columns: list[list[str]]) -> Json:
    """What has no such column shows nothing for it."""
    chosen: Json = {}
    for path in columns:
        _copy(item, path, chosen)
    return chosen


def _copy(item: Any, path: list[str], chosen: Json) -> None:
    name, *rest = path
    if not isinstance(item, Mapping) or name not in item:
        return
    if not rest:
        chosen[name] = item[name]
    elif isinstance(item[name], Mapping):
        _copy(item[name], rest, chosen.setdefault(name, {}))


def value_at(item: Any, path: list[str]) -> Any:
    """What is missing counts as 0."""
    for name in path:
        if not isinstance(item, Mapping) or name not in item:
            return 0
        item = item[name]
    return item


def _sort_key(value: Any) -> tuple[int, Any]:
    """Values of different kinds can be compared, too: numbers, then texts, then the rest."""
    if value is None or isinstance(value, (bool, int, float)):
        return 0, value or 0
    if isinstance(value, str):
        return 1, value
    return 2, msgspec.json.encode(value, order="deterministic")
