"""Output that lies partly in files, over real sockets: front/sockets/socket_output.py."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import uvloop

from broker.messages.stored_bytes import Sendable, in_memory
from front.sockets.socket_output import SocketOutput
from storage.disk import File
from storage.file_piece import FilePiece
from storage.os_disk import OsDisk

CONTENT = os.urandom(8 << 20)  # more than sockets of this machine hold
PATIENCE_S = 20.0


@pytest.fixture
def file(tmp_path: Path) -> File:
    made = OsDisk(str(tmp_path)).create("f")
    made.write_at(0, [CONTENT])
    return made


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Awaitable[None]], None]:
    def run_in_loop(work: Any) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(asyncio.wait_for(work, PATIENCE_S))

    return run_in_loop


@dataclass
class Ends:
    """Both ends of a connection: ours with its output, theirs as a socket that is read when the test does."""

    transport: asyncio.Transport
    output: SocketOutput
    theirs: socket.socket
    drained: asyncio.Event = field(default_factory=asyncio.Event)
    broken: list[OSError] = field(default_factory=list)
    was_broken: asyncio.Event = field(default_factory=asyncio.Event)

    def on_broken(self, error: OSError) -> None:
        self.broken.append(error)
        self.was_broken.set()

    async def receive(self, size: int) -> bytes:
        received = bytearray()
        while len(received) < size:
            data = await asyncio.get_running_loop().sock_recv(self.theirs, 1 << 16)
            if not data:
                break
            received += data
        return bytes(received)


@asynccontextmanager
async def connection() -> AsyncIterator[Ends]:
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[asyncio.Transport] = loop.create_future()

    class Ours(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            accepted.set_result(cast(asyncio.Transport, transport))

    server = await loop.create_server(Ours, "127.0.0.1", 0)
    theirs = socket.create_connection(server.sockets[0].getsockname())
    theirs.setblocking(False)
    ends = Ends(await accepted, cast(SocketOutput, None), theirs)
    ends.output = SocketOutput(ends.transport, lambda: ends.drained.set(), ends.on_broken)
    try:
        yield ends
    finally:
        ends.output.close()
        if not ends.transport.is_closing():
            ends.transport.abort()
        theirs.close()
        server.close()


def piece(file: File, at: int, size: int) -> FilePiece:
    return FilePiece(file, at, size, pytest.fail)


def pieces(file: File, size: int = 1 << 20) -> list[FilePiece]:
    return [piece(file, at, size) for at in range(0, len(CONTENT), size)]


def with_heads(file: File) -> list[Sendable]:
    parts: list[Sendable] = []
    for number, piece in enumerate(pieces(file)):
        parts += [b"head %d " % number, piece]
    return [*parts, memoryview(b"the end")]


def joined(parts: Sequence[Sendable]) -> bytes:
    return b"".join(map(in_memory, parts))


def test_what_lies_in_memory_and_in_files_arrives_in_order_however_slowly_it_is_read(run: Any, file: File) -> None:
    async def work() -> None:
        async with connection() as ends:
            parts = with_heads(file)
            assert not ends.output.write(parts), "no socket holds all of it"
            assert await ends.receive(len(joined(parts))) == joined(parts)
            await ends.drained.wait()
            assert ends.output.write([b"and more"])
            assert await ends.receive(8) == b"and more"
            assert not ends.broken

    run(work())


def test_small_output_is_sent_at_once(run: Any, file: File) -> None:
    async def work() -> None:
        async with connection() as ends:
            for at in range(0, 100_000, 10_000):
                assert ends.output.write([b"head", piece(file, at, 10_000)])
                assert await ends.receive(10_004) == b"head" + CONTENT[at : at + 10_000]

    run(work())


def test_what_the_transport_has_not_written_yet_is_not_overtaken(run: Any, file: File) -> None:
    async def work() -> None:
        async with connection() as ends:
            ends.transport.write(CONTENT)
            assert ends.transport.get_write_buffer_size() > 0
            assert ends.output.write([b"head", piece(file, 0, 1_000)]), "the transport takes all"
            assert await ends.receive(len(CONTENT) + 1_004) == CONTENT + b"head" + CONTENT[:1_000]

    run(work())


def test_the_last_output_comes_behind_what_waits_and_then_the_socket_is_closed(run: Any, file: File) -> None:
    async def work() -> None:
        async with connection() as ends:
            assert not ends.output.write(with_heads(file))
            ends.output.hand_over([b"bye", piece(file, 7, 100)])
            ends.transport.close()
            wanted = joined(with_heads(file)) + b"bye" + CONTENT[7:107]
            assert await ends.receive(len(wanted) + 1) == wanted

    run(work())


def test_a_client_that_goes_while_output_waits_breaks_the_connection(run: Any, file: File) -> None:
    async def work() -> None:
        async with connection() as ends:
            assert not ends.output.write(with_heads(file))
            ends.theirs.close()
            await ends.was_broken.wait()
            assert isinstance(ends.broken[0], ConnectionError) and not ends.drained.is_set()

    run(work())


def test_a_file_that_ends_too_early_breaks_the_connection(run: Any, file: File) -> None:
    async def work() -> None:
        async with connection() as ends:
            with pytest.raises(OSError, match="too early"):
                ends.output.write([piece(file, len(CONTENT) - 10, 20)])

    run(work())


def test_without_a_second_descriptor_the_transport_writes_it(
    run: Any, file: File, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(descriptor: int) -> int:
        raise OSError("too many open files")

    async def work() -> None:
        async with connection() as ends:
            monkeypatch.setattr(os, "dup", none_left)
            assert ends.output.write([b"head", piece(file, 0, 1_000)])
            assert await ends.receive(1_004) == b"head" + CONTENT[:1_000]

    run(work())


def test_within_tls_what_lies_in_files_is_read(run: Any, file: File) -> None:
    async def work() -> None:
        written: list[bytes] = []
        extra = {"ssl_object": object()}
        transport: Any = SimpleNamespace(get_extra_info=extra.get, writelines=written.extend)
        output = SocketOutput(transport, lambda: None, lambda error: None)
        assert output.write([b"head", piece(file, 0, 1_000)])
        assert b"".join(written) == b"head" + CONTENT[:1_000]

    run(work())
