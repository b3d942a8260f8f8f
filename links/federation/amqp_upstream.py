"""The upstream end of a link over AMQP 0-9-1. One of the upstream's URIs is chosen by chance at each start."""

from __future__ import annotations

from typing import Any

from links.amqp.conversation import Conversation, Steps, login_terms
from links.amqp.events import Confirmed, Delivered, PublishReturned
from links.amqp.uri import AmqpUri
from links.federation.federation_link import FederationLink
from links.world import LinkClock, LinkNet

MAIN_CHANNEL = 1


class AmqpUpstream:
    """Fulfils UpstreamEnd and ConversationUser."""

    def __init__(
        self, link: FederationLink, uri: AmqpUri, steps: Steps, net: LinkNet, clock: LinkClock, connection_name: str
    ) -> None:
        """Nothing is said to the link before it knows this."""
        properties = {"connection_name": connection_name, "product": "Leveret"}
        self.uri = uri.shown
        self._link = link
        self._closed = False
        self._conversation = Conversation(uri, login_terms(uri, properties), steps, net, clock, self)
        clock.call_later(0.0, self._open)

    def _open(self) -> None:
        if not self._closed:
            self._conversation.open()

    @property
    def cluster(self) -> str | None:
        name = self._conversation.client.server_properties.get("cluster_name")
        return name if isinstance(name, str) else None

    def ask(self, steps: Steps) -> None:
        self._conversation.ask(steps)

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None:
        self._conversation.client.acknowledge(MAIN_CHANNEL, first, last, multiple=multiple)
        self._conversation.flush()

    def give_back(self, first: int, last: int) -> None:
        self._conversation.client.nack(MAIN_CHANNEL, first, last)
        self._conversation.flush()

    def pause(self) -> None:
        self._conversation.pause()

    def resume(self) -> None:
        self._conversation.resume()

    def close(self) -> None:
        self._closed = True
        self._conversation.close()

    # ------------------------------------------------------------------------- ConversationUser

    def ready(self, result: Any) -> None:
        self._link.upstream_ready(result)

    def delivered(self, run: Delivered) -> None:
        self._link.delivered(run)

    def ended(self, reason: str) -> None:
        self._link.upstream_ended(reason)

    # Nothing is published there, and what is asked there is little.

    def confirmed(self, confirmed: Confirmed) -> None: ...

    def returned(self, returned: PublishReturned) -> None: ...

    def blocked(self, reason: str | None) -> None: ...

    def writable(self, writable: bool) -> None: ...
