"""A bidirectional stream: one task reads requests, one writes responses, and the first reason to end ends both.

reading     stops while the stream may not go on (an alarm, a client that does not read its answers)
writing     takes whatever waits; what waits is bounded, because reading or delivering stops above a mark
the end     the client's half-close, once everything owed is written; an error from either side; cancellation
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

import grpc.aio

from broker.errors import InvalidRequest
from broker.session.silent_sink import SilentSink
from front.grpc import convert
from front.grpc.call import Context, Front, next_request
from front.grpc.caller import caller
from leveret.v1 import message_pb2 as pb

if TYPE_CHECKING:
    from broker.client_connection import Connection
    from broker.session.session import Session


class Stream(SilentSink):
    """What publishing and consuming streams share. A subclass reads, writes, and is the sink of its session."""

    session: Session

    def __init__(self, front: Front, context: Context) -> None:
        self.front = front
        self.context = context
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._something_to_write = asyncio.Event()
        self._no_more_requests = False
        self._peer, self._tls = caller().peer, caller().tls
        self.bytes_in = 0  # of messages; what HTTP/2 adds is not counted
        self.bytes_out = 0

    # What a subclass defines.

    async def read_requests(self) -> None:
        """Handle requests until the client has sent its last one."""
        raise NotImplementedError

    async def write_responses(self) -> None:
        """Write everything that waits now."""
        raise NotImplementedError

    def owes_nothing(self) -> bool:
        """May the stream end, now that the client has sent its last request?"""
        raise NotImplementedError

    # The life of a stream.

    async def serve(self) -> None:
        opening = await self.read()
        if opening is grpc.aio.EOF:
            return
        if opening.WhichOneof("kind") != "open":
            raise InvalidRequest(f"the first request of a stream is `open`, not `{opening.WhichOneof('kind')}`")
        with self.front.session(self._connection(opening.open), self) as session:
            self.session = session
            try:
                self.opened()
                await self.write(self.opened_response())
                await self._run()
            finally:
                del self.session  # its connection has methods of this stream: a cycle

    def opened(self) -> None:
        """The session is there; nothing has been read or written yet."""

    def opened_response(self) -> Any:
        raise NotImplementedError

    def opened_message(self) -> pb.Opened:
        return pb.Opened(node=self.front.node, message_bytes_max=self.front.message_bytes_max)

    def _connection(self, opening: pb.Open) -> Connection:
        properties = convert.plain_table(opening.client_properties)
        if opening.name:
            properties["connection_name"] = opening.name
        return self.front.connection(
            opening.vhost,
            client_properties=properties,
            close=self.fail,
            set_blocked=self.set_blocked,
            statistics=self.statistics,
        )

    def set_blocked(self, reason: str | None) -> None:
        """Only streams that publish are ever told."""

    def statistics(self) -> dict[str, Any]:
        host, _, port = self._peer.rpartition(":")
        return {
            "state": "running",
            "bytes_in": self.bytes_in,
            "bytes_out": self.bytes_out,
            "channels": 1,
            "peer_host": host.strip("[]"),
            "peer_port": int(port) if port.isdecimal() else 0,
            "tls": self._tls,
        }

    async def _run(self) -> None:
        tasks = [self._start(self._read_all()), self._start(self._write_all())]
        try:
            await self._ended
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        task.add_done_callback(self._task_done)
        return task

    def _task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.fail(error)

    async def _read_all(self) -> None:
        await self.read_requests()
        self._no_more_requests = True
        self.wake_writer()

    async def _write_all(self) -> None:
        while True:
            await self._something_to_write.wait()
            self._something_to_write.clear()
            await self.write_responses()
            if self._no_more_requests and self.owes_nothing() and not self._something_to_write.is_set():
                self._end()
                return

    def _end(self) -> None:
        if not self._ended.done():
            self._ended.set_result(None)

    # For subclasses, and for the broker.

    def wake_writer(self) -> None:
        self._something_to_write.set()

    def fail(self, error: BaseException) -> None:
        """End the stream with this error. The first one counts."""
        if not self._ended.done():
            self._ended.set_exception(error)

    async def read(self) -> Any:
        """The next request, or grpc.aio.EOF after the client's last one."""
        request = await next_request(self.context)
        if request is not grpc.aio.EOF:
            self.bytes_in += request.ByteSize()
        return request

    async def write(self, response: Any) -> None:
        self.bytes_out += response.ByteSize()
        await self.context.write(response)
