"""Exchanges of the type x-federation-upstream: between a federated exchange and the queue that another cluster reads.

    x-max-hops           argument of the exchange: over how many links a message may have come until it is there
    x-downstream-name    the cluster that reads the queue
    x-downstream-vhost   its virtual host
    x-received-from      header of a message: a list of tables, one for each link that it came over, the newest first

The link of the other cluster declares it. It passes everything on but what has come over too many links and what the other
cluster has had already: that would be dropped there, and so it does not travel at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from broker.errors import PreconditionFailed
from broker.exchanges.bindings import Destination, FanoutBindings, RoutingFacts
from broker.records import Arguments
from broker.table_values import show, type_name

FEDERATION_KIND = "x-federation-upstream"
MAX_HOPS = "x-max-hops"
DOWNSTREAM_NAME = "x-downstream-name"
DOWNSTREAM_VHOST = "x-downstream-vhost"
RECEIVED_FROM = "x-received-from"


class FederationUpstreamBindings(FanoutBindings):
    """See the module."""

    __slots__ = ("_downstream", "_max_hops")

    def __init__(self, arguments: Arguments) -> None:
        super().__init__()
        self._max_hops: int = arguments[MAX_HOPS]
        self._downstream = arguments.get(DOWNSTREAM_NAME), arguments.get(DOWNSTREAM_VHOST)

    def match(self, keys: Sequence[str], asked: RoutingFacts) -> Iterable[Destination]:
        travelled = (asked() or {}).get(RECEIVED_FROM)
        return super().match(keys, asked) if may_travel(travelled, self._max_hops, *self._downstream) else ()


def may_travel(received_from: Any, max_hops: int, cluster: Any, vhost: Any) -> bool:
    """Whether a message with this header (None: with none) may go over a link to a virtual host of a cluster. Anything but a
    list is a client's own, and says nothing."""
    if not isinstance(received_from, list):
        return True
    return len(received_from) < max_hops and not has_seen(received_from, cluster, vhost)


def has_seen(entries: Iterable[Any], cluster: Any, vhost: Any) -> bool:
    """Whether one of these tables names this virtual host of this cluster."""
    return any(
        isinstance(one, Mapping) and (one.get("cluster-name"), one.get("vhost")) == (cluster, vhost) for one in entries
    )


def check_max_hops(arguments: Arguments) -> None:
    """Raises PreconditionFailed."""
    hops = arguments.get(MAX_HOPS)
    if MAX_HOPS not in arguments:
        raise PreconditionFailed(f"Argument {MAX_HOPS} missing: how many links a message may have come over")
    if type(hops) is not int:
        raise PreconditionFailed(f"Argument {MAX_HOPS} must be of type long, not {show(hops)} ({type_name(hops)})")
