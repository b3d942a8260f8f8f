"""What publishers, consumers, topology and administration have of a connection: requests to one of several nodes, and the
services of that node for their streams."""

from __future__ import annotations

import base64
import platform
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Protocol
from weakref import WeakSet

import grpc
import grpc.aio

from leveret.channels import Channels, Stubs, Tls
from leveret.errors import RETRYABLE, ConnectionLost, LeveretError, from_rpc, never_sent
from leveret.v1 import message_pb2
from leveret.values import to_table


class Child(Protocol):
    """What is made from a connection, and ends with it."""

    async def abandon(self) -> None:
        """End without waiting for what is under way."""


class NodeRequests:
    """As one user, in one vhost. When a node is lost, the next request goes to another."""

    def __init__(
        self,
        target: str | Sequence[str],
        *,
        user: str | None,
        password: str,
        vhost: str,
        tls: Tls | None,
        timeout_s: float,
        name: str,
    ) -> None:
        self.user = user
        self.vhost = vhost
        self.timeout_s = timeout_s
        self.metadata = () if user is None else (("authorization", _basic(user, password)),)
        self._name = name
        self._channels = Channels(target, tls)
        self._is_open = False
        self.children: WeakSet[Child] = WeakSet()

    @property
    def target(self) -> str:
        """The address of the node that is used now."""
        return self._channels.target

    async def stubs(self) -> Stubs:
        """The services of a node that can be reached. Raises ConnectionLost."""
        if not self._is_open:
            raise ConnectionLost(f"not connected to {self.target}: use `async with leveret.connect(...) as node`")
        return await self._channels.reach(self.timeout_s)

    async def call(self, service: str, method: str, request: Any) -> Any:
        """One request, one answer, within `timeout_s`; of a node that it never got to, another one is asked."""
        for attempts_left in reversed(range(len(self._channels.addresses))):
            stub = getattr(getattr(await self.stubs(), service), method)
            target = self.target
            try:
                return await stub(request, metadata=self.metadata, timeout=self.timeout_s)
            except grpc.aio.AioRpcError as error:
                lost = self.noted(from_rpc(error, target), target)
                if not (attempts_left and never_sent(error)):
                    raise lost from error
        raise AssertionError("unreachable: the last attempt returns or raises")

    async def answers(self, service: str, method: str, request: Any) -> AsyncGenerator[Any, None]:
        """One request, and as many answers as the node has, without a limit of time."""
        call_of = getattr(getattr(await self.stubs(), service), method)
        target = self.target
        call = call_of(request, metadata=self.metadata)
        try:
            async for answer in call:
                yield answer
        except grpc.aio.AioRpcError as error:
            raise self.noted(from_rpc(error, target), target) from error
        finally:
            call.cancel()

    def noted(self, error: LeveretError, target: str) -> LeveretError:
        """The error, after which another node is asked first if this one is lost."""
        if isinstance(error, RETRYABLE):
            self._channels.lost(target)
        return error

    def open_request(self, name: str) -> message_pb2.Open:
        return message_pb2.Open(
            vhost=self.vhost,
            name=name or self._name,
            client_properties=to_table(
                {"product": "leveret-python", "platform": f"Python {platform.python_version()}"}
            ),
        )

    async def error_of(self, call: Any, target: str) -> LeveretError:
        """Why a stream ended that nobody here has ended."""
        code = await call.code()
        if code is grpc.StatusCode.OK:
            return self.noted(ConnectionLost(f"{target} ended the stream"), target)
        details, trailers = await call.details(), await call.trailing_metadata()
        error = from_rpc(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, details), target)
        return self.noted(error, target)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")
