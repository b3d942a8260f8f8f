"""What can be wrong with a request, said in the broker's words.

The type says what the client can do about it; broker/reply_codes.py has its reply code of AMQP and front/grpc/convert.py
its status, each in one table. The text is for a person: what was wrong, with which value.

    BrokerError
     ├─ AccessRefused        the user may not do this, or nobody may (names starting with amq.)
     ├─ NotFound             there is no such vhost, exchange, queue or consumer
     │   └─ QueueAway            there is such a queue, and this node cannot reach it now
     ├─ ResourceLocked       it is somebody else's alone (exclusive queues)
     ├─ PreconditionFailed   it exists, but not as asked; or the request contradicts what was agreed
     │   ├─ InvalidRequest   a field is missing or has a value that means nothing
     │   └─ MalformedTable   arguments, headers or properties that AMQP cannot carry, or that nobody can read
     ├─ NotAllowed           never possible for this connection (limits, consumer tag in use, unknown vhost at open)
     ├─ NotSupported         a feature that Leveret, or this kind of queue, does not have
     ├─ CommandInvalid       a request that makes no sense in this state
     ├─ ResourceExhausted    a limit of the node is reached, or the disk failed: try elsewhere or later
     ├─ ConnectionForced     the operator, or the node's shutdown, ends this connection
     └─ InternalError        ours: a bug, reported with what is known
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from wire.amqp.tables import TableError

P = ParamSpec("P")
R = TypeVar("R")

# Texts name values that clients chose. gRPC sends a text percent-encoded in trailers, of which clients take 8 KiB.
TEXT_BYTES_MAX = 2_048


class BrokerError(Exception):
    """A request was refused; `text` tells a person why."""

    def __init__(self, text: str) -> None:
        self.text = bounded(text)
        super().__init__(self.text)


def bounded(text: str) -> str:
    """The text, or its beginning with how long it is, whatever a client had it name."""
    if len(text) <= TEXT_BYTES_MAX // 4:  # no character has more than four bytes
        return text
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= TEXT_BYTES_MAX:
        return text
    return raw[: TEXT_BYTES_MAX - 40].decode("utf-8", "ignore") + f"... ({len(raw)} bytes)"


class AccessRefused(BrokerError):
    """Returned when the user lacks a permission, or the name is reserved."""


class NotFound(BrokerError):
    """Returned when the vhost, exchange, queue or consumer named does not exist."""


class QueueAway(NotFound):
    """Returned when the queue is declared, and its home node cannot be reached, or this node is just opening it."""


class ResourceLocked(BrokerError):
    """Returned when the resource belongs to another connection alone."""


class PreconditionFailed(BrokerError):
    """Returned when something exists with other properties, or a tag or argument is not acceptable."""


class InvalidRequest(PreconditionFailed):
    """Returned when a field is missing or means nothing, or a request contradicts the protocol of its stream."""


class MalformedTable(PreconditionFailed):
    """Returned when a client's table or property list cannot be read, or holds a value that has no place in one."""


def refuses_malformed(function: Callable[P, R]) -> Callable[P, R]:
    """For functions that decode or encode what a client gave: TableError becomes MalformedTable."""

    @wraps(function)
    def refusing(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except TableError as error:
            raise MalformedTable(str(error)) from error

    return refusing


class NotAllowed(BrokerError):
    """Returned when this connection may never do this: a limit, a tag in use, a vhost that is not its own."""


class NotSupported(BrokerError):
    """Returned when the feature does not exist here, or not for this kind of queue."""


class CommandInvalid(BrokerError):
    """Returned when the request makes no sense in the state the connection is in."""


class ResourceExhausted(BrokerError):
    """Returned when the node cannot take this now: a limit, no majority, or a disk that failed."""


class ConnectionForced(BrokerError):
    """Sent when the operator or a shutdown ends the connection."""


class InternalError(BrokerError):
    """Sent when Leveret itself is at fault."""
