"""front/sockets/gate.py: who comes in over the listeners of a front, who is closed for it, and what is counted and logged."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable, Coroutine
from contextlib import closing
from typing import Any, cast

import pytest
import trustme
import uvloop

from broker.login.admission import GRACE_S
from front.sockets.gate import REFUSALS_LOGGED_S, Gate, GateLimits, Guest
from front.sockets.listener import Address

TIMEOUT_S = 10.0
logger = logging.getLogger("test.gate")
Run = Callable[[Coroutine[Any, Any, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Run:
    return asyncio.run if request.param == "asyncio" else uvloop.run


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


class Visitor(Guest, asyncio.Protocol):
    def __init__(self, source: str) -> None:
        self.source = source
        self.aborted = False

    def abort(self) -> None:
        self.aborted = True


def described(connections: int, strangers: int) -> str:
    return f"{connections} open, {strangers} strangers"


def gate_of(limits: GateLimits, clock: Callable[[], float]) -> Gate[Any]:
    return Gate(limits, monotonic=clock, logger=logger, describe=described)


def entered(gate: Gate[Visitor], *sources: str) -> list[Visitor]:
    guests = [Visitor(source) for source in sources]
    assert all(gate.admit(one) for one in guests)
    return guests


def test_a_newcomer_above_its_share_closes_the_oldest_of_its_own_source() -> None:
    clock = Clock()
    gate = gate_of(GateLimits(strangers=10, strangers_per_source=2), clock)
    other, first, second = entered(gate, "b", "a", "a")
    clock.now += GRACE_S
    (third,) = entered(gate, "a")
    assert first.aborted and not gate.is_stranger(first)
    assert not other.aborted and not second.aborted and not third.aborted
    assert (gate.strangers, gate.evicted_total, gate.refused_total) == (3, 1, 0)


def test_who_is_refused_is_counted_and_closes_nobody() -> None:
    gate = gate_of(GateLimits(strangers=10, strangers_per_source=1), Clock())
    (first,) = entered(gate, "a")
    assert not gate.admit(Visitor("a")), "the first one has its grace yet"
    assert not first.aborted
    assert (gate.strangers, gate.evicted_total, gate.refused_total) == (1, 0, 1)


def test_who_has_logged_in_is_no_stranger_but_takes_a_place_of_all() -> None:
    clock = Clock()
    gate = gate_of(GateLimits(strangers=2, strangers_per_source=2, connections=3), clock)
    clients = entered(gate, "a", "b")
    for one in clients:
        gate.logged_in(one)
        gate.logged_in(one)
    assert (gate.strangers, gate.known) == (0, 2)
    (stranger,) = entered(gate, "c")
    clock.now += GRACE_S
    assert gate.admit(Visitor("d")), "of equals the oldest stranger gives way"
    assert stranger.aborted and not any(one.aborted for one in clients)
    gate.left(clients[0])
    gate.left(clients[0])
    assert (gate.strangers, gate.known) == (1, 1)
    entered(gate, "e")


def test_a_full_house_of_clients_refuses() -> None:
    gate = gate_of(GateLimits(strangers=2, strangers_per_source=2, connections=1), Clock())
    (client,) = entered(gate, "a")
    gate.logged_in(client)
    assert not gate.admit(Visitor("b")) and not client.aborted


def test_who_gave_way_cannot_log_in_any_more() -> None:
    clock = Clock()
    gate = gate_of(GateLimits(strangers=1, strangers_per_source=1), clock)
    (first,) = entered(gate, "a")
    clock.now += GRACE_S
    entered(gate, "a")
    gate.logged_in(first)
    assert (gate.strangers, gate.known) == (1, 0)


def test_a_source_that_becomes_known_late_is_held_to_its_share() -> None:
    gate = gate_of(GateLimits(strangers=10, strangers_per_source=1), Clock())
    one, two, three = entered(gate, "", "", "")
    one.source = two.source = "a"
    three.source = "b"
    assert gate.source_known(one)
    assert not gate.source_known(two)
    assert gate.source_known(three)
    assert (gate.strangers, gate.refused_total) == (2, 1)


def test_room_is_made_by_the_source_that_holds_most() -> None:
    gate = gate_of(GateLimits(strangers=0, strangers_per_source=0), Clock())
    gate.make_room()
    guests = entered(gate, "a", "b", "b", "c")
    gate.logged_in(guests[0])
    gate.make_room()
    assert [one.aborted for one in guests] == [False, True, False, False]
    assert gate.evicted_total == 1


def test_what_is_logged_names_the_source_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    gate = gate_of(GateLimits(strangers=3, strangers_per_source=1), clock)
    entered(gate, "192.0.2.1", "")
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            gate.admit(Visitor("192.0.2.1"))
        clock.now += REFUSALS_LOGGED_S
        entered(gate, "192.0.2.1")
        gate.make_room()
    assert caplog.messages == [
        "a connection from 192.0.2.1 was refused: 2 open, 2 strangers; 0 like this were not logged",
        "a connection from 192.0.2.1 gave way to a newer one before it had authenticated: 2 open, 2 strangers; "
        "2 like this were not logged",
        "a connection from a load balancer gave way to a newer one before it had authenticated: 1 open, 1 strangers; "
        "0 like this were not logged",
    ]


# over sockets


class Greeter(Guest, asyncio.Protocol):
    """Says hello, and stays."""

    def __init__(self, gate: Gate[Greeter], source: str) -> None:
        self.source = source
        self._gate = gate
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.write(b"hello")

    def connection_lost(self, exc: Exception | None) -> None:
        self._gate.left(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()


async def until(done: Callable[[], bool]) -> None:
    deadline = asyncio.get_running_loop().time() + TIMEOUT_S
    while not done():
        assert asyncio.get_running_loop().time() < deadline, "it does not come true"
        await asyncio.sleep(0.01)


async def to_the_end(reader: asyncio.StreamReader) -> bytes:
    reading = asyncio.ensure_future(reader.read())
    assert (await asyncio.wait({reading}, timeout=TIMEOUT_S))[0], "the connection is open yet"
    try:
        return await reading
    except ConnectionResetError:
        return b""


def test_two_listeners_share_their_places_and_close_what_gives_way(run: Run) -> None:
    async def scenario() -> None:
        clock = Clock()
        gate = gate_of(GateLimits(strangers=2, strangers_per_source=1), clock)
        guest: Callable[[Address], Greeter] = lambda address: Greeter(gate, address[0])  # noqa: E731
        one, two = (gate.listen("127.0.0.1", 0, backlog=8, guest=guest) for _ in range(2))
        reader, writer = await asyncio.open_connection(*one)
        with closing(writer):
            assert await reader.readexactly(5) == b"hello"
            refused, other = await asyncio.open_connection(*two)
            with closing(other):
                assert await to_the_end(refused) == b""
            clock.now += GRACE_S
            admitted, newer = await asyncio.open_connection(*two)
            with closing(newer):
                assert await admitted.readexactly(5) == b"hello"
                assert await to_the_end(reader) == b"", "the older one has given way"
        await until(lambda: not gate.strangers)
        gate.close()
        with pytest.raises(OSError):
            await asyncio.open_connection(*one)
        again = gate.listen("127.0.0.1", 0, backlog=8, guest=guest)
        reader, writer = await asyncio.open_connection(*again)
        with closing(writer):
            assert await reader.readexactly(5) == b"hello"
        gate.close()

    run(scenario())


def test_who_is_in_a_tls_handshake_is_counted_and_can_be_closed(run: Run) -> None:
    """It has no transport yet that could be told to abort."""

    async def scenario() -> None:
        gate = gate_of(GateLimits(strangers=2, strangers_per_source=2), Clock())
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        trustme.CA().issue_cert("localhost").configure_cert(tls)
        address = gate.listen(
            "127.0.0.1",
            0,
            backlog=8,
            guest=lambda address: Greeter(gate, address[0]),
            tls=tls,
            handshake_timeout_s=2 * TIMEOUT_S,
        )
        reader, writer = await asyncio.open_connection(*address)
        with closing(writer):
            await until(lambda: gate.strangers == 1)
            gate.make_room()
            assert await to_the_end(reader) == b""
        await until(lambda: not gate.strangers)
        gate.close()

    run(scenario())
