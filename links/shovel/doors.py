"""The two ends of a shovel: a source and a destination, each over a port to its broker.

    AmqpPort            another broker: frames of AMQP 0-9-1 (links/amqp/conversation.py)
    LocalConversation   this cluster, a URI without a host: a session of this node's broker (links/local_conversation.py)

Both brokers are tried at random among the URIs, so that a list spreads over the nodes of a cluster and the next try may go
elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from links.amqp.conversation import Conversation, ConversationUser, Steps, login_terms
from links.amqp.events import Confirmed, Delivered, PublishReturned
from links.amqp.opening import ClientTerms
from links.amqp.uri import AmqpUri, parse_uri
from links.local_conversation import LocalConversation
from links.shovel.definition import ShovelDefinition
from links.shovel.setup import MAIN_CHANNEL, destination_steps, source_steps
from links.shovel.shovel import Shovel
from links.world import LinkClock, LinkNet

if TYPE_CHECKING:
    from broker.broker import Broker


class Port(Protocol):
    """The way to one broker, on which Steps are asked first. Tells a ConversationUser what comes."""

    def open(self) -> None: ...

    def publish(self, exchange: bytes, routing_key: bytes, content: bytes, count: int, *, mandatory: bool) -> None: ...

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None: ...

    def give_back(self, first: int, last: int) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def close(self) -> None: ...


class PortMaker:
    """Finds the port for a URI. One for all shovels of a node."""

    def __init__(self, broker: Broker, net: LinkNet, clock: LinkClock) -> None:
        self._broker = broker
        self._net = net
        self._clock = clock
        self._ids = count(1)
        self._local: set[LocalConversation] = set()  # that are not closed
        self._is_held = False

    def hold_publishers(self, held: bool) -> None:
        """As clients of this node that publish, who are not read from meanwhile. Other brokers see to that themselves."""
        self._is_held = held
        for one in self._local:
            one.hold(held=held)

    def port(self, uri: AmqpUri, properties: dict[str, Any], steps: Steps, user: ConversationUser) -> Port:
        terms = login_terms(uri, properties)
        if uri.host or terms.mechanism == "EXTERNAL":  # whose certificate only a listener can see
            return AmqpPort(Conversation(uri, terms, steps, self._net, self._clock, user))
        return self._local_port(terms, steps, user)

    def _local_port(self, terms: ClientTerms, steps: Steps, user: ConversationUser) -> LocalConversation:
        id_ = f"shovel-{next(self._ids)}"
        made = LocalConversation(self._broker, terms, id_, steps, self._clock, user, self._local.discard)
        made.hold(held=self._is_held)
        self._local.add(made)
        return made


class AmqpPort:
    """Fulfils Port."""

    def __init__(self, conversation: Conversation) -> None:
        self._conversation = conversation
        self.open, self.close = conversation.open, conversation.close
        self.pause, self.resume = conversation.pause, conversation.resume

    def publish(self, exchange: bytes, routing_key: bytes, content: bytes, count: int, *, mandatory: bool) -> None:
        client = self._conversation.client
        client.publish(MAIN_CHANNEL, exchange, routing_key, content, 0, count, mandatory=mandatory)
        self._conversation.flush()

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None:
        self._conversation.client.acknowledge(MAIN_CHANNEL, first, last, multiple=multiple)
        self._conversation.flush()

    def give_back(self, first: int, last: int) -> None:
        self._conversation.client.nack(MAIN_CHANNEL, first, last)
        self._conversation.flush()


class Doors:
    """Fulfils ShovelDoors."""

    source_uri = ""
    destination_uri = ""

    def __init__(
        self,
        name: str,
        definition: ShovelDefinition,
        ports: PortMaker,
        clock: LinkClock,
        fraction: Callable[[], float],
    ) -> None:
        self._properties = {"connection_name": f"Shovel {name}", "product": "Leveret"}
        self._definition = definition
        self._ports = ports
        self._clock = clock
        self._fraction = fraction

    def open_destination(self, shovel: Shovel) -> DestinationEnd:
        uri = self._one_of(self._definition.destination.uris)
        self.destination_uri = uri.shown
        steps = destination_steps(self._definition.destination, confirms=self._definition.ack_mode == "on-confirm")
        door = DestinationEnd(shovel)
        self._open(door, uri, steps)
        return door

    def open_source(self, shovel: Shovel) -> SourceEnd:
        terms = self._definition.source
        uri = self._one_of(terms.uris)
        self.source_uri = uri.shown
        no_ack = self._definition.ack_mode == "no-ack"
        door = SourceEnd(shovel)
        self._open(door, uri, source_steps(terms, terms.prefetch, no_ack=no_ack))
        return door

    def _one_of(self, uris: Sequence[str]) -> AmqpUri:
        return parse_uri(uris[int(self._fraction() * len(uris))])

    def _open(self, door: _Door, uri: AmqpUri, steps: Steps) -> None:
        # Behind the caller, who is to know the door before it says anything.
        door.port = self._ports.port(uri, self._properties, steps, door)
        self._clock.call_later(0.0, door.open)


class _Door:
    """What both ends have in common. Fulfils ConversationUser, with nothing of what only one of them hears."""

    port: Port

    def __init__(self, shovel: Shovel) -> None:
        self._shovel = shovel
        self._closed = False

    def open(self) -> None:
        if not self._closed:
            self.port.open()

    def close(self) -> None:
        self._closed = True
        self.port.close()

    def ready(self, result: Any) -> None: ...

    def delivered(self, run: Delivered) -> None: ...

    def confirmed(self, confirmed: Confirmed) -> None: ...

    def returned(self, returned: PublishReturned) -> None: ...

    def blocked(self, reason: str | None) -> None: ...

    def writable(self, writable: bool) -> None: ...

    def ended(self, reason: str) -> None: ...


class SourceEnd(_Door):
    """Fulfils SourceDoor."""

    def acknowledge(self, first: int, last: int, *, multiple: bool) -> None:
        self.port.acknowledge(first, last, multiple=multiple)

    def give_back(self, first: int, last: int) -> None:
        self.port.give_back(first, last)

    def pause(self) -> None:
        self.port.pause()

    def resume(self) -> None:
        self.port.resume()

    def ready(self, result: Any) -> None:
        self._shovel.source_ready(result)

    def delivered(self, run: Delivered) -> None:
        self._shovel.delivered(run)

    def ended(self, reason: str) -> None:
        self._shovel.source_ended(reason)


class DestinationEnd(_Door):
    """Fulfils DestinationDoor."""

    def publish(self, exchange: bytes, routing_key: bytes, content: bytes, count: int, *, mandatory: bool) -> None:
        self.port.publish(exchange, routing_key, content, count, mandatory=mandatory)

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
