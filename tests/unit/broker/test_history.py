"""The history as bytes: what is asked of it, and names that look like something else."""

from __future__ import annotations

import pytest

from broker.routing.history import KEYS_BYTES_MAX, History
from wire.amqp.tables import decode_value

NOW = 1_700_000_000_000


def after(*deaths: tuple[str, str], keys: tuple[str, ...] = ("k",), expiration: str | None = None) -> History:
    """A history of these deaths, (queue, reason), the oldest first."""
    history = History()
    for queue, reason in deaths:
        history = history.with_death(queue, reason, "x", list(keys), expiration, NOW)
    return history


def shown(history: History) -> list[tuple[str, str, int]]:
    return [(entry["queue"], entry["reason"], entry["count"]) for entry in decode_value(history.header)[0]]


def test_the_newest_death_is_first_and_one_that_is_known_counts() -> None:
    history = after(("a", "expired"), ("b", "maxlen"), ("a", "maxlen"), ("a", "expired"), ("a", "expired"))
    assert shown(history) == [("a", "expired", 3), ("a", "maxlen", 1), ("b", "maxlen", 1)]


def test_it_is_read_back_from_the_header_with_an_original_expiration_too() -> None:
    history = History(after(("a", "expired"), expiration="50").header)
    again = history.with_death("a", "expired", "x", ["k"], None, NOW + 5_000)
    (entry,) = decode_value(again.header)[0]
    assert (entry["original-expiration"], entry["count"], entry["time"]) == ("50", 2, NOW // 1000)


def test_only_what_a_consumer_had_was_delivered() -> None:
    assert not after().was_delivered()
    assert not after(("rejected", "expired"), ("b", "maxlen"), keys=("rejected",)).was_delivered()
    assert after(("a", "rejected"), ("b", "expired")).was_delivered()
    assert after(("a", "delivery_limit")).was_delivered()


@pytest.mark.parametrize(
    ("deaths", "target", "idle"),
    [
        ([], "q", False),
        ([("q", "expired")], "q", True),
        ([("other", "expired")], "q", False),
        ([("q", "maxlen"), ("other", "expired")], "q", True),
        ([("q", "rejected")], "q", False),
        ([("q", "expired"), ("x", "rejected"), ("other", "expired")], "q", False),
        ([("x", "rejected"), ("q", "expired")], "q", True),
    ],
)
def test_an_idle_cycle_is_one_without_a_rejection(deaths: list[tuple[str, str]], target: str, idle: bool) -> None:
    assert after(*deaths).is_idle_cycle(target) is idle


def test_a_routing_key_that_looks_like_a_death_is_none() -> None:
    key = "\x06reasonS\0\0\0\x08rejected\x05queueS\0\0\0\x01q"
    history = after(("a", "expired"), keys=(key,))
    assert not history.was_delivered()
    assert not history.is_idle_cycle("q")
    assert shown(history.with_death("q", "rejected", "x", ["k"], None, NOW)) == [
        ("q", "rejected", 1),
        ("a", "expired", 1),
    ]


def test_of_many_keys_a_death_keeps_a_few_and_the_first_in_any_case() -> None:
    (entry,) = decode_value(after(("a", "expired"), keys=("k" * 3_000, "l" * 1_000, "m" * 25)).header)[0]
    assert entry["routing-keys"] == ["k" * 3_000, "l" * 1_000]
    assert KEYS_BYTES_MAX == 1_024
