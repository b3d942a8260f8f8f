"""What the log of a node says of those who read streams there."""

from __future__ import annotations

from broker.actors import ActorKind, LogActor
from broker.queues.consumer import Consumer
from broker.queues.stream_contract import Begin
from raft.core.messages import NodeId
from storage.history.reader_records import ReaderRow, decode_readers
from storage.names import LOG_DIRECTORY, LOG_SUFFIX, log_file, numbers_in
from storage.record import PAYLOAD_BYTES_MAX, Kind, scan
from tests.unit.stream.chunk_clients import ChunkClient
from tests.unit.stream.test_random_streams import StreamClients
from tests.unit.stream.test_stream_queue import Offsets, published


def told(clients: StreamClients, node: NodeId) -> list[ReaderRow]:
    """All rows of the node's log."""
    log, disk = clients.cluster.nodes[node].log, clients.cluster.nodes[node].disk
    log.commit_now()
    rows: list[ReaderRow] = []
    for number in numbers_in(disk.list(LOG_DIRECTORY), LOG_SUFFIX):
        data = disk.read_file(log_file(number))
        for record in scan(data, 0, len(data), PAYLOAD_BYTES_MAX)[0]:
            if record[0] == Kind.STREAM_READERS:
                rows += decode_readers(data[record[5] : record[6]])
    return rows


def test_who_moved_is_told_once_a_second_and_who_left_where() -> None:
    clients, record = published(1, (1,), chunks=4)
    _, queue = clients.of(1, record)
    actor = LogActor(ActorKind.CONSUMER, LogActor(ActorKind.CONNECTION))
    consumer = Consumer("c", queue, Offsets(), prefetch=7, arguments={"x-stream-offset": "first"}, actor=actor)
    queue.consume(consumer, clients.now)
    clients.hosts[1].wake(queue)
    clients.cluster.run(5)
    group = (1 << 32) + record.id
    assert told(clients, 1) == [ReaderRow(actor.number, group, 7)], "and not again while it stays there"
    consumer.settled(3)
    clients.hosts[1].wake(queue)
    clients.cluster.run(2)
    queue.cancel(consumer, clients.now)
    clients.cluster.run(2)
    assert told(clients, 1)[1:] == [
        ReaderRow(actor.number, group, 10),
        ReaderRow(actor.number, group, 10, has_left=True),
    ]


def test_a_client_of_the_stream_protocol_is_told_on_the_node_that_it_reads_from() -> None:
    clients, record = published(2, (1,), chunks=4)
    client = ChunkClient(clients, 2, record, credit=2)
    client.actor = LogActor(ActorKind.CONSUMER)
    client.attach(Begin.FIRST)
    clients.cluster.run(2)
    assert (told(clients, 1), [row.offset for row in told(clients, 2)][-1:]) == ([], [client.next])
    client.detach()
    clients.cluster.run(2)
    assert told(clients, 2)[-1].has_left
