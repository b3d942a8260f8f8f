"""Declaring, binding, deleting and listing. Each change is made through a session, so an AMQP client's rules hold here too."""

from __future__ import annotations

from collections.abc import Iterable

from broker import permissions
from broker.errors import AccessRefused, NotFound
from broker.records import BindingRecord
from front.grpc import convert, describe
from front.grpc.call import DEFAULT_VHOST, Context, Front, answers_errors
from front.grpc.caller import caller
from front.grpc.convert import InvalidRequest
from front.slices import in_slices
from leveret.v1 import topology_pb2 as pb
from leveret.v1 import topology_pb2_grpc

_KIND_OF = {pb.DESTINATION_KIND_QUEUE: "queue", pb.DESTINATION_KIND_EXCHANGE: "exchange"}


class TopologyService(topology_pb2_grpc.TopologyServicer):
    """leveret.v1.Topology."""

    def __init__(self, front: Front) -> None:
        self.front = front

    # ------------------------------------------------------------------ exchanges

    @answers_errors
    async def DeclareExchange(self, request: pb.DeclareExchangeRequest, context: Context) -> pb.DeclareExchangeResponse:
        with self.front.brief_session(request.vhost) as session:
            await self.front.answer(
                session.declare_exchange(
                    request.name,
                    request.kind or "direct",
                    passive=request.passive,
                    durable=not request.transient,
                    auto_delete=request.auto_delete,
                    internal=request.internal,
                    arguments=convert.plain_table(request.arguments),
                    now=self.front.now,
                )
            )
        return pb.DeclareExchangeResponse()

    @answers_errors
    async def DeleteExchange(self, request: pb.DeleteExchangeRequest, context: Context) -> pb.DeleteExchangeResponse:
        with self.front.brief_session(request.vhost) as session:
            await self.front.answer(
                session.delete_exchange(request.name, if_unused=request.if_unused, now=self.front.now)
            )
        return pb.DeleteExchangeResponse()

    @answers_errors
    async def ListExchanges(self, request: pb.ListExchangesRequest, context: Context) -> pb.ListExchangesResponse:
        catalog, vhosts = self.front.broker.catalog, vhosts_to_list(self.front, request.vhost, request.all_vhosts)
        records = [record for vhost in vhosts for record in catalog.exchanges(vhost)]
        return pb.ListExchangesResponse(exchanges=[describe.exchange(record) async for record in in_slices(records)])

    # ------------------------------------------------------------------ queues

    @answers_errors
    async def DeclareQueue(self, request: pb.DeclareQueueRequest, context: Context) -> pb.DeclareQueueResponse:
        arguments = convert.plain_table(request.arguments)
        if request.kind and arguments.setdefault("x-queue-type", request.kind) != request.kind:
            raise InvalidRequest(f"kind is '{request.kind}', argument x-queue-type '{arguments['x-queue-type']}'")
        with self.front.brief_session(request.vhost) as session:
            declared = await self.front.answer(
                session.declare_queue(
                    request.name,
                    passive=request.passive,
                    durable=not request.transient,
                    exclusive=False,  # it would be gone at the end of this call
                    auto_delete=request.auto_delete,
                    arguments=arguments,
                    now=self.front.now,
                )
            )
        return pb.DeclareQueueResponse(name=declared.name, ready=declared.ready, consumers=declared.consumers)

    @answers_errors
    async def DeleteQueue(self, request: pb.DeleteQueueRequest, context: Context) -> pb.DeleteQueueResponse:
        with self.front.brief_session(request.vhost) as session:
            messages = await self.front.answer(
                session.delete_queue(
                    _named(request.name), if_unused=request.if_unused, if_empty=request.if_empty, now=self.front.now
                )
            )
        return pb.DeleteQueueResponse(messages=messages)

    @answers_errors
    async def PurgeQueue(self, request: pb.PurgeQueueRequest, context: Context) -> pb.PurgeQueueResponse:
        with self.front.brief_session(request.vhost) as session:
            messages = await self.front.answer(session.purge_queue(_named(request.name), self.front.now))
        return pb.PurgeQueueResponse(messages=messages)

    @answers_errors
    async def ListQueues(self, request: pb.ListQueuesRequest, context: Context) -> pb.ListQueuesResponse:
        catalog, vhosts = self.front.broker.catalog, vhosts_to_list(self.front, request.vhost, request.all_vhosts)
        records = [record for vhost in vhosts for record in catalog.queues(vhost)]
        return pb.ListQueuesResponse(
            queues=[
                describe.queue(self.front, record)
                async for record in in_slices(records)
                if catalog.queue_of_id(record.id) is not None  # deleted while others were listed
            ]
        )

    # ------------------------------------------------------------------ bindings

    @answers_errors
    async def Bind(self, request: pb.BindRequest, context: Context) -> pb.BindResponse:
        await self._change_binding(request.binding, "bind")
        return pb.BindResponse()

    @answers_errors
    async def Unbind(self, request: pb.UnbindRequest, context: Context) -> pb.UnbindResponse:
        await self._change_binding(request.binding, "unbind")
        return pb.UnbindResponse()

    async def _change_binding(self, binding: pb.Binding, verb: str) -> None:
        kind = _KIND_OF.get(binding.destination_kind)
        if kind is None:
            raise InvalidRequest(f"destination_kind {binding.destination_kind} is neither queue nor exchange")
        with self.front.brief_session(binding.vhost) as session:
            change = getattr(session, f"{verb}_{kind}")
            arguments = convert.plain_table(binding.arguments)
            await self.front.answer(
                change(
                    _named(binding.destination, "destination"),
                    binding.source,
                    binding.routing_key,
                    arguments,
                    self.front.now,
                )
            )

    @answers_errors
    async def ListBindings(self, request: pb.ListBindingsRequest, context: Context) -> pb.ListBindingsResponse:
        vhosts = vhosts_to_list(self.front, request.vhost, request.all_vhosts)
        records = [record for vhost in vhosts for record in self._bindings(vhost, request)]
        return pb.ListBindingsResponse(bindings=[describe.binding(record) async for record in in_slices(records)])

    def _bindings(self, vhost: str, wanted: pb.ListBindingsRequest) -> Iterable[BindingRecord]:
        catalog = self.front.broker.catalog
        if wanted.queue:
            found = catalog.bindings_of_destination(vhost, "queue", wanted.queue)
        elif wanted.source:
            found = catalog.bindings_of_source(vhost, wanted.source)
        else:
            found = catalog.bindings(vhost)
        return [record for record in found if not wanted.source or record.source == wanted.source]


def _named(name: str, what: str = "queue") -> str:
    """The session would take an empty name for the queue declared last, which a single call does not have."""
    if not name:
        raise InvalidRequest(f"the name of the {what} is missing")
    return name


# ----------------------------------------------------------------------------- listing


def vhosts_to_list(front: Front, vhost: str, all_vhosts: bool) -> list[str]:
    """The vhosts that this listing covers. Raises AccessRefused or NotFound."""
    who = caller()
    who.require_tag("management")
    if all_vhosts:
        return [name for name in front.broker.catalog.vhosts if may_see(front, name)]
    check_may_see(front, vhost or DEFAULT_VHOST)
    return [vhost or DEFAULT_VHOST]


def check_may_see(front: Front, vhost: str) -> None:
    """Whether it exists is told to those only who may know. Raises AccessRefused or NotFound."""
    if not may_see(front, vhost):
        raise AccessRefused(f"user '{caller().user}' has no access to vhost '{vhost}'")
    if vhost not in front.broker.catalog.vhosts:
        raise NotFound(f"no vhost '{vhost}'")


def may_see(front: Front, vhost: str) -> bool:
    """Monitoring sees every vhost, others those that they may enter."""
    who = caller()
    return who.has_tag("monitoring") or permissions.may_enter(front.broker.catalog, who.user, vhost)
