"""The history of a message that has died: the header x-death, newest first, one entry for each queue and reason.

    x-death   A | size u32 | entries
    entry     F | size u32 | [original-expiration S] | count l | reason S | queue S | time T | exchange S | routing-keys A

Only the broker writes it, so every history that is read here has this form. It stays bytes: a message that goes along a chain
of queues dies in each of them, and reading its whole past at each step would cost the square of the chain's length. What is
asked ("has it died of this in that queue?") is looked for in the bytes first, and entries are read one by one only where the
bytes say that it may be so: a routing key, too, can look like the name of a queue.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, NamedTuple

from wire.amqp.tables import Timestamp, decode_value, encode_value, join_table

HISTORY = "x-death"
# Reasons that only a message has which was delivered: wherever it goes from there, it comes as redelivered.
AFTER_DELIVERY = (b"rejected", b"delivery_limit")
# Of the keys in one death. The message still has all of them in its own headers; here each death would add them again.
KEYS_BYTES_MAX = 1_024

_U32 = struct.Struct(">I")
_U64 = struct.Struct(">Q")
_EXPIRATION = b"\x13original-expirationS"
_COUNT = b"\x05countl"
_REASON = b"\x06reasonS"
_QUEUE = b"\x05queueS"


class DeathEntry(NamedTuple):
    """One death, as it lies in the history."""

    start: int
    end: int
    count_at: int  # where its eight bytes are
    reason: bytes
    queue: bytes


class History:
    """All deaths of one message."""

    __slots__ = ("_raw",)

    def __init__(self, header: bytes | None = None) -> None:
        """From the header's value as it lies in the table, its letter first."""
        self._raw = b"" if header is None else header[5:]

    def __bool__(self) -> bool:
        return bool(self._raw)

    @property
    def header(self) -> bytes:
        """As a value of a table, its letter first."""
        return b"A" + _U32.pack(len(self._raw)) + self._raw

    def with_death(
        self, queue: str, reason: str, exchange: str, keys: list[str], expiration: str | None, now: int
    ) -> History:
        """One death more: a new entry, or one more of a known one, which becomes the newest."""
        after = History()
        known = self._find(_bytes(queue), _bytes(reason))
        if known is None:
            first = {} if expiration is None else {"original-expiration": expiration}
            after._raw = _encoded(first, reason, queue, exchange, keys, now) + self._raw
        else:
            (count,) = _U64.unpack_from(self._raw, known.count_at)
            counted = (
                self._raw[known.start : known.count_at]
                + _U64.pack(count + 1)
                + self._raw[known.count_at + _U64.size : known.end]
            )
            after._raw = counted + self._raw[: known.start] + self._raw[known.end :]
        return after

    def was_delivered(self) -> bool:
        """Whether it died once after a consumer had it."""
        return any(
            _field(_REASON, word) in self._raw and any(entry.reason == word for entry in self._entries())
            for word in AFTER_DELIVERY
        )

    def newest(self) -> dict[str, Any] | None:
        """The last death, as clients read it; None: it never died."""
        first = next(self._entries(), None)
        return None if first is None else decode_value(self._raw[first.start : first.end])[0]

    def is_idle_cycle(self, target: str) -> bool:
        """Whether the message has been through the target already, and nobody rejected it since."""
        name = _bytes(target)
        if _field(_QUEUE, name) not in self._raw:
            return False
        for entry in self._entries():
            if entry.reason == b"rejected":
                return False
            if entry.queue == name:
                return True
        return False

    def _find(self, queue: bytes, reason: bytes) -> DeathEntry | None:
        if _field(_REASON, reason) + _field(_QUEUE, queue) not in self._raw:
            return None
        return next((entry for entry in self._entries() if entry.queue == queue and entry.reason == reason), None)

    def _entries(self) -> Iterator[DeathEntry]:
        raw, start = self._raw, 0
        while start < len(raw):
            assert raw[start] == ord("F"), (
                f"a history with {raw[start : start + 8]!r} at byte {start}: not written by us"
            )
            end = start + 5 + _size(raw, start + 1)
            at = start + 5
            if raw.startswith(_EXPIRATION, at):
                at += len(_EXPIRATION) + 4 + _size(raw, at + len(_EXPIRATION))
            count_at = at + len(_COUNT)
            reason_at = count_at + _U64.size + len(_REASON) + 4
            reason_end = reason_at + _size(raw, reason_at - 4)
            queue_at = reason_end + len(_QUEUE) + 4
            queue_end = queue_at + _size(raw, queue_at - 4)
            yield DeathEntry(start, end, count_at, raw[reason_at:reason_end], raw[queue_at:queue_end])
            start = end


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _size(raw: bytes, at: int) -> int:
    return int(_U32.unpack_from(raw, at)[0])


def _field(head: bytes, text: bytes) -> bytes:
    return head + _U32.pack(len(text)) + text


def _encoded(first: dict[str, Any], reason: str, queue: str, exchange: str, keys: list[str], now: int) -> bytes:
    """A first death, as clients know it: the count is a 64-bit integer however small it is."""
    words = {
        "reason": reason,
        "queue": queue,
        "time": Timestamp(now // 1000),
        "exchange": exchange,
        "routing-keys": _bounded(keys),
    }
    raw = {name: encode_value(value) for name, value in first.items()}
    raw["count"] = b"l" + _U64.pack(1)
    raw |= {name: encode_value(value) for name, value in words.items()}
    return b"F" + join_table(raw)


def _bounded(keys: list[str]) -> list[str]:
    """As many keys as a death may hold, and the one it was published with in any case."""
    kept, size = keys[:1], 0
    for key in keys[1:]:
        size += len(key)
        if size > KEYS_BYTES_MAX:
            break
        kept.append(key)
    return kept
