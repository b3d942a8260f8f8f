"""Clients of one queue whose life is told by what they count themselves: publishers that number their messages, and takers that
acknowledge what they were given a moment later.

For queues that are a classic queue first and a quorum queue later: neither book of the world (classics.py, ledger.py) knows
what becomes of their messages as a whole.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from broker.messages.message import Run
from broker.pending import ignore
from broker.queues.consumer import Consumer
from broker.queues.queue_type import Slice
from native.content import encode
from tests.sim.brokers.channel import Channel, Given

if TYPE_CHECKING:
    from tests.sim.brokers.site import BrokerSite
    from tests.sim.brokers.world import BrokerWorld

PREFETCH = 50
AGAIN_S = 0.3


class NumberedQueue(Protocol):
    """What these clients use, and who hears of what they see."""

    sim: BrokerWorld
    queue: str
    at_rest: bool  # nothing more is published
    pause_s: float  # between two publishes
    hold_s: float  # before a message is acknowledged

    def node_for(self, number: int) -> BrokerSite | None:
        """To which the client of this number may connect now."""

    def was_confirmed(self, body: bytes) -> None: ...

    def seen(self, number: int, given: Given) -> None:
        """By the client of this number."""

    def acknowledging(self, body: bytes) -> None:
        """A client says that it is done with it."""


class PlainChannel(Channel):
    """Of a queue whose life nobody else judges."""

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        self._tell(self.owner.delivered, self, self._given(first_tag, piece, content))


class Client:
    """It comes again when its connection is lost. Fulfils Owner of tests/sim/brokers/channel.py."""

    def __init__(self, world: NumberedQueue, number: int) -> None:
        self.world = world
        self.number = number
        self.channel: Channel | None = None
        self.connect()

    def connect(self) -> None:
        site = self.world.node_for(self.number)
        if site is not None:
            self.channel = PlainChannel(self.world.sim, self, site, f"{type(self).__name__} {self.number}")
        else:
            self.world.sim.loop.call_later(AGAIN_S, self.connect)

    def opened(self, channel: Channel) -> None: ...

    def confirmed(self, channel: Channel, first: int, last: int, multiple: bool, ok: bool) -> None: ...

    def returned(self, channel: Channel, bodies: list[bytes]) -> None: ...

    def delivered(self, channel: Channel, deliveries: list[Given]) -> None: ...

    def cancelled(self, channel: Channel, tag: str) -> None:
        channel.lose("its consumer was cancelled")

    def lost(self, channel: Channel, why: str) -> None:
        self.channel = None
        self.world.sim.loop.call_later(AGAIN_S, self.connect)


class NumberingPublisher(Client):
    """Numbers its messages. What is refused or not answered it does not publish again.

    A body is `client/connection:number:`. Each connection is a publisher of its own to who judges the order: what one has sent
    may be on its way still, through its node, when the next one publishes through another.
    """

    def __init__(self, world: NumberedQueue, number: int) -> None:
        self.published = 0
        self._connections = 0
        self._open: dict[int, bytes] = {}
        self._next = 1
        super().__init__(world, number)

    def opened(self, channel: Channel) -> None:
        self._open, self._next = {}, 1
        self._connections += 1
        channel.say(lambda: channel.session.publisher.select_confirms())
        self._publish(channel)

    def _publish(self, channel: Channel) -> None:
        if channel is not self.channel or channel.is_lost or self.world.at_rest:
            return
        self.published += 1
        body = b"%d/%d:%06d:" % (self.number, self._connections, self.published)
        self._open[self._next] = body
        self._next += 1
        run = Run("", self.world.queue, encode(b"\0\0", body), 1, len(body), persistent=True)
        channel.say(lambda: channel.session.publisher.publish(run, channel.now))
        self.world.sim.loop.call_later(self.world.pause_s, self._publish, channel)

    def confirmed(self, channel: Channel, first: int, last: int, multiple: bool, ok: bool) -> None:
        for tag in [tag for tag in self._open if tag <= last and (multiple or tag >= first)]:
            body = self._open.pop(tag)
            if ok:
                self.world.was_confirmed(body)


class NumberedTaker(Client):
    """Consumes, and acknowledges what it was given a moment later."""

    def opened(self, channel: Channel) -> None:
        session, queue = channel.session, self.world.queue

        def consume() -> None:
            session.set_prefetch(PREFETCH, False)
            session.consume(
                queue, "t", no_ack=False, exclusive=False, no_local=False, arguments={}, now=channel.now
            ).then(ignore, lambda error: channel.lose(error.text))

        channel.say(consume)

    def delivered(self, channel: Channel, deliveries: list[Given]) -> None:
        for given in deliveries:
            self.world.seen(self.number, given)
            self.world.sim.loop.call_later(self.world.hold_s, self._acknowledge, channel, given)

    def _acknowledge(self, channel: Channel, given: Given) -> None:
        if channel.is_lost:
            return
        self.world.acknowledging(given.body)
        channel.say(lambda: channel.session.acknowledge(given.tag, given.tag, False, channel.now))
