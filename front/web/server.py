"""The HTTP driver: sockets, h11, deadlines and limits. What is answered is decided by the handler it is given.

A client may keep still between requests for IDLE_TIMEOUT_S, and has REQUEST_TIMEOUT_S from the first byte of a request to its
last. Bodies larger than the handler allows are refused before they are read, and connections above CONNECTIONS_MAX when they
come.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Awaitable, Callable

import h11

from front.loopback import is_loopback
from front.web.request import HttpError, Request, Response, error_response

REQUEST_TIMEOUT_S = 30.0
IDLE_TIMEOUT_S = 120.0
# Of all listeners together. A connection costs little, but strangers may come in any number and keep still.
CONNECTIONS_MAX = 1_000
BACKLOG = 1_024  # connections the kernel keeps waiting; of a burst beyond it, the rest tries again a second later
HEADER_BYTES_MAX = 16_384
READ_BYTES = 65_536

Answer = Callable[[Request], Awaitable[Response]]
# How large the body may be of a request whose head is all that is known. Raises HttpError.
Allowance = Callable[[Request], Awaitable[int]]

logger = logging.getLogger("leveret.web")


class WebServer:
    """One or more HTTP listeners that share a handler."""

    def __init__(self, answer: Answer, body_bytes_max: Allowance, wall_ms: Callable[[], int]) -> None:
        self._answer = answer
        self._body_bytes_max = body_bytes_max
        self._wall_ms = wall_ms
        self._servers: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    async def listen(self, host: str, port: int, tls: ssl.SSLContext | None = None) -> int:
        """Start listening; returns the port, which the system chooses when 0 is asked for."""
        server = await asyncio.start_server(self._serve, host, port, ssl=tls, limit=READ_BYTES, backlog=BACKLOG)
        self._servers.append(server)
        return int(server.sockets[0].getsockname()[1])

    async def stop(self) -> None:
        for server in self._servers:
            server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None, "a connection is served by a task"
        if len(self._connections) >= CONNECTIONS_MAX:
            logger.warning("connection refused: %d connections are open, as many as may be", CONNECTIONS_MAX)
            writer.transport.abort()
            return
        self._connections.add(task)
        try:
            await self._serve_requests(reader, writer)
        except (TimeoutError, ConnectionError, ssl.SSLError):
            pass  # the client went away or kept still for too long: nobody is left to be told
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve_requests(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = writer.get_extra_info("peername")
        loopback = bool(peer) and is_loopback(peer[0])
        connection = h11.Connection(h11.SERVER, max_incomplete_event_size=HEADER_BYTES_MAX)
        while True:
            try:
                request = await self._read_request(connection, reader, writer, loopback)
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
            await self._send(connection, writer, response, head=request is not None and request.method == "HEAD")
            if request is None or connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return
            connection.start_next_cycle()

    async def _answer_safely(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except HttpError as error:
            return error_response(error)
        except Exception:
            logger.exception("%s %r failed", request.method, request.target)
            return error_response(HttpError(500, "internal_error", "a fault of this node: its log says more"))

    async def _read_request(
        self, connection: h11.Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, loopback: bool
    ) -> Request | None:
        """The next request, or None when the client is done. Raises HttpError, h11.RemoteProtocolError, TimeoutError."""
        request: Request | None = None
        body = bytearray()
        allowed = 0
        clock = asyncio.get_running_loop().time
        begun = bool(connection.trailing_data[0])
        deadline = clock() + (REQUEST_TIMEOUT_S if begun else IDLE_TIMEOUT_S)
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
                request = Request(
                    method=event.method.decode("ascii"),
                    target=event.target.decode("latin-1"),
                    headers=dict(event.headers),
                    body=b"",
                    peer_is_loopback=loopback,
                    now=self._wall_ms(),
                )
                async with asyncio.timeout_at(deadline):
                    allowed = await self._body_bytes_max(request)
                refuse_large_body(int(request.headers.get(b"content-length", b"0")), allowed)
            elif isinstance(event, h11.Data):
                body += event.data
                refuse_large_body(len(body), allowed)
            elif isinstance(event, h11.EndOfMessage):
                assert request is not None, "h11 ends a message only after its head"
                request.body = bytes(body)
                request.now = self._wall_ms()
                return request
            else:
                return None

    async def _send(
        self, connection: h11.Connection, writer: asyncio.StreamWriter, response: Response, *, head: bool
    ) -> None:
        if connection.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return  # h11 has given this connection up; there is nothing that could be said on it
        headers = [
            ("Content-Type", response.content_type),
            ("Content-Length", str(len(response.body))),
            ("Cache-Control", "no-cache"),
            ("X-Content-Type-Options", "nosniff"),
            *response.headers,
        ]
        data = connection.send(h11.Response(status_code=response.status, headers=headers)) or b""
        if not head:
            data += connection.send(h11.Data(data=response.body)) or b""
        data += connection.send(h11.EndOfMessage()) or b""
        writer.write(data)
        async with asyncio.timeout(REQUEST_TIMEOUT_S):
            await writer.drain()


def refuse_large_body(size: int, allowed: int) -> None:
    if size > allowed:
        raise HttpError(413, "body_too_large", f"the body has {size} bytes or more, at most {allowed} are taken")
