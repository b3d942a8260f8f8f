"""The numbers of the stream protocol, each in one place.

Which version of a command may come is in VERSIONS, in the order in which servers list them: one client takes the entry of a
key by its place. What only servers send is in the list of a client.
"""

from __future__ import annotations

from enum import IntEnum

RESPONSE_BIT = 0x8000  # of the key of an answer


class CommandKey(IntEnum):
    """What a frame is."""

    DECLARE_PUBLISHER = 1
    PUBLISH = 2
    PUBLISH_CONFIRM = 3
    PUBLISH_ERROR = 4
    QUERY_PUBLISHER_SEQUENCE = 5
    DELETE_PUBLISHER = 6
    SUBSCRIBE = 7
    DELIVER = 8
    CREDIT = 9
    STORE_OFFSET = 10
    QUERY_OFFSET = 11
    UNSUBSCRIBE = 12
    CREATE = 13
    DELETE = 14
    METADATA = 15
    METADATA_UPDATE = 16
    PEER_PROPERTIES = 17
    SASL_HANDSHAKE = 18
    SASL_AUTHENTICATE = 19
    TUNE = 20
    OPEN = 21
    CLOSE = 22
    HEARTBEAT = 23
    ROUTE = 24
    PARTITIONS = 25
    CONSUMER_UPDATE = 26
    EXCHANGE_COMMAND_VERSIONS = 27
    STREAM_STATS = 28
    CREATE_SUPER_STREAM = 29
    DELETE_SUPER_STREAM = 30
    RESOLVE_OFFSET_SPEC = 31


class ResponseCode(IntEnum):
    """How a request ended."""

    OK = 1
    NO_SUCH_STREAM = 2
    SUBSCRIPTION_ID_EXISTS = 3
    NO_SUCH_SUBSCRIPTION = 4
    STREAM_EXISTS = 5
    STREAM_NOT_AVAILABLE = 6
    SASL_MECHANISM_UNSUPPORTED = 7
    AUTHENTICATION_FAILED = 8
    SASL_ERROR = 9
    SASL_CHALLENGE = 10
    LOOPBACK_REFUSED = 11
    VHOST_REFUSED = 12
    UNKNOWN_FRAME = 13
    FRAME_TOO_LARGE = 14
    INTERNAL_ERROR = 15
    ACCESS_REFUSED = 16
    PRECONDITION_FAILED = 17
    NO_SUCH_PUBLISHER = 18
    NO_OFFSET = 19
    CANNOT_CHANGE_MECHANISM = 20
    CANNOT_CHANGE_USER = 21


class OffsetKind(IntEnum):
    """Where a reader begins."""

    NONE = 0  # where its subscription said; only in the answer to ConsumerUpdate
    FIRST = 1
    LAST = 2
    NEXT = 3
    OFFSET = 4
    TIMESTAMP = 5


# What a server takes: key -> (lowest, highest version).
VERSIONS: dict[CommandKey, tuple[int, int]] = {
    CommandKey.DECLARE_PUBLISHER: (1, 1),
    CommandKey.PUBLISH: (1, 2),
    CommandKey.QUERY_PUBLISHER_SEQUENCE: (1, 1),
    CommandKey.DELETE_PUBLISHER: (1, 1),
    CommandKey.SUBSCRIBE: (1, 1),
    CommandKey.CREDIT: (1, 1),
    CommandKey.STORE_OFFSET: (1, 1),
    CommandKey.QUERY_OFFSET: (1, 1),
    CommandKey.UNSUBSCRIBE: (1, 1),
    CommandKey.CREATE: (1, 1),
    CommandKey.DELETE: (1, 1),
    CommandKey.METADATA: (1, 1),
    CommandKey.CLOSE: (1, 1),
    CommandKey.HEARTBEAT: (1, 1),
    CommandKey.ROUTE: (1, 1),
    CommandKey.PARTITIONS: (1, 1),
    CommandKey.STREAM_STATS: (1, 1),
    CommandKey.CREATE_SUPER_STREAM: (1, 1),
    CommandKey.DELETE_SUPER_STREAM: (1, 1),
    CommandKey.RESOLVE_OFFSET_SPEC: (1, 1),
}

# What a client takes that a server sends unasked.
CLIENT_VERSIONS: dict[CommandKey, tuple[int, int]] = {
    CommandKey.PUBLISH_CONFIRM: (1, 1),
    CommandKey.PUBLISH_ERROR: (1, 1),
    CommandKey.DELIVER: (1, 2),
    CommandKey.METADATA_UPDATE: (1, 1),
    CommandKey.CONSUMER_UPDATE: (1, 1),
}
