"""Headers that the broker adds to messages."""

from __future__ import annotations

from typing import Any

import pytest

from broker.queues import added_headers
from broker.queues.added_headers import with_headers
from native.content import encode, messages
from wire.amqp.tables import decode_properties, encode_properties, join_properties, split_properties, split_table


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({}, {"headers": {"x-delivery-count": 3}}),
        ({"delivery_mode": 2}, {"delivery_mode": 2, "headers": {"x-delivery-count": 3}}),
        (
            {"headers": {"mine": [1, {"deep": None}], "x-delivery-count": 1}},
            {"headers": {"mine": [1, {"deep": None}], "x-delivery-count": 3}},
        ),
    ],
)
def test_headers_of_the_queue_join_those_of_the_publisher(before: dict[str, Any], after: dict[str, Any]) -> None:
    content = encode(b"\x00\x00", b"skipped") + encode(encode_properties(before), b"one") + encode(b"\x00\x00", b"two")
    start = len(encode(b"\x00\x00", b"skipped"))
    (first, one), (second, two) = messages(with_headers(content, start, 2, {"x-delivery-count": 3}), 0, 2)
    assert (decode_properties(first), one) == (after, b"one")
    assert (decode_properties(second), two) == ({"headers": {"x-delivery-count": 3}}, b"two")


def test_numbers_are_of_64_bits_as_clients_of_rabbitmq_know_them() -> None:
    ((properties, _),) = messages(with_headers(encode(b"\x00\x00", b""), 0, 1, {"x-acquired-count": 1}), 0, 1)
    headers = split_table(split_properties(properties)["headers"])
    assert headers == {"x-acquired-count": b"l" + (1).to_bytes(8, "big")}


def test_headers_that_nobody_can_read_make_room() -> None:
    broken = join_properties({"headers": b"\x00\x00\x00\x03\x01a?"})
    ((properties, body),) = messages(with_headers(encode(broken, b"body"), 0, 1, {"x-acquired-count": 1}), 0, 1)
    assert (decode_properties(properties), body) == ({"headers": {"x-acquired-count": 1}}, b"body")


def test_properties_that_neighbours_share_are_taken_apart_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """60,000 messages of a quorum queue that came again took 0.1 s of one turn of the loop."""
    taken_apart: list[bytes] = []

    def split(props: bytes) -> dict[str, bytes]:
        taken_apart.append(bytes(props))
        return split_properties(props)

    monkeypatch.setattr(added_headers, "split_properties", split)
    persistent, transient = b"\x10\0\x02", b"\x10\0\x01"
    order = [persistent, persistent, persistent, transient, transient, persistent]
    content = b"".join(encode(props, b"%d" % number) for number, props in enumerate(order))
    whole = with_headers(content, 0, len(order), {"x-delivery-count": 3})
    assert taken_apart == [persistent, transient, persistent]
    runs_of_one = [encode(props, b"%d" % number) for number, props in enumerate(order)]
    assert whole == b"".join(with_headers(run, 0, 1, {"x-delivery-count": 3}) for run in runs_of_one)
