"""File descriptors: how many this process may have, and how many connections that leaves room for.

A connection that is refused costs its client a retry; a log file or a link to another node that cannot be opened costs the node
what it promised. So a part of the descriptors is reserved for storage and other nodes, and the ceilings for connections are
scaled down to fit into the rest.
"""

from __future__ import annotations

import contextlib
import resource
from dataclasses import dataclass
from logging import Logger

from node.config import LimitsSection

# Where the hard limit is none: enough for every ceiling's default, and what Linux allows by default (fs.nr_open).
DESCRIPTORS_MAX = 1_048_576
# For the log, segments, message stores, the catalog, links to other nodes, and listeners.
RESERVE_SHARE = 4  # one in so many
RESERVE_MAX = 2_048
# gRPC's own socket, the relay's end of it, and the client's.
DESCRIPTORS_PER_GRPC_CONNECTION = 3
# The socket, and a second descriptor of it for chunks that are sent from their files (front/sockets/socket_output.py).
DESCRIPTORS_PER_STREAM_CONNECTION = 2
UNLIMITED_CONNECTIONS = 16_000  # what "no limit" counts as when protocols share too few descriptors
CONNECTIONS_MIN = 8  # of each protocol, however few descriptors there are
# Of an AMQP front's connections, one in so many at most may be without a login.
UNAUTHENTICATED_SHARE = 4


@dataclass(slots=True, frozen=True)
class Ceilings:
    """Connections that may be open at a time."""

    amqp: int
    stream: int
    http: int
    grpc: int
    unauthenticated: int  # of AMQP, streams and gRPC, each
    unauthenticated_per_source: int
    http_per_source: int  # that have not logged in


def raise_limit() -> None:
    """Allow this process as many descriptors as it may have without privileges: a shell's default is 1024."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS_MAX if hard == resource.RLIM_INFINITY else hard
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):  # beyond what the kernel allows any process
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def descriptor_limit() -> int:
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return DESCRIPTORS_MAX if soft == resource.RLIM_INFINITY else soft


def ceilings(limits: LimitsSection, descriptors: int) -> Ceilings:
    """What is configured, scaled down as far as the descriptors ask for it."""
    usable = descriptors - min(RESERVE_MAX, descriptors // RESERVE_SHARE)
    amqp = limits.connections or max(usable, UNLIMITED_CONNECTIONS)
    wanted = (
        amqp
        + DESCRIPTORS_PER_STREAM_CONNECTION * limits.stream_connections
        + limits.http_connections
        + DESCRIPTORS_PER_GRPC_CONNECTION * limits.grpc_connections
    )
    share = min(1.0, usable / wanted)
    amqp, stream, http, grpc = (
        max(CONNECTIONS_MIN, int(one * share))
        for one in (amqp, limits.stream_connections, limits.http_connections, limits.grpc_connections)
    )
    room = max(CONNECTIONS_MIN, amqp // UNAUTHENTICATED_SHARE)
    unauthenticated = min(limits.unauthenticated_connections or room, room)
    return Ceilings(
        amqp,
        stream,
        http,
        grpc,
        unauthenticated,
        _source_share(limits, unauthenticated, limits.unauthenticated_connections),
        _source_share(limits, http, limits.http_connections),
    )


def _source_share(limits: LimitsSection, places: int, configured_places: int) -> int:
    """As many as configured, or the same part of the places when there are fewer of these."""
    share = limits.unauthenticated_per_source or places
    if 0 < places < configured_places:
        share = share * places // configured_places
    return max(1, min(share, places))


def log_ceilings(limits: LimitsSection, descriptors: int, found: Ceilings, logger: Logger) -> None:
    """Say so when the descriptors, and not the configuration, are what limits the connections."""
    wanted = limits.connections, limits.stream_connections, limits.http_connections, limits.grpc_connections
    may_have = found.amqp, found.stream, found.http, found.grpc
    if may_have != wanted:
        logger.warning(
            "this process may open %d files: at most %d AMQP, %d stream, %d HTTP and %d gRPC connections are accepted, not %d, "
            "%d, %d and %d. "
            "Raise its limit of open files (LimitNOFILE, ulimit -n) for more",
            descriptors, *may_have, *wanted,
        )  # fmt: skip
