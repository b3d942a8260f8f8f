"""Lists: pages, names, sorting and columns, as the management API has them."""

from __future__ import annotations

import asyncio
import json
from itertools import product
from operator import itemgetter
from time import perf_counter
from typing import Any

import pytest

from broker.login.client_address import ClientAddress
from front.web.http.request import HttpError, Request
from front.web.lists import name_filter as filtering
from front.web.lists import sorting
from front.web.lists.listing import SENT_AT_ONCE, ListOf, listed
from front.web.lists.name_filter import MATCHES_S_MAX, name_filter
from front.web.lists.sorting import sorted_part

LOCAL = ClientAddress("127.0.0.1", 40_000, True, "HTTP")
THINGS = [{"name": f"thing-{number:03}", "size": -number, "part": {"at": number % 3}} for number in range(250)]
KIND: ListOf[dict[str, Any]] = ListOf(lambda one: one, order=lambda one: one["name"], name=lambda one: one["name"])


def asked(query: str, things: list[dict[str, Any]] | None = None) -> Any:
    request = Request("GET", f"/api/things?{query}", {}, b"", LOCAL, 0)
    return json.loads(asyncio.run(listed(request, THINGS if things is None else things, KIND)).body)


def refused(query: str) -> HttpError:
    with pytest.raises(HttpError) as caught:
        asked(query)
    return caught.value


def names(found: list[dict[str, Any]]) -> list[str]:
    return [one["name"] for one in found]


def test_without_a_page_the_whole_list_comes_in_its_order() -> None:
    assert asked("", list(reversed(THINGS))) == THINGS
    assert asked("pagination=false&name=thing-001") == THINGS, "names are for pages"


def test_a_page_says_how_many_there_are() -> None:
    page = asked("page=3&page_size=100")
    assert names(page["items"]) == names(THINGS[200:])
    counts = {
        name: page[name] for name in ("total_count", "filtered_count", "item_count", "page", "page_count", "page_size")
    }
    assert counts == {
        "total_count": 250, "filtered_count": 250, "item_count": 50, "page": 3, "page_count": 3, "page_size": 100,
    }  # fmt: skip
    assert asked("page=1&page_size=10&name=thing-00")["page_count"] == 1
    assert (len(asked("page=1&page_size=500")["items"]), asked("page=5&page_size=50")["item_count"]) == (250, 50)
    assert asked("page=1", []) == {
        "filtered_count": 0, "item_count": 0, "items": [], "page": 1, "page_count": 0, "page_size": 100, "total_count": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("page=0", "invalid_pagination_parameters"),
        ("page=-1", "invalid_pagination_parameters"),
        ("page=1&page_size=0", "invalid_pagination_parameters"),
        ("page=1&page_size=501", "invalid_pagination_parameters"),
        ("page=4", "page_out_of_range"),
        ("page=6&page_size=50", "page_out_of_range"),
        ("page=", "bad_request"),
        ("page=x", "bad_request"),
        ("page=1&page_size=%C2%B2", "bad_request"),
        ("page=" + "9" * 5_000, "bad_request"),
    ],
)
def test_a_page_that_cannot_be_is_400(query: str, error: str) -> None:
    found = refused(query)
    assert (found.status, found.error) == (400, error)


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("name=THING-00", 10),
        ("name=^thing-00", 0),
        ("name=^THING-00&use_regex=true", 10),
        ("name=^(?!thing-0)&use_regex=true", 150),  # what RE2 does not have
        ("name=^(?!THING-0)&use_regex=true", 150),
        (f"name={'|'.join(['thing-001'] * 102)}|aaaa&use_regex=true", 1),  # 1,024 characters
    ],
)
def test_a_page_is_of_those_with_the_name(query: str, count: int) -> None:
    assert asked(f"page=1&page_size=1&{query}")["filtered_count"] == count


def test_a_page_says_how_many_there_are_with_the_name_and_how_many_at_all() -> None:
    page = asked("page=2&page_size=4&name=thing-00")
    assert (page["total_count"], page["filtered_count"], page["page_count"]) == (250, 10, 3)
    assert names(page["items"]) == names(THINGS[4:8])


def test_a_page_behind_all_that_have_the_name_is_out_of_range() -> None:
    assert refused("page=4&page_size=4&name=thing-00").error == "page_out_of_range"


def test_a_part_of_a_name_is_found_in_whatever_case_either_has() -> None:
    things = [{"name": "Orders"}, {"name": "STRASSE"}, {"name": "other"}]
    assert names(asked("page=1&name=orders", things)["items"]) == ["Orders"]
    assert names(asked("page=1&name=stra%C3%9Fe", things)["items"]) == ["STRASSE"]


@pytest.mark.parametrize("pattern", ["(", "(?=", "a" * 1_025, "(?!x)a{100000}", "(?<=a*)b{,99999}"])
def test_a_pattern_that_cannot_be_is_400(pattern: str) -> None:
    assert refused(f"page=1&use_regex=true&name={pattern}").status == 400


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=a)((((a{1000}){1000}){1000}){1000})",  # 46 characters, and as much memory as there is
        "(?=a)(((a{,100}){100,}){100})",
        "(?x)(?=a)(((a{1 0 0}){1 0 0}){1 0 0})",  # the flag lets spaces into counts
        "(?i-x:a)(?=a)(?sx:a{9 9 9})",
    ],
)
def test_counts_within_counts_are_refused_before_they_take_memory(pattern: str) -> None:
    begun = perf_counter()
    with pytest.raises(HttpError) as caught:
        name_filter(pattern, is_regex=True)
    assert caught.value.status == 400
    assert perf_counter() - begun < 0.2


@pytest.mark.parametrize(
    "pattern", ["^(?!amq).{36}$", "^(?!thing-9)[a-z]{5}-[0-9]{3}$", r"(\pL?){900}b", "[0-9a-f]{8}-" * 4]
)
def test_patterns_that_people_write_are_not_too_large(pattern: str) -> None:
    name_filter(pattern, is_regex=True)("thing-001")


def test_a_slow_pattern_of_re2_is_given_up_and_clients_are_served_meanwhile() -> None:
    """Thousands of states for each character: it ends, and each name takes milliseconds."""
    things = [{"name": "x" * 250}] * 2_000
    request = Request("GET", "/api/things?page=1&use_regex=true&name=(.?){1000}!", {}, b"", LOCAL, 0)

    async def run() -> int:
        beats, ended = 0, asyncio.Event()

        async def beat() -> None:
            nonlocal beats
            while not ended.is_set():
                beats += 1
                await asyncio.sleep(0)

        beside = asyncio.create_task(beat())
        with pytest.raises(HttpError, match="takes too long"):
            await listed(request, things, KIND)
        ended.set()
        await beside
        return beats

    assert asyncio.run(run()) >= 5


def test_a_pattern_that_takes_for_ever_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """It backtracks over each name without end, and nobody else would be served meanwhile."""
    things = [{"name": "x" * 200 + "!"}] * 1_000
    request = Request("GET", "/api/things?page=1&use_regex=true&name=(?!a)(x%2Bx%2B)%2By", {}, b"", LOCAL, 0)

    async def run() -> float:
        loop = asyncio.get_running_loop()
        begun = loop.time()
        with pytest.raises(HttpError, match="takes too long"):
            await listed(request, things, KIND)
        return loop.time() - begun

    assert asyncio.run(run()) < MATCHES_S_MAX * 4


def test_all_names_of_a_request_have_one_deadline_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "MATCH_S_MAX", 60.0)
    monkeypatch.setattr(filtering, "MATCHES_S_MAX", 0.01)
    matches = name_filter("(?!a)(x+x+)+y", is_regex=True)
    begun = perf_counter()
    with pytest.raises(HttpError, match="takes too long"):
        matches("x" * 200)
    assert perf_counter() - begun < 30


def test_names_that_re2_looks_at_have_one_deadline_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(filtering, "LINEAR_S_MAX", 0.0)
    matches = name_filter("x$", is_regex=True)
    assert [matches(name) for name in ("ax", "xa", "\ud800X")] == [True, False, True]
    with pytest.raises(HttpError, match="takes too long"):
        for _ in range(filtering.LOOKED_AT_ONCE):
            matches("x")


def test_a_list_that_comes_in_its_order_is_cut_to_a_page_from_either_end() -> None:
    kind: ListOf[dict[str, Any]] = ListOf(lambda one: one, itemgetter("name"), itemgetter("name"), is_sorted=True)
    for page, reverse in product((1, 2, 3), ("false", "true")):
        request = Request("GET", f"/api/things?page={page}&sort_reverse={reverse}", {}, b"", LOCAL, 0)
        found = json.loads(asyncio.run(listed(request, THINGS, kind)).body)["items"]
        ordered = THINGS[::-1] if reverse == "true" else THINGS
        assert found == ordered[100 * page - 100 : 100 * page], (page, reverse)


def test_a_long_list_is_sent_in_pieces_that_are_one_array() -> None:
    things = [{"name": f"{number:05}"} for number in range(2 * SENT_AT_ONCE + 1)]
    request = Request("GET", "/api/things", {}, b"", LOCAL, 0)
    response = asyncio.run(listed(request, things, KIND))
    assert json.loads(b"".join(response.pieces)) == things
    assert len(response.pieces) == 4 and response.body == b""


def test_what_has_gone_meanwhile_is_left_out() -> None:
    kind: ListOf[dict[str, Any]] = ListOf(
        lambda one: None if one["size"] == -1 else one, itemgetter("name"), itemgetter("name")
    )
    for query in ("", "sort=size", "page=1", "sort=size&page=1"):
        request = Request("GET", f"/api/things?{query}", {}, b"", LOCAL, 0)
        found = json.loads(asyncio.run(listed(request, THINGS[:3], kind)).body)
        assert sorted(names(found["items"] if "page" in query else found)) == ["thing-000", "thing-002"], query


def test_a_list_is_sorted_by_what_is_shown() -> None:
    assert names(asked("sort=size"))[:2] == ["thing-249", "thing-248"]
    assert names(asked("sort=size&sort_reverse=true"))[:2] == ["thing-000", "thing-001"]
    assert {one["part"]["at"] for one in asked("sort=part.at")[:80]} == {0}
    assert names(asked("sort=missing&page=1&page_size=2")["items"]) == ["thing-000", "thing-001"]
    assert names(asked("sort_reverse=true"))[0] == "thing-249"


def test_values_of_different_kinds_are_sorted_too() -> None:
    odd = [
        {"name": str(place), "v": value} for place, value in enumerate(("b", 2, None, [1], {"a": 1}, "a", 1.5, True))
    ]
    assert [one["v"] for one in asked("sort=v", odd)] == [None, True, 1.5, 2, "a", "b", [1], {"a": 1}]


def test_columns_are_shown_once_each_and_not_thousands() -> None:
    assert asked("columns=" + "name," * 5_000)[0] == {"name": "thing-000"}
    assert "201 columns" in refused("columns=" + ",".join(map(str, range(201)))).reason


def test_only_the_columns_that_are_asked_for_come() -> None:
    assert asked("columns=name,part.at,missing,part.none,name.x")[1] == {"name": "thing-001", "part": {"at": 1}}
    page = asked("page=1&page_size=1&columns=size")
    assert (page["items"], page["total_count"]) == ([{"size": 0}], 250)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_part_of_a_sorted_list_is_what_sorting_all_of_it_gives(
    monkeypatch: pytest.MonkeyPatch, reverse: bool
) -> None:
    monkeypatch.setattr(sorting, "SORTED_AT_ONCE", 7)
    monkeypatch.setattr(sorting, "KEYS_AT_ONCE", 3)
    items = [(number * 7919 % 5, number) for number in range(60)]
    for start, end in product(range(0, 70, 9), repeat=2):
        part = asyncio.run(sorted_part(items, itemgetter(0), reverse=reverse, start=start, end=end))
        assert part == sorted(items, key=itemgetter(0), reverse=reverse)[start:end]


def test_what_is_told_by_a_value_alone_is_shown_for_the_page_only() -> None:
    shown: list[str] = []

    def show(one: dict[str, Any]) -> dict[str, Any]:
        shown.append(one["name"])
        return one

    async def value(column: str) -> Any:
        return itemgetter(column) if column == "size" else None

    kind: ListOf[dict[str, Any]] = ListOf(show, itemgetter("name"), itemgetter("name"), value=value, is_sorted=True)

    def page(query: str) -> list[str]:
        shown.clear()
        request = Request("GET", f"/api/things?page=1&page_size=2&{query}", {}, b"", LOCAL, 0)
        return names(json.loads(asyncio.run(listed(request, THINGS, kind)).body)["items"])

    assert page("sort=size") == shown == ["thing-249", "thing-248"]
    assert page("sort=size&sort_reverse=true") == shown == ["thing-000", "thing-001"]
    assert page("sort=part.at") == ["thing-000", "thing-003"] and len(shown) == 250
    assert page("sort_reverse=true") == shown == ["thing-249", "thing-248"]
