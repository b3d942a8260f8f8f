"""Messages of AMQP 0-9-1 as a chunk has them, and what is made of items that others have put there."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from broker.message import Run
from native.content import encode
from stream.chunk import SubBatch, message_item, sub_batch_item
from stream.stored_form import StreamMessages, items_of, stored_messages

PLAIN = b"\x00\x00"
TYPED = b"\x80\x00\x0atext/plain"

messages = st.lists(
    st.tuples(st.sampled_from([PLAIN, TYPED, b"\x20\x00" + b"\0" * 4 + b"h" * 300]), st.binary(max_size=600)),
    min_size=1,
    max_size=12,
)
names = st.binary(max_size=60).map(lambda data: data.decode("utf-8", "surrogateescape"))


def run_of(found: list[tuple[bytes, bytes]], exchange: str = "", routing_key: str = "q") -> Run:
    content = b"".join(encode(properties, body) for properties, body in found)
    return Run(exchange, routing_key, content, len(found), sum(len(body) for _, body in found))


@given(messages, names, names)
def test_what_was_published_comes_back_exactly(
    found: list[tuple[bytes, bytes]], exchange: str, routing_key: str
) -> None:
    run = run_of(found, exchange, routing_key)
    stored = stored_messages(items_of(run), run.count, 70)
    assert stored == [StreamMessages(70, run.count, exchange, routing_key, run.content)]


def test_runs_of_several_keys_are_told_apart_and_equal_ones_gathered() -> None:
    runs = [run_of([(PLAIN, b"1"), (TYPED, b"2")]), run_of([(TYPED, b"3")]), run_of([(TYPED, b"4")], "x", "other")]
    stored = stored_messages(b"".join(map(items_of, runs)), 4, 0)
    assert [(one.first_offset, one.message_count, one.exchange, one.routing_key) for one in stored] == [
        (0, 3, "", "q"),
        (3, 1, "x", "other"),
    ]
    assert stored[0].content == runs[0].content + runs[1].content


def test_an_item_of_another_form_is_a_body_without_properties() -> None:
    own = items_of(run_of([(TYPED, b"own")]))
    annotations = own[4 : own.index(b"\x00\x53\x75")]
    others = [
        b"", b"raw bytes", b"\x00\x53\x75\xa0\x04only", annotations, annotations + b"\x00\x53\x77\xa1\x01v",
        annotations + b"\x00\x53\x75\xa0\x09short", annotations + b"\x00\x53\x75\xa0\x01ab", annotations[:-1],
        b"\x00\x53\x72\xc1\x05\x02\xa3\x01k\x40",
    ]  # fmt: skip
    for other in others:
        (stored,) = stored_messages(message_item(other), 1, 3)
        assert stored == StreamMessages(3, 1, "", "", encode(PLAIN, other))
    mixed = stored_messages(own + message_item(b"raw bytes") + own, 3, 0)
    assert [(one.first_offset, one.message_count, one.routing_key) for one in mixed] == [
        (0, 1, "q"),
        (1, 1, ""),
        (2, 1, "q"),
    ]


def test_sub_batches_are_taken_apart_unless_they_are_compressed() -> None:
    items = items_of(run_of([(PLAIN, b"1"), (PLAIN, b"2")]))
    plain = sub_batch_item(SubBatch(0, 2, len(items), items))
    compressed = sub_batch_item(SubBatch(1, 5, 100, b"gzip"))
    (stored,) = stored_messages(plain, 1, 10)
    assert (stored.first_offset, stored.message_count) == (10, 2)
    assert stored_messages(compressed, 1, 10) == []
    found = stored_messages(items + compressed + items, 5, 0)
    assert [(one.first_offset, one.message_count) for one in found] == [(0, 2), (7, 2)]


@given(st.binary(max_size=200), st.integers(0, 200), st.integers(0, 255))
def test_any_item_can_be_read(data: bytes, at: int, value: int) -> None:
    own = bytearray(items_of(run_of([(TYPED, b"body")]))[4:])
    own[at % len(own)] = value
    for item in (data, bytes(own)):
        (stored,) = stored_messages(message_item(item), 1, 0)
        assert stored.message_count == 1
