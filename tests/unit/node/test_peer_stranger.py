"""Nodes without numbers call each other over a real connection on the loopback."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from node.peers import peer_pb2
from node.peers.frames import CHALLENGE as CHALLENGE_HELLO
from node.peers.frames import JOIN, encode_hello, expect_hello, framed
from node.peers.handshake import CHALLENGE, NONCE_BYTES, Gatekeeper, Secret, StrangerCalling
from node.peers.link import LinkLimits, PeerLinks
from node.peers.server import METHODS, Doorman, PeerServer
from node.peers.stranger import NoAnswer, Stranger

SECRET = Secret(b"a secret that both sides know")
LOGGER = logging.getLogger("test")
TIMEOUT_S = 10.0


class Polite:
    async def greet(self, greeting: peer_pb2.Greeting) -> peer_pb2.Greeted:
        return peer_pb2.Greeted(name=f"hello {greeting.name}")

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        return peer_pb2.JoinResponse(number=7, cluster_id=request.cluster_id)


@asynccontextmanager
async def listening(doorman: Doorman | None) -> AsyncIterator[str]:
    """A blank node, and its address."""
    gatekeeper = Gatekeeper(SECRET, None, time.monotonic, os.urandom)
    server = PeerServer(PeerLinks(LinkLimits(), LOGGER), gatekeeper, LOGGER, doorman)
    port = await server.listen("127.0.0.1:0")
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop()


def test_who_knows_the_secret_is_answered() -> None:
    async def scenario() -> None:
        async with listening(Polite()) as address:
            stranger = Stranger(SECRET, os.urandom)
            greeted = await stranger.greet(address, peer_pb2.Greeting(name="n2"), TIMEOUT_S)
            assert greeted.name == "hello n2"
            joined = await stranger.join(address, peer_pb2.JoinRequest(cluster_id="c1"))
            assert (joined.number, joined.cluster_id) == (7, "c1")

    asyncio.run(scenario())


def test_who_does_not_know_the_secret_is_not_even_read() -> None:
    async def scenario() -> None:
        async with listening(Polite()) as address:
            stranger = Stranger(Secret(b"a secret of somebody else"), os.urandom)
            with pytest.raises(NoAnswer, match="knows this cluster's secret"):
                await stranger.join(address, peer_pb2.JoinRequest(name="n2"))
            host, _, port = address.rpartition(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            request = peer_pb2.JoinRequest(name="n2").SerializeToString()
            writer.writelines(framed([encode_hello(JOIN, []), request]))
            async with asyncio.timeout(TIMEOUT_S):
                said = await reader.read()
            assert b"it does not answer the challenge" in said
            writer.close()

    asyncio.run(scenario())


def test_nobody_there_a_node_that_answers_no_strangers_and_one_that_is_silent_are_no_answer() -> None:
    async def scenario() -> None:
        stranger = Stranger(SECRET, os.urandom)
        async with listening(None) as address:
            with pytest.raises(NoAnswer, match="does not answer strangers"):
                await stranger.greet(address, peer_pb2.Greeting(), TIMEOUT_S)
        with pytest.raises(NoAnswer):
            await stranger.greet(address, peer_pb2.Greeting(), TIMEOUT_S)
        kept: list[object] = []  # from Python 3.13 on a writer that nobody holds hangs up
        silent = await asyncio.start_server(lambda *streams: kept.append(streams), "127.0.0.1", 0)
        port = silent.sockets[0].getsockname()[1]
        with pytest.raises(NoAnswer, match=r"no answer within 0\.2 s"):
            await stranger.greet(f"127.0.0.1:{port}", peer_pb2.Greeting(), 0.2)
        silent.close()

    asyncio.run(scenario())


class Counting(Polite):
    """Notes who wanted to join."""

    def __init__(self) -> None:
        self.joined: list[str] = []

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        self.joined.append(request.name)
        return await super().join(request)


class Thoughtful(Counting):
    """Answers nobody before they hang up."""

    async def join(self, request: peer_pb2.JoinRequest) -> peer_pb2.JoinResponse:
        await super().join(request)
        return await asyncio.Future()


class Garbage:
    """Fulfils what `said_to` needs of a request."""

    def SerializeToString(self) -> bytes:  # noqa: N802
        return b"\xff\xff no request"


async def said_to(
    address: str,
    proven: peer_pb2.JoinRequest | Garbage,
    *sent: peer_pb2.JoinRequest | Garbage,
    hangs_up: bool = False,
) -> bytes:
    """All that is said to who proves one request, and sends these."""
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    async with asyncio.timeout(TIMEOUT_S):
        size = int.from_bytes(await reader.readexactly(4), "little")
        challenge = expect_hello(await reader.readexactly(size), CHALLENGE_HELLO)[CHALLENGE]
        calling = StrangerCalling(SECRET, METHODS[JOIN], proven.SerializeToString(), challenge, os.urandom(NONCE_BYTES))
        requests = [request.SerializeToString() for request in sent]
        writer.writelines(framed([encode_hello(JOIN, calling.metadata()), *requests]))
        if hangs_up:
            writer.write_eof()
        said = await reader.read()
    writer.close()
    return said


def test_a_request_that_was_changed_on_its_way_is_not_answered_though_the_proof_is_right() -> None:
    async def scenario() -> None:
        doorman = Counting()
        async with listening(doorman) as address:
            said = await said_to(address, peer_pb2.JoinRequest(name="n2"), peer_pb2.JoinRequest(name="another"))
        assert b"the request is not the one that was proven" in said
        assert doorman.joined == []

    asyncio.run(scenario())


def test_a_request_that_cannot_be_read_is_refused_at_once() -> None:
    async def scenario() -> None:
        async with listening(Counting()) as address:
            said = await said_to(address, Garbage(), Garbage())
        assert b"the request cannot be read" in said

    asyncio.run(scenario())


def test_one_request_is_answered_on_one_connection() -> None:
    async def scenario() -> None:
        doorman, request = Thoughtful(), peer_pb2.JoinRequest(name="n2")
        async with listening(doorman) as address:
            await said_to(address, request, request, request, hangs_up=True)
        assert doorman.joined == ["n2"]

    asyncio.run(scenario())
