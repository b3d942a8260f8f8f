"""Which page of a list is asked for: `page`, `page_size`, `name`, `use_regex`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from front.web.http.refusals import bad_request
from front.web.http.request import HttpError, Request
from front.web.lists.name_filter import Matcher, name_filter
from front.whole_number import whole_number

PAGE_SIZE_DEFAULT = 100
PAGE_SIZE_MAX = 500
NUMBER_DIGITS_MAX = 9


@dataclass(slots=True, frozen=True)
class Page:
    number: int
    size: int
    matches: Matcher | None

    @property
    def end(self) -> int:
        return self.number * self.size

    def check_in_range(self, count: int) -> None:
        """The first page always is. Raises HttpError."""
        if self.number > 1 and self.end - self.size >= count:
            said = f"Page out of range, page: {self.number} page size: {self.size}, len: {count}"
            raise HttpError(400, "page_out_of_range", said)

    def answer(self, items: list[Any], total: int, filtered: int) -> dict[str, Any]:
        return {
            "filtered_count": filtered,
            "item_count": len(items),
            "items": items,
            "page": self.number,
            "page_count": -(-filtered // self.size),
            "page_size": self.size,
            "total_count": total,
        }


def page_asked_for(request: Request) -> Page | None:
    """None: the whole list is. Raises HttpError."""
    number, size = _number(request, "page"), _number(request, "page_size")
    if number is None:
        return None
    shown_size = "undefined" if size is None else size
    size = PAGE_SIZE_DEFAULT if size is None else size
    if number < 1 or not 0 < size <= PAGE_SIZE_MAX:
        said = f"Invalid pagination parameters: page number {number}, page size {shown_size}"
        raise HttpError(400, "invalid_pagination_parameters", said)
    wanted = request.asked("name")
    return Page(number, size, name_filter(wanted, is_regex=request.asks("use_regex")) if wanted else None)


def _number(request: Request, name: str) -> int | None:
    given = request.asked(name)
    if given is None:
        return None
    found = whole_number(given, NUMBER_DIGITS_MAX, signed=True)
    if found is None:
        raise bad_request("Pagination parameters are invalid")
    return found
