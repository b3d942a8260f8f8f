"""Runs of messages of AMQP 0-9-1 as items of a stream's chunk, and back, by the kernel native/amqp10_items.py."""

from __future__ import annotations

from typing import NamedTuple

from native import amqp10_items
from native.content import Buffer
from wire.amqp10.from_amqp10 import delivered_with_head
from wire.amqp10.to_amqp10 import head_and_body


class AlikeMessages(NamedTuple):
    """Messages that follow each other in a stream and were published with one exchange and routing key."""

    message_count: int
    exchange: str
    routing_key: str | None  # None: the name of the queue
    content: bytes  # native/content.py


def items_of(content: Buffer, position: int, count: int, exchange: str, routing_key: str) -> bytes:
    """`count` messages from `position` on as items. ValueError if the content is damaged."""
    return amqp10_items.items(content, position, count, _bytes(exchange), _bytes(routing_key), to_sections)


def messages_of(
    data: Buffer, position: int, count: int, convert: amqp10_items.FromSections | None = None
) -> tuple[list[AlikeMessages], int, int]:
    """Up to `count` items from `position` on as messages, the position behind them, and how many they are: items end before a
    sub-batch. ValueError if an item reaches beyond the data. `convert`: instead of `from_sections`."""
    found, position, taken = amqp10_items.messages(data, position, count, convert or from_sections)
    alike = [
        AlikeMessages(number, _text(exchange), None if key is None else _text(key), content)
        for number, exchange, key, content in found
    ]
    return alike, position, taken


def to_sections(properties: bytes, body: bytes, exchange: bytes, routing_key: bytes) -> tuple[bytes, bytes | None]:
    """See native/amqp10_items.py."""
    return head_and_body(properties, body, _text(exchange), _text(routing_key))


def from_sections(item: bytes) -> tuple[bytes, bytes | None, bytes, bytes, int]:
    """See native/amqp10_items.py."""
    (exchange, key, properties, body), head_bytes = delivered_with_head(item)
    return _bytes(exchange), None if key is None else _bytes(key), properties, body, head_bytes


def _bytes(name: str) -> bytes:
    """Names may be of any bytes."""
    return name.encode("utf-8", "surrogateescape")


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")
