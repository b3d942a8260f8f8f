"""Federation links as operators see them from any node: each node says which of them it runs. Upstreams are parameters."""

from __future__ import annotations

from collections.abc import Iterator

from broker.catalog.catalog import Catalog
from broker.errors import NotFound
from broker.operations.federation_facts import FederationLinkFacts, NodeFederationPort
from broker.operations.operator import MANAGEMENT, POLICYMAKER, Operator
from front.cluster_shovels import AskedNodes, FoundRows, Json
from front.times import shown_time

LINKS = "federation links"
RESTART = "restart federation link"
UP = ("running", "starting")  # a link with another status is down


class ClusterFederation:
    """See the module. Raises BrokerErrors."""

    def __init__(self, node: str, catalog: Catalog, everywhere: AskedNodes, own: NodeFederationPort | None) -> None:
        """Without `own` this node runs none."""
        self._node = node
        self._catalog = catalog
        self._everywhere = everywhere
        self._own = own
        everywhere.add(LINKS, self._rows)
        everywhere.add(RESTART, self._restarted)

    async def listed(self, who: Operator, vhost: str | None) -> FoundRows:
        """Of one vhost, or of all that they may see."""
        who.require_tag(MANAGEMENT)
        who.vhosts(self._catalog, vhost)
        return await self._everywhere.find(LINKS, who, vhost)

    async def restart(self, who: Operator, vhost: str, link: str, node: str) -> None:
        who.require_tag(POLICYMAKER)
        who.check_may_see(self._catalog, vhost)
        found = await self._everywhere.find(RESTART, who, vhost, link, node)
        if not found.rows:
            raise NotFound(f"no federation link '{link}' of vhost '{vhost}' runs on node '{node}'")

    # what this node says

    def _rows(self, who: Operator, vhost: str | None) -> Iterator[Json]:
        seen = set(who.vhosts(self._catalog, vhost))
        facts = [] if self._own is None else self._own.facts()
        return (link_row(self._node, one) for one in facts if one.vhost in seen)

    def _restarted(self, who: Operator, vhost: str, link: str, node: str) -> Iterator[Json]:
        """A row says that it was."""
        who.require_tag(POLICYMAKER)
        who.check_may_see(self._catalog, vhost)
        is_here = node == self._node and self._own is not None and self._own.restart(vhost, link)
        return iter([{"node": self._node}] if is_here else [])


def link_row(node: str, one: FederationLinkFacts) -> Json:
    """As RabbitMQ shows it, and what only Leveret knows."""
    shown: Json = {
        "node": node,
        one.kind: one.name,
        f"upstream_{one.kind}": one.name_there,
        "type": one.kind,
        "vhost": one.vhost,
        "upstream": one.upstream,
        "id": one.id,
        "status": one.status,
        "uri": one.uri,
        "timestamp": shown_time(one.since_ms),
        "since_ms": one.since_ms,
        "passed_on": one.passed_on,
        "dropped": one.dropped,
        "refused": one.refused,
        "unconfirmed": one.unconfirmed,
        "restarts": one.restarts,
    }
    if one.consumer_tag:
        shown["consumer_tag"] = one.consumer_tag
    if one.local_connection:
        shown["local_connection"] = one.local_connection
    if one.error:
        shown["error"] = one.error
    return shown
