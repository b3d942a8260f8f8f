"""The proxy itself: what it is told to do to bytes happens, and nothing else."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.chaos.backend import LinkShape
from tests.chaos.links import Links

HOST = "127.0.0.1"
WITHIN_S = 10.0


@contextlib.contextmanager
def echo_behind_links() -> Iterator[tuple[Links, socket.socket]]:
    """A connection to whatever echoes, through the proxy; both sides are known as `n1`, for they share an address."""
    with socket.create_server((HOST, 0)) as server:
        threading.Thread(target=_echo, args=(server,), daemon=True).start()
        links = Links({"n1": (HOST, server.getsockname()[1])}, HOST)
        links.open()
        try:
            with socket.create_connection(links.address("n1"), timeout=WITHIN_S) as client:
                yield links, client
        finally:
            links.close()


def _echo(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection, contextlib.suppress(OSError):
        while data := connection.recv(1 << 16):
            connection.sendall(data)


def echoed(client: socket.socket, data: bytes) -> float:
    """Seconds until all of it is back."""
    began = time.monotonic()
    client.sendall(data)
    back = b""
    while len(back) < len(data):
        back += client.recv(1 << 16)
    assert back == data
    return time.monotonic() - began


def test_what_passes_is_the_same_and_in_order() -> None:
    with echo_behind_links() as (links, client):
        echoed(client, bytes(range(256)) * 2_000)
        assert links.bent == 0


def test_a_delayed_link_is_late_both_ways() -> None:
    with echo_behind_links() as (links, client):
        links.shape("n1", "n1", LinkShape(delay_s=0.1, jitter_s=0.05))
        assert echoed(client, b"late") >= 0.2
        assert links.bent == 2, "there and back"


def test_a_dripping_link_takes_its_time_until_it_is_mended() -> None:
    with echo_behind_links() as (links, client):
        links.shape("n1", "n1", LinkShape(bytes_per_s=10_000))
        assert echoed(client, b"x" * 2_000) >= 0.19  # 20 pieces, and a pause of 10 ms behind each but the last
        links.mend()
        before = links.bent
        assert before >= 20
        echoed(client, b"x" * 1_000_000)
        assert links.bent == before


def test_a_corrupting_link_changes_bits_and_counts_them() -> None:
    with echo_behind_links() as (links, client):
        links.shape("n1", "n1", LinkShape(flips_per_mib=1 << 20))  # each piece that is read
        sent = b"x" * 64
        client.sendall(sent)
        received = b""
        while len(received) < len(sent):
            received += client.recv(len(sent))
        assert links.flipped >= 2, "there and back"
        assert 1 <= sum((a ^ b).bit_count() for a, b in zip(sent, received, strict=True)) <= links.flipped
        links.mend()
        before = links.flipped
        echoed(client, sent)
        assert links.flipped == before


def test_a_link_that_resets_ends_the_connection() -> None:
    with echo_behind_links() as (links, client):
        links.shape("n1", "n1", LinkShape(resets_per_s=1_000))
        with pytest.raises(OSError):
            while client.send(b"x"):
                if not client.recv(16):
                    raise ConnectionResetError
        assert links.bent == 1
