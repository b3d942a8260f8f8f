"""What a node says of itself and of others, in the words of the admin services."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class ListenerFacts:
    protocol: str
    address: str
    tls: bool = False


@dataclass(slots=True, frozen=True)
class AlarmFacts:
    kind: str  # memory, disk
    reason: str
    since_ms: int
