"""What the log says of messages: who published and took them, why they left their queue or came back. And not a word of it
where the level of the history is off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from random import Random

import pytest

from broker.actors import ActorKind, GoneReason, LogActor
from broker.catalog.policy import EffectiveArguments
from broker.history_level import HistoryLevel
from broker.messages.message import DiedIn
from broker.queues.consumer import Consumer
from broker.queues.queue_type import BackReason, DeadMessage, DeathReason, Outcome, Queue
from broker.unlogged import Unlogged
from classic.store.log_records import (
    OUT_BEFORE,
    Death,
    DoneReason,
    Part,
    PublishOrigin,
    decode_deleted,
    decode_published,
    decode_reasoned,
    decode_settled,
)
from native.content import messages
from storage.history.name_records import ActorRow, NameRow, decode_actor, decode_gone, decode_name
from storage.names import LOG_DIRECTORY, LOG_SUFFIX, log_file, numbers_in
from storage.record import PAYLOAD_BYTES_MAX, Kind, scan
from tests.unit.classic.classic_world import Sink, World, record_of

WIDE = 1 << 20  # of a log file: nothing rolls


@pytest.fixture
def world() -> World:
    return World([record_of("q", 9), record_of("copies", 10)], log_file_bytes_max=WIDE)


@pytest.fixture
def channel() -> LogActor:
    connection = LogActor(ActorKind.CONNECTION, user="ann", vhost="/", address="10.0.0.7:50112", product="pika")
    return LogActor(ActorKind.CHANNEL, connection)


def logged(world: World, *kinds: Kind) -> Iterator[tuple[int, Kind, int, memoryview]]:
    """File, kind, index and payload of these records, in their order."""
    world.log.commit_now()
    for number in sorted(numbers_in(world.disk.list(LOG_DIRECTORY), LOG_SUFFIX)):
        data = world.disk.read_file(log_file(number))
        for record in scan(data, 0, len(data), PAYLOAD_BYTES_MAX)[0]:
            if record[0] in kinds:
                yield number, Kind(record[0]), record[4], memoryview(data)[record[5] : record[6]]


def origins(world: World) -> list[PublishOrigin]:
    return [decode_published(payload).origin for *_, payload in logged(world, Kind.CLASSIC_PUBLISH)]


def done(world: World) -> list[tuple[int, DoneReason, list[tuple[int, int]]]]:
    """LogActor, reason and messages, ordered by messages."""
    records = [decode_reasoned(payload) for *_, payload in logged(world, Kind.CLASSIC_DONE)]
    return sorted([(actor, DoneReason(reason), ranges) for _, actor, reason, ranges in records], key=lambda row: row[2])


def back(world: World) -> list[tuple[int, BackReason, list[tuple[int, int]]]]:
    records = [decode_reasoned(payload) for *_, payload in logged(world, Kind.CLASSIC_BACK)]
    return [(actor, BackReason(reason), ranges) for _, actor, reason, ranges in records]


def consume(world: World, channel: LogActor, prefetch: int = 0, no_ack: bool = False) -> tuple[Consumer, Sink]:
    sink = Sink()
    actor = LogActor(ActorKind.CONSUMER, channel, tag="c1", queue="q", prefetch=prefetch, no_ack=no_ack)
    consumer = Consumer("c1", world.queues["q"], sink, prefetch=prefetch, no_ack=no_ack, actor=actor)
    world.queues["q"].consume(consumer, world.now)
    world.turn()
    return consumer, sink


def test_a_publish_says_by_whom_it_came_and_which_of_all_its_messages_it_was(world: World, channel: LogActor) -> None:
    world.publish(["q", "copies"], [b"a", b"b"], publisher=channel, number=7)
    world.publish(["q"], [b"c"], confirm=0, publisher=channel, number=9)
    world.publish(["q"], [b"d"])
    assert channel.number == 2, "its connection has the first number"
    assert origins(world) == [
        PublishOrigin((Part(2, 7, 2),)),
        PublishOrigin((Part(2, 9, 1),), waited_for=True),
        PublishOrigin(),
    ]


def test_messages_that_are_looked_at_one_by_one_keep_their_numbers(channel: LogActor) -> None:
    limited = EffectiveArguments(max_length_bytes=1000)
    world = World([record_of("q", 9)], log_file_bytes_max=WIDE, effective=limited)
    world.publish(["q"], [b"a", b"b", b"c"], publisher=channel, number=7)
    assert [origin.parts for origin in origins(world)] == [(Part(2, number, 1),) for number in (7, 8, 9)]


def test_a_dead_letter_says_where_it_died_and_why(world: World) -> None:
    world.publish(["q"], [b"a"], died_in=DiedIn(10, (5, 0, 0), DeathReason.EXPIRED))
    assert origins(world) == [PublishOrigin(death=Death(10, (5, 0, 0), DeathReason.EXPIRED))]


def test_messages_of_a_run_that_died_in_places_of_their_own_say_so_each(world: World) -> None:
    places = ((5, 0, 0), (7, 120, 3))
    world.publish(["q"], [b"a", b"b"], died_in=DiedIn(10, places[0], DeathReason.EXPIRED, places[1:]))
    assert origins(world) == [PublishOrigin(deaths=tuple(Death(10, place, DeathReason.EXPIRED) for place in places))]


def test_what_a_queue_gives_up_is_passed_on_with_its_place(channel: LogActor, monkeypatch: pytest.MonkeyPatch) -> None:
    dies = EffectiveArguments(dead_letter_exchange="dlx", max_length=4)
    world = World([record_of("q", 9)], log_file_bytes_max=WIDE, effective=dies)
    passed_on: list[tuple[DeathReason, bytes, tuple[int, int, int] | None]] = []

    def note(queue: Queue, reason: DeathReason, dead: Sequence[DeadMessage], now: int) -> None:
        passed_on.extend([(reason, messages(one.content, 0, 1)[0][1], one.position) for one in dead])

    monkeypatch.setattr(world.host, "dead_letter", note)
    world.publish(["q"], [b"a", b"b", b"c", b"d"])
    world.publish(["q"], [b"e"])
    _, sink = consume(world, channel, prefetch=2)
    world.queues["q"].settle(sink.pieces[0], Outcome.REJECTED, world.now)
    world.tick()
    assert passed_on == [
        (DeathReason.MAXLEN, b"a", (0, 0, 0)),
        (DeathReason.REJECTED, b"b", (1, 0, 0)),
        (DeathReason.REJECTED, b"c", (2, 0, 0)),
    ]


def test_each_way_out_of_a_queue_has_its_reason(world: World, channel: LogActor) -> None:
    world.publish(["q"], [b"acked", b"rejected", b"acked too", b"got"])
    consumer, sink = consume(world, channel, prefetch=3)
    (piece,) = sink.pieces
    queue = world.queues["q"]
    assert consumer.actor is not None
    world.tick()
    first, second, third = (replace(piece, sequence=at, count=1) for at in range(3))
    queue.settle(first, Outcome.ACKNOWLEDGED, world.now)
    queue.settle(second, Outcome.REJECTED, world.now)
    queue.settle(third, Outcome.ACKNOWLEDGED, world.now)
    queue.cancel(consumer, world.now)
    queue.get(True, world.now, channel)
    world.publish(["q"], [b"purged", b"purged"])
    queue.purge(world.now, channel)
    world.tick()
    assert done(world) == [
        (3, DoneReason.ACKNOWLEDGED, [(0, 1), (2, 3)]),
        (3, DoneReason.REJECTED, [(1, 2)]),
        (2, DoneReason.GOT, [(3, 4)]),
        (2, DoneReason.PURGED, [(4, 6)]),
    ]
    assert not list(logged(world, Kind.CLASSIC_SETTLE, Kind.CLASSIC_PURGE))


def test_what_is_sent_without_acknowledgement_says_to_whom(world: World, channel: LogActor) -> None:
    world.publish(["q"], [b"a", b"b"])
    consume(world, channel, no_ack=True)
    world.tick()
    assert done(world) == [(3, DoneReason.SENT, [(0, 2)])]


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (EffectiveArguments(message_ttl_ms=50), DoneReason.EXPIRED),
        (EffectiveArguments(max_length=1), DoneReason.MAXLEN),
    ],
)
def test_what_a_queue_drops_by_itself_is_done_with_by_nobody(limits: EffectiveArguments, reason: DoneReason) -> None:
    world = World([record_of("q", 9)], log_file_bytes_max=WIDE, effective=limits)
    world.publish(["q"], [b"a"])
    world.publish(["q"], [b"b"])
    world.tick(2)
    assert done(world)[0] == (0, reason, [(0, 2 if reason is DoneReason.EXPIRED else 1)])


def test_what_comes_back_says_from_whom_and_why(world: World, channel: LogActor) -> None:
    world.publish(["q"], [b"a", b"b"])
    world.publish(["q"], [b"transient"], persistent=False)
    consumer, sink = consume(world, channel)
    for piece, reason in zip(sink.pieces, (BackReason.NACKED, BackReason.CONNECTION_LOST), strict=True):
        piece.back = reason
    world.queues["q"].cancel(consumer, world.now)
    world.queues["q"].settle(sink.pieces[0], Outcome.RELEASED, world.now)
    world.queues["q"].settle(sink.pieces[1], Outcome.REQUEUED, world.now)
    world.tick()
    assert back(world) == [(3, BackReason.NACKED, [(0, 2)])], "the log knows nothing of what was not persistent"


def take(world: World, channel: LogActor, outcome: Outcome, back: BackReason = BackReason.NOT_SAID) -> None:
    """Get one message and settle it, all within a tick."""
    got = world.get("q")
    assert got is not None, "the queue has messages"
    got.piece.taker, got.piece.back = channel, back
    world.queues["q"].settle(got.piece, outcome, world.now)


@pytest.fixture
def full_world() -> World:
    return World([record_of("q", 9)], log_file_bytes_max=WIDE, history=HistoryLevel.FULL)


def handed_out(world: World) -> list[tuple[int, int, list[tuple[int, int]]]]:
    """Actor, flags and messages."""
    return [decode_reasoned(payload)[1:] for *_, payload in logged(world, Kind.CLASSIC_OUT)]


def test_what_is_out_at_a_tick_says_who_has_it(full_world: World, channel: LogActor) -> None:
    full_world.publish(["q"], [b"a", b"b", b"c"])
    full_world.publish(["q"], [b"transient"], persistent=False)
    consumer, sink = consume(full_world, channel)
    assert consumer.actor is not None
    full_world.queues["q"].settle(replace(sink.pieces[0], sequence=1, count=1), Outcome.ACKNOWLEDGED, full_world.now)
    full_world.tick(2)
    assert handed_out(full_world) == [(consumer.actor.number, 0, [(0, 1), (2, 3)])]
    kinds = [kind for _, kind, *_ in logged(full_world, Kind.CLASSIC_DONE, Kind.CLASSIC_OUT)]
    assert kinds == [Kind.CLASSIC_DONE, Kind.CLASSIC_OUT]


def test_what_came_back_between_two_ticks_is_out_to_who_got_it_then(full_world: World, channel: LogActor) -> None:
    full_world.publish(["q"], [b"a"])
    take(full_world, channel, Outcome.REQUEUED, BackReason.NACKED)
    consumer, _ = consume(full_world, channel)
    assert consumer.actor is not None
    full_world.tick()
    assert handed_out(full_world) == [(consumer.actor.number, OUT_BEFORE, [(0, 1)])]
    kinds = [kind for _, kind, *_ in logged(full_world, Kind.CLASSIC_BACK, Kind.CLASSIC_OUT)]
    assert kinds == [Kind.CLASSIC_BACK, Kind.CLASSIC_OUT]


def test_what_is_settled_within_a_tick_and_other_levels_are_not_told_to_be_out(
    full_world: World, world: World, channel: LogActor
) -> None:
    full_world.publish(["q"], [b"a"])
    take(full_world, channel, Outcome.ACKNOWLEDGED)
    full_world.tick()
    world.publish(["q"], [b"a"])
    consume(world, channel)
    world.tick()
    assert handed_out(full_world) == handed_out(world) == []


def test_a_message_that_came_back_twice_between_two_ticks_is_told_twice(world: World, channel: LogActor) -> None:
    world.publish(["q"], [b"a"])
    for _ in range(2):
        take(world, channel, Outcome.RELEASED, BackReason.NACKED)
    world.tick()
    assert [(reason, ranges) for _, reason, ranges in back(world)] == [(BackReason.NACKED, [(0, 1)])] * 2


def test_what_was_acknowledged_right_before_its_queue_was_deleted_is_told(world: World, channel: LogActor) -> None:
    world.publish(["q"], [b"a", b"b"])
    take(world, channel, Outcome.ACKNOWLEDGED)
    world.kind.delete(world.queues["q"], world.now)
    kinds = [kind for _, kind, *_ in logged(world, Kind.CLASSIC_DONE, Kind.CLASSIC_QUEUE_DELETED)]
    assert kinds == [Kind.CLASSIC_DONE, Kind.CLASSIC_QUEUE_DELETED]
    assert [(reason, ranges) for _, reason, ranges in done(world)] == [(DoneReason.ACKNOWLEDGED, [(0, 1)])]


def test_what_came_back_before_a_purge_is_told_before_it(world: World, channel: LogActor) -> None:
    world.publish(["q"], [b"a"])
    take(world, channel, Outcome.RELEASED, BackReason.NACKED)
    world.queues["q"].purge(world.now)
    world.tick()
    kinds = [kind for _, kind, *_ in logged(world, Kind.CLASSIC_DONE, Kind.CLASSIC_BACK)]
    assert kinds == [Kind.CLASSIC_BACK, Kind.CLASSIC_DONE]


def test_each_file_names_those_it_speaks_of_before_it_does(channel: LogActor) -> None:
    world = World([record_of("q", 9)], log_file_bytes_max=500)
    for number in range(1, 9):
        world.publish(["q"], [b"x" * 100], publisher=channel, number=number)
        world.log.commit_now()
    world.publish(["q"], [b"x"], publisher=LogActor(ActorKind.NODE, address="n2"), number=0)
    records = list(logged(world, Kind.CLASSIC_PUBLISH, Kind.ACTOR, Kind.NAME))
    files = sorted({file for file, *_ in records})
    assert len(files) > 2
    for file in files:
        known: set[tuple[Kind, int]] = set()
        for _, kind, index, payload in (record for record in records if record[0] == file):
            if kind is Kind.CLASSIC_PUBLISH:
                published = decode_published(payload)
                assert (Kind.NAME, published.queues[0][0]) in known
                assert (Kind.ACTOR, published.origin.parts[0].actor) in known
            else:
                assert (kind, index) not in known, "once in a file"
                known.add((kind, index))
    rows = {index: decode_actor(payload) for _, kind, index, payload in records if kind is Kind.ACTOR}
    assert rows == {
        1: ActorRow(ActorKind.CONNECTION, user="ann", vhost="/", address="10.0.0.7:50112", product="pika"),
        2: ActorRow(ActorKind.CHANNEL, parent=1),
        3: ActorRow(ActorKind.NODE, address="n2"),
    }
    names = {index: decode_name(payload) for _, kind, index, payload in records if kind is Kind.NAME}
    assert names == {9: NameRow("classic", "/", "q")}


def test_the_file_that_says_of_a_queue_that_it_is_deleted_says_which_one_that_was() -> None:
    world = World([record_of("q", 9), record_of("passing", 10)], log_file_bytes_max=500)
    world.publish(["q"], [b"x"])
    for _ in range(8):
        world.publish(["passing"], [b"x" * 100])
        world.log.commit_now()
    world.kind.delete(world.queues["q"], world.now)
    *_, (last, _, _, payload) = logged(world, Kind.CLASSIC_QUEUE_DELETED)
    named = {(file, index): decode_name(payload) for file, _, index, payload in logged(world, Kind.NAME)}
    assert last > 1 and decode_deleted(payload) == 9
    assert named[last, 9] == NameRow("classic", "/", "q")


def test_a_confirmed_message_is_in_the_log_though_a_consumer_was_given_it_at_once(
    world: World, channel: LogActor
) -> None:
    """The log is what proves that nothing was lost which was confirmed."""
    _, sink = consume(world, channel, no_ack=True)
    world.publish(["q"], [b"a"], confirm=0, publisher=channel, number=1)
    world.turn()
    assert [body for body, _ in sink.got] == [b"a"]
    assert origins(world) == [PublishOrigin((Part(channel.number, 1, 1),), waited_for=True)]


def test_an_actor_that_goes_is_said_to_be_gone_if_it_was_ever_named(world: World, channel: LogActor) -> None:
    LogActor(ActorKind.CHANNEL).gone(GoneReason.CLOSED)
    world.publish(["q"], [b"x"], publisher=channel, number=1)
    channel.gone(GoneReason.TIMED_OUT)
    channel.gone(GoneReason.CLOSED)
    gone = [(index, decode_gone(payload)) for _, _, index, payload in logged(world, Kind.ACTOR_GONE)]
    assert gone == [(channel.number, GoneReason.TIMED_OUT)], "once"


def test_a_level_of_off_says_what_it_said_before(channel: LogActor) -> None:
    world = World([record_of("q", 9)], log_file_bytes_max=WIDE)
    world.kind.attach(world.host, world.log, history=HistoryLevel.OFF)
    world.publish(["q"], [b"a", b"b", b"c"], confirm=0, publisher=channel, number=1)
    consumer, sink = consume(world, channel, prefetch=1)
    consumer.settled(1)
    world.queues["q"].settle(sink.pieces[0], Outcome.ACKNOWLEDGED, world.now)
    world.queues["q"].pump(world.now)
    world.queues["q"].cancel(consumer, world.now)
    world.queues["q"].settle(sink.pieces[1], Outcome.REQUEUED, world.now)
    world.tick()
    world.queues["q"].purge(world.now)
    assert origins(world) == [PublishOrigin()]
    settled = [decode_settled(payload) for *_, payload in logged(world, Kind.CLASSIC_SETTLE, Kind.CLASSIC_PURGE)]
    assert settled == [(9, [(0, 1)]), (9, [(1, 3)])]
    assert not list(logged(world, Kind.CLASSIC_DONE, Kind.CLASSIC_BACK, Kind.ACTOR))
    names = [decode_name(payload).name for *_, payload in logged(world, Kind.NAME)]
    assert names == ["q"], "what queues are called is said at each level"


def test_what_was_done_with_under_any_level_stays_done_with(channel: LogActor) -> None:
    world = World([record_of("q", 9)], log_file_bytes_max=WIDE)
    world.publish(["q"], [b"a", b"b", b"c", b"d"])
    consumer, sink = consume(world, channel, prefetch=2)
    world.queues["q"].settle(sink.pieces[0], Outcome.ACKNOWLEDGED, world.now)
    world.queues["q"].cancel(consumer, world.now)
    world.tick()
    world.log.commit_now()
    world.disk.crash(Random(1))
    world.start()
    assert [body for body, _ in world.waiting("q")] == [b"c", b"d"]


class CountedAlone:
    """Fulfils UnloggedCounter."""

    def __init__(self) -> None:
        self.told: list[tuple[Unlogged, LogActor | None, int]] = []

    def count(
        self, what: int, actor: LogActor | None, exchange: str, routing_key: str, messages: int, body_bytes: int
    ) -> None:
        assert (exchange, routing_key) == ("x", "key")
        self.told.append((Unlogged(what), actor, messages))


def test_what_is_in_a_queue_and_in_no_log_is_counted_once_for_each_queue(channel: LogActor) -> None:
    world = World(
        [record_of("q", 9), record_of("copies", 10), record_of("memory", 11, durable=False)], log_file_bytes_max=WIDE
    )
    counted = CountedAlone()
    world.kind.attach(world.host, world.log, history=HistoryLevel.FULL, unlogged=counted)
    world.publish(["q", "copies"], [b"a"], publisher=channel, number=1)
    assert counted.told == []
    world.publish(["q", "copies"], [b"a", b"b"], persistent=False, publisher=channel, number=2)
    world.publish(["q", "memory"], [b"c"], publisher=channel, number=4)
    assert counted.told == [(Unlogged.TRANSIENT, channel, count) for count in (2, 2, 1)]


def test_what_a_consumer_takes_before_it_is_queued_and_what_a_queue_refuses_is_counted(channel: LogActor) -> None:
    limited = EffectiveArguments(max_length=1, overflow="reject-publish")
    world = World([record_of("q", 9)], log_file_bytes_max=WIDE, effective=limited)
    counted = CountedAlone()
    world.kind.attach(world.host, world.log, history=HistoryLevel.FULL, unlogged=counted)
    world.publish(["q"], [b"a"], confirm=0, publisher=channel, number=1)
    world.publish(["q"], [b"b"], confirm=1, publisher=channel, number=2)
    assert world.get("q", no_ack=True) is not None
    consume(world, channel, no_ack=True)
    world.publish(["q"], [b"c"], publisher=channel, number=3)
    assert counted.told == [(Unlogged.REFUSED, channel, 1), (Unlogged.HANDED_AT_ONCE, channel, 1)]
