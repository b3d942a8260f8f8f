"""A broker small enough to be read at a glance, behind a real gRPC server on a free port of the loopback interface.

Queues are lists, streams those of which nothing is taken, and nothing is durable; users, vhosts and permissions are those of a
real catalog. `held` keeps confirms back until the test lets them go.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

from broker.catalog.catalog import Catalog, default_commands
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.definitions.definitions_writer import PasswordHashes
from broker.client_connection import Connection
from broker.errors import AccessRefused, NotAllowed, NotFound, PreconditionFailed, ResourceExhausted
from broker.login.audit import Audit
from broker.login.client_address import ClientAddress
from broker.messages.browsed import Browsed
from broker.messages.message import Run
from broker.operations.federation_facts import FederationLinkFacts
from broker.operations.node_facts import AlarmFacts, ListenerFacts, NodeFacts
from broker.operations.operations import Operations
from broker.operations.shovel_facts import COMPONENT, ShovelEnd, ShovelFacts
from broker.pending import Pending
from broker.queues.queue_type import QueueStatistics, Slice
from broker.records import BindingRecord, ExchangeRecord, QueueRecord, UserRecord
from front.cluster_federation import ClusterFederation
from front.cluster_shovels import ClusterShovels
from front.grpc.admin_service import AdminPorts
from front.grpc.server import GrpcLimits, Server, Tls, serve
from front.member_moves import MemberMoves
from front.node_ports import (
    ChangeView,
    Chosen,
    ClusterView,
    DecommissionPlan,
    DecommissionProgress,
    ForgetPlan,
    ForgottenQueue,
    GroupView,
    LivesFound,
    LostQueue,
    MemberMoveView,
    NodeRead,
    NodeView,
    PlannedMove,
)
from front.web.everywhere import Everywhere
from native import content
from node.logins.password_hashes import Hashes

NOW = 1_700_000_000_000


@dataclass
class Stored:
    exchange: str
    routing_key: str
    content: bytes
    redelivered: bool = False


@dataclass
class FakeQueue:
    record: Any
    ready: deque[Stored] = field(default_factory=deque)  # of a stream: all there is
    consumers: list[Any] = field(default_factory=list)
    stored: dict[str, int] = field(default_factory=dict)  # offsets
    numbers: dict[str, int] = field(default_factory=dict)  # the last ones of publishers

    def counts(self) -> QueueStatistics:
        return self.statistics()

    def statistics(self) -> QueueStatistics:
        lengths = {"q1": 0, "q2": 0, "delta": 0, "q3": 0, "q4": len(self.ready), "target_ram_count": 1}
        return QueueStatistics(ready=len(self.ready), consumers=len(self.consumers), details=lengths)

    @property
    def is_stream(self) -> bool:
        return bool(self.record.kind == "stream")

    def begin(self, arguments: dict[str, Any]) -> int:
        """The offset at which a consumer begins."""
        asked = arguments.get("x-stream-offset", "next")
        return {"first": 0, "next": len(self.ready)}[asked] if isinstance(asked, str) else int(asked)


class FakeBroker:
    node = "n1"

    def __init__(self) -> None:
        self.catalog = Catalog()
        for command in default_commands("hash of guest"):
            self.catalog.apply(command)
        self.fake_queues: dict[tuple[str, str], FakeQueue] = {}
        self.super_streams: dict[str, tuple[tuple[str, ...], tuple[str, ...], dict[str, Any]]] = {}
        self.open_connections: list[Connection] = []
        self.open_sessions: list[FakeSession] = []
        self.authentications = 0
        self.held = False
        self.under_way: Pending[None] | None = None  # what is published, until the test answers it
        self.busy = False
        self.runs: list[Run] = []
        self.audited: list[str] = []
        self.audit = Audit(note=self.audited.append, warn=self.audited.append)
        self.metadata = self
        self.streams: list[Any] = []  # clients of the stream protocol

    def submit(self, command: commands.Command) -> Pending[Any]:
        """As metadata that is durable at once."""
        return Pending.of(self.catalog.apply(command))

    def check_kind(self, record: QueueRecord) -> None:
        assert record.kind in ("classic", "stream"), f"a {record.kind} queue"

    def authenticate(self, user: str, password: bytes, client: ClientAddress) -> Pending[UserRecord]:
        self.authentications += 1
        if self.busy:
            return Pending.failed(ResourceExhausted("too many logins are waiting"))
        record = self.catalog.users.get(user)
        if record is None or record.password_hash != f"hash of {password.decode()}":
            return Pending.failed(AccessRefused(f"user '{user}' refused: invalid credentials"))
        return Pending.of(record)

    def authenticate_token(self, token: bytes, client: ClientAddress) -> Pending[UserRecord]:
        """The name of a user is a token of theirs."""
        record = self.catalog.users.get(token.decode())
        return Pending.failed(AccessRefused("no such token")) if record is None else Pending.of(record)

    def authenticate_external(self, user: str, client: ClientAddress) -> Pending[UserRecord]:
        record = self.catalog.users.get(user)
        return Pending.failed(AccessRefused(f"no user '{user}'")) if record is None else Pending.of(record)

    def open_connection(self, connection: Connection, now: int) -> None:
        if connection.vhost not in self.catalog.vhosts:
            raise NotAllowed(f"vhost {connection.vhost} not found")
        self.open_connections.append(connection)

    def connection_closed(self, connection: Connection, now: int) -> None:
        self.open_connections.remove(connection)

    def open_session(self, connection: Connection, sink: Any, now: int) -> FakeSession:
        session = FakeSession(self, connection, sink)
        self.open_sessions.append(session)
        return session

    def open_streams(self, connection: Connection, sink: Any, now: int) -> FakeStreamClient:
        assert connection in self.open_connections, "stream clients have a connection"
        return FakeStreamClient(self, connection.vhost)

    def end_turn(self) -> None:
        for queue in list(self.fake_queues.values()):
            self._pump(queue)
        for session in list(self.open_sessions):
            session.publisher.flush_confirms()

    def _pump(self, queue: FakeQueue) -> None:
        for consumer in list(queue.consumers):
            session = consumer.session
            while session.sink.writable and session.has_room(consumer):
                if queue.is_stream and consumer.offset < len(queue.ready):
                    session.deliver(consumer, queue.ready[consumer.offset], consumer.offset)
                    consumer.offset += 1
                elif queue.ready and not queue.is_stream:
                    session.deliver(consumer, queue.ready.popleft())
                else:
                    break

    def queue(self, vhost: str, name: str) -> FakeQueue:
        if (vhost, name) not in self.fake_queues:
            raise NotFound(f"no queue '{name}' in vhost '{vhost}'")
        return self.fake_queues[vhost, name]

    def queues(self) -> list[FakeQueue]:
        return list(self.fake_queues.values())

    def connections(self) -> list[Connection]:
        return self.open_connections

    def sessions(self) -> list[FakeSession]:
        return self.open_sessions

    def consumers(self) -> list[Any]:
        return [consumer for session in self.open_sessions for consumer in session.consumers()]


class FakeSession:
    """Its own topology, publisher and looks, too."""

    def __init__(self, broker: FakeBroker, connection: Connection, sink: Any) -> None:
        self.topology = self.publisher = self.looks = self
        self.broker, self.connection, self.sink = broker, connection, sink
        self.number, self.user, self.vhost = 0, connection.user, connection.vhost
        self.subscriptions: dict[str, Any] = {}
        self.unacknowledged: dict[int, tuple[FakeQueue, Stored]] = {}
        self.next_tag = 1
        self.prefetch = 0
        self.taken = self.confirmed = 0
        self.refused: set[int] = set()

    def consumers(self) -> list[Any]:
        return list(self.subscriptions.values())

    def statistics(self) -> dict[str, Any]:
        return {"unacknowledged": len(self.unacknowledged)}

    def select_confirms(self) -> None:
        assert self.taken == 0, "confirms are selected before anything is published"

    def publish(self, run: Run, now: int) -> Pending[None] | None:
        self.connection.publishes = True
        if run.exchange and self.broker.catalog.exchange(self.vhost, run.exchange) is None:
            raise NotFound(f"no exchange '{run.exchange}' in vhost '{self.vhost}'")
        self.broker.runs.append(run)
        if run.routing_key == "full":
            self.refused.update(range(self.taken + 1, self.taken + run.count + 1))
        queue = self.broker.fake_queues.get((self.vhost, run.routing_key))
        if queue is not None:
            for props, body in content.messages(run.content, 0, run.count):
                queue.ready.append(Stored(run.exchange, run.routing_key, content.encode(props, body)))
        elif run.mandatory:
            self.sink.returned(run, 312, "NO_ROUTE")
        self.taken += run.count
        return self.broker.under_way

    def queues_of(self, run: Run) -> list[str]:
        return [run.routing_key]

    def publish_numbered(self, run: Run, reference: str, first_number: int, now: int) -> None:
        found = self.broker.queue(self.vhost, run.routing_key)
        if not found.is_stream:
            raise PreconditionFailed("only a stream takes numbered messages")
        self.broker.runs.append(run)
        for number, (props, body) in enumerate(content.messages(run.content, 0, run.count), first_number):
            if number > found.numbers.get(reference, 0):
                found.numbers[reference] = number
                found.ready.append(Stored(run.exchange, run.routing_key, content.encode(props, body)))
        self.taken += run.count

    def flush_confirms(self) -> None:
        while not self.broker.held and self.confirmed < self.taken:
            self.confirmed += 1
            self.sink.confirm(self.confirmed, self.confirmed, False, self.confirmed not in self.refused)

    def set_prefetch(self, count: int, global_: bool) -> None:
        self.prefetch = count

    def consume(self, queue: str, tag: str, **how: Any) -> Pending[str]:
        tag = tag or f"ctag-{len(self.subscriptions) + 1}"
        if tag in self.subscriptions:
            raise NotAllowed(f"attempt to reuse consumer tag '{tag}'")
        found = self.broker.queue(self.vhost, queue)
        self.subscriptions[tag] = consumer = SimpleNamespace(
            tag=tag, queue=found, session=self, sink=self, no_ack=how["no_ack"], exclusive=how["exclusive"],
            prefetch=self.prefetch, outstanding=0, priority=0, active=True, arguments=how["arguments"],
            offset=found.begin(how["arguments"]),
        )  # fmt: skip
        found.consumers.append(consumer)
        return Pending.of(tag)

    def has_room(self, consumer: Any) -> bool:
        return consumer.no_ack or not consumer.prefetch or len(self.unacknowledged) < consumer.prefetch

    def deliver(self, consumer: Any, stored: Stored, offset: int | None = None) -> None:
        tag, self.next_tag = self.next_tag, self.next_tag + 1
        if not consumer.no_ack:
            self.unacknowledged[tag] = (consumer.queue, stored)
        self.sink.deliver(consumer, tag, slice_of(stored, offset), stored.content)

    def cancel(self, tag: str, now: int) -> Pending[None]:
        consumer = self.subscriptions.pop(tag, None)
        if consumer is not None:
            consumer.queue.consumers.remove(consumer)
        return Pending.of(None)

    def get(self, queue: str, no_ack: bool, now: int) -> Pending[Any]:
        found = self.broker.queue(self.vhost, queue)
        if not found.ready:
            return Pending.of(None)
        stored = found.ready.popleft()
        tag, self.next_tag = self.next_tag, self.next_tag + 1
        if not no_ack:
            self.unacknowledged[tag] = (found, stored)
        got = SimpleNamespace(tag=tag, piece=slice_of(stored), content=stored.content, remaining=len(found.ready))
        return Pending.of(got)

    def browse(self, queue: str, skip: int, limit: int, now: int) -> Pending[list[Browsed]]:
        ready = list(self.broker.queue(self.vhost, queue).ready)[skip : skip + limit]
        counts = {True: (1, 2), False: (0, 0)}
        return Pending.of(
            [
                Browsed(one.exchange, one.routing_key, one.content, True, one.redelivered, *counts[one.redelivered])
                for one in ready
            ]
        )

    def browse_from(self, queue: str, offset: object, limit: int, now: int) -> Pending[list[Browsed]]:
        found = self.broker.queue(self.vhost, queue)
        if offset == "soon":
            raise PreconditionFailed(f"{offset!r} is no place")
        first = found.begin({"x-stream-offset": offset})
        ready = list(enumerate(found.ready))[first : first + limit]
        return Pending.of([Browsed("", "k", one.content, True, offset=at) for at, one in ready])

    def acknowledge(self, first: int, last: int, multiple: bool, now: int) -> None:
        for tag in range(first, last + 1):
            self._take_out(tag)

    def reject(self, tag: int, requeue: bool, now: int) -> None:
        queue, stored = self._take_out(tag)
        if requeue and not queue.is_stream:
            stored.redelivered = True
            queue.ready.appendleft(stored)

    def _take_out(self, tag: int) -> tuple[FakeQueue, Stored]:
        if tag not in self.unacknowledged:
            raise PreconditionFailed(f"unknown delivery tag {tag}")
        return self.unacknowledged.pop(tag)

    def resume(self, now: int) -> None:
        """Queues are pumped at the end of each turn."""

    def declare_queue(self, name: str, *, passive: bool, **how: Any) -> Pending[Any]:
        how.pop("now")
        if passive:
            self.broker.queue(self.vhost, name)
        elif (self.vhost, name) not in self.broker.fake_queues:
            wish = commands.DeclareQueue(self.vhost, name or "amq.gen-fake", **how)
            record = self.broker.catalog.apply(wish)
            name = record.name
            self.broker.fake_queues[self.vhost, name] = FakeQueue(record)
        queue = self.broker.fake_queues[self.vhost, name]
        return Pending.of(SimpleNamespace(name=name, ready=len(queue.ready), consumers=len(queue.consumers)))

    def readable(self, name: str) -> SimpleNamespace:
        return SimpleNamespace(queue=self.broker.queue(self.vhost, name))

    def delete_queue(self, name: str, *, if_unused: bool, if_empty: bool, now: int) -> Pending[int]:
        queue = self.broker.fake_queues.get((self.vhost, name))
        if queue is None:
            return Pending.of(0)
        if (if_unused and queue.consumers) or (if_empty and queue.ready):
            return Pending.failed(PreconditionFailed(f"queue '{name}' in use or not empty"))
        del self.broker.fake_queues[self.vhost, name]
        self.broker.catalog.apply(commands.DeleteQueue(self.vhost, name))
        for consumer in list(queue.consumers):
            consumer.session.cancel(consumer.tag, now)
            consumer.session.sink.cancelled(consumer.tag)
        return Pending.of(len(queue.ready))

    def purge_queue(self, name: str, now: int) -> Pending[int]:
        queue = self.broker.queue(self.vhost, name)
        count = len(queue.ready)
        queue.ready.clear()
        return Pending.of(count)

    def declare_exchange(self, name: str, kind: str, *, passive: bool, now: int, **how: Any) -> Pending[None]:
        if passive and self.broker.catalog.exchange(self.vhost, name) is None:
            raise NotFound(f"no exchange '{name}' in vhost '{self.vhost}'")
        if not passive:
            self.broker.catalog.apply(commands.DeclareExchange(ExchangeRecord(self.vhost, name, kind, **how)))
        return Pending.of(None)

    def delete_exchange(self, name: str, *, if_unused: bool, now: int) -> Pending[None]:
        self.broker.catalog.apply(commands.DeleteExchange(self.vhost, name, if_unused))
        return Pending.of(None)

    def _binding(self, source: str, destination: str, kind: str, key: str, arguments: Any) -> BindingRecord:
        return BindingRecord(self.vhost, source, destination, kind, key, arguments)

    def bind_queue(self, queue: str, exchange: str, key: str, arguments: Any, now: int) -> Pending[None]:
        self.broker.catalog.apply(commands.Bind(self._binding(exchange, queue, "queue", key, arguments)))
        return Pending.of(None)

    def unbind_queue(self, queue: str, exchange: str, key: str, arguments: Any, now: int) -> Pending[None]:
        self.broker.catalog.apply(commands.Unbind(self._binding(exchange, queue, "queue", key, arguments)))
        return Pending.of(None)

    def bind_exchange(self, destination: str, source: str, key: str, arguments: Any, now: int) -> Pending[None]:
        self.broker.catalog.apply(commands.Bind(self._binding(source, destination, "exchange", key, arguments)))
        return Pending.of(None)

    def unbind_exchange(self, destination: str, source: str, key: str, arguments: Any, now: int) -> Pending[None]:
        self.broker.catalog.apply(commands.Unbind(self._binding(source, destination, "exchange", key, arguments)))
        return Pending.of(None)

    def close(self, now: int) -> None:
        for tag in list(self.subscriptions):
            self.cancel(tag, now)
        for tag in sorted(self.unacknowledged, reverse=True):
            self.reject(tag, True, now)
        self.broker.open_sessions.remove(self)


class FakeStreamClient:
    """Offsets are stored at once; super streams are lists of names."""

    def __init__(self, broker: FakeBroker, vhost: str) -> None:
        self.broker, self.vhost = broker, vhost
        self.closed = False

    def store_offset(self, reference: str, stream: str, offset: int, now: int) -> None:
        self.broker.queue(self.vhost, stream).stored[reference] = offset

    def query_offset(self, reference: str, stream: str, now: int) -> Pending[int | None]:
        return Pending.of(self.broker.queue(self.vhost, stream).stored.get(reference))

    def publisher_sequence(self, reference: str, stream: str, now: int) -> Pending[int]:
        return Pending.of(self.broker.queue(self.vhost, stream).numbers.get(reference, 0))

    def create_super_stream(
        self, name: str, partitions: tuple[str, ...], keys: tuple[str, ...], arguments: dict[str, Any], now: int
    ) -> Pending[bool]:
        is_new = name not in self.broker.super_streams
        self.broker.super_streams.setdefault(name, (partitions, keys, arguments))
        for one in partitions:
            kind = {"x-queue-type": "stream"}
            wish = commands.DeclareQueue(
                self.vhost, one, durable=True, exclusive=False, auto_delete=False, arguments=kind
            )
            self.broker.fake_queues[self.vhost, one] = FakeQueue(self.broker.catalog.apply(wish))
        return Pending.of(is_new)

    def delete_super_stream(self, name: str, now: int) -> Pending[None]:
        for one in self._super_stream(name):
            del self.broker.fake_queues[self.vhost, one]
            self.broker.catalog.apply(commands.DeleteQueue(self.vhost, one))
        del self.broker.super_streams[name]
        return Pending.of(None)

    def partitions(self, name: str, now: int) -> Pending[tuple[str, ...]]:
        return Pending.of(self._super_stream(name))

    def _super_stream(self, name: str) -> tuple[str, ...]:
        if name not in self.broker.super_streams:
            raise NotFound(f"no super stream '{name}' in vhost '{self.vhost}'")
        return self.broker.super_streams[name][0]

    def close(self, now: int) -> None:
        assert not self.closed, "a client is closed once"
        self.closed = True


def slice_of(stored: Stored, offset: int | None = None) -> Slice:
    queue: Any = None
    return Slice(queue, None, 0, 1, 0, stored.exchange, stored.routing_key, stored.redelivered, offset=offset)


class FakeCluster:
    """One node. Notes what is asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.phases: list[DecommissionProgress] = []
        self.obstacles: list[str] = []
        self.forgotten = 0  # classic queues that go with a node

    def status(self) -> ClusterView:
        alarm = AlarmFacts("memory", "above the watermark", 1_000)
        node = NodeView("n1", 1, "disk", "n1:5681", "z", False, True, NOW, "0.1.0", alarms=[alarm])
        return ClusterView("c1", "cluster", "n1", [node], "n1", 3, ["n1"], [], ["look at n1"])

    async def join_cluster(self, address: str) -> None:
        self.asked.append(f"join {address}")

    async def leave(self, *, lose_queues: bool = False) -> None:
        self.asked.append(f"leave{' and lose queues' if lose_queues else ''}")

    def critical(self, name: str) -> tuple[str, list[str]]:
        return (name or "n1"), ([] if name == "n2" else ["2 quorum queues have no majority"])

    def plan_forget(self, name: str, limit: int) -> ForgetPlan:
        lost = [ForgottenQueue("/", f"c{number}") for number in range(self.forgotten)]
        return ForgetPlan(name, len(lost), lost[:limit], self.obstacles)

    async def forget(self, name: str, *, anyway: bool = False) -> None:
        self.asked.append(f"forget {name}{' anyway' if anyway else ''}")

    async def change_kind(self, kind: str) -> None:
        self.asked.append(f"change {kind}")

    def plan_decommission(self) -> DecommissionPlan:
        move = PlannedMove("/", "q", "quorum", "n2", copies=3, copies_before=3, copies_wanted=3, leads=True, bytes=5)
        return DecommissionPlan("n1", [move], [LostQueue("/", "c", 7, 70)], self.obstacles)

    def decommission(self, *, lose_queues: bool) -> None:
        self.asked.append(f"decommission{' and lose queues' if lose_queues else ''}")

    def stay(self) -> None:
        self.asked.append("stay")

    def decommission_progress(self) -> DecommissionProgress:
        """Further each time that it is asked after the begin."""
        return self.phases.pop(0) if self.asked and self.phases else DecommissionProgress("n1")

    async def drain(self) -> None:
        self.asked.append("drain")

    async def revive(self) -> None:
        self.asked.append("revive")


class FakeMembers:
    """Notes what it is asked; queue 'q' has members on n1, which leads, and on n2."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.group_of: GroupView | None = None
        self.moves: list[MemberMoveView] = []
        self.goes_on: asyncio.Event | None = None  # behind each move it waits for this

    async def group(self, vhost: str, queue: str) -> GroupView | None:
        return self.group_of

    async def add(self, vhost: str, queue: str, node: str) -> None:
        self.asked.append(f"add {vhost} {queue} {node}")

    async def delete(self, vhost: str, queue: str, node: str, *, anyway: bool) -> None:
        self.asked.append(f"delete {vhost} {queue} {node}{' anyway' if anyway else ''}")

    async def transfer(self, vhost: str, queue: str, node: str) -> None:
        self.asked.append(f"transfer {vhost} {queue} {node}")

    async def grow(self, node: str, chosen: Chosen, *, even_only: bool) -> Sequence[ChangeView]:
        self.asked.append(f"grow {node} {chosen.vhost_pattern} {chosen.queue_pattern}{' even' if even_only else ''}")
        return [ChangeView("/", "q", f"a member on {node} was added"), ChangeView("/", "r", "", "it has no leader")]

    async def grow_to(self, count: int, chosen: Chosen) -> Sequence[ChangeView]:
        self.asked.append(f"grow to {count} {chosen.queue_pattern}")
        return [ChangeView("/", "q", "members on n2, n3 were added")]

    async def shrink(self, node: str, chosen: Chosen, *, anyway: bool) -> Sequence[ChangeView]:
        self.asked.append(f"shrink {node} {chosen.queue_pattern}{' anyway' if anyway else ''}")
        return [ChangeView("/", "q", f"the member on {node} was removed")]

    async def rebalance(self, chosen: Chosen, by: str = "queues", *, dry_run: bool = False) -> Sequence[ChangeView]:
        how = f" by {by}" if by != "queues" else ""
        self.asked.append(
            f"rebalance {chosen.queue_pattern}{' ' if chosen.kind else ''}{chosen.kind}{how}{' dry' if dry_run else ''}"
        )
        return []

    async def move_members(
        self, chosen: Chosen, by: str = "queues", *, dry_run: bool = False
    ) -> AsyncGenerator[MemberMoveView, None]:
        self.asked.append(f"move {chosen.queue_pattern} {chosen.kind} by {by}{' dry' if dry_run else ''}")
        for view in self.moves:
            yield view
            if self.goes_on is not None:
                await self.goes_on.wait()


class FakeNode:
    node_name = "n1"
    identity: ClassVar = {"product_name": "Leveret", "product_version": "0.1.0", "node": "n1", "cluster_name": "c1"}

    def __init__(self) -> None:
        self.level = "info"

    def facts(self) -> NodeFacts:
        return NodeFacts(
            cluster_name="c1", version="0.1.0", python_version="3.11", kernels="compiled", process_id=1,
            started_at_ms=NOW, data_dir="var", memory_bytes=1, memory_limit_bytes=2, disk_free_bytes=3,
            disk_free_limit_bytes=4, log_level=self.level, listeners=[ListenerFacts("grpc", "127.0.0.1:5680")],
        )  # fmt: skip

    def alarms(self) -> list[AlarmFacts]:
        return [AlarmFacts("memory", "above the watermark", NOW)]

    def effective_config(self) -> str:
        return 'node.name = "fake"\n'

    def set_log_level(self, level: str) -> None:
        self.level = level

    @property
    def password_hashes(self) -> PasswordHashes:
        return Hashes()

    def hash_password(self, password: bytes, current: str | None = None) -> Pending[str]:
        return Pending.of(f"hash of {password.decode()}")


class FixedClock:
    def wall_ms(self) -> int:
        return NOW


@dataclass
class Running:
    broker: FakeBroker
    server: Server
    target: str
    cluster: FakeCluster
    members: FakeMembers
    moves: MemberMoves


class FakeShovels:
    """One shovel runs here, and each that is declared."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.restarted: list[str] = []

    def facts(self) -> list[ShovelFacts]:
        declared = [one.name for one in self._catalog.parameters() if one.component == COMPONENT]
        return [self._facts(name) for name in dict.fromkeys(["first", *declared])]

    def _facts(self, name: str) -> ShovelFacts:
        source = ShovelEnd("amqp://old", "amqp091", "orders", None, None)
        destination = ShovelEnd("amqp://", "amqp091", "", "events", "new")
        return ShovelFacts("/", name, "running", "", NOW, source, destination, 7, 9, 1, 2, 30, 4, 5, 6)

    def restart(self, vhost: str, name: str) -> bool:
        self.restarted.append(name)
        return any(one.name == name for one in self.facts())


class FakeFederation:
    """One link runs here. Fulfils NodeFederationPort."""

    def facts(self) -> list[FederationLinkFacts]:
        names = (
            "/",
            "exchange",
            "events",
            "origin",
            "events",
            "",
            "0a1b2c3d",
            "amqp://old",
            "running",
            "",
            NOW,
            "link",
        )
        return [FederationLinkFacts(*names, 30, 1, 2, 3, 4)]

    def restart(self, vhost: str, link_id: str) -> bool:
        return link_id == "0a1b2c3d"


class FakeLives:
    """Of any queue: a message that has died, and what it became; of message 4712 one node was not read."""

    async def find(self, queue: int, by: str, value: str) -> LivesFound:
        who = {
            "user": "ann",
            "address": "10.0.0.1:5",
            "connection": "",
            "product": "",
            "consumer_tag": "t",
            "other": "",
        }
        step = {"at": "2026-03-01T04:09:37.263+00:00", "event": "rejected", "reason": None, "who": who}
        died = {
            "queue": queue, "place": [7], "position": [queue, 7, 0, 0], "name": "//orders", "body_bytes": 4,
            "message_id": value, "correlation_id": None, "published_at": None, "exchange": "", "routing_key": "orders",
            "confirm": True, "publish_no": 1, "expires_at": None, "publisher": None, "died_in": None, "death_reason": None,
            "steps": [step], "steps_left_out": 3, "committed": True, "unknown": None, "was": None,
            "became": [{"queue": -1, "place": [0]}],
        }  # fmt: skip
        letter = {
            **died, "queue": -1, "place": [0], "name": "//dead", "steps": [], "steps_left_out": 0, "became": [],
            "death_reason": "rejected", "was": {"queue": queue, "place": [7]}, "committed": None,
        }  # fmt: skip
        unread = "it cannot be reached" if value == "4712" else ""
        nodes = [NodeRead("n1", "", 2, 9, 1, "a", "b", 0), NodeRead("n2", unread, 0, 0, 0, None, None, 0)]
        return LivesFound([died, letter], nodes, True)


def admin_ports(broker: Any) -> AdminPorts:
    operations = Operations(broker, FakeNode())
    own = FakeShovels(broker.catalog)
    everywhere = Everywhere(None)
    shovels = ClusterShovels("n1", broker.catalog, operations.parameters, everywhere, own)
    federation = ClusterFederation("n1", broker.catalog, everywhere, FakeFederation())
    members, lives, moves = FakeMembers(), FakeLives(), MemberMoves("n1", everywhere, lambda: 0)
    return AdminPorts(operations, FakeCluster(), members, moves, shovels=shovels, federation=federation, lives=lives)


@asynccontextmanager
async def running(tls: Tls | None = None, limits: GrpcLimits | None = None) -> AsyncIterator[Running]:
    broker: Any = FakeBroker()
    logger = logging.getLogger("test.grpc")
    admin = admin_ports(broker)
    server = await serve(broker, admin, "127.0.0.1:0", tls, logger, FixedClock(), limits)
    try:
        cluster: Any = admin.cluster
        members: Any = admin.members
        yield Running(broker, server, f"127.0.0.1:{server.port}", cluster, members, admin.moves)
    finally:
        await server.stop(grace_s=0)


async def until(condition: Callable[[], bool]) -> None:
    """Let everything run until this holds; the test's own time limit ends a wait in vain."""
    while not condition():  # noqa: ASYNC110  (what is waited for is the code under test, which has no event for us)
        await asyncio.sleep(0)


def bounded(work: Any, seconds: float = 20.0) -> Any:
    """Run a test's coroutine; a test that hangs fails."""

    async def run() -> Any:
        return await asyncio.wait_for(work, seconds)

    return asyncio.run(run())
