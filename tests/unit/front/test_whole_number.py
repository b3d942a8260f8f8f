from __future__ import annotations

from typing import Any

import pytest

from front.web.http import bodies
from front.web.http.request import HttpError
from front.whole_number import whole_number


@pytest.mark.parametrize(("text", "found"), [("0", 0), ("007", 7), ("99999", 99_999)])
def test_digits_are_a_number(text: str, found: int) -> None:
    assert whole_number(text, 5) == whole_number(text, 5, signed=True) == found


@pytest.mark.parametrize("text", ["", "-", "--5", "5-", "+5", " 5", "5_0", "²", "٣", "123456", "9" * 5_000])
def test_what_is_none_or_too_long_is_none(text: str) -> None:
    assert whole_number(text, 5) is None and whole_number(text, 5, signed=True) is None


def test_a_minus_is_for_numbers_that_may_have_a_sign() -> None:
    assert (whole_number("-5", 5), whole_number("-5", 5, signed=True)) == (None, -5)


@pytest.mark.parametrize("value", ["--5", "-", "", "five", "9" * 30, 1.5, True, None, [5]])
def test_a_body_without_the_number_that_is_needed_is_refused_and_says_what_it_has(value: Any) -> None:
    """`--5` ended the request with 500."""
    with pytest.raises(HttpError, match="a whole number is needed") as refused:
        bodies.number({"count": value}, "count")
    assert refused.value.status == 400


@pytest.mark.parametrize("value", [-5, "-5"])
def test_a_number_in_a_body_may_be_a_text(value: Any) -> None:
    assert bodies.number({"count": value}, "count") == -5
