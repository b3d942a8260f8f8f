"""Readers on a node without a member, or with one that is far behind, read by way of another node's member."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker.errors import ResourceExhausted
from broker.messages.message import Run
from broker.queues.stream_contract import AtOffset, Begin, OffsetSpec
from broker.records import QueueRecord
from native.content import encode
from raft.core.messages import NodeId
from replicated.letters import STATUS, AnswerStatus, BadLetter
from stream.queue import BEHIND_ENTRIES_MAX
from stream.reading import far_log, letters
from stream.reading.letters import ReadAnswer
from stream.reading.serving import WAIT_S
from tests.unit.quorum.clients import Publisher
from tests.unit.stream.chunk_clients import ChunkClient
from tests.unit.stream.test_random_streams import StreamClients
from tests.unit.stream.test_stream_queue import BEGIN, begin_at, consume, world

FAR = 4  # the node without a member


def published(chunks: int = 20, members: Sequence[NodeId] = (1, 2, 3)) -> tuple[StreamClients, QueueRecord]:
    """A stream with chunks of five messages."""
    clients, record = world(FAR, members)
    publish(clients, record, chunks)
    return clients, record


def publish(clients: StreamClients, record: QueueRecord, chunks: int = 1, name: str = "p-") -> None:
    publisher = Publisher(clients, clients.cluster.leader(record).number, record, name=name)
    for _ in range(chunks):
        publisher.publish(5)
        clients.cluster.run(0.02)
    clients.cluster.run(0.5)
    assert publisher.confirmed == publisher.all


def far_of(clients: StreamClients, record: QueueRecord) -> Any:
    return clients.of(FAR, record)[1]._far_log


def served_by(clients: StreamClients, record: QueueRecord) -> NodeId:
    node: NodeId = far_of(clients, record)._node
    assert node in (1, 2, 3)
    return node


@pytest.mark.parametrize(("offset", "wanted"), BEGIN)
def test_consumers_begin_and_go_on_as_where_a_member_is(offset: int | str, wanted: range) -> None:
    clients, record = published()
    client = begin_at(clients, FAR, record, offset)
    clients.cluster.run(1)
    assert client.offsets == list(wanted)
    publish(clients, record, 2, "q-")
    assert client.offsets == [*wanted, *range(100, 110)]


@pytest.mark.parametrize(("spec", "first"), [(Begin.FIRST, 0), (AtOffset(52), 50), (Begin.LAST, 95), (Begin.NEXT, 100)])
def test_whole_chunks_are_read_and_places_are_known(spec: OffsetSpec, first: int) -> None:
    clients, record = published()
    queue = clients.of(FAR, record)[1]
    queue.check_readable()
    found: list[int] = []
    queue.resolve(spec, clients.now).then(found.append, lambda error: pytest.fail(str(error)))
    readers = [ChunkClient(clients, FAR, record).attach(spec) for _ in range(2)]
    clients.cluster.run(1)
    publish(clients, record, 1, "q-")
    assert found == [first]
    for client in readers:
        assert client.offsets == list(range(first, 105)) and client.last_chunks[-1] == 100
    assert all(one.obj is two.obj for one, two in zip(readers[0].chunks, readers[1].chunks, strict=True))


def test_what_is_new_comes_at_once() -> None:
    """An ask waits at the member's node; nobody asks again and again."""
    clients, record = published()
    client = ChunkClient(clients, FAR, record).attach(Begin.NEXT)
    clients.cluster.run(1)
    leader = clients.cluster.leader(record).number
    Publisher(clients, leader, record, name="q-").publish(5)
    clients.cluster.run(0.01)
    assert client.next == 105


def test_credit_is_kept_and_nothing_is_asked_for_without_it() -> None:
    clients, record = published()
    client = ChunkClient(clients, FAR, record, credit=3).attach(Begin.FIRST)
    clients.cluster.run(1)
    assert client.next == 15 and not far_of(clients, record)._asks
    client.give(1)
    clients.cluster.run(1)
    assert client.next == 20


@pytest.mark.parametrize("trouble", ["kill", "silence", "remove", "cut"])
def test_when_the_node_that_is_read_from_goes_another_one_is_read(trouble: str) -> None:
    clients, record = published()
    consumer, client = consume(clients, FAR, record), ChunkClient(clients, FAR, record).attach(Begin.FIRST)
    clients.cluster.run(1)
    server = served_by(clients, record)
    match trouble:
        case "kill":
            clients.cluster.nodes[server].kill()
        case "silence":
            clients.cluster.silent = {server}
        case "remove":
            other = clients.cluster.nodes[next(node for node in (1, 2, 3) if node != server)]
            other.kind.administration.remove_member(other.queue(record), server).then(
                lambda _: None, lambda error: pytest.fail(str(error))
            )
        case _:
            clients.cluster.cut(server, FAR)
    clients.cluster.run(8)
    publish(clients, record, 3, "q-")
    clients.cluster.run(1)
    assert served_by(clients, record) != server
    assert consumer.offsets == client.offsets == list(range(115))


def test_a_member_that_knows_of_no_leader_is_left_after_a_while() -> None:
    """It may be cut off from the others, and hear nothing new."""
    clients, record = published()
    client = ChunkClient(clients, FAR, record).attach(Begin.FIRST)
    clients.cluster.run(1)
    server = served_by(clients, record)
    others = {1, 2, 3} - {server}
    for other in others:
        clients.cluster.cut(server, other)
    clients.cluster.run(8 + WAIT_S)
    publisher = Publisher(clients, FAR, record, name="q-")
    publisher.publish(5)
    clients.cluster.run(2 * WAIT_S)
    assert client.next == 105 and served_by(clients, record) in others


def test_readers_go_on_at_a_member_that_comes_and_when_it_goes_again() -> None:
    clients, record = published()
    consumer, client = consume(clients, FAR, record), ChunkClient(clients, FAR, record).attach(Begin.FIRST)
    clients.cluster.run(0.5)
    one = clients.cluster.nodes[1]
    for number, change in enumerate((one.kind.administration.add_member, one.kind.administration.remove_member)):
        change(one.queue(record), FAR).then(lambda _: None, lambda error: pytest.fail(str(error)))
        clients.cluster.run(6)
        assert (clients.of(FAR, record)[1].member is None) == bool(number)
        publish(clients, record, 2, f"{number}-")
    assert consumer.offsets == client.offsets == list(range(120)) and not client.gone


def test_while_the_member_here_is_far_behind_another_one_is_read() -> None:
    clients, record = published(BEHIND_ENTRIES_MAX + 20)
    consumer = consume(clients, FAR, record)
    clients.cluster.run(1)
    count = 5 * (BEHIND_ENTRIES_MAX + 20)
    assert consumer.offsets == list(range(count))
    queue = clients.of(FAR, record)[1]
    one = clients.cluster.nodes[1]
    one.kind.administration.add_member(one.queue(record), FAR).then(lambda _: None, lambda e: pytest.fail(str(e)))
    while queue.member is None:
        clients.cluster.run(0.001)
    queue.member.machine.apply = lambda index, data: pytest.fail("it is to stay behind")
    queue.member.apply = lambda entries: [[0] for _ in entries]
    Publisher(clients, 1, record, name="q-").publish(5)
    clients.cluster.run(1)
    assert queue.member.machine.applied == 0
    assert consumer.offsets == list(range(count + 5))


def test_without_any_node_to_read_from_it_is_said_and_readers_wait_for_one() -> None:
    clients, record = published()
    client = ChunkClient(clients, FAR, record, credit=1).attach(Begin.FIRST)
    clients.cluster.run(1)
    for node in (1, 2, 3):
        clients.cluster.nodes[node].kill()
    client.give(100)
    clients.cluster.run(8)
    queue = clients.of(FAR, record)[1]
    for ask in (
        queue.check_readable,
        lambda: ChunkClient(clients, FAR, record).attach(Begin.FIRST),
        lambda: queue.resolve(Begin.FIRST, clients.now),
    ):
        with pytest.raises(ResourceExhausted, match="no member on a node that can be reached"):
            ask()
    waiting = begin_at(clients, FAR, record, "first")
    clients.cluster.run(20)
    assert waiting.refused
    for node in (1, 2, 3):
        clients.cluster.restart(node)
    clients.cluster.run(8)
    assert client.offsets == list(range(100)) and not client.gone


def test_what_is_kept_and_asked_for_is_bounded_and_goes_with_the_last_reader() -> None:
    clients, record = world(FAR, (1, 2, 3))
    kind, queue = clients.of(1, record)
    content = encode(b"\0\0", bytes(700_000))
    for _ in range(40):
        kind.publish((queue,), Run("", "q", content, 1, 700_000), None, clients.now)
        clients.cluster.run(0.05)
    far = far_of(clients, record)
    readers = [ChunkClient(clients, FAR, record).attach(AtOffset(offset)) for offset in range(0, 40, 2)]
    for _ in range(3_000):
        clients.cluster.run(0.001)
        assert len(far._asks) <= far_log.ASKS_MAX
        assert sum(len(data) for _, data in far._entries.values()) == far._bytes
        assert far._bytes <= far_log.KEPT_BYTES_MAX or len(far._entries) == 1
    assert [reader.offsets for reader in readers] == [list(range(offset, 40)) for offset in range(0, 40, 2)]
    for reader in readers:
        reader.detach()
    assert not far._entries and not far._asks and far._bytes == 0
    clients.cluster.run(WAIT_S + 1)
    assert not any(node.queue(record).serving for node in clients.cluster.alive())


def test_retention_that_passes_a_far_reader_is_counted() -> None:
    clients, record = world(FAR, (1, 2, 3), **{"x-stream-max-segment-size-bytes": 300, "x-max-length-bytes": 1_000})
    publish(clients, record)
    client = ChunkClient(clients, FAR, record, credit=1).attach(Begin.FIRST)
    clients.cluster.run(0.5)
    publish(clients, record, 40, "q-")
    clients.cluster.run(3)
    first = clients.of(1, record)[1].member.machine.state.first_offset
    assert first > 50 and client.next == 5
    client.next = None
    client.give(1_000)
    clients.cluster.run(1)
    assert client.offsets == [*range(5), *range(first, 205)]
    assert clients.of(FAR, record)[0].skipped == first - 5


def test_a_far_reader_passes_what_is_kept_for_others_and_was_removed() -> None:
    """It asked without end, for what its node had kept of the removed chunks was in the way of each answer."""
    clients, record = published()
    member, far = clients.of(1, record)[1].member, far_of(clients, record)

    def answers(ask: int, *entries: int) -> None:
        far._asks[ask] = waits = object()
        stored = [(index, member.reading.next_stored(index)[1].entry) for index in entries]
        far._answered(ask, waits, 1, b"".join(map(bytes, letters.read_answer(1, 100, 95, stored))))

    answers(6, 6, 7, 9)  # for a reader that is ahead; then retention removes what is before entry 12
    answers(4, 12, 13)
    assert [far.at_or_behind(index) for index in (4, 6, 11, 13)] == [12, 12, 12, 13]
    assert sum(len(data) for _, data in far._entries.values()) == far._bytes


def test_a_stream_that_is_deleted_leaves_nobody_waiting() -> None:
    clients, record = published()
    client = ChunkClient(clients, FAR, record).attach(Begin.FIRST)
    clients.cluster.run(1)
    for node in clients.cluster.alive():
        node.kind.delete(node.queue(record), clients.now)
    del clients.cluster.records[record.id]
    clients.cluster.run(1)
    assert client.gone and client.next == 100


def answer_of(*parts: bytes) -> bytes:
    return b"".join((STATUS.pack(AnswerStatus.DONE, 1), *parts))


@pytest.mark.parametrize("cut", range(1, 50))
def test_an_answer_that_is_cut_off_is_none(cut: int) -> None:
    whole = b"".join(map(bytes, letters.read_answer(1, 9, 5, [(7, b"0123456789"), (9, b"abcdefghij")])))
    assert letters.decode_read_answer(whole) == ReadAnswer(1, 9, 5, [(7, b"0123456789"), (9, b"abcdefghij")])
    if len(whole) - cut not in (STATUS.size + 16, STATUS.size + 16 + 22):
        with pytest.raises(BadLetter):
            letters.decode_read_answer(whole[:-cut])


def test_bytes_that_are_no_chunk_are_not_kept_and_another_node_is_asked() -> None:
    clients, record = published()
    client = ChunkClient(clients, FAR, record, credit=1).attach(Begin.FIRST)
    clients.cluster.run(1)
    far = far_of(clients, record)
    far.rest()
    server = served_by(clients, record)
    ask = far._asks[5] = object()
    entry = bytearray(clients.of(1, record)[1].member.reading.next_stored(0)[1].entry)
    entry[-1] ^= 1
    far._answered(5, ask, server, b"".join(map(bytes, letters.read_answer(1, 100, 95, [(8, bytes(entry))]))))
    assert not far._entries and far._node == 0
    client.give(100)
    clients.cluster.run(1)
    assert client.offsets == list(range(100))


def test_a_stream_is_counted_where_it_has_no_member() -> None:
    """It said 0 for ever."""
    clients, record = published()
    queue = clients.of(FAR, record)[1]
    counted = queue.used(clients.now)
    clients.cluster.run(0.5)
    assert counted.answered and queue.ready_count == 100
    publish(clients, record, name="q-")
    assert queue.statistics().ready == 100
    queue.used(clients.now)
    clients.cluster.run(0.5)
    assert queue.statistics().ready == 105
    assert clients.of(1, record)[1].used(clients.now) is None


def test_what_is_kept_of_a_stream_is_counted_where_it_has_no_member() -> None:
    clients, record = world(FAR, (1, 2, 3), **{"x-max-length-bytes": 2_000, "x-stream-max-segment-size-bytes": 500})
    publish(clients, record, chunks=20)
    clients.cluster.run(2)
    queue, leader = clients.of(FAR, record)[1], clients.of(clients.cluster.leader(record).number, record)[1]
    queue.used(clients.now)
    clients.cluster.run(0.5)
    assert queue.ready_count == leader.ready_count < 100


def test_a_stream_that_nobody_leads_keeps_its_count_where_it_has_no_member() -> None:
    clients, record = published()
    queue = clients.of(FAR, record)[1]
    queue.used(clients.now)
    clients.cluster.run(0.5)
    for number in (1, 2):
        clients.cluster.nodes[number].kill()
    clients.cluster.run(20)
    counted = queue.used(clients.now)
    assert queue.statistics().ready == 100
    clients.cluster.run(20)
    assert (counted is None or counted.answered) and queue.ready_count == 100
    clients.cluster.nodes[3].kill()
    clients.cluster.run(20)
    assert queue.used(clients.now) is None
