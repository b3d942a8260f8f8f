"""What somebody without a login can cost a node: bytes, sockets, time. All of it on a real node."""

from __future__ import annotations

import contextlib
import itertools
import select
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.running_node import RunningNode
from tests.security import wire
from tests.security.guarded_node import (
    CANARY,
    HANDSHAKE_TIMEOUT_MS,
    REFUSAL_PAUSE_MS,
    STRANGERS_MAX,
    Http,
    open_files,
    wait_until,
)
from tests.security.wire import HEADER, METHOD, PROTOCOL_HEADER, Peer

BYTES_EACH_MAX = 65_536
STRANGERS = 100
# A timer of the server may be a second late; the machine is shared.
LATE_S = 3.0
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(190)


@contextlib.contextmanager
def strangers(node: RunningNode, count: int, *first: bytes) -> Iterator[list[Peer]]:
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(node.amqp)) for _ in range(count)]
        for peer in peers:
            peer.send(*first)
        yield peers
    wait_until("all strangers are forgotten", lambda: unauthenticated(node) == 0)


def unauthenticated(node: RunningNode) -> int:
    """Sockets of AMQP that are open, apart from those that are logged in: none of these tests keeps any."""
    port = f":{node.amqp[1]:04X}"
    count = 0
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, _, state, *_ = line.split()
        count += local.endswith(port) and state == "01"
    return count


def barrier(node: RunningNode) -> None:
    """The node has read what was sent before: a whole login comes after it on the same loop."""
    with Peer(node.amqp) as peer:
        peer.log_in("canary", CANARY)
        peer.send(wire.method(0, "connection.close"))
        peer.expect("connection.close-ok")


# bytes


@pytest.mark.parametrize(
    "sent",
    [
        struct.pack(">BHI", METHOD, 0, 8184) + bytes(8183),
        wire.start_ok("nobody", "wrong")[:-1] + bytes(60_000),
        wire.frame(8, 0, b"") * 7_000,
    ],
    ids=["most of a frame", "behind a broken login", "heartbeats"],
)
def test_a_hundred_strangers_cost_little_memory(node: RunningNode, sent: bytes) -> None:
    with strangers(node, STRANGERS, PROTOCOL_HEADER):
        barrier(node)
    before = node.resident_bytes()
    with strangers(node, STRANGERS, PROTOCOL_HEADER) as peers:
        for peer in peers:
            with contextlib.suppress(ConnectionError):
                peer.send(sent)
        barrier(node)
        grown = node.resident_bytes() - before
        assert grown <= STRANGERS * BYTES_EACH_MAX, f"{grown / STRANGERS:.0f} bytes for each stranger"


def test_frames_above_the_first_limit_are_refused_from_their_length(node: RunningNode) -> None:
    """Seven bytes are enough to know. All at once, for the node waits a little for each of them to hang up."""
    sizes = (8_193, 131_072, 2**24, 2**31, 2**32 - 1)
    with contextlib.ExitStack() as stack:
        peers = [stack.enter_context(Peer(node.amqp)) for _ in range(2 * len(sizes))]
        for peer, (size, kind) in zip(peers, itertools.product(sizes, (METHOD, HEADER)), strict=True):
            peer.start()
            peer.send(struct.pack(">BHI", kind, 0, size))
        for peer in peers:
            assert peer.expect("connection.close").code == 501
        for peer in peers:
            assert peer.hung_up()


def test_more_than_the_limit_behind_a_login_ends_the_connection(node: RunningNode) -> None:
    with Peer(node.amqp) as peer:
        peer.start()
        with contextlib.suppress(ConnectionError):
            peer.send(wire.start_ok("canary", "not it"), wire.frame(8, 0, b"") * 40_000)
        said = peer.closed_with()
        assert said is None or said.code in (403, 501)


# time


def drip(peer: Peer, data: bytes) -> float:
    """Send a byte every 100 ms until the node hangs up; returns how long that took."""
    started = time.monotonic()
    limit = HANDSHAKE_TIMEOUT_MS / 1000 + LATE_S
    for byte in data:
        readable, _, _ = select.select([peer.socket], [], [], 0.1)
        if readable:
            try:
                if not peer.socket.recv(4096):
                    break
            except ConnectionResetError:
                break
        took = time.monotonic() - started
        assert took < limit, f"still open after {took:.1f} s"
        try:
            peer.socket.send(bytes((byte,)))
        except (BrokenPipeError, ConnectionResetError):
            break
    return time.monotonic() - started


def test_a_handshake_has_a_deadline_that_bytes_do_not_move(node: RunningNode) -> None:
    """Three strangers at once: one drips its header, one its start-ok, one whole heartbeats."""
    began = time.monotonic()
    with Peer(node.amqp) as header, Peer(node.amqp) as login, Peer(node.amqp) as beating:
        login.start()
        beating.start()
        drip(beating, wire.frame(8, 0, b"") * 50)
        assert time.monotonic() - began >= HANDSHAKE_TIMEOUT_MS / 1000 - 0.6
        assert header.hung_up()
        assert login.hung_up()
        assert time.monotonic() - began < HANDSHAKE_TIMEOUT_MS / 1000 + LATE_S


def test_dripping_a_login_ends_at_the_deadline(node: RunningNode) -> None:
    with Peer(node.amqp) as peer:
        peer.start()
        drip(peer, wire.start_ok("canary", CANARY, client_properties={"note": "x" * 500}))


def test_a_login_that_does_not_go_on_ends_at_the_deadline(node: RunningNode) -> None:
    """Somebody with a password must open a vhost in time as well."""
    with Peer(node.amqp) as tuning, Peer(node.amqp) as opening:
        for peer in (tuning, opening):
            peer.start()
            peer.send(wire.start_ok("canary", CANARY))
            peer.expect("connection.tune")
        opening.send(wire.tune_ok())
        began = time.monotonic()
        assert tuning.hung_up()
        assert opening.hung_up()
        assert time.monotonic() - began < HANDSHAKE_TIMEOUT_MS / 1000 + LATE_S


def test_a_stranger_that_was_refused_cannot_stay(node: RunningNode) -> None:
    """Neither by not answering connection.close, nor by answering it with something else."""
    with Peer(node.amqp) as peer:
        peer.start()
        peer.send(wire.method(0, "connection.tune-ok"))
        assert peer.expect("connection.close").code == 504
        began = time.monotonic()
        peer.send(wire.method(0, "connection.tune-ok"))
        assert peer.hung_up()
        assert time.monotonic() - began < 3.0 + LATE_S


# how many


def test_strangers_are_capped_and_clients_are_not_disturbed(node: RunningNode) -> None:
    with Peer(node.amqp) as client:
        client.log_in("canary", CANARY)
        with contextlib.ExitStack() as stack:
            accepted = [stack.enter_context(Peer(node.amqp)) for _ in range(STRANGERS_MAX)]
            for peer in accepted:
                peer.send(PROTOCOL_HEADER)
            assert accepted[-1].expect("connection.start")
            wait_until("a newer one is let in", lambda: logs_in(node, "canary", CANARY))
            assert accepted[0].expect("connection.start")
            assert accepted[0].next() is None, "the oldest has given way"
            client.open_channel()
            assert client.call(1, "basic.qos").name == "basic.qos-ok"
        wait_until("the strangers are forgotten", lambda: unauthenticated(node) == 1)
        with Peer(node.amqp) as again:
            again.log_in("canary", CANARY)


def logs_in(node: RunningNode, user: str, password: str) -> bool:
    with Peer(node.amqp) as peer:
        try:
            peer.log_in(user, password)
        except (AssertionError, OSError):
            return False
        return True


def test_two_thousand_who_come_and_go_leave_nothing(node: RunningNode) -> None:
    def wave(count: int) -> None:
        for number in range(count):
            with socket.create_connection(node.amqp, timeout=wire.TIMEOUT_S) as one:
                if number % 3 == 0:
                    one.sendall(PROTOCOL_HEADER)
                elif number % 3 == 1:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset

    wave(200)
    wait_until("the first wave is gone", lambda: unauthenticated(node) == 0)
    barrier(node)
    files, memory = open_files(node), node.resident_bytes()
    wave(2000)
    wait_until("the second wave is gone", lambda: unauthenticated(node) == 0)
    barrier(node)
    wait_until(f"open files are {files} again", lambda: open_files(node) <= files)
    grown = node.resident_bytes() - memory
    assert grown < 4_000_000, f"2 000 connections left {grown} bytes"


# other protocols


@pytest.mark.parametrize(
    "sent",
    [
        b"AMQP\x00\x00\x08\x00",
        b"AMQP\x00\x01\x00\x00",
        b"AMQP\x03\x01\x00\x00",
        b"AMQP\x00\x00\x09\x02",
        b"AMQP\xff\xff\xff\xff",
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        TLS_HELLO,
        b"PROXY TCP4 10.0.0.1 10.0.0.2 1 2\r\n",
        bytes(8),
        b"\xff" * 100_000,
    ],
    ids=["0-8", "0-10", "1.0", "0-9-2", "none", "HTTP", "HTTP/2", "TLS", "PROXY", "zeros", "ones"],
)
def test_who_speaks_something_else_hears_what_is_spoken_here(node: RunningNode, sent: bytes) -> None:
    with Peer(node.amqp) as peer:
        with contextlib.suppress(ConnectionError):
            peer.send(sent)
        said = peer.next()
        assert said is None or said.payload == PROTOCOL_HEADER
        if len(sent) < 1000:
            assert said is not None, "the header is lost only when the reset overtakes it"
        assert peer.hung_up()


@pytest.mark.parametrize("head", [b"A", b"AMQP", b"AMQP\x00\x00\x09"])
def test_half_a_header_and_the_end_of_it_is_the_end(node: RunningNode, head: bytes) -> None:
    with Peer(node.amqp) as peer:
        peer.send(head)
        peer.socket.shutdown(socket.SHUT_WR)
        assert peer.next() is None


# logins


@pytest.mark.parametrize(
    "response",
    [
        b"\0canary\0" + b"x" * 4090,
        b"\0" + b"u" * 5000 + b"\0x",
        b"\0" * 100,
        b"canary",
        b"",
        b"\0\xff\xfe\0x",
        b"\0canary\0",
        b"\0canary\0" + b"y" * 1025,
    ],
    ids=["long", "long user", "NULs", "no NUL", "empty", "no text", "no password", "password too long"],
)
@pytest.mark.parametrize("mechanism", ["PLAIN", "AMQPLAIN"])
def test_a_response_that_is_none_is_a_refused_login(node: RunningNode, mechanism: str, response: bytes) -> None:
    with Peer(node.amqp) as peer:
        peer.start()
        peer.send(wire.start_ok("", "", mechanism=mechanism, response=response))
        said = peer.expect("connection.close")
        assert said.code == 403
        assert "canary" not in said.text


def test_a_refusal_is_the_same_for_users_that_exist_and_that_do_not(node: RunningNode) -> None:
    texts = set()
    for user in ("canary", "nobody", "guest"):
        with Peer(node.amqp) as peer:
            peer.start()
            peer.send(wire.start_ok(user, "wrong"))
            said = peer.expect("connection.close")
            texts.add((said.code, said.text))
    assert len(texts) == 1, texts


def test_an_old_client_hears_nothing_of_a_refusal_for_a_while(node: RunningNode) -> None:
    with Peer(node.amqp) as peer:
        peer.start()
        began = time.monotonic()
        peer.send(wire.start_ok("canary", "wrong", client_properties={}))
        assert peer.next() is None
        assert time.monotonic() - began >= REFUSAL_PAUSE_MS / 1000 - 0.05


def test_whoever_is_anonymous_gets_no_further_than_guest_would(node: RunningNode) -> None:
    """From this machine guest/guest opens; anything that an anonymous client adds to it is not even looked at."""
    with Peer(node.amqp) as peer:
        peer.start()
        peer.send(wire.start_ok("", "", mechanism="ANONYMOUS", response=b"\0admin\0" + CANARY.encode()))
        peer.expect("connection.tune")


@pytest.mark.parametrize("mechanism", ["EXTERNAL", "RABBIT-CR-DEMO", "", "plain", "x" * 255])
def test_a_mechanism_that_was_not_offered_is_refused(node: RunningNode, mechanism: str) -> None:
    with Peer(node.amqp) as peer:
        assert peer.start().arguments["mechanisms"] == b"PLAIN AMQPLAIN ANONYMOUS"
        peer.send(wire.start_ok("canary", CANARY, mechanism=mechanism))
        assert peer.expect("connection.close").code == 503


@pytest.mark.parametrize(
    "name", ["connection.open", "connection.tune-ok", "channel.open", "queue.declare", "connection.update-secret"]
)
def test_nothing_but_a_login_comes_first(node: RunningNode, name: str) -> None:
    with Peer(node.amqp) as peer:
        peer.start()
        peer.send(wire.method(0 if name.startswith("connection") else 1, name))
        assert peer.expect("connection.close").code in (503, 504)


# PROXY


@pytest.mark.parametrize(
    "sent",
    [
        PROTOCOL_HEADER,
        b"PROXY TCP4 a b c d\r\n",
        b"PROXY TCP4 10.0.0.1 10.0.0.2 70000 1\r\n",
        b"PROXY \r\n",
        b"PROXY TCP4 10.0.0.1\r\n",
        b"PROXY TCP4 " + b"1" * 4000,
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff",
        b"\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x01x",
        b"\r\n\r\n\x00\r\nQUIT\n\x31\x11\x00\x0c" + bytes(12),
        b"\xff" * 5000,
    ],
    ids=[
        "none",
        "no addresses",
        "no port",
        "nothing",
        "half",
        "endless",
        "v2 huge",
        "v2 short",
        "v2 version",
        "garbage",
    ],
)
def test_a_proxy_header_that_makes_no_sense_is_hung_up_on(proxied_node: RunningNode, sent: bytes) -> None:
    with Peer(proxied_node.amqp) as peer:
        with contextlib.suppress(ConnectionError):
            peer.send(sent)
        assert peer.next() is None


def test_waiting_for_a_proxy_header_has_a_deadline(proxied_node: RunningNode) -> None:
    with Peer(proxied_node.amqp) as peer:
        drip(peer, b"PROXY TCP4 10.10.10.10 10.10.10.10 10 10 10 10 10 10 10 10")


@pytest.mark.parametrize(("source", "admitted"), [("127.0.0.1", True), ("10.0.0.1", False), ("192.0.2.1", False)])
def test_guest_is_local_by_its_own_address_and_not_its_load_balancers(
    proxied_node: RunningNode, source: str, admitted: bool
) -> None:
    with Peer(proxied_node.amqp) as peer:
        peer.send(f"PROXY TCP4 {source} 127.0.0.1 4000 5672\r\n".encode())
        peer.start()
        peer.send(wire.start_ok("guest", "guest"))
        said = peer.expect("connection.tune", "connection.close")
        assert (said.name == "connection.tune") is admitted


def test_the_node_still_serves(node: RunningNode) -> None:
    barrier(node)
    assert Http(node).get("/api/whoami")["name"] == "guest"
