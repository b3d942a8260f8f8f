"""The quorum queues of one node. Fulfils broker.queue_type.QueueType.

Every node opens every queue; those that its record names as members' nodes take part in its group. A node *founds* its member,
with the whole first membership, only if the record still names the founders, among them the very member that this node's disk
would found, and the store has none. Otherwise the member that the record names was lost with an earlier disk, or was added
later: then the node begins with an empty one of a new number, and the leader takes it in. Where there is no other node, and so
no leader, see replicated/sole_replica.py.

Assembly: make it, hand `leading_changed` to Groups.on_leading and `lives_again` to whoever has a member repaired, `attach`
it to the broker, add it as a kind, let the broker recover, and call `tick` ten times a second.
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
from quorum.administration import Administration
from quorum.bodies import KEPT_BYTES_MAX, Bodies, EntryCache
from quorum.browsing import browse_member
from quorum.commands import Got, Result, SessionKey
from quorum.comparison import Odd
from quorum.dead_letters_once import DeadLettersOnce
from quorum.departures import Departures
from quorum.letters import KINDS, QUORUM_TOPIC, Delivery, LetterKind
from quorum.machine import QueueMachine
from quorum.member import Member
from quorum.proposals import RefusedProposal
from quorum.queue import QuorumQueue
from quorum.subscription import WaitingDelivery
from quorum.versions import VERSION_NEWEST
from raft.driver import SnapshotRules
from raft.errors import Damaged, NotLeader, RaftError
from raft.group_records import GroupIdentity
from raft.messages import MemberId, Membership, NodeId, member_id, node_of
from raft.replicas import NewReplica, successor
from raft.settings import Settings
from replicated.letters import (
    HEAD,
    AnswerStatus,
    BadLetter,
    GroupLetter,
    Verdict,
    attending,
    compared,
    decode_attend,
    decode_give_up,
    give_up,
    head,
    kind_and_group,
    refusal,
    refused,
)
from replicated.ports import Calls, Groups, Loop, MemberStore, Payload, QueuePorts, Store, Timer
from replicated.sole_replica import begin_alone, names_others, votes_alone
from replicated.verdicts import is_due
from storage.errors import Exhausted, StorageError

QUEUE_GROUPS = 1 << 32  # the group of a queue is this and its id; those below are the cluster's own
LOOK_S = 0.02  # how often queues without a leader look for one
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
        store: Store,
        calls: Calls,
        loop: Loop,
        wall_ms: Callable[[], int],
        monotonic: Callable[[], float],
        new_replica: NewReplica,
        set_members: Callable[[QueueRecord, tuple[MemberId, ...], int, bool], None],
        incarnation_of: Callable[[NodeId], int | None],
        node_name: str = "",
        settings: Settings | None = None,
        rules: SnapshotRules | None = None,
        on_damaged: Callable[[int, Damaged], None] | None = None,
        alone: Callable[[], bool] = lambda: False,
        catalog_is_behind: Callable[[], bool] = lambda: True,
        on_lost: Callable[[QueueRecord, int], None] = lambda record, kept: None,
        on_diverged: Callable[[QuorumQueue, Odd], None] | None = None,
        on_quarantined: Callable[[QuorumQueue, str], None] = lambda queue, why: None,
        on_refused: Callable[[QuorumQueue, str], None] = lambda queue, why: None,
        machine_version: int = VERSION_NEWEST,
        entry_bytes_kept_max: int = KEPT_BYTES_MAX,
    ) -> None:
        """`key`: this node and its incarnation. `disk_id`: of the members that it founds. `set_members` submits the metadata
        command, with the members, where in the log the group got them, and whether it began anew; it may fail, and is called
        again. `incarnation_of` a node of the cluster, None: there is no such node. `alone`: no other node may have members, as
        the catalog says. `catalog_is_behind`: its log may know more. `on_lost` is told of a queue that goes on with what is
        left here, and of the last entry of that; `on_quarantined` of one whose machine here cannot go on; `on_refused` of what
        was not proposed because it would do harm."""
        self.key = key
        self.ports = QueuePorts(key.node, key.incarnation, QUORUM_TOPIC, groups, calls, loop, wall_ms, monotonic)
        self.groups = groups
        self.calls = calls
        self.wall_ms = wall_ms
        self.monotonic = monotonic
        self.set_members = set_members
        self.incarnation_of = incarnation_of
        self.name_of: Callable[[NodeId], str] = str  # what people call a node
        self.host: QueueHost
        self.queues: dict[int, QuorumQueue] = {}  # by group
        self._disk_id = disk_id
        self._store = store
        self.loop = loop
        self.new_replica = new_replica
        self._promised: dict[int, MemberId] = {}  # by group: the member that its leader was told to add here
        self._node_name = node_name
        self._settings = settings or Settings()
        self._snapshot_rules = rules or SnapshotRules()
        self._on_damaged = on_damaged
        self.alone = alone
        self._catalog_is_behind = catalog_is_behind
        self._on_lost = on_lost
        self._on_diverged = on_diverged
        self._on_quarantined = on_quarantined
        self._on_refused = on_refused
        self.refusals = (
            0  # of what other nodes wanted to have proposed, and of what these refused to propose for this one
        )
        self.divergences = 0  # times that members of a queue led from here were found in different states
        self.machine_version = machine_version  # the newest that groups may be brought to, as far as this node knows
        self._cache = EntryCache(entry_bytes_kept_max)
        self._leading: dict[QuorumQueue, None] = {}
        self._looking: dict[QuorumQueue, None] = {}  # for a leader
        self._look_timer: Timer | None = None
        self._asking: dict[QuorumQueue, None] = {}  # a leader, and its answer is not there
        self._attending: dict[QuorumQueue, None] = {}  # in use here, where they have no member
        self._put_off: dict[QuorumQueue, None] = {}  # whose member here begins when there is room or a descriptor again
        self._check_at = 0
        self.dead_letters_once = DeadLettersOnce(self)
        self.administration = Administration(self)
        self.departures = Departures(self)
        calls.serve(QUORUM_TOPIC, self._heard)
        calls.on_link(self._link_changed)
        calls.on_writable(self._writable)

    def attach(self, host: QueueHost) -> None:
        """Before the first queue is opened."""
        self.host = host

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
        queue = self.queues[group] = QuorumQueue(record, effective, self, group)
        self._take_part(queue)
        return queue

    def delete(self, queue: Queue, now: int) -> int:
        assert isinstance(queue, QuorumQueue), f"{queue!r} is no quorum queue"
        ready = queue.ready_count
        queue.close()
        self.drop_member(queue)
        del self.queues[queue.group]
        for some in (self._leading, self._looking, self._asking, self._attending, self._put_off):
            some.pop(queue, None)
        self.departures.forget(queue)
        self._promised.pop(queue.group, None)
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

    # members

    def _take_part(self, queue: QuorumQueue) -> None:
        """As its record, and what the disk has, say. Nobody founds a member for a record that has changed: it was here, and was
        removed, or the others have gone on without it. A member that is here and not named goes on, until it may leave."""
        named = next((member for member in queue.record.members if node_of(member) == self.key.node), None)
        if named is not None and not self.has_log(queue):
            try:
                self._store.create_group(self._new_identity(queue, named))
            except Exhausted:  # the number of the new member could not be kept, and nothing was begun
                self._put_off[queue] = None
                return
        if self.has_log(queue):
            self._begin(queue)
        if named is None:
            self.departures.begin(queue)

    def has_log(self, queue: QuorumQueue) -> bool:
        """Whether this node keeps a member of it, whether or not that takes part now."""
        return queue.group in self._store.stores

    def term_on_disk(self, queue: QuorumQueue) -> int:
        """The highest in which its member here has promised anything."""
        return self._store.group(queue.group).facts().term

    def _new_identity(self, queue: QuorumQueue, named: MemberId) -> GroupIdentity:
        label = f"{queue.record.vhost}/{queue.record.name}"
        if not queue.record.formed and named == member_id(self.key.node, self._disk_id):
            return GroupIdentity(queue.group, named, label, KIND, Membership(tuple(sorted(queue.record.members))))
        # What the leader was promised to, no member has been yet. Any other one that is named may be lost with all it promised.
        mine = named if self._promised.pop(queue.group, 0) == named else successor(named, self.new_replica)
        return GroupIdentity(queue.group, mine, label, KIND, Membership(()))

    def promise_member(self, queue: QuorumQueue) -> MemberId:
        """The member that begins here once the queue's record names it: whoever leads the group is about to add it."""
        mine = self._promised[queue.group] = member_id(self.key.node, self.new_replica(0))
        return mine

    def _begin(self, queue: QuorumQueue) -> None:
        store = self._store.group(queue.group)
        if self._goes_on_alone(queue, store):
            self._on_lost(queue.record, begin_alone(store))
        member = Member(QueueMachine(), Bodies(queue.group, self._cache, partial(self._read_entry, store)), queue)
        try:
            driver = self.groups.add(
                queue.group, store.member, store, member, self._settings_of(queue), self._snapshot_rules
            )
        except Damaged as damage:  # its snapshot
            if self._on_damaged is None:
                raise
            self._on_damaged(queue.group, damage)
            return
        if driver.halted is not None:
            self._quarantine(queue, driver.halted)
            return
        queue.joined(driver, member)
        if driver.leads:
            self.leading_changed(queue.group)

    def _goes_on_alone(self, queue: QuorumQueue, store: MemberStore) -> bool:
        """What a start has of the catalog was written behind its log: until that is read the member may have been shared with
        nodes which only its own log names."""
        if votes_alone(store) or not self._is_last_copy(queue):
            return False
        return not (names_others(store) and self._catalog_is_behind())

    def _read_entry(self, store: MemberStore, index: int) -> bytes:
        """Raises Damaged. What the disk just does not give may be there all the same: no member is given up for that. As
        wherever the disk fails, the node stops; a later life of it may read it."""
        try:
            return store.read_entry(index)
        except StorageError as error:
            self.groups.fail(str(error))
            raise Damaged(f"entry {index} cannot be read, and its node stops: {error}") from error

    def _settings_of(self, queue: QuorumQueue) -> Settings:
        """Where the queue was declared its member usually leads: its first clients are there."""
        at_home = queue.record.home == self._node_name
        return replace(self._settings, eagerness=EAGER) if at_home else self._settings

    def drop_member(self, queue: QuorumQueue) -> None:
        """The member here, and its log. What it has acknowledged must not be needed any more: quorum/departures.py."""
        if queue.member is not None or queue.quarantined is not None:
            queue.left()
            queue.quarantined = None
            self._leading.pop(queue, None)
            self.groups.remove(queue.group)
        if self.has_log(queue):
            self._store.remove_group(queue.group)

    def members_changed(self, record: QueueRecord) -> None:
        """The catalog's record of a queue names other members now (SetQueueMembers was applied)."""
        queue = self.queues.get(QUEUE_GROUPS + record.id)
        if queue is None:
            return
        queue.record = record
        if self.key.node not in queue.member_nodes():
            self.departures.begin(queue)
        elif queue.member is None and not self.has_log(queue):
            self._take_part(queue)

    def damaged(self, group: int) -> None:
        """The group's member here could not read what it had stored, and takes part no more (Groups.on_damaged)."""
        queue = self.queues.get(group)
        if queue is not None:
            self._leading.pop(queue, None)
            queue.quarantined = None
            queue.left()

    def halted(self, group: int, why: str) -> None:
        """The machine of the group's member here cannot go on (Groups.on_halted)."""
        queue = self.queues.get(group)
        if queue is not None:
            self._leading.pop(queue, None)
            self._quarantine(queue, why)

    def _quarantine(self, queue: QuorumQueue, why: str) -> None:
        """Clients here are served by another node's member, if there is one that can go on. This one votes and keeps what it is
        sent, until a later start or version knows how to go on."""
        queue.quarantined = why
        queue.left()
        self._on_quarantined(queue, why)

    @property
    def quarantined(self) -> list[QuorumQueue]:
        """Those whose member here takes no part."""
        return [queue for queue in self.queues.values() if queue.quarantined is not None]

    def lives_again(self, group: int) -> bool:
        """The store has made another member of it. False: it was the last copy, and some of what sessions of this process were
        told is not in it any more. Only another process can go on with it. Raises what the disk does, and the node stops."""
        queue = self.queues.get(group)
        if queue is not None and self._is_last_copy(queue):
            return False
        if queue is not None:
            try:
                self._begin(queue)
            except StorageError as error:
                self.groups.fail(str(error))
                raise
        return True

    def _is_last_copy(self, queue: QuorumQueue) -> bool:
        """Whether nobody else can repair it."""
        return self.alone() and set(queue.member_nodes()) == {self.key.node}

    def leading_changed(self, group: int) -> None:
        """The leadership of a group has come to this node, or has left it (Groups.on_leading)."""
        queue = self.queues.get(group)
        if queue is None or queue.member is None:
            return
        queue.leading_changed()
        if queue.leading is not None:
            self._leading[queue] = None
        else:
            self._leading.pop(queue, None)

    # what queues ask

    def look_for_leader(self, queue: QuorumQueue) -> None:
        """It has something to say, and nobody to say it to."""
        self._looking[queue] = None
        if self._look_timer is None:
            self._look_timer = self.loop.call_later(LOOK_S, self._look)

    def _look(self) -> None:
        if self._look_timer is not None:
            self._look_timer.cancel()  # a link has come: this is before its time
            self._look_timer = None
        looking, self._looking = self._looking, {}
        for queue in looking:
            queue.try_again()
            if queue.finds_no_leader:
                self._looking[queue] = None
        if self._looking and self._look_timer is None:
            self._look_timer = self.loop.call_later(LOOK_S, self._look)

    def used(self, queue: QuorumQueue) -> None:
        """It was declared again here; its leader has just answered."""
        if queue.leading is not None:
            queue.leading.used(self.wall_ms())
        else:
            self.calls.tell(queue.route.leader(), QUORUM_TOPIC, head(LetterKind.USED, queue.group))

    def asking(self, queue: QuorumQueue) -> None:
        """It wants to be reminded, a tenth of a second later and on, until it says no (`still_asks`)."""
        self._asking[queue] = None

    def attending(self, queue: QuorumQueue) -> None:
        """It wants to be asked for again, every CHECK_MS."""
        self._attending[queue] = None

    @property
    def led(self) -> Collection[QuorumQueue]:
        """Those that this node leads."""
        return self._leading.keys()

    # now and then

    @property
    def congested(self) -> bool:
        """Whether publishers should pause: too much waits for leaders, or to be passed on by this one."""
        return self.waiting_bytes > WAITING_BYTES_MAX or self.dead_letters_once.is_full

    @property
    def waiting_bytes(self) -> int:
        """Said and not answered, by queues that have a leader. Only those that wait for an answer are looked at."""
        return sum([queue.session.waiting_bytes for queue in self._asking if queue.has_leader])

    def tick(self, now: int) -> None:
        """Called some ten times a second."""
        for queue in self._leading:
            if queue.leading is not None:
                queue.leading.tell_news()
        for queue in list(self._asking):
            if not queue.still_asks():
                del self._asking[queue]
        if self._check_at - CHECK_MS <= now < self._check_at:
            return  # it is too early, and the clock was not set back
        self._check_at = now + CHECK_MS
        self.departures.tick()
        self._begin_what_was_put_off()
        for queue in list(self._leading):
            if queue.leading is not None:
                queue.leading.check(now)
        for queue in list(self._attending):
            if queue.attention is None or not queue.attention.go_on(now):
                del self._attending[queue]

    def _begin_what_was_put_off(self) -> None:
        put_off, self._put_off = self._put_off, {}
        for queue in put_off:
            self.members_changed(queue.record)  # which may name other nodes by now

    # other nodes

    def _link_changed(self, node: NodeId, came: bool) -> None:
        if came:
            self._look()
            return
        for queue in list(self._leading):
            if queue.leading is not None:
                queue.leading.link_went(node)
        for queue in list(self._attending):
            if queue.attention is not None:
                queue.attention.lost(node)

    def _writable(self, node: NodeId) -> None:
        for queue in list(self._leading):
            if queue.leading is not None:
                queue.leading.writable(node)

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
            answer(self._compared(queue))
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
            self.refused(queue, f"what node {node} has to say is not proposed: {error}")
            answer(refused(self.key.node, str(error)))
            return
        ops = memoryview(letter)[HEAD.size :]
        queue.route.propose_here((ops,), partial(self._proposed, queue, answer))

    def refused(self, queue: QuorumQueue, why: str) -> None:
        """Something was not proposed, as it would do harm to every member."""
        self.refusals += 1
        self._on_refused(queue, why)

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
                    self.groups.damaged(queue.group, damage)
                    answer(refusal(AnswerStatus.AGAIN, 0))
                    return
                end = skip(body.content, body.position, 1)
                fetched.append(
                    (Delivery(0, result.message_id, 1, result.delivery_count, result.acquired_count, body), end)
                )
        answer(letters.done(self.key.node, queue.leading.news(), results, fetched))

    def _compared(self, queue: QuorumQueue | None) -> bytes:
        if queue is None or queue.member is None:
            return refusal(AnswerStatus.NO_GROUP, 0)
        digests = queue.member.told_digests = queue.member.marks.all(queue.member.machine)
        return compared(queue.route.leader(), self.machine_version, digests.items())

    def _browsed(self, queue: QuorumQueue | None, skip: int, limit: int) -> bytes:
        if queue is None or queue.member is None:
            return refusal(AnswerStatus.NO_GROUP, 0)
        try:
            return letters.browsed(queue.route.leader(), browse_member(queue.member, skip, limit))
        except Damaged as damage:
            self.groups.damaged(queue.group, damage)
            return refusal(AnswerStatus.AGAIN, 0)

    def diverged(self, queue: QuorumQueue, odd: Odd) -> None:
        """Members of the queue have come to different states."""
        self.divergences += 1
        if self._on_diverged is not None:
            self._on_diverged(queue, odd)

    def give_up_member(self, queue: QuorumQueue, verdict: Verdict) -> None:
        """This node leads, and a majority has come to another state than this member, which is to be made anew."""
        node = node_of(verdict.member)
        if node != self.key.node:
            self.calls.tell(node, QUORUM_TOPIC, give_up(queue.group, verdict))
        elif queue.member is not None:
            self._give_up(queue, verdict)

    def _told_to_give_up(self, queue: QuorumQueue, node: NodeId, verdict: Verdict) -> None:
        driver, member = queue.route.driver, queue.member
        if driver is None or member is None:
            return
        if is_due(verdict, node, driver, self._store.group(queue.group), member.told_digests):
            self._give_up(queue, verdict)

    def _give_up(self, queue: QuorumQueue, verdict: Verdict) -> None:
        text = f"its state after entry {verdict.after} is not the one that a majority of the members has come to"
        self.groups.damaged(queue.group, Damaged(text))

    def _told(self, kind: IntEnum, queue: QuorumQueue, node: NodeId, letter: bytes) -> None:
        match kind:
            case GroupLetter.GIVE_UP:
                self._told_to_give_up(queue, node, decode_give_up(letter))
            case LetterKind.DELIVER:
                found = letters.decode_deliver(letter)
                if queue.member is None:
                    counts = found.delivery_count, found.acquired_count
                    queue.deliver(found.number, WaitingDelivery(found.first_id, found.length, *counts, found.body))
                    self.host.wake(queue)
            case LetterKind.NEWS:
                queue.heard(letters.decode_news(letter))
            case LetterKind.TIMED_OUT:
                queue.timed_out(letters.decode_timed_out(letter))
            case LetterKind.USED:
                if queue.leading is not None:
                    queue.leading.used(self.wall_ms())
            case GroupLetter.RELEASED:
                queue.route.forget(node)
                if queue.attention is not None:
                    queue.attention.lost(node)
            case _:
                raise BadLetter(f"node {node} wants no answer to a letter of kind {kind.name}")
