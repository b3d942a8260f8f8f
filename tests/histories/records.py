"""The records of a history, in the order in which clients wrote them down.

A *publisher* is one channel: whoever connects anew is another publisher. It counts its messages up from 1 and never sends a
number twice, so (publisher, number) is one message for ever. A message that was attempted and neither confirmed nor refused has
an unknown fate: it may be anywhere it was sent to, or nowhere.

A delivery has a number of its own. What a client does with it (acknowledge, requeue, reject) refers to that. Such a word may be
lost with its connection; `Settled` says that it certainly was not: the queue has shown that it took note of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

Message: TypeAlias = tuple[str, int]  # publisher, number


@dataclass(frozen=True, slots=True)
class Attempted:
    """Handed to the connection. `at`, here and below: seconds on one clock, when the client did or heard it."""

    at: float
    publisher: str
    number: int
    priority: int = 0
    expires_s: float | None = None  # the message's own TTL
    persistent: bool = True


@dataclass(frozen=True, slots=True)
class Confirmed:
    at: float
    publisher: str
    number: int


@dataclass(frozen=True, slots=True)
class Refused:
    """Told by a nack or a closed channel. It is `certain` when the broker promises that nothing of it was stored."""

    at: float
    publisher: str
    number: int
    certain: bool = False


@dataclass(frozen=True, slots=True)
class Delivered:
    at: float
    delivery: int  # no two deliveries of a history have the same
    queue: str
    consumer: str
    publisher: str
    number: int
    redelivered: bool = False
    failures: int = 0  # x-delivery-count: what the delivery limit bounds
    acquired: int = 0
    """How often the queue had handed it out before (x-acquired-count). It orders the deliveries of one message: one with a
    lower count was decided earlier, even when a slow connection brings it later. Classic queues do not say it: always 0."""
    deaths: tuple[tuple[str, str], ...] = ()  # of x-death: (queue, reason)


@dataclass(frozen=True, slots=True)
class Acknowledged:
    at: float
    delivery: int


@dataclass(frozen=True, slots=True)
class Requeued:
    """`is_failure`: it counts for the delivery limit (basic.reject does, basic.nack does not)."""

    at: float
    delivery: int
    is_failure: bool = True


@dataclass(frozen=True, slots=True)
class Rejected:
    """Not to be requeued: to be dead-lettered, or dropped where nobody wants dead letters."""

    at: float
    delivery: int


@dataclass(frozen=True, slots=True)
class Settled:
    """What the client said of this delivery was surely committed before this moment."""

    at: float
    delivery: int


@dataclass(frozen=True, slots=True)
class Left:
    """A consumer went, or its connection did: up to `window` messages may have been on their way to it, and go back as new."""

    at: float
    queue: str
    consumer: str
    window: int


@dataclass(frozen=True, slots=True)
class WentBack:
    """The queue took this message back from a consumer that cannot have seen it. Only who looks inside can tell."""

    at: float
    queue: str
    publisher: str
    number: int


@dataclass(frozen=True, slots=True)
class Drained:
    """The end: clients took all that came, until nothing did. `left` is what the queue says it has, on the node `where`."""

    at: float
    queue: str
    where: str
    left: int


Record: TypeAlias = (
    Attempted
    | Confirmed
    | Refused
    | Delivered
    | Acknowledged
    | Requeued
    | Rejected
    | Settled
    | Left
    | WentBack
    | Drained
)
History: TypeAlias = list[Record]
