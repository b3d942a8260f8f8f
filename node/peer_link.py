"""The port Net (raft/transport.py) over gRPC: one stream for each other node, whichever of the two opened it.

What is sent gathers while the stream is busy and goes out as one message. What gathers is bounded: beyond the bound, and as
long as there is no stream, letters are dropped, for Raft asks again and old letters are of no use. A new stream takes the
place of the one before; one of an earlier incarnation of the other node never does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from logging import Logger
from typing import Any, Protocol

import grpc.aio
from google.protobuf.message import DecodeError

from leveret.v1 import peer_pb2
from raft.errors import BadBytes
from raft.messages import NodeId


@dataclass(slots=True, frozen=True)
class LinkLimits:
    """Bytes. `message_bytes_max` bounds what another node can make us read at once."""

    message_bytes_max: int = 64 << 20
    write_bytes: int = 1 << 20  # as many letters as fit go out as one message
    queue_bytes_max: int = 64 << 20


class Stream(Protocol):
    """Either side of a gRPC stream."""

    async def read(self) -> Any: ...

    async def write(self, message: Any) -> None: ...


class Ears(Protocol):
    """Who is told what links hear: raft/groups.py."""

    def receive(self, node: NodeId, letter: bytes) -> None: ...

    def connected(self, node: NodeId) -> None: ...

    def disconnected(self, node: NodeId) -> None: ...


class Outdated(Exception):
    """A later process of the same node has called already."""


class PeerLink:
    """The way to one other node."""

    def __init__(self, node: NodeId, ears: Ears, limits: LinkLimits, logger: Logger) -> None:
        self.node = node
        self.dropped = 0  # letters, for whoever counts them
        self._ears = ears
        self._limits = limits
        self._logger = logger
        self._incarnation = 0
        self._line: _Line | None = None

    @property
    def connected(self) -> bool:
        return self._line is not None

    def send(self, letter: bytes) -> None:
        line = self._line
        if line is None or line.queued_bytes + len(letter) > self._limits.queue_bytes_max:
            self.dropped += 1
        else:
            line.send(letter)

    async def carry(self, stream: Stream, incarnation: int) -> None:
        """Send and receive over this stream until it ends or another takes its place. Raises Outdated, and what
        the stream raises."""
        if incarnation < self._incarnation:
            raise Outdated(
                f"node {self.node} has called as incarnation {self._incarnation}, which is later than {incarnation}"
            )
        self._incarnation = incarnation
        line = _Line(stream, self._limits.write_bytes)
        before, self._line = self._line, line
        if before is not None:
            before.end()
        self._ears.connected(self.node)
        try:
            await line.run(self._receive)
        except (BadBytes, DecodeError) as error:
            self._logger.error("node %d sends what cannot be read: %s", self.node, error)
        finally:
            if self._line is line:
                self._line = None
                self._ears.disconnected(self.node)

    def end(self) -> None:
        if self._line is not None:
            self._line.end()

    def _receive(self, letter: bytes) -> None:
        self._ears.receive(self.node, letter)


class _Line:
    """One stream while it is in use."""

    def __init__(self, stream: Stream, write_bytes: int) -> None:
        self._stream = stream
        self._write_bytes = write_bytes
        self._queue: deque[bytes] = deque()
        self.queued_bytes = 0
        self._idle: asyncio.Future[None] | None = None  # the writer waits here
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self, letter: bytes) -> None:
        self._queue.append(letter)
        self.queued_bytes += len(letter)
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def run(self, receive: Callable[[bytes], None]) -> None:
        """Until the stream breaks, the other side ends it, or `end`. Raises what reading or writing raised."""
        parts = [asyncio.ensure_future(self._read(receive)), asyncio.ensure_future(self._write())]
        try:
            await asyncio.wait([*parts, self._ended], return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            results = await asyncio.gather(*parts, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _read(self, receive: Callable[[bytes], None]) -> None:
        read, end = self._stream.read, grpc.aio.EOF
        while (message := await read()) is not end:
            for letter in message.letters:
                receive(letter)

    async def _write(self) -> None:
        loop, queue, write = asyncio.get_running_loop(), self._queue, self._stream.write
        while True:
            if not queue:
                self._idle = loop.create_future()
                await self._idle
                self._idle = None
            try:
                await write(peer_pb2.Letters(letters=self._take()))
            except asyncio.InvalidStateError:
                return  # the stream has ended, and the reader has not been told yet

    def _take(self) -> list[bytes]:
        letters = [self._queue.popleft()]
        size = len(letters[0])
        while self._queue and size + len(self._queue[0]) <= self._write_bytes:
            letters.append(self._queue.popleft())
            size += len(letters[-1])
        self.queued_bytes -= size
        return letters


class PeerLinks:
    """All of them; fulfils Net."""

    def __init__(self, limits: LinkLimits, logger: Logger) -> None:
        self.limits = limits
        self._logger = logger
        self._links: dict[NodeId, PeerLink] = {}

    def add(self, node: NodeId, ears: Ears) -> PeerLink:
        assert node not in self._links, f"node {node} is added twice"
        link = self._links[node] = PeerLink(node, ears, self.limits, self._logger)
        return link

    def link(self, node: NodeId) -> PeerLink | None:
        """None: this node is no peer of ours."""
        return self._links.get(node)

    def send(self, node: NodeId, letter: bytes) -> None:
        link = self._links.get(node)
        if link is not None:
            link.send(letter)

    def close(self) -> None:
        with suppress(RuntimeError):  # the loop is closed already
            for link in self._links.values():
                link.end()
