"""A chunk that is much work is taken apart over several turns, whoever asks for it."""

from __future__ import annotations

import gzip

import pytest

from replicated.stored_entries import LargeEntry
from stream.chunks.chunk import SubBatch, message_item, seal_chunk, sub_batch_item
from stream.chunks.entries import WriterPosition, encode_chunk
from stream.group.chunk_reading import ReadChunk, ReadingCaches, StillTakenApart, StreamReading

MESSAGES = 8
GROUP = 7


def large_chunk(first_offset: int) -> bytes:
    items = message_item(bytes(1 << 20)) * MESSAGES
    data = sub_batch_item(SubBatch(1, MESSAGES, len(items), gzip.compress(items)))
    header = seal_chunk([data], 1, MESSAGES, 1, 1, first_offset)
    return encode_chunk(header, [data], writers=(WriterPosition(1, 1, first_offset + MESSAGES),))


class Chunks:
    """Fulfils ReadableLog."""

    def __init__(self, count: int) -> None:
        self._entries = [large_chunk(number * MESSAGES) for number in range(count)]

    def at_or_behind(self, index: int) -> int | None:
        return index if index < len(self._entries) else None

    def read(self, index: int) -> bytes:
        return self._entries[index]

    def in_file(self, index: int) -> LargeEntry | None:
        return None

    def last_chunk(self) -> int:
        return -1


@pytest.fixture
def reading() -> StreamReading:
    return StreamReading(GROUP, Chunks(2), ReadingCaches(), lambda count, why: None)


def asked(reading: StreamReading, index: int) -> ReadChunk | None:
    try:
        found = reading.next_chunk(index)
    except StillTakenApart:
        return None
    assert found is not None and found[0] == index
    return found[1]


def test_who_asks_again_gets_it_in_the_end(reading: StreamReading) -> None:
    answers = [asked(reading, 0)]
    while answers[-1] is None:
        answers.append(asked(reading, 0))
    assert len(answers) > MESSAGES
    assert sum(one.message_count for one in answers[-1].messages) == MESSAGES
    assert asked(reading, 0) is answers[-1], "it is kept for others"


def test_two_readers_at_different_places_both_come_to_an_end(reading: StreamReading) -> None:
    found: dict[int, ReadChunk] = {}
    for _ in range(10 * MESSAGES):
        for index in (0, 1):
            if index not in found and (chunk := asked(reading, index)) is not None:
                found[index] = chunk
    assert {index: chunk.first_offset for index, chunk in found.items()} == {0: 0, 1: MESSAGES}


def test_what_is_forgotten_meanwhile_is_begun_anew() -> None:
    caches = ReadingCaches()
    reading = StreamReading(GROUP, Chunks(1), caches, lambda count, why: None)
    assert asked(reading, 0) is None
    caches.forget(GROUP)
    assert not caches.in_work
    while (chunk := asked(reading, 0)) is None:
        continue
    assert chunk.next_offset == MESSAGES
