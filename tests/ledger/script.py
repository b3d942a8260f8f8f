"""What clients do, drawn from a seed, on one node: each way in which a message may leave a queue, or come back to it.

Every step ends when what it has caused is to be seen, so the next one knows what lies where; only what a queue hands out, and
in which order, is the queue's own affair, and written down as it comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from random import Random
from socket import SHUT_RDWR
from typing import Any

import pika
from pika.adapters.blocking_connection import BlockingChannel

from analytics.fold.lives import LifeState
from tests.ledger.classic_certainty import EARLY_S as EARLY_COMMIT_S
from tests.ledger.notes import SKEW_S, Notes, compared
from tests.ledger.told import told
from tests.running_node import RunningNode, start_node

SEEN_WITHIN_S = 20.0
LOOK_AGAIN_S = 0.02
# The time of a message of a classic queue is that of a commit's begin, which waits for the fsync of the one before.
EARLY_S = {"classic": EARLY_COMMIT_S, "quorum": SKEW_S}
MAX_LENGTH = 4
DELIVERY_LIMIT = 2
BATCH_MAX = 6

QUEUES = ("main", "gone", "prio", "fan1", "fan2", "brief", "short", "limited", "dead", "grave")

Delivery = tuple[int, str]  # tag and body


class Script:
    """One seed. Its queues have names of their own, so that many may run on one node."""

    def __init__(self, node: RunningNode, kind: str, seed: int) -> None:
        self.node = node
        self.notes = Notes()
        self._kind = kind
        self._seed = seed
        self._random = Random(f"{kind}.{seed}")
        self._bodies = 0
        self._connect()
        self._steps: list[Callable[[], None]] = [
            self._publish, self._publish, self._publish, self._get, self._get, self._get_without_ack, self._consume,
            self._consume_without_ack, self._purge, self._delete, self._expire, self._overfill, self._fan_out,
            self._lose_a_client,
        ]  # fmt: skip
        if kind == "quorum":
            self._steps.append(self._fail_too_often)

    def run(self, steps: int, *, kill: bool = False) -> Notes:
        """With `kill` the node is killed and started again half way."""
        for number in range(steps):
            if kill and number == steps // 2:
                self._kill_node()
            self._random.choice(self._steps)()
        self._connection.close()
        return self.notes

    # what there is

    def _name(self, queue: str) -> str:
        return f"{self._kind}.{self._seed}.{queue}"

    def _connect(self) -> None:
        self._connection = pika.BlockingConnection(pika.URLParameters(self.node.amqp_url))
        self._channel = self._connection.channel()
        self._channel.confirm_delivery()
        self._channel.exchange_declare(self._name("fan"), "fanout", durable=True)
        for queue in ("grave", "gone", "fan1", "fan2"):
            self._declare(queue)
        self._declare("dead", dead_to="grave")
        self._declare("main", dead_to="dead")
        self._declare("brief", dead_to="dead")
        self._declare("short", dead_to="dead", **{"x-max-length": MAX_LENGTH})
        self._declare(
            "limited", dead_to="dead", **{"x-delivery-limit": DELIVERY_LIMIT} if self._kind == "quorum" else {}
        )
        self._declare("prio", **{"x-max-priority": 5} if self._kind == "classic" else {})
        for queue in ("fan1", "fan2"):
            self._channel.queue_bind(self._name(queue), self._name("fan"))

    def _declare(self, queue: str, dead_to: str | None = None, **arguments: object) -> None:
        if dead_to is not None:
            arguments |= {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": self._name(dead_to)}
        self._channel.queue_declare(
            self._name(queue), durable=True, arguments={"x-queue-type": self._kind, **arguments}
        )

    def _wait_for(self, queue: str, ready: int) -> None:
        """Until so many messages are ready there."""
        until = time.monotonic() + SEEN_WITHIN_S
        while (found := self._count(queue)) != ready:
            assert time.monotonic() < until, f"{queue} has {found} messages ready, and should have {ready}"
            self._connection.sleep(LOOK_AGAIN_S)

    def _count(self, queue: str) -> int:
        return int(self._channel.queue_declare(self._name(queue), passive=True).method.message_count)

    def _settle_down(self, *queues: str) -> None:
        for queue in queues:
            self._wait_for(queue, len(self.notes.ready(self._name(queue))))

    # publishing

    def _send(self, exchange: str, key: str, *queues: str, priority: int = 0, expiration: str | None = None) -> str:
        self._bodies += 1
        body = f"{self._seed}.{self._bodies}"
        properties = pika.BasicProperties(delivery_mode=2, priority=priority, expiration=expiration)
        before = time.time()
        self._channel.basic_publish(exchange, key, body.encode(), properties, mandatory=True)
        for queue in queues:
            self.notes.published(self._name(queue), body, (before, time.time()))
        return body

    def _send_some(self, queue: str, **said: Any) -> list[str]:
        many = self._random.randint(1, BATCH_MAX)
        return [self._send("", self._name(queue), queue, **said) for _ in range(many)]

    def _publish(self) -> None:
        queue = self._random.choice(("main", "gone", "prio", "limited"))
        for _ in range(2):
            self._send_some(queue, priority=self._random.randint(0, 5) if queue == "prio" else 0)

    def _fan_out(self) -> None:
        self._send(self._name("fan"), "", "fan1", "fan2")

    def _expire(self) -> None:
        for body in self._send_some("brief", expiration="1"):
            self._die("brief", body, LifeState.EXPIRED)
        self._settle_down("brief", "dead")

    def _overfill(self) -> None:
        self._send_some("short")
        ready = self.notes.ready(self._name("short"))
        for body in ready[: max(0, len(ready) - MAX_LENGTH)]:
            self._die("short", body, LifeState.MAXLEN)
        self._settle_down("short", "dead")

    def _die(self, queue: str, body: str, state: LifeState) -> None:
        self._end(queue, body, state)
        dead_to = {"main": "dead", "brief": "dead", "short": "dead", "limited": "dead", "dead": "grave"}.get(queue)
        if dead_to is not None:
            self.notes.published(self._name(dead_to), body)

    # taking

    def _some_queue(self) -> str | None:
        filled = [
            queue for queue in ("main", "gone", "prio", "fan1", "dead", "grave") if self.notes.ready(self._name(queue))
        ]
        return self._random.choice(filled) if filled else None

    def _get(self) -> None:
        queue = self._some_queue()
        if queue is None:
            return
        for _ in range(self._random.randint(1, len(self.notes.ready(self._name(queue))))):
            self._settle(self._channel, queue, [self._got(queue)])
        self._settle_down(queue, "dead", "grave")

    def _got(self, queue: str, *, no_ack: bool = False) -> Delivery:
        method, _, body = self._channel.basic_get(self._name(queue), auto_ack=no_ack)
        assert method is not None and body is not None, f"{queue} has nothing, and should have some"
        self.notes.handed_out(self._name(queue), body.decode())
        return method.delivery_tag, body.decode()

    def _get_without_ack(self) -> None:
        queue = self._some_queue()
        if queue is not None:
            # For a client of a quorum queue that does not acknowledge its node does.
            state = LifeState.GOT if self._kind == "classic" else LifeState.ACKED
            self._end(queue, self._got(queue, no_ack=True)[1], state)
            self._settle_down(queue)

    def _consume(self) -> None:
        queue = self._some_queue()
        if queue is None:
            return
        channel = self._connection.channel()
        taken = self._consumed(self._connection, channel, queue)
        kept = self._settle(channel, queue, taken, may_keep=True)
        channel.close()
        for _, body in kept:
            self.notes.came_back(self._name(queue), body, "channel closed" if self._kind == "classic" else "failed")
        self._settle_down(queue, "dead", "grave")

    def _consumed(self, connection: pika.BlockingConnection, channel: BlockingChannel, queue: str) -> list[Delivery]:
        """A prefetch of messages, by a consumer that is cancelled then."""
        prefetch = self._random.randint(1, BATCH_MAX)
        channel.basic_qos(prefetch_count=prefetch)
        return self._delivered(connection, channel, queue, min(prefetch, len(self.notes.ready(self._name(queue)))))

    def _delivered(
        self, connection: pika.BlockingConnection, channel: BlockingChannel, queue: str, many: int, no_ack: bool = False
    ) -> list[Delivery]:
        taken: list[Delivery] = []

        def take(_: object, method: Any, __: object, body: bytes) -> None:
            self.notes.handed_out(self._name(queue), body.decode())
            taken.append((method.delivery_tag, body.decode()))

        tag = channel.basic_consume(self._name(queue), take, auto_ack=no_ack)
        until = time.monotonic() + SEEN_WITHIN_S
        while len(taken) < many:
            assert time.monotonic() < until, f"{queue} delivered {len(taken)} messages of {many}"
            connection.process_data_events(SEEN_WITHIN_S)
        channel.basic_cancel(tag)
        return taken

    def _consume_without_ack(self) -> None:
        queue = self._some_queue()
        if queue is None:
            return
        ready = len(self.notes.ready(self._name(queue)))
        channel = self._connection.channel()
        for _, body in self._delivered(self._connection, channel, queue, ready, no_ack=True):
            self._end(queue, body, LifeState.NO_ACK)
        channel.close()
        self._settle_down(queue)

    def _settle(
        self, channel: BlockingChannel, queue: str, taken: list[Delivery], *, may_keep: bool = False
    ) -> list[Delivery]:
        """Returns what is kept."""
        kept = []
        for tag, body in taken:
            what = self._random.choice(("ack", "ack", "ack", "nack", "requeue", "reject", "keep"))
            if what == "keep" and may_keep:
                kept.append((tag, body))
            elif what in ("ack", "keep"):
                channel.basic_ack(tag)
                self._end(queue, body, LifeState.ACKED)
            elif what == "nack":
                channel.basic_nack(tag, requeue=True)
                self.notes.came_back(self._name(queue), body, "nacked" if self._kind == "classic" else "released")
            elif what == "requeue":
                channel.basic_reject(tag, requeue=True)
                self.notes.came_back(self._name(queue), body, "rejected" if self._kind == "classic" else "failed")
            else:
                channel.basic_reject(tag, requeue=False)
                self._die(queue, body, LifeState.REJECTED)
        return kept

    def _end(self, queue: str, body: str, state: LifeState) -> None:
        self.notes.ended(self._name(queue), body, state)

    def _fail_too_often(self) -> None:
        if self.notes.ready(self._name("limited")):
            tag, body = self._got("limited")
            self._channel.basic_reject(tag, requeue=True)
            if self.notes.messages[self._name("limited")][body].times_out > DELIVERY_LIMIT:
                self._die("limited", body, LifeState.DELIVERY_LIMIT)
            else:
                self.notes.came_back(self._name("limited"), body, "failed")
            self._settle_down("limited", "dead")

    # whole queues, and ends without a word

    def _purge(self) -> None:
        queue = self._some_queue()
        if queue is not None:
            self._channel.queue_purge(self._name(queue))
            for body in self.notes.ready(self._name(queue)):
                self._end(queue, body, LifeState.PURGED)

    def _delete(self) -> None:
        self._channel.queue_delete(self._name("gone"))
        for body in self.notes.ready(self._name("gone")):
            self._end("gone", body, LifeState.DELETED)
        self._declare("gone")

    def _lose_a_client(self) -> None:
        """One that has messages, and whose process is killed: its socket is closed, and it has not said a word."""
        queue = self._some_queue()
        if queue is None:
            return
        connection = pika.BlockingConnection(pika.URLParameters(self.node.amqp_url))
        taken = self._consumed(connection, connection.channel(), queue)
        connection._impl._transport._sock.shutdown(SHUT_RDWR)
        for _, body in taken:
            self.notes.came_back(self._name(queue), body, "connection lost" if self._kind == "classic" else "failed")
        self._settle_down(queue)

    def _until_written(self) -> None:
        """The log tells all that has happened: a message that died and is there again after a kill would die once more."""
        until = time.monotonic() + SEEN_WITHIN_S
        while found := self._unwritten():
            assert time.monotonic() < until, f"the log does not tell it yet: {found}"
            self._connection.sleep(LOOK_AGAIN_S)

    def _unwritten(self) -> list[str]:
        mine = {queue: rows for queue, rows in told(self.node.data_dir).items() if queue in self.notes.messages}
        return compared(self.notes, mine, EARLY_S[self._kind])

    def _send_and_acknowledge(self) -> str:
        self._send("", self._name("main"), "main")
        tag, body = self._got("main")
        self._channel.basic_ack(tag)
        self.notes.ended(self._name("main"), body, LifeState.ACKED)
        return body

    def _kill_node(self) -> None:
        """kill -9, while a client has a message out and others were acknowledged just now. Then everything is taken, so that it
        is known again what lies where."""
        self._until_written()
        acked = [self._send_and_acknowledge() for _ in range(self._random.randint(1, BATCH_MAX))]
        self._send("", self._name("main"), "main")
        self._got("main")
        self.node.kill()
        self.notes.node_killed({(self._name("main"), body) for body in acked})
        self.node = start_node(self.node.data_dir)
        self._connect()
        for queue in QUEUES:
            self._take_all(queue)

    def _take_all(self, queue: str) -> None:
        """What a node held is back some time after its start."""
        until = time.monotonic() + SEEN_WITHIN_S
        while True:
            method, _, body = self._channel.basic_get(self._name(queue))
            if method is not None and body is not None:
                self.notes.taken_after_kill(self._name(queue), body.decode())
                self._channel.basic_ack(method.delivery_tag)
            elif missing := self.notes.ready(self._name(queue)):
                assert time.monotonic() < until, f"{missing} did not come back to {queue}"
                self._connection.sleep(LOOK_AGAIN_S)
            else:
                return
