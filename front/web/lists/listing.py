"""Lists as every path answers them: matched, sorted and cut to a page before anything is shown, in slices of the event loop.

match   what has the name that is asked for
sort    by the order of the list, or by `sort`: by the figure itself where the list can tell it alone; else, as it may name
        any field that is shown, what is shown is made first
cut     to the page
show    what is left, with those `columns` that are asked for
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from front.slices import made_in_slices, step_by_step
from front.web.http.refusals import bad_request
from front.web.http.request import Request, Response, json_response
from front.web.lists.paging import Page, page_asked_for
from front.web.lists.sorting import sorted_part

T = TypeVar("T")
Json = dict[str, Any]
COLUMNS_MAX = 200  # each is looked for in each row
SENT_AT_ONCE = 1_000  # rows of a list without pages


@dataclass(slots=True, frozen=True)
class ListOf(Generic[T]):
    """How things of one kind are listed."""

    show: Callable[[T], Json | None]  # None: it has gone meanwhile
    order: Callable[[T], Any]  # a key
    name: Callable[[T], str]  # that pages are filtered by
    # Called with those that are about to be shown: what is known of them elsewhere is fetched once for all.
    prepare: Callable[[list[T]], Awaitable[None]] | None = None
    # Called with the column that is sorted by: what tells its value of each, without showing it, all of one kind. None: showing
    # tells it only.
    value: Callable[[str], Awaitable[Callable[[T], Any] | None]] | None = None
    is_sorted: bool = False  # it comes in its order


async def listed(request: Request, found: Iterable[T], kind: ListOf[T]) -> Response:
    """Raises HttpError."""
    page, columns = page_asked_for(request), columns_asked_for(request)
    everything = found if isinstance(found, list) else [one async for one in made_in_slices(iter(found))]
    matching = everything if page is None or page.matches is None else await _matching(everything, kind, page)
    if page is not None:
        page.check_in_range(len(matching))
    chosen, show = await _chosen(request, matching, kind, page)
    rows: Iterator[Json] = (row for one in chosen if (row := show(one)) is not None)
    if columns:
        rows = (with_columns(row, columns) for row in rows)
    if page is not None:
        shown = [row async for row in made_in_slices(rows)]
        return json_response(page.answer(shown, len(everything), len(matching)))
    pieces = await _encoded(rows)
    return Response(200, b"".join(pieces)) if len(pieces) == 2 else Response(200, pieces=pieces)


async def _encoded(rows: Iterator[Json]) -> list[bytes]:
    """In few pieces: the garbage collector goes through each entry of a list that is new."""
    pieces: list[bytes] = []
    some: list[bytes] = []
    async for row in made_in_slices(rows):
        if len(some) == SENT_AT_ONCE:
            pieces.append((b"," if pieces else b"[") + b",".join(some))
            some.clear()
        some.append(msgspec.json.encode(row))
    pieces += [(b"," if pieces else b"[") + b",".join(some), b"]"]
    return pieces


async def _matching(everything: Sequence[T], kind: ListOf[T], page: Page) -> list[T]:
    found: list[T] = []
    await step_by_step(_match(everything, kind, page, found))
    return found


def _match(everything: Sequence[T], kind: ListOf[T], page: Page, found: list[T]) -> Iterator[None]:
    """Name by name: somebody's regular expression may take milliseconds for each."""
    assert page.matches is not None, "nothing to match by"
    for one in everything:
        if page.matches(kind.name(one)):
            found.append(one)
        yield


async def _chosen(
    request: Request, matching: list[T], kind: ListOf[T], page: Page | None
) -> tuple[list[Any], Callable[[Any], Json | None]]:
    """What is to be shown, sorted and cut, and how."""
    reverse, column = request.asks("sort_reverse"), request.asked("sort")
    start, end = (0, len(matching)) if page is None else (page.end - page.size, page.end)
    if not column:
        chosen = await _in_order(matching, kind, start, end, reverse=reverse)
        return await _prepared(chosen, kind), kind.show
    ordered = await _in_order(matching, kind, 0, len(matching))
    value = None if kind.value is None else await kind.value(column)
    if value is not None:
        chosen = await sorted_part(ordered, value, reverse=reverse, start=start, end=end)
        return await _prepared(chosen, kind), kind.show
    made, path = await _made(ordered, kind), column.split(".")
    rows = await sorted_part(made, lambda row: _sort_key(value_at(row, path)), reverse=reverse, start=start, end=end)
    return rows, _as_it_is


def _as_it_is(row: Json) -> Json:
    return row


async def _in_order(matching: list[T], kind: ListOf[T], start: int, end: int, *, reverse: bool = False) -> list[T]:
    if not kind.is_sorted:
        return await sorted_part(matching, kind.order, reverse=reverse, start=start, end=end)
    if reverse:
        return matching[max(0, len(matching) - end) : len(matching) - start][::-1]
    return matching if start == 0 and end >= len(matching) else matching[start:end]


async def _prepared(chosen: list[T], kind: ListOf[T]) -> list[T]:
    if kind.prepare is not None:
        await kind.prepare(chosen)
    return chosen


async def _made(chosen: list[T], kind: ListOf[T]) -> list[Json]:
    shown = map(kind.show, await _prepared(chosen, kind))
    return [one async for one in made_in_slices(shown) if one is not None]


def columns_asked_for(request: Request) -> list[list[str]]:
    """Each as the path to it; none: all. Raises HttpError."""
    named = dict.fromkeys((request.asked("columns") or "").split(","))
    if len(named) > COLUMNS_MAX:
        raise bad_request(f"{len(named)} columns are asked for, at most {COLUMNS_MAX} are shown")
    return [one.split(".") for one in named if one]


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
