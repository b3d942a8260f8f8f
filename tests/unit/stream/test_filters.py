"""Readers that want only messages with some filter values: none of these is missed, and others are left out where it can be."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from broker.catalog.policy import EffectiveArguments
from broker.messages.message import LOOK_HEADERS, Run
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Outcome, Slice
from broker.queues.stream_contract import Begin, MessageFilter
from broker.records import QueueRecord
from native.content import encode, messages
from raft.core.messages import NodeId
from stream.chunks.filters import FILTER_VALUE, WantedMessages, asked_filter
from stream.chunks.stored_form import StreamMessages
from stream.reading.reading_share import ROUND_BYTES_MAX
from tests.unit.stream.chunk_clients import ChunkClient
from tests.unit.stream.named_publisher import NamedPublisher, run_of
from tests.unit.stream.test_random_streams import StreamClients
from tests.unit.stream.test_stream_queue import world
from wire.amqp.tables import encode_properties


class Filtering:
    """A consumer that settles at once. Fulfils DeliverySink."""

    writable = True

    def __init__(self, clients: StreamClients, record: QueueRecord, prefetch: int = 100, **arguments: Any) -> None:
        self.clients = clients
        self.offsets: list[int] = []
        self.bodies: list[bytes] = []
        self.queue = clients.of(1, record)[1]
        asked = {"x-stream-offset": "first"} | {name.replace("_", "-"): value for name, value in arguments.items()}
        self.consumer = Consumer("c", self.queue, self, prefetch=prefetch, arguments=asked)
        self.queue.consume(self.consumer, clients.now)
        clients.hosts[1].wake(self.queue)

    def deliver(self, consumer: Consumer, piece: Slice, content: bytes) -> None:
        assert piece.offset is not None and consumer.outstanding <= consumer.prefetch
        self.offsets += range(piece.offset, piece.offset + piece.count)
        self.bodies += [body for _, body in messages(content, piece.position, piece.count)]
        consumer.settled(piece.count)
        self.queue.settle(piece, Outcome.ACKNOWLEDGED, self.clients.now)

    def consumer_cancelled(self, consumer: Consumer) -> None:
        raise AssertionError("cancelled")


def publish(clients: StreamClients, record: QueueRecord, *values: Any, node: NodeId = 1) -> None:
    """Messages over AMQP, one for each value, in one chunk; None has none."""
    kind, queue = clients.of(node, record)
    headers = [{} if value is None else {FILTER_VALUE: value} for value in values]
    content = b"".join([encode(encode_properties({"headers": some}), b"%d" % at) for at, some in enumerate(headers)])
    kind.publish((queue,), Run("x", "k", content, len(values), len(values), look=LOOK_HEADERS), None, clients.now)
    clients.cluster.run(0.05)


def test_a_consumer_is_given_the_messages_with_its_values_and_no_others() -> None:
    clients, record = world(1, (1,))
    publish(clients, record, "eu", "us", "eu", "eu", None, "asia")
    publish(clients, record, "us", "us")
    publish(clients, record, None, None)
    publish(clients, record, "asia", "eu")
    one = Filtering(clients, record, x_stream_filter="eu")
    two = Filtering(clients, record, x_stream_filter=["asia", "us"], x_stream_match_unfiltered=True)
    every = Filtering(clients, record, x_stream_match_unfiltered=True)
    clients.cluster.run(0.2)
    assert one.offsets == [0, 2, 3, 11] and one.bodies == [b"0", b"2", b"3", b"1"]
    assert two.offsets == [1, 4, 5, 6, 7, 8, 9, 10]
    assert every.offsets == list(range(12))


def test_prefetch_counts_what_is_given_and_no_message_is_lost_in_the_middle_of_a_chunk() -> None:
    clients, record = world(1, (1,))
    publish(clients, record, *["eu", "us", "eu", "eu", "us"] * 20)
    reader = Filtering(clients, record, prefetch=1, x_stream_filter="eu")
    clients.cluster.run(0.5)
    assert reader.offsets == [offset for offset in range(100) if offset % 5 in (0, 2, 3)]


def test_what_a_client_of_the_stream_protocol_has_filtered_is_in_the_chunk_and_comes_whole() -> None:
    clients, record = world(1, (1,))
    publisher = NamedPublisher(clients, 1, record, "")
    for at, value in enumerate((b"eu", b"us", b"eu")):
        publisher.publish(run_of([2 * at, 2 * at + 1], [b"\x00\x53\x75\xa0\x01a"] * 2, [value, value]))
        clients.cluster.run(0.05)
    consumer = Filtering(clients, record, x_stream_filter="eu")
    client = ChunkClient(clients, 1, record, wanted=MessageFilter(("eu",))).attach(Begin.FIRST)
    clients.cluster.run(0.2)
    assert consumer.offsets == client.offsets == [0, 1, 4, 5]


def test_a_chunk_reader_gets_chunks_with_its_values_and_none_that_surely_lack_them() -> None:
    clients, record = world(1, (1,))
    for values in (["eu", "us"], ["us"], [None], ["asia", None]):
        publish(clients, record, *values)
    readers = {
        (0, 1): MessageFilter(("eu",)),
        (3, 4, 5): MessageFilter(("asia",), match_unfiltered=True),
        (): MessageFilter(("africa",)),
    }
    clients_of = {wanted: ChunkClient(clients, 1, record, wanted=each) for wanted, each in readers.items()}
    for client in clients_of.values():
        client.attach(Begin.FIRST)
    clients.cluster.run(0.2)
    assert {tuple(client.offsets): client.credit for client in clients_of.values()} == {
        wanted: 1_000_000 - len(client.chunks) for wanted, client in clients_of.items()
    }


def test_who_wants_nothing_of_a_long_stream_reads_so_much_in_one_turn() -> None:
    clients, record = world(1, (1,))
    kind, queue = clients.of(1, record)
    count = 2 * (ROUND_BYTES_MAX >> 20)
    for _ in range(count):
        content = encode(encode_properties({"headers": {FILTER_VALUE: "us"}}), bytes(1 << 20))
        kind.publish((queue,), Run("x", "k", content, 1, 1 << 20, look=LOOK_HEADERS), None, clients.now)
        clients.cluster.run(0.1)
    publish(clients, record, "eu")
    consumer = Filtering(clients, record, x_stream_filter="eu")
    client = ChunkClient(clients, 1, record, wanted=MessageFilter(("eu",))).attach(Begin.FIRST)
    queue.pump(clients.now)
    places = [reader.place.offset for reader in queue.readers._readers.values()]
    assert sorted(places) == [1, 1]
    clients.cluster.run(0.2)
    assert consumer.offsets == client.offsets == [count]


@pytest.mark.parametrize("seed", range(10))
def test_no_match_is_ever_missed(seed: int) -> None:
    random = Random(seed)
    clients, record = world(1, (1,))
    values = [None, "", "eu", "us", "ü", *(f"v{number}" for number in range(300))]
    stored: list[Any] = []
    for _ in range(20):
        some = [random.choice(values) for _ in range(random.randint(1, 60))]
        stored += some
        publish(clients, record, *some)
    for _ in range(10):
        wanted = tuple(random.sample(values[1:], random.randint(1, 4)))
        unfiltered = random.random() < 0.5
        right = [at for at, value in enumerate(stored) if value in wanted or (unfiltered and value is None)]
        consumer = Filtering(
            clients, record, random.choice([1, 7, 100]),
            x_stream_filter=list(wanted), x_stream_match_unfiltered=unfiltered,
        )  # fmt: skip
        client = ChunkClient(clients, 1, record, wanted=MessageFilter(wanted, unfiltered)).attach(Begin.FIRST)
        clients.cluster.run(1)
        assert consumer.offsets == right
        assert set(right) <= set(client.offsets)


def sift(wanted: MessageFilter, headers: Sequence[dict[str, Any]], key: str | None = "k") -> list[int]:
    content = b"".join([encode(encode_properties({"headers": some}), b"x") for some in headers])
    alike = StreamMessages(100, len(headers), "x", key, content, size=len(content))
    found = WantedMessages(wanted).among([alike])
    for some in found:
        assert len(messages(content, some.position, some.message_count)) == some.message_count
    return [offset for some in found for offset in range(some.first_offset, some.first_offset + some.message_count)]


def test_a_header_that_is_no_string_is_no_value_but_may_have_been_one() -> None:
    odd = [{FILTER_VALUE: 7}, {FILTER_VALUE: b"eu"}, {FILTER_VALUE: b"us"}, {}]
    assert sift(MessageFilter(("eu",)), odd) == [101]
    assert sift(MessageFilter(("eu",), match_unfiltered=True), odd) == [100, 101, 102, 103]


def test_of_a_client_of_the_stream_protocol_only_messages_with_another_header_are_dropped() -> None:
    assert sift(MessageFilter(("eu",)), [{}, {FILTER_VALUE: "us"}, {FILTER_VALUE: "eu"}], key=None) == [100, 102]


def test_no_values_are_no_filter() -> None:
    assert asked_filter({"x-stream-filter": [], "x-stream-match-unfiltered": True}) is None
    assert asked_filter({"x-stream-match-unfiltered": True}) is None
    assert asked_filter({"x-stream-filter": ""}) == (("",), False)


def test_chunks_with_filters_of_different_sizes_are_all_looked_at() -> None:
    """A policy changes the size; the bits of a value are others then."""
    clients, record = world(1, (1,))
    queue = clients.of(1, record)[1]
    wanted = [f"v{number}" for number in range(20)]
    for size in (16, 40, 255, 16):
        queue.policy_changed(EffectiveArguments(stream_filter_size_bytes=size), clients.now)
        publish(clients, record, *wanted)
        publish(clients, record, "us")
    for value in wanted:
        reader = Filtering(clients, record, x_stream_filter=value)
        clients.cluster.run(0.2)
        assert reader.offsets == [wanted.index(value) + 21 * number for number in range(4)]


def test_messages_without_a_value_are_found_in_a_chunk_whose_others_all_have_one() -> None:
    clients, record = world(1, (1,))
    publisher = NamedPublisher(clients, 1, record, "")
    publisher.publish(run_of([1], [b"with"], [b"v"]))  # one turn, and one chunk
    publisher.publish(run_of([2], [b"without"]))
    clients.cluster.run(0.5)
    wanted = MessageFilter(("another",), match_unfiltered=True)
    reader = ChunkClient(clients, 1, record, wanted=wanted).attach(Begin.FIRST)
    clients.cluster.run(0.2)
    assert reader.bodies == [b"with", b"without"]
