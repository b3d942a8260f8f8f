"""One message through a whole node in this process, and every function of ours that it passed, in order.

The node is the real one, with its disk, log and sockets; client and node share the event loop's thread, so that one profile
function sees all. What is compiled is not seen.
"""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from unittest.mock import patch

from pamqp import base, commands, frame, header, heartbeat

from node.assemble import Node
from node.config import Config, ListenSection, NodeSection
from storage.wal import fsync_times
from storage.wal import writer as wal_writer
from tests.tidy.sources import ROOT, SERVER

OURS = tuple(f"{ROOT / folder}/" for folder in SERVER)
QUEUE = "traced"
BODY = b"one book"
TIMEOUT_S = 30.0
TRACED = 3  # messages
# What a node does from time to time, whether a message comes or not.
TIMERS = frozenset(
    {
        "Node._tick",
        "ClientServer._sweep_timers",
        "Upkeep._run",
        "Groups._time_passed",
        "FailureDetector.take_signs",
    }
)
# A message of a classic queue passes no group of the consensus engine: what those do meanwhile is on their own behalf.
BESIDE_CLASSIC = TIMERS | {"Groups._turn"}

Call = tuple[str, str]  # file below the root, qualified name of the function


class Stopped:
    """The node's Process port: nothing may stop it here."""

    def stop(self, reason: str) -> None:
        raise AssertionError(f"the node stopped: {reason}")

    def fail(self, reason: str) -> None:
        self.stop(reason)


class Client:
    """Just enough AMQP to publish with confirms and to consume."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._bytes = b""

    def send(self, *frames: bytes) -> None:
        self._writer.write(b"".join(frames))

    async def receive(self) -> object:
        while True:
            size, _, found = frame.unmarshal(self._bytes) if self._is_whole() else (0, 0, None)
            if found is None:
                self._bytes += await self._reader.read(65_536)
                continue
            self._bytes = self._bytes[size:]
            if not isinstance(found, heartbeat.Heartbeat):
                return found

    def _is_whole(self) -> bool:
        return len(self._bytes) >= 8 and len(self._bytes) >= 8 + int.from_bytes(self._bytes[3:7], "big")

    def leave(self) -> None:
        self._writer.close()

    async def ask(self, request: base.Frame, channel: int, answer: type[base.Frame]) -> None:
        self.send(frame.marshal(request, channel))
        found = await self.receive()
        assert isinstance(found, answer), f"{request!r} was answered with {found!r}"


async def connected(address: str, arguments: dict[str, object] | None = None) -> Client:
    """A client with a channel in confirm mode that consumes from the queue, which has these arguments."""
    host, _, port = address.rpartition(":")
    client = Client(*await asyncio.open_connection(host, int(port)))
    client.send(b"AMQP\x00\x00\x09\x01")
    await client.receive()
    login = commands.Connection.StartOk(client_properties={}, mechanism="PLAIN", response="\0guest\0guest")
    await client.ask(login, 0, commands.Connection.Tune)
    client.send(frame.marshal(commands.Connection.TuneOk(2047, 131_072, 0), 0))
    await client.ask(commands.Connection.Open(virtual_host="/"), 0, commands.Connection.OpenOk)
    await client.ask(commands.Channel.Open(), 1, commands.Channel.OpenOk)
    await client.ask(commands.Confirm.Select(), 1, commands.Confirm.SelectOk)
    await client.ask(
        commands.Queue.Declare(queue=QUEUE, durable=True, arguments=arguments or {}), 1, commands.Queue.DeclareOk
    )
    await client.ask(commands.Basic.Consume(queue=QUEUE), 1, commands.Basic.ConsumeOk)
    return client


async def publish(client: Client) -> None:
    """One persistent message, until it has been confirmed and delivered."""
    properties = commands.Basic.Properties(delivery_mode=2)
    client.send(
        frame.marshal(commands.Basic.Publish(routing_key=QUEUE), 1),
        frame.marshal(header.ContentHeader(0, len(BODY), properties), 1),
        b"\x03\x00\x01" + len(BODY).to_bytes(4, "big") + BODY + b"\xce",
    )
    wanted: set[type] = {commands.Basic.Deliver, commands.Basic.Ack}
    while wanted:
        wanted.discard(type(await client.receive()))


def is_below(called: FrameType | None, functions: frozenset[str]) -> bool:
    """Whether one of these called it, however indirectly."""
    while called is not None:
        if called.f_code.co_qualname in functions:
            return True
        called = called.f_back
    return False


@contextmanager
def recorded(note: Callable[[Call], None], left_out: frozenset[str]) -> Iterator[None]:
    """Tell `note` of every call of a function of ours in this thread, in the order in which they begin."""

    def profile(called: FrameType, event: str, _: object) -> None:
        code = called.f_code
        if event == "call" and code.co_filename.startswith(OURS) and not is_below(called, left_out):
            note((str(Path(code.co_filename).relative_to(ROOT)), code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def a_quick_disk() -> Iterator[None]:
    """Small commits are written on the loop, as the page says, however busy this machine's disk is just now. What nobody waits
    for goes with the next of them: alone it would go to the thread, and one behind it with it."""
    with (
        patch.object(fsync_times, "INLINE_S_MAX", math.inf),
        patch.object(fsync_times, "STALL_AVOIDED_S", -math.inf),
        patch.object(wal_writer.LogWriter, "flush_lazy", lambda log: None),
    ):
        yield


async def calls_of_publishes(directory: Path) -> list[list[Call]]:
    """Start a node, publish some messages one by one, and return what was called between each and its confirm and delivery. A
    timer may fire meanwhile on a busy machine, so what one of them shows is not what a message needs."""
    local = ("127.0.0.1:0",)
    config = Config(
        node=NodeSection(data_dir=str(directory)), listen=ListenSection(amqp=local, stream=(), grpc=(), http=())
    )
    node = Node(config, Stopped())
    found: list[list[Call]] = [[] for _ in range(TRACED)]
    try:
        await node.start()
        async with asyncio.timeout(TIMEOUT_S):
            client = await connected(node.listeners[0].address)
            await publish(client)  # the first one also makes files, and fills what is remembered
            for calls in found:
                with a_quick_disk(), recorded(calls.append, BESIDE_CLASSIC):
                    await publish(client)
            client.leave()
    finally:
        await node.stop()
    return found
