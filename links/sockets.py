"""LinkNet and LinkClock on asyncio."""

from __future__ import annotations

import asyncio
import ssl
import stat
from collections.abc import Callable
from pathlib import Path
from typing import cast

from links.host_addresses import HostAddresses
from links.world import Cancel, LinkTimer, SocketUser, TlsTerms

WRITE_BUFFER_HIGH_BYTES = 1_048_576
PEM_BYTES_MAX = 1 << 20
# The same with every Python: a link must not fail because its node got another one. From 3.13 on Python's default has two more:
# STRICT refuses certificates without an Authority Key Identifier, as many brokers have and RabbitMQ takes; PARTIAL_CHAIN trusts
# an intermediate authority that a file names without its root.
VERIFY_FLAGS = ssl.VerifyFlags.VERIFY_X509_TRUSTED_FIRST | ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
READ_BYTES = 131_072  # at once: where each message is rewritten, small ones of that much take 10 ms


class LinkLoopClock:
    """The time of the node, and timers of its event loop."""

    def __init__(self, monotonic: Callable[[], float], wall_ms: Callable[[], int]) -> None:
        self.monotonic = monotonic
        self.wall_ms = wall_ms

    def call_later(self, delay_s: float, callback: Callable[[], None]) -> LinkTimer:
        return asyncio.get_running_loop().call_later(delay_s, callback)


class LinkSockets:
    """Opens connections. `local`: where this node's own AMQP listener is, for URIs without a host."""

    def __init__(self, local: Callable[[], tuple[str, int, bool] | None]) -> None:
        self._local = local
        self._hosts = HostAddresses()

    def connect(self, host: str, port: int, tls: TlsTerms | None, timeout_s: float, events: SocketUser) -> Cancel:
        task = asyncio.get_running_loop().create_task(self._connect(host, port, tls, timeout_s, events))
        return lambda: cast("None", task.cancel())

    async def _connect(self, host: str, port: int, tls: TlsTerms | None, timeout_s: float, user: SocketUser) -> None:
        if not host:
            local = self._local()
            if local is None:
                user.lost("this node has no AMQP listener to reach this cluster by")
                return
            host, port, within_tls = local
            tls = TlsTerms("", verify=False) if within_tls else None
        try:
            async with asyncio.timeout(timeout_s):
                await self._connect_to_one(host, port, tls, user)
        except (OSError, ValueError, TimeoutError) as error:  # ssl.SSLError is an OSError
            user.lost(f"cannot connect to {host} port {port}: {error or 'timed out'}")

    async def _connect_to_one(self, host: str, port: int, tls: TlsTerms | None, user: SocketUser) -> None:
        """Of the addresses of the host, the first that answers."""
        context = None if tls is None else await asyncio.to_thread(client_context, tls)
        name = None if tls is None else _said_name(tls, host)
        loop, failed = asyncio.get_running_loop(), OSError("it has no address")
        for address in await self._hosts.of(host):
            try:
                await loop.create_connection(
                    lambda: _LinkProtocol(user), address, port, ssl=context, server_hostname=name
                )
                return
            except OSError as error:
                failed = error
        raise failed


def client_context(terms: TlsTerms) -> ssl.SSLContext:
    """Takes milliseconds, for whom the machine trusts is read. Raises OSError or ValueError for files that cannot be read."""
    for path in filter(None, (terms.ca_file, terms.certificate_file, terms.key_file)):
        _check_pem_file(path)
    context = ssl.create_default_context(cafile=terms.ca_file or None)
    context.verify_flags = VERIFY_FLAGS
    context.check_hostname = terms.verify and terms.checks_name
    if not terms.verify:
        context.verify_mode = ssl.CERT_NONE
    if terms.certificate_file:
        _load_certificate(context, terms)
    return context


def _load_certificate(context: ssl.SSLContext, terms: TlsTerms) -> None:
    """With a password, if only an empty one, so that no key that needs one asks for it at the terminal of the node."""
    try:
        context.load_cert_chain(terms.certificate_file, terms.key_file or None, password=terms.key_password)
    except ssl.SSLError as error:  # "PEM lib", and nothing more
        raise ValueError(
            f"certfile and keyfile are no certificate with its key, or the key needs another password: {error}"
        ) from error


def _said_name(terms: TlsTerms, host: str) -> str:
    """An empty one is not said. Raises ValueError."""
    if "\0" in terms.server_name:
        raise ValueError("no host has a name with a NUL")  # ssl raises a TypeError, as for what is no text
    return terms.server_name or (host if terms.checks_name else "")


def _check_pem_file(path: str) -> None:
    """Who may declare a link names files: neither a pipe nor /dev/zero may be read, which have no end."""
    found = Path(path).stat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > PEM_BYTES_MAX:
        raise ValueError(f"'{path}' is no file of PEM of at most {PEM_BYTES_MAX} bytes")


class _LinkProtocol(asyncio.BufferedProtocol):
    """One connection, as its user sees it: fulfils LinkSocket."""

    def __init__(self, user: SocketUser) -> None:
        self._user = user
        self._transport: asyncio.Transport | None = None
        self._input = bytearray(READ_BYTES)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(WRITE_BUFFER_HIGH_BYTES)
        self._user.connected(self)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self._input

    def buffer_updated(self, nbytes: int) -> None:
        self._user.received(bytes(memoryview(self._input)[:nbytes]))

    def pause_writing(self) -> None:
        self._user.writable(False)

    def resume_writing(self) -> None:
        self._user.writable(True)

    def connection_lost(self, exc: Exception | None) -> None:
        self._user.lost(f"the connection was lost: {exc}" if exc else "the broker closed the connection")

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def pause_reading(self) -> None:
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()
