"""What a replay says of itself. See admin.proto."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(slots=True, frozen=True)
class ReplayCause:
    """Messages that left their queue alike and were published with one key."""

    end: str
    exchange: str
    routing_key: str
    messages: int


@dataclass(slots=True, frozen=True)
class ReplayCoverage:
    """What the log has of the messages that were asked for, and what that stands on."""

    messages: int
    first: str
    last: str
    causes: tuple[ReplayCause, ...]
    skipped: Mapping[str, int]
    uncommitted: int
    unnamed: int
    more: bool
    unknown: str
    files: int
    files_skipped: int
    from_time: str
    to_time: str
    damaged_bytes: int


@dataclass(slots=True, frozen=True)
class ReplayProgress:
    """How far a replay is, or what a dry run found. The coverage comes with the last one."""

    state: str
    error: str
    chosen: int
    published: int
    unroutable: int
    is_replay: int
    gone: int
    unreadable: int
    answered_to: str
    id: str
    coverage: ReplayCoverage | None = None


REPLAY_RECORDS = (ReplayCause,)
