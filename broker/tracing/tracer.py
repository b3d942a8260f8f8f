"""Copies of the messages of traced vhosts, published to `amq.rabbitmq.trace`.

Tracing never slows clients down: what passes is noted with its bytes as they are, and becomes messages in slices
(broker/background_work.py), in the order in which it passed. What comes while too much waits is dropped and counted, and so is
what does not fit a message. Nothing is noted while nothing is bound to the exchange.

Messages of the exchange itself are not traced, nor is what clients of the stream protocol publish and read.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol

from broker.background_work import Work
from broker.catalog.catalog import Catalog
from broker.client_connection import Connection
from broker.errors import BrokerError
from broker.messages.message import LOOK_HEADERS, PROPERTIES_BYTES_MAX, Run
from broker.queues.open_queue import OpenQueue
from broker.queues.queue_type import Slice
from broker.routing.asked import Asked
from broker.routing.route import route
from broker.routing.targets import Target, grouped_by_kind
from broker.tracing.trace_message import (
    DELIVERED,
    PUBLISHED,
    TRACE_EXCHANGE,
    TracedClient,
    of_delivered,
    of_published,
    trace_key,
    trace_properties,
)
from broker.turns import Turns
from native.content import body_bytes, encode, one, skip
from wire.amqp.tables import TableError

WAITING_MESSAGES_MAX = 20_000
WAITING_BYTES_MAX = 32 << 20
STEP_US = 500  # as far as it can be told before: what a copy costs by its properties, and by its queues
MESSAGE_US = 40
PROPERTIES_BYTES_PER_US = 12
QUEUE_US = 10
QUEUES_PER_STEP = STEP_US // QUEUE_US


class TracedBroker(Protocol):
    """What is needed of the broker."""

    node: str
    catalog: Catalog
    turns: Turns
    work: Work

    def find_queue(self, vhost: str, name: str) -> OpenQueue | None: ...

    def asks(self, vhost: str, props: bytes | None) -> Asked: ...

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]: ...


@dataclass(slots=True, frozen=True)
class Passed:
    """Messages that were published or delivered together."""

    client: TracedClient
    key: str  # of the traced messages
    exchange: str
    keys: Sequence[str]
    content: bytes
    count: int
    event: Mapping[str, bytes]


class Tracer:
    """See the module. Of one node."""

    def __init__(self, broker: TracedBroker) -> None:
        self.traced = 0  # messages that were given to the exchange
        self.dropped = 0  # messages that should have been
        self._broker = broker
        self._waiting: deque[Passed] = deque()
        self._waiting_messages = 0
        self._waiting_bytes = 0

    def published(self, connection: Connection, channel: int, run: Run, target: Target) -> None:
        if not self._is_wanted(connection.vhost, run.exchange):
            return
        queues = [queue.record.name for _, some in target.groups for queue in some]
        client = self._client(connection, channel)
        key = trace_key(PUBLISHED, run.exchange)
        self._add(Passed(client, key, run.exchange, target.keys, run.content, run.count, of_published(queues)))

    def delivered(self, connection: Connection, channel: int, piece: Slice, content: bytes) -> None:
        """Also messages that were got."""
        if not self._is_wanted(connection.vhost, piece.exchange):
            return
        part = content[piece.position : skip(content, piece.position, piece.count)]
        client = self._client(connection, channel)
        key = trace_key(DELIVERED, piece.queue.record.name)
        event = of_delivered(piece.redelivered)
        self._add(Passed(client, key, piece.exchange, (piece.routing_key,), part, piece.count, event))

    def _is_wanted(self, vhost: str, exchange: str) -> bool:
        catalog = self._broker.catalog
        if vhost not in catalog.traced_vhosts or exchange == TRACE_EXCHANGE:
            return False
        return catalog.namespace(vhost).exchanges[TRACE_EXCHANGE].bindings.count > 0

    def _client(self, connection: Connection, channel: int) -> TracedClient:
        return TracedClient(self._broker.node, connection.vhost, connection.name, channel, connection.user)

    # what waits

    def _add(self, passed: Passed) -> None:
        if self._waiting_messages >= WAITING_MESSAGES_MAX or self._waiting_bytes >= WAITING_BYTES_MAX:
            self.dropped += passed.count
            return
        self._waiting.append(passed)
        self._waiting_messages += passed.count
        self._waiting_bytes += len(passed.content)
        if len(self._waiting) == 1:  # later: a queue that is delivering now may be one of those that get the copy
            self._broker.call_after(0, lambda now: self._broker.work.do(self._all()))

    def _all(self) -> Iterator[None]:
        """The work."""
        room_us = STEP_US
        while self._waiting:
            for cost_us in self._each(self._waiting[0]):
                room_us -= cost_us
                if room_us <= 0:
                    room_us = STEP_US
                    yield
            passed = self._waiting.popleft()
            self._waiting_messages -= passed.count
            self._waiting_bytes -= len(passed.content)

    def _each(self, passed: Passed) -> Iterator[int]:
        """What each part of it has cost, in microseconds."""
        client, position = passed.client.fields(), 0
        for _ in range(passed.count):
            props, body, position = one(passed.content, position)
            try:
                traced = trace_properties(passed.exchange, passed.keys, props, client, passed.event)
            except TableError:
                traced = b""
            yield MESSAGE_US + len(props) // PROPERTIES_BYTES_PER_US
            if 0 < len(traced) <= PROPERTIES_BYTES_MAX:
                self.traced += 1
                yield from self._publish(passed, traced, body)
            else:
                self.dropped += 1

    def _publish(self, passed: Passed, props: bytes, body: bytes) -> Iterator[int]:
        broker, vhost = self._broker, passed.client.vhost
        content = encode(props, body)
        run = Run(TRACE_EXCHANGE, passed.key, content, 1, body_bytes(content, 0, 1), look=LOOK_HEADERS)
        with suppress(BrokerError):  # the vhost is gone, or the disk failed: nothing is promised of a copy
            names = list(route(broker.catalog, vhost, TRACE_EXCHANGE, passed.key, broker.asks(vhost, props)))
            for at in range(0, len(names), QUEUES_PER_STEP):
                some = names[at : at + QUEUES_PER_STEP]
                found = [queue for name in some if (queue := broker.find_queue(vhost, name)) is not None]
                for kind, queues in grouped_by_kind(found):
                    kind.publish(queues, run, None, broker.turns.now)
                yield QUEUE_US * len(some)
