"""Streams for programs without an event loop: what leveret.stream does, with calls that block.

with leveret.connect_sync("127.0.0.1:5680") as node:
    events = node.stream("events")
    events.declare()
    with events.publisher() as publisher:
        publisher.publish(b"something happened")
    with events.read("first") as reader:
        for message in reader:
            print(message.offset, message.body)
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from types import TracebackType
from typing import Any, Protocol, TypeVar

from leveret.errors import ConnectionLost
from leveret.message import Message, StreamMessage
from leveret.publisher import MAX_UNCONFIRMED
from leveret.records import DeclaredQueue, QueueStatus
from leveret.stream import PREFETCH, Place, Stream, StreamPublisher, StreamReader
from leveret.super_stream import SuperStream, SuperStreamPublisher

T = TypeVar("T")


class AsyncNode(Protocol):
    def stream(self, name: str) -> Stream: ...

    def super_stream(self, name: str) -> SuperStream: ...


class BlockingNode(Protocol):
    """What is needed of leveret.sync.SyncNode."""

    def call(self, work: Callable[[Any], Awaitable[T]], timeout_s: float | None = None) -> T: ...

    def run(self, work: Awaitable[T], timeout_s: float | None = None) -> T: ...


class SyncStream:
    """One stream of the connection's vhost, declared or not yet. Made by `SyncNode.stream()`."""

    def __init__(self, node: BlockingNode, name: str) -> None:
        self._node = node
        self.name = name

    def declare(
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
        """Declare it, or find it declared just so. See Stream.declare."""
        return self._call(
            lambda stream: stream.declare(
                max_age=max_age,
                max_length_bytes=max_length_bytes,
                segment_bytes_max=segment_bytes_max,
                filter_bytes=filter_bytes,
                members=members,
                leader_locator=leader_locator,
                arguments=arguments,
            )
        )

    def delete(self) -> None:
        """Delete it with all that is in it. One that does not exist is fine."""
        self._call(lambda stream: stream.delete())

    def status(self) -> QueueStatus:
        """Its offsets, readers and members. Needs the tag management."""
        return self._call(lambda stream: stream.status())

    def publisher(
        self, *, reference: str = "", name: str = "", resend: bool = False, max_unconfirmed: int = MAX_UNCONFIRMED
    ) -> SyncStreamPublisher:
        """Open when this returns. See Stream.publisher."""
        made = self._call(
            lambda stream: stream.publisher(
                reference=reference, name=name, resend=resend, max_unconfirmed=max_unconfirmed
            )
        )
        return SyncStreamPublisher(self._node, made)

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
    ) -> SyncStreamReader:
        """A reader, which the node has accepted when this returns. See Stream.read."""

        async def start(stream: Stream) -> StreamReader:
            return await stream.read(
                begin,
                filter_values=filter_values,
                match_unfiltered=match_unfiltered,
                reference=reference,
                prefetch=prefetch,
                name=name,
                reconnect=reconnect,
            ).start()

        return SyncStreamReader(self._node, self._call(start))

    def browse(self, begin: Place = "first", *, limit: int = 1) -> list[StreamMessage]:
        """Look at up to `limit` messages, fewer if they are large."""
        return self._call(lambda stream: stream.browse(begin, limit=limit))

    def last_number(self, reference: str) -> int:
        """The last number that the publisher of this name has given a message that is stored; 0: there is none."""
        return self._call(lambda stream: stream.last_number(reference))

    def store_offset(self, reference: str, offset: int) -> None:
        """Keep this offset in the stream under this name. Returns when the stream has it."""
        self._call(lambda stream: stream.store_offset(reference, offset))

    def stored_offset(self, reference: str) -> int | None:
        """What was stored last under this name; None: nothing."""
        return self._call(lambda stream: stream.stored_offset(reference))

    def _call(self, work: Callable[[Stream], Awaitable[T]]) -> T:
        def on_node(node: AsyncNode) -> Awaitable[T]:
            return work(node.stream(self.name))

        return self._node.call(on_node)


class SyncStreamPublisher:
    """A publisher of one stream. Many threads may share it; what they publish at the same time travels together."""

    def __init__(self, node: BlockingNode, publisher: StreamPublisher) -> None:
        self._node = node
        self._publisher = publisher

    def publish(
        self, message: Message | bytes, *, filter_value: str | None = None, timeout_s: float | None = None
    ) -> None:
        """Publish, and return when it is confirmed. Raises as the asynchronous one, and TimedOut after `timeout_s`."""
        self.publish_many((message,), filter_value=filter_value, timeout_s=timeout_s)

    def publish_many(
        self, messages: Iterable[Message | bytes], *, filter_value: str | None = None, timeout_s: float | None = None
    ) -> None:
        """Publish in this order, and return when all are confirmed."""
        self._node.run(self._publisher.publish_many(messages, filter_value=filter_value), timeout_s)

    @property
    def blocked_reason(self) -> str | None:
        """Why the node reads nothing from publishers now, or None."""
        return self._publisher.blocked_reason

    @property
    def next_number(self) -> int:
        """Of the next message; 0 for a publisher without a reference."""
        return self._publisher.next_number

    def flush(self) -> None:
        """Wait until nothing is unconfirmed."""
        self._node.run(self._publisher.flush())

    def close(self) -> None:
        """Wait for what is unconfirmed, then end."""
        self._node.run(self._publisher.close())

    def __enter__(self) -> SyncStreamPublisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._node.run(self._publisher.__aexit__(kind, error, trace))


class SyncStreamReader:
    """Messages of a stream one after the other, as an iterator. Made by `SyncStream.read()`."""

    def __init__(self, node: BlockingNode, reader: StreamReader) -> None:
        self._node = node
        self._reader = reader

    @property
    def next_offset(self) -> int | None:
        """Behind the last message that was handed out: where to begin the next time. None: there was none."""
        return self._reader.next_offset

    def __iter__(self) -> Iterator[StreamMessage]:
        return self

    def __next__(self) -> StreamMessage:
        found = self._next(None)
        if found is None:
            raise StopIteration
        return found

    def receive(self, timeout_s: float | None = None) -> StreamMessage:
        """The next message. Raises TimedOut when none came within `timeout_s`, and ConnectionLost after `close`."""
        found = self._next(timeout_s)
        if found is None:
            raise ConnectionLost("the reader is closed")
        return found

    def _next(self, timeout_s: float | None) -> StreamMessage | None:
        async def next_one() -> StreamMessage | None:
            return await anext(self._reader, None)

        return self._node.run(next_one(), timeout_s)

    def store_offset(self) -> None:
        """Everything that was handed out is done with: whoever reads with this reference later begins behind it."""
        self._node.run(self._reader.store_offset())

    def close(self) -> None:
        self._node.run(self._reader.close())

    def __enter__(self) -> SyncStreamReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncSuperStream:
    """One super stream of the connection's vhost, created or not yet. Made by `SyncNode.super_stream()`."""

    def __init__(self, node: BlockingNode, name: str) -> None:
        self._node = node
        self.name = name

    def create(self, **options: Any) -> list[str]:
        """See SuperStream.create for the options."""
        return self._call(lambda stream: stream.create(**options))

    def delete(self) -> None:
        """Delete it with its partitions and all that is in them."""
        self._call(lambda stream: stream.delete())

    def partitions(self) -> list[str]:
        """The streams that it consists of, in their order."""
        return self._call(lambda stream: stream.partitions())

    def publisher(self, **options: Any) -> SyncSuperStreamPublisher:
        """Open when this returns. See SuperStream.publisher for the options."""
        return SyncSuperStreamPublisher(self._node, self._call(lambda stream: stream.publisher(**options)))

    def _call(self, work: Callable[[SuperStream], Awaitable[T]]) -> T:
        def on_node(node: AsyncNode) -> Awaitable[T]:
            return work(node.super_stream(self.name))

        return self._node.call(on_node)


class SyncSuperStreamPublisher:
    """A publisher that spreads messages over partitions by their keys. Many threads may share it."""

    def __init__(self, node: BlockingNode, publisher: SuperStreamPublisher) -> None:
        self._node = node
        self._publisher = publisher

    def publish(self, message: Message | bytes, *, key: str, timeout_s: float | None = None) -> None:
        """Publish, and return when it is confirmed."""
        self._node.run(self._publisher.publish(message, key=key), timeout_s)

    def publish_many(self, messages: Iterable[Message | bytes], *, key: str, timeout_s: float | None = None) -> None:
        """Publish all of one key in this order, and return when they are confirmed."""
        self._node.run(self._publisher.publish_many(messages, key=key), timeout_s)

    def close(self) -> None:
        """Wait for what is unconfirmed, then end."""
        self._node.run(self._publisher.close())

    def __enter__(self) -> SyncSuperStreamPublisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._node.run(self._publisher.__aexit__(kind, error, trace))
