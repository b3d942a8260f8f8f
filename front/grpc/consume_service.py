"""Consuming streams: subscriptions, windows and settlements in; one batch of deliveries for each slice of a queue out.

Deliveries wait in a bounded outbox. Above its high mark the sink says that it is not writable, the queues turn to others,
and `resume` wakes them when the client has read down to the low mark.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import grpc.aio

from broker.errors import InvalidRequest, NotFound
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from front.grpc import convert
from front.grpc.call import Context, Front, answers_errors
from front.grpc.stream import Stream
from leveret.v1 import consume_pb2, consume_pb2_grpc

if TYPE_CHECKING:
    from broker.messages.browsed import Browsed
    from broker.pending import Pending
    from broker.session.session import GotMessage, Session

# Bytes of deliveries that wait for the transport.
OUTBOX_BYTES_HIGH = 4_194_304
OUTBOX_BYTES_LOW = 1_048_576

# A response is kept below this, unless one message alone is larger: clients refuse more than 4 MiB unless told otherwise.
BATCH_BYTES_MAX = 1_048_576

PREFETCH_MAX = 65_535
GET_COUNT_MAX = 1_000
GET_BYTES_MAX = 4_194_304


class ConsumeService(consume_pb2_grpc.ConsumerServicer):
    """leveret.v1.Consumer."""

    def __init__(self, front: Front) -> None:
        self.front = front

    @answers_errors
    async def Consume(self, requests: object, context: Context) -> None:
        await ConsumeStream(self.front, context).serve()

    @answers_errors
    async def Get(self, request: consume_pb2.GetRequest, context: Context) -> consume_pb2.GetResponse:
        count = request.count or 1
        if count > GET_COUNT_MAX:
            raise InvalidRequest(f"a get takes at most {GET_COUNT_MAX} messages, not {count}")
        response = consume_pb2.GetResponse()
        with self.front.brief_session(request.vhost) as session:
            body_bytes = 0
            while len(response.messages) < count and body_bytes < GET_BYTES_MAX:
                # What is to be put back stays out until the session closes, so that each message comes once.
                found = await self.front.answer(session.get(request.queue, not request.requeue, self.front.now))
                if found is None:
                    response.remaining = 0
                    break
                response.messages.append(_got(found))
                response.remaining = found.remaining
                body_bytes += len(response.messages[-1].message.body)
        return response

    @answers_errors
    async def Browse(self, request: consume_pb2.BrowseRequest, context: Context) -> consume_pb2.BrowseResponse:
        with self.front.brief_session(request.vhost) as session:
            found = await self.front.answer(_browse(session, request, self.front.now))
        return consume_pb2.BrowseResponse(messages=map(_browsed, found))


def _browse(session: Session, request: consume_pb2.BrowseRequest, now: int) -> Pending[list[Browsed]]:
    limit = request.limit or 1
    if not request.HasField("stream_offset"):
        return session.looks.browse(request.queue, request.skip, limit, now)
    if request.skip:
        raise InvalidRequest("give either stream_offset, where to begin, or skip")
    return session.looks.browse_from(request.queue, convert.plain_value(request.stream_offset), limit, now)


def _browsed(found: Browsed) -> consume_pb2.GotMessage:
    (message,) = convert.messages(found.content, 0, 1)
    counts = {"x-acquired-count": found.acquired_count, "x-delivery-count": found.delivery_count}
    headers = {name: count for name, count in counts.items() if count}
    if found.offset is not None:
        headers["x-stream-offset"] = found.offset
    return consume_pb2.GotMessage(
        message=message,
        exchange=convert.text(found.exchange),
        routing_key=convert.text(found.routing_key),
        redelivered=found.redelivered,
        queue_headers=convert.table(headers),
    )


def _got(found: GotMessage) -> consume_pb2.GotMessage:
    piece = found.piece
    (message,) = convert.messages(found.content, piece.position, 1)
    return consume_pb2.GotMessage(
        message=message,
        exchange=convert.text(piece.exchange),
        routing_key=convert.text(piece.routing_key),
        redelivered=piece.redelivered,
        queue_headers=convert.table(_queue_headers(piece)),
    )


def _queue_headers(piece: Slice) -> dict[str, Any]:
    """Of a slice with one message."""
    offset = {} if piece.offset is None else {"x-stream-offset": piece.offset}
    return (piece.headers or {}) | offset


class ConsumeStream(Stream):
    """One stream with any number of subscriptions."""

    def __init__(self, front: Front, context: Context) -> None:
        super().__init__(front, context)
        self._outbox: deque[tuple[int, consume_pb2.ConsumeResponse]] = deque()
        self._outbox_bytes = 0
        self._full = False

    def opened_response(self) -> consume_pb2.ConsumeResponse:
        return consume_pb2.ConsumeResponse(opened=self.opened_message())

    # ------------------------------------------------------------------ requests

    async def read_requests(self) -> None:
        while True:
            request = await self.read()
            if request is grpc.aio.EOF:
                return
            self._handle(request)
            self.front.broker.end_turn()

    def _handle(self, request: consume_pb2.ConsumeRequest) -> None:
        match request.WhichOneof("kind"):
            case "settle":
                self._settle(request.settle)
            case "subscribe":
                self._subscribe(request.subscribe)
            case "credit":
                self._credit(request.credit)
            case "unsubscribe":
                self._unsubscribe(request.unsubscribe)
            case kind:
                raise InvalidRequest(
                    f"after `open` a consumer sends subscribe, unsubscribe, credit or settle, not `{kind}`"
                )

    def _subscribe(self, wanted: consume_pb2.Subscribe) -> None:
        self.session.set_prefetch(_window(wanted.prefetch), False)
        self.session.consume(
            wanted.queue,
            wanted.consumer_tag,
            no_ack=wanted.no_ack,
            exclusive=wanted.exclusive,
            no_local=False,
            arguments=convert.plain_table(wanted.arguments),
            now=self.front.now,
        ).then(lambda tag: self._subscribed(tag, wanted.queue), self.fail)

    def _subscribed(self, tag: str, queue: str) -> None:
        self._put(consume_pb2.ConsumeResponse(subscribed=consume_pb2.Subscribed(consumer_tag=tag, queue=queue)))

    def _unsubscribe(self, wanted: consume_pb2.Unsubscribe) -> None:
        self.session.cancel(wanted.consumer_tag, self.front.now).then(
            lambda _: self._put_cancelled(wanted.consumer_tag, by_node=False), self.fail
        )

    def _credit(self, wanted: consume_pb2.Credit) -> None:
        consumer = next((item for item in self.session.consumers() if item.tag == wanted.consumer_tag), None)
        if consumer is None:
            raise NotFound(f"no subscription '{wanted.consumer_tag}' on this stream")
        consumer.prefetch = _window(wanted.prefetch)
        self.session.resume(self.front.now)

    def _settle(self, settled: consume_pb2.Settle) -> None:
        for tags in settled.tags:
            if not 0 < tags.first <= tags.last:
                raise InvalidRequest(f"a range of tags from {tags.first} to {tags.last}")
            match settled.outcome:
                case consume_pb2.OUTCOME_ACCEPTED:
                    self.session.acknowledge(tags.first, tags.last, False, self.front.now)
                case consume_pb2.OUTCOME_REQUEUED | consume_pb2.OUTCOME_REJECTED as outcome:
                    requeue = outcome == consume_pb2.OUTCOME_REQUEUED
                    for tag in range(tags.first, tags.last + 1):
                        self.session.reject(tag, requeue, self.front.now)
                case other:
                    raise InvalidRequest(f"outcome {other} is none of accepted, requeued, rejected")

    # ------------------------------------------------------------------ the session's sink

    @property
    def writable(self) -> bool:
        return not self._full

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        batch, size, cut = _empty_batch(consumer, first_tag, piece), 0, 0
        for message in convert.messages(content, piece.position, piece.count):
            bytes_here = message.ByteSize()
            if batch.messages and size + bytes_here > BATCH_BYTES_MAX:
                self._put(consume_pb2.ConsumeResponse(deliveries=batch), size)
                cut += len(batch.messages)
                batch, size = _empty_batch(consumer, first_tag + cut, piece, cut), 0
            batch.messages.append(message)
            size += bytes_here
        self._put(consume_pb2.ConsumeResponse(deliveries=batch), size)

    def cancelled(self, consumer_tag: str) -> None:
        self._put_cancelled(consumer_tag, by_node=True)

    def timed_out(self, consumer_tag: str) -> None:
        self.cancelled(consumer_tag)

    # ------------------------------------------------------------------ responses

    def _put_cancelled(self, consumer_tag: str, by_node: bool) -> None:
        cancelled = consume_pb2.Cancelled(consumer_tag=consumer_tag, by_node=by_node)
        self._put(consume_pb2.ConsumeResponse(cancelled=cancelled))

    def _put(self, response: consume_pb2.ConsumeResponse, size: int = 0) -> None:
        self._outbox.append((size, response))
        self._outbox_bytes += size
        if self._outbox_bytes >= OUTBOX_BYTES_HIGH:
            self._full = True
        self.wake_writer()

    def owes_nothing(self) -> bool:
        return not self._outbox

    async def write_responses(self) -> None:
        while self._outbox:
            size, response = self._outbox.popleft()
            await self.write(response)
            self._outbox_bytes -= size
            if self._full and self._outbox_bytes <= OUTBOX_BYTES_LOW:
                self._full = False
                self.session.resume(self.front.now)
                self.front.broker.end_turn()

    def statistics(self) -> dict[str, Any]:
        return {**super().statistics(), "pending_out_bytes": self._outbox_bytes}


def _empty_batch(consumer: Consumer, first_tag: int, piece: Slice, cut: int = 0) -> consume_pb2.DeliveryBatch:
    """`cut`: messages of the slice that went out in batches before."""
    return consume_pb2.DeliveryBatch(
        consumer_tag=convert.text(consumer.tag),
        first_tag=first_tag,
        exchange=convert.text(piece.exchange),
        routing_key=convert.text(piece.routing_key),
        redelivered=piece.redelivered,
        queue_headers=convert.table(piece.headers) if piece.headers else None,
        first_offset=None if piece.offset is None else piece.offset + cut,
    )


def _window(prefetch: int) -> int:
    if prefetch > PREFETCH_MAX:
        raise InvalidRequest(f"prefetch is at most {PREFETCH_MAX}, not {prefetch}; 0 is no limit")
    return prefetch
