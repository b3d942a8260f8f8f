"""Where a member is sent a snapshot, its log begins behind that at once, and its machine stands on it when it is durable. What
the machine names in between may be gone: nobody is given it from there, and whoever waits goes on when the machine has it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from broker.messages.browsed import Browsed
from broker.queues.queue_type import Outcome
from broker.queues.stream_contract import AtOffset
from broker.records import QueueRecord
from native.content import messages
from quorum import letters as quorum_letters
from raft.driver import SnapshotRules
from raft.store.store_limits import StoreLimits
from replicated.letters import AnswerStatus, refusal
from stream.reading import letters as stream_letters
from tests.unit.quorum.clients import Clients, Publisher, Taker
from tests.unit.stream.chunk_clients import ChunkClient
from tests.unit.stream.test_random_streams import StreamClients

NODE = 3
RULES = SnapshotRules(entries_max=5)
LIMITS = StoreLimits(log_files_kept=0, entries_kept=0, memory_bytes_max=600)


class NodeSentASnapshot:
    """Node 3 is away while its queue goes on, and a snapshot is all that it can be given."""

    def __init__(self, clients: Clients, record: QueueRecord) -> None:
        self.clients = clients
        self.cluster = clients.cluster
        self.record = record
        self.queue = clients.of(NODE, record)[1]

    def goes_away(self) -> None:
        self.cluster.cut(NODE, 1)
        self.cluster.cut(NODE, 2)

    def comes_back(self, in_between: Callable[[], None]) -> None:
        store, looked = self.cluster.nodes[NODE].store, []
        received = store.snapshot_received

        def and_look(*arguments: Any) -> bool:
            counts: bool = received(*arguments)
            if counts:
                assert self.queue.route.driver.installing is not None
                in_between()
                looked.append(True)
            return counts

        store.snapshot_received = and_look
        self.cluster.heal()
        self.cluster.run(3)
        assert looked, "it was sent no snapshot"

    def browse(self) -> list[bytes]:
        """As a client here does it."""
        found: list[Browsed] = []
        errors: list[Exception] = []
        self.queue.browse(0, 100, self.clients.now).then(found.extend, errors.append)
        self.cluster.run(0.1)
        assert not errors
        return [messages(one.content, 0, 1)[0][1] for one in found]


def stream_that_was_cut() -> tuple[NodeSentASnapshot, ChunkClient, Taker, Publisher]:
    """Two readers on node 3 have nothing of it yet, and retention has removed all that its member has."""
    clients = StreamClients(3, rules=RULES, limits=LIMITS)
    size = {"x-max-length-bytes": 1000, "x-stream-max-segment-size-bytes": 500}
    record = clients.cluster.declare("s", [1, 2, 3], **size)
    clients.cluster.leader(record)
    node = NodeSentASnapshot(clients, record)
    chunks = ChunkClient(clients, NODE, record, credit=0).attach(AtOffset(0))
    taker = Taker(clients, NODE, record, prefetch=100, arguments={"x-stream-offset": 0})
    taker.writable = True
    publisher = Publisher(clients, 1, record)
    taker.consumer.outstanding = taker.consumer.prefetch  # it has no room
    publish_singly(publisher, 4)
    node.goes_away()
    clients.cluster.run(1)
    publish_singly(publisher, 60)
    return node, chunks, taker, publisher


def publish_singly(publisher: Publisher, count: int) -> None:
    for _ in range(count):
        publisher.publish()
        publisher.clients.cluster.run(0.2)


def test_readers_of_a_stream_wait_for_the_machine_where_the_log_is_ahead_of_it() -> None:
    node, chunks, taker, publisher = stream_that_was_cut()
    queue, machine = node.queue, node.queue.member.machine
    before = machine.state.next_offset

    def read() -> None:
        assert (machine.state.first_offset, machine.state.next_offset) == (0, before)
        chunks.give(1_000)
        taker.consumer.outstanding = 0
        queue.pump(node.clients.now)
        assert (chunks.bodies, taker.bodies) == ([], [])
        assert queue.own_places.here(AtOffset(0)) is None, "the leader knows better where it begins"

    node.comes_back(read)
    first = machine.state.first_offset
    assert before < first
    kept = publisher.all[first:]
    assert chunks.bodies == taker.bodies == kept
    assert node.browse() == kept
    node.cluster.close()


def test_another_node_that_reads_there_waits_too() -> None:
    node, *_ = stream_that_was_cut()
    queue, serving = node.queue, node.queue.serving
    answers: list[Any] = []
    letter = stream_letters.read(queue.group, 0, 1 << 20)

    def ask() -> None:
        serving.asked(1, letter, answers.append)
        assert serving, "nothing is there to be given"
        assert answers == []
        browse = stream_letters.browse(queue.group, AtOffset(0), 10)
        assert node.cluster.nodes[NODE].kind._browsed(queue, browse) == refusal(AnswerStatus.NO_GROUP, 0)

    node.comes_back(ask)
    (answer,) = answers
    read = stream_letters.decode_read_answer(b"".join(answer))
    assert isinstance(read, stream_letters.ReadAnswer)
    assert read.next_offset > queue.member.machine.state.first_offset > 4
    assert read.entries[0][0] == queue.member.machine.state.segments[0].first_index
    assert not serving
    node.cluster.close()


def test_a_consumer_of_a_quorum_queue_waits_where_what_is_out_to_it_may_be_gone() -> None:
    """Its node was cut off, so the group gave the messages to another consumer, which has settled most of them since."""
    clients = Clients(3, rules=RULES, limits=LIMITS)
    record = clients.cluster.declare("q", [1, 2, 3], **{"x-consumer-disconnected-timeout": 1000})
    clients.cluster.leader(record)
    node = NodeSentASnapshot(clients, record)
    slow = Taker(clients, NODE, record, settles=False, prefetch=100)
    clients.cluster.run(1)
    slow.writable = False
    publisher = Publisher(clients, 1, record)
    publish_singly(publisher, 4)
    node.goes_away()
    clients.cluster.run(5)
    quick = Taker(clients, 1, record, settles=False, prefetch=100)
    publish_singly(publisher, 20)
    quick.settle_all()
    clients.cluster.run(1)
    publish_singly(publisher, 20)
    quick.settle_all(Outcome.RETURNED)
    quick.cancel()
    clients.cluster.run(1)

    def read() -> None:
        slow.writable = True
        node.queue.pump(clients.now)
        assert slow.bodies == []
        refused = clients.cluster.nodes[NODE].kind._browsed(node.queue, quorum_letters.browse(node.queue.group, 0, 10))
        assert refused == refusal(AnswerStatus.NO_GROUP, 0)

    node.comes_back(read)
    assert slow.bodies == publisher.all[-20:]
    clients.cluster.close()
