"""A publisher of a stream client: it publishes items under its name, if it has one, with ids that ascend, and notes what is
confirmed."""

from __future__ import annotations

from collections.abc import Sequence

from broker.confirms import Receipt
from broker.records import QueueRecord
from raft.core.messages import NodeId
from stream.chunk import SubBatch, message_item, sub_batch_item
from stream.queue import StreamQueue
from tests.unit.quorum.clients import Clients
from wire.stream.publish_frame import StreamRun, pack_ids


def run_of(
    ids: Sequence[int], bodies: Sequence[bytes], values: Sequence[bytes | None] = (), *, sub_batch: bool = False
) -> StreamRun:
    items = b"".join(map(message_item, bodies))
    if sub_batch:
        items = sub_batch_item(SubBatch(0, len(bodies), len(items), items))
    given = frozenset([value for value in values if value is not None])
    return StreamRun(len(ids), len(bodies), pack_ids(list(ids)), items, given, None in values or not values)


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
