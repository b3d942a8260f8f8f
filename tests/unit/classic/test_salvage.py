"""Reading on behind damaged records: from where they end, and from nowhere that a client chose."""

from __future__ import annotations

from classic.store.salvage import scan_on
from storage.record import HEADER_BYTES, Kind, encode


def record(index: int, payload: bytes) -> bytes:
    return b"".join(encode(Kind.CLASSIC_STORED, 7, index, [payload]))


def imitations(size: int) -> bytes:
    """A payload that has a whole record at each distance that one flipped bit of its length can point to."""
    payload = bytearray(size)
    fake = record(666, b"never written")
    for bit in range(size.bit_length()):
        place = size ^ (1 << bit)
        if place + len(fake) <= size:
            payload[place : place + len(fake)] = fake
    return bytes(payload)


def indexes(data: bytes) -> list[int]:
    return [found[4] for found in scan_on(data)[0]]


def test_whole_records_have_nothing_beside_them() -> None:
    data = record(1, b"a") + record(2, b"") + record(3, b"c" * 50)
    records, damages = scan_on(data)
    assert [found[4] for found in records] == [1, 2, 3] and damages == []


def test_a_start_in_the_middle_counts_from_the_begin() -> None:
    first = record(1, b"a")
    records, _ = scan_on(first + record(2, b"b"), len(first))
    assert [(one[4], one[5]) for one in records] == [(2, len(first) + HEADER_BYTES)]


def test_every_flipped_bit_costs_one_record_and_reads_none_that_a_payload_imitates() -> None:
    parts = [record(1, b"first"), record(2, imitations(600)), record(3, imitations(90)), record(4, b"last")]
    data = b"".join(parts)
    ends = [sum(map(len, parts[: count + 1])) for count in range(4)]
    for bit in range(len(data) * 8):
        twin = bytearray(data)
        twin[bit // 8] ^= 1 << bit % 8
        hit = next(number for number, end in enumerate(ends, 1) if bit // 8 < end)
        records, damages = scan_on(bytes(twin))
        assert [found[4] for found in records] == [number for number in range(1, 5) if number != hit], f"bit {bit}"
        (damage,) = damages
        assert (damage.offset, damage.offset + damage.length) == (ends[hit - 1] - len(parts[hit - 1]), ends[hit - 1])


def test_every_prefix_keeps_what_is_whole() -> None:
    parts = [record(1, imitations(100)), record(2, b"b")]
    data = b"".join(parts)
    for length in range(len(data)):
        whole = [1] if length >= len(parts[0]) else []
        records, damages = scan_on(data[:length])
        assert [found[4] for found in records] == whole
        assert sum(one.length for one in damages) == length - (len(parts[0]) if whole else 0)


def test_a_torn_sector_within_a_payload_costs_one_record() -> None:
    data = bytearray(record(1, b"a" * 1500) + record(2, b"b"))
    data[512:1024] = bytes(512)
    assert indexes(bytes(data)) == [2]


def test_a_length_that_points_to_no_record_is_not_believed() -> None:
    first = bytearray(record(1, b"a" * 100))
    first[4:8] = (60).to_bytes(4, "little")  # more than one bit away from what it was
    data = bytes(first) + record(2, b"b")
    records, damages = scan_on(data)
    assert records == [] and [(one.offset, one.length) for one in damages] == [(0, len(data))]


def test_zeros_are_no_record_and_nothing_follows_them() -> None:
    assert indexes(record(1, b"a") + bytes(200) + record(2, b"b")) == [1]
