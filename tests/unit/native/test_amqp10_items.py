"""native/amqp10_items.py: whatever its twin converts by itself is what wire/amqp10 makes of it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from native import compiled_twin
from native import content as contents
from tests.amqp_values import NAMES, PROPERTY_LISTS, field_table, short, sized
from tests.unit.native.both import forms
from tests.unit.wire.amqp10.stream_messages import ENTRIES, PUBLISHED
from tests.unit.wire.amqp10.typed_examples import PAIRS, SCALARS
from wire.amqp.tables import decode_properties, encode_properties, join_properties
from wire.amqp10.from_amqp10 import DeliveredMessage, from_amqp10
from wire.amqp10.sections import HeaderSection, PropertiesSection, Sections, encode_sections
from wire.amqp10.stream_messages import from_sections, items_of, messages_of, to_sections
from wire.amqp10.to_amqp10 import to_amqp10
from wire.amqp10.typed_values import NULL, TypedValue, ValueType

FORMS = forms("amqp10_items", "items", "messages")
T = ValueType
PLAIN = encode_properties({"delivery_mode": 2, "message_id": "m", "headers": {"k": "v", "x-k": 5}})
EXOTIC = encode_properties({"headers": {"k": ["a"]}})
SCALAR_FIELDS = [
    b"I\0\0\0\5", b"I\xff\xff\xff\x80", b"l" + b"\xff" * 8, b"L" + bytes(8), b"t\1", b"t\2", b"V", b"b\xff", b"B\xff", b"u\0\1",
    b"f\x7f\x80\0\1", b"f\x3f\xc0\0\0", b"d" + b"\xff" * 8,
]  # fmt: skip
# With a NUL, longer than needed, half a pair of surrogates, above Unicode, of four bytes, cut short.
NEARLY_TEXTS = [
    b"", b"\0", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xf0\x9f\x98\x80", b"\xe2\x82", b"x" * 300, b"x" * 4097,
]  # fmt: skip

texts = st.text(max_size=20)
# Lists of properties that clients often send, which the twin converts by itself.
usual_headers = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"x-a", b"b", b"x-b", "ü".encode(), b"\xff", b""]) | NAMES,
        st.sampled_from(SCALAR_FIELDS)
        | st.integers(0, 2**32 - 1).map(lambda number: b"i" + number.to_bytes(4, "big"))
        | st.integers(0, 2**64 - 1).map(lambda number: b"l" + number.to_bytes(8, "big"))
        | st.integers(0, 2**50).map(lambda number: b"T" + number.to_bytes(8, "big"))
        | st.binary(min_size=2, max_size=2).map(lambda raw: b"s" + raw)
        | st.floats(allow_nan=False).map(lambda number: encode_properties({"headers": {"": number}})[7:])
        | st.sampled_from(NEARLY_TEXTS).map(lambda raw: b"S" + sized(raw))
        | texts.map(lambda text: b"S" + sized(text.encode())),
    ),
    max_size=5,
).map(lambda fields: field_table(*fields))  # fmt: skip
usual_properties = st.fixed_dictionaries(
    {},
    optional={
        "headers": usual_headers,
        **{
            name: texts.map(lambda text: short(text.encode()))
            for name in ("content_type", "message_id", "type", "app_id")
        },
        "correlation_id": NAMES.map(short),
        "user_id": NAMES.map(short),
        "reply_to": st.sampled_from([b"answers", b"a b", b"", b"r" * 250, b"amq.gen-x_Y~1"]).map(short),
        "expiration": st.sampled_from([b"0", b"255", b"256", b"4294967295", b"4294967296", b"1" * 30, b"", b"x"]).map(
            short
        ),
        "delivery_mode": st.sampled_from([b"\0", b"\1", b"\2"]),
        "priority": st.binary(min_size=1, max_size=1),
        "timestamp": st.integers(0, 2**55).map(lambda number: number.to_bytes(8, "big")),
    },
)
published = (usual_properties | PROPERTY_LISTS).map(join_properties) | st.sampled_from(
    [PLAIN, EXOTIC, b"\0\0", b"", b"\0\1"]
)


def _usual(names: list[str]) -> st.SearchStrategy[tuple[tuple[TypedValue, TypedValue], ...]]:
    keys = st.sampled_from(names).map(lambda name: TypedValue(T.SYMBOL if name.startswith("x-") else T.STRING, name))
    return st.lists(st.tuples(keys, SCALARS), max_size=4).map(tuple)


strings = texts.map(lambda text: TypedValue(T.STRING, text))
usual_headers_sections = st.tuples(
    st.sampled_from([NULL, TypedValue(T.BOOLEAN, True)]),
    st.integers(0, 255).map(lambda number: TypedValue(T.UBYTE, number)) | st.just(NULL),
    st.integers(0, 2**32 - 1).map(lambda number: TypedValue(T.UINT, number)) | st.just(NULL),
).map(lambda fields: HeaderSection(*fields))
usual_properties_sections = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(
            ("message_id", "correlation_id", "content_type", "content_encoding", "group_id", "to"), strings
        ),
        "user_id": texts.map(lambda text: TypedValue(T.BINARY, text.encode())),
        "reply_to": strings
        | st.sampled_from(["/queues/a", "/queues/a%20b"]).map(lambda text: TypedValue(T.STRING, text)),
        "creation_time": st.integers(-5, 2**40).map(lambda number: TypedValue(T.TIMESTAMP, number)),
    },
).map(lambda fields: PropertiesSection(**fields))
usual_annotations = _usual(
    ["x-exchange", "x-routing-key", "x-basic-type", "x-a", "x-b", "x-opt-c", "x-cc", "x-basic-d", "x-stream-offset"]
)
usual_sections = st.fixed_dictionaries(
    {"body": st.binary(max_size=300).map(lambda raw: (TypedValue(T.BINARY, raw),))},
    optional={
        "header": st.tuples(*[SCALARS] * 5).map(lambda fields: HeaderSection(*fields)) | usual_headers_sections,
        "message_annotations": PAIRS | usual_annotations,
        "properties": st.tuples(*[SCALARS] * 13).map(lambda fields: PropertiesSection(*fields))
        | usual_properties_sections,
        "application_properties": PAIRS | _usual(["a", "b", "x-a", "x-stream-offset"]),
    },
).map(lambda sections: Sections(**sections))
entries = usual_sections.map(encode_sections) | st.sampled_from(sorted(ENTRIES.values())) | st.binary(max_size=30)


def content_of(messages: list[tuple[bytes, bytes]]) -> bytes:
    return b"".join(contents.encode(*message) for message in messages)


def item(entry: bytes) -> bytes:
    return len(entry).to_bytes(4, "big") + entry


def delivered(found: list[tuple[int, bytes, bytes | None, bytes]]) -> list[DeliveredMessage]:
    return [
        DeliveredMessage(exchange.decode(), None if key is None else key.decode(), *message)
        for count, exchange, key, content in found
        for message in contents.messages(content, 0, count)
    ]


@pytest.mark.parametrize("form", FORMS)
class TestItems:
    @settings(max_examples=300)
    @given(
        st.lists(st.tuples(published, st.integers(1, 3), st.binary(max_size=300)), max_size=4),
        texts,
        texts,
        st.integers(0, 2),
    )
    def test_each_item_is_what_the_conversion_makes_of_its_message(
        self, form: Any, runs: list[tuple[bytes, int, bytes]], exchange: str, key: str, before: int
    ) -> None:
        messages = [(properties, body) for properties, count, body in runs for _ in range(count)]
        content = content_of([(b"\0\0", b"before")] * before + messages)
        start = contents.skip(content, 0, before)
        made = form.items(content, start, len(messages), exchange.encode(), key.encode(), to_sections)
        assert made == b"".join(item(to_amqp10(*message, exchange, key)) for message in messages)

    @pytest.mark.parametrize("name", PUBLISHED)
    def test_an_item_is_the_message_as_rabbitmq_was_asked_for(self, form: Any, name: str) -> None:
        properties, body, exchange, key = PUBLISHED[name]
        made = form.items(content_of([(properties, body)]), 0, 1, exchange, key, to_sections)
        assert made == item(to_amqp10(properties, body, exchange.decode(), key.decode()))

    def test_properties_that_equal_those_before_are_asked_for_once(self, form: Any) -> None:
        asked = []

        def convert(properties: bytes, *rest: Any) -> Any:
            asked.append(properties)
            return to_sections(properties, *rest)

        content = content_of([(EXOTIC, b"1"), (EXOTIC, b"2"), (b"\0\0", b"3"), (EXOTIC, b"4")])
        form.items(content, 0, 4, b"", b"k", convert)
        assert asked.count(EXOTIC) == 2

    def test_a_damaged_content_is_refused(self, form: Any) -> None:
        content = content_of([(PLAIN, b"body")])
        for position, count in ((0, 2), (1, 1), (-1, 1), (len(content) + 1, 1)):
            with pytest.raises(ValueError, match="damaged"):
                form.items(content, position, count, b"", b"k", to_sections)

    def test_an_error_of_the_conversion_is_passed_on(self, form: Any) -> None:
        def convert(*_: Any) -> Any:
            raise KeyError("asked")

        with pytest.raises(KeyError):
            form.items(content_of([(EXOTIC, b"")]), 0, 1, b"", b"", convert)
        with pytest.raises(KeyError):
            form.messages(item(ENTRIES["value"]), 0, 1, convert)


@pytest.mark.parametrize("form", FORMS)
class TestMessages:
    @settings(max_examples=400)
    @given(st.lists(st.tuples(entries, st.integers(1, 3)), max_size=4))
    def test_each_message_is_what_the_conversion_makes_of_its_item(
        self, form: Any, runs: list[tuple[bytes, int]]
    ) -> None:
        all_entries = [entry for entry, count in runs for _ in range(count)]
        data = b"".join(map(item, all_entries))
        found, position, taken = form.messages(data, 0, len(all_entries), from_sections)
        assert (position, taken) == (len(data), len(all_entries))
        assert delivered(found) == [from_amqp10(entry) for entry in all_entries]

    @pytest.mark.parametrize("name", ENTRIES)
    def test_a_message_is_the_entry_that_rabbitmq_was_asked_for(self, form: Any, name: str) -> None:
        found, _, _ = form.messages(item(ENTRIES[name]) * 2, 0, 2, from_sections)
        assert delivered(found) == [from_amqp10(ENTRIES[name])] * 2

    @given(st.sampled_from(sorted(ENTRIES)), st.binary(min_size=1, max_size=2), st.integers(0, 90))
    def test_damage_is_seen_by_both(self, form: Any, name: str, damage: bytes, at: int) -> None:
        entry = ENTRIES[name][:at] + damage + ENTRIES[name][at + len(damage) :]
        data = item(ENTRIES[name]) + item(entry)
        found, _, _ = form.messages(data, 0, 2, from_sections)
        assert delivered(found) == [from_amqp10(ENTRIES[name]), from_amqp10(entry)]

    @given(st.lists(st.tuples(published, st.binary(max_size=20), st.sampled_from("ab")), max_size=6))
    def test_messages_of_one_exchange_and_key_are_one_content(
        self, form: Any, messages: list[tuple[bytes, bytes, str]]
    ) -> None:
        data = b"".join(items_of(content_of([(props, body)]), 0, 1, "e", key) for props, body, key in messages)
        found, _, _ = form.messages(data, 0, len(messages), from_sections)
        keys = [found_key for _, _, found_key, _ in found]
        assert all(one != following for one, following in itertools.pairwise(keys))
        assert [message.body for message in delivered(found)] == [body for _, body, _ in messages]
        assert [message.routing_key for message in delivered(found)] == [key for _, _, key in messages]

    def test_items_end_before_a_sub_batch(self, form: Any) -> None:
        data = item(ENTRIES["data"]) * 2
        found, position, taken = form.messages(data + b"\x80rest", 0, 9, from_sections)
        assert (len(delivered(found)), position, taken) == (2, len(data), 2)

    def test_no_more_than_asked_for_is_taken_and_it_goes_on_from_there(self, form: Any) -> None:
        data = item(ENTRIES["data"]) + item(ENTRIES["value"])
        _, position, taken = form.messages(data, 0, 1, from_sections)
        assert (position, taken) == (len(item(ENTRIES["data"])), 1)
        found, position, taken = form.messages(data, position, 5, from_sections)
        assert (delivered(found), position, taken) == ([from_amqp10(ENTRIES["value"])], len(data), 1)

    def test_an_item_that_reaches_beyond_the_data_is_refused(self, form: Any) -> None:
        data = item(ENTRIES["data"])
        for length in range(1, len(data)):
            with pytest.raises(ValueError, match="damaged"):
                form.messages(data[:length], 0, 1, from_sections)


def test_the_twin_asks_for_nothing_that_is_usual() -> None:
    twin = compiled_twin("amqp10_items")
    if twin is None:
        pytest.skip("not built")
    usual = encode_properties(
        {
            "content_type": "application/json", "delivery_mode": 2, "priority": 4, "correlation_id": "c", "reply_to": "answers",
            "expiration": "60000", "message_id": "m", "timestamp": 1_700_000_000, "type": "order", "user_id": "guest",
            "app_id": "shop",
            "headers": {"text": "grün", "n": -5, "l": 2**40, "t": True, "v": None, "d": 2.5, "x-text": "v", "x": b"\0"},
        }
    )  # fmt: skip
    content = content_of([(b"\0\0", b"one"), (usual, b"two" * 200)])
    data = twin.items(content, 0, 2, b"e", b"k", None)
    assert data == b"".join(item(to_amqp10(*message, "e", "k")) for message in contents.messages(content, 0, 2))
    found, _, _ = twin.messages(data, 0, 2, None)
    assert delivered(found) == [
        from_amqp10(to_amqp10(*message, "e", "k")) for message in contents.messages(content, 0, 2)
    ]


def test_a_run_comes_back() -> None:
    content = content_of([(PLAIN, b"one"), (PLAIN, b"two"), (EXOTIC, b"three")])
    (alike,), _, _ = messages_of(items_of(content, 0, 3, "e", "k"), 0, 3)
    assert alike[:3] == (3, "e", "k")
    back = contents.messages(alike.content, 0, 3)
    assert [decode_properties(props) for props, _ in back] == [
        decode_properties(props) for props in (PLAIN, PLAIN, EXOTIC)
    ]
