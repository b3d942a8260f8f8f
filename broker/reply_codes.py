"""AMQP's reply codes: which of our errors has which, and how a text begins.

For those who say an error to a client in AMQP's words (front/amqp/replies.py), and for links, which hear one in the same
words from this broker as from another. Texts begin with the code's name, as RabbitMQ's do, for client libraries show them
and their tests compare them: "NOT_FOUND - no queue 'orders' in vhost '/'".
"""

from __future__ import annotations

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

_CODES: dict[type[BrokerError], int] = {
    AccessRefused: 403,
    NotFound: 404,
    ResourceLocked: 405,
    PreconditionFailed: 406,
    ConnectionForced: 320,
    CommandInvalid: COMMAND_INVALID,
    ResourceExhausted: RESOURCE_ERROR,
    NotAllowed: NOT_ALLOWED,
    NotSupported: 540,
    InternalError: 541,
}

_TEXT_BYTES_MAX = 255
_CUT = "..."


def code_of(error: BrokerError) -> int:
    return next(_CODES[kind] for kind in type(error).__mro__ if kind in _CODES)


def reply_text(code: int, text: str) -> str:
    """`text` under its code's name, cut to what a short string holds."""
    name = NAMES[code]
    whole = text if text.startswith(name) else f"{name} - {text}" if text else name
    raw = whole.encode("utf-8", "surrogateescape")
    if len(raw) <= _TEXT_BYTES_MAX:
        return whole
    return raw[: _TEXT_BYTES_MAX - len(_CUT)].decode("utf-8", "ignore") + _CUT
