"""Two nodes over a real connection on the loopback."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import pytest
import trustme
import uvloop

from front.sockets.busy_poll import BusyPoll
from node.peers import frames as peer_frames
from node.peers import server as peer_server
from node.peers import socket as peer_socket
from node.peers.dialer import Dialer
from node.peers.frames import ANSWER, EXCHANGE, HELLO_BYTES_MAX, VERSION, Refused, encode_hello, expect_hello, framed
from node.peers.frames import CHALLENGE as CHALLENGE_HELLO
from node.peers.handshake import CHALLENGE, Calling, Gatekeeper, PeerIdentity, Secret
from node.peers.link import LinkLimits, Outdated, PeerLink, PeerLinks
from node.peers.server import PeerServer
from storage.disk import Buffer

SECRET = Secret(b"a secret that both sides know")
LOGGER = logging.getLogger("test")
TIMEOUT_S = 10.0


class Ears:
    """Notes what it hears, and lets tests wait for it."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[tuple[str, int, bytes]] = asyncio.Queue()

    def receive(self, node: int, letter: Buffer) -> None:
        self.events.put_nowait(("letter", node, bytes(letter)))

    def connected(self, node: int) -> None:
        self.events.put_nowait(("connected", node, b""))

    def disconnected(self, node: int) -> None:
        self.events.put_nowait(("disconnected", node, b""))

    async def next(self) -> tuple[str, int, bytes]:
        return await asyncio.wait_for(self.events.get(), TIMEOUT_S)


class Node:
    def __init__(self, number: int, peer: int, incarnation: int = 1, limits: LinkLimits | None = None) -> None:
        self.me = PeerIdentity(number, incarnation)
        self.ears = Ears()
        self.links = PeerLinks(limits or LinkLimits(), LOGGER)
        self.link = self.links.add(peer, self.ears)
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self, tls: ssl.SSLContext | None = None) -> int:
        self.server = PeerServer(self.links, Gatekeeper(SECRET, self.me, time.monotonic, os.urandom), LOGGER)
        return await self.server.listen("127.0.0.1:0", tls)

    def dial(self, port: int, secret: Secret = SECRET, tls: ssl.SSLContext | None = None) -> None:
        dialer = Dialer(
            self.link,
            f"127.0.0.1:{port}",
            self.me,
            secret,
            random_bytes=os.urandom,
            tls=tls,
            logger=LOGGER,
        )
        self._tasks.append(asyncio.ensure_future(dialer.run()))

    async def hang_up(self) -> None:
        for task in self._tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task


@asynccontextmanager
async def pair(
    limits: LinkLimits | None = None, prepare: Callable[[PeerLinks], None] | None = None
) -> AsyncIterator[tuple[Node, Node, int]]:
    """Node 1 listens, node 2 has called it. `prepare` is called with the links of each before."""
    called, caller = Node(1, peer=2, limits=limits), Node(2, peer=1, limits=limits)
    for node in (called, caller):
        if prepare is not None:
            prepare(node.links)
    port = await called.listen()
    try:
        caller.dial(port)
        assert await called.ears.next() == ("connected", 2, b"")
        assert await caller.ears.next() == ("connected", 1, b"")
        yield called, caller, port
    finally:
        await caller.hang_up()
        await called.server.stop()


def test_letters_arrive_in_order_in_both_directions() -> None:
    async def scenario() -> None:
        async with pair() as (called, caller, _):
            for number in range(200):
                called.links.send(2, b"to 2: %d" % number)
                caller.links.send(1, b"to 1: %d" % number)
            for number in range(200):
                assert await caller.ears.next() == ("letter", 1, b"to 2: %d" % number)
                assert await called.ears.next() == ("letter", 2, b"to 1: %d" % number)

    uvloop.run(scenario())


def test_what_arrives_keeps_a_loop_from_sleeping_that_is_to_poll_busily() -> None:
    async def scenario() -> None:
        looks: dict[int, list[Callable[[], None]]] = {}

        def poll_busily(links: PeerLinks) -> None:
            mine = looks[id(links)] = []
            links.poll_busily(BusyPoll(mine.append, lambda: 0.0, 1.0))
            assert links.add(7, Ears()).busy_poll is not None, "one that is added later"

        async with pair(prepare=poll_busily) as (called, caller, _):
            assert not looks[id(called.links)]
            caller.links.send(1, b"awake")
            assert await called.ears.next() == ("letter", 2, b"awake")
            assert len(looks[id(called.links)]) == 1

    asyncio.run(scenario())


def test_large_letters_in_pieces_arrive_as_they_were_among_small_ones() -> None:
    pieces: list[Buffer] = [b"head", bytes(range(256)) * 3_000, memoryview(b"some of it")[:4], b"end" * 400_000]
    large = b"".join(pieces)

    async def scenario() -> None:
        async with pair() as (called, caller, _):
            for number in range(5):
                called.links.send(2, b"%d" % number)
                called.links.send(2, pieces)
            for number in range(5):
                assert await caller.ears.next() == ("letter", 1, b"%d" % number)
                assert await caller.ears.next() == ("letter", 1, large)

    uvloop.run(scenario())


def test_when_one_side_ends_both_are_told_and_the_caller_calls_again() -> None:
    async def scenario() -> None:
        async with pair() as (called, caller, _):
            called.link.end()
            assert await called.ears.next() == ("disconnected", 2, b"")
            assert await caller.ears.next() == ("disconnected", 1, b"")
            assert await called.ears.next() == ("connected", 2, b"")
            assert await caller.ears.next() == ("connected", 1, b"")

    uvloop.run(scenario())


def test_a_later_process_takes_the_place_of_the_one_before_and_never_the_other_way() -> None:
    async def scenario() -> None:
        async with pair() as (called, caller, port):
            later = Node(2, peer=1, incarnation=2)
            later.dial(port)
            assert await called.ears.next() == ("connected", 2, b"")
            assert await caller.ears.next() == ("disconnected", 1, b"")  # and is refused whenever it calls again
            called.links.send(2, b"for the later one")
            assert await later.ears.next() == ("connected", 1, b"")
            assert await later.ears.next() == ("letter", 1, b"for the later one")
            with pytest.raises(Outdated, match="incarnation 2"):
                await called.link.carry(None, 1)  # type: ignore[arg-type]
            await later.hang_up()

    uvloop.run(scenario())


def test_letters_beyond_the_bound_are_dropped_and_calls_end_the_link() -> None:
    """The other process is stopped, and the system has taken all that it takes."""

    async def scenario() -> None:
        lone = Node(1, peer=2)
        lone.links.send(2, b"x")
        lone.links.send(3, b"nobody knows node 3")
        assert lone.link.dropped == 1
        async with unread(LinkLimits(queue_bytes_max=3 << 20, calls_bytes_max=3 << 20)) as called:
            for _ in range(100):
                called.links.send(2, bytes(1 << 20))
            dropped = called.link.dropped
            assert 50 < dropped <= 97
            called.links.send(2, bytes(1 << 20))
            assert called.link.dropped == dropped + 1 and called.link.connected
            for _ in range(4):
                assert called.ears.events.empty()
                called.links.send_call(2, b"\x04" + bytes(1 << 20))
            assert called.links.calls_waiting(2) > 3 << 20
            assert await called.ears.next() == ("disconnected", 2, b"")

    uvloop.run(scenario())


def test_small_letters_leave_behind_few_large_calls_and_all_arrive_in_the_order_of_their_queue() -> None:
    class Calls:
        def __init__(self) -> None:
            self.heard: list[bytes] = []
            self.drained_to: list[int] = []

        def receive(self, node: int, letter: bytes) -> None:
            self.heard.append(letter)

        def link_came(self, node: int) -> None:
            pass

        def link_went(self, node: int) -> None:
            pass

        def drained(self, node: int) -> None:
            self.drained_to.append(node)

    async def scenario() -> None:
        calls: list[Calls] = []

        def prepare(links: PeerLinks) -> None:
            calls.append(Calls())
            links.hear_calls(calls[-1])

        async with pair(prepare=prepare) as (called, caller, _):
            large = [b"\x04" + bytes([number]) * (1 << 20) for number in range(32)]
            calls_before: list[int] = []  # each small letter
            hear = caller.ears.receive

            def receive(node: int, letter: bytes) -> None:
                calls_before.append(len(calls[1].heard))
                hear(node, letter)

            caller.ears.receive = receive  # type: ignore[method-assign]
            for letter in large:
                called.links.send_call(2, letter)
            for number in range(50):
                called.links.send(2, b"%d" % number)
            for number in range(50):
                assert await caller.ears.next() == ("letter", 1, b"%d" % number)
            assert max(calls_before) < len(large) // 2, "the small letters had to wait for the large calls"
            async with asyncio.timeout(TIMEOUT_S):
                while len(calls[1].heard) < len(large):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
            assert calls[1].heard == large
            assert called.links.calls_waiting(2) == 0 and calls[0].drained_to

    uvloop.run(scenario())


def test_a_node_that_says_nothing_any_more_loses_its_stream_and_one_that_does_keeps_it() -> None:
    """A stopped process keeps its connections."""

    async def scenario() -> None:
        async with pair(LinkLimits(silence_s_max=1.5)) as (called, caller, _):

            async def talk() -> None:
                while True:
                    called.links.send(2, b"sign of life")
                    await asyncio.sleep(0.01)

            talking = asyncio.ensure_future(talk())
            assert await called.ears.next() == ("disconnected", 2, b"")
            heard = [await caller.ears.next() for _ in range(10)]
            assert heard == [("letter", 1, b"sign of life")] * 10
            talking.cancel()

    uvloop.run(scenario())


def test_a_message_above_the_limit_ends_the_stream() -> None:
    async def scenario() -> None:
        async with pair(LinkLimits(message_bytes_max=10_000)) as (called, caller, _):
            caller.links.send(1, bytes(20_000))
            assert await caller.ears.next() == ("disconnected", 1, b"")
            assert (await called.ears.next())[0] == "disconnected"

    uvloop.run(scenario())


def test_a_letter_that_was_changed_on_its_way_is_not_heard_and_the_link_begins_anew(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ "pay 100" became "pay 900", was fsynced and confirmed, and no comparison of the members found it."""
    noisy = [True]

    def framed(payloads: Sequence[Buffer], *, checked: bool = False) -> list[Buffer]:
        pieces = peer_frames.framed(payloads, checked=checked)
        if noisy[0] and b"pay 100" in payloads:
            pieces = [b"pay 900" if piece == b"pay 100" else piece for piece in pieces]
        return pieces

    monkeypatch.setattr(peer_socket, "framed", framed)
    monkeypatch.setattr(peer_socket, "checked_frame", lambda letter: b"".join(framed([letter], checked=True)))

    async def scenario() -> None:
        async with pair() as (called, caller, _):
            called.links.send(2, b"before")
            assert await caller.ears.next() == ("letter", 1, b"before")
            called.links.send(2, b"pay 100")
            assert await caller.ears.next() == ("disconnected", 1, b"")
            assert await called.ears.next() == ("disconnected", 2, b"")
            assert caller.links.wrong_checksums == 1
            assert called.links.wrong_checksums == 0
            assert "what node 1 sent did not arrive as it was: a frame of 7 bytes was changed on its way" in caplog.text
            noisy[0] = False
            assert await called.ears.next() == ("connected", 2, b"")
            assert await caller.ears.next() == ("connected", 1, b"")
            called.links.send(2, b"pay 100")
            assert await caller.ears.next() == ("letter", 1, b"pay 100")

    uvloop.run(scenario())


def test_nothing_of_a_stranger_is_heard() -> None:
    async def scenario() -> None:
        async with pair() as (called, _, port):
            for hello, why in (
                (lambda challenge: [], "does not answer the challenge"),
                (lambda challenge: [("leveret-node", "2")], "does not answer the challenge"),
                (lambda challenge: stranger(challenge).metadata(), "knows this cluster's secret"),
            ):
                with pytest.raises(Refused, match=why):
                    await call(port, hello, b"let me in")
            assert called.ears.events.empty()
            assert called.link.connected

    def stranger(challenge: str) -> Calling:
        return Calling(Secret(b"a secret of somebody else"), PeerIdentity(2, 9), 1, challenge, bytes(32))

    uvloop.run(scenario())


def test_the_challenge_of_another_connection_is_no_use_and_neither_is_an_answer_that_was_overheard() -> None:
    async def scenario() -> None:
        async with pair() as (called, _, port):
            overheard: list[list[tuple[str, str]]] = []

            def first(challenge: str) -> list[tuple[str, str]]:
                overheard.append(Calling(SECRET, PeerIdentity(2, 5), 1, challenge, bytes(32)).metadata())
                return overheard[0]

            await call(port, first)
            assert await called.ears.next() == ("connected", 2, b"")
            with pytest.raises(Refused, match="challenge of this connection"):
                await call(port, lambda challenge: overheard[0], b"again")

    uvloop.run(scenario())


def test_a_node_that_is_no_member_is_refused() -> None:
    async def scenario() -> None:
        async with pair() as (called, _, port):
            with pytest.raises(Refused, match="node 77 is no member of this cluster"):
                await call(
                    port, lambda challenge: Calling(SECRET, PeerIdentity(77, 1), 1, challenge, bytes(32)).metadata()
                )
            assert called.ears.events.empty()

    uvloop.run(scenario())


def hello_head(version: int, kind: int = EXCHANGE) -> bytes:
    """A frame with a hello that has no fields."""
    return b"\x06\x00\x00\x00LVRT" + bytes((version, kind))


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (b"GET / HTTP/1.1\r\nHost: n1\r\n\r\n", "this looks like HTTP, and only nodes"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "this looks like HTTP/2 or gRPC"),
        (b"AMQP\x00\x00\x09\x01", "this looks like AMQP"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", "this looks like TLS"),
        (b"\xff" * 100, "it begins with b"),
        (b"\x05\x00\x00\x00hello", "no hello of a node: it begins with b'hello'"),
        (
            hello_head(VERSION - 1),
            "the other one runs an earlier build of Leveret",
        ),
        (hello_head(VERSION + 1), "the other one runs a later build of Leveret"),
        (hello_head(VERSION, kind=9), "no hello of kind 9"),
        (b"\x01\x10\x00\x00", f"a frame of {HELLO_BYTES_MAX + 1} bytes, {HELLO_BYTES_MAX} may come"),
    ],
)
def test_who_speaks_something_else_is_closed_and_the_log_says_what(
    said: bytes, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        async with pair() as (called, _, port):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(said)
            await end_of(reader)
            assert why in await warning_of(caplog, "the connection of 127.0.0.1:")
            assert not called.server.gate.strangers and called.link.connected

    with caplog.at_level(logging.WARNING):
        uvloop.run(scenario())


def test_who_proves_nothing_for_long_is_closed_and_there_are_not_many_of_them(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(peer_server, "HELLO_TIMEOUT_S", 0.2)
    monkeypatch.setattr(peer_server, "STRANGERS_MAX", 3)

    async def scenario() -> None:
        async with pair() as (called, _, port):
            silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(4)]
            for reader, _ in silent:
                await end_of(reader)
            refused = await warning_of(caplog, "a connection from 127.0.0.1 was refused: ")
            assert "3 connections to the listener for nodes have not proven" in refused
            assert "it has proven nothing within 0.2 s" in await warning_of(caplog, "the connection of 127.0.0.1:")
            assert not called.server.gate.strangers
            assert called.link.connected, "the time is for strangers alone"

    with caplog.at_level(logging.WARNING):
        uvloop.run(scenario())


def test_random_bytes_before_and_after_the_proof_end_a_connection_and_nothing_else() -> None:
    dice = random.Random(81423)

    async def scenario() -> None:
        async with pair() as (called, _, port):
            unexpected: list[object] = []
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unexpected.append(context))
            for incarnation in range(10, 60):
                noise = dice.randbytes(dice.randrange(1, 200))
                if incarnation % 2:
                    noise = len(noise).to_bytes(4, "little") + dice.choice([noise, hello_head(VERSION)[4:] + noise[6:]])
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(noise)
                writer.write_eof()
                await end_of(reader)
                _, writer = await call(port, lambda challenge, me=incarnation: hello_of(PeerIdentity(2, me), challenge))
                writer.write(noise)
                writer.close()
            assert not called.server.gate.strangers
            assert unexpected == []

    uvloop.run(scenario())


def test_what_the_ears_fail_on_ends_the_link_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        async with pair() as (called, caller, _):

            def fail(node: int, letter: bytes) -> None:
                raise ZeroDivisionError("a mistake of ours")

            called.ears.receive = fail  # type: ignore[method-assign]
            caller.links.send(1, b"x")
            assert await called.ears.next() == ("disconnected", 2, b"")
            assert "what node 2 says could not be handled" in caplog.messages

    uvloop.run(scenario())


def test_a_link_that_was_never_used_can_be_closed() -> None:
    async def scenario() -> None:
        links = PeerLinks(LinkLimits(), LOGGER)
        link: PeerLink = links.add(5, Ears())
        links.close()
        assert not link.connected

    uvloop.run(scenario())


def test_a_caller_at_the_wrong_address_is_told_which_node_lives_there(caplog: pytest.LogCaptureFixture) -> None:
    """It said that the other node did not know the secret."""

    async def scenario() -> None:
        called, caller = Node(1, peer=3), Node(3, peer=2)
        port = await called.listen()
        try:
            caller.dial(port)
            said = await warning_of(caplog, "node 2 at")
            assert "it refuses: this is node 1, not 2: check the addresses of the nodes" in said
        finally:
            await caller.hang_up()
            await called.server.stop()

    with caplog.at_level(logging.WARNING):
        uvloop.run(scenario())


def test_nodes_that_show_each_other_certificates_talk_and_others_are_not_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Mutual TLS: who knows the secret and has no certificate of the cluster's authority, or one of another's, gets nowhere."""
    ours, theirs = trustme.CA(), trustme.CA()
    called_has, caller_has, stranger_has = (ca.issue_cert("127.0.0.1") for ca in (ours, ours, theirs))

    async def refused(tls: ssl.SSLContext | None, called: Node, port: int) -> None:
        caplog.clear()
        caller = Node(2, peer=1)
        caller.dial(port, tls=tls)
        await warning_of(caplog, "node 1 at")
        await caller.hang_up()
        assert not caller.link.connected and not called.link.connected
        assert called.ears.events.empty() and caller.ears.events.empty()

    async def scenario() -> None:
        called, caller = Node(1, peer=2), Node(2, peer=1)
        port = await called.listen(showing(called_has, ours, ssl.PROTOCOL_TLS_SERVER))
        try:
            await refused(None, called, port)
            await refused(showing(None, ours), called, port)
            await refused(showing(stranger_has, ours), called, port)
            await refused(showing(caller_has, theirs), called, port)
            caller.dial(port, tls=showing(caller_has, ours))
            assert await called.ears.next() == ("connected", 2, b"")
            assert await caller.ears.next() == ("connected", 1, b"")
            for size in (10, 1_000_000, 10, 5_000_000, 10):
                caller.links.send(1, bytes(size))
            for size in (10, 1_000_000, 10, 5_000_000, 10):
                assert await called.ears.next() == ("letter", 2, bytes(size))
        finally:
            await caller.hang_up()
            await called.server.stop()

    with caplog.at_level(logging.WARNING):
        uvloop.run(scenario())


def showing(
    certificate: trustme.LeafCert | None, ca: trustme.CA, protocol: int = ssl.PROTOCOL_TLS_CLIENT
) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.verify_mode = ssl.CERT_REQUIRED
    ca.configure_trust(context)
    if certificate is not None:
        certificate.configure_cert(context)
    return context


async def warning_of(caplog: pytest.LogCaptureFixture, beginning: str) -> str:
    async with asyncio.timeout(TIMEOUT_S):
        while not (said := [line for line in caplog.messages if line.startswith(beginning)]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return said[0]


async def end_of(reader: asyncio.StreamReader) -> None:
    with suppress(ConnectionError):
        await asyncio.wait_for(reader.read(), TIMEOUT_S)


def hello_of(me: PeerIdentity, challenge: str) -> list[tuple[str, str]]:
    return Calling(SECRET, me, 1, challenge, bytes(32)).metadata()


Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def call(port: int, fields: Callable[[str], list[tuple[str, str]]], *letters: bytes) -> Connection:
    """Call node 1 by hand. Raises Refused."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    challenge = expect_hello(await payload_of(reader), CHALLENGE_HELLO)[CHALLENGE]
    writer.writelines(framed([encode_hello(EXCHANGE, fields(challenge)), *letters]))
    expect_hello(await payload_of(reader), ANSWER)
    return reader, writer


async def payload_of(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(TIMEOUT_S):
        return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "little"))


@asynccontextmanager
async def unread(limits: LinkLimits) -> AsyncIterator[Node]:
    """Node 1, and a node 2 that reads nothing."""
    called = Node(1, peer=2, limits=limits)
    port = await called.listen()
    raw = socket.create_connection(("127.0.0.1", port))
    try:
        raw.setblocking(False)
        loop = asyncio.get_running_loop()
        size = int.from_bytes(await loop.sock_recv(raw, 4), "little")
        challenge = expect_hello(await loop.sock_recv(raw, size), CHALLENGE_HELLO)[CHALLENGE]
        hello = framed([encode_hello(EXCHANGE, hello_of(PeerIdentity(2, 1), challenge))])
        await loop.sock_sendall(raw, b"".join(hello))
        assert await called.ears.next() == ("connected", 2, b"")
        yield called
    finally:
        raw.close()
        await called.server.stop()


def test_a_tls_handshake_that_fails_is_told_with_address_and_reason_and_not_for_every_try(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours, theirs = trustme.CA(), trustme.CA()
    called_has, stranger_has = ours.issue_cert("127.0.0.1"), theirs.issue_cert("127.0.0.1")

    async def scenario() -> None:
        called = Node(1, peer=2)
        port = await called.listen(showing(called_has, ours, ssl.PROTOCOL_TLS_SERVER))
        try:
            for _ in range(4):
                with suppress(OSError):
                    reader, writer = await asyncio.open_connection(
                        "127.0.0.1", port, ssl=showing(stranger_has, ours), server_hostname="127.0.0.1"
                    )
                    await reader.read()
                    writer.close()
            await warning_of(caplog, "a TLS handshake with")
        finally:
            await called.server.stop()

    with caplog.at_level(logging.WARNING):
        uvloop.run(scenario())
    (told,) = [line for line in caplog.messages if "TLS handshake" in line]
    assert told.startswith("a TLS handshake with 127.0.0.1:")
    assert "on the listener for nodes failed: " in told and "CERTIFICATE_VERIFY_FAILED" in told


def test_an_earlier_process_is_refused_with_the_reason() -> None:
    async def scenario() -> None:
        async with pair() as (called, _, port):
            await call(port, lambda challenge: hello_of(PeerIdentity(2, 5), challenge))
            assert await called.ears.next() == ("connected", 2, b"")
            with pytest.raises(Refused, match="has called as incarnation 5, which is later than 4"):
                await call(port, lambda challenge: hello_of(PeerIdentity(2, 4), challenge))

    uvloop.run(scenario())
