"""The client for programs without an event loop: the same calls, which block until they are done.

    with leveret.connect_sync("127.0.0.1:5680") as node:
        node.topology.declare_queue("orders")
        with node.publisher() as publisher:
            publisher.publish(b"one book", routing_key="orders")
        with node.consume("orders") as deliveries:
            for delivery in deliveries:
                print(delivery.body)
                delivery.ack()
                break

A thread of its own runs the event loop on which the asynchronous client works; whatever is called here is handed over to it.
Any number of threads may call. What has no method of its own here is asked with `call`, such as
`node.call(lambda node: node.admin.users())`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from concurrent.futures import CancelledError
from functools import wraps
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

from leveret.connection import Node, connect
from leveret.consumer import Consumer
from leveret.errors import ConnectionLost, TimedOut
from leveret.message import Delivery, GotMessage, Message
from leveret.publisher import MAX_UNCONFIRMED, Publisher
from leveret.records import Binding, DeclaredQueue, Exchange, Queue
from leveret.sync_stream import SyncStream, SyncSuperStream

P = ParamSpec("P")
T = TypeVar("T")

CLOSED = "the connection is closed"


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="leveret", daemon=True)
        self._thread.start()
        self._lock = threading.Lock()  # nothing is handed over behind `_end`: it would never be done
        self._is_ending = False

    def run(self, work: Awaitable[T], timeout_s: float | None = None) -> T:
        """The result. Raises what the work raises, TimedOut, or ConnectionLost when the loop ends before the work; whoever
        stops waiting also stops the work."""
        if threading.current_thread() is self._thread:
            _unused(work)
            raise RuntimeError("a blocking call within the client's own event loop would wait for itself")

        async def bounded() -> T:
            try:
                async with asyncio.timeout(timeout_s) as within:
                    return await work
            except TimeoutError as error:
                if not within.expired():
                    raise
                raise TimedOut(f"not done within {timeout_s:g} s; it may still happen") from error

        with self._lock:
            if self._is_ending:
                _unused(work)
                raise ConnectionLost(CLOSED)
            future = asyncio.run_coroutine_threadsafe(bounded(), self._loop)
        try:
            return future.result()
        except CancelledError as error:
            raise ConnectionLost(f"{CLOSED}, and this was not done yet: it may have happened") from error
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End what is still under way, and the thread. Whoever waits for it is told."""
        with self._lock:
            self._is_ending = True
            asyncio.run_coroutine_threadsafe(self._end(), self._loop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._loop.stop()


def _unused(work: Awaitable[Any]) -> None:
    """Python complains of a coroutine that nobody waits for."""
    if asyncio.iscoroutine(work):
        work.close()


class SyncNode:
    """A connection to a node. Everything made from it ends with it."""

    def __init__(self, make: Callable[[], Awaitable[Node]]) -> None:
        self._make = make
        self._loop: _Loop | None = None
        self._node: Node | None = None
        self.topology = SyncTopology(self)

    def __enter__(self) -> SyncNode:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Connect, and have user and password checked. Raises ConnectionLost, TimedOut or Unauthenticated."""
        assert self._loop is None, "the connection is open already"
        self._loop = _Loop()
        try:
            self._node = self._loop.run(self._make())
            self._loop.run(self._node.open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End everything that was made from this connection, then the connection. Calls of other threads that are under way
        raise ConnectionLost."""
        loop, node, self._loop, self._node = self._loop, self._node, None, None
        if loop is None:
            return
        try:
            if node is not None:
                loop.run(node.close())
        finally:
            loop.stop()

    def call(self, work: Callable[[Node], Awaitable[T]], timeout_s: float | None = None) -> T:
        """What `work` does with the asynchronous node. Raises what it raises, or TimedOut after `timeout_s`."""
        node = self._node  # another thread may close it at any time
        if node is None:
            raise ConnectionLost("not connected: use `with leveret.connect_sync(...) as node`")
        return self.run(work(node), timeout_s)

    def run(self, work: Awaitable[T], timeout_s: float | None = None) -> T:
        loop = self._loop
        if loop is None:
            _unused(work)
            raise ConnectionLost(CLOSED)
        return loop.run(work, timeout_s)

    @property
    def target(self) -> str:
        """The address of the node that is used now."""

        async def ask(node: Node) -> str:
            return node.target

        return self.call(ask)

    def publisher(
        self, *, name: str = "", resend: bool = False, max_unconfirmed: int = MAX_UNCONFIRMED
    ) -> SyncPublisher:
        """A stream of publishes, open when this returns."""
        made = self.call(lambda node: node.publisher(name=name, resend=resend, max_unconfirmed=max_unconfirmed))
        return SyncPublisher(self, made)

    def consume(
        self,
        queue: str,
        *,
        prefetch: int = 100,
        no_ack: bool = False,
        exclusive: bool = False,
        consumer_tag: str = "",
        arguments: Mapping[str, Any] | None = None,
        name: str = "",
        reconnect: bool = False,
    ) -> SyncConsumer:
        """A subscription, which the node has accepted when this returns."""

        async def subscribe(node: Node) -> Consumer:
            consumer = node.consume(
                queue,
                prefetch=prefetch,
                no_ack=no_ack,
                exclusive=exclusive,
                consumer_tag=consumer_tag,
                arguments=arguments,
                name=name,
                reconnect=reconnect,
            )
            return await consumer.start()

        return SyncConsumer(self, self.call(subscribe))

    def stream(self, name: str) -> SyncStream:
        """A stream by its name, to be declared, published to and read."""
        return SyncStream(self, name)

    def super_stream(self, name: str) -> SyncSuperStream:
        """Several streams under one name."""
        return SyncSuperStream(self, name)

    def get(self, queue: str, *, count: int = 1, requeue: bool = False) -> list[GotMessage]:
        """Take up to `count` messages, or look at them and put them back (they are then marked redelivered)."""
        return self.call(lambda node: node.get(queue, count=count, requeue=requeue))

    def browse(self, queue: str, *, skip: int = 0, limit: int = 1, stream_offset: Any = None) -> list[GotMessage]:
        """Look at ready messages; nothing changes by it."""
        return self.call(lambda node: node.browse(queue, skip=skip, limit=limit, stream_offset=stream_offset))


def _blocking(connects: Callable[P, Node]) -> Callable[P, SyncNode]:
    """The same for programs without an event loop: its options are declared in one place."""

    @wraps(connects)
    def connect_sync(*arguments: P.args, **options: P.kwargs) -> SyncNode:
        async def make() -> Node:
            return connects(*arguments, **options)

        return SyncNode(make)

    connect_sync.__name__ = connect_sync.__qualname__ = "connect_sync"
    connect_sync.__module__ = __name__
    connect_sync.__doc__ = "A node to be entered with `with`. The arguments are those of `leveret.connect`."
    return connect_sync


connect_sync = _blocking(connect)


class SyncTopology:
    """What is declared in the vhost of the connection. `node.topology`."""

    def __init__(self, node: SyncNode) -> None:
        self._node = node

    def declare_queue(
        self,
        name: str = "",
        *,
        kind: str = "",
        passive: bool = False,
        durable: bool = True,
        auto_delete: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> DeclaredQueue:
        return self._node.call(
            lambda node: node.topology.declare_queue(
                name, kind=kind, passive=passive, durable=durable, auto_delete=auto_delete, arguments=arguments
            )
        )

    def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        return self._node.call(lambda node: node.topology.delete_queue(name, if_unused=if_unused, if_empty=if_empty))

    def purge_queue(self, name: str) -> int:
        return self._node.call(lambda node: node.topology.purge_queue(name))

    def queues(self, *, all_vhosts: bool = False) -> list[Queue]:
        return self._node.call(lambda node: node.topology.queues(all_vhosts=all_vhosts))

    def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        passive: bool = False,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Mapping[str, Any] | None = None,
    ) -> None:
        self._node.call(
            lambda node: node.topology.declare_exchange(
                name,
                kind,
                passive=passive,
                durable=durable,
                auto_delete=auto_delete,
                internal=internal,
                arguments=arguments,
            )
        )

    def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        self._node.call(lambda node: node.topology.delete_exchange(name, if_unused=if_unused))

    def exchanges(self, *, all_vhosts: bool = False) -> list[Exchange]:
        return self._node.call(lambda node: node.topology.exchanges(all_vhosts=all_vhosts))

    def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        self._node.call(lambda node: node.topology.bind_queue(queue, exchange, routing_key, arguments=arguments))

    def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", *, arguments: Mapping[str, Any] | None = None
    ) -> None:
        self._node.call(lambda node: node.topology.unbind_queue(queue, exchange, routing_key, arguments=arguments))

    def bindings(self, *, queue: str = "", source: str = "", all_vhosts: bool = False) -> list[Binding]:
        return self._node.call(lambda node: node.topology.bindings(queue=queue, source=source, all_vhosts=all_vhosts))


class SyncPublisher:
    """One stream of publishes. Many threads may share it; what they publish at the same time travels together."""

    def __init__(self, node: SyncNode, publisher: Publisher) -> None:
        self._node = node
        self._publisher = publisher

    def publish(
        self,
        message: Message | bytes,
        *,
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = True,
        timeout_s: float | None = None,
    ) -> None:
        """Publish, and return when it is confirmed. Raises as the asynchronous one, and TimedOut after `timeout_s`."""
        self.publish_many(
            (message,), exchange=exchange, routing_key=routing_key, mandatory=mandatory, timeout_s=timeout_s
        )

    def publish_many(
        self,
        messages: Iterable[Message | bytes],
        *,
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = True,
        timeout_s: float | None = None,
    ) -> None:
        """Publish in this order, and return when all are confirmed. `indexes` of the error says which ones are not."""
        publishing = self._publisher.publish_many(
            messages, exchange=exchange, routing_key=routing_key, mandatory=mandatory
        )
        self._node.run(publishing, timeout_s)

    @property
    def blocked_reason(self) -> str | None:
        """Why the node reads nothing from publishers now, or None."""
        return self._publisher.blocked_reason

    def flush(self) -> None:
        """Wait until nothing is unconfirmed."""
        self._node.run(self._publisher.flush())

    def close(self) -> None:
        """Wait for what is unconfirmed, then end the stream."""
        self._node.run(self._publisher.close())

    def __enter__(self) -> SyncPublisher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._node.run(self._publisher.close() if error is None else self._publisher.abandon())


class SyncDelivery:
    """A message that a subscription received. Settle it once, unless the subscription is no_ack."""

    def __init__(self, node: SyncNode, delivery: Delivery) -> None:
        self._node = node
        self._delivery = delivery

    @property
    def body(self) -> bytes:
        return self._delivery.body

    @property
    def message(self) -> Message:
        """Body and properties, as published."""
        return self._delivery.message

    @property
    def headers(self) -> dict[str, Any]:
        return self._delivery.headers

    @property
    def exchange(self) -> str:
        return self._delivery.exchange

    @property
    def routing_key(self) -> str:
        return self._delivery.routing_key

    @property
    def redelivered(self) -> bool:
        return self._delivery.redelivered

    def ack(self) -> None:
        """Done with it. Raises ConnectionLost when the connection that brought it is gone: it will be delivered again."""
        self._node.run(self._delivery.ack())

    def requeue(self) -> None:
        """Back to its old place, to be delivered again."""
        self._node.run(self._delivery.requeue())

    def reject(self) -> None:
        """To the queue's dead-letter exchange, or away."""
        self._node.run(self._delivery.reject())

    def __repr__(self) -> str:
        return repr(self._delivery)


class SyncConsumer:
    """One subscription, as an iterator."""

    def __init__(self, node: SyncNode, consumer: Consumer) -> None:
        self._node = node
        self._consumer = consumer

    def __iter__(self) -> Iterator[SyncDelivery]:
        return self

    def __next__(self) -> SyncDelivery:
        found = self._next(None)
        if found is None:
            raise StopIteration
        return found

    def receive(self, timeout_s: float | None = None) -> SyncDelivery:
        """The next message. Raises TimedOut when none came within `timeout_s`, and ConnectionLost after `close`."""
        found = self._next(timeout_s)
        if found is None:
            raise ConnectionLost("the subscription is closed")
        return found

    def _next(self, timeout_s: float | None) -> SyncDelivery | None:
        async def next_one() -> Delivery | None:
            return await anext(self._consumer, None)

        delivery = self._node.run(next_one(), timeout_s)
        return None if delivery is None else SyncDelivery(self._node, delivery)

    def close(self) -> None:
        """Send the settlements that wait, then end the subscription."""
        self._node.run(self._consumer.close())

    def __enter__(self) -> SyncConsumer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
