"""Makes links with an end over AMQP 0-9-1 at the upstream and one in this node's broker."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, cast

from broker.records import ExchangeRecord, QueueRecord
from links.amqp.conversation import Steps
from links.amqp.uri import parse_uri
from links.federation.amqp_upstream import AmqpUpstream
from links.federation.copied_bindings import CopiedBindings
from links.federation.exchange_link import ExchangeLink
from links.federation.exchange_setup import ExchangeLinkTerms
from links.federation.federation_link import FederationLink
from links.federation.local_exit import LocalExit
from links.federation.queue_link import QueueLink, QueueLinkTerms
from links.federation.upstream import Upstream
from links.federation.wanted_links import WantedLink
from links.parameter_checks import DefinitionError
from links.world import LinkClock, LinkNet

if TYPE_CHECKING:
    from broker.broker import Broker


class AmqpLinkMaker:
    """Fulfils LinkMaker."""

    def __init__(
        self, broker: Broker, net: LinkNet, clock: LinkClock, fraction: Callable[[], float], cluster_name: str
    ) -> None:
        self._broker = broker
        self._net = net
        self._clock = clock
        self._fraction = fraction
        self._cluster_name = cluster_name
        self._ids = count(1)

    def exchange_link(
        self, wanted: WantedLink, bindings: CopiedBindings, on_error: Callable[[str], None]
    ) -> ExchangeLink:
        record, upstream = cast("ExchangeRecord", wanted.record), wanted.upstream
        assert upstream is not None, "a link to no upstream"
        terms = ExchangeLinkTerms(upstream, record, self._cluster_name, _vhost_there(upstream, record.vhost))
        terms.check_names()
        return ExchangeLink(terms, bindings, self._ends(wanted), self._clock, self._fraction, on_error)

    def queue_link(
        self, wanted: WantedLink, is_wanting: Callable[[], bool], on_error: Callable[[str], None]
    ) -> QueueLink:
        record, upstream = cast("QueueRecord", wanted.record), wanted.upstream
        assert upstream is not None, "a link to no upstream"
        terms = QueueLinkTerms(upstream, record)
        return QueueLink(terms, is_wanting, self._ends(wanted), self._clock, self._fraction, on_error)

    def _ends(self, wanted: WantedLink) -> _AmqpEnds:
        return _AmqpEnds(wanted, self._broker, self._net, self._clock, self._fraction, lambda: next(self._ids))


class _AmqpEnds:
    """Fulfils LinkEnds."""

    def __init__(
        self,
        wanted: WantedLink,
        broker: Broker,
        net: LinkNet,
        clock: LinkClock,
        fraction: Callable[[], float],
        next_id: Callable[[], int],
    ) -> None:
        self._wanted = wanted
        self._broker = broker
        self._net = net
        self._clock = clock
        self._fraction = fraction
        self._next_id = next_id
        self._name = f"Federation link (upstream: {wanted.key.upstream}, policy: {wanted.policy})"

    def open_upstream(self, link: FederationLink, steps: Steps) -> AmqpUpstream:
        uris = link.upstream.uris
        uri = parse_uri(uris[int(self._fraction() * len(uris))], self._wanted.key.vhost)
        return AmqpUpstream(link, uri, steps, self._net, self._clock, self._name)

    def open_downstream(self, link: FederationLink) -> LocalExit:
        number = self._next_id()
        name = f"{self._name} #{number}"
        return LocalExit(link, self._broker, self._wanted.key.vhost, f"federation-{number}", name, self._clock.wall_ms)


def _vhost_there(upstream: Upstream, vhost: str) -> str:
    """The same for all its URIs: names at the upstream depend on it."""
    found = {parse_uri(uri, vhost).vhost for uri in upstream.uris}
    if len(found) > 1:
        raise DefinitionError(f"the URIs of upstream '{upstream.name}' name several vhosts: {', '.join(sorted(found))}")
    return found.pop()
