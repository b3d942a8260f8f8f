"""A client for tests of the stream protocol: drives one connection as a socket would, without one."""

from __future__ import annotations

from collections.abc import Callable

from front.sockets.peer import Peer
from front.stream.connection import StreamConnection
from front.stream.stream_terms import PROTOCOL, StreamIdentity, StreamLimits
from tests.unit.front.stream.fakes import SECRET, FakeStreams
from wire.stream.command_fields import VersionRange
from wire.stream.command_frames import decode_frame, encode_frame, frame_end
from wire.stream.command_keys import CLIENT_VERSIONS
from wire.stream.stream_commands import (
    Command,
    ExchangeVersionsRequest,
    OpenRequest,
    OpenResponse,
    PeerPropertiesRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
    Tune,
)

NOW = 1_700_000_000_000
IDENTITY = StreamIdentity(
    "leveret@test", "0.1.0", "Python 3.11", lambda tls: "here.test:5551" if tls else "here.test:5552"
)
PEER = Peer(
    id="stream-1",
    name="127.0.0.1:50000 -> 127.0.0.1:5552",
    host="127.0.0.1",
    port=50000,
    loopback=True,
    protocol=PROTOCOL,
)
PLAIN = b"\x00guest\x00" + SECRET
HANDSHAKE: tuple[Command, ...] = (
    PeerPropertiesRequest(1, {"product": "test"}),
    SaslHandshakeRequest(2),
    SaslAuthenticateRequest(3, "PLAIN", PLAIN),
    Tune(1_048_576, 60),
    OpenRequest(4, "/"),
)


class Outside:
    """Notes what the connection asks for."""

    def __init__(self) -> None:
        self.woken = 0
        self.armed = 0.0
        self.next_round: list[Callable[[], None]] = []
        self.seconds = 100.0

    def wake(self) -> None:
        self.woken += 1

    def soon(self, call: Callable[[], None]) -> None:
        self.next_round.append(call)

    def arm(self, seconds: float) -> None:
        self.armed = seconds

    def monotonic(self) -> float:
        return self.seconds


class StreamClient:
    """`core` is the server's side."""

    def __init__(
        self,
        broker: FakeStreams | None = None,
        *,
        limits: StreamLimits | None = None,
        peer: Peer = PEER,
        piece: int = 0,
    ) -> None:
        self.broker = broker or FakeStreams()
        self.outside = Outside()
        self.core = StreamConnection(self.broker, self.outside, peer, limits or StreamLimits(), IDENTITY, NOW)  # type: ignore[arg-type]
        self.piece = piece  # give bytes in pieces of this size; 0: as they are
        self.received = b""

    def give(self, data: bytes) -> list[Command]:
        """Bytes to the server; returns what it says."""
        step = self.piece or max(1, len(data))
        for start in range(0, len(data), step):
            self.core.receive_data(data[start : start + step], NOW)
        return self.take()

    def say(self, *commands: Command) -> list[Command]:
        return self.give(b"".join(map(encode_frame, commands)))

    def take(self) -> list[Command]:
        """What the server has to say at the end of a turn."""
        self.broker.pump(NOW)
        while self.core.proceed(NOW) or self.outside.next_round:
            for call in self.outside.next_round:
                call()
            self.outside.next_round.clear()
            self.broker.pump(NOW)
        self.received += b"".join(self.core.data_to_send())
        said: list[Command] = []
        while (end := frame_end(self.received, 0, 0)) is not None:
            said.append(decode_frame(self.received[4:end]))
            self.received = self.received[end:]
        return said

    def elapse(self, seconds: float | None = None) -> list[Command]:
        """Time passes, up to what is armed."""
        self.outside.seconds += self.outside.armed if seconds is None else seconds
        self.core.timer_elapsed(NOW)
        return self.take()

    def connect(self, heartbeat_s: int = 60, deliver: int = 2) -> StreamClient:
        """The whole handshake."""
        said: list[Command] = []
        for command in HANDSHAKE:
            said = self.say(command._replace(heartbeat_s=heartbeat_s) if isinstance(command, Tune) else command)
        assert any(isinstance(one, OpenResponse) and one.code == 1 for one in said), f"not connected: {said}"
        if deliver == 2:
            versions = [VersionRange(key, low, high) for key, (low, high) in CLIENT_VERSIONS.items()]
            self.say(ExchangeVersionsRequest(5, tuple(versions)))
        return self
