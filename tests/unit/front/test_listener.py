"""front/sockets/listener.py: admission at the accept, and a listener that outlives a lack of descriptors."""

from __future__ import annotations

import asyncio
import errno
import itertools
import logging
import os
import resource
import select
import socket
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest
import uvloop

from front.sockets import backlogs, listener
from front.sockets.listener import ACCEPTS_PER_TURN, REST_SHARE, Address, Listener

SPREADING_KEY = 2_654_435_761  # neighbouring sources have different sockets; a key by chance may put many into one

Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    return asyncio.run if request.param == "asyncio" else uvloop.run


class Greeting(asyncio.Protocol):
    """Says hello to whoever is admitted."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        one = cast(asyncio.WriteTransport, transport)
        one.write(b"hello")
        one.close()


async def heard(address: Address) -> bytes:
    try:
        reader, writer = await asyncio.open_connection(*address)
    except ConnectionResetError:
        return b""
    try:
        async with asyncio.timeout(10):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


def listen(admit: Callable[[Address], Greeting | None], **options: Any) -> Listener[Greeting]:
    one = Listener("127.0.0.1", 0, backlog=64, admit=admit, logger=logging.getLogger("test"), **options)
    one.serve()
    return one


def test_who_is_admitted_has_a_protocol_and_who_is_not_is_closed(run: Run) -> None:
    async def scenario() -> None:
        seen: list[str] = []

        def admit(address: Address) -> Greeting | None:
            seen.append(address[0])
            return Greeting() if len(seen) != 2 else None

        one = listen(admit)
        assert [await heard(one.address) for _ in range(3)] == [b"hello", b"", b"hello"]
        assert seen == ["127.0.0.1"] * 3
        one.close()

    run(scenario())


def test_a_listener_survives_a_lack_of_descriptors_and_tells_its_clients(
    run: Run, caplog: pytest.LogCaptureFixture
) -> None:
    """No descriptor is free but the one in reserve: uvloop closes its own listeners for good then."""

    async def scenario() -> None:
        asked_for_room = []
        one = listen(lambda address: Greeting(), on_exhausted=lambda: asked_for_room.append(1))
        client = socket.socket()
        client.setblocking(False)
        later = socket.socket()
        later.setblocking(False)
        with no_descriptors():
            await asyncio.get_running_loop().sock_connect(client, one.address)
            async with asyncio.timeout(10):
                assert await received(client) == b"", "closed, and not left to wait"
        async with asyncio.timeout(10):
            await asyncio.get_running_loop().sock_connect(later, one.address)
            assert await received(later) == b"hello"
        assert asked_for_room
        one.close()
        client.close()
        later.close()

    with caplog.at_level(logging.ERROR):
        run(scenario())
    assert "connections cannot be accepted" in caplog.text and "Raise the limit of open files" in caplog.text


def test_floods_in_several_backlogs_share_the_time_of_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each took a second of the processor: the more sockets rest, the longer each does."""
    monkeypatch.setattr(backlogs.resource, "getrlimit", lambda what: (1 << 20, 1 << 20))
    monkeypatch.setattr(backlogs.secrets, "randbits", lambda bits: SPREADING_KEY)
    ticks = itertools.count()
    monkeypatch.setattr(listener.time, "thread_time", lambda: float(next(ticks)))
    rests: list[float] = []
    rest = Listener._rest

    def noted(self: Listener[Greeting], listening: socket.socket, seconds: float) -> None:
        rests.append(seconds)
        rest(self, listening, seconds)

    monkeypatch.setattr(Listener, "_rest", noted)

    async def scenario() -> None:
        one = Listener("127.0.0.1", 0, backlog=64, admit=lambda address: None, logger=logging.getLogger("test"))
        sources = [f"127.0.4.{number}" for number in range(1, 4) for _ in range(ACCEPTS_PER_TURN)]
        clients = [socket.create_connection(one.address, 10, (source, 0)) for source in sources]
        assert len(select.select(one._sockets, [], [], 0)[0]) == 3, "each source has a socket of its own"
        one.serve()
        async with asyncio.timeout(10):
            while len(rests) < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        assert rests == [REST_SHARE * 1.0, REST_SHARE * 2.0, REST_SHARE * 3.0]
        one.close()
        for client in clients:
            client.close()

    run(scenario())


async def received(client: socket.socket) -> bytes:
    try:
        return await asyncio.get_running_loop().sock_recv(client, 100)
    except ConnectionResetError:
        return b""


@contextmanager
def no_descriptors() -> Iterator[None]:
    """This process cannot open anything."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(name) for name in os.listdir("/proc/self/fd"))
    taken: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 8, limits[1]))
    try:
        with pytest.raises(OSError) as full:
            while True:
                taken.append(os.open(os.devnull, os.O_RDONLY))
        assert full.value.errno == errno.EMFILE
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
        for descriptor in taken:
            os.close(descriptor)
