"""A subscription as an async iterator.

    async with node.consume("orders", prefetch=100) as deliveries:
        async for delivery in deliveries:
            ...
            await delivery.ack()

`prefetch` bounds what is delivered and not settled. Settlements that are made while one write is under way go out together,
as ranges. When the subscription ends, for whatever reason, unsettled messages go back to their queue.

With `reconnect=True` the subscription is made again when the connection breaks, with growing and jittered pauses. Messages of
the old connection that were not settled come again, and settling them raises ConnectionLost.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping
from types import TracebackType
from typing import Any

import grpc.aio

from leveret.errors import RETRYABLE, ConnectionLost, InvalidRequest, LeveretError, SubscriptionEnded, from_rpc
from leveret.message import Delivery
from leveret.requests import NodeRequests
from leveret.retry import Backoff
from leveret.v1 import consume_pb2, message_pb2
from leveret.values import to_table

# Received and not taken by the application yet, beyond which nothing more is read from the connection.
ARRIVED_MAX = 4096
# Settlements not written yet, beyond which settling waits.
SETTLED_MAX = 4096


class Consumer:
    """One subscription. Made by `Node.consume()`; it begins with the first iteration, or on entering it."""

    def __init__(
        self,
        node: NodeRequests,
        queue: str,
        *,
        prefetch: int = 100,
        no_ack: bool = False,
        exclusive: bool = False,
        consumer_tag: str = "",
        arguments: Mapping[str, Any] | None = None,
        name: str = "",
        reconnect: bool = False,
    ) -> None:
        if not 0 <= prefetch <= 65_535:
            raise ValueError(f"prefetch is between 0 (no limit) and 65535, not {prefetch}")
        self._node = node
        self._name = name
        self._reconnect = reconnect
        self._no_ack = no_ack
        self.consumer_tag = consumer_tag  # chosen by the node when empty
        self._wanted = consume_pb2.Subscribe(
            queue=queue,
            consumer_tag=consumer_tag,
            no_ack=no_ack,
            prefetch=prefetch,
            exclusive=exclusive,
            arguments=to_table(arguments),
        )
        self._epoch = 0  # grows with each connection
        self._arrived: deque[Delivery] = deque()
        self._arrival = asyncio.Event()  # something arrived, or the end
        self._room = asyncio.Event()
        self._to_write: deque[consume_pb2.ConsumeRequest] = deque()
        self._settled: dict[int, list[int]] = {}  # outcome -> tags
        self._settled_count = 0
        self._wake = asyncio.Event()
        self._written = asyncio.Event()
        self._subscribed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._end: LeveretError | None = None
        self._closing = False

    # ------------------------------------------------------------------ for applications

    def __aiter__(self) -> Consumer:
        return self

    async def __anext__(self) -> Delivery:
        self._ensure_running()
        while not self._arrived:
            if self._end is not None:
                raise self._end
            if self._closing:
                raise StopAsyncIteration
            self._arrival.clear()
            await self._arrival.wait()
        delivery = self._arrived.popleft()
        if len(self._arrived) < ARRIVED_MAX:
            self._room.set()
        return delivery

    async def start(self) -> Consumer:
        """Return when the node has accepted the subscription. Raises what it refused it with."""
        self._ensure_running()
        await asyncio.shield(self._subscribed)
        return self

    async def set_prefetch(self, prefetch: int) -> None:
        """A new window, from now on."""
        self._wanted.prefetch = prefetch
        self._to_write.append(
            consume_pb2.ConsumeRequest(credit=consume_pb2.Credit(consumer_tag=self.consumer_tag, prefetch=prefetch))
        )
        self._wake.set()

    async def settle(self, epoch: int, tag: int, outcome: consume_pb2.Outcome) -> None:
        """What `Delivery.ack`, `requeue` and `reject` do."""
        if self._no_ack:
            raise InvalidRequest("a no_ack subscription has nothing to settle: its messages were settled on delivery")
        if epoch != self._epoch or self._end is not None or self._closing:
            raise ConnectionLost(f"the connection that brought delivery {tag} is gone; it will be delivered again")
        self._settled.setdefault(outcome, []).append(tag)
        self._settled_count += 1
        self._wake.set()
        while self._settled_count >= SETTLED_MAX and epoch == self._epoch and self._end is None:
            self._written.clear()
            await self._written.wait()

    async def close(self) -> None:
        """Send the settlements that wait, then end the subscription."""
        self._closing = True
        self._wake.set()
        self._arrival.set()
        self._room.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def abandon(self) -> None:
        """End without sending what waits."""
        self._closing = True
        self._arrival.set()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def __aenter__(self) -> Consumer:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------ the stream

    def _ensure_running(self) -> None:
        if self._task is None and not self._closing:
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._stream(backoff)
            except LeveretError as error:
                self._connection_gone()
                if not (self._reconnect and isinstance(error, RETRYABLE)) and not self._closing:
                    self._finish(error)
                    return
            if self._closing:
                return
            await asyncio.sleep(backoff.next_delay_s())

    def _finish(self, error: LeveretError) -> None:
        self._end = error
        if not self._subscribed.done():
            self._subscribed.set_exception(error)
            self._subscribed.exception()  # iterating raises it too, so nobody has to ask here
        self._arrival.set()
        self._written.set()

    def _connection_gone(self) -> None:
        self._epoch += 1
        self._arrived.clear()
        self._to_write.clear()
        self._settled.clear()
        self._settled_count = 0
        self._written.set()

    async def _stream(self, backoff: Backoff) -> None:
        """One connection's worth; returns when it was closed as asked."""
        stubs = await self._node.stubs()
        target = self._node.target
        call = stubs.consumer.Consume(metadata=self._node.metadata)
        writer: asyncio.Task[None] | None = None
        try:
            await call.write(consume_pb2.ConsumeRequest(open=self._node.open_request(self._name)))
            await call.write(consume_pb2.ConsumeRequest(subscribe=self._wanted))
            writer = asyncio.get_running_loop().create_task(self._write_all(call))
            while (response := await call.read()) is not grpc.aio.EOF:
                await self._handle(response, backoff)
            if not self._closing:
                raise await self._node.error_of(call, target)
        except grpc.aio.AioRpcError as error:
            raise self._node.noted(from_rpc(error, target), target) from error
        except asyncio.InvalidStateError:
            raise await self._node.error_of(call, target) from None
        finally:
            call.cancel()
            if writer is not None:
                writer.cancel()
                await asyncio.gather(writer, return_exceptions=True)

    async def _handle(self, response: consume_pb2.ConsumeResponse, backoff: Backoff) -> None:
        match response.WhichOneof("kind"):
            case "deliveries":
                batch = response.deliveries
                for tag, message in enumerate(batch.messages, batch.first_tag):
                    self._arrived.append(Delivery(self, self._epoch, tag, batch, message))
                self._arrival.set()
                while len(self._arrived) >= ARRIVED_MAX and not self._closing:
                    self._room.clear()
                    await self._room.wait()
            case "subscribed":
                self.consumer_tag = response.subscribed.consumer_tag
                backoff.reset()
                if not self._subscribed.done():
                    self._subscribed.set_result(None)
            case "cancelled":
                if response.cancelled.by_node:
                    raise SubscriptionEnded(
                        f"the node ended the subscription '{response.cancelled.consumer_tag}' to "
                        f"'{self._wanted.queue}': the queue is gone, or no longer serves it"
                    )

    async def _write_all(self, call: Any) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                for request in self._take_requests():
                    await call.write(request)
                self._written.set()
                if self._closing and not self._settled:
                    await call.done_writing()
                    return
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the reading side learns why the stream ended, and acts

    def _take_requests(self) -> list[consume_pb2.ConsumeRequest]:
        requests = list(self._to_write)
        requests += [
            consume_pb2.ConsumeRequest(
                settle=consume_pb2.Settle(tags=ranges(tags), outcome=outcome)  # type: ignore[arg-type]
            )
            for outcome, tags in self._settled.items()
        ]
        self._to_write.clear()
        self._settled = {}
        self._settled_count = 0
        return requests


def ranges(numbers: list[int]) -> list[message_pb2.Range]:
    """Distinct numbers as ranges, ascending."""
    found: list[message_pb2.Range] = []
    for number in sorted(numbers):
        if found and found[-1].last + 1 == number:
            found[-1].last = number
        else:
            found.append(message_pb2.Range(first=number, last=number))
    return found
