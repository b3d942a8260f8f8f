"""The client's side of AMQP for tests that must be able to say what no client library would.

Methods are named as the protocol names them, and arguments that are not given are zero. `Reader` takes apart what a server
says; `Peer` is a socket with both. Nothing waits longer than TIMEOUT_S.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field
from typing import Any

from wire.amqp import spec
from wire.amqp.tables import encode_table

TIMEOUT_S = 20.0
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
METHOD, HEADER, BODY, HEARTBEAT = 1, 2, 3, 8
FRAME_END = 0xCE
CAPABILITIES = {"authentication_failure_close": True, "consumer_cancel_notify": True, "connection.blocked": True}
HEADERS_FLAG = 0x2000
_ZERO: dict[str, Any] = {"bit": False, "shortstr": "", "longstr": b"", "table": {}}


def frame(kind: int, channel: int, payload: bytes) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes((FRAME_END,))


def method(channel: int, name: str, /, **arguments: Any) -> bytes:
    """One method frame."""
    zeros = {part: _ZERO.get(step.kind, 0) for step in spec.METHODS[name].steps for part in step.names}
    return frame(METHOD, channel, spec.encode(name, **{**zeros, **arguments}))


def content_header(channel: int, body_bytes: int, headers: dict[str, Any] | None = None, class_id: int = 60) -> bytes:
    properties = struct.pack(">H", HEADERS_FLAG if headers else 0) + (encode_table(headers) if headers else b"")
    return frame(HEADER, channel, struct.pack(">HHQ", class_id, 0, body_bytes) + properties)


def publish(
    channel: int,
    exchange: str,
    routing_key: str,
    body: bytes = b"m",
    headers: dict[str, Any] | None = None,
    **more: Any,
) -> bytes:
    """The frames of one small message."""
    start = method(channel, "basic.publish", exchange=exchange, routing_key=routing_key, **more)
    return start + content_header(channel, len(body), headers) + (frame(BODY, channel, body) if body else b"")


def start_ok(user: str, password: str, **more: Any) -> bytes:
    arguments = {
        "client_properties": {"capabilities": CAPABILITIES},
        "mechanism": "PLAIN",
        "response": f"\0{user}\0{password}".encode(),
        "locale": "en_US",
    }
    return method(0, "connection.start-ok", **{**arguments, **more})


def tune_ok(channel_max: int = 2047, frame_max: int = 131_072, heartbeat: int = 0) -> bytes:
    return method(0, "connection.tune-ok", channel_max=channel_max, frame_max=frame_max, heartbeat=heartbeat)


@dataclass(slots=True)
class Said:
    """One frame of the server."""

    channel: int
    name: str  # of the method; header, body or heartbeat for other frames
    arguments: dict[str, Any] = field(default_factory=dict)
    payload: bytes = b""

    @property
    def code(self) -> int:
        return int(self.arguments.get("reply_code", 0))

    @property
    def text(self) -> str:
        return str(self.arguments.get("reply_text", ""))


class Reader:
    """Bytes in, whole frames out."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[Said]:
        self._rest += data
        said = []
        while len(self._rest) >= 8:
            if self._rest.startswith(b"AMQP"):
                said.append(Said(0, "protocol-header", payload=self._rest[:8]))
                self._rest = self._rest[8:]
                continue
            kind, channel, size = struct.unpack_from(">BHI", self._rest)
            if len(self._rest) < size + 8:
                break
            said.append(_said(kind, channel, self._rest[7 : 7 + size]))
            self._rest = self._rest[size + 8 :]
        return said


def _said(kind: int, channel: int, payload: bytes) -> Said:
    if kind != METHOD:
        return Said(channel, {HEADER: "header", BODY: "body", HEARTBEAT: "heartbeat"}[kind], payload=payload)
    named = spec.method_of(payload)
    return Said(channel, named.name, spec.decode(named, payload), payload)


class Peer:
    """A raw connection to a node."""

    def __init__(self, address: tuple[str, int], timeout_s: float = TIMEOUT_S) -> None:
        self.socket = socket.create_connection(address, timeout=timeout_s)
        self._reader = Reader()
        self._said: list[Said] = []

    def __enter__(self) -> Peer:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, *data: bytes) -> None:
        self.socket.sendall(b"".join(data))

    def next(self) -> Said | None:
        """The next frame, or None when the server has hung up. Heartbeats are passed over."""
        while True:
            while not self._said:
                try:
                    data = self.socket.recv(262_144)
                except ConnectionResetError:
                    return None
                if not data:
                    return None
                self._said = self._reader.feed(data)
            said = self._said.pop(0)
            if said.name != "heartbeat":
                return said

    def expect(self, *names: str) -> Said:
        """The next frame, which must be one of these."""
        said = self.next()
        assert said is not None, f"the server hung up instead of saying {' or '.join(names)}"
        assert said.name in names, f"{said.name} {said.arguments} instead of {' or '.join(names)}"
        return said

    def closed_with(self) -> Said | None:
        """What the server says as it closes the connection; None if it just hangs up. Everything else is passed over."""
        while (said := self.next()) is not None:
            if said.name in ("connection.close", "protocol-header"):
                return said
        return None

    def hung_up(self) -> bool:
        while self.next() is not None:
            pass
        return True

    def start(self) -> Said:
        self.send(PROTOCOL_HEADER)
        return self.expect("connection.start")

    def log_in(self, user: str = "guest", password: str = "guest", vhost: str = "/", **tune: int) -> None:
        """As far as connection.open-ok."""
        self.start()
        self.send(start_ok(user, password))
        self.expect("connection.tune")
        self.send(tune_ok(**tune), method(0, "connection.open", virtual_host=vhost))
        self.expect("connection.open-ok")

    def open_channel(self, channel: int = 1) -> None:
        self.send(method(channel, "channel.open"))
        self.expect("channel.open-ok")

    def call(self, channel: int, name: str, /, **arguments: Any) -> Said:
        """Send a method and return the answer, whatever it is."""
        self.send(method(channel, name, **arguments))
        said = self.next()
        assert said is not None, f"the server hung up on {name}"
        return said
