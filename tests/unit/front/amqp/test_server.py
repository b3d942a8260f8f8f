"""The driver, over loopback sockets: pika talks to it, limits hold, and stopping tells clients why."""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pika
import pytest
import trustme
import uvloop
from pamqp import commands, frame

from front.amqp.input_share import BUSY_S, INPUT_S_MAX, INPUT_S_MIN, INPUT_TURN_S, InputShare
from front.amqp.server import (
    INPUT_BYTES,
    INPUT_BYTES_MIN,
    STRANGERS_INPUT_BYTES,
    AmqpServer,
    AmqpSocket,
    ServerLimits,
    _peer,
    printable,
)
from front.amqp.terms import Limits
from native.content import encode
from tests.unit.front.amqp.client import IDENTITY, PLAIN, PROTOCOL_HEADER
from tests.unit.front.amqp.fakes import SECRET, FakeBroker, FakeQueue
from wire.proxy_protocol import Proxied

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
        self.server: AmqpServer = self.call(self._start(tls, proxy_protocol, options))

    async def _start(self, tls: ssl.SSLContext | None, proxy_protocol: bool, options: dict[str, Any]) -> AmqpServer:
        server = AmqpServer(
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


@pytest.mark.parametrize(
    ("socket_host", "proxied_host", "loopback"),
    [
        ("127.0.0.1", None, True),
        ("::1", None, True),
        ("::ffff:127.0.0.1", None, True),
        ("192.0.2.7", None, False),
        ("::ffff:192.0.2.7", None, False),
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.1", "203.0.113.9", False),
        ("192.0.2.7", "127.0.0.1", False),
    ],
)
def test_who_is_local_is_decided_by_the_socket_and_the_header(
    socket_host: str, proxied_host: str | None, loopback: bool
) -> None:
    extra = {"peername": (socket_host, 50000), "sockname": ("192.0.2.1", 5672)}
    transport: Any = SimpleNamespace(get_extra_info=extra.get)
    proxied = Proxied(0, (proxied_host, 41000), ("192.0.2.1", 5672)) if proxied_host else None
    assert _peer(transport, "id", proxied, "common-name").loopback is loopback


def test_control_characters_of_clients_cannot_forge_log_lines() -> None:
    assert printable("a\r\nINFO b\x1b[2J é") == "a\\r\\nINFO b\\x1b[2J é"


def test_a_socket_reads_as_much_as_it_can_work_on_in_a_short_time() -> None:
    server: Any = SimpleNamespace(input=memoryview(bytearray(INPUT_BYTES)), input_share=InputShare(lambda call: call()))
    one = AmqpSocket(server, proxy_protocol=False, source="192.0.2.1")
    assert len(one.get_buffer(-1)) == STRANGERS_INPUT_BYTES
    one._logged_in = True
    for _ in range(10):
        one._adapt_input(len(one.get_buffer(-1)), INPUT_S_MAX / 10)
    assert len(one.get_buffer(-1)) == INPUT_BYTES, "cheap ones"
    one._adapt_input(INPUT_BYTES, 10 * INPUT_S_MAX)
    assert len(one.get_buffer(-1)) == INPUT_BYTES // 10
    one._adapt_input(1_000, INPUT_S_MAX / 10)
    assert len(one.get_buffer(-1)) == INPUT_BYTES // 10, "a short one says nothing"
    one._adapt_input(INPUT_BYTES // 10, 1_000 * INPUT_S_MAX)
    assert len(one.get_buffer(-1)) == INPUT_BYTES_MIN


def test_a_small_read_of_a_turn_that_is_used_up_tells_what_its_bytes_cost() -> None:
    """A socket that came late in each turn read a little at no risk, and then 128 KiB in the first turn that had room."""
    share = InputShare(lambda call: None)
    server: Any = SimpleNamespace(input=memoryview(bytearray(INPUT_BYTES)), input_share=share)
    one = AmqpSocket(server, proxy_protocol=False, source="192.0.2.1")
    one._logged_in = True
    for _ in range(10):
        one._adapt_input(len(one.get_buffer(-1)), INPUT_S_MAX / 10)
    share.worked(INPUT_TURN_S)
    small = len(one.get_buffer(-1))
    one._adapt_input(small // 2, INPUT_S_MAX / 4)
    assert one._input_bytes == INPUT_BYTES, "less than it might have read: what is dear in it may be one method"
    one._adapt_input(small, INPUT_S_MAX / 4)
    assert one._input_bytes == 4 * small


def test_sockets_that_are_busy_in_the_same_turn_share_it() -> None:
    """Twenty of them took 10 ms each, and the loop came to its timers after 200."""
    soon: list[Callable[[], None]] = []
    share = InputShare(soon.append)
    server: Any = SimpleNamespace(input=memoryview(bytearray(INPUT_BYTES)), input_share=share)
    sockets = [AmqpSocket(server, proxy_protocol=False, source="192.0.2.1") for _ in range(20)]
    byte_s = INPUT_S_MAX / INPUT_BYTES

    def turn(busy: list[AmqpSocket]) -> float:
        read = [(one, len(one.get_buffer(-1))) for one in busy]
        for one, nbytes in read:
            one._adapt_input(nbytes, nbytes * byte_s)
        for call in soon[:]:
            soon.remove(call)
            call()
        return sum(nbytes for _, nbytes in read) * byte_s

    for one in sockets:
        one._logged_in = True
    for _ in range(10):
        turn(sockets[:1])
    assert INPUT_S_MAX / 2 <= turn(sockets[:1]) <= INPUT_S_MAX, "one that is alone"
    for _ in range(10):
        turn(sockets)
    assert INPUT_TURN_S / 4 < turn(sockets) <= INPUT_TURN_S
    for _ in range(10):
        turn(sockets[:1])
    assert turn(sockets[:1]) >= INPUT_S_MAX / 4, "alone again"
    share.worked(INPUT_TURN_S)
    assert len(sockets[1].get_buffer(-1)) == INPUT_BYTES_MIN, "others have used up the turn"
    soon.pop()()
    share.worked(BUSY_S / 2)
    assert not soon, "who has little to say is not counted"
    for _ in range(1000):
        share.worked(BUSY_S)
    soon.pop()()
    assert share.seconds == INPUT_S_MIN


def test_after_a_full_read_a_socket_rests_until_the_next_turn() -> None:
    """Others would wait for 32 reads otherwise: so many libuv makes in one turn while they come back full."""
    done: list[str] = []
    transport = SimpleNamespace(
        is_closing=lambda: False,
        pause_reading=lambda: done.append("pause"),
        resume_reading=lambda: done.append("resume"),
    )
    server: Any = SimpleNamespace(
        input=memoryview(bytearray(INPUT_BYTES)),
        input_share=InputShare(lambda call: call()),
        publishers_held=False,
        monotonic=time.monotonic,
        wall_ms=lambda: 0,
        turns=SimpleNamespace(begin=lambda: None, end=lambda: done.append("turn")),
    )

    async def read() -> None:
        one = AmqpSocket(server, proxy_protocol=False, source="192.0.2.1")
        one._logged_in = True
        one._transport = transport  # type: ignore[assignment]
        one._core = SimpleNamespace(  # type: ignore[assignment]
            pressure=SimpleNamespace(reads=True), client=None, receive_data=lambda data, now: done.append("data")
        )
        one.buffer_updated(100)
        assert done == ["data", "turn"], "there is no more"
        done.clear()
        one.buffer_updated(len(one.get_buffer(-1)))
        assert done == ["data", "turn", "pause"]
        await asyncio.sleep(0)
        assert done == ["data", "turn", "pause", "resume"]

    asyncio.run(read())
