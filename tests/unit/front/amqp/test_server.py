"""AMQP over loopback sockets: pika talks to it, limits hold, and stopping tells clients why."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pika
import pytest
import trustme
import uvloop
from pamqp import commands, frame

from front.amqp.server import amqp_server
from front.amqp.terms import Limits
from front.sockets.client_server import ClientServer, ServerLimits
from native.content import encode
from tests.unit.front.amqp.client import IDENTITY, PLAIN, PROTOCOL_HEADER
from tests.unit.front.amqp.fakes import SECRET, FakeBroker, FakeQueue

# A client that asks for heartbeats every second and waits for nothing.
HANDSHAKE = (
    PROTOCOL_HEADER
    + frame.marshal(commands.Connection.StartOk({}, "PLAIN", PLAIN.decode(), "en_US"), 0)
    + frame.marshal(commands.Connection.TuneOk(2047, 131072, 1), 0)
    + frame.marshal(commands.Connection.Open("/"), 0)
)


class Running:
    """A server in a thread of its own, with its loop."""

    def __init__(
        self,
        *,
        tls: ssl.SSLContext | None = None,
        proxy_protocol: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> None:
        self.monotonic = monotonic
        self.loop = uvloop.new_event_loop()
        self.broker = FakeBroker(self.loop.call_soon)
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()
        self.server: ClientServer = self.call(self._start(tls, proxy_protocol, options))

    async def _start(self, tls: ssl.SSLContext | None, proxy_protocol: bool, options: dict[str, Any]) -> ClientServer:
        server = amqp_server(
            self.broker,  # type: ignore[arg-type]
            IDENTITY,
            wall_ms=lambda: time.time_ns() // 1_000_000,
            monotonic=self.monotonic,
            logger=logging.getLogger("test.amqp"),
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

    def pika(self, **more: Any) -> pika.BlockingConnection:
        return pika.BlockingConnection(
            pika.ConnectionParameters(
                "127.0.0.1", self.port, credentials=pika.PlainCredentials("guest", SECRET.decode()), **more
            )
        )

    def socket(self) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.port), timeout=10)


@pytest.fixture
def start() -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(**options: Any) -> Running:
        started.append(Running(**options))
        return started[-1]

    yield begin
    for one in started:
        one.stop()


def time_stands_still() -> float:
    """The clock of a server: no stranger has waited so long that it gives way to another one."""
    return 1_000.0


def read_to_end(sock: socket.socket) -> bytes:
    data = b""
    while True:
        try:
            piece = sock.recv(65536)
        except ConnectionResetError:
            return data
        if not piece:
            return data
        data += piece


def test_pika_publishes_consumes_and_acknowledges(start: Callable[..., Running]) -> None:
    running = start()
    connection = running.pika()
    channel = connection.channel()
    channel.queue_declare("orders")
    channel.confirm_delivery()
    for number in range(200):
        channel.basic_publish("", "orders", f"message {number}".encode())
    received = []
    for method, _, body in channel.consume("orders", inactivity_timeout=10):
        received.append(body)
        channel.basic_ack(method.delivery_tag)
        if len(received) == 200:
            break
    assert received == [f"message {number}".encode() for number in range(200)]
    connection.close()


def test_a_body_larger_than_all_buffers_goes_and_comes(start: Callable[..., Running]) -> None:
    running = start(
        limits=Limits(write_buffer_high_bytes=65_536), server_limits=ServerLimits(write_buffer_low_bytes=1024)
    )
    connection = running.pika()
    channel = connection.channel()
    channel.queue_declare("big")
    body = bytes(range(256)) * 32_000
    for _ in range(3):
        channel.basic_publish("", "big", body)
    channel.basic_consume("big", lambda *message: received.append(message[3] == body), auto_ack=True)
    received: list[bool] = []
    while len(received) < 3:
        connection.process_data_events(time_limit=1)
    assert received == [True, True, True]
    connection.close()


def test_a_client_that_asks_and_never_reads_is_not_read_from_either(start: Callable[..., Running]) -> None:
    running = start()
    one = encode(b"\x00\x00", bytes(1_000_000))
    queue = running.broker.queues["q"] = FakeQueue("q")
    queue.ready.extend([("", "q", one, False)] * 100)
    sock = running.socket()
    sock.sendall(HANDSHAKE + frame.marshal(commands.Channel.Open(), 1))
    for _ in range(100):
        sock.sendall(frame.marshal(commands.Basic.Get(queue="q", no_ack=True), 1))
    while not running.run(lambda: running.server.sockets):
        pass
    (held,) = running.run(lambda: list(running.server.sockets))
    deadline = time.monotonic() + 10
    while running.run(lambda: held._reading and queue.ready) and time.monotonic() < deadline:
        pass
    sizes = running.run(lambda: (held._transport.get_write_buffer_size(), held._core.pressure.unsent_bytes))
    assert sum(sizes) < 40_000_000, "twice what may wait, and a message"
    assert queue.ready, "some are not even fetched"
    received = 0
    while received < 100_000_000:
        received += len(sock.recv(1 << 20))
    assert not queue.ready
    sock.close()


def test_publishers_are_held_while_the_node_asks_for_it(start: Callable[..., Running]) -> None:
    running = start()
    publisher, consumer = running.pika(), running.pika()
    channel = publisher.channel()
    channel.basic_publish("", "nowhere", b"now it is a publisher")
    channel.basic_qos()
    running.run(lambda: running.server.hold_publishers(True))
    assert sorted(one._reading for one in running.server.sockets) == [False, True]
    consumer.channel().basic_qos()
    running.run(lambda: running.server.hold_publishers(False))
    channel.basic_qos()
    publisher.close()
    consumer.close()


def test_a_certificate_logs_in(start: Callable[..., Running]) -> None:
    authority = trustme.CA()
    server_side = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("localhost").configure_cert(server_side)
    authority.configure_trust(server_side)
    server_side.verify_mode = ssl.CERT_REQUIRED
    client_side = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.issue_cert("ann@example.org", common_name="ann").configure_cert(client_side)
    authority.configure_trust(client_side)
    running = start(tls=server_side)
    connection = pika.BlockingConnection(
        pika.ConnectionParameters(
            "localhost",
            running.port,
            credentials=pika.credentials.ExternalCredentials(),
            ssl_options=pika.SSLOptions(client_side, "localhost"),
        )
    )
    (client,) = running.broker.connections
    assert client.user == "ann"
    figures = client.statistics()
    assert (figures["tls"], figures["tls_protocol"], figures["peer_host"]) == (True, "TLSv1.3", "127.0.0.1")
    connection.channel().queue_declare("q")
    connection.close()


def test_wrong_password(start: Callable[..., Running]) -> None:
    running = start()
    with pytest.raises(pika.exceptions.ProbableAuthenticationError):
        pika.BlockingConnection(
            pika.ConnectionParameters("127.0.0.1", running.port, credentials=pika.PlainCredentials("guest", "no"))
        )


def test_an_answer_that_comes_later_is_sent_without_further_input(start: Callable[..., Running]) -> None:
    running = start()
    connection = running.pika()
    channel = connection.channel()
    running.broker.answers_later = True

    def answer() -> None:
        if not running.broker.pending:
            running.loop.call_later(0.001, answer)
        running.broker.answer_all()

    running.loop.call_soon_threadsafe(answer)
    assert channel.queue_declare("late").method.queue == "late"
    running.broker.answers_later = False
    connection.close()


def test_stopping_tells_clients_why(start: Callable[..., Running]) -> None:
    running = start()
    connection = running.pika()
    stopping = asyncio.run_coroutine_threadsafe(running.server.stop(), running.loop)
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        connection.process_data_events(time_limit=10)
    assert closed.value.reply_code == 320
    assert closed.value.reply_text == "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'"
    stopping.result(10)


def test_connections_beyond_the_limits_are_refused(start: Callable[..., Running]) -> None:
    running = start(
        server_limits=ServerLimits(connections=3, unauthenticated_connections=1), monotonic=time_stands_still
    )
    first = running.pika()
    second = running.socket()
    second.sendall(PROTOCOL_HEADER)
    assert second.recv(1), "one that is not logged in yet is allowed"
    assert read_to_end(running.socket()) == b"", "a second one is not"
    second.close()
    first.close()


def test_a_handshake_that_dawdles_is_ended(start: Callable[..., Running]) -> None:
    running = start(limits=Limits(handshake_timeout_s=0.1))
    sock = running.socket()
    sock.sendall(b"AMQP")
    began = time.monotonic()
    assert read_to_end(sock) == b""
    assert time.monotonic() - began < 5


def test_heartbeats_go_out_and_silence_ends_the_connection(start: Callable[..., Running]) -> None:
    running = start()
    sock = running.socket()
    began = time.monotonic()
    sock.sendall(HANDSHAKE)
    data = read_to_end(sock)
    assert 2 <= time.monotonic() - began < 8
    assert data.count(b"\x08\x00\x00\x00\x00\x00\x00\xce") >= 3


def test_a_client_that_vanishes_leaves_nothing(start: Callable[..., Running]) -> None:
    running = start()
    sock = running.socket()
    sock.sendall(HANDSHAKE + frame.marshal(commands.Channel.Open(), 1))
    while not running.run(lambda: running.broker.sessions):
        pass
    sock.close()
    deadline = time.monotonic() + 10
    while running.run(lambda: len(running.server.sockets)) and time.monotonic() < deadline:
        pass
    assert (running.broker.connections, running.broker.sessions) == ([], [])
    assert running.run(running.server.statistics) == {
        "connections": 0, "unauthenticated": 0, "opened_total": 1, "closed_total": 1, "refused_total": 0,
        "evicted_total": 0,
    }  # fmt: skip


def test_the_balancers_header_names_the_client(start: Callable[..., Running]) -> None:
    running = start(proxy_protocol=True)
    sock = running.socket()
    sock.sendall(b"PROXY TCP4 203.0.113.9 192.0.2.1 41000 5672\r\n" + PROTOCOL_HEADER)
    assert sock.recv(7)[0] == 1
    (one,) = running.run(lambda: list(running.server.sockets))
    assert one._core.peer.name == "203.0.113.9:41000 -> 192.0.2.1:5672"
    assert not one._core.peer.loopback
    sock.close()
    bad = running.socket()
    bad.sendall(PROTOCOL_HEADER)
    assert read_to_end(bad) == b""


def test_a_bug_costs_one_connection_and_not_the_node(start: Callable[..., Running], caplog: Any) -> None:
    running = start()
    other = running.pika()
    connection = running.pika()
    channel = connection.channel()
    running.broker.refuse["declare_queue"] = RuntimeError("a bug")  # type: ignore[assignment]
    with pytest.raises(pika.exceptions.ConnectionClosedByBroker) as closed:
        channel.queue_declare("q")
    assert (closed.value.reply_code, closed.value.reply_text) == (541, "INTERNAL_ERROR")
    running.broker.refuse.clear()
    other.channel().queue_declare("q")
    other.close()
