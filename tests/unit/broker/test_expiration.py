"""The property expiration: a text of milliseconds, and exact words for everything else."""

from __future__ import annotations

import pytest

from broker.errors import PreconditionFailed
from broker.messages.expiration import TEN_YEARS_MS, expiration_ms


@pytest.mark.parametrize(
    ("raw", "milliseconds"),
    [(b"0", 0), (b"10", 10), (b"00010", 10), (b"+5", 5), (b"-0", 0), (b"99999999999", 99_999_999_999),
     (b"315360000000", TEN_YEARS_MS), (b"000000000000001", 1)],
)  # fmt: skip
def test_a_text_of_milliseconds(raw: bytes, milliseconds: int) -> None:
    assert expiration_ms(raw) == milliseconds


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"abc", "invalid expiration 'abc': no_integer"),
        (b"", "invalid expiration '': no_integer"),
        (b" 5", "invalid expiration ' 5': no_integer"),
        (b"-1", "invalid expiration '-1': {value_negative,-1}"),
        (b"1.5", "invalid expiration '1.5': {leftover_string,\".5\"}"),
        (b"5 ", "invalid expiration '5 ': {leftover_string,\" \"}"),
        (b"315360000001", "invalid expiration '315360000001': {value_too_large,315360000001}"),
        ("٣".encode(), "invalid expiration '٣': no_integer"),
        (b"\xff", "invalid expiration '\ufffd': no_integer"),
    ],
)
def test_what_is_no_time_to_live_says_why(raw: bytes, text: str) -> None:
    with pytest.raises(PreconditionFailed) as raised:
        expiration_ms(raw)
    assert raised.value.text == text


def test_an_absurdly_long_number_is_refused_without_being_read() -> None:
    with pytest.raises(PreconditionFailed):
        expiration_ms(b"9" * 255)
