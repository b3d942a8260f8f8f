"""How much one node's clients may open. What may be declared is limited by broker/catalog/catalog.py, sizes by the fronts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from broker.errors import PreconditionFailed

# What comes in per second on each node; who publishes faster is held (broker/rate_limits.py).
MESSAGE_RATE, BYTE_RATE = "max-message-rate", "max-byte-rate"
RATE_LIMITS = frozenset({MESSAGE_RATE, BYTE_RATE})
# What may be set for one vhost or one user.
VHOST_LIMITS = frozenset({"max-connections", "max-queues"}) | RATE_LIMITS
USER_LIMITS = frozenset({"max-connections", "max-channels"}) | RATE_LIMITS


@dataclass(slots=True, frozen=True)
class Limits:
    """Limits of this node; 0 is no limit. Those of a vhost or user are records in the catalog."""

    connections: int = 16_000
    channels_per_node: int = 0
    consumers_per_channel: int = 10_000


def check_limits(limits: Mapping[str, int], known: frozenset[str]) -> None:
    for name, value in limits.items():
        if name not in known:
            raise PreconditionFailed(f"'{name}' is not a limit; there are {', '.join(sorted(known))}")
        if isinstance(value, bool) or not isinstance(value, int):
            raise PreconditionFailed(f"limit '{name}' is a number, not {value!r}")


def given_limits(limits: Mapping[str, int]) -> dict[str, int]:
    """A negative number takes a limit away."""
    return {name: value for name, value in limits.items() if value >= 0}
