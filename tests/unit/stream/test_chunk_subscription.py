"""What a reader of whole chunks is told with each of them, and what is kept of a log that may be another one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from native.crc32 import crc32
from stream.chunks.chunk import CHUNK_HEADER_BYTES, ChunkHeader, encode_header, message_item
from stream.group.chunk_reading import ReadingCaches, StoredChunk, StreamPlace
from stream.group.sent_chunks import SentChunk
from stream.reading.chunk_subscription import ChunkSubscription
from stream.reading.readers import WaitsFor

ITEM = message_item(b"\0Su\xa0\1a")
HEADER = ChunkHeader(1, 1, 0, 1, 50, crc32(ITEM), len(ITEM))
CHUNK = encode_header(HEADER) + ITEM


@pytest.mark.parametrize(("known", "told"), [(-1, 50), (40, 50), (50, 50), (70, 70)])
def test_the_last_chunk_is_told_and_is_never_before_the_given_one(known: int, told: int) -> None:
    """A node without a member may have heard of less than it reads from another one."""
    given: list[tuple[int, int]] = []
    reader: Any = SimpleNamespace(
        tag="t", wanted=None, credit=1, deliver=lambda last, chunk, count: given.append((last, count))
    )
    log: Any = SimpleNamespace(
        next_sent=lambda index: (index, SentChunk(HEADER, CHUNK, b"")) if not given else None, last_chunk=lambda: known
    )
    subscription = ChunkSubscription(reader, StreamPlace(3, 50))
    assert subscription.read(log, 1_000_000) is WaitsFor.NEWS
    assert given == [(told, 1)]
    assert subscription.place == StreamPlace(4, 51)


def test_nothing_is_kept_of_a_log_that_may_have_lost_its_end() -> None:
    caches = ReadingCaches()
    caches.entries.keep(7, 1, b"entry")
    for group in (7, 8):
        caches.stored.keep(group, 2, StoredChunk(HEADER, CHUNK, memoryview(CHUNK)[-CHUNK_HEADER_BYTES:], b""))
    caches.forget(7)
    assert [caches.hold(7, 1), caches.hold(7, 2), caches.hold(8, 2)] == [False, False, True]
