"""What logs say of streams: what was published, cut and stored, from the copy that goes on longest."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from analytics.__main__ import main
from analytics.inputs import LogFile, log_files
from analytics.jobs.answer import EXIT_HOLDS, EXIT_UNKNOWN
from analytics.streams.stream_copies import StreamOnNode, StreamsRead, read_streams
from analytics.streams.stream_look import FileStreams
from analytics.streams.stream_rows import StreamRow, stream_rows
from broker.actors import ActorKind
from raft.core import packs
from raft.core.messages import EntryKind, Membership
from raft.store.group_records import GroupIdentity
from storage.history.name_records import ActorRow
from storage.history.reader_records import ReaderRow, encode_readers
from storage.names import group_segment, log_file
from storage.record import Kind
from storage.record import encode as encode_record
from stream.chunks.chunk import message_item, seal_chunk
from stream.chunks.entries import (
    ChunkEntry,
    LogEntry,
    NamesForgotten,
    RetentionCut,
    StoredOffsets,
    WriterPosition,
    encode,
)
from tests.ledger.plain_proof import looked_at
from tests.unit.analytics.test_audit import ANN, CHANNEL, ITS_CHANNEL, actor
from tests.unit.analytics.test_follow import name
from tests.unit.analytics.test_pursuit import log, record

GROUP = 1 << 32 | 3
START = 1_700_000_000_000
NAMED = name(GROUP, "stream", "s")


def chunk(
    first_offset: int,
    messages: int,
    ms: int = 0,
    *,
    body: bytes = b"m",
    publishers: Sequence[tuple[str, int]] = (),
    writers: Sequence[WriterPosition] = (),
    ends_segment: bool = False,
) -> ChunkEntry:
    data = message_item(body) * messages
    header = seal_chunk([data], messages, messages, START + ms, 1, first_offset)
    return ChunkEntry(header + data, publishers=publishers, writers=writers, ends_segment=ends_segment)


def entries(index: int, *said: LogEntry, term: int = 1, kind: EntryKind = EntryKind.COMMAND) -> list[bytes]:
    payload = packs.encode([encode(one) for one in said] or [b""])
    made = encode_record(Kind.RAFT_ENTRIES, GROUP, index, [payload], flags=kind, term=term)
    return [bytes(part) for part in made]


def told(data: Path) -> list[StreamRow]:
    return stream_rows(read(data).streams)


def read(data: Path) -> StreamsRead:
    return read_streams(log_files([str(data)]), looked_at, tail=True)


def test_what_was_published_and_cut_is_told(tmp_path: Path) -> None:
    log(
        tmp_path / "n1",
        1,
        NAMED,
        entries(1, kind=EntryKind.NOOP),
        entries(2, chunk(0, 2, ends_segment=True), chunk(2, 3, ms=999)),
    )
    log(tmp_path / "n1", 2, NAMED, entries(4, chunk(5, 1, ms=1_500), RetentionCut(START + 1_600, 2)))
    (row,) = told(tmp_path)
    assert (row.name, row.messages, row.chunks) == ("//s", 6, 3)
    assert (row.first_offset, row.next_offset, row.cuts, row.peak_per_second) == (2, 6, 1, 5)
    assert (row.first_at, row.last_at) == ("2023-11-14T22:13:20.000+00:00", "2023-11-14T22:13:21.500+00:00")
    assert (row.reference, row.lag_messages) == (None, None)


def test_who_stores_offsets_is_behind_by_messages_and_by_time(tmp_path: Path) -> None:
    first = StoredOffsets(START + 10, (("end", 1), ("half", 2), ("none", 0)))
    later = StoredOffsets(START + 5_000, (("end", 5), ("ahead", 9)))
    last = NamesForgotten(START + 6_000, (), ())
    said = (chunk(0, 3), first, chunk(3, 1, ms=1_000), chunk(4, 2, ms=4_000), later, last)
    log(tmp_path / "n1", 1, NAMED, entries(1, *said))
    rows = told(tmp_path)
    assert [(row.reference, row.stored_offset, row.lag_messages, row.lag_s) for row in rows] == [
        ("ahead", 9, 0, 0.0),
        ("end", 5, 0, 0.0),
        ("half", 2, 3, 3.0),
        ("none", 0, 5, 4.0),
    ]
    assert rows[2].stored_at == "2023-11-14T22:13:20.010+00:00"
    assert {row.messages for row in rows} == {6}


def test_where_the_files_begin_later_the_time_is_not_known(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, NAMED, entries(7, StoredOffsets(START, (("slow", 1),)), chunk(10, 1)))
    (row,) = told(tmp_path)
    assert (row.first_offset, row.lag_messages, row.lag_s) == (10, 9, None)


def test_of_several_copies_that_of_the_last_term_counts_without_what_was_replaced(tmp_path: Path) -> None:
    log(tmp_path / "n1", 1, NAMED, entries(1, chunk(0, 1)), entries(2, chunk(1, 5), chunk(6, 5)))
    log(tmp_path / "n2", 1, NAMED, entries(1, chunk(0, 1)), entries(2, chunk(1, 4)), entries(2, chunk(1, 2), term=2))
    (row,) = told(tmp_path)
    assert (row.messages, row.next_offset, row.bytes) == (
        3,
        3,
        sum(len(one.chunk) for one in (chunk(0, 1), chunk(1, 2))),
    )


def test_a_stream_without_entries_is_told_as_empty_and_what_cannot_be_read_is_left_out(tmp_path: Path) -> None:
    other = encode_record(Kind.RAFT_ENTRIES, GROUP, 1, [packs.encode([b"\x09later"])], flags=EntryKind.COMMAND, term=1)
    log(tmp_path / "n1", 1, NAMED, [bytes(part) for part in other])
    (row,) = told(tmp_path)
    assert (row.name, row.messages, row.next_offset) == ("//s", 0, None)


def reading(*rows: ReaderRow, stream: int = GROUP) -> list[bytes]:
    return record(Kind.STREAM_READERS, encode_readers([row._replace(stream=stream) for row in rows]))


def consumer(number: int, tag: str, incarnation: int = 9) -> list[bytes]:
    row = ActorRow(ActorKind.CONSUMER, incarnation, CHANNEL, tag=tag)
    return actor(number, row)


def at(number: int, offset: int, *, has_left: bool = False) -> ReaderRow:
    return ReaderRow(number, GROUP, offset, has_left)


def test_readers_that_store_nothing_are_behind_by_where_they_were_last(tmp_path: Path) -> None:
    published = entries(1, chunk(0, 3), chunk(3, 1, ms=1_000), chunk(4, 2, ms=4_000))
    who = [*ANN, *ITS_CHANNEL, *consumer(20, "slow"), *consumer(21, "quick"), *consumer(22, "gone")]
    log(tmp_path / "n1", 1, NAMED, published, who, reading(at(20, 0), at(21, 0), at(22, 0)), reading(at(20, 3)))
    log(tmp_path / "n1", 2, who, reading(at(21, 6)), reading(at(22, 1, has_left=True)))
    rows = told(tmp_path)
    assert [(row.consumer, row.read_offset, row.lag_messages, row.lag_s) for row in rows] == [
        ("slow", 3, 3, 3.0),
        ("quick", 6, 0, 0.0),
    ]
    assert {(row.user, row.address, row.reference, row.messages) for row in rows} == {("ann", "10.0.0.7:1", None, 6)}


def test_readers_of_an_earlier_process_and_of_other_streams_are_not_told(tmp_path: Path) -> None:
    """A node that was killed could not say that they had left."""
    before, after = consumer(20, "before"), consumer(20, "after", incarnation=10)
    others = reading(at(20, 5), stream=GROUP + 1)
    log(tmp_path / "n1", 1, NAMED, entries(1, chunk(0, 3)), before, reading(at(20, 1)), after, reading(at(20, 2)))
    log(tmp_path / "n2", 1, consumer(20, "elsewhere", incarnation=3), others, reading(at(99, 1)))
    (row,) = told(tmp_path)
    assert (row.consumer, row.read_offset, row.lag_messages, row.user) == ("after", 2, 1, None)


def test_the_command_asks_about_all_or_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log(tmp_path / "n1", 1, NAMED, entries(1, chunk(0, 1)))
    for asked, names, code in (
        ((), ["//s"], EXIT_HOLDS),
        (("s",), ["//s"], EXIT_HOLDS),
        (("other",), [], EXIT_UNKNOWN),
    ):
        assert main(["--data", str(tmp_path), "--json", "--tail", "streams", *asked]) == code
        told = capsys.readouterr()
        assert [row["name"] for row in json.loads(told.out)["rows"]] == names
        assert ("names a stream 'other'" in told.err) is (not names)


def asked(data: Path, capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, list[str | None]]:
    code = main(["--data", str(data), "--json", "--tail", "streams", *words])
    return code, [row["unknown"] for row in json.loads(capsys.readouterr().out)["rows"]]


def test_over_a_missing_file_nothing_is_known_of_any_stream(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What came last and where its reader was is in the file that is gone: the stream ended earlier, and the reader was at
    its end, with exit code 0."""
    who = [*ANN, *ITS_CHANNEL, *consumer(20, "reader")]
    log(tmp_path / "n1", 1, NAMED, entries(1, chunk(0, 1)), who, reading(at(20, 1)))
    log(tmp_path / "n1", 2, NAMED, entries(2, chunk(1, 5)), who, reading(at(20, 0)))
    log(tmp_path / "n1", 3, NAMED)
    assert asked(tmp_path, capsys) == (EXIT_HOLDS, [None])
    (tmp_path / "n1" / log_file(2)).unlink()
    code, (why,) = asked(tmp_path, capsys, "s")
    assert (code, why) == (EXIT_UNKNOWN, "file 2 of the log of n1 is missing, and may have told of it")


def test_entries_that_were_committed_and_are_nowhere_are_missing_at_the_end_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def commit(index: int) -> list[bytes]:
        return [bytes(part) for part in encode_record(Kind.RAFT_COMMIT, GROUP, index, [])]

    log(tmp_path / "n1", 1, NAMED, entries(1, chunk(0, 1)), entries(2, chunk(1, 5)), commit(2))
    assert asked(tmp_path, capsys) == (EXIT_HOLDS, [None])
    log(tmp_path / "n1", 1, NAMED, entries(1, chunk(0, 1)), commit(2))
    assert asked(tmp_path, capsys) == (EXIT_UNKNOWN, ["entries 2 to 2 are missing"])


def test_a_segment_that_takes_the_place_of_another_meanwhile_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was left of the other one was missing in all figures."""
    log(tmp_path / "n1", 9, NAMED)
    identity = GroupIdentity(GROUP, 1, "//s", "stream", Membership((1,)))
    member = StreamOnNode("n1", str(tmp_path / "n1"), identity, 1)
    monkeypatch.setattr("analytics.streams.stream_copies.stream_members", lambda _: [member])
    old, new = (tmp_path / "n1" / group_segment(GROUP, number) for number in (1, 2))
    old.parent.mkdir()
    old.write_bytes(b"".join(entries(1, chunk(0, 2), chunk(2, 3))))

    def each(look: Callable[[LogFile], FileStreams], files: Sequence[LogFile]) -> list[FileStreams]:
        if old.exists():
            old.rename(new)
        return looked_at(look, files)

    found = read_streams(log_files([str(tmp_path)]), each, tail=True)
    assert [row.messages for row in stream_rows(found.streams)] == [5]
    assert [file.name for file in found.files] == [log_file(9), group_segment(GROUP, 1), group_segment(GROUP, 2)]
