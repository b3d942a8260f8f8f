"""The quorum queues of one node. Fulfils broker.queue_type.QueueType.

What any queue needs whose log is a group is in replicated/. Here it gets what is special to quorum queues: the machine, the
letters that only they have, what other nodes ask to have proposed, and how much may wait.

Assembly: make it, `attach` it to the broker, add it as a kind, let the broker recover, and call `tick` ten times a second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from enum import IntEnum
from functools import partial

from broker.confirms import Receipt
from broker.errors import PreconditionFailed, ResourceExhausted
from broker.message import Run
from broker.policy import EffectiveArguments
from broker.queue_type import Queue, QueueHost
from broker.records import QueueRecord
from native.content import skip
from quorum import letters, proposals
from quorum.bodies import KEPT_BYTES_MAX, Bodies, EntryCache
from quorum.browsing import browse_member
from quorum.commands import Got, Result, SessionKey
from quorum.dead_letters_once import DeadLettersOnce
from quorum.leading import Leading
from quorum.letters import KINDS, QUORUM_TOPIC, Delivery, LetterKind
from quorum.machine import QueueMachine
from quorum.member import Member
from quorum.proposals import RefusedProposal
from quorum.queue import QuorumQueue
from quorum.subscription import WaitingDelivery
from quorum.versions import VERSION_NEWEST
from raft.driver import SnapshotRules
from raft.errors import Damaged, NotLeader, RaftError
from raft.messages import NodeId, node_of
from raft.replicas import NewReplica
from raft.settings import Settings
from replicated.administration import Administration
from replicated.busy_queues import BusyQueues
from replicated.departures import Departures
from replicated.letters import (
    HEAD,
    AnswerStatus,
    BadLetter,
    GroupLetter,
    attending,
    decode_attend,
    decode_give_up,
    kind_and_group,
    refusal,
    refused,
)
from replicated.local_members import QUEUE_GROUPS, KindOfMember, LocalMembers
from replicated.ports import Calls, CatalogPorts, Groups, Loop, Owners, Payload, QueuePorts, Store
from replicated.queue import QueueReports
from replicated.verdicts import Verdicts

CHECK_MS = 1_000  # how often leaders look after nodes and records, and others after who serves them
WAITING_BYTES_MAX = 32 << 20  # of all queues that have a leader; beyond it publishers are to be held
EAGER = 4.0  # of the member on the node where the queue was declared; see raft/settings.py
KIND = "quorum"


class QuorumQueues:
    """See the module. Everything belongs to the event loop's thread."""

    name = KIND

    def __init__(
        self,
        key: SessionKey,
        disk_id: int,
        *,
        groups: Groups,
        owners: Owners,
        store: Store,
        calls: Calls,
        loop: Loop,
        wall_ms: Callable[[], int],
        monotonic: Callable[[], float],
        new_replica: NewReplica,
        catalog: CatalogPorts,
        reports: QueueReports | None = None,
        node_name: str = "",
        settings: Settings | None = None,
        rules: SnapshotRules | None = None,
        machine_version: int = VERSION_NEWEST,
        entry_bytes_kept_max: int = KEPT_BYTES_MAX,
    ) -> None:
        """`key`: this node and its incarnation. `disk_id`: of the members that it founds."""
        self.key = key
        self.name_of = catalog.name_of
        self.queues: dict[int, QuorumQueue] = {}  # by group
        self.machine_version = machine_version  # the newest that groups may be brought to, as far as this node knows
        self.refusals = (
            0  # to propose what other nodes asked for, and by other nodes to propose what this one asked for
        )
        self._ports = ports = QueuePorts(
            key.node, key.incarnation, QUORUM_TOPIC, groups, owners, calls, loop, wall_ms, monotonic
        )
        self._catalog = catalog
        self._reports = reports = reports or QueueReports()
        self._node_name = node_name
        self._settings = settings or Settings()
        self._cache = EntryCache(entry_bytes_kept_max)
        self._host: QueueHost
        self._check_at = 0
        self._busy = BusyQueues[QuorumQueue](loop)
        self._dead_letters_once = DeadLettersOnce(wall_ms)
        self.verdicts = Verdicts(ports, store, lambda: self.machine_version, reports.on_diverged)
        self.members = LocalMembers[QuorumQueue](
            KindOfMember(KIND, self._new_member, self._settings_of, rules or SnapshotRules()),
            self.queues,
            disk_id,
            ports=ports,
            store=store,
            catalog=catalog,
            new_replica=new_replica,
            reports=reports,
            on_leading=self._busy.leading_changed,
            on_unnamed=lambda queue: self._departures.begin(queue),
        )
        self.administration = Administration[QuorumQueue](ports, catalog.name_of, self.members.promise)
        self._departures = Departures(ports, self.members, catalog.incarnation_of, self.administration.figures)
        calls.serve(QUORUM_TOPIC, self._heard)
        calls.on_link(self._busy.link_changed)
        calls.on_writable(self._busy.writable)

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
        self.members.forget(queue)
        del self.queues[queue.group]
        self._busy.forget(queue)
        self._departures.forget(queue)
        return ready

    def publish(self, queues: Sequence[Queue], run: Run, receipt: Receipt | None, now: int) -> None:
        refused: ResourceExhausted | None = None
        for queue in queues:
            assert isinstance(queue, QuorumQueue), f"{queue!r} is no quorum queue"
            try:
                queue.publish(run, receipt)
            except ResourceExhausted as error:
                refused = error
        if refused is not None:
            raise refused

    # its queues

    def _new_member(self, queue: QuorumQueue, read_entry: Callable[[int], bytes]) -> Member:
        return Member(QueueMachine(), Bodies(queue.group, self._cache, read_entry), queue)

    def _settings_of(self, queue: QuorumQueue) -> Settings:
        """Where the queue was declared its member usually leads: its first clients are there."""
        at_home = queue.record.home == self._node_name
        return replace(self._settings, eagerness=EAGER) if at_home else self._settings

    def _lead(self, queue: QuorumQueue, member: Member) -> Leading:
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
        self._busy.tick()
        if self._check_at - CHECK_MS <= now < self._check_at:
            return  # it is too early, and the clock was not set back
        self._check_at = now + CHECK_MS
        self._departures.tick()
        self.members.begin_what_was_put_off()
        self._busy.check(now)

    # other nodes

    def _heard(self, node: NodeId, letter: bytes, answer: Callable[[Payload], None] | None) -> None:
        """Raises BadLetter, which ends the link."""
        kind, group = kind_and_group(letter, KINDS)
        queue = self.queues.get(group)
        if answer is not None:
            self._asked(kind, queue, node, letter, answer)
        elif queue is not None:
            self._told(kind, queue, node, letter)

    def _asked(
        self,
        kind: IntEnum,
        queue: QuorumQueue | None,
        node: NodeId,
        letter: bytes,
        answer: Callable[[Payload], None],
    ) -> None:
        if kind is GroupLetter.ADMIN:
            self.administration.asked(queue, letter, answer)
        elif kind is GroupLetter.COMPARE:
            answer(self.verdicts.compared(queue))
        elif kind is LetterKind.BROWSE:
            answer(self._browsed(queue, *letters.decode_browse(letter)))
        elif queue is None:
            answer(refusal(AnswerStatus.NO_GROUP, 0))
        elif queue.leading is None or not queue.route.leads:
            answer(refusal(AnswerStatus.NOT_LEADER, queue.route.leader()))
        elif kind is GroupLetter.PROPOSE:
            self._propose_for(node, queue, letter, answer)
        elif kind is GroupLetter.ATTEND:
            queue.leading.attend(node, *decode_attend(letter))
            answer(attending(self.key.node))
        else:
            raise BadLetter(f"node {node} asks for an answer to a letter of kind {kind.name}")

    def _propose_for(self, node: NodeId, queue: QuorumQueue, letter: bytes, answer: Callable[[Payload], None]) -> None:
        try:
            proposals.check(letter, HEAD.size, node, self._settings.entry_bytes_max)
        except RefusedProposal as error:
            self._refused(queue, f"what node {node} has to say is not proposed: {error}")
            answer(refused(self.key.node, str(error)))
            return
        ops = memoryview(letter)[HEAD.size :]
        queue.route.propose_here((ops,), partial(self._proposed, queue, answer))

    def _refused(self, queue: QuorumQueue, why: str) -> None:
        """Something was not proposed, as it would do harm to every member."""
        self.refusals += 1
        self._reports.on_refused(queue, why)

    def _proposed(
        self,
        queue: QuorumQueue,
        answer: Callable[[Payload], None],
        results: Sequence[Result] | None,
        error: RaftError | None,
    ) -> None:
        if results is None or queue.leading is None or queue.member is None:
            if isinstance(error, NotLeader):
                answer(refusal(AnswerStatus.NOT_LEADER, node_of(error.leader)))
            else:
                answer(refusal(AnswerStatus.AGAIN, queue.route.leader()))
            return
        fetched: list[tuple[Delivery, int]] = []
        for result in results:
            if type(result) is Got:
                try:
                    body = queue.member.bodies.get(result.piece)
                except Damaged as damage:
                    self._ports.groups.damaged(queue.group, damage)
                    answer(refusal(AnswerStatus.AGAIN, 0))
                    return
                end = skip(body.content, body.position, 1)
                fetched.append(
                    (Delivery(0, result.message_id, 1, result.delivery_count, result.acquired_count, body), end)
                )
        answer(letters.done(self.key.node, queue.leading.news(), results, fetched))

    def _browsed(self, queue: QuorumQueue | None, skip: int, limit: int) -> bytes:
        if queue is None or queue.member is None:
            return refusal(AnswerStatus.NO_GROUP, 0)
        try:
            return letters.browsed(queue.route.leader(), browse_member(queue.member, skip, limit))
        except Damaged as damage:
            self._ports.groups.damaged(queue.group, damage)
            return refusal(AnswerStatus.AGAIN, 0)

    def _told(self, kind: IntEnum, queue: QuorumQueue, node: NodeId, letter: bytes) -> None:
        match kind:
            case GroupLetter.GIVE_UP:
                self.verdicts.heard(queue, node, decode_give_up(letter))
            case LetterKind.DELIVER:
                found = letters.decode_deliver(letter)
                if queue.member is None:
                    counts = found.delivery_count, found.acquired_count
                    queue.deliver(found.number, WaitingDelivery(found.first_id, found.length, *counts, found.body))
                    self._host.wake(queue)
            case LetterKind.NEWS:
                queue.heard(letters.decode_news(letter))
            case LetterKind.TIMED_OUT:
                queue.timed_out(letters.decode_timed_out(letter))
            case LetterKind.USED:
                if queue.leading is not None:
                    queue.leading.used(self._ports.wall_ms())
            case GroupLetter.RELEASED:
                queue.route.forget(node)
                if queue.remote_serving is not None:
                    queue.remote_serving.lost(node)
            case _:
                raise BadLetter(f"node {node} wants no answer to a letter of kind {kind.name}")
