"""A client for tests of the AMQP front: pamqp is the other side's codec, so nothing of ours checks itself."""

from __future__ import annotations

import struct
from typing import Any

from pamqp import base, body, commands, frame, header, heartbeat

from front.amqp.connection import Connection
from front.amqp.terms import Identity, Limits
from front.sockets.peer import Peer
from tests.unit.front.amqp.fakes import SECRET, FakeBroker

NOW = 1_700_000_000_000
IDENTITY = Identity(cluster_name="leveret@test", version="0.1.0", platform="Python 3.11")
PEER = Peer(id="amqp-1", name="127.0.0.1:50000 -> 127.0.0.1:5672", host="127.0.0.1", port=50000, loopback=True)
PROTOCOL_HEADER = b"AMQP\x00\x00\x09\x01"
CAPABILITIES = {
    "authentication_failure_close": True,
    "connection.blocked": True,
    "consumer_cancel_notify": True,
}
ACCESS_REQUEST_OK = b"\x00\x1e\x00\x0b"
PLAIN = b"\x00guest\x00" + SECRET


class Outside:
    """Notes what the connection asks for."""

    def __init__(self) -> None:
        self.woken = 0
        self.armed = 0.0
        self.seconds = 100.0

    def wake(self) -> None:
        self.woken += 1

    def arm(self, seconds: float) -> None:
        self.armed = seconds

    def monotonic(self) -> float:
        return self.seconds


class Client:
    """Drives one Connection as a socket would, without one."""

    def __init__(
        self,
        broker: FakeBroker | None = None,
        *,
        limits: Limits | None = None,
        peer: Peer = PEER,
        identity: Identity = IDENTITY,
        chunk: int = 0,
    ) -> None:
        self.broker = broker or FakeBroker()
        self.outside = Outside()
        self.core = Connection(self.broker, self.outside, peer, limits or Limits(), identity, NOW)  # type: ignore[arg-type]
        self.chunk = chunk  # give bytes in pieces of this size; 0: as they are
        self.received = b""

    def give(self, data: bytes) -> list[Any]:
        """Bytes to the server; returns what it answers, decoded."""
        step = self.chunk or max(1, len(data))
        for start in range(0, len(data), step):
            self.core.receive_data(data[start : start + step], NOW)
        return self.take()

    def take(self) -> list[Any]:
        """What the server has to say at the end of a turn."""
        self.broker.pump(NOW)
        while self.core.proceed(NOW):
            self.broker.pump(NOW)
        self.received += b"".join(self.core.data_to_send())
        return self.decoded()

    def decoded(self) -> list[Any]:
        said: list[Any] = []
        while self.received and not self.received.startswith(b"AMQP"):
            if self.received[7:11] == ACCESS_REQUEST_OK:  # pamqp does not know it
                consumed, channel, value = 14, self.received[2], "access.request-ok"
            else:
                consumed, channel, value = frame.unmarshal(self.received)
            assert consumed, f"an incomplete frame: {self.received!r}"
            self.received = self.received[consumed:]
            said.append((channel, value))
        if self.received:
            said.append((0, self.received))
            self.received = b""
        return said

    def say(self, channel: int, *values: Any) -> list[Any]:
        return self.give(b"".join(frame.marshal(value, channel) for value in values))

    def connect(self, **properties: Any) -> Client:
        """The whole handshake, and channel 1 open."""
        self.give(PROTOCOL_HEADER)
        properties.setdefault("capabilities", CAPABILITIES)
        self.say(0, commands.Connection.StartOk(properties, "PLAIN", PLAIN.decode(), "en_US"))
        self.say(0, commands.Connection.TuneOk(2047, 131072, 60))
        said = self.say(0, commands.Connection.Open("/"))
        assert said and isinstance(said[-1][1], commands.Connection.OpenOk), f"not connected: {said}"
        self.say(1, commands.Channel.Open())
        return self


def publish(routing_key: str, payload: bytes, channel: int = 1, exchange: str = "", **more: Any) -> bytes:
    """The frames of one message."""
    properties = commands.Basic.Properties(**more.pop("properties", {}))
    return b"".join(
        [
            frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=routing_key, **more), channel),
            frame.marshal(header.ContentHeader(0, len(payload), properties), channel),
            *(
                frame.marshal(body.ContentBody(payload[start : start + 131_064]), channel)
                for start in range(0, len(payload), 131_064)
            ),
        ]
    )


def raw_frame(kind: int, channel: int, payload: bytes, end: int = 0xCE) -> bytes:
    return struct.pack(">BHI", kind, channel, len(payload)) + payload + bytes([end])


def shown(said: list[Any]) -> list[tuple[int, Any]]:
    """What was said, in a form that compares and prints well."""
    result: list[tuple[int, Any]] = []
    for channel, value in said:
        if isinstance(value, base.Frame):
            result.append((channel, (value.name, dict(value))))
        elif isinstance(value, header.ContentHeader):
            result.append((channel, ("header", value.body_size)))
        elif isinstance(value, body.ContentBody):
            result.append((channel, ("body", value.value)))
        elif isinstance(value, heartbeat.Heartbeat):
            result.append((channel, "heartbeat"))
        else:
            result.append((channel, value))
    return result


def names(said: list[Any]) -> list[str]:
    return [value.name if isinstance(value, base.Frame) else type(value).__name__ for _, value in said]


def start_ok(response: bytes = PLAIN, mechanism: str = "PLAIN", capabilities: Any = CAPABILITIES) -> Any:
    return commands.Connection.StartOk({"capabilities": capabilities}, mechanism, response.decode("latin-1"), "en_US")


def close_of(said: list[Any]) -> tuple[int, str, int, int]:
    closes = [value for _, value in said if isinstance(value, commands.Connection.Close)]
    assert closes, f"connection.close was expected: {shown(said)}"
    return closes[0].reply_code, closes[0].reply_text, closes[0].class_id, closes[0].method_id
