"""Sockets that are not encrypted yet: they count, are counted off again, and lose nothing that a client says early."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trustme

from front.sockets.client_server import ServerLimits
from tests.unit.front.amqp.client import PROTOCOL_HEADER
from tests.unit.front.amqp.test_server import Running, read_to_end, time_stands_still

LIMITS = ServerLimits(unauthenticated_connections=2, tls_handshake_timeout_s=30.0)


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def start(authority: trustme.CA) -> Iterator[Callable[..., Running]]:
    started: list[Running] = []

    def begin(limits: ServerLimits, **options: Any) -> Running:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert("localhost").configure_cert(context)
        started.append(Running(tls=context, server_limits=limits, **options))
        return started[-1]

    yield begin
    for one in started:
        one.stop()


def strangers(running: Running) -> int:
    count: int = running.run(lambda: running.server.statistics()["unauthenticated"])
    return count


def wait_for_strangers(running: Running, count: int) -> None:
    until = time.monotonic() + 10
    while strangers(running) != count:
        assert time.monotonic() < until, f"{strangers(running)} strangers, not {count}"


def test_whoever_says_nothing_to_a_tls_listener_counts_as_a_stranger(start: Callable[..., Running]) -> None:
    running = start(LIMITS, monotonic=time_stands_still)
    silent = [running.socket() for _ in range(2)]
    wait_for_strangers(running, 2)
    assert read_to_end(running.socket()) == b"", "a third one is refused"
    assert running.run(lambda: running.server.statistics()["refused_total"]) == 1
    for one in silent:
        one.close()
    wait_for_strangers(running, 0)


def test_what_is_no_tls_leaves_nothing(start: Callable[..., Running]) -> None:
    running = start(LIMITS)
    for said in (PROTOCOL_HEADER, bytes(100), b"GET / HTTP/1.1\r\n\r\n"):
        sock = running.socket()
        sock.sendall(said)
        read_to_end(sock)
        wait_for_strangers(running, 0)
    assert running.run(lambda: len(running.server.sockets)) == 0


def test_a_handshake_that_dawdles_is_ended(start: Callable[..., Running]) -> None:
    running = start(ServerLimits(tls_handshake_timeout_s=0.1))
    sock = running.socket()
    sock.sendall(b"\x16\x03\x01")
    read_to_end(sock)
    wait_for_strangers(running, 0)


def test_a_client_may_speak_amqp_in_the_same_packet_as_the_end_of_its_handshake(
    start: Callable[..., Running], authority: trustme.CA
) -> None:
    running = start(LIMITS)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    authority.configure_trust(context)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = context.wrap_bio(incoming, outgoing, server_hostname="localhost")
    with running.socket() as sock:
        shake_hands(tls, incoming, outgoing, sock)
        tls.write(PROTOCOL_HEADER)
        sock.sendall(outgoing.read())  # the end of the handshake and the first bytes of AMQP
        assert read_some(tls, incoming, sock)[0] == 1, "connection.start is a method frame"


def shake_hands(tls: ssl.SSLObject, incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, sock: socket.socket) -> None:
    """As far as the client's last word, which stays in `outgoing`."""
    while True:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            sock.sendall(outgoing.read())
            incoming.write(sock.recv(65_536))
        else:
            return


def read_some(tls: ssl.SSLObject, incoming: ssl.MemoryBIO, sock: socket.socket) -> bytes:
    while True:
        try:
            return tls.read()
        except ssl.SSLWantReadError:
            incoming.write(sock.recv(65_536))
