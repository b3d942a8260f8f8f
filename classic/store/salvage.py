"""Reads on behind damaged records, so that one flipped bit costs one record and not the rest of its file.

Where the next record begins only the damaged one can say, by its length, and that may be what is damaged. So every length one
bit away is tried: if the checksum is right with one of them, that was the true length. Otherwise the length is as it was
written, or more than one bit is wrong; it is believed when a whole record, or the end, lies where it points to.

A record is never searched for. Payloads are what clients sent, and may hold whole records of any content.
"""

from __future__ import annotations

from typing import NamedTuple

from native.crc32c import crc32c
from storage.disk import Buffer
from storage.record import HEADER, HEADER_BYTES, PAYLOAD_BYTES_MAX, Record, scan

CHECKSUM_BYTES = 4  # what the header begins with, and does not cover
LENGTH_BITS = 32


class Damage(NamedTuple):
    """Bytes that are no record."""

    offset: int
    length: int
    reason: str


def scan_on(data: bytes, start: int = 0) -> tuple[list[Record], list[Damage]]:
    """All whole records from `start` on, and what lies between or behind them."""
    records, at, _ = scan(data, start, len(data), PAYLOAD_BYTES_MAX)
    damages = []
    while at < len(data):
        behind = _behind(data, at)
        damages.append(Damage(at, behind - at, "no whole record is here"))
        more, at, _ = scan(data, behind, len(data), PAYLOAD_BYTES_MAX)
        records += more
    return records, damages


def _behind(data: bytes, at: int) -> int:
    """Where the record behind the damaged one begins; the end when that cannot be known."""
    payload = at + HEADER_BYTES
    if payload > len(data):
        return len(data)
    fields: tuple[int, ...] = HEADER.unpack_from(data, at)
    checksum, length, *rest = fields
    view = memoryview(data)
    for bit in range(LENGTH_BITS):
        end = payload + (length ^ (1 << bit))
        if end <= len(data) and _checksum(end - payload, rest, view[payload:end]) == checksum:
            return end
    end = payload + length
    if end < len(data) and not scan(data, end, len(data), PAYLOAD_BYTES_MAX)[0]:
        return len(data)
    return min(end, len(data))


def _checksum(length: int, rest: list[int], payload: Buffer) -> int:
    """As if the record had this length."""
    return crc32c(payload, crc32c(HEADER.pack(0, length, *rest)[CHECKSUM_BYTES:]))
