"""The handshake as its client: start, tune, open. Decides what to answer, and what this side can work with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from wire.amqp import spec
from wire.amqp.spec import Arguments

FRAME_MAX = 131_072
FRAME_MAX_MIN = 4096
CAPABILITIES = {
    "publisher_confirms": True,
    "exchange_exchange_bindings": True,
    "basic.nack": True,
    "consumer_cancel_notify": True,
    "connection.blocked": True,
    "authentication_failure_close": True,
}


class OpeningRefused(Exception):
    """Raised when the broker offers nothing that this client can use."""


@dataclass(frozen=True, slots=True)
class ClientTerms:
    """How to log in, and what this side asks for."""

    vhost: str
    mechanism: str  # PLAIN or EXTERNAL
    user: str
    password: str = field(repr=False)
    heartbeat_s: int
    frame_max: int = FRAME_MAX
    properties: dict[str, Any] = field(default_factory=dict)
    message_bytes_max: int = 128 << 20


@dataclass(frozen=True, slots=True)
class Tuned:
    """What both sides have agreed on."""

    frame_max: int
    heartbeat_s: int


def start_ok(terms: ClientTerms, start: Arguments) -> bytes:
    """Raises OpeningRefused."""
    offered = start["mechanisms"].decode("utf-8", "replace").split()
    if terms.mechanism not in offered:
        raise OpeningRefused(f"the broker has no {terms.mechanism} login, it has {', '.join(offered)[:200]}")
    response = b"" if terms.mechanism == "EXTERNAL" else f"\0{terms.user}\0{terms.password}".encode()
    return spec.encode(
        "connection.start-ok",
        client_properties={**terms.properties, "capabilities": CAPABILITIES},
        mechanism=terms.mechanism,
        response=response,
        locale="en_US",
    )


def tuned(terms: ClientTerms, tune: Arguments) -> Tuned:
    """The smaller of both sides' wishes; 0 is no wish. Raises OpeningRefused."""
    frame_max = _smaller(tune["frame_max"], terms.frame_max or FRAME_MAX)
    if frame_max < FRAME_MAX_MIN:
        raise OpeningRefused(f"frames of {frame_max} bytes are too small, {FRAME_MAX_MIN} are the least")
    heartbeat = 0 if terms.heartbeat_s == 0 else _smaller(tune["heartbeat"], terms.heartbeat_s)
    return Tuned(frame_max, heartbeat)


def tune_ok(agreed: Tuned, tune: Arguments) -> bytes:
    return spec.encode(
        "connection.tune-ok",
        channel_max=tune["channel_max"],
        frame_max=agreed.frame_max,
        heartbeat=agreed.heartbeat_s,
    )


def _smaller(one: int, other: int) -> int:
    return min(one, other) if one and other else max(one, other)
