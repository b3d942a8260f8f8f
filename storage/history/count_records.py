"""How many messages the log does not have, and why: at `history.level = "full"`. All integers are little endian.

    COUNTS    messages that came to nothing that is in the log, counted for a second at most
        span_ms u32       counted since so long before
        then for each row
            actor u32     who published them, named in the same file (storage/history/name_records.py); 0: no client did
            messages u64
            bytes u64     of bodies
            what u8       1 unroutable | 2 unroutable and returned | 3 refused by a classic queue | 4 in memory only, in a
                          classic queue | 5 given to a consumer before it was in its classic queue | 6 a dead letter that
                          no queue got
            exchange_len u8 | key_len u8 | exchange | routing key of the last of them

Each log file has at least one, without rows if there is nothing to count: who reads a file knows whether anybody counted. The
record belongs to no writer (0), and its index is 0.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct
from typing import NamedTuple

NAME_BYTES_MAX = 255
_SPAN = Struct("<I")
_ROW = Struct("<IQQBBB")


class CountRow(NamedTuple):
    """One row of a COUNTS record."""

    actor: int
    what: int
    messages: int
    body_bytes: int
    exchange: str
    routing_key: str


def encode_counts(span_ms: int, rows: Iterable[CountRow]) -> bytes:
    return b"".join([_SPAN.pack(span_ms), *map(_row, rows)])


def _row(row: CountRow) -> bytes:
    exchange, key = _name(row.exchange), _name(row.routing_key)
    return _ROW.pack(row.actor, row.messages, row.body_bytes, row.what, len(exchange), len(key)) + exchange + key


def _name(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")[:NAME_BYTES_MAX]


def decode_counts(payload: bytes | memoryview) -> tuple[int, list[CountRow]]:
    """For how many milliseconds, and what. Raises ValueError."""
    if len(payload) < _SPAN.size:
        raise ValueError(f"counts of {len(payload)} bytes")
    rows: list[CountRow] = []
    at = _SPAN.size
    while at < len(payload):
        key_at = end = at + _ROW.size
        if end <= len(payload):
            actor, messages, body_bytes, what, exchange_len, key_len = _ROW.unpack_from(payload, at)
            key_at += exchange_len
            end = key_at + key_len
        if end > len(payload):
            raise ValueError(f"row {len(rows)} of counts ends behind byte {len(payload)}")
        names = _text(payload[at + _ROW.size : key_at]), _text(payload[key_at:end])
        rows.append(CountRow(actor, what, messages, body_bytes, *names))
        at = end
    return int(_SPAN.unpack_from(payload)[0]), rows


def _text(name: bytes | memoryview) -> str:
    return bytes(name).decode("utf-8", "surrogateescape")
