"""What a cluster tells of its links to other brokers. Part of leveret.records."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ShovelEnd:
    """A queue, or where that is empty an exchange."""

    uri: str
    protocol: str
    queue: str
    exchange: str
    exchange_key: str


@dataclass(frozen=True, slots=True)
class Shovel:
    """As the node says that runs it. See admin.proto."""

    vhost: str
    name: str
    node: str
    type: str
    state: str
    reason: str
    since_ms: int
    source: ShovelEnd
    destination: ShovelEnd
    remaining: int  # -1: it does not end by itself
    pending: int
    unconfirmed: int
    forwarded: int
    returned: int
    restarts: int
    stalls: int


@dataclass(frozen=True, slots=True)
class Shovels:
    shovels: tuple[Shovel, ...]
    missing_nodes: tuple[str, ...]  # that did not say in time what they run


@dataclass(frozen=True, slots=True)
class FederationLink:
    """As the node says that runs it. See admin.proto."""

    vhost: str
    type: str
    name: str
    upstream: str
    upstream_name: str
    id: str
    node: str
    status: str
    error: str
    uri: str
    since_ms: int
    passed_on: int
    dropped: int
    refused: int
    unconfirmed: int
    restarts: int


@dataclass(frozen=True, slots=True)
class FederationLinks:
    links: tuple[FederationLink, ...]
    missing_nodes: tuple[str, ...]  # that did not say in time what they run
