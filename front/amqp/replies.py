"""What is said to a client when something was wrong: the one table from our errors to AMQP reply codes.

A soft error closes the channel it happened on, a hard one the connection. Texts begin with the code's name, as RabbitMQ's
do, for client libraries show them and their tests compare them: "NOT_FOUND - no queue 'orders' in vhost '/'".
"""

from __future__ import annotations

from typing import NamedTuple

from broker.errors import (
    AccessRefused,
    BrokerError,
    CommandInvalid,
    ConnectionForced,
    InternalError,
    NotAllowed,
    NotFound,
    NotSupported,
    PreconditionFailed,
    ResourceExhausted,
    ResourceLocked,
)

FRAME_ERROR = 501
SYNTAX_ERROR = 502
COMMAND_INVALID = 503
CHANNEL_ERROR = 504
UNEXPECTED_FRAME = 505
RESOURCE_ERROR = 506
NOT_ALLOWED = 530
NO_ROUTE = 312

NAMES = {
    311: "CONTENT_TOO_LARGE",
    320: "CONNECTION_FORCED",
    403: "ACCESS_REFUSED",
    404: "NOT_FOUND",
    405: "RESOURCE_LOCKED",
    406: "PRECONDITION_FAILED",
    FRAME_ERROR: "FRAME_ERROR",
    SYNTAX_ERROR: "SYNTAX_ERROR",
    COMMAND_INVALID: "COMMAND_INVALID",
    CHANNEL_ERROR: "CHANNEL_ERROR",
    UNEXPECTED_FRAME: "UNEXPECTED_FRAME",
    RESOURCE_ERROR: "RESOURCE_ERROR",
    NOT_ALLOWED: "NOT_ALLOWED",
    540: "NOT_IMPLEMENTED",
    541: "INTERNAL_ERROR",
}

# Error class -> (reply code, whether it closes the connection)
_CODES: dict[type[BrokerError], tuple[int, bool]] = {
    AccessRefused: (403, False),
    NotFound: (404, False),
    ResourceLocked: (405, False),
    PreconditionFailed: (406, False),
    ConnectionForced: (320, True),
    CommandInvalid: (COMMAND_INVALID, True),
    ResourceExhausted: (RESOURCE_ERROR, True),
    NotAllowed: (NOT_ALLOWED, True),
    NotSupported: (540, True),
    InternalError: (541, True),
}

_TEXT_BYTES_MAX = 255
_CUT = "..."


class ProtocolError(Exception):
    """Raised when what a client sent breaks the protocol itself: always the end of its connection."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class Reply(NamedTuple):
    """What goes into channel.close or connection.close."""

    code: int
    text: str
    hard: bool  # True: the connection ends, not only the channel
    class_id: int = 0  # the method that failed; 0.0 when it was none
    method_id: int = 0


def reply_to(error: BrokerError | ProtocolError, class_id: int = 0, method_id: int = 0) -> Reply:
    if isinstance(error, ProtocolError):
        return Reply(error.code, reply_text(error.code, error.text), True, class_id, method_id)
    code, hard = next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)
    return Reply(code, reply_text(code, error.text), hard, class_id, method_id)


def reply_text(code: int, text: str) -> str:
    """`text` under its code's name, cut to what a short string holds."""
    name = NAMES[code]
    whole = text if text.startswith(name) else f"{name} - {text}" if text else name
    raw = whole.encode("utf-8", "surrogateescape")
    if len(raw) <= _TEXT_BYTES_MAX:
        return whole
    return raw[: _TEXT_BYTES_MAX - len(_CUT)].decode("utf-8", "ignore") + _CUT
