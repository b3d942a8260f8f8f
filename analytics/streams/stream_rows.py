"""Of all copies of a stream's log one, and what it says: what was published, and how far who has stored offsets is behind."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analytics.coverage import MissingFiles, iso_time
from analytics.fold.stream_log import StoredAt, StreamLog, ToldChunk
from analytics.streams.stream_copies import StreamCopies
from analytics.streams.stream_look import LoggedReader


class StreamRow(NamedTuple):
    """One stream, and one of those who have stored offsets in it, or of those who read it, if anybody does. Messages and times
    are of the files that were read."""

    name: str
    messages: int
    bytes: int  # of chunks
    chunks: int
    first_offset: int | None  # of what is kept, as far as the files say it
    next_offset: int | None
    first_at: str | None
    last_at: str | None
    peak_per_second: int
    cuts: int  # by retention
    reference: str | None = None
    stored_offset: int | None = None
    stored_at: str | None = None
    went_back: int | None = None  # how often the reference stored less than before
    lag_messages: int | None = None  # behind it in the stream
    lag_s: float | None = None  # age of the first of them when the last one came; None also where no file has it
    unknown: str | None = None  # why not all of it is known
    consumer: str | None = None  # its tag, of one that reads without storing where it is, or besides
    user: str | None = None
    address: str | None = None
    read_offset: int | None = None  # of the message that it is given next
    read_at: str | None = None  # when that was noted


STREAM_COLUMNS = [
    ("name", "string"), ("messages", "bigint"), ("bytes", "bigint"), ("chunks", "bigint"), ("first_offset", "bigint"),
    ("next_offset", "bigint"), ("first_at", "string"), ("last_at", "string"), ("peak_per_second", "bigint"),
    ("cuts", "bigint"), ("reference", "string"), ("stored_offset", "bigint"), ("stored_at", "string"),
    ("went_back", "bigint"), ("lag_messages", "bigint"), ("lag_s", "double"), ("unknown", "string"),
    ("consumer", "string"), ("user", "string"), ("address", "string"), ("read_offset", "bigint"), ("read_at", "string"),
]  # fmt: skip


def stream_rows(streams: Iterable[StreamCopies], missing: Sequence[MissingFiles] = ()) -> list[StreamRow]:
    """By name, and by reference; then consumers in the order in which they came. `missing`: files of the logs, any of which may
    have told of any stream and reader."""
    why = next((f"{one.sentence()}, and may have told of it" for one in missing), None)
    return [row for one in streams for row in _rows_of(one.name, one.folded(), one.readers, why)]


def _rows_of(name: str, log: StreamLog, readers: Iterable[LoggedReader], why: str | None) -> list[StreamRow]:
    chunks = [chunk for chunk in log.chunks if chunk.time_ms is not None]
    kept = [chunk for chunk in log.chunks if not chunk.state.has_ended]
    peak: Counter[int] = Counter()
    for chunk in chunks:
        peak[(chunk.time_ms or 0) // 1000] += chunk.messages
    row = StreamRow(
        name,
        sum(chunk.messages for chunk in chunks),
        sum(chunk.size for chunk in chunks),
        len(chunks),
        next((chunk.first_offset for chunk in kept or chunks), None),
        chunks[-1].next_offset if chunks else None,
        _at(chunks[0].time_ms if chunks else None),
        _at(chunks[-1].time_ms if chunks else None),
        max(peak.values(), default=0),
        log.cuts,
        unknown=next(iter(log.wrong), log.unknown or why),
    )
    stored = [_stored(row, chunks, reference, log.stored[reference]) for reference in sorted(log.stored)]
    return [*stored, *(_read(row, chunks, reader) for reader in readers)] or [row]


def _stored(row: StreamRow, chunks: Sequence[ToldChunk], reference: str, stored: StoredAt) -> StreamRow:
    row = row._replace(
        reference=reference, stored_offset=stored.offset, stored_at=_at(stored.time_ms), went_back=stored.went_back
    )
    return _behind(row, chunks, stored.offset + 1)


def _read(row: StreamRow, chunks: Sequence[ToldChunk], reader: LoggedReader) -> StreamRow:
    client = reader.connection
    row = row._replace(consumer=reader.consumer.tag, read_offset=reader.next_offset, read_at=iso_time(reader.at))
    if client is not None:
        row = row._replace(user=client.user, address=client.address)
    return _behind(row, chunks, reader.next_offset)


def _behind(row: StreamRow, chunks: Sequence[ToldChunk], unread: int) -> StreamRow:
    """By what follows from this offset on."""
    if row.next_offset is None:
        return row
    lag = row.next_offset - unread
    if lag <= 0:
        return row._replace(lag_messages=0, lag_s=0.0)
    at = bisect_right(chunks, unread, key=lambda chunk: chunk.first_offset) - 1
    if at < 0:
        return row._replace(lag_messages=lag)
    age_ms = (chunks[-1].time_ms or 0) - (chunks[at].time_ms or 0)
    return row._replace(lag_messages=lag, lag_s=age_ms / 1000)


def _at(time_ms: int | None) -> str | None:
    return iso_time(None if time_ms is None else time_ms * 1000)
