"""The part of leveret.v1.Admin that has classic queues become quorum queues."""

from __future__ import annotations

from broker.operations.queue_conversions import ConversionView, QueueConversions
from front.grpc import convert
from front.grpc.call import DEFAULT_VHOST, Context, Front, answers_errors
from front.grpc.caller import operator
from leveret.v1 import admin_pb2 as pb


class ConversionMethods:
    """Mixed into AdminService."""

    front: Front
    conversions: QueueConversions

    @answers_errors
    async def ConvertQueue(self, request: pb.ConvertQueueRequest, context: Context) -> pb.QueueConversion:
        asked = operator(), request.vhost or DEFAULT_VHOST, request.queue
        if request.dry_run:
            return conversion_stub(self.conversions.plan(*asked))
        return conversion_stub(await self.front.answer(self.conversions.begin(*asked)))

    @answers_errors
    async def GetQueueConversion(self, request: pb.GetQueueConversionRequest, context: Context) -> pb.QueueConversion:
        vhost = request.vhost or DEFAULT_VHOST
        return conversion_stub(self.conversions.progress(operator(), vhost, request.queue))

    @answers_errors
    async def CancelQueueConversion(
        self, request: pb.CancelQueueConversionRequest, context: Context
    ) -> pb.CancelQueueConversionResponse:
        vhost = request.vhost or DEFAULT_VHOST
        await self.front.answer(self.conversions.cancel(operator(), vhost, request.queue))
        return pb.CancelQueueConversionResponse()


def conversion_stub(one: ConversionView) -> pb.QueueConversion:
    return pb.QueueConversion(
        vhost=one.vhost,
        queue=one.queue,
        state=one.state,
        messages=one.messages,
        copied=one.copied,
        arguments=convert.table(one.arguments),
        waits_for=one.waits_for,
    )
