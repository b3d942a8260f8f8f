"""The two ends of a shovel over AMQP 0-9-1, this cluster's own door among them: a URI without a host is this node's listener.

Both brokers are tried at random among the URIs, so that a list spreads over the nodes of a cluster and the next try may go
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from links.amqp.conversation import Conversation, Steps, login_terms
from links.amqp.events import Confirmed, Delivered, PublishReturned
from links.amqp.uri import AmqpUri, parse_uri
from links.shovel.definition import ShovelDefinition
from links.shovel.setup import MAIN_CHANNEL, destination_steps, source_steps
from links.shovel.shovel import Shovel
from links.world import LinkClock, LinkNet


class AmqpDoors:
    """Fulfils ShovelDoors."""

    source_uri = ""
    destination_uri = ""

    def __init__(
        self, name: str, definition: ShovelDefinition, net: LinkNet, clock: LinkClock, fraction: Callable[[], float]
    ) -> None:
        self._properties = {"connection_name": f"Shovel {name}", "product": "Leveret"}
        self._definition = definition
        self._net = net
        self._clock = clock
        self._fraction = fraction

    def open_destination(self, shovel: Shovel) -> AmqpDestination:
        uri = self._one_of(self._definition.destination.uris)
        self.destination_uri = uri.shown
        steps = destination_steps(self._definition.destination, confirms=self._definition.ack_mode == "on-confirm")
        door = AmqpDestination(shovel)
        self._open(door, uri, steps)
        return door

    def open_source(self, shovel: Shovel) -> AmqpSource:
        terms = self._definition.source
        uri = self._one_of(terms.uris)
        self.source_uri = uri.shown
        no_ack = self._definition.ack_mode == "no-ack"
        door = AmqpSource(shovel)
        self._open(door, uri, source_steps(terms, terms.prefetch, no_ack=no_ack))
        return door

    def _one_of(self, uris: Sequence[str]) -> AmqpUri:
        return parse_uri(uris[int(self._fraction() * len(uris))])

    def _open(self, door: _Door, uri: AmqpUri, steps: Steps) -> None:
        # Behind the caller, who is to know the door before it says anything.
        conversation = Conversation(uri, login_terms(uri, self._properties), steps, self._net, self._clock, door)
        door.conversation = conversation
        self._clock.call_later(0.0, door.open)


class _Door:
    """What both ends have in common. Fulfils ConversationUser, with nothing of what only one of them hears."""

    conversation: Conversation

    def __init__(self, shovel: Shovel) -> None:
        self._shovel = shovel
        self._closed = False

    def open(self) -> None:
        if not self._closed:
            self.conversation.open()

    def close(self) -> None:
        self._closed = True
        self.conversation.close()

    def ready(self, result: Any) -> None: ...

    def delivered(self, run: Delivered) -> None: ...

    def confirmed(self, confirmed: Confirmed) -> None: ...

    def returned(self, returned: PublishReturned) -> None: ...

    def blocked(self, reason: str | None) -> None: ...

    def writable(self, writable: bool) -> None: ...

    def ended(self, reason: str) -> None: ...


class AmqpSource(_Door):
    """Fulfils SourceDoor."""

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None:
        self.conversation.client.acknowledge(MAIN_CHANNEL, first, last, multiple=multiple)
        self.conversation.flush()

    def give_back(self, first: int, last: int) -> None:
        self.conversation.client.nack(MAIN_CHANNEL, first, last)
        self.conversation.flush()

    def pause(self) -> None:
        self.conversation.pause()

    def resume(self) -> None:
        self.conversation.resume()

    def ready(self, result: Any) -> None:
        self._shovel.source_ready(result)

    def delivered(self, run: Delivered) -> None:
        self._shovel.delivered(run)

    def ended(self, reason: str) -> None:
        self._shovel.source_ended(reason)


class AmqpDestination(_Door):
    """Fulfils DestinationDoor."""

    def publish(self, exchange: bytes, routing_key: bytes, content: bytes, count: int, *, mandatory: bool) -> None:
        client = self.conversation.client
        client.publish(MAIN_CHANNEL, exchange, routing_key, content, 0, count, mandatory=mandatory)
        self.conversation.flush()

    def ready(self, result: Any) -> None:
        self._shovel.destination_ready()

    def confirmed(self, confirmed: Confirmed) -> None:
        self._shovel.confirmed(confirmed)

    def returned(self, returned: PublishReturned) -> None:
        self._shovel.returned(returned)

    def blocked(self, reason: str | None) -> None:
        self._shovel.blocked(reason)

    def writable(self, writable: bool) -> None:
        self._shovel.writable(writable)

    def ended(self, reason: str) -> None:
        self._shovel.destination_ended(reason)
