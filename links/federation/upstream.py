"""What the parameters of federation say: their keys, their defaults, and what is refused, in RabbitMQ's words.

A set lists upstreams by name, and each entry may say otherwise than its upstream does. `all` is every upstream of the virtual
host.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from links.parameter_checks import (
    ACK_MODES,
    Check,
    DefinitionError,
    check_delay,
    check_flag,
    check_prefetch,
    check_text,
    check_uri,
    one_of,
    reconnect_delay_s,
    shown,
    uris_of,
)

UPSTREAM = "federation-upstream"
UPSTREAM_SET = "federation-upstream-set"
ALL = "all"

PREFETCH = 1000
MAX_HOPS = 1
MAX_HOPS_MAX = 32_767  # travels with bindings, in 16 bits at RabbitMQ
MILLISECONDS_MAX = 315_360_000_000  # ten years
QUEUE_TYPES = ("classic", "quorum")
KEEPS_RESOURCES = "never"  # resource-cleanup-mode


@dataclass(frozen=True, slots=True)
class Upstream:
    """Another broker, and how one thing is federated from it."""

    name: str
    uris: tuple[str, ...] = field(repr=False)
    exchange: str | None  # None: as the one here
    queue: str | None
    consumer_tag: str
    prefetch: int
    reconnect_delay_s: float  # 0: a link that ended stays so
    ack_mode: str
    trust_user_id: bool
    max_hops: int
    expires_ms: int | None  # of the queue at the upstream in which messages of an exchange wait, as what follows
    message_ttl_ms: int | None
    queue_type: str
    cleans_up: bool  # that queue is deleted when the link is not wanted any more


def check_upstream(name: str, value: Any) -> None:
    """Raises DefinitionError."""
    _check_keys(name, value, "uri")


def check_upstream_set(name: str, value: Any) -> None:
    """Raises DefinitionError."""
    if not isinstance(value, list):
        raise DefinitionError(f"{name} should be a list of upstreams, actually was {type(value).__name__}")
    for entry in value:
        _check_keys(name, entry, "upstream")


def read_upstream(name: str, value: Any, overrides: Any = None) -> Upstream:
    """With what an entry of a set says otherwise. Raises DefinitionError."""
    check_upstream(name, value)
    if overrides is not None:
        _check_keys(name, overrides, "upstream")
    given: dict[str, Any] = {**value, **(overrides or {})}
    return Upstream(
        name,
        uris_of(given["uri"]),
        given.get("exchange"),
        given.get("queue"),
        given.get("consumer-tag", f"federation-link-{name}"),
        given.get("prefetch-count", PREFETCH),
        reconnect_delay_s(given),
        given.get("ack-mode", "on-confirm"),
        given.get("trust-user-id", False),
        given.get("max-hops", MAX_HOPS),
        given.get("expires"),
        given.get("message-ttl"),
        given.get("queue-type", "classic"),
        given.get("resource-cleanup-mode") != KEEPS_RESOURCES,
    )


def _check_keys(name: str, value: Any, needed: str) -> None:
    if not isinstance(value, Mapping):
        raise DefinitionError(f"{name} should be a map, actually was {type(value).__name__}")  # its texts may be URIs
    if needed not in value:
        raise DefinitionError(f'Key "{needed}" not found in {name}')
    unknown = value.keys() - CHECKS.keys() - {needed}
    if unknown:
        raise DefinitionError(f"Unrecognised terms {', '.join(sorted(map(str, unknown)))} in {name}")
    for key, one in value.items():
        (check_text if key == "upstream" else CHECKS[key])(key, one)


def _number(least: int, most: int) -> Check:
    def check(key: str, value: Any) -> None:
        if isinstance(value, bool) or not isinstance(value, int):
            raise DefinitionError(f"{key} should be a number, actually was {shown(value)}")
        if not least <= value <= most:
            raise DefinitionError(f"{key} should be between {least} and {most}, actually was {value}")

    return check


CHECKS: dict[str, Check] = {
    "uri": check_uri,
    "exchange": check_text,
    "queue": check_text,
    "consumer-tag": check_text,
    "prefetch-count": check_prefetch,
    "reconnect-delay": check_delay,
    "max-hops": _number(1, MAX_HOPS_MAX),
    "expires": _number(1, MILLISECONDS_MAX),
    "message-ttl": _number(0, MILLISECONDS_MAX),
    "trust-user-id": check_flag,
    "ack-mode": one_of(*ACK_MODES),
    "queue-type": one_of(*QUEUE_TYPES),
    "resource-cleanup-mode": one_of("default", KEEPS_RESOURCES),
    "bind-nowait": check_flag,  # bindings go up without waiting for each in any case
    "channel-use-mode": one_of("multiple", "single"),
}
