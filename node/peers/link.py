"""The port Net (raft/transport.py) over TCP or TLS: one connection to each other node, whichever of the two opened it.

What is sent leaves at once, as long as the system takes it; who sends has gathered what belongs together (raft/groups.py for a
round, node/peers/calls.py for a turn). What the system does not take gathers here. There are two queues, told apart by the
first byte of their letters; of what has gathered each has its part in every write, so neither waits for the other. It is
bounded:

    Raft's letters      beyond the bound, and as long as there is no connection, they are dropped, for Raft asks again and
                        old letters are of no use
    calls (CALLS)       none is dropped while the connection lives: beyond the bound it is ended. See node/peers/calls.py

A new connection takes the place of the one before; one of an earlier incarnation of the other node never does. What arrives on
a connection whose place was taken is not heard any more.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from logging import Logger
from typing import Protocol

from front.sockets.busy_poll import BusyPoll
from node.peers.frames import WrongChecksum
from node.peers.socket import PeerSocket
from raft.core.errors import BadBytes
from raft.core.messages import NodeId
from raft.transport import Ears, Letter, letter_bytes
from storage.disk import Buffer

CALLS = 4  # first byte of a letter of the second queue; those of raft/transport.py have others
_CALLS_HEAD = bytes([CALLS])
LOOKS = 10  # at whether anything was heard


@dataclass(slots=True, frozen=True)
class LinkLimits:
    """Bytes, and seconds. `message_bytes_max` bounds what another node can make us read at once."""

    message_bytes_max: int = 64 << 20
    write_bytes: int = 256 << 10  # of each queue as many waiting letters as fit go out with one write
    queue_bytes_max: int = 64 << 20  # of Raft's letters
    calls_bytes_max: int = 256 << 20
    silence_s_max: float = 10.0  # nodes say something several times a second (raft/failure_detector.py)


class Outdated(Exception):
    """A later process of the same node has called already."""


class Silent(Exception):
    """Nothing was heard for long."""


class HandlerFailed(Exception):
    """This node failed to handle what another one said, and cannot go on with their link. The log says why."""


class CallEars(Protocol):
    """Who is told what links hear of calls."""

    def receive(self, node: NodeId, letter: bytes) -> None:
        """Never raises for what it says; where it says nothing of sense the link is ended."""

    def link_came(self, node: NodeId) -> None: ...

    def link_went(self, node: NodeId) -> None: ...

    def drained(self, node: NodeId) -> None:
        """Letters have left."""


class PeerLink:
    """The way to one other node."""

    def __init__(self, node: NodeId, ears: Ears, limits: LinkLimits, logger: Logger) -> None:
        self.node = node
        self.dropped = 0  # letters, for whoever counts them
        self.wrong_checksums = 0  # connections that ended because bytes were changed on their way
        self._ears = ears
        self._limits = limits
        self._logger = logger
        self._incarnation = 0
        self._line: _Line | None = None
        self.call_ears: CallEars | None = None
        self.busy_poll: BusyPoll | None = None

    @property
    def connected(self) -> bool:
        return self._line is not None

    def send(self, letter: Letter) -> None:
        line = self._line
        size = len(letter) if type(letter) is bytes else letter_bytes(letter)  # no further call for most
        if line is None or line.letters.bytes + size > self._limits.queue_bytes_max:
            self.dropped += 1
        else:
            line.send(line.letters, letter)

    def send_call(self, letter: bytes) -> None:
        """Nothing without a connection: whoever calls was told that it went."""
        line = self._line
        if line is None or line.socket.ending:
            return
        line.send(line.calls, letter)
        if line.calls.bytes > self._limits.calls_bytes_max:
            self._logger.error("%d bytes of calls wait for node %d: its link is ended", line.calls.bytes, self.node)
            line.end()

    @property
    def calls_waiting(self) -> int:
        return self._line.calls.bytes if self._line is not None else 0

    def must_be_current(self, incarnation: int) -> None:
        """Raises Outdated."""
        if incarnation < self._incarnation:
            raise Outdated(
                f"node {self.node} has called as incarnation {self._incarnation}, which is later than {incarnation}"
            )

    def carry(self, socket: PeerSocket, incarnation: int) -> None:
        """Send and receive over this connection from now on, until it ends or another takes its place. Raises Outdated."""
        self.must_be_current(incarnation)
        self._incarnation = incarnation
        line = _Line(socket, self._limits, self._drained)
        before, self._line = self._line, line
        if before is not None:
            before.end()
            self._calls_end()
        socket.accept_frames(self._limits.message_bytes_max)
        socket.check_frames()
        socket.on_frame = partial(self._receive, line)
        socket.busy_poll = self.busy_poll
        socket.on_writable = line.write_waiting
        socket.on_end = lambda: self._ended(line)
        self._ears.connected(self.node)
        if self.call_ears is not None:
            self.call_ears.link_came(self.node)

    def end(self, fault: Exception | None = None) -> None:
        if self._line is not None:
            self._line.end(fault)

    def _receive(self, line: _Line, letter: Buffer) -> None:
        if self._line is not line:
            return
        if self.call_ears is not None and letter[:1] == _CALLS_HEAD:
            self.call_ears.receive(self.node, bytes(letter))
        else:
            self._ears.receive(self.node, letter)

    def _ended(self, line: _Line) -> None:
        line.ended()
        match line.socket.fault:
            case WrongChecksum() as error:
                self.wrong_checksums += 1
                self._logger.error(
                    "what node %d sent did not arrive as it was: %s. Its link is begun anew", self.node, error
                )
            case BadBytes() as error:
                self._logger.error("node %d sends what cannot be read: %s", self.node, error)
            case HandlerFailed() as error:
                self._logger.error("the link to node %d is ended: %s", self.node, error)
            case Silent() as error:
                self._logger.warning("node %d %s: its link is ended", self.node, error)
            case None | OSError():
                pass  # who opened it says that it has ended
            case error:
                self._logger.error("what node %d says could not be handled", self.node, exc_info=error)
        if self._line is line:
            self._line = None
            self._calls_end()
            self._ears.disconnected(self.node)

    def _calls_end(self) -> None:
        if self.call_ears is not None:
            self.call_ears.link_went(self.node)

    def _drained(self) -> None:
        if self.call_ears is not None:
            self.call_ears.drained(self.node)


class _LetterQueue:
    """Letters that wait, in order."""

    __slots__ = ("bytes", "letters")

    def __init__(self) -> None:
        self.letters: deque[Letter] = deque()
        self.bytes = 0

    def add(self, letter: Letter) -> None:
        self.letters.append(letter)
        self.bytes += letter_bytes(letter)

    def take(self, bytes_max: int) -> list[Letter]:
        """As many as fit, but at least one if there is one."""
        if not self.letters:
            return []
        taken = [self.letters.popleft()]
        size = letter_bytes(taken[0])
        while self.letters and size + letter_bytes(self.letters[0]) <= bytes_max:
            taken.append(self.letters.popleft())
            size += letter_bytes(taken[-1])
        self.bytes -= size
        return taken


class _Line:
    """One connection while it is in use."""

    def __init__(self, socket: PeerSocket, limits: LinkLimits, on_drained: Callable[[], None]) -> None:
        self.socket = socket
        self.letters = _LetterQueue()
        self.calls = _LetterQueue()
        self._write_bytes = limits.write_bytes
        self._look_s = limits.silence_s_max / LOOKS
        self._on_drained = on_drained
        self._reads_seen = socket.reads
        self._silent_looks = 0
        self._looking = asyncio.get_running_loop().call_later(self._look_s, self._look)

    def send(self, queue: _LetterQueue, letter: Letter) -> None:
        socket = self.socket
        if socket.writable and not self.letters.letters and not self.calls.letters:
            socket.send_letter(letter)  # as nearly always: nothing waits
            if queue is self.calls:
                self._on_drained()
            return
        queue.add(letter)
        if socket.writable:
            self.write_waiting()

    def write_waiting(self) -> None:
        """As much as the system takes."""
        socket, calls_left = self.socket, False
        while socket.writable and (self.letters.letters or self.calls.letters):
            calls = self.calls.take(self._write_bytes)
            calls_left |= bool(calls)
            socket.send(self.letters.take(self._write_bytes) + calls)
        if calls_left:
            self._on_drained()

    def end(self, fault: Exception | None = None) -> None:
        self.socket.abort(fault)

    def ended(self) -> None:
        self._looking.cancel()

    def _look(self) -> None:
        """End the connection when nothing was heard for long: a process that is stopped keeps its connections. When it is
        this one that was held up, that counts as one look."""
        self._silent_looks = self._silent_looks + 1 if self.socket.reads == self._reads_seen else 0
        self._reads_seen = self.socket.reads
        if self._silent_looks == LOOKS:
            self.end(Silent(f"has said nothing for {self._look_s * LOOKS:g} s"))
        else:
            self._looking = asyncio.get_running_loop().call_later(self._look_s, self._look)


class PeerLinks:
    """All of them; fulfils Net."""

    def __init__(self, limits: LinkLimits, logger: Logger) -> None:
        self.limits = limits
        self._logger = logger
        self._links: dict[NodeId, PeerLink] = {}
        self._call_ears: CallEars | None = None
        self._busy_poll: BusyPoll | None = None
        self._wrong_checksums = 0  # of links that were removed

    def add(self, node: NodeId, ears: Ears) -> PeerLink:
        assert node not in self._links, f"node {node} is added twice"
        link = self._links[node] = PeerLink(node, ears, self.limits, self._logger)
        link.call_ears = self._call_ears
        link.busy_poll = self._busy_poll
        return link

    def remove(self, node: NodeId) -> None:
        """It is no peer of ours any more: its connection ends, and it is not let in again."""
        link = self._links.pop(node)
        self._wrong_checksums += link.wrong_checksums
        link.end()

    def hear_calls(self, ears: CallEars) -> None:
        """Before any connection is there: who hears of the second queue, also of links that are added later."""
        self._call_ears = ears
        for link in self._links.values():
            assert not link.connected, f"node {link.node} is connected, and nobody has heard it"
            link.call_ears = ears

    def poll_busily(self, poll: BusyPoll) -> None:
        """Connections that are made from now on tell it of their input."""
        self._busy_poll = poll
        for link in self._links.values():
            link.busy_poll = poll

    def link(self, node: NodeId) -> PeerLink | None:
        """None: this node is no peer of ours."""
        return self._links.get(node)

    def send(self, node: NodeId, letter: Letter) -> None:
        link = self._links.get(node)
        if link is not None:
            link.send(letter)

    def send_call(self, node: NodeId, letter: bytes) -> None:
        link = self._links.get(node)
        if link is not None:
            link.send_call(letter)

    def end_link(self, node: NodeId, fault: Exception) -> None:
        """For what it says."""
        link = self._links.get(node)
        if link is not None:
            link.end(fault)

    @property
    def wrong_checksums(self) -> int:
        """Connections that ended because bytes were changed on their way, since the start."""
        return self._wrong_checksums + sum([link.wrong_checksums for link in self._links.values()])

    def calls_waiting(self, node: NodeId) -> int:
        """Bytes."""
        link = self._links.get(node)
        return link.calls_waiting if link is not None else 0

    def close(self) -> None:
        with suppress(RuntimeError):  # the loop is closed already
            for link in self._links.values():
                link.end()
