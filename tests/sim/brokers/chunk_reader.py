"""A reader of whole chunks, for credit. It wants all, or messages with some filter values; it stores how far it has read under
a name of its own and goes on there; or it belongs to a group, of which one reads and goes on where the one before has stored.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from broker.errors import BrokerError, NotFound
from broker.pending import Pending
from broker.queues.stream_contract import MessageFilter
from broker.stream_clients.client_terms import ReadOptions
from broker.stream_clients.stream_client import StreamClient
from tests.sim.brokers.chunk_reading import ChunkReading
from tests.sim.brokers.plan import SUPER_STREAM
from tests.sim.brokers.site import BrokerSite
from tests.sim.brokers.stream_connection import NUMBER, StreamConnection
from tests.sim.brokers.stream_reading import Beginning
from tests.sim.plan import Ask
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

PLAIN, FILTERS, STORES, GROUP = "plain", "filters", "stores", "group"
ROLES = (STORES, GROUP, FILTERS, GROUP, PLAIN)  # of readers, by their number
GROUP_NAME = "group"
THINKS_S = (0.0, 0.001, 0.01, 0.1, 0.5)
CREDITS = (1, 2, 10)
BEGINNINGS = ("first", "last", "next", "offset", "time")
AGAIN_S = (0.05, 0.8)
GOES_ON = 0.8  # how often who comes back wants what follows

_KINDS = {
    "first": OffsetKind.FIRST,
    "last": OffsetKind.LAST,
    "next": OffsetKind.NEXT,
    "offset": OffsetKind.OFFSET,
    "time": OffsetKind.TIMESTAMP,
}


def spec_of(beginning: Beginning) -> OffsetSpec:
    value = beginning.number * 1000 if beginning.kind == "time" else beginning.number
    return OffsetSpec(_KINDS[beginning.kind], value)


class ChunkReader:
    """See the module. Fulfils StreamOwner. It has one subscription at a time, on a connection of its own."""

    def __init__(self, world: BrokerWorld, number: int, stream: str, role: str) -> None:
        self.world = world
        self.name = f"s{number}"
        self.stream = stream
        self.role = role
        self.is_stalled = False
        self.is_in_a_hurry = False  # in the end: it thinks about nothing any more
        self.reading: ChunkReading | None = None
        self._random = Random(f"{world.plan.seed} {self.name}")
        self._options = self._drawn_options()
        self._connection: StreamConnection | None = None
        self._next: int | None = None  # offset that it waits for
        self._waits = ""
        self._is_wanted = False
        self._is_gone = False

    def _drawn_options(self) -> ReadOptions:
        if self.role == GROUP:
            return ReadOptions(single_active=True, name=GROUP_NAME, super_stream=SUPER_STREAM)
        if self.role == FILTERS:
            values = tuple(self._random.sample(("f1", "f2", "f3"), self._random.choice((1, 2))))
            return ReadOptions(values, self._random.random() < 0.5)
        return ReadOptions()

    @property
    def _stored_as(self) -> str:
        """The name under which it stores; empty: it does not."""
        return {STORES: self.name, GROUP: GROUP_NAME}.get(self.role, "")

    # The plan

    def ask(self, ask: Ask) -> None:
        if ask.kind == "read-chunks" and self._connection is None and not self._is_gone:
            self._is_wanted = True
            self._read()
        elif ask.kind == "unread-chunks" and self._connection is not None:
            self._is_wanted = False
            self._leave(self._connection)

    def _leave(self, connection: StreamConnection) -> None:
        """In order, or not."""
        if self.reading is not None and connection.is_open and self._random.random() < 0.5:

            def unsubscribe() -> None:
                if connection.reading is not None:
                    connection.reading.is_over = True
                if connection.consumer is not None:
                    connection.consumer.left()
                if NUMBER in connection.client.subscriptions:
                    connection.client.unsubscribe(NUMBER, connection.now)

            connection.say(unsubscribe)
            self.world.loop.call_later(0.01, connection.lose, "its client goes")
        else:
            connection.lose("its client goes")

    def go(self) -> None:
        """For ever."""
        self._is_gone = True
        if self._connection is not None:
            self._connection.lose("its client goes")

    @property
    def waits_for(self) -> str:
        return f"{self.name}: {self._waits}" if self._waits else ""

    @property
    def is_idle(self) -> bool:
        """Whether it has been given all that there is for it, or reads nothing."""
        return self.reading is None or self.reading.is_over or self.reading.is_at_end

    def _drawn_beginning(self) -> Beginning:
        random, kind, streams = self._random, self._random.choice(BEGINNINGS), self.world.streams
        if self._next is not None and random.random() < GOES_ON:
            self.world.watch.count("chunk reader goes on at its offset")
            return Beginning("offset", self._next)
        if kind == "offset":
            return Beginning(kind, random.randint(0, streams.end_of(self.stream) + 5))
        if kind == "time":
            return Beginning(kind, streams.a_time(self.stream, random))
        return Beginning(kind)

    # Reading

    def _node(self) -> BrokerSite | None:
        return self.world.a_node(self._random)

    def _read(self) -> None:
        if self._connection is not None or self._is_gone or not self._is_wanted:
            return
        site = self._node()
        if site is None:
            self.world.loop.call_later(0.3, self._read)
            return
        self._waits = f"reading {self.stream}"
        self._connection = StreamConnection(self.world, self, site, self.world.next_name(self.name))

    def opened(self, connection: StreamConnection) -> None:
        if self.role == STORES:
            self._ask_stored(connection, lambda beginning: self._subscribe(connection, beginning))
        else:
            self._subscribe(connection, self._drawn_beginning())

    def _subscribe(self, connection: StreamConnection, beginning: Beginning) -> None:
        credit = self._random.choice(CREDITS)

        def subscribe(client: StreamClient, now: int) -> Pending[Any]:
            reading = self._new_reading(connection, beginning)
            if self.role == GROUP:
                self.world.stream_clients.group_of(self.stream, GROUP_NAME).join(connection)
            answer = client.subscribe(NUMBER, self.stream, spec_of(beginning), self._options, now)

            def subscribed(_: None) -> ChunkReading:
                reading.answered()
                reading.credit += credit
                connection.reading = None if self.role == GROUP else reading  # that is another one, once it is active
                client.start(NUMBER, credit, connection.now)
                return reading

            return answer.map(subscribed)

        connection.ask(subscribe, self._subscribed, self._refused)

    def _new_reading(self, connection: StreamConnection, beginning: Beginning) -> ChunkReading:
        book, process = self.world.streams.books[self.stream], connection.process
        assert process is not None, f"{connection.name} is connected to no node"
        values, match_unfiltered = self._options.filter_values, self._options.match_unfiltered
        found = process.broker.find_queue("/", self.stream)
        reading = ChunkReading(
            book,
            f"{connection.name} on node {process.number}",
            beginning,
            book.told,
            wanted=MessageFilter(values, match_unfiltered) if values else None,
            is_without_member=found is not None and getattr(found.queue, "member", None) is None,
        )
        self.world.streams.follow(connection.name, reading)
        return reading

    def _subscribed(self, reading: ChunkReading) -> None:
        self._waits = ""
        if self.role != GROUP:
            self.reading = reading

    def _refused(self, error: BrokerError) -> None:
        self.world.watch.count(f"chunk reader told: {type(error).__name__}")
        self._is_wanted = not isinstance(error, NotFound)
        if self._connection is not None:
            self._connection.lose(error.text)

    # Names

    def _ask_stored(self, connection: StreamConnection, then: Any) -> None:
        """Where it goes on."""
        name, who = self.world.stream_clients.stored(self.stream, self._stored_as), connection.name

        def query(client: StreamClient, now: int) -> Pending[Any]:
            asked = name.asked()

            def answered(told: int | None) -> int | None:
                name.answered(who, asked, told)
                return told

            return client.query_offset(self._stored_as, self.stream, now).map(answered)

        def told(offset: int | None) -> None:
            if offset is None:
                then(self._drawn_beginning())
            else:
                self.world.watch.count("chunk reader goes on where it has stored")
                then(Beginning("offset", offset + 1))

        connection.ask(query, told, self._refused)

    def _store(self, connection: StreamConnection, offset: int) -> None:
        name = self.world.stream_clients.stored(self.stream, self._stored_as)

        def store() -> None:
            name.store(offset, connection.name)
            connection.client.store_offset(self._stored_as, self.stream, offset, connection.now)

        connection.say(store)

    # Groups

    def activated(self, connection: StreamConnection, active: bool) -> None:
        if connection is not self._connection:
            return
        if active:
            self._ask_stored(connection, lambda beginning: connection.say(self._begin_active, connection, beginning))
        else:
            connection.say(self._stop_active, connection)

    def _begin_active(self, connection: StreamConnection, beginning: Beginning) -> None:
        if NUMBER not in connection.client.subscriptions:
            return  # the stream moved meanwhile
        reading = self.reading = self._new_reading(connection, beginning)
        reading.is_answered_late = True
        reading.credit = connection.client.subscriptions[NUMBER].granted
        connection.reading = reading
        connection.client.consumer_updated(NUMBER, True, spec_of(beginning), connection.now)

    def _stop_active(self, connection: StreamConnection) -> None:
        if NUMBER not in connection.client.subscriptions:
            return
        if self.reading is not None:
            self.reading.is_over = True
        if connection.consumer is not None:
            connection.consumer.stopped()
        connection.client.consumer_updated(NUMBER, False, OffsetSpec(OffsetKind.NONE), connection.now)

    # What it is told

    def given(self, connection: StreamConnection, end: int) -> None:
        if connection is not self._connection or self.reading is None:
            return
        self.reading.book.told_of(end - 1)
        self._next = end
        self.world.served()
        thinks_s = 0.0 if self.is_in_a_hurry else self._random.choice(THINKS_S)
        self.world.loop.call_later(thinks_s, self._done, connection, end)

    def _done(self, connection: StreamConnection, end: int) -> None:
        """With a chunk: another one may come."""
        if connection is not self._connection:
            return
        if self.is_stalled:
            self.world.loop.call_later(0.5, self._done, connection, end)
            return
        if self._stored_as:
            self._store(connection, end - 1)

        def give() -> None:
            if NUMBER in connection.client.subscriptions:
                if connection.reading is not None:
                    connection.reading.credit += 1
                connection.client.add_credit(NUMBER, 1, connection.now)

        connection.say(give)

    def moved(self, connection: StreamConnection) -> None:
        connection.lose("its stream moved")

    def confirmed(self, connection: StreamConnection, ids: tuple[int, ...]) -> None:
        raise AssertionError(f"{self.name} publishes nothing")

    def refused(self, connection: StreamConnection, ids: tuple[int, ...], error: BrokerError) -> None:
        raise AssertionError(f"{self.name} publishes nothing")

    def lost(self, connection: StreamConnection, why: str) -> None:
        assert connection is self._connection, f"{connection.name} is not what {self.name} uses"
        if connection.reading is not None:
            connection.reading.is_over = True
        self._connection = self.reading = None
        self._waits = ""
        if self._is_wanted and not self._is_gone:
            self.world.loop.call_later(self._random.uniform(*AGAIN_S), self._read)

    # Faults

    def stall(self, for_s: float) -> bool:
        """It reads nothing and gives no credit for a while."""
        connection = self._connection
        if connection is None or not connection.is_open or self.is_stalled:
            return False
        self.is_stalled = True
        connection.is_writable = False
        self.world.loop.call_later(for_s, self._goes_on, connection)
        return True

    def _goes_on(self, connection: StreamConnection) -> None:
        self.is_stalled = False
        connection.is_writable = True
        connection.say(lambda: connection.client.resume(connection.now))

    def lose_connection(self) -> bool:
        if self._connection is None or not self._connection.is_open:
            return False
        self._connection.lose("its network")
        return True


class LastChunkReader(ChunkReader):
    """In the end: reads all chunks that a stream has, on one node."""

    def __init__(self, world: BrokerWorld, number: int, stream: str, site: BrokerSite) -> None:
        super().__init__(world, number, stream, PLAIN)
        self.site = site
        self.is_in_a_hurry = self._is_wanted = True
        self._read()

    def _drawn_beginning(self) -> Beginning:
        return Beginning("offset", self._next) if self._next is not None else Beginning("first")

    @property
    def is_done(self) -> bool:
        return self.reading is not None and self.reading.is_at_end

    def _node(self) -> BrokerSite | None:
        return self.site if self.site.serves_clients else None
