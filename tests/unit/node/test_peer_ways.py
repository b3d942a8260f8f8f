"""node/peers/ways.py: greetings over real sockets, and what ends a task that nobody has stopped."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
from collections.abc import Collection

import pytest

from node.peers import peer_pb2
from node.peers.handshake import Secret
from node.peers.side import PeerCredentials, PeerSettings, PeerSide
from node.peers.ways import PeerWays

TIMEOUT_S = 10.0
SETTINGS = PeerSettings("127.0.0.1:0", credentials=PeerCredentials(Secret(b"a secret that both sides know")))


def side() -> PeerSide:
    return PeerSide(SETTINGS, time.monotonic, os.urandom, logging.getLogger("test"))


def test_who_greets_where_nobody_listens_is_told_so_once() -> None:
    async def scenario() -> None:
        faults, answers = list[BaseException](), asyncio.Queue[peer_pb2.Greeted | None]()
        ways = PeerWays(side(), faults.append)
        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = f"127.0.0.1:{closed.getsockname()[1]}"
        ways.greet(address, peer_pb2.Greeting(name="n2"), TIMEOUT_S, answers.put_nowait)
        assert await asyncio.wait_for(answers.get(), TIMEOUT_S) is None
        assert answers.empty() and not faults

    asyncio.run(scenario())


def test_a_fault_of_who_hears_the_answer_is_told() -> None:
    async def scenario() -> None:
        faults = asyncio.Queue[BaseException]()
        ways = PeerWays(side(), faults.put_nowait)

        def fail(greeted: peer_pb2.Greeted | None) -> None:
            raise ZeroDivisionError("a mistake")

        with socket.create_server(("127.0.0.1", 0)) as closed:
            address = f"127.0.0.1:{closed.getsockname()[1]}"
        ways.greet(address, peer_pb2.Greeting(), TIMEOUT_S, fail)
        assert isinstance(await asyncio.wait_for(faults.get(), TIMEOUT_S), ZeroDivisionError)

    asyncio.run(scenario())


def test_other_nodes_are_looked_up_where_the_configuration_says_now() -> None:
    async def scenario() -> None:
        places = [{"n1:1"}, {"n1:1", "n2:1"}]
        found = asyncio.Queue[Collection[str]]()

        async def look_up() -> Collection[str]:
            return places.pop(0)

        ways = PeerWays(side(), pytest.fail, look_up)
        for expected in ({"n1:1"}, {"n1:1", "n2:1"}):
            ways.look_up(found.put_nowait)
            assert await asyncio.wait_for(found.get(), TIMEOUT_S) == expected

    asyncio.run(scenario())
