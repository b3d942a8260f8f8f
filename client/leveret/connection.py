"""A connection to a node: the way to publishers, consumers, topology and administration.

async with leveret.connect("127.0.0.1:5680", user="app", password="secret") as node:
    publisher = await node.publisher()
    await publisher.publish(b"hello", routing_key="greetings")

Given several nodes of a cluster it uses the first that can be reached. When that is lost, what was under way raises
ConnectionLost, and what comes next goes to another; publishers with `resend` and consumers with `reconnect` go on there by
themselves.
"""

from __future__ import annotations

import base64
import contextlib
import platform
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any
from weakref import WeakSet

import grpc
import grpc.aio

from leveret.admin import Admin
from leveret.channels import DEFAULT_TARGET, Channels, Stubs, Tls
from leveret.consumer import Consumer
from leveret.errors import RETRYABLE, ConnectionLost, LeveretError, TimedOut, from_rpc, never_sent
from leveret.message import GotMessage, from_wire
from leveret.publisher import MAX_UNCONFIRMED, Publisher
from leveret.topology import Topology
from leveret.v1 import admin_pb2, consume_pb2, message_pb2
from leveret.values import from_table, to_table


class Node:
    """A connection to a node, to be entered with `async with`. Everything made from it ends with it."""

    def __init__(
        self,
        target: str | Sequence[str] = DEFAULT_TARGET,
        *,
        user: str | None = "guest",
        password: str = "guest",
        vhost: str = "/",
        tls: Tls | None = None,
        timeout_s: float = 10.0,
        name: str = "",
    ) -> None:
        """`target` is HOST:PORT, or several in a list or with commas between them; without a port it is 5680. With `user` None
        the certificate of `tls` says who we are. `timeout_s` is for connecting and for each single request.

        Raises ValueError for what is no address.
        """
        self.user = user
        self.vhost = vhost
        self.timeout_s = timeout_s
        self.metadata = () if user is None else (("authorization", _basic(user, password)),)
        self._name = name
        self._channels = Channels(target, tls)
        self._is_open = False
        self._children: WeakSet[Publisher | Consumer] = WeakSet()
        self.topology = Topology(self)
        self.admin = Admin(self)

    async def __aenter__(self) -> Node:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> None:
        """Connect, and have user and password checked. Raises ConnectionLost, TimedOut or Unauthenticated."""
        assert not self._is_open, f"the connection to {self.target} is open already"
        self._is_open = True
        try:
            for _ in self._channels.addresses[1:]:
                with contextlib.suppress(ConnectionLost, TimedOut):
                    await self._who_am_i()
                    return
            await self._who_am_i()
        except BaseException:
            await self.close()
            raise

    async def _who_am_i(self) -> None:
        await self.call("admin", "WhoAmI", admin_pb2.WhoAmIRequest())

    async def close(self) -> None:
        """End everything that was made from this connection, then the connection."""
        for child in list(self._children):
            await child.abandon()
        self._is_open = False
        await self._channels.close()

    # ------------------------------------------------------------------ messages

    async def publisher(
        self, *, name: str = "", resend: bool = False, max_unconfirmed: int = MAX_UNCONFIRMED
    ) -> Publisher:
        """A stream of publishes, open when this returns. See leveret.publisher for what `resend` promises."""
        publisher = Publisher(self, name=name, resend=resend, max_unconfirmed=max_unconfirmed)
        self._children.add(publisher)
        await publisher.open()
        return publisher

    def consume(
        self,
        queue: str,
        *,
        prefetch: int = 100,
        no_ack: bool = False,
        exclusive: bool = False,
        consumer_tag: str = "",
        arguments: Mapping[str, Any] | None = None,
        name: str = "",
        reconnect: bool = False,
    ) -> Consumer:
        """A subscription, to be entered with `async with` or iterated at once. See leveret.consumer."""
        consumer = Consumer(
            self,
            queue,
            prefetch=prefetch,
            no_ack=no_ack,
            exclusive=exclusive,
            consumer_tag=consumer_tag,
            arguments=arguments,
            name=name,
            reconnect=reconnect,
        )
        self._children.add(consumer)
        return consumer

    async def get(self, queue: str, *, count: int = 1, requeue: bool = False) -> list[GotMessage]:
        """Take up to `count` messages, or look at them and put them back (they are then marked redelivered)."""
        request = consume_pb2.GetRequest(vhost=self.vhost, queue=queue, count=count, requeue=requeue)
        response: consume_pb2.GetResponse = await self.call("consumer", "Get", request)
        return [_got(one) for one in response.messages]

    async def browse(self, queue: str, *, skip: int = 0, limit: int = 1) -> list[GotMessage]:
        """Look at up to `limit` ready messages behind the first `skip`, in their order; fewer if they are large. Nothing
        changes by it."""
        request = consume_pb2.BrowseRequest(vhost=self.vhost, queue=queue, skip=skip, limit=limit)
        response: consume_pb2.BrowseResponse = await self.call("consumer", "Browse", request)
        return [_got(one) for one in response.messages]

    # ------------------------------------------------------------------ for the other modules

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


connect = Node  # what a program says: `async with leveret.connect(...) as node`


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def _got(one: consume_pb2.GotMessage) -> GotMessage:
    headers = from_table(one.queue_headers)
    return GotMessage(from_wire(one.message), one.exchange, one.routing_key, one.redelivered, headers)
