"""Reads what a provider publishes at a URL (RFC 7517), over HTTPS with its certificate verified. Plain HTTP is for a provider
on this machine only. It does not follow redirects: the operator says where keys come from."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from urllib.parse import urlsplit

import h11

from front.loopback import is_loopback

FETCH_TIMEOUT_S = 5.0  # for all of it
JWKS_BYTES_MAX = 262_144
READ_BYTES = 16_384
PORTS = {"https": 443, "http": 80}


class BadUrl(Exception):
    """Returned when keys cannot be read from there; the text says why."""


class JwksSource:
    """Fulfils key_ring.py, KeySource."""

    def __init__(self, url: str, tls: ssl.SSLContext) -> None:
        """Raises BadUrl."""
        check_url(url)
        self._url = urlsplit(url)
        self._tls = tls if self._url.scheme == "https" else None
        self._fetching: asyncio.Task[bytes] | None = None

    def fetch(self, done: Callable[[bytes | None, str], None]) -> None:
        self._fetching = asyncio.get_running_loop().create_task(self._fetch())
        self._fetching.add_done_callback(lambda task: _tell(task, done))

    def stop(self) -> None:
        if self._fetching is not None:
            self._fetching.cancel()

    async def _fetch(self) -> bytes:
        url = self._url
        async with asyncio.timeout(FETCH_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(url.hostname, url.port or PORTS[url.scheme], ssl=self._tls)
            try:
                return await self._ask(reader, writer)
            finally:
                writer.close()

    async def _ask(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        connection = h11.Connection(h11.CLIENT)
        target = (self._url.path or "/") + (f"?{self._url.query}" if self._url.query else "")
        headers = [
            ("Host", self._url.netloc.rpartition("@")[2]),
            ("Accept", "application/json"),
            ("Connection", "close"),
        ]
        writer.write(connection.send(h11.Request(method="GET", target=target, headers=headers)) or b"")
        writer.write(connection.send(h11.EndOfMessage()) or b"")
        body = b""
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                connection.receive_data(await reader.read(READ_BYTES))
            elif isinstance(event, h11.Response) and event.status_code != 200:
                raise BadUrl(f"status {event.status_code}")
            elif isinstance(event, h11.Data):
                body += event.data
                if len(body) > JWKS_BYTES_MAX:
                    raise BadUrl(f"more than {JWKS_BYTES_MAX} bytes")
            elif isinstance(event, (h11.EndOfMessage, h11.ConnectionClosed)):
                return body


def check_url(url: str) -> None:
    """Raises BadUrl."""
    try:
        split = urlsplit(url)
        host, _ = split.hostname or "", split.port
    except ValueError as error:
        raise BadUrl(f"it is no URL: {error}") from error
    if split.scheme not in PORTS or not host:
        raise BadUrl("give https://HOST[:PORT]/PATH")
    if split.scheme == "http" and not (host == "localhost" or is_loopback(host)):
        raise BadUrl("keys from another machine are read over https only")


def _tell(task: asyncio.Task[bytes], done: Callable[[bytes | None, str], None]) -> None:
    if task.cancelled():
        return
    error = task.exception()
    if error is None:
        done(task.result(), "")
    else:
        done(None, str(error) or type(error).__name__)
