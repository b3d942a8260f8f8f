"""The property `expiration`, with RabbitMQ's texts."""

from __future__ import annotations

import pytest

from broker.errors import PreconditionFailed
from broker.expiration import expiration_ms


@pytest.mark.parametrize(
    ("raw", "milliseconds"),
    [(b"0", 0), (b"100", 100), (b"+5", 5), (b"4294967296", 2**32), (b"315360000000", 315_360_000_000), (b"007", 7)],
)
def test_whole_milliseconds_up_to_ten_years(raw: bytes, milliseconds: int) -> None:
    assert expiration_ms(raw) == milliseconds


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"abc", "no_integer"),
        (b"", "no_integer"),
        (b"-1", "{value_negative,-1}"),
        (b"1.5", '{leftover_string,".5"}'),
        (b"5 ", '{leftover_string," "}'),
        (b"315360000001", "{value_too_large,315360000001}"),
        (b"\xff", "no_integer"),
    ],
)
def test_anything_else_is_refused(raw: bytes, why: str) -> None:
    with pytest.raises(PreconditionFailed) as raised:
        expiration_ms(raw)
    assert raised.value.text == f"invalid expiration '{raw.decode('utf-8', 'replace')}': {why}"
