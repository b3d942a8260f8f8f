"""Publishers of the stream protocol beside those of AMQP (workload.py), and what a stream owes them.

One has no name, and sends each number once. The other has a name: with each life of the node it says again what was not
confirmed, and some of what was, under the same numbers, and the stream must have each of them once. It also has offsets
stored: what the node has answered once may never be less.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.crash.workload import SIZES, WINDOW, Address, PublisherHistory, payload
from wire.stream import stream_commands as commands
from wire.stream.command_frames import decode_frame, encode_frame, frame_end
from wire.stream.command_keys import ResponseCode
from wire.stream.publish_frame import pack_ids, unpack_ids

REPEATED = 20  # confirmed messages that the publisher with a name says again
TIMEOUT_S = 60.0
READER = "crash reader"
_PUBLISHER = 1
_BODY = b"\0Su\xb0"  # an AMQP 1.0 message: one data section


class Refused(Exception):
    """The node answered with this code, or closed the connection."""


class StreamSocket:
    """A logged in connection of the stream protocol."""

    def __init__(self, address: Address) -> None:
        self._socket = socket.create_connection(address, timeout=TIMEOUT_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = b""
        self.call(commands.PeerPropertiesRequest(1, {}))
        self.call(commands.SaslHandshakeRequest(2))
        self.call(commands.SaslAuthenticateRequest(3, "PLAIN", b"\0guest\0guest"))
        self.send(commands.Tune(1 << 20, 0))
        self.call(commands.OpenRequest(4, "/"))

    def send(self, command: commands.Command) -> None:
        self._socket.sendall(encode_frame(command))

    def call(self, request: Any) -> Any:
        """Its answer; for connections on which nothing else comes. Raises Refused."""
        self.send(request)
        while True:
            for command in self.receive():
                if getattr(command, "correlation", None) == request.correlation:
                    if getattr(command, "code", ResponseCode.OK) != ResponseCode.OK:
                        raise Refused(f"{type(request).__name__}: {command.code!r}")
                    return command

    def fileno(self) -> int:
        """For a selector."""
        return self._socket.fileno()

    def send_bytes(self, frames: bytes | memoryview) -> None:
        self._socket.sendall(frames)

    def receive_bytes(self, count: int) -> bytes:
        """What has come, for those who cut it into frames themselves. Raises Refused."""
        data = self._socket.recv(count)
        if not data:
            raise Refused("the node has closed the connection")
        return data

    def receive(self) -> list[Any]:
        """At least one byte more, and the commands that are whole then."""
        self._received += self.receive_bytes(1 << 16)
        found, at = [], 0
        while (end := frame_end(self._received, at, 0)) is not None:
            found.append(decode_frame(self._received[at + 4 : end]))
            at = end
        self._received = self._received[at:]
        return found

    def close(self) -> None:
        self._socket.close()


@dataclass
class StoredOffset:
    """What the node has answered to be stored, over all its lives."""

    answered: int = -1


class StreamPublisher(threading.Thread):
    """As workload.Publisher, of the stream protocol. `stored` makes it the one with a name."""

    def __init__(
        self, address: Address, stream: str, history: PublisherHistory, seed: int, stored: StoredOffset | None = None
    ) -> None:
        super().__init__(name=history.name, daemon=True)
        self._address = address
        self._stream = stream
        self._history = history
        self._random = random.Random(seed)
        self._stored = stored
        self._told_to_stop = threading.Event()
        self._power_is_off = threading.Event()
        self._asked = 0  # the correlation id of the question whose answer has not come
        self.confirmed_now = 0
        self.progress = threading.Event()  # set at each confirm

    def stop(self) -> None:
        self._told_to_stop.set()

    def power_goes_off(self) -> None:
        """As workload.Publisher."""
        self._power_is_off.set()

    def run(self) -> None:
        try:
            self._publish(StreamSocket(self._address))
        except (OSError, Refused):
            return  # the node's end is what this is about; what was not confirmed stays open
        finally:
            self.progress.set()

    def _publish(self, node: StreamSocket) -> None:
        history = self._history
        reference = history.name if self._stored is not None else ""
        node.call(commands.DeclarePublisherRequest(5, _PUBLISHER, reference, self._stream))
        again = range(max(1, len(history.confirmed) - REPEATED), history.sent + 1) if reference else range(0)
        open_numbers: set[int] = set()
        self._send(node, again, open_numbers)
        while not self._told_to_stop.is_set() or open_numbers:
            if len(open_numbers) < WINDOW and not self._told_to_stop.is_set():
                burst = self._random.randint(1, WINDOW - len(open_numbers))
                first, history.sent = history.sent + 1, history.sent + burst
                self._send(node, range(first, first + burst), open_numbers)
            received = node.receive()
            if self._power_is_off.is_set():
                return
            for command in received:
                self._take(command, open_numbers)
            self._store(node)

    def _send(self, node: StreamSocket, numbers: range, open_numbers: set[int]) -> None:
        if not numbers:
            return
        entries = b"".join([pack_ids([number]) + self._item(number) for number in numbers])
        open_numbers.update(numbers)
        node.send(commands.PublishFrame(1, _PUBLISHER, len(numbers), entries))

    def _item(self, number: int) -> bytes:
        body = payload(self._history.name, number, self._random.choice(SIZES))
        message = _BODY + len(body).to_bytes(4, "big") + body
        return len(message).to_bytes(4, "big") + message

    def _take(self, command: Any, open_numbers: set[int]) -> None:
        if isinstance(command, commands.PublishConfirm):
            numbers = unpack_ids(command.ids)
            self._history.confirmed.update(numbers)
            open_numbers.difference_update(numbers)
            self.confirmed_now += len(numbers)
            self.progress.set()
        elif isinstance(command, commands.QueryOffsetResponse) and command.code == ResponseCode.OK:
            assert self._stored is not None, "an answer that nobody asked for"
            self._stored.answered, self._asked = max(self._stored.answered, command.offset), 0
        else:
            raise Refused(f"waiting for confirms: {command!r}")

    def _store(self, node: StreamSocket) -> None:
        if self._stored is not None and not self._asked and self._history.confirmed:
            self._asked = 6
            node.send(commands.StoreOffsetCommand(READER, self._stream, len(self._history.confirmed)))
            node.send(commands.QueryOffsetRequest(self._asked, READER, self._stream))


def judge_kept(address: Address, stream: str, named: PublisherHistory, stored: StoredOffset) -> list[str]:
    """What is wrong with what the stream has of the publisher's name and of the stored offset, in sentences."""
    node = StreamSocket(address)
    last = node.call(commands.PublisherSequenceRequest(7, named.name, stream)).sequence
    offset = node.call(commands.QueryOffsetRequest(8, READER, stream)).offset if stored.answered >= 0 else -1
    node.close()
    return list(kept_wrongly(stream, named, last, stored, offset))


def kept_wrongly(stream: str, named: PublisherHistory, last: int, stored: StoredOffset, offset: int) -> Iterable[str]:
    confirmed = max(named.confirmed, default=0)
    if not confirmed <= last <= named.sent:
        yield f"{stream}: knows {named.name} up to {last}; {confirmed} were confirmed, {named.sent} sent"
    if offset < stored.answered:
        yield f"{stream}: {stored.answered} was stored, and now it is {offset}"
