"""Messages that say themselves where to go: further keys in the headers CC and BCC, or headers that an exchange matches."""

from __future__ import annotations

from typing import Any

from broker.errors import PreconditionFailed, refuses_malformed
from broker.table_values import type_name
from wire.amqp.tables import decode_table, decode_value, join_properties, join_table, split_properties, split_table

HEADERS_WITH_KEYS = ("CC", "BCC")


@refuses_malformed
def further_keys(raw_headers: bytes) -> list[str]:
    """Raises PreconditionFailed when CC or BCC is no list; what is no text within it is passed over."""
    keys: list[str] = []
    fields = split_table(raw_headers)
    for name in HEADERS_WITH_KEYS:
        if name in fields:
            value = decode_value(fields[name])[0]
            if not isinstance(value, list):
                raise PreconditionFailed(
                    f'invalid message: {{unacceptable_type_in_header,"{name}",{type_name(value)}}}'
                )
            keys += [key for key in value if isinstance(key, str)]
    return keys


def raw_headers(props: bytes) -> bytes | None:
    """The header table as it came, or None."""
    return split_properties(props).get("headers")


@refuses_malformed
def decoded(headers: bytes | None) -> dict[str, Any] | None:
    """Raises MalformedTable."""
    return None if headers is None else decode_table(headers)[0]


@refuses_malformed
def without_header(props: bytes, name: str) -> bytes:
    """The same properties, all others byte for byte. Raises MalformedTable."""
    fields = split_properties(props)
    headers = split_table(fields["headers"]) if "headers" in fields else {}
    if name not in headers:
        return props
    del headers[name]
    return join_properties({**fields, "headers": join_table(headers)})
