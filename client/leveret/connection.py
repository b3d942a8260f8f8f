"""A connection to a node: the way to publishers, consumers, topology and administration.

async with leveret.connect("127.0.0.1:5680", user="app", password="secret") as node:
    publisher = await node.publisher()
    await publisher.publish(b"hello", routing_key="greetings")

Given several nodes of a cluster it uses the first that can be reached. When that is lost, what was under way raises
ConnectionLost, and what comes next goes to another; publishers with `resend` and consumers with `reconnect` go on there by
themselves.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from leveret.admin import Admin
from leveret.channels import DEFAULT_TARGET, Tls
from leveret.consumer import Consumer
from leveret.errors import ConnectionLost, TimedOut
from leveret.message import GotMessage, from_wire
from leveret.node_log import NodeLog
from leveret.publisher import MAX_UNCONFIRMED, Publisher
from leveret.requests import NodeRequests
from leveret.stream import Stream
from leveret.super_stream import SuperStream
from leveret.topology import Topology
from leveret.v1 import admin_pb2, consume_pb2
from leveret.values import from_table, to_value


class Node(NodeRequests):
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
        super().__init__(target, user=user, password=password, vhost=vhost, tls=tls, timeout_s=timeout_s, name=name)
        self.topology = Topology(self)
        self.admin = Admin(self)
        self.log = NodeLog(self)

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
        for child in list(self.children):
            await child.abandon()
        self._is_open = False
        await self._channels.close()

    # ------------------------------------------------------------------ messages

    async def publisher(
        self, *, name: str = "", resend: bool = False, max_unconfirmed: int = MAX_UNCONFIRMED
    ) -> Publisher:
        """A stream of publishes, open when this returns. See leveret.publisher for what `resend` promises."""
        publisher = Publisher(self, name=name, resend=resend, max_unconfirmed=max_unconfirmed)
        self.children.add(publisher)
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
        self.children.add(consumer)
        return consumer

    def stream(self, name: str) -> Stream:
        """A stream by its name, to be declared, published to and read. See leveret.stream."""
        return Stream(self, name)

    def super_stream(self, name: str) -> SuperStream:
        """Several streams under one name. See leveret.super_stream."""
        return SuperStream(self, name)

    async def get(self, queue: str, *, count: int = 1, requeue: bool = False) -> list[GotMessage]:
        """Take up to `count` messages, or look at them and put them back (they are then marked redelivered)."""
        request = consume_pb2.GetRequest(vhost=self.vhost, queue=queue, count=count, requeue=requeue)
        response: consume_pb2.GetResponse = await self.call("consumer", "Get", request)
        return [_got(one) for one in response.messages]

    async def browse(self, queue: str, *, skip: int = 0, limit: int = 1, stream_offset: Any = None) -> list[GotMessage]:
        """Look at up to `limit` ready messages behind the first `skip`, in their order; fewer if they are large. Nothing
        changes by it. Of a stream `stream_offset` may say where to begin instead, as the argument x-stream-offset does."""
        request = consume_pb2.BrowseRequest(vhost=self.vhost, queue=queue, skip=skip, limit=limit)
        if stream_offset is not None:
            request.stream_offset.CopyFrom(to_value(stream_offset))
        response: consume_pb2.BrowseResponse = await self.call("consumer", "Browse", request)
        return [_got(one) for one in response.messages]


connect = Node  # what a program says: `async with leveret.connect(...) as node`


def _got(one: consume_pb2.GotMessage) -> GotMessage:
    headers = from_table(one.queue_headers)
    return GotMessage(from_wire(one.message), one.exchange, one.routing_key, one.redelivered, headers)
