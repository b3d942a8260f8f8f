"""Cuts what a client sent into runs of publishes, ranges of acks, and single frames.

    frame      type u8 | channel u16 | size u32 | payload (size bytes) | 0xCE          big endian throughout
    publish    method frame (60, 40), header frame, body frames until the announced size: a *content*
    header     class-id u16 | weight u16 | body size u64 | property flags u16 | properties

`split` looks at every byte of framing once and copies every body once. Whatever it does not recognise as a whole and
well-formed publish it hands on frame by frame: judging those, and putting big contents together, is the channel's work.
So the splitter never has to know the state of a channel, and it keeps no state of its own.

What is left unconsumed at the end is a part of one frame, or a publish whose content is still arriving and will be
smaller than `assemble_max` when whole. A bigger one is handed on as frames at once: so one call walks over at most
`assemble_max` bytes that an earlier call has seen, however small the pieces are in which a message arrives.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from native import compiled_twin

Buffer: TypeAlias = bytes | bytearray | memoryview

# What an item is: its first element.
PUBLISH: Final = 1
ACK: Final = 2
FRAME: Final = 3

# (PUBLISH, channel, method payload, count, content, body bytes, persistent, priority, expiration, user id, look)
PublishItem: TypeAlias = tuple[
    Literal[1], int, bytes, int, bytes, int, bool, int, bytes | None, bytes | None, int
]  # fmt: skip
# (ACK, channel, first tag, last tag, multiple); first tag is last tag when multiple
AckItem: TypeAlias = tuple[Literal[2], int, int, int, bool]
# (FRAME, frame type, channel, payload)
FrameItem: TypeAlias = tuple[Literal[3], int, int, bytes]
Item: TypeAlias = PublishItem | AckItem | FrameItem

# Bits of a run's look, as broker/messages/message.py has them.
LOOK_CC: Final = 1
LOOK_REPLY_TO: Final = 2
LOOK_HEADERS: Final = 4
LOOK_ALONE: Final = LOOK_CC | LOOK_REPLY_TO

# A run is one queue operation and one log record, so it is kept at a size that a commit and a credit window digest.
RUN_MESSAGES_MAX: Final = 8192  # where a queue looks at each by itself that is 30 ms of one turn
RUN_CONTENT_BYTES_MAX: Final = 1 << 20

NO_FRAME_MAX: Final = 2**31 - 1  # what frame_max 0, "no limit", means here
CONTENT_LEN_MAX: Final = 2**32 - 1  # lengths inside a content are u32
DIRECT_REPLY_TO: Final = b"amq.rabbitmq.reply-to"

FRAME_METHOD: Final = 1
FRAME_HEADER: Final = 2
FRAME_BODY: Final = 3
FRAME_HEARTBEAT: Final = 8

_FRAME_HEAD = struct.Struct(">BHI")
_FRAME_END = 0xCE
_FRAME_OVERHEAD = 8  # head and end byte
_CONTENT_HEAD = struct.Struct(">HHQ")
_LENGTHS = struct.Struct("<II")
_PUBLISH_METHOD = b"\x00\x3c\x00\x28"
_ACK_METHOD = b"\x00\x3c\x00\x50"
_ACK_PAYLOAD = struct.Struct(">IQB")
_CLASS_BASIC = 60


class FrameError(ValueError):
    """What a client sent cannot be read; `code` and `text` go into connection.close."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Look(NamedTuple):
    """What routing and storing look at in a property list."""

    persistent: bool
    priority: int
    expiration: bytes | None
    user_id: bytes | None
    look: int


def split_plain(
    buffer: Buffer, start: int, frame_max: int, message_size_max: int, assemble_max: int = 65536
) -> tuple[list[Item], int, tuple[int, str] | None]:
    """Items from `start` on, the position up to which they reach, and the error that stopped it or None.

    The error is a reply code and text; the items before it are good. A frame is judged by its head, before its payload
    has arrived: its payload may have `frame_max` bytes (8 more than was agreed; RabbitMQ tolerates them), 0 = any.
    """
    with memoryview(buffer) as view:
        if not 0 <= start <= len(view):
            raise ValueError(f"start is {start}, outside of a buffer of {len(view)} bytes")
        return ContentSplitter(view, frame_max or NO_FRAME_MAX, message_size_max, assemble_max).split(start)


def parse_publish_plain(method_payload: Buffer) -> tuple[str, str, bool, bool]:
    """Exchange, routing key, mandatory and immediate of a Basic.Publish; FrameError 502 if it is not one."""
    payload = bytes(method_payload)
    if not _is_whole_publish(payload):
        raise FrameError(502, f"SYNTAX_ERROR - malformed basic.publish of {len(payload)} bytes")
    exchange_end = 7 + payload[6]
    routing_key_end = exchange_end + 1 + payload[exchange_end]
    try:
        exchange = payload[7:exchange_end].decode()
        routing_key = payload[exchange_end + 1 : routing_key_end].decode()
    except UnicodeDecodeError as error:
        raise FrameError(502, "SYNTAX_ERROR - exchange or routing key of basic.publish is not UTF-8") from error
    bits = payload[routing_key_end]
    return exchange, routing_key, bool(bits & 1), bool(bits & 2)


def look_at_plain(props: Buffer) -> Look:
    """What `split` sees in a property list (its flags first); FrameError 502 if it is malformed.

    Nested values of the headers table are stepped over by their lengths, and not read.
    """
    look = _look(bytes(props))
    if look is None:
        raise FrameError(502, f"SYNTAX_ERROR - malformed property list of {len(props)} bytes")
    return look


class _Frame(NamedTuple):
    kind: int
    channel: int
    start: int  # of its payload
    end: int  # of its payload
    next: int  # where the following frame starts


class SplitContent(NamedTuple):
    channel: int
    method: bytes
    props: bytes
    bodies: list[_Frame]
    body_len: int
    end: int


@dataclass(slots=True)
class ContentRun:
    channel: int
    method: bytes
    agreed: tuple[bool, int, bytes | None, bytes | None]  # persistent, priority, expiration, user id
    look: int = 0
    count: int = 0
    body_bytes: int = 0
    content: bytearray = field(default_factory=bytearray)

    def continued_by(self, method: bytes) -> bool:
        """Whether a message of this method may belong to the run."""
        return self.method == method

    def takes(self, message: SplitContent, look: Look) -> bool:
        """Whether the message belongs to this run and still fits in."""
        return (
            self.channel == message.channel
            and self.continued_by(message.method)
            and self.agreed == look[:4]
            and not (self.look | look.look) & LOOK_ALONE
            and self.count < RUN_MESSAGES_MAX
            and len(self.content) + _LENGTHS.size + len(message.props) + message.body_len <= RUN_CONTENT_BYTES_MAX
        )

    def item(self) -> tuple[Any, ...]:
        return (PUBLISH, self.channel, self.method, self.count, bytes(self.content), self.body_bytes,
                *self.agreed, self.look)  # fmt: skip


class ContentSplitter:
    """Of publishes. For those of another method see native/delivery_split.py."""

    content_method = _PUBLISH_METHOD

    def __init__(self, view: memoryview, frame_max: int, message_size_max: int, assemble_max: int) -> None:
        self.view = view
        self.frame_max = frame_max
        self.message_size_max = min(message_size_max, CONTENT_LEN_MAX)
        self.assemble_max = assemble_max
        self.items: list[Any] = []
        self.run: ContentRun | None = None
        self.ack: AckItem | None = None
        self.seen: tuple[bytes, Look] = (b"", Look(False, 0, None, None, 0))  # the last property list looked at

    def split(self, position: int) -> tuple[list[Any], int, tuple[int, str] | None]:
        error = None
        try:
            while (frame := self._frame_at(position)) is not None:
                taken = self._take(frame, position)
                if taken is None:
                    break
                position = taken
        except FrameError as broken:
            error = (broken.code, broken.text)
        self._flush()
        return self.items, position, error

    def _frame_at(self, position: int) -> _Frame | None:
        """The frame at a position, or None if it has not arrived whole; FrameError if it never can."""
        if len(self.view) - position < _FRAME_HEAD.size:
            return None
        kind, channel, size = _FRAME_HEAD.unpack_from(self.view, position)
        if kind not in (FRAME_METHOD, FRAME_HEADER, FRAME_BODY, FRAME_HEARTBEAT):
            raise FrameError(501, f"FRAME_ERROR - unknown frame type {kind} on channel {channel}")
        if size > self.frame_max:
            raise FrameError(
                501,
                f"FRAME_ERROR - frame of type {kind} on channel {channel} has {size} payload bytes, "
                f"frame_max is {self.frame_max}",
            )
        start = position + _FRAME_HEAD.size
        end = start + size
        if end >= len(self.view):
            return None
        if self.view[end] != _FRAME_END:
            raise FrameError(
                501,
                f"FRAME_ERROR - frame of type {kind} on channel {channel} ends in {self.view[end]}, "
                f"expected {_FRAME_END}",
            )
        return _Frame(kind, channel, start, end, end + 1)

    def _take(self, frame: _Frame, position: int) -> int | None:
        """Take what starts with this frame: the position after it, or None if the rest has to arrive first."""
        payload = self.view[frame.start : frame.end]
        if frame.kind == FRAME_METHOD and payload[:4] == self.content_method:
            content = self._content_of(frame, position)
            if content == "arriving":
                return None
            if isinstance(content, SplitContent) and (look := self._look(content.props)) is not None:
                self._take_message(content, look)
                return content.end
        elif frame.kind == FRAME_METHOD and payload[:4] == _ACK_METHOD and len(payload) == _ACK_PAYLOAD.size:
            _, tag, bits = _ACK_PAYLOAD.unpack(payload)
            self._take_ack(frame.channel, tag, bool(bits & 1))
            return frame.next
        self._flush()
        self.items.append((FRAME, frame.kind, frame.channel, bytes(payload)))
        return frame.next

    def _content_of(self, method: _Frame, position: int) -> SplitContent | Literal["arriving", "not plain"]:
        """The whole message that a publish method begins, without interruption by other frames."""
        payload = bytes(self.view[method.start : method.end])
        if not self.is_whole(payload):
            return "not plain"
        try:
            header = self._frame_at(method.next)
            if header is None:
                return self._arriving(position, method.next)
            if header.kind != FRAME_HEADER or header.channel != method.channel or header.end - header.start < 14:
                return "not plain"
            class_id, weight, body_len = _CONTENT_HEAD.unpack_from(self.view, header.start)
            if class_id != _CLASS_BASIC or weight or body_len > self.message_size_max:
                return "not plain"
            bodies = []
            end, missing = header.next, body_len
            while missing:
                body = self._frame_at(end)
                if body is None:
                    return self._arriving(position, end + missing + _FRAME_OVERHEAD)
                if body.kind != FRAME_BODY or body.channel != method.channel or body.end - body.start > missing:
                    return "not plain"
                bodies.append(body)
                end, missing = body.next, missing - (body.end - body.start)
        except FrameError:
            return "not plain"  # the frames before the broken one are handed on, then the main loop meets it
        props = bytes(self.view[header.start + _CONTENT_HEAD.size : header.end])
        return SplitContent(method.channel, payload, props, bodies, body_len, end)

    def _arriving(self, position: int, end_min: int) -> Literal["arriving", "not plain"]:
        """Whether to wait for a content that starts at a position and reaches at least to end_min."""
        buffered = len(self.view) - position
        waits = buffered < self.assemble_max and end_min - position <= self.assemble_max
        return "arriving" if waits else "not plain"

    def is_whole(self, method: bytes) -> bool:
        """Whether its arguments are there, and nothing behind them."""
        return _is_whole_publish(method)

    def begin_run(self, message: SplitContent, look: Look) -> ContentRun:
        return ContentRun(message.channel, message.method, look[:4])

    def _look(self, props: bytes) -> Look | None:
        if props == self.seen[0]:
            return self.seen[1]
        look = _look(props)
        if look is not None:
            self.seen = (props, look)
        return look

    def _take_message(self, message: SplitContent, look: Look) -> None:
        if self.run is None or not self.run.takes(message, look):
            self._flush()
            self.run = self.begin_run(message, look)
        run = self.run
        run.content += _LENGTHS.pack(len(message.props), message.body_len) + message.props
        for body in message.bodies:
            run.content += self.view[body.start : body.end]
        run.count += 1
        run.body_bytes += message.body_len
        run.look |= look.look

    def _take_ack(self, channel: int, tag: int, multiple: bool) -> None:
        merged = _merged(self.ack, channel, tag, multiple)
        if merged is None:
            self._flush()
            merged = (ACK, channel, tag, tag, multiple)
        self.ack = merged

    def _flush(self) -> None:
        if self.run is not None:
            self.items.append(self.run.item())
            self.run = None
        if self.ack is not None:
            self.items.append(self.ack)
            self.ack = None


def _merged(ack: AckItem | None, channel: int, tag: int, multiple: bool) -> AckItem | None:
    """The ack that says both, or None. Zero means all, so it stays alone.

    An ack of a tag that is already covered stays alone too: it is an error that only the channel can find.
    """
    if ack is None or ack[1] != channel or ack[4] != multiple or ack[3] == 0:
        return None
    if multiple:
        return (ACK, channel, tag, tag, True) if tag > ack[3] else None
    return (ACK, channel, ack[2], tag, False) if tag == ack[3] + 1 else None


def _is_whole_publish(payload: bytes) -> bool:
    """class u16 | method u16 | reserved u16 | exchange short string | routing key short string | bits u8"""
    if len(payload) < 9 or payload[:4] != _PUBLISH_METHOD:
        return False
    exchange_end = 7 + payload[6]
    return exchange_end < len(payload) and exchange_end + 2 + payload[exchange_end] == len(payload)


# Properties in wire order, by flag bit. Everything else below bit 15 is a short string.
_FLAG_HEADERS = 13
_FLAG_DELIVERY_MODE = 12
_FLAG_PRIORITY = 11
_FLAG_REPLY_TO = 9
_FLAG_EXPIRATION = 8
_FLAG_TIMESTAMP = 6
_FLAG_USER_ID = 4
_FLAGS_UNKNOWN = 0b11  # bit 1 is no property, bit 0 announces more flags than the protocol has

_DELIVERY_MODE_PERSISTENT = 2

# Bytes of a table value by its type; None = a u32 length and that many bytes.
VALUE_SIZES: dict[int, int | None] = {
    **dict.fromkeys(b"V", 0),
    **dict.fromkeys(b"tbB", 1),
    **dict.fromkeys(b"su", 2),
    **dict.fromkeys(b"Iif", 4),
    **dict.fromkeys(b"D", 5),
    **dict.fromkeys(b"lLdT", 8),
    **dict.fromkeys(b"SxFA", None),
}


def _look(props: bytes) -> Look | None:
    """What matters in a property list, or None if it is malformed. It must end exactly where its flags say."""
    try:
        return _read_properties(props)
    except (IndexError, struct.error):
        return None  # it ends too early


def _read_properties(props: bytes) -> Look | None:
    (flags,) = struct.unpack_from(">H", props)
    if flags & _FLAGS_UNKNOWN:
        return None
    persistent, priority, look = False, 0, 0
    strings: dict[int, bytes] = {}
    at = 2
    for bit in range(15, 1, -1):
        if not flags & 1 << bit:
            continue
        if bit == _FLAG_HEADERS:
            (size,) = struct.unpack_from(">I", props, at)
            table_look = _look_at_table(props[at + 4 : at + 4 + size], size)
            if table_look is None:
                return None
            look |= table_look
            at += 4 + size
        elif bit == _FLAG_DELIVERY_MODE:
            persistent = props[at] == _DELIVERY_MODE_PERSISTENT
            at += 1
        elif bit == _FLAG_PRIORITY:
            priority = props[at]
            at += 1
        elif bit == _FLAG_TIMESTAMP:
            at += 8
        else:
            strings[bit] = props[at + 1 : at + 1 + props[at]]
            at += 1 + props[at]
    if at != len(props):
        return None
    if strings.get(_FLAG_REPLY_TO, b"").startswith(DIRECT_REPLY_TO):
        look |= LOOK_REPLY_TO
    return Look(persistent, priority, strings.get(_FLAG_EXPIRATION), strings.get(_FLAG_USER_ID), look)


def _look_at_table(table: bytes, size: int) -> int | None:
    """The look of a headers table, None if it is cut short or its values do not end where it does."""
    if len(table) != size:
        return None
    look = LOOK_HEADERS if size else 0
    for key in _keys(table):
        if key is None:
            return None
        if key in (b"CC", b"BCC"):
            look |= LOOK_CC
    return look


def _keys(table: bytes) -> Iterator[bytes | None]:
    """The names in a table; None, and no more, where it is malformed."""
    at = 0
    while at < len(table):
        key = table[at + 1 : at + 1 + table[at]]
        at += 1 + table[at]
        kind = table[at]
        at += 1
        if kind not in VALUE_SIZES:
            yield None
            return
        size = VALUE_SIZES[kind]
        if size is None:
            size = 4 + int(struct.unpack_from(">I", table, at)[0])
        at += size
        if at > len(table):
            yield None
            return
        yield key


split = split_plain
parse_publish = parse_publish_plain
look_at = look_at_plain

if (_twin := compiled_twin("frame_split")) is not None:
    split = _twin.split
    parse_publish = _twin.parse_publish
    look_at = _twin.look_at
