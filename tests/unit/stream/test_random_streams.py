"""Random clients and random misfortune: whatever happens, a stream is the same for all who read it, and has each confirmed
message once."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import pytest

from broker.errors import ResourceExhausted
from broker.messages.stored_bytes import Sendable, in_memory
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Outcome, Slice
from broker.queues.stream_contract import AtOffset
from native.content import messages
from raft.core.messages import NodeId
from raft.driver import SnapshotRules
from raft.store.node_log import StoreLimits
from stream.chunks.chunk import read_header
from tests.unit.quorum.clients import Clients, Publisher
from tests.unit.stream.chunk_clients import ChunkClient, bodies_of
from tests.unit.stream.named_publisher import NamedClient
from tests.unit.stream.nodes import StreamCluster

SEEDS = range(25)
STEPS = 120
CHOICES = [
    "publish", "publish", "publish", "read", "read chunks", "leave", "sink", "trouble", "members", "named", "named", "store",
]  # fmt: skip
NODES = 4
SETTLED_S = 10.0


class StreamClients(Clients):
    """Of a cluster with streams."""

    cluster_type = StreamCluster


class Reader:
    """One consumer on one node, which settles at once. Fulfils DeliverySink."""

    def __init__(self, run: Run, node: NodeId, offset: int | str, prefetch: int) -> None:
        self.run = run
        self.node = node
        self.writable = True
        self.left = False
        self.next: int | None = None  # offset that is to come
        _, self.queue = run.clients.of(node, run.record)
        arguments = {"x-stream-offset": offset}
        self.consumer = Consumer("c", self.queue, self, prefetch=prefetch, arguments=arguments)
        self.behind = self._begins_behind(offset)
        self.begun = False
        answer = self.queue.consume(self.consumer, run.clients.now)
        if answer is None:
            self._begin()
        else:
            answer.then(self._begin, lambda error: self.consumer_cancelled(self.consumer))
        self.wake()

    def _begins_behind(self, offset: int | str) -> int:
        """Messages before this one, which somebody has seen already, are not for it."""
        seen = len(self.run.stream)
        if offset == "next":
            return seen
        return min(seen, offset) if isinstance(offset, int) else 0

    def _begin(self, _: None = None) -> None:
        self.begun = True

    def wake(self) -> None:
        self.run.clients.hosts[self.node].wake(self.queue)

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        assert self.writable and not self.left, "a delivery to who cannot take it"
        assert piece.offset is not None and not piece.redelivered
        assert self.begun, "a delivery before the answer"
        assert piece.offset >= self.behind, f"{piece.offset} comes, and it wanted what is behind {self.behind}"
        assert self.next in (None, piece.offset), f"offset {piece.offset} comes where {self.next} should"
        assert consumer.outstanding <= consumer.prefetch
        self.next = piece.offset + piece.count
        bodies = [body for _, body in messages(content, piece.position, piece.count)]
        self.run.seen(piece.offset, bodies)
        consumer.outstanding -= piece.count
        self.queue.settle(piece, Outcome.ACKNOWLEDGED, self.run.clients.now)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        self.left = True

    def leave(self) -> None:
        self.left = True
        self.queue.cancel(self.consumer, self.run.clients.now)


class RandomChunkReader(ChunkClient):
    """A client of the stream protocol, whose credit comes and goes."""

    def __init__(self, run: Run, node: NodeId, offset: int) -> None:
        super().__init__(run.clients, node, run.record, credit=run.random.choice([0, 1, 5]))
        self.run = run
        self.offset = offset
        self.behind = min(offset, len(run.stream))  # what somebody has seen already, and it has not asked for

    def deliver(self, last_chunk: int, chunk: Sendable, message_count: int) -> None:
        whole = memoryview(in_memory(chunk))
        assert read_header(whole).next_offset > self.behind
        super().deliver(last_chunk, chunk, message_count)
        self.run.seen(read_header(whole).first_offset, bodies_of(whole))


class Run:
    """One seed's."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        tiny = StoreLimits(
            segment_entries_max=8, log_files_kept=0, entries_kept=0, memory_bytes_max=600, compaction_interval_ms=0
        )
        self.clients = StreamClients(
            NODES,
            seed=seed,
            rules=SnapshotRules(entries_max=self.random.choice([5, 40, 50_000])),
            limits=self.random.choice([tiny, StoreLimits()]),
        )
        self.cluster = self.clients.cluster
        self.record = self.cluster.declare("s", [1, 2, 3], home=self.random.randint(1, 3))
        self.cluster.leader(self.record)
        self.publishers: list[Publisher] = []
        self.readers: list[Reader] = []
        self.chunk_readers: list[RandomChunkReader] = []
        self.stream: dict[int, bytes] = {}  # by offset, as anybody has seen it
        self.down: NodeId | None = None
        self.named = [NamedClient(self.clients, self.record, f"named{number}", self.a_node()) for number in (1, 2)]

    def seen(self, first: int, bodies: Sequence[bytes]) -> None:
        for offset, body in enumerate(bodies, first):
            assert self.stream.setdefault(offset, body) == body, f"two messages have offset {offset}"

    def step(self) -> None:
        random = self.random
        match random.choice(CHOICES):
            case "publish":
                self.publish()
            case "read" if len(self.here()) < 5:
                self.read(self.a_node(), random.choice(["first", "last", "next", random.randint(0, 200)]))
            case "read chunks" if len(self.chunk_readers_here()) < 4:
                self.read_chunks(self.a_node(), random.choice([0, random.randint(0, 200)]))
            case "leave" if self.here():
                random.choice(self.here()).leave()
            case "leave" if self.chunk_readers_here():
                random.choice(self.chunk_readers_here()).detach()
            case "sink" if self.here():
                reader = random.choice(self.here())
                reader.writable = not reader.writable
                reader.wake()
                for client in self.chunk_readers_here():
                    client.give(random.choice([0, 0, 1, 3, 20]))
            case "trouble":
                self.trouble()
            case "members":
                self.change_members()
            case "named":
                client = random.choice(self.named)
                if random.random() < 0.3 or client.cut_off:
                    client.move(self.a_node())
                client.publish(random.randint(1, 4))
            case "store":
                client = random.choice(self.named)
                if not client.cut_off:
                    client.store()
                client.ask(self.a_node())
            case _:
                pass
        self.cluster.run(random.choice([0.001, 0.005, 0.02, 0.1]))
        for publisher in self.publishers:
            assert publisher.confirmed == sorted(publisher.confirmed, key=number_of), "confirms out of order"
            assert not publisher.refused

    def a_node(self) -> NodeId:
        node: NodeId = self.random.choice([node.number for node in self.cluster.alive()])
        return node

    def here(self) -> list[Reader]:
        return [reader for reader in self.readers if not reader.left]

    def chunk_readers_here(self) -> list[RandomChunkReader]:
        return [client for client in self.chunk_readers if not client.left and not client.errors]

    def read(self, node: NodeId, offset: int | str) -> Reader:
        reader = Reader(self, node, offset, self.random.choice([1, 3, 100]))
        self.readers.append(reader)
        return reader

    def read_chunks(self, node: NodeId, offset: int) -> None:
        client = RandomChunkReader(self, node, offset)
        try:
            client.attach(AtOffset(offset))
        except ResourceExhausted:
            assert self.cluster.nodes[node].queue(self.record).member is None
            return
        self.chunk_readers.append(client)

    def publish(self) -> None:
        if len(self.publishers) < 3 or self.random.random() < 0.05:
            name = f"p{len(self.publishers)}-"
            self.publishers.append(Publisher(self.clients, self.a_node(), self.record, name=name))
        publisher = self.random.choice(self.publishers)
        if self.cluster.nodes[publisher.node].alive and not publisher.closed:
            publisher.publish(self.random.randint(1, 5))

    def change_members(self) -> None:
        node = self.cluster.nodes[self.a_node()]
        queue, administration = node.queue(self.record), node.kind.administration
        members = queue.member_nodes()
        some = self.random.randint(1, NODES)
        if some not in members:
            administration.add_member(queue, some).then(lambda _: None, lambda _: None)
        elif len(members) > 2:
            administration.remove_member(queue, some).then(lambda _: None, lambda _: None)

    def trouble(self) -> None:
        random, cluster = self.random, self.cluster
        match random.choice(["kill", "cut", "heal", "heal", "transfer"]):
            case "kill" if self.down is None:
                self.down = random.randint(1, NODES)
                self.lose_clients_of(self.down)
                cluster.nodes[self.down].kill()
            case "cut":
                one, other = random.sample(range(1, NODES + 1), 2)
                cluster.cut(one, other)
            case "transfer":
                node = cluster.nodes[self.a_node()]
                queue = node.queue(self.record)
                node.kind.administration.transfer(queue, random.randint(1, 3)).then(lambda _: None, lambda _: None)
            case "heal":
                self.heal()
            case _:
                pass

    def heal(self) -> None:
        if self.down is not None:
            number, self.down = self.down, None
            self.cluster.restart(number)
        self.cluster.heal()

    def lose_clients_of(self, node: NodeId) -> None:
        for publisher in self.publishers:
            publisher.closed = publisher.closed or publisher.node == node
        for reader in self.readers:
            reader.left = reader.left or reader.node == node
        for client in self.chunk_readers:
            client.left = client.left or client.node == node
        for named in self.named:
            named.cut_off = named.cut_off or named.node == node

    def finish(self) -> None:
        self.heal()
        for reader in self.here():
            reader.writable = True
            reader.wake()
        for client in self.chunk_readers_here():
            client.give(100_000)
        for client in self.named:
            client.move(self.a_node())
            client.store()
        self.cluster.run(SETTLED_S)
        for client in self.named:
            assert client.confirmed == client.published, f"{client.name} waits for ever"
            client.ask(self.a_node())
        for publisher in self.publishers:
            if not publisher.closed:
                assert len(publisher.confirmed) == publisher.next, "a publisher waits for ever"
        last = [self.read(node.number, "first") for node in self.cluster.alive()]
        self.cluster.run(1.0)
        assert {reader.next for reader in last} == {len(self.stream) or None}, "members differ in how much they have"
        for reader in self.here():
            assert reader.next in (None, len(self.stream)), "a reader waits for ever"
        for client in self.chunk_readers_here():
            assert client.next == len(self.stream) or client.offset >= len(self.stream), "a reader waits for ever"
        for client in self.named:
            assert client.known == client.stored, "what was stored last is lost"
        self.judge([self.stream[offset] for offset in range(len(self.stream))])

    def judge(self, stream: Sequence[bytes]) -> None:
        assert len(stream) == len(set(stream)), "a message is there twice"
        confirmed = {body for publisher in self.publishers for body in publisher.confirmed}
        assert confirmed <= set(stream), f"lost: {sorted(confirmed - set(stream))}"
        for publisher in self.publishers:
            mine = [number_of(body) for body in stream if body.startswith(publisher.name.encode())]
            assert mine == sorted(mine), "a publisher's messages are out of order"
        for client in self.named:
            mine = [body for body in stream if body.startswith(client.name.encode())]
            sizes = [(number, client.batch_size(number) or 1) for number in range(1, client.published + 1)]
            assert mine == [client.body(number, place) for number, size in sizes for place in range(size)]


def number_of(body: bytes) -> int:
    return int(body.rsplit(b"-", 1)[1])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_stream_is_one_for_all_and_loses_nothing_whatever_happens(seed: int) -> None:
    run = Run(seed)
    for _ in range(STEPS):
        run.step()
    run.finish()
