"""Fields of a request's body: what tools send in place of what is meant, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from front.web.http import bodies
from front.web.http.request import HttpError


@pytest.mark.parametrize(
    ("read", "given", "value"),
    [
        (bodies.flag, True, True),
        (bodies.flag, "true", True),
        (bodies.flag, "false", False),
        (bodies.number, 7, 7),
        (bodies.number, "-7", -7),
        (bodies.table, {"a": 1}, {"a": 1}),
        (bodies.table, [], {}),  # so PHP writes an empty object
        (bodies.table, None, {}),
        (bodies.tags, " a, b,,", ("a", "b")),
        (bodies.tags, ["a ", "", "b"], ("a", "b")),
        (bodies.texts, ["a", "b"], ["a", "b"]),
    ],
)
def test_what_tools_send_is_understood(read: Callable[..., Any], given: Any, value: Any) -> None:
    assert read({"x": given}, "x") == value


@pytest.mark.parametrize(
    ("read", "given"),
    [
        (bodies.flag, "yes"),
        (bodies.flag, 1),
        (bodies.number, True),
        (bodies.number, 1.5),
        (bodies.number, "9" * 20),
        (bodies.table, [1]),
        (bodies.text, 7),
        (bodies.tags, [1]),
        (bodies.texts, "a,b"),
    ],
)
def test_another_type_is_refused_and_named(read: Callable[..., Any], given: Any) -> None:
    with pytest.raises(HttpError, match="'x' is ") as refused:
        read({"x": given}, "x")
    assert refused.value.status == 400


def test_a_password_of_another_type_is_not_said_back() -> None:
    with pytest.raises(HttpError) as refused:
        bodies.text({"password": ["secret"]}, "password")
    assert refused.value.reason == "'password' is a JSON list, a text is needed"


def test_all_that_are_missing_are_named() -> None:
    with pytest.raises(HttpError, match="'a', 'c' are missing"):
        bodies.require({"b": 1}, "a", "b", "c")


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_table_is_nested_as_deep_as_definitions_may_have_it_and_no_deeper() -> None:
    deepest = nested(bodies.TABLE_NESTING_MAX)
    assert bodies.table({"arguments": deepest}, "arguments") == deepest


@pytest.mark.parametrize("levels", [bodies.TABLE_NESTING_MAX + 1, 400, 900, 5_000])
def test_a_table_that_is_nested_deeper_is_refused_before_it_is_read(levels: int) -> None:
    with pytest.raises(HttpError, match="'arguments' has more than 33 lists or objects within each other") as refused:
        bodies.table({"arguments": nested(levels)}, "arguments")
    assert refused.value.status == 400
