"""What somebody without a login can cost a node over HTTP."""

from __future__ import annotations

import contextlib
import socket

import pytest

from front.web import api
from tests.running_node import RunningNode
from tests.security.guarded_node import CANARY, HTTP_CONNECTIONS, Http, open_files, wait_until
from tests.security.wire import TIMEOUT_S


def answer_to(node: RunningNode, *sent: bytes) -> bytes:
    """Everything that is said until the node hangs up, or the first answer when it does not."""
    with socket.create_connection(node.http, timeout=TIMEOUT_S) as one:
        try:
            for part in sent:
                one.sendall(part)
        except ConnectionError:
            return b""
        answer = b""
        try:
            while b"\r\n\r\n" not in answer and (data := one.recv(65_536)):
                answer += data
        except ConnectionResetError:
            pass
        return answer


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"PUT /api/users/x HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n", b"400"),
        (b"PUT /api/users/x HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999999999\r\n\r\n", b"4"),
        (b"PUT /api/users/x HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", b"4"),
        (b"PUT /api/users/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n12", b"4"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"y" * 40_000 + b"\r\n\r\n", b"431"),
        (b"GET /" + b"y" * 40_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", b"4"),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 10_000 + b"\r\n", b"4"),
        (b"\x16\x03\x01\x00\xc8\x01\x00\x00\xc4\x03\x03" + bytes(190), b"4"),
        (b"AMQP\x00\x00\x09\x01\r\n\r\n", b"4"),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", b"404"),
        (b"GET /api/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", b"40"),
        (b"GET /api/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Basic " + b"=" * 4000 + b"\r\n\r\n", b"401"),
        (b"GET /api/overview HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer x\r\n\r\n", b"401"),
    ],
    ids=["body", "endless body", "negative", "two lengths", "header", "target", "headers", "TLS", "AMQP", "dots",
         "escaped dots", "no base64", "bearer"],
)  # fmt: skip
def test_what_is_too_much_or_makes_no_sense_is_refused(node: RunningNode, sent: bytes, status: bytes) -> None:
    answer = answer_to(node, sent)
    assert answer.startswith(b"HTTP/1.1 " + status), answer[:200]


def test_a_body_without_announced_length_is_cut_off_at_the_limit(node: RunningNode) -> None:
    head = b"PUT /api/users/x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"8000\r\n" + b"x" * 0x8000 + b"\r\n"
    answer = answer_to(node, head, *[chunk] * 4)
    assert answer.startswith(b"HTTP/1.1 400") or not answer, answer[:100]


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_a_body_nested_for_ever_is_a_bad_request(node: RunningNode, opening: str) -> None:
    connection = Http(node)
    status, text = connection.ask_raw("PUT", "/api/users/x", opening * 10_000)
    assert status == 400, text


def test_a_hundred_strangers_cost_little_memory(node: RunningNode) -> None:
    head = b"PUT /api/users/x HTTP/1.1\r\nHost: x\r\nContent-Length: 65536\r\n\r\n"

    def wave() -> list[socket.socket]:
        peers = [socket.create_connection(node.http, timeout=TIMEOUT_S) for _ in range(100)]
        for peer in peers:
            peer.sendall(head + b"x" * 65_000)
        Http(node, "canary", CANARY).ask("GET", "/api/whoami")
        return peers

    files = open_files(node)
    for peer in wave():
        peer.close()
    wait_until("the first hundred are gone", lambda: open_files(node) <= files)
    before = node.resident_bytes()
    peers = wave()
    grown = node.resident_bytes() - before
    for peer in peers:
        peer.close()
    # What has arrived is kept in the stream's buffer and in the body: twice, for a moment.
    assert grown <= 100 * 3 * api.BODY_BYTES_MAX, f"{grown / 100:.0f} bytes for each"
    wait_until("all are gone", lambda: open_files(node) <= files)


def test_connections_are_capped_and_the_oldest_strangers_give_way(node: RunningNode) -> None:
    files = open_files(node)
    peers = [socket.create_connection(node.http, timeout=TIMEOUT_S) for _ in range(HTTP_CONNECTIONS)]
    peers[-1].sendall(b"GET /api/overview HTTP/1.1\r\nHost: x\r\n\r\n")
    assert peers[-1].recv(100).startswith(b"HTTP/1.1 401")
    wait_until("a newer one is let in", lambda: answered(node))
    with contextlib.suppress(ConnectionResetError):
        assert peers[0].recv(1) == b"", "the oldest has given way"
    for peer in peers:
        peer.close()
    wait_until("all are gone", lambda: open_files(node) <= files)


def answered(node: RunningNode) -> bool:
    try:
        return Http(node).ask("GET", "/api/whoami")[0] == 200
    except OSError:
        return False
