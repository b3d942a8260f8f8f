"""native/delivery_split.py: pamqp writes what a broker sends, the splitter reads it, wherever the bytes were cut."""

from __future__ import annotations

import struct
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands, frame, heartbeat

from native import compiled_twin, content, deliver, delivery_split
from native import frame_split as fs
from native.delivery_split import DELIVERY
from tests.unit.native.wire import METHOD_LEN, ack, publish, raw_frame, walk

FRAME_MAX = 4096
SIZE_MAX = 1 << 20


def _forms() -> list[object]:
    plain = pytest.param(SimpleNamespace(split=delivery_split.split_deliveries_plain), id="plain")
    twin = compiled_twin("frame_split")
    return (
        [plain] if twin is None else [plain, pytest.param(SimpleNamespace(split=twin.split_deliveries), id="compiled")]
    )


FORMS = _forms()


def delivery(
    body: bytes,
    tag: int,
    *,
    channel: int = 1,
    consumer_tag: str = "c",
    redelivered: bool = False,
    exchange: str = "amq.topic",
    routing_key: str = "a.b",
    **properties: Any,
) -> bytes:
    """A whole Basic.Deliver as a broker sends it."""
    method = commands.Basic.Deliver(consumer_tag, tag, redelivered, exchange, routing_key)
    content_frames = publish(body, channel=channel, frame_max=FRAME_MAX, **properties)[METHOD_LEN:]
    return frame.marshal(method, channel) + content_frames


def split(form: Any, wire: bytes, *, start: int = 0, assemble_max: int = 65536) -> Any:
    return form.split(wire, start, FRAME_MAX, SIZE_MAX, assemble_max)


@pytest.mark.parametrize("form", FORMS)
class TestDeliveries:
    def test_alike_ones_become_one_run(self, form: Any) -> None:
        wire = b"".join(delivery(b"%d" % n, 7 + n, delivery_mode=2, priority=4, message_id=str(n)) for n in range(9))
        items, consumed, error = split(form, wire)
        ((kind, channel, consumer_tag, first, redelivered, exchange, key, count, held, body_bytes, *look),) = items
        assert (consumed, error) == (len(wire), None)
        assert (kind, channel, consumer_tag, first, redelivered) == (DELIVERY, 1, b"c", 7, False)
        assert (exchange, key, count, body_bytes) == (b"amq.topic", b"a.b", 9, 9)
        assert look == [True, 4, None, None, 0]
        assert [body for _, body in walk(held)] == [b"%d" % n for n in range(9)]

    @pytest.mark.parametrize(
        "other",
        [
            {"channel": 2},
            {"consumer_tag": "d"},
            {"redelivered": True},
            {"exchange": "amq.direct"},
            {"routing_key": "a.c"},
            {"delivery_mode": 2},
            {"expiration": "60000"},
        ],
    )
    def test_a_difference_other_than_the_tag_cuts_a_run(self, form: Any, other: dict[str, Any]) -> None:
        wire = delivery(b"1", 1) + delivery(b"2", 2) + delivery(b"3", 3, **other) + delivery(b"4", 4)
        assert [(item[3], item[7]) for item in split(form, wire)[0]] == [(1, 2), (3, 1), (4, 1)]

    def test_a_gap_in_the_tags_cuts_a_run(self, form: Any) -> None:
        wire = delivery(b"1", 1) + delivery(b"2", 2) + delivery(b"3", 4) + delivery(b"4", 4)
        assert [(item[3], item[7]) for item in split(form, wire)[0]] == [(1, 2), (4, 1), (4, 1)]

    def test_a_run_ends_where_a_run_of_publishes_does(self, form: Any) -> None:
        wire = b"".join(delivery(b"", n) for n in range(fs.RUN_MESSAGES_MAX + 1))
        assert [item[7] for item in split(form, wire)[0]] == [fs.RUN_MESSAGES_MAX, 1]

    def test_confirms_are_merged_and_other_frames_handed_on(self, form: Any) -> None:
        beat = frame.marshal(heartbeat.Heartbeat(), 0)
        nack = frame.marshal(commands.Basic.Nack(delivery_tag=9), 1)
        items, _, error = split(form, ack(1) + ack(2) + beat + nack + publish(b""))
        assert items[0] == (fs.ACK, 1, 1, 2, False)
        assert [item[:2] for item in items[1:]] == [(fs.FRAME, 8), (fs.FRAME, 1), (fs.FRAME, 1), (fs.FRAME, 2)]
        assert error is None

    @pytest.mark.parametrize("cut", range(4, 30))
    def test_a_malformed_deliver_is_handed_on(self, form: Any, cut: int) -> None:
        method = frame.marshal(commands.Basic.Deliver("c", 1, False, "amq.topic", "a.b"), 1)[7:-1]
        wire = raw_frame(1, 1, method[:cut]) + publish(b"x")[METHOD_LEN:]
        expected = [fs.FRAME] * 3 if cut < len(method) else [DELIVERY]
        assert [item[0] for item in split(form, wire)[0]] == expected

    def test_a_broken_frame_ends_it_after_the_good_ones(self, form: Any) -> None:
        items, consumed, error = split(form, delivery(b"1", 1) + raw_frame(4, 1, b""))
        assert ([item[7] for item in items], consumed) == ([1], len(delivery(b"1", 1)))
        assert error == (501, "FRAME_ERROR - unknown frame type 4 on channel 1")

    def test_a_start_outside_of_the_buffer_is_refused(self, form: Any) -> None:
        with pytest.raises(ValueError, match="outside of a buffer of 3 bytes"):
            split(form, b"abc", start=4)

    def test_cut_at_every_byte_the_same_is_read(self, form: Any) -> None:
        wire = b"".join(
            (delivery(b"", 1), delivery(b"x" * 9000, 2, headers={"n": 1}), ack(4, multiple=True), delivery(b"3", 3))
        )
        whole = _flat(split(form, wire)[0])
        for cut in range(len(wire) + 1):
            items, consumed, _ = split(form, wire[:cut])
            rest, end, _ = split(form, wire[consumed:])
            assert _flat(items + rest) == whole
            assert consumed + end == len(wire)


def _flat(items: list[Any]) -> list[Any]:
    """Messages one by one, so that runs that were cut compare equal."""
    flat: list[Any] = []
    for item in items:
        if item[0] != DELIVERY:
            flat.append(item)
            continue
        flat += [(item[3] + place, item[6], *message) for place, message in enumerate(walk(item[8]))]
    return flat


@given(
    wire=st.lists(
        st.one_of(
            st.builds(delivery, st.binary(max_size=40), st.integers(0, 4), routing_key=st.sampled_from(["", "k"])),
            st.builds(ack, st.integers(0, 5), multiple=st.booleans()),
            st.builds(raw_frame, st.sampled_from([1, 2, 3, 4, 8]), st.just(1), st.binary(max_size=30)),
        ),
        max_size=8,
    ).map(b"".join),
    noise=st.lists(st.tuples(st.integers(0, 2000), st.integers(0, 255)), max_size=2),
)
def test_both_forms_answer_alike_whatever_comes(wire: bytes, noise: list[tuple[int, int]]) -> None:
    damaged = bytearray(wire)
    for at, value in noise:
        if at < len(damaged):
            damaged[at] = value
    answers = [split(form.values[0], bytes(damaged)) for form in FORMS]  # type: ignore[attr-defined]
    assert all(answer == answers[0] for answer in answers)


@given(bodies=st.lists(st.binary(max_size=40), min_size=1, max_size=6), first=st.integers(1, 2**62))
def test_what_a_broker_sends_of_a_content_is_read_as_that_content(bodies: list[bytes], first: int) -> None:
    held = b"".join(content.encode(b"\0\0", body) for body in bodies)
    wire, _ = deliver.deliveries(held, 0, len(bodies), 3, b"tag", first, True, b"e", b"k", 16)
    (item,) = delivery_split.split_deliveries(wire, 0, 0, SIZE_MAX)[0]
    expected = (DELIVERY, 3, b"tag", first, True, b"e", b"k", len(bodies), held, sum(map(len, bodies)))
    assert item == (*expected, False, 0, None, None, 0)


def test_the_tag_of_a_delivery_has_64_bits() -> None:
    method = struct.pack(">HHB1sQB2s2s", 60, 60, 1, b"c", 2**64 - 1, 1, b"\1e", b"\1k")
    assert delivery_split.parse_deliver(method) == (b"c", 2**64 - 1, True, b"e", b"k")
