"""The port Net (raft/transport.py) over gRPC: one stream for each other node, whichever of the two opened it.

What is sent gathers while the stream is busy and goes out as one message. There are two lanes, told apart by the first byte of
their letters; of what has gathered each has its part in every message, so neither waits for the other. What gathers is bounded:

    Raft's letters      beyond the bound, and as long as there is no stream, they are dropped, for Raft asks again and old
                        letters are of no use
    calls (CALLS)       none is dropped while the stream lives: beyond the bound the stream is ended. See node/peer_calls.py

A new stream takes the place of the one before; one of an earlier incarnation of the other node never does. What arrives on a
stream whose place was taken is not heard any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from logging import Logger
from typing import TYPE_CHECKING, Any, Protocol

import grpc.aio
from google.protobuf.message import DecodeError

from leveret.v1 import peer_pb2
from raft.errors import BadBytes
from raft.messages import NodeId

if TYPE_CHECKING:
    from node.peer_calls import CallEars

CALLS = 4  # first byte of a letter of the second lane; those of raft/transport.py have others
_CALLS_HEAD = bytes([CALLS])
LOOKS = 10  # at whether anything was heard


@dataclass(slots=True, frozen=True)
class LinkLimits:
    """Bytes, and seconds. `message_bytes_max` bounds what another node can make us read at once."""

    message_bytes_max: int = 64 << 20
    write_bytes: int = 1 << 20  # of each lane as many letters as fit go out as one message
    queue_bytes_max: int = 64 << 20  # of Raft's letters
    calls_bytes_max: int = 256 << 20
    silence_s_max: float = 10.0  # nodes say something several times a second (raft/failure_detector.py)


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
        self.call_ears: CallEars | None = None

    @property
    def connected(self) -> bool:
        return self._line is not None

    def send(self, letter: bytes) -> None:
        line = self._line
        if line is None or line.letters.bytes + len(letter) > self._limits.queue_bytes_max:
            self.dropped += 1
        else:
            line.send(line.letters, letter)

    def send_call(self, letter: bytes) -> None:
        """Nothing without a stream: whoever calls was told that it went."""
        line = self._line
        if line is None or line.ended:
            return
        line.send(line.calls, letter)
        if line.calls.bytes > self._limits.calls_bytes_max:
            self._logger.error("%d bytes of calls wait for node %d: its link is ended", line.calls.bytes, self.node)
            line.end()

    @property
    def calls_waiting(self) -> int:
        return self._line.calls.bytes if self._line is not None else 0

    async def carry(self, stream: Stream, incarnation: int) -> None:
        """Send and receive over this stream until it ends or another takes its place. Raises Outdated, and what
        the stream raises."""
        if incarnation < self._incarnation:
            raise Outdated(
                f"node {self.node} has called as incarnation {self._incarnation}, which is later than {incarnation}"
            )
        self._incarnation = incarnation
        line = _Line(stream, self._limits, self._drained)
        before, self._line = self._line, line
        if before is not None:
            before.end()
            self._calls_end()
        self._ears.connected(self.node)
        if self.call_ears is not None:
            self.call_ears.link_came(self.node)
        try:
            await line.run(lambda letter: self._receive(line, letter))
            if line.silent:
                self._logger.warning("node %d says nothing: its link is ended", self.node)
        except (BadBytes, DecodeError) as error:
            self._logger.error("node %d sends what cannot be read: %s", self.node, error)
        finally:
            if self._line is line:
                self._line = None
                self._calls_end()
                self._ears.disconnected(self.node)

    def end(self) -> None:
        if self._line is not None:
            self._line.end()

    def _receive(self, line: _Line, letter: bytes) -> None:
        if self._line is not line:
            return
        if self.call_ears is not None and letter[:1] == _CALLS_HEAD:
            self.call_ears.receive(self.node, letter)
        else:
            self._ears.receive(self.node, letter)

    def _calls_end(self) -> None:
        if self.call_ears is not None:
            self.call_ears.link_went(self.node)

    def _drained(self) -> None:
        if self.call_ears is not None:
            self.call_ears.drained(self.node)


class _Lane:
    """Letters that wait, in order."""

    __slots__ = ("bytes", "letters")

    def __init__(self) -> None:
        self.letters: deque[bytes] = deque()
        self.bytes = 0

    def add(self, letter: bytes) -> None:
        self.letters.append(letter)
        self.bytes += len(letter)

    def take(self, bytes_max: int) -> list[bytes]:
        """As many as fit, but at least one if there is one."""
        if not self.letters:
            return []
        taken = [self.letters.popleft()]
        size = len(taken[0])
        while self.letters and size + len(self.letters[0]) <= bytes_max:
            taken.append(self.letters.popleft())
            size += len(taken[-1])
        self.bytes -= size
        return taken


class _Line:
    """One stream while it is in use."""

    def __init__(self, stream: Stream, limits: LinkLimits, on_drained: Callable[[], None]) -> None:
        self._stream = stream
        self._write_bytes = limits.write_bytes
        self._silence_s_max = limits.silence_s_max
        self._on_drained = on_drained
        self._heard = 0  # messages
        self.silent = False
        self.letters = _Lane()
        self.calls = _Lane()
        self._idle: asyncio.Future[None] | None = None  # the writer waits here
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def send(self, lane: _Lane, letter: bytes) -> None:
        lane.add(letter)
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    @property
    def ended(self) -> bool:
        return self._ended.done()

    def end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    async def run(self, receive: Callable[[bytes], None]) -> None:
        """Until the stream breaks, the other side ends it or says nothing any more, or `end`. Raises what reading or writing
        raised."""
        parts = [asyncio.ensure_future(part) for part in (self._read(receive), self._write(), self._watch())]
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
            self._heard += 1
            for letter in message.letters:
                receive(letter)

    async def _watch(self) -> None:
        """Return when nothing was heard for long: a process that is stopped keeps its connections. When it is this one that was
        held up, that counts as one look."""
        silent_looks, heard = 0, 0
        while silent_looks < LOOKS:
            await asyncio.sleep(self._silence_s_max / LOOKS)
            silent_looks = silent_looks + 1 if self._heard == heard else 0
            heard = self._heard
        self.silent = True

    async def _write(self) -> None:
        loop, write = asyncio.get_running_loop(), self._stream.write
        while True:
            if not self.letters.letters and not self.calls.letters:
                self._idle = loop.create_future()
                await self._idle
                self._idle = None
            letters, calls = self.letters.take(self._write_bytes), self.calls.take(self._write_bytes)
            # A large letter of Raft may fill a message to the limit.
            together = sum([len(letter) for letter in letters]) <= self._write_bytes
            try:
                for some in (letters + calls,) if together else (letters, calls):
                    if some:
                        await write(peer_pb2.Letters(letters=some))
            except asyncio.InvalidStateError:
                return  # the stream has ended, and the reader has not been told yet
            if calls:
                self._on_drained()


class PeerLinks:
    """All of them; fulfils Net."""

    def __init__(self, limits: LinkLimits, logger: Logger) -> None:
        self.limits = limits
        self._logger = logger
        self._links: dict[NodeId, PeerLink] = {}
        self._call_ears: CallEars | None = None

    def add(self, node: NodeId, ears: Ears) -> PeerLink:
        assert node not in self._links, f"node {node} is added twice"
        link = self._links[node] = PeerLink(node, ears, self.limits, self._logger)
        link.call_ears = self._call_ears
        return link

    def remove(self, node: NodeId) -> None:
        """It is no peer of ours any more: its stream ends, and it is not let in again."""
        link = self._links.pop(node)
        link.end()

    def hear_calls(self, ears: CallEars) -> None:
        """Before any stream is there: who hears of the second lane, also of links that are added later."""
        self._call_ears = ears
        for link in self._links.values():
            assert not link.connected, f"node {link.node} is connected, and nobody has heard it"
            link.call_ears = ears

    def link(self, node: NodeId) -> PeerLink | None:
        """None: this node is no peer of ours."""
        return self._links.get(node)

    def send(self, node: NodeId, letter: bytes) -> None:
        link = self._links.get(node)
        if link is not None:
            link.send(letter)

    def send_call(self, node: NodeId, letter: bytes) -> None:
        link = self._links.get(node)
        if link is not None:
            link.send_call(letter)

    def calls_waiting(self, node: NodeId) -> int:
        """Bytes."""
        link = self._links.get(node)
        return link.calls_waiting if link is not None else 0

    def close(self) -> None:
        with suppress(RuntimeError):  # the loop is closed already
            for link in self._links.values():
                link.end()
