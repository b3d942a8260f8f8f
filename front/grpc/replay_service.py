"""The part of leveret.v1.Admin that publishes messages again which have left a queue."""

from __future__ import annotations

import asyncio
from contextlib import closing
from typing import Any

from broker.operations.operator import ADMINISTRATOR
from broker.operations.replays import ReplayView
from broker.replay.replay_order import CONSUMED, RATE_DEFAULT, ReplayOrder, place_text, read_place
from front.grpc import convert
from front.grpc.call import DEFAULT_VHOST, Context, Front, answers_errors
from front.grpc.caller import operator
from front.node_ports import ReplayCoverage
from front.replaying import Replaying
from front.started_job import StartedJob
from leveret.v1 import admin_pb2 as pb

PROGRESS_S = 0.5  # between two messages
FORECAST = "forecast"  # the state of a dry run
COVERAGE_FIELDS = (
    "messages", "skipped", "uncommitted", "unnamed", "more", "unknown", "files", "files_skipped", "from_time", "to_time",
    "damaged_bytes",
)  # fmt: skip


class ReplayMethods:
    """Mixed into AdminService."""

    front: Front
    replaying: Replaying

    @answers_errors
    async def ReplayQueue(self, request: pb.ReplayQueueRequest, context: Context) -> None:
        operator().require_tag(ADMINISTRATOR)  # before anything is said of what was asked
        order = _order(request)
        if not request.dry_run:
            await self._replay(order, context)
            return
        with self.front.brief_session(order.vhost) as session:
            coverage = await self.replaying.forecast(operator(), session, order)
        await context.write(pb.ReplayProgress(state=FORECAST, chosen=coverage.messages, coverage=_coverage(coverage)))

    async def _replay(self, order: ReplayOrder, context: Context) -> None:
        """Whoever leaves the call ends it."""
        view = self.replaying.replays.admit(operator(), order, self.front.now)
        job = view.job
        with closing(StartedJob(self.replaying.replays, view, lambda: self.front.now)) as started:
            session = started.enter(self.front.session(self.front.connection(order.vhost, close=job.fail), job))
            over = asyncio.ensure_future(self.replaying.run(view, session, lambda: self.front.now))
            try:
                while not (await asyncio.wait([over], timeout=PROGRESS_S))[0]:
                    await context.write(_progress(view))
            finally:
                over.cancel()
            coverage = over.result()
        last = _progress(view)
        last.coverage.CopyFrom(_coverage(coverage))
        await context.write(last)


def _order(request: pb.ReplayQueueRequest) -> ReplayOrder:
    order = ReplayOrder(
        request.vhost or DEFAULT_VHOST,
        request.queue,
        request.exchange,
        request.routing_key if request.HasField("routing_key") else None,
        tuple(request.ends) or CONSUMED,
        request.since_ms if request.HasField("since_ms") else None,
        request.until_ms if request.HasField("until_ms") else None,
        read_place(request.after),
        request.published_key if request.HasField("published_key") else None,
        request.consumer,
        request.limit,
        request.rate if request.HasField("rate") else RATE_DEFAULT,
    )
    order.check()
    return order


def _progress(view: ReplayView) -> pb.ReplayProgress:
    job = view.job
    fates: dict[str, Any] = {fate.value: count for fate, count in job.fates.items()}
    return pb.ReplayProgress(
        state=job.state,
        error=convert.text(job.error),
        chosen=job.chosen,
        answered_to=place_text(job.answered_to),
        id=view.id,
        **fates,
    )


def _coverage(coverage: ReplayCoverage) -> pb.ReplayCoverage:
    causes = [
        pb.ReplayCause(
            end=one.end,
            exchange=convert.text(one.exchange),
            routing_key=convert.text(one.routing_key),
            messages=one.messages,
        )
        for one in coverage.causes
    ]
    first, last = place_text(coverage.first or ()), place_text(coverage.last or ())
    return pb.ReplayCoverage(
        first=first, last=last, causes=causes, **{name: getattr(coverage, name) for name in COVERAGE_FIELDS}
    )
