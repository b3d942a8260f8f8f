"""What a client connection tells its user, in the order in which the broker said it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from native.content import body_bytes as body_bytes_of
from native.content import skip


@dataclass(slots=True, frozen=True)
class Opened:
    """The handshake is over: channels can be opened."""

    server_properties: dict[str, Any]


@dataclass(slots=True, frozen=True)
class Answered:
    """The answer to a request that has one, like queue.declare-ok."""

    channel: int
    method: str
    arguments: dict[str, Any]


@dataclass(slots=True)
class Delivered:
    """A run of deliveries: tags `first_tag` and on; `content` as broker/messages/message.py draws it."""

    channel: int
    consumer_tag: bytes
    first_tag: int
    redelivered: bool
    exchange: bytes
    routing_key: bytes
    count: int
    content: bytes
    body_bytes: int
    persistent: bool
    priority: int
    expiration: bytes | None
    user_id: bytes | None
    look: int

    def divided(self, count: int) -> tuple[Delivered, Delivered]:
        """The first `count` messages, and the others."""
        end, body_bytes = skip(self.content, 0, count), body_bytes_of(self.content, 0, count)
        first = replace(self, count=count, content=self.content[:end], body_bytes=body_bytes)
        rest = replace(
            self,
            first_tag=self.first_tag + count,
            count=self.count - count,
            content=self.content[end:],
            body_bytes=self.body_bytes - body_bytes,
        )
        return first, rest


@dataclass(slots=True, frozen=True)
class Confirmed:
    """Publishes first .. last were confirmed or refused. `multiple`: everything not answered up to `last`."""

    channel: int
    first: int
    last: int
    multiple: bool
    ok: bool


@dataclass(slots=True, frozen=True)
class PublishReturned:
    """No queue took a mandatory message. Its confirm follows."""

    channel: int
    code: int
    text: str
    exchange: str
    routing_key: str
    props: bytes
    body: bytes


@dataclass(slots=True, frozen=True)
class Blocked:
    """The broker takes no publishes for now; `reason` is None when that is over."""

    reason: str | None


@dataclass(slots=True, frozen=True)
class Flow:
    """Channel.flow: whether publishes may be sent. It is answered already."""

    channel: int
    active: bool


@dataclass(slots=True, frozen=True)
class Cancelled:
    """The broker ended a subscription."""

    channel: int
    consumer_tag: str


@dataclass(slots=True, frozen=True)
class ChannelClosed:
    """By the broker, with a reason. It is answered already."""

    channel: int
    code: int
    text: str


@dataclass(slots=True, frozen=True)
class ConnectionClosed:
    """Nothing follows. `code` is 0 where the connection ended without a close of the broker."""

    code: int
    text: str


ClientEvent: TypeAlias = (
    Opened
    | Answered
    | Delivered
    | Confirmed
    | PublishReturned
    | Blocked
    | Flow
    | Cancelled
    | ChannelClosed
    | ConnectionClosed
)
