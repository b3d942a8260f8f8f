"""A publisher of the stream protocol. It publishes items with ids that ascend, single messages and sub-batches.

One with a name is a program that reads what it publishes from somewhere, in order: what has an id is the same however often it
is published. When its connection is lost it publishes what was not confirmed again, before anything new and perhaps in other
frames; or another program takes its place, which knows nothing of that and asks for the last id that is stored. One without a
name publishes again as something new.

A body is `lane:number:filter value:` and then as many bytes as it is to have. The lane is the name, or the connection of one
that has none; the number is the id and the place within it.
"""

from __future__ import annotations

import gzip
from random import Random
from struct import Struct
from typing import TYPE_CHECKING, Any

from broker.errors import BrokerError
from broker.pending import Pending
from broker.stream_clients.stream_client import StreamClient
from stream.chunks.chunk import SubBatch, message_item, sub_batch_item
from tests.sim.brokers import invariants
from tests.sim.brokers.published_name import Item, PublishedName
from tests.sim.brokers.stream_book import NAMED, PLACES
from tests.sim.brokers.stream_connection import NUMBER, StreamConnection
from tests.sim.plan import Ask
from wire.stream.publish_frame import StreamRun, pack_ids

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld

AGAIN_S = (0.05, 0.8)
RUN_ITEMS_MAX = 5
SIZES = (20, 40, 200)
VALUES = ("f1", "f2", "f3", "")  # to filter by; empty: none
GZIP = 1

_SECTION = Struct(">BBBBI")  # a data section of AMQP 1.0, up to its bytes


class StreamWriter:
    """See the module. Fulfils StreamOwner."""

    def __init__(self, world: BrokerWorld, number: int, stream: str) -> None:
        self.world = world
        self.name = f"w{number}"
        self.stream = stream
        self.reference = f"{NAMED.decode()}{number}" if number % 3 else ""
        self.answered = 0
        self.unknown = 0
        self._random = Random(f"{world.plan.seed} {self.name}")
        self._connection: StreamConnection | None = None
        self._connections = 0
        self._is_ready = False
        self._published = PublishedName(self.reference)
        self._last_id = 0
        self._waiting: list[Item] = []
        self._open: dict[int, Item] = {}  # by id: published and not answered

    # The plan

    def ask(self, ask: Ask) -> None:
        for _ in range(self._random.choice((1, 2, 5, 12))):
            self._waiting.append(self._new_item())
        self._go_on()

    def _new_item(self) -> Item:
        random = self._random
        self._last_id += random.choice((1, 1, 1, 2, 7))
        count = random.choice((2, 3, 4)) if random.random() < 0.15 else 1
        value = random.choice(VALUES) if count == 1 else ""
        item = Item(self._last_id, (), value, random.choice((0, GZIP)) if count > 1 else 0)
        item = item._replace(bodies=tuple([self._body(item, place) for place in range(count)]))
        self._published.items.append(item)
        return item

    def _body(self, item: Item, place: int) -> bytes:
        lane = self.reference or f"{self.name}/{self._connections}"
        body = f"{lane}:{item.id * PLACES + place}:{item.value}:".encode()
        return body + b"." * max(0, self._random.choice(SIZES) - len(body))

    @property
    def waits_for(self) -> str:
        """What nobody has answered, in words."""
        if self._open:
            return f"{self.name}: {len(self._open)} items"
        return f"{self.name}: a connection" if self._waiting else ""

    # Connections

    def _go_on(self) -> None:
        if self._connection is None:
            site = self.world.a_node(self._random)
            if site is None:
                self.world.loop.call_later(0.3, self._go_on)
                return
            self._connections += 1
            self._is_ready = False
            self._renew_unnamed()
            self._connection = StreamConnection(self.world, self, site, f"{self.name}/{self._connections}")
        elif self._is_ready:
            self._send(self._connection)

    def _renew_unnamed(self) -> None:
        """What has no name is another message on another connection."""
        if not self.reference:
            self._last_id, waiting = 0, len(self._waiting)
            self._waiting = [self._new_item() for _ in range(waiting)]

    def opened(self, connection: StreamConnection) -> None:
        def declare(client: StreamClient, now: int) -> Pending[Any]:
            return client.declare_publisher(NUMBER, self.reference, self.stream, now)

        connection.ask(declare, lambda _: self._declared(connection), lambda error: connection.lose(error.text))

    def _declared(self, connection: StreamConnection) -> None:
        if self.reference and self._random.random() < 0.4:
            self._take_over(connection)
        else:
            self._begin(connection)

    def _begin(self, connection: StreamConnection) -> None:
        self._is_ready = True
        self._send(connection)

    def _take_over(self, connection: StreamConnection) -> None:
        """As another program, with the name and what is to be published."""
        book, published = self.world.streams.books[self.stream], self._published
        who = f"{self.reference} on node {connection.site.number}"

        def ask_last_id(client: StreamClient, now: int) -> Pending[int]:
            last_id_then = book.last_ids.get(self.reference, 0)

            def answered(told: int) -> int:
                published.told(book, who, last_id_then, told)
                return told

            return client.publisher_sequence(self.reference, self.stream, now).map(answered)

        def go_on_behind(last_id: int) -> None:
            self.world.watch.count("publisher goes on behind its last id")
            self._waiting = published.behind(last_id)
            self._begin(connection)

        connection.ask(ask_last_id, go_on_behind, lambda error: connection.lose(error.text))

    # Publishing

    def _send(self, connection: StreamConnection) -> None:
        while self._waiting:
            items = [self._waiting.pop(0)]
            most = self._random.randint(1, RUN_ITEMS_MAX)
            while self._waiting and len(items) < most and len(items[0].bodies) == len(self._waiting[0].bodies) == 1:
                items.append(self._waiting.pop(0))
            self._open |= {item.id: item for item in items}
            run = run_of(items)
            connection.say(self._publish, connection, run)

    @staticmethod
    def _publish(connection: StreamConnection, run: StreamRun) -> None:
        """As long as its node has the publisher."""
        if NUMBER in connection.client.publishers:
            connection.client.publish(NUMBER, run, connection.now)

    # What it is told

    def confirmed(self, connection: StreamConnection, ids: tuple[int, ...]) -> None:
        book = self.world.streams.books[self.stream]
        for item in [self._open.pop(one) for one in ids]:
            for body in item.bodies:
                self.world.watch.count("message confirmed")
                invariants.confirmed_is_stored(book.about, body, body in book.bodies)
                book.told_of(book.bodies[body])
            self.answered += 1
            self.world.served()

    def refused(self, connection: StreamConnection, ids: tuple[int, ...], error: BrokerError) -> None:
        """It goes on, as another program would."""
        book = self.world.streams.books[self.stream]
        self.world.watch.count("stream publish refused")
        self._published.was_refused = True
        for item in [self._open.pop(one) for one in ids]:
            if not self.reference:
                for body in item.bodies:
                    invariants.refused_is_not_stored(book.about, body, body in book.bodies)
            self.answered += 1

    def moved(self, connection: StreamConnection) -> None:
        connection.lose("its stream moved")

    def given(self, connection: StreamConnection, end: int) -> None:
        raise AssertionError(f"{self.name} reads nothing, and is given a chunk that ends at {end}")

    def activated(self, connection: StreamConnection, active: bool) -> None:
        raise AssertionError(f"{self.name} belongs to no group")

    def lost(self, connection: StreamConnection, why: str) -> None:
        assert connection is self._connection, f"{connection.name} is not what {self.name} uses"
        self._connection = None
        self._is_ready = False
        unanswered = list(self._open.values())
        self._open.clear()
        self.unknown += len(unanswered)
        self._waiting = unanswered + self._waiting
        if self._waiting:
            self.world.loop.call_later(self._random.uniform(*AGAIN_S), self._reconnect)

    def _reconnect(self) -> None:
        if self._connection is None:
            self._go_on()

    def lose_connection(self) -> bool:
        """A fault."""
        if self._connection is None or not self._connection.is_open:
            return False
        self._connection.lose("its network")
        return True


def run_of(items: list[Item]) -> StreamRun:
    """As the protocol's frames have them: several messages, or one sub-batch."""
    ids = pack_ids([item.id for item in items])
    bodies = [body for item in items for body in item.bodies]
    data = b"".join([message_item(_message(body)) for body in bodies])
    if len(items[0].bodies) > 1:
        compression = items[0].compression
        packed = gzip.compress(data, mtime=0) if compression else data
        data = sub_batch_item(SubBatch(compression, len(bodies), len(data), packed))
    values = frozenset([item.value.encode() for item in items if item.value])
    has_unfiltered = any(not item.value for item in items)
    return StreamRun(len(items), len(bodies), ids, data, values, has_unfiltered)


def _message(body: bytes) -> bytes:
    return _SECTION.pack(0x00, 0x53, 0x75, 0xB0, len(body)) + body
