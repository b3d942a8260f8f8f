"""What the machine asks of the member that runs it, in this order, after each call of `apply`.

Every member of the group gets the same effects. The docstring says which member performs it; the others drop it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from broker.queues.queue_type import DeathReason
from quorum.fifo.commands import ConsumerKey, Piece


class Deliver(NamedTuple):
    """Hand messages to a consumer. For the member on the consumer's node, or the leader if that node has none."""

    consumer: ConsumerKey
    first_id: int  # of the first message; the others follow without gaps
    piece: Piece
    delivery_count: int  # deliveries that failed before: x-delivery-count
    acquired_count: int  # times they were handed out before: x-acquired-count; redelivered if there were any


@dataclass(slots=True, frozen=True)
class TimedOut:
    """A consumer did not settle in time. What was overdue is ready again, and it gets nothing until it has settled that.
    For its node: cancel the subscription, if the client understands that."""

    consumer: ConsumerKey


@dataclass(slots=True, frozen=True)
class ActiveChanged:
    """Another consumer is the single active one now. For all nodes with consumers."""

    consumer: ConsumerKey | None


class DeadLetter(NamedTuple):
    """Messages that died, to be published onward at most once; the machine has forgotten them. For the leader."""

    reason: DeathReason
    piece: Piece
    delivery_count: int
    acquired_count: int


@dataclass(slots=True, frozen=True)
class DeadHeld:
    """`machine.dead_letters` lists more than before. For the leader's worker that publishes them at least once."""


@dataclass(slots=True, frozen=True)
class Unused:
    """The queue was not used for as long as `x-expires` says. For the leader: delete it."""


Effect = Deliver | TimedOut | ActiveChanged | DeadLetter | DeadHeld | Unused


class Dead(NamedTuple):
    """Messages that are held until they have arrived somewhere else (at-least-once)."""

    first_id: int  # what CommandKind.DEAD_SETTLED names them by; the others follow without gaps
    reason: DeathReason
    piece: Piece
    delivery_count: int
    acquired_count: int
