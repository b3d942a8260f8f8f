"""The streams of a world of brokers: their books, their readers, and what must hold in the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from random import Random
from typing import TYPE_CHECKING

from broker.catalog.carrying_out import CommandOutcome
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from broker.records import QueueRecord
from raft.core.errors import Damaged
from raft.store.member_store import MemberStore
from replicated.local_members import QUEUE_GROUPS
from stream.group.rules import rules_of
from tests.sim.brokers import invariants
from tests.sim.brokers.channel import Given
from tests.sim.brokers.invariants import About
from tests.sim.brokers.lives import label_of, name_of
from tests.sim.brokers.reader import LastReader, Reader
from tests.sim.brokers.stream_book import StreamBook
from tests.sim.brokers.stream_reading import Beginning, Reading

if TYPE_CHECKING:
    from tests.sim.brokers.process import BrokerProcess
    from tests.sim.brokers.world import BrokerWorld

FUTURE_S = 3  # a reader may ask for what is to come


class Streams:
    """Of one world."""

    def __init__(self, world: BrokerWorld) -> None:
        self.books: dict[str, StreamBook] = {}  # by label
        self.readers: list[Reader] = []
        self._world = world
        self._readings: dict[str, Reading] = {}  # by the consumer's tag
        self._last: list[LastReader] = []

    def begin(self, readers: int) -> None:
        self.readers += [Reader(self._world, number) for number in range(1, readers + 1)]

    # Books

    def new_book(self, record: QueueRecord) -> StreamBook:
        world, label = self._world, label_of(record)
        about = About(f"stream {label}", world.watch.checked)
        book = self.books[label] = StreamBook(label, about, world.is_committed, world.watch.count)
        book.is_read_before = partial(self._is_read_before, book)
        self._follow_rules(record, book)
        return book

    def declared(self, outcome: CommandOutcome) -> None:
        """The catalog's log says so: policies may be others."""
        if outcome.error is None:
            for label, book in self.books.items():
                record = self._world.lives.last(label)
                if record is not None:
                    self._follow_rules(record, book)

    def _follow_rules(self, record: QueueRecord, book: StreamBook) -> None:
        book.follow(rules_of(self._world.catalog.machine.catalog.effective(record)))

    def label_of_now(self, queue: str) -> str:
        """Of the life that goes on; empty: none does."""
        return next((label for label in self._living() if name_of(label) == queue), "")

    def _living(self) -> list[str]:
        return [label for label in self.books if self._world.lives.last(label) is not None]

    def end_of(self, queue: str) -> int:
        book = self.books.get(self.label_of_now(queue))
        return book.end if book is not None else 0

    def a_time(self, queue: str, random: Random) -> int:
        """When something was stored, in seconds since 1970, or a little later."""
        book = self.books.get(self.label_of_now(queue))
        if book is None or not book.chunks:
            return 0
        return random.choice(book.chunks).time_ms // 1000 + random.randint(0, FUTURE_S)

    def told_of(self, labels: Iterable[str], body: bytes) -> None:
        """A client knows that it is stored."""
        for label in labels:
            if label in self.books and body in self.books[label].bodies:
                self.books[label].told_of(self.books[label].bodies[body])

    # Readings

    def asks_for(self, process: BrokerProcess, queue: str, tag: str, beginning: Beginning) -> Reading | None:
        """A node is about to be asked. None: it knows no such stream."""
        found = process.broker.find_queue("/", queue)
        if found is None:
            return None
        book = self._book_of(found.queue.record)
        who = f"{tag} on node {process.number}"
        reading = self._readings[tag] = Reading(book, who, beginning, book.told)
        return reading

    def _book_of(self, record: QueueRecord) -> StreamBook:
        """A node knows of a stream before its members commit anything: it has its book from then on."""
        self._world.watch.book(QUEUE_GROUPS + record.id)
        return self.books[label_of(record)]

    def follow(self, who: str, reading: Reading) -> None:
        self._readings[who] = reading

    def answered(self, reading: Reading | None) -> Reading:
        assert reading is not None, "a stream is read that no log knows"
        reading.answered()
        return reading

    def look_at_deliveries(self, consumer: Consumer, piece: Slice, found: list[Given]) -> None:
        reading = self._readings[consumer.tag]
        about = reading.book.about
        label = label_of(piece.queue.record)
        for given in found:
            assert given.offset is not None, f"{consumer.tag} is given a message of {label} without an offset"
            reading.gives(given.offset, given.body)
        invariants.prefetch_is_kept(about, consumer.tag, consumer.outstanding, consumer.prefetch)

    def _is_read_before(self, book: StreamBook, offset: int) -> bool:
        return any(
            one.book is book and not one.is_over and one.next is not None and one.next < offset
            for one in self._readings.values()
        )

    # In the end

    def begin_to_end(self) -> None:
        """Everywhere all is read once more."""
        for reader in self.readers:
            reader.is_in_a_hurry = True
        number = len(self.readers)
        for label in self._living():
            for site in self._world.present():
                number += 1
                last = LastReader(self._world, number, site)
                last.is_in_a_hurry = True
                self._last.append(last)
                last.begin(name_of(label))

    def what_is_left(self, now_ms: int) -> str:
        """What has not come to its end yet."""
        return next(iter(self._left(now_ms)), "")

    def _left(self, now_ms: int) -> Iterator[str]:
        yield from [f"{one.name} on node {one.site.number}" for one in self._last if not one.is_done]
        yield from [one.name for one in self.readers if not one.is_idle]
        yield from [f"retention of {one}" for one in self._living() if self.books[one].is_too_much(now_ms)]

    def judge(self, now_ms: int) -> None:
        for label in self._living():
            about = self.books[label].about
            invariants.retention_is_kept_to(about, self.books[label].is_too_much(now_ms))
            self._judge_members(label)
        for reader in [*self._last, *self.readers]:
            reading = reader.reading
            if reading is not None:
                invariants.readers_reach_the_end(reading.book.about, reading.who, reading.next, reading.book.end)
        left = [reader.name for reader in self._last if not reader.is_done]
        assert not left, f"{left} could not begin to read"
        for reader in [*self._last, *self.readers]:
            reader.go()

    def _judge_members(self, label: str) -> None:
        """Each has every byte of what is in the stream."""
        record, book = self._world.lives.last(label), self.books[label]
        assert record is not None, f"{label} is deleted"
        for site in self._world.present():
            store = site.process.store.stores.get(QUEUE_GROUPS + record.id) if site.process is not None else None
            if store is None:
                continue
            for chunk in book.kept:
                found = self._read(store, chunk.index)
                if found is None and self._world.is_frail(site.number):
                    self._world.watch.count("rot of a stream found by the judge")
                else:
                    invariants.members_have_the_same_bytes(book.about, site.number, chunk.index, found, chunk.data)

    @staticmethod
    def _read(store: MemberStore, index: int) -> bytes | None:
        """What the member's files give. None: they give nothing."""
        try:
            return bytes(store.read_entry(index))
        except Damaged:
            return None
