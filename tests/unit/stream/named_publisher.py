"""A publisher of a stream client: it publishes items under its name, if it has one, with ids that ascend, and notes what is
confirmed."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from functools import partial
from itertools import groupby

from broker.messages.confirms import Receipt
from broker.records import QueueRecord
from raft.core.messages import NodeId
from stream.chunks.chunk import SubBatch, message_item, sub_batch_item
from stream.queue import StreamQueue
from tests.unit.quorum.clients import Clients
from wire.stream.publish_frame import StreamRun, pack_ids


def run_of(ids: Sequence[int], bodies: Sequence[bytes], values: Sequence[bytes | None] = ()) -> StreamRun:
    given = frozenset([value for value in values if value is not None])
    items = b"".join(map(message_item, bodies))
    return StreamRun(len(ids), len(bodies), pack_ids(list(ids)), items, given, None in values or not values)


def batches_of(ids: Sequence[int], batches: Sequence[Sequence[bytes]], *, zipped: bool = False) -> StreamRun:
    """A sub-batch for each id."""
    packed = [b"".join(map(message_item, bodies)) for bodies in batches]
    items = [
        sub_batch_item(SubBatch(int(zipped), len(bodies), len(one), gzip.compress(one) if zipped else one))
        for bodies, one in zip(batches, packed, strict=True)
    ]
    messages, unpacked = sum(map(len, batches)), sum(map(len, packed))
    return StreamRun(len(ids), messages, pack_ids(list(ids)), b"".join(items), unpacked_bytes=unpacked)


class NamedPublisher:
    """On one node. Fulfils AnswersTo."""

    def __init__(self, clients: Clients, node: NodeId, record: QueueRecord, name: str) -> None:
        self.clients = clients
        self.node = node
        self.record = record
        self.name = name
        self.confirmed: list[int] = []  # receipts, by the id that they begin with
        self.owed = 0

    @property
    def queue(self) -> StreamQueue:
        queue: StreamQueue = self.clients.of(self.node, self.record)[1]
        return queue

    def publish(self, run: StreamRun) -> None:
        self.owed += 1
        self.queue.publish_items(self.name, run, Receipt(self, run.first_id, run.last_id, 1))

    def answered(self, receipt: Receipt) -> None:
        assert receipt.taken
        self.confirmed.append(receipt.first)
        self.owed -= 1

    def given_up(self, receipt: Receipt) -> None:
        raise AssertionError(receipt)


class NamedClient:
    """One that goes from node to node: what was not confirmed there it publishes again, before anything new, each id as it was:
    a message, or a sub-batch, some of them compressed. It stores how far it is, too, and asks for that."""

    def __init__(self, clients: Clients, record: QueueRecord, name: str, node: NodeId) -> None:
        self.clients = clients
        self.record = record
        self.name = name
        self.confirmed = 0  # all ids up to this one
        self.published = 0
        self.stored = 0
        self.known = 0  # as it was answered last
        self.cut_off = False  # its node has died: it publishes nothing more before it has moved
        self.move(node)

    def move(self, node: NodeId) -> None:
        self.cut_off = False
        self.node = node
        self.publisher = NamedPublisher(self.clients, node, self.record, self.name)
        self.publisher.answered = partial(self._answered, self.publisher)  # type: ignore[method-assign]
        if self.published > self.confirmed:
            self._publish(range(self.confirmed + 1, self.published + 1))

    def publish(self, count: int) -> None:
        self._publish(range(self.published + 1, self.published + count + 1))
        self.published += count

    def _publish(self, ids: Sequence[int]) -> None:
        for size, alike in groupby(ids, self.batch_size):
            some = list(alike)
            if size:
                batches = [[self.body(number, place) for place in range(size)] for number in some]
                self.publisher.publish(batches_of(some, batches, zipped=size == 2))
            else:
                values = [b"%d" % (number % 3) for number in some]
                self.publisher.publish(run_of(some, [self.body(number) for number in some], values))

    @staticmethod
    def batch_size(number: int) -> int:
        """How many messages the sub-batch with this id has; 0: it is a message."""
        return (0, 0, 0, 1, 1, 2, 2, 3)[number % 8]

    def body(self, number: int, place: int = 0) -> bytes:
        """Of the message at this place of its sub-batch."""
        return b"%s.%d-%d" % (self.name.encode(), place, number)

    def _answered(self, publisher: NamedPublisher, receipt: Receipt) -> None:
        assert receipt.taken
        if publisher is self.publisher:
            assert receipt.first <= self.confirmed + 1, "confirms out of order"
            self.confirmed = max(self.confirmed, receipt.last)

    def store(self) -> None:
        self.stored += 1
        self.publisher.queue.store_offset(self.name, self.stored, self.clients.now)

    def ask(self, node: NodeId) -> None:
        """Whoever asks is told no less than who was answered before."""
        queue: StreamQueue = self.clients.of(node, self.record)[1]
        known = self.known

        def told(offset: int | None) -> None:
            assert known <= (offset or 0) <= self.stored, f"{offset} is stored, where it was {known} before"
            self.known = max(self.known, offset or 0)

        queue.query_offset(self.name, self.clients.now).then(told, lambda error: None)
