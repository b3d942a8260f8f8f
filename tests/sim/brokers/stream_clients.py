"""The clients of the stream protocol in a world of brokers: writers, readers of chunks, their groups, the names under which
they store; and what must hold of them in the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from broker.stream_clients.consumer_groups import GroupKey
from tests.sim.brokers import invariants
from tests.sim.brokers.chunk_reader import ROLES, ChunkReader, LastChunkReader
from tests.sim.brokers.group_watch import WatchedGroup
from tests.sim.brokers.stored_names import StoredName
from tests.sim.brokers.stream_writer import StreamWriter
from tests.sim.plan import Ask

if TYPE_CHECKING:
    from tests.sim.brokers.world import BrokerWorld


class StreamClients:
    """Of one world."""

    def __init__(self, world: BrokerWorld) -> None:
        shape, names = world.shape, world.shape.stream_names
        self._world = world
        self.writers: list[StreamWriter] = []
        self.readers: list[ChunkReader] = []
        self._last: list[LastChunkReader] = []
        self._groups: dict[tuple[str, str], WatchedGroup] = {}
        self._stored: dict[tuple[str, str], StoredName] = {}
        if names:
            self.writers += [StreamWriter(world, at, names[at % len(names)]) for at in range(1, shape.writers + 1)]
            self.readers += [
                ChunkReader(world, at, names[at % len(names)], ROLES[at % len(ROLES)])
                for at in range(1, shape.chunk_readers + 1)
            ]

    def ask(self, ask: Ask) -> None:
        clients: list[StreamWriter] | list[ChunkReader] = self.writers if ask.kind == "write" else self.readers
        clients[(ask.client - 1) % len(clients)].ask(ask)

    def group_of(self, stream: str, name: str) -> WatchedGroup:
        world, about = self._world, self._world.streams.books[stream].about
        known = self._groups.get((stream, name))
        if known is None:
            known = self._groups[stream, name] = WatchedGroup(about, GroupKey("/", stream, name), world)
        return known

    def stored(self, stream: str, name: str) -> StoredName:
        book = self._world.streams.books[stream]
        return self._stored.setdefault((stream, name), StoredName(book, name))

    # In the end

    def begin_to_end(self) -> None:
        """Everywhere all chunks are read once more."""
        for reader in self.readers:
            reader.is_in_a_hurry = True
        number = len(self.readers)
        for stream in self._world.shape.stream_names if self.readers else ():
            for site in self._world.present():
                number += 1
                self._last.append(LastChunkReader(self._world, number, stream, site))

    def what_is_left(self) -> Iterator[str]:
        """What has not come to its end yet."""
        yield from [f"{one.name} on node {one.site.number}" for one in self._last if not one.is_done]
        yield from [one.name for one in self.readers if not one.is_idle]

    @property
    def groups_without_reader(self) -> list[str]:
        return [one.key.name for one in self._groups.values() if len(one.reading()) != bool(one.served())]

    def judge(self) -> None:
        for group in self._groups.values():
            consumers = [one.connection.name for one in group.served()]
            reading = [one.connection.name for one in group.reading()]
            invariants.groups_have_a_reader(group.about, group.key.name, consumers, reading)
        for reader in [*self._last, *self.readers]:
            reading_now = reader.reading
            if reading_now is not None and not reading_now.is_over:
                book = reading_now.book
                following = book.end if reading_now.is_at_end else reading_now.next or 0
                invariants.readers_reach_the_end(book.about, reading_now.who, following, book.end)
        left = [reader.name for reader in self._last if not reader.is_done]
        assert not left, f"{left} could not begin to read"
        for reader in [*self._last, *self.readers]:
            reader.go()
