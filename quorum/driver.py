"""The quorum queues of one node. Fulfils broker.queues.queue_type.QueueType.

What any queue needs whose log is a group is in replicated/. Here it gets what is special to quorum queues: the machine, the
letters that only they have, the check of what other nodes ask to have proposed, and how much may wait.

Assembly: make it, `attach` it to the broker, add it as a kind, let the broker recover, and call `tick` ten times a second.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from broker.catalog.policy import EffectiveArguments
from broker.errors import PreconditionFailed, ResourceExhausted
from broker.messages.confirms import Receipt
from broker.messages.message import Run
from broker.queues.queue_type import Queue, QueueHost
from broker.queues.waiting_publishes import WaitingPublishes
from broker.records import QueueRecord
from native.content import skip
from quorum import letters, proposals
from quorum.bodies import KEPT_BYTES_MAX, Bodies
from quorum.browsing import browse_member
from quorum.dead_letters_once import DeadLettersOnce
from quorum.fifo.commands import ENTRY_HEAD, SessionKey
from quorum.fifo.machine import QueueMachine
from quorum.fifo.results import Result, TakenMessage
from quorum.fifo.versions import VERSION_NEWEST
from quorum.leading import Leading
from quorum.letters import QUORUM_TOPIC, Delivery, LetterKind
from quorum.member import QueueMember
from quorum.queue import QuorumQueue
from quorum.queue_figures import report, with_report
from quorum.subscription import WaitingDelivery
from quorum.waiting import waiting_in
from raft.core.messages import NodeId
from replicated.busy_queues import CHECK_MS
from replicated.entry_cache import EntryCache
from replicated.kind_parts import HostingNode, KindParts
from replicated.letters import AnswerStatus, MemberReport, refusal
from replicated.local_members import QUEUE_GROUPS
from replicated.peer_letters import KindOfLetters
from replicated.ports import Payload
from replicated.stored_entries import StoredEntries
from storage.interval import Interval

WAITING_BYTES_MAX = 32 << 20  # of all queues that have a leader; beyond it publishers are to be held
KIND = "quorum"


class QuorumQueues:
    """See the module. Everything belongs to the event loop's thread."""

    name = KIND

    def __init__(
        self,
        node: HostingNode,
        *,
        machine_version: int = VERSION_NEWEST,
        entry_bytes_kept_max: int = KEPT_BYTES_MAX,
    ) -> None:
        self.key = SessionKey(node.number, node.incarnation)
        self.name_of = node.catalog.name_of
        self.queues: dict[int, QuorumQueue] = {}  # by group
        self.machine_version = machine_version  # the newest that groups may be brought to, as far as this node knows
        self.refusals = (
            0  # to propose what other nodes asked for, and by other nodes to propose what this one asked for
        )
        self._held: dict[int, WaitingPublishes] = {}  # by group, of queues that get something else first
        self._ports = ports = node.ports(QUORUM_TOPIC)
        self._catalog = node.catalog
        self._reports = node.reports
        self._cache = EntryCache(entry_bytes_kept_max)
        self._host: QueueHost
        self._checks = Interval(CHECK_MS)
        self._dead_letters_once = DeadLettersOnce(node.wall_ms)
        self._parts = parts = KindParts[QuorumQueue](
            KIND, node, ports, self.queues, self._new_member, lambda: self.machine_version
        )
        self._busy = parts.busy
        self.verdicts = parts.verdicts
        self.members = parts.members
        self.administration = parts.administration
        parts.serve(self._own_letters(), self._refused)

    def attach(self, host: QueueHost) -> None:
        """Before the first queue is opened."""
        self._host = host

    # QueueType

    def check(self, record: QueueRecord) -> None:
        """Raises PreconditionFailed."""
        for wrong, what in (
            (not record.durable, "non-durable"),
            (record.exclusive, "exclusive"),
            (record.auto_delete, "auto-delete"),
        ):
            if wrong:
                raise PreconditionFailed(f"invalid property '{what}' for {record.label}")

    def open(self, record: QueueRecord, effective: EffectiveArguments, now: int) -> Queue:
        group = QUEUE_GROUPS + record.id
        queue = self.queues[group] = QuorumQueue(
            record,
            effective,
            group,
            self.key,
            ports=self._ports,
            host=self._host,
            busy=self._busy,
            dead_letters_once=self._dead_letters_once,
            lead=self._lead,
            on_refused=lambda why: self._refused(queue, why),
        )
        self.members.take_part(queue)
        return queue

    def delete(self, queue: Queue, now: int) -> int:
        assert isinstance(queue, QuorumQueue), f"{queue!r} is no quorum queue"
        ready = queue.ready_count
        queue.close()
        self.go_on(queue)
        self._parts.forget(queue)
        return ready

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        refused: ResourceExhausted | None = None
        for queue in queues:
            assert isinstance(queue, QuorumQueue), f"{queue!r} is no quorum queue"
            try:
                held = self._held.get(queue.group) if self._held else None
                if held is None:
                    queue.publish(run, receipt)
                else:
                    held.hold(run, receipt)
            except ResourceExhausted as error:
                refused = error
        if refused is not None:
            raise refused

    def hold(self, queue: QuorumQueue) -> None:
        """What clients of this node publish to it waits."""
        self._held[queue.group] = WaitingPublishes()

    def go_on(self, queue: QuorumQueue) -> None:
        held = self._held.pop(queue.group, None)
        if held is not None:
            held.give_to(queue.publish)

    # its queues

    def _new_member(self, queue: QuorumQueue, entries: StoredEntries) -> QueueMember:
        return QueueMember(QueueMachine(), Bodies(queue.group, self._cache, entries.read), queue)

    def _lead(self, queue: QuorumQueue, member: QueueMember) -> Leading:
        return Leading(
            queue,
            member,
            self.key,
            ports=self._ports,
            host=self._host,
            catalog=self._catalog,
            verdicts=self.verdicts,
            dead_letters_once=self._dead_letters_once,
        )

    @property
    def led(self) -> Collection[QuorumQueue]:
        """Those that this node leads."""
        return self._busy.led

    def report(self, queue: QuorumQueue) -> MemberReport | None:
        return report(queue)

    def reported(self, queue: QuorumQueue, told: MemberReport) -> None:
        queue.news = with_report(queue.news, told)

    # now and then

    @property
    def congested(self) -> bool:
        """Whether publishers should pause: too much waits for leaders, or to be passed on by this one."""
        return self.waiting_bytes > WAITING_BYTES_MAX or self._dead_letters_once.is_full

    @property
    def waiting_bytes(self) -> int:
        """Said and not answered, by queues that have a leader. Only those that wait for an answer are looked at."""
        return sum([queue.session.waiting_bytes for queue in self._busy.asking if queue.has_leader])

    def tick(self, now: int) -> None:
        """Called some ten times a second."""
        self._busy.tick(now)
        if self._checks.due(now):
            self._parts.check()

    # other nodes

    def _own_letters(self) -> KindOfLetters[QuorumQueue]:
        return KindOfLetters(
            proposals.check,
            self._done,
            ENTRY_HEAD.size,
            asks={LetterKind.BROWSE: self._browsed, LetterKind.WAITING: self._waiting},
            tells={
                LetterKind.DELIVER: self._delivered,
                LetterKind.NEWS: lambda queue, node, letter: queue.heard(letters.decode_news(letter)),
                LetterKind.TIMED_OUT: lambda queue, node, letter: queue.consumers.timed_out(
                    letters.decode_timed_out(letter)
                ),
                LetterKind.USED: self._used,
            },
        )

    def _refused(self, queue: QuorumQueue, why: str) -> None:
        """Something was not proposed, as it would do harm to every member."""
        self.refusals += 1
        self._reports.on_refused(queue, why)

    def _done(self, queue: QuorumQueue, results: Sequence[Result]) -> Payload:
        assert queue.leading is not None and queue.member is not None, f"{queue.record.label} is not led from here"
        fetched: list[tuple[Delivery, int]] = []
        for result in results:
            if type(result) is TakenMessage:
                body = queue.member.bodies.get(result.piece)
                end = skip(body.content, body.position, 1)
                fetched.append(
                    (Delivery(0, result.message_id, 1, result.delivery_count, result.acquired_count, body), end)
                )
        return letters.done(self.key.node, queue.leading.news(), results, fetched)

    @staticmethod
    def _browsed(queue: QuorumQueue | None, letter: bytes) -> Payload:
        skip, limit = letters.decode_browse(letter)
        member = queue.readable_member if queue is not None else None
        if queue is None or member is None:
            return refusal(AnswerStatus.NO_GROUP, 0)
        return letters.browsed(queue.route.leader(), browse_member(member, skip, limit))

    @staticmethod
    def _waiting(queue: QuorumQueue | None, letter: bytes) -> Payload:
        asked = letters.decode_asked_waiting(letter)
        member = queue.readable_member if queue is not None else None
        if queue is None or member is None:
            return refusal(AnswerStatus.NO_GROUP, 0)
        return letters.told_waiting(queue.route.leader(), waiting_in(member, asked))

    def _delivered(self, queue: QuorumQueue, node: NodeId, letter: bytes) -> None:
        found = letters.decode_deliver(letter)
        if queue.member is None:
            counts = found.delivery_count, found.acquired_count
            queue.consumers.take(found.number, WaitingDelivery(found.first_id, found.length, *counts, found.body))
            self._host.wake(queue)

    def _used(self, queue: QuorumQueue, node: NodeId, letter: bytes) -> None:
        if queue.leading is not None:
            queue.leading.used(self._ports.wall_ms())
