"""Queues of this node that are being converted, and what each node does when one has been: node/conversion/conversion.py.

A conversion begins when the quorum queue is declared that a classic queue of this node is to become, whoever declared it. A
process that finds one at its start makes an end of it: what the process before had copied is not known any more. Until the
catalog has said that it is deleted, or that it has taken the place, the classic queue is fenced; so a start from an older state
of the catalog hands out nothing and confirms nothing that another queue has by now.

On other nodes clients publish to the classic queue through its home. What they publish after the change waits until the home
has passed on what they published before it.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any

from broker.background_work import Steps
from broker.broker import Broker
from broker.catalog.catalog import Catalog
from broker.catalog.commands import catalog_commands as commands
from broker.catalog.commands.catalog_commands import Command
from broker.catalog.mirrored_queues import as_converted, told_of
from broker.catalog.mirroring import HA_MODE
from broker.catalog.parts.catalog_conversions import Converted
from broker.errors import BrokerError
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.names import becoming_queue, final_name, is_becoming
from broker.pending import Pending, ignore
from broker.queues.queue_type import Queue, Slice
from broker.records import QueueRecord
from classic.driver import ClassicQueues
from classic.fence import Fence
from classic.queue import ClassicQueue
from node.anywhere import wire as words
from node.anywhere.home_queues import HomeQueues
from node.anywhere.wire import Op
from node.conversion.conversion import STANDSTILL_MAX_MS, Conversion, Phase
from node.peers.calls import CLASSIC, CallsLoop, PeerCalls
from quorum.driver import QuorumQueues
from quorum.fifo.commands import Tick
from quorum.held_copies import HeldCopies
from quorum.queue import QuorumQueue
from storage.interval import Interval

AT_ONCE_MAX = 2  # by policies
LOOK_AGAIN_MS = 30_000  # for queues that could not be converted when they were looked at last
TOLD_MS = 10_000  # behind the last copy that came to a majority: its group stands still
PUT_OFF_MS_MAX = 3_600_000  # of a queue whose conversion ended without success: twice as long each time

logger = logging.getLogger("leveret")


class Conversions:
    """See the module. Made before the broker has opened its queues; `begin` behind that."""

    def __init__(
        self,
        node: str,
        broker: Broker,
        classic: ClassicQueues,
        home: HomeQueues,
        quorum: QuorumQueues,
        calls: PeerCalls,
        loop: CallsLoop,
        wall_ms: Callable[[], int],
        monotonic_ms: Callable[[], int],
        insist: Callable[[Command], Pending[Any]],
    ) -> None:
        self.running: dict[int, Conversion] = {}  # by id of the classic queue
        self._node = node
        self._broker = broker
        self._catalog: Catalog = broker.catalog
        self._classic = classic
        self._home = home
        self._quorum = quorum
        self._insist = insist
        self._calls = calls
        self._loop = loop
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._fenced: dict[int, ClassicQueue] = {}  # since this process began: by id
        self._wanted: deque[QueueRecord] = deque()  # by policies, and not looked at yet
        self._beginning: set[int] = set()  # of them, by id: asked for, and not running yet
        self._put_off: dict[int, tuple[int, int]] = {}  # queues whose conversion ended: how long, and until when, by id
        self._looking = False
        self._looks = Interval(LOOK_AGAIN_MS)
        self._standing_still: set[int] = set()  # ids of queues of which that has been told
        broker.copies_wait_ms = self._copies_wait_ms
        broker.metadata.subscribe(self._applied)

    def begin(self) -> None:
        """Of conversions that a process before this one has made, or was about to make."""
        for vhost in self._catalog.vhosts:
            for record in list(self._catalog.queues(vhost)):
                if record.home != self._node:
                    continue
                if is_becoming(record.name):
                    self._end_former(record)
                elif record.was:
                    self._answer_for(record)

    def _answer_for(self, record: QueueRecord) -> None:
        """Nodes that have not heard yet of the queue that it was ask this one for it."""
        target = self._open(record)
        assert isinstance(target, QuorumQueue), f"{record.label} was converted, and is no quorum queue"
        self._home.became(record.was, target, self._quorum, partial(_when_said, target))

    def _end_former(self, becoming: QueueRecord) -> None:
        source = self._source_of(becoming)
        if source is not None:
            source.fence = Fence()
            self._fenced[source.record.id] = source
        self._delete(becoming)

    @property
    def congested(self) -> bool:
        """Whether publishers should pause, for copying does not catch up with them."""
        return any(conversion.holds_publishers for conversion in self.running.values())

    def tick(self) -> None:
        for conversion in list(self.running.values()):
            conversion.advance()
        self._tell_who_stands_still()
        if self._looks.due(self._monotonic_ms()):
            self._look_for_wanted()
        while self._wanted and len(self.running) + len(self._beginning) < AT_ONCE_MAX:
            self._convert_wanted(self._wanted.popleft())

    def _copies_wait_ms(self, queue_id: int) -> int:
        conversion = self.running.get(queue_id)
        return conversion.waited_ms if conversion is not None else 0

    def _tell_who_stands_still(self) -> None:
        """Once when it begins, and once when it is over."""
        waiting = {one for one, conversion in self.running.items() if conversion.waited_ms >= TOLD_MS}
        for queue_id in waiting - self._standing_still:
            record = self.running[queue_id].source.record
            logger.warning(
                "the conversion of %s stands still: for %d s no copy has come to a majority of its group. `leveretctl queue "
                "convert %s --cancel` ends it; it is ended after %d s, and the queue stays a classic one with all it has",
                record.label, TOLD_MS // 1000, record.name, STANDSTILL_MAX_MS // 1000,
            )  # fmt: skip
        for queue_id in self._standing_still - waiting:
            if queue_id in self.running:
                logger.info("the conversion of %s goes on", self.running[queue_id].source.record.label)
        self._standing_still = waiting

    # what the catalog says

    def _applied(self, command: Command, result: Any) -> None:
        match command:
            case commands.DeclareQueue(name=name) if is_becoming(name) and result is not None:
                self._declared(result)
            case commands.ConvertQueue() if result is not None:
                self._converted(result)
            case commands.DeleteQueue() if result is not None:
                self._deleted(result)
            case commands.DeleteVhost() | commands.RemoveNode():
                for record in result:
                    self._deleted(record)
            case commands.PutPolicy(record) if HA_MODE in record.definition:
                self._look_for_wanted()

    def _declared(self, becoming: QueueRecord) -> None:
        if becoming.home != self._node:
            return
        source = self._source_of(becoming)
        if source is not None and source.record.id in self.running:
            return  # it is declared again
        target = self._open(becoming)
        if source is None or not isinstance(target, QuorumQueue) or source.fence is not None:
            self._delete(becoming)
            return
        self.running[source.record.id] = Conversion(
            source,
            HeldCopies(target),
            held_by_clients=self._held_by_clients,
            publish=partial(self._publish, source),
            insist=self._insist,
            soon=partial(self._advance_soon, source.record.id),
            wall_ms=self._wall_ms,
            monotonic_ms=self._monotonic_ms,
            on_phase=_PhaseLog(source.record.label).entered,
        )
        logger.info("%s is being converted to a quorum queue", source.record.label)

    def _converted(self, one: Converted) -> None:
        target = self._open(one.now)
        assert isinstance(target, QuorumQueue), f"{one.now.label} has become no quorum queue"
        if one.before.home not in ("", self._node):
            self._wait_for_home(one.before, target)
            return
        publish = partial(self._publish_to, target)
        self._put_off.pop(one.before.id, None)
        conversion = self.running.pop(one.before.id, None)
        fenced = self._fenced.pop(one.before.id, None)
        self._answer_for(one.now)
        if conversion is not None:
            conversion.converted(publish)
            logger.info("%s is a quorum queue now; it was fenced for %d ms", one.now.label, conversion.fenced_ms)
        elif fenced is not None and fenced.fence is not None:
            fenced.fence.open(target, publish)

    def _deleted(self, record: QueueRecord) -> None:
        if record.was and record.home == self._node:
            self._home.has_gone(record.was)
        if not is_becoming(record.name):
            self._source_deleted(record)
            return
        source = self._source_of(record)
        if source is None:
            return
        conversion = self.running.pop(source.record.id, None)
        if conversion is not None:
            conversion.stays()
            logger.warning("%s stays a classic queue: its conversion was ended", source.record.label)
            self._put_it_off(source.record)
        elif self._fenced.pop(source.record.id, None) is not None:
            source.unfence(partial(self._publish, source), self._wall_ms())

    def _put_it_off(self, record: QueueRecord) -> None:
        """All of it would be copied again, and perhaps for nothing again."""
        former_ms, _ = self._put_off.get(record.id, (LOOK_AGAIN_MS // 2, 0))
        wait_ms = min(2 * former_ms, PUT_OFF_MS_MAX)
        self._put_off[record.id] = wait_ms, self._monotonic_ms() + wait_ms

    def _source_deleted(self, source: QueueRecord) -> None:
        self._put_off.pop(source.id, None)
        conversion, fenced = self.running.pop(source.id, None), self._fenced.pop(source.id, None)
        if conversion is not None:
            conversion.gone()
        elif fenced is not None:
            fenced.deleted_behind_fence()
        catalog = self._catalog
        becoming = catalog.queue(source.vhost, becoming_queue(source.name))
        if becoming is not None and (becoming.home == self._node or becoming.home not in catalog.nodes):
            self._delete(becoming)

    def _delete(self, becoming: QueueRecord) -> None:
        self._insist(commands.DeleteQueue(becoming.vhost, becoming.name, becoming.id)).then(ignore, ignore)

    # queues

    def _open(self, record: QueueRecord) -> Queue | None:
        found = self._broker.find_queue(record.vhost, record.name)
        return found.queue if found is not None else None

    def _source_of(self, becoming: QueueRecord) -> ClassicQueue | None:
        """The classic queue of this node that is to become it."""
        found = self._broker.find_queue(becoming.vhost, final_name(becoming.name))
        return found.queue if found is not None and isinstance(found.queue, ClassicQueue) else None

    def _held_by_clients(self, queue: Queue) -> Iterator[Slice]:
        for session in self._broker.sessions():
            yield from session.unacknowledged.of_queue(queue)
        yield from self._home.held_of(queue)

    def _publish(self, source: ClassicQueue, run: Run, receipt: Receipt | None) -> None:
        self._classic.publish([source], run, receipt, self._wall_ms())

    def _publish_to(self, target: QuorumQueue, run: Run, receipt: Receipt | None) -> None:
        """What waited behind the fence. Not what its node has refused meanwhile: that node did not wait for it, and what was
        published there since would be overtaken by it, or doubled, where its publisher has said it again."""
        if not self._home.was_refused(run, receipt):
            self._quorum.publish([target], run, receipt, self._wall_ms())

    def _advance_soon(self, queue_id: int) -> None:
        self._loop.call_soon(self._advance, queue_id)

    def _advance(self, queue_id: int) -> None:
        conversion = self.running.get(queue_id)
        if conversion is not None:
            conversion.advance()
            self._broker.turns.request()

    # other nodes

    def _wait_for_home(self, before: QueueRecord, target: QuorumQueue) -> None:
        home = self._catalog.nodes.get(before.home)
        if home is None:
            return
        self._quorum.hold(target)
        asked = words.encode_number(Op.PASSED, before.id)
        self._calls.ask(home.number, CLASSIC, asked, lambda _: self._quorum.go_on(target))

    # policies

    def _look_for_wanted(self) -> None:
        if not self._looking and any(self._policies()):
            self._looking = True
            self._broker.work.do(self._look())

    def _policies(self) -> Iterable[bool]:
        """Whether each says how its queues are mirrored."""
        catalog = self._catalog
        return (HA_MODE in one.definition for vhost in catalog.vhosts for one in catalog.policies(vhost))

    def _look(self) -> Steps:
        self._wanted.clear()
        for found in list(self._broker.open_queues.values()):
            record = found.queue.record
            if isinstance(found.queue, ClassicQueue) and told_of(self._catalog, record, found.effective) is not None:
                self._wanted.append(record)
            yield
        self._looking = False

    def _convert_wanted(self, record: QueueRecord) -> None:
        """Where it cannot be, the queue says so itself."""

        def begun() -> None:
            self._beginning.discard(record.id)

        if self._catalog.queue_of_id(record.id) is None or record.id in self.running:
            return
        _, until = self._put_off.get(record.id, (0, 0))
        if self._monotonic_ms() < until:
            return
        try:
            wish = as_converted(self._catalog, record)
        except BrokerError:
            return
        self._beginning.add(record.id)
        self._broker.metadata.submit(wish).then(lambda _: begun(), lambda _: begun())


class _PhaseLog:
    """Each phase of a conversion once, for the fence may be closed and opened again every second."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._latest = Phase.FOUNDING

    def entered(self, phase: Phase) -> None:
        if phase > self._latest:
            self._latest = phase
            logger.info("%s is being converted: %s", self._label, phase.name.lower())


def _when_said(queue: QuorumQueue, call: Callable[[], None]) -> None:
    """Call when all that was said to it on this node before is applied."""
    queue.session.say(Tick(), lambda _: call())
    queue.session.flush()
