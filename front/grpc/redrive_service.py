"""The part of leveret.v1.Admin that moves messages of dead-letter queues."""

from __future__ import annotations

import asyncio
from contextlib import closing

from broker.operations.redrives import Redrives, RedriveView
from broker.redrive.counts import RedriveCounts
from broker.redrive.order import RedriveFate, RedriveOrder
from front.answers import answered
from front.grpc import convert
from front.grpc.call import DEFAULT_VHOST, Context, Front, answers_errors
from front.grpc.caller import operator
from front.redriving import StartedRedrive
from leveret.v1 import admin_pb2 as pb

PROGRESS_S = 0.5  # between two messages
FORECAST = "forecast"  # the state of a dry run


class RedriveMethods:
    """Mixed into AdminService."""

    front: Front
    redrives: Redrives

    @answers_errors
    async def RedriveQueue(self, request: pb.RedriveQueueRequest, context: Context) -> None:
        order = _order(request)
        if request.dry_run:
            await context.write(await self._forecast(order))
        else:
            await self._redrive(order, context)

    async def _forecast(self, order: RedriveOrder) -> pb.RedriveProgress:
        forecast = self.redrives.forecast(operator(), order)
        with self.front.brief_session(order.vhost) as session:
            counts = await self.front.answer(forecast.begin(session, self.front.now))
        return _with_causes(pb.RedriveProgress(state=FORECAST, moved=counts.by_fate[RedriveFate.MOVES]), counts)

    async def _redrive(self, order: RedriveOrder, context: Context) -> None:
        view = self.redrives.admit(operator(), order, self.front.now)
        started = StartedRedrive(self.redrives, view, lambda: self.front.now)
        visit = self.front.session(self.front.connection(order.vhost, close=view.job.fail), view.job)
        over = answered(started.begin(visit, self.front.now))
        with closing(started):
            self.front.broker.end_turn()
            while not (await asyncio.wait([over], timeout=PROGRESS_S))[0]:
                await context.write(_progress(view))
        await context.write(_with_causes(_progress(view), view.job.counts))


def _order(request: pb.RedriveQueueRequest) -> RedriveOrder:
    order = RedriveOrder(
        request.vhost or DEFAULT_VHOST,
        request.queue,
        request.exchange if request.HasField("exchange") else None,
        request.routing_key if request.HasField("routing_key") else None,
        request.reason,
        request.died_in,
        request.limit,
    )
    order.check()
    return order


def _progress(view: RedriveView) -> pb.RedriveProgress:
    job = view.job
    return pb.RedriveProgress(
        state=job.state, error=convert.text(job.error), ready=job.counts.ready, seen=job.counts.seen, moved=job.moved
    )


def _with_causes(progress: pb.RedriveProgress, counts: RedriveCounts) -> pb.RedriveProgress:
    progress.ready, progress.seen = counts.ready, counts.seen
    for cause, messages in counts.causes.items():
        texts = dict(zip(cause._fields, map(convert.text, cause), strict=True))
        progress.causes.append(pb.RedriveCause(messages=messages, **texts))
    return progress
