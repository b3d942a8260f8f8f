"""A message of AMQP 0-9-1 as a stream keeps it, in sections of AMQP 1.0: as RabbitMQ 4.3 stores it.

    0-9-1                          1.0
    delivery_mode                  header: durable, true for 2
    priority, expiration           header: priority ubyte, ttl uint
                                   header: first-acquirer, false for a message that has died; delivery-count 0
    routing key, exchange          annotations x-routing-key, x-exchange
    type                           annotation x-basic-type
    headers x-...                  annotations of these names
    headers CC, x-death            annotations x-cc, x-opt-deaths (deaths.py)
    header BCC                     left out
    other headers                  application properties, unless arrays or tables
    message_id, correlation_id     properties: string, or uuid for urn:uuid:...
    user_id                        properties: binary
    reply_to                       properties: string "/queues/" and the name, percent-encoded
    content_type, content_encoding properties: symbol
    timestamp                      properties: creation-time, in ms
    app_id                         properties: group-id, string
    body                           one data section; of type "amqp-1.0" the sections that it has, if they are those of a body

Headers have their values by table_conversion.py. What this would lose is kept beside it, as the whole property list in the
annotation x-leveret-091: arrays and tables in headers, decimals, cluster_id, a timestamp or expiration beyond 64 or 32 bits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import quote_from_bytes
from uuid import UUID

from wire.amqp.tables import TableError, join_properties, join_table, split_properties, split_table
from wire.amqp10 import annotation_names as names
from wire.amqp10.deaths import NO_DEATHS, death_annotation
from wire.amqp10.sections import (
    BODY,
    HeaderSection,
    Pairs,
    PropertiesSection,
    SectionCode,
    Sections,
    encode_sections,
    spans,
)
from wire.amqp10.table_conversion import NoEquivalent, milliseconds, typed_value
from wire.amqp10.typed_values import NULL, BadAmqp10, TypedValue, ValueType

_URN = re.compile(rb"urn:uuid:([0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})")
_UINT_MAX = 2**32 - 1
_NOT_COPIED = frozenset({names.EXCHANGE, names.ROUTING_KEY, names.WHOLE_PROPERTIES, "x-death"})
_DELIVERED_ONCE = TypedValue(ValueType.UINT, 0)


def to_amqp10(properties: bytes, body: bytes, exchange: str, routing_key: str) -> bytes:
    """The sections of one message. Properties or headers that nobody can read are left out."""
    head, sections = head_and_body(properties, body, exchange, routing_key)
    return head + (_data_section(body) if sections is None else sections)


def head_and_body(properties: bytes, body: bytes, exchange: str, routing_key: str) -> tuple[bytes, bytes | None]:
    """The sections before the body, and those that the body is; None: one data section holds it."""
    try:
        fields = split_properties(properties)
    except TableError:
        fields = {}
    head = _Conversion(fields, _headers(fields)).sections(exchange, routing_key)
    is_sections = _short(fields, "type") == names.AMQP10_TYPE and _is_sections_of_a_body(body)
    return head, body if is_sections else None


def _headers(fields: Mapping[str, bytes]) -> dict[str, bytes]:
    try:
        headers = split_table(fields["headers"]) if "headers" in fields else {}
    except TableError:
        return {}
    headers.pop("BCC", None)
    return headers


class _Conversion:
    """Of one message. `lost` says whether something of it has found no place."""

    def __init__(self, fields: Mapping[str, bytes], headers: Mapping[str, bytes]) -> None:
        self.fields = fields
        self.headers = headers
        self.lost = "cluster_id" in fields
        self.deaths = self._deaths()

    def sections(self, exchange: str, routing_key: str) -> bytes:
        """Without the body."""
        header, properties = self._header(), self._properties()
        copied, application = self._annotations(), self._application_properties()
        annotations = [(names.ROUTING_KEY, _string(routing_key)), (names.EXCHANGE, _string(exchange))]
        if (type_ := _short(self.fields, "type")) is not None:
            annotations.append((names.TYPE, _text(ValueType.STRING, type_)))
        if self.lost:
            whole = TypedValue(ValueType.BINARY, self._property_list())
            annotations.append((names.WHOLE_PROPERTIES, whole))
        return encode_sections(
            Sections(
                header=header,
                message_annotations=_named(ValueType.SYMBOL, annotations + copied),
                properties=properties if any(field is not NULL for field in properties) else None,
                application_properties=_named(ValueType.STRING, application) if application else None,
            )
        )

    def _header(self) -> HeaderSection:
        return HeaderSection(
            durable=_boolean(self.fields.get("delivery_mode") == b"\2"),
            priority=TypedValue(ValueType.UBYTE, self.fields["priority"][0]) if "priority" in self.fields else NULL,
            ttl=self._ttl(),
            first_acquirer=_boolean(self.deaths is NULL),
            delivery_count=_DELIVERED_ONCE,
        )

    def _ttl(self) -> TypedValue:
        expiration = _short(self.fields, "expiration")
        if expiration is None:
            return NULL
        if expiration.isdigit() and int(expiration) <= _UINT_MAX:
            return TypedValue(ValueType.UINT, int(expiration))
        self.lost = True
        return NULL

    def _properties(self) -> PropertiesSection:
        return PropertiesSection(
            message_id=_id(_short(self.fields, "message_id")),
            user_id=_optional(ValueType.BINARY, _short(self.fields, "user_id")),
            reply_to=_queue_address(_short(self.fields, "reply_to")),
            correlation_id=_id(_short(self.fields, "correlation_id")),
            content_type=_optional(ValueType.SYMBOL, _short(self.fields, "content_type")),
            content_encoding=_optional(ValueType.SYMBOL, _short(self.fields, "content_encoding")),
            creation_time=self._creation_time(),
            group_id=_optional(ValueType.STRING, _short(self.fields, "app_id")),
        )

    def _creation_time(self) -> TypedValue:
        if "timestamp" not in self.fields:
            return NULL
        try:
            return milliseconds(int.from_bytes(self.fields["timestamp"], "big"))
        except NoEquivalent:
            self.lost = True
            return NULL

    def _annotations(self) -> list[tuple[str, TypedValue]]:
        found: list[tuple[str, TypedValue]] = []
        for name, field in self.headers.items():
            if name == "CC":
                self._add(found, names.CARBON_COPIES, field)
            elif name.startswith("x-") and name not in _NOT_COPIED:
                self._add(found, name, field)
        if self.deaths is not NULL:
            found.append((names.DEATHS, self.deaths))
        return found

    def _deaths(self) -> TypedValue:
        """NULL for a message that has not died."""
        try:
            deaths = death_annotation(self.headers.get("x-death", NO_DEATHS))
        except NoEquivalent:
            self.lost = True
            return NULL
        return deaths if deaths.content else NULL

    def _application_properties(self) -> list[tuple[str, TypedValue]]:
        found: list[tuple[str, TypedValue]] = []
        for name, field in self.headers.items():
            if name == "CC" or name.startswith("x-"):
                continue
            if field[:1] in (b"A", b"F"):
                self.lost = True
            else:
                self._add(found, name, field)
        return found

    def _add(self, found: list[tuple[str, TypedValue]], name: str, field: bytes) -> None:
        try:
            found.append((name, typed_value(field)))
        except NoEquivalent:
            self.lost = True

    def _property_list(self) -> bytes:
        fields = {name: field for name, field in self.fields.items() if name != "headers"}
        if self.headers:
            fields["headers"] = join_table(self.headers)
        return join_properties(fields)


def _data_section(body: bytes) -> bytes:
    return encode_sections(Sections(body=(TypedValue(ValueType.BINARY, body),)))


def _is_sections_of_a_body(body: bytes) -> bool:
    try:
        codes = [span.code for span in spans(body)]
    except BadAmqp10:
        return False
    return bool(codes) and codes[0] in BODY and all(code in BODY or code is SectionCode.FOOTER for code in codes)


def _short(fields: Mapping[str, bytes], name: str) -> bytes | None:
    """A short string without its length."""
    return fields[name][1:] if name in fields else None


def _boolean(content: bool) -> TypedValue:
    return TypedValue(ValueType.BOOLEAN, content)


def _string(text: str) -> TypedValue:
    return TypedValue(ValueType.STRING, text)


def _text(type_: ValueType, raw: bytes) -> TypedValue:
    return TypedValue(type_, raw.decode("utf-8", "surrogateescape"))


def _optional(type_: ValueType, raw: bytes | None) -> TypedValue:
    if raw is None:
        return NULL
    return TypedValue(type_, raw) if type_ is ValueType.BINARY else _text(type_, raw)


def _id(raw: bytes | None) -> TypedValue:
    if raw is not None and (urn := _URN.fullmatch(raw)) is not None:
        return TypedValue(ValueType.UUID, UUID(urn[1].decode()))
    return _optional(ValueType.STRING, raw)


def _queue_address(queue: bytes | None) -> TypedValue:
    return NULL if queue is None else _string("/queues/" + quote_from_bytes(queue, safe="~"))


def _named(type_: ValueType, pairs: list[tuple[str, TypedValue]]) -> Pairs:
    return tuple((TypedValue(type_, name), value) for name, value in pairs)
