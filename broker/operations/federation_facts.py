"""What operators see of federation links: made by links/, shown by the fronts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class FederationLinkFacts:
    """One link, as the node that runs it says."""

    vhost: str
    kind: str  # exchange or queue
    name: str  # of the exchange or queue here
    upstream: str
    name_there: str
    consumer_tag: str  # of a queue link
    id: str
    uri: str  # without secrets; empty: none was chosen yet
    status: str
    error: str
    since_ms: int
    local_connection: str
    passed_on: int
    dropped: int
    refused: int
    unconfirmed: int
    restarts: int


class NodeFederationPort(Protocol):
    """The federation links of this node."""

    def facts(self) -> list[FederationLinkFacts]: ...

    def restart(self, vhost: str, link_id: str) -> bool:
        """False: it does not run here."""
