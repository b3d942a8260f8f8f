"""Declaring and listing exchanges, queues and bindings. Each change is durable when its method returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from leveret.message import DelayedMessage, from_wire
from leveret.records import Binding, DeclaredQueue, Exchange, Queue, from_stub
from leveret.requests import NodeRequests
from leveret.v1 import topology_pb2 as pb
from leveret.values import to_table

Arguments = Mapping[str, Any]


class Topology:
    """What is declared in the vhost of the connection. `node.topology`."""

    def __init__(self, node: NodeRequests) -> None:
        self._node = node

    async def declare_exchange(
        self,
        name: str,
        kind: str = "direct",
        *,
        passive: bool = False,
        durable: bool = True,
        auto_delete: bool = False,
        internal: bool = False,
        arguments: Arguments | None = None,
    ) -> None:
        """Declare, or find declared just so. `passive`: only check that it exists."""
        request = pb.DeclareExchangeRequest(
            vhost=self._node.vhost,
            name=name,
            kind=kind,
            passive=passive,
            transient=not durable,
            auto_delete=auto_delete,
            internal=internal,
            arguments=to_table(arguments),
        )
        await self._node.call("topology", "DeclareExchange", request)

    async def delete_exchange(self, name: str, *, if_unused: bool = False) -> None:
        """Delete it with its bindings. One that does not exist is fine."""
        request = pb.DeleteExchangeRequest(vhost=self._node.vhost, name=name, if_unused=if_unused)
        await self._node.call("topology", "DeleteExchange", request)

    async def exchanges(self, *, all_vhosts: bool = False) -> list[Exchange]:
        request = pb.ListExchangesRequest(vhost=self._node.vhost, all_vhosts=all_vhosts)
        response = await self._node.call("topology", "ListExchanges", request)
        return [from_stub(Exchange, exchange) for exchange in response.exchanges]

    async def delayed(self, exchange: str = "", *, queue: str = "", limit: int = 50) -> list[DelayedMessage]:
        """Messages that wait in a delayed exchange, or for a queue that delays, and are due next, the soonest first; 500 at
        most."""
        return await self._delayed(pb.ListDelayedRequest(exchange=exchange, queue=queue, limit=limit))

    async def delayed_after(
        self, exchange: str = "", after: str = "", *, queue: str = "", limit: int = 500
    ) -> list[DelayedMessage]:
        """Those published behind the one with this id, in that order; without an id, from the first one that waits."""
        order = pb.DELAYED_ORDER_PUBLISHED
        asked = pb.ListDelayedRequest(exchange=exchange, queue=queue, limit=limit, order=order, after=after)
        return await self._delayed(asked)

    async def cancel_delayed(self, exchange: str, message_id: str, *, queue: str = "") -> None:
        """Drop one that waits: in an exchange, or for a queue where the exchange is empty. Raises NotFound when it was routed
        already."""
        request = pb.CancelDelayedRequest(vhost=self._node.vhost, exchange=exchange, queue=queue, id=message_id)
        await self._node.call("topology", "CancelDelayed", request)

    async def _delayed(self, request: pb.ListDelayedRequest) -> list[DelayedMessage]:
        request.vhost = self._node.vhost
        response = await self._node.call("topology", "ListDelayed", request)
        return [
            DelayedMessage(one.id, one.due_ms, from_wire(one.message), one.exchange, one.routing_key)
            for one in response.messages
        ]

    async def declare_queue(
        self,
        name: str = "",
        *,
        kind: str = "",
        passive: bool = False,
        durable: bool = True,
        auto_delete: bool = False,
        arguments: Arguments | None = None,
    ) -> DeclaredQueue:
        """Declare, or find declared just so. Without a name the node chooses one; without a kind, the vhost does."""
        request = pb.DeclareQueueRequest(
            vhost=self._node.vhost,
            name=name,
            kind=kind,
            passive=passive,
            transient=not durable,
            auto_delete=auto_delete,
            arguments=to_table(arguments),
        )
        return from_stub(DeclaredQueue, await self._node.call("topology", "DeclareQueue", request))

    async def delete_queue(self, name: str, *, if_unused: bool = False, if_empty: bool = False) -> int:
        """Delete it, and say how many ready messages went with it. One that does not exist is fine: 0."""
        request = pb.DeleteQueueRequest(vhost=self._node.vhost, name=name, if_unused=if_unused, if_empty=if_empty)
        response = await self._node.call("topology", "DeleteQueue", request)
        return int(response.messages)

    async def purge_queue(self, name: str) -> int:
        """Drop what is ready, and say how many that were."""
        request = pb.PurgeQueueRequest(vhost=self._node.vhost, name=name)
        response = await self._node.call("topology", "PurgeQueue", request)
        return int(response.messages)

    async def queues(self, *, all_vhosts: bool = False) -> list[Queue]:
        request = pb.ListQueuesRequest(vhost=self._node.vhost, all_vhosts=all_vhosts)
        response = await self._node.call("topology", "ListQueues", request)
        return [from_stub(Queue, queue) for queue in response.queues]

    async def bind_queue(
        self, queue: str, exchange: str, routing_key: str = "", *, arguments: Arguments | None = None
    ) -> None:
        await self._bind(exchange, queue, "queue", routing_key, arguments)

    async def unbind_queue(
        self, queue: str, exchange: str, routing_key: str = "", *, arguments: Arguments | None = None
    ) -> None:
        await self._unbind(exchange, queue, "queue", routing_key, arguments)

    async def bind_exchange(
        self, destination: str, source: str, routing_key: str = "", *, arguments: Arguments | None = None
    ) -> None:
        """What `source` routes with this key goes to the exchange `destination` too."""
        await self._bind(source, destination, "exchange", routing_key, arguments)

    async def unbind_exchange(
        self, destination: str, source: str, routing_key: str = "", *, arguments: Arguments | None = None
    ) -> None:
        await self._unbind(source, destination, "exchange", routing_key, arguments)

    async def bindings(self, *, queue: str = "", source: str = "", all_vhosts: bool = False) -> list[Binding]:
        """All of them, or only those that lead to `queue` and start at `source`."""
        request = pb.ListBindingsRequest(vhost=self._node.vhost, all_vhosts=all_vhosts, queue=queue, source=source)
        response = await self._node.call("topology", "ListBindings", request)
        return [from_stub(Binding, binding, destination_kind=_kind_name(binding)) for binding in response.bindings]

    async def _bind(self, *parts: Any) -> None:
        await self._node.call("topology", "Bind", pb.BindRequest(binding=self._binding(*parts)))

    async def _unbind(self, *parts: Any) -> None:
        await self._node.call("topology", "Unbind", pb.UnbindRequest(binding=self._binding(*parts)))

    def _binding(
        self, source: str, destination: str, kind: str, routing_key: str, arguments: Arguments | None
    ) -> pb.Binding:
        is_queue = kind == "queue"
        return pb.Binding(
            vhost=self._node.vhost,
            source=source,
            destination=destination,
            destination_kind=pb.DESTINATION_KIND_QUEUE if is_queue else pb.DESTINATION_KIND_EXCHANGE,
            routing_key=routing_key,
            arguments=to_table(arguments),
        )


def _kind_name(binding: pb.Binding) -> str:
    return "queue" if binding.destination_kind == pb.DESTINATION_KIND_QUEUE else "exchange"
