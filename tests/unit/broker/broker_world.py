"""A broker with clients, for its tests: the real catalog and metadata, queues in memory, and a clock that the test moves.

A `Client` is one session of one connection with everything that its sink was told, as plain tuples. Every request that a
client makes ends a turn, as one batch of input does, unless it is made within `World.one_turn`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from broker.broker import Broker, TokenLogins
from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands.catalog_commands import Command, PutPermission, PutUser
from broker.catalog.known_by_all import KnownByAll
from broker.client_connection import Connection
from broker.errors import BrokerError
from broker.limits import Limits
from broker.messages.message import Run
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from broker.records import PermissionRecord, UserRecord
from broker.session.session import GotMessage, Session
from broker.session.topology import Declared
from broker.timers import Delays
from broker.turns import Turns
from native.content import encode, messages
from native.frame_split import look_at
from tests.contract.memory_queue import MemoryQueues
from tests.unit.broker.catalog_at_once import CatalogAtOnce
from wire.amqp.tables import decode_properties, encode_properties

T = TypeVar("T")
NOW = 1_700_000_000_000
SECRET = b"open sesame"


def publish_method(exchange: str, routing_key: str, mandatory: bool = False, immediate: bool = False) -> bytes:
    """The method's arguments as a client sends them."""
    name, key = exchange.encode(), routing_key.encode()
    bits = bytes((mandatory | immediate << 1,))
    return b"\x00\x3c\x00\x28\x00\x00" + bytes((len(name),)) + name + bytes((len(key),)) + key + bits


class Passwords:
    """Fulfils Authenticator: every user's password is SECRET."""

    def verify(self, user: UserRecord | None, password: bytes, name: str, source: str) -> Pending[bool]:
        return Pending.of(user is not None and password == SECRET)


class Client:
    """One session and what it was told. Fulfils SessionSink."""

    def __init__(self, world: World, connection: Connection) -> None:
        self.world = world
        self.connection = connection
        self.writable = True
        self.delivered: list[tuple[int, bytes, bool]] = []  # (tag, body, redelivered)
        self.properties: list[dict[str, Any]] = []  # of the same messages
        self.routes: list[tuple[str, str]] = []  # exchange and key of the same messages
        self.consumer_tags: list[str] = []
        self.confirms: list[tuple[int, int, bool, bool]] = []
        self.returns: list[tuple[int, str, bytes]] = []
        self.cancelled_tags: list[str] = []
        self.timed_out_tags: list[str] = []
        self.told: list[str] = []  # in which order: "return", "confirm", "deliver"
        self.session: Session = world.broker.open_session(connection, self, world.now)

    # what the session says

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        self.told.append("deliver")
        for offset, (props, body) in enumerate(messages(content, piece.position, piece.count)):
            self.delivered.append((first_tag + offset, body, piece.redelivered))
            self.properties.append(decode_properties(props))
            self.routes.append((piece.exchange, piece.routing_key))
            self.consumer_tags.append(consumer.tag)

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        self.told.append("confirm")
        self.confirms.append((first, last, multiple, ok))

    def returned(self, run: Run, code: int, text: str) -> None:
        self.told.append("return")
        self.returns += [(code, text, body) for _, body in messages(run.content, 0, run.count)]

    def cancelled(self, consumer_tag: str) -> None:
        self.cancelled_tags.append(consumer_tag)

    def timed_out(self, consumer_tag: str) -> None:
        self.timed_out_tags.append(consumer_tag)

    # what it asks

    def publish(
        self,
        exchange: str,
        key: str,
        *bodies: bytes,
        mandatory: bool = False,
        immediate: bool = False,
        **properties: Any,
    ) -> None:
        """One run, by the path that AMQP takes."""
        props = encode_properties(properties)
        look = look_at(props)
        content = b"".join(encode(props, body) for body in bodies)
        self.session.publisher.publish_raw(
            publish_method(exchange, key, mandatory, immediate),
            len(bodies),
            content,
            sum(map(len, bodies)),
            look.persistent,
            look.priority,
            look.expiration,
            look.user_id,
            look.look,
            self.world.now,
        )
        self.world.end_turn()

    def declare(
        self,
        name: str = "",
        *,
        passive: bool = False,
        durable: bool = True,
        exclusive: bool = False,
        auto_delete: bool = False,
        **arguments: Any,
    ) -> Declared:
        """Arguments are called as they are without x-, with underscores."""
        pending = self.session.topology.declare_queue(
            name,
            passive=passive,
            durable=durable,
            exclusive=exclusive,
            auto_delete=auto_delete,
            arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()},
            now=self.world.now,
        )
        return self.world.answer(pending)

    def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        passive: bool = False,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: dict[str, Any] | None = None,
    ) -> None:
        self.world.answer(
            self.session.topology.declare_exchange(
                name,
                kind,
                passive=passive,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=arguments or {},
                now=self.world.now,
            )
        )

    def bind(self, queue: str, exchange: str, key: str, **arguments: Any) -> None:
        self.world.answer(self.session.topology.bind_queue(queue, exchange, key, arguments, self.world.now))

    def consume(
        self,
        queue: str,
        tag: str = "",
        *,
        no_ack: bool = False,
        exclusive: bool = False,
        prefetch: int | None = None,
        **arguments: Any,
    ) -> str:
        if prefetch is not None:
            self.session.set_prefetch(prefetch, False)
        pending = self.session.consume(
            queue,
            tag,
            no_ack=no_ack,
            exclusive=exclusive,
            no_local=False,
            arguments={f"x-{key.replace('_', '-')}": value for key, value in arguments.items()},
            now=self.world.now,
        )
        return self.world.answer(pending)

    def get(self, queue: str, no_ack: bool = False) -> GotMessage | None:
        return self.world.answer(self.session.get(queue, no_ack, self.world.now))

    def bodies_of(self, queue: str) -> list[bytes]:
        """Takes everything out of the queue."""
        bodies = []
        while (got := self.get(queue, no_ack=True)) is not None:
            bodies.append(messages(got.content, got.piece.position, 1)[0][1])
        return bodies

    def properties_of(self, queue: str) -> dict[str, Any]:
        """Of the next message, which is taken out."""
        got = self.get(queue, no_ack=True)
        assert got is not None, f"queue {queue!r} is empty"
        return decode_properties(messages(got.content, got.piece.position, 1)[0][0])

    def ack(self, first: int, last: int | None = None, multiple: bool = False) -> None:
        self.session.acknowledge(first, first if last is None else last, multiple, self.world.now)
        self.world.end_turn()

    def reject(self, tag: int, multiple: bool = False, requeue: bool = False) -> None:
        if multiple:
            self.session.nack(tag, True, requeue, self.world.now)
        else:
            self.session.reject(tag, requeue, self.world.now)
        self.world.end_turn()

    def purge(self, queue: str) -> int:
        return self.world.answer(self.session.topology.purge_queue(queue, self.world.now))

    def delete(self, queue: str, if_unused: bool = False, if_empty: bool = False) -> int:
        return self.world.answer(
            self.session.topology.delete_queue(queue, if_unused=if_unused, if_empty=if_empty, now=self.world.now)
        )

    def close(self) -> None:
        self.session.close(self.world.now)
        self.world.end_turn()

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, body, _ in self.delivered]

    def take_confirms(self) -> list[tuple[int, int, bool, bool]]:
        confirms, self.confirms = self.confirms, []
        return confirms


class World:
    """One node's broker. `closed` says which connections it ended, and why; `blocked` what publishers were told."""

    def __init__(self, limits: Limits | None = None, tokens: TokenLogins | None = None) -> None:
        self.now = NOW
        self.steady_ms = 0  # goes on also where the wall clock is set
        self.turns_requested = 0
        self.closed: list[tuple[str, str]] = []
        self.blocked: list[tuple[str, str | None]] = []
        self._holding_turn = False
        self._random = 0
        self.catalog = Catalog()
        self.metadata = CatalogAtOnce(self.catalog)
        self.behind: list[str] = []  # nodes of an earlier version
        for command in default_commands("hash"):
            self.metadata.submit(command)
        self.broker = Broker(
            node="leveret@test",
            catalog=self.catalog,
            metadata=KnownByAll(self.metadata, self.catalog, lambda version: self.behind),
            authenticator=Passwords(),
            turns=Turns(self._soon, lambda: self.now),
            tick_at=lambda when: None,
            delays=Delays(lambda: self.steady_ms, lambda delay_ms: None),
            random_bytes=self._random_bytes,
            limits=limits,
            tokens=tokens,
        )
        self.kind = MemoryQueues(self.broker)
        self.broker.add_kind(self.kind)
        self.broker.recover(self.now)

    def _soon(self, end: Callable[[], None]) -> None:
        """Whoever needs it ends the turn."""
        self.turns_requested += 1

    def _random_bytes(self, count: int) -> bytes:
        """Never the same twice."""
        self._random += 1
        return self._random.to_bytes(count, "big")

    # clients

    def connection(self, user: str = "guest", vhost: str = "/", login: UserRecord | None = None) -> Connection:
        """One that is not open yet."""
        self._random += 1
        name = f"connection-{self._random}"

        def blocked(reason: str | None) -> None:
            self.blocked.append((name, reason))

        def close(error: BrokerError) -> None:
            self.closed.append((name, error.text))

        return Connection(name, name, user, vhost, "AMQP 0-9-1", {}, self.now, close, blocked, dict, login=login)

    def connect(self, user: str = "guest", vhost: str = "/") -> Connection:
        connection = self.connection(user, vhost)
        self.broker.open_connection(connection, self.now)
        return connection

    def client(self, user: str = "guest", vhost: str = "/") -> Client:
        """A session on a connection of its own."""
        return Client(self, self.connect(user, vhost))

    def disconnect(self, client: Client) -> None:
        self.broker.connection_closed(client.connection, self.now)
        self.end_turn()

    def add_user(
        self, name: str, configure: str = ".*", write: str = ".*", read: str = ".*", tags: tuple[str, ...] = ()
    ) -> None:
        self.submit(
            PutUser(UserRecord(name, "hash", tags)), PutPermission(PermissionRecord(name, "/", configure, write, read))
        )

    # time, turns and answers

    def submit(self, *orders: Command) -> None:
        """What an administrator wants."""
        for command in orders:
            self.answer(self.broker.submit(command, self.now))

    def answer(self, pending: Pending[T]) -> T:
        """What was answered; an error is raised."""
        self.end_turn()
        values: list[T] = []
        errors: list[BrokerError] = []
        pending.then(values.append, errors.append)
        for error in errors:
            raise error
        assert values, "not answered yet"
        return values[0]

    @contextmanager
    def one_turn(self) -> Iterator[None]:
        """What is asked within is one batch of input."""
        self._holding_turn = True
        try:
            yield
        finally:
            self._holding_turn = False
            self.end_turn()

    def end_turn(self) -> None:
        if not self._holding_turn:
            self.broker.end_turn()

    def pass_ms(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.steady_ms += milliseconds
        self.broker.tick(self.now)
        self.end_turn()

    def ready(self, queue: str, vhost: str = "/") -> int:
        return self.broker.queue(vhost, queue).ready_count


def refused(error: type[BrokerError], text: str, ask: Callable[[], object]) -> None:
    """The request is refused, with exactly this text."""
    with pytest.raises(BrokerError) as raised:
        ask()
    assert (type(raised.value), raised.value.text) == (error, text)
