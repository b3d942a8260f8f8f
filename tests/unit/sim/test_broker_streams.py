"""Streams of simulated brokers: what is wanted happens, and a broker that gets it wrong is caught by the promise it breaks.

The plans are written by hand, so that they are small, and reach what they are for whatever changes. What a log can say wrongly
is said to a book alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from broker.messages.message import Run
from broker.queues.stream_contract import Begin
from native.content import encode
from raft.core.live_entries import LiveEntries
from raft.core.messages import Entry, EntryKind
from stream.chunks.chunk import seal_chunk
from stream.chunks.entries import RetentionCut, WriterPosition, encode_chunk
from stream.chunks.entries import encode as encode_entry
from stream.chunks.stored_form import items_of_run
from stream.group.leading import StreamLeading
from stream.group.machine import StreamMachine, Written
from stream.group.place_finder import PlaceFinder
from stream.group.rules import StreamRules
from stream.reading import reader as reader_module
from stream.reading.reader import StreamReader
from tests.sim.brokers.invariants import About
from tests.sim.brokers.layer import RARE_PATHS
from tests.sim.brokers.plan import BrokerShape
from tests.sim.brokers.stream_book import StreamBook
from tests.sim.brokers.stream_reading import Beginning, Reading
from tests.sim.brokers.streams import Streams
from tests.sim.invariants import Violation
from tests.sim.plan import Ask, Fault, Plan
from tests.sim.run import Outcome, run
from wire.amqp.tables import encode_properties

SECONDS = 24.0
ASKED_UNTIL_S = 12.0
OWN = ("stream cut", "stream reader", "stream publish", "stream member", "chunk is")
RARER = ("chunk is out of place", "stream publish was said again")  # a leader goes at the right moment
SHAPE = BrokerShape(seconds=SECONDS, groups=0, publishers=1, takers=1, streams="stream-short", readers=2)


def outcome_of(shape: BrokerShape = SHAPE, faults: Sequence[Fault] = ()) -> Outcome:
    """Of a publisher and of readers that come and go."""
    name, asks = shape.streams or shape.guests, []
    for step in range(int(ASKED_UNTIL_S / 0.1)):
        at = round(0.3 + 0.1 * step, 3)
        asks.append(Ask(at, 1 + step % (shape.publishers + shape.committers), 0, "publish", name, 40))
        if step % 5 == 0:
            asks.append(Ask(at, 1 + step % shape.readers, 0, "read", name, 0))
        if step % 23 == 0:
            asks.append(Ask(at, 1, 0, "unread", name, 0))
        if shape.guests and step % 40 in (0, 30):
            asks.append(Ask(at, 1, 0, "declare" if step % 40 == 0 else "delete", name, 0))
    return run(Plan(1, shape, tuple(faults), tuple(asks), "brokers"))


def again_and_again(kind: str, every_s: float, span: float = 1.0) -> list[Fault]:
    times = [1.0 + every_s * at for at in range(int((ASKED_UNTIL_S - 2) / every_s))]
    return [Fault(at, kind, node=0, span=span) for at in times]


# What happens


def test_a_stream_is_read_while_it_is_published_to_and_cut() -> None:
    outcome = outcome_of()
    assert outcome.is_good, outcome.message
    assert outcome.counted["stream cut by retention"] > 10
    assert outcome.counted["stream reader goes on at its offset"] > 0
    assert outcome.checked["offset_names_one_message"] > 200
    assert outcome.checked["members_have_the_same_bytes"] >= 3
    assert outcome.checked["readers_begin_where_they_asked"] > 5


def test_transactions_publish_to_streams() -> None:
    outcome = outcome_of(replace(SHAPE, committers=1))
    assert outcome.is_good, outcome.message
    assert outcome.counted["transaction committed"] > 3
    assert outcome.checked["committed_as_a_whole"] > 3


def test_a_stream_that_was_deleted_and_declared_again_begins_anew() -> None:
    outcome = outcome_of(replace(SHAPE, streams="", guests="stream-guest"))
    assert outcome.is_good, outcome.message
    assert outcome.counted["queue declared again"] == 2
    assert outcome.counted["stream reader cancelled by its node"] > 0
    assert outcome.counted["message of a later life confirmed"] > 10


def test_a_big_campaign_must_reach_all_of_this() -> None:
    """Leaders are killed under publishes, members come and go, and readers stall while what they are to read is removed."""
    kills = again_and_again("kill", 1.0, span=0.4)
    members = [*again_and_again("shrink queue", 2.0), *again_and_again("grow queue", 1.4)]
    stalls = again_and_again("consumer stalls", 1.0, span=3.0)
    reached = dict(outcome_of(replace(SHAPE, streams="", guests="stream-guest")).counted)
    for outcome in (outcome_of(faults=(*kills, *stalls)), outcome_of(faults=members)):
        assert outcome.is_good, outcome.message
        reached |= outcome.counted
    own = [path for path in RARE_PATHS if path.startswith(OWN) and path not in RARER]
    assert len(own) == 8
    assert [path for path in own if not reached.get(path)] == []


# What is caught


def test_retention_that_removes_more_than_it_must_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        StreamRules, "first_to_keep", lambda _, state, now: state.segments[-1].first_offset if state.segments else 0
    )
    assert outcome_of().invariant == "retention_takes_what_is_too_much"


def test_retention_that_removes_nothing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamLeading, "_keep_to_retention", lambda *_: None)
    assert outcome_of().invariant == "retention_is_kept_to"


def test_a_first_offset_that_falls_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    cut = StreamMachine._cut

    def falls(machine: StreamMachine, entry: RetentionCut) -> None:
        cut(machine, entry)
        machine.state.first_offset = 0 if machine.state.first_offset > 50 else machine.state.first_offset

    monkeypatch.setattr(StreamMachine, "_cut", falls)
    assert outcome_of().invariant == "first_offset_never_falls"


def test_a_member_that_counts_what_was_said_again_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is what a leader change makes of a publish that was not answered."""
    take = StreamMachine._take

    def twice(machine: StreamMachine, index: int, entry: Any) -> Written:
        written = take(machine, index, entry)
        return take(machine, index, entry) if written is Written.DONE else written

    monkeypatch.setattr(StreamMachine, "_take", twice)
    assert outcome_of().invariant == "results_are_the_twins"


def test_a_snapshot_that_forgets_messages_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StreamMachine, "live_entries", lambda _: LiveEntries())
    assert outcome_of(replace(SHAPE, snapshot_entries_max=10)).invariant == "messages_of_a_stream_are_kept"


def test_a_message_at_another_offset_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    slice_of = reader_module.Slice

    def shifted(*what: Any, offset: int) -> Any:
        return slice_of(*what, offset=offset + (offset > 50))

    monkeypatch.setattr(reader_module, "Slice", shifted)
    assert outcome_of().invariant == "offset_names_one_message"


def test_a_reader_that_begins_elsewhere_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    place_of = PlaceFinder.place_of
    monkeypatch.setattr(PlaceFinder, "place_of", lambda places, _: place_of(places, Begin.FIRST))
    assert outcome_of().invariant == "readers_begin_where_they_asked"


def test_a_reader_that_passes_over_a_chunk_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    give = StreamReader._give

    def give_and_skip(reader: StreamReader, entry_index: int, chunk: Any) -> None:
        give(reader, entry_index, chunk)
        if reader.place.offset > 50:
            reader.place = reader.place._replace(entry_index=reader.place.entry_index + 1)

    monkeypatch.setattr(StreamReader, "_give", give_and_skip)
    assert outcome_of().invariant == "readers_miss_nothing"


def test_a_reader_that_is_given_nothing_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    read = StreamReader.read

    def reads_no_more(reader: StreamReader, *what: Any) -> bool:
        return reader.place.offset < 50 and read(reader, *what)

    monkeypatch.setattr(StreamReader, "read", reads_no_more)
    assert outcome_of().invariant == "readers_reach_the_end"


def test_a_member_with_other_bytes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Streams, "_read", staticmethod(lambda store, index: b"other bytes"))
    assert outcome_of().invariant == "members_have_the_same_bytes"


# What a log can say


class Log:
    """One stream's log, and its book."""

    def __init__(self) -> None:
        self.counted: list[str] = []
        self.book = StreamBook(
            "s", About("stream s", {}), lambda body: not body.startswith(b"open"), self.counted.append
        )
        self.book.follow(StreamRules(max_length_bytes=1000))
        self.index = 0
        self.sequence = 0

    def add(self, *bodies: bytes, ends_segment: bool = True) -> None:
        """Published, and stored where the log ends."""
        self.index += 1
        self.sequence += len(bodies)
        content = b"".join(encode(encode_properties({}), body) for body in bodies)
        items = items_of_run(Run("", "s", content, len(bodies), sum(map(len, bodies))))
        header = seal_chunk((items,), len(bodies), len(bodies), self.index * 1000, 1, self.book.end)
        writer = WriterPosition(1, 1, self.sequence)
        data = encode_chunk(header, (items,), writers=(writer,), ends_segment=ends_segment)
        self.book.apply(Entry(self.index, 1, EntryKind.COMMAND, data))

    def cut(self, first_offset: int) -> None:
        self.index += 1
        data = encode_entry(RetentionCut(self.index * 1000, first_offset))
        self.book.apply(Entry(self.index, 1, EntryKind.COMMAND, data))


def filled(segments: int = 5) -> Log:
    """Each with two messages, and 250 bytes or more."""
    log = Log()
    for at in range(segments):
        log.add(*(b"p1.s/1:%d:0:" % (2 * at + one) + b"." * 80 for one in (1, 2)))
    return log


def test_a_book_knows_every_message_after_it_is_cut() -> None:
    log = filled()
    log.cut(2)
    assert (log.book.first, log.book.end, log.book.firsts) == (2, 10, [0, 2])
    assert log.book.messages[0].startswith(b"p1.s/1:1:")
    assert [chunk.first_offset for chunk in log.book.kept] == [2, 4, 6, 8]
    assert log.counted == ["stream cut by retention"]


def test_messages_of_a_channel_in_another_order() -> None:
    log = filled(1)
    with pytest.raises(Violation, match="channels_keep_their_order"):
        log.add(b"p1.s/1:2:9:")


def test_a_message_that_is_stored_twice() -> None:
    log = filled(1)
    with pytest.raises(Violation, match="stored_once_in_a_queue"):
        log.add(log.book.messages[0])


def test_a_message_whose_transaction_is_open() -> None:
    with pytest.raises(Violation, match="uncommitted_is_nowhere"):
        Log().add(b"open.s/1:1:0:")


def test_a_segment_goes_that_no_limit_asked_for() -> None:
    log = filled()
    log.cut(4)
    with pytest.raises(Violation, match="retention_takes_what_is_too_much"):
        log.cut(8)


# What a reading may be given


def reading_of(log: Log, beginning: Beginning, told: int) -> Reading:
    reading = Reading(log.book, "a reader", beginning, told)
    reading.answered()
    return reading


@pytest.mark.parametrize(
    ("beginning", "may_begin"),
    [
        (Beginning("first"), [0, 2]),  # with what is kept now, or was when its node asked
        (Beginning("last"), [6, 8]),  # from the chunk on whose message clients have seen
        (Beginning("next"), [7, 8, 9, 10]),
        (Beginning("offset", 3), [3]),
        (Beginning("offset", 1), [1, 2]),  # what it wanted may have been removed
        (Beginning("offset", 9), [7, 8, 9]),
        (Beginning("offset", 99), [7, 8, 9, 10]),
        (Beginning("time", 3), [4]),
        (Beginning("time", 5), [7, 8]),
        (Beginning("time", 99), [7, 8, 9, 10]),
    ],
)
def test_where_a_reader_may_begin(beginning: Beginning, may_begin: list[int]) -> None:
    """Chunks of two messages, five of them, a second apart; the first is gone, and clients know of seven messages."""
    log = filled()
    log.cut(2)
    reading = reading_of(log, beginning, told=7)
    assert [offset for offset in range(11) if reading.may_begin(offset)] == may_begin


def test_what_a_reader_wants_of_a_time_may_be_removed_though_no_client_had_seen_it() -> None:
    log = filled(segments=10)
    reading = reading_of(log, Beginning("time", 5), told=7)
    log.cut(10)
    assert [offset for offset in range(21) if reading.may_begin(offset)] == [7, 8, 10]


def test_nothing_comes_before_the_answer() -> None:
    reading = Reading(filled().book, "a reader", Beginning("first"), 0)
    assert not reading.may_begin(0)


def test_a_reader_is_passed_by_retention_only() -> None:
    log = filled()
    reading = reading_of(log, Beginning("first"), told=0)
    reading.gives(0, log.book.messages[0])
    log.cut(2)
    reading.gives(2, log.book.messages[2])
    assert log.counted == ["stream cut by retention", "stream reader passed by retention"]
    with pytest.raises(Violation, match="readers_miss_nothing"):
        reading.gives(5, log.book.messages[5])
