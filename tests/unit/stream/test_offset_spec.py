"""What is asked for as the place where a reader begins."""

from __future__ import annotations

from typing import Any

import pytest

from broker.queues.stream_contract import AtOffset, AtTime, Begin, OffsetSpec
from stream.group.rules import age_in_ms
from stream.reading.offset_spec import OFFSET_MAX, offset_spec
from wire.amqp.tables import Timestamp

NOW = 1_700_000_000_000
DAY = 24 * 3_600_000


@pytest.mark.parametrize(
    ("asked", "spec"),
    [
        (None, Begin.NEXT),
        ("first", Begin.FIRST),
        ("last", Begin.LAST),
        ("next", Begin.NEXT),
        (0, AtOffset(0)),
        (-1, AtOffset(0)),
        (1 << 70, AtOffset(OFFSET_MAX)),
        (Timestamp(12), AtTime(12_000)),
        ("5m", AtTime(NOW - 300_000)),
        ("1D", AtTime(NOW - DAY)),
        ("First", None),
        ("", None),
        ("5", None),
        ("m", None),
        ("5m ", None),
        ("1234567890123s", None),
        (True, None),
        (1.0, None),
        (b"first", None),
        ([], None),
    ],
)
def test_a_place_or_nothing(asked: Any, spec: OffsetSpec | None) -> None:
    assert offset_spec(asked, NOW) == spec


@pytest.mark.parametrize(
    ("text", "days"), [("1Y", 365), ("2M", 60), ("3D", 3), ("24h", 1), ("1440m", 1), ("86400s", 1)]
)
def test_units_of_an_age(text: str, days: int) -> None:
    assert age_in_ms(text) == days * DAY
