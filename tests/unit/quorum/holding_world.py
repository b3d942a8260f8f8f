"""Nodes with the queue of a delayed exchange, and what its messages are released to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from broker.messages.message import LOOK_HEADERS, Run
from broker.queues.queue_type import Arrival, DeadMessage, DeathReason, OnArrival, Queue
from native.content import encode, messages
from quorum.fifo.versions import VERSION_NEWEST
from tests.unit.quorum.clients import Clients
from wire.amqp.tables import encode_properties


class ReleasedTo:
    """What the messages are released to. Every node's host asks it."""

    def __init__(self, clients: Clients) -> None:
        self.clients = clients
        self.full: set[bytes] = set()  # whose queue refuses them
        self.silent = False
        self.released: list[tuple[bytes, float]] = []  # and when
        self.refused = 0

    def dead_letter_confirmed(
        self, queue: Queue, reason: DeathReason, message: DeadMessage, now: int, reached: set[int],
        on_answer: Callable[[Arrival], None],
    ) -> None:  # fmt: skip
        body = messages(message.content, 0, 1)[0][1]
        if body in self.full:
            self.refused += 1
            on_answer(Arrival.REFUSED)
            return
        self.released.append((body, self.clients.cluster.loop.time()))
        if not self.silent:
            on_answer(Arrival.ARRIVED)

    def release(self, queue: Queue, messages: Sequence[DeadMessage], now: int, on_answer: OnArrival) -> None:
        """Those that come together are told one by one what became of them."""
        for nth, message in enumerate(messages):
            self.dead_letter_confirmed(
                queue, DeathReason.EXPIRED, message, now, set(),
                lambda arrival, nth=nth: on_answer([nth], arrival, set()),
            )  # fmt: skip

    @property
    def bodies(self) -> list[bytes]:
        return [body for body, _ in self.released]


class HoldingWorld:
    """Nodes, the first three with the queue of exchange `x`."""

    def __init__(self, nodes: int = 3, version: int = VERSION_NEWEST, **arguments: Any) -> None:
        self.clients = Clients(nodes)
        self.cluster = self.clients.cluster
        for node in self.cluster.alive():
            node.kind.machine_version = version
        self.exchange = ReleasedTo(self.clients)
        for host in self.clients.hosts.values():
            host.target = self.exchange
        self.record = self.cluster.declare("amq.delayed.x", [1, 2, 3], home=1, **arguments)
        self.cluster.leader(self.record)
        self.at: dict[bytes, float] = {}  # when each may be released

    def publish(self, delay_ms: Any, *bodies: bytes, node: int = 1) -> None:
        props = encode_properties({"headers": {"x-delay": delay_ms}})
        content = b"".join([encode(props, body) for body in bodies])
        run = Run("x", "key", content, len(bodies), sum(map(len, bodies)), persistent=True, look=LOOK_HEADERS)
        kind, queue = self.clients.of(node, self.record)
        kind.publish((queue,), run, None, self.clients.now)
        for body in bodies:
            self.at[body] = self.cluster.loop.time() + delay_ms / 1000

    def kept(self, node: int) -> int:
        figures = self.cluster.nodes[node].queue(self.record).member.machine.figures()
        return int(figures.ready + figures.dead)
