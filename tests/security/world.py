"""A whole broker in this thread: real catalog, metadata, sessions, AMQP front; only disk, sockets, passwords are left out.

Everything answers at once, so a thousand cases take seconds. `World.connect` gives a `Line`, which speaks the wire's bytes.
"""

from __future__ import annotations

import itertools
from typing import Any

from broker.broker import Broker
from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.parts.catalog_limits import CatalogLimits
from broker.pending import Pending
from broker.records import PermissionRecord, UserRecord, VhostRecord
from broker.timers import Delays
from broker.turns import Turns
from front.amqp.connection import Connection
from front.amqp.terms import Identity, Limits
from front.sockets.peer import Peer
from tests.security import wire
from tests.security.memory_queues import MemoryQueues
from tests.security.wire import Reader, Said
from tests.unit.broker.catalog_at_once import CatalogAtOnce

NOW = 1_700_000_000_000
IDENTITY = Identity(cluster_name="world", version="0", platform="test")


class Believer:
    """Takes `right:<hash>` for the password of whoever has that hash."""

    def verify(self, user: UserRecord | None, password: bytes, name: str, source: str) -> Pending[bool]:
        return Pending.of(user is not None and password == f"right:{user.password_hash}".encode())


class World:
    """One broker with the queues of memory_queues.py."""

    def __init__(self, limits: CatalogLimits | None = None) -> None:
        self.catalog = Catalog(limits)
        self.metadata = CatalogAtOnce(self.catalog)
        chance = itertools.count()
        self.broker = Broker(
            node="world",
            catalog=self.catalog,
            metadata=self.metadata,
            authenticator=Believer(),
            turns=Turns(lambda end: None, lambda: NOW),
            tick_at=lambda when: None,
            delays=Delays(lambda: NOW, lambda delay_ms: None),
            random_bytes=lambda size: next(chance).to_bytes(size, "big"),
        )
        self.broker.add_kind(MemoryQueues(self.broker))
        self._ids = itertools.count(1)

    def submit(self, command: commands.Command) -> Any:
        """Apply a command and return its answer; raises what it was refused with."""
        answers: list[Any] = []
        errors: list[Exception] = []
        self.metadata.submit(command).then(answers.append, errors.append)
        if errors:
            raise errors[0]
        return answers[0]

    def add_vhost(self, name: str) -> None:
        self.submit(commands.PutVhost(VhostRecord(name)))

    def add_user(self, name: str, password_hash: str = "1", tags: tuple[str, ...] = ()) -> None:
        self.submit(commands.PutUser(UserRecord(name, password_hash, tags)))

    def permit(self, user: str, vhost: str, configure: str, write: str, read: str) -> None:
        self.submit(commands.PutPermission(PermissionRecord(user, vhost, configure, write, read)))

    def connect(self, user: str, vhost: str, password_hash: str = "1", limits: Limits | None = None) -> Line:
        line = Line(self, f"line-{next(self._ids)}", limits or Limits())
        line.log_in(user, vhost, password_hash)
        return line


class Line:
    """One client's connection: bytes to the front, frames back, turns in between as the AMQP server makes them."""

    def __init__(self, world: World, id_: str, limits: Limits) -> None:
        self.world = world
        peer = Peer(id=id_, name=id_, host="127.0.0.1", port=1, loopback=True)
        self.core = Connection(world.broker, self, peer, limits, IDENTITY, NOW)
        self._reader = Reader()

    def wake(self) -> None:
        pass

    def arm(self, seconds: float) -> None:
        pass

    def monotonic(self) -> float:
        return NOW / 1000

    def give(self, *data: bytes) -> list[Said]:
        """Bytes to the server; everything it says to that."""
        self.core.receive_data(b"".join(data), NOW)
        return self.take()

    def take(self) -> list[Said]:
        self.world.broker.end_turn()
        while self.core.proceed(NOW):
            self.world.broker.end_turn()
        return self._reader.feed(b"".join(self.core.data_to_send()))

    def log_in(self, user: str, vhost: str, password_hash: str) -> None:
        said = self.give(
            wire.PROTOCOL_HEADER,
            wire.start_ok(user, f"right:{password_hash}"),
            wire.tune_ok(),
            wire.method(0, "connection.open", virtual_host=vhost),
        )
        self.opened = said[-1].name == "connection.open-ok"
        self.last = said[-1]

    def call(self, channel: int, name: str, /, **arguments: Any) -> Said:
        """The last thing said after this method."""
        said = self.give(wire.method(channel, name, **arguments))
        assert said, f"nothing was said to {name}"
        return said[-1]
