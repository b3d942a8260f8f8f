"""Messages of AMQP 0-9-1 in a chunk and out of it: their places, whatever stands between them."""

from __future__ import annotations

import gzip
import re
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.messages.message import Run
from native.content import encode, messages
from raft.core.errors import BadBytes
from stream.chunks.chunk import SubBatch, message_item, sub_batch_item
from stream.chunks.stored_form import StreamMessages, items_of_run, messages_in_steps
from tests.chunk_messages import stream_messages

PLAIN = b"\x00\x00"
TYPED = b"\x80\x00\x0atext/plain"
LOSSY = b"\x20\x00" + b"\x00\x00\x00\x07\x01kF\x00\x00\x00\x00"  # a header with a table

published = st.lists(
    st.tuples(st.sampled_from([PLAIN, TYPED, LOSSY]), st.binary(max_size=600)), min_size=1, max_size=12
)
names = st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape"))


def run_of(found: list[tuple[bytes, bytes]], exchange: str = "", routing_key: str = "q") -> Run:
    content = b"".join(encode(properties, body) for properties, body in found)
    return Run(exchange, routing_key, content, len(found), sum(len(body) for _, body in found))


def bodies(one: StreamMessages) -> list[bytes]:
    return [body for _, body in messages(one.content, 0, one.message_count)]


@given(published, names, names)
def test_what_was_published_is_found_at_its_offset(
    found: list[tuple[bytes, bytes]], exchange: str, routing_key: str
) -> None:
    run = run_of(found, exchange, routing_key)
    stored = stream_messages(items_of_run(run), run.count, 70)
    assert [body for one in stored for body in bodies(one)] == [body for _, body in found]
    assert stored[0].first_offset == 70
    assert sum(one.message_count for one in stored) == run.count


def test_runs_of_several_keys_are_told_apart() -> None:
    runs = [run_of([(PLAIN, b"1"), (TYPED, b"2")]), run_of([(TYPED, b"3")], "x", "other")]
    stored = stream_messages(b"".join(map(items_of_run, runs)), 3, 0)
    assert [(one.first_offset, bodies(one), one.exchange, one.key_in("s")) for one in stored] == [
        (0, [b"1", b"2"], "", "q"),
        (2, [b"3"], "x", "other"),
    ]


def test_an_item_that_is_no_message_of_ours_is_a_body_under_the_name_of_the_stream() -> None:
    own = items_of_run(run_of([(TYPED, b"own")]))
    stored = stream_messages(own + message_item(b"raw bytes") + own, 3, 0)
    assert [(one.first_offset, bodies(one), one.key_in("s")) for one in stored] == [
        (0, [b"own"], "q"),
        (1, [b"raw bytes"], "s"),
        (2, [b"own"], "q"),
    ]


ITEMS = items_of_run(run_of([(PLAIN, b"1"), (PLAIN, b"2")]))
ZIPPED = gzip.compress(ITEMS, mtime=0)


@pytest.mark.parametrize(("compression", "data"), [(0, ITEMS), (1, ZIPPED)], ids=["none", "gzip"])
def test_sub_batches_are_taken_apart(compression: int, data: bytes) -> None:
    batch = sub_batch_item(SubBatch(compression, 2, len(ITEMS), data))
    (stored,) = stream_messages(batch, 1, 10)
    assert (stored.first_offset, bodies(stored)) == (10, [b"1", b"2"])
    found = stream_messages(ITEMS + batch + ITEMS, 5, 0)
    assert [(one.first_offset, one.message_count) for one in found] == [(0, 2), (2, 2), (4, 2)]


def test_alike_messages_of_many_sub_batches_come_together_up_to_one_that_cannot_be_read() -> None:
    good, zipped, bad = (
        SubBatch(0, 2, len(ITEMS), ITEMS),
        SubBatch(1, 2, len(ITEMS), ZIPPED),
        SubBatch(4, 3, 99, b"zstd"),
    )
    told: list[int] = []
    batches = [good, zipped, good, bad, zipped, bad, bad, good, good]
    data = b"".join(map(sub_batch_item, batches))
    found = stream_messages(
        data, len(batches), 10, lambda count, why: told.append(int(re.findall(r"offset (\d+)", why)[0]))
    )
    assert [(one.first_offset, bodies(one)) for one in found] == [
        (10, [b"1", b"2"] * 3),
        (19, [b"1", b"2"]),
        (27, [b"1", b"2"] * 2),
    ]
    assert told == [16, 21, 24]


BOMB = gzip.compress(bytes(16 << 20), mtime=0)


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        (SubBatch(1, 5, 100, b"gzip"), "no gzip"),
        (SubBatch(1, 2, len(ITEMS), ZIPPED[:-9]), "its end is missing"),
        (SubBatch(1, 2, len(ITEMS) - 1, ZIPPED), "not so many"),
        (SubBatch(1, 2, len(ITEMS) + 1, ZIPPED), "not so many"),
        (SubBatch(1, 3, len(ITEMS), ZIPPED), "2 messages in .* and 3 are announced"),
        (SubBatch(1, 1, len(ITEMS), ZIPPED), "2 messages in .* and 1 are announced"),
        (SubBatch(1, 2, 1_000, BOMB), "not so many"),
        (SubBatch(1, 2, 100 << 20, BOMB), "is the most"),
        (SubBatch(2, 2, len(ITEMS), b"x"), "compression snappy"),
        (SubBatch(4, 2, len(ITEMS), b"x"), "compression zstd"),
        (SubBatch(7, 2, len(ITEMS), b"x"), "compression 7"),
        (SubBatch(0, 2, 9, b"no items"), "no item is at 0"),
        (SubBatch(0, 1, 16, sub_batch_item(SubBatch(0, 1, len(ITEMS), ITEMS))), "0 messages"),
    ],
)
def test_a_sub_batch_that_cannot_be_taken_apart_is_left_out_and_told_of(batch: SubBatch, why: str) -> None:
    told: list[tuple[int, str]] = []
    data = ITEMS + sub_batch_item(batch) + ITEMS
    found = stream_messages(data, 5, 0, lambda count, why: told.append((count, why)))
    behind = 2 + batch.message_count
    assert [(one.first_offset, one.message_count) for one in found] == [(0, 2), (behind, 2)]
    ((count, reason),) = told
    assert count == batch.message_count
    assert re.search(f"a sub-batch at offset 2 cannot be taken apart: .*{why}", reason)


def test_a_batch_becomes_no_more_bytes_than_it_announces() -> None:
    tracemalloc.start()
    assert stream_messages(sub_batch_item(SubBatch(1, 2, 1_000, BOMB)), 1, 0) == []
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < len(BOMB) + (2 << 20)


@pytest.mark.parametrize("cut", range(1, 30))
def test_what_is_cut_off_or_counted_wrongly_is_no_chunk(cut: int) -> None:
    items = items_of_run(run_of([(PLAIN, b"1"), (PLAIN, b"2")])) + sub_batch_item(SubBatch(0, 1, 9, message_item(b"3")))
    assert len(stream_messages(items, 3, 0)) == 2
    for data, count in ((items[:-cut], 3), (items, 2), (items, 4), (items + b"\0" * cut, 3)):
        with pytest.raises(BadBytes):
            stream_messages(data, count, 0)


def gzipped(items: bytes, count: int) -> bytes:
    return bytes(sub_batch_item(SubBatch(1, count, len(items), gzip.compress(items))))


@pytest.mark.parametrize("announced", [1, 16], ids=["what is announced wrongly", "what is sound"])
def test_a_sub_batch_that_is_large_inside_is_taken_apart_in_steps(announced: int) -> None:
    """Ten frames of 64 KiB held a node for 7 seconds when a consumer came to them."""
    items = message_item(bytes((1 << 20) - 4)) * 16
    left_out: list[int] = []
    steps = messages_in_steps(gzipped(items, announced), 1, 0, lambda count, why: left_out.append(count))
    assert sum(1 for _ in steps) > 14
    assert left_out == [1] * (announced == 1)


def test_messages_that_are_work_are_converted_a_few_in_each_step_and_delivered_together() -> None:
    sent = [b"%d" % number for number in range(1_000)]
    items = b"".join(message_item(body) for body in sent)  # no sections of AMQP 1.0: the kernel asks for each
    assert sum(1 for _ in messages_in_steps(items, len(sent), 0, lambda count, why: None)) > 5
    (found,) = stream_messages(items, len(sent), 70)
    assert (found.first_offset, found.size, bodies(found)) == (70, len(found.content), sent)
