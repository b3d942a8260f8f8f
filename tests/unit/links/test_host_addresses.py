"""links/host_addresses.py: names that nobody answers for keep neither other links nor the end of the process waiting."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections import Counter

import pytest
import uvloop

from links.host_addresses import AT_ONCE, HostAddresses, addresses_of
from links.sockets import LinkSockets


class Resolver:
    """Answers for hosts that are not `slow`; for those once it is told to."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()
        self.answers = threading.Event()
        self.begun = threading.Semaphore(0)

    def __call__(self, host: str) -> list[str]:
        self.asked[host] += 1
        self.begun.release()
        if host.startswith("slow"):
            self.answers.wait(60)
            raise OSError("temporary failure in name resolution")
        return ["127.0.0.2", "127.0.0.3"]


@pytest.fixture
def resolver() -> Resolver:
    return Resolver()


def test_an_address_is_not_asked_for(resolver: Resolver) -> None:
    hosts = HostAddresses(resolver)
    for address in ("127.0.0.1", "::1", "fe80::1%1"):
        assert asyncio.run(hosts.of(address)) == [address]
    assert not resolver.asked


def test_a_host_is_asked_once_for_all_links_that_wait_for_it(resolver: Resolver) -> None:
    async def many() -> list[list[str] | BaseException]:
        hosts = HostAddresses(resolver)
        waiting = [asyncio.create_task(hosts.of("slow")) for _ in range(3 * AT_ONCE)]
        assert await hosts.of("other") == ["127.0.0.2", "127.0.0.3"]
        resolver.answers.set()
        return await asyncio.gather(*waiting, return_exceptions=True)

    answers = asyncio.run(many())
    assert all(isinstance(one, OSError) and "temporary failure" in str(one) for one in answers)
    assert resolver.asked == {"slow": 1, "other": 1}


def test_so_many_are_asked_at_once_and_who_gives_up_while_it_waits_has_asked_nothing(resolver: Resolver) -> None:
    async def more_than_turns() -> None:
        hosts = HostAddresses(resolver)
        waiting = [asyncio.create_task(hosts.of(f"slow{number}")) for number in range(2 * AT_ONCE)]
        for _ in range(AT_ONCE):
            await asyncio.to_thread(resolver.begun.acquire)
        assert len(resolver.asked) == AT_ONCE
        for one in waiting:
            one.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        later = asyncio.create_task(hosts.of("other"))
        resolver.answers.set()
        assert await later == ["127.0.0.2", "127.0.0.3"]

    asyncio.run(more_than_turns())
    assert len(resolver.asked) == AT_ONCE + 1


def test_the_loop_ends_while_a_name_is_not_answered_for(resolver: Resolver) -> None:
    """With the loop's own look-ups the process stayed until the last of them was answered: minutes with 1,000 such links."""

    async def one() -> None:
        asking = asyncio.create_task(HostAddresses(resolver).of("slow"))
        await asyncio.to_thread(resolver.begun.acquire)
        asking.cancel()

    try:
        uvloop.run(one())
    finally:
        resolver.answers.set()


def test_a_name_that_cannot_be_one_is_said() -> None:
    with pytest.raises((OSError, ValueError)):
        asyncio.run(HostAddresses().of("a" * 300))


def test_the_addresses_of_this_machine_are_found() -> None:
    assert set(addresses_of("localhost")) & {"127.0.0.1", "::1"}


def test_a_link_connects_to_the_first_address_that_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("links.host_addresses.addresses_of", lambda host: ["127.0.0.2", "127.0.0.1"])
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        async def connect() -> list[str]:
            user = _User()
            LinkSockets(lambda: None).connect("a-name", port, None, 30.0, user)
            await user.told.wait()
            return user.said

        assert asyncio.run(connect()) == ["connected"]
    assert asyncio.run(connect())[0].startswith(f"cannot connect to a-name port {port}: ")


class _User:
    """Fulfils SocketUser."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.told = asyncio.Event()

    def connected(self, wire: object) -> None:
        self.said.append("connected")
        self.told.set()

    def received(self, data: bytes) -> None: ...

    def writable(self, writable: bool) -> None: ...

    def lost(self, reason: str) -> None:
        self.said.append(reason)
        self.told.set()
