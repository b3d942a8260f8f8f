"""Streams: queues whose messages stay, each with an offset, and that are read from any place, as often as wanted.

    events = node.stream("events")
    await events.declare(max_age=timedelta(days=7))
    async with await events.publisher() as publisher:
        await publisher.publish(b"something happened")                # returns when a majority has it on disk
    async with events.read("first") as reader:
        async for message in reader:
            print(message.offset, message.body)

A reader takes nothing away, and settles nothing: asking for the next message makes room for one more. When its connection
breaks it goes on, at another node if need be, behind the last message that it handed out: no message is missing and none
comes twice. One that has handed out none begins again where it was asked to: at `next`, that is behind what was published
meanwhile.

To read on after a restart of the program, keep `reader.next_offset` with what was made of the messages, and begin there. Or
have the stream keep it, under a name of yours:

    async with events.read("first", reference="billing") as reader:   # behind what is stored, or from the first one on
        async for message in reader:
            ...
            if message.offset % 1000 == 0:
                await reader.store_offset()                             # all up to this message is done
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from math import ceil
from types import TracebackType
from typing import Any

from leveret.admin import Admin
from leveret.consumer import Consumer
from leveret.errors import RETRYABLE, ConnectionLost, LeveretError, ResourceExhausted
from leveret.message import Message, StreamMessage
from leveret.publisher import MAX_UNCONFIRMED, Publisher
from leveret.records import DeclaredQueue, QueueStatus
from leveret.requests import NodeRequests
from leveret.retry import Backoff
from leveret.topology import Topology
from leveret.v1 import consume_pb2, streams_pb2
from leveret.values import to_table, to_value

FILTER_HEADER = "x-stream-filter-value"
PREFETCH = 1_000  # messages on their way to a reader

# Where to begin: first; last, which is the last chunk; next; an age as 5m or a timedelta; a moment; or an offset. A moment and
# an age mean the first chunk that is not older.
Place = str | int | datetime | timedelta


class Stream:
    """One stream of the connection's vhost, declared or not yet. Made by `Node.stream()`."""

    def __init__(self, node: NodeRequests, name: str) -> None:
        self._node = node
        self.name = name

    async def declare(
        self,
        *,
        max_age: str | timedelta | None = None,
        max_length_bytes: int | None = None,
        segment_bytes_max: int | None = None,
        filter_bytes: int | None = None,
        members: int | None = None,
        leader_locator: str | None = None,
        arguments: Mapping[str, Any] | None = None,
    ) -> DeclaredQueue:
        """Declare it, or find it declared just so. Whole segments that are older than `max_age`, or more than
        `max_length_bytes`, are removed; without either, nothing ever is."""
        named = stream_arguments(
            max_age=max_age,
            max_length_bytes=max_length_bytes,
            segment_bytes_max=segment_bytes_max,
            filter_bytes=filter_bytes,
            members=members,
            leader_locator=leader_locator,
            arguments=arguments,
        )
        return await Topology(self._node).declare_queue(self.name, kind="stream", arguments=named)

    async def delete(self) -> None:
        """Delete it with all that is in it. One that does not exist is fine."""
        await Topology(self._node).delete_queue(self.name)

    async def status(self) -> QueueStatus:
        """Its offsets, readers and members. Needs the tag management."""
        return await Admin(self._node).queue_status(self.name)

    async def publisher(
        self, *, reference: str = "", name: str = "", resend: bool = False, max_unconfirmed: int = MAX_UNCONFIRMED
    ) -> StreamPublisher:
        """Open when this returns. See leveret.publisher for what `resend` promises.

        With a `reference`, the name of one publisher, messages are numbered on behind the last one that the stream has of it,
        and what is sent again with `resend` is stored once. A program whose messages are numbered 1, 2, 3 anyway goes on with
        `next_number` after a restart. One reference is for one publisher at a time: of two, each would take messages of the
        other for its own."""
        last = await self.last_number(reference) if reference else 0
        made = Publisher(
            self._node,
            name=name,
            resend=resend,
            max_unconfirmed=max_unconfirmed,
            reference=reference,
            first_number=last + 1,
        )
        self._node.children.add(made)
        await made.open()
        return StreamPublisher(made, self.name)

    def read(
        self,
        begin: Place = "next",
        *,
        filter_values: Iterable[str] = (),
        match_unfiltered: bool = False,
        reference: str = "",
        prefetch: int = PREFETCH,
        name: str = "",
        reconnect: bool = True,
    ) -> StreamReader:
        """A reader, to be entered with `async with` or iterated at once. With a `reference` it begins behind the offset that is
        stored under that name, if one is. With `filter_values` only messages that were published with one of them come;
        `match_unfiltered` adds those that were published without. Raises ValueError."""
        arguments: dict[str, Any] = {"x-stream-offset": offset_argument(begin)}
        if wanted := list(filter_values):
            arguments |= {"x-stream-filter": wanted, "x-stream-match-unfiltered": match_unfiltered}
        reader = StreamReader(
            self, arguments, node=self._node, reference=reference, prefetch=prefetch, name=name, reconnect=reconnect
        )
        self._node.children.add(reader)
        return reader

    async def browse(self, begin: Place = "first", *, limit: int = 1) -> list[StreamMessage]:
        """Look at up to `limit` messages, fewer if they are large."""
        request = consume_pb2.BrowseRequest(
            vhost=self._node.vhost, queue=self.name, limit=limit, stream_offset=to_value(offset_argument(begin))
        )
        response: consume_pb2.BrowseResponse = await self._node.call("consumer", "Browse", request)
        return [
            StreamMessage(
                one.queue_headers.entries["x-stream-offset"].integer, one.exchange, one.routing_key, one.message
            )
            for one in response.messages
        ]

    async def last_number(self, reference: str) -> int:
        """The last number that the publisher of this name has given a message that is stored; 0: there is none."""
        request = streams_pb2.GetLastNumberRequest(vhost=self._node.vhost, stream=self.name, publisher=reference)
        return int((await self._node.call("streams", "GetLastNumber", request)).number)

    async def store_offset(self, reference: str, offset: int) -> None:
        """Keep this offset in the stream under this name, instead of what was there. By custom it is that of the last message
        that is done with. Returns when the stream has it."""
        request = streams_pb2.StoreOffsetRequest(
            vhost=self._node.vhost, stream=self.name, reference=reference, offset=offset
        )
        await self._node.call("streams", "StoreOffset", request)

    async def stored_offset(self, reference: str) -> int | None:
        """What was stored last under this name; None: nothing."""
        request = streams_pb2.GetStoredOffsetRequest(vhost=self._node.vhost, stream=self.name, reference=reference)
        response: streams_pb2.GetStoredOffsetResponse = await self._node.call("streams", "GetStoredOffset", request)
        return response.offset if response.HasField("offset") else None


class StreamPublisher:
    """A publisher of one stream. Many tasks may share it."""

    def __init__(self, publisher: Publisher, stream: str) -> None:
        self._publisher = publisher
        self.stream = stream

    async def publish(self, message: Message | bytes, *, filter_value: str | None = None) -> None:
        """Publish, and return when it is confirmed: a majority of the members has it on disk. Raises as Publisher.publish."""
        await self.publish_many((message,), filter_value=filter_value)

    async def publish_many(self, messages: Iterable[Message | bytes], *, filter_value: str | None = None) -> None:
        """Publish in this order, and return when all are confirmed. `filter_value` is what readers may ask for."""
        if filter_value is not None:
            messages = (_filtered(message, filter_value) for message in messages)
        await self._publisher.publish_many(messages, routing_key=self.stream)

    @property
    def blocked_reason(self) -> str | None:
        """Why the node reads nothing from publishers now, or None."""
        return self._publisher.blocked_reason

    @property
    def next_number(self) -> int:
        """Of the next message; 0 for a publisher without a reference."""
        return self._publisher.next_number

    @property
    def unconfirmed(self) -> int:
        return self._publisher.unconfirmed

    async def flush(self) -> None:
        """Wait until nothing is unconfirmed."""
        await self._publisher.flush()

    async def close(self) -> None:
        """Wait for what is unconfirmed, then end."""
        await self._publisher.close()

    async def __aenter__(self) -> StreamPublisher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._publisher.__aexit__(kind, error, trace)


class StreamReader:
    """Messages of a stream one after the other, as an async iterator. Made by `Stream.read()`."""

    def __init__(
        self,
        stream: Stream,
        arguments: Mapping[str, Any],
        *,
        node: NodeRequests,
        reference: str,
        prefetch: int,
        name: str,
        reconnect: bool,
    ) -> None:
        if prefetch < 1:
            raise ValueError(f"prefetch is at least 1, not {prefetch}: a stream has no end")
        to_table(arguments)  # raises before anything is asked
        self.stream = stream
        self.next_offset: int | None = None  # behind the last message that was handed out; None: there was none
        self._node = node
        self._arguments = arguments
        self._reference = reference
        self._prefetch = prefetch
        self._name = name
        self._reconnect = reconnect
        self._backoff = Backoff()
        self._consumer: Consumer | None = None
        self._unsettled: Any = None  # the delivery that was handed out last
        self._has_begun = self._closing = False

    def __aiter__(self) -> StreamReader:
        return self

    async def __anext__(self) -> StreamMessage:
        """The next message. Whoever stops waiting for it misses nothing. Raises SubscriptionEnded when the stream is deleted,
        and what the node refused it with; without `reconnect` also ConnectionLost."""
        while True:
            try:
                consumer = self._consumer or await self._subscribe()
                await self._settle()
                delivery = await anext(consumer)
            except LeveretError as error:
                await self._go_on_after(error)
                continue
            self._unsettled = delivery
            message = delivery.stream_message()
            self.next_offset = message.offset + 1
            self._backoff.reset()
            self._has_begun = True
            return message

    async def start(self) -> StreamReader:
        """Return when the node has accepted the reader. Raises what it refused it with."""
        while not self._closing:
            try:
                consumer = self._consumer or await self._subscribe()
                await consumer.start()
            except LeveretError as error:
                await self._go_on_after(error)
                continue
            self._has_begun = True
            return self
        raise ConnectionLost("the reader is closed")

    async def store_offset(self) -> None:
        """Everything that was handed out is done with: whoever reads with this reference later begins behind it."""
        if not self._reference:
            raise ValueError("a reader without a reference has no name under which to store an offset")
        if self.next_offset is not None:
            await self.stream.store_offset(self._reference, self.next_offset - 1)

    async def close(self) -> None:
        self._closing = True
        if self._consumer is not None:
            await self._consumer.close()

    async def abandon(self) -> None:
        """End without telling the node."""
        self._closing = True
        if self._consumer is not None:
            await self._consumer.abandon()

    async def __aenter__(self) -> StreamReader:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------ subscriptions, one after the other

    async def _subscribe(self) -> Consumer:
        if self._closing:
            raise StopAsyncIteration
        place = self.next_offset
        if place is None and self._reference:
            stored = await self.stream.stored_offset(self._reference)
            place = None if stored is None else stored + 1
        self._consumer = Consumer(
            self._node,
            self.stream.name,
            prefetch=self._prefetch,
            arguments=self._arguments if place is None else {**self._arguments, "x-stream-offset": place},
            name=self._name,
        )
        return self._consumer

    async def _settle(self) -> None:
        """What was handed out makes room for another one."""
        delivery, self._unsettled = self._unsettled, None
        if delivery is not None:
            await delivery.ack()

    async def _go_on_after(self, error: LeveretError) -> None:
        """Return when it is time to try again; raise the error when it is no use. A node that has just come back may still be
        without a leader for the stream."""
        may_pass = isinstance(error, RETRYABLE) or (self._has_begun and isinstance(error, ResourceExhausted))
        if not (self._reconnect and may_pass) or self._closing:
            raise error
        self._unsettled = None
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await consumer.abandon()
        await asyncio.sleep(self._backoff.next_delay_s())


def stream_arguments(
    *,
    max_age: str | timedelta | None,
    max_length_bytes: int | None,
    segment_bytes_max: int | None,
    filter_bytes: int | None,
    members: int | None,
    leader_locator: str | None,
    arguments: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The arguments with which a stream is declared."""
    given = {
        "x-max-age": _age(max_age) if isinstance(max_age, timedelta) else max_age,
        "x-max-length-bytes": max_length_bytes,
        "x-stream-max-segment-size-bytes": segment_bytes_max,
        "x-stream-filter-size-bytes": filter_bytes,
        "x-initial-cluster-size": members,
        "x-queue-leader-locator": leader_locator,
    }
    return {name: value for name, value in given.items() if value is not None} | dict(arguments or {})


def offset_argument(place: Place) -> Any:
    """The argument x-stream-offset. What names no place is refused by the node."""
    return _age(place) if isinstance(place, timedelta) else place


def _age(span: timedelta) -> str:
    if span < timedelta():
        raise ValueError(f"an age is not negative: {span}")
    return f"{ceil(span.total_seconds())}s"


def _filtered(message: Message | bytes, value: str) -> Message:
    if not isinstance(message, Message):
        message = Message(bytes(message))
    return message.with_headers({FILTER_HEADER: value})
