"""A broker with streams, small enough to be read at a glance, for tests of the stream protocol: nothing is durable.

A run that is published is one chunk, which says its offset and how many messages it has; `pump` confirms and delivers. Requests
are answered at once, except those made while `answers_later` is set: these wait in `pending`. Errors come from `refuse`: name
of a session method -> the error that it raises. There are no groups: tests say which consumer is active.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from broker.errors import (
    AccessRefused,
    BrokerError,
    NotAllowed,
    NotFound,
    PreconditionFailed,
)
from broker.login.audit import Audit
from broker.login.client_address import ClientAddress
from broker.pending import Pending
from broker.records import UserRecord
from broker.stream_clients.client_terms import ReadOptions, StreamAddress, StreamLocation, StreamSink
from tests.unit.broker.vouched.bearers import bearer
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_keys import OffsetKind
from wire.stream.publish_frame import StreamRun

SECRET = b"open sesame"
TOKEN = b"token of "  # and a name
HERE = StreamAddress("here.test", 5552)
THERE = StreamAddress("there.test", 5552)


@dataclass
class FakeStream:
    arguments: dict[str, Any] = field(default_factory=dict)
    chunks: list[tuple[int, int]] = field(default_factory=list)  # first offset, messages
    last_ids: dict[str, int] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        return sum(self.chunks[-1]) if self.chunks else 0

    def begin(self, spec: OffsetSpec) -> int:
        match spec.kind:
            case OffsetKind.NEXT:
                return self.end
            case OffsetKind.LAST:
                return self.chunks[-1][0] if self.chunks else 0
            case OffsetKind.OFFSET:
                return min(spec.value, self.end)
        return 0


@dataclass
class FakeReader:
    stream: str
    at: int
    options: ReadOptions
    credit: int = 0
    started: bool = False
    active: bool = True


class FakeStreams:
    """Fulfils StreamHost."""

    def __init__(self) -> None:
        self.streams: dict[str, FakeStream] = {}
        self.super_streams: dict[str, dict[str, str]] = {}  # partition by binding key
        self.connections: list[Any] = []
        self.sessions: list[FakeStreamSession] = []
        self.calls: list[tuple[Any, ...]] = []
        self.refuse: dict[str, BrokerError] = {}
        self.disk_alarm = False
        self.answers_later = False
        self.confirms_later = False
        self.pending: list[tuple[Pending[Any], Any]] = []
        self.woken: Callable[[], None] = lambda: None  # there may be something to confirm or to deliver
        self.audited: list[str] = []
        self.audit = Audit(note=self.audited.append, warn=self.audited.append)
        self.stream_refusals: Counter[int] = Counter()

    def answer(self, value: Any) -> Pending[Any]:
        if not self.answers_later:
            return Pending.of(value)
        pending: Pending[Any] = Pending()
        self.pending.append((pending, value))
        return pending

    def answer_all(self) -> None:
        waiting, self.pending = self.pending, []
        for pending, value in waiting:
            pending.resolve(value)

    def authenticate(self, user: str, password: bytes, client: ClientAddress) -> Pending[Any]:
        if "authenticate" in self.refuse:
            return Pending.failed(self.refuse["authenticate"])
        if password.startswith(TOKEN):
            return self.answer(bearer(password.removeprefix(TOKEN).decode()))
        if password != SECRET:
            self.audit.login_failed(user, client, "wrong user or password")
            return Pending.failed(AccessRefused(f"invalid credentials of user '{user}'"))
        return self.answer(UserRecord(user, None))

    def authenticate_external(self, user: str, client: ClientAddress) -> Pending[Any]:
        return self.answer(UserRecord(user, None))

    def open_connection(self, connection: Any, now: int) -> None:
        if connection.vhost != "/":
            raise NotAllowed(f"vhost {connection.vhost} not found")
        self.connections.append(connection)

    def renew_login(self, connection: Any, user: Any, now: int) -> None:
        self.calls.append(("renew_login",))
        if "renew_login" in self.refuse:
            raise self.refuse["renew_login"]
        connection.login = user

    def connection_closed(self, connection: Any, now: int) -> None:
        self.connections.remove(connection)

    def open_streams(self, connection: Any, sink: StreamSink, now: int) -> FakeStreamSession:
        if "open_streams" in self.refuse:
            raise self.refuse["open_streams"]
        session = FakeStreamSession(self, sink)
        self.sessions.append(session)
        return session

    def pump(self, now: int) -> None:
        for session in list(self.sessions):
            session.pump()

    def remove(self, name: str) -> None:
        self.streams.pop(name, None)
        for session in list(self.sessions):
            session.forget(name)


class FakeStreamSession:
    """Fulfils StreamClientSession."""

    def __init__(self, broker: FakeStreams, sink: StreamSink) -> None:
        self.broker = broker
        self.sink = sink
        self.publishers: dict[int, tuple[str, str]] = {}
        self.unconfirmed: dict[int, bytes] = {}
        self.holds_publishers: Pending[None] | None = None  # until then
        self.readers: dict[int, FakeReader] = {}
        self.closed = False

    def _called(self, name: str, *arguments: Any) -> None:
        assert not self.closed, f"{name} on a session that was closed"
        self.broker.calls.append((name, *arguments))
        self.broker.woken()
        if name in self.broker.refuse:
            raise self.broker.refuse[name]

    def _stream(self, name: str) -> FakeStream:
        if name not in self.broker.streams:
            raise NotFound(f"no stream '{name}' in vhost '/'")
        return self.broker.streams[name]

    @property
    def disk_alarm(self) -> bool:
        return self.broker.disk_alarm

    def pump(self) -> None:
        if not self.broker.confirms_later:
            unconfirmed, self.unconfirmed = self.unconfirmed, {}
            for publisher, ids in unconfirmed.items():
                self.sink.confirm(publisher, ids)
        for number, reader in self.readers.items():
            self._read(number, reader)

    def _read(self, number: int, reader: FakeReader) -> None:
        stream = self.broker.streams[reader.stream]
        for first, count in stream.chunks:
            if first + count <= reader.at:
                continue
            if not (reader.started and reader.active and reader.credit and self.sink.writable):
                return
            reader.credit -= 1
            reader.at = first + count
            self.sink.deliver(number, stream.chunks[-1][0], f"chunk {first}+{count}".encode())

    def forget(self, stream: str) -> None:
        self.publishers = {number: one for number, one in self.publishers.items() if one[1] != stream}
        self.unconfirmed = {number: ids for number, ids in self.unconfirmed.items() if number in self.publishers}
        self.readers = {number: one for number, one in self.readers.items() if one.stream != stream}
        self.sink.stream_unavailable(stream)

    # publishing

    def declare_publisher(self, publisher: int, reference: str, stream: str, now: int) -> Pending[None]:
        self._called("declare_publisher", publisher, reference, stream)
        self._stream(stream)
        assert publisher not in self.publishers, f"publisher {publisher} is declared twice"
        self.publishers[publisher] = (reference, stream)
        return self.broker.answer(None)

    def delete_publisher(self, publisher: int, now: int) -> None:
        self._called("delete_publisher", publisher)
        del self.publishers[publisher]
        self.unconfirmed.pop(publisher, None)

    def publish(self, publisher: int, run: StreamRun, now: int) -> Pending[None] | None:
        self._called("publish", publisher, run.item_count, run.message_count, sorted(run.filter_values))
        reference, name = self.publishers[publisher]
        stream = self.broker.streams[name]
        stream.chunks.append((stream.end, run.message_count))
        stream.last_ids[reference] = run.last_id
        self.unconfirmed[publisher] = self.unconfirmed.get(publisher, b"") + run.ids
        return self.holds_publishers

    def refuse_unconfirmed(self, publisher: int, error: BrokerError) -> None:
        self.sink.refuse_publish(publisher, self.unconfirmed.pop(publisher), error)

    def publisher_sequence(self, reference: str, stream: str, now: int) -> Pending[int]:
        self._called("publisher_sequence", reference, stream)
        return self.broker.answer(self._stream(stream).last_ids.get(reference, 0))

    # reading

    def check_readable(self, stream: str) -> None:
        self._called("check_readable", stream)
        self._stream(stream)

    def subscribe(
        self, subscription: int, stream: str, offset: OffsetSpec, options: ReadOptions, now: int
    ) -> Pending[None]:
        self._called("subscribe", subscription, stream, options)
        assert subscription not in self.readers, f"subscription {subscription} is used twice"
        begins = self._stream(stream).begin(offset)
        self.readers[subscription] = FakeReader(stream, begins, options, active=not options.single_active)
        return self.broker.answer(None)

    def start(self, subscription: int, credit: int, now: int) -> None:
        self._called("start", subscription, credit)
        self.readers[subscription].started = True
        self.readers[subscription].credit += credit

    def add_credit(self, subscription: int, credit: int, now: int) -> None:
        self._called("add_credit", subscription, credit)
        self.readers[subscription].credit += credit

    def consumer_updated(self, subscription: int, active: bool, offset: OffsetSpec, now: int) -> None:
        self._called("consumer_updated", subscription, active, offset.kind.name, offset.value)
        reader = self.readers[subscription]
        reader.active = active
        if offset.kind is not OffsetKind.NONE:
            reader.at = self.broker.streams[reader.stream].begin(offset)

    def unsubscribe(self, subscription: int, now: int) -> None:
        self._called("unsubscribe", subscription)
        del self.readers[subscription]

    def resume(self, now: int) -> None:
        self._called("resume")

    def store_offset(self, reference: str, stream: str, offset: int, now: int) -> None:
        self._called("store_offset", reference, stream, offset)
        self._stream(stream).offsets[reference] = offset

    def query_offset(self, reference: str, stream: str, now: int) -> Pending[int | None]:
        self._called("query_offset", reference, stream)
        return self.broker.answer(self._stream(stream).offsets.get(reference))

    def resolve_offset(self, stream: str, offset: OffsetSpec, options: ReadOptions, now: int) -> Pending[int]:
        self._called("resolve_offset", stream, offset.kind.name)
        return self.broker.answer(self._stream(stream).begin(offset))

    # streams

    def create_stream(self, stream: str, arguments: dict[str, Any], now: int) -> Pending[bool]:
        self._called("create_stream", stream, arguments)
        found = self.broker.streams.get(stream)
        if found is not None and found.arguments != arguments:
            raise PreconditionFailed(f"stream '{stream}' has other arguments")
        self.broker.streams.setdefault(stream, FakeStream(arguments))
        return self.broker.answer(found is None)

    def delete_stream(self, stream: str, now: int) -> Pending[None]:
        self._called("delete_stream", stream)
        self._stream(stream)
        self.broker.remove(stream)
        return self.broker.answer(None)

    def create_super_stream(
        self, name: str, partitions: tuple[str, ...], binding_keys: tuple[str, ...], arguments: dict[str, Any], now: int
    ) -> Pending[bool]:
        self._called("create_super_stream", name, partitions, binding_keys, arguments)
        if name in self.broker.super_streams or any(one in self.broker.streams for one in partitions):
            return self.broker.answer(False)
        self.broker.super_streams[name] = dict(zip(binding_keys, partitions, strict=True))
        for one in partitions:
            self.broker.streams[one] = FakeStream(arguments)
        return self.broker.answer(True)

    def delete_super_stream(self, name: str, now: int) -> Pending[None]:
        self._called("delete_super_stream", name)
        for one in self._super_stream(name).values():
            self.broker.remove(one)
        del self.broker.super_streams[name]
        return self.broker.answer(None)

    def locate(self, streams: tuple[str, ...], now: int) -> Pending[list[StreamLocation | BrokerError]]:
        self._called("locate", streams)
        found = StreamLocation(HERE, (THERE,))
        return self.broker.answer(
            [found if one in self.broker.streams else NotFound(f"no stream '{one}'") for one in streams]
        )

    def route(self, routing_key: str, super_stream: str, now: int) -> Pending[tuple[str, ...]]:
        self._called("route", routing_key, super_stream)
        found = self._super_stream(super_stream)
        return self.broker.answer((found[routing_key],) if routing_key in found else ())

    def partitions(self, super_stream: str, now: int) -> Pending[tuple[str, ...]]:
        self._called("partitions", super_stream)
        return self.broker.answer(tuple(self._super_stream(super_stream).values()))

    def _super_stream(self, name: str) -> dict[str, str]:
        if name not in self.broker.super_streams:
            raise NotFound(f"no super stream '{name}'")
        return self.broker.super_streams[name]

    def figures(self, stream: str, now: int) -> Pending[dict[str, int]]:
        self._called("figures", stream)
        found = self._stream(stream)
        first, last = (found.chunks[0][0], found.chunks[-1][0]) if found.chunks else (-1, -1)
        return self.broker.answer({"first_chunk_id": first, "committed_chunk_id": last})

    # the end

    def close(self, now: int) -> None:
        assert not self.closed, "a session is closed once"
        self.closed = True
        self.broker.sessions.remove(self)


def entries(*messages: tuple[int, bytes]) -> bytes:
    """The messages of a Publish frame: pairs of an id and a body."""
    return b"".join([struct.pack(">QI", id_, len(body)) + body for id_, body in messages])
