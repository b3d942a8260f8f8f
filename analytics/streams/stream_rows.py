"""Of all copies of a stream's log one, and what it says: what was published, and how far who has stored offsets is behind."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from analytics.coverage import iso_time
from analytics.streams.stream_look import FileStreams, LoggedChunk, LoggedStreamEntry
from stream.chunks.entries import RetentionCut, StoredOffsets


class StreamRow(NamedTuple):
    """One stream, and one of those who have stored offsets in it, if anybody has. Messages and times are of the files that were
    read."""

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
    lag_messages: int | None = None  # behind it in the stream
    lag_s: float | None = None  # age of the first of them when the last one came; None also where no file has it


STREAM_COLUMNS = [
    ("name", "string"), ("messages", "bigint"), ("bytes", "bigint"), ("chunks", "bigint"), ("first_offset", "bigint"),
    ("next_offset", "bigint"), ("first_at", "string"), ("last_at", "string"), ("peak_per_second", "bigint"),
    ("cuts", "bigint"), ("reference", "string"), ("stored_offset", "bigint"), ("stored_at", "string"),
    ("lag_messages", "bigint"), ("lag_s", "double"),
]  # fmt: skip


def stream_rows(seen: Sequence[FileStreams]) -> list[StreamRow]:
    """By name, and by reference. `seen`: node by node in the order of the log."""
    names = {group: name for one in seen for group, name in one.names.items()}
    rows: list[StreamRow] = []
    for group in sorted(names, key=lambda group: (names[group], group)):
        rows += _rows_of(names[group], _log_of(group, seen))
    return rows


def _log_of(group: int, seen: Iterable[FileStreams]) -> list[LoggedStreamEntry]:
    """The copy that goes on longest in the last term."""
    copies: dict[str, list[LoggedStreamEntry]] = {}
    for one in seen:
        copy = copies.setdefault(one.file.node, [])
        for entry in one.entries.get(group, ()):
            while copy and copy[-1].place >= entry.place:
                copy.pop()  # a later leader has replaced it
            copy.append(entry)
    return max(copies.values(), key=lambda copy: (copy[-1].term, copy[-1].place) if copy else (0, 0))


def _rows_of(name: str, log: Sequence[LoggedStreamEntry]) -> list[StreamRow]:
    chunks = [entry.said for entry in log if isinstance(entry.said, LoggedChunk)]
    cuts = [entry.said for entry in log if isinstance(entry.said, RetentionCut)]
    peak: Counter[int] = Counter()
    for chunk in chunks:
        peak[chunk.time_ms // 1000] += chunk.messages
    first = max([cut.first_offset for cut in cuts] or [chunks[0].first_offset]) if cuts or chunks else None
    row = StreamRow(
        name,
        sum(chunk.messages for chunk in chunks),
        sum(chunk.bytes for chunk in chunks),
        len(chunks),
        first,
        chunks[-1].first_offset + chunks[-1].messages if chunks else None,
        _at(chunks[0].time_ms if chunks else None),
        _at(chunks[-1].time_ms if chunks else None),
        max(peak.values(), default=0),
        len(cuts),
    )
    stored: dict[str, tuple[int, int]] = {}
    for entry in log:
        if isinstance(entry.said, StoredOffsets):
            stored.update({reference: (offset, entry.said.time_ms) for reference, offset in entry.said.offsets})
    return [_behind(row, chunks, reference, *stored[reference]) for reference in sorted(stored)] or [row]


def _behind(row: StreamRow, chunks: Sequence[LoggedChunk], reference: str, offset: int, stored_ms: int) -> StreamRow:
    row = row._replace(reference=reference, stored_offset=offset, stored_at=_at(stored_ms))
    if row.next_offset is None:
        return row
    lag, unread = row.next_offset - offset - 1, offset + 1
    if lag <= 0:
        return row._replace(lag_messages=0, lag_s=0.0)
    at = bisect_right(chunks, unread, key=lambda chunk: chunk.first_offset) - 1
    if at < 0:
        return row._replace(lag_messages=lag)
    return row._replace(lag_messages=lag, lag_s=(chunks[-1].time_ms - chunks[at].time_ms) / 1000)


def _at(time_ms: int | None) -> str | None:
    return iso_time(None if time_ms is None else time_ms * 1000)
