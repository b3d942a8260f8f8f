"""The commands of the stream protocol: each as a named tuple, and the table of what their frames hold.

A request has a correlation id that its response repeats; what has none is a command that nobody answers. Some answers have a
name of their own, all others are a StandardResponse. A response with an error may end behind its code: the fields that are
missing then have their defaults.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from wire.stream.command_fields import (
    FIELD_TYPES,
    LocatedStream,
    OffsetSpec,
    Reader,
    StreamBroker,
    VersionRange,
    Writer,
)
from wire.stream.command_keys import RESPONSE_BIT, CommandKey, OffsetKind

# ----------------------------------------------------------------------------- logging in, and the connection


class PeerPropertiesRequest(NamedTuple):
    """What a client says of itself."""

    correlation: int
    properties: dict[str, str]


class PeerPropertiesResponse(NamedTuple):
    """What the server says of itself."""

    correlation: int
    code: int
    properties: dict[str, str] = {}  # noqa: RUF012  (never changed)


class SaslHandshakeRequest(NamedTuple):
    """Asks for the mechanisms."""

    correlation: int


class SaslHandshakeResponse(NamedTuple):
    """How a client may log in."""

    correlation: int
    code: int
    mechanisms: tuple[str, ...] = ()


class SaslAuthenticateRequest(NamedTuple):
    """Logs in; on an open connection, gives a new secret."""

    correlation: int
    mechanism: str
    data: bytes


class SaslAuthenticateResponse(NamedTuple):
    """The challenge only with the code SASL_CHALLENGE."""

    correlation: int
    code: int
    challenge: bytes = b""


class Tune(NamedTuple):
    """What one side proposes, and the other side's answer. 0: no limit, no heartbeats."""

    frame_max: int
    heartbeat_s: int


class OpenRequest(NamedTuple):
    """Asks for a virtual host."""

    correlation: int
    vhost: str


class OpenResponse(NamedTuple):
    """The properties say where other clients find this node."""

    correlation: int
    code: int
    properties: dict[str, str] = {}  # noqa: RUF012  (never changed)


class CloseRequest(NamedTuple):
    """One side ends the connection; the other answers."""

    correlation: int
    code: int
    reason: str


class HeartbeatCommand(NamedTuple):
    """A sign of life."""


class ExchangeVersionsRequest(NamedTuple):
    """The versions of the commands that this side takes."""

    correlation: int
    versions: tuple[VersionRange, ...]


class ExchangeVersionsResponse(NamedTuple):
    """Those of the other side."""

    correlation: int
    code: int
    versions: tuple[VersionRange, ...] = ()


# ----------------------------------------------------------------------------- publishing


class DeclarePublisherRequest(NamedTuple):
    """With a reference, messages that come again are recognised; without one it is empty."""

    correlation: int
    publisher: int
    reference: str
    stream: str


class PublishFrame(NamedTuple):
    """Messages, as publish_frame.py takes them apart."""

    version: int
    publisher: int
    entry_count: int
    entries: bytes


class PublishConfirm(NamedTuple):
    """These are durable on a majority. `ids` are u64, one behind the other."""

    publisher: int
    ids: bytes


class PublishError(NamedTuple):
    """These were not taken: pairs of an id and a code."""

    publisher: int
    refusals: tuple[tuple[int, int], ...]


class PublisherSequenceRequest(NamedTuple):
    """Asks for the last publishing id of a reference."""

    correlation: int
    reference: str
    stream: str


class PublisherSequenceResponse(NamedTuple):
    """0 for a reference that has published nothing."""

    correlation: int
    code: int
    sequence: int = 0


class DeletePublisherRequest(NamedTuple):
    """Its number may be declared again."""

    correlation: int
    publisher: int


# ----------------------------------------------------------------------------- reading


class SubscribeRequest(NamedTuple):
    """Begins to read; one credit is one chunk."""

    correlation: int
    subscription: int
    stream: str
    offset: OffsetSpec
    credit: int
    properties: dict[str, str] = {}  # noqa: RUF012  (never changed)


class DeliverFrame(NamedTuple):
    """One chunk. Version 2 says how far the stream is committed, version 1 has None there."""

    version: int
    subscription: int
    committed_chunk: int | None
    chunk: bytes


class CreditCommand(NamedTuple):
    """So many chunks more."""

    subscription: int
    credit: int


class CreditError(NamedTuple):
    """Sent only when credit was in vain."""

    code: int
    subscription: int


class UnsubscribeRequest(NamedTuple):
    """Ends reading."""

    correlation: int
    subscription: int


class StoreOffsetCommand(NamedTuple):
    """Keeps an offset in the stream, under a name."""

    reference: str
    stream: str
    offset: int


class QueryOffsetRequest(NamedTuple):
    """Asks for what was stored."""

    correlation: int
    reference: str
    stream: str


class QueryOffsetResponse(NamedTuple):
    """0 with an error."""

    correlation: int
    code: int
    offset: int = 0


class ResolveOffsetRequest(NamedTuple):
    """Asks at which offset a reader would begin."""

    correlation: int
    stream: str
    offset: OffsetSpec
    properties: dict[str, str] = {}  # noqa: RUF012  (never changed)


class ResolveOffsetResponse(NamedTuple):
    """0 with an error."""

    correlation: int
    code: int
    offset: OffsetSpec = OffsetSpec(OffsetKind.OFFSET)


class ConsumerUpdateRequest(NamedTuple):
    """The server tells a consumer of a group whether it is the active one."""

    correlation: int
    subscription: int
    active: int


class ConsumerUpdateResponse(NamedTuple):
    """Where the client wants to begin."""

    correlation: int
    code: int
    offset: OffsetSpec = OffsetSpec(OffsetKind.NONE)


# ----------------------------------------------------------------------------- streams


class CreateStreamRequest(NamedTuple):
    """Declares a stream."""

    correlation: int
    stream: str
    arguments: dict[str, str]


class DeleteStreamRequest(NamedTuple):
    """And all that is in it."""

    correlation: int
    stream: str


class CreateSuperStreamRequest(NamedTuple):
    """Declares a super stream: an exchange, its partitions and their keys."""

    correlation: int
    name: str
    partitions: tuple[str, ...]
    binding_keys: tuple[str, ...]
    arguments: dict[str, str]


class DeleteSuperStreamRequest(NamedTuple):
    """And its partitions."""

    correlation: int
    name: str


class MetadataRequest(NamedTuple):
    """Asks where streams are."""

    correlation: int
    streams: tuple[str, ...]


class MetadataResponse(NamedTuple):
    """It has no code of its own, but one for each stream."""

    correlation: int
    brokers: tuple[StreamBroker, ...]
    streams: tuple[LocatedStream, ...]


class MetadataUpdate(NamedTuple):
    """A stream is gone, or has moved: its publishers and subscriptions on this connection have ended."""

    code: int
    stream: str


class RouteRequest(NamedTuple):
    """Asks for the partitions of a routing key."""

    correlation: int
    routing_key: str
    super_stream: str


class PartitionsRequest(NamedTuple):
    """Asks for all partitions, in their order."""

    correlation: int
    super_stream: str


class StreamsResponse(NamedTuple):
    """To RouteRequest and PartitionsRequest; `key` says to which."""

    key: int
    correlation: int
    code: int
    streams: tuple[str, ...] = ()


class StreamStatsRequest(NamedTuple):
    """Asks for the figures of a stream."""

    correlation: int
    stream: str


class StreamStatsResponse(NamedTuple):
    """Figures by name; -1 for one that an empty stream does not have."""

    correlation: int
    code: int
    figures: dict[str, int] = {}  # noqa: RUF012  (never changed)


class StandardResponse(NamedTuple):
    """To any request whose answer has no name of its own; `key` says to which."""

    key: int
    correlation: int
    code: int


# ----------------------------------------------------------------------------- the table

Command = (
    PeerPropertiesRequest | PeerPropertiesResponse | SaslHandshakeRequest | SaslHandshakeResponse
    | SaslAuthenticateRequest | SaslAuthenticateResponse | Tune | OpenRequest | OpenResponse | CloseRequest
    | HeartbeatCommand | ExchangeVersionsRequest | ExchangeVersionsResponse | DeclarePublisherRequest | PublishFrame
    | PublishConfirm | PublishError | PublisherSequenceRequest | PublisherSequenceResponse | DeletePublisherRequest
    | SubscribeRequest | DeliverFrame | CreditCommand | CreditError | UnsubscribeRequest | StoreOffsetCommand
    | QueryOffsetRequest | QueryOffsetResponse | ResolveOffsetRequest | ResolveOffsetResponse | ConsumerUpdateRequest
    | ConsumerUpdateResponse | CreateStreamRequest | DeleteStreamRequest | CreateSuperStreamRequest
    | DeleteSuperStreamRequest | MetadataRequest | MetadataResponse | MetadataUpdate | RouteRequest | PartitionsRequest
    | StreamsResponse | StreamStatsRequest | StreamStatsResponse | StandardResponse
)  # fmt: skip

_REQUESTS = """
DeclarePublisherRequest   DECLARE_PUBLISHER          u32 u8 string string
PublishFrame              PUBLISH                    version u8 u32 rest
PublishConfirm            PUBLISH_CONFIRM            u8 ids
PublishError              PUBLISH_ERROR              u8 refusals
PublisherSequenceRequest  QUERY_PUBLISHER_SEQUENCE   u32 string string
DeletePublisherRequest    DELETE_PUBLISHER           u32 u8
SubscribeRequest          SUBSCRIBE                  u32 u8 string offset u16 map?
DeliverFrame              DELIVER                    version u8 none rest
CreditCommand             CREDIT                     u8 i16
StoreOffsetCommand        STORE_OFFSET               string string u64
QueryOffsetRequest        QUERY_OFFSET               u32 string string
UnsubscribeRequest        UNSUBSCRIBE                u32 u8
CreateStreamRequest       CREATE                     u32 string map
DeleteStreamRequest       DELETE                     u32 string
MetadataRequest           METADATA                   u32 strings
MetadataUpdate            METADATA_UPDATE            u16 string
PeerPropertiesRequest     PEER_PROPERTIES            u32 map
SaslHandshakeRequest      SASL_HANDSHAKE             u32
SaslAuthenticateRequest   SASL_AUTHENTICATE          u32 string bytes
Tune                      TUNE                       u32 u32
OpenRequest               OPEN                       u32 string
CloseRequest              CLOSE                      u32 u16 string
HeartbeatCommand          HEARTBEAT
RouteRequest              ROUTE                      u32 string string
PartitionsRequest         PARTITIONS                 u32 string
ConsumerUpdateRequest     CONSUMER_UPDATE            u32 u8 u8
ExchangeVersionsRequest   EXCHANGE_COMMAND_VERSIONS  u32 versions
StreamStatsRequest        STREAM_STATS               u32 string
CreateSuperStreamRequest  CREATE_SUPER_STREAM        u32 string strings strings map
DeleteSuperStreamRequest  DELETE_SUPER_STREAM        u32 string
ResolveOffsetRequest      RESOLVE_OFFSET_SPEC        u32 string offset map?
"""

_SECOND_VERSIONS = """
PublishFrame              PUBLISH                    version u8 u32 rest
DeliverFrame              DELIVER                    version u8 u64 rest
"""

_RESPONSES = """
StandardResponse           DECLARE_PUBLISHER          key u32 u16
PublisherSequenceResponse  QUERY_PUBLISHER_SEQUENCE   u32 u16 u64
StandardResponse           DELETE_PUBLISHER           key u32 u16
StandardResponse           SUBSCRIBE                  key u32 u16
CreditError                CREDIT                     u16 u8
QueryOffsetResponse        QUERY_OFFSET               u32 u16 u64
StandardResponse           UNSUBSCRIBE                key u32 u16
StandardResponse           CREATE                     key u32 u16
StandardResponse           DELETE                     key u32 u16
MetadataResponse           METADATA                   u32 brokers located
PeerPropertiesResponse     PEER_PROPERTIES            u32 u16 map
SaslHandshakeResponse      SASL_HANDSHAKE             u32 u16 strings
SaslAuthenticateResponse   SASL_AUTHENTICATE          u32 u16 challenge
Tune                       TUNE                       u32 u32
OpenResponse               OPEN                       u32 u16 map?
StandardResponse           CLOSE                      key u32 u16
StreamsResponse            ROUTE                      key u32 u16 strings
StreamsResponse            PARTITIONS                 key u32 u16 strings
ConsumerUpdateResponse     CONSUMER_UPDATE            u32 u16 offset+
ExchangeVersionsResponse   EXCHANGE_COMMAND_VERSIONS  u32 u16 versions
StreamStatsResponse        STREAM_STATS               u32 u16 numbers
StandardResponse           CREATE_SUPER_STREAM        key u32 u16
StandardResponse           DELETE_SUPER_STREAM        key u32 u16
ResolveOffsetResponse      RESOLVE_OFFSET_SPEC        u32 u16 offset
"""


class CommandLayout:
    """One row of the table."""

    __slots__ = ("command", "fields", "key", "kinds", "version")

    def __init__(self, command: type[Any], key: int, version: int, kinds: list[str]) -> None:
        self.command = command
        self.key = key  # with the bit of a response
        self.version = version
        self.kinds = kinds
        self.fields: list[tuple[Reader, Writer]] = [FIELD_TYPES[kind] for kind in kinds]
        assert len(kinds) == len(command._fields), f"{command.__name__} and its layout differ"

    @property
    def code_index(self) -> int | None:
        """Which field says how the request ended."""
        names: tuple[str, ...] = self.command._fields
        return names.index("code") if self.key & RESPONSE_BIT and "correlation" in names and "code" in names else None


def _rows(table: str, version: int, bit: int) -> list[CommandLayout]:
    rows = [line.split() for line in table.strip().splitlines()]
    return [CommandLayout(globals()[name], CommandKey[key] | bit, version, kinds) for name, key, *kinds in rows]


ALL_LAYOUTS = (*_rows(_REQUESTS, 1, 0), *_rows(_SECOND_VERSIONS, 2, 0), *_rows(_RESPONSES, 1, RESPONSE_BIT))
