"""Requests of the stream protocol that leave nothing behind on the connection: streams, super streams, offsets, figures.

One small function each: it takes the request apart, asks the session, and says what the answer is. What must not be asked is
RequestRefused; what the session refuses travels as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from broker.errors import BrokerError
from broker.pending import Pending
from broker.stream_clients.client_terms import StreamAddress, StreamLocation
from front.stream.response_codes import RequestRefused, code_of
from front.stream.session_port import StreamClientSession
from front.stream.stream_terms import PARTITIONS_MAX, REFERENCE_BYTES_MAX
from front.stream.subscriptions import read_options
from front.whole_number import whole_number
from wire.stream.command_fields import NO_BROKER, LocatedStream, OffsetSpec, StreamBroker
from wire.stream.command_frames import key_of
from wire.stream.command_keys import OffsetKind, ResponseCode
from wire.stream.stream_commands import (
    Command,
    CreateStreamRequest,
    CreateSuperStreamRequest,
    DeleteStreamRequest,
    DeleteSuperStreamRequest,
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
    StoreOffsetCommand,
    StreamsResponse,
    StreamStatsRequest,
    StreamStatsResponse,
)

# ----------------------------------------------------------------------------- streams

_NUMBERS = ("max-length-bytes", "stream-max-segment-size-bytes", "initial-cluster-size", "stream-filter-size-bytes")
_TEXTS = ("max-age", "queue-leader-locator")
_DIGITS_MAX = 19


def _create(session: StreamClientSession, request: CreateStreamRequest, now: int) -> Pending[Command]:
    asked = session.create_stream(_name(request.stream), _arguments(request.arguments), now)
    return asked.map(lambda created: _created(request, created))


def _delete(session: StreamClientSession, request: DeleteStreamRequest, now: int) -> Pending[Command]:
    return session.delete_stream(request.stream, now).map(lambda _: _done(request))


def _create_super_stream(session: StreamClientSession, request: CreateSuperStreamRequest, now: int) -> Pending[Command]:
    partitions, keys = tuple(_name(one) for one in request.partitions), request.binding_keys
    if not 0 < len(partitions) <= PARTITIONS_MAX or len(keys) != len(partitions):
        raise _unacceptable(f"{len(partitions)} partitions with {len(keys)} keys, at most {PARTITIONS_MAX}")
    if len(set(partitions)) != len(partitions) or len(set(keys)) != len(keys):
        raise _unacceptable("a partition or a key comes twice")
    asked = session.create_super_stream(_name(request.name), partitions, keys, _arguments(request.arguments), now)
    return asked.map(lambda created: _created(request, created))


def _delete_super_stream(session: StreamClientSession, request: DeleteSuperStreamRequest, now: int) -> Pending[Command]:
    return session.delete_super_stream(request.name, now).map(lambda _: _done(request))


def _name(name: str) -> str:
    """Without line breaks, as RabbitMQ takes it."""
    name = name.replace("\r", "").replace("\n", "")
    if not name or name.startswith("amq."):
        raise _unacceptable(f"a stream cannot be called '{name}'")
    return name


def _arguments(given: dict[str, str]) -> dict[str, Any]:
    """As queue.declare has them; what is not known is left out."""
    found: dict[str, Any] = {f"x-{name}": _number(name, given[name]) for name in _NUMBERS if name in given}
    return found | {f"x-{name}": given[name] for name in _TEXTS if name in given}


def _number(name: str, text: str) -> int:
    found = whole_number(text, _DIGITS_MAX)
    if found is None:
        raise _unacceptable(f"{name} is '{text}', and should be a number")
    return found


def _unacceptable(why: str) -> RequestRefused:
    return RequestRefused(ResponseCode.PRECONDITION_FAILED, why)


# ----------------------------------------------------------------------------- where streams are


def _metadata(session: StreamClientSession, request: MetadataRequest, now: int) -> Pending[Command]:
    names = tuple(dict.fromkeys(request.streams))
    return session.locate(names, now).map(lambda found: _located(request, names, found))


def _located(
    request: MetadataRequest, names: tuple[str, ...], found: list[StreamLocation | BrokerError]
) -> MetadataResponse:
    """Nodes are named once, and referred to by their places."""
    places: dict[StreamAddress, int] = {}
    streams = []
    for name, one in zip(names, found, strict=True):
        if isinstance(one, BrokerError):
            streams.append(LocatedStream(name, code_of(one), NO_BROKER, ()))
            continue
        leader = NO_BROKER if one.leader is None else places.setdefault(one.leader, len(places))
        replicas = tuple([places.setdefault(address, len(places)) for address in one.replicas])
        streams.append(LocatedStream(name, ResponseCode.OK, leader, replicas))
    brokers = tuple(StreamBroker(place, host, port) for (host, port), place in places.items())
    return MetadataResponse(request.correlation, brokers, tuple(streams))


def _route(session: StreamClientSession, request: RouteRequest, now: int) -> Pending[Command]:
    return session.route(request.routing_key, request.super_stream, now).map(lambda found: _streams(request, found))


def _partitions(session: StreamClientSession, request: PartitionsRequest, now: int) -> Pending[Command]:
    return session.partitions(request.super_stream, now).map(lambda found: _streams(request, found))


def _streams(request: RouteRequest | PartitionsRequest, found: tuple[str, ...]) -> Command:
    return StreamsResponse(key_of(request), request.correlation, ResponseCode.OK, found)


def _stream_stats(session: StreamClientSession, request: StreamStatsRequest, now: int) -> Pending[Command]:
    asked = session.figures(request.stream, now)
    return asked.map(lambda figures: StreamStatsResponse(request.correlation, ResponseCode.OK, figures))


# ----------------------------------------------------------------------------- offsets and sequences


def store_offset(session: StreamClientSession, command: StoreOffsetCommand, now: int) -> None:
    """It has no answer, so nobody is told of an error."""
    if len(command.reference.encode()) <= REFERENCE_BYTES_MAX:
        with suppress(BrokerError):
            session.store_offset(command.reference, command.stream, command.offset, now)


def _query_offset(session: StreamClientSession, request: QueryOffsetRequest, now: int) -> Pending[Command]:
    def answer(offset: int | None) -> Command:
        if offset is None:
            raise RequestRefused(ResponseCode.NO_OFFSET, f"'{request.reference}' has stored no offset")
        return QueryOffsetResponse(request.correlation, ResponseCode.OK, offset)

    return session.query_offset(request.reference, request.stream, now).map(answer)


def _resolve_offset(session: StreamClientSession, request: ResolveOffsetRequest, now: int) -> Pending[Command]:
    asked = session.resolve_offset(request.stream, request.offset, read_options(request.properties), now)
    return asked.map(
        lambda offset: ResolveOffsetResponse(
            request.correlation, ResponseCode.OK, OffsetSpec(OffsetKind.OFFSET, offset)
        )
    )


def _publisher_sequence(session: StreamClientSession, request: PublisherSequenceRequest, now: int) -> Pending[Command]:
    asked = session.publisher_sequence(request.reference, request.stream, now)
    return asked.map(lambda sequence: PublisherSequenceResponse(request.correlation, ResponseCode.OK, sequence))


# ----------------------------------------------------------------------------- all of them


def _done(request: Any) -> Command:
    return StandardResponse(key_of(request), request.correlation, ResponseCode.OK)


def _created(request: Any, created: bool) -> Command:
    if not created:
        raise RequestRefused(ResponseCode.STREAM_EXISTS, "it exists already")
    return _done(request)


REQUESTS: dict[type[Any], Callable[[StreamClientSession, Any, int], Pending[Command]]] = {
    CreateStreamRequest: _create,
    DeleteStreamRequest: _delete,
    MetadataRequest: _metadata,
    RouteRequest: _route,
    PartitionsRequest: _partitions,
    StreamStatsRequest: _stream_stats,
    CreateSuperStreamRequest: _create_super_stream,
    DeleteSuperStreamRequest: _delete_super_stream,
    QueryOffsetRequest: _query_offset,
    ResolveOffsetRequest: _resolve_offset,
    PublisherSequenceRequest: _publisher_sequence,
}
