"""Each log file names what its records speak of by number, whoever else has that number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from broker.actors import ActorKind, LogActor
from storage.disk import Buffer
from storage.history.file_names import NO_WRITER, FileNames
from storage.history.name_records import ActorRow, NameRow, decode_actor, decode_gone, decode_name
from storage.record import Kind
from storage.wal.log_core import Location


@dataclass
class Queue:
    id: int
    kind: str
    vhost: str
    name: str


class Log:
    """What was appended, in a file that a test changes."""

    def __init__(self) -> None:
        self.failed: str | None = None
        self.gathering_file = 1
        self.names: list[tuple[int, NameRow]] = []
        self.actors: list[tuple[int, ActorRow]] = []
        self.gone: list[tuple[int, int]] = []

    def append_lazy(self, kind: int, writer: int, index: int, parts: Sequence[Buffer]) -> Location:
        payload = b"".join(bytes(part) for part in parts)
        assert writer == NO_WRITER
        if kind == Kind.NAME:
            self.names.append((index, decode_name(payload)))
        elif kind == Kind.ACTOR:
            self.actors.append((index, decode_actor(payload)))
        else:
            assert kind == Kind.ACTOR_GONE
            self.gone.append((index, decode_gone(payload)))
        return Location(self.gathering_file, 0, 0)


FIRST = Queue(1, "classic", "/", "first")
ORDERS_GROUP = 1 << 32 | 2


def test_the_catalog_and_the_first_queue_have_one_number_and_each_its_name() -> None:
    """The first queue of a cluster had no name: the catalog's log had been named before, and has the same number."""
    log = Log()
    names = FileNames(log, 1)
    names.group(1, "catalog", "metadata")
    names.queue(FIRST)
    names.group(ORDERS_GROUP, "quorum", "//orders")
    assert log.names == [
        (1, NameRow("catalog", "", "metadata")),
        (1, NameRow("classic", "/", "first")),
        (ORDERS_GROUP, NameRow("quorum", "", "//orders")),
    ]


def test_a_name_is_said_once_in_each_file() -> None:
    log = Log()
    names = FileNames(log, 1)
    for file in (1, 1, 2):
        log.gathering_file = file
        names.queue(FIRST)
        names.group(9, "stream", "s")
    assert [number for number, _ in log.names] == [1, 9, 1, 9]


def test_an_actor_is_named_in_each_file_that_speaks_of_it_behind_those_it_belongs_to() -> None:
    log = Log()
    names = FileNames(log, 77)
    connection = LogActor(ActorKind.CONNECTION, None, "ann", "/", "10.0.0.7:1", "app", "pika")
    consumer = LogActor(
        ActorKind.CONSUMER, LogActor(ActorKind.CHANNEL, connection), tag="tag", queue="orders", prefetch=5, no_ack=True
    )
    other = LogActor(ActorKind.CHANNEL, connection)
    assert (names.number_of(consumer), names.number_of(other), names.number_of(consumer)) == (3, 4, 3)
    rows = [
        (1, ActorRow(ActorKind.CONNECTION, 77, 0, "ann", "/", "10.0.0.7:1", "app", "pika")),
        (2, ActorRow(ActorKind.CHANNEL, 77, 1)),
        (3, ActorRow(ActorKind.CONSUMER, 77, 2, tag="tag", queue="orders", prefetch=5, no_ack=True)),
        (4, ActorRow(ActorKind.CHANNEL, 77, 1)),
    ]
    assert log.actors == rows
    log.gathering_file = 2
    assert names.number_of(other) == 4
    assert log.actors[4:] == [rows[0], rows[3]], "the other channel is not spoken of there"


def test_that_an_actor_is_gone_is_said_in_a_file_that_names_it() -> None:
    log = Log()
    names = FileNames(log, 1)
    channel = LogActor(ActorKind.CHANNEL)
    number = names.number_of(channel)
    log.gathering_file = 2
    names.gone(channel, 3)
    assert (log.gone, [one for one, _ in log.actors]) == ([(number, 3)], [number, number])


def test_a_log_that_failed_is_told_of_nobody_and_numbers_go_on() -> None:
    log = Log()
    names = FileNames(log, 1)
    log.failed = "the disk"
    known, other = LogActor(ActorKind.CHANNEL), LogActor(ActorKind.CHANNEL)
    assert (names.number_of(known), names.number_of(other)) == (1, 2)
    names.gone(known, 1)
    names.queue(FIRST)
    names.group(9, "stream", "s")
    assert not (log.names or log.actors or log.gone)
