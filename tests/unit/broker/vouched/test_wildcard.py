"""Patterns of scopes match what a regular expression with the same stars matches, and nothing when they cannot be read."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.vouched.wildcard import literally, wildcard

TEXT = st.text(st.sampled_from("ab*/%+é "), max_size=8)


def matches(pattern: str, text: str) -> bool:
    found = wildcard(pattern)
    return found is not None and found.matches(text)


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("*", "", True),
        ("*", "anything/at all", True),
        ("orders", "orders", True),
        ("orders", "orders-2", False),
        ("orders-*", "orders-", True),
        ("*-orders", "new-orders", True),
        ("*b", "bxb", True),
        ("a**", "a", True),
        ("a*b*c", "a-b-b-c", True),
        ("a*a", "a", False),
        ("", "", True),
        ("", "a", False),
        ("%2F", "/", True),
        ("a%2Ab", "a*b", True),
        ("a%2Ab", "axb", False),
        ("a+b", "a b", True),
        ("%C3%A9", "é", True),
    ],
)
def test_a_star_is_any_text_and_the_rest_is_decoded(pattern: str, text: str, expected: bool) -> None:
    assert matches(pattern, text) is expected


@pytest.mark.parametrize("pattern", ["%", "%2", "%zz", "a%*", "%FF"])
def test_a_pattern_that_cannot_be_decoded_matches_nothing(pattern: str) -> None:
    assert wildcard(pattern) is None


@given(st.lists(TEXT, min_size=1, max_size=5), TEXT)
def test_it_matches_what_the_regular_expression_does(parts: list[str], text: str) -> None:
    pattern = "*".join(literally(part) for part in parts)
    expected = re.fullmatch(".*".join(map(re.escape, parts)), text, re.DOTALL) is not None
    assert matches(pattern, text) is expected


@given(st.text(max_size=12))
def test_a_text_taken_literally_matches_itself_and_nothing_else(text: str) -> None:
    assert matches(literally(text), text.encode("utf-8", "replace").decode())
    assert not matches(literally(text), text + "x")
