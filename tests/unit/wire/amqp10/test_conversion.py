"""Messages of AMQP 0-9-1 in streams: stored and delivered as a genuine RabbitMQ does, except where we keep more."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.amqp_values import PROPERTY_LISTS, field_table, short
from tests.unit.wire.amqp10.stream_messages import ENTRIES, PUBLISHED, annotation, array, with_headers, with_properties
from wire.amqp.tables import TableError, decode_properties, join_properties, split_properties, split_table
from wire.amqp10.from_amqp10 import DeliveredMessage, from_amqp10
from wire.amqp10.sections import PropertiesSection, Sections, decode_sections, encode_sections
from wire.amqp10.to_amqp10 import to_amqp10
from wire.amqp10.typed_values import TypedValue, ValueType

ANSWERS = json.loads((Path(__file__).parent / "stream_messages.json").read_text())

# What RabbitMQ refuses with 541 or stores in another way. The reasons are in docs/amqp-differences.md, "Streams".
STORED_OTHERWISE = {
    "reply to what is not UTF-8", "timestamp beyond 63 bits of milliseconds", "cluster id", "all properties",
    *(f"{place}: {value}" for place in ("header", "x-header")
      for value in ("infinite float", "double that is no number", "decimal")),
    "header: array", "header: empty array", "header: table", "header: table in an array", "a header twice",
    "an x-header twice", "header x-death", "a dead letter", "type amqp-1.0 and no sections", "x-amqp-1.0-properties",
    "x-amqp-1.0-app-properties",
}  # fmt: skip
COMES_BACK_OTHERWISE = {
    "timestamp beyond 63 bits of milliseconds", "cluster id", "all properties", "header: array", "header: empty array",
    "header: table", "header: table in an array", "x-amqp-1.0-properties", "x-amqp-1.0-app-properties", "reply to 255 bytes",
}  # fmt: skip
# Entries that RabbitMQ does not deliver, or without what is given here.
DELIVERED_OTHERWISE: dict[str, tuple[dict[str, Any], bytes]] = {
    "nothing": ({}, b""),
    "no section": ({}, b"plain text"),
    "no section, beginning like one": ({}, b"\0Sx"),
    "cut short": ({}, ENTRIES["cut short"]),
    "bytes behind": ({}, ENTRIES["bytes behind"]),
    "header of six fields": ({}, ENTRIES["header of six fields"]),
    "header twice": ({}, ENTRIES["header twice"]),
    "properties behind application properties": ({}, ENTRIES["properties behind application properties"]),
    "footer": ({}, b"body"),
    "no body": ({"message_id": "m"}, b""),
    "message-id: symbol": ({"message_id": "s"}, b"body"),
    "message-id: int": ({}, b"body"),
    "reply-to: address of 258 bytes": ({"reply_to": "r" * 250}, b"body"),
    "content-type: 300 bytes": ({}, b"body"),
    **{
        f"{place}: {value}": ({"headers": {key: header}}, b"body")
        for place, key in (("application property", "k"), ("annotation", "x-k"))
        for value, header in {
            "char": "ü", "uuid": "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", "map with a number as key": {"1": "v"},
            "described": "v", "list with a uuid": ["f81d4fae-7dec-11d0-a765-00a0c91e6bf6"], "list with a ulong": [5],
        }.items()
    },
    "annotation: without x-": ({}, b"body"),
    "annotation: key that is a string": ({"headers": {"x-k": "v"}}, b"body"),
    "annotation: key that is a ulong": ({}, b"body"),
    "annotation: x-exchange of 300 bytes": ({}, b"body"),
    "annotation: x-basic-type of 300 bytes": ({}, b"body"),
    "annotation: x-basic-type of another type": ({}, b"body"),
    "annotation: x-opt-deaths with other fields": ({}, b"body"),
}  # fmt: skip
NAN_IS_DELIVERED = {"application property: float that is no number", "annotation: float that is no number"}

NO_HEADERS = b"\0\0\0\0"

texts = st.text(max_size=20)


def comparable(message: DeliveredMessage) -> tuple[str, str, dict[str, Any], bytes]:
    """Headers without their order, and without the offset that the broker adds."""
    properties: dict[str, Any] = dict(split_properties(message.properties))
    headers = split_table(properties.pop("headers", NO_HEADERS))
    headers.pop("x-stream-offset", None)
    routing_key = "asked" if message.routing_key is None else message.routing_key
    return message.exchange, routing_key, {**properties, "headers": headers}, message.body


def recorded(answer: dict[str, str]) -> tuple[str, str, dict[str, Any], bytes]:
    raw = {name: bytes.fromhex(value) for name, value in answer.items()}
    names = raw["exchange"].decode(), raw["routing_key"].decode()
    return comparable(DeliveredMessage(*names, raw["properties"], raw["body"]))


def stored(name: str) -> bytes:
    properties, body, exchange, routing_key = PUBLISHED[name]
    return to_amqp10(properties, body, exchange.decode(), routing_key.decode())


def test_rabbitmq_was_asked_for_each_message() -> None:
    assert set(ANSWERS["published"]) == set(PUBLISHED)
    assert set(ANSWERS["entries"]) == set(ENTRIES)
    refused = {name for name, answer in ANSWERS["published"].items() if "refused" in answer}
    assert refused <= STORED_OTHERWISE
    assert {name for name, answer in ANSWERS["entries"].items() if isinstance(answer, str)} <= set(DELIVERED_OTHERWISE)


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - STORED_OTHERWISE))
def test_a_message_is_stored_as_rabbitmq_stores_it(name: str) -> None:
    """The same values: RabbitMQ spends two bytes on a boolean in a map."""
    answer = bytes.fromhex(ANSWERS["published"][name]["stored"])
    assert decode_sections(stored(name)) == decode_sections(answer)
    assert stored(name) == answer or b"\x56\0" in answer or b"\x56\1" in answer


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - COMES_BACK_OTHERWISE))
def test_what_was_published_is_delivered_as_rabbitmq_delivers_it(name: str) -> None:
    answer = ANSWERS["published"][name]
    if "refused" not in answer:
        assert comparable(from_amqp10(stored(name))) == recorded(answer["delivered"])
        assert comparable(from_amqp10(bytes.fromhex(answer["stored"]))) == recorded(answer["delivered"])


@pytest.mark.parametrize("name", sorted(set(ENTRIES) - set(DELIVERED_OTHERWISE) - NAN_IS_DELIVERED))
def test_an_entry_is_delivered_as_rabbitmq_delivers_it(name: str) -> None:
    assert comparable(from_amqp10(ENTRIES[name])) == recorded(ANSWERS["entries"][name])


@pytest.mark.parametrize("name", DELIVERED_OTHERWISE)
def test_an_entry_that_rabbitmq_fails_on_is_delivered(name: str) -> None:
    message = from_amqp10(ENTRIES[name])
    assert (message.exchange, message.routing_key) == ("", None)
    assert (decode_properties(message.properties), message.body) == DELIVERED_OTHERWISE[name]


@pytest.mark.parametrize("name", sorted(NAN_IS_DELIVERED))
def test_what_is_no_number_is_delivered(name: str) -> None:
    (number,) = decode_properties(from_amqp10(ENTRIES[name]).properties)["headers"].values()
    assert number != number


@pytest.mark.parametrize(
    "message",
    [
        with_properties(cluster_id=b"c"),
        with_headers((b"k", array()), (b"x-k", b"V"), (b"CC", array(b"S\0\0\0\1c"))),
        with_headers((b"k", b"F" + field_table((b"n", b"D\2\0\0\0\1")))),
        with_headers((b"x-k", b"F" + field_table((b"n", b"D\2\0\0\0\1")))),
        with_properties(timestamp=b"\xff" * 8, delivery_mode=b"\2", message_id=b"m"),
        with_properties(expiration=b"soon"),
    ],
)
def test_what_the_sections_would_lose_is_kept_beside_them(message: Any) -> None:
    entry = to_amqp10(message.properties, message.body, "e", "k")
    assert from_amqp10(entry) == DeliveredMessage("e", "k", message.properties, message.body)


@pytest.mark.parametrize("name", sorted(set(PUBLISHED) - STORED_OTHERWISE))
def test_nothing_is_kept_beside_sections_that_lose_nothing(name: str) -> None:
    assert b"x-leveret-091" not in stored(name)


@pytest.mark.parametrize(
    "kept",
    [
        TypedValue(ValueType.STRING, "text"),
        TypedValue(ValueType.BINARY, b"\xff"),
        TypedValue(ValueType.BINARY, with_properties(type=b"t").properties + b"more"),
        TypedValue(ValueType.BINARY, b"\x20\0\0\0\0\1\0"),
    ],
)
def test_kept_properties_that_nobody_can_read_are_not_delivered(kept: TypedValue) -> None:
    assert from_amqp10(annotation("x-leveret-091", kept)) == DeliveredMessage("", None, b"\0\0", b"body")


def test_blind_carbon_copies_are_not_stored() -> None:
    message = with_headers((b"BCC", array(b"S\0\0\0\6secret")), (b"k", array()))
    assert b"secret" not in to_amqp10(message.properties, b"", "", "")


@pytest.mark.parametrize("properties", [b"", b"\x20\0", b"\xff\xff", b"\x20\0\0\0\0\3\1k?", b"\0\3"])
def test_properties_that_nobody_can_read_are_left_out(properties: bytes) -> None:
    message = from_amqp10(to_amqp10(properties, b"body", "e", "k"))
    assert message == DeliveredMessage("e", "k", join_properties({"delivery_mode": b"\1"}), b"body")


def test_a_history_of_several_deaths_comes_back() -> None:
    death = (
        b"F"
        + field_table(
            (b"count", b"l\0\0\0\0\0\0\0\2"), (b"reason", b"S\0\0\0\x08rejected"), (b"queue", b"S\0\0\0\1q"),
            (b"time", b"T\0\0\0\0\0\0\0\7"), (b"exchange", b"S\0\0\0\1e"),
            (b"routing-keys", array(b"S\0\0\0\1k", b"S\0\0\0\1l")),
        )
    )  # fmt: skip
    message = with_headers((b"x-death", array(death, death)))
    entry = to_amqp10(message.properties, b"", "", "k")
    assert (
        from_amqp10(entry).properties
        == with_properties(headers=field_table((b"x-death", array(death, death))), delivery_mode=b"\1").properties
    )
    header = decode_sections(entry).header
    assert header is not None
    assert header.first_acquirer.content is False


@pytest.mark.parametrize("history", [b"V", array(b"V"), array(b"F" + field_table((b"count", b"V"))), b"S\0\0\0\1x"])
def test_what_is_no_history_is_kept_as_it_is(history: bytes) -> None:
    message = with_headers((b"x-death", history))
    assert from_amqp10(to_amqp10(message.properties, b"", "e", "k")).properties == message.properties


@settings(max_examples=200)
@given(PROPERTY_LISTS, st.binary(max_size=20), texts, texts)
def test_any_message_can_be_stored_and_delivered(
    fields: dict[str, bytes], body: bytes, exchange: str, key: str
) -> None:
    entry = to_amqp10(join_properties(fields), body, exchange, key)
    message = from_amqp10(entry)
    assert (message.exchange, message.routing_key, message.body) == (exchange, key, body)
    decode_sections(entry)
    delivered = split_properties(message.properties)
    for name in ("message_id", "correlation_id", "app_id", "type", "content_type", "content_encoding", "priority"):
        assert delivered.get(name) == fields.get(name)
    assert set(split_table(delivered.get("headers", NO_HEADERS))) == readable_headers(fields)


def readable_headers(fields: dict[str, bytes]) -> set[str]:
    try:
        return set(split_table(fields.get("headers", NO_HEADERS)))
    except TableError:
        return set()


@given(st.sampled_from(sorted(ENTRIES)), st.binary(min_size=1, max_size=3), st.integers(0, 200))
def test_any_entry_can_be_delivered(name: str, damage: bytes, at: int) -> None:
    entry = ENTRIES[name][:at] + damage + ENTRIES[name][at + len(damage) :]
    message = from_amqp10(entry)
    decode_properties(message.properties)
    assert message.body in entry or len(message.body) <= len(entry)


def test_properties_that_a_reader_left_null_are_absent() -> None:
    entry = encode_sections(Sections(properties=PropertiesSection(), body=(TypedValue(ValueType.BINARY, b""),)))
    assert from_amqp10(entry) == DeliveredMessage("", None, b"\0\0", b"")


def test_a_message_without_its_own_key_has_that_of_its_first_copy() -> None:
    copies = TypedValue(ValueType.LIST, (TypedValue(ValueType.STRING, "a"), TypedValue(ValueType.STRING, "b")))
    assert from_amqp10(annotation("x-cc", copies)).routing_key == "a"
    assert short(b"a")[1:] == b"a"
