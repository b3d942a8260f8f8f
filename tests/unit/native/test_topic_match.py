"""native/topic_match.py against the grammar said as a recursion."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.native.both import forms

FORMS = forms("topic_match", "matches")


def means(parts: list[str], words: list[str]) -> bool:
    """The definition, without any thought of speed."""
    if not parts:
        return not words
    if parts[0] == "#":
        return any(means(parts[1:], words[taken:]) for taken in range(len(words) + 1))
    return bool(words) and parts[0] in ("*", words[0]) and means(parts[1:], words[1:])


pattern_texts = st.lists(st.sampled_from(["a", "b", "é", "*", "#", "", "ab"]), max_size=6).map(".".join)
key_texts = st.lists(st.sampled_from(["a", "b", "é", "", "ab", "#", "*"]), max_size=6).map(".".join)


@pytest.mark.parametrize("form", FORMS)
class TestMatches:
    @given(pattern_texts, key_texts)
    def test_it_means_what_the_grammar_says(self, form: Any, pattern: str, key: str) -> None:
        parts = pattern.split(".") if pattern else []
        words = key.split(".") if key else []
        assert form.matches(pattern, key) is means(parts, words)

    @pytest.mark.parametrize(
        ("pattern", "key", "expected"),
        [
            ("#", "", True),
            ("", "", True),
            ("*", "", False),
            ("a.#", "a", True),
            ("#.a", "a", True),
            ("a.*.c", "a..c", True),
            ("*.*", ".", True),
            ("a.#.b.#.c", "a.x.b.b.y.c", True),
            ("a.#.b", "a.b.c", False),
            ("stock.*.nyse", "stock.ibm.nyse", True),
            ("stock", "stocks", False),
        ],
    )
    def test_known_answers(self, form: Any, pattern: str, key: str, expected: bool) -> None:
        assert form.matches(pattern, key) is expected

    def test_many_hashes_do_not_make_it_slow(self, form: Any) -> None:
        """By recursion this would not end in a lifetime; here it is at most words times words."""
        assert form.matches("#.a." * 60 + "z", "a." * 250 + "a") is False
