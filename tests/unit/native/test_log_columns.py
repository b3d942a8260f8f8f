"""native/log_columns.py: what a piece of a log says comes back as rows, and no bytes make a twin say anything else."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broker.queues.queue_type import BackReason, DeathReason, Outcome
from broker.unlogged import Unlogged
from classic.store import log_records
from native import entry_rows, log_columns
from native.columns import rows_of
from native.entry_rows import whole_entry
from native.log_columns import MISPLACED, FilePlace
from native.log_tables import (
    BACK,
    COUNTS,
    DEATHS,
    DONE,
    EVENTS,
    FILE_BITS,
    ORIGINS,
    OUTCOMES,
    PUBLISHES,
    READERS,
    RECORDS,
    SETTLES,
    UNLOGGED,
)
from native.record_scan import CLEAN_END, DAMAGED, REACHED_END, TORN, scan, seal
from native.sequence_set import SequenceSet
from quorum.fifo import commands
from quorum.fifo.commands import CommandKind, ConsumerKey, Producer, SessionKey
from quorum.fifo.origins import DeathPlace, OriginPart
from raft.core import packs
from storage import record
from storage.history.count_records import CountRow, encode_counts
from storage.history.reader_records import ReaderRow, encode_readers
from storage.record import Kind, Mark, Roll, encode_mark, encode_roll
from tests.unit.native.both import forms

FORMS = forms("log_columns", "records", "publishes", "origins", "settles", "events", "counts", "readers")
LOG_ID = bytes(range(16))
FILE = 3
GROUP = 70
GROUPS = struct.pack("<3Q", 7, GROUP, 2**64 - 1)
OTHERS_GROUPS = struct.pack("<2Q", 6, GROUP + 1)  # no quorum queues
PAYLOAD_MAX = 1 << 20
ME = SessionKey(2, 9)
CONSUMER = ConsumerKey(2, 9, 4)
CONTENT = struct.pack("<II", 2, 5) + b"\0\0hello" + struct.pack("<II", 2, 3) + b"\0\0you"


def a_record(kind: int, writer: int, index: int, payload: bytes, flags: int = 0, term: int = 0) -> bytes:
    return bytes(seal([payload], kind, flags, term, writer, index, 1)) + payload


def published_by(parts: list[tuple[int, int, int]], waited_for: bool, death: bytes = b"") -> bytes:
    """A run of two messages whose record says who published it."""
    flags = log_records.BY_ACTORS | log_records.WAITED_FOR * waited_for | log_records.DIED_BEFORE * bool(death)
    origin = death + b"".join(log_records.encode_part(*part) for part in parts)
    head = log_records.encode_published([(43, 8)], 0, 2, 8, None, "ex", "key", flags, origin)
    return a_record(Kind.CLASSIC_PUBLISH, 0, 15, head + CONTENT)


def died_each(flags: int, deaths: list[tuple[int, int, int]]) -> bytes:
    """A run of two messages that died in these places."""
    origin = b"".join(log_records.encode_death(70, place, DeathReason.EXPIRED) for place in deaths)
    head = log_records.encode_published([(43, 8)], 0, 2, 8, None, "ex", "key", flags, origin)
    return a_record(Kind.CLASSIC_PUBLISH, 0, 15, head + CONTENT)


def reasoned(kind: Kind, actor: int, reason: int, *pairs: tuple[int, int]) -> bytes:
    return a_record(kind, 0, 16, log_records.encode_reasoned(43, actor, reason, ranges(*pairs)))


def ranges(*pairs: tuple[int, int]) -> SequenceSet:
    made = SequenceSet()
    for first, end in pairs:
        made.add(first, end)
    return made


def entries(group: int, first: int, datas: list[bytes], term: int = 5, kind: int = 0) -> bytes:
    return a_record(Kind.RAFT_ENTRIES, group, first, packs.encode(datas), kind, term)


def published(queues: list[tuple[int, int]], expires_at: int | None = None) -> bytes:
    head = log_records.encode_published(queues, 3, 2, 8, expires_at, "ex", "key")
    return a_record(Kind.CLASSIC_PUBLISH, 0, 11, head + CONTENT)


def op(*ops: bytes, time_ms: int = 1_000) -> bytes:
    return commands.entry_head(time_ms) + b"".join(ops)


ENQUEUED = b"".join(commands.encode_enqueue(ME, 17, 2, 8, "ex", "key", CONTENT, expiration_ms=500, flags=1, priority=6))
NUMBERED = b"".join(commands.encode_enqueue(ME, 19, 1, 3, "", "k", CONTENT[15:], producer=Producer(b"Bob", 77)))
SETTLED = commands.encode(commands.Settle(CONSUMER, Outcome.REJECTED, [(5, 2), (9, 1)]))
OTHERS = [
    commands.encode(commands.Purge()), commands.encode(commands.PurgeOnce(CONSUMER, 3)),
    commands.encode(commands.DeadSettled([(1, 2)])), commands.encode(commands.Tick()),
    commands.encode(commands.Consume(CONSUMER, "tag")),
]  # fmt: skip


COUNTED = [
    CountRow(5, Unlogged.RETURNED, 3, 2**63, "ex", "nowhere"),
    CountRow(0, Unlogged.DEAD_UNROUTABLE, 1, 0, "", ""),
]

READING = [ReaderRow(5, GROUP, 2**63), ReaderRow(6, GROUP, 7, has_left=True)]

CHECKPOINT = log_records.Checkpoint(44, 3, 1, [9, 1 << 56], [(3, 6)], [(8, 9)])

MAXLEN = (70, 30, 9, 1, DEATHS.index("maxlen"))
SAID = commands.encode(
    commands.Origins([
        OriginPart(5, 100, 1, True), OriginPart(6, 0, 1),
        OriginPart(0, 0, 1, False, DeathPlace(*MAXLEN)),
    ])
)  # fmt: skip

CLASSIC_EVENTS = (
    Kind.CLASSIC_PUBLISH, Kind.CLASSIC_SETTLE, Kind.CLASSIC_PURGE, Kind.CLASSIC_QUEUE_DELETED, Kind.CLASSIC_DONE,
    Kind.CLASSIC_BACK, Kind.CLASSIC_OUT, Kind.CLASSIC_CHECKPOINT,
)  # fmt: skip


class Log:
    """Bytes of a log file that are written one after the other."""

    def __init__(self) -> None:
        self.bytes = encode_roll(Roll(LOG_ID, FILE, 0, 1))
        self.commit = 0

    def mark(self, begins: bool = True, time_us: int = 0) -> None:
        self.commit += begins
        self.bytes += encode_mark(Mark(LOG_ID, FILE, len(self.bytes), FILE, 0, self.commit, begins, time_us))

    def mark_as_before(self) -> None:
        """A mark of 64 bytes, as logs had them once."""
        self.commit += 1
        payload = struct.pack("<16s6Q", LOG_ID, FILE, len(self.bytes), FILE, 0, self.commit, 1)
        self.add(a_record(Kind.MARK, 0, self.commit, payload))

    def add(self, *records: bytes) -> None:
        self.bytes += b"".join(records)


def a_log() -> bytes:
    """Something of all that a row is made of."""
    log = Log()
    log.mark()
    log.add(published([(40, 100), (41, 7)]), published([(42, 1)], expires_at=123_456))
    log.add(a_record(Kind.CLASSIC_SETTLE, 0, 12, log_records.encode_settled(40, ranges((100, 101), (103, 107)))))
    log.mark(begins=False)
    log.add(a_record(Kind.CLASSIC_PURGE, 0, 13, log_records.encode_settled(41, ranges((7, 9)))))
    log.add(a_record(Kind.CLASSIC_QUEUE_DELETED, 0, 14, log_records.encode_deleted(42)))
    log.mark()
    log.add(entries(GROUP, 30, [op(ENQUEUED, SETTLED), op(NUMBERED, *OTHERS, time_ms=2_000)]))
    log.add(entries(GROUP, 32, [b"membership"], kind=2), entries(GROUP + 1, 5, [op(ENQUEUED)]))
    log.add(a_record(99, 8, 9, b"from the future"))
    log.add(published_by([(5, 100, 1), (6, 0, 1)], True, log_records.encode_death(70, (30, 9, 1), DeathReason.MAXLEN)))
    log.add(published_by([], False))
    log.add(reasoned(Kind.CLASSIC_DONE, 5, log_records.DoneReason.EXPIRED, (8, 9), (12, 14)))
    log.add(reasoned(Kind.CLASSIC_BACK, 0, BackReason.TIMED_OUT, (9, 10)))
    log.add(a_record(Kind.COUNTS, 0, 0, encode_counts(0, [])), a_record(Kind.COUNTS, 0, 0, encode_counts(900, COUNTED)))
    log.add(a_record(Kind.STREAM_READERS, 0, 0, encode_readers(READING)))
    log.add(reasoned(Kind.CLASSIC_OUT, 5, log_records.OUT_BEFORE, (10, 12)))
    log.add(a_record(Kind.CLASSIC_CHECKPOINT, 0, 44, log_records.encode_checkpoint(CHECKPOINT)))
    return log.bytes


def tables(form: Any, data: bytes, place: FilePlace, end: int | None = None) -> Any:
    """Everything that a kernel says of these bytes."""
    rows, columns, *rest = form.records(data, 0, len(data) if end is None else end, PAYLOAD_MAX, place)
    found = (rows, columns)
    made = [read(data, place.base, found, GROUPS) for read in (form.publishes, form.settles)]
    return (
        found,
        rest,
        *made,
        form.origins(data, place.base, found, GROUPS),
        form.readers(data, place.base, found),
        form.counts(data, place.base, found),
        form.events(data, place.base, found, FILE, OTHERS_GROUPS),
    )


WHOLE = FilePlace(0, LOG_ID, FILE)
NOWHERE = (None,) * 5


def origin(
    offset: int,
    count: int,
    actor: int,
    publish_no: int | None,
    *,
    entry: int | None = None,
    off: int = 0,
    nth: int = 0,
    confirm: int = 1,
    src: tuple[int | None, ...] = NOWHERE,
) -> dict[str, int | None]:
    """A row of the table."""
    names = [field.name for field in ORIGINS]
    return dict(zip(names, (offset, entry, off, nth, count, actor, publish_no, confirm, *src), strict=True))


@pytest.mark.parametrize("form", FORMS)
class TestRows:
    def test_records_are_those_of_a_scan_with_the_commit_of_their_mark(self, form: Any) -> None:
        data = a_log()
        found, (stop, reason, commit, time), *_ = tables(form, data, WHOLE)
        rows = rows_of(RECORDS, found)
        scanned, scan_stop, _ = scan(data, 0, len(data), PAYLOAD_MAX)
        assert (stop, reason, commit, time) == (scan_stop, REACHED_END, 2, -1)
        for row, one in zip(rows, scanned, strict=True):
            kind, flags, term, writer, index, start, end = one
            named = {name: row[name] for name in ("kind", "flags", "term", "writer", "index", "offset", "size")}
            assert named == {
                "kind": kind, "flags": flags, "term": term, "writer": writer, "index": index, "offset": start - 32,
                "size": end - start,
            }  # fmt: skip
            assert row["version"] == 1
        assert [row["commit"] for row in rows] == [None, *[1] * 7, *[2] * 14]

    def test_a_classic_run_has_a_row_for_each_queue(self, form: Any) -> None:
        data = a_log()
        _, _, made, *_ = tables(form, data, WHOLE)
        rows = [row for row in rows_of(PUBLISHES, made) if row["session_node"] is None][:3]
        assert [(row["queue"], row["pos"], row["expires_at"]) for row in rows] == [
            (40, 100, None), (41, 7, None), (42, 1, 123_456),
        ]  # fmt: skip
        for row in rows:
            assert (row["exchange"], row["routing_key"], row["count"], row["body_bytes"]) == (b"ex", b"key", 2, 8)
            assert (row["persistent"], row["priority"], row["stored_bytes"]) == (1, 3, len(CONTENT))
            assert data[row["content_at"] : row["content_at"] + row["stored_bytes"]] == CONTENT

    def test_a_run_of_a_quorum_queue_has_its_session_and_the_time_of_its_entry(self, form: Any) -> None:
        data = a_log()
        _, _, made, *_ = tables(form, data, WHOLE)
        plain, numbered = [row for row in rows_of(PUBLISHES, made) if row["session_node"] is not None]
        assert (plain["queue"], plain["pos"], plain["off"], plain["time"]) == (GROUP, 30, 9, 1_000_000)
        assert (plain["session_node"], plain["session_inc"], plain["sequence"]) == (*ME, 17)
        assert (plain["persistent"], plain["priority"], plain["expires_at"], plain["producer"]) == (1, 6, 1_500, None)
        assert (numbered["pos"], numbered["producer"], numbered["producer_no"]) == (31, b"Bob", 77)
        assert (numbered["persistent"], numbered["expires_at"], numbered["time"]) == (0, None, 2_000_000)
        for row, content in ((plain, CONTENT), (numbered, CONTENT[15:])):
            assert data[row["content_at"] : row["content_at"] + row["stored_bytes"]] == content

    def test_what_is_settled_names_who_and_which(self, form: Any) -> None:
        _, _, _, made, *_ = tables(form, a_log(), WHOLE)
        rows = [
            (row["queue"], row["pos"], OUTCOMES[row["outcome"]], row["consumer_no"], row["first"], row["count"])
            for row in rows_of(SETTLES, made)
        ]
        assert rows == [
            (40, 12, "settled", None, 100, 1), (40, 12, "settled", None, 103, 4), (41, 13, "purged", None, 7, 2),
            (42, 14, "deleted", None, None, None), (GROUP, 30, "rejected", 4, 5, 2), (GROUP, 30, "rejected", 4, 9, 1),
            (GROUP, 31, "purged", None, None, None), (GROUP, 31, "purged", 4, None, None),
            (GROUP, 31, "dead_settled", None, 1, 2), (43, 16, "expired", None, 8, 1), (43, 16, "expired", None, 12, 2),
            (43, 16, "returned_timeout", None, 9, 1),
        ]  # fmt: skip

    def test_who_published_stands_beside_each_part_and_where_it_died_beside_the_run(self, form: Any) -> None:
        _, _, made, settled, origins, *_ = tables(form, a_log(), WHOLE)
        assert [row["actor"] for row in rows_of(SETTLES, settled)] == [None] * 9 + [5, 5, None]
        rows = rows_of(PUBLISHES, made)
        assert [row["confirm"] for row in rows] == [None, None, None, None, None, 1, 0]
        assert [row["src_queue"] for row in rows] == [None, None, None, None, None, 70, None]
        dead = rows[5]
        assert (dead["src_pos"], dead["src_off"], dead["src_nth"], DEATHS[dead["src_reason"]]) == (30, 9, 1, "maxlen")
        assert rows_of(ORIGINS, origins) == [
            origin(dead["offset"], 1, 5, 100, src=MAXLEN),
            origin(dead["offset"], 1, 6, None, nth=1, src=MAXLEN),
        ]

    def test_messages_of_a_run_that_died_in_places_of_their_own_have_a_row_each(self, form: Any) -> None:
        data = died_each(log_records.DIED_EACH | log_records.WAITED_FOR, [(30, 9, 1), (31, 9, 0)])
        _, _, made, _, origins, *_ = tables(form, data, FilePlace(0))
        assert [row["src_queue"] for row in rows_of(PUBLISHES, made)] == [None]
        assert rows_of(ORIGINS, origins) == [
            origin(0, 1, 0, None, nth=nth, src=(70, *place, DeathReason.EXPIRED))
            for nth, place in enumerate([(30, 9, 1), (31, 9, 0)])
        ]

    def test_who_published_runs_of_a_quorum_queue_stands_beside_each_part_of_each_entry(self, form: Any) -> None:
        data = entries(GROUP, 30, [op(SAID, ENQUEUED, NUMBERED), op(ENQUEUED), op(SAID, SAID, SETTLED, ENQUEUED)])
        *_, origins, _, _, _ = tables(form, data, FilePlace(0))
        first, second = 9 + len(SAID), 9 + len(SAID) + len(ENQUEUED)
        behind = 9 + 2 * len(SAID) + len(SETTLED)
        assert rows_of(ORIGINS, origins) == [
            origin(0, 1, 5, 100, entry=30, off=first),
            origin(0, 1, 6, None, entry=30, off=first, nth=1, confirm=0),
            origin(0, 1, 0, None, entry=30, off=second, confirm=0, src=MAXLEN),
            origin(0, 1, 5, 100, entry=32, off=behind),
            origin(0, 1, 6, None, entry=32, off=behind, nth=1, confirm=0),
        ]

    def test_what_no_log_has_is_counted_by_who_published_it_where(self, form: Any) -> None:
        log = Log()
        log.mark(time_us=1_700_000_000_000_000)
        log.add(
            a_record(Kind.COUNTS, 0, 0, encode_counts(0, [])), a_record(Kind.COUNTS, 0, 0, encode_counts(9, COUNTED))
        )
        *_, counts, _ = tables(form, log.bytes, WHOLE)
        offset = len(log.bytes) - len(encode_counts(9, COUNTED)) - 32
        said = {"offset": offset, "time": 1_700_000_000_000_000, "span_ms": 9}
        returned, dead = rows_of(COUNTS, counts)
        assert returned == said | {
            "actor": 5, "what": UNLOGGED.index("returned"), "messages": 3, "body_bytes": -(2**63), "exchange": b"ex",
            "routing_key": b"nowhere",
        }  # fmt: skip
        assert dead == said | {
            "actor": None, "what": UNLOGGED.index("dead_unroutable"), "messages": 1, "body_bytes": 0, "exchange": b"",
            "routing_key": b"",
        }  # fmt: skip

    def test_how_far_readers_of_streams_are_is_a_row_for_each(self, form: Any) -> None:
        log = Log()
        log.mark(time_us=1_700_000_000_000_000)
        log.add(a_record(Kind.STREAM_READERS, 0, 0, encode_readers(READING) + b"rest"))
        *_, readers, _, _ = tables(form, log.bytes, WHOLE)
        said = {"offset": len(log.bytes) - 2 * 21 - 4 - 32, "time": 1_700_000_000_000_000, "stream": GROUP}
        assert rows_of(READERS, readers) == [
            said | {"actor": 5, "next_offset": -(2**63), "has_left": 0},
            said | {"actor": 6, "next_offset": 7, "has_left": 1},
        ]

    def test_what_happened_to_each_queue_is_an_event_without_contents(self, form: Any) -> None:
        data = a_log()
        found, *_, events = tables(form, data, WHOLE)
        rows = rows_of(EVENTS, events)
        assert [row["queue"] for row in rows] == [40, 41, 42, 40, 41, 42, *[GROUP] * 3, 43, 43, 43, 43, 43, 44]
        offsets = [row["offset"] for row in rows_of(RECORDS, found) if row["kind"] in set(CLASSIC_EVENTS)]
        classic = [row for row in rows if row["kind"] != Kind.RAFT_ENTRIES]
        assert sorted({row["place"] for row in classic}) == [FILE << FILE_BITS | offset for offset in offsets]
        first = log_records.decode_published(memoryview(rows[1]["data"]))
        assert (first.queues, first.head_len, rows[1]["first"]) == ([(41, 7)], len(rows[1]["data"]), 7)
        assert first._replace(queues=[], head_len=0) == log_records.decode_published(
            memoryview(log_records.encode_published([], 3, 2, 8, None, "ex", "key"))
        )._replace(head_len=0)
        assert log_records.decode_settled(memoryview(rows[3]["data"])) == (40, [(100, 101), (103, 107)])
        assert log_records.decode_checkpoint(memoryview(rows[14]["data"])) == CHECKPOINT
        parts = log_records.decode_published(memoryview(rows[9]["data"])).origin.parts
        assert [part.actor for part in parts] == [5, 6]
        entry = [(row["place"], row["term"], row["first"], row["size"]) for row in rows[6:9]]
        whole = [op(ENQUEUED, SETTLED), op(NUMBERED, *OTHERS, time_ms=2_000)]
        assert entry == [(30, 5, 0, len(whole[0])), (31, 5, 0, len(whole[1])), (32, 5, 2, 0)]
        assert CONTENT not in rows[6]["data"]
        assert whole_entry(rows[6]["data"], rows[6]["size"]) == whole[0].replace(CONTENT, bytes(len(CONTENT)))
        assert whole_entry(rows[7]["data"], rows[7]["size"]) == whole[1].replace(CONTENT[15:], bytes(len(CONTENT) - 15))
        assert whole_entry(rows[8]["data"], 0) == b"membership"

    def test_an_entry_that_is_no_sequence_of_ops_stays_whole(self, form: Any) -> None:
        datas = [op(ENQUEUED)[:-1], op(ENQUEUED) + b"rest", b"\x02" + op(ENQUEUED)[1:], b"", op(ENQUEUED[:30])]
        data = entries(GROUP, 1, datas)
        *_, events = tables(form, data, FilePlace(0))
        assert [(row["data"], row["size"]) for row in rows_of(EVENTS, events)] == [(one, 0) for one in datas]

    def test_a_run_of_hundreds_of_publishers_to_as_many_queues_is_passed_over(self, form: Any) -> None:
        for count, queues in ((400, 400), (600, 600)):
            parts = b"".join(log_records.encode_part(actor, 1, 1) for actor in range(count))
            head = log_records.encode_published(
                [(queue, 0) for queue in range(queues)], 0, count, 8, None, "", "", log_records.BY_ACTORS, parts
            )
            *_, events = tables(form, a_record(Kind.CLASSIC_PUBLISH, 0, 15, head), FilePlace(0))
            assert events[0] == (queues if queues < 500 else 0)

    def test_a_mark_with_a_time_gives_it_to_what_follows_and_one_of_an_old_log_none(self, form: Any) -> None:
        log = Log()
        log.mark_as_before()
        log.mark(time_us=1_700_000_000_000_000)
        log.add(published([(1, 1)]))
        found, rest, made, *_ = tables(form, log.bytes, WHOLE)
        assert rest == [len(log.bytes), REACHED_END, 2, 1_700_000_000_000_000]
        assert [row["time"] for row in rows_of(RECORDS, found)] == [None, None, rest[3], rest[3]]
        assert [row["commit"] for row in rows_of(RECORDS, found)] == [None, 1, 2, 2]
        assert rows_of(PUBLISHES, made)[0]["time"] == rest[3]

    def test_a_piece_in_the_middle_goes_on_with_what_was_known(self, form: Any) -> None:
        data = a_log()
        whole = form.records(data, 0, len(data), PAYLOAD_MAX, WHOLE)
        offsets = [row["offset"] for row in rows_of(RECORDS, whole[:2])]
        cut = offsets[5]
        head = form.records(data, 0, cut, PAYLOAD_MAX, WHOLE)
        tail = form.records(data[cut:], 0, len(data) - cut, PAYLOAD_MAX, FilePlace(cut, LOG_ID, FILE, *head[4:]))
        assert rows_of(RECORDS, head[:2]) + rows_of(RECORDS, tail[:2]) == rows_of(RECORDS, whole[:2])
        assert tail[4:] == whole[4:]

    @pytest.mark.parametrize(
        "place",
        [
            FilePlace(0, bytes(16), FILE),
            FilePlace(0, LOG_ID, 4),
            FilePlace(64, LOG_ID, FILE),
            FilePlace(0, LOG_ID, FILE, 5),
        ],
    )
    def test_a_record_that_belongs_elsewhere_ends_the_walk(self, form: Any, place: FilePlace) -> None:
        _, (stop, reason, *_), *_ = tables(form, a_log(), place)
        assert reason == MISPLACED
        assert stop == (72 if place.commit == 5 else 0)

    def test_a_file_that_is_no_log_may_begin_with_any_record(self, form: Any) -> None:
        data = published([(1, 1)]) + a_record(Kind.FOOTER, 0, 0, b"")
        found, rest, *_ = tables(form, data + bytes(40), FilePlace(0))
        assert [row["kind"] for row in rows_of(RECORDS, found)] == [Kind.CLASSIC_PUBLISH, Kind.FOOTER]
        assert rest == [len(data), CLEAN_END, -1, -1]

    @pytest.mark.parametrize("outside", [FilePlace(1, LOG_ID, FILE), FilePlace(5_000, LOG_ID, FILE)])
    def test_records_of_another_buffer_are_refused(self, form: Any, outside: FilePlace) -> None:
        data = a_log()
        found, *_ = tables(form, data, WHOLE)
        with pytest.raises(ValueError, match="is not in the"):
            form.origins(data, outside.base, found, GROUPS)
        for read in (form.publishes, form.settles):
            with pytest.raises(ValueError, match="is not in the"):
                read(data, outside.base, found, GROUPS)
            with pytest.raises(ValueError, match="is not in the"):
                read(data[:-1], 0, found, GROUPS)

    def test_spans_and_limits_outside_are_refused(self, form: Any) -> None:
        with pytest.raises(ValueError, match="cannot scan from"):
            form.records(b"", 0, 1, PAYLOAD_MAX, WHOLE)
        with pytest.raises(ValueError, match="is the most"):
            form.records(b"", 0, 0, 1 << 31, WHOLE)


def agree(data: bytes, place: FilePlace = WHOLE) -> Any:
    answers = [tables(form.values[0], data, place) for form in FORMS]
    assert all(answer == answers[0] for answer in answers)
    return answers[0]


@pytest.mark.parametrize("kind", [kind for kind in Kind if Kind.RAFT_ENTRIES < kind <= Kind.RAFT_COMMIT])
def test_what_else_a_queues_group_writes_has_no_entries_whatever_it_looks_like(kind: Kind) -> None:
    data = a_record(kind, GROUP, 5, packs.encode([op(ENQUEUED, SETTLED, SAID)]))
    agree(data)
    for form in FORMS:
        read, (found, *_) = form.values[0], tables(form.values[0], data, WHOLE)
        said = (
            read.publishes(data, 0, found, GROUPS), read.origins(data, 0, found, GROUPS), read.settles(data, 0, found, GROUPS),
            read.events(data, 0, found, FILE, b""),
        )  # fmt: skip
        assert [rows for rows, _ in said] == [0] * 4


class TestDamage:
    @pytest.mark.parametrize("deaths", [0, 1, 3])
    @pytest.mark.parametrize("flags", range(8, 16))
    def test_a_run_with_more_or_fewer_places_of_death_than_messages_is_read_the_same_by_both(
        self, flags: int, deaths: int
    ) -> None:
        agree(died_each(flags, [(30, 9, 1)] * deaths), FilePlace(0))

    def test_every_prefix_gives_the_whole_records_before_its_end(self) -> None:
        data = a_log()
        whole = rows_of(RECORDS, agree(data)[0])
        for length in range(len(data) + 1):
            found, (stop, reason, *_), *_ = agree(data[:length])
            expected = [row for row in whole if row["offset"] + 32 + row["size"] <= length]
            assert rows_of(RECORDS, found) == expected
            assert reason == (REACHED_END if stop == length else TORN)

    def test_every_flipped_byte_ends_the_walk_before_its_record(self) -> None:
        data = a_log()
        whole = rows_of(RECORDS, agree(data)[0])
        for at in range(len(data)):
            flipped = bytearray(data)
            flipped[at] ^= 0xFF
            found, (_, reason, *_), *_ = agree(bytes(flipped))
            assert rows_of(RECORDS, found) == [row for row in whole if row["offset"] + 32 + row["size"] <= at]
            assert reason in (DAMAGED, TORN)

    def test_every_flipped_byte_of_a_payload_under_a_right_checksum_is_read_the_same_by_both(self) -> None:
        data = a_log() + entries(GROUP, 33, [op(SAID, ENQUEUED, NUMBERED), op(SAID, ENQUEUED)])
        records, _, _ = scan(data, 0, len(data), PAYLOAD_MAX)
        for kind, flags, term, writer, index, start, end in records:
            for at in range(start, end):
                for change in (0x01, 0xFF):
                    payload = bytearray(data[start:end])
                    payload[at - start] ^= change
                    agree(a_record(kind, writer, index, bytes(payload), flags, term), FilePlace(0))

    def test_a_run_whose_lengths_lie_gives_no_row_or_one_within_its_record(self) -> None:
        head = bytearray(log_records.encode_published([(1, 1)], 0, 1, 0, None, "", ""))
        for head_len in (0, 29, 45, 46, 47, 65_535):
            struct.pack_into("<H", head, 0, head_len)
            made = agree(a_record(Kind.CLASSIC_PUBLISH, 0, 1, bytes(head)), FilePlace(0))[2]
            assert made[0] == (head_len == len(head))

    @given(
        st.binary(max_size=300),
        st.sampled_from([16, 17, 18, 19, 24, 25, 26, 27, 32, 51, 52]),
        st.sampled_from([0, GROUP]),
    )
    def test_both_forms_agree_on_any_payload(self, payload: bytes, kind: int, writer: int) -> None:
        agree(a_record(kind, writer, 2**64 - 1, payload), FilePlace(2**40))

    @given(st.lists(st.tuples(st.integers(0, 255), st.binary(max_size=90)), max_size=5), st.integers(0, 2**64 - 1))
    @settings(deadline=None)
    def test_both_forms_agree_on_any_ops(self, ops: list[tuple[int, bytes]], time_ms: int) -> None:
        data = commands.entry_head(time_ms) + b"".join(
            commands.OP_HEAD.pack(kind % 18, len(payload)) + payload for kind, payload in ops
        )
        agree(entries(GROUP, 2**64 - 1, [data, b"", data[:-1]]), FilePlace(0))

    @given(
        st.lists(
            st.tuples(st.sampled_from([1, 1, 2]), st.binary(max_size=90), st.integers(0, 7), st.integers(0, 30)),
            max_size=4,
        )
    )
    @settings(deadline=None)
    def test_a_skeleton_has_its_ops_where_they_were(self, ops: list[tuple[int, bytes, int, int]]) -> None:
        payloads = [
            (
                kind,
                bytes(48) + bytes([flags, 0, length, 0]) + bytes(8) + bytes([length]) + content
                if kind == 1
                else content,
            )
            for kind, content, flags, length in ops
        ]
        data = commands.entry_head(5) + b"".join(
            commands.OP_HEAD.pack(kind, len(payload)) + payload for kind, payload in payloads
        )
        (row,) = rows_of(EVENTS, agree(entries(GROUP, 1, [data]), FilePlace(0))[-1])
        made = whole_entry(row["data"], row["size"])
        assert len(made) == len(data)
        at = commands.ENTRY_HEAD.size
        for kind, payload in payloads:
            head = commands.OP_HEAD.size + (len(payload) if kind != 1 else min(len(payload), 52))
            assert made[at : at + head] == data[at : at + head]
            at += commands.OP_HEAD.size + len(payload)

    def test_both_forms_agree_on_bytes_at_random(self) -> None:
        chance = random.Random(8)
        data = a_log()
        for _ in range(500):
            mixed = bytearray(data)
            for _ in range(chance.randrange(1, 6)):
                at = chance.randrange(len(mixed))
                mixed[at : at + chance.randrange(4)] = chance.randbytes(chance.randrange(4))
            agree(bytes(mixed), FilePlace(0, chance.choice([LOG_ID, b""]), FILE))


def test_the_numbers_here_are_those_of_the_formats() -> None:
    kinds = (
        "MARK",
        "ROLL",
        "CLASSIC_PUBLISH",
        "CLASSIC_SETTLE",
        "CLASSIC_PURGE",
        "CLASSIC_QUEUE_DELETED",
        "CLASSIC_DONE",
        "CLASSIC_OUT",
        "CLASSIC_BACK",
        "CLASSIC_CHECKPOINT",
        "RAFT_ENTRIES",
    )
    assert {name: getattr(log_columns, name) for name in kinds} == {name: Kind[name] for name in kinds}
    assert (Kind.COUNTS, Kind.STREAM_READERS) == (log_columns.COUNTS_KIND, log_columns.STREAM_READERS)
    assert [None, *(what.name.lower() for what in Unlogged)] == list(UNLOGGED)
    assert record.FIRST_KIND_OF_WRITERS == log_columns.FIRST_KIND_OF_WRITERS
    flags = ("BY_ACTORS", "WAITED_FOR", "DIED_BEFORE", "DIED_EACH")
    assert {name: getattr(log_columns, name) for name in flags} == {name: getattr(log_records, name) for name in flags}
    assert {DONE + one for one in log_records.DoneReason} <= set(OUTCOMES)
    assert {BACK + one for one in BackReason} <= set(OUTCOMES)
    assert [reason.name.lower() for reason in DeathReason] == list(DEATHS)
    assert CommandKind.ORIGINS == entry_rows.ORIGINS_OP
    ops = ("ENQUEUE", "SETTLE", "PURGE", "PURGE_ONCE")
    assert {name: getattr(entry_rows, name) for name in ops} == {name: CommandKind[name] for name in ops}
    assert CommandKind.DEAD_SETTLED == entry_rows.DEAD_SETTLED_OP
    assert (commands.PERSISTENT, commands.NUMBERED) == (entry_rows.PERSISTENT, entry_rows.NUMBERED)
    assert commands.PERSISTENT | commands.REDELIVERED | commands.NUMBERED == entry_rows.KNOWN_FLAGS
    assert [Outcome(number).name for number in range(5)] == [
        "ACKNOWLEDGED", "REQUEUED", "REJECTED", "RETURNED", "RELEASED",
    ]  # fmt: skip
