"""Clients of the stream protocol read whole chunks, as they are stored, on a node with a member."""

from __future__ import annotations

import gzip
from collections.abc import Sequence

import pytest

from broker.errors import NotFound
from broker.messages.message import Run
from broker.queues.stream_contract import AtOffset, AtTime, Begin, OffsetSpec
from broker.records import QueueRecord
from native.content import encode
from raft.core.messages import NodeId
from stream.chunks.chunk import SubBatch, message_item, read_header, sub_batch_item
from stream.group.chunk_reading import StreamReading
from stream.reading.reading_share import ROUND_BYTES_MAX
from tests.unit.quorum.clients import Publisher
from tests.unit.stream.chunk_clients import ChunkClient
from tests.unit.stream.named_publisher import NamedPublisher
from tests.unit.stream.test_random_streams import StreamClients
from tests.unit.stream.test_stream_queue import consume, published, world
from wire.stream.publish_frame import StreamRun, pack_ids


def publish_large(clients: StreamClients, record: QueueRecord, count: int, size: int = 1 << 20) -> None:
    kind, queue = clients.of(1, record)
    for _ in range(count):
        kind.publish((queue,), Run("", "q", encode(b"\0\0", bytes(size)), 1, size), None, clients.now)
        clients.cluster.run(0.2)


def first_offsets(client: ChunkClient) -> list[int]:
    return [read_header(chunk).first_offset for chunk in client.chunks]


def test_chunks_come_whole_and_every_reader_is_given_the_same_bytes() -> None:
    clients, record = published(3, (1, 2, 3))
    readers = [ChunkClient(clients, 2, record).attach(Begin.FIRST) for _ in range(3)]
    clients.cluster.run(0.2)
    assert first_offsets(readers[0]) == list(range(0, 100, 5))
    assert len(readers[0].bodies) == 100
    for other in readers[1:]:
        assert [one.obj is two.obj for one, two in zip(readers[0].chunks, other.chunks, strict=True)] == [True] * 20


@pytest.mark.parametrize(
    ("spec", "first"),
    [
        (Begin.FIRST, 0),
        (AtOffset(0), 0),
        (AtOffset(7), 5),
        (AtOffset(10), 10),
        (AtOffset(99), 95),
        (AtOffset(100), 100),
        (AtOffset(5_000), 100),
        (Begin.LAST, 95),
        (Begin.NEXT, 100),
        (AtTime(0), 0),
        (AtTime(1 << 60), 100),
    ],
)
def test_a_reader_begins_with_the_chunk_that_holds_its_place(spec: OffsetSpec, first: int) -> None:
    clients, record = published(3, (1, 2, 3))
    node = next(node for node in (1, 2, 3) if node != clients.cluster.leader(record).number)
    queue = clients.of(node, record)[1]
    found: list[int] = []
    queue.resolve(spec, clients.now).then(found.append, lambda error: pytest.fail(str(error)))
    client = ChunkClient(clients, node, record).attach(spec)
    clients.cluster.run(0.5)
    Publisher(clients, 1, record, name="q-").publish(5)
    clients.cluster.run(0.5)
    assert found == [first]
    assert client.offsets == list(range(first, 105))


def test_where_a_reader_begins_in_an_empty_stream_is_its_first_offset() -> None:
    clients, record = world()
    found: list[int] = []
    for spec in (Begin.FIRST, Begin.LAST, Begin.NEXT, AtOffset(7), AtTime(7)):
        clients.of(2, record)[1].resolve(spec, clients.now).then(found.append, lambda error: pytest.fail(str(error)))
    clients.cluster.run(0.5)
    assert found == [0] * 5


def test_one_credit_is_one_chunk_and_each_says_which_is_the_last() -> None:
    clients, record = published(1, (1,))
    client = ChunkClient(clients, 1, record, credit=2).attach(Begin.FIRST)
    clients.cluster.run(0.2)
    assert first_offsets(client) == [0, 5]
    client.give(3)
    clients.cluster.run(0.2)
    assert first_offsets(client) == [0, 5, 10, 15, 20]
    assert client.last_chunks == [95] * 5


def test_which_chunk_is_the_last_is_known_behind_a_snapshot_too() -> None:
    clients, record = published(1, (1,))
    clients.of(1, record)[1].route.driver.take_snapshot()
    clients.cluster.run(0.2)
    clients.cluster.nodes[1].kill()
    clients.cluster.restart(1)
    clients.cluster.run(1)
    client = ChunkClient(clients, 1, record, credit=1).attach(Begin.FIRST)
    clients.cluster.run(0.2)
    assert client.last_chunks == [95]


def test_what_is_not_committed_is_not_read() -> None:
    clients, record = published(3, (1, 2, 3))
    leader: NodeId = clients.cluster.leader(record).number
    client = ChunkClient(clients, leader, record, credit=20).attach(Begin.FIRST)
    clients.cluster.run(0.1)
    clients.cluster.silent = {1, 2, 3} - {leader}
    Publisher(clients, leader, record, name="q-").publish(5)
    clients.cluster.run(0.05)
    client.give(100)
    clients.cluster.run(0.01)
    queue = clients.of(leader, record)[1]
    assert queue.route.driver.core.status().last > queue.member.machine.applied, "the chunk is in the leader's log"
    assert client.next == 100


def test_a_reader_that_retention_has_passed_goes_on_at_the_first_chunk_and_that_is_counted() -> None:
    clients, record = world(1, (1,), **{"x-stream-max-segment-size-bytes": 2_000, "x-max-length-bytes": 5_000})
    kind, queue = clients.of(1, record)
    told: list[str] = []
    object.__setattr__(kind._reports, "on_not_delivered", lambda queue, why: told.append(why))
    publish_large(clients, record, 1, size=300)
    client = ChunkClient(clients, 1, record, credit=1).attach(Begin.FIRST)
    consumer = consume(clients, 1, record, prefetch=1)
    publish_large(clients, record, 40, size=300)
    clients.cluster.run(3)
    first = queue.member.machine.state.first_offset
    assert first > 10 and client.next == 1 and consumer.offsets == [0]
    client.next = None  # it is no longer there
    client.give(1_000)
    clients.cluster.run(0.2)
    assert client.offsets == [0, *range(first, 41)]
    assert kind.skipped == first - 1
    assert told == [f"retention removed {first - 1} messages before a reader here came to them"]


def test_readers_take_turns_and_a_replay_holds_up_nobody() -> None:
    clients, record = world(1, (1,))
    publish_large(clients, record, 1)
    queue = clients.of(1, record)[1]
    readers = [ChunkClient(clients, 1, record).attach(Begin.FIRST) for _ in range(20)]
    queue.pump(clients.now)
    assert sum(bool(reader.chunks) for reader in readers) == ROUND_BYTES_MAX >> 20
    consumer = consume(clients, 1, record)
    clients.cluster.run(0.5)
    assert [reader.offsets for reader in readers] == [[0]] * 20 and consumer.offsets == [0]


def test_who_reads_a_long_stream_gets_so_much_in_one_turn() -> None:
    clients, record = world(1, (1,))
    publish_large(clients, record, 6, size=400_000)
    client = ChunkClient(clients, 1, record).attach(Begin.FIRST)
    clients.of(1, record)[1].pump(clients.now)
    assert client.offsets == [0, 1, 2]
    clients.cluster.run(0.2)
    assert client.offsets == [0, 1, 2, 3, 4, 5]


def test_who_is_detached_gets_nothing_and_may_attach_again() -> None:
    clients, record = published(1, (1,))
    client = ChunkClient(clients, 1, record, credit=1).attach(Begin.FIRST)
    clients.cluster.run(0.2)
    client.detach()
    client.give(5)
    clients.cluster.run(0.2)
    assert client.offsets == [0, 1, 2, 3, 4]
    client.left, client.next = False, None
    client.attach(AtOffset(52))
    clients.cluster.run(0.2)
    assert client.offsets[5:] == list(range(50, 75))
    queue = clients.of(1, record)[1]
    assert [reader["consumer_tag"] for reader in queue.statistics().details["readers"]] == ["chunks"]


def delete(clients: StreamClients, record: QueueRecord, nodes: Sequence[NodeId]) -> None:
    for node in nodes:
        kind, queue = clients.of(node, record)
        kind.delete(queue, clients.now)
    del clients.cluster.records[record.id]


def test_who_reads_a_stream_that_is_deleted_is_told() -> None:
    clients, record = published(1, (1,))
    client = ChunkClient(clients, 1, record).attach(Begin.FIRST)
    delete(clients, record, [1])
    assert client.gone and not client.errors


def test_who_waits_to_begin_on_a_stream_that_is_deleted_is_refused() -> None:
    clients, record = published(3, (1, 2, 3))
    for node in (2, 3):
        clients.cluster.nodes[node].kill()
    clients.cluster.run(3)
    client = ChunkClient(clients, 1, record).attach(Begin.NEXT)
    assert not client.attached
    delete(clients, record, [1])
    assert [type(error) for error in client.errors] == [NotFound] and not client.gone


def test_who_is_detached_while_it_waits_to_begin_never_does() -> None:
    clients, record = published(3, (1, 2, 3))
    for node in (1, 2, 3):
        clients.cluster.nodes[node].kill()
    clients.cluster.restart(1)
    client = ChunkClient(clients, 1, record).attach(AtOffset(50))
    client.detach()
    for node in (2, 3):
        clients.cluster.restart(node)
    clients.cluster.run(8)
    assert client.offsets == [] and not client.queue.readers


def test_consumers_get_what_is_in_a_compressed_sub_batch_and_pass_over_what_nobody_can_read() -> None:
    clients, record = world(1, (1,))
    kind, _ = clients.of(1, record)
    told: list[str] = []
    object.__setattr__(kind._reports, "on_not_delivered", lambda queue, why: told.append(why))
    items = b"".join(message_item(b"\x00\x53\x75\xa0\x01" + body) for body in (b"a", b"b", b"c"))
    publisher = NamedPublisher(clients, 1, record, "p")
    for id_, (compression, data) in enumerate(
        ((1, gzip.compress(items)), (4, b"zstd"), (1, b"no gzip"), (0, items)), 1
    ):
        batch = sub_batch_item(SubBatch(compression, 3, len(items), data))
        publisher.publish(StreamRun(1, 3, pack_ids([id_]), batch, frozenset(), True))
    clients.cluster.run(0.5)
    client = ChunkClient(clients, 1, record).attach(Begin.FIRST)
    consumer = consume(clients, 1, record)
    clients.cluster.run(0.5)
    assert consumer.offsets == [0, 1, 2, 9, 10, 11] and client.offsets == list(range(12))
    assert kind.undecodable == 6 and len(told) == 2 and "zstd" in told[0] and "no gzip" in told[1]
    assert len(client.chunks) == 1
    for offset, given in ((2, [2, 9, 10, 11]), (4, [9, 10, 11]), (10, [10, 11])):
        inside = consume(clients, 1, record, offset=offset)
        clients.cluster.run(0.5)
        assert inside.offsets == given, f"of a reader that begins at {offset}, inside a sub-batch"


def test_offsets_that_are_stored_at_the_end_are_read_once_by_readers_that_wait_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clients, record = published(1, (1,))
    queue = clients.of(1, record)[1]
    waiting = [ChunkClient(clients, 1, record).attach(Begin.NEXT) for _ in range(3)]
    clients.cluster.run(0.2)
    read: list[int] = []
    reading = queue.member.reading
    monkeypatch.setattr(reading, "_sent", lambda index: read.append(index) or StreamReading._sent(reading, index))
    for offset in range(50):
        queue.store_offset("r", offset, clients.now)
        clients.cluster.run(0.05)
    assert len(read) == len(set(read)) == 50
    publish_large(clients, record, 1, size=10)
    assert [one.offsets for one in waiting] == [[100]] * 3
