"""Messages for which a genuine RabbitMQ was asked: what it stores of them in a stream, and what it delivers.

Its answers are in stream_messages.json. `PUBLISHED` came over AMQP 0-9-1, `ENTRIES` over the stream protocol.
"""

from __future__ import annotations

import struct
from typing import NamedTuple
from uuid import UUID

from tests.amqp_values import field_table, short, sized
from wire.amqp.tables import join_properties
from wire.amqp10.sections import SectionCode, encode_section
from wire.amqp10.typed_values import NULL, TypedValue, ValueType

# ----------------------------------------------------------------------------- over AMQP 0-9-1


class PublishedMessage(NamedTuple):
    """As a client of AMQP 0-9-1 sends it."""

    properties: bytes
    body: bytes = b"body"
    exchange: bytes = b""
    routing_key: bytes = b"asked"  # the name of the queue


def with_properties(**values: bytes) -> PublishedMessage:
    """Short strings without their lengths."""
    raw = {"headers", "delivery_mode", "priority", "timestamp"}
    return PublishedMessage(
        join_properties({name: value if name in raw else short(value) for name, value in values.items()})
    )


def with_headers(*fields: tuple[bytes, bytes]) -> PublishedMessage:
    return with_properties(headers=field_table(*fields))


def text(raw: bytes) -> bytes:
    return b"S" + sized(raw)


def array(*values: bytes) -> bytes:
    return b"A" + sized(b"".join(values))


def seconds(moment: int) -> bytes:
    return struct.pack(">Q", moment)


URN = b"urn:uuid:f81d4fae-7dec-11d0-a765-00a0c91e6bf6"
TABLE_VALUES = {
    "text": text(b"t"),
    "empty text": text(b""),
    "text of two-byte characters": text("grün".encode()),
    "text that is not UTF-8": text(b"\xff\xfe"),
    "text with a NUL": text(b"a\0b"),
    "text of 255 bytes": text(b"x" * 255),
    "text of 256 bytes": text(b"x" * 256),
    "text of 4096 bytes": text(b"x" * 4096),
    "text of 4097 bytes": text(b"x" * 4097),
    "int": b"I" + struct.pack(">i", -5),
    "large int": b"I" + struct.pack(">i", 2**31 - 1),
    "long": b"l" + struct.pack(">q", -6),
    "large long": b"l" + struct.pack(">q", -(2**63)),
    "L": b"L" + struct.pack(">q", 7),
    "negative L": b"L" + struct.pack(">q", -7),
    "unsigned int": b"i" + struct.pack(">I", 2**32 - 1),
    "short": b"s" + struct.pack(">h", -300),
    "unsigned short": b"u" + struct.pack(">H", 65535),
    "byte": b"b\xfb",
    "unsigned byte": b"B\xfb",
    "true": b"t\1",
    "false": b"t\0",
    "float": b"f" + struct.pack(">f", 1.5),
    "infinite float": b"f" + struct.pack(">f", float("inf")),
    "double": b"d" + struct.pack(">d", 2.5),
    "double that is no number": b"d" + struct.pack(">d", float("nan")),
    "decimal": b"D\2" + struct.pack(">i", 314),
    "timestamp": b"T" + seconds(1_700_000_000),
    "void": b"V",
    "bytes": b"x" + sized(b"\0\xff"),
    "array": array(text(b"a"), b"I\0\0\0\1"),
    "empty array": array(),
    "table": b"F" + field_table((b"k", text(b"v"))),
    "table in an array": array(b"F" + field_table((b"k", b"V"))),
}
PLAIN_VALUES = [
    value for name, value in TABLE_VALUES.items() if len(value) < 200 and name not in (
        "decimal", "infinite float", "double that is no number"
    )
]  # fmt: skip
# What RabbitMQ delivers of a message that expired in a queue and was dead-lettered to the stream: nobody can publish it.
DEAD_LETTER = bytes.fromhex(
    "310000000155016153000000013107782d6465617468410000008b4600000086136f726967696e616c2d65787069726174696f6e530000"
    "00013105636f756e746c000000000000000106726561736f6e5300000007657870697265640571756575655300000006736f7572636504"
    "74696d6554000000006b0653680865786368616e676553000000000c726f7574696e672d6b657973410000000b5300000006736f757263"
    "6516782d66697273742d64656174682d65786368616e6765530000000013782d66697273742d64656174682d7175657565530000000673"
    "6f7572636514782d66697273742d64656174682d726561736f6e53000000076578706972656415782d6c6173742d64656174682d657863"
    "68616e6765530000000012782d6c6173742d64656174682d71756575655300000006736f7572636513782d6c6173742d64656174682d72"
    "6561736f6e530000000765787069726564020131"
)
SECTIONS = encode_section(SectionCode.AMQP_VALUE, TypedValue(ValueType.STRING, "v"))

PUBLISHED: dict[str, PublishedMessage] = {
    "nothing": PublishedMessage(b"\0\0", b""),
    "a body": PublishedMessage(b"\0\0"),
    "a body of 255 bytes": PublishedMessage(b"\0\0", b"x" * 255),
    "a body of 256 bytes": PublishedMessage(b"\0\0", b"x" * 256),
    "through an exchange": PublishedMessage(b"\0\0", exchange=b"amq.fanout", routing_key=b"a.b"),
    "through an exchange without key": PublishedMessage(b"\0\0", exchange=b"amq.fanout", routing_key=b""),
    "key of 255 bytes": PublishedMessage(b"\0\0", exchange=b"amq.fanout", routing_key=b"k" * 255),
    "content type": with_properties(content_type=b"text/plain"),
    "empty content type": with_properties(content_type=b""),
    "content encoding": with_properties(content_encoding=b"gzip"),
    "delivery mode 0": with_properties(delivery_mode=b"\0"),
    "delivery mode 1": with_properties(delivery_mode=b"\1"),
    "delivery mode 2": with_properties(delivery_mode=b"\2"),
    "delivery mode 3": with_properties(delivery_mode=b"\3"),
    "priority 0": with_properties(priority=b"\0"),
    "priority 9": with_properties(priority=b"\x09"),
    "priority 255": with_properties(priority=b"\xff"),
    "correlation id": with_properties(correlation_id=b"c-1"),
    "correlation id that is a UUID": with_properties(correlation_id=URN),
    "correlation id of 255 bytes": with_properties(correlation_id=b"c" * 255),
    "reply to": with_properties(reply_to=b"answers"),
    "reply to with other characters": with_properties(reply_to="a b/c%d~e.f_g-ü?&=+".encode()),
    "reply to that is an address": with_properties(reply_to=b"/queues/a%20b"),
    "reply to an exchange": with_properties(reply_to=b"/exchanges/e/k"),
    "reply to nothing": with_properties(reply_to=b""),
    "reply to what is not UTF-8": with_properties(reply_to=b"\xff"),
    "reply to 255 bytes": with_properties(reply_to=b"r" * 255),
    "expiration": with_properties(expiration=b"60000"),
    "expiration 0": with_properties(expiration=b"0"),
    "largest expiration": with_properties(expiration=b"4294967295"),
    "expiration with zeros": with_properties(expiration=b"007"),
    "message id": with_properties(message_id=b"m-1"),
    "empty message id": with_properties(message_id=b""),
    "message id that is a UUID": with_properties(message_id=URN),
    "message id that is a UUID in capitals": with_properties(message_id=b"urn:uuid:" + URN[9:].upper()),
    "message id that is nearly a UUID": with_properties(message_id=URN[:-1] + b"x"),
    "message id with dashes elsewhere": with_properties(message_id=b"urn:uuid:f81d4fae7-dec-11d0-a765-00a0c91e6bf6"),
    "message id of a UUID without dashes": with_properties(message_id=b"urn:uuid:" + b"0" * 36),
    "message id that is not UTF-8": with_properties(message_id=b"\xff"),
    "timestamp": with_properties(timestamp=seconds(1_700_000_000)),
    "timestamp 0": with_properties(timestamp=seconds(0)),
    "timestamp in milliseconds": with_properties(timestamp=seconds(1_700_000_000_000)),
    "timestamp beyond 63 bits of milliseconds": with_properties(timestamp=seconds(2**63)),
    "type": with_properties(type=b"order"),
    "type that is not UTF-8": with_properties(type=b"\xff"),
    "user id": with_properties(user_id=b"guest"),
    "app id": with_properties(app_id=b"shop"),
    "app id that is not UTF-8": with_properties(app_id=b"\xff"),
    "cluster id": with_properties(cluster_id=b"c"),
    "empty headers": with_headers(),
    **{f"header: {name}": with_headers((b"k", value)) for name, value in TABLE_VALUES.items()},
    **{f"x-header: {name}": with_headers((b"x-k", value)) for name, value in TABLE_VALUES.items() if len(value) < 4000},
    "x-header: values within a table": with_headers(
        (b"x-k", b"F" + field_table(*[(b"k%d" % number, value) for number, value in enumerate(PLAIN_VALUES)])),
    ),
    "header without a name": with_headers((b"", text(b"v"))),
    "header with a name that is not UTF-8": with_headers((b"\xff", text(b"v"))),
    "header with a name of 255 bytes": with_headers((b"n" * 255, text(b"v"))),
    "header x-": with_headers((b"x-", text(b"v"))),
    "header X- in capitals": with_headers((b"X-k", text(b"v"))),
    "x-header with a name that is not UTF-8": with_headers((b"x-\xff", text(b"v"))),
    "several headers in no order": with_headers(
        (b"z", text(b"1")), (b"a", text(b"2")), (b"x-z", text(b"3")), (b"m", b"V"), (b"x-a", text(b"4"))
    ),
    "a header twice": with_headers((b"k", text(b"1")), (b"k", text(b"2"))),
    "an x-header twice": with_headers((b"x-k", text(b"1")), (b"x-k", text(b"2"))),
    "CC": with_headers((b"CC", array(text(b"other")))),
    "BCC": with_headers((b"BCC", array(text(b"other")))),
    "CC and others": with_headers((b"a", text(b"1")), (b"CC", array(text(b"o"), text(b"p"))), (b"x-b", text(b"2"))),
    "header x-cc": with_headers((b"x-cc", text(b"v"))),
    "header x-exchange": with_headers((b"x-exchange", text(b"v"))),
    "header x-routing-key": with_headers((b"x-routing-key", text(b"v"))),
    "header x-basic-type": with_headers((b"x-basic-type", text(b"v"))),
    "header x-basic-other": with_headers((b"x-basic-other", text(b"v"))),
    "header x-opt-deaths": with_headers((b"x-opt-deaths", text(b"v"))),
    "header x-opt-other": with_headers((b"x-opt-other", text(b"v"))),
    "header x-death": with_headers((b"x-death", array())),
    "header x-stream-offset": with_headers((b"x-stream-offset", b"l" + struct.pack(">q", 99))),
    "header x-stream-filter-value": with_headers((b"x-stream-filter-value", text(b"eu"))),
    "header x-delivery-count": with_headers((b"x-delivery-count", b"l" + struct.pack(">q", 3))),
    "header timestamp_in_ms": with_headers((b"timestamp_in_ms", b"l" + struct.pack(">q", 3))),
    "type and an x-header": with_properties(headers=field_table((b"x-k", text(b"v"))), type=b"order"),
    "type amqp-1.0": with_properties(type=b"amqp-1.0")._replace(body=SECTIONS),
    "type amqp-1.0 with data": with_properties(type=b"amqp-1.0")._replace(
        body=encode_section(SectionCode.DATA, TypedValue(ValueType.BINARY, b"d"))
    ),
    "type amqp-1.0 and no sections": with_properties(type=b"amqp-1.0"),
    "a dead letter": PublishedMessage(DEAD_LETTER),
    "x-amqp-1.0-properties": with_headers(
        (b"x-amqp-1.0-properties", text(bytes.fromhex("005373c00401a1016d"))), (b"a", text(b"1"))
    ),
    "x-amqp-1.0-app-properties": with_headers(
        (b"x-amqp-1.0-app-properties", text(bytes.fromhex("005374c10702a1016ba10176"))), (b"a", text(b"1"))
    ),
    "all properties": with_properties(
        content_type=b"text/plain", content_encoding=b"gzip", headers=field_table((b"a", text(b"1")), (b"x-b", b"t\1")),
        delivery_mode=b"\2", priority=b"\4", correlation_id=b"c", reply_to=b"r", expiration=b"5000", message_id=b"m",
        timestamp=seconds(1_700_000_000), type=b"t", user_id=b"guest", app_id=b"a", cluster_id=b"x",
    ),
}  # fmt: skip


# ----------------------------------------------------------------------------- over the stream protocol


def string(content: str) -> TypedValue:
    return TypedValue(ValueType.STRING, content)


def symbol(content: str) -> TypedValue:
    return TypedValue(ValueType.SYMBOL, content)


def pairs(*items: tuple[TypedValue, TypedValue]) -> TypedValue:
    return TypedValue(ValueType.MAP, items)


def fields(*items: TypedValue) -> TypedValue:
    return TypedValue(ValueType.LIST, items)


BODY = encode_section(SectionCode.DATA, TypedValue(ValueType.BINARY, b"body"))


def entry(code: SectionCode, value: TypedValue) -> bytes:
    """A section before a plain body."""
    return encode_section(code, value) + BODY


def header(*items: TypedValue) -> bytes:
    return entry(SectionCode.HEADER, fields(*items))


def property_field(place: int, value: TypedValue) -> bytes:
    return entry(SectionCode.PROPERTIES, fields(*[NULL] * place, value))


def application(key: str, value: TypedValue) -> bytes:
    return entry(SectionCode.APPLICATION_PROPERTIES, pairs((string(key), value)))


def annotation(key: str, value: TypedValue) -> bytes:
    return entry(SectionCode.MESSAGE_ANNOTATIONS, pairs((symbol(key), value)))


T = ValueType
TRUE, FALSE = TypedValue(T.BOOLEAN, True), TypedValue(T.BOOLEAN, False)
SCALARS = {
    "null": NULL, "true": TRUE, "false": FALSE, "ubyte": TypedValue(T.UBYTE, 200), "ushort": TypedValue(T.USHORT, 60000),
    "uint": TypedValue(T.UINT, 2**32 - 1), "ulong": TypedValue(T.ULONG, 5), "large ulong": TypedValue(T.ULONG, 2**64 - 1),
    "byte": TypedValue(T.BYTE, -5), "short": TypedValue(T.SHORT, -300), "int": TypedValue(T.INT, -70000),
    "long": TypedValue(T.LONG, -(2**40)), "float": TypedValue(T.FLOAT, 1.5), "double": TypedValue(T.DOUBLE, 2.5),
    "decimal32": TypedValue(T.DECIMAL32, b"\0\0\0\1"), "char": TypedValue(T.CHAR, "ü"),
    "timestamp": TypedValue(T.TIMESTAMP, 1_700_000_000_999), "timestamp before 1970": TypedValue(T.TIMESTAMP, -1),
    "uuid": TypedValue(T.UUID, UUID("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")), "binary": TypedValue(T.BINARY, b"\0\xff"),
    "string": string("grün"), "symbol": symbol("s"), "long string": string("x" * 300), "string not UTF-8": string("\udcff"),
    "empty string": string(""), "float that is no number": TypedValue(T.FLOAT, float("nan")),
}  # fmt: skip
COMPOUNDS = {
    "list": fields(string("a"), TypedValue(T.UINT, 1)),
    "empty list": fields(),
    "map": pairs((symbol("k"), string("v")), (string("l"), NULL)),
    "map with a number as key": pairs((TypedValue(T.UINT, 1), string("v"))),
    "array": TypedValue(T.ARRAY, (string("a"), string("b"))),
    "described": TypedValue(T.DESCRIBED, (symbol("d"), string("v"))),
    "list with a uuid": fields(SCALARS["uuid"]),
    "list with a ulong": fields(SCALARS["ulong"]),
}
PROPERTY_FIELDS = {
    "message-id": 0, "user-id": 1, "to": 2, "subject": 3, "reply-to": 4, "correlation-id": 5, "content-type": 6,
    "content-encoding": 7, "absolute-expiry-time": 8, "creation-time": 9, "group-id": 10, "group-sequence": 11,
    "reply-to-group-id": 12,
}  # fmt: skip
IDS = {
    name: SCALARS[name] for name in ("string", "uuid", "ulong", "large ulong", "binary", "long string", "empty string")
}
DEATH = pairs(
    (symbol("ttl"), TypedValue(T.UINT, 1000)), (symbol("queue"), string("q")), (symbol("reason"), symbol("expired")),
    (symbol("count"), TypedValue(T.ULONG, 2)), (symbol("first-time"), TypedValue(T.TIMESTAMP, 1_700_000_000_000)),
    (symbol("last-time"), TypedValue(T.TIMESTAMP, 1_700_000_001_000)), (symbol("exchange"), string("e")),
    (symbol("routing-keys"), TypedValue(T.ARRAY, (string("k"),))),
)  # fmt: skip
LIVING_DEATH = TypedValue(T.MAP, DEATH.content[1:])

ENTRIES: dict[str, bytes] = {
    "nothing": b"",
    "no section": b"plain text",
    "no section, beginning like one": b"\0Sx",
    "data": BODY,
    "empty data": encode_section(SectionCode.DATA, TypedValue(T.BINARY, b"")),
    "two data sections": BODY + BODY,
    "data of 300 bytes": encode_section(SectionCode.DATA, TypedValue(T.BINARY, b"x" * 300)),
    "sequence": encode_section(SectionCode.AMQP_SEQUENCE, fields(string("a"))),
    "two sequences": encode_section(SectionCode.AMQP_SEQUENCE, fields(string("a"))) * 2,
    "value": SECTIONS,
    "value that is null": encode_section(SectionCode.AMQP_VALUE, NULL),
    "value that is a binary": encode_section(SectionCode.AMQP_VALUE, TypedValue(T.BINARY, b"v")),
    "value and properties": encode_section(SectionCode.PROPERTIES, fields(string("m"))) + SECTIONS,
    "value and type": encode_section(SectionCode.MESSAGE_ANNOTATIONS, pairs((symbol("x-basic-type"), string("t")))) + SECTIONS,
    "value and footer": SECTIONS + encode_section(SectionCode.FOOTER, pairs((symbol("f"), string("v")))),
    "footer": BODY + encode_section(SectionCode.FOOTER, pairs((symbol("f"), string("v")))),
    "delivery annotations": entry(SectionCode.DELIVERY_ANNOTATIONS, pairs((symbol("x-d"), string("v")))),
    "no body": encode_section(SectionCode.PROPERTIES, fields(string("m"))),
    "header of nothing": header(),
    "header: durable": header(TRUE),
    "header: not durable": header(FALSE),
    "header: durable null": header(NULL, TypedValue(T.UBYTE, 3)),
    "header: ttl": header(TRUE, NULL, TypedValue(T.UINT, 60000)),
    "header: ttl 0": header(TRUE, NULL, TypedValue(T.UINT, 0)),
    "header: first acquirer, delivery count": header(NULL, NULL, NULL, TRUE, TypedValue(T.UINT, 3)),
    "header: priority of another type": header(TRUE, TypedValue(T.UINT, 5)),
    "header: priority too large": header(TRUE, TypedValue(T.UINT, 300)),
    "header: durable of another type": header(string("yes")),
    **{f"message-id: {name}": property_field(0, value) for name, value in IDS.items()},
    **{f"correlation-id: {name}": property_field(5, value) for name, value in IDS.items()},
    "message-id: symbol": property_field(0, symbol("s")),
    "message-id: int": property_field(0, TypedValue(T.INT, 5)),
    "message-id: string of 255 bytes": property_field(0, string("m" * 255)),
    "message-id: binary of 300 bytes": property_field(0, TypedValue(T.BINARY, b"m" * 300)),
    "message-id: string not UTF-8": property_field(0, string("\udcff")),
    "user-id: binary": property_field(1, TypedValue(T.BINARY, b"guest")),
    "user-id: string": property_field(1, string("guest")),
    "user-id: not UTF-8": property_field(1, TypedValue(T.BINARY, b"\xff")),
    "user-id: with a NUL": property_field(1, TypedValue(T.BINARY, b"a\0")),
    "user-id: empty": property_field(1, TypedValue(T.BINARY, b"")),
    "user-id: 300 bytes": property_field(1, TypedValue(T.BINARY, b"u" * 300)),
    "to": property_field(2, string("/queues/q")),
    "subject": property_field(3, string("s")),
    "reply-to: address": property_field(4, string("/queues/a%20b%2Fc")),
    "reply-to: broken address": property_field(4, string("/queues/a%2")),
    "reply-to: address of nothing": property_field(4, string("/queues/")),
    "reply-to: address that decodes to no UTF-8": property_field(4, string("/queues/%ff")),
    "reply-to: exchange": property_field(4, string("/exchanges/e")),
    "reply-to: text": property_field(4, string("answers")),
    "reply-to: old address": property_field(4, string("/queue/a")),
    "reply-to: 300 bytes": property_field(4, string("r" * 300)),
    "reply-to: address of 258 bytes": property_field(4, string("/queues/" + "r" * 250)),
    "reply-to: symbol": property_field(4, symbol("answers")),
    "content-type: symbol": property_field(6, symbol("text/plain")),
    "content-type: string": property_field(6, string("text/plain")),
    "content-type: 300 bytes": property_field(6, symbol("x" * 300)),
    "content-encoding: symbol": property_field(7, symbol("gzip")),
    "absolute-expiry-time": property_field(8, TypedValue(T.TIMESTAMP, 1_700_000_000_000)),
    "creation-time": property_field(9, SCALARS["timestamp"]),
    "creation-time: before 1970": property_field(9, SCALARS["timestamp before 1970"]),
    "creation-time: of another type": property_field(9, TypedValue(T.ULONG, 1_700_000_000_999)),
    "group-id": property_field(10, string("g")),
    "group-id: 300 bytes": property_field(10, string("g" * 300)),
    "group-sequence": property_field(11, TypedValue(T.UINT, 5)),
    "reply-to-group-id": property_field(12, string("g")),
    **{f"application property: {name}": application("k", value) for name, value in (SCALARS | COMPOUNDS).items()},
    "application property: empty key": application("", string("v")),
    "application property: key of 300 bytes": application("k" * 300, string("v")),
    "application property: key x-": application("x-k", string("v")),
    "application property: key not UTF-8": application("\udcff", string("v")),
    "application property: key that is a symbol": entry(SectionCode.APPLICATION_PROPERTIES, pairs((symbol("k"), string("v")))),
    "application property: CC": application("CC", string("v")),
    "application property: x-stream-offset": application("x-stream-offset", string("v")),
    "application property: twice": entry(
        SectionCode.APPLICATION_PROPERTIES, pairs((string("k"), string("1")), (string("k"), string("2")))
    ),
    "application properties: none": entry(SectionCode.APPLICATION_PROPERTIES, pairs()),
    **{f"annotation: {name}": annotation("x-k", value) for name, value in (SCALARS | COMPOUNDS).items()},
    "annotation: without x-": annotation("k", string("v")),
    "annotation: x-opt-k": annotation("x-opt-k", string("v")),
    "annotation: key of 300 bytes": annotation("x-" + "k" * 300, string("v")),
    "annotation: key not UTF-8": annotation("x-\udcff", string("v")),
    "annotation: key that is a string": entry(SectionCode.MESSAGE_ANNOTATIONS, pairs((string("x-k"), string("v")))),
    "annotation: key that is a ulong": entry(SectionCode.MESSAGE_ANNOTATIONS, pairs((TypedValue(T.ULONG, 1), string("v")))),
    "annotation: x-exchange": annotation("x-exchange", string("e")),
    "annotation: x-routing-key": annotation("x-routing-key", string("k")),
    "annotation: x-exchange of another type": annotation("x-exchange", TypedValue(T.UINT, 1)),
    "annotation: x-exchange of 300 bytes": annotation("x-exchange", string("e" * 300)),
    "annotation: x-exchange as symbol": annotation("x-exchange", symbol("e")),
    "annotation: x-cc": annotation("x-cc", fields(string("a"), string("b"))),
    "annotation: x-cc as text": annotation("x-cc", string("a")),
    "annotation: x-basic-type": annotation("x-basic-type", string("t")),
    "annotation: x-basic-type as symbol": annotation("x-basic-type", symbol("t")),
    "annotation: x-basic-type of 300 bytes": annotation("x-basic-type", string("t" * 300)),
    "annotation: x-basic-type of another type": annotation("x-basic-type", TypedValue(T.UINT, 1)),
    "annotation: x-basic-delivery-mode": annotation("x-basic-delivery-mode", TypedValue(T.UBYTE, 2)),
    "annotation: x-basic-priority": annotation("x-basic-priority", TypedValue(T.UBYTE, 3)),
    "annotation: x-basic-expiration": annotation("x-basic-expiration", string("5000")),
    "annotation: x-basic-other": annotation("x-basic-other", string("v")),
    "annotation: x-stream-offset": annotation("x-stream-offset", TypedValue(T.LONG, 77)),
    "annotation: x-opt-deaths": annotation("x-opt-deaths", TypedValue(T.ARRAY, (DEATH,))),
    "annotation: x-opt-deaths without ttl": annotation("x-opt-deaths", TypedValue(T.ARRAY, (LIVING_DEATH,))),
    "annotation: x-opt-deaths of another type": annotation("x-opt-deaths", string("v")),
    "annotation: x-opt-deaths with other fields": annotation("x-opt-deaths", TypedValue(T.ARRAY, (pairs(),))),
    "annotation: received time": annotation("x-opt-rabbitmq-received-time", TypedValue(T.TIMESTAMP, 1_700_000_000_123)),
    "annotation: received time of another type": annotation("x-opt-rabbitmq-received-time", string("v")),
    "annotation: x-opt-delivery-time": annotation("x-opt-delivery-delay", TypedValue(T.UINT, 5)),
    "annotations before properties and application properties": encode_section(SectionCode.HEADER, fields(TRUE))
    + encode_section(SectionCode.MESSAGE_ANNOTATIONS, pairs((symbol("x-z"), string("1")), (symbol("x-a"), string("2"))))
    + encode_section(SectionCode.PROPERTIES, fields(string("m"), NULL, NULL, NULL, NULL, string("c"), symbol("text/plain")))
    + encode_section(SectionCode.APPLICATION_PROPERTIES, pairs((string("z"), string("1")), (string("a"), TRUE)))
    + BODY,
    "properties behind application properties": encode_section(SectionCode.APPLICATION_PROPERTIES, pairs((string("a"), TRUE)))
    + encode_section(SectionCode.PROPERTIES, fields(string("m"))) + BODY,
    "header twice": encode_section(SectionCode.HEADER, fields(TRUE)) + header(FALSE),
    "header of six fields": header(TRUE, NULL, NULL, NULL, NULL, TRUE),
    "cut short": BODY[:-1],
    "bytes behind": BODY + b"\0",
    "sections named by symbols": b"\0\xa3\x10amqp:data:binary\xa0\1x",
}  # fmt: skip
