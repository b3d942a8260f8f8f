"""Clients of the stream protocol at simulated brokers: what is wanted happens, and a broker that gets it wrong is caught by the
promise it breaks.

The plans are written by hand, so that they are small, and reach what they are for whatever changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from broker.stream_clients import group_coordinator
from broker.stream_clients.client_reader import ClientReader
from broker.stream_clients.consumer_groups import NextStep
from broker.stream_clients.group_coordinator import GroupCoordinator
from stream import leader_questions
from stream.chunks.bloom import WantedValues
from stream.group import tail as tail_module
from stream.group.chunk_reading import StreamReading
from stream.group.dedup import NewItems
from tests.sim.brokers.chunk_reader import FILTERS, GROUP, PLAIN, ROLES, STORES
from tests.sim.brokers.chunk_reading import ChunkReading
from tests.sim.brokers.group_watch import CALM_S
from tests.sim.brokers.layer import RARE_PATHS
from tests.sim.brokers.plan import BrokerShape
from tests.sim.brokers.published_name import Item, PublishedName
from tests.sim.brokers.stored_names import StoredName
from tests.sim.brokers.stream_book import PLACES, StreamBook
from tests.sim.brokers.stream_reading import Beginning
from tests.sim.invariants import Violation
from tests.sim.plan import Ask, Fault, Plan
from tests.sim.run import Outcome, run
from tests.unit.sim.test_broker_streams import Log, again_and_again, filled

SECONDS = 24.0
SHAPE = BrokerShape(
    seconds=SECONDS, groups=0, publishers=1, takers=1, streams="stream-plain", readers=1, writers=2, chunk_readers=5
)
SLOW = replace(SHAPE, fsync_s=0.02)  # so that connections die with more on the way
LONG = replace(SHAPE, seconds=CALM_S + 40.0)  # nodes have reached each other for long
PATHS = ("sub-batch", "part of a stream", "all of a stream", "publisher goes", "chunk", "group", "stream client told")
RARER = (
    "part of a stream publish was known",  # a connection dies with part of it stored
    "chunk reader begins within a chunk",  # of several messages, at an offset that is drawn
    "chunk is out of place",
)


def outcome_of(shape: BrokerShape = SHAPE, faults: Sequence[Fault] = (), roles: Sequence[str] = ROLES) -> Outcome:
    """Of writers, and of readers with these roles that come and go."""
    asks = []
    for step in range(int((shape.seconds - 12) / 0.1)):
        at = round(0.3 + 0.1 * step, 3)
        asks.append(Ask(at, 1 + step % shape.writers, 0, "write", "stream-plain", 0))
        for reader in range(1, shape.chunk_readers + 1):
            if ROLES[reader % len(ROLES)] in roles and step % 5 == 0:
                kind = "unread-chunks" if step % 45 == 5 * reader else "read-chunks"
                asks.append(Ask(at, reader, 0, kind, "stream-plain", 0))
    return run(Plan(1, shape, tuple(faults), tuple(asks), "brokers"))


# What happens


def test_chunks_are_read_in_each_of_the_ways() -> None:
    outcome = outcome_of()
    assert outcome.is_good, outcome.message
    assert outcome.checked["offset_names_one_chunk"] > 200
    assert outcome.checked["stored_offsets_were_stored"] > 1
    assert outcome.checked["groups_have_a_reader"] == 1
    assert outcome.counted["group consumer told to begin"] > 1


def test_groups_are_handed_over_in_each_of_the_ways_while_nodes_reach_each_other() -> None:
    outcome = outcome_of(LONG, roles=(GROUP,))
    assert outcome.is_good, outcome.message
    assert outcome.counted["group consumer told to stop"] > 3
    assert "two of a group read at a time" not in outcome.counted


def test_a_big_campaign_must_reach_all_of_this() -> None:
    """Connections die, leaders are killed, retention cuts, and a node in memory has no member."""
    moves = [*again_and_again("publisher moves", 0.4), *again_and_again("connection dies", 0.7)]
    stalls = again_and_again("consumer stalls", 0.5, span=4.0)
    reached: dict[str, int] = {}
    for shape, faults in (
        (SLOW, [*moves, *again_and_again("kill", 1.5, span=0.4)]),
        (SLOW, [*moves, *again_and_again("kill", 1.6, span=0.4)]),  # a stream moves where clients are in one of both
        (replace(SHAPE, streams="stream-short", ram=1), stalls),
    ):
        outcome = outcome_of(shape, faults)
        assert outcome.is_good, outcome.message
        reached |= outcome.counted
    own = [path for path in RARE_PATHS if path.startswith(PATHS) and path not in RARER]
    assert len(own) == 11
    assert [path for path in own if not reached.get(path)] == []


# What is caught


def test_a_leader_that_stores_what_a_publisher_said_before_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_is_new(said: Any, known: Any) -> NewItems:
        last_ids = {part.name: int.from_bytes(part.ids[-8:], "big") for part in said.parts if part.name}
        return NewItems(said.data, said.item_count, said.message_count, last_ids)

    monkeypatch.setattr(tail_module, "new_items", all_is_new)
    moves = [*again_and_again("publisher moves", 0.4), *again_and_again("kill", 1.4, span=0.4)]
    assert outcome_of(SLOW, moves).invariant == "stored_once_in_a_queue"


def test_a_leader_that_drops_what_a_publisher_has_not_said_before_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    new_items = tail_module.new_items

    def lasts_are_greater(said: Any, known: Any) -> NewItems:
        new = new_items(said, known)
        return new._replace(publishers={name: last + 5 for name, last in new.publishers.items()})

    monkeypatch.setattr(tail_module, "new_items", lasts_are_greater)
    assert outcome_of().invariant in ("confirmed_is_stored", "figures_are_the_twins")


def test_a_leader_that_does_not_know_a_publisher_any_more_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = leader_questions.ask_answer
    monkeypatch.setattr(leader_questions, "ask_answer", lambda leader, value: answer(leader, 0 if value else value))
    moves = again_and_again("publisher moves", 0.4)
    assert outcome_of(faults=moves, roles=(PLAIN,)).invariant == "last_id_is_the_logs"


def test_an_offset_that_nobody_has_stored_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = leader_questions.ask_answer
    monkeypatch.setattr(leader_questions, "ask_answer", lambda leader, value: answer(leader, 1_000_000))
    dies = again_and_again("connection dies", 0.4)
    assert outcome_of(faults=dies, roles=(STORES,)).invariant == "stored_offsets_were_stored"


def test_a_chunk_that_is_left_out_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    next_sent = StreamReading.next_sent

    def passes_over(reading: StreamReading, index: int) -> Any:
        found = next_sent(reading, index)
        return next_sent(reading, found[0] + 1) if found is not None and found[0] % 7 == 0 else found

    monkeypatch.setattr(StreamReading, "next_sent", passes_over)
    assert outcome_of(roles=(PLAIN,)).invariant in ("readers_miss_nothing", "readers_begin_where_they_asked")


def test_a_filter_that_passes_over_what_is_wanted_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    may_match = WantedValues.may_match
    monkeypatch.setattr(WantedValues, "may_match", lambda wanted, one: may_match(wanted, one) and sum(one) % 3 != 0)
    assert outcome_of(roles=(FILTERS,)).invariant in ("readers_miss_nothing", "readers_begin_where_they_asked")


def test_chunks_without_credit_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = ClientReader.deliver

    def keeps_its_credit(reader: ClientReader, *args: Any) -> None:
        deliver(reader, *args)
        reader.granted += 1

    monkeypatch.setattr(ClientReader, "deliver", keeps_its_credit)
    assert outcome_of(roles=(PLAIN,)).invariant == "chunks_come_for_credit"


def test_other_bytes_and_a_last_chunk_that_is_not_committed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    deliver = ClientReader.deliver
    with monkeypatch.context() as patch:
        patch.setattr(ClientReader, "deliver", lambda one, last, chunk, count: deliver(one, last + 9999, chunk, count))
        assert outcome_of(roles=(PLAIN,)).invariant == "last_chunk_is_committed"
    flipped = monkeypatch.setattr
    flipped(ClientReader, "deliver", lambda one, last, chunk, count: deliver(one, last, bytes(chunk) + b"x", count))
    assert outcome_of(roles=(PLAIN,)).invariant == "offset_names_one_chunk"


def test_a_group_whose_next_reader_begins_before_the_last_has_stopped_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def all_begin(consumers: Sequence[Any], partition_index: int) -> NextStep | None:
        wanted = [one for one in consumers if one.started and one.answers and not one.told_active]
        return NextStep(wanted[0], active=True) if wanted else None

    monkeypatch.setattr(group_coordinator, "next_step", all_begin)
    assert outcome_of(LONG, roles=(GROUP,)).invariant == "one_of_a_group_reads"


def test_a_group_that_nobody_reads_for_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(GroupCoordinator, "_decide", lambda *_: None)
    assert outcome_of(roles=(GROUP,)).invariant == "groups_have_a_reader"


# What was published under a name


def published(log: Log) -> PublishedName:
    """Two items, and one that has not come yet."""
    bodies = [b"name-1:%d:0:" % (PLACES * number) for number in (1, 2, 5)]
    log.add(*bodies[:2])
    return PublishedName("name-1", [Item(at, (one,), "") for at, one in zip((1, 2, 5), bodies, strict=True)])


def test_who_goes_on_behind_its_last_id_publishes_what_is_not_stored() -> None:
    log = Log()
    name = published(log)
    name.told(log.book, "a publisher", 0, 2)
    assert [item.id for item in name.behind(2)] == [5]


def test_what_is_missing_below_a_last_id_is_never_published_again() -> None:
    log = Log()
    name = published(log)
    log.add(b"name-1:%d:0:" % (PLACES * 7))  # as if what has id 5 had been taken for known
    with pytest.raises(Violation, match="what_is_up_to_a_last_id_is_stored"):
        name.told(log.book, "a publisher", 2, 7)


def test_what_was_refused_may_be_missing_below_a_last_id() -> None:
    log = Log()
    name = published(log)
    log.add(b"name-1:%d:0:" % (PLACES * 7))
    name.was_refused = True
    name.told(log.book, "a publisher", 2, 7)


@pytest.mark.parametrize("last_id", [1, 3])
def test_a_last_id_is_none_that_was_overtaken_and_none_that_is_to_come(last_id: int) -> None:
    log = Log()
    name = published(log)
    with pytest.raises(Violation, match="last_id_is_the_logs"):
        name.told(log.book, "a publisher", 2, last_id)


# What is stored


def told(name: StoredName, offset: int | None) -> None:
    name.answered("a reader", name.asked(), offset)


@pytest.fixture
def book() -> StreamBook:
    return Log().book


def test_what_was_told_is_not_taken_back_by_what_was_stored_before(book: StreamBook) -> None:
    name = StoredName(book, "r")
    told(name, None)
    for offset in (10, 40, 50):
        name.store(offset)
    told(name, 40)
    told(name, 50)  # it came late
    with pytest.raises(Violation, match="stored_offsets_do_not_go_back"):
        told(name, 10)


def test_who_stores_less_is_told_of_less(book: StreamBook) -> None:
    name = StoredName(book, "r")
    name.store(50)
    told(name, 50)
    name.store(10)
    told(name, 10)


def test_what_was_stored_after_what_was_told_may_have_come_after_the_answer(book: StreamBook) -> None:
    """It had been said when the first was asked for (seed 17957746381087)."""
    name = StoredName(book, "r")
    for offset in (40, 10, 20):
        name.store(offset)
    told(name, 40)
    told(name, 10)
    told(name, 20)
    with pytest.raises(Violation, match="stored_offsets_do_not_go_back"):
        told(name, 10)


def test_what_was_stored_over_another_connection_may_come_late(book: StreamBook) -> None:
    name = StoredName(book, "r")
    name.store(10, "slow")
    name.store(40, "fast")
    told(name, 40)
    told(name, 10)
    name.store(50, "fast")
    told(name, 50)
    with pytest.raises(Violation, match="stored_offsets_do_not_go_back"):
        told(name, 40)


def test_what_was_stored_is_not_forgotten(book: StreamBook) -> None:
    name = StoredName(book, "r")
    name.store(50)
    told(name, 50)
    with pytest.raises(Violation, match="stored_offsets_do_not_go_back"):
        told(name, None)


# What a reading of chunks is still to be given


@pytest.mark.parametrize(
    ("beginning", "at_end"),
    [(Beginning("first"), False), (Beginning("offset", 8), False), (Beginning("offset", 10), True)],
)
def test_a_reader_that_was_answered_late_may_have_been_shown_the_end(beginning: Beginning, at_end: bool) -> None:
    """One that went on where it had stored, at the end, was said to be given nothing (seed 17956654190457)."""
    reading = ChunkReading(filled().book, "a reader of a group", beginning, told=10, is_answered_late=True)
    assert reading.is_at_end is at_end
    unanswered = ChunkReading(filled().book, "a reader", beginning, told=10)
    assert not unanswered.is_at_end
