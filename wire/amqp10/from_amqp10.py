"""An entry of a stream as a message of AMQP 0-9-1: as RabbitMQ 4.3 delivers it.

    1.0                                                  0-9-1
    header: durable                                      delivery_mode 2 or 1; x-basic-delivery-mode where it is missing
    header: priority, ttl                                priority, expiration; else x-basic-priority, x-basic-expiration
    annotations x-exchange, x-routing-key                exchange, routing key
    annotation x-basic-type                              type
    annotations x-cc, x-opt-deaths                       headers CC, x-death (deaths.py)
    annotation x-opt-rabbitmq-received-time              header timestamp_in_ms
    other annotations x-...                              headers of these names, before application properties of the same
    application properties                               headers
    message-id, correlation-id                           of uuid urn:uuid:..., of ulong decimal, of string the text
                                                         headers x-message-id, x-correlation-id for binary and long strings
    user-id                                              user_id, if it is text of a short string
    reply-to                                             reply_to, of "/queues/..." the name
    content-type, content-encoding, group-id             content_type, content_encoding, app_id
    creation-time                                        timestamp, in s
    data                                                 body
    AMQP sequence, AMQP value                            body: the sections as they are, with the footer; type "amqp-1.0"
    all else                                             left out

The annotation x-leveret-091 has all properties as they were published, and goes before everything else. What is not of the type
that is meant, or too long for a short string, is left out. An entry that is no AMQP 1.0 is a body without properties.
"""

from __future__ import annotations

import re
import struct
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from wire.amqp.tables import (
    TableError,
    encode_value,
    join_properties,
    join_table,
    split_properties,
    split_table,
)
from wire.amqp10 import annotation_names as names
from wire.amqp10.deaths import death_header
from wire.amqp10.sections import (
    BODY,
    HeaderSection,
    Pairs,
    PropertiesSection,
    SectionCode,
    Sections,
    decode_sections,
    spans,
)
from wire.amqp10.table_conversion import SHORT_BYTES_MAX, NoEquivalent, long_text, seconds, table_value, text_bytes
from wire.amqp10.typed_values import NULL, BadAmqp10, TypedValue, ValueType

_LONG = struct.Struct(">cq")
_U64 = struct.Struct(">Q")
_NUMBERS = frozenset({ValueType.UBYTE, ValueType.USHORT, ValueType.UINT, ValueType.ULONG})
_QUEUES = "/queues/"
_HALF_ENCODED = re.compile(r"%(?![0-9a-fA-F]{2})")


class DeliveredMessage(NamedTuple):
    """What a consumer of AMQP 0-9-1 gets of an entry."""

    exchange: str
    routing_key: str | None  # None: that of the queue's name
    properties: bytes
    body: bytes


def from_amqp10(entry: bytes) -> DeliveredMessage:
    return delivered_with_head(entry)[0]


def delivered_with_head(entry: bytes) -> tuple[DeliveredMessage, int]:
    """And how long the sections are that other messages may share: those before a body that is one data section; else 0."""
    try:
        body, body_start, is_encoded, is_one_section = _body(entry)
        message = _deliver(entry[:body_start], body, is_encoded)
    except BadAmqp10:
        return DeliveredMessage("", None, join_properties({}), entry), 0
    return message, body_start if is_one_section else 0


def _deliver(head: bytes, body: bytes, is_encoded: bool) -> DeliveredMessage:
    """Raises BadAmqp10."""
    sections = decode_sections(head)
    annotations = _by_name(sections.message_annotations)
    properties = _whole_properties(annotations)
    if properties is None:
        properties = join_properties(_properties(sections, annotations, is_encoded))
    return DeliveredMessage(_exchange(annotations), _routing_key(annotations), properties, body)


def _body(entry: bytes) -> tuple[bytes, int, bool, bool]:
    """The body, where its sections begin, whether it is these sections as they are, and whether it is one data section."""
    parts = []
    body_start = len(entry)
    codes = []
    for code, start, value, end in spans(entry):
        if code in BODY or code is SectionCode.FOOTER:
            body_start = min(body_start, start)
            codes.append(code)
        if code is SectionCode.DATA:
            parts.append(entry[_binary_start(entry, value) : end])
    is_encoded = bool(codes) and codes[0] in BODY and codes[0] is not SectionCode.DATA
    body = entry[body_start:] if is_encoded else b"".join(parts)
    return body, body_start, is_encoded, codes == [SectionCode.DATA]


_LENGTH_BYTES = {0xA0: 1, 0xB0: 4}


def _binary_start(entry: bytes, at: int) -> int:
    if entry[at] not in _LENGTH_BYTES:
        raise BadAmqp10(f"data at {at} is of type {entry[at]:#04x}")
    return at + 1 + _LENGTH_BYTES[entry[at]]


def _by_name(pairs: Pairs | None) -> dict[str, TypedValue]:
    """Those whose keys are text; of two with one name the first."""
    found: dict[str, TypedValue] = {}
    for key, value in pairs or ():
        if isinstance(key.content, str):
            found.setdefault(key.content, value)
    return found


# ----------------------------------------------------------------------------- where it was published


def _exchange(annotations: dict[str, TypedValue]) -> str:
    return _short_string(annotations.get(names.EXCHANGE, NULL)) or ""


def _routing_key(annotations: dict[str, TypedValue]) -> str | None:
    """Without its own key a message has the first of its carbon copies."""
    key = _short_string(annotations.get(names.ROUTING_KEY, NULL))
    if key is None and (copies := annotations.get(names.CARBON_COPIES, NULL)).type is ValueType.LIST and copies.content:
        key = _short_string(copies.content[0])
    return key


def _short_string(value: TypedValue) -> str | None:
    if value.type is not ValueType.STRING or len(text_bytes(value.content)) > SHORT_BYTES_MAX:
        return None
    text: str = value.content
    return text if _is_unicode(text) else None


def _is_unicode(text: str) -> bool:
    return not any("\udc80" <= character <= "\udcff" for character in text)


# ----------------------------------------------------------------------------- properties


def _whole_properties(annotations: dict[str, TypedValue]) -> bytes | None:
    """Whoever writes to a stream may have put anything there: only what can be read is delivered."""
    whole = annotations.get(names.WHOLE_PROPERTIES, NULL)
    if whole.type is not ValueType.BINARY:
        return None
    properties: bytes = whole.content
    try:
        fields = split_properties(properties)
        if "headers" in fields:
            split_table(fields["headers"])
    except TableError:
        return None
    return properties


def _properties(sections: Sections, annotations: dict[str, TypedValue], is_encoded: bool) -> dict[str, bytes]:
    """By their names, encoded."""
    header = sections.header or HeaderSection()
    fields = sections.properties or PropertiesSection()
    headers = _annotated_headers(annotations)
    for name, value in _application_properties(sections.application_properties):
        headers.setdefault(name, value)
    found: dict[str, bytes | None] = {
        "content_type": _short_text(fields.content_type),
        "content_encoding": _short_text(fields.content_encoding),
        "delivery_mode": _delivery_mode(header, annotations),
        "priority": _number(header.priority) or _number(annotations.get(names.PRIORITY, NULL)),
        "correlation_id": _id(fields.correlation_id, "x-correlation-id", headers),
        "reply_to": _reply_to(fields.reply_to),
        "expiration": _expiration(header, annotations),
        "message_id": _id(fields.message_id, "x-message-id", headers),
        "timestamp": _timestamp(fields.creation_time),
        "type": _short(names.AMQP10_TYPE) if is_encoded else _short_text(annotations.get(names.TYPE, NULL)),
        "user_id": _user_id(fields.user_id),
        "app_id": _short_text(fields.group_id),
    }
    if headers:
        found["headers"] = join_table(headers)
    return {name: value for name, value in found.items() if value is not None}


def _annotated_headers(annotations: dict[str, TypedValue]) -> dict[str, bytes]:
    """Headers that were annotations, with their values encoded."""
    headers: dict[str, bytes] = {}
    for name, value in annotations.items():
        try:
            if name == names.CARBON_COPIES:
                headers.setdefault("CC", table_value(value))
            elif name == names.DEATHS:
                headers.setdefault("x-death", death_header(value))
            elif name == names.RECEIVED_TIME and value.type is ValueType.TIMESTAMP:
                headers.setdefault("timestamp_in_ms", _LONG.pack(b"l", value.content))
            elif names.is_header(name) and len(text_bytes(name)) <= SHORT_BYTES_MAX:
                headers.setdefault(name, table_value(value))
        except NoEquivalent:
            continue
    return headers


def _application_properties(pairs: Pairs | None) -> list[tuple[str, bytes]]:
    found = []
    for key, value in pairs or ():
        if key.type is ValueType.STRING and len(text_bytes(key.content)) <= SHORT_BYTES_MAX:
            try:
                found.append((key.content, table_value(value)))
            except NoEquivalent:
                continue
    return found


def _short(raw: bytes) -> bytes | None:
    return bytes((len(raw),)) + raw if len(raw) <= SHORT_BYTES_MAX else None


def _short_text(value: TypedValue) -> bytes | None:
    if value.type not in (ValueType.STRING, ValueType.SYMBOL):
        return None
    return _short(text_bytes(value.content))


def _delivery_mode(header: HeaderSection, annotations: dict[str, TypedValue]) -> bytes | None:
    if header.durable.type is ValueType.BOOLEAN:
        return b"\2" if header.durable.content else b"\1"
    return _number(annotations.get(names.DELIVERY_MODE, NULL))


def _number(value: TypedValue) -> bytes | None:
    """The lowest eight bits."""
    return bytes((value.content & 0xFF,)) if value.type in _NUMBERS else None


def _expiration(header: HeaderSection, annotations: dict[str, TypedValue]) -> bytes | None:
    if header.ttl.type in _NUMBERS:
        return _short(b"%d" % header.ttl.content)
    return _short_text(annotations.get(names.EXPIRATION, NULL))


def _id(value: TypedValue, header: str, headers: dict[str, bytes]) -> bytes | None:
    """What no short string can hold becomes a header."""
    match value.type:
        case ValueType.UUID:
            return _short(value.content.urn.encode())
        case ValueType.ULONG:
            return _short(b"%d" % value.content)
        case ValueType.BINARY:
            headers[header] = encode_value(value.content)
        case ValueType.STRING | ValueType.SYMBOL:
            raw = text_bytes(value.content)
            if (short := _short(raw)) is not None:
                return short
            headers[header] = long_text(raw)
    return None


def _reply_to(value: TypedValue) -> bytes | None:
    if value.type is not ValueType.STRING:
        return None
    text: str = value.content
    if not text.startswith(_QUEUES):
        return _short_text(value)
    if _HALF_ENCODED.search(text):
        return None
    return _short(unquote_to_bytes(text_bytes(text.removeprefix(_QUEUES))))


def _timestamp(value: TypedValue) -> bytes | None:
    return _U64.pack(seconds(value.content)) if value.type is ValueType.TIMESTAMP else None


def _user_id(value: TypedValue) -> bytes | None:
    if value.type is ValueType.BINARY:
        raw: bytes = value.content
    elif value.type in (ValueType.STRING, ValueType.SYMBOL):
        raw = text_bytes(value.content)
    else:
        return None
    try:
        return None if "\0" in raw.decode() else _short(raw)
    except UnicodeDecodeError:
        return None
