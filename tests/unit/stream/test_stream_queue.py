"""A stream as one node's clients meet it: no leader, no member here, proposals that get lost, deletion, figures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from broker.errors import BrokerError, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from broker.records import QueueRecord
from native.content import encode
from raft.core.errors import RaftError, Unknown
from raft.core.messages import NodeId
from stream.chunks.published_parts import PORTION_MESSAGES_MAX
from stream.group.chunk_reading import ENTRY_BYTES_KEPT_MAX
from stream.publishing.node_publishing import RUN_BYTES_MAX, WAITING_BYTES_MAX
from stream.queue import StreamQueue
from stream.reading.reading_share import ROUND_BYTES_MAX
from tests.unit.quorum.clients import Publisher
from tests.unit.stream.named_publisher import NamedPublisher, run_of
from tests.unit.stream.test_random_streams import StreamClients

OnResults = Callable[[Sequence[Any] | None, RaftError | None], None]


class Offsets:
    """A consumer's client that never settles. Fulfils DeliverySink."""

    def __init__(self) -> None:
        self.writable = True
        self.offsets: list[int] = []
        self.cancelled = False
        self.begun = False
        self.refused = False

    def begin(self, _: None = None) -> None:
        self.begun = True

    def refuse(self, error: BrokerError) -> None:
        self.refused = True

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        assert piece.offset is not None
        self.offsets += range(piece.offset, piece.offset + piece.count)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        self.cancelled = True


def world(nodes: int = 3, members: Sequence[NodeId] = (1, 2, 3), **arguments: Any) -> tuple[StreamClients, QueueRecord]:
    clients = StreamClients(nodes)
    record = clients.cluster.declare("s", members, **arguments)
    clients.cluster.leader(record)
    clients.cluster.run(0.2)
    return clients, record


def consume(
    clients: StreamClients, node: NodeId, record: QueueRecord, prefetch: int = 100_000, offset: int | str = "first"
) -> Offsets:
    _, queue = clients.of(node, record)
    client = Offsets()
    queue.consume(Consumer("c", queue, client, prefetch=prefetch, arguments={"x-stream-offset": offset}), clients.now)
    clients.hosts[node].wake(queue)
    return client


@pytest.mark.parametrize("lost", range(4))
def test_a_proposal_that_gets_lost_under_one_leader_is_said_again(lost: int) -> None:
    """As in a transfer of the leadership that comes to nothing. What was sealed behind it counts for nothing either."""
    clients, record = world()
    groups = clients.cluster.leader(record).groups
    propose, count = groups.propose, 0

    def lose_one(group: int, commands: Sequence[bytes], on_results: OnResults) -> None:
        nonlocal count
        count += 1
        if count == lost + 1:
            on_results(None, Unknown("it got lost"))
        else:
            propose(group, commands, on_results)

    groups.propose = lose_one
    publishers = [Publisher(clients, node, record, name=f"{node}-") for node in (1, 2, 3)]
    for _ in range(5):
        for publisher in publishers:
            publisher.publish(3)
        clients.cluster.run(0.002)
    clients.cluster.run(3)
    assert count > 4
    assert [publisher.confirmed for publisher in publishers] == [publisher.all for publisher in publishers]
    assert consume_all(clients, record) == list(range(45))


def consume_all(clients: StreamClients, record: QueueRecord) -> list[int]:
    client = consume(clients, 1, record)
    clients.cluster.run(0.2)
    return client.offsets


def test_a_node_without_a_member_publishes() -> None:
    clients, record = world(members=(1, 2))
    publisher = Publisher(clients, 3, record, name="p-")
    publisher.publish(4)
    clients.cluster.run(1)
    assert publisher.confirmed == publisher.all
    assert consume_all(clients, record) == [0, 1, 2, 3]


@pytest.mark.parametrize("node", [1, 2, 3, 4])
def test_what_was_published_to_a_leader_that_stands_still_is_stored_by_the_next_one(node: NodeId) -> None:
    """Its links live, so nobody says that it will not answer."""
    clients, record = world(4, (1, 2, 3))
    leader = clients.cluster.leader(record).number
    publisher = Publisher(clients, node, record, name="p-")
    publisher.publish(1)
    clients.cluster.run(1)
    assert publisher.confirmed == publisher.all
    clients.cluster.silent.add(leader)
    publisher.publish(1)
    clients.cluster.run(8)
    assert publisher.confirmed == (publisher.all[:1] if node == leader else publisher.all)
    clients.cluster.silent.clear()
    clients.cluster.run(3)
    assert publisher.confirmed == publisher.all
    assert consume_all(clients, record) == [0, 1]


def test_readers_of_a_member_that_is_removed_go_on_elsewhere() -> None:
    clients, record = world()
    node = next(node for node in (1, 2, 3) if node != clients.cluster.leader(record).number)
    client = consume(clients, node, record)
    _, queue = clients.of(clients.cluster.leader(record).number, record)
    clients.cluster.nodes[1].kind.administration.remove_member(clients.cluster.nodes[1].queue(record), node).then(
        lambda _: None, lambda error: pytest.fail(str(error))
    )
    clients.cluster.run(5)
    assert queue.member_nodes() != [1, 2, 3] and clients.cluster.nodes[node].queue(record).member is None
    publisher = Publisher(clients, node, record, name="p-")
    publisher.publish(3)
    clients.cluster.run(0.5)
    assert client.offsets == [0, 1, 2] and not client.cancelled


def test_without_a_leader_so_much_waits_and_the_rest_is_refused() -> None:
    clients, record = world()
    for number in (2, 3):
        clients.cluster.nodes[number].kill()
    clients.cluster.run(5)
    kind, queue = clients.of(1, record)
    content = encode(b"\0\0", b"x" * (1 << 20))
    run = Run("", "q", content, 1, 1 << 20)
    for _ in range(WAITING_BYTES_MAX >> 20):
        kind.publish((queue,), run, None, clients.now)
    clients.cluster.run(0.5)
    with pytest.raises(ResourceExhausted, match="no leader"):
        for _ in range(2):
            kind.publish((queue,), run, None, clients.now)
    publisher = Publisher(clients, 1, record, name="p-")
    bodies = publisher.publish(2)
    assert publisher.refused == bodies
    for number in (2, 3):
        clients.cluster.restart(number)
    clients.cluster.run(8)
    assert queue.ready_count >= WAITING_BYTES_MAX >> 20 and queue.session.idle


def test_a_message_that_no_entry_holds_is_refused() -> None:
    clients, record = world(1, (1,))
    kind, queue = clients.of(1, record)
    content = encode(b"\0\0", bytes(RUN_BYTES_MAX))
    with pytest.raises(ResourceExhausted, match="takes messages of up to"):
        kind.publish((queue,), Run("", "q", content, 1, RUN_BYTES_MAX), None, clients.now)
    clients.cluster.run(0.2)
    assert queue.ready_count == 0


def test_a_run_of_very_many_messages_becomes_several_chunks_and_one_answer() -> None:
    clients, record = world(1, (1,))
    kind, queue = clients.of(1, record)
    count = 2 * PORTION_MESSAGES_MAX + 5
    answers: list[Receipt] = []

    class Answered:
        def answered(self, receipt: Receipt) -> None:
            answers.append(receipt)

        def given_up(self, receipt: Receipt) -> None:
            raise AssertionError(receipt)

    receipt = Receipt(Answered(), 1, count, 1)
    kind.publish((queue,), Run("", "q", encode(b"\0\0", b"x") * count, count, count), receipt, clients.now)
    clients.cluster.run(1)
    assert answers == [receipt] and queue.ready_count == count
    assert len(list(queue.member.machine.live_entries())) == 3
    assert consume_all(clients, record) == list(range(count))


def test_what_waits_for_a_stream_that_is_deleted_counts_as_confirmed() -> None:
    clients, record = world()
    publisher = Publisher(clients, 2, record, name="p-")
    publisher.publish(3)
    for node in clients.cluster.alive():
        assert node.kind.delete(node.queue(record), clients.now) == 0
    del clients.cluster.records[record.id]
    clients.cluster.run(1)
    assert publisher.confirmed == publisher.all


def test_what_comes_for_a_stream_that_was_deleted_counts_as_confirmed() -> None:
    """A route may still lead there. It waited for ever."""
    clients, record = world()
    kind, queue = clients.of(2, record)
    publisher, named = Publisher(clients, 2, record), NamedPublisher(clients, 2, record, "p")
    queue.close()
    publisher.publish(3)
    named.publish(run_of([1], [b"m"]))
    kind.publish((queue,), Run("", "q", encode(b"\0\0", b"x"), 1, 1), None, clients.now)
    assert (publisher.confirmed, named.confirmed) == (publisher.all, [1])
    assert queue.session.idle


def test_each_time_that_a_node_begins_to_lead_a_stream_is_another_one() -> None:
    """Who leads again may have missed what another leader did in between."""
    clients, record = world()
    cluster = clients.cluster
    first = cluster.leader(record)
    assert [first.queue(record).times_led() == 1, *(node.queue(record).times_led() for node in cluster.alive())].count(
        0
    ) == 2
    first.queue(record).leading_changed()
    assert first.queue(record).times_led() == 2
    first.kill()
    cluster.run(5)
    second = cluster.leader(record)
    assert second.queue(record).times_led() == 1


def test_figures_tell_where_it_begins_and_ends() -> None:
    clients, record = world(1, (1,))
    publisher = Publisher(clients, 1, record, name="p-")
    publisher.publish(3)
    clients.cluster.run(0.5)
    client = consume(clients, 1, record, prefetch=2)
    clients.cluster.run(0.2)
    queue: StreamQueue = clients.of(1, record)[1]
    figures, statistics = queue.figures(), queue.statistics()
    machine = figures["machine"]
    assert (machine["first_offset"], machine["committed_offset"], machine["segments"]) == (0, 2, 1)
    assert (statistics.ready, statistics.published, statistics.delivered) == (3, 3, 2)
    assert (statistics.consumers, statistics.unacknowledged, statistics.state) == (1, 2, "running")
    assert client.offsets == [0, 1]
    (reader,) = statistics.details["readers"]
    assert (reader["consumer_tag"], reader["offset"], reader["offset_lag"]) == ("c", 2, 1)
    assert figures["reading"] == [reader]
    assert queue.reading_figures() == (1, 1, reader["bytes_sent"], 1) and reader["bytes_sent"] > 0
    queue.cancel(next(iter(queue.readers._readers)), clients.now)
    assert queue.reading_figures() == (1, 0, reader["bytes_sent"], 0) and queue.statistics().delivered == 2


def published(nodes: int, members: Sequence[NodeId], chunks: int = 20) -> tuple[StreamClients, QueueRecord]:
    """A stream with chunks of five messages."""
    clients, record = world(nodes, members)
    publisher = Publisher(clients, 1, record, name="p-")
    for _ in range(chunks):
        publisher.publish(5)
        clients.cluster.run(0.02)
    clients.cluster.run(1)
    assert publisher.confirmed == publisher.all
    return clients, record


BEGIN = [
    (90, range(90, 100)),
    (100, range(0)),
    (99_999, range(0)),
    ("next", range(0)),
    ("last", range(95, 100)),
    ("1h", range(100)),
]


@pytest.mark.parametrize("nodes", [1, 3])
@pytest.mark.parametrize(("offset", "wanted"), BEGIN)
def test_who_begins_while_a_node_starts_gets_nothing_that_is_before_its_place(
    nodes: int, offset: int | str, wanted: range
) -> None:
    """The member does not know yet what is committed: its end is not the stream's."""
    members = list(range(1, nodes + 1))
    clients, record = published(nodes, members)
    for node in members:
        clients.cluster.nodes[node].kill()
    for node in members:
        clients.cluster.restart(node)
    queue = clients.of(1, record)[1]
    assert queue.member is not None and queue.ready_count == 0
    client = begin_at(clients, 1, record, offset)
    clients.cluster.run(8)
    assert client.offsets == list(wanted)


def begin_at(clients: StreamClients, node: NodeId, record: QueueRecord, offset: int | str) -> Offsets:
    queue, client = clients.of(node, record)[1], Offsets()
    consumer = Consumer("c", queue, client, prefetch=1_000, arguments={"x-stream-offset": offset})
    answer = queue.consume(consumer, clients.now)
    if answer is not None:
        answer.then(client.begin, client.refuse)
    else:
        client.begin()
    return client


@pytest.mark.parametrize(("offset", "wanted"), BEGIN)
def test_who_begins_on_a_member_that_is_new_waits_until_it_has_what_there_is(offset: int | str, wanted: range) -> None:
    clients, record = published(4, (1, 2, 3))
    nodes = clients.cluster.nodes
    nodes[1].kind.administration.add_member(nodes[1].queue(record), 4).then(
        lambda _: None, lambda e: pytest.fail(str(e))
    )
    while nodes[4].queue(record).member is None:
        clients.cluster.run(0.001)
    assert nodes[4].queue(record).ready_count == 0
    client = begin_at(clients, 4, record, offset)
    clients.cluster.run(5)
    assert client.offsets == list(wanted)


def test_who_begins_at_the_end_where_nobody_leads_is_refused_after_a_while() -> None:
    clients, record = published(3, (1, 2, 3))
    for node in (2, 3):
        clients.cluster.nodes[node].kill()
    clients.cluster.run(3)
    waiting, left = begin_at(clients, 1, record, "next"), begin_at(clients, 1, record, "next")
    known = begin_at(clients, 1, record, 97)
    queue = clients.of(1, record)[1]
    clients.cluster.run(10)
    assert not waiting.begun and not waiting.refused and known.offsets == [97, 98, 99]
    clients.cluster.run(10)
    assert waiting.refused and left.refused and not queue.still_asks()


def test_who_leaves_while_it_waits_to_begin_never_does() -> None:
    clients, record = published(3, (1, 2, 3))
    for node in (1, 2, 3):
        clients.cluster.nodes[node].kill()
    clients.cluster.restart(1)
    queue, client = clients.of(1, record)[1], Offsets()
    consumer = Consumer("c", queue, client, prefetch=1_000, arguments={"x-stream-offset": 50})
    assert queue.consume(consumer, clients.now) is not None
    queue.cancel(consumer, clients.now)
    for node in (2, 3):
        clients.cluster.restart(node)
    clients.cluster.run(8)
    assert queue.ready_count == 100 and client.offsets == [] and not queue.readers


def test_very_many_readers_are_served_over_several_turns_and_each_in_its_turn() -> None:
    clients, record = world(1, (1,))
    kind, queue = clients.of(1, record)
    content = encode(b"\0\0", b"x" * (1 << 20))
    kind.publish((queue,), Run("", "q", content, 1, 1 << 20), None, clients.now)
    clients.cluster.run(0.5)
    readers = [consume(clients, 1, record) for _ in range(20)]
    queue.pump(clients.now)
    assert sum(map(bool, (reader.offsets for reader in readers))) == ROUND_BYTES_MAX >> 20
    clients.cluster.run(0.5)
    assert [reader.offsets for reader in readers] == [[0]] * 20


def test_entries_that_readers_want_next_are_kept_within_a_bound() -> None:
    """Each stream kept its last one: 30 MB to 200 streams stayed in memory."""
    clients = StreamClients(1)
    records = [clients.cluster.declare(f"s{number}", (1,)) for number in range(12)]
    kind = clients.cluster.nodes[1].kind
    content = encode(b"\0\0", b"x" * (1 << 20))
    for record in records:
        clients.cluster.leader(record)
        queue = clients.of(1, record)[1]
        kind.publish((queue,), Run("", "q", content, 1, 1 << 20), None, clients.now)
        clients.cluster.run(0.2)
    kept = [len(data) for data in kind._caches.entries._kept.values()]
    assert 1 < len(kept) < 12 and sum(kept) <= ENTRY_BYTES_KEPT_MAX
    readers = [consume(clients, 1, record) for record in records]
    clients.cluster.run(0.5)
    assert [reader.offsets for reader in readers] == [[0]] * 12


def test_a_run_that_grows_in_its_stored_form_still_fits_an_entry() -> None:
    """Of many small messages with a long key: each message has the key in a stream, and a run has it once."""
    clients, record = world(1, (1,))
    kind, queue = clients.of(1, record)
    count = 10_000
    content = encode(b"\0\0", b"x" * 3_000) * count
    kind.publish((queue,), Run("e" * 255, "k" * 255, content, count, 3_000 * count), None, clients.now)
    clients.cluster.run(1.0)
    assert queue.ready_count == count
    assert consume_all(clients, record) == list(range(count))


def test_a_leader_that_is_cut_off_does_not_say_where_the_stream_ends() -> None:
    """Others may have another leader already, and have told their clients of more: seed 37 of the simulation of brokers."""
    clients, record = world(home=1)
    cluster = clients.cluster
    assert cluster.leader(record).number == 1
    for other in (2, 3):
        cluster.cut(1, other)
    _, queue = clients.of(1, record)
    client = Offsets()
    answer = queue.consume(
        Consumer("c", queue, client, prefetch=10, arguments={"x-stream-offset": "next"}), clients.now
    )
    assert answer is not None, "it began behind what the old leader has"
    answer.then(client.begin, client.refuse)
    publisher = Publisher(clients, 2, record)
    publisher.publish(3)
    cluster.run(2.0)
    assert len(publisher.confirmed) == 3
    assert not client.begun
    cluster.heal()
    cluster.run(3.0)
    assert client.begun
    publisher.publish(2)
    cluster.run(1.0)
    assert client.offsets == [3, 4]
