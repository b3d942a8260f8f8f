"""What became of messages, as a node tells it. See admin.proto."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LifePlace:
    """Of a message: both texts are empty where it is not known."""

    queue: str
    place: str


@dataclass(frozen=True, slots=True)
class LifeStep:
    at: str
    event: str
    reason: str
    who: str


@dataclass(frozen=True, slots=True)
class MessageLife:
    """A message in one queue, and what became of it. See admin.proto."""

    queue: str
    place: str
    published_at: str
    exchange: str
    routing_key: str
    message_id: str
    correlation_id: str
    body_bytes: int
    publisher: str
    steps: tuple[LifeStep, ...]
    steps_left_out: int
    death_reason: str
    was: LifePlace
    became: tuple[LifePlace, ...]
    committed: bool
    unknown: str


@dataclass(frozen=True, slots=True)
class LogRead:
    """A node whose log was searched, or why it was not."""

    node: str
    error: str
    files: int
    file_bytes: int
    skipped: int
    first: str
    last: str
    damaged_bytes: int


@dataclass(frozen=True, slots=True)
class FoundLives:
    lives: tuple[MessageLife, ...]
    nodes: tuple[LogRead, ...]
    more: bool


LIFE_RECORDS = (LifePlace, LifeStep, LogRead, MessageLife)  # that are within others
