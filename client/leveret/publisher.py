"""Publishing with confirms that can be awaited.

Whatever waits while one write is under way goes out with the next one, as few batches; nothing waits for more to come.
A confirm says that every queue the message was routed to keeps its promise for it (for a persistent message in a classic
queue: it is on disk).

When the connection breaks, what was sent and not confirmed may or may not have been stored. By default each such publish
raises ConnectionLost, and you decide. With `resend=True` the publisher connects again, with growing and jittered pauses, and
sends them again in their order: at least once, so consumers may see duplicates.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from types import TracebackType
from typing import Any

import grpc.aio

from leveret.channels import MESSAGE_BYTES_MAX
from leveret.errors import (
    RETRYABLE,
    ConnectionLost,
    LeveretError,
    MessageTooLarge,
    NotConfirmed,
    PublishRefused,
    Unroutable,
    from_rpc,
)
from leveret.message import Message
from leveret.parcels import Parcel, Route, Sent, parts
from leveret.requests import NodeRequests
from leveret.retry import Backoff
from leveret.v1 import message_pb2, publish_pb2

BATCH_MESSAGES_MAX = 4096
BATCH_BYTES_MAX = 1_048_576
MAX_UNCONFIRMED = 16_384
# A node refuses properties of more than 128 KiB, counted as AMQP encodes them. Far larger ones would end the stream.
PROPERTIES_BYTES_MAX = 524_288
SLACK_BYTES = 1_048_576  # what a request may have beside the body of its message


class Publisher:
    """One stream of publishes. Made by `Node.publisher()`; many tasks may share it."""

    def __init__(
        self,
        node: NodeRequests,
        *,
        name: str = "",
        resend: bool = False,
        max_unconfirmed: int = MAX_UNCONFIRMED,
        reference: str = "",
        first_number: int = 1,
    ) -> None:
        """With a `reference` each message has a number, from `first_number` on, by which a stream knows it again."""
        if max_unconfirmed < 1:
            raise ValueError(f"max_unconfirmed is at least 1, not {max_unconfirmed}")
        self._node = node
        self._name = name
        self._resend = resend
        self._reference = reference
        self.next_number = first_number if reference else 0  # of the next message; 0: they have none
        self._max_unconfirmed = max_unconfirmed
        self._to_send: deque[Parcel] = deque()
        self._sent = Sent()
        self._unconfirmed = 0  # messages given and not answered
        self._room = asyncio.Event()
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task: asyncio.Task[None] | None = None
        self._closed = False
        self._message_bytes_max = MESSAGE_BYTES_MAX  # until the node says how much it takes
        self.answered = 0  # messages that were confirmed, refused or given up, since the publisher was made
        self.blocked_reason: str | None = None  # why the node reads nothing from publishers now, or None

    # ------------------------------------------------------------------ for applications

    async def publish(
        self, message: Message | bytes, *, exchange: str = "", routing_key: str = "", mandatory: bool = True
    ) -> None:
        """Publish, and return when it is confirmed.

        Raises PublishRefused, Unroutable (no queue is bound for it; with `mandatory=False` it is dropped instead) or
        ConnectionLost; the last may mean that it was stored.
        """
        await self.publish_many((message,), exchange=exchange, routing_key=routing_key, mandatory=mandatory)

    async def publish_many(
        self,
        messages: Iterable[Message | bytes],
        *,
        exchange: str = "",
        routing_key: str = "",
        mandatory: bool = True,
    ) -> None:
        """Publish in this order, and return when all are confirmed. Raises as `publish`; `indexes` says which ones."""
        route = (exchange, routing_key, mandatory, self._reference)
        waiting: list[asyncio.Future[list[NotConfirmed]]] = []
        problems: list[NotConfirmed] = []

        def too_large(index: int, message: message_pb2.Message) -> bool:
            problem = self._too_large(index, message)
            if problem is not None:
                problems.append(problem)
            return problem is not None

        for indexes, part in parts(messages, too_large):
            waiting.append(await self._hand_over(self._parcel(route, part, indexes)))
        for done in waiting:
            # Shielded: a caller that stops waiting takes nothing back, the messages are on their way.
            problems += await asyncio.shield(done)
        if problems:
            raise _combined(problems)

    async def flush(self) -> None:
        """Wait until nothing is unconfirmed."""
        await self._idle.wait()

    async def close(self) -> None:
        """Wait for what is unconfirmed, then end the stream."""
        if not self._closed:
            await self.flush()
        self._closed = True
        await self._stop()

    @property
    def unconfirmed(self) -> int:
        """Messages given to this publisher and not answered yet."""
        return self._unconfirmed

    async def __aenter__(self) -> Publisher:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            await self.close()
        else:
            await self.abandon()

    # ------------------------------------------------------------------ for the node

    async def open(self) -> None:
        """Return when the stream is open."""
        self._ensure_running()
        await asyncio.shield(self._opened)

    async def abandon(self) -> None:
        """End without waiting; what is unconfirmed is reported so."""
        self._closed = True
        await self._stop()
        self._fail_all(ConnectionLost("the publisher was closed; messages without a confirm may or may not be stored"))

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    # ------------------------------------------------------------------ parcels

    def _parcel(self, route: Route, messages: list[message_pb2.Message], indexes: list[int]) -> Parcel:
        parcel = Parcel(route, messages, indexes, self.next_number)
        if self._reference:
            self.next_number += len(messages)
        return parcel

    def _too_large(self, index: int, message: message_pb2.Message) -> MessageTooLarge | None:
        size, takes = len(message.body), self._message_bytes_max
        if size > takes:
            return MessageTooLarge(f"a message of {size} bytes, and the node takes at most {takes}", (index,))
        size = message.ByteSize() - size
        if size > PROPERTIES_BYTES_MAX:
            return MessageTooLarge(
                f"properties and headers of {size} bytes, and at most {PROPERTIES_BYTES_MAX} are taken", (index,)
            )
        return None

    async def _hand_over(self, parcel: Parcel) -> asyncio.Future[list[NotConfirmed]]:
        while self._unconfirmed >= self._max_unconfirmed and not self._closed:
            self._room.clear()
            await self._room.wait()
        if self._closed:
            raise ConnectionLost("the publisher is closed")
        self._unconfirmed += len(parcel.messages)
        self._idle.clear()
        self._to_send.append(parcel)
        self._wake.set()
        self._ensure_running()
        return parcel.done

    def _answer(self, first: int, last: int, text: str | None, error: str = "", *, returned: bool = False) -> None:
        for parcel, start, end in self._sent.find(first, last):
            problem: NotConfirmed | None = None
            if text is not None:
                indexes = parcel.indexes[start:end]
                problem = _unroutable(parcel.route, indexes) if returned else PublishRefused(text, indexes, error)
            if returned and problem is not None:
                parcel.problems.append(problem)  # its confirm follows
            else:
                self._answered(parcel.answer(start, end, problem))
        self._sent.forget_answered()

    def _answered(self, count: int) -> None:
        self._unconfirmed -= count
        self.answered += count
        assert self._unconfirmed >= 0, f"{-self._unconfirmed} more answers than messages"
        if self._unconfirmed < self._max_unconfirmed:
            self._room.set()
        if self._unconfirmed == 0:
            self._idle.set()

    def _fail_all(self, error: LeveretError) -> None:
        for parcel in [*self._sent.take(), *self._to_send]:
            if parcel.waiting:
                self._answered(parcel.waiting)
                parcel.waiting = 0
                parcel.fail(type(error)(*error.args))
        self._to_send.clear()
        self._room.set()
        self._idle.set()

    def _send_again(self) -> None:
        """What was sent and not answered goes before what was not sent, in its order."""
        again = {id(parcel): parcel for parcel in [*self._sent.take(), *self._to_send] if parcel.waiting}
        for parcel in again.values():
            parcel.drop_answered()
            parcel.begin_again()
        self._to_send = deque(again.values())

    # ------------------------------------------------------------------ the stream

    def _ensure_running(self) -> None:
        if self._task is None or self._task.done():
            if self._opened.done():
                self._opened = asyncio.get_running_loop().create_future()
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        backoff = Backoff()
        while True:
            try:
                await self._stream(backoff)
            except LeveretError as error:
                self.blocked_reason = None
                if not (self._resend and isinstance(error, RETRYABLE)):
                    self._give_up(error)
                    return
            self._send_again()
            await asyncio.sleep(backoff.next_delay_s())

    def _give_up(self, error: LeveretError) -> None:
        if isinstance(error, ConnectionLost):
            error = ConnectionLost(f"{error}; messages without a confirm may or may not be stored")
        if not self._opened.done():
            self._opened.set_exception(error)
            self._opened.exception()
        self._fail_all(error)

    async def _stream(self, backoff: Backoff) -> None:
        """One connection's worth. Raises the LeveretError that ended it."""
        stubs = await self._node.stubs()
        target = self._node.target
        call = stubs.publisher.Publish(metadata=self._node.metadata)
        writer: asyncio.Task[None] | None = None
        try:
            await call.write(publish_pb2.PublishRequest(open=self._node.open_request(self._name)))
            while (response := await call.read()) is not grpc.aio.EOF:
                if response.WhichOneof("kind") == "opened":
                    self._message_bytes_max = min(response.opened.message_bytes_max, MESSAGE_BYTES_MAX - SLACK_BYTES)
                    backoff.reset()
                    if not self._opened.done():
                        self._opened.set_result(None)
                    writer = asyncio.get_running_loop().create_task(self._write_all(call))
                else:
                    self._handle(response)
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

    def _handle(self, response: publish_pb2.PublishResponse) -> None:
        match response.WhichOneof("kind"):
            case "confirms":
                for accepted in response.confirms.accepted:
                    self._answer(accepted.first, accepted.last, None)
                for refused in response.confirms.refused:
                    text = refused.text or "a queue would not take the message"
                    self._answer(refused.first, refused.last, text, refused.error)
            case "returned":
                returned = response.returned
                self._answer(returned.first, returned.last, returned.text, returned=True)
            case "blocked":
                self.blocked_reason = response.blocked.reason or None

    async def _write_all(self, call: Any) -> None:
        try:
            while True:
                while (batch := self._next_batch()) is not None:
                    await call.write(publish_pb2.PublishRequest(batch=batch))
                self._wake.clear()
                await self._wake.wait()
        except (grpc.aio.AioRpcError, asyncio.InvalidStateError):
            pass  # the reading side learns why the stream ended, and acts

    def _next_batch(self) -> publish_pb2.PublishBatch | None:
        """As much as fits of what waits at the front for one exchange and key."""
        batch: publish_pb2.PublishBatch | None = None
        size = 0
        route: Route | None = None
        while self._to_send and (route is None or self._to_send[0].route == route):
            parcel = self._to_send[0]
            if parcel.first_sequence == 0:
                self._sent.add(parcel)
            if batch is None:
                route = parcel.route
                exchange, routing_key, mandatory, reference = route
                batch = publish_pb2.PublishBatch(
                    exchange=exchange,
                    routing_key=routing_key,
                    mandatory=mandatory,
                    first_sequence=parcel.first_sequence + parcel.sent,
                    publisher=reference,
                    first_number=parcel.numbers[parcel.sent],
                )
            while parcel.sent < len(parcel.messages):
                if reference and parcel.numbers[parcel.sent] != batch.first_number + len(batch.messages):
                    return batch
                message = parcel.messages[parcel.sent]
                size += message.ByteSize()
                if batch.messages and (size > BATCH_BYTES_MAX or len(batch.messages) >= BATCH_MESSAGES_MAX):
                    return batch
                batch.messages.append(message)
                parcel.sent += 1
            self._to_send.popleft()
        return batch


def _combined(problems: list[NotConfirmed]) -> NotConfirmed:
    """One error for all: the first one's kind and text, everybody's indexes."""
    first = problems[0]
    indexes = sorted(index for problem in problems for index in problem.indexes)
    text = str(first) if len(indexes) == 1 else f"{len(indexes)} messages were not taken; the first: {first}"
    if isinstance(first, PublishRefused):
        return type(first)(text, indexes, first.error)
    return Unroutable(text, indexes)


def _unroutable(route: Route, indexes: list[int]) -> Unroutable:
    exchange, routing_key, _, _ = route
    if not exchange:
        return Unroutable(f"there is no queue '{routing_key}'", indexes)
    return Unroutable(f"exchange '{exchange}' leads to no queue with routing key '{routing_key}'", indexes)
