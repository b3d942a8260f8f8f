"""A client's connection with one channel, in virtual time: what is said takes a moment to arrive, in both directions, and is
lost with the connection.

The client's side never runs within an event of a node: a node that dies in the middle of an event has told nobody anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from broker.client_connection import Connection
from broker.consumer import Consumer
from broker.errors import BrokerError
from broker.message import Run
from broker.pending import Pending
from broker.queue_type import Slice
from broker.session.session import GotMessage, Session
from native.content import messages
from quorum.fifo.commands import ConsumerKey
from quorum.queue import QuorumQueue
from tests.sim.brokers.lives import label_of

if TYPE_CHECKING:
    from tests.sim.brokers.process import BrokerProcess
    from tests.sim.brokers.site import BrokerSite
    from tests.sim.brokers.world import BrokerWorld

WAY_S = 0.0004  # from a client to its node, and back


class Owner(Protocol):
    """Who uses a channel. Told in the order in which the node said it; nothing any more once it is lost."""

    def opened(self, channel: Channel) -> None: ...

    def confirmed(self, channel: Channel, first: int, last: int, multiple: bool, ok: bool) -> None: ...

    def returned(self, channel: Channel, bodies: list[bytes]) -> None: ...

    def delivered(self, channel: Channel, deliveries: list[Given]) -> None: ...

    def cancelled(self, channel: Channel, tag: str) -> None: ...

    def lost(self, channel: Channel, why: str) -> None:
        """The connection, or the channel, is gone."""


class Given:
    """One message as a client gets it."""

    __slots__ = (
        "acquired", "body", "consumer_tag", "failures", "headers", "key", "message_id", "offset", "props", "queue",
        "redelivered", "tag",
    )  # fmt: skip

    def __init__(self, tag: int, piece: Slice, at: int, props: bytes, body: bytes, key: ConsumerKey | None) -> None:
        headers = piece.headers or {}
        self.tag = tag
        self.queue = label_of(piece.queue.record)
        self.props = props
        self.body = body
        self.redelivered = piece.redelivered
        self.failures = int(headers.get("x-delivery-count", 0))
        self.acquired = int(headers.get("x-acquired-count", 0))
        self.headers = headers
        self.key = key
        self.message_id = piece.sequence + at
        self.offset = piece.offset + at if piece.offset is not None else None
        self.consumer_tag = ""  # a get has none


class Channel:
    """See the module. Fulfils SessionSink."""

    def __init__(self, world: BrokerWorld, owner: Owner, site: BrokerSite, name: str) -> None:
        self.world = world
        self.owner = owner
        self.site = site
        self.name = name
        self.session: Session
        self.is_open = False
        self.is_lost = False
        self.is_writable = True
        self._life = site.life
        self.process: BrokerProcess | None = None  # that it is connected to
        world.channels.append(self)
        self.say(self._open)

    # The client's side

    def say(self, what: Callable[..., object], *args: Any) -> None:
        """Have the node do this, after all that was said before."""
        if not self.is_lost:
            self.world.loop.call_later(WAY_S, self.site.run, self._life, self._do, (what, args))

    def lose(self, why: str, *, tell_node: bool = True) -> None:
        """The connection breaks; the node learns of it."""
        if self.is_lost:
            return
        if tell_node and self.is_open:
            self.world.loop.call_later(WAY_S, self.site.run, self._life, self._close, ())
        self.is_lost = True
        self.world.channels.remove(self)
        self.world.trace.event(self.world.loop.time(), 0, f"{self.name} is lost: {why}")
        self.owner.lost(self, why)

    def ask(
        self,
        what: Callable[[Session, int], Pending[Any]],
        on_value: Callable[[Any], None],
        on_error: Callable[[BrokerError], None],
    ) -> None:
        """Something that is answered: one of the two is told, unless the connection is lost before."""
        self.say(self._ask, what, on_value, on_error)

    # Within events of the node

    def _do(self, what: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.is_lost or (what != self._open and (self.site.process is not self.process or not self.is_open)):
            return
        if what != self._open and self.session.closed:  # by the node, which takes nothing from it any more
            return
        try:
            what(*args)
        except BrokerError as error:
            self._refuse(error)
        process = self.site.process
        assert process is not None, f"node {self.site.number} is down"
        process.turns.request()

    def _open(self) -> None:
        process = self.process = self.site.process
        assert process is not None, f"node {self.site.number} is down"
        now = self.now
        self._connection = Connection(
            f"c{self.world.next_number()}", self.name, "guest", "/", "sim", {}, now, self._refuse, ignore_blocked, dict
        )
        process.broker.open_connection(self._connection, now)
        self.session = process.broker.open_session(self._connection, self, now)
        self.is_open = True
        self._tell(self.owner.opened, self)

    def _close(self) -> None:
        if self.process is not None and self.site.process is self.process:
            self.process.broker.connection_closed(self._connection, self.now)

    def _refuse(self, error: BrokerError) -> None:
        """The node closes the channel, and the connection with it."""
        if self.process is not None:
            self.process.loop.call_soon(self._close)
        self.world.loop.call_later(WAY_S, self.lose, error.text)

    def _ask(
        self,
        what: Callable[[Session, int], Pending[Any]],
        on_value: Callable[[Any], None],
        on_error: Callable[[BrokerError], None],
    ) -> None:
        def refused(error: BrokerError) -> None:
            self._tell(on_error, error)

        try:
            what(self.session, self.now).then(lambda value: self._tell(on_value, value), refused)
        except BrokerError as error:
            refused(error)

    @property
    def now(self) -> int:
        return self.site.clock.wall_ms()

    def _tell(self, what: Callable[..., object], *args: Any) -> None:
        self.world.loop.call_later(WAY_S, self._told, what, args)

    def _told(self, what: Callable[..., object], args: tuple[Any, ...]) -> None:
        if not self.is_lost:
            self.world.trace.event(self.world.loop.time(), 0, f"{self.name} {getattr(what, '__name__', 'answer')}")
            what(*args)

    # SessionSink

    @property
    def writable(self) -> bool:
        return self.is_writable

    def deliver(self, consumer: Consumer, first_tag: int, piece: Slice, content: bytes) -> None:
        found = self._given(first_tag, piece, content)
        for given in found:
            given.consumer_tag = consumer.tag
        process = self.process
        assert process is not None, f"{self.name} is given messages by a node that is down"
        self.world.look_at_deliveries(process, consumer, piece, found)
        self._tell(self.owner.delivered, self, found)

    def given(self, got: GotMessage) -> Given:
        """What a get brought."""
        return self._given(got.tag, got.piece, got.content)[0]

    def _given(self, tag: int, piece: Slice, content: bytes) -> list[Given]:
        key = None
        if isinstance(piece.queue, QuorumQueue):
            key = ConsumerKey(*piece.queue.session.key, piece.handle)
        found = enumerate(messages(content, piece.position, piece.count))
        return [Given(tag + at, piece, at, props, body, key) for at, (props, body) in found]

    def confirm(self, first: int, last: int, multiple: bool, ok: bool) -> None:
        self._tell(self.owner.confirmed, self, first, last, multiple, ok)

    def returned(self, run: Run, code: int, text: str) -> None:
        self._tell(self.owner.returned, self, [body for _, body in messages(run.content, 0, run.count)])

    def cancelled(self, consumer_tag: str) -> None:
        self._tell(self.owner.cancelled, self, consumer_tag)

    def timed_out(self, consumer_tag: str) -> None:
        self.cancelled(consumer_tag)


def ignore_blocked(why: str | None) -> None:
    """Publishers of a simulation do not wait for alarms."""
