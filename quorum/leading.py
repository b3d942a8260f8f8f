"""What only the leader's node does for a queue.

    time           proposes TICK when the machine's deadline has come, for machines have no clock
    rules          proposes POLICY when the machine does not keep to what is declared
    nodes          tells the machine which nodes cannot be reached, are back, or have begun a new life
    attendants     nodes without a member that have consumers: sends them what these are given, with the messages
    dead letters   at most once in dead_letters_once.py, at least once in dead_letters.py
    group          what the leader's node does for any group, in replicated/leader_duties.py

What is proposed here and lost is proposed again by whoever leads then: the machine still asks for it, or the tick sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from broker.queues.queue_type import EXPIRES_RETRY_MS, UNUSED, Queue, QueueHost
from native.content import skip
from quorum import letters
from quorum.bodies import Body
from quorum.dead_letters import DeadLetterWorker
from quorum.dead_letters_once import DeadLettersOnce
from quorum.entries import QueueEntries
from quorum.fifo import commands
from quorum.fifo.commands import ConsumerKey, NodeDown, NodeUp, Op, Policy, SessionGone, SessionKey, Tick, Upgrade
from quorum.fifo.effects import DeadHeld, DeadLetter, Deliver, Effect, Unused
from quorum.fifo.results import Result
from quorum.fifo.rules import Rules
from quorum.holding import Orphanage
from quorum.letters import Delivery, QueueNews
from quorum.member import QueueMember
from quorum.subscription import FIRST_ID
from raft.core.errors import Damaged, RaftError
from raft.core.messages import NodeId
from replicated.leader_duties import LeaderDuties
from replicated.letters import GroupLetter, head
from replicated.ports import CatalogPorts, QueuePorts
from replicated.queue import ReplicatedQueue
from replicated.verdicts import Verdicts
from storage.interval import Interval

ATTENDED_MS = 10_000  # nodes ask again long before
PUT_OFF_MS = 10  # a tick, while too many dead letters wait to be published


class LedQueue(Queue, ReplicatedQueue, Protocol):
    """The queue that is led."""

    @property
    def rules(self) -> Rules: ...

    @property
    def entries(self) -> QueueEntries: ...


class Attendant:
    """A node that is served by the leader's."""

    __slots__ = ("behind", "incarnation", "news", "next_ids", "until")

    def __init__(self, incarnation: int) -> None:
        self.incarnation = incarnation
        self.next_ids: dict[int, int] = {}  # by number of the consumer: of the first message that was not sent
        self.behind = False  # the link is full: what is out is looked up when it has room again
        self.news: QueueNews | None = None  # that was told last
        self.until = 0  # ms; it is served no longer, unless it asks again


class Leading:
    """One leadership of this node. `begin` it, then `end` it."""

    def __init__(
        self,
        queue: LedQueue,
        member: QueueMember,
        key: SessionKey,
        *,
        ports: QueuePorts,
        host: QueueHost,
        catalog: CatalogPorts,
        verdicts: Verdicts,
        dead_letters_once: DeadLettersOnce,
    ) -> None:
        """`key`: of this node."""
        driver = queue.route.driver
        assert driver is not None, f"{queue.record.name} is led without a driver"
        self._queue = queue
        self._key = key
        self._ports = ports
        self._host = host
        self._incarnation_of = catalog.incarnation_of
        self._dead_letters_once = dead_letters_once
        self._member = member
        self._machine = member.machine
        self._driver = driver
        # Entries up to here are of others' leaderships, or of an earlier life of this process: who led then has
        # published the dead letters that come of them.
        self._since = driver.core.status().last
        self.attendants: dict[NodeId, Attendant] = {}
        self._deadline: int | None = None
        self._cancel_deadline: Callable[[], None] | None = None
        self._under_way: set[type] = set()  # of what was proposed here and is not answered: once is enough
        self._used_at = ports.wall_ms()
        self._worker = DeadLetterWorker(queue, queue.group, member, ports, host, partial(_propose, queue))
        self._orphanage = Orphanage(queue, host, catalog.holding_needed)
        self._unused_since: int | None = None  # as the machine counts; it should be deleted, unless it was used since
        self._deletion_pause = Interval(EXPIRES_RETRY_MS)
        self.group = LeaderDuties(queue, ports, catalog, verdicts, partial(_upgrade, queue))
        self.ended = False

    def begin(self) -> None:
        self._member.due_elsewhere = self._driver.tell_commits  # members there deliver as soon as they hear of it
        self.keep_rules()
        self.look_at_deadline()
        self._worker.look()
        self.group.begin()

    def end(self) -> None:
        self.ended = True
        self.group.end()
        self._member.due_elsewhere = None
        if self._cancel_deadline is not None:
            self._cancel_deadline()
            self._cancel_deadline = None
        self._worker.end()
        for node in self.attendants:
            self._ports.calls.tell(node, self._ports.topic, head(GroupLetter.RELEASED, self._queue.group))

    # proposing

    def propose(self, ops: Sequence[Op], on_done: Callable[[bool], None] | None = None) -> None:
        """`on_done` is told whether they were applied; False says nothing."""
        _propose(self._queue, ops, on_done)

    def propose_once(self, op: Op) -> None:
        what = type(op)
        if what not in self._under_way:
            self._under_way.add(what)
            self.propose((op,), lambda _: self._under_way.discard(what))

    def keep_rules(self) -> None:
        if self._machine.rules != self._queue.rules:
            self.propose_once(Policy(self._queue.rules))

    # time

    def look_at_deadline(self) -> None:
        """Called whenever entries were applied."""
        deadline = self._machine.deadline
        if deadline == self._deadline:
            return
        if self._cancel_deadline is not None:
            self._cancel_deadline()
            self._cancel_deadline = None
        self._deadline = deadline
        if deadline is not None:
            ahead = self._queue.entries.now_ms() - self._ports.wall_ms()
            self._cancel_deadline = self._host.call_at(deadline - ahead, self._due)

    def _due(self, now: int) -> None:
        self._deadline = self._cancel_deadline = None
        if self.ended:
            return
        if self._dead_letters_once.holds_ticks:  # the machine would bury faster than messages are passed on
            self._cancel_deadline = self._host.call_after(PUT_OFF_MS, self._due)
        else:
            self.propose_once(Tick())

    def _keep_deadline(self, now: int) -> None:
        """The wall clock may have been set back since it was decided when to look."""
        if self._deadline is None:
            self.look_at_deadline()
        elif self._deadline <= self._queue.entries.now_ms() and self._cancel_deadline is not None:
            self._cancel_deadline()
            self._due(now)

    # what is due now and then

    def check(self, now: int) -> None:
        """Called about once a second."""
        self.keep_rules()
        self._keep_deadline(now)
        self._check_nodes()
        self._worker.look()
        self.group.check(now)
        self._orphanage.check(now)
        self._try_again_to_delete(now)
        for node in [node for node, one in self.attendants.items() if one.until <= now]:
            del self.attendants[node]

    def _check_nodes(self) -> None:
        ops: list[Op] = []
        suspected = self._machine.suspected()
        for key in self._machine.sessions():
            if key.node == self._key.node:
                if key != self._key:
                    ops.append(SessionGone(key))  # an earlier life of this process
                elif key in suspected:
                    ops.append(NodeUp(key))  # a leader before has not seen it; it leads now
                continue
            incarnation = self._incarnation_of(key.node)
            reachable = self._ports.groups.trusts(key.node)
            if incarnation is None and reachable:
                continue  # it has joined, and the catalog here does not know it yet
            if incarnation is None or incarnation > key.incarnation:
                ops.append(SessionGone(key))
            elif reachable == (key in suspected):
                ops.append(NodeUp(key) if key in suspected else NodeDown(key))
        if ops and SessionKey not in self._under_way:
            self._under_way.add(SessionKey)
            self.propose(ops, lambda _: self._under_way.discard(SessionKey))

    def check_record(self) -> None:
        self.group.check_record()

    # nodes without a member

    def serves(self, node: NodeId) -> bool:
        return node in self.attendants

    def attend(self, node: NodeId, incarnation: int, consumers: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
        """The node asks to be served, and says how far each of its consumers has come. Where what comes next was taken away
        before it was there, it is told what comes instead: it would take that for lost, and ask again for ever. Who timed out
        is told again: the first letter may have been lost, with a leader say."""
        attendant = self.attendants.get(node)
        if attendant is None or attendant.incarnation != incarnation:
            attendant = self.attendants[node] = Attendant(incarnation)
        attendant.next_ids = dict(consumers)
        attendant.until = self._ports.wall_ms() + ATTENDED_MS
        self._catch_up(node, attendant)
        self._tell_news(node, attendant)
        found: list[tuple[int, int, int]] = []
        for number, next_id in consumers:
            key = ConsumerKey(node, incarnation, number)
            if self._member.has_timed_out(key):
                self.tell_timed_out(key)
            found.append((number, next_id, self._member.first_held(key, next_id)))
        return [(number, first_id) for number, next_id, first_id in found if first_id > next_id]

    def link_went(self, node: NodeId) -> None:
        self.attendants.pop(node, None)
        self.group.link_went(node)

    def writable(self, node: NodeId) -> None:
        attendant = self.attendants.get(node)
        if attendant is not None and attendant.behind:
            self._catch_up(node, attendant)

    def _catch_up(self, node: NodeId, attendant: Attendant) -> None:
        """Send what is out to its consumers and was not sent."""
        attendant.behind = False
        for number, next_id in list(attendant.next_ids.items()):
            key = ConsumerKey(node, attendant.incarnation, number)
            for effect in self._machine.checked_out(key, next_id):
                self._send(node, attendant, effect)

    def deliver(self, effect: Deliver) -> None:
        """To a consumer of another node."""
        node, incarnation, number = effect.consumer
        attendant = self.attendants.get(node)
        if attendant is None or attendant.incarnation != incarnation:
            return
        if effect.first_id == attendant.next_ids.setdefault(number, FIRST_ID):
            self._send(node, attendant, effect)
        elif effect.first_id > attendant.next_ids[number]:
            self._catch_up(node, attendant)

    def _send(self, node: NodeId, attendant: Attendant, effect: Deliver) -> None:
        if attendant.behind or not self._ports.calls.writable(node):
            attendant.behind = True
            return
        if not self._member.holds(effect.consumer, effect.first_id):
            return  # it was taken away since
        body = self._body(effect)
        if body is None:
            return
        count = effect.piece.length
        delivery = Delivery(
            effect.consumer.number, effect.first_id, count, effect.delivery_count, effect.acquired_count, body
        )
        end = skip(body.content, body.position, count)
        self._ports.calls.tell(node, self._ports.topic, letters.deliver(self._queue.group, delivery, end))
        attendant.next_ids[effect.consumer.number] = effect.first_id + count

    def _body(self, effect: Deliver) -> Body | None:
        try:
            return self._member.bodies.get(effect.piece)
        except Damaged as damage:
            self._ports.groups.damaged(self._queue.group, damage)
            return None

    def tell_timed_out(self, consumer: ConsumerKey) -> None:
        if consumer.node in self.attendants:
            letter = letters.timed_out(self._queue.group, consumer.number)
            self._ports.calls.tell(consumer.node, self._ports.topic, letter)

    def tell_news(self) -> None:
        for node, attendant in self.attendants.items():
            self._tell_news(node, attendant)

    def _tell_news(self, node: NodeId, attendant: Attendant) -> None:
        now = self.news()
        if now != attendant.news:
            attendant.news = now
            self._ports.calls.tell(node, self._ports.topic, letters.news(self._queue.group, now))

    def news(self) -> QueueNews:
        figures, state = self._machine.figures(), self._machine.state
        return QueueNews(
            state.applied,
            figures.ready,
            figures.ready_bytes,
            figures.unacknowledged,
            figures.unacknowledged_bytes,
            figures.consumers,
            exclusive=state.consumers.exclusive,
            single_active=state.rules.single_active,
            active=figures.active,
        )

    # effects that are the leader's

    def body_of_dead(self, index: int, dead: DeadLetter) -> Body | None:
        """The message, as long as the log has it. None: it is not for us to publish. Raises Damaged."""
        return self._member.bodies.get(dead.piece) if index > self._since else None

    def perform(self, effect: Effect, now: int) -> None:
        if isinstance(effect, DeadHeld):
            self._worker.look()
        elif isinstance(effect, Unused):
            self._unused_since = self._machine.state.used_at
            self._unused(now)

    @property
    def dead_letters_nowhere(self) -> int:
        """Those that are held and have nowhere to go."""
        return self._worker.nowhere

    def used(self, now: int) -> None:
        """Somebody declared the queue again, here or elsewhere."""
        self._used_at = now

    def _try_again_to_delete(self, now: int) -> None:
        """It was refused: the catalog had no majority, say."""
        if self._unused_since is None or self._deletion_pause.lasts(now):
            return
        if self._machine.state.used_at != self._unused_since or self._queue.consumer_count:
            self._unused_since = None
        elif now - self._used_at >= (self._queue.rules.expires_ms or 0):
            self._unused(now)

    def _unused(self, now: int) -> None:
        self._deletion_pause.begin(now)
        expires = self._queue.rules.expires_ms
        if expires is None:
            return
        if now - self._used_at >= expires:
            self._host.delete_queue(self._queue, UNUSED, partial(self._is_as_unused, self._unused_since, self._used_at))
        else:
            self._host.call_at(self._used_at + expires, self._look_at_use)

    def _is_as_unused(self, since: int | None, used_at: int) -> bool:
        as_it_was = (self._machine.state.used_at, self._used_at) == (since, used_at)
        return as_it_was and not (self.ended or self._queue.consumer_count)

    def _look_at_use(self, now: int) -> None:
        if not self.ended and not self._queue.consumer_count:
            self._unused(now)


# What parts of a Leading call is given the queue, and not the Leading: it would end as a cycle, and with it the member.


def _propose(queue: LedQueue, ops: Sequence[Op], on_done: Callable[[bool], None] | None = None) -> None:
    def told(results: Sequence[Result] | None, error: RaftError | None) -> None:
        if on_done is not None:
            on_done(results is not None)

    queue.route.propose_here([commands.encode(op) for op in ops], told)


def _upgrade(queue: LedQueue, version: int) -> None:
    leading = queue.leading
    if isinstance(leading, Leading):
        leading.propose_once(Upgrade(version))
