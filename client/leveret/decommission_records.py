"""What a node says of leaving its cluster for good. Part of leveret.records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class PlannedMove:
    """A replicated queue with a copy on a node that is to leave."""

    vhost: str
    queue: str
    kind: str
    to: str  # node that gets a copy in its place; empty: none does
    copies: int  # afterwards; 0: the queue is lost
    copies_before: int
    leads: bool
    bytes: int  # to be sent, as far as is known


@dataclass(slots=True, frozen=True)
class LostQueue:
    """A classic queue that goes with the node on which it lives."""

    vhost: str
    queue: str
    messages: int
    bytes: int


@dataclass(slots=True, frozen=True)
class DecommissionPlan:
    node: str
    moves: tuple[PlannedMove, ...]
    lost: tuple[LostQueue, ...]
    obstacles: tuple[str, ...]  # why it cannot leave now


@dataclass(slots=True, frozen=True)
class DecommissionProgress:
    node: str
    phase: str  # none, draining, moving, leaving, left, waiting (for what `error` says, and then it goes on), failed
    moved: int
    total: int
    error: str


@dataclass(slots=True, frozen=True)
class ForgottenQueue:
    """A classic queue that lives on a node that is down."""

    vhost: str
    queue: str


@dataclass(slots=True, frozen=True)
class ForgetPlan:
    """What would go with a node that is forgotten."""

    node: str
    count: int  # classic queues that live on it
    lost: tuple[ForgottenQueue, ...]  # the first of them, by vhost and name
    obstacles: tuple[str, ...]  # why it would be refused now
