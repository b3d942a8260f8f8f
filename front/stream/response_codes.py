"""What a request of the stream protocol is answered that was refused: the one table from our errors to its codes."""

from __future__ import annotations

from typing import Any

from broker.errors import (
    AccessRefused,
    BrokerError,
    ConnectionForced,
    NotAllowed,
    NotFound,
    NotSupported,
    PreconditionFailed,
    ResourceExhausted,
    ResourceLocked,
)
from wire.stream.command_fields import NO_BROKER, LocatedStream
from wire.stream.command_frames import key_of
from wire.stream.command_keys import ResponseCode
from wire.stream.stream_commands import (
    Command,
    MetadataRequest,
    MetadataResponse,
    PartitionsRequest,
    PublisherSequenceRequest,
    PublisherSequenceResponse,
    QueryOffsetRequest,
    QueryOffsetResponse,
    ResolveOffsetRequest,
    ResolveOffsetResponse,
    RouteRequest,
    StandardResponse,
    StreamsResponse,
    StreamStatsRequest,
    StreamStatsResponse,
)

_CODES: dict[type[BrokerError], ResponseCode] = {
    AccessRefused: ResponseCode.ACCESS_REFUSED,
    NotFound: ResponseCode.NO_SUCH_STREAM,
    ResourceLocked: ResponseCode.ACCESS_REFUSED,
    PreconditionFailed: ResponseCode.PRECONDITION_FAILED,
    NotAllowed: ResponseCode.PRECONDITION_FAILED,
    NotSupported: ResponseCode.PRECONDITION_FAILED,
    ResourceExhausted: ResponseCode.STREAM_NOT_AVAILABLE,
    ConnectionForced: ResponseCode.OK,  # in Close: nothing was wrong
}

# Requests whose answer has a name of its own. What is missing behind the code has its default: clients read it.
_ANSWERS: dict[type[Any], type[Any]] = {
    PublisherSequenceRequest: PublisherSequenceResponse,
    QueryOffsetRequest: QueryOffsetResponse,
    ResolveOffsetRequest: ResolveOffsetResponse,
    StreamStatsRequest: StreamStatsResponse,
}


class RequestRefused(BrokerError):
    """Raised when the protocol itself has a code for what is wrong."""

    def __init__(self, code: ResponseCode, text: str) -> None:
        super().__init__(text)
        self.code = code


def code_of(error: BrokerError) -> ResponseCode:
    if isinstance(error, RequestRefused):
        return error.code
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), ResponseCode.INTERNAL_ERROR)


def refusal_of(request: Any, code: ResponseCode) -> Command:
    """The answer to a request that has a correlation id."""
    answer = _ANSWERS.get(type(request))
    if answer is not None:
        refusal: Command = answer(request.correlation, code)
        return refusal
    if isinstance(request, MetadataRequest):
        missing = [LocatedStream(name, code, NO_BROKER, ()) for name in request.streams]
        return MetadataResponse(request.correlation, (), tuple(missing))
    if isinstance(request, (RouteRequest, PartitionsRequest)):
        return StreamsResponse(key_of(request), request.correlation, code)
    return StandardResponse(key_of(request), request.correlation, code)
