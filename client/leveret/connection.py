"""One connection to one node: the way to publishers, consumers, topology and administration.

async with leveret.connect("127.0.0.1:5680", user="app", password="secret") as node:
    publisher = await node.publisher()
    await publisher.publish(b"hello", routing_key="greetings")
"""

from __future__ import annotations

import base64
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from weakref import WeakSet

import grpc
import grpc.aio

from leveret.admin import Admin
from leveret.consumer import Consumer
from leveret.errors import ConnectionLost, LeveretError, from_rpc
from leveret.message import GotMessage, from_wire
from leveret.publisher import MAX_UNCONFIRMED, Publisher
from leveret.topology import Topology
from leveret.v1 import (
    admin_pb2,
    admin_pb2_grpc,
    consume_pb2,
    consume_pb2_grpc,
    message_pb2,
    publish_pb2_grpc,
    topology_pb2_grpc,
)
from leveret.values import from_table, to_table

DEFAULT_TARGET = "127.0.0.1:5680"
MESSAGE_BYTES_MAX = 32 * 1_048_576  # received in one piece; nodes send pieces of about 1 MiB unless a message is larger


@dataclass(slots=True, frozen=True)
class Tls:
    """How to speak TLS: whom to believe, and who we are. All of it is PEM."""

    ca: bytes | None = None  # None: the certificate authorities that gRPC ships with
    certificate: bytes | None = None  # ours, for nodes that ask for one
    key: bytes | None = None
    server_name: str | None = None  # the name in the node's certificate, when it is not the one you connect to


@dataclass(slots=True, frozen=True)
class Stubs:
    """The services of a node."""

    publisher: Any
    consumer: Any
    topology: Any
    admin: Any


def connect(
    target: str = DEFAULT_TARGET,
    *,
    user: str = "guest",
    password: str = "guest",
    vhost: str = "/",
    tls: Tls | None = None,
    timeout_s: float = 10.0,
    name: str = "",
) -> Node:
    """A node to be entered with `async with`. `timeout_s` is for connecting and for each single request."""
    return Node(target, user=user, password=password, vhost=vhost, tls=tls, timeout_s=timeout_s, name=name)


class Node:
    """A connection to a node. Everything made from it ends with it."""

    def __init__(
        self, target: str, *, user: str, password: str, vhost: str, tls: Tls | None, timeout_s: float, name: str
    ) -> None:
        self.target = target
        self.user = user
        self.vhost = vhost
        self.timeout_s = timeout_s
        self.metadata = (("authorization", _basic(user, password)),)
        self._tls = tls
        self._name = name
        self._channel: grpc.aio.Channel | None = None
        self._stubs: Stubs | None = None
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
        assert self._channel is None, f"the connection to {self.target} is open already"
        self._channel = _channel(self.target, self._tls)
        self._stubs = _stubs(self._channel)
        try:
            await self.call(self._stubs.admin.WhoAmI, admin_pb2.WhoAmIRequest())
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """End everything that was made from this connection, then the connection."""
        for child in list(self._children):
            await child.abandon()
        if self._channel is not None:
            await self._channel.close()
            self._channel = self._stubs = None

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
        response: consume_pb2.GetResponse = await self.call(self.stubs.consumer.Get, request)
        return [_got(one) for one in response.messages]

    async def browse(self, queue: str, *, skip: int = 0, limit: int = 1) -> list[GotMessage]:
        """Look at up to `limit` ready messages behind the first `skip`, in their order; fewer if they are large. Nothing
        changes by it."""
        request = consume_pb2.BrowseRequest(vhost=self.vhost, queue=queue, skip=skip, limit=limit)
        response: consume_pb2.BrowseResponse = await self.call(self.stubs.consumer.Browse, request)
        return [_got(one) for one in response.messages]

    # ------------------------------------------------------------------ for the other modules

    @property
    def stubs(self) -> Stubs:
        if self._stubs is None:
            raise ConnectionLost(f"not connected to {self.target}: use `async with leveret.connect(...) as node`")
        return self._stubs

    async def call(self, method: Callable[..., Any], request: Any) -> Any:
        """One request, one answer, within `timeout_s`."""
        try:
            return await method(request, metadata=self.metadata, timeout=self.timeout_s)
        except grpc.aio.AioRpcError as error:
            raise from_rpc(error, self.target) from error

    def open_request(self, name: str) -> message_pb2.Open:
        return message_pb2.Open(
            vhost=self.vhost,
            name=name or self._name,
            client_properties=to_table(
                {"product": "leveret-python", "platform": f"Python {platform.python_version()}"}
            ),
        )

    async def error_of(self, call: Any) -> LeveretError:
        """Why a stream ended that nobody here has ended."""
        code = await call.code()
        if code is grpc.StatusCode.OK:
            return ConnectionLost(f"{self.target} ended the stream")
        details, trailers = await call.details(), await call.trailing_metadata()
        return from_rpc(grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailers, details), self.target)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode("ascii")


def _channel(target: str, tls: Tls | None) -> grpc.aio.Channel:
    options: list[tuple[str, Any]] = [
        ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
        ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
        # A node that is gone without a word is noticed within half a minute, also by a consumer that only listens.
        ("grpc.keepalive_time_ms", 20_000),
        ("grpc.keepalive_timeout_ms", 10_000),
        ("grpc.http2.max_pings_without_data", 0),
        ("grpc.max_reconnect_backoff_ms", 5_000),
        # Each Node has a connection of its own, so that one that is closed takes nothing from another.
        ("grpc.use_local_subchannel_pool", 1),
    ]
    if tls is None:
        return grpc.aio.insecure_channel(target, options=options)
    if tls.server_name is not None:
        options.append(("grpc.ssl_target_name_override", tls.server_name))
    credentials = grpc.ssl_channel_credentials(tls.ca, tls.key, tls.certificate)
    return grpc.aio.secure_channel(target, credentials, options=options)


def _stubs(channel: grpc.aio.Channel) -> Stubs:
    return Stubs(
        publisher=publish_pb2_grpc.PublisherStub(channel),  # type: ignore[no-untyped-call]
        consumer=consume_pb2_grpc.ConsumerStub(channel),  # type: ignore[no-untyped-call]
        topology=topology_pb2_grpc.TopologyStub(channel),  # type: ignore[no-untyped-call]
        admin=admin_pb2_grpc.AdminStub(channel),  # type: ignore[no-untyped-call]
    )


def _got(one: consume_pb2.GotMessage) -> GotMessage:
    headers = from_table(one.queue_headers)
    return GotMessage(from_wire(one.message), one.exchange, one.routing_key, one.redelivered, headers)
