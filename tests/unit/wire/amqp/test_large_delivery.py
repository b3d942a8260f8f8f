"""Large messages go out in pieces that say exactly what the kernel for small ones says."""

from __future__ import annotations

import pytest

from native.content import encode
from native.deliver import deliveries
from wire.amqp import large_delivery

PROPS = b"\x10\x00\x02"
FRAME_MAX = 131_072


@pytest.mark.parametrize("frame_max", [0, 4_096, FRAME_MAX])
@pytest.mark.parametrize("size", [1, 16_384, FRAME_MAX - 8, FRAME_MAX - 7, 300_000])
def test_the_pieces_are_the_frames_that_the_kernel_makes(size: int, frame_max: int) -> None:
    bodies = [bytes([number]) * size for number in range(3)]
    content = encode(b"", b"before") + b"".join(encode(PROPS, body) for body in bodies)
    start = len(encode(b"", b"before"))
    said = (content, start, 3, 7, b"tag", 41, True, b"exchange", b"key", frame_max)
    assert b"".join(large_delivery.pieces(*said)) == deliveries(*said)[0]


def test_a_large_message_without_a_body_is_still_a_message() -> None:
    said = (encode(PROPS, b""), 0, 1, 7, b"tag", 1, False, b"", b"key", FRAME_MAX)
    assert b"".join(large_delivery.pieces(*said)) == deliveries(*said)[0]


def test_bodies_are_sent_from_where_they_lie() -> None:
    content = encode(PROPS, b"x" * 20_000)
    parts = large_delivery.pieces(content, 0, 1, 7, b"tag", 1, False, b"", b"key", FRAME_MAX)
    assert [len(part) for part in parts if isinstance(part, memoryview)] == [20_000]
    assert all(part.obj is content for part in parts if isinstance(part, memoryview))


def test_from_sixteen_kilobytes_on_a_message_is_large() -> None:
    assert not large_delivery.is_large(encode(PROPS, b"x" * 16_383), 0)
    assert large_delivery.is_large(encode(b"", b"") + encode(PROPS, b"x" * 16_384), len(encode(b"", b"")))


def test_a_message_that_is_not_all_there_is_noticed() -> None:
    with pytest.raises(AssertionError, match="ends at"):
        large_delivery.pieces(encode(PROPS, b"x" * 20_000)[:-1], 0, 1, 7, b"tag", 1, False, b"", b"key", FRAME_MAX)
