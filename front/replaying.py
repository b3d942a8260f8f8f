"""Beginning a replay and carrying it on, for whichever front its operator uses.

The log of this node is read by a process beside it; messages go from there to a replay, at most `rate` a second, and as long as
few enough wait for their confirms.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from broker.errors import BrokerError, InvalidRequest, NotSupported, PreconditionFailed, ResourceExhausted
from broker.messages.message import Run
from broker.operations.operations import Operations
from broker.operations.operator import Operator
from broker.operations.replays import ReplayView
from broker.records import QueueRecord
from broker.replay.logged import LoggedMessage
from broker.replay.message_replay import MessageReplay
from broker.replay.replay_order import ReplayOrder
from front.node_ports import LoggedMessages, QueueMembersPort, ReplayCoverage, ReplayLogPort
from native.content import encode
from wire.amqp.tables import encode_properties

if TYPE_CHECKING:
    from broker.broker import Broker
    from broker.session.session import Session

STALL_S = 30.0  # without a confirm
SLICE_S = 0.05  # so much of a rate may be caught up with


class Replaying:
    """See the module."""

    def __init__(
        self, broker: Broker, operations: Operations, log: ReplayLogPort | None, members: QueueMembersPort | None
    ) -> None:
        self.replays = operations.replays
        self._broker = broker
        self._node = operations.this_node.name
        self._log = log
        self._members = members

    def check(self, session: Session, order: ReplayOrder) -> QueueRecord:
        """The queue whose messages are meant. Raises what keeps a replay from beginning: read permission on the queue and write
        permission on the exchange are needed."""
        record = session.topology.readable(order.queue).queue.record
        if record.kind == "stream":
            raise NotSupported(f"{record.label} is a stream: its messages are still there. Read it from where you want")
        parts = 3 if record.kind == "quorum" else 1
        if len(order.after) not in (0, parts):
            raise InvalidRequest(
                f"a place in {record.label} has {'one number' if parts == 1 else '3 numbers'}, and {len(order.after)} are given"
            )
        self._check_nodes(record)
        empty = encode(encode_properties({}), b"")
        session.publisher.queues_of(Run(order.exchange, order.routing_key or "", empty, 1, 0))
        return record

    def _check_nodes(self, record: QueueRecord) -> None:
        nodes = self._nodes_of(record)
        if self._node not in nodes:
            raise PreconditionFailed(
                f"the messages of {record.label} are in the logs of {', '.join(nodes)}: ask there, not {self._node}"
            )

    def _nodes_of(self, record: QueueRecord) -> list[str]:
        if record.kind == "classic":
            return [record.home or self._node]
        places = None if self._members is None else self._members.places(record)
        return [] if places is None else sorted(places.members)

    async def forecast(self, who: Operator, session: Session, order: ReplayOrder) -> ReplayCoverage:
        """A dry run: what the log has, and would be published. Raises BrokerErrors."""
        self.replays.forecast(who, order)
        chosen = await self._choose(self.check(session, order), order, with_contents=False)
        chosen.close()
        return chosen.coverage

    async def run(self, view: ReplayView, session: Session, now: Callable[[], int]) -> ReplayCoverage:
        """Until it is over, however that is. Raises what keeps it from beginning."""
        try:
            return await self._carry_out(view.job, session, now)
        except BrokerError as error:
            view.job.fail(error)
            raise

    async def _carry_out(self, job: MessageReplay, session: Session, now: Callable[[], int]) -> ReplayCoverage:
        record = self.check(session, job.order)
        job.begin(session)
        chosen = await self._choose(record, job.order, with_contents=True)
        try:
            job.chosen = min(chosen.coverage.messages, job.order.limit or chosen.coverage.messages)
            await _Publishing(self._broker, job, now).all_of(chosen)
        finally:
            chosen.close()
        return chosen.coverage

    async def _choose(self, record: QueueRecord, order: ReplayOrder, *, with_contents: bool) -> LoggedMessages:
        if self._log is None:
            raise NotSupported("this node does not read its log for replays")
        self._broker.audit.changed(
            "Replay", f"read messages of {record.label} in the log{'' if with_contents else ', as a dry run'}"
        )
        return await self._log.choose(record, order, with_contents=with_contents)


class _Publishing:
    """One replay that goes on."""

    def __init__(self, broker: Broker, job: MessageReplay, now: Callable[[], int]) -> None:
        self._broker = broker
        self._job = job
        self._now = now
        self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()  # when the next message may be published
        job.woken = self._woken.set

    async def all_of(self, chosen: LoggedMessages) -> None:
        left = self._job.chosen
        try:
            while left and self._job.is_running and (some := await chosen.next()):
                some = some[:left]
                left -= len(some)
                await self._some(some)
        except BrokerError as error:
            self._job.fail(error)
        await self._until(lambda: not self._job.under_way)
        self._job.done()

    async def _some(self, messages: Sequence[LoggedMessage]) -> None:
        for message in messages:
            await self._until(lambda: self._job.may_go_on or not self._job.is_running)
            await self._in_rate()
            if not self._job.is_running:
                return
            self._job.publish(message, self._now())
            self._broker.end_turn()

    async def _until(self, holds: Callable[[], bool]) -> None:
        """As long as queues answer. What is unconfirmed after that may have arrived all the same."""
        while not holds():
            self._woken.clear()
            try:
                async with asyncio.timeout(STALL_S):
                    await self._woken.wait()
            except TimeoutError:
                self._job.fail(ResourceExhausted(f"no queue has confirmed anything for {STALL_S:.0f} s"))
                return

    async def _in_rate(self) -> None:
        """Messages that were due while nothing could be published are not made up for."""
        rate, now = self._job.order.rate, self._loop.time()
        if not rate:
            await asyncio.sleep(0)
            return
        self._due = max(self._due, now - SLICE_S) + 1 / rate
        if self._due > now:
            await asyncio.sleep(self._due - now)
