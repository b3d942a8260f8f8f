"""native/offsets.py: what it writes is what pamqp and wire/amqp/tables.py read."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pamqp import commands
from pika import frame as pika_frame

from broker.queues.added_headers import with_headers
from native import content as contents
from native.deliver import deliveries
from tests.unit.native.both import forms
from wire.amqp.tables import decode_properties, encode_properties, join_properties, split_properties, split_table

FORMS = forms("offsets", "with_offsets")
NO_PROPS = b"\0\0"
HIGHEST = 2**63 - 1

headers = st.dictionaries(
    st.one_of(st.text(max_size=8), st.sampled_from(["x-stream-offset", "x-stream-offse", "x-stream-offset2"])),
    st.one_of(
        st.integers(-(2**62), 2**62), st.text(max_size=9), st.none(), st.booleans(), st.binary(max_size=5),
        st.floats(allow_nan=False), st.lists(st.integers(0, 9), max_size=3), st.just({"x-stream-offset": "nested"}),
    ),
    max_size=5,
)  # fmt: skip
properties = st.fixed_dictionaries(
    {},
    optional={
        "content_type": st.text(max_size=9), "content_encoding": st.text(max_size=9), "headers": headers,
        "delivery_mode": st.integers(0, 255), "message_id": st.text(max_size=9), "timestamp": st.integers(0, 2**40),
    },
)  # fmt: skip


def decoded(content: bytes, count: int) -> list[tuple[dict[str, Any], bytes]]:
    return [(decode_properties(props), body) for props, body in contents.messages(content, 0, count)]


@pytest.mark.parametrize("form", FORMS)
class TestWithOffsets:
    @given(
        runs=st.lists(st.tuples(properties, st.lists(st.binary(max_size=20), min_size=1, max_size=4)), max_size=4),
        first=st.integers(0, HIGHEST - 20),
        before=st.integers(0, 2),
    )
    def test_each_message_gets_its_offset_and_keeps_all_else(
        self, form: Any, runs: list[tuple[dict[str, Any], list[bytes]]], first: int, before: int
    ) -> None:
        messages = [(encode_properties(one), body) for one, bodies in runs for body in bodies]
        content = b"".join(contents.encode(*one) for one in [(NO_PROPS, b"before")] * before + messages)
        start = contents.skip(content, 0, before)
        changed = form.with_offsets(content, start, len(messages), first)
        assert contents.count(changed) == len(messages)
        for place, (one, body) in enumerate(decoded(changed, len(messages))):
            published, expected_body = decode_properties(messages[place][0]), messages[place][1]
            added = {**published.get("headers", {}), "x-stream-offset": first + place}
            assert (one, body) == ({**published, "headers": added}, expected_body)

    @given(runs=st.lists(st.tuples(properties, st.binary(max_size=9)), min_size=1, max_size=3), first=st.integers(0, 9))
    def test_pamqp_reads_signed_64_bits(self, form: Any, runs: list[tuple[dict[str, Any], bytes]], first: int) -> None:
        content = b"".join(contents.encode(encode_properties(one), body) for one, body in runs)
        changed = form.with_offsets(content, 0, len(runs), first)
        for place, (props, _) in enumerate(contents.messages(changed, 0, len(runs))):
            read = commands.Basic.Properties()
            read.unmarshal(struct.unpack_from(">H", props)[0], props[2:])
            assert read.headers is not None and read.headers["x-stream-offset"] == first + place
            raw = split_table(split_properties(props)["headers"])["x-stream-offset"]
            assert raw == b"l" + struct.pack(">q", first + place)

    @given(runs=st.lists(st.tuples(properties, st.integers(1, 4)), min_size=1, max_size=3), first=st.integers(0, 2**62))
    def test_pika_sees_rising_offsets_in_what_is_delivered(
        self, form: Any, runs: list[tuple[dict[str, Any], int]], first: int
    ) -> None:
        content = b"".join(contents.encode(encode_properties(one), b"body") * repeat for one, repeat in runs)
        count = sum(repeat for _, repeat in runs)
        wire, _ = deliveries(form.with_offsets(content, 0, count, first), 0, count, 1, b"tag", 1, False, b"x", b"k", 0)
        seen = []
        while wire:
            size, found = pika_frame.decode_frame(wire)
            wire = wire[size:]
            if isinstance(found, pika_frame.Header):
                seen.append(found.properties.headers["x-stream-offset"])
        assert seen == list(range(first, first + count))

    def test_it_is_what_the_slow_way_adds(self, form: Any) -> None:
        props = encode_properties({"content_type": "text", "headers": {"a": 1}, "message_id": "m"})
        content = contents.encode(props, b"one") + contents.encode(NO_PROPS, b"two")
        slow = b"".join(
            with_headers(one, 0, 1, {"x-stream-offset": 7 + place})
            for place, one in enumerate(contents.singles(content, 0, 2))
        )
        assert form.with_offsets(content, 0, 2, 7) == slow

    def test_an_offset_of_another_stream_is_replaced_each_time_it_is_there(self, form: Any) -> None:
        entry = b"\x0fx-stream-offsetS\0\0\0\1x"
        table = entry + b"\1at\1" + entry
        props = join_properties({"headers": struct.pack(">I", len(table)) + table})
        changed = form.with_offsets(contents.encode(props, b"x") * 2, 0, 2, HIGHEST - 1)
        assert [one["headers"] for one, _ in decoded(changed, 2)] == [
            {"a": True, "x-stream-offset": HIGHEST - 1}, {"a": True, "x-stream-offset": HIGHEST},
        ]  # fmt: skip
        assert changed.count(b"x-stream-offset") == 2

    @pytest.mark.parametrize("table", [b"\1a?", b"\5a", b"\1aS\0\0\0\x09x", b"\1aS\0", b"\1al\0", b"\1a", b"\0"])
    def test_headers_that_nobody_can_read_make_room(self, form: Any, table: bytes) -> None:
        props = join_properties({"headers": struct.pack(">I", len(table)) + table, "message_id": b"\1m"})
        changed = form.with_offsets(contents.encode(props, b"body"), 0, 1, 3)
        assert decoded(changed, 1) == [({"headers": {"x-stream-offset": 3}, "message_id": "m"}, b"body")]

    @pytest.mark.parametrize(
        "props",
        [b"", b"\0", b"\0\1", b"\0\2", b"\x80\0", b"\x80\0\5a", b"\x40\0\1", b"\x20\0\0\0", b"\x20\0\0\0\0\1"],
    )
    def test_a_malformed_property_list_is_damage(self, form: Any, props: bytes) -> None:
        with pytest.raises(ValueError, match=f"malformed property list of {len(props)} bytes"):
            form.with_offsets(contents.encode(props, b"body"), 0, 1, 3)

    def test_messages_that_are_not_there_are_damage(self, form: Any) -> None:
        content = contents.encode(NO_PROPS, b"one")
        with pytest.raises(ValueError, match="no message at 13"):
            form.with_offsets(content, 0, 2, 0)
        with pytest.raises(ValueError, match="no message at -1"):
            form.with_offsets(content, -1, 1, 0)

    @pytest.mark.parametrize(("first", "count"), [(-1, 1), (HIGHEST, 2), (2**64, 1)])
    def test_offsets_that_no_header_holds_are_refused(self, form: Any, first: int, count: int) -> None:
        with pytest.raises(OverflowError, match="not within 63 bits"):
            form.with_offsets(contents.encode(NO_PROPS, b"") * 2, 0, count, first)

    def test_no_message_is_no_content(self, form: Any) -> None:
        assert form.with_offsets(b"", 0, 0, 5) == b""


@pytest.mark.skipif(len(FORMS) < 2, reason="nothing is compiled")
@given(
    props=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.tuples(st.binary(max_size=40), st.sampled_from([0, 0x1000])).map(
                lambda one: struct.pack(">HI", 0x2000 | one[1], len(one[0])) + one[0]
            ),
        ),
        min_size=1,
        max_size=4,
    ),
    repeat=st.integers(1, 3),
    cut=st.integers(0, 3),
    first=st.one_of(st.integers(0, 9), st.integers(HIGHEST - 9, HIGHEST + 9)),
)
def test_hostile_bytes_come_out_of_both_forms_the_same(props: list[bytes], repeat: int, cut: int, first: int) -> None:
    content = b"".join(contents.encode(one, b"body") * repeat for one in props)
    content = content[: len(content) - cut]
    outcomes = []
    for form in FORMS:
        try:
            outcomes.append(form.values[0].with_offsets(content, 0, len(props) * repeat, first))  # type: ignore[attr-defined]
        except (ValueError, OverflowError) as error:
            outcomes.append(f"{type(error).__name__}: {error}".encode())
    assert outcomes[0] == outcomes[1]
