"""A client's connection, in virtual time: what is said takes a moment to arrive, in both directions, and is lost with the
connection.

The client's side never runs within an event of a node: a node that dies in the middle of an event has told nobody anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from broker.client_connection import Connection
from broker.errors import BrokerError
from broker.pending import Pending

if TYPE_CHECKING:
    from tests.sim.brokers.process import BrokerProcess
    from tests.sim.brokers.site import BrokerSite
    from tests.sim.brokers.world import BrokerWorld

WAY_S = 0.0004  # from a client to its node, and back


class Door(Protocol):
    """What a client asks of its node, in one protocol."""

    closed: bool  # by the node, which takes nothing from the client any more


class ConnectionOwner(Protocol):
    """Who uses a connection. Told in the order in which the node said it; nothing any more once it is lost."""

    def opened(self, connection: Any, /) -> None: ...

    def lost(self, connection: Any, why: str, /) -> None:
        """The connection, or its door, is gone."""


OwnerT = TypeVar("OwnerT", bound=ConnectionOwner)
DoorT = TypeVar("DoorT", bound=Door)


class ClientConnection(Generic[OwnerT, DoorT]):
    """See the module. Of one protocol each, whose door to the broker is opened by `_enter`."""

    door: DoorT  # of an open one

    def __init__(self, world: BrokerWorld, owner: OwnerT, site: BrokerSite, name: str) -> None:
        self.world = world
        self.owner = owner
        self.site = site
        self.name = name
        self.is_open = False
        self.is_lost = False
        self.is_writable = True
        self._life = site.life
        self.process: BrokerProcess | None = None  # that it is connected to
        world.channels.append(self)
        self.say(self._open)

    def _enter(self, process: BrokerProcess) -> DoorT:
        """The node has accepted the connection."""
        raise NotImplementedError

    @property
    def writable(self) -> bool:
        """As each sink says it."""
        return self.is_writable

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
        what: Callable[[Any, int], Pending[Any]],
        on_value: Callable[[Any], None],
        on_error: Callable[[BrokerError], None],
    ) -> None:
        """Something that is answered: one of the two is told, unless the connection is lost before."""
        self.say(self._ask, what, on_value, on_error)

    # Within events of the node

    def _do(self, what: Callable[..., object], args: tuple[Any, ...]) -> None:
        if self.is_lost or (what != self._open and (self.site.process is not self.process or not self.is_open)):
            return
        if what != self._open and self.door.closed:
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
        self.door = self._enter(process)
        self.is_open = True
        self._tell(self.owner.opened, self)

    def _close(self) -> None:
        if self.process is not None and self.site.process is self.process:
            self.process.broker.connection_closed(self._connection, self.now)

    def _refuse(self, error: BrokerError) -> None:
        """The node closes the connection."""
        if self.process is not None:
            self.process.loop.call_soon(self._close)
        self.world.loop.call_later(WAY_S, self.lose, error.text)

    def _ask(
        self,
        what: Callable[[Any, int], Pending[Any]],
        on_value: Callable[[Any], None],
        on_error: Callable[[BrokerError], None],
    ) -> None:
        def refused(error: BrokerError) -> None:
            self._tell(on_error, error)

        try:
            what(self.door, self.now).then(lambda value: self._tell(on_value, value), refused)
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


def ignore_blocked(why: str | None) -> None:
    """Publishers of a simulation do not wait for alarms."""
