"""A message that was altered on its way is told from those that were published."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.recorder import Altered, Recorder, identity, payload
from tests.histories.records import Delivered


@pytest.mark.parametrize("number", range(7))
def test_a_body_tells_who_sent_it(number: int) -> None:
    assert identity(payload("seller", number)) == ("seller", number)


@pytest.mark.parametrize("at", [0, 8, 11, 19, 60, 99])
def test_any_flipped_bit_is_noticed(at: int) -> None:
    body = bytearray(payload("seller", 123))
    body[at] ^= 2
    with pytest.raises(Altered, match=f"a body of {len(body)} bytes"):
        identity(bytes(body))


def test_an_altered_body_is_a_delivery_that_nobody_sent(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path)
    recorder.deliver("orders", "c1", payload("seller", 5)[:-1] + b"!", False, {})
    (delivered,) = recorder.history
    assert isinstance(delivered, Delivered)
    assert "nobody published" in delivered.publisher
