"""AMQP bytes for the tests of the kernels: made by pamqp where they are good, by hand where they are bad."""

from __future__ import annotations

import functools
import operator
import struct
from typing import Any

from pamqp import body, commands, frame, header

from native import frame_split as fs

METHOD_LEN = 29  # of the method frame that publish() begins with, its names as they are by default


def raw_frame(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def publish(
    content: bytes,
    *,
    channel: int = 1,
    exchange: str = "amq.topic",
    routing_key: str = "a.b",
    mandatory: bool = False,
    frame_max: int = 131072,
    **properties: Any,
) -> bytes:
    """A whole Basic.Publish as a client sends it."""
    method = commands.Basic.Publish(exchange=exchange, routing_key=routing_key, mandatory=mandatory)
    head = header.ContentHeader(body_size=len(content), properties=commands.Basic.Properties(**properties))
    wire = frame.marshal(method, channel) + frame.marshal(head, channel)
    for start in range(0, len(content), frame_max - 8):
        wire += frame.marshal(body.ContentBody(content[start : start + frame_max - 8]), channel)
    return wire


def publish_raw(props: bytes, content: bytes = b"", *, channel: int = 1) -> bytes:
    """A Basic.Publish with a property list that pamqp would not write."""
    wire = raw_frame(1, channel, b"\0\x3c\0\x28\0\0\0\x01k\0")
    wire += raw_frame(2, channel, struct.pack(">HHQ", 60, 0, len(content)) + props)
    return wire + (raw_frame(3, channel, content) if content else b"")


def ack(tag: int, *, channel: int = 1, multiple: bool = False) -> bytes:
    return frame.marshal(commands.Basic.Ack(delivery_tag=tag, multiple=multiple), channel)


class Heard:
    """Items as the frames they came from: the same list however the bytes were cut into calls, bodies and runs.

    Body frames in a row are one entry, single acks one entry each, and rising acks of "all up to" the last of them.
    """

    def __init__(self) -> None:
        self.frames: list[tuple[Any, ...]] = []

    def take(self, items: list[fs.Item]) -> None:
        for item in items:
            if item[0] == fs.PUBLISH:
                self._take_run(item)
            elif item[0] == fs.ACK:
                self._take_ack(item[1], item[2], item[3], item[4])
            else:
                self._take_frame(item[1], item[2], item[3])

    def _take_run(self, item: fs.PublishItem) -> None:
        channel, method, count, content, body_bytes, *agreed = item[1:]
        messages = walk(content)
        looks = [fs.look_at_plain(props) for props, _ in messages]
        assert count == len(messages)
        assert body_bytes == sum(len(text) for _, text in messages)
        assert all([*look[:4]] == agreed[:4] for look in looks)
        assert agreed[4] == functools.reduce(operator.or_, (look.look for look in looks))
        for props, text in messages:
            self._take_frame(fs.FRAME_METHOD, channel, method)
            self._take_frame(fs.FRAME_HEADER, channel, struct.pack(">HHQ", 60, 0, len(text)) + props)
            self._take_frame(fs.FRAME_BODY, channel, text)

    def _take_ack(self, channel: int, first: int, last: int, multiple: bool) -> None:
        before = self.frames[-1] if self.frames else ("",)
        if not multiple:
            self.frames.extend(("ack", channel, tag) for tag in range(first, last + 1))
        elif before[:2] == ("ack all", channel) and 0 < before[2] < last:
            self.frames[-1] = ("ack all", channel, last)
        else:
            self.frames.append(("ack all", channel, last))

    def _take_frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind != fs.FRAME_BODY:
            self.frames.append((kind, channel, payload))
        elif payload and self.frames and self.frames[-1][:2] == (kind, channel):
            self.frames[-1] = (kind, channel, self.frames[-1][2] + payload)
        elif payload:
            self.frames.append((kind, channel, payload))


def walk(content: bytes) -> list[tuple[bytes, bytes]]:
    """Properties and body of each message, read as broker/messages/message.py draws them."""
    messages, at = [], 0
    while at < len(content):
        props_len, body_len = struct.unpack_from("<II", content, at)
        at += 8
        messages.append((content[at : at + props_len], content[at + props_len : at + props_len + body_len]))
        at += props_len + body_len
    assert at == len(content)
    return messages
