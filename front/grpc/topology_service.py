"""Declaring, binding, deleting and listing. Each change is made through a session, so an AMQP client's rules hold here too."""

from __future__ import annotations

from broker.errors import InvalidRequest
from broker.operations.resources import Resources
from broker.pending import Pending
from broker.session.delayed_messages import DelayedMessage, Delayer
from broker.session.session import Session
from front.far_looks import look_at
from front.grpc import convert, describe
from front.grpc.call import Context, Front, answers_errors, vhost_asked_for
from front.grpc.caller import operator
from front.slices import made_in_slices
from leveret.v1 import topology_pb2 as pb
from leveret.v1 import topology_pb2_grpc

DELAYED_LIMIT = 50  # messages that are listed, if the request does not say how many
_KIND_OF = {pb.DESTINATION_KIND_QUEUE: "queue", pb.DESTINATION_KIND_EXCHANGE: "exchange"}


class TopologyService(topology_pb2_grpc.TopologyServicer):
    """leveret.v1.Topology."""

    def __init__(self, front: Front, resources: Resources) -> None:
        self.front = front
        self._resources = resources

    # ------------------------------------------------------------------ exchanges

    @answers_errors
    async def DeclareExchange(self, request: pb.DeclareExchangeRequest, context: Context) -> pb.DeclareExchangeResponse:
        with self.front.brief_session(request.vhost) as session:
            await self.front.answer(
                session.topology.declare_exchange(
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
                session.topology.delete_exchange(request.name, if_unused=request.if_unused, now=self.front.now)
            )
        return pb.DeleteExchangeResponse()

    @answers_errors
    async def ListExchanges(self, request: pb.ListExchangesRequest, context: Context) -> pb.ListExchangesResponse:
        found = self._resources.exchanges(operator(), vhost_asked_for(request))
        return pb.ListExchangesResponse(exchanges=[describe.exchange(one) async for one in made_in_slices(found)])

    @answers_errors
    async def ListDelayed(self, request: pb.ListDelayedRequest, context: Context) -> pb.ListDelayedResponse:
        with self.front.brief_session(request.vhost) as session:
            found = await self.front.answer(_waiting(session, request, self.front.now))
        return pb.ListDelayedResponse(messages=map(describe.delayed, found))

    @answers_errors
    async def CancelDelayed(self, request: pb.CancelDelayedRequest, context: Context) -> pb.CancelDelayedResponse:
        with self.front.brief_session(request.vhost) as session:
            await self.front.answer(session.delayed.cancel(_delayer(request), request.id, self.front.now))
        return pb.CancelDelayedResponse()

    # ------------------------------------------------------------------ queues

    @answers_errors
    async def DeclareQueue(self, request: pb.DeclareQueueRequest, context: Context) -> pb.DeclareQueueResponse:
        arguments = convert.plain_table(request.arguments)
        if request.kind and arguments.setdefault("x-queue-type", request.kind) != request.kind:
            raise InvalidRequest(f"kind is '{request.kind}', argument x-queue-type '{arguments['x-queue-type']}'")
        with self.front.brief_session(request.vhost) as session:
            declared = await self.front.answer(
                session.topology.declare_queue(
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
                session.topology.delete_queue(
                    _named(request.name), if_unused=request.if_unused, if_empty=request.if_empty, now=self.front.now
                )
            )
        return pb.DeleteQueueResponse(messages=messages)

    @answers_errors
    async def PurgeQueue(self, request: pb.PurgeQueueRequest, context: Context) -> pb.PurgeQueueResponse:
        with self.front.brief_session(request.vhost) as session:
            messages = await self.front.answer(session.topology.purge_queue(_named(request.name), self.front.now))
        return pb.PurgeQueueResponse(messages=messages)

    @answers_errors
    async def ListQueues(self, request: pb.ListQueuesRequest, context: Context) -> pb.ListQueuesResponse:
        who, vhost = operator(), vhost_asked_for(request)
        await look_at(self._resources, self._resources.queue_records(who, vhost))
        found = self._resources.queues(who, vhost)
        return pb.ListQueuesResponse(queues=[describe.queue(one) async for one in made_in_slices(found)])

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
            change = getattr(session.topology, f"{verb}_{kind}")
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
        source, queue = request.source or None, request.queue or None
        found = self._resources.bindings(operator(), vhost_asked_for(request), source=source, queue=queue)
        return pb.ListBindingsResponse(bindings=[describe.binding(one) async for one in made_in_slices(found)])


def _waiting(session: Session, request: pb.ListDelayedRequest, now: int) -> Pending[list[DelayedMessage]]:
    limit = request.limit or DELAYED_LIMIT
    if request.order == pb.DELAYED_ORDER_PUBLISHED:
        return session.delayed.published_after(_delayer(request), request.after, limit, now)
    if request.order != pb.DELAYED_ORDER_DUE or request.after:
        raise InvalidRequest("order is DUE, or PUBLISHED, which `after` goes with")
    return session.delayed.next_due(_delayer(request), limit, now)


def _delayer(request: pb.ListDelayedRequest | pb.CancelDelayedRequest) -> Delayer:
    if bool(request.exchange) == bool(request.queue):
        raise InvalidRequest("the exchange or the queue in which messages wait is named, and not both")
    return Delayer("queue", request.queue) if request.queue else Delayer("exchange", request.exchange)


def _named(name: str, what: str = "queue") -> str:
    """The session would take an empty name for the queue declared last, which a single call does not have."""
    if not name:
        raise InvalidRequest(f"the name of the {what} is missing")
    return name
