"""Entries of the kinds that are most of a quorum queue's log, read in one go: a run is published, a range acknowledged, or the
one and then the other.

An entry is laid out as quorum/fifo/commands.py says, or is a skeleton (native/log_columns.py) with the `size` that it had. A
*lone* entry has these ops and no others:

    [ORIGINS, of one publisher, no dead letter] ENQUEUE [SETTLE, of one range, acknowledged]
    SETTLE, of one range, acknowledged

whose run has no expiration and was not numbered by its producer, and whose numbers lie within their limits. Whether a queue
takes one without further ado is not to be seen here: that is analytics/fold/lone_entries.py. The bytes may be anything; those
of a lone entry are all accounted for.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, TypeAlias

from native import compiled_twin
from native.crc32c import crc32c
from native.entry_rows import ENQUEUE, NUMBERED, ORIGIN_WAITED_FOR, ORIGINS_OP, PERSISTENT, SETTLE

# The op's offset; the session; the sequence of the first message, how many there are and the bytes of their bodies; persistent;
# priority; exchange and routing key, and the length of the former; actor, its number of the first message, and whether a
# confirm was waited for: None where the entry does not say it.
LonePublish: TypeAlias = tuple[
    int, tuple[int, int], int, int, int, bool, int, bytes, int, int | None, int | None, bool | None
]
LoneAcknowledgement: TypeAlias = tuple[tuple[int, int, int], int, int]  # the consumer; first id, and how many
# Time in ms and checksum (CRC-32C) of the whole entry, with zeros for contents that were cut out; what it does.
LoneEntry: TypeAlias = tuple[int, int, LonePublish | None, LoneAcknowledgement | None]

ENTRY_VERSION: Final = 1
ID_END: Final = 1 << 62
NO_EXPIRATION: Final = (1 << 64) - 1
ACKNOWLEDGED: Final = 0
EXACT_MAX: Final = 1 << 53  # bytes of a run that floats tell apart: the machine's fold divides them among publishers

_ENTRY, _OP = Struct("<BQ"), Struct("<BI")
_ORIGIN = Struct("<BIIQIB")  # with the head of the op, as those below
_ENQUEUE = Struct("<BIIQQQIQQBBBB")
_ACKNOWLEDGEMENT = Struct("<BIIQQBQI")  # of one range
_FIRST_OP: Final = _ENTRY.size

_Origin: TypeAlias = tuple[int | None, int | None, bool | None]


def lone_entry_plain(data: bytes, size: int) -> LoneEntry | None:
    """What it says; None: it is none."""
    if len(data) <= _FIRST_OP or data[0] != ENTRY_VERSION:
        return None
    kind = data[_FIRST_OP]
    if kind == SETTLE:
        settled = _acknowledgement(data, _FIRST_OP) if not size else None
        return None if settled is None else (_ENTRY.unpack_from(data)[1], crc32c(data), None, settled)
    if kind == ENQUEUE:
        return _publish(data, size, _FIRST_OP, (None, None, None), None)
    return _publish_of(data, size) if kind == ORIGINS_OP else None


def lone_entries_plain(data: list[bytes], sizes: list[int]) -> list[LoneEntry | None]:
    """The same of several."""
    return [lone_entry_plain(entry, size) for entry, size in zip(data, sizes, strict=True)]


def _publish_of(data: bytes, size: int) -> LoneEntry | None:
    """Behind the origin of all its messages."""
    if len(data) < _FIRST_OP + _ORIGIN.size:
        return None
    _, op_size, actor, number, messages, flags = _ORIGIN.unpack_from(data, _FIRST_OP)
    if op_size != _ORIGIN.size - _OP.size or flags > ORIGIN_WAITED_FOR:
        return None
    origin = (actor or None, number or None, bool(flags) if actor else None)
    return _publish(data, size, _FIRST_OP + _ORIGIN.size, origin, messages)


def _publish(data: bytes, size: int, at: int, origin: _Origin, messages: int | None) -> LoneEntry | None:
    """`messages`: so many the origin is of."""
    if len(data) < at + _ENQUEUE.size:
        return None
    (
        kind, op_size, node, incarnation, sequence, _, length, body_bytes, expiration, flags, priority, exchange_len, key_len,
    ) = _ENQUEUE.unpack_from(data, at)  # fmt: skip
    whole, names_at = size or len(data), at + _ENQUEUE.size
    behind = whole - (at + _OP.size + op_size)
    end, names_end = len(data) - behind, names_at + exchange_len + key_len
    if (
        kind != ENQUEUE
        or behind not in (0, _ACKNOWLEDGEMENT.size)
        or not names_end <= end <= whole - behind
        or not length
        or length != (length if messages is None else messages)
        or sequence + length > ID_END
        or expiration != NO_EXPIRATION
        or flags & NUMBERED
        or body_bytes > EXACT_MAX
    ):
        return None
    settled = _acknowledgement(data, end) if behind else None
    if behind and settled is None:
        return None
    published = (
        at, (node, incarnation), sequence, length, body_bytes, bool(flags & PERSISTENT), priority, data[names_at:names_end],
        exchange_len, *origin,
    )  # fmt: skip
    checksum = crc32c(data[end:], crc32c(bytes(whole - len(data)), crc32c(data[:end])))
    return _ENTRY.unpack_from(data)[1], checksum, published, settled


def _acknowledgement(data: bytes, at: int) -> LoneAcknowledgement | None:
    """What stands there and is all up to the end; None: it is something else."""
    if len(data) - at != _ACKNOWLEDGEMENT.size:
        return None
    kind, op_size, node, incarnation, number, outcome, first, length = _ACKNOWLEDGEMENT.unpack_from(data, at)
    if (
        kind != SETTLE
        or op_size != _ACKNOWLEDGEMENT.size - _OP.size
        or outcome != ACKNOWLEDGED
        or first + length > ID_END
    ):
        return None
    return (node, incarnation, number), first, length


lone_entry, lone_entries = lone_entry_plain, lone_entries_plain

if (_twin := compiled_twin("entry_scan")) is not None:
    lone_entry, lone_entries = _twin.lone_entry, _twin.lone_entries
