"""The letters between nodes that only streams have. Those of every replicated queue, and the head of all, are in
replicated/letters.py. Little endian:

    kind  name       what follows the head
      12  BROWSE     begin u8 | its value i64 | limit u32. An ask of any node with a member; answered by: status u8 |
                     leader node u32 | if that is DONE, messages as broker/messages/browsed.py tells them
                     begin: 0 behind so many messages, 1 first, 2 last, 3 next, 4 offset, 5 time in ms
      13  PLACE      begin u8, not 0 | its value i64. An ask: where does a reader begin? Any member answers that surely
                     knows it, else the leader's; by: status u8 | leader node u32 | if that is DONE, entry index u64 |
                     offset u64 | u64: offset of the chunk that it begins with
      14  READ       entry index u64 | bytes u32. An ask: chunks at or behind this entry, about so many bytes. Any member
                     answers, when there are some, or after a while; by: status u8 | leader node u32 | if that is DONE, next
                     offset u64 of the stream | i64: offset of its last chunk, -1 for unknown | for each chunk: entry index
                     u64 | bytes u32 | the entry
      15  ASK        what u8: 0 nothing but who leads, 1 the offset that is stored under a reference, 2 the last id of a
                     publisher | its name (size u8, UTF-8). An ask of the leader's node; answered by: status u8 |
                     leader node u32 | if that is DONE, known u8: 0 or 1 | value u64
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from enum import IntEnum
from struct import Struct
from typing import NamedTuple

from broker.messages import browsed as browsed_messages
from broker.messages.browsed import Browsed
from broker.queues.stream_contract import AtOffset, AtTime, Begin, OffsetSpec
from raft.core.byte_reader import ByteReader
from raft.core.errors import BadBytes
from replicated.letters import HEAD, STATUS, Answer, AnswerStatus, BadLetter, decode_answer, head
from storage.disk import Buffer
from stream.group.chunk_reading import FoundPlace, StreamPlace


class StreamLetter(IntEnum):
    """See the module."""

    BROWSE = 12
    PLACE = 13
    READ = 14
    ASK = 15


class AskedOfLeader(IntEnum):
    """What is asked of the leader about a name."""

    NOTHING = 0  # but who leads
    STORED_OFFSET = 1
    LAST_ID = 2  # of a publisher


class Skip(NamedTuple):
    """A place so many messages behind the first one."""

    messages: int


_PLACE = Struct("<Bq")
_FOUND = Struct("<QQQ")
_READ = Struct("<QI")
_END = Struct("<Qq")
_ENTRY = Struct("<QI")
_BROWSE = Struct("<BqI")
_KNOWN = Struct("<BQ")
_SKIP, _OFFSET, _TIME = 0, 4, 5
_ENDS = {1: Begin.FIRST, 2: Begin.LAST, 3: Begin.NEXT}


def browse(group: int, begin: OffsetSpec | Skip, limit: int) -> bytes:
    return head(StreamLetter.BROWSE, group) + _BROWSE.pack(*_place_numbers(begin), limit)


def decode_browse(letter: bytes) -> tuple[OffsetSpec | Skip, int]:
    """Where to begin, and how many. Raises BadLetter."""
    try:
        kind, value, limit = _BROWSE.unpack_from(letter, HEAD.size)
        return _place(kind, value), limit
    except (struct.error, KeyError) as error:
        raise BadLetter(f"a BROWSE of {len(letter)} bytes: {error}") from error


def browsed(leader: int, found: Iterable[Browsed]) -> bytes:
    return STATUS.pack(AnswerStatus.DONE, leader) + browsed_messages.encode(found)


def decode_browsed(answer: Buffer) -> list[Browsed] | None:
    """None: that node has no member. Raises BadLetter."""
    if decode_answer(bytes(answer)).status is not AnswerStatus.DONE:
        return None
    try:
        return browsed_messages.decode(bytes(answer[STATUS.size :]))
    except ValueError as error:
        raise BadLetter(f"an answer to BROWSE of {len(answer)} bytes: {error}") from error


def place(group: int, spec: OffsetSpec) -> bytes:
    return head(StreamLetter.PLACE, group) + _PLACE.pack(*_place_numbers(spec))


def decode_place(letter: Buffer) -> OffsetSpec:
    """Raises BadLetter."""
    try:
        spec = _place(*_PLACE.unpack_from(letter, HEAD.size))
    except (struct.error, KeyError) as error:
        raise BadLetter(f"a PLACE of {len(letter)} bytes: {error}") from error
    if isinstance(spec, Skip):
        raise BadLetter("a PLACE behind so many messages")
    return spec


def place_answer(leader: int, found: FoundPlace) -> bytes:
    return STATUS.pack(AnswerStatus.DONE, leader) + _FOUND.pack(*found.place, found.chunk)


def decode_place_answer(answer: bytes) -> Answer | FoundPlace:
    """An Answer: the node does not know it. Raises BadLetter."""
    status = decode_answer(answer)
    if status.status is not AnswerStatus.DONE:
        return status
    try:
        index, offset, chunk = _FOUND.unpack_from(answer, STATUS.size)
    except struct.error as error:
        raise BadLetter(f"an answer to PLACE of {len(answer)} bytes: {error}") from error
    return FoundPlace(StreamPlace(index, offset), chunk)


class ReadAnswer(NamedTuple):
    """Chunks of another node's member."""

    leader: int  # as far as it knows; 0: none
    next_offset: int
    last_chunk: int
    entries: Sequence[tuple[int, Buffer]]  # index, and what is there


def read(group: int, index: int, bytes_max: int) -> bytes:
    return head(StreamLetter.READ, group) + _READ.pack(index, bytes_max)


def decode_read(letter: Buffer) -> tuple[int, int]:
    """Index, and how many bytes. Raises BadLetter."""
    try:
        index, bytes_max = _READ.unpack_from(letter, HEAD.size)
    except struct.error as error:
        raise BadLetter(f"a READ of {len(letter)} bytes: {error}") from error
    return index, bytes_max


def read_answer(
    leader: int, next_offset: int, last_chunk: int, entries: Sequence[tuple[int, Buffer]]
) -> Sequence[Buffer]:
    parts: list[Buffer] = [STATUS.pack(AnswerStatus.DONE, leader), _END.pack(next_offset, last_chunk)]
    for index, entry in entries:
        parts += (_ENTRY.pack(index, len(entry)), entry)
    return parts


def decode_read_answer(answer: bytes) -> Answer | ReadAnswer:
    """An Answer: the node has nothing to give. Raises BadLetter."""
    status = decode_answer(answer)
    if status.status is not AnswerStatus.DONE:
        return status
    entries: list[tuple[int, Buffer]] = []
    try:
        next_offset, last_chunk = _END.unpack_from(answer, STATUS.size)
        at = STATUS.size + _END.size
        while at < len(answer):
            index, size = _ENTRY.unpack_from(answer, at)
            at += _ENTRY.size + size
            entries.append((index, answer[at - size : at]))
    except struct.error as error:
        raise BadLetter(f"an answer to READ of {len(answer)} bytes: {error}") from error
    if at != len(answer):
        raise BadLetter(f"an answer to READ of {len(answer)} bytes ends within an entry")
    return ReadAnswer(status.leader, next_offset, last_chunk, entries)


def _place_numbers(begin: OffsetSpec | Skip) -> tuple[int, int]:
    match begin:
        case Skip(messages):
            return _SKIP, messages
        case AtOffset(offset):
            return _OFFSET, offset
        case AtTime(time_ms):
            return _TIME, time_ms
        case end:
            return next(kind for kind, one in _ENDS.items() if one is end), 0


def _place(kind: int, value: int) -> OffsetSpec | Skip:
    if kind == _SKIP:
        return Skip(value)
    if kind == _OFFSET:
        return AtOffset(value)
    return AtTime(value) if kind == _TIME else _ENDS[kind]


def ask(group: int, wanted: AskedOfLeader, name: str) -> bytes:
    encoded = name.encode()
    return head(StreamLetter.ASK, group) + bytes((wanted, len(encoded))) + encoded


def decode_ask(letter: bytes) -> tuple[AskedOfLeader, str]:
    """Raises BadLetter."""
    reader = ByteReader(letter, HEAD.size)
    try:
        wanted = AskedOfLeader(reader.u8())
        name = reader.take(reader.u8()).decode()
        reader.must_end()
    except (ValueError, BadBytes) as error:
        raise BadLetter(f"an ASK of {len(letter)} bytes: {error}") from error
    return wanted, name


def ask_answer(leader: int, value: int | None) -> bytes:
    return STATUS.pack(AnswerStatus.DONE, leader) + _KNOWN.pack(value is not None, value or 0)


def decode_ask_answer(answer: bytes) -> int | None:
    """None: there is none, or the node does not know. Raises BadLetter."""
    if decode_answer(answer).status is not AnswerStatus.DONE:
        return None
    try:
        known, value = _KNOWN.unpack_from(answer, STATUS.size)
    except struct.error as error:
        raise BadLetter(f"an answer to ASK of {len(answer)} bytes: {error}") from error
    return value if known else None
