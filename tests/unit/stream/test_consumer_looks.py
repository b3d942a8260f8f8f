"""When consumers of a stream are looked at: stream/reading/readers.py and consumer_looks.py."""

from __future__ import annotations

from broker.queues.consumer import Consumer
from broker.queues.queue_type import Outcome, Slice
from broker.records import QueueRecord
from stream.reading.consumer_looks import FEW_CONSUMERS, LOOK_MS
from tests.unit.quorum.clients import Publisher
from tests.unit.stream.test_random_streams import StreamClients
from tests.unit.stream.test_stream_queue import published

MANY = 2 * FEW_CONSUMERS


class LookedAt:
    """A consumer on the first node, and its client, which notes how often it was asked if it reads. Fulfils DeliverySink."""

    def __init__(self, clients: StreamClients, record: QueueRecord, prefetch: int = 1, *, reads: bool = True) -> None:
        self.reads = reads
        self.asked = 0
        self.pieces: list[Slice] = []
        self.queue = clients.of(1, record)[1]
        arguments = {"x-stream-offset": "first"}
        self.consumer = Consumer("c", self.queue, self, prefetch=prefetch, arguments=arguments)
        self.queue.consume(self.consumer, clients.now)

    @property
    def writable(self) -> bool:
        self.asked += 1
        return self.reads

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        self.pieces.append(piece)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        raise AssertionError("nobody ended it")

    def settle_first(self, clients: StreamClients) -> None:
        self.consumer.settled(1)
        self.queue.settle(self.pieces[0], Outcome.ACKNOWLEDGED, clients.now)


def test_many_consumers_without_room_are_looked_at_once_in_some_time() -> None:
    clients, record = published(1, (1,))
    consumers = [LookedAt(clients, record) for _ in range(MANY)]
    clients.cluster.run(0.2)
    before = sum(one.asked for one in consumers)
    for _ in range(100):
        consumers[0].queue.pump(clients.now)
    assert sum(one.asked for one in consumers) == before + MANY
    clients.cluster.run(2 * LOOK_MS / 1000)
    assert sum(one.asked for one in consumers) == before + 2 * MANY, "it was asked for again meanwhile"
    clients.cluster.run(1)
    assert sum(one.asked for one in consumers) == before + 2 * MANY, "and nobody has asked since"


def test_a_consumer_of_many_goes_on_when_its_client_reads_again() -> None:
    clients, record = published(1, (1,))
    consumers = [LookedAt(clients, record, 1_000, reads=False) for _ in range(MANY)]
    clients.cluster.run(0.2)
    for one in consumers[:3]:
        one.reads = True
        clients.hosts[1].wake(one.queue)
        clients.cluster.run(2 * LOOK_MS / 1000)
        assert sum(piece.count for piece in one.pieces) == 100
    assert not any(one.pieces for one in consumers[3:])


def test_a_consumer_that_has_settled_is_given_more_and_no_other_is_looked_at() -> None:
    clients, record = published(1, (1,))
    consumers = [LookedAt(clients, record) for _ in range(MANY)]
    clients.cluster.run(0.2)
    consumers[0].queue.pump(clients.now)
    before = [one.asked for one in consumers]
    consumers[5].settle_first(clients)
    consumers[0].queue.pump(clients.now)
    assert [len(one.pieces) for one in consumers] == [2 if one is consumers[5] else 1 for one in consumers]
    assert [number for number, one in enumerate(consumers) if one.asked != before[number]] == [5]


def test_what_is_new_has_only_those_looked_at_that_had_all_there_was() -> None:
    clients, record = published(1, (1,))
    behind = [LookedAt(clients, record) for _ in range(MANY)]
    at_end = [LookedAt(clients, record, 1_000) for _ in range(3)]
    clients.cluster.run(0.2)
    behind[0].queue.pump(clients.now)
    before = sum(one.asked for one in behind)
    Publisher(clients, 1, record, name="q-").publish(5)
    clients.cluster.run((LOOK_MS - 2) / 1000)
    assert [sum(piece.count for piece in one.pieces) for one in at_end] == [105] * 3
    assert sum(one.asked for one in behind) == before
