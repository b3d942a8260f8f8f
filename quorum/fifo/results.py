"""What a machine answers to the ops of an entry (quorum/fifo/commands.py): a list with one result for each.

Their bytes, one behind the other:

    0 None    1 ACCEPTED    2 REJECTED    3 DUPLICATE    4 Gap: expected u64    5 Purged: count u64
    6 TakenMessage: id u64 | index u64 | offset u32 | first u32 | delivery_count u32 | acquired_count u32 | remaining u64
    7 IN_USE    8 NOT_ACTIVE    9 GONE    10 UNKNOWN    11 LATER
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from quorum.fifo.commands import Piece


class ResultCode(IntEnum):
    """Results that say nothing beside themselves."""

    ACCEPTED = 1
    REJECTED = 2  # the queue is full: nothing of the run was stored
    DUPLICATE = 3  # the run was said and accepted before
    IN_USE = 7  # CONSUME: an exclusive consumer has the queue, or this one would have to be alone
    NOT_ACTIVE = 8  # GET: a queue with a single active consumer gives messages to nobody else
    GONE = 9  # the session was declared gone: a later life of its node is known
    LATER = 11  # GET: so much has expired or comes back that one entry could not look for the first; ask again
    UNKNOWN = 10  # an op that makes no sense to this version; nothing was done


class Gap(NamedTuple):
    """ENQUEUE: what came before is missing; nothing was stored. Say again everything from here on."""

    expected: int


class Purged(NamedTuple):
    """What a purge has taken, however often it was said."""

    messages: int


class TakenMessage(NamedTuple):
    """GET took a message. Without no_ack it is held under this id until it is settled."""

    message_id: int
    piece: Piece
    delivery_count: int
    acquired_count: int
    remaining: int  # ready after it


Result = ResultCode | Gap | Purged | TakenMessage | None

_CODE = Struct("<B")
_CODE_AND_NUMBER = Struct("<BQ")
_GOT = Struct("<BQQIIIIQ")
_GAP, _PURGED, _GOT_CODE = 4, 5, 6


def encode_results(results: Iterable[Result]) -> bytes:
    parts = []
    for result in results:
        match result:
            case None:
                parts.append(_CODE.pack(0))
            case Gap(expected):
                parts.append(_CODE_AND_NUMBER.pack(_GAP, expected))
            case Purged(messages):
                parts.append(_CODE_AND_NUMBER.pack(_PURGED, messages))
            case TakenMessage(message_id, piece, delivery_count, acquired_count, remaining):
                parts.append(
                    _GOT.pack(
                        _GOT_CODE,
                        message_id,
                        piece.entry,
                        piece.offset,
                        piece.first,
                        delivery_count,
                        acquired_count,
                        remaining,
                    )
                )
            case ResultCode():
                parts.append(_CODE.pack(result))
    return b"".join(parts)


def decode_results(data: bytes) -> list[Result]:
    """Raises ValueError for bytes that are no results."""
    try:
        return list(_results(data))
    except struct.error as error:
        raise ValueError(f"results of {len(data)} bytes end within one: {error}") from error


def _results(data: bytes) -> Iterator[Result]:
    at = 0
    while at < len(data):
        code = data[at]
        if code in (_GAP, _PURGED):
            number = _CODE_AND_NUMBER.unpack_from(data, at)[1]
            yield Gap(number) if code == _GAP else Purged(number)
            at += _CODE_AND_NUMBER.size
        elif code == _GOT_CODE:
            _, message_id, index, offset, first, delivery_count, acquired_count, remaining = _GOT.unpack_from(data, at)
            yield TakenMessage(message_id, Piece(index, offset, first, 1), delivery_count, acquired_count, remaining)
            at += _GOT.size
        else:
            yield ResultCode(code) if code else None
            at += _CODE.size
