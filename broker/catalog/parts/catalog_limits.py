"""How much may be declared."""

from __future__ import annotations

from dataclasses import dataclass

from broker.errors import PreconditionFailed


@dataclass(slots=True, frozen=True)
class CatalogLimits:
    """How much may be declared on the whole cluster; 0 is no limit. All nodes must agree, for every node applies every
    command: those of the node that was started last hold (commands.NodeStarted)."""

    vhosts: int = 1_000
    users: int = 100_000
    exchanges: int = 100_000
    queues: int = 200_000
    bindings: int = 1_000_000
    policies: int = 10_000
    parameters: int = 100_000
    topic_wildcards: int = 2  # `#` words in one binding key: each multiplies what matching has to keep track of
    regex_length: int = 1_024  # characters of a pattern in a permission or policy


def check_count(what: str, count: int, limit: int) -> None:
    if limit and count >= limit:
        raise PreconditionFailed(f"the limit of {limit} {what} is reached")
