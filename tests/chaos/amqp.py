"""An AMQP client that knows what it was told and when: one connection, one channel, nothing done behind its user's back.

It neither reconnects nor repeats anything. A connection that breaks ends every call that waits with `Gone`; what was published
and not answered stays unanswered, for its user to call unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from pamqp import body, commands, frame, header
from pamqp.base import Frame

from tests.chaos.backend import Address

CHANNEL = 1
FRAME_MAX = 131_072
ANSWER_WITHIN_S = 5.0
PROPERTIES: dict[str, Any] = {
    "product": "chaos",
    "capabilities": {
        "publisher_confirms": True,
        "basic.nack": True,
        "consumer_cancel_notify": True,
        "connection.blocked": True,
    },
}
FRAME_HEAD = struct.Struct(">BHI")


class Gone(Exception):
    """The connection broke, was closed by the node, or did not answer in time."""


class Refused(Exception):
    """The node closed the channel, and with that this client's connection: code and text are what it said."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.code = code
        self.text = text


@dataclass(slots=True)
class Arrived:
    """A message for a consumer, or the answer to a get."""

    tag: int  # delivery tag
    consumer: str
    redelivered: bool
    headers: dict[str, Any]
    payload: bytes


class Client(asyncio.Protocol):
    """Connect with `connect`. `on_confirm(tag, multiple, taken)` and `on_message` are called as these arrive."""

    def __init__(self) -> None:
        self.on_confirm: Callable[[int, bool, bool], None] = lambda tag, multiple, taken: None
        self.on_message: Callable[[Arrived], None] = lambda message: None
        self.on_returned: Callable[[bytes], None] = lambda payload: None
        self.on_cancelled: Callable[[str], None] = lambda consumer: None
        self.published = 0  # the tag of the last publish
        self.ended: asyncio.Future[Exception] = asyncio.get_running_loop().create_future()
        self._buffer = bytearray()
        self._transport: asyncio.Transport | None = None
        self._waiting: asyncio.Future[Frame] | None = None
        self._awaited: tuple[str, ...] = ()
        self._method: Frame | None = None  # whose content is arriving
        self._headers: dict[str, Any] = {}
        self._size = 0
        self._payload = b""
        self._got: Arrived | None = None

    async def handshake(self, user: str, password: str, name: str = "") -> None:
        await self._wait(("Connection.Start",), b"AMQP\x00\x00\x09\x01")
        properties = PROPERTIES | ({"connection_name": name} if name else {})
        start = commands.Connection.StartOk(properties, "PLAIN", f"\x00{user}\x00{password}", "en_US")
        tune: Any = await self.call(start, "Connection.Tune", channel=0)
        self.say(commands.Connection.TuneOk(tune.channel_max, FRAME_MAX, 0), channel=0)
        await self.call(commands.Connection.Open("/"), "Connection.OpenOk", channel=0)
        await self.call(commands.Channel.Open(), "Channel.OpenOk")

    async def call(
        self, method: Frame, *answers: str, channel: int = CHANNEL, within_s: float = ANSWER_WITHIN_S
    ) -> Any:
        """The answer, which is one of `answers`. Raises Refused and Gone."""
        return await self._wait(answers, frame.marshal(method, channel), within_s)

    def say(self, method: Frame, *, channel: int = CHANNEL) -> None:
        self._write(frame.marshal(method, channel))

    def publish(self, exchange: str, key: str, payload: bytes, properties: commands.Basic.Properties) -> int:
        """The tag of its confirm."""
        self._write(
            frame.marshal(commands.Basic.Publish(exchange=exchange, routing_key=key, mandatory=True), CHANNEL)
            + frame.marshal(header.ContentHeader(0, len(payload), properties), CHANNEL)
            + frame.marshal(body.ContentBody(payload), CHANNEL)
        )
        self.published += 1
        return self.published

    async def close(self) -> None:
        """In order, if the node answers."""
        with contextlib.suppress(Gone, Refused):
            await self.call(commands.Connection.Close(200, "done", 0, 0), "Connection.CloseOk", channel=0)
        self.abort()

    def abort(self) -> None:
        """Go without a word."""
        self._end(Gone("this client left"))

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(Gone(f"the connection broke: {exc or 'closed'}"))

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        at = 0
        while len(self._buffer) - at >= FRAME_HEAD.size:
            kind, _, size = FRAME_HEAD.unpack_from(self._buffer, at)
            end = at + FRAME_HEAD.size + size + 1
            if len(self._buffer) < end:
                break
            self._frame(kind, bytes(self._buffer[at:end]))
            at = end
        del self._buffer[:at]

    # what arrives

    def _frame(self, kind: int, data: bytes) -> None:
        match kind:
            case 1:
                _, _, method = frame.unmarshal(data)
                assert isinstance(method, Frame)
                self._arrived(method)
            case 2:
                _, _, content = frame.unmarshal(data)
                assert isinstance(content, header.ContentHeader)
                self._headers = dict(content.properties.headers or {})
                self._size, self._payload = content.body_size, b""
                self._maybe_whole()
            case 3:
                self._payload += data[FRAME_HEAD.size : -1]
                self._maybe_whole()

    def _arrived(self, method: Frame) -> None:
        match method:
            case commands.Basic.Deliver() | commands.Basic.GetOk() | commands.Basic.Return():
                self._method = method
            case commands.Basic.Ack():
                self.on_confirm(method.delivery_tag or 0, bool(method.multiple), True)
            case commands.Basic.Nack():
                self.on_confirm(method.delivery_tag or 0, bool(method.multiple), False)
            case commands.Basic.Cancel():
                self.on_cancelled(method.consumer_tag or "")
            case commands.Channel.Close() | commands.Connection.Close():
                self._end(Refused(method.reply_code or 0, method.reply_text or ""))
            case commands.Connection.Blocked() | commands.Connection.Unblocked():
                pass
            case _ if method.name in self._awaited:
                self._answer(method)
            case _:
                self._end(Gone(f"unexpected {method.name}"))

    def _maybe_whole(self) -> None:
        if self._method is None or len(self._payload) < self._size:
            return
        method, self._method = self._method, None
        match method:
            case commands.Basic.Return():
                self.on_returned(self._payload)
            case commands.Basic.GetOk():
                self._got = self._message(method.delivery_tag, "", method.redelivered)
                self._answer(method)
            case commands.Basic.Deliver():
                self.on_message(self._message(method.delivery_tag, method.consumer_tag or "", method.redelivered))

    def _message(self, tag: int | None, consumer: str, redelivered: bool | None) -> Arrived:
        return Arrived(tag or 0, consumer, bool(redelivered), self._headers, self._payload)

    async def get(self, queue: str, *, no_ack: bool = False) -> Arrived | None:
        get = commands.Basic.Get(queue=queue, no_ack=no_ack)
        answer = await self.call(get, "Basic.GetOk", "Basic.GetEmpty")
        return self._got if isinstance(answer, commands.Basic.GetOk) else None

    async def _wait(self, answers: tuple[str, ...], data: bytes, within_s: float = ANSWER_WITHIN_S) -> Any:
        if self.ended.done():
            raise self.ended.result()
        assert self._waiting is None, f"waiting for {self._awaited} already"
        self._awaited, self._waiting = answers, asyncio.get_running_loop().create_future()
        try:
            self._write(data)
            async with asyncio.timeout(within_s):
                return await self._waiting
        except TimeoutError:
            gone = Gone(f"no answer within {within_s:g} s")
            self._end(gone)
            raise gone from None
        finally:
            self._awaited, self._waiting = (), None

    def _answer(self, method: Frame) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(method)

    def _write(self, data: bytes) -> None:
        if self._transport is not None and not self.ended.done():
            self._transport.write(data)

    def _end(self, why: Exception) -> None:
        if not self.ended.done():
            self.ended.set_result(why)
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_exception(why)
        if self._transport is not None:
            self._transport.abort()


async def connect(
    address: Address, credentials: tuple[str, str], within_s: float = ANSWER_WITHIN_S, *, name: str = ""
) -> Client:
    """`name`: what its node is to call the connection. Raises Gone."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(within_s):
            _, client = await loop.create_connection(Client, *address)
    except (OSError, TimeoutError) as error:
        raise Gone(f"cannot connect to {address}: {error!r}") from error
    try:
        await client.handshake(*credentials, name)
    except Refused as refused:
        client.abort()
        raise Gone(str(refused)) from refused
    except BaseException:
        client.abort()
        raise
    return client
