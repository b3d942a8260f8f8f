"""Dead letters at most once: published onward by the leader's node, in slices (broker/background_work.py) and in order.

One entry may bury thousands of messages, and to publish one takes several times as long as to bury it. So their messages are
read when the entry is applied, for the log may forget them soon, and wait here. What the machine buries next is put off while
too much waits: ticks first (quorum/leading.py), then publishers. First in, first out, for all queues of the node; what
still waits when the node stops is not published: it was to be at most once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol

from broker.queues.queue_type import DeadMessage, Queue, QueueHost
from native.content import singles, skip
from quorum.bodies import Body, counted
from quorum.dead_letters import place_of
from quorum.fifo.effects import DeadLetter

WAITING_MAX = 20_000  # dead letters, pieces of runs; beyond it publishers are to be held
# Beyond it nothing is buried by the clock: all publishers are not held for one policy that changed.
TICKS_WAITING_MAX = 2_000
WAITING_BYTES_MAX = 64 << 20  # of their messages; half of it for ticks
PER_STEP = 4  # messages; to publish one takes about 50 µs, more if it goes to several queues


class BuryingQueue(Queue, Protocol):
    """A queue whose messages have died."""

    @property
    def deleted(self) -> bool: ...


class DeadLettersOnce:
    """See the module. Of one node."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self.waiting: deque[tuple[BuryingQueue, DeadLetter, Body, int]] = deque()  # with the bytes of its messages
        self._bytes = 0
        self._under_way = False

    @property
    def is_full(self) -> bool:
        return len(self.waiting) > WAITING_MAX or self._bytes > WAITING_BYTES_MAX

    @property
    def holds_ticks(self) -> bool:
        return len(self.waiting) > TICKS_WAITING_MAX or self._bytes > WAITING_BYTES_MAX // 2

    def add(self, queue: BuryingQueue, dead: DeadLetter, body: Body) -> None:
        """In the middle of a round of all groups: nothing is published from here."""
        size = skip(body.content, body.position, dead.piece.length) - body.position
        self.waiting.append((queue, dead, body, size))
        self._bytes += size

    def pass_on(self, host: QueueHost) -> None:
        if self.waiting and not self._under_way:
            self._under_way = True
            host.work.do(self._publish_all(host))

    def _publish_all(self, host: QueueHost) -> Iterator[None]:
        try:
            while self.waiting:
                queue, dead, body, size = self.waiting.popleft()
                self._bytes -= size
                yield from self._publish(host, queue, dead, body)
        finally:
            self._under_way = False

    def _publish(self, host: QueueHost, queue: BuryingQueue, dead: DeadLetter, body: Body) -> Iterator[None]:
        counts = dead.delivery_count, dead.acquired_count
        contents = enumerate(singles(body.content, body.position, dead.piece.length))
        while not queue.deleted:
            messages = [
                DeadMessage(
                    body.exchange,
                    body.routing_key,
                    counted(one, *counts),
                    body.persistent,
                    place_of(dead.piece, passed),
                )
                for passed, one in islice(contents, PER_STEP)
            ]
            if not messages:
                return
            host.dead_letter(queue, dead.reason, messages, self._wall_ms())
            yield
