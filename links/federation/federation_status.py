"""What a federation link says of itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class LinkState(Enum):
    STARTING = "starting"
    RUNNING = "running"
    ERROR = "error"  # until its next try
    SHUTDOWN = "shutdown"  # for good: it is not to be tried again, or not wanted any more


@dataclass(frozen=True, slots=True)
class LinkStatus:
    state: LinkState
    error: str  # of the last end; empty: none yet
    since_ms: int  # in this state
    uri: str  # in use, without secrets
    local_connection: str  # empty: none
    passed_on: int  # messages ever, by this process, as what follows
    dropped: int  # had come over too many links, or were here before
    refused: int  # by the broker here
    unconfirmed: int
    restarts: int
