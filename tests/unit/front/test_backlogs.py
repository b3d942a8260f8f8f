"""front/sockets/backlogs.py: connections of one source wait in one backlog, and others' in another."""

from __future__ import annotations

import errno
import resource
import select
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from ipaddress import ip_address

import pytest

from front.sockets import backlogs
from front.sockets.backlogs import DESCRIPTORS_PER_SOCKET, SOCKETS_MAX, listening_sockets
from tests.ports import free_ports

TIMEOUT_S = 10.0
KEY = 2_654_435_761


@pytest.fixture(autouse=True)
def may_open_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlogs.resource, "getrlimit", lambda what: (1 << 20, 1 << 20))


def place_of(source: str, key: int) -> int:
    """What the program in the kernel is to compute."""
    return (int(ip_address(source)) * key & 0xFFFF_FFFF) >> (33 - SOCKETS_MAX.bit_length())


@contextmanager
def listening(host: str = "127.0.0.1", port: int = 0, backlog: int = 16) -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        yield [stack.enter_context(one) for one in listening_sockets(host, port, backlog)]


def connected(sockets: list[socket.socket], source: str) -> socket.socket:
    return socket.create_connection(sockets[0].getsockname()[:2], TIMEOUT_S, (source, 0))


def reached(sockets: list[socket.socket], source: str) -> int:
    """Which of them has a new connection from there."""
    with connected(sockets, source):
        ready, _, _ = select.select(sockets, [], [], TIMEOUT_S)
        (one,) = ready
        one.accept()[0].close()
        return sockets.index(one)


def test_each_source_has_one_socket_and_sources_have_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlogs.secrets, "randbits", lambda bits: KEY)
    with listening() as sockets:
        assert len(sockets) == SOCKETS_MAX
        assert len({one.getsockname() for one in sockets}) == 1
        seen = set()
        for number in range(2, 102):
            source = f"127.0.3.{number}"
            seen.add(place_of(source, KEY))
            assert {reached(sockets, source) for _ in range(2)} == {place_of(source, KEY)}
        assert seen == set(range(SOCKETS_MAX))


def place_by_program(program: bytes, header: bytes) -> int:
    """What the kernel computes from an IP header."""
    accumulator = index = 0
    for code, _, _, operand in struct.iter_unpack(backlogs.INSTRUCTION, program):
        match code:
            case backlogs.LOAD_WORD:
                at = operand - backlogs.NETWORK_HEADER
                accumulator = int.from_bytes(header[at : at + 4], "big")
            case backlogs.TO_INDEX:
                index = accumulator
            case backlogs.XOR_INDEX:
                accumulator ^= index
            case backlogs.MULTIPLY:
                accumulator = accumulator * operand & 0xFFFF_FFFF
            case backlogs.SHIFT_RIGHT:
                accumulator >>= operand
            case _:
                assert code == backlogs.RETURN
                return accumulator
    raise AssertionError("the program has no end")


def test_each_network_of_64_bits_has_one_socket_and_those_of_one_provider_have_all_of_them() -> None:
    """A /32 is a provider: all of its customers waited behind the flood of one."""
    program = backlogs.chooser(socket.AF_INET6, SOCKETS_MAX, KEY)

    def place(source: str) -> int:
        return place_by_program(program, bytes(8) + ip_address(source).packed + ip_address("::1").packed)

    places = [place(f"2001:db8:0:{number:x}::1") for number in range(200)]
    assert set(places) == set(range(SOCKETS_MAX))
    assert [place(f"2001:db8:0:{number:x}:a:b:c:d") for number in range(200)] == places
    ipv4 = backlogs.chooser(socket.AF_INET, SOCKETS_MAX, KEY)
    for source in ("127.0.3.2", "192.0.2.77"):
        assert place_by_program(ipv4, bytes(12) + ip_address(source).packed + bytes(4)) == place_of(source, KEY)


def test_the_key_is_of_this_process() -> None:
    """Who knew it could choose an address that is in somebody's way."""
    assert backlogs.chooser(socket.AF_INET, 8, 3) != backlogs.chooser(socket.AF_INET, 8, 5)
    sources = [f"127.0.3.{number}" for number in range(2, 22)]
    found = set()
    for _ in range(4):
        with listening() as sockets:
            found.add(tuple(reached(sockets, source) for source in sources))
    assert len(found) > 1


def test_a_full_backlog_of_one_source_is_not_in_the_way_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is accepted meanwhile: the kernel takes connections of the one until they are as many as may wait."""
    monkeypatch.setattr(backlogs.secrets, "randbits", lambda bits: KEY)
    flood, other = "127.0.3.2", "127.0.3.3"
    assert place_of(flood, KEY) != place_of(other, KEY)
    with listening(backlog=2) as sockets, ExitStack() as stack:
        pending: list[socket.socket] = []
        for _ in range(8):
            one = stack.enter_context(closing(socket.socket()))
            one.bind((flood, 0))
            one.setblocking(False)
            assert one.connect_ex(sockets[0].getsockname()) == errno.EINPROGRESS or one.getpeername()
            pending.append(one)
        _, writable, _ = select.select([], pending, [], 0)
        assert 0 < len(writable) < len(pending), "the backlog is full"
        began = stack.enter_context(connected(sockets, other))
        began.settimeout(TIMEOUT_S)
        ready, _, _ = select.select([sockets[place_of(other, KEY)]], [], [], TIMEOUT_S)
        with ready[0].accept()[0] as accepted:
            accepted.sendall(b"hello")
            assert began.recv(5) == b"hello"


def test_all_addresses_of_a_host_have_the_same_port() -> None:
    with listening("localhost", free_ports(1)[0]) as sockets:
        assert len({one.getsockname()[1] for one in sockets}) == 1
        assert len(sockets) == SOCKETS_MAX * len({one.family for one in sockets})


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_nobody_else_can_listen_there(host: str) -> None:
    port = free_ports(1)[0]
    with listening(host, port), pytest.raises(OSError, match="Address already in use"), listening(host, port):
        pytest.fail("two nodes would share the clients of one port")
    with listening(host, port) as again:
        assert again[0].getsockname()[1] == port, "it is free again"


def test_a_port_of_a_plain_socket_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as plain, pytest.raises(OSError, match="Address already in use"):
        listening_sockets("127.0.0.1", plain.getsockname()[1], 16)


def test_a_kernel_that_cannot_choose_has_one_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backlogs, "SO_ATTACH_REUSEPORT_CBPF", 9_999)
    with listening() as sockets:
        assert len(sockets) == 1
        assert reached(sockets, "127.0.3.2") == 0


@pytest.mark.parametrize(
    ("descriptors", "count"),
    [
        (resource.RLIM_INFINITY, SOCKETS_MAX),
        (1_048_576, SOCKETS_MAX),
        (8 * DESCRIPTORS_PER_SOCKET, 8),
        (8 * DESCRIPTORS_PER_SOCKET - 1, 4),
        (2 * DESCRIPTORS_PER_SOCKET, 2),
        (64, 1),
    ],
)
def test_a_process_that_may_open_little_has_few_sockets(
    descriptors: int, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backlogs.resource, "getrlimit", lambda what: (descriptors, descriptors))
    with listening() as sockets:
        assert len(sockets) == count
