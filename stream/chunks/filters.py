"""Which messages of a stream a consumer wants: the filter value that a message may have, and what consumers ask for.

Chunks that surely have none of the wanted values are passed over (stream/chunks/bloom.py). In those that are left the messages
are looked at one by one. A message that was published over AMQP 0-9-1 has its value as header x-stream-filter-value, or has
none. A client of the stream protocol says the value beside the message, and only the filter of the chunk knows it: of its
messages only those are dropped that have the header, with another value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from broker.queues.stream_contract import MessageFilter
from native.content import messages, skip
from stream.chunks.bloom import WantedValues
from stream.chunks.stored_form import StreamMessages
from wire.amqp.tables import TableError, decode_properties

FILTER_VALUE = "x-stream-filter-value"
FILTER_FIELD = bytes((len(FILTER_VALUE),)) + FILTER_VALUE.encode()  # as it stands in a table


def filter_value(props: bytes) -> bytes | None:
    """Of a message that is published with these properties. Only a string is one."""
    value = _header(props)
    return encoded(value) if isinstance(value, str) else None


def _header(props: bytes) -> Any:
    """None: there is none, or it cannot be read."""
    if FILTER_FIELD not in props:
        return None
    try:
        return (decode_properties(props).get("headers") or {}).get(FILTER_VALUE)
    except TableError:
        return None


def encoded(value: str) -> bytes:
    """Values may be of any bytes."""
    return value.encode("utf-8", "surrogateescape")


def asked_filter(arguments: Mapping[str, Any]) -> MessageFilter | None:
    """Of a consumer with these arguments, which were checked (broker/catalog/arguments.py)."""
    values = arguments.get("x-stream-filter", [])
    values = (values,) if isinstance(values, str) else tuple(values)
    return MessageFilter(values, arguments.get("x-stream-match-unfiltered", False)) if values else None


def wanted_values(wanted: MessageFilter) -> WantedValues:
    return WantedValues(map(encoded, wanted.values), wanted.match_unfiltered)


class WantedMessages:
    """See the module. Of one consumer."""

    def __init__(self, wanted: MessageFilter) -> None:
        self._chunks = wanted_values(wanted)
        self._values = frozenset(map(encoded, wanted.values))
        self._match_unfiltered = wanted.match_unfiltered

    def may_be_in(self, chunk_filter: bytes) -> bool:
        """False: none of them is in this chunk."""
        return self._chunks.may_match(chunk_filter)

    def among(self, all_messages: Sequence[StreamMessages]) -> list[StreamMessages]:
        return [wanted for alike in all_messages for wanted in self._among(alike)]

    def _among(self, alike: StreamMessages) -> Iterator[StreamMessages]:
        unfiltered = self._match_unfiltered or alike.routing_key is None
        all_props = [props for props, _ in messages(alike.content, 0, alike.message_count)]
        wants = {props: self._wants(props, unfiltered) for props in set(all_props)}  # few differ, most often
        first, position = alike.first_offset, 0
        for wanted, some in groupby(map(wants.__getitem__, all_props)):
            count = sum(1 for _ in some)
            end = skip(alike.content, position, count)
            if wanted:
                yield alike._replace(first_offset=first, message_count=count, position=position, size=end - position)
            first, position = first + count, end

    def _wants(self, props: bytes, unfiltered: bool) -> bool:
        value = _header(props)
        if isinstance(value, bytes):  # it was no string, or one that is none in AMQP 1.0: nobody knows any more
            return unfiltered or value in self._values
        return encoded(value) in self._values if isinstance(value, str) else unfiltered
