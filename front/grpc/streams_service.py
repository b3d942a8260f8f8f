"""Offsets that are kept in streams, and super streams: through the door that clients of the stream protocol have."""

from __future__ import annotations

from broker.errors import BrokerError, InvalidRequest, PreconditionFailed
from broker.messages.stored_bytes import Sendable
from front.grpc import convert
from front.grpc.call import Context, Front, answers_errors
from leveret.v1 import streams_pb2 as pb
from leveret.v1 import streams_pb2_grpc

OFFSET_MAX = (1 << 63) - 1
REFERENCE_BYTES_MAX = 255
PARTITIONS_MAX = 1_000  # of a super stream, as clients of the stream protocol may create


class StreamsService(streams_pb2_grpc.StreamsServicer):
    """leveret.v1.Streams."""

    def __init__(self, front: Front) -> None:
        self.front = front

    @answers_errors
    async def StoreOffset(self, request: pb.StoreOffsetRequest, context: Context) -> pb.StoreOffsetResponse:
        """The stream answers no store, but a question for the offset sees those that came before it."""
        reference = _checked(request.reference)
        if request.offset > OFFSET_MAX:
            raise InvalidRequest(f"an offset is at most {OFFSET_MAX}, not {request.offset}")
        with self.front.brief_stream_client(request.vhost, SilentStreamSink()) as client:
            now = self.front.now
            client.store_offset(reference, request.stream, request.offset, now)
            await self.front.answer(client.query_offset(reference, request.stream, now))
        return pb.StoreOffsetResponse()

    @answers_errors
    async def GetStoredOffset(self, request: pb.GetStoredOffsetRequest, context: Context) -> pb.GetStoredOffsetResponse:
        reference = _checked(request.reference)
        with self.front.brief_stream_client(request.vhost, SilentStreamSink()) as client:
            found = await self.front.answer(client.query_offset(reference, request.stream, self.front.now))
        return pb.GetStoredOffsetResponse(offset=found)

    @answers_errors
    async def GetLastNumber(self, request: pb.GetLastNumberRequest, context: Context) -> pb.GetLastNumberResponse:
        publisher = _checked(request.publisher)
        with self.front.brief_stream_client(request.vhost, SilentStreamSink()) as client:
            found = await self.front.answer(client.publisher_sequence(publisher, request.stream, self.front.now))
        return pb.GetLastNumberResponse(number=found)

    @answers_errors
    async def CreateSuperStream(
        self, request: pb.CreateSuperStreamRequest, context: Context
    ) -> pb.CreateSuperStreamResponse:
        keys = _keys(request)
        partitions = tuple(f"{request.name}-{key}" for key in keys)
        with self.front.brief_stream_client(request.vhost, SilentStreamSink()) as client:
            arguments = convert.plain_table(request.arguments)
            asked = client.create_super_stream(request.name, partitions, keys, arguments, self.front.now)
            if not await self.front.answer(asked):
                raise PreconditionFailed(f"super stream '{request.name}', or one of its partitions, is there already")
        return pb.CreateSuperStreamResponse(partitions=partitions)

    @answers_errors
    async def DeleteSuperStream(
        self, request: pb.DeleteSuperStreamRequest, context: Context
    ) -> pb.DeleteSuperStreamResponse:
        with self.front.brief_stream_client(request.vhost, SilentStreamSink()) as client:
            await self.front.answer(client.delete_super_stream(request.name, self.front.now))
        return pb.DeleteSuperStreamResponse()

    @answers_errors
    async def ListPartitions(self, request: pb.ListPartitionsRequest, context: Context) -> pb.ListPartitionsResponse:
        with self.front.brief_stream_client(request.vhost, SilentStreamSink()) as client:
            found = await self.front.answer(client.partitions(request.name, self.front.now))
        return pb.ListPartitionsResponse(partitions=map(convert.text, found))


class SilentStreamSink:
    """The sink of a client that neither publishes nor reads."""

    @property
    def writable(self) -> bool:
        return False

    def deliver(self, subscription: int, last_chunk: int, chunk: Sendable) -> None:
        raise AssertionError(f"a chunk for subscription {subscription} of a call that reads nothing")

    def confirm(self, publisher: int, ids: bytes) -> None:
        raise AssertionError(f"confirms for publisher {publisher} of a call that published nothing")

    def refuse_publish(self, publisher: int, ids: bytes, error: BrokerError) -> None:
        raise AssertionError(f"refusals for publisher {publisher} of a call that published nothing")

    def stream_unavailable(self, stream: str) -> None:
        """Whoever waits for an answer is told by that."""

    def activate(self, subscription: int, active: bool) -> None:
        raise AssertionError(f"subscription {subscription} of a call that reads nothing is activated")


def _checked(reference: str) -> str:
    size = len(reference.encode())
    if not 0 < size <= REFERENCE_BYTES_MAX:
        raise InvalidRequest(f"a reference has 1 to {REFERENCE_BYTES_MAX} bytes, not {size}")
    return reference


def _keys(request: pb.CreateSuperStreamRequest) -> tuple[str, ...]:
    keys = tuple(request.binding_keys)
    if bool(keys) == bool(request.partitions):
        raise InvalidRequest("give either a number of partitions or binding keys, one for each")
    count = request.partitions or len(keys)
    if count > PARTITIONS_MAX:
        raise InvalidRequest(f"a super stream has at most {PARTITIONS_MAX} partitions, not {count}")
    if not request.name:
        raise InvalidRequest("a super stream needs a name")
    if len(set(keys)) != len(keys):
        raise InvalidRequest("a binding key comes twice: each names another partition")
    return keys or tuple(map(str, range(count)))
