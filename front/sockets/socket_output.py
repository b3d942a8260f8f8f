"""Writes the output of a connection to its socket, also what lies in files: that goes from the file to the socket (sendfile).

    all in memory     to the transport
    some in files     by ourselves, through a second descriptor of the socket, while the transport has nothing to write
    TLS               what lies in files is read, and goes to the transport with the rest

What the socket did not take waits here, and the transport is given nothing until it is gone: bytes cannot overtake each other.
The second descriptor exists because the event loop watches the transport's own.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence

from broker.messages.stored_bytes import Sendable, in_memory
from native.content import Buffer


class SocketOutput:
    """See the module."""

    __slots__ = ("_loop", "_on_broken", "_on_drained", "_plain", "_sent", "_socket", "_transport", "_waiting")

    def __init__(
        self, transport: asyncio.Transport, on_drained: Callable[[], None], on_broken: Callable[[OSError], None]
    ) -> None:
        """`on_drained` is told when what waited is gone; `on_broken` when that failed, and the connection is to end."""
        self._transport = transport
        self._on_drained = on_drained
        self._on_broken = on_broken
        self._loop = asyncio.get_running_loop()
        self._plain = transport.get_extra_info("ssl_object") is None
        self._socket: socket.socket | None = None  # the second descriptor, once it was needed
        self._waiting: deque[Sendable] = deque()
        self._sent = 0  # bytes of the first one

    def write(self, output: Sequence[Sendable]) -> bool:
        """False: some of it waits, and nothing else is to be written until `on_drained`. Raises OSError when the peer is gone
        or a file cannot be read."""
        assert not self._waiting, f"{len(self._waiting)} parts wait already"
        if not self._by_ourselves(output):
            self._transport.writelines([in_memory(part) for part in output])
            return True
        self._waiting.extend(output)
        return self._send()

    def hand_over(self, output: Sequence[Sendable]) -> None:
        """The last output of the connection: the transport writes it, and what waits, before it closes."""
        rest, self._waiting = [in_memory(part) for part in self._waiting], deque()
        if rest:
            rest[0] = memoryview(rest[0])[self._sent :]
        self.close()
        self._transport.writelines([*rest, *map(in_memory, output)])

    def close(self) -> None:
        """The connection is gone."""
        self._waiting.clear()
        if self._socket is not None:
            self._loop.remove_writer(self._socket)
            self._socket.close()
            self._socket = None
            self._plain = False

    def _by_ourselves(self, output: Sequence[Sendable]) -> bool:
        if not self._plain or all(isinstance(part, Buffer) for part in output):
            return False
        return self._transport.get_write_buffer_size() == 0 and self._has_descriptor()

    def _has_descriptor(self) -> bool:
        """Where there is none to be had, the transport does it."""
        if self._socket is None:
            try:
                self._socket = socket.socket(fileno=os.dup(self._transport.get_extra_info("socket").fileno()))
            except OSError:
                return False
            self._socket.setblocking(False)
        return True

    def _send(self) -> bool:
        """As much as the socket takes; whether that was all."""
        waiting = self._waiting
        assert self._socket is not None, "nothing to send to"
        try:
            while waiting:
                part = waiting[0]
                self._sent += self._send_some(self._socket, part, more=len(waiting) > 1)
                if self._sent == len(part):
                    waiting.popleft()
                    self._sent = 0
        except BlockingIOError:
            self._loop.add_writer(self._socket, self._writable)
        return not waiting

    def _send_some(self, to: socket.socket, part: Sendable, *, more: bool) -> int:
        if isinstance(part, Buffer):
            rest = memoryview(part)[self._sent :]
            return to.send(rest, socket.MSG_MORE if more else 0)
        return part.send_to(to.fileno(), self._sent)

    def _writable(self) -> None:
        assert self._socket is not None, "a closed socket is writable"
        self._loop.remove_writer(self._socket)
        try:
            if self._send():
                self._on_drained()
        except OSError as error:
            self._on_broken(error)
