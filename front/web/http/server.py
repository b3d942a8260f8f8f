"""The HTTP driver: sockets, h11, deadlines and limits. What is answered is decided by the handler it is given.

A client may keep still between requests for IDLE_TIMEOUT_S, or STRANGER_IDLE_TIMEOUT_S before it has logged in, and has
REQUEST_TIMEOUT_S from the first byte of a request to its last. Bodies larger than the handler allows are refused before they
are read. Connections are admitted when they are accepted, shared between their sources (front/sockets/gate.py).
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

import h11

from broker.login.client_address import ClientAddress, source_of
from front.loopback import is_loopback
from front.sockets.gate import Gate, GateLimits, Guest
from front.sockets.listener import Address
from front.web.http.request import RETRY_SOON, HttpError, Request, Response, error_response

REQUEST_TIMEOUT_S = 30.0
IDLE_TIMEOUT_S = 120.0
STRANGER_IDLE_TIMEOUT_S = 10.0
TLS_HANDSHAKE_TIMEOUT_S = 5.0
BACKLOG = 4_096  # connections the kernel keeps waiting: a flood must not fill it before it is accepted
HEADER_BYTES_MAX = 16_384
# Of bodies that are kept at a time, of all connections; short ones are not counted against it.
BODIES_BYTES_MAX = 268_435_456
SHORT_BODY_BYTES = 65_536
READ_BYTES = 65_536
PIECES_AT_ONCE = 100  # of a body in chunks, which may be of one byte each: half a millisecond
SENT_AT_ONCE_BYTES = 262_144  # of a body in pieces

Answer = Callable[[Request], Awaitable[Response]]
# How large the body may be of a request whose head is all that is known. Raises HttpError.
Allowance = Callable[[Request], Awaitable[int]]

logger = logging.getLogger("leveret.web")


@dataclass(slots=True, frozen=True)
class WebLimits:
    """Of all listeners together; 0 is no limit. A connection costs little, but strangers may open any number of them."""

    connections: int = 1_000
    unauthenticated_per_source: int = 500


class WebSocket(asyncio.StreamReaderProtocol, Guest):
    """One accepted connection."""

    def __init__(self, server: WebServer, source: str) -> None:
        super().__init__(asyncio.StreamReader(limit=READ_BYTES), server.serve_connection)
        self.source = source
        self.asks_for_head = False  # the request being served: its answer has no body, whatever is wrong
        self._server = server
        self._accepted: asyncio.Transport | None = None
        self.body_bytes = 0  # of the request that is being read or answered

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._accepted = cast(asyncio.Transport, transport)
        if self._server.gate.is_stranger(self):
            super().connection_made(transport)
        else:
            self.abort()  # it gave way before its transport was there

    def abort(self) -> None:
        if self._accepted is not None:
            self._accepted.abort()


class WebServer:
    """One or more HTTP listeners that share a handler."""

    def __init__(
        self, answer: Answer, body_bytes_max: Allowance, wall_ms: Callable[[], int], limits: WebLimits | None = None
    ) -> None:
        self._answer = answer
        self._body_bytes_max = body_bytes_max
        self._wall_ms = wall_ms
        self.limits = limits or WebLimits()
        self.gate: Gate[WebSocket] = Gate(
            GateLimits(self.limits.connections, self.limits.unauthenticated_per_source, self.limits.connections),
            monotonic=_loop_time,
            logger=logger,
            describe=self._describe,
        )
        self._connections: set[asyncio.Task[None]] = set()
        self._body_bytes = 0

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Start listening; returns the port, which the system chooses when 0 is asked for."""
        address = self.gate.listen(
            host, port, backlog=BACKLOG, guest=self._guest, tls=tls, handshake_timeout_s=TLS_HANDSHAKE_TIMEOUT_S
        )
        return address[1]

    async def stop(self) -> None:
        self.gate.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    # ------------------------------------------------------------------------- admission

    def _guest(self, address: Address) -> WebSocket:
        return WebSocket(self, source_of(address[0]))

    def _describe(self, connections: int, strangers: int) -> str:
        limits = self.limits
        return (
            f"{connections} connections are open (limits.http_connections: {limits.connections}), {strangers} of them "
            f"without a login (per source: {limits.unauthenticated_per_source})"
        )

    # ------------------------------------------------------------------------- requests

    async def serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        socket = cast(WebSocket, writer.transport.get_protocol())
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        self._connections.add(task)
        try:
            await self._serve_requests(socket, reader, writer)
        except (TimeoutError, ConnectionError, ssl.SSLError):
            pass  # the client went away or kept still for too long: nobody is left to be told
        finally:
            self._connections.discard(task)
            self._forget_body(socket)
            self.gate.left(socket)
            writer.close()

    async def _serve_requests(
        self, socket: WebSocket, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        peer = writer.get_extra_info("peername") or ("", 0)
        client = ClientAddress(str(peer[0]), int(peer[1]), is_loopback(str(peer[0])), "HTTP")
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        while True:
            try:
                idle_s = STRANGER_IDLE_TIMEOUT_S if self.gate.is_stranger(socket) else IDLE_TIMEOUT_S
                request = await self._read_request(socket, connection, reader, writer, client, idle_s)
            except h11.RemoteProtocolError as error:
                request = None
                status = error.error_status_hint
                response = error_response(HttpError(status, "bad_request", f"not valid HTTP: {error}"))
            except HttpError as error:
                request = None
                response = error_response(error)
            else:
                if request is None:
                    return
                response = await self._answer_safely(request)
                if request.user is not None:
                    self.gate.logged_in(socket)
            without_body = socket.asks_for_head or response.status == HTTPStatus.NOT_MODIFIED
            await self._send(connection, writer, response, head=without_body)
            if request is None or connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()
            self._forget_body(socket)
            await asyncio.sleep(
                0
            )  # what has come already is read without waiting: thousands of requests would be one turn

    async def _answer_safely(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except HttpError as error:
            return error_response(error)
        except Exception:
            logger.exception("%s %r failed", request.method, request.target)
            return error_response(HttpError(500, "internal_error", "a fault of this node: its log says more"))

    async def _read_request(
        self,
        socket: WebSocket,
        connection: h11.Connection,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        client: ClientAddress,
        idle_s: float,
    ) -> Request | None:
        """The next request, or None when the client is done. Raises HttpError, h11.RemoteProtocolError, TimeoutError."""
        socket.asks_for_head = False
        request: Request | None = None
        tls = writer.get_extra_info("ssl_object") is not None
        body = bytearray()
        allowed = pieces = 0
        clock = asyncio.get_running_loop().time
        begun = bool(connection.trailing_data[0])
        deadline = clock() + (REQUEST_TIMEOUT_S if begun else idle_s)
        while True:
            event = connection.next_event()
            if event is h11.NEED_DATA:
                if connection.they_are_waiting_for_100_continue:
                    reply = h11.InformationalResponse(status_code=100, headers=[])
                    writer.write(connection.send(reply) or b"")
                async with asyncio.timeout_at(deadline):
                    connection.receive_data(await reader.read(READ_BYTES))
                if not begun:
                    begun, deadline = True, clock() + REQUEST_TIMEOUT_S
            elif isinstance(event, h11.Request):
                socket.asks_for_head = event.method == b"HEAD"
                _refuse_large_head(event)
                request = Request(
                    method=event.method.decode("ascii"),
                    target=event.target.decode("latin-1"),
                    headers=dict(event.headers),
                    body=b"",
                    client=client,
                    now=self._wall_ms(),
                    tls=tls,
                )
                async with asyncio.timeout_at(deadline):
                    allowed = await self._body_bytes_max(request)
                refuse_large_body(int(request.headers.get(b"content-length", b"0")), allowed)
            elif isinstance(event, h11.Data):
                body += event.data
                refuse_large_body(len(body), allowed)
                self._keep_body(socket, len(body))
                pieces += 1
                if pieces % PIECES_AT_ONCE == 0:
                    await asyncio.sleep(0)
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None, "h11 ends a message only after its head"
                request.body = bytes(body)
                request.now = self._wall_ms()
                return request
            else:
                return None

    def _keep_body(self, socket: WebSocket, size: int) -> None:
        """Raises HttpError: a thousand connections of one user could keep ten gigabytes."""
        self._body_bytes += size - socket.body_bytes
        socket.body_bytes = size
        if size > SHORT_BODY_BYTES and self._body_bytes > BODIES_BYTES_MAX:
            said = f"requests with {self._body_bytes} bytes are being read or answered, at most {BODIES_BYTES_MAX} at a time"
            raise HttpError(503, "service_unavailable", said, RETRY_SOON)

    def _forget_body(self, socket: WebSocket) -> None:
        self._body_bytes -= socket.body_bytes
        socket.body_bytes = 0

    async def _send(
        self, connection: h11.Connection, writer: asyncio.StreamWriter, response: Response, *, head: bool
    ) -> None:
        if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return  # h11 has given this connection up; there is nothing that could be said on it
        pieces = response.pieces or (response.body,)
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(sum(map(len, pieces)))),
            *(() if _says(response, "Cache-Control") else (("Cache-Control", "no-cache"),)),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Referrer-Policy", "no-referrer"),
            *response.headers,
        ]
        phrase = HTTPStatus(response.status).phrase
        data = connection.send(h11.Response(status_code=response.status, headers=headers, reason=phrase)) or b""
        for piece in () if head else pieces:
            data += connection.send(h11.Data(data=piece)) or b""
            if len(data) >= SENT_AT_ONCE_BYTES:
                await self._drained(writer, data)
                data = b""
                await asyncio.sleep(0)  # a client that reads as fast as it is sent to never has the writer wait
        await self._drained(writer, data + (connection.send(h11.EndOfMessage()) or b""))

    async def _drained(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            await writer.drain()


def refuse_large_body(size: int, allowed: int) -> None:
    if size > allowed:
        raise HttpError(400, "bad_request", f"the body has {size} bytes or more, at most {allowed} are taken")


def _says(response: Response, header: str) -> bool:
    return any(name == header for name, _ in response.headers)


def _loop_time() -> float:
    return asyncio.get_running_loop().time()


def _refuse_large_head(event: h11.Request) -> None:
    """Raises HttpError. h11 looks only at heads that come in several pieces."""
    size = len(event.target) + sum(len(name) + len(value) for name, value in event.headers)
    if size > HEADER_BYTES_MAX:
        raise HttpError(431, "bad_request", f"target and headers of {size} bytes, {HEADER_BYTES_MAX} are read")
