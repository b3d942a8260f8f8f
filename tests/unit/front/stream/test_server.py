"""The stream protocol over loopback sockets: clients are answered, none holds up the others, stopping tells them why."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest
import trustme
import uvloop

from broker.turns import Turns
from front.sockets.client_server import ClientServer
from front.stream.server import stream_server
from front.stream.stream_terms import StreamLimits
from tests.unit.front.stream.client import HANDSHAKE, IDENTITY
from tests.unit.front.stream.fakes import FakeStream, FakeStreams, entries
from wire.stream.command_fields import OffsetSpec
from wire.stream.command_frames import decode_frame, encode_frame, frame_end
from wire.stream.command_keys import OffsetKind, ResponseCode
from wire.stream.publish_frame import unpack_ids
from wire.stream.stream_commands import (
    CloseRequest,
    Command,
    DeclarePublisherRequest,
    DeliverFrame,
    HeartbeatCommand,
    OpenRequest,
    OpenResponse,
    PublishConfirm,
    PublishFrame,
    StandardResponse,
    SubscribeRequest,
    Tune,
)


class Running:
    """A server in a thread of its own, with its loop."""

    def __init__(self, *, tls: ssl.SSLContext | None = None, proxy_protocol: bool = False, **options: Any) -> None:
        self.loop = uvloop.new_event_loop()
        self.broker = FakeStreams()
        self.broker.streams["s"] = FakeStream()
        self.turns = Turns(self.loop.call_soon, lambda: time.time_ns() // 1_000_000)
        self.broker.woken = lambda: self.turns.wake(self.broker)  # type: ignore[arg-type]
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server: ClientServer = self.call(self._start(tls, proxy_protocol, options))

    async def _start(self, tls: ssl.SSLContext | None, proxy_protocol: bool, options: dict[str, Any]) -> ClientServer:
        server = stream_server(
            self.broker,  # type: ignore[arg-type]
            self.turns,
            IDENTITY,
            wall_ms=lambda: time.time_ns() // 1_000_000,
            monotonic=time.monotonic,
            logger=logging.getLogger("test.stream"),
            **options,
        )
        self.port = await server.listen("127.0.0.1", 0, tls, proxy_protocol=proxy_protocol)
        return server

    def call(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def run(self, function: Callable[[], Any]) -> Any:
        """Call something in the server's thread."""
        done: Future[Any] = Future()
        self.loop.call_soon_threadsafe(lambda: done.set_result(function()))
        return done.result(10)

    def stop(self) -> None:
        self.call(self.server.stop())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)
        self.loop.close()

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)

    def client(self, **more: Any) -> Client:
        return Client(self.socket(), **more)


class Client:
    """A connection that is open, or is about to be refused."""

    def __init__(self, sock: socket.socket, heartbeat_s: int = 60, handshake: tuple[Command, ...] = HANDSHAKE) -> None:
        self.sock = sock
        self.received = b""
        for command in handshake:
            self.say(command._replace(heartbeat_s=heartbeat_s) if isinstance(command, Tune) else command)
            if not isinstance(command, Tune):  # which the server has said before
                self.hear(OpenResponse if isinstance(command, OpenRequest) else None)

    def say(self, *commands: Command) -> None:
        self.sock.sendall(b"".join(map(encode_frame, commands)))

    def hear(self, kind: type[Any] | None = None) -> Any:
        """The next command, or the next of this kind. Raises EOFError."""
        while True:
            end = frame_end(self.received, 0, 0)
            if end is None:
                data = self.sock.recv(1 << 20)
                if not data:
                    raise EOFError
                self.received += data
                continue
            command, self.received = decode_frame(self.received[4:end]), self.received[end:]
            if kind is None or isinstance(command, kind):
                return command

    def ends(self) -> bool:
        """The server closes, whatever it says before."""
        try:
            while True:
                self.hear()
        except (EOFError, ConnectionError):
            return True

    def publish_to(self, stream: str) -> None:
        self.say(DeclarePublisherRequest(9, 0, "", stream))
        assert self.hear(StandardResponse).code == ResponseCode.OK


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(**options: Any) -> Running:
        started.append(Running(**options))
        return started[-1]

    yield begin
    for one in started:
        one.stop()


def published(count: int) -> PublishFrame:
    return PublishFrame(1, 0, count, entries(*[(id_, b"x") for id_ in range(1, count + 1)]))


def test_what_is_published_is_confirmed_and_delivered(start: Callable[..., Running]) -> None:
    client = start().client()
    client.publish_to("s")
    client.say(published(100))
    assert unpack_ids(client.hear(PublishConfirm).ids) == tuple(range(1, 101))
    client.say(SubscribeRequest(2, 1, "s", OffsetSpec(OffsetKind.FIRST), 10))
    assert client.hear(DeliverFrame).chunk == b"chunk 0+100"


def test_a_client_inside_tls(start: Callable[..., Running]) -> None:
    authority = trustme.CA()
    ours, theirs = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("localhost").configure_cert(ours)
    authority.configure_trust(theirs)
    running = start(tls=ours)
    client = Client(theirs.wrap_socket(running.socket(), server_hostname="localhost"))
    client.publish_to("s")
    (one,) = running.run(lambda: list(running.broker.connections))
    assert one.statistics()["tls"]
    assert (one.id, one.protocol) == ("stream-1", "stream")


def test_a_tls_hello_on_the_plain_port_is_told_in_the_log(start: Callable[..., Running], caplog: Any) -> None:
    sock = start().socket()
    with caplog.at_level(logging.WARNING), pytest.raises((OSError, ssl.SSLError)):
        ssl.create_default_context().wrap_socket(sock, server_hostname="localhost")
    assert "a TLS hello on a plain port" in caplog.text


def test_the_balancers_header_names_the_client(start: Callable[..., Running]) -> None:
    running = start(proxy_protocol=True)
    sock = running.socket()
    sock.sendall(b"PROXY TCP4 203.0.113.9 192.0.2.1 41000 5552\r\n")
    Client(sock)
    (one,) = running.run(lambda: list(running.broker.connections))
    assert one.name == "203.0.113.9:41000 -> 192.0.2.1:5552"


def test_publishers_are_held_while_the_node_asks_for_it(start: Callable[..., Running]) -> None:
    running = start()
    publisher, other = running.client(), running.client()
    publisher.publish_to("s")
    running.run(lambda: running.server.hold_publishers(True))
    publisher.say(published(1))
    other.say(DeclarePublisherRequest(1, 0, "", "s"))
    assert other.hear(StandardResponse).code == ResponseCode.OK, "it did not publish yet"
    assert running.run(lambda: running.broker.streams["s"].chunks) == []
    running.run(lambda: running.server.hold_publishers(False))
    publisher.hear(PublishConfirm)


def test_stopping_breaks_connections_so_that_clients_connect_again_elsewhere(start: Callable[..., Running]) -> None:
    running = start()
    client = running.client()
    stopping = asyncio.run_coroutine_threadsafe(running.server.stop(), running.loop)
    with pytest.raises(EOFError):
        client.hear(CloseRequest)
    stopping.result(10)


def test_who_says_nothing_is_let_go(start: Callable[..., Running]) -> None:
    running = start(limits=StreamLimits(step_timeout_s=0.1))
    assert Client(running.socket(), handshake=HANDSHAKE[:1]).ends()


def test_heartbeats_go_out_and_silence_ends_the_connection(start: Callable[..., Running]) -> None:
    client = start().client(heartbeat_s=1)
    began = time.monotonic()
    assert client.hear(HeartbeatCommand) == HeartbeatCommand()
    assert client.ends()
    assert 2 <= time.monotonic() - began < 8


def test_a_client_that_vanishes_leaves_nothing(start: Callable[..., Running]) -> None:
    running = start()
    client = running.client()
    assert running.run(lambda: len(running.broker.connections)) == 1
    client.sock.close()
    deadline = time.monotonic() + 10
    while running.run(lambda: len(running.server.sockets)) and time.monotonic() < deadline:
        pass
    assert running.run(lambda: running.broker.connections) == []
    assert running.run(running.server.statistics)["closed_total"] == 1


def test_a_bug_costs_one_connection_and_not_the_node(start: Callable[..., Running]) -> None:
    running = start()
    other, client = running.client(), running.client()
    running.broker.refuse["declare_publisher"] = RuntimeError("a bug")  # type: ignore[assignment]
    client.say(DeclarePublisherRequest(1, 0, "", "s"))
    assert client.hear(CloseRequest).code == ResponseCode.INTERNAL_ERROR
    running.broker.refuse.clear()
    other.publish_to("s")


def test_a_frame_with_a_run_for_each_message_lets_others_come_first(start: Callable[..., Running]) -> None:
    """80,000 messages of one frame were handled in one turn; everybody else waited for a second."""
    running = start(limits=StreamLimits(outstanding_messages_max=0))
    hostile, other = running.client(), running.client()
    hostile.publish_to("s")
    count = 80_000
    behind_each_other = b"".join([struct.pack(">QI", count - place, 0) for place in range(count)])
    hostile.say(PublishFrame(1, 0, count, behind_each_other))
    while not running.run(lambda: len(running.broker.streams["s"].chunks)):
        pass
    other.publish_to("s")
    assert running.run(lambda: len(running.broker.streams["s"].chunks)) < count
    confirmed = 0
    while confirmed < count:
        confirmed += len(hostile.hear(PublishConfirm).ids) // 8
