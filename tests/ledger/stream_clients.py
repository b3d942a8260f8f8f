"""Clients of a stream while its nodes are killed, and what they write down.

A publisher of AMQP has no name, so it never says a message twice, and does not know what became of one that was not answered.
One with a name, over gRPC, asks where it was, and goes on behind that: what it says again the stream has to know. A reader
stores offsets, each above the one before.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from pamqp import commands

import leveret
from tests.chaos.amqp import Client, Gone, Refused, connect
from tests.chaos.backend import Address
from tests.ledger.busy_client import AGAIN_S, BATCH_MAX, CONFIRMED_WITHIN_S, CREDENTIALS, STEPS_MAX

FILLING = 400  # bytes of a body: retention cuts by size
ASK_WITHIN_S = 5.0


@dataclass(slots=True)
class StreamNote:
    """One message, as its publisher knows it."""

    publisher: str  # of the messages of one the order is known
    sent_at: float
    confirmed_at: float | None = None


@dataclass(slots=True)
class StreamNotes:
    """What clients of one stream wrote down. Messages in the order in which they were first said."""

    stream: str
    messages: dict[str, StreamNote] = field(default_factory=dict)
    named: dict[str, list[str]] = field(default_factory=dict)  # by reference: bodies, of which the first has number 1
    asked_to_store: dict[str, int] = field(default_factory=dict)  # by reference: the last that may be stored
    stored: dict[str, int] = field(default_factory=dict)  # and that surely is
    kills: int = 0  # of nodes

    def not_seen(self) -> list[str]:
        """What each run has to have: without it nothing was compared, whatever the log tells."""
        confirmed = {body for body, note in self.messages.items() if note.confirmed_at is not None}
        named = {body for said in self.named.values() for body in said}
        there = {
            "a kill of a node": bool(self.kills),
            "a confirm of a publisher without a name": bool(confirmed - named),
            "a confirm of one with a name": bool(confirmed & named),
            "an offset that is stored": bool(self.stored),
        }
        return [f"{self.stream}: nobody has seen {what}" for what, is_there in there.items() if not is_there]


class StreamWorker:
    """One client, at one node after the other. Runs as a task until told to stop."""

    def __init__(self, name: str, notes: StreamNotes, nodes: Mapping[str, Address], random: Random) -> None:
        self.steps = 0  # that came to their end
        self.is_stopping = False
        self._name = name
        self._notes = notes
        self._nodes = nodes
        self._random = random
        self._work: Callable[[Address], Awaitable[None]]

    async def run(self) -> None:
        nodes = self._in_turn()
        while not self.is_stopping:
            with suppress(Gone, Refused, leveret.LeveretError):
                await self._work(self._nodes[next(nodes)])
            await asyncio.sleep(AGAIN_S)

    def _in_turn(self) -> Iterator[str]:
        names = sorted(self._nodes)
        at = self._random.randrange(len(names))
        while True:
            yield names[at % len(names)]
            at += 1

    def _bodies(self, publisher: str, first: int) -> list[str]:
        """New ones, noted as said now."""
        numbers = range(first, first + self._random.randint(1, BATCH_MAX))
        made = [f"{publisher}.{number}.{'x' * FILLING}" for number in numbers]
        for body in made:
            self._notes.messages[body] = StreamNote(publisher, time.time())
        return made


class NamelessPublisher(StreamWorker):
    """Over AMQP. Each of its connections is a publisher of its own: what an old one said may come late."""

    def __init__(self, name: str, notes: StreamNotes, nodes: Mapping[str, Address], random: Random) -> None:
        super().__init__(name, notes, nodes, random)
        self._lives = 0
        self._open: dict[int, str] = {}
        self._work = self._publish

    async def _publish(self, address: Address) -> None:
        self._lives += 1
        self._open, publisher, said = {}, f"{self._name}/{self._lives}", 0
        client = await connect(address, CREDENTIALS)
        self._news = asyncio.Event()  # something was confirmed, or nothing will be
        client.ended.add_done_callback(lambda _: self._news.set())
        client.on_confirm = self._confirmed
        try:
            await client.call(commands.Confirm.Select(), "Confirm.SelectOk")
            for _ in range(self._random.randint(1, STEPS_MAX)):
                for body in self._bodies(publisher, said):
                    self._open[client.publish("", self._notes.stream, body.encode(), commands.Basic.Properties())] = (
                        body
                    )
                    said += 1
                await self._confirms(client)
                if self._open or self.is_stopping:
                    break
                self.steps += 1
        finally:
            client.abort()

    async def _confirms(self, client: Client) -> None:
        """Until all have come, or none will."""
        with suppress(TimeoutError):
            async with asyncio.timeout(CONFIRMED_WITHIN_S):
                while self._open and not client.ended.done():
                    self._news.clear()
                    await self._news.wait()

    def _confirmed(self, tag: int, multiple: bool, taken: bool) -> None:
        self._news.set()
        for number in [one for one in self._open if one <= tag] if multiple else [tag]:
            body = self._open.pop(number)
            if taken:
                self._notes.messages[body].confirmed_at = time.time()


class NamedPublisher(StreamWorker):
    """Over gRPC. It does not leave before all that it has said is confirmed."""

    def __init__(self, name: str, notes: StreamNotes, nodes: Mapping[str, Address], random: Random) -> None:
        super().__init__(name, notes, nodes, random)
        self._said = notes.named.setdefault(name, [])
        self._work = self._publish

    async def run(self) -> None:
        nodes = self._in_turn()
        while not self.is_stopping or any(self._notes.messages[body].confirmed_at is None for body in self._said):
            with suppress(leveret.LeveretError):
                await self._publish(self._nodes[next(nodes)])
            await asyncio.sleep(AGAIN_S)

    async def _publish(self, address: Address) -> None:
        async with leveret.connect(target(address), timeout_s=ASK_WITHIN_S) as node:
            publisher = await node.stream(self._notes.stream).publisher(reference=self._name)
            known = publisher.next_number - 1
            self._confirm(self._said[:known])
            async with publisher:
                for _ in range(self._random.randint(1, STEPS_MAX)):
                    again = self._said[known:]
                    if not self.is_stopping:
                        self._said += self._bodies(self._name, len(self._said))
                    await publisher.publish_many([body.encode() for body in self._said[known:]])
                    self._confirm([*again, *self._said[known:]])
                    known = len(self._said)
                    self.steps += 1

    def _confirm(self, bodies: list[str]) -> None:
        for body in bodies:
            note = self._notes.messages[body]
            note.confirmed_at = note.confirmed_at or time.time()


class StoringReader(StreamWorker):
    """Stores an offset, and then a higher one."""

    def __init__(self, name: str, notes: StreamNotes, nodes: Mapping[str, Address], random: Random) -> None:
        super().__init__(name, notes, nodes, random)
        self._work = self._store

    async def _store(self, address: Address) -> None:
        async with leveret.connect(target(address), timeout_s=ASK_WITHIN_S) as node:
            stream = node.stream(self._notes.stream)
            for _ in range(self._random.randint(1, STEPS_MAX)):
                if self.is_stopping:
                    break
                offset = self._notes.asked_to_store.get(self._name, -1) + 1
                self._notes.asked_to_store[self._name] = offset
                await stream.store_offset(self._name, offset)
                self._notes.stored[self._name] = offset
                self.steps += 1


def target(address: Address) -> str:
    host, port = address
    return f"{host}:{port}"


async def all_of(stream: str, address: Address) -> dict[int, str]:
    """By offset, what a reader of this node finds."""
    found: dict[int, str] = {}
    async with leveret.connect(target(address), timeout_s=ASK_WITHIN_S) as node:
        begin: int | str = "first"
        while messages := await node.stream(stream).browse(begin, limit=500):
            found |= {one.offset: one.body.decode() for one in messages}
            begin = messages[-1].offset + 1
    return found
