"""Large chunks that clients are sent from the files where they lie: stream/group/sent_chunks.py."""

from __future__ import annotations

import pytest

from broker.queues.stream_contract import Begin, MessageFilter
from broker.records import QueueRecord
from raft.store.store_limits import StoreLimits
from storage.names import KEPT_SUFFIX, LOG_SUFFIX
from stream.chunks.chunk import CHUNK_HEADER_BYTES
from stream.group.chunk_reading import ENTRY_BYTES_KEPT_MAX
from tests.sim.disk import Call
from tests.unit.stream.chunk_clients import ChunkClient
from tests.unit.stream.test_chunk_readers import publish_large
from tests.unit.stream.test_random_streams import StreamClients

SIZE = 500_000
COUNT = 2 * ENTRY_BYTES_KEPT_MAX // SIZE
# The store keeps nothing in memory, so only what was applied last is there: the latter half.
LIMITS = StoreLimits(log_files_kept=0, entries_kept=0, memory_bytes_max=0)


def large_stream(nodes: int = 1) -> tuple[StreamClients, QueueRecord]:
    clients = StreamClients(nodes, limits=LIMITS)
    record = clients.cluster.declare("s", range(1, nodes + 1))
    clients.cluster.leader(record)
    publish_large(clients, record, COUNT, SIZE)
    return clients, record


def read_all(clients: StreamClients, record: QueueRecord, node: int = 1) -> ChunkClient:
    client = ChunkClient(clients, node, record).attach(Begin.FIRST)
    clients.cluster.run(2)
    assert client.offsets == list(range(COUNT))
    return client


def test_large_chunks_leave_from_their_files_and_those_in_memory_from_there() -> None:
    clients, record = large_stream()
    client = read_all(clients, record)
    assert COUNT // 3 < client.from_file < COUNT * 2 // 3
    queue = clients.of(1, record)[1]
    assert queue.member.reading.reads <= 1, "none was read into memory, but where the reader begins"
    assert queue.statistics().details["readers"][0]["bytes_sent"] > COUNT * SIZE


def test_a_record_is_checked_once_for_all_readers() -> None:
    clients, record = large_stream()
    reads: list[str] = []

    def count(call: Call) -> None:
        if call.operation == "read" and call.name.endswith((LOG_SUFFIX, KEPT_SUFFIX)):
            reads.append(call.name)

    clients.cluster.nodes[1].disk.faults = count
    first = read_all(clients, record).from_file
    checked, reads[:] = len(reads), []
    assert read_all(clients, record).from_file == first
    assert checked - len(reads) > first * 6, "seven pieces of each"
    assert len(reads) == first, "and the client itself reads what it is given"


@pytest.mark.parametrize("place", [-CHUNK_HEADER_BYTES, 0, SIZE // 2, SIZE - 1])
def test_damage_is_found_before_it_is_sent_and_the_reader_goes_on_elsewhere(place: int) -> None:
    clients, record = large_stream(3)
    number = next(number for number in (1, 2, 3) if number != clients.cluster.leader(record).number)
    node = clients.cluster.nodes[number]
    first = node.queue(record).member.machine.state.segments[0].first_index
    entry = node.store.group(1 << 32 | record.id).entry_in_file(first + 3)
    assert entry is not None
    start = entry.position + entry.length - SIZE
    node.disk.flip_bit(entry.name, 8 * (start + place))
    read_all(clients, record, number)
    assert clients.cluster.findings, "and its member is another one now"


def test_a_reader_whose_filter_wants_nothing_of_them_is_sent_nothing() -> None:
    clients, record = large_stream()
    client = ChunkClient(clients, 1, record, wanted=MessageFilter(("nothing",))).attach(Begin.FIRST)
    clients.cluster.run(2)
    assert not client.chunks
    assert clients.of(1, record)[1].readers.lag(COUNT) == 0
