"""A TLS port in front of a plain one, for suites that also connect with amqps.

The certificate is made on the spot for localhost; a client's certificate is asked for by no one. It runs in a thread
of its own with an event loop of its own, and is gone when the `with` block ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import threading
from collections.abc import Iterator

import trustme


@contextlib.contextmanager
def tls_front(host: str, port: int) -> Iterator[int]:
    """A port on 127.0.0.1 that speaks TLS and passes the plain bytes on to `host`:`port`."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    trustme.CA().issue_cert("localhost", "127.0.0.1").configure_cert(context)
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="tls-front", daemon=True)
    thread.start()

    async def start() -> asyncio.Server:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await _join(reader, writer, host, port)

        return await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)

    server = asyncio.run_coroutine_threadsafe(start(), loop).result(10)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        loop.call_soon_threadsafe(server.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)


async def _join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, host: str, port: int) -> None:
    try:
        plain_reader, plain_writer = await asyncio.open_connection(host, port)
    except OSError:
        writer.close()
        return
    await asyncio.gather(_copy(reader, plain_writer), _copy(plain_reader, writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    # Whoever stops sending ends this direction, and closing the writer ends the other one.
    with contextlib.suppress(OSError, ssl.SSLError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, ssl.SSLError):
        writer.close()
