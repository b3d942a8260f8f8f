"""native/deliver.py: what it builds is what pamqp reads."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import body, commands, frame, header

from native import content as contents
from native.deliver import is_large
from tests.unit.native.both import forms

FORMS = forms("deliver", "deliveries", "large_deliveries", "publishes", "content_frames")
NO_PROPS = b"\0\0"


def read(wire: bytes) -> list[tuple[int, Any]]:
    frames = []
    while wire:
        size, channel, value = frame.unmarshal(wire)
        frames.append((channel, value))
        wire = wire[size:]
    return frames


@pytest.mark.parametrize("form", FORMS)
class TestPublishes:
    @given(
        bodies=st.lists(st.binary(max_size=70), max_size=5),
        exchange=st.text(max_size=20),
        routing_key=st.text(max_size=20),
        mandatory=st.booleans(),
        frame_max=st.sampled_from([0, 9, 16, 40, 131072]),
    )
    def test_pamqp_reads_what_is_to_be_published(
        self, form: Any, bodies: list[bytes], exchange: str, routing_key: str, mandatory: bool, frame_max: int
    ) -> None:
        content = b"".join(contents.encode(NO_PROPS, text) for text in [b"before", *bodies])
        start = contents.skip(content, 0, 1)
        wire, position = form.publishes(
            content, start, len(bodies), 5, exchange.encode(), routing_key.encode(), mandatory, frame_max
        )
        assert position == len(content)
        frames = read(wire)
        methods = [value for _, value in frames if isinstance(value, commands.Basic.Publish)]
        assert [(one.exchange, one.routing_key, one.mandatory) for one in methods] == [
            (exchange, routing_key, mandatory)
        ] * len(bodies)
        assert {channel for channel, _ in frames} <= {5}
        sizes = [value.body_size for _, value in frames if isinstance(value, header.ContentHeader)]
        assert sizes == [len(text) for text in bodies]
        assert b"".join(value.value for _, value in frames if isinstance(value, body.ContentBody)) == b"".join(bodies)

    def test_a_name_that_is_no_short_string_is_refused(self, form: Any) -> None:
        with pytest.raises(ValueError, match="routing key has 256 bytes"):
            form.publishes(b"", 0, 0, 1, b"", b"k" * 256, False, 0)


@pytest.mark.parametrize("form", FORMS)
class TestDeliveries:
    @given(
        bodies=st.lists(st.binary(max_size=70), max_size=5),
        channel=st.integers(1, 65535),
        consumer_tag=st.text(max_size=20),
        first_tag=st.integers(1, 2**62),  # pamqp reads tags as signed
        redelivered=st.booleans(),
        frame_max=st.sampled_from([0, 9, 16, 40, 131072]),
        before=st.integers(0, 2),
    )
    def test_pamqp_reads_what_was_published(
        self,
        form: Any,
        bodies: list[bytes],
        channel: int,
        consumer_tag: str,
        first_tag: int,
        redelivered: bool,
        frame_max: int,
        before: int,
    ) -> None:
        props = commands.Basic.Properties(delivery_mode=2, headers={"n": 1}, message_id="m").marshal()
        content = b"".join(contents.encode(props, text) for text in [b"before"] * before + bodies)
        start = contents.skip(content, 0, before)
        wire, position = form.deliveries(
            content,
            start,
            len(bodies),
            channel,
            consumer_tag.encode(),
            first_tag,
            redelivered,
            b"ex",
            b"a.b",
            frame_max,
        )
        assert position == len(content)
        frames = read(wire)
        assert all(where == channel for where, _ in frames)
        values = [value for _, value in frames]
        for number, text in enumerate(bodies):
            deliver, head = values[:2]
            assert isinstance(deliver, commands.Basic.Deliver)
            assert (deliver.consumer_tag, deliver.delivery_tag) == (consumer_tag, first_tag + number)
            assert (deliver.redelivered, deliver.exchange, deliver.routing_key) == (redelivered, "ex", "a.b")
            assert isinstance(head, header.ContentHeader)
            assert head.body_size == len(text)
            assert (head.properties.headers, head.properties.message_id) == ({"n": 1}, "m")
            values = values[2:]
            rest = text
            while rest:
                assert isinstance(values[0], body.ContentBody)
                part = values.pop(0).value
                assert part == rest[: frame_max - 8 if frame_max else len(rest)]
                rest = rest[len(part) :]
        assert not values

    def test_content_frames_are_header_and_bodies_alone(self, form: Any) -> None:
        content = contents.encode(NO_PROPS, b"x" * 20) + contents.encode(NO_PROPS, b"")
        wire, position = form.content_frames(content, 0, 7, 16)
        kinds = [type(value).__name__ for _, value in read(wire)]
        assert kinds == ["ContentHeader", "ContentBody", "ContentBody", "ContentBody"]
        wire, end = form.content_frames(content, position, 7, 16)
        assert [type(value).__name__ for _, value in read(wire)] == ["ContentHeader"]
        assert end == len(content)

    def test_names_of_255_bytes_fit_and_longer_ones_are_refused(self, form: Any) -> None:
        content = contents.encode(NO_PROPS, b"")
        longest = b"n" * 255
        wire, _ = form.deliveries(content, 0, 1, 1, longest, 1, False, longest, longest, 4096)
        assert read(wire)[0][1].routing_key == longest.decode()
        for place in range(3):
            names = [b"n"] * 3
            names[place] += longest
            with pytest.raises(ValueError, match="has 256 bytes"):
                form.deliveries(content, 0, 1, 1, names[0], 1, False, names[1], names[2], 4096)

    def test_damaged_content_is_refused_before_anything_is_built(self, form: Any) -> None:
        content = contents.encode(NO_PROPS, b"hello")
        for damaged, position in ((content[:-1], 0), (content, 1), (content, len(content)), (content, -1)):
            with pytest.raises(ValueError, match="damaged content"):
                form.deliveries(damaged, position, 1, 1, b"c", 1, False, b"", b"k", 4096)
            with pytest.raises(ValueError, match="damaged content"):
                form.content_frames(damaged, position, 1, 4096)

    @pytest.mark.parametrize("frame_max", [1, 8])
    def test_a_frame_max_without_room_for_a_body_is_refused(self, form: Any, frame_max: int) -> None:
        with pytest.raises(ValueError, match="no body fits"):
            form.content_frames(contents.encode(NO_PROPS, b"x"), 0, 1, frame_max)


@given(
    st.lists(st.tuples(st.binary(max_size=9), st.binary(max_size=60)), max_size=4), st.sampled_from([0, 9, 17, 4096])
)
def test_both_forms_build_the_same_bytes(batch: list[tuple[bytes, bytes]], frame_max: int) -> None:
    content = b"".join(contents.encode(*message) for message in batch)
    answers = [
        form.values[0].deliveries(content, 0, len(batch), 5, b"c", 2**64 - 9, True, b"e", b"k", frame_max)
        for form in FORMS
    ]
    assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("form", FORMS)
class TestLargeDeliveries:
    @given(
        sizes=st.lists(st.sampled_from([0, 1, 31, 32, 33, 64, 100]), max_size=5),
        before=st.integers(0, 2),
        frame_max=st.sampled_from([0, 9, 40, 131072]),
    )
    def test_the_pieces_are_the_bytes_of_deliveries(
        self, form: Any, sizes: list[int], before: int, frame_max: int
    ) -> None:
        bodies = [bytes([number]) * size for number, size in enumerate(sizes)]
        content = b"".join(contents.encode(b"\x10\x00\x02", text) for text in [b"before"] * before + bodies)
        start = contents.skip(content, 0, before)
        said = (content, start, len(bodies), 7, b"tag", 41, True, b"exchange", b"key", frame_max)
        pieces, size = form.large_deliveries(*said)
        assert b"".join(pieces) == form.deliveries(*said)[0]
        assert size == sum(map(len, pieces))

    def test_bodies_stay_where_they_lie(self, form: Any) -> None:
        content = contents.encode(NO_PROPS, b"x" * 20_000) * 2
        pieces, _ = form.large_deliveries(content, 0, 2, 7, b"tag", 1, False, b"", b"key", 16_008)
        views = [piece for piece in pieces if isinstance(piece, memoryview)]
        assert [len(view) for view in views] == [16_000, 4_000] * 2
        assert all(view.obj is content for view in views)

    def test_a_message_that_is_not_all_there_is_refused(self, form: Any) -> None:
        content = contents.encode(NO_PROPS, b"x" * 20_000)
        with pytest.raises(ValueError, match="damaged content"):
            form.large_deliveries(content[:-1], 0, 1, 7, b"tag", 1, False, b"", b"key", 131072)
        with pytest.raises(ValueError, match="damaged content"):
            form.large_deliveries(content, 0, 2, 7, b"tag", 1, False, b"", b"key", 131072)


def test_from_sixteen_kilobytes_on_a_message_is_large() -> None:
    content = contents.encode(NO_PROPS, b"x" * 16_383) + contents.encode(NO_PROPS, b"x" * 16_384)
    assert not is_large(content, 0)
    assert is_large(content, contents.skip(content, 0, 1))
