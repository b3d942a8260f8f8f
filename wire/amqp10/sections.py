"""The sections of one AMQP 1.0 message. Each is a described value: 00 | descriptor | value.

    code    section                   value                                code    section         value
    70      header                    list of up to 5                      75      data            binary; several
    71      delivery annotations      map                                  76      AMQP sequence   list; several
    72      message annotations       map                                  77      AMQP value      any; one
    73      properties                list of up to 13                     78      footer          map
    74      application properties    map

The descriptor is the code as ulong, or the section's name as symbol. Sections come in the order of their codes, each but the
parts of the body at most once, and a body has parts of one kind. All may be missing, the body too: a message without a byte is
one with an empty body.

Fields of a list are values of any type, missing ones are null. The reader decides which types it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import NamedTuple

from wire.amqp10.typed_values import (
    DESCRIBED,
    NULL,
    BadAmqp10,
    TypedValue,
    ValueType,
    decode_value,
    encode_value,
    value_end,
)


class SectionCode(IntEnum):
    """The sections, in their order."""

    HEADER = 0x70
    DELIVERY_ANNOTATIONS = 0x71
    MESSAGE_ANNOTATIONS = 0x72
    PROPERTIES = 0x73
    APPLICATION_PROPERTIES = 0x74
    DATA = 0x75
    AMQP_SEQUENCE = 0x76
    AMQP_VALUE = 0x77
    FOOTER = 0x78


BODY = frozenset({SectionCode.DATA, SectionCode.AMQP_SEQUENCE, SectionCode.AMQP_VALUE})
_SEVERAL = frozenset({SectionCode.DATA, SectionCode.AMQP_SEQUENCE})
Pairs = tuple[tuple[TypedValue, TypedValue], ...]


class HeaderSection(NamedTuple):
    """How a message is to be delivered."""

    durable: TypedValue = NULL
    priority: TypedValue = NULL
    ttl: TypedValue = NULL
    first_acquirer: TypedValue = NULL
    delivery_count: TypedValue = NULL


class PropertiesSection(NamedTuple):
    """What the publisher says of a message, in fields that AMQP defines."""

    message_id: TypedValue = NULL
    user_id: TypedValue = NULL
    to: TypedValue = NULL
    subject: TypedValue = NULL
    reply_to: TypedValue = NULL
    correlation_id: TypedValue = NULL
    content_type: TypedValue = NULL
    content_encoding: TypedValue = NULL
    absolute_expiry_time: TypedValue = NULL
    creation_time: TypedValue = NULL
    group_id: TypedValue = NULL
    group_sequence: TypedValue = NULL
    reply_to_group_id: TypedValue = NULL


class SectionSpan(NamedTuple):
    """Where a section lies in a message."""

    code: SectionCode
    start: int  # of its descriptor
    value: int
    end: int


class Sections(NamedTuple):
    """One message. A section that is None is missing; one without fields is there, and empty."""

    header: HeaderSection | None = None
    delivery_annotations: Pairs | None = None
    message_annotations: Pairs | None = None
    properties: PropertiesSection | None = None
    application_properties: Pairs | None = None
    body_code: SectionCode = SectionCode.DATA
    body: tuple[TypedValue, ...] = ()
    footer: Pairs | None = None


def spans(data: bytes) -> Iterator[SectionSpan]:
    """The sections in their order. Values are stepped over by their lengths. Raises BadAmqp10, perhaps after some spans."""
    at, before = 0, None
    while at < len(data):
        code, value = _read_descriptor(data, at)
        if before is not None:
            _check_order(before, code, at)
        end = _section_end(data, code, value)
        yield SectionSpan(code, at, value, end)
        at, before = end, code


def decode_sections(data: bytes) -> Sections:
    """All of a message. Raises BadAmqp10."""
    found = Sections()
    body = []
    for code, _, at, end in spans(data):
        value = _decode_whole(data, at, end)
        match code:
            case SectionCode.HEADER:
                found = found._replace(header=HeaderSection(*_fields(value, len(HeaderSection._fields), at)))
            case SectionCode.DELIVERY_ANNOTATIONS:
                found = found._replace(delivery_annotations=_pairs(value, at))
            case SectionCode.MESSAGE_ANNOTATIONS:
                found = found._replace(message_annotations=_pairs(value, at))
            case SectionCode.PROPERTIES:
                fields = _fields(value, len(PropertiesSection._fields), at)
                found = found._replace(properties=PropertiesSection(*fields))
            case SectionCode.APPLICATION_PROPERTIES:
                found = found._replace(application_properties=_pairs(value, at))
            case SectionCode.FOOTER:
                found = found._replace(footer=_pairs(value, at))
            case _:
                body.append(_part(code, value, at))
                found = found._replace(body_code=code)
    return found._replace(body=tuple(body))


def encode_sections(sections: Sections) -> bytes:
    """The message's bytes. Raises BadAmqp10 for a body that has parts of no section or several values."""
    parts = []
    if sections.header is not None:
        parts.append(encode_section(SectionCode.HEADER, _field_list(sections.header)))
    for code, pairs in (
        (SectionCode.DELIVERY_ANNOTATIONS, sections.delivery_annotations),
        (SectionCode.MESSAGE_ANNOTATIONS, sections.message_annotations),
    ):
        if pairs is not None:
            parts.append(encode_section(code, TypedValue(ValueType.MAP, pairs)))
    if sections.properties is not None:
        parts.append(encode_section(SectionCode.PROPERTIES, _field_list(sections.properties)))
    if sections.application_properties is not None:
        pairs = sections.application_properties
        parts.append(encode_section(SectionCode.APPLICATION_PROPERTIES, TypedValue(ValueType.MAP, pairs)))
    if len(sections.body) > 1 and sections.body_code not in _SEVERAL:
        raise BadAmqp10(f"a body of {len(sections.body)} sections of {sections.body_code.name}")
    parts += [encode_section(sections.body_code, _part(sections.body_code, part, 0)) for part in sections.body]
    if sections.footer is not None:
        parts.append(encode_section(SectionCode.FOOTER, TypedValue(ValueType.MAP, sections.footer)))
    return b"".join(parts)


def encode_section(code: SectionCode, value: TypedValue) -> bytes:
    return bytes((DESCRIBED, _SMALL_ULONG, code)) + encode_value(value)


_SMALL_ULONG = 0x53
_NAMES = {
    "amqp:header:list": SectionCode.HEADER,
    "amqp:delivery-annotations:map": SectionCode.DELIVERY_ANNOTATIONS,
    "amqp:message-annotations:map": SectionCode.MESSAGE_ANNOTATIONS,
    "amqp:properties:list": SectionCode.PROPERTIES,
    "amqp:application-properties:map": SectionCode.APPLICATION_PROPERTIES,
    "amqp:data:binary": SectionCode.DATA,
    "amqp:amqp-sequence:list": SectionCode.AMQP_SEQUENCE,
    "amqp:amqp-value:*": SectionCode.AMQP_VALUE,
    "amqp:footer:map": SectionCode.FOOTER,
}
_CODES = frozenset(SectionCode)


def _read_descriptor(data: bytes, at: int) -> tuple[SectionCode, int]:
    """Which section begins here, and where its value does."""
    if data[at] != DESCRIBED:
        raise BadAmqp10(f"no section begins at {at}, but a value of type {data[at]:#04x}")
    descriptor, value = decode_value(data, at + 1)
    if descriptor.type is ValueType.ULONG and descriptor.content in _CODES:
        return SectionCode(descriptor.content), value
    if descriptor.type is ValueType.SYMBOL and descriptor.content in _NAMES:
        return _NAMES[descriptor.content], value
    raise BadAmqp10(f"{descriptor.content!r} at {at} is no section of a message")


def _check_order(before: SectionCode, code: SectionCode, at: int) -> None:
    body_changes = before in BODY and code in BODY and before != code
    if code < before or body_changes or (code == before and code not in _SEVERAL):
        raise BadAmqp10(f"the section {code.name} at {at} cannot follow {before.name}")


def _section_end(data: bytes, code: SectionCode, value: int) -> int:
    """An AMQP value may be a described one, whose end only its content tells."""
    if code is SectionCode.AMQP_VALUE and value < len(data) and data[value] == DESCRIBED:
        return decode_value(data, value)[1]
    return value_end(data, value, len(data))


def _decode_whole(data: bytes, at: int, end: int) -> TypedValue:
    value, value_ends = decode_value(data, at, end)
    assert value_ends == end, f"a value from {at} to {end} was read up to {value_ends}"
    return value


def _fields(value: TypedValue, count_max: int, at: int) -> tuple[TypedValue, ...]:
    if value.type is not ValueType.LIST:
        raise BadAmqp10(f"fields at {at} are no list, but {value.type.name}")
    if len(value.content) > count_max:
        raise BadAmqp10(f"{len(value.content)} fields at {at}, and there are {count_max}")
    return tuple(value.content)


def _pairs(value: TypedValue, at: int) -> Pairs:
    if value.type is not ValueType.MAP:
        raise BadAmqp10(f"a section at {at} is no map, but {value.type.name}")
    pairs: Pairs = value.content
    return pairs


_PARTS = {SectionCode.DATA: ValueType.BINARY, SectionCode.AMQP_SEQUENCE: ValueType.LIST}


def _part(code: SectionCode, value: TypedValue, at: int) -> TypedValue:
    if code not in BODY or value.type is not _PARTS.get(code, value.type):
        raise BadAmqp10(f"a part of the body at {at}, {code.name}, is {value.type.name}")
    return value


def _field_list(fields: Sequence[TypedValue]) -> TypedValue:
    """Without the nulls at its end."""
    count = len(fields)
    while count and fields[count - 1] == NULL:
        count -= 1
    return TypedValue(ValueType.LIST, tuple(fields[:count]))
