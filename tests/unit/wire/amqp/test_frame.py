"""Frames as they leave, read by pamqp."""

from __future__ import annotations

from pamqp import commands, heartbeat
from pamqp import frame as pamqp_frame

from wire.amqp import frame, spec


def test_a_method_frame() -> None:
    data = frame.method_frame(7, spec.encode("basic.consume-ok", consumer_tag="t"))
    consumed, channel, value = pamqp_frame.unmarshal(data)
    assert (consumed, channel) == (len(data), 7)
    assert isinstance(value, commands.Basic.ConsumeOk)
    assert value.consumer_tag == "t"


def test_the_heartbeat() -> None:
    assert isinstance(pamqp_frame.unmarshal(frame.HEARTBEAT_FRAME)[2], heartbeat.Heartbeat)


def confirms(data: bytes) -> list[tuple[str, int, bool]]:
    found = []
    while data:
        consumed, channel, value = pamqp_frame.unmarshal(data)
        assert channel == 3
        found.append((value.name, value.delivery_tag, value.multiple))
        data = data[consumed:]
    return found


def test_confirms_that_answer_for_all_below_are_one_frame() -> None:
    assert confirms(frame.confirms(3, 5, 900, True, True)) == [("Basic.Ack", 900, True)]
    assert confirms(frame.confirms(3, 5, 2**40, True, False)) == [("Basic.Nack", 2**40, True)]


def test_confirms_that_may_not_are_one_each() -> None:
    assert confirms(frame.confirms(3, 5, 7, False, True)) == [("Basic.Ack", tag, False) for tag in (5, 6, 7)]
    assert confirms(frame.confirms(3, 8, 8, False, False)) == [("Basic.Nack", 8, False)]
