"""Chunks byte by byte, as readers of the stream protocol expect them."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from raft.core.errors import BadBytes
from stream.chunks.chunk import (
    CHUNK_HEADER_BYTES,
    SubBatch,
    items_in,
    message_item,
    must_be_sound,
    read_header,
    seal_chunk,
    sub_batch_item,
)

MESSAGES = [b"\0Su\xa0\x03abc", b"", b"x" * 300]
DATA = b"".join(map(message_item, MESSAGES))


def test_a_header_has_each_field_at_its_place() -> None:
    header = seal_chunk([DATA], 3, 3, 1_700_000_000_123, 7, 2**40, ["test-reference", "é"])
    fields = {
        (0, 1): 0x50,
        (1, 2): 0,
        (2, 4): 3,
        (4, 8): 3,
        (8, 16): 1_700_000_000_123,
        (16, 24): 7,
        (24, 32): 2**40,
        (32, 36): crc32(DATA),
        (36, 40): len(DATA),
        (40, 44): 24 + 12,  # as in RabbitMQ, where each name has kind, size and id beside it
        (44, 45): 0,
        (45, 48): 0,
    }
    assert len(header) == CHUNK_HEADER_BYTES == 48
    assert {(at, end): int.from_bytes(header[at:end], "big") for at, end in fields} == fields


def test_items_have_the_bytes_of_the_stream_protocol() -> None:
    assert message_item(b"abc") == b"\0\0\0\x03abc"
    assert sub_batch_item(SubBatch(1, 20, 3000, b"gz")) == b"\x90\0\x14\0\0\x0b\xb8\0\0\0\x02gz"
    assert sub_batch_item(SubBatch(4, 1, 9, b"z"))[0] == 0xC0


def test_a_chunk_is_read_back() -> None:
    batch = SubBatch(3, 17, 500, b"compressed")
    parts = [message_item(b"one"), sub_batch_item(batch), message_item(b"two")]
    header = read_header(b"before" + seal_chunk(parts, 3, 19, -1, 2, 10), 6)
    data = b"".join(parts)
    must_be_sound(header, data)
    assert (header.next_offset, header.size) == (29, 48 + len(data))
    first, second, third = items_in(data, header.item_count)
    assert isinstance(second, SubBatch)
    assert (bytes(first), bytes(third)) == (b"one", b"two")  # type: ignore[arg-type]
    assert second._replace(data=bytes(second.data)) == batch


def test_every_flipped_bit_of_a_chunk_is_noticed() -> None:
    chunk = seal_chunk([DATA], 3, 3, 5, 1, 0) + DATA
    for bit in range(len(chunk) * 8):
        twin = bytearray(chunk)
        twin[bit // 8] ^= 1 << bit % 8
        try:
            header = read_header(twin)
            must_be_sound(header, twin[48:])
        except BadBytes:
            continue
        # A sum of its own in the log covers the header.
        assert bit < 48 * 8 and header != read_header(chunk)


@pytest.mark.parametrize("length", range(len(DATA)))
def test_data_that_ends_too_early_is_refused(length: int) -> None:
    with pytest.raises(BadBytes):
        list(items_in(DATA[:length], 3))
    with pytest.raises(BadBytes):
        must_be_sound(read_header(seal_chunk([DATA], 3, 3, 0, 1, 0)), DATA[:length])


def test_data_that_goes_on_too_long_is_refused() -> None:
    with pytest.raises(BadBytes, match="left over"):
        list(items_in(DATA, 2))


@pytest.mark.parametrize(
    "header", [b"", bytes(47), bytes(48), b"\x51" + bytes(47), b"\x50\x01" + bytes(46), b"\x50" + bytes(47)]
)
def test_what_is_no_header_is_refused(header: bytes) -> None:
    with pytest.raises(BadBytes):
        read_header(header)


@given(st.binary(max_size=80), st.integers(0, 9))
def test_any_bytes_are_items_or_an_error(data: bytes, count: int) -> None:
    try:
        found = list(items_in(data, count))
    except BadBytes:
        return
    parts = [sub_batch_item(one) if isinstance(one, SubBatch) else message_item(one) for one in found]
    assert [part[1:] for part in parts if part[0] & 0x80 == 0] == [part[1:] for part in parts if part[0] < 0x80]
    assert sum(map(len, parts)) == len(data)
