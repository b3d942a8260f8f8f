"""Contents put together frame by frame, and headers that a queue adds."""

from __future__ import annotations

import struct

import pytest

from broker.errors import PreconditionFailed
from front.amqp.content import Assembly
from front.amqp.replies import ProtocolError
from native.content import messages
from wire.amqp.tables import encode_properties

HEADER, BODY = 2, 3


def header(size: int, props: bytes = b"\x00\x00", class_id: int = 60, weight: int = 0) -> bytes:
    return struct.pack(">HHQ", class_id, weight, size) + props


def test_a_body_in_pieces_becomes_one_content() -> None:
    assembly = Assembly(b"method", 100)
    props = encode_properties(
        {"delivery_mode": 2, "priority": 7, "expiration": "5", "user_id": "u", "headers": {"CC": []}}
    )
    assert not assembly.take(HEADER, header(10, props))
    assert not assembly.take(BODY, b"0123")
    assert not assembly.take(BODY, b"")
    assert assembly.take(BODY, b"456789")
    assert messages(assembly.content(), 0, 1) == [(props, b"0123456789")]
    assert assembly.look == (True, 7, b"5", b"u", 1 | 4)


def test_an_empty_body_is_whole_with_its_header() -> None:
    assembly = Assembly(b"method", 100)
    assert assembly.take(HEADER, header(0))
    assert messages(assembly.content(), 0, 1) == [(b"\x00\x00", b"")]


@pytest.mark.parametrize(
    ("frames", "code", "text"),
    [
        ([(BODY, b"x")], 505, "expected content header for class 60, got non content header frame instead"),
        ([(HEADER, header(1, class_id=50))], 505, "expected content header for class 60, got one for class 50 instead"),
        ([(HEADER, header(1, weight=1))], 501, "content header with weight 1, which is always 0"),
        ([(HEADER, b"short")], 501, "content header of 5 bytes"),
        ([(HEADER, header(536_870_913))], 501, "content body size 536870913 exceeds maximum allowed size 536870912"),
        ([(HEADER, header(3)), (BODY, b"four")], 501, "content body frame exceeds remaining content size"),
        ([(HEADER, header(3)), (1, b"")], 505, "expected content body, got method frame instead"),
        ([(HEADER, header(3)), (HEADER, header(3))], 505, "expected content body, got content header frame instead"),
    ],
)
def test_what_does_not_belong_there(frames: list[tuple[int, bytes]], code: int, text: str) -> None:
    assembly = Assembly(b"method", 1 << 30)
    *before, last = frames
    for kind, payload in before:
        assembly.take(kind, payload)
    with pytest.raises(ProtocolError) as broken:
        assembly.take(*last)
    assert (broken.value.code, broken.value.text) == (code, text)


@pytest.mark.parametrize(
    "props", [b"\x00\x01\x00\x00", b"\x80\x00\x05abc", b"\x20\x00\x00\x00\x00\x05\x01aZ!!", b"\x00\x00!"]
)
def test_malformed_properties(props: bytes) -> None:
    with pytest.raises(ProtocolError) as broken:
        Assembly(b"method", 100).take(HEADER, header(1, props))
    assert broken.value.code == 502


def test_a_message_above_the_limit_is_refused_when_it_has_arrived_and_never_kept() -> None:
    assembly = Assembly(b"method", 100)
    assert not assembly.take(HEADER, header(101))
    assert not assembly.take(BODY, b"x" * 100)
    assert (assembly.kept_bytes, assembly._chunks) == (0, [])
    assert assembly.take(BODY, b"x")
    with pytest.raises(PreconditionFailed, match="message size 101 is larger than configured max size 100"):
        assembly.content()


def test_bytes_kept_are_those_that_have_arrived() -> None:
    assembly = Assembly(b"method", 100)
    assert assembly.kept_bytes == 0
    assembly.take(HEADER, header(100))
    assert assembly.kept_bytes == 0
    assembly.take(BODY, b"x" * 40)
    assert assembly.kept_bytes == 40


def test_a_flood_of_empty_bodies_grows_nothing() -> None:
    assembly = Assembly(b"method", 100)
    assembly.take(HEADER, header(1))
    for _ in range(1000):
        assembly.take(BODY, b"")
    assert assembly._chunks == []
