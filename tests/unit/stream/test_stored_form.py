"""Messages of AMQP 0-9-1 in a chunk and out of it: their places, whatever stands between them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.message import Run
from native.content import encode, messages
from raft.core.errors import BadBytes
from stream.chunk import SubBatch, message_item, sub_batch_item
from stream.stored_form import StreamMessages, items_of_run, stream_messages

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


def test_sub_batches_are_taken_apart_unless_they_are_compressed() -> None:
    items = items_of_run(run_of([(PLAIN, b"1"), (PLAIN, b"2")]))
    plain = sub_batch_item(SubBatch(0, 2, len(items), items))
    compressed = sub_batch_item(SubBatch(1, 5, 100, b"gzip"))
    (stored,) = stream_messages(plain, 1, 10)
    assert (stored.first_offset, bodies(stored)) == (10, [b"1", b"2"])
    assert stream_messages(compressed, 1, 10) == []
    found = stream_messages(items + compressed + items, 5, 0)
    assert [(one.first_offset, one.message_count) for one in found] == [(0, 2), (7, 2)]


@pytest.mark.parametrize("cut", range(1, 30))
def test_what_is_cut_off_or_counted_wrongly_is_no_chunk(cut: int) -> None:
    items = items_of_run(run_of([(PLAIN, b"1"), (PLAIN, b"2")])) + sub_batch_item(SubBatch(0, 1, 9, message_item(b"3")))
    assert len(stream_messages(items, 3, 0)) == 2
    for data, count in ((items[:-cut], 3), (items, 2), (items, 4), (items + b"\0" * cut, 3)):
        with pytest.raises(BadBytes):
            stream_messages(data, count, 0)
