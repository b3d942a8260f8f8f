"""Streams in memory that keep broker/queues/stream_contract.py, small enough to be read at a glance: nothing is durable.

A run that is published is one chunk. It is committed by `commit`, which every pump calls unless `commits_later` is set. Tests
say where a stream is (`moved`), when a reader is attached (`attaches_later`), and that it cannot be read (`lose_readers`).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from broker.actors import LogActor
from broker.broker import Broker
from broker.catalog.policy import EffectiveArguments
from broker.client_connection import Connection
from broker.errors import BrokerError
from broker.messages.browsed import Browsed
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.messages.stored_bytes import Sendable
from broker.pending import Pending
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Got, HeldSlice, Outcome, Queue, QueueHost, QueueStatistics, Slice
from broker.queues.stream_contract import (
    AtOffset,
    Begin,
    ChunkReader,
    OffsetSpec,
    PlacesWatcher,
    ReaderProgress,
    StreamContract,
    StreamFigures,
    StreamPlaces,
    StreamTracking,
)
from broker.records import QueueRecord
from broker.stream_clients.stream_client import StreamClient
from tests.unit.broker.broker_world import World
from wire.stream.publish_frame import StreamRun, pack_ids

CHUNK = struct.Struct(">4xI16xQ16x")  # messages and first offset, where a chunk has them


@dataclass
class FakeChunk:
    first_offset: int
    message_count: int

    @property
    def end(self) -> int:
        return self.first_offset + self.message_count

    def encoded(self) -> bytes:
        return CHUNK.pack(self.message_count, self.first_offset)


class FakeStream:
    """Fulfils StreamContract."""

    def __init__(self, record: QueueRecord, host: QueueHost) -> None:
        self.record = record
        self.chunks: list[FakeChunk] = []
        self.unanswered: list[Receipt] = []
        self.commits_later = False
        self.attaches_later = False
        self.attaching: list[tuple[ChunkReader, OffsetSpec, Pending[None]]] = []
        self.unreadable: BrokerError | None = None
        self.full: BrokerError | None = None
        self.readers: dict[ChunkReader, int] = {}  # at this offset
        self.watchers: list[PlacesWatcher] = []
        self.last_ids: dict[str, int] = {}
        self.offsets: dict[str, int] = {}
        self.where = StreamPlaces("leveret@test", ("leveret@test", "other@test"))
        self._host = host

    # any queue

    @property
    def ready_count(self) -> int:
        return self.end

    @property
    def consumer_count(self) -> int:
        return len(self.readers)

    def consume(self, consumer: Consumer, now: int) -> None:
        raise NotImplementedError

    def cancel(self, consumer: Consumer, now: int) -> None: ...

    def get(self, no_ack: bool, now: int, by: LogActor | None = None) -> Pending[Got | None]:
        raise NotImplementedError

    def settle(self, piece: Slice, outcome: Outcome, now: int) -> None: ...

    def settle_all(self, held: Sequence[HeldSlice], outcome: Outcome, now: int) -> None: ...

    def used(self, now: int) -> None: ...

    def browse(self, skip: int, limit: int, now: int) -> Pending[list[Browsed]]:
        raise NotImplementedError

    def browse_from(self, asked: object, limit: int, now: int) -> Pending[list[Browsed]]:
        return Pending.of([])

    def purge(self, now: int, by: LogActor | None = None) -> Pending[int]:
        raise NotImplementedError

    def policy_changed(self, effective: EffectiveArguments, now: int) -> None: ...

    def statistics(self) -> QueueStatistics:
        return QueueStatistics()

    def pump(self, now: int) -> None:
        if not self.commits_later:
            self.commit()
        for reader in list(self.readers):
            self._read(reader)

    def commit(self) -> None:
        unanswered, self.unanswered = self.unanswered, []
        for receipt in unanswered:
            receipt.accepted()

    def _read(self, reader: ChunkReader) -> None:
        for chunk in self.chunks:
            if reader in self.readers and chunk.end > self.readers[reader] and reader.credit:
                self.readers[reader] = chunk.end
                reader.deliver(self.chunks[-1].first_offset, chunk.encoded(), chunk.message_count)

    # publishing

    @property
    def end(self) -> int:
        return self.chunks[-1].end if self.chunks else 0

    def publish_items(self, reference: str, run: StreamRun, receipt: Receipt) -> None:
        if self.full is not None:
            raise self.full
        self.chunks.append(FakeChunk(self.end, run.message_count))
        self.last_ids[reference] = run.last_id
        self.unanswered.append(receipt)
        self._host.wake(self)

    def publish_numbered(self, reference: str, first_number: int, run: Run, receipt: Receipt) -> None:
        ids = pack_ids(list(range(first_number, first_number + run.count)))
        self.publish_items(reference, StreamRun(run.count, run.count, ids, run.content), receipt)

    def publisher_sequence(self, reference: str, now: int) -> Pending[int]:
        return Pending.of(self.last_ids.get(reference, 0))

    # reading

    def check_readable(self) -> None:
        if self.unreadable is not None:
            raise self.unreadable

    def attach(self, reader: ChunkReader, spec: OffsetSpec, now: int) -> Pending[None] | None:
        self.check_readable()
        if self.attaches_later:
            answer: Pending[None] = Pending()
            self.attaching.append((reader, spec, answer))
            return answer
        self._attach(reader, spec)
        return None

    def _attach(self, reader: ChunkReader, spec: OffsetSpec) -> None:
        self.readers[reader] = self._begin(spec)
        self._host.wake(self)

    def attach_all(self) -> None:
        attaching, self.attaching = self.attaching, []
        for reader, spec, answer in attaching:
            self._attach(reader, spec)
            answer.resolve(None)

    def _begin(self, spec: OffsetSpec) -> int:
        if isinstance(spec, AtOffset):
            return min(spec.offset, self.end)
        if spec is Begin.LAST and self.chunks:
            return self.chunks[-1].first_offset
        return self.end if spec is Begin.NEXT else 0

    def detach(self, reader: ChunkReader) -> None:
        self.readers.pop(reader, None)
        self.attaching = [one for one in self.attaching if one[0] is not reader]

    def reader_ready(self, reader: ChunkReader) -> None:
        self._host.wake(self)

    def resolve(self, spec: OffsetSpec, now: int) -> Pending[int]:
        return Pending.of(self._begin(spec))

    def lose_readers(self) -> None:
        readers, self.readers = self.readers, {}
        for reader in [*readers, *[one[0] for one in self.attaching]]:
            reader.unavailable()

    # stored offsets

    def store_offset(self, reference: str, offset: int, now: int) -> None:
        self.offsets[reference] = offset

    def query_offset(self, reference: str, now: int) -> Pending[int | None]:
        return Pending.of(self.offsets.get(reference))

    # what is shown

    def tracking(self) -> StreamTracking | None:
        is_here = "leveret@test" in self.where.members
        return StreamTracking(self.last_ids, self.offsets) if is_here else None

    def stream_figures(self) -> StreamFigures:
        if not self.chunks:
            return StreamFigures(-1, -1, -1)
        return StreamFigures(self.chunks[0].first_offset, self.chunks[-1].first_offset, self.end - 1)

    def progress(self, reader: ChunkReader) -> ReaderProgress | None:
        """A second for each message."""
        if reader not in self.readers:
            return None
        lag = self.end - self.readers[reader]
        return ReaderProgress(self.readers[reader], lag, lag)

    def places(self) -> StreamPlaces:
        return self.where

    def times_led(self) -> int:
        return int(self.where.leader == "leveret@test")

    def watch(self, watcher: PlacesWatcher) -> None:
        assert watcher not in self.watchers, "watched twice"
        self.watchers.append(watcher)

    def unwatch(self, watcher: PlacesWatcher) -> None:
        self.watchers.remove(watcher)

    def moved(self, leader: str) -> None:
        self.where = self.where._replace(leader=leader)
        self._tell_watchers()

    def _tell_watchers(self) -> None:
        for watcher in list(self.watchers):
            watcher.stream_moved(self)

    def close(self) -> None:
        self.commit()
        self._tell_watchers()


class FakeStreams:
    """Fulfils QueueType."""

    name = "stream"

    def __init__(self, host: Broker) -> None:
        self._host = host

    def check(self, record: QueueRecord) -> None: ...

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> FakeStream:
        return FakeStream(record, self._host)

    def delete(self, queue: Queue, now: int) -> int:
        assert isinstance(queue, FakeStream), f"{queue!r} is no stream"
        queue.close()
        return queue.ready_count

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        raise NotImplementedError


@dataclass
class StreamUser:
    """A stream client and what it was told. Fulfils StreamSink."""

    world: StreamWorld
    connection: Connection
    writable: bool = True
    told: list[tuple[Any, ...]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.streams: StreamClient = self.world.broker.open_streams(self.connection, self, self.world.now)

    def deliver(self, subscription: int, last_chunk: int, chunk: Sendable) -> None:
        count, first = CHUNK.unpack(bytes(chunk))
        self.told.append(("chunk", subscription, first, count, last_chunk))

    def confirm(self, publisher: int, ids: bytes) -> None:
        self.told.append(("confirm", publisher, struct.unpack(f">{len(ids) // 8}Q", ids)))

    def refuse_publish(self, publisher: int, ids: bytes, error: BrokerError) -> None:
        self.told.append(("refuse", publisher, struct.unpack(f">{len(ids) // 8}Q", ids), type(error)))

    def stream_unavailable(self, stream: str) -> None:
        self.told.append(("gone", stream))

    def activate(self, subscription: int, active: bool) -> None:
        self.told.append(("active", subscription, active))

    def take(self) -> list[tuple[Any, ...]]:
        """What it was told since."""
        self.world.end_turn()
        told, self.told = self.told, []
        return told

    def publish(self, publisher: int, *ids: int, messages: int | None = None) -> None:
        run = StreamRun(len(ids), messages or len(ids), pack_ids(list(ids)), b"\x00\x00\x00\x00" * len(ids))
        self.streams.publish(publisher, run, self.world.now)

    def create(self, stream: str, **arguments: Any) -> bool:
        """Arguments are called as they are without x-, with underscores."""
        as_declared = {f"x-{key.replace('_', '-')}": value for key, value in arguments.items()}
        return self.world.answer(self.streams.create_stream(stream, as_declared, self.world.now))

    def close(self) -> None:
        self.streams.close(self.world.now)
        self.world.disconnect_stream(self)


def address_of(node: str, tls: bool) -> tuple[str, int] | None:
    host = {"leveret@test": "here.test", "other@test": "there.test"}.get(node)
    return None if host is None else (host, 5551 if tls else 5552)


class StreamWorld(World):
    """With streams, and clients of them."""

    def __init__(self) -> None:
        super().__init__()
        self.broker.add_kind(FakeStreams(self.broker))
        self.broker.streams.address_of = address_of

    def stream_user(self, user: str = "guest") -> StreamUser:
        return StreamUser(self, self.connect(user))

    def disconnect_stream(self, user: StreamUser) -> None:
        self.broker.connection_closed(user.connection, self.now)
        self.end_turn()

    def stream(self, name: str) -> FakeStream:
        found = self.broker.queue("/", name)
        assert isinstance(found, FakeStream), f"{name} is no stream"
        return found


def keeps_the_contract(stream: FakeStream) -> StreamContract:
    """Checked by mypy."""
    return stream
