"""Two nodes over a real gRPC stream on the loopback."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import grpc
import grpc.aio
import pytest
import trustme

from leveret.v1 import peer_pb2, peer_pb2_grpc
from node.peer_auth import CHALLENGE, Calling, Gatekeeper, Identity, Secret
from node.peer_dialer import Dialer
from node.peer_link import LinkLimits, Outdated, PeerLink, PeerLinks
from node.peer_server import PeerServer

SECRET = Secret(b"a secret that both sides know")
LOGGER = logging.getLogger("test")
TIMEOUT_S = 10.0


class Ears:
    """Notes what it hears, and lets tests wait for it."""

    def __init__(self) -> None:
        self.events: asyncio.Queue[tuple[str, int, bytes]] = asyncio.Queue()

    def receive(self, node: int, letter: bytes) -> None:
        self.events.put_nowait(("letter", node, letter))

    def connected(self, node: int) -> None:
        self.events.put_nowait(("connected", node, b""))

    def disconnected(self, node: int) -> None:
        self.events.put_nowait(("disconnected", node, b""))

    async def next(self) -> tuple[str, int, bytes]:
        return await asyncio.wait_for(self.events.get(), TIMEOUT_S)


class Node:
    def __init__(self, number: int, peer: int, incarnation: int = 1, limits: LinkLimits | None = None) -> None:
        self.me = Identity(number, incarnation)
        self.ears = Ears()
        self.links = PeerLinks(limits or LinkLimits(), LOGGER)
        self.link = self.links.add(peer, self.ears)
        self._tasks: list[asyncio.Task[None]] = []

    async def listen(self, credentials: grpc.ServerCredentials | None = None) -> int:
        self.server = PeerServer(self.links, Gatekeeper(SECRET, self.me, time.monotonic, os.urandom), LOGGER)
        return await self.server.listen("127.0.0.1:0", credentials)

    def dial(self, port: int, secret: Secret = SECRET, credentials: grpc.ChannelCredentials | None = None) -> None:
        dialer = Dialer(
            self.link,
            f"127.0.0.1:{port}",
            self.me,
            secret,
            self.links.limits,
            random_bytes=os.urandom,
            credentials=credentials,
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

    asyncio.run(scenario())


def test_when_one_side_ends_both_are_told_and_the_caller_calls_again() -> None:
    async def scenario() -> None:
        async with pair() as (called, caller, _):
            called.link.end()
            assert await called.ears.next() == ("disconnected", 2, b"")
            assert await caller.ears.next() == ("disconnected", 1, b"")
            assert await called.ears.next() == ("connected", 2, b"")
            assert await caller.ears.next() == ("connected", 1, b"")

    asyncio.run(scenario())


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

    asyncio.run(scenario())


def test_what_is_sent_without_a_stream_or_beyond_the_bound_is_dropped_not_kept() -> None:
    async def scenario() -> None:
        lone = Node(1, peer=2)
        lone.links.send(2, b"x")
        lone.links.send(3, b"nobody knows node 3")
        assert lone.link.dropped == 1
        async with pair(LinkLimits(queue_bytes_max=1_000)) as (called, caller, _):
            for _ in range(30):
                called.links.send(2, bytes(100))  # all in one round of the loop: nothing can leave in between
            assert called.link.dropped == 20
            for _ in range(10):
                assert (await caller.ears.next())[0] == "letter"

    asyncio.run(scenario())


def test_a_node_that_says_nothing_any_more_loses_its_stream_and_one_that_does_keeps_it() -> None:
    """A stopped process keeps its connections."""

    async def scenario() -> None:
        async with pair(LinkLimits(silence_s_max=0.3)) as (called, caller, _):

            async def talk() -> None:
                while True:
                    called.links.send(2, b"sign of life")
                    await asyncio.sleep(0.01)

            talking = asyncio.ensure_future(talk())
            assert await called.ears.next() == ("disconnected", 2, b"")
            heard = [await caller.ears.next() for _ in range(10)]
            assert heard == [("letter", 1, b"sign of life")] * 10
            talking.cancel()

    asyncio.run(scenario())


def test_a_message_above_the_limit_ends_the_stream() -> None:
    async def scenario() -> None:
        async with pair(LinkLimits(message_bytes_max=10_000)) as (called, caller, _):
            caller.links.send(1, bytes(20_000))
            assert await caller.ears.next() == ("disconnected", 1, b"")
            assert (await called.ears.next())[0] == "disconnected"

    asyncio.run(scenario())


def test_nothing_of_a_stranger_is_heard() -> None:
    async def scenario() -> None:
        async with pair() as (called, _, port), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            peer = peer_pb2_grpc.PeerStub(channel)  # type: ignore[no-untyped-call]
            stranger = Calling(
                Secret(b"a secret of somebody else"), Identity(2, 9), 1, await challenge(peer), bytes(32)
            )
            for metadata in (None, (("leveret-node", "2"),), stranger.metadata()):
                call = peer.Exchange(metadata=metadata)
                with suppress(grpc.aio.AioRpcError, asyncio.InvalidStateError):
                    await call.write(peer_pb2.Letters(letters=[b"let me in"]))
                assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
            assert called.ears.events.empty()
            assert called.link.connected

    asyncio.run(scenario())


def test_a_node_that_is_no_member_is_refused() -> None:
    async def scenario() -> None:
        async with pair() as (called, _, port), grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            peer = peer_pb2_grpc.PeerStub(channel)  # type: ignore[no-untyped-call]
            calling = Calling(SECRET, Identity(77, 1), 1, await challenge(peer), os.urandom(32))
            call = peer.Exchange(metadata=calling.metadata())
            assert await call.code() is grpc.StatusCode.PERMISSION_DENIED
            assert called.ears.events.empty()

    asyncio.run(scenario())


def test_a_link_that_was_never_used_can_be_closed() -> None:
    async def scenario() -> None:
        links = PeerLinks(LinkLimits(), LOGGER)
        link: PeerLink = links.add(5, Ears())
        links.close()
        assert not link.connected

    asyncio.run(scenario())


def test_a_letter_for_a_stream_that_has_just_ended_does_not_end_the_caller() -> None:
    """gRPC refuses to write as soon as a stream has ended, which may be before the reader hears of it. What it raises then is
    no error of a call: the caller ended with it, and never called this node again."""

    class Ended:
        async def read(self) -> object:
            await asyncio.Event().wait()
            raise AssertionError("the reader is told later")

        async def write(self, message: object) -> None:
            raise asyncio.InvalidStateError("RPC already finished.")

    async def scenario() -> None:
        node = Node(2, peer=1)
        carried = asyncio.ensure_future(node.link.carry(Ended(), 1))
        assert await node.ears.next() == ("connected", 1, b"")
        node.links.send(1, b"too late")
        await asyncio.wait_for(carried, TIMEOUT_S)
        assert await node.ears.next() == ("disconnected", 1, b"")

    asyncio.run(scenario())


def test_a_caller_at_the_wrong_address_is_told_which_node_lives_there(caplog: pytest.LogCaptureFixture) -> None:
    """It said that the other node did not know the secret."""

    async def scenario() -> None:
        called, caller = Node(1, peer=3), Node(3, peer=2)
        port = await called.listen()
        try:
            caller.dial(port)
            said = await warning_of(caplog, "node 2 at")
            assert "unauthenticated: this is node 1, not 2: check the addresses of the nodes" in said
        finally:
            await caller.hang_up()
            await called.server.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())


def test_nodes_that_show_each_other_certificates_talk_and_others_are_not_heard(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Mutual TLS: who knows the secret and has no certificate of the cluster's authority, or one of another's, gets nowhere."""
    ours, theirs = trustme.CA(), trustme.CA()
    called_has, caller_has, stranger_has = (ca.issue_cert("127.0.0.1") for ca in (ours, ours, theirs))
    root = ours.cert_pem.bytes()
    listening = grpc.ssl_server_credentials(
        [(key_of(called_has), chain_of(called_has))], root, require_client_auth=True
    )

    async def refused(credentials: grpc.ChannelCredentials | None, called: Node, port: int) -> None:
        caplog.clear()
        caller = Node(2, peer=1)
        caller.dial(port, credentials=credentials)
        assert "unavailable" in await warning_of(caplog, "node 1 at")  # a proof was not even asked for
        await caller.hang_up()
        assert not caller.link.connected and not called.link.connected
        assert called.ears.events.empty()

    async def scenario() -> None:
        called, caller = Node(1, peer=2), Node(2, peer=1)
        port = await called.listen(listening)
        try:
            await refused(None, called, port)
            await refused(grpc.ssl_channel_credentials(root), called, port)
            await refused(
                grpc.ssl_channel_credentials(root, key_of(stranger_has), chain_of(stranger_has)), called, port
            )
            await refused(
                grpc.ssl_channel_credentials(theirs.cert_pem.bytes(), key_of(caller_has), chain_of(caller_has)),
                called,
                port,
            )
            caller.dial(port, credentials=grpc.ssl_channel_credentials(root, key_of(caller_has), chain_of(caller_has)))
            assert await called.ears.next() == ("connected", 2, b"")
            assert await caller.ears.next() == ("connected", 1, b"")
            caller.links.send(1, b"in private")
            assert await called.ears.next() == ("letter", 2, b"in private")
        finally:
            await caller.hang_up()
            await called.server.stop()

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())


async def warning_of(caplog: pytest.LogCaptureFixture, beginning: str) -> str:
    async with asyncio.timeout(TIMEOUT_S):
        while not (said := [line for line in caplog.messages if line.startswith(beginning)]):  # noqa: ASYNC110
            await asyncio.sleep(0.01)
    return said[0]


def key_of(issued: trustme.LeafCert) -> bytes:
    return issued.private_key_pem.bytes()


def chain_of(issued: trustme.LeafCert) -> bytes:
    return b"".join(part.bytes() for part in issued.cert_chain_pems)


async def challenge(peer: peer_pb2_grpc.PeerStub) -> str:
    call = peer.Exchange()
    assert await call.code() is grpc.StatusCode.UNAUTHENTICATED
    return str(dict(await call.trailing_metadata())[CHALLENGE])
