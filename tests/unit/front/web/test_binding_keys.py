"""Keys by which paths name bindings: RabbitMQ's, but for the hash of arguments."""

from __future__ import annotations

import pytest

from broker.records import Arguments, BindingRecord
from front.web.views.binding_keys import properties_key


def key(routing_key: str, arguments: Arguments | None = None) -> str:
    return properties_key(BindingRecord("/", "x", "q", "queue", routing_key, arguments or {}))


@pytest.mark.parametrize(("routing_key", "shown"), [("", "~"), ("a.b", "a.b"), ("a~b/c", "a%7Eb%2Fc"), ("é", "%C3%A9")])
def test_without_arguments_it_is_the_routing_key(routing_key: str, shown: str) -> None:
    assert key(routing_key) == shown


def test_arguments_are_told_apart_whatever_their_order() -> None:
    assert key("k", {"a": 1, "b": 2}) == key("k", {"b": 2, "a": 1}) != key("k", {"a": 1, "b": 3})
    assert key("k", {"a": 1}).startswith("k~")
    assert key("", {"a": 1}).startswith("~") and key("", {"a": 1}) != "~"


def test_a_key_that_is_no_text_has_one_too() -> None:
    assert key("\udcff", {"odd": b"\xff"}).startswith("%FF~")
