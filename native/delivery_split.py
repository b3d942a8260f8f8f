"""Cuts what a broker sent to a client into runs of deliveries, ranges of confirms, and single frames.

    deliver    method frame (60, 60), header frame, body frames until the announced size: a *content*

native/frame_split.py, with Basic.Deliver where that has Basic.Publish: a run is consecutive deliveries that differ in
nothing but their tags, which count up by one, and whose properties agree as those of a run of publishes do. So a run can
be published again as it is. A Basic.Ack from a broker is a confirm; those that continue each other are merged.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from native import compiled_twin
from native.frame_split import (
    NO_FRAME_MAX,
    AckItem,
    Buffer,
    ContentRun,
    ContentSplitter,
    FrameItem,
    Look,
    SplitContent,
)

DELIVERY: Final = 4

# (DELIVERY, channel, consumer tag, first tag, redelivered, exchange, routing key, count, content, body bytes, persistent,
# priority, expiration, user id, look)
DeliveryItem: TypeAlias = tuple[
    Literal[4], int, bytes, int, bool, bytes, bytes, int, bytes, int, bool, int, bytes | None, bytes | None, int
]  # fmt: skip
ServerItem: TypeAlias = DeliveryItem | AckItem | FrameItem

_DELIVER_METHOD = b"\x00\x3c\x00\x3c"
_METHOD_BYTES_MIN = 16
_TAG = struct.Struct(">Q")


def split_deliveries_plain(
    buffer: Buffer, start: int, frame_max: int, message_size_max: int, assemble_max: int = 65536
) -> tuple[list[ServerItem], int, tuple[int, str] | None]:
    """Answers as `frame_split.split`."""
    with memoryview(buffer) as view:
        if not 0 <= start <= len(view):
            raise ValueError(f"start is {start}, outside of a buffer of {len(view)} bytes")
        return _DeliverySplitter(view, frame_max or NO_FRAME_MAX, message_size_max, assemble_max).split(start)


class DeliverArguments(NamedTuple):
    consumer_tag: bytes
    tag: int
    redelivered: bool
    exchange: bytes
    routing_key: bytes


def parse_deliver(method: bytes) -> DeliverArguments | None:
    """None if it is no whole Basic.Deliver.

    ids u32 | consumer tag short string | delivery tag u64 | redelivered u8 | exchange short string | routing key short string
    """
    if len(method) < _METHOD_BYTES_MIN or method[:4] != _DELIVER_METHOD:
        return None
    tag_at = 5 + method[4]
    exchange_at = tag_at + _TAG.size + 1
    if exchange_at >= len(method):
        return None
    key_at = exchange_at + 1 + method[exchange_at]
    if key_at >= len(method) or key_at + 1 + method[key_at] != len(method):
        return None
    return DeliverArguments(
        method[5:tag_at],
        _TAG.unpack_from(method, tag_at)[0],
        bool(method[exchange_at - 1] & 1),
        method[exchange_at + 1 : key_at],
        method[key_at + 1 :],
    )


@dataclass(slots=True)
class _DeliveryRun(ContentRun):
    def continued_by(self, method: bytes) -> bool:
        tag_at = 5 + self.method[4]
        return (
            method[:tag_at] == self.method[:tag_at]
            and method[tag_at + _TAG.size :] == self.method[tag_at + _TAG.size :]
            and _TAG.unpack_from(method, tag_at)[0] == _TAG.unpack_from(self.method, tag_at)[0] + self.count
        )

    def item(self) -> tuple[Any, ...]:
        arguments = parse_deliver(self.method)
        assert arguments is not None, "a run begins with a whole method"
        return (DELIVERY, self.channel, *arguments, self.count, bytes(self.content), self.body_bytes,
                *self.agreed, self.look)  # fmt: skip


class _DeliverySplitter(ContentSplitter):
    content_method = _DELIVER_METHOD

    def is_whole(self, method: bytes) -> bool:
        return parse_deliver(method) is not None

    def begin_run(self, message: SplitContent, look: Look) -> ContentRun:
        return _DeliveryRun(message.channel, message.method, look[:4])


split_deliveries = split_deliveries_plain

if (_twin := compiled_twin("frame_split")) is not None:
    split_deliveries = _twin.split_deliveries
