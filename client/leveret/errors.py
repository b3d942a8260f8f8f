"""What can go wrong, by what you can do about it.

LeveretError
 ├─ ConnectionLost       the node cannot be reached, or a stream to it broke: try again, or another node
 ├─ TimedOut             no answer within the time you gave; what was asked may still happen
 ├─ Unauthenticated      the node does not accept these credentials
 ├─ RequestRefused       the node understood and said no; asking again gives the same answer
 │   ├─ AccessRefused        the user lacks a permission or a tag
 │   ├─ NotFound             no such vhost, exchange, queue or consumer
 │   │   └─ QueueAway            there is such a queue, and the node cannot reach it now: later, or elsewhere
 │   ├─ ResourceLocked       it belongs to another connection alone
 │   ├─ PreconditionFailed   it exists, but not as asked; or a message is too large
 │   ├─ NotAllowed           a limit, or something this connection may never do
 │   ├─ NotSupported         not a feature of this node, or of this kind of queue
 │   └─ InvalidRequest       a value that means nothing
 ├─ ResourceExhausted    a limit of the node is reached: later, or elsewhere
 ├─ NodeFailed           a bug in the node; its log knows more
 ├─ NotConfirmed         messages that were published and not taken
 │   ├─ PublishRefused       a queue, or the node, would not take them
 │   │   └─ MessageTooLarge      larger than the node takes; it was not sent
 │   └─ Unroutable           mandatory, and no queue is bound for them
 └─ SubscriptionEnded    the node ended it: the queue was deleted, for one
"""

from __future__ import annotations

from collections.abc import Sequence

import grpc
import grpc.aio

ERROR_TRAILER = "leveret-error"


class LeveretError(Exception):
    """Base of everything that this package raises on purpose."""


class ConnectionLost(LeveretError):
    """The node cannot be reached, or the connection broke. What was under way may or may not have happened."""


class TimedOut(LeveretError):
    """No answer in time. What was asked may still happen."""


class Unauthenticated(LeveretError):
    """The node does not accept user and password."""


class RequestRefused(LeveretError):
    """The node said no, and would say it again."""


class AccessRefused(RequestRefused):
    """The user lacks a permission or a tag, or the name is reserved."""


class NotFound(RequestRefused):
    """There is no such vhost, exchange, queue or consumer."""


class QueueAway(NotFound):
    """The queue is declared, and its home node cannot be reached, or the node that was asked is just opening it."""


class ResourceLocked(RequestRefused):
    """It belongs to another connection alone."""


class PreconditionFailed(RequestRefused):
    """It exists with other properties, or the request contradicts what was agreed."""


class NotAllowed(RequestRefused):
    """Never possible for this connection: a limit, or a vhost it may not enter."""


class NotSupported(RequestRefused):
    """The node, or this kind of queue, has no such feature."""


class InvalidRequest(RequestRefused):
    """A value in the request means nothing."""


class ResourceExhausted(LeveretError):
    """A limit of the node is reached, or a message was larger than it takes."""


class NodeFailed(LeveretError):
    """The node has a bug; its log knows more."""


class NotConfirmed(LeveretError):
    """Published, and not taken. `indexes` says which of the messages given to one call."""

    def __init__(self, text: str, indexes: Sequence[int] = ()) -> None:
        super().__init__(text)
        self.indexes = tuple(indexes)


class PublishRefused(NotConfirmed):
    """A queue would not take the messages, or the node refused them. `error` is the node's name for the reason, if any."""

    def __init__(self, text: str, indexes: Sequence[int] = (), error: str = "") -> None:
        super().__init__(text, indexes)
        self.error = error


class MessageTooLarge(PublishRefused):
    """Larger than the node takes. It was not sent, for that would have ended the stream, and with it what others publish."""


class Unroutable(NotConfirmed):
    """No queue is bound for the messages, and they were published as mandatory, as they are unless you say otherwise."""


class SubscriptionEnded(LeveretError):
    """The node ended the subscription."""


# By the name in the trailer, which says more than the status.
_BY_NAME: dict[str, type[LeveretError]] = {
    kind.__name__: kind
    for kind in (
        AccessRefused,
        InvalidRequest,
        NotAllowed,
        NotFound,
        NotSupported,
        PreconditionFailed,
        QueueAway,
        ResourceExhausted,
        ResourceLocked,
        Unauthenticated,
    )
} | {
    "CommandInvalid": InvalidRequest,
    "ConnectionForced": ConnectionLost,
    "InternalError": NodeFailed,
    "MalformedTable": InvalidRequest,
}

_BY_STATUS: dict[grpc.StatusCode, type[LeveretError]] = {
    grpc.StatusCode.UNAVAILABLE: ConnectionLost,
    grpc.StatusCode.CANCELLED: ConnectionLost,
    grpc.StatusCode.DEADLINE_EXCEEDED: TimedOut,
    grpc.StatusCode.UNAUTHENTICATED: Unauthenticated,
    grpc.StatusCode.PERMISSION_DENIED: AccessRefused,
    grpc.StatusCode.NOT_FOUND: NotFound,
    grpc.StatusCode.FAILED_PRECONDITION: PreconditionFailed,
    grpc.StatusCode.INVALID_ARGUMENT: InvalidRequest,
    grpc.StatusCode.UNIMPLEMENTED: NotSupported,
    grpc.StatusCode.RESOURCE_EXHAUSTED: ResourceExhausted,
}

# What grpcio says instead of the node's reason when a stream ends while it writes to it.
_BROKE_WHILE_WRITING = "Internal error from Core"

# What grpcio says of a call that found no connection, and so was not sent: it may be made again at another node.
_NO_CONNECTION = "failed to connect to all addresses"

# After these a stream that is opened again has a chance.
RETRYABLE = (ConnectionLost, TimedOut)


def never_sent(error: grpc.aio.AioRpcError) -> bool:
    """Whether the call certainly did not get to the node."""
    return error.code() is grpc.StatusCode.UNAVAILABLE and (error.details() or "").startswith(_NO_CONNECTION)


def from_rpc(error: grpc.aio.AioRpcError, target: str) -> LeveretError:
    """The error of this package that a failed call stands for."""
    trailers = dict(error.trailing_metadata() or ())
    name = trailers.get(ERROR_TRAILER)
    kind = _BY_NAME.get(name) if isinstance(name, str) else None
    if kind is None and (error.details() or "").startswith(_BROKE_WHILE_WRITING):
        kind = ConnectionLost
    if kind is None:
        kind = _BY_STATUS.get(error.code(), NodeFailed)
    text = error.details() or error.code().name
    if kind is ConnectionLost and name is None:
        text = f"no connection to {target}: {text}"
    if kind is TimedOut:
        text = f"no answer from {target} in time"
    return kind(text)
