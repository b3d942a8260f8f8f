"""AMQP bytes for the tests of the kernels: made by pamqp where they are good, by hand where they are bad."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

from native import frame_split as fs
from pamqp import body, commands, frame, header


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


@dataclass
class Assembler:
    """What a channel would see: the same list however the bytes were cut into calls and runs."""

    seen: list[tuple[Any, ...]] = field(default_factory=list)
    open: dict[int, tuple[bytes, bytes, int, bytes]] = field(default_factory=dict)

    def take(self, items: list[fs.Item]) -> None:
        for item in items:
            if item[0] == fs.PUBLISH:
                self._take_run(item)
            elif item[0] == fs.ACK:
                self._take_ack(item[1], item[2], item[3], item[4])
            else:
                self._take_frame(item[1], item[2], item[3])

    def _take_run(self, item: Any) -> None:
        _, channel, method, count, content, body_bytes, *agreed, _look = item
        messages = list(walk(content))
        assert len(messages) == count
        assert sum(len(text) for _, text in messages) == body_bytes
        for props, text in messages:
            look = fs.look_at_plain(props)
            assert [*look[:4]] == agreed
            self.seen.append(("message", channel, method, props, text))

    def _take_ack(self, channel: int, first: int, last: int, multiple: bool) -> None:
        if multiple and self.seen and self.seen[-1][:2] == ("ack all", channel) and 0 < self.seen[-1][2] < last:
            self.seen[-1] = ("ack all", channel, last)
        elif multiple:
            self.seen.append(("ack all", channel, last))
        else:
            self.seen.extend(("ack", channel, tag) for tag in range(first, last + 1))

    def _take_frame(self, kind: int, channel: int, payload: bytes) -> None:
        if kind == 1 and payload[:4] == b"\0\x3c\0\x28":
            self.open[channel] = (payload, b"", -1, b"")
            self.seen.append(("begun", channel, payload))
        elif kind == 2 and channel in self.open and self.open[channel][2] < 0 and len(payload) >= 14:
            self._continue(channel, payload[12:], int.from_bytes(payload[4:12], "big"), b"", payload)
        elif kind == 3 and channel in self.open and 0 <= len(payload) <= self.open[channel][2]:
            _, props, missing, text = self.open[channel]
            self._continue(channel, props, missing - len(payload), text + payload, payload)
        else:
            self.seen.append(("frame", kind, channel, payload))

    def _continue(self, channel: int, props: bytes, missing: int, text: bytes, payload: bytes) -> None:
        method = self.open[channel][0]
        self.open[channel] = (method, props, missing, text)
        self.seen.append(("more", channel, payload))
        if missing == 0:
            del self.open[channel]


def walk(content: bytes) -> list[tuple[bytes, bytes]]:
    """Properties and body of each message, read as broker/message.py draws them."""
    messages, at = [], 0
    while at < len(content):
        props_len, body_len = struct.unpack_from("<II", content, at)
        at += 8
        messages.append((content[at : at + props_len], content[at + props_len : at + props_len + body_len]))
        at += props_len + body_len
    assert at == len(content)
    return messages
