"""Items of stream clients as a stream stores them: chunks, sub-batches, filters, and how runs become parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from broker.catalog.policy import EffectiveArguments
from broker.errors import ResourceExhausted
from broker.messages.message import LOOK_HEADERS, Run
from native.content import encode
from native.stream_publish import STREAM_RUN_UNPACKED_BYTES_MAX
from replicated.portions import IN_FLIGHT_MAX, PORTION_BYTES_MAX
from stream.chunks.bloom import WantedValues
from stream.chunks.chunk import CHUNK_HEADER_BYTES, ITEMS_MAX, items_in, message_item
from stream.chunks.entries import ChunkEntry, decode
from stream.chunks.filters import FILTER_VALUE
from stream.chunks.published_parts import PORTION_MESSAGES_MAX, parts_of_items, parts_of_run
from stream.group.rules import rules_of
from stream.publishing.node_publishing import RUN_BYTES_MAX
from stream.queue import StreamQueue
from tests.unit.stream.named_publisher import NamedPublisher, batches_of, run_of
from tests.unit.stream.test_stream_queue import world
from wire.amqp.tables import encode_properties


def chunks(clients: Any, queue: StreamQueue) -> list[ChunkEntry]:
    store = clients.cluster.nodes[1].store.group(queue.group)
    assert queue.member is not None
    entries = [decode(store.read_entry(index)) for index in queue.member.machine.live_entries()]
    return [entry for entry in entries if isinstance(entry, ChunkEntry)]


def data_of(chunk: ChunkEntry) -> bytes:
    return bytes(chunk.chunk[CHUNK_HEADER_BYTES:])


def matches(chunk: ChunkEntry, *values: bytes, unfiltered: bool = False) -> bool:
    return WantedValues(values, unfiltered).may_match(chunk.chunk_filter)


def run_with_headers(*headers: dict[str, Any]) -> Run:
    content = b"".join([encode(encode_properties({"headers": some}), b"body") for some in headers])
    return Run("x", "k", content, len(headers), 4 * len(headers), look=LOOK_HEADERS)


@pytest.mark.parametrize("node", [1, 2, 3])
def test_items_are_stored_as_they_are_from_any_node(node: int) -> None:
    clients, record = world(members=(1, 2))
    publisher = NamedPublisher(clients, node, record, "")
    bodies = [b"\x00\x53\x75\xa0\x01a", b"raw"]
    publisher.publish(run_of([7, 9], bodies))
    clients.cluster.run(1)
    assert publisher.confirmed == [7] and not publisher.owed
    (chunk,) = chunks(clients, clients.of(1, record)[1])
    assert data_of(chunk) == b"".join(map(message_item, bodies))
    assert chunk.chunk_filter == b"" and chunk.header.message_count == 2


def test_sub_batches_share_chunks_but_never_with_messages() -> None:
    clients, record = world(1, (1,))
    publisher = NamedPublisher(clients, 1, record, "p")
    publisher.publish(run_of([1], [b"a"]))
    publisher.publish(batches_of([2, 3], [[b"b", b"c", b"d"], [b"e"]]))
    publisher.publish(batches_of([4], [[b"f", b"g"]]))
    publisher.publish(run_of([5, 6], [b"h", b"i"]))
    clients.cluster.run(1)
    assert publisher.confirmed == [1, 2, 4, 5]
    found = chunks(clients, clients.of(1, record)[1])
    assert [(one.header.item_count, one.header.message_count) for one in found] == [(1, 1), (3, 6), (2, 2)]
    assert [one.header.first_offset for one in found] == [0, 1, 7]


def test_both_kinds_in_turns_wait_for_no_answer() -> None:
    """A portion that waited would end where the other kind begins all the same."""
    clients, record = world(1, (1,))
    publisher = NamedPublisher(clients, 1, record, "")
    for id_ in range(1, IN_FLIGHT_MAX + 1, 2):
        publisher.publish(run_of([id_], [b"a"]))
        publisher.publish(batches_of([id_ + 1], [[b"b"]]))
    publisher.queue.session.flush()
    assert publisher.queue.session.sent == IN_FLIGHT_MAX - 1  # the last one may still grow
    clients.cluster.run(1)
    assert publisher.confirmed == list(range(1, IN_FLIGHT_MAX + 1))


def test_sub_batches_of_a_chunk_announce_no_more_than_a_turn_can_take_apart() -> None:
    clients, record = world(1, (1,))
    publisher = NamedPublisher(clients, 1, record, "")
    half = bytes(STREAM_RUN_UNPACKED_BYTES_MAX // 2)
    for id_ in range(1, 6):
        publisher.publish(batches_of([id_], [[half, b""] if id_ == 3 else [half[:-8]]], zipped=True))
    clients.cluster.run(1)
    assert [one.header.item_count for one in chunks(clients, publisher.queue)] == [2, 1, 2]


def test_the_filter_of_a_chunk_has_the_values_of_all_its_parts() -> None:
    clients, record = world(1, (1,))
    publisher = NamedPublisher(clients, 1, record, "")
    kind, queue = clients.of(1, record)
    publisher.publish(run_of([1, 2], [b"a", b"b"], [b"eu", b"us"]))
    kind.publish((queue,), run_with_headers({FILTER_VALUE: "asia"}), None, clients.now)
    clients.cluster.run(1)
    kind.publish((queue,), run_with_headers({"other": "asia"}), None, clients.now)
    clients.cluster.run(1)
    publisher.publish(run_of([3], [b"a"], [b"eu"]))
    publisher.publish(run_of([4], [b"a"]))
    clients.cluster.run(1)
    first, plain, mixed = chunks(clients, queue)
    assert len(first.chunk_filter) == 16
    assert all(matches(first, value) for value in (b"eu", b"us", b"asia"))
    assert not matches(first, b"africa") and not matches(first, b"africa", unfiltered=True)
    assert plain.chunk_filter == b""
    assert matches(mixed, b"eu") and matches(mixed, b"africa", unfiltered=True) and not matches(mixed, b"africa")


def test_a_policy_changes_the_size_of_filters_and_what_it_cannot_be_is_made_to_fit() -> None:
    clients, record = world(1, (1,))
    publisher = NamedPublisher(clients, 1, record, "")
    publisher.queue.policy_changed(EffectiveArguments(stream_filter_size_bytes=40), clients.now)
    publisher.publish(run_of([1], [b"a"], [b"eu"]))
    clients.cluster.run(1)
    assert len(chunks(clients, publisher.queue)[0].chunk_filter) == 40
    sizes = [rules_of(EffectiveArguments(stream_filter_size_bytes=size)).filter_bytes for size in (None, 1, 255, 999)]
    assert sizes == [16, 16, 255, 255]


def test_headers_that_name_no_filter_value_count_for_none() -> None:
    wrong: Sequence[Any] = (5, None, ["eu"], True)
    (part,) = parts_of_run(run_with_headers(*({FILTER_VALUE: value} for value in wrong), {FILTER_VALUE: "eu"}))
    assert (part.filter_values, part.has_unfiltered) == ({b"eu"}, True)
    (part,) = parts_of_run(run_with_headers({FILTER_VALUE: "eu"}, {FILTER_VALUE: ""}))
    assert (part.filter_values, part.has_unfiltered) == ({b"eu", b""}, False)


def test_a_run_larger_than_a_portion_is_split_between_messages() -> None:
    content = encode(b"\0\0", b"x" * 1000)
    parts = parts_of_run(Run("", "q", content * 1200, 1200, 1_200_000))
    assert sum([part.message_count for part in parts]) == 1200
    assert len(parts) == 3 and all(len(part.items) < 1.1 * PORTION_BYTES_MAX for part in parts)
    (single,) = parts_of_run(Run("", "q", content, 1, 1000))
    assert b"".join([part.items for part in parts]) == single.items * 1200


def test_items_are_split_where_a_chunk_would_have_too_many() -> None:
    count = ITEMS_MAX + 5
    run = run_of(range(count), [b"%d" % number for number in range(count)])
    parts = parts_of_items("p", run)
    assert max(part.item_count for part in parts) <= PORTION_MESSAGES_MAX
    assert b"".join([part.items for part in parts]) == run.items and b"".join([part.ids for part in parts]) == run.ids
    for part in parts:
        assert len(list(items_in(part.items, part.item_count))) == part.item_count == len(part.ids) // 8
    assert parts_of_items("", run)[0].ids == b""


def test_more_than_an_entry_holds_is_refused_and_leaves_nothing() -> None:
    clients, record = world(1, (1,))
    publisher = NamedPublisher(clients, 1, record, "")
    with pytest.raises(ResourceExhausted, match="takes messages of up to"):
        publisher.publish(run_of([1], [bytes(RUN_BYTES_MAX)]))
    clients.cluster.run(0.2)
    assert publisher.queue.session.idle and publisher.queue.ready_count == 0
