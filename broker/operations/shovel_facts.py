"""What operators see of shovels: made by links/, shown by the fronts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

COMPONENT = "shovel"


@dataclass(frozen=True, slots=True)
class ShovelEnd:
    """Source or destination. Empty: it is not known yet, or does not apply."""

    uri: str  # without secrets
    protocol: str
    queue: str
    exchange: str | None
    exchange_key: str | None


@dataclass(frozen=True, slots=True)
class ShovelFacts:
    """One shovel, as the node that runs it says."""

    vhost: str
    name: str
    state: str
    reason: str
    since_ms: int
    source: ShovelEnd
    destination: ShovelEnd
    remaining: int | None
    remaining_unacked: int | None
    pending: int
    unconfirmed: int
    forwarded: int
    returned: int
    restarts: int
    stalls: int
    type: str = "dynamic"  # or static: of the configuration file


def waiting_shovel(vhost: str, name: str) -> ShovelFacts:
    """One that no node runs yet."""
    end = ShovelEnd("", "", "", None, None)
    return ShovelFacts(vhost, name, "starting", "no node runs it yet", 0, end, end, None, None, 0, 0, 0, 0, 0, 0)


class NodeShovelsPort(Protocol):
    """The shovels of this node."""

    def facts(self) -> list[ShovelFacts]: ...

    def restart(self, vhost: str, name: str) -> bool:
        """False: it does not run here."""
