"""A message as an application sees it, on its way in and on its way out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Protocol

from leveret.v1 import consume_pb2
from leveret.v1 import message_pb2 as pb
from leveret.values import FarTimestamp, from_table, moment, to_table


@dataclass(slots=True, frozen=True)
class Message:
    """A body with properties. Persistent unless you say otherwise."""

    body: bytes
    headers: Mapping[str, Any] = field(default_factory=dict)
    persistent: bool = True
    content_type: str | None = None
    content_encoding: str | None = None
    priority: int | None = None
    correlation_id: str | None = None
    reply_to: str | None = None
    expiration_ms: int | None = None
    message_id: str | None = None
    timestamp: datetime | FarTimestamp | None = None
    type: str | None = None
    user_id: str | None = None
    app_id: str | None = None
    cluster_id: str | None = None

    def with_headers(self, more: Mapping[str, Any]) -> Message:
        """The same with these headers in addition."""
        return replace(self, headers={**self.headers, **more})


_COPIED = (
    "content_type",
    "content_encoding",
    "priority",
    "correlation_id",
    "reply_to",
    "expiration_ms",
    "message_id",
    "type",
    "user_id",
    "app_id",
    "cluster_id",
)


def to_wire(message: Message | bytes) -> pb.Message:
    """Raises TypeError or ValueError for what a message cannot hold."""
    if isinstance(message, (bytes, bytearray, memoryview)):
        return pb.Message(body=bytes(message))
    if not isinstance(message, Message):
        raise TypeError(f"publish bytes or a leveret.Message, not a {type(message).__name__}: {message!r:.60}")
    properties = pb.Properties(
        delivery_mode=pb.DELIVERY_MODE_PERSISTENT if message.persistent else pb.DELIVERY_MODE_TRANSIENT,
        **{name: value for name in _COPIED if (value := getattr(message, name)) is not None},
    )
    if message.headers:
        properties.headers.CopyFrom(to_table(message.headers))
    if isinstance(message.timestamp, FarTimestamp):
        properties.timestamp_s = message.timestamp
    elif message.timestamp is not None:
        if message.timestamp.tzinfo is None:
            raise ValueError(f"timestamp {message.timestamp!r} has no time zone: which moment is it?")
        properties.timestamp_s = int(message.timestamp.timestamp())
    return pb.Message(properties=properties, body=message.body)


def from_wire(message: pb.Message) -> Message:
    properties = message.properties
    timestamp = moment(properties.timestamp_s) if properties.HasField("timestamp_s") else None
    return Message(
        message.body,
        headers=from_table(properties.headers),
        persistent=properties.delivery_mode == pb.DELIVERY_MODE_PERSISTENT,
        timestamp=timestamp,
        **{name: getattr(properties, name) for name in _COPIED if properties.HasField(name)},
    )


@dataclass(slots=True, frozen=True)
class GotMessage:
    """A message that was taken from a queue, or looked at, without a subscription."""

    message: Message
    exchange: str
    routing_key: str
    redelivered: bool
    queue_headers: Mapping[str, Any]

    @property
    def body(self) -> bytes:
        return self.message.body


@dataclass(slots=True, frozen=True)
class DelayedMessage:
    """A message that waits in a delayed exchange, or for a queue that delays."""

    id: str
    due_ms: int  # since 1970, by the clock of the exchange's queue, which goes on steadily when wall clocks are set
    message: Message
    exchange: str
    routing_key: str

    @property
    def body(self) -> bytes:
        return self.message.body


@dataclass(slots=True, frozen=True)
class StreamMessage:
    """A message of a stream, and its place there."""

    offset: int
    exchange: str
    routing_key: str
    _wire: pb.Message

    @property
    def body(self) -> bytes:
        return self._wire.body

    @property
    def message(self) -> Message:
        """Body and properties, as published."""
        return from_wire(self._wire)

    @property
    def headers(self) -> dict[str, Any]:
        return from_table(self._wire.properties.headers)

    def __repr__(self) -> str:
        return f"<StreamMessage {self.offset}, {len(self.body)} bytes>"


class Settling(Protocol):
    """The subscription that a delivery came with."""

    async def settle(self, epoch: int, tag: int, outcome: consume_pb2.Outcome) -> None: ...


class Delivery:
    """A message that a subscription received. Settle it once, unless the subscription is no_ack."""

    __slots__ = ("_batch", "_consumer", "_epoch", "_message", "tag")

    def __init__(
        self, consumer: Settling, epoch: int, tag: int, batch: consume_pb2.DeliveryBatch, message: pb.Message
    ) -> None:
        self._consumer = consumer
        self._epoch = epoch  # which connection brought it: tags mean nothing on the next one
        self._batch = batch
        self._message = message
        self.tag = tag

    @property
    def body(self) -> bytes:
        return self._message.body

    @property
    def message(self) -> Message:
        """Body and properties, as published."""
        return from_wire(self._message)

    @property
    def headers(self) -> dict[str, Any]:
        return from_table(self._message.properties.headers)

    @property
    def exchange(self) -> str:
        return self._batch.exchange

    @property
    def routing_key(self) -> str:
        return self._batch.routing_key

    @property
    def redelivered(self) -> bool:
        return self._batch.redelivered

    @property
    def queue_headers(self) -> dict[str, Any]:
        """What the queue adds: x-delivery-count, x-stream-offset."""
        headers = from_table(self._batch.queue_headers)
        if self.offset is not None:
            headers["x-stream-offset"] = self.offset
        return headers

    @property
    def offset(self) -> int | None:
        """Its place in the stream; None for other kinds of queue."""
        batch = self._batch
        return batch.first_offset + self.tag - batch.first_tag if batch.HasField("first_offset") else None

    def stream_message(self) -> StreamMessage:
        """For readers of streams, who settle nothing."""
        assert self.offset is not None, f"{self!r} is of no stream"
        return StreamMessage(self.offset, self.exchange, self.routing_key, self._message)

    async def ack(self) -> None:
        """Done with it. Settlements travel in groups; this waits only while many of them wait.

        Raises ConnectionLost when the connection that brought the message is gone: it will be delivered again.
        """
        await self._consumer.settle(self._epoch, self.tag, consume_pb2.OUTCOME_ACCEPTED)

    async def requeue(self) -> None:
        """Back to its old place, to be delivered again."""
        await self._consumer.settle(self._epoch, self.tag, consume_pb2.OUTCOME_REQUEUED)

    async def reject(self) -> None:
        """To the queue's dead-letter exchange, or away."""
        await self._consumer.settle(self._epoch, self.tag, consume_pb2.OUTCOME_REJECTED)

    def __repr__(self) -> str:
        return f"<Delivery {self.tag} from {self.exchange!r} with {self.routing_key!r}, {len(self.body)} bytes>"
