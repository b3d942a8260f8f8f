"""Clients of quorum queues in a simulated cluster: they publish numbered messages, take them, and note what they were told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.background_work import Unsliced
from broker.errors import BrokerError, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import DeadMessage, DeathReason, Got, Outcome, Queue, Slice
from broker.records import QueueRecord
from broker.timers import Delays, Timers
from native.content import encode, messages
from raft.core.messages import NodeId
from tests.unit.quorum.nodes import Cluster

NO_PROPERTIES = b"\0\0"


class Host:
    """The broker of one node. Its turns end by themselves."""

    def __init__(self, clients: Clients, node: NodeId) -> None:
        self.clients = clients
        self.node = node
        self.woken: dict[Queue, None] = {}
        self.timers = Timers(self._tick_at)
        self.delays = Delays(self._steady_ms, self._tick_in)
        self.dead: list[tuple[DeathReason, bytes]] = []
        self.to_delete: list[tuple[Queue, str]] = []
        self.target: Any = None  # of dead letters that are to be confirmed
        self.work = Unsliced()

    def wake(self, queue: Queue) -> None:
        if not self.woken:
            self.clients.cluster.loop.call_soon(self._turn)
        self.woken[queue] = None

    def _turn(self) -> None:
        while self.woken:
            woken, self.woken = self.woken, {}
            for queue in woken:
                queue.pump(self.clients.now)

    def call_at(self, when: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self.timers.call_at(when, call)

    def call_after(self, delay_ms: int, call: Callable[[int], None]) -> Callable[[], None]:
        return self.delays.call_after(delay_ms, call)

    def _steady_ms(self) -> int:
        return int(self.clients.cluster.loop.clock.monotonic() * 1000)

    def _tick_in(self, delay_ms: int) -> None:
        self.clients.cluster.loop.call_later(delay_ms / 1000, lambda: self.delays.tick(self.clients.now))

    def _tick_at(self, when: int) -> None:
        delay = max(0, when - self.clients.now) / 1000
        self.clients.cluster.loop.call_later(delay, lambda: self.timers.tick(self.clients.now))

    def dead_letter(self, queue: Queue, reason: DeathReason, dead: Sequence[DeadMessage], now: int) -> None:
        self.dead += [(reason, messages(content, 0, 1)[0][1]) for _, _, content, *_ in dead]

    def dead_letter_confirmed(self, *arguments: Any) -> None:
        self.target.dead_letter_confirmed(*arguments)

    def release(self, *arguments: Any) -> None:
        self.target.release(*arguments)

    def delete_queue(self, queue: Queue, reason: str, unused: Callable[[], bool] | None = None) -> None:
        self.to_delete.append((queue, reason))


class Publisher:
    """One channel with confirms, on one node. Fulfils AnswersTo."""

    def __init__(self, clients: Clients, node: NodeId, record: QueueRecord, name: str = "") -> None:
        self.clients = clients
        self.node = node
        self.record = record
        self.name = name
        self.next = 0
        self.confirmed: list[bytes] = []
        self.refused: list[bytes] = []
        self.all: list[bytes] = []
        self.closed = False  # its node died
        self._bodies: dict[int, list[bytes]] = {}

    def publish(self, count: int = 1, **properties: Any) -> list[bytes]:
        bodies = [f"{self.name}{number}".encode() for number in range(self.next, self.next + count)]
        content = b"".join([encode(NO_PROPERTIES, body) for body in bodies])
        receipt = Receipt(self, self.next, self.next + count - 1, 1)
        self._bodies[self.next] = bodies
        self.all += bodies
        self.next += count
        run = Run("", "key", content, count, sum(map(len, bodies)), persistent=True, **properties)
        kind, queue = self.clients.of(self.node, self.record)
        try:
            kind.publish((queue,), run, receipt, self.clients.now)
        except ResourceExhausted:
            self.refused += bodies
        return bodies

    def answered(self, receipt: Receipt) -> None:
        bodies = self._bodies.pop(receipt.first)
        at = receipt.first
        for first, last, accepted in receipt.answers():
            (self.confirmed if accepted else self.refused).extend(bodies[first - at : last + 1 - at])

    def given_up(self, receipt: Receipt) -> None:
        self.refused += self._bodies.pop(receipt.first)


class Taker:
    """One consumer on one node. Fulfils DeliverySink."""

    def __init__(
        self, clients: Clients, node: NodeId, record: QueueRecord, *, settles: bool = True, **properties: Any
    ) -> None:
        self.clients = clients
        self.node = node
        self.writable = True
        self.settles = settles
        self.got: list[tuple[bytes, bool]] = []  # body, redelivered
        self.held: list[Slice] = []
        self.settled: list[bytes] = []
        self.cancelled = False
        self.left = False
        self.lost = False  # its node died
        self.acknowledged_before_death: list[bytes] = []  # of these nobody knows whether the group has heard
        self._held_bodies: list[bytes] = []
        self.errors: list[BrokerError] = []
        _, self.queue = clients.of(node, record)
        self.consumer = Consumer(properties.pop("tag", f"c{node}"), self.queue, self, **properties)
        self.answered = False
        consuming = self.queue.consume(self.consumer, clients.now)
        if consuming is not None:
            consuming.then(lambda _: setattr(self, "answered", True), self.errors.append)

    @property
    def bodies(self) -> list[bytes]:
        return [body for body, _ in self.got]

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        assert self.writable, "a delivery to a sink that is not writable"
        assert not self.left, "a delivery to a consumer that has left"
        assert self.answered, "a delivery before consume was answered"
        bodies = [body for _, body in messages(content, piece.position, piece.count)]
        self.got += [(body, piece.redelivered) for body in bodies]
        if consumer.no_ack:
            return
        if self.settles:
            consumer.outstanding -= piece.count
            self.settled += bodies
            self.queue.settle(piece, Outcome.ACKNOWLEDGED, self.clients.now)
            self.clients.hosts[self.node].wake(self.queue)
        else:
            self.held.append(piece)
            self._held_bodies += bodies

    def held_bodies(self) -> list[bytes]:
        return list(self._held_bodies)

    def settle_all(self, outcome: Outcome = Outcome.ACKNOWLEDGED) -> None:
        held, self.held = self.held, []
        if outcome is Outcome.ACKNOWLEDGED:
            self.acknowledged_before_death += self._held_bodies
        self._held_bodies = []
        for piece in held:
            self.consumer.outstanding -= piece.count
            self.queue.settle(piece, outcome, self.clients.now)
        self.clients.hosts[self.node].wake(self.queue)

    def cancel(self) -> None:
        self.left = True
        self.queue.cancel(self.consumer, self.clients.now)

    def session_ends(self) -> None:
        """As broker.session closes a channel."""
        self.consumer.session_ends = True
        self.cancel()
        self.settle_all(Outcome.REQUEUED)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        self.cancelled = True
        self.left = True


class Clients:
    """A cluster and everybody who is connected to it."""

    cluster_type = Cluster

    def __init__(self, count: int = 3, **options: Any) -> None:
        self.hosts: dict[NodeId, Host] = {}
        self.cluster = self.cluster_type(count, self.host, **options)

    @property
    def now(self) -> int:
        return self.cluster.loop.clock.wall_ms()

    def host(self, node: NodeId) -> Host:
        self.hosts[node] = Host(self, node)
        return self.hosts[node]

    def of(self, node: NodeId, record: QueueRecord) -> Any:
        found = self.cluster.nodes[node]
        return found.kind, found.queue(record)

    def get(self, node: NodeId, record: QueueRecord, no_ack: bool = True, within_s: float = 2.0) -> bytes | None:
        """The body of one message."""
        answers: list[Got | None] = []
        _, queue = self.of(node, record)
        queue.get(no_ack, self.now).then(answers.append, _unexpected)
        until = self.cluster.loop.time() + within_s
        while not answers:
            assert self.cluster.loop.time() < until, f"no answer within {within_s} s"
            self.cluster.run(0.005)
        got = answers[0]
        return messages(got.content, got.piece.position, 1)[0][1] if got is not None else None

    def drain(self, node: NodeId, record: QueueRecord) -> list[bytes]:
        found: list[bytes] = []
        while (body := self.get(node, record)) is not None:
            found.append(body)
        return found


def _unexpected(error: BrokerError) -> None:
    raise error
